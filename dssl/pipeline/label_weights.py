"""What labels weigh: a column of the source that is no feature, or of the files of labels beside it."""

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from ..base.errors import DataError, require
from ..data.ingest_params import IngestParams
from ..data.label_files import LabelLine
from ..learners.target.tags import Tags
from ..learners.target.target import Classes, Target
from ..methods.step import Context
from .dataset import dataset_of, rows_in_files

AnyLabels = TypeVar("AnyLabels", Target, Tags)
SHOWN = 3  # rows that an error names


def weigh_labels(context: Context, target: AnyLabels, column: str, lines: Mapping[int, LabelLine],
                 read: IngestParams) -> tuple[AnyLabels, np.ndarray, dict[str, Any]]:
    """Return the target without the labels of weight 0, the weights (l,) of the others, and notes on them; JSON.

    column : of the source; or of the files of labels where these lines, by row of the source, have their weights.

    Raises
    ------
    DataError : a label has no weight, or one that is negative or not finite; all weights are 0, or all of a class.
    """
    rows = context.rows("split", "train").take(target.labeled)
    in_files = any(line.weight is not None for line in lines.values())
    cells, weight, place = _of_lines(context, column, lines, rows) if in_files else \
        _of_source(context, column, read, rows)
    wrong = np.flatnonzero(~((weight >= 0) & (weight < np.inf)))
    require(len(wrong) == 0, error=DataError, what=f"{place}: {len(wrong)} of {len(rows)} labels have no weight that "
            "is a finite number >= 0: " + ", ".join(f"row {rows[i]} has {cells[i]!r}" for i in wrong[:SHOWN]),
            why="each label counts its weight in the fit, and a negative one rewards errors",
            fix="correct these cells (rows are counted from 0); 0 leaves a label out"
            + (", and a label of the source needs a line in the files too" if in_files else ""))
    require(bool((weight > 0).any()), f"{place}: the weight of every label is zero", error=DataError,
            why="such points count as unlabeled, so there is nothing to learn from", fix="raise a weight")
    weighted = np.flatnonzero(weight > 0)
    weighed = target.take(weighted)
    if isinstance(target, Classes):
        weightless = target.names[np.setdiff1d(target.coded, weighed.coded)].tolist()
        require(not weightless, f"{place}: every label of the class {', '.join(map(repr, weightless))} has weight zero",
                why="such points count as unlabeled, and a class is learned from its labels", error=DataError,
                fix="raise a weight, or leave the class out with data.keep")
    return weighed, weight[weighted], {"weights": {"column": column, "min": float(weight[weighted].min()),
                                               "max": float(weight.max()), "zero": len(weight) - len(weighted)}}


def _of_source(context: Context, column: str, read: IngestParams,
               rows: np.ndarray) -> tuple[list[str], np.ndarray, str]:
    """Return the cells, the weights and the place of a column of the source; rows : in ascending order."""
    source, attributes = context.files["source"].source, context.attributes("dataset")
    with rows_in_files(source, read, attributes) as table:
        assert table is not None  # the column is one of a table, or the source was refused
        cells = table.cells(column, rows)
        return cells, table.numbers(cells, attributes["dataset"].get("decimal")), f"{source.name}, column {column!r}"


def _of_lines(context: Context, column: str, lines: Mapping[int, LabelLine],
              rows: np.ndarray) -> tuple[list[str], np.ndarray, str]:
    """Return the cells, the weights and the place of a column of the files of labels.

    Raises DataError: the source has a feature of that name.
    """
    name = context.files["labels"].source.name
    require(column not in (dataset_of(context).feature_names or ()), error=DataError,
            what=f"labels.weight={column!r} is a column of {name} and a feature of the source",
            why="a weight is no feature", fix="rename the column of the files of labels, or leave the feature out with "
            "data.read.drop")
    cells = [lines[row].weight or "" if row in lines else "" for row in rows.tolist()]
    return cells, np.array([_number(cell) for cell in cells]), f"{name}, column {column!r}"


def _number(cell: str) -> float:
    """Return the number that a cell is; NaN where it is none."""
    try:
        return float(cell)
    except ValueError:
        return np.nan
