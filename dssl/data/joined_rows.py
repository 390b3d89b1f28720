"""The rows of several tall arrays, one after the other, as one."""

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import require
from ..storage.blocks import Rows, take_by_group
from ..storage.csr import as_csr, stack_points


class ConsecutiveRows(Rows):
    """Rows in pieces: rows [starts[i], starts[i + 1]) are those of piece i."""

    starts: np.ndarray

    @abstractmethod
    def piece(self, index: int) -> Rows:
        """Return one of the pieces, of one or more rows."""

    def read(self, start: int, stop: int) -> Any:
        stop = min(stop, len(self))
        if stop <= start:
            nothing = np.empty((0, *self.shape[1:]), self.dtype)
            return as_csr(nothing) if self.is_sparse else nothing
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        last = int(np.searchsorted(self.starts, stop, side="left"))
        blocks = [self.piece(i).read(max(start - begin, 0), min(stop, end) - begin) for i, (begin, end) in
                  enumerate(pairwise(self.starts[first:last + 1].tolist()), first) if end > begin]
        return blocks[0] if len(blocks) == 1 else stack_points(*blocks)

    def take(self, ids: np.ndarray) -> Any:
        """Return the rows with these numbers, in this order; each piece is asked once."""
        piece_of = np.searchsorted(self.starts, ids, side="right") - 1
        return take_by_group(self, ids, piece_of, lambda i, mine: self.piece(i).take(mine - int(self.starts[i])))


class JoinedRows(ConsecutiveRows):
    """Rows of equal width and type, all dense or all sparse; pickles as its pieces.

    Raises
    ------
    ParameterError : there is no piece, or two of them differ in width, type or kind.
    """

    def __init__(self, pieces: Sequence[Rows]):
        self.pieces = list(pieces)
        require(len(self.pieces) > 0, "no rows to join", why="their width is not known", fix="pass at least one")
        first = self.pieces[0]
        for piece in self.pieces:
            require(piece.shape[1:] == first.shape[1:] and piece.dtype == first.dtype
                    and piece.is_sparse == first.is_sparse, f"{piece!r} does not go on from {first!r}",
                    why="rows of one array have one width and one type", fix="convert one of them")
        self.starts = np.cumsum([0, *(len(piece) for piece in self.pieces)])
        self.shape, self.dtype = (int(self.starts[-1]), *first.shape[1:]), first.dtype
        self.is_sparse = first.is_sparse
        self.chunk_rows: int = max(getattr(piece, "chunk_rows", 1) for piece in self.pieces)

    @property
    def row_bytes(self) -> int:
        return max(1, -(-sum(piece.row_bytes * len(piece) for piece in self.pieces) // max(len(self), 1)))

    @property
    def nnz(self) -> int:
        """The number of stored entries; of sparse pieces only."""
        return sum(piece.nnz for piece in self.pieces)  # type: ignore[attr-defined]

    def piece(self, index: int) -> Rows:
        return self.pieces[index]

    def __repr__(self) -> str:
        return f"JoinedRows({self.pieces!r})"
