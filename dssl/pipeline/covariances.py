"""The stages of a deformed kernel: the subsample, the solver, the solved columns, and their covariance."""

from dataclasses import asdict
from typing import Any

import numpy as np

from ..graph.regularizer import prepare_regularizer
from ..graph.vertices import covariance_at_points
from ..kernels.subsample import multiply_factors, solve_columns, solve_evidence
from ..learners.deformed import draw_subsample
from ..solvers.solve import SolverParams
from ..storage.blocks import PartWriter
from .context import Context
from .graphs import vertices_of
from .spec import Spec


def regularizer_columns(spec: Spec) -> int:
    """Return how many columns are solved: a chain of solves for each point of the subsample."""
    return spec.subsample.size * ((max(spec.powers) + 1) // 2)


def make_subsample(context: Context) -> dict[str, Any]:
    """Choose the vertices at which functions are measured, and a training point of each, a labeled one if any is."""
    points, rows = vertices_of(context), context.arrays("labels")["labeled"]
    labeled = points.of(rows)
    chosen = draw_subsample(labeled, len(points), context.spec.subsample.size, context.spec.subsample.seed)
    PartWriter(context.parts, 0).write(subsample=points.rows_of(chosen, rows), vertices=chosen)
    return {"n_subsample": len(chosen), "n_labeled": int(np.isin(chosen, labeled).sum())}


def make_system(context: Context) -> dict[str, Any]:
    """Prepare the solver: scaled matrix, method, eigenvectors or hierarchy."""
    spec = context.spec
    n_columns = regularizer_columns(spec)
    counted = context.attributes("vertices")["largest_multiplicity"] > 1
    copies = context.inputs["vertices"].parts.arrays(0) if counted else None
    _, chosen, attributes = prepare_regularizer(context.inputs["graph"].parts, spec.graph.regularizer(), n_columns,
                                                spec.solver.params(), context.execution, context.parts, copies)
    return {**attributes, "params": asdict(chosen)}


def make_columns(context: Context) -> dict[str, Any]:
    """Solve the columns of the subsample."""
    system, spec = context.attributes("system"), context.spec
    params = SolverParams(**{**system["params"], "block_columns": spec.solver.block_columns})
    receipts = solve_columns(context.inputs["system"].parts.arrays(0), params, system["n"],
                             context.arrays("subsample")["vertices"], spec.powers, context.execution,
                             context.parts, form=spec.solver.form, progress=context.progress)
    return {**solve_evidence(receipts, system["solver"]), "n_blocks": len(receipts)}


def make_covariance(context: Context) -> dict[str, Any]:
    """Multiply the solved columns to Q^+ on the subsample."""
    spec, system = context.spec, context.attributes("system")
    subsample = context.arrays("subsample")["vertices"]
    found = multiply_factors(context.inputs["columns"].parts, system["n"], subsample, spec.powers, context.execution,
                             context.parts.within("shares"), form=spec.solver.form,
                             n_blocks=context.attributes("columns")["n_blocks"], progress=context.progress)
    m = vertices_of(context).multiplicity[subsample]
    found = {power: covariance_at_points(A, m) for power, A in found.items()}
    PartWriter(context.parts, 0).write(**{f"power{power}": A for power, A in found.items()})
    return {"mean_diagonal": {str(power): float(np.trace(A)) / len(A) for power, A in found.items()}}
