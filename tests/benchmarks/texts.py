"""Short texts as a sentence model embeds them: names of the classes, few labels, or both.

    python -m tests.benchmarks.texts FILE.npz ... --out texts.jsonl --draws 3
    python -m tests.benchmarks.texts --out texts.jsonl --table

The files are those of `texts_embed.py`. Of at most `--points` texts with 384 columns, 0, 1, 2, 5, 10 or 50 labels a
class; accuracies in percent are of the texts without a label. `names` takes the class whose embedded name has the
largest cosine, `automatic` is `SemiSupervisedClassifier()` on the labels, and `automatic_names` the same with
`class_embeddings=`. What else one would use: `logistic` and `svc` are scikit-learn's with `C` by cross-validation where
each class has three labels, and 10 otherwise; `nearest_mean` the nearest mean of a class; `spreading` its
`LabelSpreading` on 10 neighbors; `poisson` our `PoissonLearning`. `says` is the fit's own verdict on the
unlabeled points.
"""

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from dssl import PoissonLearning, SemiSupervisedClassifier

from .draws import DRAWS, draw_labels
from .line_file import LineFile

LABELS = (0, 1, 2, 5, 10, 50)
PENALTIES = {"C": [0.1, 1.0, 10.0, 100.0]}


def tuned(model: ClassifierMixin, labels: np.ndarray) -> ClassifierMixin:
    fewest = int(np.unique(labels, return_counts=True)[1].min())
    return model if fewest < 3 else GridSearchCV(model, PENALTIES, cv=min(5, fewest))


PEERS: dict[str, Callable[[np.ndarray], ClassifierMixin]] = {
    "logistic": lambda labels: tuned(LogisticRegression(C=10, max_iter=2000), labels),
    "svc": lambda labels: tuned(SVC(C=10), labels),
    "nearest_mean": lambda labels: NearestCentroid()}
COLUMNS = ["names", "automatic_names", "automatic", *PEERS, "spreading", "poisson"]


def measured(X: np.ndarray, y: np.ndarray, vectors: np.ndarray, labels: np.ndarray) -> Iterator[tuple[str, Any]]:
    """Yield accuracies, seconds and the verdict of one draw."""
    hidden, known = labels < 0, np.flatnonzero(labels >= 0)

    def accuracy(predicted: np.ndarray) -> float:
        return 100 * float((predicted == y)[hidden].mean())

    yield "names", accuracy((X @ vectors.T).argmax(axis=1))
    begin = time.perf_counter()
    yield "automatic_names", accuracy(SemiSupervisedClassifier(class_embeddings=vectors).fit(X, labels).transduction_)
    yield "seconds", time.perf_counter() - begin
    if not len(known):
        return
    model = SemiSupervisedClassifier().fit(X, labels)
    yield "automatic", accuracy(model.transduction_)
    yield "says", model.evidence_["gain"]["verdict"] if "gain" in model.evidence_ else "too few labels"
    for name, make in PEERS.items():
        yield name, accuracy(make(labels[known]).fit(X[known], labels[known]).predict(X))
    yield "spreading", accuracy(LabelSpreading(kernel="knn", n_neighbors=10).fit(X, labels).transduction_)
    yield "poisson", accuracy(PoissonLearning().fit(X, labels).transduction_)


def draw_of(path: Path, points: int, draw: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return embeddings (n, 384), codes (n,) and the embedded names of the classes."""
    with np.load(path) as file:
        X, y, vectors = file["X"], file["y"], file["class_embeddings"]
    rows = np.sort(np.random.default_rng([draw, 1]).permutation(len(y))[:points])
    return X[rows], y[rows], vectors


def table(lines: list[dict[str, Any]]) -> str:
    """Return means of the draws in Markdown, with standard errors of the differences from `automatic`."""
    rows = [["set", "classes", "labels a class", "draws", *COLUMNS, "says"]]
    rows.append(["---"] * len(rows[0]))
    for name, labels, draw in dict.fromkeys((line["set"], line["labels"], line["draw"]) for line in lines):
        drawn = [line for line in lines if (line["set"], line["labels"], line["draw"]) == (name, labels, draw)]
        row = [name, str(drawn[0]["classes"]), f"{labels}{' at random' * (draw == 'random')}", str(len(drawn))]
        for column in COLUMNS:
            if column not in drawn[0]:
                row.append("")
                continue
            mean = f"{fmean(line[column] for line in drawn):.1f}"
            differences = [line[column] - line["automatic"] for line in drawn if "automatic" in line]
            if column not in ("automatic", "names") and len(differences) > 1:
                mean += f" ({fmean(differences):+.1f} ± {stdev(differences) / len(differences)**0.5:.1f})"
            row.append(mean)
        says = Counter(line["says"] for line in drawn if "says" in line)
        rows.append([*row, ", ".join(f"{verdict} {count}" for verdict, count in says.items())])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--points", type=int, default=3000)
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS, help="a class")
    parser.add_argument("--draw", choices=DRAWS, nargs="+", default=["even"], help="as in `draws.py`")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    out = LineFile(args.out, ("set", "labels", "draw", "number"))
    if args.table:
        print(table(out.lines))
        return
    warnings.simplefilter("ignore")
    for number in range(args.draws):
        for path in args.files:
            X, y, vectors = draw_of(path, args.points, number)
            for draw in args.draw:
                for count in args.labels:
                    line = {"set": path.stem, "labels": count, "draw": draw, "number": number}
                    if line in out or 2 * count * len(vectors) > len(y) or (draw == "random" and not count):
                        continue
                    labels = draw_labels(y, count, [number, 2], draw) if count else np.full(len(y), -1)
                    out.add(line | {"classes": len(vectors)} | dict(measured(X, y, vectors, labels)))


if __name__ == "__main__":
    main()
