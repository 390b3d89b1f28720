"""Partitioned neighbors against exact ones: lists in many leaves, joined across borders, whatever runs the tasks."""

from contextlib import suppress
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.data.readers.manifolds import CurvedManifolds, ManifoldParams
from dssl.execution.exchange.shuffle import gather, scatter
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.execution.tasks import TaskCount
from dssl.knn.descent.local_joins import CANDIDATES, empty_neighbor_lists, nearest_in_memory, push_candidates
from dssl.knn.exact.blocks import exact_cost
from dssl.knn.pair_distances import Coordinates
from dssl.knn.partitioned.partitions import BlockPositions, Partition, PermutedRows, cells_of, fit_cells, pack
from dssl.knn.partitioned.search import scan
from dssl.knn.partitioned.sizes import partitioned_cost, weighing_cost
from dssl.knn.partitioned.tasks import SearchTask
from dssl.knn.recall import certify_recall
from dssl.knn.search import NeighborParams, find_neighbors, neighbors
from dssl.knn.squared_distances import empty_heaps
from dssl.pipeline.run import run
from dssl.storage.blocks import ArrayRows, HeldArrays, MemoryParts, PartWriter, block_rng, write_dense
from dssl.storage.csr import as_rows
from dssl.storage.store import StoredParts
from dssl.storage.views import SelectedRows
from tests.embeddings import hard_pixels
from tests.memory import Traced, run_traced, task_peak

N, K, BUDGET = 6000, 8, 3 << 20


def search(X, execution=None, parts=None, **params):
    """Return the lists of a partitioned search in tasks of a small budget."""
    return neighbors(X, K, execution=execution or InProcess(2, BUDGET), parts=parts,
                     **{"method": "partitioned", **params})


@pytest.fixture(scope="module")
def points():
    return CurvedManifolds(ManifoldParams(points=N, columns=24, dimension=4)).read(0, N)[0]


@pytest.fixture(scope="module")
def found(points):
    execution, parts = InProcess(1, BUDGET), MemoryParts()
    return search(points, execution, parts), parts


@pytest.mark.slow
def test_lists_of_many_leaves_are_nearly_exact(points, found):
    """The certificate, a sample, agrees with a comparison of all lists with the exact ones."""
    lists, _ = found
    exact, given_ = neighbors(points, K, method="exact").to_arrays(), lists.to_arrays()
    recall = (given_["distances"] <= exact["distances"][:, -1:]).mean()
    certificate = lists.attributes["recall"]
    assert lists.attributes["blocks"] > 4
    assert certificate["lower"] >= 0.95
    assert abs(recall - certificate["recall"]) < 0.015
    assert certificate == certify_recall(points, lists)


def test_lists_are_measured_in_float64_and_ascend(points, found):
    arrays = found[0].to_arrays()
    ids, distances = arrays["ids"], arrays["distances"]
    X = points.astype(np.float64)
    assert_allclose(distances, np.sqrt(((X[:, None] - X[ids]) ** 2).sum(axis=2)), rtol=1e-6)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert (ids != np.arange(N)[:, None]).all()
    assert (np.diff(np.sort(ids, axis=1), axis=1) > 0).all()


def test_the_order_is_a_permutation_that_keeps_near_rows_together(points, found):
    lists, parts = found
    order = parts.rows("order").read_all()
    assert lists.attributes["ordered"] is True
    assert_array_equal(np.sort(order), np.arange(N))
    place = np.argsort(order)
    apart = np.abs(place[lists.indices] - place[:, None])
    assert np.median(apart) < N / 8  # of a random order it is 0.29 N


@pytest.mark.slow
def test_lists_do_not_depend_on_threads_or_on_which_task_ends_first(points, found):
    class Backwards(InProcess):
        def _run(self, pending, done):
            super()._run(pending[::-1], done)

    for execution in (InProcess(3, BUDGET), Backwards(1, BUDGET)):
        again = search(points, execution)
        assert again.attributes == found[0].attributes
        for name, array in found[0].to_arrays().items():
            assert_array_equal(again.to_arrays()[name], array)


@pytest.mark.slow
def test_no_task_takes_more_than_its_budget(points, found):
    """Warm: kernels are compiled. Rows are taken by numbers, and so copied, as those of a store are."""
    execution = InProcess(1, 8 << 20)
    rows = SelectedRows(ArrayRows(np.tile(points, (3, 1)) + np.repeat(np.float32([0, 9, 18]), N)[:, None]),
                        np.arange(3 * N))
    params = NeighborParams(n_neighbors=K, method="partitioned")
    assert find_neighbors(rows, params, execution).attributes["blocks"] > 4
    most = min(execution.memory_budget, partitioned_cost(rows, K, "euclidean", execution.memory_budget).peak)
    assert task_peak(execution, lambda: find_neighbors(rows, params, execution), most) <= most


@pytest.mark.slow
def test_cosine_lists_are_those_of_unit_rows(points):
    shifted = points + 0.5
    lists = search(shifted, metric="cosine").to_arrays()
    exact = neighbors(shifted, K, method="exact", metric="cosine").to_arrays()
    assert (lists["distances"] <= exact["distances"][:, -1:]).mean() > 0.95


def test_copies_constant_columns_and_few_rows(points):
    """Copies are neighbors at distance zero; a column may say nothing; few rows are searched whole."""
    copied = np.repeat(points[:1000], 3, axis=0)
    lists = search(np.column_stack([copied, np.full(len(copied), 7.0, np.float32)])).to_arrays()
    assert (lists["distances"][:, :2] == 0).all()
    assert (lists["distances"][:, 2] > 0).all()
    few = points[:K + 2]
    assert_array_equal(search(few).indices, neighbors(few, K, method="exact").indices)


def test_points_that_are_all_equal_have_a_price():
    """As one vertex they are refused by what says so, after the plan."""
    assert partitioned_cost(ArrayRows(np.ones((1, 3), np.float32)), K, "euclidean", BUDGET).peak > 0


@pytest.mark.slow
@pytest.mark.extended
def test_no_task_takes_more_than_its_budget_where_rows_are_in_many_leaves_and_scanned(tmp_path, monkeypatch):
    """Warm, in storage. Of nine columns and noise, which takes many axes; the first round misses some."""
    params = {"recall": 0.997, "random_state": 1}
    monkeypatch.setattr("dssl.knn.partitioned.search.LONGEST", 100)
    monkeypatch.setattr("dssl.knn.partitioned.search.scan_seconds", lambda X: np.inf)
    X = np.random.default_rng(0).normal(size=(3000, 180)).astype(np.float32)
    X[:, 9:] *= 0.03
    search(X, InProcess(1, 2 * BUDGET), **params)
    with Traced(tmp_path, 2 * BUDGET) as execution:
        lists = search(execution.share_rows(ArrayRows(X)), execution, StoredParts(tmp_path / "lists"), **params)
        monkeypatch.setattr("dssl.knn.partitioned.search.scan_seconds", lambda X: 0.0)
        search(execution.share_rows(ArrayRows(X)), execution, StoredParts(tmp_path / "scanned"), **params)
    first, second = lists.attributes["overlaps"]
    assert second > 8 > 2 > first
    assert {"SpreadTask", "SearchTask", "MergeTask", "JoinTask", "ScanTask", "MeasureTask"} <= set(execution.tasks)
    assert max(execution.tasks.values()) <= execution.memory_budget


@pytest.mark.slow
def test_rows_that_are_hard_to_search_are_scanned_until_the_recall_is_certified():
    """Many scales, hubs, duplicates and 784 columns of which no few explain the distances: leaves and joins miss many.
    """
    X = hard_pixels(6000)
    execution = Counted(2, 64 << 20)
    lists = search(X, execution)
    assert lists.attributes["scanned"]
    assert lists.attributes["effort"] > 1
    assert lists.attributes["recall"]["lower"] >= 0.95
    assert lists.attributes["recall"] == certify_recall(X, lists)
    assert execution.ran <= partitioned_cost(as_rows(X), K, "euclidean", execution.memory_budget).tasks


@pytest.mark.slow
def test_noise_is_scanned_where_no_leaves_fit_and_searched_exactly_where_that_does_not_do():
    X = np.random.default_rng(0).normal(size=(5000, 60)).astype(np.float32)
    lists = search(X)
    assert (lists.attributes["overlaps"], lists.attributes["scanned"]) == ([], True)
    assert lists.attributes["recall"]["lower"] >= 0.95
    lists = search(hard_pixels(3000), InProcess(2, 64 << 20), recall=0.998)
    assert (lists.attributes["scanned"], lists.attributes["filled_exactly"]) == (True, 3000)


@pytest.mark.slow
def test_a_search_that_would_take_longer_than_planned_is_refused_with_the_way_out(monkeypatch):
    X = np.random.default_rng(0).normal(size=(5000, 60)).astype(np.float32)
    monkeypatch.setattr("dssl.knn.partitioned.search.LONGEST", 0)
    with pytest.raises(BudgetError, match=r"noise in many columns(.|\n)*hours of one core"):
        search(X)
    with pytest.raises(DataError, match=r"certified 0\.\d+, and recall=0.95 is required(.|\n)*than the planned"):
        search(X, InProcess(2, 4 * BUDGET))


class Counted(InProcess):
    """Counts the tasks that run."""

    ran = 0

    def map(self, tasks, parts, *follow):
        self.ran += len(tasks)
        return super().map(tasks, parts, *follow)


def test_a_plan_counts_the_tasks_of_the_first_round_and_of_all_rounds(points):
    execution = Counted(1, BUDGET)
    search(points, execution)
    upper, lower = (partitioned_cost(as_rows(points), K, "euclidean", BUDGET, rounds) for rounds in (2, 1))
    assert lower.tasks <= execution.ran <= upper.tasks
    for figure in ("written", "read", "seconds"):
        assert getattr(lower, figure) < getattr(upper, figure)


def test_a_scan_in_pieces_finds_the_nearest_by_coordinates():
    rng = np.random.default_rng(0)
    Z = (rng.normal(size=(700, 6)) + 100).astype(np.float32)
    values, ids = empty_heaps(300, 5)
    for low, high in ((0, 600), (600, 700)):
        scan(Z[200:500], 1200, Z[low:high], 1000 + low, values, ids)
    squared = ((Z[200:500, None].astype(float) - Z) ** 2).sum(axis=2)
    squared[np.arange(300), np.arange(200, 500)] = np.inf
    assert_array_equal(np.sort(ids, axis=1), np.sort(1000 + squared.argsort(axis=1)[:, :5], axis=1))


class Stopped(InProcess):
    """Runs so many tasks, and then none."""

    def __init__(self, tasks: float = np.inf, budget: int = BUDGET):
        super().__init__(1, budget)
        self.left, self.ran, self.counts = tasks, 0, [(0, 0)]
        self.counter = TaskCount(lambda *counts: self.counts.append(counts), 0)

    def _run(self, pending, done):
        for placed in pending:
            if self.ran >= self.left:
                raise KeyboardInterrupt
            super()._run([placed], done)
            self.ran += 1


def written(folder):
    """Return the bytes of all chunks in a folder by their paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".json"}


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on_where_it_stopped(points, tmp_path, monkeypatch):
    """After some tasks again and again, and whenever something is removed: no task runs twice, the bytes are the same.
    """
    X, whole = points[:2500], Stopped()
    undisturbed = search(X, whole, StoredParts(tmp_path / "whole"), recall=0.97)
    assert undisturbed.attributes["joins"] > 0
    assert not list((tmp_path / "whole" / "within").iterdir())
    remove, begun = StoredParts.remove, set()

    def remove_at_last(parts):
        if parts.folder not in begun:
            begun.add(parts.folder)
            raise KeyboardInterrupt
        remove(parts)

    monkeypatch.setattr(StoredParts, "remove", remove_at_last)
    executions, found = [], None
    while found is None:
        executions.append(Stopped(10))
        with suppress(KeyboardInterrupt):
            found = search(X, executions[-1], StoredParts(tmp_path / "killed"), recall=0.97)
    assert len(executions) > whole.ran // 10 + 4
    assert sum(execution.ran for execution in executions) == whole.ran
    assert max(execution.counts[-1][0] for execution in executions) > 0.8 * whole.ran  # but those of the certificate
    assert found.attributes == undisturbed.attributes
    assert written(tmp_path / "killed") == written(tmp_path / "whole")


@pytest.fixture
def weighing(monkeypatch):
    """Let the sample of a partitioned search decide, whatever fits a task."""
    monkeypatch.setattr("dssl.knn.search.ALWAYS_EXACT_ROWS", 100)
    monkeypatch.setattr("dssl.knn.search.approximate_method", lambda *given: "partitioned")
    monkeypatch.setattr("dssl.knn.search.possible_methods", lambda *given: {"partitioned", "exact"})


@pytest.mark.cluster
@pytest.mark.parametrize(("slowdown", "method"), [(1e-9, "partitioned"), (1e9, "exact")])
@pytest.mark.usefixtures("weighing")
def test_a_cluster_weighs_as_one_process_does(points, monkeypatch, cluster_client, slowdown, method):
    monkeypatch.setattr("dssl.knn.search.EXACT_SLOWDOWN", slowdown)
    workers = OnDask(cluster_client, 16 << 20)  # whose scratch folder holds the lists
    here, there = (search(points, execution, method="auto") for execution in (InProcess(1, 16 << 20), workers))
    assert there.attributes == here.attributes
    assert here.attributes["method"] == method
    assert_array_equal(there.indices, here.indices)


@pytest.mark.usefixtures("weighing")
def test_an_exact_search_is_found_where_partitions_fit_no_task(monkeypatch):
    monkeypatch.setattr("dssl.knn.search.EXACT_SLOWDOWN", 1e9)
    X = np.random.default_rng(4).normal(size=(300, 2000)).astype(np.float32)
    lists = search(X, InProcess(1, 12 << 20), method="auto")
    assert lists.attributes["method"] == "exact"
    with pytest.raises(BudgetError, match="fit a task"):
        search(X, InProcess(1, 12 << 20))


@pytest.mark.usefixtures("weighing")
@pytest.mark.parametrize("slowdown", [1e-9, 1e9])
def test_weighing_holds_no_more_than_its_plan(points, tmp_path, monkeypatch, slowdown):
    monkeypatch.setattr("dssl.knn.search.EXACT_SLOWDOWN", slowdown)
    X, budget = np.tile(points, (4, 6)), 24 << 20
    X[:, :24] += np.random.default_rng(5).normal(size=(len(X), 24)).astype(np.float32)
    stored = write_dense(as_rows(X), StoredParts(tmp_path / "X"), "rows", 4096)
    partitioned = partitioned_cost(stored, K, "euclidean", budget)
    exact = exact_cost(stored, K, "euclidean", budget) + weighing_cost(stored, K, "euclidean", budget)
    expected = (exact if slowdown > 1 else partitioned).peak
    execution, _ = run_traced(tmp_path, budget, lambda execution: find_neighbors(
        stored, NeighborParams(n_neighbors=K), execution, StoredParts(execution.folder / "lists")), expected)
    assert execution.driver <= expected


@pytest.mark.parametrize(("slowdown", "method"), [(1e-9, "partitioned"), (1e9, "exact")])
@pytest.mark.usefixtures("weighing")
def test_a_search_that_was_weighed_goes_on_where_it_stopped(points, tmp_path, monkeypatch, slowdown, method):
    """The certificate of the partitioned search is computed while its sample weighs an exact one, which may be taken.
    """
    monkeypatch.setattr("dssl.knn.search.EXACT_SLOWDOWN", slowdown)
    X, whole = points[:2500], Stopped(budget=16 << 20)
    lists = search(X, whole, StoredParts(tmp_path / "whole"), method="auto")
    assert lists.attributes["method"] == method
    assert ("weighed" in lists.attributes) == (method == "exact")
    assert not list((tmp_path / "whole" / "within").iterdir())
    assert_array_equal(lists.indices, neighbors(X, K, method=method, execution=InProcess(1, 16 << 20)).indices)
    executions, found = [], None
    while found is None:
        executions.append(Stopped(2, 16 << 20))
        with suppress(KeyboardInterrupt):
            found = search(X, executions[-1], StoredParts(tmp_path / "killed"), method="auto")
    assert len(executions) > 3
    assert sum(execution.ran for execution in executions) == whole.ran
    assert found.attributes == lists.attributes
    assert written(tmp_path / "killed") == written(tmp_path / "whole")


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.extended_cases("4")
def test_rows_far_beyond_all_others_do_no_harm(points, count):
    """Neither to the axes nor to the precision of the others; their own neighbors are the true ones."""
    X, far = points.copy(), np.array([3, 500, 2500, 5999])[:count]
    X[far] = 1e7 * np.random.default_rng(0).normal(size=(count, X.shape[1])) / np.sqrt(X.shape[1])
    exact, lists = neighbors(X, K, method="exact").to_arrays(), search(X).to_arrays()
    assert (lists["distances"] <= exact["distances"][:, -1:]).mean() > 0.97
    for name in ("ids", "distances"):
        assert_array_equal(lists[name][far], exact[name][far])


def test_leaves_of_neighboring_seeds_are_searched_by_streams_of_their_own(points):
    seen, parts = points[:1500], MemoryParts()
    place = np.arange(len(seen), dtype=np.int32)
    scatter(PartWriter(parts, 0), np.repeat([0, 1], len(seen)), 2, np.tile(place, 2), seen=seen, place=place,
            home=place)
    ordered = PermutedRows(parts, HeldArrays(starts=np.array([0, len(seen)]), counts=np.array([len(seen)])), 64)
    lists = []
    for random_state, step, leaf in ((0, 0, 1), (1, 0, 0), (0, 1, 0), (0, 0, 0)):
        out = PartWriter(MemoryParts(), 0)
        SearchTask(ordered, parts, K, CANDIDATES, random_state, step, leaf)(out)
        lists.append(gather(out.parts, 1, 0)["ids"])
    assert not any(np.array_equal(one, other) for one, other in combinations(lists, 2))


def test_what_cannot_be_partitioned_is_refused(points):
    with pytest.raises(DataError, match=r"sparse rows(.|\n)*exact"):
        search(sparse.csr_array(points[:50]))
    with pytest.raises(DataError, match=r"shape \(6000,\)(.|\n)*reshape"):
        search(points[:, 0])
    with pytest.raises(DataError, match="NaN"):
        search(np.where(np.arange(N)[:, None] == 77, np.float32(np.nan), points))
    with pytest.raises(BudgetError, match="raise memory_budget"):
        search(points, InProcess(1, 1 << 18))
    with pytest.raises(BudgetError, match="too near each other"):
        search(np.ones((N, 3), np.float32))
    for rows, recall, upper_bound in ((points, 0.9999, "0.99904"), (points[:10], 0.96, "0.95418")):
        with pytest.raises(DataError, match=rf"recall={recall}(.|\n)*certify at most {upper_bound}(.|\n)*exact"):
            search(rows, recall=recall)
    with pytest.raises(ParameterError, match="recall=1"):
        NeighborParams(recall=1)


def test_auto_partitions_what_fits_no_task(points, monkeypatch):
    monkeypatch.setattr("dssl.knn.search.ALWAYS_EXACT_ROWS", 100)
    monkeypatch.setattr("dssl.knn.search.descent_seconds", lambda X, k, metric: 0.0)
    for name in ("check_rows", "plan_exact"):  # each reads all rows here, and so do the tasks that check them
        monkeypatch.setattr(f"dssl.knn.search.{name}", None)
    lists = neighbors(points, K, execution=InProcess(2, 8 << 20))
    assert lists.attributes["method"] == "partitioned"


def test_auto_leaves_the_check_to_the_tasks_that_read_all_rows(points, monkeypatch):
    """An exact search is weighed by a sample first; where that has wrong values, all rows are checked at once."""
    monkeypatch.setattr("dssl.knn.search.ALWAYS_EXACT_ROWS", 100)
    monkeypatch.setattr("dssl.knn.search.descent_seconds", lambda X, k, metric: 0.0)
    monkeypatch.setattr("dssl.knn.search.possible_methods", lambda *given: {"partitioned", "exact"})
    monkeypatch.setattr("dssl.knn.search.check_rows", None)
    execution = InProcess(2, 8 << 20)
    assert neighbors(points, K, execution=execution).attributes["method"] == "partitioned"
    for value in (np.nan, np.inf, 1e200):
        wrong = points.astype(np.float64)
        wrong[[77, 5000], 3] = value
        with pytest.raises(DataError, match="77"):
            neighbors(wrong, K, execution=execution)
    for scale in (1e-158, 1e-170, 1e-300):
        with pytest.raises(DataError, match="squares are zero"):
            neighbors(points.astype(np.float64) * scale, K, execution=execution)
    with pytest.raises(DataError, match=": 77"):  # and no warning of a division
        neighbors(np.where(np.arange(N)[:, None] == 77, np.float32(0), points), K, metric="cosine", execution=execution)
    monkeypatch.setattr("dssl.knn.exact.blocks.SAMPLE_ROWS", 2000)
    with pytest.raises(DataError, match="NaN or infinite values: 77"):  # which the sample does not hold
        neighbors(np.where(np.arange(N)[:, None] == 77, np.float32(np.nan), points), K, execution=execution)
    tiny = points.astype(np.float64) * 1e-158
    with pytest.raises(DataError, match="infinite values: 77"):  # and the sample has values without squares
        neighbors(np.where(np.arange(N)[:, None] == 77, np.inf, tiny), K, execution=execution)


def test_auto_checks_all_rows_before_it_lays_them_out(points, monkeypatch):
    """The wrong row is not in the sample that an exact search is weighed by."""
    monkeypatch.setattr("dssl.knn.search.ALWAYS_EXACT_ROWS", 100)
    monkeypatch.setattr("dssl.knn.search.descent_seconds", lambda X, k, metric: 1e9)
    monkeypatch.setattr("dssl.knn.search.possible_methods", lambda *given: {"partitioned", "exact"})
    monkeypatch.setattr("dssl.knn.exact.blocks.SAMPLE_ROWS", 2000)
    wrong = np.where(np.arange(N)[:, None] == 77, np.float32(np.nan), points)
    with pytest.raises(DataError, match="NaN or infinite values: 77"):
        neighbors(wrong, K, execution=InProcess(2, 8 << 20))
    assert neighbors(points, K, execution=InProcess(2, 9 << 20)).attributes["method"] == "exact"


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_merge_keeps_the_nearest_each_once(data):
    n, k, count = (data.draw(st.integers(1, upper_bound)) for upper_bound in (4, 5, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    distance = rng.permutation(100).astype(np.float32)  # of each id; no ties
    rows, ids = rng.integers(n, size=count), rng.integers(12, size=(count, 1)).astype(np.int32)
    distances, kept, flags = empty_neighbor_lists(n, k)
    push_candidates(rows, ids, distance[ids], np.ones(count, np.uint8), distances, kept, flags)
    for row in range(n):
        nearest = sorted(set(ids[rows == row, 0].tolist()), key=lambda i: distance[i])[:k]
        assert sorted(kept[row][kept[row] >= 0]) == sorted(nearest)
        assert_array_equal(np.sort(distances[row])[:len(nearest)], distance[nearest])


def test_in_memory_few_rows_are_searched_exactly(points):
    distances, ids = nearest_in_memory(Coordinates(points[:100]), 5, block_rng(0))
    expected = neighbors(points[:100], 5, method="exact")
    assert_array_equal(np.sort(ids, axis=1), np.sort(expected.indices, axis=1))
    assert_allclose(np.sort(np.sqrt(distances), axis=1), expected.distances, rtol=1e-4)


def test_leaves_are_of_nearly_equal_weight_and_hold_the_nearest_cell(points):
    weights = np.random.default_rng(0).uniform(1, 2, 300)
    leaf = pack(points[:300], weights, 7, None)
    shares = np.bincount(leaf, weights) / weights.sum()
    assert abs(shares - 1 / 7).max() < 0.02
    centers, weights = fit_cells(points, cells_of(5, len(points)), block_rng(1))
    cells = Partition(centers, pack(centers, weights, 5, block_rng(2)))
    rows, leaves, home = cells.members(points, 3, 1.5)
    assert_array_equal(rows[home == 1], np.arange(N))
    assert_array_equal(leaves[home == 1], cells.homes(points))
    assert len(np.unique(rows * 5 + leaves)) == len(rows)
    assert_array_equal(Partition(cells.centers, cells.leaf).members(points, 1, 9.0)[1], cells.homes(points))
    assert_array_equal(fit_cells(points, cells_of(5, len(points)), block_rng(1), threads=3)[0], centers)
    for several, one in zip(cells.members(points, 3, 1.5, threads=3), (rows, leaves, home), strict=True):
        assert_array_equal(several, one)


def test_places_leave_no_row_out():
    places = BlockPositions.of(np.array([5, 0, 8, 3]), 4)
    assert_array_equal(places.starts, [0, 8, 8, 16, 20])
    assert_array_equal(places.at(0, 16), [0, 1, 2, 3, 4, *range(8, 16), 16, 17, 18])
    assert_array_equal(places.at(4, 6), [4, 8])
    assert_array_equal(places.block(np.array([0, 7, 8, 15, 16])), [0, 0, 2, 2, 3])


@pytest.mark.slow
def test_a_pipeline_partitions_its_points(points, tmp_path):
    np.savez(tmp_path / "points.npz", X=points[:3000], y=points[:3000, 0] > 0)
    result = run({"name": "partitioned", "data": {"source": str(tmp_path / "points.npz"), "test": {"count": 300}},
                  "labels": {"per_class": 20}, "graph": {"n_neighbors": 6, "method": "partitioned", "recall": 0.9},
                  "model": {"kind": "svm", "n_landmarks": 40}},
                 workspace=tmp_path / "work", execution=InProcess(2, 12 << 20))
    assert result.status == "done"
    assert next(stage for stage in result.stages if stage.name == "neighbors").status == "done"


@pytest.mark.slow
def test_coordinates_tell_who_is_near_in_a_cloud_among_others():
    """The clouds' centers hold most of the variance: the axes that hold all but 3 % of it are not enough."""
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(40, 64))
    X = (centers[rng.integers(40, size=12_000)] + rng.normal(size=(12_000, 64))).astype(np.float32)
    found = neighbors(X, 10, method="partitioned", execution=InProcess(1, memory_budget=16 << 20))
    assert found.attributes["recall"]["recall"] > 0.97
