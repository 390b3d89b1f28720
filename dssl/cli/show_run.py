"""What a run is, as text: where it is or how it ended, scores, stages, spec, paths; and which runs there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from ..base.units import size_text, time_text
from ..base.yaml import yaml_text

if TYPE_CHECKING:
    from ..pipeline.inspection import RunDocument, RunListed
    from ..pipeline.result import RunResult


def show_run(document: RunDocument) -> None:
    """Print what `inspect` found of a run."""
    from ..pipeline.load import changed_settings
    from ..pipeline.result import RunResult
    from ..storage.files import path_at

    folder = path_at(document["path"])
    known: Mapping[str, Any] = document.get("progress") or {}
    result = RunResult.of(document, folder) if "stages" in document else None
    name = result.name if result else known.get("name", "?")
    click.echo(f"run {folder.name} of {name}: {_state(result, known)}")
    if result:
        for text in result.verdict:
            click.echo(text)
        head, rows = result.score_rows()
        if rows:
            _print_table("", head, rows)
    error = known.get("error")
    if error:
        click.echo(f"{error['type']}: {error['what']}\n  why: {error['why']}\n  fix: {error['fix']}")
    if result:
        _print_table("Stages", ("stage", "status", "time", "on disk", "address"), [
            (f"{stage.name} ({stage.graph})" if stage.graph else stage.name, stage.status, time_text(stage.seconds),
             size_text(stage.disk_bytes), stage.address[:12]) for stage in result.stages])
    elif known.get("stages"):
        _print_table("Stages that ended", ("stage", "status", "time"), [
            (stage["name"], stage["status"], time_text(stage["seconds"])) for stage in known["stages"]])
    if document["spec"]:
        click.echo("\nSpec, without defaults")
        text = yaml_text(changed_settings(document["spec"]), width=100)
        click.echo("".join(f"  {line}\n" for line in text.splitlines()), nl=False)
    click.echo("\nPaths")
    paths = {"predictions": result and result.predictions, "run": folder,
             "report": result and result.report, "model": result and result.model_path,
             "unreached": result and result.unreached.get("file")}
    for key, path in paths.items():
        if path:
            click.echo(f"  {key:<11} {path}")


def show_runs(runs: Sequence[RunListed]) -> None:
    """Print a line a run."""
    _print_table("", ("run", "name", "status", "on disk", "intermediate"), [
        (run["run"], str(run["name"]), run["status"],
         *("" if size is None else size_text(size) for size in (run["disk_bytes"], run["intermediate_bytes"])))
        for run in runs])


def _state(result: RunResult | None, known: Mapping[str, Any]) -> str:
    if result is None:
        stage = f" in stage {known['stage']}" if known.get("stage") else ""
        return f"{known.get('state', 'unfinished')}{stage}, last seen {known.get('updated', 'never')}"
    ended = "done" if result.status == "done" else f"stopped after {result.until}"
    kept = f", {size_text(result.intermediate_bytes)} of it intermediate" if result.intermediate_bytes else ""
    return f"{ended} in {time_text(result.seconds)}; it keeps {size_text(result.disk_bytes)} of artifacts{kept}"


def _print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in head:
        table.add_column(name, justify="right" if name in ("time", "on disk", "intermediate") else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    if title:
        click.echo(f"\n{title}")
    Console().print(table)
