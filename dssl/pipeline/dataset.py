"""The stage of the data set: the source, read into parts."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..data.dataset import Dataset
from ..data.findings import dataset_notes
from ..data.ingest import ingest, open_source
from ..data.ingest_cost import ingest_cost
from ..data.ingest_params import IngestParams
from ..data.readers.file_rows import FileRows
from ..data.source_files import Source
from ..execution.cost import Cost
from ..report.sections.columns import columns_section
from ..storage.blocks import Rows
from ..storage.pieces import BlockedCsrRows
from .facts import Facts
from .spec import ingest_params
from .stage import Context, Stage


def make_dataset(context: Context, params: IngestParams) -> dict[str, Any]:
    """Read the source into parts."""
    dataset = ingest(context.files["source"].source, context.parts, context.execution, params)
    names = [name for name in ("X", "y", "split") if getattr(dataset, name) is not None]
    attributes = {name: value for name, value in dataset.attributes.items() if name != "source"}
    # Where the files lie is not what the address follows from.
    attributes["files"] = [{name: own[name] for name in ("digest", "rows")} for own in attributes["files"]]
    described = dataset.X.describe() if isinstance(dataset.X, BlockedCsrRows) else None
    return {"arrays": names, "n": len(dataset), "d": dataset.X.shape[1], "X": described, "dataset": attributes}


def dataset_of(context: Context) -> Dataset:
    """Return the data set as it was read."""
    attributes = context.attributes("dataset")
    described = attributes["X"]  # of sparse rows, which are no shared array
    arrays: dict[str, Rows] = {name: context.rows("dataset", name) for name in attributes["arrays"]
                               if name != "X" or described is None}
    if described is not None:
        arrays["X"] = BlockedCsrRows.of(context.inputs["dataset"].parts, described)
    return Dataset(arrays["X"], arrays.get("y"), arrays.get("split"), attributes["dataset"])


def identifier_of(attributes: Mapping[str, Any]) -> str | None:
    """Return the column that names the rows of a table and is no feature, None where there is none.

    attributes : of the stage `dataset`.
    """
    return next((record["name"] for record in attributes["dataset"].get("survey", ())
                 if record["finding"] == "identifier" and not record["used"]), None)


def rows_called(context: Context, rows: Sequence[int]) -> list[str]:
    """Return what rows are called beside their numbers, by line, file and identifier; nothing where it is no table.

    context : of a stage that reads the source too.
    """
    attributes = context.attributes("dataset")
    read = ingest_params({name: value for name, value in attributes["dataset"]["params"].items() if name != "type"},
                         "the options of the source")
    with rows_in_files(context.files["source"].source, read, attributes) as found:
        return [] if found is None else found.called(rows, identifier_of(attributes))


@contextmanager
def rows_in_files(source: Source, read: IngestParams, attributes: Mapping[str, Any]) -> Iterator[FileRows | None]:
    """Give the rows of a source as they stand in its files; None where it is no table.

    read : how the source was read. attributes : of the stage `dataset`.
    """
    with tempfile.TemporaryDirectory(prefix="dssl-") as scratch:
        yield FileRows.of(open_source(source, read, scratch=Path(scratch)), attributes["n"])


def _dataset_cost(f: Facts[Any]) -> Cost:
    assert f.scan is not None
    return ingest_cost(f.scan, f.read, f.row_bytes, f.budget)


DATASET = Stage("dataset", 9, (), lambda spec: spec.data.ingest_params(), make_dataset, _dataset_cost,
                "read fewer columns (data.read.drop)", files=("source",), intermediate=True, section=columns_section,
                notes=lambda found: dataset_notes(found["dataset"]))
