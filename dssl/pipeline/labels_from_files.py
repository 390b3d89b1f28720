"""Labels from files beside the source (`labels.file`), such as the answers to `dssl suggest`, and weights of labels.

`labels.weight` names the column of the weights, of those files or else of the source.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypedDict, TypeVar

import numpy as np

from ..base.errors import DataError, explain, require, sentences
from ..data.ingest_params import IngestParams
from ..data.label_files import (
    Identifiers,
    LabelLine,
    listed_lines,
    names_rows,
    read_label_files,
    require_naming_columns,
    spelled_as,
)
from ..data.readers.base import Scan
from ..data.readers.formats import format_of, is_table
from ..data.source_files import Source
from ..data.source_reader import column_names_of
from ..learners.tags import Tags
from ..learners.target.encoding import WHOLE
from ..learners.target.target import Classes, Target
from ..methods.step import SOFT_LABELS, Context, File
from ..report.record import Attributes
from ..report.text import counted
from ..storage.blocks import Rows
from ..storage.views import counts_below
from .dataset import dataset_of, identifier_of, table_of
from .spec import Spec

AnyLabels = TypeVar("AnyLabels", Target, Tags)
SHOWN = 3  # rows that an error names


def _identifiers(context: Context, read: IngestParams, paths: Sequence[Path],
                 weight: str | None) -> Identifiers | None:
    """Return the identifiers of the source, which is read again for the rows of some.

    A column that `data.read.drop` names is one of identifiers where files of labels have it to name rows.
    """
    dropped = (column for column in read.drop or () if isinstance(column, str) and column != weight
               and names_rows(paths, column))
    name = next(dropped, None) or identifier_of(context.attributes("dataset"))
    if name is None:
        return None

    def rows_of(identifiers: Collection[str]) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        with table_of(context, read) as rows:
            cells = (cell for block in (rows.blocks([name]) if rows is not None else ()) for cell in block.cells[0])
            for number, cell in enumerate(cells):
                if cell in identifiers:
                    numbers.setdefault(cell, []).append(number)
        return numbers

    return Identifiers(name, rows_of)


def _places(train: Rows, rows: np.ndarray) -> np.ndarray:
    """Return the places (t,) of rows (t,) ascending among the training points, -1 of those that are none."""
    places = counts_below(train, rows)
    there = np.flatnonzero(places < len(train))
    positions = np.full(len(rows), -1)
    positions[there] = np.where(train.take(places[there]) == rows[there], places[there], -1)
    return positions


class LabelWeights(TypedDict):
    """The column of what labels weigh, the range of these weights, and how many labels have the weight 0."""

    column: str
    min: float
    max: float
    zero: int


def lines_of_file(context: Context, read: IngestParams, weight: str | None) -> dict[int, LabelLine]:
    """Return the lines of `labels.file` by the row of the source that each gives a label; none without such a file.

    read : how the source is read, whose identifiers a file may name. weight : the column of what labels weigh.
    """
    if "labels" not in context.files:
        return {}
    paths = [file.path for file in context.files["labels"].source.files]
    return read_label_files(paths, _identifiers(context, read, paths, weight), weight)


def require_label_columns(spec: Spec, files: Mapping[str, File], scratch: Path) -> None:
    """Raise DataError if a file of labels has not the columns that it needs; scratch : a folder for what is unpacked.
    """
    if "labels" not in files:
        return
    source, read = files["source"].source, spec.data.read
    names = column_names_of(source, read, (), scratch) if is_table(format_of(source.path, read.format)) else []
    require_naming_columns([file.path for file in files["labels"].source.files], names)


def require_tested(spec: Spec, source: Source, scan: Scan) -> None:
    """Raise DataError if labels are in files alone, and test points are asked for."""
    require(not spec.has_label_files or spec.data.test.none or spec.data.tags is not None or scan.target is not None,
            f"{source.name} has no target, and data.test asks for test points", error=DataError,
            why="labels of labels.file are those of training points", fix="set data.test: {none: true}: labels that "
            "are held out then tell how good the model is; or name the target in data.read")


def with_file(context: Context, chosen: Target, by_row: Mapping[int, LabelLine]) -> tuple[Target, dict[str, object]]:
    """Return the chosen target with the labels of `labels.file`; and how many these are, and which of them are new
    classes, spelled otherwise, or other ones than the source has: JSON.
    """
    if not by_row:
        return chosen, {}
    source, lines = context.files["labels"].source, [*by_row.values()]
    rows, texts = np.array([*by_row], np.int64), [line.label for line in by_row.values()]
    last = max(int(context.rows("split", name).read(n - 1, n)[0]) for name in ("train", "test", "rest")
               if (n := len(context.rows("split", name))))
    absent = np.flatnonzero(rows > last)
    require(len(absent) == 0, error=DataError, what="" if not len(absent) else
            f"{len(absent)} of {len(rows)} rows do not exist: {listed_lines([lines[i] for i in absent])}; the last row "
            f"of the source in use is {last}, counted from 0", why="a label is one of a row",
            fix="correct the lines, or name the source that the rows are of")
    places = _places(context.rows("split", "train"), rows)
    strangers = np.flatnonzero(places < 0)
    require(len(strangers) == 0, error=DataError, what="" if not len(strangers) else
            f"{len(strangers)} of {len(rows)} rows are no training points: "
            f"{listed_lines([lines[i] for i in strangers])}",
            why="test points, rows of groups that are tested, and points that are not used are not learned from",
            fix="delete these lines; or, if dssl suggest wrote them, leave data as it was then")
    classes = context.attributes("split").get("classes") or ()
    are_texts = isinstance(chosen, Classes) and all(isinstance(name, str) for name in classes)
    if are_texts and not classes:
        texts = _whole(texts)
    spelled = spelled_as(texts, classes) if are_texts else texts
    try:
        target = chosen.with_texts(places, spelled)
    except DataError as error:
        what, why, fix = sentences(str(error))
        raise DataError(explain(f"{source.name}: {what}", why=why, fix=fix)) from error
    new = [name for name in target.to_arrays()[1].get("classes") or () if name not in classes] if classes else []
    other = {text: name for text, name in zip(texts, spelled, strict=True) if text != name}
    lists = {"new_classes": new, "spelled": other, "changed": _changed(context, target, places, rows)}
    return target, {"from_file": len(rows), **{name: listed for name, listed in lists.items() if listed}}


def _whole(texts: list[str]) -> list[str]:
    """Return labels without ".0" where all are whole numbers, which a table with empty cells stores as floats."""
    whole = [text.removesuffix(".0") for text in texts]
    return whole if all(WHOLE.fullmatch(text) for text in whole) else texts


def _changed(context: Context, target: Target, places: np.ndarray, rows: np.ndarray) -> dict[str, int | str]:
    """Return how many labels of the source the file replaces by others, and the first one; JSON, empty if none.

    places, rows (t,) : of the points of the file among the training points, and in the source.
    """
    known = target.take(np.searchsorted(target.labeled, places))
    if isinstance(known, Classes):
        names = np.array([*map(str, context.attributes("split")["classes"]), ""])  # "" is of the code -1
        codes = context.rows("split", "train_codes").take(places)
        before = names[codes]
        now = np.array([str(known.names[code]) for code in known.coded])
        differ = np.flatnonzero((codes >= 0) & (before != now))
    else:
        before, now = context.rows("split", "train_values").take(places), known.columns()
        before = before.reshape(now.shape)
        differ = np.flatnonzero((np.isfinite(before) & (before != now)).any(axis=1))
    if not len(differ):
        return {}
    first = differ[0]
    return {"n": len(differ), "row": int(rows[first]), "before": str(np.ravel(before[first])[0]),
            "now": str(np.ravel(now[first])[0])}


def labels_notes(attributes: Attributes) -> list[str]:
    """Return what labels weigh, what those from a file mean for the figures, and which classes they bring or change."""
    notes = [*attributes.get("not_learned", ())]
    if opinion := attributes.get("opinion"):
        what = "soft labels" if opinion["kind"] == SOFT_LABELS else "class vectors"
        notes.append(f"another model says something of the points: {what} of {opinion['from']}")
    if weights := attributes.get("weights"):
        zero = f"; {weights['zero']} labels of weight 0 count as unlabeled" if weights["zero"] else ""
        notes.append(f"labels weigh from {weights['min']:.6g} to {weights['max']:.6g}, as the column "
                     f"{weights['column']!r} says{zero}; test points weigh 1 each")
    if not attributes.get("from_file"):
        return notes
    probabilities = "" if attributes.get("classes") is None else ", and probabilities overconfident"
    notes.append(f"{attributes['from_file']} of the {attributes['n_labeled']} labels come from labels.file; if dssl "
                 f"suggest chose their rows, these are difficult ones: errors of held-out labels can be too high"
                 f"{probabilities}. Test points (data.test) do not suffer from that")
    if changed := attributes.get("changed"):
        notes.append(f"labels.file gives {counted(changed['n'], 'row')} another label than the source, first row "
                     f"{changed['row']} (counted from 0): {changed['now']} in place of {changed['before']}")
    if attributes.get("spelled"):
        read = ", ".join(f"{text!r} as {name!r}" for text, name in sorted(attributes["spelled"].items()))
        notes.append(f"labels.file spells classes in other ways; read are {read}")
    if attributes.get("new_classes"):
        new = ", ".join(map(repr, attributes["new_classes"]))
        notes.append(f"labels.file brings classes that the source does not have: {new}. Correct the file if one of "
                     "them is a typing error")
    return notes


def weigh_labels(context: Context, target: AnyLabels, column: str, lines: Mapping[int, LabelLine],
                 read: IngestParams) -> tuple[AnyLabels, np.ndarray, dict[str, LabelWeights]]:
    """Return the target without the labels of weight 0, the weights (l,) of the others, and notes on them; JSON.

    column : of the source; or of files of labels where some of these lines, by row of the source, have weights: all
    other labels then weigh what that column of the source says, where it is one that is no feature.

    Raises DataError: a label has no weight, or one that is negative or not finite; all weights are 0, or all of a
    class.
    """
    rows = context.rows("split", "train").take(target.labeled)
    in_files = any(line.weight is not None for line in lines.values())
    cells, weight, places = _of_lines(context, column, lines, rows, read) if in_files else \
        _of_source(context, column, read, rows)
    wrong = np.flatnonzero(~((weight >= 0) & (weight < np.inf)))
    shown = ", ".join(f"row {rows[i]} has {cells[i]!r}" for i in wrong[:SHOWN])
    require(len(wrong) == 0, error=DataError, what=f"{_named(places[wrong])}: {len(wrong)} of {len(rows)} labels have "
            f"no weight that is a finite number >= 0: {shown}",
            why="each label counts its weight in the fit, and a negative one rewards errors",
            fix="correct these cells (rows are counted from 0); 0 leaves a label out"
            + (", and a label of the source needs a line in the files too, or a weight in that column of the source"
               if in_files else ""))
    require(bool((weight > 0).any()), f"{_named(places)}: the weight of every label is zero", error=DataError,
            why="such points count as unlabeled, so there is nothing to learn from", fix="raise a weight")
    weighted = np.flatnonzero(weight > 0)
    weighed = target.take(weighted)
    if isinstance(target, Classes):
        weightless = target.names[np.setdiff1d(target.coded, weighed.coded)].tolist()
        require(not weightless, f"{_named(places)}: every label of the class {', '.join(map(repr, weightless))} has "
                "weight zero", why="such points count as unlabeled, and a class is learned from its labels",
                error=DataError, fix="raise a weight, or leave the class out with data.keep")
    return weighed, weight[weighted], {"weights": {"column": column, "min": float(weight[weighted].min()),
                                               "max": float(weight.max()), "zero": len(weight) - len(weighted)}}


def _of_source(context: Context, column: str, read: IngestParams,
               rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells, the weights and their places, of a column of the source; rows : in ascending order."""
    source = context.files["source"].source
    with table_of(context, read) as table:
        if table is None or column not in table.names:  # which is refused before, where no file of labels has it either
            place = f"{source.name}, which has no column {column!r}"
            return np.full(len(rows), "", object), np.full(len(rows), np.nan), np.full(len(rows), place, object)
        cells, place = table.cells(column, rows), f"{source.name}, column {column!r}"
        weight = table.numbers(cells, context.attributes("dataset")["dataset"].get("decimal"))
        return np.array(cells, object), weight, np.full(len(rows), place, object)


def _of_lines(context: Context, column: str, lines: Mapping[int, LabelLine], rows: np.ndarray,
              read: IngestParams) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the cells, the weights and their places, of a column of the files of labels, and of the source for others.

    Raises DataError: the source has a feature of that name.
    """
    name = context.files["labels"].source.name
    require(column not in (dataset_of(context).feature_names or ()), error=DataError,
            what=f"labels.weight={column!r} is a column of {name} and a feature of the source",
            why="a weight is no feature", fix=f"set data.read.drop to [{column}]: labels without a line in these files "
            "then weigh what the source says; or rename the column of the files of labels")
    in_files = [lines[row].weight if row in lines else None for row in rows.tolist()]
    others = np.array([cell is None for cell in in_files])
    cells = np.array([cell or "" for cell in in_files], object)
    weight = np.array([_number(cell) for cell in cells])
    places = np.full(len(rows), f"{name}, column {column!r}", object)
    if others.any():
        of_source = _of_source(context, column, read, rows[others])
        cells[others] = of_source[0]
        weight[others] = of_source[1]
        places[others] = of_source[2]
    return cells, weight, places


def _named(places: np.ndarray) -> str:
    """Return the names of places, each once."""
    return " and ".join(dict.fromkeys(places))


def _number(cell: str) -> float:
    """Return the number that a cell is; NaN where it is none."""
    try:
        return float(cell)
    except ValueError:
        return np.nan
