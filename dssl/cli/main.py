"""The command line: `dssl init`, `run`, `plan`, `report`, `ingest`, `predict`, `suggest`, `verify`, `inspect`, `gc`,
`doctor`, `schema`; `submit`, `status`, `logs`, `wait`, `cancel`, `schedule`, `cluster`.

One JSON document on standard output with --json, of what failed too; everything else on standard error. Exit codes:
0 done, 1 failed (the data cannot be used, or not as the spec asks), 2 a spec or usage that is wrong whatever the data,
3 integrity, 4 cluster unreachable, 5 locked by another run, 75 interrupted by an engine that is to start it again,
130 interrupted, 143 terminated.
A command imports what it needs when it is called, so that `dssl --help` does not wait for everything.
"""

import errno
import json
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from .. import __version__
from ..base.errors import DsslError, Terminated, exit_code_of, explain, raise_terminated
from .cluster import cluster_command
from .data import ingest_command, predict_command
from .init.command import init_command
from .options import console
from .outcome import Outcome
from .ranks import launch_command, pod_command, rank_command, settle_command
from .runs import plan_command, report_command, run_command
from .schedule import due_command, fire_command, schedule_command
from .submit import cancel_command, logs_command, status_command, submit_command, wait_command
from .suggest import suggest_command
from .workspace import doctor_command, gc_command, inspect_command, verify_command

PERMISSIONS = "ask for the right to read or write there, or name another place (--workspace FOLDER, --out FILE)"
REMEDIES = {errno.ENOSPC: "free space", errno.EDQUOT: "free space, or ask for more of it",
            errno.EACCES: PERMISSIONS, errno.EPERM: PERMISSIONS, errno.EROFS: "name a folder to write to",
            errno.ENOENT: "check that the file is there for every process that runs tasks (`dssl doctor --on`)"}


@contextmanager
def _termination_raised() -> Iterator[None]:
    """Have SIGTERM raise `Terminated`, as SIGINT raises KeyboardInterrupt, unless somebody else has set a handler."""
    if (threading.current_thread() is not threading.main_thread()
            or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL):
        yield
        return
    signal.signal(signal.SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Commands(click.Group):
    """Turns errors into one message, with --json into one document, and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _termination_raised():
                return super().invoke(ctx)
        except DsslError as error:
            click.echo(f"error: {error}", err=True)
            ctx.obj.failed(error, error.exit_code)
            ctx.exit(error.exit_code)
        except BrokenPipeError:  # who reads has enough, and click ends
            raise
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            remedy = REMEDIES.get(error.errno or 0, "check the disk or the file server")
            message = explain(f"{error.strerror or error}{where}", why="a file could not be read or written",
                              fix=f"{remedy}, then run again: finished parts are kept")
            click.echo(f"error: {message}", err=True)
            ctx.obj.failed(error, 1, message)
            ctx.exit(1)
        except KeyboardInterrupt as error:
            what, code = "terminated" if isinstance(error, Terminated) else "interrupted", exit_code_of(error)
            message = explain(what, why="finished parts are kept", fix="run again to continue")
            click.echo(f"{what}: finished parts are kept; run again to continue", err=True)
            ctx.obj.failed(error, code, message)
            ctx.exit(code)
        except click.ClickException as error:  # click prints it
            command = f"{ctx.command_path} {ctx.invoked_subcommand or ''}".strip()
            ctx.obj.failed(error, error.exit_code, explain(error.format_message(), fix=f"see {command} --help",
                                                           why="the command line is not understood"))
            raise
        except (click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            ctx.obj.failed(error, 1)
            raise

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = Outcome("--json" in args)
        return super().parse_args(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dssl")
def main() -> None:
    """Distributed semi-supervised learning: few labels, many points, one YAML file."""
    click.get_current_context().with_resource(warnings.catch_warnings())
    shown = warnings.showwarning

    def tell(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None,
             line: str | None = None) -> None:
        # dssl's own, of which the line of code says nothing.
        if category is UserWarning or category.__module__.startswith("dssl."):
            console.print(f"warning: {message}", markup=False)
        else:
            shown(message, category, filename, lineno, file, line)

    warnings.showwarning = tell


@main.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of a spec, for editors."""
    from ..pipeline.load import schema

    click.echo(json.dumps(schema(), indent=1))


for command in (init_command, run_command, plan_command, ingest_command, predict_command, suggest_command,
                verify_command, inspect_command, gc_command, doctor_command, report_command, submit_command,
                status_command, logs_command, wait_command, cancel_command, rank_command, launch_command, pod_command,
                settle_command, schedule_command, due_command, fire_command, cluster_command):
    main.add_command(command)
