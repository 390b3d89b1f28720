"""Predictions of many points, block by block, into a table or a file of arrays: no process holds all of them.

A table has a row a point, in the order of the source:

    row            its number in the source, counted from 0; or its identifier, under the name that this has there
    label          the class, or `value`, the quantity; empty where there is no prediction. Of several labels a point
                   `tags`, joined by the first of ; | , that is in no tag's name, which stands alone where a point has
                   none; as lists, ["a;b", "c|d"], where each of the three is in a name
    probability    of the label, where the model is calibrated; else
    score          by how much the label's score exceeds that of the next class; of quantities neither
    rejected       whether it has no prediction, where that was asked for, or the model says so of itself
    probability A  of each class, where that was asked for, and of each tag always; or `score A`

CSV files hold it as text, probabilities and scores in nine digits, npz files an array a column. An npy file is one
array, of the labels or values, or of the probabilities of all classes, (n, n_classes), whose row i is row i of the
source. An .h5ad file is a copy of that of the cells, with the columns but the first in `obs`, as dssl_label and so on,
and the probabilities of all classes, (n, n_classes), in `obsm`, in the order of the categories of `dssl_label`.
"""

import csv
import shutil
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from ...base.errors import DataError, require
from ...base.types import Matrix
from ...data.anndata import Columns, write_cells
from ...data.readers.parquet import parquet_columns, parquet_writer
from ...execution.tasks import Execution
from ...learners.model import Model, Output, predict_blocks, rejected_rows
from ...learners.probabilities import Calibration, TagCalibration
from ...learners.target.coding import ClassCoding, Coding, TagCoding, margins_of
from ...storage.blocks import Parts, Receipt, Rows, row_ranges
from ...storage.csr import as_rows
from ...storage.files import CsvLines, draft_of
from ...storage.hdf5 import Original
from ...storage.store import StoredParts

LINES = 1 << 14  # of a table that are made at a time


@dataclass(frozen=True)
class Answers(Output):
    """The codes or quantities that one model predicts, which points get none, how sure it is, and of every class.

    reject : whether points of which the model says nothing have no prediction. calibration : of probabilities, or None.
    of_all : whether those of all classes are kept. outliers : which other points have none, bool (n,), or None.
    """

    reject: bool
    calibration: Calibration | TagCalibration | None
    of_all: bool = False
    outliers: Rows | None = None

    def arrays(self, models: Mapping[str, Model]) -> dict[str, tuple[tuple[int, ...], Any]]:
        model, = models.values()
        answer = _answer(model.coding, np.zeros((1, model.n_columns)))
        arrays: dict[str, tuple[tuple[int, ...], Any]] = {"predicted": (answer.shape[1:], answer.dtype),
                                                          "empty": ((), bool)}
        if isinstance(model.coding, ClassCoding):
            arrays["sure"] = ((), np.float64)
        if self.of_all or isinstance(model.coding, TagCoding):
            arrays["probabilities"] = ((len(model.coding.classes),), np.float64)
        return arrays

    def __call__(self, models: Mapping[str, Model], X: Matrix, start: int) -> tuple[dict[str, np.ndarray], Receipt]:
        model, = models.values()
        values, unsupported = model.block_values(X)
        return self.of_values(model.coding, values, unsupported, start)

    def of_values(self, coding: Coding, values: np.ndarray, unsupported: np.ndarray,
                  start: int) -> tuple[dict[str, np.ndarray], Receipt]:
        """Return what is written of the values (b, c) of points from number `start` on, and the receipt.

        unsupported (b,) bool : of which the model says nothing.
        """
        empty, answer = rejected_rows(unsupported & self.reject, self.outliers, start), _answer(coding, values)
        arrays = {"predicted": answer, "empty": empty}
        if isinstance(coding, TagCoding):
            of_tags = values if self.calibration is None else self.calibration.probabilities(values)
            arrays["probabilities"] = np.where(empty[:, None], np.nan, of_tags)
        if isinstance(coding, ClassCoding):
            of_classes = margins_of(values, coding)
            if self.calibration is not None:
                of_classes = self.calibration.probabilities(of_classes)
                arrays["sure"] = of_classes[np.arange(len(answer)), answer]
            else:
                arrays["sure"] = lead_of(of_classes, answer)
            arrays["sure"] = np.where(empty, np.nan, arrays["sure"])
            if self.of_all:
                arrays["probabilities"] = np.where(empty[:, None], np.nan, of_classes)
        return arrays, {"unsupported": int(unsupported.sum()), "rejected": int(empty.sum()),
                        "summary": coding.summary(coding.entries(values)[~empty])}


def lead_of(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return by how much the score of each code (n,) exceeds the largest of the others, of scores (n, n_classes)."""
    others, at = scores.copy(), np.arange(len(codes))
    others[at, codes] = -np.inf
    return scores[at, codes] - others.max(axis=1)


def _answer(coding: Coding, values: np.ndarray) -> np.ndarray:
    """Return the codes of classes, quantities, or which tags there are."""
    if isinstance(coding, TagCoding):
        return coding.labels(values)
    return coding.codes(values) if isinstance(coding, ClassCoding) else np.asarray(coding.labels(values), np.float64)


@dataclass(frozen=True)
class RowNames:
    """The identifiers of rows: the name of their column, and numbers (n,), or the codes (n,) of `texts`.

    texts : (t + 1,), the last one empty, for rows without, whose code is -1.
    """

    head: str
    rows: Rows
    texts: np.ndarray | None = None

    def read(self, start: int, stop: int) -> np.ndarray:
        """Return those of some rows, masked where there is none."""
        names = self.rows.read(start, stop)
        if self.texts is None:
            return np.ma.masked_array(names, np.isnan(names))
        return np.ma.masked_array(self.texts[names], names < 0)


@dataclass(frozen=True)
class Continued:
    """The table that one goes on from, which begins with its rows.

    table : a file of the same ending; None where there is none yet. rows : how many it has. done : called with the
    whole table before that gets its name.
    """

    table: Path | None
    rows: int
    done: Callable[[Path], None]


FROM_NOTHING = Continued(None, 0, lambda draft: None)


@dataclass(frozen=True)
class PredictionTable:
    """The table of predictions that `Answers` wrote to parts, a block of rows at a time; see the head of this file.

    rejects : whether it has the column `rejected`. calibrated : whether the model has probabilities. of_all : whether
    those of all classes are in it. names : of the rows; None where their numbers are. safe_csv : see `CsvLines`.
    continued : the table whose rows come before. cells : the .h5ad file of the points.
    """

    parts: StoredParts
    coding: Coding
    rejects: bool
    calibrated: bool
    of_all: bool
    names: RowNames | None = None
    safe_csv: bool = False
    continued: Continued = FROM_NOTHING
    cells: Original | None = None

    def __len__(self) -> int:
        return len(self.parts.rows("predicted"))

    @property
    def rounded(self) -> set[str]:
        """Return the names of the columns that text has in nine digits, with which probabilities still add up to 1."""
        sure = how_sure(self.calibrated)
        each = {f"{sure} {name}" for name in self.coding.classes}
        return {sure, *each} if isinstance(self.coding, ClassCoding) else each

    def blocks(self) -> Iterator[dict[str, np.ndarray]]:
        """Yield all rows, `block` by block."""
        for first, last in row_ranges(len(self), self.parts.rows("predicted").chunk_rows):
            for start, stop in row_ranges(last - first, LINES):
                yield self.block(first + start, first + stop)

    def block(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """Return the columns of some rows by name, in their order; labels are masked where there is none."""
        block = {} if self.names is not None else {"row": self.continued.rows + np.arange(start, stop)}
        block |= label_columns(self.coding, self.parts, start, stop, calibrated=self.calibrated)
        if self.rejects:
            block["rejected"] = self.parts.rows("empty").read(start, stop)
        if self.of_all or isinstance(self.coding, TagCoding):
            block |= columns_of_each(self.coding, self.parts, start, stop, calibrated=self.calibrated)
        if self.names is None:
            return block
        head = self.names.head if self.names.head not in {*block, *self.rounded} else f"{self.names.head} of the source"
        return {head: self.names.read(start, stop), **block}


def how_sure(calibrated: bool) -> str:
    """Return the name of the column that says how sure the model is, with which those of single classes begin."""
    return "probability" if calibrated else "score"


def label_columns(coding: Coding, parts: Parts, start: int, stop: int, *, calibrated: bool) -> dict[str, np.ndarray]:
    """Return the labels of some rows, masked where there are none, and how sure the model is of classes, by name."""
    empty, predicted = (parts.rows(array).read(start, stop) for array in ("empty", "predicted"))
    name = coding.written_as
    if isinstance(coding, TagCoding):
        predicted = coding.texts(predicted)
    elif isinstance(coding, ClassCoding):
        predicted = coding.classes[predicted]
    labels = {name: predicted} if predicted.ndim == 1 else {
        f"{name} {j}": column for j, column in enumerate(predicted.T)}
    columns: dict[str, np.ndarray] = {
        name: np.ma.masked_array(column, empty | np.ma.getmaskarray(column)) for name, column in labels.items()}
    if isinstance(coding, ClassCoding):
        columns[how_sure(calibrated)] = parts.rows("sure").read(start, stop)
    return columns


def columns_of_each(coding: Coding, parts: Parts, start: int, stop: int, *,
                    calibrated: bool) -> dict[str, np.ndarray]:
    """Return the probabilities or scores of each class or tag, by name."""
    each = parts.rows("probabilities").read(start, stop)
    return {f"{how_sure(calibrated)} {name}": column for name, column in zip(coding.classes, each.T, strict=True)}


def has_room(suffix: str, coding: Coding, *, of_all: bool) -> bool:
    """Return whether a file of this ending can say that a point has no label; of_all : probabilities of all classes."""
    if suffix == ".npz":
        return coding.can_mark_missing or coding.classes.dtype.kind == "U"
    return coding.can_mark_missing or of_all or suffix not in (".npy", ".zarr")


def predict_to_file(model: Model, X: Rows, out: Path, execution: Execution, *, reject: bool = False,
                    calibration: Calibration | TagCalibration | None = None, of_all: bool = False,
                    outliers: Rows | None = None, names: RowNames | None = None, safe_csv: bool = False,
                    continued: Continued = FROM_NOTHING, cells: Original | None = None) -> dict[str, Any]:
    """Write the predictions of X (n, d) to a file, all or none; return what `predict_to_zarr` does.

    out : a path that ends in .csv, .parquet, .npy, .npz or .h5ad. In an array NaN among floats, -1 among integers
    and the empty text stand for no prediction. The others are those of
    `FittedPipeline.write`, whose `probabilities` is of_all.

    The tasks write blocks beside the file, on storage that every worker can open, each prediction into a folder of
    its own; then they are put together here, one after the other, and the file gets its name.

    Raises DataError: some point has no prediction, and the array no room to say so.
    """
    coding = model.coding
    draft = StoredParts(out.with_name(f".{out.name}.{uuid.uuid4().hex}"))
    try:
        rows = execution.share_rows(as_rows(X))
        answers = Answers(reject, calibration, of_all, outliers)
        receipts = predict_blocks(rows, model.shared(execution), answers, execution, draft)
        rejected = sum(receipt["rejected"] for receipt in receipts)
        require(not rejected or has_room(out.suffix, coding, of_all=of_all), error=DataError,
                what=f"{rejected} points get no label, with {out} and classes such as {coding.classes[:3].tolist()}",
                why="an array has room for no label only as -1 among other integers", fix="write a .csv file")
        write = {".csv": write_csv, ".parquet": write_parquet, ".npy": write_array, ".npz": write_arrays,
                 ".h5ad": write_h5ad}[out.suffix]
        write(out, PredictionTable(draft, coding, reject, calibration is not None, of_all, names, safe_csv,
                                   continued, cells))
    finally:
        draft.remove()
    return {"n": len(rows), "rejected": rejected,
            "unsupported": sum(receipt["unsupported"] for receipt in receipts),
            **coding.total([receipt["summary"] for receipt in receipts])}


def write_csv(out: Path, table: PredictionTable) -> None:
    """Write a table as delimited text; empty where there is nothing."""
    before, rounded = table.continued.table, table.rounded
    with draft_of(out) as draft:
        if before is not None:
            shutil.copyfile(before, draft)
        with open(draft, "a", encoding="utf-8", newline="") as file:
            lines = CsvLines(file, table.safe_csv)
            if before is None:
                lines.write([*table.block(0, 0)])
            else:
                with open(before, encoding="utf-8", newline="") as old:
                    require_same_columns(next(csv.reader(old)), [*table.block(0, 0)])
            for block in table.blocks():
                if "rejected" in block:
                    block["rejected"] = np.where(block["rejected"], "true", "false")
                lines.write_all(zip(*(csv_cells(column, name in rounded) for name, column in block.items()),
                                    strict=True))
        table.continued.done(draft)


def write_parquet(out: Path, table: PredictionTable) -> None:
    """Write a table as Parquet, a row group a block; null where there is no label."""
    before, empty = table.continued.table, table.block(0, 0)
    if before is not None:
        require_same_columns(parquet_columns(before), parquet_columns(empty))
    with draft_of(out) as draft:
        with parquet_writer(draft, empty, before) as write:
            for block in table.blocks():
                write(block)
        table.continued.done(draft)


def write_h5ad(out: Path, table: PredictionTable) -> None:
    """Write a copy of the file of the cells with the columns of a table in `obs`, and all probabilities in `obsm`."""
    def blocks() -> Iterator[tuple[np.ndarray, Columns]]:
        for first, last in row_ranges(len(table), table.parts.rows("predicted").chunk_rows):
            columns = columns_of_cells(replace(table, names=None, of_all=False).block(first, last), table.coding)
            if table.of_all:
                columns["dssl_probabilities"] = table.parts.rows("probabilities").read(first, last)
            yield np.arange(first, last), columns

    assert table.cells is not None
    write_cells(table.cells, out, blocks())


def columns_of_cells(block: Mapping[str, np.ndarray], coding: Coding) -> dict[str, np.ndarray | pd.Categorical]:
    """Return the predicted columns as those of `obs`: classes as categories, NaN where a quantity is masked."""
    columns = dict[str, np.ndarray | pd.Categorical]()
    for name, column in block.items():
        if name in ("row", "given", "role"):
            continue
        cells: np.ndarray | pd.Categorical = column
        if name == coding.written_as and isinstance(coding, ClassCoding):
            cells = pd.Categorical(np.ma.getdata(column), categories=coding.classes)
            cells[np.ma.getmaskarray(column)] = np.nan
        elif np.ma.isMaskedArray(column):
            cells = np.ma.filled(column, "" if column.dtype.kind == "U" else np.nan)
        key = f"dssl_{name}".replace(" ", "_").replace("/", "_")  # a "/" would make a group
        while key in columns:
            key += "_"
        columns[key] = cells
    return columns


def require_same_columns(before: Sequence[str], now: Sequence[str]) -> None:
    """Raise DataError unless the rows that are added to a table have its columns."""
    require(list(before) == list(now), f"the table has the columns {', '.join(before)}, the new rows {', '.join(now)}",
            error=DataError, why="all rows of a table have the same columns", fix="write them to another file")


def csv_cells(column: np.ndarray, rounded: bool) -> list[Any]:
    """Return a column as it is written to delimited text: empty where there is nothing, in nine digits if rounded."""
    return ["" if value is None or value != value else f"{value:.9g}" if rounded else value
            for value in column.tolist()]


def write_array(out: Path, table: PredictionTable) -> None:
    """Write labels or values as one array in NumPy's format; or the probabilities of all classes in their place."""
    name = "probabilities" if table.of_all else "predicted"
    rows_of_parts = [table.parts.rows(part) for part in (name, "empty")]

    def block(start: int, stop: int) -> np.ndarray:
        values, empty = (rows.read(start, stop) for rows in rows_of_parts)
        if table.of_all:
            return values
        labels = table.coding.classes[values] if isinstance(table.coding, ClassCoding) else values
        return _filled(np.ma.masked_array(labels, np.broadcast_to(empty.reshape(-1, *[1] * (labels.ndim - 1)),
                                                                  labels.shape)))

    with draft_of(out) as draft, open(draft, "wb") as file:
        _stream(file, len(table), block(0, 0),
                (block(*span) for span in row_ranges(len(table), rows_of_parts[0].chunk_rows)))


def write_arrays(out: Path, table: PredictionTable) -> None:
    """Write an npz file: an array a column, and `classes`; `probabilities` (n, n_classes) are one array."""
    first = table.block(0, 0)
    with draft_of(out) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED, allowZip64=True) as file:
        for name in [name for name in first if not name.startswith("probability ")]:
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                _stream(member, len(table), _filled(first[name]), (_filled(block[name]) for block in table.blocks()))
        if table.of_all:
            rows = table.parts.rows("probabilities")
            with file.open("probabilities.npy", "w", force_zip64=True) as member:
                _stream(member, len(table), rows.read(0, 0), (block for _, block in rows.blocks(rows.chunk_rows)))
        if isinstance(table.coding, ClassCoding):
            with file.open("classes.npy", "w") as member:
                np.lib.format.write_array(member, table.coding.classes, allow_pickle=False)


def _filled(column: np.ndarray) -> np.ndarray:
    """Return a column with what stands for no prediction: NaN among floats, -1 among integers, the empty text."""
    if not np.ma.is_masked(column):
        return np.asarray(column)
    kind = column.dtype.kind
    return np.ma.filled(column, np.nan if kind == "f" else "" if kind == "U" else -1)


def _stream(file: IO[bytes], n: int, like: np.ndarray, blocks: Iterable[np.ndarray]) -> None:
    """Write an array of n rows, of which `like` has none, in NumPy's format."""
    header = np.lib.format.header_data_from_array_1_0(like) | {"shape": (n, *like.shape[1:])}
    np.lib.format.write_array_header_1_0(file, header)
    for block in blocks:
        file.write(np.ascontiguousarray(block, like.dtype).tobytes())
