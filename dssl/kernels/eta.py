"""The weight of the graph in a deformed kernel, as it is given."""

from typing import Any

import numpy as np

from ..base.errors import require

AUTO = "auto"
MAX_ETA = 1e8
Eta = float | str  # a number, or AUTO: the mean of kernels of several


def require_eta(eta: Any) -> None:
    """Raise ParameterError unless eta is "auto" or a number that a kernel can have."""
    if isinstance(eta, str):
        require(eta == AUTO, f"eta={eta!r}, expected a number or {AUTO!r}", why="it weighs the graph",
                fix='use "auto", 0 for the base kernel, or 1 to 1000')
    else:
        check_eta(eta)


def check_eta(eta: Any) -> None:
    """Raise ParameterError unless eta is a number from 0 to `MAX_ETA`."""
    number = isinstance(eta, (int, float, np.number)) and not isinstance(eta, bool)
    require(number and 0 <= eta <= MAX_ETA, f"eta={eta!r}, expected 0 to {MAX_ETA:g}",
            why="it weighs the graph against the base kernel, of which about 1 / eta is left: beyond 1e8 that is "
                "rounding error", fix="use 0 for the base kernel, or 1 to 1000")
