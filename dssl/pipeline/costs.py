"""What each stage takes: tasks, bytes read and written, and the peak memory of its largest step.

One function a stage, of `Facts`. Block heights come from the functions by which the stages themselves choose them, so
that a plan and its run cannot disagree. Bytes are those of arrays, before compression: what lies on disk is less.
Coefficients that no array accounts for were measured, and `tests/benchmarks/memory.py` measures them again.
"""


import numpy as np

from ..data.ingest import task_bytes
from ..data.scaling import moment_rows, scaled_rows
from ..graph.exact import exact_block_rows, points_are_held, query_rows, streamed_rows
from ..graph.inverted import measured_row_bytes, point_rows, tile_bytes
from ..graph.layout import MAX_FURTHER, MAX_LEADING, SAMPLE_ROWS, layout_bytes
from ..graph.metric import measured_itemsize
from ..graph.vertices import BLOCK_BYTES
from ..graph.weights import BLOCK_ROWS, MEDIAN_ENTRIES
from ..storage.blocks import MemoryParts, rows_that_fit
from ..storage.csr import BlockedCsrRows
from .cost import COMPILED, Cost, cost_of, count, of_those, whole_bytes
from .facts import Facts


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
