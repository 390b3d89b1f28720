"""What the text of a cell stands for: a number, however it is written, yes or no, a missing cell, or text.

A column is looked at as a whole (`CellCounts`, merged over pieces of the file in their order), and so is the file: it
has one decimal mark. `decide` says what each column is; it depends on the cells alone, not on the pieces.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...missing import MISSING

EXAMPLES = 5  # cells that are shown of many
MOST_ODD = 40  # different texts among numbers that `dssl init` names as missing; one more is kept, to know of more
NUMERIC = 0.95  # share of the cells of a column of numbers that are numbers
MOST_LEVELS = 1000  # of a category
ROWS_PER_LEVEL, FEW_LEVELS, FEWEST_CELLS = 20, 10, 20  # of a category; few levels are one where each comes twice
WIDE = 30  # between the smallest and the largest of whole numbers that are no codes of classes
# Missing in columns of numbers, in any case, beside MISSING; in text they may be a category.
NUMBER_GAPS = ("-", "--", "---", "—", "–", ".", "..", "...", "na", "n/a", "n.a.", "n.a", "#n/a", "<na>", "nan", "null",
               "none", "nil", "missing", "unknown", "not available", "no data")
TRUTH = (("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"))  # 0 and 1, in any case
CURRENCY = "(?:[$€£¥₹]|USD|EUR|GBP|JPY|CHF|CAD|AUD|INR)"
GROUPS = {".": ",' ", ",": ".' "}  # marks between thousands, by decimal mark
SPACES = "[\u00a0\u2007\u2009\u202f]"
Kind = Literal["number", "truth", "text"]


@dataclass(frozen=True)
class NumberFormat:
    """How numbers are written: the decimal mark, marks between thousands ("" for none), whether % divides by 100."""

    decimal: str = "."
    thousands: str = GROUPS["."]
    percent: bool = True

    @property
    def pattern(self) -> str:
        """The regular expression (RE2) of a number."""
        return _pattern(self.decimal, self.thousands, self.percent)


@cache
def _pattern(decimal: str, thousands: str, percent: bool) -> str:
    mark = f"\\{decimal}"
    groups = "".join(rf"|\d{{1,3}}(?:\{between}\d{{3}})+" for between in thousands)
    number = rf"(?:(?:\d+{groups})(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?"
    after = rf"(?:\s?(?:{CURRENCY}{'|%' if percent else ''}))?"
    money = rf"{CURRENCY}\s?"
    return (rf"^(?:[+-]?(?:{money})?{number}{after}|{money}[+-]{number}|\((?:{money})?{number}{after}\)"
            r"|(?i:[+-]?inf(?:inity)?))$")


def trimmed(column: Any) -> pa.Array:
    """Return a column of text without blanks around its cells."""
    cells = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    return pc.utf8_trim_whitespace(cells.cast(pa.string()))


def _plain(cells: pa.Array) -> pa.Array:
    """Return cells with the blanks and minus signs of typography as those of a keyboard."""
    return pc.replace_substring(pc.replace_substring_regex(cells, SPACES, " "), "\u2212", "-")


def are_missing(cells: pa.Array, missing: Sequence[str]) -> np.ndarray:
    """Return which trimmed cells are missing, whatever the column holds; missing : texts beside `MISSING`."""
    known = pc.is_in(cells, value_set=pa.array([*MISSING, *missing], pa.string()))
    return _bools(pc.or_(pc.is_null(cells), known))


def numbers_among(missing: Sequence[str]) -> list[float]:
    """Return the texts beside `MISSING` that are numbers as Python writes them."""
    return [float(text) for text in missing if re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)", text)]


def are_gaps(cells: pa.Array) -> np.ndarray:
    """Return which trimmed cells are missing if the column holds numbers."""
    return _bools(pc.is_in(pc.utf8_lower(cells), value_set=pa.array(NUMBER_GAPS, pa.string())))


def are_numbers(cells: pa.Array, format: NumberFormat) -> np.ndarray:
    """Return which trimmed cells are numbers, or true and false."""
    is_truth = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(TRUTH[0], pa.string()))
    return _bools(pc.or_(pc.match_substring_regex(_plain(cells), format.pattern), is_truth))


def numbers(cells: pa.Array, format: NumberFormat) -> np.ndarray:
    """Return trimmed cells as float64, NaN where one is no number."""
    is_number = are_numbers(cells, format)
    text = _plain(pc.if_else(pa.array(is_number), cells, "nan"))
    lower = pc.utf8_lower(text)
    text = pc.if_else(pc.equal(lower, "true"), "1", pc.if_else(pc.equal(lower, "false"), "0", text))
    marks = "".join(f"\\{mark}" for mark in format.thousands.replace(" ", ""))
    bare = pc.replace_substring_regex(text, rf"{CURRENCY}|[%()\s{marks}]", "")
    values = pc.replace_substring(bare, format.decimal, ".").cast(pa.float64()).to_numpy(zero_copy_only=False)
    percent, negative = (_bools(pc.match_substring(text, mark)) for mark in ("%", "("))
    values = np.where(percent, values / 100, values)
    return np.where(negative, -values, values)


def is_number(cell: str) -> bool:
    """Return whether a text is a number under either decimal mark."""
    return any(re.match(NumberFormat(mark, GROUPS[mark]).pattern, cell.strip()) for mark in GROUPS)


def truths(cells: pa.Array) -> np.ndarray:
    """Return trimmed cells that say yes or no as 1 and 0, NaN where one says neither."""
    lower, values = pc.utf8_lower(cells), np.full(len(cells), np.nan)
    for value in (0, 1):
        values[_bools(pc.is_in(lower, value_set=pa.array([pair[value] for pair in TRUTH], pa.string())))] = value
    return values


def _bools(array: pa.Array) -> np.ndarray:
    return np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False), bool)


@dataclass(frozen=True)
class Cells:
    """Cells of a column that are no numbers: text with (row, text) of the first `MOST_ODD` + 1 different ones, missing
    with the first row."""

    texts: int = 0
    examples: tuple[tuple[int, str], ...] = ()
    missing: int = 0
    first_missing: int = -1

    def merge(self, other: "Cells") -> "Cells":
        """Return those of both; the rows of `other` come after these."""
        known = {text for _, text in self.examples}
        more = (example for example in other.examples if example[1] not in known)
        return Cells(self.texts + other.texts, (*self.examples, *more)[:MOST_ODD + 1],
                     self.missing + other.missing, self.first_missing if self.missing else other.first_missing)

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
class CellCounts:
    """What the cells of some rows of a column are.

    rows : of them. missing : cells that are, whatever the column holds; gaps : further ones if it holds numbers.
    numbers : by decimal mark. odd : by decimal mark, what is neither a number nor missing. truths : by pair of `TRUTH`.
    plain : whether every number is written as Python writes it. measured : numbers with a fraction, a currency, a % or
    marks between thousands. commas : numbers with a comma. coded : whole numbers that begin with a zero. digits : the
    fewest and the most digits of a whole number. marked : the first number with other marks. low, high : of the
    numbers without.
    """

    rows: int = 0
    missing: int = 0
    gaps: int = 0
    numbers: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    odd: dict[str, Cells] = field(default_factory=lambda: dict.fromkeys(GROUPS, Cells()))
    truths: tuple[int, ...] = (0,) * len(TRUTH)
    plain: bool = True
    measured: int = 0
    commas: int = 0
    coded: int = 0
    digits: tuple[int, int] = (99, 0)
    marked: str = ""
    low: float = np.inf
    high: float = -np.inf

    def merge(self, other: "CellCounts") -> "CellCounts":
        """Return those of both; the rows of `other` come after these."""
        return CellCounts(
            self.rows + other.rows, self.missing + other.missing, self.gaps + other.gaps,
            {mark: self.numbers[mark] + other.numbers[mark] for mark in GROUPS},
            {mark: self.odd[mark].merge(other.odd[mark]) for mark in GROUPS},
            tuple(mine + theirs for mine, theirs in zip(self.truths, other.truths, strict=True)),
            self.plain and other.plain, self.measured + other.measured, self.commas + other.commas,
            self.coded + other.coded,
            (min(self.digits[0], other.digits[0]), max(self.digits[1], other.digits[1])), self.marked or other.marked,
            min(self.low, other.low), max(self.high, other.high))

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
        rows = np.flatnonzero(is_there)[~european][:MOST_ODD + 1].tolist()
        odd = Cells(int((~european).sum()), tuple((first_row + row, repr(float(values[row]))) for row in rows))
        low, high = (float(there.min()), float(there.max())) if len(there) else (np.inf, -np.inf)
        counted = there[is_whole & (there >= 0) & np.isfinite(there)]
        digits = (len(f"{counted.min():.0f}"), len(f"{counted.max():.0f}")) if len(counted) else (99, 0)
        return cls(len(values), len(values) - len(there), 0, {".": len(there), ",": int(european.sum())},
                   {".": Cells(), ",": odd}, measured=len(there) - whole, digits=digits,
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
        of = {mark: are_numbers(unique, format) & ~gone & ~gap for mark, format in formats.items()}
        odd = {}
        for mark in GROUPS:
            is_odd = ~(of[mark] | gone | gap) if mark in of else ~(gone | gap)
            odd[mark] = _some_cells(unique, codes, sizes, is_odd, first_row)
        number = np.logical_or.reduce([*of.values()]) if of else np.zeros(len(unique), bool)
        python = _bools(pc.match_substring_regex(unique, r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"))
        digits = _bools(pc.match_substring_regex(unique, r"^\d+$"))
        zero = _bools(pc.match_substring_regex(unique, r"^0\d+$"))
        lengths = pc.utf8_length(unique).to_numpy(zero_copy_only=False)[digits]
        values = pc.if_else(pa.array(python), unique, "nan").cast(pa.float64()).to_numpy(zero_copy_only=False)
        known = values[python]
        is_truth = _bools(pc.is_in(lower, value_set=pa.array(TRUTH[0], pa.string())))
        fractions = python & (values != np.rint(np.nan_to_num(values)))
        marked = number & ~python & ~is_truth
        comma = _bools(pc.match_substring(unique, ","))
        return cls(
            len(cells), int(sizes[gone].sum()) + cells.null_count, int(sizes[gap].sum()),
            {mark: int(sizes[of[mark]].sum()) if mark in of else 0 for mark in GROUPS}, odd,
            tuple(int(sizes[_bools(pc.is_in(lower, value_set=pa.array(pair, pa.string())))].sum()) for pair in TRUTH),
            not (number & ~python).any(), int(sizes[fractions | marked].sum()), int(sizes[number & comma].sum()),
            int(sizes[zero].sum()),
            (int(lengths.min()), int(lengths.max())) if len(lengths) else (99, 0),
            unique[int(np.argmax(marked))].as_py() if marked.any() else "",
            float(known.min()) if len(known) else np.inf, float(known.max()) if len(known) else -np.inf)

    @property
    def is_plain(self) -> bool:
        """Whether all cells are missing or numbers as Python writes them, none of which begins with a zero."""
        return self.plain and not self.coded and not self.odd["."].texts and not self.truths[0]

    def is_mostly_numbers(self, decimal: str) -> bool:
        """Return whether at least half of the cells are numbers under a decimal mark, and no codes."""
        return not self.coded and self.numbers[decimal] >= max(1, self.odd[decimal].texts)

    @property
    def pair(self) -> tuple[str, str]:
        """The pair of `TRUTH` that most cells are of."""
        return TRUTH[int(np.argmax(self.truths))]

    def kind(self, decimal: str, *, is_target: bool = False) -> Kind:
        """Return what the column is, under a decimal mark.

        It holds numbers if `NUMERIC` of its cells are, and they are no codes, which begin with zeros; yes and no if
        these are its only cells. A target stays text where the name of a class is no number, or is yes or no.
        """
        known, odd = self.numbers[decimal], self.odd[decimal].texts
        there = self.rows - self.missing
        if there == 0:
            return "number"
        is_code = self.coded > 0 and (self.digits[0] == self.digits[1] > 1 or self.coded > (1 - NUMERIC) * known)
        if is_target and self.truths[0]:
            return "text"
        if not is_target and any(count == there for count in self.truths):
            return "truth"
        if is_code or known == 0 or odd > (1 - NUMERIC) * (known + odd):
            return "text"
        if is_target and (odd or self.gaps) and not self.measured and self.high - self.low < WIDE:
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
    return values.to_numpy(zero_copy_only=False), _bools(grouped)


def _some_cells(unique: pa.Array, codes: np.ndarray, sizes: np.ndarray, chosen: np.ndarray, first_row: int) -> Cells:
    """Return the cells of the texts that are chosen, the first few different ones with their rows."""
    if not chosen.any():
        return Cells()
    row_of = np.empty(len(unique) + 1, np.int64)
    row_of[codes[::-1]] = np.arange(len(codes))[::-1]  # of equal codes the last one stays, which is the first row
    # Texts are in the order of their first rows.
    first = [(first_row + int(row_of[k]), unique[k].as_py()) for k in np.flatnonzero(chosen)[:MOST_ODD + 1].tolist()]
    return Cells(int(sizes[chosen].sum()), tuple(first))


def possible_formats(decimal: str | None, thousands: str | None, percent: bool | None) -> dict[str, NumberFormat]:
    """Return the number formats that the options leave open, by decimal mark."""
    return {mark: NumberFormat(
        mark, GROUPS[mark] if thousands is None else "" if thousands == "none" else thousands, percent is not False)
        for mark in GROUPS if decimal in (None, mark) and thousands != mark}


def decimal_of(columns: Sequence[CellCounts], formats: dict[str, NumberFormat], *, prefer: str = ".") -> str:
    """Return the decimal mark of a file: the one under which more cells of its columns of numbers are numbers.

    prefer : the mark where "1,200" may be either number and nothing else tells.
    """
    if len(formats) == 1:
        return next(iter(formats))
    votes = [counts.numbers[","] - counts.numbers["."] for counts in columns
             if any(counts.kind(mark) == "number" for mark in formats)]
    if sum(votes):
        return "," if sum(votes) > 0 else "."
    return prefer if any(counts.commas for counts in columns) else "."
