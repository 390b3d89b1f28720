"""`dssl init`: the first spec of a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from ...base.errors import DataError, require, sentences
from ..options import json_option, memory_option, read_option


@click.command("init")
@click.argument("source", nargs=-1, required=True)
@click.option("--out", default=None, metavar="SPEC", type=click.Path(path_type=Path),
              help="The file to write; it must not exist yet. Default: the name of SOURCE, in this folder, as .yaml.")
@click.option("--target", default=None, metavar="COLUMN",
              help="The column to predict, or none for clustering. Default: a column with the name of a target, else "
                   "the one with by far the most empty cells, else the last one.")
@read_option
@memory_option
@json_option
def init_command(source: tuple[str, ...], out: Path | None, target: str | None, options: dict[str, Any],
                 memory_budget: int | None, as_json: bool) -> None:
    """Examine SOURCE and write a spec with the automatic model for it.

    Comments in the spec give the reasons for the target, the unlabeled rows, the excluded columns, text, empty cells
    and the scaling.

    SOURCE is what `data.source` takes: a path, a pattern such as 'part-*.csv', a folder, a URL or a name.
    """
    from ...execution.in_process import InProcess
    from .first_spec import first_spec
    from .first_target import AmbiguousTarget

    if out is not None:
        _require_new(out)
    execution = InProcess() if memory_budget is None else InProcess().within(memory_budget)
    try:
        spec = first_spec(source, options, execution, target=target)
    except AmbiguousTarget as error:
        if not is_terminal() or as_json or len(error.candidates) < 2:
            raise
        click.echo(sentences(str(error))[1], err=True)
        chosen = click.prompt("Which column is predicted? (none for clusters)", err=True, default=error.candidates[0],
                              type=click.Choice([*error.candidates, "none"]))
        spec = first_spec(source, options, execution, target=chosen)
    path = out or Path(f"{spec.name}.yaml")
    _require_new(path)
    with open(path, "x", encoding="utf-8") as file:
        file.write(spec.text)
    if as_json:
        click.echo(json.dumps({"spec": str(path), "task": spec.task, "target": spec.target, "chosen": spec.messages,
                               "columns": spec.records}, indent=1))
        return
    for line in spec.messages:
        click.echo(line)
    click.echo(f"written: {path}, with these reasons; check it, then: dssl run {path}")


def is_terminal() -> bool:
    """Return whether somebody can answer a question."""
    return sys.stdin.isatty()


def _require_new(path: Path) -> None:
    """Raise DataError where there is such a file, or no folder for it that can be written."""
    from ...storage.files import require_writable

    require(not path.exists(), f"{path} is there already", why="a spec that somebody wrote is not overwritten",
            fix="name another with --out, or remove it", error=DataError)
    require(path.parent.is_dir(), f"there is no folder {path.parent}", why="the spec is written into it",
            fix="make it, or name another with --out", error=DataError)
    require_writable(path, "specs")
