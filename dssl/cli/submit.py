"""`dssl submit`, `status`, `logs`, `wait` and `cancel`: runs that an engine starts; and what it starts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click
from rich.console import Console
from rich.table import Table

from ..errors import (
    COME_BACK,
    TERMINATED,
    ClusterError,
    DataError,
    LockedError,
    Terminated,
    described,
    exit_code_of,
    raise_preempted,
    require,
)
from ..units import time_text
from .options import console, json_option, planned_whole, quiet_option, require_folder, workspace_option

if TYPE_CHECKING:
    from ..pipeline.plan import Plan
    from ..pipeline.submission import Submission
    from ..runtime.batch.engine import Job
    from ..runtime.description import Runtime

LOOK_EVERY = 1.0  # seconds between two looks at a run's folder
ASK_EVERY = 15.0  # seconds between two questions to an engine
HEARD = 10.0  # seconds in which it is known whether a start was the last one
run_argument = click.argument("name", metavar="[RUN]", required=False)


def _runtime(submission: Submission) -> Runtime:
    from ..runtime.start import DESCRIPTION

    return DESCRIPTION.validate_python(submission.cluster)


def _job(submission: Submission, runtime: Runtime) -> Job:
    from ..runtime.batch.engine import Job

    described_run = submission.described
    command = (described_run["python"], "-m", "dssl.cli")
    return Job(name=submission.job_name, folder=submission.folder,
               command=(*command, "rank", str(submission.folder)),
               settle=(*command, "settle", str(submission.folder)), cwd=Path(described_run["cwd"]),
               ranks=runtime.ranks)


def _knows(engine: Mapping[str, Any]) -> bool:
    """Return whether the engine of a record knows its job."""
    from ..pipeline.submission import Submission

    submission = Submission.at(Path(engine["folder"]))
    return _runtime(submission).engine().knows(engine["handle"])


@click.command("submit")
@planned_whole
@click.option("--on", "where", required=True, metavar="WHERE",
              help="A cluster description (YAML) or a scheduler's address: where the job runs.")
@click.option("--dry-run", is_flag=True, help="Print the script or manifest that would be handed over, and stop.")
@click.option("--keep", default="all", show_default=True, type=click.Choice(["all", "results"]),
              help="What stays in the workspace once the run is done: with results only what predict, suggest and "
                   "report need.")
@json_option
@quiet_option
def submit_command(made: Plan, where: str, dry_run: bool, keep: str, as_json: bool, quiet: bool) -> None:
    """Hand the pipeline SPEC over to the engine of WHERE, and return: the run needs neither terminal nor connection.

    Prints the name of the run, which `dssl status`, `logs`, `wait` and `cancel` take. A spec that is under way in the
    workspace is not submitted twice.
    """
    from ..pipeline.submission import Submission
    from ..runtime.start import load_runtime

    require_folder(made.workspace, "dssl submit")
    made.require_fits()
    if dry_run:
        runtime = load_runtime(where)
        submission = Submission.freeze(made.workspace, made.given, runtime.model_dump(mode="json"), {})
        click.echo(runtime.engine().render(_job(submission, runtime)), nl=False)
        shutil.rmtree(submission.folder)
        return
    run, is_new = hand_over(made, where, keep)
    _print_submitted(run, as_json, again=not is_new)


def hand_over(made: Plan, where: str, keep: str) -> tuple[Path, bool]:
    """Submit a plan; return the folder of its run, and whether it is new: a spec under way is not submitted twice."""
    from ..pipeline.submission import Submission
    from ..runtime.start import load_runtime

    runtime = load_runtime(where)
    engine = runtime.engine()
    options = {"memory_budget": made.budget, "keep": keep}
    submission = Submission.freeze(made.workspace, made.given, runtime.model_dump(mode="json"), options)
    try:
        job = _job(submission, runtime)
        path = submission.render(engine.file, engine.render(job))
        run = submission.claim(made.workspace, _knows)
        if run != submission.folder:
            shutil.rmtree(submission.folder)
            return run, False
        submission.hand_over(engine.name, engine.submit(job, path))
    except BaseException:
        if submission.engine is None:
            shutil.rmtree(submission.folder, ignore_errors=True)
        raise
    return submission.folder, True


def _print_submitted(run: Path, as_json: bool, *, again: bool) -> None:
    if as_json:
        click.echo(json.dumps({"run": run.name, "folder": str(run), "submitted": not again}, indent=1))
        return
    click.echo(run.name)
    if again:
        click.echo("this spec is under way already, as the run above; nothing was submitted", err=True)
    else:
        click.echo(f"follow it with `dssl logs {run.name} --follow`, wait with `dssl wait {run.name}`", err=True)


@click.command("status")
@run_argument
@workspace_option
@json_option
def status_command(name: str | None, workspace: str, as_json: bool) -> None:
    """Show where RUN is, or all runs of the workspace: state, stage, tasks, time left."""
    from ..pipeline.submission import find_run, state_of
    from ..storage.artifacts import Workspace

    place = Workspace.at(workspace)
    folders = place.runs if name is None else [find_run(place, name)]
    found = [state_of(folder, _knows_if_asked) for folder in folders]
    if as_json:
        click.echo(json.dumps(found if name is None else found[0], indent=1))
        return
    table = Table("run", "name", "state", "stage", "tasks", "starts", "time left", box=None)
    for run in found:
        tasks = "" if run.get("done") is None else f"{run['done']}/{run['of']}"
        left = "" if run.get("run_left") is None else time_text(run["run_left"])
        table.add_row(run["run"], str(run["name"]), run["state"], run.get("stage") or "", tasks,
                      str(run.get("starts", "")), left)
    Console(width=None if sys.stdout.isatty() else 160).print(table)
    for run in found if name is not None else ():
        error = run.get("error")
        why = run["exit"]["why"] if run.get("exit") else error["what"] if error else ""
        if why:
            click.echo(why)


def _knows_if_asked(engine: Mapping[str, Any]) -> bool:
    """Return whether an engine knows a job; where it cannot be asked, that it does, after a word."""
    try:
        return _knows(engine)
    except ClusterError as error:
        console.print(f"warning: {str(error).splitlines()[0]}", markup=False)
        return True


@click.command("logs")
@run_argument
@click.option("--follow", is_flag=True, help="Go on until the run has ended.")
@click.option("--rank", default=None, type=click.IntRange(min=0),
              help="Of this process: 0 is the scheduler, 1 the driver, others are workers. Default: the driver.")
@workspace_option
def logs_command(name: str | None, follow: bool, rank: int | None, workspace: str) -> None:
    """Print what a process of the submitted RUN (default: the newest) has said."""
    from ..pipeline.submission import Submission, find_run
    from ..storage.artifacts import Workspace

    submission = Submission.at(find_run(Workspace.at(workspace), name))
    runtime = _runtime(submission)
    job = _job(submission, runtime)
    number = rank if rank is not None else 1 if runtime.ranks > 1 else 0
    require(number < runtime.ranks, f"--rank {number} of a job of {runtime.ranks}", error=DataError,
            why="ranks count from 0", fix=f"name one below {runtime.ranks}")
    path, told = job.log(number), 0
    while True:
        ended = submission.exit is not None  # before the log is read, so that nothing is missed
        if path.is_file():
            with open(path, "rb") as file:
                file.seek(told)
                text = file.read()
            told += len(text)
            click.echo(text.decode("utf-8", "replace"), nl=False)
        if not follow or ended:
            return
        time.sleep(LOOK_EVERY)


@click.command("wait")
@run_argument
@click.option("--timeout", default=None, type=click.FloatRange(min=0), metavar="SECONDS",
              help="Give up after so many seconds (exit code 5); the run goes on.")
@workspace_option
@json_option
@click.pass_context
def wait_command(ctx: click.Context, name: str | None, timeout: float | None, workspace: str, as_json: bool) -> None:
    """Wait until the submitted RUN (default: the newest) has ended, and end with its exit code."""
    from ..pipeline.submission import Submission, find_run
    from ..storage.artifacts import Workspace

    folder = Submission.at(find_run(Workspace.at(workspace), name)).folder
    found, code = waited(folder, float("inf") if timeout is None else timeout)
    if as_json:
        click.echo(json.dumps(found, indent=1))
    else:
        ending = found.get("exit") or {}
        click.echo(f"{folder.name}: {found['state']}" + (f", {ending['why']}" if ending.get("why") else ""))
    ctx.exit(code)


def waited(folder: Path, seconds: float = float("inf")) -> tuple[dict[str, Any], int]:
    """Return the state of a submitted run that has ended, and its exit code; raise LockedError after some seconds."""
    from ..pipeline.submission import ENDED, state_of

    asked: list[float] = []

    def knows(engine: Mapping[str, Any]) -> bool:
        if asked and time.monotonic() - asked[-1] < ASK_EVERY:
            return True
        asked.append(time.monotonic())
        return _knows_if_asked(engine)

    until = time.monotonic() + seconds
    while (found := state_of(folder, knows))["state"] not in ENDED:
        require(time.monotonic() < until, f"run {folder.name} is {found['state']}", error=LockedError,
                why=f"it was waited for {seconds:g} seconds, and goes on", fix="wait again")
        time.sleep(LOOK_EVERY)
    return found, found["exit"]["code"] if found.get("exit") else ClusterError.exit_code


@click.command("cancel")
@click.argument("name", metavar="RUN")
@workspace_option
def cancel_command(name: str, workspace: str) -> None:
    """End the submitted RUN; its finished parts stay."""
    from ..pipeline.submission import ENDED, Submission, find_run, state_of
    from ..storage.artifacts import Workspace

    submission = Submission.at(find_run(Workspace.at(workspace), name))
    found = state_of(submission.folder, _knows)
    if found["state"] in ENDED:
        click.echo(f"{submission.folder.name} has ended: {found['state']}")
        return
    submission.cancel()
    engine, known = _runtime(submission).engine(), submission.engine
    if known is not None:
        engine.cancel(known["handle"])
    if found["state"] == "submitted":  # no process of it will say how it ended
        submission.finish(TERMINATED, "cancelled", "it was cancelled before it began")
    click.echo(f"{submission.folder.name} is cancelled; finished parts stay, and submitting it again goes on")


# ---- what engines start


@click.command("rank", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
def rank_command(folder: Path) -> None:
    """Be one process of the submitted run in FOLDER: scheduler, driver or worker, as the environment says."""
    from ..pipeline.submission import Submission
    from ..runtime.description import RankedRuntime
    from ..runtime.rank import Rank

    submission, rank = Submission.at(folder.resolve()), Rank.of(os.environ)
    submission.require_this_version()
    for variable, value in submission.described["environment"].items():
        os.environ.setdefault(variable, value)
    runtime = _runtime(submission)
    if rank.role == "driver":
        _drive(submission, runtime, rank)
        return
    from ..runtime.roles import Meeting, serve_scheduler, serve_worker

    meeting = Meeting(submission.folder, rank.start)
    assert isinstance(runtime, RankedRuntime)
    if rank.role == "scheduler":
        serve_scheduler(meeting, runtime)
    else:
        serve_worker(meeting, runtime)


def _drive(submission: Submission, runtime: Runtime, rank: Any) -> None:
    """Run the pipeline, and note how it ended."""
    from ..pipeline.plan import plan
    from ..pipeline.run import run
    from ..progress import Reporter
    from ..runtime.description import RankedRuntime
    from ..runtime.roles import Meeting, driven
    from ..storage.artifacts import Workspace

    signal.signal(signal.SIGUSR1, raise_preempted)
    start = submission.begin()
    frozen = submission.described["options"]
    try:
        if submission.is_cancelled:
            raise Terminated
        place = Workspace.at(submission.folder.parents[1])
        made = plan(submission.spec, workspace=place.root, memory_budget=frozen["memory_budget"])
        opened = (driven(Meeting(submission.folder, rank.start), runtime, rank.count - 2, made.budget)
                  if isinstance(runtime, RankedRuntime) else runtime.start(made.budget))
        with opened as (execution, where), Reporter(where, console) as reporter:
            run(made, execution=execution, events=reporter.tell, wait=float("inf"),
                keep=cast(Literal["all", "results"], frozen["keep"]), run_id=submission.folder.name)
    except BaseException as error:
        submission.end(start, exit_code_of(error), described(error)["what"] or type(error).__name__)
        raise
    submission.end(start, 0, "")


@click.command("launch", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def launch_command(ctx: click.Context, folder: Path) -> None:
    """Start all processes of the submitted run in FOLDER on this machine, again where it was interrupted."""
    from ..pipeline.submission import Submission
    from ..runtime.batch.detached import launch

    submission = Submission.at(folder.resolve())
    ctx.exit(launch(_job(submission, _runtime(submission))))


@click.command("pod", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def pod_command(ctx: click.Context, folder: Path) -> None:
    """Be a pod of the submitted run in FOLDER: start its rank, and end with 75 where the pod is to be replaced."""
    from ..pipeline.submission import Submission
    from ..runtime.batch.pod import attend
    from ..runtime.rank import Rank

    submission, rank = Submission.at(folder.resolve()), Rank.of(os.environ)
    job, restarts = _job(submission, _runtime(submission)), _runtime(submission).max_restarts
    command = (sys.executable, *job.command[1:])
    if rank.role != "driver":
        if submission.exit is None:
            attend(command, job.log(rank.number))
        ctx.exit(0 if _ends_within(submission, HEARD) else COME_BACK)
    before = submission.starts
    if before and (code := submission.settle(restarts)) != COME_BACK:  # the pod before this one may have been killed
        ctx.exit(code)
    code = attend(command, job.log(rank.number))
    ctx.exit(COME_BACK if code < 0 and submission.starts == before else submission.settle(restarts))


def _ends_within(submission: Submission, seconds: float) -> bool:
    """Return whether a run ends for good, of which the driver ends the other ranks before it says so."""
    until = time.monotonic() + seconds
    while submission.exit is None and time.monotonic() < until:
        time.sleep(LOOK_EVERY)
    return submission.exit is not None


@click.command("settle", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def settle_command(ctx: click.Context, folder: Path) -> None:
    """End with 75 if the run in FOLDER is to be started again, or else with its exit code, after a start has ended."""
    from ..pipeline.submission import Submission
    from ..runtime.roles import forget_meetings

    submission = Submission.at(folder.resolve())
    forget_meetings(submission.folder)
    ctx.exit(submission.settle(_runtime(submission).max_restarts))
