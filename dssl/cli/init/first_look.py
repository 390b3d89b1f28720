"""A first look at a source that has no spec yet: its columns, its labels, and which column is the target."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import DataError, column_label, require
from ...base.missing import missing_values
from ...data.findings import ColumnRecord, examined, has_word
from ...data.ingest_params import IngestParams
from ...data.readers.base import NO_TARGET, Reader, text_is_no_label
from ...data.readers.cells import EXAMPLES, MAX_LEVELS, MAX_ODD, Cells
from ...data.readers.csv import EncodingError
from ...data.readers.formats import format_of, is_table
from ...data.source_files import Source
from ...data.source_reader import block_height, open_source
from ...data.survey import survey_file
from ...data.targets import number_text, whole_numbers
from ...execution.tasks import Execution
from ...pipeline.marked_tests import WORDS
from ...pipeline.sentinels import Sentinels, find_sentinels
from ...pipeline.validation import ingest_params
from ...storage.blocks import PartWriter, Receipt, row_ranges
from .first_target import FEW, MANY_EMPTY, NAMED, NAMED_OFTEN, likely_target, named_column, require_no_emptier

LEGACY_ENCODING = "cp1252"  # of text that is not UTF-8
CODE_WORDS = {"code", "codes", "zip", "zipcode", "postcode", "postal", "plz", "postleitzahl", "mcc", "naics", "sic"}


class Look:
    """What passes over a source show: its reader, the records of its columns, and its labels.

    records : None of sparse rows. marks : columns that say train and test. reasons : of options not asked for.
    """

    def __init__(self, source: Source, options: dict[str, Any], scratch: Path, execution: Execution) -> None:
        self.source, self.options, self.execution, self.scratch = source, dict(options), execution, scratch
        self.reasons: dict[str, str] = {}  # for options
        self.remarks: list[str] = []  # what else a user should know
        self.sentinels = Sentinels()
        self.format = format_of(source.path, options.get("format"))
        try:
            self._open()
        except EncodingError:
            if "encoding" in self.options:
                raise
            self.options["encoding"] = LEGACY_ENCODING
            self.reasons["encoding"] = "the text is not UTF-8; this is what Windows writes in the west of Europe"
            self._open()
        if advice := self.reader.advice():
            self.remarks.append(advice)
        self._name_odd_cells()
        self._name_decimal()
        self._survey()

    def _survey(self) -> None:
        """Look at all cells of the reader, in blocks of rows."""
        scan, params = self.reader.scan(), self._params()
        height = block_height(scan, params, self.execution.memory_budget, is_sparse=scan.nnz is not None)
        self.ranges = row_ranges(scan.n_rows, height)
        records, traits = survey_file(self.reader, self.ranges, self.execution, self.execution.scratch())
        self.records = None if traits is None else examined(traits, records.levels, scan.feature_names, scan)
        self.marks = [] if scan.feature_names is None else [scan.feature_names[j] for j, texts in records.levels.items()
                                                            if {WORDS.get(text.casefold()) for text in texts} == {0, 1}]
        self.scan = scan

    @property
    def is_table(self) -> bool:
        """Whether columns can be left out and may be text."""
        return "drop" in self.reader.options

    def _params(self) -> IngestParams:
        tables = {"when_text": "one_hot", "when_missing": "impute"} if is_table(self.format) else {}
        return ingest_params({**tables, **self.options}, "--read")

    def _opened(self) -> Reader:
        return open_source(self.source, self._params(), scratch=self.scratch)

    def _open(self) -> None:
        """Scan the source without the columns that can be no features."""
        self.reader = self._opened()
        self.unusable = self.reader.unusable()
        if self.unusable:
            self.options["drop"] = (*listed(self.options.get("drop")), *self.unusable)
            self.reader = self._opened()
        self.reader.scan()

    def _name_odd_cells(self) -> None:
        """Name the texts among numbers as missing, or leave a column of numbers out that has too many of them.

        Reads the source once more where there are any. Raise DataError if the target has too many.
        """
        scan = self.reader.scan()
        odd = {j: cells for j, cells in scan.odd.items() if j not in scan.text}
        if not odd and not scan.odd_labels.texts:
            return
        room = MAX_ODD - len(scan.odd_labels.examples)
        if room < 0:
            raise text_is_no_label(self.reader, scan.odd_labels)
        named = [(f"the target {scan.target!r}", scan.odd_labels)] if scan.odd_labels.texts else []
        wide = {}
        for j, cells in sorted(odd.items(), key=lambda item: len(item[1].examples)):
            room -= len(cells.examples)
            if room < 0:
                wide[j] = cells
            else:
                named.append((column_label(scan.feature_names, j), cells))
        if named:
            self._mark_missing(named)
        self._leave_out(wide)
        self.reader = self._opened()
        scan = self.reader.scan()
        if scan.odd_labels.texts:
            raise text_is_no_label(self.reader, scan.odd_labels)
        # A word that is missing now may leave a column of numbers where text was.
        more = {j: cells for j, cells in scan.odd.items() if j not in scan.text}
        if more:
            self.reader = self.reader.without(list(map(str, self._leave_out(more))))

    def _mark_missing(self, named: Sequence[tuple[str, Cells]]) -> None:
        """Name the texts of some cells as missing, with the places of the first ones."""
        self._add_missing([text for _, cells in named for _, text in cells.examples],
                          f"cells of columns of numbers that are not numbers: {self._some_of(named)}")

    def _add_missing(self, texts: Sequence[str], reason: str) -> None:
        """Name further texts as missing."""
        self.options["missing"] = tuple(dict.fromkeys((*listed(self.options.get("missing")), *texts)))
        self.reasons["missing"] = "; ".join(filter(None, [self.reasons.get("missing"), reason]))

    def _some_of(self, named: Iterable[tuple[str, Cells]]) -> str:
        """Return the first cells of some columns, with their places."""
        cells_shown = [(label, row, text) for label, cells in named for row, text in cells.examples]
        places = self.reader.places([row for _, row, _ in cells_shown[:EXAMPLES]])
        shown = "; ".join(f"{label} has {text!r} in {place}"
                          for (label, _, text), place in zip(cells_shown, places, strict=False))
        return shown + (f"; and {len(cells_shown) - EXAMPLES} more" if cells_shown[EXAMPLES:] else "")

    def _leave_out(self, wide: Mapping[int, Cells]) -> list[str | int]:
        """Name columns of the scan as left out, for their cells that are not numbers; return what they are named by."""
        columns = {self.reader.source_column(j): f"{cells.texts:,} of its cells are not numbers"
                   for j, cells in wide.items()}
        if columns:
            self.unusable = self.unusable | columns
            self.options["drop"] = (*listed(self.options.get("drop")), *columns)
        return [*columns]

    def _name_decimal(self) -> None:
        """Name the decimal mark where it is a comma."""
        reader = self.reader
        format = reader.number_format
        if format is not None and format.decimal == "," and "decimal" not in self.options:
            self.options["decimal"], self.reasons["decimal"] = ",", "numbers have a decimal comma"

    def name_sentinels(self) -> None:
        """Name the numbers of a table that stand for missing cells, such as -999, as missing, and infinite ones.

        Infinite cells of a source that is no table are named alone.
        """
        if self.records is None or not self.scan.n_columns:
            return
        self.sentinels = sentinels = find_sentinels(self.reader, self.ranges, self.execution)
        if not self.is_table:
            if sentinels.infinite:
                infinite = self._some_of(sentinels.infinite.items())
                self.remarks.append(f"infinite cells, which a run refuses: {infinite}; "
                                    "store nan where one marks a missing cell")
            return
        for code, counts in sentinels.doubtful.items():
            self.remarks.append(f"does {code} stand for a missing cell? No other value comes so often: "
                                f"{_cells_by_column(counts)}; if it does, add '{code}' to data.read.missing")
        if not sentinels.counts and not sentinels.infinite:
            return
        for code, counts in sentinels.counts.items():
            again = ", or comes again as none of them does" if code in sentinels.again else ""
            self._add_missing([str(code)], f"{code} is far from all other values{again}: {_cells_by_column(counts)}")
        if sentinels.infinite:
            texts = [text for cells in sentinels.infinite.values() for _, text in cells.examples]
            self._add_missing(texts, f"infinite cells: {self._some_of(sentinels.infinite.items())}")
        self.reader = self._opened()
        self._survey()

    def name_codes(self) -> None:
        """Name whole numbers that are codes by their names as categories, where they repeat as categories do."""
        names = self.scan.feature_names
        if self.records is None or not self.is_table or names is None or "categories" in self.options:
            return
        numbers = {record.name: record for record in self.records if _are_codes(record)}
        if not numbers:
            return
        self._read_as_categories([*numbers])
        repeat = {record.name: record.levels for record in self.records if record.name in numbers
                  and record.kind == "category"}
        if len(repeat) < len(numbers):
            self._read_as_categories([*repeat])
        for name in numbers.keys() - repeat.keys():
            self.remarks.append(f"{name}: its whole numbers are codes by its name, and too many different ones for "
                                "categories; they are learned from as quantities, unless data.read.drop names the "
                                "column")
        if repeat:
            shown = ", ".join(f"{name} ({levels} different)" for name, levels in repeat.items())
            self.reasons["categories"] = (f"whole numbers that are codes, as their names say: {shown}; a column that "
                                          "is left out of the list is read as numbers")

    def _read_as_categories(self, names: Sequence[str]) -> None:
        """Look at the source again with some columns as categories."""
        self.options["categories"] = tuple(names)
        if not names:
            del self.options["categories"]
        self.reader = self._opened()
        self._survey()

    def without(self, columns: Sequence[str]) -> None:
        """Say nothing more of columns that are left out since they hold the tags."""
        self.options["drop"] = tuple(name for name in listed(self.options.get("drop")) if name not in columns)
        self.unusable = {name: why for name, why in self.unusable.items() if name not in columns}
        self.options.pop("target", None)

    def labels(self) -> "Labels | None":
        """Return what the target holds, or None where there is none; raise DataError if it has several units."""
        if self.scan.target is None:
            return None
        tasks = [LabelsTask(self.reader.narrow(start, stop), start, stop) for start, stop in self.ranges]
        labels = joined_labels(self.execution.map(tasks, self.execution.scratch()), self.scan.label_names)
        if self.is_table and labels.is_text and (labels.counts is None or len(labels.counts) > FEW):
            whole = Look(self.source, {**self.options, "target": NO_TARGET}, self.scratch, self.execution)
            units = [record for record in whole.records or [] if record.name == self.scan.target
                     and record.finding == "several units"]
            require(not units, f"{self.source.name}, target {self.scan.target}: {units[0].why if units else ''}",
                    why="each text would be a class of its own, and numbers in several units are no quantity",
                    fix="convert the column to one unit", error=DataError)
        return labels

    def target(self) -> tuple[str | None, str]:
        """Return the column that is the target, "none" of none, None where the format says which it is, and why."""
        names = [name for name in self.reader.column_names() if name not in ("", *listed(self.options.get("drop")))]
        if not self.is_table or not names:
            which = "the last column, since columns have no names" if self.is_table else "as the format has it"
            return None, which if self.scan.target else ""
        named = named_column(names, NAMED)
        whole = Look(self.source, {**self.options, "target": NO_TARGET}, self.scratch, self.execution)
        records, n_rows, often = whole.records or [], whole.scan.n_rows, named_column(names, NAMED_OFTEN)
        if named is not None:
            require_no_emptier(named, records, n_rows, self.source.name)
            return named, "its name says so"
        empty = [record.name for record in records if MANY_EMPTY * n_rows <= (record.missing or 0) < n_rows]
        if often is not None and empty in ([], [often]):
            return often, "its name says so"
        return likely_target(records, n_rows, self.source.name, self.reader.list_elements())


def _cells_by_column(counts: dict[str, int]) -> str:
    shown = [f"{column} {count:,}" for column, count in [*counts.items()][:EXAMPLES]]
    return ", ".join(shown) + (f", and {len(counts) - EXAMPLES} more columns" if len(counts) > EXAMPLES else "")


def _are_codes(record: ColumnRecord) -> bool:
    """Return whether a column that is read as numbers holds codes, such as zip codes, as its name says."""
    return record.are_numbers and has_word(record.name, CODE_WORDS)


def listed(value: object) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


# ---- what a target holds: how many rows have a label, and of which class


UNKNOWN = {"unknown", "unlabeled", "unlabelled", "none", "missing", "no label", "-", "--", "tbd", "todo"}  # as labels


@dataclass(frozen=True)
class Labels:
    """What a target holds: the rows with and without it, and how many have each label, the most frequent first.

    counts : None where there are more than `MAX_LEVELS`.
    """

    known: int
    missing: int
    is_text: bool
    is_whole: bool
    counts: dict[Any, int] | None
    low: float | None = None
    high: float | None = None

    def require_any(self, source: str) -> None:
        """Raise DataError where no row of a source has a label."""
        require(self.known > 0, f"{source}: no row of the target has a value", why="there is nothing to learn from",
                fix="name another column with --target, or --target none for clusters", error=DataError)
        require(not self.is_whole or set(self.counts or ()) != {-1}, error=DataError,
                what=f"{source}: no row has a label (all are -1{' or empty' if self.missing else ''})",
                why="-1 marks rows without a label, and there is nothing to learn from",
                fix="label some rows of two classes or more, name another column with --target, or --target none for "
                    "clusters")


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

    Text that a run takes for no label, such as a blank one, is missing.

    `range` : of numbers. `values`, `sizes` : None where there are more than `MAX_LEVELS`. `marked` : how many are -1,
    among integers, where that is no label if others are text.
    """
    is_text = y.dtype == object
    there = ~missing_values(y) if is_text else np.isfinite(y.astype(np.float64))
    labels = y[there]
    if labels.dtype.kind == "f":
        labels = whole_numbers(labels)
    values, sizes = np.unique(labels.astype(str) if is_text else labels, return_counts=True)
    few = len(values) <= MAX_LEVELS
    return {"known": len(labels), "missing": len(y) - len(labels), "is_text": is_text,
            "is_whole": labels.dtype.kind != "f",
            "marked": int((y == -1).sum()) if y.dtype.kind == "i" else 0,
            "range": None if is_text or not len(labels) else [float(labels.min()), float(labels.max())],
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
        counts = counts if len(counts) <= MAX_LEVELS else None
    if counts is not None:
        counts = dict(sorted(counts.items(), key=lambda item: (-item[1], str(item[0]))))
        if names and is_whole:
            counts = {names[value] if 0 <= value < len(names) else value: size for value, size in counts.items()}
    ends = [] if is_text else [end for block in blocks if block["range"] for end in block["range"]]
    return Labels(known, missing, is_text or bool(names), is_whole, counts,
                  min(ends, default=None), max(ends, default=None))


def marker_of(labels: Labels, *, has_nulls: bool = False) -> tuple[Any, str] | None:
    """Return the label that stands for none, or one that does not occur where -1 is a class, and why.

    has_nulls : whether the format has nulls: where there are some, these mark rows without a label, and no text does.
    """
    counts = labels.counts or {}
    if -1 in counts and labels.is_whole:
        if set(counts) == {-1, 1}:  # beside any other class alone, -1 marks rows without a label
            return 0, "0 does not occur: -1 is a class here, where there are two"
        return (-1, "-1 marks rows without a label") if labels.missing else None
    if has_nulls and labels.missing:
        return None
    unknown = labels_like_missing(labels)
    if len(unknown) == 1 and len(counts) > 2:
        return unknown[0], f"{counts[unknown[0]]:,} rows say so; remove the line if it is a class"
    return None


def labels_like_missing(labels: Labels) -> list[str]:
    """Return the labels that may stand for none, such as "unknown"."""
    return [value for value in labels.counts or () if isinstance(value, str) and value.strip().lower() in UNKNOWN]


def without_unlabeled(labels: Labels, marker: tuple[Any, str] | None) -> Labels:
    """Return the labels with those that stand for none among the missing: a marker, or -1 among whole numbers."""
    hidden = marker[0] if marker is not None else -1 if labels.is_whole else None
    counts = dict(labels.counts or {})
    gone = counts.pop(hidden, 0)
    return replace(labels, known=labels.known - gone, missing=labels.missing + gone, counts=counts)
