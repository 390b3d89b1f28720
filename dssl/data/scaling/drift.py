"""Whether new points are distributed as the training points: rows out of range, and quartiles of columns.

A sample of the training rows says what is usual: the share of rows that are out of the range of all others, and in each
column the quartiles. Of new rows it is counted how many are out of range, and how many values of a column are up to
each quartile. Both are shares of independent rows, so that one exact test of two shares (Fisher's) compares them,
whatever the distribution is: of rows out of range, one-sided; of values above the median (location) and of values
between the quartiles (spread), two-sided.

Values are compared in float32, so that new points may come in either precision.

Half of `FALSE_ALARMS` goes to the rows, and half to the columns, by Bonferroni. So of batches that are drawn as the
training rows were, at most this share raises an alarm.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...base.digest import JsonObject
from ...base.errors import IntegrityError, column_label, require

FALSE_ALARMS = 1e-3  # the largest share of batches without a change that raise an alarm
QUARTILES = np.array([0.25, 0.5, 0.75])


@dataclass(frozen=True, eq=False)
class Usual:
    """What is usual of training rows, from a sample of n of them.

    smallest, largest : (d,), of all training rows but outliers. quartiles : (3, d), values of the sample. up_to :
    (3, d), how many values are up to each. n_out : how many rows of the sample are out of the range of all other
    training rows but outliers.
    """

    smallest: np.ndarray
    largest: np.ndarray
    quartiles: np.ndarray
    up_to: np.ndarray
    n_out: int
    n: int

    @classmethod
    def of(cls, sample: np.ndarray, smallest: np.ndarray, largest: np.ndarray) -> "Usual":
        """Return what is usual of sampled rows (n, d); smallest, largest : (d,), of all training rows but outliers."""
        with np.errstate(over="ignore"):
            values, *ends = (each.astype(np.float32) for each in (sample, smallest, largest))
        quartiles = np.quantile(values, QUARTILES, axis=0, method="inverted_cdf")
        _, up_to = counted(values, quartiles, *ends)
        out = (values < ends[0]) | (values > ends[1])
        for end in ends:
            at_end = values == end
            out |= at_end & (at_end.sum(axis=0) == 1)
        return cls(smallest, largest, quartiles, up_to, int(out.any(axis=1).sum()), len(values))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes."""
        return {"usual_smallest": self.smallest, "usual_largest": self.largest, "quartiles": self.quartiles,
                "up_to": self.up_to, "usual": np.array([self.n_out, self.n])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Usual":
        """Return what `to_arrays` described. Raises IntegrityError: an earlier version did."""
        require("usual_smallest" in arrays, "the ranges of the training points lack those without outliers",
                error=IntegrityError, why="an earlier version of dssl stored them", fix="run the pipeline again")
        return cls(arrays["usual_smallest"], arrays["usual_largest"], arrays["quartiles"], arrays["up_to"],
                   *map(int, arrays["usual"]))


def counted(X: np.ndarray, quartiles: np.ndarray, smallest: np.ndarray, largest: np.ndarray) -> tuple[int, np.ndarray]:
    """Return how many rows of X (n, d) are out of range, and how many values are up to each quartile, (3, d)."""
    with np.errstate(over="ignore"):
        values, low, high, cuts = (each.astype(np.float32) for each in (X, smallest, largest, quartiles))
    out = ((values < low) | (values > high)).any(axis=1)
    return int(out.sum()), np.array([(values <= cut).sum(axis=0) for cut in cuts])


@dataclass(frozen=True)
class ColumnDrift:
    """A column whose new values are distributed otherwise than those of the training points.

    above_median, between_quartiles : the shares of the new values, and of the training values in `usual_above` and
    `usual_between`. p_value : of the clearer of both changes, not corrected for the number of columns.
    """

    column: int
    above_median: float
    usual_above: float
    between_quartiles: float
    usual_between: float
    p_value: float


@dataclass(frozen=True)
class Drift:
    """How the distribution of new points differs from that of the training points.

    Parameters
    ----------
    n : int
        The new points.
    n_out : int
        How many of them are out of the range of the training points, outliers apart, in
        some column.
    usual_share : float
        The share of training points that are out of the range of all others, outliers
        apart.
    p_value : float
        The probability of so many points out of range if nothing has changed.
    columns : tuple of ColumnDrift
        The columns that have changed, the clearest first.
    n_columns : int
        All columns.
    """

    n: int
    n_out: int
    usual_share: float
    p_value: float
    columns: tuple[ColumnDrift, ...]
    n_columns: int

    @classmethod
    def between(cls, usual: Usual, n: int, n_out: int, up_to: np.ndarray) -> "Drift":
        """Return the drift of n new points; up_to (3, d) : how many of their values are up to each quartile."""
        from scipy.stats import hypergeom  # takes half a second

        medians = two_sided(n - up_to[1], n, usual.n - usual.up_to[1], usual.n)
        between = [counts[2] - counts[0] for counts in (up_to, usual.up_to)]
        p_values = np.minimum(1, 2 * np.minimum(medians, two_sided(between[0], n, between[1], usual.n)))
        changed = np.flatnonzero(p_values * len(p_values) < FALSE_ALARMS / 2)
        columns = [ColumnDrift(j, float(1 - up_to[1, j] / n), float(1 - usual.up_to[1, j] / usual.n),
                               float(between[0][j] / n), float(between[1][j] / usual.n), float(p_values[j]))
                   for j in changed[np.argsort(p_values[changed], kind="stable")].tolist()]
        p_value = float(hypergeom.sf(n_out - 1, n + usual.n, n_out + usual.n_out, n)) if n else 1.0
        return cls(n, n_out, usual.n_out / usual.n, p_value, tuple(columns), len(p_values))

    @property
    def alarm(self) -> bool:
        """Whether the change is larger than chance explains in all but 1 of 1,000 batches."""
        return self.p_value < FALSE_ALARMS / 2 or bool(self.columns)

    def in_words(self, names: Sequence[str] | None = None) -> list[str]:
        """Return what has changed, in sentences; none where chance explains it."""
        said = []
        if self.p_value < FALSE_ALARMS / 2:
            said.append(f"{self.n_out / self.n:.2%} of the points are out of the range of the training points, "
                        f"outliers apart; of the training points {self.usual_share:.2%} are, each beside all others")
        if self.columns:
            first = self.columns[0]
            said.append(f"{len(self.columns)} of {self.n_columns} columns are distributed otherwise than in training, "
                        f"most clearly {column_label(names, first.column)}: {first.above_median:.0%} of its values are "
                        f"above the training median ({first.usual_above:.0%} in training), "
                        f"{first.between_quartiles:.0%} between the quartiles ({first.usual_between:.0%})")
        return said

    def to_dict(self, names: Sequence[str] | None = None) -> JsonObject:
        """Return the JSON form; names : of the columns."""
        return {"alarm": self.alarm, "n_out_of_range": self.n_out, "usual_share_out_of_range": self.usual_share,
                "p_value": self.p_value, "columns": [
                    {**vars(each), "column": names[each.column] if names else str(each.column)}
                    for each in self.columns]}


def two_sided(k: np.ndarray, n: int, k_usual: np.ndarray, n_usual: int) -> np.ndarray:
    """Return the p-values (d,) of k of n being as large a share as k_usual of n_usual: twice Fisher's smaller tail."""
    from scipy.stats import hypergeom  # as above

    if n == 0:
        return np.ones(len(k))
    total, of_both = n + n_usual, k + k_usual
    tails = np.minimum(hypergeom.cdf(k, total, of_both, n), hypergeom.sf(k - 1, total, of_both, n))
    return np.minimum(1, 2 * tails)
