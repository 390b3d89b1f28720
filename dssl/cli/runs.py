"""`dssl run`, `plan` and `report`: what a spec becomes."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from ..errors import DataError, require
from .options import console, json_option, on_option, planned, shaped, size_text, time_text, workspace_option

if TYPE_CHECKING:
    from ..pipeline.plan import Plan


@click.command("run")
@planned
@on_option
@json_option
@click.option("--wait", default=0.0, is_flag=False, flag_value="inf", metavar="[SECONDS]",
              type=click.FloatRange(min=0),
              help="Wait for another run in the workspace: so many seconds, or as long as it takes.")
@click.option("--quiet", is_flag=True, help="Tell nothing of the progress.")
def run_command(made: Plan, runtime: str | None, as_json: bool, quiet: bool, wait: float) -> None:
    """Run the pipeline SPEC; what an earlier run made is used again."""
    from ..pipeline.run import run
    from ..progress import Reporter
    from ..runtime.start import open_runtime

    made.require_fits()  # before a cluster is started
    if all(stage.status == "cached" for stage in made.selected):
        runtime = "in-process"  # nothing will be computed, so nothing is started
    with open_runtime(runtime, made.budget) as (execution, where), Reporter(where, console, quiet=quiet) as reporter:
        result = run(made, execution=execution, events=reporter.tell, wait=wait)
    if as_json:
        click.echo(json.dumps(result, indent=1))
    elif result["status"] == "stopped":
        click.echo(f"{result['name']}: stopped after {result['until']}")
    else:
        _print_result(result)


def _print_result(result: dict[str, Any]) -> None:
    from ..report.error_measure import gain_over, measure_of

    out, metrics = Console(), result.get("metrics")
    if metrics and "n_clusters" in metrics:
        table = Table("", "clusters", "accuracy", "nmi", "ari", title=result["name"])
        for name, scores in {"model": metrics, **result["baselines"]}.items():
            table.add_row(name, str(scores["n_clusters"]), *(f"{scores[key]:.3f}" if key in scores else ""
                                                             for key in ("accuracy", "nmi", "ari")))
        out.print(table)
    elif metrics:
        by = measure_of(metrics)
        table = Table("", by.name, "gain over it", by.test, title=f"{result['name']}: {metrics['n_test']} test points")
        for name, scores in {"model": metrics, **result["baselines"]}.items():
            table.add_row(name, by.with_deviation(scores), *gain_over(name, result))
        out.print(table)
        if "unlabeled_data" in result["gain"]:
            out.print(f"unlabeled data: {result['gain']['unlabeled_data']}")
    if result.get("unreached", {}).get("count"):
        out.print(f"{result['unreached']['count']} points are in no component with a label: "
                  f"{result['unreached']['file']}", soft_wrap=True)
    out.print(f"report: {result['report']}", soft_wrap=True)


@click.command("plan")
@planned
@shaped
@json_option
@click.pass_context
def plan_command(ctx: click.Context, made: Plan, as_json: bool) -> None:
    """Show what a run of SPEC would do: which stages are cached, partial, or to run, why, and what they take.

    Bytes are those of arrays before compression, peak memory that of the largest task. "<" marks a figure that follows
    from something an earlier stage has yet to find, taken from above; ">" one from below, of a stage that does not fit
    by the most that this may be. Times are estimates from rates that were measured on one core.

    Exit code 1 where a run would be refused because a stage cannot fit the memory budget, or --memory.
    """
    click.echo(json.dumps(made.to_dict(), indent=1)) if as_json else _print_plan(made)
    if made.refused:
        ctx.exit(1)


def _print_plan(made: Plan) -> None:
    stages, total = [stage.to_dict(made.workers) for stage in made.selected], made.total()
    several = made.workers > 1
    table = Table("stage", "status", "why", box=None)
    for title in ("tasks", "read", "written", "peak memory", "one core", *([f"{made.workers} workers"] * several)):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("address", no_wrap=True)
    for stage in stages:
        sign = "" if not stage["estimated"] else "< " if stage["bound"] == "most" else "> "
        is_cached = stage["status"] == "cached"
        sizes = ["" if is_cached else "?" if size is None else f"{sign * bool(size)}{size_text(size)}"
                 for size in (stage["read_bytes"], stage["written_bytes"], stage["peak_bytes"])]
        times = ["" if is_cached else "?" if seconds is None else time_text(seconds)
                 for seconds in (stage["core_seconds"], *([stage["wall_seconds"]] * several))]
        name = f"{stage['name']} ({stage['graph']})" if "graph" in stage else stage["name"]
        table.add_row(name, stage["status"], "refused" if stage["refused"] else stage["why"], str(stage["tasks"] or ""),
                      *sizes, *times, stage["address"][:12])
    if total["tasks"]:
        table.add_row("in all", "", "", str(total["tasks"]), size_text(total["read_bytes"]),
                      size_text(total["written_bytes"]), size_text(total["peak_bytes"]),
                      time_text(total["core_seconds"]), *([time_text(total["wall_seconds"])] * several), "")
    out = Console(width=None if sys.stdout.isatty() else 160)
    out.print(table)
    estimated = sorted({name for stage in stages for name in stage["estimated"]})
    if estimated:
        out.print(f"<: taken from above until a stage has found it: {', '.join(estimated)}")
    if any(stage["bound"] == "least" for stage in stages):
        out.print(">: from below, since the most that this may be does not fit the memory budget")
    for item in made.refused:
        out.print(f"refused: {item.refused}", markup=False, soft_wrap=True)


@click.command("report")
@click.argument("run_id", required=False)
@workspace_option
def report_command(run_id: str | None, workspace: str) -> None:
    """Print the path of a run's report (the newest by default)."""
    from ..storage.artifacts import Workspace

    reports = sorted(Workspace.at(workspace).root.glob(f"runs/{run_id or '*'}/report.html"),
                     key=lambda path: path.stat().st_mtime_ns)
    require(bool(reports), f"no report of run {run_id or '(any)'} in {workspace}", error=DataError,
            why="a report is written at the end of a run", fix="run a pipeline first, or check --workspace")
    click.echo(str(reports[-1]))
