"""Hidden commands that engines start: the ranks of a submitted run, and the commands that start and restart these."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import click

from ..base.errors import (
    COME_BACK,
    ClusterError,
    DsslError,
    Terminated,
    described,
    exit_code_of,
    require,
)
from ..base.signals import raise_preempted
from .options import console
from .submit import LOOK_EVERY, job_of, runtime_of

if TYPE_CHECKING:
    from ..pipeline.submission import Submission
    from ..runtime.description import Runtime
    from ..runtime.engine import Rank

CANCELLED_EVERY = 2.0  # seconds between two checks of a driver whether its run is cancelled
SIGNAL_SECONDS = 5.0  # in which the engine's own signal arrives, if it sends one
END_SECONDS = 10.0  # after which a rank assumes that the run has not ended


@click.command("rank", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
def rank_command(folder: Path) -> None:
    """Run one process of the submitted run in FOLDER: scheduler, driver or worker, as the environment says."""
    from ..pipeline.submission import Submission
    from ..runtime.description import RankedRuntime
    from ..runtime.engine import Rank

    submission, rank = Submission.at(folder.resolve()), Rank.of(os.environ)
    submission.require_this_version()
    for variable, value in submission.described["environment"].items():
        os.environ.setdefault(variable, value)
    runtime = runtime_of(submission)
    if runtime.keeps_logs:
        _log_to(job_of(submission, runtime).log(rank.number))
    require(rank.count == runtime.ranks, f"this process is number {rank.number} of {rank.count}, but the "
            f"run has {runtime.ranks} processes", error=ClusterError,
            why="variables such as PMI_RANK and PMI_SIZE number the processes",
            fix=f"start {runtime.ranks} processes with a command that sets these variables, such as mpiexec")
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


def _log_to(path: Path) -> None:
    """Append the output of this process and its children to a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(descriptor, stream.fileno())
    os.close(descriptor)


def _drive(submission: Submission, runtime: Runtime, rank: Rank) -> None:
    """Run the pipeline, and record how it ended."""
    from ..pipeline.plan.plan import plan
    from ..pipeline.run import run
    from ..runtime.description import RankedRuntime
    from ..runtime.roles import Meeting, driven
    from ..storage.artifacts import Workspace
    from .progress import Reporter

    signal.signal(signal.SIGUSR1, raise_preempted)
    start = submission.begin()
    frozen = submission.described["options"]
    try:
        if submission.is_cancelled:
            raise Terminated
        with _ended_when_cancelled(submission):
            workspace = Workspace.at(submission.folder.parents[1])
            made = plan(submission.spec, workspace=workspace.root, memory_budget=frozen["memory_budget"])
            opened = (driven(Meeting(submission.folder, rank.start), runtime, rank.count - 2, made.budget)
                      if isinstance(runtime, RankedRuntime) else runtime.start(made.budget))
            with opened as (execution, where), Reporter(where, console) as reporter:
                run(made, execution=execution, events=reporter.on_event, wait=float("inf"),
                    keep=cast(Literal["all", "results"], frozen["keep"]), run_id=submission.folder.name)
    except BaseException as error:
        submission.end(start, exit_code_of(error), described(error)["what"] or type(error).__name__)
        raise
    submission.end(start, 0, "")


@contextmanager
def _ended_when_cancelled(submission: Submission) -> Iterator[None]:
    """Raise Terminated in the body when a user on any machine has cancelled the run.

    An engine's signal reaches only its own jobs, and a signal of a machine only its own processes. But every process
    that sees the workspace can read the record of a cancelled run.
    """
    over = threading.Event()

    def look() -> None:
        while not over.wait(CANCELLED_EVERY):
            with suppress(OSError):  # if the file server does not answer, look again later
                if submission.is_cancelled:
                    break
        if not over.wait(SIGNAL_SECONDS):
            os.kill(os.getpid(), signal.SIGTERM)  # its handler raises Terminated in the main thread

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@click.command("launch", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def launch_command(ctx: click.Context, folder: Path) -> None:
    """Start all processes of the submitted run in FOLDER on this machine, and again whenever it was interrupted."""
    from ..pipeline.submission import Submission
    from ..runtime.engine import launch

    submission = Submission.at(folder.resolve())
    ctx.exit(launch(job_of(submission, runtime_of(submission)), submission.finished))


@click.command("pod", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def pod_command(ctx: click.Context, folder: Path) -> None:
    """Run a pod of the submitted run in FOLDER: start its rank, and exit with 75 if Kubernetes must replace the pod."""
    from ..runtime.engine import Rank

    rank = Rank.of(os.environ)
    if rank.role == "driver":
        ctx.exit(_drive_in_pod(folder.resolve(), rank))
    try:
        ctx.exit(_serve_in_pod(folder.resolve(), rank))
    except (DsslError, OSError) as error:  # only the driver's exit code may end the job
        click.echo(f"error: {error}", err=True)
        ctx.exit(COME_BACK)


def _drive_in_pod(folder: Path, rank: Rank) -> int:
    """Run the driver; return the exit code of the run, or `COME_BACK` if Kubernetes must replace the pod."""
    from ..pipeline.submission import Submission
    from ..runtime.kubernetes import attend

    submission = Submission.at(folder)
    runtime = runtime_of(submission)
    before = submission.starts
    if before and (code := submission.settle(runtime.max_restarts)) != COME_BACK:
        return code  # the pod before this one was killed
    job = job_of(submission, runtime)
    code = attend((sys.executable, *job.command[1:]), job.log(rank.number))
    return COME_BACK if code < 0 and submission.starts == before else submission.settle(runtime.max_restarts)


def _serve_in_pod(folder: Path, rank: Rank) -> int:
    """Run another rank; return 0 if the run has ended, or `COME_BACK` if Kubernetes must replace the pod."""
    from ..pipeline.submission import Submission
    from ..runtime.kubernetes import attend

    submission = Submission.at(folder)
    if submission.exit is None:
        job = job_of(submission, runtime_of(submission))
        attend((sys.executable, *job.command[1:]), job.log(rank.number))
    return 0 if _ends_within(submission, END_SECONDS) else COME_BACK


def _ends_within(submission: Submission, seconds: float) -> bool:
    """Return whether a run ends for good within some seconds; its driver records that after it ends the others."""
    until = time.monotonic() + seconds
    while submission.exit is None and time.monotonic() < until:
        time.sleep(LOOK_EVERY)
    return submission.exit is not None


@click.command("settle", hidden=True)
@click.argument("folder", type=click.Path(path_type=Path))
@click.pass_context
def settle_command(ctx: click.Context, folder: Path) -> None:
    """After a start has ended, exit with 75 if the run in FOLDER must start again, or else with its exit code."""
    from ..pipeline.submission import Submission
    from ..runtime.roles import forget_meetings

    submission = Submission.at(folder.resolve())
    forget_meetings(submission.folder)
    ctx.exit(submission.settle(runtime_of(submission).max_restarts))
