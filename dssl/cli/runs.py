"""`dssl run`, `plan`, `report` and `suggest`: run a spec, show its plan, find its report, choose rows to label."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack, suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from rich.table import Table

from ..base.errors import DataError, require
from ..base.units import size_text
from .options import (
    IN_PROCESS,
    Outcome,
    PathType,
    console,
    json_option,
    keep_option,
    memory_option,
    on_option,
    opened,
    output_console,
    planned,
    quiet_option,
    run_argument,
    safe_csv_option,
    shaped,
    working,
    workspace_option,
)

if TYPE_CHECKING:
    from ..pipeline.plan.plan import Plan
    from ..pipeline.progress import Event
    from ..pipeline.result import RunResult
    from ..pipeline.suggested_rows import SuggestedRows


@click.command("run")
@planned
@on_option
@json_option
@click.option("--wait", default=0.0, is_flag=False, flag_value="inf", metavar="[SECONDS]",
              type=click.FloatRange(min=0),
              help="If another run is using the workspace, wait for it: at most this many seconds, or, without a "
                   "number, until it ends.")
@keep_option
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


SHOWN = 20  # rows of the table
WIDTH, MAX_CELL = 80, 16  # characters of the table without a terminal, and of a cell; the file has the whole cells


@click.command("suggest")
@click.argument("run", metavar="RUN|SPEC")
@click.option("--count", default=10, show_default=True, help="How many rows.")
@click.option("--criterion", default="auto", show_default=True, metavar="NAME",
              help="variance, v_optimality, sigma_optimality, coverage, uncertainty, model_change_v_optimality, or "
                   "auto. For a classifier with a graph, auto is model_change_v_optimality, which prefers uncertain "
                   "rows that many other rows are near.")
@click.option("--set", "overrides", multiple=True, metavar="KEY.KEY=VALUE",
              help="A value that the run of SPEC was given with --set; may be repeated.")
@click.option("--out", required=True, type=PathType(), help="The CSV file to write; it must not exist yet.")
@click.option("--random-state", default=0, show_default=True,
              help="Seed of the random draws of the criterion coverage.")
@safe_csv_option
@workspace_option
@memory_option
@quiet_option
@json_option
def suggest_command(run: str, count: int, criterion: Any, overrides: tuple[str, ...], out: Path, random_state: int,
                    safe_csv: bool, workspace: str, memory_budget: int | None, quiet: bool, as_json: bool) -> None:
    """Select the rows to label next, and write them to OUT with their predictions, the best row first.

    RUN is the folder, the result.json or the identity of a run; SPEC is a pipeline file (.yaml) that has been run.
    Fill in the column `label` of OUT. Then name OUT in the next run, together with the files of earlier rounds, as the
    last line of the output says. The next run learns from these labels as well as from those of this run, and a new
    label becomes a class.
    """
    from ..pipeline.plan.plan import DEFAULT_WORKSPACE
    from ..pipeline.suggested_rows import require_new
    from ..pipeline.suggestion import YAML, suggest_rows
    from ..storage.files import has_folder, require_writable

    require(out.suffix == ".csv", f"{out} ends in {out.suffix or 'nothing'}", why="rows to label are a table",
            fix="name a .csv file")
    require(has_folder(out), f"there is no folder {out.parent}", why="the rows are written into it",
            fix="create it, or name another file")
    require_new(out)  # before work begins
    require_writable(out, "rows to label")
    with working("suggest", "in-process", memory_budget, quiet) as execution:
        suggested = suggest_rows(run, execution, count=count, criterion=criterion, random_state=random_state,
                             workspace=workspace, overrides=overrides)
    suggested.write(out, safe_csv)
    if as_json:
        click.echo(json.dumps({"out": str(out), **suggested.attributes, "rows": suggested.records()}))
        return
    _print_rows(suggested)
    settings = [text for text in overrides if not text.startswith("labels.file=")]
    spec = shlex.quote(run if Path(run).suffix in YAML else "SPEC.yaml")
    again = "".join(f" --set {text}" for text in (*map(shlex.quote, settings), suggested.next_files(out)))
    again += f" --workspace {shlex.quote(workspace)}" if workspace != DEFAULT_WORKSPACE else ""
    click.echo(f"{count} rows in {out}, {suggested.attributes['in_words']}. Rows count from 0, lines of a file "
               f"from 1. Fill in the column label{f' and the column {suggested.weight}' if suggested.weight else ''}, "
               "then:")
    click.echo(f"  dssl run {spec}{again}")
    click.echo("For the rows after these, give `dssl suggest` the folder of that run, or the same --set.")


def _print_rows(suggested: SuggestedRows) -> None:
    """Print the first rows: their position in the source, their predictions, and as many of their cells as fit."""
    records = suggested.records()[:SHOWN]
    several = len({record.get("file") for record in records}) > 1
    lines = any(record.get("line") for record in records)
    head = [*(["identifier"] if suggested.identifier else []), "row", *(["file"] if several else []),
            *(["line"] if lines else []), "score", "predicted",
            *(["probability"] if any(record["probability"] is not None for record in records) else [])]
    columns = [name for name in suggested.columns if name != suggested.identifier]
    named = [suggested.identifier or name if name == "identifier" else name for name in head]
    rows = [[_shown(value) for value in [*(record[name] for name in head),
                                         *(record.get("cells", {}).get(name) for name in columns)]]
            for record in records]
    widths = [max(map(len, cells)) + 2 for cells in zip([_shown(name) for name in (*named, *columns)], *rows,
                                                        strict=True)]
    console = output_console(piped_width=WIDTH)
    count = max(len(head), sum(end <= console.width for end in accumulate(widths)))
    table = Table(box=None, pad_edge=False)
    for name in [*named, *columns][:count]:
        table.add_column(_shown(name), no_wrap=True)
    for row in rows:
        table.add_row(*row[:count])
    console.print(table)
    if len(columns) > count - len(head):
        click.echo(f"({len(columns) - (count - len(head))} more columns are in the file)")


def _shown(value: object) -> str:
    """Return the text of a cell of the table, shortened if it is long."""
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    if "." in text and len(text) > MAX_CELL // 2:
        with suppress(ValueError):
            text = f"{float(text):.4g}"
    return text if len(text) <= MAX_CELL else f"{text[:MAX_CELL - 1]}…"
