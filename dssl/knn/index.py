"""An index of points that new points query for their exact nearest neighbors.

Dense points are searched by a tree or by tiles, sparse points by an inverted index, and both pair by pair where the
metric is a formula of two rows, as in `exact/blocks.py`. The layout is stored with a model, so opening a model computes
nothing.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from ..base.errors import BudgetError, DataError, require
from ..base.types import Matrix, is_sparse
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..storage.blocks import ArrayRows, Arrays, HeldArrays, Rows
from ..storage.csr import as_rows, point_arrays, points_of
from .exact.blocks import DensePoints, SearchedPoints, plan_exact
from .exact.inverted_index import SparsePoints, measured_row_bytes, point_rows
from .exact.layout import MAX_AXES, SAMPLE_ROWS, Layout, layout_bytes
from .exact.pairs import PairPoints, pair_points, pair_row_bytes
from .metric import (
    AnyMetric,
    check_kind,
    described_metric,
    measurable,
    measured_itemsize,
    metric_of,
    stored_metric,
)

TREE_QUERIES = 16  # neighbors of the pilot queries that select the search
SPARSE_BUDGET = 1 << 28  # bytes of points without a layout that are searched at a time


@dataclass(frozen=True, eq=False)
class NeighborIndex:
    """An index of points (m, d).

    searched : the points with their search.
    n_features : d.
    """

    searched: SearchedPoints
    n_features: int

    @classmethod
    def of(cls, rows: Rows, metric: AnyMetric, execution: Execution) -> "NeighborIndex":
        """Return the index of finite rows (m, d), dense or sparse.

        Raises BudgetError if twice the layout of all rows does not fit the memory budget.
        """
        check_kind(rows, metric)
        if metric_of(metric).by_pairs:
            require_index(rows, metric, execution.memory_budget)
            return cls._by_pairs(measurable(rows.read_all(), metric), metric)
        if rows.is_sparse:
            held = as_rows(rows.read_all())
            return cls(SparsePoints(held, metric, point_rows(held, metric, SPARSE_BUDGET)), rows.shape[1])
        require_index(rows, metric, execution.memory_budget)
        held = as_rows(rows.read_all())  # stored rows are read once, not for a sample, pilot queries and the layout
        # The layout stays in memory: no task shares it.
        searched, _ = plan_exact(held, min(TREE_QUERIES, len(held)), metric,
                                 InProcess(1, memory_budget=execution.memory_budget))
        assert isinstance(searched, DensePoints)
        assert isinstance(searched.held, Arrays)
        return cls._dense(searched.held.load(), metric, searched.search)

    @classmethod
    def _by_pairs(cls, points: Matrix, metric: AnyMetric) -> "NeighborIndex":
        return cls(pair_points(as_rows(points), metric, SPARSE_BUDGET), points.shape[1])

    @classmethod
    def _dense(cls, arrays: dict[str, np.ndarray], metric: AnyMetric, search: str) -> "NeighborIndex":
        rows = ArrayRows(arrays["rows"])
        return cls(DensePoints(rows, metric, len(rows), HeldArrays(**arrays), search), rows.shape[1])

    def __len__(self) -> int:
        return len(self.searched.rows)

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the metric and the search; JSON, unless the metric is a function, which no file holds."""
        return {**described_metric(self.searched.metric), "search": self.searched.search}

    def nearest(self, X: Matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances (q, k) float64 and ids (q, k) of the points nearest to rows X (q, d), ascending.

        Raises DataError if a row of X is not finite, or zero under the cosine metric.
        """
        if self.searched.rows.is_sparse:
            X = csr_array(X)
        elif is_sparse(X):
            X = X.toarray()
        values = X.data if issparse(X) else X
        require(bool(np.isfinite(values).all()), "new points hold NaN or infinite values", error=DataError,
                why="they have no distances", fix="drop these rows, or fill the values")
        metric = metric_of(self.searched.metric)
        wrong = np.flatnonzero(metric.undefined(X) if X.shape[0] else ())
        require(len(wrong) == 0, f"{len(wrong)} new points are {metric.undefined_are}, first {wrong[:5]}",
                error=DataError,
                why=metric.undefined_why, fix=metric.undefined_fix)
        squared, ids = self.searched.nearest(X, np.full(X.shape[0], -1), min(k, len(self)))
        return np.sqrt(np.maximum(squared, 0)), ids

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the named arrays that `from_arrays` takes, beside the attributes."""
        if not isinstance(self.searched, DensePoints):
            return point_arrays("index", self.searched.rows.read_all())
        assert isinstance(self.searched.held, Arrays)
        return {f"index.{name}": np.asarray(array) for name, array in self.searched.held.load().items()}

    def equals(self, other: "NeighborIndex") -> bool:
        """Return whether both are of the same points, and answer alike."""
        arrays, others = self.to_arrays(), other.to_arrays()
        return self.attributes == other.attributes and arrays.keys() == others.keys() and all(
            array is others[name] or np.array_equal(array, others[name]) for name, array in arrays.items())

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "NeighborIndex":
        """Return the index that `to_arrays` and `attributes` described."""
        metric = stored_metric(attributes)
        if attributes["search"] == PairPoints.search:
            return cls._by_pairs(points_of(arrays, "index"), metric)
        if "index.shape" in arrays:
            rows = as_rows(points_of(arrays, "index"))
            return cls(SparsePoints(rows, metric, point_rows(rows, metric, SPARSE_BUDGET)), rows.shape[1])
        layout = {field.name: arrays[f"index.{field.name}"] for field in fields(Layout)}
        return cls._dense(layout, metric, attributes["search"])

    def query_bytes(self, rows: Rows, k: int) -> int:
        """Return the bytes of a query of k neighbors; see `exact_block_rows`."""
        if isinstance(self.searched, PairPoints):
            return pair_row_bytes(rows, self.searched.metric) + 40 * k
        return measured_row_bytes(rows, self.searched.metric) + 40 * k if rows.is_sparse else (
            40 * self.n_features + 16 * k)


def require_index(points: Rows, metric: AnyMetric, budget: int) -> None:
    """Raise BudgetError unless twice the layout of dense points fits the memory budget (bytes)."""
    needed = 0 if points.is_sparse else 2 * index_bytes(points, metric)
    require(needed <= budget, f"an index of {len(points):,} points", error=BudgetError,
            why=f"its layout takes {needed:,} bytes, the budget is {budget:,}",
            fix=f"raise memory_budget to {needed:,} bytes, or use a model on landmarks such as LapRLS")


def index_bytes(points: Rows, metric: AnyMetric) -> int:
    """Return an upper bound of the bytes of an index of points with the shape and type of `points`."""
    if points.is_sparse:
        return len(points) * points.row_bytes
    if metric_of(metric).by_pairs:
        return len(points) * points.shape[1] * measured_itemsize(points.dtype, metric)
    return layout_bytes(len(points), points.shape[1], measured_itemsize(points.dtype, metric))


def indexing_bytes(points: Rows, metric: AnyMetric) -> int:
    """Return the peak bytes of making an index: the points beside a sample in float64, or beside their layout."""
    if points.is_sparse or metric_of(metric).by_pairs:
        return 2 * index_bytes(points, metric)
    n, d = points.shape
    sample = min(n, SAMPLE_ROWS) * d * (points.dtype.itemsize + 16 + 8 * metric_of(metric).transforms) + 24 * d * d
    laid_out = n * d * measured_itemsize(points.dtype, metric) + index_bytes(points, metric)
    return max(n * d * points.dtype.itemsize + sample, laid_out + 12 * n * (min(d, MAX_AXES) + 3))
