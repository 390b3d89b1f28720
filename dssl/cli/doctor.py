"""Checks of a machine, a workspace and a cluster; each is ok, a warning or a problem, with what to do."""

import os
import platform
import shutil
import sys
import tempfile
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Literal, get_args

from packaging.requirements import Requirement

from ..base.errors import DsslError, sentences
from ..base.units import MEMORY_BUDGET
from ..data.sources import cache_folder, find_source, named_files
from ..execution.on_dask import OnDask
from ..execution.threads import available_cores
from ..execution.watchdog import PATIENCE
from ..runtime.description import THREADS
from ..runtime.local import machine_memory
from ..runtime.start import open_runtime
from ..storage.files import remove_tree, resolved_path
from ..storage.lease import require_exclusive
from ..storage.objects import ObjectPath

Level = Literal["ok", "warning", "problem"]
MIN_FREE = 2 << 30  # free bytes of a disk below which a check warns
PYTHON = "Python"
PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


@dataclass(frozen=True)
class Check:
    """The result of a check. name : of what was checked. state : of it. fix : what to do, unless it is ok."""

    name: str
    level: Level
    state: str
    fix: str = ""

    @classmethod
    def unless(cls, passed: bool, level: Level, name: str, state: str, fix: str) -> "Check":
        """Return an ok if the check has passed, or else a check of this level with its fix."""
        return cls(name, "ok", state) if passed else cls(name, level, state, fix)


def examine(workspace: str | Path, where: str | Path | None = None, source: str | None = None) -> Iterator[Check]:
    """Yield all checks of this machine and this workspace, and those of a cluster and of a source if they are named."""
    yield Check(PYTHON, "ok", f"{platform.python_version()}, {sys.executable}")
    yield from check_libraries()
    yield check_machine()
    yield check_threads()
    yield check_compiled_code()
    yield check_data()
    yield from check_workspace(workspace)
    yield from check_extras()
    if source is not None:
        local_check = check_source(source)
        yield local_check
        if local_check.level == "problem":
            source = None  # nothing to compare the workers with
    if where is not None:
        yield from check_cluster(where, workspace, source)


def requirements() -> list[Requirement]:
    """Return the requirements of the installed package, or of the checkout, with Python's first."""
    try:
        python, requirements = metadata("dssl")["Requires-Python"], requires("dssl") or []
    except PackageNotFoundError:
        project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
        python, extras = project["requires-python"], project["optional-dependencies"]
        requirements = project["dependencies"] + [f"{item} ; extra == '{extra}'" for extra in extras
                                                  for item in extras[extra]]
    return [Requirement(text) for text in (f"Python{python}", *requirements)]


def check_libraries() -> Iterator[Check]:
    """Compare the interpreter and the installed versions with the bounds of the package."""
    satisfied = []
    for needed in requirements():
        if needed.marker and not needed.marker.evaluate({"extra": ""}):
            continue
        installed = _version(needed.name)
        if installed is not None and needed.specifier.contains(installed, prereleases=True):
            satisfied.append(f"{needed.name} {installed}")
        else:
            yield Check(needed.name, "problem", f"{installed}, dssl needs {needed.specifier}" if installed else
                        "is not installed", f'make an environment with "{needed}"' if needed.name == PYTHON else
                        f'pip install "{needed}"')
    yield Check("libraries", "ok", ", ".join(satisfied))


def check_machine(task_bytes: int = MEMORY_BUDGET) -> Check:
    """Compare the free memory with that of one task on each core."""
    (memory, free), cores = machine_memory(), available_cores()
    return Check.unless(
        free >= cores * task_bytes, "warning", "machine",
        f"{cores} core{'s' if cores > 1 else ''}, {_size(memory)} of memory, {_size(free)} of it free",
        f"one task per core may use {_size(task_bytes)}: lower --memory-budget, or use fewer workers with --on")


def check_threads() -> Check:
    """Check the variables that set the number of threads of libraries; dssl runs each task on one core."""
    variables = {name: os.environ[name] for name in THREADS if name in os.environ}
    wrong = ", ".join(name for name, value in variables.items() if not value.isdigit() or int(value) < 1)
    settings = ", ".join(f"{name}={value}" for name, value in variables.items()) or "none set; a task uses one core"
    return Check.unless(not wrong, "problem", "threads", settings,
                        f"unset {wrong}, or set it to a whole number from 1 on")


def check_compiled_code() -> Check:
    """Report where compiled functions are stored: beside their modules, else in the user's cache, as Numba chooses."""
    from ..knn.squared_distances import put  # that no folder can be written is an error of this import

    return Check("compiled code", "ok", f"is kept in folders such as {put.stats.cache_path}")


def check_data() -> Check:
    """Check that the folder of named data sets has some."""
    named = os.environ.get("DSSL_DATA")
    if not named:
        return Check("DSSL_DATA", "ok", f"is not set; named data sets are searched for in {cache_folder()}")
    sets = named_files(Path(named).expanduser())
    return Check.unless(bool(sets), "warning", "DSSL_DATA", f"{named}: {len(sets)} data sets",
                        "set it to the folder of mnist.npz")


def check_workspace(workspace: str | Path) -> Iterator[Check]:
    """Check that the workspace can be written and locked, and has space."""
    try:
        folder = resolved_path(workspace)
        if isinstance(folder, ObjectPath):
            require_exclusive(folder)
            yield Check("workspace", "ok", f"{folder} can be written, and lets one of two writers win")
            return
    except DsslError as refused:
        what, _, fix = sentences(str(refused))
        yield Check("workspace", "problem", what, fix)
        return
    existing = _existing(folder)
    error = _write_error(existing)
    if error is not None:
        yield Check("workspace", "problem", f"{existing} cannot be written ({error})",
                    "fix the permissions, or name another folder")
        return
    yield Check("workspace", "ok", f"{folder}{'' if folder.exists() else ' (will be created)'}")
    free = shutil.disk_usage(existing).free
    yield Check.unless(free >= MIN_FREE, "warning", "disk", f"{_size(free)} free at {existing}",
                       "free some space; `dssl plan` shows how much a run writes")
    yield _check_locks(existing)


def _check_locks(folder: Path) -> Check:
    """Check that the file system has locks and hard links, which keep two runs apart."""
    import fcntl

    with tempfile.TemporaryDirectory(prefix=".dssl-doctor-", dir=folder) as scratch:
        file = Path(scratch) / "file"
        file.touch()
        try:
            os.link(file, Path(scratch) / "link")
        except OSError as refused:
            return Check("file system", "problem", f"has no hard links ({refused.strerror})",
                         "dssl publishes artifacts with them: name a workspace on another file system")
        try:
            with open(file, "w", encoding="utf-8") as opened:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as refused:
            return Check("file system", "warning", f"has no locks ({refused.strerror})",
                         "do not start two runs in one workspace at the same moment")
    return Check("file system", "ok", "has locks and hard links")


def check_extras() -> Iterator[Check]:
    """Report which optional libraries are installed; dssl needs none of them."""
    by_extra: dict[str, list[str]] = {}
    for needed in requirements():
        extra = str(needed.marker or "").partition("extra ==")[2].strip(" '\")")
        if extra not in ("", "dev", "test") and needed.name != "dssl":
            by_extra.setdefault(extra, []).append(needed.name)
    for extra, names in sorted(by_extra.items()):
        yield Check(f"extra {extra}", "ok", "is installed" if all(map(_version, names)) else
                    f"is not installed; if you need it: pip install {' '.join(names)}")


def check_cluster(where: str | Path, workspace: str | Path, source: str | None = None) -> Iterator[Check]:
    """Connect, and check versions, memory and settings of every worker, and its view of workspace and source."""
    try:
        with open_runtime(where) as (execution, described):
            yield Check("cluster", "ok", described)
            if isinstance(execution, OnDask):
                yield from check_workers(execution, resolved_path(workspace))
                yield from check_settings(execution)
                if source is not None:
                    yield check_source_on_workers(execution, source)
    except ImportError as error:
        yield Check("cluster", "problem", f"a worker cannot import dssl ({error})", "install dssl on every machine")
    except DsslError as error:
        what, *more = str(error).splitlines()
        yield Check("cluster", "problem", what, next((line.removeprefix("  fix: ") for line in more if "fix:" in line),
                                                     "see the message"))


def check_workers(execution: OnDask, folder: Path) -> Iterator[Check]:
    """Compare versions, memory and the view of the workspace of every worker with those of this process."""
    names = ["dssl", *(item.name for item in requirements() if not item.marker and item.name != PYTHON)]
    versions = execution.versions(names)
    expected, _ = versions.pop("here"), versions.pop("scheduler")  # the scheduler does not need dssl
    if not versions:
        yield Check("workers", "problem", "there are none", "start workers, and run dssl doctor again")
        return
    different = [f"{address}: {name} {theirs.get(name) or 'missing'}, here {version}"
                 for address, theirs in versions.items() for name, version in expected.items()
                 if theirs.get(name) != version]
    yield Check.unless(not different, "problem", "versions", "; ".join(different[:4]) or
                       f"equal on {len(versions)} workers", "install the same versions on every machine")
    smallest, budget = execution.smallest_worker, execution.memory_budget
    if smallest is None:
        yield Check("memory of workers", "warning", "no limit is set", "start workers with a memory limit, so that a "
                    "worker that grows too large ends and its machine does not")
    else:
        room = f"{_size(smallest.room)} per task; the budget is {_size(budget)}"
        if smallest.larger is not None:  # workers differ
            room += f"; {smallest.address} has the least"
        yield Check.unless(smallest.room >= budget, "problem", "memory of workers", room,
                           f"lower --memory-budget, or {smallest.hint(budget)}")
    made = (folder if isinstance(folder, ObjectPath) else _existing(folder)) / f".dssl-doctor-{uuid.uuid4().hex}"
    made.mkdir()
    try:
        answers = execution.ask_workers(_create_file, made)
        failed = [f"{address}: {error}" for address, error in answers.items() if error]
        absent = len(answers) - len(failed) - len(list(made.iterdir()))
    finally:
        remove_tree(made)
    room = f"{absent} workers wrote elsewhere" if absent > 0 else f"{len(answers)} workers can open {folder}"
    yield Check.unless(not failed and absent <= 0, "problem", "workspace on workers", "; ".join(failed[:4]) or room,
                       "name a workspace on a file system that every machine mounts at the same path")


def check_settings(execution: OnDask) -> Iterator[Check]:
    """Check the settings of scheduler and workers for workers that hang, die, or run out of memory."""
    settings = execution.settings()
    silent, allowed, pauses = settings.worker_ttl, settings.allowed_failures, settings.pauses
    yield Check.unless(silent is not None and silent <= PATIENCE, "warning", "worker-ttl",
                       f"a worker that sends no heartbeat is given up after {silent:.0f} seconds" if silent else
                       "is not set, so a worker that is stopped holds its tasks forever",
                       "start the scheduler with DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL=60s")
    yield Check.unless(allowed >= 1, "warning", "allowed-failures",
                       f"a task may crash {allowed} workers before it is given up",
                       "start the scheduler with DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES=3, or more where "
                       "workers are taken away")
    yield Check.unless(not pauses, "warning", "pausing", "a worker begins no task at " +
                       ", ".join(f"{share:.0%}" for share in pauses) + " of its memory limit" if pauses else
                       "workers do not pause", "start workers with DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE=False: one "
                       "that waits for memory may wait forever")


def check_source(source: str) -> Check:
    """Check that this process finds the files of a source."""
    try:
        files = find_source(source, download=False).files
    except DsslError as error:
        what, why, fix = sentences(str(error))
        return Check("source", "problem", f"{what}; {why}", fix)
    return Check("source", "ok", f"{source}: {len(files)} file(s)")


def check_source_on_workers(execution: OnDask, source: str) -> Check:
    """Check that every worker sees the files of a source with the same sizes as this process."""
    paths = [str(file.path.resolve()) for file in find_source(source, download=False).files]
    expected = _sizes(paths)
    wrong = [f"{address}: {path} {'is not there' if size is None else f'has {size:,} bytes'}, here {local_size:,}"
             for address, theirs in execution.ask_workers(_sizes, paths).items()
             for path, size, local_size in zip(paths, theirs, expected, strict=True) if size != local_size]
    return Check.unless(not wrong, "problem", "source on workers", "; ".join(wrong[:4]) or
                        f"workers see the same {len(paths)} file(s)",
                        "keep data on a file system that every machine mounts at the same path")


def _sizes(paths: list[str]) -> list[int | None]:
    return [os.stat(path).st_size if os.path.exists(path) else None for path in paths]


def _create_file(folder: Path) -> str | None:
    """Create a file with a unique name; return the error if that fails."""
    try:
        (folder / uuid.uuid4().hex).touch()
    except OSError as error:
        return str(error)
    return None


def _version(name: str) -> str | None:
    """Return the version of a library, or of the interpreter; None if it is not installed."""
    try:
        return platform.python_version() if name == PYTHON else version(name)
    except PackageNotFoundError:
        return None


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def _write_error(folder: Path) -> str | None:
    """Return the error of writing to a folder, or to the nearest one above it that exists; None if it works."""
    try:
        with tempfile.TemporaryFile(dir=_existing(folder)):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _size(nbytes: float) -> str:
    return f"{nbytes / 2**30:.1f} GiB"


def worst(checks: list[Check]) -> Level:
    """Return the most serious level."""
    return max((check.level for check in checks), key=get_args(Level).index, default="ok")
