"""JSON files that are there whole or not at all, and the folder that a URL names."""

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import IntegrityError, explain, require


@contextmanager
def draft_of(path: Path, publish: Callable[[Path, Path], None] = os.replace) -> Iterator[Path]:
    """Yield the name of a file to write beside `path`, which it becomes at once at the end; an error leaves none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield draft
        publish(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_json(path: Path, value: Any, *, exclusive: bool = False) -> bool:
    """Write one JSON file so that a reader sees all of it or nothing.

    With `exclusive`, return False and change nothing if the file already exists; the first writer wins.
    """
    try:
        with draft_of(path, os.link if exclusive else os.replace) as draft, open(draft, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, sort_keys=True, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        if not exclusive:
            raise
        return False
    return True


def read_json(path: Path) -> Any:
    """Return the value of one JSON file; raise IntegrityError if it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise IntegrityError(explain(
            f"{path} is not a JSON file", why=f"its bytes changed since it was written ({error})",
            fix="delete the artifact that holds it and run again")) from error


def local_path(url: str | Path) -> Path:
    """Return the local folder that a workspace URL names; raise ParameterError if it names an object store."""
    text = str(url)
    require("://" not in text or text.startswith("file://"), f"a workspace at {text} is not supported",
            why="artifacts are published by a file system's exclusive link",
            fix="use a folder that every worker can open, on a local disk or a shared file system")
    return Path(text.removeprefix("file://")).expanduser().resolve()
