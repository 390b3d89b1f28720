"""The subsample on which functions in a deformed kernel are measured, and the covariance of the graph there.

Functions in a deformed kernel are measured on a subsample S of the points, and follow the base kernel elsewhere. At the
other points of the graph the graph knows better: of all functions with the same values on S, the one of least energy
`h' Q h` is `Q^-1_.S (Q^-1_SS)^-1 h_S`, a chain of solves of as many columns as values.

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
from ..kernels.landmarks import DEFAULT_COUNT
from ..kernels.subsample import SubsampleInverse
from ..solvers.solve import Solver
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Arrays, PartWriter, Receipt, block_rng


def subsample_size(given: int | Literal["auto"], budget: int) -> int:
    """Return the points of a subsample of a given size, or of what a told budget lets be."""
    return (largest_within(budget, DEFAULT_COUNT, rank_budget) or 1) if given == "auto" else given


def draw_subsample(labeled: np.ndarray, n: int, size: int, random_state: int, before: np.ndarray | None = None,
                   n_before: int = 0) -> np.ndarray:
    """Return `size` vertex numbers: the labeled points first, then a random draw of the others.

    With more labeled points than `size` it is a random draw of the labeled points alone. All n points where size >= n.

    before : the subsample of the first `n_before` vertices, before the graph grew. Of the others as many are new as a
    draw of all would have, and the old ones are those of before as far as they go, so that it is a random draw again.
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
        kept = rng.permutation(np.setdiff1d(before, labeled))[:count - n_new]
        left = np.setdiff1d(others[others < n_before], kept, assume_unique=True)
        drawn = np.concatenate([kept, rng.choice(left, count - n_new - len(kept), replace=False),
                                rng.choice(new, n_new, replace=False)])
    return np.concatenate([np.sort(labeled), np.sort(drawn)])


@dataclass(frozen=True)
class LeastEnergyTask:
    """Apply `R^-power` to columns, each zero off some vertices: `chosen` (s,) and their `entries` (s, c)."""

    solver: Arrays
    params: SolverParams
    columns: Arrays
    power: int

    def __call__(self, out: PartWriter) -> Receipt:
        solver, given = Solver.from_arrays(self.solver.load(), self.params), self.columns.load()
        h = np.zeros((solver.A.n, given["entries"].shape[1]))
        h[given["chosen"]] = given["entries"]
        for _ in range(self.power):
            h = solver.solve(h).require_converged(self.params).value
        return out.write(values=h)


@dataclass(frozen=True)
class GraphCovariance(SubsampleInverse):
    """`(R^-p)_SS` at points, and what solves for more columns.

    vertices : of the graph. chosen (s,) : those of the subsample. solver, params : of R. structure : of the graph, by
    power (`graph/spectral_concentration.py`).
    """

    vertices: Vertices = field(kw_only=True)
    chosen: np.ndarray = field(kw_only=True)
    solver: Arrays = field(kw_only=True)
    params: SolverParams = field(kw_only=True)
    structure: dict[int, float] = field(kw_only=True)

    def of_least_energy(self, values: np.ndarray, power: int, execution: Execution) -> np.ndarray:
        """Return the function of least energy h' R^power h with these values (s, c) on the subsample, (v, c).

        Cost: s^3 / 3 flops, and `power` solves of c columns. Raises NotConverged: a solve ended above its tolerance.
        """
        root = np.sqrt(self.vertices.multiplicity)[:, None]
        factor, _ = factor_positive(self.powers[power].copy())
        entries = cho_solve((factor, True), values, check_finite=False) / root[self.chosen]
        parts = execution.scratch()
        execution.map([LeastEnergyTask(self.solver, self.params, execution.share(chosen=self.chosen, entries=entries),
                                       power)], parts)
        solved = parts.arrays(0).load()["values"] / root
        parts.remove()
        solved[self.chosen] = values  # without the solver's error
        return solved
