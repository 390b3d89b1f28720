"""The page of a run: it answers first, holds the figures, escapes, fetches nothing, and survives missing pieces."""

import copy
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markupsafe import Markup

from dssl.pipeline.run import run
from dssl.report.page import Section, page
from dssl.report.plots import label_offsets
from dssl.report.sections.answer import never_note, never_predicted
from dssl.report.sections.scores import curve_section

from ..figures import unrendered
from .examples import example_page, example_record, example_run

DIGITS = Path(__file__).parents[2] / "pipelines" / "digits_svm.yaml"
VOID = {"meta", "link", "br", "hr", "img", "input"}
FETCHING = {"src", "srcset", "href", "xlink:href", "data", "poster", "action", "style"}


@pytest.fixture
def without_figures():
    """Pages of which the text is read: rendering their figures is most of what they take."""
    with unrendered():
        yield


class Reader(HTMLParser):
    """Reads a page: its text outside style, its tags, what it points at; fails on a tag that is not closed in order."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.pieces: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"not closed: {self.open}"
        self.text = re.sub(r"\s+", " ", " ".join(self.pieces))

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for key, value in attrs if key == "id"]
        self.targets += [value for key, value in attrs if key in FETCHING]
        assert not [key for key, _ in attrs if key.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.pieces.append(data)


def assert_self_contained(found: Reader) -> None:
    assert not {"link", "img", "iframe", "object", "embed"} & set(found.tags)
    assert found.tags.count("script") == 1
    assert not [target for target in found.targets if re.search(r"//|url\((?!#)", target)]
    inner = [target[1:] for target in found.targets if target.startswith("#")]
    assert set(inner) <= set(found.ids)
    assert len(found.ids) == len(set(found.ids))


def assert_all_sections(found: Reader) -> None:
    titles = ["How good are the predictions?", "Did the unlabeled data help?", "What to do next", "Scores", "Data",
              "Graph health", "Solver evidence", "Stages", "Spec and versions"]
    first = found.text.index("example Run") if "example Run" in found.text else 0
    places = [found.text.rindex(f" {title} ") for title in titles[1:]]
    assert first < places[0]
    assert places == sorted(places)


def test_the_page_answers_first_with_the_figures():
    found = Reader(example_page(*example_run(3)))
    assert_self_contained(found)
    assert_all_sections(found)
    assert ("The unlabeled data helped: the test error is 8.0 % with it and 22.0 % without it, 14.0 percentage "
            "points lower (95 % interval 10.5 to 17.5; McNemar's test, p < 0.0001); with a shuffled graph (the "
            "control) it is 46.0 %.") in found.text
    assert "classifies 21 more test points correctly than the base model" in found.text
    assert found.tags.count("svg") == 5
    for figure in ("8.0 % (4.6 to 13.5 %)", "+38.0 points", "12 of 150 test points are misclassified", "5 each",
                   "0.75 % of the",
                   "13,456", "98.2 %, at least 97.6 %", "worst row 20 %", "93.0 % (81.5 to 97.6 %) of 44 edges",
                   "33.3 % by chance",
                   "500 random rows", "5.98e-07, tolerance 1e-06: every column meets it", "2 methods considered",
                   "4.75e+10", "203.4",
                   "300 MB", "330 MB", "110 %", "512 MB", "2.25 s", "1 of them cached", "kind: svm", "numpy 2.1.0"):
        assert figure in found.text, figure


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize(("change", "sentence", "words"), [
    ({"wrong": 11, "wrong_base": 4, "p": 0.004},
     "The unlabeled data hurt: the test error is 22.0 % with it and 8.0 %", "Use the base model"),
    ({"wrong": 4, "wrong_base": 5, "p": 0.31}, "The unlabeled data made no clear difference",
     "would appear in about 31 % of such test sets"),
    ({"wrong": 5, "wrong_base": 5, "p": 1.0},
     "no difference (95 % interval from 2.0 higher to 2.0 lower; McNemar's test, p = 1)",
     "The test error is the same with and without the unlabeled data"),
    ({"wrong": 36, "wrong_base": 36, "p": 1.0}, "The model is worse than always predicting class “class 0”, which has "
     "a test error of 66.7 %", "The test error is the same with and without the unlabeled data"),
])
def test_the_page_says_so_when_it_did_not_help(change, sentence, words):
    found = Reader(example_page(*example_run(3, **change)))
    assert sentence in found.text
    assert words in found.text
    assert "helped:" not in found.text


@pytest.mark.usefixtures("without_figures")
def test_a_gain_that_the_shuffled_graph_has_too_is_not_credited_to_the_unlabeled_data():
    result, facts = example_run(3)
    result["gain"]["over_shuffled"]["gain"] = -0.01
    result["gain"]["unlabeled_data"] = "no clear difference"
    found = Reader(example_page(result, facts))
    assert "comes from the changed kernel and not from the unlabeled data" in found.text


@pytest.mark.usefixtures("without_figures")
def test_balanced_accuracy_that_disagrees_is_told():
    result, facts = example_run(3)
    result["metrics"]["balanced_accuracy"] = 0.5
    assert "it is 50.0 % with the unlabeled data and 78.0 % without it" in Reader(example_page(result, facts)).text


@pytest.mark.slow
def test_everything_is_escaped():
    script = "<script>alert(1)</script>"
    image = '"><img src=x onerror=alert(1)>'
    classes = [script, "A & B", image, "$\\frac$", "a\nb\x00", "日本語", "\ud800", "", 3, True]
    result, facts = example_run(len(classes), classes=classes)
    result["name"] = result["run"] = result["model"] = script
    result["baselines"][script] = result["baselines"]["base"]
    result["stages"][0] |= {"name": script, "status": script, "address": script}
    facts["libraries"][script] = script
    facts["spec"]["data"]["source"] = f"{script}</pre></style>"
    facts["system"]["laplacian"] = facts["graph"]["kind"] = facts["points"]["scaling"]["kind"] = script
    facts["columns"]["solver"]["considered"][0]["method"] = script
    text = example_page(result, facts)
    assert text.lower().count("<script") == 1
    assert "<img" not in text
    assert "<b>dull" not in text
    found = Reader(text)
    assert_self_contained(found)
    assert script in found.text
    assert "日本語" in found.text
    assert "$\\frac$" in found.text
    text.encode("utf-8")


@pytest.mark.slow
def test_two_classes_and_the_baseline_of_a_graph_of_the_landmarks():
    found = Reader(example_page(*example_run(2, classes=["odd", "even"], landmark_graph=True)))
    assert_self_contained(found)
    assert "graph of the landmarks alone" in found.text
    assert "landmark_graph" in found.text
    assert "landmarks alone" not in Reader(example_page(*example_run(2))).text


@pytest.mark.slow
def test_many_classes_show_the_most_confused_pairs():
    result, facts = example_run(200)
    result["metrics"]["confusion"][41][7] += 30
    found = Reader(example_page(result, facts))
    assert "most confused pairs" in found.text
    assert "class 41 → class 7" in found.text
    assert "30 of 80" in found.text
    assert "class 19 and 180 more" in found.text
    assert len(found.tags) < 3000
    none_wrong = Reader(example_page(*example_run(200, wrong=0)))
    assert "No test point was misclassified." in none_wrong.text


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize(("stage", "change", "words"), [
    ("health", {"recall": {"certified": "sample", "recall": 0.93, "lower": 0.91, "rows": 500}},
     "Below 95 % the graph misses true neighbors"),
    ("health", {"components": {"count": 31, "largest_share": 0.7}, "unreachable": {"count": 3, "ids": [1, 2, 9]}},
     "The graph has several large components"),
    ("health", {"duplicates": {"points": 1555, "share": 0.7775}}, "drop equal rows"),
    ("health", {"hubs": {"count": 33, "largest": [{"id": 5, "degree": 900}]}}, "Hubs connect points"),
    ("health", {"homophily": {"edges": 44, "share": 0.35, "by_chance": 0.333}}, "this graph cannot help"),
    ("health", {"homophily": {"edges": 44, "share": 0.3, "by_chance": 0.333}}, "do not share a class clearly"),
    ("health", {"homophily": {"edges": 100_000, "share": 0.345, "by_chance": 0.333}}, "can hardly help"),
    ("health", {"degree": {"min": 0.0, "median": 3.0, "mean": 3.0, "max": 4.0}}, "get no information from the graph"),
    ("graph", {"raised": 123}, "Raise graph.bandwidth"),
    ("columns", {"max_residual": 2e-5}, "the tolerance was not met"),
    ("selection", {"choices": {"model": {"eta": 0}}}, "the graph was not used"),
    ("selection", {"choices": {"model": {"eta": 0}}, "grid": {"model": [{"eta": 0}, {"eta": 1}]}},
     "in cross-validation on the labels, no weight of the graph is better than 0"),
    ("selection", {"choices": {"model": {"C": 9}}, "grid": {"model": [{"C": 1}, {"C": 9}]}},
     "9, the largest candidate. The best value may be out of range: extend selection.grid.C"),
    ("landmarks", {"n_landmarks": 15, "n_labeled": 15}, "Raise model.n_landmarks"),
    ("labels", {"per_class": [5, 0, 5]}, "They are never predicted"),
])
def test_what_is_not_fine_gets_a_warning_box(stage, change, words):
    result, facts = example_run(3)
    fine = example_page(result, facts)
    assert '<div class="box warning">' not in fine
    assert words not in Reader(fine).text
    facts[stage].update(change)
    found = example_page(result, facts)
    assert '<div class="box warning">' in found
    assert words in Reader(found).text


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize(("n_classes", "first", "words"), [
    (3, 9, "class 0: 9, class 1: 5, class 2: 5"), (200, 9, "from 5 to 9, median 5"), (3, 5, "labels per class 5 each"),
])
@pytest.mark.extended_cases("200-9-from 5 to 9, median 5")
def test_labels_per_class_fit_a_line(n_classes, first, words):
    result, facts = example_run(n_classes)
    facts["labels"]["per_class"][0] = first
    assert words in Reader(example_page(result, facts)).text


@pytest.mark.usefixtures("without_figures")
def test_unreachable_points_are_counted_and_the_first_named():
    found = example_page(*example_run(3, unreachable=57))
    assert "57 (2.85 %) in 1 component; rows 100, 101, 102" in found
    assert "109, …" in found
    assert ", 110" not in Reader(found).text
    assert '<div class="box warning">' in found


@pytest.mark.usefixtures("without_figures")
@pytest.mark.parametrize(("own", "shown"), [
    ({"error": 0.125, "loss": 0.3}, ("error in cross-validation", "12.5 %", "broken by the lowest hinge loss", "0.3")),
    ({"rmse": 0.125, "mae": 0.3}, ("rmse in cross-validation", "0.125", "lowest mean absolute error")),
])
@pytest.mark.extended_cases("own1-shown1")
def test_the_parameters_that_were_chosen_are_shown_with_their_error(own, shown):
    result, facts = example_run(landmark_graph=True)
    rows = [{"power": power, "eta": eta, "bandwidth": "0.5*median", "C": C, **own, "fold_errors": [0.1, 0.2]}
            for power in (1, 2) for eta in (1.0, 30.0) for C in (1.0, 10.0)]
    base = {**rows[0], "power": None, "eta": None, "bandwidth": None}
    choices = {"base": base, "model": rows[-1], "shuffled": rows[-1]}
    facts["selection"] = {"folds": 5, "choices": choices, "grid": {"model": rows, "base": [base] * 3}}
    page_of = example_page(result, facts)
    text = Reader(page_of).text
    for words in ("Selected parameters", "bandwidth C eta power", "model 0.5*median 10 30 2", "base 0.5*median 1 – –",
                  "Nothing else is held out.", "5-fold cross-validation",
                  "at the bandwidth 0.5*median, power 2", *shown):
        assert words in text, words
    assert page_of.count("Errors of 4 pairs of C and eta") == 1
    score = next(iter(own))
    facts["selection"]["scores"] = {"model": {score: 0.2, f"{score}_se_repetitions": 0.04, **(
        {"log_loss": 0.4} if score == "error" else {})}}
    text = Reader(example_page(result, facts)).text
    assert "scores of the selected parameters on held-out labels" in text
    assert f"model, over repetitions {'4.0 %' if score == 'error' else '0.04'}" in text
    assert ("probabilities are calibrated" in text) == (score == "error")  # quantities have none
    facts["selection"]["folds"] = 0
    given = Reader(example_page(result, facts)).text
    assert "Selected parameters" not in given
    assert "Parameters bandwidth 0.5*median C 10 eta 30 power 2" in given


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
def test_every_fact_may_be_missing():
    result, facts = example_run(3)
    for key in result:
        Reader(example_page({name: value for name, value in result.items() if name != key}, facts))
    # Half a second a figure: facts are left out beside a result that draws only one.
    result["stages"], result["metrics"]["confusion"] = [], []
    for stage in facts:
        left = {name: value for name, value in facts.items() if name != stage}
        assert_self_contained(Reader(example_page(result, left)))
    for place in range(max(map(len, facts.values()))):
        reduced = copy.deepcopy(facts)
        for attributes in reduced.values():
            for key in list(attributes)[place:place + 1]:
                del attributes[key]
        Reader(example_page(result, reduced))


def test_a_page_of_nothing_says_what_is_missing():
    found = Reader(example_page({}, {}))
    assert_self_contained(found)
    assert found.ids == ["answer", "spec"]
    assert "has no test points, so it cannot tell whether the unlabeled data helped" in found.text
    assert "spec.json beside this page" in found.text


@pytest.mark.usefixtures("without_figures")
def test_a_run_without_labels_scores_or_baselines_has_the_other_sections():
    result, facts = example_run(3)
    for key in ("metrics", "baselines", "gain"):
        del result[key]
    del facts["labels"], facts["selection"], facts["split"]["classes"], facts["split"]["n_test"]
    found = Reader(example_page(result, facts))
    named = {"quality", "answer", "scores", "selection", "data", "graph", "solver", "stages", "spec"}
    assert [key for key in found.ids if key in named] == ["answer", "data", "graph", "solver", "stages", "spec"]
    assert "has no test points" in found.text
    for word in ("labeled", "labels per class", "classes"):
        assert f" {word} " not in found.text[found.text.rindex(" Data "):found.text.rindex(" Graph health ")]
    alone, facts = example_run(3)
    alone["baselines"] = {}
    assert "There is no base model to compare with" in Reader(example_page(alone, facts)).text


def test_a_page_holds_the_sections_that_have_something_to_say_in_their_order():
    text = page("a < b", "now", [Section("two", "Second & first", Markup("<p>2</p>")), None,
                                 Section("one", "One", Markup("<p>1</p>"))])
    found = Reader(text)
    assert_self_contained(found)
    assert found.ids == ["two", "one"]
    assert "a < b now Second & first One Second & first 2 One 1" in found.text


@pytest.mark.usefixtures("without_figures")
def test_many_stages_and_long_names_stay_readable():
    result, facts = example_run(3)
    result["stages"] = [{"name": f"stage {i} {'x' * 300}", "status": "done", "seconds": 5000.0 - i, "address": "f" * 64,
                         "measured_peak_bytes": 3_000_000_000} for i in range(3000)]
    found = Reader(example_page(result, facts))
    assert "2,800 more stages" in found.text
    assert "1 h 23 min" in found.text
    assert "3.0 GB" in found.text


@pytest.mark.slow
def test_equal_arguments_give_an_equal_page():
    assert example_page(*example_run(12)) == example_page(*example_run(12))


@pytest.mark.extended
def test_the_readers_plot_settings_do_not_matter(tmp_path):
    import matplotlib

    arguments = example_run(3)
    plain = example_page(*arguments)
    with matplotlib.rc_context({"axes.grid": True, "font.size": 30, "svg.fonttype": "path"}):
        assert example_page(*arguments) == plain
        assert matplotlib.rcParams["font.size"] == 30


@pytest.mark.usefixtures("without_figures")
def test_arguments_are_left_as_they_are():
    result, facts = example_run(3)
    before = json.dumps([result, facts])
    example_page(result, facts)
    assert json.dumps([result, facts]) == before


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The result of a real run, with fewer landmarks than in the file."""
    return run(DIGITS, set=["model.n_landmarks=100"], workspace=tmp_path_factory.mktemp("workspace"))


@pytest.mark.slow
def test_the_page_of_a_real_run_holds_its_figures(digits):
    found = Reader(Path(digits.report).read_text(encoding="utf-8"))
    assert_self_contained(found)
    assert_all_sections(found)
    assert found.tags.count("svg") == 5  # with two labels of each class there is no learning curve
    error, base = digits.metrics["error"], digits.baselines["base"]["error"]
    assert f"the test error is {100 * error:.1f} % with it and {100 * base:.1f} % without it" in found.text
    for own in digits.baselines.values():
        low, high = (100 * end for end in own["interval"])
        assert f"{100 * own['error']:.1f} % ({low:.1f} to {high:.1f} %)" in found.text
    for stage in digits.stages:
        assert stage.address[:24] in found.text
    for figure in ("training points n 1,437", "2 each", "3 (pixel_0_0, pixel_4_0, pixel_4_7)",
                   "every column meets it", "The search was exact"):
        assert figure in found.text


@pytest.mark.parametrize(("ends", "offsets"), [
    ([50.0, 20.0], [0, 0]), ([50.0, 48.0], [7, -7]), ([0.0, 50.0], [7, 0]), ([0.0, 1.0], [7, 21]),
    ([0.0, 0.0], [7, 21])])
def test_names_of_lines_near_zero_stand_above_the_axis(ends, offsets):
    assert label_offsets(ends, 4.0) == offsets


def test_a_class_that_no_row_is_predicted_as_is_told():
    of_all = {"predictions": {"made": True, "classes": ["ant", "bee"], "counts": [7, 0]}}
    of_test = {"predictions": {"made": False}, "labels": {"classes": ["ant", "bee"]},
               "scores": {"metrics": {"confusion": [[3, 0], [2, 0]]}}}
    for facts in (of_all, of_test):
        assert never_predicted(facts) == ["bee"]
        assert never_note(facts)[0].startswith("no row is predicted as bee")
    assert never_note({"predictions": {"made": True, "classes": ["ant"], "counts": [7]}}) == []


def test_the_learning_curve_has_bands_and_does_without_where_an_interval_is_not_known():
    result, facts = example_run(3)
    banded = str(curve_section(example_record(result, facts)).html)
    assert "From 8 to 14 labels, the error of the model changes from 10.6 % to 8.2 %. The intervals are wider" in (
        " ".join(banded.split()))
    assert "The bands are 95 % intervals over the predicted labels" in banded
    result["gain"]["by_labels"]["curve"][0]["model_interval"] = None
    without = str(curve_section(example_record(result, facts)).html)
    assert (banded.count("fill-opacity"), without.count("fill-opacity")) == (2, 1)
