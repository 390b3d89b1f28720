"""Functions of a graph's Laplacian on the columns of a few vertices: `(L + r I)^-p e_j` for many r and p at once.

The Lanczos process computes all ridges and powers at the cost of one (`solvers/krylov.py`). Small graphs, and ridges
that are too small for the process to converge in `max_steps`, use solvers instead (`solved_functions.py`). So does a
combination that polynomials round too much, as with very many columns.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..base.digest import JsonObject
from ..execution.cost import Cost, block_count, cost_of, solve_seconds
from ..execution.tasks import Execution
from ..solvers.block_tridiagonal import BlockTridiagonal, Functions
from ..solvers.chebyshev import chebyshev_coefficients, chebyshev_sum, largest_eigenvalue_bound, rounding
from ..solvers.krylov import krylov, krylov_bytes, null_part
from ..solvers.lanczos import SingularMatrix
from ..solvers.method import MAX_DIRECT
from ..solvers.solve import possible_solvers
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from .graph import Graph
from .regularizer import FORMED_SECONDS, LaplacianKind, laplacian_of, solve_cost, system_cost
from .solved_functions import FunctionParams, Solves

MAX_BY_SOLVERS = 2_000  # vertices, up to which the system of each ridge is solved
# Measured on one core: a vertex and column of all ridges and powers by solvers, and a column by the Lanczos process.
SOLVED_SECONDS, COLUMN_SECONDS = 4e-6, 0.012
EXACT = 0.1  # share of the tolerance of functions that a sum of polynomials may differ from theirs at the rows
ROUNDED = 1e-14  # of what lies in the null space
FIRST_BLOCKS = 2  # blocks of columns that are computed before the others, to see which functions converge


@dataclass(frozen=True)
class GraphFunctions:
    """m functions of the Laplacian of v vertices, on t columns.

    values (m, r, t) : at some vertices. combined : maps coef (m, t, c) to the sum over functions and columns of
        `f(L) e_j coef[f, j]`, (v, c); it may raise NotConverged. A : the Laplacian; degrees (v,) : of its vertices.
        attributes : the method and its evidence; JSON.
    """

    values: np.ndarray
    combined: Callable[[np.ndarray], np.ndarray]
    A: SingularMatrix
    degrees: np.ndarray
    attributes: JsonObject


def graph_functions(graph: Graph, columns: np.ndarray, rows: np.ndarray, functions: Functions, params: FunctionParams,
                    execution: Execution, by_solvers: bool | None = None) -> GraphFunctions:
    """Return functions of the Laplacian of a graph on some columns (t,), distinct vertices, at rows (r,), vertices too.

    Both in the coordinates of the Laplacian: where vertices are several points, see `Laplacian.multiplicity`.
    by_solvers : whether systems are solved; by default of graphs of up to `MAX_BY_SOLVERS` vertices.

    Raises NotConverged if a solver is used and ends above its tolerance.
    """
    columns, rows = np.asarray(columns, np.int64), np.asarray(rows, np.int64)
    if len(graph.vertices) <= MAX_BY_SOLVERS if by_solvers is None else by_solvers:
        return _by_solves(graph, columns, rows, functions, params, execution)
    return _by_krylov(graph, columns, rows, functions, params, execution)


@dataclass(frozen=True)
class SingularTask:
    """Write the Laplacian in the form of the Lanczos process, and `degrees` (v,); three matrices, 70 bytes an entry."""

    graph: Parts
    vertices: Arrays | None
    kind: LaplacianKind

    def __call__(self, out: PartWriter) -> Receipt:
        laplacian = laplacian_of(self.graph, self.vertices, self.kind)
        A = SingularMatrix.of(laplacian.matrix(), laplacian.vector)
        return out.write(**A.to_arrays(), degrees=laplacian.degrees)


@dataclass(frozen=True)
class KrylovTask:
    """Write the Lanczos process on some columns; see `krylov` for its memory beside the matrix."""

    matrix: Arrays
    vertices: Arrays  # `columns` (t,) and `rows` (r,)
    first: int
    last: int
    functions: Functions
    params: FunctionParams

    def __call__(self, out: PartWriter) -> Receipt:
        A, shared = SingularMatrix.from_arrays(self.matrix.load()), self.vertices.load()
        columns = A.place[shared["columns"][self.first:self.last]]
        of_columns = krylov(A, columns, A.place[shared["rows"]], self.functions,
                       self.params.tol, self.params.max_steps)
        return {**out.write(**of_columns.to_arrays()), "steps": of_columns.steps}


@dataclass(frozen=True)
class PolynomialTask:
    """Write `polynomial` (k, t, c), the combination of functions of some columns in Chebyshev polynomials."""

    T: Arrays
    functions: Functions
    high: float
    coef: Arrays
    first: int
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        T, coef = BlockTridiagonal(**self.T.load()), self.coef.load()["coef"][:, self.first:self.last]
        return out.write(polynomial=chebyshev_coefficients(T, T.combined(self.functions, coef), self.high))


@dataclass(frozen=True)
class CombinePolynomialTask:
    """Write `total` (v, c), some columns of the combination; `columns` and `polynomial` are in `shared`."""

    matrix: Arrays
    shared: Arrays
    high: float
    first: int
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        A, shared = SingularMatrix.from_arrays(self.matrix.load()), self.shared.load()
        sums = chebyshev_sum(A, A.place[shared["columns"]], shared["polynomial"][:, :, self.first:self.last], self.high)
        return out.write(total=A.leave(sums))


def _even_ranges(count: int, max_length: int, min_ranges: int = 1) -> list[tuple[int, int]]:
    """Return ranges of nearly equal length, each of at most `max_length` items; at least `min_ranges`."""
    return row_ranges(count, -(-count // max(-(-count // max_length), min(min_ranges, count))))


def functions_cost(n: int, nnz: int, t: int, r: int, m: int, c: int, params: FunctionParams, n_ridges: int,
                   max_power: int, *, guess: bool, again: bool = False) -> Cost:
    """Return the cost of m functions of some ridges on t columns at r rows, and of c combinations of them.

    again : whether the functions are there, and only further combinations are computed.

    The Lanczos process takes its matrix, then `krylov_bytes` for a block of columns; a combination by polynomials takes
    five arrays (n, c), and one by solvers `solve_cost` and an array for each ridge. Systems of small
    graphs are solved, as are those of functions for which the process does not converge; up to `MAX_DIRECT` vertices an
    exact factor may be taken.
    """
    block, stored, solvers = min(t, params.block_columns), 36 * n + 8 * nnz, possible_solvers(n, guess=guess)
    prepared = system_cost(n, nnz, max_power * t, solvers, guess=guess)
    opened = max(solver.opened_bytes(n, nnz, guess=guess) for solver in solvers)
    solved = prepared.peak + opened + 8 * (m * r + 9 * n) * block
    if n <= MAX_BY_SOLVERS:
        peak, blocks = solved, block_count(t, block)
        if again:
            return cost_of(n_ridges, n_ridges * prepared.written, 0, peak, prepared.smallest_peak,
                           SOLVED_SECONDS * n * c)
        read = 12 * nnz + n_ridges * (prepared.read + (1 + blocks) * prepared.written)
        return cost_of(1 + n_ridges * (2 + blocks), read, stored + n_ridges * prepared.written, peak,
                       prepared.smallest_peak, SOLVED_SECONDS * n * (t + c))
    first = stored + krylov_bytes(n, r, block, m, params.max_steps, max_power)
    polynomial = stored + 8 * nnz + (8 * params.max_steps * t + 40 * n + 8 * m * t) * c
    by_solvers = solve_cost(n, nnz, c, guess=guess, prepared_for=max_power * t).peak + 8 * n_ridges * n * c
    tasks = len(_even_ranges(t, block, FIRST_BLOCKS))
    peak = max(70 * nnz + 60 * n, first, polynomial, by_solvers, solved if n <= MAX_DIRECT else 0)
    if again:
        return cost_of(tasks + FIRST_BLOCKS, tasks * stored, 0, peak, 70 * nnz, solve_seconds(nnz, c * m))
    return cost_of(1 + 2 * tasks + FIRST_BLOCKS, 12 * nnz + 2 * tasks * stored, stored + 8 * m * r * t, peak, 70 * nnz,
                   solve_seconds(nnz, t + c * m) + FORMED_SECONDS * nnz + COLUMN_SECONDS * t)


def _singular_matrix(graph: Graph, params: FunctionParams, execution: Execution) -> Arrays:
    """Return what `SingularTask` writes."""
    prepared = execution.scratch()
    execution.map([SingularTask(graph.stored, graph.shared_vertices(execution), params.laplacian)], prepared)
    return prepared.arrays(0)


def _by_krylov(graph: Graph, columns: np.ndarray, rows: np.ndarray, functions: Functions, params: FunctionParams,
               execution: Execution) -> GraphFunctions:
    """Return the functions by the Lanczos process, or by solvers if they do not converge.

    Functions that do not converge on the first `FIRST_BLOCKS` blocks of columns are not tried on the others.
    """
    matrix, parts = _singular_matrix(graph, params, execution), execution.scratch()
    high = execution.concurrently(lambda: largest_eigenvalue_bound(SingularMatrix.from_arrays(matrix.load()),
                                                                   params.random_state))
    vertices = execution.share(columns=columns, rows=rows)
    ranges = _even_ranges(len(columns), params.block_columns, FIRST_BLOCKS)
    converged = np.arange(len(functions))
    tried: list[np.ndarray] = []  # the functions of each block
    while len(tried) < len(ranges):
        tried += [converged] * (len(ranges) - FIRST_BLOCKS if tried else min(FIRST_BLOCKS, len(ranges)))
        receipts = execution.map([KrylovTask(matrix, vertices, *span, functions.take(of_block), params)
                                  for span, of_block in zip(ranges, tried, strict=False)], parts)
        flags = [np.all(parts.read(index, ["converged"])["converged"], axis=1) for index in range(len(tried))]
        converged = np.array([function for function in converged if all(
            flag[list(of_block).index(function)] for flag, of_block in zip(flags, tried, strict=True))], np.int64)
    others = np.setdiff1d(np.arange(len(functions)), converged)
    values = np.empty((len(functions), len(rows), len(columns)))
    T = []
    for index, ((first, last), of_block) in enumerate(zip(ranges, tried, strict=True)):
        part = parts.read(index, ["alpha", "beta", "values"])
        for function in converged:
            values[function, :, first:last] = part["values"][list(of_block).index(function)]
        T.append(execution.share(alpha=part["alpha"], beta=part["beta"]))
    parts.remove()  # the values, of which one copy is enough
    n_steps = max(receipt["steps"] for receipt in receipts)
    attributes = {"method": "lanczos", "steps": n_steps, "tol": params.tol}
    solved = None
    if len(others):
        solved = Solves.prepared(graph, columns, rows, functions.take(others), params, execution)
        values[others], iterations = solved.values()
        attributes["solved"] = {**solved.attributes, "iterations": iterations, "functions": len(others)}
    arrays = matrix.load()
    A = SingularMatrix.from_arrays(arrays)
    combined = Combinations(graph, columns, rows, functions, params, execution, values, converged, solved, matrix, A, T,
                            ranges, n_steps, high)
    return GraphFunctions(values, combined, A, arrays["degrees"], attributes)


@dataclass(frozen=True, eq=False)
class Combinations:
    """Combinations of functions of which the Lanczos process, or solvers, have computed the `values` at the rows.

    converged : the functions by the process, whose matrix A, `matrix` for tasks, and T by block of columns in `ranges`
    are kept; n_steps : of the longest T. high : returns an upper bound of the eigenvalues, which is computed meanwhile
    where other processes run tasks. solved : the solvers of the others, None where there are none.
    """

    graph: Graph
    columns: np.ndarray
    rows: np.ndarray
    functions: Functions
    params: FunctionParams
    execution: Execution
    values: np.ndarray
    converged: np.ndarray
    solved: Solves | None
    matrix: Arrays
    A: SingularMatrix
    T: Sequence[Arrays]
    ranges: Sequence[tuple[int, int]]
    n_steps: int
    high: Callable[[], float]

    def __call__(self, coef: np.ndarray) -> np.ndarray:
        """Return the combination (v, c) for coef (m, t, c), by solvers where polynomials round too much."""
        filled = np.flatnonzero(coef.any(axis=(0, 1)))
        whole = np.zeros((len(self.graph.vertices), coef.shape[2]))
        if len(filled):
            coef = coef[:, :, filled]
            total = self.by_polynomials(coef[self.converged])
            if total is None:
                total = self.solves.combined(coef)
            elif self.solved is not None:
                total += self.solved.combined(np.delete(coef, self.converged, axis=0))
            whole[:, filled] = total
        return whole

    @cached_property
    def solves(self) -> Solves:
        """The solvers of all functions."""
        return Solves.prepared(self.graph, self.columns, self.rows, self.functions, self.params, self.execution)

    def by_polynomials(self, coef: np.ndarray) -> np.ndarray | None:
        """Return the combination of the functions that have converged; None where it is too inaccurate at the rows.

        What the first blocks of columns round is known before the others are computed.
        """
        A, execution = self.A, self.execution
        functions = self.functions.take(self.converged)
        null = A.leave(null_part(A, A.place[self.columns], functions, coef))
        at_rows = -null[self.rows]
        for function, of_function in zip(self.converged, coef, strict=True):
            at_rows += self.values[function] @ of_function
        allowed = EXACT * self.params.tol * np.abs(at_rows).max(axis=0, initial=0.0)
        allowed += ROUNDED * np.abs(null[self.rows]).max(axis=0, initial=0.0)
        shared_coef, of_blocks, high = execution.share(coef=coef), execution.scratch(), self.high()
        tasks = [PolynomialTask(T, functions, high, shared_coef, *span)
                 for T, span in zip(self.T, self.ranges, strict=True)]
        polynomial = np.zeros((self.n_steps, *coef.shape[1:]))
        for first_tasks in (tasks[:FIRST_BLOCKS], tasks):
            execution.map(first_tasks, of_blocks)
            for index, task in enumerate(first_tasks):
                block = of_blocks.read(index)["polynomial"]
                polynomial[:len(block), task.first:task.last] = block
            if not (rounding(polynomial) <= allowed).all():
                return None
        shared, results = execution.share(columns=self.columns, polynomial=polynomial), execution.scratch()
        blocks = _even_ranges(coef.shape[2], self.params.block_columns, FIRST_BLOCKS)
        execution.map([CombinePolynomialTask(self.matrix, shared, high, *block) for block in blocks], results)
        total = np.concatenate([results.read(index)["total"] for index in range(len(blocks))], axis=1)
        is_accurate = (np.abs(total[self.rows] - at_rows).max(axis=0, initial=0.0) <= allowed).all()
        return total + null if is_accurate else None


def _by_solves(graph: Graph, columns: np.ndarray, rows: np.ndarray, functions: Functions, params: FunctionParams,
               execution: Execution) -> GraphFunctions:
    """Return the functions by a solver of each ridge."""
    solves = Solves.prepared(graph, columns, rows, functions, params, execution)
    values, iterations = solves.values()
    arrays = _singular_matrix(graph, params, execution).load()
    return GraphFunctions(values, solves.combined, SingularMatrix.from_arrays(arrays), arrays["degrees"],
                          {**solves.attributes, "iterations": iterations})
