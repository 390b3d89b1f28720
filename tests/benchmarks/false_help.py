"""How often a test says that the unlabeled points help where the graph says nothing.

    python -m tests.benchmarks.false_help --repetitions 100

A JSON line a kind of data and number of labels: the shares of repetitions in which `gain_` says "helped" and "hurt",
by the labels held out, and in which the test of pipelines says so of the same two models on test points.

    noise       labels that have nothing to do with the features
    shuffled    features whose columns are permuted, each by itself: the labels' clusters are gone
    direction   normal points; the classes are the two sides of a plane, and no gap is between them
    quantity    the same with a quantity: a linear function and noise
"""

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_blobs

from dssl import SemiSupervisedClassifier, SemiSupervisedRegressor
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.comparison import compare

POINTS, TEST = 300, 100


def noise(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(POINTS + TEST, 5)), rng.integers(0, 2, POINTS + TEST)


def shuffled(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(POINTS + TEST, centers=3, n_features=5, random_state=int(rng.integers(1 << 30)))
    return np.stack([rng.permutation(column) for column in X.T], axis=1), y


def direction(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(POINTS + TEST, 8))
    return X, (X @ rng.normal(size=8) + rng.normal(size=len(X)) > 0).astype(int)


def quantity(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(POINTS + TEST, 8))
    return X, X @ rng.normal(size=8) + 2 * rng.normal(size=len(X))


DATA: dict[str, Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray]]] = {
    "noise": noise, "shuffled": shuffled, "direction": direction, "quantity": quantity}


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--labels", type=int, nargs="+", default=[20, 60])
    parser.add_argument("--repetitions", type=int, default=100)
    given = parser.parse_args()
    for name in given.data:
        for n_labels in given.labels:
            pairs = [_verdicts(*DATA[name](np.random.default_rng([repetition, n_labels])), n_labels)
                     for repetition in range(given.repetitions)]
            print(json.dumps({"data": name, "labels": n_labels, "repetitions": given.repetitions, **{
                by: {verdict: count / given.repetitions for verdict, count in sorted(Counter(own).items())}
                for by, own in zip(("estimators", "pipelines"), zip(*pairs, strict=True), strict=True)}}), flush=True)


def _verdicts(X: np.ndarray, y: np.ndarray, n_labels: int) -> tuple[str, str]:
    """Return what the labels held out say, and what the test points say."""
    quantities = y.dtype.kind == "f"
    known = np.full(POINTS, np.nan) if quantities else np.full(POINTS, -1)
    known[:n_labels] = y[:n_labels]
    model = (SemiSupervisedRegressor if quantities else SemiSupervisedClassifier)().fit(X[:POINTS], known)
    test, places = model.scaling_.transform(X[POINTS:]), np.arange(TEST)
    true = Quantities(places, y[POINTS:]) if quantities else Classes(places, y[POINTS:], np.unique(y))
    predicted, alone = ({"values" if quantities else "codes": function.predict(test)}
                        for function in (model.model_, model.model_.supervised))
    return model.gain_.verdict, compare(true, predicted, alone).verdict


if __name__ == "__main__":
    main()
