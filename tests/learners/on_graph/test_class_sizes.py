"""Class sizes that are told: offsets that reach them, diffusion that ends, and masses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from dssl import KNNGraph
from dssl.base.errors import ParameterError
from dssl.execution.in_process import InProcess
from dssl.learners.on_graph.class_sizes import (
    MOST_DIFFUSIONS,
    TEMPERATURE,
    balanced,
    class_shares,
    fit_class_sizes,
    mass_normalized,
)
from dssl.learners.on_graph.harmonic import fit_harmonic
from dssl.learners.on_graph.poisson import fit_poisson
from dssl.learners.on_graph.vertex_labels import VertexLabels, VertexValues
from dssl.learners.target.target import Classes
from dssl.solvers.solver_params import SolverParams

NAMES = np.array(["ash", "elm", "oak"])


def test_shares_are_of_sizes_in_order_or_by_name():
    assert_allclose(class_shares([1, 2, 5], NAMES), [0.125, 0.25, 0.625])
    assert_allclose(class_shares({"oak": 5, "ash": 1, "elm": 2}, NAMES), [0.125, 0.25, 0.625])
    assert_allclose(class_shares({3: 0.5, 7: 0.5}, np.array([3, 7])), [0.5, 0.5])


@pytest.mark.parametrize(("sizes", "said"), [
    ([1, 2], "3 classes"), ([1, 2, 0], "3 classes"), ([1, 2, -1], "3 classes"), ([1, 2, np.nan], "3 classes"),
    ([1, 2, np.inf], "3 classes"), ([[1, 2, 3]], "3 classes"), ({"ash": 1, "elm": 2}, "3 classes"),
    ({"ash": 1, "elm": 2, "oak": 1, "fir": 3}, "fir")])
def test_what_is_not_one_size_a_class_is_refused(sizes, said):
    with pytest.raises(ParameterError, match=said):
        class_shares(sizes, NAMES)


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


def sized(graph, target, shares, diffuse, threads=1):
    found = fit_poisson(graph, target, None, SolverParams(), InProcess(1))
    labels = VertexLabels.of(graph.vertices, target, target.indicators())
    return fit_class_sizes(graph, found, labels, shares, diffuse=diffuse, kind="normalized", solver=SolverParams(),
                           execution=InProcess(threads)), found


@pytest.mark.parametrize("diffuse", [False, True])
def test_predictions_have_the_sizes_and_what_is_not_reached_stays_zero(diffuse):
    _, y, graph = blobs()
    target = Classes(np.array([5, 300]), np.array([0, 1]), np.arange(2))
    found, before = sized(graph, target, np.array([0.25, 0.75]), diffuse)
    vertex = graph.vertices.vertex
    assert_array_equal(found.reached, before.reached)
    assert not found.values[~found.reached].any()
    predicted = found.values[vertex].argmax(axis=1)[y >= 0]
    assert (predicted == 0).mean() == pytest.approx(0.25, abs=0.02)
    assert (predicted == y[y >= 0]).mean() > 0.95
    assert found.attributes["class_shares"] == [0.25, 0.75]
    assert found.attributes["solver"] == before.attributes["solver"]


def test_diffusion_ends_and_does_not_depend_on_threads():
    *_, graph = blobs()
    target = Classes(np.array([5, 300]), np.array([0, 1]), np.arange(2))
    found, _ = sized(graph, target, np.array([0.25, 0.75]), diffuse=True)
    assert found.attributes["changed_in_last"] == 0
    assert 1 <= found.attributes["diffusions"] < MOST_DIFFUSIONS
    assert_array_equal(found.values, sized(graph, target, np.array([0.25, 0.75]), True, 2)[0].values)


def test_labels_are_kept_in_the_diffusion():
    """Each labeled vertex keeps its class in what diffuses, so it ends with it where neighbors do not outweigh it."""
    _, y, graph = blobs()
    labeled = np.arange(0, 400, 10)
    target = Classes(labeled, y[labeled], np.arange(2))
    found, _ = sized(graph, target, np.array([0.25, 0.75]), diffuse=True)
    predicted = found.values[graph.vertices.vertex[labeled]].argmax(axis=1)
    assert (predicted == y[labeled]).mean() > 0.95


def test_masses_of_classes_are_their_shares():
    *_, graph = blobs()
    target = Classes(np.array([5, 250, 300]), np.array([0, 1, 1]), np.arange(2))
    found = fit_harmonic(graph, target, None, SolverParams(), InProcess(1))
    m = graph.vertices.multiplicity
    scaled = mass_normalized(found, np.array([0.25, 0.75]), m)
    mass = (m * found.reached) @ scaled.values
    assert_allclose(mass / mass.sum(), [0.25, 0.75])
    assert not scaled.values[~found.reached].any()
    assert_allclose(scaled.values * found.values.max(axis=0), found.values * scaled.values.max(axis=0), atol=1e-12)


def test_a_class_without_mass_stays_finite():
    found = VertexValues(np.array([[1.0, 0.0], [1.0, 0.0]]), np.ones(2, bool))
    assert np.isfinite(mass_normalized(found, np.array([0.5, 0.5]), np.ones(2)).values).all()
