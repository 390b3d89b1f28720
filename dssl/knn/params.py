"""Parameters of a neighbor search."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from ..base.digest import require_random_state
from ..base.errors import require
from .metric import METRICS, AnyMetric, Euclidean, MetricParams, metric_of, metric_with

MetricName = Annotated[str, METRICS]
MetricValues = dict[str, float | tuple[float, ...] | tuple[tuple[float, ...], ...]]
METHODS = ("auto", "exact", "descent", "partitioned")


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
        lists if it certifies less.
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
