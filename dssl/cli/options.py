"""What the commands share: their options, and the console."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from ..base.errors import SpecError, require

if TYPE_CHECKING:
    from ..execution.tasks import Execution

console = Console(stderr=True, soft_wrap=True)


def _bytes_of(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    from ..execution.size import size_of

    return None if text is None else size_of(text)


def _count_of(ctx: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return a whole number that may be written as 1e8 or 100_000_000."""
    if text is None:
        return None
    with suppress(ValueError, OverflowError):
        number = float(text)
        if number == int(number) and number >= 1:
            return int(number)
    raise click.BadParameter(f"{text!r} is not a whole number of {parameter.name}, such as 1e8", ctx, parameter)


def _place_of(ctx: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """Return what `--on` names, refused before the spec is read, and where nothing is left to compute."""
    if text is not None:
        from ..runtime.start import load_runtime

        load_runtime(text)
    return text


def _fields_of(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of `--read KEY=VALUE` options, which the readers know."""
    from ..base.yaml import parse_yaml
    from ..pipeline.validation import ingest_params

    fields: dict[str, Any] = {}
    for option in given:
        name, equals, value = option.partition("=")
        require(bool(equals), f"--read {option!r} has no value", why="an option is KEY=VALUE", error=SpecError,
                fix=f"write --read {name}=...")
        fields[name] = parse_yaml(value, f"--read {option}")
    ingest_params(fields, "--read")
    return fields


class PlaceType(click.ParamType):
    """A path on this machine, or a URL of an object store."""

    name = "path"

    def convert(self, value: Any, parameter: click.Parameter | None, ctx: click.Context | None) -> Path:
        from ..storage.files import path_at

        return path_at(value)


def require_folder(workspace: Any, what: str) -> None:
    """Raise SpecError if a workspace lies in an object store, where a command does not work."""
    from ..storage.objects import ObjectPath

    require(not isinstance(workspace.root, ObjectPath), f"{what} with the workspace {workspace.root}", error=SpecError,
            why="the processes of a submitted job find each other by files of the run's folder",
            fix=f"name a folder that they share, or have the job's own command be `dssl run SPEC --workspace "
                f"{workspace.root}`, which goes on where an earlier one stopped")


workspace_option = click.option("--workspace", default="dssl-work", show_default=True, envvar="DSSL_WORKSPACE",
                                help="Folder of artifacts and runs, which every worker must be able to open, or a "
                                     "URL such as s3://BUCKET/FOLDER.")
on_option = click.option("--on", "runtime", default=None, metavar="WHERE", callback=_place_of,
                         help="A cluster description (YAML), a scheduler's address, or in-process. "
                              "Default: one process a core on this machine.")
place_option = click.option("--on", "runtime", default="in-process", metavar="WHERE", callback=_place_of,
                            help="A cluster description (YAML) or a scheduler's address, whose workers share the "
                                 "blocks of rows. Default: threads of this process.")
quiet_option = click.option("--quiet", is_flag=True, help="Do not show progress.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on standard output.")
safe_csv_option = click.option("--safe-csv", is_flag=True, help="In CSV files, put an apostrophe before text "
                               "that a spreadsheet would run as a formula: it begins with =, +, - or @.")
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
                 help="Memory limit of each worker. Stages that would need more are refused."),
)
SPEC_OPTIONS = (
    click.argument("spec", type=click.Path(path_type=Path)),
    click.option("--set", "overrides", multiple=True, metavar="KEY.KEY=VALUE",
                 help="Set one value of the spec; may be repeated."),
    workspace_option,
    memory_option,
)
ANEW_OPTIONS = (
    click.option("--fresh", is_flag=True, help="Compute everything again, and reuse nothing from earlier runs."),
    click.option("--from", "from_stage", default=None, metavar="STAGE",
                 help="Compute this stage and all later stages that depend on it again."),
    click.option("--until", default=None, metavar="STAGE", help="Stop after this stage."),
)


def planned(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command SPEC and the options that say what of it to make; it is called with the plan of that first."""
    return _with_options(planned_whole(command), ANEW_OPTIONS)


def planned_whole(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command SPEC and its settings; it is called with the plan of all its stages first."""
    @wraps(command)
    def with_plan(spec: Path, overrides: tuple[str, ...], workspace: str, memory_budget: int | None,
                  fresh: bool = False, from_stage: str | None = None, until: str | None = None,
                  points: int | None = None, columns: int | None = None, dtype: str | None = None, workers: int = 1,
                  worker_memory: int | None = None, **others: Any) -> None:
        from ..pipeline.load import SHAPED, load_spec

        read = () if dtype is None else (f"data.read.dtype={dtype}",)
        shaped = points is not None or columns is not None
        checked = load_spec(spec, (*overrides, *read), data_source=SHAPED if shaped else None)
        from ..pipeline.plan.plan import plan  # takes a second or two, of which a wrong spec waits for none
        from .progress import Activity

        with Activity("planning", console, quiet=others.get("quiet", False)):  # a source may be read whole for it
            made = plan(checked, workspace=workspace, memory_budget=memory_budget, fresh=fresh, from_stage=from_stage,
                        until=until, points=points, columns=columns, workers=workers, worker_memory=worker_memory)
        command(made, **others)

    return _with_options(with_plan, SPEC_OPTIONS)


def shaped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that is `planned` the options of a source that need not exist, and of workers to plan for."""
    return _with_options(command, SHAPE_OPTIONS)


@contextmanager
def working(name: str, runtime: str | None, memory_budget: int | None, quiet: bool) -> Iterator[Execution]:
    """Give the execution of a command that is no run, and tell of its tasks as they are done."""
    from ..execution.tasks import TaskCount
    from ..runtime.start import open_runtime
    from .progress import Activity

    with Activity(name, console, quiet=quiet) as activity, open_runtime(runtime, memory_budget) as (execution, _):
        execution.counter = TaskCount(activity.count, 0)
        yield execution


def _with_options(command: Callable[..., None], options: Sequence[Callable[..., Any]]) -> Callable[..., None]:
    for option in reversed(options):
        command = option(command)
    return command
