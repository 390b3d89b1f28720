"""The k nearest neighbors of every row, their parameters, and the selection of a search method."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np

from ..base.digest import JsonObject, require_random_state
from ..base.errors import explain, require
from ..base.types import MatrixLike
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..storage.blocks import Parts, Rows, row_ranges
from ..storage.csr import as_rows
from .descent.search import DescentTask, descent_cost, descent_seconds
from .exact.blocks import (
    SearchedPoints,
    exact_block_rows,
    exact_seconds_lower_bound,
    frame_sample,
    nearest_tasks,
    plan_exact,
    sampled_plan,
)
from .exact.layout import Frame
from .lists import Neighbors
from .metric import (
    METRICS,
    AnyMetric,
    Euclidean,
    MetricParams,
    MetricValue,
    check_kind,
    check_rows,
    check_shape,
    metric_of,
    metric_with,
)
from .partitioned.running import Search
from .partitioned.search import find_partitioned, is_partitioned
from .partitioned.sizes import fits_tasks, list_rows
from .recall import EXACT_RECALL, SAMPLE, sampled_ids, true_neighbors

MetricName = Annotated[str, METRICS]
MetricValues = dict[str, MetricValue]
METHODS = ("auto", "exact", "descent", "partitioned")
ALWAYS_EXACT_ROWS = 20_000
PAIRS_EXACT_ROWS = 4_000  # of a metric that is a formula of two rows
# "auto" searches exactly if that takes at most the first times the seconds of NN-descent; or, where one search by that
# misses the recall, at most the second times.
EXACT_SLOWDOWN, FALLBACK_SLOWDOWN = 2, 8
LISTS = {"ids": np.int64, "distances": np.float32}
TRIAL = "trial"  # the place of lists that one search by NN-descent wrote


@dataclass(frozen=True, kw_only=True)
class NeighborParams:
    """Parameters of a neighbor search.

    n_neighbors : number of neighbors of each point, itself not counted.
    method : "exact"; "descent" (NN-descent in one task, approximate); "partitioned" (NN-descent in overlapping leaves,
        approximate, for any number of dense rows); or "auto" (see `neighbors`).
    metric : a name of `METRICS`, or a Numba function of two dense rows.
    metric_params : the parameters of the metric by their names, numbers and arrays, where it has some.
    random_state : seed of the approximate searches and of the sample that certifies their recall. An exact search does
        not depend on it.
    recall : lower bound of the recall that a partitioned search has to certify. NN-descent is repeated with longer
        lists if it certifies less; or, under "auto", an exact search follows where that is affordable.
    """

    n_neighbors: int = 10
    method: Literal["auto", "exact", "descent", "partitioned"] = "auto"
    metric: MetricName = Euclidean.name
    metric_params: MetricValues | None = None
    random_state: int = 0
    recall: float = 0.95

    def __post_init__(self) -> None:
        require(isinstance(self.n_neighbors, (int, np.integer)) and self.n_neighbors >= 1,
                f"n_neighbors={self.n_neighbors!r}, expected an integer >= 1",
                why="a point without neighbors is isolated and receives no label; the point itself is not counted",
                fix="choose 5 to 50; larger values smooth more")
        require(self.method in METHODS, f"method={self.method!r}, expected one of {METHODS}",
                why="no other search exists", fix='leave it at "auto"')
        object.__setattr__(self, "metric_params", MetricParams.of(self.metric_params))
        rule = metric_of(self.distance)
        require(self.method != "partitioned" or not rule.by_pairs,
                f"method='partitioned' with metric={rule.name!r}",
                why="partitions are made of rows whose distances are Euclidean, if transformed",
                fix='use the method "auto", "descent" or "exact"')
        require_random_state(self.random_state)
        require(self.random_state < 2**32, f"random_state={self.random_state!r}, expected less than 2^32",
                why="the random streams of a search take no larger one", fix="use random_state=0")
        require(isinstance(self.recall, (int, float)) and 0 < self.recall < 1,
                f"recall={self.recall!r}, expected above 0 and below 1", why="a sample certifies no more",
                fix="use 0.95, or the method exact")

    @property
    def distance(self) -> AnyMetric:
        """Return the metric with its parameters; raise ParameterError where one of these is wrong."""
        return metric_with(self.metric, self.metric_params)  # type: ignore[arg-type]


def neighbors(X: Rows | MatrixLike, n_neighbors: int = 10, *, method: str = "auto",
              metric: str | Callable[..., float] = Euclidean.name, metric_params: Mapping[str, Any] | None = None,
              random_state: int = 0, recall: float = 0.95, execution: Execution | None = None,
              parts: Parts | None = None) -> Neighbors:
    """Return the nearest other rows of every row.

    Where there are fewer other rows than `n_neighbors`, all are returned, with a
    warning.

    Parameters
    ----------
    X : array-like, sparse matrix or Rows, shape (n, d)
        The points.
    n_neighbors : int
        The number of neighbors of each point, itself not counted.
    method : "auto", "exact", "descent" or "partitioned"
        The search; see the Notes.
    metric : str or function
        The distance: "euclidean"; "cosine", the Euclidean distance between the rows
        scaled to unit length; another name of `dssl.knn.metric.METRICS`, as "manhattan",
        "hamming" or "haversine"; or a Numba function of two rows.
    metric_params : dict or None
        The parameters of the metric by their names, as in `KNNGraph`.
    random_state : int
        The seed of the approximate searches and of the sample that certifies them.
    recall : float
        The share of true neighbors that an approximate search has to find, certified on
        a sample. NN-descent is repeated with longer lists if it finds fewer, or under
        "auto" followed by an exact search where that is affordable, with a warning if
        that is not enough; a partitioned search widens until it is reached.
    execution : Execution or None
        Where the tasks run; None is threads of this process.
    parts : Parts or None
        Where the neighbor lists are written, as shared arrays `ids` and `distances`.
        Finished blocks are reused. None is the execution's scratch.

    Returns
    -------
    Neighbors
        The `indices` and `distances`, both of shape (n, k), ascending by distance, which
        `to_scipy` makes a sparse matrix and `to_zarr` stores.

    Raises
    ------
    ParameterError
        A parameter is out of range, or X is a single row.
    DataError
        X is not two-dimensional, not finite, or has rows that the metric is not defined
        for, such as zero rows under the cosine metric; or a partitioned search gets
        sparse rows or does not reach the `recall`.

    Warns
    -----
    UserWarning
        `n_neighbors` was lowered, or NN-descent does not reach the `recall`.

    Notes
    -----
    "auto" is exact for n <= 20,000, and for more rows if the exact search is predicted
    to take at most twice as long as NN-descent on one core, since it finds all
    neighbors and workers share it; or at most 8 times as long, where one search by
    NN-descent misses the `recall`. The exact search takes the lesser of 3 ns for each
    pair, and, for each row, 5 us + 13 to 100 ns (by the axes and the bytes of all
    points) for each visit of the tree, counted on 64 sampled rows. NN-descent takes
    (1.5 us + 10 ns for each coordinate) (k + max(5, k / 4)) for each row. For sparse
    rows, the exact search takes the seconds of `inverted_seconds`, and NN-descent 140 ns
    for each entry. So the search is exact up to some 40,000 rows of many effective
    dimensions, and for many more rows where the tree works. Only counts enter, so the
    selection is reproducible.

    Approximate searches compare dense rows of many columns by at most 256 coordinates:
    the principal axes of a sample and, where these explain too little of the distances,
    a subsampled randomized Hadamard transform of the rest. The candidates are measured
    in all columns.

    Of a metric that is a formula of two rows, such as manhattan, "auto" is exact for
    n <= 4,000; above, the exact search measures all pairs, and NN-descent some 60 for
    each row and candidate. There is no partitioned search of such a metric.

    If NN-descent does not fit the memory budget, dense rows are partitioned. Their
    neighbor lists have the attribute `ordered`: the parts hold a permutation `order`
    (n,) in which near rows lie together.

    Examples
    --------
    >>> import numpy as np
    >>> from dssl import neighbors
    >>> lists = neighbors(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1)
    >>> lists.indices.ravel(), lists.distances.ravel()
    (array([1, 0, 1]), array([1., 1., 2.], dtype=float32))
    """
    params = NeighborParams(n_neighbors=n_neighbors, method=method,  # type: ignore[arg-type]
                            metric=metric, metric_params=metric_params,  # type: ignore[arg-type]
                            random_state=random_state, recall=recall)
    rows = as_rows(X)
    return find_neighbors(rows, lowered_neighbors(params, len(rows), "points"), execution or InProcess(), parts)


def lowered_neighbors(params: NeighborParams, n: int, points: str) -> NeighborParams:
    """Return parameters with at most n - 1 neighbors, for n > 1 points; warn if that lowers `n_neighbors`."""
    if params.n_neighbors < n or n < 2:
        return params
    warnings.warn(explain(f"n_neighbors={params.n_neighbors} is lowered to {n - 1}, with {n} {points}",
                          why="a point can only have the other points as neighbors",
                          fix="lower n_neighbors, or pass more points"),
                  UserWarning, stacklevel=3)
    return replace(params, n_neighbors=n - 1)


def always_exact_rows(metric: AnyMetric) -> int:
    """Return the number of rows up to which "auto" searches exactly, whatever that takes."""
    return PAIRS_EXACT_ROWS if metric_of(metric).by_pairs else ALWAYS_EXACT_ROWS


def approximate_method(X: Rows, k: int, metric: AnyMetric, budget: int) -> str:
    """Return the approximate search of "auto": NN-descent, or a partitioned search if that does not fit a task."""
    fits = descent_cost(X, k, metric, budget).peak <= budget
    return "descent" if fits or X.is_sparse or metric_of(metric).by_pairs else "partitioned"


def possible_methods(X: Rows, k: int, metric: AnyMetric, budget: int) -> set[str]:
    """Return the searches that "auto" may select for rows of the shape of X, which are not read."""
    if len(X) <= always_exact_rows(metric):
        return {"exact"}
    approximate, descent = approximate_method(X, k, metric, budget), descent_seconds(X, k, metric)
    exact = exact_seconds_lower_bound(X, metric, budget)
    if metric_of(metric).by_pairs and exact <= EXACT_SLOWDOWN * descent:
        return {"exact"}  # of which the bound is the prediction
    slowdown = FALLBACK_SLOWDOWN if approximate == "descent" else EXACT_SLOWDOWN
    return {approximate, "exact"} if exact <= slowdown * descent else {approximate}


class ExactOption:
    """An exact search that "auto" may select, planned only as far as a decision needs it.

    sample : of the rows, transformed by the metric; None to read one.
    seconds : those that it is predicted to take; before the rows are laid out, about the least.
    """

    def __init__(self, X: Rows, k: int, metric: AnyMetric, execution: Execution, sample: np.ndarray | None = None):
        self.of, self.execution, self.descent = (X, k, metric), execution, descent_seconds(X, k, metric)
        self._frame: Frame | None = None
        self._points: SearchedPoints | None = None
        self.seconds = 0.0
        if not (X.is_sparse or metric_of(metric).by_pairs):
            sample = frame_sample(X, metric) if sample is None else sample
            self._frame, self.seconds = sampled_plan(sample, k, len(X))

    def takes_at_most(self, slowdown: float) -> bool:
        """Return whether it may take at most `slowdown` times the seconds of NN-descent."""
        return self.seconds <= slowdown * self.descent

    def points_within(self, slowdown: float) -> SearchedPoints | None:
        """Return the points to search, or None if that takes more than `slowdown` times the seconds of NN-descent."""
        if self._points is None and self.takes_at_most(slowdown):
            self._points, self.seconds = plan_exact(*self.of, self.execution, self._frame)
        return self._points if self.takes_at_most(slowdown) else None


def find_neighbors(X: Rows, params: NeighborParams, execution: Execution, parts: Parts | None = None) -> Neighbors:
    """Return the neighbors of rows (n, d); see `neighbors`."""
    k, metric, n = params.n_neighbors, params.distance, len(X)
    check_shape(X, k)  # before anything is sized by it
    check_kind(X, metric)
    method: str = params.method
    if method == "auto" and possible_methods(X, k, metric, execution.memory_budget) == {"partitioned"}:
        method = "partitioned"
    approximate, weighs = method, method == "auto" and n > always_exact_rows(metric)
    if weighs:
        approximate = approximate_method(X, k, metric, execution.memory_budget)
    parts, attributes = parts or execution.scratch(), JsonObject()
    search: Search | None = None
    points: SearchedPoints | None = None
    option: ExactOption | None = None
    if approximate == "partitioned" and (not weighs or fits_tasks(X, k, metric, execution.memory_budget)):
        # Its tasks check the values that they read.
        search, method = Search.of(X, k, metric, params.random_state, execution, parts), "partitioned"
        if weighs:
            points, attributes = _points_unless_slower(search, parts), {"weighed": True}
    elif weighs:
        planned = execution.concurrently(partial(ExactOption, X, k, metric, execution))
        check_rows(X, k, metric)
        option = planned()
        points, method = option.points_within(EXACT_SLOWDOWN), approximate
    else:
        check_rows(X, k, metric)
        if method != "descent":
            points = plan_exact(X, k, metric, execution)[0]
    if points is not None:
        method = "exact"
    height = (list_rows(X, k, metric, execution.memory_budget) if method == "partitioned" else
              exact_block_rows(X, k, metric, execution.memory_budget))
    _allocate_lists(parts, n, k, height)
    tries = method == "descent" and option is not None and option.takes_at_most(FALLBACK_SLOWDOWN)
    if method == "partitioned":
        search = search or Search.of(X, k, metric, params.random_state, execution, parts)
        attributes = find_partitioned(search, params.recall, parts)
    elif method == "descent":
        attributes, points = _descend_or_plan(X, params, height, option if tries else None, execution, parts)
    if points is not None:
        execution.map(nearest_tasks(points, n, k, height), parts)
        method, attributes = "exact", {**attributes, "search": points.search, "recall": EXACT_RECALL}
    if tries:
        parts.within(TRIAL).remove()
    elif "weighed" in attributes and search is not None:
        search.steps.parts.remove()
    return Neighbors.stored(parts, {**asdict(params), "n": n, "block_rows": height, "method": method, **attributes})


def _points_unless_slower(search: Search, parts: Parts) -> SearchedPoints | None:
    """Return the points of an exact search, None where a partitioned search is the faster one by its sample."""
    of = search.X, search.k, search.metric, search.execution
    planned: list[SearchedPoints] = []

    def is_slower() -> bool:
        points = ExactOption(*of, search.sample()).points_within(EXACT_SLOWDOWN)
        planned.extend([] if points is None else [points])
        return points is None

    if is_partitioned(parts) or search.weighed(is_slower):
        return None
    # An earlier run may have taken the decision.
    return planned[0] if planned else ExactOption(*of, search.sample()).points_within(np.inf)


def _allocate_lists(parts: Parts, n: int, k: int, height: int) -> None:
    for name, dtype in LISTS.items():
        parts.allocate(name, (n, k), dtype, height)


def _descend_or_plan(X: Rows, params: NeighborParams, height: int, option: ExactOption | None, execution: Execution,
                     parts: Parts) -> tuple[JsonObject, SearchedPoints | None]:
    """Write the lists of NN-descent and return what it says of them; or return points whose exact search has to follow.

    Of data on which NN-descent has to be repeated an exact search is often the faster one. So where there is that
    option, one search writes its lists to `TRIAL` within the parts, and they are copied if they reach the recall.
    """
    k, metric, n = params.n_neighbors, params.distance, len(X)
    sampled = sampled_ids(n, SAMPLE, params.random_state)
    nearest = true_neighbors(X, sampled, np.full((len(sampled), k), -1), metric, execution)
    truth = execution.share(ids=sampled, kth=nearest["distances"][:, -1:])
    search = DescentTask(X, k, metric, params.random_state, execution.threads_alone, height, truth, params.recall)
    if option is not None:
        trial = parts.within(TRIAL)
        _allocate_lists(trial, n, k, height)
        receipt, = execution.map([replace(search, repeats=False)], trial)
        if receipt["recall"]["lower"] >= params.recall:
            for start, stop in row_ranges(n, height):
                parts.write_range(start, {name: trial.rows(name).read(start, stop) for name in LISTS})
            return search.described(receipt), None
        points = option.points_within(FALLBACK_SLOWDOWN)
        if points is not None:
            return {"missed_recall": receipt["recall"]}, points
    receipt, = execution.map([search], parts)
    recall = receipt["recall"]["recall"]
    if recall < params.recall:
        warnings.warn(explain(
            f"NN-descent found {recall:.1%} of the neighbors of sampled rows, and recall={params.recall} is required",
            why="with many independent columns, or for outliers, neighbors of neighbors are not near",
            fix="scale the features or use fewer (principal components), set method to exact, or ask for a lower "
                "recall"), UserWarning, stacklevel=4)
    return search.described(receipt), None
