"""How new points lie to the ranges of the training points, column by column.

A value is beyond the range where it is below the smallest or above the largest value of the training points. A point is
far where some column of it is beyond by more than the range is wide: it is then, in that column, farther from every
training point than any two of these are from each other, so whatever is said of it is extrapolated. A column that was
constant has no width, and makes no point far.

Some values of new points are beyond a range by chance alone. A column is worth a word where it makes a point far, or
where more of its values are beyond than chance would have: of m new and n training values in random order, the k
largest are all new with the probability m / (n + m) (m - 1) / (n + m - 1) ... (k factors).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from ...base.errors import DataError, column_label, explain, require
from ...execution.tasks import Execution
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges, rows_that_fit

CHANCE = 1e-6  # that so many values of a column are beyond one end of its range, where nothing has changed
LARGEST_BLOCK = 1 << 26  # bytes of float64 in one block, so that several tasks share the work


class BeyondRange(UserWarning):
    """Values of new points are beyond the range of those of the fit, more of them than chance would have."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """The ranges of the columns of n training rows: smallest, largest, float64 (d,)."""

    smallest: np.ndarray
    largest: np.ndarray
    n: int

    def compare(self, rows: Rows, execution: Execution, parts: Parts | None = None) -> "Comparison":
        """Return how new points (m, d) lie to the ranges, from one pass over them in blocks.

        A task needs 24 bytes a number. parts : where it is written which points are far; scratch by default.

        Raises DataError: another number of columns.
        """
        n, d = rows.shape
        require(d == len(self.smallest), f"the points have {d} columns, the training points {len(self.smallest)}",
                why="ranges are compared column by column", fix="pass the same features", error=DataError)
        parts = execution.scratch() if parts is None else parts
        rows = execution.share_rows(rows)
        height = max(1, min(rows_that_fit(execution.memory_budget, 24 * d, n), LARGEST_BLOCK // (8 * d)))
        parts.allocate("far", (n,), bool, height)
        shared = execution.share(smallest=self.smallest, largest=self.largest)
        spans = row_ranges(n, height)
        receipts = execution.map([RangeTask(rows, shared, start, stop) for start, stop in spans], parts)
        columns = dict[int, ColumnBeyond]()
        for index in range(len(spans)):
            for j, below, above, far, low, high in parts.read(index, ("beyond",))["beyond"].tolist():
                column = ColumnBeyond(int(j), int(below), int(above), int(far), low, high)
                columns[int(j)] = columns[int(j)].merge(column) if int(j) in columns else column
        return Comparison(self, n, parts.rows("far"), sum(receipt["far"] for receipt in receipts),
                          [columns[j] for j in sorted(columns)])


def warn_beyond(ranges: Ranges, rows: Rows, execution: Execution, names: Sequence[str] | None) -> None:
    """Warn of columns of new points with values beyond the ranges of the training points."""
    notes = ranges.compare(rows, execution).notes(names)
    if notes:
        warnings.warn(explain("; ".join(notes), why="what is said there is extrapolated",
                              fix="check that the columns are those of the fit, in the same units"),
                      BeyondRange, stacklevel=5)


@dataclass(frozen=True)
class ColumnBeyond:
    """How many values of a column are below and above its range, and so by more than its width; their extremes."""

    column: int
    below: int
    above: int
    far: int
    low: float
    high: float

    def merge(self, other: "ColumnBeyond") -> "ColumnBeyond":
        """Return the same of both."""
        return ColumnBeyond(self.column, self.below + other.below, self.above + other.above, self.far + other.far,
                            min(self.low, other.low), max(self.high, other.high))


def beyond(X: Any, smallest: np.ndarray, largest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which points of a block (b, d) are far, (b,) bool, and what k columns have beyond their ranges, (k, 6).

    The second is float64: column, values below, above, and far; the smallest and largest value of the block.
    """
    with np.errstate(over="ignore"):
        width = largest - smallest
        reach = np.where(width > 0, width, np.inf)
        low = smallest - reach
        high = largest + reach
    if sparse.issparse(X):  # what is not stored is zero; it matters where zero is beyond
        chosen = np.unique(np.concatenate([X.indices[(X.data < smallest[X.indices]) | (X.data > largest[X.indices])],
                                           np.flatnonzero((smallest > 0) | (largest < 0))]))
        block = X[:, chosen].toarray()
    else:
        block = np.asarray(X)
        chosen = np.flatnonzero((block.min(axis=0) < smallest) | (block.max(axis=0) > largest))
        block = block[:, chosen]
    below = block < smallest[chosen]
    above = block > largest[chosen]
    far = (block < low[chosen]) | (block > high[chosen])
    columns = np.column_stack([chosen, below.sum(axis=0), above.sum(axis=0), far.sum(axis=0),
                             block.min(axis=0, initial=np.inf), block.max(axis=0, initial=-np.inf)]).astype(np.float64)
    return far.any(axis=1), columns[(columns[:, 1] > 0) | (columns[:, 2] > 0)]


@dataclass(frozen=True)
class RangeTask:
    """Write which points of rows [start, stop) are far, and to the own part what each column has beyond its range."""

    rows: Rows
    ranges: Arrays
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        ranges = self.ranges.load()
        far, columns = beyond(self.rows.read(self.start, self.stop), ranges["smallest"], ranges["largest"])
        return {**out.write(beyond=columns), **out.write_rows(self.start, far=far), "far": int(far.sum())}


@dataclass(frozen=True, eq=False)
class Comparison:
    """How n new points lie to ranges.

    is_far : Rows of bool, (n,). far : how many are. columns : those with values beyond their range, in their order.
    """

    ranges: Ranges
    n: int
    is_far: Rows
    far: int
    columns: Sequence[ColumnBeyond]

    def is_notable(self, column: ColumnBeyond) -> bool:
        """Return whether there is more beyond the range of a column than chance would have."""
        most = max(column.below, column.above)
        logarithm = (gammaln(self.n + 1) - gammaln(self.n - most + 1) - gammaln(self.n + self.ranges.n + 1)
                     + gammaln(self.n + self.ranges.n - most + 1))
        return column.far > 0 or bool(logarithm < np.log(CHANCE))

    def described(self, names: Sequence[str] | None) -> list[dict[str, Any]]:
        """Return, as JSON, what lies beyond the range of each column: counts, and both ranges in the source's units."""
        return [{"column": names[column.column] if names else str(column.column),
                 "below": column.below, "above": column.above, "far": column.far, "min": column.low, "max": column.high,
                 "training_min": float(self.ranges.smallest[column.column]),
                 "training_max": float(self.ranges.largest[column.column]), "notable": self.is_notable(column)}
                for column in self.columns]

    def notes(self, names: Sequence[str] | None, most: int = 10) -> list[str]:
        """Return a sentence on each of the columns that are worth a word, at most so many, the most values first."""
        notable = sorted((column for column in self.columns if self.is_notable(column)),
                         key=lambda column: (-column.far, -column.below - column.above))
        lines = [f"{column.below + column.above} of {self.n} values of {column_label(names, column.column)} are beyond "
                 f"the range of the training points: from {column.low:.6g} to {column.high:.6g}, where these are from "
                 f"{self.ranges.smallest[column.column]:.6g} to {self.ranges.largest[column.column]:.6g}"
                 for column in notable[:most]]
        return [*lines, f"so are values of {len(notable) - most} more columns"] if notable[most:] else lines
