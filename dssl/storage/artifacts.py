"""Artifacts: the results of stages, each in a folder named by what made it.

    <workspace>/artifacts/<stage>/<address>/            begun.json, and manifest.json last
    <workspace>/artifacts/<stage>/<address>/<layout>/   receipts/, parts/, shared/

The address is the SHA-256 of stage, code version, parameters and the addresses of the inputs. An artifact exists when
its manifest does. Without a manifest, the next run keeps the finished parts if it begins under the same conditions.
Otherwise it starts a new layout, a folder with a fresh name: a worker of the dead run that still writes cannot touch
it, and the old layout is removed when the artifact is published.
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
from typing import Any, Unpack

from ..base.digest import JsonObject, digest, plain
from ..base.errors import IntegrityError, ParameterError, explain, require
from .files import (
    concurrently,
    files_in,
    json_bytes,
    read_file,
    read_record,
    remove_tree,
    require_name,
    resolved_path,
    write_file,
    write_json,
)
from .frames import PACK
from .lease import LOCK, lock_at
from .lock import Lock, LockOptions
from .manifests import (
    BEGUN,
    MANIFESTS,
    PUBLISHED,
    Begun,
    Manifest,
    archived_manifest,
    checked_manifest,
    libraries,
    manifest_of,
    read_begun,
    read_manifest,
    seal_of,
)
from .objects import ObjectPath
from .store import DESCRIPTION, WRITTEN, StoredParts
from .verify import clear_unfinished, forget_unreadable, verify_finished, verify_parts
from .write_behind import settle

REMOVED = "removed.json"  # the artifacts that `dssl gc` removed, with the day
STORAGE = 2  # the version of the storage layout; artifacts of another version are made again


@dataclass(frozen=True)
class Artifact:
    """One artifact of a workspace, whether it exists already or not."""

    stage: str
    version: int
    params: JsonObject
    inputs: dict[str, str]  # addresses by stage name
    root: Path = field(compare=False)
    _read: "_Reading" = field(default_factory=lambda: _Reading(), init=False, repr=False, compare=False)

    @cached_property
    def address(self) -> str:
        """Return the SHA-256 of everything that determines the artifact."""
        return digest({"storage": STORAGE, "stage": self.stage, "version": self.version, "params": self.params,
                       "inputs": self.inputs})

    @property
    def folder(self) -> Path:
        return self.root / "artifacts" / self.stage / self.address[:24]

    @property
    def parts(self) -> StoredParts:
        """Return the parts of a complete or begun artifact; raise IntegrityError if it is neither."""
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
        """Return whether the artifact is complete, that is, has a manifest."""
        return self._text() is not None

    def _text(self) -> bytes | None:
        """Return the bytes of the manifest, None if there is none; read once, since a manifest is never replaced."""
        if self._read.text is None:
            with suppress(FileNotFoundError):
                self._read.text = bytes(read_file(self.folder / PUBLISHED))
        return self._read.text

    @property
    def is_known(self) -> bool:
        """Return whether its manifest exists: it is complete, or was removed as an intermediate result."""
        return self.exists or archived_manifest(self.folder).is_file()

    @property
    def finished_parts(self) -> int:
        """Return the number of parts that an interrupted run has finished, according to a listing of files."""
        begun = self._begun()
        return len(list((self.folder / begun["layout"]).glob("**/receipts/*.json"))) if begun else 0

    def _begun(self) -> Begun | None:
        """Return how an attempt began; None if there was none or the record is unreadable, so nothing can be kept.

        It is read once: the run that makes the artifact has held the lock since planning.
        """
        if not self._read.has_looked:
            self._read.has_looked = True
            with suppress(FileNotFoundError, IntegrityError):
                self._read.begun = read_begun(self.folder / BEGUN)
        return self._read.begun

    def _stored_manifest(self) -> Manifest:
        """Return the manifest of a complete artifact; raise FileNotFoundError if it is not complete."""
        path = self.folder / PUBLISHED
        text = self._text()
        if text is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if self._read.manifest is None:
            self._read.manifest = checked_manifest(text, path)
        return self._read.manifest

    @property
    def manifest(self) -> Manifest:
        """Return the manifest of a known artifact; raise IntegrityError if it is damaged or of another artifact.

        The manifest of a removed intermediate result counts.
        """
        path = self.folder / PUBLISHED
        try:
            manifest = self._stored_manifest()
        except FileNotFoundError:
            path = archived_manifest(self.folder)
            if not path.is_file():
                raise
            manifest = read_manifest(path)
        if manifest["address"] != self.address:
            raise IntegrityError(explain(
                f"{path} belongs to artifact {manifest['address'][:24]}",
                why="the folder's name and its content disagree", fix=f"delete {self.folder} and run again"))
        return manifest

    @property
    def attributes(self) -> JsonObject:
        """Return the JSON attributes of a known artifact."""
        return self.manifest["attributes"]

    def begin(self, conditions: JsonObject) -> None:
        """Prepare the folder; parts of an attempt under other conditions, such as another block size, are removed."""
        begun = self._begun()
        expected = plain(conditions)
        self._read.clear()
        if begun is not None and begun["conditions"] == expected:
            self._read.parts = parts = StoredParts(self.folder / begun["layout"])
            forget_unreadable(parts)
            return
        if begun is not None or not isinstance(self.folder, ObjectPath):
            remove_tree(self.folder)
        layout = os.urandom(6).hex()
        write_json(self.folder / BEGUN, {"conditions": expected, "layout": layout})
        self._read.parts = StoredParts(self.folder / layout, is_new=True)

    def publish(self, attributes: Mapping[str, Any], allowed: Callable[[], None] = lambda: None) -> None:
        """Write the manifest, last; if another run was first, its manifest stays.

        Files of dead runs are removed first; in an object store, `tidy` removes them later, since listing them takes
        extra requests. Pending removals of the stage are awaited, because nobody would repeat them.

        allowed : called before anything changes and again just before the manifest is written; raises to stop.
        """
        allowed()
        parts = self.parts
        listed = [] if parts.ledger.is_new and isinstance(self.folder, ObjectPath) else self.tidy()
        manifest: Manifest = {
            "stage": self.stage, "version": self.version, "address": self.address, "params": plain(self.params),
            "inputs": self.inputs, "attributes": plain(attributes), "layout": parts.folder.name,
            "files": self._files(parts, listed), "libraries": libraries()}
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
        """Remove the files of dead runs and of abandoned attempts; return the files that remain."""
        parts = self.parts
        listed = [path for path, _ in files_in(self.folder)]
        for name in {path.parts[len(self.folder.parts)] for path in listed} - {parts.folder.name, BEGUN, PUBLISHED}:
            remove_tree(self.folder / name)
        return clear_unfinished(parts, [path for path in listed if path.is_relative_to(parts.folder)])

    def _files(self, parts: StoredParts, listed: Iterable[Path]) -> dict[str, str]:
        """Return the SHA-256 of the description of every array and part, by path in the folder.

        listed : existing files that the ledger may not know.
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
        """Read every byte; raise IntegrityError for the first file that is missing or damaged."""
        self._read.clear()
        parts = self.parts
        files = self.manifest["files"]
        checksums = concurrently(lambda name: checksum_of(self.folder / name), files, self.folder)
        for (name, checksum), present in zip(files.items(), checksums, strict=True):
            if present != checksum:
                array = name.removesuffix(f"/{DESCRIPTION}")
                what = f"{self.folder / array} is missing" if present is None else f"{self.folder / name} is damaged"
                raise IntegrityError(explain(
                    what, why="the manifest lists it with its SHA-256",
                    fix=f"delete {self.folder} and run again: only that artifact is made again"))
        verify_parts(parts, [self.folder / name for name in files])

    def remove(self) -> None:
        """Delete the artifact; see `remove_folder`."""
        self._read.clear()
        remove_folder(self.folder)


@dataclass
class _Reading:
    """Files of an artifact that this process has read; `has_looked` says whether `begun` was."""

    text: bytes | None = None  # of the manifest
    manifest: Manifest | None = None
    parts: StoredParts | None = None
    begun: Begun | None = None
    has_looked: bool = False

    def clear(self) -> None:
        """Drop everything."""
        self.__dict__.update(vars(_Reading()))


def checksum_of(path: Path) -> str | None:
    """Return the SHA-256 of a file, None if it does not exist."""
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except FileNotFoundError:
        return None


def remove_folder(folder: Path) -> None:
    """Delete an artifact's folder: its manifest first, then the record of how it began, then everything else.

    A half-deleted artifact must not look like one that can be continued; a folder without both files is made again.
    """
    (folder / PUBLISHED).unlink(missing_ok=True)
    (folder / BEGUN).unlink(missing_ok=True)
    remove_tree(folder)


def parts_in(folder: Path) -> StoredParts:
    """Return the parts of the artifact in a folder; raise IntegrityError if no artifact has begun there."""
    for path, read in ((folder / PUBLISHED, read_manifest), (folder / BEGUN, read_begun)):
        try:
            stamp = path.stat()
        except FileNotFoundError:
            continue
        return StoredParts(folder / _layout_in(path, read, stamp.st_mtime_ns, stamp.st_ino))
    raise IntegrityError(explain(f"{folder} contains no artifact", why="it has neither manifest.json nor begun.json",
                                 fix=f"delete {folder} and run again: only that artifact is made again"))


@lru_cache(maxsize=1024)
def _layout_in(path: Path, read: Callable[[Path], Manifest | Begun], *stamp: int) -> str:
    """Return the layout that a file names; cached for as long as the file has the same time stamp."""
    return require_name(read(path)["layout"], path)


@dataclass(frozen=True)
class Workspace:
    """A folder of artifacts and runs that every worker can open."""

    root: Path

    @classmethod
    def at(cls, url: str | Path) -> "Workspace":
        """Return the workspace in a folder or at a URL of an object store; it is created by the first write."""
        require(isinstance(url, (str, os.PathLike)) and str(url) != "", f"workspace={url!r}", error=ParameterError,
                why="artifacts and runs are kept in a folder", fix="name a folder, such as dssl-work")
        root = resolved_path(url) if isinstance(url, ObjectPath) else resolved_path(os.fspath(url))
        is_file = not isinstance(root, ObjectPath) and root.exists() and not root.is_dir()
        require(not is_file, f"the workspace {root} is a file", error=ParameterError,
                why="artifacts and runs are kept in a folder", fix="name a folder, or a path that does not exist")
        return cls(root)

    def artifact(self, stage: str, version: int, params: JsonObject, inputs: dict[str, str]) -> Artifact:
        return Artifact(stage, version, params, inputs, self.root)

    def finished_parts(self, artifacts: Sequence[Artifact]) -> list[int | None]:
        """Return the number of finished parts of each artifact, None for complete ones; concurrent in a store."""
        return concurrently(lambda artifact: None if artifact.exists else artifact.finished_parts, artifacts, self.root)

    def tidy(self, artifacts: Iterable[Artifact]) -> None:
        """Remove files of dead runs from artifacts that were published in a store; see `Artifact.publish`."""
        if isinstance(self.root, ObjectPath):
            settle(removals=True)
            concurrently(Artifact.tidy, artifacts, self.root)

    def folder_of(self, stage: str, address: str) -> Path:
        """Return the folder of the artifact of a stage at an address, which need not exist."""
        known = re.fullmatch(r"\w+", stage) and re.fullmatch("[0-9a-f]{24,64}", address)
        require(bool(known), f"stage {stage!r} at {address!r} is not an artifact", error=IntegrityError,
                why="the record that names it is damaged", fix="run the pipeline again")
        return self.root / "artifacts" / stage / address[:24]

    def artifact_in(self, stage: str, address: str) -> Artifact:
        """Return the artifact of a stage at an address from its manifest; raise IntegrityError if that is damaged."""
        described = read_manifest(manifest_of(self.folder_of(stage, address)))
        return self.artifact(described["stage"], described["version"], described["params"], described["inputs"])

    def verify(self) -> int:
        """Read every byte of all complete artifacts; return their number, or raise IntegrityError for damage."""
        manifests = sorted((self.root / "artifacts").glob(f"*/*/{PUBLISHED}"))
        for path in manifests:
            described = read_manifest(path)
            made = self.artifact(described["stage"], described["version"], described["params"], described["inputs"])
            if made.folder != path.parent:
                raise IntegrityError(explain(
                    f"{path.parent} contains artifact {made.address[:24]} of stage {made.stage}",
                    why="the folder's name and its content disagree", fix=f"delete {path.parent} and run again"))
            made.verify()
        return len(manifests)

    def verify_unfinished(self) -> int:
        """Read the finished parts of artifacts without a manifest; return the number of these parts."""
        begun = sorted((self.root / "artifacts").glob(f"*/*/{BEGUN}"))
        return sum(verify_finished(parts_in(path.parent)) for path in begun
                   if not (path.parent / PUBLISHED).is_file())

    def note_removed(self, folders: Sequence[Path], day: str) -> None:
        """Record that artifacts are removed, so that the error for a missing one can say so."""
        gone = {f"{folder.parent.name}/{folder.name}": day for folder in folders}
        write_json(self.root / REMOVED, self.removed() | gone)

    def keep_manifests(self, folders: Sequence[Path]) -> None:
        """Keep the manifests of complete artifacts that are about to be removed."""
        for folder in folders:
            copy = self.root / MANIFESTS / folder.parent.name / f"{folder.name}.json"
            write_json(copy, read_manifest(folder / PUBLISHED))

    def removed(self) -> dict[str, str]:
        """Return the day on which artifacts were removed, by STAGE/FOLDER; some may be there again."""
        path = self.root / REMOVED
        try:
            return read_record(path, {}, fix=f"delete {path}: it only lists what `dssl gc` has removed")
        except FileNotFoundError:
            return {}

    @property
    def runs(self) -> list[Path]:
        """The folders of its runs, oldest first: their names begin with the time."""
        return sorted(path for path in self.root.glob("runs/*") if path.is_dir())

    def lock(self, wait: float = 0.0, **options: Unpack[LockOptions]) -> Lock:
        """Return the lock of the workspace; wait, options : see `Lock`."""
        return lock_at(self.lock_path, wait, **options)

    @property
    def lock_path(self) -> Path:
        return self.root / LOCK
