"""The door to Zarr: checksummed arrays in folders, written and read by whole chunks.

Every chunk carries a CRC-32C, so a flipped byte is an error and not a wrong number. Zarr reads a missing chunk as
zeros; here every chunk is written, even an empty one, and a missing chunk is an error. A chunk is the unit of writing:
two tasks never share one.

Zarr writes the descriptions of the arrays, so any Zarr reader can open them. Chunks are encoded here, by the codecs
`bytes`, `zstd` and `crc32c`, in the thread of the task: Zarr passes each chunk through an event loop and two threads,
which takes 1 to 2 ms of a core and would dominate the cost of a small array.

The arrays of a part lie in the folder of the attempt that wrote them (`files_of`).
"""

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import zarr
from numpy.typing import DTypeLike
from zarr.abc.buffer import Buffer
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore

from ..base.digest import JsonObject
from ..base.errors import DataError, IntegrityError, explain, require
from .cache import FETCHED
from .files import (
    MADE_ANEW,
    files_in,
    json_bytes,
    remove_tree,
    require_name,
    retrying,
    value_of,
    write_file,
    write_part_file,
)
from .frames import CRC_BYTES, PACK, ZSTD_LEVEL, array_error, damaged_error, pack, read_once, unpack
from .objects import ObjectPath

DESCRIPTION = "zarr.json"
NAMES = "arrays.json"  # the names of a part's arrays, so that a deleted array is noticed
CHUNK_BYTES = 16 << 20  # the maximum chunk size of a part's array


def described_array(shape: tuple[int, ...], dtype: DTypeLike, chunk_rows: int, chunk_columns: int | None = None,
                    attributes: JsonObject | None = None) -> tuple[zarr.Array, bytes]:
    """Return a Zarr 3 array of numbers or booleans with checksummed chunks, and the bytes of its description file."""
    dtype = np.dtype(dtype)
    require(dtype.kind in "biuf", f"cannot store dtype {dtype}", error=DataError,
            why="only numbers and booleans have one meaning on every machine",
            fix="encode categories and text as integers first; class names go into the attributes")
    trailing = tuple(max(size, 1) for size in shape[1:])
    if chunk_columns:
        trailing = (chunk_columns, *trailing[1:])
    described: dict[str, Buffer] = {}
    array = zarr.create_array(MemoryStore(described), shape=shape, dtype=dtype, chunks=(max(chunk_rows, 1), *trailing),
                              compressors=[ZstdCodec(level=ZSTD_LEVEL), Crc32cCodec()], attributes=attributes or {},
                              fill_value=0)
    return array, described[DESCRIPTION].to_bytes()


def create_array(path: Path, shape: tuple[int, ...], dtype: DTypeLike, chunk_rows: int,
                 chunk_columns: int | None = None, *, is_new: bool = False) -> bytes | None:
    """Write the description file of an array, see `described_array`; return its bytes, or None if the file exists.

    is_new : whether it is known that the file does not exist.
    """
    array, text = described_array(shape, dtype, chunk_rows, chunk_columns)
    if is_new:
        write_part_file(path / DESCRIPTION, text)
    elif not write_file(path / DESCRIPTION, text, exclusive=True):
        return None
    if isinstance(path, ObjectPath):
        _OPENED.keep(path, (), array)
    return text


@retrying
def open_array(path: Path) -> zarr.Array:
    """Open an array for reading; raise IntegrityError if there is none."""
    try:
        stamp: tuple[int, ...] = ()
        if not isinstance(path, ObjectPath):  # a store would take a request each time; see `forget_arrays` instead
            status = (path / DESCRIPTION).stat()
            stamp = status.st_mtime_ns, status.st_ino
        array = _OPENED.get(path, stamp)
        return array if array is not None else _OPENED.keep(path, stamp, _read_description(path))
    except FileNotFoundError:
        raise IntegrityError(explain(
            f"{path} is not a Zarr array", why="the array was deleted, or its stage never finished",
            fix="run again: the stage that makes it will notice that it is missing")) from None


class OpenArrays:
    """A cache of opened arrays: a description is read again only if the time stamp of its file has changed."""

    def __init__(self, capacity: int):
        self._capacity = capacity
        self._arrays = dict[Path, tuple[tuple[int, ...], zarr.Array]]()
        self._lock = Lock()

    def get(self, path: Path, stamp: tuple[int, ...]) -> zarr.Array | None:
        """Return an array if it was opened with this stamp."""
        held = self._arrays.get(path)
        return held[1] if held is not None and held[0] == stamp else None

    def keep(self, path: Path, stamp: tuple[int, ...], array: zarr.Array) -> zarr.Array:
        """Add an array and return it; the oldest one is dropped if there are too many."""
        with self._lock:
            self._arrays.pop(path, None)
            if len(self._arrays) >= self._capacity:
                del self._arrays[next(iter(self._arrays))]
            self._arrays[path] = stamp, array
        return array

    def forget(self, folder: Path) -> None:
        """Drop the arrays in a folder."""
        steps = folder.parts
        with self._lock:
            for path in [path for path in self._arrays if path.parts[:len(steps)] == steps]:
                del self._arrays[path]

    def clear(self) -> None:
        """Drop all arrays."""
        with self._lock:
            self._arrays.clear()


_OPENED = OpenArrays(1024)


def begin_anew() -> None:
    """Clear the caches of this process, since other processes may have written in the meantime."""
    _OPENED.clear()
    FETCHED.clear()


def forget_arrays(folder: Path) -> None:
    """Drop a folder from the caches of this process, since it may be written again.

    Other processes have cached nothing of it: folders of parts have unique names (`artifacts`, `scratch`), or are not
    written again before the other processes call `begin_anew`.
    """
    _OPENED.forget(folder)
    if isinstance(folder, ObjectPath):
        FETCHED.forget(folder)


def _read_description(path: Path) -> zarr.Array:
    """Open an array; raise FileNotFoundError if there is none, IntegrityError if its description is damaged."""
    described = bytes(read_once(path / DESCRIPTION))
    try:
        array = zarr.open_array(MemoryStore({DESCRIPTION: cpu.Buffer.from_bytes(described)}), mode="r", zarr_format=3)
        chunks = array.chunks
        sound = array.dtype.kind in "biuf" and len(chunks) == len(array.shape) and min(chunks, default=1) > 0
        reason = f"it describes chunks of {chunks}, values {array.dtype}"
    except (ValueError, TypeError, KeyError, AttributeError, LookupError, ArithmeticError, RuntimeError) as error:
        sound = False
        reason = f"Zarr cannot read it ({type(error).__name__}: {error})"
    if not sound:
        raise damaged_error(path / DESCRIPTION, path, reason)
    return array


def _chunks(array: zarr.Array, axis: int, start: int, stop: int) -> Iterator[tuple[str, list[slice]]]:
    """Yield the name and the index box of each chunk that overlaps a range of rows (axis 0) or columns (1)."""
    shape = array.shape
    chunks = array.chunks
    numbers = [range(-(-size // unit)) for size, unit in zip(shape, chunks, strict=True)]
    numbers[axis] = range(start // chunks[axis], -(-stop // chunks[axis]) if stop > start else start // chunks[axis])
    for key in itertools.product(*numbers):
        box = [slice(number * unit, min((number + 1) * unit, size))
               for number, unit, size in zip(key, chunks, shape, strict=True)]
        yield array.metadata.encode_chunk_key(key), box


def _stored_dtype(array: zarr.Array) -> np.dtype:
    return np.dtype(array.dtype).newbyteorder("<")


def write_chunks(path: Path, axis: int, start: int, block: np.ndarray) -> None:
    """Write whole chunks along one axis (0 rows, 1 columns) from index `start` on.

    Raises ParameterError: the block does not begin and end at chunk boundaries.
    """
    for name, pieces in chunk_files(open_array(path), path.name, axis, start, block):
        write_part_file(path / name, *pieces)


def chunk_files(array: zarr.Array, name: str, axis: int, start: int, block: np.ndarray
                ) -> Iterator[tuple[str, tuple[bytes, ...]]]:
    """Yield the file name and the bytes of whole chunks, as `write_chunks` writes them; `name` is for messages."""
    unit = array.chunks[axis]
    stop = start + block.shape[axis]
    require(start % unit == 0 and (stop % unit == 0 or stop == array.shape[axis]),
            f"{('rows', 'columns')[axis]} {start} to {stop} of {name} do not fill chunks of {unit}",
            why="two tasks that write into one chunk would overwrite each other",
            fix=f"give every task a multiple of {unit}")
    beside = [shape[:axis] + shape[axis + 1:] for shape in (block.shape, array.shape)]
    require(beside[0] == beside[1] and stop <= array.shape[axis],
            f"a block of shape {block.shape} for {name} of shape {array.shape}, at {start}",
            why="the rest of the chunks would be zeros", fix="pass a block with the array's own shape")
    dtype = _stored_dtype(array)
    for key, box in _chunks(array, axis, start, stop):
        box[axis] = slice(box[axis].start - start, box[axis].stop - start)
        chunk = np.ascontiguousarray(block[tuple(box)], dtype)
        if chunk.shape != array.chunks:  # the last chunk of an axis is padded
            chunk = np.pad(chunk, [(0, full - size) for size, full in zip(chunk.shape, array.chunks, strict=True)])
        yield key, pack(chunk)


def _decoded(array: zarr.Array, path: Path, name: str, out: np.ndarray | None = None) -> np.ndarray:
    """Return one whole chunk, in the contiguous array `out` if there is one, of its shape and type."""
    file = path / name
    try:
        stored = read_once(file)
    except FileNotFoundError:
        raise array_error(f"{file} is missing", path,
                   "its values are lost, and Zarr would read them as zeros") from None
    try:
        values = unpack(stored[:-CRC_BYTES], stored[-CRC_BYTES:],
                        _stored_dtype(array).itemsize * math.prod(array.chunks),
                        None if out is None else out.reshape(-1).view(np.uint8))
    except ValueError as error:
        raise damaged_error(file, path, str(error)) from error
    if out is not None:
        return out
    try:
        return np.frombuffer(values, _stored_dtype(array)).reshape(array.chunks)
    except ValueError as error:
        raise damaged_error(file, path, f"it is not a chunk of shape {array.chunks} and type {array.dtype} ({error})"
                            ) from error


def read_rows(path: Path, start: int, stop: int) -> np.ndarray:
    """Return rows [start, stop); raise IntegrityError if a chunk is missing, truncated or changed."""
    return rows_of(open_array(path), path, start, stop)


def read_chunk(path: Path, number: int) -> np.ndarray:
    """Return one chunk of rows, padded at the end of the array; each row must lie in a single chunk."""
    array = open_array(path)
    start = number * array.chunks[0]
    (name, _), = _chunks(array, 0, start, start + 1)
    return _decoded(array, path, name)


def read_columns(path: Path, start: int, stop: int) -> np.ndarray:
    """Return columns [start, stop) of all rows, as `read_rows` does; other chunks are not read."""
    return _range_of(open_array(path), path, 1, start, stop)


def rows_of(array: zarr.Array, path: Path, start: int, stop: int) -> np.ndarray:
    """Return rows [start, stop) of an open array, as `read_rows` does."""
    return _range_of(array, path, 0, start, stop)


def _range_of(array: zarr.Array, path: Path, axis: int, start: int, stop: int) -> np.ndarray:
    shape = list(array.shape)
    shape[axis] = max(stop - start, 0)
    out = np.empty(shape, array.dtype)
    in_place = axis == 0 and shape[1:] == list(array.chunks[1:]) and array.dtype == _stored_dtype(array)
    for name, box in _chunks(array, axis, start, stop):
        side_range = box[axis]
        first = max(side_range.start, start)
        last = min(side_range.stop, stop)
        if in_place and last - first == array.chunks[0]:
            _decoded(array, path, name, out[first - start:last - start])
            continue
        of_chunk = [slice(side.stop - side.start) for side in box]
        of_chunk[axis] = slice(first - side_range.start, last - side_range.start)
        box[axis] = slice(first - start, last - start)
        out[tuple(box)] = _decoded(array, path, name)[tuple(of_chunk)]
    return out


def check_chunks(path: Path, axis: int, start: int, stop: int) -> None:
    """Decode the chunks of a range of rows (axis 0) or columns (1); raise IntegrityError as `read_rows` does."""
    array = open_array(path)
    for name, _ in _chunks(array, axis, start, stop):
        _decoded(array, path, name)


def checksum(array: np.ndarray) -> str:
    """Return the hex SHA-256 of an array's values, row-major, little-endian."""
    array = np.ascontiguousarray(array)
    return hashlib.sha256(array.astype(array.dtype.newbyteorder("<"), copy=False).data).hexdigest()


def is_like(path: Path, shape: tuple[int, ...], dtype: DTypeLike, block_rows: int, block_columns: int | None) -> bool:
    """Return whether an array with this shape, dtype and chunks exists."""
    if not (path / DESCRIPTION).is_file():
        return False
    array = open_array(path)
    chunks = (max(block_rows, 1), *((block_columns,) if block_columns else array.chunks[1:]))
    return array.shape == tuple(shape) and array.dtype == np.dtype(dtype) and array.chunks[:len(chunks)] == chunks


def remove_array(path: Path) -> None:
    """Delete an array, its description last: a folder without a description must not contain chunks."""
    for file, _ in list(files_in(path)):
        if file.name != DESCRIPTION:
            file.unlink(missing_ok=True)
    remove_tree(path)
    forget_arrays(path)


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
