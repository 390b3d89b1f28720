"""`dssl verify`, `inspect`, `gc` and `doctor`: check, show and clean a workspace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from ..base.errors import DataError, SpecError, require
from ..base.units import size_text, time_text
from ..base.yaml import yaml_text
from .options import console, json_option, on_option, output_console, workspace_option

if TYPE_CHECKING:
    from ..pipeline.contents import RunDocument, RunListed
    from ..pipeline.result import RunResult


@click.command("verify")
@workspace_option
@json_option
def verify_command(workspace: str, as_json: bool) -> None:
    """Read every stored byte of the workspace, and stop at the first that is missing or damaged (exit code 3).

    The command also reads the finished parts of artifacts that an interrupted run has left unfinished, and looks for
    all artifacts of the runs that are done.
    """
    from ..pipeline.contents import require_artifacts
    from ..storage.artifacts import Workspace
    from .progress import Activity

    opened = Workspace.at(workspace)
    with Activity("verify", console):
        checked, parts = opened.verify(), opened.verify_unfinished()
        require_artifacts(opened)
    require(checked + parts > 0, f"{workspace} holds no artifacts", error=DataError,
            why="nothing could be verified", fix="check --workspace, or run a pipeline first")
    unfinished = f", and so are {parts} finished parts of unfinished ones" if parts else ""
    click.echo(json.dumps({"artifacts": checked, "unfinished_parts": parts}) if as_json else
               f"{checked} artifacts are as they were written{unfinished}")


@click.command("gc")
@workspace_option
@click.option("--keep-runs", default=None, metavar="N", type=click.IntRange(min=0),
              help="Keep the newest N runs and remove the others; by default all runs are kept.")
@click.option("--drop", multiple=True, metavar="RUN", help="Remove this run; may be repeated.")
@click.option("--intermediate", is_flag=True,
              help="Also remove the intermediate artifacts of finished runs, which only later stages read. predict, "
                   "suggest and report still work, and a run makes again what it needs.")
@click.option("--yes", is_flag=True, help="Remove everything that is listed.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing (the default).")
@json_option
def gc_command(workspace: str, keep_runs: int | None, drop: tuple[str, ...], intermediate: bool, yes: bool,
               dry_run: bool, as_json: bool) -> None:
    """Remove artifacts that no run needs, unfinished artifacts of stopped runs, and scratch files.

    Without --yes, the command lists them with their sizes and removes nothing. Artifacts that an estimator kept in the
    workspace belong to no run.
    """
    from ..pipeline.contents import collect_garbage, find_garbage
    from ..report.text import counted
    from ..storage.artifacts import Workspace

    require(not (yes and dry_run), "--yes and --dry-run", error=SpecError, why="one removes, the other does not",
            fix="leave one of them out")
    opened = Workspace.at(workspace)
    require(opened.root.is_dir(), f"there is no workspace {workspace}", error=DataError, why="nothing can be removed",
            fix="check --workspace")
    gc = collect_garbage if yes else find_garbage
    garbage = gc(opened, keep_runs=keep_runs, drop=drop, intermediate=intermediate)
    if as_json:
        click.echo(json.dumps({"removed": yes, **garbage.to_dict()}, indent=1))
        return
    table = Table("what", "stage", "folder", box=None)
    table.add_column("on disk", justify="right", no_wrap=True)
    for item in sorted(garbage.items, key=lambda item: -item.size):
        table.add_row(item.what, item.stage, item.path.name, size_text(item.size))
    out = output_console()
    if garbage.items:
        out.print(table)
    summary = (f"{counted(len(garbage.kept), 'run')} {'is' if len(garbage.kept) == 1 else 'are'} kept, with "
               f"{size_text(garbage.kept_bytes)} of artifacts")
    if garbage.intermediate_bytes:
        summary += f"; {size_text(garbage.intermediate_bytes)} of it is intermediate: --intermediate"
    verb = "removed" if yes else "can be removed"
    out.print(f"{size_text(garbage.size)} in {counted(len(garbage.items), 'folder')} {verb}; {summary}", soft_wrap=True)
    if garbage.items and not yes:
        out.print("add --yes to remove it")


@click.command("inspect")
@click.argument("name", metavar="[PATH|ADDRESS|STAGE|RUN]", required=False)
@workspace_option
@json_option
def inspect_command(name: str | None, workspace: str, as_json: bool) -> None:
    """Show a run, or an artifact: its parameters, inputs, arrays, attributes and bytes on disk.

    Without a name, list all runs and what they keep.
    """
    from ..pipeline.contents import inspect, runs_of
    from ..storage.artifacts import Workspace

    if name is None:
        opened = Workspace.at(workspace)
        runs = runs_of(opened)
        if as_json:
            click.echo(json.dumps(runs, indent=1))
        elif runs:
            _show_runs(runs)
        else:
            click.echo(f"{opened.root} has no runs; --workspace names another workspace")
        return
    document = inspect(name, Workspace.at(workspace))
    if as_json:
        click.echo(json.dumps(document, indent=1))
        return
    if document["kind"] == "run":
        _show_run(document)
        return
    out, arrays = output_console(), document.pop("arrays", [])
    for key, value in document.items():
        text = size_text(document["bytes_on_disk"]) if key == "bytes_on_disk" else (
            value if isinstance(value, str) else json.dumps(value))
        out.print(f"{key:>14}  {text if len(text) < 2000 else text[:2000] + ' ... (--json shows all)'}",
                  highlight=False, soft_wrap=True)
    if arrays:
        table = Table("array", "shape", "dtype", "chunks", "bytes", "on disk", box=None)
        for array in arrays:
            table.add_row(array["name"], " x ".join(map(str, array["shape"])), array["dtype"],
                          " x ".join(map(str, array["chunks"])), size_text(array["bytes"]),
                          size_text(array["bytes_on_disk"]))
        out.print(table)


def _show_run(document: RunDocument) -> None:
    """Print the document of a run that `inspect` returned."""
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
             "unreachable": result and result.unreachable.get("file")}
    for key, path in paths.items():
        if path:
            click.echo(f"  {key:<11} {path}")


def _show_runs(runs: Sequence[RunListed]) -> None:
    """Print a line for each run."""
    _print_table("", ("run", "name", "status", "on disk", "intermediate"), [
        (run["run"], run["name"] or "", run["status"],
         *("" if size is None else size_text(size) for size in (run["disk_bytes"], run["intermediate_bytes"])))
        for run in runs])


def _state(result: RunResult | None, known: Mapping[str, Any]) -> str:
    if result is None:
        stage = f" in stage {known['stage']}" if known.get("stage") else ""
        return f"{known.get('state', 'unfinished')}{stage}, last seen {known.get('updated', 'never')}"
    ended = "done" if result.status == "done" else f"stopped after {result.until}"
    intermediate = f", {size_text(result.intermediate_bytes)} of it intermediate" if result.intermediate_bytes else ""
    return f"{ended} in {time_text(result.seconds)}; it keeps {size_text(result.disk_bytes)} of artifacts{intermediate}"


def _print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False)
    for i, name in enumerate(head):
        is_size = name in ("time", "on disk", "intermediate")
        table.add_column(name, justify="right" if is_size else "left", no_wrap=is_size or i == 0 or name == "address")
    for row in rows:
        table.add_row(*row)
    if title:
        click.echo(f"\n{title}")
    output_console().print(table)


@click.command("doctor")
@workspace_option
@on_option
@click.option("--source", default=None, help="Data that the workers of --on must see in the same way as this machine.")
@json_option
@click.pass_context
def doctor_command(ctx: click.Context, workspace: str, runtime: str | None, source: str | None, as_json: bool) -> None:
    """Check this machine, the workspace, and with --on a cluster; exit code 1 if there is a problem."""
    from .doctor import examine, worst

    colors = {"ok": "green", "warning": "yellow", "problem": "red"}
    checks = []
    for check in examine(workspace, runtime, source):
        checks.append(check)
        if not as_json:
            click.echo(f"{click.style(f'{check.level:>8}', fg=colors[check.level])}  {check.name}: {check.state}"
                       + (f"\n          fix: {check.fix}" if check.fix else ""))
    if as_json:
        click.echo(json.dumps({"status": worst(checks), "checks": [asdict(check) for check in checks]}, indent=1))
    if worst(checks) == "problem":
        ctx.exit(1)
