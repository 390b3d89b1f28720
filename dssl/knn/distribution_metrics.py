"""Metrics of distributions that are a formula of two rows, by pynndescent's compiled functions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import njit

from ..base.errors import require
from ..base.types import Matrix
from .embedded_metrics import MATRIX_COLUMNS, SquareValues, no_distribution, require_square
from .pair_metrics import PairMetric


class DistributionMetric(PairMetric):
    """A distance of distributions, rows that are scaled to a sum of 1."""

    scaled_by_default = False
    has_domain = True
    undefined_are = "negative somewhere, or zero"
    undefined_why = "a distribution has shares of at least 0 whose sum is positive"
    undefined_fix = 'drop these rows, use scale="none" where scaling made values negative, or metric="euclidean"'

    def undefined(self, rows: Matrix) -> np.ndarray:
        return no_distribution(rows)


class JensenShannon(DistributionMetric):
    """The mean Kullback-Leibler divergence of two distributions from their mean."""

    name = "jensen_shannon"
    takes_sparse = True
    column_ns = 27.0


class SymmetricKL(DistributionMetric):
    """The sum of the two Kullback-Leibler divergences of two distributions."""

    name = "symmetric_kl"
    takes_sparse = True
    column_ns = 21.0


class Wasserstein(DistributionMetric):
    """sum |F - G| of the cumulative sums of two distributions over ordered columns."""

    name = "wasserstein_1d"
    takes_sparse = True
    column_ns = 5.0


@dataclass(frozen=True)
class Kantorovich(DistributionMetric):
    """The least cost of moving one distribution to the other, with the cost (d, d) between columns; 0 to itself."""

    cost: SquareValues
    name = "kantorovich"
    column_ns = 3000.0

    def __post_init__(self) -> None:
        require_square(self.cost, "cost")
        costs = np.array(self.cost)
        require(bool((costs >= 0).all()) and not costs.diagonal().any(), "metric_params.cost with a negative cost, or "
                "one on the diagonal", why="a row is at distance 0 from itself, and no two are nearer",
                fix="pass distances between the columns")
        require(len(costs) <= MATRIX_COLUMNS, f"metric_params.cost of {len(costs)} columns, at most {MATRIX_COLUMNS}",
                why="a pair of rows takes the cube of that", fix="join columns, or use wasserstein_1d of ordered ones")

    @property
    def n_columns(self) -> int:
        return len(self.cost)

    def compiled(self) -> Callable[..., float]:
        return _with_costs(super().compiled(), self.cost)


@cache
def _with_costs(least_cost: Callable[..., float], cost: SquareValues) -> Callable[..., float]:
    costs = np.array(cost)

    @njit(nogil=True)
    def distance_by_costs(x, z):
        return least_cost(x, z, costs)

    distance: Callable[..., float] = distance_by_costs
    return distance


class CircularWasserstein(DistributionMetric):
    """`Wasserstein` over columns in a circle, such as the hours of a day."""

    name = "circular_kantorovich"
    column_ns = 22.0


DISTRIBUTION_METRICS: tuple[type[PairMetric], ...] = (JensenShannon, SymmetricKL, Wasserstein, CircularWasserstein,
                                                      Kantorovich)
