"""The penalties of LapRLS: one scale outside, that of the mean loss, and the paper's inside.

    (1 / w) sum of w_i (y_i - f(x_i))^2 + gamma_A |f|_K^2 + gamma_I f' E f / n^2,    w = sum of w_i      (Belkin et al.)
            sum of w_i (y_i - f(x_i))^2 + lambda_A |f|_K^2 + lambda_I f' E f                             (Li et al.)

over the labels, with n points, labeled and unlabeled, copies counted. They are the same function where

    lambda_A = gamma_A w,    lambda_I = gamma_I w / n^2

Where a fold is held out, w is that of the labels that are kept; and n that of the points that are left, where those
held out leave the graph.

Those that are "chosen", and the bandwidth with them, follow from labels, each predicted without itself, and from the
structure of the graph:

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

References
----------
Belkin, Niyogi, Sindhwani, "Manifold regularization", JMLR 2006, equation (8); Li, Liu, Yin, Wang, "Approximate
manifold regularization", IJCAI 2019, equation (2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.digest import BANDWIDTH, multiple_of
from ...base.errors import require
from ...kernels.base import has_bandwidth

AUTO_A, AUTO_I = 0.01, 0.1  # "auto", in the paper's scale
PENALTIES = ("gamma_A", "gamma_I")
CHOSEN = "chosen"  # of several values, by the labels

LEAST, MOST = 1e-50, 1e50  # of a penalty, so that squares of what is divided by one are numbers

Penalty = float | str  # a number, "auto", or a multiple such as "10*auto"


@dataclass(frozen=True)
class PenaltyScale:
    """What stands between the two scales.

    weights : of the labels without each fold that is held out; last, of all labels. n : points, copies counted.
    left : points of the graph without each fold, where points that are held out leave it; empty where they stay.
    """

    weights: tuple[float, ...]
    n: int
    left: tuple[int, ...] = ()

    def points(self, held: int) -> int:
        """Return the points of the graph without this fold, -1 for none."""
        return self.left[held] if self.left and held >= 0 else self.n

    def number(self, name: str, value: Penalty) -> float:
        """Return a penalty as a number; "auto" is the paper's lambda_A = 0.01 or lambda_I = 0.1, with all labels."""
        if not isinstance(value, str):
            return float(value)
        auto = AUTO_A / self.weights[-1] if name == "gamma_A" else AUTO_I * self.n**2 / self.weights[-1]
        return multiple_of("auto", value) * auto


@dataclass(frozen=True)
class Penalties:
    """The penalties of a system, the fold that is held out (-1 for none), and whether the graph is the control.

    scale : None where the penalties are the paper's.
    """

    gamma_A: float
    gamma_I: float
    held: int = -1
    control: bool = False
    scale: PenaltyScale | None = None

    @property
    def lambda_A(self) -> float:
        """Return the weight of the norm in the paper's scale."""
        return self.gamma_A if self.scale is None else self.gamma_A * self.scale.weights[self.held]

    @property
    def lambda_I(self) -> float:
        """Return the weight of the graph's energy in the paper's scale."""
        if self.scale is None:
            return self.gamma_I
        return self.gamma_I * self.scale.weights[self.held] / self.scale.points(self.held) ** 2

    def of_the_mean(self, weight: float) -> tuple[float, float]:
        """Return the weights of the norm and of f' E f against the mean loss of labels of this weight in all."""
        if self.scale is None:
            return self.gamma_A / weight, self.gamma_I / weight
        return self.gamma_A, self.gamma_I / self.scale.points(self.held) ** 2

    @property
    def alone(self) -> "Penalties":
        """Return the same where the fold that is held out is the only one, fold 0 of the graph without its points."""
        scale = self.scale
        if scale is not None:
            scale = PenaltyScale((scale.weights[self.held], scale.weights[-1]), scale.points(self.held))
        return replace(self, held=0, scale=scale)

    @property
    def whole(self) -> "Penalties":
        """Return the same with no fold held out."""
        return replace(self, held=-1)

    @property
    def has_graph(self) -> bool:
        """Return whether the graph's energy is in the system."""
        return self.gamma_I > 0 and not self.control

    @property
    def has_control(self) -> bool:
        """Return whether the mean over relabelings stands for the graph's energy."""
        return self.gamma_I > 0 and self.control


def with_folds(pairs: Sequence[Penalties], n_folds: int) -> list[Penalties]:
    """Return each pair of penalties once a fold, that fold held out."""
    return [replace(pair, held=fold) for pair in pairs for fold in range(n_folds)]


def by_pair(systems: Sequence[Penalties]) -> list[list[int]]:
    """Return the numbers of the systems of each pair of penalties, pairs in the order in which they are first met."""
    numbers: dict[Penalties, list[int]] = {}
    for number, item in enumerate(systems):
        numbers.setdefault(item.whole, []).append(number)
    return list(numbers.values())


def by_ratio(pairs: Sequence[Penalties]) -> dict[tuple[bool, float], list[int]]:
    """Return the numbers of pairs, the same fold or none held out, by `has_control` and the ratio lambda_I / lambda_A.

    Ratios that differ in their last digits are one, so that those of a grid in equal steps are few.
    """
    numbers: dict[tuple[bool, float], list[int]] = {}
    for index, pair in enumerate(pairs):
        numbers.setdefault((pair.has_control, float(f"{pair.lambda_I / pair.lambda_A:.13e}")), []).append(index)
    return numbers


def norms_without(pairs: Sequence[Penalties], n_folds: int) -> np.ndarray:
    """Return lambda_A (p, F) of each pair with each fold held out."""
    return np.array([item.lambda_A for item in with_folds(pairs, n_folds)]).reshape(-1, n_folds)


def require_penalties(gamma_A: Any, gamma_I: Any) -> None:
    """Raise ParameterError unless gamma_A > 0 and gamma_I >= 0 are finite numbers, or multiples of "auto"."""
    require(_is_penalty(gamma_A) and gamma_A != 0, f'gamma_A={gamma_A!r}, expected a number > 0, or "auto"',
            why="without it the coefficients are not determined where labels and graph say nothing",
            fix='use "auto", or a multiple such as "0.1*auto"; or "chosen", alone, for the choice by the labels')
    require(_is_penalty(gamma_I), f'gamma_I={gamma_I!r}, expected a number >= 0, or "auto"',
            why="it weighs the graph's energy", fix='use 0 for no graph, "auto", or a multiple such as "0.1*auto"; or '
                                                    '"chosen", alone, for the choice by the labels')
    for name, value in zip(PENALTIES, (gamma_A, gamma_I), strict=True):
        size = multiple_of("auto", value) if isinstance(value, str) else float(value)
        require(size == 0 or LEAST <= size <= MOST, f"{name}={value!r}, beyond {LEAST:g} to {MOST:g}",
                why="products with it are zero or infinite in float64", fix='use a multiple of "auto" from 1e-6 to 1e6')


def _is_penalty(value: Any) -> bool:
    if isinstance(value, str):
        return bool(multiple_of("auto", value) > 0)
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(0 <= value < np.inf)


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
    logs = np.zeros(len(systems))
    logs[~base] = np.log10(ratio[~base] / 10) * np.log(q / USUAL)
    of_base = np.log(UNKNOWN if structure is None else (EVEN / q) ** 2)
    for group, mass in ((base, of_base), (~base, 0.0)):
        if group.any():
            logs[group] += mass - np.logaddexp.reduce(logs[group])
    return logs


def log_priors_of_bandwidths(structure: float | None) -> tuple[float, float]:
    """Return the logarithm of what each of `BANDWIDTHS` counts for before any label; structure as in `log_priors`."""
    share = UNKNOWN if structure is None else min(1.0, EVEN / max(structure, LEAST_STRUCTURE))
    return 0.0, float(np.log(share))
