"""What another model says: class vectors with few labels or none, and boosted trees on tables.

    DSSL_DATA=... python -m tests.benchmarks.soft_labels vectors --sets usps letter --out vectors.jsonl --draws 3
    DSSL_DATA=... python -m tests.benchmarks.soft_labels tables --sets phishing --out tables.jsonl --draws 3
    DSSL_DATA=... python -m tests.benchmarks.soft_labels quantities --sets cpusmall_scale --out quantities.jsonl
    python -m tests.benchmarks.soft_labels vectors --out vectors.jsonl --table

Of at most `--points` points all are points of the fit; accuracies are of those without a label.

vectors : stand-ins for class texts are the means of five points of each class, with as much noise as
brings them to `--alone` percent by themselves. `useless` are random vectors, `harmful` those of the
next class. `alone` is the other model, `labels` the fit without it, `both` the fit with it.

tables : `boosting` is scikit-learn's, `automatic` the fit without it, `both` the fit with
`base_estimator="boosting"`, with a share of the labels drawn at random; `transductive` is
`TransductiveSVC`. `says` is what held-out labels say of `both` against boosting alone. quantities :
the same of a regression, with R2 in percent.

One JSON line a draw goes to `--out`; what is in the file is not measured again. `--table` prints
means and standard errors of the differences from the fit without the other model.
"""

import argparse
import os
import time
import warnings
from collections import Counter
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import r2_score

from dssl import SemiSupervisedClassifier, SemiSupervisedRegressor, TransductiveSVC
from dssl.learners.soft_labels import class_similarities

from .draws import draw_labels
from .line_file import LineFile
from .low_labels import stored

SHOTS = 5
NOISE = np.linspace(0, 4, 41)  # standard deviations of the class vectors
PER_CLASS, SHARES = (0, 1, 5), (0.01, 0.1, 0.5)


def load(name: str, max_points: int, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (n, d) and codes (n,) of a data set: of scikit-learn, a file, or DSSL_DATA."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    elif os.path.exists(name):
        with np.load(name) as held:
            X, y = held["X"].astype(np.float64), held["y"]
    else:
        X, y = stored(name)
    codes = np.unique(y, return_inverse=True)[1]
    kept = np.sort(np.random.default_rng([random_state, 1]).permutation(len(codes))[:max_points])
    return X[kept], np.unique(codes[kept], return_inverse=True)[1]


def class_vectors(X: np.ndarray, y: np.ndarray, alone: float, random_state: int) -> np.ndarray:
    """Return means of a few points of each class, with noise until they are right for a share `alone` of the points."""
    rng = np.random.default_rng([random_state, 2])
    means = np.stack([X[rng.permutation(np.flatnonzero(y == code))[:SHOTS]].mean(axis=0) for code in np.unique(y)])
    noise = rng.normal(size=means.shape) * means.std()
    for scale in NOISE:
        vectors = means + scale * noise
        if (class_similarities(X, vectors, X.mean(axis=0)).argmax(axis=1) == y).mean() <= alone:
            break
    return vectors


def measured_vectors(name: str, per_class: int, draw: int, args: argparse.Namespace) -> dict[str, Any]:
    X, y = load(name, args.points, draw)
    labels = draw_labels(y, per_class, [draw, 3]) if per_class else np.full(len(y), -1)
    hidden, line = labels < 0, dict[str, Any]()
    vectors = class_vectors(X, y, args.alone / 100, draw)
    random = np.random.default_rng([draw, 4]).normal(size=vectors.shape) * vectors.std() + vectors.mean(axis=0)
    kinds = {"good": vectors, "useless": random, "harmful": np.roll(vectors, 1, axis=0)}
    if per_class:
        line["labels"] = accuracy(SemiSupervisedClassifier().fit(X, labels).transduction_, y, hidden)
    for kind, given in kinds.items() if per_class else [("good", vectors)]:
        begin = time.perf_counter()
        model = SemiSupervisedClassifier(class_embeddings=given).fit(X, labels)
        line |= {f"{kind}_both": accuracy(model.transduction_, y, hidden),
                 f"{kind}_seconds": time.perf_counter() - begin}
        cosines = class_similarities(X, given, X.mean(axis=0))
        line[f"{kind}_alone"] = accuracy(cosines.argmax(axis=1), y, hidden)
    return line


def measured_tables(name: str, share: float, draw: int, args: argparse.Namespace) -> dict[str, Any]:
    X, y = load(name, args.points, draw)
    n_classes = int(y.max()) + 1
    labels = draw_labels(y, share * len(y) / n_classes, [draw, 5], "random", fewest_classes=2,
                         fewest_per_class=2 if n_classes == 2 else 0)  # rare ones of several may have none
    known, hidden = np.flatnonzero(labels >= 0), labels < 0
    boosting = HistGradientBoostingClassifier(random_state=0).fit(X[known], labels[known])
    line = {"boosting": accuracy(boosting.predict(X), y, hidden),
            "automatic": accuracy(SemiSupervisedClassifier().fit(X, labels).transduction_, y, hidden),
            "transductive": accuracy(TransductiveSVC().fit(X, labels).transduction_, y, hidden)}
    begin = time.perf_counter()
    model = SemiSupervisedClassifier(base_estimator="boosting").fit(X, labels)
    evidence = model.evidence_["other_model"]
    return line | {"both": accuracy(model.transduction_, y, hidden), "seconds": time.perf_counter() - begin,
                   "says": said_over_alone(evidence)}


def measured_quantities(name: str, share: float, draw: int, args: argparse.Namespace) -> dict[str, Any]:
    X, y = stored(name)
    kept = np.sort(np.random.default_rng([draw, 1]).permutation(len(y))[:args.points])
    X, y = X[kept], y[kept].astype(np.float64)
    known = np.random.default_rng([draw, 5]).permutation(len(y))[:max(2, round(share * len(y)))]
    hidden = np.ones(len(y), bool)
    hidden[known] = False
    shown = np.where(hidden, np.nan, y)
    boosting = HistGradientBoostingRegressor(random_state=0).fit(X[known], y[known])
    values = {"boosting": boosting.predict(X), "automatic": SemiSupervisedRegressor().fit(X, shown).transduction_}
    begin = time.perf_counter()
    model = SemiSupervisedRegressor(base_estimator="boosting").fit(X, shown)
    values["both"] = model.transduction_
    return {**{key: 100 * r2_score(y[hidden], each[hidden]) for key, each in values.items()},
            "seconds": time.perf_counter() - begin, "says": said_over_alone(model.evidence_["other_model"])}


def said_over_alone(evidence: dict[str, Any]) -> str:
    """Return what held-out labels say of the fit against the other model alone."""
    return str(evidence["gain_over_other"]["verdict"]) if "gain_over_other" in evidence else "too few labels"


def accuracy(predicted: np.ndarray, y: np.ndarray, hidden: np.ndarray) -> float:
    return 100 * float((predicted == y)[hidden].mean())


def table(lines: list[dict[str, Any]], what: str) -> str:
    """Return means of the draws in Markdown."""
    key, columns = ("per_class", ["labels", "good_alone", "good_both", "useless_both", "harmful_both"]) \
        if what == "vectors" else ("share", ["boosting", "automatic", "transductive", "both"])
    of, rows = columns[0], [[what, key, "draws", *columns]]
    for name, value in dict.fromkeys((line["set"], line[key]) for line in lines):
        draws = [line for line in lines if (line["set"], line[key]) == (name, value)]
        row = [name, str(value), str(len(draws))]
        for column in columns:
            if column not in draws[0]:
                row.append("")
                continue
            differences = [line[column] - line[of] for line in draws] if of in draws[0] and column != of else []
            error = f" ({fmean(differences):+.1f} ± {stdev(differences) / len(draws)**0.5:.1f})" \
                if len(differences) > 1 else ""
            row.append(f"{fmean(line[column] for line in draws):.1f}{error}")
        if what != "vectors":
            row.append(", ".join(f"{verdict} {count}" for verdict, count in Counter(
                line["says"] for line in draws).items()))
        rows.append(row)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("vectors", "tables", "quantities"))
    parser.add_argument("--sets", nargs="+", default=["digits"])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--points", type=int, default=4000)
    parser.add_argument("--alone", type=float, default=70.0)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    key, values, measured = {"vectors": ("per_class", PER_CLASS, measured_vectors),
                             "tables": ("share", SHARES, measured_tables),
                             "quantities": ("share", SHARES, measured_quantities)}[args.what]
    out = LineFile(args.out, ("set", key, "draw"))
    if args.table:
        print(table(out.lines, args.what))
        return
    for name in args.sets:
        for value in values:
            for draw in range(args.draws):
                line: dict[str, Any] = {"set": Path(name).stem, key: value, "draw": draw}
                if line not in out:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        out.add(line | measured(name, value, draw, args))  # type: ignore[operator]


if __name__ == "__main__":
    main()
