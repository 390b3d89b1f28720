"""A first look at a source that has no spec yet: its columns, its labels, and which column is the target."""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import DataError, column_label, explain, require
from ...data.findings import ColumnRecord, examined, has_word
from ...data.ingest_params import IngestParams
from ...data.readers.base import NO_TARGET, TARGET_NAMES, Reader, text_is_no_label
from ...data.readers.cells import EXAMPLES, MAX_ODD, Cells
from ...data.readers.csv import EncodingError
from ...data.readers.formats import format_of, is_table
from ...data.source_files import Source
from ...data.source_reader import block_height, open_source
from ...data.survey import survey_file
from ...execution.tasks import Execution
from ...pipeline.sentinels import Sentinels, find_sentinels
from ...pipeline.validation import ingest_params
from ...storage.blocks import row_ranges
from .first_labels import Labels, LabelsTask, joined_labels
from .first_vectors import coordinates, in_clusters

NAMED = (*TARGET_NAMES, "labels", "classes")  # of targets, whatever they hold
NAMED_OFTEN = ("outcome", "response", "category")  # of targets, unless another column has by far the most empty cells
MANY_EMPTY, SOME_EMPTY = 0.3, 0.2  # shares of the cells of a column; the second also of what one has more
NO_TARGETS = "; if it is none: --target none groups the rows into clusters"
MAX_TARGETS = 100  # different texts of a target that is not named
LEGACY_ENCODING = "cp1252"  # of text that is not UTF-8
CODE_WORDS = {"code", "codes", "zip", "zipcode", "postcode", "postal", "plz", "postleitzahl", "mcc", "naics", "sic"}
FEW = 30  # different labels up to which whole numbers are classes


class Look:
    """What passes over a source show: its reader, the records of its columns, and its labels.

    records : None of sparse rows. reasons : of the options that were not asked for.
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

    def labels(self) -> Labels | None:
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
        named = _named(names, NAMED)
        whole = Look(self.source, {**self.options, "target": NO_TARGET}, self.scratch, self.execution)
        records, n_rows, often = whole.records or [], whole.scan.n_rows, _named(names, NAMED_OFTEN)
        if named is not None:
            _require_no_emptier(named, records, n_rows, self.source.name)
            return named, "its name says so"
        empty = [record.name for record in records if MANY_EMPTY * n_rows <= (record.missing or 0) < n_rows]
        if often is not None and empty in ([], [often]):
            return often, "its name says so"
        return likely_target(records, n_rows, self.source.name, self.reader.list_elements())


def _cells_by_column(counts: dict[str, int]) -> str:
    shown = [f"{column} {count:,}" for column, count in [*counts.items()][:EXAMPLES]]
    return ", ".join(shown) + (f", and {len(counts) - EXAMPLES} more columns" if len(counts) > EXAMPLES else "")


def _named(names: Sequence[str], targets: Sequence[str]) -> str | None:
    """Return the column that has one of the names of targets, in their order, capitals or not; None of none."""
    lower = [name.lower() for name in names]
    return next((names[lower.index(name)] for name in targets if name in lower), None)


def _are_codes(record: ColumnRecord) -> bool:
    """Return whether a column that is read as numbers holds codes, such as zip codes, as its name says."""
    return (record.kind == "integer" and record.finding is None and record.min is not None and record.max is not None
            and record.max - record.min > 1 and has_word(record.name, CODE_WORDS))


class AmbiguousTarget(DataError):
    """Several columns of a table may be the target; `candidates` are their names, the likeliest first."""

    def __init__(self, message: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.candidates)


def likely_target(records: Sequence[ColumnRecord], n_rows: int, source: str,
                  elements: Collection[str] = ()) -> tuple[str, str]:
    """Return the column of a table that is the target most likely, and why.

    It is the one with by far the most empty cells, whose rows are to be predicted, or else the last one. Identifiers,
    dates, free text, constant columns, and coordinates of a vector are none; "none" where there are only such and
    a vector. elements : the columns that are elements of lists.

    Raises AmbiguousTarget: a column with some empty cells and the last one are both plausible, or none is.
    """
    vectors = coordinates(records, elements)
    possible = [record for record in records if record.name not in vectors and _can_be_predicted(record, n_rows)]
    if vectors and not possible:
        return NO_TARGET, in_clusters(vectors.values(), records)
    last = records[-1] if records[-1] in possible and records[-1].finding != "duplicate" else None
    ordered = sorted(possible, key=lambda record: -(record.missing or 0))
    empty = [(record.missing or 0) / n_rows for record in ordered] + [0.0, 0.0]
    if empty[0] >= MANY_EMPTY and empty[0] - empty[1] >= SOME_EMPTY:
        beside = f"; the last column, {last.name}, is another choice: {_options([last])}" \
            if last is not None and last is not ordered[0] else ""
        percent = int(1000 * empty[0]) / 10  # not 100 while some have a value
        return ordered[0].name, f"{percent:g} % of its cells are empty, far more than of any other column{beside}"
    if empty[0] > 0 and empty[0] >= 2 * empty[1]:
        if last is None or last is ordered[0] or not _is_few(last):
            return ordered[0].name, "it has the most empty cells by far"
        if _is_few(ordered[0]) or empty[0] >= SOME_EMPTY:
            raise _ambiguous([ordered[0], last], records, source, f"{ordered[0].name} has the most empty cells by far, "
                             f"{ordered[0].missing:,} of {n_rows:,}, and {last.name} is the last column and has few "
                             "different values")
    few = [record for record in possible if _is_few(record)]
    if last is not None:
        others = [] if _is_few(last) else few[-2:]  # the nearest to it
        beside = f"; to predict a column of few different values instead: {_options(others)}" if others else ""
        return last.name, f"it is the last column{beside}{'' if last.missing else NO_TARGETS}"
    few_with_gaps = [record for record in few if record.missing]
    if len(few) == 1:
        return few[0].name, f"no other column has few different values{NO_TARGETS}"
    if len(few_with_gaps) == 1:
        return few_with_gaps[0].name, f"no other column has both few different values and empty cells{NO_TARGETS}"
    raise _ambiguous(few or possible, records, source, f"the last column, {records[-1].name}, is "
                     f"{_what(records[-1]) if records[-1].finding is None else records[-1].finding}, and of the others "
                     + ("several have few different values" if few else "none has few different values"))


def _require_no_emptier(named: str, records: Sequence[ColumnRecord], n_rows: int, source: str) -> None:
    """Raise AmbiguousTarget if a column of a target's name is filled, and another of few values is nearly empty."""
    named_record = next((record for record in records if record.name == named), None)
    if named_record is None or named_record.missing:
        return
    emptier = [record for record in records if record is not named_record and _can_be_predicted(record, n_rows)
               and _is_few(record) and (record.missing or 0) >= MANY_EMPTY * n_rows]
    if len(emptier) == 1:
        other = emptier[0]
        raise _ambiguous([other, named_record], records, source, f"{other.name} has few different values and "
                         f"{other.missing:,} of {n_rows:,} cells are empty, as those of a target are that is to be "
                         f"predicted, and {named} has no empty cell but the name of a target")


def _ambiguous(candidates: Sequence[ColumnRecord], records: Sequence[ColumnRecord], source: str,
               why: str) -> AmbiguousTarget:
    shown = "; ".join(f"{record.name} ({_what(record)})" for record in records[:20])
    named = _options((candidates or records)[:3])
    return AmbiguousTarget(explain(f"{source}: no column is the target beyond doubt", why=why,
                                   fix=f"name it: {named}, or --target none for clusters; the columns are {shown}"),
                           [record.name for record in candidates])


def _options(records: Sequence[ColumnRecord]) -> str:
    """Return the options that name one of some columns as the target."""
    return " or ".join(f"--target {shlex.quote(record.name)}" for record in records)


def _can_be_predicted(record: ColumnRecord, n_rows: int) -> bool:
    """Return whether a column may be the target: neither constant nor empty, and no identifier, date or free text."""
    if record.finding in ("identifier", "constant", "time stamp") or record.kind in ("text", "time", None):
        return False
    if (record.missing or 0) >= n_rows:
        return False
    return record.kind != "category" or (record.levels or 0) <= MAX_TARGETS


def _is_few(record: ColumnRecord) -> bool:
    """Return whether a column has few different values, as classes do; one value where the other cells are empty."""
    if record.kind == "category":
        return (record.levels or 0) <= FEW
    return record.kind == "integer" and record.min is not None and record.max is not None \
        and record.max - record.min < FEW


def _what(record: ColumnRecord) -> str:
    """Return what a column holds, in a few words."""
    if record.kind == "category":
        return f"text, {record.levels} different"
    if record.kind in ("text", "time", None):
        return {"text": "text, all different", "time": "dates", None: "left out"}[record.kind]
    return f"{'whole numbers' if record.kind == 'integer' else 'numbers'} from {record.min:g} to {record.max:g}" \
        if record.min is not None else "empty"


def listed(value: object) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
