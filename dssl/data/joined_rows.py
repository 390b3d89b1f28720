"""The rows of several tall arrays, one after the other, as one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import require
from ..storage.blocks import Rows, as_csr


class JoinedRows(Rows):
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
        return sum(piece.nnz if hasattr(piece, "nnz") else piece.matrix.nnz  # type: ignore[attr-defined]
                   for piece in self.pieces)

    def read(self, start: int, stop: int) -> Any:
        stop = min(stop, len(self))
        if stop <= start:
            return self.pieces[0].read(0, 0)
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        last = int(np.searchsorted(self.starts, stop, side="left"))
        blocks = [self.pieces[i].read(max(start - int(self.starts[i]), 0),
                                      min(stop, int(self.starts[i + 1])) - int(self.starts[i]))
                  for i in range(first, last) if len(self.pieces[i])]
        return blocks[0] if len(blocks) == 1 else self._stack(blocks)

    def take(self, ids: np.ndarray) -> Any:
        """Return the rows with these numbers, in this order; each piece is asked once."""
        ids = np.asarray(ids, np.int64)
        if not len(ids):
            return self.pieces[0].read(0, 0)
        piece_of = np.searchsorted(self.starts, ids, side="right") - 1
        order = np.argsort(piece_of, kind="stable")
        blocks = [self.pieces[int(i)].take(ids[piece_of == i] - int(self.starts[i])) for i in np.unique(piece_of)]
        place = np.empty(len(ids), np.int64)
        place[order] = np.arange(len(ids))
        return (blocks[0] if len(blocks) == 1 else self._stack(blocks))[place]

    def _stack(self, blocks: list[Any]) -> Any:
        return as_csr(sparse.vstack(blocks, format="csr")) if self.is_sparse else np.concatenate(blocks)

    def __repr__(self) -> str:
        return f"JoinedRows({self.pieces!r})"
