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
from typing import Any, Literal

import numpy as np

from ...errors import BudgetError, require
from ...execution.tasks import SHARED_CHUNK, Execution
from ...graph.energy import EnergyBlocks, split_energy
from ...kernels.base import Kernel
from ...kernels.landmarks import Landmarks
from ...kernels.nystrom import Whitening, lower_trapezoidal, whiten
from ...solvers.blocked_cg import Stop
from ...storage.blocks import (
    ArrayRows,
    Arrays,
    Parts,
    PartWriter,
    Receipt,
    Rows,
    SelectedRows,
    row_ranges,
    rows_that_fit,
)
from ...storage.csr import point_arrays, points_of, write_sparse
from .penalties import System
from .products import MOST_RUNS, GramTask, Landmarked, runs_of_blocks, sum_parts

SOLVERS = ("auto", "nystrom-pcg", "nystrom-cg", "nystrom-direct", "pcg", "cg", "direct")
PRECONDITIONERS = ("edges", "paper", "paper-5", "paper-6", "none")
CUTOFFS = {"float64": 1e-10, "float32": 1e-6}
MOST_BLOCK_BYTES = 256 << 20  # taller blocks make no product faster
LEAST_ROWS = 512  # of a block: fewer and its halo is many times as large

Solver = Literal["auto", "nystrom-pcg", "nystrom-cg", "nystrom-direct", "pcg", "cg", "direct"]
Preconditioner = Literal["edges", "paper", "paper-5", "paper-6", "none"]


@dataclass(frozen=True, kw_only=True)
class SystemParams:
    """How the systems are written and solved.

    solver : "nystrom-direct" forms Gram matrices, "nystrom-pcg" and "nystrom-cg" iterate; "direct", "pcg" and "cg" are
        the same on all points instead of landmarks, equation (3); "auto" takes "nystrom-direct" or "nystrom-pcg", which
        costs less.
    preconditioner : of "nystrom-pcg": "edges" samples edges and labels; "paper" is equation (5) for m <= n^1/2 labels
        and (6) for more, "paper-5" and "paper-6" one of them; "none".
    edges : edges and labels sampled, a landmark.
    whitening : eigenvalues of K_ss below this share of the largest are dropped; "auto" is 1e-10 in float64 and 1e-6 in
        float32; None leaves the system as the paper writes it.
    precision : of kernel blocks, whose products are added in float64 either way.
    tolerance : residual relative to the right-hand side. max_iterations : of a column.
    """

    solver: Solver = "auto"
    preconditioner: Preconditioner = "edges"
    edges: int = 8
    whitening: float | Literal["auto"] | None = "auto"
    precision: Literal["float64", "float32"] = "float64"
    tolerance: float = 1e-6
    max_iterations: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.solver in SOLVERS, f"solver={self.solver!r}, expected one of {', '.join(SOLVERS)}",
                why="it names a method", fix='use "auto"')
        require(self.preconditioner in PRECONDITIONERS,
                f"preconditioner={self.preconditioner!r}, expected one of {', '.join(PRECONDITIONERS)}",
                why="it names a matrix that approximates the system", fix='use "edges"')
        whole = isinstance(self.edges, (int, np.integer)) and not isinstance(self.edges, bool)
        require(whole and self.edges >= 1, f"edges={self.edges!r}, expected a whole number >= 1",
                why="so many edges and labels are sampled, a landmark", fix="use 8")
        require(self.precision in CUTOFFS, f"precision={self.precision!r}, expected float64 or float32",
                why="kernel blocks are made of it", fix="use float64; float32 takes half the time")
        given = self.whitening if self.whitening not in (None, "auto") else 0.5
        require(isinstance(given, (int, float)) and 0 < given < 1, f"whitening={self.whitening!r}",
                why="it is a share of the largest eigenvalue", fix='use "auto", 1e-10, or None for no whitening')
        Stop(self.tolerance, self.max_iterations)

    @property
    def cutoff(self) -> float | None:
        """Return the share of the largest eigenvalue of K_ss below which directions are dropped, None for all kept."""
        return CUTOFFS[self.precision] if self.whitening == "auto" else self.whitening

    @property
    def itemsize(self) -> int:
        return np.dtype(self.precision).itemsize


@dataclass(frozen=True)
class LabelLines:
    """Labeled points: `row` (m,) among the vertices, `fold` (m,) from 0, `weight` (m,) > 0, `target` (m, c).

    The first `n_held` folds are held out in turn; points of another are never held out.
    """

    row: np.ndarray
    fold: np.ndarray
    weight: np.ndarray
    target: np.ndarray
    n_held: int = 1

    @classmethod
    def of(cls, row: np.ndarray, weight: np.ndarray, target: np.ndarray,
           held: Sequence[np.ndarray] = ()) -> "LabelLines":
        """Return the lines of labeled points whose folds are these lists of positions."""
        fold = np.full(len(row), len(held), np.int64)
        for number, members in enumerate(held):
            fold[members] = number
        return cls(row, fold, weight, target, len(held))

    @property
    def n_folds(self) -> int:
        """Return the number of folds, one more than `n_held` if some points are never held out."""
        return int(self.fold.max(initial=0)) + 1

    @property
    def kept(self) -> tuple[float, ...]:
        """Return the weight of the points without each fold that is held out; last, of all."""
        whole = float(self.weight.sum())
        return *(whole - float(self.weight[self.fold == fold].sum()) for fold in range(self.n_held)), whole

    @property
    def judged_weight(self) -> float:
        """Return the weight of the points that are held out once."""
        return float(self.weight[self.fold < self.n_held].sum())

    def means(self, held: int = -1) -> np.ndarray:
        """Return the weighted mean of the targets (c,) without a fold."""
        seen = self.fold != held
        return np.average(self.target[seen], axis=0, weights=self.weight[seen])


def block_height(v: int, s: int, row_bytes: int, itemsize: int, budget: int) -> int:
    """Return the vertices of a block: as many as fit in half the budget, for s landmarks.

    Memory of a task: `block_bytes` a vertex (its halo is read in chunks of as many), and `gram_bytes` of sums; the
    formula at the head of `kernels/products.py`.

    Raises
    ------
    BudgetError : not `LEAST_ROWS` vertices fit.
    """
    each = block_bytes(s, row_bytes, itemsize)
    try:
        fit = rows_that_fit(budget // 2, each, v)
    except BudgetError:
        fit = 0
    require(fit >= min(LEAST_ROWS, v), f"{s} landmarks and a budget of {budget:,} bytes", error=BudgetError,
            why=f"a block of {min(LEAST_ROWS, v)} points takes {min(LEAST_ROWS, v) * each:,} bytes, half the budget "
                "is for blocks", fix="raise memory_budget, or use fewer landmarks")
    return min(fit, max(LEAST_ROWS, MOST_BLOCK_BYTES // each), max(LEAST_ROWS, -(-v // 8)))


def block_bytes(s: int, row_bytes: int, itemsize: int) -> int:
    """Return the bytes of a block a vertex: kernel, Phi, E K, a chunk of the halo, and a temporary; and its points."""
    return 5 * itemsize * s + 8 * row_bytes


def gram_bytes(s: int, n_folds: int, points: bool, energy: bool = True, labels: bool = True, n_outputs: int = 1) -> int:
    """Return the bytes of a run's sums: energy, points, labels of each fold, a product that is being added; moments."""
    matrices = energy + points + n_folds * labels
    return 8 * s * s * (matrices + (matrices > 0)) + 8 * s * n_folds * (n_outputs + 1)


def whitening_bytes(s: int, cutoff: float | None) -> int:
    """Return the bytes that K_ss and what whitens it take while it is made."""
    return 8 * s * s * (2 if cutoff is None else 5)


def ordered(rows: Rows, order: np.ndarray, execution: Execution) -> Rows:
    """Return the rows in another order, read by ranges: copied once, by tasks that each read all of them."""
    if isinstance(rows, ArrayRows) and not rows.is_sparse:
        return execution.share_rows(ArrayRows(np.ascontiguousarray(rows.take(order))))
    chosen = SelectedRows(rows, order)
    height = max(1, execution.memory_budget // 4 // rows.row_bytes)
    chunk = max(1, SHARED_CHUNK // rows.row_bytes)
    parts = execution.scratch()
    if rows.is_sparse:
        return write_sparse(chosen, parts, min(height, chunk))
    chunk = min(len(rows), chunk)
    parts.allocate("rows", rows.shape, rows.dtype, chunk)
    height = max(chunk, height // chunk * chunk)
    shared = execution.share(order=order)
    execution.map([OrderTask(rows, shared, start, stop) for start, stop in row_ranges(len(rows), height)], parts)
    return parts.rows("rows")


@dataclass(frozen=True)
class OrderTask:
    """Write rows [start, stop) of the new order."""

    rows: Rows
    order: Arrays
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.rows.take(self.order.load()["order"][self.start:self.stop])
        return out.write_rows(self.start, rows=block)


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
        found = whiten(K, self.cutoff)
        return {**out.write(K_ss=K, T=lower_trapezoidal(found.T)),
                "whitening": {"largest": found.largest, "condition": found.condition}}


@dataclass(frozen=True)
class NystromSystem:
    """A problem in blocks, ready for Gram matrices or products.

    whitening : T and what was dropped; None for the system as the paper writes it, then `K_ss` is its penalty.
    places : (s,), the landmarks' places among the ordered vertices, or None where they are none, or there is no graph.
    """

    problem: Landmarked
    lines: LabelLines
    whitening: Whitening | None
    K_ss: np.ndarray
    places: np.ndarray | None
    params: SystemParams
    fit_intercept: bool

    @property
    def blocks(self) -> EnergyBlocks:
        return self.problem.energy

    @property
    def s(self) -> int:
        return len(self.K_ss)

    @property
    def r(self) -> int:
        return self.s if self.whitening is None else self.whitening.T.shape[1]

    def lift(self, b: np.ndarray) -> np.ndarray:
        """Return the coefficients of landmarks, (s, ...), of those in the whitened basis, (r, ...)."""
        return b if self.whitening is None else self.whitening.T @ b

    def lower(self, values: np.ndarray) -> np.ndarray:
        """Return T' times values (..., s, t) or (s,)."""
        return values if self.whitening is None else self.whitening.T.T @ values

    def penalty(self) -> np.ndarray:
        """Return R, (r, r)."""
        return self.K_ss if self.whitening is None else np.eye(self.r)

    def intercepts(self, systems: Sequence[System]) -> np.ndarray:
        """Return the intercept of each system, (p, c)."""
        c = self.lines.target.shape[1]
        if not self.fit_intercept:
            return np.zeros((len(systems), c))
        known = {held: self.lines.means(held) for held in {system.held for system in systems}}
        return np.array([known[system.held] for system in systems])

    def right_sides(self, sums: dict[str, np.ndarray], systems: Sequence[System]) -> np.ndarray:
        """Return Phi_m' W (y - mean) of each system, (p, r, c), from the moments of the folds."""
        moments, c = sums["moments"], self.lines.target.shape[1]
        whole, found = moments.sum(axis=0), []
        for system, mean in zip(systems, self.intercepts(systems), strict=True):
            own = whole - (moments[system.held] if system.held >= 0 else 0)
            found.append(own[:, :c] - own[:, c:] * mean)
        return np.array(found)


def assemble(rows: Rows, lines: LabelLines, kernel: Kernel, landmarks: Landmarks, graph: Parts | None,
             laplacian: Literal["normalized", "unnormalized"], params: SystemParams, execution: Execution, *,
             vertices: Any = None, fit_intercept: bool = True) -> NystromSystem:
    """Return the system of points `rows` (v, d), all distinct, whose graph `graph` is (None for none).

    Parameters
    ----------
    lines : labeled points by row. landmarks : `rows` of them, where they are points. vertices : Arrays with
        `multiplicity` (v,), or None.

    Raises
    ------
    BudgetError : blocks, or the kernel of the landmarks, do not fit.
    DataError : the kernel of the landmarks is zero, not finite or not positive.
    """
    points, labeled = landmarks.points, np.unique(lines.row)
    needed, budget = whitening_bytes(points.shape[0], params.cutoff), execution.memory_budget
    require(needed <= budget, f"{points.shape[0]} landmarks and a budget of {budget:,} bytes", error=BudgetError,
            why=f"their kernel and what whitens it take {needed:,} bytes",
            fix="raise memory_budget, or use fewer landmarks")
    if graph is None and len(labeled) < len(rows):  # nothing is asked of the other points
        rows, vertices = SelectedRows(rows, execution.share_rows(ArrayRows(labeled))), None
        lines = replace(lines, row=np.searchsorted(labeled, lines.row))
    v = len(rows)
    height = block_height(v, points.shape[0], rows.row_bytes, params.itemsize, execution.memory_budget)
    blocks = split_energy(graph, v, laplacian, height, execution, execution.scratch(), vertices)
    order = blocks.order()
    place = np.empty(v, np.int64)
    place[order] = np.arange(v)
    moved = execution.share_rows(rows) if graph is None else ordered(rows, order, execution)
    by_place = np.argsort(place[lines.row], kind="stable")
    shared = execution.share(position=place[lines.row][by_place], fold=lines.fold[by_place].astype(np.int64),
                             weight=lines.weight[by_place].astype(np.float64), target=lines.target[by_place])
    parts = execution.scratch()
    given = execution.share(**point_arrays("Z", points))
    receipt, = execution.map([WhitenTask(kernel, given, params.cutoff)], parts)
    found = parts.read(0)
    T = {name: array for name, array in found.items() if name == "T"}  # lower trapezoidal
    whitening = Whitening(found["T"], **receipt["whitening"]) if T else None
    problem = Landmarked(kernel, moved, execution.share(**point_arrays("Z", points), **T), shared, blocks,
                         lines.n_folds, params.precision, uuid.uuid4().hex)
    places = None if landmarks.rows is None or graph is None else place[landmarks.rows]
    return NystromSystem(problem, lines, whitening, found["K_ss"], places, params, fit_intercept)


def runs_within(n_blocks: int, sums_bytes: int, budget: int) -> list[tuple[int, int]]:
    """Return the runs of blocks whose sums, of so many bytes each, are made apart: as many as fit at once, 2 or more.
    """
    return runs_of_blocks(n_blocks, int(np.clip(budget // max(1, sums_bytes), 2, MOST_RUNS)))


def gram_matrices(system: NystromSystem, execution: Execution, parts: Parts, *, energy: bool = True,
                  points: bool = False, labels: bool = True, sums: bool = False) -> dict[str, np.ndarray]:
    """Return the sums of `GramTask` over all blocks: `energy` (r, r), `points`, `sums`, `labels`, `moments`.

    One pass over the points, whatever the folds and penalties are.

    Raises
    ------
    BudgetError : the sums of one task do not fit.
    """
    sums_bytes = gram_bytes(system.s, system.problem.n_folds, points, energy, labels, system.lines.target.shape[1])
    budget = execution.memory_budget
    require(sums_bytes <= budget, f"Gram matrices of {system.s} landmarks and {system.problem.n_folds} folds",
            error=BudgetError, why=f"their sums take {sums_bytes:,} bytes, the budget is {budget:,}",
            fix='use solver "nystrom-pcg", fewer landmarks or folds, or raise memory_budget')
    runs = runs_within(len(system.problem.ranges), sums_bytes, budget)
    execution.map([GramTask(system.problem, first, last, energy, points, labels, sums) for first, last in runs], parts)
    found = dict(sum_parts(parts, len(runs), execution))
    if energy:
        E = found["energy"] if system.whitening is None else found["energy"] @ system.whitening.T
        found["energy"] = (E + E.T) / 2
    return found | {name: system.lower(found[name]) for name in ("sums", "moments")}
