"""Inductive cross-validation: held-out points leave the graph, so each fold has its own energy.

Without the points of fold F, `Phi' E_F Phi = Phi' E Phi + X + X'`, X = Phi_S' J Phi, with the change J + J' of the
energy (`graph/energy/vertex_removal.py`), which depends only on points within two edges of the fold. Held-out landmarks
stay landmarks.

    closed form    ridge regression in the kernel `Phi_m (R + rho E_F)^-1 Phi_m'`: for each fold a factor for every
                   rho, or one eigendecomposition, and a factor of labels or features for each pair of penalties
    refit          a system for each pair of penalties and fold; for other losses, Newton's method

Only the values of a fold are stored, so the memory does not depend on the number of folds.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve

from ...base.errors import BudgetError, require
from ...execution.tasks import Execution
from ...graph.energy.vertex_removal import EnergyChange, changes_of_folds, removal_bytes
from ...solvers.columns import factor_raised
from ...storage.blocks import Arrays, PartWriter, Receipt, row_ranges
from .closed_form import closed_form_bytes, ridge_arrays, ridge_features
from .gram import GramSystem, refined, require_solved
from .params import LabelLines
from .penalties import Penalties, by_ratio
from .products import BlockedProblem, add_product
from .system import NystromSystem


def inductive_bytes(m: int, s: int, block: int, solver: int) -> int:
    """Return the bytes of a fold's task: energies and their change, features of m labels, and a block or the solver."""
    return 8 * (4 * s * s + m * s) + max(block, solver)


def refit_bytes(s: int) -> int:
    return 8 * 4 * s * s


def near_points(v: int, nnz: int, sizes: Sequence[int]) -> float:
    """Return an upper bound of the points within two edges of folds of these sizes, with nnz / v edges a point."""
    return sum(min(v, size * (1 + nnz / v + (nnz / v) ** 2)) for size in sizes)


def gram_change(problem: BlockedProblem, change: EnergyChange) -> np.ndarray:
    """Return X + X' (r, r) of a change of the energy whose rows are positions in the blocks."""
    features, height = problem.features(), problem.energy.block_rows
    T = problem.landmarks.load().get("T")
    total = np.zeros((features.width, features.points.shape[0]))
    for start, stop in row_ranges(len(change.near), height):
        J = change.half[start:stop]
        product = np.zeros((stop - start, total.shape[1]))
        used = np.unique(J.indices)
        for low, high in row_ranges(len(used), height):
            K = features.block(problem.rows.take(change.rows[used[low:high]]))
            product += J[:, used[low:high]].astype(K.dtype) @ K
        features_near = features(problem.rows.take(change.rows[change.near[start:stop]]))
        add_product(total, features_near, product.astype(features_near.dtype, copy=False))
    X = total if T is None else total @ T
    return X + X.T


@dataclass(frozen=True, eq=False)
class Fold:
    """The inputs of a fold's values: features Phi (m, r) of all labels, R (None for I), and its own E (r, r)."""

    number: int
    lines: LabelLines
    Phi: np.ndarray
    R: np.ndarray | None
    E: np.ndarray | None

    @property
    def held_out(self) -> np.ndarray:
        return np.flatnonzero(self.lines.fold == self.number)

    def penalty(self, norm: float, energy: float) -> np.ndarray:
        """Return `norm R + energy E`."""
        G = norm * (np.eye(self.Phi.shape[1]) if self.R is None else self.R)
        return G + energy * self.E if self.E is not None and energy else G


class FoldSolver(ABC):
    """A picklable function that computes the held-out values of a fold."""

    @abstractmethod
    def bytes(self, m: int, s: int) -> int:
        """Return its memory for m labels and s landmarks."""

    @abstractmethod
    def __call__(self, fold: Fold, systems: Sequence[Penalties]) -> tuple[np.ndarray, float]:
        """Return the held-out values (p, h, c) by p systems, and their largest relative residual."""


@dataclass(frozen=True)
class FoldClosedForm(FoldSolver):
    """Ridge regression on the training labels in the fold's kernel, one for each ratio of penalties."""

    centered: bool

    def bytes(self, m: int, s: int) -> int:
        return closed_form_bytes(m, s)

    def __call__(self, fold: Fold, systems: Sequence[Penalties]) -> tuple[np.ndarray, float]:
        lines, held_out, train = fold.lines, fold.held_out, np.flatnonzero(fold.lines.fold != fold.number)
        mean, root = lines.intercepts([fold.number], self.centered)[0], np.sqrt(lines.weight[train, None])
        z, ratios = root * (lines.target[train] - mean), by_ratio(systems)
        values = np.empty((len(systems), len(held_out), z.shape[1]))
        arrays = ridge_arrays(fold.Phi, fold.R, fold.E, sum(ratio > 0 for _, ratio in ratios))
        for (_, ratio), members in ratios.items():
            X = ridge_features(arrays, ratio)
            X_train, X_held_out, dual = root * X[train], X[held_out], len(train) <= X.shape[1]
            if dual:
                A, right, evaluate = X_train @ X_train.T, z, X_held_out @ X_train.T
            else:
                A, right, evaluate = X_train.T @ X_train, X_train.T @ z, X_held_out
            for index in members:
                factor = factor_raised(A + systems[index].lambda_A * np.eye(len(A)))
                values[index] = evaluate @ cho_solve(factor, right, check_finite=False) + mean
        return values, 0.0


@dataclass(frozen=True)
class FoldRefit(FoldSolver):
    """A system (r, r) for each pair of penalties."""

    centered: bool

    def bytes(self, m: int, s: int) -> int:
        return refit_bytes(s)

    def __call__(self, fold: Fold, systems: Sequence[Penalties]) -> tuple[np.ndarray, float]:
        lines, held_out, train = fold.lines, fold.held_out, fold.lines.fold != fold.number
        mean = lines.intercepts([fold.number], self.centered)[0]
        Phi, weight = fold.Phi[train], lines.weight[train, None]
        labels, right = Phi.T @ (weight * Phi), Phi.T @ (weight * (lines.target[train] - mean))
        functions, residuals = [], [0.0]
        for system in systems:
            b, residual = refined(labels + fold.penalty(system.lambda_A, system.lambda_I), right)
            functions.append(fold.Phi[held_out] @ b + mean)
            residuals.append(residual)
        return np.array(functions), float(np.max(residuals))


@dataclass(frozen=True)
class FoldTask:
    """Write the held-out `values` (p, h, c) of a fold's label lines by p systems.

    shared : `row`, `fold`, `weight`, `target` and `features` (m, r) of the labels; `energy` (r, r) of all points, if
    any, and `penalty` (r, r), where R is not I. Memory: `inductive_bytes`.
    """

    problem: BlockedProblem
    shared: Arrays
    change: Arrays
    fold: int
    systems: tuple[Penalties, ...]
    solver: FoldSolver

    def __call__(self, out: PartWriter) -> Receipt:
        shared = self.shared.load()
        lines = LabelLines(shared["row"], shared["fold"], shared["weight"], shared["target"])
        E = None
        if "energy" in shared:
            E = shared["energy"] + gram_change(self.problem, EnergyChange.from_arrays(self.change.load()))
        fold = Fold(self.fold, lines, shared["features"], shared.get("penalty"), E)
        values, residual = self.solver(fold, self.systems)
        return {**out.write(values=values), "residual": residual}


def near_bytes(v: int, nnz: int, m: int, budget: int) -> int:
    """Return the bytes of the edges near m points that leave a graph of v points; raise BudgetError over budget."""
    near = removal_bytes(v, nnz, m)
    require(near <= budget, f'held_out_points="inductive" with {m:,} labels in a graph of {v:,} points',
            error=BudgetError, why=f"the edges near points that leave it take {near:,} bytes, the budget is {budget:,}",
            fix=f'raise memory_budget to {near:,} bytes, use fewer neighbors or labels, or "transductive"')
    return near


def require_folds_fit(system: NystromSystem, solver: FoldSolver, budget: int) -> None:
    """Raise BudgetError where a fold's task, with half the budget for a block, or the edges near points do not fit."""
    m, s, blocks = len(system.lines.row), system.s, system.blocks
    near_bytes(blocks.n, blocks.nnz, m, budget)
    needed = inductive_bytes(m, s, budget // 2, solver.bytes(m, s))
    require(needed <= budget, f'held_out_points="inductive" with {m:,} labels and {s:,} landmarks', error=BudgetError,
            why=f"the graph of a fold and its systems take {needed:,} bytes, the budget is {budget:,}",
            fix=f"raise memory_budget to {needed:,} bytes, use fewer landmarks, or \"transductive\"")


def inductive_values(system: NystromSystem, gram: GramSystem, systems: Sequence[Penalties], solver: FoldSolver,
                     execution: Execution, features: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the held-out values (m, g, c) of the label lines for groups of pairs of penalties, by a task for each fold.

    systems : of each pair, one for each fold 0 to F - 1. gram : of all points. features : (m, r) of the labels. The
    values of a group fit in a quarter of the memory budget.
    """
    assert system.graph is not None
    assert not any(item.control for item in systems)  # the control is never selected
    lines, (m, c) = system.lines, system.lines.target.shape
    F, p = lines.n_held_out_folds, len(systems) // lines.n_held_out_folds
    changes = changes_of_folds(system.graph, system.blocks, system.positions, lines.fold, F, execution)
    E = gram.energy(False)
    shared = execution.share(
        row=lines.row, fold=lines.fold, weight=lines.weight, target=lines.target, features=features,
        **({} if E is None else {"energy": E}), **({} if gram.T is not None else {"penalty": gram.penalty()}))
    parts = execution.scratch()
    receipts = execution.map([FoldTask(system.problem, shared, changes.arrays(fold), fold, tuple(systems[fold::F]),
                                       solver) for fold in range(F)], parts)
    require_solved(system, max(receipt["residual"] for receipt in receipts))
    for start, stop in row_ranges(p, max(1, execution.memory_budget // 4 // (8 * c * max(1, m)))):
        values = np.full((m, stop - start, c), np.nan)
        for fold in range(F):
            values[lines.fold == fold] = parts.read(fold)["values"][start:stop].transpose(1, 0, 2)
        yield values
    parts.remove()
    changes.remove()


def with_new_folds(system: NystromSystem, lines: LabelLines) -> NystromSystem:
    """Return the system with the folds of other lines of the same labels."""
    return replace(system, lines=replace(system.lines, fold=lines.fold, n_held_out_folds=lines.n_held_out_folds))
