"""Recall of neighbor lists: on a sample of rows, against a search that looks at all points."""

from typing import Any

import numpy as np

from ..errors import DataError, require
from ..storage.blocks import Rows, block_rng
from ..storage.csr import as_rows
from .inverted import Queries
from .metric import measurable
from .neighbor_lists import Neighbors
from .sparse_distance import row_distances

SAMPLE = 500
CONFIDENCE_Z = 1.959964  # two-sided 95 %
BLOCK_BYTES = 64 << 20


def wilson_lower(hits: int, trials: int, z: float = CONFIDENCE_Z) -> float:
    """Return the lower end of Wilson's score interval of a share (Wilson, JASA 22, 1927)."""
    if trials == 0:
        return 0.0
    share = hits / trials
    middle = share + z * z / (2 * trials)
    width = z * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return float(max(0.0, (middle - width) / (1 + z * z / trials)))


def certify_recall(X: Any, neighbors: Neighbors, sample: int = SAMPLE, seed: int = 0) -> dict[str, Any]:
    """Return the recall of neighbor lists, certified by brute force on a random sample of rows.

    A listed neighbor is true if it is no farther than the true k-th neighbor, so the order among ties does not count.
    It costs 2 sample n d flops in float64, in blocks of rows of `BLOCK_BYTES`.

    Returns
    -------
    dict : `recall`, `lower` (Wilson, 95 %, each list entry a trial), `worst_row` (least share of one row),
        `rows` (sampled), `trials`, `seed`.
    """
    rows: Rows = as_rows(X)
    n = len(rows)
    require(len(neighbors) == n, f"{len(neighbors)} lists for {n} points", error=DataError,
            why="each point has one list", fix="pass the X that the neighbors were found for")
    require(sample >= 1, f"sample={sample}, expected >= 1", why="nothing is certified without a row",
            fix="use 500, or 2000 for a bound within 0.1 %")
    metric = neighbors.attributes.get("metric", "euclidean")
    chosen = np.sort(block_rng(seed, n).choice(n, min(sample, n), replace=False))
    listed = neighbors.ids.take(chosen)
    reached, true_kth = (_sparse_distances if rows.is_sparse else _dense_distances)(rows, chosen, listed, metric)
    is_true = reached <= true_kth[:, None] * (1 + 1e-9)
    hits, trials = int(is_true.sum()), is_true.size
    return {"recall": hits / trials, "lower": wilson_lower(hits, trials),
            "worst_row": float(is_true.mean(axis=1).min()), "rows": len(chosen), "trials": trials, "seed": seed,
            "certified": "sample"}


def _dense_distances(rows: Rows, chosen: np.ndarray, listed: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances to the listed neighbors (s, k), and to the true k-th (s,), of dense rows."""
    d, k = rows.shape[1], listed.shape[1]
    queries = measurable(rows.take(chosen), metric).astype(np.float64)
    reached = np.empty(listed.shape)
    for column in range(k):
        reached[:, column] = ((queries - measurable(rows.take(listed[:, column]), metric)) ** 2).sum(axis=1)
    # The k listed rows exist, so the true k-th is no farther than the farthest of them.
    limit = reached.max(axis=1)
    center = queries.mean(axis=0)
    centered = queries - center
    norm = (centered**2).sum(axis=1)
    near: list[list[np.ndarray]] = [[] for _ in chosen]
    for first, block in rows.blocks(max(1, BLOCK_BYTES // (8 * (d + len(chosen))))):
        points = measurable(block, metric).astype(np.float64)
        shifted = points - center
        lengths = (shifted**2).sum(axis=1)
        squared = norm[:, None] + lengths - 2 * centered @ shifted.T
        slack = 1e-12 * (norm[:, None] + lengths) + 1e-9 * limit[:, None]
        for row, column in zip(*np.nonzero(squared <= limit[:, None] + slack), strict=True):
            if first + column != chosen[row]:
                near[row].append(((queries[row] - points[column]) ** 2).sum())
    return reached, np.array([np.partition(found, k - 1)[k - 1] for found in near])


def _sparse_distances(rows: Rows, chosen: np.ndarray, listed: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_dense_distances` does of sparse rows, by an exact search for the chosen ones."""
    k = listed.shape[1]
    found = measurable(rows.take(chosen), metric)
    queries = Queries(found, chosen, k)
    for first, block in rows.blocks(max(1, BLOCK_BYTES // (4 * rows.row_bytes))):
        queries.offer(first, measurable(block, metric))
    reached = np.stack([row_distances(queries.rows, measurable(rows.take(listed[:, column]), metric))
                        for column in range(k)], axis=1)
    return reached, queries.nearest()[0][:, -1]
