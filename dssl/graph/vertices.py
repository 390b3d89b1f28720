"""Equal rows as one vertex of the graph: each distinct row once, with the number of its copies.

Copies of a point are its nearest neighbors, so with k copies a point sees nobody else, and a neighbor graph of such
data falls into components of copies. As one vertex they see the nearest distinct points, and the regularizer of those
functions that are equal on copies stays that of the points (`Laplacian`, `covariance_at_points`).

The block step hashes rows, the combine step sorts the hashes, and the finish step compares rows of equal hashes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from ..errors import DataError, require
from ..execution.cost import Cost, block_count, cost_of
from ..execution.tasks import Execution, Progress
from ..storage.blocks import ArrayRows, Parts, PartWriter, Receipt, Rows, row_ranges, rows_that_fit
from ..storage.store import whole_bytes
from ..storage.views import SelectedRows
from .metric import measurable

BLOCK_BYTES = 64 << 20


@dataclass(frozen=True)
class Vertices:
    """Which rows are copies of which.

    vertex : (n,) int64, the vertex of each row.
    first : (v,) int64, the first row of each vertex, ascending.
    multiplicity : (v,) int64, the rows of each vertex; they sum to n.
    """

    vertex: np.ndarray
    first: np.ndarray
    multiplicity: np.ndarray

    @classmethod
    def distinct(cls, n_rows: int) -> "Vertices":
        """Return n vertices of one row each, whatever the rows are."""
        return cls(np.arange(n_rows), np.arange(n_rows), np.ones(n_rows, np.int64))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def joined(self) -> bool:
        """Return whether any vertex has two rows."""
        return len(self.first) < len(self.vertex)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return the vertices of some rows, each once, in the order in which they are first met."""
        found = self.vertex[rows]
        return found[np.sort(np.unique(found, return_index=True)[1])]

    def rows_of(self, vertices: np.ndarray, preferred: np.ndarray) -> np.ndarray:
        """Return a row of each of some vertices: its first among the `preferred` rows, or else its first of all."""
        row = self.first.copy()
        row[self.vertex[preferred[::-1]]] = preferred[::-1]  # of several the first is written last
        return row[vertices]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes."""
        return {"vertex": self.vertex, "first": self.first, "multiplicity": self.multiplicity}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Vertices":
        """Return the vertices that `to_arrays` gave."""
        return cls(arrays["vertex"], arrays["first"], arrays["multiplicity"])

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the counts; JSON."""
        return {"n": len(self.vertex), "vertices": len(self), "largest_multiplicity": int(self.multiplicity.max()),
                "copied_points": int(self.multiplicity[self.multiplicity > 1].sum())}


def covariance_at_points(A: np.ndarray, multiplicity: np.ndarray) -> np.ndarray:
    """Return `M^-1/2 A M^-1/2`: the covariance of function values at points, from that of vertices.

    A : (s, s), `(R^-p)` on some vertices, in the coordinates in which a vertex of m copies has length sqrt(m).
    multiplicity : (s,), of these vertices; where all are 1 the result is A to the bit.
    """
    scale = 1 / np.sqrt(multiplicity)
    return A * (scale[:, None] * scale[None, :])


@njit(nogil=True, cache=True)
def _mixed(key, value):
    """Return a hash of key and value; a bijection in either (the finalizer of MurmurHash3, A. Appleby)."""
    key ^= value
    key = (key ^ (key >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    key = (key ^ (key >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return key ^ (key >> np.uint64(33))


@njit(nogil=True, cache=True)
def _hash_rows(bits):
    keys = np.zeros(bits.shape[0], np.uint64)
    for row in range(bits.shape[0]):
        for column in range(bits.shape[1]):
            keys[row] = _mixed(keys[row], np.uint64(bits[row, column]) + np.uint64(1))
    return keys


@njit(nogil=True, cache=True)
def _hash_sparse_rows(bits, indices, indptr):
    keys = np.zeros(len(indptr) - 1, np.uint64)
    for row in range(len(keys)):
        for entry in range(indptr[row], indptr[row + 1]):
            if bits[entry] != 0:  # a stored zero equals a missing one
                keys[row] = _mixed(_mixed(keys[row], np.uint64(indices[entry]) + np.uint64(1)),
                                   np.uint64(bits[entry]))
    return keys


def _bits(values: np.ndarray, first: int) -> np.ndarray:
    """Return values as unsigned integers that are equal exactly where the values are."""
    values = measurable(values, "euclidean")
    if values.dtype.kind == "f":
        require(bool(np.isfinite(values).all()), f"rows from row {first} on hold NaN or infinite values",
                why="they equal nothing and have no distance", error=DataError,
                fix="drop these rows, or fill the values before searching")
        values = values + 0.0  # -0.0 becomes 0.0
    return values.view(f"u{values.dtype.itemsize}")


def hash_rows(block: np.ndarray | sparse.csr_array, first: int = 0) -> np.ndarray:
    """Return one hash a row, (b,) uint64, of a block of rows, dense or CSR; equal rows have equal hashes.

    Raises
    ------
    DataError : a value is NaN or infinite; `first` is the number of the block's first row, for the message.
    """
    if isinstance(block, np.ndarray):
        return _hash_rows(_bits(block, first))
    return _hash_sparse_rows(_bits(block.data, first), block.indices, block.indptr)


def rows_differ(left: np.ndarray | sparse.csr_array, right: np.ndarray | sparse.csr_array) -> np.ndarray:
    """Return which rows of two blocks differ, (b,) bool; 0.0 equals -0.0, and a stored zero a missing one."""
    if isinstance(left, np.ndarray):
        return (left != right).any(axis=1)
    return np.diff((left != right).tocsr().indptr) > 0


def require_distinct(distinct: bool, what: str) -> None:
    """Raise DataError of points that are all equal."""
    require(distinct, what, error=DataError, why="nothing tells them apart, and a graph of them has no shape",
            fix="check that the features were read correctly")


@dataclass(frozen=True)
class HashTask:
    """Write the hashes of rows [start, stop)."""

    rows: Rows
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        return out.write_rows(self.start, keys=hash_rows(self.rows.read(self.start, self.stop), self.start))


@dataclass(frozen=True)
class CompareTask:
    """Write which pairs of rows differ, of pairs [start, stop)."""

    rows: Rows
    pairs: Rows  # (m, 2) int64
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        pairs = self.pairs.read(self.start, self.stop)
        return out.write(differ=rows_differ(self.rows.take(pairs[:, 0]), self.rows.take(pairs[:, 1])))


def hashed_rows(n: int, row_bytes: int, budget: int) -> tuple[int, int]:
    """Return the rows of a task's block, and the bytes of one: two rows that are compared, in two forms each."""
    each = 4 * row_bytes + 40
    return min(rows_that_fit(budget, each, n), max(1, BLOCK_BYTES // each)), each


def vertices_cost(n: int, row_bytes: int, budget: int, *, collapse: bool) -> Cost:
    """Return what finding equal rows takes: hashes in blocks; then, in the driver, sorted, 48 bytes a row."""
    if not collapse:
        return cost_of(0, 0, 24 * n, 40 * n, 24 * n)
    height, each = hashed_rows(n, row_bytes, budget)
    return cost_of(block_count(n, height), n * (row_bytes + 8), 32 * n, max(height * each, 48 * n) + whole_bytes(8 * n),
                   max(each, 48 * n))


def find_vertices(rows: Rows, execution: Execution, parts: Parts | None = None,
                  progress: Progress | None = None) -> Vertices:
    """Return the distinct rows of rows (n, d), dense or sparse, with their copies.

    Rows are equal if all their values are; a hash only says which rows to compare. A task holds two blocks of rows in
    two forms each (`vertices_cost`), the caller 48 bytes a row. Rows that are
    copies are read again, once, with those that they equal: a task reads every chunk that holds one of these.

    Parameters
    ----------
    parts : where the hashes go; finished blocks are kept. Scratch of the execution by default.

    Raises
    ------
    DataError : not two-dimensional, no rows, or values that are not finite numbers. BudgetError : not one row fits.
    """
    require(len(rows.shape) == 2 and len(rows) > 0 and rows.dtype.kind in "biuf",
            f"X has shape {rows.shape} and dtype {rows.dtype}, expected (n_points, n_features) of numbers",
            error=DataError, why="points are rows of a two-dimensional array", fix="pass a table of numbers")
    n, parts = len(rows), parts or execution.scratch()
    height, _ = hashed_rows(n, rows.row_bytes, execution.memory_budget)
    parts.allocate("keys", (n,), np.uint64, height)
    execution.map([HashTask(rows, start, stop) for start, stop in row_ranges(n, height)], parts, progress)
    _, first_of_key, key = np.unique(parts.rows("keys").read_all(), return_index=True, return_inverse=True)
    first = first_of_key[key]
    pending = np.flatnonzero(first != np.arange(n))
    while len(pending):
        pairs = execution.share_rows(ArrayRows(np.stack([pending, first[pending]], axis=1)))
        tasks = [CompareTask(rows, pairs, start, stop) for start, stop in row_ranges(len(pending), height)]
        compared = execution.scratch()
        execution.map(tasks, compared)
        differ = np.concatenate([compared.read(index)["differ"] for index in range(len(tasks))])
        # Other rows with the same hash: the first of them stands for those that equal it, and so on.
        pending = pending[differ]
        _, start_of, group = np.unique(first[pending], return_index=True, return_inverse=True)
        first[pending] = pending[start_of][group]
        pending = pending[first[pending] != pending]
    distinct = np.flatnonzero(first == np.arange(n))
    vertex = np.searchsorted(distinct, first)
    return Vertices(vertex, distinct, np.bincount(vertex, minlength=len(distinct)))


def distinct_rows(rows: Rows, vertices: Vertices, execution: Execution) -> Rows:
    """Return the rows of the vertices, (v, d): `rows` as they are where no two are equal."""
    return SelectedRows(rows, execution.share_rows(ArrayRows(vertices.first))) if vertices.joined else rows
