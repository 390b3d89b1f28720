"""Weights against their formulas, dense, and against scikit-learn's neighbor graph."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import kneighbors_graph

from dssl.base.errors import DataError, IntegrityError, ParameterError
from dssl.data.scaling import quantiles as median
from dssl.execution.in_process import InProcess
from dssl.graph.weights.build import read_graph, weigh, weights
from dssl.graph.weights.rules import WeightParams, WeightsRaised
from dssl.knn.lists import Neighbors
from dssl.knn.search import neighbors
from dssl.storage.blocks import MemoryParts
from dssl.storage.store import StoredParts
from tests.knn.made_lists import made_lists
from tests.memory import Traced


def points(n=200, d=4, random_state=0):
    return np.random.default_rng(random_state).normal(size=(n, d))


def directed(found, value):
    """Return the dense (n, n) matrix of value(i, j, d) over the lists."""
    arrays = found.to_arrays()
    W = np.zeros((len(found), len(found)))
    for i, (ids, distances) in enumerate(zip(arrays["ids"], arrays["distances"].astype(np.float64), strict=True)):
        for j, d in zip(ids, distances, strict=True):
            W[i, j] = value(i, j, d)
    return W


SYMMETRIC = {"maximum": lambda A: np.maximum(A, A.T), "minimum": lambda A: np.minimum(A, A.T),
             "mean": lambda A: (A + A.T) / 2}


@pytest.mark.parametrize("symmetrize", SYMMETRIC)
@pytest.mark.parametrize("kind", ["binary", "heat", "self_tuned"])
def test_weights_are_their_formula(kind, symmetrize):
    found = neighbors(points(), 6)
    s = found.distances[:, -1].astype(np.float64)
    h = np.median(s)
    value = {"binary": lambda i, j, d: 1.0, "heat": lambda i, j, d: np.exp(-d**2 / (2 * h**2)),
             "self_tuned": lambda i, j, d: np.exp(-4 * d**2 / (s[i] * s[j]))}[kind]
    W = weights(found, kind, symmetrize=symmetrize)
    assert_allclose(W.toarray(), SYMMETRIC[symmetrize](directed(found, value)), rtol=1e-12)


@pytest.mark.parametrize("width", [0.35, 1.0])
def test_the_width_scales_the_distances_to_the_kth_neighbors(width):
    found = neighbors(points(), 6)
    s = found.distances[:, -1].astype(np.float64)
    expected = directed(found, lambda i, j, d: np.exp(-d**2 / (width**2 * s[i] * s[j])))
    assert_allclose(weights(found, width=width).toarray(), SYMMETRIC["maximum"](expected), rtol=1e-12)


def test_binary_weights_are_scikit_learns_graph():
    X = points(random_state=1)
    A = kneighbors_graph(X, 5, include_self=False)
    assert_array_equal(weights(neighbors(X, 5), "binary").toarray(), A.maximum(A.T).toarray())


@given(n=st.integers(3, 60), copies=st.integers(1, 6), random_state=st.integers(0, 99), data=st.data())
@settings(max_examples=25, deadline=None)
def test_weights_are_symmetric_positive_and_sorted(n, copies, random_state, data):
    X = np.random.default_rng(random_state).integers(0, copies, size=(n, 2)).astype(float)
    found = neighbors(X, data.draw(st.integers(1, n - 1)))
    kind = data.draw(st.sampled_from(["binary", "heat", "self_tuned"]))
    W = weights(found, kind, symmetrize=data.draw(st.sampled_from(sorted(SYMMETRIC))))
    assert abs(W - W.T).nnz == 0
    assert not W.diagonal().any()
    assert (W.data > 0).all()
    assert (W.data <= 1).all()
    assert all((np.diff(W.indices[a:b]) > 0).all() for a, b in zip(W.indptr[:-1], W.indptr[1:], strict=True))


@pytest.mark.parametrize("symmetrize", SYMMETRIC)
def test_blocks_and_storage_do_not_change_the_graph(tmp_path, symmetrize):
    found = neighbors(points(500, random_state=2), 7)
    params = WeightParams(weights="self_tuned", symmetrize=symmetrize)
    whole = weights(found, symmetrize=symmetrize)
    parts = StoredParts(tmp_path)
    attributes = weigh(found, params, InProcess(2), parts, height=77)
    assert len(parts.receipts(200)) == 7
    W = read_graph(parts)
    for name in ("data", "indices", "indptr"):
        assert_array_equal(getattr(W, name), getattr(whole, name))
    assert attributes["nnz"] == W.nnz
    (tmp_path / "receipts" / "000006.json").unlink()
    with pytest.raises(IntegrityError, match="lacks block 6 of 7"):
        read_graph(parts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["heat", "self_tuned"])
@pytest.mark.extended_cases("self_tuned")
def test_no_task_and_no_driver_holds_more_than_a_budget_for_blocks(tmp_path, kind):
    """Of 200,000 entries anywhere, of which the median is sought in passes, the same W as in one block."""
    lists, params = made_lists(20_000), WeightParams(weights=kind)
    parts, small = StoredParts(tmp_path / "W"), Traced(tmp_path, 4 << 20)
    with small:
        attributes = weigh(lists.shared(small), params, small, parts)
    assert len(parts.receipts(200)) > 10
    assert "WithinTask" in small.tasks
    assert max(small.tasks.values()) <= small.memory_budget
    whole = MemoryParts()
    assert weigh(lists, params, InProcess(1), whole) == attributes
    assert len(whole.receipts(200)) == 1
    W, expected = read_graph(parts), read_graph(whole)
    for name in ("data", "indices", "indptr"):
        assert_array_equal(getattr(W, name), getattr(expected, name))
    assert not list((tmp_path / "W" / "within").glob("*"))  # what only the passes need is gone


NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(st.lists(st.lists(NUMBERS, max_size=9), min_size=1, max_size=5).filter(any))
@settings(max_examples=25, deadline=None)
def test_the_median_of_parts_is_that_of_all_values(pieces):
    parts, values = MemoryParts(), [np.array(piece, np.float64) for piece in pieces]
    for index, own in enumerate(values):
        parts.write(index, {"x": own, "y": own**2})
    with patch.object(median, "max_collected", lambda budget: 2):
        counts = [len(own) for own in values]
        found = median.medians_of_parts(parts, {"x": counts, "y": counts}, InProcess(1))
    assert found == {"x": np.median(np.concatenate(values)), "y": np.median(np.concatenate(values)**2)}


def test_copies_have_weight_1_and_borrow_a_scale():
    """Four copies with k = 3 have no scale of their own; the point beside them lists them and lends its own."""
    X = np.array([[0.0], [0], [0], [0], [1], [3], [6], [10]])
    found = neighbors(X, 3)
    W = weights(found, width=1.0).toarray()
    assert (W[:4, :4] == 1 - np.eye(4)).all()
    s = found.distances[4, -1]
    assert W[4, 0] == pytest.approx(np.exp(-1 / s**2))


def test_tiny_weights_are_raised_to_the_floor_and_counted():
    X = np.concatenate([points(300, 2, random_state=3), [[1e3, 1e3], [-1e3, 2e3]]])
    found = neighbors(X, 5)
    d = found.distances.astype(np.float64)
    plain = np.exp(-d**2 / (2 * np.median(d[:, -1]) ** 2))
    low = int((plain < 1e-10 * np.median(plain)).sum())
    assert low >= 10
    with pytest.warns(WeightsRaised, match=f"{low} of 1510 weights"):
        W = weights(found, "heat")
    assert W.data.min() == pytest.approx(1e-10 * np.median(plain))


def test_a_bandwidth_that_leaves_nothing_is_refused():
    with pytest.raises(ParameterError, match="the median weight is exp"):
        weights(neighbors(points(), 5), "heat", bandwidth=1e-4)
    with pytest.raises(ParameterError, match=r"with width=0\.01 the median weight is exp"):
        weights(neighbors(points(), 5), width=0.01)


@pytest.mark.parametrize("changes", [{"weights": "cosine"}, {"symmetrize": "or"}, {"weights": "heat", "bandwidth": 0.0},
                                     {"weights": "binary", "bandwidth": 1.0},
                                     {"width": 0.0}, {"width": True}, {"width": np.nan}])
def test_parameters_are_checked(changes):
    with pytest.raises(ParameterError, match=list(changes)[-1]):
        WeightParams(**changes)


@pytest.mark.parametrize("ids", [[[1], [-1], [0]], [[1], [3], [0]], [[0], [2], [0]]])
def test_lists_are_checked(ids):
    lists = Neighbors.from_arrays({"ids": np.array(ids), "distances": np.ones((3, 1), np.float32)})
    with pytest.raises(DataError, match="not valid"):
        weights(lists)


def test_copies_do_not_set_the_bandwidth():
    """Most points are copies, whose k-th neighbor is at distance 0: the median is over the others."""
    X = np.concatenate([np.zeros((50, 2)), points(30, 2, random_state=4)])
    found = neighbors(X, 3)
    d = found.distances[:, -1].astype(np.float64)
    W = weights(found, "heat")
    h = np.median(d[d > 0])
    lengths = np.linalg.norm(X[:, None] - X[None], axis=2)
    linked = W.toarray() > 0
    assert_allclose(W.toarray()[linked], np.exp(-lengths[linked] ** 2 / (2 * h**2)), rtol=1e-5)
    Y = np.concatenate([np.zeros((20, 2)), points(60, 2, random_state=5)])
    with pytest.raises(ParameterError, match=r"choose a bandwidth near 0\.[1-9]"):
        weights(neighbors(Y, 3), "heat", bandwidth=1e-4)


@pytest.mark.parametrize(("scale", "message"), [(1e60, "apart"), (1e-50, "1500 of 1500 distances are below 1e-45"),
                                                (1e-160, "no value is larger than"), (1e160, "1e150 or more")])
def test_features_whose_distances_vanish_or_overflow_are_refused(scale, message):
    with pytest.raises(DataError, match=message):
        neighbors(points(300, 3) * scale, 5)


@pytest.mark.parametrize("scale", [1e-35, 1e35])
def test_the_scale_of_the_features_does_not_change_the_weights(scale):
    X = points(100, 3)
    for kind in ("heat", "self_tuned"):
        assert_allclose(weights(neighbors(X * scale, 5), kind).toarray(), weights(neighbors(X, 5), kind).toarray(),
                        rtol=1e-4)


@pytest.mark.parametrize("bandwidth", [1e-300, 0.0, float("nan"), "1"])
def test_a_bandwidth_that_is_no_distance_is_refused_without_a_warning(bandwidth):
    with pytest.raises(ParameterError, match="1e-100 to 1e100"):
        WeightParams(weights="heat", bandwidth=bandwidth)


def test_what_is_no_neighbor_lists_is_refused_in_words():
    with pytest.raises(ParameterError, match="neighbors is of type ndarray"):
        weights(np.eye(4))
