"""The covariance Q^+ of the graph's regularizer at landmarks, in four steps.

    landmarks    the vertices at which functions are measured
    system       the solver of the regularizer
    columns      its solutions, a column a landmark
    covariance   Q^+ at the landmarks, of each power of the regularizer
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from ...graph.health import graph_health
from ...graph.regularizer import LaplacianKind, RegularizerParams, prepare_regularizer
from ...graph.spectral_concentration import SOLVER_ARRAYS, spectral_concentration
from ...graph.vertices import covariance_at_points
from ...kernels.landmark_inverse import (
    VECTOR_ARRAYS,
    SolvedColumns,
    multiply_factors,
    n_solves,
    solve_columns,
    solve_evidence,
)
from ...learners.deformed import GraphCovariance, draw_landmarks
from ...solvers.method import SolverMethod
from ...solvers.solver_params import SOLVERS, SolverParams
from ...storage.blocks import PartWriter
from ..step import Context


@dataclass(frozen=True, kw_only=True)
class CovarianceParams:
    """What the covariance of a graph at landmarks follows from, beside the graph.

    n_landmarks : at most so many. form : in which solved columns are kept, see `solve_columns`. random_state :
    of the draw of landmarks.
    """

    n_landmarks: int
    regularizer: RegularizerParams = field(default_factory=RegularizerParams)
    solver: SolverParams = field(default_factory=SolverParams)
    form: Literal["energy", "restriction"] = "energy"
    random_state: int = 0

    @property
    def powers(self) -> tuple[int, ...]:
        """Return the powers of the regularizer that are solved for, ascending."""
        return (self.regularizer.power,)

    @property
    def n_columns(self) -> int:
        """Return how many columns are solved: a chain of solves for each landmark."""
        return self.n_landmarks * n_solves(self.powers)


@dataclass(frozen=True)
class LandmarkDraw:
    """How many vertices functions are measured at, and the seed of their draw."""

    size: int
    random_state: int


def make_landmarks(context: Context, params: LandmarkDraw) -> dict[str, int]:
    """Choose the vertices at which functions are measured, and a training point of each, a labeled one if any is.

    One that grows keeps what was chosen, as far as a random draw of all vertices has so many of the old ones.
    """
    points, rows = context.vertices(), context.target().labeled
    labeled = points.of(rows)
    before, n_before = None, 0
    if context.base is not None:
        before = context.base.parts.read(0, ("vertices",))["vertices"]
        n_before = context.of_base("vertices").attributes["vertices"]
    chosen = draw_landmarks(labeled, len(points), params.size, params.random_state, before, n_before)
    PartWriter(context.parts, 0).write(landmarks=points.rows_of(chosen, rows), vertices=chosen)
    return {"n_landmarks": len(chosen), "n_labeled": int(np.isin(chosen, labeled).sum())}


@dataclass(frozen=True)
class RegularizerSystem:
    """The matrix, and the solver of so many columns of it; the powers matter through their number only."""

    laplacian: LaplacianKind
    ridge: float
    n_columns: int
    method: str
    tol: float
    max_iter: int
    random_state: int


def make_system(context: Context, params: RegularizerSystem) -> dict[str, Any]:
    """Prepare the solver: scaled matrix, method, eigenvectors or hierarchy."""
    solver = SolverParams(method=params.method, tol=params.tol,
                          max_iter=params.max_iter, random_state=params.random_state)
    regularizer = RegularizerParams(laplacian=params.laplacian, ridge=params.ridge)
    stored, chosen, attributes = prepare_regularizer(context.weights(), regularizer, params.n_columns,
                                                     solver, context.execution, context.parts, context.multiplicity())
    attributes = {name: value for name, value in attributes.items() if name != "power"}  # the matrix serves all powers
    return {**attributes, "params": asdict(chosen), "stored_bytes": stored.nbytes}


@dataclass(frozen=True)
class ColumnParams:
    """The powers that are solved for, how many columns at a time, and the form in which they are kept."""

    powers: tuple[int, ...]
    block_columns: int
    form: Literal["energy", "restriction"]


def begins(form: str, solver: type[SolverMethod]) -> bool:
    """Return whether a solver can begin at columns that were kept in a form."""
    return form == "energy" and solver.iterates


def make_columns(context: Context, params: ColumnParams) -> dict[str, Any]:
    """Solve the columns of the landmarks; those that were solved before vertices were added begin there."""
    system, solved, before = context.attributes("system"), None, None
    solver = SolverParams(**{**system["params"], "block_columns": params.block_columns})
    if context.base is not None and begins(params.form, SOLVERS.named(solver.method)):
        solved = SolvedColumns.of(context.base.parts, params.powers,
                                  context.of_base("system").parts.read(0, VECTOR_ARRAYS), context.execution)
        before = context.of_base("landmarks").parts.read(0, ("vertices",))["vertices"]
    receipts = solve_columns(context.inputs["system"].parts.arrays(0), solver, system["n"],
                             context.arrays("landmarks")["vertices"], params.powers, context.execution,
                             context.parts, form=params.form, solved=solved, solved_landmarks=before)
    return {**solve_evidence(receipts, system["solver"]), "n_blocks": len(receipts)}


def make_covariance(context: Context, params: ColumnParams) -> dict[str, Any]:
    """Multiply the solved columns to Q^+ at the landmarks."""
    landmarks, shares = context.arrays("landmarks")["vertices"], context.parts.within("shares")
    covariances = multiply_factors(context.inputs["columns"].parts, context.attributes("system")["n"], landmarks,
                             params.powers, context.execution, shares, form=params.form,
                             n_blocks=context.attributes("columns")["n_blocks"])
    system = context.attributes("system")
    solver = context.inputs["system"].parts.read(0, SOLVER_ARRAYS)
    concentration = {str(power): spectral_concentration(np.diagonal(A), landmarks, solver, system["ridge"], power)
                 for power, A in covariances.items()}
    m = context.vertices().multiplicity[landmarks]
    covariances = {power: covariance_at_points(A, m) for power, A in covariances.items()}
    PartWriter(context.parts, 0).write(**{f"power{power}": A for power, A in covariances.items()})
    shares.remove()
    return {"mean_diagonal": {str(power): float(np.trace(A)) / len(A) for power, A in covariances.items()},
            "spectral_concentration": concentration}


def covariance_of(context: Context, params: CovarianceParams) -> GraphCovariance:
    """Return what the steps have made, with what solves for more columns, and what is known of the graph."""
    system, covariance = context.attributes("system"), context.attributes("covariance")
    arrays, chosen = context.arrays("covariance"), context.arrays("landmarks")
    graph = context.graph()
    health = graph_health(graph.weights(), context.target().labeled, vertices=graph.vertices)
    return GraphCovariance(
        chosen["landmarks"], {power: arrays[f"power{power}"] for power in params.powers}, {
            **graph.attributes, "regularizer": {**system, "power": params.regularizer.power},
            **{name: health[name] for name in ("vertices", "components", "unreachable")},
            "solves": context.attributes("columns")}, vertices=graph.vertices,
        landmark_vertices=chosen["vertices"], solver=context.inputs["system"].parts.arrays(0),
        params=SolverParams(**system["params"]),
        concentration={int(power): value for power, value in covariance["spectral_concentration"].items()})
