"""Views of rows: selected rows, ranges, columns and joined pieces, also of sparse rows in parts; scattered reads."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..base.errors import require
from .blocks import STREAM_ROWS, ArrayRows, MemoryParts, Parts, Rows, row_ranges
from .csr import CsrRows, as_csr, csr_arrays, csr_of, csr_row_bytes, stack_points

if TYPE_CHECKING:  # scipy, which a scheduler does without
    from ..base.types import Matrix

Later = Callable[[Callable[[], "Matrix"]], Callable[[], "Matrix"]]  # runs a function, and returns one of its result


class SelectedRows(Rows):
    """Selected rows in the order of `ids`; reads no chunk without one of them."""

    def __init__(self, rows: Rows, ids: Rows | ArrayLike):
        self.rows = rows
        self.ids = ids if isinstance(ids, Rows) else ArrayRows(np.asarray(ids))
        self.shape = (len(self.ids), *rows.shape[1:])
        self.dtype = rows.dtype
        self.is_sparse = rows.is_sparse

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def read(self, start: int, stop: int) -> "Matrix":
        return self.rows.take(self.ids.read(start, stop))

    def take(self, ids: np.ndarray) -> "Matrix":
        return self.rows.take(self.ids.take(ids))


class CachedRows(Rows):
    """Stored rows of which those with some numbers are in memory, where `take` finds them.

    concurrently : runs the read, in another thread or when it is first needed (`Execution.concurrently`). Pickled, as
    for a task, they become the stored rows alone.
    """

    def __init__(self, rows: Rows, ids: np.ndarray, concurrently: Later):
        self.rows = rows
        self.shape = rows.shape
        self.dtype = rows.dtype
        self.is_sparse = rows.is_sparse
        self.chunk_rows = rows.chunk_rows
        self._ids = np.unique(ids)
        self._cached = concurrently(partial(rows.take, self._ids))

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def read(self, start: int, stop: int) -> "Matrix":
        return self.rows.read(start, stop)

    def read_columns(self, first: int, last: int) -> np.ndarray:
        return self.rows.read_columns(first, last)

    def take(self, ids: np.ndarray) -> "Matrix":
        ids = np.asarray(ids, np.int64)
        positions = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        if len(self._ids) and np.array_equal(self._ids[positions], ids):
            return self._cached()[positions]
        return self.rows.take(ids)

    def __reduce__(self) -> tuple[Callable[[Rows], Rows], tuple[Rows]]:
        return stored_rows, (self.rows,)


def stored_rows(rows: Rows) -> Rows:
    """Return the rows unchanged; unpickles `CachedRows`."""
    return rows


def cached_rows(rows: Rows, ids: Sequence[np.ndarray], concurrently: Later) -> Rows:
    """Return rows of which those with these numbers are in memory; concurrently : see `CachedRows`."""
    return rows if rows.held else CachedRows(rows, np.concatenate(ids), concurrently)


class RowRange(Rows):
    """The range [first, last) of other rows."""

    def __init__(self, rows: Rows, first: int, last: int):
        self.rows = rows
        self.first = first
        self.held = rows.held
        self.shape = (last - first, *rows.shape[1:])
        self.dtype = rows.dtype
        self.is_sparse = rows.is_sparse

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def read(self, start: int, stop: int) -> "Matrix":
        return self.rows.read(self.first + start, self.first + min(stop, len(self)))

    def take(self, ids: np.ndarray) -> "Matrix":
        return self.rows.take(np.asarray(ids) + self.first)


class ChosenColumns(Rows):
    """Some columns of other rows, in any order; of a slice of dense rows nothing is copied."""

    def __init__(self, rows: Rows, columns: list[int] | slice):
        self.rows = rows
        self.columns = columns
        self.held = rows.held
        self.shape = (len(rows), len(np.arange(rows.shape[1])[columns]))
        self.dtype = rows.dtype
        self.is_sparse = rows.is_sparse

    def read(self, start: int, stop: int) -> "Matrix":
        return self._chosen(self.rows.read(start, stop))

    def take(self, ids: np.ndarray) -> "Matrix":
        return self._chosen(self.rows.take(ids))

    def _chosen(self, block: "Matrix") -> "Matrix":
        return as_csr(block[:, self.columns]) if self.is_sparse else block[:, self.columns]


def counts_below(ids: Rows, edges: np.ndarray) -> np.ndarray:
    """Return how many of the ascending numbers (n,) lie below each of the edges (e,); reads them block by block."""
    counts = np.zeros(len(edges), np.int64)
    for _, block in ids.blocks(STREAM_ROWS):
        counts += np.searchsorted(block, edges)
    return counts


def take_by_group(rows: Rows, ids: np.ndarray, group: np.ndarray, read: Callable[[int, np.ndarray], Any]) -> Any:
    """Return the rows `ids` (m,), in this order, by one read per group; `group` (m,) says where each row lies.

    read : called once with each group and its ids; returns these rows. Beside the result, it holds the rows of one
    group, or all groups if the rows are sparse.
    """
    ids = np.asarray(ids, np.int64)
    order = np.argsort(group, kind="stable")
    groups, starts = np.unique(group[order], return_index=True)
    positions = np.split(order, starts[1:])
    blocks = ((position, read(int(g), ids[position])) for g, position in zip(groups, positions, strict=False))
    if rows.is_sparse:
        return sparse.vstack([block for _, block in blocks] or [rows.read(0, 0)], format="csr")[np.argsort(order)]
    out = np.empty((len(ids), *rows.shape[1:]), rows.dtype)
    for position, block in blocks:
        out[position] = block
    return out


def take_by_chunk(rows: Rows, ids: np.ndarray, height: int) -> Any:
    """Return the rows `ids` (m,), in this order; each chunk of `height` rows is read at most once."""
    def read(chunk: int, ids_of_chunk: np.ndarray) -> Any:
        return rows.read(chunk * height, (chunk + 1) * height)[ids_of_chunk - chunk * height]

    return take_by_group(rows, ids, np.asarray(ids, np.int64) // height, read)


def pieces_of(starts: np.ndarray, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield (piece, from, to) for the rows [start, stop) where piece i holds rows [starts[i], starts[i + 1])."""
    first = np.searchsorted(starts, start, side="right") - 1
    last = np.searchsorted(starts, stop, side="left")
    for piece in range(int(first), int(last)):
        begin = int(starts[piece])
        end = int(starts[piece + 1])
        if end > begin:
            yield piece, max(start - begin, 0), min(stop, end) - begin


class RowsInPieces(Rows):
    """Rows in pieces: piece i holds rows [starts[i], starts[i + 1])."""

    starts: np.ndarray

    @abstractmethod
    def piece(self, index: int) -> Rows:
        """Return one of the pieces, which has at least one row."""

    def read(self, start: int, stop: int) -> "Matrix":
        stop = min(stop, len(self))
        if stop <= start:
            return (sparse.csr_array if self.is_sparse else np.empty)((0, *self.shape[1:]), dtype=self.dtype)
        blocks = [self.piece(i).read(begin, end) for i, begin, end in pieces_of(self.starts, start, stop)]
        return blocks[0] if len(blocks) == 1 else stack_points(*blocks)

    def take(self, ids: np.ndarray) -> "Matrix":
        """Return the rows with these numbers, in this order; each piece is read once."""
        starts = self.starts
        piece_of = np.searchsorted(starts, ids, side="right") - 1
        return take_by_group(self, ids, piece_of,
                             lambda i, ids_of_piece: self.piece(i).take(ids_of_piece - int(starts[i])))


class JoinedRows(RowsInPieces):
    """Dense pieces of equal width and type as one array; raises ParameterError if they do not match."""

    def __init__(self, pieces: Sequence[Rows]):
        self.pieces = list(pieces)
        require(len(self.pieces) > 0, "no rows to join", why="their width is not known", fix="pass at least one")
        first = self.pieces[0]
        for piece in self.pieces:
            require(piece.shape[1:] == first.shape[1:] and piece.dtype == first.dtype and not piece.is_sparse,
                    f"{piece!r} does not match {first!r}", why="the rows of an array have one width and one type",
                    fix="convert one of them")
        self.starts = np.cumsum([0, *(len(piece) for piece in self.pieces)])
        self.shape = (int(self.starts[-1]), *first.shape[1:])
        self.dtype = first.dtype
        self.chunk_rows: int = max(getattr(piece, "chunk_rows", 1) for piece in self.pieces)

    def piece(self, index: int) -> Rows:
        return self.pieces[index]

    def __repr__(self) -> str:
        return f"JoinedRows({self.pieces!r})"


class CsrDescription(TypedDict):
    """What `BlockedCsrRows.of` needs, beside the parts, to open the rows again."""

    shape: list[int]
    dtype: str
    block_rows: int
    nnz: int
    first: int


@dataclass(frozen=True)
class BlockedCsrRows(RowsInPieces):
    """Rows of a sparse matrix in parts: part first + i holds rows [i b, (i + 1) b) as `data`, `indices` and `indptr`.

    `describe` returns the JSON that `of` reads; a task writes a block with `csr_arrays`.
    """

    parts: Parts
    shape: tuple[int, int]
    dtype: np.dtype
    block_rows: int
    nnz: int
    first: int = 0
    is_sparse = True

    @classmethod
    def of(cls, parts: Parts, described: CsrDescription) -> "BlockedCsrRows":
        """Return the rows that `describe` described."""
        n, d = described["shape"]
        return cls(parts, (n, d), np.dtype(described["dtype"]), described["block_rows"], described["nnz"],
                   described["first"])

    def describe(self) -> CsrDescription:
        """Return the JSON from which `of` opens these rows again, given their parts."""
        return {"shape": list(self.shape), "dtype": self.dtype.str, "block_rows": self.block_rows, "nnz": self.nnz,
                "first": self.first}

    @property
    def held(self) -> bool:  # type: ignore[override]
        return isinstance(self.parts, MemoryParts)

    @property
    def row_bytes(self) -> int:
        return csr_row_bytes(self.nnz, len(self), self.dtype)

    @property
    def starts(self) -> np.ndarray:  # type: ignore[override]
        return np.append(np.arange(0, len(self), self.block_rows), len(self))

    def piece(self, index: int) -> Rows:
        arrays = self.parts.read(self.first + index, ("data", "indices", "indptr"))
        return CsrRows(csr_of(arrays, (len(arrays["indptr"]) - 1, self.shape[1])))


def write_sparse(rows: Rows, parts: Parts, block_rows: int) -> BlockedCsrRows:
    """Write sparse rows to `parts`, one part per `block_rows` rows; return the stored rows."""
    entries = 0
    for number, (start, stop) in enumerate(row_ranges(len(rows), block_rows)):
        arrays = csr_arrays(rows.read(start, stop))
        parts.write(number, arrays)
        entries += len(arrays["data"])
    return BlockedCsrRows(parts, (rows.shape[0], rows.shape[1]), rows.dtype, block_rows, entries)
