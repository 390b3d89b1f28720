"""The shift of scores to the class frequencies, and when the highest score is predicted instead."""

import numpy as np
from numpy.testing import assert_allclose

from dssl.learners.class_prior import LABELS, ClassPrior
from dssl.learners.prior_shift import prior_shift
from dssl.learners.target.coding import Scores
from dssl.learners.target.target import Classes


def misjudged(n, prior=LABELS):
    """Return a target of unequal classes and held-out scores (n, 2), whose sign is nearly always right, not their size.

    One class has scores near 0 or far from it, the other near 0 but for a few on the far side: these make the slope
    small, so that the likelihood moves the boundary away from 0.
    """
    rng = np.random.default_rng(0)
    codes = (np.arange(n) % 4 != 0).astype(np.int64)
    others = np.where(rng.random(n) < 0.03, 3.0, -0.05 - 0.1 * rng.random(n))
    margin = np.where(codes == 1, rng.choice([0.02, 4.0], n, p=[0.1, 0.9]), others)
    target = Classes(np.arange(n), codes, np.arange(2))
    return target.with_prior(prior), np.column_stack([-margin, margin]), codes


def errors(values, codes):
    return int((values.argmax(axis=1) != codes).sum())


def test_many_labels_overrule_the_most_probable_class():
    target, values, codes = misjudged(2000)
    shift = prior_shift(target, values, Scores(target.names), None, LABELS)
    assert errors(values, codes) < 50
    assert_allclose(shift.columns, 0, atol=1e-12)
    likely = shift.calibration.probabilities(values)
    assert errors(likely, codes) > 100, "probabilities stay those of the calibration"


def test_few_labels_do_not():
    target, values, _ = misjudged(40)
    assert np.ptp(prior_shift(target, values, Scores(target.names), None, LABELS).columns) > 0


def test_given_frequencies_are_not_overruled():
    target, values, _ = misjudged(2000, ClassPrior.of({0: 0.9, 1: 0.1}))
    assert np.ptp(prior_shift(target, values, Scores(target.names), None, LABELS).columns) > 0


def test_labels_without_weight_do_not_overrule():
    target, values, _ = misjudged(2000)
    weight = np.where(np.arange(2000) < 16, 1.0, 1e-9)
    assert np.ptp(prior_shift(target, values, Scores(target.names), weight, LABELS).columns) > 0
