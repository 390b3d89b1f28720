"""The door to Zarr that others wrote: arrays of version 2 or 3 on a local disk, read as Zarr reads them.

They need not carry checksums, and a chunk that is missing stands for its fill value; what dssl writes itself is read by
`store`, which knows better.
"""

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from ..errors import DataError, explain, require

MARKS = ("zarr.json", ".zarray", ".zgroup")


def is_zarr(folder: Path) -> bool:
    """Return whether a folder is a Zarr array or group."""
    return any((folder / mark).is_file() for mark in MARKS)


@dataclass(frozen=True)
class ForeignArray:
    """An array of a folder, opened where its rows are read; a chunk that is missing holds the fill value.

    member : its name in the group, None where the folder is the array. unit_bytes : of the chunks that are decoded
    whole to read one row.
    """

    folder: Path
    name: str
    member: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    unit_bytes: int

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return some rows; raise DataError if a chunk cannot be decoded."""
        with _explained(self.name):
            node: Any = zarr.open(str(self.folder), mode="r")
            array = node if self.member is None else node[self.member]
            _require_harmless(array, self.name)
            return np.asarray(array[rows])


def list_arrays(folder: Path, name: str) -> dict[str, ForeignArray]:
    """Return the arrays of a group by their names, or a lone array as X.

    Raise DataError if the folder is not Zarr of version 2 or 3, or is damaged.
    """
    with _explained(name):
        node = zarr.open(str(folder), mode="r")
        if isinstance(node, zarr.Array):
            return {"X": _describe(folder, name, None, node)}
        return {member: _describe(folder, name, member, array) for member, array in node.arrays()}


def _describe(folder: Path, name: str, member: str | None, array: zarr.Array) -> ForeignArray:
    _require_harmless(array, f"{name}[{member or 'X'!r}]")
    dtype = np.dtype(array.dtype)
    # Of the chunks that a row lies in, Zarr decodes a few at a time.
    beside = int(np.prod([-(-size // chunk) for size, chunk in zip(array.shape[1:], array.chunks[1:], strict=True)]))
    at_once = min(beside, int(zarr.config.get("async.concurrency")))
    return ForeignArray(folder, name, member, array.shape, dtype,
                        at_once * int(np.prod(array.chunks)) * dtype.itemsize)


def _require_harmless(array: zarr.Array, name: str) -> None:
    """Raise DataError if reading an array would unpickle: its codecs name pickle."""
    described = json.dumps(array.metadata.to_dict(), default=str)
    require("pickle" not in described, f"{name} holds Python objects, stored with pickle", error=DataError,
            why="unpickling a file runs whatever code it holds", fix="save it again with a numeric or text dtype")


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn the errors of Zarr and its codecs into one that names the folder."""
    try:
        yield
    except DataError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno and not isinstance(error, FileNotFoundError):
            raise
        raise DataError(explain(
            f"{name} cannot be read as Zarr: {type(error).__name__}: {error}",
            why="its metadata or a chunk is damaged, or needs a codec that is not installed",
            fix="copy the folder again, or write it again with Zarr 2 or 3")) from error


def publish_array(source: Path, target: Path, attributes: dict[str, Any]) -> None:
    """Give an array that was written attributes for its readers, and move it to its place: they see all or nothing.

    Raises DataError: another array has come there meanwhile.
    """
    if attributes:
        zarr.open_array(str(source), mode="r+").update_attributes(attributes)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        raise DataError(explain(f"{target} exists", why="somebody else has written it meanwhile",
                                fix="name another path")) from error
