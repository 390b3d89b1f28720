"""Ridge in a family of graph kernels: against the dense formulas with brute-force refits, in any pieces, for copies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl import KNNGraph
from dssl.base.errors import BudgetError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.graph import functions as graph_functions_module
from dssl.graph.solved_functions import FunctionParams
from dssl.learners.on_graph import graph_ridge as module
from dssl.learners.on_graph.graph_ridge import GraphRidgeParams, fit_graph_ridge, graph_members
from dssl.learners.target.target import Classes, Quantities

from ... import reference
from .problems import graph_of_weights, ones_unless, problems

EXACT = FunctionParams(tol=1e-12)
FAMILY = {"ridge": (0.01, 0.3), "power": (1, 2), "by_degree": (False, True), "functions": EXACT}


def shares(found):
    return [kernel["share"] for kernel in found.attributes["kernels"]]


@pytest.mark.parametrize("classes", [True, False])
@pytest.mark.parametrize("penalty", [0.1, np.inf])
@settings(max_examples=25)
@given(data=st.data())
@pytest.mark.extended_cases("0.1-False", "0.1-True", "inf-False")
def test_the_average_is_that_of_dense_kernels_with_refits(classes, penalty, data):
    W, target, weight = data.draw(problems(classes=classes))
    params = GraphRidgeParams(**FAMILY, penalty=penalty)
    found = fit_graph_ridge(graph_of_weights(W), target, weight, params, InProcess(1))
    Y, w = target.indicators(), ones_unless(weight, target)
    values, held_out, expected = reference.averaged_ridge(W, target.labeled, Y, w, params.kernels, penalty, classes,
                                                          alike=np.isinf(penalty))
    assert_allclose(shares(found), expected, atol=1e-7)
    assert_allclose(found.values, values, atol=1e-6 * max(1, np.abs(values).max()))
    assert_allclose(found.held_out, held_out, atol=1e-6 * max(1, np.abs(held_out).max()))
    assert_array_equal(found.reachable, np.isin(reference.components(W), reference.components(W)[target.labeled]))
    assert not found.values[~found.reachable].any()


@pytest.mark.slow
@settings(max_examples=20)
@given(problem=problems(), random_state=st.integers(0, 99))
def test_the_order_of_points_and_of_classes_does_not_matter(problem, random_state):
    W, target, weight = problem
    rng = np.random.default_rng(random_state)
    points, names = rng.permutation(len(W)), rng.permutation(len(target.names))
    moved = Classes(np.argsort(points)[target.labeled], names[target.coded], target.names)
    order = np.argsort(moved.labeled)
    params = GraphRidgeParams(**FAMILY)
    found = fit_graph_ridge(graph_of_weights(W[np.ix_(points, points)]), moved.take(order),
                            None if weight is None else weight[order], params, InProcess(1))
    expected = fit_graph_ridge(graph_of_weights(W), target, weight, params, InProcess(1))
    assert_allclose(found.values[:, names], expected.values[points], atol=1e-6)
    assert_allclose(found.held_out[:, names], expected.held_out[order], atol=1e-6)
    assert_allclose(shares(found), shares(expected), atol=1e-7)


def moons(n=300):
    """Return points around two arcs and their classes."""
    rng, angle = np.random.default_rng(3), np.linspace(0, np.pi, n // 2)
    upper, lower = (np.cos(angle), np.sin(angle)), (1 - np.cos(angle), 0.4 - np.sin(angle))
    X = np.concatenate([np.stack(upper, 1), np.stack(lower, 1)])
    return X + 0.05 * rng.normal(size=X.shape), np.repeat([0, 1], n // 2)


def test_labels_of_copies_fit_as_one_label_of_their_weight():
    X, _ = moons()
    X = np.concatenate([X, X[:20]])
    graph = KNNGraph(n_neighbors=6).build(X)
    both = Classes(np.array([0, 5, 200, 250, 300, 305]), np.array([0, 0, 1, 1, 0, 0]), np.arange(2))
    for penalty in (0.1, np.inf):
        params = GraphRidgeParams(**FAMILY, penalty=penalty, weighting="equal")
        found = fit_graph_ridge(graph, both, None, params, InProcess(1))
        once = fit_graph_ridge(graph, both.take(np.arange(4)), np.array([2.0, 2, 1, 1]), params, InProcess(1))
        assert_allclose(found.values, once.values, atol=1e-7)


def test_a_collapsed_graph_fits_as_the_graph_of_all_points():
    """In which copies have all edges of their vertex, none between them, and here no label.

    A label of one copy alone would be told apart from the other copy there.
    """
    X, _ = moons(120)
    X = np.concatenate([X, X[:15]])
    graph = KNNGraph(n_neighbors=5).build(X)
    vertex = graph.vertices.vertex
    full = graph_of_weights(graph.weights().toarray()[np.ix_(vertex, vertex)])
    target = Classes(np.array([20, 30, 70, 110]), np.array([0, 0, 1, 1]), np.arange(2))
    params = GraphRidgeParams(**FAMILY)
    found = fit_graph_ridge(graph, target, None, params, InProcess(1))
    expected = fit_graph_ridge(full, target, None, params, InProcess(1))
    assert_allclose(found.values[vertex], expected.values, atol=1e-7)
    assert_allclose(found.held_out, expected.held_out, atol=1e-7)


@pytest.mark.parametrize("largest", [0, 3000])
@pytest.mark.slow_cases("0")
def test_either_way_of_computing_columns_tells_moons_apart(monkeypatch, largest):
    monkeypatch.setattr(graph_functions_module, "MAX_BY_SOLVERS", largest)
    X, y = moons()
    graph = KNNGraph(n_neighbors=6).build(X)
    target = Classes(np.array([75, 225]), np.array([0, 1]), np.arange(2))
    found = [fit_graph_ridge(graph, target, None, GraphRidgeParams(), InProcess(threads)) for threads in (1, 2)]
    assert (found[0].values.argmax(axis=1) == y).mean() > 0.98
    assert_array_equal(found[0].values, found[1].values)
    assert_array_equal(found[0].held_out, found[1].held_out)
    assert ("lanczos" in str(found[0].attributes["functions"]["method"])) == (largest == 0)


def test_shares_are_alike_with_one_label_a_class_and_few_decide_with_many():
    X, y = moons()
    graph = KNNGraph(n_neighbors=6).build(X)
    rng = np.random.default_rng(0)
    few = Classes(np.array([75, 225]), np.array([0, 1]), np.arange(2))
    found = np.array(shares(fit_graph_ridge(graph, few, None, GraphRidgeParams(), InProcess(1))))
    assert found.max() < 5 * found.min()
    labeled = np.sort(rng.choice(300, 120, replace=False))
    many = Classes(labeled, np.where(rng.random(120) < 0.1, 1 - y[labeled], y[labeled]), np.arange(2))
    found = np.sort(shares(fit_graph_ridge(graph, many, None, GraphRidgeParams(), InProcess(1))))
    assert found[-3:].sum() > 0.5
    assert found[:5].sum() < 0.05
    assert sum(found) == pytest.approx(1)


def test_functions_are_centered_and_scaled_on_a_sample(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 50)
    X, _ = moons()
    graph = KNNGraph(n_neighbors=6).build(X)
    target = Classes(np.array([75, 225, 10]), np.array([0, 1, 0]), np.arange(2))
    made = graph_members(graph, target, None, GraphRidgeParams(**FAMILY), InProcess(1))
    assert len(made.rows.sample) == 50
    assert_array_equal(made.rows.sample, np.unique(made.rows.sample))
    values = made.average(np.eye(len(made.members))[2]).values[graph.vertices.vertex]
    assert_allclose(values[made.rows.sample].mean(axis=0), 0, atol=1e-9)
    assert values[made.rows.sample].std() == pytest.approx(1)
    other = graph_members(graph, target, None, GraphRidgeParams(**FAMILY, random_state=1), InProcess(1))
    assert not np.array_equal(made.rows.sample, other.rows.sample)


def test_quantities_of_several_columns_come_back_where_the_graph_knows_them():
    X = np.random.default_rng(0).uniform(size=(400, 2))
    f = np.stack([np.sin(3 * X[:, 0]), X[:, 1]], axis=1)
    labeled = np.arange(0, 400, 5)
    graph = KNNGraph(n_neighbors=8).build(X)
    found = fit_graph_ridge(graph, Quantities(labeled, f[labeled]), None, GraphRidgeParams(), InProcess(1))
    rest = np.setdiff1d(np.arange(400), labeled)
    assert 1 - ((found.values - f)[rest] ** 2).sum(0).max() / f[rest].var(0).min() / len(rest) > 0.85
    assert np.abs(found.held_out - f[labeled]).mean() < 0.15


def test_too_many_labels_are_refused_before_the_work():
    X, y = moons()
    graph = KNNGraph(n_neighbors=6).build(X)
    target = Classes(np.arange(300), y, np.arange(2))
    with pytest.raises(BudgetError, match="300 labeled points and 15 kernels"):
        fit_graph_ridge(graph, target, None, GraphRidgeParams(), InProcess(1, 1 << 20))


def test_the_default_family_leaves_out_kernels_of_the_smallest_eigenvalues_alone():
    kernels = GraphRidgeParams().kernels
    assert len(kernels) == 15
    assert (1e-5, 1, True) in kernels
    assert (1e-5, 2, True) not in kernels
    assert GraphRidgeParams(ridge=(1e-5,), power=(3,)).kernels == [(1e-5, 3, True)]


@pytest.mark.parametrize("changes", [
    {"ridge": ()}, {"ridge": (0.0,)}, {"ridge": (np.nan,)}, {"ridge": ("1",)}, {"power": ()}, {"power": (0,)},
    {"power": (1.5,)}, {"by_degree": ()}, {"penalty": 0}, {"penalty": np.nan}, {"penalty": True},
    {"weighting": "best"}])
def test_parameters_are_checked(changes):
    with pytest.raises(ParameterError, match=next(iter(changes))):
        GraphRidgeParams(**changes)
