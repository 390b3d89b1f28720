"""Thousands of labels: what the choice of the graph's weight by a sample of them costs in accuracy, and what fits take.

    python -m tests.benchmarks.many_labels --choice --draws 3
    DSSL_DATA=... python -m tests.benchmarks.many_labels --learners LapSVC --labels 1000 3000 10000

With `--choice`, one JSON line a generated set: 8,000 points of which 4,000 are labeled, 6,000 new points to predict,
and the mean errors in percent, over the draws, of LapSVC whose `eta` "auto" follows from exact leave-one-out of all
labels and from the sample; the largest difference of a draw; and the mean shares of the graph in both.

Without it, one JSON line a learner and number of labels, each fit in a process of its own: 20,000 points of covtype,
seconds, core seconds, the peak of the process during the fit in MB, and errors in percent on the unlabeled points of
the fit and on 10,000 new ones.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from statistics import fmean
from unittest.mock import patch

import numpy as np
from sklearn import datasets

import dssl
from dssl import LapSVC
from dssl.base.profiler import process_peak
from dssl.learners import deformed as eta

from .low_labels import read

POINTS, NEW = 8000, 6000
COVTYPE_POINTS, COVTYPE_NEW = 20_000, 10_000
Points = tuple[np.ndarray, np.ndarray]  # X (n, d) and y (n,)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choice", action="store_true", help="compare the sample with exact leave-one-out")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--learners", nargs="+", default=["LapSVC"])
    parser.add_argument("--labels", type=int, nargs="+", default=[1000, 3000, 10_000])
    parser.add_argument("--one", action="store_true", help="the first learner and number of labels, in this process")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.choice:
        for name in given.sets:
            print(json.dumps(choice(name, POINTS // 2, given.draws)), flush=True)
    elif given.one:
        print(json.dumps(fit(given.learners[0], given.labels[0])), flush=True)
    else:
        for n_labels in given.labels:
            for learner in given.learners:
                subprocess.run([sys.executable, "-m", "tests.benchmarks.many_labels", "--one", "--learners", learner,
                                "--labels", str(n_labels)], check=True)


def choice(name: str, n_labels: int, draws: int) -> dict[str, object]:
    """Return the errors of LapSVC on a set with either way to weigh the kernels of several etas."""
    errors, graph = np.zeros((2, draws)), np.zeros((2, draws))
    for draw in range(draws):
        X, y = SETS[name](POINTS + NEW, draw)
        labels = np.where(np.arange(POINTS) < n_labels, y[:POINTS], -1)
        for way, exact in enumerate((True, False)):
            with patch.object(eta, "MAX_EXACT", n_labels if exact else 0):
                fitted = LapSVC(random_state=draw).fit(X[:POINTS], labels)
            errors[way, draw] = 100 * (fitted.predict(X[POINTS:]) != y[POINTS:]).mean()
            graph[way, draw] = 1 - fitted.evidence_["eta"][0]["share"]
    return {"set": name, "error, exact": round(errors[0].mean(), 2), "error, sample": round(errors[1].mean(), 2),
            "largest difference": round(float(np.abs(errors[1] - errors[0]).max()), 2),
            "share of the graph, exact": round(graph[0].mean(), 2), "share, sample": round(fmean(graph[1]), 2)}


def fit(learner: str, n_labels: int) -> dict[str, object]:
    """Return what a fit to so many labels of covtype takes, and its errors."""
    X, y = read("covtype", COVTYPE_POINTS + COVTYPE_NEW)
    X, n = X.astype(np.float32), COVTYPE_POINTS
    labels = np.where(np.arange(n) < n_labels, y[:n], -1)
    kind = getattr(dssl, learner)
    kind().fit(X[:300], labels[:300])  # compiles
    before, begin, cpu = process_peak(), time.perf_counter(), time.process_time()
    fitted = kind().fit(X[:n], labels)
    seconds, core = time.perf_counter() - begin, time.process_time() - cpu
    wrong = {"unlabeled": fitted.transduction_[n_labels:] != y[n_labels:n], "new": fitted.predict(X[n:]) != y[n:]}
    return {"learner": learner, "labels": n_labels, "seconds": round(seconds, 1), "core seconds": round(core, 1),
            "peak MB": round((process_peak() - before) / 1e6),
            **{f"error, {name}": round(100 * float(each.mean()), 1) for name, each in wrong.items()}}


def moons(n: int, draw: int) -> Points:
    X, y = datasets.make_moons(n, noise=0.12, random_state=draw)
    return np.hstack([X, np.random.default_rng(draw).normal(size=(n, 8)) * 0.15]), y


def circles(n: int, draw: int) -> Points:
    X, y = datasets.make_circles(n, noise=0.2, factor=0.6, random_state=draw)
    return np.hstack([X, np.random.default_rng(draw).normal(size=(n, 3)) * 0.3]), y


def blobs(n: int, draw: int) -> Points:
    X, cluster = datasets.make_blobs(n, n_features=6, centers=24, cluster_std=2.2, random_state=draw)
    return X, cluster % 4


def unequal_blobs(n: int, draw: int) -> Points:
    X, cluster = datasets.make_blobs(4 * n, n_features=5, centers=15, cluster_std=2.5, random_state=draw)
    y, rng = cluster % 5, np.random.default_rng(draw)
    kept = np.flatnonzero(rng.random(4 * n) < np.array([1, 0.5, 0.2, 0.1, 0.03])[y])[:n]
    return X[kept], y[kept]


def hypercube(n: int, draw: int) -> Points:
    return datasets.make_classification(n, 15, n_informative=8, n_redundant=3, n_classes=4, n_clusters_per_class=3,
                                        flip_y=0.05, random_state=draw)


def unequal_hypercube(n: int, draw: int) -> Points:
    return datasets.make_classification(n, 12, n_informative=6, n_classes=3, weights=[0.85, 0.1, 0.05], flip_y=0.02,
                                        class_sep=0.7, random_state=draw)


def swiss_roll(n: int, draw: int) -> Points:
    X, along = datasets.make_swiss_roll(n, noise=0.8, random_state=draw)
    return X, (np.floor(along / 1.1) + np.floor(X[:, 1] / 5)).astype(int) % 3


def quantiles(n: int, draw: int) -> Points:
    return datasets.make_gaussian_quantiles(n_samples=n, n_features=8, n_classes=5, random_state=draw)


def hastie(n: int, draw: int) -> Points:
    X, y = datasets.make_hastie_10_2(n, random_state=draw)
    return X, (y > 0).astype(int)


SETS = {"moons, 10 features": moons, "circles, 5 features": circles, "24 blobs, 4 classes": blobs,
        "15 blobs, shares 1 to 0.03": unequal_blobs, "hypercube, 4 classes": hypercube,
        "hypercube, shares 0.85 to 0.05": unequal_hypercube, "swiss roll, 3 classes": swiss_roll,
        "quantiles, 5 classes": quantiles, "hastie": hastie}

if __name__ == "__main__":
    main()
