"""The command line: `dssl init`, `run`, `plan`, `report`, `ingest`, `predict`, `suggest`, `verify`, `inspect`, `gc`,
`doctor`, `schema`, `examples`, `export`, `neighbors`; `submit`, `status`, `logs`, `wait`, `cancel`, `schedule`,
`cluster`.

With --json a command prints one JSON document on standard output, also when it fails; everything else goes to standard
error. Exit codes: 0 done, 1 failed (the data cannot be used, or not as the spec says), 2 the spec or usage is wrong for
any data, 3 integrity, 4 cluster unreachable, 5 locked by another run, 75 interrupted by an engine that must start it
again, 130 interrupted, 143 terminated.
A command imports its modules when it is called, so that `dssl --help` is fast.
"""

import errno
import json
import warnings
from typing import Any, TextIO

import click

from .. import __version__
from ..base.errors import DsslError, Terminated, exit_code_of, explain
from ..base.signals import signals_raised
from .cluster import cluster_command
from .data import export_command, ingest_command, neighbors_command, predict_command
from .examples import examples_command
from .init.command import init_command
from .options import Outcome, console
from .ranks import launch_command, pod_command, rank_command, settle_command
from .runs import plan_command, report_command, run_command, suggest_command
from .schedule import due_command, fire_command, schedule_command
from .submit import cancel_command, logs_command, status_command, submit_command, wait_command
from .workspace import doctor_command, gc_command, inspect_command, verify_command

NO_CACHE = "cannot cache function"  # of Numba's error when no folder can be written
PERMISSIONS = "ask for permission to read or write it, or name another path (--workspace FOLDER, --out FILE)"
READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
HINTS = {errno.ENOSPC: "free space", errno.EDQUOT: "free space, or ask for a larger quota",
            errno.EACCES: PERMISSIONS, errno.EPERM: PERMISSIONS, errno.EROFS: "name a folder to write to",
            # Of a file that is read; that an output can be written is checked before.
            errno.ENOENT: "check that the file is there for every process that runs tasks (`dssl doctor --on`)"}


class Commands(click.Group):
    """Turns an error into a message, or a document with --json, and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with signals_raised():
                return super().invoke(ctx)
        except DsslError as error:
            _end(ctx, error, error.exit_code, str(error))
        except BrokenPipeError:  # the reader of the output has ended; click exits
            raise
        except OSError as error:
            where = f" ({error.filename})" if error.filename else ""
            hint = HINTS.get(error.errno or 0, "check the disk or the file server")
            kept_parts = "" if error.errno in READ_ONLY else ": finished parts are kept"
            _end(ctx, error, 1, explain(f"{error.strerror or error}{where}", why="a file could not be read or written",
                                        fix=f"{hint}, then run again{kept_parts}"))
        except KeyboardInterrupt as error:
            ending, code = "terminated" if isinstance(error, Terminated) else "interrupted", exit_code_of(error)
            message = explain(ending, why="finished parts are kept", fix="run again to continue")
            click.echo(f"{ending}: finished parts are kept; run again to continue", err=True)
            ctx.obj.failed(error, code, message)
            ctx.exit(code)
        except click.ClickException as error:  # click prints it
            command = f"{ctx.command_path} {ctx.invoked_subcommand or ''}".strip()
            ctx.obj.failed(error, error.exit_code, explain(error.format_message(), fix=f"see {command} --help",
                                                           why="the command line is not valid"))
            raise
        except (click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if NO_CACHE not in str(error):
                ctx.obj.failed(error, 1)
                raise
            _end(ctx, error, 1, explain(
                "compiled functions can be stored nowhere", fix="set NUMBA_CACHE_DIR to such a folder",
                why="neither the folder of dssl nor the cache of this user can be written"))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = Outcome("--json" in args)
        return super().parse_args(ctx, args)


def _end(ctx: click.Context, error: Exception, code: int, message: str) -> None:
    """Tell what is wrong, and exit."""
    click.echo(f"error: {message}", err=True)
    ctx.obj.failed(error, code, message)
    ctx.exit(code)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dssl")
def main() -> None:
    """Distributed semi-supervised learning: few labels, many points, one YAML file."""
    click.get_current_context().with_resource(warnings.catch_warnings())
    shown = warnings.showwarning

    def tell(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
             line: str | None = None) -> None:
        # The user needs no line of code for dssl's own warnings.
        if category is UserWarning or category.__module__.startswith("dssl."):
            console.print(f"warning: {message}")
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
                settle_command, schedule_command, due_command, fire_command, cluster_command, examples_command,
                export_command, neighbors_command):
    main.add_command(command)
