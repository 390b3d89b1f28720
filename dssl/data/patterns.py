"""Patterns of file names: the files that match, with the numbers in their names in order."""

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from ..base.errors import DataError, explain, require
from ..base.urls import is_object_url, is_url
from ..storage.objects import ObjectPath, matches, object_path

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
        beside = sorted((file.name for file in folder.iterdir()), key=natural_order)[:8] if folder.is_dir() else []
        raise DataError(explain(
            f"no file matches {text}", why=f"{folder.absolute()} " + (f"holds {', '.join(beside)}" if beside else
                                                                    "is empty" if folder.is_dir() else "is no folder"),
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
