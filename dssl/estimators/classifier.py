"""What classifiers share: labels, tags and scores; and probabilities, calibrated on held-out scores of labeled points.

Of tags (several labels a point), y (n, c), each has a fit of its own, on one graph.
"""

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base.digest import JsonObject
from ..base.errors import DataError, DsslError, ParameterError, explain, require
from ..base.types import MatrixLike
from ..execution.tasks import Execution
from ..learners.class_prior import ClassWeight
from ..learners.model import Model
from ..learners.on_graph.graph_ridge import LastKernelRows
from ..learners.probabilities import Calibration, TagCalibration
from ..learners.tags import TagModel, Tags, is_indicator, with_shared_index
from ..learners.target.coding import ClassCoding, TagCoding
from ..learners.target.target import Classes
from ..methods.step import Method
from ..methods.tags import calibration_of_tags
from ..storage.blocks import Rows
from .arguments import GraphLike, LabelsLike, Learnable, NumbersLike, PointsLike, PriorLike, WeightLike
from .base import PointEstimator
from .targets import classes_of, prior_of, require_classes, require_per_class, tags_of

# What the fits of all tags share.
OF_ALL = ("scaling_", "n_features_in_", "feature_names_in_", "_fit_columns", "_fit_X")


class PointClassifier(ClassifierMixin, PointEstimator):
    """An estimator of classes: any number of them, numbers or text; or of tags (several labels a point).

    estimators_ : of tags, the fitted estimator of each; None of a tag that is not learned, see `Tags.not_learned`.
    """

    classes_: np.ndarray
    class_prior: PriorLike
    class_weight: WeightLike
    regressor: ClassVar[str]  # the estimator that does the same for quantities
    method: ClassVar[Method]
    calibration_: Calibration | TagCalibration | None
    estimators_: list[Self | None]  # None of tags that are not learned

    def _target(self, y: MatrixLike | None, n: int) -> Classes | Tags:
        if not is_indicator(y):
            return self._decided(classes_of(y, self.unlabeled, n))
        return tags_of(y, self.unlabeled, n)

    def _decided(self, target: Classes) -> Classes:
        """Return labels with what parameters say of the frequencies of their classes."""
        return replace(target, prior=prior_of(self.class_prior, getattr(self, "class_sizes", None)))

    def _known(self, y: MatrixLike | None, n: int) -> Classes | Tags:
        """Return the labels of n points, which may lack a class or the marker that `fit` determined."""
        if isinstance(getattr(self, "model_", None), TagModel):
            shape = () if y is None else np.shape(y)
            require(is_indicator(y) and shape[1] == len(self.classes_), error=DataError,
                    what=f"y has shape {shape}, and the fit was of {len(self.classes_)} tags",
                    why="each tag is compared with its column", fix="pass a column for each tag, in their order")
            tags = self._target(y, n)
            require(not hasattr(y, "columns") or tags.names.tolist() == self.classes_.tolist(), error=DataError,
                    what=f"y has the columns {tags.names.tolist()[:5]}, and the fit {self.classes_.tolist()[:5]}",
                    why="each tag is compared with its column", fix="pass y[model.classes_]")
            return tags
        marker = self.unlabeled
        if marker is None:
            marker = np.nan if self.classes_.dtype.kind in "iuf" and -1 in self.classes_ else -1
        return classes_of(y, marker, n, occurs=False)

    def _check(self, target: Learnable) -> None:
        if isinstance(target, Tags):
            self._check_tags(target)
        else:
            assert isinstance(target, Classes)
            require_classes(target.names, self.regressor)
            require_per_class(target, 1, "no labeled point of weight > 0",
                              "mark its points unlabeled, or raise a weight")
            target.with_prior(target.prior)  # raises where shares are of other classes
            target.label_weights(ClassWeight.of(self.class_weight))  # and where weights are
        self.classes_ = target.names

    def _check_tags(self, target: Tags) -> None:
        """Raise DataError where a tag cannot be learned, and ParameterError where a parameter is of one column."""
        for name in ("class_prior", "class_sizes"):
            value = getattr(self, name, None)
            require(value is None or isinstance(value, str), f"{name}={value!r}, and y has {len(target.names)} columns",
                    error=ParameterError, why="it names the classes of one column, and each tag has two of its own",
                    fix="leave it out, or fit one estimator a column with graph=KNNGraph().build(X)")
        target.require_learnable()

    def _learn_from(self, rows: Rows, target: Learnable, weight: np.ndarray | None, graph: GraphLike | None,
                    params: Any, execution: Execution) -> None:
        """Learn; of tags by an estimator of each, on the same rows and, where there is one, graph."""
        if not isinstance(target, Tags):
            self.__dict__.pop("estimators_", None)  # of an earlier fit
            super()._learn_from(rows, target, weight, graph, params, execution)
            return
        if self.method.has_graph and self.method.uses_graph(params):
            graph = self._graph(rows, graph, execution)
        self.estimators_, last = [None] * len(target.names), LastKernelRows()
        warned = dict[tuple[type[Warning], str], list[str]]()
        weights = None if weight is None else np.zeros(len(rows))
        if weights is not None:
            weights[target.labeled] = weight
        for line in target.not_learned():
            warnings.warn(explain(line, why="a tag is learned from points with it and points without it",
                                  fix="label such points, or leave the tag out of y"), UserWarning, stacklevel=4)
        models = list[Model]()
        for column in target.learnable.tolist():
            with warnings.catch_warnings(record=True) as raised:
                warnings.simplefilter("always")
                try:
                    tag = self._of_tag(column)
                    tag._last = last
                    tag._learn_tag(rows, target.of_tag(column), weights, graph, params, execution)
                    del tag._last
                    tag.model_ = with_shared_index(tag.model_, models)
                    models.append(tag.model_)
                    self.estimators_[column] = tag
                except DsslError as error:
                    error.add_note(f"This is of the tag {target.names[column].item()!r}.")
                    raise
            for warning in raised:
                warned.setdefault((warning.category, str(warning.message)), []).append(
                    str(target.names[column]))
        self.model_ = TagModel.of(models, target)
        self.calibration_ = calibration_of_tags(target, [tag.calibration_ for tag in self._learned])
        if all(tag._transduction is not None for tag in self._learned):
            self._transduction = self._of_all([tag._transduction for tag in self._learned])
        self.evidence_ = self._evidence_of_tags(target)
        for (category, message), names in warned.items():
            if not self._of_all_tags(category):
                some = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
                warnings.warn(f"{some}: {message}", category, stacklevel=3)

    @property
    def _learned(self) -> list[Any]:
        """Return the estimators of the tags that are learned."""
        return [tag for tag in self.estimators_ if tag is not None]

    def _of_all(self, predicted: list[np.ndarray]) -> np.ndarray:
        """Return the predictions (n, c) of all tags, from those of each that is learned."""
        assert isinstance(self.model_, TagModel)
        labels = np.tile(self.model_.coding.labels(self.model_.constants), (len(predicted[0]), 1))
        for column, of_tag in zip(self.model_.learned, predicted, strict=True):
            labels[:, column] = of_tag
        return labels

    def _of_tag(self, column: int) -> Self:
        """Return the estimator of one tag, which is not fitted yet."""
        tag = clone(self).set_params(unlabeled=None)
        for name in OF_ALL:
            if hasattr(self, name):
                setattr(tag, name, getattr(self, name))
        return tag

    def _learn_tag(self, rows: Rows, target: Classes, weights: np.ndarray | None, graph: GraphLike | None,
                   params: Any, execution: Execution) -> Self:
        """Fit to the labels of one tag, with weights (n,); return self."""
        target = self._decided(target)
        self._check(target)
        self._transduction = None
        self._learn(rows, target, None if weights is None else weights[target.labeled], graph, params, execution)
        self.evidence_ |= {"scale": self.scaling_.to_arrays()[1], "n_labeled": len(target.labeled),
                           "n_unlabeled": len(rows) - len(target.labeled)}
        return self

    def _transduced(self, X: PointsLike) -> np.ndarray:
        if isinstance(self.model_, TagModel):
            return self._of_all([tag.transduction_ for tag in self._learned])
        return super()._transduced(X)

    def _evidence_of_tags(self, target: Tags) -> JsonObject:
        """Return what is known of the fits of all tags."""
        names = target.names[target.learnable].tolist()
        evidence = dict(zip(names, (tag.evidence_ for tag in self._learned), strict=True))
        return {"tags": evidence, "not_learned": target.not_learned()}

    def _of_all_tags(self, category: type[Warning]) -> bool:
        """Return whether what a warning says of single tags is said of all together."""
        return False

    def score(self, X: PointsLike, y: LabelsLike | None = None, sample_weight: NumbersLike | None = None) -> float:
        """Return the share of right predictions among labeled points.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.
        y : array-like, shape (n,) or (n, n_tags), or None
            Their labels, as in `fit`; unlabeled points do not count. Of tags (several
            labels a point), only points of which all are known count, and all must be
            right, as in scikit-learn's subset accuracy.
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
        if isinstance(target, Classes):
            return float(np.average(predicted == target.names[target.coded], weights=weight))
        whole = (target.coded >= 0).all(axis=1)
        require(bool(whole.any()), "y has no row without unknown entries", error=DataError,
                why="the accuracy counts the points of which all tags are right",
                fix="score points of which all tags are known, or one column of predict(X) at a time")
        right = (predicted == target.coded).all(axis=1)[whole]
        return float(np.average(right, weights=None if weight is None else weight[whole]))

    def decision_function(self, X: PointsLike) -> np.ndarray:
        """Return the scores of the classes.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.

        Returns
        -------
        ndarray, shape (n, n_classes) or (n,)
            One score a class, in the order of `classes_`; for two classes one score,
            which is > 0 for the second. Of tags one score each, which is > 0 where the
            tag is predicted.
        """
        return self._coding.decision(self._values(X))

    @property
    def _coding(self) -> ClassCoding | TagCoding:
        check_is_fitted(self, "model_")
        assert isinstance(self.model_.coding, (ClassCoding, TagCoding))
        return self.model_.coding

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class CalibratedClassifier(PointClassifier):
    """A classifier whose `fit` calibrates held-out scores."""

    def predict_proba(self, X: PointsLike) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.

        Returns
        -------
        ndarray, shape (n, n_classes)
            The probabilities, in the order of `classes_`; each row sums to 1, and is NaN
            where there is no prediction. Of tags (several labels a point) the
            probability of each; rows do not sum to 1.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            The labels could not be held out within the memory budget of the fit.

        Notes
        -----
        They are calibrated on the scores of labeled points without their own labels. Where each
        class has a single label, which cannot be held out, their slope is one over the root
        mean square of the scores. The most
        probable class is the predicted one, but where votes of pairs are predicted (the
        hinge loss of `LapSVC`, `ClusterKernelSVC` and `MultiscaleKernelClassifier` with
        three classes or more) it can be another.
        """
        check_is_fitted(self, "model_")
        if self.calibration_ is None:
            raise NotFittedError("the labels could not be held out within the memory budget, and probabilities are "
                                 "calibrated on them: fit again with a larger memory_budget, or use decision_function")
        return self.calibration_.probabilities(self._coding.margins(self._values(X)))

    def predict_log_proba(self, X: PointsLike) -> np.ndarray:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.

        Returns
        -------
        ndarray, shape (n, n_classes)
            The logarithm of what `predict_proba` returns.
        """
        return np.log(self.predict_proba(X))


class ClassifierCalibratedOnRequest(CalibratedClassifier):
    """A classifier whose `fit` calibrates held-out scores with `probability=True`, since these take fits of their own.

    Each class then needs two labels.
    """

    probability: bool

    def _check(self, target: Learnable) -> None:
        super()._check(target)
        if self.probability and isinstance(target, Classes):
            require_per_class(target, 2, "one labeled point, and probabilities are calibrated on points held out",
                              "label a second point of it, or set probability=False")

    def _calibrates(self) -> bool:
        if not self.probability:
            raise AttributeError("predict_proba is not available when probability=False: set probability=True and fit "
                                 "again, or use decision_function")
        return True

    @available_if(_calibrates)
    def predict_proba(self, X: PointsLike) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.

        Returns
        -------
        ndarray, shape (n, n_classes)
            The probabilities, in the order of `classes_`; each row sums to 1, and is NaN
            where there is no prediction. Of tags (several labels a point) the
            probability of each; rows do not sum to 1.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            The last `fit` was without `probability=True`.

        Notes
        -----
        They are calibrated on the labeled points, each scored by a learner that was fitted
        without it.
        """
        check_is_fitted(self, "model_")
        if self.calibration_ is None:
            raise NotFittedError("fitted with probability=False, so nothing was calibrated: call fit again")
        return self.calibration_.probabilities(self._coding.margins(self._values(X)))

    predict_log_proba = available_if(_calibrates)(CalibratedClassifier.predict_log_proba)
