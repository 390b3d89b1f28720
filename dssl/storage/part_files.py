"""The files of parts: their paths and contents in the folder of the attempt that wrote them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import IntegrityError, require
from .array_files import DESCRIPTION, checksum, chunk_files, described_array, open_array, rows_of
from .files import MADE_ANEW, json_bytes, require_name, value_of
from .frames import array_error
from .objects import ObjectPath
from .packs import PACK, read_once

NAMES = "arrays.json"  # the names of a part's arrays, so that a deleted array is noticed
CHUNK_BYTES = 16 << 20  # the maximum chunk size of a part's array


def split_path(folder: Path, path: Path) -> tuple[Any, ...]:
    """Split the path of a file below `folder` into the innermost folder of parts and the names after it."""
    steps = path.parts[len(folder.parts):]
    while len(steps) > 2 and steps[0] == "within":
        folder = folder / "within" / steps[1]
        steps = steps[2:]
    return folder, *steps


def files_of(arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, tuple[bytes, ...]]]:
    """Yield the name and content of each file of a part's arrays; the list of array names comes last."""
    for name, value in arrays.items():
        value = np.asarray(value)
        row_bytes = max(1, value.nbytes // max(len(value), 1)) if value.ndim else value.nbytes
        rows = value.reshape(1) if value.ndim == 0 else value
        # No larger than the array, since chunks are padded and held whole in memory.
        array, text = described_array(rows.shape, rows.dtype, min(len(rows), max(1, CHUNK_BYTES // row_bytes)), None,
                                      {"scalar": value.ndim == 0, "sha256": checksum(rows)})
        yield f"{name}/{DESCRIPTION}", (text,)
        yield from ((f"{name}/{chunk}", pieces) for chunk, pieces in chunk_files(array, name, 0, 0, rows))
    yield NAMES, (json_bytes(sorted(arrays)),)


def names_in(folder: Path) -> list[str]:
    """Return the names of the arrays of a part."""
    path = folder / NAMES
    try:
        names = value_of(bytes(read_once(path)), path)
    except FileNotFoundError:
        what = f"{path} is missing"
        if isinstance(folder, ObjectPath):  # where small arrays are packed
            what += f", and so is {folder / PACK}"
        raise array_error(what, folder, "the part was recorded as complete") from None
    require(isinstance(names, list), f"{path} is damaged", why="it is not a list of arrays", error=IntegrityError,
            fix=MADE_ANEW)
    return [require_name(name, path, nested=True) for name in names]


def read_whole(path: Path) -> np.ndarray:
    """Return an array of a part; raise IntegrityError if its values differ from their recorded SHA-256."""
    array = open_array(path)
    value = rows_of(array, path, 0, array.shape[0])
    if checksum(value) != array.attrs["sha256"]:
        raise array_error(f"{path} is not what was written", path, "its SHA-256 differs from the one recorded with it")
    return value.reshape(()) if array.attrs["scalar"] else value
