"""Outliers, cells far from all others of their column and rows with such cells; and the units of features.

An outlier is a cell such as -999 for a missing value. The reach of a column is the distance from its median within
which 90 % of the values lie that differ from the median: about 1.6 standard deviations for numbers, and the range of
a column of 0 and 1, however rare the 1 is. Columns with similar reaches are in one unit, as pixels are, and share the
largest. A cell is an outlier at more than `CUT` reaches from the median. A row is an outlier if such cells, in
columns in which they are rare, are more than `OUTLIER_CUT` reaches away in total.

Medians and reaches come from at most `SAMPLED_ROWS` evenly spaced rows. In random order, their ranks are within two
percent of the rows except for one column in a thousand (Dvoretzky, Kiefer, Wolfowitz). They do not depend on blocks.
Sparse rows, and columns with fewer than `FEWEST` values that differ from the median, have no outliers.

Units are found without labels. A category has one column of 0 and 1 for each level. If these were standardized, the
levels of a rare category would lie far apart, and points that differ in it would not be neighbors: four levels cut a
graph into four components. Instead, its columns share one factor, with which two levels are at most 1.4 times as far
apart as a point from its near neighbors in the numeric columns; and a category with k equally frequent levels spreads
at most as far as a number. A single column of 0 and 1 has two levels.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

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


SAMPLED_ROWS = 10_000
FEWEST = 20  # values of a column that differ from its median
WITHIN = 0.9
CUT = 10.0
OUTLIER_CUT = 100.0
RARE = 0.01  # share of outliers in a column; with more of them, it has a long tail or a code of its own
MAX_LISTED, SHOWN = 100, 10  # outlier rows that are recorded, and shown in a message
NARROW = 0.1  # reach of a narrow column, relative to the median reach
ONE_UNIT = 3.0  # maximum of the largest reach over the lower quartile, for columns in one unit


class OutlierRows(UserWarning):
    """Some rows of a fit are outliers, as with codes of missing cells."""


def sampled_positions(n: int, d: int) -> np.ndarray:
    """Return the ascending positions of the sampled ones among n rows with d columns."""
    count = min(n, SAMPLED_ROWS, max(FEWEST, SAMPLE_BYTES // (8 * d)))
    return np.linspace(0, n - 1, count).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Reaches:
    """The medians and reaches of columns.

    median, reach : float64 (d,); an unknown reach is infinite. rare (d,) : bool, whether outliers are rare in a column.
    narrow : the number of columns that share one reach but had less than a tenth of the median reach.
    """

    median: np.ndarray
    reach: np.ndarray
    rare: np.ndarray
    narrow: int = 0

    @classmethod
    def of(cls, sample: np.ndarray) -> "Reaches":
        """Return the medians and reaches of sampled rows (m, d), float64; holds 3 arrays of this size."""
        median = np.median(sample, axis=0)
        with np.errstate(over="ignore"):
            distance = np.abs(sample - median)
        count = (distance > 0).sum(axis=0)
        ordered = np.sort(distance, axis=0)
        position = len(sample) - count + np.floor(WITHIN * np.maximum(count - 1, 0)).astype(int)
        reach = ordered[np.minimum(position, len(sample) - 1), np.arange(len(median))]
        reach = np.where((count >= FEWEST) & np.isfinite(reach), reach, np.inf)
        known = reach[np.isfinite(reach)]
        narrow = 0
        if len(known) and ratio_of_ranges(known) <= ONE_UNIT:
            reach = np.full(len(median), known.max())
            narrow = int((known < NARROW * np.median(known)).sum())
        return cls(median, reach, (distance > CUT * reach).mean(axis=0) <= max(RARE, 1 / len(sample)), narrow)

    def exceeded(self, smallest: np.ndarray, largest: np.ndarray) -> bool:
        """Return whether any cell is an outlier, from the extremes (d,) of the columns."""
        with np.errstate(over="ignore"):
            farthest = np.maximum(largest - self.median, self.median - smallest)
        return bool((farthest > CUT * self.reach).any())

    def inliers(self, X: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, Share]:
        """Return a copy of rows (b, d), float64, in which medians replace outliers; and a record of the outliers.

        numbers (b,) : of the rows. The record has `n_outlier_rows`, `n_outlier_cells` and `outlier_rows`
        (k, 4), for at most `MAX_LISTED` of these: the row number, its outlier cells, and the column and value of the
        worst cell. Holds three arrays of the size of the rows.
        """
        X = np.array(X, np.float64)
        with np.errstate(over="ignore"):
            away = X - self.median
        np.abs(away, out=away)
        away /= self.reach
        out = away > CUT
        away *= out
        outliers = np.flatnonzero(np.minimum(away, OUTLIER_CUT) @ self.rare.astype(np.float64) >= OUTLIER_CUT)
        worst = away[outliers].argmax(axis=1)
        rows = np.column_stack([numbers[outliers], out[outliers].sum(axis=1), worst, X[outliers, worst]])
        share = {"n_outlier_rows": np.array(len(outliers)), "n_outlier_cells": np.array(int(out.sum())),
                 "outlier_rows": rows[:MAX_LISTED].astype(np.float64)}
        out[outliers] = True
        np.copyto(X, self.median, where=out)
        return X, share

    def bounds(self, smallest: np.ndarray, largest: np.ndarray, *, shared: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds (d,) and (d,) to which the values of each column are clipped.

        smallest, largest : of the inliers; an unknown reach follows from them. shared : whether the largest reach is
        used for all columns.
        """
        with np.errstate(over="ignore"):
            known = np.isfinite(self.reach)
            reach = np.where(known, self.reach, np.maximum(largest - self.median, self.median - smallest))
            away = CUT * (np.full_like(reach, reach.max()) if shared else reach)
            return self.median - away, self.median + away


class OutlierExample(TypedDict):
    """An outlier row: its number, the number of its outlier cells, and the column and value of the worst one."""

    row: int
    cells: int
    column: int
    value: float


class Outliers(TypedDict):
    """The outliers of training rows: the number of cells and of rows, the first rows, and examples."""

    cells: int
    n_rows: int
    rows: list[int]
    examples: list[OutlierExample]


def outliers_of(share: Share) -> Outliers:
    """Return the JSON form of the records of `Reaches.inliers` for all rows."""
    rows = share["outlier_rows"]
    return {"cells": int(share["n_outlier_cells"]), "n_rows": int(share["n_outlier_rows"]),
            "rows": rows[:, 0].astype(int).tolist(),
            "examples": [{"row": int(row), "cells": int(cells), "column": int(column), "value": float(value)}
                         for row, cells, column, value in rows[:5].tolist()]}


def describe_outlier_rows(outliers: Outliers, names: Sequence[str] | None, row_names: Sequence[str] = ()) -> str:
    """Return a sentence about outlier rows; row_names : an additional name of each row, such as its line, or ""."""
    rows = outliers["rows"]
    count = outliers["n_rows"]
    example = outliers["examples"][0]
    numbers = [f"{row} ({text})" if text else str(row)
               for row, text in zip(rows[:SHOWN], [*row_names[:SHOWN], *[""] * SHOWN], strict=False)]
    cells = f"{example['cells']} {'cell' if example['cells'] == 1 else 'cells'}"
    out = f"{cells} out of range, such as {example['value']:g} in {column_label(names, example['column'])}"
    if count == 1:
        return f"row {numbers[0]}, counted from 0, lies far from all others: it has {out}"
    more = f" and {count - len(numbers):,} more" if count > len(numbers) else ""
    return (f"{count:,} rows lie far from all others: {', '.join(numbers)}{more}, counted from 0; row {example['row']} "
            f"has {out}")


def warn_outlier_rows(outliers: Outliers | None, names: Sequence[str] | None,
                      call: Callable[[Sequence[int]], Sequence[str]] = lambda rows: ()) -> None:
    """Warn about outlier rows; outliers : None if there are none. call : returns additional names of rows."""
    if outliers and outliers["n_rows"]:
        warnings.warn(explain(
            describe_outlier_rows(outliers, names, call(outliers["rows"][:SHOWN])),
            why=f"the scaling is fitted without them, and values are clipped at {CUT:g} times the usual distance from "
                "the median",
            fix="if these are codes of missing cells, such as -999, mark them as missing; or leave the rows out"),
            OutlierRows, stacklevel=4)
