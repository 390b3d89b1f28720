"""Scores of values held out against scikit-learn's metrics, and their standard errors against the formulas."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn import metrics

from dssl.base.errors import ParameterError
from dssl.learners.metrics import HINGE, SQUARED
from dssl.learners.probabilities import fit_calibration
from dssl.learners.target.coding import OneVsOne, OneVsRest, Values
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.calibration import held_out_probabilities
from dssl.selection.candidates import CandidateScores, SelectionRule, cv_results, every_score
from dssl.selection.folds import FoldParams, labeled_folds
from dssl.selection.held_out_scores import HeldOut, area, auc, require_scoring, scores_by_name


def of_classes(random_state, n_classes=3, n=60, weighted=False, coding=OneVsRest, n_folds=5):
    """Return values of a random problem with its columns, some of them right."""
    rng = np.random.default_rng(random_state)
    codes = rng.permutation(np.arange(n) % n_classes)
    names = np.array([f"class {number}" for number in range(n_classes)])
    if coding is OneVsRest:
        values = np.where(codes[:, None] == np.arange(n_classes), 0.7, -0.7) + rng.normal(size=(n, n_classes))
        values = values[:, -1:] if n_classes == 2 else values
    else:
        values = rng.normal(size=(n, n_classes * (n_classes - 1) // 2))
    weight = rng.uniform(0.2, 3, n) if weighted else None
    target = Classes(np.arange(n), codes, names)
    return HeldOut(target, coding(names), values, labeled_folds(codes, n_folds, random_state), weight)


def of_values(random_state, n=40, weighted=False, columns=1):
    rng = np.random.default_rng(random_state)
    true, weight = rng.normal(size=(n, columns)), rng.uniform(0.2, 3, n) if weighted else None
    target = Quantities(np.arange(n), true[:, 0] if columns == 1 else true)
    folds = labeled_folds(np.zeros(n, int), 4, random_state)
    return HeldOut(target, Values(), true + rng.normal(size=(n, columns)), folds, weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_classes", "coding"), [(2, OneVsRest), (2, OneVsOne), (4, OneVsRest), (4, OneVsOne)])
def test_scores_of_classes_are_those_of_scikit_learn(n_classes, coding, weighted):
    held_out = of_classes(3, n_classes, weighted=weighted, coding=coding)
    codes, actual, weights = held_out.target.coded, every_score([held_out]), {"sample_weight": held_out.weight}
    predicted, margins = held_out.coding.codes(held_out.values), held_out.margins
    P = held_out_probabilities(margins, codes, held_out.folds, held_out.weight)
    assert actual["error"] == pytest.approx(1 - metrics.accuracy_score(codes, predicted, **weights))
    assert actual["balanced_error"] == pytest.approx(1 - metrics.balanced_accuracy_score(codes, predicted, **weights))
    assert actual["log_loss"] == pytest.approx(metrics.log_loss(codes, P, **weights))
    areas = [metrics.roc_auc_score(codes == code, margins[:, code], **weights) for code in range(n_classes)]
    assert actual["auc"] == pytest.approx(np.mean(areas))
    one_hot = codes[:, None] == np.arange(n_classes)
    brier = metrics.brier_score_loss(codes, P[:, 1], **weights) if n_classes == 2 else np.average(
        ((P - one_hot)**2).sum(axis=1), weights=held_out.weight)
    assert actual["brier"] == pytest.approx(brier)
    assert actual["f1_macro"] == pytest.approx(metrics.f1_score(codes, predicted, average="macro", **weights))
    assert actual["f1"] == (pytest.approx(metrics.f1_score(codes, predicted, **weights)) if n_classes == 2 else None)


@pytest.mark.parametrize("weighted", [False, True])
def test_scores_of_quantities_are_those_of_scikit_learn(weighted):
    held_out = of_values(0, weighted=weighted)
    actual, weights = every_score([held_out]), {"sample_weight": held_out.weight}
    true, values = held_out.target.coded, held_out.values[:, 0]
    assert actual["rmse"] == pytest.approx(np.sqrt(metrics.mean_squared_error(true, values, **weights)))
    assert actual["mae"] == pytest.approx(metrics.mean_absolute_error(true, values, **weights))
    several = of_values(1, columns=3)
    actual, missed = every_score([several]), several.values - several.target.coded
    assert (actual["rmse"], actual["mae"]) == pytest.approx((np.sqrt((missed**2).mean()), np.abs(missed).mean()))


@pytest.mark.parametrize("held_out", [of_classes(0, 2), of_classes(1, 4, weighted=True), of_values(2),
                                  of_values(3, weighted=True)])
def test_influence_values_are_derivatives_by_the_shares(held_out):
    """By differences: the weight of a point a little larger and smaller, the probabilities as they are."""
    weight = np.ones(len(held_out.values)) if held_out.weight is None else held_out.weight
    step = 1e-6
    for name, of in scores_by_name(held_out.target).items():
        score = of(held_out)
        if name == "f1" and held_out.target.n_strata != 2:
            assert score is None
            continue
        assert score.influence.sum() == pytest.approx(0, abs=1e-12)
        for point in range(0, len(weight), 7):
            changed = []
            for sign in (1, -1):
                other = weight.copy()
                other[point] *= 1 + sign * step
                moved = HeldOut(held_out.target, held_out.coding, held_out.values, held_out.folds, other)
                if hasattr(held_out.coding, "margins"):
                    moved.__dict__["probabilities"] = held_out.probabilities  # calibrations are taken as given
                changed.append(of(moved).value)
            assert (changed[0] - changed[1]) / (2 * step) == pytest.approx(score.influence[point], abs=1e-8), name


def test_standard_errors_by_hand():
    held_out = of_classes(5, 2, n=50)
    row, wrong = every_score([held_out]), held_out.coding.codes(held_out.values) != held_out.target.coded
    assert row["error_se"] == pytest.approx(np.sqrt(row["error"] * (1 - row["error"]) / 50))
    by_class = [wrong[held_out.target.coded == code] for code in (0, 1)]
    assert row["balanced_error_se"] == pytest.approx(np.sqrt(sum(item.var() / len(item) for item in by_class)) / 2)
    scores, positive = held_out.margins[:, 1], held_out.target.coded == 1  # DeLong's, with 1 / n for 1 / (n - 1)
    pairs = np.sign(scores[positive][:, None] - scores[~positive]) / 2 + 0.5
    assert row["auc_se"] == pytest.approx(np.sqrt(pairs.mean(axis=1).var() / 25 + pairs.mean(axis=0).var() / 25))
    values = of_values(1)
    row, squared = every_score([values]), (values.values[:, 0] - values.target.coded)**2
    assert row["rmse_se"] == pytest.approx(squared.std() / (2 * row["rmse"] * np.sqrt(40)))
    assert row["mae_se"] == pytest.approx(np.sqrt(squared).std() / np.sqrt(40))
    exact = HeldOut(values.target, Values(), values.target.coded[:, None], values.folds)
    assert set(every_score([exact]).values()) == {0.0}


@pytest.mark.slow
def test_standard_errors_are_the_spread_of_scores_of_other_points():
    """Of 2,000 draws of 80 points each."""
    actual = [all_scores_but_calibrated(of_classes(random_state, 2, n=80)) for random_state in range(2000)]
    for name in ("error", "balanced_error", "auc"):
        spread = np.std([row[name] for row in actual])
        assert np.mean([row[f"{name}_se"] for row in actual]) == pytest.approx(spread, rel=0.06)


def all_scores_but_calibrated(held_out):
    return {key: value for name in ("balanced_accuracy", "roc_auc")
            for key, value in CandidateScores.of([held_out], HINGE, name).scores.items()}


@given(st.integers(0, 2**20), st.integers(2, 30), st.booleans())
def test_the_area_is_the_share_of_pairs_won(random_state, n, weighted):
    rng = np.random.default_rng(random_state)
    scores, positive = rng.integers(0, 5, n) / 2.0, np.arange(n) < rng.integers(1, n)
    shares = rng.uniform(0.1, 1, n) if weighted else np.full(n, 1 / n)
    pairs = np.sign(scores[positive][:, None] - scores[~positive]) / 2 + 0.5
    value, influence = area(scores, positive, shares / shares.sum())
    assert value == pytest.approx(np.average(pairs, weights=np.outer(shares[positive], shares[~positive])))
    assert area(-scores, positive, shares)[0] == pytest.approx(1 - value)
    assert influence.sum() == pytest.approx(0, abs=1e-12)


def test_a_calibration_does_not_see_the_points_it_is_for():
    held_out = of_classes(0, 3)
    codes, margins = held_out.target.coded, held_out.margins
    P = held_out_probabilities(margins, codes, held_out.folds)
    fold, others = held_out.folds[2], np.concatenate([*held_out.folds[:2], *held_out.folds[3:]])
    assert_allclose(P[fold], fit_calibration(margins[others], codes[others]).probabilities(margins[fold]), atol=1e-6)
    other = codes.copy()
    other[fold] = (codes[fold] + 1) % 3
    assert_allclose(held_out_probabilities(margins, other, held_out.folds)[fold], P[fold])
    single = labeled_folds(codes, "leave_one_out", 0)
    P = held_out_probabilities(margins, codes, single)
    assert_allclose(P.sum(axis=1), 1)
    other = codes.copy()
    other[single[0]] = (codes[single[0]] + 1) % 3
    assert_allclose(held_out_probabilities(margins, other, single)[single[0]], P[single[0]])


def test_a_class_that_no_point_outside_a_fold_has_is_given_no_probability():
    scores, codes = np.array([[1.0, -1, 0], [0.5, 0, 0], [-1, 1, 0], [0, 0.5, 0]]), np.array([0, 0, 1, 1])
    P = fit_calibration(scores, codes).probabilities(scores)
    assert_allclose(P[:, 2], 0)
    assert_allclose(P.sum(axis=1), 1)
    assert_allclose(fit_calibration(scores[:2], codes[:2]).probabilities(scores), [[1, 0, 0]] * 4)
    target = Classes(np.arange(4), codes, np.array(["a", "b", "c"]))
    held_out = HeldOut(target, target.coding, scores, [np.array([0, 1]), np.array([2, 3])])
    assert every_score([held_out])["log_loss"] == pytest.approx(-np.log(np.finfo(float).eps))


def test_points_that_are_never_held_out_are_not_scored():
    held_out = of_classes(0, 3)
    codes, part = held_out.target.coded, np.arange(40)
    folds = labeled_folds(codes[part], 4, 0)
    values = held_out.values.copy()
    values[40:] = np.nan
    whole = every_score([HeldOut(held_out.target, held_out.coding, values, folds)])
    among = every_score([HeldOut(held_out.target.take(part), held_out.coding, values[part], folds)])
    assert whole == pytest.approx(among)


def test_one_class_among_the_points_held_out_has_no_area():
    target = Classes(np.arange(5), np.array([0, 0, 0, 0, 1]), np.array(["a", "b"]))
    held_out = HeldOut(target, target.coding, np.arange(5.0)[:, None] - 2, labeled_folds(target.coded, 2, 0))
    assert auc(held_out) is None
    undefined = CandidateScores.of([held_out, held_out], HINGE, "roc_auc")
    assert [undefined.scores[name] for name in ("auc", "auc_se", "auc_se_repetitions")] == [None, None, None]
    defined = replace(undefined, scores={**undefined.scores, "auc": 0.4, "auc_se": 0.1})
    assert SelectionRule(scoring="roc_auc").index([undefined, defined]) == 1
    candidates = [undefined.with_parameters(C=C) for C in (1, 2)]
    assert SelectionRule(scoring="roc_auc", one_standard_error=True).index(candidates) == 0


@settings(max_examples=20)
@given(st.integers(0, 2**20), st.integers(2, 4))
def test_scores_of_repetitions_are_their_means(random_state, repetitions):
    first = of_classes(random_state, 3)
    folds = FoldParams(repetitions=repetitions, random_state=random_state).repeated(first.target)
    rng = np.random.default_rng(random_state)
    held_out = [HeldOut(first.target, first.coding, first.values + 0.3 * rng.normal(size=first.values.shape), item)
            for item in folds]
    row = CandidateScores.of(held_out, SQUARED, "roc_auc").to_json()
    rows = [CandidateScores.of([item], SQUARED, "roc_auc").to_json() for item in held_out]
    for name in ("error", "rmse", "auc"):
        assert row[name] == pytest.approx(np.mean([item[name] for item in rows]))
        assert row[f"{name}_se_repetitions"] == pytest.approx(np.std([item[name] for item in rows], ddof=1))
        assert row[f"{name}_se"] <= np.mean([item[f"{name}_se"] for item in rows]) + 1e-12
    assert row["fold_errors"] == [error for item in rows for error in item["fold_errors"]]
    again = CandidateScores.of([held_out[0]] * 3, SQUARED).scores
    assert again["error_se_repetitions"] == pytest.approx(0, abs=1e-12)
    assert again["error_se"] == pytest.approx(rows[0]["error_se"])


def test_what_is_asked_for_is_lowered_and_of_the_area_raised():
    rows = [{"error": 0.1, "loss": 0.2, "log_loss": 0.5, "auc": 0.9, "f1": 0.3, "at": 0},
            {"error": 0.2, "loss": 0.1, "log_loss": 0.4, "auc": 0.8, "f1": 0.2, "at": 1},
            {"error": 0.2, "loss": 0.1, "log_loss": 0.5, "auc": 0.95, "f1": 0.1, "at": 2}]
    names = (None, "accuracy", "neg_log_loss", "roc_auc", "f1")
    candidates = [CandidateScores.from_json(row) for row in rows]
    assert [SelectionRule(scoring=name).select(candidates).parameters["at"] for name in names] == [0, 0, 1, 2, 0]


def test_the_strongest_penalties_within_one_standard_error():
    candidates = [CandidateScores({"gamma_A": A, "gamma_I": energy}, {"error": error, "error_se": 0.05, "loss": 0.0})
                  for A, energy, error in [(0.1, 1.0, 0.10), (1.0, 0.0, 0.14), (1.0, 0.5, 0.15), (1.0, 9.0, 0.16),
                                           (9.0, 1.0, 0.2)]]
    rule = SelectionRule(one_standard_error=True)
    assert rule.index(candidates) == 2
    assert rule.index(candidates[:1]) == 0
    candidates = [CandidateScores({"power": power, "C": C}, {"auc": auc, "auc_se": 0.02, "error": 0.1, "loss": 0.0})
                  for power, C, auc in [(1, 10.0, 0.9), (1, 1.0, 0.89), (2, 1.0, 0.885), (2, 0.1, 0.85)]]
    assert SelectionRule(scoring="roc_auc", one_standard_error=True).index(candidates) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=12),
       st.integers(0, 12), st.booleans())
def test_the_selected_candidate_is_a_contender_among_the_first(drawn, first, strongest):
    rule = SelectionRule(one_standard_error=strongest)
    candidates = [CandidateScores({"gamma_A": A, "gamma_I": energy},
                                  {"error": error / 10, "error_se": 0.1, "loss": 0.0})
                  for A, energy, error in {(A, energy): (A, energy, error) for A, energy, error in drawn}.values()]
    selected = rule.index(candidates)
    if selected < first:
        assert selected in rule.contenders(candidates[:first])
    assert selected in rule.contenders(candidates)


def test_a_scoring_of_the_other_task_is_refused():
    require_scoring(None, classes=True)
    require_scoring("roc_auc", classes=True)
    for scoring, classes in (("neg_root_mean_squared_error", True), ("roc_auc", False), ("r2", False)):
        with pytest.raises(ParameterError, match=f"scoring='{scoring}'"):
            require_scoring(scoring, classes=classes)
    with pytest.raises(ParameterError, match="f1_macro"):
        CandidateScores.of([of_classes(0, 3)], HINGE, "f1")


def test_the_results_of_a_search_tell_standard_errors():
    candidate = CandidateScores.of([of_classes(0)], HINGE, "neg_brier_score")
    actual = cv_results([candidate], [{"gamma_A": 1.0}])
    assert actual["error"].item() == candidate.scores["error"] == 1 - actual["mean_test_score"].item()
    assert {"error_se", "loss_se", "brier", "brier_se"} <= actual.keys()
