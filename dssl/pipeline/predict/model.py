"""Open the model of a run, to predict new points."""

import re
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...base.errors import DataError, SpecError, explain, require
from ...base.types import MatrixLike
from ...data.columns import Columns, unseen_note
from ...data.dataset import Dataset
from ...data.findings import SurveyRecord
from ...data.frames import as_pandas, column_of, with_elements
from ...data.ingest import ingest
from ...data.ingest_params import IngestParams
from ...data.readers.formats import FORMATS, format_of, open_reader
from ...data.readers.stored import StoredReader
from ...data.scaling.out_of_range import Comparison, Ranges
from ...data.scaling.scaling import ScaledRows, Scaling
from ...data.source_files import Source
from ...data.source_reader import column_names_of, with_decimal
from ...data.sources import find_source
from ...data.table_cells import as_read
from ...data.targets import MAX_NAMES
from ...estimators.export import cells_of_table, export_model
from ...estimators.predict_to import predict_to_zarr
from ...execution.tasks import Execution
from ...learners.model import Model, stored_models
from ...learners.probabilities import Calibration, TagCalibration, calibration_of
from ...learners.target.coding import ClassCoding, TagCoding, margins_of
from ...storage.artifacts import parts_in
from ...storage.blocks import Parts, Rows
from ...storage.csr import as_rows
from ...storage.hdf5 import Original
from ...storage.manifests import read_manifest
from ...storage.views import ChosenColumns
from .. import kinds  # noqa: F401  (a kind registers the types of its models)
from ..validation import ingest_params
from .model_folder import model_folder, model_manifest
from .to_file import FROM_NOTHING, Continued, RowNames, has_room, predict_to_file

PANDAS_INDEX = r"__index_level_\d+__"  # the column of an index without a name, which no model is fitted on
WRITTEN = (".csv", ".parquet", ".npz", ".npy", ".zarr", ".h5ad")


@dataclass(frozen=True)
class FittedPipeline:
    """A model with the scaling of its training points, and how these were read: predicts raw points.

    dataset : attributes of the training data set: `feature_names` and `target`, or None where it had no names.
    ranges : of the training points. address : of the artifact that holds the model.
    """

    scaling: Scaling
    model: Model
    dataset: dict[str, Any]
    read: IngestParams
    ranges: Ranges
    address: str

    def predict(self, X: Rows, execution: Execution | None = None) -> np.ndarray:
        """Return the predicted classes or quantities of raw points X (n, d), dense or sparse, shape (n,)."""
        return self.model.coding.labels(self.model.values(self._scaled(X, execution), execution))

    def compared(self, X: Rows, execution: Execution) -> Comparison:
        """Return how raw points X (n, d) lie to the ranges of the training points."""
        return self.ranges.compare(as_rows(X), execution)

    def _scaled(self, X: Rows, execution: Execution | None) -> ScaledRows:
        return ScaledRows(execution.share_rows(as_rows(X)) if execution else as_rows(X), self.scaling, execution)

    def calibration(self) -> Calibration | TagCalibration:
        """Return what makes probabilities of the model's scores; raise DataError where nothing was calibrated."""
        require(isinstance(self.model.coding, ClassCoding | TagCoding), "the model has no probabilities",
                error=DataError, why="it predicts quantities, not classes", fix="leave --probabilities out")
        calibration = calibration_of(self.model.attributes)
        if calibration is None:
            raise DataError(explain(
                "the model has no probabilities", why="a model has them of classes with two labels or more "
                "each, and no baseline has; laprls and lapsvm where leaving labels out fits the "
                "memory budget", fix="leave --probabilities out, label a second point of each class, or raise the "
                "budget"))
        return calibration

    def predict_proba(self, X: Rows, execution: Execution | None = None) -> np.ndarray:
        """Return the probability of each class of raw points X (n, d), (n, n_classes); raise as `calibration` does."""
        calibration, values = self.calibration(), self.model.values(self._scaled(X, execution), execution)
        return calibration.probabilities(margins_of(values, self.model.coding))

    def export(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the model, and how cells of a table become numbers, to one file; see `PointPredictor.export`."""
        columns, decimal = self._columns_of(self.model.n_features), self.dataset.get("decimal")
        names = None if columns.names is None else list(columns.names)
        is_table = decimal is not None or Columns.of(self.dataset) is not None
        return export_model(path, self.model, self.scaling, None, names,
                            cells_of_table(columns, self.read, decimal) if is_table else None, overwrite=overwrite)

    def _columns_of(self, n_columns: int) -> Columns:
        """Return the encoding of the columns of the training data, which without one are n numbers as they are."""
        return Columns.of(self.dataset) or Columns.of_numbers(self.dataset.get("feature_names"), n_columns, {})

    def write(self, X: Rows, out: Path, execution: Execution, *, reject: bool = False, probabilities: bool = False,
              outliers: Rows | None = None, names: RowNames | None = None, safe_csv: bool = False,
              continued: Continued | None = None, cells: Original | None = None) -> dict[str, Any]:
        """Write the predictions of raw points X (n, d) to a path of one of `WRITTEN`; return what they are (JSON).

        They are made by tasks in blocks, and written block by block; see `predict_to_file`, and `predict_to_zarr`,
        which tells what is returned.

        reject : whether points without support get no label; those of a model that rejects never do. outliers : then
        those that are far out of the ranges of the training points, bool (n,), get none either; see `compared`.
        probabilities : whether a table has a column a class too, and an array holds them in place of the labels,
        (n, n_classes), in the order of the classes; NaN, or an empty cell, where there is no label.

        names : of the rows, the first column of a table in place of their numbers. safe_csv : whether text in a CSV
        file that a spreadsheet would take for a formula is escaped; see `CsvLines`. continued : the table that a .csv
        or .parquet file begins with. cells : the .h5ad file of the points, of which one with their labels is a copy.

        Raises DataError: an array has no room for no label, and some point gets none; see `predict_to_zarr`; there are
        no probabilities.
        """
        calibration = self.calibration() if probabilities else calibration_of(self.model.attributes)
        rows, outliers = self._scaled(X, execution), outliers if reject else None
        reject = reject or self.model.rejects
        if out.suffix == ".zarr":
            return predict_to_zarr(self.model, rows, out, execution, reject=reject, outliers=outliers,
                                   calibration=calibration if probabilities else None)
        return predict_to_file(self.model, rows, out, execution, reject=reject, calibration=calibration,
                               outliers=outliers, of_all=probabilities, names=names, safe_csv=safe_csv,
                               continued=continued or FROM_NOTHING, cells=cells)

    def has_room(self, out: Path, *, probabilities: bool) -> bool:
        """Return whether a file of this name can say that a point has no label."""
        return has_room(out.suffix, self.model.coding, of_all=probabilities)

    def dataset_of(self, source: str | Path | Sequence[str | Path] | Source, execution: Execution,
                   parts: Parts | None = None, **options: Any) -> Dataset:
        """Return the points of a source, read as the training points were, with `options` of the reader on top.

        parts : where they are written; scratch of the execution by default.
        Columns with the same names are matched by name, in any order, and a table may hold the target or not, nor need
        it hold those that were left out; an identifier among these is the target of what is returned (`names_of`).
        Files of another format, whose names are others or none, are taken column by column. A stored data set is not
        copied.
        Missing cells and text become what they became in the training data: its means and its levels. A text that it
        did not have is 0 in all columns of its levels, and counted in the attribute `unseen`. A file of a format
        without text holds the columns of the levels themselves.

        Raises DataError: a feature is missing, there are columns that the model does not know, or another number of
        them; a cell is missing, and missing cells were an error in training.
        """
        choices = sorted({"when_missing", "when_text"} & set(options))
        require(not choices, f"{', '.join(choices)} cannot be set for a prediction", error=SpecError,
                why="fills and levels are those of the training data", fix="set it under data.read, and run again")
        files = source if isinstance(source, Source) else find_source(source, format=options.get("format") or None)
        kind = format_of(files.path, options.get("format") or None)
        known, same, columns = FORMATS.named(kind).options, kind == self.dataset["format"], Columns.of(self.dataset)
        if columns is None and same and "drop" in known:  # numbers, however the new file writes them
            columns = Columns.of_numbers(self.dataset.get("feature_names"), self.model.n_features, {})
        levels = columns is not None and bool(columns.levels)
        target = "none" if "target" in known else None
        categories = self._categories()
        if same:
            params = replace(self.read, target=target, labels=None, split=None, categories=categories)
        else:
            params = IngestParams(target=target, dtype=self.read.dtype,
                                  matrix=self.read.matrix if "matrix" in known else None,
                                  when_text="one_hot" if levels and "when_text" in known else "error",
                                  categories=categories if "categories" in known else None)
        # A stored data set has its own, which are compared; a format without text holds those that text became.
        if kind == StoredReader.format or (not same and levels and "when_text" not in known):
            columns = None
        expected = list(columns.names or ()) if columns else self.dataset.get("feature_names")
        fixed: dict[str, Any] = {"sparse": bool(self.dataset.get("sparse"))}
        if same and "zero_based" in known:  # a file need not show the last column, nor the first
            fixed |= {"n_columns": self.model.n_features, "zero_based": self.dataset["zero_based"]}
        params = replace(params, **(fixed | options))
        named = None
        if expected:
            dropped = self._columns_to_drop(files, params, expected, strict=same, has_drop="drop" in known)
            params = replace(params, drop=dropped) if "drop" in known else params
            named = self._identifier(files, params) if "when_text" in known and "target" not in options else None
            if named is not None:  # it is read in place of a target
                params = replace(params, target=named, drop=tuple(name for name in dropped if name != named))
        elif kind == "csv":  # of other tables a column may be a list of features
            self._require_width(files, params)
        if same and self.dataset.get("decimal") and params.decimal is None:
            with tempfile.TemporaryDirectory() as folder:
                params = with_decimal(files, params, self.dataset["decimal"], Path(folder))
        if kind == StoredReader.format and not files.more:
            reader = open_reader(files.path, scratch=Path(), **params.reader_options())
            assert isinstance(reader, StoredReader)
            dataset = self._as_stored(reader.dataset, files.name)
        else:
            dataset = ingest(files, parts or execution.scratch(), execution, params, columns=columns, examine=False,
                             leave_out=[name for name in self._excluded() if name != named] if expected else ())
        if columns is not None:
            return dataset
        X, names = dataset.X, dataset.feature_names
        if expected and names and len(set(names)) == len(names) and set(expected) <= set(names) <= {
                *expected, *self._excluded()}:
            order = [names.index(name) for name in expected]
            return dataset if order == [*range(len(names))] else replace(dataset, X=ChosenColumns(X, order))
        width = len(self.dataset["feature_names"] or ()) or self.model.n_features
        require(X.shape[1] == width, error=DataError,
                what=f"{files.name} has {X.shape[1]} features, the model was fitted on {width}",
                why="a kernel compares equal features",
                fix="pass the columns of the training data; name the labels' column with --read target=NAME")
        return dataset

    def _identifier(self, source: Source, params: IngestParams) -> str | None:
        """Return the column of a table that names its rows, and was left out of the training data; None without one.

        Nor where a file of several lacks it, or it has more texts than a target may.
        """
        identifiers = self._identifiers()
        if not identifiers:
            return None
        with tempfile.TemporaryDirectory() as folder:
            names, given = [record["name"] for record in identifiers], params.drop or ()
            others = (name for name in _names_of(source, params) if name in self._excluded() and name not in given)
            drop = tuple(column for column in (*given, *others) if column not in names)
            options = {**params.reader_options(), "drop": drop or None, "when_text": "one_hot"}  # rows are counted
            readers = [open_reader(file.path, params.format, scratch=Path(folder), **options) for file in source.files]
            for record in identifiers:
                if all(record["name"] in reader.column_names() for reader in readers) and (
                        record["kind"] != "text" or (not source.more and readers[0].scan().n_rows <= MAX_NAMES)):
                    return str(record["name"])
        return None

    def _identifiers(self) -> list[SurveyRecord]:
        return [record for record in self.dataset.get("survey", ())
                if record["finding"] == "identifier" and not record["used"]]

    def names_of(self, dataset: Dataset) -> RowNames | None:
        """Return what names the rows of what `dataset_of` returned; None where their numbers do."""
        target = dataset.attributes.get("target")
        if dataset.y is None or target not in [record["name"] for record in self._identifiers()]:
            return None
        texts = dataset.attributes.get("label_names")
        return RowNames(str(target), dataset.y, None if texts is None else np.array([*texts, ""]))

    def rows_of(self, X: str | Path | MatrixLike, execution: Execution) -> Rows:
        """Return raw points as rows that the model predicts.

        X : a source (see `dataset_of`), a DataFrame of any library with the columns of the training data among its
            own, or an array or sparse matrix (n, d) of what these became.

        Raises DataError: columns are missing, or there are others; cells are missing, and were an error in training.

        Warns
        -----
        UserWarning : a category did not occur in the training data.
        """
        if isinstance(X, (str, Path)):
            dataset = self.dataset_of(X, execution)
            for column, texts in dataset.attributes.get("unseen", {}).items():
                warnings.warn(unseen_note(column, texts["rows"], texts["texts"]), UserWarning, stacklevel=4)
            return dataset.X
        X = as_pandas(X)
        if isinstance(X, pd.DataFrame):
            X, columns = with_elements(X), Columns.of(self.dataset)
            read_as = self._columns_of(X.shape[1])
            names = list(read_as.names or ())
            X = X.set_axis([str(name) for name in X.columns], axis="columns")
            stored = [column_of(name, list(X.columns)) for name in names]
            self._require_features("X", [*dict.fromkeys(stored)], list(X.columns))
            if names or X.shape[1] == read_as.n_columns:
                X = as_read(X, read_as.read_as(), self.read, self.dataset.get("decimal"))
            if columns is not None:
                encoded = columns.apply(X, columns.order(None, X.shape[1], "X"))
                for j, (n_rows, texts) in encoded.unseen.items():
                    warnings.warn(unseen_note(names[j] if names else j, n_rows, texts), UserWarning, stacklevel=4)
                X = encoded.X
        rows = Dataset.from_arrays(X).X
        if not rows.is_sparse:
            rows = as_rows(rows.read_all().astype(self.read.dtype, copy=False))  # as a file of them would be read
        require(rows.shape[1] == self.model.n_features, error=DataError,
                what=f"X has {rows.shape[1]} features, the model was fitted on {self.model.n_features}",
                why="a kernel compares equal features", fix="pass the columns of the training data")
        return rows

    def _as_stored(self, dataset: Dataset, name: str) -> Dataset:
        """Return a stored data set whose columns were made as those of the model; raise DataError if they were not."""
        columns, columns_of_new = Columns.of(self.dataset), Columns.of(dataset.attributes)
        require((columns_of_new is None) == (columns is None)
                and (columns is None or columns_of_new is None or columns.equals(columns_of_new)),
                f"{name} has other fills of missing cells or other levels of text than the training data",
                why="its columns are not those that the model was fitted on", error=DataError,
                fix="predict the file that it was read from")
        attributes = {name: value for name, value in dataset.attributes.items() if name not in ("imputed", "unseen")}
        return replace(dataset, attributes=attributes)

    def _categories(self) -> tuple[str | int, ...] | None:
        """Return what `categories` names of the features; a new file need not have columns that were left out."""
        columns = Columns.of(self.dataset)
        names = (columns.names if columns else None) or self.dataset.get("feature_names")
        if self.read.categories is None or not names:
            return self.read.categories
        excluded = self._excluded()
        return tuple(column for column in self.read.categories if column not in excluded)

    def _excluded(self) -> list[str]:
        """Return the names of the columns of the training file that are no features."""
        return [record["name"] for record in self.dataset.get("survey", ()) if not record["used"]]

    def _require_features(self, source: str, expected: Sequence[str], names: Sequence[str]) -> None:
        """Raise DataError if a table lacks a feature; what it has beside the known columns may be it, misspelled."""
        missing = [name for name in expected if name not in names]
        features = [name for name in names if name not in ("", self.dataset.get("target"))]
        unknown = [name for name in features if name not in {*expected, *self._excluded()}]
        columns = Columns.of(self.dataset)
        cells = ", with empty cells where nothing is known" if columns is not None and columns.fill is not None else ""
        known_as = ", ".join(unknown[:8])
        them, which = ("it", "the column") if len(missing) == 1 else ("them", "the columns")
        rest = f", or rename the column that holds {them}; the model does not know {known_as}" if unknown else \
            f"; its columns are {', '.join(features[:40])}"
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        require(not missing, error=DataError,
                what=f"{source} lacks {which} {', '.join(missing[:8])}{more}",
                why=f"the model was fitted on {them}", fix=f"add {them}{cells}{rest}")

    def _require_width(self, source: Source, params: IngestParams) -> None:
        """Raise DataError if a table has another number of columns than the model, whose features have no names.

        It is raised before the cells are read: those of other columns may well be text.
        """
        names, width = _names_of(source, params), self.model.n_features
        excluded = {"", params.target, *(params.drop or ())}
        features = [name for number, name in enumerate(names) if name not in excluded and number not in excluded]
        require(not names or len(features) == width, error=DataError,
                what=f"{source.name} has {_columns(len(features))}, the model needs {width:,}",
                why="the training data had no column names, so columns are matched by their order",
                fix="pass the columns of the training data in their order; name the labels' column with "
                    "--read target=NAME, and leave others out with --read drop=[NAME]")

    def _columns_to_drop(self, source: Source, params: IngestParams, expected: list[str], *,
                         strict: bool, has_drop: bool) -> tuple[str | int, ...]:
        """Return the columns of a table that are no features: the target of the training file, and given ones.

        Unless it is `strict`, a table that has none of the names of the features is one of other names. has_drop :
        whether columns of its format can be left out.
        """
        names = _names_of(source, params)
        if not strict and not set(names) & set(expected):
            names = []
        dropped = tuple(column for column in params.drop or () if not names or column in names)
        expected = [column_of(name, names) for name in expected]
        if names:
            self._require_features(source.name, expected, names)
        targets, out = {self.dataset.get("target"), params.target}, set(self._excluded())
        unnamed = tuple(number for number, name in enumerate(names) if name == "")
        index = tuple(name for name in names if re.fullmatch(PANDAS_INDEX, name)
                      and name not in {*expected, *dropped, params.target})
        unknown = [name for name in names if name not in {*expected, *dropped, *index, *targets, *out, ""}]
        require(not unknown, f"{source.name} has columns that the model does not know: {', '.join(unknown[:8])}",
                error=DataError, why="it was not fitted on them",
                fix=f"leave them out: --read 'drop=[{', '.join(unknown[:8])}]'" if has_drop else
                "leave them out where the data set is made")
        return (*dropped, *unnamed, *index, *(
            name for name in names if name in targets - {params.target} and name not in dropped))


def _columns(count: int) -> str:
    return f"{count:,} column{'' if count == 1 else 's'}"


def _names_of(source: Source, params: IngestParams) -> list[str]:
    """Return the names of all columns of a source, by its first file; none where the format has no names."""
    with tempfile.TemporaryDirectory() as folder:
        return column_names_of(source.files[0], replace(params, drop=None), params.drop or (), Path(folder))


def open_model(path: str | Path, name: str = "model") -> FittedPipeline:
    """Return a fitted pipeline from what `model_folder` takes; raise DataError if there is no such model."""
    folder = model_folder(path)
    described = read_manifest(folder / "manifest.json")
    models = described["attributes"].get("models", {})
    if name not in models:
        raise DataError(explain(f"{folder} has no model named {name!r}", why="the run fitted no such model",
                                fix=f"choose one of {', '.join(models)}"))
    artifacts = folder.parent.parent
    points = artifacts / "points" / described["inputs"]["points"][:24]
    prepared = model_manifest(points)
    scaling = Scaling.from_arrays(parts_in(points).within("scaling").read(0), prepared["attributes"]["scaling"])
    data = model_manifest(artifacts / "dataset" / prepared["inputs"]["dataset"][:24])
    model = stored_models(parts_in(folder), {name: models[name]}).open()[name]
    ranges = Ranges.from_arrays(parts_in(points).within("ranges").read(0), scaling.attributes["n_training_rows"])
    return FittedPipeline(scaling, model, data["attributes"]["dataset"],
                          ingest_params({name: value for name, value in data["params"].items() if name != "type"},
                                        "the training data's options"), ranges, described["address"])
