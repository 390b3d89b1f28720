"""A data set: X by rows, a target, an official split, and what is known about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..blocks import ArrayRows, Rows, row_ranges
from ..errors import DataError, IntegrityError, explain, require
from .joined_rows import JoinedRows
from .labels import encode_labels
from .store import MANIFEST, StoredParts, StoredRows, read_json, write_json

VERSION = 1
SEGMENTED = 2  # with rows that were appended, see `append`
CHUNK_BYTES = 32 << 20  # of X: large enough to read fast, small enough that several fit a task


def chunk_rows(n_rows: int, row_bytes: int) -> int:
    """Return the rows of a chunk of about `CHUNK_BYTES`."""
    return max(1, min(n_rows, CHUNK_BYTES // max(row_bytes, 1)))


@dataclass(frozen=True)
class Dataset:
    """Points with their targets, in memory or stored.

    X : Rows, shape (n, d), float32 or float64, finite.
    y : Rows, shape (n,), or None. int64 (-1: unlabeled, unless it is a class), or float64 (NaN: unlabeled). Text
        labels are the codes of `label_names`, -1 where there is none.
    split : Rows, shape (n,), uint8, 0 for training and 1 for test rows, or None.
    attributes : JSON: `source`, `fingerprint` (SHA-256 of the source's bytes), `feature_names`, `label_names`.
    """

    X: Rows
    y: Rows | None = None
    split: Rows | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_arrays(cls, X: Any, y: Any = None, *, split: Any = None,
                    attributes: Mapping[str, Any] | None = None) -> "Dataset":
        """Return the data set of arrays in this process.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d); the columns of a pandas DataFrame name the features. Integers
            become float32, float64 stays. y : array-like, shape (n,), or None; see `Dataset` and `encode_labels`.
        split : array-like of 0 and 1, shape (n,), or None.

        Raises
        ------
        DataError : the shapes do not agree, or X holds values that are not finite numbers.
        """
        known = dict(attributes or {})
        if hasattr(X, "columns") and "feature_names" not in known:
            known["feature_names"] = [str(name) for name in X.columns]
        table = _table(X)
        require(split is None or np.shape(split) == (len(table),), f"split has shape {np.shape(split)}",
                why=f"X has {len(table)} rows", fix="pass one 0 or 1 a row", error=DataError)
        return cls(ArrayRows(table), None if y is None else ArrayRows(_target(y, len(table), known)),
                   None if split is None else ArrayRows(np.asarray(split, np.uint8)), known)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the arrays X, y and split that there are, whole, and the attributes.

        `Dataset.from_arrays(**arrays, attributes=attributes)` makes the same data set of them.
        """
        there = {"X": self.X, "y": self.y, "split": self.split}
        return {name: rows.read_all() for name, rows in there.items() if rows is not None}, dict(self.attributes)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the columns, or None."""
        return self.attributes.get("feature_names")

    def targets(self) -> np.ndarray:
        """Return y whole, shape (n,); raise DataError if there is none."""
        if self.y is None:
            raise DataError(explain(
                f"{self.attributes.get('source', 'the data set')} has no target", why="labels are read from it",
                fix="name it with `target:` at ingest",
            ))
        return self.y.read_all()

    def labels(self, unlabeled: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Return (codes, classes) of the target as `encode_labels` does; classes are names where y is coded text."""
        y, names = self.targets(), self.attributes.get("label_names")
        if names is None:
            return encode_labels(y, unlabeled)
        coded = np.array(names, object)[y]
        coded[y < 0] = None
        return encode_labels(coded, unlabeled)

    def save(self, path: str | Path) -> "Dataset":
        """Write the data set to a folder, `dataset.json` last, and return it as it is stored.

        Raises
        ------
        DataError : the folder already holds something else.
        """
        folder = Path(path)
        mine = isinstance(self.X, StoredRows) and self.X.path.resolve() == (folder / "shared" / "X").resolve()
        require(mine or not folder.exists() or not any(folder.iterdir()), f"{folder} is not empty", error=DataError,
                why="a data set is written once; rows can be appended", fix="name another folder, or delete this one")
        parts, height = StoredParts(folder), chunk_rows(len(self), self.X.shape[1] * self.X.dtype.itemsize)
        there = {"X": self.X, "y": self.y, "split": self.split}
        for name, rows in there.items():
            if rows is not None and not mine:
                parts.allocate(name, rows.shape, rows.dtype, height)
                for start, stop in row_ranges(len(rows), height):
                    parts.write_rows(start, {name: rows.read(start, stop)})
        arrays = {name: describe(rows) for name, rows in there.items() if rows is not None}
        write_json(folder / MANIFEST, {"dssl_dataset": VERSION, "arrays": arrays, "attributes": self.attributes})
        return open_stored(folder)


def describe(rows: Rows) -> dict[str, Any]:
    """Return what `dataset.json` says of an array."""
    return {"shape": list(rows.shape), "dtype": rows.dtype.str}


def _table(X: Any) -> np.ndarray:
    """Return X as a row-major array of finite floats."""
    array = X.toarray() if sparse.issparse(X) else np.asarray(X)
    require(array.ndim == 2 and array.size > 0, f"X has shape {array.shape}, expected (n, d), neither of them 0",
            why="points are rows and features are columns", fix="pass a two-dimensional array", error=DataError)
    require(array.dtype.kind in "biuf", f"X holds values of type {array.dtype}, expected numbers", error=DataError,
            why="features are numbers; text has no distance", fix="code categories as numbers, one column each")
    wide = array.dtype == np.float64
    table = np.ascontiguousarray(array, np.float64 if wide else np.float32)
    count, first = not_finite(table)
    if first is not None:
        raise refuse_not_finite("X", count, first, known=None)
    return table


def not_finite(X: np.ndarray) -> tuple[int, tuple[int, int, str] | None]:
    """Return how many values are not finite, and (row, column, text) of the first, row by row."""
    bad = ~np.isfinite(X)
    if not bad.any():
        return 0, None
    row, column = (int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
    return int(bad.sum()), (row, column, str(X[row, column]))


def refuse_not_finite(name: str, count: int, first: tuple[int, int, str], known: Any) -> DataError:
    """Return the error for values that are not finite."""
    row, column, value = first
    column_name = f" ({known[column]})" if known else ""
    beyond = "; for numbers beyond 3.4e38 set `dtype: float64`" if "inf" in value else ""
    return DataError(explain(
        f"{name} has {count:,} values that are not finite; the first is {value} in row {row}, column {column}"
        f"{column_name}, counted from 0",
        why="a distance to such a point is not a number, and one such value spoils whole columns of a result",
        fix=f"drop or impute them before ingest{beyond}",
    ))


def _target(y: Any, n_rows: int, attributes: dict[str, Any]) -> np.ndarray:
    """Return y as int64 or float64; text becomes codes, its names go into the attributes."""
    array = np.asarray(y)
    require(array.shape == (n_rows,), f"y has shape {array.shape}, X has {n_rows} rows", error=DataError,
            why="each row has one label", fix="pass y of shape (n,)")
    if array.dtype.kind in "biu":
        return array.astype(np.int64)
    if array.dtype.kind == "f":
        require(not np.isinf(array).any(), "y holds infinite values", error=DataError,
                why="no model can fit them", fix="drop these rows, or mark them unlabeled with NaN")
        return array.astype(np.float64)
    codes, classes = encode_labels(y)
    if classes.dtype.kind == "U":
        attributes["label_names"] = classes.tolist()
        return codes
    values = np.append(classes.astype(np.float64), np.nan)[codes]
    return values if (codes < 0).any() or classes.dtype.kind == "f" else classes[codes].astype(np.int64)


def open_stored(folder: str | Path) -> Dataset:
    """Return the data set that `Dataset.save` or an ingest wrote to a folder.

    Raises
    ------
    DataError : the folder has no dataset.json. IntegrityError : the arrays are not what dataset.json says.
    """
    folder = Path(folder)
    require((folder / MANIFEST).is_file(), f"{folder} has no {MANIFEST}", error=DataError,
            why="it holds no data set, or its ingest did not finish",
            fix="run the ingest again, or name the file to be read")
    manifest = read_json(folder / MANIFEST)
    require(isinstance(manifest, dict) and manifest.get("dssl_dataset") in (VERSION, SEGMENTED), error=IntegrityError,
            what=f"{folder / MANIFEST} is not of version {VERSION}", why="its layout is not known to this dssl",
            fix="ingest the source again with this version")
    rows: dict[str, Rows] = {}
    for name, described in manifest["arrays"].items():
        pieces: list[Rows] = []
        for piece in described.get("pieces", [{**described, "path": f"shared/{name}"}]):
            stored = StoredRows(folder / piece["path"])
            found, expected = describe(stored), {"shape": piece["shape"], "dtype": piece["dtype"]}
            require(found == expected, f"{stored.path} is {found}, expected {expected}",
                    why="the array was replaced after the data set was written", fix="ingest the source again",
                    error=IntegrityError)
            pieces.append(stored)
        rows[name] = pieces[0] if len(pieces) == 1 else JoinedRows(pieces)
    return Dataset(rows["X"], rows.get("y"), rows.get("split"), manifest["attributes"])


def open_dataset(source: str | Path | Sequence[str | Path], **options: Any) -> Dataset:
    """Return a data set: a folder that dssl wrote as it is stored, anything else read into memory.

    Parameters
    ----------
    source : a folder, a file, a pattern of files, a URL, or a name, or a list of them; see `find_source`.
    options : see `IngestParams`.

    Raises
    ------
    DataError : the source is nowhere, or cannot be read.
    """
    from ..blocks import MemoryParts
    from ..execution import InProcess
    from .foreign_zarr import is_zarr
    from .ingest import ingest  # ingest makes Datasets, so it cannot be imported before this module

    folder = Path(source) if isinstance(source, (str, Path)) else None
    if folder is not None and ((folder / MANIFEST).is_file() or (folder.is_dir() and len(folder.parts) > 1
                                                                  and not is_zarr(folder))):
        return open_stored(folder)
    return ingest(source, MemoryParts(), InProcess(), **options)
