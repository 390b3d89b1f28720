"""What the estimators share: labels and points of any input, blocks of predictions, and the graph's parameters."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ..data.inputs import header_of, labels_of, rows_of
from ..errors import DataError, require
from ..execution.on_dask import current_execution
from ..execution.tasks import Execution
from ..graph.graph import Graph, KNNGraph, graph_of
from ..learners.encoding import encode_labels
from ..learners.kernel_model import KernelModel
from ..learners.predict_to import predict_to_zarr
from ..learners.target import Classes, Quantities
from ..storage.blocks import Rows


class KernelEstimator(BaseEstimator):
    """An estimator whose fitted function is a `KernelModel`, `model_`."""

    model_: KernelModel
    classes_: np.ndarray  # of classifiers
    unlabeled: Any

    def _labels(self, X: Any, y: Any) -> Any:
        """Return y in this process, or the target of X where X is a Dataset and y is None."""
        y = X if y is None and getattr(X, "y", None) is not None and hasattr(X, "targets") else y
        require(y is not None, f"{type(self).__name__} requires y to be passed, but the target y is None",
                why="it learns from the points that have a label", fix="pass y with the marker of unlabeled points",
                error=DataError)
        return labels_of(y)

    def _points(self, X: Any, execution: Execution, *, reset: bool) -> Rows:
        """Return the points as rows that every task can read, after checking them; sets or compares the columns."""
        header = header_of(X)
        if header is not None:  # names are compared before anything is computed
            validate_data(self, header, reset=reset, skip_check_array=True)
        rows = rows_of(X, execution, type(self).__name__)
        if header is None:
            validate_data(self, np.empty((0, *rows.shape[1:])), reset=reset, skip_check_array=True)
        return execution.share_rows(rows)

    def _values(self, X: Any) -> np.ndarray:
        execution = current_execution()  # what it shares is gone when it is, so it outlives the rows
        rows = self._new_rows(X, execution)
        return self.model_.values(rows, execution)

    def _new_rows(self, X: Any, execution: Execution) -> Rows:
        check_is_fitted(self, "model_")
        return self._points(X, execution, reset=False)

    def _graph(self, rows: Rows, given: Any, execution: Execution) -> Graph:
        """Return the graph of the points: the one that is given, or what the estimator's parameters make."""
        own: Any = self
        params = KNNGraph(n_neighbors=own.n_neighbors, method=own.method, metric=own.metric, seed=own.seed,
                          weights=own.weights, symmetrize=own.symmetrize, duplicates=own.duplicates)
        return graph_of(rows, params, execution, given)

    def _classified(self, X: Any, y: Any, sample_weight: Any, execution: Execution,
                    regressor: str) -> tuple[Rows, Classes, np.ndarray | None]:
        """Return the points, their labels and the weights (l,) of these; sets `classes_`. See `codes_of`."""
        y = self._labels(X, y)
        rows = self._points(X, execution, reset=True)
        codes, self.classes_ = codes_of(y, self.unlabeled, len(rows), regressor)
        labeled, weight = weighed(np.flatnonzero(codes >= 0), sample_weight, len(rows))
        target = Classes(labeled, codes[labeled], self.classes_)
        require_labeled(target, 1, "no labeled point of weight > 0", "mark its points unlabeled, or raise a weight")
        return rows, target, weight

    def _measured(self, X: Any, y: Any, sample_weight: Any,
                  execution: Execution) -> tuple[Rows, Quantities, np.ndarray | None]:
        """Return the points, their targets and the weights (l,) of these. See `targets_of`."""
        y = self._labels(X, y)
        rows = self._points(X, execution, reset=True)
        targets, labeled = targets_of(y, self.unlabeled, len(rows))
        labeled, weight = weighed(labeled, sample_weight, len(rows))
        return rows, Quantities(labeled, targets[labeled]), weight

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted labels, shape (n,), or of a regressor the targets, shape (n,) or (n, c)."""
        values = self._values(X)
        return self.model_.labels(values)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def support(self, X: Any) -> np.ndarray:
        """Return how near each point is to those of the model, shape (n,): its largest kernel value with one of them,
        relative to the largest of these with themselves. Below 1e-10 a prediction says nothing about the point.
        """
        execution = current_execution()
        rows = self._new_rows(X, execution)
        return self.model_.support(rows, execution)

    def predict_to(self, X: Any, out: str | Path) -> dict[str, Any]:
        """Write what `predict(X)` returns to a new Zarr array at `out`, in blocks, where the tasks run.

        Returns what the predictions are; see `predict_to_zarr`, which tells how classes are written. For X that does
        not fit in memory: Rows, a Dataset, a Zarr array, a dask array.
        """
        execution = current_execution()
        return predict_to_zarr(self.model_, self._new_rows(X, execution), out, execution)


class KernelRegressor(RegressorMixin, KernelEstimator):
    """An estimator of one or several targets."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def codes_of(y: Any, unlabeled: Any, n: int, regressor: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the code of each label (n,), -1 for unlabeled points, and the classes.

    Raises
    ------
    DataError : y is of another length, has fewer than two classes, or is a quantity; `regressor` is named as the way
        out.
    """
    column = getattr(y, "shape", ())[1:] == (1,)
    codes, classes = encode_labels(column_or_1d(y, warn=True) if column else y, unlabeled)
    require(len(codes) == n, f"y has {len(codes)} labels for {n} points", error=DataError,
            why="each point has a label or the marker of none", fix="pass one entry a point")
    whole = classes.dtype.kind != "f" or bool((classes == np.round(classes)).all())
    require(whole, f"Unknown label type: continuous, such as {classes[:3].tolist()}", error=DataError,
            why="fractions are quantities, not classes", fix=f"use {regressor}, or make the labels integers")
    require(len(classes) >= 2, f"y has {len(classes)} class(es)", error=DataError,
            why="a classifier tells at least two classes apart", fix="label points of another class")
    return codes, classes


def require_labeled(target: Classes, least: int, what: str, fix: str) -> None:
    """Raise DataError if a class has fewer than `least` labeled points."""
    lacking = target.names[np.bincount(target.coded, minlength=len(target.names)) < least].tolist()
    require(not lacking, f"class {', '.join(map(repr, lacking))} has {what}", error=DataError,
            why="a learner does not know a class that it has not seen", fix=fix)


def targets_of(y: Any, unlabeled: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return y as float64 (n, c) and its labeled rows, those without NaN.

    Raises
    ------
    DataError : y is of another length, holds infinite values or no number, or integers with an unnamed -1.
    """
    nullable = pd.api.types.is_extension_array_dtype(getattr(y, "dtype", None))
    given = y.to_numpy(np.float64, na_value=np.nan) if nullable else np.asarray(y)
    require(given.dtype.kind in "biufO", f"y holds values of type {given.dtype}, expected real numbers",
            error=DataError, why="a target is a quantity",
            fix="convert y to floats, with NaN where a target is unknown")
    whole = pd.api.types.is_integer_dtype(y.dtype) if nullable else given.dtype.kind in "iu"
    marked = whole and bool((given == -1).any())
    require(unlabeled is not None or not marked, "y holds integers, and -1 is among them", error=DataError,
            why="NaN marks unknown targets here, so -1 would be fitted as a value",
            fix="pass unlabeled=-1 if it marks unknown targets, or y as floats if it is a value")
    targets = given.astype(np.float64)
    if unlabeled is not None:
        targets[targets == float(unlabeled)] = np.nan
    require(not np.isinf(targets).any(), f"y has {int(np.isinf(targets).sum())} infinite targets", error=DataError,
            why="no function with a finite norm takes them", fix="mark them unknown with NaN, or drop these rows")
    require(len(targets) == n and targets.ndim in (1, 2), error=DataError,
            what=f"y has shape {targets.shape} for {n} points", why="each point has a target or NaN",
            fix="pass one row a point")
    targets = targets.reshape(n, -1)
    labeled = np.flatnonzero(~np.isnan(targets).any(axis=1))
    require(len(labeled) >= 1, "no target is a number", error=DataError,
            why="there is nothing to fit", fix="give at least one point a target")
    return targets, labeled


def require_unequal(rows: Rows) -> None:
    """Raise DataError if all rows are the same point."""
    n = len(rows)
    require(n == 1 or not _all_equal(rows), f"all {n} points are equal", error=DataError,
            why="nothing tells them apart, and a graph of them has no shape",
            fix="check that the features were read correctly")


def weighed(labeled: np.ndarray, sample_weight: Any, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the labeled points whose weight is not 0, and their weights (l,); None where no weights are given.

    Raises
    ------
    DataError : not one weight a point, or one of a labeled point that is negative or not finite; the message names it.
    """
    if sample_weight is None:
        return labeled, None
    weight = np.asarray(labels_of(sample_weight), np.float64)
    require(weight.shape == (n,), f"sample_weight has shape {weight.shape} for {n} points", error=DataError,
            why="each point has one weight, and those of unlabeled points are not read", fix="pass one number a point")
    of_labeled = weight[labeled]
    require(bool((of_labeled != 0).any()) or not len(labeled), "the weight of every labeled point is zero",
            why="such points count as unlabeled, so there is nothing to fit", fix="raise a weight", error=DataError)
    wrong = labeled[~((of_labeled >= 0) & (of_labeled < np.inf))]
    require(len(wrong) == 0, f"{len(wrong)} weights of labeled points are not finite numbers >= 0, first "
            f"{weight[wrong[:1]].tolist()} of point {wrong[:1].tolist()}", error=DataError,
            why="a negative weight rewards errors", fix="pass weights >= 0; 0 leaves the label out")
    return labeled[of_labeled > 0], of_labeled[of_labeled > 0]


def _all_equal(rows: Rows) -> bool:
    """Return whether all rows are the same point; reads on only while they are."""
    lowest = highest = None
    for _, block in rows.blocks(1024):
        low, high = (np.asarray(found.todense() if hasattr(found, "todense") else found)
                     for found in (block.min(axis=0), block.max(axis=0)))
        lowest = low if lowest is None else np.minimum(lowest, low)
        highest = high if highest is None else np.maximum(highest, high)
        if not np.array_equal(lowest, highest):
            return False
    return True
