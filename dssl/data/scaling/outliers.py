"""Outliers: cells far from all others of their column, such as -999 for a missing value, and the rows with such cells.

The reach of a column is the distance from its median within which 90 % of the values lie that differ from the median:
about 1.6 standard deviations for numbers, and the range of a column of 0 and 1, however rare the 1 is. Columns with
similar reaches are in one unit, as pixels are, and share the largest. A cell is an outlier at more than `CUT` reaches
from the median. A row is an outlier if such cells, in columns in which they are rare, are more than `OUTLIER_CUT`
reaches away in total.

Medians and reaches come from at most `SAMPLED_ROWS` evenly spaced rows. In random order, their ranks are within two
percent of the rows except for one column in a thousand (Dvoretzky, Kiefer, Wolfowitz). They do not depend on blocks.
Sparse rows, and columns with fewer than `FEWEST` values that differ from the median, have no outliers.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ...base.errors import column_label, explain
from ...execution.tasks import Share
from .units import ratio_of_ranges

SAMPLED_ROWS = 10_000
SAMPLE_BYTES = 16 << 20
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
