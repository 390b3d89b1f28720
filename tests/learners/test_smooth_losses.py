"""Losses and their derivatives, against differences of the losses themselves."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import check_grad

from dssl.base.errors import ParameterError
from dssl.learners.losses import (
    HALF_WIDTHS,
    ExpectedSquaredHinge,
    HuberHinge,
    SmoothLoss,
    Squared,
    smooth_loss,
)
from dssl.learners.losses import (
    LOSSES as REGISTERED,
)

LOSSES = [*(loss() for loss in REGISTERED.classes() if issubclass(loss, SmoothLoss)), HuberHinge(0.5),
          ExpectedSquaredHinge()]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@given(f=st.floats(-30, 30), sign=st.sampled_from([-1.0, 1.0]))
def test_derivatives_are_those_of_the_loss(loss, f, sign):
    corners = [1.0, *(sign * (1 + side * getattr(loss, "h", 0.0)) for side in (-1, 1)), -1.0]
    assume(min(abs(f - corner) for corner in corners) > 1e-4)
    y, at = np.array([sign]), np.array([f])
    assert check_grad(lambda x: float(loss.value(x, y)[0]), lambda x: loss.gradient(x, y), at) < 1e-4
    assert check_grad(lambda x: float(loss.gradient(x, y)[0]), lambda x: loss.curvature(x, y), at) < 1e-4
    assert loss.curvature(at, y)[0] >= 0
    assert loss.value(at, y)[0] >= 0


@pytest.mark.parametrize("loss", [*LOSSES, *map(HuberHinge, HALF_WIDTHS)], ids=str)
def test_far_values_are_no_trouble(loss: SmoothLoss):
    f, y = np.array([-1e6, 1e6, 0.0]), np.array([1.0, 1.0, -1.0])
    for found in (loss.value(f, y), loss.gradient(f, y), loss.curvature(f, y)):
        assert found.shape == f.shape
        assert np.isfinite(found).all()


def test_the_rounded_hinge_becomes_the_hinge():
    f = np.linspace(-3, 3, 1001)
    assert np.abs(HuberHinge(1e-4).value(f, np.ones(1001)) - np.maximum(0, 1 - f)).max() <= 1e-4 / 4 + 1e-12


def test_a_narrow_corner_is_reached_by_wider_ones():
    widths = [loss.h for loss in HuberHinge(0.01).steps]
    assert widths[-1] == 0.01
    assert widths == sorted(widths, reverse=True)
    assert widths[0] >= 0.25
    assert Squared().steps == (Squared(),)


@pytest.mark.parametrize(("name", "h"), [("hinge", 0.01), *(
    ("huber_hinge", h) for h in (0.0, float("nan"), 1e-300, 1e160, 1e308, float("inf"), True))])
def test_what_is_no_loss_is_refused(name, h):
    with pytest.raises(ParameterError):
        smooth_loss(name, h)
