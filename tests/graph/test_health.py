"""Recall certificates against brute force, and the facts of small graphs that are known by construction."""

import json
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.stats import binomtest

from dssl.base.errors import DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.graph import health as module
from dssl.graph.health import graph_health, stored_health, unreachable_points
from dssl.graph.vertices import VertexRows, Vertices
from dssl.graph.weights.build import weigh, weights
from dssl.graph.weights.rules import WeightParams
from dssl.knn.lists import Neighbors
from dssl.knn.recall import certify_recall, wilson_lower
from dssl.knn.search import neighbors
from dssl.storage.blocks import ArrayRows, MemoryParts, row_ranges
from dssl.storage.store import StoredParts
from tests.knn.made_lists import made_lists
from tests.memory import Traced


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
    assert health["unreachable"] == {"count": 3, "ids": [4, 5, 6], "components": 2}
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
    assert health["unreachable"]["count"] == 0

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
    assert health["unreachable"] == {"count": 7, "ids": [103, 104, 106, 107, 108, 110, 111], "components": 2}
    assert health["homophily"] == {"edges": 1, "share": 0.0, "by_chance": 0.0}
    parts = MemoryParts()
    graph_health(sp.csr_array(W), y >= 0, vertices=points, parts=parts)
    (rows, sizes), = unreachable_points(parts, 12)
    assert rows.tolist() == [3, 4, 6, 7, 8, 10, 11]
    assert sizes.tolist() == [5, 5, 5, 2, 5, 2, 5]


def test_hubs_are_named_by_their_numbers():
    star = np.zeros((40, 40))
    star[7, :] = star[:, 7] = 1
    star[7, 7] = 0
    assert graph_health(sp.csr_array(star), numbers=2 * np.arange(40))["hubs"]["largest"] == [{"id": 14, "degree": 39}]


def in_pieces(n, n_pieces, random_state):
    """Return weights (n, n) of random trees, one a piece and some edges more, whose vertices are mixed."""
    rng = np.random.default_rng(random_state)
    piece = rng.integers(0, n_pieces, n)
    i, j = [], []
    for number in range(n_pieces):
        own = rng.permutation(np.flatnonzero(piece == number))
        i += own[1:].tolist()
        j += [own[rng.integers(0, at)] for at in range(1, len(own))]
    W = sp.csr_array((rng.uniform(0.1, 1, len(i)), (i, j)), shape=(n, n))
    W = sp.csr_array(W + W.T)
    W.sort_indices()
    return W, piece


@given(n=st.integers(2, 60), n_pieces=st.integers(1, 12), height=st.integers(1, 70), random_state=st.integers(0, 99),
       copies=st.booleans())
@settings(max_examples=30, deadline=None)
def test_health_does_not_depend_on_blocks(n, n_pieces, height, random_state, copies):
    W, piece = in_pieces(n, n_pieces, random_state)
    rng, parts = np.random.default_rng(random_state), MemoryParts()
    for index, (start, stop) in enumerate(row_ranges(n, height)):
        own = W[start:stop]
        parts.write(index, {"data": own.data, "indices": own.indices, "indptr": own.indptr})
        parts.finish(index, {"rows": [start, stop]})
    vertex = np.concatenate([np.arange(n), rng.integers(0, n, 20)]) if copies else np.arange(n)
    points = Vertices(vertex, np.arange(n), np.bincount(vertex))
    labeled, numbers = rng.choice(len(vertex), 3, replace=False) if n > 2 else np.arange(1), 7 * np.arange(len(vertex))
    codes, found, whole = rng.integers(0, 2, len(labeled)), MemoryParts(), MemoryParts()
    y = np.zeros(len(vertex), int)
    y[labeled] = codes
    with patch.object(module, "BLOCK_ROWS", 13):
        health = stored_health(parts, points.stored(), InProcess(2), found, labeled, codes, None, ArrayRows(numbers))
        listed = [*unreachable_points(found, len(vertex))]
    expected = graph_health(W, labeled, y=y, vertices=points, numbers=numbers, parts=whole)
    del expected["vertices"]
    assert health["strength"].pop("mean") == pytest.approx(expected["strength"].pop("mean"))
    assert health == expected
    degree, sizes = np.diff(W.indptr), np.bincount(piece[vertex], minlength=n_pieces)
    assert health["components"]["count"] == len(np.unique(piece))
    assert health["components"]["largest"] == np.sort(sizes[sizes > 0])[::-1][:10].tolist()
    assert health["degree"] == {"min": degree.min(), "median": np.median(degree), "mean": degree.mean(),
                                "max": degree.max()}
    assert health["isolated"]["count"] == (degree == 0)[vertex].sum()
    unreachable = np.flatnonzero(~np.isin(piece[vertex], piece[vertex[labeled]]))
    rows, of = ([np.concatenate(column) for column in zip(*listed, strict=True)] if len(unreachable) else
                (unreachable, unreachable))
    assert_array_equal(rows, 7 * unreachable)
    assert_array_equal(of, sizes[piece[vertex[unreachable]]])
    assert health["unreachable"]["ids"] == (7 * unreachable)[:100].tolist()
    assert health["labeled"] == len(labeled)


@pytest.mark.slow
def test_no_task_holds_more_than_the_budget(tmp_path):
    """30,000 vertices within 2 MiB, of which the components take 4 bytes each; the whole graph would take 14 MB."""
    traced, n = Traced(tmp_path, 2 << 20), 30_000
    W, lists = StoredParts(tmp_path / "W"), made_lists(n, 6, reach=20).shared(traced)
    weigh(lists, WeightParams(), traced, W)
    with traced:
        health = stored_health(W, VertexRows(None, n, n), traced, StoredParts(tmp_path / "health"), np.arange(50),
                               np.arange(50) % 2, lists)
    assert health["components"]["count"] == 1
    assert {"DegreesTask", "ComponentsTask", "HubsTask"} <= set(traced.tasks)
    assert max(traced.tasks.values()) <= traced.memory_budget
