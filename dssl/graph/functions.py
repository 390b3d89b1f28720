"""Functions of a graph's Laplacian on the columns of a few vertices: `(L + r I)^-p e_j` for many r and p at once.

The Lanczos process computes all ridges and powers at the cost of one (`solvers/krylov.py`). Small graphs, and ridges
that are too small for the process to converge in `max_steps`, use the solvers of `solvers/solve.py` instead: one system
a ridge, and p solves a column. With 3,000 points of six columns factors take three to five times as long as the
process, with 1,800 images of digits about as long.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import require
from ..execution.cost import Cost, block_count, cost_of, solve_seconds
from ..execution.tasks import Execution, sums
from ..solvers.block_tridiagonal import BlockTridiagonal, Functions
from ..solvers.chebyshev import chebyshev_coefficients, chebyshev_sum, largest_eigenvalue_bound, rounding
from ..solvers.krylov import krylov, krylov_bytes, null_part
from ..solvers.lanczos import SingularMatrix
from ..solvers.method import MAX_DIRECT, Direct
from ..solvers.solve import Solver, prepare
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from .graph import Graph
from .laplacian import Laplacian
from .regularizer import FORMED_SECONDS, LaplacianKind, require_laplacian, solve_cost, system_cost
from .weights.build import read_graph

MAX_FACTORED = 2_000  # vertices, up to which the matrix of each ridge is factored
# Measured on one core: a vertex and column of all ridges and powers by factors, and a column by the Lanczos process.
FACTORED_SECONDS, COLUMN_SECONDS = 4e-6, 0.012
EXACT = 0.1  # share of the tolerance of functions that a sum of polynomials may differ from theirs at the rows
FIRST_BLOCKS = 2  # blocks of columns that are computed before the others, to see which functions converge


@dataclass(frozen=True, kw_only=True)
class FunctionParams:
    """Parameters of functions of the Laplacian.

    laplacian : "normalized" or "unnormalized".
    tol : largest error of an entry (i, j) of an inverse off the null space, relative to the root of the entries (i, i)
        and (j, j).
    max_steps : of the Lanczos process; functions that have not converged then are computed by solvers.
    block_columns : columns computed side by side.
    """

    laplacian: LaplacianKind = "normalized"
    tol: float = 0.1
    max_steps: int = 243
    block_columns: int = 64
    random_state: int = 0

    def __post_init__(self) -> None:
        require_laplacian(self.laplacian)
        require(1e-12 <= self.tol < 1, f"tol={self.tol!r}, expected 1e-12 <= tolerance < 1",
                why="it is relative to the diagonal", fix="use 0.1, which leaves errors far below it, or 1e-3 for more")
        require(self.block_columns >= 1, f"block_columns={self.block_columns}, expected >= 1",
                why="columns are computed in blocks", fix="leave it at 64")


@dataclass(frozen=True)
class GraphFunctions:
    """m functions of the Laplacian of v vertices, on t columns.

    values (m, r, t) : at some vertices. combined : maps coef (m, t, c) to the sum over functions and columns of
        `f(L) e_j coef[f, j]`, (v, c). attributes : the method and its evidence; JSON.
    """

    values: np.ndarray
    combined: Callable[[np.ndarray], np.ndarray]
    attributes: JsonObject = field(default_factory=dict)


def graph_functions(graph: Graph, columns: np.ndarray, rows: np.ndarray, functions: Functions, params: FunctionParams,
                    execution: Execution, factored: bool | None = None) -> GraphFunctions:
    """Return functions of the Laplacian of a graph on some columns (t,), distinct vertices, at rows (r,), vertices too.

    Both in the coordinates of the Laplacian: where vertices are several points, see `Laplacian.multiplicity`.
    factored : whether the matrix is; by default where it has up to `MAX_FACTORED` vertices.

    Raises NotConverged if a solver is used and ends above its tolerance.
    """
    columns, rows = np.asarray(columns, np.int64), np.asarray(rows, np.int64)
    if len(graph.vertices) <= MAX_FACTORED if factored is None else factored:
        return _by_solves(graph, columns, rows, functions, params, execution)
    return _by_krylov(graph, columns, rows, functions, params, execution)


def laplacian_of(graph: Parts, vertices: Arrays | None, kind: LaplacianKind) -> Laplacian:
    """Return the Laplacian of a stored graph; vertices : as `Graph.shared_vertices` returns them."""
    return Laplacian(read_graph(graph), kind == "normalized",
                     None if vertices is None else vertices.load()["multiplicity"])


@dataclass(frozen=True)
class SingularTask:
    """Write the Laplacian in the form of the Lanczos process; the matrix three times, 70 bytes an entry."""

    graph: Parts
    vertices: Arrays | None
    kind: LaplacianKind

    def __call__(self, out: PartWriter) -> Receipt:
        laplacian = laplacian_of(self.graph, self.vertices, self.kind)
        return out.write(**SingularMatrix.of(laplacian.matrix(), laplacian.vector).to_arrays())


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
    five arrays (n, c), and one by solvers `solve_cost`. Small graphs are factored; up to `MAX_DIRECT` vertices so are
    functions for which the process does not converge.
    """
    block, stored = min(t, params.block_columns), 28 * n + 8 * nnz
    prepared = system_cost(n, nnz, t, [Direct], guess=guess)
    factored = prepared.peak + Direct.opened_bytes(n, nnz, guess=guess) + 8 * (m * r + 9 * n) * block
    if n <= MAX_FACTORED:
        peak, blocks = factored, block_count(t, block)
        if again:
            return cost_of(n_ridges, n_ridges * prepared.written, 0, peak, prepared.smallest_peak,
                           FACTORED_SECONDS * n * c)
        return cost_of(n_ridges * (2 + blocks), n_ridges * (prepared.read + (1 + blocks) * prepared.written),
                       n_ridges * prepared.written, peak, prepared.smallest_peak, FACTORED_SECONDS * n * (t + c))
    first = stored + krylov_bytes(n, r, block, m, params.max_steps, max_power)
    polynomial = stored + 8 * nnz + (8 * params.max_steps * t + 40 * n + 8 * m * t) * c
    combining = max(polynomial, solve_cost(n, nnz, c, guess=guess).peak)
    tasks = len(_even_ranges(t, block, FIRST_BLOCKS))
    peak = max(70 * nnz + 60 * n, first, combining, factored if n <= MAX_DIRECT else 0)
    if again:
        return cost_of(tasks + FIRST_BLOCKS, tasks * stored, 0, peak, 70 * nnz, solve_seconds(nnz, c * m))
    return cost_of(1 + 2 * tasks + FIRST_BLOCKS, 12 * nnz + 2 * tasks * stored, stored + 8 * m * r * t, peak, 70 * nnz,
                   solve_seconds(nnz, t + c * m) + FORMED_SECONDS * nnz + COLUMN_SECONDS * t)


def _by_krylov(graph: Graph, columns: np.ndarray, rows: np.ndarray, functions: Functions, params: FunctionParams,
               execution: Execution) -> GraphFunctions:
    """Return the functions by the Lanczos process, or by solvers if they do not converge.

    Functions that do not converge on the first `FIRST_BLOCKS` blocks of columns are not tried on the others.
    """
    prepared, parts = execution.scratch(), execution.scratch()
    execution.map([SingularTask(graph.stored, graph.shared_vertices(execution), params.laplacian)], prepared)
    matrix, vertices = prepared.arrays(0), execution.share(columns=columns, rows=rows)
    ranges = _even_ranges(len(columns), params.block_columns, FIRST_BLOCKS)
    converged, tried = np.arange(len(functions)), list[np.ndarray]()
    while len(tried) < len(ranges):
        tried += [converged] * (len(ranges) - FIRST_BLOCKS if tried else min(FIRST_BLOCKS, len(ranges)))
        receipts = execution.map([KrylovTask(matrix, vertices, *span, functions.take(known), params)
                                  for span, known in zip(ranges, tried, strict=False)], parts)
        flags = [np.all(parts.read(index, ["converged"])["converged"], axis=1) for index in range(len(tried))]
        converged = np.array([function for function in converged if all(
            of_block[list(known).index(function)] for of_block, known in zip(flags, tried, strict=True))], np.int64)
    others = np.setdiff1d(np.arange(len(functions)), converged)
    values, matrices = np.empty((len(functions), len(rows), len(columns))), list[Arrays]()
    for index, ((first, last), known) in enumerate(zip(ranges, tried, strict=True)):
        item = parts.read(index, ["alpha", "beta", "values"])
        for function in converged:
            values[function, :, first:last] = item["values"][list(known).index(function)]
        matrices.append(execution.share(alpha=item["alpha"], beta=item["beta"]))
    parts.remove()  # the values, of which one copy is enough
    solved = _by_solves(graph, columns, rows, functions.take(others), params, execution) if len(others) else None
    if solved is not None:
        values[others] = solved.values
    used, A = functions.take(converged), SingularMatrix.from_arrays(matrix.load())
    n_steps = max(receipt["steps"] for receipt in receipts)
    places, high = A.place[columns], largest_eigenvalue_bound(A, params.random_state)

    @cache
    def solves(c: int) -> Solves:
        return Solves.prepared(graph, columns, rows, functions, params, execution, n_columns=max(functions.power) * c)

    def by_polynomials(coef: np.ndarray) -> np.ndarray | None:
        """Return the combination of the functions that have converged; None where rounding makes it too inaccurate.

        What the first blocks of columns round is known before the others are computed.
        """
        null = A.leave(null_part(A, places, used, coef))
        at_rows = -null[rows]
        for function, of_function in zip(converged, coef, strict=True):
            at_rows += values[function] @ of_function
        allowed = EXACT * params.tol * np.abs(at_rows).max(axis=0)
        shared, of_blocks, results = execution.share(coef=coef), execution.scratch(), execution.scratch()
        polynomial = np.zeros((n_steps, *coef.shape[1:]))
        tasks = [PolynomialTask(T, used, high, shared, *span) for T, span in zip(matrices, ranges, strict=True)]
        for some in (tasks[:FIRST_BLOCKS], tasks):
            execution.map(some, of_blocks)
            for index, task in enumerate(some):
                block = of_blocks.read(index)["polynomial"]
                polynomial[:len(block), task.first:task.last] = block
            if not (rounding(polynomial) <= allowed).all():
                return None
        shared, blocks = execution.share(columns=columns, polynomial=polynomial), _even_ranges(
            coef.shape[2], params.block_columns, FIRST_BLOCKS)
        execution.map([CombinePolynomialTask(matrix, shared, high, *block) for block in blocks], results)
        total = np.concatenate([results.read(index)["total"] for index in range(len(blocks))], axis=1)
        is_accurate = (np.abs(total[rows] - at_rows).max(axis=0) <= allowed).all()
        return total + null if is_accurate else None

    def combine(coef: np.ndarray) -> np.ndarray:
        """Return the combination, by polynomials, or by solvers where these round too much."""
        whole = np.zeros((len(graph.vertices), coef.shape[2]))
        filled = np.flatnonzero(coef[converged].any(axis=(0, 1)))
        if len(filled):
            total = by_polynomials(coef[converged][:, :, filled])
            if total is None:
                return solves(coef.shape[2]).combined(coef)
            whole[:, filled] = total
        return whole if solved is None else whole + solved.combined(coef[others])

    return GraphFunctions(values, combine, {
        "method": "lanczos", "steps": n_steps, "tol": params.tol,
        **({} if solved is None else {"solved": solved.attributes | {"functions": len(others)}})})


@dataclass(frozen=True)
class SystemTask:
    """Write the solver of L + ridge I for `n_columns` columns."""

    graph: Parts
    vertices: Arrays | None
    kind: LaplacianKind
    ridge: float
    n_columns: int
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        laplacian = laplacian_of(self.graph, self.vertices, self.kind)
        solver = prepare(laplacian.matrix(self.ridge), self.n_columns, self.solver, laplacian.vector)
        return {**out.write(**solver.to_arrays()), "method": solver.params.method}


@dataclass(frozen=True)
class PowersTask:
    """Write `values` (p, r, t): the powers 1 to p of the inverse on some columns, at the rows."""

    solver: Arrays
    params: SolverParams
    vertices: Arrays  # `columns` (t,) and `rows` (r,)
    first: int
    last: int
    power: int

    def __call__(self, out: PartWriter) -> Receipt:
        solver, shared = Solver.from_arrays(self.solver.load(), self.params), self.vertices.load()
        columns = shared["columns"][self.first:self.last]
        Z = np.zeros((solver.A.n, len(columns)))
        Z[columns, np.arange(len(columns))] = 1
        values, iterations = [], 0
        for _ in range(self.power):
            solution = solver.solve(Z).require_converged(self.params)
            Z, iterations = solution.value, max(iterations, int(solution.iterations.max()))
            values.append(Z[shared["rows"]])
        return {**out.write(values=np.array(values)), "iterations": iterations}


@dataclass(frozen=True)
class CombinePowersTask:
    """Write `total` (v, c): the sum over the powers 1 to p of the inverse times the columns of `coef` (p, t, c)."""

    solver: Arrays
    params: SolverParams
    vertices: Arrays
    coef: Arrays

    def __call__(self, out: PartWriter) -> Receipt:
        solver, columns = Solver.from_arrays(self.solver.load(), self.params), self.vertices.load()["columns"]
        coef = self.coef.load()["coef"]
        Z = np.zeros((solver.A.n, coef.shape[2]))
        for of_power in coef[::-1]:
            Z[columns] += of_power
            Z = solver.solve(Z).require_converged(self.params).value
        return out.write(total=Z)


@dataclass(frozen=True)
class Solves:
    """Functions of a Laplacian by solvers.

    vertices : `columns` (t,) and `rows` (r,). solvers : those of `L + r I`, prepared, by the ridge r.
    """

    functions: Functions
    vertices: Arrays
    solvers: Mapping[float, tuple[Arrays, SolverParams]]
    execution: Execution

    @classmethod
    def prepared(cls, graph: Graph, columns: np.ndarray, rows: np.ndarray, functions: Functions,
                 params: FunctionParams, execution: Execution, *, n_columns: int) -> "Solves":
        """Prepare the solvers for `n_columns` columns."""
        ridges, parts = sorted(set(functions.ridge)), execution.scratch()
        solver = SolverParams(tol=min(1e-6, params.tol), block_columns=params.block_columns,
                              random_state=params.random_state)
        receipts = execution.map([
            SystemTask(graph.stored, graph.shared_vertices(execution), params.laplacian, ridge, n_columns, solver)
            for ridge in ridges], parts)
        return cls(functions, execution.share(columns=columns, rows=rows), {
            ridge: (parts.arrays(number), replace(solver, method=receipt["method"]))
            for number, (ridge, receipt) in enumerate(zip(ridges, receipts, strict=True))}, execution)

    def values(self, ranges: Sequence[tuple[int, int]]) -> tuple[np.ndarray, int]:
        """Return the functions at the rows, (m, r, t), of columns in these ranges, and the iterations."""
        parts, max_power = self.execution.scratch(), max(self.functions.power)
        receipts = self.execution.map([PowersTask(*solver, self.vertices, first, last, max_power)
                                       for solver in self.solvers.values() for first, last in ranges], parts)
        n_rows, t = (len(self.vertices.load()[name]) for name in ("rows", "columns"))
        values, by_ridge = np.empty((len(self.functions), n_rows, t)), self.functions.by_ridge()
        for number, ridge in enumerate(self.solvers):
            for index, (first, last) in enumerate(ranges):
                of_powers = parts.read(number * len(ranges) + index)["values"]
                for place in by_ridge[ridge]:
                    values[place, :, first:last] = of_powers[self.functions.power[place] - 1]
        parts.remove()  # the values, of which one copy is enough
        return values, max(receipt["iterations"] for receipt in receipts)

    def combined(self, coef: np.ndarray) -> np.ndarray:
        """Return the sum over functions and columns (v, c) for coef (m, t, c), see `GraphFunctions`."""
        by_power = {ridge: np.zeros((max(self.functions.power), *coef.shape[1:])) for ridge in self.solvers}
        for ridge, power, weights in zip(self.functions.ridge, self.functions.power, coef, strict=True):
            by_power[ridge][power - 1] += weights
        return self.execution.reduce(sums([
            CombinePowersTask(*solver, self.vertices, self.execution.share(coef=by_power[ridge]))
            for ridge, solver in self.solvers.items()]))["total"]


def _by_solves(graph: Graph, columns: np.ndarray, rows: np.ndarray, functions: Functions, params: FunctionParams,
               execution: Execution) -> GraphFunctions:
    """Return the functions by a solver of each ridge."""
    solves = Solves.prepared(graph, columns, rows, functions, params, execution,
                             n_columns=max(functions.power) * len(columns))
    values, iterations = solves.values(row_ranges(len(columns), params.block_columns))
    methods = sorted({params.method for _, params in solves.solvers.values()})
    return GraphFunctions(values, solves.combined, {"method": methods, "tol": min(1e-6, params.tol),
                                                    "iterations": iterations})
