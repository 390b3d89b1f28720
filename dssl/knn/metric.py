"""The metrics of the neighbor search by their names in `METRICS`, and the checks of rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ..base.errors import DataError, ParameterError, require
from ..base.plugins import Registry
from ..storage.blocks import Rows
from ..storage.csr import largest_of_rows
from .binary_metrics import BINARY_METRICS
from .embedded_metrics import Correlation, CosineDistance, Euclidean, Hellinger, Metric, Spearman, measured_dtype
from .pair_metrics import PAIR_METRICS, PairMetric, of_function
from .squared_distances import candidate_distances

CHECK_BYTES = 64 << 20
METRICS = Registry[Metric]("metric", Euclidean, CosineDistance, Correlation, Spearman, Hellinger, *PAIR_METRICS,
                           *BINARY_METRICS)
# Names of pynndescent's for metrics that have another one here, and its metrics that are refused: why, and what helps.
SYNONYMS = {"l2": "euclidean", "l1": "manhattan", "taxicab": "manhattan", "cityblock": "manhattan",
            "linf": "chebyshev", "linfty": "chebyshev", "linfinity": "chebyshev", "spearman": "spearmanr",
            "jensen-shannon": "jensen_shannon", "jensenshannon": "jensen_shannon", "symmetric-kl": "symmetric_kl",
            "symmetric_kullback_liebler": "symmetric_kl", "wasserstein-1d": "wasserstein_1d",
            "kantorovich-1d": "wasserstein_1d", "kantorovich_1d": "wasserstein_1d",
            "circular_wasserstein": "circular_kantorovich"}
_SIMILAR = ("it is no distance: rows with the largest products need not be near each other", 'use metric="cosine"')
_WITH_PARAMETERS = ("the metric has parameters, which a name does not give",
                    "pass metric= a Numba function of two rows that holds them")
REFUSED = {**dict.fromkeys(("dot", "inner_product", "direct_cosine"), _SIMILAR),
           "true_angular": ("pynndescent's formula is largest for equal rows", 'use metric="cosine", whose order of '
                            "neighbors is that of the angle"),
           **dict.fromkeys(("minkowski", "wminkowski", "weighted_minkowski", "kantorovich", "wasserstein", "sinkhorn"),
                           _WITH_PARAMETERS),
           **dict.fromkeys(("seuclidean", "standardised_euclidean"),
                           ("it is the Euclidean distance between standardized columns",
                            'use metric="euclidean" and scale="standardize"')),
           "tsss": ("pynndescent's formula gives no number for parallel rows", 'use metric="euclidean" or "cosine"'),
           "mahalanobis": ("it is the Euclidean distance between whitened columns",
                           'whiten the columns (sklearn.decomposition.PCA(whiten=True)), and use metric="euclidean"'),
           **dict.fromkeys(("bit_hamming", "bit_jaccard"),
                           ("features are numbers, not packed bits", "unpack the bits, and use hamming or jaccard"))}


def metric_of(metric: str | Callable[..., float]) -> type[Metric]:
    """Return the metric of a name, or of a Numba function of two rows."""
    return of_function(metric) if callable(metric) else METRICS.named(metric)


def pair_metric_of(metric: str) -> type[PairMetric] | None:
    """Return the metric if it is a formula of two rows; None for a distance between transformed rows."""
    rule = metric_of(metric)
    return rule if issubclass(rule, PairMetric) else None


def require_metric(metric: Any) -> None:
    """Raise ParameterError unless a metric is a name that the search knows, or a Numba function."""
    if callable(metric):
        of_function(metric)
        return
    synonym = SYNONYMS.get(metric) if isinstance(metric, str) else None
    require(synonym is None, f"metric={metric!r}", why=f"it is named {synonym!r} here", fix=f"use {synonym!r}")
    why, fix = REFUSED.get(metric, ("", "")) if isinstance(metric, str) else ("", "")
    require(not why, f"metric={metric!r}", why=why, fix=fix)
    METRICS.named(metric, "metric", "transform the features so that their Euclidean distance is the one you mean, or "
                  "pass a Numba function")


def measurable(rows: Any, metric: str) -> Any:
    """Return rows (n, d), dense or sparse, whose distances by `measured_by(metric)` are those of a metric."""
    rule = metric_of(metric)
    return rule.embedded_sparse(rows) if sparse.issparse(rows) else rule.embedded(rows)


def measured_by(metric: str) -> str:
    """Return the metric of measurable rows: a formula of pairs itself, or else the Euclidean distance."""
    return metric if metric_of(metric).by_pairs else Euclidean.name


def candidate_squares(X: Any, Z: Any, candidates: np.ndarray, metric: str) -> np.ndarray:
    """Return the squared distances of the candidates j (n, c) of each row i of measurable rows; infinite where j is -1.
    """
    rule = pair_metric_of(metric)
    return candidate_distances(X, Z, candidates) if rule is None else rule.of_candidates(X, Z, candidates) ** 2


def sample_ids(n_rows: int, max_rows: int) -> np.ndarray:
    """Return up to `max_rows` row numbers, evenly spread."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, max_rows)).astype(np.int64))


def measured_itemsize(dtype: np.dtype, metric: str) -> int:
    """Return the bytes of one value of `measurable` rows."""
    return 8 if metric_of(metric).transforms else np.dtype(measured_dtype(dtype)).itemsize


def stored_distances(squared: np.ndarray) -> np.ndarray:
    """Return the roots of squared distances (q, k) float64 as float32, the form of the lists.

    Raises
    ------
    DataError : a distance overflows float32, or most of them would round to zero, as between duplicates.
    """
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
    require(n_neighbors < n, f"n_neighbors={n_neighbors} with {n} points",
            why=f"a point is not its own neighbor, so each has {n - 1} others to choose from",
            fix=f"choose n_neighbors <= {n - 1}", error=ParameterError)


def check_block(block: Any, first: int, metric: str) -> float:
    """Return the largest of the absolute values of a block of rows from number `first` on, 0 where they are integers.

    Raises
    ------
    DataError : NaN or infinite, too large to square, or zero under the cosine metric.
    """
    largest_of_all = 0.0
    if block.dtype.kind == "f":
        # A maximum is NaN or infinite if any value is, and takes no copy of the block.
        largest = (largest_of_rows(block) if sparse.issparse(block) else
                   np.maximum(block.max(axis=1), -block.min(axis=1)))
        bad = first + np.flatnonzero(~np.isfinite(largest))
        require(len(bad) == 0, f"{len(bad)} rows from row {first} on hold NaN or infinite values, first {bad[:5]}",
                why="they have no distances, and one such row would spoil all neighbor lists", error=DataError,
                fix="drop these rows, or fill the values before searching")
        require(float(largest.max()) < 1e150, f"row {first + int(largest.argmax())} holds values of 1e150 or more",
                why="their squares overflow float64", fix="scale the features", error=DataError)
        largest_of_all = float(largest.max())
    rule = metric_of(metric)
    undefined_rows = first + np.flatnonzero(rule.undefined(block))
    require(len(undefined_rows) == 0,
            f"{len(undefined_rows)} rows from row {first} on are {rule.undefined_are}, first {undefined_rows[:5]}",
            why=rule.undefined_why, error=DataError, fix=rule.undefined_fix)
    return largest_of_all


def require_squares(largest: float, dtype: np.dtype) -> None:
    """Raise DataError where the largest of all values is so small that its square is zero, but not zero."""
    require(largest == 0 or largest > 1e-150 or dtype.kind != "f", error=DataError,
            what=f"no value is larger than {largest:.3g}", why="their squares are zero in float64",
            fix="scale the features")


def check_kind(X: Rows, metric: str) -> None:
    """Raise DataError unless a metric takes rows of the kind of X, dense or sparse, and of its number of columns."""
    rule, d = metric_of(metric), X.shape[1]
    require(not X.is_sparse or rule.takes_sparse, f"metric={rule.name!r} of sparse rows", error=DataError,
            why="this metric is defined for dense rows only", fix="use another metric, or dense features")
    require(rule.n_columns in (0, d), f"metric={rule.name!r} of {d} columns", error=DataError,
            why=f"this metric is defined for {rule.n_columns} columns", fix="pass these columns alone, or use another "
            "metric")


def require_unscaled(metric: str, scale: str) -> None:
    """Raise ParameterError where features are scaled whose values a metric takes as they are, such as angles."""
    rule = metric_of(metric)
    require(rule.takes_scaled or scale == "none", f"metric={rule.name!r} and scale={scale!r}",
            why="scaled values are no longer what the metric measures", fix="set scale to none")


def check_rows(X: Rows, n_neighbors: int, metric: str) -> None:
    """Raise unless each row (n, d) has `n_neighbors` others and finite distances; reads X once.

    Raises
    ------
    ParameterError : n_neighbors >= n.
    DataError : not two-dimensional, not numbers, NaN or infinite, too large to square, or zero under the cosine metric.
    """
    check_shape(X, n_neighbors)
    if X.dtype.kind != "f" and not metric_of(metric).has_domain:
        return
    height = max(1, CHECK_BYTES // (X.row_bytes if X.is_sparse else X.shape[1] * 8))
    require_squares(max((check_block(block, first, metric) for first, block in X.blocks(height)), default=0.0), X.dtype)
