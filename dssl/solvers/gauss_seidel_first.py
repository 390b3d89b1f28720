"""How "auto" solves few columns: by Gauss-Seidel, until an approximate factor is expected to be faster."""

import math
from dataclasses import dataclass, field

import numpy as np

from .cholesky import Cholesky
from .columns import put_columns
from .gauss_seidel import GaussSeidel
from .method import ROUNDED, SolverMethod, per_correction
from .operators import ScaledMatrix

# Fitted to the seconds of generated systems that no other table has (`tests/benchmarks/solver_choice.py`).
ITERATIONS = 51.0  # of Gauss-Seidel that take as long as those with a factor, until a residual is `MEASURED_AT`
MEASURED_AT = 1e-6
FEW_ITERATIONS, POWER = 290.0, 0.16  # iterations below which a factor takes fewer too, and by which power of them
AN_ENTRY, FILLED = 0.53, 8.2e-4  # iterations a factor of an entry a row takes, and for each row between its two rows
MAX_PREPARATION = 400.0  # iterations that a factor takes
SIDE_BY_SIDE = 16  # columns whose iterations take twice as long as those of one
OF_BOUND = 0.55  # of the upper bound, the iterations where that is low
# How soon one judges, tried on the same systems, and on some with weights over many orders of magnitude.
MIN_ITERATIONS = 3  # before one judges
RECENT = 0.5  # of the iterations give the rate
MIN_RATE = 0.5  # of the rate since the first iteration, at least: a residual may rest for a while
UNEVEN = 0.3  # mean over the rows of the sum of their squared entries, above which few edges have most of the weight
SLOWING = 1.3  # times as many iterations are left there: a residual falls fast along such edges first
SWITCH_RATIO = 0.9  # of the iterations that the factor takes: if more are expected, it is taken
MAX_RATIO = 2.0  # of them, after which it is taken whatever is expected


@dataclass(frozen=True)
class FactorWork:
    """What an approximate factor takes, in iterations of Gauss-Seidel that take as many seconds.

    factor : that of one column. iterations : those with it, until a residual is `MEASURED_AT` of the first. bound : of
    Gauss-Seidel's own, about as many as it takes until then where its upper bound is low. slowing : how many times as
    many are left as the rate of its residuals promises.
    """

    factor: float
    iterations: float
    bound: float
    slowing: float = 1.0

    @classmethod
    def of(cls, A: ScaledMatrix) -> "FactorWork":
        """Return that of a matrix; a factor fills, and takes longer, where neighbors are far apart in its order."""
        bound = OF_BOUND * max_iterations(A, MEASURED_AT)
        factor = min(len(A.data) / A.n * (AN_ENTRY + FILLED * A.spread * A.n), MAX_PREPARATION)
        slowing = SLOWING if float(A.data @ A.data) > UNEVEN * A.n else 1.0
        return cls(factor, ITERATIONS * min(bound / FEW_ITERATIONS, 1.0) ** POWER, bound, slowing)

    def of_columns(self, n_columns: int, share: float) -> float:
        """Return that of n_columns columns side by side; share : of the digits of `MEASURED_AT`."""
        return self.factor / (1 + (n_columns - 1) / SIDE_BY_SIDE) + self.iterations * share


@dataclass
class SwitchRule:
    """Judges after each iteration of a correction by Gauss-Seidel whether a factor would be faster from here on.

    needed (t,) : the factors by which the residuals must fall. aim (t,) : by which they fall in this correction; all
    take as many as that needs. n_columns : that share a factor, at least those that are being solved. first : the
    iterations before it judges. stopped : whether the factor would be faster. expected : the iterations of
    Gauss-Seidel in all. late : the columns that were being solved last.
    """

    work: FactorWork
    needed: np.ndarray
    aim: np.ndarray
    n_columns: int = 1
    first: int = MIN_ITERATIONS
    stopped: bool = False
    expected: float = 0.0
    late: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    _levels: list[np.ndarray] = field(default_factory=list)  # of the residuals after each iteration, log10

    @classmethod
    def of(cls, work: FactorWork, needed: np.ndarray, *, precise: bool = False, n_columns: int = 1,
           first: int = MIN_ITERATIONS) -> "SwitchRule":
        """Return the rule of the correction that `Iterative.correct` makes."""
        return cls(work, needed, per_correction(needed, precise=precise), n_columns, first)

    def __call__(self, squares: np.ndarray, columns: np.ndarray) -> bool:
        """Judge after one more iteration on some of the columns (w,), those that have not reached their aim.

        squares (w,) : their squared residual norms, relative to the first.
        """
        levels = self._levels
        levels.append(levels[-1].copy() if levels else np.zeros(len(self.needed)))
        levels[-1][columns] = np.log10(np.maximum(squares, np.finfo(float).tiny)) / 2
        n, before = len(levels), max(int(len(levels) * (1 - RECENT)), 1)
        first, recent, now = (float(levels[place][columns].mean()) for place in (0, before - 1, n - 1))
        needed, aim = self.needed[columns].min(), self.aim[columns].min()
        left, share = now - math.log10(aim), math.log(needed) / math.log(MEASURED_AT)
        corrections, whole, judges = max(math.log(ROUNDED * needed) / math.log(aim), 1.0), float(n), n >= self.first
        if judges and left > 0:
            whole += left / max((recent - now) / (n - before), MIN_RATE * (first - now) / (n - 1), 1e-3)
        self.late = columns
        self.expected = n + self.work.slowing * (min(corrections * whole, max(self.work.bound * share, n)) - n)
        work = self.work.of_columns(max(self.n_columns, len(columns)), share)
        self.stopped = judges and (n > MAX_RATIO * work or (left > 0 and self.expected - n > SWITCH_RATIO * work))
        return self.stopped


class GaussSeidelFirst(SolverMethod):
    """Gauss-Seidel for columns that are all known, and an approximate factor once that is expected to be faster.

    Of a column that the factor takes over, what the same correction has done is lost, as it saves the factor none of
    its iterations: where Gauss-Seidel has reduced a residual, what is left is what the factor takes long to reduce too.

    factor : once it is taken.
    """

    name = GaussSeidel.name

    def __init__(self, A: ScaledMatrix, n_columns: int, random_state: int = 0):
        super().__init__(A)
        self.n_columns, self.random_state = n_columns, random_state
        self.factor: Cholesky | None = None
        self._work, self._used = FactorWork.of(A), MIN_ITERATIONS  # by the longest correction

    @property
    def last(self) -> str:
        """Return the name of the last method."""
        return self.name if self.factor is None else self.factor.name

    def correct(self, R: np.ndarray, norms: np.ndarray, needed: np.ndarray, budget: np.ndarray, *,
                precise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        if self.factor is not None:
            return self.factor.correct(R, norms, needed, budget, precise=precise)
        rule = SwitchRule.of(self._work, needed, precise=precise, first=self._used)
        E, used = GaussSeidel(self.A, watch=rule).correct(R, norms, needed, budget, precise=precise)
        self._used = max(self._used, int(used.max(initial=0)))
        late = rule.late[used[rule.late] < budget[rule.late]]
        if rule.stopped and len(late):
            self.factor = Cholesky.prepare(self.A, self.n_columns, random_state=self.random_state)
            solved, more = self.factor.correct(R.take(late, axis=1), norms[late], needed[late], (budget - used)[late],
                                               precise=precise)
            used[late] += more
            E = E.astype(solved.dtype, copy=False)
            put_columns(late, (E, solved))
        return E, used


def max_iterations(A: ScaledMatrix, tol: float) -> float:
    """Return an upper bound of the iterations of Gauss-Seidel from the excess of the diagonal; inf without one.

    With the scaling y that makes A dominant, every eigenvalue is at least a, the smallest (A y)_i / y_i. No row sum of
    U or L is above 1 - a then, so `M = A + L U` is at most `A + (1 - a)^2`, and M^-1 A has eigenvalues in
    [a / (a + (1 - a)^2), 1].
    """
    y = A.near_null
    left = y - abs(A.off_diagonal()) @ y if (A.data > 0).any() else A.image
    smallest = float((left / y).min())
    return math.sqrt(1 + max(1 - smallest, 0) ** 2 / smallest) / 2 * math.log(2 / tol) if smallest > 0 else math.inf
