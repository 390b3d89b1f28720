"""Sizes as people write them."""

from contextlib import suppress
from typing import Any

import numpy as np
from dask.utils import parse_bytes

from ..errors import require
from .tasks import MEMORY_BUDGET


def budget_of(value: Any) -> int:
    """Return the bytes of a budget, `MEMORY_BUDGET` for None; raise ParameterError of what is no size."""
    return MEMORY_BUDGET if value is None else size_of(value)


def size_of(value: Any) -> int:
    """Return the bytes of a size, a whole number of them or text such as "500MB"; raise ParameterError of others."""
    size = value if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else 0
    if isinstance(value, str) and any(character.isdigit() for character in value):  # "MB" would be one
        with suppress(ValueError, OverflowError):
            size = parse_bytes(value)
    require(bool(size > 0), f"{value!r} is not a size", why="it says how much memory a task may take",
            fix="write a number and a unit, such as 500MB or 2GiB")
    return int(size)
