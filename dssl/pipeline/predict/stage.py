"""What a run predicts of every row of its source: a stage, and the table that it becomes beside the report.

The table has a row for each row of the source that is in use, in their order:

    id           the identifier of the row, under the name that its column has, where the table has one
    row          its number in the source, counted from 0
    file, line   where it stands, the first line being 1; of text without an identifier, `file` where there are several
    given        the label or the value that the row has in the source or in `labels.file`; empty where it has none
    label        the predicted class, or `value`, the predicted quantity; empty where the model says nothing
    probability  of that class where the model is calibrated; else `score`, by how much it leads the next class; of
                 several labels a point (`tags`) a column for each tag
    role         labeled (learned from), test, unlabeled, or unused (not drawn by `data.points`)

As .h5ad it is a copy of the source with `label`, `probability` and `role` in `obs`, as dssl_label and so on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd

from ...data.anndata import write_cells
from ...data.ingest_params import IngestParams
from ...data.readers.file_rows import FileRowBlock, FileRows
from ...data.readers.parquet import parquet_writer
from ...data.scaling.scaling import ScaledRows, Scaling
from ...data.source_files import Source, digested
from ...data.sources import fetch
from ...execution.cost import Cost, cost_of
from ...learners.model import coding_of, model_type, predict_blocks, stored_models
from ...learners.probabilities import calibration_of
from ...learners.target.coding import ClassCoding, Coding, TagCoding
from ...methods.plan_inputs import Bounded, PlanInputs
from ...methods.step import Context, Method
from ...methods.tags import Values, ValuesAtTraining, values_at_training
from ...report.record import Attributes
from ...storage.artifacts import Artifact
from ...storage.blocks import Parts, Receipt, Rows, row_ranges
from ...storage.files import CsvLines, draft_of
from ...storage.hdf5 import Original
from ...storage.views import SelectedRows, counts_below
from ..dataset import dataset_of, identifier_of, rows_in_files
from ..scoring import values_at_test
from ..spec import Spec
from ..stage import Stage
from .to_file import LINES, Answers, columns_of_cells, columns_of_each, csv_cells, label_columns

FILE = "predictions_all"  # of a run's folder
PARTS = ("train", "test", "rest")  # the rows in use, as the stage `split` divides them
ROLES = np.array(["unlabeled", "test", "unused", "labeled"])
LABELED = 3  # the place of that role


CLOSE = 0.01  # of the range of the labels


@dataclass(frozen=True)
class PredictionParams:
    """limit : rows up to which all of them are predicted; None for any number."""

    limit: int | None

    @classmethod
    def of(cls, spec: Spec) -> "PredictionParams":
        return cls(spec.predictions.limit)


class PredictionsMade(TypedDict, total=False):
    """Whether the n rows were predicted, which a limit may forbid, and the classes and how many rows are of each.

    negative : the smallest prediction of a quantity, if no label is negative, and it is by more than `CLOSE`.
    """

    n: int
    made: bool
    limit: int
    counts: list[int]
    negative: float | None
    calibrated: bool
    coding: str
    classes: list[str | int | float]


def make_predictions(context: Context, params: PredictionParams,
                     of_training: ValuesAtTraining | None = None) -> PredictionsMade:
    """Predict all rows in use with the model; write a part for each of `PARTS`.

    Test points that `scores` has predicted are not predicted again.
    of_training : context -> the values (n_train, c) of the model at the training points, where an earlier stage wrote
    them, and at which of these it says nothing, bool (n_train,).
    """
    sizes = {name: context.attributes("split")[f"n_{name}"] for name in PARTS}
    n = sum(sizes.values())
    if params.limit is not None and n > params.limit:
        return {"n": n, "made": False, "limit": params.limit}
    described = context.attributes("models")["models"]["model"]
    shared = stored_models(context.inputs["models"].parts, {"model": described})
    coding, calibration = coding_of(described), calibration_of(described)
    answers = Answers(model_type(described).rejects, calibration)
    receipts: list[Receipt] = []
    for name in PARTS:
        parts, known = context.parts.within(name), None
        if name == "train" and of_training is not None:
            known = _in_ranges(*of_training(context))
        elif name == "test" and "scores" in context.inputs:
            known = values_at_test(context)
        if known is not None:
            receipts += _write_answers(answers, coding, sizes[name], known, parts)
        elif sizes[name]:
            receipts += predict_blocks(context.execution.share_rows(_points(context, name)), shared, answers,
                                       context.execution, parts)
    counts, negative = [], None
    if isinstance(coding, ClassCoding | TagCoding):
        counts = np.sum([receipt["summary"]["counts"] for receipt in receipts], axis=0).tolist()
    else:
        smallest = coding.total([receipt["summary"] for receipt in receipts])["values"]["min"]
        labels = context.target().columns()
        if smallest is not None and labels.min() >= 0 > smallest + CLOSE * np.ptp(labels):
            negative = smallest
    return {"n": n, "made": True, "counts": counts, "negative": negative, "calibrated": calibration is not None,
            "coding": coding.name, "classes": coding.classes.tolist()}


def _points(context: Context, name: str) -> Rows:
    """Return the scaled rows of one of `PARTS`."""
    if name != "rest":
        return context.points(name)
    scaling = Scaling.from_arrays(context.inputs["points"].parts.within("scaling").read(0),
                                  context.attributes("points")["scaling"])
    chosen = SelectedRows(dataset_of(context).X, context.rows("split", "rest"))
    return ScaledRows(chosen, scaling, context.execution)


def _in_ranges(values: np.ndarray, unsupported: np.ndarray) -> Callable[[int, int], Values]:
    """Return what reads a range of values (n, c), and at which points there are none."""
    return lambda start, stop: (values[start:stop], unsupported[start:stop])


def _write_answers(answers: Answers, coding: Coding, n: int, known: Callable[[int, int], Values],
                   parts: Parts) -> list[Receipt]:
    """Write the predictions that follow from the values of n points, range by range; return a receipt for each."""
    receipts = []
    for start, stop in row_ranges(n, LINES):
        arrays, receipt = answers.of_values(coding, *known(start, stop), start)
        for name, array in arrays.items():
            if start == 0:
                parts.allocate(name, (n, *array.shape[1:]), array.dtype, min(LINES, n))
        parts.write_range(start, arrays)
        receipts.append(receipt)
    return receipts


def cost_of_all_rows(of_test: Callable[[PlanInputs, Any], Cost], *, of_training: bool,
                     scored: bool) -> Callable[[PlanInputs, Any], Cost]:
    """Return the cost of predicting all rows in use, from that of predicting the test points: of each of `PARTS`.

    of_training, scored : whether the values at the training and at the test points are there already.
    """
    def cost(f: PlanInputs, spec: Spec) -> Cost:
        upper = spec.predictions.limit
        if upper is not None and f.n_rows > upper:
            return cost_of(0, 0, 0, 0)
        n_test = min(f.n_test, max(f.n_rows - f.n, 0))
        known = f.n * of_training + n_test * scored
        total = cost_of(0, known * (8 * f.n_values + 1), 17 * known, f.training_values_bytes if of_training else 0)
        n_rest = f.attribute("split", "n_rest", max(f.n_rows - f.n - n_test, 0))
        for n in filter(None, (0 if of_training else f.n, 0 if scored else n_test, n_rest)):
            total += of_test(replace(f, test_points=Bounded.known(n)), spec)
        return total

    return cost


def _notes(attributes: Attributes) -> list[str]:
    if attributes["made"]:
        smallest = attributes["negative"]
        return [] if smallest is None else [
            f"predictions go down to {smallest:.6g}, and no label is negative: if the target cannot be, clip them at "
            "0, or let the source hold a logarithm of it"]
    if attributes["limit"] == 0:
        return []
    return [f"the source has {attributes['n']:,} rows, more than the {attributes['limit']:,} that are predicted "
            "without being "
            "asked for; set predictions.format to parquet or csv to predict all of them"]


PREDICTIONS = Stage("predictions", 6, ("dataset", "split", "labels", "points", "models"), PredictionParams.of,
                    make_predictions, hint="set predictions.format to none", notes=_notes)


def predictions_with(cost: Callable[[PlanInputs, Any], Cost], method: Method | None = None) -> Stage:
    """Return the stage of a kind.

    cost : of predicting its test points. method : that it runs, None if it runs none; the stage `scores` comes before.
    """
    of_training = values_at_training(method)

    def make(context: Context, params: PredictionParams) -> PredictionsMade:
        return make_predictions(context, params, of_training)

    return replace(PREDICTIONS, needs=PREDICTIONS.needs_and((*method.training_needs, "scores") if method else ()),
                   make=make, cost=cost_of_all_rows(cost, of_training=of_training is not None,
                                                    scored=method is not None))


# ---- the table


def write_predictions(folder: Path, artifacts: dict[str, Artifact], source: Source, read: IngestParams,
                      format: str, safe_csv: bool = False) -> Path | None:
    """Write the table of all rows into a run's folder, block by block; return it, None where nothing was predicted.

    source : the `Source` that was read, with these parameters. format : csv, parquet or h5ad. safe_csv : see
    `CsvLines`.
    """
    predictions = artifacts.get("predictions")
    if predictions is None or not predictions.attributes["made"]:
        return None
    table = AllPredictions(artifacts)
    out = folder / f"{FILE}.{format}"
    dataset = artifacts["dataset"].attributes
    if format == "h5ad":
        fetch(source)
        original = Original.of(source.path)
        digested(source)  # raises if the file has changed since the run was planned
        write_cells(original, out, ((block["row"], columns_of_cells(block, table.coding) | (
            {"dssl_role": pd.Categorical(block["role"], categories=ROLES)} if "role" in block else {}))
            for block in table.blocks(None, None)))
        return out
    with rows_in_files(source, read, dataset) as rows:
        identifier = identifier_of(dataset)
        identifier = identifier if rows is not None and identifier and rows.has(identifier) else None
        blocks = table.blocks(rows, identifier)
        first = next(blocks)
        if format == "parquet":
            empty = {name: column[:0] for name, column in first.items()}
            with draft_of(out) as draft, parquet_writer(draft, empty) as write:
                for block in (first, *blocks):
                    write(block)
        else:
            with draft_of(out) as draft, open(draft, "w", encoding="utf-8", newline="") as file:
                lines = CsvLines(file, safe_csv)
                lines.write([*first])
                for block in (first, *blocks):
                    lines.write_all(zip(*(csv_cells(column, name.partition(" ")[0] in ("probability", "score"))
                                          for name, column in block.items()), strict=True))
    return out


class AllPredictions:
    """What the stage `predictions` wrote of all rows in use, beside what is known of them."""

    def __init__(self, artifacts: dict[str, Artifact]):
        self.artifacts, self.split = artifacts, artifacts["split"]
        attributes = artifacts["predictions"].attributes
        self.coding = coding_of(attributes)
        self.calibrated = attributes["calibrated"]
        self.names = [name for name in PARTS if self.split.attributes[f"n_{name}"]]
        in_files = "labels" in artifacts and artifacts["labels"].attributes.get("from_file")
        has_codes = self.split.attributes.get("classes") or (in_files and "classes" in self.split.attributes)
        self.known = "codes" if has_codes else "values" if "target" in \
            self.split.attributes else "tags" if "tags" in self.split.attributes else ""
        self.labeled = artifacts["labels"].parts.read(0) if "labels" in artifacts else None

    def blocks(self, rows: FileRows | None, identifier: str | None) -> Iterator[dict[str, np.ndarray]]:
        """Yield the columns of the table by name, `LINES` rows of the source after the other.

        rows : those of the source as they stand in their files, where it is a table. identifier : its column there.
        """
        n = self.artifacts["dataset"].attributes["n"]
        edges = np.array([0, *(stop for _, stop in row_ranges(n, LINES))])
        begin = {name: counts_below(self.split.parts.rows(name), edges) for name in self.names}
        text = rows.blocks([identifier] if identifier else [], LINES) if rows is not None else None
        for place, (start, _) in enumerate(row_ranges(n, LINES)):
            ranges = {name: (int(begin[name][place]), int(begin[name][place + 1])) for name in self.names}
            columns = self._columns(ranges)
            block = None if text is None else next(text)
            order = np.argsort(columns["row"])
            columns = {name: column[order] for name, column in columns.items()}
            if rows is None or block is None:
                yield columns
                continue
            yield {**_head(rows, identifier, block, columns["row"] - start, columns), **columns}

    def _columns(self, ranges: dict[str, tuple[int, int]]) -> dict[str, np.ndarray]:
        """Return the columns of some rows of each part, one part after the other."""
        pieces: dict[str, list[np.ndarray]] = {}
        for name, (start, stop) in ranges.items():
            parts = self.artifacts["predictions"].parts.within(name)
            columns = {"row": self.split.parts.rows(name).read(start, stop)}
            role = np.full(stop - start, PARTS.index(name))
            if self.known:
                columns["given"], labeled = self._given(name, start, stop)
                role[labeled] = LABELED
            columns |= label_columns(self.coding, parts, start, stop, calibrated=self.calibrated)
            if isinstance(self.coding, TagCoding):
                columns |= columns_of_each(self.coding, parts, start, stop, calibrated=self.calibrated)
            if self.labeled is not None:
                columns["role"] = ROLES[role]
            for head, column in columns.items():
                pieces.setdefault(head, []).append(column)
        return {head: np.ma.concatenate(columns) if any(map(np.ma.isMaskedArray, columns)) else
                np.concatenate(columns) for head, columns in pieces.items()}

    def _given(self, name: str, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the labels that rows of a part have, masked where there is none, and which of them were learned from.
        """
        known = self.split.parts.rows(f"{name}_{self.known}").read(start, stop)
        places = labels = np.zeros(0, np.int64)
        if name == "train" and self.labeled is not None:
            first, last = np.searchsorted(self.labeled["labeled"], [start, stop])
            places, labels = self.labeled["labeled"][first:last] - start, self.labeled[self.known][first:last]
        if isinstance(self.coding, TagCoding):
            return self.coding.texts(known), places
        if self.known == "values":
            known[places] = labels
            return np.ma.masked_array(known, np.isnan(known)), places
        of_source = self.split.attributes["classes"]
        classes = np.array(of_source if self.labeled is None else self.artifacts["labels"].attributes["classes"])
        names = np.array(of_source) if of_source else classes  # without classes in the source all codes are -1
        dtype = np.result_type(names, classes) if names.dtype.kind == classes.dtype.kind else np.dtype(object)
        given = np.ma.masked_array(names[known].astype(dtype), known < 0)
        given[places] = classes[labels]
        return given, places


def _head(rows: FileRows, identifier: str | None, block: FileRowBlock, at: np.ndarray,
          columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the columns that name the rows of a table in the words of their files; the number of the row among them.

    block : rows of the files. at (r,) : which of them the rows of the table are.
    """
    if identifier is not None:
        head = identifier if identifier not in columns else f"{identifier} of the source"
        return {head: np.array(block.cells[0], str)[at]}
    if not rows.has_lines:
        return {}
    columns_of_head = {"row": columns["row"]}
    if len(rows.readers) > 1:
        columns_of_head["file"] = np.array(block.files, str)[at]
    return {**columns_of_head, "line": np.array(block.lines, np.int64)[at]}
