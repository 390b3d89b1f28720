"""Rows to label next, as the report and `dssl suggest` show them: both by `choose_rows` and `with_places`."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import DataError, require
from ..base.yaml import yaml_of
from ..data.ingest_params import IngestParams
from ..data.label_files import SUGGESTED, column_beside
from ..data.readers.file_rows import FileRow
from ..data.source_files import Source
from ..graph.vertices import Vertices, distinct_rows, find_vertices
from ..learners.model import Model
from ..learners.on_graph.model import GraphModel
from ..learners.probabilities import CALIBRATION, Calibration
from ..learners.target.coding import ClassCoding, margins_of
from ..methods.step import Context
from ..selection.suggest import OF_MODEL, HowSuggested, SuggestParams, suggest
from ..storage.files import CsvLines, draft_of, publish_once
from ..storage.views import SelectedRows
from .dataset import identifier_of, rows_in_files

HEADER = SUGGESTED[3:]  # the columns after those that name a row


@dataclass(frozen=True, eq=False)
class SuggestedRows:
    """Rows to label, the best first.

    rows (t,) : their numbers in the source, from 0. scores (t,) : the criterion. predicted (t,) : what the model says,
    None where it says nothing. probability (t,) : of that class, NaN where it is not known. attributes : JSON.
    columns : of the source but its target and what labels weigh, where it is a table that is still there. places : the
    rows as they stand in its files.
    identifier : the column that names them, None where there is none.
    label_files : of the run; the file with these labels comes after them in `labels.file`.
    weight : the column of what labels weigh, which is to be filled in; None where there is none, or the source has it.
    """

    rows: np.ndarray
    scores: np.ndarray
    predicted: Sequence[Any]
    probability: np.ndarray
    attributes: HowSuggested
    columns: tuple[str, ...] = ()
    places: Sequence[FileRow] = ()
    identifier: str | None = None
    label_files: tuple[str, ...] = ()
    weight: str | None = None

    def records(self) -> list[dict[str, Any]]:
        """Return each row as JSON; `line` (from 1), `file`, `cells` and `identifier` of a table."""
        records = [{"row": row, "score": score if np.isfinite(score) else None, "predicted": predicted,
                  "probability": None if probability != probability else probability}
                 for row, score, predicted, probability in zip(
                     self.rows.tolist(), self.scores.tolist(), self.predicted, self.probability.tolist(), strict=True)]
        for record, place in zip(records, self.places, strict=False):
            cells = dict(zip(self.columns, place.cells, strict=True))
            record |= {"file": place.file, "line": place.line, "cells": cells}
            if self.identifier is not None:
                record["identifier"] = cells[self.identifier]
        return records

    def next_files(self, out: Path) -> str:
        """Return what `labels.file` of the next run is, once the labels in `out` are filled in; for a shell."""
        return shlex.quote(f"labels.file=[{', '.join(yaml_of(name) for name in (*self.label_files, str(out)))}]")

    def write(self, out: Path, safe_csv: bool = False) -> None:
        """Write a CSV file with an empty column `label`, to be filled in and named by `labels.file` of the next run.

        So is the column of weights, where `weight` names one. safe_csv : see `CsvLines`.

        Raises DataError: there is such a file, whose labels would be lost.
        """
        require_new(out)
        with draft_of(out, publish_once) as draft, open(draft, "w", encoding="utf-8", newline="") as file:
            lines = CsvLines(file, safe_csv)
            beside = [[place.file, "" if place.line is None else place.line] for place in self.places]
            weighed = [] if self.weight is None or self.weight in SUGGESTED else [self.weight]
            lines.write(["row", *(["file", "line"] if beside else []), *HEADER, *weighed,
                         *map(column_beside, self.columns)])
            lines.write_all([row, *(beside[i] if beside else []), repr(score), "" if predicted is None else predicted,
                              "" if probability != probability else repr(probability), "", *("" for _ in weighed),
                              *(self.places[i].cells if beside else [])]
                             for i, (row, score, predicted, probability) in enumerate(zip(
                                 self.rows.tolist(), self.scores.tolist(), self.predicted, self.probability.tolist(),
                                 strict=True)))


def require_new(out: Path) -> None:
    """Raise DataError if there is a file already, whose labels would be lost."""
    require(not out.exists(), f"{out} is there already", why="labels that are filled in would be lost",
            fix="name another file, or remove it", error=DataError)


def choose_rows(context: Context, model: Model, params: SuggestParams) -> SuggestedRows:
    """Return which rows to label next, by the graph, the labels and the model of a run; without their places.

    context : with the artifacts of `split`, `points` and `labels`, and of `vertices`, `neighbors` and `graph` where the
    kind has them. Only eigenvectors of the graph are computed, and what the model says where a criterion asks for that.

    Raises DataError: fewer points are without a label. ParameterError: there is no graph, or quantities are predicted,
    and the criterion asks for it.
    """
    points, execution = context.points("train"), context.execution
    graph = context.graph() if "neighbors" in context.inputs else None
    vertices = context.vertices() if "vertices" in context.inputs else find_vertices(points, execution)
    labeled, coding = context.target().labeled, model.coding
    name = params.resolved(graph=graph is not None, rows=True, model=isinstance(coding, ClassCoding))
    margins = _margins(model, context, vertices, len(labeled)) if name in OF_MODEL else None
    train = context.rows("split", "train")
    outliers = (context.attributes("points")["scaling"].get("outliers") or {"rows": []})["rows"]
    skipped = np.flatnonzero(np.isin(train.read(0, len(train)), outliers)) if outliers else None
    chosen = suggest(vertices, graph, points, labeled, replace(params, criterion=name), execution, margins,
                     skipped=skipped)
    values, unsupported = model.values_and_unsupported(SelectedRows(points, chosen.ids), execution)
    rejected = unsupported & model.rejects
    predicted = [None if gone else label for label, gone in zip(coding.labels(values).tolist(), rejected, strict=True)]
    described, probability = model.attributes.get(CALIBRATION), np.full(len(values), np.nan)
    if described is not None:
        assert isinstance(coding, ClassCoding)  # calibrated
        likely = Calibration.from_dict(described).probabilities(margins_of(values, coding))
        probability = np.where(rejected, np.nan, likely[np.arange(len(likely)), coding.codes(values)])
    rows = train.take(chosen.ids)
    return SuggestedRows(rows, chosen.scores, predicted, probability, chosen.attributes)


def with_places(suggested: SuggestedRows, source: Source, read: IngestParams,
                attributes: Mapping[str, Any]) -> SuggestedRows:
    """Return the rows as they stand in the files of their source; as they are where it is no table.

    read : how the source was read. attributes : of the stage `dataset`. The column of weights is left out where the
    source has it: labels without a weight of their own weigh what the source says.
    """
    with rows_in_files(source, read, attributes) as rows:
        if rows is None:
            return suggested
        identifier = identifier_of(attributes)
        hidden = (attributes["dataset"].get("target"), suggested.weight)
        shown = [j for j, name in enumerate(rows.names) if name not in hidden]
        places = [replace(place, cells=tuple(place.cells[j] for j in shown))
                  for place in rows.take(suggested.rows.tolist())]
        return replace(suggested, columns=tuple(rows.names[j] for j in shown), places=places,
                       weight=None if suggested.weight in rows.names else suggested.weight,
                       identifier=identifier if identifier in rows.names else None)


def _margins(model: Model, context: Context, vertices: Vertices, n_labeled: int) -> np.ndarray:
    """Return the margins (v, n_classes) of the model at distinct training points, NaN where it says nothing."""
    # A function on the graph has them at its vertices; the nearest labels have values at the labeled points alone.
    if isinstance(model, GraphModel) and len(model.values_at) != n_labeled:
        values, unsupported = model.values_at, ~model.reachable
    else:
        rows = distinct_rows(context.points("train"), vertices, context.execution)
        values, unsupported = model.values_and_unsupported(context.execution.share_rows(rows), context.execution)
    return np.where(unsupported[:, None], np.nan, margins_of(values, model.coding))
