"""From a stored graph to a prepared solver of its regularizer, as one task."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..execution.cost import Cost, cost_of
from ..execution.tasks import Execution
from ..solvers.method import SolverMethod
from ..solvers.solve import prepare
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt
from .laplacian import Laplacian
from .regularizer_params import RegularizerParams
from .weights.build import read_graph

# Measured on one core: of a weight, to form the matrix; of a vertex, to prepare a hierarchy or eigenvectors of it.
FORMED_SECONDS = 5e-7


@dataclass(frozen=True)
class PrepareTask:
    """Read the graph, form R, choose a method and write the solver's arrays.

    Memory: the matrix four times (W, R, A in float64 and float32), and what the method keeps.
    """

    graph: Parts
    regularizer: RegularizerParams
    n_columns: int
    solver: SolverParams
    vertices: Arrays | None = None  # holds `multiplicity` (n,); None where each vertex is one point

    def __call__(self, out: PartWriter) -> Receipt:
        multiplicity = None if self.vertices is None else self.vertices.load()["multiplicity"]
        laplacian = Laplacian(read_graph(self.graph), self.regularizer.laplacian == "normalized", multiplicity)
        solver = prepare(laplacian.matrix(self.regularizer.ridge), self.n_columns, self.solver, laplacian.vector)
        receipt = out.write(**solver.to_arrays())
        return {**receipt, "n": laplacian.n, "method": solver.params.method, "solver": solver.attributes}


def prepare_regularizer(graph: Parts, regularizer: RegularizerParams, n_columns: int, params: SolverParams,
                        execution: Execution, parts: Parts,
                        vertices: Arrays | None = None) -> tuple[Arrays, SolverParams, dict[str, Any]]:
    """Return the prepared solver's arrays, its parameters with the selected method, and its attributes.

    vertices : arrays of `Vertices` if there are duplicates; None for vertices of one point each.
    """
    receipt, = execution.map([PrepareTask(graph, regularizer, n_columns, params, vertices)], parts)
    attributes = {**asdict(regularizer), "n": receipt["n"], "solver": receipt["solver"]}
    return parts.arrays(0), replace(params, method=receipt["method"]), attributes


def system_cost(n: int, nnz: int, n_columns: int, solvers: Collection[type[SolverMethod]], *, guess: bool) -> Cost:
    """Return the cost of preparing one of these solvers for n vertices and nnz weights.

    The peak is forming the matrix, or the prepared method and the probes that select it, beside the matrix in three
    forms. All constants are measured.
    """
    forming, stored = 70 * nnz + 160 * n, 40 * nnz + 390 * n
    preparing = max(solver.prepare_bytes(n, nnz, n_columns) for solver in solvers)
    written = max(solver.solver_bytes(n, nnz, n_columns, guess=guess) for solver in solvers)
    return cost_of(1, 12 * nnz + 8 * n, written, max(forming, stored + preparing), forming,
                   FORMED_SECONDS * nnz + n * max(solver.prepare_seconds for solver in solvers))
