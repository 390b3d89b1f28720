"""Rows and parts in folders of checksummed arrays (`array_files`): read by rows, written by parts."""

import hashlib
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .array_files import (
    DESCRIPTION,
    create_array,
    forget_arrays,
    is_like,
    open_array,
    read_chunk,
    read_columns,
    read_rows,
    remove_array,
    write_chunks,
)
from .blocks import Arrays, Parts, Receipt, Rows
from .bucket_file import bucket_rows, check_buckets, read_bucket, write_buckets
from .cache import ARRAYS
from .files import (
    MADE_ANEW,
    at_once,
    json_bytes,
    place_of,
    read_file,
    record_of,
    remove_tree,
    require_name,
    write_file,
    write_part_file,
)
from .frames import lost
from .ledger import Ledger
from .objects import ObjectPath
from .packs import PACK, packed_in, read_once, write_part
from .part_files import CHUNK_BYTES, NAMES, files_of, names_in, read_whole
from .views import take_by_chunk, take_by_group
from .write_behind import LARGEST_BEHIND, remove_behind

BUCKETS = "buckets"  # what a part holds for others
WRITTEN = "written.json"  # names the attempt that a part is of where no task wrote it
WROTE = "wrote"  # what a receipt tells of: the SHA-256 of the descriptions that its task wrote, see `ledger`
MARK = ".seen-by-workers-"
MANIFEST = "dataset.json"  # of a data set; written last

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
        self.shape = array.shape
        self.dtype = array.dtype
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
    wrote is named by `parts/NUMBER/written.json`. Files are opened by their names, and no folder is listed to find
    them: a list may be old. Chunks of shared arrays are whole files that take the place of equal ones.

    ledger : what is known of the files here and around. is_new : whether nobody has written to the folder before.
    """

    def __init__(self, folder: str | Path, ledger: Ledger | None = None, *, is_new: bool = False):
        self.folder = place_of(folder) if isinstance(folder, str) else folder
        self.ledger = ledger or Ledger(self.folder, is_new=is_new)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.folder, self.ledger.root, self.ledger.is_complete)

    def __repr__(self) -> str:
        return f"StoredParts({str(self.folder)!r})"

    def part(self, index: int) -> Path:
        """Return the folder of the attempts of one part."""
        return self.folder / "parts" / f"{index:06d}"

    def allocate(self, name: str, shape: tuple[int, ...], dtype: Any, block_rows: int,
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
        """Note a file that a manifest names."""
        self.ledger.wrote(path, hashlib.sha256(b"".join(pieces)).hexdigest())

    def write(self, index: int, arrays: Mapping[str, np.ndarray], attempt: str | None = None) -> None:
        with self._written(index, attempt) as folder:
            for path, pieces in write_part(folder, files_of(arrays)):
                if path.name in (DESCRIPTION, PACK):
                    self._wrote(path, *pieces)

    @contextmanager
    def _written(self, index: int, attempt: str | None) -> Iterator[Path]:
        """Yield the folder of an attempt; without one, a new folder that then takes the place of what was there."""
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
                for other in part.iterdir():
                    if other.name not in (folder.name, WRITTEN):
                        remove_tree(other)

    def write_range(self, start: int, arrays: Mapping[str, np.ndarray], axis: int = 0) -> None:
        def write(name: str) -> None:
            write_chunks(self.folder / "shared" / name, axis, start, arrays[name])

        if max(block.nbytes for block in arrays.values()) > LARGEST_BEHIND:
            at_once(write, arrays, self.folder)
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
        """Return the attempt by which no task has written a part, None if there is none."""
        part = self.part(index)
        known = self.ledger.attempt(part)
        return known if known is not None or self.ledger.is_new else _attempt_of(part / WRITTEN, read_file)

    def discard(self, index: int, attempt: str) -> None:
        folder = self.part(index) / attempt
        self.ledger.forget(folder)
        remove_tree(folder)

    def receipt_path(self, index: int) -> Path:
        """Return where the receipt of a part lies, or would."""
        return self.folder / "receipts" / f"{index:06d}.json"

    def receipts(self, count: int) -> dict[int, Receipt]:
        receipts = zip(range(count), at_once(self.receipt_of, range(count), self.folder), strict=True)
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
        """Return a receipt as the task reported it, and note what else it tells."""
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
            raise lost(what, self.folder, "the part is said to be finished") from None

    def listed(self) -> list[int]:
        """Return the numbers of the parts that are complete, as far as a list of files shows."""
        return sorted(int(path.stem) for path in (self.folder / "receipts").glob("*.json"))

    def place(self, index: int) -> Path:
        """Return the folder of the arrays of one part: of the attempt that it is of."""
        part = self.part(index)
        attempt = self.ledger.attempt(part)
        if attempt is None or not _may_be_there(part / attempt):
            attempt = self.attempt_of(index)
            if attempt is None or not _may_be_there(part / attempt):
                raise lost(f"{part} is missing", part, "the part is recorded as written, but its arrays are gone")
            self.ledger.note_attempt(part, attempt)
        return part / attempt

    def attempt_of(self, index: int) -> str | None:
        """Return the attempt that a part is of, as the files say that name it."""
        files = [self.part(index) / WRITTEN, self.receipt_path(index)]
        if isinstance(self.folder, ObjectPath):  # most parts have the second, and it is one request less
            files.reverse()
        read = read_once if self.ledger.is_complete else read_file
        return next((attempt for attempt in (_attempt_of(path, read) for path in files) if attempt is not None), None)

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

    def read(self, index: int, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        place = self.place(index)
        place = packed_in(place) or place
        return {name: read_whole(place / name) for name in (names_in(place) if names is None else names)}

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
        forget_arrays(self.part(index))
        if self.attempt_of(index) is None and "buckets" not in receipt:  # what an attempt left that did not finish
            return
        place = self.place(index)
        has_buckets = "buckets" in receipt or (place / BUCKETS).is_file()
        if has_buckets:
            check_buckets(place / BUCKETS, index)
        if not has_buckets or packed_in(place) or (place / NAMES).is_file():
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
                remove_behind(self.folder, remove)  # who publishes waits for it
        else:
            self._remove_receipts()
            remove_tree(self.folder)
        forget_arrays(self.folder)
        self.ledger.forget(self.folder)

    def clear(self, name: str) -> None:
        """Delete one of the folders here, such as `within`, which no reader needs."""
        remove_tree(self.folder / name)
        forget_arrays(self.folder / name)
        self.ledger.forget(self.folder / name)

    def _remove_receipts(self) -> None:
        """Delete the receipts, here and within: if this process is killed now, no part is said to be there that is not.
        """
        remove_tree(self.folder / "receipts")
        for folder in (self.folder / "within").glob("*"):
            StoredParts(folder, self.ledger)._remove_receipts()


def _unpickled(folder: Path, root: Path, is_complete: bool) -> StoredParts:
    return StoredParts(folder, Ledger(root, is_complete=is_complete))


def _may_be_there(folder: Path) -> bool:
    """Return whether a folder is there; of objects a request is saved, since reading one names what is missing."""
    return isinstance(folder, ObjectPath) or folder.is_dir()


def _attempt_of(path: Path, read: Callable[[Path], memoryview]) -> str | None:
    """Return the attempt that a receipt, or what stands for it, names; None where it names none or is not there."""
    try:
        attempt = record_of(bytes(read(path)), path, {}, fix=MADE_ANEW).get("attempt")
    except FileNotFoundError:
        return None
    return None if attempt is None else require_name(attempt, path)


class StoredArrays(Arrays):
    """The arrays of one part, read whole and kept in this process while other tasks need them."""

    def __init__(self, parts: StoredParts, index: int):
        self.parts = parts
        self.index = index

    @property
    def nbytes(self) -> int:
        place = self.parts.place(self.index)
        place = packed_in(place) or place
        return sum(open_array(place / name).nbytes for name in names_in(place))

    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays; those of an attempt are read once a process, if they fit what that keeps."""
        key = str(self.parts.place(self.index))
        return ARRAYS.get(key, lambda: self.nbytes, lambda: self.parts.read(self.index))
