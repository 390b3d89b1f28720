"""Parse cells that are sizes, such as 10x20x5 or 10 x 20 mm; each side becomes a feature."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .cell_text import NumberFormat, numbers, with_plain_marks

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
