"""Probabilities of classifiers that know scores of their labeled points without their own labels."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..learners.coding import margins_of
from ..learners.probabilities import Calibration
from ..selection.calibration import calibrated
from .base import PointClassifier


class CalibratedClassifier(PointClassifier):
    """A classifier whose `fit` calibrates held-out scores, where each class has two labels."""

    calibration_: Calibration | None

    def _calibrate(self, target: Any, held_out: Callable[[], np.ndarray], weight: np.ndarray | None) -> None:
        """Calibrate the values (l, c) of labeled points without their own labels, where each class has two."""
        self.calibration_ = calibrated(target, lambda: margins_of(held_out(), target.coding), weight)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class (n, n_classes), in the order of `classes_`; rows sum to 1.

        NaN where there is no prediction. Calibrated on the scores of labeled points without their own labels; the most
        probable class is the predicted one.

        Raises NotFittedError: a class has one label, so that nothing could be calibrated.
        """
        check_is_fitted(self, "model_")
        if self.calibration_ is None:
            raise NotFittedError("a class has a single label, and probabilities are calibrated on points held out: "
                                 "label a second point of it and fit again, or use decision_function")
        return self.calibration_.probabilities(self._coding.margins(self._values(X)))
