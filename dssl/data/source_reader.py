"""Open and scan the reader of a source, and report all of its wrong cells in one error."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from ..base.digest import digest
from ..base.errors import DataError, require
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..storage.blocks import MemoryParts, Parts, row_ranges
from .columns import Columns
from .dataset import Dataset
from .frames import element_name
from .ingest_cost import block_height
from .ingest_params import IngestParams
from .readers.base import CellError, Reader, Scan, text_is_no_label
from .readers.cells import Reading
from .readers.formats import FORMATS, format_of, is_table, open_reader
from .readers.joined import JoinedReader
from .readers.table import TARGET
from .refused_cells import refused_cells
from .source_files import Source, fingerprint
from .sources import fetch


def open_source(source: Source, params: IngestParams | None = None, *, scratch: Path, like: Dataset | None = None,
                columns: Columns | None = None, leave_out: Collection[str] = ()) -> Reader:
    """Return the reader of a source; several files must have one format, and are read as one. See `open_reader`."""
    params = params or IngestParams()
    formats = [format_of(file.path, params.format) for file in source.files]
    for file, name in zip(source.files, formats, strict=True):
        require(name == formats[0], f"{file.name} is {name}, {source.files[0].path} is {formats[0]}",
                why="files are read as one only if they have the same format", error=DataError,
                fix="name files of one format; add the others with `dssl ingest --append`")
        fetch(file)
    takes_decimal = "decimal" in FORMATS.named(formats[0]).options
    if like is not None and like.attributes.get("decimal") and params.decimal is None and takes_decimal:
        params = replace(params, decimal=like.attributes["decimal"])
    readers = [open_reader(file.path, params.format, scratch=scratch, labels=file.labels, **params.reader_options())
               for file in source.files]
    readers = [reader.without(leave_out) if "drop" in reader.options else reader for reader in readers]
    if columns is not None or like is not None:
        readings: dict[str | int, Reading] = columns.read_as() if columns is not None else {}
        if columns is None and like is not None:
            readings = dict.fromkeys(like.feature_names or [*range(like.X.shape[1])], Reading())
        if like is not None and like.attributes.get("target_unit"):
            readings[TARGET] = Reading("number", like.attributes["target_unit"])
        readers = [reader.fixed(readings) for reader in readers]
    if like is not None:
        names = columns.names if columns else like.feature_names
        return JoinedReader(readers, names, str(like.attributes.get("source") or "the data set"))
    return readers[0] if len(readers) == 1 else JoinedReader(readers)


def scan_source(source: Source, params: IngestParams, scratch: Path, budget: int, like: Dataset | None = None) -> Scan:
    """Return the scan of a source, or of the rows that it adds to the data set `like`.

    scratch : a folder for decompressed files. Raises DataError: the source cannot be used.
    """
    columns, leave_out = (None, list[str]()) if like is None else (Columns.of(like.attributes), excluded_from(like))
    try:
        return open_source(source, params, scratch=scratch, like=like, columns=columns, leave_out=leave_out).scan()
    except CellError as error:
        raise of_all_cells(error, source, params, InProcess(1, budget), MemoryParts(), scratch, like, columns,
                           leave_out) from error


def excluded_from(dataset: Dataset) -> list[str]:
    """Return the names of the columns of a table that its data set does not have."""
    return [record["name"] for record in dataset.attributes.get("survey", ()) if not record["used"]]


def of_all_cells(error: CellError, source: Source, params: IngestParams, execution: Execution, parts: Parts,
                 scratch: Path, like: Dataset | None = None, columns: Columns | None = None,
                 leave_out: Collection[str] = ()) -> DataError:
    """Return the error for all cells of a source that are not numbers; `error` reports only the first.

    The other parameters are those of `ingest`.
    """
    tables = is_table(format_of(source.path, params.format))
    lenient = replace(params, when_text="one_hot") if tables else params
    reader = open_source(source, lenient, scratch=scratch, like=like, columns=columns, leave_out=leave_out)
    refuse_odd_labels(reader)
    scan = reader.scan()
    height = block_height(scan, lenient, execution.memory_budget, is_sparse=scan.nnz is not None)
    key = digest({"cells": params, "bytes": fingerprint(source)})
    refused = refused_cells(reader, row_ranges(scan.n_rows, height), source.name, execution,
                          parts.within("surveys").within(key[:16]),
                          takes_text=params.has_text or (columns is not None and bool(columns.levels)),
                          fills=params.when_missing == "impute" if columns is None else columns.fill is not None,
                          is_new=like is not None or columns is not None, has_keys=params.keep_ids is not True)
    return refused or error


def refuse_odd_labels(reader: Reader) -> None:
    """Raise DataError if a target of numbers has cells of text."""
    if (cells := reader.scan().odd_labels).texts:
        raise text_is_no_label(reader, cells)


def column_names_of(source: Source, params: IngestParams, beside: Sequence[str | int], scratch: Path) -> list[str]:
    """Return the names of all columns of a source; none where its format has no names.

    beside : columns that are no features; a list of integers among them is one column.
    """
    names = open_source(source, params, scratch=scratch).column_names()
    lists = [name for name in beside if isinstance(name, str) and name not in names and element_name(name, 0) in names]
    if lists:
        params = replace(params, drop=(*(params.drop or ()), *lists))
        names = open_source(source, params, scratch=scratch).column_names()
    return list(names)
