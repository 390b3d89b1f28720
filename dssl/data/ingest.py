"""Ingest: reads a source into a data set, in parallel blocks of rows.

Block step: read and check rows, write X and split, and keep the block's target and column traits. Combine step: find
one type for the target, and the names of its classes over all blocks. Finish step: write the target in that type. If
missing cells or text have to be encoded, or the first rows show a possible identifier, a first pass surveys all rows
(`survey`).
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from ..base.digest import JsonObject, digest, plain
from ..base.errors import DataError, IntegrityError, column_label, require
from ..base.types import is_sparse
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..storage.blocks import MemoryParts, Parts, PartWriter, Receipt, row_ranges
from ..storage.csr import as_csr, csr_arrays
from ..storage.foreign_zarr import is_zarr
from ..storage.store import MANIFEST, StoredParts
from ..storage.verify import clear_unfinished
from ..storage.views import BlockedCsrRows
from .columns import Columns, Encoded, some_texts
from .dataset import Dataset, open_stored
from .findings import ColumnRecord, examined, excluded_columns, to_json, with_dropped
from .floats import (
    floats,
    infinite_texts,
    narrow_columns,
    not_finite,
    original_text,
    refuse_bad_values,
    refuse_indistinct_columns,
)
from .ingest_leftovers import clear_other_parts, scratch_folder
from .ingest_params import IngestParams
from .readers.base import Block, CellError, Reader, Scan
from .readers.column_choice import text_is_no_feature
from .readers.formats import format_of
from .readers.joined import require_same_arrays
from .readers.stored import StoredReader
from .source_files import FileRecord, Source, digested, fingerprint
from .source_reader import (
    block_height,
    excluded_from,
    makes_sparse,
    of_all_cells,
    open_source,
    refuse_odd_labels,
    require_identifiers,
)
from .sources import find_source
from .survey import choose_columns, survey_file
from .targets import code_text, write_target
from .traits import FIGURES, Traits


def ingest(source: str | Path | Sequence[str | Path] | Source, parts: Parts, execution: Execution,
           params: IngestParams | None = None, *, scratch: str | Path | None = None, like: Dataset | None = None,
           columns: Columns | None = None, examine: bool = True, leave_out: Collection[str] = (),
           **options: Any) -> Dataset:
    """Read a file, URL or named data set, or several files of one format, into `parts`; return it as a Dataset.

    params : how to read; its fields can also be passed as `options`.
    scratch : folder for unpacked files that every worker can open; by default inside the folder of the parts, or the
        system's temporary folder if the parts are in memory. It is emptied again.
    like : the data set to which the rows will be added. It determines the order of the columns and whether labels are
        text; a target and a split must be in both or in neither.
    columns : the encoding of another file; by default it follows from `params`.
    examine : whether to leave out identifiers and record the attribute `survey`, a `SurveyRecord` per column, empty for
        sparse rows. Ignored with `like`, whose columns are known.
    leave_out : names of table columns that are not read, if they exist; with `like`, those that it left out.

    A task needs `task_bytes` per row. The pass that counts the cells of text files runs once, in this process.

    Raises DataError: the source cannot be used; the message names the file and the row, and no data
    set is left. BudgetError: one row does not fit the memory budget.
    """
    params = replace(params, **options) if params else IngestParams(**options)
    if not isinstance(source, Source):
        source = find_source(source, labels=params.labels, format=params.format)
    source = digested(source)
    if like is not None:
        columns = columns or Columns.of(like.attributes)
        leave_out = excluded_from(like)
        params = replace(params, sparse=False)
    described = columns.describe() if columns else None
    key = digest({"params": params, "bytes": fingerprint(source), "budget": execution.memory_budget,
                  "traits": list(FIGURES),
                  **({"columns": described} if described else {}),
                  **({"leave_out": list(leave_out)} if leave_out else {})})
    with scratch_folder(scratch, parts) as folder, _naming_all_cells(source, params, execution, parts, folder, like,
                                                                     columns, leave_out):
        reader = open_source(source, params, scratch=folder, like=like, columns=columns, leave_out=leave_out)
        if like is not None:
            _require_same_columns(like, columns, params, reader.scan(), source.name)
        _refuse_odd_cells(reader)
        clear_other_parts(parts, key)
        records: list[ColumnRecord] | None = None
        unsurveyed = reader
        if examine and like is None:
            require_identifiers(params, reader.scan(), source.name)
        if columns is None and like is None and (params.encodes or (examine and reader.scan().keys)):
            reader, columns, records = _surveyed(reader, params, source.name, execution,
                                                 parts.within("surveys").within(key[:16]), examine=examine)
        scan = reader.scan()
        if columns is None and like is None and scan.readings:
            columns = Columns.of_numbers(scan.feature_names, scan.n_columns, scan.readings)
        _refuse_text(reader, params, source.name)
        dataset = _written(reader, params, columns, source.name, key, parts, execution,
                           as_text=like is not None and like.attributes.get("label_names") is not None,
                           examine=examine and records is None)
        if records is not None:
            dataset.attributes["survey"] = to_json(records)
        if "survey" in dataset.attributes:
            dataset.attributes["survey"] = with_dropped(dataset.attributes["survey"], unsurveyed.column_names(),
                                                        reader.scan().target)
    if isinstance(parts, StoredParts):  # the results of the surveys are in the attributes now
        parts.clear("within")
        clear_unfinished(parts)
    files = [FileRecord(file.full_name, str(file.digest), rows, file.version).to_dict()
             for file, rows in zip(source.files, reader.rows_by_file(), strict=True)]
    known = {"source": source.name, "fingerprint": fingerprint(source), "files": files,
             "format": format_of(source.path, params.format), "params": plain(params)}
    return replace(dataset, attributes=known | dataset.attributes)


@contextmanager
def _naming_all_cells(source: Source, params: IngestParams, execution: Execution, parts: Parts, scratch: Path,
                      like: Dataset | None, columns: Columns | None, leave_out: Collection[str]) -> Iterator[None]:
    """Replace the error for the first unusable cell by one that names all of them."""
    try:
        yield
    except CellError as error:
        raise of_all_cells(error, source, params, execution, parts, scratch, like, columns, leave_out) from error


def _surveyed(reader: Reader, params: IngestParams, name: str, execution: Execution, parts: Parts, *,
              examine: bool) -> tuple[Reader, Columns | None, list[ColumnRecord] | None]:
    """Survey all rows; return a reader without identifiers, the encoding of its columns, and the column records."""
    scan = reader.scan()
    names = scan.feature_names
    height = block_height(scan, params, execution.memory_budget, is_sparse=scan.nnz is not None)
    survey, traits = survey_file(reader, row_ranges(scan.n_rows, height), execution, parts)
    records = examined(traits, survey.levels, names, scan) if examine and traits is not None else []
    # Columns without unique names are never left out.
    unnamed = names is None or len(set(names)) < len(names)
    out = set() if unnamed or "drop" not in reader.options else excluded_columns(records, params.keep_ids)
    records = [replace(record, used=j not in out) for j, record in enumerate(records)]
    remaining = [j for j in range(scan.n_columns) if j not in out]
    reader = reader.without({names[j] for j in out}) if names and out else reader
    columns = None
    if params.encodes:
        columns = choose_columns(survey.chosen(remaining), reader.scan().feature_names, name,
                                 impute=params.when_missing == "impute", readings=reader.scan().readings)
    return reader, columns, records if examine else None


def _refuse_text(reader: Reader, params: IngestParams, name: str) -> None:
    """Raise DataError if a feature is text and text is an error."""
    scan = reader.scan()
    if scan.text and params.when_text == "error":
        assert scan.feature_names is not None
        column = scan.feature_names[scan.text[0]]
        raise text_is_no_feature(f"{name}: column {column!r} holds text", column)


def _refuse_odd_cells(reader: Reader) -> None:
    """Raise CellError if a numeric feature has cells with text, DataError if a numeric target has."""
    refuse_odd_labels(reader)
    scan = reader.scan()
    for j, cells in scan.odd.items():
        if j not in scan.text:
            row, text = cells.examples[0]
            raise CellError(f"{reader.name}: {column_label(scan.feature_names, j)} holds text: {text!r} in row {row}")


def _written(reader: Reader, params: IngestParams, columns: Columns | None, name: str, key: str, parts: Parts,
             execution: Execution, *, as_text: bool, examine: bool) -> Dataset:
    """Write the rows of a file into parts; return the data set with the attributes that depend on the file."""
    scan = reader.scan()
    names = list(scan.feature_names) if scan.feature_names else None
    is_sparse = makes_sparse(params, scan)
    order = None
    width = scan.n_columns
    if columns is not None:
        columns, order = columns.rounded(params.dtype), columns.order(names, scan.n_columns, name)
        names = columns.feature_names()
        width = columns.width
    height = block_height(scan, params, execution.memory_budget, width)
    if not is_sparse:
        parts.allocate("X", (scan.n_rows, width), params.dtype, height)
    if scan.has_split:
        parts.allocate("split", (scan.n_rows,), np.uint8, height)
    ranges = row_ranges(scan.n_rows, height)
    examine = examine and not is_sparse and not (isinstance(reader, StoredReader) and not params.encodes)
    receipts = execution.map([IngestTask(reader.narrow(start, stop), start, stop, key, params.dtype, is_sparse, columns,
                                         order, scan.n_rows if examine else None) for start, stop in ranges], parts)
    require(all(receipt["ingest"] == key for receipt in receipts), f"{parts!r} holds a part of another ingest",
            why="a worker of an ingest that was killed has written it in the meantime", error=IntegrityError,
            fix="delete the folder, and ingest again")
    refuse_bad_values(reader, name, receipts, names)
    if all(receipt.get("narrow") for receipt in receipts):  # one block is enough to clear a column
        refuse_indistinct_columns(
            [parts.read(index, ("narrow",))["narrow"] for index in range(len(receipts))], names, name,
            "read it with more digits, `read: {dtype: float64}`, or subtract the offset")
    attributes: JsonObject = {"target": scan.target, "label_names": None, "feature_names": names}
    if scan.target is not None:
        attributes["label_names"] = write_target(parts, reader, ranges, receipts, height, as_text=as_text)
    attributes |= reader.attributes()
    if examine:
        shares = [receipt["traits"] for receipt in receipts]
        traits = reduce(Traits.merge, (Traits.from_arrays(parts.read(index, share["arrays"]), share)
                                       for index, share in enumerate(shares)))
        attributes["survey"] = to_json(examined(traits, {}, scan.feature_names, scan))
    if reader.number_format is not None:
        attributes["decimal"] = reader.number_format.decimal
    if scan.target_unit:
        attributes["target_unit"] = scan.target_unit
    if columns is not None:
        attributes |= columns.describe() | {"imputed": sum(receipt["imputed"] for receipt in receipts),
                                            "unseen": _unseen(receipts, columns)}
    if is_sparse:
        attributes["sparse"] = True
    X = parts.rows("X") if not is_sparse else BlockedCsrRows(
        parts, (scan.n_rows, width), np.dtype(params.dtype), height, sum(receipt["nnz"] for receipt in receipts))
    return Dataset(X, parts.rows("y") if scan.target is not None else None,
                   parts.rows("split") if scan.has_split else None, attributes)


@dataclass(frozen=True)
class IngestTask:
    """Read one block of rows; write X and split to the shared arrays, and the target to the block's own part.

    The block's part also has sparse rows of X, column traits, and the columns that may become indistinct in float32.
    """

    reader: Reader
    start: int
    stop: int
    key: str  # identifies the whole ingest, so that parts of another are not used
    dtype: str
    is_sparse: bool  # whether X becomes CSR
    columns: Columns | None  # the encoding of the file's columns; None uses them as they are
    order: np.ndarray | None  # the file's column number of each encoded column
    total: int | None = None  # rows of the file, if column traits are wanted

    def _read(self) -> tuple[Block, Encoded]:
        """Return the rows of the file, and their encoding as columns of X in the precision of the file."""
        if self.columns is None or self.order is None:
            block = self.reader.read(self.start, self.stop)
            made = Encoded(block.X)
        else:
            block = self.reader.read(self.start, self.stop)
            made = self.columns.apply(block.X, self.order, self.start)
        if self.is_sparse:
            return block, replace(made, X=as_csr(floats(made.X, None) if isinstance(made.X, pd.DataFrame) else made.X))
        return block, replace(made, X=made.X.toarray()) if is_sparse(made.X) else made

    def __call__(self, out: PartWriter) -> Receipt:
        block, made = self._read()
        X = floats(made.X, self.dtype)
        count, first = not_finite(X)
        receipt: Receipt = {"ingest": self.key, "not_finite": count, "imputed": made.imputed,
                            "unseen": {str(j): [*texts] for j, texts in made.unseen.items()}}
        if first is not None:
            row, column, _ = first
            return receipt | {"first": [self.start + row, column, original_text(made.X, first, self.dtype)],
                              "texts": infinite_texts(made.X)}
        arrays: dict[str, np.ndarray] = csr_arrays(X) if self.is_sparse else {}
        shared = {} if self.is_sparse else {"X": X}
        if block.split is not None:
            shared["split"] = block.split
        if shared:
            receipt |= out.write_rows(self.start, **shared)
        receipt["nnz"] = len(arrays["data"]) if arrays else None
        narrow = narrow_columns(made.X, self.dtype)
        if narrow is not None:
            receipt["narrow"] = len(narrow)
            arrays |= {"narrow": narrow} if len(narrow) else {}
        if block.y is not None:
            arrays["y"], names = code_text(block.y)
            receipt |= {"target": "text" if names is not None else str(arrays["y"].dtype), "names": names or []}
            receipt["infinite"] = [self.start + int(row) for row in np.flatnonzero(np.isinf(arrays["y"]))[:1]]
        values = made.X if issparse(block.X) else block.X
        traits = None if self.total is None else Traits.of(values, block.y, start=self.start, total=self.total)
        if traits is not None:
            of_traits, receipt["traits"] = traits.to_arrays()
            arrays |= of_traits
        if arrays:
            out.write(**arrays)
        return receipt


def open_dataset(source: str | Path | Sequence[str | Path], **options: Any) -> Dataset:
    r"""Return the data set of a source.

    A folder that dssl wrote is opened as it is stored; anything else is read into
    memory.

    Parameters
    ----------
    source : str, Path or list of them
        A folder, a file, a pattern of files, a URL or a name, or a list of them.
    **options : dict
        How the source is read, such as `target`, `format` or `when_missing`; see
        `IngestParams`.

    Returns
    -------
    Dataset
        The points, their targets and an official split, where there are such.

    Raises
    ------
    DataError
        The source is nowhere, or cannot be read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from dssl import open_dataset
    >>> _ = Path("points.csv").write_text("a,b,label\n1,2,0\n3,4,1\n")
    >>> dataset = open_dataset("points.csv", target="label")
    >>> dataset.feature_names, dataset.targets()
    (['a', 'b'], array([0, 1]))
    """
    folder = Path(source) if isinstance(source, (str, Path)) else None
    if folder is not None and ((folder / MANIFEST).is_file() or (folder.is_dir() and len(folder.parts) > 1
                                                                  and not is_zarr(folder))):
        return open_stored(folder)
    return ingest(source, MemoryParts(), InProcess(), **options)


def _require_same_columns(like: Dataset, columns: Columns | None, params: IngestParams, scan: Scan, name: str) -> None:
    """Raise DataError unless an added source has the labels, the split and the columns of the data set."""
    require_same_arrays(name, scan, like.attributes["source"], has_target=like.y is not None,
                        has_split=like.split is not None)
    width = columns.n_columns if columns else like.X.shape[1]
    require(columns is not None or params.when_text == params.when_missing == "error",
            f"{name} is read with when_missing={params.when_missing!r} and when_text={params.when_text!r}",
            error=DataError, why="fills and levels follow from all rows, and the data set was read without them",
            fix="leave these options out, or ingest all files together")
    require(scan.n_columns == width, f"{name} has {scan.n_columns} features, {like.attributes['source']} has {width}",
            why="rows of one data set have the same columns", fix="write the file with the same columns",
            error=DataError)


class UnseenTexts(TypedDict):
    """The number of rows with a text that is not among the levels of a column, and some of these texts."""

    rows: int
    texts: list[str | None]


def _unseen(receipts: list[Receipt], columns: Columns) -> dict[str, UnseenTexts]:
    """Return the unseen texts of each column."""
    unseen: dict[str, UnseenTexts] = {}
    for receipt in receipts:
        for j, (count, texts) in receipt["unseen"].items():
            entry = unseen.setdefault(columns.names[int(j)] if columns.names else j, {"rows": 0, "texts": []})
            entry["rows"] += count
            entry["texts"] = some_texts([*entry["texts"], *texts])
    return unseen
