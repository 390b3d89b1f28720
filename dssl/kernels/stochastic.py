"""The leading eigensystem of an affinity by stochastic proximal gradient steps, in the memory of two factors.

With degrees D = diag(K 1), the affinity is `L = D^-1/2 K D^-1/2`. The steps minimize

    1/2 |Z - L|_F^2 + threshold |Z|_*,   whose solution is   L_hat = sum_i max(sigma_i - threshold, 0) u_i u_i'.

Step t = 1, 2, ... draws random Fourier features Phi_t (n, a) with `E Phi_t Phi_t' = K`, and with
`zeta_t = D^-1/2 Phi_t` and eta_t = min(1, 2 / t) computes

    Z_t = SVT[(1 - eta_t) Z_{t-1} + eta_t zeta_t zeta_t'],

where SVT lowers all eigenvalues by `eta_t threshold` and drops those that are not positive. |Z_t - L_hat|_F^2 decreases
as 1/t (SoCK: Hou, Zhang, Zhou, "Storage fit learning with unlabeled data", IJCAI 2017, Algorithm 1 and Theorem 1; the
printed first step is 2).

`Z_t = U_t S_t U_t'` is stored as the factor U_t (n, r), float32, r <= `rank`. One pass over blocks of rows computes
U_{t-1} from U_{t-2} and zeta_{t-1} by a matrix (r + a, r), draws zeta_t, and adds up the Gram matrix of
[U_{t-1}, zeta_t], whose scaled eigenvectors are the next such matrix. The Gram matrix is that of the stored factor, so
that its rounding errors do not accumulate. Features are computed again in each pass, and never stored.
"""

import itertools
import time
from dataclasses import dataclass

import numpy as np

from ..base.digest import JsonObject, is_real, is_whole, require_random_state
from ..base.errors import BudgetError, DataError, require
from ..execution.cost import STEP_BYTES, largest_within
from ..execution.tasks import Execution, sums
from ..execution.threads import one_thread
from ..storage.blocks import Parts, Receipt, Rows, rows_that_fit
from ..storage.csr import as_rows
from .base import DistanceKernel, Kernel
from .gram import BLOCK_BYTES
from .proximal import (
    DRAW,
    FACTOR,
    TRANSFORM,
    FactorTask,
    estimated_error,
    fourier_frequencies,
    proximal_step,
    require_fourier,
    step_size,
)

MAX_RUNS = 32  # of blocks: each has a Gram matrix of its own
RESULT = 0  # number of the part; a finished step has its own number, and parts within
DRIVER_SQUARES = 6  # arrays of the size of a Gram matrix during its eigendecomposition; measured


@dataclass(frozen=True, kw_only=True)
class StochasticParams:
    """How the eigenpairs of an affinity are computed by stochastic proximal steps.

    Parameters
    ----------
    steps : int
        The number of steps.
    n_features : int
        The random Fourier features of a step, an even number: cosines and sines of half
        as many frequencies.
    rank : int
        The maximal number of eigenvectors.
    threshold : float
        The decrease of the eigenvalues, 0 <= threshold < 1. Eigenvalues below it are
        dropped; the largest is 1.
    tol : float
        The estimated relative error ``|Z_t - L_hat|_F / |Z_t|_F`` at which steps end
        early; 0 for none.
    random_state : int
        The seed of the features.

    Raises
    ------
    ParameterError
        A value is out of range.

    References
    ----------
    Hou, Zhang, Zhou, "Storage fit learning with unlabeled data", IJCAI 2017,
    Algorithm 1.

    Examples
    --------
    >>> from dssl import ClusterKernelSVC, StochasticParams
    >>> ClusterKernelSVC(approximation=StochasticParams(steps=50)).approximation.steps
    50
    """

    steps: int = 200
    n_features: int = 200
    rank: int = 200
    threshold: float = 0.001
    tol: float = 0.02
    random_state: int = 0

    def __post_init__(self) -> None:
        for name, smallest, why in (("n_features", 2, "a step draws cosines and sines of frequencies"),
                                 ("rank", 1, "that many eigenvectors are kept at most"),
                                 ("steps", 1, "each step draws features once")):
            value = getattr(self, name)
            whole = is_whole(value)
            require(whole and value >= smallest, f"{name}={value!r}, expected a whole number >= {smallest}", why=why,
                    fix=f"leave {name} at its default")
        require(self.n_features % 2 == 0, f"n_features={self.n_features}, expected an even number",
                why="each frequency gives a cosine and a sine, so that the diagonal of the kernel is exact",
                fix=f"use {self.n_features + 1}")
        for name, below, why in (("threshold", 1.0, "the largest eigenvalue of the affinity is 1"),
                                 ("tol", np.inf, "it is a relative error at which steps end")):
            value = getattr(self, name)
            number = is_real(value)
            require(number and 0 <= value < below, f"{name}={value!r}, expected a number from 0 to below {below:g}",
                    why=why, fix=f"leave {name} at its default")
        require_random_state(self.random_state)


@dataclass(frozen=True, eq=False)
class Eigensystem:
    """The leading eigenvalues and eigenvectors of an affinity.

    values (k,) : descending, `lowered + threshold`. lowered (k,) : the eigenvalues of Z_t.
    vectors (n, k) : U, float32, orthonormal up to `evidence["orthogonality"]`; readable as long as its parts exist.
    evidence : JSON. `steps`; of each step its `rank` and `change`, |Z_t - Z_{t-1}|_F over the larger norm; `error`, the
    estimated `|Z_t - L_hat|_F / |Z_t|_F` (without the truncation to the maximal rank), None before step 8; `converged`;
    `seconds`.
    """

    values: np.ndarray
    lowered: np.ndarray
    vectors: Rows
    evidence: JsonObject

    @classmethod
    def of(cls, parts: Parts) -> "Eigensystem":
        """Return the eigensystem that `stochastic_eigensystem` wrote to parts."""
        evidence = parts.receipt(RESULT)["evidence"]
        return cls(**parts.read(RESULT), vectors=parts.within(f"step{evidence['steps'] + 1}").rows("U"),
                   evidence=evidence)


def meets_tolerance(error: float | None, params: StochasticParams) -> bool:
    return error is not None and error < params.tol


class StochasticSteps:
    """The steps of one computation.

    Step t writes to `parts.within("step{t}")` the factor U_{t-1} and shares of its Gram matrix, and to `state` within
    that the frequencies, T for U_t, and `lowered`. The receipt t of `parts` marks it as finished. The last two steps
    are kept.
    """

    def __init__(self, rows: Rows, scale: Rows, kernel: DistanceKernel, params: StochasticParams, execution: Execution,
                 parts: Parts):
        self.rows = rows
        self.scale = scale
        self.kernel = kernel
        self.params = params
        self.execution = execution
        self.parts = parts
        finished: list[Receipt] = []
        while (receipt := parts.receipt_of(len(finished) + 1)) is not None:
            finished.append(receipt)
        self.ranks: list[int] = [receipt["rank"] for receipt in finished]
        self.changes: list[float] = [receipt["change"] for receipt in finished]
        self.seconds: float = sum(receipt["seconds"] for receipt in finished)
        self.rank = min(params.rank, len(rows))

    @property
    def n_finished(self) -> int:
        return len(self.ranks)

    @property
    def error(self) -> float | None:
        return estimated_error(self.changes)

    def within(self, step: int) -> Parts:
        """Return the parts of a step."""
        return self.parts.within(f"step{step}")

    def state(self, step: int) -> Parts:
        """Return the parts that every task of a step reads as a whole."""
        return self.within(step).within("state")

    def factor(self, step: int) -> Rows | None:
        """Return U of a step, None if it has no columns."""
        return self.within(step + 1).rows("U") if step and self.ranks[step - 1] else None

    def lowered(self, step: int) -> np.ndarray:
        """Return the eigenvalues of Z of a step."""
        return self.state(step).read(TRANSFORM, ["lowered"])["lowered"] if step else np.zeros(0)

    def gram(self, step: int, draws: bool) -> np.ndarray:
        """Write U before a step, and return the Gram matrix of [U, zeta], or of U alone unless the step `draws`."""
        place = self.within(step)
        last = None
        n = len(self.rows)
        a = self.params.n_features
        budget = self.execution.memory_budget
        height = block_height(self.rows, a, self.rank, budget)
        self.within(step - 2).remove()  # its factor was read for the last time by the step before
        if step > 1 and self.ranks[step - 2]:
            last = self.state(step - 1)
            place.allocate("U", (n, self.ranks[step - 2]), FACTOR, height)
        before = self.factor(step - 1 if last is None else step - 2)
        new = self.state(step) if draws else None
        n_blocks = -(-n // height)
        runs = min(n_blocks, runs_that_fit(self.rank + a, budget))
        edges = np.minimum(np.linspace(0, n_blocks, runs + 1).astype(int) * height, n).tolist()
        return self.execution.reduce(sums([
            FactorTask(self.rows, self.scale, before, last, new, start, stop, height)
            for start, stop in itertools.pairwise(edges)]), place)["gram"]

    def take(self) -> None:
        """Take the next step."""
        begin = time.perf_counter()
        step = self.n_finished + 1
        d = self.rows.shape[1]
        params = self.params
        state = self.state(step)
        with one_thread():
            frequencies = fourier_frequencies(self.kernel, d, params.n_features, params.random_state, step)
        state.write(DRAW, {"frequencies": frequencies})
        del frequencies
        G = self.gram(step, draws=True)
        require(bool(np.isfinite(G).all()), "random features that are not finite", error=DataError,
                why="the products of points and frequencies overflow", fix="scale the features, or widen the kernel")
        with one_thread():
            T, lowered, change = proximal_step(G, self.lowered(step - 1), step_size(step), params.threshold,
                                               params.rank)
        state.write(TRANSFORM, {"T": T, "lowered": lowered})
        seconds = time.perf_counter() - begin
        self.parts.finish(step, {"rank": len(lowered), "change": change, "seconds": seconds})
        self.ranks.append(len(lowered))
        self.changes.append(change)
        self.seconds += seconds

    def finish(self) -> Eigensystem:
        """Write the factor of the last step, and return it with its eigenvalues."""
        begin = time.perf_counter()
        step = self.n_finished
        require(self.ranks[-1] > 0, f"no eigenvalue is above the threshold of {self.params.threshold:g}",
                error=DataError, why="the largest eigenvalue is 1 where the degrees are those of the kernel",
                fix="lower the threshold, or check kernel and degrees")
        G = self.gram(step + 1, draws=False)
        lowered = self.lowered(step)
        self.parts.write(RESULT, {"values": lowered + self.params.threshold, "lowered": lowered})
        self.parts.finish(RESULT, {"evidence": {
            "steps": step, "rank": self.ranks, "change": self.changes, "error": self.error,
            "converged": meets_tolerance(self.error, self.params),
            "orthogonality": float(np.abs(G - np.eye(len(G))).max()),
            "seconds": self.seconds + time.perf_counter() - begin}})
        self.within(step).remove()
        return Eigensystem.of(self.parts)


def stochastic_eigensystem(rows: Rows, kernel: Kernel, degrees: np.ndarray, params: StochasticParams,
                           execution: Execution, parts: Parts | None = None) -> Eigensystem:
    """Return the leading eigensystem of D^-1/2 K D^-1/2, K (n, n) the kernel of all rows.

    A step takes O(n (d a + (r + a)^2)) time; memory: `stochastic_bytes`.

    rows : (n, d), dense or sparse. kernel : `RBF` or `LaplacianKernel`. degrees : (n,), D, positive.
    parts : of finished steps and the result, where a killed run resumes; scratch by default.
    """
    n = len(rows)
    require_fourier(kernel)
    assert isinstance(kernel, DistanceKernel)
    degrees = np.asarray(degrees, np.float64)
    require(degrees.shape == (n,), f"degrees of shape {degrees.shape} of {n} rows", error=DataError,
            why="every point has one degree, the sum of its row of the kernel", fix="pass one number a row")
    require(bool((np.isfinite(degrees) & (degrees > 0)).all()), "degrees that are not positive and finite",
            error=DataError, why="the affinity divides by their roots",
            fix="use exact degrees: with kernel(x, x) = 1 they are 1 or more")
    parts = parts or execution.scratch()
    if parts.receipt_of(RESULT) is not None:
        return Eigensystem.of(parts)
    scale = execution.share_rows(as_rows(1 / np.sqrt(degrees)))
    steps = StochasticSteps(rows, scale, kernel, params, execution, parts)
    while steps.n_finished < params.steps and not meets_tolerance(steps.error, params):
        steps.take()
    return steps.finish()


def row_bytes(rows: Rows, n_features: int, rank: int) -> int:
    """Return the bytes of a row in a block: the point as read and in float64, the factor, and [U, zeta]."""
    d = -(-3 * rows.row_bytes // (2 * (rows.dtype.itemsize + 4))) if rows.is_sparse else rows.shape[1]
    point = rows.row_bytes + (16 if rows.is_sparse else 8) * d + 16
    return point + 4 * rank + 8 * (rank + n_features) + max(8 * rank, 4 * n_features)


def fixed_bytes(d: int, n_features: int, rank: int) -> int:
    """Return the bytes of a task beside its block: frequencies of two steps, T, and two Gram matrices."""
    width = rank + n_features
    return 8 * d * n_features + 8 * width * rank + 16 * width**2


def block_height(rows: Rows, n_features: int, rank: int, budget: int) -> int:
    """Return the rows of a block, an eighth of the budget; raise BudgetError if not even one fits."""
    each = row_bytes(rows, n_features, rank)
    rows_that_fit(budget, each, len(rows), fixed_bytes=fixed_bytes(rows.shape[1], n_features, rank))
    return max(1, min(len(rows), min(BLOCK_BYTES, budget // 8) // each))


def runs_that_fit(width: int, budget: int) -> int:
    """Return the maximal number of tasks: their Gram matrices of two steps take a sixteenth of the budget."""
    return int(np.clip(budget // (16 * 2 * 8 * width**2), 2, MAX_RUNS))


def stochastic_bytes(rows: Rows, n_features: int, rank: int, budget: int, *, held: bool = True, tasks: int = 1) -> int:
    """Return the bytes of `stochastic_eigensystem` beside its rows.

    The overhead of a step; degrees and their roots; if `held` in this process, the factors and Gram matrices of two
    steps; and the largest of `tasks` at a time, a draw of frequencies, and the eigendecomposition of a Gram matrix.
    """
    n = len(rows)
    d = rows.shape[1]
    b = min(rank, n)
    square = 8 * (b + n_features) ** 2
    each = row_bytes(rows, n_features, b)
    block = min(n * each, max(each, min(BLOCK_BYTES, budget // 8)))
    shares = 2 * square * runs_that_fit(b + n_features, budget)
    factors = 2 * FACTOR.itemsize * n * b
    return STEP_BYTES + 16 * n + held * (factors + shares) + max(
        DRIVER_SQUARES * square, 16 * d * n_features, tasks * (block + fixed_bytes(d, n_features, b)))


def rank_that_fits(rows: Rows, n_features: int, budget: int, *, tasks: int = 1) -> int:
    """Return the largest rank, at most n, that fits the budget; raise BudgetError if not even 1 does."""
    def needed(rank: int, budget: int) -> int:
        return stochastic_bytes(rows, n_features, rank, budget, tasks=tasks)

    smallest = budget
    while needed(1, smallest) > smallest:  # blocks grow with the budget, but less
        smallest = needed(1, smallest)
    require(smallest == budget, f"{len(rows):,} rows and {n_features} random features a step", error=BudgetError,
            why=f"with a factor of rank 1 they take {smallest:,} bytes, the memory budget is {budget:,}",
            fix=f"raise memory_budget to {smallest:,} or more, or draw fewer features a step")
    return largest_within(budget, len(rows), lambda rank: needed(rank, budget))
