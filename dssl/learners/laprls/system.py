"""The systems of Nystrom LapRLS: points in blocks, landmarks, and labels with folds.

With a held-out fold F and penalties in the paper's scale (`penalties.py`), the coefficients b of `f = K T b + mean`
solve

    (Phi_m' W Phi_m + lambda_I Phi' E Phi + lambda_A R) b = Phi_m' W (y - mean)

over the training labels m with weights W; E is the graph's energy and Phi = K_ns T. Whitened, T' K_ss T = I (see
`kernels/nystrom.py`) and R = I; else T = I and R = K_ss, equation (4) of the paper. The control, which measures the
gain from the graph, replaces E by its mean over all relabelings of the vertices, `a I + b 1 1'`.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...base.digest import JsonObject
from ...base.errors import BudgetError, require
from ...execution.exchange.halo_rows import HaloRows, bring_halos
from ...execution.exchange.ordered import ordered
from ...execution.tasks import Execution
from ...graph.energy.blocks import EnergyBlocks, StoredGraph
from ...graph.energy.permuted_blocks import energy_blocks
from ...graph.regularizer import LaplacianKind
from ...kernels.base import Kernel, MercerKernel
from ...kernels.gram import kernel_block
from ...kernels.landmarks import Landmarks
from ...kernels.nystrom import LandmarkMap, whiten_lower
from ...storage.blocks import ArrayRows, Arrays, Parts, PartWriter, Receipt, Rows
from ...storage.csr import point_arrays, points_of
from ...storage.views import SelectedRows
from .params import Functions, LabelLines, SystemParams
from .penalties import Penalties
from .products import SUMMED_ROWS, BlockedProblem, block_bytes

MAX_BLOCK_BYTES = 256 << 20  # larger blocks make no product faster, up to the rows whose float32 products are summed
MIN_BLOCK_ROWS = 512  # with fewer the halo is many times as large as the block


def block_budget(s: int, row_bytes: int, itemsize: int, height: int = MIN_BLOCK_ROWS) -> int:
    """Return the budget of which a block of `height` vertices takes half."""
    return 2 * height * block_bytes(s, row_bytes, itemsize)


def block_vertices(v: int, s: int, row_bytes: int, itemsize: int, budget: int) -> int:
    """Return the vertices of a block that fits in half the budget, for s landmarks.

    Memory of a task: `block_bytes` a vertex, and `gram_bytes` of sums. Raises BudgetError where `MIN_BLOCK_ROWS`
    vertices do not fit.
    """
    each, lower = block_bytes(s, row_bytes, itemsize), min(MIN_BLOCK_ROWS, v)
    fit, needed = min(budget // 2 // each, v), block_budget(s, row_bytes, itemsize, lower)
    require(fit >= lower, f"{s} landmarks and a budget of {budget:,} bytes", error=BudgetError,
            why=f"a block of {lower} points takes {needed // 2:,} bytes, half the budget is for blocks",
            fix=f"raise memory_budget to {needed:,} bytes, or use fewer landmarks")
    usual = max(SUMMED_ROWS if itemsize == 4 else MIN_BLOCK_ROWS, MAX_BLOCK_BYTES // each)
    return min(fit, usual, max(MIN_BLOCK_ROWS, -(-v // 8)))


def whitening_bytes(s: int, cutoff: float | None) -> int:
    """Return the bytes for computing and whitening K_ss."""
    return 8 * s * s * (2 if cutoff is None else 4)


@dataclass(frozen=True)
class WhitenTask:
    """Write the whitening `T` (s, r) of the kernel of the landmarks; the kernel `K_ss` if the cutoff is None."""

    kernel: Kernel
    points: Arrays  # Z
    cutoff: float | None

    def __call__(self, out: PartWriter) -> Receipt:
        Z = points_of(self.points.load(), "Z")
        K = kernel_block(self.kernel, Z, Z)
        # A kernel of the user may return an array of its own.
        K = np.asarray(K, np.float64) if isinstance(self.kernel, MercerKernel) else np.array(K, np.float64)
        if self.cutoff is None:
            return out.write(K_ss=K)
        whitened = whiten_lower(K, self.cutoff)
        return {**out.write(T=whitened.T), "whitening": {"condition": whitened.condition}}


@dataclass(frozen=True, eq=False)
class Basis:
    """The basis of functions of landmarks, and the labels that they are fitted to.

    K_ss : (s, s), the kernel of the landmarks; None where T whitens it. T : (s, r), lower trapezoidal with
    T' K_ss T = I; None for T = I with the penalty K_ss.
    """

    K_ss: np.ndarray | None
    T: np.ndarray | None
    lines: LabelLines
    params: SystemParams
    fit_intercept: bool

    @property
    def s(self) -> int:
        basis = self.K_ss if self.T is None else self.T
        assert basis is not None
        return len(basis)

    @property
    def r(self) -> int:
        return self.s if self.T is None else self.T.shape[1]

    def lift(self, b: np.ndarray) -> np.ndarray:
        """Return the coefficients of landmarks, (s, ...), from those in the basis, (r, ...)."""
        return b if self.T is None else self.T @ b

    def lower(self, values: np.ndarray) -> np.ndarray:
        """Return T' times values (..., s, t) or (s,)."""
        return values if self.T is None else self.T.T @ values

    def penalty(self) -> np.ndarray:
        """Return R, (r, r)."""
        if self.T is not None:
            return np.eye(self.r)
        assert self.K_ss is not None
        return self.K_ss

    def intercepts(self, systems: Sequence[Penalties]) -> np.ndarray:
        """Return the intercept of each system, (p, c)."""
        return self.lines.intercepts([system.held_out for system in systems], self.fit_intercept)

    def right_sides(self, total: np.ndarray, moments: np.ndarray, systems: Sequence[Penalties]) -> np.ndarray:
        """Return Phi_m' W (y - mean) of each system, (p, r, c), from the moments (r, c + 1) of all labels, and those
        (F, r, c + 1) of folds.
        """
        right = []
        for system, mean in zip(systems, self.intercepts(systems), strict=True):
            training = total - (moments[system.held_out] if system.held_out >= 0 else 0)
            right.append(training[:, :-1] - training[:, -1:] * mean)
        return np.array(right)

    def functions(self, b: np.ndarray, systems: Sequence[Penalties], evidence: JsonObject) -> Functions:
        """Return the functions with coefficients b (p, r, c) in the basis."""
        return Functions(np.array([self.lift(each) for each in b]), self.intercepts(systems), evidence)


@dataclass(frozen=True, eq=False)
class NystromSystem(Basis):
    """A problem in blocks, ready for Gram matrices or products.

    whitening : rank and condition of a whitened basis, or None. permutation : (m,), the number of the label line at
    each position in the order of the blocks. landmark_positions : (s,), the positions of the landmarks among the
    permuted vertices; None where they are not vertices. graph : with the energy `blocks`, or None.
    """

    problem: BlockedProblem
    whitening: dict[str, float] | None
    permutation: np.ndarray
    landmark_positions: np.ndarray | None
    graph: StoredGraph | None = None

    @property
    def inductive(self) -> bool:
        """Return whether held-out points leave a graph."""
        return self.params.inductive and self.graph is not None

    @property
    def positions(self) -> np.ndarray:
        """Return the position of each label line's point among the permuted vertices, (m,)."""
        positions = np.empty(len(self.permutation), np.int64)
        positions[self.permutation] = self.problem.labels.load()["position"]
        return positions

    @property
    def blocks(self) -> EnergyBlocks:
        return self.problem.energy

    def without_folds(self, execution: Execution) -> "NystromSystem":
        """Return the system whose Gram matrices are summed over all folds."""
        labels = self.problem.labels.load()
        shared = execution.share(**{**labels, "fold": np.zeros(len(labels["fold"]), np.int64)})
        return replace(self, lines=self.lines.whole, problem=replace(self.problem, labels=shared, n_folds=1))

    def with_folds_of(self, lines: LabelLines, execution: Execution) -> "NystromSystem":
        """Return the system whose Gram matrices are those of the folds of other lines of the same labels."""
        shared = execution.share(**{**self.problem.labels.load(), "fold": lines.fold[self.permutation]})
        return replace(self, lines=replace(self.lines, fold=lines.fold, n_held_out_folds=lines.n_held_out_folds),
                       problem=replace(self.problem, labels=shared, n_folds=lines.n_folds))

    def of_lines(self, lines: LabelLines, chosen: np.ndarray, execution: Execution) -> "NystromSystem":
        """Return the system of the `chosen` (m,) lines of the same labels alone, with the folds of `lines`."""
        in_order = chosen[self.permutation]
        labels = {name: array[in_order] for name, array in self.problem.labels.load().items()}
        fold, position = lines.fold[self.permutation][in_order], np.cumsum(chosen) - 1
        chosen_lines = replace(lines, row=lines.row[chosen], fold=lines.fold[chosen], weight=lines.weight[chosen],
                               target=lines.target[chosen])
        problem = replace(self.problem, labels=execution.share(**{**labels, "fold": fold}),
                          n_folds=lines.n_held_out_folds)
        return replace(self, lines=chosen_lines, problem=problem, permutation=position[self.permutation[in_order]])


@dataclass(frozen=True)
class BlockedPoints:
    """The energy in blocks and the points in the same order, shared by all kernels; halos : see `BlockedProblem`."""

    energy: EnergyBlocks
    rows: Rows
    halos: HaloRows | None


def assemble(rows: Rows, lines: LabelLines, kernel: Kernel, landmarks: Landmarks, graph: Parts | None,
             laplacian: LaplacianKind, params: SystemParams, execution: Execution, *,
             multiplicity: Rows | None = None, order: Rows | None = None, fit_intercept: bool = True,
             known: dict[tuple[int, str], BlockedPoints] | None = None, parts: Parts | None = None) -> NystromSystem:
    """Return the system of distinct points `rows` (v, d) and their graph, if any.

    lines : labels by row. multiplicity : (v,), the duplicates of each point, or None. order : (v,), a permutation of
    the vertices that puts neighbors near each other, or None. known : a cache of blocks by height and Laplacian.
    parts : for the blocks, scratch by default.

    Raises BudgetError: blocks, or the kernel of the landmarks, do not fit. DataError: the kernel of the landmarks is
    zero, not finite or not positive.
    """
    points, labeled, budget = landmarks.points, np.unique(lines.row), execution.memory_budget
    needed = whitening_bytes(points.shape[0], params.cutoff)
    require(needed <= budget, f"{points.shape[0]} landmarks and a budget of {budget:,} bytes", error=BudgetError,
            why=f"their kernel and what whitens it take {needed:,} bytes",
            fix=f"raise memory_budget to {needed:,} bytes, or use fewer landmarks")
    if graph is None and len(labeled) < len(rows):  # nothing is asked of the other points
        rows = SelectedRows(rows, execution.share_rows(ArrayRows(labeled)))
        lines = replace(lines, row=np.searchsorted(labeled, lines.row))
    v = len(rows)
    height = block_vertices(v, points.shape[0], rows.row_bytes, params.itemsize, budget)
    stored = None if graph is None else StoredGraph(graph, laplacian, multiplicity)
    known, key = {} if known is None else known, (height, laplacian)
    if key not in known:
        place = (parts or execution.scratch()).within(f"{laplacian}{height}")
        blocks = energy_blocks(stored, v, height, execution, place.within("energy"), order)
        moved = execution.share_rows(rows) if graph is None else ordered(rows, blocks.positions, execution,
                                                                         place.within("points"))
        known[key] = BlockedPoints(blocks, moved, bring_halos(moved, blocks.parts, len(blocks.ranges), "halo",
                                                              round(blocks.halo * v), execution, place.within("halos")))
    blocks, moved = known[key].energy, known[key].rows
    position = blocks.positions.take(lines.row)
    permutation = np.argsort(position, kind="stable")
    shared = execution.share(position=position[permutation], fold=lines.fold[permutation].astype(np.int64),
                             weight=lines.weight[permutation].astype(np.float64), target=lines.target[permutation])
    whitened, Z = execution.scratch(), point_arrays("Z", points)
    receipt, = execution.map([WhitenTask(kernel, execution.share(**Z), params.cutoff)], whitened)
    arrays = whitened.read(0)
    features = LandmarkMap(kernel, points, arrays.get("T"), params.dtype)
    T = {} if features.T is None else {"T": features.T}
    problem = BlockedProblem(kernel, moved, execution.share(**Z, **T), shared, blocks, lines.n_folds,
                         params.dtype, uuid.uuid4().hex, known[key].halos)
    landmark_positions = None if landmarks.rows is None or graph is None else blocks.positions.take(landmarks.rows)
    whitening = {"rank": features.width, **receipt["whitening"]} if "whitening" in receipt else None
    return NystromSystem(arrays.get("K_ss"), features.T, lines, params, fit_intercept, problem, whitening, permutation,
                         landmark_positions, stored)
