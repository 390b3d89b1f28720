"""Probabilities of classifiers, calibrated on scores of labeled points without their own labels."""


import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..learners.target.target import Classes
from .arguments import Learnable, PointsLike
from .classifier import PointClassifier
from .targets import require_per_class


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


class ClassifierCalibratedOnRequest(PointClassifier):
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

    @available_if(_calibrates)
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
