"""Remove what no run of a workspace needs: artifacts of runs that are gone, what stopped runs left, and scratch.

A run needs the artifacts of its stages, which `stages.json` in its folder lists from its beginning. What is removed is
written down first, so that a plan and a prediction can say why it is not there.
"""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import DataError, require
from ..storage.artifacts import Workspace, remove_folder
from ..storage.files import read_json, write_json
from .inspection import disk_bytes

STAGES = "stages.json"  # in a run's folder: the folders of the artifacts that it makes or uses
What = Literal["run", "artifact", "unfinished", "scratch"]


@dataclass(frozen=True)
class Removable:
    """A folder that can go: a run's, that of a complete or an unfinished artifact, or of scratch."""

    what: What
    path: Path
    size: int

    @property
    def stage(self) -> str:
        """Return the stage of an artifact."""
        return self.path.parent.name if self.what in ("artifact", "unfinished") else ""

    def to_dict(self) -> dict[str, Any]:
        return {"what": self.what, "stage": self.stage, "path": str(self.path), "bytes": self.size}


@dataclass(frozen=True)
class Garbage:
    """What can be removed of a workspace, the runs that are kept, and the bytes of the artifacts that they need."""

    items: list[Removable]
    kept: list[str]
    kept_bytes: int

    @property
    def size(self) -> int:
        return sum(item.size for item in self.items)

    def to_dict(self) -> dict[str, Any]:
        return {"items": [item.to_dict() for item in self.items], "bytes": self.size, "kept_runs": self.kept,
                "kept_bytes": self.kept_bytes}


def write_stages(run: Path, folders: Sequence[Path]) -> None:
    """Write into a run's folder which artifacts it makes or uses."""
    write_json(run / STAGES, [f"{folder.parent.name}/{folder.name}" for folder in folders])


def find_garbage(workspace: Workspace, *, keep_runs: int | None = None, drop: Sequence[str] = ()) -> Garbage:
    """Return what can be removed.

    keep_runs : how many runs are kept, the newest; unset: all. drop : runs that are not kept.

    An artifact that is not finished can go whatever run it is of: its finished parts are then made anew.

    Raises
    ------
    DataError : there is no such run.
    """
    artifacts, folder = workspace.root / "artifacts", workspace.root / "runs"
    runs = sorted(path for path in folder.glob("*") if path.is_dir())  # their names begin with the time
    unknown = sorted(set(drop) - {path.name for path in runs})
    require(not unknown, f"{folder} has no run {', '.join(unknown)}", why="it was to be removed", error=DataError,
            fix="name some of " + (", ".join(path.name for path in runs[-5:]) or "none: there are no runs"))
    newest = runs if keep_runs is None else runs[len(runs) - min(keep_runs, len(runs)):]
    kept = [path for path in newest if path.name not in drop]
    needed = {name for path in kept if (path / STAGES).is_file() for name in read_json(path / STAGES)}
    items, kept_bytes = [Removable("run", path, disk_bytes(path)) for path in runs if path not in kept], 0
    for path in sorted(artifacts.glob("*/*")):
        complete, size = (path / "manifest.json").is_file(), disk_bytes(path)
        if complete and f"{path.parent.name}/{path.name}" in needed:
            kept_bytes += size
        else:
            items.append(Removable("artifact" if complete else "unfinished", path, size))
    scratch = workspace.root / "scratch"
    if scratch.is_dir() and any(scratch.iterdir()):
        items.append(Removable("scratch", scratch, disk_bytes(scratch)))
    return Garbage(items, [path.name for path in kept], kept_bytes)


def collect_garbage(workspace: Workspace, *, keep_runs: int | None = None, drop: Sequence[str] = ()) -> Garbage:
    """Remove what `find_garbage` finds, under the workspace's lock; return it.

    Whenever it is ended, no half of an artifact is left that a run would take for one.

    Raises
    ------
    DataError : there is no such run. LockedError : a run is under way.
    """
    with workspace.lock():
        found = find_garbage(workspace, keep_runs=keep_runs, drop=drop)
        complete = [item for item in found.items if item.what == "artifact"]
        if complete:
            workspace.note_removed([item.path for item in complete], time.strftime("%Y-%m-%d", time.gmtime()))
        for item in found.items:  # runs first: an artifact without a run is found again
            if item.what in ("run", "scratch"):
                shutil.rmtree(item.path)
            else:
                remove_folder(workspace.root, item.path)
    return found
