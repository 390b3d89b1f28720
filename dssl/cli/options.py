"""Options and functions that several commands share, the console, and the document of a command that failed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from ..base.digest import JsonObject
from ..base.errors import SpecError, described, require
from ..pipeline.progress import Event

if TYPE_CHECKING:
    from ..execution.tasks import Execution
    from ..runtime.description import Runtime
    from ..storage.artifacts import Workspace

console = Console(stderr=True, soft_wrap=True, markup=False, emoji=False)
IN_PROCESS = "in-process"


def output_console(piped_width: int | None = None) -> Console:
    """Return a console of standard output; it shows cells such as `[/b]` and `:car:` as they are.

    piped_width : in characters, where the output is no terminal; None leaves it to rich.
    """
    return Console(width=None if sys.stdout.isatty() else piped_width, markup=False, emoji=False)


def _bytes_of(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    from ..base.units import size_of

    return None if text is None else size_of(text)


def _count_of(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return a whole number, which the user may write as 1e8 or 100_000_000."""
    if text is None:
        return None
    with suppress(ValueError, OverflowError):
        number = float(text)
        if number == int(number) and number >= 1:
            return int(number)
    raise click.BadParameter(f"{text!r} is not a whole number of {parameter.name}, such as 1e8", ctx, parameter)


def _runtime_of(ctx: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Return the value of `--on`; raise if it is not valid, even if nothing is left to compute."""
    _described(text)
    return text


def _described(text: str | None) -> Runtime | None:
    """Return the description that a value of `--on` names; None without one, or for threads of this process."""
    if text in (None, IN_PROCESS):
        return None
    from ..runtime.start import load_runtime

    return load_runtime(text)


def _runtime_of_run(ctx: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Return the value of `--on` of a run; start the process of which local workers are copies.

    It takes two seconds, in which the run is read and planned. A run that needs no worker ends it.
    """
    if (runtime := _described(text)) is not None:
        from ..runtime.fork_server import start_fork_server
        from ..runtime.local import LocalRuntime

        if isinstance(runtime, LocalRuntime):
            start_fork_server()
    return text


def _fields_of(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> JsonObject:
    """Return the values of `--read KEY=VALUE` options; raise SpecError if no reader has such an option."""
    from ..base.yaml import parse_yaml
    from ..pipeline.validation import ingest_params

    fields: JsonObject = {}
    for option in texts:
        name, equals, value = option.partition("=")
        require(bool(equals), f"--read {option!r} has no value", why="an option is KEY=VALUE", error=SpecError,
                fix=f"write --read {name}=...")
        fields[name] = parse_yaml(value, f"--read {option}")
    ingest_params(fields, "--read")
    return fields


class PathType(click.ParamType):
    """A path on this machine, or a URL of an object store."""

    name = "path"

    def convert(self, value: str | Path, parameter: click.Parameter | None, ctx: click.Context | None) -> Path:
        from ..storage.files import path_at

        return path_at(value)


def require_folder(workspace: Workspace, command: str) -> None:
    """Raise SpecError if a workspace is in an object store, which the command does not support."""
    from ..storage.objects import ObjectPath

    require(not isinstance(workspace.root, ObjectPath), f"{command} with the workspace {workspace.root}",
            error=SpecError, why="the processes of a submitted job find each other by files in the run's folder",
            fix=f"name a folder that they share, or write a job yourself whose command is `dssl run SPEC --workspace "
                f"{workspace.root}`; it goes on where an earlier one stopped")


workspace_option = click.option("--workspace", default="dssl-work", show_default=True, envvar="DSSL_WORKSPACE",
                                help="Folder of artifacts and runs, which every worker must be able to open, or a "
                                     "URL such as s3://BUCKET/FOLDER.")
on_option = click.option("--on", "runtime", default=None, metavar="WHERE", callback=_runtime_of_run,
                         help="A cluster description (YAML), a scheduler's address, or in-process. "
                              "Default: one process a core on this machine, or threads of this process for a run "
                              "that is planned to take less time than processes take to start.")
on_or_threads_option = click.option("--on", "runtime", default=IN_PROCESS, metavar="WHERE", callback=_runtime_of,
                            help="A cluster description (YAML) or a scheduler's address, whose workers share the "
                                 "blocks of rows. Default: threads of this process.")
run_argument = click.argument("name", metavar="[RUN]", required=False)
quiet_option = click.option("--quiet", is_flag=True, help="Do not show progress.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
safe_csv_option = click.option("--safe-csv", is_flag=True, help="In CSV files, put an apostrophe before text "
                               "that a spreadsheet would run as a formula: it begins with =, +, - or @.")
keep_option = click.option("--keep", default="all", show_default=True, type=click.Choice(["all", "results"]),
                           help="What to keep in the workspace when the run is done. With `results`, only what "
                                "predict, suggest and report need is kept.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace a file at OUT whatever it holds.")
read_option = click.option("--read", "options", multiple=True, metavar="KEY=VALUE", callback=_fields_of,
                           help="An option of the file reader, such as target=y, or target=none if the points have no "
                                "labels.")

memory_option = click.option("--memory-budget", default=None, metavar="SIZE", callback=_bytes_of,
                             help="Memory that one task may use, such as 500MB or 2GiB. A process also needs memory "
                                  "for its libraries, and for every task that it runs at the same time. Default: the "
                                  "value in the spec, or else 1GiB.")

SHAPE_OPTIONS = (
    click.option("--points", default=None, metavar="N", callback=_count_of,
                 help="Plan for a dense source with this many rows, such as 1e8. The source need not exist, and "
                      "SPEC need not name it. Needs --columns."),
    click.option("--columns", default=None, metavar="D", callback=_count_of,
                 help="Number of features of that source. Needs --points."),
    click.option("--dtype", default=None, type=click.Choice(["float32", "float64"]),
                 help="Number type in which features are stored (data.read.dtype of the spec)."),
    click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1),
                 help="How many tasks run at the same time, each on one core."),
    click.option("--memory", "worker_memory", default=None, metavar="SIZE", callback=_bytes_of,
                 help="Memory limit of each worker. Stages that need more are refused."),
)
SPEC_OPTIONS = (
    click.argument("spec", type=click.Path(path_type=Path)),
    click.option("--set", "overrides", multiple=True, metavar="KEY.KEY=VALUE",
                 help="Set one value of the spec; may be repeated."),
    workspace_option,
    memory_option,
)
STAGE_OPTIONS = (
    click.option("--fresh", is_flag=True, help="Compute everything again, and reuse nothing from earlier runs."),
    click.option("--from", "from_stage", default=None, metavar="STAGE",
                 help="Compute this stage and all later stages that depend on it again."),
    click.option("--until", default=None, metavar="STAGE", help="Stop after this stage."),
)


def planned(command: Callable[..., None]) -> Callable[..., None]:
    """Add to a command the argument SPEC and options that select stages; its first argument is the plan."""
    return _with_options(planned_whole(command), STAGE_OPTIONS)


def planned_whole(command: Callable[..., None]) -> Callable[..., None]:
    """Add to a command the argument SPEC and its options; its first argument is the plan of all stages."""
    @wraps(command)
    def with_plan(spec: Path, overrides: tuple[str, ...], workspace: str, memory_budget: int | None,
                  fresh: bool = False, from_stage: str | None = None, until: str | None = None,
                  points: int | None = None, columns: int | None = None, dtype: str | None = None, workers: int = 1,
                  worker_memory: int | None = None, **options: Any) -> None:
        from ..pipeline.load import SHAPED, load_spec

        read = () if dtype is None else (f"data.read.dtype={dtype}",)
        shaped = points is not None or columns is not None
        checked = load_spec(spec, (*overrides, *read), data_source=SHAPED if shaped else None)
        from ..pipeline.plan.plan import plan  # after the spec is checked, since this import takes a second or two
        from .progress import Activity

        with Activity("planning", console, quiet=options.get("quiet", False)):  # it may read a whole source
            made = plan(checked, workspace=workspace, memory_budget=memory_budget, fresh=fresh, from_stage=from_stage,
                        until=until, points=points, columns=columns, workers=workers, worker_memory=worker_memory)
        command(made, **options)

    return _with_options(with_plan, SPEC_OPTIONS)


def shaped(command: Callable[..., None]) -> Callable[..., None]:
    """Add to a `planned` command the options of a source that need not exist, and of workers to plan for."""
    return _with_options(command, SHAPE_OPTIONS)


@contextmanager
def opened(runtime: str | None, memory_budget: int | None) -> Iterator[tuple[Execution, str]]:
    """Yield an execution and one line that describes it; see `open_runtime`, which threads do without."""
    if runtime == IN_PROCESS:
        from ..base.units import MEMORY_BUDGET
        from ..execution.in_process import InProcess

        threads = InProcess(memory_budget=memory_budget or MEMORY_BUDGET)
        yield threads, threads.in_words
    else:
        if runtime is None:
            from ..runtime.fork_server import start_fork_server

            start_fork_server()
        from ..runtime.start import open_runtime  # takes a second

        with open_runtime(runtime, memory_budget) as started:
            yield started


@contextmanager
def working(name: str, runtime: str | None, memory_budget: int | None, quiet: bool) -> Iterator[Execution]:
    """Yield the execution of a command other than a run, and show the progress of its tasks."""
    from ..execution.tasks import TaskCount
    from .progress import Activity

    with Activity(name, console, quiet=quiet) as activity, opened(runtime, memory_budget) as (execution, _):
        execution.counter = TaskCount(activity.count, 0)
        yield execution


def _with_options(command: Callable[..., None], options: Sequence[Callable[..., Any]]) -> Callable[..., None]:
    for option in reversed(options):
        command = option(command)
    return command


class Outcome:
    """Prints the JSON document of a command that failed, with `--json`.

    as_json : whether that option was given. The document has `status` ("failed" or "interrupted"), `exit_code` and
    `error` (type, what, why, fix). If a run had begun, it also has the values of its status.json: run, name, stage,
    tasks, and the stages that ended.
    """

    def __init__(self, as_json: bool):
        self.as_json, self._folder = as_json, Path()

    def on_event(self, event: Event) -> None:
        """Keep the folder of a run from its first event."""
        if event["event"] == "run":
            from ..storage.files import path_at

            self._folder = path_at(event["folder"])

    def failed(self, error: BaseException, exit_code: int, message: str | None = None) -> None:
        """Print the document; message : of `explain`, by default the error's own."""
        if not self.as_json:
            return
        status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        document: JsonObject = {"status": status, "exit_code": exit_code, "error": described(error, message)}
        with suppress(OSError, ValueError):
            known = json.loads((self._folder / "status.json").read_text(encoding="utf-8"))
            names = ("run", "name", "stage", "done", "of", "started", "updated", "stages")
            document |= {name: known[name] for name in names} | {"folder": str(self._folder)}
        click.echo(json.dumps(document, indent=1))
