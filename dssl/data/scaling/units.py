"""Units of features, found without labels: whether columns are in one unit, and how to scale categories.

A category has one column of 0 and 1 for each level. If these were standardized, the levels of a rare category would lie
far apart, and points that differ in it would not be neighbors: four levels cut a graph into four components. Instead,
its columns share one factor, with which two levels are at most 1.4 times as far apart as a point from its near
neighbors in the numeric columns; and a category with k equally frequent levels spreads at most as far as a number. A
single column of 0 and 1 has two levels.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from ...base.errors import column_label, explain
from ...execution.tasks import Share
from ...storage.blocks import Rows

SAMPLE_ROWS, SAMPLE_BYTES = 1000, 16 << 20  # of the points whose near neighbors are searched
NEAR = 10  # the rank of the neighbor whose distance counts, the default of a graph
MAX_LEVELS = 1000  # columns that are checked for one category
RANKS = (5, 20)  # ranks of neighbors in the sample whose distances give its dimension
OFF = ("unit_norm", "global_range", "none")  # scalings that keep the relative spreads of columns
UNLIKE, MANY = 100.0, 1 / 3  # the ratio of spreads, and the share of columns below it, that lead to a warning


class UnlikeColumns(UserWarning):
    """Scaling is off, and some columns spread so much wider than others that these do not influence distances."""


def ratio_of_ranges(spread: np.ndarray) -> float:
    """Return the largest range (d,) over the lower quartile, without constant columns; 1 if all are constant.

    The quartile ignores the few narrow columns of border pixels; of four or fewer columns it is the smallest.
    """
    ranges = spread[spread > 0]
    return float(ranges.max() / np.quantile(ranges, 0.25, method="lower")) if len(ranges) else 1.0


def zero_one_columns(moments: Share) -> np.ndarray:
    """Return which columns contain only 0 and 1, (d,) bool, from their moments.

    For values in [0, 1], the mean of x^2 equals the mean of x only if every value is 0 or 1.
    """
    mean = moments["mean"]
    squared = moments["squares"] / moments["count"] + mean**2
    return (moments["smallest"] == 0) & (moments["largest"] == 1) & (np.abs(mean - squared) <= 1e-9 * mean)


def columns_of_category(flags: np.ndarray) -> np.ndarray:
    """Return the number of columns of the category to which each column of 0 and 1 belongs, (p,), from a sample (m, p).

    Adjacent columns of which exactly one is 1 in every row are one category. Any other column is a category of its own
    with the levels 0 and 1.
    """
    columns = np.ones(flags.shape[1], int)
    first = 0
    while first < flags.shape[1]:
        sums = np.cumsum(flags[:, first:first + MAX_LEVELS], axis=1)
        stop = int((sums <= 1).all(axis=0).argmin()) or sums.shape[1]
        whole = np.flatnonzero((sums[:, :stop] == 1).all(axis=0))
        count = int(whole[0]) + 1 if len(whole) else 1
        columns[first:first + count] = count
        first += count
    return columns


def farthest_levels(columns: np.ndarray) -> np.ndarray:
    """Return the distance of two levels of categories with so many equally frequent levels and total variance 1."""
    levels = np.maximum(columns, 2)
    return np.sqrt(2 * levels / (levels - 1))


def sampled_rows(rows: Rows, ids: Rows | None, columns: np.ndarray) -> np.ndarray:
    """Return some columns of evenly spaced rows, in float64; ids : the rows to choose from, None for all."""
    n = len(rows) if ids is None else len(ids)
    count = max(2 * RANKS[1], min(SAMPLE_ROWS, SAMPLE_BYTES // (8 * rows.shape[1])))
    positions = np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))
    return np.asarray(rows.take(positions if ids is None else ids.take(positions)), np.float64)[:, columns]


def near_distance(Z: np.ndarray, n: int) -> float:
    """Return the median distance of a point to its near neighbors among n points, of which Z (m, p) is a sample.

    The distance in the sample is extrapolated by (m / n)^(1 / dimension); two ranks in the sample give the dimension.
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
    """Warn if a scaling keeps columns that are negligible beside others; decided on a sample of rows."""
    if kind not in OFF or rows.is_sparse:
        return
    spread = sampled_rows(rows, ids, np.ones(rows.shape[1], bool)).std(axis=0)
    narrow_columns = (spread > 0) & (spread * UNLIKE < spread.max())
    if narrow_columns.sum() >= MANY * max(2, int((spread > 0).sum())):
        widest = int(spread.argmax())
        narrowest = int(np.where(narrow_columns, spread, np.inf).argmin())
        wide, narrow = (column_label(names, j) for j in (widest, narrowest))
        warnings.warn(explain(
            f"{wide} spreads {spread[widest] / spread[narrowest]:,.0f} times as far as {narrow}, and scale is {kind!r}",
            why=f"{int(narrow_columns.sum())} of {len(spread)} columns have almost no influence on distances",
            fix="use scale auto or standardize (data.scale in a spec)"), UnlikeColumns, stacklevel=4)
