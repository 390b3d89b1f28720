"""The change of the graph's energy where points leave it, against the energy of the graph without them."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dssl.graph.energy import GraphEnergy
from dssl.graph.leaving import EnergyChange, energy_change
from tests import reference


def graph(n, density, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.uniform(0.1, 3, (n, n)) * (rng.random((n, n)) < density), 1)
    return upper + upper.T


def changed(W, kind, leaving, multiplicity=None):
    energy = GraphEnergy.of(sp.csr_array(W), kind, multiplicity)
    change = energy_change(energy, kind, leaving, multiplicity)
    change = EnergyChange.from_arrays(change.to_arrays())
    return energy.matrix().toarray() + change.matrix(len(W)).toarray(), change


@given(n=st.integers(2, 30), density=st.floats(0, 0.5), seed=st.integers(0, 1 << 16), share=st.floats(0, 1),
       kind=st.sampled_from(["normalized", "unnormalized"]))
def test_the_energy_is_that_of_the_graph_of_the_points_left(n, density, seed, share, kind):
    W, rng = graph(n, density, seed), np.random.default_rng([seed, 1])
    leaving = np.flatnonzero(rng.random(n) < share)
    found, _ = changed(W, kind, leaving)
    expected = np.zeros((n, n))
    E, stay = reference.without_points(W, leaving, kind)
    expected[np.ix_(stay, stay)] = E
    assert_allclose(found, expected, atol=1e-13 * max(1, W.sum()))


@given(n=st.integers(2, 12), seed=st.integers(0, 1 << 16), kind=st.sampled_from(["normalized", "unnormalized"]))
def test_copies_leave_one_at_a_time(n, seed, kind):
    """The graph of all points has all copies of a vertex as vertices of their own, with all its edges."""
    W, rng = graph(n, 0.4, seed), np.random.default_rng([seed, 1])
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
