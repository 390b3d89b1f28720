"""Paths on `s3://`, `gs://` and `az://`, whose files are objects.

An `ObjectPath` is a `Path`: what reads or writes a workspace does not ask where it lies. A URL that holds credentials
is refused, so that none is ever written down.
"""

import errno
import hashlib
import io
import json
import os
import posixpath
import re
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path, PosixPath
from typing import Any, Self

from ..base.errors import require
from ..base.urls import STORES, require_no_secret
from .cache import FETCHED
from .object_client import ObjectStat, Version, as_file_errors, obstore, stat_of, store_of, version_of
from .write_behind import settle, wait_for, wait_for_removal

LARGEST_PUT = 64 << 20  # bytes that go in one request; what is larger goes in pieces
PIECE = 8 << 20  # bytes of an object that are held while it is downloaded
MAGIC = re.compile(r"[*?\[]")  # what makes a name a pattern
CONFLICT_PAUSES = (0, 0.05, 0.2, 0.8)  # seconds before each attempt of a conditional write that meets another (409)


class ObjectPath(PosixPath):
    """A path in an object store, with the methods of `Path` that make sense there.

    There are no folders: one is there while something is in it. Nothing is renamed. A file is seen whole or not at all.
    """

    listed: Version | None = None  # the version that a list of the store told

    def __str__(self) -> str:
        text = super().__str__()
        scheme, colon, rest = text.partition(":/")
        return f"{scheme}://{rest}" if colon and scheme in STORES else text

    def __fspath__(self) -> str:
        raise TypeError(f"{self} lies in an object store and is no file of this machine")

    @property
    def parents(self) -> Any:
        """The folders around this path, the bucket last."""
        return tuple(super().parents)[:-2]

    @property
    def store(self) -> Any:
        """The bucket or container as an obstore store."""
        return store_of(self.parts[0].removesuffix(":"), self.parts[1])

    @property
    def key(self) -> str:
        """The name of the object in its bucket."""
        return "/".join(self.parts[2:])

    def resolve(self, strict: bool = False) -> Self:
        """Return the path without `..`."""
        return type(self)(*self.parts[:2], *posixpath.normpath("/" + self.key).split("/")[1:])

    def absolute(self) -> Self:
        return self

    def expanduser(self) -> Self:
        return self

    def is_absolute(self) -> bool:
        return True

    # ---- whole objects

    def get(self) -> tuple[memoryview, Version]:
        """Return the bytes of the object, and its version; raise FileNotFoundError."""
        wait_for(self)
        with as_file_errors(self):
            answer = obstore().get(self.store, self.key)
            return memoryview(answer.bytes()), version_of(answer.meta)

    def put(self, value: Any) -> Version:
        """Write the object; of two at once the later stays."""
        wait_for_removal(self)
        with as_file_errors(self):
            return version_of(obstore().put(self.store, self.key, value, use_multipart=len(value) > LARGEST_PUT))

    def create(self, value: bytes) -> Version | None:
        """Write the object unless there is one; return its version, or None if another one is there."""
        return self._written_if("create", value, {})

    def swap(self, value: bytes, version: Version) -> Version | None:
        """Write the object if it is still of a version; return the new version, or None if it has changed."""
        return self._written_if(dict(version), value, version)

    def _written_if(self, mode: Any, value: bytes, before: Version) -> Version | None:
        """Write the object under a condition; return its version, or None if it is not as it was before.

        An answer that was lost is asked for again by the client, so that an object of the same bytes counts as this
        one: values of several writers must differ. 409 says only that another request is under way.

        Raises OSError: the store refuses again and again, though nothing has changed.
        """
        settle()
        for pause in CONFLICT_PAUSES:
            time.sleep(pause)
            try:
                return self._put_if(mode, value)
            except (FileExistsError, FileNotFoundError):
                try:
                    there, version = self.get()
                except FileNotFoundError:
                    there = memoryview(b"")
                    version = {}
                if version and there == value:
                    return version
                # Some stores tell the generation or version of an object in one answer and not in another.
                common = version.keys() & before
                if bool(version) != bool(before) or any(version[name] != before[name] for name in common):
                    return None
        raise OSError(errno.ECOMM, "the store refuses to write the object, though nobody has changed it", str(self))

    def _put_if(self, mode: Any, value: bytes) -> Version:
        """Write the object under a condition; raise FileExistsError if it does not hold."""
        wait_for_removal(self)
        with as_file_errors(self):
            return version_of(obstore().put(self.store, self.key, value, mode=mode, use_multipart=False))

    def is_refused(self, mode: Any, value: bytes) -> bool:
        """Return whether the store does not write the object under a condition, asked once."""
        try:
            self._put_if(mode, value)
        except FileExistsError:
            return True
        return False

    def upload(self, file: Path, *, exclusive: bool = False) -> None:
        """Write the object from a file of this machine; raise FileExistsError if it must be new and is not."""
        if exclusive:
            if self.create(file.read_bytes()) is None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self))
            return
        wait_for_removal(self)
        with as_file_errors(self):
            obstore().put(self.store, self.key, file, use_multipart=file.stat().st_size > LARGEST_PUT)

    def download(self, file: Path) -> None:
        """Write the object to a file of this machine, piece by piece."""
        wait_for(self)
        with as_file_errors(self), open(file, "wb") as out:
            for piece in obstore().get(self.store, self.key).stream(min_chunk_size=PIECE):
                out.write(piece)

    def version(self) -> str:
        """Return a name of the object's content that changes with it; asks the store unless it was listed."""
        version = self.listed
        if version is None:
            with as_file_errors(self):
                version = version_of(obstore().head(self.store, self.key))
        return hashlib.sha256(json.dumps(version, sort_keys=True).encode()).hexdigest()[:16]

    def read_bytes(self) -> bytes:
        return bytes(self.get()[0])

    def read_text(self, encoding: str | None = None, errors: str | None = None,
                  newline: str | None = None) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def write_bytes(self, data: Any) -> int:
        self.put(bytes(data))
        return len(data)

    def write_text(self, data: str, encoding: str | None = None, errors: str | None = None,
                   newline: str | None = None) -> int:
        return self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))

    def open(self, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Open the object to be read: as text whole; as bytes, of one that never changes, where they are read."""
        if mode == "rb":
            return ObjectReader(self)
        require(mode == "r", f"{self} opened as {mode!r}", why="objects are written whole", fix="use `draft_of`")
        return io.StringIO(self.read_text())

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        self.put(b"")

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object; stores do not say whether there was one."""
        wait_for(self)
        with as_file_errors(self):
            try:
                obstore().delete(self.store, self.key)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    # ---- what is there

    def stat(self, *, follow_symlinks: bool = True) -> Any:
        wait_for(self)
        with as_file_errors(self):
            return stat_of(obstore().head(self.store, self.key))

    def is_file(self) -> bool:
        if not self.key:  # the bucket
            return False
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Return whether something is below this path."""
        return next(self.below(), None) is not None

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def samefile(self, other_path: Any) -> bool:
        return self.resolve() == other_path

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: folders need not be made."""

    def rmdir(self) -> None:
        """Do nothing: a folder is gone when nothing is in it."""

    def rename(self, target: Any) -> Any:
        raise OSError(errno.ENOTSUP, "object stores rename nothing", str(self))

    replace = rename

    def below(self) -> Iterator[tuple[Self, ObjectStat]]:
        """Yield what lies below this path, at any depth."""
        settle(removals=True)
        with as_file_errors(self):
            for page in obstore().list(self.store, self.key or None):
                for meta in page:
                    yield self._at(meta["path"], version_of(meta)), stat_of(meta)

    def iterdir(self) -> Iterator[Self]:  # type: ignore[override]
        settle(removals=True)
        with as_file_errors(self):
            listing = obstore().list_with_delimiter(self.store, self.key or None)
        yield from (self._at(name) for name in listing["common_prefixes"])
        yield from (self._at(meta["path"], version_of(meta)) for meta in listing["objects"])

    def glob(self, pattern: str, **kwargs: Any) -> Iterator[Self]:  # type: ignore[override]
        """Yield the objects and folders that match; of patterns with `**`, for folders at any depth, objects alone."""
        steps = pattern.split("/")
        plain = list(takewhile(lambda step: not MAGIC.search(step), steps))
        start = self.joinpath(*plain)
        rest = steps[len(plain):]
        if "**" in rest:
            yield from (path for path, _ in start.below() if matches(path.parts[len(start.parts):], rest))
        elif rest:
            for child in start.iterdir():
                if fnmatchcase(child.name, rest[0]):
                    yield from child.glob("/".join(rest[1:])) if rest[1:] else (child,)
        elif start.exists():
            yield start

    def rglob(self, pattern: str, **kwargs: Any) -> Iterator[Self]:  # type: ignore[override]
        return self.glob(f"**/{pattern}")

    def _at(self, key: str, listed: Version | None = None) -> Self:
        path = type(self)(*self.parts[:2], key)
        path.listed = listed
        return path

    def remove_below(self, first: str = "") -> None:
        """Delete everything below this path.

        first : the name of folders, at any depth, that are gone before the rest is.
        """
        keys = [path.key for path, _ in self.below()]
        early = [key for key in keys if first in key.split("/")[len(self.parts) - 2:]] if first else []
        with as_file_errors(self):
            for some in (early, sorted({*keys} - {*early})):
                if some:
                    obstore().delete(self.store, some)


def matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether names, of which each lies in the one before, match a pattern step by step."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(matches(names[start:], pattern[1:]) for start in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and matches(names[1:], pattern[1:])


class ObjectReader:
    """Reads an object that never changes from where it is sought, `READ_AHEAD` bytes or what is asked for; see `open`.

    Raises FileNotFoundError: there is no such object.
    """

    def __init__(self, path: ObjectPath):
        self.path = path
        self.at = 0
        self._start = 0
        self._size = -1
        self._kept, self._size = FETCHED.get(path, self._head)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing: no connection is held."""

    def read(self, count: int) -> bytes:
        start = self.at - self._start
        if start < 0 or start + count > len(self._kept):
            self._start, self._kept = self.at, self._fetch(self.at, max(count, READ_AHEAD))
            start = 0
        content = bytes(self._kept[start:start + count])
        self.at += len(content)
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.at = offset + (self.at if whence == os.SEEK_CUR else 0)
        return self.at

    def tell(self) -> int:
        return self.at

    def _head(self) -> tuple[tuple[memoryview, int], int]:
        """Return the first bytes with the size of the object, and how many they are."""
        content = self._fetch(0, READ_AHEAD)
        return (content, self._size), len(content)

    def _fetch(self, start: int, count: int) -> memoryview:
        """Return as many bytes from there on as there are."""
        if 0 <= self._size <= start:
            return memoryview(b"")
        wait_for(self.path)
        with as_file_errors(self.path):
            answer = obstore().get(self.path.store, self.path.key, options={"range": (start, start + count)})
            self._size = answer.meta["size"]
            return memoryview(answer.bytes())


READ_AHEAD = 64 << 10  # bytes that are fetched at least where a part of an object is read


def object_path(url: str, *, pattern: bool = False) -> ObjectPath:
    """Return the path that a URL names; with `pattern`, it may be one of many, and hold `?`.

    Raises ParameterError: the URL holds credentials or a query, names no bucket, or leads out of it; obstore is not
    installed.
    """
    require_no_secret(url)
    scheme, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    require(pattern or "?" not in key, f"{url} with a question mark", why="it stands for any character in the names of "
            "sources, and object stores have no queries", fix="name one place")
    require(bool(bucket), f"{scheme}:// without a bucket", why="objects lie in one",
            fix=f"write {scheme}://BUCKET/FOLDER")
    steps = [step for step in key.split("/") if step]
    require(".." not in steps, f"{url} with `..`", why="object stores have no folders, and take it for a name",
            fix="name the place itself")
    obstore()
    return ObjectPath(f"{scheme}:", bucket, *steps)
