"""Known class sizes: bounds, offsets that reach them, the projection on them, cuts, and masses."""

import json
from dataclasses import astuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.datasets import make_moons

from dssl import KNNGraph
from dssl.base.errors import ParameterError
from dssl.execution.in_process import InProcess
from dssl.learners.class_prior import ClassBounds, ClassPrior, class_bounds
from dssl.learners.on_graph.class_sizes import (
    SIZED_LOG_ODDS,
    SIZES_TOL,
    TEMPERATURE,
    SizeProjection,
    balanced,
    cut_of,
    fit_class_sizes,
    log_offsets,
    log_probabilities,
    mass_normalized,
    on_simplex,
)
from dssl.learners.on_graph.laplace_poisson import fit_harmonic, fit_poisson
from dssl.learners.on_graph.model import VertexLabels, VertexValues
from dssl.learners.target.target import Classes
from dssl.solvers.solver_params import SolverParams

NAMES = np.array(["ash", "elm", "oak"])


def test_shares_are_of_sizes_in_order_or_by_name():
    assert_allclose(class_bounds([1, 2, 5], NAMES).shares, [0.125, 0.25, 0.625])
    assert_allclose(class_bounds({"oak": 5, "ash": 1, "elm": 2}, NAMES).shares, [0.125, 0.25, 0.625])
    assert_allclose(class_bounds({3: 0.5, 7: 0.5}, np.array([3, 7])).shares, [0.5, 0.5])


def test_bounds_are_of_sizes_intervals_or_balanced():
    assert_allclose(astuple(class_bounds("balanced", NAMES)), np.full((2, 3), 1 / 3))
    assert_allclose(class_bounds([0.33, 0.33, 0.33], NAMES).shares, 1 / 3)
    assert_allclose(astuple(class_bounds([1, 2, 5], NAMES)), [[0.125, 0.25, 0.625]] * 2)
    assert_allclose(astuple(class_bounds({"oak": (0.5, 0.7), "ash": 0.2, "elm": [0.1, 0.2]}, NAMES)),
                    [[0.2, 0.1, 0.5], [0.2, 0.2, 0.7]])
    assert_allclose(class_bounds([(0, 1), (0.5, 1), (0.5, 1)], NAMES).shares, [0, 0.5, 0.5], atol=1e-8)
    assert_allclose(ClassBounds(np.array([0.0, 0.4]), np.array([0.5, 1.0])).nearest(np.array([0.9, 0.1])), [0.5, 0.5])
    assert_allclose(class_bounds([(0.5, 0.7), 0.2, (0.1, 0.2)], NAMES).shares,
                    [0.5 + 0.2 * 2 / 3, 0.2, 0.1 + 0.1 * 2 / 3])


@pytest.mark.parametrize("prior", [ClassPrior.of("balanced", "class_sizes"),
                                   ClassPrior.of([(0.5, 0.7), 0.2, (0.1, 0.2)], "class_sizes"),
                                   ClassPrior.of({"oak": [0.5, 0.7], "ash": 0.2, "elm": 0.2}, "class_sizes")])
def test_a_prior_of_sizes_is_stored_and_read(prior):
    assert ClassPrior.from_dict(json.loads(json.dumps(prior.to_dict()))) == prior
    assert prior.shares(np.arange(3), NAMES, None).sum() == pytest.approx(1)


@pytest.mark.parametrize(("sizes", "said"), [
    ([(0.5, 0.6), 0.2, 0.2], None), ([(0.6, 0.5), 0.2, 0.2], "pair of shares"),
    ([(0.1, 0.2), 0.2, 0.2], "0.6 at most"), ([(0.5, 0.6), 0.5, 0.2], "1.2 at least"),
    ([(0.5, 0.6), 40, 0.2], "divide counts"), ([(0.5, 0.6, 0.7), 0.2, 0.2], "pair of shares"),
    ([(0.5, 0.6), 0.2], "2 classes, and there are 3"), ({"oak": (0.5, 0.9), "ash": 0.2}, "3 classes")])
def test_what_is_no_interval_is_refused(sizes, said):
    if said is None:
        assert class_bounds(sizes, NAMES).upper[0] == 0.6
        return
    with pytest.raises(ParameterError, match=said):
        class_bounds(sizes, NAMES)


@pytest.mark.parametrize(("sizes", "said"), [
    ([1, 2], "3 classes"), ([1, 2, 0], "3 classes"), ([1, 2, -1], "3 classes"), ([1, 2, np.nan], "3 classes"),
    ([1, 2, np.inf], "3 classes"),
    ([0.2, 0.3, 0.6], "sum to 1.1"), ([[1, 2, 3]], "3 classes"), ({"ash": 1, "elm": 2}, "3 classes"),
    ({"ash": 1, "elm": 2, "oak": 1, "fir": 3}, "fir")])
def test_what_is_not_one_size_a_class_is_refused(sizes, said):
    with pytest.raises(ParameterError, match=said):
        class_bounds(sizes, NAMES)


@given(random_state=st.integers(0, 999), n_classes=st.integers(2, 6), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_softened_predictions_have_the_shares(random_state, n_classes, scale):
    rng = np.random.default_rng(random_state)
    scores, mass = scale * rng.normal(size=(300, n_classes)), rng.integers(0, 4, 300).astype(float)
    shares = rng.dirichlet(5 * np.ones(n_classes))
    found = balanced(scores, shares, mass)
    mean = mass @ scores / mass.sum()
    deviation = np.sqrt((mass @ (scores - mean) ** 2).sum() / mass.sum() / n_classes)
    assert_allclose(mass @ softmax(found / deviation / TEMPERATURE, axis=1) / mass.sum(), shares, atol=1e-3)
    counted = np.bincount(found.argmax(axis=1), mass, n_classes) / mass.sum()
    assert_allclose(counted, shares, atol=0.03)
    moved = found - scores  # an offset a class, of mean 0
    assert_allclose(moved, np.tile(moved[0], (300, 1)), atol=1e-9 * scale)
    assert abs(moved[0].mean()) < 1e-9 * scale
    order = rng.permutation(n_classes)
    assert_allclose(balanced(scores[:, order], shares[order], mass), found[:, order], atol=1e-6 * scale)


def test_scores_that_are_all_equal_stay_finite():
    assert np.isfinite(balanced(np.ones((5, 2)), np.array([0.3, 0.7]), np.ones(5))).all()


def blobs(n=400, far=30):
    """Return points of two clouds, of which the first has a quarter, and some far off; their classes; a graph."""
    rng, first = np.random.default_rng(0), n // 4
    X = np.concatenate([rng.normal(size=(first, 2)), rng.normal((3.5, 0), size=(n - first, 2)),
                        rng.normal(size=(far, 2)) + 1000])
    X[n // 2:n // 2 + 5] = X[first:first + 5]
    return X, np.repeat([0, 1, -1], [first, n - first, far]), KNNGraph(n_neighbors=6).build(X)


def sized(graph, target, lower, upper=None, threads=1):
    scores = fit_poisson(graph, target, None, SolverParams(), InProcess(1))
    labels = VertexLabels.of(graph.vertices, target, target.indicators())
    return fit_class_sizes(graph, scores, labels, ClassBounds(np.array(lower), np.array(upper or lower)),
                           InProcess(threads)), scores


def test_predictions_have_the_sizes_and_what_is_not_reached_stays_zero():
    _, y, graph = blobs()
    target = Classes(np.array([5, 300]), np.array([0, 1]), np.arange(2))
    cut, before = sized(graph, target, [0.25, 0.75])
    vertex = graph.vertices.vertex
    assert_array_equal(cut.reachable, before.reachable)
    assert not cut.values[~cut.reachable].any()
    predicted = cut.values[vertex].argmax(axis=1)[y >= 0]
    assert (predicted == 0).mean() == pytest.approx(0.25, abs=0.02)
    assert (predicted == y[y >= 0]).mean() > 0.95
    assert cut.attributes["class_bounds"] == [[0.25, 0.25], [0.75, 0.75]]
    assert cut.attributes["solver"] == before.attributes["solver"]
    assert cut.attributes["moved_in_last"] < 0.01
    assert_array_equal(cut.values, sized(graph, target, [0.25, 0.75], threads=2)[0].values)


@pytest.mark.parametrize(("lower", "upper", "lower_bound", "upper_bound"), [
    ([0.1, 0.1], [0.9, 0.9], 0.2, 0.3), ([0.4, 0.0], [1.0, 1.0], 0.38, 0.45), ([0.0, 0.0], [0.15, 1.0], 0.1, 0.17)])
def test_predictions_lie_in_the_intervals(lower, upper, lower_bound, upper_bound):
    """Within wide bounds the cut runs between the clouds; narrow ones it meets where they begin."""
    _, y, graph = blobs()
    target = Classes(np.array([5, 300]), np.array([0, 1]), np.arange(2))
    cut, _ = sized(graph, target, lower, upper)
    share = (cut.values[graph.vertices.vertex].argmax(axis=1)[y >= 0] == 0).mean()
    assert lower_bound <= share <= upper_bound


def test_labels_keep_their_classes():
    _, y, graph = blobs()
    labeled = np.arange(0, 400, 10)
    target = Classes(labeled, y[labeled], np.arange(2))
    cut, _ = sized(graph, target, [0.25, 0.75])
    predicted = cut.values[graph.vertices.vertex[labeled]].argmax(axis=1)
    assert (predicted == y[labeled]).mean() > 0.95


def test_a_text_that_is_not_balanced_is_refused():
    with pytest.raises(ParameterError, match="balanced"):
        ClassPrior.of("even", "class_sizes")


def test_duplicates_in_one_vertex_have_the_cut_that_they_have_alone():
    rng = np.random.default_rng(0)
    X, y = make_moons(200, noise=0.15, random_state=0)
    noisy, m = np.eye(2)[y] + rng.normal(scale=0.6, size=(200, 2)), rng.integers(1, 4, 200)
    W = sp.csr_array(KNNGraph(n_neighbors=6, duplicates="keep").build(X).weights())
    one_each = np.repeat(np.arange(200), m)
    apart = sp.csr_array(W[one_each][:, one_each])
    together = sp.csr_array(sp.diags_array(m.astype(float)) @ W @ sp.diags_array(m.astype(float)))
    bounds, first = ClassBounds(np.array([0.4, 0.6]), np.array([0.4, 0.6])), np.unique(one_each, return_index=True)[1]
    whole, labels = np.ones(len(one_each)), np.eye(2)[y[[0, 1]]]
    linear = 0.1 * softmax(noisy, axis=1)
    collapsed = cut_of(together, m.astype(float), m.astype(float), noisy, np.array([0, 1]), labels, bounds, linear)
    labeled = np.flatnonzero(one_each < 2)
    kept = cut_of(apart, whole, whole, noisy[one_each], labeled, labels[one_each[labeled]], bounds,
                  linear[one_each])
    assert collapsed.rounds == kept.rounds
    assert_allclose(collapsed.scores, kept.scores[first], atol=2e-3)


def test_a_cut_is_no_heavier_than_what_it_began_from():
    """Its objective is the weight of the edges between classes."""
    rng = np.random.default_rng(0)
    X, y = make_moons(600, noise=0.1, random_state=0)
    W = KNNGraph(n_neighbors=8, duplicates="keep").build(X).weights()
    noisy = np.eye(2)[y] + rng.normal(scale=0.6, size=(600, 2))
    ones = np.ones(600)
    cut = cut_of(W, ones, ones, noisy, np.array([0, 1]), np.eye(2)[y[:2]],
                 ClassBounds(np.full(2, 0.5), np.full(2, 0.5)), np.zeros((600, 2)))

    def weight_between(scores):
        codes = np.eye(2)[scores.argmax(axis=1)]
        return W.sum() - np.trace(codes.T @ (W @ codes))

    assert weight_between(cut.scores) < 0.2 * weight_between(noisy)
    assert (cut.scores.argmax(axis=1) == y).mean() > 0.97


def test_a_linear_term_draws_points_to_its_class():
    """Where edges say nothing of a point, as between two clouds, the term does."""
    X, y = make_moons(400, noise=0.1, random_state=0)
    W = sp.csr_array(KNNGraph(n_neighbors=8, duplicates="keep").build(X).weights())
    ones, bounds = np.ones(400), ClassBounds(np.zeros(2), np.ones(2))
    wrong = np.eye(2)[1 - y]
    without, strong = (cut_of(W, ones, ones, np.eye(2)[y], np.array([0, 1]), np.eye(2)[y[:2]], bounds, term)
                       for term in (np.zeros((400, 2)), 10 * wrong))
    assert (without.scores.argmax(axis=1) == y).mean() > 0.97
    assert (strong.scores.argmax(axis=1) == 1 - y).mean() > 0.97


@given(random_state=st.integers(0, 999), n_classes=st.integers(2, 6))
def test_log_probabilities_have_the_sizes_and_are_largest_at_the_predicted_classes(random_state, n_classes):
    rng = np.random.default_rng(random_state)
    scores, weight = rng.normal(size=(300, n_classes)), rng.integers(0, 4, 300).astype(float)
    sized = scores + rng.normal(scale=0.3, size=n_classes)
    predicted = sized.argmax(axis=1)
    shares = np.bincount(predicted, weight, n_classes) / weight.sum()
    logs = log_probabilities(2 * scores, sized, ClassBounds(shares, shares), weight)
    assert_allclose(np.exp(logs).sum(axis=1), 1)
    assert_array_equal(logs.argmax(axis=1), predicted)
    same = log_probabilities(2 * scores, logs, ClassBounds(shares, shares), weight)  # of the same predictions
    assert_allclose(same, logs, atol=1e-9)
    alone = 2 * scores + log_offsets(2 * scores, shares, weight)
    assert_allclose(weight @ softmax(alone, axis=1) / weight.sum(), shares, atol=1e-3)
    kept = np.flatnonzero(alone.argmax(axis=1) == predicted)
    alone[kept, predicted[kept]] += SIZED_LOG_ODDS
    assert_allclose(np.exp(logs[kept]), softmax(alone[kept], axis=1), atol=1e-6)


@given(random_state=st.integers(0, 999), n_classes=st.integers(2, 6), exact=st.booleans())
def test_a_projection_is_the_nearest_of_those_with_the_sizes(random_state, n_classes, exact):
    """Its rows lie on the simplex, its sizes in the bounds, and no such point is nearer: the variational inequality."""
    rng = np.random.default_rng(random_state)
    Y, mass = rng.normal(size=(80, n_classes)), rng.integers(1, 4, 80).astype(float)
    shares = rng.dirichlet(5 * np.ones(n_classes))
    lower, upper = (shares, shares) if exact else (0.7 * shares, 1.3 * shares)
    project = SizeProjection(mass, lower * mass.sum(), upper * mass.sum(), np.zeros(n_classes))
    Z = project(Y)
    sizes = mass @ Z / mass.sum()
    assert_allclose(Z.sum(axis=1), 1)
    assert Z.min() >= 0
    assert (np.maximum(lower - sizes, sizes - upper)).max() < 1.1 * SIZES_TOL
    others = rng.dirichlet(np.ones(n_classes), 80)
    feasible = SizeProjection(mass, lower * mass.sum(), upper * mass.sum(), np.zeros(n_classes))(others)
    assert (mass @ ((Y - Z) * (feasible - Z)).sum(axis=1)) < 1e-3 * mass.sum() * np.abs(Y).max()


def test_rows_are_projected_on_the_simplex():
    Y = np.array([[0.2, 0.8, 0.0], [2.0, 0.0, 0.0], [1.0, 1.0, -5.0], [0.0, 0.0, 0.0]])
    assert_allclose(on_simplex(Y), [[0.2, 0.8, 0], [1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-12)


def test_masses_of_classes_are_their_shares():
    *_, graph = blobs()
    target = Classes(np.array([5, 250, 300]), np.array([0, 1, 1]), np.arange(2))
    found = fit_harmonic(graph, target, None, SolverParams(), InProcess(1))
    m = graph.vertices.multiplicity
    scaled = mass_normalized(found, np.array([0.25, 0.75]), m)
    mass = (m * found.reachable) @ scaled.values
    assert_allclose(mass / mass.sum(), [0.25, 0.75])
    assert not scaled.values[~found.reachable].any()
    assert_allclose(scaled.values * found.values.max(axis=0), found.values * scaled.values.max(axis=0), atol=1e-12)


def test_a_class_without_mass_stays_finite():
    found = VertexValues(np.array([[1.0, 0.0], [1.0, 0.0]]), np.ones(2, bool))
    assert np.isfinite(mass_normalized(found, np.array([0.5, 0.5]), np.ones(2)).values).all()
