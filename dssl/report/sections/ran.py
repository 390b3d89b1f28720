"""What ran: the stages with their time and memory, the pipeline file as it was checked, the versions of libraries."""

from typing import Any

import yaml

from ..markup import ABSENT, counted, duration, finite, joined, number, size, table, tag
from ..page import Section

MOST_STAGES = 200  # rows of the table


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
             tag("meter", value=f"{seconds:.3f}", max=f"{max(spent):.3f}"),
             size(stage.get("predicted_peak_bytes")), size(stage.get("measured_peak_bytes")),
             ABSENT if (ratio := finite(stage.get("ratio"))) is None else f"{ratio:.2f}",
             tag("code", str(stage.get("address", ABSENT))[:24]))
            for stage, seconds in zip(ran[:MOST_STAGES], spent, strict=False)]
    more = tag("p", f"{number(len(ran) - MOST_STAGES)} more stages are in result.json.") \
        if len(ran) > MOST_STAGES else ""
    note = tag("p", "Peak memory is that of a stage's largest step: a task, or a step of the process that ran the "
               "pipeline; how far the process grew. Threads of one process cannot be told apart: where several tasks "
               "ran side by side in one, the measure is theirs together, and there is no ratio.", class_="small")
    model = tag("p", "Model: ", tag("code", result["model"])) if result.get("model") else ""
    head = ("stage", "status", "time", "", "peak memory predicted", "measured", "ratio", "address")
    return Section("stages", "What ran", joined((
        tag("p", summary), table(head, rows, (2, 4, 5, 6)), more, note, model)))


def spec_section(facts: dict[str, Any], result: dict[str, Any]) -> Section:
    """Return the spec and the libraries; where they are not known, where they are."""
    checked, libraries = facts.get("spec"), facts.get("libraries") or {}
    text = yaml.safe_dump(checked, sort_keys=False, allow_unicode=True, width=100) if checked else None
    shown = tag("pre", text) if text else tag("p", "The spec is in spec.json beside this page.")
    versions = table(("library", "version"), sorted(libraries.items())) if libraries else tag(
        "p", "The versions of the libraries are in the manifest.json of each artifact.")
    return Section("spec", "Spec and versions", joined((shown, tag("h3", "Libraries"), versions)))
