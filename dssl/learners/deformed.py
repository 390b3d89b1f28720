"""Kernels deformed by a graph: the landmarks, the covariance of the graph there, and the weight of the graph.

The norm of a deformed kernel contains the graph's energy at the landmarks S. Of all functions with given
values on S, the one of least energy `h' Q h` is `Q^-1_.S (Q^-1_SS)^-1 h_S`: a solve of as many columns as values for
each power of the regularizer.

The weight eta of the graph is a number, or "auto", the mean of the kernels of eta 0 (the base kernel), 10 and 100:

    K(x, z) = sum over eta of share(eta) K_eta(x, z) / (mean of K_eta(z_i, z_i) over the labeled points)

A share is proportional to `exp(-sum |e|^2 / (2 s^2))`, with the exact leave-one-out residuals e of ridge regression in
K_eta (`average.py`), and to a prior: `(2.4 / q)^2` for the base kernel against 1 for the others together, where q is
the spectral concentration of the graph (`graph/spectral_concentration.py`). With few labels the graph predicts if it
has clusters, and the base kernel if its neighbors are noise; with more labels the residuals decide. The mean is one
kernel, for any learner; the intercept of ridge regression in it is unpenalized in proportion to the share of the base
kernel.

Of more than `MAX_EXACT` labels the residuals are those of a sample, of at most `MAX_HELD_OUT` labels, by a fit without
them to at most `MAX_TRAINING` others: a Cholesky factor in place of an inverse. Fits to fewer labels would favor the
graph, which counts for less the more labels there are.

References
----------
Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS 2012, Theorem 3.2.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.linalg import cho_solve

from ..base.types import Matrix
from ..execution.cost import largest_within, rank_budget
from ..execution.tasks import Execution
from ..graph.vertices import Vertices
from ..kernels.base import Kernel
from ..kernels.deformed import DeformedKernel, Eta, KernelMean, check_share, deform, factor_positive
from ..kernels.gram import kernel_block
from ..kernels.landmark_inverse import LandmarkInverse
from ..kernels.landmarks import DEFAULT_COUNT
from ..solvers.solve import Solver
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Arrays, PartWriter, Receipt, block_rng
from .average import shares_of
from .linear.gram import held_out_ridge, mean_diagonal, ridge, scale_of_diagonal
from .target.target import Target

ETAS = (0.0, 10.0, 100.0)
EVEN = 2.4  # the spectral concentration at which base kernel and graph have equal priors
UNKNOWN = 0.3  # the prior of the base kernel where the concentration is not known
MAX_EXACT = 3000  # labels up to which residuals are those of leave-one-out
HELD_OUT_SHARE, MAX_HELD_OUT, MAX_TRAINING = 0.2, 2000, 8000  # of more labels
SAMPLE_STREAM = 22  # of the seed
PENALTY = 0.1  # of the ridge regression whose residuals weigh kernels of unit mean diagonal
LabelBlock = Callable[[np.ndarray, np.ndarray], np.ndarray]  # positions of labels, rows and columns -> the kernel there


def n_landmarks_within(given: int | Literal["auto"], budget: int) -> int:
    """Return the number of landmarks; "auto" is `DEFAULT_COUNT`, or as many as the budget (bytes) allows."""
    return (largest_within(budget, DEFAULT_COUNT, rank_budget) or 1) if given == "auto" else given


def draw_landmarks(labeled: np.ndarray, n: int, size: int, random_state: int, before: np.ndarray | None = None,
                   n_before: int = 0) -> np.ndarray:
    """Return `size` vertex numbers: the labeled points first, then a random sample of the others, at most n in all.

    With more labeled points than `size` it is a random sample of these.

    before : the landmarks of the first `n_before` vertices, before the graph grew. The number of new vertices is drawn
    as in a sample of all, and the old ones are taken from `before` first, so that the result is a random sample again.
    """
    rng = block_rng(random_state, n)
    labeled = np.asarray(labeled, np.int64)
    if len(labeled) >= size:
        return np.sort(rng.choice(labeled, size, replace=False))
    others = np.setdiff1d(np.arange(n), labeled, assume_unique=True)
    count = min(size, n) - len(labeled)
    if before is None:
        drawn = rng.choice(others, count, replace=False)
    else:
        new = others[others >= n_before]
        n_new = int(rng.hypergeometric(len(new), len(others) - len(new), count)) if count else 0
        old = rng.permutation(np.setdiff1d(before, labeled))[:count - n_new]
        rest = np.setdiff1d(others[others < n_before], old, assume_unique=True)
        drawn = np.concatenate([old, rng.choice(rest, count - n_new - len(old), replace=False),
                                rng.choice(new, n_new, replace=False)])
    return np.concatenate([np.sort(labeled), np.sort(drawn)])


@dataclass(frozen=True)
class MinimumEnergyTask:
    """Apply `R^-power` to columns that are zero except at the vertices `landmarks` (s,), with `entries` (s, c)."""

    solver: Arrays
    params: SolverParams
    columns: Arrays
    power: int

    def __call__(self, out: PartWriter) -> Receipt:
        solver, columns = Solver.from_arrays(self.solver.load(), self.params), self.columns.load()
        h = np.zeros((solver.A.n, columns["entries"].shape[1]))
        h[columns["landmarks"]] = columns["entries"]
        for _ in range(self.power):
            h = solver.solve(h).require_converged(self.params).value
        return out.write(values=h)


@dataclass(frozen=True)
class GraphCovariance(LandmarkInverse):
    """The covariance `(R^-p)_SS` at the landmarks, and the solver for more columns.

    vertices : of the graph. landmark_vertices (s,) : those at the landmarks. solver, params : of R. concentration :
    the spectral concentration of the graph by power (`graph/spectral_concentration.py`).
    """

    vertices: Vertices = field(kw_only=True)
    landmark_vertices: np.ndarray = field(kw_only=True)
    solver: Arrays = field(kw_only=True)
    params: SolverParams = field(kw_only=True)
    concentration: dict[int, float] = field(kw_only=True)

    def minimum_energy(self, values: np.ndarray, power: int, execution: Execution) -> np.ndarray:
        """Return the function (v, c) of least energy h' R^power h with given values (s, c) at the landmarks.

        Cost: s^3 / 3 flops, and `power` solves of c columns. Raises NotConverged.
        """
        root = np.sqrt(self.vertices.multiplicity)[:, None]
        factor, _ = factor_positive(self.powers[power].copy())
        entries = cho_solve((factor, True), values, check_finite=False) / root[self.landmark_vertices]
        parts, columns = execution.scratch(), execution.share(landmarks=self.landmark_vertices, entries=entries)
        execution.map([MinimumEnergyTask(self.solver, self.params, columns, power)], parts)
        solved = parts.arrays(0).load()["values"] / root
        parts.remove()
        solved[self.landmark_vertices] = values  # without the solver's error
        return solved


def eta_prior(concentration: float | None) -> np.ndarray:
    """Return the prior weights of the kernels of `ETAS` for a graph of this spectral concentration."""
    of_base = UNKNOWN if concentration is None else (EVEN / max(concentration, 0.1 * EVEN)) ** 2
    return np.array([of_base, 0.5, 0.5])


def held_out_sample(target: Target, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the labels to hold out, and of those to fit, each with the class frequencies of all."""
    strata = target.strata()
    order = block_rng(random_state, SAMPLE_STREAM).permutation(len(strata))
    by_class = order[np.argsort(strata[order], kind="stable")]
    held_out = _spread(by_class, min(int(HELD_OUT_SHARE * len(strata)), MAX_HELD_OUT))
    others = by_class[~np.isin(by_class, held_out)]
    return np.sort(held_out), np.sort(_spread(others, min(len(others), MAX_TRAINING)))


def _spread(positions: np.ndarray, count: int) -> np.ndarray:
    """Return as many positions, at equal distances in the list."""
    return positions[np.arange(count) * len(positions) // count]


def block_of_gram(K: np.ndarray) -> LabelBlock:
    """Return the blocks of a Gram matrix (l, l) of the labels."""
    return lambda rows, columns: K if len(rows) == len(columns) == len(K) else K[np.ix_(rows, columns)]


def block_of_kernel(kernel: DeformedKernel, points: Matrix) -> LabelBlock:
    """Return the blocks of a kernel at labeled points (l, d)."""
    def block(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        X = points[rows]
        return KernelMean([kernel], [1.0])(X, X if rows is columns else points[columns])
    return block


def eta_shares(kernels: Iterable[LabelBlock], target: Target, weight: np.ndarray | None, concentration: float | None,
               random_state: int = 0) -> np.ndarray:
    """Return the shares, of sum 1, of the kernels of `ETAS` from what they are at the labeled points.

    Cost of l labels: `2 l^3 / 3` flops a kernel up to `MAX_EXACT`, and `t^3 / 3` for t fitted of more.
    """
    prior, Y = eta_prior(concentration), target.indicators()
    if len(Y) <= target.n_strata:  # held out, each label is the only one of its class
        return prior / prior.sum()
    every = np.arange(len(Y))
    if len(Y) <= MAX_EXACT:
        grams = (kernel(every, every) for kernel in kernels)
        return shares_of([held_out_ridge(K / mean_diagonal(K, weight), Y, list(every[:, None]),
                                         np.full(len(Y), PENALTY), weight) for K in grams], target, weight, prior)
    test, train = held_out_sample(target, random_state)
    of_test, of_train = (None if weight is None else weight[part] for part in (test, train))
    values = []
    for kernel in kernels:
        coef, intercept = ridge(kernel(train, train), Y[train], 1 / PENALTY, of_train)
        values.append(kernel(test, train) @ coef + intercept)
    return shares_of(values, target.take(test), of_test, prior)


def kernel_weights(diagonals: Sequence[np.ndarray], shares: np.ndarray,
                   weight: np.ndarray | None = None) -> list[float]:
    """Return the factors of kernels in a sum to which each, scaled to mean diagonal 1, contributes its share.

    diagonals : of each, at the labeled points (l,).
    """
    return [float(share) / scale_of_diagonal(diagonal, weight)
            for diagonal, share in zip(diagonals, shares, strict=True)]


def weighted_sum(grams: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    return np.asarray(sum(share * K for K, share in zip(grams, weights, strict=True)))


@dataclass(frozen=True, eq=False)
class Deformation:
    """A base kernel deformed by a graph with one eta, or the mean over several.

    etas, shares : of the parts of `kernel`. unpenalized_intercept : that of `LearnerParams`; the share of the base
    kernel for eta "auto".
    """

    kernel: KernelMean
    etas: tuple[float, ...]
    shares: np.ndarray
    unpenalized_intercept: float = 0.0

    def at_other_points(self, X_S: Matrix, points: Matrix, coef: np.ndarray) -> tuple[KernelMean, np.ndarray]:
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


def deform_by(eta: Eta, base: Kernel, X_S: Matrix, A: np.ndarray, points: Matrix, target: Target,
              weight: np.ndarray | None = None, concentration: float | None = None,
              shares: np.ndarray | None = None, random_state: int = 0) -> tuple[Deformation, np.ndarray]:
    """Return a kernel deformed by the graph's covariance A (s, s) on the points X_S (s, d), and its Gram matrix (l, l).

    points (l, d) : the labeled points, with their target and weight (l,). concentration : the spectral concentration
    of the graph, if known. shares : for eta "auto", in place of `eta_shares`. random_state : of `held_out_sample`.

    Of more than `MAX_EXACT` labels the Gram matrix is the only array (l, l) that is left.

    Raises ParameterError where eta is so large that only rounding errors of the base kernel are left.
    """
    etas = ETAS if isinstance(eta, str) else (float(eta),)
    parts = [deform(base, X_S, A, eta) for eta in etas]
    grams = [part(points, points) for part in parts] if points.shape[0] <= MAX_EXACT else []
    diagonals = [np.diagonal(K) for K in grams] or [part.diagonal(points) for part in parts]
    for each, diagonal in zip(etas, diagonals, strict=True):
        check_share(diagonal, base, points, each)
    weights, unpenalized = [1.0], 0.0
    if not isinstance(eta, str):
        shares = np.ones(1)
    else:
        if shares is None:
            blocks = map(block_of_gram, grams) if grams else (block_of_kernel(part, points) for part in parts)
            shares = eta_shares(blocks, target, weight, concentration, random_state)
        weights, unpenalized = kernel_weights(diagonals, shares, weight), float(shares[0])
    kernel = KernelMean(parts, weights)
    K = weighted_sum(grams, weights) if grams else kernel(points, points)
    return Deformation(kernel, etas, shares, unpenalized), K
