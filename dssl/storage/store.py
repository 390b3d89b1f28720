"""Rows and parts that are stored in folders of checksummed arrays (`array_files`)."""

import hashlib
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .array_files import (
    CHUNK_BYTES,
    DESCRIPTION,
    NAMES,
    create_array,
    files_of,
    forget_arrays,
    is_like,
    names_in,
    open_array,
    read_chunk,
    read_columns,
    read_rows,
    read_whole,
    remove_array,
    write_chunks,
)
from .blocks import Arrays, Parts, Receipt, Rows
from .bucket_file import bucket_rows, check_buckets, read_bucket, write_buckets
from .cache import ARRAYS
from .files import (
    MADE_ANEW,
    concurrently,
    json_bytes,
    read_file,
    record_of,
    remove_tree,
    require_name,
    resolved_path,
    write_file,
    write_part_file,
)
from .frames import PACK, array_error, packed_in, read_once, write_part
from .ledger import Ledger
from .objects import ObjectPath
from .views import take_by_chunk, take_by_group
from .write_behind import LARGEST_BEHIND, remove_behind

BUCKETS = "buckets"  # the bucket file of a part
WRITTEN = "written.json"  # names the attempt of a part that no task wrote
WROTE = "wrote"  # the key of a receipt with the SHA-256 of the description files of its task, see `ledger`
MARK = ".seen-by-workers-"
MANIFEST = "dataset.json"  # the manifest of a data set, which is written last

# Memory for reading or writing a chunk, relative to its size: the chunk, and its compressed form, half as large.
# Measured: 1.3 for numbers with two decimals, and 2.0 for normal deviates, which do not compress.
OF_A_CHUNK = 1.5


def decoding_bytes(chunk_bytes: float) -> float:
    """Return the memory that reading rows takes beside the result; chunks are decoded one after the other."""
    return chunk_bytes * OF_A_CHUNK


def whole_bytes(nbytes: float) -> float:
    """Return the memory that reading or writing a part's array takes beside the array."""
    return decoding_bytes(min(nbytes, CHUNK_BYTES))


class StoredRows(Rows):
    """Rows of a Zarr array; pickled as its path, and opened where it is read."""

    def __init__(self, path: str | Path):
        self.path = resolved_path(path) if isinstance(path, str) else path
        array = open_array(self.path)
        self.shape = array.shape
        self.dtype = array.dtype
        self.chunk_rows: int = array.chunks[0]
        self.rows_are_whole = array.chunks[1:] == array.shape[1:]  # each row lies in one chunk

    def read(self, start: int, stop: int) -> np.ndarray:
        return read_rows(self.path, start, min(stop, self.shape[0]))

    def read_columns(self, first: int, last: int) -> np.ndarray:
        return read_columns(self.path, first, last)

    def take(self, ids: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers; each chunk is read at most once."""
        if not self.rows_are_whole:
            return take_by_chunk(self, ids, self.chunk_rows)

        def read(number: int, ids_of_chunk: np.ndarray) -> np.ndarray:
            return read_chunk(self.path, number)[ids_of_chunk - number * self.chunk_rows]

        return take_by_group(self, ids, np.asarray(ids, np.int64) // self.chunk_rows, read)

    def __repr__(self) -> str:
        return f"StoredRows({str(self.path)!r}, shape={self.shape}, dtype={self.dtype})"


class StoredParts(Parts):
    """Parts in a folder: `shared/NAME`, `parts/NUMBER/ATTEMPT/NAME`, and `receipts/NUMBER.json` written last.

    A receipt is created exclusively, so of two attempts of a task the first to finish is the part. For a part that no
    task wrote, `parts/NUMBER/written.json` names the attempt. Files are opened by name and never found by listing a
    folder, because a listing may be out of date. Chunks of shared arrays are whole files, which replace equal ones.

    ledger : the known files of this folder and its siblings. is_new : whether this process created the folder.
    """

    def __init__(self, folder: str | Path, ledger: Ledger | None = None, *, is_new: bool = False):
        self.folder = resolved_path(folder) if isinstance(folder, str) else folder
        self.ledger = ledger or Ledger(self.folder, is_new=is_new)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.folder, self.ledger.root, self.ledger.is_complete)

    def __repr__(self) -> str:
        return f"StoredParts({str(self.folder)!r})"

    def part(self, index: int) -> Path:
        """Return the folder of the attempts of one part."""
        return self.folder / "parts" / f"{index:06d}"

    def allocate(self, name: str, shape: tuple[int, ...], dtype: DTypeLike, block_rows: int,
                 block_columns: int | None = None) -> None:
        path = self.folder / "shared" / name
        is_new = self.ledger.is_new and not self.ledger.knows(path / DESCRIPTION)
        while (text := create_array(path, shape, dtype, block_rows, block_columns, is_new=is_new)) is None:
            if is_like(path, shape, dtype, block_rows, block_columns):
                text = bytes(read_file(path / DESCRIPTION))
                break
            remove_array(path)
        self._wrote(path / DESCRIPTION, text)

    def _wrote(self, path: Path, *pieces: bytes) -> None:
        """Record a file that the manifest will name."""
        self.ledger.wrote(path, hashlib.sha256(b"".join(pieces)).hexdigest())

    def write(self, index: int, arrays: Mapping[str, np.ndarray], attempt: str | None = None) -> None:
        with self._written(index, attempt) as folder:
            for path, pieces in write_part(folder, files_of(arrays)):
                if path.name in (DESCRIPTION, PACK):
                    self._wrote(path, *pieces)

    @contextmanager
    def _written(self, index: int, attempt: str | None) -> Iterator[Path]:
        """Yield the folder of an attempt; with None, a new folder, which then replaces the part."""
        part = self.part(index)
        folder = part / (attempt or uuid.uuid4().hex[:12])
        yield folder
        self.ledger.note_writing(folder)
        if attempt is None:
            before = self.ledger.attempt(part)
            text = json_bytes({"attempt": folder.name})
            write_part_file(part / WRITTEN, text, last=True)
            self._wrote(part / WRITTEN, text)
            self.ledger.note_attempt(part, folder.name)
            if before is not None:
                self.discard(index, before)
            elif not self.ledger.is_new:
                for entry in part.iterdir():
                    if entry.name not in (folder.name, WRITTEN):
                        remove_tree(entry)

    def write_range(self, start: int, arrays: Mapping[str, np.ndarray], axis: int = 0) -> None:
        def write(name: str) -> None:
            write_chunks(self.folder / "shared" / name, axis, start, arrays[name])

        if max(block.nbytes for block in arrays.values()) > LARGEST_BEHIND:
            concurrently(write, arrays, self.folder)
        else:
            for name in arrays:
                write(name)

    def finish(self, index: int, receipt: Receipt, attempt: str | None = None) -> Receipt:
        path = self.receipt_path(index)
        by = attempt or self._written_by(index)
        stored = dict(receipt)
        if by is not None and (attempt is None or self.ledger.has_written(self.part(index) / by)):
            stored["attempt"] = by
        if checksums := self.ledger.checksums_for(self.folder):
            stored[WROTE] = checksums
        text = json_bytes(stored)
        if write_file(path, text, exclusive=True):
            self._wrote(path, text)
            if "attempt" in stored:
                self.ledger.note_attempt(self.part(index), stored["attempt"])
            return receipt
        stands = self.receipt(index)
        if by is not None and by != self.attempt_of(index):
            self.discard(index, by)
        return stands

    def _written_by(self, index: int) -> str | None:
        """Return the attempt of a part that was written without a task, None if there is none."""
        part = self.part(index)
        known = self.ledger.attempt(part)
        return known if known is not None or self.ledger.is_new else _attempt_of(part / WRITTEN, read_file)

    def discard(self, index: int, attempt: str) -> None:
        folder = self.part(index) / attempt
        self.ledger.forget(folder)
        remove_tree(folder)

    def receipt_path(self, index: int) -> Path:
        """Return the path of the receipt of a part."""
        return self.folder / "receipts" / f"{index:06d}.json"

    def receipts(self, count: int) -> dict[int, Receipt]:
        receipts = zip(range(count), concurrently(self.receipt_of, range(count), self.folder), strict=True)
        return {index: receipt for index, receipt in receipts if receipt is not None}

    def receipt_of(self, index: int) -> Receipt | None:
        path = self.receipt_path(index)
        if self.ledger.is_new and not self.ledger.knows(path):
            return None
        try:
            return self._read_receipt(index)
        except FileNotFoundError:
            return None

    def _read_receipt(self, index: int) -> Receipt:
        """Return a receipt as the task reported it, and record its attempt and checksums in the ledger."""
        path = self.receipt_path(index)
        text = bytes((read_once if self.ledger.is_complete else read_file)(path))
        stored = record_of(text, path, {}, fix=MADE_ANEW)
        attempt = stored.pop("attempt", None)
        checksums = stored.pop(WROTE, {})
        for name in (*stored.get("arrays", ()), *checksums):
            require_name(name, path, nested=True)
        self.ledger.learn(path, hashlib.sha256(text).hexdigest(), checksums)
        if attempt is not None and self.ledger.attempt(self.part(index)) is None:
            self.ledger.note_attempt(self.part(index), require_name(attempt, path))
        return stored

    def receipt(self, index: int) -> Receipt:
        try:
            return self._read_receipt(index)
        except FileNotFoundError:
            what = f"{self.receipt_path(index)} is missing"
            raise array_error(what, self.folder, "the part was recorded as complete") from None

    def listed(self) -> list[int]:
        """Return the numbers of the complete parts according to a listing of files."""
        return sorted(int(path.stem) for path in (self.folder / "receipts").glob("*.json"))

    def attempt_folder(self, index: int) -> Path:
        """Return the folder of the attempt that wrote a part."""
        part = self.part(index)
        attempt = self.ledger.attempt(part)
        if attempt is None or not _may_exist(part / attempt):
            attempt = self.attempt_of(index)
            if attempt is None or not _may_exist(part / attempt):
                raise array_error(f"{part} is missing", part, "the part was recorded as complete")
            self.ledger.note_attempt(part, attempt)
        return part / attempt

    def attempt_of(self, index: int) -> str | None:
        """Return the attempt that wrote a part, according to its files."""
        files = [self.part(index) / WRITTEN, self.receipt_path(index)]
        if isinstance(self.folder, ObjectPath):  # most parts have a receipt, so this order saves a request
            files.reverse()
        read = read_once if self.ledger.is_complete else read_file
        return next((attempt for attempt in (_attempt_of(path, read) for path in files) if attempt is not None), None)

    @contextmanager
    def marked(self) -> Iterator[Path]:
        """Yield a new file in the folder, by which another process can check that it sees the same folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        mark = self.folder / f"{MARK}{uuid.uuid4().hex}.json"
        write_file(mark, b"")
        try:
            yield mark
        finally:
            mark.unlink(missing_ok=True)

    def read(self, index: int, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        folder = self.attempt_folder(index)
        folder = packed_in(folder) or folder
        return {name: read_whole(folder / name) for name in (names_in(folder) if names is None else names)}

    def write_buckets(self, index: int, order: np.ndarray, starts: np.ndarray, arrays: Mapping[str, np.ndarray],
                      attempt: str | None = None) -> None:
        with self._written(index, attempt) as folder:
            write_buckets(folder / BUCKETS, index, order, starts, arrays)

    def bucket_rows(self, index: int, bucket: int) -> int:
        return bucket_rows(self.attempt_folder(index) / BUCKETS, index, bucket)

    def read_bucket(self, index: int, bucket: int) -> dict[str, np.ndarray]:
        return read_bucket(self.attempt_folder(index) / BUCKETS, index, bucket)

    def check(self, index: int, receipt: Receipt) -> None:
        """Read everything in a part; raise IntegrityError if it is damaged, or not what the receipt says."""
        forget_arrays(self.part(index))
        if self.attempt_of(index) is None and "buckets" not in receipt:  # left by an attempt that did not finish
            return
        folder = self.attempt_folder(index)
        has_buckets = "buckets" in receipt or (folder / BUCKETS).is_file()
        if has_buckets:
            check_buckets(folder / BUCKETS, index)
        if not has_buckets or packed_in(folder) or (folder / NAMES).is_file():
            self.read(index)

    def within(self, name: str) -> "StoredParts":
        return StoredParts(self.folder / "within" / name, self.ledger)

    def arrays(self, index: int) -> "StoredArrays":
        return StoredArrays(self, index)

    def rows(self, name: str) -> StoredRows:
        return StoredRows(self.folder / "shared" / name)

    def remove(self) -> None:
        if isinstance(self.folder, ObjectPath):
            remove = partial(self.folder.remove_below, first="receipts")
            if not self.ledger.is_new:
                remove()
            elif self.ledger.knows_of(self.folder):
                remove_behind(self.folder, remove)  # `Artifact.publish` waits for it
        else:
            self._remove_receipts()
            remove_tree(self.folder)
        forget_arrays(self.folder)
        self.ledger.forget(self.folder)

    def clear(self, name: str) -> None:
        """Delete a subfolder that no reader needs, such as `within`."""
        remove_tree(self.folder / name)
        forget_arrays(self.folder / name)
        self.ledger.forget(self.folder / name)

    def _remove_receipts(self) -> None:
        """Delete all receipts first: if this process is killed now, no receipt may claim that a part is complete."""
        remove_tree(self.folder / "receipts")
        for folder in (self.folder / "within").glob("*"):
            StoredParts(folder, self.ledger)._remove_receipts()


def _unpickled(folder: Path, root: Path, is_complete: bool) -> StoredParts:
    return StoredParts(folder, Ledger(root, is_complete=is_complete))


def _may_exist(folder: Path) -> bool:
    """Return whether a folder exists; always true in a store, which saves a request: reading would raise anyway."""
    return isinstance(folder, ObjectPath) or folder.is_dir()


def _attempt_of(path: Path, read: Callable[[Path], memoryview]) -> str | None:
    """Return the attempt that a receipt or `written.json` names; None if it names none or does not exist."""
    try:
        attempt = record_of(bytes(read(path)), path, {}, fix=MADE_ANEW).get("attempt")
    except FileNotFoundError:
        return None
    return None if attempt is None else require_name(attempt, path)


class StoredArrays(Arrays):
    """The arrays of one part, read whole and cached in this process for other tasks."""

    def __init__(self, parts: StoredParts, index: int):
        self.parts = parts
        self.index = index

    @property
    def nbytes(self) -> int:
        folder = self.parts.attempt_folder(self.index)
        folder = packed_in(folder) or folder
        return sum(open_array(folder / name).nbytes for name in names_in(folder))

    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays, which are read once per process if they fit the cache."""
        return ARRAYS.get(self._key, lambda: self.nbytes, lambda: self.parts.read(self.index))

    def keep(self, arrays: Mapping[str, np.ndarray]) -> None:
        nbytes = sum(array.nbytes for array in arrays.values())
        if nbytes <= ARRAYS.limit:
            # In C order, as arrays are read: BLAS rounds differently on arrays in Fortran order. Views, which alone
            # become read-only.
            held = {name: np.asarray(array, order="C").view() for name, array in arrays.items()}
            ARRAYS.get(self._key, lambda: nbytes, lambda: held)

    @property
    def _key(self) -> str:
        return str(self.parts.attempt_folder(self.index))
