"""Penalties that are chosen: what pairs count for before labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.base.errors import ParameterError
from dssl.kernels.base import Linear
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
)

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
