"""The regularizer of a graph: its parameters, and from a stored graph to a prepared solver, as one task."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Literal, get_args

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import require
from ..execution.cost import Cost, cost_of, solve_seconds
from ..execution.tasks import Execution
from ..solvers.method import SolverMethod
from ..solvers.solve import possible_solvers, prepare
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt
from .laplacian import Laplacian
from .weights.build import read_graph

LaplacianKind = Literal["normalized", "unnormalized"]
# Measured on one core: of a weight, to form the matrix; of a vertex, to prepare a hierarchy or eigenvectors of it.
FORMED_SECONDS = 5e-7


def require_laplacian(kind: str) -> None:
    """Raise ParameterError unless there is a Laplacian of this kind."""
    require(kind in get_args(LaplacianKind), f"laplacian={kind!r}", why="no other Laplacian is defined",
            fix="choose normalized or unnormalized")


def laplacian_of(graph: Parts, vertices: Arrays | None, kind: LaplacianKind) -> Laplacian:
    """Return the Laplacian of a stored graph; vertices : as `Graph.shared_vertices` returns them."""
    return Laplacian(read_graph(graph), kind == "normalized",
                     None if vertices is None else vertices.load()["multiplicity"])


@dataclass(frozen=True, kw_only=True)
class RegularizerParams:
    """The regularizer of a graph: a power of its Laplacian plus a ridge.

    Parameters
    ----------
    laplacian : "normalized" or "unnormalized"
        Which Laplacian of the graph, L_norm or L.
    ridge : float
        What is added to the eigenvalues of the Laplacian, > 0; those of the normalized
        one are at most 2. The smaller the ridge, the farther a label reaches.
    power : int
        The power p of the regularizer, 1 to 64. A larger one is smoother.

    Raises
    ------
    ParameterError
        A value is out of range.

    Notes
    -----
    The regularizer is ``Q = R^power`` with ``R = L + ridge I``, or with L_norm in place
    of L. A solve with Q takes `power` solves with R.

    Examples
    --------
    >>> from dssl import LapSVC, RegularizerParams
    >>> LapSVC(regularizer=RegularizerParams(ridge=0.1, power=1))
    LapSVC(regularizer=RegularizerParams(laplacian='normalized', ridge=0.1, power=1))
    """

    laplacian: LaplacianKind = "normalized"
    ridge: float = 0.01
    power: int = 2

    def __post_init__(self) -> None:
        require_laplacian(self.laplacian)
        number = isinstance(self.ridge, Real) and not isinstance(self.ridge, bool)
        require(number and 0 < self.ridge < float("inf"), f"ridge={self.ridge!r}, expected a number > 0",
                why="without a ridge a constant function costs nothing, and the kernel of a component is singular",
                fix="use 0.001 to 0.1")
        whole = isinstance(self.power, (int, np.integer)) and not isinstance(self.power, bool)
        require(whole and 1 <= self.power <= 64, f"power={self.power!r}, expected 1 to 64",
                why="Q = R^p is inverted by p solves of R", fix="use 1, 2 or 3")


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
        laplacian = laplacian_of(self.graph, self.vertices, self.regularizer.laplacian)
        solver = prepare(laplacian.matrix(self.regularizer.ridge), self.n_columns, self.solver, laplacian.vector)
        receipt = out.write(**solver.to_arrays())
        return {**receipt, "n": laplacian.n, "method": solver.params.method, "solver": solver.attributes}


def prepare_regularizer(graph: Parts, regularizer: RegularizerParams, n_columns: int, params: SolverParams,
                        execution: Execution, parts: Parts,
                        vertices: Arrays | None = None) -> tuple[Arrays, SolverParams, JsonObject]:
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


def solve_cost(n: int, nnz: int, c: int, *, guess: bool, prepared_for: int | None = None) -> Cost:
    """Return the cost of a task that prepares a system of n vertices and nnz weights, and solves c columns.

    The weights, the prepared system, and eight arrays (n, c). prepared_for : the columns that it is prepared for, where
    these are others.
    """
    columns = prepared_for or c
    solvers = possible_solvers(n, guess=guess, n_columns=columns)
    prepared = system_cost(n, nnz, columns, solvers, guess=guess)
    solving = max(solver.opened_bytes(n, nnz, guess=guess) + solver.solve_bytes(n, c, c) for solver in solvers)
    peak = prepared.peak + 16 * nnz + solving + 64 * n * c
    return cost_of(1, prepared.read, 8 * n * c, peak, prepared.smallest_peak, prepared.seconds + solve_seconds(nnz, c))
