"""X as floats: checks for values that are not finite, and for columns that lose their digits in float32.

A column becomes indistinct if it has a large offset and a small spread: its values differ, lie within `RESOLVED`
spacings of float32 at its largest magnitude, and are not exactly representable (whole numbers up to 2^24 are). A column
that even float64 cannot resolve counts as constant. Block step: the range of each candidate column of a block. Combine
step: the range over all blocks.

A few rows are enough to clear a column: if their spread is 2 RESOLVED spacings at their largest magnitude m, the whole
column has RESOLVED spacings at its magnitude M, since the spacing at most doubles up to M = 2 m, and above that the
spread exceeds M / 2. So most columns are checked in the first rows of a block only.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike
from scipy import sparse

from ..base.errors import DataError, column_label, explain, require
from ..base.types import Matrix, is_sparse
from ..storage.blocks import Receipt
from .readers.base import CellError, Reader, RowBlock

RESOLVED = 4096  # the spread, in spacings of float32, at which the values of a column stay distinct
FIRST_ROWS = 64
INFINITE = ("inf", "-inf")


def floats(values: RowBlock, dtype: DTypeLike | None) -> Matrix:
    """Return values as a row-major array or CSR matrix of floats; numbers too large for the type become infinite.

    values : ndarray, sparse matrix, or DataFrame of numbers. dtype : None keeps their type.
    """
    with np.errstate(over="ignore"):
        if sparse.issparse(values):
            return sparse.csr_array(values).astype(dtype or values.dtype)
        if not isinstance(values, pd.DataFrame):
            return np.ascontiguousarray(values, dtype=dtype)
        X = np.empty(values.shape, dtype or type_of(values))
        for j, (_, column) in enumerate(values.items()):
            X[:, j] = column.to_numpy()
        return X


def type_of(values: RowBlock) -> np.dtype:
    """Return the type of an array or matrix, or the common type of the columns of a DataFrame of numbers."""
    return np.result_type(*values.dtypes) if isinstance(values, pd.DataFrame) else values.dtype


def not_finite(X: Matrix) -> tuple[int, tuple[int, int, str] | None]:
    """Return the number of values that are not finite, and (row, column, text) of the first, row by row.

    X : ndarray, or CSR matrix with sorted columns, of which only the stored entries are checked.
    """
    values = X.data if is_sparse(X) else X
    bad = ~np.isfinite(values)
    if not bad.any():
        return 0, None
    index = np.unravel_index(int(np.argmax(bad)), bad.shape)
    row, column = (np.searchsorted(X.indptr, index[0], side="right") - 1, X.indices[index]) if is_sparse(X) else index
    return int(bad.sum()), (int(row), int(column), str(values[index]))


def refuse_not_finite(name: str, count: int, first: tuple[int, int, str], names: Sequence[str] | None, *,
                      row_name: str | None = None, marks: Sequence[str] = ()) -> DataError:
    """Return the error for values that are not finite; a CellError if the first one is missing.

    row_name : the row of the first value in messages. marks : texts that the option `missing` could declare as missing.
    """
    row, column, value = first
    of_all = f", the first of {count:,} values that are not finite" if count > 1 else ""
    if "nan" in value:
        way = "`when_missing: impute` gives missing cells (nan) the mean of their column"
    elif "inf" not in value:
        way = "correct the cell; `dtype: float64` holds numbers up to 1e308, of which distances are finite up to 1e150"
    elif marks:
        way = (f"if it marks a missing cell, `missing: [{', '.join(marks)}]` with `when_missing: impute`; in a spec "
               "these are keys of data.read")
    else:
        way = "if it marks a missing cell, store nan and set `when_missing: impute`"
    return (CellError if "nan" in value else DataError)(explain(
        f"{name}: {column_label(names, column)} is {value} in {row_name or f'row {row} (counted from 0)'}{of_all}",
        why="the distance to such a point is not a number, and one such value spoils whole columns of a result",
        fix=f"leave these rows out; {way}"))


def refuse_bad_values(reader: Reader, name: str, receipts: Sequence[Receipt], names: Sequence[str] | None) -> None:
    """Raise DataError if blocks of a source or their targets have values that are not finite; see `IngestTask`."""
    count = sum(receipt["not_finite"] for receipt in receipts)
    if count:
        row, column, value = next(receipt["first"] for receipt in receipts if receipt["not_finite"])
        texts = dict.fromkeys(text for receipt in receipts for text in receipt.get("texts", ()))
        raise refuse_not_finite(name, count, (row, column, value), names, row_name=reader.places([row])[0],
                                marks=[*texts] if "missing" in reader.options else ())
    infinite = [row for receipt in receipts for row in receipt.get("infinite", [])]
    require(not infinite, f"{name}: the target is infinite in {reader.places(infinite[:1])[0] if infinite else ''}",
            why="no model can fit it", error=DataError,
            fix="drop these rows, or leave the target empty to mark them unlabeled")


def infinite_texts(values: RowBlock) -> list[str]:
    """Return which of inf and -inf occur in a block: an array, matrix, or DataFrame of numbers."""
    numbers = values.data if is_sparse(values) else np.asarray(floats(values, None))
    return [text for text in INFINITE if (numbers == float(text)).any()]


def original_text(values: RowBlock, location: tuple[int, int, str], dtype: DTypeLike) -> str:
    """Return the text of a value that is not finite as `dtype`; a number that is only too large keeps its digits."""
    row, column, text = location
    value = float((values.iloc if isinstance(values, pd.DataFrame) else values)[row, column])
    return f"{value:g} (too large for {np.dtype(dtype)})" if np.isfinite(value) else text


def narrow_columns(values: RowBlock, dtype: DTypeLike) -> np.ndarray | None:
    """Return the columns of a block that may become indistinct, (k, 4) float64: number, smallest, largest, exactness.

    values : ndarray, canonical csr_array or DataFrame of numbers, shape (rows, d), finite in float32.
    Returns None if `dtype` is not float32, or represents their type exactly.
    """
    if np.dtype(dtype) != np.float32 or np.can_cast(type_of(values), np.float32, "safe"):
        return None
    if is_sparse(values):
        full = np.flatnonzero(np.bincount(values.indices, minlength=values.shape[1]) == values.shape[0])
        # A column with a zero has a spread as large as its magnitude, so it stays distinct.
        return _narrow(values[:, full].toarray(), full)
    whole = values.iloc if isinstance(values, pd.DataFrame) else values
    numbers = _narrow(floats(whole[:FIRST_ROWS], None), np.arange(values.shape[1]))[:, 0].astype(np.int64)
    if not len(numbers):
        return np.empty((0, 4))
    return _narrow(floats(whole[:, numbers if len(numbers) < values.shape[1] else slice(None)], None), numbers)


def _narrow(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    smallest, largest = (np.asarray(bound, np.float64) for bound in (values.min(axis=0), values.max(axis=0)))
    near = largest - smallest < 2 * RESOLVED * _spacing(smallest, largest, np.float32)
    chosen = values[:, near]
    exact = (chosen.astype(np.float32) == chosen).all(axis=0)
    return np.column_stack([numbers[near], smallest[near], largest[near], exact])


def _spacing(smallest: np.ndarray, largest: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Return the spacing of floats at the largest magnitude."""
    return np.spacing(np.maximum(np.abs(smallest), np.abs(largest)).astype(dtype)).astype(np.float64)


def refuse_indistinct_columns(blocks: Sequence[np.ndarray], names: Sequence[str] | None, source: str, fix: str) -> None:
    """Raise DataError if a column becomes indistinct; `blocks` are the results of `narrow_columns` for all rows."""
    narrow = blocks[0]
    for block in blocks[1:]:
        if not len(narrow):
            return
        _, left, right = np.intersect1d(narrow[:, 0], block[:, 0], return_indices=True)
        narrow = narrow[left]
        matching = block[right]
        narrow = np.column_stack([narrow[:, 0], np.minimum(narrow[:, 1], matching[:, 1]),
                                 np.maximum(narrow[:, 2], matching[:, 2]), np.minimum(narrow[:, 3], matching[:, 3])])
    number, smallest, largest, exact = narrow.T
    spread = largest - smallest
    spacing = _spacing(smallest, largest, np.float32)
    resolved = spread >= RESOLVED * _spacing(smallest, largest, np.float64)
    indistinct = np.flatnonzero((spread > 0) & resolved & (spread < RESOLVED * spacing) & (exact == 0))
    if len(indistinct):
        j = indistinct[0]
        more = f", and so do {len(indistinct) - 1} more columns" if len(indistinct) > 1 else ""
        raise DataError(explain(
            f"{source}: {column_label(names, int(number[j]))} ranges from {smallest[j]!s} to {largest[j]!s}, "
            f"{max(1, round(spread[j] / spacing[j])):,} steps of float32{more}",
            why="float32 has 7 digits, and the leading digits that all values share leave too few", fix=fix))
