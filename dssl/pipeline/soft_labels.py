"""What another model says, read: soft labels of the training points, or vectors of the classes."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from ..base.errors import DataError, explain, require, sentences
from ..data.dataset import Dataset, chunk_rows
from ..data.frames import element_name
from ..data.ingest import open_dataset
from ..data.ingest_params import IngestParams
from ..data.readers.base import CellError, Scan
from ..data.readers.formats import format_of, is_table
from ..data.source_files import Source
from ..data.source_reader import PARSED_SECONDS, column_names_of, open_source
from ..data.targets import named_labels
from ..execution.cost import Cost, cost_of
from ..learners.soft_labels import require_embeddings, require_soft_labels
from ..learners.target.encoding import UNLABELED
from ..learners.target.target import Classes, Target
from ..methods.data_sections import OpinionParams
from ..methods.plan_inputs import PlanInputs
from ..methods.step import SOFT_LABELS, VECTORS, Context, File
from ..storage.blocks import ArrayRows, PartWriter, write_dense
from .dataset import cells_of, dataset_of
from .spec import Spec

OPINION = "opinion"  # among the files from outside
OpinionRecord = TypedDict("OpinionRecord", {"kind": str, "from": str, "columns": int})


@dataclass(frozen=True, eq=False)
class Opinion:
    """What another model says.

    values : soft labels of the training points (n, c), or vectors of the classes (n_classes, d). names (n_classes,) :
    the classes, ascending; None of quantities. read_from : columns or a file, for people.
    """

    kind: str
    values: np.ndarray
    names: np.ndarray | None
    read_from: str

    def with_classes(self, target: Target) -> Target:
        """Return a target with all classes of the opinion; raise DataError where a label is of another class."""
        if self.names is None or not isinstance(target, Classes):
            return target
        known = self.names.tolist()
        unknown = [name for name in target.names.tolist() if name not in known]
        require(not unknown, f"the target has the classes {unknown[:5]}, and model.{self.kind} those of {known[:10]}",
                error=DataError, why="another model says something of each class",
                fix="add them, correct the names, or choose the classes with data.keep or data.classes")
        return target.of_names(self.names)

    def write(self, context: Context) -> dict[str, OpinionRecord]:
        """Write it beside the labels; return its attributes; JSON."""
        if self.kind == "soft_labels":
            write_dense(ArrayRows(self.values), context.parts, SOFT_LABELS,
                        chunk_rows(len(self.values), self.values[:1].nbytes))
        else:
            PartWriter(context.parts.within(VECTORS), 0).write(vectors=self.values)
        return {"opinion": {"kind": self.kind, "from": self.read_from, "columns": self.values.shape[1]}}


def read_opinion(context: Context, params: OpinionParams, read: IngestParams) -> Opinion:
    """Return what another model says, with the classes in ascending order.

    Raises DataError: a file has another shape than the points or the classes, or values that are no probabilities.
    """
    rows, names = context.rows("split", "train").read_all(), params.classes
    if params.columns:
        values = _of_columns(context, params.columns, read, rows)
        read_from = f"columns {', '.join(params.columns)} of {context.files['source'].source.name}"
    else:
        opened = _opened(context.files[OPINION].source, params)
        values, read_from = opened.X.read_all(), context.files[OPINION].source.name
        if params.class_column is not None:
            names = _class_names(opened, params.class_column, read_from)
        if opened.feature_names is not None:
            values = values[:, _columns_in_order(opened.feature_names, params, dataset_of(context), read_from)]
    order = np.argsort(np.array(names), kind="stable") if names is not None else np.arange(values.shape[1])
    ascending = None if names is None else np.array(names)[order]
    if params.kind == "class_embeddings":
        assert ascending is not None
        values = require_embeddings(values, dataset_of(context).X.shape[1], read_from)
        require(len(values) == len(ascending), f"{read_from} has {len(values)} rows for {len(ascending)} classes",
                error=DataError, why="each class has a vector", fix="list the classes of the rows in their order")
        require(len(np.unique(ascending)) == len(ascending) > 1,
                f"{read_from} has the classes {ascending.tolist()[:10]}",
                error=DataError, why="each of two classes or more has one vector", fix="write one row a class")
        return Opinion(params.kind, values[order], ascending, read_from)
    if not params.columns:
        n = len(dataset_of(context))
        require(len(values) == n, error=DataError, what=f"{read_from} has {len(values)} rows, the source {n}",
                why="each row of the source has a row of soft labels", fix="write them in the order of the source")
        values = values[rows]
    values = require_soft_labels(values, len(rows), None if names is None else np.array(names), read_from, rows)
    require(names is not None or values.shape[1] == 1, f"{read_from} has {values.shape[1]} columns", error=DataError,
            why="the source has one target", fix="write one column of predicted targets")
    return Opinion(params.kind, values[:, order], ascending, read_from)


def _opened(source: Source, params: OpinionParams) -> Dataset:
    """Return a file of soft labels or class vectors, all of it; raise DataError of cells that are no numbers."""
    require(params.class_column is None or is_table(format_of(source.path)), error=DataError,
            what=f"model.{params.kind}.classes={params.class_column!r}, and {source.name} is no table",
            why="it has no column of that name", fix="list the classes of its rows")
    try:
        return open_dataset([file.path for file in source.files], dtype="float64", **_read_keys(source, params))
    except CellError as error:
        raise DataError(explain(sentences(str(error))[0], why=f"each cell of model.{params.kind}.file is a number",
                                fix="correct these cells in the file; of a row of soft labels of which the other model "
                                "says nothing, write equal probabilities")) from error


def _read_keys(source: Source, params: OpinionParams) -> dict[str, Any]:
    """Return how a file of soft labels or class vectors is read: all columns of a table, but that of the classes."""
    return {"keep_ids": True, "target": params.class_column or "none"} if is_table(format_of(source.path)) else {}


def _class_names(opened: Dataset, column: str, name: str) -> tuple[Any, ...]:
    """Return the classes of the rows of a table; raise DataError where a cell is empty."""
    y, label_names = opened.targets(), opened.attributes["label_names"]
    empty = np.flatnonzero(np.isnan(y) if y.dtype.kind == "f" else (y == UNLABELED) & (label_names is not None))
    require(len(empty) == 0, error=DataError, what="" if not len(empty) else
            f"{name} has no class in {len(empty)} rows, first row {empty[0]} (counted from 0)",
            why=f"the column {column!r} names the class of each vector", fix="name the class, or delete the row")
    return tuple(named_labels(y, label_names).tolist())


def _columns_in_order(columns: list[str], params: OpinionParams, dataset: Dataset, name: str) -> list[int]:
    """Return the numbers of the columns of a table in the order of the features, or of the listed classes.

    Columns of soft labels whose names are not those of the classes stay as they are, as do those of vectors if the
    features have no names. Raises DataError: columns of vectors are not those of the features.
    """
    if params.kind == "class_embeddings":
        if dataset.feature_names is None:
            return [*range(len(columns))]
        wanted = list(dataset.feature_names)
        lacking, unknown = ([each for each in some if each not in others]
                            for some, others in ((wanted, columns), (columns, wanted)))
        require(not lacking and not unknown, error=DataError,
                what=f"{name} lacks the columns {lacking[:5]} of the features, and has {unknown[:5]}, which are none",
                why="a class vector has the columns of the features, which are matched by name",
                fix="name them as in the source, or write the vectors without names as .npy, in the order of the "
                    "features")
    else:
        wanted = [str(each) for each in params.classes or ()]
    if columns == wanted or sorted(columns) != sorted(wanted):
        return [*range(len(columns))]
    return [columns.index(each) for each in wanted]


def _of_columns(context: Context, columns: tuple[str, ...], read: IngestParams, rows: np.ndarray) -> np.ndarray:
    """Return numbers (n, c) in columns of the source; rows (n,) : ascending."""
    values = np.empty((len(rows), len(columns)))
    decimal = context.attributes("dataset")["dataset"].get("decimal")
    for begin, of_columns, table in cells_of(context, read, columns):
        first, last = np.searchsorted(rows, [begin, begin + len(of_columns[0])])
        for j, cells in enumerate(of_columns):
            texts = [cells[row - begin] for row in rows[first:last].tolist()]
            values[first:last, j] = table.numbers(texts, decimal)
    return values


def opinion_cost(f: PlanInputs, params: OpinionParams) -> Cost:
    """Return what reading soft labels takes: they are held as they are read, and of the training points, in float64.

    The labels are held beside them. Columns of the source are read with all its cells once more.
    """
    labels = 60 * min(f.n_labeled, f.n)
    if params.kind == "class_embeddings":
        return cost_of(0, 0, 8 * f.n_classes * f.d, 24 * f.n_classes * f.d + labels)
    row, n_read = 8 * f.n_outputs, 0 if params.columns else f.n_rows
    again = f.n_rows * (f.source_row_bytes if params.columns else row)
    held = (n_read + 3 * f.n) * row + labels
    return cost_of(0, again, row * f.n, held, held, PARSED_SECONDS * again)


# ---- before the work starts


def require_columns(spec: Spec, source: Source, scratch: Path) -> None:
    """Raise DataError if the source lacks columns that are read beside its features; scratch : for what is unpacked."""
    named = {key: columns for key, columns in spec.columns_beside.items() if columns}
    if not named:
        return
    kind, shown = format_of(source.path, spec.data.read.format), ", ".join(
        f"{key}={', '.join(map(repr, columns))}" for key, columns in named.items())
    tests = any(key.startswith("data.test") for key in named)
    others = any(not key.startswith("data.test") for key in named)
    require(is_table(kind), f"{shown}, and {source.name} is {kind}", error=DataError,
            why="these are columns of a table", fix="write the points as CSV or Parquet" + (
                "; or, in .npz, Zarr or AnnData, mark test rows with 1 and others with 0 in an array or a column of "
                "obs, name it in data.read.split, and set data.test: {official: true}" if tests else "") + (
                ", or give labels.file or model.soft_labels.file" if others else ""))
    names = column_names_of(source, spec.data.read, named.get("data.tags", ()), scratch)
    absent = {key: [name for name in columns if name not in names] for key, columns in named.items()}
    missing = [name for columns in absent.values() for name in columns]
    lists = [name for name in missing if element_name(name, 0) in names]
    require(not lists, f"{shown}: {source.name} has lists of numbers in {', '.join(map(repr, lists))}", error=DataError,
            why="each element of such a list is a feature, not a tag or a label",
            fix="write the lists with their elements as text or integers, such as ['1', '2']")
    near = [match for name in missing for match in get_close_matches(name, names, 1)]
    in_files = absent.get("labels.weight") and spec.has_label_files
    beside = ", and not all files of labels.file have it" if in_files else ""
    require(not missing, "; ".join(f"{key}={', '.join(map(repr, columns))}: {source.name} has no such column"
                                   for key, columns in absent.items() if columns) + beside, error=DataError,
            why="it is read beside the features", fix=f"did you mean {', '.join(near)}?" if near else
            f"name one of {', '.join(names[:12])}" if names else "give the columns names, in a first line")


def require_shape(spec: Spec, files: Mapping[str, File], source: Scan) -> None:
    """Raise DataError if a file of soft labels or class vectors has another shape than follows from the source."""
    opinion = spec.model.opinion
    if opinion is None or OPINION not in files:
        return
    params, file = opinion.params, files[OPINION].source
    with tempfile.TemporaryDirectory(prefix="dssl-") as folder:
        scan = open_source(file, IngestParams(**_read_keys(file, params)), scratch=Path(folder)).scan()
    if params.kind == "soft_labels":
        expected = source.n_rows, params.count
        why = "model.soft_labels.file has a row for each row of the source, and a column for each class"
        fix = "write all rows of the source in their order, and name the classes of the columns in classes"
    else:
        is_known = not source.keys and not source.text  # columns of a source that are its features as they are
        expected = (scan.n_rows if params.count is None else params.count,
                    source.n_columns if is_known else scan.n_columns)
        why = "model.class_embeddings.file has a row for each class, and the columns of the features"
        fix = "write one vector a class in the space of the features, and name the classes of the rows in classes"
    require((scan.n_rows, scan.n_columns) == expected, error=DataError, why=why, fix=fix,
            what=f"{file.name} has the shape ({scan.n_rows}, {scan.n_columns}), expected {expected}")
