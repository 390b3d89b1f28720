"""The weight of the graph in a deformed kernel: a number, or "auto", the mean of kernels of several.

    K(x, z) = sum over eta of share(eta) K_eta(x, z) / (mean of K_eta(z_i, z_i) over the labeled points)

for eta = 0 (the base kernel), 10 and 100. A share is proportional to `exp(-sum |e|^2 / (2 s^2))`, with the exact
leave-one-out residuals e of ridge regression in K_eta (`average.py`), and to a prior: `(2.4 / q)^2` for the base kernel
against 1 for the others together, where q is the spectral concentration of the graph
(`graph/spectral_concentration.py`). With few labels the graph predicts if it has clusters, and the base kernel if its
neighbors are noise; with more labels the residuals decide. The mean is one kernel, for any learner; the intercept of
ridge regression in it is unpenalized in proportion to the share of the base kernel.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..kernels.base import Kernel
from ..kernels.deformed import Eta, KernelMean, check_share, deform
from ..kernels.gram import kernel_block
from ..storage.csr import Points
from .average import shares_of
from .held_out.closed_form import held_out_ridge
from .linear.gram import mean_diagonal
from .target.target import Target

ETAS = (0.0, 10.0, 100.0)
EVEN = 2.4  # the spectral concentration at which base kernel and graph have equal priors
UNKNOWN = 0.3  # the prior of the base kernel where the concentration is not known
PENALTY = 0.1  # of the ridge regression whose residuals weigh kernels of unit mean diagonal


def eta_prior(concentration: float | None) -> np.ndarray:
    """Return the prior weights of the kernels of `ETAS` for a graph of this spectral concentration."""
    of_base = UNKNOWN if concentration is None else (EVEN / max(concentration, 0.1 * EVEN)) ** 2
    return np.array([of_base, 0.5, 0.5])


def eta_shares(grams: Sequence[np.ndarray], target: Target, weight: np.ndarray | None,
               concentration: float | None) -> np.ndarray:
    """Return the shares, of sum 1, of the kernels of `ETAS` from their Gram matrices (l, l) of the labeled points."""
    prior, Y = eta_prior(concentration), target.indicators()
    if len(Y) <= target.n_strata:  # held out, each label is the only one of its class
        return prior / prior.sum()
    folds = list(np.arange(len(Y))[:, None])
    return shares_of([held_out_ridge(K / mean_diagonal(K, weight), Y, folds, np.full(len(Y), PENALTY), weight)
                      for K in grams], target, weight, prior)


def kernel_weights(grams: Sequence[np.ndarray], shares: np.ndarray, weight: np.ndarray | None = None) -> list[float]:
    """Return the factors of kernels in a sum to which each, scaled to mean diagonal 1, contributes its share."""
    return [float(share) / mean_diagonal(K, weight) for K, share in zip(grams, shares, strict=True)]


def weighted_sum(grams: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    return np.asarray(sum(share * K for K, share in zip(grams, weights, strict=True)))


@dataclass(frozen=True, eq=False)
class Deformation:
    """A base kernel deformed by a graph with one eta, or the mean over several.

    K (l, l) : the Gram matrix of the labeled points. etas, shares : of the parts of `kernel`. unpenalized_intercept :
    that of `LearnerParams`; the share of the base kernel for eta "auto".
    """

    kernel: KernelMean
    K: np.ndarray
    etas: tuple[float, ...]
    shares: np.ndarray
    unpenalized_intercept: float = 0.0

    def at_other_points(self, X_S: Points, points: Points, coef: np.ndarray) -> tuple[KernelMean, np.ndarray]:
        """Return the two terms of a function `K(., points) coef` at points of the graph other than the landmarks X_S.

        There each part f of weight eta is (f + eta h) / (1 + eta), with h the function of least energy that equals f
        on X_S. Returns the kernel of the terms in f, and the values (s, c) of the terms in h on X_S.
        """
        graph_shares = [eta / (1 + eta) for eta in self.etas]
        values = np.zeros((X_S.shape[0], coef.shape[1]))
        for part, weight, graph_share in zip(self.kernel.parts, self.kernel.weights, graph_shares, strict=True):
            if graph_share:
                base, centers, expanded = part.expansion(points, coef)
                values += graph_share * weight * (kernel_block(base, X_S, centers) @ expanded)
        return KernelMean(self.kernel.parts, [weight * (1 - graph_share) for weight, graph_share in zip(
            self.kernel.weights, graph_shares, strict=True)]), values

    def described(self) -> list[dict[str, float]]:
        """Return each eta with its share; JSON."""
        return [{"eta": eta, "share": float(share)} for eta, share in zip(self.etas, self.shares, strict=True)]


def deform_by(eta: Eta, base: Kernel, X_S: Points, A: np.ndarray, points: Points, target: Target,
              weight: np.ndarray | None = None, concentration: float | None = None,
              shares: np.ndarray | None = None) -> Deformation:
    """Return a kernel deformed by the graph's covariance A (s, s) on the points X_S (s, d).

    points (l, d) : the labeled points, with their target and weight (l,). concentration : the spectral concentration
    of the graph, if known. shares : for eta "auto", in place of `eta_shares`.

    Raises ParameterError where eta is so large that only rounding errors of the base kernel are left.
    """
    etas = ETAS if isinstance(eta, str) else (float(eta),)
    parts = [deform(base, X_S, A, eta) for eta in etas]
    grams = [part(points, points) for part in parts]
    for each, K in zip(etas, grams, strict=True):
        check_share(K, base, points, each)
    if len(etas) == 1:
        return Deformation(KernelMean(parts, [1.0]), grams[0], etas, np.ones(1))
    shares = eta_shares(grams, target, weight, concentration) if shares is None else shares
    weights = kernel_weights(grams, shares, weight)
    return Deformation(KernelMean(parts, weights), weighted_sum(grams, weights), etas, shares, float(shares[0]))
