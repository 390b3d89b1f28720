"""Paths on `s3://`, `gs://` and `az://`, whose files are objects.

An `ObjectPath` is a `Path`, so most code that reads or writes a workspace works on either. URLs with credentials are
refused, so that no credentials are ever written down.
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
from typing import Any, Literal, NoReturn, Self

from ..base.errors import require
from ..base.urls import STORES, require_no_secret
from .cache import FETCHED
from .object_client import ObjectStat, Version, as_file_errors, obstore, stat_of, store_of, version_of
from .write_behind import settle, wait_for, wait_for_removal

LARGEST_PUT = 64 << 20  # bytes in one request; larger objects are uploaded in pieces
PIECE = 8 << 20  # bytes in memory during a download
MAGIC = re.compile(r"[*?\[]")  # characters that make a name a pattern
CONFLICT_PAUSES = (0, 0.05, 0.2, 0.8)  # seconds before each attempt of a conditional write that conflicts (409)


class ObjectPath(PosixPath):
    """A path in an object store, with the methods of `Path` that make sense there.

    A folder exists as long as it contains something. Nothing can be renamed. Objects are written atomically.
    """

    listed: Version | None = None  # the version according to a listing of the store

    def __str__(self) -> str:
        text = super().__str__()
        scheme, colon, location = text.partition(":/")
        return f"{scheme}://{location}" if colon and scheme in STORES else text

    def __fspath__(self) -> str:
        raise TypeError(f"{self} lies in an object store and is not a local file")

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
        """The key of the object in its bucket."""
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
        """Return the bytes and the version of the object; raise FileNotFoundError if there is none."""
        wait_for(self)
        with as_file_errors(self):
            answer = obstore().get(self.store, self.key)
            return memoryview(answer.bytes()), version_of(answer.meta)

    def put(self, value: bytes | memoryview) -> Version:
        """Write the object; of two concurrent writes the later one stays."""
        wait_for_removal(self)
        with as_file_errors(self):
            return version_of(obstore().put(self.store, self.key, value, use_multipart=len(value) > LARGEST_PUT))

    def create(self, value: bytes) -> Version | None:
        """Write the object unless it exists; return its version, or None if a different one exists."""
        return self._written_if("create", value, {})

    def swap(self, value: bytes, version: Version) -> Version | None:
        """Write the object if it still has a version; return the new version, or None if it has changed."""
        return self._written_if(dict(version), value, version)

    def _written_if(self, mode: Literal["create"] | Version, value: bytes, before: Version) -> Version | None:
        """Write the object under a condition; return its version, or None if the condition does not hold.

        The client repeats a request whose answer was lost, so an existing object with the same bytes counts as this
        one; different writers must write different values. Status 409 only says that another request is in progress.

        Raises OSError: the store keeps refusing although nothing has changed.
        """
        settle()
        for pause in CONFLICT_PAUSES:
            time.sleep(pause)
            try:
                return self._put_if(mode, value)
            except (FileExistsError, FileNotFoundError):
                try:
                    stored, version = self.get()
                except FileNotFoundError:
                    stored = memoryview(b"")
                    version = {}
                if version and stored == value:
                    return version
                # Some stores report the generation or version of an object in some answers only.
                common = version.keys() & before
                if bool(version) != bool(before) or any(version[name] != before[name] for name in common):
                    return None
        raise OSError(errno.ECOMM, "the store refuses to write the object although nobody has changed it", str(self))

    def _put_if(self, mode: Literal["create"] | Version, value: bytes) -> Version:
        """Write the object under a condition; raise FileExistsError if it does not hold."""
        wait_for_removal(self)
        with as_file_errors(self):
            return version_of(obstore().put(self.store, self.key, value, mode=mode, use_multipart=False))

    def is_refused(self, mode: Literal["create"] | Version, value: bytes) -> bool:
        """Return whether the store refuses a conditional write; tried once."""
        try:
            self._put_if(mode, value)
        except FileExistsError:
            return True
        return False

    def upload(self, file: Path, *, exclusive: bool = False) -> None:
        """Upload a local file; raise FileExistsError if `exclusive` and the object exists."""
        if exclusive:
            if self.create(file.read_bytes()) is None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self))
            return
        wait_for_removal(self)
        with as_file_errors(self):
            obstore().put(self.store, self.key, file, use_multipart=file.stat().st_size > LARGEST_PUT)

    def download(self, file: Path) -> None:
        """Download the object to a local file, piece by piece."""
        wait_for(self)
        with as_file_errors(self), open(file, "wb") as out:
            for piece in obstore().get(self.store, self.key).stream(min_chunk_size=PIECE):
                out.write(piece)

    def version(self) -> str:
        """Return a short digest that changes with the object's content; takes a request unless it was listed."""
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

    def open(self, mode: str = "r", *args: object, **kwargs: object) -> Any:
        """Open the object for reading: text is read whole, bytes of an immutable object are fetched in ranges."""
        if mode == "rb":
            return ObjectReader(self)
        require(mode == "r", f"{self} opened as {mode!r}", why="objects are written whole", fix="use `draft_of`")
        return io.StringIO(self.read_text())

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        self.put(b"")

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object; some stores do not report whether it existed."""
        wait_for(self)
        with as_file_errors(self):
            try:
                obstore().delete(self.store, self.key)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    # ---- status and listings

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
        """Return whether there are objects below this path."""
        return next(self.below(), None) is not None

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    def samefile(self, other_path: str | os.PathLike[str]) -> bool:
        return self.resolve() == other_path

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: folders need not be created."""

    def rmdir(self) -> None:
        """Do nothing: a folder vanishes when it is empty."""

    def rename(self, target: object) -> NoReturn:
        raise OSError(errno.ENOTSUP, "object stores cannot rename", str(self))

    replace = rename

    def below(self) -> Iterator[tuple[Self, ObjectStat]]:
        """Yield the objects below this path at any depth."""
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

    def glob(self, pattern: str, **kwargs: object) -> Iterator[Self]:  # type: ignore[override]
        """Yield the matching objects and folders; patterns with `**` match objects only."""
        steps = pattern.split("/")
        plain = list(takewhile(lambda step: not MAGIC.search(step), steps))
        start = self.joinpath(*plain)
        remaining = steps[len(plain):]
        if "**" in remaining:
            yield from (path for path, _ in start.below() if matches(path.parts[len(start.parts):], remaining))
        elif remaining:
            for child in start.iterdir():
                if fnmatchcase(child.name, remaining[0]):
                    yield from child.glob("/".join(remaining[1:])) if remaining[1:] else (child,)
        elif start.exists():
            yield start

    def rglob(self, pattern: str, **kwargs: object) -> Iterator[Self]:  # type: ignore[override]
        return self.glob(f"**/{pattern}")

    def _at(self, key: str, listed: Version | None = None) -> Self:
        path = type(self)(*self.parts[:2], key)
        path.listed = listed
        return path

    def remove_below(self, first: str = "") -> None:
        """Delete everything below this path; folders named `first`, at any depth, are deleted before the rest."""
        keys = [path.key for path, _ in self.below()]
        early = [key for key in keys if first in key.split("/")[len(self.parts) - 2:]] if first else []
        with as_file_errors(self):
            for some in (early, sorted({*keys} - {*early})):
                if some:
                    obstore().delete(self.store, some)


def matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the steps of a path match the steps of a pattern."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(matches(names[start:], pattern[1:]) for start in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and matches(names[1:], pattern[1:])


class ObjectReader:
    """A file object for an immutable object that fetches at least `READ_AHEAD` bytes at a time; see `open`.

    Raises FileNotFoundError: there is no such object.
    """

    def __init__(self, path: ObjectPath):
        self.path = path
        self.at = 0
        self._start = 0
        self._size = -1
        self._content, self._size = FETCHED.get(path, self._head)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing: there is no open connection."""

    def read(self, count: int) -> bytes:
        start = self.at - self._start
        if start < 0 or start + count > len(self._content):
            self._start, self._content = self.at, self._fetch(self.at, max(count, READ_AHEAD))
            start = 0
        content = bytes(self._content[start:start + count])
        self.at += len(content)
        return content

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.at = offset + (self.at if whence == os.SEEK_CUR else 0)
        return self.at

    def tell(self) -> int:
        return self.at

    def _head(self) -> tuple[tuple[memoryview, int], int]:
        """Return ((first bytes, size of the object), number of these bytes)."""
        content = self._fetch(0, READ_AHEAD)
        return (content, self._size), len(content)

    def _fetch(self, start: int, count: int) -> memoryview:
        """Return up to `count` bytes from `start` on."""
        if 0 <= self._size <= start:
            return memoryview(b"")
        wait_for(self.path)
        with as_file_errors(self.path):
            answer = obstore().get(self.path.store, self.path.key, options={"range": (start, start + count)})
            self._size = answer.meta["size"]
            return memoryview(answer.bytes())


READ_AHEAD = 64 << 10  # the minimum number of bytes of a range request


def object_path(url: str, *, pattern: bool = False) -> ObjectPath:
    """Return the path that a URL names; with `pattern`, it may contain the wildcard `?`."""
    require_no_secret(url)
    scheme, _, location = url.partition("://")
    bucket, _, key = location.partition("/")
    require(pattern or "?" not in key, f"{url} with a question mark",
            why="it is a wildcard in sources, and object stores have no queries", fix="name a single folder or object")
    require(bool(bucket), f"{scheme}:// without a bucket", why="every object lies in a bucket",
            fix=f"write {scheme}://BUCKET/FOLDER")
    steps = [step for step in key.split("/") if step]
    require(".." not in steps, f"{url} with `..`", why="object stores would take it for the name of a folder",
            fix="write the path without it")
    obstore()
    return ObjectPath(f"{scheme}:", bucket, *steps)
