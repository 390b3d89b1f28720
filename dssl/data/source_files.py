"""The files of a source: which match a pattern, the digest of each, and what has changed since they were read."""

import glob
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Self

from ..base.errors import DataError, explain, require
from ..base.urls import is_object_url, is_url
from ..storage.objects import ObjectPath, matches, object_path
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
    """Return the paths that a pattern matches, in natural order; anything else, and a path that is there, as it is.

    Objects know the version that the store listed.

    Raise DataError if a pattern matches nothing, or is a URL of a server that cannot be asked for a list.
    """
    if is_object_url(text) and any(mark in text for mark in MARKS):
        return _matching_objects(text)
    if is_url(text):
        require("*" not in text, f"{text} is a pattern", why="what a server holds is not listed",
                fix="list the URLs, or copy the files to a folder", error=DataError)
        return [text]  # a ? begins the query of a URL
    path = path_of(text)
    if not any(mark in text for mark in MARKS) or path.exists():
        return [text]
    paths = sorted(glob.glob(str(path), recursive=True), key=natural_order)
    if not paths:
        folder = next(parent for parent in path.parents if not any(mark in str(parent) for mark in MARKS))
        state = "is no folder"
        if folder.is_dir():
            beside = sorted((file.name for file in folder.iterdir()), key=natural_order)[:8]
            state = f"holds {', '.join(beside)}" if beside else "is empty"
        raise DataError(explain(
            f"no file matches {text}", why=f"{folder.absolute()} {state}",
            fix="check the pattern; on a command line, put it in quotes"))
    return paths


def _matching_objects(text: str) -> list[ObjectPath]:
    path = object_path(text, pattern=True)
    objects = sorted(path.parents[-1].glob(path.key), key=lambda place: natural_order(str(place)))
    require(len(objects) > 0, f"no object matches {text}", why=f"the bucket {path.parts[1]} holds none of such a name",
            fix="check the pattern; on a command line, put it in quotes", error=DataError)
    return objects


def fits_pattern(name: str, pattern: str) -> bool:
    """Return whether a pattern would match a file of this name, an absolute path or a URL; see `matching_paths`."""
    if not any(mark in pattern for mark in MARKS):
        return False
    pattern = pattern if is_url(pattern) else os.path.abspath(os.path.expanduser(pattern))
    return matches(PurePosixPath(name).parts, PurePosixPath(pattern).parts)


def natural_order(text: str) -> tuple[list[str | int], str]:
    """Return the key that sorts numbers in names by their values: part-2 before part-10."""
    pieces = re.split(r"([0-9]+)", text)
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)], text


SHOWN = 8  # names of files in a message


@dataclass(frozen=True)
class FileRecord:
    """A file that was read.

    name : its absolute path, its URL, or the name that stands for it. digest : SHA-256 of its bytes; see `fingerprint`.
    rows : how many rows it holds. version : of an object, by which its store tells that it has not changed.
    """

    name: str
    digest: str
    rows: int
    version: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {name: value for name, value in asdict(self).items() if value != ""}


@dataclass(frozen=True)
class Source:
    """A local file to read, or several, and what they were asked for as."""

    name: str  # as given: the path, the URL, or the name; of several files, what all of them were asked for as
    path: Path  # of a format that is a folder, the folder
    labels: Path | None = None  # a second file, for formats that keep the labels apart
    more: tuple["Source", ...] = ()  # the files whose rows follow
    given_name: str = ""  # where others follow, as this file was asked for
    version: str = ""  # of an object; see `ObjectPath.version`
    digest: str | None = None  # SHA-256 of this file alone, where that is known

    @property
    def full_name(self) -> str:
        """The absolute path of the file, its URL, or the name that stands for it."""
        is_path = not is_url(self.name) and path_of(self.name) == self.path
        return str(self.path.absolute()) if is_path else self.name

    @property
    def files(self) -> tuple["Source", ...]:
        """All files in the order of their rows, each as a source of its own."""
        return (replace(self, name=self.given_name or self.name, more=(), given_name=""), *self.more)


def digested(source: Source) -> Source:
    """Return a source whose files know their digests; each is read for it, but for objects that are known.

    Raises DataError: a file has another digest than the one that it is known to have.
    """
    return joined([replace(file, digest=_checked_digest(file)) for file in source.files], source.name)


def _checked_digest(file: Source) -> str:
    if file.digest is not None and not file.path.exists():
        return file.digest
    digest = fingerprint(replace(file, digest=None))
    require(file.digest in (None, digest), f"{file.name} has changed", error=DataError,
            why="its bytes are not those that were read when the run was planned",
            fix="let nothing write to the file while it is read, and run again")
    return digest


def joined(files: Sequence[Source], name: str) -> Source:
    """Return files, at least one, as one source of this name."""
    if len(files) == 1:
        return files[0]
    return replace(files[0], name=name, more=tuple(files[1:]), given_name=files[0].name)


def fingerprint(source: Source | str | Path) -> str:
    """Return the hex SHA-256 of a source's bytes; of two files, the one of their two digests in a row.

    Of several sources it is that of their fingerprints, of a folder that of the paths and bytes of its files. Files
    that know their digests are not read.
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
    for name, place in sorted(files_of(path).items()):
        whole.update(hashlib.sha256(name.encode()).digest() + _digest_of(path / place))
    return whole.digest()


# ---- what has changed


@dataclass(frozen=True)
class FileChanges:
    """How the files of a source differ from those that were read.

    kept : by the place of a file in the source, the place of its record. new : places of the files that have none.
    changed : records whose names are those of new files, and the places of these. vanished : the other records of files
    that the source does not have.
    """

    kept: dict[int, int]
    new: list[int]
    changed: list[tuple[FileRecord, int]]
    vanished: list[FileRecord]

    @classmethod
    def of(cls, records: Sequence[FileRecord], files: Sequence[Source]) -> Self:
        """Compare by digests, which the files know; of files with equal bytes those of equal names come first."""
        kept: dict[int, int] = {}
        free = dict(enumerate(records))
        for by_name in (True, False):
            waiting: dict[tuple[str | None, str], list[int]] = {}
            for number, record in free.items():
                waiting.setdefault((record.digest, record.name if by_name else ""), []).append(number)
            for place, file in enumerate(files):
                same = waiting.get((file.digest, file.full_name if by_name else ""))
                if place not in kept and same:
                    kept[place] = same.pop(0)
                    del free[kept[place]]
        new = [place for place in range(len(files)) if place not in kept]
        places = {files[place].full_name: place for place in new}
        changed = [(record, places[record.name]) for record in free.values() if record.name in places]
        return cls(kept, new, changed, [record for record in free.values() if record.name not in places])

    def vanished_from(self, patterns: Iterable[str]) -> list[FileRecord]:
        """Return the vanished files that one of these patterns would match if they were there."""
        wanted = list(patterns)
        return [record for record in self.vanished if any(fits_pattern(record.name, pattern) for pattern in wanted)]


def in_words(files: Iterable[FileRecord | Source]) -> str:
    """Return the names of some files, in natural order, without their folders where they differ without these."""
    names = sorted((file.name for file in files), key=natural_order)
    short = [name.rpartition("/")[2] for name in names]
    shown = names if max(Counter(short).values(), default=1) > 1 else short
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(shown[:SHOWN]) + more
