"""The door to Zarr: checksummed arrays on disk, read by rows, written by parts.

Every chunk carries a CRC-32C, so a flipped byte is an error and not a wrong number. Zarr reads a chunk that
is missing as zeros; here every chunk is written, even an empty one, and a chunk that is not there is an error.
A chunk is the unit of writing: two tasks never share one.
"""

import hashlib
import itertools
import shutil
from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from ..errors import DataError, IntegrityError, explain, require
from .blocks import Arrays, Parts, Receipt, Rows, take_by_chunk
from .files import read_json, write_json

NAMES = "arrays.json"  # the names of a part's arrays, so that one that was deleted is missed
MANIFEST = "dataset.json"  # of a data set; written last
CHUNK_BYTES = 16 << 20  # of a part's array
CHUNKS_AT_ONCE = 10  # that Zarr decodes side by side, where a band of rows has several: its async.concurrency
CACHE_BYTES = 1 << 30

# Bytes that reading takes for each of the chunks that are decoded: the chunk, and the chunk as it is stored, half as
# large. Measured: 1.3 of numbers with two decimals, 2.0 of normal deviates, which do not shrink; writing such arrays
# takes 0.6 and 1.9.
OF_A_CHUNK = 1.5


def decoding_bytes(band_bytes: float, chunk_bytes: float) -> float:
    """Return what reading rows takes beside its result: of a band of chunks side by side, those decoded at once."""
    return min(band_bytes, CHUNKS_AT_ONCE * chunk_bytes) * OF_A_CHUNK


def whole_bytes(nbytes: float) -> float:
    """Return what reading or writing a part's array takes beside it: its chunks come one after the other."""
    return min(nbytes, CHUNK_BYTES) * OF_A_CHUNK


def create_array(path: Path, shape: tuple[int, ...], dtype: Any, chunk_rows: int, chunk_columns: int | None = None,
                 attributes: dict[str, Any] | None = None) -> None:
    """Create a Zarr 3 array of numbers or booleans, chunked by rows (and columns), each chunk checksummed.

    Raise DataError if the dtype is not numeric; strings and objects have no form that is safe to read back.
    """
    dtype = np.dtype(dtype)
    require(dtype.kind in "biuf", f"cannot store dtype {dtype}", error=DataError,
            why="only numbers and booleans have one meaning on every machine",
            fix="code categories and text as integers first; class names go into the attributes")
    trailing = tuple(max(size, 1) for size in shape[1:])
    if chunk_columns:
        trailing = (chunk_columns, *trailing[1:])
    zarr.create_array(str(path), shape=shape, dtype=dtype, chunks=(max(chunk_rows, 1), *trailing),
                      compressors=[ZstdCodec(level=1), Crc32cCodec()], attributes=attributes or {},
                      fill_value=0, config={"write_empty_chunks": True}, overwrite=True)


def _open(path: Path, mode: Any = "r") -> zarr.Array:
    try:
        stamp = (path / "zarr.json").stat()
    except FileNotFoundError:
        raise IntegrityError(explain(
            f"{path} is not a Zarr array", why="the array was deleted, or its stage never finished",
            fix="run again: the stage that makes it will see that it is missing")) from None
    return _opened(str(path), mode, stamp.st_mtime_ns, stamp.st_ino)


@lru_cache(maxsize=1024)
def _opened(path: str, mode: Any, *stamp: int) -> zarr.Array:
    """Open an array; its description is read once as long as that file has the same stamp."""
    return zarr.open_array(path, mode=mode).with_config({"write_empty_chunks": True})


def write_chunks(path: Path, axis: int, start: int, block: np.ndarray) -> None:
    """Write whole chunks along one axis (0 rows, 1 columns) from index `start` on.

    Raise ParameterError if the block does not begin and end at chunk boundaries.
    """
    array = _open(path, "r+")
    unit, stop = array.chunks[axis], start + block.shape[axis]
    require(start % unit == 0 and (stop % unit == 0 or stop == array.shape[axis]),
            f"{('rows', 'columns')[axis]} {start} to {stop} of {path.name} do not fill chunks of {unit}",
            why="two tasks that write into one chunk overwrite each other",
            fix=f"give every task a multiple of {unit}")
    # Zarr encodes many chunks at a time; one band of them after the other holds a band's copies and no more.
    band, first = array.chunks[0], start if axis == 0 else 0
    for row in range(0, len(block), band):
        rows = slice(first + row, first + min(row + band, len(block)))
        array[(rows,) if axis == 0 else (rows, slice(start, stop))] = block[row:row + band]


def _chunk_files(array: zarr.Array, path: Path, axis: int, start: int, stop: int) -> list[Path]:
    """Return the files of the chunks that a range of rows (axis 0) or columns (1) touches, all of which are there."""
    numbers = [range(-(-size // unit)) for size, unit in zip(array.shape, array.chunks, strict=True)]
    numbers[axis] = range(start // array.chunks[axis], -(-stop // array.chunks[axis]))
    files = [path / array.metadata.encode_chunk_key(key) for key in itertools.product(*numbers)]
    for file in files:
        if not file.is_file():
            raise _lost(f"{file} is missing", path, "its values cannot be guessed, and Zarr would read them as zeros")
    return files


def read_rows(path: Path, start: int, stop: int) -> np.ndarray:
    """Return rows [start, stop); raise IntegrityError naming a chunk that is missing, cut short, or was changed."""
    return _rows_of(_open(path), path, start, stop)


def _rows_of(array: zarr.Array, path: Path, start: int, stop: int) -> np.ndarray:
    if stop <= start:
        return np.empty((0, *array.shape[1:]), array.dtype)
    chunks, unit = _chunk_files(array, path, 0, start, stop), array.chunks[0]
    try:
        if start // unit == (stop - 1) // unit:
            return np.asarray(array[start:stop])
        # Zarr decodes many chunks at a time: one band of them after the other takes less memory than all at once.
        out, begin = np.empty((stop - start, *array.shape[1:]), array.dtype), start
        while begin < stop:
            end = min(stop, (begin // unit + 1) * unit)
            out[begin - start:end - start] = array[begin:end]
            begin = end
        return out
    except (ValueError, RuntimeError) as error:
        damaged = next((chunk for chunk in chunks if not _readable(array, path, chunk)), chunks[0])
        raise _damaged(damaged, path, str(error)) from error


def check_chunks(path: Path, axis: int, start: int, stop: int) -> None:
    """Decode the chunks of a range of rows (axis 0) or columns (1); raise IntegrityError as `read_rows` does."""
    array = _open(path)
    for chunk in _chunk_files(array, path, axis, start, stop):
        if not _readable(array, path, chunk):
            raise _damaged(chunk, path, "it does not decode")


def _damaged(chunk: Path, path: Path, why: str) -> IntegrityError:
    return _lost(f"{chunk} is damaged", path, f"its bytes do not match their checksum ({why})", "; then check the disk")


def _lost(what: str, path: Path, why: str, then: str = "") -> IntegrityError:
    """Return the error for an array that is not as it was written; the fix names the artifact that it belongs to."""
    marks = ("manifest.json", "begun.json")
    artifact = next((above for above in path.parents if any((above / mark).exists() for mark in marks)), path)
    return IntegrityError(explain(what, why=why, fix=f"delete {artifact} and run again: only that artifact is made anew"
                                                     + then))


def _readable(array: zarr.Array, path: Path, chunk: Path) -> bool:
    """Return whether one chunk decodes, to name the damaged one among several."""
    corner = [int(part) for part in chunk.relative_to(path).parts[1:]]
    try:
        array[tuple(slice(i * size, (i + 1) * size) for i, size in zip(corner, array.chunks, strict=True))]
    except (ValueError, RuntimeError):
        return False
    return True


class StoredRows(Rows):
    """Rows of a Zarr array; pickles as its path, opens where it is read."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        array = _open(self.path)
        self.shape, self.dtype = array.shape, array.dtype
        self.chunk_rows: int = array.chunks[0]

    def read(self, start: int, stop: int) -> np.ndarray:
        return read_rows(self.path, start, min(stop, self.shape[0]))

    def take(self, ids: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers; reads each chunk that holds one of them once."""
        return take_by_chunk(self, ids, self.chunk_rows)

    def __repr__(self) -> str:
        return f"StoredRows({str(self.path)!r}, shape={self.shape}, dtype={self.dtype})"


def checksum(array: np.ndarray) -> str:
    """Return the hex SHA-256 of an array's values, row-major, little-endian."""
    array = np.ascontiguousarray(array)
    return hashlib.sha256(array.astype(array.dtype.newbyteorder("<"), copy=False).data).hexdigest()


class StoredParts(Parts):
    """Parts in a folder: `shared/NAME`, `parts/NUMBER/NAME`, and `receipts/NUMBER.json` written last."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def __repr__(self) -> str:
        return f"StoredParts({str(self.folder)!r})"

    def part(self, index: int) -> Path:
        """Return the folder of one part."""
        return self.folder / "parts" / f"{index:06d}"

    def allocate(self, name: str, shape: tuple[int, ...], dtype: Any, block_rows: int,
                 block_columns: int | None = None) -> None:
        path = self.folder / "shared" / name
        if (path / "zarr.json").exists():
            array = _open(path)
            chunks = (max(block_rows, 1), *((block_columns,) if block_columns else array.chunks[1:]))
            if array.shape == tuple(shape) and array.dtype == np.dtype(dtype) and array.chunks[:len(chunks)] == chunks:
                return
        create_array(path, shape, dtype, block_rows, block_columns)

    def write(self, index: int, arrays: Mapping[str, np.ndarray]) -> None:
        for name, value in arrays.items():
            value = np.asarray(value)
            row_bytes = max(1, value.nbytes // max(len(value), 1)) if value.ndim else value.nbytes
            rows = value.reshape(1) if value.ndim == 0 else value
            path = self.part(index) / name
            # No larger than the array: a chunk is filled up, and held whole, when it is written and read.
            create_array(path, rows.shape, rows.dtype, min(len(rows), max(1, CHUNK_BYTES // row_bytes)), None,
                         {"scalar": value.ndim == 0, "sha256": checksum(rows)})
            if rows.size:
                write_chunks(path, 0, 0, rows)
        write_json(self.part(index) / NAMES, sorted(arrays))

    def write_range(self, start: int, arrays: Mapping[str, np.ndarray], axis: int = 0) -> None:
        for name, block in arrays.items():
            write_chunks(self.folder / "shared" / name, axis, start, block)

    def finish(self, index: int, receipt: Receipt) -> None:
        write_json(self.folder / "receipts" / f"{index:06d}.json", receipt)

    def receipts(self) -> dict[int, Receipt]:
        return {int(path.stem): read_json(path) for path in sorted((self.folder / "receipts").glob("*.json"))}

    def read(self, index: int, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        held = self.names(index)
        return {name: _read_whole(self.part(index) / name) for name in (held if names is None else names)}

    def names(self, index: int) -> list[str]:
        """Return the names of the arrays of one part."""
        folder = self.part(index)
        if not folder.is_dir():
            raise _lost(f"{folder} is missing", folder, "the part is recorded as written, but its arrays are gone")
        return read_json(folder / NAMES)

    def within(self, name: str) -> "StoredParts":
        return StoredParts(self.folder / "within" / name)

    def arrays(self, index: int) -> "StoredArrays":
        return StoredArrays(self, index)

    def rows(self, name: str) -> StoredRows:
        return StoredRows(self.folder / "shared" / name)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _read_whole(path: Path) -> np.ndarray:
    array = _open(path)
    value = _rows_of(array, path, 0, array.shape[0]) if array.size else np.empty(array.shape, array.dtype)
    if checksum(value) != array.attrs["sha256"]:
        raise _lost(f"{path} does not hold what was written", path, "its SHA-256 differs from the one recorded with it")
    return value.reshape(()) if array.attrs["scalar"] else value


class StoredArrays(Arrays):
    """The arrays of one part, read whole and kept in this process while other tasks need them."""

    _cache: ClassVar[OrderedDict[tuple[str, ...], dict[str, np.ndarray]]] = OrderedDict()
    _lock = Lock()

    def __init__(self, parts: StoredParts, index: int):
        self.parts, self.index = parts, index

    def _arrays(self) -> list[zarr.Array]:
        return [_open(self.parts.part(self.index) / name) for name in self.parts.names(self.index)]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays())

    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays; the same content is read once a process, up to `CACHE_BYTES` of it."""
        key = (str(self.parts.part(self.index)), *(str(array.attrs["sha256"]) for array in self._arrays()))
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
            arrays = self.parts.read(self.index)
            for array in arrays.values():
                array.flags.writeable = False
            self._cache[key] = arrays
            while len(self._cache) > 1 and sum(
                    array.nbytes for cached in self._cache.values() for array in cached.values()) > CACHE_BYTES:
                self._cache.popitem(last=False)
            return arrays


def describe_arrays(folder: Path) -> list[dict[str, Any]]:
    """Return path, shape, dtype, chunks, bytes, and bytes on disk of every array in a folder; reads no values."""
    paths = [description.parent for description in sorted(folder.rglob("zarr.json"))]
    return [{"name": str(path.relative_to(folder)), "shape": list(array.shape), "dtype": str(array.dtype),
             "chunks": list(array.chunks), "bytes": int(array.nbytes),
             "bytes_on_disk": sum(file.stat().st_size for file in path.rglob("*") if file.is_file())}
            for path, array in ((path, _open(path)) for path in paths)]
