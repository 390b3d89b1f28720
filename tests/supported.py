"""Predictions of a fitted pipeline with the points that have support."""

import numpy as np

from dssl.execution.in_process import InProcess
from dssl.execution.tasks import Execution
from dssl.pipeline.predict.model import FittedPipeline
from dssl.storage.blocks import Rows


def predict_supported(fitted: FittedPipeline, X: Rows | np.ndarray,
                      execution: Execution | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return predicted labels, and (n,) bool: which points are near the model, reachable, and no outliers."""
    execution = execution or InProcess()
    values, unsupported = fitted.model.values_and_unsupported(fitted._scaled(X, execution), execution)
    is_outlier = fitted.compared(X, execution).is_outlier.read_all()
    return fitted.model.coding.labels(values), ~unsupported & ~is_outlier
