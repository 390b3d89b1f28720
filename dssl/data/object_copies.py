"""Local copies of objects, each in a folder that is named by the version of the object.

A Zarr array or group and a data set of dssl are folders; the store lists their objects.
"""

import hashlib
import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import DataError, explain, require
from ..storage.files import concurrently, draft_of
from ..storage.foreign_zarr import MARKS
from ..storage.objects import ObjectPath
from ..storage.store import MANIFEST
from .ingest_leftovers import LOCKS

Members = dict[str, ObjectPath]  # the objects of a folder by their names in it


@dataclass(frozen=True)
class ObjectCopy:
    """The local copy of an object or folder in one version, whether it exists already or not.

    version : of the source. members : the objects of a folder.
    """

    source: ObjectPath
    version: str
    members: Members
    path: Path

    def fetched(self) -> Path:
        """Return the path of the copy, which is downloaded if it does not exist."""
        try:
            if not self.path.exists() and self.members:
                _fetch_folder(self.source, self.members, self.path)
            elif not self.path.exists():
                with draft_of(self.path) as draft:
                    self.source.download(draft)
        except OSError as error:
            raise _cannot_download(self.source, error) from error
        return self.path


def copy_of(source: ObjectPath, cache: Path) -> ObjectCopy:
    """Return the copy of an object or folder in its current version, below the cache folder; asks the store once."""
    version, members = _look(source)
    return ObjectCopy(source, version, members, _copies_of(source, cache) / version / source.name)


def last_copy(source: ObjectPath, cache: Path) -> Path:
    """Return the most recent copy of an object or folder, without asking the store."""
    copies = _copies_of(source, cache)
    made = sorted(copies.glob(f"*/{source.name}"), key=lambda path: path.stat().st_mtime_ns)
    require(len(made) > 0, f"{source} is not in the cache {copies}", why="downloads are off",
            fix="allow them, or download the file and give its path", error=DataError)
    return made[-1]


def _copies_of(source: ObjectPath, cache: Path) -> Path:
    """Return the folder of all copies of an object."""
    return cache / hashlib.sha256(str(source).encode()).hexdigest()[:16]


def _look(source: ObjectPath) -> tuple[str, Members]:
    """Return the version of an object, or of a folder with its objects."""
    try:
        try:
            return source.version(), {}
        except FileNotFoundError:
            members = _members_of(source)
            if not members:
                raise
            return _version_of(members), members
    except OSError as error:
        raise _cannot_download(source, error) from error


def _members_of(source: ObjectPath) -> Members:
    """Return the objects of a folder; raise DataError if it is neither Zarr nor a data set of dssl."""
    members = {path.relative_to(source).as_posix(): path for path, _ in source.below()
               if path != source and path.name not in LOCKS}
    require(not members or any(mark in members for mark in (*MARKS, MANIFEST)), f"{source} is a folder",
            why="it is neither a data set that dssl wrote nor a Zarr array or group", error=DataError,
            fix=f"name an object in it, or several with a pattern such as {source}/*.csv")
    return members


def _version_of(members: Mapping[str, ObjectPath]) -> str:
    """Return a digest of a folder that changes with its content."""
    listed = json.dumps({name: path.version() for name, path in members.items()}, sort_keys=True)
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


def _fetch_folder(source: ObjectPath, members: Mapping[str, ObjectPath], path: Path) -> None:
    """Download the objects of a folder; the copy appears atomically when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")

    def download(name: str) -> None:
        target = draft / name
        target.parent.mkdir(parents=True, exist_ok=True)
        members[name].download(target)

    try:
        concurrently(download, members, source)
        require(_version_of(_members_of(source)) == path.parent.name, f"{source} has changed", error=DataError,
                why="it was written to during the download", fix="run again when nothing writes to it")
        if not path.exists():  # another process may have been first
            draft.rename(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _cannot_download(source: ObjectPath, error: OSError) -> DataError:
    return DataError(explain(f"cannot download {source}", why=error.strerror or str(error),
                             fix="check the URL, and credentials and endpoint in the environment"))
