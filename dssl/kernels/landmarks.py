"""Landmarks of a Nystrom approximation: how many, and which rows or centers they are.

`uniform` rows are free and what the theory covers; `kmeans` centers lie where rows do, at the cost of a few passes over
them; `leverage` rows are those that others do not explain, at the cost of one pass against a pilot. The rule "sqrt"
takes `ceil(sqrt m)` landmarks from m labeled rows and `ceil(sqrt(n - m))` from the others (Li, Liu, Yin, Wang,
"Approximate manifold regularization: scalable algorithm and generalization analysis", IJCAI 2019).
"""

import math
import warnings
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from scipy import sparse

from ..base.digest import is_whole, require_random_state
from ..base.errors import DataError, explain, require
from ..execution.cost import Cost, block_count, cost_of, kernel_seconds
from ..execution.tasks import Execution
from ..storage.blocks import Rows, block_rng
from ..storage.csr import point_arrays, points_of
from ..storage.store import whole_bytes
from .base import Kernel
from .centers import SAMPLE_BYTES, SAMPLE_PER_CENTER, kmeans_centers
from .gram import BLOCK_BYTES
from .leverage import PILOT, leverage_rows
from .points import require_finite

LandmarkMethod = Literal["uniform", "kmeans", "leverage"]
METHODS = ("uniform", "kmeans", "leverage")
USUAL = 1000  # of a subsample too
PREFERRED_STREAM, OTHERS_STREAM = 0, 1  # of the seed; `leverage` and `centers` draw from streams 2 to 4


@dataclass(frozen=True, kw_only=True)
class LandmarkParams:
    """Which rows, or centers of rows, functions are sums over.

    Parameters
    ----------
    n_landmarks : int, float, "sqrt" or "auto"
        The number of landmarks; or a float in (0, 1], their share of all distinct rows.
        "sqrt" is ceil(m^1/2) of m labeled points and ceil((n - m)^1/2) of the others.
        "auto" is 1,000, or as many as "sqrt" if these are more, as far as the memory
        budget allows, and all rows where there are fewer. Uniform landmarks have the
        labeled rows among them, as long as these are no more than half.
    method : "uniform", "kmeans" or "leverage"
        How they are chosen: rows at random, centers of k-means, or rows by ridge
        leverage scores.
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
        require(self.method in METHODS, f"method={self.method!r} chooses no landmarks",
                why="it decides which rows or centers they are", fix=f"use one of {', '.join(METHODS)}")
        require_random_state(self.random_state)


@dataclass(frozen=True)
class Landmarks:
    """points (s, d), an array or sparse rows, all different; rows (s,), their numbers, or None for centers.

    attributes : JSON. `method`, `asked` (how many were to be chosen) and `dropped_duplicates` (how many of these were
    equal to another), and what `leverage_rows` or `kmeans_centers` say of themselves.
    """

    points: Any
    rows: np.ndarray | None
    attributes: dict[str, Any] = field(default_factory=dict)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {**point_arrays("points", self.points), **({} if self.rows is None else {"rows": self.rows})}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "Landmarks":
        return cls(points_of(arrays, "points"), arrays.get("rows"), attributes)


def ceil_root(number: int) -> int:
    """Return the square root of a whole number, rounded up, without rounding on the way."""
    return math.isqrt(number - 1) + 1 if number > 0 else 0


def landmark_count(params: LandmarkParams, n_labeled: int, n: int, most: int) -> int:
    """Return how many landmarks are meant, from 1 to n, given how many of the n rows are labeled.

    most : of "auto", what a told budget lets be, or 0.

    Warns
    -----
    UserWarning : more landmarks are asked for than there are rows; there are then n.
    """
    require(n >= 1 and 0 <= n_labeled <= n, f"{n_labeled} of {n} rows are labeled", error=DataError,
            why="landmarks are chosen among rows", fix="pass the numbers of labeled rows and of all rows")
    asked = params.n_landmarks
    if isinstance(asked, str):
        rule = ceil_root(n_labeled) + ceil_root(n - n_labeled)
        return rule if asked == "sqrt" else min(n, max(USUAL, rule), max(most, 1))
    if not isinstance(asked, Integral):
        return max(1, min(n, math.ceil(float(asked) * n * (1 - 1e-12))))  # 0.07 of 100 is 7.000000000000001
    if asked > n:
        warnings.warn(explain(
            f"n_landmarks={asked} and {n} rows", why="a landmark is a row or the mean of some, so all rows will serve",
            fix=f"set n_landmarks to {n} or less, or to a fraction"), UserWarning, stacklevel=2)
    return min(int(asked), n)


def uniform_rows(n: int, count: int, random_state: int, preferred: np.ndarray | None = None,
                 rule: Literal["auto", "sqrt"] = "sqrt") -> np.ndarray:
    """Return `count` different row numbers of n, (s,) int64 ascending.

    With m preferred rows these give by "sqrt" the share `ceil(sqrt m)` of `ceil(sqrt m) + ceil(sqrt(n - m))`, exactly
    the rule where `count` is that sum; by "auto" all of them, but no more than half of `count` or their share of n; and
    the others give the rest. Without, every row is as likely.
    """
    if preferred is None or not len(preferred):
        return np.sort(block_rng(random_state, OTHERS_STREAM).choice(n, count, replace=False, shuffle=False))
    preferred = np.unique(preferred)
    m = len(preferred)
    if rule == "auto":
        mine = max(count // 2, -(-count * m // n))
    else:
        a = ceil_root(m)
        b = ceil_root(n - m)
        mine = -(-count * a // (a + b))
    mine = max(min(mine, m), count - (n - m))
    first = preferred[block_rng(random_state, PREFERRED_STREAM).choice(m, mine, replace=False, shuffle=False)]
    others = block_rng(random_state, OTHERS_STREAM).choice(n - m, count - mine, replace=False, shuffle=False)
    # The k-th row that is not preferred comes after those preferred rows that have at most k others before them.
    others = others + np.searchsorted(preferred - np.arange(m), others, side="right")
    return np.sort(np.concatenate([first, others])).astype(np.int64)


def first_of_each(points: Any) -> np.ndarray:
    """Return the positions of the points (s, d) that equal none before them, ascending; zeros of either sign are equal.

    O(s d) time; the bytes of the points once more.
    """
    if sparse.issparse(points):
        points = points.copy()
        points.eliminate_zeros()
        ends = points.indptr
        keys = [points.indices[ends[i]:ends[i + 1]].tobytes() + points.data[ends[i]:ends[i + 1]].tobytes()
                for i in range(points.shape[0])]
    else:
        keys = [(row + 0.0).tobytes() for row in points]
    seen: dict[bytes, int] = {}
    return np.array([i for i, key in enumerate(keys) if seen.setdefault(key, i) == i], np.int64)


def choose_landmarks(rows: Rows, kernel: Kernel, count: int, params: LandmarkParams, execution: Execution,
                     preferred: np.ndarray | None = None) -> Landmarks:
    """Return `count` landmarks of the rows (n, d), fewer where some of those chosen are equal.

    Parameters
    ----------
    kernel : what leverage is measured by; the other methods do not call it.
    count : from 1 to n, as `landmark_count` says.
    preferred : numbers of the labeled rows; uniform landmarks by the rules "sqrt" and "auto" are drawn from them and
        from the others apart. Otherwise unused.

    Returns
    -------
    Landmarks in the order of the rows, in the rows' type; for k-means dense centers (s, d) in float64, which kernels
    compare with sparse rows too. Equal for a seed, whatever number of threads or workers there is.
    Memory: `s` rows, and that of `leverage_rows` or `kmeans_centers`, in blocks of the execution's budget.

    Raises
    ------
    ParameterError : the count or a preferred row is not among the rows. DataError : a landmark is not finite.
    BudgetError : the landmarks and one row do not fit the memory budget.
    """
    n = len(rows)
    require(1 <= count <= n, f"count={count} landmarks of {n} rows", why="landmarks are chosen without replacement",
            fix="take the count from landmark_count")
    if preferred is not None and len(preferred):
        low = int(np.min(preferred))
        high = int(np.max(preferred))
        require(low >= 0 and high < n, f"preferred rows span {low} to {high}", why=f"the rows are 0 to {n - 1}",
                fix="pass the numbers of the labeled rows, np.flatnonzero(labeled)")
    ids: np.ndarray | None = None
    evidence: dict[str, Any] = {}
    if params.method == "kmeans":
        points, evidence = kmeans_centers(rows, count, params.random_state, execution)
    else:
        if params.method == "leverage":
            ids, evidence = leverage_rows(rows, kernel, count, params.random_state, execution)
        else:
            asked = params.n_landmarks
            among = (preferred, asked) if isinstance(asked, str) else ()
            ids = uniform_rows(n, count, params.random_state, *among)
        points = rows.take(ids)
    require_finite(points, "a landmark holds")
    kept = first_of_each(points)
    if len(kept) < count:
        points = points[kept]
        ids = None if ids is None else ids[kept]
    return Landmarks(points, ids, {"method": params.method, "asked": count, "dropped_duplicates": count - len(kept),
                                   **evidence})


DRAWN_ALONE = 50  # NumPy draws a share of 1 / 50 or less without numbering all
SAMPLE_PASSES = 20  # of k-means over its sample, as a rule


def landmarks_cost(method: LandmarkMethod, n: int, v: int, s: int, row_bytes: int, d: int, kernels: int,
                   budget: int) -> Cost:
    """Return what choosing s landmarks of v distinct rows among n takes; by leverage, of each of several kernels.

    In the driver: the landmarks three times and chunks that hold them, and numbers of all rows where more than a 50th
    is drawn; centers and leverage take passes of blocks.

    d : columns of a dense row of `row_bytes` bytes.
    """
    least = 3 * s * row_bytes + 16 * v * (method == "uniform" and DRAWN_ALONE * s > v)
    driver = least + whole_bytes(n * row_bytes)
    if method == "uniform":
        return cost_of(0, s * row_bytes, s * (row_bytes + 8), driver, least)
    if method == "kmeans":
        sample = max(s, min(v, SAMPLE_PER_CENTER * s, SAMPLE_BYTES // (8 * d)))
        height = min(4096, v)
        peak = max(driver, 24 * d * sample, 48 * s * d + height * (8 * s + 32 * d + 48), 8 * 16 * s * d)
        tasks = 1 + 5 * block_count(v, height)
        return cost_of(tasks, tasks * height * row_bytes, 8 * s * d, peak, max(least, 48 * s * d),
                       kernel_seconds((5.0 * v + SAMPLE_PASSES * sample) * s, d))
    q = min(v, PILOT)
    peak = max(driver, 40 * q * q, 16 * q * q + min(budget, BLOCK_BYTES))
    return cost_of(kernels * (2 + block_count(8 * v * q, BLOCK_BYTES)), kernels * (v + q) * row_bytes,
                   kernels * s * (row_bytes + 8), peak, max(least, 24 * q * q))
