"""Components found by ranges of vertices are those of SciPy, whatever the blocks; no task holds more than a range."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.sparse.csgraph import connected_components

from dssl.base.units import MEMORY_BUDGET
from dssl.execution.in_process import InProcess
from dssl.graph import components as module
from dssl.graph.components import RANGE_BYTES, components_cost, find_components, in_one_task, range_blocks
from dssl.graph.weights.build import id_type
from dssl.storage.blocks import STEP_BYTES, ArrayRows, MemoryParts, row_ranges
from dssl.storage.store import StoredParts
from tests.memory import Traced


def graph_of(n, i, j):
    """Return weights (n, n) of edges."""
    W = sp.csr_array((np.ones(len(i)), (i, j)), shape=(n, n))
    W = sp.csr_array(W + W.T)
    W.sort_indices()
    return W


def stored(W, height, parts):
    """Write W in blocks of rows, as `weigh` does."""
    for index, (start, stop) in enumerate(row_ranges(W.shape[0], height)):
        own = W[start:stop]
        parts.write(index, {"data": own.data, "indices": own.indices.astype(id_type(W.shape[0])),
                            "indptr": own.indptr.astype(np.int64)})
        parts.finish(index, {"rows": [start, stop]})
    return parts


def expected(W, multiplicity):
    """Return the components as SciPy finds them, numbered in the order of their first vertices; and their sizes."""
    own = connected_components(W, directed=False)[1]
    _, first, own = np.unique(own, return_index=True, return_inverse=True)
    own = np.argsort(np.argsort(first))[own]
    return own, np.bincount(own, multiplicity).astype(int), np.bincount(own)


def check(W, height, budget, multiplicity=None):
    """Check what is found of a graph as of a large one, and as of a small one."""
    for few in (0, module.FEW_VERTICES):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "FEW_VERTICES", few)
            check_components(W, height, budget, multiplicity)


def check_components(W, height, budget, multiplicity):
    n, parts = W.shape[0], MemoryParts()
    found = find_components(stored(W, height, MemoryParts()), n, height,
                            None if multiplicity is None else ArrayRows(multiplicity), InProcess(1, budget), parts)
    own, points, vertices = expected(W, np.ones(n, int) if multiplicity is None else multiplicity)
    for name, array in (("component", own), ("points", points[own]), ("isolated", vertices[own] == 1)):
        assert_array_equal(parts.rows(name).read_all(), array)
    assert found.count == len(points)
    assert found.isolated == (vertices == 1).sum()
    assert found.largest == np.sort(points)[::-1][:10].tolist()


@given(n=st.integers(2, 80), degree=st.floats(0, 3), height=st.integers(1, 20), blocks=st.integers(1, 4),
       random_state=st.integers(0, 999), copies=st.booleans())
@settings(max_examples=12, deadline=None)
def test_components_do_not_depend_on_blocks_and_ranges(n, degree, height, blocks, random_state, copies):
    rng = np.random.default_rng(random_state)
    W = graph_of(n, *rng.integers(0, n, (2, int(degree * n / 2))))
    check(W, height, blocks * RANGE_BYTES * height, rng.integers(1, 9, n) if copies else None)


@pytest.mark.parametrize("order", ["path", "strides", "back", "star", "last", "none"])
def test_graphs_whose_edges_cross_all_ranges(order):
    """A path through the vertices as they are or by strides, stars around the first and the last vertex, no edge."""
    n, at = 240, np.arange(240)
    path = {"strides": at.reshape(-1, 20).T.ravel(), "back": at.reshape(-1, 20).T[:, ::-1].ravel()}.get(order, at)
    i, j = {"star": (0 * at[1:], at[1:]), "last": (0 * at[1:] + n - 1, at[:-1]), "none": (at[:0], at[:0])}.get(
        order, (path[1:], path[:-1]))
    check(graph_of(n, i, j), 10, 20 * RANGE_BYTES)


@pytest.mark.parametrize("made", ["mixed", "alone", "star"])
@pytest.mark.extended_cases("mixed", "star")
def test_no_task_holds_more_than_the_budget(made, tmp_path):
    """40,000 vertices within 1 MiB, in any order: of one component, each of its own, and all that ask the first range.
    """
    n, height, rng = 40_000, 2000, np.random.default_rng(0)
    i, j = {"mixed": rng.integers(0, n, (2, 3 * n)), "alone": np.zeros((2, 0), int),
            "star": (np.zeros(n - 1, int), np.arange(1, n))}[made]
    W = stored(graph_of(n, i, j), height, StoredParts(tmp_path / "W"))
    traced = Traced(tmp_path, 1 << 20)
    assert not in_one_task(n, height, traced.memory_budget)
    with traced:
        found = find_components(W, n, height, None, traced, StoredParts(tmp_path / "found"))
    assert found.count == {"mixed": found.count, "alone": n, "star": 1}[made]
    print(made, traced.tasks, traced.driver)
    ranges = -(-n // (height * range_blocks(n, height, traced.memory_budget)))
    assert ranges > 2
    assert {"JoinBlockTask", "JoinRangeTask", "NumberRangeTask"} == set(traced.tasks)
    assert max(traced.tasks.values()) <= traced.memory_budget


def test_a_hundred_million_vertices_fit_the_default_budget():
    for v in (10**7, 10**8, 10**9):
        cost = components_cost(v, 1 << 16, 20 * v, MEMORY_BUDGET)
        assert cost.peak <= MEMORY_BUDGET + STEP_BYTES
    assert components_cost(10**9, 1 << 16, 20 * 10**9, MEMORY_BUDGET).tasks > 10**4
    assert in_one_task(10**6, 1 << 16, MEMORY_BUDGET)
    assert module.WHOLE_BYTES * 10**6 < 64 << 20
