"""Solve many systems of Nystrom LapRLS at once: from Gram matrices, or by conjugate gradients on shared products."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from ...errors import NotConverged, explain
from ...execution.tasks import Execution
from ...solvers.blocked_cg import Stop, blocked_cg, column_scale
from ...solvers.solve import Solution
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from .penalties import System
from .preconditioner import Preconditioner, factor_raised, make_preconditioner
from .products import MOST_RUNS, ColumnsTask, JudgeTask, let_go, runs_of_blocks, sum_parts
from .system import NystromSystem, SystemParams, gram_bytes, gram_matrices

SYSTEMS_IN_A_TASK = 8
REFINEMENTS, EXACT = 10, 1e-12  # steps at most, and the residual at which there is nothing to improve


@dataclass(frozen=True)
class Functions:
    """Coefficients of landmarks (p, s, c) and intercepts (p, c) of p systems, with the evidence (JSON)."""

    coef: np.ndarray
    intercept: np.ndarray
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GramSolveTask:
    """Solve systems from `first` on from Gram matrices: `b` (p, r, c)."""

    sums: Arrays  # what `gram_matrices` returns, `penalty` (r, r), and `right` of all systems
    systems: tuple[System, ...]
    first: int
    chance: tuple[float, float]

    def __call__(self, out: PartWriter) -> Receipt:
        sums = self.sums.load()
        labels = sums["labels"].sum(axis=0)
        found, residual = [], 0.0
        for system, right in zip(self.systems, sums["right"][self.first:], strict=False):
            A = labels - sums["labels"][system.held] if system.held >= 0 else labels
            A = A + system.lambda_A * sums["penalty"]
            if system.has_control:
                a, b = self.chance
                A += system.lambda_I * (a * sums["points"] + b * np.outer(sums["sums"], sums["sums"]))
            elif system.has_graph:
                A += system.lambda_I * sums["energy"]
            solution, own = refined(A, right)
            residual = float(np.maximum(residual, own))  # NaN is larger than any number
            found.append(solution)
        return {**out.write(b=np.array(found)), "residual": residual}


def refined(A: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the solution of a positive semi-definite system, and its largest relative residual of a column.

    Where the diagonal had to be raised for a factor, that is the factor of another matrix: the solution is then
    improved by what is left, as long as that halves the residual.
    """
    size = column_scale(right)
    right = right / size
    factor, scale = factor_raised(A), np.maximum(np.linalg.norm(right, axis=0), 1e-300)
    solution, left, residual = np.zeros_like(right), right, np.inf
    for _ in range(REFINEMENTS):
        trial = solution + cho_solve(factor, left, check_finite=False)
        rest = right - A @ trial
        reached = float((np.linalg.norm(rest, axis=0) / scale).max())
        if not reached < residual / 2:
            return (trial * size, reached) if residual == np.inf else (solution * size, residual)
        solution, left, residual = trial, rest, reached
        if residual < EXACT:
            break
    return solution * size, residual


def solve_from_gram(system: NystromSystem, sums: dict[str, np.ndarray], systems: Sequence[System],
                    execution: Execution) -> Functions:
    """Return the functions of all systems: a Cholesky factor, r^3 / 3 flops, for each.

    sums : what `gram_matrices` returned, with `energy` where a gamma_I is positive and `points` where one is the
    control's.

    Raises
    ------
    ParameterError : a system is not positive. NotConverged : a residual is above the tolerance, or 1e-6 if that is
        more.
    """
    shared = execution.share(**sums, penalty=system.penalty(), right=system.right_sides(sums, systems))
    ranges = row_ranges(len(systems), SYSTEMS_IN_A_TASK)
    parts = execution.scratch()
    receipts = execution.map([GramSolveTask(shared, tuple(systems[start:stop]), start, system.blocks.chance)
                              for start, stop in ranges], parts)
    worst = float(np.max([receipt["residual"] for receipt in receipts]))
    if not worst <= max(system.params.tolerance, 1e-6):
        raise NotConverged(explain(
            f"a system of {system.s} landmarks is solved to a relative residual of {worst:.2e} only",
            why="it is singular to the precision of the kernel blocks, or its numbers are too large for floats: "
                "coefficients that do not solve it are no estimate of anything",
            fix="use whitening, precision float64, or a larger gamma_A; scale targets and weights to about 1"))
    b = np.concatenate([parts.read(index)["b"] for index in range(len(ranges))])
    coef = np.array([system.lift(own) for own in b])
    return Functions(coef, system.intercepts(systems), {
        "method": "nystrom-direct", "max_residual": worst})


@dataclass
class BlockedProduct:
    """The product of columns with their systems, over all blocks of points, by tasks."""

    system: NystromSystem
    of_column: np.ndarray  # (t,), the system of each column
    systems: Sequence[System]
    sums: np.ndarray  # Phi' 1 (r,)
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
        execution.map([ColumnsTask(self.system.problem, given.arrays(0), first, last, self.keep, index)
                       for index, (first, last) in enumerate(self.runs)], parts)
        total = self.system.lower(sum_parts(parts, len(self.runs), execution)["total"])
        parts.remove()
        given.remove()
        total += self.lambda_A[columns] * (self.system.penalty() @ P if self.system.whitening is None else P)
        if self.rank_one[columns].any():
            total += self.rank_one[columns] * np.outer(self.sums, self.sums @ P)
        return total


def solve_by_products(system: NystromSystem, systems: Sequence[System], execution: Execution, *,
                      preconditioned: bool, required: bool = True) -> Functions:
    """Return the functions of all systems by conjugate gradients, all columns in one run.

    Raises
    ------
    NotConverged : a column ended above the tolerance, and that it does not is `required`.
    """
    params = system.params
    sums = gram_matrices(system, execution, execution.scratch(), energy=False, labels=False,
                         sums=any(item.has_control for item in systems))
    right = system.right_sides(sums, systems)
    b, made, most = np.empty_like(right), None, len(systems)
    evidence: dict[str, Any] = {"preconditioner": "none"}
    if preconditioned and params.preconditioner != "none":
        made, evidence = make_preconditioner(system, systems, execution)
        most = factors_that_fit(system.r, execution.memory_budget)
    passes, iterations, residual, not_converged = 0, np.zeros(len(systems), np.int64), 0.0, 0
    try:
        for chosen in groups_of(systems, most):
            own = [systems[index] for index in chosen]
            b[chosen], found, own_passes = _iterate(system, own, right[chosen], sums["sums"], made, execution)
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


def _iterate(system: NystromSystem, systems: Sequence[System], right: np.ndarray, sums: np.ndarray,
             made: Preconditioner | None, execution: Execution) -> tuple[np.ndarray, Solution, int]:
    """Return b (p, r, c) of right-hand sides of that shape, the solution in columns, and the passes over all blocks."""
    p, r, c = right.shape
    of_column = np.repeat(np.arange(p), c)
    product = BlockedProduct(system, of_column, systems, sums, execution)
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


FLOPS, SPARSE_FLOPS, ENTRY_SECONDS, READ_BYTES = 4e10, 1.5e9, 3e-9, 8e9  # of one core, a second, or seconds an entry
USUAL_ITERATIONS = 25


def choose_method(v: int, halo: float, nnz: int, s: int, m: int, d: int, systems: Sequence[System], n_outputs: int,
                  budget: int, itemsize: int, n_folds: int, edges: int = 8) -> tuple[str, dict[str, float]]:
    """Return "nystrom-direct" or "nystrom-pcg", and the seconds of one core that each is expected to take.

    v vertices with `halo` more read a block, nnz entries of E, s landmarks, m labels in n_folds, d features. Gram
    matrices take `v s^2 (1 + 2 + 1)` flops, for whitening, graph and control, `m s^2` for the labels and `s^3 / 3` a
    system, whatever the number of columns; iterations take `4 v (1 + halo) s` flops a column, and the kernel again each
    time where it does not fit in half the budget. Gram matrices are not formed where their sums exceed the budget.
    """
    entry = ENTRY_SECONDS + 2 * d / FLOPS
    graph = any(item.has_graph for item in systems)
    control = any(item.has_control for item in systems)
    penalties = len({item.penalties for item in systems})
    reached, t = (1 + halo if graph else 1.0), len(systems) * n_outputs
    points = float(v if graph or control else m)
    products = points * s * s * (1 + 2 * graph + control) + m * s * s + len(systems) * s**3 / 3
    direct = points * reached * s * entry + products / FLOPS + 2.0 * nnz * s * graph / SPARSE_FLOPS
    kept = points * reached * s * itemsize <= budget / 2
    product = points * reached * s * max(4 * t / FLOPS, 2 * itemsize / READ_BYTES) + 2.0 * nnz * t / SPARSE_FLOPS
    iterations = USUAL_ITERATIONS * (product + (0 if kept else points * reached * s * entry))
    rows = edges * s * (graph + control) + min(m, edges * s)
    sampled = 2 * rows * s * (entry + s / FLOPS) + (2 + penalties / 3) * s**3 / FLOPS
    pcg = points * reached * s * entry + sampled + iterations
    costs = {"nystrom-direct": direct, "nystrom-pcg": pcg}
    fits = gram_bytes(s, n_folds, control, graph, n_outputs=n_outputs) <= budget
    return "nystrom-direct" if fits and direct <= pcg else "nystrom-pcg", costs


def method_of(system: NystromSystem, systems: Sequence[System], execution: Execution) -> tuple[str, dict[str, float]]:
    """Return the method that the parameters name, or the cheaper one for "auto", and the costs of both."""
    if system.params.solver != "auto":
        return system.params.solver, {}
    blocks, lines = system.blocks, system.lines
    return choose_method(blocks.n, blocks.halo, blocks.nnz, system.s, len(lines.row), system.problem.rows.shape[1],
                         systems, lines.target.shape[1], execution.memory_budget, system.params.itemsize,
                         system.problem.n_folds, system.params.edges)


def gram_for(system: NystromSystem, systems: Sequence[System], execution: Execution,
             parts: Parts | None = None) -> dict[str, np.ndarray]:
    """Return the Gram matrices that these systems are made of; parts : where shares of them go, scratch by default."""
    control, graph = any(item.has_control for item in systems), any(item.has_graph for item in systems)
    return gram_matrices(system, execution, parts or execution.scratch(), energy=graph, points=control, sums=control)


class NystromMachine:
    """Solves systems of one problem; Gram matrices, once made, serve all that follow."""

    def __init__(self, system: NystromSystem, expected: Sequence[System], execution: Execution,
                 parts: Parts | None = None):
        self.system, self.execution = system, execution
        self.method, self.costs = method_of(system, expected, execution)
        self.sums = gram_for(system, expected, execution, parts) if self.method == "nystrom-direct" else None

    def solve(self, systems: Sequence[System]) -> Functions:
        """Return the functions of some systems."""
        if self.sums is not None:
            return solve_from_gram(self.system, self.sums, systems, self.execution)
        return solve_by_products(self.system, systems, self.execution, preconditioned=self.method == "nystrom-pcg")

    def judge(self, systems: Sequence[System], coded: bool) -> dict[str, np.ndarray]:
        """Return how systems with each fold held out do on it, by pair."""
        return judge(self.system, self.solve(systems), systems, coded, self.execution)


def judge(system: NystromSystem, functions: Functions, systems: Sequence[System], coded: bool,
          execution: Execution) -> dict[str, np.ndarray]:
    """Return what each pair of penalties does at labeled points that its systems did not see.

    systems : F of each pair, held folds 0 to F - 1 in order. Returns, by pair, `squares` (mean squared residual over
    points and columns) and `wrong` (share of points; zero unless `coded`).
    """
    F = system.lines.n_held
    p, s, c = functions.coef.shape
    assert [item.held for item in systems] == list(range(F)) * (p // F)
    B = functions.coef.reshape(p // F, F, s, c).transpose(1, 2, 0, 3)
    intercept = functions.intercept.reshape(p // F, F, c).transpose(1, 0, 2)
    shared = execution.share(B=np.ascontiguousarray(B), intercept=intercept)
    runs, parts = runs_of_blocks(len(system.problem.ranges), MOST_RUNS), execution.scratch()
    execution.map([JudgeTask(system.problem, shared, first, last, coded) for first, last in runs], parts)
    found = sum_parts(parts, len(runs), execution)
    whole = system.lines.judged_weight
    return {"squares": found["squares"] / (whole * c), "wrong": found["wrong"] / whole}
