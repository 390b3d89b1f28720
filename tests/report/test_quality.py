"""How good the predictions are, class by class, and what to do next: sentences and tables of imagined runs."""

import re

import pytest

from dssl.base.wilson import interval_of_share
from dssl.report.record import RunRecord
from dssl.report.sections.answer import answer_section, in_order
from dssl.report.sections.quality import class_rows, quality_section, tags_of_run
from dssl.report.sections.sample import cell_label
from dssl.report.sections.scores import curve_section, scores_section
from dssl.report.text import number, plain_label

from ..figures import unrendered
from .examples import REPORT_TEXT, example_pair, example_record, example_run


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
    ({"rmse": 2.5, "interval": [2.0, 3.1], "r2": 0.75, "r2_interval": [0.6, 0.8], "n_test": 40},
     "the predictions explain 75.0 % (60.0 to 80.0 %) of the variance"),
    ({"rmse": 2.5, "interval": [2.0, 3.1], "r2": -0.2, "n_test": 40}, "an rmse of 2.5 (2 to 3.1)."),
    ({"error": 0.25, "balanced_accuracy": 0.7, "balanced_accuracy_interval": [0.6, 0.8], "n_test": 40,
      "scoring": "balanced_accuracy"},
     "a balanced accuracy of 70.0 % (60.0 to 80.0 %); 75.0 % of them are classified correctly"),
])
def test_another_measure_has_its_own_words(metrics, words):
    assert words in plain(quality_section(RunRecord({}, {"metrics": metrics})).html)


def test_an_rmse_stands_beside_that_of_the_mean():
    scores = {"model": {"rmse": 2.5, "interval": [2.0, 3.1]}, "mean": {"rmse": 20.25}}
    for result in ({"metrics": {**scores["model"], "n_test": 40}, "baselines": {"mean": scores["mean"]}},
                   {"gain": {"by_labels": {"n": 30, "scores": scores}}}):
        text = plain(quality_section(RunRecord({}, result)).html)
        assert "Always predicting the mean of the labels would have an rmse of 20.2." in text


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


@pytest.mark.parametrize(("other", "learned"), [
    (None, "The model learned from 3 labels."),
    ({"weight": 1}, "from 3 labels and what another model says of the points.")])
def test_a_run_without_any_evidence_says_so_first_and_what_to_do(other, learned):
    stages = {"labels": {"n_labeled": 3, "per_class": [0, 0], "classes": ["cat", "dog"]},
              "models": {"choice": {"other_model": other}}}
    run = RunRecord(stages, {"gain": {"by_labels": {"n": 0, "why": "no class has two labels"}}}, {"name": "x"})
    section = quality_section(run)
    assert plain(section.html).startswith(" It is not known how good the predictions are. There are no test points")
    assert "no class has two labels" in section.html
    assert learned in section.html
    assert curve_section(run) is None
    answer = answer_section(run, REPORT_TEXT)
    assert ("They are never predicted" in answer.html) == (other is None)
    steps = in_order(run, REPORT_TEXT, section, [answer])[2].html
    assert "Find out how good the predictions are: label at least two points of each class, or set test points" in steps


def test_without_test_points_the_errors_of_held_out_labels_are_drawn():
    by_labels = example_run(3)[0]["gain"]["by_labels"]
    run = RunRecord({}, {"gain": {"by_labels": by_labels}})
    html = quality_section(run).html
    assert "Error on held-out labels with its 95 % interval" in html
    assert "on the same held-out labels, so the paired test below says more" in html
    html = answer_section(run, REPORT_TEXT).html
    assert "All models are compared" not in html
    assert "<b>base</b>" in html
    html = answer_section(example_record(*example_run(3)), REPORT_TEXT).html
    assert "All models are compared on the same test points" in html


def test_the_model_is_drawn_first_and_the_guess_last_whatever_their_order(monkeypatch):
    drawn = []
    monkeypatch.setattr("dssl.report.sections.quality.error_plot", lambda scores, by: drawn.append(scores))
    by_labels = example_run(3)[0]["gain"]["by_labels"]
    scores = {**by_labels["scores"], "majority": {"error": 0.6, "interval": [0.5, 0.7]}}
    for names in (("base", "majority", "model"), ("majority", "model", "base")):
        run = RunRecord({}, {"gain": {"by_labels": {**by_labels, "scores": {name: scores[name] for name in names}}}})
        quality_section(run)
        assert [name for name, *_ in drawn.pop()] == ["model", "base", "majority"]


def test_without_test_points_each_class_is_judged_by_its_held_out_labels():
    by_labels = example_run(3)[0]["gain"]["by_labels"]
    by_labels["scores"]["model"]["confusion"] = [[20, 0, 0], [0, 20, 0], [0, 12, 8]]
    run = RunRecord({"labels": {"classes": ["ant", "bee", "cow"], "n_labeled": 60}}, {"gain": {"by_labels": by_labels}})
    section = quality_section(run)
    text = plain(section.html)
    assert "held-out labels recall (95 % interval)" in text
    assert "Recall is the share of the held-out labels of a class" in text
    low, high = interval_of_share(0.4, 20)
    assert f"cow 20 40.0 % ({100 * low:.1f} to {100 * high:.1f} %) 100.0 %" in text
    steps = in_order(run, REPORT_TEXT, section, [None])[2].html
    assert "12 of the 20 held-out labels of cow are taken for bee" in steps


def test_without_any_evidence_the_predictions_are_counted():
    why = {"gain": {"by_labels": {"n": 0, "why": "no label is held out"}}}
    counts = {"made": True, "classes": [f"class {code}" for code in range(25)], "counts": [*range(24), 5000]}
    html = quality_section(RunRecord({"predictions": counts}, why)).html
    assert "How many of the 5,276 points are predicted as each class. The 20 largest of 25 classes are shown." in html
    assert "<svg" in html
    assert "<svg" not in quality_section(RunRecord({"predictions": {"made": False, "n": 10**9}}, why)).html


def steps_of(result, facts):
    run = example_record(result, facts)
    others = [None, *(None for _ in range(2))]
    (section,) = [section for section in in_order(run, REPORT_TEXT, quality_section(run), others)
                  if section is not None and section.key == "next"]
    return section.html


def test_what_to_do_next_follows_from_the_figures():
    result, facts = example_run(3)
    html = steps_of(result, facts)
    assert "Add labels" not in html  # the error falls by less than its intervals are wide
    assert html.index("Take the predictions") < html.index("If you can label more points")  # a good model is used first
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
    result, facts = example_run(3, wrong=4, wrong_base=5, p=0.31)
    facts["spec"] |= {"labels": {"given": True}, "data": {"source": "some.csv", "test": {"official": True}}}
    assert first.search(steps_of(result, facts))[1].startswith("Before you rely on the unlabeled points, add labels")
    result["metrics"], result["baselines"], result["gain"] = {}, {}, {"by_labels": result["gain"]["by_labels"]}
    result["gain"]["by_labels"] |= {"unlabeled_data": "no clear difference"}
    assert ("Before you rely on the unlabeled points, add labels, or set test points aside (data.test):"
            ) in steps_of(result, facts)
    result, facts = example_run(3)
    result["gain"]["by_labels"]["unlabeled_data"] = "hurt"
    assert first.search(steps_of(result, facts))[1].startswith("Before you rely on the unlabeled points, repeat")


def test_of_two_classes_it_is_no_advice_to_label_points_that_are_predicted_as_either():
    result, facts = example_run(2)
    result["metrics"]["confusion"] = [[30, 20], [5, 45]]
    assert "Label more points" not in steps_of(result, facts)


def test_a_difference_too_small_to_matter_is_no_reason_to_repeat_the_run():
    result, facts = example_run(3)
    del result["baselines"]["shuffled"]
    for name, rmse in (("model", 10.0), ("base", 10.001)):
        scores = result["metrics"] if name == "model" else result["baselines"]["base"]
        scores.clear()
        scores |= {"rmse": rmse, "n_test": 150}
    result["gain"] |= {"over_base": example_pair(0.001, 0.001), "unlabeled_data": "no clear difference"}
    html = steps_of(result, facts)
    assert "The simpler base model is good enough" in html
    assert "Before you rely" not in html


@pytest.mark.parametrize(("errors", "words"), [
    ((0.1, 0.0), "The model predicts all held-out labels correctly, so the curve does not show whether more labels"),
    ((1.0, 1.0), "the error of the model stays at 100.0 %. The curve does not show"),
    ((0.3, 0.29), "changes from 30.0 % to 29.0 %. The intervals are wider than this change, so the curve does not"),
    ((0.9, 0.1), "The error of the model still falls, by 80.0 percentage points")])
def test_a_curve_claims_no_more_than_it_shows(errors, words):
    result, facts = example_run(3)
    rows = [{"labels": n, "model": error, "model_interval": [max(0, error - 0.2), min(1, error + 0.2)]}
            for n, error in zip((7, 14), errors, strict=True)]
    result["gain"]["by_labels"]["curve"] = rows
    assert words in plain(curve_section(example_record(result, facts)).html)


def test_a_long_name_keeps_its_end_and_a_long_number_its_first_digits():
    names = [plain_label(f"a complaint about the delivery of parcel {i}", 18) for i in range(12)]
    assert len(set(names)) == 12
    assert {len(name) <= 18 for name in names} == {True}
    assert plain_label("short", 5) == "short"
    assert number(11889.28) == "11,889"
    assert number(-136747.7) == "-136,748"
    assert number(512.34) == "512.3"


def test_tags_begin_with_the_share_of_labels_that_is_right():
    by_tag = [{"tag": tag, "known": 50, "with_it": 20, "error": error, "f1": 0.5, "average_precision": 0.5,
               "calibration_error": None} for tag, error in (("sea", 0.1), ("sky", 0.3))]
    model = {"by_tag": by_tag, "hamming_loss": 0.2, "hamming_loss_interval": [0.15, 0.27], "n": 50, "n_whole": 50,
             "f1_macro": 0.5, "f1_micro": 0.5, "average_precision": 0.5, "ranking_loss": 0.1, "calibration_error": None,
             "scoring": "hamming_loss"}
    run = RunRecord({"labels": {"n_labeled": 30}}, {"metrics": model, "baselines": {
        "majority": model | {"hamming_loss": 0.4}}})
    text = plain(tags_of_run(run).html)
    assert text.startswith(" 80.0 % (95 % interval 73.0 to 85.0 %) of the 100 labels of single tags are predicted "
                           "correctly, on 50 test points.")
    assert "would be correct for 60.0 % of them. The model learned from 30 labeled points." in text.replace("  ", " ")
    assert tags_of_run(run).title == quality_section(example_record(*example_run(3))).title
    assert "Scores of all tags" not in text  # they are in the section of scores
    by_labels = {"scores": {"model": model}, "n": 50}
    assert "Scores of all tags" in tags_of_run(RunRecord({}, {"gain": {"by_labels": by_labels}})).html


def test_a_model_that_knows_rare_classes_is_pointed_to_balanced_accuracy():
    result, facts = example_run(3, wrong=36, wrong_base=36, p=1.0)
    result["metrics"]["balanced_accuracy_interval"] = [0.4, 0.6]
    result["baselines"]["majority"]["balanced_accuracy"] = 1 / 3
    assert "set model.scoring to" not in steps_of(result, facts)  # a model without that parameter
    facts["spec"]["model"]["scoring"] = None
    assert "set model.scoring to balanced_accuracy" in steps_of(result, facts)
    facts["spec"]["model"]["class_sizes"] = [1, 2, 3]
    assert "set model.scoring to" not in steps_of(result, facts)
    del facts["spec"]["model"]["class_sizes"]
    result["metrics"]["balanced_accuracy_interval"] = [0.3, 0.6]
    assert "set model.scoring to" not in steps_of(result, facts)


@pytest.mark.parametrize(("simple", "said"), [(0.97, True), (0.9, False)])
def test_k_means_on_the_features_is_named_where_it_does_as_well(simple, said):
    run = RunRecord({}, {"metrics": {"accuracy": 0.94, "n_clusters": 3}, "model": "m",
                         "baselines": {"euclidean": {"accuracy": simple}}}, path="result.json")
    assert ("Consider k-means on the features" in in_order(run, REPORT_TEXT, None, [None])[2].html) == said


@pytest.mark.parametrize(("cell", "shown"), [
    ("12345678901234", "12345678901234"), ("00000000123", "00000000123"), ("1_000_000_000_0", "1_000_000_000_0"),
    ("0.12345678901234567", "0.123457"), ("-1.2345678901e-07", "-1.23457e-07"), ("1234567890.25", "1234567890.25"),
    ("3.14", "3.14"), ("a word", "a word"), ("20240101T120000.123456", "20240101T120000.123456")])
def test_cells_are_shortened_only_where_they_are_fractions(cell, shown):
    assert cell_label(cell) == shown
