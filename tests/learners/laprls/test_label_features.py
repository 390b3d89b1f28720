"""The features of labeled points: in the order of their lines, some of which share a point."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.base.errors import BudgetError
from dssl.execution.in_process import InProcess
from dssl.learners.laprls.closed_form import label_features

from .systems import case


@pytest.mark.parametrize("whitening", ["auto", None])
@pytest.mark.parametrize("threads", [1, 2])
def test_features_are_those_of_the_points_of_the_lines(whitening, threads):
    made = case(whitening=whitening)
    assert len(np.unique(made.lines.row)) < len(made.lines.row)
    K = made.K[made.lines.row]
    expected = K if made.system.T is None else K @ made.system.T
    found = label_features(made.system, InProcess(threads))
    assert found.dtype == np.float64
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_features_of_float32_are_rounded_alone():
    made, exact = case(precision="float32"), case(whitening=1e-6)
    assert_allclose(label_features(made.system, made.execution), label_features(exact.system, exact.execution),
                    atol=1e-3)


def test_features_that_do_not_fit_are_refused():
    made = case(m=45)
    with pytest.raises(BudgetError, match="45 labels and 20 landmarks"):
        label_features(made.system, InProcess(1, memory_budget=20_000))
