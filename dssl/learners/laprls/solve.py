"""Solve many systems of LapRLS at once, by the method that is asked for or the cheaper one."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ...execution.tasks import Execution
from ...storage.blocks import Parts
from .dense import DenseTask
from .gram import GramSystem, gram_system, solve_from_gram
from .held_out import held_out_values
from .iterations import require_converged, solve_by_products
from .params import Functions
from .penalties import System
from .products import gram_bytes
from .system import NystromSystem

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


class SystemSolver(ABC):
    """Solves systems of one problem.

    method : its name. expected_seconds : of the methods that were compared, by name.
    """

    method: str
    expected_seconds: dict[str, float]

    @abstractmethod
    def solve(self, systems: Sequence[System]) -> Functions:
        """Return the functions of some systems."""

    @abstractmethod
    def held_out(self, systems: Sequence[System]) -> Iterator[np.ndarray]:
        """Yield the values (m, g, c) of groups of penalties at the labeled points, each by the one of its fold.

        systems : F of each pair of penalties, held folds 0 to F - 1 in order.
        """

    @property
    def gram(self) -> GramSystem | None:
        """Return the Gram matrices that later solutions can be made of; None where there are none."""
        return None


class NystromSolver(SystemSolver):
    """Solves systems of landmarks; Gram matrices, once made, serve all that follow."""

    def __init__(self, system: NystromSystem, expected: Sequence[System], execution: Execution,
                 parts: Parts | None = None):
        self.system, self.execution = system, execution
        self.method, self.expected_seconds = method_of(system, expected, execution)
        self._gram = gram_system(system, expected, execution, parts) if self.method == "nystrom-direct" else None

    @property
    def gram(self) -> GramSystem | None:
        return self._gram

    def solve(self, systems: Sequence[System]) -> Functions:
        if self._gram is not None:
            return solve_from_gram(self._gram, systems, self.execution)
        return solve_by_products(self.system, systems, self.execution, preconditioned=self.method == "nystrom-pcg")

    def held_out(self, systems: Sequence[System]) -> Iterator[np.ndarray]:
        return held_out_values(self.system, self.solve(systems), systems, self.execution)


class GramSolver(SystemSolver):
    """Solves systems of all labels from Gram matrices that were made before."""

    method = "nystrom-direct"

    def __init__(self, gram: GramSystem, execution: Execution):
        self._gram, self.execution, self.expected_seconds = gram, execution, {}

    @property
    def gram(self) -> GramSystem:
        return self._gram

    def solve(self, systems: Sequence[System]) -> Functions:
        return solve_from_gram(self._gram, systems, self.execution)

    def held_out(self, systems: Sequence[System]) -> Iterator[np.ndarray]:
        raise NotImplementedError("the labels of all folds are in one")


class DenseSolver(SystemSolver):
    """Solves systems on all points, in one task."""

    def __init__(self, task: DenseTask, execution: Execution):
        self.task, self.execution = task, execution
        self.method, self.expected_seconds = task.method, {}

    def solve(self, systems: Sequence[System]) -> Functions:
        return Functions(*self._run(systems, held_out=False))

    def held_out(self, systems: Sequence[System]) -> Iterator[np.ndarray]:
        yield self._run(systems, held_out=True)[0]

    def _run(self, systems: Sequence[System], *, held_out: bool) -> tuple:
        """Return the arrays that the task writes, and its evidence."""
        parts = self.execution.scratch()
        task = replace(self.task, systems=tuple(systems), held_out=held_out)
        receipt, = self.execution.map([task], parts)
        require_converged(receipt["evidence"], self.task.params)
        found = parts.read(0)
        return (found["values"],) if held_out else (found["coef"], found["intercept"], receipt["evidence"])
