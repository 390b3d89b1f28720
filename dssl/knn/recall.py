"""Recall of neighbor lists on a sample of rows, against an exact search with one task a block of points."""

from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict

import numpy as np

from ..base.errors import DataError, require
from ..base.types import MatrixLike
from ..base.wilson import interval_of_share
from ..execution.cost import Cost, cost_of
from ..execution.in_process import InProcess
from ..execution.tasks import BlockTasks, Execution, Reduction, Share, combining_tasks
from ..storage.blocks import (
    STEP_BYTES,
    Arrays,
    HeldArrays,
    Parts,
    PartWriter,
    Receipt,
    Rows,
    block_rng,
    rows_that_fit,
)
from ..storage.csr import as_rows, point_arrays, points_of
from .exact.blocks import points_in_blocks
from .exact.inverted_index import measured_row_bytes, tile_bytes
from .exact.layout import MAX_AXES, layout_bytes
from .exact.pairs import pair_tile_bytes
from .exact.tiles import products_bytes
from .lists import Neighbors
from .metric import (
    AnyMetric,
    candidate_squares,
    measurable,
    measured_by,
    measured_itemsize,
    metric_of,
    stored_metric,
)
from .squared_distances import EMPTY

SAMPLE = 500
TRUTH_BYTES = 24  # of a true neighbor: its distance, its number, and the distance of a listed one
MAX_BLOCK_ROWS = 1 << 16
HALVED_ROWS = 1 << 15  # from which there are two blocks or more, so that two workers have one each
SAME = 1e-6  # squared distances that differ less, relatively, are equal but for rounding, in float32 for some metrics


class Recall(TypedDict):
    """The recall of neighbor lists, as their attributes store it.

    recall : share of the sampled list entries that are true neighbors.
    lower : lower end of its 95 % confidence interval.
    worst_row : smallest share of a single row.
    rows, trials : number of sampled rows, and of their entries.
    certified : "sample", or "exact" without the fields of a sample.
    """

    recall: float
    lower: float
    worst_row: NotRequired[float]
    rows: NotRequired[int]
    trials: NotRequired[int]
    random_state: NotRequired[int]
    certified: Literal["sample", "exact"]


EXACT_RECALL = Recall(recall=1.0, lower=1.0, certified="exact")


def wilson_lower(hits: int, trials: int) -> float:
    """Return the lower end of Wilson's interval of a share of trials; 0 without trials."""
    return interval_of_share(hits / trials, trials)[0] if trials else 0.0


@dataclass(frozen=True)
class TruthTask:
    """Find the k nearest of rows [start, stop) to each sampled row, and the distances of its listed neighbors."""

    rows: Rows
    metric: AnyMetric
    sampled: Arrays  # rows (q, d), measurable; ids (q,); listed (q, k)
    start: int
    stop: int
    k: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.sampled.load()
        queries, listed = points_of(arrays, "rows"), arrays["listed"]
        block = measurable(self.rows.read(self.start, self.stop), self.metric)
        measured = measured_by(self.metric)
        points = points_in_blocks(as_rows(block), measured, max(1, block.shape[0]), queries)
        distances, ids = points.nearest(queries, arrays["ids"] - self.start, self.k)
        local = np.where((listed >= self.start) & (listed < self.stop), listed - self.start, -1)
        return out.write(distances=distances, ids=np.where(ids == EMPTY, EMPTY, ids + self.start),
                         listed_squares=candidate_squares(queries, block, local, measured))

    def cost(self) -> Cost:
        """Return a block, beside the rows of a sample of the usual size."""
        height, sampled = self.stop - self.start, min(SAMPLE, len(self.rows))
        if self.rows.is_sparse:
            peak = (height + sampled) * measured_row_bytes(self.rows, self.metric) + tile_bytes(self.rows)
        else:
            d = self.rows.shape[1]
            row_bytes = truth_row_bytes(d, measured_itemsize(self.rows.dtype, self.metric))
            peak = (height + sampled) * row_bytes + products_bytes(d)
        if metric_of(self.metric).by_pairs:
            peak += pair_tile_bytes(self.rows)
        return cost_of(1, height * self.rows.row_bytes, TRUTH_BYTES * sampled * self.k, peak)


def nearer(total: Share, share: Share) -> Share:
    """Merge the nearest of two blocks, ascending by (distance, id), and the distances of listed neighbors."""
    k = total["ids"].shape[1]
    both = {name: np.concatenate([total[name], share[name]], axis=1) for name in ("distances", "ids")}
    order = np.lexsort((both["ids"], both["distances"]))[:, :k]
    nearest = {name: np.take_along_axis(array, order, axis=1) for name, array in both.items()}
    return {**nearest, "listed_squares": np.minimum(total["listed_squares"], share["listed_squares"])}


def sampled_ids(n: int, sample: int, random_state: int) -> np.ndarray:
    """Return the numbers of a random sample of n rows, ascending."""
    return np.sort(block_rng(random_state, n).choice(n, min(sample, n), replace=False))


def true_neighbors(rows: Rows, sampled_rows: np.ndarray, listed: np.ndarray, metric: AnyMetric, execution: Execution,
                   parts: Parts | None = None) -> Share:
    """Return squared `distances` (q, k), `ids` of the true neighbors of rows, ascending, and `listed_squares`.

    listed : (q, k) ids of listed neighbors; `listed_squares` holds their squared distances. One task reads each block,
    and its share goes to `parts` (scratch by default).
    """
    queries, k = measurable(rows.take(sampled_rows), metric), listed.shape[1]
    sampled = execution.share(ids=sampled_rows, listed=listed, **point_arrays("rows", queries))
    tasks = truth_tasks(rows, metric, sampled, k, execution.memory_budget)
    return execution.reduce(Reduction(tasks, nearer, lambda nearest: nearest), parts)


def truth_tasks(rows: Rows, metric: AnyMetric, sampled: Arrays, k: int, budget: int) -> BlockTasks[TruthTask]:
    return BlockTasks(lambda start, stop: TruthTask(rows, metric, sampled, start, stop, k), len(rows),
                      truth_rows(rows, metric, budget))


def truth_cost(rows: Rows, metric: AnyMetric, k: int, budget: int) -> Cost:
    """Return what the true neighbors of a sample of rows take."""
    tasks = truth_tasks(rows, metric, HeldArrays(), k, budget)
    shares = TRUTH_BYTES * min(SAMPLE, len(rows)) * k
    return tasks.cost() + cost_of(combining_tasks(len(tasks), shares, budget), 0, 0, 0)


def truth_rows(rows: Rows, metric: AnyMetric, budget: int) -> int:
    """Return the rows of a block: with their layout they fit half of the budget; blocks have nearly equal sizes."""
    if rows.is_sparse:
        row_bytes, fixed = 2 * measured_row_bytes(rows, metric), tile_bytes(rows)
    else:
        row_bytes = truth_row_bytes(rows.shape[1], measured_itemsize(rows.dtype, metric))
        fixed = STEP_BYTES + products_bytes(rows.shape[1])
    max_rows = min(MAX_BLOCK_ROWS, rows_that_fit(budget, row_bytes, len(rows), fixed_bytes=min(fixed, budget // 4),
                                                 share=2))
    n_blocks = max(-(-len(rows) // max_rows), 2 if len(rows) >= HALVED_ROWS else 1)
    return -(-len(rows) // n_blocks)


def truth_row_bytes(d: int, itemsize: int) -> int:
    """Return the bytes of a dense row of a block: itself, its layout, and its coordinates before they are sorted."""
    return d * itemsize + layout_bytes(1, d, itemsize) + 8 * (min(d, MAX_AXES) + 3)


def recall_of(hit: np.ndarray, random_state: int) -> Recall:
    """Return the certificate of neighbor lists; `hit` (q, k) says which sampled entries are true neighbors."""
    hits, trials = int(hit.sum()), hit.size
    return {"recall": hits / trials, "lower": wilson_lower(hits, trials),
            "worst_row": float(hit.mean(axis=1).min()), "rows": len(hit), "trials": trials,
            "random_state": random_state, "certified": "sample"}


def certify_recall(X: Rows | MatrixLike, neighbors: Neighbors, sample: int = SAMPLE, random_state: int = 0,
                   execution: Execution | None = None) -> Recall:
    """Return the recall of neighbor lists, certified by an exact search for a random sample of rows.

    A listed neighbor is true if it is no farther than the true k-th neighbor, so the order among ties does not count.
    All points are read once, in blocks, each by a task; of dense ones at most 2 n d flops a sampled row.

    Returns
    -------
    Recall : with the Wilson interval of 95 %, in which each list entry is a trial.
    """
    rows = as_rows(X)
    n = len(rows)
    require(len(neighbors) == n, f"{len(neighbors)} lists for {n} points", error=DataError,
            why="each point has one list", fix="pass the X that the neighbors were found for")
    require(sample >= 1, f"sample={sample}, expected >= 1", why="nothing is certified without a row",
            fix="use 500, or 2000 for a bound within 0.1 %")
    sampled_rows = sampled_ids(n, sample, random_state)
    metric = stored_metric(neighbors.attributes)
    truth = true_neighbors(rows, sampled_rows, neighbors.id_rows.take(sampled_rows), metric, execution or InProcess())
    return recall_of(is_true(truth["listed_squares"], truth["distances"][:, -1:]), random_state)


def is_true(listed_distances: np.ndarray, kth: np.ndarray) -> np.ndarray:
    """Return which listed squared distances (q, k) are at most those of the true k-th neighbors (q, 1)."""
    return listed_distances <= kth * (1 + SAME)
