"""Artifacts: what a stage made, in a folder named by what made it.

    <workspace>/artifacts/<stage>/<address>/   begun.json, receipts/, parts/, shared/, and manifest.json last

The address is the SHA-256 of stage, code version, parameters and the addresses of the inputs. An artifact exists when
its manifest does; without one, its finished parts are what the next run keeps.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..errors import IntegrityError, explain
from ..params import digest, plain
from .files import local_path, read_json, write_json
from .lock import FolderLock
from .store import StoredParts
from .verify import verify_finished, verify_parts

REMOVED = "removed.json"  # which artifacts `dssl gc` removed, and when
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "zarr", "dask", "pynndescent", "pyamg")


@dataclass(frozen=True)
class Artifact:
    """One artifact of a workspace, whether it is there yet or not."""

    stage: str
    version: int
    params: dict[str, Any]
    inputs: dict[str, str]  # addresses by stage name
    root: Path = field(compare=False)

    @property
    def address(self) -> str:
        """Return the SHA-256 of what makes it."""
        return digest({"stage": self.stage, "version": self.version, "params": self.params, "inputs": self.inputs})

    @property
    def folder(self) -> Path:
        return self.root / "artifacts" / self.stage / self.address[:24]

    @property
    def parts(self) -> StoredParts:
        return StoredParts(self.folder)

    @property
    def exists(self) -> bool:
        """Return whether it is complete: its manifest is there."""
        return (self.folder / "manifest.json").is_file()

    @property
    def finished_parts(self) -> int:
        """Return how many parts an interrupted run has left."""
        return len(list(self.folder.glob("**/receipts/*.json"))) if self.folder.is_dir() else 0

    @property
    def manifest(self) -> dict[str, Any]:
        """Return the manifest of a complete artifact; raise IntegrityError if it is damaged or of another artifact."""
        manifest = read_manifest(self.folder / "manifest.json")
        if manifest["address"] != self.address:
            raise IntegrityError(explain(
                f"{self.folder / 'manifest.json'} is of artifact {manifest['address'][:24]}",
                why="the folder's name and its content disagree", fix=f"delete {self.folder} and run again"))
        return manifest

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the JSON attributes of a complete artifact."""
        return self.manifest["attributes"]

    def begin(self, conditions: dict[str, Any]) -> None:
        """Prepare the folder; parts of an attempt under other conditions (another block size) are removed."""
        begun = self.folder / "begun.json"
        if self.folder.exists() and (not begun.is_file() or read_json(begun) != plain(conditions)):
            shutil.rmtree(self.folder)
        write_json(begun, plain(conditions))

    def publish(self, attributes: dict[str, Any]) -> None:
        """Write the manifest, last; if another run was first, its manifest stays."""
        manifest = {
            "stage": self.stage, "version": self.version, "address": self.address, "params": plain(self.params),
            "inputs": self.inputs, "attributes": plain(attributes), "files": self._files(),
            "libraries": libraries()}
        write_json(self.folder / "manifest.json", {**manifest, "seal": _seal(manifest)}, exclusive=True)

    def _files(self) -> dict[str, str]:
        """Return the SHA-256 of the description of every array and of every receipt, by path in the folder."""
        described = [*self.folder.glob("**/zarr.json"), *self.folder.glob("**/receipts/*.json")]
        return {str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(described)}

    def verify(self) -> None:
        """Read every byte; raise IntegrityError on the first that is missing or damaged."""
        found = self._files()
        for name, checksum in self.manifest["files"].items():
            if found.get(name) != checksum:
                array = name.removesuffix("/zarr.json")
                what = f"{self.folder / name} is damaged" if name in found else f"{self.folder / array} is missing"
                raise IntegrityError(explain(
                    what, why="the manifest lists it with its SHA-256",
                    fix=f"delete {self.folder} and run again: only that artifact is made anew"))
        verify_parts(self.parts)

    def remove(self) -> None:
        """Delete the artifact; see `remove_folder`."""
        remove_folder(self.root, self.folder)


def remove_folder(root: Path, folder: Path) -> None:
    """Delete an artifact's folder in a workspace: its manifest first, then all of it at once.

    Half of an artifact would look like one to go on with; what is moved to scratch is swept away by the next run.
    """
    (folder / "manifest.json").unlink(missing_ok=True)
    gone = root / "scratch" / f"removed-{folder.name}-{os.urandom(4).hex()}"
    gone.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):
        folder.replace(gone)
    shutil.rmtree(gone, ignore_errors=True)


@cache
def libraries() -> dict[str, str]:
    """Return the versions of what a result may depend on; a quarter second of reading metadata."""
    return {name: version(name) for name in LIBRARIES}


def read_manifest(path: Path) -> dict[str, Any]:
    """Return a manifest; raise IntegrityError if a byte of its content changed since it was written."""
    manifest = read_json(path)
    body = {name: value for name, value in manifest.items() if name != "seal"} if isinstance(manifest, dict) else {}
    if not body or manifest.get("seal") != _seal(body):
        raise IntegrityError(explain(
            f"{path} is damaged", why="its content does not match the SHA-256 in it",
            fix=f"delete {path.parent} and run again: only that artifact is made anew"))
    return manifest


def _seal(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Workspace:
    """A folder of artifacts and runs that every worker can open."""

    root: Path

    @classmethod
    def at(cls, url: str | Path) -> "Workspace":
        """Return the workspace at a folder; it is made when something is written."""
        return cls(local_path(url))

    def artifact(self, stage: str, version: int, params: dict[str, Any], inputs: dict[str, str]) -> Artifact:
        return Artifact(stage, version, params, inputs, self.root)

    def verify(self) -> int:
        """Read every byte of every complete artifact and return their number; raise IntegrityError on the first bad."""
        manifests = sorted((self.root / "artifacts").glob("*/*/manifest.json"))
        for path in manifests:
            described = read_manifest(path)
            made = self.artifact(described["stage"], described["version"], described["params"], described["inputs"])
            if made.folder != path.parent:
                raise IntegrityError(explain(
                    f"{path.parent} holds artifact {made.address[:24]} of stage {made.stage}",
                    why="the folder's name and its content disagree", fix=f"delete {path.parent} and run again"))
            made.verify()
        return len(manifests)

    def verify_unfinished(self) -> int:
        """Read what the finished parts of artifacts without a manifest wrote; return the number of these parts."""
        begun = sorted((self.root / "artifacts").glob("*/*/begun.json"))
        return sum(verify_finished(StoredParts(path.parent)) for path in begun
                   if not (path.parent / "manifest.json").is_file())

    def note_removed(self, folders: Sequence[Path], day: str) -> None:
        """Write down that artifacts are removed, so that whoever misses one is told."""
        gone = {f"{folder.parent.name}/{folder.name}": day for folder in folders}
        write_json(self.root / REMOVED, self.removed() | gone)

    def removed(self) -> dict[str, str]:
        """Return the day on which artifacts were removed, by STAGE/FOLDER; some may have been made again."""
        path = self.root / REMOVED
        return read_json(path) if path.is_file() else {}

    def lock(self, wait: float = 0.0) -> FolderLock:
        """Return the lock of the workspace; wait : seconds for which another writer is waited for."""
        return FolderLock(self.root / "lock.json", wait=wait)
