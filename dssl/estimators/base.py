"""What the estimators share: the steps of a fit, points of any input, predictions, scores of labeled points."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from ..base.digest import require_random_state
from ..base.errors import DataError, explain, require
from ..data.dataset import Dataset
from ..data.findings import warn_identifiers
from ..data.frames import as_pandas, index_labels
from ..data.inputs import header_of, in_order, labels_of, rows_of
from ..data.scaling.out_of_range import warn_beyond
from ..data.scaling.outliers import warn_far_rows
from ..data.scaling.rows import scaled
from ..data.scaling.scaling import Scaling, ScalingParams, fit_scaling
from ..data.scaling.units import warn_unlike
from ..execution.current import current_execution
from ..execution.in_process import InProcess
from ..execution.size import size_of
from ..execution.tasks import Execution
from ..graph.graph import Graph, graph_of
from ..kernels.base import Kernel, kernel_from
from ..knn.lists import Neighbors
from ..learners.class_prior import ClassWeight
from ..learners.model import Model
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Classes, Quantities, Target
from ..storage.blocks import ArrayRows, Rows
from ..storage.views import SelectedRows
from .groups import GroupedParams
from .predict_to import predict_to_zarr
from .targets import classes_of, prior_of, quantities_of, require_classes, require_per_class, require_unequal, weighed


class PointReader(GroupedParams):
    """What reads points of any input, scales their features, and has a model of them, `model_`.

    scale : of the features, `ScalingParams.kind`, the one that pipelines know as `data.scale`. scaling_ : Scaling, what
    the points of the fit made of it, applied to all that are predicted.
    """

    model_: Model
    memory_budget: int | str | None
    scale: Any
    scaling_: Scaling
    predicts_by_lists: ClassVar[bool] = False  # whether distances of new points are compared with those of the graph

    def _execution(self) -> Execution:
        """Return what runs the tasks, with the memory that one may take; raise ParameterError where that is no size."""
        return current_execution(None if self.memory_budget is None else size_of(self.memory_budget))

    @property
    def _column_names(self) -> list[str]:
        """The names of the columns of the fit; none where they had no names."""
        return [str(name) for name in getattr(self, "feature_names_in_", [])]

    def _points(self, X: Any, execution: Execution, *, reset: bool, warns: bool = False) -> Rows:
        """Return the points as rows that every task can read, after checking them; sets or compares the columns.

        Columns of new points are put in the order of the fit by their names.

        warns : of values beyond the range of the fit, of an array in this process.
        """
        X = as_pandas(X)
        if not reset:
            X = in_order(X, getattr(self, "feature_names_in_", ()))
        header = header_of(X)
        if header is not None:  # names are compared before anything is computed
            validate_data(self, header, reset=reset, skip_check_array=True)
        rows = rows_of(X, execution, type(self).__name__)
        if header is None:
            validate_data(self, np.empty((0, *rows.shape[1:])), reset=reset, skip_check_array=True)
        if warns and isinstance(rows, ArrayRows) and self.scaling_.seen is not None:  # others would be read twice
            warn_beyond(self.scaling_.seen, rows, InProcess(memory_budget=execution.memory_budget),
                        self._column_names or None)
        return execution.share_rows(rows)

    def _scaling_of(self, X: Any, rows: Rows, execution: Execution, graph: Any = None) -> Scaling:
        """Return the scaling of all points of a fit: that of the features of which a graph was made, or of their own.

        graph : what `fit` is given. Lists of neighbors that were found elsewhere are of the features as they are, which
        then stay so where new points are compared with them.

        Raises ParameterError: no scaling of that name, or the graph was made of features of another one.
        """
        params = ScalingParams(kind=self.scale)
        given = graph.scaling if isinstance(graph, Graph) else None
        if given is not None:
            require(params.kind in ("auto", given.kind), f"scale={params.kind!r}, and a graph of features scaled by "
                    f"{given.kind!r}", why="new points would be compared with the graph's in other units",
                    fix=f"leave scale out, or build the graph with scale={params.kind!r}")
            return given
        names = self._column_names
        warn_unlike(rows, None, params.kind, names)
        self._warn_of_identifiers(rows)
        lists = graph.neighbors is not None if isinstance(graph, Graph) else isinstance(graph, (Neighbors, tuple, list))
        if lists and self.predicts_by_lists and params.kind == "auto":
            params = ScalingParams(kind="none")
        scaling = fit_scaling(rows, None, params, execution, feature_names=names or None,
                              categories=X.categories if isinstance(X, Dataset) else None)
        warn_far_rows(scaling.attributes.get("outliers"), names or None, partial(index_labels, X))
        return scaling

    def _warn_of_identifiers(self, rows: Rows) -> None:
        """Warn of columns that look like identifiers, of an array whose columns have names."""
        if self._column_names and isinstance(rows, ArrayRows):
            warn_identifiers(rows.array, self._column_names)

    def _new_rows(self, X: Any, execution: Execution, *, warns: bool = True) -> Rows:
        """Return points as the model sees them."""
        check_is_fitted(self, "model_")
        return scaled(self._points(X, execution, reset=False, warns=warns), self.scaling_, execution)

    def _values(self, X: Any) -> np.ndarray:
        execution = self._execution()  # what it shares is gone when it is, so it outlives the rows
        rows = self._new_rows(X, execution)  # raises where there is no model yet
        return self.model_.values(rows, execution)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class KernelReader(PointReader):
    """What has a base kernel, given by its name and bandwidth, or as it is."""

    kernel: Any
    bandwidth: Any
    random_state: int

    def _kernel(self, rows: Rows) -> Kernel:
        """Return the base kernel."""
        return kernel_from(self.kernel, self.bandwidth if isinstance(self.kernel, str) else None, rows=rows,
                           random_state=self.random_state)


class PointPredictor(PointReader):
    """What predicts points by its model."""

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted labels or clusters, shape (n,), or of a regressor the targets, (n,) or (n, c)."""
        execution = self._execution()  # what it shares is gone when it is, so it outlives the rows
        return self._predicted(self._new_rows(X, execution), execution)

    def _predicted(self, rows: Rows, execution: Execution) -> np.ndarray:
        """Return what is predicted for rows of this estimator's columns; no label where the model abstains."""
        values, beyond = self.model_.values_and_beyond(rows, execution)
        labels = self.model_.coding.labels(values)
        return self.model_.coding.without(labels, beyond) if self.model_.abstains else labels

    def predict_to(self, X: Any, out: str | Path) -> dict[str, Any]:
        """Write what `predict(X)` returns to a new Zarr array at `out`, in blocks, where the tasks run.

        Returns what the predictions are; see `predict_to_zarr`, which tells how classes are written. For X that does
        not fit in memory: Rows, a Dataset, a Zarr array, a dask array.
        """
        execution = self._execution()
        rows = self._new_rows(X, execution)
        return predict_to_zarr(self.model_, rows, out, execution)

    def support(self, X: Any) -> np.ndarray:
        """Return how near each point is to what the model has seen, shape (n,), from 1 down to 0.

        In which measure, `block_support` of `KernelModel` and of `GraphModel` say.
        """
        execution = self._execution()
        rows = self._new_rows(X, execution, warns=False)
        return self.model_.support(rows, execution)


class PointEstimator(PointPredictor):
    """An estimator whose fitted function of points is a `Model`, `model_`."""

    evidence_: dict[str, Any]
    unlabeled: Any
    random_state: int

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, graph: Any = None) -> Self:
        """Fit on all points, labeled and unlabeled; return self.

        Parameters
        ----------
        X : array-like, shape (n, d), or any input that `dssl.data.inputs.rows_of` reads.
        y : array-like, shape (n,), or of a regressor (n, c), of which a row with a NaN is unlabeled; None takes the
            target of a Dataset X.
        sample_weight : array-like, shape (n,), or None for 1. The loss of a labeled point counts its weight, finite and
            >= 0; with 0 the point counts as unlabeled. Weights of unlabeled points are not read: they have no loss, and
            every point counts alike in the graph.
        graph : in place of the one made of X: a `Graph`, which serves any number of fits, or what `Graph.of` takes, a
            sparse matrix (n, n) of weights, or `Neighbors`, or (ids, distances), both (n, k).

        Raises
        ------
        ParameterError : a parameter is out of range. DataError : y is of another length, has no label, or of a
            classifier fewer than two classes, or is a quantity. NotConverged : a solve ended above its tolerance.
            BudgetError : what has to be held does not fit. ValueError : X is not finite (an array: from scikit-learn).
        """
        require_random_state(self.random_state)
        execution, params = self._execution(), self._params()
        for name in self.groups:
            self.group(name)  # raises where a field is out of range
        y = self._labels(X, y)
        rows = self._points(X, execution, reset=True)
        target, weight = weighed(self._target(y, len(rows)), sample_weight, len(rows))
        self._check(target)
        weight = self._weighted(target, weight)
        require_unequal(rows)
        self.scaling_, tried = self._chosen_scaling(X, rows, target, graph, execution)
        self._fit_X: Any = X
        self._transduction: np.ndarray | None = None
        self._learn(scaled(rows, self.scaling_, execution), target, weight, graph, params, execution)
        self.evidence_ |= {"scale": {**self.scaling_.to_arrays()[1], **tried}, "n_labeled": len(target.labeled),
                           "n_unlabeled": len(rows) - len(target.labeled)}
        return self

    def _chosen_scaling(self, X: Any, rows: Rows, target: Target, graph: Any,
                        execution: Execution) -> tuple[Scaling, dict[str, Any]]:
        """Return the scaling of the points of a fit, and what it was chosen by, JSON."""
        return self._scaling_of(X, rows, execution, graph), {}

    @abstractmethod
    def _params(self) -> Any:
        """Return the parameters of what learns; raise ParameterError where one is out of range."""

    @abstractmethod
    def _target(self, y: Any, n: int) -> Target:
        """Return what n points say that is to be learned."""

    def _known(self, y: Any, n: int) -> Target:
        """Return what n points say that predictions are compared with."""
        return self._target(y, n)

    def _check(self, target: Target) -> None:
        """Raise DataError where the target cannot be learned."""

    def _weighted(self, target: Any, weight: np.ndarray | None) -> np.ndarray | None:
        """Return the weights (l,) of the labels, with those of their classes."""
        return weight

    @abstractmethod
    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: Any,
               execution: Execution) -> None:
        """Set `model_` and `evidence_`, and what else the estimator keeps of a fit."""

    @property
    def transduction_(self) -> np.ndarray:
        """What is predicted for the points of the fit, shape (n,), or of a regressor (n,) or (n, c).

        It is computed when it is first asked for, of the X that was passed to `fit`, which must not have changed; see
        `docs/estimators.md` for what it takes. A pickle holds it only if it has been asked for.
        """
        check_is_fitted(self, "model_")
        if self._transduction is None:
            if not hasattr(self, "_fit_X"):
                raise NotFittedError(explain(
                    "transduction_ was not asked for before the estimator was stored",
                    why="the points of the fit are not stored with it", fix="call predict(X)"))
            self._transduction = self._transduced(self._fit_X)
            del self._fit_X
        return self._transduction

    def _transduced(self, X: Any) -> np.ndarray:
        """Return what is predicted for the points X of the fit."""
        return self.predict(X)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_fit_X"}

    def _graph(self, rows: Rows, given: Any, execution: Execution) -> Graph:
        """Return the graph of the points: the one that is given, or what the estimator's parameters make."""
        return graph_of(rows, self.group("graph"), execution, given)

    def _labels(self, X: Any, y: Any) -> Any:
        """Return y in this process, or the target of X where X is a Dataset and y is None."""
        y = X if y is None and getattr(X, "y", None) is not None and hasattr(X, "targets") else y
        require(y is not None, f"{type(self).__name__} requires y to be passed, but the target y is None",
                why="it learns from the points that have a label", fix="pass y with the marker of unlabeled points",
                error=DataError)
        return labels_of(y)

    def _compared(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Return the labels (l,) of some points, what is predicted for those that have one, and their weights."""
        execution = self._execution()
        rows, y = self._new_rows(X, execution), self._labels(X, y)
        target, weight = weighed(self._known(y, len(rows)), sample_weight, len(rows))
        require(len(target.labeled) > 0, "y has no label", why="predictions are compared at labeled points alone",
                fix="pass labels of some points", error=DataError)
        return target, self._predicted(SelectedRows(rows, target.labeled), execution), weight


class SearchedEstimator(PointEstimator):
    """An estimator of which a search tries many parameters at a time."""

    joint: ClassVar[tuple[str, ...]] = ()  # the parameters of which `held_out_rows` tries many at a time
    several: ClassVar[tuple[str, ...]] = ()  # those of which a candidate may have several values

    @property
    @abstractmethod
    def versions(self) -> dict[str, int]:
        """The versions of the code of each step of `held_out_rows`."""

    @abstractmethod
    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None,
                      repetitions: Sequence[Sequence[np.ndarray]], tried: Sequence[dict[str, Any]],
                      scoring: str | None, execution: Execution, kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """Return the row of a search (`held_out_scores`) of each of some values of the `joint` parameters.

        Rows tell the penalties too, as numbers, of which a `ChoiceRule` knows which are the stronger.
        repetitions : the folds of each. scoring : what rows tell beside the scores that all have.
        kept : `graph`, where it is needed, and what searches of other parameters on this graph leave for this one;
            `again`, whether the same will be asked for again, with fewer values and more folds.
        """

    def uses_graph(self, tried: Iterable[dict[str, Any]]) -> bool:
        """Return whether any of some values of the `joint` parameters asks for a graph."""
        return True


class PointClassifier(ClassifierMixin, PointEstimator):
    """An estimator of classes: any number of them, numbers or text."""

    classes_: np.ndarray
    class_prior: Any
    class_weight: Any
    regressor: ClassVar[str]  # the estimator that does the same for quantities

    def _target(self, y: Any, n: int) -> Classes:
        prior = prior_of(self.class_prior, getattr(self, "class_sizes", None))
        return replace(classes_of(y, self.unlabeled, n), prior=prior)

    def _known(self, y: Any, n: int) -> Classes:
        """Return the labels of n points; they may lack a class, or the marker, whose meaning fit has told."""
        marker = self.unlabeled
        if marker is None:
            marker = np.nan if self.classes_.dtype.kind in "iuf" and -1 in self.classes_ else -1
        return classes_of(y, marker, n, occurs=False)

    def _check(self, target: Any) -> None:
        require_classes(target.names, self.regressor)
        require_per_class(target, 1, "no labeled point of weight > 0", "mark its points unlabeled, or raise a weight")
        target.with_prior(target.prior)  # raises where shares are of other classes
        self.classes_ = target.names

    def _weighted(self, target: Any, weight: np.ndarray | None) -> np.ndarray | None:
        return ClassWeight.of(self.class_weight).weights(target.coded, target.names, weight)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of right predictions among the labeled points of X (n, d); unlabeled ones do not count.

        X, y and sample_weight as in `fit`. Raises DataError where no point has a label.
        """
        target, predicted, weight = self._compared(X, y, sample_weight)
        return float(np.average(predicted == target.names[target.coded], weights=weight))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return one score a class, shape (n, n_classes), or for two classes one score, shape (n,)."""
        return self._coding.decision(self._values(X))

    @property
    def _coding(self) -> ClassCoding:
        check_is_fitted(self, "model_")
        assert isinstance(self.model_.coding, ClassCoding)
        return self.model_.coding


class PointRegressor(RegressorMixin, PointEstimator):
    """An estimator of one or several targets."""

    def _target(self, y: Any, n: int) -> Quantities:
        return quantities_of(y, self.unlabeled, n)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 over the labeled points of X (n, d), the mean of several targets'; unlabeled ones do not count.

        X, y and sample_weight as in `fit`. Raises DataError where no point has a target.
        """
        target, predicted, weight = self._compared(X, y, sample_weight)
        return float(r2_score(target.coded, predicted.reshape(target.coded.shape), sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
