"""Given weights and lists: what is refused, what is dropped, and that a given graph is the one made here."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.graph.given import (
    GraphFull,
    checked_neighbors,
    checked_weights,
    compacted,
    described_weights,
    restricted,
    store_weights,
)
from dssl.graph.graph import Graph
from dssl.graph.health import graph_health
from dssl.graph.weights.build import read_graph, weigh, weights
from dssl.graph.weights.rules import WeightParams
from dssl.knn.search import neighbors
from dssl.storage.blocks import MemoryParts, PartWriter


def points(n=60, random_state=0):
    return np.random.default_rng(random_state).normal(size=(n, 3))


def weighed(lists, **params):
    """Return the dense weights of lists, without the check that refuses short ones."""
    parts = MemoryParts()
    attributes = weigh(lists, WeightParams(**params), InProcess(1), parts, height=17)
    return read_graph(parts).toarray(), attributes


# Weights


def test_given_weights_are_stored_without_diagonal_and_zeros():
    W = weights(neighbors(points(), 4))
    looped = sp.coo_array(W + sp.eye_array(60))
    before = looped.toarray()
    checked = checked_weights(looped, 60)
    assert_array_equal(checked.toarray(), W.toarray())
    assert_array_equal(looped.toarray(), before)
    parts = MemoryParts()
    receipt = store_weights(checked, PartWriter(parts, 0))
    parts.finish(0, receipt)
    assert_array_equal(read_graph(parts).toarray(), W.toarray())
    assert described_weights(receipt) == {"weights": "given", "bandwidth": None, "width": None, "symmetrize": None,
                                          "n": 60, "nnz": W.nnz, "entries": W.nnz, "raised": 0,
                                          "floor": pytest.approx(1e-10 * np.median(W.data))}


def test_given_weights_that_vanish_are_raised_and_counted():
    W = np.array([[0, 1, 1e-300], [1, 0, 1], [1e-300, 1, 0]])
    parts = MemoryParts()
    receipt = store_weights(checked_weights(sp.csr_array(W), 3), PartWriter(parts, 0))
    parts.finish(0, receipt)
    assert receipt["raised"] == 2
    assert read_graph(parts)[0, 2] == 1e-10


@pytest.mark.parametrize(("W", "message"), [
    (np.ones((2, 2)), "expected a sparse matrix"),
    (sp.csr_array(np.ones((2, 3))), r"shape \(2, 3\) for 2 points"),
    (sp.csr_array(np.ones((3, 3))), r"shape \(3, 3\) for 2 points"),
    (sp.csr_array(np.array([[0, np.nan], [np.nan, 0]])), "2 of 2 weights are NaN"),
    (sp.csr_array(np.array([[0, -0.5], [-0.5, 0]])), "2 of 2 weights are negative, the lowest -0.5"),
    (sp.csr_array(np.array([[0, 1.0], [0.25, 0]])), "transpose by up to 0.75, in 1 pairs"),
    (sp.csr_array(np.eye(2)), "join none of the 2 points"),
    (sp.csr_array(np.array([[0, 1j], [1j, 0]])), "complex"),
])
def test_weights_that_are_refused(W, message):
    with pytest.raises(DataError, match=message) as error:
        checked_weights(W, 2)
    assert "fix:" in str(error.value)


# Lists


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lists_with_their_own_ids_are_those_without(dtype):
    found = neighbors(points(), 5).to_arrays()
    own = np.arange(60)[:, None]
    ids, distances = np.hstack([own, found["ids"]]), np.hstack([np.zeros((60, 1)), found["distances"]]).astype(dtype)
    lists = checked_neighbors((ids, distances), 60)
    assert lists.k == lists.attributes["n_neighbors"] == 5
    assert_array_equal(lists.indices, found["ids"])
    assert lists.distances.dtype == dtype
    assert_allclose(weights(lists).toarray(), weights(neighbors(points(), 5)).toarray(), rtol=1e-6)
    shuffled = np.random.default_rng(0).permuted(np.tile(np.arange(6), (60, 1)), axis=1)
    again = checked_neighbors([np.take_along_axis(ids, shuffled, 1), np.take_along_axis(distances, shuffled, 1)], 60)
    assert_array_equal(again.indices, found["ids"])
    assert_array_equal(checked_neighbors(lists, 60).indices, found["ids"])


@pytest.mark.parametrize(("ids", "distances", "message"), [
    ([[1], [0]], [[1.0], [1.0]], "2 neighbor lists for 3 points"),
    ([[1], [0], [0]], [[1.0, 2.0]] * 3, r"ids have shape \(3, 1\) and distances \(3, 2\)"),
    ([[1.0], [0], [0]], [[1.0]] * 3, "float64"),
    ([[1], [3], [-1]], [[1.0]] * 3, "2 ids are not row numbers, such as 3 in row 1, -1 in row 2"),
    ([[1], [0], [0]], [[1.0], [-1.0], [np.nan]], "2 distances are negative, NaN or above .*, such as -1.0 in row 1"),
    ([[1], [0], [2]], [[1.0]] * 3, "1 points are their own neighbors"),
    ([[1, 1], [0, 2], [0, 1]], [[1.0, 2.0]] * 3, "1 lists name a neighbor twice, first that of row 0"),
    ([[0], [1], [2]], [[0.0]] * 3, "no list of the 3 points"),
])
def test_lists_that_are_refused(ids, distances, message):
    with pytest.raises(DataError, match=message) as error:
        checked_neighbors((np.array(ids), np.array(distances)), 3)
    assert "fix:" in str(error.value)


def test_what_is_no_graph():
    with pytest.raises(ParameterError, match="the graph is str"):
        checked_neighbors("graph.npz", 3)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_short_lists_have_the_weights_of_their_entries(data):
    """Lists of different lengths, some empty, against the formula entry by entry; over rows that are left of them."""
    n = data.draw(st.integers(4, 30))
    X = points(n, random_state=n)
    full = neighbors(X, data.draw(st.integers(1, n - 1))).to_arrays()
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=2))))
    chosen = checked_neighbors((full["ids"], full["distances"]), n)
    place = {int(row): position for position, row in enumerate(rows)}
    entries = {(place[i], place[int(j)]): d for i in rows for j, d in zip(full["ids"][i], full["distances"][i],
                                                                         strict=True) if int(j) in place}
    if not entries:
        with pytest.raises(DataError, match="no list"):
            restricted(chosen, rows)
        return
    lists = restricted(chosen, rows)
    scale = np.array([max((d for (i, _), d in entries.items() if i == row), default=0) for row in range(len(rows))],
                     float)
    expected = np.zeros((len(rows), len(rows)))
    for (i, j), d in entries.items():
        product = scale[i] * scale[j] if scale[j] > 0 else scale[i] ** 2
        expected[i, j] = np.exp(-4 * float(d) ** 2 / product)
    found, attributes = weighed(lists)
    floor = attributes["floor"]
    assert_allclose(found, np.maximum(np.where(expected > 0, np.maximum(expected, floor), 0),
                                      np.where(expected.T > 0, np.maximum(expected.T, floor), 0)), rtol=1e-10)
    assert attributes["entries"] == len(entries)
    binary, _ = weighed(lists, weights="binary")
    assert_array_equal(binary, (expected > 0) | (expected.T > 0))
    weighed(lists, weights="heat")
    assert graph_health(sp.csr_array(binary), neighbors=lists)["duplicates"]["points"] == 0


def test_compacted_lists_are_sorted_and_end_with_no_id():
    ids, distances = np.array([[2, 1, 3], [0, 2, 3], [1, 0, 3], [0, 1, 2]]), np.array([[1.0, 1, 0.5]] * 4)
    keep = np.array([[True, True, False], [False, False, True], [False] * 3, [False] * 3])
    lists = compacted(ids, distances, keep)
    assert_array_equal(lists.indices, [[1, 2], [3, -1], [-1, -1], [-1, -1]])
    assert_array_equal(lists.distances, [[1, 1], [0.5, np.inf], [np.inf] * 2, [np.inf] * 2])


def test_a_graph_of_most_pairs_is_told():
    W = sp.csr_array(np.ones((60, 60)) - np.eye(60))
    with pytest.warns(GraphFull, match="joins 100% of all pairs of its 60 points"):
        Graph.of(W)
    Graph.of(W[:40, :40])
    Graph.of(sp.csr_array(np.kron(np.eye(3), np.ones((20, 20)))))
