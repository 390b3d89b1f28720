"""What ran: the stages with their time and memory, the pipeline file as it was checked, the versions of libraries."""

import os
import shlex
from collections.abc import Sequence
from glob import glob
from pathlib import PurePath

from ...base.yaml import yaml_text
from ..page import Section, rendered
from ..record import Attributes, RunRecord
from ..text import ABSENT, at, finite, percent

MAX_STAGES = 200  # rows of the table
MIN_COMPARED = 64_000_000  # bytes, of predictions that are compared with what was measured


def _ratio(stage: Attributes) -> str:
    ratio, predicted = finite(stage.get("ratio")), finite(stage.get("predicted_peak_bytes"))
    return ABSENT if ratio is None or predicted is None or predicted < MIN_COMPARED else percent(ratio, 0)


def stages_section(run: RunRecord) -> Section | None:
    """Return the stages of a run in their order."""
    ran = run.result.get("stages") or []
    if not ran:
        return None
    spent = [finite(stage.get("seconds")) or 0.0 for stage in ran]
    rows = [{"name": f"{stage['name']} ({stage['graph']})" if stage.get("graph") else stage.get("name"),
             "status": stage.get("status"), "why": stage.get("why", ABSENT), "seconds": stage.get("seconds"),
             "percent_of_longest": f"{100 * seconds / (max(spent) or 1):.1f}",
             "predicted": stage.get("predicted_peak_bytes"), "measured": stage.get("measured_peak_bytes"),
             "ratio": _ratio(stage), "address": str(stage.get("address", ABSENT))[:24]}
            for stage, seconds in zip(ran, spent, strict=True)]
    return Section("stages", "Stages", rendered(
        "stages.html", rows=rows, max_rows=MAX_STAGES, seconds=sum(spent), peak=run.result.get("peak_rss_bytes"),
        cached=sum(stage.get("status") == "cached" for stage in ran), min_compared=MIN_COMPARED))


def files_section(run: RunRecord) -> Section | None:
    """Return what lies beside the page, and how the model predicts other points; None of a run that is not known."""
    result = run.result
    if not result.get("run") or not result.get("model") or not run.path:
        return None
    unreachable, table_of_all = at(result, "unreachable", "file"), result.get("predictions")
    what = "label or value" if "n_clusters" not in (run.metrics) else "cluster"
    beside = [] if not table_of_all else [(
        PurePath(table_of_all).name, f"the predicted {what} of every row of the source, next to the given one")]
    beside += [("unreachable.csv", "the training points that are unreachable from any label")] if unreachable else []
    beside += [("result.json", "all figures of the run"), ("spec.json", "the validated spec, with all defaults")]
    command = predict_command(run.path, at(run.spec, "data", "source"))
    return Section("files", "Predictions and files", rendered("files.html", beside=beside, command=command))


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


def spec_section(run: RunRecord) -> Section:
    """Return the spec and the libraries; where they are not known, where they are."""
    text = yaml_text(run.spec, width=100) if run.spec else None
    return Section("spec", "Spec and versions", rendered(
        "spec.html", spec=text, libraries=sorted(run.libraries.items())))
