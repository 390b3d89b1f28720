"""Landmarks of a Nystrom approximation: their number, and the rows or centers.

`uniform` rows cost nothing; `kmeans` centers cost a few passes over the rows; `leverage` rows, drawn by their ridge
leverage scores, cost one pass. The rule "sqrt" takes `ceil(sqrt m)` landmarks from m labeled rows and
`ceil(sqrt(n - m))` from the others (Li, Liu, Yin, Wang, "Approximate manifold regularization: scalable algorithm and
generalization analysis", IJCAI 2019).
"""

import math
import warnings
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Literal

import numpy as np

from ..base.digest import JsonObject, is_whole, require_random_state
from ..base.errors import DataError, explain, require
from ..base.profiler import library
from ..base.types import Matrix, is_sparse
from ..execution.cost import Cost, block_count, cost_of, kernel_seconds
from ..execution.tasks import Execution
from ..storage.blocks import Rows, block_rng, row_ranges
from ..storage.csr import point_arrays, points_of
from ..storage.store import whole_bytes
from .base import Kernel
from .centers import SAMPLE_BYTES, SAMPLE_PER_CENTER, kmeans_centers
from .gram import BLOCK_BYTES
from .leverage import PILOT, leverage_rows
from .points import require_finite, squared_distances

LandmarkMethod = Literal["uniform", "kmeans", "leverage"]
METHODS = ("uniform", "kmeans", "leverage")
MIN_PART = 0.02  # of the landmarks: a smaller part that lies apart is an outlier
SAME_LENGTH = 1e-6  # of squared distances, relative to the longer
OUTLIER_BLOCK = 256  # rows of a block of their distances
DEFAULT_COUNT = 1000  # of landmarks
PREFERRED_STREAM, OTHERS_STREAM = 0, 1  # of the seed; `leverage` and `centers` draw from streams 2 to 4


@dataclass(frozen=True, kw_only=True)
class LandmarkParams:
    """The landmarks: rows, or centers of rows, of which functions are sums.

    Parameters
    ----------
    n_landmarks : int, float, "sqrt" or "auto"
        The number of landmarks; or a float in (0, 1], their share of all distinct rows.
        "sqrt" is ceil(m^1/2) of m labeled points and ceil((n - m)^1/2) of the others.
        "auto" is 1,000, or the number of "sqrt" if that is larger, as far as the memory
        budget allows, and at most all rows. Uniform landmarks include the labeled rows,
        as long as these are no more than half.
    method : "uniform", "kmeans" or "leverage"
        How they are selected: random rows, centers of k-means, or rows by ridge leverage
        scores.
    random_state : int
        The seed of the draw.

    Raises
    ------
    ParameterError
        A value is out of range.

    Examples
    --------
    >>> from dssl import ClusterKernelSVC, LandmarkParams
    >>> centers = LandmarkParams(n_landmarks=500, method="kmeans")
    >>> ClusterKernelSVC(landmarks=centers).landmarks
    LandmarkParams(n_landmarks=500, method='kmeans', random_state=0)
    """

    n_landmarks: int | float | Literal["auto", "sqrt"] = "auto"
    method: LandmarkMethod = "uniform"
    random_state: int = 0

    def __post_init__(self) -> None:
        n = self.n_landmarks
        whole = is_whole(n) and n >= 1
        fraction = isinstance(n, Real) and not isinstance(n, Integral) and 0 < n <= 1
        require(whole or fraction or (isinstance(n, str) and n in ("sqrt", "auto")),
                f'n_landmarks={n!r}, expected a whole number >= 1, a fraction in (0, 1], "sqrt" or "auto"',
                why="a function is a sum over landmarks, and there is at least one",
                fix='use "sqrt" (about the square root of the rows), 500 to 5,000, or a fraction such as 0.1')
        require(self.method in METHODS, f"method={self.method!r} selects no landmarks",
                why="the method decides which rows or centers they are", fix=f"use one of {', '.join(METHODS)}")
        require_random_state(self.random_state)


@dataclass(frozen=True)
class Landmarks:
    """points (s, d) : distinct, an array or sparse rows. rows (s,) : their numbers, or None for centers.

    attributes : JSON. `method`, `asked` (the requested number), `dropped_duplicates`, and the evidence of
    `leverage_rows` or `kmeans_centers`.
    """

    points: Matrix
    rows: np.ndarray | None
    attributes: JsonObject = field(default_factory=dict)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {**point_arrays("points", self.points), **({} if self.rows is None else {"rows": self.rows})}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "Landmarks":
        return cls(points_of(arrays, "points"), arrays.get("rows"), attributes)


def ceil_root(number: int) -> int:
    """Return the square root of a whole number, rounded up, exactly."""
    return math.isqrt(number - 1) + 1 if number > 0 else 0


def landmark_count(params: LandmarkParams, n_labeled: int, n: int, largest: int) -> int:
    """Return the number of landmarks, from 1 to n; largest : as many as fit a configured budget, for "auto", or 0.

    Warns
    -----
    UserWarning : `n_landmarks` is larger than n.
    """
    require(n >= 1 and 0 <= n_labeled <= n, f"{n_labeled} of {n} rows are labeled", error=DataError,
            why="landmarks are selected among the rows", fix="pass the numbers of labeled rows and of all rows")
    asked = params.n_landmarks
    if isinstance(asked, str):
        rule = ceil_root(n_labeled) + ceil_root(n - n_labeled)
        return rule if asked == "sqrt" else min(n, max(DEFAULT_COUNT, rule), max(largest, 1))
    if not isinstance(asked, Integral):
        return max(1, min(n, math.ceil(float(asked) * n * (1 - 1e-12))))  # 0.07 of 100 is 7.000000000000001
    if asked > n:
        warnings.warn(explain(
            f"n_landmarks={asked} and {n} rows to select from",
            why="there are no more landmarks than rows, so all rows are used",
            fix=f"set n_landmarks to {n} or less, or to a fraction"), UserWarning, stacklevel=2)
    return min(int(asked), n)


def uniform_rows(n: int, count: int, random_state: int, preferred: np.ndarray | None = None,
                 rule: Literal["auto", "sqrt"] = "sqrt") -> np.ndarray:
    """Return `count` different row numbers of n, (s,) int64 ascending, uniformly unless there are preferred rows.

    Of m preferred rows the rule "sqrt" takes the share `ceil(sqrt m)` of `ceil(sqrt m) + ceil(sqrt(n - m))`; "auto"
    takes all, but no more than half of `count` or their share of n.
    """
    if preferred is None or not len(preferred):
        return np.sort(block_rng(random_state, OTHERS_STREAM).choice(n, count, replace=False, shuffle=False))
    preferred = np.unique(preferred)
    m = len(preferred)
    if rule == "auto":
        n_preferred = max(count // 2, -(-count * m // n))
    else:
        a = ceil_root(m)
        b = ceil_root(n - m)
        n_preferred = -(-count * a // (a + b))
    n_preferred = max(min(n_preferred, m), count - (n - m))
    first = preferred[block_rng(random_state, PREFERRED_STREAM).choice(m, n_preferred, replace=False,
                                                                       shuffle=False)]
    others = block_rng(random_state, OTHERS_STREAM).choice(n - m, count - n_preferred, replace=False, shuffle=False)
    # The k-th row that is not preferred comes after those preferred rows that have at most k others before them.
    others = others + np.searchsorted(preferred - np.arange(m), others, side="right")
    return np.sort(np.concatenate([first, others])).astype(np.int64)


def first_of_each(points: Matrix) -> np.ndarray:
    """Return the positions of the points (s, d) that equal none before them, ascending; 0.0 and -0.0 are equal."""
    if not is_sparse(points):
        keys = [(row + 0.0).tobytes() for row in points]
    else:
        points = points.copy()
        points.eliminate_zeros()
        ends = points.indptr
        keys = [points.indices[ends[i]:ends[i + 1]].tobytes() + points.data[ends[i]:ends[i + 1]].tobytes()
                for i in range(points.shape[0])]
    seen: dict[bytes, int] = {}
    return np.array([i for i, key in enumerate(keys) if seen.setdefault(key, i) == i], np.int64)


def choose_landmarks(rows: Rows, kernel: Kernel, count: int, params: LandmarkParams, execution: Execution,
                     preferred: np.ndarray | None = None) -> Landmarks:
    """Return `count` landmarks of the rows (n, d) in their order; fewer if some are equal.

    kernel : for the leverage scores.
    count : `landmark_count`.
    preferred : numbers of the labeled rows, for uniform landmarks by the rules "sqrt" and "auto".

    The result does not depend on the number of threads or workers. Centers of k-means are dense float64. Memory: s
    rows, and that of `leverage_rows` or `kmeans_centers`.
    """
    n = len(rows)
    require(1 <= count <= n, f"count={count} landmarks of {n} rows", why="landmarks are selected without replacement",
            fix="take the count from landmark_count")
    if preferred is not None and len(preferred):
        low = int(np.min(preferred))
        high = int(np.max(preferred))
        require(low >= 0 and high < n, f"preferred rows span {low} to {high}", why=f"the rows are 0 to {n - 1}",
                fix="pass the numbers of the labeled rows, np.flatnonzero(labeled)")
    ids: np.ndarray | None = None
    evidence: JsonObject = {}
    if params.method == "kmeans":
        points, evidence = kmeans_centers(rows, count, params.random_state, execution)
    else:
        if params.method == "leverage":
            ids, evidence = leverage_rows(rows, kernel, count, params.random_state, execution)
        else:
            rule = params.n_landmarks
            preference = (preferred, rule) if isinstance(rule, str) else ()
            ids = uniform_rows(n, count, params.random_state, *preference)
        points = rows.take(ids)
    require_finite(points, "a landmark holds")
    kept = first_of_each(points)
    if len(kept) < count:
        points = points[kept]
        ids = None if ids is None else ids[kept]
    return Landmarks(points, ids, {"method": params.method, "asked": count, "dropped_duplicates": count - len(kept),
                                   **evidence})


DRAWN_ALONE = 50  # NumPy draws a share of 1 / 50 or less without a permutation of all
SAMPLE_PASSES = 20  # of k-means over its sample, usually


def landmarks_cost(method: LandmarkMethod, n: int, v: int, s: int, row_bytes: int, d: int, kernels: int,
                   budget: int) -> Cost:
    """Return the cost of selecting s landmarks of v distinct rows among n; by leverage, for each of several kernels.

    The driver holds the landmarks three times and a chunk, and a permutation of all rows if more than a 50th is drawn.
    d : columns of a dense row of `row_bytes` bytes.
    """
    smallest = 3 * s * row_bytes + 16 * v * (method == "uniform" and DRAWN_ALONE * s > v)
    driver = smallest + whole_bytes(n * row_bytes)
    if method == "uniform":
        return cost_of(0, s * row_bytes, s * (row_bytes + 8), driver, smallest)
    if method == "kmeans":
        sample = max(s, min(v, SAMPLE_PER_CENTER * s, SAMPLE_BYTES // (8 * d)))
        height = min(4096, v)
        peak = max(driver, 24 * d * sample, 48 * s * d + height * (8 * s + 32 * d + 48), 8 * 16 * s * d)
        tasks = 1 + 5 * block_count(v, height)
        return cost_of(tasks, tasks * height * row_bytes, 8 * s * d, peak, max(smallest, 48 * s * d),
                       kernel_seconds((5.0 * v + SAMPLE_PASSES * sample) * s, d))
    q = min(v, PILOT)
    peak = max(driver, 40 * q * q, 16 * q * q + min(budget, BLOCK_BYTES))
    return cost_of(kernels * (2 + block_count(8 * v * q, BLOCK_BYTES)), kernels * (v + q) * row_bytes,
                   kernels * s * (row_bytes + 8), peak, max(smallest, 24 * q * q))


def without_outliers(points: Matrix, share: float) -> np.ndarray:
    """Return the numbers, ascending, of the landmarks (s, d) that are no outliers, by single linkage.

    Of edges up to a shrinking length the largest component falls into parts, several where edges are equally long.
    Parts of less than `MIN_PART` of all points beside a single larger one are outliers and are dropped, as long as no
    more than a `share` of the points are; otherwise the search ends, since a part may be a cluster. O(s^2 d) time,
    8 s^2 bytes.
    """
    s = points.shape[0]
    if MIN_PART * s <= 1 or share == 0:
        return np.arange(s)
    blocks = [squared_distances(points[start:stop], points[start:]) for start, stop in row_ranges(s, OUTLIER_BLOCK)]
    pairs = np.concatenate([row[i + 1:] for block in blocks for i, row in enumerate(block)])
    del blocks
    merges = library("scipy.cluster.hierarchy").linkage(pairs, "single")
    parts = merges[:, :2].astype(np.int64)
    sizes = np.concatenate([np.ones(s), merges[:, 3]])
    heights = np.concatenate([np.full(s, -1.0), merges[:, 2]])
    largest = 2 * s - 2
    while largest >= s:
        joined, shortest = [largest], heights[largest] * (1 - SAME_LENGTH)
        for part in joined:
            if part >= s and heights[part] >= shortest:
                joined.extend(parts[part - s])
        apart = [part for part in joined if heights[part] < shortest]
        small = [part for part in apart if sizes[part] < MIN_PART * s]
        large = [part for part in apart if sizes[part] >= max(MIN_PART, 1 - share) * s]
        if len(large) != 1 or len(small) != len(apart) - 1:
            break
        largest, = large
    members = [largest]
    for part in members:
        if part >= s:
            members.extend(parts[part - s])
    return np.sort([part for part in members if part < s])
