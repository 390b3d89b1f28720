"""The systems of Nystrom LapRLS: points in blocks, landmarks, labels with folds, and what their Gram matrices are.

For a fold F held out, and penalties in the paper's scale (`penalties.py`), the coefficients b of `f = K T b + mean`
solve

    (Phi_m' W Phi_m + lambda_I Phi' E Phi + lambda_A R) b = Phi_m' W (y - mean)

over the labeled points m without F, with their weights W; E is the graph's energy and Phi = K_ns T. Whitened, T is
`U E^-1/2` of `K_ss = U E U'` and R = I; else T = I and R = K_ss, equation (4) of the paper. The control of what the
graph adds is the same with the mean of E over all relabelings of its vertices, `a I + b 1 1'`.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.errors import BudgetError, require
from ...execution.exchange.halo_rows import HaloRows, bring_halos
from ...execution.exchange.ordered import ordered
from ...execution.tasks import Execution
from ...graph.energy.blocks import EnergyBlocks, StoredGraph
from ...graph.energy.permuted_blocks import energy_blocks
from ...graph.regularizer_params import LaplacianKind
from ...kernels.base import Kernel
from ...kernels.features import LandmarkMap
from ...kernels.landmarks import Landmarks
from ...kernels.nystrom import lower_trapezoidal, whiten
from ...storage.blocks import ArrayRows, Arrays, Parts, PartWriter, Receipt, Rows
from ...storage.csr import point_arrays, points_of
from ...storage.views import SelectedRows
from .params import Functions, LabelLines, SystemParams
from .penalties import Penalties
from .products import Landmarked, block_bytes

MOST_BLOCK_BYTES = 256 << 20  # taller blocks make no product faster
LEAST_ROWS = 512  # of a block: fewer and its halo is many times as large


def block_budget(s: int, row_bytes: int, itemsize: int, height: int = LEAST_ROWS) -> int:
    """Return the budget of which a block of so many vertices takes half."""
    return 2 * height * block_bytes(s, row_bytes, itemsize)


def block_vertices(v: int, s: int, row_bytes: int, itemsize: int, budget: int) -> int:
    """Return the vertices of a block: as many as fit in half the budget, for s landmarks.

    Memory of a task: `block_bytes` a vertex (its halo is read in chunks of as many), and `gram_bytes` of sums.

    Raises BudgetError: not `LEAST_ROWS` vertices fit.
    """
    each, least = block_bytes(s, row_bytes, itemsize), min(LEAST_ROWS, v)
    fit, needed = min(budget // 2 // each, v), block_budget(s, row_bytes, itemsize, least)
    require(fit >= least, f"{s} landmarks and a budget of {budget:,} bytes", error=BudgetError,
            why=f"a block of {least} points takes {needed // 2:,} bytes, half the budget is for blocks",
            fix=f"raise memory_budget to {needed:,} bytes, or use fewer landmarks")
    return min(fit, max(LEAST_ROWS, MOST_BLOCK_BYTES // each), max(LEAST_ROWS, -(-v // 8)))


def whitening_bytes(s: int, cutoff: float | None) -> int:
    """Return the bytes that K_ss and what whitens it take while it is made."""
    return 8 * s * s * (2 if cutoff is None else 5)


@dataclass(frozen=True)
class WhitenTask:
    """Write `K_ss` (s, s) of the landmarks, and `T` (s, r) unless the cut-off is None."""

    kernel: Kernel
    points: Arrays  # Z
    cutoff: float | None

    def __call__(self, out: PartWriter) -> Receipt:
        Z = points_of(self.points.load(), "Z")
        K = np.asarray(self.kernel(Z, Z), np.float64)
        if self.cutoff is None:
            return out.write(K_ss=K)
        whitened = whiten(K, self.cutoff)
        return {**out.write(K_ss=K, T=lower_trapezoidal(whitened.T)),
                "whitening": {"condition": whitened.condition}}


@dataclass(frozen=True, eq=False)
class Basis:
    """What functions of landmarks are written in, whitened or as the paper writes them, and what they are fitted to.

    T : (s, r), lower trapezoidal, T' K_ss T = I; None for T = I, then `K_ss` is the penalty.
    """

    K_ss: np.ndarray
    T: np.ndarray | None
    lines: LabelLines
    params: SystemParams
    fit_intercept: bool

    @property
    def s(self) -> int:
        return len(self.K_ss)

    @property
    def r(self) -> int:
        return self.s if self.T is None else self.T.shape[1]

    def lift(self, b: np.ndarray) -> np.ndarray:
        """Return the coefficients of landmarks, (s, ...), of those in the whitened basis, (r, ...)."""
        return b if self.T is None else self.T @ b

    def lower(self, values: np.ndarray) -> np.ndarray:
        """Return T' times values (..., s, t) or (s,)."""
        return values if self.T is None else self.T.T @ values

    def penalty(self) -> np.ndarray:
        """Return R, (r, r)."""
        return self.K_ss if self.T is None else np.eye(self.r)

    def intercepts(self, systems: Sequence[Penalties]) -> np.ndarray:
        """Return the intercept of each system, (p, c)."""
        return self.lines.intercepts([system.held for system in systems], self.fit_intercept)

    def right_sides(self, moments: np.ndarray, systems: Sequence[Penalties]) -> np.ndarray:
        """Return Phi_m' W (y - mean) of each system, (p, r, c), from the moments (F, r, c + 1) of the folds."""
        whole, right = moments.sum(axis=0), []
        for system, mean in zip(systems, self.intercepts(systems), strict=True):
            of_system = whole - (moments[system.held] if system.held >= 0 else 0)
            right.append(of_system[:, :-1] - of_system[:, -1:] * mean)
        return np.array(right)

    def functions(self, b: np.ndarray, systems: Sequence[Penalties], evidence: dict[str, Any]) -> Functions:
        """Return the functions whose coefficients in the basis are b (p, r, c)."""
        return Functions(np.array([self.lift(each) for each in b]), self.intercepts(systems), evidence)


@dataclass(frozen=True, eq=False)
class NystromSystem(Basis):
    """A problem in blocks, ready for Gram matrices or products.

    whitening : the rank and the condition (JSON) where the basis is whitened, or else None.
    by_place : (m,), the number of the label line at each place in the order of the blocks.
    places : (s,), the landmarks' places among the ordered vertices, or None where they are none, or there is no graph.
    graph : whose energy `blocks` is; None for none.
    """

    problem: Landmarked
    whitening: dict[str, float] | None
    by_place: np.ndarray
    places: np.ndarray | None
    graph: StoredGraph | None = None

    @property
    def inductive(self) -> bool:
        """Return whether points that are held out leave a graph."""
        return self.params.inductive and self.graph is not None

    @property
    def positions(self) -> np.ndarray:
        """Return the place of each label line's point among the ordered vertices, (m,)."""
        positions = np.empty(len(self.by_place), np.int64)
        positions[self.by_place] = self.problem.labels.load()["position"]
        return positions

    @property
    def blocks(self) -> EnergyBlocks:
        return self.problem.energy

    def without_folds(self, execution: Execution) -> "NystromSystem":
        """Return the system of all labels, so that Gram matrices are summed over all folds."""
        labels = self.problem.labels.load()
        shared = execution.share(**{**labels, "fold": np.zeros(len(labels["fold"]), np.int64)})
        return replace(self, lines=self.lines.whole, problem=replace(self.problem, labels=shared, n_folds=1))

    def with_folds_of(self, lines: LabelLines, execution: Execution) -> "NystromSystem":
        """Return the system with the folds of other lines of the same labels, for what is summed by fold."""
        shared = execution.share(**{**self.problem.labels.load(), "fold": lines.fold[self.by_place]})
        return replace(self, lines=replace(self.lines, fold=lines.fold, n_held=lines.n_held),
                       problem=replace(self.problem, labels=shared, n_folds=lines.n_folds))


@dataclass(frozen=True)
class InBlocks:
    """The energy of points in blocks, and these points in that order: what systems of any kernel share.

    near : the points of each block's halo, where they are not read from `rows`.
    """

    energy: EnergyBlocks
    rows: Rows
    near: HaloRows | None


def assemble(rows: Rows, lines: LabelLines, kernel: Kernel, landmarks: Landmarks, graph: Parts | None,
             laplacian: LaplacianKind, params: SystemParams, execution: Execution, *,
             copies: Rows | None = None, order: Rows | None = None, fit_intercept: bool = True,
             known: dict[tuple[int, str], InBlocks] | None = None, parts: Parts | None = None) -> NystromSystem:
    """Return the system of points `rows` (v, d), all distinct, whose graph `graph` is (None for none).

    lines : labeled points by row. landmarks : `rows` of them, where they are points. copies : (v,), the points
    that each stands for, or None. order : (v,), the vertex at each place, in which neighbors are near, if one is known.
    known : blocks of these points and this graph that were made before, by their height and Laplacian; is added to.
    parts : where blocks go, scratch by default; what is finished there is kept.

    Raises BudgetError: blocks, or the kernel of the landmarks, do not fit.
    DataError : the kernel of the landmarks is zero, not finite or not positive.
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
    stored = None if graph is None else StoredGraph(graph, laplacian, copies)
    known, key = {} if known is None else known, (height, laplacian)
    if key not in known:
        place = (parts or execution.scratch()).within(f"{laplacian}{height}")
        blocks = energy_blocks(stored, v, height, execution, place.within("energy"), order)
        moved = execution.share_rows(rows) if graph is None else ordered(rows, blocks.positions, execution,
                                                                         place.within("points"))
        known[key] = InBlocks(blocks, moved, bring_halos(moved, blocks.parts, len(blocks.ranges), "halo",
                                                         round(blocks.halo * v), execution, place.within("halos")))
    blocks, moved = known[key].energy, known[key].rows
    position = blocks.positions.take(lines.row)
    by_place = np.argsort(position, kind="stable")
    shared = execution.share(position=position[by_place], fold=lines.fold[by_place].astype(np.int64),
                             weight=lines.weight[by_place].astype(np.float64), target=lines.target[by_place])
    whitened, Z = execution.scratch(), point_arrays("Z", points)
    receipt, = execution.map([WhitenTask(kernel, execution.share(**Z), params.cutoff)], whitened)
    arrays = whitened.read(0)
    features = LandmarkMap(kernel, points, arrays.get("T"), params.precision)
    T = {} if features.T is None else {"T": features.T}
    problem = Landmarked(kernel, moved, execution.share(**Z, **T), shared, blocks, lines.n_folds,
                         params.precision, uuid.uuid4().hex, known[key].near)
    places = None if landmarks.rows is None or graph is None else blocks.positions.take(landmarks.rows)
    whitening = {"rank": features.width, **receipt["whitening"]} if "whitening" in receipt else None
    return NystromSystem(arrays["K_ss"], features.T, lines, params, fit_intercept, problem, whitening, by_place, places,
                         stored)
