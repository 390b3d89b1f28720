"""The door to Zarr: checksummed arrays in folders, written and read by whole chunks.

Every chunk carries a CRC-32C, so a flipped byte is an error and not a wrong number. Zarr reads a chunk that
is missing as zeros; here every chunk is written, even an empty one, and a chunk that is not there is an error.
A chunk is the unit of writing: two tasks never share one.

Zarr describes the arrays, and any of its readers opens them. Their chunks are coded here, by the codecs `bytes`, `zstd`
and `crc32c`, one after the other in the thread of the task: Zarr passes each through an event loop and two threads,
1 to 2 ms of a core, which is most of what a small array takes.
"""

import hashlib
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import zarr
from zarr.abc.buffer import Buffer
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.core.buffer import cpu
from zarr.storage import MemoryStore

from ..base.errors import DataError, IntegrityError, explain, require
from .cache import FETCHED
from .files import files_in, outlasting, remove_tree, write_file, write_part_file
from .frames import CRC_BYTES, ZSTD_LEVEL, damaged, lost, pack, unpack
from .objects import ObjectPath
from .packs import read_once

DESCRIPTION = "zarr.json"


def described_array(shape: tuple[int, ...], dtype: Any, chunk_rows: int, chunk_columns: int | None = None,
                    attributes: dict[str, Any] | None = None) -> tuple[zarr.Array, bytes]:
    """Return a Zarr 3 array of numbers or booleans, chunked by rows (and columns), each chunk checksummed; and how it
    is described in its file.

    Raise DataError if the dtype is not numeric; strings and objects have no form that is safe to read back.
    """
    dtype = np.dtype(dtype)
    require(dtype.kind in "biuf", f"cannot store dtype {dtype}", error=DataError,
            why="only numbers and booleans have one meaning on every machine",
            fix="code categories and text as integers first; class names go into the attributes")
    trailing = tuple(max(size, 1) for size in shape[1:])
    if chunk_columns:
        trailing = (chunk_columns, *trailing[1:])
    described: dict[str, Buffer] = {}
    array = zarr.create_array(MemoryStore(described), shape=shape, dtype=dtype, chunks=(max(chunk_rows, 1), *trailing),
                              compressors=[ZstdCodec(level=ZSTD_LEVEL), Crc32cCodec()], attributes=attributes or {},
                              fill_value=0)
    return array, described[DESCRIPTION].to_bytes()


def create_array(path: Path, shape: tuple[int, ...], dtype: Any, chunk_rows: int, chunk_columns: int | None = None,
                 *, is_new: bool = False) -> bytes | None:
    """Describe an array in its file, see `described_array`, and return what the file holds; None if there is one.

    is_new : whether it is known that there is none.
    """
    array, text = described_array(shape, dtype, chunk_rows, chunk_columns)
    if is_new:
        write_part_file(path / DESCRIPTION, text)
    elif not write_file(path / DESCRIPTION, text, exclusive=True):
        return None
    if isinstance(path, ObjectPath):
        _OPENED.keep(path, (), array)
    return text


@outlasting
def open_array(path: Path) -> zarr.Array:
    """Open an array to be read; raise IntegrityError if there is none."""
    try:
        stamp: tuple[int, ...] = ()
        if not isinstance(path, ObjectPath):  # of which a request would be asked each time, see `forget_arrays`
            status = (path / DESCRIPTION).stat()
            stamp = status.st_mtime_ns, status.st_ino
        array = _OPENED.get(path, stamp)
        return array if array is not None else _OPENED.keep(path, stamp, _read_description(path))
    except FileNotFoundError:
        raise IntegrityError(explain(
            f"{path} is not a Zarr array", why="the array was deleted, or its stage never finished",
            fix="run again: the stage that makes it will see that it is missing")) from None


class OpenArrays:
    """Arrays that this process has opened, whose descriptions are read once as long as their files have one stamp."""

    def __init__(self, most: int):
        self._most = most
        self._held = dict[Path, tuple[tuple[int, ...], zarr.Array]]()
        self._lock = Lock()

    def get(self, path: Path, stamp: tuple[int, ...]) -> zarr.Array | None:
        """Return an array if it was opened when its description had this stamp."""
        held = self._held.get(path)
        return held[1] if held is not None and held[0] == stamp else None

    def keep(self, path: Path, stamp: tuple[int, ...], array: zarr.Array) -> zarr.Array:
        """Keep an array, in place of the one that was opened first if there are too many; return it."""
        with self._lock:
            self._held.pop(path, None)
            if len(self._held) >= self._most:
                del self._held[next(iter(self._held))]
            self._held[path] = stamp, array
        return array

    def forget(self, folder: Path) -> None:
        """Forget the arrays in a folder."""
        steps = folder.parts
        with self._lock:
            for path in [path for path in self._held if path.parts[:len(steps)] == steps]:
                del self._held[path]


    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._held.clear()


_OPENED = OpenArrays(1024)


def begin_anew() -> None:
    """Have this process read all objects anew, since other processes may have written meanwhile."""
    _OPENED.clear()
    FETCHED.clear()


def forget_arrays(folder: Path) -> None:
    """Have this process read what lies below a folder anew, since others may come to its place.

    Other processes have nothing of it: a folder of parts has a name of its own (`artifacts`, `scratch`), or is not
    written again before they `begin_anew`.
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
        raise damaged(path / DESCRIPTION, path, reason)
    return array


def _chunks(array: zarr.Array, axis: int, start: int, stop: int) -> Iterator[tuple[str, list[slice]]]:
    """Yield the name of each chunk that a range of rows (axis 0) or columns (1) touches, and its box in the array."""
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

    Raise ParameterError if the block does not begin and end at chunk boundaries.
    """
    fill_chunks(open_array(path), path, axis, start, block)


def fill_chunks(array: zarr.Array, path: Path, axis: int, start: int, block: np.ndarray) -> None:
    """Write whole chunks of an array that is open, as `write_chunks` does."""
    for name, pieces in chunk_files(array, path.name, axis, start, block):
        write_part_file(path / name, *pieces)


def chunk_files(array: zarr.Array, name: str, axis: int, start: int, block: np.ndarray
                ) -> Iterator[tuple[str, tuple[bytes, ...]]]:
    """Yield what the files of whole chunks hold, by their names in the array's folder, as `write_chunks` writes them.

    name : of the array, in messages.
    """
    unit = array.chunks[axis]
    stop = start + block.shape[axis]
    require(start % unit == 0 and (stop % unit == 0 or stop == array.shape[axis]),
            f"{('rows', 'columns')[axis]} {start} to {stop} of {name} do not fill chunks of {unit}",
            why="two tasks that write into one chunk overwrite each other",
            fix=f"give every task a multiple of {unit}")
    beside = [shape[:axis] + shape[axis + 1:] for shape in (block.shape, array.shape)]
    require(beside[0] == beside[1] and stop <= array.shape[axis],
            f"a block of shape {block.shape} for {name} of shape {array.shape}, at {start}",
            why="what it does not fill would be zeros", fix="pass a block of the array's own shape")
    dtype = _stored_dtype(array)
    for key, box in _chunks(array, axis, start, stop):
        box[axis] = slice(box[axis].start - start, box[axis].stop - start)
        chunk = np.ascontiguousarray(block[tuple(box)], dtype)
        if chunk.shape != array.chunks:  # at the end of an axis a chunk is filled up
            chunk = np.pad(chunk, [(0, full - size) for size, full in zip(chunk.shape, array.chunks, strict=True)])
        yield key, pack(chunk)


def _decoded(array: zarr.Array, path: Path, name: str) -> np.ndarray:
    """Return one chunk, whole; raise IntegrityError if it is missing, cut short, or was changed."""
    file = path / name
    try:
        stored = read_once(file)
    except FileNotFoundError:
        raise lost(f"{file} is missing", path,
                   "its values cannot be guessed, and Zarr would read them as zeros") from None
    try:
        values = unpack(stored[:-CRC_BYTES], stored[-CRC_BYTES:],
                        _stored_dtype(array).itemsize * math.prod(array.chunks))
    except ValueError as error:
        raise damaged(file, path, str(error)) from error
    try:
        return np.frombuffer(values, _stored_dtype(array)).reshape(array.chunks)
    except ValueError as error:
        raise damaged(file, path, f"it is no chunk of {array.chunks} {array.dtype} ({error})") from error


def read_rows(path: Path, start: int, stop: int) -> np.ndarray:
    """Return rows [start, stop); raise IntegrityError naming a chunk that is missing, cut short, or was changed."""
    return rows_of(open_array(path), path, start, stop)


def read_chunk(path: Path, number: int) -> np.ndarray:
    """Return a chunk of rows as it is stored, filled up at the end of the array, of one whose rows each lie in one."""
    array = open_array(path)
    start = number * array.chunks[0]
    (name, _), = _chunks(array, 0, start, start + 1)
    return _decoded(array, path, name)


def read_columns(path: Path, start: int, stop: int) -> np.ndarray:
    """Return columns [start, stop) of all rows, as `read_rows` does; chunks without one of them are not read."""
    return _range_of(open_array(path), path, 1, start, stop)


def rows_of(array: zarr.Array, path: Path, start: int, stop: int) -> np.ndarray:
    """Return rows [start, stop) of an array that is open, as `read_rows` does."""
    return _range_of(array, path, 0, start, stop)


def _range_of(array: zarr.Array, path: Path, axis: int, start: int, stop: int) -> np.ndarray:
    shape = list(array.shape)
    shape[axis] = max(stop - start, 0)
    out = np.empty(shape, array.dtype)
    for name, box in _chunks(array, axis, start, stop):
        side_range = box[axis]
        first = max(side_range.start, start)
        last = min(side_range.stop, stop)
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


def is_like(path: Path, shape: tuple[int, ...], dtype: Any, block_rows: int, block_columns: int | None) -> bool:
    """Return whether an array of this shape, dtype and chunks is there."""
    if not (path / DESCRIPTION).is_file():
        return False
    array = open_array(path)
    chunks = (max(block_rows, 1), *((block_columns,) if block_columns else array.chunks[1:]))
    return array.shape == tuple(shape) and array.dtype == np.dtype(dtype) and array.chunks[:len(chunks)] == chunks


def remove_array(path: Path) -> None:
    """Delete an array, its description last: what has none may hold no chunk of another shape."""
    for file, _ in list(files_in(path)):
        if file.name != DESCRIPTION:
            file.unlink(missing_ok=True)
    remove_tree(path)
    forget_arrays(path)
