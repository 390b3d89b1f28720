"""What the estimators share: the steps of a fit, points of any input, predictions, scores of labeled points."""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from ..base.digest import JsonObject, require_random_state
from ..base.errors import DataError, explain, require
from ..base.types import MatrixLike
from ..data.inputs import labels_of
from ..data.scaling.scaling import Scaling, scaled
from ..execution.tasks import Execution
from ..execution.threads import on_one_thread
from ..graph.graph import Graph
from ..graph.knn_graph import graph_of
from ..learners.target.target import Classes, Quantities, Target
from ..selection.duplicates import labeled_duplicates, repeated_in_words, rows_hashed
from ..storage.blocks import Rows
from ..storage.views import SelectedRows
from .arguments import GraphLike, LabelsLike, Learnable, NumbersLike, PointsLike
from .points import PointPredictor
from .targets import quantities_of, require_unequal, weighed

MAX_SEARCHED = 5000  # labeled points that are searched for duplicates


class PointEstimator(PointPredictor):
    """An estimator whose fitted function of points is a `Model`, `model_`."""

    evidence_: JsonObject
    unlabeled: object
    random_state: int

    @on_one_thread
    def fit(self, X: PointsLike, y: LabelsLike | None = None, sample_weight: NumbersLike | None = None,
            graph: GraphLike | None = None) -> Self:
        """Fit on all points, labeled and unlabeled; return self.

        Parameters
        ----------
        X : array-like, shape (n, d)
            All points, or any other input that `dssl.data.inputs.rows_of` reads.
        y : array-like, shape (n,) or (n, c), or None
            The labels, with the marker of points that have none; of several labels a
            point a column each, 1 where the point has it, 0 where not, and -1 or NaN
            where that is unknown; of a regressor the targets, of which a row with a NaN
            is unlabeled. None takes the target of a
            Dataset X.
        sample_weight : array-like, shape (n,), or None
            What the loss of each labeled point counts, finite and >= 0, relative to the
            mean of these weights; with 0 the point counts as unlabeled. None is 1 each.
            Weights of unlabeled points are not read: they have no loss, and every point
            counts alike in the graph.
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
        y = self._labels_of_fit(X, y)
        rows = self._points(X, execution, reset=True)
        target, weight = weighed(self._target(y, len(rows)), sample_weight, len(rows))
        self._check(target)
        if isinstance(target, Classes):
            target.require_room(len(rows))
        require_unequal(rows)
        self.scaling_, tried = self._chosen_scaling(X, rows, target, graph, execution)
        self._fit_X: PointsLike = X
        self._transduction: np.ndarray | None = None
        self._learn_from(scaled(rows, self.scaling_, execution), target, weight, graph, params, execution)
        self.evidence_ |= {"scale": {**self.scaling_.to_arrays()[1], **tried}, "n_labeled": len(target.labeled),
                           "n_unlabeled": len(rows) - len(target.labeled)}
        self._note_duplicates(rows, target, execution.memory_budget)
        return self

    def _note_duplicates(self, rows: Rows, target: Learnable, budget: int) -> None:
        """Add to the evidence how many labeled points equal another one, unless labels are many or tags."""
        height = rows_hashed(rows.row_bytes, budget)
        if isinstance(target, Target) and 0 < len(target.labeled) <= MAX_SEARCHED and height:
            counts, _ = labeled_duplicates(rows, target, height)
            self.evidence_["duplicates"] = counts
            if (repeated := repeated_in_words(counts)) and "in_words" in self.evidence_:
                self.evidence_["in_words"] += f"; {repeated}"

    def _chosen_scaling(self, X: PointsLike, rows: Rows, target: Learnable, graph: GraphLike | None,
                        execution: Execution) -> tuple[Scaling, JsonObject]:
        """Return the scaling of the training points, and the evidence for it."""
        return self._scaling_of(X, rows, execution, graph), {}

    @abstractmethod
    def _params(self) -> Any:
        """Return the parameters of what learns; raise ParameterError where one is out of range."""

    @abstractmethod
    def _target(self, y: MatrixLike | None, n: int) -> Learnable:
        """Return what n points say that is to be learned: a `Target`, or of a classifier `Tags`."""

    def _known(self, y: MatrixLike | None, n: int) -> Learnable:
        """Return what n points say that predictions are compared with."""
        return self._target(y, n)

    def _check(self, target: Learnable) -> None:
        """Raise DataError where the target cannot be learned."""

    @abstractmethod
    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: GraphLike | None, params: Any,
               execution: Execution) -> None:
        """Set `model_` and `evidence_`, and what else the estimator keeps of a fit."""

    def _learn_from(self, rows: Rows, target: Learnable, weight: np.ndarray | None, graph: GraphLike | None,
                    params: Any, execution: Execution) -> None:
        """Do the same with whatever `_target` returns."""
        assert isinstance(target, Target)
        self._learn(rows, target, weight, graph, params, execution)

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

    def _transduced(self, X: PointsLike) -> np.ndarray:
        """Return what is predicted for the points X of the fit."""
        return self.predict(X)

    def _complete(self, report: bool) -> None:
        if hasattr(self, "_fit_X"):
            _ = self.transduction_

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in super().__getstate__().items() if name != "_fit_X"}

    def _graph(self, rows: Rows, given: GraphLike | None, execution: Execution) -> Graph:
        """Return the graph of the points: the one that is given, or what the estimator's parameters make."""
        return graph_of(rows, self.group("graph"), execution, given)

    def _labels_of_fit(self, X: PointsLike, y: LabelsLike | None) -> MatrixLike | None:
        """Return what a fit takes: the same, or None where no label is needed."""
        return self._labels(X, y)

    def _labels(self, X: PointsLike, y: LabelsLike | None) -> MatrixLike:
        """Return y in this process, or the target of X where X is a Dataset and y is None."""
        labels = X if y is None and getattr(X, "y", None) is not None and hasattr(X, "targets") else y
        require(labels is not None, f"{type(self).__name__} requires y to be passed, but the target y is None",
                why="it learns from the points that have a label", fix="pass y with the marker of unlabeled points",
                error=DataError)
        assert labels is not None
        of_points: MatrixLike = labels_of(labels)
        return of_points

    def _compared(self, X: PointsLike, y: LabelsLike | None,
                  sample_weight: NumbersLike | None) -> tuple[Learnable, np.ndarray, np.ndarray | None]:
        """Return the labels (l,) of some points, what is predicted for those that have one, and their weights."""
        execution = self._execution()
        rows, y = self._new_rows(X, execution), self._labels(X, y)
        target, weight = weighed(self._known(y, len(rows)), sample_weight, len(rows))
        require(len(target.labeled) > 0, "y has no label", why="predictions are compared at labeled points alone",
                fix="pass labels of some points", error=DataError)
        return target, self._predicted(SelectedRows(rows, target.labeled), execution), weight


class PointRegressor(RegressorMixin, PointEstimator):
    """An estimator of one or several targets."""

    def _target(self, y: MatrixLike | None, n: int) -> Quantities:
        return quantities_of(y, self.unlabeled, n, warns=True)

    def _known(self, y: MatrixLike | None, n: int) -> Quantities:
        return quantities_of(y, self.unlabeled, n)

    def score(self, X: PointsLike, y: LabelsLike | None = None, sample_weight: NumbersLike | None = None) -> float:
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
            No point has a target; or of a learner on the graph one has no prediction.
        """
        target, predicted, weight = self._compared(X, y, sample_weight)
        return float(r2_score(target.coded, predicted.reshape(target.coded.shape), sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
