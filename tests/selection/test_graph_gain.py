"""The gain of estimators: its figures, its test and its words say the same, and the same as a pipeline's verdict."""

import numpy as np
import pytest

from dssl.base.wilson import interval_of_share
from dssl.learners.metrics import LOSSES, SQUARED, WRONG_CLASS
from dssl.learners.target.coding import Scores
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.comparison import unlabeled_verdict
from dssl.selection.graph_gain import MEANINGS, gain_of


def discordant(n, wins, losses, wrong=0):
    """Return the target of n points, and values of two models: `wins` points are right by the first alone, ..."""
    target = Classes(np.arange(n), np.zeros(n, np.int64), np.arange(2))
    right = np.ones((2, n), bool)
    right[1, :wins] = False
    right[0, wins:wins + losses] = False
    right[:, wins + losses:wins + losses + wrong] = False
    return target, *(np.where(ours, -1.0, 1.0)[:, None] for ours in right)


def gain_and_verdict(target, with_graph, baseline, weight=None):
    coding, metric = (Scores(target.names), WRONG_CLASS) if isinstance(target, Classes) else (target.coding, SQUARED)
    predictions = {name: coding.predictions(values, target.coded)
                   for name, values in (("model", with_graph), ("base", baseline))}
    return (gain_of(target, coding, with_graph, baseline, weight, metric),
            unlabeled_verdict(target, predictions)["unlabeled_data"])


@pytest.mark.parametrize(("n", "wins", "losses", "wrong", "verdict"), [
    (40, 4, 0, 4, "too few points to tell"), (100, 6, 1, 9, "too few points to tell"), (100, 6, 0, 9, "helped"),
    (8, 6, 0, 2, "helped"), (8, 4, 0, 4, "too few points to tell"), (8, 0, 6, 0, "hurt"), (100, 0, 6, 9, "hurt"),
    (200, 10, 8, 60, "no clear difference"), (900, 0, 0, 0, "no clear difference"),
    (200, 9, 9, 60, "no clear difference"),
    (8, 0, 0, 8, "too few points to tell")])
def test_estimators_and_pipelines_say_the_same_of_discordant_pairs(n, wins, losses, wrong, verdict):
    gain, pipelines = gain_and_verdict(*discordant(n, wins, losses, wrong))
    assert gain.verdict == pipelines == verdict
    assert (gain.helps, gain.hurts) == (verdict == "helped", verdict == "hurt")
    assert gain.difference == pytest.approx((losses - wins) / n)
    assert (gain.difference_interval[1] < 0, gain.difference_interval[0] > 0) == (gain.helps, gain.hurts)
    same = wins == losses == 0 and verdict != "too few points to tell"
    assert gain.in_words().endswith("the unlabeled points change none of these" if same else MEANINGS[verdict])


@pytest.mark.parametrize(("wrong", "is_said"), [(2, False), (3, True), (5, True)])
def test_words_say_where_the_most_frequent_label_is_as_good(wrong, is_said):
    codes = np.repeat([0, 1], [9, 3])
    right = np.where(np.arange(12) < wrong, -1.0, 1.0)[:, None] * np.where(codes == 1, 1.0, -1.0)[:, None]
    gain, _ = gain_and_verdict(Classes(np.arange(12), codes, np.array(["no", "yes"])), right, right)
    assert (gain.guess, gain.guessed) == (0.25, "“no”")
    assert gain.in_words().endswith("; always predicting “no” has error 25.0 %, which is no worse") == is_said

    y = np.array([1.0, 2.0, 6.0, 7.0])
    target = Quantities.of(y)
    gain, _ = gain_and_verdict(target, target.columns() + 1.5 * wrong, target.columns())
    without = np.array([np.delete(y, i).mean() for i in range(4)])
    assert gain.guess == pytest.approx(np.sqrt(((y - without) ** 2).mean()))
    words = f"; always predicting the mean of the others has rmse {gain.guess:.4g}, which is no worse"
    assert gain.in_words().endswith(words) == is_said


def test_words_say_that_held_out_predictions_do_not_use_the_class_sizes():
    target, with_graph, baseline = discordant(100, 12, 1)
    gain = gain_of(target, Scores(target.names), with_graph, baseline, None, WRONG_CLASS, without_class_sizes=True)
    assert "both without the class sizes, which the model itself uses" in gain.in_words()
    assert gain.in_words().endswith(MEANINGS["helped"])
    assert gain.described()["without_class_sizes"] is True


def test_twelve_labels_without_a_mistake_leave_room_for_some_among_new_points():
    gain, _ = gain_and_verdict(*discordant(12, 1, 0))
    assert gain.in_words().startswith(
        "the 12 held-out labels are predicted with error 0.0 % (95 % interval 0.0 to 24.2 %) with the unlabeled "
        "points and 8.3 % (1.5 to 35.4 %) without them (difference -8.3 %, 95 % interval -35.4 to 17.9 %, p = 1)")
    assert gain.described()["with_graph_interval"] == pytest.approx(interval_of_share(0.0, 12))
    weighed, _ = gain_and_verdict(*discordant(12, 1, 0), np.repeat([1.0, 0.0], 6))
    assert weighed.with_graph_interval == pytest.approx(interval_of_share(0.0, 6))


@pytest.mark.parametrize("scoring", [name for name in LOSSES if name != "accuracy"])
def test_intervals_are_those_of_the_metric_that_was_asked_for(scoring):
    target, with_graph, baseline = discordant(30, 3, 1, 4)
    codes = (np.arange(30) % 3 == 0).astype(np.int64)
    flip = np.where(codes == 1, -1.0, 1.0)[:, None]
    target = Classes(target.labeled, codes, np.arange(2), scoring=scoring)
    gain = gain_of(target, Scores(target.names), with_graph * flip, baseline * flip, None, WRONG_CLASS)
    low, high = gain.with_graph_interval
    assert gain.metric == LOSSES[scoring]
    assert low <= gain.with_graph <= high
    assert "95 % interval" in gain.in_words()


def test_an_error_of_quantities_has_an_interval_in_their_unit_with_and_without_weights():
    rng = np.random.default_rng(0)
    target = Quantities(np.arange(40), 1e6 * rng.normal(size=40))
    with_graph, baseline = (target.columns() + 1e6 * rng.normal(size=(40, 1)) for _ in range(2))
    for weight in (None, np.ones(40), rng.random(40)):
        gain, _ = gain_and_verdict(target, with_graph, baseline, weight)
        assert gain.with_graph / 2 < gain.with_graph_interval[0] < gain.with_graph < gain.with_graph_interval[1]
        assert (gain.difference_interval is None) == (weight is not None)
        if weight is None:
            low, high = gain.difference_interval
            assert gain.difference - low > 1e3
            assert high - gain.difference > 1e3


@pytest.mark.parametrize("n", [2, 7, 60])
def test_quantities_share_a_test_too(n):
    rng = np.random.default_rng(n)
    target = Quantities(np.arange(n), rng.normal(size=n))
    for far in (0.0, 0.3, 3.0):
        with_graph, baseline = (target.columns() + rng.normal(size=(n, 1)) * size for size in (1.0, 1.0 + far))
        gain, pipelines = gain_and_verdict(target, with_graph, baseline)
        assert gain.verdict == pipelines
        assert gain.helps == ("points help" in gain.in_words().split(": ")[1] and "tell" not in gain.in_words())


def test_weights_that_turn_the_difference_around_leave_it_unclear():
    target, with_graph, baseline = discordant(100, 12, 1)
    weight = np.ones(100)
    weight[12] = 50.0
    gain, _ = gain_and_verdict(target, with_graph, baseline, weight)
    assert gain.difference > 0
    assert gain.verdict == "no clear difference"
    assert gain_and_verdict(target, with_graph, baseline, np.full(100, 7.0))[0].helps
