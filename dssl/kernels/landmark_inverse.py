"""The inverse of a graph regularizer at landmarks: `Q^+` restricted to S, for `Q = R^p`.

With `Z_a = R^-a E_S` (a chain of solves, one column a point of S), every power is a positive semi-definite product,
with half the solves of the proof in the paper:

    p = 2a:      (R^-p)_SS = Z_a' Z_a
    p = 2a - 1:  (R^-p)_SS = Z_a' R Z_a

Powers share their solves. Tasks solve blocks of columns, and then multiply blocks of rows of Z, whose products are
summed: Z (n x s) is written once and read once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy.sparse as sp

from ..base.digest import JsonObject
from ..base.errors import require
from ..execution.cost import Cost, block_count, cost_of, gram_seconds, solve_seconds
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..graph.spectral_concentration import concentration_bytes
from ..solvers.method import SolverMethod
from ..solvers.operators import ScaledMatrix, vector_of
from ..solvers.solve import Solver, prepare
from ..solvers.solver_params import SolverParams
from ..solvers.warm_start import extended_solution
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges, rows_that_fit
from ..storage.store import decoding_bytes, whole_bytes

Form = Literal["energy", "restriction"]
VECTOR_ARRAYS = ("A-order", "A-near_null", "A-scale")  # of a solver, from which its vector follows
ROW_CHUNK = 8192  # rows of Z in one chunk; a chunk is 4 MB at 64 columns


@dataclass(frozen=True)
class LandmarkInverse:
    """`(R^-p)_SS` (s, s) for each power, the landmarks (s,), and the evidence of the solves."""

    landmarks: np.ndarray
    powers: dict[int, np.ndarray]
    attributes: JsonObject = field(default_factory=dict)


def stored_factors(powers: Sequence[int]) -> list[str]:
    """Return the names of the n x s factors of some powers: "Z{a}", and "RZ{a}" for odd ones."""
    return sorted({name for p in powers for name in _factors(p)})


def _factors(power: int) -> tuple[str, str]:
    """Return the two factors whose product over rows is `(R^-power)_SS`."""
    a = (power + 1) // 2
    return (f"Z{a}", f"Z{a}") if power % 2 == 0 else (f"Z{a}", f"RZ{a}")


def n_solves(powers: Sequence[int], form: Form = "energy") -> int:
    """Return the number of solves of a column."""
    return max(powers) if form == "restriction" else (max(powers) + 1) // 2


@dataclass(frozen=True)
class SolvedColumns:
    """Columns of the form "energy" from before the graph grew; new vertices come last.

    factors : `stored_factors`, (m, s_0). vector : `vector` (m,), see `ScaledMatrix.vector`.
    """

    factors: dict[str, Rows]
    vector: Arrays

    @classmethod
    def of(cls, parts: Parts, powers: Sequence[int], solver: Mapping[str, np.ndarray],
           execution: Execution) -> "SolvedColumns":
        """Return the columns that `solve_columns` wrote to parts; solver : its `VECTOR_ARRAYS`."""
        return cls({name: parts.rows(name) for name in stored_factors(powers)},
                   execution.share(vector=vector_of(*(solver[name] for name in VECTOR_ARRAYS))))

    def start(self, step: int, columns: np.ndarray, A: ScaledMatrix) -> np.ndarray | None:
        """Return the start (n, b) of the solve number `step` of a chain; None if it is unknown.

        columns (b,) : numbers of the previous columns, -1 for a new column, which starts at 0. `R Z_a` is Z_(a - 1).
        """
        factor = self.factors.get(f"Z{step}", self.factors.get(f"RZ{step + 1}"))
        if factor is None:
            return None
        start = np.zeros((len(factor), len(columns)))
        known = np.flatnonzero(columns >= 0)
        known = known[np.argsort(columns[known])]
        for run in np.split(known, np.flatnonzero(np.diff(columns[known]) != 1) + 1):
            if len(run):
                start[:, run] = factor.read_columns(int(columns[run[0]]), int(columns[run[-1]]) + 1)
        return extended_solution(A, start, self.vector.load()["vector"])


@dataclass(frozen=True)
class ColumnsTask:
    """Solve the chain `Z_1 = R^-1 E, Z_2 = R^-1 Z_1, ...` for one block of columns of the landmarks."""

    solver: Arrays
    params: SolverParams
    landmarks: tuple[int, ...]  # the points of this block
    first: int  # column number of the first of them
    powers: tuple[int, ...]
    form: Form
    solved: SolvedColumns | None = None
    known: tuple[int, ...] = ()  # the numbers of the columns of this block among the previous columns

    def __call__(self, out: PartWriter) -> Receipt:
        solver = Solver.from_arrays(self.solver.load(), self.params)
        n = solver.A.n
        columns = np.array(self.landmarks)
        Z = np.zeros((n, len(columns)))
        Z[columns, np.arange(len(columns))] = 1
        wanted = _kept_factors(self.powers, self.form)
        factors: dict[str, np.ndarray] = {}
        residual = 0.0
        iterations = []
        for step in range(1, n_solves(self.powers, self.form) + 1):
            before = Z
            start = None if self.solved is None else self.solved.start(step, np.array(self.known), solver.A)
            solution = solver.solve(before, start).require_converged(self.params)
            del start
            Z = solution.value
            residual = max(residual, float(solution.residuals.max()))
            iterations.append(int(solution.iterations.max()))
            # All rows of A are kept; the rows of S are selected from the complete columns.
            factors |= {name: Z for name in (f"A{step}", f"Z{step}") if name in wanted}
            if f"RZ{step}" in wanted:
                factors[f"RZ{step}"] = solver.A.apply(Z)
        written = out.write(**factors) if self.form == "restriction" else out.write_columns(self.first, **factors)
        return {**written, "max_residual": residual, "iterations": iterations, "n_columns": len(columns)}


@dataclass(frozen=True)
class ProductTask:
    """Write the share of a range of rows of the factors in the product of every power."""

    factors: dict[str, Rows]
    powers: tuple[int, ...]
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        read = {name: factor.read(self.start, self.stop) for name, factor in self.factors.items()}
        pairs = {power: [read[name] for name in _factors(power)] for power in self.powers}
        return out.write(**{f"power{power}": left.T @ right for power, (left, right) in pairs.items()})


def column_width(n: int, powers: Sequence[int], block_columns: int, budget: int, solver_bytes: int,
                 started: bool = False) -> int:
    """Return how many columns a task solves within the budget beside the arrays of the solver.

    started : whether there are previous columns as a start.
    """
    per_column = n * (8 * (len(stored_factors(powers)) + 1 + started) + 60)
    return rows_that_fit(budget, per_column, block_columns, fixed_bytes=solver_bytes)


def product_rows(n: int, s: int, powers: Sequence[int], budget: int) -> int:
    """Return how many rows of the factors a task multiplies: whole chunks if they fit.

    There are at most 8 tasks where memory allows it.
    """
    height = rows_that_fit(budget, 8 * s * len(stored_factors(powers)), n, fixed_bytes=8 * s * s * len(powers))
    if height < min(ROW_CHUNK, n):
        return height
    return min(n, height // ROW_CHUNK * ROW_CHUNK or ROW_CHUNK, max(ROW_CHUNK, -(-n // 8 // ROW_CHUNK) * ROW_CHUNK))


def solve_columns(solver: Arrays, params: SolverParams, n: int, landmarks: np.ndarray, powers: Sequence[int],
                  execution: Execution, parts: Parts, *, form: Form = "energy", solved: SolvedColumns | None = None,
                  solved_landmarks: np.ndarray | None = None) -> list[Receipt]:
    """Solve all columns of the landmarks into `parts`, a block of columns a task; return the receipts.

    solved, solved_landmarks : columns from before the graph grew, and their points (s_0,), as a start.

    Memory of a task: the arrays of the solver, and `n (8 (k + 1) + 60) b` bytes for b columns and k factors.
    """
    names = stored_factors(powers)
    width = column_width(n, powers, params.block_columns, execution.memory_budget, solver.nbytes, solved is not None)
    ranges = row_ranges(len(landmarks), width)
    if form == "energy":
        for name in names:
            parts.allocate(name, (n, len(landmarks)), np.float64, min(ROW_CHUNK, n), width)
    known = np.empty(0, np.int64) if solved_landmarks is None else indices_in(landmarks, solved_landmarks)
    tasks = [ColumnsTask(solver, params, tuple(landmarks[start:stop].tolist()), start, tuple(powers), form, solved,
                         tuple(known[start:stop].tolist()))
             for start, stop in ranges]
    return execution.map(tasks, parts)


def indices_in(numbers: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the index of each of some distinct numbers among known distinct numbers, -1 if it is not known."""
    order = np.argsort(known)
    index = np.minimum(np.searchsorted(known[order], numbers), len(known) - 1)
    return np.where(known[order][index] == numbers, order[index], -1)


def multiply_factors(columns: Parts, n: int, landmarks: np.ndarray, powers: Sequence[int], execution: Execution,
                     parts: Parts, *, form: Form = "energy", n_blocks: int = 0) -> dict[int, np.ndarray]:
    """Return `(R^-p)_SS` (s, s) for each power from solved columns, with a range of rows a task.

    Memory of a task: `8 k s` bytes a row for k factors, and `8 s^2` a power.
    """
    s = len(landmarks)
    if form == "restriction":
        blocks = [columns.read(i) for i in range(n_blocks)]
        products = {p: np.hstack([block[f"A{p}"][landmarks] for block in blocks]) for p in powers}
    else:
        names = stored_factors(powers)
        height = product_rows(n, s, powers, execution.memory_budget)
        factors = {name: columns.rows(name) for name in names}
        tasks = [ProductTask(factors, tuple(powers), start, stop) for start, stop in row_ranges(n, height)]
        execution.map(tasks, parts)
        # Summed in the order of the rows, so that the bits do not depend on the schedule.
        products = {p: sum((parts.read(i)[f"power{p}"] for i in range(1, len(tasks))), parts.read(0)[f"power{p}"])
                 for p in powers}
    return {p: (A + A.T) / 2 for p, A in products.items()}


def check_landmarks(landmarks: np.ndarray, n: int, powers: Sequence[int]) -> np.ndarray:
    """Return the landmarks as int64 after checking them and the powers."""
    landmarks = np.asarray(landmarks)
    require(landmarks.ndim == 1 and landmarks.dtype.kind in "iu" and len(landmarks) > 0,
            f"the landmarks have shape {landmarks.shape} and dtype {landmarks.dtype}, expected (s,) integers",
            why="they are row numbers of points", fix="pass an array of ids")
    require(landmarks.min() >= 0 and landmarks.max() < n, f"landmark ids span {landmarks.min()} to {landmarks.max()}",
            why=f"the graph has {n} vertices", fix="number the points from 0 in the order of the rows")
    require(len(np.unique(landmarks)) == len(landmarks), "the landmarks name a point twice",
            why="its columns would be equal and the kernel singular", fix="pass distinct ids")
    require(len(powers) > 0 and all(isinstance(p, (int, np.integer)) and 1 <= p <= 64 for p in powers),
            f"powers={list(powers)}, expected integers from 1 to 64",
            why="Q = R^p is formed by p solves of R", fix="use 1, 2 or 3; 2 is usual")
    return landmarks.astype(np.int64)


def inverse_at_landmarks(R: sp.csr_matrix, landmarks: np.ndarray, powers: Sequence[int] = (1,), *,
                         params: SolverParams | None = None, vector: np.ndarray | None = None, form: Form = "energy",
                         execution: Execution | None = None) -> LandmarkInverse:
    """Return `(R^-p)_SS` for each power p, the covariance that the graph puts on the landmarks.

    R : sparse matrix, shape (n, n); `L + ridge I` or `L_norm + ridge I` (then `vector` is the root of the degrees).
        With ridge 0 the pseudo-inverse.
    landmarks : array of s distinct vertex numbers.
    form : "energy", positive semi-definite, with an error of at most twice the tolerance of the solver times the root
        of `Q^+_ii Q^+_jj` for p = 1 (Theorem 4.2); or "restriction", the rows S of the solutions, with half that error,
        p solves a column and no factor of size n x s.

    References
    ----------
    Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS 2012, Theorems 4.2 and 4.4.
    """
    execution = execution or InProcess()
    params = params or SolverParams()
    landmarks = check_landmarks(landmarks, R.shape[0], powers)
    powers = tuple(sorted({int(p) for p in powers}))
    solver = prepare(R, len(landmarks) * n_solves(powers), params, vector)
    columns = execution.scratch()
    stored = execution.share(**solver.to_arrays())
    receipts = solve_columns(stored, solver.params, R.shape[0], landmarks, powers, execution, columns, form=form)
    products = multiply_factors(columns, R.shape[0], landmarks, powers, execution, execution.scratch(), form=form,
                             n_blocks=len(receipts))
    return LandmarkInverse(landmarks, products, solve_evidence(receipts, solver.attributes))


def solve_evidence(receipts: Sequence[Receipt], attributes: JsonObject) -> JsonObject:
    """Return the evidence of the solves: method, worst residual, iterations; JSON."""
    return {"solver": attributes, "max_residual": max(receipt["max_residual"] for receipt in receipts),
            "max_iterations": max(max(receipt["iterations"]) for receipt in receipts),
            "columns": sum(receipt["n_columns"] for receipt in receipts)}


def _kept_factors(powers: Sequence[int], form: Form) -> list[str]:
    return [f"A{p}" for p in powers] if form == "restriction" else stored_factors(powers)


def columns_cost(n: int, nnz: int, s: int, powers: Sequence[int], block_columns: int, form: Form,
                 method: type[SolverMethod], stored: int, budget: int, *, guess: bool, started: bool = False) -> Cost:
    """Return the cost of solving the columns of s points, with a solver whose arrays are `stored` bytes.

    started : whether there are previous columns as a start.
    """
    names = _kept_factors(powers, form)
    steps = n_solves(powers, form)
    solve_bytes = method.solve_bytes
    # During the last step the factors of earlier steps are held; one of them is the right-hand sides.
    earlier = {name for name in names if int(name.lstrip("RZA")) < steps}
    kept = len(earlier - {f"Z{steps - 1}", f"A{steps - 1}"}) + (steps > 1) + started
    width = column_width(n, powers, block_columns, budget, stored, started)
    held = stored + method.opened_bytes(n, nnz, guess=guess)
    # The first right-hand sides are nearly all zeros, which the system does not store.
    return cost_of(block_count(s, width), stored + 8 * n * s * steps * started, 8 * n * s * len(names),
                   held + solve_bytes(n, width, width) + 8 * n * width * kept, held + solve_bytes(n, 1, 1),
                   solve_seconds(nnz, s * steps), _chunks(n, s, width, len(names)))


def product_cost(n: int, nnz: int, s: int, powers: Sequence[int], block_columns: int, form: Form, budget: int) -> Cost:
    """Return the cost of multiplying the factors of s points.

    A task holds a range of rows, decoded a chunk at a time, and their product; the driver a few products, or the arrays
    for the spectral concentration of the graph.
    """
    square = 8 * s * s
    factors = len(_kept_factors(powers, form))
    product = square * len(powers)
    driver = max(2 * product + 2 * square + whole_bytes(square), 2 * product + concentration_bytes(n, nnz))
    if form == "restriction":
        whole = 8 * n * s * factors
        return cost_of(0, whole, product, whole + driver, whole, gram_seconds(n, s) * len(powers))
    height = product_rows(n, s, powers, budget)
    rows = 8 * s * height * factors
    chunk = 8 * min(ROW_CHUNK, n) * min(block_columns, s)
    peak = max(rows + decoding_bytes(chunk), rows + product + square // 2, driver)
    tasks = block_count(n, height)
    return cost_of(tasks, 8 * n * s * factors, (tasks + 1) * product, peak, 8 * s * factors + product,
                   gram_seconds(n, s) * len(powers), _chunks(n, s, min(block_columns, s), factors))


def _chunks(n: int, s: int, width: int, factors: int) -> int:
    """Return the number of chunks of the factors of s points, in blocks of so many columns."""
    return factors * block_count(n, ROW_CHUNK) * block_count(s, width)
