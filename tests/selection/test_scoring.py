"""Losses by the metric that is asked for agree with scikit-learn's, and their paired test with McNemar's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score, f1_score, log_loss, roc_auc_score

from dssl.base.wilson import interval_of_share
from dssl.learners.prior_shift import f1_offset
from dssl.selection.comparison import TOO_FEW, compare_classes, compare_in_scoring
from dssl.selection.scoring import KEYS, Predicted, terms_of


def predicted(n, n_classes, random_state, weight=None):
    """Return predictions of n points of random classes."""
    rng = np.random.default_rng(random_state)
    shares = np.arange(1, n_classes + 1) / np.arange(1, n_classes + 1).sum()
    true = np.random.default_rng(n).choice(n_classes, n, p=shares)
    margins = rng.normal(size=(n, n_classes)) + 1.5 * (true[:, None] == np.arange(n_classes))
    if n_classes == 2:
        margins = np.column_stack([-margins[:, 1], margins[:, 1]])
    w = np.ones(n) if weight is None else weight
    P = softmax(margins, axis=1)
    return Predicted(true, margins.argmax(axis=1), n_classes, w / w.sum(), margins, -np.log(P[np.arange(n), true])), P


@pytest.mark.parametrize("n_classes", [2, 4])
def test_losses_are_those_of_scikit_learn(n_classes):
    weight = np.random.default_rng(5).uniform(0.5, 2, 90)
    item, P = predicted(90, n_classes, 1, weight)
    of_codes = {"y_true": item.true, "y_pred": item.codes, "sample_weight": weight}
    areas = [roc_auc_score(item.true == code, item.margins[:, code], sample_weight=weight)
             for code in ([1] if n_classes == 2 else range(n_classes))]
    expected = {"accuracy": np.average(item.codes != item.true, weights=weight),
                "balanced_accuracy": 1 - balanced_accuracy_score(**of_codes),
                "f1_macro": 1 - f1_score(**of_codes, average="macro"), "roc_auc": 1 - np.mean(areas),
                "neg_log_loss": log_loss(item.true, P, sample_weight=weight)}
    if n_classes == 2:
        expected["f1"] = 1 - f1_score(**of_codes)
    for scoring, value in expected.items():
        assert_allclose(item.loss(scoring), value, rtol=1e-12, err_msg=scoring)


@pytest.mark.parametrize("scoring", list(KEYS))
def test_a_metric_has_an_interval_that_holds_that_of_all_points(scoring):
    item, _ = predicted(3000, 2, 1)

    def part(rows):
        return Predicted(item.true[rows], item.codes[rows], 2, np.full(len(rows), 1 / len(rows)), item.margins[rows],
                         item.log_losses[rows])

    whole = part(np.arange(3000)).score(scoring)[KEYS[scoring]]
    actual = [part(np.random.default_rng(random_state).integers(0, 3000, 100)).score(scoring)
             for random_state in range(100)]
    ends = np.array([item[f"{KEYS[scoring]}_interval"] for item in actual])
    assert 0.9 <= ((ends[:, 0] < whole) & (whole < ends[:, 1])).mean() <= 0.99


def test_without_a_mistake_the_interval_is_that_of_the_few_points_of_the_rare_class():
    true = np.r_[np.zeros(97, int), 1, 1, 1]
    right = Predicted(true, true, 2, np.full(100, 0.01), np.column_stack([-true, true]).astype(float))
    for scoring in ("balanced_accuracy", "f1", "roc_auc"):
        low, high = right.score(scoring)[f"{KEYS[scoring]}_interval"]
        assert 0.3 < low < 0.8
        assert high == 1


def test_a_rare_class_that_is_never_found_leaves_room_for_some_of_its_f1():
    true = np.r_[np.zeros(97, int), 1, 1, 1]
    never = Predicted(true, np.zeros(100, int), 2, np.full(100, 0.01))
    low, high = never.score("f1")["f1_interval"]
    share = interval_of_share(0.0, 3)[1]
    assert (low, high) == (0.0, pytest.approx(2 * share / (1 + share)))
    low, high = never.score("f1_macro")["f1_macro_interval"]
    assert low < never.score("f1_macro")["f1_macro"] < 0.5 < high - 0.3


@pytest.mark.parametrize("scoring", list(KEYS))
def test_terms_of_points_sum_to_the_difference(scoring):
    (ours, _), (other, _) = (predicted(80, 2, random_state) for random_state in (1, 2))
    terms, _ = terms_of(ours, other, scoring)
    difference = other.loss(scoring) - ours.loss(scoring)
    assert_allclose(terms.sum(), (2 if scoring == "roc_auc" else 1) * difference, rtol=1e-10, atol=1e-12)
    assert_allclose(terms_of(other, ours, scoring)[0], -terms, atol=1e-15)


@pytest.mark.parametrize(("wins", "losses"), [(5, 0), (6, 0), (12, 3), (40, 38)])
def test_of_classes_of_equal_size_the_balanced_error_is_judged_as_mcnemar_judges_the_error(wins, losses):
    true = np.tile([0, 1], 100)
    right = np.ones((2, 200), bool)
    right[1, :wins] = False
    right[0, wins:wins + losses] = False
    ours, other = (Predicted(true, np.where(item, true, 1 - true), 2, np.full(200, 1 / 200)) for item in right)
    by_class, plain = compare_in_scoring("balanced_accuracy", ours, other), compare_classes(*right)
    assert_allclose((by_class.gain, by_class.baseline), (plain.gain, plain.baseline), atol=1e-12)
    assert (by_class.p_value < 0.05) == (plain.p_value < 0.05)
    assert by_class.verdict == plain.verdict


def test_two_labels_of_a_rare_class_prove_nothing():
    """Half the balanced error goes with them, and either could be chance."""
    true = np.r_[np.zeros(98, int), 1, 1]
    ours, other = (Predicted(true, codes, 2, np.full(100, 0.01)) for codes in (true, np.zeros(100, int)))
    for scoring in ("balanced_accuracy", "f1"):
        pair = compare_in_scoring(scoring, ours, other)
        assert pair.gain >= 0.5
        assert pair.p_value > 0.05
        assert pair.verdict == TOO_FEW


def test_a_metric_that_is_not_defined_compares_nothing():
    one = Predicted(np.zeros(5, int), np.zeros(5, int), 2, np.full(5, 0.2), np.zeros((5, 2)))
    assert compare_in_scoring("roc_auc", one, one) is None
    assert compare_in_scoring("neg_log_loss", one, one) is None


def test_the_threshold_for_f1_is_the_best_of_all():
    """And half of the F1 score that it reaches, a theorem of Lipton, Elkan, Naryanaswamy (2014)."""
    rng = np.random.default_rng(3)
    P = rng.beta(0.4, 2.0, 300)
    logs = np.log(np.column_stack([1 - P, P]))
    _, offset = f1_offset(logs, np.ones(300), np.array([1]))

    def expected_f1(called):
        return 2 * P[called].sum() / (called.sum() + P.sum())

    called = logs[:, 1] + offset > logs[:, 0]
    best = max(expected_f1(threshold <= P) for threshold in P)
    assert_allclose(expected_f1(called), best, rtol=1e-12)
    assert P[~called].max() <= best / 2
    assert P[called].min() >= best / 2


def test_offsets_of_several_classes_raise_the_macro_f1_and_leave_absent_classes():
    rng = np.random.default_rng(4)
    logs = rng.normal(size=(200, 4)) + np.log([0.7, 0.2, 0.1, 1.0])
    logs[:, 3] = -np.inf
    scored = np.array([0, 1, 2])
    offset = f1_offset(logs, np.ones(200), scored)

    def macro(values):
        P, codes = softmax(logs, axis=1), values.argmax(axis=1)
        return np.mean([2 * P[codes == code, code].sum() / ((codes == code).sum() + P[:, code].sum())
                        for code in scored])

    assert offset[3] == 0
    assert np.isfinite(offset).all()
    assert macro(logs + offset) > macro(logs) + 0.02
    for code, step in ((1, 0.1), (1, -0.1), (2, 0.1), (2, -0.1)):
        assert macro(logs + offset + step * np.eye(4)[code]) <= macro(logs + offset) + 1e-12
