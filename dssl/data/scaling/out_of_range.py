"""Compares new points with the ranges of the training points, column by column.

A value is out of range if it is below the smallest or above the largest value of the training points. A point is an
outlier if some value is out of range by more than the width of the range: in that column it is farther from every
training point than any two of these are from each other, so its prediction is an extrapolation. A constant column has
no width, and makes no point an outlier. Of training points that are outliers themselves, as with a code of -999, those
at the other end do not count for the width.

Some values of new points are out of range by chance. A column is notable if it makes a point an outlier, or if more of
its values are out of range than chance explains: of m new and n training values in random order, the k largest are all
new with the probability m / (n + m) (m - 1) / (n + m - 1) ... (k factors).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict

import numpy as np
from scipy.special import gammaln

from ...base.errors import DataError, column_label, explain, require
from ...base.types import Matrix, is_sparse
from ...execution.tasks import Execution
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges, rows_that_fit
from .drift import QUARTILES, Drift, Usual, counted

CHANCE = 1e-6  # the probability of so many values beyond one end of a range if nothing has changed
LARGEST_BLOCK = 1 << 26  # bytes of float64 in one block, so that several tasks share the work


class OutOfRange(UserWarning):
    """More values of new points are out of the range of the fit than chance explains."""


@dataclass(frozen=True, eq=False)
class Ranges:
    """The ranges of the columns of n training rows; smallest, largest : float64 (d,), outliers among them.

    usual : what a sample of the training rows says of their distribution; None of sparse rows.
    """

    smallest: np.ndarray
    largest: np.ndarray
    n: int
    usual: Usual | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes."""
        return {"smallest": self.smallest, "largest": self.largest,
                **({} if self.usual is None else self.usual.to_arrays())}

    def outer(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (d,) below and above which a value makes its point an outlier."""
        inner = (self.smallest, self.largest) if self.usual is None else (self.usual.smallest, self.usual.largest)
        with np.errstate(over="ignore"):
            width_below, width_above = inner[1] - self.smallest, self.largest - inner[0]
            return (self.smallest - np.where(width_below > 0, width_below, np.inf),
                    self.largest + np.where(width_above > 0, width_above, np.inf))

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n: int) -> "Ranges":
        """Return the ranges that `to_arrays` described, of n rows."""
        return cls(arrays["smallest"], arrays["largest"], n, Usual.from_arrays(arrays) if "usual" in arrays else None)

    def compare(self, rows: Rows, execution: Execution, parts: Parts | None = None, *,
                drift: bool = True) -> "Comparison":
        """Compare new points (m, d) with the ranges, in one pass over them by blocks.

        A task needs 24 bytes per number. parts : stores which points are outliers; temporary by default. drift :
        whether distributions are compared, where that of the training rows is known.
        """
        n, d = rows.shape
        require(d == len(self.smallest), f"the points have {d} columns, the training points {len(self.smallest)}",
                why="ranges are compared column by column", fix="pass the same features", error=DataError)
        parts = execution.scratch() if parts is None else parts
        rows = execution.share_rows(rows)
        height = max(1, min(rows_that_fit(execution.memory_budget, 24 * d, n), LARGEST_BLOCK // (8 * d)))
        parts.allocate("outliers", (n,), bool, height)
        usual = self.usual if drift else None
        low, high = self.outer()
        shared = execution.share(**replace(self, usual=usual).to_arrays(), low=low, high=high)
        spans = row_ranges(n, height)
        receipts = execution.map([RangeTask(rows, shared, start, stop) for start, stop in spans], parts)
        columns = dict[int, ColumnOutOfRange]()
        up_to = np.zeros((len(QUARTILES) if usual else 0, d), np.int64)
        for index in range(len(spans)):
            part = parts.read(index, ("columns", "up_to"))
            up_to += part["up_to"]
            for j, below, above, n_outliers, low, high in part["columns"].tolist():
                column = ColumnOutOfRange(int(j), int(below), int(above), int(n_outliers), low, high)
                columns[int(j)] = columns[int(j)].merge(column) if int(j) in columns else column
        return Comparison(self, n, parts.rows("outliers"), sum(receipt["outliers"] for receipt in receipts),
                          [columns[j] for j in sorted(columns)], sum(receipt["out"] for receipt in receipts), up_to)


def warn_out_of_range(ranges: Ranges, rows: Rows, execution: Execution, names: Sequence[str] | None, *,
                      stacklevel: int = 5) -> None:
    """Warn about columns in which new points are out of the ranges of the training points.

    Their distribution is not compared: nothing is counted by the quartiles. stacklevel : of the warning, whose place is
    a line of the user.
    """
    notes = ranges.compare(rows, execution, drift=False).notes(names)
    if notes:
        warnings.warn(explain("; ".join(notes), why="predictions for such points are extrapolations",
                              fix="check that the columns are those of the fit, in the same units"),
                      OutOfRange, stacklevel=stacklevel)


@dataclass(frozen=True)
class ColumnOutOfRange:
    """The number of values of a column below and above its range and by more than its width, and their extremes."""

    column: int
    below: int
    above: int
    outliers: int
    low: float
    high: float

    def merge(self, other: "ColumnOutOfRange") -> "ColumnOutOfRange":
        """Return the counts and extremes of both."""
        return ColumnOutOfRange(self.column, self.below + other.below, self.above + other.above,
                                self.outliers + other.outliers, min(self.low, other.low), max(self.high, other.high))


class RangeDescription(TypedDict):
    """The JSON form of a column with values out of range, in the units of the source."""

    column: str
    below: int
    above: int
    outliers: int
    min: float
    max: float
    training_min: float
    training_max: float
    notable: bool


def out_of_range(X: Matrix, smallest: np.ndarray, largest: np.ndarray, low: np.ndarray,
                 high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which points of a block (b, d) are outliers, (b,) bool, and k columns with values out of range, (k, 6).

    The second is float64: column; values below, above, and out by more than the width; smallest and largest value.
    smallest, largest : (d,), the ranges. low, high : (d,), beyond which a value makes its point an outlier.
    """
    if is_sparse(X):  # entries that are not stored are zeros, which may be out of range
        chosen = np.unique(np.concatenate([X.indices[(X.data < smallest[X.indices]) | (X.data > largest[X.indices])],
                                           np.flatnonzero((smallest > 0) | (largest < 0))]))
        block = X[:, chosen].toarray()
    else:
        block = np.asarray(X)
        chosen = np.flatnonzero((block.min(axis=0) < smallest) | (block.max(axis=0) > largest))
        block = block[:, chosen]
    below = block < smallest[chosen]
    above = block > largest[chosen]
    outliers = (block < low[chosen]) | (block > high[chosen])
    columns = np.column_stack([chosen, below.sum(axis=0), above.sum(axis=0), outliers.sum(axis=0),
                             block.min(axis=0, initial=np.inf), block.max(axis=0, initial=-np.inf)]).astype(np.float64)
    return outliers.any(axis=1), columns[(columns[:, 1] > 0) | (columns[:, 2] > 0)]


@dataclass(frozen=True)
class RangeTask:
    """Write which points of rows [start, stop) are outliers, and to the own part the columns with values out of range.

    With these how many values of each column are up to the quartiles of the training points, where these are known.
    """

    rows: Rows
    ranges: Arrays
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        ranges = self.ranges.load()
        X: Matrix = self.rows.read(self.start, self.stop)
        outliers, columns = out_of_range(X, ranges["smallest"], ranges["largest"], ranges["low"], ranges["high"])
        n_out, up_to = 0, np.empty((0, X.shape[1]), np.int64)
        if "quartiles" in ranges:
            n_out, up_to = counted(X.toarray() if is_sparse(X) else X, ranges["quartiles"],
                                   ranges["usual_smallest"], ranges["usual_largest"])
        return {**out.write(columns=columns, up_to=up_to), **out.write_rows(self.start, outliers=outliers),
                "outliers": int(outliers.sum()), "out": n_out}


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of comparing n new points with ranges.

    is_outlier : Rows of bool, (n,). n_outliers : their number. columns : those with values out of range, in order.
    n_out : how many points have a value out of the range of training rows but outliers. up_to (3, d) : how many of the
    values of a column are up to each quartile of the training rows, (0, d) where these are not compared.
    """

    ranges: Ranges
    n: int
    is_outlier: Rows
    n_outliers: int
    columns: Sequence[ColumnOutOfRange]
    n_out: int
    up_to: np.ndarray

    @cached_property
    def drift(self) -> Drift | None:
        """The change of distribution; None where it was not compared, or that of the training rows is not known."""
        usual = self.ranges.usual
        return None if usual is None or not len(self.up_to) else Drift.between(usual, self.n, self.n_out, self.up_to)

    def require_drift(self) -> Drift:
        """Return the change of distribution; raise DataError where that of the training rows is not known."""
        if self.drift is None:
            raise DataError(explain("the distribution of the points of the fit is not known",
                                    why="they are sparse, and quartiles are kept of dense points",
                                    fix="fit dense points; of sparse ones `predict` compares the ranges"))
        return self.drift

    def is_notable(self, column: ColumnOutOfRange) -> bool:
        """Return whether a column has more values out of range than chance explains."""
        count = max(column.below, column.above)
        logarithm = (gammaln(self.n + 1) - gammaln(self.n - count + 1) - gammaln(self.n + self.ranges.n + 1)
                     + gammaln(self.n + self.ranges.n - count + 1))
        return column.outliers > 0 or bool(logarithm < np.log(CHANCE))

    def described(self, names: Sequence[str] | None) -> list[RangeDescription]:
        """Return the JSON form of the columns with values out of range."""
        return [{"column": names[column.column] if names else str(column.column), "below": column.below,
                 "above": column.above, "outliers": column.outliers, "min": column.low, "max": column.high,
                 "training_min": float(self.ranges.smallest[column.column]),
                 "training_max": float(self.ranges.largest[column.column]), "notable": self.is_notable(column)}
                for column in self.columns]

    def notes(self, names: Sequence[str] | None, max_notes: int = 10) -> list[str]:
        """Return a sentence about each notable column, those with the most values first."""
        notable = sorted((column for column in self.columns if self.is_notable(column)),
                         key=lambda column: (-column.outliers, -column.below - column.above))
        lines = [f"{column.below + column.above} of {self.n} values of {column_label(names, column.column)} are out of "
                 f"the range of the training points: from {column.low:.6g} to {column.high:.6g}, where these are from "
                 f"{self.ranges.smallest[column.column]:.6g} to {self.ranges.largest[column.column]:.6g}"
                 for column in notable[:max_notes]]
        return [*lines, f"so are values of {len(notable) - max_notes} more columns"] if notable[max_notes:] else lines
