"""Sizes of memory and durations as people write and read them, and the memory budget of a task."""

import re
from contextlib import suppress

from .digest import is_whole
from .errors import require

MEMORY_BUDGET = 1 << 30  # default bytes of a task; the same everywhere, so that blocks and rounding are the same too
UNITS = {"": 1, "b": 1} | {unit: base**power for base, ends in ((1000, ("", "b")), (1024, ("i", "ib")))
                           for power, letter in enumerate("kmgtp", 1) for unit in (letter + end for end in ends)}
SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+\.)\s*([a-z]*)\s*", re.IGNORECASE)


def budget_of(value: object) -> int:
    """Return the bytes of a budget, `MEMORY_BUDGET` for None; raise ParameterError if it is not a size."""
    return MEMORY_BUDGET if value is None else size_of(value)


def size_of(value: object) -> int:
    """Return the bytes of a size, given as an integer or text such as "500MB"; raise ParameterError otherwise."""
    size = value if is_whole(value) else 0
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        with suppress(OverflowError):
            size = int(float(match[1]) * UNITS.get(match[2].lower(), 0))
    require(bool(size > 0), f"{value!r} is not a size", why="it says how much memory a task may take",
            fix="write a number and a unit, such as 500MB or 2GiB")
    return int(size)


def size_text(nbytes: float) -> str:
    """Return bytes with a unit in powers of 1,000, such as "1.2 GB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" or nbytes >= 99.5 else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} TB"


def size_setting(nbytes: int, *, up: bool) -> str:
    """Return a size as options accept it, rounded up or down to three digits, such as "1.24GB"."""
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if nbytes >= 10**power:
            step = 10 ** max(len(str(nbytes)) - 3, 0)
            return f"{(-(-nbytes // step) if up else nbytes // step) * step / 10**power:.12g}{unit}"
    return f"{nbytes}B"


def time_text(seconds: float) -> str:
    """Return a duration with a unit, such as "1.5 min"."""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 0.95 * size:
            return f"{seconds / size:,.0f} {unit}" if seconds >= 9.5 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"
