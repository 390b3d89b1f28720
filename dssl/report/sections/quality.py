"""How good are the predictions? The error on points that no step has seen, its interval, and each class by itself.

Of tags (several labels a point) the same, of all tags and of each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup

from ...base.wilson import interval_of_share
from ..error_metric import ROOT, SHARE, ErrorMetric, errors_among, metric_of
from ..page import Section, Table, rendered
from ..plots import MAX_BARS, MAX_CLASSES, classes_plot, counts_plot, error_plot, values_plot
from ..record import RunRecord, Scores, interval_at, scores_at
from ..text import ABSENT, at, counted, finite, number, percent, plain_label, with_interval

TITLE = "How good are the predictions?"
MAX_ROWS = 50  # of the table of classes
TAG_METRICS = {"hamming_loss": "Hamming loss", "f1_macro": "macro F1", "f1_micro": "micro F1",
               "average_precision": "average precision", "ranking_loss": "ranking loss",
               "calibration_error": "calibration error"}
TEST, HELD_OUT = "test points", "labeled points, each predicted without its own labels"


def quality_section(run: RunRecord) -> Section | None:
    """Return what the page begins with: test points, or without any the labels that were held out."""
    if finite(run.metrics.get(metric_of(run.metrics).key)) is not None:
        sentences, evidence = [_of_test_points(run.metrics)], _evidence(run)
    elif run.by_labels.get("n"):
        sentences, evidence = [_of_held_out_labels(run)], _evidence_of_labels(run)
    elif run.by_labels:
        sentences, evidence = ["It is not known how good the predictions are."], _no_evidence(run)
    else:
        return None
    rows, by = class_rows_of(run), metric_of(scores_at(run.by_labels, "scores", "model"))
    true, predicted = (run.at("scores", "shown", name) or [] for name in ("true", "predicted"))
    drawing, caption, points = None, "", "test points" if run.metrics else "held-out labels"
    if not run.metrics and not run.by_labels.get("n"):
        drawing, caption = _predicted_drawing(run)
    elif not run.metrics:
        held_out = replace(by, axis=by.held_out_axis, name=f"{by.bare_noun} on held-out labels")
        drawing, caption = errors_drawing(at(run.by_labels, "scores") or {}, held_out, "held-out labels", "below")
    elif rows:
        drawn = sorted(rows, key=lambda row: row.right)[:MAX_CLASSES] if len(rows) > MAX_CLASSES else rows
        drawing = classes_plot([(row.name, row.right, row.interval) for row in drawn])
        few = f" The {MAX_CLASSES} lowest of {number(len(rows))} classes are shown." if len(drawn) < len(rows) else ""
        caption = ("Recall of each class: the share of its test points that are classified correctly, with its 95 % "
                   f"interval.{few}")
    elif true:
        n_test = run.metrics.get("n_test")
        shown = "all test points" if n_test == len(true) else f"{number(len(true))} of {counted(n_test, 'test point')}"
        drawing = values_plot(true, predicted)
        caption = f"The predictions against the true values of {shown}. On the dotted line they are equal."
    return Section("quality", TITLE, rendered(
        "quality.html", sentences=sentences, evidence=evidence, drawing=drawing, caption=caption,
        points=points,
        classes=_class_table(rows, points),
        more=max(0, len(rows) - MAX_ROWS)))


def errors_drawing(scores: Mapping[str, Scores], by: ErrorMetric, points: str, place: str) -> tuple[Markup | None, str]:
    """Return the drawing of the errors of the model and its baselines, and its caption; None without any.

    points : what they are of. place : where the paired test is told.
    """
    in_order = sorted(scores.items(), key=lambda row: (row[0] != "model", row[0] == by.guess[0]))
    known = [(name, error, by.interval_among(each) or (error, error)) for name, each in in_order
             if (error := finite(at(each, by.key))) is not None]
    caption = (f"{by.title} with its 95 % interval. All models are compared on the same {points}, so the paired test "
               f"{place} says more than whether the intervals overlap.")
    return (error_plot(known, by), caption) if known else (None, "")


def _predicted_drawing(run: RunRecord) -> tuple[Markup | None, str]:
    """Return the drawing of how many points are predicted as each class, and its caption; None where it is not known.

    It is what can be seen of predictions without any evidence: a class too many or too few.
    """
    predictions = run.stage("predictions")
    counts = [int(count) for count in predictions.get("counts") or []]
    if not counts or run.at("split", "tags"):
        return None, ""
    names = [plain_label(str(name), 40) for name in predictions["classes"]]
    drawn = sorted(zip(names, counts, strict=True), key=lambda row: -row[1])[:MAX_BARS]
    few = f" The {MAX_BARS} largest of {number(len(counts))} classes are shown." if len(drawn) < len(counts) else ""
    return (counts_plot(drawn, "points predicted as each class"),
            f"How many of the {counted(sum(counts), 'point')} are predicted as each class.{few}")


def _of_test_points(metrics: Scores) -> str:
    by, n_test = metric_of(metrics), counted(metrics.get("n_test"), "test point")
    if by == SHARE:
        return f"{_share_right(metrics['error'], interval_at(metrics))} of the {n_test} are classified correctly."
    text = f"On the {n_test}, the model has {by.noun} of {by.with_interval(metrics)}"
    if "error" in metrics:
        return f"{text}; {percent(1 - metrics['error'])} of them are classified correctly."
    explained = finite(metrics.get("r2"))
    return f"{text}." if explained is None or explained <= 0 else (
        f"{text}; the predictions explain {with_interval(percent, explained, interval_at(metrics, 'r2_interval'))} of "
        "the variance of the targets.")


def _of_held_out_labels(run: RunRecord) -> str:
    scores, n = scores_at(run.by_labels, "scores", "model"), counted(run.by_labels["n"], "held-out label")
    by = metric_of(scores)
    if by == SHARE:
        return f"{_share_right(scores['error'], interval_at(scores))} of the {n} are predicted correctly."
    return f"On the {n}, the model has {by.noun} of {by.with_interval(scores)}."


def _share_right(error: float, ends: tuple[float, float] | None) -> str:
    """Return the share that is right with its interval: 94.7 % (95 % interval 91.9 to 96.6 %).

    ends : of the interval of the error.
    """
    right = percent(1 - error)
    if ends is None:
        return right
    return f"{right} (95 % interval {percent(1 - ends[1]).removesuffix(' %')} to {percent(1 - ends[0])})"


def _evidence(run: RunRecord) -> list[str]:
    """Return what the model learned from, and what else says how good it is."""
    n_labeled, n_train = run.at("labels", "n_labeled"), run.at("split", "n_train")
    sentences = _of_guess(run.metrics, run.scores)
    if n_labeled is not None and n_train is not None:
        others = f" and {counted(n_train - n_labeled, 'point')} without one" if n_train > n_labeled else ""
        sentences.append(f"The model learned from {counted(n_labeled, 'label')}{others}. The test points took no part.")
    if metric_of(run.metrics).interval_among(run.metrics) is not None:
        sentences.append("The interval accounts for the number of test points, but not for which points were labeled.")
    sentences += groups_in_words(run)
    hidden, by = run.hidden, errors_among(run.hidden)
    if by == SHARE and finite(hidden.get("error")) is not None:
        n_hidden = hidden.get("n_test")
        known = "training points" if n_hidden is None else counted(n_hidden, "training point")
        sentences.append(f"Of the {known} whose label is known but was not shown to it, "
                         f"{_share_right(hidden['error'], interval_at(hidden))} are classified correctly.")
    return sentences


def groups_in_words(run: RunRecord) -> list[str]:
    """Return what the figures of a run say that tests whole groups of rows."""
    groups = run.at("split", "groups")
    if not groups:
        return []
    sentences = [
        f"The test points are the labeled rows of {number(groups['n_tested'])} of {number(groups['n'])} groups by "
        f"{groups['column']!r}, and say what to expect of new groups.",
        "Rows of one group are alike, but each counts as if it were independent: intervals are too narrow and p-values "
        "too small, the more so the fewer groups test."]
    if run.by_labels:
        sentences.append("Held-out labels have rows of their own group among the others, so that their errors say "
                         "nothing of new groups.")
    return sentences


def _evidence_of_labels(run: RunRecord) -> list[str]:
    """Return what the predictions of held-out labels are worth."""
    scores = run.by_labels.get("scores") or {}
    sentences = [*_of_guess(scores_at(scores, "model"), scores),
                 "No test points were set aside, so each label was predicted by models that were fitted without it. If "
                 "the labeled points were not drawn at random, the other points may be easier or harder."]
    if single := run.by_labels.get("single_labels", 0):
        are = "is the only one of its class" if single == 1 else "are the only ones of their classes"
        sentences.append(f"{counted(single, 'more label')} {are}: nothing tells how well such points are predicted.")
    n_tried = at(run.by_labels, "tried", "model") or 1
    if n_tried > 1:
        sentences.append(f"The same labels also selected the model among {counted(n_tried, 'candidate')}, so it may "
                         "do somewhat worse on new points.")
    return sentences


def _no_evidence(run: RunRecord) -> list[str]:
    """Return why it is not known, and what the model learned from."""
    n_labeled = run.at("labels", "n_labeled")
    why = run.by_labels.get("why", "no label can be held out")
    sentences = [f"There are no test points, and held-out labels cannot say it either: {why}."]
    if n_labeled or has_other_model(run):
        sources = [counted(n_labeled, "label")] if n_labeled else []
        sources += ["what another model says of the points"] if has_other_model(run) else []
        sentences.append(f"The model learned from {' and '.join(sources)}.")
    return sentences


def has_other_model(run: RunRecord) -> bool:
    """Return whether another model, such as a vector for each class, says something of each point."""
    return any(run.at(*path, "other_model") for path in (("models", "choice"), ("vertex_values",)))


def _of_guess(metrics: Scores, scores: Mapping[str, Scores]) -> list[str]:
    """Return how good one class, or the mean, would be everywhere, without which no error means much."""
    by = metric_of(metrics)
    guess: Scores = scores.get(by.guess[0]) or {}
    if by == ROOT and finite(guess.get("rmse")) is not None:
        return [f"Always predicting the mean of the labels would have an rmse of {number(guess['rmse'])}."]
    if by != SHARE or finite(guess.get("error")) is None or guess.get("predicts") is None:
        return []
    name = guess["predicts"]
    shown = f"“{plain_label(name, 40)}”" if isinstance(name, str) else str(name)
    return [f"Always predicting class {shown} would be correct for {percent(1 - guess['error'])} of them."]


class ClassRow:
    """A class of n points: the share that is right and its 95 % interval, and what the others are taken for.

    n_taken, min_share_taken : how many are taken for one other class, and the lower bound of their share.
    precise : the share of the points predicted as it that are of it, with its interval; None where there are none.
    """

    def __init__(self, code: int, names: Sequence[str], confusion: np.ndarray):
        row, column = confusion[code], confusion[:, code]
        self.name, self.n = names[code], int(row.sum())
        self.right = float(row[code] / row.sum())
        self.interval = interval_of_share(self.right, self.n)
        self.precise = float(column[code] / column.sum()) if column.sum() else None
        self.precise_interval = None if self.precise is None else interval_of_share(self.precise, int(column.sum()))
        wrong = row.copy()
        wrong[code] = 0
        self.n_taken = int(wrong.max())
        self.min_share_taken = interval_of_share(self.n_taken / self.n, self.n)[0]
        self.taken_for = names[int(wrong.argmax())] if self.n_taken else None


def class_rows(confusion: Sequence[Sequence[int]], classes: Sequence[object]) -> list[ClassRow]:
    """Return a row for each class that has test points, or held-out labels."""
    counts = np.asarray(confusion, np.int64)
    names = [plain_label(str(classes[code]) if code < len(classes) else str(code), 40) for code in range(len(counts))]
    return [ClassRow(code, names, counts) for code in range(len(counts)) if counts[code].any()]


def class_rows_of(run: RunRecord) -> list[ClassRow]:
    """Return the same of a run, of test points or without any of held-out labels; none without classes."""
    scores = run.metrics or scores_at(run.by_labels, "scores", "model")
    return class_rows(scores.get("confusion") or [], run.classes)


def _class_table(rows: list[ClassRow], points: str) -> Table:
    if not rows:
        return Table()
    shown = sorted(rows, key=lambda row: row.right)[:MAX_ROWS] if len(rows) > MAX_ROWS else rows
    head = ("class", points, "recall (95 % interval)", "precision (95 % interval)", "mistaken for")
    return Table(head, [
        (row.name, number(row.n), with_interval(percent, row.right, row.interval),
         with_interval(percent, row.precise, row.precise_interval),
         ABSENT if row.taken_for is None else f"{row.taken_for} ({number(row.n_taken)})") for row in shown], (1, 2, 3))


def tags_section(scores: Mapping[str, Mapping[str, Any]], points: str, n_labeled: int | None = None, *,
                 has_scores: bool = False, more: Sequence[str] = ()) -> Section:
    """Return what the page begins with: the scores of models by name, of which the first is the model.

    points : `TEST` or `HELD_OUT`, which points they are of. n_labeled : how many the model learned from. has_scores :
    whether the page has these scores of all tags in a section of their own. more : further sentences.
    """
    model = next(iter(scores.values()))
    known = [tag for tag in model["by_tag"] if finite(tag["error"]) is not None]
    drawn = sorted(known, key=lambda tag: -tag["error"])[:MAX_CLASSES] if len(known) > MAX_CLASSES else known
    drawing = classes_plot([(plain_label(str(tag["tag"]), 40), 1 - tag["error"],
                             interval_of_share(1 - tag["error"], tag["known"])) for tag in drawn]) if drawn else None
    few = f" The {MAX_CLASSES} lowest of {number(len(known))} tags are shown." if len(drawn) < len(known) else ""
    return Section("quality", TITLE, rendered(
        "tags.html", answer=_answer_of_tags(model, points),
        evidence=[*_evidence_of_tags(scores, points, n_labeled), *more], drawing=drawing,
        caption=f"The share of the known labels of each tag that is predicted correctly, with its 95 % interval.{few}",
        head=("", *TAG_METRICS.values()), n_whole=model["n_whole"],
        rows=[] if has_scores else [(name, *(number(each[column]) for column in TAG_METRICS))
                                    for name, each in scores.items()],
        tags=[(plain_label(str(tag["tag"]), 40), number(tag["known"]), number(tag["with_it"]), percent(tag["error"]),
               *(number(tag[name]) for name in ("f1", "average_precision", "calibration_error")))
              for tag in model["by_tag"]]))


def _answer_of_tags(model: Mapping[str, Any], points: str) -> str:
    """Return the share of the single labels that is right, with its interval."""
    right = _share_right(model["hamming_loss"], interval_at(model, "hamming_loss_interval"))
    n_known = counted(sum(tag["known"] for tag in model["by_tag"]), "label")
    return f"{right} of the {n_known} of single tags are predicted correctly, on {number(model['n'])} {points}."


def _evidence_of_tags(scores: Mapping[str, Mapping[str, Any]], points: str, n_labeled: int | None) -> list[str]:
    """Return what a guess would get right, what the model learned from, and what the interval accounts for."""
    constant, sentences = finite(at(scores, "majority", "hamming_loss")), list[str]()
    if constant is not None:
        sentences.append("Predicting of each tag what most of its labels say would be correct for "
                         f"{percent(1 - constant)} of them.")
    if n_labeled is not None:
        none = " The test points took no part." if points == TEST else ""
        sentences.append(f"The model learned from {counted(n_labeled, 'labeled point')}.{none}")
    sentences.append("The interval takes a point with all its tags as one draw. It does not account for which points "
                     "were labeled.")
    return sentences


def tags_of_run(run: RunRecord) -> Section | None:
    """Return the section of a run with several labels a point: on test points, or without any on held-out labels."""
    scores: Mapping[str, Mapping[str, Any]] = run.scores if run.metrics else at(run.by_labels, "scores") or {}
    if "by_tag" not in (scores.get("model") or {}):
        return None
    return tags_section(scores, TEST if run.metrics else HELD_OUT, run.at("labels", "n_labeled"),
                        has_scores=bool(run.metrics), more=groups_in_words(run))


def tags_answer(in_words: str) -> Section:
    """Return the section with what held-out labels say of the unlabeled data."""
    text = f"{in_words[:1].upper()}{in_words[1:]}."
    return Section("answer", "Did the unlabeled data help?", Markup("<p>{}</p>").format(text))
