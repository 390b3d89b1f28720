"""Other losses than the squared one on landmarks, LapSVM among them: Newton's method in the systems of LapRLS.

    min over f of  (1 / w) sum of w_i loss(y_i, f(x_i)) + gamma_A |f|_K^2 + gamma_I f' E f / n^2,    w = sum of w_i

Nothing but the labels' features Phi_m and `G = gamma_A R + (gamma_I / n^2) Phi' E Phi` is asked for. With Gram
matrices ("nystrom-direct") G is held, and a pair of penalties takes one factor of it for all folds, classes and Newton
steps where there are fewer labels than features: the function is then a sum over labeled points in the kernel
`Phi_m G^-1 Phi_m'`. Without ("nystrom-pcg", "nystrom-cg"), a Newton step is conjugate gradients on blocked products in
which the curvature stands for the labels' weights.

References
----------
Belkin, Niyogi, Sindhwani, "Manifold regularization", JMLR 2006, section 4.3; Melacci and Belkin, "Laplacian support
vector machines trained in the primal", JMLR 2011.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from ...base.errors import explain
from ...execution.tasks import Execution
from ...solvers.blocked_cg import blocked_cg
from ...solvers.columns import by_system, factor_raised
from ...solvers.solver_params import Stop
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from ..linear.newton import FeaturesOfLabels, GramOfLabels, LabelSpace, Minimum, minimize
from ..losses import SmoothLoss
from .closed_form import label_features
from .dense import REFINE, without_folds
from .gram import GramSystem, gram_matrices, gram_system
from .inductive import Fold, FoldSolver, inductive_values, refolded, require_folds_fit
from .iterations import BlockedProduct, Preconditioner, factors_that_fit, make_preconditioner
from .params import Functions, LabelLines, params_left_out
from .penalties import Penalties, by_pair, with_folds
from .products import clear_cache
from .solve import LinearSystem, method_of
from .system import NystromSystem

PAIRS_IN_A_TASK = 4  # of penalties: each begins at the minimum of the one before
STEPS, PASSES = 8, 75  # of a column, measured on usps and covtype; a pass multiplies it twice, for its intercept


def newton_bytes(m: int, r: int) -> int:
    """Return the bytes that a task of Newton steps takes, of m labels and r features: their systems, and the labels'.

    G, its factor and the energy that is added; and of fewer labels than features `G^-1/2 Phi'`, N and a system of it,
    or else the features that weigh something, their product and its factor.
    """
    return 8 * (3 * r * r + m * r + (m * r + 4 * m * m if m <= r else m * r + 2 * r * r))


def newton_flops(m: int, r: int, systems: Sequence[Penalties], c: int) -> float:
    """Return the flops of Newton's method for systems of c columns each, by matrices: see `NewtonTask`."""
    step = m**3 / 3 if m <= r else m * r * r + r**3 / 3
    return len(by_pair(systems)) * (r**3 / 3 + min(m, r) * m * r) + STEPS * len(systems) * c * step


@dataclass(frozen=True)
class NewtonTask:
    """Write `b` (p, r, c) and `intercept` (p, c) of systems [first, last).

    held_out : write `values` (g, m, c) instead, of g pairs of penalties, whose systems hold out each fold in turn: at
    each label that of the function without its fold. refine : None where each fold is fitted, from the minimum of all
    labels on; or else the steps that follow on the influence function. Memory: `newton_bytes`.
    """

    sums: Arrays  # `features` (m, r), `penalty` (r, r), what `energies` returns, the labels' lines and the systems
    first: int
    last: int
    loss: SmoothLoss
    n_held: int
    fit_intercept: bool
    held_out: bool
    refine: int | None

    def __call__(self, out: PartWriter) -> Receipt:
        sums = self.sums.load()
        lines = LabelLines(**{name: sums[name] for name in ("row", "fold", "weight", "target")}, n_held=self.n_held)
        Phi, c, p, start = sums["features"], lines.target.shape[1], self.last - self.first, None
        r = Phi.shape[1]
        b, intercept, values = np.empty((p, r, c)), np.empty((p, c)), []
        steps, of = np.zeros(p, np.int64), sums["systems"][self.first:self.last]
        for first, last in runs_of_equals(of[:, 1:]):
            norm, energy, control = of[first, 1:]
            G = norm * sums["penalty"]
            if energy:
                G += energy * sums["control" if control else "energy"]
            space, factor = label_space(Phi, G)
            if self.held_out:
                start = minimize(space, self.loss, *lines.columns([-1]), fit_intercept=self.fit_intercept, start=start)
                values.append(without_folds(space, self.loss, lines, start, self.fit_intercept, self.refine))
                continue
            y, weight = lines.columns(of[first:last, 0].astype(int).tolist())
            least = minimize(space, self.loss, y, weight, fit_intercept=self.fit_intercept)
            coef = least.coef if factor is None else cho_solve(factor, Phi.T @ least.coef, check_finite=False)
            b[first:last] = coef.reshape(r, -1, c).transpose(1, 0, 2)
            intercept[first:last] = least.intercept.reshape(-1, c)
            steps[first:last] = least.steps.reshape(-1, c).max(axis=1)
        if self.held_out:
            return out.write(values=np.array(values))
        return {**out.write(b=b, intercept=intercept), "steps": steps.tolist()}


def label_space(Phi: np.ndarray, G: np.ndarray) -> tuple[LabelSpace, Any]:
    """Return the functions of features Phi (m, r) whose penalty is G (r, r), and the factor of G or None for none.

    Of fewer labels than features they are sums over labels in the kernel `Phi G^-1 Phi'`.
    """
    if len(Phi) > len(G):
        return FeaturesOfLabels(Phi, G), None
    factor = factor_raised(G)
    half = solve_triangular(factor[0], Phi.T, trans=0 if factor[1] else 1, lower=factor[1], check_finite=False)
    return GramOfLabels(half.T @ half), factor


@dataclass(frozen=True)
class NewtonOfFold(FoldSolver):
    """Newton's method with the fold's own energy, a minimum a pair of penalties, each from the one before."""

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
            minima.append(start.values[fold.held])
        return np.array(minima), 0.0


def runs_of_equals(rows: np.ndarray) -> list[tuple[int, int]]:
    """Return the ranges [start, stop) of equal rows of an array (p, q) that follow one another."""
    edges = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
    return list(zip([0, *edges.tolist()], [*edges.tolist(), len(rows)], strict=True))


@dataclass(frozen=True, eq=False)
class SmoothGram(LinearSystem):
    """Other losses without the points: from Gram matrices, with the labels' `features` (m, r) among their sums."""

    gram: GramSystem
    loss: SmoothLoss
    execution: Execution
    expected_seconds: Mapping[str, float] = field(default_factory=dict)
    held_out_method: str = "refit"
    method = "nystrom-direct"

    def tasks(self, systems: Sequence[Penalties], *,
              held_out: bool = False) -> Iterator[tuple[list[int], dict[str, np.ndarray], Receipt]]:
        """Yield the systems' numbers, arrays and receipt of each task."""
        gram, lines = self.gram, self.gram.lines
        pairs = by_pair(systems)
        groups = [[number for pair in pairs[start:stop] for number in pair]
                  for start, stop in row_ranges(len(pairs), PAIRS_IN_A_TASK)]
        described = np.array([(item.held, *item.of_the_mean(lines.weight[lines.fold != item.held].sum()), item.control)
                              for item in systems])[[number for group in groups for number in group]]
        shared = self.execution.share(**gram.energies(systems), features=gram.sums["features"], penalty=gram.penalty(),
                                      systems=described, row=lines.row, fold=lines.fold, weight=lines.weight,
                                      target=lines.target)
        edges, parts = np.cumsum([0, *map(len, groups)]).tolist(), self.execution.scratch()
        receipts = self.execution.map([
            NewtonTask(shared, first, last, self.loss, lines.n_held, gram.fit_intercept, held_out,
                       REFINE.get(gram.params.held_out))
            for first, last in itertools.pairwise(edges)], parts)
        for index, (numbers, receipt) in enumerate(zip(groups, receipts, strict=True)):
            yield numbers, parts.read(index), receipt
        parts.remove()

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        p, c = len(systems), self.gram.lines.target.shape[1]
        coef, intercept, steps = np.empty((p, self.gram.s, c)), np.empty((p, c)), np.zeros(p, np.int64)
        for numbers, arrays, receipt in self.tasks(systems):
            coef[numbers] = [self.gram.lift(coefficients) for coefficients in arrays["b"]]
            intercept[numbers], steps[numbers] = arrays["intercept"], receipt["steps"]
        return Functions(coef, intercept, {"method": "nystrom-direct", "loss": self.loss.name,
                                           "newton_steps": steps.tolist()})

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        for _, arrays, _ in self.tasks(systems, held_out=True):
            yield arrays["values"].transpose(1, 0, 2)

    def refolded(self, lines: LabelLines) -> "SmoothGram":
        return replace(self, gram=self._gram_of(lines))

    def _gram_of(self, lines: LabelLines) -> GramSystem:
        return replace(self.gram, lines=replace(self.gram.lines, fold=lines.fold, n_held=lines.n_held))

    def left_out(self, lines: LabelLines, pair: Penalties) -> np.ndarray:
        gram = self._gram_of(lines)
        refolded = replace(gram, params=params_left_out(gram.params, self.loss, lines))
        values, = SmoothGram(refolded, self.loss, self.execution).held_out(with_folds([pair], lines.n_held))
        return values[:, 0]


@dataclass(frozen=True, eq=False, kw_only=True)
class InductiveSmoothGram(SmoothGram):
    """The same, where points that are held out leave the graph of a system."""

    system: NystromSystem

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        of_fold = NewtonOfFold(self.loss, self.system.fit_intercept)
        return inductive_values(self.system, self.gram, systems, of_fold, self.execution, self.gram.sums["features"])

    def refolded(self, lines: LabelLines) -> "InductiveSmoothGram":
        return replace(self, system=refolded(self.system, lines))


@dataclass(eq=False)
class BlockedFunctions(LabelSpace):
    """Functions of landmarks whose penalty is a product over all blocks: a step by conjugate gradients.

    penalties : of each column. features : of the labels (m, r). made : preconditions, None for nothing. Where as many
    factors as columns fit in half the budget, its labels are those of the step, with their curvature.
    """

    system: NystromSystem
    penalties: Sequence[Penalties]
    features: np.ndarray
    ones: np.ndarray
    made: Preconditioner | None
    execution: Execution
    passes: int = 0
    weights: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        lines = self.system.lines
        self.weights = np.array([lines.weight[lines.fold != each.held].sum() for each in self.penalties])

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
        """As the space of labels says, in the scale of the paper: times half the labels' weight."""
        half, (u, q) = self.weights[columns] / 2, V.shape[1:]
        of_column = np.repeat(np.arange(u), q)
        product = self._product(columns[of_column], (D * half)[:, of_column])
        right = (self.features.T @ V.reshape(len(V), u * q) - 2 * GC.reshape(-1, u * q)) * half[of_column]
        inverses, precondition = self._inverses(D * half, columns), None
        if inverses:
            def precondition(R: np.ndarray, active: np.ndarray) -> np.ndarray:
                return by_system(of_column[active], R, lambda index, mine: inverses[index](R[:, mine]))

        solution = blocked_cg(product, right, precondition, Stop(tol, self.system.params.max_iter))
        self.passes += product.passes
        return solution.value.reshape(-1, u, q)

    def _inverses(self, curvature: np.ndarray, columns: np.ndarray) -> list[Callable[[np.ndarray], np.ndarray]]:
        if self.made is None:
            return []
        chosen = [self.penalties[column] for column in columns]
        if len(chosen) > factors_that_fit(self.system.r, self.execution.memory_budget):
            return self.made.inverses(chosen)
        return [self.made.inverse(item, self.features, weight)
                for item, weight in zip(chosen, curvature.T, strict=True)]

    def _product(self, columns: np.ndarray, curvature: np.ndarray) -> BlockedProduct:
        return BlockedProduct(self.system, [self.penalties[column] for column in columns], self.ones, self.execution,
                              curvature[self.system.by_place])


def solve_by_steps(system: NystromSystem, loss: SmoothLoss, features: np.ndarray, systems: Sequence[Penalties],
                   execution: Execution, *, preconditioned: bool) -> tuple[Minimum, dict[str, Any]]:
    """Return the minimum of all columns (p c) by blocked products, and the evidence (JSON)."""
    lines, c = system.lines, system.lines.target.shape[1]
    ones = gram_matrices(system, execution, energy=False, labels=False,
                         ones=any(item.has_control for item in systems))["sums"]
    made: Preconditioner | None = None
    evidence: dict[str, Any] = {"preconditioner": "none"}
    if preconditioned and system.params.preconditioner != "none":
        made, evidence = make_preconditioner(system, systems, execution)
    space = BlockedFunctions(system, [item for item in systems for _ in range(c)], features, ones, made, execution)
    try:
        y, weight = lines.columns([item.held for item in systems])
        minimum = minimize(space, loss, y, weight, fit_intercept=system.fit_intercept)
    finally:
        clear_cache()
        execution.ask_workers(clear_cache)
    return minimum, {**evidence, "method": "nystrom-pcg" if preconditioned else "nystrom-cg", "loss": loss.name,
                   "newton_steps": minimum.steps.reshape(-1, c).max(axis=1).tolist(), "passes": space.passes}


@dataclass(frozen=True, eq=False)
class SmoothProducts(LinearSystem):
    """Other losses by products over all blocks of points; features : of the labels (m, r)."""

    system: NystromSystem
    loss: SmoothLoss
    features: np.ndarray
    execution: Execution
    method: str
    expected_seconds: Mapping[str, float]
    gram, at_once = None, False

    def _minimum(self, system: NystromSystem, systems: Sequence[Penalties]) -> tuple[Minimum, dict[str, Any]]:
        return solve_by_steps(system, self.loss, self.features, systems, self.execution,
                              preconditioned=self.method == "nystrom-pcg")

    def _values(self, system: NystromSystem, systems: Sequence[Penalties]) -> np.ndarray:
        values = self._minimum(system, systems)[0].values
        return system.lines.of_own_fold(values.reshape(len(values), -1, system.lines.target.shape[1]))

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        least, evidence = self._minimum(self.system, systems)
        c = self.system.lines.target.shape[1]
        b = least.coef.reshape(self.system.r, -1, c).transpose(1, 0, 2)
        return replace(self.system.functions(b, systems, evidence), intercept=least.intercept.reshape(-1, c))

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        yield self._values(self.system, systems)

    def left_out(self, lines: LabelLines, pair: Penalties) -> np.ndarray:
        return self._values(self.system.with_folds_of(lines, self.execution), with_folds([pair], lines.n_held))[:, 0]


def least_loss(system: NystromSystem, loss: SmoothLoss, expected: Sequence[Penalties], execution: Execution,
               parts: Parts | None = None) -> LinearSystem:
    """Return what minimizes another loss than the squared one on landmarks, of the systems that are expected.

    Raises BudgetError: the features of the labels do not fit.
    """
    m, c = system.lines.target.shape
    method, costs = method_of(system, expected, execution, newton_flops(m, system.s, expected, c), 2 * PASSES)
    features, how = label_features(system, execution), system.params.held_out
    approximate = how in REFINE and method == "nystrom-direct" and m <= system.r
    holds_out = any(item.held >= 0 for item in expected)
    if how in REFINE and not approximate and holds_out:
        warnings.warn(explain(f"held_out={how!r} with {m:,} labels, {system.r:,} features and solver {method}",
                              why="the influence function is asked of no more labels than features, with their Gram "
                                  "matrices", fix="use more landmarks; each fold is refitted instead"), stacklevel=2)
    if method != "nystrom-direct":
        return SmoothProducts(system, loss, features, execution, method, costs)
    inductive = system.inductive and holds_out
    if inductive:
        require_folds_fit(system, NewtonOfFold(loss, system.fit_intercept), execution.memory_budget)
    gram = gram_system(system, expected, execution, parts, labels=False)
    gram = replace(gram, sums=gram.sums | {"features": features})
    if inductive:
        return InductiveSmoothGram(gram=gram, loss=loss, execution=execution, expected_seconds=costs, system=system)
    return SmoothGram(gram, loss, execution, costs, how if approximate else "refit")
