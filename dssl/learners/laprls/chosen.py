"""Penalties and bandwidth of LapRLS, "chosen": by labels, each predicted without itself, and the graph's structure.

    bandwidth   "0.5*median", "2*median"
    gamma_A     "10*auto", "auto"
    gamma_I     0, "auto", "10*auto"

Of all pairs in both kernels the most probable is taken: in proportion to `exp(-sum |e|^2 / (2 s^2))` of the held-out
residuals e, as in `average.py`, of values times the factor that fits them best, times what it counts for before any
label. There the pairs without the graph count `(5 / q)^2` in all against 1 of the others, with the graph's structure q
(`graph/spectral_concentration.py`), and of these each in proportion to `(q / 25)^log10(r / 10)`, r = lambda_I /
lambda_A; the wider kernel counts `5 / q`, or 1 if that is more, against 1 of the narrower. So where neighbors are those
of noise the base kernel predicts from one label a class on, the more clusters a graph has the more it weighs, and the
narrower the kernel that keeps them apart, and with more labels these decide.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.digest import BANDWIDTH
from ...kernels.base import has_bandwidth
from .penalties import CHOSEN, Penalties, Penalty

VALUES: dict[str, tuple[Penalty, ...]] = {"gamma_A": ("10*auto", "auto"), "gamma_I": (0.0, "auto", "10*auto")}
EVEN, USUAL = 5.0, 25.0  # the structures at which base kernel and graph, and light and heavy graphs, count alike
BANDWIDTHS = BANDWIDTH, "2*median"  # the first where labels cannot tell
UNKNOWN = 0.3  # what base kernel and wider kernel count for where the structure is not known
LEAST_STRUCTURE = 0.5
MOST_LABELS = 1000  # beyond them the residuals alone decide


def values_of(name: str, value: Any) -> tuple[Penalty, ...]:
    """Return the values that are tried of a penalty, "chosen", a number, or "auto" or a multiple."""
    return VALUES[name] if isinstance(value, str) and value == CHOSEN else (value,)


def bandwidths_of(kernel: Any, bandwidth: Any) -> tuple[Any, ...]:
    """Return the bandwidths that are tried of a kernel: of "chosen" `BANDWIDTHS`, if it is named and has one."""
    if not (isinstance(bandwidth, str) and bandwidth == CHOSEN):
        return (bandwidth,)
    return BANDWIDTHS if isinstance(kernel, str) and has_bandwidth(kernel) else (None,)


def log_priors(systems: Sequence[Penalties], structure: float | None) -> np.ndarray:
    """Return the logarithm (p,) of what each pair of penalties counts for before any label.

    structure : of the graph; None where it is not known: all pairs with the graph count alike then.
    """
    ratio = np.array([system.lambda_I / system.lambda_A for system in systems])
    q, base = max(structure or USUAL, LEAST_STRUCTURE), ratio == 0
    found = np.zeros(len(systems))
    found[~base] = np.log10(ratio[~base] / 10) * np.log(q / USUAL)
    of_base = np.log(UNKNOWN if structure is None else (EVEN / q) ** 2)
    for own, mass in ((base, of_base), (~base, 0.0)):
        if own.any():
            found[own] += mass - np.logaddexp.reduce(found[own])
    return found


def log_priors_of_bandwidths(structure: float | None) -> tuple[float, float]:
    """Return the logarithm of what each of `BANDWIDTHS` counts for before any label; structure as in `log_priors`."""
    share = UNKNOWN if structure is None else min(1.0, EVEN / max(structure, LEAST_STRUCTURE))
    return 0.0, float(np.log(share))
