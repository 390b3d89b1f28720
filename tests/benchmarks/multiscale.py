"""The multi-scale eigen kernel: Table 1 of its paper, and the same method where there are more points.

    python -m tests.benchmarks.multiscale table
    DSSL_DATA=... python -m tests.benchmarks.multiscale points --sets digits moons usps mnist --points 10000 --draws 2

One JSON line a cell of the table: n points of two moons, m of them labeled, as many of each class; the error of the
others in percent, mean over ten draws of the labels on each of ten sets, how many of the sets have a mean that is no
worse than the paper's, and the paper's. Its own data are not given, and of so few points the error depends on them more
than on anything else. Set i of `even` is `make_moons(n, noise=0.05, random_state=i)`, evenly spaced along the moons; of
`drawn`, n points, half of each class, at random from `make_moons(200, noise=0.05, random_state=i)`.

One JSON line a draw, set and learner of `points`: the accuracy at the unlabeled points in percent, and the seconds of
fit and prediction; then the means. `multiscale` is the estimator at its defaults, `paper_form` without the unit
diagonal, and of the table with C = 1e6, as Algorithm 1 has it. `rbf` is scikit-learn's SVC on the labels, tuned by
cross-validation where each class has three; `automatic` is `SemiSupervisedClassifier`.
"""

import argparse
import json
import time
import warnings
from statistics import fmean
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dssl import MultiscaleKernelClassifier, SemiSupervisedClassifier

from .draws import add_draw_option, draw_labels
from .low_labels import TOYS, simulated, stored, tuned_svc

PAPER = {(50, 2): 0, (50, 4): 0, (50, 6): 0, (30, 2): 17, (30, 4): 8, (30, 6): 0, (10, 2): 38, (10, 4): 10, (10, 6): 2}
SETS, DRAWS, NOISE = 10, 10, 0.05


def moons(data: str, n: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, 2) and classes (n,) of a set."""
    if data == "even":
        return make_moons(n, noise=NOISE, random_state=number)
    X, y = make_moons(200, noise=NOISE, random_state=number)
    rng = np.random.default_rng([n, number])
    kept = np.concatenate([rng.choice(np.flatnonzero(y == code), n // 2, replace=False) for code in (0, 1)])
    return X[kept], y[kept]


def table(arguments: argparse.Namespace) -> None:
    learners: dict[str, Any] = {"multiscale": MultiscaleKernelClassifier(),
                                "paper_form": MultiscaleKernelClassifier(unit_diagonal=False, C=1e6),
                                "rbf": SVC(C=10)}
    for data in ("even", "drawn"):
        for (n, m), printed in PAPER.items():
            errors = {name: np.zeros((SETS, DRAWS)) for name in learners}
            for number, draw in np.ndindex(SETS, DRAWS):
                X, y = moons(data, n, number)
                labels = draw_labels(y, m / 2, [n, m, draw], arguments.draw)
                free = labels < 0
                for name, learner in learners.items():
                    shown = ~free if name == "rbf" else np.full(n, True)
                    found = learner.fit(X[shown], labels[shown]).predict(X[free])
                    errors[name][number, draw] = 100 * float((found != y[free]).mean())
            print(json.dumps({
                "data": data, "n": n, "m": m, "draw": arguments.draw, "paper": printed,
                **{name: round(float(own.mean()), 1) for name, own in errors.items()},
                "sets_no_worse": {name: int((own.mean(axis=1) < printed + 0.5).sum()) for name, own in errors.items()},
            }), flush=True)


def of_set(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, d), standardized where columns have units of their own, and the classes (n,)."""
    X, y = simulated(name) if name in TOYS else stored(name)
    kept = np.random.default_rng(0).permutation(len(y))[:n]
    X, y = X[kept], np.unique(y[kept], return_inverse=True)[1]
    pictures = name in ("digits", "mnist", "usps", "mnist_vae")
    return (X if pictures else StandardScaler().fit_transform(X)), y


def points(arguments: argparse.Namespace) -> None:
    given = {"n_landmarks": arguments.landmarks, "n_eigenpairs": arguments.pairs}
    made: dict[str, Any] = {
        "multiscale": lambda labels: MultiscaleKernelClassifier(**given),
        "paper_form": lambda labels: MultiscaleKernelClassifier(**given, unit_diagonal=False),
        "rbf": lambda labels: tuned_svc(labels[labels >= 0]),
        "automatic": lambda labels: SemiSupervisedClassifier(scale="none")}
    for name in arguments.sets:
        X, y = of_set(name, arguments.points)
        X = X.astype(np.float32) / (255.0 if np.abs(X).max() > 100 else 1.0)
        for rate in arguments.rates:
            found: dict[str, list[tuple[float, float]]] = {}
            for number in range(arguments.draws):
                labels = draw_labels(y, rate, [rate, number], arguments.draw)
                free, known = labels < 0, labels >= 0
                for learner in arguments.learners:
                    begin = time.perf_counter()
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        if learner == "rbf":
                            predicted = made[learner](labels).fit(X[known], labels[known]).predict(X)
                        else:
                            fitted = made[learner](labels).fit(X, labels)
                            predicted = fitted.transduction_
                    seconds = time.perf_counter() - begin
                    accuracy = 100 * float((predicted == y)[free].mean())
                    evidence = {key: fitted.evidence_[key] for key in (
                        "landmarks", "eigenpairs", "unsound", "passed_over", "unsound_share")} if learner in (
                        "multiscale", "paper_form") else {}
                    print(json.dumps({
                        "set": name, "n": len(y), "rate": rate, "draw": arguments.draw, "number": number,
                        "learner": learner, "accuracy": round(accuracy, 2), "seconds": round(seconds, 1),
                        **evidence}), flush=True)
                    found.setdefault(learner, []).append((accuracy, seconds))
            print(json.dumps({"set": name, "n": len(y), "rate": rate, "draw": arguments.draw, **{learner: [
                round(fmean(own), 2) for own in zip(*values, strict=True)] for learner, values in found.items()}}),
                flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["table", "points"])
    parser.add_argument("--sets", nargs="+", default=["digits", "moons"])
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--rates", nargs="+", type=int, default=[10])
    parser.add_argument("--draws", type=int, default=3)
    add_draw_option(parser)
    for size in ("--landmarks", "--pairs"):
        parser.add_argument(size, type=lambda text: text if text == "auto" else int(text), default="auto")
    parser.add_argument("--learners", nargs="+", default=["multiscale", "rbf", "automatic"])
    arguments = parser.parse_args()
    (table if arguments.what == "table" else points)(arguments)


if __name__ == "__main__":
    main()
