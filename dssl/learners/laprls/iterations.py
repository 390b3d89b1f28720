"""Systems of landmarks by conjugate gradients, all columns in one run, on products that share each kernel block."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NotConverged, explain
from ...execution.tasks import Execution, sums
from ...solvers.blocked_cg import Stop, blocked_cg
from ...solvers.solve import Solution
from .gram import gram_matrices
from .kept import SystemProductTask, let_go
from .params import Functions, SystemParams
from .penalties import System
from .preconditioner import Preconditioner, make_preconditioner
from .products import MOST_RUNS, runs_of_blocks
from .system import NystromSystem


@dataclass
class BlockedProduct:
    """The product of columns with their systems, over all blocks of points, by tasks."""

    system: NystromSystem
    of_column: np.ndarray  # (t,), the system of each column
    systems: Sequence[System]
    ones: np.ndarray  # Phi' 1 (r,)
    execution: Execution
    passes: int = 0

    def __post_init__(self) -> None:
        a, b = self.system.blocks.chance
        own = [self.systems[index] for index in self.of_column]
        self.lambda_A = np.array([item.lambda_A for item in own])
        self.energy = np.array([item.lambda_I if item.has_graph else 0.0 for item in own])
        self.points = np.array([item.lambda_I * a if item.has_control else 0.0 for item in own])
        self.rank_one = np.array([item.lambda_I * b if item.has_control else 0.0 for item in own])
        self.held = np.array([item.held for item in own])
        budget = self.execution.memory_budget
        self.runs = runs_of_blocks(len(self.system.problem.ranges), MOST_RUNS)
        self.keep = budget // 2 * self.execution.tasks_per_process

    def __call__(self, P: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the products (r, u) of P (r, u) with the systems of these columns (u,)."""
        self.passes += 1
        execution, parts, given = self.execution, self.execution.scratch(), self.execution.scratch()
        given.write(0, {"P": self.system.lift(P), "energy": self.energy[columns], "points": self.points[columns],
                        "held": self.held[columns]})
        shares = sums([SystemProductTask(self.system.problem, given.arrays(0), first, last, self.keep, index)
                       for index, (first, last) in enumerate(self.runs)])
        total = self.system.lower(execution.reduce(shares, parts)["total"])
        parts.remove()
        given.remove()
        total += self.lambda_A[columns] * (self.system.penalty() @ P if self.system.T is None else P)
        if self.rank_one[columns].any():
            total += self.rank_one[columns] * np.outer(self.ones, self.ones @ P)
        return total


def solve_by_products(system: NystromSystem, systems: Sequence[System], execution: Execution, *,
                      preconditioned: bool, required: bool = True) -> Functions:
    """Return the functions of all systems by conjugate gradients, all columns in one run.

    Raises
    ------
    NotConverged : a column ended above the tolerance, and that it does not is `required`.
    """
    params = system.params
    moments = gram_matrices(system, execution, execution.scratch(), energy=False, labels=False,
                            ones=any(item.has_control for item in systems))
    right = system.right_sides(moments, systems)
    b, made, most = np.empty_like(right), None, len(systems)
    evidence: dict[str, Any] = {"preconditioner": "none"}
    if preconditioned and params.preconditioner != "none":
        made, evidence = make_preconditioner(system, systems, execution)
        most = factors_that_fit(system.r, execution.memory_budget)
    passes, iterations, residual, not_converged = 0, np.zeros(len(systems), np.int64), 0.0, 0
    try:
        for chosen in groups_of(systems, most):
            own = [systems[index] for index in chosen]
            b[chosen], found, own_passes = _iterate(system, own, right[chosen], moments["sums"], made, execution)
            passes += own_passes
            iterations[chosen] = found.iterations.reshape(len(own), -1).max(axis=1)
            residual = max(residual, float(found.residuals.max(initial=0.0)))
            not_converged += int((~found.converged).sum())
    finally:
        forget(execution)
    evidence |= {"method": "nystrom-pcg" if preconditioned else "nystrom-cg", "passes": passes,
                 "iterations": iterations.tolist(), "max_residual": residual, "not_converged": not_converged}
    if required:
        require_converged(evidence, params)
    return Functions(np.array([system.lift(own) for own in b]), system.intercepts(systems), evidence)


def factors_that_fit(r: int, budget: int) -> int:
    """Return how many factors of a preconditioner (r, r) are held at once: those that fit in half the budget, or 1."""
    return max(1, budget // 2 // (8 * r * r))


def groups_of(systems: Sequence[System], most: int) -> list[list[int]]:
    """Return the numbers of the systems in groups of at most `most` penalties each, in order."""
    number = {key: index // most for index, key in enumerate(dict.fromkeys(item.penalties for item in systems))}
    groups: list[list[int]] = [[] for _ in range(1 + max(number.values(), default=-1))]
    for index, item in enumerate(systems):
        groups[number[item.penalties]].append(index)
    return groups


def _iterate(system: NystromSystem, systems: Sequence[System], right: np.ndarray, ones: np.ndarray,
             made: Preconditioner | None, execution: Execution) -> tuple[np.ndarray, Solution, int]:
    """Return b (p, r, c) of right-hand sides of that shape, the solution in columns, and the passes over all blocks."""
    p, r, c = right.shape
    of_column = np.repeat(np.arange(p), c)
    product = BlockedProduct(system, of_column, systems, ones, execution)
    precondition = None
    if made is not None:
        factors = made.factors(systems)

        def precondition(R: np.ndarray, columns: np.ndarray) -> np.ndarray:
            Z = np.empty_like(R)
            for index in np.unique(of_column[columns]):
                mine = of_column[columns] == index
                Z[:, mine] = factors.solve(int(index), R[:, mine])
            return Z

    B = right.transpose(1, 0, 2).reshape(r, p * c)
    found = blocked_cg(product, B, precondition, Stop(system.params.tolerance, system.params.max_iterations))
    return found.value.reshape(r, p, c).transpose(1, 0, 2), found, product.passes


def require_converged(evidence: dict[str, Any], params: SystemParams) -> None:
    """Raise NotConverged where a column is above its tolerance."""
    if evidence["not_converged"]:
        raise NotConverged(explain(
            f"{evidence['not_converged']} columns did not converge in {params.max_iterations} iterations: the worst "
            f"relative residual is {evidence['max_residual']:.2e}, tolerance {params.tolerance:.0e}",
            why="coefficients that do not solve the system are no estimate of anything",
            fix='use preconditioner "edges" with whitening, solver "nystrom-direct", a larger gamma_A, or raise '
                "max_iterations" if evidence["method"].startswith("nystrom") else
                'use solver "auto", "cg", or "pcg" with more landmarks, a larger gamma_A, or raise max_iterations'))


def forget(execution: Execution) -> None:
    """Let every process give back the kernel blocks that it kept."""
    let_go()
    execution.ask_workers(let_go)
