"""The files of a source: patterns, digests, changes since they were read, and local copies of objects.

A copy is in a folder that is named by the version of the object. A Zarr array or group and a data set of dssl are
folders; the store lists their objects.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Self

from ..base.errors import DataError, explain, require
from ..base.urls import is_object_url, is_url
from ..storage.files import concurrently, draft_of
from ..storage.foreign_zarr import MARKS as ZARR_MARKS
from ..storage.objects import ObjectPath, matches, object_path
from ..storage.store import MANIFEST
from .ingest_leftovers import LOCKS
from .readers.formats import files_of

MARKS = "*?["


def path_of(text: str) -> Path:
    """Return the path that a text names; raise DataError if no file can have that name."""
    try:
        path = Path(text).expanduser()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, no such user, a character 0
        raise DataError(explain(f"{text[:80]!r} cannot be opened: {error}", why="rows are read from it",
                                fix="check the path")) from error
    return path


def matching_paths(text: str) -> Sequence[str | ObjectPath]:
    """Return the paths that match a pattern, in natural order; any other text, and an existing path, unchanged.

    Objects know the version that the store listed.
    """
    if is_object_url(text) and any(mark in text for mark in MARKS):
        return _matching_objects(text)
    if is_url(text):
        require("*" not in text, f"{text} is a pattern", why="web servers do not list their files",
                fix="list the URLs, or copy the files to a folder", error=DataError)
        return [text]  # the ? of a URL begins its query
    path = path_of(text)
    if not any(mark in text for mark in MARKS) or path.exists():
        return [text]
    paths = sorted(glob.glob(str(path), recursive=True), key=natural_order)
    if not paths:
        folder = next(parent for parent in path.parents if not any(mark in str(parent) for mark in MARKS))
        state = "is not a folder"
        if folder.is_dir():
            beside = sorted((file.name for file in folder.iterdir()), key=natural_order)[:8]
            state = f"holds {', '.join(beside)}" if beside else "is empty"
        raise DataError(explain(
            f"no file matches {text}", why=f"{folder.absolute()} {state}",
            fix="check the pattern; on a command line, put it in quotes"))
    return paths


def _matching_objects(text: str) -> list[ObjectPath]:
    path = object_path(text, pattern=True)
    objects = sorted(path.parents[-1].glob(path.key), key=lambda path_found: natural_order(str(path_found)))
    require(len(objects) > 0, f"no object matches {text}", why=f"the bucket {path.parts[1]} has none with such a name",
            fix="check the pattern; on a command line, put it in quotes", error=DataError)
    return objects


def fits_pattern(name: str, pattern: str) -> bool:
    """Return whether a pattern would match a file with this name, an absolute path or a URL; see `matching_paths`."""
    if not any(mark in pattern for mark in MARKS):
        return False
    pattern = pattern if is_url(pattern) else os.path.abspath(os.path.expanduser(pattern))
    return matches(PurePosixPath(name).parts, PurePosixPath(pattern).parts)


def natural_order(text: str) -> tuple[list[str | int], str]:
    """Return the key that sorts numbers in names by their values: part-2 before part-10."""
    pieces = re.split(r"([0-9]+)", text)
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)], text


SHOWN = 8  # file names in a message


@dataclass(frozen=True)
class FileRecord:
    """A file that was read.

    name : its absolute path, its URL, or the name of a data set. digest : SHA-256 of its bytes; see `fingerprint`.
    rows : its number of rows. version : of an object, by which the store shows that it has not changed.
    """

    name: str
    digest: str
    rows: int
    version: str = ""

    def to_dict(self) -> dict[str, str | int]:
        """Return the JSON form."""
        return {name: value for name, value in asdict(self).items() if value != ""}


@dataclass(frozen=True)
class Source:
    """One or several local files to read, with the name under which the user requested them."""

    name: str  # the requested path, URL or name; for several files, of all of them
    path: Path  # the file, or the folder of a format that is a folder
    labels: Path | None = None  # a second file, for formats with separate labels
    more: tuple["Source", ...] = ()  # the files whose rows follow
    given_name: str = ""  # if others follow, the requested name of this file
    version: str = ""  # of an object; see `ObjectPath.version`
    digest: str | None = None  # SHA-256 of this file alone, if it is known

    @property
    def full_name(self) -> str:
        """The absolute path of the file, its URL, or the name of a data set."""
        is_path = not is_url(self.name) and path_of(self.name) == self.path
        return str(self.path.absolute()) if is_path else self.name

    @property
    def files(self) -> tuple["Source", ...]:
        """All files in the order of their rows, each as a source of its own."""
        return (replace(self, name=self.given_name or self.name, more=(), given_name=""), *self.more)


def digested(source: Source) -> Source:
    """Return a source whose files know their digests; each file is read, except for objects with a known digest."""
    return joined([replace(file, digest=_checked_digest(file)) for file in source.files], source.name)


def _checked_digest(file: Source) -> str:
    if file.digest is not None and not file.path.exists():
        return file.digest
    digest = fingerprint(replace(file, digest=None))
    require(file.digest in (None, digest), f"{file.name} has changed", error=DataError,
            why="its bytes differ from those that were read when the run was planned",
            fix="let nothing write to the file while it is read, and run again")
    return digest


def joined(files: Sequence[Source], name: str) -> Source:
    """Return one or more files as one source with this name."""
    if len(files) == 1:
        return files[0]
    return replace(files[0], name=name, more=tuple(files[1:]), given_name=files[0].name)


def fingerprint(source: Source | str | Path) -> str:
    """Return the hex SHA-256 of a source's bytes.

    For a file with separate labels it is the SHA-256 of the two digests, for several sources of their fingerprints, and
    for a folder of the paths and bytes of its files. Files that know their digests are not read.
    """
    if isinstance(source, Source) and source.more:
        several = "".join(fingerprint(file) for file in source.files)
        return hashlib.sha256(f"{len(source.files)} sources {several}".encode()).hexdigest()
    if isinstance(source, Source) and source.digest:
        return source.digest
    files = [source.path, source.labels] if isinstance(source, Source) else [Path(source)]
    digests = [_digest_of(path) for path in files if path is not None]
    return digests[0].hex() if len(digests) == 1 else hashlib.sha256(b"".join(digests)).hexdigest()


def _digest_of(path: Path) -> bytes:
    """Return the SHA-256 of a file, or of the relative path and the digest of every file of a data set's folder."""
    if not path.is_dir():
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    whole = hashlib.sha256()
    for name, stored_name in sorted(files_of(path).items()):
        whole.update(hashlib.sha256(name.encode()).digest() + _digest_of(path / stored_name))
    return whole.digest()


# ---- what has changed


@dataclass(frozen=True)
class FileChanges:
    """The differences between the files of a source and those that were read before.

    record_of : the index of a file in the source -> the index of its record. new : indices of the files without a
    record. changed : records with the name of a new file, and the indices of these. vanished : the remaining records.
    """

    record_of: dict[int, int]
    new: list[int]
    changed: list[tuple[FileRecord, int]]
    vanished: list[FileRecord]

    @classmethod
    def of(cls, records: Sequence[FileRecord], files: Sequence[Source]) -> Self:
        """Compare the digests of files; files with equal bytes are matched by name first."""
        record_of: dict[int, int] = {}
        unmatched = dict(enumerate(records))
        for by_name in (True, False):
            waiting: dict[tuple[str | None, str], list[int]] = {}
            for number, record in unmatched.items():
                waiting.setdefault((record.digest, record.name if by_name else ""), []).append(number)
            for index, file in enumerate(files):
                same = waiting.get((file.digest, file.full_name if by_name else ""))
                if index not in record_of and same:
                    record_of[index] = same.pop(0)
                    del unmatched[record_of[index]]
        new = [index for index in range(len(files)) if index not in record_of]
        index_of = {files[index].full_name: index for index in new}
        changed = [(record, index_of[record.name]) for record in unmatched.values() if record.name in index_of]
        return cls(record_of, new, changed, [record for record in unmatched.values() if record.name not in index_of])

    def vanished_from(self, patterns: Iterable[str]) -> list[FileRecord]:
        """Return the vanished files that one of these patterns would match if they existed."""
        patterns = list(patterns)
        return [record for record in self.vanished if any(fits_pattern(record.name, pattern) for pattern in patterns)]


def in_words(files: Iterable[FileRecord | Source]) -> str:
    """Return the names of files in natural order, without their folders if that is unambiguous."""
    names = sorted((file.name for file in files), key=natural_order)
    short = [name.rpartition("/")[2] for name in names]
    shown = names if max(Counter(short).values(), default=1) > 1 else short
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(shown[:SHOWN]) + more


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
    require(not members or any(mark in members for mark in (*ZARR_MARKS, MANIFEST)), f"{source} is a folder",
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
