"""Solve many systems of LapRLS at once, by the method that is asked for or the cheaper one; held-out predictions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...execution.tasks import Execution
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..losses import SQUARES
from .closed_form import closed_form_of, closed_form_of_features, closed_form_values
from .dense import DenseTask
from .gram import GramSystem, gram_matrices, gram_system, solve_from_gram
from .inductive import ClosedFormOfFold, RefitOfFold, inductive_values, refolded, require_folds_fit
from .iterations import require_converged, solve_by_products
from .label_features import label_features
from .params import Functions, LabelLines, params_left_out
from .penalties import Penalties, with_folds
from .products import Landmarked, gram_bytes, times
from .system import NystromSystem

FLOPS, SPARSE_FLOPS, ENTRY_SECONDS, READ_BYTES = 4e10, 1.5e9, 3e-9, 8e9  # of one core, a second, or seconds an entry
USUAL_ITERATIONS = 25


def choose_method(v: int, halo: float, nnz: int, s: int, m: int, d: int, systems: Sequence[Penalties], n_outputs: int,
                  budget: int, itemsize: int, n_folds: int, edges: int = 8, closed_form: float | None = None,
                  iterations: int = USUAL_ITERATIONS) -> tuple[str, dict[str, float]]:
    """Return "nystrom-direct" or "nystrom-pcg", and the seconds of one core that each is expected to take.

    v vertices with `halo` more read a block, nnz entries of E, s landmarks, m labels in n_folds, d features;
    closed_form : the flops of all systems of which a fold is held out, where Gram matrices give them at once.
    iterations : products of a column. Gram matrices take `v s^2 (1 + 2 + 1)` flops, for whitening, graph and control,
    `m s^2` for the labels and `s^3 / 3` a system, whatever the number of columns; iterations take `4 v (1 + halo) s`
    flops a column, and the kernel again each time where it does not fit in half the budget. Gram matrices are not
    formed where their sums exceed the budget.
    """
    entry = ENTRY_SECONDS + 2 * d / FLOPS
    graph = any(item.has_graph for item in systems)
    control = any(item.has_control for item in systems)
    penalties = len({item.whole for item in systems})
    reached, t = (1 + halo if graph else 1.0), len(systems) * n_outputs
    points = float(v if graph or control else m)
    factored = len(systems) if closed_form is None else sum(item.held < 0 for item in systems)
    products = points * s * s * (1 + 2 * graph + control) + m * s * s + factored * s**3 / 3 + (closed_form or 0.0)
    direct = points * reached * s * entry + products / FLOPS + 2.0 * nnz * s * graph / SPARSE_FLOPS
    kept = points * reached * s * itemsize <= budget / 2
    product = points * reached * s * max(4 * t / FLOPS, 2 * itemsize / READ_BYTES) + 2.0 * nnz * t / SPARSE_FLOPS
    products_of_all = iterations * (product + (0 if kept else points * reached * s * entry))
    rows = edges * s * (graph + control) + min(m, edges * s)
    sampled = 2 * rows * s * (entry + s / FLOPS) + (2 + penalties / 3) * s**3 / FLOPS
    pcg = points * reached * s * entry + sampled + products_of_all
    costs = {"nystrom-direct": direct, "nystrom-pcg": pcg}
    fits = gram_bytes(s, n_folds if closed_form is None else 1, control, graph, n_outputs=n_outputs) <= budget
    return "nystrom-direct" if fits and direct <= pcg else "nystrom-pcg", costs


def method_of(system: NystromSystem, systems: Sequence[Penalties], execution: Execution,
              closed_form: float | None = None, iterations: int = USUAL_ITERATIONS) -> tuple[str, dict[str, float]]:
    """Return the method that the parameters name, or the cheaper one for "auto", and the costs of both."""
    if system.params.solver != "auto":
        return system.params.solver, {}
    inductive = system.inductive and any(item.held >= 0 for item in systems)
    if inductive or (closed_form is not None and system.params.held_out == "closed_form"):
        return "nystrom-direct", {}
    blocks, lines = system.blocks, system.lines
    return choose_method(blocks.n, blocks.halo, blocks.nnz, system.s, len(lines.row), system.problem.rows.shape[1],
                         systems, lines.target.shape[1], execution.memory_budget, system.params.itemsize,
                         system.problem.n_folds, system.params.edges, closed_form, iterations)


@dataclass(frozen=True)
class SystemSolver:
    """Solves systems of one problem by a method.

    solve : systems -> their functions. held_out : systems, F of each pair of penalties, held folds 0 to F - 1 in order
    -> the values (m, g, c) of groups of pairs at the labeled points, each by the one of its fold.
    left_out : folds and a pair of penalties, whose scale is of these -> the values (m, c) at the labeled points, each
    by the function without its fold; single points only if `at_once`, where that takes no system each. None where the
    labels' features are not known. features : -> those of the labels (m, r), where `gram` is not made of them.
    held_out_method : "closed_form" or "refit". gram : the matrices that later solutions can be made of; None where
    there are none. expected_seconds : of the methods that were compared, by name. refolded : lines of the same labels
    with other folds -> what holds these out, where it needs nothing anew.
    """

    method: str
    solve: Callable[[Sequence[Penalties]], Functions]
    held_out: Callable[[Sequence[Penalties]], Iterator[np.ndarray]] | None
    gram: GramSystem | None = None
    expected_seconds: dict[str, float] = field(default_factory=dict)
    held_out_method: str = "refit"
    refolded: Callable[[LabelLines], "SystemSolver"] | None = None
    left_out: Callable[[LabelLines, Penalties], np.ndarray] | None = None
    at_once: bool = False
    features: Callable[[], np.ndarray] | None = None


def nystrom_solver(system: NystromSystem, expected: Sequence[Penalties], execution: Execution,
                   parts: Parts | None = None, held: Sequence[Penalties] = ()) -> SystemSolver:
    """Return what solves systems of landmarks, those that are expected.

    parts : where shares of Gram matrices go, scratch by default. held : pairs of penalties of which folds will be held
    out; in closed form, Gram matrices are of all folds together, and only systems of all labels are solved.
    """
    n_held = system.lines.n_held
    closed_form = closed_form_of(system, held, execution.memory_budget)
    method, costs = method_of(system, [*expected, *with_folds(held, n_held)], execution, closed_form)
    inductive = system.inductive and bool(held)
    if method == "nystrom-direct" and (closed_form is not None or inductive):
        of_fold = (RefitOfFold if closed_form is None else ClosedFormOfFold)(system.fit_intercept)
        if inductive:
            require_folds_fit(system, of_fold, execution.memory_budget)
        whole = gram_system(system.without_folds(execution), [*expected, *held], execution, parts)

        def at_once(lines: LabelLines) -> SystemSolver:
            own = refolded(system, lines)
            return replace(
                gram_solver(whole, execution), expected_seconds=costs, refolded=at_once,
                left_out=partial(left_out_of_gram, system, whole, execution=execution), at_once=True,
                features=partial(label_features, system, execution),
                held_out_method="refit" if closed_form is None else "closed_form",
                held_out=lambda systems: inductive_values(own, whole, systems, of_fold, execution) if inductive else
                closed_form_values(own, whole, systems, execution))

        return at_once(system.lines)
    gram = gram_system(system, [*expected, *held], execution, parts) if method == "nystrom-direct" else None

    def solve(systems: Sequence[Penalties]) -> Functions:
        if gram is not None:
            return solve_from_gram(gram, systems, execution)
        return solve_by_products(system, systems, execution, preconditioned=method == "nystrom-pcg")

    def left_out(lines: LabelLines, pair: Penalties) -> np.ndarray:
        if gram is not None:
            return left_out_of_gram(system, gram, lines, pair, execution)
        own, systems = system.with_folds_of(lines, execution), with_folds([pair], lines.n_held)
        found = solve_by_products(own, systems, execution, preconditioned=method == "nystrom-pcg")
        values, = held_out_values(own, found, systems, execution)
        return values[:, 0]

    return SystemSolver(method, solve, lambda systems: held_out_values(system, solve(systems), systems, execution),
                        gram, costs, left_out=left_out, at_once=gram is not None,
                        features=partial(label_features, system, execution))


def left_out_of_gram(system: NystromSystem, gram: GramSystem, lines: LabelLines, pair: Penalties,
                     execution: Execution) -> np.ndarray:
    """Return the values (m, c) of a pair of penalties at the labels, each without its fold in `lines`.

    Single points in closed form; folds by the Gram matrices of each, in turn, in the memory of a fit.
    """
    if max(lines.counts) == 1:
        own = refolded(system, lines)
        values, = closed_form_values(own, gram, with_folds([pair], lines.n_held), execution)
        return values[:, 0]
    found = np.full(lines.target.shape, np.nan)
    for fold in range(lines.n_held):
        held = lines.fold == fold
        own = system.with_folds_of(replace(lines, fold=np.where(held, 0, 1), n_held=1), execution)
        of_labels = gram_matrices(own, execution, energy=False)
        alone = replace(gram, lines=own.lines, sums=gram.sums | of_labels)
        without = with_folds([pair], lines.n_held)[fold].alone
        values, = held_out_values(own, solve_from_gram(alone, [without], execution), [without], execution)
        found[held] = values[held, 0]
    return found


def gram_solver(gram: GramSystem, execution: Execution) -> SystemSolver:
    """Return what solves systems of all labels from Gram matrices that were made before.

    With the labels' `features` among these, it leaves labels out as well, in closed form.
    """
    def left_out(lines: LabelLines, pair: Penalties) -> np.ndarray:
        values, = closed_form_of_features(gram.sums["features"], lines, gram, with_folds([pair], lines.n_held),
                                          execution)
        return values[:, 0]

    return SystemSolver("nystrom-direct", lambda systems: solve_from_gram(gram, systems, execution), None, gram,
                        left_out=left_out if "features" in gram.sums else None, at_once=True)


def dense_solver(task: DenseTask, execution: Execution) -> SystemSolver:
    """Return what solves systems on all points, in one task."""
    def run(own: DenseTask, systems: Sequence[Penalties], *,
            held_out: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        parts = execution.scratch()
        receipt, = execution.map([replace(own, systems=tuple(systems), held_out=held_out)], parts)
        require_converged(receipt["evidence"], own.params)
        return parts.read(0), receipt["evidence"]

    def solve(systems: Sequence[Penalties]) -> Functions:
        found, evidence = run(task, systems, held_out=False)
        return Functions(found["coef"], found["intercept"], evidence)

    def left_out(lines: LabelLines, pair: Penalties) -> np.ndarray:
        labels = execution.share(**{**task.labels.load(), "fold": lines.fold})
        own = replace(task, labels=labels, n_held=lines.n_held, params=params_left_out(task.params, task.loss, lines))
        return run(own, with_folds([pair], lines.n_held), held_out=True)[0]["values"][:, 0]

    return SystemSolver(task.params.solver, solve,
                        lambda systems: iter([run(task, systems, held_out=True)[0]["values"]]),
                        held_out_method=task.held_out_method, left_out=left_out,
                        at_once=task.params.solver == "direct" or task.loss != SQUARES)


@dataclass(frozen=True)
class HeldOutTask:
    """Write `values` (m, p, c) at the labeled points of a run of blocks; NaN at those that are never held out.

    Coefficients `B` (F, s, p, c) and `intercept` (F, p, c), fold by fold, of p functions with c columns.
    """

    problem: Landmarked
    functions: Arrays
    first: int
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        problem, functions, landmarks = self.problem, self.functions.load(), self.problem.landmark_kernel()
        B, intercept = functions["B"], functions["intercept"]
        F, s, p, c = B.shape
        found = [np.empty((0, p, c))]
        for _, start, _, own in problem.blocks(self.first, self.last):
            if not len(own["position"]):
                continue
            K = landmarks.block(problem.rows.take(start + own["position"]))
            values = np.full((len(K), p, c), np.nan)
            for fold in range(F):
                mine = own["fold"] == fold
                values[mine] = times(K[mine], B[fold].reshape(s, p * c)).reshape(-1, p, c) + intercept[fold]
            found.append(values)
        return out.write(values=np.concatenate(found))


def held_out_values(system: NystromSystem, functions: Functions, systems: Sequence[Penalties],
                    execution: Execution) -> Iterator[np.ndarray]:
    """Yield the values (m, g, c) of groups of penalties at the m labeled points, in the order of their lines.

    systems : F of each pair of penalties, held folds 0 to F - 1 in order. A group has as many pairs as have values that
    fit a quarter of the memory budget.
    """
    F, (p, s, c) = system.lines.n_held, functions.coef.shape
    assert [item.held for item in systems] == list(range(F)) * (p // F)
    B = functions.coef.reshape(p // F, F, s, c).transpose(1, 2, 0, 3)
    intercept = functions.intercept.reshape(p // F, F, c).transpose(1, 0, 2)
    width = max(1, execution.memory_budget // 4 // (8 * c * max(1, len(system.lines.row))))
    for first in range(0, p // F, width):
        shared = execution.share(B=np.ascontiguousarray(B[:, :, first:first + width]),
                                 intercept=np.ascontiguousarray(intercept[:, first:first + width]))
        parts, runs = execution.scratch(), system.problem.runs()
        execution.map([HeldOutTask(system.problem, shared, *run) for run in runs], parts)
        by_place = np.concatenate([parts.read(index)["values"] for index in range(len(runs))])
        parts.remove()
        values = np.empty_like(by_place)
        values[system.by_place] = by_place
        yield values
