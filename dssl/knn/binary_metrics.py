"""Metrics of rows of zeros and ones, by the numbers of ones that two rows have and have in common.

A product of matrices counts those in common, exactly: sums of ones are whole numbers.
"""

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from ..base.types import Matrix, is_sparse
from ..storage.blocks import row_ranges
from ..storage.csr import largest_of_rows, with_values
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
