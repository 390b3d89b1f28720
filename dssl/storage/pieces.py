"""Rows in consecutive pieces that are read as one array, and sparse rows whose pieces are stored in parts."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np
from scipy import sparse

from ..base.errors import require
from .blocks import MemoryParts, Parts, Rows, row_ranges
from .csr import CsrRows, csr_arrays, csr_of, csr_row_bytes, stack_points
from .views import take_by_group

if TYPE_CHECKING:  # scipy, which a scheduler does without
    from ..base.types import Matrix


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
