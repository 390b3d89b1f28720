"""A plan as a table of texts."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.units import size_text, time_text

SIGNS = {"upper": "< ", "lower": "> ", "guess": "~ "}  # before a figure that is not known yet


def table_of(stages: Sequence[Mapping[str, Any]], total: Mapping[str, Any], workers: int,
             in_store: bool) -> tuple[list[str], list[list[str]]]:
    """Return the head of the table and its rows, the last one of the figures that add up.

    stages, total : as `Plan.records` and `Plan.total` return them. in_store : whether requests are counted.
    """
    is_parallel = workers > 1
    rows = [_row_of(stage, is_parallel, in_store) for stage in stages]
    if total["tasks"]:
        sizes = [size_text(total[name]) for name in ("read_bytes", "written_bytes", "peak_bytes")]
        rows.append(["in all", "", "", str(total["tasks"]), *[_count_text(total["requests"])] * in_store, *sizes,
                     time_text(total["core_seconds"]), *[time_text(total["wall_seconds"])] * is_parallel, ""])
    head = ["stage", "status", "why", "tasks", *["requests"] * in_store, "read", "written", "peak memory", "one core",
            *[f"{workers} workers"] * is_parallel, "address"]
    return head, rows


def _row_of(stage: Mapping[str, Any], is_parallel: bool, in_store: bool) -> list[str]:
    sizes = [stage[name] for name in ("read_bytes", "written_bytes", "peak_bytes")]
    seconds = [stage["core_seconds"], *[stage["wall_seconds"]] * is_parallel]
    if stage["status"] == "cached":
        figures = [""] * (len(sizes) + len(seconds))
    else:
        sign = SIGNS[stage["bound"]] if stage["estimated"] else ""
        figures = ["?" if size is None else f"{sign * bool(size)}{size_text(size)}" for size in sizes]
        figures += ["?" if time is None else time_text(time) for time in seconds]
    name = f"{stage['name']} ({stage['graph']})" if "graph" in stage else stage["name"]
    return [name, stage["status"], "refused" if stage["refused"] else stage["why"], str(stage["tasks"] or ""),
            *[_count_text(stage["requests"])] * in_store, *figures, stage["address"][:12]]


def _count_text(count: int | None) -> str:
    if count is None:
        return "?"
    return f"{count:,}" if count else ""
