"""Parse the text of cells: numbers in all their forms, yes and no, missing cells, and sizes, such as 10 x 20 mm.

A number may have a unit (162 cm, 9.8 % vol, $54.2k), or a bound before it (<5), and then is the bound. Each side of a
size becomes a feature.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.missing import MISSING

# Texts that mark missing cells in columns of numbers, in upper or lower case, in addition to MISSING. In columns of
# text they may be a category.
NUMBER_GAPS = ("-", "--", "---", "—", "–", ".", "..", "...", "na", "n/a", "n.a.", "n.a", "#n/a", "<na>", "nan", "null",
               "none", "nil", "missing", "unknown", "not available", "no data",
               # German, French, Spanish and Portuguese, Italian and Dutch
               "k.a.", "k. a.", "keine angabe", "fehlt", "unbekannt",
               "n.d.", "n/d", "nd", "n.c.", "n/c", "inconnu", "manquant", "non disponible",
               "s/d", "s.d.", "sin dato", "sin datos", "desconocido", "desconhecido", "sem dados",
               "sconosciuto", "non disponibile", "onbekend", "n.b.", "n.v.t.")
TRUTH = (  # words for 0 and for 1, in any case; a column holds those of one line, the first of which are numbers too
    (("false",), ("true",)), (("no",), ("yes", "si", "sí", "sì")), (("nein", "nee", "nej"), ("ja",)),
    (("non",), ("oui",)), (("não",), ("sim",)), (("n",), ("y", "j")), (("f",), ("t",)), (("falsch",), ("wahr",)),
    (("faux",), ("vrai",)))
TRUTH_WORDS = tuple((*no, *yes) for no, yes in TRUTH)
SIGNS = "$€£¥₹"
CURRENCY = f"(?:[{SIGNS}]|USD|EUR|GBP|JPY|CHF|CAD|AUD|INR)"
MONEY = rf"{CURRENCY}\s?"  # before a number
GROUPS = {".": ",' ", ",": ".' "}  # marks between thousands, by decimal mark
BOUND = r"^(?:[<>]=?|[≤≥])\s*"
UNIT_WORD = rf"[\pL°µ{SIGNS}]+(?:\^?-?[23]|[²³])?"
UNIT = rf"""(?:(?:%\s?)?{UNIT_WORD}(?:(?:/\d*|[ ·*.])\s?{UNIT_WORD}){{0,2}}[.%]?|["'″′])"""
CODE_UNIT = "^[xX]{2,}$"  # what hides digits of a code: 121xx
SPACES = "[\u00a0\u2007\u2009\u202f]"
TYPOGRAPHY = f"{SPACES}|[\u2212\u03bc]"


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

    @property
    def marks(self) -> str:
        """The regular expression (RE2) of what a number has beside its digits, sign and decimal mark."""
        return rf"{CURRENCY}|[%()\s" + "".join(f"\\{mark}" for mark in self.thousands.replace(" ", "")) + "]"

    @property
    def before_unit(self) -> str:
        """The regular expression (RE2) of a number that a unit follows."""
        return rf"[+-]?(?:{MONEY})?{_digits(self.decimal, self.thousands)}"

    @property
    def unit_pattern(self) -> str:
        """The regular expression (RE2) of a number and its unit."""
        return rf"^(?P<number>{self.before_unit})\s?(?P<unit>{UNIT})$"

    def without_zero_fraction(self, cells: pa.Array) -> pa.Array:
        """Return trimmed cells, of which a whole number with a fraction of zeros (5411.0) has none (5411).

        Numbers with leading zeros are codes of other digits, and stay.
        """
        return pc.replace_substring_regex(cells, rf"^([+-]?(?:[1-9]\d*|0))\{self.decimal}0+$", r"\1")


@cache
def _digits(decimal: str, thousands: str) -> str:
    """Return the regular expression of a number without a sign; no thousands begin with a zero, as in 0.637."""
    mark = f"\\{decimal}"
    groups = "".join(rf"|[1-9]\d{{0,2}}(?:\{between}\d{{3}})+" for between in thousands)
    return rf"(?:(?:\d+{groups})(?:{mark}\d*)?|{mark}\d+)(?:[eE][+-]?\d+)?"


@cache
def _pattern(decimal: str, thousands: str, percent: bool) -> str:
    number = _digits(decimal, thousands)
    after = rf"(?:\s?(?:{CURRENCY}{'|%' if percent else ''}))?"
    return (rf"^(?:[+-]?(?:{MONEY})?{number}{after}|{MONEY}[+-]{number}|\((?:{MONEY})?{number}{after}\)"
            r"|(?i:[+-]?inf(?:inity)?))$")


def trimmed(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column of text without blanks around its cells."""
    cells = plain_text(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    return pc.utf8_trim_whitespace(cells.cast(pa.string()))


def trimmed_texts(texts: Iterable[object]) -> pa.Array:
    """Return what is printed of some cells, without blanks around it."""
    return trimmed(pa.array([str(text) for text in texts], pa.string()))


def plain_text(column: pa.Array) -> pa.Array:
    """Return a column with views of text (as polars writes them), which few functions of Arrow take, as text."""
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.large_string()))
    return column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column


def with_plain_marks(cells: pa.Array) -> pa.Array:
    """Return cells with the blanks and minus signs of typography as those of a keyboard, and one sign for micro."""
    if not pc.any(pc.match_substring_regex(cells, TYPOGRAPHY)).as_py():
        return cells
    cells = pc.replace_substring(pc.replace_substring_regex(cells, SPACES, " "), "\u2212", "-")
    return pc.replace_substring(cells, "\u03bc", "\u00b5")


def are_missing(cells: pa.Array, missing: Sequence[str]) -> np.ndarray:
    """Return which trimmed cells are missing, whatever the column holds; missing : texts beside `MISSING`."""
    known = pc.is_in(cells, value_set=pa.array([*MISSING, *missing], pa.string()))
    return as_bools(pc.or_(pc.is_null(cells), known))


def numbers_among(missing: Sequence[str]) -> list[float]:
    """Return the texts beside `MISSING` that are numbers as Python writes them."""
    return [float(text) for text in missing if re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+|(?i:inf(?:inity)?))", text)]


def are_gaps(cells: pa.Array) -> np.ndarray:
    """Return which trimmed cells are missing if the column holds numbers."""
    return as_bools(pc.is_in(pc.utf8_lower(cells), value_set=pa.array(NUMBER_GAPS, pa.string())))


def _are_numbers(cells: pa.Array, format: NumberFormat) -> np.ndarray:
    """Return which trimmed cells, as `with_plain_marks` has them, are numbers, or true and false."""
    is_truth = pc.is_in(pc.utf8_lower(cells), value_set=pa.array(TRUTH_WORDS[0], pa.string()))
    return as_bools(pc.or_(pc.match_substring_regex(cells, format.pattern), is_truth))


@dataclass(frozen=True)
class ParsedCells:
    """What trimmed cells are under a number format.

    is_bound : whether a bound stands before what is left. is_number : whether that is a number without a unit.
    unit : objects (n,), "" where that is no number with a unit. part : without bound and unit.
    """

    is_bound: np.ndarray
    is_number: np.ndarray
    unit: np.ndarray
    part: pa.Array


def parsed_cells(cells: pa.Array, format: NumberFormat) -> ParsedCells:
    """Return what trimmed cells are under a number format."""
    plain = with_plain_marks(cells)
    is_bound = as_bools(pc.match_substring_regex(plain, BOUND))
    unbounded = pc.replace_substring_regex(plain, BOUND, "") if is_bound.any() else plain
    is_number = _are_numbers(unbounded, format)
    matches = pc.extract_regex(pc.if_else(pa.array(is_number), None, unbounded), format.unit_pattern)
    number, unit = (pc.struct_field(matches, name) for name in ("number", "unit"))
    is_code = pc.fill_null(pc.or_(pc.match_substring_regex(number, r"^[+-]?0\d"),
                                  pc.match_substring_regex(unit, CODE_UNIT)), True)
    unit = pc.if_else(is_code, "", unit)
    return ParsedCells(is_bound, is_number, unit.to_numpy(zero_copy_only=False),
                   pc.if_else(is_code, unbounded, number))


def numbers(cells: pa.Array, format: NumberFormat, unit: str = "") -> np.ndarray:
    """Return trimmed cells as float64, NaN where one is no number; of a number with a bound (<5) the bound.

    unit : that numbers may have.
    """
    parsed = parsed_cells(cells, format)
    is_number = parsed.is_number | (parsed.unit == unit) if unit else parsed.is_number
    text = pc.if_else(pa.array(is_number), parsed.part, "nan")
    lower = pc.utf8_lower(text)
    text = pc.if_else(pc.equal(lower, "true"), "1", pc.if_else(pc.equal(lower, "false"), "0", text))
    bare = pc.replace_substring_regex(text, format.marks, "")
    values = pc.replace_substring(bare, format.decimal, ".").cast(pa.float64()).to_numpy(zero_copy_only=False)
    percent, negative = (as_bools(pc.match_substring(text, mark)) for mark in ("%", "("))
    values = np.where(percent, values / 100, values)
    return np.where(negative, -values, values)


def is_number(cell: str) -> bool:
    """Return whether a text is a number under either decimal mark."""
    return any(re.match(NumberFormat(mark, GROUPS[mark]).pattern, cell.strip()) for mark in GROUPS)


def truths(cells: pa.Array, format: NumberFormat) -> np.ndarray:
    """Return trimmed cells that say yes or no as 1 and 0, numbers as they are, and NaN where one is neither."""
    lower, values = pc.utf8_lower(cells), numbers(cells, format)
    for value in (0, 1):
        words = [word for line in TRUTH for word in line[value]]
        values[as_bools(pc.is_in(lower, value_set=pa.array(words, pa.string())))] = value
    return values


def is_truth_word(text: str) -> bool:
    """Return whether a text says yes or no."""
    return any(text.lower() in words for words in TRUTH_WORDS)


def as_bools(array: pa.Array) -> np.ndarray:
    """Return booleans of Arrow as an array, False where one is null."""
    return np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False), bool)


def possible_formats(decimal: str | None, thousands: str | None, percent: bool | None) -> dict[str, NumberFormat]:
    """Return the number formats that the options leave open, by decimal mark."""
    return {mark: NumberFormat(
        mark, GROUPS[mark] if thousands is None else "" if thousands == "none" else thousands, percent is not False)
        for mark in GROUPS if decimal in (None, mark) and thousands != mark}


SIDE = r"(?:[1-9]\d*(?:[.,]\d+)?|0[.,]\d+)"  # of a size such as 10 x 20 x 5 cm
SIDE_UNIT = r"""(?:mm|cm|dm|km|m|µm|nm|inches|inch|in|ft|px|["'″′])"""
MAX_SIDES = 3


@dataclass(frozen=True)
class Side:
    """A feature that is one side of the sizes in a column: number of the column, of the side, and number of sides."""

    field: int
    side: int
    sides: int


@cache
def _sides_pattern(count: int) -> str:
    """Return the regular expression (RE2) of a size with `count` sides."""
    return "^" + r"\s?[xX×*]\s?".join(
        rf"(?P<side{k}>{SIDE})\s?(?P<unit{k}>{SIDE_UNIT}?)" for k in range(count)) + "$"


def side_units(cells: pa.Array, count: int) -> np.ndarray:
    """Return the units of trimmed cells that are sizes of so many sides, "" of none, objects (n,); None of other cells.

    The unit stands behind the last side, or behind each of them.
    """
    matches = pc.extract_regex(with_plain_marks(cells), _sides_pattern(count))
    units = [pc.struct_field(matches, f"unit{k}").to_numpy(zero_copy_only=False) for k in range(count)]
    last = np.array(units[-1], object)
    last[~np.all([(unit == last) | (unit == "") for unit in units], axis=0)] = None
    return last


def side_numbers(cells: pa.Array, side: int, count: int, format: NumberFormat, unit: str) -> np.ndarray:
    """Return one side of trimmed cells that are sizes of `count` sides in a unit, float64; NaN for other cells."""
    sides = pc.struct_field(pc.extract_regex(with_plain_marks(cells), _sides_pattern(count)), f"side{side}")
    values = numbers(pc.fill_null(sides, ""), format)
    return np.where(side_units(cells, count) == unit, values, np.nan)


def count_sizes(unique: pa.Array, counts: np.ndarray, gone: np.ndarray) -> dict[tuple[int, str], int]:
    """Return the number of cells that are sizes, by number of sides and unit; counts : of cells with each text."""
    sizes: dict[tuple[int, str], int] = {}
    if not pc.any(pc.match_substring_regex(unique, r"^\d.*[xX×*]\s?\d")).as_py():
        return sizes
    for sides in range(2, MAX_SIDES + 1):
        units = side_units(unique, sides)
        for unit in {*units[~gone].tolist()} - {None}:
            sizes[sides, unit] = int(counts[(units == unit) & ~gone].sum())
    return sizes
