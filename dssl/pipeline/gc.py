"""Remove what no run of a workspace needs: artifacts of runs that are gone, what stopped runs left, and scratch.

Of runs that are done the intermediate artifacts can go too: predictions, suggestions and reports do not need them, and
their manifests, which are kept, say what the others follow from.

A run needs the artifacts of its stages, which `stages.json` in its folder lists from its beginning. What is removed is
written down first, so that a plan and a prediction can say why it is not there.
"""

import shlex
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..base.errors import DataError, IntegrityError, require
from ..storage.artifacts import REMOVED, Workspace, remove_folder
from ..storage.files import disk_bytes, remove_tree, write_json
from ..storage.manifests import MANIFESTS, PUBLISHED
from .growth import last_runs
from .kinds import kind_of
from .records import RESULT, SPEC, read_result, read_spec, stages_of

What = Literal["run", "artifact", "intermediate", "manifest", "unfinished", "scratch"]


@dataclass(frozen=True)
class Removable:
    """What can go: a run, an artifact, complete or not, that no run needs or that is intermediate, a kept manifest."""

    what: What
    path: Path
    size: int

    @property
    def stage(self) -> str:
        """Return the stage of an artifact."""
        return "" if self.what in ("run", "scratch") else self.path.parent.name

    def to_dict(self) -> dict[str, str | int]:
        return {"what": self.what, "stage": self.stage, "path": str(self.path), "bytes": self.size}


@dataclass(frozen=True)
class Garbage:
    """What can be removed of a workspace, the runs that are kept, and the bytes of the artifacts that they need.

    intermediate_bytes : of these, those that are intermediate.
    """

    items: list[Removable]
    kept: list[str]
    kept_bytes: int
    intermediate_bytes: int

    @property
    def size(self) -> int:
        return sum(item.size for item in self.items)

    def to_dict(self) -> dict[str, object]:
        return {"items": [item.to_dict() for item in self.items], "bytes": self.size, "kept_runs": self.kept,
                "kept_bytes": self.kept_bytes, "intermediate_bytes": self.intermediate_bytes}


def find_garbage(workspace: Workspace, *, keep_runs: int | None = None, drop: Sequence[str] = (),
                 intermediate: bool = False) -> Garbage:
    """Return what can be removed.

    keep_runs : how many runs are kept, the newest; unset: all. drop : runs that are not kept. intermediate : whether
    the intermediate artifacts of runs that are kept and done can go, unless one that is not done needs them.

    An artifact that is not finished can go whatever run it is of: its finished parts are then made anew.

    Raises
    ------
    DataError : there is no such run. IntegrityError : a run that is kept does not say what it needs.
    """
    artifacts, folder = workspace.root / "artifacts", workspace.root / "runs"
    runs = workspace.runs
    unknown = sorted(set(drop) - {path.name for path in runs})
    require(not unknown, f"{folder} has no run {', '.join(unknown)}", why="it was to be removed", error=DataError,
            fix="name some of " + (", ".join(path.name for path in runs[-5:]) or "none: there are no runs"))
    newest = runs if keep_runs is None else runs[len(runs) - min(keep_runs, len(runs)):]
    kept = [path for path in newest if path.name not in drop]
    needed, passing = {name for path in kept for name in stages_of(path)}, intermediate_of(workspace, kept)
    items = [Removable("run", path, disk_bytes(path)) for path in runs if path not in kept]
    kept_bytes = passing_bytes = 0
    for path in sorted(artifacts.glob("*/*")):
        name, complete, size = f"{path.parent.name}/{path.name}", (path / PUBLISHED).is_file(), disk_bytes(path)
        if not complete or name not in needed:
            items.append(Removable("artifact" if complete else "unfinished", path, size))
        elif intermediate and name in passing:
            items.append(Removable("intermediate", path, size))
        else:
            kept_bytes += size
            passing_bytes += size if name in passing else 0
    items += [Removable("manifest", path, path.stat().st_size) for path in
              sorted((workspace.root / MANIFESTS).glob("*/*.json")) if f"{path.parent.name}/{path.stem}" not in needed]
    scratch = workspace.root / "scratch"
    if scratch.is_dir() and any(scratch.iterdir()):
        items.append(Removable("scratch", scratch, disk_bytes(scratch)))
    return Garbage(items, [path.name for path in kept], kept_bytes, passing_bytes)


def collect_garbage(workspace: Workspace, *, keep_runs: int | None = None, drop: Sequence[str] = (),
                    intermediate: bool = False) -> Garbage:
    """Remove what `find_garbage` finds, under the workspace's lock; return it.

    Whenever it is ended, no half of an artifact is left that a run would take for one.

    Raises
    ------
    DataError : there is no such run. IntegrityError : a run that is kept does not say what it needs, and nothing is
        removed. LockedError : a run is under way.
    """
    with workspace.lock():
        garbage = find_garbage(workspace, keep_runs=keep_runs, drop=drop, intermediate=intermediate)
        _remove(workspace, garbage.items)
    return garbage


def require_artifacts(workspace: Workspace) -> None:
    """Raise IntegrityError if a run that is done needs an artifact that neither is there nor was removed by gc."""
    # The runs first: one that ends in between has made all that it needs.
    stages_by_run = {run.name: read_result(run / RESULT)["stages"] for run in workspace.runs if _is_done(run)}
    there = {path.parent for path in (workspace.root / "artifacts").glob(f"*/*/{PUBLISHED}")}
    removed = workspace.removed()
    for name, stages in stages_by_run.items():
        for stage in stages:
            folder = workspace.folder_of(stage["name"], stage["address"])
            require(folder in there or f"{folder.parent.name}/{folder.name}" in removed, f"{folder} is missing",
                    error=IntegrityError, why=f"the run {name} needs it, and `dssl gc` has not removed it",
                    fix=f"run its pipeline again: only what is missing is made anew; or remove the run, with `dssl gc "
                    f"--drop {name} --yes --workspace {shlex.quote(str(workspace.root))}`")


def note_made(workspace: Workspace, folders: Iterable[Path]) -> None:
    """Record that artifacts are there, so that their removal at an earlier time does not explain that one is missing.

    The caller holds the workspace's lock.
    """
    removed = workspace.removed()
    if not removed:
        return  # and no folder is asked for: a generator of those that are there asks a store
    names = {f"{folder.parent.name}/{folder.name}" for folder in folders}
    if names & removed.keys():
        write_json(workspace.root / REMOVED, {name: day for name, day in removed.items() if name not in names})


def intermediate_of(workspace: Workspace, runs: Sequence[Path]) -> set[str]:
    """Return the intermediate artifacts, STAGE/FOLDER, of those runs that are done, and that no other of them needs.

    The last run of a spec that grows needs all: the next one goes on from them.
    """
    intermediate, needed, last = set[str](), set[str](), last_runs(workspace)
    for run in runs:
        if not _is_done(run) or run.name in last:
            needed |= stages_of(run)
            continue
        stages = {stage.name for stage in kind_of(read_spec(run / SPEC)).stages if stage.intermediate}
        intermediate |= {name for name in stages_of(run) if name.split("/")[0] in stages}
    return intermediate - needed


def remove_intermediate(workspace: Workspace, run: Path) -> None:
    """Remove the intermediate artifacts of a run that is done, unless one that is not done needs them.

    The caller holds the workspace's lock. Where another run does not say what it needs, nothing is removed, with a
    warning.
    """
    try:
        passing = intermediate_of(workspace, [path for path in run.parent.glob("*") if path.is_dir()]) & stages_of(run)
    except IntegrityError as error:
        warnings.warn(f"the intermediate artifacts are kept: {error}", UserWarning, stacklevel=2)
        return
    folders = [workspace.root / "artifacts" / name for name in sorted(passing)]
    _remove(workspace, [Removable("intermediate", path, 0) for path in folders if (path / PUBLISHED).is_file()])


def _is_done(run: Path) -> bool:
    return (run / RESULT).is_file() and read_result(run / RESULT)["status"] == "done"


def _remove(workspace: Workspace, items: Sequence[Removable]) -> None:
    complete = [item.path for item in items if item.what in ("artifact", "intermediate")]
    workspace.keep_manifests([item.path for item in items if item.what == "intermediate"])
    if complete:
        workspace.note_removed(complete, time.strftime("%Y-%m-%d", time.gmtime()))
    for item in items:  # runs first: an artifact without a run is found again
        if item.what in ("run", "scratch"):
            remove_tree(item.path)
        elif item.what == "manifest":
            item.path.unlink()
        else:
            remove_folder(item.path)
