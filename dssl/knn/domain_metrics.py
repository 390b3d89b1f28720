"""Metrics that some rows have no place in: those of zeros and ones, and those of distributions.

The former follow from the numbers of ones that two rows have and have in common. A product of matrices counts those in
common, exactly: sums of ones are whole numbers. The latter are formulas of two rows, by pynndescent's functions.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numba import njit

from ..base.errors import require
from ..base.types import Matrix, is_sparse
from ..storage.blocks import row_ranges
from ..storage.csr import largest_of_rows, with_values
from .embedded_metrics import MATRIX_COLUMNS, SquareValues, no_distribution, require_square
from .pair_metrics import PairMetric

CANDIDATE_ENTRIES = 1 << 20  # candidates whose counts are taken at a time, times columns of dense rows


class BinaryMetric(PairMetric):
    """A distance of two rows by their counts; 0 for equal rows."""

    takes_sparse = True
    scaled_by_default = False
    has_domain = True
    column_ns = 0.2
    undefined_are: ClassVar[str] = "not binary"
    undefined_why = "the metric counts zeros and ones"
    undefined_fix = 'pass X != 0 as integers, use scale="none" where scaling changed them, or metric="hamming"'

    @staticmethod
    @abstractmethod
    def of_counts(x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        """Return the distance of rows of d columns with x and z ones, of which some are in common; any if equal."""

    def undefined(self, rows: Matrix) -> np.ndarray:
        if not is_sparse(rows):
            return np.asarray(((rows != 0) & (rows != 1)).any(axis=1))
        other = with_values(rows, ((rows.data != 0) & (rows.data != 1)).astype(np.float32))
        return np.asarray(largest_of_rows(other) > 0)

    def between(self, X: Matrix, Z: Matrix) -> np.ndarray:
        product = X @ Z.T
        common = product.toarray() if is_sparse(product) else product
        return self._distances(_ones(X)[:, None], _ones(Z)[None], common.astype(np.float64), X.shape[1])

    def of_candidates(self, X: Matrix, Z: Matrix, candidates: np.ndarray) -> np.ndarray:
        (n, width), d, ones = candidates.shape, X.shape[1], _ones(Z)
        distances = np.empty((n, width))
        for start, stop in row_ranges(n, max(1, CANDIDATE_ENTRIES // (width * d))):
            rows = np.maximum(candidates[start:stop], 0)
            block = X[start:stop]
            if not is_sparse(block):
                common = np.einsum("rd,rcd->rc", block, Z[rows])
            else:
                repeated = block[np.repeat(np.arange(stop - start), width)]
                common = np.asarray(repeated.multiply(Z[rows.ravel()]).sum(axis=1)).reshape(rows.shape)
            distances[start:stop] = self._distances(_ones(block)[:, None], ones[rows], common.astype(np.float64), d)
        distances[candidates < 0] = np.inf
        return distances

    def _distances(self, x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):  # of equal rows
            distances = self.of_counts(x, z, common, d)
        return np.where(x + z == 2 * common, 0.0, distances)


def _ones(rows: Matrix) -> np.ndarray:
    return np.asarray(rows.sum(axis=1), np.float64)


class Jaccard(BinaryMetric):
    """The share of the ones of two rows that they do not have in common."""

    name = "jaccard"

    @staticmethod
    def of_counts(x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        return (x + z - 2 * common) / (x + z - common)


class Dice(BinaryMetric):
    """The number of columns in which two rows differ, relative to the ones of both."""

    name = "dice"

    @staticmethod
    def of_counts(x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        return (x + z - 2 * common) / (x + z)


class Matching(BinaryMetric):
    """The share of columns in which two rows differ."""

    name = "matching"

    @staticmethod
    def of_counts(x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        return (x + z - 2 * common) / d


class Kulsinski(BinaryMetric):
    """(differing - common + d) / (differing + d) of d columns, in which common ones count."""

    name = "kulsinski"

    @staticmethod
    def of_counts(x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        return (x + z - 3 * common + d) / (x + z - 2 * common + d)


class RogersTanimoto(BinaryMetric):
    """2 differing / (d + differing) of d columns."""

    name = "rogerstanimoto"

    @staticmethod
    def of_counts(x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        differing = x + z - 2 * common
        return 2 * differing / (d + differing)


class RussellRao(BinaryMetric):
    """The share of columns in which not both rows are 1; 0 for equal rows."""

    name = "russellrao"

    @staticmethod
    def of_counts(x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        return (d - common) / d


class SokalMichener(RogersTanimoto):
    """The distance of `RogersTanimoto` by another name."""

    name = "sokalmichener"


class SokalSneath(BinaryMetric):
    """differing / (common / 2 + differing), in which common ones count."""

    name = "sokalsneath"

    @staticmethod
    def of_counts(x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        differing = x + z - 2 * common
        return differing / (common / 2 + differing)


class Yule(BinaryMetric):
    """2 b c / (a e + b c) of the numbers of columns: a both 1, b and c one of them, e neither."""

    name = "yule"
    takes_sparse = False

    @staticmethod
    def of_counts(x: np.ndarray, z: np.ndarray, common: np.ndarray, d: int) -> np.ndarray:
        mixed = (x - common) * (z - common)
        return np.where(mixed == 0, 0.0, 2 * mixed / (common * (d - x - z + common) + mixed))


BINARY_METRICS: tuple[type[BinaryMetric], ...] = (Jaccard, Dice, Matching, Kulsinski, RogersTanimoto, RussellRao,
                                                  SokalMichener, SokalSneath, Yule)


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
