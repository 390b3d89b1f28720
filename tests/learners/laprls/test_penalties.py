"""Penalties against the mean loss, the paper's, and what "auto" is."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.base.errors import ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.kernels.landmarks import LandmarkParams
from dssl.learners.laprls.params import LabelLines
from dssl.learners.laprls.penalties import Penalties, PenaltyScale, require_penalties
from dssl.learners.laprls.problem import LapRLSParams, LapRLSProblem
from dssl.learners.target.target import Quantities
from dssl.storage.blocks import ArrayRows
from tests import reference


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", "0*auto", "-1*auto", "inf*auto", "median", None, True])
def test_gamma_A_is_positive(value):
    with pytest.raises(ParameterError, match="gamma_A="):
        require_penalties(value, 0.0)


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, "1", "0*auto", "two*auto", None, False])
def test_gamma_I_is_not_negative(value):
    with pytest.raises(ParameterError, match="gamma_I="):
        require_penalties(1.0, value)
    require_penalties(1, 0)
    require_penalties("auto", "1e-3 * auto")


def test_the_scale_of_a_fold_is_that_of_the_labels_that_are_kept():
    system = Penalties(0.5, 3.0, scale=PenaltyScale((6.0, 8.0, 10.0), 20))
    assert (system.lambda_A, system.lambda_I) == (5.0, 3.0 * 10 / 400)
    held_out = Penalties(0.5, 3.0, held_out=1, scale=system.scale)
    assert (held_out.lambda_A, held_out.lambda_I) == (4.0, 3.0 * 8 / 400)
    assert held_out.whole == system
    assert (Penalties(0.5, 3.0, 1).lambda_A, Penalties(0.5, 3.0, 1).lambda_I) == (0.5, 3.0), "the paper's own"


def test_auto_is_a_hundredth_and_a_tenth_in_the_scale_of_the_paper():
    """With weights and copies: w is the sum of the weights, n the points with their copies."""
    lines = LabelLines(np.arange(4), np.array([0, 0, 1, 2]), np.array([1.0, 2.0, 1.0, 0.5]), np.ones((4, 1)), 2)
    vertices = ArrayRows(np.array([1, 3, 1, 1, 2]))
    params = LapRLSParams(gamma_A=("auto", "10*auto"), gamma_I=("auto", 0.0))
    problem = LapRLSProblem(ArrayRows(np.eye(5)), Quantities(lines.row, lines.target), lines, None, params, 8, vertices,
                            names=("model", "base"))
    pairs = problem.candidates["model"]
    assert_allclose([(pair.lambda_A, pair.lambda_I) for pair in pairs], [(0.01, 0.1), (0.01, 0), (0.1, 0.1), (0.1, 0)])
    assert_allclose([pair.gamma_A for pair in pairs], np.repeat([0.01, 0.1], 2) / 4.5)
    assert pairs[0].gamma_I == pytest.approx(0.1 * 64 / 4.5)
    assert pairs[0].scale.weights == (1.5, 3.5, 4.5)
    assert problem.candidates["base"] == [pairs[1], pairs[3]]
    assert len(problem.all_candidates) == 4


def test_weights_that_are_all_larger_change_nothing():
    """The loss is a mean."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=(12, 1))
    params = LapRLSParams(gamma_A=(0.02,), gamma_I=(0.0,), landmarks=LandmarkParams(n_landmarks=1.0))
    values = []
    for weight in (1.0, 7.0):
        problem = LapRLSProblem.of(ArrayRows(X), Quantities(np.arange(12), y), params, InProcess(1),
                                   weight=np.full(12, weight))
        found = problem.prepared(RBF(1.0), InProcess(1), held_out=False).fitted({"model": problem.all_candidates[0]})
        values.append(RBF(1.0)(X, found.models["model"].points) @ found.models["model"].coef)
    assert_allclose(values[0], values[1], atol=1e-9)
    K = reference.rbf(X, X[:12], 1.0)
    expected = K @ np.linalg.solve(K[:12] + 12 * 0.02 * np.eye(12), y - y.mean())
    assert_allclose(values[0], expected, atol=1e-6)
