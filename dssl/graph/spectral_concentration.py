"""The spectral concentration of a graph: whether it has clusters, which no label is needed for.

    rho_i = ((R^-p)_ii - what the constant function has in it) (R_ii)^p,    q = median(rho)^(2 / p)

In a random graph all eigenvalues of L_norm but one lie in a semicircle around 1, of the variance v that is the mean
over vertices of the sum of squared `w_ij / sqrt(d_i d_j)`, and q is the mean of 1 / eigenvalue^2:

    q_0 = (1 / sqrt(1 - 4 v) - 1) / (2 v),    concentration = (q - 1) / (q_0 - 1)

So it is 1 for neighbors in noise; slow eigenvectors, those of clusters and of thin sheets, raise it.

References
----------
Wigner, "On the distribution of the roots of certain symmetric matrices", Annals of Mathematics 1958.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..execution.cost import Cost, cost_of, solve_seconds
from ..execution.tasks import Execution
from ..solvers.gauss_seidel import GaussSeidel
from ..solvers.lanczos import SingularMatrix
from ..solvers.operators import inverse_permutation
from ..solvers.solve import Solver
from ..solvers.solver_params import SolverParams
from ..storage.blocks import STEP_BYTES, Arrays, Parts, PartWriter, Receipt, Rows, arrays_within, block_rng, row_ranges
from ..storage.store import whole_bytes
from .regularizer import RegularizerParams, prepare_regularizer, system_cost
from .weights.build import row_receipts

SOLVER_ARRAYS = tuple(f"A-{name}" for name in ("order", "scale", "component", "near_null", "data"))  # of a solver
MAX_VARIANCE = 0.24  # beyond 1/4 the semicircle reaches 0; so it does on graphs of fewer than four neighbors
SAMPLE, SHARE, COLUMNS = 128, 32, 16  # vertices, those of a task, and those that are solved for side by side
RIDGE, POWER = 0.01, 2
STREAM = 14  # of the seed
ENTRY_BYTES = 12  # of a stored weight, with its column
SOLVER = SolverParams(method=GaussSeidel.name, tol=1e-3)


def spectral_concentration(diagonal: np.ndarray, vertices: np.ndarray, solver: Mapping[str, np.ndarray], ridge: float,
                 power: int) -> float:
    """Return the spectral concentration of a graph, >= 0, from `(R^-power)_ii` (s,) of some vertices (s,).

    solver : its arrays of R = L + ridge I or L_norm + ridge I, of which `SOLVER_ARRAYS` are read (`Solver.to_arrays`).
    """
    return _concentration(*_beside_constant(diagonal, vertices, solver, ridge, power), power)


def concentration_bytes(n: int, nnz: int) -> int:
    """Return the bytes of `spectral_concentration` for n vertices and nnz weights, with `SOLVER_ARRAYS`."""
    return 8 * nnz + int(max(72 * n, 32 * n + whole_bytes(8 * nnz)))


def matrix_concentration(diagonal: np.ndarray, vertices: np.ndarray, A: SingularMatrix, ridge: float, power: int,
                         weight: np.ndarray) -> float:
    """Return the spectral concentration from R - ridge I itself.

    weight : (s,) of the vertices in the median: 1 over their points, where a vertex was drawn by one of its points.
    Otherwise it would be that of vertices of many duplicates, which are near to one another even in noise.
    """
    of_diagonal, squared = A.diagonal.astype(np.float64) + ridge, np.square(A.data, dtype=np.float64)
    inverse, at = 1 / of_diagonal, A.place[vertices]
    null = _constant(A.null**2, A.component)[at]
    among = float(inverse @ (sp.csr_array((squared, A.indices, A.indptr), (A.n, A.n)) @ inverse)) / A.n
    return _concentration((diagonal - null / ridge**power) * of_diagonal[at] ** power, among, power, weight)


def _constant(squares: np.ndarray, component: np.ndarray) -> np.ndarray:
    """Return what the constant function has in `(R^-1)_ii` times the ridge (n,), from the squares of null vectors.

    It is one function of all components: functions that differ between components count as concentration.
    """
    return squares * (np.bincount(component) / len(squares) / np.bincount(component, squares))[component]


def _beside_constant(diagonal: np.ndarray, vertices: np.ndarray, solver: Mapping[str, np.ndarray], ridge: float,
                     power: int) -> tuple[np.ndarray, float]:
    """Return rho (s,) of the vertices, and the variance v of the graph."""
    order, scale, component, near_null, data = (solver[name] for name in SOLVER_ARRAYS)
    at = inverse_permutation(order)[vertices]
    null = _constant((near_null * scale) ** 2, component)[at]
    return (diagonal - null / ridge**power) / scale[at] ** (2 * power), float(data @ data) / len(order)


def _concentration(rho: np.ndarray, variance: float, power: int, weight: np.ndarray | None = None) -> float:
    q = max(_median(rho, np.ones(len(rho)) if weight is None else weight), 0.0) ** (2 / power)
    variance = min(max(variance, 1e-6), MAX_VARIANCE)
    at_random = (1 / np.sqrt(1 - 4 * variance) - 1) / (2 * variance)
    return max(q - 1, 0.0) / (at_random - 1)


def _median(values: np.ndarray, weight: np.ndarray) -> float:
    """Return the weighted median: the mean of both values where half of the weight ends between them."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    lower, upper = (int(np.searchsorted(below, below[-1] / 2, side)) for side in ("left", "right"))
    return float(values[order[[lower, min(upper, len(order) - 1)]]].mean())


# ---- of a stored graph, from columns of some of its vertices


@dataclass(frozen=True)
class ConcentrationTask:
    """Write rho of some vertices (s,), from `(R^-2)_ii = |R^-1 e_i|^2`; return the variance of the graph.

    solver : the arrays of the prepared system. Memory: `concentration_cost`.

    Raises NotConverged if a column ends above the tolerance.
    """

    solver: Arrays
    vertices: tuple[int, ...]

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.solver.load()
        solver = Solver.from_arrays(arrays, SOLVER)
        vertices, diagonal = np.array(self.vertices), []
        for start, stop in row_ranges(len(vertices), COLUMNS):
            columns = np.zeros((solver.A.n, stop - start))
            columns[vertices[start:stop], np.arange(stop - start)] = 1
            solved = solver.solve(columns).require_converged(SOLVER).value
            diagonal.append((solved**2).sum(axis=0))
            del solved  # before the next
        rho, variance = _beside_constant(np.concatenate(diagonal), vertices, arrays, RIDGE, POWER)
        return {**out.write(rho=rho), "variance": variance}


def sampled_concentration(graph: Parts, multiplicities: Rows | None, v: int, random_state: int,
                      execution: Execution) -> float | None:
    """Return the concentration of a stored graph of v vertices, from `SAMPLE` of them, drawn by the seed.

    None where the graph is too large for the memory budget of a task: its concentration is not known then.
    """
    nnz = sum(graph.arrays(index).nbytes for index in range(len(row_receipts(graph, v)))) // ENTRY_BYTES
    if not fits_a_task(v, nnz, execution.memory_budget):
        return None
    shared = None if multiplicities is None else execution.share(multiplicity=multiplicities.read_all())
    prepared, parts = execution.scratch(), execution.scratch()
    solver, *_ = prepare_regularizer(graph, RegularizerParams(ridge=RIDGE, power=POWER), SAMPLE, SOLVER, execution,
                                     prepared, shared)
    vertices: Sequence[int] = np.sort(block_rng(random_state, STREAM).choice(v, min(v, SAMPLE), replace=False)).tolist()
    receipts = execution.map([ConcentrationTask(solver, tuple(vertices[start:stop]))
                              for start, stop in row_ranges(len(vertices), SHARE)], parts)
    rho = np.concatenate([parts.read(index)["rho"] for index in range(len(receipts))])
    for scratch in (prepared, parts):
        scratch.remove()
    return _concentration(rho, receipts[0]["variance"], POWER)


def concentration_cost(v: int, nnz: int) -> Cost:
    """Return what the tasks take, of v vertices and nnz weights: one prepares the system that the others read."""
    columns, prepared = min(SAMPLE, v), system_cost(v, nnz, SAMPLE, [GaussSeidel], guess=False)
    tasks, width = len(row_ranges(columns, SHARE)), min(COLUMNS, columns)
    stored = GaussSeidel.solver_bytes(v, nnz, SAMPLE, guess=False)
    solving = stored + GaussSeidel.opened_bytes(v, nnz, guess=False) + GaussSeidel.solve_bytes(v, width, width)
    solving += 16 * v * width + int(whole_bytes(stored))  # with the columns, and the squares of solutions
    return prepared + cost_of(tasks, tasks * stored, 8 * columns, solving, solving, solve_seconds(nnz, columns))


def fits_a_task(v: int, nnz: int, budget: int) -> bool:
    """Return whether a task with so many bytes finds the concentration of v vertices and nnz weights."""
    return concentration_cost(v, nnz).peak - STEP_BYTES <= arrays_within(budget)
