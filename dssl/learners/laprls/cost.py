"""The costs of the systems of LapRLS, by the method that solves them."""

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
from ...storage.blocks import arrays_within, row_ranges
from .closed_form import closed_form_bytes, closed_form_flops, label_feature_bytes
from .dense import chunk_bytes
from .gram import SYSTEMS_IN_A_TASK, folds_in_first_pass, folds_that_fit, runs_that_fit
from .inductive import inductive_bytes, near_bytes, near_points, refit_bytes
from .iterations import factors_that_fit, sample_shares
from .params import SystemParams
from .products import MAX_RUNS, block_bytes, gram_bytes, stored_bytes
from .smooth import PAIRS_IN_A_TASK, newton_bytes
from .solve import SPARSE_FLOPS
from .system import block_vertices, whitening_bytes

NEWTON_STEPS = 12  # usual steps for a system of another loss than the squared one
# Measured on one core: seconds to move an entry of W into permuted blocks, or to permute it in one task; bytes read and
# written for an entry that is moved; and the time to whiten s >= 1,000 landmarks by eigenvectors, in s^3 operations of
# `FLOP_RATE`, of which a factor takes a fifth.
MOVE_SECONDS, SPLIT_SECONDS, MOVED_READ, MOVED_WRITTEN, WHITEN_FLOPS = 1.1e-6, 1.6e-7, 60, 48, 8


@dataclass(frozen=True)
class Fits:
    """The fits after the selection of penalties: `models` in so many `kernels`.

    compared : whether they predict the labels. held_out : the sizes of the folds, for each time that labels are held
    out of a model.
    """

    models: int
    kernels: int
    compared: bool
    held_out: tuple[tuple[int, ...], ...]

    def tasks(self, held_out_tasks: Callable[[tuple[int, ...]], int] = lambda sizes: 1) -> int:
        """Return the tasks after the Gram matrices, with `held_out_tasks` for holding out folds of given sizes."""
        return self.kernels + self.models * self.compared + sum(map(held_out_tasks, self.held_out))


@dataclass(frozen=True)
class SystemSizes:
    """The inputs of the costs of systems.

    v : distinct points of `row_bytes` each. m : labeled points. nnz : entries of W. s : landmarks. columns : of a
    system. folds : with one for points that are never held out. pairs : of penalties, with those of the baselines.
    held_out_systems : those of cross-validation. kernels : their number. written : bytes of all models.
    smooth : whether the loss is not the squared one. repetitions : of the folds. ratios : distinct ratios of penalties.
    fits : None for a selection.
    """

    v: int
    m: int
    nnz: int
    s: int
    row_bytes: int
    columns: int
    folds: int
    pairs: int
    held_out_systems: int
    kernels: int
    written: int
    params: SystemParams
    budget: int
    smooth: bool = False
    repetitions: int = 1
    ratios: int = 1
    fits: Fits | None = None

    @property
    def closed_form(self) -> bool:
        """Return whether "nystrom-direct" computes held-out values in closed form."""
        folds = max(1, self.folds - 1)
        return not self.smooth and closed_form_flops(
            self.params, self.s, self.m, folds, self.held_out_systems // folds, self.budget) is not None

    @property
    def inductive(self) -> bool:
        """Return whether held-out points leave the graph, in one task for each fold."""
        return self.params.inductive and self.held_out_systems > 0

    @property
    def vectorized_folds(self) -> bool:
        """Return whether "nystrom-direct" sums Gram matrices over all folds, not for each fold."""
        return self.closed_form or self.inductive

    @property
    def summed_folds(self) -> int:
        """Return the number of folds with their own Gram matrices."""
        if self.smooth:
            return 0
        if self.fits is None:
            return 1 if self.vectorized_folds else self.folds
        compared = next(iter(self.fits.held_out), ())
        alone = len(compared) == 1  # one fold of many labels, beside those that are never held out
        return len(compared) + alone if self.in_first_pass(compared) else 1

    def in_first_pass(self, sizes: tuple[int, ...]) -> bool:
        """Return whether the pass of a fit sums the folds of these sizes, which are those that it compares."""
        return self.fits is not None and sizes == next(iter(self.fits.held_out), ()) and folds_in_first_pass(
            sizes, self.s, self.columns, self.budget)

    @property
    def split_bytes(self) -> int:
        """Return the bytes of the one task that permutes a small graph and splits it into blocks."""
        return split_bytes(self.v, self.nnz)

    def ordering(self, height: int, halo: float) -> Cost:
        """Return the cost, but for memory, of moving graph and points into blocks of `height` vertices, with halos."""
        points, tasks = 2 * self.v * self.row_bytes, ordered_tasks(self.v, self.row_bytes, self.budget)
        shuffles = halo_shuffles(self.v, block_count(self.v, height), self.row_bytes, halo, self.budget)
        n_halo_tasks = halo_tasks(shuffles)
        requests = ordered_requests(self.v, self.row_bytes, self.budget) + bucket_requests(*shuffles)
        if n_halo_tasks:
            points, tasks = points + int(self.v * (1 + halo) * self.row_bytes), tasks + n_halo_tasks
        if self.split_bytes <= arrays_within(self.budget):
            graph = 12 * (self.nnz + self.v)
            return Cost(tasks + 1, points + graph, points + graph, 0, 0, SPLIT_SECONDS * self.nnz, requests)
        return Cost(tasks + energy_tasks(self.v, height), points + MOVED_READ * self.nnz,
                    points + MOVED_WRITTEN * self.nnz, 0, 0, MOVE_SECONDS * self.nnz,
                    requests + bucket_requests(*energy_shuffles(self.v, height)))

    def right_bytes(self, n: int) -> int:
        """Return the bytes of all right-hand sides of n numbers each."""
        return 8 * n * self.columns * (self.pairs + self.held_out_systems)


def systems_seconds(of: SystemSizes, method: str, halo: float) -> float:
    """Return the estimated seconds of systems of landmarks, for one kernel on one core."""
    v, s, systems, d = of.v, of.s, of.pairs + of.held_out_systems, of.row_bytes / 4
    beside = halo / 2 if method == "nystrom-direct" and of.params.dtype == "float64" else halo
    kernel = kernel_seconds(v * (1 + beside) * s, d) + WHITEN_FLOPS * s**3 / FLOP_RATE
    steps = NEWTON_STEPS if of.smooth else 1
    solved = systems * steps * gram_seconds(s / 6 + of.m * of.smooth, s)
    if method == "nystrom-direct":
        factored = solved if not of.closed_form else solved / of.folds
        energy, products = 2.0 * of.nnz * s / SPARSE_FLOPS, 2 * gram_seconds(v, s) + gram_seconds(of.m, s)
        return of.repetitions * (kernel + products * of.params.itemsize / 8 + energy + factored)
    product = 4.0 * v * (1 + halo) * s * systems * of.columns / FLOP_RATE
    kept = of.params.itemsize * s * v * (1 + halo) <= of.budget / 2
    return of.repetitions * (kernel + USUAL_ITERATIONS * (product + (0 if kept else kernel)) + solved)


def folds_cost(of: SystemSizes, height: int, sums: int) -> Cost:
    """Return the cost of inductive folds, if any: tasks that find the changes of the energy, and one for each fold.

    height : vertices of a block. sums : bytes of the Gram matrices of all points, which stay in memory. Raises
    BudgetError.
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


def nystrom_cost(of: SystemSizes, method: str, halo: float) -> Cost:
    """Return the cost of systems of landmarks; halo : neighbors in other blocks, as a share of the points of a block.

    The steps are the graph in blocks, the whitened kernel of the landmarks, then Gram matrices or iterations.
    """
    v, s, square, size, kernels = of.v, of.s, 8 * of.s * of.s, of.params.itemsize, of.kernels
    height = min(v, block_vertices(v, s, of.row_bytes, size, of.budget))
    whitening = whitening_bytes(s, of.params.cutoff)
    sums = gram_bytes(s, of.summed_folds, points=True, n_outputs=of.columns)
    runs = min(block_count(v, height), runs_that_fit(sums, of.budget))
    ordering = of.ordering(height, halo)  # once, for all kernels and repetitions
    stored = stored_bytes(s, of.summed_folds, points=True, n_outputs=of.columns)
    combining = combining_tasks(runs, stored, of.budget)
    shares = (runs + combining) * stored
    rows = int(v * (1 + halo) * of.row_bytes)
    fixed = max(min(of.split_bytes, arrays_within(of.budget)), whitening, min(v * of.row_bytes, of.budget // 4) * 3)
    features = label_feature_bytes(of.m, s) if of.smooth else 0
    seconds = ordering.seconds + kernels * systems_seconds(of, method, halo)
    folds, blocks = folds_cost(of, height, sums), min(block_count(v, height), MAX_RUNS)
    gram, pairs = 1 + runs + combining, of.held_out_systems // max(1, of.folds - 1)
    # The selection stores the features of the labels that the fit will hold out.
    storing = blocks * (not of.smooth and closed_form_bytes(of.m, s) <= of.budget)
    if method == "nystrom-direct" and of.smooth:
        peak = max(fixed, height * block_bytes(s, of.row_bytes, size) + sums, 2 * sums,
                   sums + features + newton_bytes(of.m, s))
        held_out = 0 if of.inductive else of.repetitions * block_count(pairs, PAIRS_IN_A_TASK)
        tasks = kernels * (gram + blocks) + (kernels * (held_out + folds.tasks) if of.fits is None else of.fits.tasks())
        return cost_of(ordering.tasks + tasks, ordering.read + kernels * (rows + shares + folds.read),
                       ordering.written + kernels * shares + of.written, max(peak, folds.peak),
                       max(whitening, sums + features, folds.smallest_peak), seconds, ordering.extra_requests)
    if method == "nystrom-direct":
        held_out = of.held_out_systems if not of.vectorized_folds else 0
        right = 8 * s * of.columns * (of.pairs + held_out)
        again = 1 if of.vectorized_folds else of.repetitions
        peak = (again - 1) * (sums + right) + max(fixed, height * block_bytes(s, of.row_bytes, size) + sums, 2 * sums,
                                                  sums + 4 * square + right)
        if of.closed_form:  # beside the sums, the features of labels in the driver, shared and in a task
            peak = max(peak, sums + 2 * 8 * of.m * s + closed_form_bytes(of.m, s))
        if of.fits is not None:
            features_of = kernels * blocks * any(max(sizes) == 1 for sizes in of.fits.held_out)
            tasks = kernels * gram + features_of + of.fits.tasks(lambda sizes: 1 if max(sizes) == 1 else (
                blocks + block_count(len(sizes), SYSTEMS_IN_A_TASK) if of.in_first_pass(sizes) else fold_tasks(
                    of, blocks, len(sizes))))
            at_once = max((min(len(sizes), folds_that_fit(s, of.columns, of.budget)) for sizes in of.fits.held_out
                           if max(sizes) > 1 and not of.in_first_pass(sizes)), default=0)
            in_pass = gram_bytes(s, at_once, points=False, energy=False, n_outputs=of.columns)
            # Labels that are never held out have Gram matrices of their own.
            peak = max(peak + square, sums + right + 2 * in_pass)
            seconds += len(of.fits.held_out) * gram_seconds(of.m, s, of.row_bytes / 4)
        elif of.vectorized_folds:
            values = 0 if of.inductive else of.repetitions * of.ratios
            tasks = kernels * (gram + blocks + values + folds.tasks)
        else:
            tasks = kernels * (again * (gram + block_count(held_out, SYSTEMS_IN_A_TASK) + blocks) + storing)
        return cost_of(ordering.tasks + tasks, ordering.read + kernels * (again * (rows + shares) + folds.read),
                       ordering.written + kernels * again * shares + of.written, max(peak, folds.peak),
                       max(whitening, again * sums, folds.smallest_peak), seconds, ordering.extra_requests)
    # Cached kernel blocks, the kernel of a block with its halo, and in the driver the preconditioner.
    kernel_row = size * s * (1 + halo)
    cached = min(int(kernel_row * v), of.budget // 2)
    factors = min(of.pairs, factors_that_fit(s, of.budget))
    sampled = (4 + sample_shares(s, of.budget)) * square + min(of.budget // 4, 4 * square)
    again = of.repetitions  # each other one keeps the whitening of the landmarks, features and functions
    peak = (again - 1) * (square + features + of.right_bytes(s)) + max(
        fixed, sampled, features + cached + int(kernel_row * height) + square * (6 + factors)
        + 6 * of.right_bytes(s) * (1 + of.smooth))
    solves = kernels * again if of.fits is None else kernels + len(of.fits.held_out)
    return cost_of(ordering.tasks + solves * (2 + 2 * runs), ordering.read + kernels * again * rows,
                   ordering.written + of.written, peak, max(whitening, 6 * square), seconds, ordering.extra_requests)


def fold_tasks(of: SystemSizes, blocks: int, n_folds: int) -> int:
    """Return the tasks that hold `n_folds` out by Gram matrices of the labels in `blocks` blocks."""
    tasks = 0
    for first, last in row_ranges(n_folds, folds_that_fit(of.s, of.columns, of.budget)):
        sums = gram_bytes(of.s, last - first, points=False, energy=False, n_outputs=of.columns)
        runs = min(blocks, runs_that_fit(sums, of.budget - 8 * of.s * of.s))
        stored = stored_bytes(of.s, last - first, points=False, energy=False, n_outputs=of.columns)
        summing = runs + combining_tasks(runs, stored, of.budget)
        tasks += summing + block_count(last - first, SYSTEMS_IN_A_TASK) + blocks
    return tasks


def dense_cost(of: SystemSizes, method: str) -> Cost:
    """Return the cost of systems on all points, a task for each repetition, with K in memory where it fits."""
    matrix, lower = 8 * of.v * of.v, 2 * 8 * of.v + 8 * of.v * 3 * of.s
    solved = of  # whose right-hand sides are solved together
    if method == "direct":
        matrices = lower = 3 * matrix
        if of.smooth or (of.held_out_systems and of.params.held_out != "refit"):
            matrices, solved = matrices + 16 * of.v * of.m, replace(of, held_out_systems=0)
    else:
        matrices = 2 * matrix if 2 * matrix <= of.budget else 2 * min(chunk_bytes(of.budget // 2), matrix)
        matrices += 8 * of.v * 3 * of.s + 3 * 8 * of.s * of.s + 6 * 8 * of.v * of.m * of.smooth
    tasks = of.kernels * of.repetitions if of.fits is None else of.fits.tasks()
    graph = of.split_bytes + 3 * of.v * of.row_bytes
    return cost_of(tasks, tasks * of.v * of.row_bytes, of.written, graph + matrices + 6 * solved.right_bytes(of.v),
                   lower, tasks * (of.pairs + of.held_out_systems) * gram_seconds(of.v / 6, of.v))


def restored_cost(of: SystemSizes, fits: Fits, n_labeled: int) -> Cost:
    """Return the cost of fits from stored Gram matrices, which hold labels out if that fits in the budget."""
    sums = stored_bytes(of.s, 1, points=True, n_outputs=of.columns) + 8 * of.s * of.s  # with T
    matrices = newton_bytes(of.m, of.s) if of.smooth else 8 * of.s * (4 * of.s + of.columns * fits.models)
    held_out_bytes = closed_form_bytes(of.m, of.s)
    if held_out_bytes > of.budget:
        fits = replace(fits, held_out=())
    times = len(fits.held_out)
    if times:
        matrices, sums = max(matrices, held_out_bytes), sums + 8 * of.m * of.s
    seconds = (fits.models + times) * gram_seconds(of.s / 6, of.s) + times * gram_seconds(of.m, of.s)
    peak = sums + matrices + min(n_labeled * of.row_bytes, of.budget)
    return cost_of(fits.tasks(), sums, of.written, peak, sums, seconds)
