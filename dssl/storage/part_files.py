"""The files of parts: where they lie, and what those of arrays hold, in the folder of the attempt that wrote them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import IntegrityError, require
from .array_files import DESCRIPTION, checksum, chunk_files, described_array, open_array, rows_of
from .files import MADE_ANEW, json_bytes, require_name, value_of
from .frames import lost
from .objects import ObjectPath
from .packs import PACK, read_once

NAMES = "arrays.json"  # the names of a part's arrays, so that one that was deleted is missed
CHUNK_BYTES = 16 << 20  # of a part's array


def split_path(folder: Path, path: Path) -> tuple[Any, ...]:
    """Return the folder of parts that a file below another one is of, and the names of the steps from there on."""
    steps = path.parts[len(folder.parts):]
    while len(steps) > 2 and steps[0] == "within":
        folder = folder / "within" / steps[1]
        steps = steps[2:]
    return folder, *steps


def files_of(arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, tuple[bytes, ...]]]:
    """Yield the files of a part's arrays by name, the one with the names of all last."""
    for name, value in arrays.items():
        value = np.asarray(value)
        row_bytes = max(1, value.nbytes // max(len(value), 1)) if value.ndim else value.nbytes
        rows = value.reshape(1) if value.ndim == 0 else value
        # No larger than the array: a chunk is filled up, and held whole, when it is written and read.
        array, text = described_array(rows.shape, rows.dtype, min(len(rows), max(1, CHUNK_BYTES // row_bytes)), None,
                                      {"scalar": value.ndim == 0, "sha256": checksum(rows)})
        yield f"{name}/{DESCRIPTION}", (text,)
        yield from ((f"{name}/{chunk}", pieces) for chunk, pieces in chunk_files(array, name, 0, 0, rows))
    yield NAMES, (json_bytes(sorted(arrays)),)


def names_in(place: Path) -> list[str]:
    """Return the names of the arrays of a part."""
    path = place / NAMES
    try:
        names = value_of(bytes(read_once(path)), path)
    except FileNotFoundError:
        what = f"{path} is missing"
        if isinstance(place, ObjectPath):  # whose small arrays are packed
            what += f", and so is {place / PACK}"
        raise lost(what, place, "the part is recorded as written, but its arrays are gone") from None
    require(isinstance(names, list), f"{path} is damaged", why="it holds no list of arrays", error=IntegrityError,
            fix=MADE_ANEW)
    return [require_name(name, path, nested=True) for name in names]


def read_whole(path: Path) -> np.ndarray:
    array = open_array(path)
    value = rows_of(array, path, 0, array.shape[0])
    if checksum(value) != array.attrs["sha256"]:
        raise lost(f"{path} does not hold what was written", path, "its SHA-256 differs from the one recorded with it")
    return value.reshape(()) if array.attrs["scalar"] else value
