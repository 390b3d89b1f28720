"""What the cells of a column stand for: numbers, of which all may have one unit, yes and no, or text.

A column is looked at as a whole (`CellCounts`, merged over pieces of the file in their order), and so is the file: it
has one decimal mark. `decide` says what each column is; it depends on the cells alone, not on the pieces.
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
    is_truth_word,
    parsed_cells,
)
from .sizes import count_sizes

EXAMPLES = 5  # cells that are shown of many
MAX_ODD = 40  # different texts among numbers that `dssl init` names as missing; one more is kept, to know of more
NUMERIC = 0.95  # share of the cells of a column of numbers that are numbers
MOST_LEVELS = 1000  # of a category
ROWS_PER_LEVEL, FEW_LEVELS, FEWEST_CELLS = 20, 10, 20  # of a category; few levels are one where each comes twice
WIDE = 30  # between the smallest and the largest of whole numbers that are no codes of classes
MAX_UNITS = 10  # in a column; words of text follow its numbers where there are more
Kind = Literal["number", "truth", "text"]
Form = tuple[str, bool]  # the unit of a number, "" of none, and whether a bound stands before it


@dataclass(frozen=True)
class Reading:
    """How the cells of a column are read: as numbers, of which all may have one unit, as yes and no, or as text."""

    kind: Kind = "number"
    unit: str = ""


@dataclass(frozen=True)
class Cells:
    """Cells of a column that are no numbers: text with (row, text) of the first `MAX_ODD` + 1 different ones, missing
    with the first row."""

    texts: int = 0
    examples: tuple[tuple[int, str], ...] = ()
    missing: int = 0
    first_missing: int = -1

    def merge(self, other: "Cells") -> "Cells":
        """Return those of both."""
        first: dict[str, int] = {}
        for row, text in sorted((*self.examples, *other.examples)):
            first.setdefault(text, row)
        examples = tuple((row, text) for text, row in first.items())[:MAX_ODD + 1]
        missing = [cells.first_missing for cells in (self, other) if cells.missing]
        return Cells(self.texts + other.texts, examples, self.missing + other.missing, min(missing, default=-1))

    @property
    def shown(self) -> tuple[tuple[int, str], ...]:
        """The few examples that a message has room for."""
        return self.examples[:EXAMPLES]

    def after(self, rows: int) -> "Cells":
        """Return those of rows that come after so many others."""
        return Cells(self.texts, tuple((rows + row, text) for row, text in self.examples), self.missing,
                     self.first_missing + rows if self.missing else -1)

    def refused(self, *, texts: bool, missing: bool) -> "Cells":
        """Return those that are refused, where texts are or missing cells are."""
        return Cells(*((self.texts, self.examples) if texts else (0, ())),
                     *((self.missing, self.first_missing) if missing else (0, -1)))


@dataclass(frozen=True)
class OtherCells:
    """Cells of a column that are neither missing nor numbers by themselves, under one decimal mark.

    forms : numbers with a unit, a bound before them, or both. text : no numbers. has_many_units : whether there are
    more than `MAX_UNITS`; then what has a unit is text.
    """

    text: Cells = field(default_factory=Cells)
    forms: dict[Form, Cells] = field(default_factory=dict)
    has_many_units: bool = False

    @classmethod
    def of(cls, text: Cells, forms: dict[Form, Cells], has_many_units: bool = False) -> "OtherCells":
        """Return cells of text and of forms, of which those with a unit may be too many different ones."""
        if not has_many_units and len({unit for unit, _ in forms} - {""}) <= MAX_UNITS:
            return cls(text, forms)
        kept = {form: cells for form, cells in forms.items() if not form[0]}
        return cls(_merged([text, *(cells for form, cells in forms.items() if form not in kept)]), kept, True)

    def merge(self, other: "OtherCells") -> "OtherCells":
        """Return those of both."""
        forms = {form: _merged([counts.forms[form] for counts in (self, other) if form in counts.forms])
                 for form in {**self.forms, **other.forms}}
        return OtherCells.of(self.text.merge(other.text), forms, self.has_many_units or other.has_many_units)

    @property
    def units(self) -> dict[str, int]:
        """The cells of each unit, the most frequent one first."""
        counts = Counter[str]()
        for (unit, _), cells in self.forms.items():
            if unit:
                counts[unit] += cells.texts
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def numbers(self, unit: str) -> int:
        """Return how many cells are numbers of a column of some unit, or of none."""
        return sum(cells.texts for (of_unit, _), cells in self.forms.items() if of_unit in ("", unit))

    def bounds(self, unit: str) -> Cells:
        """Return the numbers among these that have a bound."""
        return _merged([cells for (kind, is_bound), cells in self.forms.items() if is_bound and kind in ("", unit)])

    def odd(self, unit: str) -> Cells:
        """Return the cells that are no numbers of a column of some unit, or of none."""
        return _merged([self.text, *(cells for (of_unit, _), cells in self.forms.items() if of_unit not in ("", unit))])


def _merged(cells: Sequence[Cells]) -> Cells:
    return reduce(Cells.merge, cells, Cells())


@dataclass(frozen=True)
class CellCounts:
    """What the cells of some rows of a column are.

    rows : of them. missing : cells that are, whatever the column holds; gaps : further ones if it holds numbers.
    numbers, others : by decimal mark, numbers without unit and bound, and what is neither such nor missing. truths : by
    line of `TRUTH`. plain : whether every number is written as Python writes it. measured : numbers with a fraction, a
    currency, a % or marks between thousands. commas : numbers with a comma. coded : whole numbers that begin with a
    zero. digits : the fewest and the most digits of a whole number. marked : the first number with other marks. low,
    high : of the numbers without. sizes : cells such as 10x20x5 cm, by the number of sides and the unit.
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
        """Return those of both; the rows of `other` come after these."""
        return CellCounts(
            self.rows + other.rows, self.missing + other.missing, self.gaps + other.gaps,
            {mark: self.numbers[mark] + other.numbers[mark] for mark in GROUPS},
            {mark: self.others[mark].merge(other.others[mark]) for mark in GROUPS},
            tuple(mine + theirs for mine, theirs in zip(self.truths, other.truths, strict=True)),
            self.plain and other.plain, self.measured + other.measured, self.commas + other.commas,
            self.coded + other.coded,
            (min(self.digits[0], other.digits[0]), max(self.digits[1], other.digits[1])), self.marked or other.marked,
            min(self.low, other.low), max(self.high, other.high), dict(Counter(self.sizes) + Counter(other.sizes)))

    @classmethod
    def of_numbers(cls, values: np.ndarray, first_row: int = 0, grouped: np.ndarray | None = None) -> "CellCounts":
        """Return the counts of numbers (n,) that were written as Python writes them; NaN where one is missing.

        grouped : which of them, (n,) bool, are other numbers where the point stands between thousands.
        """
        is_there = ~np.isnan(values)
        there = values[is_there]
        is_whole = np.rint(there) == there
        whole = int(is_whole.sum())
        european = is_whole if grouped is None else is_whole | grouped[is_there]
        rows = np.flatnonzero(is_there)[~european][:MAX_ODD + 1].tolist()
        odd = Cells(int((~european).sum()), tuple((first_row + row, repr(float(values[row]))) for row in rows))
        low, high = (float(there.min()), float(there.max())) if len(there) else (np.inf, -np.inf)
        counted = there[is_whole & (there >= 0) & np.isfinite(there)]
        digits = (len(f"{counted.min():.0f}"), len(f"{counted.max():.0f}")) if len(counted) else (99, 0)
        return cls(len(values), len(values) - len(there), 0, {".": len(there), ",": int(european.sum())},
                   {".": OtherCells(), ",": OtherCells(odd)}, measured=len(there) - whole, digits=digits,
                   low=low, high=high)

    @classmethod
    def of_text(cls, cells: pa.Array, missing: Sequence[str], formats: dict[str, NumberFormat],
                first_row: int = 0) -> "CellCounts":
        """Return the counts of trimmed cells of text; formats : by decimal mark, those that are possible."""
        plain = _plain_numbers(cells, missing) if "." in formats else None
        if plain is not None:
            return cls.of_numbers(plain[0], first_row, plain[1])
        encoded = cells.dictionary_encode()
        unique = encoded.dictionary
        codes = encoded.indices.fill_null(len(unique)).to_numpy(zero_copy_only=False)
        sizes = np.bincount(codes, minlength=len(unique) + 1)[:len(unique)]
        gone = are_missing(unique, missing)
        gap = are_gaps(unique) & ~gone
        lower = pc.utf8_lower(unique)
        is_truth = as_bools(pc.is_in(lower, value_set=pa.array(TRUTH_WORDS[0], pa.string())))
        parsed = {mark: parsed_cells(unique, format) for mark, format in formats.items()}
        none, part = np.zeros(len(unique), bool), unique
        of, formed, others = dict.fromkeys(GROUPS, none), none, {}
        count = _Counter(unique, codes, sizes, first_row)
        for mark in GROUPS:
            own = parsed.get(mark)
            if own is None:
                others[mark] = OtherCells(count.cells(~(gone | gap)))
                continue
            of[mark] = own.is_number & ~own.is_bound & ~gone & ~gap
            with_form = ((own.is_number & own.is_bound & ~is_truth) | (own.unit != "")) & ~gone & ~gap
            others[mark] = count.others(~(of[mark] | gone | gap), with_form, own)
            part = pc.if_else(pa.array(with_form & ~formed), own.part, part)
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
            len(cells), int(sizes[gone].sum()) + cells.null_count, int(sizes[gap].sum()),
            {mark: int(sizes[of[mark]].sum()) for mark in GROUPS}, others,
            tuple(int(sizes[as_bools(pc.is_in(lower, value_set=pa.array(words, pa.string())))].sum())
                  for words in TRUTH_WORDS),
            not ((number & ~python) | formed).any(), int(sizes[fractions | marked | (formed & ~python)].sum()),
            int(sizes[(number | formed) & comma].sum()),
            int(sizes[zero].sum()),
            (int(lengths.min()), int(lengths.max())) if len(lengths) else (99, 0),
            unique[int(np.argmax(marked))].as_py() if marked.any() else "",
            float(known.min()) if len(known) else np.inf, float(known.max()) if len(known) else -np.inf,
            count_sizes(unique, sizes, gone | gap))

    @property
    def size(self) -> tuple[int, str] | None:
        """The number of sides and the unit that all cells have which are not missing; None unless they are sizes."""
        there = self.rows - self.missing - self.gaps
        return next((size for size, count in self.sizes.items() if count == there), None)

    @property
    def is_plain(self) -> bool:
        """Whether all cells are missing or numbers as Python writes them, none of which begins with a zero."""
        return self.plain and not self.coded and not self.others["."].text.texts and not self.truths[0]

    def is_mostly_numbers(self, decimal: str) -> bool:
        """Return whether at least half of the cells are numbers under a decimal mark, and no codes."""
        return not self.coded and self.numbers[decimal] >= max(1, self.odd(decimal).texts)

    def unit(self, decimal: str) -> str:
        """Return the unit that `NUMERIC` of the numbers have, those of other units aside; "" of none."""
        units, others = self.others[decimal].units, self.others[decimal]
        unit = next(iter(units), "")
        return unit if units and units[unit] >= NUMERIC * (self.numbers[decimal] + others.numbers(unit)) else ""

    def odd(self, decimal: str) -> Cells:
        """Return the cells that are neither missing nor numbers in the unit of the column."""
        return self.others[decimal].odd(self.unit(decimal))

    def odd_as(self, reading: Reading, decimal: str) -> Cells:
        """Return the cells that are not what a column of numbers, or of yes and no, holds."""
        odd = self.others[decimal].odd(reading.unit)
        if reading.kind != "truth":
            return odd
        return Cells(odd.texts - sum(self.truths[1:]), tuple(
            (row, text) for row, text in odd.examples if not is_truth_word(text)))

    def reading(self, decimal: str, *, is_target: bool = False) -> Reading:
        """Return how the column is read, under a decimal mark."""
        kind = self.kind(decimal, is_target=is_target)
        return Reading(kind, self.unit(decimal) if kind == "number" else "")

    def written_as(self, reading: Reading, decimal: str) -> str:
        """Return an example of numbers that Python writes in another way, "" where there are none."""
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
        """Return in words how many cells have which unit, where there are several and most cells are numbers."""
        units = self.others[decimal].units
        counts = [(repr(unit), count) for unit, count in units.items()]
        if bare := self.numbers[decimal] + self.others[decimal].numbers(""):
            counts.append(("no unit", bare))
        known = sum(count for _, count in counts)
        if self.coded or not units or len(counts) < 2 or 2 * known < self.rows - self.missing:
            return ""
        return ", ".join(f"{unit} in {count:,} cells" for unit, count in counts)

    def kind(self, decimal: str, *, is_target: bool = False) -> Kind:
        """Return what the column is, under a decimal mark.

        It holds numbers if `NUMERIC` of its cells are, of one unit, and they are no codes, which begin with zeros, nor
        more bounds than numbers; yes and no if these are its only cells. A target stays text where the name of a class
        is no number, or is yes or no.
        """
        others, unit = self.others[decimal], self.unit(decimal)
        known, odd = self.numbers[decimal] + others.numbers(unit), others.odd(unit).texts
        bounds = others.bounds(unit).texts
        there = self.rows - self.missing
        if there == 0:
            return "number"
        is_code = self.coded > 0 and (self.digits[0] == self.digits[1] > 1 or self.coded > (1 - NUMERIC) * known)
        if is_target and self.truths[0]:
            return "text"
        if not is_target and any(count == there for count in self.truths):
            return "truth"
        if is_code or known == 0 or odd > (1 - NUMERIC) * (known + odd) or 2 * bounds > known:
            return "text"
        if is_target and (odd or self.gaps or bounds or unit) and not self.measured and self.high - self.low < WIDE:
            return "text"
        return "number"


def is_category(n_levels: int, n_cells: int) -> bool:
    """Return whether text of so many different levels is a category: each comes often enough to learn from it."""
    most = max(n_cells / ROWS_PER_LEVEL, min(FEW_LEVELS, n_cells / 2))
    return n_levels <= MOST_LEVELS and (n_levels <= most or n_cells < FEWEST_CELLS)


def _plain_numbers(cells: pa.Array, missing: Sequence[str]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return trimmed cells as float64, NaN where missing, and which could have points between thousands.

    None if one of them is neither a number as Python writes it nor missing, or begins with a zero as codes do.
    """
    known = pc.is_in(cells, value_set=pa.array([*MISSING, *missing], pa.string()))
    try:
        values = pc.if_else(known, None, cells).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    if pc.any(pc.match_substring_regex(cells, r"^0\d+$")).as_py():
        return None
    grouped = pc.match_substring_regex(cells, r"^[+-]?\d{1,3}(?:\.\d{3})+$")
    return values.to_numpy(zero_copy_only=False), as_bools(grouped)


class _Counter:
    """Counts cells by their texts, of which the first few are kept with their rows.

    unique : the texts, in the order of their first rows. codes : which of them each cell is. sizes : cells of each.
    """

    def __init__(self, unique: pa.Array, codes: np.ndarray, sizes: np.ndarray, first_row: int) -> None:
        self.unique, self.sizes = unique, sizes
        self.row_of = np.empty(len(unique) + 1, np.int64)
        # Of equal codes the last one is kept, which is the first row.
        self.row_of[codes[::-1]] = first_row + np.arange(len(codes))[::-1]

    def cells(self, chosen: np.ndarray) -> Cells:
        """Return the cells of the texts that are chosen."""
        first = np.flatnonzero(chosen)[:MAX_ODD + 1].tolist()
        return Cells(int(self.sizes[chosen].sum()), tuple((int(self.row_of[k]), self.unique[k].as_py()) for k in first))

    def others(self, chosen: np.ndarray, with_form: np.ndarray, parsed: ParsedCells) -> OtherCells:
        """Return the cells of the texts that are chosen, of which some are numbers with a unit or a bound."""
        has_many_units = len({*parsed.unit[with_form]} - {""}) > MAX_UNITS
        if has_many_units:
            with_form = with_form & (parsed.unit == "")
        pairs = {*zip(parsed.unit[with_form].tolist(), parsed.is_bound[with_form].tolist(), strict=True)}
        forms = {(unit, is_bound): self.cells(with_form & (parsed.unit == unit) & (parsed.is_bound == is_bound))
                 for unit, is_bound in pairs}
        return OtherCells.of(self.cells(chosen & ~with_form), forms, has_many_units)


def decimal_of(columns: Sequence[CellCounts], formats: dict[str, NumberFormat], *, prefer: str = ".") -> str:
    """Return the decimal mark of a file: the one under which more cells of its columns of numbers are numbers.

    prefer : the mark where "1,200" may be either number and nothing else tells.
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
