"""Scores of predictions, and whether one model is better than another."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import ttest_rel
from sklearn import metrics

from dssl.learners.probabilities import Calibration, calibration_attributes
from dssl.learners.target.coding import OneVsOne, OneVsRest
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.comparison import paired_t, unlabeled_verdict
from dssl.selection.scores import (
    constant_baseline,
    in_defined_scoring,
    margin_columns,
    margins_and_probabilities,
    scored_bytes,
    scores_of,
)
from tests.memory import traced_peak


def test_one_column_of_two_classes_is_that_of_the_second():
    values, codes, coding = np.array([[0.5], [-2.0]]), np.array([1, 0]), OneVsRest(np.array(["a", "b"]))
    for columns in (values, np.hstack([-values, values])):
        actual = coding.predictions(columns, codes)
        assert actual["codes"].tolist() == [1, 0]
        assert_allclose(actual["code_errors"], [0.25, 1.0])


def verdict(true, **predicted):
    return unlabeled_verdict(Quantities(np.arange(len(true)), true),
                             {name: {"values": values} for name, values in predicted.items()})


def test_the_verdict_on_quantities():
    true = np.arange(50.0)
    noise = np.random.default_rng(0).normal(size=50)
    near, far = true + 0.1 * noise, true + 3 * noise
    actual = verdict(true, model=near, base=far, shuffled=far)
    assert actual["unlabeled_data"] == "helped"
    assert actual["over_base"]["gain"] > 0
    assert verdict(true, model=far, base=near, shuffled=far)["unlabeled_data"] == "hurt"
    assert verdict(true, model=near, base=far, shuffled=near)["unlabeled_data"] == "no clear difference"
    alone = verdict(true[:1], model=near[:1], base=far[:1], shuffled=far[:1])
    assert alone["over_base"]["p_value"] == 1.0
    assert verdict(true, model=true + 1, base=true + 2, shuffled=true + 2)["over_base"]["gain"] == 1.0


def test_differences_of_rounding_are_none():
    true = np.full(40, 3.5)
    item, base = true + 4e-16, true + 9e-16 * np.arange(40) % 2e-15
    actual = verdict(true, model=item, base=base)
    assert (actual["over_base"]["gain"], actual["over_base"]["p_value"]) == (0.0, 1.0)
    assert actual["unlabeled_data"] == "no clear difference"


def test_the_paired_test_is_that_of_scipy_without_its_warnings():
    item, other = np.random.default_rng(0).normal(size=(2, 30))
    assert_allclose(paired_t(item - other), ttest_rel(item, other).pvalue, rtol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paired_t(np.ones(5)) == 0.0
        assert paired_t(np.full(9, 0.1) + 1e-17 * item[:9]) < 1e-9
        assert paired_t(np.array([np.inf, 1.0, 2.0])) == 1.0


def test_scores_of_one_point():
    assert scores_of(Quantities(np.arange(1), np.array([1.0])), {"values": np.array([3.0])}) == {
        "rmse": 2.0, "mae": 2.0, "mae_interval": None, "r2": None, "r2_interval": None, "standard_error": 0.0,
        "interval": None, "deviation": 0.0, "n_test": 1}


@pytest.mark.parametrize(("n_classes", "coding", "n_columns"), [(2, OneVsRest, 1), (2, OneVsOne, 1), (3, OneVsRest, 3)])
def test_areas_and_log_losses_of_test_points_are_those_of_scikit_learn(n_classes, coding, n_columns):
    rng = np.random.default_rng(0)
    codes, names = rng.integers(n_classes, size=60), np.arange(n_classes)
    values = rng.normal(size=(60, n_columns)) + (codes[:, None] == np.arange(n_classes)[-n_columns:])
    calibration = Calibration(1.5, np.ones(n_classes, bool))
    model = SimpleNamespace(coding=coding(names), attributes=calibration_attributes(calibration))
    true, margins = Classes(np.arange(60), codes, names), model.coding.margins(values)
    predicted = model.coding.predictions(values, codes)
    actual = scores_of(true, {**predicted, **margins_and_probabilities(model, values, predicted, codes)})
    P = calibration.probabilities(margins)[np.arange(60), predicted["codes"]]
    assert actual["reliability"]["probability"] == pytest.approx(P.mean(), rel=1e-6)
    assert actual["reliability"]["correct"] == pytest.approx((predicted["codes"] == codes).mean())
    area = metrics.roc_auc_score(codes, margins[:, 1]) if n_classes == 2 else np.mean(
        [metrics.roc_auc_score(codes == code, margins[:, code]) for code in names])
    assert actual["roc_auc"] == pytest.approx(area, abs=1e-12)
    assert actual["log_loss"] == pytest.approx(metrics.log_loss(codes, calibration.probabilities(margins)), rel=1e-6)
    model.attributes = {}
    without = margins_and_probabilities(model, values, predicted, codes)
    one_class = scores_of(Classes(np.arange(60), np.zeros(60, np.int64), names), {
        **predicted, **without})
    assert (one_class["roc_auc"], one_class["log_loss"], one_class["reliability"]) == (None, None, None)


def test_models_that_differ_by_rounding_are_equal():
    rng = np.random.default_rng(0)
    true = Quantities(np.arange(200), rng.normal(size=200))
    ours = true.coded + rng.normal(size=200)
    actual = unlabeled_verdict(true, {"model": {"values": ours},
                                     "base": {"values": ours + 1e-10 * rng.normal(size=200)}})
    assert actual["over_base"]["gain"] == 0
    assert actual["over_base"]["p_value"] == 1


@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "roc_auc"])
@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.slow_cases("10-roc_auc")
def test_scores_and_comparisons_in_a_metric_hold_what_their_cost_says(scoring, n_classes):
    n, rng = 20_000, np.random.default_rng(0)
    true = Classes(np.arange(n), rng.integers(0, n_classes, n), np.arange(n_classes), scoring=scoring)
    margins = (n, margin_columns(n_classes))
    actual = {name: {"codes": rng.integers(0, n_classes, n), "margins": rng.normal(size=margins).astype(np.float32),
                    "log_losses": rng.random(n).astype(np.float32), "probabilities": rng.random(n).astype(np.float32)}
              for name in ("model", "base", "nearest")}

    def compare():
        for item in actual.values():
            scores_of(true, item)
        unlabeled_verdict(true, actual)

    compare()  # what it imports is no cost of points
    held = sum(item[name].nbytes for item in actual.values() for name in ("margins", "log_losses", "probabilities"))
    most = n * scored_bytes(n_classes, len(actual), has_scoring=scoring != "accuracy") - held
    assert traced_peak(compare, most) < most


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_guess_is_the_best_that_needs_no_model(n_classes):
    codes = np.repeat(np.arange(n_classes), [6, 3, 1][:n_classes])

    def score(scoring):
        true = Classes(np.arange(len(codes)), codes, np.arange(n_classes), scoring=scoring)
        name, predicted, says = constant_baseline(true, true)
        assert name == "majority"
        assert (predicted["codes"] == says).all()
        return scores_of(true, predicted), says

    assert score("balanced_accuracy")[0]["balanced_accuracy"] == pytest.approx(1 / n_classes)
    assert score("roc_auc")[0]["roc_auc"] == 0.5
    shares = (np.bincount(codes) + 0.5) / (len(codes) + n_classes / 2)
    assert score("neg_log_loss")[0]["log_loss"] == pytest.approx(-np.log(shares[codes]).mean())
    if n_classes == 2:
        actual, says = score("f1")
        assert says == 1
        assert actual["f1"] == pytest.approx(2 * 3 / (9 + 3))


@pytest.mark.parametrize("scoring", ["roc_auc", "f1"])
@pytest.mark.parametrize("codes", [[0, 0, 1, 0], [0, 0, 0, 0]])
def test_of_points_of_one_class_a_metric_is_not_defined_and_the_accuracy_is_taken(scoring, codes):
    points = Classes(np.arange(4), np.zeros(4, int), np.arange(2), scoring=scoring)
    actual = {"codes": np.array(codes), "margins": np.ones((4, 1), np.float32)}
    judged, said = in_defined_scoring(points, actual)
    assert (judged.scoring, said) == ("accuracy", {"undefined_scoring": scoring})
    assert "scoring" not in scores_of(judged, actual)
    assert unlabeled_verdict(points, {"model": actual, "base": actual}) == {"undefined_over": ["base"]}
    both = Classes(np.arange(4), np.array([0, 1, 1, 0]), np.arange(2), scoring=scoring)
    assert in_defined_scoring(both, actual) == (both, {})
