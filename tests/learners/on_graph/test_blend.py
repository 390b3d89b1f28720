"""The automatic blend of graph and label kernels, without some of its labels."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.execution.in_process import InProcess
from dssl.graph.knn_graph import KNNGraph
from dssl.knn.index import NeighborIndex
from dssl.learners.on_graph import blend
from dssl.learners.on_graph.automatic import MAX_LABELS, fit_automatic
from dssl.learners.on_graph.graph_ridge import GraphRidgeParams
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.graph_gain import held_out_loss
from dssl.storage.blocks import ArrayRows
from tests.learners.on_graph.test_graph_ridge import moons

KNN, PARAMS = KNNGraph(n_neighbors=8), GraphRidgeParams(ridge=(0.1, 0.01), power=(1, 2))


def labels_of(kind, X, y):
    """Return 24 labels: those of classes, 18 of the first; or quantities."""
    if kind == "quantities":
        labeled = np.sort(np.random.default_rng(0).permutation(len(X))[:24])
        return Quantities(labeled, X[labeled, 0]**2)
    rng = np.random.default_rng(1)
    labeled = np.sort(np.concatenate([rng.choice(np.flatnonzero(y == code), count, replace=False)
                                      for code, count in ((0, 18), (1, 6))]))
    return Classes(labeled, y[labeled], np.arange(2))


@pytest.mark.parametrize("kind", ["classes", "quantities"])
@pytest.mark.slow_cases("classes")
def test_held_out_labels_are_predicted_as_by_a_fit_without_them(kind, monkeypatch):
    """Of classes that are not equally frequent, so that the fit moves its values as its leave-one-out values say."""
    monkeypatch.setattr(blend, "supervised_prior", lambda concentration, target: 0.5)  # each fit measures its own
    X, y = moons()
    target = labels_of(kind, X, y)
    graph, rows = KNN.build(X), ArrayRows(X)
    index = partial(NeighborIndex.of, rows, KNN.distance, InProcess(1))
    whole = blend.fit_blend(graph, rows, target, None, PARAMS, KNN, index, InProcess(1))
    folds = np.array([0, 3, 5, 11, 20]), np.arange(1, 24, 2)[1:]
    for fold, (values, alone) in zip(folds, whole.refit_held_out(target, None, PARAMS, [[fold] for fold in folds]),
                                     strict=True):
        kept = np.setdiff1d(np.arange(24), fold)
        expected = fit_automatic(graph, rows, target.take(kept), None, None, PARAMS, MAX_LABELS, KNN, held_out_loss,
                                 index, InProcess(1))
        at = target.labeled[fold]
        assert_allclose(values[fold], expected.values[at], rtol=1e-6, atol=1e-7)
        assert_allclose(alone[fold], expected.supervised.values(ArrayRows(X[at])), rtol=1e-6, atol=1e-7)
        assert np.isnan(values[kept]).all()
