"""How "auto" solves few columns: by Gauss-Seidel, until an approximate factor is expected to be faster."""

import math
from dataclasses import dataclass, field

import numpy as np

from .cholesky import Cholesky
from .gauss_seidel import GaussSeidel
from .method import ROUNDED, SolverMethod, per_correction
from .operators import ScaledMatrix

# Fitted to the seconds of generated systems that no other table has (`tests/benchmarks/solver_choice.py`).
ITERATIONS = 51.0  # of Gauss-Seidel that take as long as those with a factor, until a residual is `MEASURED_AT`
MEASURED_AT = 1e-6
EASY, EASE = 290.0, 0.16  # iterations below which a factor takes fewer too, and by which power of them
AN_ENTRY, FILLED = 0.53, 8.2e-4  # iterations a factor of an entry a row takes, and for each row between its two rows
MOST = 400.0  # iterations that a factor takes
SIDE_BY_SIDE = 16  # columns whose iterations take twice as long as those of one
OF_BOUND = 0.55  # of the upper bound, the iterations where that is low
# How soon one judges, tried on the same systems, and on some with weights over many orders of magnitude.
BEGIN = 3  # iterations before one judges
RECENT = 0.5  # of the iterations give the rate
STANDS_STILL = 0.5  # of the rate since the first iteration, at least: a residual may rest for a while
WORTH = 0.9  # of the iterations that the factor takes, above which it is taken


@dataclass(frozen=True)
class FactorWork:
    """What an approximate factor takes, in iterations of Gauss-Seidel that take as many seconds.

    preparation : that of the factor. iterations : those with it, until a residual is `MEASURED_AT` of the first.
    bound : the most of Gauss-Seidel's own, until then.
    """

    preparation: float
    iterations: float
    bound: float

    @classmethod
    def of(cls, A: ScaledMatrix, n_columns: int) -> "FactorWork":
        """Return that of n_columns columns, which share the preparation.

        A factor fills, and takes longer, where neighbors are far apart in the order of the rows.
        """
        bound = OF_BOUND * max_iterations(A, MEASURED_AT)
        preparation = min(len(A.data) / A.n * (AN_ENTRY + FILLED * A.spread * A.n), MOST)
        iterations = ITERATIONS * min(bound / EASY, 1.0) ** EASE
        return cls(preparation / (1 + (n_columns - 1) / SIDE_BY_SIDE), iterations, bound)


@dataclass
class Watch:
    """Judges after each iteration of a correction by Gauss-Seidel whether a factor would be faster from here on.

    needed (t,) : the factors by which the residuals must fall, in as many corrections as that takes.
    begin : the iterations before it judges. stopped : whether the factor would be faster. expected : the iterations
    of Gauss-Seidel in all.
    """

    factor: FactorWork
    needed: np.ndarray
    begin: int = BEGIN
    stopped: bool = False
    expected: float = 0.0
    _levels: list[float] = field(default_factory=list)  # of the residuals after each iteration, log10

    def __call__(self, squares: np.ndarray) -> bool:
        """Note the squared residual norms (t,) after one more iteration, relative to the first, and judge."""
        squares = squares[squares > 0]
        if not len(squares):
            return False
        levels = self._levels
        levels.append(float(np.log10(squares).mean()) / 2)
        needed = self.needed.min(keepdims=True)
        in_one = -math.log10(per_correction(needed)[0])
        corrections, share = -math.log10(ROUNDED * needed[0]) / in_one, math.log(needed[0]) / math.log(MEASURED_AT)
        n, left = len(levels), in_one + levels[-1]
        whole = float(n)
        if n >= self.begin and left > 0:
            first = max(int(n * (1 - RECENT)), 1)
            rate = max((levels[first - 1] - levels[-1]) / (n - first),
                       STANDS_STILL * (levels[0] - levels[-1]) / (n - 1), 1e-3)
            whole += left / rate
        self.expected = min(corrections * whole, max(self.factor.bound * share, n))
        self.stopped = n >= self.begin and left > 0 and self.expected - n > WORTH * (
            self.factor.preparation + self.factor.iterations * share)
        return self.stopped


@dataclass(frozen=True)
class GaussSeidelFirst(SolverMethod):
    """Gauss-Seidel for columns that are all known, and an approximate factor once that is expected to be faster.

    What the factor interrupts is lost, as it saves none of its iterations: where Gauss-Seidel has reduced a residual,
    what is left is what the factor takes long to reduce too.

    taken : the method, once the factor is taken. used : iterations of the corrections by Gauss-Seidel so far.
    """

    n_columns: int
    random_state: int
    factor: FactorWork
    taken: list[SolverMethod] = field(default_factory=list)
    used: list[int] = field(default_factory=list)

    name = GaussSeidel.name

    @classmethod
    def prepare(cls, A: ScaledMatrix, n_columns: int, *, n_vectors: int | None = None,
                random_state: int = 0) -> "GaussSeidelFirst":
        return cls(A, n_columns, random_state, FactorWork.of(A, n_columns))

    @property
    def last(self) -> str:
        """Return the name of the last method."""
        return self.taken[-1].name if self.taken else self.name

    def correct(self, R: np.ndarray, norms: np.ndarray, needed: np.ndarray, budget: np.ndarray, *,
                precise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        lost = np.zeros(len(norms), np.int64)
        if not self.taken:
            watch = Watch(self.factor, needed[norms > 0], max(BEGIN, *self.used, 0))
            E, used = GaussSeidel(self.A, watch=watch).correct(R, norms, needed, budget, precise=precise)
            self.used.append(int(used.max(initial=0)))
            if not watch.stopped or (used >= budget)[norms > 0].any():
                return E, used
            del E
            lost = used
            self.taken.append(Cholesky.prepare(self.A, self.n_columns, random_state=self.random_state))
        E, used = self.taken[-1].correct(R, norms, needed, budget - lost, precise=precise)
        return E, used + lost


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
