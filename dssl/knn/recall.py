"""Recall of neighbor lists: on a sample of rows, against a search that looks at all points, a task a block of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import DataError, require
from ..execution.in_process import InProcess
from ..execution.tasks import Execution, Reduction, Share
from ..storage.blocks import STEP_BYTES, Arrays, Parts, PartWriter, Receipt, Rows, block_rng, row_ranges, rows_that_fit
from ..storage.csr import as_rows, point_arrays, points_of
from .exact.blocks import points_in_blocks
from .exact.inverted_index import measured_row_bytes, tile_bytes
from .exact.layout import MAX_AXES, layout_bytes
from .heap import EMPTY
from .lists import Neighbors
from .metric import Euclidean, measurable, measured_itemsize
from .squared_distances import candidate_distances

SAMPLE = 500
CONFIDENCE_Z = 1.959964  # two-sided 95 %
MOST_BLOCK = 1 << 16


def wilson_lower(hits: int, trials: int, z: float = CONFIDENCE_Z) -> float:
    """Return the lower end of Wilson's score interval of a share (Wilson, JASA 22, 1927)."""
    if trials == 0:
        return 0.0
    share = hits / trials
    middle = share + z * z / (2 * trials)
    width = z * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return float(max(0.0, (middle - width) / (1 + z * z / trials)))


@dataclass(frozen=True)
class TruthTask:
    """Find the k nearest of rows [start, stop) to each sampled row, and the distances to those that are listed."""

    rows: Rows
    metric: str
    sampled: Arrays  # rows (q, d), measurable; ids (q,); listed (q, k)
    start: int
    stop: int
    k: int

    def __call__(self, out: PartWriter) -> Receipt:
        held = self.sampled.load()
        queries, listed = points_of(held, "rows"), held["listed"]
        block = measurable(self.rows.read(self.start, self.stop), self.metric)
        points = points_in_blocks(as_rows(block), Euclidean.name, max(1, block.shape[0]), queries)
        distances, ids = points.nearest(queries, held["ids"] - self.start, self.k)
        local = np.where((listed >= self.start) & (listed < self.stop), listed - self.start, -1)
        return out.write(distances=distances, ids=np.where(ids == EMPTY, EMPTY, ids + self.start),
                         reached=candidate_distances(queries, block, local))


def nearer(total: Share, share: Share) -> Share:
    """Return the nearest of two blocks, ascending by (distance, id), and what either reached."""
    k = total["ids"].shape[1]
    both = {name: np.concatenate([total[name], share[name]], axis=1) for name in ("distances", "ids")}
    order = np.lexsort((both["ids"], both["distances"]))[:, :k]
    kept = {name: np.take_along_axis(array, order, axis=1) for name, array in both.items()}
    return {**kept, "reached": np.minimum(total["reached"], share["reached"])}


def sampled_ids(n: int, sample: int, random_state: int) -> np.ndarray:
    """Return the numbers of a random sample of n rows, ascending."""
    return np.sort(block_rng(random_state, n).choice(n, min(sample, n), replace=False))


def true_neighbors(rows: Rows, chosen: np.ndarray, listed: np.ndarray, metric: str, execution: Execution,
                   parts: Parts | None = None) -> Share:
    """Return `distances` (q, k), squared, and `ids` of the true neighbors of some rows, ascending; and `reached`.

    listed : (q, k) ids, to which `reached` are the squared distances. Each block is read once, by one task, whose share
    goes to `parts`, scratch by default.
    """
    queries, k = measurable(rows.take(chosen), metric), listed.shape[1]
    sampled = execution.share(ids=chosen, listed=listed, **point_arrays("rows", queries))
    tasks = [TruthTask(rows, metric, sampled, start, stop, k)
             for start, stop in row_ranges(len(rows), truth_rows(rows, metric, execution.memory_budget))]
    return execution.reduce(Reduction(tasks, nearer, lambda nearest: nearest), parts)


def truth_rows(rows: Rows, metric: str, budget: int) -> int:
    """Return the rows of a block: with their layout they fit half of the budget, and all blocks are as equal as can be.
    """
    if rows.is_sparse:
        each, fixed = 2 * measured_row_bytes(rows, metric), tile_bytes(rows)
    else:
        each, fixed = truth_row_bytes(rows.shape[1], measured_itemsize(rows.dtype, metric)), STEP_BYTES
    most = min(MOST_BLOCK, rows_that_fit(budget, each, len(rows), fixed_bytes=min(fixed, budget // 8), share=2))
    return -(-len(rows) // -(-len(rows) // most))


def truth_bytes(rows: Rows, metric: str, budget: int) -> int:
    """Return the bytes of the largest task of a certificate: a block, and the sampled rows."""
    height = truth_rows(rows, metric, budget) + min(SAMPLE, len(rows))
    if rows.is_sparse:
        return height * measured_row_bytes(rows, metric) + tile_bytes(rows)
    return height * truth_row_bytes(rows.shape[1], measured_itemsize(rows.dtype, metric))


def truth_row_bytes(d: int, itemsize: int) -> int:
    """Return the bytes of a dense row of a block: itself, its layout, and its coordinates before they are sorted."""
    return d * itemsize + layout_bytes(1, d, itemsize) + 8 * (min(d, MAX_AXES) + 3)


def recall_of(hit: np.ndarray, random_state: int) -> dict[str, Any]:
    """Return the certificate of lists of which each sampled entry (q, k) is a true neighbor or not."""
    hits, trials = int(hit.sum()), hit.size
    return {"recall": hits / trials, "lower": wilson_lower(hits, trials),
            "worst_row": float(hit.mean(axis=1).min()), "rows": len(hit), "trials": trials,
            "random_state": random_state, "certified": "sample"}


def certify_recall(X: Any, neighbors: Neighbors, sample: int = SAMPLE, random_state: int = 0,
                   execution: Execution | None = None) -> dict[str, Any]:
    """Return the recall of neighbor lists, certified by an exact search for a random sample of rows.

    A listed neighbor is true if it is no farther than the true k-th neighbor, so the order among ties does not count.
    All points are read once, in blocks, each by a task; of dense ones at most 2 n d flops a sampled row.

    Returns
    -------
    dict : `recall`, `lower` (Wilson, 95 %, each list entry a trial), `worst_row` (least share of one row),
        `rows` (sampled), `trials`, `random_state`, and `certified`: "sample".
    """
    rows: Rows = as_rows(X)
    n = len(rows)
    require(len(neighbors) == n, f"{len(neighbors)} lists for {n} points", error=DataError,
            why="each point has one list", fix="pass the X that the neighbors were found for")
    require(sample >= 1, f"sample={sample}, expected >= 1", why="nothing is certified without a row",
            fix="use 500, or 2000 for a bound within 0.1 %")
    chosen = sampled_ids(n, sample, random_state)
    metric = neighbors.attributes.get("metric", Euclidean.name)
    truth = true_neighbors(rows, chosen, neighbors.ids.take(chosen), metric, execution or InProcess())
    return recall_of(is_true(truth["reached"], truth["distances"][:, -1:]), random_state)


def is_true(reached: np.ndarray, kth: np.ndarray) -> np.ndarray:
    """Return which squared distances (q, k) are those of true neighbors: as near as the true k-th ones, (q, 1)."""
    return reached <= kth * (1 + 1e-9)
