"""The paper's data sets as problems of LapRLS: 70 % of the points with their graph, 10 % of them labeled."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import dssl
from dssl.execution.tasks import Execution
from dssl.graph.given import store_weights
from dssl.graph.vertices import Vertices, find_vertices
from dssl.kernels.base import RBF, Kernel, median_bandwidth
from dssl.kernels.landmarks import LandmarkParams, choose_landmarks, landmark_count
from dssl.learners.laprls.params import LabelLines, SystemParams
from dssl.learners.laprls.system import NystromSystem, assemble
from dssl.storage.blocks import ArrayRows, MemoryParts, PartWriter

# rows : the rows of the file that the paper's sample size counts: those of the official training part, or all.
SETS = {"madelon": "train", "abalone_scale": "all", "phishing": "all", "a8a": "train", "a9a": "train",
        "ijcnn1": "train", "skin_nonskin": "all", "covtype": "all"}
RAW = ("a8a", "a9a", "phishing", "abalone_scale")  # binary, of unit length, or scaled as published


@dataclass
class Split:
    """Training and test points, float64, targets (n, c), and which training points are labeled."""

    X: np.ndarray
    Y: np.ndarray
    X_test: np.ndarray
    Y_test: np.ndarray
    labeled: np.ndarray
    coded: bool


def load(name: str) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return X (n, d), targets (n, c), and whether these are +-1 codes of classes."""
    with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as held:
        arrays = dict(held)
    if "X" in arrays:
        X = arrays["X"].astype(np.float64)
    else:
        from scipy.sparse import csr_matrix

        X = csr_matrix((arrays["data"], arrays["indices"].astype(np.int32), arrays["indptr"]),
                       shape=tuple(arrays["shape"])).toarray().astype(np.float64)
    y = arrays["y"]
    if SETS[name] == "train":
        X, y = X[arrays["split"] == 0], y[arrays["split"] == 0]
    if name == "abalone_scale":
        return X, y.astype(np.float64)[:, None], False
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) == 2:
        return X, np.where(codes == 1, 1.0, -1.0)[:, None], True
    return X, np.where(codes[:, None] == np.arange(len(classes)), 1.0, -1.0), True


def split(name: str, random_state: int, points: int | None = None, labels: float = 0.1) -> Split:
    """Return 70 % of the points (of at most `points`) to train on, a share of them labeled, and the rest."""
    X, Y, coded = load(name)
    order = np.random.default_rng([random_state, 1]).permutation(len(X))[:points]
    train, test = np.split(order, [round(0.7 * len(order))])
    if name not in RAW:
        mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
        X = (X - mean) / np.where(scale > 0, scale, 1.0)
    labeled = np.sort(np.random.default_rng([random_state,
                                             2]).choice(len(train), round(labels * len(train)), replace=False))
    return Split(X[train], Y[train], X[test], Y[test], labeled, coded)


@dataclass
class Problem:
    """A split with its graph, on distinct points."""

    split: Split
    points: Vertices
    rows: ArrayRows
    graph: MemoryParts
    bandwidth: float

    @property
    def n(self) -> int:
        return len(self.split.X)

    @property
    def m(self) -> int:
        return len(self.split.labeled)

    @property
    def kernel(self) -> Kernel:
        return RBF(self.bandwidth)

    def lines(self, held: Any = (), fit_intercept: bool = True) -> LabelLines:
        """Return the labeled points with their folds."""
        labeled = self.split.labeled
        return LabelLines.of(self.points.vertex[labeled], np.ones(len(labeled)), self.split.Y[labeled], held)

    def system(self, n_landmarks: Any, params: SystemParams, execution: Execution, *, held: Any = (),
               random_state: int = 0, bandwidth: float | None = None, graph: bool = True,
               fit_intercept: bool = True) -> NystromSystem:
        """Return the Nystrom system with this many landmarks, or this share of the points."""
        chosen, kernel = LandmarkParams(n_landmarks=n_landmarks,
                                        random_state=random_state), RBF(bandwidth or self.bandwidth)
        lines = self.lines(held)
        labeled = np.unique(lines.row)
        count = landmark_count(chosen, len(labeled), len(self.rows), len(self.rows))
        landmarks = choose_landmarks(self.rows, kernel, count, chosen, execution, labeled)
        copies = execution.share_rows(ArrayRows(self.points.multiplicity)) if self.points.joined else None
        return assemble(self.rows, lines, kernel, landmarks, self.graph if graph else None, "unnormalized", params,
                        execution, multiplicity=copies, fit_intercept=fit_intercept)


def problem(name: str, random_state: int, points: int | None = None, labels: float = 0.1) -> Problem:
    """Return a split with the graph of the paper: 8 neighbors, weights exp(-d^2/4), equal rows one vertex."""
    from dssl.execution.in_process import InProcess

    found = split(name, random_state, None if points is None else round(points / 0.7), labels)
    vertices = find_vertices(ArrayRows(found.X), InProcess())
    rows = ArrayRows(np.ascontiguousarray(found.X[vertices.first]))
    lists = dssl.neighbors(rows.array, n_neighbors=8)
    W = dssl.weights(lists, "heat", bandwidth=2**0.5)
    graph = MemoryParts()
    graph.finish(0, store_weights(W, PartWriter(graph, 0)))
    return Problem(found, vertices, rows, graph, 0.5 * median_bandwidth(rows, 0))
