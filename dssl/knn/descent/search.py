"""Approximate neighbors by NN-descent, of rows that fit one task: local joins, and exact distances of what they find.

Dong, Moses, Li, "Efficient k-nearest neighbor graph construction for generic similarity measures", WWW 2011. A search
is one task that has its process to itself and uses all its threads, on which nothing depends; pairs are looked for by
float32 coordinates, or by the entries of sparse rows, and measured again in float64.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ...execution.cost import Cost, cost_of
from ...storage.blocks import Arrays, PartWriter, Receipt, Rows, block_rng, row_ranges
from ...storage.csr import as_rows
from ..exact.blocks import points_in_blocks
from ..exact.inverted_index import measured_row_bytes
from ..exact.layout import MAX_AXES
from ..metric import Euclidean, measurable, measured_itemsize, sample_ids, stored_distances
from ..pair_distances import AXES, Coordinates, Points, SparsePoints, axes_bytes
from ..partitioned.partitions import View, far_rows, view_bytes
from ..recall import is_true, recall_of, truth_bytes
from ..squared_distances import candidate_distances
from .local_joins import CANDIDATES, MOST_CANDIDATES, all_of, cuts, in_memory_bytes, nearest_in_memory

LEAST_EXTRA, EXTRA_SHARE = 5, 4  # candidates beyond k a row, or a fourth of k: what float32 coordinates put too far
WIDER = ((1, CANDIDATES), (4, MOST_CANDIDATES))  # times as many, and candidates of a join: tried one after the other
FRAME_ROWS = 2048  # that axes are those of
SEEN_ROWS = 1 << 12  # whose coordinates a thread makes at a time
FILL_ROWS, FILL_SAMPLE = 1 << 14, 512  # of points, where rows that lack neighbors are searched for
# Measured on one core: nanoseconds of a row and candidate, of each of its coordinates, and of each entry of a sparse
# row in their place.
ROW_NS, AXIS_NS, ENTRY_NS = 1500.0, 10.0, 140.0


def descend(rows: np.ndarray | sparse.csr_array, k: int, *, random_state: int, threads: int = 1,
            wider: int = 0) -> tuple[np.ndarray, np.ndarray, int]:
    """Return squared distances (n, k) float64 and ids (n, k), ascending by (distance, id), and the rows filled exactly.

    Parameters
    ----------
    rows : ndarray (n, d), or sparse; beside them `descent_cost` counts what it takes.
    k : neighbors a row, itself not among them.
    threads : that share the work; the lists do not depend on them.
    wider : which of `WIDER`.
    """
    n, rng, (times, most) = rows.shape[0], block_rng(random_state, wider), WIDER[wider]
    with ThreadPoolExecutor(threads) as pool:
        seen, far = _seen(rows, rng, pool)
        _, candidates = nearest_in_memory(seen, min(n - 1, k + times * extra_of(k)), rng, most, threads)
        del seen
        candidates.sort(axis=1)  # where there are fewer, -1 is before them
        nearest = pool.map(lambda span: _measured(rows, candidates, k, *span), cuts(n, threads))
        distances, ids = (np.concatenate(arrays) for arrays in zip(*nearest, strict=True))
    short = np.flatnonzero(np.isinf(distances[:, -1]) | far)
    if len(short):
        points = points_in_blocks(as_rows(rows), Euclidean.name, FILL_ROWS, rows[sample_ids(n, FILL_SAMPLE)])
        distances[short], ids[short] = points.nearest(rows[short], short, k)
    return distances, ids, len(short)


def _seen(rows: np.ndarray | sparse.csr_array, rng: np.random.Generator,
          pool: ThreadPoolExecutor) -> tuple[Points, np.ndarray]:
    """Return the rows as joins measure them, and which are so far away that these do not tell their neighbors apart."""
    if sparse.issparse(rows):
        return SparsePoints.of(rows, rng), np.zeros(rows.shape[0], bool)
    view = View.of(rows[sample_ids(len(rows), FRAME_ROWS)])
    seen = np.empty((len(rows), view.axes), np.float32)

    def see(block: tuple[int, int]) -> None:
        seen[slice(*block)] = view.coordinates(rows[slice(*block)])

    all_of(pool.map(see, row_ranges(len(rows), SEEN_ROWS)))
    return Coordinates(seen), far_rows(seen)


def _measured(rows: np.ndarray | sparse.csr_array, candidates: np.ndarray, k: int, start: int,
              stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k nearest of the candidates (n, c) of rows [start, stop), sorted, by (distance, id)."""
    of_rows = candidates[start:stop].astype(np.int64)
    distances = candidate_distances(rows[start:stop], rows, of_rows)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]  # ids ascend, and break ties
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(of_rows, order, axis=1)


@dataclass(frozen=True)
class DescentTask:
    """Search all rows at once and write all lists, in blocks of `block_rows`.

    truth : the numbers of sampled rows, `ids` (q,), and the squares of how far their true k-th neighbors are, `kth`
        (q, 1).
    recall : asked for, of these; below it the search is repeated wider, once.
    """

    rows: Rows
    k: int
    metric: str
    random_state: int
    threads: int
    block_rows: int
    truth: Arrays
    recall: float

    def __call__(self, out: PartWriter) -> Receipt:
        rows, truth = measurable(self.rows.read_all(), self.metric), self.truth.load()
        for wider in range(len(WIDER)):
            distances, ids, filled = descend(rows, self.k, random_state=self.random_state, threads=self.threads,
                                             wider=wider)
            recall = recall_of(is_true(distances[truth["ids"]], truth["kth"]), self.random_state)
            if recall["lower"] >= self.recall:
                break
        for start, stop in row_ranges(len(distances), self.block_rows):
            out.write_rows(start, ids=ids[start:stop], distances=stored_distances(distances[start:stop]))
        return {"filled_exactly": filled, "recall": recall, "searches": wider + 1}


def descent_seconds(X: Rows, k: int) -> float:
    """Return the predicted seconds of NN-descent on one core, for k and some more candidates a row."""
    pair = ENTRY_NS * X.row_bytes / (X.dtype.itemsize + 4) if X.is_sparse else AXIS_NS * (_axes(X) + 1)
    return len(X) * (k + extra_of(k)) * (ROW_NS + pair) * 1e-9


def descent_cost(X: Rows, k: int, metric: str, budget: int) -> Cost:
    """Return what NN-descent takes for rows of the shape and dtype of X, which are not read.

    All rows, as they are measured; and beside them their coordinates, in two orders, and what joins take, or the lists
    as they are measured; at first a sample in float64, or of sparse rows what makes them measurable, and their axes.
    A task of the certificate takes up to half of the budget. Least is what the first search takes; where that misses
    too many a wider one follows, beside its lists.
    """
    (n, d), first, last = X.shape, k + extra_of(k), k + WIDER[-1][0] * extra_of(k)
    itemsize = measured_itemsize(X.dtype, metric)
    if X.is_sparse:
        entries = X.row_bytes // (X.dtype.itemsize + 4) + 1
        rows, seen = n * (entries * (itemsize + 4) + 8) + axes_bytes(d), 12 * entries + 8 * AXES + 24
        begun = n * measured_row_bytes(X, metric)
    else:
        rows, seen, begun = n * d * itemsize, 8 * (_axes(X) + 1), view_bytes(min(n, FRAME_ROWS), d)
    peak, least = (rows + max(n * max(seen + in_memory_bytes(width), 48 * width) + kept, begun)
                   for width, kept in ((last, 16 * n * k), (first, 0)))
    return cost_of(1, 3 * n * X.row_bytes, 12 * n * k, max(peak, truth_bytes(X, metric, budget)), least,
                   descent_seconds(X, k))


def extra_of(k: int) -> int:
    """Return how many candidates beyond k neighbors a row keeps at first."""
    return max(LEAST_EXTRA, k // EXTRA_SHARE)


def _axes(X: Rows) -> int:
    return min(X.shape[1], MAX_AXES)
