"""What ran: the stages with their time and memory, the pipeline file as it was checked, the versions of libraries."""

import os
import shlex
from collections.abc import Sequence
from glob import glob
from pathlib import PurePath
from typing import Any

import yaml

from ..markup import ABSENT, Html, at, counted, duration, finite, joined, number, percent, size, table, tag
from ..page import Section

MOST_STAGES = 200  # rows of the table
LEAST_TOLD = 64_000_000  # bytes, of predictions that are compared with what was measured


def _ratio(stage: dict[str, Any]) -> str:
    ratio, predicted = finite(stage.get("ratio")), finite(stage.get("predicted_peak_bytes"))
    return ABSENT if ratio is None or predicted is None or predicted < LEAST_TOLD else percent(ratio, 0)


def stages_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return the stages of a run in their order."""
    ran = result.get("stages") or []
    if not ran:
        return None
    spent = [finite(stage.get("seconds")) or 0.0 for stage in ran]
    cached = sum(stage.get("status") == "cached" for stage in ran)
    summary = (f"{counted(len(ran), 'stage')} in {duration(sum(spent))}, {number(cached) if cached else 'none'} of "
               f"them cached; peak memory of a process {size(result.get('peak_rss_bytes'))}.")
    rows = [(f"{stage['name']} ({stage['graph']})" if stage.get("graph") else stage.get("name"),
             stage.get("status"), duration(stage.get("seconds")),
             tag("span", tag("i", style=f"width: {100 * seconds / (max(spent) or 1):.1f}%"), class_="bar"),
             size(stage.get("predicted_peak_bytes")), size(stage.get("measured_peak_bytes")),
             _ratio(stage),
             tag("code", str(stage.get("address", ABSENT))[:24], style="white-space: nowrap"))
            for stage, seconds in zip(ran[:MOST_STAGES], spent, strict=False)]
    more = tag("p", f"{number(len(ran) - MOST_STAGES)} more stages are in result.json.") \
        if len(ran) > MOST_STAGES else ""
    note = tag("p", "Peak memory is that of a stage's largest step: a task, or a step of the process that ran the "
               "pipeline; how far the process grew. Threads of one process cannot be told apart: where several tasks "
               "ran side by side in one, the measure is theirs together, and no share of what was predicted is told; "
               f"nor is it where that is below {size(LEAST_TOLD)}, less than loading libraries takes. "
               "An address names what a stage made by all that it follows from.", class_="small")
    head = ("stage", "status", "time", "", "peak memory predicted", "measured", "of the predicted", "address")
    return Section("stages", "What ran", joined((
        tag("p", summary), table(head, rows, (2, 4, 5, 6)), more, note)))


def files_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return what lies beside the page, and how the model predicts other points; None of a run that is not known."""
    if not result.get("run") or not result.get("model") or not at(facts, "document", "path"):
        return None
    lost, table_of_all = at(result, "unreached", "file"), result.get("predictions")
    what = "label or value" if "n_clusters" not in (result.get("metrics") or {}) else "cluster"
    beside = [] if not table_of_all else [(
        PurePath(table_of_all).name, f"the predicted {what} of every row of the source, beside what was given")]
    beside += [("unreached.csv", "the training points that no label reaches")] if lost else []
    beside += [("result.json", "all figures of the run"), ("spec.json", "the spec, as it was checked")]
    return Section("files", "Predictions and files", joined((
        table((), [(_link(name), told) for name, told in beside]),
        tag("p", "This predicts the source again; name a file of new rows in its place to predict those:"),
        tag("pre", predict_command(at(facts, "document", "path"), at(facts, "spec", "data", "source"))))))


def predict_command(model: str, source: str | Sequence[str] | None) -> str:
    """Return the command that predicts the points of a source with the result.json of a run (`model`).

    Its paths are right in every folder.
    """
    names = [source] if isinstance(source, str) else list(source or ["NEW_ROWS.csv"])
    paths = [os.path.abspath(name) if _is_relative(name) else name for name in names]
    return shlex.join(["dssl", "predict", model, *paths, "predicted.csv"])


def _is_relative(name: str) -> bool:
    """Return whether a source is a path or a pattern that depends on the folder in which it is read."""
    return "://" not in name and (os.path.exists(name) or bool(glob(name, recursive=True)))


def _link(name: str) -> Html:
    return tag("a", name, href=name)


def spec_section(facts: dict[str, Any], result: dict[str, Any]) -> Section:
    """Return the spec and the libraries; where they are not known, where they are."""
    checked, libraries = facts.get("spec"), facts.get("libraries") or {}
    text = yaml.safe_dump(checked, sort_keys=False, allow_unicode=True, width=100) if checked else None
    shown = tag("pre", text) if text else tag("p", "The spec is in spec.json beside this page.")
    versions = table(("library", "version"), sorted(libraries.items())) if libraries else tag(
        "p", "The versions of the libraries are in the manifest.json of each artifact.")
    return Section("spec", "Spec and versions", joined((shown, tag("h3", "Libraries"), versions)))
