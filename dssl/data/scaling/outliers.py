"""Cells far from all others of their column, such as -999 for a missing one, and the rows that hold them.

The reach of a column is the distance from its median within which 90 % of the values lie that differ from the median:
of numbers 1.6 standard deviations, of a column of 0 and 1 its range, however rare the 1 is. Columns whose reaches are
alike are in one unit, as pixels are, and share the largest. A cell is out of range at more than `CUT` reaches from the
median, and a row is far where such cells, of columns in which they are rare, are together more than `FAR` reaches away.

Medians and reaches are those of all rows up to `SAMPLED_ROWS`, and of more rows those of as many, evenly spaced: in
random order their ranks are then within two percent of the rows, but for one column in a thousand (Dvoretzky, Kiefer,
Wolfowitz). They do not depend on blocks. Of sparse rows, and of fewer than `FEWEST` different values, no cell is far.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import column_label, explain
from ...execution.tasks import Share
from .units import ratio_of_ranges

SAMPLED_ROWS = 10_000
SAMPLE_BYTES = 16 << 20
FEWEST = 20  # values of a column that differ from its median
WITHIN = 0.9
CUT = 10.0
FAR = 100.0
RARE = 0.01  # of the cells of a column; where more are out of range, it has a long tail or a code of its own
MAX_LISTED, SHOWN = 100, 10  # rows that are known, and that a sentence has room for
NARROW = 0.1  # of the median reach of columns
ONE_UNIT = 3.0  # the largest reach of a column over the lower quartile


class FarRows(UserWarning):
    """Some rows of a fit lie far from all others, as codes of missing cells do."""


def sampled_places(n: int, d: int) -> np.ndarray:
    """Return the places, ascending, of the rows among n of d columns that tell medians and reaches."""
    count = min(n, SAMPLED_ROWS, max(FEWEST, SAMPLE_BYTES // (8 * d)))
    return np.linspace(0, n - 1, count).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Reaches:
    """median, reach : float64 (d,); the reach is infinite where it is not known. rare (d,) bool : see the module.

    narrow : how many columns that share one reach had less than a tenth of the median one.
    """

    median: np.ndarray
    reach: np.ndarray
    rare: np.ndarray
    narrow: int = 0

    @classmethod
    def of(cls, sample: np.ndarray) -> "Reaches":
        """Return those of some rows (m, d), float64; 3 arrays of their size."""
        median = np.median(sample, axis=0)
        with np.errstate(over="ignore"):
            away = np.abs(sample - median)
        count = (away > 0).sum(axis=0)
        ordered = np.sort(away, axis=0)
        place = len(sample) - count + np.floor(WITHIN * np.maximum(count - 1, 0)).astype(int)
        reach = ordered[np.minimum(place, len(sample) - 1), np.arange(len(median))]
        reach = np.where((count >= FEWEST) & np.isfinite(reach), reach, np.inf)
        known = reach[np.isfinite(reach)]
        narrow = 0
        if len(known) and ratio_of_ranges(known) <= ONE_UNIT:
            reach = np.full(len(median), known.max())
            narrow = int((known < NARROW * np.median(known)).sum())
        return cls(median, reach, (away > CUT * reach).mean(axis=0) <= max(RARE, 1 / len(sample)), narrow)

    def exceeded(self, smallest: np.ndarray, largest: np.ndarray) -> bool:
        """Return whether any cell is out of range, from the extremes (d,) of the columns."""
        with np.errstate(over="ignore"):
            farthest = np.maximum(largest - self.median, self.median - smallest)
        return bool((farthest > CUT * self.reach).any())

    def inliers(self, X: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, Share]:
        """Return a copy of rows (b, d), float64, whose cells are medians where far or out of range; and what these are.

        numbers (b,) : of the rows. n_far : far rows. far (k, 4) : of at most `MAX_LISTED` their number, their cells
        out of range, and the column and value of the one that is out of range most. Memory: three such arrays.
        """
        X = np.array(X, np.float64)
        with np.errstate(over="ignore"):
            away = X - self.median
        np.abs(away, out=away)
        away /= self.reach
        out = away > CUT
        away *= out
        far = np.flatnonzero(np.minimum(away, FAR) @ self.rare.astype(np.float64) >= FAR)
        worst = away[far].argmax(axis=1)
        share = {"n_far": np.array(len(far)), "n_out": np.array(int(out.sum())), "far": np.column_stack([
            numbers[far], out[far].sum(axis=1), worst, X[far, worst]])[:MAX_LISTED].astype(np.float64)}
        out[far] = True
        np.copyto(X, self.median, where=out)
        return X, share

    def bounds(self, smallest: np.ndarray, largest: np.ndarray, *, shared: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return what values of each column are cut off at, (d,) and (d,).

        smallest, largest : of the rows that are not far, from which the reach follows where it is not known. shared :
        whether one reach, the largest, serves all columns.
        """
        with np.errstate(over="ignore"):
            known = np.isfinite(self.reach)
            reach = np.where(known, self.reach, np.maximum(largest - self.median, self.median - smallest))
            away = CUT * (np.full_like(reach, reach.max()) if shared else reach)
            return self.median - away, self.median + away


def outliers_of(share: Share) -> dict[str, Any]:
    """Return what `Reaches.inliers` told of all rows as JSON."""
    far = share["far"]
    return {"cells": int(share["n_out"]), "n_rows": int(share["n_far"]), "rows": far[:, 0].astype(int).tolist(),
            "examples": [{"row": int(row), "cells": int(cells), "column": int(column), "value": float(value)}
                         for row, cells, column, value in far[:5].tolist()]}


def far_rows_in_words(outliers: dict[str, Any], names: Sequence[str] | None, called: Sequence[str] = ()) -> str:
    """Return which rows are far, in a sentence; outliers : as `outliers_of`. called : what each row is called beside
    its number, as its line in a file, or "".
    """
    rows = outliers["rows"]
    count = outliers["n_rows"]
    example = outliers["examples"][0]
    numbers = [f"{row} ({text})" if text else str(row)
               for row, text in zip(rows[:SHOWN], [*called[:SHOWN], *[""] * SHOWN], strict=False)]
    cells = f"{example['cells']} {'cell' if example['cells'] == 1 else 'cells'}"
    out = f"{cells} out of range, such as {example['value']:g} in {column_label(names, example['column'])}"
    if count == 1:
        return f"row {numbers[0]}, counted from 0, lies far from all others: it has {out}"
    more = f" and {count - len(numbers):,} more" if count > len(numbers) else ""
    return (f"{count:,} rows lie far from all others: {', '.join(numbers)}{more}, counted from 0; row {example['row']} "
            f"has {out}")


def warn_far_rows(outliers: dict[str, Any] | None, names: Sequence[str] | None,
                  call: Callable[[Sequence[int]], Sequence[str]] = lambda rows: ()) -> None:
    """Warn of rows that lie far from all others; outliers : as `outliers_of`, None where no cell is out of range.

    call : returns what rows are called beside their numbers.
    """
    if outliers and outliers["n_rows"]:
        warnings.warn(explain(
            far_rows_in_words(outliers, names, call(outliers["rows"][:SHOWN])),
            why=f"the scale is fitted without them, and values are cut off at {CUT:g} times the usual distance from "
                "the median",
            fix="if these are codes of missing cells, such as -999, mark them as missing; or leave the rows out"),
            FarRows, stacklevel=4)
