"""Solutions of symmetric diagonally dominant systems, with their residuals, by the method with the least work.

All methods share one outer loop (iterative refinement): the residual is computed in float64, the correction in float32
to a few digits, or by a factor for few columns in float64, until the float64 residual meets the tolerance.
"""

import math
from dataclasses import dataclass, field, replace
from itertools import starmap

import numpy as np
from numpy.typing import ArrayLike

from ..base.digest import JsonObject
from ..base.errors import DataError, require
from ..base.types import MatrixLike
from ..storage.blocks import row_ranges
from .cholesky import Cholesky
from .columns import add_columns, column_norms, put_columns
from .deflation import MIN_VECTORS, Deflated, deflated_vectors
from .gauss_seidel import GaussSeidel
from .gauss_seidel_first import FactorWork, GaussSeidelFirst, SwitchRule
from .method import MAX_DIRECT, Direct, Iterative, SolverMethod, per_correction
from .operators import ScaledMatrix
from .scaling import scaled_matrix
from .solution import Solution, look_at_rounding
from .solver_params import AUTO, SOLVERS, SolverParams
from .warm_start import scaled_start

SMALLEST, LARGEST = 1e-140, 1e140  # norms whose squares are numbers
BAND, BAND_POWER, WIDEST_BAND = 20, 0.4, 90  # the mean distance from the diagonal up to which an exact factor pays
PROBES = 8  # columns on which `auto` counts iterations
MANY_COLUMNS = 200  # of fewer, eigenvectors cost more than they save
SURFACE = 0.03  # spread of the entries, below which eigenvalues are so dense that eigenvectors save nothing
PROBE_ITERATIONS = 100  # at most, of a probe
FEWEST_DEFLATED = 12  # iterations with eigenvectors, at best
WATCHED = 20  # iterations that tell how many there will be


@dataclass(frozen=True)
class Solver:
    """A method prepared for a matrix, and how to solve with it."""

    method: SolverMethod
    params: SolverParams  # whose method is the name of this one, never "auto"
    attributes: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, method: SolverMethod, params: SolverParams, **attributes: object) -> "Solver":
        """Return the solver of a prepared method with further attributes."""
        return cls(method, replace(params, method=method.name),
                   {"method": method.name, "description": method.description, **method.attributes, **attributes})

    @property
    def A(self) -> ScaledMatrix:
        """Return the matrix."""
        return self.method.A

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return named arrays, which with `params` and `attributes` define the solver."""
        return {f"{name}-{key}": array for name, part in (("A", self.A), ("method", self.method))
                for key, array in part.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], params: SolverParams,
                    attributes: JsonObject | None = None) -> "Solver":
        """Return the solver whose arrays `to_arrays` gave."""
        def part(name: str) -> dict[str, np.ndarray]:
            return {key.split("-", 1)[1]: array for key, array in arrays.items() if key.startswith(f"{name}-")}
        method = SOLVERS.named(params.method).from_arrays(ScaledMatrix.from_arrays(part("A")), part("method"))
        return cls(method, params, attributes or {})

    def solve(self, B: np.ndarray, start: np.ndarray | None = None) -> Solution:
        """Return the solution of `R X = B` for B (n, t); of a singular R its pseudo-inverse times B.

        start : (n, t), the start of the iterations, such as the solution of a similar system; a factored matrix does
            not use it.

        Memory: `solve_bytes(t)` beside B and `start`.
        """
        B = np.asarray(B, np.float64)
        require(B.ndim == 2 and B.shape[0] == self.A.n,
                f"right-hand sides of shape {B.shape}, expected ({self.A.n}, t)",
                why="each column has one entry a vertex", fix="pass a two-dimensional array, one column a system")
        if start is not None:
            require(start.shape == B.shape, f"a start of shape {start.shape}, expected {B.shape}", why="each column "
                    "has its own start", fix="pass the previous solutions, in the order of the columns")
        n, t = B.shape
        solution = Solution(np.empty((n, t)), np.zeros(t), np.ones(t, bool), np.zeros(t, np.int64))
        for columns in starmap(slice, row_ranges(t, self.method.width(self.params.block_columns))):
            evidence = self._solve_block(B[:, columns], None if start is None else start[:, columns],
                                         solution.value[:, columns])
            for array, part in zip((solution.residuals, solution.converged, solution.iterations), evidence,
                                   strict=True):
                array[columns] = part
        return solution

    def solve_bytes(self, t: int) -> int:
        """Return an upper bound of the bytes of `solve` for t columns."""
        return self.method.solve_bytes(self.A.n, t, self.params.block_columns)

    def _solve_block(self, B: np.ndarray, start: np.ndarray | None, value: np.ndarray) -> tuple[np.ndarray, ...]:
        """Write the solutions of one block of columns to `value` (n, t); return residuals, convergence, iterations.

        Columns that have stopped leave the block as soon as they are half of it. So a column has the same bits beside
        any others by Gauss-Seidel and an approximate Cholesky factor; the products of deflation and of multigrid
        round by the width of the block.
        """
        A, params, right = self.A, self.params, B
        B = A.enter(right)
        weight = 1 / A.scale  # || D^1/2 r || is the residual norm of the system as it was given
        with np.errstate(over="ignore"):
            given = column_norms(B, weight)
        odd = (given < SMALLEST) | ~(given <= LARGEST)
        if odd.any() and right[:, odd].any() and np.isfinite(right).all():
            unit = 2.0 ** np.clip(np.frexp(np.abs(right).max(axis=0))[1], -1000, 1000)  # by which no bit is lost
            if (unit != 1).any():
                evidence = self._solve_block(right / unit, None if start is None else start / unit, value)
                value *= unit
                return evidence
        goal = params.tol * given
        if start is None or not self.method.iterates:
            X, R = np.zeros_like(B), B.copy()
        else:
            X, R = scaled_start(A, B, start), np.empty_like(B)
            A.residual(X, B, R)
        solution, columns, iterations = X, np.arange(R.shape[1]), np.zeros(R.shape[1], np.int64)
        A.correct_components(X, R, given > 0)
        current = column_norms(R, weight)
        active = current > goal
        # A column that meets its goal is not changed, so that it does not depend on the other columns.
        while active.any():
            some = active[columns]
            if 2 * np.count_nonzero(some) <= len(some):
                put_columns(columns, (solution, X))
                X, B, R = (array.compress(some, axis=1) for array in (X, B, R))
                columns, some = columns[some], some[some]
            self.method.deflate(X, R, some)
            norms = np.where(some, column_norms(R, np.ones_like(weight)), 0)
            needed = np.where(some, goal[columns] / np.where(some, current[columns], 1), 1)
            E, used = self.method.correct(R, norms, needed, params.max_iter - iterations[columns])
            iterations[columns] += used
            add_columns(X, E, norms)
            del E
            A.residual(X, B, R)
            A.correct_components(X, R, some)
            before = current[columns]
            after = np.where(some, column_norms(R, weight), before)
            # A column that gains less than half of the digits at which a correction aims is sooner solved in float64.
            active[columns] &= (after > goal[columns]) & (after <= np.sqrt(per_correction(needed)) * before) & (
                iterations[columns] < params.max_iter)
            current[columns] = after
        put_columns(columns, (solution, X))
        del X, B, R
        # Columns that float32 improves too little continue in float64, few at a time to use no more memory.
        late = np.flatnonzero((current > goal) & (iterations < params.max_iter))
        for first, last in row_ranges(len(late), -(-len(goal) // 4)):
            self._continue(right, late[first:last], solution, goal, current, iterations)
        A.leave(solution, value)
        return current / np.where(given > 0, given, 1), current <= goal, iterations

    def _continue(self, right: np.ndarray, columns: np.ndarray, solution: np.ndarray, goal: np.ndarray,
                  current: np.ndarray, iterations: np.ndarray) -> None:
        """Correct some columns of a block in float64, as long as each correction halves what it lowers.

        That is the residual of the scaled system. solution (n, t), current, iterations (t,) : of the block, in place.
        """
        A, params = self.A, self.params
        weight = 1 / A.scale
        ones = np.ones_like(weight)
        X, B = solution.take(columns, axis=1), A.enter(right.take(columns, axis=1))
        R = np.empty_like(B)
        A.residual(X, B, R)
        before = column_norms(R, ones)
        while len(columns):
            needed = np.minimum(goal[columns] / current[columns], 0.5)
            E, used = self.method.correct(R, current[columns], needed, params.max_iter - iterations[columns],
                                          precise=True)
            X += E * current[columns]
            iterations[columns] += used
            del E
            A.residual(X, B, R)
            A.correct_components(X, R, np.ones(len(columns), bool))
            solution[:, columns] = X
            current[columns], after = column_norms(R, weight), column_norms(R, ones)
            left = (after <= 0.5 * before) & (current[columns] > goal[columns])
            left &= iterations[columns] < params.max_iter
            columns, before = columns[left], after[left]
            X, B, R = (array.compress(left, axis=1) for array in (X, B, R))


def prepare(R: MatrixLike, n_columns: int, params: SolverParams | None = None,
            vector: np.ndarray | None = None) -> Solver:
    """Return a solver for `n_columns` columns of R; "auto" selects the method by counted work.

    R : sparse matrix, shape (n, n), symmetric diagonally dominant up to the scaling `vector`.
    n_columns : the number of columns that will be solved.
    vector : shape (n,); ones for L + ridge (the default), the square root of the degrees for L_norm + ridge.

    Raises DataError: R is not symmetric, finite and diagonally dominant.

    "auto" factors small matrices of a narrow band. It takes Gauss-Seidel if the first iterations on a sum of `PROBES`
    seeded columns promise few, and otherwise an approximate Cholesky factor. For many columns on graphs that are no
    surface or curve it counts the iterations of these columns, and also those with a few deflated vectors if these may
    be faster. It compares counted work and never the clock, so the selection is the same on every machine.
    """
    return _prepared(scaled_matrix(R, vector), n_columns, params or SolverParams())


def solve_columns(R: MatrixLike, B: np.ndarray, params: SolverParams | None = None, vector: np.ndarray | None = None,
                  start: np.ndarray | None = None) -> tuple[Solution, str]:
    """Return the solution of `R X = B` for B (n, t) if R is solved only once, and the last method.

    "auto" begins with Gauss-Seidel, and goes on with an approximate Cholesky factor as soon as that is expected to be
    faster. `MANY_COLUMNS` and more are solved as by `prepare`.

    Raises DataError: as `prepare`.
    """
    params = params or SolverParams()
    A, t = scaled_matrix(R, vector), B.shape[1]
    if params.method != AUTO or _is_soon_factored(A, t) or t >= MANY_COLUMNS:
        solver = _prepared(A, t, params)
        return solver.solve(B, start), solver.params.method
    method = GaussSeidelFirst(A, t, params.random_state)
    return Solver.of(method, params).solve(B, start), method.last


def _prepared(A: ScaledMatrix, n_columns: int, params: SolverParams) -> Solver:
    """Return the solver for n_columns columns."""
    if params.method == AUTO and not _is_soon_factored(A, n_columns):
        return _least_work(A, n_columns, params)
    solver = Direct if params.method == AUTO else SOLVERS.named(params.method)
    reason = {"reason": "the matrix is small, and its band narrow enough to factor"} if params.method == AUTO else {}
    return Solver.of(solver.prepare(A, n_columns, n_vectors=params.n_vectors, random_state=params.random_state),
                     params, **reason)


def _is_soon_factored(A: ScaledMatrix, n_columns: int) -> bool:
    """Return whether an exact factor pays for so many columns: it fills about the band of the matrix."""
    return A.n <= MAX_DIRECT and A.n * A.spread <= min(BAND * max(n_columns, 1) ** BAND_POWER, WIDEST_BAND)


def possible_solvers(n: int, *, guess: bool, n_columns: int | None = None) -> list[type[SolverMethod]]:
    """Return the solvers that "auto" may take for n unknowns.

    guess : whether to return all of them, or the one that takes the least memory.
    n_columns : the number of columns of `solve_columns`; None for `prepare`.
    """
    if not guess:
        return [Direct if n <= MAX_DIRECT else GaussSeidel]
    iterative = GaussSeidel if n_columns is not None and n_columns < MANY_COLUMNS else Deflated
    return [*([Direct] if n <= MAX_DIRECT else []), Cholesky, iterative]


def _least_work(A: ScaledMatrix, n_columns: int, params: SolverParams) -> Solver:
    """Return the solver with the least work for n_columns columns, counted on probe columns."""
    probes = _probe_columns(A.n, params)
    signs = np.random.default_rng([params.random_state, 1]).choice([-1.0, 1.0], probes.shape[1])
    R, one = A.enter((probes @ signs)[:, None]), np.ones(1)
    A.correct_components(np.zeros_like(R), R, one > 0)
    rule = SwitchRule.of(FactorWork.of(A), params.tol * one, n_columns=n_columns)
    GaussSeidel(A, watch=rule).correct(R, column_norms(R, np.ones(A.n)), rule.needed, WATCHED * one)
    expected, is_easy, (setup, iteration) = rule.expected, not rule.stopped, Deflated.work(A)
    method = GaussSeidel(A) if is_easy else Cholesky.prepare(A, n_columns, random_state=params.random_state)
    saved = n_columns * (expected - FEWEST_DEFLATED) * iteration  # by eigenvectors, at most
    if n_columns < MANY_COLUMNS or A.spread < SURFACE or (is_easy and setup > saved):
        return Solver.of(method, params, reason=f"{'few' if is_easy else 'many'} iterations of Gauss-Seidel are "
                         "expected, and eigenvectors would cost more", expected_iterations=round(expected, 1))
    candidates = [_counted(method, probes, n_columns, params)]
    n_few = min(params.n_vectors or MIN_VECTORS, MIN_VECTORS)
    if setup + n_columns * FEWEST_DEFLATED * iteration < candidates[0][0]:
        candidates.append(_counted(Deflated.prepare(A, n_columns, n_vectors=n_few, random_state=params.random_state),
                                   probes, n_columns, params))
    best = min(candidates, key=lambda pair: pair[0])[1]
    considered = [solver.attributes.copy() for _, solver in candidates]
    if best.params.method == Deflated.name and deflated_vectors(A.n, n_columns, params.n_vectors) > n_few:
        best = Solver.of(Deflated.prepare(A, n_columns, n_vectors=params.n_vectors, random_state=params.random_state),
                         params)
    best.attributes["considered"] = considered
    return best


def _probe_columns(n: int, params: SolverParams) -> np.ndarray:
    """Return `PROBES` columns of the identity."""
    columns = np.random.default_rng([params.random_state, n]).choice(n, min(PROBES, n), replace=False)
    B = np.zeros((n, len(columns)))
    B[columns, np.arange(len(columns))] = 1
    return B


def _counted(method: Iterative, B: np.ndarray, n_columns: int, params: SolverParams) -> tuple[float, Solver]:
    """Return the entries that a method touches for n_columns columns such as those of B, and its solver."""
    probe = Solver.of(method, replace(params, max_iter=PROBE_ITERATIONS)).solve(B)
    # Residuals fall geometrically, so the iterations of an unfinished probe are extrapolated.
    reduction = np.clip(probe.residuals, 1e-300, 0.99)
    expected = float((probe.iterations * np.maximum(1, math.log(params.tol) / np.log(reduction))).mean())
    setup, iteration = method.entries()
    work = setup + n_columns * expected * iteration
    return work, Solver.of(method, params, probe_iterations=round(expected, 1), work=f"{work:.3g}")


def solve(R: MatrixLike, B: ArrayLike, *, method: str = AUTO, tol: float = 1e-6, max_iter: int = 3000,
          vector: np.ndarray | None = None, random_state: int = 0, start: ArrayLike | None = None) -> Solution:
    """Return the solution of `R X = B` with its evidence.

    Every column meets the tolerance, or an error is raised. Where R is singular, as a
    Laplacian without a ridge is, the solution is that of the pseudo-inverse: the part of a
    column in the null space, its mean over each connected component, is left out, and the
    residual is that of the rest. A ridge below the rounding of the diagonal, about 1e-14 of
    its mean, counts as none.

    Parameters
    ----------
    R : sparse matrix, shape (n, n)
        A graph Laplacian plus a ridge, as `Laplacian.matrix` returns it.
    B : ndarray, shape (n,) or (n, t)
        The right-hand sides.
    method : "auto", "gauss_seidel", "deflated", "amg", "cholesky" or "direct"
        How the system is solved: by conjugate gradients with a symmetric Gauss-Seidel
        preconditioner; with the lowest eigenvectors solved exactly; with multigrid; with an
        approximate Cholesky factor; or by an exact factor. "auto" takes the method that needs the least work.
    tol : float
        The relative residual, in float64, that each column is to meet.
    max_iter : int
        The number of iterations after which a column counts as not converged.
    vector : ndarray, shape (n,), or None
        The positive null vector of the Laplacian, `Laplacian.vector`. None is constant
        1, that of L; the one of L_norm is the square root of the degrees.
    random_state : int
        The seed of the vectors from which eigenvectors are sought.
    start : ndarray or None
        Where the iterations begin, in the shape of B, such as the solution of a system
        that hardly differs.

    Returns
    -------
    Solution
        The `value` in the shape of B, and of each column the relative residual in
        `residuals`, whether it `converged`, and its `iterations`.

    Raises
    ------
    DataError
        R is not symmetric and diagonally dominant, or has a row of zeros, as an isolated
        vertex without a ridge; or B is not finite.
    NotConverged
        A column ended above the tolerance. The message names it and says what helps.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from dssl import Laplacian, solve
    >>> path = sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> R = Laplacian(path, normalized=False).matrix(ridge=1.0)
    >>> solve(R, np.array([1.0, 0.0, 0.0])).value.round(4)
    array([0.625, 0.25 , 0.125])
    """
    params = SolverParams(method=method, tol=tol, max_iter=max_iter,
                          random_state=random_state)
    require(not hasattr(R, "matrix"), "R is a Laplacian, expected its matrix", why="the ridge is part of the system",
            fix="pass laplacian.matrix(ridge=1e-3)")
    right = _columns(B, "B")
    require(bool(np.isfinite(right).all()), "a right-hand side is not finite", error=DataError,
            why="its solution would not be either", fix="remove NaN and infinity from B")
    begin = None
    if start is not None:
        begin = _columns(start, "start")
        require(begin.shape == right.shape, f"start of shape {begin.shape}, expected {right.shape}",
                why="each column has its own start", fix="pass the previous solution in the shape of B")
        begin = begin.reshape(len(begin), -1)
    columns = right.reshape(len(right), -1)
    solution = solve_columns(R, columns, params, vector, begin)[0]
    if solution.converged.all():
        look_at_rounding(R, columns, vector, solution, tol)
    solution.require_converged(params)
    return replace(solution, value=solution.value[:, 0]) if right.ndim == 1 else solution


def _columns(values: ArrayLike, name: str) -> np.ndarray:
    """Return one column or several as float64, or refuse them."""
    array = np.asarray(values)
    require(array.dtype.kind in "biuf" and array.ndim in (1, 2), f"{name} of shape {array.shape} and dtype "
            f"{array.dtype}, expected real numbers of one or two dimensions", error=DataError,
            why="each column has one entry a vertex",
            fix="pass a dense array (n,) or (n, t); of complex numbers the real and the imaginary part")
    return array.astype(np.float64, copy=False)
