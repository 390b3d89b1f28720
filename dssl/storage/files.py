"""JSON files that are there whole or not at all, and the folder that a URL names."""

import json
import os
import uuid
from pathlib import Path
from typing import Any

from ..errors import IntegrityError, ParameterError, explain


def write_json(path: Path, value: Any, *, exclusive: bool = False) -> bool:
    """Write one JSON file so that a reader sees all of it or nothing.

    With `exclusive`, return False and change nothing if the file already exists; the first writer wins.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, sort_keys=True, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        if not exclusive:
            os.replace(draft, path)
            return True
        try:
            os.link(draft, path)
        except FileExistsError:
            return False
        return True
    finally:
        draft.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """Return the value of one JSON file; raise IntegrityError if it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise IntegrityError(explain(
            f"{path} is not a JSON file", why=f"its bytes changed since it was written ({error})",
            fix="delete the artifact that holds it and run again",
        )) from error


def local_path(url: str | Path) -> Path:
    """Return the local folder that a workspace URL names.

    Raises
    ------
    ParameterError : the URL names an object store; this version keeps artifacts on a local or shared file system.
    """
    text = str(url)
    if "://" in text and not text.startswith("file://"):
        raise ParameterError(explain(
            f"a workspace at {text} is not supported", why="artifacts are published by a file system's exclusive link",
            fix="use a folder that every worker can open, on a local disk or a shared file system",
        ))
    return Path(text.removeprefix("file://")).expanduser().resolve()
