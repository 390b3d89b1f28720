"""`dssl schedule`: runs at certain times, which cron, systemd, Slurm or Kubernetes starts."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..base.digest import JsonObject
from ..base.errors import ClusterError, DsslError, SpecError, exit_code_of, require
from .options import console, json_option, require_folder, workspace_option
from .submit import fitted_plan, submit_plan, wait_for_end

if TYPE_CHECKING:
    from ..runtime.engine import Engine
    from ..runtime.schedules import Scheduled

ENVIRONMENT = ("DSSL_DATA", "SLURM_CONF", "PATH")  # variables that every firing gets with their present values


class Schedules(click.Group):
    """Calls `add` if the first word is not one of its commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        known = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if known else ["add", *args])


@click.group("schedule", cls=Schedules)
def schedule_command() -> None:
    """Run a pipeline again and again: `dssl schedule SPEC --on WHERE --at TIMES --to cron`, `list`, `remove NAME`."""


@schedule_command.command("add")
@click.argument("spec", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--on", "where", required=True, metavar="WHERE",
              help="Where each run is submitted: see `dssl submit --help`.")
@click.option("--at", required=True, metavar="TIMES", help='When, as cron writes it: "0 2 * * *" is two at night.')
@click.option("--to", "to", required=True, type=click.Choice(["cron", "systemd", "slurm", "kubernetes"]),
              help="Which service starts the runs.")
@click.option("--set", "overrides", multiple=True, metavar="KEY.KEY=VALUE", help="Set one value of the spec.")
@click.option("--retries", default=2, show_default=True, type=click.IntRange(min=0),
              help="How many times a failed run is repeated, after 1, 2, 4, ... minutes.")
@click.option("--on-failure", default=None, metavar="COMMAND",
              help="A shell command that is run once when all attempts have failed, and not again until one succeeds.")
@click.option("--install", is_flag=True, help="Install the job. Without this option, the job is only printed.")
@workspace_option
def add_command(spec: Path, where: str, at: str, to: str, overrides: tuple[str, ...], retries: int,
                on_failure: str | None, install: bool, workspace: str) -> None:
    """Run SPEC at certain times (with Kubernetes, in UTC), and print the job for cron, systemd, Slurm or Kubernetes.

    If nothing has changed since the last run, a scheduled run says so and ends. It is skipped if an earlier one is
    still running.
    """
    from ..pipeline.load import load_spec
    from ..pipeline.schedule import Schedule
    from ..runtime.schedules import Times
    from ..runtime.start import SCHEDULERS, load_runtime
    from ..storage.artifacts import Workspace

    times = Times.of(at)
    load_spec(spec, overrides)
    engine = load_runtime(where).engine()
    opened, path = Workspace.at(workspace), Path(where)
    require_folder(opened, "dssl schedule")
    fields = {
        "spec": str(spec.resolve()), "set": list(overrides), "on": str(path.resolve()) if path.is_file() else where,
        "at": times.text, "to": to, "retries": retries, "on_failure": on_failure, "cwd": os.getcwd(),
        "python": sys.executable,
        # A pod has its own variables.
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ and to != "kubernetes"}}
    schedule = Schedule.of(opened, fields)
    scheduler, scheduled = SCHEDULERS[to], _scheduled(schedule.folder, fields, engine)
    files = scheduler.render(scheduled)
    for name, text in files.items():
        click.echo(text if len(files) == 1 else f"# {name}\n{text}", nl=len(files) > 1)
    if not install:
        click.echo("nothing was installed; the job works once --install has stored the schedule in the workspace",
                   err=True)
        return
    with schedule.kept(fields, files) as paths:
        scheduler.install(scheduled, paths)
    click.echo(f"installed as {schedule.folder.name}: {times.in_words()}, next at "
               f"{times.after(datetime.now(scheduler.zone)):%Y-%m-%d %H:%M}"
               f"{' UTC' if scheduler.zone else ''}; the log is {scheduled.log}", err=True)


@schedule_command.command("list")
@workspace_option
@json_option
def list_command(workspace: str, as_json: bool) -> None:
    """List the schedules of the workspace, and check that cron, systemd, Slurm or Kubernetes still has each of them."""
    from ..pipeline.schedule import Schedule
    from ..runtime.schedules import Times
    from ..runtime.start import SCHEDULERS
    from ..storage.artifacts import Workspace

    schedules = []
    for schedule in Schedule.all(Workspace.at(workspace)):
        fields, name = schedule.fields, schedule.folder.name
        times, scheduler = Times.of(fields["at"]), SCHEDULERS[fields["to"]]
        installed = None
        try:
            installed = scheduler.has(name, schedule.folder)
        except ClusterError as error:
            console.print(f"warning: {name}: {str(error).splitlines()[0]}")
        schedules.append({"name": name, "spec": fields["spec"], "at": fields["at"], "to": fields["to"],
                      "next": times.after(datetime.now(scheduler.zone)).isoformat(timespec="minutes"),
                      "installed": installed, "failing": (schedule.folder / "failed.json").is_file()})
    if as_json:
        click.echo(json.dumps(schedules, indent=1))
    elif not schedules:
        click.echo(f"{Workspace.at(workspace).root} has no schedules; --workspace names another workspace")
    for row in schedules if not as_json else ():
        state = {True: f"next {row['next']}", None: f"next {row['next']} if it is still installed",
                 False: "not installed any more: add it again, or remove it"}[row["installed"]]
        click.echo(f"{row['name']}  {row['at']} by {row['to']}, {state}"
                   f"{'; its last run failed' if row['failing'] else ''}")


@schedule_command.command("remove")
@click.argument("name")
@workspace_option
def remove_command(name: str, workspace: str) -> None:
    """Stop running the schedule NAME. Runs that it has started are kept."""
    from ..pipeline.schedule import Schedule
    from ..runtime.start import SCHEDULERS
    from ..storage.artifacts import Workspace

    schedule = Schedule.find(Workspace.at(workspace), name)
    SCHEDULERS[schedule.fields["to"]].remove(name, schedule.folder)
    shutil.rmtree(schedule.folder)
    click.echo(f"{name} is removed; its runs are kept")


def _scheduled(folder: Path, fields: Mapping[str, Any], engine: Engine) -> Scheduled:
    from ..runtime.schedules import Scheduled, Times

    command = (fields["python"], "-m", "dssl")
    return Scheduled(folder.name, Times.of(fields["at"]), folder, (*command, "fire", str(folder)),
                     (*command, "due", str(folder)), engine, Path(fields["cwd"]),
                     tuple(Path(fields[key]) for key in ("spec", "on")))


# ---- commands that cron, systemd and Slurm start


@click.command("due", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
def due_command(folder: Path) -> None:
    """Print when the schedule in FOLDER is due next."""
    from ..pipeline.schedule import Schedule
    from ..runtime.schedules import Times

    times = Times.of(Schedule(folder).fields["at"])
    click.echo(times.after(datetime.now()).isoformat(timespec="seconds"))


@click.command("fire", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def fire_command(ctx: click.Context, folder: Path) -> None:
    """Run the spec of the schedule in FOLDER, unless nothing has changed or an earlier firing is still at work."""
    from ..pipeline.schedule import Schedule

    schedule = Schedule(folder)
    require(folder.is_dir(), f"there is no schedule in {folder}", error=SpecError,
            why="it was removed, or `dssl schedule` ran without --install",
            fix="remove its entry from cron, systemd or Slurm, or run `dssl schedule` with --install")
    fields = schedule.fields
    os.environ.update(fields["environment"])
    os.chdir(fields["cwd"])
    with schedule.alone() as is_alone:
        if not is_alone:
            _say("the previous scheduled run has not ended: this one is skipped")
            return
        ctx.exit(schedule.fire(lambda: _attempt(folder.parents[1], fields), _say))


def _attempt(workspace: Path, fields: JsonObject) -> int:
    """Submit the spec unless nothing has changed; return the exit code of its run."""
    from ..pipeline.load import load_spec
    from ..pipeline.plan.plan import plan
    from ..runtime.start import load_runtime

    try:
        made = plan(load_spec(fields["spec"], fields["set"]), workspace=workspace)
        if all(stage.status == "cached" for stage in made.selected):
            _say("nothing has changed since the last run")
            return 0
        runtime = load_runtime(fields["on"])
        run, is_new = submit_plan(fitted_plan(made, runtime), runtime, "all")
        _say(f"submitted as {run.name}" if is_new else f"{run.name} is already running")
        state, code = wait_for_end(run)
        _say(f"{run.name}: {state['state']}")
        return code
    except DsslError as error:
        _say(f"error: {error}")
        return error.exit_code
    except Exception as error:  # any error is a failed attempt, which is reported and repeated
        _say(f"error: {type(error).__name__}: {error}\n{traceback.format_exc()}")
        return exit_code_of(error)


def _say(text: str) -> None:
    click.echo(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}")
