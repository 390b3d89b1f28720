"""Artifacts: what a stage made, in a folder named by what made it.

    <workspace>/artifacts/<stage>/<address>/            begun.json, and manifest.json last
    <workspace>/artifacts/<stage>/<address>/<layout>/   receipts/, parts/, shared/

The address is the SHA-256 of stage, code version, parameters and the addresses of the inputs. An artifact exists when
its manifest does; without one, its finished parts are what the next run keeps, if it begins under the same conditions.
Else it has a layout of its own, a folder with a name that none had before: what a worker of the dead run still writes
comes to where nobody looks, and is gone when the artifact is published.
"""

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ..base.digest import digest, plain
from ..base.errors import IntegrityError, ParameterError, explain, require
from .files import (
    at_once,
    files_in,
    json_bytes,
    place_of,
    read_file,
    read_record,
    remove_tree,
    require_name,
    write_file,
    write_json,
)
from .lease import lock_at
from .lock import Lock
from .manifests import (
    BEGUN,
    MANIFESTS,
    PUBLISHED,
    Begun,
    Manifest,
    checked_manifest,
    kept_manifest,
    libraries,
    manifest_of,
    read_begun,
    read_manifest,
    seal_of,
)
from .objects import ObjectPath
from .packs import PACK
from .store import DESCRIPTION, WRITTEN, StoredParts
from .verify import clear_unfinished, forget_unreadable, verify_finished, verify_parts
from .write_behind import settle

REMOVED = "removed.json"  # which artifacts `dssl gc` removed, and when
STORAGE = 2  # the version of how artifacts lie in a workspace, so that those of another are made anew


@dataclass(frozen=True)
class Artifact:
    """One artifact of a workspace, whether it is there yet or not."""

    stage: str
    version: int
    params: dict[str, Any]
    inputs: dict[str, str]  # addresses by stage name
    root: Path = field(compare=False)
    _read: "_Reading" = field(default_factory=lambda: _Reading(), init=False, repr=False, compare=False)

    @cached_property
    def address(self) -> str:
        """Return the SHA-256 of what makes it."""
        return digest({"storage": STORAGE, "stage": self.stage, "version": self.version, "params": self.params,
                       "inputs": self.inputs})

    @property
    def folder(self) -> Path:
        return self.root / "artifacts" / self.stage / self.address[:24]

    @property
    def parts(self) -> StoredParts:
        """Return where its parts lie, of a complete one and of one that is begun; IntegrityError if it is neither."""
        if self._read.parts is None:
            if not self.exists:
                return parts_in(self.folder)
            manifest = self._stored_manifest()
            parts = StoredParts(self.folder / require_name(manifest["layout"], self.folder / PUBLISHED))
            parts.ledger.is_complete = True
            parts.ledger.learn_all({name.removeprefix(f"{parts.folder.name}/"): checksum
                                    for name, checksum in manifest["files"].items()})
            self._read.parts = parts
        return self._read.parts

    @property
    def exists(self) -> bool:
        """Return whether it is complete: its manifest is there."""
        return self._text() is not None

    def _text(self) -> bytes | None:
        """Return what its manifest holds, None if there is none; it is read once, since another never takes its place.
        """
        if self._read.text is None:
            with suppress(FileNotFoundError):
                self._read.text = bytes(read_file(self.folder / PUBLISHED))
        return self._read.text

    @property
    def is_known(self) -> bool:
        """Return whether its manifest is there: it is complete, or was removed as something intermediate."""
        return self.exists or kept_manifest(self.folder).is_file()

    @property
    def finished_parts(self) -> int:
        """Return how many parts an interrupted run has left, as far as a list of files shows."""
        begun = self._begun()
        return len(list((self.folder / begun["layout"]).glob("**/receipts/*.json"))) if begun else 0

    def _begun(self) -> Begun | None:
        """Return how an attempt began; None where there was none, or it cannot be read: nothing of it is kept.

        It is read once: who makes the artifact holds the lock since it was planned.
        """
        if not self._read.has_looked:
            self._read.has_looked = True
            with suppress(FileNotFoundError, IntegrityError):
                self._read.begun = read_begun(self.folder / BEGUN)
        return self._read.begun

    def _stored_manifest(self) -> Manifest:
        """Return the manifest of a complete artifact; raise FileNotFoundError if it is none."""
        path = self.folder / PUBLISHED
        text = self._text()
        if text is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if self._read.manifest is None:
            self._read.manifest = checked_manifest(text, path)
        return self._read.manifest

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of a known artifact; raise IntegrityError if it is damaged or of another artifact."""
        path = self.folder / PUBLISHED
        try:
            manifest = self._stored_manifest()
        except FileNotFoundError:
            path = kept_manifest(self.folder)
            if not path.is_file():
                raise
            manifest = read_manifest(path)
        if manifest["address"] != self.address:
            raise IntegrityError(explain(
                f"{path} is of artifact {manifest['address'][:24]}",
                why="the folder's name and its content disagree", fix=f"delete {self.folder} and run again"))
        return manifest

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the JSON attributes of a known artifact."""
        return self.manifest["attributes"]

    def begin(self, conditions: dict[str, Any]) -> None:
        """Prepare the folder; parts of an attempt under other conditions (another block size) are removed."""
        begun = self._begun()
        wanted = plain(conditions)
        self._read.clear()
        if begun is not None and begun["conditions"] == wanted:
            self._read.parts = parts = StoredParts(self.folder / begun["layout"])
            forget_unreadable(parts)
            return
        if begun is not None or not isinstance(self.folder, ObjectPath):
            remove_tree(self.folder)
        layout = os.urandom(6).hex()
        write_json(self.folder / BEGUN, {"conditions": wanted, "layout": layout})
        self._read.parts = StoredParts(self.folder / layout, is_new=True)

    def publish(self, attributes: Mapping[str, Any], allowed: Callable[[], None] = lambda: None) -> None:
        """Write the manifest, last; if another run was first, its manifest stays.

        allowed : called before anything changes and just before, and raises if this run may not. What was written
        where no run looks is removed first, in a store by `tidy`: a list of it all is a request more. What the stage
        has removed is gone: nobody would remove it later.
        """
        allowed()
        parts = self.parts
        kept = [] if parts.ledger.is_new and isinstance(self.folder, ObjectPath) else self.tidy()
        manifest: Manifest = {
            "stage": self.stage, "version": self.version, "address": self.address, "params": plain(self.params),
            "inputs": self.inputs, "attributes": plain(attributes), "layout": parts.folder.name,
            "files": self._files(parts, kept), "libraries": libraries()}
        settle(removals=True)
        allowed()
        manifest["seal"] = seal_of(manifest)
        text = json_bytes(manifest)
        self._read.clear()
        parts.ledger.is_complete = True
        if write_file(self.folder / PUBLISHED, text, exclusive=True, durable=True):
            self._read.text = text
            self._read.manifest = json.loads(text)
            self._read.parts = parts

    def tidy(self) -> list[Path]:
        """Remove what orphans have written in the folder and what is of no part; return the files of parts that stay.
        """
        parts = self.parts
        listed = [path for path, _ in files_in(self.folder)]
        for name in {path.parts[len(self.folder.parts)] for path in listed} - {parts.folder.name, BEGUN, PUBLISHED}:
            remove_tree(self.folder / name)
        return clear_unfinished(parts, [path for path in listed if path.is_relative_to(parts.folder)])

    def _files(self, parts: StoredParts, listed: Iterable[Path]) -> dict[str, str]:
        """Return the SHA-256 of the description of every array and of every part, by path in the folder.

        listed : files that are there, as far as a list shows. What is known of those that were written needs no list.
        """
        checksums = parts.ledger.files()
        for path in listed:
            name = path.relative_to(parts.folder).as_posix()
            if name not in checksums and (path.name in (DESCRIPTION, PACK, WRITTEN) or (
                    path.suffix == ".json" and path.parent.name == "receipts")):
                checksum = checksum_of(path)
                checksums |= {} if checksum is None else {name: checksum}
        return {f"{parts.folder.name}/{name}": checksums[name] for name in sorted(checksums)}

    def verify(self) -> None:
        """Read every byte; raise IntegrityError on the first that is missing or damaged."""
        self._read.clear()
        parts = self.parts
        files = self.manifest["files"]
        checksums = at_once(lambda name: checksum_of(self.folder / name), files, self.folder)
        for (name, checksum), present in zip(files.items(), checksums, strict=True):
            if present != checksum:
                array = name.removesuffix(f"/{DESCRIPTION}")
                what = f"{self.folder / array} is missing" if present is None else f"{self.folder / name} is damaged"
                raise IntegrityError(explain(
                    what, why="the manifest lists it with its SHA-256",
                    fix=f"delete {self.folder} and run again: only that artifact is made anew"))
        verify_parts(parts, [self.folder / name for name in files])

    def remove(self) -> None:
        """Delete the artifact; see `remove_folder`."""
        self._read.clear()
        remove_folder(self.folder)


@dataclass
class _Reading:
    """What this process has read of an artifact, each once; `has_looked`: for how it was begun."""

    text: bytes | None = None  # of its manifest
    manifest: Manifest | None = None
    parts: StoredParts | None = None
    begun: Begun | None = None
    has_looked: bool = False

    def clear(self) -> None:
        """Forget all of it."""
        self.__dict__.update(vars(_Reading()))


def checksum_of(path: Path) -> str | None:
    """Return the SHA-256 of a file, None if it is not there."""
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except FileNotFoundError:
        return None


def remove_folder(folder: Path) -> None:
    """Delete an artifact's folder: its manifest first, then what says where its parts lie, then all of it.

    Half of an artifact would look like one to go on with; a folder without both files is made anew.
    """
    (folder / PUBLISHED).unlink(missing_ok=True)
    (folder / BEGUN).unlink(missing_ok=True)
    remove_tree(folder)


def parts_in(folder: Path) -> StoredParts:
    """Return the parts of the artifact in a folder; raise IntegrityError if none has begun there."""
    for path, read in ((folder / PUBLISHED, read_manifest), (folder / BEGUN, read_begun)):
        try:
            stamp = path.stat()
        except FileNotFoundError:
            continue
        return StoredParts(folder / _layout_in(path, read, stamp.st_mtime_ns, stamp.st_ino))
    raise IntegrityError(explain(f"{folder} holds no artifact", why="it has neither manifest.json nor begun.json",
                                 fix=f"delete {folder} and run again: only that artifact is made anew"))


@lru_cache(maxsize=1024)
def _layout_in(path: Path, read: Callable[[Path], Any], *stamp: int) -> str:
    """Return the layout that a file names, which is read once as long as it has the same stamp."""
    return require_name(read(path)["layout"], path)


@dataclass(frozen=True)
class Workspace:
    """A folder of artifacts and runs that every worker can open."""

    root: Path

    @classmethod
    def at(cls, url: str | Path) -> "Workspace":
        """Return the workspace at a folder, or at a URL of an object store; it is made when something is written.

        Raises ParameterError: it names a file, or another kind of place; see `object_path`.
        """
        require(isinstance(url, (str, os.PathLike)) and str(url) != "", f"workspace={url!r}", error=ParameterError,
                why="artifacts and runs are kept in a folder", fix="name a folder, such as dssl-work")
        root = place_of(url) if isinstance(url, ObjectPath) else place_of(os.fspath(url))
        is_file = not isinstance(root, ObjectPath) and root.exists() and not root.is_dir()
        require(not is_file, f"the workspace {root} is a file", error=ParameterError,
                why="artifacts and runs are kept in a folder", fix="name a folder, or a path where there is none")
        return cls(root)

    def artifact(self, stage: str, version: int, params: dict[str, Any], inputs: dict[str, str]) -> Artifact:
        return Artifact(stage, version, params, inputs, self.root)

    def how_far(self, artifacts: Sequence[Artifact]) -> list[int | None]:
        """Return of each artifact None if it is complete, else its finished parts; a store is asked for several."""
        return at_once(lambda artifact: None if artifact.exists else artifact.finished_parts, artifacts, self.root)

    def tidy(self, artifacts: Iterable[Artifact]) -> None:
        """Remove what is of no part from artifacts that were published in a store; see `Artifact.publish`."""
        if isinstance(self.root, ObjectPath):
            settle(removals=True)
            at_once(Artifact.tidy, artifacts, self.root)

    def folder_of(self, stage: str, address: str) -> Path:
        """Return where the artifact of a stage at an address lies, or would."""
        known = re.fullmatch(r"\w+", stage) and re.fullmatch("[0-9a-f]{24,64}", address)
        require(bool(known), f"stage {stage!r} at {address!r} is no artifact", error=IntegrityError,
                why="the record that names it is damaged", fix="run the pipeline again")
        return self.root / "artifacts" / stage / address[:24]

    def artifact_in(self, stage: str, address: str) -> Artifact:
        """Return the known artifact of a stage at an address; raise IntegrityError if its manifest is damaged."""
        described = read_manifest(manifest_of(self.folder_of(stage, address)))
        return self.artifact(described["stage"], described["version"], described["params"], described["inputs"])

    def verify(self) -> int:
        """Read every byte of every complete artifact and return their number; raise IntegrityError on the first bad."""
        manifests = sorted((self.root / "artifacts").glob(f"*/*/{PUBLISHED}"))
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
        begun = sorted((self.root / "artifacts").glob(f"*/*/{BEGUN}"))
        return sum(verify_finished(parts_in(path.parent)) for path in begun
                   if not (path.parent / PUBLISHED).is_file())

    def note_removed(self, folders: Sequence[Path], day: str) -> None:
        """Record that artifacts are removed, so that the error of a missing one can say so."""
        gone = {f"{folder.parent.name}/{folder.name}": day for folder in folders}
        write_json(self.root / REMOVED, self.removed() | gone)

    def keep_manifests(self, folders: Sequence[Path]) -> None:
        """Keep the manifests of complete artifacts that are about to be removed."""
        for folder in folders:
            kept = self.root / MANIFESTS / folder.parent.name / f"{folder.name}.json"
            write_json(kept, read_manifest(folder / PUBLISHED))

    def removed(self) -> dict[str, str]:
        """Return the day on which artifacts were removed, by STAGE/FOLDER; some may have been made again."""
        path = self.root / REMOVED
        try:
            return read_record(path, {}, fix=f"delete {path}: it only says what `dssl gc` has removed")
        except FileNotFoundError:
            return {}

    @property
    def runs(self) -> list[Path]:
        """The folders of its runs, the oldest first: their names begin with the time."""
        return sorted(path for path in self.root.glob("runs/*") if path.is_dir())

    def lock(self, wait: float = 0.0, **options: Any) -> Lock:
        """Return the lock of the workspace; wait, options : see `Lock`."""
        return lock_at(self.lock_path, wait=wait, **options)

    @property
    def lock_path(self) -> Path:
        return self.root / "lock.json"
