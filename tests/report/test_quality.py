"""How good the predictions are, class by class, and what to do next: sentences and tables of imagined runs."""

import re

import pytest

from dssl.base.wilson import interval_of_share
from dssl.report.record import RunRecord
from dssl.report.sections.next_steps import in_order
from dssl.report.sections.quality import class_rows, quality_section
from dssl.report.sections.scores import scores_section

from ..figures import unrendered
from .examples import REPORT_TEXT, example_record, example_run


@pytest.fixture(autouse=True)
def without_figures():
    with unrendered():
        yield


def plain(html):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", str(html))).replace(" .", ".")


def test_the_page_begins_with_the_share_that_is_right_its_interval_and_the_evidence():
    text = plain(quality_section(example_record(*example_run(3))).html)
    low, high = interval_of_share(0.08, 150)
    assert f"92.0 % (95 % interval {100 * (1 - high):.1f} to {100 * (1 - low):.1f} %) of the 150 test points" in text
    assert "The model learned from 15 labels and" in text
    assert "The test points took no part" in text
    assert "Always predicting class “class 0” would be correct for 33.3 % of them" in text


def test_the_points_whose_labels_were_hidden_have_their_number_and_an_interval():
    result, facts = example_run(3)
    low, high = interval_of_share(0.1, 1000)
    facts["scores"] = {"transductive": {"error": 0.1, "interval": [low, high], "n_test": 1000}}
    assert ("Of the 1,000 training points whose label is known but was not shown to it, 90.0 % (95 % interval "
            f"{100 * (1 - high):.1f} to {100 * (1 - low):.1f} %)") in plain(
                quality_section(example_record(result, facts)).html)


def test_each_class_has_what_is_right_of_it_and_of_what_is_predicted_as_it():
    first, second, third = class_rows([[8, 2, 0, 0], [0, 5, 0, 0], [1, 3, 0, 0], [0, 0, 0, 0]], ["a", "b", "c", "d"])
    assert (first.name, first.n, first.right, first.precise, first.taken_for, first.n_taken) == (
        "a", 10, 0.8, 8 / 9, "b", 2)
    assert (second.right, second.precise, second.taken_for) == (1.0, 0.5, None)
    assert (third.right, third.precise, third.taken_for, third.n_taken) == (0.0, None, "b", 3)
    assert list(first.interval) == interval_of_share(0.8, 10)
    assert list(first.precise_interval) == interval_of_share(8 / 9, 9)
    assert third.precise_interval is None


def test_each_metric_beside_the_error_has_its_interval():
    result, facts = example_run(3)
    result["metrics"] |= {"balanced_accuracy_interval": [0.86, 0.95], "roc_auc": 0.97, "roc_auc_interval": [0.91, 0.99]}
    text = plain(scores_section(example_record(result, facts)).html)
    assert "92.0 % (86.0 to 95.0 %)" in text
    assert "0.97 (0.91 to 0.99)" in text
    assert "+14.0 points (+10.5 to +17.5)" in text


def test_of_many_classes_those_are_listed_of_which_least_is_right():
    result, facts = example_run(200)
    result["metrics"]["confusion"][41][7] += 30
    section = quality_section(example_record(result, facts))
    assert "150 classes are not listed" in plain(section.html)
    assert "class 7 (30)" in plain(section.html)


@pytest.mark.parametrize(("metrics", "words"), [
    ({"rmse": 2.5, "interval": [2.0, 3.1], "r2": 0.75, "n_test": 40},
     "On the 40 test points, the model has an rmse of 2.5 (2 to 3.1); the predictions explain 75.0 % of the variance"),
    ({"rmse": 2.5, "interval": [2.0, 3.1], "r2": -0.2, "n_test": 40}, "an rmse of 2.5 (2 to 3.1)."),
    ({"error": 0.25, "balanced_accuracy": 0.7, "balanced_accuracy_interval": [0.6, 0.8], "n_test": 40,
      "scoring": "balanced_accuracy"},
     "a balanced accuracy of 70.0 % (60.0 to 80.0 %); 75.0 % of them are classified correctly"),
])
def test_another_measure_has_its_own_words(metrics, words):
    assert words in plain(quality_section(RunRecord({}, {"metrics": metrics})).html)


def test_without_test_points_the_labels_that_were_held_out_say_how_good():
    by_labels = example_run(3)[0]["gain"]["by_labels"]
    text = plain(quality_section(RunRecord({}, {"gain": {"by_labels": by_labels}})).html)
    assert "92.0 % (95 % interval 80.0 to 98.0 %) of the" in text
    assert "No test points were set aside" in text
    assert "candidates" not in text
    by_labels["tried"] = {"model": 36, "base": 3}
    text = plain(quality_section(RunRecord({}, {"gain": {"by_labels": by_labels}})).html)
    assert "The same labels also selected the model among 36 candidates" in text
    assert quality_section(RunRecord({}, {})) is None


def steps_of(result, facts):
    run = example_record(result, facts)
    others = [None, *(None for _ in range(2))]
    (section,) = [section for section in in_order(run, REPORT_TEXT, quality_section(run), others)
                  if section is not None and section.key == "next"]
    return section.html


def test_what_to_do_next_follows_from_the_figures():
    result, facts = example_run(3)
    html = steps_of(result, facts)
    assert "Add labels: the error on held-out labels falls with their number, although by less" in plain(html)
    assert "Take the predictions" in html
    assert '(<a href="#quality">' not in html  # 4 of 50 are taken for another class
    assert 'href="#curve"' not in html  # which the page does not have
    result["metrics"]["confusion"][0] = [10, 2, 0]  # 2 of 12 may be chance
    assert '(<a href="#quality">' not in steps_of(result, facts)
    result["metrics"]["confusion"][1] = [20, 30, 0]
    result["gain"]["by_labels"]["curve"][-1]["model_interval"] = [0.07, 0.09]
    html = steps_of(result, facts)
    assert "Add labels: the error on held-out labels still falls" in plain(html)
    assert "predicted as class 1 or class 0: 20 of the 50 test points of class 1 are taken" in plain(html)
    assert '<a href="#quality">How good are the predictions?</a>' in html


def test_a_useless_model_a_harmful_graph_and_an_open_question_are_said_first():
    first = re.compile(r"<li>([^<(]*)")
    useless = steps_of(*example_run(3, wrong=36, wrong_base=36, p=1.0))
    assert first.search(useless)[1].startswith("Do not use these predictions yet")
    assert "Take the predictions" not in useless
    hurt = steps_of(*example_run(3, wrong=11, wrong_base=4, p=0.004))
    assert first.search(hurt)[1].startswith("Use the base model for these data")
    assert "Take the predictions" not in hurt
    unclear = steps_of(*example_run(3, wrong=4, wrong_base=5, p=0.31))
    assert first.search(unclear)[1].startswith("Before you rely on the unlabeled points, repeat the run")
    result, facts = example_run(3)
    result["gain"]["by_labels"]["unlabeled_data"] = "hurt"
    assert first.search(steps_of(result, facts))[1].startswith("Before you rely on the unlabeled points, repeat")
