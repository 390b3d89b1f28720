"""A data set: the points X, a target, an official split, and attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from ..base.digest import JsonObject
from ..base.errors import DataError, IntegrityError, column_label, explain, require
from ..base.notebook import values_table
from ..base.types import Matrix, MatrixLike, is_sparse
from ..storage.blocks import ArrayRows, Rows, row_ranges, write_dense
from ..storage.csr import CsrRows, as_csr
from ..storage.files import json_bytes, path_at, read_file, read_json, write_json
from ..storage.store import MANIFEST, StoredParts, StoredRows
from ..storage.views import BlockedCsrRows, CsrDescription, JoinedRows, write_sparse
from .columns import Columns
from .floats import floats, narrow_columns, not_finite, refuse_indistinct_columns, refuse_not_finite
from .frames import as_pandas
from .ingest_params import WhenMissing, WhenText
from .refused_cells import refuse_frame
from .survey import Survey, choose_columns
from .targets import named_labels, target_of

VERSION = 1
SEGMENTED = 2  # the version of a data set with appended rows, see `append`
CHUNK_BYTES = 32 << 20  # of X: large enough to read fast, small enough that several fit a task
LABELS_APART = ("npy", "idx")  # formats with labels in a second file
ENCODING_HINT = ('when_missing="impute" fills missing numbers with the mean of their column, and when_text="one_hot" '
                 "makes one column of 0 and 1 of each text")
SPARSE_COLUMNS, SPARSE_SHARE = 1000, 0.1  # sparse X stays sparse from this width, and up to this share of entries


def chunk_rows(n_rows: int, row_bytes: int) -> int:
    """Return the number of rows in a chunk of about `CHUNK_BYTES`."""
    return max(1, min(n_rows, CHUNK_BYTES // max(row_bytes, 1)))


def keeps_sparse(requested: bool | None, nnz: int | None, shape: tuple[int, int]) -> bool:
    """Return whether X is stored as CSR: as `requested`, or if that is None, where CSR is faster.

    That is the case if the source is sparse with `nnz` entries, has at least `SPARSE_COLUMNS` columns, and stores at
    most the share `SPARSE_SHARE` of all entries.
    """
    if requested is not None:
        return requested
    return nnz is not None and shape[1] >= SPARSE_COLUMNS and nnz <= SPARSE_SHARE * shape[0] * shape[1]


@dataclass(frozen=True)
class Dataset:
    """Points with their targets, in memory or stored.

    Parameters
    ----------
    X : Rows
        The points, shape (n, d), float32 or float64, finite; `BlockedCsrRows` or
        `CsrRows` where they are sparse.
    y : Rows or None
        The targets, shape (n,): int64 (-1: unlabeled, unless it is a class), or float64
        (NaN: unlabeled). Text labels are the codes of `label_names`, -1 where there is
        none.
    split : Rows or None
        The official split, shape (n,), uint8: 0 for training and 1 for test rows.
    attributes : dict
        What is known of the data, as JSON: `source`, `fingerprint` (SHA-256 of the
        bytes of the source), `files`, `feature_names` and `label_names`; and where
        missing cells or text became numbers, `when_missing` and `columns`.

    Examples
    --------
    >>> import numpy as np
    >>> from dssl import Dataset
    >>> dataset = Dataset.from_arrays(np.eye(3), ["red", "blue", "red"])
    >>> len(dataset), dataset.X.shape, dataset.named_targets().tolist()
    (3, (3, 3), ['red', 'blue', 'red'])
    """

    X: Rows
    y: Rows | None = None
    split: Rows | None = None
    attributes: JsonObject = field(default_factory=dict)

    @classmethod
    def from_arrays(cls, X: MatrixLike, y: ArrayLike | None = None, *, split: ArrayLike | None = None,
                    attributes: Mapping[str, Any] | None = None, sparse: bool | None = None,
                    when_missing: WhenMissing = "error", when_text: WhenText = "error") -> "Dataset":
        """Return the data set of arrays in this process.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
            The points. The columns of a DataFrame of any library name the features.
            Integers become float32, float64 stays.
        y : array-like, shape (n,), or None
            The targets; see `Dataset`.
        split : array-like of 0 and 1, shape (n,), or None
            The official split.
        attributes : dict or None
            Further attributes.
        sparse : bool or None
            Whether X is stored as CSR, as in `IngestParams`. None keeps a sparse matrix
            so where that is faster, and what `to_arrays` gave as it was.
        when_missing : "error" or "impute"
            What becomes of missing cells, as in `IngestParams`.
        when_text : "error" or "one_hot"
            What becomes of text, as in `IngestParams`: a column of text, objects or
            categories of a DataFrame.

        Returns
        -------
        Dataset
            The data set in memory.

        Raises
        ------
        DataError
            The shapes do not agree, or X holds values that are not finite numbers, or
            float32 would lose their digits.
        """
        X = as_pandas(X)
        known = {name: value for name, value in (attributes or {}).items() if name != "sparse"}
        sparse = (attributes or {}).get("sparse") if sparse is None else sparse
        if isinstance(X, pd.DataFrame):
            known.setdefault("feature_names", [str(name) for name in X.columns])
            refuse_frame(X, ENCODING_HINT, fills=when_missing == "impute", takes_text=when_text == "one_hot")
        if when_missing != "error" or when_text != "error":
            X, dtype = _encoded(X, known, impute=when_missing == "impute", one_hot=when_text == "one_hot")
        else:
            X = _numbers(X)
            dtype = np.dtype(np.float64 if X.dtype == np.float64 else np.float32)
        table = _table(X, dtype, sparse, known.get("feature_names"))
        if issparse(table):
            known["sparse"] = True
        n = table.shape[0]
        shape = () if split is None else np.shape(split)
        require(split is None or shape == (n,), f"split has shape {shape}",
                why=f"X has {n} rows", fix="pass one 0 or 1 a row", error=DataError)
        coded, names = (None, None) if y is None else target_of(as_pandas(y), n)
        if names is not None:
            known["label_names"] = names
        return cls(CsrRows(table) if issparse(table) else ArrayRows(table), None if coded is None else ArrayRows(coded),
                   None if split is None else ArrayRows(np.asarray(split, np.uint8)), known)

    def to_arrays(self) -> tuple[dict[str, Matrix], JsonObject]:
        """Return the arrays whole, and the attributes.

        `Dataset.from_arrays(**arrays, attributes=attributes)` makes the same data set
        of them.

        Returns
        -------
        arrays : dict
            X, an array or CSR matrix, and y and split where there are such.
        attributes : dict
            The attributes.
        """
        return {name: rows.read_all() for name, rows in self._arrays().items()}, dict(self.attributes)

    def _arrays(self) -> dict[str, Rows]:
        rows_by_name = {"X": self.X, "y": self.y, "split": self.split}
        return {name: rows for name, rows in rows_by_name.items() if rows is not None}

    def __len__(self) -> int:
        return len(self.X)

    def _repr_html_(self) -> str:
        names, classes = self.feature_names, self.attributes.get("label_names")
        return values_table("Dataset", {
            "source": self.attributes.get("source"), "points": f"{len(self):,}",
            "columns": f"{self.X.shape[1]:,}" + (f": {', '.join(names[:8])}{' ...' if len(names) > 8 else ''}" if names
                                                 else ""),
            "values": f"{self.X.dtype}, sparse" if self.X.is_sparse else self.X.dtype,
            "target": "none" if self.y is None else self.y.dtype if classes is None else ", ".join(map(str, classes))})

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the columns, or None."""
        return self.attributes.get("feature_names")

    @property
    def target(self) -> Rows:
        """The targets y; reading it raises DataError if there are none."""
        if self.y is None:
            file_format = self.attributes.get("format")
            fix = "name it with `target:` (data.read.target)"
            if file_format is None:
                fix = "pass y"
            elif file_format in LABELS_APART:
                fix = "name the file of the labels with `labels:` (data.read.labels)"
            raise DataError(explain(f"{self.attributes.get('source', 'the data set')} has no target",
                                    why="labels are read from it", fix=fix))
        return self.y

    @property
    def categories(self) -> np.ndarray | None:
        """Which columns of X text became, (d,) bool; None if no column was changed."""
        columns = Columns.of(self.attributes)
        return None if columns is None else columns.of_text()

    def targets(self) -> np.ndarray:
        """Return the targets whole.

        Returns
        -------
        ndarray, shape (n,)
            The values of y.

        Raises
        ------
        DataError
            There are no targets.
        """
        return self.target.read_all()

    def named_targets(self) -> np.ndarray:
        """Return the targets whole, with the names of classes where y is coded text.

        Returns
        -------
        ndarray, shape (n,)
            The values or names, None where a point of coded text has none.
        """
        return named_labels(self.targets(), self.attributes.get("label_names"))

    def save(self, path: str | Path) -> "Dataset":
        """Write the data set to a folder, or a URL of an object store.

        `dataset.json` is written last, so that a folder without it holds no data set.

        Parameters
        ----------
        path : str or Path
            The folder or URL.

        Returns
        -------
        Dataset
            The data set as it is stored.

        Raises
        ------
        DataError
            The folder already holds something else.
        ParameterError
            It is a URL of another kind.
        """
        folder = path_at(path)
        is_stored_here = _folder_of(self.X) == folder.resolve()
        is_empty = not folder.is_dir() or not any(folder.iterdir())
        require(is_stored_here or is_empty, f"{folder} is not empty", error=DataError,
                why="a data set is written once; rows can be appended", fix="name another folder, or delete this one")
        parts = StoredParts(folder)
        height = chunk_rows(len(self), self.X.row_bytes)
        arrays = {}
        for name, rows in self._arrays().items():
            if not is_stored_here:
                rows = write_sparse(rows, parts, height) if rows.is_sparse else write_dense(rows, parts, name, height)
            arrays[name] = describe(rows)
        manifest = {"dssl_dataset": VERSION, "arrays": arrays, "attributes": self.attributes}
        is_first = write_json(folder / MANIFEST, manifest, exclusive=True)
        require(is_first or bytes(read_file(folder / MANIFEST)) == json_bytes(manifest), error=DataError,
                what=f"{folder} holds another data set", why="it was written in the meantime",
                fix="name another folder")
        return open_stored(folder)


class DenseDescription(TypedDict):
    """The entry of a dense array in `dataset.json`."""

    shape: list[int]
    dtype: str


class DatasetManifest(TypedDict):
    """The content of `dataset.json`; the entry of an array depends on its kind."""

    dssl_dataset: int
    arrays: dict[str, Any]
    attributes: JsonObject


def describe(rows: Rows) -> DenseDescription | CsrDescription:
    """Return the entry of an array in `dataset.json`."""
    return rows.describe() if isinstance(rows, BlockedCsrRows) else describe_dense(rows)


def describe_dense(rows: Rows) -> DenseDescription:
    """Return the entry of a dense array in `dataset.json`."""
    return {"shape": list(rows.shape), "dtype": rows.dtype.str}


def _folder_of(X: Rows) -> Path | None:
    """Return the folder of the data set in which these rows are stored."""
    if isinstance(X, BlockedCsrRows):
        return X.parts.folder.resolve() if isinstance(X.parts, StoredParts) else None
    return X.path.resolve().parent.parent if isinstance(X, StoredRows) else None


def _numbers(X: MatrixLike) -> Matrix:
    """Return X as an array or CSR matrix of numbers, shape (n, d)."""
    array = as_csr(X) if issparse(X) else np.asarray(X)
    require(array.ndim == 2 and min(array.shape) > 0, f"X has shape {array.shape}, expected (n, d), neither of them 0",
            why="points are rows and features are columns", fix="pass a two-dimensional array", error=DataError)
    require(array.dtype.kind in "biuf", f"X holds values of type {array.dtype}, expected numbers", error=DataError,
            why="features are numbers; text has no distance",
            fix='pass a DataFrame with when_text="one_hot", which makes one column of 0 and 1 per category, and '
                'when_missing="impute" if cells are missing; or encode categories as numbers')
    return array


def _encoded(X: MatrixLike, known: JsonObject, *, impute: bool, one_hot: bool) -> tuple[Matrix, np.dtype]:
    """Return X with missing cells filled and text as columns of 0 and 1, and its type; `known` records the encoding."""
    table = X if isinstance(X, pd.DataFrame) else _numbers(X)
    names = known.get("feature_names")
    survey = Survey.of(table, names=names)
    require(one_hot or not survey.levels, error=DataError,  # categories of numbers, and numbers as text
            what=f"X holds text or categories in {column_label(names, min(survey.levels, default=0))}",
            why="features are numbers; text has no distance",
            fix='pass when_text="one_hot", which makes one column of 0 and 1 per category, or convert it to floats')
    columns = choose_columns(survey, names, "X", impute=impute)
    types = X.dtypes.drop(X.columns[[*columns.levels]]) if isinstance(X, pd.DataFrame) else [table.dtype]
    # Columns of objects contain Python floats.
    wide = any(dtype == np.float64 or str(dtype) in ("Float64", "object") for dtype in types)
    dtype = np.dtype(np.float64 if wide else np.float32)
    made = columns.rounded(dtype).apply(table, np.arange(columns.n_columns))
    known |= columns.describe() | {"imputed": made.imputed}
    if columns.levels:
        known["feature_names"] = columns.feature_names()
    return made.X, dtype


def _table(values: Matrix, dtype: np.dtype, sparse: bool | None, names: list[str] | None) -> Matrix:
    """Return numbers as a row-major array or CSR matrix of finite floats; raise DataError if that is impossible."""
    if keeps_sparse(sparse, values.nnz if is_sparse(values) else None, values.shape):
        values = as_csr(values)
    elif is_sparse(values):
        values = values.toarray()
    table = floats(values, dtype)
    count, first = not_finite(table)
    if first is not None:
        raise refuse_not_finite("X", count, first, names)
    narrow = narrow_columns(values, dtype)
    if narrow is not None:
        refuse_indistinct_columns([narrow], names, "X", "pass X as float64, or subtract the offset")
    return table


def open_stored(folder: str | Path) -> Dataset:
    """Return the data set that `Dataset.save` or an ingest wrote to a folder."""
    folder = path_at(folder)
    require((folder / MANIFEST).is_file(), f"{folder} has no {MANIFEST}", error=DataError,
            why="it contains no data set, or its ingest did not finish",
            fix="run the ingest again, or name the file to be read")
    manifest = read_json(folder / MANIFEST)
    require(isinstance(manifest, dict) and manifest.get("dssl_dataset") in (VERSION, SEGMENTED), error=IntegrityError,
            what=f"{folder / MANIFEST} is not of version {VERSION}", why="this dssl does not know its layout",
            fix="ingest the source again with this version")
    rows: dict[str, Rows] = {}
    for name, described in manifest["arrays"].items():
        if "block_rows" in described:
            rows[name] = _open_sparse(folder, described)
            continue
        pieces: list[Rows] = []
        for piece in described.get("pieces", [{**described, "path": f"shared/{name}"}]):
            stored = StoredRows(folder / piece["path"])
            description = describe(stored)
            expected = {"shape": piece["shape"], "dtype": piece["dtype"]}
            require(description == expected, f"{stored.path} is {description}, expected {expected}",
                    why="the array was replaced after the data set was written", fix="ingest the source again",
                    error=IntegrityError)
            pieces.append(stored)
        rows[name] = pieces[0] if len(pieces) == 1 else JoinedRows(pieces)
    return Dataset(rows["X"], rows.get("y"), rows.get("split"), manifest["attributes"])


def _open_sparse(folder: Path, described: CsrDescription) -> BlockedCsrRows:
    X = BlockedCsrRows.of(StoredParts(folder), described)
    blocks = row_ranges(len(X), X.block_rows)
    n_parts = len(list((folder / "parts").glob("*")))
    require(n_parts == len(blocks), f"{folder} has {n_parts} parts, expected {len(blocks)} blocks of sparse rows",
            why="the parts were replaced after the data set was written", fix="ingest the source again",
            error=IntegrityError)
    return X
