"""Which points to label next: against the dense formulas, one by one and in batches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl import KNNGraph
from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.graph.graph import Graph
from dssl.graph.laplacian import Laplacian
from dssl.graph.regularizer import RegularizerParams
from dssl.selection.coverage import Distances
from dssl.selection.suggest import Field, SuggestParams, prior_bytes, prior_of, suggest, uncertainty_of
from dssl.storage.blocks import ArrayRows
from tests import reference

FIELD = ["variance", "v_optimality", "sigma_optimality"]
ALL = [*FIELD, "coverage", "uncertainty", "model_change_v_optimality"]
LABELED = np.array([3, 40])


@pytest.fixture(scope="module")
def points():
    """Return 80 points, of which the last 20 are copies of the first, and their graph."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    X = np.concatenate([X, X[:20]])
    return X, KNNGraph(n_neighbors=6).build(X)


def covariance(graph, prior):
    """Return the field's covariance at all points, of mean variance 1, from the dense Laplacian."""
    vertex, m = graph.vertices.vertex, graph.vertices.multiplicity
    L = Laplacian(graph.weights(), True, m).matrix().toarray()
    C = np.linalg.inv(reference.regularizer(L, prior.power, prior.ridge)) / np.sqrt(m[:, None] * m)
    C = C[np.ix_(vertex, vertex)]
    return C / C.diagonal().mean()


def asked(points, criterion="v_optimality", count=6, labeled=LABELED, scores=None, execution=None, eigenpairs=60,
          **others):
    X, graph = points
    params = SuggestParams(count=count, criterion=criterion, eigenpairs=eigenpairs, **others)
    return suggest(graph.vertices, graph, ArrayRows(X), labeled, params, execution or InProcess(), scores)


@pytest.mark.parametrize(("criterion", "measure"), [("v_optimality", np.trace), ("sigma_optimality", np.sum)])
@pytest.mark.parametrize("power", [1, 2])
def test_greedy_choice_is_that_of_the_dense_formulas(points, criterion, measure, power):
    prior = RegularizerParams(ridge=0.01, power=power)
    suggestion = asked(points, criterion, prior=prior)
    ids, drops = reference.suggestions(covariance(points[1], prior), LABELED, 0.1, measure, 6)
    assert_array_equal(suggestion.ids, ids)
    assert_allclose(suggestion.scores, drops, rtol=1e-6)


def test_variance_is_the_largest_of_the_posterior(points):
    prior = RegularizerParams(ridge=0.01, power=1)
    suggestion, C, observed = asked(points, "variance", prior=prior), covariance(points[1], prior), LABELED.tolist()
    for chosen, score in zip(suggestion.ids, suggestion.scores, strict=True):
        left = reference.posterior_covariance(C, observed, 0.1).diagonal()
        assert_allclose(score, left.max(), rtol=1e-6)
        assert_allclose(left[chosen], left.max(), rtol=1e-6)
        observed.append(chosen)


def test_one_more_observation_equals_conditioning_anew():
    rng = np.random.default_rng(0)
    B, mass, observed = rng.normal(size=(30, 7)), rng.integers(1, 4, 30).astype(float), np.array([2, 11, 5])
    grown = Field.of(B, mass, observed[:1])
    for vertex in observed[1:]:
        grown.observe(vertex)
    anew = Field.of(B, mass, observed)
    for name in ("P", "variance", "trace_drop", "row_sum"):
        assert_allclose(getattr(grown, name), getattr(anew, name), atol=1e-10, err_msg=name)
    assert_allclose(anew.variance, (anew.B @ anew.P @ anew.B.T).diagonal(), atol=1e-10)


@pytest.mark.parametrize("criterion", ALL)
def test_a_batch_is_the_same_points_as_one_by_one(points, criterion):
    scores = np.random.default_rng(1).normal(size=(60, 3))
    batch, labeled = asked(points, criterion, 4, scores=scores), LABELED
    for chosen, score in zip(batch.ids, batch.scores, strict=True):
        one = asked(points, criterion, 1, labeled, scores)
        assert one.ids[0] == chosen
        if criterion != "coverage":  # a share of what is still far
            assert_allclose(one.scores[0], score, rtol=1e-8)
        labeled = np.append(labeled, chosen)
    assert len(set(points[1].vertices.vertex[labeled])) == len(labeled)  # of copies one
    assert_array_equal(asked(points, criterion, 4, scores=scores).ids, batch.ids)


def test_copies_of_a_labeled_point_are_not_asked_for(points):
    suggestion = asked(points, count=58, labeled=np.array([60, 61]))  # copies of 0 and 1
    assert_array_equal(np.sort(suggestion.ids), np.arange(2, 60))


def test_components_without_a_label_come_first_the_larger_before_the_smaller():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(n, 2)) + 1000 * place for place, n in enumerate((50, 20, 25, 5))])
    graph = KNNGraph(n_neighbors=4).build(X)
    params = SuggestParams(count=4, criterion="v_optimality")
    suggestion = suggest(graph.vertices, graph, None, np.array([0]), params, InProcess())
    assert 70 <= suggestion.ids[0] < 95
    assert 50 <= suggestion.ids[1] < 70
    assert np.isinf(suggestion.scores).tolist() == [True, True, False, False]
    assert (suggestion.ids[2:] < 95).all()  # five points are fewer than half of what a label serves
    assert suggestion.attributes["components_without_label"] == 3
    whole = suggest(graph.vertices, graph, None, np.array([0]), SuggestParams(count=99), InProcess())
    assert_array_equal(np.sort(whole.ids), np.arange(1, 100))


@pytest.mark.parametrize("labeled", [[], [0, 7]])
def test_a_graph_of_islands_alone_is_no_error(labeled):
    W = sparse.kron(sparse.eye_array(30), np.array([[0.0, 1.0], [1.0, 0.0]]), format="csr")
    graph = Graph.of(W, execution=InProcess())
    suggestion = suggest(graph.vertices, graph, None, np.array(labeled, np.int64), SuggestParams(count=6), InProcess())
    assert len(set(suggestion.ids) | set(labeled)) == 6 + len(labeled)
    assert np.isfinite(suggestion.scores).all()


@pytest.mark.parametrize("criterion", ["auto", "coverage"])
def test_a_cold_start_finds_every_cluster(criterion):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(40, 5)) + 4.0 * np.eye(5)[place] for place in range(5)])
    graph = KNNGraph(n_neighbors=8).build(X)
    suggestion = suggest(graph.vertices, graph, ArrayRows(X), np.arange(0), SuggestParams(count=7, criterion=criterion),
                    InProcess())
    assert set(suggestion.ids // 40) == set(range(5))


def test_coverage_does_not_depend_on_blocks(points):
    X, _graph = points
    small = asked(points, "coverage", execution=InProcess().within(5000))
    assert_array_equal(small.ids, asked(points, "coverage").ids)
    assert_allclose(Distances(ArrayRows(X), LABELED, 5000).nearest,
                    reference.squared_distances(X, X[LABELED]).min(1), atol=1e-12)


def test_without_a_graph_features_and_the_model_are_left(points):
    X, graph = points
    scores = np.random.default_rng(1).normal(size=(60, 2))

    def suggested(criterion, scores=None):
        return suggest(graph.vertices, None, ArrayRows(X), LABELED, SuggestParams(count=3, criterion=criterion),
                       InProcess(), scores)

    assert suggested("auto").attributes["criterion"] == "coverage"
    suggestion = suggested("auto", scores)
    assert suggestion.attributes["criterion"] == "uncertainty"
    far = reference.squared_distances(X[:60], X[LABELED]).min(1) * uncertainty_of(scores)
    assert far[suggestion.ids[0]] == pytest.approx(far.max())
    with pytest.raises(ParameterError, match=r"(?s)without a graph.*choose coverage or uncertainty"):
        suggested("v_optimality", scores)
    with pytest.raises(ParameterError, match=r"(?s)without a model of classes.*choose coverage"):
        suggested("uncertainty")


def test_uncertainty_is_one_less_the_margin():
    suggestion = uncertainty_of(np.array([[3.0, 0, 0], [1, 1, 0], [np.nan, np.nan, np.nan]]))
    assert suggestion[1] == 1 == suggestion[2]
    assert 0 < suggestion[0] < 1


def test_what_cannot_be_asked_is_refused(points):
    with pytest.raises(ParameterError, match=r"(?s)criterion='best'.*v_optimality"):
        SuggestParams(criterion="best")
    for count in (0, 2.5, "3", True):
        with pytest.raises(ParameterError, match="count="):
            SuggestParams(count=count)
    with pytest.raises(DataError, match="58 distinct points have no label"):
        asked(points, count=59)
    with pytest.raises(DataError, match="every point has a label"):
        asked(points, labeled=np.arange(60))
    with pytest.raises(BudgetError, match="use fewer eigenpairs, or a memory_budget of"):
        asked(points, execution=InProcess().within(25_000))
    with pytest.raises(BudgetError, match="use coverage, or a memory_budget of"):
        asked(points, execution=InProcess().within(25_000), eigenpairs=None)
    with pytest.raises(ParameterError, match="eigenpairs=1"):
        SuggestParams(eigenpairs=1)
    with pytest.raises(ParameterError, match="noise=0"):
        SuggestParams(noise=0)


def test_eigenpairs_are_as_many_as_labels_and_as_fit(points):
    graph, labels = points[1], 40
    needed = [prior_bytes(60, 60, graph.attributes["weights"]["nnz"], k) for k in (45, 60)]
    for budget, k in ((needed[1], 60), (needed[1] - 1, 45)):
        assert prior_of(graph, labels, SuggestParams(), InProcess().within(budget)).shape == (60, k)


def test_a_part_of_a_graph_has_its_edges(points):
    graph = points[1]
    kept = np.arange(len(graph.vertices)) % 3 > 0
    part = graph.subgraph(kept, InProcess())
    assert_allclose(part.weights().toarray(), graph.weights().toarray()[np.ix_(kept, kept)])
    assert_array_equal(part.vertices.multiplicity, np.bincount(part.vertices.vertex))
    assert isinstance(part, Graph)
    assert graph.subgraph(np.ones(len(kept), bool), InProcess()) is graph
