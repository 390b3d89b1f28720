"""Tags (several labels a point): the scores of the model and of its baselines, and those of each tag."""

from collections.abc import Mapping
from typing import Any

from ..page import Section
from ..record import RunRecord
from ..rendering import rendered
from ..text import at, number, percent, plain_label

COLUMNS = {"hamming_loss": "Hamming loss", "f1_macro": "macro F1", "f1_micro": "micro F1",
           "average_precision": "average precision", "ranking_loss": "ranking loss",
           "calibration_error": "calibration error"}


def tags_section(title: str, in_words: str, scores: Mapping[str, Mapping[str, Any]], where: str) -> Section:
    """Return the section of the scores of models by name, of which the first is the model; where : of which points."""
    model = next(iter(scores.values()))
    return Section("tags", title, rendered(
        "tags.html", in_words=in_words, head=("", *COLUMNS.values()), where=where, n_whole=model["n_whole"],
        rows=[(name, *(number(each[column]) for column in COLUMNS)) for name, each in scores.items()],
        tags=[(plain_label(str(tag["tag"]), 40), number(tag["known"]), number(tag["with_it"]), percent(tag["error"]),
               *(number(tag[name]) for name in ("f1", "average_precision", "calibration_error")))
              for tag in model["by_tag"]]))


def tags_of_run(run: RunRecord) -> Section | None:
    """Return the section of a run with several labels a point: on test points, or without any on held-out labels."""
    scores: Mapping[str, Mapping[str, Any]] = run.scores if run.metrics else at(run.by_labels, "scores") or {}
    if "by_tag" not in (scores.get("model") or {}):
        return None
    where, points = ("among the test points", "test points") if run.metrics else (
        "each predicted without its own labels", "points with held-out labels")
    return tags_section("Scores of the tags", f"Several labels a point, scored on the {points}", scores, where)
