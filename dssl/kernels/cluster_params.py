"""How the eigenpairs of a cluster kernel are computed: exactly, or from landmarks within a memory budget."""

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from ..base.digest import is_whole
from ..base.errors import BudgetError, require
from ..base.units import MEMORY_BUDGET
from ..execution.cost import Cost, block_count, cost_of, gram_seconds, kernel_seconds
from ..execution.tasks import Execution, combining_tasks
from ..storage.blocks import Parts, Rows, arrays_within
from ..storage.csr import as_rows
from .base import Kernel
from .cluster import (
    MAX_EXACT,
    SHARES,
    ClusterBasis,
    Degrees,
    basis_bytes,
    block_height,
    budget_for,
    cluster_basis,
    landmarks_that_fit,
    share_count,
    tile_bytes,
    tile_height,
)
from .landmarks import LandmarkParams, choose_landmarks, landmark_count
from .stochastic import StochasticParams, rank_that_fits, stochastic_bytes

Approximation = Literal["exact", "nystrom", "stochastic", "landmarks"]
MAX_LANDMARKS = 2000  # by "auto"; more take much time and gain little


@dataclass(frozen=True, kw_only=True)
class ClusterParams:
    """approximation, landmarks, rank, degrees, steps : as in `ClusterKernelSVC`.

    budget : bytes that determine the number of landmarks; a parameter, so that the kernel does not depend on the
    machine.
    """

    approximation: Approximation = "nystrom"
    landmarks: LandmarkParams = field(default_factory=LandmarkParams)
    rank: int | Literal["auto"] | None = "auto"
    degrees: Degrees | Literal["auto"] = "auto"
    steps: StochasticParams = field(default_factory=StochasticParams)
    budget: int = MEMORY_BUDGET

    def __post_init__(self) -> None:
        require(self.approximation in get_args(Approximation), f"approximation={self.approximation!r}",
                why="it decides how eigenpairs are computed",
                fix='use "nystrom", "stochastic", "landmarks", or "exact" of a few thousand points')
        whole = is_whole(self.rank) and self.rank >= 1
        require(whole or self.rank is None or self.rank == "auto", f'rank={self.rank!r}, expected a whole number >= 1, '
                'None or "auto"', why="it is the number of eigenpairs", fix='use "auto"')
        require(self.degrees in (*get_args(Degrees), "auto"), f"degrees={self.degrees!r}",
                why="they normalize the affinity", fix='use "auto", "exact" or "landmarks"')
        require(not (self.approximation == "stochastic" and self.degrees == "landmarks"),
                'degrees="landmarks" and approximation="stochastic"',
                why="random features have the mean of the affinity of exact degrees", fix='use degrees="auto"')

    def count(self, n_labeled: int, n: int, d: int) -> int:
        """Return the number of landmarks of n points; raise BudgetError if they do not fit."""
        budget = self.budget
        fit = landmarks_that_fit(self.budget, n, d)
        if self.approximation == "exact":
            require(fit >= n, f'approximation="exact" of {n:,} points', error=BudgetError, fix='use "nystrom", or a '
                    f"budget of {budget_for(n, d):,} bytes", why="matrices of all pairs of points take "
                    f"{budget_for(n, d):,} bytes, the budget is {budget:,}")
            return n
        if self.landmarks.n_landmarks == "auto":
            require(fit >= 2, f"a budget of {budget:,} bytes", error=BudgetError,
                    why=f"two landmarks of {d:,} columns do not fit", fix=f"use {budget_for(2, d):,} bytes or more")
            return min(fit, MAX_LANDMARKS)
        return landmark_count(self.landmarks, n_labeled, n, fit)

    def steps_within(self, rows: Rows) -> StochasticParams:
        """Return the steps with the rank that fits the budget; raise BudgetError if none does."""
        fits = rank_that_fits(rows, self.steps.n_features, self.budget, tasks=2)
        return replace(self.steps, rank=min(self.steps.rank, fits))

    def rank_of(self, s: int, n: int) -> int | None:
        """Return the number of eigenpairs of s landmarks of n points; None for all."""
        if self.rank != "auto":
            return self.rank
        return None if s == self.points_of(s, n) else rank_of_landmarks(s)

    def points_of(self, s: int, n: int) -> int:
        """Return the number of points of the affinity: all n, or the s landmarks."""
        return s if self.approximation == "landmarks" else n

    def degrees_of(self, s: int, n: int) -> Degrees:
        """Return how degrees are computed."""
        if self.degrees != "auto":
            return self.degrees
        if self.approximation == "landmarks":
            return "landmarks"
        if self.approximation == "stochastic":
            return "exact"
        return "exact" if s < n <= MAX_EXACT else "landmarks"


def rank_of_landmarks(s: int) -> int:
    """Return the largest k with k log k <= s, 1 or more (Boutsidis, Mahoney, Drineas, SODA 2009)."""
    k = np.arange(1, s + 1)
    return int(k[k * np.log(k) <= s].max())


def basis_of(rows: Rows, kernel: Kernel, params: ClusterParams, labeled: np.ndarray,
             execution: Execution, parts: Parts | None = None) -> ClusterBasis:
    """Return the eigenpairs of all rows (n, d); labeled : the numbers of the labeled rows. See `cluster_basis`."""
    n, d = rows.shape
    s = params.count(len(labeled), n, d)
    if s == n:
        points = rows.take(np.arange(n))
    else:
        points = choose_landmarks(rows, kernel, s, params.landmarks, execution, labeled).points
    s = points.shape[0]
    degrees = params.degrees_of(points.shape[0], n)
    affinity_rows = execution.share_rows(as_rows(points)) if params.approximation == "landmarks" else rows
    steps = params.steps_within(rows) if params.approximation == "stochastic" else None
    basis = cluster_basis(affinity_rows, kernel, points, params.rank_of(s, n), degrees, execution, parts, steps)
    budget = execution.memory_budget
    peak = basis_cost(len(affinity_rows), d, affinity_rows.row_bytes, s, degrees, 1, budget).peak
    if steps is not None:
        peak = max(peak, stochastic_bytes(rows, steps.n_features, steps.rank, budget, tasks=2))
    return replace(basis, attributes={**basis.attributes, "predicted_peak_bytes": peak})


def basis_cost(n: int, d: int, row_bytes: int, s: int, degrees: Degrees, n_kernels: int, budget: int) -> Cost:
    """Return the cost of the eigenpairs of some kernels: degrees, in tiles of all pairs or a pass of blocks, another
    pass, and the matrices of the landmarks. In this process shares are held, and two tasks run at a time.
    """
    each = tile_bytes(d, row_bytes)
    passes = 1 if degrees == "exact" else 2
    tile = tile_height(n, each, budget)
    block = block_height(n, s, each, budget) * (16 * s + each)
    tiles = block_count(n, tile) if degrees == "exact" else 0
    shares, of_pairs = share_count(n, s, budget), min(SHARES, -(-tiles // 2))
    tasks = passes * shares + combining_tasks(shares, 8 * s * (s + 1), budget)
    tasks += of_pairs + combining_tasks(of_pairs, 8 * n, budget)
    read = n * row_bytes * (passes + (tiles + 1) // 2)
    pairs = tile * (12 * tile + 2 * each) + 8 * n * (2 + min(SHARES, tiles)) if tiles else 0
    summed = 8 * s * s * (4 + share_count(n, s, budget)) + 24 * s * d + 2 * block
    smallest = arrays_within(budget_for(s, d))
    peak = max(basis_bytes(s, d), summed, 2 * pairs)
    pairs_seconds = kernel_seconds(float(n) * n / 2, d) if tiles else 0.0
    return cost_of(n_kernels * tasks, n_kernels * read, n_kernels * 8 * s * (s + d), peak, smallest,
                   n_kernels * (passes * gram_seconds(n, s, d) + pairs_seconds))
