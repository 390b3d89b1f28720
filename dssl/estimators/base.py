"""What the estimators share: the steps of a fit, points of any input, predictions, scores of labeled points."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ..base.digest import require_random_state
from ..base.errors import DataError, explain, require
from ..data.inputs import labels_of
from ..data.scaling.rows import scaled
from ..data.scaling.scaling import Scaling
from ..execution.tasks import Execution, on_one_thread
from ..graph.graph import Graph
from ..graph.knn_graph import graph_of
from ..learners.class_prior import ClassWeight
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Classes, Quantities, Target
from ..storage.blocks import Rows
from ..storage.views import SelectedRows
from .points import PointPredictor
from .targets import classes_of, prior_of, quantities_of, require_classes, require_per_class, require_unequal, weighed


class PointEstimator(PointPredictor):
    """An estimator whose fitted function of points is a `Model`, `model_`."""

    evidence_: dict[str, Any]
    unlabeled: Any
    random_state: int

    @on_one_thread
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, graph: Any = None) -> Self:
        """Fit on all points, labeled and unlabeled; return self.

        Parameters
        ----------
        X : array-like, shape (n, d)
            All points, or any other input that `dssl.data.inputs.rows_of` reads.
        y : array-like, shape (n,) or (n, c), or None
            The labels, with the marker of points that have none; of a regressor the
            targets, of which a row with a NaN is unlabeled. None takes the target of a
            Dataset X.
        sample_weight : array-like, shape (n,), or None
            What the loss of each labeled point counts, finite and >= 0; with 0 the point
            counts as unlabeled. None is 1 each. Weights of unlabeled points are not read:
            they have no loss, and every point counts alike in the graph.
        graph : Graph, sparse matrix, Neighbors or pair of arrays, or None
            A graph in place of the one made of X: a `Graph`, which serves any number of
            fits; weights (n, n); or neighbor lists, `Neighbors` or (ids, distances), both
            (n, k).

        Returns
        -------
        estimator
            The estimator itself.

        Raises
        ------
        ParameterError
            A parameter is out of range.
        DataError
            y is of another length, has no label, or of a classifier fewer than two
            classes, or is a quantity.
        NotConverged
            A solve ended above its tolerance.
        BudgetError
            What has to be held does not fit the memory budget.
        ValueError
            X is not finite.
        """
        require_random_state(self.random_state)
        execution, params = self._execution(), self._params()
        for name in self.groups:
            self.group(name)  # raises where a field is out of range
        y = self._labels(X, y)
        rows = self._points(X, execution, reset=True)
        target, weight = weighed(self._target(y, len(rows)), sample_weight, len(rows))
        self._check(target)
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
        """Return the scaling of the training points, and the evidence for it."""
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

    @abstractmethod
    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: Any,
               execution: Execution) -> None:
        """Set `model_` and `evidence_`, and what else the estimator keeps of a fit."""

    @property
    def transduction_(self) -> np.ndarray:
        """What is predicted for the points of the fit.

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
        """Return the labels of n points, which may lack a class or the marker that `fit` determined."""
        marker = self.unlabeled
        if marker is None:
            marker = np.nan if self.classes_.dtype.kind in "iuf" and -1 in self.classes_ else -1
        return classes_of(y, marker, n, occurs=False)

    def _check(self, target: Any) -> None:
        require_classes(target.names, self.regressor)
        require_per_class(target, 1, "no labeled point of weight > 0", "mark its points unlabeled, or raise a weight")
        target.with_prior(target.prior)  # raises where shares are of other classes
        target.label_weights(ClassWeight.of(self.class_weight))  # and where weights are
        self.classes_ = target.names

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of right predictions among labeled points.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.
        y : array-like, shape (n,), or None
            Their labels, as in `fit`; unlabeled points do not count.
        sample_weight : array-like, shape (n,), or None
            What each point counts; None is 1 each.

        Returns
        -------
        float
            The accuracy, from 0 to 1.

        Raises
        ------
        DataError
            No point has a label.
        """
        target, predicted, weight = self._compared(X, y, sample_weight)
        return float(np.average(predicted == target.names[target.coded], weights=weight))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the classes.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.

        Returns
        -------
        ndarray, shape (n, n_classes) or (n,)
            One score a class, in the order of `classes_`; for two classes one score,
            which is > 0 for the second.
        """
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
        """Return the coefficient of determination over labeled points.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.
        y : array-like, shape (n,) or (n, c), or None
            Their targets, as in `fit`; unlabeled points do not count.
        sample_weight : array-like, shape (n,), or None
            What each point counts; None is 1 each.

        Returns
        -------
        float
            R^2, of several targets their mean.

        Raises
        ------
        DataError
            No point has a target.
        """
        target, predicted, weight = self._compared(X, y, sample_weight)
        return float(r2_score(target.coded, predicted.reshape(target.coded.shape), sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
