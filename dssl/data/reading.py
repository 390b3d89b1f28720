"""One block of a file as a task: surveyed, or read, made into columns of X, checked, and written."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..execution.tasks import Execution, Progress
from ..storage.blocks import Parts, PartWriter, Receipt
from ..storage.csr import as_csr, csr_arrays
from .columns import Columns
from .dataset import floats, not_finite
from .narrowing import loses_digits, narrow_columns
from .readers import Reader, Scan
from .readers.base import Block
from .survey import Survey, choose_columns


@dataclass(frozen=True)
class Reading:
    """How rows of a file become rows of X.

    columns : what becomes of its columns, or None to take them as they are. order : which column of the file each is.
    text : whether the file is read as a table that may hold text. sparse : whether X is CSR.
    """

    dtype: str
    text: bool = False
    sparse: bool = False
    columns: Columns | None = None
    order: np.ndarray | None = None

    def read(self, reader: Reader, start: int, stop: int, *, text_target: bool = False) -> Block:
        """Return rows [start, stop) in the precision of the file where that is more than X's."""
        scan = reader.scan()
        if self.text:
            levels = self.columns.levels if self.columns else {}
            file_column = range(scan.n_columns) if self.order is None else self.order
            return reader.columns(start, stop, frozenset(int(file_column[j]) for j in levels), text_target=text_target)
        if self.sparse and scan.nnz is not None:
            return reader.read_sparse(start, stop)
        if self.columns is not None:
            return reader.read(start, stop, np.float64, text_target=text_target)
        dtype = None if loses_digits(scan.dtype, self.dtype) else self.dtype
        return reader.read(start, stop, dtype, text_target=text_target)


@dataclass(frozen=True)
class IngestTask:
    """Read one block of rows; write X and split to the shared arrays, and the target to the block's own part.

    Sparse rows of X go into the own part as well, and so do the columns that float32 may not tell apart.
    """

    reader: Reader
    start: int
    stop: int
    reading: Reading
    key: str  # of the whole ingest, so that parts of another are not taken for its own

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.reading.read(self.reader, self.start, self.stop)
        receipt: Receipt = {"ingest": self.key}
        values = block.X
        if self.reading.columns is not None:
            assert self.reading.order is not None
            made = self.reading.columns.apply(values, self.reading.order, self.start)
            values = made.X
            receipt |= {"imputed": made.imputed, "unseen": {str(j): [*found] for j, found in made.unseen.items()}}
        if self.reading.sparse:
            values = as_csr(values)
        X = floats(values, self.reading.dtype)
        count, first = not_finite(X)
        receipt["not_finite"] = count
        if first is not None:
            row, column, value = first
            return receipt | {"first": [self.start + row, column, value]}
        own = csr_arrays(X) if self.reading.sparse else {}
        shared = {"X": X} if not self.reading.sparse else {}
        if block.split is not None:
            shared["split"] = block.split
        if shared:
            receipt |= out.write_rows(self.start, **shared)
        receipt["nnz"] = len(own["data"]) if own else None
        if loses_digits(values.dtype, self.reading.dtype):
            narrow = narrow_columns(values)
            receipt["narrow"] = len(narrow)
            own |= {"narrow": narrow} if len(narrow) else {}
        if block.y is not None:
            own["y"], names = code_text(block.y)
            receipt |= {"target": "text" if names is not None else str(own["y"].dtype), "names": names or []}
            receipt["infinite"] = [self.start + int(row) for row in np.flatnonzero(np.isinf(own["y"]))[:1]]
        if own:
            out.write(**own)
        return receipt


def code_text(y: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    """Return text labels as codes of their names in ascending order, -1 where missing; numbers as they are."""
    if y.dtype != object:
        return y, None
    known = np.array([label is not None for label in y], bool)
    names, inverse = np.unique(y[known].astype(str), return_inverse=True)
    codes = np.full(len(y), -1, np.int64)
    codes[known] = inverse
    return codes, names.tolist()


def read_columns(reader: Reader, start: int, stop: int, *, text: bool, as_text: frozenset[int] = frozenset()) -> Block:
    """Return rows [start, stop) as `Columns` takes them: a table where there may be text, else as the file is."""
    if text:
        return reader.columns(start, stop, as_text)
    return reader.read_sparse(start, stop) if reader.scan().nnz is not None else reader.read(start, stop, np.float64)


@dataclass(frozen=True)
class SurveyTask:
    """Find what the columns of one block of rows hold, and write it to the block's own part."""

    reader: Reader
    start: int
    stop: int
    text: bool
    as_text: frozenset[int] = frozenset()

    def __call__(self, out: PartWriter) -> Receipt:
        block = read_columns(self.reader, self.start, self.stop, text=self.text, as_text=self.as_text)
        found = Survey.of(block.X, self.start, self.reader.scan().feature_names)
        out.write(present=found.present, high=found.high, low=found.low)
        return {"rows": found.n_rows, "levels": {str(j): texts for j, texts in found.levels.items()},
                "first_missing": {str(j): row for j, row in found.first_missing.items()}}


def survey_file(reader: Reader, scan: Scan, ranges: Sequence[tuple[int, int]], source: str, execution: Execution,
                parts: Parts, progress: Progress | None = None, *, text: bool, impute: bool) -> Columns:
    """Return what becomes of the columns of a file, found in one pass over it by blocks.

    Text in one block makes a column text in all: blocks where it could be read as numbers are read a second time.
    """
    tasks = [SurveyTask(reader.narrow(start, stop), start, stop, text) for start, stop in ranges]
    blocks = _surveys(tasks, execution, parts.within("first"), progress)
    as_text = frozenset(j for block in blocks for j in block.levels)
    again = [i for i, block in enumerate(blocks)
             if any(j not in block.levels and block.present[j] for j in as_text)]
    if again:
        tasks = [SurveyTask(tasks[i].reader, *ranges[i], text, as_text) for i in again]
        for i, block in zip(again, _surveys(tasks, execution, parts.within("again"), progress), strict=True):
            blocks[i] = block
    for block, (start, _) in zip(blocks, ranges, strict=True):
        for j in as_text - set(block.levels):  # not one cell of it is there
            block.first_missing[j] = start
    whole = blocks[0]
    for block in blocks[1:]:
        whole = whole.merge(block)
    return choose_columns(whole, scan.feature_names, source, impute=impute)


def _surveys(tasks: Sequence[SurveyTask], execution: Execution, parts: Parts,
             progress: Progress | None) -> list[Survey]:
    found = []
    for i, receipt in enumerate(execution.map(tasks, parts, progress)):
        arrays = parts.read(i)
        found.append(Survey(receipt["rows"], np.array(arrays["present"]), arrays["high"], arrays["low"],
                            {int(j): texts for j, texts in receipt["levels"].items()},
                            {int(j): row for j, row in receipt["first_missing"].items()}))
    return found
