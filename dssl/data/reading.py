"""One block of a file as a task: read, made into columns of X, checked, and written."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from ..storage.blocks import PartWriter, Receipt
from ..storage.csr import as_csr, csr_arrays
from .columns import Columns, Encoded
from .floats import floats, loses_digits, narrow_columns, not_finite, type_of
from .readers.base import Block, Reader
from .targets import code_text


@dataclass(frozen=True)
class Reading:
    """How rows of a file become rows of X.

    sparse : whether X is CSR. columns : what becomes of the file's columns, or None to take them as they are.
    order : which column of the file each is, where there are `columns`.
    """

    dtype: str
    sparse: bool = False
    columns: Columns | None = None
    order: np.ndarray | None = None

    def read(self, reader: Reader, start: int, stop: int) -> tuple[Block, Encoded]:
        """Return rows [start, stop) of a file, and what they are as columns of X, in the precision of the file."""
        if self.columns is None or self.order is None:
            block = reader.read(start, stop)
            return block, Encoded(self._of_kind(block.X))
        block = reader.read(start, stop, frozenset(int(self.order[j]) for j in self.columns.levels))
        made = self.columns.apply(block.X, self.order, start)
        return block, Encoded(self._of_kind(made.X), made.imputed, made.unseen)

    def _of_kind(self, X: Any) -> Any:
        """Return X as CSR, or not, as it is stored."""
        if self.sparse:
            return as_csr(floats(X, None) if isinstance(X, pd.DataFrame) else X)
        return X.toarray() if issparse(X) else X


@dataclass(frozen=True)
class IngestTask:
    """Read one block of rows; write X and split to the shared arrays, and the target to the block's own part.

    Sparse rows of X go into the own part as well, and so do the columns that float32 may not tell apart.
    """

    reader: Reader
    start: int
    stop: int
    reading: Reading
    key: str  # of the whole ingest, so that parts of another are not taken for its own

    def __call__(self, out: PartWriter) -> Receipt:
        block, made = self.reading.read(self.reader, self.start, self.stop)
        X = floats(made.X, self.reading.dtype)
        count, first = not_finite(X)
        receipt: Receipt = {"ingest": self.key, "not_finite": count, "imputed": made.imputed,
                            "unseen": {str(j): [*found] for j, found in made.unseen.items()}}
        if first is not None:
            row, column, value = first
            return receipt | {"first": [self.start + row, column, value]}
        own = csr_arrays(X) if self.reading.sparse else {}
        shared = {"X": X} if not self.reading.sparse else {}
        if block.split is not None:
            shared["split"] = block.split
        if shared:
            receipt |= out.write_rows(self.start, **shared)
        receipt["nnz"] = len(own["data"]) if own else None
        if loses_digits(type_of(made.X), self.reading.dtype):
            narrow = narrow_columns(made.X)
            receipt["narrow"] = len(narrow)
            own |= {"narrow": narrow} if len(narrow) else {}
        if block.y is not None:
            own["y"], names = code_text(block.y)
            receipt |= {"target": "text" if names is not None else str(own["y"].dtype), "names": names or []}
            receipt["infinite"] = [self.start + int(row) for row in np.flatnonzero(np.isinf(own["y"]))[:1]]
        if own:
            out.write(**own)
        return receipt
