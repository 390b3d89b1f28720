"""The change of the graph's energy where points leave it, against the energy of the graph without them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dssl.execution.in_process import InProcess
from dssl.graph.energy.blocks import GraphEnergy, StoredGraph, split_energy
from dssl.graph.energy.vertex_removal import EnergyChange, changes_of_folds, energy_change, removal_bytes, removal_tasks
from dssl.graph.given import store_weights
from dssl.graph.weights.build import weigh
from dssl.graph.weights.rules import WeightParams
from dssl.storage.blocks import ArrayRows, MemoryParts, PartWriter
from dssl.storage.store import StoredParts
from tests import reference
from tests.in_pairs import in_pairs
from tests.knn.made_lists import made_lists
from tests.memory import run_traced


def graph(n, density, random_state):
    rng = np.random.default_rng(random_state)
    upper = np.triu(rng.uniform(0.1, 3, (n, n)) * (rng.random((n, n)) < density), 1)
    return upper + upper.T


def changed(W, kind, leaving, multiplicity=None):
    energy = GraphEnergy.of(sp.csr_array(W), kind, multiplicity)
    change = energy_change(energy, kind, leaving, multiplicity)
    change = EnergyChange.from_arrays(change.to_arrays())
    return energy.matrix().toarray() + change.matrix(len(W)).toarray(), change


@given(n=st.integers(2, 30), density=st.floats(0, 0.5), random_state=st.integers(0, 1 << 16), share=st.floats(0, 1),
       kind=st.sampled_from(["normalized", "unnormalized"]))
def test_the_energy_is_that_of_the_graph_of_the_points_left(n, density, random_state, share, kind):
    W, rng = graph(n, density, random_state), np.random.default_rng([random_state, 1])
    leaving = np.flatnonzero(rng.random(n) < share)
    found, _ = changed(W, kind, leaving)
    expected = np.zeros((n, n))
    E, stay = reference.without_points(W, leaving, kind)
    expected[np.ix_(stay, stay)] = E
    assert_allclose(found, expected, atol=1e-13 * max(1, W.sum()))


@given(n=st.integers(2, 12), random_state=st.integers(0, 1 << 16), kind=st.sampled_from(["normalized", "unnormalized"]))
def test_copies_leave_one_at_a_time(n, random_state, kind):
    """The graph of all points has all copies of a vertex as vertices of their own, with all its edges."""
    W, rng = graph(n, 0.4, random_state), np.random.default_rng([random_state, 1])
    m = rng.integers(1, 4, n)
    of = np.repeat(np.arange(n), m)
    leaving = np.flatnonzero(rng.random(len(of)) < 0.4)
    found, _ = changed(W, kind, rng.permutation(of[leaving]), m)
    E, stay = reference.without_points(W[np.ix_(of, of)], leaving, kind)
    of_vertex = (of[stay][:, None] == np.arange(n)).astype(float)
    assert_allclose(found, of_vertex.T @ E @ of_vertex, atol=1e-12 * max(1, W.sum() * 9))


@pytest.mark.parametrize("kind", ["normalized", "unnormalized"])
def test_a_vertex_whose_last_edge_leaves_is_isolated(kind):
    W = np.zeros((5, 5))
    for i, j, w in [(0, 1, 2.0), (1, 2, 1.0), (3, 4, 0.3)]:
        W[i, j] = W[j, i] = w
    found, change = changed(W, kind, np.array([1]))
    assert not found[:3].any()
    assert (found[3:, 3:] == GraphEnergy.of(sp.csr_array(W), kind).matrix().toarray()[3:, 3:]).all()
    assert set(change.rows) <= {0, 1, 2}


@pytest.mark.parametrize(("kind", "reach"), [("unnormalized", 1), ("normalized", 2)])
def test_nothing_changes_far_from_the_points_that_leave(kind, reach):
    path = np.diag(np.ones(19), 1)
    _, change = changed(path + path.T, kind, np.array([10]))
    assert change.rows.tolist() == list(range(10 - reach, 11 + reach))
    assert change.rows[change.near].tolist() == [9, 10, 11]


@in_pairs({"copies": [True, False], "block_rows": [7, 100], "kind": ["normalized", "unnormalized"]})
def test_changes_of_folds_are_those_of_the_whole_graph(kind, block_rows, copies):
    """Of two folds of points by their places in blocks, with others that are never held out, copies among them."""
    W, rng = graph(60, 0.05, 3), np.random.default_rng(4)
    m = rng.integers(1, 4, 60) if copies else None
    parts = MemoryParts()
    parts.finish(0, store_weights(sp.csr_array(W), PartWriter(parts, 0)))
    stored = StoredGraph(parts, kind, None if m is None else ArrayRows(m))
    blocks = split_energy(stored, 60, block_rows, InProcess(1), MemoryParts())
    vertex = rng.choice(60, 15, replace=False)
    vertex[3] = vertex[4]
    fold, place = rng.integers(0, 3, 15), blocks.positions.take(vertex)
    changes, order = changes_of_folds(stored, blocks, place, fold, 2, InProcess(2)), blocks.order()
    energy = GraphEnergy.of(sp.csr_array(W), kind, None if m is None else m.astype(float))
    for number in range(2):
        expected = energy_change(energy, kind, vertex[fold == number], m).matrix(60).toarray()
        found = EnergyChange.from_arrays(changes.read(number)).matrix(60).toarray()
        assert_allclose(found, expected[order][:, order], rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_no_more_of_the_graph_is_held_than_what_is_near(tmp_path):
    """200 points of 20,000 leave; the whole graph would take five times as much."""
    n, rng, W = 20_000, np.random.default_rng(0), MemoryParts()
    weigh(made_lists(n, 6, reach=40), WeightParams(), InProcess(1), W)
    stored = StoredGraph(W, "normalized")
    blocks = split_energy(stored, n, 1000, InProcess(1), StoredParts(tmp_path / "E"))
    position, fold = rng.choice(n, 200, replace=False), np.arange(200) % 5
    expected = removal_bytes(n, blocks.nnz, 200) + (1 << 19)  # which any step takes
    execution, _ = run_traced(tmp_path, 1 << 30, lambda execution: changes_of_folds(
        stored, blocks, position, fold, 5, execution), expected)
    assert {"RowsTask", "RemovalTask"} == set(execution.tasks)
    assert 5 * removal_bytes(n, blocks.nnz, 200) < removal_bytes(n, blocks.nnz, n)
    assert max(*execution.tasks.values(), execution.driver) <= expected
    assert removal_tasks(len(blocks.ranges)) == 2 * 20 + 1
