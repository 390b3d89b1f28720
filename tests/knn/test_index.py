"""The index of a graph's points against brute force, dense and sparse, by either search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.base.errors import BudgetError, DataError
from dssl.execution.in_process import InProcess
from dssl.knn.exact import blocks, tiles
from dssl.knn.exact.blocks import points_in_blocks
from dssl.knn.exact.layout import principal_frame
from dssl.knn.index import NeighborIndex
from dssl.storage.csr import as_rows
from tests import reference


def distances(queries, X, metric):
    """Return the distances (q, m) of all pairs."""
    if metric == "euclidean":
        return np.sqrt(reference.squared_distances(queries, X))
    unit = [Z / np.linalg.norm(Z, axis=1)[:, None] for Z in (queries, X)]
    return 1 - unit[0] @ unit[1].T


def index_of(X, metric="euclidean", **options):
    return NeighborIndex.of(as_rows(X), metric, InProcess(1, **options))


def check(index, queries, X, metric, k):
    """Assert that the distances are the k smallest of all, ascending, and that the ids have them."""
    dense = queries.toarray() if sparse.issparse(queries) else queries
    whole = distances(dense.astype(float), X.astype(float), metric)
    found, ids = index.nearest(queries, k)
    expected = np.sort(whole, axis=1)[:, :k]
    close = {"rtol": 1e-5, "atol": 2e-3 * np.abs(X).max()} if X.dtype == np.float32 else {"rtol": 1e-6, "atol": 1e-6}
    own = np.take_along_axis(whole, ids, axis=1)
    if metric == "cosine":  # its distance is that of unit vectors
        expected, own = np.sqrt(2 * np.maximum(expected, 0)), np.sqrt(2 * np.maximum(own, 0))
    assert_allclose(found, expected, **close)
    assert_allclose(own, expected, **close)
    assert (np.diff(found, axis=1) >= 0).all()
    assert all(len(set(row)) == len(row) for row in ids.tolist())


@settings(max_examples=25)
@given(random_state=st.integers(0, 999), n=st.integers(2, 60), d=st.integers(1, 30), k=st.integers(1, 12),
       metric=st.sampled_from(["euclidean", "cosine"]), dtype=st.sampled_from([np.float32, np.float64]))
def test_dense_queries_are_those_of_brute_force(random_state, n, d, k, metric, dtype):
    rng = np.random.default_rng(random_state)
    X, queries = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(7, d)).astype(dtype)
    index = index_of(X, metric)
    check(index, queries, X, metric, min(k, n))
    found, ids = index.nearest(queries, n + 5)  # more than there are: all of them
    assert ids.shape == found.shape == (7, n)


@pytest.mark.parametrize(("d", "decay", "search"), [(2, 0, "tree"), (200, 0.8, "tiles"), (200, 0, "products")])
def test_each_search_is_exact(d, decay, search):
    rng, lengths = np.random.default_rng(0), np.arange(1, d + 1) ** -decay
    X, queries = lengths * rng.normal(size=(4200, d)), lengths * rng.normal(size=(50, d))
    index = index_of(X)
    assert index.attributes == {"metric": "euclidean", "search": search}
    assert (len(index), index.n_features) == (4200, d)
    check(index, queries, X, "euclidean", 10)


@pytest.mark.parametrize(("center", "dtype", "scale"), [
    (0.0, np.float32, 1.0), (0.7, np.float32, 1e-12), (10.0, np.float32, 1e9), (0.0, np.float32, 1e-36),
    (1e4, np.float64, 1.0)])
def test_rows_of_many_effective_dimensions_are_compared_in_all_coordinates(center, dtype, scale, monkeypatch):
    """Leading coordinates of noise rule out hardly a pair; the product in all coordinates does, but for rounding.

    Rows in float32 are multiplied as they are where their center is near the origin.
    """
    rng, blocks = np.random.default_rng(0), []
    X = (scale * (center + rng.normal(size=(4200, 150)))).astype(dtype)
    X[7] = X[8]
    queries = (scale * (center + rng.normal(size=(150, 150)) * np.array([1e-6, 1, 1e12])[np.arange(150) % 3, None])
               ).astype(dtype)
    in_all, takes_rows = tiles.centered, []

    def centered(rows, layout):
        blocks.append(len(rows))
        takes_rows.append(tiles._takes_rows(layout))
        return in_all(rows, layout)

    monkeypatch.setattr(tiles, "centered", centered)
    index = index_of(X)
    assert index.attributes["search"] == "products"
    check(index, queries, X, "euclidean", 10)
    check(index, X[:40], X, "euclidean", 3)
    assert blocks
    assert set(takes_rows) == {center < 1 and scale > 1e-18}


@pytest.mark.parametrize(("d", "search"), [(40, "tiles"), (150, "products")])
def test_where_more_rows_may_be_nearest_than_are_kept_queries_are_searched_again(d, search, monkeypatch):
    """Some rows stand there 30 times, or nearly: the products do not tell which of these are nearest."""
    rng, again = np.random.default_rng(0), []
    X = rng.normal(size=(7000, d)).astype(np.float32)
    X[:30], X[30:60] = X[0], X[30] + np.float32(1e-7) * rng.normal(size=(30, d)).astype(np.float32)
    rng.shuffle(X)
    queries = np.concatenate([X[:700], rng.normal(size=(100, d)).astype(np.float32)])
    by_bounds = tiles._Tiles.search_by_bounds

    def search_by_bounds(self, queries, *rest):
        again.append((self.by_products, len(queries.ids)))
        return by_bounds(self, queries, *rest)

    monkeypatch.setattr(tiles._Tiles, "search_by_bounds", search_by_bounds)
    index = index_of(X)
    assert index.attributes["search"] == search
    check(index, queries, X, "euclidean", 10)
    assert any(by_products and 0 < count < 60 for by_products, count in again)
    expected = np.argsort(reference.squared_distances(queries.astype(float), X.astype(float)), axis=1, kind="stable")
    assert_array_equal(np.sort(index.nearest(queries, 10)[1], axis=1)[-100:], np.sort(expected[-100:, :10], axis=1))


def test_a_tile_of_duplicates_does_not_turn_products_off(monkeypatch):
    """Products are tried again once most of the queries so far were searched by them alone."""
    rng, used = np.random.default_rng(0), {"search_by_products": 0, "search_by_bounds": 0}
    X = rng.normal(size=(12_000, 128)).astype(np.float32)
    X[:1200] = np.repeat(X[:30], 40, axis=0)
    rng.shuffle(X)

    def counting(name):
        search = getattr(tiles._Tiles, name)

        def counted(self, queries, *rest):
            used[name] += len(queries.ids)
            return search(self, queries, *rest)

        monkeypatch.setattr(tiles._Tiles, name, counted)

    for name in used:
        counting(name)
    index_of(X).nearest(X[:6000], 5)
    assert used["search_by_products"] > 3 * used["search_by_bounds"]


@pytest.mark.parametrize(("d", "block"), [(40, 9000), (40, 3000), (150, 9000), (150, 3000)])
@pytest.mark.filterwarnings("ignore:(overflow|invalid)")
def test_where_lengths_overflow_no_neighbor_is_lost(d, block):
    rng = np.random.default_rng(0)
    X, queries = 1e-30 * rng.normal(size=(9000, d)), 1e150 * rng.normal(size=(200, d))
    points = points_in_blocks(as_rows(X), "euclidean", block, X[:500])
    assert points.search == "tiles"
    distances, ids = points.nearest(queries, np.full(200, -1), 10)
    within, again = points.nearest(queries, np.full(200, -1), 10, distances[:, -1].copy())
    assert (ids < 9000).all()
    assert (again < 9000).all()
    assert_array_equal(distances, within)


@pytest.mark.parametrize(("n", "d"), [(1500, 30), (5000, 100)])
def test_a_far_row_does_not_make_others_be_measured(n, d, monkeypatch):
    """Products of rows near the center tell which are near, however far one row is."""
    rng, measured = np.random.default_rng(0), []
    X = rng.normal(size=(n, d))
    measure, measure_candidates = blocks.squared_distances_of, tiles.measure_candidates

    def counting(X, Z, of, to):
        measured.append(len(of))
        return measure(X, Z, of, to)

    def counting_incomplete(*arguments):
        complete = measure_candidates(*arguments)
        measured.append(np.count_nonzero(~complete))
        return complete

    monkeypatch.setattr(blocks, "squared_distances_of", counting)
    monkeypatch.setattr(tiles, "measure_candidates", counting_incomplete)
    counts = []
    for far in (1.0, 1e9):
        X[7] *= far
        measured.clear()
        check(index_of(X), X[:1000], X, "euclidean", 5)
        assert measured
        counts.append(sum(measured))
    assert counts[1] <= 2 * counts[0] + 1000


def test_frames_of_the_exact_search_have_all_axes_where_most_are_leading():
    X = np.random.default_rng(0).normal(size=(500, 40))
    assert principal_frame(X).leading < 40
    assert principal_frame(X, exact=True).leading == 40
    assert principal_frame(X[:, :1] * np.ones(60), exact=True).leading < 60
    wide = principal_frame(np.random.default_rng(0).normal(size=(500, 70)), exact=True)
    assert wide.leading < 70


def test_fewer_rows_of_many_effective_dimensions_than_queries():
    rng = np.random.default_rng(0)
    X, queries = rng.normal(size=(300, 1000)), rng.normal(size=(340, 1000))
    check(index_of(X), queries, X, "euclidean", 10)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_queries_are_those_of_brute_force(metric, form):
    rng = np.random.default_rng(1)
    X = (rng.random((80, 40)) < 0.15) * rng.uniform(0.5, 2, (80, 40))
    X[np.arange(80), np.arange(80) % 40] += 1
    index = index_of(sparse.csr_array(X), metric)
    check(index, form(X[:9] + (rng.random((9, 40)) < 0.05)), X, metric, 5)
    assert_array_equal(index.nearest(X[:9], 3)[1], index.nearest(form(X[:9]), 3)[1])


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_point_of_the_index_finds_itself_first(rows, metric):
    X = np.random.default_rng(2).uniform(0.1, 1, size=(70, 6)).astype(np.float32)
    distance, ids = index_of(rows(X), metric).nearest(rows(X), 3)
    assert_array_equal(ids[:, 0], np.arange(70))
    assert_array_equal(distance[:, 0], np.zeros(70))


@pytest.mark.parametrize("X", [np.random.default_rng(3).normal(size=(50, 3)),
                               np.random.default_rng(3).normal(size=(600, 90)),
                               sparse.csr_array(np.eye(9) + 0.5)], ids=["tree", "tiles", "sparse"])
def test_arrays_and_attributes_make_the_same_index(X):
    index = index_of(X)
    again = NeighborIndex.from_arrays({name: array.copy() for name, array in index.to_arrays().items()},
                                      index.attributes)
    assert again.attributes == index.attributes
    queries = X[:5] * 1.1
    for mine, own in zip(again.nearest(queries, 4), index.nearest(queries, 4), strict=True):
        assert_array_equal(mine, own)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_queries_that_are_not_finite_are_refused(bad):
    X = np.random.default_rng(4).normal(size=(20, 3))
    queries = X[:2].copy()
    queries[1, 1] = bad
    with pytest.raises(DataError, match="NaN or infinite"):
        index_of(X).nearest(queries, 2)
    with pytest.raises(DataError, match="NaN or infinite"):
        index_of(sparse.csr_array(X)).nearest(sparse.csr_array(queries), 2)


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array])
def test_a_query_of_zeros_has_no_direction(rows):
    X = np.random.default_rng(5).uniform(0.1, 1, size=(20, 3))
    with pytest.raises(DataError, match="zero"):
        index_of(rows(X), "cosine").nearest(rows(np.zeros((1, 3))), 2)


def test_points_that_do_not_fit_are_refused():
    with pytest.raises(BudgetError, match="an index of 4,000 points"):
        index_of(np.zeros((4000, 50)), memory_budget=1 << 20)
