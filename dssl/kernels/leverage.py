"""Landmarks drawn in proportion to approximate ridge leverage scores, in one pass over the rows.

The ridge leverage score of row i is

    l_i(mu) = (K (K + mu I)^-1)_ii,

the weight of row i in the smoothed fit at x_i; the scores sum to the effective dimension of the kernel (Alaoui,
Mahoney, "Fast randomized kernel ridge regression with statistical guarantees", NeurIPS 2015). The approximation has two
levels (Rudi, Calandriello, Carratino, Rosasco, "On fast leverage score sampling and optimal learning", NeurIPS 2018):

1. A pilot J of q rows is drawn uniformly; each of them represents n/q rows: `Phi'Phi = (n/q) Phi_J'Phi_J`.
2. With `nu = mu q/n` and `r_i = (K_ii - k_iJ (K_JJ + nu I)^-1 k_Ji) / nu`, row i is removed from the pilot if it is in
   it, and added with weight one (Sherman-Morrison, twice):

       x_i = (q/n) r_i for i outside J,  (q/n) r_i / (1 - r_i) for i in J;    l_i = x_i / (1 + x_i).

   This is exact if J has all rows.
3. `nu` is found by bisection such that the scores of all rows sum to s, estimated from the pilot: with K_JJ = U E U',
   `r_i = sum_j U_ij^2 e_j / (e_j + nu)`, and the l_i of J are those of rows outside the rest of J. nu is at least 1e-9
   of the largest e, because of rounding.
4. s rows are drawn without replacement with probability proportional to l_i: row i gets a waiting time that is
   exponential with rate l_i, and the s rows with the smallest times are drawn.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.linalg.blas import dtrsm

from ..base.digest import JsonObject
from ..base.errors import DataError, explain, require
from ..base.types import Matrix
from ..execution.tasks import Execution
from ..storage.blocks import Arrays, PartWriter, Receipt, Rows, block_rng, row_ranges, rows_that_fit
from ..storage.csr import point_arrays, points_nbytes, points_of
from .base import Kernel, diagonal_of
from .gram import block_rows, entries_of, kernel_block

PILOT = 2000  # rows, upper bound: the pass takes n q^2 multiplications, a minute of one core for n = 580,000
MIN_SCORE = 1e-12  # rows with smaller scores are drawn last
FLOOR = 1e-9  # of nu, relative to the largest eigenvalue of the pilot
STREAM_ROWS = 1 << 16  # rows of one random stream, independent of the blocks
PILOT_STREAM, TIMES_STREAM = 2, 3  # of the seed; `landmarks` draws from streams 0 and 1


def unseen_scores(values: np.ndarray, squares: np.ndarray, nu: float, weight: float) -> np.ndarray:
    """Return l_i of the pilot, (q,), from the eigenvalues e (q,) of K_JJ and the squares (q, q) of its eigenvectors."""
    seen, rest = squares @ (values / (values + nu)), squares @ (nu / (values + nu))  # r and 1 - r, each to all digits
    x = weight * seen / np.maximum(rest, FLOOR)
    return x / (1.0 + x)


def pilot_ridge(values: np.ndarray, squares: np.ndarray, n: int, target: float) -> float:
    """Return nu, at least its floor, for which the scores of n rows sum to `target`; 1.0 for K = 0.

    values, squares : as for `unseen_scores`. Bisection of log nu to 1e-3; O(q^2) time a step.
    """
    values, q = np.maximum(values, 0.0), len(values)
    largest = float(values.max())
    if largest == 0.0:
        return 1.0
    # r_i / (1 - r_i) is at most e_max / nu, so the sum is below the target at the upper end.
    low = np.log(FLOOR * largest)
    high = np.log(largest * (1 + q / target))
    while high - low > 1e-3:
        middle = (low + high) / 2
        if unseen_scores(values, squares, np.exp(middle), q / n).mean() * n > target:
            low = middle
        else:
            high = middle
    return float(np.exp(high))


def leverage_of_block(kernel: Kernel, X: Matrix, J: Matrix, factor: np.ndarray, nu: float, weight: float,
                      in_pilot: np.ndarray) -> np.ndarray:
    """Return the approximate scores of one block, shape (b,), between `MIN_SCORE` and 1.

    X, J : points (b, d) and the pilot (q, d), dense or sparse.
    factor : (q, q), lower Cholesky factor of K_JJ + nu I.
    weight : q / n.
    in_pilot : (b,) bool, which rows of X are among J.
    """
    block = kernel_block(kernel, X, J)
    if not hasattr(kernel, "row_bytes"):  # a plain function may keep what it returned
        block = np.array(block, np.float64)
    v = dtrsm(1.0, factor.T, block.T, lower=0, trans_a=1, overwrite_b=1)  # C v = k_Ji, in place
    x = np.maximum(diagonal_of(kernel, X) - np.einsum("ij,ij->j", v, v), 0.0) / nu
    x[in_pilot] /= np.maximum(1.0 - x[in_pilot], FLOOR)
    x *= weight
    return np.maximum(x / (1.0 + x), MIN_SCORE)


def waiting_times(random_state: int, start: int, stop: int) -> np.ndarray:
    """Return exponential waiting times of mean 1 for rows [start, stop), which do not depend on the blocks."""
    first = start // STREAM_ROWS
    last = -(-stop // STREAM_ROWS)
    times = np.concatenate([block_rng(random_state, TIMES_STREAM, stream).standard_exponential(STREAM_ROWS)
                            for stream in range(first, last)])
    return times[start - first * STREAM_ROWS:stop - first * STREAM_ROWS]


def smallest_times(times: np.ndarray, ids: np.ndarray, count: int) -> np.ndarray:
    """Return the positions of the `count` smallest times, in order; ties go to the smaller id."""
    return np.lexsort((ids, times))[:count]


@dataclass(frozen=True)
class PilotTask:
    """Factor the pilot; in one task, so that it runs on one core and gives the same bits everywhere."""

    kernel: Kernel
    pilot: Arrays  # J (q, d), dense or sparse
    n: int
    count: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.pilot.load()
        J = points_of(arrays, "J")
        K = np.array(kernel_block(self.kernel, J, J), np.float64)
        q = len(K)
        require(bool(np.isfinite(K).all()), f"the kernel of {q} sampled rows is NaN or infinite", error=DataError,
                why="leverage scores follow from its values",
                fix="drop or impute points that are not finite; scale the features if the kernel overflows")
        values, vectors = eigh(K, driver="evd", check_finite=False)
        nu = pilot_ridge(values, np.square(vectors, out=vectors), self.n, self.count)
        del vectors
        K[np.diag_indices(q)] += nu
        try:
            factor = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError as error:
            raise DataError(explain(
                f"the kernel matrix of {q} sampled rows is not positive semi-definite",
                why="leverage scores are defined by its inverse square root",
                fix="use a positive semi-definite kernel, or method='uniform' or 'kmeans'")) from error
        return {**out.write(**arrays, factor=np.ascontiguousarray(factor)), "nu": nu}


@dataclass(frozen=True)
class DrawTask:
    """Write the rows of one range with the smallest waiting times, and report the sum of the scores."""

    kernel: Kernel
    rows: Rows
    pilot: Arrays  # J (q, d), ids (q,) ascending, factor (q, q)
    nu: float
    count: int
    random_state: int
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.pilot.load()
        ids = np.arange(self.start, self.stop)
        scores = leverage_of_block(self.kernel, self.rows.read(self.start, self.stop), points_of(arrays, "J"),
                                   arrays["factor"], self.nu, len(arrays["ids"]) / len(self.rows),
                                   np.isin(ids, arrays["ids"], assume_unique=True))
        times = waiting_times(self.random_state, self.start, self.stop) / scores
        first = smallest_times(times, ids, self.count)
        return {**out.write(ids=ids[first], times=times[first]), "score_sum": float(scores.sum())}


def leverage_rows(rows: Rows, kernel: Kernel, count: int, random_state: int,
                  execution: Execution) -> tuple[np.ndarray, JsonObject]:
    """Return `count` row numbers, (s,) ascending, drawn by leverage scores, and the evidence.

    The pilot has `q = min(n, 2 s, 2000)` rows. O(q^3 + n q (q + d)) time. Memory of a task in bytes: 40 q^2 for the
    pilot's factor; then that of a kernel block against q points, and 8 q^2 + 56 a row of it.
    """
    n = len(rows)
    q = min(n, 2 * count, PILOT)
    rows_that_fit(execution.memory_budget, 40 * q, q, fixed_bytes=40 * q * (q - 1))  # refuses early
    ids = np.sort(block_rng(random_state, PILOT_STREAM).choice(n, q, replace=False, shuffle=False))
    J = rows.take(ids)
    held = execution.share(**point_arrays("J", J), ids=ids)
    factored = execution.scratch()
    nu = float(execution.map([PilotTask(kernel, held, n, count)], factored)[0]["nu"])
    # Scores, times, ids and their order take 56 bytes a row, like 7 more points in the kernel block.
    height = block_rows(kernel, rows, q + 7, execution.memory_budget, sparse_entries=entries_of(J),
                        kernel_bytes=8 * q * q + points_nbytes(J))
    parts = execution.scratch()
    tasks = [DrawTask(kernel, rows, factored.arrays(0), nu, count, random_state, start, stop)
             for start, stop in row_ranges(n, height)]
    receipts = execution.map(tasks, parts)
    shares = [parts.read(i) for i in range(len(tasks))]
    candidates = np.concatenate([part["ids"] for part in shares])
    first = smallest_times(np.concatenate([part["times"] for part in shares]), candidates, count)
    return np.sort(candidates[first]), {"pilot": q, "ridge": nu * n / q,
                                       "score_sum": sum(receipt["score_sum"] for receipt in receipts)}
