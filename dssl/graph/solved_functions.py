"""Functions of a graph's Laplacian on the columns of a few vertices, by one system a ridge and p solves a column."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import require
from ..execution.tasks import Execution, sums
from ..solvers.block_tridiagonal import Functions
from ..solvers.solve import Solver
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Arrays, PartWriter, Receipt, row_ranges
from .graph import Graph
from .regularizer import LaplacianKind, PrepareTask, RegularizerParams, require_laplacian


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
                 params: FunctionParams, execution: Execution) -> "Solves":
        """Prepare the solvers for as many columns as the functions have, all powers of them."""
        ridges, parts = sorted(set(functions.ridge)), execution.scratch()
        solver = SolverParams(tol=min(1e-6, params.tol), block_columns=params.block_columns,
                              random_state=params.random_state)
        receipts = execution.map([
            PrepareTask(graph.stored, RegularizerParams(laplacian=params.laplacian, ridge=ridge),
                        max(functions.power) * len(columns), solver, graph.shared_vertices(execution))
            for ridge in ridges], parts)
        return cls(functions, execution.share(columns=columns, rows=rows), {
            ridge: (parts.arrays(number), replace(solver, method=receipt["method"]))
            for number, (ridge, receipt) in enumerate(zip(ridges, receipts, strict=True))}, execution)

    @property
    def attributes(self) -> JsonObject:
        """The methods of the solvers, and their tolerance."""
        solvers = [params for _, params in self.solvers.values()]
        return {"method": sorted({params.method for params in solvers}), "tol": solvers[0].tol}

    def values(self) -> tuple[np.ndarray, int]:
        """Return the functions at the rows, (m, r, t), and the iterations."""
        vertices, max_power = self.vertices.load(), max(self.functions.power)
        block_columns = next(params.block_columns for _, params in self.solvers.values())
        ranges, parts = row_ranges(len(vertices["columns"]), block_columns), self.execution.scratch()
        receipts = self.execution.map([PowersTask(*solver, self.vertices, first, last, max_power)
                                       for solver in self.solvers.values() for first, last in ranges], parts)
        values = np.empty((len(self.functions), len(vertices["rows"]), len(vertices["columns"])))
        by_ridge = self.functions.by_ridge()
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
