"""Nystrom systems from Gram matrices, which are summed over all points, solved by Cholesky factors."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_solve

from ...base.digest import JsonObject
from ...base.errors import BudgetError, NotConverged, require
from ...execution.tasks import Execution, sums
from ...solvers.columns import column_scale, factor_raised
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from .params import Functions, LabelLines, SystemParams
from .penalties import Penalties
from .products import MAX_RUNS, GramTask, gram_bytes
from .system import Basis, NystromSystem

SYSTEMS_IN_A_TASK = 8
REFINEMENTS, EXACT = 10, 1e-12  # upper bound of refinement steps, and the residual at which they end


@dataclass(frozen=True, eq=False)
class GramSystem(Basis):
    """Gram matrices from which systems are solved without the points.

    relabeled_mean : see `GraphEnergy.relabeled_mean`.
    sums : `energy` (r, r) for gamma_I > 0; `points` (r, r) and `sums` (r,) for the control; `labels` (F, r, r) and
    `moments` (F, r, c + 1) of each fold, or of all labels; and perhaps `features` (m, r) of the labels.
    all_labels : the sums over folds of `labels` and `moments`, where `sums` lacks labels that are never held out.
    """

    relabeled_mean: tuple[float, float]
    sums: dict[str, np.ndarray]
    all_labels: dict[str, np.ndarray] = field(default_factory=dict)

    def of_all_labels(self, name: str) -> np.ndarray:
        """Return `labels` (r, r) or `moments` (r, c + 1), summed over all folds."""
        if name in self.all_labels:
            return self.all_labels[name]
        of_folds = self.sums[name]
        return of_folds[0] if len(of_folds) == 1 else of_folds.sum(axis=0)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        """Return the arrays for `from_arrays`, with the labels of all folds summed."""
        names: tuple[str, ...] = ("labels", "moments")
        total = {name: self.of_all_labels(name)[None] for name in names if name in self.sums}
        basis = {"K_ss": self.penalty()} if self.T is None else {"T": self.T}
        return {**self.sums, **total, **basis}, {"relabeled_mean": list(self.relabeled_mean)}

    def energy(self, control: bool) -> np.ndarray | None:
        """Return E (r, r), or for the control its mean over relabelings; None where no gamma_I is positive."""
        if not control:
            return self.sums.get("energy")
        a, b = self.relabeled_mean
        return a * self.sums["points"] + b * np.outer(self.sums["sums"], self.sums["sums"])

    def energies(self, systems: Sequence[Penalties]) -> dict[str, np.ndarray]:
        """Return the `energy` of the graph and of the `control`, as far as these systems need them."""
        graph, control = any(item.has_graph for item in systems), any(item.has_control for item in systems)
        energies = {"energy": self.energy(False) if graph else None, "control": self.energy(True) if control else None}
        return {name: E for name, E in energies.items() if E is not None}

    def with_folds(self, lines: LabelLines, folds: dict[str, np.ndarray]) -> "GramSystem":
        """Return the system of the same labels in other folds, from the sums of each held-out fold."""
        names = ("labels", "moments")
        return replace(self, lines=lines, sums=self.sums | {name: folds[name] for name in names},
                       all_labels={name: self.of_all_labels(name) for name in names})

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject, lines: LabelLines,
                    params: SystemParams, fit_intercept: bool) -> "GramSystem":
        """Return the system of all labels `lines`, none held out, from `to_arrays`."""
        summed = {name: array for name, array in arrays.items() if name not in ("K_ss", "T")}
        mean = tuple(attributes["relabeled_mean"])
        return cls(arrays.get("K_ss"), arrays.get("T"), lines.whole, params, fit_intercept, mean, summed)


def runs_that_fit(sums_bytes: int, budget: int) -> int:
    """Return the number of runs of blocks, each with its own sums: as many as fit at once, 2 to `MAX_RUNS`."""
    return int(np.clip(budget // max(1, sums_bytes), 2, MAX_RUNS))


def folds_that_fit(s: int, n_outputs: int, budget: int) -> int:
    """Return the number of held-out folds whose Gram matrices are summed at once, in two runs of blocks."""
    one, two = (gram_bytes(s, n_folds, points=False, energy=False, n_outputs=n_outputs) for n_folds in (1, 2))
    return max(1, 1 + (budget // 4 - one) // (two - one))


def folds_in_first_pass(sizes: Sequence[int], s: int, n_outputs: int, budget: int) -> bool:
    """Return whether the pass for a fit sums each fold that it will hold out, of these sizes, alone.

    Single labels are held out in closed form instead.
    """
    fold_bytes = gram_bytes(s, len(sizes), points=False, energy=False, n_outputs=n_outputs)
    return max(sizes, default=1) > 1 and fold_bytes <= budget // 4


def gram_matrices(system: NystromSystem, execution: Execution, parts: Parts | None = None, *, energy: bool = True,
                  points: bool = False, labels: bool = True, ones: bool = False,
                  held_bytes: int = 0) -> dict[str, np.ndarray]:
    """Return the sums of `GramTask` over all blocks, by one pass over the points.

    parts : for the partial sums, scratch by default. held_bytes : of the memory budget, of the sums of all labels.
    Raises BudgetError where the sums of one task do not fit.
    """
    sums_bytes = gram_bytes(system.s, system.problem.n_folds, points, energy, labels, system.lines.target.shape[1])
    budget, also = execution.memory_budget, "" if system.inductive else ' or folds, or solver "nystrom-pcg"'
    require(sums_bytes <= budget, f"Gram matrices of {system.s} landmarks and {system.problem.n_folds} folds",
            error=BudgetError, why=f"their sums take {sums_bytes:,} bytes, the budget is {budget:,}",
            fix=f"use fewer landmarks{also}, or raise memory_budget to {sums_bytes:,} bytes")
    tasks = [GramTask(system.problem, first, last, energy, points, labels, ones)
             for first, last in system.problem.runs(runs_that_fit(sums_bytes, budget - held_bytes))]
    total = execution.reduce(sums(tasks), parts)
    if energy:
        E = total["energy"] if system.T is None else total["energy"] @ system.T
        total["energy"] = (E + E.T) / 2
    return total | {name: system.lower(total[name]) for name in ("sums", "moments")}


def gram_system(system: NystromSystem, systems: Sequence[Penalties], execution: Execution, parts: Parts | None = None,
                *, labels: bool = True) -> GramSystem:
    """Return the Gram matrices that these systems need; those of the labels only if `labels`."""
    control, graph = any(item.has_control for item in systems), any(item.has_graph for item in systems)
    gram = gram_matrices(system, execution, parts, energy=graph, points=control, ones=control, labels=labels)
    return GramSystem(system.K_ss, system.T, system.lines, system.params, system.fit_intercept,
                      system.blocks.relabeled_mean, gram)


@dataclass(frozen=True)
class GramSolveTask:
    """Solve systems from `first` on; write `b` (p, r, c).

    sums : `all_labels` (r, r); `labels` (F, r, r) if folds are held out; those of `energies`; `penalty` (r, r), the
    identity if absent; and `right` of all systems.
    """

    sums: Arrays
    systems: tuple[Penalties, ...]
    first: int

    def __call__(self, out: PartWriter) -> Receipt:
        sums = self.sums.load()
        functions, residuals = [], []
        for system, right in zip(self.systems, sums["right"][self.first:], strict=False):
            A = sums["all_labels"] - (sums["labels"][system.held_out] if system.held_out >= 0 else 0)
            if "penalty" in sums:
                A += system.lambda_A * sums["penalty"]
            else:
                A[np.diag_indices_from(A)] += system.lambda_A
            if system.has_control:
                A += system.lambda_I * sums["control"]
            elif system.has_graph:
                A += system.lambda_I * sums["energy"]
            solution, residual = refined(A, right)
            functions.append(solution)
            residuals.append(residual)
        return {**out.write(b=np.array(functions)), "residual": float(np.max(residuals))}  # NaN if one is


def refined(A: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the solution of a positive semi-definite system, and the largest relative residual of a column.

    The factor may be that of a matrix with a raised diagonal; iterative refinement continues as long as it halves the
    residual.
    """
    size = column_scale(right)
    right = right / size
    factor, scale = factor_raised(A), np.maximum(np.linalg.norm(right, axis=0), 1e-300)
    solution, residuals, worst = np.zeros_like(right), right, np.inf
    for _ in range(REFINEMENTS):
        trial = solution + cho_solve(factor, residuals, check_finite=False)
        trial_residuals = right - A @ trial
        trial_worst = float((np.linalg.norm(trial_residuals, axis=0) / scale).max())
        if not trial_worst < worst / 2:
            return (trial * size, trial_worst) if worst == np.inf else (solution * size, worst)
        solution, residuals, worst = trial, trial_residuals, trial_worst
        if worst < EXACT:
            break
    return solution * size, worst


def require_solved(system: Basis, worst: float) -> None:
    """Raise NotConverged where the largest relative residual is above the tolerance and above 1e-6."""
    require(worst <= max(system.params.tol, 1e-6), error=NotConverged,
            what=f"a system of {system.s} landmarks is solved to a relative residual of {worst:.2e} only",
            why="it is singular to the precision of the kernel blocks, or its numbers are too large for floats, so the "
                "coefficients are meaningless",
            fix="use whitening, precision float64, or a larger gamma_A; scale targets and weights to about 1")


def solve_from_gram(system: GramSystem, systems: Sequence[Penalties], execution: Execution) -> Functions:
    """Return the functions of all systems, by a Cholesky factor, r^3 / 3 flops, for each.

    Systems with a held-out fold need the Gram matrices of each fold. Raises ParameterError: a system is not positive.
    NotConverged: see `require_solved`.
    """
    assert all(item.held_out < system.lines.n_held_out_folds for item in systems)
    held_out = any(item.held_out >= 0 for item in systems)
    shared = execution.share(
        **system.energies(systems), all_labels=system.of_all_labels("labels"),
        **({"labels": system.sums["labels"]} if held_out else {}),
        **({"penalty": system.penalty()} if system.T is None else {}),
        right=system.right_sides(system.of_all_labels("moments"), system.sums["moments"], systems))
    ranges, parts = row_ranges(len(systems), SYSTEMS_IN_A_TASK), execution.scratch()
    receipts = execution.map([GramSolveTask(shared, tuple(systems[start:stop]), start)
                              for start, stop in ranges], parts)
    worst = float(np.max([receipt["residual"] for receipt in receipts]))
    require_solved(system, worst)
    b = np.concatenate([parts.read(index)["b"] for index in range(len(ranges))])
    return system.functions(b, systems, {"method": "nystrom-direct", "max_residual": worst})
