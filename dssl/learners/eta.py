"""The weight of the graph in a deformed kernel: a number, or "auto", the mean of kernels of several.

    K(x, z) = sum over eta of share(eta) K_eta(x, z) / (mean of K_eta(z_i, z_i) over the labeled points)

with eta = 0, the base kernel alone, 10 and 100. A share is in proportion to `exp(-sum |e|^2 / (2 s^2))`, of the
exact leave-one-out residuals e of ridge regression in K_eta (`average.py`), and to a prior that sees no label: the base
kernel has `(2.4 / q)^2` against 1 of the others together, with the graph's structure q
(`graph/spectral_concentration.py`). So where neighbors are those of noise the base kernel predicts from one label a
class on, where there are clusters the graph does, and with more labels these decide. It is one kernel again, for any
learner; the intercept of a ridge regression in it is as free as the base kernel's share is large.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels.base import Kernel
from ..kernels.deformed import Eta, KernelMean, check_share, deform
from ..kernels.gram import kernel_block
from .average import shares_of
from .held_out.closed_form import held_out_ridge
from .linear.gram import mean_diagonal
from .target.target import Target

ETAS = (0.0, 10.0, 100.0)
EVEN = 2.4  # the structure of a graph that counts for as much as the base kernel
UNKNOWN = 0.3  # what the base kernel counts for where the structure is not known
PENALTY = 0.1  # of the ridge regression that judges, for a kernel of unit mean diagonal


def etas_of(eta: Eta) -> tuple[float, ...]:
    """Return the numbers that eta stands for."""
    return ETAS if isinstance(eta, str) else (float(eta),)


def prior_of(structure: float | None) -> np.ndarray:
    """Return what the kernels of `ETAS` count for before any label, from the structure of the graph."""
    of_base = UNKNOWN if structure is None else (EVEN / max(structure, 0.1 * EVEN)) ** 2
    return np.array([of_base, 0.5, 0.5])


def shares_of_etas(grams: Sequence[np.ndarray], target: Target, weight: np.ndarray | None,
                   structure: float | None) -> np.ndarray:
    """Return what the kernels of `ETAS` count for, from their Gram matrices (l, l) of the labeled points; sums to 1."""
    prior, Y = prior_of(structure), target.indicators()
    if len(Y) <= target.n_strata:  # no class keeps a label where one is left out
        return prior / prior.sum()
    folds = list(np.arange(len(Y))[:, None])
    return shares_of([held_out_ridge(K / mean_diagonal(K, weight), Y, folds, np.full(len(Y), PENALTY), weight)
                      for K in grams], target, weight, prior)


def weights_of(grams: Sequence[np.ndarray], shares: np.ndarray, weight: np.ndarray | None = None) -> list[float]:
    """Return what kernels are multiplied by: their shares of a sum in which each has mean diagonal 1."""
    return [float(share) / mean_diagonal(K, weight) for K, share in zip(grams, shares, strict=True)]


def sum_of(grams: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """Return the weighted sum of matrices."""
    return np.asarray(sum(share * K for K, share in zip(grams, weights, strict=True)))


@dataclass(frozen=True, eq=False)
class Deformation:
    """A base kernel that a graph has deformed by one eta, or by several.

    kernel : their mean. K (l, l) : its Gram matrix of the labeled points. etas, shares : of its parts. free : how free
    the intercept of a ridge regression in it is (`linear/gram.py`), of "auto" the share of the base kernel.
    """

    kernel: KernelMean
    K: np.ndarray
    etas: tuple[float, ...]
    shares: np.ndarray
    free: float = 0.0

    def off_the_subsample(self, X_S: Any, points: Any, coef: np.ndarray) -> tuple[KernelMean, np.ndarray]:
        """Return what makes up a function `K(., points) coef` at points of the graph that are not in the subsample.

        Each part f with eta is there (f + eta h) / (1 + eta), with h the function of least energy of the same values
        on the subsample X_S: the more weight the graph has, the less the base kernel says. Returned are the kernel of
        the parts of f, and the values of the parts of h on the subsample (s, c).
        """
        share = [eta / (1 + eta) for eta in self.etas]
        values = np.zeros((X_S.shape[0], coef.shape[1]))
        for part, weight, of_part in zip(self.kernel.parts, self.kernel.weights, share, strict=True):
            if of_part:
                base, centers, expanded = part.expansion(points, coef)
                values += of_part * weight * (kernel_block(base, X_S, centers) @ expanded)
        return KernelMean(self.kernel.parts, [weight * (1 - of_part) for weight, of_part in zip(
            self.kernel.weights, share, strict=True)]), values

    def described(self) -> list[dict[str, float]]:
        """Return each eta and its share; JSON."""
        return [{"eta": eta, "share": float(share)} for eta, share in zip(self.etas, self.shares, strict=True)]


def deform_by(eta: Eta, base: Kernel, X_S: Any, A: np.ndarray, points: Any, target: Target,
              weight: np.ndarray | None = None, structure: float | None = None,
              shares: np.ndarray | None = None) -> Deformation:
    """Return a kernel deformed by the graph's covariance A (s, s) on the points X_S (s, d).

    points (l, d) : the labeled ones, with their target and weight (l,). structure : of the graph, None where it is not
    known. shares : of "auto", in place of those that labels and structure say.

    Raises ParameterError: so large an eta leaves rounding errors of the base kernel.
    """
    etas = etas_of(eta)
    parts = [deform(base, X_S, A, eta) for eta in etas]
    grams = [part(points, points) for part in parts]
    for each, K in zip(etas, grams, strict=True):
        check_share(K, base, points, each)
    if len(etas) == 1:
        return Deformation(KernelMean(parts, [1.0]), grams[0], etas, np.ones(1))
    shares = shares_of_etas(grams, target, weight, structure) if shares is None else shares
    weights = weights_of(grams, shares, weight)
    return Deformation(KernelMean(parts, weights), sum_of(grams, weights), etas, shares, float(shares[0]))
