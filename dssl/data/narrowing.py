"""Columns that lose their digits when float64 becomes float32: a large offset with a small spread.

Block step: the range of each column of a block that may be one. Combine step: over the blocks. A column is lost if its
values differ, lie within `RESOLVED` spacings of float32 at its largest magnitude, and are not float32 numbers as they
are (whole numbers up to 2^24 are). One that even float64 cannot tell apart is constant, for all anyone knows.

A few rows show that a column is not lost: with a spread of 2 RESOLVED spacings at their own largest magnitude m, the
whole column has RESOLVED spacings at its magnitude M, since spacings double at most up to M = 2 m and beyond it the
spread is more than M / 2. So most columns are looked at in the first rows of a block only.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import DataError, explain
from .columns import column_label

RESOLVED = 4096  # steps that tell the values of a column apart
FIRST_ROWS = 64


def loses_digits(source: Any, dtype: Any) -> bool:
    """Return whether there are values of type `source` that `dtype` rounds, and `dtype` is float32."""
    return np.dtype(dtype) == np.float32 and not np.can_cast(np.dtype(source), np.float32, "safe")


def narrow_columns(values: Any) -> np.ndarray:
    """Return the columns of a block that may be lost, shape (k, 4), float64: number, smallest, largest, exact or not.

    values : ndarray or canonical csr_array, shape (rows, d), finite in float32.
    """
    if sparse.issparse(values):
        full = np.flatnonzero(np.bincount(values.indices, minlength=values.shape[1]) == values.shape[0])
        # A column with a zero spans its magnitude. That is enough from 1e-41 on; entries below are as good as zero.
        return _narrow(values[:, full].toarray(), full) if len(full) else np.empty((0, 4))
    first, chosen = _narrow(values[:FIRST_ROWS], np.arange(values.shape[1])), slice(None)
    numbers = first[:, 0].astype(np.int64)
    return _narrow(values[:, numbers if len(numbers) < values.shape[1] else chosen], numbers)


def _narrow(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    if not len(numbers):
        return np.empty((0, 4))
    smallest, largest = (np.asarray(bound, np.float64) for bound in (values.min(axis=0), values.max(axis=0)))
    near = largest - smallest < 2 * RESOLVED * _spacing(smallest, largest, np.float32)
    kept = values[:, near]
    exact = (kept.astype(np.float32) == kept).all(axis=0)
    return np.column_stack([numbers[near], smallest[near], largest[near], exact])


def _spacing(smallest: np.ndarray, largest: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the distance of neighboring floats at the largest magnitude."""
    return np.spacing(np.maximum(np.abs(smallest), np.abs(largest)).astype(dtype)).astype(np.float64)


def refuse_lost_columns(blocks: Sequence[np.ndarray], names: Sequence[str] | None, source: str, fix: str) -> None:
    """Raise DataError if a column loses its digits; `blocks` are what `narrow_columns` gave for all rows."""
    found = blocks[0]
    for block in blocks[1:]:
        if not len(found):
            return
        _, mine, theirs = np.intersect1d(found[:, 0], block[:, 0], return_indices=True)
        found, other = found[mine], block[theirs]
        found = np.column_stack([found[:, 0], np.minimum(found[:, 1], other[:, 1]),
                                 np.maximum(found[:, 2], other[:, 2]), np.minimum(found[:, 3], other[:, 3])])
    number, smallest, largest, exact = found.T
    spread, spacing = largest - smallest, _spacing(smallest, largest, np.float32)
    told = spread >= RESOLVED * _spacing(smallest, largest, np.float64)
    lost = np.flatnonzero((spread > 0) & told & (spread < RESOLVED * spacing) & (exact == 0))
    if len(lost):
        j = lost[0]
        others = f", and {len(lost) - 1} more columns are alike" if len(lost) > 1 else ""
        raise DataError(explain(
            f"{source}: {column_label(names, int(number[j]))} ranges from {smallest[j]!s} to {largest[j]!s}, "
            f"{max(1, round(spread[j] / spacing[j])):,} steps of float32{others}",
            why="float32 keeps 7 digits, and those that its values share leave few to tell them apart", fix=fix))
