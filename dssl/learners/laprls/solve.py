"""Solve many systems of LapRLS at once, by the method that is asked for or the cheaper one; held-out predictions."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...execution.tasks import Execution
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..losses import SQUARES
from .closed_form import closed_form_of, closed_form_of_features, closed_form_values, label_features
from .dense import DenseTask
from .gram import GramSystem, gram_matrices, gram_system, solve_from_gram
from .inductive import ClosedFormOfFold, FoldSolver, RefitOfFold, inductive_values, refolded, require_folds_fit
from .iterations import require_converged, solve_by_products
from .params import Functions, LabelLines, params_left_out
from .penalties import Penalties, with_folds
from .products import Landmarked, gram_bytes, times
from .system import NystromSystem

FLOPS, SPARSE_FLOPS, ENTRY_SECONDS, READ_BYTES = 4e10, 1.5e9, 3e-9, 8e9  # of one core, a second, or seconds an entry
USUAL_ITERATIONS = 25
NOT_COMPARED: Mapping[str, float] = {}  # of methods of which there is no choice


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


class LinearSystem(ABC):
    """Systems of one problem, and the method that solves them: the least squares of other penalties, folds and labels.

    method : its name. expected_seconds : of the methods that were compared, by name. held_out_method : how folds are
    held out, "closed_form", "refit" or by the influence function. at_once : whether single labels are left out without
    a system each. leaves_out : whether labels can be left out at all. gram : the matrices that later solutions can be
    made of; None where there are none.
    """

    method: str
    expected_seconds: Mapping[str, float]
    held_out_method: str = "refit"
    at_once: bool = True
    leaves_out: bool = True
    gram: GramSystem | None

    @abstractmethod
    def solve(self, systems: Sequence[Penalties]) -> Functions:
        """Return the functions of systems."""

    @abstractmethod
    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        """Yield the values (m, g, c) of groups of pairs of penalties at the labels, each by the function of its fold.

        systems : F of each pair, held folds 0 to F - 1 in order.
        """

    @abstractmethod
    def left_out(self, lines: LabelLines, pair: Penalties) -> np.ndarray:
        """Return the values (m, c) at the labels, each by the function without its fold.

        lines : the labels with these folds. pair : penalties whose scale is of these.
        """

    def refolded(self, lines: LabelLines) -> "LinearSystem | None":
        """Return what holds out the folds of other lines of the same labels; None where all is made anew for these."""
        return None

    def label_features(self) -> np.ndarray | None:
        """Return the features (m, r) of the labels, where Gram matrices lack them for a later fit."""
        return None


@dataclass(frozen=True, eq=False)
class FromGram(LinearSystem):
    """A Cholesky factor of Gram matrices for each system; those of which folds are held out have their own."""

    system: NystromSystem
    gram: GramSystem
    execution: Execution
    expected_seconds: Mapping[str, float]
    method = "nystrom-direct"

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        return solve_from_gram(self.gram, systems, self.execution)

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        return held_out_values(self.system, self.solve(systems), systems, self.execution)

    def left_out(self, lines: LabelLines, pair: Penalties) -> np.ndarray:
        """As the base class says: single points in closed form; folds by Gram matrices of each, in turn."""
        system, gram, execution = self.system, self.gram, self.execution
        if max(lines.counts) == 1:
            of_folds, pairs = refolded(system, lines), with_folds([pair], lines.n_held)
            values, = closed_form_values(of_folds, gram, pairs, execution)
            return values[:, 0]
        left_out = np.full(lines.target.shape, np.nan)
        for fold in range(lines.n_held):
            held = lines.fold == fold
            of_folds = system.with_folds_of(replace(lines, fold=np.where(held, 0, 1), n_held=1), execution)
            of_labels = gram_matrices(of_folds, execution, energy=False)
            alone = replace(gram, lines=of_folds.lines, sums=gram.sums | of_labels)
            without = with_folds([pair], lines.n_held)[fold].alone
            values, = held_out_values(of_folds, solve_from_gram(alone, [without], execution), [without], execution)
            left_out[held] = values[held, 0]
        return left_out

    def label_features(self) -> np.ndarray | None:
        return label_features(self.system, self.execution)


@dataclass(frozen=True, eq=False)
class FromOneTraining(FromGram):
    """The same from Gram matrices of all labels, which no fold changes: folds are held out in closed form.

    of_fold : where points that are held out leave the graph, what solves the systems of a fold.
    """

    of_fold: FoldSolver

    @property
    def held_out_method(self) -> str:  # type: ignore[override]
        return "closed_form" if isinstance(self.of_fold, ClosedFormOfFold) else "refit"

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        if self.system.inductive:
            return inductive_values(self.system, self.gram, systems, self.of_fold, self.execution)
        return closed_form_values(self.system, self.gram, systems, self.execution)

    def refolded(self, lines: LabelLines) -> LinearSystem:
        return replace(self, system=refolded(self.system, lines))


@dataclass(frozen=True, eq=False)
class FromKeptGram(LinearSystem):
    """From Gram matrices of all labels that were made before; with the labels' `features` it leaves labels out."""

    gram: GramSystem
    execution: Execution
    method, expected_seconds = "nystrom-direct", NOT_COMPARED

    @property
    def leaves_out(self) -> bool:  # type: ignore[override]
        return "features" in self.gram.sums

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        return solve_from_gram(self.gram, systems, self.execution)

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        return closed_form_of_features(self.gram.sums["features"], self.gram.lines, self.gram, systems, self.execution)

    def left_out(self, lines: LabelLines, pair: Penalties) -> np.ndarray:
        values, = closed_form_of_features(self.gram.sums["features"], lines, self.gram,
                                          with_folds([pair], lines.n_held), self.execution)
        return values[:, 0]


@dataclass(frozen=True, eq=False)
class ByProducts(LinearSystem):
    """Conjugate gradients on products over all blocks of points, preconditioned or not."""

    system: NystromSystem
    execution: Execution
    method: str
    expected_seconds: Mapping[str, float]
    gram, at_once = None, False

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        return self._solved(self.system, systems)

    def _solved(self, system: NystromSystem, systems: Sequence[Penalties]) -> Functions:
        return solve_by_products(system, systems, self.execution, preconditioned=self.method == "nystrom-pcg")

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        return held_out_values(self.system, self.solve(systems), systems, self.execution)

    def left_out(self, lines: LabelLines, pair: Penalties) -> np.ndarray:
        of_folds, systems = self.system.with_folds_of(lines, self.execution), with_folds([pair], lines.n_held)
        values, = held_out_values(of_folds, self._solved(of_folds, systems), systems, self.execution)
        return values[:, 0]

    def label_features(self) -> np.ndarray | None:
        return label_features(self.system, self.execution)


@dataclass(frozen=True, eq=False)
class OnAllPoints(LinearSystem):
    """Systems on all points, in one task: an LU factor each, or conjugate gradients."""

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
    def at_once(self) -> bool:  # type: ignore[override]
        return self.task.params.solver == "direct" or self.task.loss != SQUARES

    def _run(self, task: DenseTask, systems: Sequence[Penalties], *,
             held_out: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        parts = self.execution.scratch()
        receipt, = self.execution.map([replace(task, systems=tuple(systems), held_out=held_out)], parts)
        require_converged(receipt["evidence"], task.params)
        return parts.read(0), receipt["evidence"]

    def solve(self, systems: Sequence[Penalties]) -> Functions:
        arrays, evidence = self._run(self.task, systems, held_out=False)
        return Functions(arrays["coef"], arrays["intercept"], evidence)

    def held_out(self, systems: Sequence[Penalties]) -> Iterator[np.ndarray]:
        yield self._run(self.task, systems, held_out=True)[0]["values"]

    def left_out(self, lines: LabelLines, pair: Penalties) -> np.ndarray:
        task = self.task
        labels = self.execution.share(**{**task.labels.load(), "fold": lines.fold})
        params = params_left_out(task.params, task.loss, lines)
        of_folds = replace(task, labels=labels, n_held=lines.n_held, params=params)
        return self._run(of_folds, with_folds([pair], lines.n_held), held_out=True)[0]["values"][:, 0]


def least_squares(system: NystromSystem, expected: Sequence[Penalties], execution: Execution,
                  parts: Parts | None = None, held: Sequence[Penalties] = ()) -> LinearSystem:
    """Return what solves least squares on landmarks, the systems that are expected.

    parts : where shares of Gram matrices go, scratch by default. held : pairs of penalties of which folds will be held
    out; in closed form, Gram matrices are of all folds together, and only systems of all labels are solved.
    """
    closed_form = closed_form_of(system, held, execution.memory_budget)
    method, costs = method_of(system, [*expected, *with_folds(held, system.lines.n_held)], execution, closed_form)
    if method != "nystrom-direct":
        return ByProducts(system, execution, method, costs)
    inductive = system.inductive and bool(held)
    if closed_form is None and not inductive:
        return FromGram(system, gram_system(system, [*expected, *held], execution, parts), execution, costs)
    of_fold = (RefitOfFold if closed_form is None else ClosedFormOfFold)(system.fit_intercept)
    if inductive:
        require_folds_fit(system, of_fold, execution.memory_budget)
    whole = gram_system(system.without_folds(execution), [*expected, *held], execution, parts)
    return FromOneTraining(system, whole, execution, costs, of_fold)


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
        blocks = [np.empty((0, p, c))]
        for _, start, _, block in problem.blocks(self.first, self.last):
            if not len(block["position"]):
                continue
            K = landmarks.block(problem.rows.take(start + block["position"]))
            values = np.full((len(K), p, c), np.nan)
            for fold in range(F):
                mine = block["fold"] == fold
                values[mine] = times(K[mine], B[fold].reshape(s, p * c)).reshape(-1, p, c) + intercept[fold]
            blocks.append(values)
        return out.write(values=np.concatenate(blocks))


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
