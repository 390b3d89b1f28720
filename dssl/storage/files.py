"""Files that are there whole or not at all, errors that pass, and the place that a URL names."""

import errno
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ..base.errors import IntegrityError, explain, require
from ..base.urls import STORES, is_object_url
from .cache import FETCHED
from .objects import ObjectPath, object_path
from .write_behind import AT_ONCE, LARGEST_BEHIND, settle, write_behind

# What a file server says that is busy or starts again; a full disk and a missing permission do not pass.
PASSING = frozenset({errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT, errno.EINTR, errno.EBUSY, errno.ECONNRESET,
                     errno.ENOTCONN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EREMOTEIO})
PAUSES = (0.05, 0.2, 0.8, 3.0)  # seconds before the second, third, ... attempt

MADE_ANEW = "delete the artifact that holds it and run again"  # what mends a damaged file in one

Given = ParamSpec("Given")
Made = TypeVar("Made")
Asked = TypeVar("Asked")


def outlasting(action: Callable[Given, Made]) -> Callable[Given, Made]:
    """Have a function, which may be called again, try again after an `OSError` that passes; a few times, 4 seconds."""
    @wraps(action)
    def tried(*args: Given.args, **kwargs: Given.kwargs) -> Made:
        for pause in PAUSES:
            try:
                return action(*args, **kwargs)
            except OSError as error:
                if error.errno not in PASSING:
                    raise
            time.sleep(pause)
        return action(*args, **kwargs)

    return tried


@outlasting
def is_there(path: Path) -> bool:
    """Return whether this process can see a file."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    return True


@contextmanager
def draft_of(path: Path, publish: Callable[[Path, Path], None] = os.replace, *, of_part: bool = False
             ) -> Iterator[Path]:
    """Yield the name of a file to write beside `path`, which it becomes at once at the end; an error leaves none.

    What becomes an object is written in the folder of temporary files, and then sent; `of_part` as `write_part_file`
    does.
    """
    if isinstance(path, ObjectPath):
        with tempfile.TemporaryDirectory(prefix="dssl-") as folder:
            draft = Path(folder, path.name)
            yield draft
            if of_part and draft.stat().st_size <= LARGEST_BEHIND:
                write_behind(path, partial(outlasting(path.put), draft.read_bytes()))
            else:
                path.upload(draft, exclusive=publish is publish_once)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield draft
        publish(draft, path)
    except OSError as error:
        if error.errno is not None and error.filename is None:  # a write names no file, of a full disk for one
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def publish_once(draft: Path, path: Path) -> None:
    """Give a draft its name; raise FileExistsError if another has it."""
    try:
        os.link(draft, path)
    except FileExistsError:
        if not os.path.samefile(draft, path):  # a file server may have done it, and lost its answer
            raise


def write_file(path: Path, *pieces: bytes, exclusive: bool = False, durable: bool = False) -> bool:
    """Write one file of these bytes so that a reader sees all of it or nothing.

    With `exclusive`, return False and change nothing if the file already exists; the first writer wins. Unless
    `durable`, it is not waited for until it is on the disk, 2 ms: a power cut may leave it empty. An object is there
    when all that this thread has written behind is.
    """
    if isinstance(path, ObjectPath):
        settle()  # once: it tells of an error once, after which nothing may be written here
    return _written(path, pieces, exclusive, durable)


@outlasting
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
    """Return the bytes of an object; of one piece without a copy."""
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_part_file(path: Path, *pieces: bytes, last: bool = False) -> None:
    """Write one file of a part, as `write_file` does; a small object is written behind, see there, and kept here."""
    size = sum(map(len, pieces))
    if not isinstance(path, ObjectPath) or size > LARGEST_BEHIND:
        write_file(path, *pieces)
        return
    value = _joined(pieces)
    FETCHED.keep(path, memoryview(value), size)
    write_behind(path, partial(outlasting(path.put), value), last=last)


@outlasting
def read_file(path: Path) -> memoryview:
    """Return the bytes of a file."""
    if isinstance(path, ObjectPath):
        return path.get()[0]
    with open(path, "rb") as file:
        return memoryview(file.read())


def remove_tree(folder: Path) -> None:
    """Delete a folder and all that is in it, if it is there."""
    if isinstance(folder, ObjectPath):
        folder.remove_below()
    else:
        shutil.rmtree(folder, ignore_errors=True)


def files_in(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files of a folder, at any depth, and their bytes."""
    if isinstance(folder, ObjectPath):
        yield from ((path, status.st_size) for path, status in folder.below())
        return
    for path in folder.rglob("*"):
        if path.is_file():
            yield path, path.stat().st_size


def disk_bytes(folder: Path) -> int:
    """Return the bytes of all files of a folder."""
    return sum(size for _, size in files_in(folder))


def at_once(ask: Callable[[Asked], Made], asked: Iterable[Asked], place: Path) -> list[Made]:
    """Return what a function returns of each of several, in their order; of objects it is asked for several at once.

    place : where what it reads lies.
    """
    pending = list(asked)
    if not isinstance(place, ObjectPath) or len(pending) < 2:
        return [ask(item) for item in pending]

    def asked_alone(item: Asked) -> Made:
        try:
            return ask(item)
        finally:
            settle()

    with ThreadPoolExecutor(min(AT_ONCE, len(pending))) as pool:
        return list(pool.map(asked_alone, pending))


def json_bytes(value: Any) -> bytes:
    """Return the text of a value in a JSON file."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False).encode()


def write_json(path: Path, value: Any, *, exclusive: bool = False, durable: bool = True) -> bool:
    """Write one JSON file so that a reader sees all of it or nothing.

    exclusive, durable : see `write_file`.
    """
    return write_file(path, json_bytes(value), exclusive=exclusive, durable=durable)


def read_json(path: Path) -> Any:
    """Return the value of one JSON file; raise IntegrityError if it is not JSON."""
    return value_of(bytes(read_file(path)), path)


def value_of(text: bytes, path: Path) -> Any:
    """Return the value of the text of a JSON file; raise IntegrityError if it is none."""
    try:
        return json.loads(text.decode())
    except ValueError as error:
        raise IntegrityError(explain(
            f"{path} is not a JSON file", why=f"its bytes changed since it was written ({error})",
            fix=MADE_ANEW)) from error


def read_record(path: Path, fields: Mapping[str, type | tuple[type, ...]], *, fix: str) -> dict[str, Any]:
    """Return the object of a JSON file; raise IntegrityError unless it has these fields, with values of these types."""
    return record_of(bytes(read_file(path)), path, fields, fix=fix)


def record_of(text: bytes, path: Path, fields: Mapping[str, type | tuple[type, ...]], *, fix: str) -> dict[str, Any]:
    """Return the object of the text of a JSON file, see `read_record`."""
    record = value_of(text, path)
    is_object = isinstance(record, dict)
    wrong = [name for name, kind in fields.items() if not (is_object and isinstance(record.get(name), kind))]
    require(is_object and not wrong, f"{path} is damaged", error=IntegrityError, fix=fix,
            why=f"it lacks a sound value of {', '.join(wrong)}" if is_object else "it holds no JSON object")
    return record


def require_name(name: Any, path: Path, *, nested: bool = False) -> str:
    """Return a name that a file gives to another; raise IntegrityError if it could lead out of the folder.

    nested : whether it may be several names with slashes between them, each of a folder in the one before.
    """
    steps = name.split("/") if nested and isinstance(name, str) else [name]
    plain = all(isinstance(step, str) and step not in ("", ".", "..") and os.path.basename(step) == step
                and "\0" not in step for step in steps)
    require(plain, f"{path} names {name!r}", why="that is no name of a file, and may lie elsewhere",
            fix=MADE_ANEW, error=IntegrityError)
    return name


def place_of(url: str | Path) -> Path:
    """Return the folder of this machine, or the path in an object store, that a path or URL names.

    Raises ParameterError: it names another kind of place, or a store with credentials in its URL.
    """
    if isinstance(url, ObjectPath):
        return url
    text = str(url)
    if is_object_url(text):
        return object_path(text)
    known = ", ".join(f"{scheme}://" for scheme in ("file", *STORES))
    require("://" not in text or text.startswith("file://"), f"{text} is not supported",
            why="a workspace lies in a folder or in an object store",
            fix=f"name a folder that every worker can open, or a URL that begins with one of {known}")
    return Path(text.removeprefix("file://")).expanduser().resolve()


def path_at(text: str | Path) -> Path:
    """Return the path that a text names, as it is written."""
    if isinstance(text, ObjectPath):
        return text
    return object_path(text) if isinstance(text, str) and is_object_url(text) else Path(text)


def has_folder(path: Path) -> bool:
    """Return whether a file can be written at a path: its folder is there, or it is that of an object."""
    return isinstance(path, ObjectPath) or path.parent.is_dir()


def named_in(folder: Path, name: str) -> Path:
    """Return what a file of a folder names, by a path that is relative to it or by a whole one, without any `..`."""
    if is_object_url(name):
        return object_path(name)
    path = folder / name
    return path.resolve() if isinstance(path, ObjectPath) else Path(os.path.normpath(path))
