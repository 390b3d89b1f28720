"""Artifacts: what a stage made, in a folder named by what made it.

    <workspace>/artifacts/<stage>/<address>/   begun.json, receipts/, parts/, shared/, and manifest.json last

The address is the SHA-256 of stage, code version, parameters and the addresses of the inputs. An artifact exists when
its manifest does; without one, its finished parts are what the next run keeps.
"""

import os
import shutil
import socket
import threading
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from ..data.store import StoredParts, local_path, read_json, verify_parts, write_json
from ..errors import IntegrityError, LockedError, explain
from ..params import digest, plain

LEASE_SECONDS = 60.0  # a lock whose holder has not renewed it for so long is free
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
    def attributes(self) -> dict[str, Any]:
        """Return the JSON attributes of a complete artifact."""
        manifest = read_json(self.folder / "manifest.json")
        if manifest.get("address") != self.address:
            raise IntegrityError(explain(
                f"{self.folder / 'manifest.json'} is of artifact {str(manifest.get('address'))[:24]}",
                why="the folder's name and its content disagree", fix=f"delete {self.folder} and run again"))
        return manifest["attributes"]

    def begin(self, conditions: dict[str, Any]) -> None:
        """Prepare the folder; parts of an attempt under other conditions (another block size) are removed."""
        begun = self.folder / "begun.json"
        if self.folder.exists() and (not begun.is_file() or read_json(begun) != plain(conditions)):
            shutil.rmtree(self.folder)
        write_json(begun, plain(conditions))

    def publish(self, attributes: dict[str, Any]) -> None:
        """Write the manifest, last; if another run was first, its manifest stays."""
        write_json(self.folder / "manifest.json", {
            "stage": self.stage, "version": self.version, "address": self.address, "params": plain(self.params),
            "inputs": self.inputs, "attributes": plain(attributes), "arrays": self._arrays(),
            "libraries": {name: version(name) for name in LIBRARIES}}, exclusive=True)

    def _arrays(self) -> list[str]:
        """Return the paths of all arrays in the folder."""
        return sorted(str(path.parent.relative_to(self.folder)) for path in self.folder.glob("**/zarr.json"))

    def verify(self) -> None:
        """Read every byte; raise IntegrityError on the first that is missing or damaged."""
        _ = self.attributes
        missing = set(read_json(self.folder / "manifest.json")["arrays"]) - set(self._arrays())
        if missing:
            raise IntegrityError(explain(
                f"{self.folder / min(missing)} is missing", why="the manifest lists it",
                fix=f"delete {self.folder} and run again: only that artifact is made anew"))
        verify_parts(self.parts)

    def remove(self) -> None:
        """Delete the artifact, its manifest first."""
        (self.folder / "manifest.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


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
            described = read_json(path)
            made = self.artifact(described["stage"], described["version"], described["params"], described["inputs"])
            made.verify()
        return len(manifests)

    def lock(self) -> "Lock":
        return Lock(self.root / "lock.json")


class Lock:
    """One run at a time in a workspace: a file with its holder, renewed while the run lives.

    A lock is taken over when its process is gone (on this host) or it was not renewed for `LEASE_SECONDS`, so nobody
    has to remove one by hand.
    """

    def __init__(self, path: Path):
        self.path = path
        self._mine = {"host": socket.gethostname(), "pid": os.getpid(), "token": os.urandom(8).hex()}
        self._released = threading.Event()

    def __enter__(self) -> Self:
        for _ in range(3):
            if write_json(self.path, {**self._mine, "renewed": time.time()}, exclusive=True):
                self._renewer = threading.Thread(target=self._renew, daemon=True)
                self._renewer.start()
                return self
            holder = self._holder()
            if holder is not None and not self._stale(holder):
                raise LockedError(explain(
                    f"process {holder['pid']} on {holder['host']} is running in {self.path.parent}",
                    why="two runs would write the same parts", fix="wait for it, or choose another --workspace"))
            self.path.unlink(missing_ok=True)
        raise LockedError(explain(f"{self.path} was taken by another run", why="several runs began at once",
                                  fix="try again"))

    def _holder(self) -> dict[str, Any] | None:
        try:
            return read_json(self.path)
        except FileNotFoundError:
            return None
        except IntegrityError:  # a lock that cannot be read belongs to nobody
            return None

    @staticmethod
    def _stale(holder: dict[str, Any]) -> bool:
        if holder["host"] == socket.gethostname():
            try:
                os.kill(int(holder["pid"]), 0)
            except ProcessLookupError:
                return True
            except PermissionError:
                return False
        return time.time() - float(holder["renewed"]) > LEASE_SECONDS

    def _renew(self) -> None:
        while not self._released.wait(LEASE_SECONDS / 6):
            write_json(self.path, {**self._mine, "renewed": time.time()})

    def __exit__(self, *exc: object) -> None:
        self._released.set()
        self._renewer.join()
        self.path.unlink(missing_ok=True)
