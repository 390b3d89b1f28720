"""Small problems of points, landmarks, labels and a graph, in blocks and dense, for the tests of their products."""

import uuid
from dataclasses import dataclass

import numpy as np

from dssl.execution.in_process import InProcess
from dssl.execution.tasks import sums
from dssl.graph.energy.blocks import GraphEnergy, StoredGraph, split_energy
from dssl.graph.given import store_weights
from dssl.graph.weights.build import weights
from dssl.kernels.base import RBF
from dssl.knn.search import neighbors
from dssl.learners.laprls.products import BlockedProblem, GramTask
from dssl.storage.blocks import PartWriter
from dssl.storage.csr import as_rows, point_arrays


@dataclass(frozen=True)
class Dense:
    """What the blocks stand for, in their order: K (v, s), E (v, v), and a line a label."""

    K: np.ndarray
    E: np.ndarray
    position: np.ndarray
    fold: np.ndarray
    weight: np.ndarray
    target: np.ndarray

    def labels(self, held_out=-1):
        """Return K_m' W K_m without a fold."""
        seen = self.fold != held_out
        K = self.K[self.position[seen]]
        return K.T @ (self.weight[seen, None] * K)


def problem(n=90, s=12, m=40, block_rows=16, n_folds=3, c=2, *, random_state=0, dtype="float64", kernel=None, T=None,
            unit_weights=False, graph=True, X=None, execution=None):
    """Return a `BlockedProblem` of n points with m label lines, several at some vertices, and the `Dense` of it."""
    rng = np.random.default_rng([random_state, n, s])
    X = rng.normal(size=(n, 3)) if X is None else X
    kernel = kernel or RBF(1.3)
    execution = execution or InProcess(1)
    W = weights(neighbors(X.toarray() if hasattr(X, "toarray") else X, 4)) if graph else None
    parts = None
    if W is not None:
        parts = execution.scratch()
        parts.finish(0, store_weights(W, PartWriter(parts, 0)))
    stored = None if parts is None else StoredGraph(parts, "normalized")
    blocks = split_energy(stored, n, block_rows, execution, execution.scratch())
    order = blocks.order()
    Z = X[rng.choice(n, s, replace=False)]
    labels = {"position": np.sort(rng.choice(n // 2, m)), "fold": rng.integers(0, n_folds, m),
              "weight": np.ones(m) if unit_weights else rng.uniform(0.5, 3, m), "target": rng.normal(size=(m, c))}
    landmarks = {**point_arrays("Z", Z), **({} if T is None else {"T": T})}
    rows = execution.share_rows(as_rows(X[order]))
    made = BlockedProblem(kernel, rows, execution.share(**landmarks), execution.share(**labels), blocks, n_folds, dtype,
                      uuid.uuid4().hex)
    E = np.zeros((n, n)) if W is None else GraphEnergy.of(W).matrix().toarray()[np.ix_(order, order)]
    return made, Dense(np.asarray(kernel(X[order], Z)), E, **labels)


def gram(made, n_runs=3, execution=None, **asked):
    """Return the sums of `GramTask` over all blocks, everything unless told otherwise, `energy` as Phi' E Phi."""
    execution = execution or InProcess(1)
    wanted = {"energy": True, "points": True, "labels": True, "sums": True, **asked}
    found = execution.reduce(sums([GramTask(made, first, last, **wanted)
                                   for first, last in made.runs(n_runs)]))
    if "energy" in found:
        E = found["energy"] @ made.landmarks.load().get("T", np.eye(found["energy"].shape[1]))
        found["energy"] = (E + E.T) / 2
    return found
