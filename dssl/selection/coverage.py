"""Distances of points to the nearest that is labeled, and greedy k-means++ on them.

Each step of it draws a few points in proportion to their squared distance to the nearest labeled one, and prefers of
these the one that most lowers the sum of all such distances: points far from those that are labeled and from each
other, where points are many.

Arthur, Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007, with the several draws a step of
section 3 there.
"""

import math
from collections.abc import Iterator

import numpy as np

from ..kernels.points import as_points, squared_distances
from ..storage.blocks import Rows, block_rng, rows_that_fit

BLOCK_BYTES = 64 << 20
DRAW_STREAM = 21  # of the seed


def row_bytes(rows: Rows, n_chosen: int) -> int:
    """Return the bytes of a row while its distances are found: as it is read, five in float64, and the distances."""
    return 2 * rows.row_bytes + (0 if rows.is_sparse else 40 * rows.shape[1]) + 16 * n_chosen


def block_height(rows: Rows, n_chosen: int, budget: int) -> int:
    """Return the rows of a block; raise BudgetError where not one fits."""
    each = row_bytes(rows, n_chosen)
    return min(rows_that_fit(budget, each, len(rows)), max(1, BLOCK_BYTES // each))


class Distances:
    """Squared distances `nearest` (v,) of rows to the nearest labeled one, infinite where none is; `observe` adds one.

    Each step reads all rows once, in blocks. Memory: 16 bytes a row, and a block.
    """

    def __init__(self, rows: Rows, observed: np.ndarray, budget: int):
        """Start from rows (v, d) of which some are labeled; raises BudgetError where not one row fits."""
        self.rows = rows
        self.observed = observed.tolist()
        self.budget = budget
        self.nearest = np.full(len(rows), np.inf)
        if self.observed:
            self.nearest = np.concatenate([block.min(axis=1) for block in self._blocks(observed)])

    def _blocks(self, chosen: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the squared distances (b, c) of each block of rows to some rows."""
        near = as_points(self.rows.take(chosen))
        for _, block in self.rows.blocks(block_height(self.rows, len(chosen), self.budget)):
            yield squared_distances(as_points(block), near)

    def to(self, chosen: np.ndarray) -> np.ndarray:
        """Return the squared distances (v, c) of all rows to a few of them."""
        return np.concatenate([*self._blocks(chosen)])

    def observe(self, row: int) -> None:
        """Count one more row as labeled."""
        self.nearest = np.minimum(self.nearest, self.to(np.array([row]))[:, 0])
        self.observed.append(row)


class Coverage:
    """Greedy k-means++: `scores` of the rows that a step draws, and `observe` of the one that is taken."""

    def __init__(self, distances: Distances, mass: np.ndarray, random_state: int):
        """Start from the distances of rows that stand for `mass` (v,) points."""
        self.distances = distances
        self.mass = mass
        self.random_state = random_state

    def scores(self, allowed: np.ndarray) -> np.ndarray:
        """Return by what share each drawn row lowers the sum of squared distances (v,), -inf of all others.

        Where nothing is labeled yet, the sum is that of the worst row drawn. allowed (v,) bool : what may be drawn.
        """
        nearest = self.distances.nearest
        count = len(self.distances.observed)
        weight = np.where(allowed, self.mass * np.where(np.isinf(nearest), 1.0, nearest), 0.0)
        if not weight.any():  # copies of labeled rows are left
            weight = np.where(allowed, self.mass, 0.0)
        places = np.flatnonzero(weight)
        drawn = np.sort(block_rng(self.random_state, DRAW_STREAM, count).choice(
            places, min(2 + int(math.log(count + 1)), len(places)), replace=False, p=weight[places] / weight.sum()))
        after = self.mass @ np.minimum(self.distances.to(drawn), nearest[:, None])
        before = float(self.mass @ nearest) if count else float(after.max())
        scores = np.full(len(nearest), -np.inf)
        scores[drawn] = 1 - after / before if before > 0 else 0.0
        return scores

    def observe(self, row: int) -> None:
        """Count one more row as labeled."""
        self.distances.observe(row)
