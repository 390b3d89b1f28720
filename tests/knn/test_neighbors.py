"""Neighbor lists against scikit-learn and a dense float64 reference, whatever the blocks, the method and the units."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partialmethod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from dssl import KNNGraph
from dssl.base.errors import DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.knn.descent.search import DescentTask, descend
from dssl.knn.exact import blocks as exact
from dssl.knn.exact import layout
from dssl.knn.exact.blocks import plan_exact
from dssl.knn.exact.layout import Frame
from dssl.knn.lists import Neighbors
from dssl.knn.metric import Euclidean
from dssl.knn.recall import HALVED_ROWS, certify_recall, true_neighbors, truth_rows
from dssl.knn.search import NeighborParams, descent_seconds, find_neighbors, neighbors
from dssl.knn.squared_distances import squared_distances_of
from dssl.storage.blocks import ArrayRows
from dssl.storage.csr import as_csr, as_rows
from dssl.storage.store import StoredParts
from tests.embeddings import hard_pixels
from tests.knn.test_sparse_neighbors import weighted, zipf
from tests.methods.test_evaluation import evaluation


def dense_neighbors(X, k):
    """Return ids and distances by sorting all (distance, id) pairs; float64, the point itself left out by number."""
    X = np.asarray(X, np.float64)
    ids, distances = np.empty((len(X), k), np.int64), np.empty((len(X), k))
    for i, x in enumerate(X):
        d2 = ((X - x) ** 2).sum(axis=1)
        others = np.delete(np.arange(len(X)), i)
        ids[i] = others[np.lexsort((others, d2[others]))[:k]]
        distances[i] = np.sqrt(d2[ids[i]])
    return ids, distances


def ids_by(X, k, search, monkeypatch, *, budget=2 << 30, threads=1):
    """Return the ids that one search finds within a memory budget, and the points as they are planned.

    search : "tree", "tiles" or "products", as for many points, or "few".
    """
    if search != "few":
        monkeypatch.setattr("dssl.knn.exact.blocks.FEW_PAIRS", 0)
        monkeypatch.setattr(layout, "FEW_ROWS", 0)
    monkeypatch.setattr(exact, "FEW_SECONDS", 0.0)
    monkeypatch.setattr(exact, "TREE_QUERY_NS", 0.0 if search == "tree" else 1e12)
    monkeypatch.setattr(exact, "leading_suffice", lambda layout, k: search != "products")
    monkeypatch.setattr(exact, "TREE_VISIT_NS", 0.0)
    monkeypatch.setattr(exact, "TREE_AXIS_NS", 0.0)
    execution = InProcess(threads, memory_budget=budget)
    rows = ArrayRows(np.asarray(X))
    points, _ = plan_exact(rows, k, "euclidean", execution)
    assert points.search == ("tiles" if search == "few" else search)
    found = find_neighbors(rows, NeighborParams(n_neighbors=k, method="exact"), execution)
    return found.indices, points


SEARCHES = pytest.mark.parametrize("search", ["tree", "tiles", "products", "few"])
METHODS = pytest.mark.parametrize("method", ["exact", "descent"])


@SEARCHES
@pytest.mark.parametrize("d", [1, 3, 40, 300])
@pytest.mark.slow_cases("300-tree", "300-tiles")
def test_both_searches_equal_the_dense_reference(search, d, monkeypatch):
    X = np.random.default_rng(d).normal(size=(700, d))
    ids, _ = ids_by(X, 7, search, monkeypatch)
    assert_array_equal(ids, dense_neighbors(X, 7)[0])


@SEARCHES
def test_ties_break_by_id_on_a_grid_full_of_copies(search, monkeypatch):
    """Integers, so every distance is exact; 900 points on 64 places."""
    X = np.random.default_rng(0).integers(0, 4, size=(900, 3))
    ids, _ = ids_by(X, 20, search, monkeypatch)
    assert_array_equal(ids, dense_neighbors(X, 20)[0])


@SEARCHES
@pytest.mark.parametrize("kind", ["distinct", "copies"])
def test_blocks_and_tiles_do_not_change_the_lists(search, kind, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 48)) if kind == "distinct" else rng.integers(0, 3, size=(1500, 4)).astype(np.float32)
    expected, _ = ids_by(X, 5, search, monkeypatch)
    for query_tile, point_tile, block_rows, leaf in [(7, 40, 100, 5), (64, 1500, 1500, 32), (513, 257, 499, 200)]:
        monkeypatch.setattr("dssl.knn.exact.tiles.QUERY_TILE", query_tile)
        monkeypatch.setattr("dssl.knn.exact.tiles.POINT_TILE", point_tile)
        monkeypatch.setattr("dssl.knn.exact.layout.LEAF_ROWS", leaf)
        monkeypatch.setattr(exact, "MIN_BLOCK_ROWS", block_rows)
        monkeypatch.setattr(exact, "MAX_BLOCK_ROWS", block_rows)
        found, _ = ids_by(X, 5, search, monkeypatch, threads=2)
        assert_array_equal(found, expected)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_few_and_many_points_are_searched_alike_to_the_last_bit(data):
    """Ties at the limit, limits of each query, copies, queries among the points and others, and units."""
    n, d, k = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    X = rng.integers(-2, 3, size=(n, d)) * 1.0 if data.draw(st.booleans()) else rng.normal(size=(n, d))
    X *= data.draw(st.sampled_from([1.0, 1e-140, 1e140]))
    points, _ = plan_exact(ArrayRows(X), k, "euclidean", InProcess(1))
    queries, numbers = (X, np.arange(n)) if data.draw(st.booleans()) else (np.roll(X, 1, axis=1), np.full(n, -1))
    within = points.nearest(queries, numbers, k)[0][:, 0] if data.draw(st.booleans()) else None
    found = points.nearest(queries, numbers, k, within)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dssl.knn.exact.blocks.FEW_PAIRS", 0)
        expected = points.nearest(queries, numbers, k, within)
    assert_array_equal(found[1], expected[1])
    assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("search", ["tree", "tiles", "products"])
def test_queries_a_world_away_are_searched_exactly_and_without_overflow(search, monkeypatch):
    monkeypatch.setattr(exact, "FEW_PAIRS", 0)
    rng = np.random.default_rng(22)
    X, directions = rng.normal(size=(5000, 70)), rng.normal(size=(30, 70))
    directions[:10] = np.eye(10, 70)  # far along one axis
    points = replace(plan_exact(ArrayRows(X), 5, "euclidean", InProcess(1))[0], search=search)
    for far in (1e6, 1e40):
        distances, ids = points.nearest(far * directions, np.full(30, -1), 5)
        assert_allclose(np.sqrt(distances[:, 0]), far * np.sqrt((directions**2).sum(axis=1)), rtol=1e-4)
        if far == 1e6:  # a point's coordinates are rounded away by 1e40
            assert_array_equal(ids[:, 0], (directions @ X.T).argmax(axis=1))


@pytest.mark.parametrize("d", [1, 5, 784])
def test_compiled_code_measures_pairs_to_the_bits_of_numpy(monkeypatch, d):
    rng = np.random.default_rng(d)
    X, Z = rng.normal(size=(40, d)).astype(np.float32), rng.normal(size=(9, d)) * 1e3
    of, to = rng.integers(40, size=700), rng.integers(9, size=700)
    by_numpy = squared_distances_of(X, Z, of, to)
    monkeypatch.setattr("dssl.knn.squared_distances.COMPILED_VALUES", 0)
    assert_array_equal(squared_distances_of(X, Z, of, to), by_numpy)
    assert_allclose(by_numpy, ((X[of] - Z[to])**2).sum(axis=1))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_lists_are_the_dense_ones_for_any_small_data(data):
    n = data.draw(st.integers(2, 40))
    d, k = data.draw(st.integers(1, 5)), data.draw(st.integers(1, n - 1))
    values = st.integers(-3, 3) if data.draw(st.booleans()) else st.floats(-1e3, 1e3, width=32)
    X = np.array(data.draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n)), np.float64)
    found = neighbors(X, k).to_arrays()
    ids, distances = dense_neighbors(X, k)
    assert_allclose(found["distances"], distances, rtol=1e-6, atol=1e-30)
    assert (np.diff(found["distances"], axis=1) >= 0).all()
    assert (np.arange(n)[:, None] != found["ids"]).all()
    assert all(len(set(row)) == k for row in found["ids"].tolist())
    if (np.round(X) == X).all():
        assert_array_equal(found["ids"], ids)


@SEARCHES
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_data_far_from_the_origin_lose_nothing(search, dtype, monkeypatch):
    X = (np.random.default_rng(2).normal(size=(800, 30)) + 1e4).astype(dtype)
    ids, _ = ids_by(X, 6, search, monkeypatch)
    assert_array_equal(ids, dense_neighbors(X, 6)[0])


@SEARCHES
def test_two_clusters_far_apart_lose_nothing(search, monkeypatch):
    """The center lies between the clusters, so float32 coordinates cannot tell the rows of a cluster apart."""
    X = np.random.default_rng(3).normal(size=(600, 10)) * 1e-3
    X[::2] += 1e5
    ids, _ = ids_by(X, 4, search, monkeypatch)
    assert_array_equal(ids, dense_neighbors(X, 4)[0])


@SEARCHES
@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_units_do_not_change_the_lists(search, unit, monkeypatch):
    X = np.random.default_rng(4).normal(size=(500, 100))
    ids, _ = ids_by(X * unit, 5, search, monkeypatch)
    assert_array_equal(ids, dense_neighbors(X, 5)[0])


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float16, np.float32, np.float64, bool])
def test_every_numeric_dtype_means_its_values(dtype):
    X = (np.random.default_rng(5).integers(0, 2 if dtype is bool else 100, size=(300, 8))).astype(dtype)
    found = neighbors(X, 5).to_arrays()
    ids, distances = dense_neighbors(X, 5)
    assert_array_equal(found["ids"], ids)
    assert_allclose(found["distances"], distances, rtol=1e-6)


def test_scikit_learn_finds_the_same():
    X = np.random.default_rng(6).normal(size=(1000, 12))
    distances, ids = NearestNeighbors(n_neighbors=9).fit(X).kneighbors()
    found = neighbors(X, 9).to_arrays()
    assert_array_equal(found["ids"], ids)
    assert_allclose(found["distances"], distances, rtol=1e-6)
    assert found["ids"].dtype == np.int64
    assert found["distances"].dtype == np.float32


def test_cosine_is_euclidean_on_unit_rows():
    X = np.random.default_rng(7).normal(size=(400, 6)) * np.exp(np.random.default_rng(8).normal(size=(400, 1)))
    found = neighbors(X, 5, metric="cosine").to_arrays()
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert_array_equal(found["ids"], neighbors(unit, 5).indices)
    cosine, ids = NearestNeighbors(n_neighbors=5, metric="cosine").fit(X).kneighbors()
    assert_array_equal(found["ids"], ids)
    assert_allclose(found["distances"] ** 2 / 2, cosine, rtol=1e-5)


def test_row_order_does_not_matter():
    X = np.random.default_rng(9).normal(size=(500, 20))
    order = np.random.default_rng(10).permutation(500)
    plain, mixed = neighbors(X, 6).indices, neighbors(X[order], 6).indices
    assert_array_equal(order[mixed], plain[order])


@METHODS
def test_every_other_point_is_listed_when_k_is_n_minus_1(method):
    X = np.random.default_rng(11).normal(size=(12, 3))
    ids = neighbors(X, 11, method=method).indices
    assert_array_equal(np.sort(ids, axis=1), [[j for j in range(12) if j != i] for i in range(12)])


def test_all_points_equal():
    found = neighbors(np.ones((50, 3)), 4).to_arrays()
    assert_array_equal(found["ids"], dense_neighbors(np.ones((50, 3)), 4)[0])
    assert (found["distances"] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("search", ["tree", "tiles", "products"])
@pytest.mark.extended_cases("tree")
def test_points_beyond_the_budget_are_streamed(search, monkeypatch):
    X = np.random.default_rng(12).normal(size=(3000, 300)).astype(np.float32)
    whole, points = ids_by(X, 5, search, monkeypatch)
    assert not isinstance(points.held, Frame)
    streamed, points = ids_by(X, 5, search, monkeypatch, budget=12_000_000)
    assert isinstance(points.held, Frame)
    assert points.block_rows < 3000
    assert_array_equal(streamed, whole)


def stored(X, folder, chunk_rows=333):
    parts = StoredParts(folder)
    parts.allocate("X", X.shape, X.dtype, chunk_rows)
    parts.write_range(0, {"X": X})
    return parts.rows("X")


@METHODS
def test_stored_rows_and_parts_give_what_memory_gives(tmp_path, method):
    X = np.random.default_rng(13).normal(size=(2500, 10)).astype(np.float32)
    memory = neighbors(X, 6, method=method)
    parts = StoredParts(tmp_path / "lists")
    disk = neighbors(stored(X, tmp_path / "data"), 6, method=method, parts=parts)
    for name, array in memory.to_arrays().items():
        assert_array_equal(disk.to_arrays()[name], array)
    assert disk.attributes == memory.attributes
    assert len(parts.receipts(200)) == (3 if method == "exact" else 1)


def test_descent_is_seeded_certified_and_measured_in_float64():
    X = np.random.default_rng(15).normal(size=(3000, 8)) + 1e4
    first, again = (neighbors(X, 10, method="descent", random_state=3) for _ in range(2))
    assert_array_equal(first.indices, again.indices)
    found = first.to_arrays()
    i = np.arange(3000)[:, None]
    assert_allclose(found["distances"], np.sqrt(((X[i] - X[found["ids"]]) ** 2).sum(axis=2)), rtol=1e-6)
    assert (found["ids"] != i).all()
    assert first.attributes["recall"]["recall"] > 0.95
    assert 0.9 < first.attributes["recall"]["lower"] < first.attributes["recall"]["recall"]


def test_descent_does_not_depend_on_units_and_refuses_distances_beyond_float32():
    X = np.random.default_rng(8).normal(size=(300, 5))
    expected = neighbors(X, 5).indices
    for unit in (1e-30, 1e30):
        assert (neighbors(X * unit, 5, method="descent").indices == expected).mean() > 0.98
    for unit, message in ((1e60, "apart"), (1e-60, "distances are below 1e-45")):
        with pytest.raises(DataError, match=message):
            neighbors(X * unit, 5, method="descent")


def test_descent_fills_what_the_search_left_out(monkeypatch):
    """A search that finds nothing for some rows, and one row twice for others."""
    def few(points, k, rng, upper_bound, threads):
        ids = np.full((len(points), k), -1, np.int32)
        ids[1::2, :3] = [5, 5, 7]
        return np.zeros(ids.shape, np.float32), ids

    monkeypatch.setattr("dssl.knn.descent.search.nearest_in_memory", few)
    X = np.random.default_rng(16).normal(size=(200, 4))
    found = neighbors(X, 5, method="descent")
    assert found.attributes["filled_exactly"] == 200
    assert_array_equal(found.indices, dense_neighbors(X, 5)[0])


@pytest.mark.parametrize("make", [lambda rng: rng.normal(size=(4000, 7)), lambda rng: sparse.random(
    4000, 60, 0.2, "csr", rng=rng)])
@pytest.mark.slow_cases("<lambda>1")
def test_the_lists_of_descent_do_not_depend_on_threads(make):
    X = make(np.random.default_rng(3))
    rows = X if isinstance(X, np.ndarray) else as_csr(X)
    one, three = (descend(rows, 8, random_state=1, threads=threads) for threads in (1, 3))
    for mine, theirs in zip(one, three, strict=True):
        assert_array_equal(mine, theirs)
    found = find_neighbors(as_rows(rows), NeighborParams(n_neighbors=8, method="descent", random_state=1, recall=0.1),
                           InProcess(2))
    assert_array_equal(found.indices, one[1])


@pytest.mark.slow
def test_descent_is_repeated_wider_where_it_misses_too_many():
    X = np.random.default_rng(5).normal(size=(6000, 40))
    once, again = (neighbors(X, 10, method="descent", recall=recall).attributes for recall in (0.5, 0.95))
    assert (once["searches"], again["searches"]) == (1, 2)
    assert once["recall"]["recall"] + 0.02 < again["recall"]["recall"]


@pytest.mark.slow
def test_wide_rows_that_are_hard_to_search_are_searched_with_long_lists_at_once():
    found = neighbors(hard_pixels(6000), 10, method="descent", recall=0.9).attributes
    assert found["searches"] == 1
    assert found["recall"]["lower"] >= 0.9


@pytest.mark.slow
def test_what_descent_does_not_reach_is_told_by_a_warning():
    X = np.random.default_rng(6).normal(size=(6000, 100))
    with pytest.warns(UserWarning, match=r"NN-descent found \d\d.\d% of the neighbors .* recall=0.999 is required"):
        found = neighbors(X, 10, method="descent", recall=0.999)
    assert found.attributes["recall"]["recall"] < 0.999


@pytest.mark.slow
def test_descent_searches_rows_far_beyond_all_others_exactly():
    """Their neighbors, next to each other, look alike in float32 from where the others are."""
    X = np.random.default_rng(4).normal(size=(3000, 6))
    X[:4] = 1e7 + X[:4] / 100
    found = neighbors(X, 3, method="descent")
    assert_array_equal(found.indices[:4], dense_neighbors(X, 3)[0][:4])
    assert found.attributes["filled_exactly"] == 4


def test_auto_is_exact_for_small_data_and_says_so():
    found = neighbors(np.random.default_rng(17).normal(size=(300, 5)), 5)
    assert found.attributes["method"] == "exact"
    assert found.attributes["recall"]["lower"] == 1.0


def test_of_a_shared_descent_lists_are_cut_and_certified_anew():
    X = ArrayRows(np.random.default_rng(0).normal(size=(2000, 12)).astype(np.float32))
    family = [KNNGraph(n_neighbors=k, method="descent") for k in (5, 15)]
    shared = evaluation(X, family, InProcess(1))
    few = shared.graph(family[0])
    lists = find_neighbors(X, family[1].search, InProcess(1))
    assert shared.n_searches == 1
    assert_array_equal(few.neighbors.indices, lists.indices[:, :5])
    assert few.attributes["neighbors"]["recall"] == certify_recall(X, few.neighbors)


def test_descent_on_sparse_rows_finds_most_neighbors_and_measures_them_exactly():
    X = weighted(zipf(3000, 300, 10, 13), 14)
    found = neighbors(X, 8, method="descent")
    assert found.attributes["method"] == "descent"
    assert found.attributes["recall"]["recall"] > 0.8
    ids, distances = found.indices, found.distances
    dense = X.toarray().astype(np.float64)
    for row in range(0, 3000, 500):
        assert_allclose(distances[row], np.sqrt(((dense[row] - dense[ids[row]]) ** 2).sum(axis=1)), rtol=1e-6)
    again = neighbors(X, 8, method="descent")
    assert_array_equal(again.indices, ids)


def test_auto_descends_where_an_exact_search_is_predicted_to_take_longer(monkeypatch):
    X = np.random.default_rng(19).normal(size=(2000, 3))
    monkeypatch.setattr("dssl.knn.search.ALWAYS_EXACT_ROWS", 100)
    assert neighbors(X, 5).attributes["method"] == "exact"
    monkeypatch.setattr("dssl.knn.search.descent_seconds", lambda X, k, metric: 0.0)
    found = neighbors(X, 5)
    assert found.attributes["method"] == "descent"
    assert found.attributes["recall"]["certified"] == "sample"


@pytest.mark.parametrize("is_stored", [False, True])
def test_auto_searches_exactly_where_descent_misses_the_recall_and_that_is_affordable(monkeypatch, tmp_path, is_stored):
    X = ArrayRows(np.random.default_rng(20).normal(size=(1500, 40)).astype(np.float32))
    monkeypatch.setattr("dssl.knn.search.ALWAYS_EXACT_ROWS", 100)
    monkeypatch.setattr("dssl.knn.search.EXACT_SLOWDOWN", 0.01)

    def searched(recall, name):
        parts = StoredParts(tmp_path / name, is_new=True) if is_stored else None
        return find_neighbors(X, NeighborParams(n_neighbors=5, recall=recall), InProcess(1), parts)

    descent = find_neighbors(X, NeighborParams(n_neighbors=5, method="descent", recall=0.5), InProcess(1))
    reached = searched(0.5, "reached")
    assert reached.attributes["method"] == "descent"
    assert_array_equal(reached.indices, descent.indices)
    assert_array_equal(reached.distances, descent.distances)
    missed = searched(0.9999, "missed")
    assert descent.attributes["recall"]["recall"] < 1
    assert missed.attributes["method"] == "exact"
    assert missed.attributes["missed_recall"]["recall"] < 1
    assert not [*tmp_path.rglob("trial")]
    assert missed.attributes["recall"]["certified"] == "exact"
    assert_array_equal(missed.indices, dense_neighbors(X.read_all(), 5)[0])
    monkeypatch.setattr("dssl.knn.search.FALLBACK_SLOWDOWN", 0.01)
    with pytest.warns(UserWarning, match="NN-descent found"):
        assert searched(0.9999, "warned").attributes["method"] == "descent"


def test_an_exact_search_after_a_descent_goes_on_where_it_stopped(monkeypatch, tmp_path):
    X = ArrayRows(np.random.default_rng(20).normal(size=(4500, 40)).astype(np.float32))
    monkeypatch.setattr("dssl.knn.search.ALWAYS_EXACT_ROWS", 100)
    monkeypatch.setattr("dssl.knn.search.EXACT_SLOWDOWN", 0.01)
    params, ran = NeighborParams(n_neighbors=5, recall=0.9999), list[str]()

    def watched(task, out, stop_at):
        ran.append(type(task).__name__)
        if len(ran) == stop_at:
            raise KeyboardInterrupt
        return of[type(task)](task, out)

    of = {each: each.__call__ for each in (DescentTask, exact.NearestTask)}
    for stop_at, end in ((4, pytest.raises(KeyboardInterrupt)), (0, nullcontext())):
        ran.clear()
        for each in of:
            monkeypatch.setattr(each, "__call__", partialmethod(watched, stop_at=stop_at))
        with end:
            lists = find_neighbors(X, params, InProcess(1), StoredParts(tmp_path / "lists"))
        if stop_at:
            assert ran == ["DescentTask", *["NearestTask"] * 3]
    assert ran == ["NearestTask"] * 3  # of five
    assert_array_equal(lists.indices, neighbors(X.read_all(), 5, method="exact").indices)


@pytest.mark.parametrize(("d", "spread"), [(2, 1.0), (12, 1.0), (60, 1.0), (60, 0.05)])
def test_a_sample_tells_about_the_least_seconds_of_an_exact_search(d, spread):
    rng = np.random.default_rng(21)
    X = (rng.normal(size=(10, d))[rng.integers(10, size=10_000)] + spread * rng.normal(size=(10_000, d)))
    rows = ArrayRows(X.astype(np.float32))
    frame, seconds = exact.sampled_plan(exact.frame_sample(rows, "euclidean"), 10, len(rows))
    assert_array_equal(frame.basis, exact.sampled_frame(rows, "euclidean").basis)
    assert 0 < seconds <= 1.1 * plan_exact(rows, 10, "euclidean", InProcess(1))[1]


def test_arrays_carry_the_lists():
    found = neighbors(np.random.default_rng(18).normal(size=(60, 5)), 5)
    back = Neighbors.from_arrays(found.to_arrays(), found.attributes)
    assert_array_equal(back.indices, found.indices)
    assert back.attributes == found.attributes
    assert back.k == 5
    assert len(back) == 60


@pytest.mark.parametrize("changes", [{"n_neighbors": 0}, {"n_neighbors": 2.5}, {"method": "kd"}, {"metric": "l1"},
                                     {"random_state": -1}])
def test_parameters_are_checked(changes):
    with pytest.raises(ParameterError, match=next(iter(changes))):
        NeighborParams(**changes)


@pytest.mark.parametrize(("X", "message"), [
    (np.zeros(5), "shape"),
    (np.zeros((5, 0)), "column"),
    (np.array([["a"], ["b"]]), "dtype"),
    (np.array([[0.0], [np.nan], [1.0]]), "NaN"),
    (np.array([[0.0], [-np.inf], [1.0]]), "NaN or infinite"),
    (np.array([[0.0], [1e200], [1.0]]), "1e150"),
])
def test_rows_are_checked(X, message):
    with pytest.raises(DataError, match=message):
        neighbors(X, 1)


@pytest.mark.cluster
def test_rows_are_checked_while_workers_wait_for_a_plan_of_the_search(cluster_client):
    X = np.random.default_rng(0).normal(size=(21_000, 3))
    X[20_500, 1] = np.nan
    with pytest.raises(DataError, match=r"NaN or infinite values: 20500"):
        find_neighbors(ArrayRows(X), NeighborParams(n_neighbors=5), OnDask(cluster_client))


def test_the_truth_about_many_rows_is_sought_in_two_blocks_and_is_the_same():
    X, few, many = np.random.default_rng(0).normal(size=(HALVED_ROWS, 4)).astype(np.float32), 1 << 30, 1 << 22
    assert truth_rows(ArrayRows(X[:-1]), Euclidean(), few) == HALVED_ROWS - 1
    assert truth_rows(ArrayRows(X), Euclidean(), few) == HALVED_ROWS // 2
    assert truth_rows(ArrayRows(X), Euclidean(), many) < HALVED_ROWS // 4
    sampled = np.arange(0, len(X), 70)
    listed = np.full((len(sampled), 5), -1)
    two, more = (true_neighbors(ArrayRows(X), sampled, listed, Euclidean(), InProcess(2, budget))
                 for budget in (few, many))
    assert_array_equal(two["ids"], NearestNeighbors(n_neighbors=6).fit(X.astype(float)).kneighbors(
        X[sampled].astype(float), return_distance=False)[:, 1:])
    for name in two:
        assert_array_equal(two[name], more[name])


def test_k_and_zero_rows_are_checked():
    with pytest.warns(UserWarning, match="n_neighbors=5 is lowered to 4, with 5 points"):
        assert neighbors(np.eye(5), 5).k == 4
    with pytest.raises(DataError, match=r"X has 1 point\n.*a search needs two"):
        neighbors(np.eye(5)[:1], 5)
    with pytest.raises(DataError, match="zero"):
        neighbors(np.array([[0.0, 0], [1, 0], [0, 1]]), 1, metric="cosine")
    with pytest.raises(DataError, match="zero"):
        neighbors(np.array([[0, 0], [1, 0], [0, 1]]), 1, metric="cosine")


def test_a_tree_is_tried_until_it_takes_longer_than_tiles():
    X = np.random.default_rng(0).normal(size=(5000, 40)).astype(np.float32)
    layout, pilot = exact.lay_out(X, np.arange(5000), exact.principal_frame(X, exact=True)), np.arange(0, 5000, 100)
    whole = exact.tree_seconds(layout, X[pilot], pilot, 5, 5000, np.inf)
    for tiles in (whole / 10, whole / 2):
        assert tiles < exact.tree_seconds(layout, X[pilot], pilot, 5, 5000, tiles) < 0.9 * whole
    assert exact.tree_seconds(layout, X[pilot], pilot, 5, 5000, 2 * whole) == whole


@pytest.mark.parametrize(("make", "suffice"), [
    (lambda rng: rng.normal(size=(4000, 100)), False),
    (lambda rng: rng.normal(size=(4000, 100)) * np.arange(1, 101.0) ** -1, True),
    (lambda rng: rng.normal(size=(4000, 40)), True),  # they are all
    (lambda rng: np.repeat(rng.normal(size=(40, 100)), 100, axis=0), True),
    (lambda rng: np.ones((4000, 100)), False),  # nothing tells them apart
    (lambda rng: np.concatenate([rng.normal(size=(3990, 100)), 1e7 * np.eye(10, 100)]), False)],
    ids=["noise", "decay", "few columns", "duplicates", "equal", "far rows"])
def test_whether_leading_coordinates_suffice_is_told_of_any_points(make, suffice):
    X = make(np.random.default_rng(0))
    layout = exact.lay_out(X, np.arange(len(X)), exact.principal_frame(X, exact=True))
    assert exact.leading_suffice(layout, 5) == suffice


def test_few_points_are_searched_by_tiles_without_a_trial_of_the_tree():
    X = np.random.default_rng(0).normal(size=(4100, 2))
    assert plan_exact(ArrayRows(X[:4000]), 5, "euclidean", InProcess())[0].search == "tiles"
    assert plan_exact(ArrayRows(X), 5, "euclidean", InProcess())[0].search == "tree"


@pytest.mark.slow
def test_the_tree_is_chosen_where_it_looks_at_few_points(dssl_data):
    """Forest cover: as it is, a few columns tell points apart; standardized, 54 do, and tree and tiles cost more than
    NN-descent. A query of 64 that looks at all points is counted as it is.
    """
    with np.load(dssl_data / "covtype.npz") as held:
        X = held["X"][::4].astype(np.float32)
    descent = descent_seconds(ArrayRows(X), 10)
    raw, seconds = plan_exact(ArrayRows(X), 10, "euclidean", InProcess())
    assert raw.search == "tree"
    assert seconds < descent
    standardized = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    assert plan_exact(ArrayRows(standardized), 10, "euclidean", InProcess())[1] > descent
