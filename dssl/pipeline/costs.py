"""What each stage takes: tasks, bytes read and written, and the peak memory of its largest step.

One function a stage, of `Facts`. Block heights come from the functions by which the stages themselves choose them, so
that a plan and its run cannot disagree. Bytes are those of arrays, before compression: what lies on disk is less.
Coefficients that no array accounts for were measured, and `tests/benchmarks/memory.py` measures them again.
"""

from collections.abc import Callable

import numpy as np

from ..data.ingest import task_bytes
from ..data.scaling import moment_rows, scaled_rows
from ..graph.exact import exact_block_rows, points_are_held, query_rows, streamed_rows
from ..graph.inverted import measured_row_bytes, point_rows, tile_bytes
from ..graph.layout import MAX_FURTHER, MAX_LEADING, SAMPLE_ROWS, layout_bytes
from ..graph.metric import measured_itemsize
from ..graph.vertices import BLOCK_BYTES
from ..graph.weights import BLOCK_ROWS, MEDIAN_ENTRIES
from ..kernels.subsample import ROW_CHUNK, column_width, product_rows, stored_factors
from ..solvers.deflation import basis_width, deflated_vectors
from ..solvers.solve import solve_bytes
from ..storage.blocks import MemoryParts, rows_that_fit
from ..storage.csr import BlockedCsrRows
from . import laprls_costs
from .cost import Cost, cost_of, count, decoding_bytes, of_those, scores_of, whole_bytes
from .facts import Facts
from .spec import Spec

COMPILED = 30 << 20  # the first compiled kernels of a process; none from its second task on, so this is in between
SAMPLED = 1000  # points of the median distance
AMG_WORK = 8.0  # entries that a multigrid cycle touches for each of the matrix, where it is not known: 3 to 8 measured


def dataset(f: Facts) -> Cost:
    """Blocks of the file: as they lie in it, X, and X compressed; text is also parsed as float64."""
    assert f.scan is not None
    scan, height = f.scan, f.x_chunk
    most = task_bytes(scan, f.itemsize, text=f.text, is_sparse=f.sparse_entries is not None)
    dense = scan.nnz is None and scan.unit_bytes == 0 and not f.text
    holds_numbers = dense and scan.row_bytes == scan.n_columns * np.dtype(scan.dtype).itemsize
    each = scan.row_bytes + 1.75 * f.row_bytes if holds_numbers else most
    return cost_of(count(scan.n_rows, height), scan.row_bytes * scan.n_rows,
                   scan.n_rows * (f.row_bytes + 16 + scan.has_split), scan.unit_bytes + height * each,
                   scan.unit_bytes + most)


def split(f: Facts) -> Cost:
    """In the driver: labels of all rows, their codes, and permutations of them."""
    return cost_of(0, 9 * f.n_rows, 16 * (f.n + f.n_test), 100 * f.n_rows, 100 * f.n_rows)


def labels(f: Facts) -> Cost:
    return cost_of(0, 16 * (f.n + f.n_test), 16 * f.n_labeled, 60 * f.n + 16 * f.n_test, 60 * f.n)


def subsample(f: Facts) -> Cost:
    return cost_of(0, 16 * f.n_labeled, 8 * f.s, 24 * f.n + 16 * f.s, 24 * f.n)


def points(f: Facts) -> Cost:
    """Moments: a block, and three of it in float64; then scaling: a chunk of X, the rows chosen of it, two in float64.
    """
    d, row = f.width, f.row_bytes
    sparse = f.sparse_entries is not None
    kind, chunk = f.spec.data.scale, f.x_chunk
    height = scaled_rows(f.n, row, chunk, f.budget)
    tasks = count(f.n, height) + count(f.n_test, height)
    wide = 0 if kind == "none" else 16 * d
    peak = max(height * row + chunk * row * 1.5, height * (2 * row + wide))
    read = (f.n + f.n_test + tasks * chunk) * row
    if kind != "none":
        block = moment_rows(f.n_rows, f.d, chunk, f.budget, row if sparse else None)
        share = min(1.0, f.n / max(f.n_rows, 1))
        peak = max(peak, block * (row + (24 * d + 8) * share))
        tasks, read = tasks + count(f.n_rows, block), read + f.n_rows * row
    return cost_of(tasks, read, (f.n + f.n_test) * row, peak, chunk * row + 4 * row)


def vertices(f: Facts) -> Cost:
    """Hashes of all rows, in blocks; then, in the driver, which of them are equal."""
    collapse = f.spec.graph.duplicates == "collapse" and f.spec.graph.given is None
    if not collapse:
        return cost_of(0, 0, 24 * f.n, 40 * f.n, 24 * f.n)
    each = 4 * f.row_bytes + 40
    height = min(rows_that_fit(f.budget, each, f.n), max(1, BLOCK_BYTES // each))
    return cost_of(count(f.n, height), f.n * (f.row_bytes + 8), 32 * f.n,
                   max(height * each, 48 * f.n) + whole_bytes(8 * f.n), max(each, 48 * f.n))


def neighbors(f: Facts) -> Cost:
    """The most of the searches that may be used; or lists from a file, sorted and cut to the points."""
    if f.spec.graph.given is not None:
        f.estimated.add("given graph")
        entries = f.vertices * f.k * (f.spec.graph.given.kind == "neighbors")
        return cost_of(int(entries > 0), 16 * entries, 12 * entries, 60 * entries)
    exact = _exact if f.sparse_entries is None else _inverted
    return of_those(f, [exact(f) if search == "exact" else _descent(f) for search in sorted(f.search)])


def _inverted(f: Facts) -> Cost:
    """Sparse rows: in a task its queries with their heaps, the points that it reads at a time, and a tile of them."""
    n, k, metric = f.vertices, f.k, f.spec.graph.metric
    entries = -(-(f.sparse_entries or 0) * n // max(f.n_rows, 1))
    rows = BlockedCsrRows(MemoryParts(), (n, f.d), np.dtype(f"f{f.itemsize}"), 1, entries)  # a shape without bytes
    height, points = exact_block_rows(rows, k, metric, f.budget), point_rows(rows, metric, f.budget)
    each, tile = measured_row_bytes(rows, metric), tile_bytes(rows)
    sample = min(n, SAMPLE_ROWS) * rows.row_bytes * 3 + 24 * f.d
    tasks = count(n, height)
    peak = max(sample, height * (each + 40 * k) + min(points, n) * each + tile) + COMPILED
    return cost_of(tasks, (tasks + 2) * n * rows.row_bytes, 12 * n * k, peak, each + 40 * k + tile)


def _exact(f: Facts) -> Cost:
    """In the driver: a sample in float64, then points beside their layout; in a task: the layout and its queries."""
    n, d, k = f.vertices, f.width, f.k
    itemsize = measured_itemsize(np.dtype(f"f{f.itemsize}"), f.spec.graph.metric)
    axes = min(d, MAX_LEADING + MAX_FURTHER)
    frame = min(n, SAMPLE_ROWS) * d * (f.itemsize + 16) + 24 * d * d
    if f.spec.graph.metric == "cosine":
        frame += min(n, SAMPLE_ROWS) * d * 8
    height = query_rows(n, d, k, f.budget)
    held = points_are_held(n, d, itemsize, f.budget)
    block = n if held else streamed_rows(n, d, itemsize, f.budget)
    layout = layout_bytes(block, d, itemsize)
    laying_out = block * d * itemsize + max(layout + 4 * (axes + 3) * block, (8 + 4) * axes * block)
    queries = height * (d * itemsize + 12 * axes + 16 * k) + (4 << 20)
    search = layout + max(whole_bytes(layout), queries) if held else laying_out + queries
    tasks, read = count(n, height), n * f.row_bytes * (4 if held else 4 + count(n, height))
    peak = max(frame, laying_out, search)
    return cost_of(tasks, read + layout * held, 12 * n * k + layout * held, peak + COMPILED, frame)


def _descent(f: Facts) -> Cost:
    """All rows, centered in float64 and then float32, candidates and their lists; then, in the driver, the certificate.
    """
    n, d, k = f.vertices, f.width, f.k
    rows = n * d * measured_itemsize(np.dtype(f"f{f.itemsize}"), f.spec.graph.metric)
    fixed = rows + n * max(12 * d, 4 * d + 60 * (k + 6))
    return cost_of(1, 3 * rows, 12 * n * k, fixed + 3 * COMPILED, fixed)


def graph(f: Facts) -> Cost:
    """The entries of a block of rows, in both directions, before and after they are joined; in the driver, a median."""
    n, entries = f.vertices, f.vertices * f.k
    tasks = count(n, BLOCK_ROWS)
    tuned = f.spec.graph.weights == "self_tuned"
    block = min(n, BLOCK_ROWS)
    median = 0 if f.spec.graph.weights == "binary" else 24 * min(entries, MEDIAN_ENTRIES) + 24 * n
    peak = max(130 * block * f.k + 16 * n * tuned, median)
    return cost_of(tasks, (tasks * (1 + tuned) + 2 * (median > 0)) * 12 * entries, 12 * f.nnz + 8 * n, peak,
                   130 * block * f.k)


def health(f: Facts) -> Cost:
    """The matrix, joined from its blocks, and its upper half."""
    peak = 30 * f.nnz + 40 * f.vertices
    return cost_of(1, 12 * f.nnz + 8 * f.vertices + 12 * f.vertices * f.k, 0, peak, peak)


def _matrix_bytes(f: Facts) -> int:
    """Return the bytes of the solver's matrix as it is stored."""
    return 44 * f.vertices + 12 * f.nnz


def _solver_bytes(f: Facts, method: str) -> int:
    """Return the bytes of a prepared solver as it is stored."""
    if method == "deflated":
        return _matrix_bytes(f) + 8 * f.vertices * deflated_vectors(f.vertices, f.n_solved)
    if method == "amg":
        f.estimated.add("levels")
        return _matrix_bytes(f) + int(4.7 * AMG_WORK * f.nnz) * (f.bound == "most")
    return _matrix_bytes(f)


def system(f: Facts) -> Cost:
    """Forming the matrix; then, beside it in three forms, eigenvectors or a hierarchy."""
    n, nnz = f.vertices, f.nnz
    forming, kept, most = 70 * nnz + 160 * n, 40 * nnz + 90 * n, 0.0
    for method in f.solvers:
        if method == "deflated":
            m = deflated_vectors(n, f.n_solved)
            most = max(most, n * max(20 * basis_width(m), 24 * m))
        elif method == "amg":
            f.estimated.add("levels")
            most = max(most, 17 * AMG_WORK * nnz)
    written = max(_solver_bytes(f, method) for method in f.solvers)
    return cost_of(1, 12 * nnz + 8 * n, written, max(forming, kept + most) + COMPILED, forming)


def columns(f: Facts) -> Cost:
    """The solver's arrays, and of a block of columns the right-hand sides and all that solving them takes."""
    n, names = f.vertices, _factors(f)
    steps = max(f.spec.powers) if f.spec.solver.form == "restriction" else (max(f.spec.powers) + 1) // 2
    # While the last step is solved, what earlier steps are stored for is kept; one of it is the right-hand sides.
    earlier = {name for name in names if int(name.lstrip("RZA")) < steps}
    kept = len(earlier - {f"Z{steps - 1}", f"A{steps - 1}"}) + (steps > 1)
    found = []
    for method in f.solvers:
        stored = f.stored_bytes if f.stored_bytes is not None else _solver_bytes(f, method)
        width = column_width(n, f.spec.powers, f.spec.solver.block_columns, f.budget, stored)
        own = stored + 4 * f.nnz
        if method == "direct":
            f.estimated.add("fill of the factor")
            own += (12 * min(n * n, 60 * f.nnz)) * (f.bound == "most")
        # The first right-hand sides are nearly all zeros, which the system does not store.
        peak = own + solve_bytes(n, width, width, method) + 8 * n * width * kept
        found.append(cost_of(count(f.s, width), stored, 8 * n * f.s * len(names), peak,
                             own + solve_bytes(n, 1, 1, method)))
    return of_those(f, found)


def _factors(f: Facts) -> list[str]:
    powers = f.spec.powers
    return [f"A{p}" for p in powers] if f.spec.solver.form == "restriction" else stored_factors(powers)


def covariance(f: Facts) -> Cost:
    """A range of rows of the factors, decoded a band at a time, and their product; in the driver, a few such products.
    """
    n, s, powers = f.vertices, f.s, f.spec.powers
    square, factors = 8 * s * s, len(_factors(f))
    product = square * len(powers)
    driver = 2 * product + 2 * square + whole_bytes(square)
    if f.spec.solver.form == "restriction":
        whole = 8 * n * s * factors
        return cost_of(0, whole, product, whole + driver, whole)
    height = product_rows(n, s, powers, f.budget)
    rows = 8 * s * height
    width = min(f.spec.solver.block_columns, s)
    band = 8 * min(ROW_CHUNK, n) * s
    decoding = decoding_bytes(band, 8 * min(ROW_CHUNK, n) * width) + (band if height > ROW_CHUNK else 0)
    peak = max(factors * rows + decoding, factors * rows + product + square // 2, driver)
    tasks = count(n, height)
    return cost_of(tasks, 8 * n * s * factors, (tasks + 1) * product, peak, 8 * s * factors + product)


def _square(f: Facts) -> int:
    """Return the bytes of all covariances, of what deforms a kernel with one of them, and of kernels of the labels.

    To deform: a permuted covariance, a Gram matrix, a sum with it and its temporary, and a factor.
    """
    s, m, d = f.s, f.n_labeled, f.width
    return 8 * s * s * (len(f.spec.powers) + 5) + 24 * (s + m) * d + 8 * m * (3 * m + 3 * s)


def _training_read(f: Facts) -> int:
    """Return the bytes that one task of the training reads."""
    return 8 * f.s * f.s * len(f.spec.powers) + min(f.n, 3 * max(f.s, f.n_labeled, SAMPLED)) * f.row_bytes


def selection(f: Facts) -> Cost:
    """The same for each model and bandwidth, and a kernel of the labels a fold; nothing where there is no grid."""
    grid, m = f.spec.grid(), f.n_labeled
    if grid is None:
        return cost_of(0, 0, 0, 0)
    tasks = len({"model", *f.spec.baselines} - {"shuffled"}) * len(f.spec.kernels())
    peak = _square(f) + 8 * m * m * (grid.folds + 2) + 24 * f.s * (m + min(f.s, m))
    return cost_of(tasks, tasks * _training_read(f), 0, peak, 8 * f.s * f.s * (len(f.spec.powers) + 3))


def models(f: Facts) -> Cost:
    """Covariances on the subsample, and the makings of one deformed kernel after the other; a task of its own."""
    s, m = f.s, f.n_labeled
    written = (len(f.spec.baselines) + 1) * (s + m) * (f.row_bytes + 8 * f.n_outputs)
    return cost_of(1, _training_read(f), written, _square(f), 8 * s * s * (len(f.spec.powers) + 3))


def scores(f: Facts) -> Cost:
    """The points of a model are the subsample and the labeled ones, with a column a pair of classes in an SVM."""
    is_svm = f.spec.model.kind == "svm"
    outputs = max(1, f.n_classes * (f.n_classes - 1) // 2) if is_svm else f.n_outputs
    return scores_of(f, f.s + f.n_labeled, outputs, 8 if is_svm or f.is_regression else 16)


COSTS: dict[str, Callable[[Facts], Cost]] = {
    function.__name__: function for function in (
        dataset, split, labels, subsample, points, vertices, neighbors, graph, health, system, columns, covariance,
        selection, models, scores)}

# What to lower where a stage cannot fit; raising the budget is always named too.
REMEDIES = {
    "dataset": "read fewer columns (data.read.drop)", "split": "use a smaller file", "labels": "lower data.points",
    "subsample": "lower data.points", "points": "read fewer columns, or lower data.read.block_rows",
    "vertices": "lower data.points, or set graph.duplicates to keep",
    "neighbors": "lower data.points, or set graph.method to exact", "graph": "lower graph.n_neighbors",
    "health": "lower graph.n_neighbors or data.points", "system": "lower graph.n_neighbors or data.points",
    "columns": "lower graph.n_neighbors or data.points", "covariance": "lower subsample.size",
    "selection": "lower subsample.size", "models": "lower subsample.size", "scores": "lower subsample.size or labels",
}

KINDS = {"laprls": (laprls_costs.COSTS, laprls_costs.REMEDIES)}


def costs_of(spec: Spec) -> dict[str, Callable[[Facts], Cost]]:
    """Return the cost functions of the stages of a spec, by name."""
    return COSTS | KINDS.get(spec.model.kind, ({}, {}))[0]


def remedies_of(spec: Spec) -> dict[str, str]:
    """Return what to lower where a stage of a spec cannot fit, by name."""
    return REMEDIES | KINDS.get(spec.model.kind, ({}, {}))[1]
