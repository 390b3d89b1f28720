"""Harmonic functions and Poisson learning: against the dense formulas, on graphs in any pieces, and for copies."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl import KNNGraph
from dssl.base.errors import NotConverged
from dssl.execution.in_process import InProcess
from dssl.learners.on_graph.held_out import (
    BLOCK_COLUMNS,
    COLUMN_BYTES,
    columns_at_once,
    held_out_harmonic,
    held_out_poisson,
)
from dssl.learners.on_graph.laplace_poisson import OneClass, Sources, Unlabeled, fit_harmonic, fit_poisson
from dssl.learners.on_graph.model import VertexLabels
from dssl.learners.target.target import Classes, Quantities
from dssl.solvers.solver_params import SolverParams

from ... import reference
from .problems import graph_of_weights, ones_unless, problems, random_weights

EXACT = SolverParams(tol=1e-12)


def fit(learner, W, target, weight=None, solver=EXACT, execution=None):
    return learner(graph_of_weights(W), target, weight, solver, execution or InProcess(1))


def reachable(W, labeled):
    of = reference.components(W)
    return np.isin(of, of[labeled])


@given(problems())
def test_harmonic_functions_of_classes_are_the_dense_solve(problem):
    W, target, weight = problem
    found = fit(fit_harmonic, W, target, weight)
    assert_allclose(found.values, reference.harmonic(W, target.labeled, target.indicators()), atol=1e-9)
    assert_array_equal(found.reachable, reachable(W, target.labeled))
    assert found.values.min() >= -1e-9
    assert_allclose(found.values[found.reachable].sum(axis=1), 1, atol=1e-9)  # shares of classes
    assert not found.values[~found.reachable].any()


@given(problems(classes=False))
def test_harmonic_functions_of_quantities_are_the_dense_solve_and_stay_between_them(problem):
    W, target, weight = problem
    found = fit(fit_harmonic, W, target, weight)
    assert_allclose(found.values, reference.harmonic(W, target.labeled, target.columns()), atol=1e-9)
    low, high = target.columns().min(axis=0), target.columns().max(axis=0)
    assert ((found.values >= low - 1e-9) & (found.values <= high + 1e-9))[found.reachable].all()


@given(problems())
def test_poisson_potentials_are_the_pseudo_inverse_on_every_component(problem):
    W, target, weight = problem
    found = fit(fit_poisson, W, target, weight)
    expected = reference.poisson(W, target.labeled, target.indicators(), ones_unless(weight, target))
    assert_allclose(found.values, expected, atol=1e-8 * max(1, np.abs(expected).max()))
    assert_array_equal(found.reachable, reachable(W, target.labeled))


def test_poisson_learning_does_not_turn_to_one_class_as_labels_grow():
    """Labels of points that few edges connect with the others have potentials which move the mean of all."""
    rng, y = np.random.default_rng(4), np.arange(300) % 2
    X = rng.standard_t(2, size=(300, 4))
    X[:, 0] = np.where(y == 1, 2 + X[:, 0] / 5, X[:, 0])
    labeled = np.sort(np.concatenate([rng.permutation(np.flatnonzero(y == k))[:50] for k in (0, 1)]))
    free = np.setdiff1d(np.arange(300), labeled)
    graph = KNNGraph(n_neighbors=5).build(X, scale="none")
    found = fit_poisson(graph, Classes(labeled, y[labeled], np.arange(2)), None, SolverParams(), InProcess(1))
    codes = found.values[graph.vertices.vertex].argmax(axis=1)
    assert 0.4 < codes[free].mean() < 0.65
    assert (codes != y)[free].mean() < 0.25  # it was 0.5


@pytest.mark.parametrize("weak", [1e-9, 1e-11])
def test_parts_that_hardly_hold_together_are_each_its_commonest_class(weak):
    """The potentials of the two parts differ by the sources over the weak edge, more than floats can tell."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(400, 2)), rng.normal(size=(400, 2)) + 100])
    W = KNNGraph(n_neighbors=8).build(X, scale="none").weights().tolil()
    W[0, 400] = W[400, 0] = weak
    labeled = np.arange(0, 800, 2)
    y = (X[labeled, 0] > np.where(labeled < 400, 0.7, 99.3)).astype(int)
    found = fit_poisson(graph_of_weights(W), Classes(labeled, y, np.arange(2)), None, SolverParams(), InProcess(1))
    assert np.isfinite(found.values).all()
    assert found.reachable.all()
    shares = found.values.argmax(axis=1).reshape(2, 400).mean(axis=1)
    assert shares[0] < 0.1
    assert shares[1] > 0.9


def test_one_class_nearly_everywhere_is_a_warning():
    W = np.zeros((105, 105))
    for start, stop in ((0, 100), (100, 105)):  # a class of few points
        own = np.arange(start, stop)
        for step in (1, 2):
            W[own, start + (own - start + step) % (stop - start)] = 1
    W = W + W.T
    W[0, 100] = W[100, 0] = 0.01
    target = Classes(np.array([10, 60, 103, 104]), np.array([0, 0, 1, 1]), np.array(["a", "b"]))
    with pytest.warns(OneClass, match=r"9[5-8].0% of the unlabeled points are predicted 'a', which 50% of the labels"):
        fit(fit_poisson, W, target, solver=SolverParams())


@pytest.mark.parametrize("learner", [fit_harmonic, fit_poisson])
@given(problem=problems(), random_state=st.integers(0, 99))
@pytest.mark.extended_cases("fit_poisson")
def test_the_order_of_points_and_of_classes_does_not_matter(learner, problem, random_state):
    W, target, weight = problem
    rng = np.random.default_rng(random_state)
    points, names = rng.permutation(len(W)), rng.permutation(len(target.names))
    place = np.argsort(points)
    moved = Classes(place[target.labeled], names[target.coded], target.names)
    order = np.argsort(moved.labeled)
    own = None if weight is None else weight[order]
    found = fit(learner, W[np.ix_(points, points)], moved.take(order), own).values
    expected = fit(learner, W, target, weight).values
    assert_allclose(found[:, names], expected[points], atol=1e-8 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("learner", [fit_harmonic, fit_poisson])
def test_one_label_a_class_on_a_path_of_three(learner):
    W = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0.0]])
    found = fit(learner, W, Classes(np.array([0, 2]), np.array([0, 1]), np.array(["a", "b"]))).values
    assert_allclose(found[1, 0], found[1, 1], atol=1e-12)
    assert (found[[0, 2]].argmax(axis=1) == [0, 1]).all()


@pytest.mark.parametrize("learner", [fit_harmonic, fit_poisson])
def test_components_of_one_class_and_of_none(learner):
    """Three pieces: labels of two classes, labels of one, no label; and an isolated point with a label."""
    rng = np.random.default_rng(0)
    W = np.zeros((31, 31))
    for start in (0, 10, 20):
        W[start:start + 10, start:start + 10] = random_weights(rng, [10])
    target = Classes(np.array([0, 5, 11, 14, 30]), np.array([0, 1, 1, 1, 0]), np.arange(2))
    found = fit(learner, W, target)
    assert_array_equal(np.flatnonzero(~found.reachable), np.arange(20, 30))
    assert not found.values[20:30].any()
    assert_allclose(found.values[10:20], np.tile([0.0, 1.0], (10, 1)), atol=1e-9)
    assert_allclose(found.values[30], [1, 0])


class Counted(np.ndarray):
    """Numbers of which it is counted how many enter elementwise operations."""

    entries = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        Counted.entries += max(np.size(one) for one in inputs)
        if out is not None:
            options["out"] = tuple(map(np.asarray, out))
        return getattr(ufunc, method)(*map(np.asarray, inputs), **options)


def test_the_work_of_poisson_scores_does_not_grow_with_components_times_vertices():
    """Each of 140 components of 30 vertices has a label of either class; its vertices are looked at a few times."""
    count, size = 140, 30
    component = np.repeat(np.arange(count), size)
    vertex = (np.arange(count)[:, None] * size + [0, 1]).ravel()
    indicators = np.tile(np.eye(2), (count, 1))
    sources = Sources.of(VertexLabels(vertex, np.arange(2 * count), np.ones(2 * count), indicators), component)
    potentials = np.random.default_rng(0).normal(size=(count * size, 2))
    Counted.entries = 0
    unlabeled = Unlabeled.of(vertex, component.view(Counted))
    scores = sources.scores(potentials, component.view(Counted), potentials[unlabeled.vertex], unlabeled.component)
    assert Counted.entries < 20 * len(component)
    own = slice(7 * size, 8 * size)
    alone = Sources(sources.source[14:16], sources.mean[7:8]).scores(
        potentials[own], np.zeros(size, int), potentials[own][2:], np.zeros(size - 2, int))
    assert_array_equal(unlabeled.vertex[unlabeled.component == 7], np.arange(7 * size + 2, 8 * size))
    assert_array_equal(scores[own], alone)


@pytest.mark.parametrize("learner", [fit_harmonic, fit_poisson])
def test_every_point_labeled(learner):
    W = random_weights(np.random.default_rng(1), [6])
    target = Classes(np.arange(6), np.array([0, 1, 2, 0, 1, 2]), np.arange(3))
    expected = reference.poisson if learner is fit_poisson else None
    found = fit(learner, W, target).values
    assert_allclose(found, target.indicators() if expected is None else expected(
        W, target.labeled, target.indicators(), np.ones(6)), atol=1e-9)


def copied(n=60, copies=12):
    """Return points of which the last are copies of the first, and a target that labels copies alike."""
    X = np.random.default_rng(2).normal(size=(n, 3))
    return np.concatenate([X, X[:copies]]), n


@pytest.mark.parametrize("learner", [fit_harmonic, fit_poisson])
def test_labels_of_copies_are_one_label_of_their_weight(learner):
    X, n = copied()
    graph = KNNGraph(n_neighbors=5).build(X)
    assert len(graph.vertices) == n
    both = Classes(np.array([0, 1, 20, 30, n, n + 1]), np.array([0, 1, 2, 1, 0, 1]), np.arange(3))
    once = both.take(np.arange(4))
    found = learner(graph, both, None, EXACT, InProcess(1))
    expected = learner(graph, once, np.array([2.0, 2, 1, 1]), EXACT, InProcess(1))
    assert_allclose(found.values, expected.values, atol=1e-9)
    joint = graph.weights().toarray() * np.outer(graph.vertices.multiplicity, graph.vertices.multiplicity)
    rows = graph.vertices.vertex[once.labeled]
    dense = reference.poisson(joint, rows, once.indicators(), np.array([2.0, 2, 1, 1])) if learner is fit_poisson else (
        reference.harmonic(joint, rows, once.indicators()))
    assert_allclose(found.values, dense, atol=1e-9)


def test_copies_of_unlike_labels_have_their_weighted_mean():
    X, n = copied()
    graph = KNNGraph(n_neighbors=5).build(X)
    target = Classes(np.array([3, 20, n + 3]), np.array([0, 1, 1]), np.arange(2))
    values = fit_harmonic(graph, target, np.array([3.0, 1, 1]), EXACT, InProcess(1)).values
    assert_allclose(values[graph.vertices.vertex[3]], [0.75, 0.25])
    quantities = Quantities(target.labeled, np.array([1.0, 0.0, 5.0]))
    values = fit_harmonic(graph, quantities, np.array([3.0, 1, 1]), EXACT, InProcess(1)).values
    assert_allclose(values[graph.vertices.vertex[3]], [2.0])


@pytest.mark.parametrize("learner", [fit_harmonic, fit_poisson])
@pytest.mark.slow_cases("fit_harmonic")
def test_a_graph_too_large_to_factor_has_the_same_solution(learner):
    """Gauss-Seidel and what follows it; bits do not depend on threads."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(1800, 3)), rng.normal(size=(1700, 3)) + 4, 30 + rng.normal(size=(50, 3))])
    graph = KNNGraph(n_neighbors=6).build(X)
    target = Classes(np.array([0, 7, 1800, 1900, 2500]), np.array([0, 0, 1, 1, 2]), np.arange(3))
    found = learner(graph, target, None, SolverParams(tol=1e-9), InProcess(1))
    again = learner(graph, target, None, SolverParams(tol=1e-9), InProcess(2))
    assert_array_equal(found.values, again.values)
    direct = learner(graph, target, None, SolverParams(tol=1e-9, method="direct"), InProcess(1))
    assert_allclose(found.values, direct.values, atol=1e-6 * np.abs(direct.values).max())
    assert found.attributes["solver"]["residual"] <= 1e-9
    assert not found.reachable[3500:].any()


@pytest.mark.parametrize("kind", ["classes", "classes by Poisson", "quantities"])
@pytest.mark.extended_cases("classes by Poisson")
def test_a_graph_that_grew_is_fitted_sooner_from_its_values_before(kind):
    """The same function within the tolerance. Poisson scores are multiples of what is solved for, and shifted."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4040, 4))
    X[::2, 0] += 3
    labeled = np.sort(rng.choice(4000, 60, replace=False))
    target = (Quantities(labeled, 1e90 * X[labeled, :1]) if kind == "quantities" else
              Classes(labeled, (labeled + 1) % 2, np.arange(2)))
    learner, solver = fit_poisson if "Poisson" in kind else fit_harmonic, SolverParams(method="gauss_seidel", tol=1e-8)
    before, after = (KNNGraph(n_neighbors=8, duplicates="keep").build(X[:n], scale="none") for n in (4000, 4040))
    start = learner(before, target, None, solver, InProcess(1)).values
    cold = learner(after, target, None, solver, InProcess(1))
    warm = learner(after, target, None, solver, InProcess(1), start)
    assert_allclose(warm.values, cold.values, atol=1e-5 * np.abs(cold.values).max())
    assert warm.attributes["solver"]["residual"] <= 1e-8
    assert warm.attributes["solver"]["iterations"] < cold.attributes["solver"]["iterations"]


@pytest.mark.parametrize("learner", [fit_harmonic, fit_poisson])
def test_what_does_not_converge_is_an_error(learner):
    graph = KNNGraph(n_neighbors=2).build(np.linspace(0, 1, 3500)[:, None])
    target = Classes(np.array([0, 3000]), np.array([0, 1]), np.arange(2))
    with pytest.raises(NotConverged, match="max_iter"):
        learner(graph, target, None, replace(EXACT, method="gauss_seidel", max_iter=5), InProcess(1))


@pytest.mark.parametrize("held_out", [held_out_harmonic, held_out_poisson])
def test_values_held_out_are_solved_in_as_many_columns_as_the_budget_lets_be(held_out, monkeypatch):
    rng = np.random.default_rng(0)
    graph, codes = graph_of_weights(random_weights(rng, [60])), np.arange(12) % 3
    target = Classes(np.sort(rng.choice(60, 12, replace=False)), codes, np.arange(3))
    folds, solved = [[np.array([i]) for i in range(12)]], []

    def counted(n, memory_budget):
        solved.append(columns_at_once(n, memory_budget))
        return solved[-1]

    monkeypatch.setattr("dssl.learners.on_graph.held_out.columns_at_once", counted)
    whole, few = (held_out(graph, target, None, folds, EXACT, InProcess(memory_budget=budget))[0].values
                  for budget in (2**30, 60 * COLUMN_BYTES * 2 * 5))
    assert solved == [BLOCK_COLUMNS, 5]
    assert_allclose(few, whole, atol=1e-9)
    assert columns_at_once(10**9, 2**20) == 1
