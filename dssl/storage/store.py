"""The door to Zarr: checksummed arrays on disk, read by rows, written by parts.

Every chunk carries a CRC-32C, so a flipped byte is an error and not a wrong number. Zarr reads a chunk that
is missing as zeros; here every chunk is written, even an empty one, and a chunk that is not there is an error.
A chunk is the unit of writing: two tasks never share one.

Zarr describes the arrays, and any of its readers opens them. Their chunks are coded here, by the codecs `bytes`, `zstd`
and `crc32c`, one after the other in the thread of the task: Zarr passes each through an event loop and two threads,
1 to 2 ms of a core, which is most of what a small array takes.
"""

import errno
import hashlib
import itertools
import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec

from ..errors import DataError, IntegrityError, explain, require
from .blocks import Arrays, Parts, Receipt, Rows, take_by_chunk
from .bucket_file import bucket_rows, check_buckets, read_bucket, write_buckets
from .files import draft_of, outlasting, read_json, write_json
from .frames import CRC_BYTES, ZSTD_LEVEL, damaged, lost, pack, unpack
from .kept import ARRAYS

NAMES = "arrays.json"  # the names of a part's arrays, so that one that was deleted is missed
BUCKETS = "buckets"  # what a part holds for others
WRITTEN = "written.json"  # names the attempt that a part is of where no task wrote it
MANIFEST = "dataset.json"  # of a data set; written last
CHUNK_BYTES = 16 << 20  # of a part's array

# Bytes that reading or writing takes beside the values, of a chunk: the chunk, and the chunk as it is stored, half as
# large. Measured: 1.3 of numbers with two decimals, 2.0 of normal deviates, which do not shrink.
OF_A_CHUNK = 1.5


def decoding_bytes(chunk_bytes: float) -> float:
    """Return what reading rows takes beside its result: chunks are decoded one after the other."""
    return chunk_bytes * OF_A_CHUNK


def whole_bytes(nbytes: float) -> float:
    """Return what reading or writing a part's array takes beside it: its chunks come one after the other."""
    return decoding_bytes(min(nbytes, CHUNK_BYTES))


def create_array(path: Path, shape: tuple[int, ...], dtype: Any, chunk_rows: int, chunk_columns: int | None = None,
                 attributes: dict[str, Any] | None = None) -> zarr.Array:
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
    return zarr.create_array(str(path), shape=shape, dtype=dtype, chunks=(max(chunk_rows, 1), *trailing),
                             compressors=[ZstdCodec(level=ZSTD_LEVEL), Crc32cCodec()], attributes=attributes or {},
                             fill_value=0, overwrite=True)


@outlasting
def _open(path: Path) -> zarr.Array:
    try:
        stamp = (path / "zarr.json").stat()
    except FileNotFoundError:
        raise IntegrityError(explain(
            f"{path} is not a Zarr array", why="the array was deleted, or its stage never finished",
            fix="run again: the stage that makes it will see that it is missing")) from None
    return _opened(str(path), stamp.st_mtime_ns, stamp.st_ino)


@lru_cache(maxsize=1024)
def _opened(path: str, *stamp: int) -> zarr.Array:
    """Open an array; its description is read once as long as that file has the same stamp."""
    return zarr.open_array(path, mode="r", zarr_format=3)


def _chunks(array: zarr.Array, path: Path, axis: int, start: int, stop: int) -> Iterator[tuple[Path, list[slice]]]:
    """Yield the file of each chunk that a range of rows (axis 0) or columns (1) touches, and its box in the array."""
    shape, chunks = array.shape, array.chunks
    numbers = [range(-(-size // unit)) for size, unit in zip(shape, chunks, strict=True)]
    numbers[axis] = range(start // chunks[axis], -(-stop // chunks[axis]) if stop > start else start // chunks[axis])
    for key in itertools.product(*numbers):
        box = [slice(number * unit, min((number + 1) * unit, size))
               for number, unit, size in zip(key, chunks, shape, strict=True)]
        yield path / array.metadata.encode_chunk_key(key), box


def _stored_dtype(array: zarr.Array) -> np.dtype:
    return np.dtype(array.dtype).newbyteorder("<")


def write_chunks(path: Path, axis: int, start: int, block: np.ndarray) -> None:
    """Write whole chunks along one axis (0 rows, 1 columns) from index `start` on.

    Raise ParameterError if the block does not begin and end at chunk boundaries.
    """
    _write_chunks(_open(path), path, axis, start, block)


def _write_chunks(array: zarr.Array, path: Path, axis: int, start: int, block: np.ndarray) -> None:
    unit, stop = array.chunks[axis], start + block.shape[axis]
    require(start % unit == 0 and (stop % unit == 0 or stop == array.shape[axis]),
            f"{('rows', 'columns')[axis]} {start} to {stop} of {path.name} do not fill chunks of {unit}",
            why="two tasks that write into one chunk overwrite each other",
            fix=f"give every task a multiple of {unit}")
    beside = [own[:axis] + own[axis + 1:] for own in (block.shape, array.shape)]
    require(beside[0] == beside[1] and stop <= array.shape[axis],
            f"a block of shape {block.shape} for {path.name} of shape {array.shape}, at {start}",
            why="what it does not fill would be zeros", fix="pass a block of the array's own shape")
    dtype = _stored_dtype(array)
    for file, box in _chunks(array, path, axis, start, stop):
        box[axis] = slice(box[axis].start - start, box[axis].stop - start)
        chunk = np.ascontiguousarray(block[tuple(box)], dtype)
        if chunk.shape != array.chunks:  # at the end of an axis a chunk is filled up
            chunk = np.pad(chunk, [(0, full - size) for size, full in zip(chunk.shape, array.chunks, strict=True)])
        _write_chunk(file, *pack(chunk))


@outlasting
def _write_chunk(file: Path, packed: bytes, checksum_bytes: bytes) -> None:
    with draft_of(file) as draft, open(draft, "wb") as out:
        out.write(packed)
        out.write(checksum_bytes)


def _decoded(array: zarr.Array, path: Path, file: Path) -> np.ndarray:
    """Return one chunk, whole; raise IntegrityError if it is missing, cut short, or was changed."""
    try:
        packed, behind = _read_chunk(file)
    except FileNotFoundError:
        raise lost(f"{file} is missing", path,
                   "its values cannot be guessed, and Zarr would read them as zeros") from None
    try:
        values = unpack(packed, behind)
    except ValueError as error:
        raise damaged(file, path, str(error)) from error
    try:
        return np.frombuffer(values, _stored_dtype(array)).reshape(array.chunks)
    except ValueError as error:
        raise damaged(file, path, f"it is no chunk of {array.chunks} {array.dtype} ({error})") from error


@outlasting
def _read_chunk(file: Path) -> tuple[bytes, bytes]:
    with open(file, "rb") as stored:
        return stored.read(max(os.fstat(stored.fileno()).st_size - CRC_BYTES, 0)), stored.read()


def read_rows(path: Path, start: int, stop: int) -> np.ndarray:
    """Return rows [start, stop); raise IntegrityError naming a chunk that is missing, cut short, or was changed."""
    return _rows_of(_open(path), path, start, stop)


def _rows_of(array: zarr.Array, path: Path, start: int, stop: int) -> np.ndarray:
    out = np.empty((max(stop - start, 0), *array.shape[1:]), array.dtype)
    for file, (rows, *beside) in _chunks(array, path, 0, start, stop):
        first, last = max(rows.start, start), min(rows.stop, stop)
        of_chunk = [slice(first - rows.start, last - rows.start), *(slice(own.stop - own.start) for own in beside)]
        out[(slice(first - start, last - start), *beside)] = _decoded(array, path, file)[tuple(of_chunk)]
    return out


def check_chunks(path: Path, axis: int, start: int, stop: int) -> None:
    """Decode the chunks of a range of rows (axis 0) or columns (1); raise IntegrityError as `read_rows` does."""
    array = _open(path)
    for file, _ in _chunks(array, path, axis, start, stop):
        _decoded(array, path, file)


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
    """Parts in a folder: `shared/NAME`, `parts/NUMBER/ATTEMPT/NAME`, and `receipts/NUMBER.json` written last.

    A receipt is an exclusive link, so of two attempts of a task the first to finish is the part. A part that no task
    wrote is named by `parts/NUMBER/written.json`. Reading a part opens files by their names and lists no folder: a list
    may be old where directories are cached. Chunks of shared arrays are whole files that take the place of equal ones.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self._places: dict[int, Path] = {}  # of parts with a receipt, which stay

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredParts, (self.folder,)

    def __repr__(self) -> str:
        return f"StoredParts({str(self.folder)!r})"

    def part(self, index: int) -> Path:
        """Return the folder of the attempts of one part."""
        return self.folder / "parts" / f"{index:06d}"

    def allocate(self, name: str, shape: tuple[int, ...], dtype: Any, block_rows: int,
                 block_columns: int | None = None) -> None:
        path = self.folder / "shared" / name
        draft = path.with_name(f".{name}.{uuid.uuid4().hex}")
        try:
            while not _is_like(path, shape, dtype, block_rows, block_columns):
                if draft.exists():  # and so another one is in its place
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    create_array(draft, shape, dtype, block_rows, block_columns)
                try:
                    draft.rename(path)
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def write(self, index: int, arrays: Mapping[str, np.ndarray], attempt: str | None = None) -> None:
        with self._written(index, attempt) as folder:
            for name, value in arrays.items():
                value = np.asarray(value)
                row_bytes = max(1, value.nbytes // max(len(value), 1)) if value.ndim else value.nbytes
                rows = value.reshape(1) if value.ndim == 0 else value
                path = folder / name
                # No larger than the array: a chunk is filled up, and held whole, when it is written and read.
                array = create_array(path, rows.shape, rows.dtype, min(len(rows), max(1, CHUNK_BYTES // row_bytes)),
                                     None, {"scalar": value.ndim == 0, "sha256": checksum(rows)})
                _write_chunks(array, path, 0, 0, rows)
            write_json(folder / NAMES, sorted(arrays))

    @contextmanager
    def _written(self, index: int, attempt: str | None) -> Iterator[Path]:
        """Yield the folder of an attempt; without one, a new folder that then takes the place of what was there."""
        folder = self.part(index) / (attempt or uuid.uuid4().hex[:12])
        yield folder
        if attempt is None:
            write_json(self.part(index) / WRITTEN, {"attempt": folder.name})
            self._places.pop(index, None)
            self._remove_attempts(index, folder.name)

    def write_range(self, start: int, arrays: Mapping[str, np.ndarray], axis: int = 0) -> None:
        for name, block in arrays.items():
            write_chunks(self.folder / "shared" / name, axis, start, block)

    def finish(self, index: int, receipt: Receipt, attempt: str | None = None) -> Receipt:
        attempt = attempt or _attempt_of(self.part(index) / WRITTEN)
        wrote = attempt is not None and (self.part(index) / attempt).is_dir()
        if write_json(self._receipt(index), {**receipt, "attempt": attempt} if wrote else receipt, exclusive=True):
            return receipt
        if attempt is not None and attempt != self._attempt(index):
            self.discard(index, attempt)
        return self.receipt(index)

    def discard(self, index: int, attempt: str) -> None:
        shutil.rmtree(self.part(index) / attempt, ignore_errors=True)

    def _receipt(self, index: int) -> Path:
        return self.folder / "receipts" / f"{index:06d}.json"

    def receipts(self) -> dict[int, Receipt]:
        paths = sorted((self.folder / "receipts").glob("*.json"))
        return {int(path.stem): _reported(read_json(path)) for path in paths}

    def receipt(self, index: int) -> Receipt:
        try:
            return _reported(read_json(self._receipt(index)))
        except FileNotFoundError:
            raise lost(f"{self._receipt(index)} is missing", self.folder, "the part is said to be finished") from None

    def place(self, index: int) -> Path:
        """Return the folder of the arrays of one part: of the attempt that it is of."""
        folder = self._places.get(index)
        if folder is None:
            attempt = self._attempt(index)
            if attempt is None or not (self.part(index) / attempt).is_dir():
                raise lost(f"{self.part(index)} is missing", self.part(index),
                           "the part is recorded as written, but its arrays are gone")
            folder = self.part(index) / attempt
            if not (self.part(index) / WRITTEN).exists():
                self._places[index] = folder
        return folder

    def _attempt(self, index: int) -> str | None:
        return _attempt_of(self.part(index) / WRITTEN) or _attempt_of(self._receipt(index))

    def clear_unfinished(self) -> None:
        """Delete the attempts that are of no part, here and within; nobody may write meanwhile."""
        for folder in (self.folder / "parts").glob("*"):
            self._remove_attempts(int(folder.name), self._attempt(int(folder.name)))
        for folder in (self.folder / "within").glob("*"):
            StoredParts(folder).clear_unfinished()

    def _remove_attempts(self, index: int, kept: str | None) -> None:
        for folder in self.part(index).iterdir():
            if folder.name != kept and folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)

    def read(self, index: int, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        place = self.place(index)
        return {name: _read_whole(place / name) for name in (read_json(place / NAMES) if names is None else names)}

    def write_buckets(self, index: int, order: np.ndarray, starts: np.ndarray, arrays: Mapping[str, np.ndarray],
                      attempt: str | None = None) -> None:
        with self._written(index, attempt) as folder:
            write_buckets(folder / BUCKETS, index, order, starts, arrays)

    def bucket_rows(self, index: int, bucket: int) -> int:
        return bucket_rows(self.place(index) / BUCKETS, index, bucket)

    def read_bucket(self, index: int, bucket: int) -> dict[str, np.ndarray]:
        return read_bucket(self.place(index) / BUCKETS, index, bucket)

    def check(self, index: int, receipt: Receipt) -> None:
        """Read all that a part holds; raise IntegrityError if it is not as written, or not what the receipt says."""
        if self._attempt(index) is None and "buckets" not in receipt:  # what an attempt left that did not finish
            return
        place = self.place(index)
        held = [path.name for path in place.glob("*") if not path.name.startswith(".")]  # and no draft
        if "buckets" in receipt or BUCKETS in held:
            check_buckets(place / BUCKETS, index)
        if held != [BUCKETS]:
            self.read(index)

    def within(self, name: str) -> "StoredParts":
        return StoredParts(self.folder / "within" / name)

    def arrays(self, index: int) -> "StoredArrays":
        return StoredArrays(self, index)

    def rows(self, name: str) -> StoredRows:
        return StoredRows(self.folder / "shared" / name)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _reported(stored: Receipt) -> Receipt:
    """Return a receipt as the task reported it, without the attempt."""
    return {name: value for name, value in stored.items() if name != "attempt"}


def _attempt_of(path: Path) -> str | None:
    """Return the attempt that a receipt, or what stands for it, names; None where it names none or is not there."""
    try:
        return read_json(path).get("attempt")
    except FileNotFoundError:
        return None


def _is_like(path: Path, shape: tuple[int, ...], dtype: Any, block_rows: int, block_columns: int | None) -> bool:
    """Return whether an array of this shape, dtype and chunks is there."""
    if not (path / "zarr.json").exists():
        return False
    array = _open(path)
    chunks = (max(block_rows, 1), *((block_columns,) if block_columns else array.chunks[1:]))
    return array.shape == tuple(shape) and array.dtype == np.dtype(dtype) and array.chunks[:len(chunks)] == chunks


def _read_whole(path: Path) -> np.ndarray:
    array = _open(path)
    value = _rows_of(array, path, 0, array.shape[0])
    if checksum(value) != array.attrs["sha256"]:
        raise lost(f"{path} does not hold what was written", path, "its SHA-256 differs from the one recorded with it")
    return value.reshape(()) if array.attrs["scalar"] else value


class StoredArrays(Arrays):
    """The arrays of one part, read whole and kept in this process while other tasks need them."""

    def __init__(self, parts: StoredParts, index: int):
        self.parts, self.index = parts, index

    @property
    def nbytes(self) -> int:
        place = self.parts.place(self.index)
        return sum(_open(place / name).nbytes for name in read_json(place / NAMES))

    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays; those of an attempt are read once a process, if they fit what that keeps."""
        key = str(self.parts.place(self.index))
        return ARRAYS.get(key, lambda: self.nbytes, lambda: self.parts.read(self.index))


def _name_in(folder: Path, path: Path) -> str:
    """Return the path of an array in the folder of its parts, without the attempt that wrote it."""
    steps = list(path.relative_to(folder).parts)
    if "parts" in steps[:-2]:
        del steps[steps.index("parts") + 2]
    return "/".join(steps)


def describe_arrays(folder: Path) -> list[dict[str, Any]]:
    """Return path, shape, dtype, chunks, bytes, and bytes on disk of every array in a folder; reads no values."""
    paths = [description.parent for description in sorted(folder.rglob("zarr.json"))]
    return [{"name": _name_in(folder, path), "shape": list(array.shape), "dtype": str(array.dtype),
             "chunks": list(array.chunks), "bytes": int(array.nbytes),
             "bytes_on_disk": sum(file.stat().st_size for file in path.rglob("*") if file.is_file())}
            for path, array in ((path, _open(path)) for path in paths)]
