"""The headline of a run, and that no sentence below it says otherwise."""

from itertools import product

import pytest

from dssl.data.findings import unread_columns
from dssl.report.error_metric import SHARE, gain_over, label_score_rows
from dssl.report.record import redrawn_by
from dssl.report.verdict import ALL_LABELED, Verdict, label_sentences, seen_by_test

from .examples import REPORT_TEXT, example_page, example_pair, example_run

HELPED, HURT = "helped", "hurt"


def run_of(wrong, wrong_base, p, labels, *, guess_gain=0.5, guess_p=1e-9, balanced=None):
    """Return the verdict of a run whose labels, held out, say `labels`."""
    result, _ = example_run(3, wrong=wrong, wrong_base=wrong_base, p=p)
    result["gain"]["by_labels"]["unlabeled_data"] = labels
    result["gain"]["over_majority"] = {"gain": guess_gain, "p_value": guess_p}
    if balanced is not None:
        result["metrics"]["balanced_accuracy"] = balanced
    return Verdict.of(result, REPORT_TEXT)


CASES = list(product(((4, 11, 1e-4), (11, 4, 1e-4), (4, 5, 0.3), (5, 5, 1.0)), (HELPED, HURT, "no clear difference"),
                     (0.3, 0.01, 0.0, -0.2), (1e-9, 0.4), (None, 0.1, 0.9)))


def test_the_headline_says_what_any_sentence_below_it_says():
    for difference, labels, guess_gain, guess_p, balanced in CASES:
        verdict = run_of(*difference, labels, guess_gain=guess_gain, guess_p=guess_p, balanced=balanced)
        assert_consistent(verdict, labels, guess_gain, guess_p)


@pytest.mark.parametrize(("test_gain", "test_p"), [(0.1, 0.3), (-0.1, 0.6)])
def test_the_headline_says_where_held_out_labels_beat_the_guess_and_the_test_does_not(test_gain, test_p):
    result, _ = example_run(3, wrong=5, wrong_base=5, p=1.0)
    result["gain"]["over_majority"] = {"gain": test_gain, "p_value": test_p}
    labels = result["gain"]["by_labels"]
    labels["scores"]["majority"], labels["over_majority"] = {"error": 0.7}, {"gain": 0.15, "p_value": 2e-5}
    said = "although it is better on the "
    headline = Verdict.of(result, REPORT_TEXT).sentences[0]
    assert said in headline
    assert "held-out labels, by 15.0 percentage points (p < 0.0001)" in headline
    for changed in ({"tried": {"model": 9, "base": 3}}, {"over_majority": {"gain": 0.15, "p_value": 0.2}}):
        result["gain"]["by_labels"] = labels | changed
        assert said not in Verdict.of(result, REPORT_TEXT).sentences[0]


def assert_consistent(verdict, labels, guess_gain, guess_p):
    headline, *others = verdict.sentences
    below = " ".join(others)
    if guess_gain <= 0:
        worse = guess_gain < 0 and guess_p < 0.05
        assert headline.startswith(f"The model is {'worse' if worse else 'no better'} than always predicting class")
        assert verdict.level == "warning"
        return
    assert ("not clearly better than always predicting" in headline) == (guess_p > 0.05)
    assert "always predicting" not in below
    if "says the opposite" in below and headline.startswith("The unlabeled data h"):
        assert "but" in headline
    claimed = HELPED if headline.startswith("The unlabeled data helped") else HURT if headline.startswith(
        "The unlabeled data hurt") else None
    opposite = {HELPED: "labels say that the unlabeled data hurts", HURT: "labels say that the unlabeled data helps"}
    if claimed and opposite[claimed] in below:
        assert "but" in headline
    if claimed is None and labels in (HELPED, HURT):
        assert f"although the held-out labels say that it {'helps' if labels == HELPED else 'hurts'}" in headline
    if verdict.level == "good":
        assert headline.startswith("The unlabeled data helped: ")


def test_a_run_without_test_points_is_judged_by_its_labels():
    result, _ = example_run(3)
    for key in ("metrics", "baselines"):
        del result[key]
    result["gain"] = {"by_labels": result["gain"]["by_labels"] | {"unlabeled_data": HELPED}}
    headline, *_ = Verdict.of(result, REPORT_TEXT).sentences
    assert headline == "According to the held-out labels, the unlabeled data helped."
    result["gain"]["by_labels"]["unlabeled_data"] = "no clear difference"
    assert ("According to the held-out labels, the unlabeled data made no clear difference. There are no test points, "
            "so the labels judge the model. In 5-fold cross-validation on the 15 labels, the error is 8.0 %"
            ) in " ".join(Verdict.of(result, REPORT_TEXT).sentences)


@pytest.mark.parametrize("labels", [HELPED, HURT, "no clear difference"])
def test_where_the_base_lacks_another_model_the_unlabeled_data_is_judged_without_it(labels):
    result, _ = example_run(3, wrong=4, wrong_base=11, p=1e-4)
    by_labels = result["gain"]["by_labels"]
    other = by_labels["scores"]["base"]
    alone = by_labels | {"unlabeled_data": labels, "n": 14, "scores": by_labels["scores"] | {"model": other}}
    by_labels |= {"unlabeled_data": labels, "without_other": alone, "over_other": by_labels["over_base"],
                  "scores": by_labels["scores"] | {"other": other}}
    headline, *others = Verdict.of(result, REPORT_TEXT).sentences
    assert headline.startswith("The unlabeled data and the other model together helped: the test error is ")
    assert " with both and " in headline
    assert " with neither, " in headline
    assert "although" not in headline
    assert " but " not in headline
    judged = [sentence for sentence in others if sentence.startswith(
        "Without the other model: in 5-fold cross-validation on the 14 labels, the error is 20.0 %")]
    claims = {HELPED: "The labels say that the unlabeled data helps.",
              HURT: "The labels say that the unlabeled data hurts."}
    assert judged
    assert claims.get(labels, "There is no clear difference.") in judged[0]

    for key in ("metrics", "baselines"):
        del result[key]
    result["gain"] = {"by_labels": by_labels}
    headline, meaning, *_ = Verdict.of(result, REPORT_TEXT).sentences
    assert headline == f"According to the held-out labels, the unlabeled data {labels}." if labels in claims else (
        "made no clear difference" in headline)
    assert "with the other model and" in meaning
    assert "for that alone, " in meaning


def test_the_difference_has_its_interval_on_test_points_and_on_held_out_labels():
    worse, equal = (" ".join(run_of(wrong, wrong_base, p, HELPED).sentences)
                    for wrong, wrong_base, p in ((11, 4, 1e-4), (4, 5, 0.3)))
    assert "14.0 percentage points higher (95 % interval 10.5 to 17.5; McNemar's test, p = 0.0001)" in worse
    assert "2.0 percentage points lower (95 % interval from 4.0 higher to 8.0 lower; McNemar's test, p = 0.3)" in equal
    labels = ("the error is 8.0 % (2.0 to 20.0 %) with the unlabeled data and 20.0 % (10.0 to 40.0 %) without it, 12.0 "
              "percentage points lower (95 % interval from 14.0 higher to 38.0 lower; McNemar's test, p = 0.07)")
    assert labels in worse
    assert labels in equal


@pytest.mark.parametrize("has_test", [True, False])
def test_a_difference_of_quantities_that_is_real_and_tiny_is_called_too_small(has_test):
    rmse = {"model": {"rmse": 56.0, "n_test": 50}, "base": {"rmse": 55.98, "n_test": 50}}
    pair = {"gain": -0.02, "p_value": 0.009, "n": 50, "interval": [-0.04, -0.007]}
    by_labels = {"n": 50, "folds": 50, "scores": rmse, "over_base": pair, "unlabeled_data": "no clear difference"}
    result = {"metrics": {}, "gain": {"by_labels": by_labels}}
    if has_test:
        result = {"metrics": rmse["model"], "baselines": {"base": rmse["base"]},
                  "gain": {"over_base": pair, "unlabeled_data": "no clear difference"}}
    text = " ".join(Verdict.of(result, REPORT_TEXT).sentences)
    assert "the unlabeled data made no clear difference" in text.lower()
    assert "too small to matter: less than a thousandth of the error" in text
    assert "too few" not in text
    assert "There is no clear difference" not in text
    pair |= {"gain": -1e-6, "interval": [-2e-6, -1e-7]}
    text = " ".join(Verdict.of(result, REPORT_TEXT).sentences)
    assert "practically no difference (95 % interval" in text
    assert "not due to chance" not in text


def test_two_models_without_an_error_are_not_called_too_few_points():
    result, _ = example_run(3, wrong=0, wrong_base=0, p=1.0)
    result["gain"] |= {"unlabeled_data": "too few points to tell", "over_base": example_pair(0.0, 1.0)}
    text = " ".join(Verdict.of(result, REPORT_TEXT).sentences)
    assert text.startswith("The unlabeled data made no difference on the test points, which both models classify "
                           "correctly: the test error is 0.0 % with it and 0.0 % without it, no difference")
    assert "150 test points are too few" not in text
    assert "the simpler base model is good enough" in text


def test_a_single_fold_is_not_called_cross_validation():
    by_labels = example_run(3)[0]["gain"]["by_labels"] | {"folds": 1}
    text = " ".join(label_sentences(by_labels))
    assert text.startswith(f"On the {by_labels['n']} labels that were held out once, the error is")
    assert "cross-validation" not in text
    assert "held-out labels, one fold (95 % interval)" in label_score_rows(by_labels)[0][1]


@pytest.mark.parametrize(("n_test", "labels"), [(3, "no clear difference"), (150, HELPED)])
def test_a_few_points_without_an_error_or_labels_that_say_otherwise_do_not_favor_the_base(n_test, labels):
    result, _ = example_run(3, wrong=0, wrong_base=0, p=1.0)
    result["metrics"]["n_test"] = n_test
    result["gain"] |= {"unlabeled_data": "too few points to tell", "over_base": example_pair(0.0, 1.0)}
    result["gain"]["by_labels"]["unlabeled_data"] = labels
    assert "good enough" not in " ".join(Verdict.of(result, REPORT_TEXT).sentences)


def test_without_a_held_out_label_the_sentence_fits_a_clear_test():
    result, _ = example_run(3)
    result["gain"]["by_labels"] = {"n": 0, "why": "no class has two labels, so none can be held out"}
    text = " ".join(Verdict.of(result, REPORT_TEXT).sentences)
    assert "The unlabeled data helped" in text
    assert "Held-out labels cannot say more: no class has two labels" in text


@pytest.mark.parametrize(("labels", "test", "words"), [
    ({"count": 5}, {"count": 9},
     "one draw of the labels and one split. Other draws (labels.random_state, data.random_state)"),
    ({"given": True}, {"count": 9}, "for one split. Other draws (data.random_state)"),
    ({"file": ["a.csv"]}, {"official": True}, "for these labels and these test points."),
    ({"per_class": 3}, {"official": True}, "for one draw of the labels. Other draws (labels.random_state)"),
    ({"per_class": 3, "file": "a.csv"}, {"official": True},
     "for one draw of the labels. Other draws (labels.random_state)")])
def test_only_what_was_drawn_is_to_be_drawn_again(labels, test, words):
    draws = redrawn_by({"labels": labels, "data": {"test": test}})
    text = " ".join(Verdict.of(example_run(3)[0], REPORT_TEXT, draws=draws).sentences)
    assert f"These figures hold {'' if words.startswith('for') else 'for '}{words}" in text


@pytest.mark.parametrize(("pair", "words"), [
    ({"n": 5, "smallest": None}, "With 5 predictions, no difference between two such models"),
    ({"n": 105, "smallest": 1.4, "detectable": None}, "With 105 predictions, no difference between two such models"),
    ({"n": 6, "smallest": 1.0, "detectable": None}, "With 6 predictions, a difference below 100.0 percentage points"),
    ({"n": 60, "smallest": None, "gain": 0.1}, "With 60 predictions, no difference between two such models"),
    ({"n": 60, "smallest": None}, "Both models do equally well on each point")])
def test_what_a_test_can_see_is_at_most_a_whole(pair, words):
    assert seen_by_test(SHARE, pair).startswith(words)


def test_too_few_labels_are_told_once():
    result, _ = example_run(3)
    result["gain"] = {"by_labels": result["gain"]["by_labels"] | {"unlabeled_data": "too few points to tell"}}
    result["metrics"], result["baselines"] = {}, {}
    text = " ".join(Verdict.of(result, REPORT_TEXT).sentences)
    assert text.count("too few labels to tell") == 1
    assert "cannot be distinguished from chance" in text


@pytest.mark.slow
@pytest.mark.parametrize("has_test", [True, False])
@pytest.mark.parametrize("answer", [HELPED, HURT, "too few points to tell", "no clear difference"])
def test_without_unlabeled_points_nothing_is_claimed_of_them(answer, has_test):
    result, facts = example_run(3)
    result["gain"]["unlabeled_data"] = result["gain"]["by_labels"]["unlabeled_data"] = answer
    if not has_test:
        result["metrics"], result["baselines"], result["gain"] = {}, {}, {"by_labels": result["gain"]["by_labels"]}
    verdict = Verdict.of(result, REPORT_TEXT, all_labeled=True)
    headline, *others = verdict.sentences
    assert headline.startswith(ALL_LABELED)
    assert "unlabeled data" not in " ".join([headline, *others])
    assert "too few" not in " ".join([headline, *others])
    assert verdict.level == "note"
    n_train = facts["split"]["n_train"]
    facts = facts | {"labels": facts["labels"] | {"n_labeled": n_train}}
    assert ALL_LABELED in " ".join(example_page(result, facts).split())
    assert ALL_LABELED not in " ".join(example_page(result, facts | {"labels": {"n_labeled": n_train - 1}}).split())


def test_labels_that_chose_among_many_say_so():
    result, _ = example_run(3)
    labels = result["gain"]["by_labels"]
    assert "candidates" not in " ".join(Verdict.of(result, REPORT_TEXT).sentences)
    labels |= {"unlabeled_data": "no claim", "tried": {"model": 36, "base": 3},
               "errors_without_choice": {"model": 0.12, "base": 0.14}}
    text = " ".join(Verdict.of(result, REPORT_TEXT).sentences)
    assert "selected the model among 36 candidates and the base model among 3 candidates, so both look better" in text
    assert "the labels cannot tell whether the unlabeled data helps" in text
    assert "the errors are 12.0 % and 14.0 %" in text


def test_without_test_points_a_model_no_better_than_the_majority_is_called_that():
    scores = {"model": {"error": 0.4, "interval": [0.25, 0.6]}, "base": {"error": 0.3, "interval": [0.2, 0.5]},
              "majority": {"error": 0.3, "interval": [0.2, 0.5], "predicts": "oak"}}
    pair = {"n": 30, "gain": -0.1, "p_value": 0.5, "smallest": 0.2, "detectable": 0.25}
    by_labels = {"n": 30, "folds": 30, "scores": scores, "over_base": pair, "over_majority": pair,
                 "unlabeled_data": "too few points to tell"}
    verdict = Verdict.of({"metrics": {}, "gain": {"by_labels": by_labels}}, REPORT_TEXT)
    assert verdict.level == "warning"
    assert " ".join(verdict.sentences).startswith(
        "The model is no better than always predicting class “oak”, which has an error of 30.0 % (McNemar's "
        "test, p = 0.5). There are no test points, so the labels judge the model. In leave-one-out cross-validation on "
        "the 30 labels, the error is 40.0 %")


@pytest.mark.parametrize(("scoring", "key", "ours", "base", "message"), [
    ("balanced_accuracy", "balanced_accuracy", 0.92, 0.8, "the test balanced accuracy is 92.0 % with it and 80.0 % "
     "without it, 12.0 percentage points higher (95 % interval 9.0 to 15.0; paired test, p < 0.0001)"),
    ("roc_auc", "roc_auc", 0.95, 0.9, "the test AUC is 0.95 with it and 0.9 without it, 0.05 higher (95 % "
     "interval 0.0375 to 0.0625; paired test"),
    ("neg_log_loss", "log_loss", 0.25, 0.5, "the test log loss is 0.25 with it and 0.5 without it, 0.25 lower")])
def test_a_run_is_told_in_the_metric_that_its_spec_asks_for(scoring, key, ours, base, message):
    result, _ = example_run(3)
    for scores, value in ((result["metrics"], ours), (result["baselines"]["base"], base)):
        scores |= {"scoring": scoring, key: value, f"{key}_interval": [value - 0.01, value + 0.01]}
    result["gain"]["over_base"] = example_pair(abs(ours - base), 1e-5)
    del result["baselines"]["shuffled"]
    text = " ".join(Verdict.of(result, REPORT_TEXT).sentences)
    assert message in text
    assert "McNemar's test, p < 0.0001" not in text
    assert "says the opposite" not in text


def test_a_gain_is_negligible_against_the_loss_of_its_metric():
    """0.05 points of a balanced accuracy of 99.9 % are half of all that there is to lose."""
    result, _ = example_run(3)
    del result["baselines"]["shuffled"]
    for scores, value in ((result["metrics"], 0.9995), (result["baselines"]["base"], 0.999)):
        scores |= {"scoring": "balanced_accuracy", "balanced_accuracy": value}
    result["gain"]["over_base"]["gain"] = 0.0005
    assert "too small to matter" not in " ".join(Verdict.of(result, REPORT_TEXT).sentences)
    result["gain"]["over_base"]["gain"] = 5e-7
    assert "less than a thousandth of the balanced error" in " ".join(Verdict.of(result, REPORT_TEXT).sentences)


def test_a_gain_has_its_interval_and_over_a_model_without_the_metric_is_not_defined():
    result, _ = example_run(3)
    result["gain"] |= {"undefined_over": ["shuffled"]}
    assert gain_over("shuffled", result["metrics"], result["gain"]) == ("not defined", "")
    assert gain_over("base", result["metrics"], result["gain"]) == ("+14.0 points (+10.5 to +17.5)", "p < 0.0001")


def test_a_useless_model_is_told_which_columns_it_lacks_and_what_to_do():
    unread = unread_columns([record | {"used": record["name"] == "x"} for record in (
        {"name": "x", "finding": None}, {"name": "comment", "finding": "free text"},
        {"name": "code", "finding": "identifier"}, {"name": "same", "finding": "constant"})])
    scores = {"error": 0.5, "error_low": 0.4, "error_high": 0.6, "n_test": 100}
    pair = {"gain": 0.0, "p_value": 1.0, "n": 100, "smallest": 0.06, "detectable": 0.1}
    result = {"metrics": scores, "gain": {"over_majority": pair},
              "baselines": {"majority": scores | {"predicts": "a"}}}
    sentences = Verdict.of(result, REPORT_TEXT, unread).sentences
    assert sentences[0].startswith("The model is no better than always")
    assert sentences[1] == (
        "The table has columns that the model did not see. Left out: 'code', as identifiers. data.read.keep_ids: "
        "[code] keeps them. Left out: 'comment', as free text. To learn from it, add embeddings of it (such as those "
        "of sentence-transformers) as columns of numbers, or as a list column of Parquet.")
    assert unread_columns([{"name": "x", "finding": "identifier", "used": True}]) == ""
    assert Verdict.of(result, REPORT_TEXT).sentences == [sentences[0], *sentences[2:]]
    better = result | {"gain": {"over_majority": pair | {"gain": 0.2, "p_value": 1e-6}}}
    assert "columns" not in " ".join(Verdict.of(better, REPORT_TEXT, unread).sentences)
