"""A first look at a source that has no spec yet: its columns, its labels, and which column is the target."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.columns import MOST_LEVELS
from ..data.findings import ColumnRecord, examined
from ..data.ingest import open_source
from ..data.ingest_cost import block_height
from ..data.ingest_params import IngestParams
from ..data.readers.base import NO_TARGET, TARGET_NAMES, CommaError, Reader
from ..data.readers.formats import format_of
from ..data.sources import Source
from ..data.survey import survey_file
from ..data.targets import number_text, whole_numbers
from ..errors import DataError, explain
from ..execution.tasks import Execution
from ..storage.blocks import PartWriter, Receipt, row_ranges
from .spec import ingest_params

NAMED = (*TARGET_NAMES, "labels", "classes", "outcome", "response", "category")  # of targets, whatever they hold
FEW = 30  # different labels up to which whole numbers are classes


@dataclass(frozen=True)
class Labels:
    """What a target holds: the rows with and without it, and how many have each label, the most frequent first.

    counts : None where there are more than `MOST_LEVELS`.
    """

    known: int
    missing: int
    is_text: bool
    is_whole: bool
    counts: dict[Any, int] | None
    low: float | None = None
    high: float | None = None


class Look:
    """What passes over a source show: its reader, the records of its columns, and its labels.

    records : None of sparse rows. reasons : of the options that were not asked for.
    """

    def __init__(self, source: Source, options: dict[str, Any], scratch: Path, execution: Execution) -> None:
        self.source, self.options, self.execution, self.scratch = source, dict(options), execution, scratch
        self.reasons: dict[str, str] = {}
        self.format = format_of(source.path, options.get("format"))
        self.reader = self._opened()
        self.unusable = self.reader.unusable()
        if self.unusable:
            self.options["drop"] = (*listed(self.options.get("drop")), *self.unusable)
            self.reader = self._opened()
        try:
            self.reader.scan()
        except CommaError:
            self.options["decimal"], self.reasons["decimal"] = ",", "numbers have a decimal comma"
            self.reader = self._opened()
        scan, params = self.reader.scan(), self._params()
        height = block_height(scan, params, execution.memory_budget, is_sparse=scan.nnz is not None)
        self.ranges = row_ranges(scan.n_rows, height)
        found, traits = survey_file(self.reader, self.ranges, execution, execution.scratch())
        self.records = None if traits is None else examined(traits, found.levels, scan.feature_names)
        self.scan = scan

    @property
    def is_table(self) -> bool:
        """Whether columns can be left out and may be text."""
        return "drop" in self.reader.options

    def _params(self) -> IngestParams:
        tables = {"when_text": "one_hot", "when_missing": "impute"} if self.format in ("csv", "parquet") else {}
        return ingest_params({**tables, **self.options}, "--read")

    def _opened(self) -> Reader:
        return open_source(self.source, self._params(), scratch=self.scratch)

    def labels(self) -> Labels | None:
        """Return what the target holds, or None where there is none."""
        if self.scan.target is None:
            return None
        tasks = [LabelsTask(self.reader.narrow(start, stop), start, stop) for start, stop in self.ranges]
        return joined_labels(self.execution.map(tasks, self.execution.scratch()), self.scan.label_names)

    def target(self) -> tuple[str | None, str]:
        """Return the column that is the target, None where the format says which it is, and why."""
        names = [name for name in self.reader.column_names() if name not in ("", *listed(self.options.get("drop")))]
        if not self.is_table or not names:
            return None, "as the format has it" if self.scan.target else ""
        lower = [name.lower() for name in names]
        named = next((names[lower.index(name)] for name in NAMED if name in lower), None)
        if named is not None:
            return named, "it is named so"
        whole = Look(self.source, {**self.options, "target": NO_TARGET}, self.scratch, self.execution)
        return _likely(whole.records or [], whole.scan.n_rows, self.source.name)


@dataclass(frozen=True)
class LabelsTask:
    """Tell what the target holds in rows [start, stop); see `labels_in`."""

    reader: Reader
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        y = self.reader.read(self.start, self.stop).y
        assert y is not None
        return labels_in(y)


def labels_in(y: np.ndarray) -> Receipt:
    """Return what labels (n,) of a block hold, JSON: `known`, `missing`, whether they are text or whole numbers.

    `range` : of numbers. `values`, `sizes` : None where there are more than `MOST_LEVELS`. `marked` : how many are -1,
    among integers, where that is no label if others are text.
    """
    is_text = y.dtype == object
    there = np.array([label is not None for label in y], bool) if is_text else ~np.isnan(y.astype(np.float64))
    own = y[there]
    if own.dtype.kind == "f":
        own = whole_numbers(own)
    values, sizes = np.unique(own.astype(str) if is_text else own, return_counts=True)
    few = len(values) <= MOST_LEVELS
    return {"known": len(own), "missing": len(y) - len(own), "is_text": is_text, "is_whole": own.dtype.kind != "f",
            "marked": int((y == -1).sum()) if y.dtype.kind == "i" else 0,
            "range": None if is_text or not len(own) else [float(own.min()), float(own.max())],
            "values": values.tolist() if few else None, "sizes": sizes.tolist() if few else None}


def joined_labels(blocks: Sequence[Receipt], names: Sequence[str] | None) -> Labels:
    """Return what the labels of all blocks hold; names : of the whole numbers from 0 on, or None."""
    known, missing = (sum(block[name] for block in blocks) for name in ("known", "missing"))
    is_text = any(block["is_text"] for block in blocks)  # text in one block is text in all
    is_whole = not is_text and all(block["is_whole"] for block in blocks if block["known"])
    counts: dict[Any, int] | None = {}
    for block in blocks:
        marked = block["marked"] if is_text else 0
        known, missing = known - marked, missing + marked
        if counts is None or block["values"] is None:
            counts = None
            continue
        for value, size in zip(block["values"], block["sizes"], strict=True):
            if not (marked and value == -1):
                label = number_text(value) if is_text and not block["is_text"] else value
                counts[label] = counts.get(label, 0) + size
        counts = counts if len(counts) <= MOST_LEVELS else None
    if counts is not None:
        counts = dict(sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))))
        if names and is_whole:
            counts = {names[value] if 0 <= value < len(names) else value: size for value, size in counts.items()}
    ends = [] if is_text else [end for block in blocks if block["range"] for end in block["range"]]
    return Labels(known, missing, is_text or bool(names), is_whole, counts,
                  min(ends, default=None), max(ends, default=None))


def _likely(records: Sequence[ColumnRecord], n_rows: int, source: str) -> tuple[str, str]:
    """Return the column of a table that is the target most likely, by its empty cells and few values, and why.

    Raises DataError: none is, or several are.
    """
    few = [record for record in records if _is_few(record)]
    empty = [record for record in records if record.missing and record.missing < n_rows]
    partly = [record for record in few if record in empty]
    if len(partly) == 1:
        return partly[0].name, "no other column has both few different values and empty cells"
    if len(empty) == 1 and not few:
        return empty[0].name, "no other column has empty cells"
    if len(few) == 1:
        return few[0].name, "no other column has few different values"
    if few and records[-1] in few:
        return few[-1].name, "it is the last column and has few different values, as others have"
    shown = "; ".join(f"{record.name} ({_what(record)})" for record in records[:20])
    raise DataError(explain(f"{source}: no column is the target beyond doubt",
                            why="none is named label, target, class or y, and of the others "
                            + ("several have few different values" if few else "none has few different values"),
                            fix=f"name it: --target {(few or list(records))[-1].name}, or --target none for clusters; "
                                f"the columns are {shown}"))


def _is_few(record: ColumnRecord) -> bool:
    if record.finding in ("identifier", "constant") or record.kind in ("text", "time"):
        return False
    if record.kind == "category":
        return 2 <= (record.levels or 0) <= FEW
    return record.kind == "integer" and record.min is not None and record.max is not None \
        and 1 <= record.max - record.min < FEW


def _what(record: ColumnRecord) -> str:
    """Return what a column holds, in a few words."""
    if record.kind == "category":
        return f"text, {record.levels} different"
    if record.kind in ("text", "time", None):
        return {"text": "text, all different", "time": "dates", None: "left out"}[record.kind]
    return f"{'whole numbers' if record.kind == 'integer' else 'numbers'} from {record.min:g} to {record.max:g}" \
        if record.min is not None else "empty"


def listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
