"""`dssl run`, `plan` and `report`: run a spec, show its plan, and find its report."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

import click
from rich.table import Table

from ..base.errors import DataError, require
from ..base.units import size_text
from .options import (
    IN_PROCESS,
    Outcome,
    console,
    json_option,
    on_option,
    opened,
    output_console,
    planned,
    quiet_option,
    run_argument,
    shaped,
    workspace_option,
)

if TYPE_CHECKING:
    from ..pipeline.plan.plan import Plan
    from ..pipeline.progress import Event
    from ..pipeline.result import RunResult


@click.command("run")
@planned
@on_option
@json_option
@click.option("--wait", default=0.0, is_flag=False, flag_value="inf", metavar="[SECONDS]",
              type=click.FloatRange(min=0),
              help="If another run is using the workspace, wait for it: at most this many seconds, or, without a "
                   "number, until it ends.")
@click.option("--keep", default="all", show_default=True, type=click.Choice(["all", "results"]),
              help="What to keep in the workspace when the run is done. With `results`, only what predict, "
                   "suggest and report need is kept.")
@quiet_option
@click.pass_obj
def run_command(outcome: Outcome, made: Plan, runtime: str | None, as_json: bool, quiet: bool, wait: float,
                keep: Literal["all", "results"]) -> None:
    """Run the pipeline SPEC. Results of earlier runs are reused where nothing has changed."""
    from ..pipeline.run import run
    from .progress import Activity, Reporter

    made.require_fits()  # before a cluster starts
    if runtime is None and made.is_small:
        runtime = IN_PROCESS  # done before workers are there
    elif all(stage.status == "cached" for stage in made.selected):
        runtime = IN_PROCESS  # nothing will be computed, so no cluster starts
    with ExitStack() as stack:
        with Activity("starting", console, quiet=quiet):
            execution, where = stack.enter_context(opened(runtime, made.budget))
        reporter = stack.enter_context(Reporter(where, console, quiet=quiet))

        def on_event(event: Event) -> None:
            outcome.on_event(event)
            reporter.on_event(event)

        result = run(made, execution=execution, events=on_event, wait=wait, keep=keep)
    if as_json:
        click.echo(json.dumps(result.to_dict(), indent=1))
    elif result.status == "stopped":
        click.echo(f"{result.name}: stopped after {result.until}")
    else:
        _print_result(result)


def _print_result(result: RunResult) -> None:
    out, (head, rows) = output_console(), result.score_rows()
    if rows:
        tests = f": {result.metrics['n_test']} test points" if "n_test" in result.metrics else ""
        table = Table(*head, title=f"{result.name}{tests}")
        for row in rows:
            table.add_row(*row)
        out.print(table)
    for sentence in result.verdict:
        out.print(sentence, highlight=False)
    if result.predictions:
        out.print(f"predictions of all rows: {result.predictions}", soft_wrap=True, highlight=False)
    if count := result.unreachable.get("count"):
        points = "point is" if count == 1 else "points are"
        out.print(f"{count} {points} unreachable from any label, perhaps a group that nobody has labeled; label some: "
                  f"{result.unreachable['file']}", soft_wrap=True, highlight=False)
    out.print(f"report: {result.report}", soft_wrap=True, highlight=False)
    disk_use = f"kept: {size_text(result.disk_bytes)} in {result.workspace}"
    if result.intermediate_bytes:
        disk_use += (f"; `dssl gc --intermediate --yes --workspace {shlex.quote(str(result.workspace))}` frees "
                 f"{size_text(result.intermediate_bytes)}")
    out.print(disk_use, soft_wrap=True, highlight=False)


@click.command("plan")
@planned
@shaped
@json_option
@click.pass_context
def plan_command(ctx: click.Context, made: Plan, as_json: bool) -> None:
    """Show what a run of SPEC would do: which stages are cached, partial or to run, why, and what they cost.

    Bytes are those of arrays before compression, and peak memory is that of the largest task. "<" marks an upper bound:
    the figure depends on the output of an earlier stage. ">" marks a lower bound, of a stage whose upper bound does not
    fit. "~" marks a guess. Times are estimates for this machine, whose speed is measured once. For stages that earlier
    runs in the workspace have made, they follow from the time that these took.

    The exit code is 1 if a run would be refused, for example because a stage does not fit the memory budget or
    --memory.
    """
    click.echo(json.dumps(made.to_dict(), indent=1)) if as_json else _print_plan(made)
    if made.refused:
        ctx.exit(1)


def _print_plan(made: Plan) -> None:
    head, rows = made.rows()
    table = Table(*head[:3], box=None)
    for title in head[3:]:
        table.add_column(title, justify="left" if title == "address" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    out = output_console(piped_width=160)
    out.print(table)
    for note in made.notes():
        out.print(note, soft_wrap=True)


@click.command("report")
@run_argument
@workspace_option
def report_command(name: str | None, workspace: str) -> None:
    """Print the path of a report: that of RUN (its folder, result.json or identity), or the newest."""
    from ..pipeline.submission import find_run
    from ..storage.artifacts import Workspace

    opened = Workspace.at(workspace)
    folders = opened.runs if name is None else [find_run(opened, name)]
    reports = sorted((report for folder in folders if (report := folder / "report.html").is_file()),
                     key=lambda path: path.stat().st_mtime_ns)
    require(bool(reports), f"{workspace if name is None else folders[0]} has no report", error=DataError,
            why="a report is written at the end of a run", fix="run a pipeline first, or check --workspace")
    click.echo(str(reports[-1]))
