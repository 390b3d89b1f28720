"""The leading eigensystem of an affinity by stochastic proximal gradient steps, which never hold more than two factors.

With degrees D = diag(K 1), the affinity is `L = D^-1/2 K D^-1/2`, and what is sought minimizes

    1/2 |Z - L|_F^2 + threshold |Z|_*,   that is   L_hat = sum_i max(sigma_i - threshold, 0) u_i u_i'.

Step t = 1, 2, ... draws random Fourier features Phi_t (n, a) of the kernel, whose `Phi_t Phi_t'` has the mean K, and
with `zeta_t = D^-1/2 Phi_t` and eta_t = min(1, 2 / t) takes

    Z_t = SVT[(1 - eta_t) Z_{t-1} + eta_t zeta_t zeta_t'],

where SVT lowers all eigenvalues by `eta_t threshold` and drops what is not positive. |Z_t - L_hat|_F^2 falls as 1/t
(SoCK: Hou, Zhang, Zhou, "Storage fit learning with unlabeled data", IJCAI 2017, Algorithm 1 and Theorem 1; the printed
step 2 / t of the first one is 2).

`Z_t = U_t S_t U_t'` is kept as a factor U_t (n, r), float32, r at most `rank`. One pass over blocks of rows makes
U_{t-1} of U_{t-2} and zeta_{t-1}, both of the block, by the matrix (r + a, r) that the driver found last, draws zeta_t,
and gives the block's share of the Gram matrix of [U_{t-1}, zeta_t]; the eigenvectors of that matrix, scaled, are the
next one. The Gram matrix is that of the factor as it was written, so that its rounding does not add up. Frequencies
belong to the step, not to the block; features are made again and never written.
"""

import itertools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.digest import is_real, is_whole, require_random_state
from ..base.errors import BudgetError, DataError, require
from ..execution.cost import STEP_BYTES, largest_within
from ..execution.tasks import Execution, Progress, one_thread, sums
from ..storage.blocks import Parts, Receipt, Rows, rows_that_fit
from ..storage.csr import as_rows
from .base import DistanceKernel, Kernel
from .gram import BLOCK_BYTES
from .proximal import (
    DRAW,
    FACTOR,
    TURN,
    FactorTask,
    estimated_error,
    fourier_frequencies,
    proximal_step,
    require_fourier,
    step_size,
)

MAX_RUNS = 32  # of blocks: each has a Gram matrix of its own, which are added in a tree
RESULT = 0  # number of the part; a finished step has its own number, and parts within
DRIVER_SQUARES = 6  # arrays of the size of a Gram matrix while its eigenvectors are found; measured


@dataclass(frozen=True, kw_only=True)
class StochasticParams:
    """How the eigenpairs of an affinity are computed by stochastic proximal steps.

    Parameters
    ----------
    steps : int
        The number of the last step.
    n_features : int
        The random Fourier features of a step, an even number: cosines and sines of half
        as many frequencies.
    rank : int
        How many eigenvectors are kept at most.
    threshold : float
        By how much eigenvalues are lowered, 0 <= threshold < 1. Those of the affinity
        below it, of which the largest is 1, are dropped.
    tol : float
        The estimated relative error ``|Z_t - L_hat|_F / |Z_t|_F`` at which steps end
        before the last one; 0 for none.
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
        for name, least, why in (("n_features", 2, "a step draws cosines and sines of frequencies"),
                                 ("rank", 1, "that many eigenvectors are kept at most"),
                                 ("steps", 1, "each step draws features once")):
            value = getattr(self, name)
            whole = is_whole(value)
            require(whole and value >= least, f"{name}={value!r}, expected a whole number >= {least}", why=why,
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
    """The leading eigenvalues and eigenvectors of an affinity, as `stochastic_eigensystem` found them.

    values (k,) : descending, `lowered + threshold`. lowered (k,) : the eigenvalues of Z_t.
    vectors (n, k) : U, float32, orthonormal up to `evidence["orthogonality"]`; readable as long as its parts are there.
    evidence : JSON. `steps`, t; of each step its `rank` and `change`, |Z_t - Z_{t-1}|_F over the larger of both norms;
    `error`, the estimated `|Z_t - L_hat|_F / |Z_t|_F` at the end, None before step 8, without what the cap of the rank
    leaves out; `converged`, whether that is below the tolerance; `seconds`.
    """

    values: np.ndarray
    lowered: np.ndarray
    vectors: Rows
    evidence: dict[str, Any]

    @classmethod
    def of(cls, parts: Parts) -> "Eigensystem":
        """Return the eigensystem that `stochastic_eigensystem` left in parts."""
        evidence = parts.receipt(RESULT)["evidence"]
        return cls(**parts.read(RESULT), vectors=parts.within(f"step{evidence['steps'] + 1}").rows("U"),
                   evidence=evidence)


def reached(error: float | None, params: StochasticParams) -> bool:
    """Return whether an estimated error ends the steps."""
    return error is not None and error < params.tol


class StochasticSteps:
    """Steps of one computation, and where each leaves what the next one needs.

    Step t leaves in `parts.within("step{t}")` the factor U_{t-1} and shares of its Gram matrix, and in `state` within
    that the frequencies, T, which makes U_t, and `lowered`. The receipt t of `parts` says that it is finished. The two
    last steps are kept.
    """

    def __init__(self, rows: Rows, scale: Rows, kernel: DistanceKernel, params: StochasticParams, execution: Execution,
                 parts: Parts, start: Eigensystem | None):
        self.rows = rows
        self.scale = scale
        self.kernel = kernel
        self.params = params
        self.execution = execution
        self.parts = parts
        self.begun = None if start is None else execution.share_rows(start.vectors)
        self.lowered_first = np.zeros(0) if start is None else start.lowered
        fresh = {"steps": 0, "rank": [], "change": [], "seconds": 0.0}
        evidence: dict[str, Any] = fresh if start is None else start.evidence
        self.first: int = evidence["steps"]
        finished: list[Receipt] = []
        while (receipt := parts.receipt_of(self.first + len(finished) + 1)) is not None:
            finished.append(receipt)
        self.ranks: list[int] = evidence["rank"] + [receipt["rank"] for receipt in finished]
        self.changes: list[float] = evidence["change"] + [receipt["change"] for receipt in finished]
        self.seconds: float = evidence["seconds"] + sum(receipt["seconds"] for receipt in finished)
        self.rank = max(capped(params.rank, len(rows)), len(self.lowered_first))

    @property
    def taken(self) -> int:
        """Return the number of the last finished step."""
        return len(self.ranks)

    @property
    def error(self) -> float | None:
        """Return the estimated relative error."""
        return estimated_error(self.changes)

    def within(self, step: int) -> Parts:
        """Return where a step leaves what it makes."""
        return self.parts.within(f"step{step}")

    def state(self, step: int) -> Parts:
        """Return where a step leaves what tasks need whole."""
        return self.within(step).within("state")

    def factor(self, step: int) -> Rows | None:
        """Return U of a step, None where it has no columns."""
        if step == self.first:
            return self.begun
        return self.within(step + 1).rows("U") if self.ranks[step - 1] else None

    def lowered(self, step: int) -> np.ndarray:
        """Return the eigenvalues of Z of a step."""
        if step == self.first:
            return self.lowered_first
        return self.state(step).read(TURN, ["lowered"])["lowered"]

    def gram(self, step: int, draws: bool) -> np.ndarray:
        """Return the Gram matrix of [U, zeta] of step `step` before it is taken, or of U alone, which is written."""
        place = self.within(step)
        last = None
        n = len(self.rows)
        a = self.params.n_features
        budget = self.execution.memory_budget
        height = block_height(self.rows, a, self.rank, budget)
        self.within(step - 2).remove()  # its factor was read for the last time by the step before
        if step - 1 > self.first and self.ranks[step - 2]:
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
        step = self.taken + 1
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
        state.write(TURN, {"T": T, "lowered": lowered})
        seconds = time.perf_counter() - begin
        self.parts.finish(step, {"rank": len(lowered), "change": change, "seconds": seconds})
        self.ranks.append(len(lowered))
        self.changes.append(change)
        self.seconds += seconds

    def finish(self) -> Eigensystem:
        """Write the factor of the last step, and return it with its eigenvalues."""
        begin = time.perf_counter()
        step = self.taken
        require(self.ranks[-1] > 0, f"no eigenvalue is above the threshold of {self.params.threshold:g}",
                error=DataError, why="the largest eigenvalue is 1 where the degrees are those of the kernel",
                fix="lower the threshold, or check kernel and degrees")
        G = self.gram(step + 1, draws=False)
        lowered = self.lowered(step)
        self.parts.write(RESULT, {"values": lowered + self.params.threshold, "lowered": lowered})
        self.parts.finish(RESULT, {"evidence": {
            "steps": step, "rank": self.ranks, "change": self.changes, "error": self.error,
            "converged": reached(self.error, self.params), "orthogonality": float(np.abs(G - np.eye(len(G))).max()),
            "seconds": self.seconds + time.perf_counter() - begin}})
        self.within(step).remove()
        return Eigensystem.of(self.parts)


def stochastic_eigensystem(rows: Rows, kernel: Kernel, degrees: np.ndarray, params: StochasticParams,
                           execution: Execution, start: Eigensystem | None = None, parts: Parts | None = None,
                           progress: Progress | None = None) -> Eigensystem:
    """Return the leading eigensystem of D^-1/2 K D^-1/2, of K (n, n) the kernel of all rows.

    Parameters
    ----------
    rows : (n, d), dense or sparse. kernel : `RBF` or `LaplacianKernel`. degrees : (n,), D, positive.
    start : an eigensystem of the same rows, of fewer steps: it is gone on from. With its seed and the same budget the
        result has the bits of one that took all steps at once.
    parts : where finished steps and the result go, so that a run that was killed goes on after its last finished step;
        scratch by default.

    Returns
    -------
    Eigensystem; `start` itself where that has taken all steps, or is within the tolerance. A step takes
    O(n (d a + (r + a)^2)) time; memory: `stochastic_bytes`.

    Raises
    ------
    ParameterError : the kernel has no random Fourier features. DataError : the shapes do not match, a point is not
    finite, a degree is not positive, or no eigenvalue is above the threshold. BudgetError : a row does not fit.
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
    require(start is None or len(start.vectors) == n, f"a start of other rows than these {n}", error=DataError,
            why="its factor has a row a point", fix="start from the eigensystem of the same rows, or leave it out")
    if start is not None and (start.evidence["steps"] >= params.steps or reached(start.evidence["error"], params)):
        return start
    parts = parts or execution.scratch()
    if parts.receipt_of(RESULT) is not None:
        return Eigensystem.of(parts)
    scale = execution.share_rows(as_rows(1 / np.sqrt(degrees)))
    steps = StochasticSteps(rows, scale, kernel, params, execution, parts, start)
    while steps.taken < params.steps and not reached(steps.error, params):
        steps.take()
        if progress:
            progress(steps.taken, params.steps)
    return steps.finish()


def capped(rank: int, n: int) -> int:
    """Return how many eigenvectors of n rows are kept at most."""
    return min(rank, n)


def row_bytes(rows: Rows, n_features: int, rank: int) -> int:
    """Return what a row takes in a block.

    The point as it came and in float64; the factor as it was read, and [U, zeta] with its phases or the new factor.
    """
    d = -(-3 * rows.row_bytes // (2 * (rows.dtype.itemsize + 4))) if rows.is_sparse else rows.shape[1]
    point = rows.row_bytes + (16 if rows.is_sparse else 8) * d + 16
    return point + 4 * rank + 8 * (rank + n_features) + max(8 * rank, 4 * n_features)


def fixed_bytes(d: int, n_features: int, rank: int) -> int:
    """Return what a task takes beside its block: frequencies of two steps, T, and the Gram matrix and a block's."""
    width = rank + n_features
    return 8 * d * n_features + 8 * width * rank + 16 * width**2


def block_height(rows: Rows, n_features: int, rank: int, budget: int) -> int:
    """Return how many rows a block has: an eighth of the budget; raise BudgetError if not even one fits a task."""
    each = row_bytes(rows, n_features, rank)
    rows_that_fit(budget, each, len(rows), fixed_bytes=fixed_bytes(rows.shape[1], n_features, rank))
    return max(1, min(len(rows), min(BLOCK_BYTES, budget // 8) // each))


def runs_that_fit(width: int, budget: int) -> int:
    """Return how many tasks a step has at most: their Gram matrices, of two steps, take a sixteenth of the budget."""
    return int(np.clip(budget // (16 * 2 * 8 * width**2), 2, MAX_RUNS))


def stochastic_bytes(rows: Rows, n_features: int, rank: int, budget: int, *, held: bool = True, tasks: int = 1) -> int:
    """Return the bytes that `stochastic_eigensystem` takes with an execution of this budget, beside its rows.

    What any step takes; degrees and their roots; of two steps factors and Gram matrices of all tasks, where they are
    `held` in this process; and `tasks` at a time, or a draw of frequencies, or the eigenvectors of a Gram matrix.
    """
    n = len(rows)
    d = rows.shape[1]
    b = capped(rank, len(rows))
    square = 8 * (b + n_features) ** 2
    each = row_bytes(rows, n_features, b)
    block = min(n * each, max(each, min(BLOCK_BYTES, budget // 8)))
    shares = 2 * square * runs_that_fit(b + n_features, budget)
    factors = 2 * FACTOR.itemsize * n * b
    return STEP_BYTES + 16 * n + held * (factors + shares) + max(
        DRIVER_SQUARES * square, 16 * d * n_features, tasks * (block + fixed_bytes(d, n_features, b)))


def rank_that_fits(rows: Rows, n_features: int, budget: int, *, held: bool = True, tasks: int = 1) -> int:
    """Return the largest rank, at most n, whose `stochastic_bytes` are within the budget.

    Raise BudgetError if a rank of 1 is not.
    """
    def needed(rank: int, budget: int) -> int:
        return stochastic_bytes(rows, n_features, rank, budget, held=held, tasks=tasks)

    least = budget
    while needed(1, least) > least:  # blocks grow with the budget, by less
        least = needed(1, least)
    require(least == budget, f"{len(rows):,} rows and {n_features} random features a step", error=BudgetError,
            why=f"with a factor of rank 1 they take {least:,} bytes, the memory budget is {budget:,}",
            fix=f"raise memory_budget to {least:,} or more, or draw fewer features a step")
    return largest_within(budget, len(rows), lambda rank: needed(rank, budget))
