"""How the distance of two neighbors becomes a weight: one class a rule, registered by its name in `WEIGHT_RULES`.

A weight that underflows makes the Laplacian useless to iterative solvers and infinite to multigrid, so none is
smaller than 1e-10 of the median; how many were raised to that floor is counted.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, ClassVar, Literal, Self

import numpy as np

from ...base.digest import JsonObject
from ...base.errors import explain, require
from ...base.plugins import Registry

SYMMETRIZATIONS = ("maximum", "minimum", "mean")
FLOOR = 1e-10  # of the median weight
# Of self-tuned weights: for learners on the graph, and for those with a base kernel. Half gives the former 1.5 to 3
# points at every label rate; the latter lose up to 12 by it at one label a class, and 14 on two moons at five.
WIDTH, KERNEL_WIDTH = 0.5, 1.0
MIN_LOG = -600.0  # exp(-708) is the last normal float64
GIVEN = "given"  # in place of a rule's name: weights that were brought


@dataclass(frozen=True)
class WeightRule(ABC):
    """A rule with everything that depends on all lists filled in.

    Parameters
    ----------
    scale : float
        The bandwidth or the width, whichever `scale_name` says.
    log_floor : float
        The log of the smallest weight; what is below is raised to it.

    Attributes
    ----------
    name : str
        By which specs and stored graphs know the rule.
    scale_name : "bandwidth", "width" or None
        The parameter that the rule reads. A bandwidth is a distance, by default the median distance to the k-th
        neighbor; a width is a multiple of the distances to the k-th neighbors.
    local_scales : bool
        Whether the rule reads the distance to the k-th neighbor of both ends of an edge, which costs a shuffle.
    constant : bool
        Whether all weights are equal, so that there is no floor to be found.
    few_raised : float
        The share of all entries that may be raised to the floor without a warning.
    raised_hint : str
        What to do where more are raised.
    """

    scale: float = 1.0
    log_floor: float = -np.inf

    name: ClassVar[str]
    scale_name: ClassVar[Literal["bandwidth", "width"] | None] = None
    local_scales: ClassVar[bool] = False
    constant: ClassVar[bool] = False
    few_raised: ClassVar[float] = 0.0
    raised_hint: ClassVar[str] = "drop points far from others"

    @classmethod
    def scaled(cls, bandwidth: float, width: float) -> Self:
        """Return the rule of the one of the two that it reads."""
        return cls({"bandwidth": bandwidth, "width": width, None: 1.0}[cls.scale_name])

    @abstractmethod
    def log_weights(self, distances: np.ndarray, scales: np.ndarray, other_scales: np.ndarray) -> np.ndarray:
        """Return the log weights (float64) of edges of these lengths between points of these scales.

        Two copies have the weight 1. Without `local_scales` the scales say nothing.
        """

    def weights(self, distances: np.ndarray, scales: np.ndarray, other_scales: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the weights and the number of those raised to the floor."""
        logs = self.log_weights(distances, scales, other_scales)
        low = logs < self.log_floor
        return np.exp(np.where(low, self.log_floor, logs)), int(low.sum())


class Binary(WeightRule):
    """w = 1."""

    name = "binary"
    constant = True

    def log_weights(self, distances: np.ndarray, scales: np.ndarray, other_scales: np.ndarray) -> np.ndarray:
        return np.zeros(distances.shape)


class Heat(WeightRule):
    """w = exp(-d^2 / (2 h^2)), one bandwidth h for all points."""

    name = "heat"
    scale_name = "bandwidth"
    raised_hint = "choose a larger bandwidth, or self_tuned weights"

    def log_weights(self, distances: np.ndarray, scales: np.ndarray, other_scales: np.ndarray) -> np.ndarray:
        return -distances.astype(np.float64) ** 2 / (2 * self.scale**2)


class SelfTuned(WeightRule):
    """w = exp(-d_ij^2 / (width^2 s_i s_j)), s_i the distance of point i to its k-th neighbor.

    A few weights are always raised, where a point far from others is one of its neighbors' near ones.

    References
    ----------
    Zelnik-Manor, Perona, "Self-tuning spectral clustering", NIPS 2004, with width 1.
    """

    name = "self_tuned"
    scale_name = "width"
    local_scales = True
    few_raised = 0.02
    raised_hint = "choose a larger width, or drop points far from others"

    def log_weights(self, distances: np.ndarray, scales: np.ndarray, other_scales: np.ndarray) -> np.ndarray:
        squared = distances.astype(np.float64) ** 2
        product = scales * other_scales
        # A point whose k nearest are all duplicates of it has no scale; it takes the other's.
        product = np.where(product > 0, product, np.maximum(scales, other_scales) ** 2)
        return -np.divide(squared, self.scale**2 * product, out=np.zeros_like(squared), where=squared > 0)


WEIGHT_RULES = Registry[WeightRule]("weight rule", Binary, Heat, SelfTuned)
WeightsName = Annotated[str, WEIGHT_RULES]


@dataclass(frozen=True, kw_only=True)
class WeightParams:
    """How lists become weights.

    Parameters
    ----------
    weights : str
        The name of a rule: "binary", "heat", "self_tuned" or one that a plugin registers.
    bandwidth : float or None
        Of rules with a bandwidth, in units of distance; None takes the median distance to the k-th neighbor.
    width : float
        Of "self_tuned", in units of the distances to the k-th neighbors. The smaller, the less a far neighbor
        counts beside a near one; 0.5 has a k-th neighbor count exp(-4). Rules without a width do not read it.
    symmetrize : "maximum", "minimum" or "mean"
        Of the two directed weights of a pair, 0 where one does not list the other, take the maximum (an edge where
        either lists the other), the minimum (where both do) or the mean.
    """

    weights: WeightsName = SelfTuned.name
    bandwidth: float | None = None
    width: float = WIDTH
    symmetrize: Literal["maximum", "minimum", "mean"] = "maximum"

    def __post_init__(self) -> None:
        rule = self.rule
        require(self.symmetrize in SYMMETRIZATIONS,
                f"symmetrize={self.symmetrize!r}, expected one of {SYMMETRIZATIONS}",
                why="a Laplacian needs one weight per pair", fix='use "maximum", which isolates no point')
        distance = isinstance(self.bandwidth, Real) and 1e-100 <= float(self.bandwidth) <= 1e100
        require(self.bandwidth is None or (rule.scale_name == "bandwidth" and distance),
                f"bandwidth={self.bandwidth!r} with weights={self.weights!r}",
                why="only heat weights have a bandwidth, and it is a distance, 1e-100 to 1e100",
                fix="leave bandwidth out, or choose a distance between near points")
        number = isinstance(self.width, Real) and not isinstance(self.width, bool) and 1e-3 <= float(self.width) <= 1e3
        require(number, f"width={self.width!r}, expected 0.001 to 1000", why="it is a multiple of the distances to the "
                "k-th neighbors", fix=f"leave width at {WIDTH}, or try 0.35 to 1")

    @property
    def rule(self) -> type[WeightRule]:
        """Return the class that `weights` names."""
        return WEIGHT_RULES.named(self.weights, "weights", 'use "self_tuned", which needs no bandwidth')


def rule_at_new_points(attributes: JsonObject, params: WeightParams) -> WeightRule:
    """Return the rule that weighs the nearest vertices of a new point, of a graph whose weights have these attributes.

    Weights that were brought say no rule, and then `params` do; but no bandwidth of theirs fits those weights.
    """
    if attributes["weights"] != GIVEN:
        width = attributes.get("width") or params.width
        return WEIGHT_RULES.named(attributes["weights"]).scaled(attributes["bandwidth"], width)
    rule = SelfTuned if params.rule.scale_name == "bandwidth" else params.rule
    return rule.scaled(1.0, params.width)


class WeightsRaised(UserWarning):
    """Some weights were below the floor."""


def warn_raised(attributes: JsonObject, stacklevel: int = 4) -> None:
    """Warn with WeightsRaised if more weights with these attributes were raised to the floor than the rule allows."""
    rule = None if attributes["weights"] == GIVEN else WEIGHT_RULES.named(attributes["weights"])
    if attributes["raised"] > (rule.few_raised * attributes["entries"] if rule else 0):
        warnings.warn(explain(
            f"{attributes['raised']} of {attributes['entries']} weights were below {attributes['floor']:.3g}",
            why="they are zero beside the others, and were raised to 1e-10 of the median weight",
            fix=rule.raised_hint if rule else "give weights that differ less",
        ), WeightsRaised, stacklevel=stacklevel)
