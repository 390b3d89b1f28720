"""Losses other than the squared one on landmarks, such as LapSVM, by Newton's method.

    min over f of  (1 / w) sum of w_i loss(y_i, f(x_i)) + gamma_A |f|_K^2 + gamma_I f' E f / n^2,    w = sum of w_i

The problem depends on the labels' features Phi_m and `G = gamma_A R + (gamma_I / n^2) Phi' E Phi`. "nystrom-direct"
forms G; with fewer labels than features, the function is a sum over labeled points in the kernel `Phi_m G^-1 Phi_m'`,
and one factor of G serves all folds, classes and Newton steps. "nystrom-pcg" and "nystrom-cg" solve a Newton step by
conjugate gradients on blocked products, with the curvature in place of the labels' weights.

References
----------
Belkin, Niyogi, Sindhwani, "Manifold regularization", JMLR 2006, section 4.3; Melacci and Belkin, "Laplacian support
vector machines trained in the primal", JMLR 2011.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from ...base.digest import JsonObject
from ...base.errors import explain
from ...execution.tasks import Execution
from ...solvers.blocked_cg import blocked_cg
from ...solvers.columns import by_system, factor_raised
from ...solvers.solver_params import Stop
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from ..linear.newton import FunctionSpace, LabelFeatures, LabelGram, Minimum, minimize
from ..losses import SmoothLoss
from .closed_form import label_features
from .dense import REFINE, smooth_held_out
from .gram import GramSystem, gram_matrices, gram_system
from .inductive import Fold, FoldSolver, inductive_values, require_folds_fit, with_new_folds
from .iterations import BlockedProduct, Preconditioner, factors_that_fit, make_preconditioner
from .params import Functions, LabelLines, calibration_params
from .penalties import Penalties, by_pair, with_folds
from .products import clear_cache
from .solve import SystemSolver, solver_method
from .system import NystromSystem

PAIRS_IN_A_TASK = 4  # of penalties, each started at the minimum of the previous one
STEPS, PASSES = 8, 75  # of a column, measured on usps and covtype; a pass has two products, one for the intercept


def newton_bytes(m: int, r: int) -> int:
    """Return the bytes of a task of Newton steps for m labels and r features.

    G, its factor and the energy; and for m <= r `G^-1/2 Phi'`, N and its system, or else weighted features, their
    product and its factor.
    """
    return 8 * (3 * r * r + m * r + (m * r + 4 * m * m if m <= r else m * r + 2 * r * r))


def newton_flops(m: int, r: int, systems: Sequence[Penalties], c: int) -> float:
    """Return the flops of `NewtonTask` for systems of c columns each."""
    step = m**3 / 3 if m <= r else m * r * r + r**3 / 3
    return len(by_pair(systems)) * (r**3 / 3 + min(m, r) * m * r) + STEPS * len(systems) * c * step


@dataclass(frozen=True)
class NewtonTask:
    """Write `b` (p, r, c) and `intercept` (p, c) of systems [first, last).

    held_out : write the held-out `values` (g, m, c) of g pairs of penalties instead. refine : see `smooth_held_out`.
    Memory: `newton_bytes`.
    """

    sums: Arrays  # `features` (m, r), `penalty` (r, r), those of `energies`, the label lines and `systems`
    first: int
    last: int
    loss: SmoothLoss
    n_held_out_folds: int
    fit_intercept: bool
    held_out: bool
    refine: int | None

    def __call__(self, out: PartWriter) -> Receipt:
        sums = self.sums.load()
        lines = LabelLines(sums["row"], sums["fold"], sums["weight"], sums["target"], self.n_held_out_folds)
        Phi, c, p, start = sums["features"], lines.target.shape[1], self.last - self.first, None
        r = Phi.shape[1]
        b, intercept, values = np.empty((p, r, c)), np.empty((p, c)), []
        steps, of = np.zeros(p, np.int64), sums["systems"][self.first:self.last]
        for first, last in equal_runs(of[:, 1:]):
            norm, energy, control = of[first, 1:]
            G = norm * sums["penalty"]
            if energy:
                G += energy * sums["control" if control else "energy"]
            space, factor = label_space(Phi, G)
            if self.held_out:
                start = minimize(space, self.loss, *lines.columns([-1]), fit_intercept=self.fit_intercept, start=start)
                values.append(smooth_held_out(space, self.loss, lines, start, self.fit_intercept, self.refine))
                continue
            y, weight = lines.columns(of[first:last, 0].astype(int).tolist())
            minimum = minimize(space, self.loss, y, weight, fit_intercept=self.fit_intercept)
            coef = minimum.coef if factor is None else cho_solve(factor, Phi.T @ minimum.coef, check_finite=False)
            b[first:last] = coef.reshape(r, -1, c).transpose(1, 0, 2)
            intercept[first:last] = minimum.intercept.reshape(-1, c)
            steps[first:last] = minimum.steps.reshape(-1, c).max(axis=1)
        if self.held_out:
            return out.write(values=np.array(values))
        return {**out.write(b=b, intercept=intercept), "steps": steps.tolist()}


def label_space(Phi: np.ndarray, G: np.ndarray) -> tuple[FunctionSpace, tuple[np.ndarray, bool] | None]:
    """Return the functions of features Phi (m, r) with penalty G (r, r), and the factor of G.

    With more labels than features there is no factor; else the functions are sums over labels in `Phi G^-1 Phi'`.
    """
    if len(Phi) > len(G):
        return LabelFeatures(Phi, G), None
    factor = factor_raised(G)
    half = solve_triangular(factor[0], Phi.T, trans=0 if factor[1] else 1, lower=factor[1], check_finite=False)
    return LabelGram(half.T @ half), factor


@dataclass(frozen=True)
class FoldNewton(FoldSolver):
    """Newton's method with the fold's energy, started for each pair of penalties at the minimum of the previous one."""

    loss: SmoothLoss
    fit_intercept: bool

    def bytes(self, m: int, s: int) -> int:
        return newton_bytes(m, s)

    def __call__(self, fold: Fold, systems: Sequence[Penalties]) -> tuple[np.ndarray, float]:
        lines, minima, start = fold.lines, [], None
        y, weight = lines.columns([fold.number])
        for system in systems:
            total = lines.weight[lines.fold != fold.number].sum()
            space, _ = label_space(fold.Phi, fold.penalty(*system.of_the_mean(total)))
            start = minimize(space, self.loss, y, weight, fit_intercept=self.fit_intercept, start=start)
            minima.append(start.values[fold.held_out])
        return np.array(minima), 0.0


def equal_runs(rows: np.ndarray) -> list[tuple[int, int]]:
    """Return the ranges [start, stop) of consecutive equal rows of an array (p, q)."""
    edges = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
    return list(zip([0, *edges.tolist()], [*edges.tolist(), len(rows)], strict=True))


@dataclass(frozen=True, eq=False)
class SmoothSolver(SystemSolver):
    """Solve for other losses from Gram matrices, with the labels' `features` (m, r) among their sums."""

    gram: GramSystem
    loss: SmoothLoss
    execution: Execution
    expected_seconds: Mapping[str, float] = field(default_factory=dict)
    held_out_method: str = "refit"
    method = "nystrom-direct"

    def tasks(self, systems: Sequence[Penalties], *, held_out: bool = False) -> list[tuple[list[int], NewtonTask]]:
        """Return the tasks of systems, each with the numbers of its systems."""
        gram, lines = self.gram, self.gram.lines
        pairs = by_pair(systems)
        groups = [[number for pair in pairs[start:stop] for number in pair]
                  for start, stop in row_ranges(len(pairs), PAIRS_IN_A_TASK)]
        described = np.array([
            (item.held_out, *item.of_the_mean(lines.weight[lines.fold != item.held_out].sum()), item.control)
            for item in systems])[[number for group in groups for number in group]]
        shared = self.execution.share(**gram.energies(systems), features=gram.sums["features"], penalty=gram.penalty(),
                                      systems=described, row=lines.row, fold=lines.fold, weight=lines.weight,
                                      target=lines.target)
        edges = np.cumsum([0, *map(len, groups)]).tolist()
        return [(numbers, NewtonTask(shared, first, last, self.loss, lines.n_held_out_folds, gram.fit_intercept,
                                     held_out, REFINE.get(gram.params.held_out)))
                for numbers, (first, last) in zip(groups, itertools.pairwise(edges), strict=True)]

    def _results(self, tasks: Sequence[NewtonTask]) -> Iterator[tuple[dict[str, np.ndarray], Receipt]]:
        """Yield the arrays and the receipt of each task."""
        parts = self.execution.scratch()
        for index, receipt in enumerate(self.execution.map(tasks, parts)):
            yield parts.read(index), receipt
        parts.remove()

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        p, c = len(systems), self.gram.lines.target.shape[1]
        coef, intercept, steps = np.empty((p, self.gram.s, c)), np.empty((p, c)), np.zeros(p, np.int64)
        tasks = self.tasks(systems)
        for (numbers, _), (arrays, receipt) in zip(tasks, self._results([task for _, task in tasks]), strict=True):
            coef[numbers] = [self.gram.lift(coefficients) for coefficients in arrays["b"]]
            intercept[numbers], steps[numbers] = arrays["intercept"], receipt["steps"]
        return Functions(coef, intercept, {"method": "nystrom-direct", "loss": self.loss.name,
                                           "newton_steps": steps.tolist()})

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        for arrays, _ in self._results([task for _, task in self.tasks(systems, held_out=True)]):
            yield arrays["values"].transpose(1, 0, 2)

    def with_new_folds(self, lines: LabelLines) -> "SmoothSolver":
        return replace(self, gram=self._gram_of(lines))

    def _gram_of(self, lines: LabelLines) -> GramSystem:
        return replace(self.gram, lines=replace(self.gram.lines, fold=lines.fold,
                                                n_held_out_folds=lines.n_held_out_folds))

    def held_out_pairs(self, repetitions: Sequence[tuple[LabelLines, Penalties]]) -> list[np.ndarray]:
        tasks = []
        for lines, pair in repetitions:
            gram = self._gram_of(lines)
            gram = replace(gram, params=calibration_params(gram.params, self.loss, lines))
            (_, task), = SmoothSolver(gram, self.loss, self.execution).tasks(
                with_folds([pair], lines.n_held_out_folds), held_out=True)
            tasks.append(task)
        return [arrays["values"][0] for arrays, _ in self._results(tasks)]


@dataclass(frozen=True, eq=False, kw_only=True)
class InductiveSmoothSolver(SmoothSolver):
    """A `SmoothSolver` whose held-out points leave the graph."""

    system: NystromSystem

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        fold_solver = FoldNewton(self.loss, self.system.fit_intercept)
        return inductive_values(self.system, self.gram, systems, fold_solver, self.execution,
                                self.gram.sums["features"])

    def with_new_folds(self, lines: LabelLines) -> "InductiveSmoothSolver":
        return replace(self, system=with_new_folds(self.system, lines))


@dataclass(eq=False)
class BlockedFunctions(FunctionSpace):
    """Functions of landmarks whose penalty is a product over all blocks; Newton steps by conjugate gradients.

    penalties : of each column. features : of the labels (m, r). preconditioner : or None; where a factor for each
    column fits in half the budget, its labels are weighted by the curvature of the step.
    """

    system: NystromSystem
    penalties: Sequence[Penalties]
    features: np.ndarray
    ones: np.ndarray
    preconditioner: Preconditioner | None
    execution: Execution
    passes: int = 0
    weights: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        lines = self.system.lines
        self.weights = np.array([lines.weight[lines.fold != each.held_out].sum() for each in self.penalties])

    @property
    def n_coefficients(self) -> int:
        return self.system.r

    def values(self, C: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.features @ C

    def penalized(self, C: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if not C.any():
            return np.zeros_like(C)
        return self._product(columns, np.zeros((len(self.features), len(columns))))(
            C, np.arange(len(columns))) / self.weights[columns]

    def solve(self, D: np.ndarray, V: np.ndarray, C: np.ndarray, GC: np.ndarray, columns: np.ndarray,
              tol: float) -> np.ndarray:
        """As in the base class; the system is solved in the scale of the paper, times half the labels' weight."""
        half, (u, q) = self.weights[columns] / 2, V.shape[1:]
        of_column = np.repeat(np.arange(u), q)
        product = self._product(columns[of_column], (D * half)[:, of_column])
        right = (self.features.T @ V.reshape(len(V), u * q) - 2 * GC.reshape(-1, u * q)) * half[of_column]
        inverses, precondition = self._inverses(D * half, columns), None
        if inverses:
            def precondition(R: np.ndarray, active: np.ndarray) -> np.ndarray:
                return by_system(of_column[active], R, lambda index, mask: inverses[index](R[:, mask]))

        solution = blocked_cg(product, right, precondition, Stop(tol, self.system.params.max_iter))
        self.passes += product.passes
        return solution.value.reshape(-1, u, q)

    def _inverses(self, curvature: np.ndarray, columns: np.ndarray) -> list[Callable[[np.ndarray], np.ndarray]]:
        if self.preconditioner is None:
            return []
        systems = [self.penalties[column] for column in columns]
        if len(systems) > factors_that_fit(self.system.r, self.execution.memory_budget):
            return self.preconditioner.inverses(systems)
        return [self.preconditioner.inverse(item, self.features, weight)
                for item, weight in zip(systems, curvature.T, strict=True)]

    def _product(self, columns: np.ndarray, curvature: np.ndarray) -> BlockedProduct:
        return BlockedProduct(self.system, [self.penalties[column] for column in columns], self.ones, self.execution,
                              curvature[self.system.permutation])


def solve_by_steps(system: NystromSystem, loss: SmoothLoss, features: np.ndarray, systems: Sequence[Penalties],
                   execution: Execution, *, preconditioned: bool) -> tuple[Minimum, JsonObject]:
    """Return the minimum of all columns (p c) by blocked products, and evidence."""
    lines, c = system.lines, system.lines.target.shape[1]
    ones = gram_matrices(system, execution, energy=False, labels=False,
                         ones=any(item.has_control for item in systems))["sums"]
    preconditioner: Preconditioner | None = None
    evidence: JsonObject = {"preconditioner": "none"}
    if preconditioned and system.params.preconditioner != "none":
        preconditioner, evidence = make_preconditioner(system, systems, execution)
    columns = [item for item in systems for _ in range(c)]
    space = BlockedFunctions(system, columns, features, ones, preconditioner, execution)
    try:
        y, weight = lines.columns([item.held_out for item in systems])
        minimum = minimize(space, loss, y, weight, fit_intercept=system.fit_intercept)
    finally:
        clear_cache()
        execution.ask_workers(clear_cache)
    return minimum, {**evidence, "method": "nystrom-pcg" if preconditioned else "nystrom-cg", "loss": loss.name,
                     "newton_steps": minimum.steps.reshape(-1, c).max(axis=1).tolist(), "passes": space.passes}


@dataclass(frozen=True, eq=False)
class SmoothIterativeSolver(SystemSolver):
    """Solve for other losses by products over all blocks of points; features : of the labels (m, r)."""

    system: NystromSystem
    loss: SmoothLoss
    features: np.ndarray
    execution: Execution
    method: str
    expected_seconds: Mapping[str, float]
    gram, cheap_leave_one_out = None, False

    def _minimum(self, system: NystromSystem, systems: Sequence[Penalties]) -> tuple[Minimum, JsonObject]:
        return solve_by_steps(system, self.loss, self.features, systems, self.execution,
                              preconditioned=self.method == "nystrom-pcg")

    def _values(self, system: NystromSystem, systems: Sequence[Penalties]) -> np.ndarray:
        values = self._minimum(system, systems)[0].values
        return system.lines.of_own_fold(values.reshape(len(values), -1, system.lines.target.shape[1]))

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        minimum, evidence = self._minimum(self.system, systems)
        c = self.system.lines.target.shape[1]
        b = minimum.coef.reshape(self.system.r, -1, c).transpose(1, 0, 2)
        return replace(self.system.functions(b, systems, evidence), intercept=minimum.intercept.reshape(-1, c))

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        yield self._values(self.system, systems)

    def held_out_pairs(self, repetitions: Sequence[tuple[LabelLines, Penalties]]) -> list[np.ndarray]:
        return [self._values(self.system.with_folds_of(lines, self.execution),
                             with_folds([pair], lines.n_held_out_folds))[:, 0] for lines, pair in repetitions]


def smooth_solver(system: NystromSystem, loss: SmoothLoss, expected: Sequence[Penalties], execution: Execution,
               parts: Parts | None = None) -> SystemSolver:
    """Return the solver of another loss than the squared one on landmarks, for the expected systems.

    Raises BudgetError where the features of the labels do not fit.
    """
    m, c = system.lines.target.shape
    method, costs = solver_method(system, expected, execution, newton_flops(m, system.s, expected, c), 2 * PASSES)
    features, how = label_features(system, execution), system.params.held_out
    approximate = how in REFINE and method == "nystrom-direct" and m <= system.r
    holds_out = any(item.held_out >= 0 for item in expected)
    if how in REFINE and not approximate and holds_out:
        warnings.warn(explain(f"held_out={how!r} with {m:,} labels, {system.r:,} features and solver {method}",
                              why="the influence function needs Gram matrices, and at most as many labels as features",
                              fix="use more landmarks; each fold is refitted instead"), stacklevel=2)
    if method != "nystrom-direct":
        return SmoothIterativeSolver(system, loss, features, execution, method, costs)
    inductive = system.inductive and holds_out
    if inductive:
        require_folds_fit(system, FoldNewton(loss, system.fit_intercept), execution.memory_budget)
    gram = gram_system(system, expected, execution, parts, labels=False)
    gram = replace(gram, sums=gram.sums | {"features": features})
    if inductive:
        return InductiveSmoothSolver(gram=gram, loss=loss, execution=execution, expected_seconds=costs, system=system)
    return SmoothSolver(gram, loss, execution, costs, how if approximate else "refit")
