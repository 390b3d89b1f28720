"""What each stage takes: tasks, bytes read and written, and the peak memory of its largest step.

One function a stage, of `Facts`. Block heights come from the functions by which the stages themselves choose them, so
that a plan and its run cannot disagree.
"""


import numpy as np

from ..data.ingest_params import task_bytes
from ..data.scaling import moment_rows, scaled_rows
from ..execution.cost import Cost, cost_of, count
from ..graph.descent import descent_cost
from ..graph.exact import exact_cost
from ..graph.given import given_cost
from ..graph.health import health_cost
from ..graph.vertices import vertices_cost
from ..graph.weights import weights_cost
from ..storage.blocks import ArrayRows, MemoryParts, Rows
from ..storage.pieces import BlockedCsrRows
from .cost import of_those
from .facts import Facts


def dataset(f: Facts) -> Cost:
    """Blocks of the file: as they lie in it, X, and X compressed; text is also parsed as float64."""
    assert f.scan is not None
    scan, height = f.scan, f.x_chunk
    most = task_bytes(scan, f.spec.data.ingest_params())
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
    collapse = f.spec.graph.duplicates == "collapse" and f.spec.graph.given is None
    return vertices_cost(f.n, f.row_bytes, f.budget, collapse=collapse)


def neighbors(f: Facts) -> Cost:
    """The most of the searches that may be used; or lists from a file."""
    graph, n, k, dtype = f.spec.graph, f.vertices, f.k, np.dtype(f"f{f.itemsize}")
    if graph.given is not None:
        f.estimated.add("given graph")
        return given_cost(n * k * (graph.given.kind == "neighbors"))
    rows: Rows = ArrayRows(np.broadcast_to(np.zeros(1, dtype), (n, f.d)))  # a shape without bytes, as is the other
    if f.sparse_entries is not None:
        rows = BlockedCsrRows(MemoryParts(), (n, f.d), dtype, 1, -(-f.sparse_entries * n // max(f.n_rows, 1)))
    return of_those(f, [exact_cost(rows, k, graph.metric, f.budget) if search == "exact" else
                        descent_cost(n, f.width, k, dtype, graph.metric) for search in sorted(f.search)])


def graph(f: Facts) -> Cost:
    return weights_cost(f.vertices, f.k, f.nnz, f.spec.graph.weights)


def health(f: Facts) -> Cost:
    return health_cost(f.vertices, f.k, f.nnz)
