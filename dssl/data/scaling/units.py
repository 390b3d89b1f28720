"""What is known of features without any label: whether columns are in one unit, and how near points are in them.

A category is a column of 0 and 1 for each of its levels. Standardized, the levels of a rare one lie far apart, and
points that differ in it are no neighbors: four levels cut a graph into four pieces. Its columns take the one factor
with which two levels are twice as far apart as a point from its near neighbors in the numbers, or nearer: with k levels
that are equally frequent, a category spreads at most as far as a number. A column of 0 and 1 alone has two levels.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from ...base.errors import column_label, explain
from ...execution.tasks import Share
from ...storage.blocks import Rows

SAMPLE_ROWS, SAMPLE_BYTES = 1000, 16 << 20  # of points whose near neighbors are sought
NEAR = 10  # the neighbor whose distance counts, as many as a graph has by default
MOST_LEVELS = 1000  # columns that are looked at for one category
RANKS = (5, 20)  # neighbors in the sample whose distances tell its dimension
OFF = ("unit_norm", "global_range", "none")  # what leaves columns of unlike spreads unlike
UNLIKE, MANY = 100.0, 1 / 3  # how many times as far another column spreads; the share of columns for which one does


class UnlikeColumns(UserWarning):
    """Some columns spread so much farther than others that distances see nothing of these, and scaling is off."""


def ratio_of_ranges(spread: np.ndarray) -> float:
    """Return the largest range of a column over the lower quartile, of those (d,) that are not constant; 1 of none.

    A quarter of the columns lies at or below the quartile: of four or fewer the smallest counts, and of pixels it is
    none that a border happens to have.
    """
    ranges = spread[spread > 0]
    return float(ranges.max() / np.quantile(ranges, 0.25, method="lower")) if len(ranges) else 1.0


def zero_one_columns(moments: Share) -> np.ndarray:
    """Return which columns hold nothing but 0 and 1, (d,) bool, from their moments.

    Between 0 and 1 the mean of x^2 is that of x where every value is one of the two, and less elsewhere.
    """
    mean = moments["mean"]
    squared = moments["squares"] / moments["count"] + mean**2
    return (moments["smallest"] == 0) & (moments["largest"] == 1) & (np.abs(mean - squared) <= 1e-9 * mean)


def columns_of_category(flags: np.ndarray) -> np.ndarray:
    """Return how many columns of 0 and 1 the category has that each belongs to, (p,), from a sample (m, p).

    Columns side by side of which one is 1 in every row are one category; any other is a category of one column, whose
    two levels are 0 and 1.
    """
    columns = np.ones(flags.shape[1], int)
    first = 0
    while first < flags.shape[1]:
        sums = np.cumsum(flags[:, first:first + MOST_LEVELS], axis=1)
        stop = int((sums <= 1).all(axis=0).argmin()) or sums.shape[1]
        whole = np.flatnonzero((sums[:, :stop] == 1).all(axis=0))
        count = int(whole[0]) + 1 if len(whole) else 1
        columns[first:first + count] = count
        first += count
    return columns


def farthest_levels(columns: np.ndarray) -> np.ndarray:
    """Return the distance of two equally frequent levels of categories of so many columns that have the variance 1."""
    levels = np.maximum(columns, 2)
    return np.sqrt(2 * levels / (levels - 1))


def sampled_rows(rows: Rows, ids: Rows | None, columns: np.ndarray) -> np.ndarray:
    """Return some columns of rows that are evenly spread over all, in float64; ids : the rows that count."""
    n = len(rows) if ids is None else len(ids)
    most = max(2 * RANKS[1], min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * rows.shape[1])))
    places = np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
    return np.asarray(rows.take(places if ids is None else ids.take(places)), np.float64)[:, columns]


def near_distance(Z: np.ndarray, n: int) -> float:
    """Return the median distance of a point to its near neighbors among n points, of which Z (m, p) are a sample.

    That of m points follows the power of m that is minus one over the dimension, which two ranks in the sample tell.
    """
    Z = np.unique(Z, axis=0)
    m = len(Z)
    if m < 2:
        return 0.0
    Z = Z - Z.mean(axis=0)
    lengths = (Z**2).sum(axis=1)
    squared = np.maximum(lengths[:, None] + lengths - 2 * (Z @ Z.T), 0)
    squared.sort(axis=1)
    at = np.sqrt(np.median(squared[:, [min(rank, m - 1) for rank in (NEAR, *RANKS)]], axis=0))
    inverse = 0.0
    if at[1] > 0 and m > RANKS[1]:
        inverse = float(np.clip(np.log(at[2] / at[1]) / np.log(RANKS[1] / RANKS[0]), 0.0, 1.0))
    return float(at[0] * min(1.0, m / n) ** inverse)


def warn_unlike(rows: Rows, ids: Rows | None, kind: str, names: Sequence[str] | None = None) -> None:
    """Warn of columns that vanish beside others where a scaling leaves them as they are; judged on a sample."""
    if kind not in OFF or rows.is_sparse:
        return
    spread = sampled_rows(rows, ids, np.ones(rows.shape[1], bool)).std(axis=0)
    lost = (spread > 0) & (spread * UNLIKE < spread.max())
    if lost.sum() >= MANY * max(2, int((spread > 0).sum())):
        widest = int(spread.argmax())
        least = int(np.where(lost, spread, np.inf).argmin())
        wide, narrow = (column_label(names, j) for j in (widest, least))
        warnings.warn(explain(
            f"{wide} spreads {spread[widest] / spread[least]:,.0f} times as far as {narrow}, and scale is {kind!r}",
            why=f"distances see next to nothing of {int(lost.sum())} of {len(spread)} columns",
            fix="use scale auto or standardize (data.scale in a spec)"), UnlikeColumns, stacklevel=4)
