"""How the distance of two neighbors becomes a weight.

    binary      w = 1
    heat        w = exp(-d^2 / (2 h^2)), one bandwidth h; by default the median distance to the k-th neighbor
    self_tuned  w = exp(-d_ij^2 / (width^2 s_i s_j)), s_i the distance of point i to its k-th neighbor
                (Zelnik-Manor, Perona, "Self-tuning spectral clustering", NIPS 2004, with width 1)

A weight that underflows makes the Laplacian useless to iterative solvers and infinite to multigrid, so none is
smaller than 1e-10 of the median; how many were raised to that floor is counted.
"""

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np

from ...base.errors import explain, require

KINDS = ("binary", "heat", "self_tuned")
SYMMETRIZATIONS = ("maximum", "minimum", "mean")
FLOOR = 1e-10  # of the median weight
# Of self-tuned weights: for learners on the graph, and for those with a base kernel. Half gives the former 1.5 to 3
# points at every label rate; the latter lose up to 12 by it at one label a class, and 14 on two moons at five.
WIDTH, KERNEL_WIDTH = 0.5, 1.0
FEW_RAISED = 0.02  # of all entries
LEAST_LOG = -600.0  # exp(-708) is the last normal float64


@dataclass(frozen=True, kw_only=True)
class WeightParams:
    """How lists become weights.

    weights : "binary", "heat" or "self_tuned".
    bandwidth : h of "heat", in units of distance; None takes the median distance to the k-th neighbor.
    width : of "self_tuned", in units of the distances to the k-th neighbors. The smaller, the less a far neighbor
        counts beside a near one; 0.5 has a k-th neighbor count exp(-4). Other weights do not read it.
    symmetrize : of the two directed weights of a pair, 0 where one does not list the other, take the "maximum"
        (an edge where either lists the other), the "minimum" (where both do) or the "mean".
    """

    weights: Literal["binary", "heat", "self_tuned"] = "self_tuned"
    bandwidth: float | None = None
    width: float = WIDTH
    symmetrize: Literal["maximum", "minimum", "mean"] = "maximum"

    def __post_init__(self) -> None:
        require(self.weights in KINDS, f"weights={self.weights!r}, expected one of {KINDS}",
                why="no other weight is defined", fix='use "self_tuned", which needs no bandwidth')
        require(self.symmetrize in SYMMETRIZATIONS,
                f"symmetrize={self.symmetrize!r}, expected one of {SYMMETRIZATIONS}",
                why="a Laplacian needs one weight per pair", fix='use "maximum", which isolates no point')
        distance = isinstance(self.bandwidth, Real) and 1e-100 <= float(self.bandwidth) <= 1e100
        require(self.bandwidth is None or (self.weights == "heat" and distance),
                f"bandwidth={self.bandwidth!r} with weights={self.weights!r}",
                why="only heat weights have a bandwidth, and it is a distance, 1e-100 to 1e100",
                fix="leave bandwidth out, or choose a distance between near points")
        number = isinstance(self.width, Real) and not isinstance(self.width, bool) and 1e-3 <= float(self.width) <= 1e3
        require(number, f"width={self.width!r}, expected 0.001 to 1000", why="it is a multiple of the distances to the "
                "k-th neighbors", fix=f"leave width at {WIDTH}, or try 0.35 to 1")


@dataclass(frozen=True)
class WeightRule:
    """Parameters with everything that depends on all lists filled in.

    scale : the bandwidth of "heat", the width of "self_tuned". least_log : the log of the least weight.
    """

    kind: str
    scale: float
    least_log: float

    def log_weights(self, distances: np.ndarray, scales: np.ndarray, other_scales: np.ndarray) -> np.ndarray:
        """Return the log weights of edges of these lengths between points of these scales; 0 between copies."""
        squared = distances.astype(np.float64) ** 2
        if self.kind == "binary":
            return np.zeros_like(squared)
        if self.kind == "heat":
            return -squared / (2 * self.scale**2)
        product = scales * other_scales
        # A point whose k nearest are all copies of it has no scale; it takes the other's.
        product = np.where(product > 0, product, np.maximum(scales, other_scales) ** 2)
        return -np.divide(squared, self.scale**2 * product, out=np.zeros_like(squared), where=squared > 0)

    def weights(self, distances: np.ndarray, scales: np.ndarray, other_scales: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the weights and the number of those raised to the floor."""
        logs = self.log_weights(distances, scales, other_scales)
        low = logs < self.least_log
        return np.exp(np.where(low, self.least_log, logs)), int(low.sum())


class WeightsRaised(UserWarning):
    """Some weights were below the floor."""


def warn_raised(attributes: dict[str, Any], stacklevel: int = 4) -> None:
    """Warn with WeightsRaised if weights with these attributes were raised to the floor.

    Of self-tuned weights a few always are, where a point far from others lists one among its near neighbors: no more
    than `FEW_RAISED` of them are told by the report alone.
    """
    if attributes["raised"] > (FEW_RAISED * attributes["entries"] if attributes["weights"] == "self_tuned" else 0):
        warnings.warn(explain(
            f"{attributes['raised']} of {attributes['entries']} weights were below {attributes['floor']:.3g}",
            why="they are zero beside the others, and were raised to 1e-10 of the median weight",
            fix={"heat": "choose a larger bandwidth, or self_tuned weights",
                 "self_tuned": "choose a larger width, or drop points far from others",
                 "given": "give weights that differ less"}.get(attributes["weights"], "drop points far from others"),
        ), WeightsRaised, stacklevel=stacklevel)
