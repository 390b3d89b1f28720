"""Atomic files in folders and object stores, retries after passing errors, the paths that URLs name, lines of CSV."""

import csv
import errno
import io
import json
import os
import shutil
import tempfile
import time
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, TextIO, TypeVar

from ..base.digest import JsonObject
from ..base.errors import DataError, IntegrityError, explain, require
from ..base.urls import STORES, is_object_url
from .cache import FETCHED
from .objects import ObjectPath, object_path
from .write_behind import AT_ONCE, LARGEST_BEHIND, settle, write_behind

# Errors of a file server that is busy or restarts; a full disk or a missing permission does not pass.
PASSING = frozenset({errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT, errno.EINTR, errno.EBUSY, errno.ECONNRESET,
                     errno.ENOTCONN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EREMOTEIO})
PAUSES = (0.05, 0.2, 0.8, 3.0)  # seconds before the second, third, ... attempt

MADE_ANEW = "delete the artifact that contains it and run again"  # the fix for a damaged file of an artifact

Args = ParamSpec("Args")
Result = TypeVar("Result")
Item = TypeVar("Item")


def retrying(action: Callable[Args, Result]) -> Callable[Args, Result]:
    """Retry an idempotent function a few times, for 4 seconds, after an `OSError` that may pass."""
    @wraps(action)
    def retried(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        for pause in PAUSES:
            try:
                return action(*args, **kwargs)
            except OSError as error:
                if error.errno not in PASSING:
                    raise
            time.sleep(pause)
        return action(*args, **kwargs)

    return retried


@retrying
def is_visible(path: Path) -> bool:
    """Return whether this process can see a file."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    return True


@contextmanager
def draft_of(path: Path, publish: Callable[[Path, Path], None] = os.replace, *, of_part: bool = False
             ) -> Iterator[Path]:
    """Yield the path of a draft that atomically becomes `path` at the end; after an error, nothing is left.

    The draft of an object is written to a temporary folder and then uploaded; with `of_part`, as `write_part_file`
    does it.
    """
    if isinstance(path, ObjectPath):
        with tempfile.TemporaryDirectory(prefix="dssl-") as folder:
            draft = Path(folder, path.name)
            yield draft
            if of_part and draft.stat().st_size <= LARGEST_BEHIND:
                write_behind(path, partial(retrying(path.put), draft.read_bytes()))
            else:
                path.upload(draft, exclusive=publish is publish_once)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield draft
        publish(draft, path)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # a failed write, on a full disk say, names no file
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def publish_once(draft: Path, path: Path) -> None:
    """Give a draft its final name; raise FileExistsError if another file has it."""
    try:
        os.link(draft, path)
    except FileExistsError:
        if not os.path.samefile(draft, path):  # a file server may have made the link and lost its reply
            raise


def write_file(path: Path, *pieces: bytes, exclusive: bool = False, durable: bool = False) -> bool:
    """Write a file of these bytes atomically; return whether it was written.

    With `exclusive`, return False and change nothing if the file already exists; the first writer wins. With `durable`,
    wait about 2 ms until it is on disk; otherwise a power cut may leave it empty. An object is written after everything
    that this thread has written behind.
    """
    if isinstance(path, ObjectPath):
        settle()  # outside of the retries: it raises each error once, after which nothing may be written here
    return _written(path, pieces, exclusive, durable)


@retrying
def _written(path: Path, pieces: Sequence[bytes], exclusive: bool, durable: bool) -> bool:
    if isinstance(path, ObjectPath):
        value = _joined(pieces)
        return (path.create(value) if exclusive else path.put(value)) is not None
    try:
        with draft_of(path, publish_once if exclusive else os.replace) as draft, open(draft, "wb") as file:
            file.writelines(pieces)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except FileExistsError:
        if not exclusive:
            raise
        return False
    return True


def _joined(pieces: Sequence[bytes]) -> bytes:
    """Return the bytes of an object; a single piece is not copied."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_part_file(path: Path, *pieces: bytes, last: bool = False) -> None:
    """Write one file of a part, as `write_file` does; a small object is written behind and cached in this process."""
    size = sum(map(len, pieces))
    if not isinstance(path, ObjectPath) or size > LARGEST_BEHIND:
        write_file(path, *pieces)
        return
    value = _joined(pieces)
    FETCHED.keep(path, memoryview(value), size)
    write_behind(path, partial(retrying(path.put), value), last=last)


@retrying
def read_file(path: Path) -> memoryview:
    """Return the bytes of a file."""
    if isinstance(path, ObjectPath):
        return path.get()[0]
    with open(path, "rb") as file:
        return memoryview(file.read())


def remove_tree(folder: Path) -> None:
    """Delete a folder and everything in it, if it exists."""
    if isinstance(folder, ObjectPath):
        folder.remove_below()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def files_in(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files of a folder at any depth with their sizes (bytes)."""
    if isinstance(folder, ObjectPath):
        yield from ((path, status.st_size) for path, status in folder.below())
        return
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.stat().st_size


def disk_bytes(folder: Path) -> int:
    """Return the total size of the files of a folder (bytes)."""
    return sum(size for _, size in files_in(folder))


def concurrently(function: Callable[[Item], Result], items: Iterable[Item], folder: Path) -> list[Result]:
    """Return `function(item)` of each item, in their order; the calls are concurrent if `folder` is an object store."""
    pending = list(items)
    if not isinstance(folder, ObjectPath) or len(pending) < 2:
        return [function(item) for item in pending]

    def call(item: Item) -> Result:
        try:
            return function(item)
        finally:
            settle()

    with ThreadPoolExecutor(min(AT_ONCE, len(pending))) as pool:
        return list(pool.map(call, pending))


def json_bytes(value: object) -> bytes:
    """Return the content of a JSON file with a value."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False).encode()


def write_json(path: Path, value: object, *, exclusive: bool = False, durable: bool = True) -> bool:
    """Write a JSON file atomically; exclusive, durable : see `write_file`."""
    return write_file(path, json_bytes(value), exclusive=exclusive, durable=durable)


def read_json(path: Path) -> Any:
    """Return the value of a JSON file; raise IntegrityError if it is not JSON."""
    return value_of(bytes(read_file(path)), path)


def value_of(text: bytes, path: Path, fix: str = MADE_ANEW) -> Any:
    """Return the value of the content of a JSON file; raise IntegrityError if it is not JSON."""
    try:
        return json.loads(text.decode())
    except ValueError as error:
        raise IntegrityError(explain(
            f"{path} is not a JSON file", why=f"its bytes changed since it was written ({error})",
            fix=fix)) from error


def read_record(path: Path, fields: Mapping[str, type | tuple[type, ...]], *, fix: str) -> JsonObject:
    """Return the object in a JSON file; raise IntegrityError unless it has these fields with these types."""
    return record_of(bytes(read_file(path)), path, fields, fix=fix)


def record_of(text: bytes, path: Path, fields: Mapping[str, type | tuple[type, ...]], *, fix: str) -> JsonObject:
    """Return the object in the content of a JSON file, see `read_record`."""
    record = value_of(text, path, fix)
    is_object = isinstance(record, dict)
    wrong = [name for name, kind in fields.items() if not (is_object and isinstance(record.get(name), kind))]
    require(is_object and not wrong, f"{path} is damaged", error=IntegrityError, fix=fix,
            why=f"{', '.join(wrong)} is missing or has a wrong type" if is_object else "it is not a JSON object")
    return record


def require_name(name: object, path: Path, *, nested: bool = False) -> str:
    """Return the name of a file that another file refers to; raise IntegrityError if it could leave the folder.

    nested : whether the name may contain slashes, as in the path of a file in subfolders.
    """
    if isinstance(name, str) and all(step not in ("", ".", "..") and os.path.basename(step) == step
                                     and "\0" not in step for step in (name.split("/") if nested else [name])):
        return name
    raise IntegrityError(explain(f"{path} refers to {name!r}", fix=MADE_ANEW,
                                 why="that is not a file name, and may lead to another folder"))


def resolved_path(url: str | Path) -> Path:
    """Return the absolute path, local or in an object store, that a path or URL names."""
    if isinstance(url, ObjectPath):
        return url
    text = str(url)
    if is_object_url(text):
        return object_path(text)
    known = ", ".join(f"{scheme}://" for scheme in ("file", *STORES))
    require("://" not in text or text.startswith("file://"), f"{text} is not supported",
            why="a workspace is a folder, or a prefix in an object store",
            fix=f"use a folder that every worker can open, or a URL that begins with one of {known}")
    return Path(text.removeprefix("file://")).expanduser().resolve()


def path_at(text: str | Path) -> Path:
    """Return the path that a text names, without resolving it."""
    if isinstance(text, ObjectPath):
        return text
    return object_path(text) if isinstance(text, str) and is_object_url(text) else Path(text)


def has_folder(path: Path) -> bool:
    """Return whether a file can be written at a path: its folder exists, or it is an object."""
    return isinstance(path, ObjectPath) or path.parent.is_dir()


def require_writable(path: Path, what: str) -> None:
    """Raise DataError unless the folder of a path takes new files; what : is written, as in "predictions"."""
    if isinstance(path, ObjectPath):
        return
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise DataError(explain(
            f"{path} cannot be written: the folder {path.parent} takes no new files ({error.strerror})",
            why=f"{what} are written into it", fix="name a path in a folder that you may write to")) from error


def require_replaceable(path: Path, what: str, is_same: Callable[[Path], bool], *, overwrite: bool) -> None:
    """Raise ParameterError unless a file may be written at a path, where there may be one of the same kind.

    Raise DataError if the folder takes no new files.

    what : is written, as in "predictions". is_same : whether a file is such. overwrite : whether any file is replaced.
    """
    require(has_folder(path), f"there is no folder {path.parent}", why=f"{what} are written into it",
            fix="create it, or name another file")
    require(isinstance(path, ObjectPath) or not path.is_dir(), f"{path} is a folder",
            why=f"{what} are written to a file", fix="name a file in it, or another path")
    require_writable(path, what)
    require(overwrite or not path.exists() or is_same(path),
            f"{path} exists, and cannot be recognized as {what} of dssl", why="its content would be lost",
            fix="name another path, or replace it with --overwrite, in Python overwrite=True")


def archive_at(path: Path) -> zipfile.ZipFile:
    """Open a zip in a folder or an object store."""
    return zipfile.ZipFile(io.BytesIO(read_file(path)) if isinstance(path, ObjectPath) else path)


def names_in_zip(path: Path) -> list[str]:
    """Return the names of the members of a zip; none of another file."""
    try:
        with archive_at(path) as archive:
            return archive.namelist()
    except zipfile.BadZipFile:
        return []


def named_in(folder: Path, name: str) -> Path:
    """Return the normalized path that a file in `folder` refers to by a relative or absolute name."""
    if is_object_url(name):
        return object_path(name)
    path = folder / name
    return path.resolve() if isinstance(path, ObjectPath) else Path(os.path.normpath(path))


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes a cell that begins with one of these for a formula


class CsvLines:
    """Writes lines of cells to a file.

    safe : whether text that a spreadsheet would take for a formula is prefixed with an apostrophe.
    """

    def __init__(self, file: TextIO, safe: bool = False):
        self._writer = csv.writer(file, lineterminator="\n")
        self._safe = safe

    def write(self, cells: Sequence[object]) -> None:
        """Write one line."""
        self._writer.writerow([harmless(cell) for cell in cells] if self._safe else cells)

    def write_all(self, lines: Iterable[Sequence[object]]) -> None:
        """Write many lines."""
        self._writer.writerows(([harmless(cell) for cell in cells] for cells in lines) if self._safe else lines)


def harmless(cell: object) -> object:
    """Return a cell that a spreadsheet does not evaluate: an apostrophe precedes text that begins like a formula.

    Text that is a number, such as "-1.5", stays.
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
