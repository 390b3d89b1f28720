"""Tags (several labels a point): how good the predictions are, of all tags and of each."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from ..page import Section
from ..plots import MAX_CLASSES, classes_plot
from ..record import RunRecord, interval_at
from ..rendering import rendered
from ..text import at, counted, finite, number, percent, plain_label
from .quality import TITLE, interval_of

COLUMNS = {"hamming_loss": "Hamming loss", "f1_macro": "macro F1", "f1_micro": "micro F1",
           "average_precision": "average precision", "ranking_loss": "ranking loss",
           "calibration_error": "calibration error"}
TEST, HELD_OUT = "test points", "labeled points, each predicted without its own labels"


def tags_section(scores: Mapping[str, Mapping[str, Any]], points: str, n_labeled: int | None = None, *,
                 has_scores: bool = False) -> Section:
    """Return what the page begins with: the scores of models by name, of which the first is the model.

    points : `TEST` or `HELD_OUT`, which points they are of. n_labeled : how many the model learned from. has_scores :
    whether the page has these scores of all tags in a section of their own.
    """
    model = next(iter(scores.values()))
    known = [tag for tag in model["by_tag"] if finite(tag["error"]) is not None]
    drawn = sorted(known, key=lambda tag: -tag["error"])[:MAX_CLASSES] if len(known) > MAX_CLASSES else known
    drawing = classes_plot([(plain_label(str(tag["tag"]), 40), 1 - tag["error"],
                             interval_of(1 - tag["error"], tag["known"])) for tag in drawn]) if drawn else None
    few = f" The {MAX_CLASSES} lowest of {number(len(known))} tags are shown." if len(drawn) < len(known) else ""
    return Section("quality", TITLE, rendered(
        "tags.html", answer=_answer(model, points), evidence=_evidence(scores, points, n_labeled), drawing=drawing,
        caption=f"The share of the known labels of each tag that is predicted correctly, with its 95 % interval.{few}",
        head=("", *COLUMNS.values()), n_whole=model["n_whole"],
        rows=[] if has_scores else [(name, *(number(each[column]) for column in COLUMNS))
                                    for name, each in scores.items()],
        tags=[(plain_label(str(tag["tag"]), 40), number(tag["known"]), number(tag["with_it"]), percent(tag["error"]),
               *(number(tag[name]) for name in ("f1", "average_precision", "calibration_error")))
              for tag in model["by_tag"]]))


def _answer(model: Mapping[str, Any], points: str) -> str:
    """Return the share of the single labels that is right, with its interval."""
    right, ends = percent(1 - model["hamming_loss"]), interval_at(model, "hamming_loss_interval")
    if ends is not None:
        interval = f"{percent(1 - ends[1]).removesuffix(' %')} to {percent(1 - ends[0])}"
        right = f"{right} (95 % interval {interval})"
    n_known = counted(sum(tag["known"] for tag in model["by_tag"]), "label")
    return f"{right} of the {n_known} of single tags are predicted correctly, on {number(model['n'])} {points}."


def _evidence(scores: Mapping[str, Mapping[str, Any]], points: str, n_labeled: int | None) -> list[str]:
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
                        has_scores=bool(run.metrics))


def tags_answer(in_words: str) -> Section:
    """Return the section with what held-out labels say of the unlabeled data."""
    text = f"{in_words[:1].upper()}{in_words[1:]}."
    return Section("answer", "Did the unlabeled data help?", Markup("<p>{}</p>").format(text))
