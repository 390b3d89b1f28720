"""Recall of neighbor lists: on a sample of rows, against a search that looks at all points."""

from typing import Any

import numpy as np

from ..errors import DataError, require
from ..storage.blocks import Rows, block_rng
from ..storage.csr import as_rows
from .distances import candidate_distances
from .exact import points_in_blocks
from .metric import measurable
from .neighbor_lists import Neighbors

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
    """Return the recall of neighbor lists, certified by an exact search for a random sample of rows.

    A listed neighbor is true if it is no farther than the true k-th neighbor, so the order among ties does not count.
    Points are read in blocks of `BLOCK_BYTES`; of dense ones at most 400 n d flops, and the tiles of the sample.

    Returns
    -------
    dict : `recall`, `lower` (Wilson, 95 %, each list entry a trial), `worst_row` (least share of one row),
        `rows` (sampled), `trials`, `seed`, and `certified`: "sample".
    """
    rows: Rows = as_rows(X)
    n = len(rows)
    require(len(neighbors) == n, f"{len(neighbors)} lists for {n} points", error=DataError,
            why="each point has one list", fix="pass the X that the neighbors were found for")
    require(sample >= 1, f"sample={sample}, expected >= 1", why="nothing is certified without a row",
            fix="use 500, or 2000 for a bound within 0.1 %")
    metric = neighbors.attributes.get("metric", "euclidean")
    chosen = np.sort(block_rng(seed, n).choice(n, min(sample, n), replace=False))
    listed, queries = neighbors.ids.take(chosen), rows.take(chosen)
    measured, self_id = measurable(queries, metric), np.arange(len(chosen))[:, None]
    reached = np.concatenate([candidate_distances(measured, measurable(rows.take(column), metric), self_id)
                              for column in listed.T], axis=1)
    height = max(1, BLOCK_BYTES // (4 * rows.row_bytes if rows.is_sparse else 8 * (rows.shape[1] + len(chosen))))
    true_kth = points_in_blocks(rows, metric, height, measured).nearest(queries, chosen, listed.shape[1])[0][:, -1]
    is_true = reached <= true_kth[:, None] * (1 + 1e-9)
    hits, trials = int(is_true.sum()), is_true.size
    return {"recall": hits / trials, "lower": wilson_lower(hits, trials),
            "worst_row": float(is_true.mean(axis=1).min()), "rows": len(chosen), "trials": trials, "seed": seed,
            "certified": "sample"}
