"""Small problems of Nystrom LapRLS and their dense solutions, by the formula of the paper."""

from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from dssl.execution.in_process import InProcess
from dssl.graph.given import store_weights
from dssl.graph.weights.build import weights
from dssl.kernels.base import RBF
from dssl.kernels.landmarks import Landmarks
from dssl.knn.search import neighbors
from dssl.learners.laprls import system as laprls_system
from dssl.learners.laprls.params import LabelLines, SystemParams
from dssl.learners.laprls.solve import least_squares_solver
from dssl.learners.laprls.system import NystromSystem, assemble
from dssl.storage.blocks import ArrayRows, PartWriter
from dssl.storage.csr import as_rows
from tests import reference


@dataclass(frozen=True)
class Case:
    """A system, and what the dense formula needs of it."""

    system: NystromSystem
    K: np.ndarray  # (n, s)
    K_ss: np.ndarray
    E: np.ndarray  # (n, n)
    lines: LabelLines
    execution: Any

    def dense(self, item):
        """Return the values at all points (n, c) by eq. (4); a weight of 3 is 3 points that are not in the graph."""
        n, seen = len(self.K), self.lines.fold != item.held_out
        row, target = self.lines.row[seen], self.lines.target[seen]
        times = self.lines.weight[seen].astype(int)
        repeated = np.repeat(np.arange(len(row)), times)
        mean = target[repeated].mean(axis=0) if self.system.fit_intercept else 0.0
        E = self.E
        if item.control:
            trace, whole = np.trace(E), E.sum()
            b = (whole - trace) / (n * (n - 1))
            E = (trace / n - b) * np.eye(n) + b
        K = np.vstack([self.K, self.K[row[repeated]]])
        E = np.pad(E, (0, len(repeated)))
        y = np.vstack([np.zeros((n, target.shape[1])), target[repeated] - mean])
        alpha = reference.nystrom_laprls(K, self.K_ss, E, y, np.arange(len(K)) >= n, item.lambda_A, item.lambda_I)
        return self.K @ alpha + mean

    def values(self, functions, index):
        """Return the values at all points (n, c) of one of the functions."""
        return self.K @ functions.coef[index] + functions.intercept[index]

    def solve(self, items, method="nystrom-direct", **params):
        """Return the functions of some systems, with other parameters."""
        system = replace(self.system, params=replace(self.system.params, **params, solver=method))
        return least_squares_solver(system, items, self.execution).solve(items)


def case(n=120, s=20, m=45, c=2, n_folds=3, *, random_state=0, kind="normalized", kernel=None, X=None, weighted=True,
         graph=True, multiplicity=None, landmarks=None, fit_intercept=True, execution=None, coded=False, order=None,
         **params):
    """Return a problem whose label lines share points and whose last fold of `n_folds` + 1 is never held out.

    landmarks : `Landmarks`, or rows of X. order : (n,), the vertex at each place, if that is given.
    """
    rng = np.random.default_rng([random_state, n])
    X = rng.normal(size=(n, 3)) if X is None else X
    kernel, execution = kernel or RBF(1.2), execution or InProcess(1)
    W = weights(neighbors(X, 5)) if graph else sp.csr_array((n, n))
    parts = None
    if graph:
        parts = execution.scratch()
        parts.finish(0, store_weights(W, PartWriter(parts, 0)))
    target = rng.normal(size=(m, c))
    if coded:
        target = np.where(target > 0, 1.0, -1.0) if c == 1 else 2.0 * (np.arange(c) == rng.integers(0, c, (m, 1))) - 1
    lines = LabelLines(rng.choice(n, m), rng.integers(0, n_folds + 1, m),
                       rng.integers(1, 4, m).astype(float) if weighted else np.ones(m), target, n_folds)
    if not isinstance(landmarks, Landmarks):
        chosen = np.sort(rng.choice(n, s, replace=False)) if landmarks is None else landmarks
        landmarks = Landmarks(X[chosen], chosen)
    copies = None if multiplicity is None else ArrayRows(multiplicity)
    with patch.object(laprls_system, "MIN_BLOCK_ROWS", 16):  # so that there are several blocks
        system = assemble(as_rows(X), lines, kernel, landmarks, parts, kind, SystemParams(**params), execution,
                          multiplicity=copies, order=None if order is None else ArrayRows(order),
                          fit_intercept=fit_intercept)
    mass = np.ones(n) if multiplicity is None else multiplicity
    E = np.zeros((n, n))
    if graph:
        joint = W.toarray() * np.outer(mass, mass)
        E = reference.laplacian(joint) if kind == "unnormalized" else (
            np.sqrt(np.outer(mass, mass)) * reference.normalized_laplacian(joint))
    Z = landmarks.points
    return Case(system, np.asarray(kernel(X, Z)), np.asarray(kernel(Z, Z)), E, lines, execution)
