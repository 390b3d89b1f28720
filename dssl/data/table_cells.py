"""Cells of a table in memory, read as the cells of a file are: numbers, yes and no, missing cells, and text."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np
import pandas as pd

from ..base.errors import explain
from .frames import column_of
from .ingest_params import IngestParams
from .readers.base import CellError
from .readers.cell_text import (
    NumberFormat,
    are_gaps,
    are_missing,
    numbers,
    numbers_among,
    possible_formats,
    side_numbers,
    trimmed_texts,
    truths,
)
from .readers.cells import Reading
from .targets import number_texts


def number_format(read: IngestParams, decimal: str | None) -> NumberFormat:
    """Return how the numbers of a table are written that was read with these parameters and had this decimal mark."""
    (format,) = possible_formats(decimal or ".", read.thousands, read.percent).values()
    return format


def as_read(table: pd.DataFrame, readings: Mapping[str | int, Reading], read: IngestParams,
            decimal: str | None) -> pd.DataFrame:
    """Return the features of a table, with its cells as a file of them would be read.

    readings : of the features, by name, or by number where they have none; a side of sizes is read from its column.
    read, decimal : how the file was read, and its decimal mark.

    Raises CellError: a text is no number where there are numbers, or says neither yes nor no.
    """
    columns, format, missing = {}, number_format(read, decimal), read.missing_texts
    for number, (name, reading) in enumerate(readings.items()):
        source = name if isinstance(name, int) else column_of(name, table.columns)
        cells = table.iloc[:, number] if isinstance(source, int) else table[source]
        if reading.kind == "text":
            codes = read.categories or ()  # those by number count the columns of the file
            is_code = name in codes or any(isinstance(code, int) for code in codes)
            columns[name] = _texts(cells, format if is_code else None, missing)
        elif source == name:
            columns[name] = _numbers(cells, name, reading, format, missing)
        else:
            side = int(str(name)[len(str(source)) + 1:-1])
            count = sum(column_of(str(other), table.columns) == source for other in readings)
            texts = trimmed_texts(cells.astype(object).where(cells.notna(), ""))
            values = side_numbers(texts, side, count, format, reading.unit)
            _require_none(np.isnan(values) & ~are_missing(texts, missing), texts, source, "sizes")
            columns[name] = pd.Series(values, cells.index)
    return pd.DataFrame(columns, index=table.index)


def _texts(cells: pd.Series, codes: NumberFormat | None, missing: Sequence[str]) -> pd.Series:
    """Return cells as text, None where one is missing; codes : how codes are written, None where there are none."""
    if pd.api.types.is_numeric_dtype(cells.dtype) and not pd.api.types.is_bool_dtype(cells.dtype):
        values = cells.to_numpy(np.float64, na_value=np.nan)
        return pd.Series(number_texts(np.where(np.isin(values, numbers_among(missing)), np.nan, values)), cells.index,
                         object)
    values = cells.astype(object).to_numpy(copy=True)
    values[pd.isna(values)] = None
    is_number = np.array([isinstance(cell, (int, float, np.number, Decimal)) and not isinstance(cell, bool)
                          for cell in values], bool)
    if is_number.any():
        values[is_number] = _texts(pd.Series(values[is_number].astype(np.float64)), None, missing)
    is_text = np.array([isinstance(cell, str) for cell in values], bool)
    texts = trimmed_texts(values[is_text])
    texts = texts if codes is None else codes.without_zero_fraction(texts)
    read = np.array(texts.to_pylist(), object)
    read[are_missing(texts, missing)] = None
    values[is_text] = read
    return pd.Series(values, cells.index, object)


def _numbers(cells: pd.Series, name: str | int, reading: Reading, format: NumberFormat,
             missing: Sequence[str]) -> pd.Series:
    """Return cells as numbers, NaN where one is missing; cells without any text as they are, but for these."""
    values = cells.astype(object).to_numpy(copy=True) if not pd.api.types.is_numeric_dtype(cells.dtype) else None
    if values is not None and any(isinstance(cell, (str, Decimal)) for cell in values):
        is_text = np.array([isinstance(cell, str) for cell in values], bool)
        texts = trimmed_texts(values[is_text])
        read = truths(texts, format) if reading.kind == "truth" else numbers(texts, format, reading.unit)
        gone = are_missing(texts, missing) | are_gaps(texts)
        odd = np.zeros(len(values), bool)
        odd[is_text] = np.isnan(read) & ~gone
        _require_none(odd, values, name, "yes and no" if reading.kind == "truth" else "numbers")
        values[is_text] = np.where(gone, np.nan, read)
        cells = pd.Series([np.nan if pd.isna(value) else float(value) for value in values], cells.index, np.float64)
    marks = numbers_among(missing)
    return cells.mask(cells.isin(marks)) if marks else cells


def _require_none(odd: np.ndarray, cells: np.ndarray, name: str | int, what: str) -> None:
    if odd.any():
        row = int(np.argmax(odd))
        raise CellError(explain(f"column {name!r} holds text: {str(cells[row])!r} in row {row} (counted from 0)",
                                why=f"the training data have {what} there",
                                fix="correct the cell, or empty it if it is missing"))
