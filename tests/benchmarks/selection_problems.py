"""The sets of the second paper as problems of semi-supervised learning, and the kernels that their labels see."""

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpstrf

import dssl
from dssl.graph.energy.blocks import GraphEnergy
from dssl.graph.weights.build import kth_distances
from dssl.graph.weights.rules import WeightsRaised
from dssl.kernels.base import RBF

REGRESSION = ("bodyfat_scale", "mpg_scale", "housing_scale", "abalone_scale", "cpusmall_scale")
CLASSIFICATION = ("fourclass", "german_numer", "svmguide3", "splice", "a1a", "a2a", "madelon", "w1a")
OFFICIAL = ("svmguide3", "splice", "a1a", "a2a", "madelon", "w1a")  # whose training part alone is meant
TRAINING, LABELED = 0.7, 0.1  # shares
MIN_PIVOT_RATIO = 1e-12  # of a Gram matrix with a diagonal of ones


@dataclass(frozen=True, eq=False)
class Sample:
    """A split: points (n, d) and targets (n,) to train on, known at the rows `labeled`, and those to test on."""

    X: np.ndarray
    y: np.ndarray
    labeled: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return X (N, d) and y (N,), standardized over the set as in the paper; classes as -1 and +1."""
    with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as held:
        arrays = dict(held)
    X = arrays["X"] if "X" in arrays else sp.csr_matrix(
        (arrays["data"], arrays["indices"].astype(np.int32), arrays["indptr"]), shape=tuple(arrays["shape"])).toarray()
    X, y = X.astype(np.float64), arrays["y"].astype(np.float64)
    if name in OFFICIAL:
        X, y = X[arrays["split"] == 0], y[arrays["split"] == 0]
    scale = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return X, (y - y.mean()) / y.std() if name in REGRESSION else np.where(y == y.max(), 1.0, -1.0)


def sample(name: str, random_state: int, max_points: int) -> Sample:
    """Return 70 % of the points (`most` at most) to train on, 10 % of these with labels, and the rest to test on."""
    X, y = load(name)
    rng = np.random.default_rng([random_state, 1])
    train, test = np.split(rng.permutation(len(X)), [round(TRAINING * len(X))])
    train = train[:max_points]
    labeled = np.sort(rng.choice(len(train), round(LABELED * len(train)), replace=False))
    return Sample(X[train], y[train], labeled, X[test], y[test])


def graph_weights(X: np.ndarray, k: int, factor: float) -> sp.csr_array:
    """Return weights exp(-d^2 / (2 s)) of k neighbors, s the factor times the squared median distance to the k-th."""
    lists = dssl.neighbors(X, n_neighbors=k, method="exact")
    scales = kth_distances(lists)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeightsRaised)  # of a few points far from all others
        return dssl.weights(lists, "heat", bandwidth=factor**0.5 * float(np.median(scales[scales > 0])))


def energy_of(W: sp.csr_array) -> GraphEnergy:
    """Return the energy of the unnormalized Laplacian."""
    return GraphEnergy.of(W, "unnormalized")


@dataclass
class Clock:
    """CPU seconds of this process, by name."""

    seconds: dict[str, float]

    def of(self, name: str) -> "Clock":
        """Return this clock, to be entered: what passes within is added to the seconds of this name."""
        self.name = name
        return self

    def __enter__(self) -> None:
        self.begin = time.process_time()

    def __exit__(self, *failure: object) -> None:
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.process_time() - self.begin


def label_kernels(X: np.ndarray, E: sp.csr_array, labeled: np.ndarray, others: np.ndarray, sigma: float,
                  ratios: Sequence[float], clock: Clock) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield N (l, l) and G (o, l) of each ratio gamma_I / gamma_A: the kernel among labels, of others and labels.

    `N = J K (I + rho E K / n^2)^-1 J'`, J the labeled rows of X (n, d); over gamma_A it is all that the problem of a
    pair knows of the points, so pairs of one ratio share it. With a pivoted Cholesky factor of K = R R', to rounding,

        N = R_L (I + rho M)^-1 R_L',    M = R' E R / n^2

    one factorization of K, one product, and one factorization a ratio.
    """
    kernel = RBF(sigma**0.5)
    with clock.of("gram"):
        K = kernel(X, X)
    with clock.of("factors"):
        factor, order, rank, _ = dpstrf(K, tol=MIN_PIVOT_RATIO, lower=1, overwrite_a=1)
        pivots, L = order[:rank] - 1, np.tril(factor)[:, :rank]
        R = np.empty_like(L)
        R[order - 1] = L
        M = R.T @ (E @ R) / len(X) ** 2
    to_others = solve_triangular(L[:rank], kernel(X[pivots], others), lower=True, check_finite=False)
    for ratio in ratios:
        with clock.of("factors"):
            A = ratio * M
            A[np.diag_indices_from(A)] += 1
            C = cholesky(A, lower=True, overwrite_a=True, check_finite=False)
            V = solve_triangular(C, R[labeled].T, lower=True, check_finite=False)
            N = V.T @ V
        yield N, to_others.T @ solve_triangular(C, V, trans=1, lower=True, check_finite=False)
