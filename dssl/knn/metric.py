"""The metrics of the neighbor search by their names in `METRICS`, and the checks of rows."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
from scipy import sparse

from ..base.digest import canonical_json, is_real
from ..base.errors import DataError, ParameterError, require
from ..base.plugins import Registry
from ..base.types import Matrix
from ..storage.blocks import Rows
from ..storage.csr import largest_of_rows
from .domain_metrics import BINARY_METRICS, DISTRIBUTION_METRICS
from .embedded_metrics import (
    Correlation,
    CosineDistance,
    Euclidean,
    Hellinger,
    Mahalanobis,
    Metric,
    Spearman,
    SquareValues,
    StandardizedEuclidean,
    Values,
    measured_dtype,
)
from .pair_metrics import PAIR_METRICS, PairMetric, of_function
from .squared_distances import candidate_distances

CHECK_BYTES = 16 << 20
TINY, HUGE = 1e-150, 1e150  # values whose squares are no normal numbers
METRICS = Registry[Metric]("metric", Euclidean, CosineDistance, Correlation, Spearman, Hellinger, StandardizedEuclidean,
                           Mahalanobis, *PAIR_METRICS, *DISTRIBUTION_METRICS, *BINARY_METRICS)
# A metric with its parameters: a name where it has none, a Numba function of two rows, or an instance.
AnyMetric = str | Callable[..., float] | Metric
MetricValue = float | Values | SquareValues  # of a parameter
# Names of pynndescent's for metrics that have another one here, and its metrics that are refused: why, and what helps.
SYNONYMS = {"l2": "euclidean", "l1": "manhattan", "taxicab": "manhattan", "cityblock": "manhattan",
            "linf": "chebyshev", "linfty": "chebyshev", "linfinity": "chebyshev", "spearman": "spearmanr",
            "wminkowski": "minkowski", "weighted_minkowski": "minkowski", "standardised_euclidean": "seuclidean",
            "jensen-shannon": "jensen_shannon", "jensenshannon": "jensen_shannon", "symmetric-kl": "symmetric_kl",
            "symmetric_kullback_liebler": "symmetric_kl", "wasserstein-1d": "wasserstein_1d",
            "kantorovich-1d": "wasserstein_1d", "kantorovich_1d": "wasserstein_1d", "wasserstein": "kantorovich",
            "circular_wasserstein": "circular_kantorovich"}
_SIMILAR = ("it is no distance: rows with the largest products need not be near each other", 'use metric="cosine"')
REFUSED = {**dict.fromkeys(("dot", "inner_product", "direct_cosine"), _SIMILAR),
           "true_angular": ("pynndescent's formula is largest for equal rows", 'use metric="cosine", whose order of '
                            "neighbors is that of the angle"),
           "sinkhorn": ("pynndescent's formula fails for rows with a zero, and a row is not at distance 0 from itself",
                        'use metric="kantorovich", the exact distance of the same costs'),
           "tsss": ("pynndescent's formula gives no number for parallel rows", 'use metric="euclidean" or "cosine"'),
           **dict.fromkeys(("bit_hamming", "bit_jaccard"),
                           ("features are numbers, not packed bits", "unpack the bits, and use hamming or jaccard"))}


class MetricParams(dict[str, MetricValue]):
    """The parameters of a metric by their names: numbers, and arrays as tuples, so that they have a hash."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(canonical_json(self))

    @classmethod
    def of(cls, given: object) -> "MetricParams | None":
        """Return what is given for `metric_params`; None where that is None or empty."""
        if given is None or isinstance(given, cls):
            return given or None
        require(isinstance(given, Mapping) and all(isinstance(name, str) for name in given),
                f"metric_params={given!r}", why="a metric's parameters have names", fix='use {"p": 3}')
        assert isinstance(given, Mapping)
        return cls({name: _value_of(name, value) for name, value in given.items() if value is not None}) or None


def _value_of(name: str, value: object) -> MetricValue:
    """Return a number as a float, so that equal parameters have one digest, and an array as tuples of floats."""
    if is_real(value) and np.isfinite(value):
        return float(value)
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    require(array.ndim > 0 and array.size > 0 and not isinstance(value, str) and bool(np.isfinite(array).all()),
            f"metric_params.{name}={value!r}", why="a parameter is a finite number, or an array of these",
            fix="pass a number, a list of numbers, or a list of rows of a matrix")
    return tuple(map(tuple, array.tolist())) if array.ndim > 1 else tuple(array.tolist())


def metric_of(metric: AnyMetric) -> Metric:
    """Return the metric of a name, of a Numba function of two rows, or of itself."""
    if isinstance(metric, Metric):
        return metric
    return of_function(metric) if callable(metric) else METRICS.named(metric)()


def pair_metric_of(metric: AnyMetric) -> PairMetric | None:
    """Return the metric if it is a formula of two rows; None for a distance between transformed rows."""
    rule = metric_of(metric)
    return rule if isinstance(rule, PairMetric) else None


def metric_with(metric: str | Callable[..., float], metric_params: MetricParams | None) -> AnyMetric:
    """Return a metric with its parameters: the name or the function itself where it has none."""
    given: Mapping[str, Any] = metric_params or {}
    if callable(metric):
        of_function(metric)
        require(not given, "metric_params of a function", why="a function holds its parameters itself",
                fix="leave metric_params out, and make the function with them")
        return metric
    synonym = SYNONYMS.get(metric) if isinstance(metric, str) else None
    require(synonym is None, f"metric={metric!r}", why=f"it is named {synonym!r} here", fix=f"use {synonym!r}")
    why, fix = REFUSED.get(metric, ("", "")) if isinstance(metric, str) else ("", "")
    require(not why, f"metric={metric!r}", why=why, fix=fix)
    rule = METRICS.named(metric, "metric", "transform the features so that their Euclidean distance is the one you "
                         "mean, or pass a Numba function")
    known = {item.name: item.default is MISSING for item in fields(rule)}
    listed = f"the parameters of {metric} are {', '.join(known)}" if known else f"{metric} has no parameters"
    unknown, missing = [name for name in given if name not in known], [
        name for name, is_needed in known.items() if is_needed and name not in given]
    require(not unknown, f"metric_params.{', '.join(unknown)} of metric={metric!r}", why=listed,
            fix="leave it out" if not known else f"use {', '.join(known)}")
    require(not missing, f"metric={metric!r} without {', '.join(missing)}", why=listed,
            fix=f"set metric_params: {{{missing[0] if missing else ''}: ...}}")
    return rule(**given) if known else str(metric)


def described_metric(metric: AnyMetric) -> dict[str, Any]:
    """Return the `metric` and, where it has some, `metric_params` that `metric_with` takes; JSON but for a function."""
    if not isinstance(metric, Metric):
        return {"metric": metric}
    values = {item.name: getattr(metric, item.name) for item in fields(metric)}
    return {"metric": metric.name, "metric_params": {name: each for name, each in values.items() if each is not None}}


def stored_metric(attributes: Mapping[str, Any]) -> AnyMetric:
    """Return the metric of stored neighbor lists or of an index by their attributes."""
    return metric_with(attributes.get("metric", Euclidean.name), MetricParams.of(attributes.get("metric_params")))


def measurable(rows: Matrix, metric: AnyMetric) -> Matrix:
    """Return rows (n, d), dense or sparse, whose distances by `measured_by(metric)` are those of a metric."""
    rule = metric_of(metric)
    return rule.embedded_sparse(rows) if sparse.issparse(rows) else rule.embedded(rows)


def measured_by(metric: AnyMetric) -> AnyMetric:
    """Return the metric of measurable rows: a formula of pairs itself, or else the Euclidean distance."""
    return metric if metric_of(metric).by_pairs else Euclidean.name


def candidate_squares(X: Matrix, Z: Matrix, candidates: np.ndarray, metric: AnyMetric) -> np.ndarray:
    """Return the squared distances of the candidates j (n, c) of each row i of measurable rows; infinite where j is -1.
    """
    rule = pair_metric_of(metric)
    return candidate_distances(X, Z, candidates) if rule is None else rule.of_candidates(X, Z, candidates) ** 2


def sample_ids(n_rows: int, max_rows: int) -> np.ndarray:
    """Return up to `max_rows` row numbers, evenly spread."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, max_rows)).astype(np.int64))


def measured_itemsize(dtype: np.dtype, metric: AnyMetric) -> int:
    """Return the bytes of one value of `measurable` rows."""
    return 8 if metric_of(metric).transforms else np.dtype(measured_dtype(dtype)).itemsize


def stored_distances(squared: np.ndarray) -> np.ndarray:
    """Return the roots of squared distances (q, k) float64 as float32, the form of the lists."""
    distances = np.sqrt(squared)
    with np.errstate(over="ignore", under="ignore"):
        stored = distances.astype(np.float32)
    largest = float(distances.max(initial=0))
    require(bool(np.isfinite(stored).all()), f"neighbors are {largest:.3g} apart", error=DataError,
            why="distances are stored in float32, whose largest number is 3.4e38", fix="scale the features")
    vanished = int(((stored == 0) & (distances > 0)).sum())
    require(2 * vanished <= stored.size, f"{vanished} of {stored.size} distances are below 1e-45, the largest "
            f"{largest:.3g}", error=DataError, why="they are zero in float32, as if these points were duplicates",
            fix="scale the features")
    return stored


def check_shape(X: Rows, n_neighbors: int) -> None:
    """Raise unless X is an array of points, of which each has `n_neighbors` others; see `check_rows`."""
    require(len(X.shape) == 2, f"X has shape {X.shape}, expected (n_points, n_features)", error=DataError,
            why="points are rows of a two-dimensional array",
            fix="use X.reshape(-1, 1) for one feature, or X.reshape(len(X), -1) to flatten images")
    n, d = X.shape
    require(d >= 1, f"X has shape {X.shape}, expected at least one column", error=DataError,
            why="points without features are all equal", fix="pass the features")
    require(X.dtype.kind in "biuf", f"X has dtype {X.dtype}, expected real numbers", error=DataError,
            why="a distance is a number", fix="code categories as numbers, or pass X.astype(float)")
    require(n >= 2, f"X has {n} {'point' if n == 1 else 'points'}", error=DataError,
            why="a point is not its own neighbor, so a search needs two points", fix="pass two points or more")
    require(n_neighbors < n, f"n_neighbors={n_neighbors} with {n} points",
            why=f"a point is not its own neighbor, so each has {n - 1} others to choose from",
            fix=f"choose n_neighbors <= {n - 1}", error=ParameterError)


def check_block(block: Matrix, first: int, metric: AnyMetric) -> float:
    """Return the largest of the absolute values of a block of rows from number `first` on, 0 where they are integers.
    """
    largest_of_all = 0.0
    if block.dtype.kind == "f":
        # A maximum is NaN or infinite if any value is, and takes no copy of the block.
        largest = (largest_of_rows(block) if sparse.issparse(block) else
                   np.maximum(block.max(axis=1), -block.min(axis=1)))
        bad = first + np.flatnonzero(~np.isfinite(largest))
        require(len(bad) == 0, f"rows that hold NaN or infinite values: {_first_few(bad)}",
                why="they have no distances, and one such row would spoil all neighbor lists", error=DataError,
                fix="drop these rows, or fill the values before searching")
        require(float(largest.max()) < HUGE, f"row {first + int(largest.argmax())} holds values of 1e150 or more",
                why="their squares overflow float64", fix="scale the features", error=DataError)
        largest_of_all = float(largest.max())
    rule = metric_of(metric)
    undefined_rows = first + np.flatnonzero(rule.undefined(block))
    require(len(undefined_rows) == 0,
            f"rows that are {rule.undefined_are}: {_first_few(undefined_rows)}",
            why=rule.undefined_why, error=DataError, fix=rule.undefined_fix)
    return largest_of_all


def _first_few(rows: np.ndarray) -> str:
    more = f" and {len(rows) - 5:,} more" if len(rows) > 5 else ""
    return ", ".join(map(str, rows[:5].tolist())) + more


def require_squares(largest: float, dtype: np.dtype) -> None:
    """Raise DataError where the largest of all values is so small that its square is zero, but not zero."""
    require(largest == 0 or largest > TINY or dtype.kind != "f", error=DataError,
            what=f"no value is larger than {largest:.3g}", why="their squares are zero in float64",
            fix="scale the features")


def check_kind(X: Rows, metric: AnyMetric) -> None:
    """Raise DataError unless a metric takes rows of the kind of X, dense or sparse, and of its number of columns."""
    rule, d = metric_of(metric), X.shape[1]
    require(not X.is_sparse or rule.takes_sparse, f"metric={rule.name!r} of sparse rows", error=DataError,
            why="this metric is defined for dense rows only", fix="use another metric, or dense features")
    require(rule.n_columns in (0, d), f"metric={rule.name!r} of {d} columns", error=DataError,
            why=f"this metric is defined for {rule.n_columns} columns", fix="pass these columns alone, or use another "
            "metric")


def check_rows(X: Rows, n_neighbors: int, metric: AnyMetric) -> None:
    """Raise unless each row (n, d) has `n_neighbors` others and finite distances; reads X once."""
    check_shape(X, n_neighbors)
    if X.dtype.kind != "f" and not metric_of(metric).has_domain:
        return
    height = max(1, CHECK_BYTES // (X.row_bytes if X.is_sparse else X.shape[1] * 8))
    require_squares(max((check_block(block, first, metric) for first, block in X.blocks(height)), default=0.0), X.dtype)
