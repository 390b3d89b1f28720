"""Files that are there whole or not at all, errors that pass, and the folder that a URL names."""

import errno
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from ..errors import IntegrityError, explain, require

# What a file server says that is busy or starts again; a full disk and a missing permission do not pass.
PASSING = frozenset({errno.EIO, errno.ESTALE, errno.EAGAIN, errno.ETIMEDOUT, errno.EINTR, errno.EBUSY, errno.ECONNRESET,
                     errno.ENOTCONN, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EREMOTEIO})
PAUSES = (0.05, 0.2, 0.8, 3.0)  # seconds before the second, third, ... attempt

Given = ParamSpec("Given")
Made = TypeVar("Made")


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
def draft_of(path: Path, publish: Callable[[Path, Path], None] = os.replace) -> Iterator[Path]:
    """Yield the name of a file to write beside `path`, which it becomes at once at the end; an error leaves none."""
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


@outlasting
def write_json(path: Path, value: Any, *, exclusive: bool = False, durable: bool = True) -> bool:
    """Write one JSON file so that a reader sees all of it or nothing.

    With `exclusive`, return False and change nothing if the file already exists; the first writer wins. Unless
    `durable`, it is not waited for until it is on the disk, 2 ms: a power cut may leave it empty, as it may the chunks.
    """
    try:
        publish = publish_once if exclusive else os.replace
        with draft_of(path, publish) as draft, open(draft, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, sort_keys=True, allow_nan=False)
            file.flush()
            if durable:
                os.fsync(file.fileno())
    except FileExistsError:
        if not exclusive:
            raise
        return False
    return True


@outlasting
def read_json(path: Path) -> Any:
    """Return the value of one JSON file; raise IntegrityError if it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise IntegrityError(explain(
            f"{path} is not a JSON file", why=f"its bytes changed since it was written ({error})",
            fix="delete the artifact that holds it and run again")) from error


def read_record(path: Path, fields: Mapping[str, type | tuple[type, ...]], *, fix: str) -> dict[str, Any]:
    """Return the object of a JSON file; raise IntegrityError unless it has these fields, with values of these types."""
    record = read_json(path)
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
            fix="delete the artifact that holds it and run again", error=IntegrityError)
    return name


def local_path(url: str | Path) -> Path:
    """Return the local folder that a workspace URL names; raise ParameterError if it names an object store."""
    text = str(url)
    require("://" not in text or text.startswith("file://"), f"a workspace at {text} is not supported",
            why="artifacts are published by a file system's exclusive link",
            fix="use a folder that every worker can open, on a local disk or a shared file system")
    return Path(text.removeprefix("file://")).expanduser().resolve()
