"""Systems of landmarks by conjugate gradients, many columns at once, on products that share each kernel block."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import NotConverged, require
from ...execution.tasks import Execution, sums
from ...solvers.blocked_cg import blocked_cg
from ...solvers.solve import Solution
from ...solvers.solver_params import Stop
from .factor import by_system
from .gram import gram_matrices
from .kernel_cache import SystemProductTask, clear_cache
from .params import Functions, SystemParams
from .penalties import Penalties
from .preconditioner import Preconditioner, make_preconditioner
from .system import NystromSystem


@dataclass
class BlockedProduct:
    """The product of columns with their systems, over all blocks of points, by tasks."""

    system: NystromSystem
    penalties: Sequence[Penalties]  # of each column
    ones: np.ndarray  # Phi' 1 (r,)
    execution: Execution
    curvature: np.ndarray | None = None  # of each label line in the order of the blocks and column, for its weight
    passes: int = 0

    def __post_init__(self) -> None:
        a, b = self.system.blocks.relabeled_mean
        self.lambda_A, self.energy, self.points, self.rank_one = np.array([
            (own.lambda_A, own.lambda_I * own.has_graph, own.lambda_I * a * own.has_control,
             own.lambda_I * b * own.has_control) for own in self.penalties]).T
        self.held = np.array([own.held for own in self.penalties])
        self.keep = self.execution.memory_budget // 2 * self.execution.tasks_per_process

    def __call__(self, P: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the products (r, u) of P (r, u) with the systems of these columns (u,)."""
        self.passes += 1
        execution, system, given = self.execution, self.system, self.execution.scratch()
        weights = {"held": self.held[columns]} if self.curvature is None else {"curvature": self.curvature[:, columns]}
        given.write(0, {"P": system.lift(P), "energy": self.energy[columns], "points": self.points[columns], **weights})
        total = system.lower(execution.reduce(sums([
            SystemProductTask(system.problem, given.arrays(0), first, last, self.keep, index)
            for index, (first, last) in enumerate(system.problem.runs())]))["total"])
        given.remove()
        total += self.lambda_A[columns] * (system.penalty() @ P if system.T is None else P)
        if self.rank_one[columns].any():
            total += self.rank_one[columns] * np.outer(self.ones, self.ones @ P)
        return total


def solve_by_products(system: NystromSystem, systems: Sequence[Penalties], execution: Execution, *,
                      preconditioned: bool, required: bool = True) -> Functions:
    """Return the functions of all systems by conjugate gradients: one run, or one for as many factors as fit at once.

    Raises NotConverged: a column ended above the tolerance, and that it does not is `required`.
    """
    params = system.params
    moments = gram_matrices(system, execution, energy=False, labels=False,
                            ones=any(item.has_control for item in systems))
    right = system.right_sides(moments["moments"], systems)
    b, made, most, passes = np.empty_like(right), None, len(systems), 0
    evidence: dict[str, Any] = {"preconditioner": "none"}
    if preconditioned and params.preconditioner != "none":
        made, evidence = make_preconditioner(system, systems, execution)
        most = factors_that_fit(system.r, execution.memory_budget)
    found: dict[str, Any] = {"iterations": [0] * len(systems), "max_residual": 0.0, "not_converged": 0}
    try:
        for chosen in groups_of(systems, most):
            solution, own_passes = _iterate(system, [systems[index] for index in chosen], right[chosen],
                                            moments["sums"], made, execution)
            b[chosen] = solution.value.reshape(system.r, len(chosen), -1).transpose(1, 0, 2)
            passes += own_passes
            own = convergence(solution, len(chosen))
            for index, iterations in zip(chosen, own["iterations"], strict=True):
                found["iterations"][index] = iterations
            found["max_residual"] = max(found["max_residual"], own["max_residual"])
            found["not_converged"] += own["not_converged"]
    finally:
        clear_cache()
        execution.ask_workers(clear_cache)
    evidence |= {"method": "nystrom-pcg" if preconditioned else "nystrom-cg", "passes": passes, **found}
    if required:
        require_converged(evidence, params)
    return system.functions(b, systems, evidence)


def factors_that_fit(r: int, budget: int) -> int:
    """Return how many factors of a preconditioner (r, r) are held at once: those that fit in half the budget, or 1."""
    return max(1, budget // 2 // (8 * r * r))


def groups_of(systems: Sequence[Penalties], most: int) -> list[list[int]]:
    """Return the numbers of the systems in groups of at most `most` penalties each, in order."""
    number = {key: index // most for index, key in enumerate(dict.fromkeys(item.whole for item in systems))}
    groups: list[list[int]] = [[] for _ in range(1 + max(number.values(), default=-1))]
    for index, item in enumerate(systems):
        groups[number[item.whole]].append(index)
    return groups


def _iterate(system: NystromSystem, systems: Sequence[Penalties], right: np.ndarray, ones: np.ndarray,
             made: Preconditioner | None, execution: Execution) -> tuple[Solution, int]:
    """Return the solutions (r, p c) of right-hand sides (p, r, c), and the passes over all blocks."""
    p, r, c = right.shape
    of_column = np.repeat(np.arange(p), c)
    product = BlockedProduct(system, [item for item in systems for _ in range(c)], ones, execution)
    precondition = None
    if made is not None:
        inverses = made.inverses(systems)

        def precondition(R: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return by_system(of_column[columns], R, lambda index, mine: inverses[index](R[:, mine]))

    found = blocked_cg(product, right.transpose(1, 0, 2).reshape(r, p * c), precondition,
                       Stop(system.params.tolerance, system.params.max_iterations))
    return found, product.passes


def convergence(found: Solution, p: int) -> dict[str, Any]:
    """Return how well the columns of p systems were solved (JSON)."""
    return {"iterations": found.iterations.reshape(p, -1).max(axis=1).tolist(),
            "max_residual": float(found.residuals.max(initial=0.0)),
            "not_converged": int((~found.converged).sum())}


def require_converged(evidence: dict[str, Any], params: SystemParams) -> None:
    """Raise NotConverged where a column is above its tolerance."""
    require(not evidence["not_converged"], error=NotConverged,
            what=f"{evidence['not_converged']} columns did not converge in {params.max_iterations} iterations: the "
                 f"worst relative residual is {evidence['max_residual']:.2e}, tolerance {params.tolerance:.0e}",
            why="coefficients that do not solve the system are no estimate of anything",
            fix='use preconditioner "edges" with whitening, solver "nystrom-direct", a larger gamma_A, or raise '
                "max_iterations" if evidence["method"].startswith("nystrom") else
                'use solver "auto", "cg", or "pcg" with more landmarks, a larger gamma_A, or raise max_iterations')
