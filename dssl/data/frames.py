"""Tables of every library as pandas tables, with the names of their columns.

polars, PyArrow, Modin, cuDF, DuckDB and the others that Narwhals knows; and every object that hands its columns over as
Arrow (`__arrow_c_stream__`) or by the interchange protocol (`__dataframe__`). pandas tables pass as they are, and so do
dask collections, whose partitions stay where they are. A column of lists of numbers becomes a column an element.
"""

from collections.abc import Sequence
from typing import Any

import dask
import narwhals as nw
import pandas as pd

from .lists import with_elements


def as_pandas(table: Any) -> Any:
    """Return a DataFrame or Series of any library as one of pandas; what is neither is returned as it is.

    Lazy tables are computed, and lie in this process whole. Elements of lists are columns `name[0]`, `name[1]`, ...

    Raises DataError: lists of one column differ in length.
    """
    frame = _as_pandas(table)
    return with_elements(frame) if isinstance(frame, pd.DataFrame) else frame


def index_labels(table: Any, rows: Sequence[int]) -> list[str]:
    """Return what the index of a pandas table calls some rows; nothing where it counts them, and of other tables."""
    if not isinstance(table, pd.DataFrame) or isinstance(table.index, pd.RangeIndex):
        return []
    return [f"index {label!r}" for label in table.index[list(rows)].tolist()]


def _as_pandas(table: Any) -> Any:
    if dask.is_dask_collection(table) or isinstance(table, (pd.DataFrame, pd.Series)):
        return table
    frame = nw.from_native(table, pass_through=True, allow_series=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, (nw.DataFrame, nw.Series)):
        return frame.to_pandas()
    if hasattr(table, "__arrow_c_stream__"):
        import pyarrow  # a fifth of a second, which other tables do without

        return pyarrow.table(table).to_pandas()
    if hasattr(table, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(table).to_pandas()
    return table
