"""Approximate neighbors by NN-descent: the door to pynndescent.

Dong, Moses, Li, "Efficient k-nearest neighbor graph construction for generic similarity measures", WWW 2011.
pynndescent runs parallel Numba code of its own, so a search is one task that has its process to itself; its lists
are cleaned, measured again in float64, and completed here.
"""

import logging
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numba
import numpy as np
from scipy import sparse

from ..errors import require
from ..execution.cost import Cost, cost_of
from ..storage.blocks import PartWriter, Receipt, Rows, row_ranges
from ..storage.csr import as_rows
from .distances import candidate_distances
from .exact import points_in_blocks
from .metric import measurable, measured_itemsize, sample_ids, stored_distances

FLOAT32_SQUARE = 1e15  # squares and their sums are far from the ends of float32
PYNNDESCENT = 300 << 20  # bytes: imported and compiled, as every process does anew, it took 284 to 382 MB
EXTRA = 5  # candidates beyond k + 1 a row: they raise the recall, and survive the second measurement
CENTER_ROWS = 1024  # that are held in float64 while rows are centered
FILL_ROWS, FILL_SAMPLE = 1 << 14, 512  # of points, where rows that lack neighbors are searched for
# Measured on one core: seconds to compile pynndescent, once a process; nanoseconds of a row and candidate, of each of
# its columns, of which no more than 200 count, and of each entry of a sparse row in their place.
COMPILE_SECONDS, ROW_NS, COLUMN_NS, ENTRY_NS = 30.0, 3600.0, 45.0, 650.0


def descend(rows: np.ndarray | sparse.csr_array, k: int, *, seed: int,
            threads: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return squared distances (n, k) float64 and ids (n, k), ascending by (distance, id), and the rows filled exactly.

    Parameters
    ----------
    rows : ndarray (n, d); n (4 d + 60 (k + 6)) bytes beside it. Or sparse; it is then searched without centering, and
        takes its own size three times and 60 (k + 6) bytes a row beside it.
    k : neighbors a row, itself not among them.
    threads : of the search, on which its lists depend, and of their second measurement.
    """
    tell_compilation()
    from pynndescent import NNDescent, pynndescent_  # imports and compiles for seconds; only this method needs it

    # All iterations are one call, in which no thread of this process could say that it lives. Read when it is compiled.
    pynndescent_.nn_descent.targetoptions["nogil"] = True

    n = rows.shape[0]
    # A center would fill every column of sparse rows.
    centered = sparse.csr_matrix(rows.astype(np.float32)) if sparse.issparse(rows) else centered_rows(rows)
    before = numba.get_num_threads()
    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    require(threads <= most, f"descent_threads={threads} in a process that has {most}",
            why="the lists of NN-descent depend on the number of threads", fix=f"use at most {most}")
    numba.set_num_threads(threads)
    try:
        # Rows that lack neighbors are filled exactly below. For good: to restore filters is not safe among threads.
        warnings.filterwarnings("ignore", "Failed to correctly find n_neighbors", UserWarning)
        search = NNDescent(centered, n_neighbors=min(n, k + 1 + EXTRA), random_state=seed, n_jobs=threads)
        candidates = np.asarray(search.neighbor_graph[0], np.int64)
    finally:
        numba.set_num_threads(before)
    del search, centered
    ids = np.sort(candidates, axis=1)
    with ThreadPoolExecutor(threads) as pool:
        measured = pool.map(lambda block: candidate_distances(rows[slice(*block)], rows, ids[slice(*block)]),
                            row_ranges(n, -(-n // threads)))
        distances = np.concatenate(list(measured))
    distances[:, 1:][ids[:, 1:] == ids[:, :-1]] = np.inf
    distances[ids == np.arange(n)[:, None]] = np.inf
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]  # ids ascend, and break ties
    distances, ids = (np.take_along_axis(values, order, axis=1) for values in (distances, ids))
    short = np.flatnonzero(np.isinf(distances[:, -1]))
    if len(short):
        points = points_in_blocks(as_rows(rows), "euclidean", FILL_ROWS, rows[sample_ids(n, FILL_SAMPLE)])
        distances[short], ids[short] = points.nearest(rows[short], short, k)
    return distances, ids, len(short)


def centered_rows(rows: np.ndarray) -> np.ndarray:
    """Return dense rows less their mean, in float32, and over the largest value where its square would not be."""
    center, centered, largest = rows.mean(axis=0, dtype=np.float64), np.empty(rows.shape, np.float32), 0.0
    for start, stop in row_ranges(len(rows), CENTER_ROWS):
        largest = max(largest, float(np.abs(rows[start:stop] - center).max(initial=0)))
    divides = not 1 / FLOAT32_SQUARE < largest < FLOAT32_SQUARE and largest > 0
    for start, stop in row_ranges(len(rows), CENTER_ROWS):
        block = rows[start:stop] - center
        centered[start:stop] = block / largest if divides else block
    return centered


def tell_compilation() -> None:
    """Log that pynndescent will be compiled, where this process has not done so: on the console by default."""
    if "pynndescent" not in sys.modules:
        logging.getLogger(__name__).warning("compiling NN-descent, once a process: half a minute or more; the method "
                                            "exact needs none of it")


@dataclass(frozen=True)
class DescentTask:
    """Search all rows at once and write all lists, in blocks of `block_rows`."""

    rows: Rows
    k: int
    metric: str
    seed: int
    threads: int
    block_rows: int

    def __call__(self, out: PartWriter) -> Receipt:
        rows = measurable(self.rows.read_all(), self.metric)
        distances, ids, filled = descend(rows, self.k, seed=self.seed, threads=self.threads)
        for start, stop in row_ranges(len(distances), self.block_rows):
            out.write_rows(start, ids=ids[start:stop], distances=stored_distances(distances[start:stop]))
        return {"filled_exactly": filled}


def descent_seconds(X: Rows, k: int) -> float:
    """Return the predicted seconds of NN-descent on one core, for k and 6 more candidates a row."""
    columns = ENTRY_NS * X.row_bytes / (X.dtype.itemsize + 4) if X.is_sparse else COLUMN_NS * min(X.shape[1], 200)
    return COMPILE_SECONDS + len(X) * (k + 6) * (ROW_NS + columns) * 1e-9


def descent_cost(n: int, d: int, k: int, dtype: np.dtype, metric: str) -> Cost:
    """Return what NN-descent takes for rows (n, d) of a dtype.

    All rows, and centered in float32, candidates and their lists; the tasks of the certificate take less.
    """
    rows = n * d * measured_itemsize(dtype, metric)
    fixed = rows + n * (4 * d + 60 * (k + 6))
    return cost_of(1, 3 * rows, 12 * n * k, fixed + PYNNDESCENT, fixed)
