"""`dssl suggest`: which rows to label next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from ..errors import require
from .options import json_option, memory_option, quiet_option, working, workspace_option

if TYPE_CHECKING:
    from ..pipeline.suggested_rows import SuggestedRows

SHOWN = 20  # rows of the table
MOST_CELLS = 6  # of a row that are printed; the file has all


@click.command("suggest")
@click.argument("run", metavar="RUN|SPEC")
@click.option("--count", default=10, show_default=True, help="How many rows.")
@click.option("--criterion", default="auto", show_default=True, metavar="NAME",
              help="variance, v_optimality, sigma_optimality, coverage, uncertainty, model_change_v_optimality; or "
                   "auto, the last of these where the model tells classes apart and has a graph.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A CSV file that is not there yet.")
@click.option("--seed", default=0, show_default=True, help="Of the draws of coverage.")
@workspace_option
@memory_option
@quiet_option
@json_option
def suggest_command(run: str, count: int, criterion: Any, out: Path, seed: int, workspace: str,
                    memory_budget: int | None, quiet: bool, as_json: bool) -> None:
    """Write to OUT which rows to label next, the best first, with what the model of a run says of them.

    RUN is the folder, the result.json or the identity of a run; SPEC a pipeline file (.yaml) that has been run.
    Fill in the column `label` of OUT and name it in the next run, beside the files of earlier rounds, as the last line
    says: its labels are shown beside those of this run, and a class that is new becomes one.
    """
    from ..pipeline.suggested_rows import require_new
    from ..pipeline.suggestion import suggest_rows

    require(out.suffix == ".csv", f"{out} ends in {out.suffix or 'nothing'}", why="rows to label are a table",
            fix="name a .csv file")
    require(out.parent.is_dir(), f"there is no folder {out.parent}", why="the rows are written into it",
            fix="make it, or name another file")
    require_new(out)  # before work begins
    with working("suggest", "in-process", memory_budget, quiet) as execution:
        found = suggest_rows(run, execution, count=count, criterion=criterion, seed=seed, workspace=workspace)
    found.write(out)
    if as_json:
        click.echo(json.dumps({"out": str(out), **found.attributes, "rows": found.records()}))
        return
    _print_rows(found)
    click.echo(f"{count} rows by {found.attributes['criterion']} in {out}. Rows count from 0, lines of a file from 1. "
               f"Fill in the column label, then run again with --set {found.next_files(out)}; the rows after these are "
               "suggested by that run, whose folder `dssl suggest` takes, or by the spec with this labels.file in it")


def _print_rows(found: SuggestedRows) -> None:
    """Print the first rows: where they stand, what is predicted of them, and as many of their cells as fit."""
    records = found.records()[:SHOWN]
    several = len({record.get("file") for record in records}) > 1
    lines = any(record.get("line") for record in records)
    head = [*(["identifier"] if found.identifier else []), "row", *(["file"] if several else []),
            *(["line"] if lines else []), "score", "predicted", "probability"]
    columns = [name for name in found.columns if name != found.identifier][:MOST_CELLS]
    table = Table(*(found.identifier or name if name == "identifier" else name for name in head), *columns, box=None)
    for record in records:
        cells = [record[name] for name in head] + [record["cells"][name] for name in columns]
        table.add_row(*("" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
                        for value in cells))
    Console().print(table)
