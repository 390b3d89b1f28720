"""`dssl submit`, `status`, `logs`, `wait` and `cancel`, for runs that an engine starts."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from ..base.errors import TERMINATED, ClusterError, DataError, LockedError, require
from ..base.signals import signals_deferred
from ..base.units import time_text
from .options import (
    console,
    json_option,
    keep_option,
    output_console,
    planned_whole,
    quiet_option,
    require_folder,
    run_argument,
    workspace_option,
)

if TYPE_CHECKING:
    from ..pipeline.plan.plan import Plan
    from ..pipeline.submission import EngineRecord, RunState, Submission
    from ..runtime.description import Runtime
    from ..runtime.engine import Job

LOOK_EVERY = 1.0  # seconds between two checks of a run's folder
QUERY_EVERY = 15.0  # seconds between two queries of an engine


def runtime_of(submission: Submission) -> Runtime:
    from ..runtime.start import DESCRIPTION

    return DESCRIPTION.validate_python(submission.cluster)


def job_of(submission: Submission, runtime: Runtime) -> Job:
    from ..runtime.engine import Job

    described_run = submission.described
    command = (described_run["python"], "-m", "dssl")
    return Job(name=submission.job_name, folder=submission.folder,
               command=(*command, "rank", str(submission.folder)),
               settle=(*command, "settle", str(submission.folder)), cwd=Path(described_run["cwd"]),
               ranks=runtime.ranks)


def _knows(engine: EngineRecord) -> bool:
    """Return whether the engine of a record knows its job."""
    from ..pipeline.submission import Submission

    submission = Submission.at(Path(engine["folder"]))
    return runtime_of(submission).engine().knows(engine["handle"])


@click.command("submit")
@planned_whole
@click.option("--on", "where", required=True, metavar="WHERE",
              help="Where the run takes place: a cluster description (YAML) or the address of a scheduler.")
@click.option("--dry-run", is_flag=True,
              help="Print the script or manifest that would be submitted, and submit nothing.")
@keep_option
@json_option
@quiet_option
def submit_command(made: Plan, where: str, dry_run: bool, keep: str, as_json: bool, quiet: bool) -> None:
    """Submit the pipeline SPEC to run in the background or as a batch job, and return at once.

    Prints the name of the run, for `dssl status`, `logs`, `wait` and `cancel`. A spec that is already running in the
    workspace is not submitted again.
    """
    from ..pipeline.submission import Submission
    from ..runtime.start import load_runtime

    require_folder(made.workspace, "dssl submit")
    runtime = load_runtime(where)
    made = fitted_plan(made, runtime)
    if dry_run:
        engine = runtime.engine()
        submission = Submission.freeze(made.workspace, made.given, runtime.model_dump(mode="json"), {})
        try:
            path = submission.render(engine.file, engine.render(job_of(submission, runtime)))
            click.echo(path.read_text(encoding="utf-8"), nl=False)
        finally:
            submission.discard()
        return
    run, is_new = submit_plan(made, runtime, keep)
    print_submitted(run, as_json, again=not is_new)


def fitted_plan(made: Plan, runtime: Runtime) -> Plan:
    """Return a plan for the workers of a cluster description; raise BudgetError if a stage does not fit them."""
    from ..pipeline.plan.preflight import Room
    from ..pipeline.plan.worker_budget import lowered_note, plan_on
    from ..runtime.description import RankedRuntime

    worker = runtime.worker_room if isinstance(runtime, RankedRuntime) else None
    if worker is None:
        made.require_fits()
        return made
    on_workers = plan_on(made, worker)
    on_workers.require_fits()
    if note := lowered_note(made, Room(made.budget, worker), on_workers.budget):
        click.echo(note, err=True)
    return on_workers


def submit_plan(made: Plan, runtime: Runtime, keep: str) -> tuple[Path, bool]:
    """Submit a plan; return the folder of its run, and whether it is new: a running spec is not submitted again."""
    from ..pipeline.submission import Submission

    engine = runtime.engine()
    options = {"memory_budget": made.budget, "keep": keep}
    submission = Submission.freeze(made.workspace, made.given, runtime.model_dump(mode="json"), options)
    try:
        job = job_of(submission, runtime)
        path = submission.render(engine.file, engine.render(job))
        run = submission.claim(made.workspace, _knows)
        if run != submission.folder:
            submission.discard()
            return run, False
        with signals_deferred():  # otherwise the engine could start a job whose folder was discarded
            handle = engine.submit(job, path)
            try:
                submission.hand_over(engine.name, handle)
            except BaseException:
                engine.cancel(handle)
                raise
    except BaseException:
        if submission.engine is None:
            submission.discard()
        raise
    return submission.folder, True


def print_submitted(run: Path, as_json: bool, *, again: bool) -> None:
    if as_json:
        click.echo(json.dumps({"run": run.name, "folder": str(run), "submitted": not again}, indent=1))
        return
    click.echo(run.name)
    if again:
        click.echo("this spec is already running, as the run named above; nothing was submitted", err=True)
    else:
        from ..pipeline.plan.plan import DEFAULT_WORKSPACE

        workspace = run.parent.parent
        usual = workspace.absolute() == Path(DEFAULT_WORKSPACE).absolute()
        where = "" if usual else f" --workspace {shlex.quote(str(workspace))}"
        click.echo(f"follow it with `dssl logs {run.name} --follow{where}`, wait with `dssl wait {run.name}{where}`",
                   err=True)


@click.command("status")
@run_argument
@workspace_option
@json_option
def status_command(name: str | None, workspace: str, as_json: bool) -> None:
    """Show the progress of RUN, or of all runs in the workspace: state, stage, tasks and time left."""
    from ..pipeline.submission import find_run, state_of
    from ..storage.artifacts import Workspace

    opened = Workspace.at(workspace)
    folders = opened.runs if name is None else [find_run(opened, name)]
    states = [state_of(folder, _knows_or_warn) for folder in folders]
    if as_json:
        click.echo(json.dumps(states if name is None else states[0], indent=1))
        return
    if not states:
        click.echo(f"{opened.root} has no runs; --workspace names another workspace")
        return
    table = Table("run", "name", "state", "stage", "tasks", "starts", "time left", box=None)
    for run in states:
        tasks = "" if run.get("done") is None else f"{run['done']}/{run['of']}"
        seconds = run.get("run_left")
        left = "" if seconds is None else time_text(seconds)
        table.add_row(run["run"], run["name"] or "", run["state"], run.get("stage") or "", tasks,
                      str(run.get("starts", "")), left)
    output_console(piped_width=160).print(table)
    for run in states if name is not None else ():
        error = run.get("error")
        why = run["exit"]["why"] if run.get("exit") else error["what"] if error else ""
        if why:
            click.echo(why)


def _knows_or_warn(engine: EngineRecord) -> bool:
    """Return whether an engine knows a job; if the engine does not answer, warn and return True."""
    try:
        return _knows(engine)
    except ClusterError as error:
        console.print(f"warning: {str(error).splitlines()[0]}")
        return True


class CachedQuery:
    """Whether an engine knows a job; an answer of the engine counts for `QUERY_EVERY` seconds."""

    def __init__(self) -> None:
        self._last_query, self._answer = float("-inf"), True

    def __call__(self, engine: EngineRecord) -> bool:
        if time.monotonic() - self._last_query >= QUERY_EVERY:
            self._last_query, self._answer = time.monotonic(), _knows_or_warn(engine)
        return self._answer


@click.command("logs")
@run_argument
@click.option("--follow", is_flag=True, help="Keep printing new lines until the run has ended.")
@click.option("--rank", default=None, type=click.IntRange(min=0),
              help="Number of the process: 0 is the scheduler, 1 the driver that runs the pipeline, 2 and up are "
                   "workers. Default: 1.")
@workspace_option
def logs_command(name: str | None, follow: bool, rank: int | None, workspace: str) -> None:
    """Print the log of one process of the submitted RUN (default: the newest run)."""
    from ..pipeline.submission import ENDED, Submission, find_run, state_of
    from ..runtime.engine import JOB_LOG
    from ..storage.artifacts import Workspace

    submission = Submission.at(find_run(Workspace.at(workspace), name, submitted=True))
    runtime = runtime_of(submission)
    job = job_of(submission, runtime)
    number = rank if rank is not None else 1 if runtime.ranks > 1 else 0
    require(number < runtime.ranks, f"--rank {number}: the run has only {runtime.ranks} processes", error=DataError,
            why="processes are numbered from 0",
            fix=f"give a number from 0 to {runtime.ranks - 1}")
    path, shown, knows = job.log(number), 0, CachedQuery()
    while True:
        # The state is read before the log, so that the end of the log is not missed.
        state = state_of(submission.folder, knows)["state"] if follow else ""
        shown += _print_from(path, shown)
        if not follow or state in ENDED:
            break
        time.sleep(LOOK_EVERY)
    if shown == 0:
        click.echo(f"process {number} of {submission.folder.name} has not written anything; this is the log of the "
                   f"whole job ({job.logs / JOB_LOG}):", err=True)
        if _print_from(job.logs / JOB_LOG, 0) == 0:
            click.echo(f"that log is empty too; see `dssl status {submission.folder.name}`", err=True)


def _print_from(path: Path, start: int) -> int:
    """Print a log after its first `start` bytes; return the number of bytes printed, 0 if there is no log."""
    if not path.is_file():
        return 0
    with open(path, "rb") as file:
        file.seek(start)
        text = file.read()
    click.echo(text.decode("utf-8", "replace"), nl=False)
    return len(text)


@click.command("wait")
@run_argument
@click.option("--timeout", default=None, type=click.FloatRange(min=0), metavar="SECONDS",
              help="Stop waiting after this many seconds (exit code 5). The run itself continues.")
@workspace_option
@json_option
@click.pass_context
def wait_command(ctx: click.Context, name: str | None, timeout: float | None, workspace: str, as_json: bool) -> None:
    """Wait until the submitted RUN (default: the newest run) has ended, and exit with its exit code."""
    from ..pipeline.submission import Submission, find_run
    from ..storage.artifacts import Workspace

    folder = Submission.at(find_run(Workspace.at(workspace), name, submitted=True)).folder
    state, code = wait_for_end(folder, float("inf") if timeout is None else timeout)
    if as_json:
        click.echo(json.dumps(state, indent=1))
    else:
        ending: Mapping[str, Any] = state.get("exit") or {}
        click.echo(f"{folder.name}: {state['state']}" + (f", {ending['why']}" if ending.get("why") else ""))
    ctx.exit(code)


def wait_for_end(folder: Path, seconds: float = float("inf")) -> tuple[RunState, int]:
    """Wait until a submitted run has ended; return its state and exit code, or raise LockedError after `seconds`."""
    from ..pipeline.submission import ENDED, state_of

    knows = CachedQuery()
    until = time.monotonic() + seconds
    while (state := state_of(folder, knows))["state"] not in ENDED:
        require(time.monotonic() < until, f"run {folder.name} is {state['state']}", error=LockedError,
                why=f"it has not ended within {seconds:g} seconds, and continues", fix="wait again")
        time.sleep(LOOK_EVERY)
    return state, state["exit"]["code"] if state.get("exit") else ClusterError.exit_code


@click.command("cancel")
@click.argument("name", metavar="RUN")
@workspace_option
def cancel_command(name: str, workspace: str) -> None:
    """Cancel the submitted RUN. Its finished parts are kept."""
    from ..pipeline.submission import ENDED, Submission, find_run, state_of
    from ..storage.artifacts import Workspace

    submission = Submission.at(find_run(Workspace.at(workspace), name))
    state = state_of(submission.folder, _knows)
    if state["state"] in ENDED:
        click.echo(f"{submission.folder.name} has ended: {state['state']}")
        return
    submission.cancel()
    engine, known = runtime_of(submission).engine(), submission.engine
    if known is not None:
        engine.cancel(known["handle"])
    if state["state"] == "submitted":  # none of its processes will record how it ended
        submission.finish(TERMINATED, "cancelled", "it was cancelled before it began")
    click.echo(f"{submission.folder.name} is cancelled: its processes end within seconds, and its finished parts are "
               "kept; submit it again to continue")
