"""Cross-validation in which points that are held out leave the graph: each fold has an energy of its own.

Without fold F, whose points leave, `Phi' E_F Phi = Phi' E Phi + X + X'`, X = Phi_S' J Phi, from the change J + J' of
the energy (`graph/energy/vertex_removal.py`), which reads the points within two edges of the fold's and no others.
Landmarks stay what they are, those that are held out too; a point that is held out is predicted through its kernel with
them.

    closed form    ridge on the labels that are kept in the kernel `Phi_m (R + rho E_F)^-1 Phi_m'`: for every rho a
                   factor, or an eigendecomposition for all, of a fold, and then one of as many labels or features
                   as there are fewer of, a pair; that of all folds together, `closed_form.py`, has no such kernel
    refit          a system a pair of penalties and fold; of other losses, Newton's method

Nothing is kept of a fold but its values, so that one point a fold takes no more memory than ten folds.
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
from .closed_form import closed_form_bytes, features_of, label_features, ridge_arrays
from .gram import GramSystem, refined, require_solved
from .params import LabelLines
from .penalties import Penalties, by_ratio
from .products import Landmarked, add_product
from .system import NystromSystem


def inductive_bytes(m: int, s: int, block: int, solver: int) -> int:
    """Return the bytes of a fold's task: energies and their change, features of m labels; a block, or its solver."""
    return 8 * (4 * s * s + m * s) + max(block, solver)


def refit_bytes(s: int) -> int:
    """Return the bytes that a system of a fold takes, with its factor."""
    return 8 * 4 * s * s


def near_points(v: int, nnz: int, sizes: Sequence[int]) -> float:
    """Return how many points folds of these sizes read at most: those within two edges, of nnz / v a point."""
    return sum(min(v, size * (1 + nnz / v + (nnz / v) ** 2)) for size in sizes)


def gram_change(problem: Landmarked, change: EnergyChange) -> np.ndarray:
    """Return X + X' (r, r) of the change of the energy, its rows numbered by their places in the blocks."""
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
    """What the values of a fold follow from: features Phi (m, r) of all labels, R (None for I) and its own E (r, r)."""

    number: int
    lines: LabelLines
    Phi: np.ndarray
    R: np.ndarray | None
    E: np.ndarray | None

    @property
    def held(self) -> np.ndarray:
        return np.flatnonzero(self.lines.fold == self.number)

    def penalty(self, norm: float, energy: float) -> np.ndarray:
        """Return `norm R + energy E`."""
        G = norm * (np.eye(self.Phi.shape[1]) if self.R is None else self.R)
        return G + energy * self.E if self.E is not None and energy else G


class FoldSolver(ABC):
    """How the values of a fold are found: picklable."""

    @abstractmethod
    def bytes(self, m: int, s: int) -> int:
        """Return what it takes of m labels and s landmarks."""

    @abstractmethod
    def __call__(self, fold: Fold, systems: Sequence[Penalties]) -> tuple[np.ndarray, float]:
        """Return the values (p, h, c) at the points held out by p systems, and their largest relative residual."""


@dataclass(frozen=True)
class ClosedFormOfFold(FoldSolver):
    """Ridge regression of the labels that are kept in the fold's own kernel, which pairs of one ratio share."""

    centered: bool

    def bytes(self, m: int, s: int) -> int:
        return closed_form_bytes(m, s)

    def __call__(self, fold: Fold, systems: Sequence[Penalties]) -> tuple[np.ndarray, float]:
        lines, held, kept = fold.lines, fold.held, np.flatnonzero(fold.lines.fold != fold.number)
        mean, root = lines.intercepts([fold.number], self.centered)[0], np.sqrt(lines.weight[kept, None])
        z, ratios = root * (lines.target[kept] - mean), by_ratio(systems)
        values = np.empty((len(systems), len(held), z.shape[1]))
        arrays = ridge_arrays(fold.Phi, fold.R, fold.E, sum(ratio > 0 for _, ratio in ratios))
        for (_, ratio), members in ratios.items():
            X = features_of(arrays, ratio)
            of_kept, of_held, dual = root * X[kept], X[held], len(kept) <= X.shape[1]
            if dual:
                A, right, seen = of_kept @ of_kept.T, z, of_held @ of_kept.T
            else:
                A, right, seen = of_kept.T @ of_kept, of_kept.T @ z, of_held
            for index in members:
                factor = factor_raised(A + systems[index].lambda_A * np.eye(len(A)))
                values[index] = seen @ cho_solve(factor, right, check_finite=False) + mean
        return values, 0.0


@dataclass(frozen=True)
class RefitOfFold(FoldSolver):
    """A system (r, r) a pair of penalties."""

    centered: bool

    def bytes(self, m: int, s: int) -> int:
        return refit_bytes(s)

    def __call__(self, fold: Fold, systems: Sequence[Penalties]) -> tuple[np.ndarray, float]:
        lines, held, kept = fold.lines, fold.held, fold.lines.fold != fold.number
        mean = lines.intercepts([fold.number], self.centered)[0]
        Phi, weight = fold.Phi[kept], lines.weight[kept, None]
        labels, right = Phi.T @ (weight * Phi), Phi.T @ (weight * (lines.target[kept] - mean))
        functions, residuals = [], [0.0]
        for system in systems:
            b, residual = refined(labels + fold.penalty(system.lambda_A, system.lambda_I), right)
            functions.append(fold.Phi[held] @ b + mean)
            residuals.append(residual)
        return np.array(functions), float(np.max(residuals))


@dataclass(frozen=True)
class FoldTask:
    """Write `values` (p, h, c) at the labels of a fold, each by p systems without it, in the order of their lines.

    shared : the labels' `row`, `fold`, `weight`, `target` and `features` (m, r); `energy` (r, r) of all points, if any,
    and `penalty` (r, r), where R is not I. Memory: a block of vertices, `inductive_bytes` and what the solver takes.
    """

    problem: Landmarked
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
    """Return what the edges near m points take that leave a graph of v points and nnz weights; BudgetError if too much.
    """
    near = removal_bytes(v, nnz, m)
    require(near <= budget, f'held_out_points="inductive" with {m:,} labels in a graph of {v:,} points',
            error=BudgetError, why=f"the edges near points that leave it take {near:,} bytes, the budget is {budget:,}",
            fix=f'raise memory_budget to {near:,} bytes, use fewer neighbors or labels, or "transductive"')
    return near


def require_folds_fit(system: NystromSystem, solver: FoldSolver, budget: int) -> None:
    """Raise BudgetError where a fold's task does not fit, beside half the budget for a block, or the graph near points.
    """
    m, s, blocks = len(system.lines.row), system.s, system.blocks
    near_bytes(blocks.n, blocks.nnz, m, budget)
    needed = inductive_bytes(m, s, budget // 2, solver.bytes(m, s))
    require(needed <= budget, f'held_out_points="inductive" with {m:,} labels and {s:,} landmarks', error=BudgetError,
            why=f"the graph of a fold and its systems take {needed:,} bytes, the budget is {budget:,}",
            fix=f"raise memory_budget to {needed:,} bytes, use fewer landmarks, or \"transductive\"")


def inductive_values(system: NystromSystem, gram: GramSystem, systems: Sequence[Penalties], solver: FoldSolver,
                     execution: Execution, features: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """Yield the values (m, g, c) of groups of pairs at the label lines, each by the function without its fold.

    systems : F of each pair, held folds 0 to F - 1 in order. gram : of all points. features : (m, r), if made before.
    A task a fold; a group has as many pairs as have values that fit a quarter of the memory budget.
    """
    assert system.graph is not None
    assert not any(item.control for item in systems)  # the control is never chosen
    lines, (m, c) = system.lines, system.lines.target.shape
    F, p = lines.n_held, len(systems) // lines.n_held
    changes = changes_of_folds(system.graph, system.blocks, system.positions, lines.fold, F, execution)
    E = gram.energy(False)
    shared = execution.share(
        row=lines.row, fold=lines.fold, weight=lines.weight, target=lines.target,
        features=label_features(system, execution) if features is None else features,
        **({} if E is None else {"energy": E}), **({} if gram.T is not None else {"penalty": gram.K_ss}))
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


def refolded(system: NystromSystem, lines: LabelLines) -> NystromSystem:
    """Return the system with the folds of other lines, of the same labels."""
    return replace(system, lines=replace(system.lines, fold=lines.fold, n_held=lines.n_held))
