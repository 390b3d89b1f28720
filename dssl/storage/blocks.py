"""Rows and parts: how a task reads its block and where it writes its result.

`Rows` is a tall array that is read by ranges, `Arrays` are a few named arrays that are read whole, and `Parts` is where
the tasks of one stage write. Each has a form in memory here and a stored form in `store`; tasks work with either.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from ..base.digest import JsonObject, require_random_state
from ..base.errors import BudgetError, require

if TYPE_CHECKING:  # scipy, which a scheduler does without
    from ..base.types import Matrix

STEP_BYTES = 4 << 20  # overhead of any step, such as receipts and descriptions; 30 empty tasks took 0.6 MB
STREAM_ROWS = 1 << 16  # rows per chunk of an array that is written from its first row to its last
STREAM_BYTES = STREAM_ROWS * 8  # at most, of such a chunk
Receipt = JsonObject  # what a task reports about the part that it wrote


def row_ranges(n_rows: int, block_rows: int) -> list[tuple[int, int]]:
    """Return the consecutive ranges [start, stop) of `block_rows` rows that cover `n_rows`; the last may be short."""
    require(block_rows >= 1, f"block_rows={block_rows}, expected >= 1",
            why="a block holds at least one row", fix="leave block_rows unset; it then follows the memory budget")
    return [(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows)]


def arrays_within(budget: int) -> int:
    """Return the budget minus the overhead of a step: `STEP_BYTES`, but at most an eighth of the budget."""
    return budget - min(STEP_BYTES, budget // 8)


def budget_beside(arrays: int) -> int:
    """Return the smallest budget with room for `arrays` bytes; the inverse of `arrays_within`."""
    return arrays + min(STEP_BYTES, max(0, arrays - 1) // 7)


def rows_that_fit(budget_bytes: int, bytes_per_row: int, n_rows: int, *, fixed_bytes: int = 0, share: int = 1) -> int:
    """Return the largest block height within 1 / `share` of the budget, after the `fixed_bytes` of every block.

    With share = 1, the overhead of a step is subtracted, see `arrays_within`.
    """
    within = arrays_within(budget_bytes)
    share_note = f", of which {within:,} are available for rows"
    row_need = fixed_bytes + bytes_per_row
    min_budget = budget_beside(row_need)
    if share > 1:
        within = budget_bytes // share
        share_note = f", and blocks have 1/{share} of it"
        min_budget = share * row_need
    fit = (within - fixed_bytes) // max(bytes_per_row, 1)
    require(fit >= 1, f"one row needs {row_need:,} bytes, the memory budget is {budget_bytes:,}{share_note}",
            why="a task holds at least one row of its block in memory", error=BudgetError,
            fix=f"raise memory_budget to {min_budget:,} bytes or more, or reduce what each row needs "
                "(columns, landmarks, neighbors)")
    return int(min(fit, max(n_rows, 1)))


def block_rng(random_state: int, *stream: int) -> np.random.Generator:
    """Return the random stream of one block, which is the same wherever the block is computed."""
    require_random_state(random_state)
    return np.random.default_rng([random_state, *stream])


class Rows(ABC):
    """A tall array with one row per point that is read by ranges of rows.

    If `is_sparse`, `read` and `take` return `scipy.sparse.csr_array` with sorted int32 columns, otherwise ndarray.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    is_sparse: bool = False
    held: bool = False  # in memory, so that a task on another machine would carry a copy
    chunk_rows: int = 1  # of a chunk as it is stored, which is read whole

    @property
    def row_bytes(self) -> int:
        """Return the average bytes of one row in memory."""
        return max(1, self.dtype.itemsize * int(np.prod(self.shape[1:])))

    @abstractmethod
    def read(self, start: int, stop: int) -> "Matrix":
        """Return rows [start, stop)."""

    @abstractmethod
    def take(self, ids: np.ndarray) -> "Matrix":
        """Return the rows with these numbers, in this order."""

    def __len__(self) -> int:
        return self.shape[0]

    def read_columns(self, first: int, last: int) -> "Matrix":
        """Return columns [first, last) of all rows; the rows must be dense."""
        return self.read_all()[:, first:last]

    def blocks(self, block_rows: int) -> "Iterator[tuple[int, Matrix]]":
        """Yield (first row number, rows) from the first block to the last."""
        for start, stop in row_ranges(len(self), block_rows):
            yield start, self.read(start, stop)

    def read_all(self) -> "Matrix":
        """Return all rows as one array."""
        return self.read(0, len(self))


class ArrayRows(Rows):
    """Rows of an array in this process."""

    held = True

    def __init__(self, array: np.ndarray):
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.array[start:stop]

    def take(self, ids: np.ndarray) -> np.ndarray:
        return self.array[ids]


class Arrays(ABC):
    """Named arrays that a task reads whole."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Return the total bytes of the arrays without loading them."""

    @abstractmethod
    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays by name; the caller must not write to them."""

    @abstractmethod
    def keep(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Let this process load what it has just written, `arrays`, without reading it; nobody may write to them."""


class HeldArrays(Arrays):
    """Named arrays in this process."""

    def __init__(self, **arrays: np.ndarray):
        self.arrays = arrays

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def load(self) -> dict[str, np.ndarray]:
        return self.arrays

    def keep(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Do nothing: they are in this process."""


class Parts(ABC):
    """Where the tasks of one stage write: one part per task, and shared arrays that the tasks fill by rows.

    A part is complete when its receipt exists. The receipt is written once, after the arrays, and names the attempt
    that wrote them: if a task runs twice, the first attempt to finish is the part, and nothing is overwritten.
    """

    @abstractmethod
    def allocate(self, name: str, shape: tuple[int, ...], dtype: DTypeLike, block_rows: int,
                 block_columns: int | None = None) -> None:
        """Create a shared array that tasks fill by blocks of rows or columns; an existing equal one stays."""

    @abstractmethod
    def write(self, index: int, arrays: Mapping[str, np.ndarray], attempt: str | None = None) -> None:
        """Write the named arrays of one part.

        attempt : names the attempt of a task; its arrays become the part when `finish` names it too. With None, they
        replace the part at once.
        """

    @abstractmethod
    def write_range(self, start: int, arrays: Mapping[str, np.ndarray], axis: int = 0) -> None:
        """Write whole blocks of rows (axis 0) or columns (1) of shared arrays, from number `start` on."""

    @abstractmethod
    def finish(self, index: int, receipt: Receipt, attempt: str | None = None) -> Receipt:
        """Record that the part is complete; return its receipt, which is another attempt's if that was first."""

    @abstractmethod
    def discard(self, index: int, attempt: str) -> None:
        """Delete what a failed attempt has written."""

    @abstractmethod
    def receipts(self, count: int) -> dict[int, Receipt]:
        """Return the receipts of the complete parts among 0 .. count - 1."""

    @abstractmethod
    def receipt_of(self, index: int) -> Receipt | None:
        """Return the receipt of a part, None if it is not complete."""

    @abstractmethod
    def receipt(self, index: int) -> Receipt:
        """Return the receipt of a part that should be complete; raise IntegrityError if it is not."""

    @abstractmethod
    def read(self, index: int, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        """Return the named arrays of one part, or only those in `names`."""

    @abstractmethod
    def write_buckets(self, index: int, order: np.ndarray, starts: np.ndarray, arrays: Mapping[str, np.ndarray],
                      attempt: str | None = None) -> None:
        """Write rows `order[starts[b]:starts[b + 1]]` of the arrays as bucket b of one part (see `shuffle`)."""

    @abstractmethod
    def bucket_rows(self, index: int, bucket: int) -> int:
        """Return the number of rows in a bucket of one part."""

    @abstractmethod
    def read_bucket(self, index: int, bucket: int) -> dict[str, np.ndarray]:
        """Return the rows of a bucket of one part; the caller must not write to them."""

    @abstractmethod
    def within(self, name: str) -> "Parts":
        """Return separate parts inside these, for an intermediate step."""

    @abstractmethod
    def arrays(self, index: int) -> Arrays:
        """Return a handle to the named arrays of one part, which tasks read whole."""

    @abstractmethod
    def rows(self, name: str) -> Rows:
        """Return a shared array, which is read by ranges."""

    @abstractmethod
    def remove(self) -> None:
        """Delete everything that was written here."""


def write_dense(rows: Rows, parts: Parts, name: str, block_rows: int) -> Rows:
    """Write rows block by block as a shared array of parts; return the stored rows."""
    parts.allocate(name, rows.shape, rows.dtype, block_rows)
    for start, block in rows.blocks(block_rows):
        parts.write_range(start, {name: block})
    return parts.rows(name)


class RowStream:
    """A shared array (n, ...) that is written from its first row to its last, in pieces of any size.

    shape : of a row; a number by default.
    """

    def __init__(self, parts: Parts, name: str, n: int, dtype: DTypeLike, shape: tuple[int, ...] = ()):
        self.parts = parts
        self.name = name
        self.n = n
        self.height = max(1, min(n, STREAM_ROWS, STREAM_BYTES // max(1, np.dtype(dtype).itemsize * math.prod(shape))))
        self._pending = [np.empty((0, *shape), dtype)]
        self._written = 0
        parts.allocate(name, (n, *shape), dtype, self.height)

    def add(self, rows: np.ndarray) -> None:
        """Append rows; whole chunks are written at once."""
        self._pending.append(rows)
        held = sum(map(len, self._pending))
        if held >= self.height:
            self._write(held // self.height * self.height)

    def _write(self, count: int) -> None:
        rows = np.concatenate(self._pending, dtype=self._pending[0].dtype)
        if count:
            self.parts.write_range(self._written, {self.name: rows[:count]})
        self._written = self._written + count
        self._pending = [rows[count:].copy()]

    def close(self) -> None:
        """Write the remaining rows; raise ParameterError unless n rows were added in total."""
        self._write(sum(map(len, self._pending)))
        require(self._written == self.n, f"{self._written} of {self.n} rows of {self.name} were added",
                why="the missing rows would be zeros", fix="add exactly as many rows as announced")


@dataclass(frozen=True)
class PartWriter:
    """The one part that a task may write, in one attempt."""

    parts: Parts
    index: int
    attempt: str | None = None

    def write(self, /, **arrays: np.ndarray) -> Receipt:
        """Write this task's own arrays."""
        self.parts.write(self.index, arrays, self.attempt)
        return {}

    def write_rows(self, start: int, /, **arrays: np.ndarray) -> Receipt:
        """Write this task's rows of shared arrays."""
        self.parts.write_range(start, arrays)
        return {"rows": [start, start + len(next(iter(arrays.values())))], "arrays": sorted(arrays)}

    def write_columns(self, start: int, /, **arrays: np.ndarray) -> Receipt:
        """Write this task's columns of shared arrays."""
        self.parts.write_range(start, arrays, axis=1)
        return {"columns": [start, start + next(iter(arrays.values())).shape[1]], "arrays": sorted(arrays)}

    def write_buckets(self, order: np.ndarray, starts: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Receipt:
        """Write this task's buckets (see `Parts.write_buckets`)."""
        self.parts.write_buckets(self.index, order, starts, arrays, self.attempt)
        return {"buckets": len(starts) - 1}


class MemoryParts(Parts):
    """Parts in this process."""

    def __init__(self) -> None:
        self._shared: dict[str, np.ndarray] = {}
        self._parts: dict[int, dict[str, np.ndarray]] = {}
        self._buckets: dict[int, tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]] = {}
        self._receipts: dict[int, Receipt] = {}
        self._within: dict[str, MemoryParts] = {}
        self._lock = Lock()

    def allocate(self, name: str, shape: tuple[int, ...], dtype: DTypeLike, block_rows: int,
                 block_columns: int | None = None) -> None:
        with self._lock:
            held = self._shared.get(name)
            if held is None or held.shape != tuple(shape) or held.dtype != np.dtype(dtype):
                self._shared[name] = np.empty(shape, dtype)

    def write(self, index: int, arrays: Mapping[str, np.ndarray], attempt: str | None = None) -> None:
        with self._lock:
            self._parts[index] = dict(arrays)

    def write_range(self, start: int, arrays: Mapping[str, np.ndarray], axis: int = 0) -> None:
        for name, block in arrays.items():
            self._shared[name].swapaxes(0, axis)[start:start + block.shape[axis]] = block.swapaxes(0, axis)

    def finish(self, index: int, receipt: Receipt, attempt: str | None = None) -> Receipt:
        with self._lock:
            self._receipts[index] = receipt
        return receipt

    def discard(self, index: int, attempt: str) -> None:
        with self._lock:
            self._parts.pop(index, None)
            self._buckets.pop(index, None)

    def receipts(self, count: int) -> dict[int, Receipt]:
        with self._lock:
            return {index: self._receipts[index] for index in range(count) if index in self._receipts}

    def receipt_of(self, index: int) -> Receipt | None:
        with self._lock:
            return self._receipts.get(index)

    def receipt(self, index: int) -> Receipt:
        with self._lock:
            return self._receipts[index]

    def read(self, index: int, names: Collection[str] | None = None) -> dict[str, np.ndarray]:
        part = self._parts[index]
        return part if names is None else {name: part[name] for name in names}

    def write_buckets(self, index: int, order: np.ndarray, starts: np.ndarray, arrays: Mapping[str, np.ndarray],
                      attempt: str | None = None) -> None:
        with self._lock:
            self._buckets[index] = order, starts, dict(arrays)

    def bucket_rows(self, index: int, bucket: int) -> int:
        _, starts, _ = self._buckets[index]
        return int(starts[bucket + 1] - starts[bucket])

    def read_bucket(self, index: int, bucket: int) -> dict[str, np.ndarray]:
        order, starts, arrays = self._buckets[index]
        return {name: array[order[starts[bucket]:starts[bucket + 1]]] for name, array in arrays.items()}

    def within(self, name: str) -> Parts:
        with self._lock:
            return self._within.setdefault(name, MemoryParts())

    def arrays(self, index: int) -> Arrays:
        return HeldArrays(**self._parts[index])

    def rows(self, name: str) -> Rows:
        return ArrayRows(self._shared[name])

    def remove(self) -> None:
        with self._lock:
            for held in (self._shared, self._parts, self._buckets, self._receipts, self._within):
                held.clear()
