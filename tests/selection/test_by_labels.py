"""What labels that are held out say of a model and its base."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_friedman1

from dssl import LaplaceLearningRegressor, LapRLSRegressor, MultiscaleKernelRegressor, SemiSupervisedRegressor
from dssl.base.wilson import interval_of_share
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.by_labels import LabelFolds, by_labels, corrected_for_selection, nested_error, with_other_model
from dssl.selection.calibration import shared_calibrations
from dssl.selection.candidates import CandidateScores
from dssl.selection.held_out_scores import HeldOut


def classes(*sizes):
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return Classes(np.arange(len(codes)), codes, np.arange(len(sizes)))


@pytest.mark.parametrize("target", [classes(2, 2), classes(1, 7, 3), classes(40, 60, 25), Quantities(
    np.arange(11), np.random.default_rng(0).normal(size=11))])
def test_each_draw_sees_every_class_and_holds_some_label_of_those_that_have_two(target):
    folds = LabelFolds.of(target)
    assert folds.curve
    for count, (held_out,) in folds.curve:
        seen = np.setdiff1d(np.arange(len(target.coded)), held_out)
        assert len(seen) == count >= 2
        assert set(target.strata()[seen]) == set(target.strata())
    assert sorted(np.concatenate(folds.compared)) == [
        place for place, code in enumerate(target.strata()) if (target.strata() == code).sum() > 1]


def test_one_fold_of_many_labels_is_held_out_where_that_is_asked_for():
    target = classes(3000, 2500, 3)
    (fold,), = LabelFolds.of(target, 3, a_fit_each=True, one_above=5000).repetitions
    assert np.bincount(target.coded[fold], minlength=3)[:2].tolist() == pytest.approx([600, 500], abs=80)
    assert set(np.delete(target.coded, fold)) == {0, 1, 2}
    other = replace(target, coded=np.arange(5503) % 2)  # another tag of the same points
    assert_array_equal(LabelFolds.of(other, 3, a_fit_each=True, one_above=5000).compared[0], fold)
    assert not np.array_equal(LabelFolds.of(target, 4, a_fit_each=True, one_above=5000).compared[0], fold)
    alone = replace(target, coded=np.arange(5503), names=np.arange(5503))
    assert LabelFolds.of(alone, 3, a_fit_each=True, one_above=5000).compared == []
    assert sum(map(len, LabelFolds.of(target, 3, a_fit_each=True).compared)) == 5503
    few = classes(300, 250)
    assert len(LabelFolds.of(few, 3, a_fit_each=True, one_above=5000).compared) == 5


def test_one_fold_has_a_bounded_number_of_labels(monkeypatch):
    monkeypatch.setattr("dssl.selection.by_labels.MAX_IN_FOLD", 500)
    fold, = LabelFolds.of(classes(3000, 2500, 3), 3, one_above=5000).compared
    assert 400 < len(fold) < 600
    planned, = LabelFolds.of_sizes([3000, 2500, 3], one_above=5000).repetitions
    assert len(planned) == 1
    assert len(LabelFolds.of_sizes([3000, 2000], one_above=5000).compared) == 5


def test_a_single_large_fold_is_calibrated_in_parts():
    parts = shared_calibrations([np.arange(0, 3000, 2)])
    assert len(parts) == 5
    assert sorted(np.concatenate(parts)) == list(range(0, 3000, 2))
    assert [part.tolist() for part in shared_calibrations([np.arange(40)])] == [list(range(40))]


def test_small_draws_lie_within_larger_ones():
    target = classes(40, 60, 25)
    seen = {}
    for count, (held_out,) in LabelFolds.of(target).curve:
        seen.setdefault(count, []).append(set(range(125)) - set(held_out.tolist()))
    small, middle, large = (seen[count] for count in sorted(seen))
    assert (len(small), len(middle), len(large)) == (4, 4, 2)
    assert all(item <= other for item, other in zip(small, middle, strict=True))
    assert all(item <= other for item, other in zip(middle, large, strict=False))


def test_labels_of_which_none_can_be_held_out_say_nothing():
    two = Quantities(np.arange(2), np.ones(2))
    for target, why in ((classes(1, 1, 1), "no class has two"), (two, "fewer than three")):
        of_labels = by_labels(target, LabelFolds.of(target), {})
        assert of_labels["n"] == 0
        assert why in of_labels["why"]


def test_the_curve_and_the_comparison_are_of_the_labels_that_were_held_out():
    """A model that is right where it has seen half of the labels, beside one that is wrong on one of ten."""
    target = classes(40, 40)
    folds = LabelFolds.of(target)

    def values(wrong):
        return np.where(wrong, -1.0, 1.0)[:, None] * np.where(target.coded == 1, 1, -1)[:, None]

    def values_of(wrong_of):
        return [HeldOut(target, target.coding, values(wrong_of(number)), item)
                for number, item in enumerate(folds.repetitions)]

    some = np.arange(80) % 10 == 0
    actual = by_labels(target, folds, {
        "model": values_of(lambda number: (
            np.zeros(80, bool) if not number or folds.curve[number - 1][0] >= 40 else some)),
        "base": values_of(lambda number: some)})
    assert actual["n"] == 80
    assert actual["scores"]["model"]["error"] == 0
    assert actual["over_base"]["gain"] == 0.1
    assert actual["unlabeled_data"] == "helped"
    assert [row["labels"] for row in actual["curve"]] == [10, 20, 40, 78]
    assert [row["model"] > 0 for row in actual["curve"]] == [True, True, False, False]
    assert_allclose(actual["curve"][-1]["base"], 0.1)
    assert_allclose(actual["curve"][2]["model_interval"], interval_of_share(0.0, 80))  # a draw of either half
    assert all(row["base_interval"][0] < row["base"] < row["base_interval"][1] for row in actual["curve"])
    assert actual["curve"][-1]["base_interval"] == actual["scores"]["base"]["interval"]
    assert actual["scores"]["majority"]["error"] == 0.5
    assert actual["scores"]["majority"]["predicts"] == 0
    assert actual["over_majority"]["gain"] == 0.5


def test_a_label_that_several_draws_predict_counts_once_in_an_interval():
    target = classes(20, 20)
    folds = LabelFolds.of(target)
    values = np.where(np.arange(40) % 5, 1.0, -1.0)[:, None] * np.where(target.coded == 1, 1, -1)[:, None]

    def interval(times):
        item = np.arange(30)
        many = replace(folds, curve=[(10, [item])] * times)
        return by_labels(target, many, {"model": [HeldOut(target, target.coding, values, held_out)
                                                  for held_out in many.repetitions]})["curve"][0]["model_interval"]

    assert_allclose(interval(1), interval_of_share(0.2, 30), atol=1e-12)
    assert_allclose(interval(3), interval(1), atol=1e-12)


def test_the_best_of_many_candidates_is_judged_by_folds_that_did_not_choose_it():
    """Of noise: the best of 36 rows looks better than chance, the choice by other folds does not."""
    rng = np.random.default_rng(0)
    best, honest = [], []
    for _ in range(200):
        folds = rng.binomial(10, 0.5, size=(36, 5)) / 10
        candidates = [CandidateScores({}, {"error": float(item.mean())}, tuple(item)) for item in folds]
        best.append(min(candidate.scores["error"] for candidate in candidates))
        honest.append(nested_error(candidates))
    assert np.mean(best) < 0.4
    assert abs(np.mean(honest) - 0.5) < 0.015
    assert nested_error([CandidateScores({}, {"error": 0.1}, fold_deviation=0.3)]) is None
    assert nested_error([CandidateScores({}, {"rmse": 1.0}, (3.0, 4.0))] * 2) == pytest.approx(np.sqrt(12.5))


def test_a_gain_by_labels_of_a_model_that_tried_more_is_no_claim():
    row = {"error": 0.1, "fold_errors": [0.1, 0.1]}
    said = {"n": 40, "unlabeled_data": "helped"}
    actual = corrected_for_selection(said, {"model": [row] * 36, "base": [row] * 3})
    assert actual["unlabeled_data"] == "no claim"
    assert actual["tried"] == {"model": 36, "base": 3}
    assert actual["errors_without_choice"] == {"model": pytest.approx(0.1), "base": pytest.approx(0.1)}
    assert corrected_for_selection(said, {"model": [row] * 3, "base": [row] * 3})["unlabeled_data"] == "helped"
    assert corrected_for_selection(said | {"unlabeled_data": "hurt"}, {"model": [row] * 36, "base": [row]})[
        "unlabeled_data"] == "hurt"
    assert corrected_for_selection(said, {}) == said
    pooled = corrected_for_selection(with_other_model(said | {"curve": []}, said), {"model": [row] * 36, "base": [row]})
    assert pooled["without_other"]["unlabeled_data"] == pooled["unlabeled_data"] == "no claim"
    assert pooled["without_other"]["tried"] == {"model": 36, "base": 1}


@pytest.mark.parametrize("estimator", [SemiSupervisedRegressor(), LapRLSRegressor(), LaplaceLearningRegressor(),
                                       MultiscaleKernelRegressor()], ids=lambda estimator: type(estimator).__name__)
@pytest.mark.slow_cases("SemiSupervisedRegressor", "LapRLSRegressor", "MultiscaleKernelRegressor")
def test_gains_of_quantities_are_the_differences_of_the_errors(estimator, tmp_path):
    X, true = make_friedman1(300, random_state=0)
    y = np.where(np.arange(300) < 40, true, np.nan)
    said = estimator.fit(X, y).by_labels_
    for name in ("base", "mean"):
        gain = said["scores"][name]["rmse"] - said["scores"]["model"]["rmse"]
        assert said[f"over_{name}"]["gain"] == pytest.approx(gain, rel=1e-4, abs=1e-6)
    is_useless = said["scores"]["mean"]["rmse"] < said["scores"]["model"]["rmse"]
    assert ("no better than a constant" in estimator.report(tmp_path / "report.html")) == is_useless
