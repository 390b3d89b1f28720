"""Solvers of many systems of LapRLS, their selection by cost, and held-out values."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from ...base.digest import JsonObject
from ...execution.tasks import Execution
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from ..losses import SQUARES
from ..probabilities import FOLDS
from .closed_form import closed_form_of, closed_form_of_features, label_features
from .dense import DenseTask
from .gram import GramSystem, folds_in_first_pass, folds_that_fit, gram_matrices, gram_system, solve_from_gram
from .inductive import FoldClosedForm, FoldRefit, FoldSolver, inductive_values, require_folds_fit, with_new_folds
from .iterations import require_converged, solve_by_products
from .params import Functions, LabelLines, calibration_params
from .penalties import Penalties, with_folds
from .products import BlockedProblem, gram_bytes, times
from .system import NystromSystem

FLOPS, SPARSE_FLOPS, ENTRY_SECONDS, READ_BYTES = 4e10, 1.5e9, 3e-9, 8e9  # of one core, a second, or seconds an entry
USUAL_ITERATIONS = 25
NOT_COMPARED: Mapping[str, float] = {}  # the expected seconds of solvers without an alternative


def choose_method(v: int, halo: float, nnz: int, s: int, m: int, d: int, systems: Sequence[Penalties], n_outputs: int,
                  budget: int, itemsize: int, n_folds: int, edges: int = 8, closed_form: float | None = None,
                  iterations: int = USUAL_ITERATIONS) -> tuple[str, dict[str, float]]:
    """Return "nystrom-direct" or "nystrom-pcg", whichever is cheaper and fits, and the expected seconds of both.

    v vertices and a share `halo` of more, nnz entries of E, s landmarks, m labels in n_folds, d features.
    closed_form : the flops of held-out values in closed form, None for refits. iterations : products of a column.
    Gram matrices take `v s^2 (1 + 2 + 1)` flops, for whitening, graph and control, `m s^2` for the labels and `s^3 / 3`
    a system; half the time in float32. Iterations take `4 v (1 + halo) s` flops a column, in float64, and the kernel
    each time unless half the budget can cache it. A fit then holds its labels out: their kernel, or the iterations
    of at most `FOLDS` systems.
    """
    entry = ENTRY_SECONDS + 2 * d / FLOPS
    graph = any(item.has_graph for item in systems)
    control = any(item.has_control for item in systems)
    penalties = len({item.whole for item in systems})
    with_halo, t = (1 + halo if graph else 1.0), len(systems) * n_outputs
    points = float(v if graph or control else m)
    factored = len(systems) if closed_form is None else sum(item.held_out < 0 for item in systems)
    is_fit = all(item.held_out < 0 for item in systems)
    products = points * s * s * (1 + 2 * graph + control) + m * s * s
    factors = factored * s**3 / 3 + (closed_form or 0.0)
    direct = (points * with_halo + is_fit * m) * s * entry + (products * itemsize / 8 + factors) / FLOPS + (
        2.0 * nnz * s * graph / SPARSE_FLOPS)
    cached = points * with_halo * s * itemsize <= budget / 2

    def all_products(t: int) -> float:
        product = points * with_halo * s * max(4 * t / FLOPS, 2 * itemsize / READ_BYTES) + 2.0 * nnz * t / SPARSE_FLOPS
        return iterations * (product + (0 if cached else points * with_halo * s * entry))

    rows = edges * s * (graph + control) + min(m, edges * s)
    sampled = 2 * rows * s * (entry + s / FLOPS) + (2 + penalties / 3) * s**3 / FLOPS
    pcg = points * with_halo * s * entry + sampled + all_products(t) + is_fit * all_products(FOLDS * n_outputs)
    costs = {"nystrom-direct": direct, "nystrom-pcg": pcg}
    fits = gram_bytes(s, n_folds if closed_form is None else 1, control, graph, n_outputs=n_outputs) <= budget
    return "nystrom-direct" if fits and direct <= pcg else "nystrom-pcg", costs


def solver_method(system: NystromSystem, systems: Sequence[Penalties], execution: Execution,
              closed_form: float | None = None, iterations: int = USUAL_ITERATIONS) -> tuple[str, dict[str, float]]:
    """Return the solver of the parameters, or for "auto" the cheaper one with the expected seconds of both."""
    if system.params.solver != "auto":
        return system.params.solver, {}
    inductive = system.inductive and any(item.held_out >= 0 for item in systems)
    if inductive or (closed_form is not None and system.params.held_out == "closed_form"):
        return "nystrom-direct", {}
    blocks, lines = system.blocks, system.lines
    return choose_method(blocks.n, blocks.halo, blocks.nnz, system.s, len(lines.row), system.problem.rows.shape[1],
                         systems, lines.target.shape[1], execution.memory_budget, system.params.itemsize,
                         system.problem.n_folds, system.params.edges, closed_form, iterations)


class SystemSolver(ABC):
    """A solver of the systems of one problem in one kernel, for any penalties and folds.

    method : its name. expected_seconds : of the methods that were compared. held_out_method : "closed_form", "refit" or
    an influence function. cheap_leave_one_out : whether single labels are held out without a system each.
    can_hold_out : whether it can compute held-out values. gram : the Gram matrices for later fits, if any.
    """

    method: str
    expected_seconds: Mapping[str, float]
    held_out_method: str = "refit"
    cheap_leave_one_out: bool = True
    can_hold_out: bool = True
    gram: GramSystem | None

    @abstractmethod
    def solve(self, systems: Sequence[Penalties]) -> Functions:
        """Return the functions of systems."""

    @abstractmethod
    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        """Yield the held-out values (m, g, c) of the labels for groups of pairs of penalties.

        systems : of each pair, one for each fold 0 to F - 1.
        """

    @abstractmethod
    def held_out_pairs(self, repetitions: Sequence[tuple[LabelLines, Penalties]]) -> list[np.ndarray]:
        """Return for each repetition the held-out values (m, c) of the labels: its folds, and a pair in their scale."""

    def with_new_folds(self, lines: LabelLines) -> "SystemSolver | None":
        """Return the solver for other folds of the same labels; None where it must be prepared anew."""
        return None

    def label_features(self) -> np.ndarray | None:
        """Return the features (m, r) of the labels for a later fit, unless the Gram matrices have them."""
        return None


@dataclass(frozen=True, eq=False)
class GramSolver(SystemSolver):
    """A Cholesky factor of Gram matrices for each system, with Gram matrices of the labels for each fold.

    features : those of the labels, which are computed when they are first asked for, once for all folds.
    """

    system: NystromSystem
    gram: GramSystem
    execution: Execution
    expected_seconds: Mapping[str, float]
    features: Callable[[], np.ndarray]
    method = "nystrom-direct"

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        return solve_from_gram(self.gram, systems, self.execution)

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        return held_out_values(self.system, self.solve(systems), systems, self.execution)

    def held_out_pairs(self, repetitions: Sequence[tuple[LabelLines, Penalties]]) -> list[np.ndarray]:
        return [self._held_out_pair(*each) for each in repetitions]

    def _held_out_pair(self, lines: LabelLines, pair: Penalties) -> np.ndarray:
        """Return the held-out values: single labels in closed form, larger folds by one pass over the labels.

        The pass is that of the fit where it has summed these folds.
        """
        system, gram, execution = self.system, self.gram, self.execution
        pairs = with_folds([pair], lines.n_held_out_folds)
        if max(lines.counts) == 1:
            values, = closed_form_of_features(self.features(), gram, [(lines, pairs)], execution)
            return values[:, 0]
        if np.array_equal(lines.fold, gram.lines.fold):
            values, = held_out_values(system, solve_from_gram(gram, pairs, execution), pairs, execution)
            return values[:, 0]
        held_out = np.full(lines.target.shape, np.nan)
        at_once = folds_that_fit(gram.s, lines.target.shape[1], execution.memory_budget)
        for first, last in row_ranges(lines.n_held_out_folds, at_once):
            chosen = (lines.fold >= first) & (lines.fold < last)
            fold = np.where(chosen, lines.fold - first, last - first)
            group = replace(lines, fold=fold, n_held_out_folds=last - first)
            folded, systems = system.of_lines(group, chosen, execution), pair.of_folds(first, last)
            sums = gram_matrices(folded, execution, energy=False, held_bytes=8 * gram.s**2)
            functions = solve_from_gram(gram.with_folds(group, sums), systems, execution)
            values, = held_out_values(folded, functions, systems, execution)
            held_out[chosen] = values[:, 0]
        return held_out

    def label_features(self) -> np.ndarray | None:
        return self.features()


@dataclass(frozen=True, eq=False)
class ClosedFormSolver(GramSolver):
    """A `GramSolver` with Gram matrices of all labels, from which all folds are held out.

    fold_solver : solves the systems of a fold where held-out points leave the graph.
    """

    fold_solver: FoldSolver

    @property
    def held_out_method(self) -> str:  # type: ignore[override]
        return "closed_form" if isinstance(self.fold_solver, FoldClosedForm) else "refit"

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        if self.system.inductive:
            return inductive_values(self.system, self.gram, systems, self.fold_solver, self.execution, self.features())
        return closed_form_of_features(self.features(), self.gram, [(self.system.lines, systems)], self.execution)

    def with_new_folds(self, lines: LabelLines) -> SystemSolver:
        return replace(self, system=with_new_folds(self.system, lines))


@dataclass(frozen=True, eq=False)
class StoredGramSolver(SystemSolver):
    """Solve from stored Gram matrices of all labels; held-out values need the labels' `features` among them."""

    gram: GramSystem
    execution: Execution
    method, expected_seconds = "nystrom-direct", NOT_COMPARED

    @property
    def can_hold_out(self) -> bool:  # type: ignore[override]
        return "features" in self.gram.sums

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        return solve_from_gram(self.gram, systems, self.execution)

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        return closed_form_of_features(self.gram.sums["features"], self.gram, [(self.gram.lines, systems)],
                                       self.execution)

    def held_out_pairs(self, repetitions: Sequence[tuple[LabelLines, Penalties]]) -> list[np.ndarray]:
        systems = [(lines, with_folds([pair], lines.n_held_out_folds)) for lines, pair in repetitions]
        return [values[:, 0] for values in closed_form_of_features(self.gram.sums["features"], self.gram, systems,
                                                                   self.execution)]


@dataclass(frozen=True, eq=False)
class IterativeSolver(SystemSolver):
    """Conjugate gradients on products over all blocks of points, preconditioned or not."""

    system: NystromSystem
    execution: Execution
    method: str
    expected_seconds: Mapping[str, float]
    gram, cheap_leave_one_out = None, False

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        return self._solved(self.system, systems)

    def _solved(self, system: NystromSystem, systems: Sequence[Penalties]) -> Functions:
        return solve_by_products(system, systems, self.execution, preconditioned=self.method == "nystrom-pcg")

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        return held_out_values(self.system, self.solve(systems), systems, self.execution)

    def held_out_pairs(self, repetitions: Sequence[tuple[LabelLines, Penalties]]) -> list[np.ndarray]:
        held_out = []
        for lines, pair in repetitions:
            folded = self.system.with_folds_of(lines, self.execution)
            systems = with_folds([pair], lines.n_held_out_folds)
            values, = held_out_values(folded, self._solved(folded, systems), systems, self.execution)
            held_out.append(values[:, 0])
        return held_out


@dataclass(frozen=True, eq=False)
class DenseSolver(SystemSolver):
    """Systems on all points in one task, by LU factors or conjugate gradients."""

    task: DenseTask
    execution: Execution
    gram, expected_seconds = None, NOT_COMPARED

    @property
    def method(self) -> str:  # type: ignore[override]
        return self.task.params.solver

    @property
    def held_out_method(self) -> str:  # type: ignore[override]
        return self.task.held_out_method

    @property
    def cheap_leave_one_out(self) -> bool:  # type: ignore[override]
        return self.task.params.solver == "direct" or self.task.loss != SQUARES

    def _run(self, tasks: Sequence[DenseTask]) -> list[tuple[dict[str, np.ndarray], JsonObject]]:
        parts = self.execution.scratch()
        receipts = self.execution.map(tasks, parts)
        for receipt in receipts:
            require_converged(receipt["evidence"], self.task.params)
        return [(parts.read(number), receipt["evidence"]) for number, receipt in enumerate(receipts)]

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        (arrays, evidence), = self._run([replace(self.task, systems=tuple(systems), held_out=False)])
        return Functions(arrays["coef"], arrays["intercept"], evidence)

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        (arrays, _), = self._run([replace(self.task, systems=tuple(systems), held_out=True)])
        yield arrays["values"]

    def held_out_pairs(self, repetitions: Sequence[tuple[LabelLines, Penalties]]) -> list[np.ndarray]:
        task, tasks = self.task, []
        labels = task.labels.load()
        for lines, pair in repetitions:
            tasks.append(replace(
                task, labels=self.execution.share(**{**labels, "fold": lines.fold}), held_out=True,
                systems=tuple(with_folds([pair], lines.n_held_out_folds)), n_held_out_folds=lines.n_held_out_folds,
                params=calibration_params(task.params, task.loss, lines)))
        return [arrays["values"][:, 0] for arrays, _ in self._run(tasks)]


def least_squares_solver(system: NystromSystem, expected: Sequence[Penalties], execution: Execution,
                         parts: Parts | None = None, held_out: Sequence[Penalties] = (),
                         later: LabelLines | None = None) -> SystemSolver:
    """Return the solver of least squares on landmarks, for the expected systems.

    parts : for the partial sums of Gram matrices, scratch by default. held_out : the pairs of penalties whose folds
    will be held out. later : with the folds that `held_out_pairs` will be asked for, if that is known.
    """
    closed_form = closed_form_of(system, held_out, execution.memory_budget)
    systems = [*expected, *with_folds(held_out, system.lines.n_held_out_folds)]
    method, costs = solver_method(system, systems, execution, closed_form)
    if method != "nystrom-direct":
        return IterativeSolver(system, execution, method, costs)
    inductive, features = system.inductive and bool(held_out), cache(partial(label_features, system, execution))
    if closed_form is None and not inductive:
        if later is not None and folds_in_first_pass(later.counts, system.s, later.target.shape[1],
                                                    execution.memory_budget):
            system = system.with_folds_of(later, execution)
        return GramSolver(system, gram_system(system, [*expected, *held_out], execution, parts), execution, costs,
                          features)
    fold_solver = (FoldRefit if closed_form is None else FoldClosedForm)(system.fit_intercept)
    if inductive:
        require_folds_fit(system, fold_solver, execution.memory_budget)
    gram = gram_system(system.without_folds(execution), [*expected, *held_out], execution, parts)
    return ClosedFormSolver(system, gram, execution, costs, features, fold_solver)


@dataclass(frozen=True)
class HeldOutTask:
    """Write the held-out `values` (m, p, c) of the labels in a run of blocks, NaN where they are never held out.

    functions : coefficients `B` (F, s, p, c) and `intercept` (F, p, c) of p functions for each fold.
    """

    problem: BlockedProblem
    functions: Arrays
    first: int
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        problem, functions, landmarks = self.problem, self.functions.load(), self.problem.landmark_kernel()
        B, intercept = functions["B"], functions["intercept"]
        F, s, p, c = B.shape
        blocks = [np.empty((0, p, c))]
        for _, start, _, block in problem.blocks(self.first, self.last):
            if not len(block["position"]):
                continue
            K = landmarks.block(problem.rows.take(start + block["position"]))
            values = np.full((len(K), p, c), np.nan)
            for fold in range(F):
                mask = block["fold"] == fold
                values[mask] = times(K[mask], B[fold].reshape(s, p * c)).reshape(-1, p, c) + intercept[fold]
            blocks.append(values)
        return out.write(values=np.concatenate(blocks))


def held_out_values(system: NystromSystem, functions: Functions, systems: Sequence[Penalties],
                    execution: Execution) -> Iterator[np.ndarray]:
    """Yield the held-out values (m, g, c) of the label lines for groups of pairs of penalties.

    systems : of each pair, one for each fold 0 to F - 1. The values of a group fit in a quarter of the memory budget.
    """
    F, (p, s, c) = system.lines.n_held_out_folds, functions.coef.shape
    assert [item.held_out for item in systems] == list(range(F)) * (p // F)
    B = functions.coef.reshape(p // F, F, s, c).transpose(1, 2, 0, 3)
    intercept = functions.intercept.reshape(p // F, F, c).transpose(1, 0, 2)
    width = max(1, execution.memory_budget // 4 // (8 * c * max(1, len(system.lines.row))))
    for first in range(0, p // F, width):
        shared = execution.share(B=np.ascontiguousarray(B[:, :, first:first + width]),
                                 intercept=np.ascontiguousarray(intercept[:, first:first + width]))
        parts, runs = execution.scratch(), system.problem.runs()
        execution.map([HeldOutTask(system.problem, shared, *run) for run in runs], parts)
        permuted = np.concatenate([parts.read(index)["values"] for index in range(len(runs))])
        parts.remove()
        values = np.empty_like(permuted)
        values[system.permutation] = permuted
        yield values
