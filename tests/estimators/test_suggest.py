"""`suggest_labels`: which points to label next, of points, estimators and graphs."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

from dssl import Dataset, GraphKernelRidge, KNNGraph, SemiSupervisedClassifier, suggest_labels
from dssl.base.errors import DataError, ParameterError
from dssl.estimators.graph import UnreachablePoints
from dssl.execution.in_process import InProcess
from dssl.selection.suggest import SuggestParams, suggest
from dssl.storage.blocks import ArrayRows


@pytest.fixture(scope="module")
def problem():
    """Return X (180, 4) of six clouds, their classes (180,), and y with one label of two of them."""
    X, true = make_blobs(180, centers=6, n_features=4, cluster_std=1.0, random_state=3)
    y = np.full(180, -1)
    for code in (0, 1):
        y[np.flatnonzero(true == code)[0]] = code
    return X, true, y


def test_labels_of_every_class_are_asked_for_whether_some_are_known_or_none(problem):
    X, true, y = problem
    for known in (y, None):
        found = suggest_labels(X, known, count=7)
        assert found.ids.shape == found.scores.shape == (7,)
        assert found.attributes["criterion"] == "v_optimality"
        assert set(true[found.ids]) | set(y[y >= 0] if known is not None else ()) == set(range(6))
    graph = KNNGraph().build(X)
    same = suggest_labels(X, y, count=7, graph=graph)
    direct = suggest(graph.vertices, graph, None, np.flatnonzero(y >= 0), SuggestParams(count=7), InProcess())
    assert_array_equal(same.ids, direct.ids)
    assert_array_equal(same.ids, suggest_labels(X, y, count=7).ids)


@pytest.mark.parametrize("marked", [
    lambda y: np.where(y < 0, np.nan, y), lambda y: np.array([None if c < 0 else f"class {c}" for c in y], object),
    lambda y: pd.Series(np.where(y < 0, 9, y)), lambda y: np.stack([np.where(y < 0, np.nan, y)] * 2, axis=1)],
    ids=["floats", "text", "marker", "targets"])
def test_any_marker_of_no_label_is_read(problem, marked):
    X, _, y = problem
    own = marked(y)
    found = suggest_labels(X, own, unlabeled=9 if isinstance(own, pd.Series) else None)
    assert_array_equal(found.ids, suggest_labels(X, y).ids)
    assert found.attributes["labeled"] == 2


def test_a_model_says_where_it_is_unsure(problem):
    X, true, y = problem
    model = SemiSupervisedClassifier().fit(X, y)
    found = suggest_labels(X, y, model=model)
    assert found.attributes["criterion"] == "model_change_v_optimality"
    labels = y.copy()
    labels[found.ids] = true[found.ids]
    assert (model.transduction_ == true).mean() < 0.4
    assert (GraphKernelRidge().fit(X, labels).transduction_ == true).mean() > 0.95
    other = LogisticRegression().fit(X[y >= 0], y[y >= 0])
    unsure = suggest_labels(X, y, model=other, criterion="uncertainty", count=3)
    assert len(set(unsure.ids)) == 3


def test_points_that_no_label_reaches_are_unsure(problem):
    X, _, y = problem
    far = np.concatenate([X, X[:100] + 1000])
    known = np.append(y, np.full(100, -1))
    with pytest.warns(UnreachablePoints):
        model = GraphKernelRidge().fit(far, known)
    found = suggest_labels(far, known, model=model, count=3)
    assert (model.transduction_[found.ids] == -1).all()
    assert np.isinf(found.scores[0])


def test_coverage_makes_no_graph(problem, monkeypatch):
    X, true, y = problem
    monkeypatch.setattr(KNNGraph, "build", None)
    found = suggest_labels(Dataset.from_arrays(X, y), criterion="coverage", count=6)
    assert found.attributes["labeled"] == 2
    assert len(set(true[found.ids])) >= 4


def test_what_cannot_be_asked_is_refused(problem):
    X, _, y = problem
    values = np.where(y < 0, np.nan, 0.5 * y)
    with pytest.raises(ParameterError, match="without a model of classes"):
        suggest_labels(X, values, model=Ridge().fit(X, X[:, 0]), criterion="uncertainty")
    assert suggest_labels(X, values, model=Ridge().fit(X, X[:, 0])).attributes["criterion"] == "v_optimality"
    with pytest.raises(NotFittedError):
        suggest_labels(X, y, model=GraphKernelRidge())
    with pytest.raises(DataError, match="the graph has 180 points, X has 179"):
        suggest_labels(X[1:], y[1:], graph=KNNGraph().build(X))
    with pytest.raises(DataError, match="178 distinct points have no label"):
        suggest_labels(X, y, count=179)


def test_parameters_may_be_given_whole(problem):
    X, _, y = problem
    params = SuggestParams(count=4, criterion="variance", eigenpairs=20)
    rows, graph = ArrayRows(X), KNNGraph().build(X)
    direct = suggest(graph.vertices, graph, rows, np.flatnonzero(y >= 0), params, InProcess())
    assert_array_equal(suggest_labels(X, y, params=params).ids, direct.ids)
