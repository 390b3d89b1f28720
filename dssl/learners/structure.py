"""The spectral concentration of a stored graph, from columns of some of its vertices, as one task."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..execution.cost import Cost, cost_of, solve_seconds
from ..execution.tasks import Execution
from ..graph.laplacian import Laplacian
from ..graph.regularizer import system_cost
from ..graph.spectral_concentration import structure_of
from ..graph.weights.build import read_graph, row_receipts
from ..solvers.method import Jacobi
from ..solvers.solve import prepare
from ..solvers.solver_params import SolverParams
from ..storage.blocks import STEP_BYTES, Parts, PartWriter, Receipt, Rows, arrays_within, block_rng, row_ranges

SAMPLE, COLUMNS = 128, 16  # vertices, and how many of them are solved for side by side
RIDGE, POWER = 0.01, 2
STREAM = 14  # of the seed
ENTRY_BYTES = 12  # of a stored weight, with its column
SOLVER = SolverParams(method=Jacobi.name, tol=1e-3)


@dataclass(frozen=True)
class StructureTask:
    """Return the `structure` of a graph, of which `(R^-2)_ii = |R^-1 e_i|^2` of the vertices `chosen`; writes nothing.

    copies : (v,), the points that each vertex stands for, or None. Memory: `structure_cost`.

    Raises NotConverged: a column ended above the tolerance.
    """

    graph: Parts
    copies: Rows | None
    chosen: tuple[int, ...]

    def __call__(self, out: PartWriter) -> Receipt:
        multiplicity = None if self.copies is None else self.copies.read_all()
        laplacian = Laplacian(read_graph(self.graph), True, multiplicity)
        solver = prepare(laplacian.matrix(RIDGE), len(self.chosen), SOLVER, laplacian.vector)
        chosen, diagonal = np.array(self.chosen), []
        for start, stop in row_ranges(len(chosen), COLUMNS):
            columns = np.zeros((laplacian.n, stop - start))
            columns[chosen[start:stop], np.arange(stop - start)] = 1
            solved = solver.solve(columns).require_converged(SOLVER).value
            diagonal.append((solved**2).sum(axis=0))
        structure = structure_of(np.concatenate(diagonal), chosen, solver.to_arrays(), RIDGE, POWER)
        return {**out.write(), "structure": float(structure)}


def sampled_structure(graph: Parts, copies: Rows | None, v: int, random_state: int,
                      execution: Execution) -> float | None:
    """Return the structure of a stored graph of v vertices, from `SAMPLE` of them, drawn by the seed.

    None where the graph is too large for the memory budget of a task: its structure is not known then.
    """
    nnz = sum(graph.arrays(index).nbytes for index in range(len(row_receipts(graph, v)))) // ENTRY_BYTES
    if not fits_a_task(v, nnz, execution.memory_budget):
        return None
    chosen: Sequence[int] = np.sort(block_rng(random_state, STREAM).choice(v, min(v, SAMPLE), replace=False)).tolist()
    parts = execution.scratch()
    receipt, = execution.map([StructureTask(graph, copies, tuple(chosen))], parts)
    parts.remove()
    return float(receipt["structure"])


def structure_cost(v: int, nnz: int) -> Cost:
    """Return what the task takes, of v vertices and nnz weights: the matrix as it is prepared, and its columns."""
    columns, prepared = min(SAMPLE, v), system_cost(v, nnz, SAMPLE, [Jacobi], guess=False)
    width = min(COLUMNS, columns)
    solving = Jacobi.solve_bytes(v, width, width) + 8 * v * width
    return cost_of(1, prepared.read, 0, prepared.peak + solving, prepared.smallest_peak,
                   prepared.seconds + solve_seconds(nnz, columns))


def fits_a_task(v: int, nnz: int, budget: int) -> bool:
    """Return whether a task with so many bytes finds the structure of v vertices and nnz weights."""
    return structure_cost(v, nnz).peak - STEP_BYTES <= arrays_within(budget)
