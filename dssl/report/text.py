"""Numbers, sizes and times as words."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..base.units import size_text

ABSENT = "–"


def finite(value: object) -> float | None:
    """Return a value as a float, or None if it is no finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def percent(share: object, digits: int = 1) -> str:
    """Return a share as per cent: 0.1028 as 10.3 %."""
    value = finite(share)
    return ABSENT if value is None else f"{100 * value:.{digits}f} %"


def with_interval(shown: Callable[[object], str], value: object, ends: Sequence[float] | None) -> str:
    """Return a value with its 95 % interval, such as 8.0 % (4.6 to 13.5 %); without where that is unknown.

    shown : the text of a number.
    """
    text = shown(value)
    return text if ends is None else f"{text} ({shown(ends[0]).removesuffix(' %')} to {shown(ends[1])})"


def points(gain: object) -> str:
    """Return a difference of shares in percentage points, without its sign."""
    value = finite(gain)
    if value is None:
        return ABSENT
    return f"{100 * abs(value):.1f} point{'' if round(100 * abs(value), 1) == 1 else 's'}"


def number(value: object) -> str:
    """Return a number in a few characters: whole ones with separators, others with three or four digits."""
    real = finite(value)
    if real is None:
        return ABSENT
    if isinstance(value, int):
        return f"{value:,}"
    if real.is_integer() and abs(real) < 1e15:
        return f"{int(real):,}"
    if 1000 <= abs(real) < 1e6:
        return f"{real:,.0f}"
    return f"{real:.1f}" if 100 <= abs(real) < 1000 else f"{real:.3g}"


def counted(value: object, one: str, many: str | None = None) -> str:
    """Return a count with its noun: 1 class, 10 classes."""
    return f"{number(value)} {one if value == 1 else many or one + 's'}"


def p_value(value: object) -> str:
    """Return a p-value as `p = 0.012`, or below 0.0001 as `p < 0.0001`: digits beyond that mean nothing."""
    p = finite(value)
    if p is None:
        return f"p = {ABSENT}"
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"


def size(n_bytes: object) -> str:
    """Return a number of bytes as `size_text` does; nothing measured is absent."""
    value = finite(n_bytes)
    return size_text(value) if value else ABSENT


def duration(seconds: object) -> str:
    """Return seconds as 0.31 s, 4 min 05 s or 2 h 10 min."""
    value = finite(seconds)
    if value is None:
        return ABSENT
    if value < 60:
        return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def plain_label(value: object, length: int = 18) -> str:
    """Return a value as one line of at most `length` characters; of a longer one the begin and the end.

    Names of classes that begin alike often differ in their ends.
    """
    text = "".join(c if c.isprintable() else " " for c in str(value)).strip() or "(empty)"
    if len(text) <= length:
        return text
    end = length // 3
    return f"{text[:length - 1 - end].rstrip()}…{text[-end:].lstrip()}"


def quoted(value: object) -> str:
    """Return a class or a quantity as a sentence names it."""
    if isinstance(value, str):
        return f"“{plain_label(value, 40)}”"
    return number(value) if isinstance(value, float) else str(value)


def listed(values: Sequence[object], limit: int) -> str:
    """Return the first values, as short labels, with commas, and how many follow."""
    shown = ", ".join(plain_label(value, 40) for value in values[:limit])
    return f"{shown} and {number(len(values) - limit)} more" if len(values) > limit else shown


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of a table as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def at(mapping: object, *path: str) -> Any:
    """Return what lies at a path of keys, or None where a key is missing."""
    for key in path:
        mapping = mapping.get(key) if isinstance(mapping, dict) else None
    return mapping
