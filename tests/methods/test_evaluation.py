"""Graphs of candidates from one search are those of single searches, to the bit where these are exact."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl import KNNGraph
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.learners.target.target import Quantities
from dssl.methods.evaluation import Evaluation, Group
from dssl.methods.graph.method import GRAPH_LEARNER
from dssl.methods.step import Fit
from dssl.storage.blocks import ArrayRows
from dssl.storage.csr import as_rows


def evaluation(rows, family, execution, cache=None):
    """Return what makes the graphs of candidates of a family."""
    groups = [Group(GRAPH_LEARNER, {number: None}, params) for number, params in enumerate(family)]
    unlabeled = Quantities(np.empty(0, np.int64), np.empty((0, 1)))
    return Evaluation(Fit(rows, unlabeled), execution, None, groups, cache=cache)


def points(kind):
    """Return rows with ties, copies, or zeros."""
    rng = np.random.default_rng(0)
    X = {"normal": rng.normal(size=(300, 4)), "ties": rng.integers(0, 4, (300, 3)).astype(np.float32) + 1,
         "copies": np.repeat(rng.normal(size=(100, 20)), 3, axis=0).astype(np.float32)}.get(kind)
    return as_rows(sparse.random(300, 50, 0.2, random_state=0, format="csr") if X is None else X)


def same(one, other):
    assert_array_equal(one.vertices.vertex, other.vertices.vertex)
    for name in ("indices", "distances"):
        left, right = (getattr(graph.neighbors, name) for graph in (one, other))
        assert left.dtype == right.dtype
        assert_array_equal(left, right)
    for name in ("data", "indices", "indptr"):
        assert_array_equal(getattr(one.weights(), name), getattr(other.weights(), name))
    assert one.attributes["weights"] == other.attributes["weights"]
    assert one.attributes["neighbors"]["n_neighbors"] == other.attributes["neighbors"]["n_neighbors"]


FAMILY = [KNNGraph(n_neighbors=5), KNNGraph(n_neighbors=20, weights="binary", method="exact"),
          KNNGraph(n_neighbors=1, weights="heat", symmetrize="mean"),
          KNNGraph(n_neighbors=12, symmetrize="minimum", method="exact")]


@pytest.mark.parametrize("kind", ["normal", "ties", "copies", "sparse"])
@pytest.mark.parametrize("others", [{}, {"metric": "cosine"}, {"duplicates": "keep"}], ids=str)
def test_graphs_of_one_exact_search_are_those_of_single_searches(kind, others):
    rows, execution = points(kind), InProcess(2)
    if others.get("metric") == "cosine" and rows.is_sparse:
        rows = as_rows(rows.read_all()[np.diff(rows.read_all().indptr) > 0])
    family = [KNNGraph(**{**vars(own), **others, "random_state": random_state}) for random_state,
              own in enumerate(FAMILY)]
    shared = evaluation(rows, family, execution)
    for params in family:
        same(shared.graph(params), params.build(rows, execution))
    assert (shared.n_graphs, shared.n_searches) == (4, 1)


def test_what_the_search_depends_on_is_not_shared():
    rows, execution = points("copies"), InProcess(2)
    family = [KNNGraph(n_neighbors=k, metric=metric, duplicates=duplicates) for k in (3, 6)
              for metric in ("euclidean", "cosine") for duplicates in ("collapse", "keep")]
    shared = evaluation(rows, family, execution)
    for params in family:
        same(shared.graph(params), params.build(rows, execution))
    assert (shared.n_graphs, shared.n_searches) == (8, 4)


def test_the_seed_counts_where_the_search_may_be_approximate():
    one, other = KNNGraph(random_state=0), KNNGraph(n_neighbors=3, random_state=1)
    assert one.searched_alike(20_000) == other.searched_alike(20_000)
    assert one.searched_alike(20_001) != other.searched_alike(20_001)
    exact = [KNNGraph(method="exact", random_state=random_state).searched_alike(20_001) for random_state in (0, 1)]
    assert exact[0] == exact[1]
    assert KNNGraph(method="descent").searched_alike(10) != KNNGraph().searched_alike(10)


def test_each_graph_with_too_many_neighbors_is_told():
    rows = ArrayRows(np.random.default_rng(0).normal(size=(10, 2)))
    family = [KNNGraph(n_neighbors=k) for k in (4, 20, 30)]
    shared = evaluation(rows, family, InProcess(1))
    with (pytest.warns(UserWarning, match="n_neighbors=20 is lowered to 9"),
          pytest.warns(UserWarning, match="n_neighbors=30 is lowered to 9")):
        assert shared.graph(family[1]).neighbors.k == 9
    same(shared.graph(family[0]), family[0].build(rows))


@pytest.mark.cluster
def test_workers_weigh_the_beginnings_of_lists(cluster_client):
    rows = points("normal")
    execution = OnDask(cluster_client)
    shared = evaluation(execution.share_rows(rows), FAMILY, execution)
    for params in FAMILY:
        same(shared.graph(params), params.build(rows, InProcess(1)))
