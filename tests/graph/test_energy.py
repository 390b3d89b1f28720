"""The graph's energy against the dense Laplacians, split into blocks of any height, and its estimate from edges."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import DataError
from dssl.execution.exchange.ordered import ordered as ordered_rows
from dssl.execution.in_process import InProcess
from dssl.graph.energy.blocks import (
    Edges,
    GraphEnergy,
    StoredGraph,
    block_of,
    joined_edges,
    sampled_edges,
    split_bytes,
    split_energy,
)
from dssl.graph.energy.permuted_blocks import GraphUnordered, energy_blocks
from dssl.graph.given import store_weights
from dssl.graph.weights.build import weigh, weights
from dssl.graph.weights.rules import WeightParams
from dssl.knn.search import neighbors
from dssl.storage.blocks import ArrayRows, MemoryParts, PartWriter, row_ranges, write_dense
from dssl.storage.store import StoredParts
from tests import reference
from tests.knn.made_lists import made_lists
from tests.memory import Traced, run_traced

KINDS = ("unnormalized", "normalized")


def graph(n=60, random_state=0, isolated=()):
    """Return the weights of a 4-nearest-neighbor graph, with some vertices cut off."""
    W = weights(neighbors(np.random.default_rng(random_state).normal(size=(n, 3)), 4))
    keep = np.ones(n)
    keep[list(isolated)] = 0
    W = sp.csr_array(sp.diags_array(keep) @ W @ sp.diags_array(keep))
    W.eliminate_zeros()
    return W


def stored(W):
    parts = MemoryParts()
    parts.finish(0, store_weights(W, PartWriter(parts, 0)))
    return parts


def split(W, block_rows, kind="normalized", multiplicity=None):
    copies = None if multiplicity is None else ArrayRows(multiplicity)
    return split_energy(StoredGraph(stored(W), kind, copies), W.shape[0], block_rows, InProcess(1), MemoryParts())


def all_edges(blocks):
    return joined_edges(blocks.edges(index) for index in range(len(blocks.ranges)))


def dense(W, kind):
    """Return L or L_norm of weights, with a zero row for a vertex without an edge."""
    found, joined = np.zeros(W.shape), np.flatnonzero(W.sum(axis=1))
    own = W.toarray()[np.ix_(joined, joined)]
    found[np.ix_(joined, joined)] = reference.laplacian(own) if kind == "unnormalized" else (
        reference.normalized_laplacian(own))
    return found


def rebuilt(blocks):
    """Return E from its blocks, dense, in the order of the graph's own vertices."""
    order, E = blocks.order(), np.zeros((blocks.n, blocks.n))
    for index, (start, stop) in enumerate(blocks.ranges):
        rows, halo = blocks.read(index)
        E[start:stop, np.concatenate([np.arange(start, stop), halo])] = rows.toarray()
    back = np.empty_like(E)
    back[np.ix_(order, order)] = E
    return back


# Against the formula


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("isolated", [(), (3, 17)])
def test_the_matrix_is_the_laplacian(kind, isolated):
    W = graph(isolated=isolated)
    E = GraphEnergy.of(W, kind).matrix()
    assert_allclose(E.toarray(), dense(W, kind), atol=1e-14)
    assert E.has_sorted_indices
    assert abs(E - E.T).nnz == 0


@pytest.mark.parametrize("kind", KINDS)
def test_multiplicities_give_the_energy_of_all_points(kind):
    """Every copy has all edges of its vertex, and functions are equal on copies."""
    W, rng = graph(25), np.random.default_rng(1)
    m = rng.integers(1, 5, 25)
    copies = np.repeat(np.arange(25), m)
    whole = dense(sp.csr_array(W.toarray()[np.ix_(copies, copies)]), kind)
    E = GraphEnergy.of(W, kind, m.astype(float)).matrix().toarray()
    for _ in range(5):
        f = rng.normal(size=25)
        assert_allclose(f @ E @ f, f[copies] @ whole @ f[copies], rtol=1e-12)
    if kind == "normalized":
        root = np.sqrt(m)
        joint = W.toarray() * np.outer(m, m)
        assert_allclose(E, root[:, None] * reference.normalized_laplacian(joint) * root, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_relabeled_mean_is_the_mean_over_all_relabelings(kind):
    W = np.zeros((5, 5))
    for i, j, w in [(0, 1, 1.0), (1, 2, 2.5), (0, 2, 0.5), (2, 3, 3.0)]:  # vertex 4 is isolated
        W[i, j] = W[j, i] = w
    energy = GraphEnergy.of(sp.csr_array(W), kind, np.array([1.0, 2.0, 1.0, 4.0, 3.0]))
    E = energy.matrix().toarray()
    mean = np.mean([E[np.ix_(p, p)] for p in permutations(range(5))], axis=0)
    a, b = energy.relabeled_mean()
    assert_allclose(a * np.eye(5) + b, mean, atol=1e-14)


def test_one_vertex_and_no_edge():
    assert GraphEnergy.of(sp.csr_array((1, 1))).relabeled_mean() == (0.0, 0.0)
    assert GraphEnergy.of(sp.csr_array((4, 4))).matrix().nnz == 0


@pytest.mark.parametrize(("W", "says"), [
    (np.ones((2, 3)), "shape"),
    (np.array([[0, -1.0], [-1, 0]]), "negative"),
    (np.array([[0, 1.0], [2, 0]]), "transpose"),
])
def test_weights_are_checked(W, says):
    with pytest.raises(DataError, match=says):
        GraphEnergy.of(sp.csr_array(W))


# In blocks


@settings(max_examples=20)
@given(n=st.integers(6, 50), block_rows=st.integers(1, 60), kind=st.sampled_from(KINDS), copies=st.booleans())
def test_blocks_hold_exactly_the_energy(n, block_rows, kind, copies):
    W = graph(n, isolated=(1,))
    m = np.random.default_rng(n).integers(1, 4, n).astype(float) if copies else None
    blocks = split(W, block_rows, kind, m)
    E = GraphEnergy.of(W, kind, m).matrix()
    assert_array_equal(rebuilt(blocks), E.toarray())
    assert_array_equal(np.sort(blocks.order()), np.arange(n))
    assert blocks.nnz == E.nnz
    assert blocks.relabeled_mean == GraphEnergy.of(W, kind, m).relabeled_mean()


def test_the_halo_is_what_a_block_is_joined_to():
    W = graph(50)
    blocks = split(W, 12)
    E, sizes = rebuilt(blocks)[np.ix_(blocks.order(), blocks.order())], []
    for index, (start, stop) in enumerate(blocks.ranges):
        _, halo = blocks.read(index)
        joined = np.flatnonzero(E[start:stop].any(axis=0))
        assert_array_equal(halo, joined[(joined < start) | (joined >= stop)])
        sizes.append(len(halo))
    assert blocks.halo == sum(sizes) / 50
    assert blocks.largest_halo == max(sizes)
    assert split(W, 50).halo == 0


def test_the_order_keeps_neighbors_together():
    """Shuffled points of a line: in the order of the blocks each block is joined to few others."""
    shuffled = np.random.default_rng(0).permutation(400)
    W = weights(neighbors(np.linspace(0, 1, 400)[shuffled, None], 4))
    blocks = split(W, 40)
    assert blocks.halo < 0.3
    rows = W[0:40]
    assert len(np.setdiff1d(rows.indices, np.arange(40))) > 80, "in the order of the file"


def test_no_graph_is_one_zero_row_a_vertex():
    blocks = split_energy(None, 10, 4, InProcess(1), MemoryParts())
    assert_array_equal(rebuilt(blocks), np.zeros((10, 10)))
    assert_array_equal(blocks.order(), np.arange(10))
    assert (blocks.nnz, blocks.halo, blocks.largest_halo, blocks.relabeled_mean) == (0, 0.0, 0, (0.0, 0.0))
    assert len(all_edges(blocks).w) == 0
    assert blocks.submatrix(np.array([7, 2])).nnz == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block_rows", [7, 100])
def test_edges_are_all_edges_once(kind, block_rows):
    W, m = graph(isolated=(5,)), np.random.default_rng(2).integers(1, 4, 60).astype(float)
    blocks = split(W, block_rows, kind, m)
    edges, order = all_edges(blocks), blocks.order()
    energy = GraphEnergy.of(W, kind, m)
    assert len(edges.w) == W.nnz // 2
    assert (edges.i < edges.j).all()
    assert len(set(zip(edges.i.tolist(), edges.j.tolist(), strict=True))) == len(edges.w)
    assert_allclose(edges.w, energy.W.toarray()[order[edges.i], order[edges.j]], rtol=1e-13)
    assert_array_equal(edges.ci, energy.scale[order[edges.i]])
    f = np.random.default_rng(3).normal(size=60)
    g = f[order]
    assert_allclose(energy_of(edges, g), f @ energy.matrix() @ f, rtol=1e-12)


@pytest.mark.parametrize("block_rows", [7, 100])
def test_among_is_the_energy_between_some_vertices(block_rows):
    W = graph()
    blocks = split(W, block_rows)
    E = rebuilt(blocks)[np.ix_(blocks.order(), blocks.order())]
    places = np.random.default_rng(4).permutation(60)[:23]
    assert_array_equal(blocks.submatrix(places).toarray(), E[np.ix_(places, places)])
    twice = np.concatenate([places, places[:3]])
    assert_array_equal(blocks.submatrix(twice).toarray(), E[np.ix_(twice, twice)])


# Sampled edges


def energy_of(edges, f):
    """Return the sum over edges of w (c_i f_i - c_j f_j)^2."""
    return edges.w @ (edges.ci * f[edges.i] - edges.cj * f[edges.j]) ** 2


def test_sampled_edges_have_the_energy_in_the_mean():
    """Over 4,000 samples, the mean lies within four standard errors of the energy of all edges."""
    edges = all_edges(split(graph(), 30))
    f = np.random.default_rng(5).normal(size=60)
    found = np.array([energy_of(sampled_edges(lambda: [edges], 25, np.random.default_rng([7, random_state])), f)
                      for random_state in range(4000)])
    exact = energy_of(edges, f)
    error = found.std() / np.sqrt(len(found))
    assert error < 0.01 * exact
    assert abs(found.mean() - exact) < 4 * error


def test_sampled_edges_follow_the_stream_and_are_added_where_drawn_twice():
    edges = all_edges(split(graph(), 30))
    sample = sampled_edges(lambda: [edges], 80, np.random.default_rng(0))
    again = sampled_edges(lambda: [edges], 80, np.random.default_rng(0))
    assert_array_equal(sample.w, again.w)
    assert len(sample.w) < 80, "with replacement"
    drawn = set(zip(sample.i.tolist(), sample.j.tolist(), strict=True))
    assert len(drawn) == len(sample.w)
    assert drawn <= set(zip(edges.i.tolist(), edges.j.tolist(), strict=True))
    # w (c_i^2 + c_j^2) is what edges are drawn by, so that each draw stands for the same share of its sum.
    share = sample.w * (sample.ci**2 + sample.cj**2) / (edges.w @ (edges.ci**2 + edges.cj**2)) * 80
    assert_allclose(share, np.round(share), atol=1e-9)
    assert np.round(share).sum() == 80


def test_few_edges_are_all_taken():
    edges = all_edges(split(graph(), 30))
    for count in (len(edges.w), 10**6):
        sample = sampled_edges(lambda: [edges], count, np.random.default_rng(0))
        assert_array_equal(sample.w, edges.w)
    none = Edges(*(np.zeros(0, int),) * 2, *(np.zeros(0),) * 3)
    assert len(sampled_edges(lambda: [none], 5, np.random.default_rng(0)).w) == 0


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6), st.integers(1, 12), st.integers(0, 99))
def test_a_sample_does_not_depend_on_the_blocks_that_edges_lie_in(sizes, count, random_state):
    e = sum(sizes)
    rng = np.random.default_rng(random_state)
    edges = Edges(np.arange(e), np.arange(e) + 1, *rng.uniform(0.1, 2, (3, e)))
    ends = np.cumsum([0, *sizes])
    pieces = [edges.of(np.arange(a, b)) for a, b in pairwise(ends)]
    whole, found = (sampled_edges(lambda blocks=blocks: blocks, count, np.random.default_rng(random_state))
                    for blocks in ([edges], pieces))
    for name, array in vars(whole).items():
        assert_array_equal(getattr(found, name), array)


# In an order that is given, by shuffles


@settings(max_examples=25, deadline=None)
@given(n=st.integers(6, 50), height=st.integers(1, 60), block_rows=st.integers(1, 60), kind=st.sampled_from(KINDS),
       copies=st.booleans(), ordered=st.booleans())
def test_blocks_that_were_moved_hold_exactly_the_energy(n, height, block_rows, kind, copies, ordered):
    W, rng, parts = graph(n, isolated=(1,)), np.random.default_rng(n), MemoryParts()
    for index, (start, stop) in enumerate(row_ranges(n, height)):
        own = W[start:stop]
        parts.write(index, {"data": own.data, "indices": own.indices, "indptr": own.indptr.astype(np.int64)})
        parts.finish(index, {"rows": [start, stop], "n": n, "nnz": own.nnz})
    m = rng.integers(1, 4, n) if copies else None
    order = rng.permutation(n) if ordered else None
    with nullcontext() if ordered else pytest.warns(GraphUnordered, match="points are processed in their given order"):
        m_rows, order_rows = (None if array is None else ArrayRows(array) for array in (m, order))
        blocks = energy_blocks(StoredGraph(parts, kind, m_rows), n, block_rows,
                               InProcess(1, split_bytes(n, W.nnz) - 1), MemoryParts(), order_rows)
    energy = GraphEnergy.of(W, kind, None if m is None else m.astype(float))
    order = np.arange(n) if order is None else order
    assert_array_equal(blocks.order(), order)
    assert_array_equal(blocks.positions.read_all()[order], np.arange(n))
    E = energy.matrix()
    assert_array_equal(rebuilt(blocks), E.toarray())
    assert blocks.nnz == E.nnz
    assert_allclose(blocks.relabeled_mean, energy.relabeled_mean(), rtol=1e-10, atol=1e-14)
    moved = E[order][:, order]
    moved.sort_indices()
    for index, (start, stop) in enumerate(blocks.ranges):
        expected = block_of(moved, energy.scale[order], start, stop)
        found = blocks.parts.read(index)
        assert set(found) == set(expected)
        for name, array in expected.items():
            assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype
    assert (blocks.halo, blocks.largest_halo) == (sum(sizes := [
        len(blocks.parts.read(index)["halo"]) for index in range(len(blocks.ranges))]) / n, max(sizes))


class Limited(InProcess):
    """One task at a time, until so many have run; counts them."""

    def __init__(self, limit, memory_budget):
        super().__init__(1, memory_budget)
        self.limit, self.names = limit, []

    def _run(self, pending, done):
        for placed in pending:
            if len(self.names) == self.limit:
                raise KeyboardInterrupt
            super()._run([placed], done)
            self.names.append(type(placed.task).__name__)


@pytest.mark.slow
def test_blocks_that_were_begun_are_gone_on_with_whatever_step_was_cut_off(tmp_path):
    """No task is run twice, and the blocks are those of a computation that was left alone."""
    n, rng = 40, np.random.default_rng(0)
    W, X, given = graph(n), rng.normal(size=(n, 2)), StoredParts(tmp_path / "W")
    for index, (start, stop) in enumerate(row_ranges(n, 20)):
        own = W[start:stop]
        given.write(index, {"data": own.data, "indices": own.indices, "indptr": own.indptr.astype(np.int64)})
        given.finish(index, {"rows": [start, stop], "n": n, "nnz": own.nnz})
    weights_of = StoredGraph(given, "normalized", ArrayRows(rng.integers(1, 4, n)))
    rows, order = write_dense(ArrayRows(X), StoredParts(tmp_path / "X"), "X", 10), ArrayRows(rng.permutation(n))

    def made(folder, limit):
        execution = Limited(limit, split_bytes(n, W.nnz) - 1)
        try:
            parts = StoredParts(tmp_path / folder)
            blocks = energy_blocks(weights_of, n, 20, execution, parts.within("energy"), order)
            return execution.names, blocks, ordered_rows(rows, blocks.positions, execution, parts.within("points"))
        except KeyboardInterrupt:
            return execution.names, None, None

    whole, blocks, moved = made("whole", None)
    assert set(whole) == {"PositionsTask", "MultiplicitiesTask", "EndsTask", "PermuteTask", "BlockTask", "SendTask",
                          "ArriveTask"}
    for limit in range(1, len(whole), 2):
        begun, _, none = made(f"cut{limit}", limit)
        assert none is None
        following, found, points = made(f"cut{limit}", None)
        assert begun + following == whole
        assert_array_equal(rebuilt(found), rebuilt(blocks))
        assert replace(found, parts=blocks.parts) == blocks
        assert_array_equal(points.read_all(), moved.read_all())
        left = {path.relative_to(tmp_path / f"cut{limit}").as_posix() for path in
                (tmp_path / f"cut{limit}").glob("**/parts/*")}
        assert left == {f"within/energy/within/blocks/parts/{index:06d}" for index in range(len(found.ranges))}
    again, found, _ = made("whole", None)
    assert again == []
    assert_array_equal(rebuilt(found), rebuilt(blocks))


@pytest.mark.slow
def test_no_task_holds_more_than_a_budget_for_blocks(tmp_path):
    """6,000 vertices that are moved from anywhere, within 2 MiB; the whole graph would take 7."""
    n, W = 6_000, StoredParts(tmp_path / "W")
    order = np.random.default_rng(0).permutation(n)
    small = Traced(tmp_path / "small", 2 << 20)
    weigh(made_lists(n, reach=40).shared(small), WeightParams(), small, W)
    execution, blocks = run_traced(tmp_path, small.memory_budget, lambda execution: energy_blocks(
        StoredGraph(W, "normalized", execution.share_rows(ArrayRows(np.ones(n, int)))), n, 1000, execution,
        execution.scratch(), execution.share_rows(ArrayRows(order))))
    assert {"PositionsTask", "MultiplicitiesTask", "EndsTask", "PermuteTask", "BlockTask"} <= set(execution.tasks)
    assert max(*execution.tasks.values(), execution.driver) <= execution.memory_budget
    assert blocks.halo > 4  # for it is no order that keeps neighbors together
