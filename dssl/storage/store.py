"""Rows and parts in folders of checksummed arrays (`array_files`): read by rows, written by parts."""

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import IntegrityError, require
from .array_files import (
    checksum,
    create_array,
    fill_chunks,
    forget_arrays,
    is_like,
    open_array,
    read_chunk,
    read_columns,
    read_rows,
    remove_array,
    rows_of,
    write_chunks,
)
from .blocks import Arrays, Parts, Receipt, Rows, take_by_chunk, take_by_group
from .bucket_file import bucket_rows, check_buckets, read_bucket, write_buckets
from .files import disk_bytes, place_of, read_json, read_record, remove_tree, require_name, write_file, write_json
from .frames import lost
from .kept import ARRAYS
from .objects import ObjectPath

NAMES = "arrays.json"  # the names of a part's arrays, so that one that was deleted is missed
BUCKETS = "buckets"  # what a part holds for others
WRITTEN = "written.json"  # names the attempt that a part is of where no task wrote it
MARK = ".seen-by-workers-"
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


class StoredRows(Rows):
    """Rows of a Zarr array; pickles as its path, opens where it is read."""

    def __init__(self, path: str | Path):
        self.path = place_of(path) if isinstance(path, str) else path
        array = open_array(self.path)
        self.shape, self.dtype = array.shape, array.dtype
        self.chunk_rows: int = array.chunks[0]
        self.rows_are_whole = array.chunks[1:] == array.shape[1:]  # each lies in one chunk

    def read(self, start: int, stop: int) -> np.ndarray:
        return read_rows(self.path, start, min(stop, self.shape[0]))

    def read_columns(self, first: int, last: int) -> np.ndarray:
        return read_columns(self.path, first, last)

    def take(self, ids: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers; reads each chunk that holds one of them once."""
        if not self.rows_are_whole:
            return take_by_chunk(self, ids, self.chunk_rows)
        return take_by_group(self, ids, np.asarray(ids, np.int64) // self.chunk_rows,
                             lambda number, mine: read_chunk(self.path, number)[mine - number * self.chunk_rows])

    def __repr__(self) -> str:
        return f"StoredRows({str(self.path)!r}, shape={self.shape}, dtype={self.dtype})"


class StoredParts(Parts):
    """Parts in a folder: `shared/NAME`, `parts/NUMBER/ATTEMPT/NAME`, and `receipts/NUMBER.json` written last.

    A receipt is an exclusive link, so of two attempts of a task the first to finish is the part. A part that no task
    wrote is named by `parts/NUMBER/written.json`. Reading a part opens files by their names and lists no folder: a list
    may be old where directories are cached. Chunks of shared arrays are whole files that take the place of equal ones.
    """

    def __init__(self, folder: str | Path):
        self.folder = place_of(folder) if isinstance(folder, str) else folder
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
        while not is_like(path, shape, dtype, block_rows, block_columns):
            try:
                create_array(path, shape, dtype, block_rows, block_columns, exclusive=True)
            except FileExistsError:
                if not is_like(path, shape, dtype, block_rows, block_columns):
                    remove_array(path)

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
                fill_chunks(array, path, 0, 0, rows)
            write_json(folder / NAMES, sorted(arrays), durable=False)

    @contextmanager
    def _written(self, index: int, attempt: str | None) -> Iterator[Path]:
        """Yield the folder of an attempt; without one, a new folder that then takes the place of what was there."""
        folder = self.part(index) / (attempt or uuid.uuid4().hex[:12])
        yield folder
        if attempt is None:
            write_json(self.part(index) / WRITTEN, {"attempt": folder.name}, durable=False)
            self._places.pop(index, None)
            self._remove_attempts(index, folder.name)

    def write_range(self, start: int, arrays: Mapping[str, np.ndarray], axis: int = 0) -> None:
        for name, block in arrays.items():
            write_chunks(self.folder / "shared" / name, axis, start, block)

    def finish(self, index: int, receipt: Receipt, attempt: str | None = None) -> Receipt:
        attempt = attempt or _attempt_of(self.part(index) / WRITTEN)
        wrote = attempt is not None and self._wrote(index, attempt)
        stored = {**receipt, "attempt": attempt} if wrote else receipt
        if write_json(self._receipt(index), stored, exclusive=True, durable=False):
            return receipt
        if attempt is not None and attempt != self._attempt(index):
            self.discard(index, attempt)
        return self.receipt(index)

    def _wrote(self, index: int, attempt: str) -> bool:
        """Return whether an attempt wrote a part of its own: arrays, or buckets."""
        return any((self.part(index) / attempt / name).is_file() for name in (NAMES, BUCKETS))

    def discard(self, index: int, attempt: str) -> None:
        remove_tree(self.part(index) / attempt)

    def _receipt(self, index: int) -> Path:
        return self.folder / "receipts" / f"{index:06d}.json"

    def receipts(self) -> dict[int, Receipt]:
        paths = sorted((self.folder / "receipts").glob("*.json"))
        return {int(path.stem): _reported(path) for path in paths}

    def forget_unreadable(self) -> None:
        """Delete the receipts, here and within, of parts whose descriptions cannot be read: they are not finished.

        They are not waited for until they are on the disk, so a power cut may leave them empty. Nobody may write
        meanwhile.
        """
        for path in (self.folder / "receipts").glob("*.json"):
            try:
                attempt = _attempt_of(path)
                _reported(path)
                if attempt is not None:
                    for described in (self.part(int(path.stem)) / attempt).rglob("*.json"):
                        read_json(described)
            except IntegrityError:
                path.unlink()
        for folder in (self.folder / "within").glob("*"):
            StoredParts(folder).forget_unreadable()

    def receipt(self, index: int) -> Receipt:
        try:
            return _reported(self._receipt(index))
        except FileNotFoundError:
            raise lost(f"{self._receipt(index)} is missing", self.folder, "the part is said to be finished") from None

    def place(self, index: int) -> Path:
        """Return the folder of the arrays of one part: of the attempt that it is of."""
        folder = self._places.get(index)
        if folder is None or not _may_be_there(folder):
            written = _attempt_of(self.part(index) / WRITTEN)
            attempt = written or _attempt_of(self._receipt(index))
            if attempt is None or not _may_be_there(self.part(index) / attempt):
                raise lost(f"{self.part(index)} is missing", self.part(index),
                           "the part is recorded as written, but its arrays are gone")
            folder = self.part(index) / attempt
            if written is None:
                self._places[index] = folder
        return folder

    def _attempt(self, index: int) -> str | None:
        return _attempt_of(self.part(index) / WRITTEN) or _attempt_of(self._receipt(index))

    @contextmanager
    def marked(self) -> Iterator[Path]:
        """Yield a file here, of a name that was never used, by which another process can tell whether it sees it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        mark = self.folder / f"{MARK}{uuid.uuid4().hex}.json"
        write_file(mark, b"")
        try:
            yield mark
        finally:
            mark.unlink(missing_ok=True)

    def clear_unfinished(self) -> None:
        """Delete the attempts that are of no part, here and within; nobody may write meanwhile."""
        for mark in self.folder.glob(f"{MARK}*"):  # of a process that was killed
            mark.unlink()
        for folder in (self.folder / "parts").glob("*"):
            self._remove_attempts(int(folder.name), self._attempt(int(folder.name)))
        for folder in (self.folder / "within").glob("*"):
            StoredParts(folder).clear_unfinished()

    def _remove_attempts(self, index: int, kept: str | None) -> None:
        for folder in self.part(index).iterdir():
            if folder.name not in (kept, WRITTEN):
                remove_tree(folder)

    def read(self, index: int, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        place = self.place(index)
        return {name: _read_whole(place / name) for name in (_names_in(place) if names is None else names)}

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
        self._forget()
        remove_tree(self.folder)
        forget_arrays(self.folder)

    def _forget(self) -> None:
        """Delete the receipts, here and within: if this process is killed now, no part is said to be there that is not.
        """
        remove_tree(self.folder / "receipts")
        for folder in (self.folder / "within").glob("*"):
            StoredParts(folder)._forget()


def _may_be_there(folder: Path) -> bool:
    """Return whether a folder is there; of objects a request is saved, and who reads one is told what is missing."""
    return isinstance(folder, ObjectPath) or folder.is_dir()


def _reported(path: Path) -> Receipt:
    """Return a receipt as the task reported it, without the attempt."""
    stored = read_record(path, {}, fix="delete the artifact that holds it and run again")
    for name in stored.get("arrays", ()):
        require_name(name, path, nested=True)
    return {name: value for name, value in stored.items() if name != "attempt"}


def _attempt_of(path: Path) -> str | None:
    """Return the attempt that a receipt, or what stands for it, names; None where it names none or is not there."""
    try:
        attempt = read_record(path, {}, fix="delete the artifact that holds it and run again").get("attempt")
    except FileNotFoundError:
        return None
    return None if attempt is None else require_name(attempt, path)


def _names_in(place: Path) -> list[str]:
    """Return the names of the arrays of a part."""
    path = place / NAMES
    try:
        names = read_json(path)
    except FileNotFoundError:
        raise lost(f"{path} is missing", place, "the part is recorded as written, but its arrays are gone") from None
    require(isinstance(names, list), f"{path} is damaged", why="it holds no list of arrays", error=IntegrityError,
            fix="delete the artifact that holds it and run again")
    return [require_name(name, path, nested=True) for name in names]


def _read_whole(path: Path) -> np.ndarray:
    array = open_array(path)
    value = rows_of(array, path, 0, array.shape[0])
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
        return sum(open_array(place / name).nbytes for name in _names_in(place))

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
             "bytes_on_disk": disk_bytes(path)}
            for path, array in ((path, open_array(path)) for path in paths)]
