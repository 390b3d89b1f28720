"""What the systems of LapRLS take, by the method that solves them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...execution.cost import (
    FLOP_RATE,
    USUAL_ITERATIONS,
    Cost,
    block_count,
    bucket_requests,
    cost_of,
    gram_seconds,
    kernel_seconds,
)
from ...execution.exchange.halo_rows import halo_shuffles, halo_tasks
from ...execution.exchange.ordered import ordered_requests, ordered_tasks
from ...execution.tasks import combining_tasks
from ...graph.energy.blocks import split_bytes
from ...graph.energy.permuted_blocks import energy_shuffles, energy_tasks
from ...graph.energy.vertex_removal import removal_tasks
from ...storage.blocks import arrays_within
from .closed_form import closed_form_bytes, closed_form_flops, label_feature_bytes
from .dense import chunk_bytes
from .gram import SYSTEMS_IN_A_TASK, runs_that_fit
from .inductive import inductive_bytes, near_bytes, near_points, refit_bytes
from .iterations import factors_that_fit, sample_shares
from .params import SystemParams
from .products import MAX_RUNS, block_bytes, gram_bytes
from .smooth import PAIRS_IN_A_TASK, newton_bytes
from .solve import SPARSE_FLOPS
from .system import block_vertices, whitening_bytes

NEWTON_STEPS = 12  # a system of another loss than the squared one, as a rule
# Measured on one core: an entry of W that is moved into blocks of another order, or that one task orders and cuts;
# bytes that are read and written of one that is moved; and of s landmarks, 1,000 or more, s^3 operations of `FLOP_RATE`
# that whiten them.
MOVE_SECONDS, SPLIT_SECONDS, MOVED_READ, MOVED_WRITTEN, WHITEN_FLOPS = 1.1e-6, 1.6e-7, 60, 48, 8


@dataclass(frozen=True)
class Fits:
    """What is fitted once penalties are chosen.

    models : how many, which have so many `kernels`. compared : whether they predict the labels. left_out : the sizes
    of the folds of each time that labels are left out of a model.
    """

    models: int
    kernels: int
    compared: bool
    left_out: tuple[tuple[int, ...], ...]

    def tasks(self, leaving_out: Callable[[tuple[int, ...]], int] = lambda sizes: 1) -> int:
        """Return the tasks that follow Gram matrices. leaving_out : those of leaving out some folds of a model."""
        return self.kernels + self.models * self.compared + sum(map(leaving_out, self.left_out))


@dataclass(frozen=True)
class Systems:
    """What the costs of systems follow from.

    v : distinct points, of `row_bytes` each. m : labeled points. nnz : entries of W. s : landmarks. columns : of a
    system. folds : that labels have, with one for points that are never held out. pairs, held : of penalties, with
    those of the baselines, and the systems that cross-validation solves. kernels : how many. written : bytes of all
    models. smooth : whether another loss than the squared one is minimized. repetitions : of the folds, which are held
    side by side; those that need more than the Gram matrices of the first are prepared anew. ratios : of penalties,
    distinct ones. fits : None of a selection.
    """

    v: int
    m: int
    nnz: int
    s: int
    row_bytes: int
    columns: int
    folds: int
    pairs: int
    held: int
    kernels: int
    written: int
    params: SystemParams
    budget: int
    smooth: bool = False
    repetitions: int = 1
    ratios: int = 1
    fits: "Fits | None" = None

    @property
    def closed_form(self) -> bool:
        """Return whether held-out values of "nystrom-direct" are found in closed form."""
        folds = max(1, self.folds - 1)
        return not self.smooth and closed_form_flops(
            self.params, self.s, self.m, folds, self.held // folds, self.budget) is not None

    @property
    def inductive(self) -> bool:
        """Return whether folds of points leave the graph, each in a task of its own."""
        return self.params.inductive and self.held > 0

    @property
    def at_once(self) -> bool:
        """Return whether held-out values of "nystrom-direct" are found from Gram matrices of all folds together."""
        return self.closed_form or self.inductive

    @property
    def summed_folds(self) -> int:
        """Return the number of folds of which there are Gram matrices."""
        return 0 if self.smooth else 1 if self.at_once else self.folds

    @property
    def split_bytes(self) -> int:
        """Return what the one task takes that orders the whole graph and cuts it into blocks."""
        return split_bytes(self.v, self.nnz)

    def ordering(self, height: int, halo: float) -> Cost:
        """Return what takes the graph and the points into blocks of so many vertices, and what is beside them.

        But for memory.
        """
        points, tasks = 2 * self.v * self.row_bytes, ordered_tasks(self.v, self.row_bytes, self.budget)
        shuffles = halo_shuffles(self.v, block_count(self.v, height), self.row_bytes, halo, self.budget)
        brought = halo_tasks(shuffles)
        asked = ordered_requests(self.v, self.row_bytes, self.budget) + bucket_requests(*shuffles)
        if brought:
            points, tasks = points + int(self.v * (1 + halo) * self.row_bytes), tasks + brought
        if self.split_bytes <= arrays_within(self.budget):
            graph = 12 * (self.nnz + self.v)
            return Cost(tasks + 1, points + graph, points + graph, 0, 0, SPLIT_SECONDS * self.nnz, asked)
        return Cost(tasks + energy_tasks(self.v, height), points + MOVED_READ * self.nnz,
                    points + MOVED_WRITTEN * self.nnz, 0, 0, MOVE_SECONDS * self.nnz,
                    asked + bucket_requests(*energy_shuffles(self.v, height)))

    def right_bytes(self, n: int) -> int:
        """Return the bytes of all right-hand sides of n numbers each."""
        return 8 * n * self.columns * (self.pairs + self.held)


def systems_seconds(of: Systems, method: str, halo: float) -> float:
    """Return the estimated seconds of systems of landmarks, of one kernel on one core.

    Of losses other than the squared one, systems take `NEWTON_STEPS` of it each.
    """
    v, s, systems, d = of.v, of.s, of.pairs + of.held, of.row_bytes / 4
    beside = halo / 2 if method == "nystrom-direct" and of.params.precision == "float64" else halo
    kernel = kernel_seconds(v * (1 + beside) * s, d) + WHITEN_FLOPS * s**3 / FLOP_RATE
    steps = NEWTON_STEPS if of.smooth else 1
    solved = systems * steps * gram_seconds(s / 6 + of.m * of.smooth, s)
    if method == "nystrom-direct":
        factored = solved if not of.closed_form else solved / of.folds
        energy = 2.0 * of.nnz * s / SPARSE_FLOPS
        return of.repetitions * (kernel + 2 * gram_seconds(v, s) + energy + gram_seconds(of.m, s) + factored)
    product = 4.0 * v * (1 + halo) * s * systems * of.columns / FLOP_RATE
    kept = of.params.itemsize * s * v * (1 + halo) <= of.budget / 2
    return of.repetitions * (kernel + USUAL_ITERATIONS * (product + (0 if kept else kernel)) + solved)


def folds_cost(of: Systems, height: int, sums: int) -> Cost:
    """Return what folds take whose points leave the graph, if any do: tasks that find the changes, and one each.

    height : vertices of a block. sums : bytes of the Gram matrices of all points, which are held meanwhile.

    Raises BudgetError: the edges near the points that leave do not fit.
    """
    if not of.inductive:
        return Cost(0, 0, 0, 0, 0)
    n_folds, block = of.folds - 1, height * block_bytes(of.s, of.row_bytes, of.params.itemsize)
    solver = newton_bytes(of.m, of.s) if of.smooth else (
        closed_form_bytes(of.m, of.s) if of.closed_form else refit_bytes(of.s))
    near = near_points(of.v, of.nnz, [-(-of.m // n_folds)] * n_folds)
    leaving = near_bytes(of.v, of.nnz, of.m, of.budget)
    peak = max(leaving, sums + 8 * of.m * of.s + inductive_bytes(of.m, of.s, block, solver))
    return Cost(of.repetitions * (removal_tasks(block_count(of.v, height)) + n_folds),
                int(of.repetitions * (near * of.row_bytes + 24 * of.nnz)), 0, peak,
                inductive_bytes(of.m, of.s, 0, solver))


def nystrom_cost(of: Systems, method: str, halo: float) -> Cost:
    """Return what systems of landmarks take.

    The graph in blocks; K of the landmarks and what whitens it; then a block and sums, or kept blocks and columns.

    halo : the neighbors that blocks read beside their own points, as a share of these.
    """
    v, s, square, size, kernels = of.v, of.s, 8 * of.s * of.s, of.params.itemsize, of.kernels
    height = min(v, block_vertices(v, s, of.row_bytes, size, of.budget))
    whitening = whitening_bytes(s, of.params.cutoff)
    sums = gram_bytes(s, of.summed_folds, points=True, n_outputs=of.columns)
    runs = min(block_count(v, height), runs_that_fit(sums, of.budget))
    ordering = of.ordering(height, halo)  # once, for all kernels and repetitions
    stored = sums - square  # of a share, which has no product that is being added
    combining = combining_tasks(runs, stored, of.budget)
    shares = (runs + combining) * stored
    rows = int(v * (1 + halo) * of.row_bytes)
    fixed = max(min(of.split_bytes, arrays_within(of.budget)), whitening, min(v * of.row_bytes, of.budget // 4) * 3)
    features = label_feature_bytes(of.m, s) if of.smooth else 0
    seconds = ordering.seconds + kernels * systems_seconds(of, method, halo)
    folds, blocks = folds_cost(of, height, sums), min(block_count(v, height), MAX_RUNS)
    gram, pairs = 1 + runs + combining, of.held // max(1, of.folds - 1)
    # What the selection keeps of labels that the fit will leave out.
    keeps = blocks * (not of.smooth and closed_form_bytes(of.m, s) <= of.budget)
    if method == "nystrom-direct" and of.smooth:
        peak = max(fixed, height * block_bytes(s, of.row_bytes, size) + sums, 2 * sums,
                   sums + features + newton_bytes(of.m, s))
        held = 0 if of.inductive else of.repetitions * block_count(pairs, PAIRS_IN_A_TASK)
        tasks = kernels * (gram + blocks) + (kernels * (held + folds.tasks) if of.fits is None else of.fits.tasks())
        return cost_of(ordering.tasks + tasks, ordering.read + kernels * (rows + shares + folds.read),
                       ordering.written + kernels * shares + of.written, max(peak, folds.peak),
                       max(whitening, sums + features, folds.smallest_peak), seconds, ordering.extra_requests)
    if method == "nystrom-direct":
        held = of.held if not of.at_once else 0
        right = 8 * s * of.columns * (of.pairs + held)
        again = 1 if of.at_once else of.repetitions
        peak = (again - 1) * (sums + right) + max(fixed, height * block_bytes(s, of.row_bytes, size) + sums, 2 * sums,
                                                  sums + 4 * square + right)
        if of.closed_form:  # beside the sums, the features of labels as they come, shared and in a task
            peak = max(peak, sums + 2 * 8 * of.m * s + closed_form_bytes(of.m, s))
        if of.fits is not None:
            tasks = kernels * gram + of.fits.tasks(lambda sizes: blocks + 1 if max(sizes) == 1 else len(sizes) * (
                label_gram_tasks(of, blocks) + 1 + blocks))
        elif of.at_once:
            values = blocks + (0 if of.inductive else of.ratios)
            tasks = kernels * (gram + of.repetitions * values + folds.tasks + keeps)
        else:
            tasks = kernels * (again * (gram + block_count(held, SYSTEMS_IN_A_TASK) + blocks) + keeps)
        return cost_of(ordering.tasks + tasks, ordering.read + kernels * (again * (rows + shares) + folds.read),
                       ordering.written + kernels * again * shares + of.written, max(peak, folds.peak),
                       max(whitening, again * sums, folds.smallest_peak), seconds, ordering.extra_requests)
    # Kernels that are kept, those of a block with its halo, and in the driver the preconditioner.
    reached = size * s * (1 + halo)
    kept = min(int(reached * v), of.budget // 2)
    factors = min(of.pairs, factors_that_fit(s, of.budget))
    sampled = (4 + sample_shares(s, of.budget)) * square + min(of.budget // 4, 4 * square)
    again = of.repetitions  # others keep K of the landmarks, what whitens it, features and functions meanwhile
    peak = (again - 1) * (2 * square + features + of.right_bytes(s)) + max(
        fixed, sampled, features + kept + int(reached * height) + square * (6 + factors)
        + 6 * of.right_bytes(s) * (1 + of.smooth))
    solves = kernels * again if of.fits is None else kernels + len(of.fits.left_out)
    return cost_of(ordering.tasks + solves * (2 + 2 * runs), ordering.read + kernels * again * rows,
                   ordering.written + of.written, peak, max(whitening, 6 * square), seconds, ordering.extra_requests)


def label_gram_tasks(of: Systems, blocks: int) -> int:
    """Return the tasks that sum the Gram matrices of the labels alone, with a fold held out, in so many blocks."""
    sums = gram_bytes(of.s, 2, points=False, energy=False, n_outputs=of.columns)
    runs = min(blocks, runs_that_fit(sums, of.budget))
    return runs + combining_tasks(runs, sums - 8 * of.s * of.s, of.budget)


def dense_cost(of: Systems, method: str) -> Cost:
    """Return what systems on all points take, a task a repetition: K where it is kept, and what a method has beside."""
    matrix, least = 8 * of.v * of.v, 2 * 8 * of.v + 8 * of.v * 3 * of.s
    solved = of  # whose right-hand sides are side by side
    if method == "direct":
        held = least = 3 * matrix
        if of.smooth or (of.held and of.params.held_out != "refit"):
            held, solved = held + 16 * of.v * of.m, replace(of, held=0)
    else:
        held = 2 * matrix if 2 * matrix <= of.budget else 2 * min(chunk_bytes(of.budget // 2), matrix)
        held += 8 * of.v * 3 * of.s + 3 * 8 * of.s * of.s + 6 * 8 * of.v * of.m * of.smooth
    tasks = of.kernels * of.repetitions if of.fits is None else of.fits.tasks()
    graph = of.split_bytes + 3 * of.v * of.row_bytes
    return cost_of(tasks, tasks * of.v * of.row_bytes, of.written, graph + held + 6 * solved.right_bytes(of.v), least,
                   tasks * (of.pairs + of.held) * gram_seconds(of.v / 6, of.v))


def restored_cost(of: Systems, fits: Fits, n_labeled: int) -> Cost:
    """Return what systems of Gram matrices that were kept take: these and their factors, and the labeled points.

    Labels are left out where a fold of them is held and that fits.
    """
    sums = gram_bytes(of.s, 1, points=True, n_outputs=of.columns)
    held = newton_bytes(of.m, of.s) if of.smooth else 8 * of.s * (4 * of.s + of.columns * fits.models)
    left_out = closed_form_bytes(of.m, of.s)
    if left_out > of.budget:
        fits = replace(fits, left_out=())
    times = len(fits.left_out)
    if times:
        held, sums = max(held, left_out), sums + 8 * of.m * of.s
    seconds = (fits.models + times) * gram_seconds(of.s / 6, of.s) + times * gram_seconds(of.m, of.s)
    peak = sums + held + min(n_labeled * of.row_bytes, of.budget)
    return cost_of(fits.tasks(), sums, of.written, peak, sums, seconds)
