"""Converts tables of every library to pandas, with the names of their columns, and columns of lists to features.

It accepts polars, PyArrow, Modin, cuDF, DuckDB and others that Narwhals knows, and every object that exports Arrow data
(`__arrow_c_stream__`) or the interchange protocol (`__dataframe__`). pandas tables and Dask collections stay as they
are. In a column of lists, as embeddings are stored, each element is a feature: `name[0]`, `name[1]`, ...
"""

import re
from collections.abc import Collection, Sequence
from typing import Any, TypeGuard

import numpy as np
import pandas as pd

from ..base.errors import DataError, require

EXAMPLES = 5  # rows shown in a message


def element_name(name: object, element: int) -> str:
    """Return the name of the feature that is one element of a column of lists."""
    return f"{name}[{element}]"


def column_of(name: str, columns: Collection[str]) -> str:
    """Return the column of a feature: the one with its name, or the list column of which it is an element."""
    match = re.fullmatch(r"(.*)\[\d+\]", name, re.DOTALL)
    return match[1] if name not in columns and match is not None and match[1] in columns else name


def refuse_ragged(source: str, name: object, lengths: np.ndarray, width: int, first_row: int, way: str) -> None:
    """Raise DataError, naming rows, unless all lists of a column have the same length.

    lengths : ndarray, shape (rows,), of the lists from `first_row` on. way : how to leave the column out.
    """
    ragged = np.flatnonzero(lengths != width)
    require(len(ragged) == 0, f"{source}: the lists of column {name!r} have {width} elements, but "
            + ", ".join(f"{lengths[row]} in row {first_row + row}" for row in ragged[:EXAMPLES].tolist())
            + (f" and in {len(ragged) - EXAMPLES} more rows" if len(ragged) > EXAMPLES else "")
            + ", counted from 0", why="an element of a list is a feature, which every row has", error=DataError,
            fix=f"write lists of equal length, or null for a missing list; or leave the column out: {way}")


def with_elements(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with one column per element of a column of numeric lists, NaN if the list is missing."""
    elements = {j: columns for j in range(frame.shape[1]) if (columns := _elements(frame, j)) is not None}
    if not elements:
        return frame
    return pd.concat([elements.get(j, frame.iloc[:, [j]]) for j in range(frame.shape[1])], axis=1)


def _elements(frame: pd.DataFrame, j: int) -> pd.DataFrame | None:
    """Return the elements of a column of lists as columns; None if its cells are not lists of numbers."""
    name = frame.columns[j]
    cells = frame.iloc[:, j]
    if cells.dtype != object and not isinstance(cells.dtype, pd.ArrowDtype):
        return None
    cells = cells.to_numpy(object)
    is_list = np.array([isinstance(cell, (list, tuple, np.ndarray)) for cell in cells], bool)
    if not is_list.any() or not pd.isna(cells[~is_list]).all():
        return None
    lists = [np.asarray(cell) for cell in cells[is_list]]
    if any(cell.ndim != 1 or (cell.dtype.kind not in "biuf" and not _is_numbers(cell)) for cell in lists):
        return None
    width = len(lists[0])
    lengths = np.full(len(cells), width)
    lengths[is_list] = [len(elements) for elements in lists]
    refuse_ragged("X", name, lengths, width, 0, f"X.drop(columns=[{name!r}])")
    values = np.stack([elements.astype(float) if elements.dtype.kind == "O" else elements for elements in lists])
    if not is_list.all():
        whole = np.full((len(cells), width), np.nan, np.result_type(values, np.float32))
        whole[is_list] = values
        values = whole
    return pd.DataFrame(values, index=frame.index, columns=[element_name(name, k) for k in range(width)])


def _is_numbers(elements: np.ndarray) -> bool:
    """Return whether all elements are numbers, or None for a missing one."""
    return elements.dtype.kind == "O" and all(
        cell is None or isinstance(cell, (int, float, np.number)) for cell in elements)


def as_pandas(table: object) -> Any:
    """Return a DataFrame or Series of any library as one of pandas; anything else is returned unchanged.

    Lazy tables are computed and held in memory. Elements of lists become columns `name[0]`, `name[1]`, ...

    Raises DataError: the lists of one column differ in length.
    """
    frame = _as_pandas(table)
    return with_elements(frame) if isinstance(frame, pd.DataFrame) else frame


def is_dask_collection(data: object) -> TypeGuard[Any]:
    """Return whether data are a dask array or table; dask is imported only where they may be."""
    if not hasattr(data, "__dask_graph__"):
        return False
    import dask

    return bool(dask.is_dask_collection(data))


def index_labels(table: object, rows: Sequence[int]) -> list[str]:
    """Return the index labels of some rows of a pandas table; [] for other tables, or if the index just counts."""
    if not isinstance(table, pd.DataFrame) or isinstance(table.index, pd.RangeIndex):
        return []
    return [f"index {label!r}" for label in table.index[list(rows)].tolist()]


def _as_pandas(table: object) -> Any:
    if isinstance(table, (pd.DataFrame, pd.Series)) or is_dask_collection(table):
        return table
    import narwhals as nw  # takes a tenth of a second, needed for other tables only

    frame = nw.from_native(table, pass_through=True, allow_series=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, (nw.DataFrame, nw.Series)):
        return frame.to_pandas()
    if hasattr(table, "__arrow_c_stream__"):
        import pyarrow  # takes a fifth of a second, needed for such tables only

        return pyarrow.table(table).to_pandas()
    if hasattr(table, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(table).to_pandas()
    return table
