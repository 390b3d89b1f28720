"""`dssl suggest`: which rows to label next."""

from __future__ import annotations

import json
import shlex
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from ..base.errors import require
from .options import (
    PathType,
    json_option,
    memory_option,
    output_console,
    quiet_option,
    safe_csv_option,
    working,
    workspace_option,
)

if TYPE_CHECKING:
    from ..pipeline.suggested_rows import SuggestedRows

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
