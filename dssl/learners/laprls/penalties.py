"""The penalties of LapRLS in two scales: relative to the mean loss, and those of the paper.

    (1 / w) sum of w_i (y_i - f(x_i))^2 + gamma_A |f|_K^2 + gamma_I f' E f / n^2,    w = sum of w_i      (Belkin et al.)
            sum of w_i (y_i - f(x_i))^2 + lambda_A |f|_K^2 + lambda_I f' E f                             (Li et al.)

over the labels, with n labeled and unlabeled points, duplicates counted. Both have the same minimum for

    lambda_A = gamma_A w,    lambda_I = gamma_I w / n^2

For a held-out fold, w is the weight of the training labels, and n the number of points in the graph.

Penalties and bandwidth that are "chosen" maximize the posterior over

    bandwidth   "0.5*median", "2*median"
    gamma_A     "10*auto", "auto"
    gamma_I     0, "auto", "10*auto"

The likelihood is `exp(-sum |e|^2 / (2 s^2))` of the leave-one-out residuals e, as in `average.py`, of values times the
factor that fits them best. The prior depends on the spectral concentration q of the graph
(`graph/spectral_concentration.py`): `(5 / q)^2` for the pairs without the graph together against 1 for the others; of
the others each in proportion to `(q / 25)^log10(r / 10)`, r = lambda_I / lambda_A; and `min(1, 5 / q)` for the wider
kernel against 1 for the narrower. With few labels the graph weighs more the more clusters it has; with many labels the
residuals decide.

References
----------
Belkin, Niyogi, Sindhwani, "Manifold regularization", JMLR 2006, equation (8); Li, Liu, Yin, Wang, "Approximate
manifold regularization", IJCAI 2019, equation (2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...base.digest import BANDWIDTH, multiple_of
from ...base.errors import require
from ...kernels.base import Kernel, has_bandwidth

AUTO_A, AUTO_I = 0.01, 0.1  # "auto", in the paper's scale
PENALTIES = ("gamma_A", "gamma_I")
CHOSEN = "chosen"  # selected among candidates by the posterior

MIN_PENALTY, MAX_PENALTY = 1e-50, 1e50  # so that squares of quotients are finite

Penalty = float | str  # a number, "auto", or a multiple such as "10*auto"


@dataclass(frozen=True)
class PenaltyScale:
    """The factors between the two scales.

    weights : of the training labels of each fold; last, of all labels. n : points, duplicates counted.
    remaining : points of the graph without each fold; empty where held-out points stay in the graph.
    """

    weights: tuple[float, ...]
    n: int
    remaining: tuple[int, ...] = ()

    def points(self, held_out: int) -> int:
        """Return the points of the graph when this fold is held out, -1 for none."""
        return self.remaining[held_out] if self.remaining and held_out >= 0 else self.n

    def number(self, name: str, value: Penalty) -> float:
        """Return a penalty as a number; for all labels "auto" is the paper's lambda_A = 0.01 or lambda_I = 0.1."""
        if not isinstance(value, str):
            return float(value)
        auto = AUTO_A / self.weights[-1] if name == "gamma_A" else AUTO_I * self.n**2 / self.weights[-1]
        return multiple_of("auto", value) * auto


@dataclass(frozen=True)
class Penalties:
    """The penalties of a system, its held-out fold (-1 for none), and whether the control replaces the graph.

    scale : None where the penalties are those of the paper.
    """

    gamma_A: float
    gamma_I: float
    held_out: int = -1
    control: bool = False
    scale: PenaltyScale | None = None

    @property
    def lambda_A(self) -> float:
        """Return the penalty of the norm in the paper's scale."""
        return self.gamma_A if self.scale is None else self.gamma_A * self.scale.weights[self.held_out]

    @property
    def lambda_I(self) -> float:
        """Return the penalty of the graph's energy in the paper's scale."""
        if self.scale is None:
            return self.gamma_I
        return self.gamma_I * self.scale.weights[self.held_out] / self.scale.points(self.held_out) ** 2

    def of_the_mean(self, weight: float) -> tuple[float, float]:
        """Return the penalties of the norm and of f' E f against the mean loss of labels of this total weight."""
        if self.scale is None:
            return self.gamma_A / weight, self.gamma_I / weight
        return self.gamma_A, self.gamma_I / self.scale.points(self.held_out) ** 2

    def of_folds(self, first: int, last: int) -> list["Penalties"]:
        """Return the penalties of a problem that holds out the folds [first, last) alone, numbered from 0.

        Its graph is the one without this system's held-out fold, if any.
        """
        scale = self.scale
        if scale is not None:
            weights = (*scale.weights[first:last], scale.weights[-1])
            scale = PenaltyScale(weights, scale.points(self.held_out))
        return [replace(self, held_out=number, scale=scale) for number in range(last - first)]

    @property
    def whole(self) -> "Penalties":
        """Return the penalties with no fold held out."""
        return replace(self, held_out=-1)

    @property
    def has_graph(self) -> bool:
        """Return whether the graph's energy is in the system."""
        return self.gamma_I > 0 and not self.control

    @property
    def has_control(self) -> bool:
        """Return whether the mean over relabelings replaces the graph's energy."""
        return self.gamma_I > 0 and self.control


def with_folds(pairs: Sequence[Penalties], n_folds: int) -> list[Penalties]:
    """Return each pair of penalties once for each held-out fold."""
    return [replace(pair, held_out=fold) for pair in pairs for fold in range(n_folds)]


def by_pair(systems: Sequence[Penalties]) -> list[list[int]]:
    """Return the numbers of the systems of each pair of penalties, in the order of first occurrence."""
    numbers: dict[Penalties, list[int]] = {}
    for number, item in enumerate(systems):
        numbers.setdefault(item.whole, []).append(number)
    return list(numbers.values())


def by_ratio(pairs: Sequence[Penalties]) -> dict[tuple[bool, float], list[int]]:
    """Return the numbers of pairs by `has_control` and the ratio lambda_I / lambda_A, rounded to 14 digits."""
    numbers: dict[tuple[bool, float], list[int]] = {}
    for index, pair in enumerate(pairs):
        numbers.setdefault((pair.has_control, float(f"{pair.lambda_I / pair.lambda_A:.13e}")), []).append(index)
    return numbers


def fold_norms(pairs: Sequence[Penalties], n_folds: int) -> np.ndarray:
    """Return lambda_A (p, F) of each pair with each fold held out."""
    return np.array([item.lambda_A for item in with_folds(pairs, n_folds)]).reshape(-1, n_folds)


def require_penalties(gamma_A: Penalty, gamma_I: Penalty) -> None:
    """Raise ParameterError unless gamma_A > 0 and gamma_I >= 0 are finite numbers, or multiples of "auto"."""
    require(_is_penalty(gamma_A) and gamma_A != 0, f'gamma_A={gamma_A!r}, expected a number > 0, or "auto"',
            why="without it the coefficients are not determined where labels and graph say nothing",
            fix='use "auto", or a multiple such as "0.1*auto"; or "chosen" as the only value, to select it by the '
                "labels")
    require(_is_penalty(gamma_I), f'gamma_I={gamma_I!r}, expected a number >= 0, or "auto"',
            why="it weighs the graph's energy", fix='use 0 for no graph, "auto", or a multiple such as "0.1*auto"; or '
                                                    '"chosen" as the only value, to select it by the labels')
    for name, value in zip(PENALTIES, (gamma_A, gamma_I), strict=True):
        size = multiple_of("auto", value) if isinstance(value, str) else float(value)
        require(size == 0 or MIN_PENALTY <= size <= MAX_PENALTY,
                f"{name}={value!r}, beyond {MIN_PENALTY:g} to {MAX_PENALTY:g}",
                why="products with it are zero or infinite in float64", fix='use a multiple of "auto" from 1e-6 to 1e6')


def _is_penalty(value: object) -> bool:
    if isinstance(value, str):
        return bool(multiple_of("auto", value) > 0)
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(0 <= value < np.inf)


VALUES: dict[str, tuple[Penalty, ...]] = {"gamma_A": ("10*auto", "auto"), "gamma_I": (0.0, "auto", "10*auto")}
EVEN = 5.0  # the spectral concentration at which base kernel and graph have equal priors
USUAL_CONCENTRATION = 25.0  # at which all penalties of the graph have equal priors
BANDWIDTHS = BANDWIDTH, "2*median"  # the first where labels cannot tell
UNKNOWN = 0.3  # the prior of the base kernel and of the wider kernel where the concentration is not known
MIN_CONCENTRATION = 0.5
MAX_LABELS = 1000  # with more, the prior is ignored


def penalty_candidates(name: str, value: Penalty) -> tuple[Penalty, ...]:
    """Return the candidates of a penalty: several for "chosen", else the value itself."""
    return VALUES[name] if isinstance(value, str) and value == CHOSEN else (value,)


def bandwidth_candidates(kernel: str | Kernel,
                         bandwidth: float | str | None) -> tuple[float | str | None, ...]:
    """Return the candidates of a bandwidth: `BANDWIDTHS` for "chosen" and a named kernel, else the value itself."""
    if not (isinstance(bandwidth, str) and bandwidth == CHOSEN):
        return (bandwidth,)
    return BANDWIDTHS if isinstance(kernel, str) and has_bandwidth(kernel) else (None,)


def log_priors(systems: Sequence[Penalties], concentration: float | None) -> np.ndarray:
    """Return the log prior (p,) of each pair of penalties, given the spectral concentration of the graph, if known."""
    ratio = np.array([system.lambda_I / system.lambda_A for system in systems])
    q, base = max(concentration or USUAL_CONCENTRATION, MIN_CONCENTRATION), ratio == 0
    logs = np.zeros(len(systems))
    logs[~base] = np.log10(ratio[~base] / 10) * np.log(q / USUAL_CONCENTRATION)
    of_base = np.log(UNKNOWN if concentration is None else (EVEN / q) ** 2)
    for group, mass in ((base, of_base), (~base, 0.0)):
        if group.any():
            logs[group] += mass - np.logaddexp.reduce(logs[group])
    return logs


def log_priors_of_bandwidths(concentration: float | None) -> tuple[float, float]:
    """Return the log prior of each of `BANDWIDTHS`; concentration : see `log_priors`."""
    share = UNKNOWN if concentration is None else min(1.0, EVEN / max(concentration, MIN_CONCENTRATION))
    return 0.0, float(np.log(share))
