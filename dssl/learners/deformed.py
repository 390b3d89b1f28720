"""The landmarks, at which a deformed kernel sees the graph, and the covariance of the graph there.

The norm of a deformed kernel contains the graph's energy at the landmarks S. Of all functions with given
values on S, the one of least energy `h' Q h` is `Q^-1_.S (Q^-1_SS)^-1 h_S`: a solve of as many columns as values for
each power of the regularizer.

References
----------
Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS 2012, Theorem 3.2.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.linalg import cho_solve

from ..execution.cost import largest_within, rank_budget
from ..execution.tasks import Execution
from ..graph.vertices import Vertices
from ..kernels.deformed import factor_positive
from ..kernels.landmark_inverse import LandmarkInverse
from ..kernels.landmarks import DEFAULT_COUNT
from ..solvers.solve import Solver
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Arrays, PartWriter, Receipt, block_rng


def n_landmarks_within(given: int | Literal["auto"], budget: int) -> int:
    """Return the number of landmarks; "auto" is `DEFAULT_COUNT`, or as many as the budget (bytes) allows."""
    return (largest_within(budget, DEFAULT_COUNT, rank_budget) or 1) if given == "auto" else given


def draw_landmarks(labeled: np.ndarray, n: int, size: int, random_state: int, before: np.ndarray | None = None,
                   n_before: int = 0) -> np.ndarray:
    """Return `size` vertex numbers: the labeled points first, then a random sample of the others, at most n in all.

    With more labeled points than `size` it is a random sample of these.

    before : the landmarks of the first `n_before` vertices, before the graph grew. The number of new vertices is drawn
    as in a sample of all, and the old ones are taken from `before` first, so that the result is a random sample again.
    """
    rng = block_rng(random_state, n)
    labeled = np.asarray(labeled, np.int64)
    if len(labeled) >= size:
        return np.sort(rng.choice(labeled, size, replace=False))
    others = np.setdiff1d(np.arange(n), labeled, assume_unique=True)
    count = min(size, n) - len(labeled)
    if before is None:
        drawn = rng.choice(others, count, replace=False)
    else:
        new = others[others >= n_before]
        n_new = int(rng.hypergeometric(len(new), len(others) - len(new), count)) if count else 0
        old = rng.permutation(np.setdiff1d(before, labeled))[:count - n_new]
        rest = np.setdiff1d(others[others < n_before], old, assume_unique=True)
        drawn = np.concatenate([old, rng.choice(rest, count - n_new - len(old), replace=False),
                                rng.choice(new, n_new, replace=False)])
    return np.concatenate([np.sort(labeled), np.sort(drawn)])


@dataclass(frozen=True)
class MinimumEnergyTask:
    """Apply `R^-power` to columns that are zero except at the vertices `landmarks` (s,), with `entries` (s, c)."""

    solver: Arrays
    params: SolverParams
    columns: Arrays
    power: int

    def __call__(self, out: PartWriter) -> Receipt:
        solver, columns = Solver.from_arrays(self.solver.load(), self.params), self.columns.load()
        h = np.zeros((solver.A.n, columns["entries"].shape[1]))
        h[columns["landmarks"]] = columns["entries"]
        for _ in range(self.power):
            h = solver.solve(h).require_converged(self.params).value
        return out.write(values=h)


@dataclass(frozen=True)
class GraphCovariance(LandmarkInverse):
    """The covariance `(R^-p)_SS` at the landmarks, and the solver for more columns.

    vertices : of the graph. landmark_vertices (s,) : those at the landmarks. solver, params : of R. concentration :
    the spectral concentration of the graph by power (`graph/spectral_concentration.py`).
    """

    vertices: Vertices = field(kw_only=True)
    landmark_vertices: np.ndarray = field(kw_only=True)
    solver: Arrays = field(kw_only=True)
    params: SolverParams = field(kw_only=True)
    concentration: dict[int, float] = field(kw_only=True)

    def minimum_energy(self, values: np.ndarray, power: int, execution: Execution) -> np.ndarray:
        """Return the function (v, c) of least energy h' R^power h with given values (s, c) at the landmarks.

        Cost: s^3 / 3 flops, and `power` solves of c columns. Raises NotConverged.
        """
        root = np.sqrt(self.vertices.multiplicity)[:, None]
        factor, _ = factor_positive(self.powers[power].copy())
        entries = cho_solve((factor, True), values, check_finite=False) / root[self.landmark_vertices]
        parts, columns = execution.scratch(), execution.share(landmarks=self.landmark_vertices, entries=entries)
        execution.map([MinimumEnergyTask(self.solver, self.params, columns, power)], parts)
        solved = parts.arrays(0).load()["values"] / root
        parts.remove()
        solved[self.landmark_vertices] = values  # without the solver's error
        return solved
