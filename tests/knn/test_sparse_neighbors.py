"""Neighbors of sparse rows: the lists of the dense search but for rounding, and the same bits whatever the blocks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.base.errors import DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.knn.descent.search import AXIS_NS, ROW_NS, descent_cost
from dssl.knn.exact import blocks as exact
from dssl.knn.exact import inverted_index as inverted
from dssl.knn.exact.blocks import plan_exact
from dssl.knn.exact.inverted_index import Queries, nothing_is_rounded
from dssl.knn.lists import Neighbors
from dssl.knn.metric import check_rows, measurable
from dssl.knn.recall import certify_recall
from dssl.knn.search import NeighborParams, descent_seconds, find_neighbors, neighbors
from dssl.knn.squared_distances import candidate_distances
from dssl.storage.blocks import ArrayRows, MemoryParts, row_ranges
from dssl.storage.csr import CsrRows, as_csr, csr_arrays
from dssl.storage.views import BlockedCsrRows
from tests.memory import traced_peak


def zipf(n, d, entries, random_state, dtype=np.float32):
    """Return rows such as counts of words give: few columns in most rows, most columns in few."""
    rng = np.random.default_rng(random_state)
    share = 1 / np.arange(1, d + 1)
    columns = rng.choice(d, size=(n, entries), p=share / share.sum())
    rows = sparse.csr_array((np.ones(n * entries, dtype), (np.repeat(np.arange(n), entries), columns.ravel())),
                            shape=(n, d))
    return as_csr(rows)


def weighted(rows, random_state):
    rows = rows.copy()
    rows.data = (rows.data * np.random.default_rng(random_state).normal(size=rows.nnz)).astype(rows.dtype)
    return rows


def in_parts(rows, block_rows):
    parts = MemoryParts()
    for number, (start, stop) in enumerate(row_ranges(rows.shape[0], block_rows)):
        parts.write(number + 3, csr_arrays(rows[start:stop]))
    return BlockedCsrRows(parts, rows.shape, rows.dtype, block_rows, rows.nnz, first=3)


def lists(rows, k=7, metric="euclidean", execution=None):
    params = NeighborParams(n_neighbors=k, method="exact", metric=metric)
    found = find_neighbors(rows, params, execution or InProcess(2)).to_arrays()
    return found["ids"], found["distances"]


def assert_like_dense(rows, k=7, metric="euclidean"):
    """Compare distances, and by their distances the neighbors: those that are equally far may change places."""
    ids, distances = lists(rows, k, metric)
    X = measurable(rows.read_all().toarray(), metric).astype(np.float64)
    _, dense_distances = lists(ArrayRows(rows.read_all().toarray()), k, metric)
    assert_allclose(distances, dense_distances, rtol=1e-6)
    assert_allclose(np.sqrt(((X[:, None] - X[ids]) ** 2).sum(axis=2)), dense_distances, rtol=1e-6)
    ordered = np.sort(ids, axis=1)
    assert (ordered[:, 1:] != ordered[:, :-1]).all()
    assert (ids != np.arange(len(ids))[:, None]).all()


@settings(max_examples=20, deadline=None)
@given(d=st.integers(1, 70), share=st.sampled_from([0.02, 0.3, 1.0]), random_state=st.integers(0, 10**6),
       dtype=st.sampled_from([np.float64, np.float32, np.int64]))
def test_a_distance_is_the_dense_one_and_the_same_from_both_sides(d, share, random_state, dtype):
    rng = np.random.default_rng(random_state)
    X, Z = ((rng.normal(size=(6, d)) * 10 * (rng.random((6, d)) < share)).astype(dtype) for _ in range(2))
    X[1], Z[1], Z[2] = 0, 0, X[2]
    own = np.arange(6)[:, None]
    found = candidate_distances(as_csr(X), as_csr(Z), own)[:, 0]
    assert_allclose(found, ((X.astype(float) - Z.astype(float)) ** 2).sum(axis=1), rtol=1e-13)
    assert_array_equal(candidate_distances(as_csr(Z), as_csr(X), own)[:, 0], found)
    assert_allclose(candidate_distances(X, Z, own)[:, 0], found, rtol=1e-13)
    assert found[1] == found[2] == 0


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("kind", ["counts", "weighted", "weighted64"])
def test_lists_are_those_of_the_dense_search(kind, metric):
    X = zipf(1500, 400, 12, 0, np.float64 if kind == "weighted64" else np.float32)
    assert_like_dense(CsrRows(X if kind == "counts" else weighted(X, 1)), metric=metric)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_lists_are_the_dense_ones_for_any_small_rows(data):
    n, d = data.draw(st.integers(2, 30)), data.draw(st.integers(1, 8))
    k, block = data.draw(st.integers(1, n - 1)), data.draw(st.integers(1, n))
    values = st.sampled_from([0.0, 0.0, 1.0, -2.0, 0.1, 1e-170, 1e30]) if data.draw(st.booleans()) else (
        st.integers(-2, 2).map(float))
    X = np.array(data.draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n)))
    rows = as_csr(X)
    if data.draw(st.booleans()):  # zeros that are stored count as zeros
        rows = as_csr(sparse.csr_array((np.where(X == 0.1, 0, X).ravel(), np.tile(np.arange(d), n),
                                        np.arange(0, n * d + 1, d)), shape=(n, d)))
    assert_like_dense(in_parts(rows, block), k)


@pytest.mark.parametrize("kind", ["counts", "weighted"])
def test_tiles_blocks_and_heads_do_not_change_the_lists(kind, monkeypatch):
    X = zipf(900, 60, 6, 2)
    X = X if kind == "counts" else weighted(X, 3)
    expected = lists(CsrRows(X))
    for query_tile, point_tile, block_rows, heads, max_heads in [(7, 40, 100, 0.0, 256), (64, 900, 333, 2.0, 256),
                                                           (13, 257, 1000, 0.01, 2)]:
        monkeypatch.setattr(inverted, "QUERY_TILE", query_tile)
        monkeypatch.setattr(inverted, "POINT_TILE", point_tile)
        monkeypatch.setattr(inverted, "HEAD_SHARE", heads)
        monkeypatch.setattr(inverted, "MAX_HEADS", max_heads)
        monkeypatch.setattr(exact, "MIN_BLOCK_ROWS", block_rows)
        monkeypatch.setattr(exact, "MAX_BLOCK_ROWS", block_rows)
        for rows in (CsrRows(X), in_parts(X, block_rows // 3)):
            for found, wanted in zip(lists(rows), expected, strict=True):
                assert_array_equal(found, wanted)


def test_points_that_are_whole_after_points_that_are_not():
    """Tiles of both kinds share the heaps."""
    X = zipf(600, 50, 5, 4)
    X.data[X.indptr[200]:X.indptr[400]] *= np.float32(0.3)
    expected = lists(CsrRows(X), 6)[0]
    for pieces in ([0, 200, 400, 600], [0, 400, 600], [0, 600]):
        for who in (slice(0, 200), slice(200, 400)):
            queries = Queries(X[who], np.arange(600)[who], 6)
            for start, stop in pairwise(pieces):
                queries.offer(start, X[start:stop])
            found, ids = queries.nearest()
            assert_allclose(np.sqrt(found), lists(ArrayRows(X.toarray()), 6)[1][who], rtol=1e-6)
            assert_array_equal(ids, expected[who])


def test_what_counts_as_whole():
    assert nothing_is_rounded(as_csr(np.array([[1.0, 0, -3]])))
    assert nothing_is_rounded(as_csr(np.zeros((2, 3))))
    assert nothing_is_rounded(as_csr(np.array([[7.0, 0]])))
    assert not nothing_is_rounded(as_csr(np.array([[0.5, 0]])))
    assert not nothing_is_rounded(as_csr(np.array([[2.0**26, 1]])))


def test_copies_and_rows_without_entries_are_neighbors_by_id():
    X = np.zeros((40, 9))
    X[::4, 3] = 2.5
    ids, distances = lists(CsrRows(as_csr(X)), 5)
    assert_array_equal(ids[1], [2, 3, 5, 6, 7])
    assert_array_equal(ids[4], [0, 8, 12, 16, 20])
    assert (distances == 0).all()


def test_the_public_function_takes_any_sparse_matrix_and_leaves_it_alone():
    X = zipf(200, 30, 4, 5).tocoo()
    before = X.copy()
    found = neighbors(X, 5)
    assert found.attributes["search"] == "inverted index"
    assert found.attributes["recall"]["certified"] == "exact"
    assert_array_equal(found.indices, neighbors(X.toarray(), 5).indices)
    assert (before != X).nnz == 0


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_measurable_rows_are_the_dense_ones(metric):
    X = weighted(zipf(50, 20, 4, 6), 7)
    assert_array_equal(measurable(X, metric).toarray(), measurable(X.toarray(), metric))
    flags = as_csr(X.toarray() != 0)
    assert_array_equal(measurable(flags, metric).toarray(), measurable(flags.toarray(), metric))


@pytest.mark.parametrize(("value", "metric", "words"), [
    (np.nan, "euclidean", "NaN or infinite"), (np.inf, "cosine", "NaN or infinite"), (-1e200, "euclidean", "1e150"),
    (0.0, "cosine", "rows that are zero: 4\n"), (None, "cosine", "rows that are zero: 4\n"),
])
def test_rows_without_distances_are_refused(value, metric, words):
    X = as_csr(np.eye(6))
    if value is None:
        X = as_csr(np.diag([1.0, 1, 1, 1, 0, 1]))
    else:
        X.data[4] = value
    with pytest.raises(DataError, match=words):
        check_rows(in_parts(X, 2), 2, metric)
    with pytest.raises(ParameterError, match="n_neighbors=6 with 6 points"):
        check_rows(CsrRows(as_csr(np.eye(6))), 6, "euclidean")


def test_nothing_of_the_size_of_the_dense_rows_is_made():
    """2,000 rows of 50,000 columns are 800 MB dense; the search of a few blocks stays below 60."""
    X = weighted(zipf(2000, 50_000, 20, 8), 9)
    lists(CsrRows(X[:300]), 3)  # compiled before it is measured
    assert traced_peak(lambda: lists(CsrRows(X), 3, execution=InProcess(1)), 60e6) < 60e6


def test_the_search_is_planned_without_reading_all_rows(monkeypatch):
    X = zipf(3000, 40, 4, 10)
    assert plan_exact(CsrRows(X), 5, "euclidean", InProcess(1))[0].search == "inverted index"
    wide = in_parts(X, 700)
    assert inverted.point_rows(wide, "euclidean", 1 << 30) % 700 == 0
    assert inverted.point_rows(wide, "euclidean", 1 << 17) in range(1, 700)


def test_the_method_is_chosen_by_predicted_seconds(monkeypatch):
    X = zipf(300, 40, 4, 17)
    monkeypatch.setattr("dssl.knn.search.ALWAYS_EXACT_ROWS", 100)
    assert neighbors(X, 5).attributes["method"] == "exact"
    wider = sparse.csr_array((X.data, X.indices, X.indptr), shape=(300, 5000))
    longer = as_csr(X + sparse.csr_array(np.ones((300, 40), np.float32)))
    # The formulas of the costs, not what this machine takes.
    assert descent_seconds(CsrRows(wider), 5) == descent_seconds(CsrRows(X), 5)
    assert descent_seconds(CsrRows(longer), 5) > descent_seconds(CsrRows(X), 5)
    assert descent_seconds(ArrayRows(X.toarray()), 5) == 300 * 10 * (ROW_NS + 41 * AXIS_NS) * 1e-9


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_recall_is_certified_as_for_dense_rows(metric):
    X = weighted(zipf(400, 60, 6, 11), 12)
    found = neighbors(X, 6, metric=metric)
    spoiled = found.indices.copy()
    rng = np.random.default_rng(0)
    spoiled[rng.random(spoiled.shape) < 0.3] = 7
    damaged = Neighbors(ArrayRows(spoiled), found.distance_rows, found.attributes)
    for which in (found, damaged):
        on_sparse = certify_recall(in_parts(X, 90), which, sample=150)
        on_dense = certify_recall(X.toarray(), which, sample=150)
        assert on_sparse == on_dense
    assert certify_recall(X, found)["recall"] == 1


def test_descent_tells_rows_apart_that_are_near_each_other_and_far_from_zero():
    X = sparse.csr_array(np.random.default_rng(20).normal(size=(600, 5)) + 1e4)
    found, true = (neighbors(X, 5, method=method).indices for method in ("descent", "exact"))
    assert np.mean([np.isin(*rows).mean() for rows in zip(found, true, strict=True)]) > 0.97


@pytest.mark.parametrize(("n", "d", "entries", "dtype", "metric"), [
    (600, 150_000, 20, np.float32, "euclidean"), (1200, 2000, 300, np.uint8, "euclidean"),
    (1200, 2000, 300, np.float32, "cosine")])
def test_descent_takes_what_its_cost_says(n, d, entries, dtype, metric):
    """Arrays alone, which no kernel that is compiled is among."""
    X = CsrRows(sparse.random(n, d, entries / d, "csr", rng=np.random.default_rng(21)).astype(np.float32).ceil()
                .astype(dtype))
    execution = InProcess(1, memory_budget=1 << 30)
    params = NeighborParams(n_neighbors=5, method="descent", metric=metric, recall=0.01)
    cost = descent_cost(X, 5, metric, execution.memory_budget)
    peak = traced_peak(lambda: find_neighbors(X, params, execution), cost.peak)
    assert cost.smallest_peak / 3 < peak < cost.peak
