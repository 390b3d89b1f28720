"""The meaning of the cells of a column: numbers, possibly with one unit, yes and no, or text.

A column is judged as a whole (`CellCounts`, merged over the pieces of the file in their order), and a file has one
decimal mark. The result depends only on the cells, not on the pieces.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.missing import MISSING
from .cell_text import (
    GROUPS,
    TRUTH_WORDS,
    NumberFormat,
    ParsedCells,
    are_gaps,
    are_missing,
    as_bools,
    count_sizes,
    is_truth_word,
    parsed_cells,
)

EXAMPLES = 5  # cells shown in a message
MAX_ODD = 40  # distinct texts among numbers that `dssl init` declares as missing; one more is kept to detect more
NUMERIC = 0.95  # minimum share of numbers in a column of numbers
MAX_LEVELS = 1000  # of a category
ROWS_PER_LEVEL, FEW_LEVELS, FEWEST_CELLS = 20, 10, 20  # of a category; few levels are enough if each occurs twice
WIDE = 30  # a larger range of whole numbers is not a set of class codes
MAX_UNITS = 10  # in a column; with more, the numbers are followed by words of text
Kind = Literal["number", "truth", "text"]
Form = tuple[str, bool]  # the unit of a number, "" for none, and whether a bound precedes it


@dataclass(frozen=True)
class Reading:
    """How the cells of a column are read: as numbers, possibly with one unit, as yes and no, or as text."""

    kind: Kind = "number"
    unit: str = ""


@dataclass(frozen=True)
class Cells:
    """The numbers of text cells and missing cells of a column, with examples.

    examples : (row, text) of the first `MAX_ODD` + 1 distinct texts. first_missing : the row of the first missing cell.
    """

    texts: int = 0
    examples: tuple[tuple[int, str], ...] = ()
    missing: int = 0
    first_missing: int = -1

    def merge(self, other: "Cells") -> "Cells":
        """Return the cells of both."""
        first: dict[str, int] = {}
        for row, text in sorted((*self.examples, *other.examples)):
            first.setdefault(text, row)
        examples = tuple((row, text) for text, row in first.items())[:MAX_ODD + 1]
        missing = [cells.first_missing for cells in (self, other) if cells.missing]
        return Cells(self.texts + other.texts, examples, self.missing + other.missing, min(missing, default=-1))

    @property
    def shown(self) -> tuple[tuple[int, str], ...]:
        """The few examples that a message shows."""
        return self.examples[:EXAMPLES]

    def after(self, rows: int) -> "Cells":
        """Return the same cells if `rows` other rows come first."""
        return Cells(self.texts, tuple((rows + row, text) for row, text in self.examples), self.missing,
                     self.first_missing + rows if self.missing else -1)

    def refused(self, *, texts: bool, missing: bool) -> "Cells":
        """Return the cells that are refused, given whether text and whether missing cells are refused."""
        return Cells(*((self.texts, self.examples) if texts else (0, ())),
                     *((self.missing, self.first_missing) if missing else (0, -1)))


@dataclass(frozen=True)
class OtherCells:
    """Cells of a column that are neither missing nor plain numbers, under one decimal mark.

    forms : numbers with a unit, a bound, or both. text : cells that are not numbers. has_many_units : whether there are
    more than `MAX_UNITS`; then cells with a unit count as text.
    """

    text: Cells = field(default_factory=Cells)
    forms: dict[Form, Cells] = field(default_factory=dict)
    has_many_units: bool = False

    @classmethod
    def of(cls, text: Cells, forms: dict[Form, Cells], has_many_units: bool = False) -> "OtherCells":
        """Return cells with text and forms; forms with too many different units become text."""
        if not has_many_units and len({unit for unit, _ in forms} - {""}) <= MAX_UNITS:
            return cls(text, forms)
        without_unit = {form: cells for form, cells in forms.items() if not form[0]}
        as_text = [cells for form, cells in forms.items() if form not in without_unit]
        return cls(_merged([text, *as_text]), without_unit, True)

    def merge(self, other: "OtherCells") -> "OtherCells":
        """Return the cells of both."""
        forms = {form: _merged([counts.forms[form] for counts in (self, other) if form in counts.forms])
                 for form in {**self.forms, **other.forms}}
        return OtherCells.of(self.text.merge(other.text), forms, self.has_many_units or other.has_many_units)

    @property
    def units(self) -> dict[str, int]:
        """The number of cells with each unit, the most frequent unit first."""
        counts = Counter[str]()
        for (unit, _), cells in self.forms.items():
            if unit:
                counts[unit] += cells.texts
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def numbers(self, unit: str) -> int:
        """Return how many cells are numbers with this unit or without one."""
        return sum(cells.texts for (of_unit, _), cells in self.forms.items() if of_unit in ("", unit))

    def bounds(self, unit: str) -> Cells:
        """Return the cells that are numbers with a bound, with this unit or without one."""
        return _merged([cells for (kind, is_bound), cells in self.forms.items() if is_bound and kind in ("", unit)])

    def odd(self, unit: str) -> Cells:
        """Return the cells that are not numbers with this unit or without one."""
        return _merged([self.text, *(cells for (of_unit, _), cells in self.forms.items() if of_unit not in ("", unit))])


def _merged(cells: Sequence[Cells]) -> Cells:
    return reduce(Cells.merge, cells, Cells())


@dataclass(frozen=True)
class CellCounts:
    """Counts of the cells of a column in some rows.

    rows : the number of cells. missing : cells that are missing in any column; gaps : further cells that are missing if
    the column is numeric. numbers, others : by decimal mark, plain numbers without unit and bound, and all other cells
    that are not missing. truths : yes and no, by line of `TRUTH`. plain : whether every number is written as in Python.
    measured : numbers with a fraction, a currency, a % or thousands separators. commas : numbers with a comma.
    coded : whole numbers that begin with a zero. digits : the minimum and maximum number of digits of a whole number.
    marked : the first number that is not written as in Python. low, high : the range of the numbers that are.
    sizes : cells such as 10x20x5 cm, by the number of sides and the unit.
    """

    rows: int = 0
    missing: int = 0
    gaps: int = 0
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    others: dict[str, OtherCells] = field(default_factory=lambda: dict.fromkeys(GROUPS, OtherCells()))
    truths: tuple[int, ...] = (0,) * len(TRUTH_WORDS)
    plain: bool = True
    measured: int = 0
    commas: int = 0
    coded: int = 0
    digits: tuple[int, int] = (99, 0)
    marked: str = ""
    low: float = np.inf
    high: float = -np.inf
    sizes: dict[tuple[int, str], int] = field(default_factory=dict)

    def merge(self, other: "CellCounts") -> "CellCounts":
        """Return the counts of both; the rows of `other` come after these."""
        return CellCounts(
            self.rows + other.rows, self.missing + other.missing, self.gaps + other.gaps,
            {mark: self.numbers[mark] + other.numbers[mark] for mark in GROUPS},
            {mark: self.others[mark].merge(other.others[mark]) for mark in GROUPS},
            tuple(left + right for left, right in zip(self.truths, other.truths, strict=True)),
            self.plain and other.plain, self.measured + other.measured, self.commas + other.commas,
            self.coded + other.coded,
            (min(self.digits[0], other.digits[0]), max(self.digits[1], other.digits[1])), self.marked or other.marked,
            min(self.low, other.low), max(self.high, other.high), dict(Counter(self.sizes) + Counter(other.sizes)))

    @classmethod
    def of_numbers(cls, values: np.ndarray, first_row: int = 0, grouped: np.ndarray | None = None) -> "CellCounts":
        """Return the counts of numbers (n,) that were written as in Python; NaN for a missing one.

        grouped : which of them, (n,) bool, would be other numbers if the point were a thousands separator.
        """
        is_present = ~np.isnan(values)
        present = values[is_present]
        is_whole = np.rint(present) == present
        european = is_whole if grouped is None else is_whole | grouped[is_present]
        rows = np.flatnonzero(is_present)[~european][:MAX_ODD + 1].tolist()
        odd = Cells(int((~european).sum()), tuple((first_row + row, repr(float(values[row]))) for row in rows))
        low, high = (float(present.min()), float(present.max())) if len(present) else (np.inf, -np.inf)
        counted = present[is_whole & (present >= 0) & np.isfinite(present)]
        digits = (len(f"{counted.min():.0f}"), len(f"{counted.max():.0f}")) if len(counted) else (99, 0)
        return cls(len(values), len(values) - len(present), 0, {".": len(present), ",": int(european.sum())},
                   {".": OtherCells(), ",": OtherCells(odd)}, measured=int((~is_whole).sum()), digits=digits, low=low,
                   high=high)

    @classmethod
    def of_text(cls, cells: pa.Array, missing: Sequence[str], formats: dict[str, NumberFormat],
                first_row: int = 0) -> "CellCounts":
        """Return the counts of trimmed text cells; formats : the possible number formats by decimal mark."""
        plain = _plain_numbers(cells, missing) if "." in formats else None
        if plain is not None:
            return cls.of_numbers(plain[0], first_row, plain[1])
        encoded = cells.dictionary_encode()
        unique = encoded.dictionary
        codes = encoded.indices.fill_null(len(unique)).to_numpy(zero_copy_only=False)
        sizes = np.bincount(codes, minlength=len(unique) + 1)[:len(unique)]
        is_missing = are_missing(unique, missing)
        is_gap = are_gaps(unique) & ~is_missing
        lower = pc.utf8_lower(unique)
        is_truth = as_bools(pc.is_in(lower, value_set=pa.array(TRUTH_WORDS[0], pa.string())))
        parsed = {mark: parsed_cells(unique, format) for mark, format in formats.items()}
        none, part = np.zeros(len(unique), bool), unique
        of, formed, others = dict.fromkeys(GROUPS, none), none, {}
        count = _Counter(unique, codes, sizes, first_row)
        for mark in GROUPS:
            parsed_as = parsed.get(mark)
            if parsed_as is None:
                others[mark] = OtherCells(count.cells(~(is_missing | is_gap)))
                continue
            is_present = ~(is_missing | is_gap)
            of[mark] = parsed_as.is_number & ~parsed_as.is_bound & is_present
            with_form = ((parsed_as.is_number & parsed_as.is_bound & ~is_truth) | (parsed_as.unit != "")) & is_present
            others[mark] = count.others(~of[mark] & is_present, with_form, parsed_as)
            part = pc.if_else(pa.array(with_form & ~formed), parsed_as.part, part)
            formed = formed | with_form
        number = of["."] | of[","]
        python = as_bools(pc.match_substring_regex(part, r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"))
        digits = as_bools(pc.match_substring_regex(unique, r"^\d+$"))
        zero = as_bools(pc.match_substring_regex(unique, r"^0\d+$"))
        lengths = pc.utf8_length(unique).to_numpy(zero_copy_only=False)[digits]
        values = pc.if_else(pa.array(python), part, "nan").cast(pa.float64()).to_numpy(zero_copy_only=False)
        known = values[python]
        fractions = python & (values != np.rint(np.nan_to_num(values)))
        marked = number & ~python & ~is_truth
        comma = as_bools(pc.match_substring(unique, ","))
        return cls(
            len(cells), int(sizes[is_missing].sum()) + cells.null_count, int(sizes[is_gap].sum()),
            {mark: int(sizes[of[mark]].sum()) for mark in GROUPS}, others,
            tuple(int(sizes[as_bools(pc.is_in(lower, value_set=pa.array(words, pa.string())))].sum())
                  for words in TRUTH_WORDS),
            not ((number & ~python) | formed).any(), int(sizes[fractions | marked | (formed & ~python)].sum()),
            int(sizes[(number | formed) & comma].sum()), int(sizes[zero].sum()),
            (int(lengths.min()), int(lengths.max())) if len(lengths) else (99, 0),
            unique[int(np.argmax(marked))].as_py() if marked.any() else "",
            float(known.min()) if len(known) else np.inf, float(known.max()) if len(known) else -np.inf,
            count_sizes(unique, sizes, is_missing | is_gap))

    @property
    def size(self) -> tuple[int, str] | None:
        """The number of sides and the unit if all cells that are not missing are sizes, else None."""
        n_present = self.rows - self.missing - self.gaps
        return next((size for size, count in self.sizes.items() if count == n_present), None)

    @property
    def is_plain(self) -> bool:
        """Whether all cells are missing or numbers as in Python, none of which begins with a zero."""
        return self.plain and not self.coded and not self.others["."].text.texts and not self.truths[0]

    def is_mostly_numbers(self, decimal: str) -> bool:
        """Return whether at least half of the cells are numbers under a decimal mark, in one unit, and not codes."""
        numbers = self.numbers[decimal] + self.others[decimal].numbers(self.unit(decimal))
        return not self.coded and numbers >= max(1, self.odd(decimal).texts)

    def unit(self, decimal: str) -> str:
        """Return the unit of at least `NUMERIC` of the numbers, not counting other units; "" if there is none."""
        units, others = self.others[decimal].units, self.others[decimal]
        unit = next(iter(units), "")
        return unit if units and units[unit] >= NUMERIC * (self.numbers[decimal] + others.numbers(unit)) else ""

    def odd(self, decimal: str) -> Cells:
        """Return the cells that are neither missing nor numbers in the unit of the column."""
        return self.others[decimal].odd(self.unit(decimal))

    def odd_as(self, reading: Reading, decimal: str) -> Cells:
        """Return the cells that do not fit a column of yes and no, or else of numbers."""
        odd = self.others[decimal].odd(self.unit(decimal) if reading.kind == "text" else reading.unit)
        if reading.kind != "truth":
            return odd
        return Cells(odd.texts - sum(self.truths[1:]), tuple(
            (row, text) for row, text in odd.examples if not is_truth_word(text)))

    def reading(self, decimal: str, *, is_target: bool = False) -> Reading:
        """Return how the column is read, under a decimal mark."""
        kind = self.kind(decimal, is_target=is_target)
        return Reading(kind, self.unit(decimal) if kind == "number" else "")

    def written_as(self, reading: Reading, decimal: str) -> str:
        """Return an example of numbers that Python writes differently, "" if there are none."""
        if reading.kind == "truth":
            words = {text.lower() for _, text in self.others[decimal].text.examples if is_truth_word(text)}
            return "/".join(sorted(words) or TRUTH_WORDS[0])
        examples = [cells.examples[0] for (unit, _), cells in self.others[decimal].forms.items()
                    if unit and unit == reading.unit]
        if not examples:
            return self.marked
        bare = self.numbers[decimal] + self.others[decimal].numbers("")
        return min(examples)[1] + (f", and {bare:,} without a unit, which are read as {reading.unit}" if bare else "")

    def several_units(self, decimal: str) -> str:
        """Return a text with the number of cells of each unit, if there are several and most cells are numbers."""
        units = self.others[decimal].units
        counts = [(repr(unit), count) for unit, count in units.items()]
        if bare := self.numbers[decimal] + self.others[decimal].numbers(""):
            counts.append(("no unit", bare))
        known = sum(count for _, count in counts)
        if self.coded or not units or len(counts) < 2 or 2 * known < self.rows - self.missing:
            return ""
        return ", ".join(f"{unit} in {count:,} cells" for unit, count in counts)

    def kind(self, decimal: str, *, is_target: bool = False) -> Kind:
        """Return the kind of the column under a decimal mark.

        It is numeric if at least `NUMERIC` of its cells are numbers in one unit, which are not codes with leading zeros
        and not mostly bounds. It is yes and no if it has no other cells. A target stays text if a class name is not a
        number, or is yes or no.
        """
        others, unit = self.others[decimal], self.unit(decimal)
        known, odd = self.numbers[decimal] + others.numbers(unit), others.odd(unit).texts
        bounds = others.bounds(unit).texts
        n_present = self.rows - self.missing
        if n_present == 0:
            return "number"
        if not is_target and any(count == n_present for count in self.truths):
            return "truth"
        is_code = self.coded > 0 and (self.digits[0] == self.digits[1] > 1 or self.coded > (1 - NUMERIC) * known)
        is_text = is_code or known == 0 or odd > (1 - NUMERIC) * (known + odd) or 2 * bounds > known
        are_few = (odd or self.gaps or bounds or unit) and not self.measured and self.high - self.low < WIDE
        return "text" if is_text or (is_target and (self.truths[0] or are_few)) else "number"


def is_category(n_levels: int, n_cells: int) -> bool:
    """Return whether text with so many levels is a category, that is, each level occurs often enough to learn from."""
    max_levels = max(n_cells / ROWS_PER_LEVEL, min(FEW_LEVELS, n_cells / 2))
    return n_levels <= MAX_LEVELS and (n_levels <= max_levels or n_cells < FEWEST_CELLS)


def _plain_numbers(cells: pa.Array, missing: Sequence[str]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return trimmed cells as float64 (missing: NaN), and which could have a point as thousands separator.

    None if a cell is neither missing nor a number as in Python, or begins with a zero like a code.
    """
    known = pc.is_in(cells, value_set=pa.array([*MISSING, *missing], pa.string()))
    try:
        values = pc.if_else(known, None, cells).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    if pc.any(pc.match_substring_regex(cells, r"^0\d+$")).as_py():
        return None
    grouped = pc.match_substring_regex(cells, r"^[+-]?[1-9]\d{0,2}(?:\.\d{3})+$")
    return values.to_numpy(zero_copy_only=False), as_bools(grouped)


class _Counter:
    """Counts cells by text, and keeps the first few with their rows.

    unique : the distinct texts in the order of their first rows. codes : the text of each cell. sizes : the number of
    cells with each text.
    """

    def __init__(self, unique: pa.Array, codes: np.ndarray, sizes: np.ndarray, first_row: int) -> None:
        self.unique, self.sizes = unique, sizes
        self.row_of = np.empty(len(unique) + 1, np.int64)
        # NumPy keeps the last assignment for equal codes, which is the first row.
        self.row_of[codes[::-1]] = first_row + np.arange(len(codes))[::-1]

    def cells(self, chosen: np.ndarray) -> Cells:
        """Return the cells with the chosen texts."""
        first = np.flatnonzero(chosen)[:MAX_ODD + 1].tolist()
        return Cells(int(self.sizes[chosen].sum()), tuple((int(self.row_of[k]), self.unique[k].as_py()) for k in first))

    def others(self, chosen: np.ndarray, with_form: np.ndarray, parsed: ParsedCells) -> OtherCells:
        """Return the cells with the chosen texts, some of which are numbers with a unit or a bound."""
        has_many_units = len({*parsed.unit[with_form]} - {""}) > MAX_UNITS
        with_form = with_form & (parsed.unit == "") if has_many_units else with_form
        pairs = {*zip(parsed.unit[with_form].tolist(), parsed.is_bound[with_form].tolist(), strict=True)}
        forms = {(unit, is_bound): self.cells(with_form & (parsed.unit == unit) & (parsed.is_bound == is_bound))
                 for unit, is_bound in pairs}
        return OtherCells.of(self.cells(chosen & ~with_form), forms, has_many_units)


def decimal_of(columns: Sequence[CellCounts], formats: dict[str, NumberFormat], *, prefer: str = ".") -> str:
    """Return the decimal mark of a file: the one under which more cells of numeric columns are numbers.

    prefer : the mark to use if "1,200" is ambiguous and nothing else decides.
    """
    if len(formats) == 1:
        return next(iter(formats))
    votes = [_numbers_of(counts, ",") - _numbers_of(counts, ".") for counts in columns
             if any(counts.kind(mark) == "number" for mark in formats)]
    if sum(votes):
        return "," if sum(votes) > 0 else "."
    return prefer if any(counts.commas for counts in columns) else "."


def _numbers_of(counts: CellCounts, mark: str) -> int:
    return counts.numbers[mark] + counts.others[mark].numbers(counts.unit(mark))
