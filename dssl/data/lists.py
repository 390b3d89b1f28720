"""Columns of lists, as embeddings are stored: each element is a feature, `name[0]`, `name[1]`, ..."""

import re
from collections.abc import Collection

import numpy as np
import pandas as pd

from ..base.errors import DataError, require

EXAMPLES = 5  # rows shown of many


def element_name(name: object, element: int) -> str:
    """Return the name of the feature that is one element of a column of lists."""
    return f"{name}[{element}]"


def column_of(name: str, columns: Collection[str]) -> str:
    """Return which of some columns a feature is: the one of its name, or the one that it is an element of."""
    match = re.fullmatch(r"(.*)\[\d+\]", name, re.DOTALL)
    return match[1] if name not in columns and match is not None and match[1] in columns else name


def refuse_ragged(source: str, name: object, lengths: np.ndarray, width: int, first_row: int, way: str) -> None:
    """Raise DataError, naming rows, unless all lists of a column have as many elements.

    lengths : ndarray, shape (rows,), of the lists of rows from `first_row` on. way : how the column is left out.
    """
    ragged = np.flatnonzero(lengths != width)
    require(len(ragged) == 0, f"{source}: the lists of column {name!r} have {width} elements, but "
            + ", ".join(f"{lengths[row]} in row {first_row + row}" for row in ragged[:EXAMPLES].tolist())
            + (f" and in {len(ragged) - EXAMPLES} more rows" if len(ragged) > EXAMPLES else "")
            + ", counted from 0", why="an element of a list is a feature, which every row has", error=DataError,
            fix=f"write lists of equal length, null where there is none, or leave the column out: {way}")


def with_elements(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which a column of lists of numbers is a column an element, NaN where a list is missing.

    Raises DataError: lists of a column differ in length.
    """
    elements = {j: columns for j in range(frame.shape[1]) if (columns := _elements(frame, j)) is not None}
    if not elements:
        return frame
    return pd.concat([elements.get(j, frame.iloc[:, [j]]) for j in range(frame.shape[1])], axis=1)


def _elements(frame: pd.DataFrame, j: int) -> pd.DataFrame | None:
    """Return the elements of a column of lists; None where its cells are no lists of numbers."""
    name = frame.columns[j]
    cells = frame.iloc[:, j]
    if cells.dtype != object and not isinstance(cells.dtype, pd.ArrowDtype):
        return None
    cells = cells.to_numpy(object)
    there = np.array([isinstance(cell, (list, tuple, np.ndarray)) for cell in cells], bool)
    if not there.any() or not pd.isna(cells[~there]).all():
        return None
    lists = [np.asarray(cell) for cell in cells[there]]
    if any(one.ndim != 1 or (one.dtype.kind not in "biuf" and not _is_numbers(one)) for one in lists):
        return None
    width = len(lists[0])
    lengths = np.full(len(cells), width)
    lengths[there] = [len(one) for one in lists]
    refuse_ragged("X", name, lengths, width, 0, f"X.drop(columns=[{name!r}])")
    values = np.stack([one.astype(float) if one.dtype.kind == "O" else one for one in lists])
    if not there.all():
        whole = np.full((len(cells), width), np.nan, np.result_type(values, np.float32))
        whole[there] = values
        values = whole
    return pd.DataFrame(values, index=frame.index, columns=[element_name(name, k) for k in range(width)])


def _is_numbers(elements: np.ndarray) -> bool:
    """Return whether elements of any kind are numbers, None where one is missing."""
    return elements.dtype.kind == "O" and all(
        cell is None or isinstance(cell, (int, float, np.number)) for cell in elements)
