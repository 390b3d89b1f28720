"""Where a function of a kernel has support: values and the largest kernel value, in the same blocks.

`f(x) = sum_j K(x, z_j) c_j + b` is b alone where every K(x, z_j) is as good as zero, whatever the coefficients say.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..execution.tasks import Execution
from ..storage.blocks import Arrays, PartWriter, Receipt, Rows, row_ranges
from ..storage.csr import point_arrays, points_of
from .base import Kernel, diagonal_of
from .gram import block_rows, entries_of, kernel_block


def supported_values(kernel: Kernel, X: Any, Z: Any, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return K(X, Z) @ coef, shape (b, c), and the largest |K(x, z_j)| of each row, (b,), of one block of K."""
    block = kernel_block(kernel, X, Z)
    return block @ coef, np.maximum(block.max(axis=1), -block.min(axis=1))


def largest_diagonal(kernel: Kernel, Z: Any) -> float:
    """Return the largest K(z_j, z_j), or 1 where all are zero."""
    return float(diagonal_of(kernel, Z).max()) or 1.0


@dataclass(frozen=True)
class SupportTask:
    """Write values and support of one range of rows of X."""

    kernel: Kernel
    rows: Rows
    arrays: Arrays  # Z (m, d), dense or sparse, coef (m, c), scale ()
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.arrays.load()
        values, largest = supported_values(self.kernel, self.rows.read(self.start, self.stop), points_of(arrays, "Z"),
                                           arrays["coef"])
        return out.write_rows(self.start, values=values, support=largest / float(arrays["scale"]))


def values_with_support(kernel: Kernel, X: Rows, Z: Any, coef: np.ndarray,
                        execution: Execution) -> tuple[np.ndarray, np.ndarray]:
    """Return K(X, Z) @ coef, shape (n, c), and the support of each row, (n,): its largest |K(x, z_j)| relative to the
    largest K(z_j, z_j). No more than a block of K exists at a time.

    Raises
    ------
    BudgetError : Z and one row do not fit the execution's memory budget.
    """
    height = block_rows(kernel, X, Z.shape[0], execution.memory_budget, kernel_bytes=coef.nbytes,
                        sparse_entries=entries_of(Z))
    held = execution.share(**point_arrays("Z", Z), coef=coef, scale=np.asarray(largest_diagonal(kernel, Z)))
    parts = execution.scratch()
    parts.allocate("values", (len(X), coef.shape[1]), np.float64, height)
    parts.allocate("support", (len(X),), np.float64, height)
    execution.map([SupportTask(kernel, X, held, start, stop) for start, stop in row_ranges(len(X), height)], parts)
    return parts.rows("values").read_all(), parts.rows("support").read_all()
