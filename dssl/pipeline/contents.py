"""What a workspace holds, and what of it no run needs: artifacts of runs that are gone, leftovers of stopped ones.

Of runs that are done the intermediate artifacts can go too: predictions, suggestions and reports do not need them, and
their manifests, which are kept, say what the others follow from.

A run needs the artifacts of its stages, which `stages.json` in its folder lists from its beginning. What is removed is
written down first, so that a plan and a prediction can say why it is not there.
"""

import shlex
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Required, TypedDict

from ..base.errors import DataError, IntegrityError, require
from ..report.record import Attributes, Result
from ..storage.artifacts import REMOVED, Workspace, parts_in, remove_folder
from ..storage.files import concurrently, disk_bytes, path_at, read_record, remove_tree, write_json
from ..storage.manifests import MANIFESTS, PUBLISHED, read_begun, read_manifest
from ..storage.verify import describe_arrays
from .growth import last_runs
from .kinds import all_stage_names, kind_of
from .records import RESULT, SPEC, STATUS, read_result, read_spec, stages_of
from .stage import Kind
from .status import StatusRecord, read_status

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

    Raises DataError: there is no such run. IntegrityError: a run that is kept does not say what it needs.
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

    Raises DataError: there is no such run. IntegrityError: a run that is kept does not say what it needs, and nothing
    is removed. LockedError: a run is under way.
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


# ---- what an artifact or a run is: parameters, inputs, arrays, attributes, bytes on disk


SHORTEST_ADDRESS = 4  # characters that name an artifact


class ArtifactDocument(TypedDict, total=False):
    """What the folder of an artifact or of a data set holds."""

    path: Required[str]
    kind: Required[Literal["artifact", "data set"]]
    status: str
    stage: str
    version: int
    address: str
    params: Attributes
    inputs: Mapping[str, str]
    attributes: Attributes
    libraries: Mapping[str, str]
    arrays: Sequence[Attributes]
    bytes_on_disk: int


class RunDocument(Result, total=False):
    """What the folder of a run holds: the result of one that has ended, the progress of one that has not."""

    path: Required[str]
    kind: Required[Literal["run"]]
    spec: Attributes | None
    progress: StatusRecord
    bytes_on_disk: int


class RunListed(TypedDict):
    """A run, and the bytes of its artifacts; None of one that has not ended."""

    run: str
    name: str | None
    status: str
    disk_bytes: int | None
    intermediate_bytes: int | None


def inspect(name: str, workspace: Workspace) -> ArtifactDocument | RunDocument:
    """Return what a folder, an address, a stage or a run is; raise DataError if it is nothing, or several artifacts.

    name : a path (of an artifact, a data set, a run or its result.json), the beginning of an address, the name of a
    stage (its newest artifact), or the identity of a run.
    """
    path = path_at(name)
    for folder in (path.parent if path.name == "result.json" else path, workspace.root / "runs" / name):
        if name and folder.is_dir():
            return describe_folder(folder)
    artifacts = workspace.root / "artifacts"
    if name in all_stage_names():
        made = sorted(artifacts.glob(f"{name}/*/manifest.json"), key=lambda path: path.stat().st_mtime_ns)
        require(bool(made), f"{workspace.root} holds no artifact of stage {name}", error=DataError,
                why="no run has made it, or it was deleted", fix="run a pipeline, or check --workspace")
        return describe_folder(made[-1].parent)
    known = {folder.name: folder for folder in artifacts.glob("*/*") if folder.is_dir()}
    fits = [folder for address, folder in known.items() if len(name) >= SHORTEST_ADDRESS
            and (address.startswith(name) or name.startswith(address))]
    require(len(fits) == 1, error=DataError,
            what=f"{name!r} names {len(fits)} artifacts" if fits else f"there is nothing called {name!r}",
            why=f"no folder, stage or run has this name, and {len(fits) or 'none'} of the {len(known)} "
                f"addresses in {workspace.root} begin with it",
            fix="give a path, a longer part of the address, a run, or one of the stages "
                + ", ".join(all_stage_names()))
    return describe_folder(fits[0])


def describe_folder(folder: Path) -> ArtifactDocument | RunDocument:
    """Return what an artifact's, a data set's or a run's folder holds; raise DataError if it is none of these."""
    if (folder / "result.json").is_file() or (folder / "spec.json").is_file():
        return describe_run(folder)
    document: ArtifactDocument = {"path": str(folder.resolve()), "kind": "artifact"}
    arrays = folder
    if (folder / "manifest.json").is_file():
        manifest, arrays = read_manifest(folder / "manifest.json"), parts_in(folder).folder
        document.update({
            "kind": "artifact", "status": "complete", "stage": manifest["stage"], "version": manifest["version"],
            "address": manifest["address"], "params": manifest["params"], "inputs": manifest["inputs"],
            "attributes": manifest["attributes"], "libraries": manifest["libraries"]})
    elif (folder / "begun.json").is_file():
        arrays = parts_in(folder).folder
        finished = len(list(arrays.glob("**/receipts/*.json")))
        document.update({
            "kind": "artifact", "status": f"unfinished, {finished} parts are finished",
            "stage": folder.resolve().parent.name, "params": read_begun(folder / "begun.json")["conditions"]})
    else:
        require((folder / "dataset.json").is_file(), f"{folder} is no artifact, run or data set", error=DataError,
                why="it has no manifest.json, result.json or dataset.json", fix="name a folder that dssl made")
        dataset = read_record(folder / "dataset.json", {"attributes": dict}, fix="ingest the source again")
        document.update({"kind": "data set", "attributes": dataset["attributes"]})
    return {**document, "arrays": describe_arrays(arrays), "bytes_on_disk": disk_bytes(folder)}


def describe_run(folder: Path) -> RunDocument:
    """Return what a run's folder holds: its spec, and its result if it came to one, with what is on disk of it now."""
    spec, result, status = folder / "spec.json", folder / "result.json", folder / STATUS
    fields = read_spec(spec) if spec.is_file() else None
    document: RunDocument = {"path": str(folder.resolve()), "kind": "run", "status": "unfinished", "spec": fields}
    if result.is_file():
        workspace = Workspace.at(folder.resolve().parents[1])
        document = {**document, **with_disk_bytes(read_result(result), workspace, kind_of(fields or {}))}
    elif status.is_file():
        document["progress"] = read_status(folder)
    return {**document, "bytes_on_disk": disk_bytes(folder)}


def runs_of(workspace: Workspace) -> list[RunListed]:
    """Return run, name, status, and the bytes of their artifacts, `intermediate_bytes` among them, the oldest first.

    Runs share artifacts, so the bytes of several do not add up; those of one that has not ended are not known.
    """
    documents: list[RunListed] = []
    for folder in workspace.runs:
        described = describe_run(folder)
        progress, spec = described.get("progress"), described.get("spec") or {}
        stages = described.get("stages")
        documents.append({"run": folder.name, "name": (progress or described).get("name", spec.get("name")),
                          "status": progress["state"] if progress else described["status"],
                      "disk_bytes": sum(stage["disk_bytes"] for stage in stages) if stages is not None else None,
                      "intermediate_bytes": described.get("intermediate_bytes")})
    return documents


def with_disk_bytes(result: Result, workspace: Workspace, kind: Kind) -> Result:
    """Return the document of a run with what its artifacts keep on disk now, and how much of that is intermediate."""
    passing = {stage.name for stage in kind.stages if stage.intermediate and result["run"] not in last_runs(workspace)}
    folders = [workspace.folder_of(record["name"], record["address"]) for record in result["stages"]]
    for record, size in zip(result["stages"], concurrently(disk_bytes, folders, workspace.root), strict=True):
        record["disk_bytes"] = size
    result["intermediate_bytes"] = sum(stage["disk_bytes"] for stage in result["stages"] if stage["name"] in passing)
    return result
