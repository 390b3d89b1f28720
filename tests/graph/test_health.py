"""Recall certificates against brute force, and the facts of small graphs that are known by construction."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binomtest

from dssl.errors import DataError, ParameterError
from dssl.graph.health import graph_health, unreached_points
from dssl.graph.neighbor_lists import Neighbors
from dssl.graph.neighbors import neighbors
from dssl.graph.recall import certify_recall, wilson_lower
from dssl.graph.vertices import Vertices
from dssl.graph.weights import weights


@pytest.mark.parametrize(("hits", "trials"), [(5000, 5000), (4900, 5000), (1, 10), (0, 10)])
def test_wilson_bound_is_scipys(hits, trials):
    expected = binomtest(hits, trials).proportion_ci(0.95, method="wilson").low
    assert wilson_lower(hits, trials) == pytest.approx(expected, abs=1e-6)


def test_nothing_tried_certifies_nothing():
    assert wilson_lower(0, 0) == 0.0


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_exact_lists_have_recall_one(offset, metric):
    X = np.random.default_rng(0).normal(size=(600, 5)) + offset
    recall = certify_recall(X, neighbors(X, 8, method="exact", metric=metric), sample=200)
    assert recall["recall"] == recall["worst_row"] == 1.0
    assert recall["trials"] == 1600
    assert recall["lower"] > 0.99


def test_recall_counts_what_is_missing():
    """Half of the lists lose their nearest two of four to the farthest points."""
    X = np.random.default_rng(1).normal(size=(300, 2))
    arrays = neighbors(X, 4).to_arrays()
    full = neighbors(X, 299).to_arrays()["ids"]
    arrays["ids"][::2, :2] = full[::2, -2:]
    recall = certify_recall(X, Neighbors.from_arrays(arrays), sample=300)
    assert recall["recall"] == 0.75
    assert recall["worst_row"] == 0.5
    assert recall["lower"] < 0.75


def test_another_tie_counts_as_true():
    """Ten copies: any three of the others are nearest."""
    X = np.zeros((10, 2))
    ids = (np.arange(10)[:, None] + [7, 8, 9]) % 10
    lists = Neighbors.from_arrays({"ids": ids, "distances": np.zeros((10, 3), np.float32)})
    assert certify_recall(X, lists)["recall"] == 1.0


def test_certificates_are_checked():
    X = np.random.default_rng(2).normal(size=(30, 2))
    with pytest.raises(DataError, match="30 lists for 20 points"):
        certify_recall(X[:20], neighbors(X, 3))
    with pytest.raises(ParameterError, match="sample=0"):
        certify_recall(X, neighbors(X, 3), sample=0)


def test_health_of_components():
    """A path 0-1-2-3 with a label, a pair 4-5 without, and point 6 alone."""
    W = np.zeros((7, 7))
    for i, j in [(0, 1), (1, 2), (2, 3), (4, 5)]:
        W[i, j] = W[j, i] = 2.0
    y = np.array([1, 1, 0, -1, -1, -1, -1])
    health = graph_health(sp.csr_array(W), y >= 0, y=y)
    assert json.loads(json.dumps(health)) == health
    assert health["n"] == 7
    assert health["edges"] == 4
    assert health["components"] == {"count": 3, "largest": [4, 2, 1], "largest_share": 4 / 7}
    assert health["isolated"] == {"count": 1, "ids": [6]}
    assert health["unreached"] == {"count": 3, "ids": [4, 5, 6], "components": 2}
    assert health["degree"] == {"min": 0.0, "median": 1.0, "mean": 8 / 7, "max": 2.0}
    assert health["strength"]["max"] == 4.0
    assert health["homophily"] == {"edges": 2, "share": 0.5, "by_chance": pytest.approx(1 / 3)}


def test_hubs_and_copies_are_counted():
    star = np.zeros((40, 40))
    star[0, 1:] = star[1:, 0] = 1
    health = graph_health(sp.csr_array(star), [3])
    assert health["hubs"]["count"] == 1
    assert health["hubs"]["largest"] == [{"id": 0, "degree": 39}]
    assert health["labeled"] == 1
    assert health["unreached"]["count"] == 0

    X = np.concatenate([np.zeros((3, 2)), np.random.default_rng(3).normal(size=(20, 2))])
    found = neighbors(X, 4)
    assert graph_health(weights(found), neighbors=found)["duplicates"] == {"points": 3, "share": 3 / 23}


def test_points_are_counted_with_their_copies_and_named_by_their_numbers():
    """Vertices 0-1-2 with a label, a pair 3-4 without, 5 alone; vertex 1 is 3 points, vertex 3 is 4, vertex 5 is 2."""
    vertex = np.array([0, 1, 2, 3, 3, 1, 4, 5, 3, 1, 5, 3])
    points = Vertices(vertex, np.array([0, 1, 2, 3, 6, 7]), np.bincount(vertex))
    W = np.zeros((6, 6))
    for i, j in [(0, 1), (1, 2), (3, 4)]:
        W[i, j] = W[j, i] = 1.0
    y = np.full(12, -1)
    y[[5, 9, 0]] = [1, 1, 0]  # two copies of vertex 1 are labeled
    numbers = 100 + np.arange(12)
    health = graph_health(sp.csr_array(W), np.flatnonzero(y >= 0), y=y, vertices=points, numbers=numbers)
    assert json.loads(json.dumps(health)) == health
    assert health["n"] == 12
    assert health["labeled"] == 3
    assert health["vertices"] == {"count": 6, "largest_multiplicity": 4, "copied_points": 9}
    assert health["components"] == {"count": 3, "largest": [5, 5, 2], "largest_share": 5 / 12}
    assert health["isolated"] == {"count": 2, "ids": [107, 110]}
    assert health["unreached"] == {"count": 7, "ids": [103, 104, 106, 107, 108, 110, 111], "components": 2}
    assert health["homophily"] == {"edges": 1, "share": 0.0, "by_chance": 0.0}
    rows, sizes = unreached_points(W=sp.csr_array(W), labeled=y >= 0, vertices=points)
    assert rows.tolist() == [3, 4, 6, 7, 8, 10, 11]
    assert sizes.tolist() == [5, 5, 5, 2, 5, 2, 5]


def test_hubs_are_named_by_their_numbers():
    star = np.zeros((40, 40))
    star[7, :] = star[:, 7] = 1
    star[7, 7] = 0
    assert graph_health(sp.csr_array(star), numbers=2 * np.arange(40))["hubs"]["largest"] == [{"id": 14, "degree": 39}]
