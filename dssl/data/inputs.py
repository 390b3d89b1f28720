"""Convert a user's points and labels to rows that every task can read.

scikit-learn checks arrays. DataFrames of any library (`frames`) must have columns of numbers and booleans. SciPy's
matrices become CSR. Memory maps, Zarr and HDF5 are read by ranges, never whole. Partitions of dask arrays and
DataFrames are computed on their workers, and each is written there to its own part. float64 stays, and so does what
whole numbers in memory tell beyond 2^24, as float64; numbers that are kept as objects or text become float64, as
scikit-learn makes them; every other number becomes float32, as in `Dataset`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from ..base.errors import DataError, explain, require
from ..base.types import MatrixLike
from ..execution.tasks import Execution
from ..storage.blocks import ArrayRows, Parts, PartWriter, Receipt, Rows, row_ranges, write_dense
from ..storage.csr import CsrRows
from ..storage.views import ChosenColumns, RowsInPieces, take_by_chunk
from .dataset import Dataset
from .floats import not_finite
from .frames import as_pandas, is_dask_collection
from .refused_cells import refuse_frame

READ_BYTES = 16 << 20  # of rows read at a time from an array without chunks
ENCODE = "make numbers of text (OneHotEncoder, or pandas.get_dummies) and fill missing cells (SimpleImputer) in a " \
         "Pipeline of scikit-learn, so that new points are treated alike"
EXACT = 2**24  # up to which float32 holds every whole number
HINT = "impute them (scikit-learn's SimpleImputer in a Pipeline), or drop these rows"
OPENED_ANYWHERE = ("LocalStore", "FsspecStore", "ObjectStore")  # stores of Zarr that a pickle only names


class Table(Protocol):
    """A table of any library: pandas, polars, PyArrow, DuckDB, Dask, ..."""

    @property
    def columns(self) -> object: ...


class Exporter(Protocol):
    """What exports its data as Arrow does."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


NumbersLike: TypeAlias = ArrayLike | Rows | Table | Exporter
"""One number a point, such as weights, or a row of them, such as soft labels."""

PointsLike: TypeAlias = MatrixLike | NumbersLike | Dataset
"""What `rows_of` reads; memory maps and arrays of Zarr, HDF5 and Dask are array-like."""


def rows_of(X: PointsLike, execution: Execution, estimator: str | None = None) -> Rows:
    """Return the points X (n, d) as rows of float32 or float64, after checking them.

    X : one of the kinds at the head of this file; anything else as scikit-learn converts it.
    execution : runs the checks and the partitions. On a cluster, arrays that only this process can open are copied by
        ranges to storage that every worker can open, and a dask collection never passes through this process.
    estimator : the name that scikit-learn's messages use.

    Raises ValueError: an array that scikit-learn refuses: NaN, infinity, text, complex, not two-dimensional, or empty.
    DataError: the same of the other kinds; the message names the row and the column.
    """
    from sklearn.utils.validation import check_array  # takes two seconds, which stored rows do without

    X = X.X if isinstance(X, Dataset) else as_pandas(X)
    if isinstance(X, Rows):
        return _checked(X, execution)
    if is_dask_collection(X):
        return _rows_of_partitions(X, execution)
    if isinstance(X, pd.DataFrame):
        return ArrayRows(check_array(frame_block(X), estimator=estimator, input_name="X"))
    if _is_sliced(X):
        return _checked(SlicedRows(X), execution)
    hidden = np.ma.is_masked(X)
    require(not hidden, f"X is a masked array, {np.ma.count_masked(X) if hidden else 0} of its values hidden",
            why="what lies below a mask is not data, and a distance needs every value", fix=HINT, error=DataError)
    X = np.asarray(X) if isinstance(X, (list, tuple)) else X  # scikit-learn makes float32 of Python's floats
    wide = isinstance(X, np.ndarray) and (X.dtype.kind in "OU" or (X.dtype.kind == "f" and X.dtype.itemsize >= 8)
                                          or _is_beyond_float32(X))
    array = check_array(X, accept_sparse="csr", dtype=np.float64 if wide else [np.float32, np.float64],
                        estimator=estimator, input_name="X")
    return CsrRows(array) if sparse.issparse(array) else ArrayRows(array)


def header_of(X: object) -> pd.DataFrame | None:
    """Return a frame with the columns that X names, to compare names before any work; None if it names none.

    X : what `as_pandas` returns, or a Dataset.
    """
    if isinstance(X, pd.DataFrame):
        return X
    if is_dask_collection(X) and hasattr(X, "columns") and X.ndim == 2:
        return X._meta
    names = X.feature_names if isinstance(X, Dataset) else None
    return None if names is None else pd.DataFrame(columns=names)


def in_order(X: Any, names: Sequence[object]) -> Any:
    """Return X with its columns in the order of `names` if it has exactly these names; else X as it is.

    X : what `as_pandas` returns, or a Dataset.
    """
    header = header_of(X)
    columns = [] if header is None else list(header.columns)
    if columns == list(names) or len(columns) != len(names) or set(columns) != set(names):
        return X
    if isinstance(X, Dataset):
        order = [columns.index(name) for name in names]
        return replace(X, X=ChosenColumns(X.X, order), attributes={**X.attributes, "feature_names": list(names)})
    return X[list(names)]


def labels_of(y: PointsLike) -> Any:
    """Return labels or weights in this process: dask collections computed, the target of a Dataset with its names.

    A Dataset with an official split is refused: its test labels would be learned.
    """
    if isinstance(y, Dataset):
        require(y.split is None, "the data set has an official split, and labels of test rows among the others",
                why="a model that has seen the test labels cannot be judged by them", error=DataError,
                fix="pass y with the labels of test rows replaced by the marker of unlabeled points")
        return y.named_targets()
    if isinstance(y, Rows):
        return y.read_all()
    if is_dask_collection(y):
        return y.compute()
    return np.asarray(y[:]) if _is_sliced(y) else as_pandas(y)


def float_dtype(dtype: DTypeLike) -> np.dtype:
    """Return the type that values of `dtype` are read as: float64 for float64 and wider, float32 for other numbers."""
    dtype = np.dtype(dtype)
    require(dtype.kind in "biuf", f"X holds values of type {dtype}, expected real numbers", error=DataError,
            why="a distance is a number, and text, objects and complex numbers have none",
            fix="convert X to floats, categories to one column each")
    return np.dtype(np.float64 if dtype.kind == "f" and dtype.itemsize >= 8 else np.float32)


def _is_beyond_float32(X: np.ndarray) -> bool:
    """Return whether some of an array's numbers are whole ones of which float32 does not keep every digit."""
    if X.dtype.kind not in "iu" or np.can_cast(X.dtype, np.float32, "safe") or not X.size:
        return False
    return max(abs(int(X.min())), abs(int(X.max()))) > EXACT


def _refuse_not_finite(receipts: Sequence[Receipt], starts: Iterable[int], names: list[object] | None = None) -> None:
    """Raise DataError if a block, which begins at row `start`, has a value that is not finite: its `bad`."""
    for start, receipt in zip(starts, receipts, strict=False):
        if receipt["bad"]:
            row, column, value = receipt["bad"]
            named = f" ({names[column]!r})" if names else ""
            raise DataError(explain(
                f"X is not finite: row {start + row}, column {column}{named} is {value}, counted from 0",
                why="a distance to such a point is not a number", fix=HINT))


# Tables


def frame_dtype(dtypes: pd.Series) -> np.dtype:
    """Return the one type of the columns of a table."""
    kinds = pd.api.types
    wrong = [f"{name!r} ({dtype})" for name, dtype in dtypes.items()
             if not (kinds.is_numeric_dtype(dtype) or kinds.is_bool_dtype(dtype)) or kinds.is_complex_dtype(dtype)
             or isinstance(dtype, pd.CategoricalDtype)]
    require(not wrong, f"{len(wrong)} of {len(dtypes)} columns hold no numbers: {', '.join(wrong[:5])}"
            f"{', ...' if len(wrong) > 5 else ''}", why="a distance is a number, and these have none", error=DataError,
            fix="drop the column; or make numbers of it: one column a category (pandas.get_dummies, or OneHotEncoder "
                "in a Pipeline), one column an element of a list, days since a date, X[name].astype(float) for numbers "
                "kept as objects or text")
    plain = [dtype if isinstance(dtype, np.dtype) else getattr(dtype, "numpy_dtype", np.dtype(np.float64))
             for dtype in dtypes]
    return float_dtype(np.result_type(*plain)) if plain else np.dtype(np.float32)


def frame_block(frame: pd.DataFrame) -> np.ndarray:
    """Return the columns of a table as one array (n, d); raise DataError naming the columns that lack a number."""
    frame = frame.infer_objects()  # of columns of type object that hold numbers alone
    refuse_frame(frame, ENCODE)
    dtype = frame_dtype(frame.dtypes)
    if dtype == np.float32 and any(pd.api.types.is_integer_dtype(column.dtype) and
                                   _is_beyond_float32(column.dropna().to_numpy()) for _, column in frame.items()):
        dtype = np.dtype(np.float64)
    block = np.ascontiguousarray(frame.to_numpy(dtype=dtype, na_value=np.nan))
    _refuse_not_finite([{"bad": not_finite(block)[1]}], [0], list(frame.columns))
    return block


# Arrays read by ranges


class SlicedRows(Rows):
    """Rows of anything with a shape, a dtype and slices: a memory map, a Zarr array, a HDF5 data set."""

    def __init__(self, array: Any):
        self.array = array
        self.shape = tuple(array.shape)
        self.dtype = float_dtype(array.dtype)
        require(len(self.shape) == 2 and min(self.shape) > 0, f"X has shape {self.shape}", error=DataError,
                why="points are rows and features are columns", fix="pass an array of shape (n, d), neither of them 0")
        self.held = type(getattr(array, "store", None)).__name__ not in OPENED_ANYWHERE
        chunk = (getattr(array, "chunks", None) or (0,))[0]
        self.height = chunk if isinstance(chunk, int) and chunk > 0 else max(1, READ_BYTES // self.row_bytes)

    def read(self, start: int, stop: int) -> np.ndarray:
        return np.ascontiguousarray(np.asarray(self.array[start:min(stop, len(self))]), self.dtype)

    def take(self, ids: np.ndarray) -> np.ndarray:
        """Return the rows with these numbers; each chunk that holds one of them is read once."""
        ids = np.asarray(ids, np.int64)
        if isinstance(self.array, np.ndarray):
            return np.asarray(self.array[ids], self.dtype)
        return take_by_chunk(self, ids, self.height)


def _is_sliced(X: object) -> TypeGuard[Any]:
    """Return whether X is an array that is to be read by ranges."""
    if isinstance(X, np.ndarray):
        return isinstance(X, np.memmap) and X.ndim == 2
    return (isinstance(getattr(X, "dtype", None), np.dtype) and hasattr(X, "__getitem__") and not sparse.issparse(X)
            and isinstance(getattr(X, "shape", None), tuple) and not isinstance(X, (pd.Series, pd.Index, np.generic)))


@dataclass(frozen=True)
class FiniteTask:
    """Look for the first value of one range of rows that is not finite."""

    rows: Rows
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        return {"bad": not_finite(self.rows.read(self.start, self.stop))[1]}


def _checked(rows: Rows, execution: Execution) -> Rows:
    """Return the rows if every value is finite; reads them once, in tasks."""
    require(len(rows.shape) == 2, f"X has shape {rows.shape}, expected (n_points, n_features)", error=DataError,
            why="points are rows and features are columns", fix="pass rows of shape (n, 1) for one feature")
    if rows.dtype.kind != "f":
        return rows
    rows = execution.share_rows(rows)
    height = max(1, min(READ_BYTES, execution.memory_budget // 4) // rows.row_bytes)
    ranges = row_ranges(len(rows), height)
    receipts = execution.map([FiniteTask(rows, *span) for span in ranges], execution.scratch())
    _refuse_not_finite(receipts, [start for start, _ in ranges])
    return rows


# Dask collections


@dataclass(frozen=True, eq=False)
class PieceRows(RowsInPieces):
    """Rows in pieces of any heights, each of which is a shared array; one without rows is not there."""

    parts: Parts
    starts: np.ndarray
    shape: tuple[int, ...]
    dtype: np.dtype

    def piece(self, index: int) -> Rows:
        return self.parts.rows(f"piece{index:06d}")


@dataclass(frozen=True)
class PieceTask:
    """Write one partition of a dask collection, an array or a table, as a shared array of its own."""

    block: np.ndarray | pd.DataFrame
    dtype: np.dtype

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.block
        if isinstance(block, pd.DataFrame):
            block = block.to_numpy(dtype=self.dtype, na_value=np.nan)
        block = np.ascontiguousarray(block, self.dtype)
        bad = not_finite(block)[1]
        if block.size and not bad:
            height = max(1, READ_BYTES // block[:1].nbytes)
            write_dense(ArrayRows(block), out.parts, f"piece{out.index:06d}", height)
        return {"shape": list(block.shape), "bad": bad}


def _rows_of_partitions(X: Any, execution: Execution) -> Rows:
    """Return the rows of a dask array or DataFrame, whose partitions write themselves where they are computed."""
    if hasattr(X, "columns") and X.ndim == 2:
        dtype = frame_dtype(X.dtypes)
        names = list(X.columns)
        blocks = X.to_delayed()
    else:
        require(getattr(X, "ndim", 0) == 2, f"X has {getattr(X, 'ndim', 0)} dimensions, expected 2", error=DataError,
                why="points are rows and features are columns", fix="use X.reshape((-1, 1)) for one feature")
        require(isinstance(X._meta, np.ndarray), f"the blocks of X are {type(X._meta).__name__}, expected ndarray",
                why="a block is stored as a table of numbers", error=DataError,
                fix="use X.map_blocks(lambda block: block.toarray()), or pass X.compute() as a sparse matrix")
        dtype = float_dtype(X.dtype)
        names = None
        whole = X if X.numblocks[1] == 1 else X.rechunk({1: -1})  # a distance needs every feature of a row
        blocks = whole.to_delayed().ravel()
    parts = execution.scratch()
    receipts = execution.map_delayed(blocks, partial(PieceTask, dtype=dtype), parts)
    shapes = [receipt["shape"] for receipt in receipts]
    starts = np.cumsum([0, *(shape[0] for shape in shapes)])
    _refuse_not_finite(receipts, starts, names)
    widths = sorted({shape[1] for shape in shapes if shape[0]})
    require(len(widths) == 1 and widths[0] > 0, f"the partitions of X hold {int(starts[-1])} rows of {widths} columns",
            why="points are rows, all with the same features", fix="check what the partitions hold: X.partitions[0], "
            "or X.blocks[0]", error=DataError)
    return PieceRows(parts, starts, (int(starts[-1]), widths[0]), dtype)
