"""What an artifact or a run is: parameters, inputs, arrays, attributes, bytes on disk."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Required, TypedDict

from ..base.errors import DataError, require
from ..report.record import Attributes, Result
from ..storage.artifacts import Workspace, parts_in
from ..storage.files import concurrently, disk_bytes, path_at, read_record
from ..storage.manifests import read_begun, read_manifest
from ..storage.verify import describe_arrays
from .growth import last_runs
from .kinds import all_stage_names, kind_of
from .records import STATUS, read_result, read_spec
from .stage import Kind
from .status import StatusRecord, read_status

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
    """Return what a folder, an address, a stage or a run is.

    Parameters
    ----------
    name : a path (of an artifact, a data set, a run or its result.json), the beginning of an address, the name of a
        stage (its newest artifact), or the identity of a run.

    Raises
    ------
    DataError : it names nothing, or more than one artifact.
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
    """Return what an artifact's, a data set's or a run's folder holds.

    Raises
    ------
    DataError : it is none of these. IntegrityError : its manifest is damaged.
    """
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
