"""Memory sizes as users write them, and the memory budget of a task."""

import re
from contextlib import suppress
from typing import Any

import numpy as np

from ..base.errors import require

MEMORY_BUDGET = 1 << 30  # default bytes of a task; the same everywhere, so that blocks and rounding are the same too
UNITS = {"": 1, "b": 1} | {unit: base**power for base, ends in ((1000, ("", "b")), (1024, ("i", "ib")))
                           for power, letter in enumerate("kmgtp", 1) for unit in (letter + end for end in ends)}
SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+\.)\s*([a-z]*)\s*", re.IGNORECASE)


def budget_of(value: Any) -> int:
    """Return the bytes of a budget, `MEMORY_BUDGET` for None; raise ParameterError if it is not a size."""
    return MEMORY_BUDGET if value is None else size_of(value)


def size_of(value: Any) -> int:
    """Return the bytes of a size, given as an integer or text such as "500MB"; raise ParameterError otherwise."""
    size = value if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else 0
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is not None:
        with suppress(OverflowError):
            size = int(float(match[1]) * UNITS.get(match[2].lower(), 0))
    require(bool(size > 0), f"{value!r} is not a size", why="it says how much memory a task may take",
            fix="write a number and a unit, such as 500MB or 2GiB")
    return int(size)
