"""Which rows to label next, from what a run has solved: its graph, its labels and its model."""

import csv
import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.ingest import open_source
from ..data.readers.file_rows import TABLES, FileRow, FileRows
from ..data.sources import find_source, fingerprint
from ..errors import DataError, explain, require
from ..execution.tasks import Execution
from ..graph.vertices import Vertices, distinct_rows, find_vertices
from ..learners.coding import ClassCoding, margins_of
from ..learners.on_graph.model import GraphModel
from ..learners.probabilities import CALIBRATION, Calibration
from ..plain_yaml import yaml_of
from ..selection.suggest import OF_MODEL, Criterion, SuggestParams, suggest
from ..storage.artifacts import Artifact, Workspace, manifest_of, read_manifest
from ..storage.files import read_json
from ..storage.views import SelectedRows
from .graphs import graph_of, vertices_of
from .plan import DEFAULT_WORKSPACE, plan
from .points import labeled_target
from .prediction import FittedPipeline, model_folder, open_model
from .spec import ingest_params
from .stage import Context

HEADER = ("score", "predicted", "probability", "label")
YAML = (".yaml", ".yml")


@dataclass(frozen=True, eq=False)
class SuggestedRows:
    """Rows to label, the best first.

    rows (t,) : their numbers in the source, from 0. scores (t,) : the criterion. predicted (t,) : what the model says,
    None where it says nothing. probability (t,) : of that class, NaN where it is not known. attributes : JSON.
    columns : of the source, where it is a table that is still there. places : the rows as they stand in its files.
    label_files : of the run; the file with these labels comes after them in `labels.file`.
    """

    rows: np.ndarray
    scores: np.ndarray
    predicted: Sequence[Any]
    probability: np.ndarray
    attributes: dict[str, Any]
    columns: tuple[str, ...] = ()
    places: Sequence[FileRow] = ()
    label_files: tuple[str, ...] = ()

    def records(self) -> list[dict[str, Any]]:
        """Return each row as JSON; `line` (from 1), `file` and `cells` of a table."""
        found = [{"row": row, "score": score if np.isfinite(score) else None, "predicted": predicted,
                  "probability": None if probability != probability else probability}
                 for row, score, predicted, probability in zip(
                     self.rows.tolist(), self.scores.tolist(), self.predicted, self.probability.tolist(), strict=True)]
        for record, place in zip(found, self.places, strict=False):
            record |= {"file": place.file, "line": place.line, "cells": dict(zip(self.columns, place.cells,
                                                                                strict=True))}
        return found

    def _named(self) -> list[str]:
        """Return the names of the columns of the source, none of them that of another column of the file."""
        taken = {"row", "file", "line", *HEADER}
        return [f"{name} of the source" if name in taken else name for name in self.columns]

    def next_files(self, out: Path) -> str:
        """Return what `labels.file` of the next run is, once the labels in `out` are filled in; for a shell."""
        return shlex.quote(f"labels.file=[{', '.join(yaml_of(name) for name in (*self.label_files, str(out)))}]")

    def write(self, out: Path) -> None:
        """Write a CSV file with an empty column `label`, to be filled in and named by `labels.file` of the next run.

        Raises DataError: there is such a file, whose labels would be lost.
        """
        require_new(out)
        with open(out, "x", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            beside = [[place.file, "" if place.line is None else place.line] for place in self.places]
            writer.writerow(["row", *(["file", "line"] if beside else []), *HEADER, *self._named()])
            writer.writerows([row, *(beside[i] if beside else []), repr(score), "" if predicted is None else predicted,
                              "" if probability != probability else repr(probability), "",
                              *(self.places[i].cells if beside else [])]
                             for i, (row, score, predicted, probability) in enumerate(zip(
                                 self.rows.tolist(), self.scores.tolist(), self.predicted, self.probability.tolist(),
                                 strict=True)))


def require_new(out: Path) -> None:
    """Raise DataError if there is a file already, whose labels would be lost."""
    require(not out.exists(), f"{out} is there already", why="labels that are filled in would be lost",
            fix="name another file, or remove it", error=DataError)


def finished_models(name: str | Path, workspace: str | Path) -> Path:
    """Return the folder of the models of a run, by its folder, result.json or identity, or of a spec that has been run.

    Raises DataError: there is none.
    """
    path, run = Path(name), Workspace.at(workspace).root / "runs" / str(name)
    if path.suffix not in YAML:
        return model_folder(run if run.is_dir() and not path.exists() else path)
    made = plan(path, workspace=workspace)
    artifact = made.artifact(made.kind.model) if made.kind.model else None
    if artifact is None or not artifact.exists:
        raise DataError(explain(f"{path} has not been run in {workspace}", fix="run it first, or check --workspace",
                                why="points are chosen by its graph, its labels and its model"))
    return artifact.folder


def artifacts_behind(folder: Path) -> dict[str, Artifact]:
    """Return the artifact in a folder and all that it follows from, by stage.

    Raises IntegrityError: a manifest is damaged, or one is of another artifact.
    """
    workspace, found, pending = Workspace.at(folder.parents[2]), dict[str, Artifact](), [folder]
    while pending:
        described = read_manifest(manifest_of(pending.pop()))
        own = workspace.artifact(described["stage"], described["version"], described["params"], described["inputs"])
        found[own.stage] = own
        behind = [folder.parents[1] / stage / address[:24] for stage, address in own.inputs.items()
                  if stage not in found]
        pending += [place for place in behind if manifest_of(place).is_file()]  # files from outside are inputs too
    return found


def suggest_rows(run: str | Path, execution: Execution, *, count: int = 10, criterion: Criterion = "auto",
                 seed: int = 0, workspace: str | Path = DEFAULT_WORKSPACE) -> SuggestedRows:
    """Return which rows of the source of a finished run to label next; `run` as `finished_models`.

    The graph, the labels and the model are those of the run; only eigenvectors of the graph are computed, and what the
    model says where a criterion asks for that. count, criterion, seed : as in `SuggestParams`.

    Raises
    ------
    DataError : there is no such run; it learned from no labels, or holds fewer points without a label. ParameterError :
    its kind of model has no graph, or predicts quantities, and the criterion asks for it. IntegrityError : an artifact
    is damaged.
    """
    params = SuggestParams(count=count, criterion=criterion, seed=seed)
    folder = finished_models(run, workspace)
    behind = artifacts_behind(folder)
    require("labels" in behind, f"{run} learned from no labels", why="those of its rows would be added to them",
            fix="name a run of a classification or a regression", error=DataError)
    context = Context(behind, {}, behind[folder.parent.name].parts, execution)
    fitted, points = open_model(folder), context.points("train")
    graph = graph_of(context) if "neighbors" in behind else None
    vertices = vertices_of(context) if "vertices" in behind else find_vertices(points, execution)
    labeled = labeled_target(context).labeled
    name = params.chosen(graph=graph is not None, rows=True, model=isinstance(fitted.model.coding, ClassCoding))
    margins = _margins(fitted, context, vertices, execution) if name in OF_MODEL else None
    found = suggest(vertices, graph, points, labeled, replace(params, criterion=name), execution, margins)
    values, beyond = fitted.model.values_and_beyond(SelectedRows(points, found.ids), execution)
    coding, lost = fitted.model.coding, beyond & fitted.model.abstains
    predicted = [None if gone else label for label, gone in zip(coding.labels(values).tolist(), lost, strict=True)]
    described, probability = fitted.model.attributes.get(CALIBRATION), np.full(len(values), np.nan)
    if described is not None:
        likely = Calibration.from_described(described).probabilities(margins_of(values, coding)).max(axis=1)
        probability = np.where(lost, np.nan, likely)
    rows, spec = context.rows("split", "train").take(found.ids), _spec_of(folder)
    columns, places = _in_files(rows.tolist(), spec, behind["dataset"])
    files = (spec.get("labels") or {}).get("file") or ()
    return SuggestedRows(rows, found.scores, predicted, probability, found.attributes, columns, places,
                         (files,) if isinstance(files, str) else tuple(files))


def _spec_of(folder: Path) -> dict[str, Any]:
    """Return the spec of the newest run whose models lie in a folder; an empty one where none is there any more."""
    for result in sorted(folder.parents[2].glob("runs/*/result.json"), reverse=True):
        named = read_json(result).get("model")
        if named and (result.parent / named).resolve() == folder.resolve() and (result.parent / "spec.json").is_file():
            return dict(read_json(result.parent / "spec.json"))
    return {}


def _in_files(rows: Sequence[int], spec: dict[str, Any],
              dataset: Artifact) -> tuple[tuple[str, ...], Sequence[FileRow]]:
    """Return the columns of the source of a run, and some rows as they stand in its files.

    Nothing where it is no table, or is not there as it was read.
    """
    if not spec or dataset.attributes["dataset"].get("format") not in TABLES:
        return (), ()
    read = ingest_params(spec["data"]["read"], "data.read")
    try:
        source = find_source(spec["data"]["source"], labels=read.labels, format=read.format, download=False)
    except DataError:
        return (), ()
    if fingerprint(source) != dataset.attributes["dataset"]["fingerprint"]:
        return (), ()
    with tempfile.TemporaryDirectory(prefix="dssl-") as scratch:
        reader = open_source(source, read, scratch=Path(scratch))
        found = FileRows.of(reader, vars(read), dataset.attributes["n"])
        return ((), ()) if found is None else (found.names, found.take(rows))


def _margins(fitted: FittedPipeline, context: Context, vertices: Vertices, execution: Execution) -> np.ndarray:
    """Return the margins (v, n_classes) of the model at distinct training points, NaN where it says nothing."""
    model = fitted.model
    if isinstance(model, GraphModel):
        values, beyond = model.values_at, ~model.reached
    else:
        rows = distinct_rows(context.points("train"), vertices, execution)
        values, beyond = model.values_and_beyond(execution.share_rows(rows), execution)
    return np.where(beyond[:, None], np.nan, margins_of(values, model.coding))
