"""From rows and labels to a deformed kernel: the draw, the covariance, the deformation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.blocks import ArrayRows
from dssl.errors import DataError, ParameterError
from dssl.execution import InProcess
from dssl.graph.neighbors import NeighborParams
from dssl.graph.regularizer import RegularizerParams
from dssl.graph.weights import WeightParams
from dssl.kernels.base import RBF
from dssl.models.graph_kernel import GraphKernelParams, deform, draw_subsample, graph_covariance, shuffled
from tests import reference


@given(st.data())
def test_the_subsample_holds_the_labeled_points_and_others(data):
    n = data.draw(st.integers(1, 60))
    labeled = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))), np.int64)
    size, seed = data.draw(st.integers(1, 80)), data.draw(st.integers(0, 5))
    chosen = draw_subsample(labeled, n, size, seed)
    assert len(chosen) == min(size, n)
    assert len(set(chosen.tolist())) == len(chosen)
    assert set(chosen.tolist()) <= set(range(n))
    shared = set(chosen.tolist()) & set(labeled.tolist())
    assert len(shared) == min(size, len(labeled))
    assert_array_equal(draw_subsample(labeled, n, size, seed), chosen)


def test_the_draw_depends_on_the_seed_and_has_a_size():
    labeled = np.array([3, 1])
    assert_array_equal(draw_subsample(labeled, 50, 10, 0)[:2], [1, 3])
    assert set(draw_subsample(labeled, 50, 10, 0).tolist()) != set(draw_subsample(labeled, 50, 10, 1).tolist())
    with pytest.raises(ParameterError, match="n_subsample=0"):
        draw_subsample(labeled, 50, 0, 0)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_the_covariance_is_the_inverse_regularizer_on_the_subsample(power):
    X = np.random.default_rng(0).normal(size=(50, 3))
    params = GraphKernelParams(
        neighbors=NeighborParams(n_neighbors=4), weights=WeightParams(kind="binary"),
        regularizer=RegularizerParams(ridge=0.05, power=power), n_subsample=12, seed=2)
    found = graph_covariance(ArrayRows(X), np.array([5, 9]), params, InProcess(2))
    L = reference.normalized_laplacian(reference.knn_weights(X, 5))
    inverse = np.linalg.inv(reference.regularizer(L, power, 0.05))
    assert {5, 9} < set(found.subsample.tolist())
    assert_allclose(found.powers[power], inverse[np.ix_(found.subsample, found.subsample)], rtol=1e-5, atol=1e-8)


def test_too_few_points_for_their_neighbors():
    with pytest.raises(DataError, match="10 points and n_neighbors=10"):
        graph_covariance(ArrayRows(np.zeros((10, 2))), np.array([0]), GraphKernelParams(), InProcess(1))


def test_eta_is_relative_to_the_covariance():
    """The kernel does not change when A is multiplied by a number: it says how points relate, not how much."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(8, 2)), rng.normal(size=(5, 2))
    A = np.cov(rng.normal(size=(8, 30)))
    first, second = (deform(RBF(1.0), X, scale * A, 3.0)(new, X) for scale in (1.0, 1e6))
    assert_allclose(second, first, rtol=1e-9, atol=1e-12)
    Q = np.linalg.inv(A)
    K, K_new = reference.rbf(X, X, 1.0), reference.rbf(new, X, 1.0)
    assert_allclose(first, reference.deformed(K, 3.0 * np.trace(A) / 8, Q, K_new.T, K, K_new), atol=1e-9)
    assert_array_equal(deform(RBF(1.0), X, A, 0.0)(new, X), RBF(1.0)(new, X))


def test_a_shuffled_covariance_is_the_same_graph_at_other_points():
    A = np.cov(np.random.default_rng(0).normal(size=(8, 30)))
    other = shuffled(A, 0)
    assert not np.allclose(other, A)
    assert_allclose(np.linalg.eigvalsh(other), np.linalg.eigvalsh(A), rtol=1e-10)
    assert_allclose(np.sort(np.diagonal(other)), np.sort(np.diagonal(A)))
    assert_array_equal(other, shuffled(A, 0))
