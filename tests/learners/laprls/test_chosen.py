"""Penalties: against the mean loss, what "auto" is, and those that are chosen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.base.errors import ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF, Linear
from dssl.kernels.landmarks import LandmarkParams
from dssl.learners.laprls.params import LabelLines
from dssl.learners.laprls.penalties import (
    CHOSEN,
    EVEN,
    UNKNOWN,
    USUAL_CONCENTRATION,
    VALUES,
    Penalties,
    PenaltyScale,
    bandwidth_candidates,
    log_priors,
    log_priors_of_bandwidths,
    penalty_candidates,
    require_penalties,
)
from dssl.learners.laprls.problem import LapRLSParams, LapRLSProblem
from dssl.learners.target.target import Quantities
from dssl.storage.blocks import ArrayRows
from tests import reference

SCALE = PenaltyScale((40.0,), 300)
PAIRS = [Penalties(SCALE.number("gamma_A", of_norm), SCALE.number("gamma_I", of_graph), scale=SCALE)
         for of_norm in VALUES["gamma_A"] for of_graph in VALUES["gamma_I"]]
BASE = np.array([pair.gamma_I == 0 for pair in PAIRS])


def test_the_word_stands_for_values_and_all_else_for_itself():
    assert penalty_candidates("gamma_A", CHOSEN) == ("10*auto", "auto")
    assert penalty_candidates("gamma_I", CHOSEN) == (0.0, "auto", "10*auto")
    assert penalty_candidates("gamma_I", "10*auto") == ("10*auto",)
    assert penalty_candidates("gamma_A", 0.3) == (0.3,)


def test_bandwidths_are_chosen_of_named_kernels_that_have_one():
    for kernel in ("rbf", "laplacian"):
        assert bandwidth_candidates(kernel, CHOSEN) == ("0.5*median", "2*median")
    for kernel in ("linear", "cosine", Linear()):
        assert bandwidth_candidates(kernel, CHOSEN) == (None,)
    for given in ("0.5*median", 3.0, None):
        assert bandwidth_candidates("rbf", given) == (given,)
    with pytest.raises(ParameterError, match="there is no kernel named"):
        bandwidth_candidates("rfb", CHOSEN)


@pytest.mark.parametrize("concentration", [1.0, 5.0, 30.0])
def test_priors_are_those_of_the_docstring(concentration):
    ratio = np.array([1.0, 10.0, 10.0, 100.0])  # of 10*auto with auto and 10*auto, and auto with both
    weight = (concentration / 25)**np.log10(ratio / 10)
    expected = np.array([(5 / concentration)**2 / 2, *weight[:2] / weight.sum(),
                         (5 / concentration)**2 / 2, *weight[2:] / weight.sum()])
    assert_allclose(np.exp(log_priors(PAIRS, concentration)), expected)


def test_base_kernel_and_graph_count_alike_where_the_structure_says_so():
    priors = np.exp(log_priors(PAIRS, EVEN))
    assert priors[BASE].sum() == pytest.approx(1)
    assert priors[~BASE].sum() == pytest.approx(1)
    assert_allclose(np.exp(log_priors(PAIRS, USUAL_CONCENTRATION))[~BASE], 0.25)


def test_of_an_unknown_structure_all_weights_of_the_graph_count_alike():
    priors = np.exp(log_priors(PAIRS, None))
    assert_allclose(priors, np.where(BASE, UNKNOWN / 2, 0.25))


def test_a_wider_kernel_counts_less_the_more_structure_there_is():
    for concentration, share in ((1.0, 1.0), (EVEN, 1.0), (10.0, 0.5), (50.0, 0.1), (None, UNKNOWN), (0.0, 1.0)):
        assert_allclose(np.exp(log_priors_of_bandwidths(concentration)), [1, share])


def test_pairs_of_one_kind_count_for_all_of_it_and_no_structure_is_finite():
    assert np.exp(log_priors([PAIRS[0]], 10.0)).sum() == pytest.approx(0.25)
    assert np.exp(log_priors([PAIRS[1]], 10.0)).sum() == pytest.approx(1)
    assert np.isfinite(log_priors(PAIRS, 0.0)).all()


# Penalties against the mean loss, the paper's, and what "auto" is


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
