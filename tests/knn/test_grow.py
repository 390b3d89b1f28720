"""Lists that grew are those of a search of all rows: the same bits where it is exact, certified where it is not."""

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError, ParameterError
from dssl.base.profiler import return_freed_memory
from dssl.data.readers.manifolds import CurvedManifolds, ManifoldParams
from dssl.execution.in_process import InProcess
from dssl.knn.exact import blocks as exact
from dssl.knn.exact.layout import Frame
from dssl.knn.grow import grow_cost, grow_neighbors
from dssl.knn.lists import Neighbors
from dssl.knn.recall import certify_recall
from dssl.knn.search import NeighborParams, find_neighbors
from dssl.storage.blocks import ArrayRows, MemoryParts
from dssl.storage.csr import CsrRows, as_csr, as_rows
from dssl.storage.store import StoredParts
from dssl.storage.views import RowRange, SelectedRows
from tests.in_pairs import in_pairs
from tests.knn.test_sparse_neighbors import weighted, zipf
from tests.memory import task_peak

# Values of which the distances of many pairs are equal, or equal in float32 alone, or are not.
VALUES = {
    "whole": st.integers(-2, 2).map(float),
    "nearly whole": st.tuples(st.integers(-2, 2), st.integers(0, 3)).map(lambda pair: pair[0] + pair[1] * 1e-10),
    "any": st.floats(-1e3, 1e3).map(lambda value: round(value, 9)),
}


def searched(X, k, execution=None, **params):
    """Return the lists of a search of all rows."""
    params = NeighborParams(n_neighbors=k, **{"method": "exact", **params})
    return find_neighbors(as_rows(X), params, execution or InProcess(1))


def grown(X, n_old, k, execution=None, parts=None, base=None, **params):
    """Return the lists that grow from those of the first rows."""
    rows = as_rows(X)
    base = base or searched(RowRange(rows, 0, n_old), min(k, n_old - 1), execution, **params)
    return grow_neighbors(rows, base, NeighborParams(n_neighbors=k, **{"method": "exact", **params}),
                          execution or InProcess(1), parts)


def assert_same_lists(found, wanted):
    for name in ("ids", "distances"):
        mine, theirs = (lists.to_arrays()[name] for lists in (found, wanted))
        assert mine.dtype == theirs.dtype
        assert_array_equal(mine, theirs)


def in_blocks(rows):
    """Return a context in which tasks take so many rows each."""
    stack = ExitStack()
    for name in ("MIN_BLOCK_ROWS", "MAX_BLOCK_ROWS"):
        stack.enter_context(patch.object(exact, name, rows))
    return stack


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_lists_become_those_of_a_search_of_all_rows(data):
    n, d = data.draw(st.integers(3, 30)), data.draw(st.integers(1, 4))
    n_old, k = data.draw(st.integers(2, n)), data.draw(st.integers(1, n - 1))
    values = VALUES[data.draw(st.sampled_from(sorted(VALUES)))]
    X = np.array(data.draw(st.lists(st.lists(values, min_size=d, max_size=d), min_size=n, max_size=n)))
    metric = data.draw(st.sampled_from(["euclidean", "cosine"]))
    if metric == "cosine":
        X[~X.any(axis=1)] = 1
    if data.draw(st.booleans()):
        X = X.astype(np.float32)
    rows = CsrRows(as_csr(X)) if data.draw(st.booleans()) else ArrayRows(X)
    if n_old == n:
        k = min(k, n_old - 1)
    with in_blocks(data.draw(st.integers(1, n))):
        found = grown(rows, n_old, k, metric=metric)
        assert_same_lists(found, searched(rows, k, metric=metric))
    assert found.attributes["grown"]["rows"] == n - n_old


@pytest.mark.parametrize("k", [2, 3])
def test_entries_that_float32_does_not_tell_apart_are_measured_again(k):
    """The new rows are nearer and farther than the old ones by less than float32 tells, and ids do not decide."""
    X = np.array([[0.0], [1 + 2e-10], [1 + 4e-10], [50.0], [1 + 1e-10], [1 + 3e-10], [1 + 4e-10]])
    found = grown(X, 4, k)
    assert_array_equal(found.indices[0], [4, 1, 5][:k])
    assert_same_lists(found, searched(X, k))


@in_pairs({
    "search": ["tree", "no tree"],
    "make": [
        lambda rng: rng.normal(size=(1600, 40)), lambda rng: rng.integers(0, 4, (1600, 4)).astype(np.float32),
        lambda rng: 1e4 + rng.normal(size=(1600, 6))],
    "budget": [2 << 30, 10 << 20]})
def test_both_searches_give_the_bits_whatever_fits(search, make, budget, monkeypatch):
    monkeypatch.setattr(exact, "TREE_QUERY_NS", 0.0 if search == "tree" else 1e12)
    monkeypatch.setattr(exact, "TREE_VISIT_NS", 0.0)
    monkeypatch.setattr(exact, "TREE_AXIS_NS", 0.0)
    X = make(np.random.default_rng(0))
    wanted = searched(X, 7)
    with in_blocks(400):
        assert_same_lists(grown(X, 1500, 7, InProcess(2, budget)), wanted)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sparse_lists_grow(metric):
    X = weighted(zipf(1500, 400, 12, 0), 1)
    with in_blocks(400):
        found = grown(CsrRows(X), 1390, 6, InProcess(2), metric=metric)
    assert_same_lists(found, searched(CsrRows(X), 6, metric=metric))


@pytest.mark.slow
def test_points_beyond_the_budget_are_streamed(monkeypatch):
    monkeypatch.setattr(exact, "QUERY_TILE", 1)  # in the room that is left for a tile, so that a small budget will do
    X = np.random.default_rng(12).normal(size=(1000, 300)).astype(np.float32)
    execution = InProcess(1, 4_000_000)
    points, _ = exact.plan_exact(ArrayRows(X), 5, "euclidean", execution)
    assert isinstance(points.held, Frame)
    wanted = searched(X, 5)
    for n_old in (960, 12):
        assert_same_lists(grown(X, n_old, 5, execution), wanted)


def test_attributes_are_those_of_the_base_and_what_grew():
    X = np.random.default_rng(1).normal(size=(500, 3))
    base = searched(X[:480], 5)
    found = grown(X, 480, 5, base=base, method="descent")
    before, after = base.indices, found.indices[:480]
    changed = int((before != after).any(axis=1).sum())
    assert 0 < changed < 480
    assert found.attributes == {**searched(X, 5).attributes, "search": base.attributes["search"],
                                "grown": {"rows": 20, "lists_changed": changed}}


def test_no_new_rows_and_fewer_neighbors():
    X = np.random.default_rng(2).normal(size=(200, 3))
    base = searched(X, 8)
    assert_same_lists(grown(X, 200, 8, base=base), base)
    assert_same_lists(grown(X, 150, 4, base=searched(X[:150], 8)), searched(X, 4))


def test_a_run_that_was_killed_goes_on(tmp_path):
    """Stored lists, of several blocks; the tasks that are done are not done again."""
    class Killed(InProcess):
        left = 2

        def _run(self, pending, done):
            super()._run(pending[:self.left], done)
            if len(pending) > self.left:
                raise KeyboardInterrupt

    X = np.random.default_rng(3).normal(size=(900, 5))
    base, parts = searched(X[:850], 4), StoredParts(tmp_path / "lists")
    with in_blocks(300):
        with pytest.raises(KeyboardInterrupt):
            grown(X, 850, 4, Killed(1), parts, base)
        assert len(parts.receipts(200)) == 2
        found = grown(X, 850, 4, Killed(1), parts, base)
    assert_same_lists(found, searched(X, 4))
    assert_same_lists(Neighbors.stored(StoredParts(tmp_path / "lists"), found.attributes), found)


def test_lists_of_an_approximate_search_hold_all_new_rows_that_belong_in_them():
    X = np.random.default_rng(6).normal(size=(3000, 12)).astype(np.float32)
    base = searched(X[:2800], 6, method="descent", recall=0.5)
    found, true = grown(X, 2800, 6, base=base, recall=0.5), searched(X, 6)
    assert found.attributes["method"] == "descent"
    assert found.attributes["recall"] == certify_recall(X, found)
    assert base.attributes["recall"]["recall"] < 1
    assert_array_equal(found.indices[2800:], true.indices[2800:])
    for mine, theirs in zip(found.indices, true.indices, strict=True):
        assert set(theirs[theirs >= 2800]) <= set(mine)


def test_a_recall_below_what_is_asked_for_is_told():
    X = np.random.default_rng(6).normal(size=(3000, 60)).astype(np.float32)
    base = searched(X[:2990], 6, method="descent", recall=0.5)
    with pytest.warns(UserWarning, match=r"the updated lists hold \d\d.\d% .* recall=0.999 is required"):
        grown(X, 2990, 6, base=base, recall=0.999)


def test_where_most_rows_are_new_approximate_lists_are_searched_anew():
    X = np.random.default_rng(7).normal(size=(12_000, 30)).astype(np.float32)
    base = searched(X[:4000], 5, method="descent", recall=0.5)
    found = grown(X, 4000, 5, base=base, recall=0.5)
    assert "grown" not in found.attributes
    assert_same_lists(found, searched(X, 5, method="descent", recall=0.5))


def test_the_order_of_a_partitioned_search_goes_on_with_new_rows_beside_the_nearest_old_ones():
    """Some new rows are near new rows alone: those of a line that leads away, and a group that nothing joins."""
    X = CurvedManifolds(ManifoldParams(points=5000, columns=12, dimension=3)).read(0, 5000)[0]
    base = searched(X, 6, InProcess(2, 3 << 20), method="partitioned")
    step = np.linalg.norm(X[1] - X[0])
    lead = X[0] + step * np.arange(1, 9)[:, None] * np.eye(12, dtype=np.float32)[0] / 20
    far = 100 + CurvedManifolds(ManifoldParams(points=40, columns=12, seed=1)).read(0, 40)[0]
    more = CurvedManifolds(ManifoldParams(points=5300, columns=12, dimension=3)).read(5000, 5300)[0]
    rows = np.concatenate([X, more, lead, far]).astype(np.float32)
    found = grown(rows, 5000, 6, InProcess(2), base=base)
    assert found.attributes["ordered"]
    order, before = found.order.read_all(), base.order.read_all()
    assert_array_equal(np.sort(order), np.arange(len(rows)))
    assert_array_equal(order[order < 5000], before)
    place, ids = np.argsort(order), found.indices
    nearest = np.array([[*row[row < 5000], -1][0] for row in ids[5000:]])
    joined = np.flatnonzero(nearest >= 0)
    assert len(joined) > 250
    for new, old in zip(5000 + joined, nearest[joined], strict=True):
        assert (order[place[old] + 1:place[new]] >= 5000).all()
    assert_array_equal(np.sort(order[-40:]), np.arange(5308, 5348))


@pytest.mark.parametrize(("kind", "metric"), [
    ("whole layout", "euclidean"), ("blocks", "cosine"), ("ties", "euclidean"), ("sparse", "cosine")])
@pytest.mark.extended_cases("ties-euclidean")
@pytest.mark.slow_cases("whole layout-euclidean", "blocks-cosine")
def test_no_task_takes_more_than_is_predicted(kind, metric):
    """Warm: kernels are compiled. Rows are taken by numbers, and so copied, as those of a store are."""
    return_freed_memory()  # as a worker does, so that what other tests have freed does not count
    rng, execution = np.random.default_rng(0), InProcess(1, (9 if kind == "blocks" else 32) << 20)
    n, n_old, k = 6000, 5000, 12
    if kind == "sparse":
        rows = CsrRows(weighted(zipf(n, 400, 12, 0), 1))
    else:
        X = rng.integers(1, 5, (n, 40)) if kind == "ties" else rng.normal(size=(n, 40))
        rows = SelectedRows(ArrayRows(X.astype(np.float32)), np.arange(n))
    base = searched(RowRange(rows, 0, n_old), k, metric=metric)

    def grow():
        return grown(rows, n_old, k, execution, MemoryParts(), base, metric=metric)

    assert grow().attributes["grown"]["lists_changed"] > 1000
    most = min(execution.memory_budget, grow_cost(rows, n_old, k, metric, "exact", execution.memory_budget).peak)
    assert task_peak(execution, grow, most) <= most


def test_what_grows_must_be_what_was_searched():
    X = np.random.default_rng(4).normal(size=(60, 3))
    base = searched(X[:50], 5)
    with pytest.raises(ParameterError, match="n_neighbors=6, but the neighbor lists have 5"):
        grown(X, 50, 6, base=base)
    with pytest.raises(ParameterError, match="metric='cosine', but the metric of the neighbor lists is euclidean"):
        grown(X, 50, 5, base=base, metric="cosine")
    with pytest.raises(DataError, match="40 rows, but neighbor lists of 50"):
        grown(X[:40], 50, 5, base=base)
    with pytest.raises(DataError, match="method 'given'"):
        grown(X, 50, 5, base=Neighbors.from_arrays(base.to_arrays(), {"method": "given"}))
    X[55, 1] = np.nan
    with pytest.raises(DataError, match=r"hold NaN or infinite values: 55"):
        grown(X, 50, 5, base=base)
