"""Copies of objects on this machine, each in a folder that is named by the version of the object.

A Zarr array or group, and a data set that dssl wrote, are folders: which objects are theirs the store lists.
"""

import hashlib
import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import DataError, explain, require
from ..storage.files import at_once, draft_of
from ..storage.foreign_zarr import MARKS
from ..storage.objects import ObjectPath
from ..storage.store import MANIFEST
from .ingest_leftovers import LOCKS

Members = dict[str, ObjectPath]  # the objects of a folder by their names in it


@dataclass(frozen=True)
class ObjectCopy:
    """The copy of an object or folder as it was when the store was asked, whether it is there yet or not.

    version : of what is copied. members : the objects of a folder.
    """

    place: ObjectPath
    version: str
    members: Members
    path: Path

    def fetched(self) -> Path:
        """Return the copy, made if there is none."""
        try:
            if not self.path.exists() and self.members:
                _fetch_folder(self.place, self.members, self.path)
            elif not self.path.exists():
                with draft_of(self.path) as draft:
                    self.place.download(draft)
        except OSError as error:
            raise _cannot_download(self.place, error) from error
        return self.path


def copy_of(place: ObjectPath, cache: Path) -> ObjectCopy:
    """Return the copy of an object or folder as it is now, below a folder of copies; the store is asked once."""
    version, members = _look(place)
    return ObjectCopy(place, version, members, _copies_of(place, cache) / version / place.name)


def last_copy(place: ObjectPath, cache: Path) -> Path:
    """Return the copy of an object or folder that was made last; the store is not asked."""
    copies = _copies_of(place, cache)
    made = sorted(copies.glob(f"*/{place.name}"), key=lambda path: path.stat().st_mtime_ns)
    require(len(made) > 0, f"{place} is not in the cache {copies}", why="downloads are off",
            fix="allow them, or download the file and give its path", error=DataError)
    return made[-1]


def _copies_of(place: ObjectPath, cache: Path) -> Path:
    """Return the folder of the copies of an object, whatever its version."""
    return cache / hashlib.sha256(str(place).encode()).hexdigest()[:16]


def _look(place: ObjectPath) -> tuple[str, Members]:
    """Return the version of an object, or of a folder with its objects."""
    try:
        try:
            return place.version(), {}
        except FileNotFoundError:
            members = _members_of(place)
            if not members:
                raise
            return _version_of(members), members
    except OSError as error:
        raise _cannot_download(place, error) from error


def _members_of(place: ObjectPath) -> Members:
    """Return the objects of a folder; raise DataError if it is neither Zarr nor a data set that dssl wrote."""
    members = {path.relative_to(place).as_posix(): path for path, _ in place.below()
               if path != place and path.name not in LOCKS}
    require(not members or any(mark in members for mark in (*MARKS, MANIFEST)), f"{place} is a folder",
            why="it is neither a data set that dssl wrote nor a Zarr array or group", error=DataError,
            fix=f"name an object in it, or several with a pattern such as {place}/*.csv")
    return members


def _version_of(members: Mapping[str, ObjectPath]) -> str:
    """Return a name of the content of a folder that changes with it."""
    listed = json.dumps({name: path.version() for name, path in members.items()}, sort_keys=True)
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


def _fetch_folder(place: ObjectPath, members: Mapping[str, ObjectPath], path: Path) -> None:
    """Download the objects of a folder; the copy appears when all of it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")

    def download(name: str) -> None:
        target = draft / name
        target.parent.mkdir(parents=True, exist_ok=True)
        members[name].download(target)

    try:
        at_once(download, members, place)
        require(_version_of(_members_of(place)) == path.parent.name, f"{place} has changed", error=DataError,
                why="somebody wrote to it while it was downloaded", fix="run again when nobody writes to it")
        if not path.exists():  # another process may have been first
            draft.rename(path)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _cannot_download(place: ObjectPath, error: OSError) -> DataError:
    return DataError(explain(f"cannot download {place}", why=error.strerror or str(error),
                             fix="check the URL, and credentials and endpoint in the environment"))
