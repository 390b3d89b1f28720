"""Squared distances to the nearest labeled point, and greedy k-means++ on them.

Each step draws a few points in proportion to their squared distance to the nearest labeled point, and selects the one
that lowers the sum of these distances the most.

Arthur, Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007, section 3 for several draws a step.
"""

import math
from collections.abc import Iterator

import numpy as np

from ..kernels.points import as_points, squared_distances
from ..storage.blocks import Rows, block_rng, rows_that_fit

BLOCK_BYTES = 64 << 20
DRAW_STREAM = 21  # of the seed


def row_bytes(rows: Rows, n_selected: int) -> int:
    """Return the bytes of a row in a block: as it is read, five float64 copies, and its distances."""
    return 2 * rows.row_bytes + (0 if rows.is_sparse else 40 * rows.shape[1]) + 16 * n_selected


def block_height(rows: Rows, n_selected: int, budget: int) -> int:
    """Return the rows of a block; raise BudgetError if not even one fits."""
    each = row_bytes(rows, n_selected)
    return min(rows_that_fit(budget, each, len(rows)), max(1, BLOCK_BYTES // each))


class Distances:
    """Squared distances `nearest` (v,) of rows to the nearest labeled row, infinite without one; `observe` adds one.

    Each step reads all rows once, in blocks. Memory: 16 bytes a row, and a block.
    """

    def __init__(self, rows: Rows, observed: np.ndarray, budget: int):
        self.rows = rows
        self.observed = observed.tolist()
        self.budget = budget
        self.nearest = np.full(len(rows), np.inf)
        if self.observed:
            self.nearest = np.concatenate([block.min(axis=1) for block in self._blocks(observed)])

    def _blocks(self, selected: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the squared distances (b, c) of each block of rows to the selected rows."""
        Z = as_points(self.rows.take(selected))
        for _, block in self.rows.blocks(block_height(self.rows, len(selected), self.budget)):
            yield squared_distances(as_points(block), Z)

    def to(self, selected: np.ndarray) -> np.ndarray:
        """Return the squared distances (v, c) of all rows to a few of them."""
        return np.concatenate([*self._blocks(selected)])

    def observe(self, row: int) -> None:
        self.nearest = np.minimum(self.nearest, self.to(np.array([row]))[:, 0])
        self.observed.append(row)


class Coverage:
    """Greedy k-means++ on rows of `mass` (v,) points: `scores` of the drawn rows; `observe` adds a label."""

    def __init__(self, distances: Distances, mass: np.ndarray, random_state: int):
        self.distances = distances
        self.mass = mass
        self.random_state = random_state

    def scores(self, allowed: np.ndarray) -> np.ndarray:
        """Return the relative decrease of the sum of squared distances by each drawn row (v,), -inf for all others.

        Without a label, the sum before is that after the worst drawn row. allowed (v,) bool : what may be drawn.
        """
        nearest = self.distances.nearest
        count = len(self.distances.observed)
        weight = np.where(allowed, self.mass * np.where(np.isinf(nearest), 1.0, nearest), 0.0)
        if not weight.any():  # only duplicates of labeled rows are left
            weight = np.where(allowed, self.mass, 0.0)
        possible = np.flatnonzero(weight)
        drawn = np.sort(block_rng(self.random_state, DRAW_STREAM, count).choice(
            possible, min(2 + int(math.log(count + 1)), len(possible)), replace=False,
            p=weight[possible] / weight.sum()))
        after = self.mass @ np.minimum(self.distances.to(drawn), nearest[:, None])
        before = float(self.mass @ nearest) if count else float(after.max())
        scores = np.full(len(nearest), -np.inf)
        scores[drawn] = 1 - after / before if before > 0 else 0.0
        return scores

    def observe(self, row: int) -> None:
        self.distances.observe(row)
