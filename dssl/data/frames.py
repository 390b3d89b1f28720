"""Converts tables of every library to pandas, with the names of their columns.

It accepts polars, PyArrow, Modin, cuDF, DuckDB and others that Narwhals knows, and every object that exports Arrow data
(`__arrow_c_stream__`) or the interchange protocol (`__dataframe__`). pandas tables and Dask collections stay as they
are. A column with lists of numbers becomes one column per element.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from .lists import with_elements


def as_pandas(table: Any) -> Any:
    """Return a DataFrame or Series of any library as one of pandas; anything else is returned unchanged.

    Lazy tables are computed and held in memory. Elements of lists become columns `name[0]`, `name[1]`, ...

    Raises
    ------
    DataError : the lists of one column differ in length.
    """
    frame = _as_pandas(table)
    return with_elements(frame) if isinstance(frame, pd.DataFrame) else frame


def is_dask_collection(data: Any) -> bool:
    """Return whether data are a dask array or table; dask is imported only where they may be."""
    if not hasattr(data, "__dask_graph__"):
        return False
    import dask

    return bool(dask.is_dask_collection(data))


def index_labels(table: Any, rows: Sequence[int]) -> list[str]:
    """Return the index labels of some rows of a pandas table; [] for other tables, or if the index just counts."""
    if not isinstance(table, pd.DataFrame) or isinstance(table.index, pd.RangeIndex):
        return []
    return [f"index {label!r}" for label in table.index[list(rows)].tolist()]


def _as_pandas(table: Any) -> Any:
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
