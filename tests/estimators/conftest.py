"""Fixtures of tests of estimators."""

import numpy as np
import pytest

from dssl.learners.prior_shift import PriorShift


@pytest.fixture
def unmoved(monkeypatch):
    """Leave values as losses fit them, in fits and searches, so that those held out are those of fits without them.

    Intercepts follow from labels held out, which are others in a fit to fewer labels.
    """
    monkeypatch.setattr("dssl.methods.graph.method.shift_of",
                        lambda target, values, coding, at_points, *more: PriorShift(
                            np.zeros(at_points.shape[1])))
    for module in ("deformed.models", "linear", "laprls.steps"):
        monkeypatch.setattr(f"dssl.methods.{module}.with_prior",
                            lambda model, target, held, *others, **more: (model, None, held))
    monkeypatch.setattr("dssl.selection.held_out_scores.HeldOut.with_prior", lambda held, assumed: held)
