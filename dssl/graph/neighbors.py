"""The k nearest neighbors of every row: parameters, and the choice of a method."""

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from ..errors import explain, require
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..storage.blocks import Parts, Rows, row_ranges
from ..storage.csr import as_rows
from .descent import DescentTask, descent_seconds
from .exact import NearestTask, exact_block_rows, plan_exact
from .metric import METRICS, check_rows
from .neighbor_lists import Neighbors
from .recall import certify_recall

METHODS = ("auto", "exact", "descent")
ALWAYS_EXACT_ROWS = 20_000


@dataclass(frozen=True, kw_only=True)
class NeighborParams:
    """How neighbors are found.

    n_neighbors : others per point; the point itself is not counted.
    method : "exact", "descent" (NN-descent, approximate), or "auto" (see `neighbors`).
    metric : "euclidean", or "cosine": Euclidean between the rows scaled to unit length.
    seed : of NN-descent and of the sample that certifies it; an exact search does not depend on it.
    descent_threads : threads of NN-descent. Its lists depend on their number, so it is a parameter and not a matter
        of the machine; 1 gives the same lists everywhere. A Dask worker needs as many cores.
    """

    n_neighbors: int = 10
    method: Literal["auto", "exact", "descent"] = "auto"
    metric: Literal["euclidean", "cosine"] = "euclidean"
    seed: int = 0
    descent_threads: int = 1

    def __post_init__(self) -> None:
        require(isinstance(self.n_neighbors, (int, np.integer)) and self.n_neighbors >= 1,
                f"n_neighbors={self.n_neighbors!r}, expected an integer >= 1",
                why="a point without neighbors is isolated and receives no label; the point itself is not counted",
                fix="choose 5 to 50; larger values smooth more")
        require(self.method in METHODS, f"method={self.method!r}, expected one of {METHODS}",
                why="no other search exists", fix='leave it at "auto"')
        require(self.metric in METRICS, f"metric={self.metric!r}, expected one of {METRICS}",
                why="no other distance is implemented",
                fix="transform the features so that their Euclidean distance is the one you mean")
        require(isinstance(self.seed, (int, np.integer)) and 0 <= self.seed < 2**32,
                f"seed={self.seed!r}, expected an integer in [0, 2^32)",
                why="the random streams take no other", fix="use seed=0")
        require(isinstance(self.descent_threads, (int, np.integer)) and self.descent_threads >= 1,
                f"descent_threads={self.descent_threads!r}, expected an integer >= 1",
                why="the search runs in at least one thread", fix="use 1, or the number of cores")


def neighbors(X: Any, n_neighbors: int = 10, *, method: str = "auto", metric: str = "euclidean", seed: int = 0,
              execution: Execution | None = None, parts: Parts | None = None) -> Neighbors:
    """Return the `n_neighbors` nearest other rows of every row, or all others with a warning where there are fewer.

    Parameters
    ----------
    X : array-like or Rows, shape (n, d)
    method : "auto" is exact for n <= 20,000, and above wherever the exact search is predicted to take less time
        than NN-descent on one core. Exact: 5 us + 13 to 100 ns (by the axes and the bytes of all points) per point that
        the tree looks at for 64 sampled rows, or 3 ns per pair, whichever is less. NN-descent: 30 s to compile, and
        (3.6 us + 45 ns min(d, 200)) (k + 6) a row.
        Sparse rows: what `inverted_seconds` counts, and 650 ns an entry in place of 45 ns min(d, 200).
        So exact up to about 140,000 rows of many effective dimensions, and far beyond where the tree works. Only
        counts enter, so the choice is reproducible.
    execution : where the tasks run; threads of this process by default.
    parts : where the lists are written, as shared arrays `ids` and `distances`; finished blocks are kept.

    Raises
    ------
    ParameterError : a parameter out of range, or a single row.
    DataError : X is not two-dimensional, not finite, or has zero rows under the cosine metric.
    """
    params = NeighborParams(n_neighbors=n_neighbors, method=method, metric=metric, seed=seed)  # type: ignore[arg-type]
    rows = as_rows(X)
    return find_neighbors(rows, lowered_neighbors(params, len(rows), "points"), execution or InProcess(), parts)


def lowered_neighbors(params: NeighborParams, n: int, points: str) -> NeighborParams:
    """Return parameters that ask for no more neighbors than n > 1 points have; warn if that is fewer than asked for."""
    if params.n_neighbors < n or n < 2:
        return params
    warnings.warn(explain(f"n_neighbors={params.n_neighbors} is lowered to {n - 1}, with {n} {points}",
                          why="a point has the others for neighbors", fix="lower n_neighbors, or pass more points"),
                  UserWarning, stacklevel=3)
    return replace(params, n_neighbors=n - 1)


def find_neighbors(X: Rows, params: NeighborParams, execution: Execution, parts: Parts | None = None) -> Neighbors:
    """Return the neighbors of rows (n, d); see `neighbors`."""
    k, metric = params.n_neighbors, params.metric
    check_rows(X, k, metric)
    n = len(X)
    parts = parts or execution.scratch()
    block_rows = exact_block_rows(X, k, metric, execution.memory_budget)
    parts.allocate("ids", (n, k), np.int64, block_rows)
    parts.allocate("distances", (n, k), np.float32, block_rows)
    attributes = {**asdict(params), "n": n, "block_rows": block_rows}
    if params.method != "descent":
        points, seconds = plan_exact(X, k, metric, execution)
        if params.method == "exact" or n <= ALWAYS_EXACT_ROWS or seconds <= descent_seconds(X, k):
            execution.map([NearestTask(points, start, stop, k) for start, stop in row_ranges(n, block_rows)], parts)
            found = {"method": "exact", "search": points.search,
                     "recall": {"recall": 1.0, "lower": 1.0, "certified": "exact"}}
            return Neighbors(parts.rows("ids"), parts.rows("distances"), {**attributes, **found})
    task = DescentTask(X, k, metric, params.seed, params.descent_threads, block_rows)
    receipt, = execution.map([task], parts)
    lists = Neighbors(parts.rows("ids"), parts.rows("distances"),
                      {**attributes, "method": "descent", "filled_exactly": receipt["filled_exactly"]})
    recall = certify_recall(X, lists, seed=params.seed)
    return Neighbors(lists.ids, lists.distances, {**lists.attributes, "recall": recall})
