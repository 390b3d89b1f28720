"""The automatic blend of graph and label kernels, without some of its labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.execution.in_process import InProcess
from dssl.graph.graph import KNNGraph
from dssl.learners.on_graph import blend
from dssl.learners.on_graph.graph_ridge import GraphRidgeParams
from dssl.learners.prior_shift import PriorShift
from dssl.learners.target import Classes, Quantities
from dssl.storage.blocks import ArrayRows
from tests.learners.on_graph.test_graph_ridge import moons

KNN, PARAMS = KNNGraph(n_neighbors=8), GraphRidgeParams(ridge=(0.1, 0.01), power=(1, 2))


@pytest.mark.parametrize("kind", ["classes", "quantities"])
def test_labels_left_out_are_predicted_as_by_a_fit_without_them(kind, monkeypatch):
    monkeypatch.setattr(blend, "prior_of_labels", lambda structure, target: 0.5)  # each fit measures its own structure
    monkeypatch.setattr(blend, "prior_shift", lambda part, held_out, *_: PriorShift(np.zeros(held_out.shape[1])))
    X, y = moons()
    labeled = np.sort(np.random.default_rng(0).permutation(len(X))[:24])
    target = Classes(labeled, y[labeled], np.arange(2)) if kind == "classes" else Quantities(labeled, X[labeled, 0]**2)
    graph, rows = KNN.build(X), ArrayRows(X)
    whole = blend.fit_blend(graph, rows, target, None, PARAMS, KNN, InProcess(1))
    folds = [np.array([0, 3, 5, 11, 20]), np.arange(1, 24, 2)[1:]]
    for fold in folds:
        found, alone = whole.left_out(graph, rows, target, None, PARAMS, [fold])
        kept = np.setdiff1d(np.arange(24), fold)
        expected = blend.fit_blend(graph, rows, target.take(kept), None, PARAMS, KNN, InProcess(1))
        at = expected.values(graph, rows, InProcess(1))[labeled[fold]]
        assert_allclose(found[fold], at, rtol=1e-6, atol=1e-7)
        assert_allclose(alone[fold], expected.model.alone.values(ArrayRows(X[labeled[fold]])), rtol=1e-6, atol=1e-7)
        assert np.isnan(found[kept]).all()
