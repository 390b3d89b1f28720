"""A loss that dssl does not have: one class, and one line that registers it."""

from dataclasses import dataclass

import numpy as np
import pytest

import dssl
from dssl.base.errors import ParameterError
from dssl.learners.losses import LOSSES, SmoothLoss


@dataclass(frozen=True)
class CubedHinge(SmoothLoss):
    """max(0, 1 - y f)^3."""

    name = "cubed_hinge"

    def value(self, f, y):
        return np.maximum(0.0, 1 - y * f) ** 3

    def gradient(self, f, y):
        return -3 * y * np.maximum(0.0, 1 - y * f) ** 2

    def curvature(self, f, y):
        return 6 * np.maximum(0.0, 1 - y * f)


def test_a_loss_is_one_class(registered, pipeline, moons):
    registered(LOSSES, CubedHinge)

    # estimators: the Laplacian SVM, and a linear model on features
    X = np.random.default_rng(0).normal(size=(80, 2))
    true = (X[:, 0] > 0).astype(int)
    y = np.full(80, -1)
    y[:16] = true[:16]
    by_name, by_loss = (dssl.LapSVM(loss=loss, landmarks=30).fit(X, y) for loss in ("cubed_hinge", CubedHinge()))
    np.testing.assert_array_equal(by_name.decision_function(X), by_loss.decision_function(X))
    assert by_name.score(X, true) > 0.7
    assert dssl.ClusterKernelSVC(loss="cubed_hinge").fit(X, y).score(X, true) > 0.7

    # learners on a Gram matrix have a closed form or a support vector machine: they say so
    with pytest.raises(ParameterError, match=r"loss='cubed_hinge'(.|\n)*use one of squared, hinge"):
        dssl.LapSVC(loss="cubed_hinge").fit(X, y)

    # pipeline: the file, plan, selection, run, report and predictions
    grid = {"loss": ["squared_hinge", "cubed_hinge"], "gamma_A": [0.001], "gamma_I": ["auto"]}
    commands = pipeline({**moons, "model": {"kind": "lapsvm", "loss": "cubed_hinge", "landmarks": {"n_landmarks": 40}},
                         "graph": {"n_neighbors": 6}, "selection": {"cv": 2, "grid": grid}})
    assert "selection" in commands.plan()
    assert commands.run()["status"] == "done"
    assert "cubed_hinge" in commands.page()
    assert {*commands.predicted()} == {"up", "down"}


def test_a_loss_without_a_derivative_is_refused_by_the_laplacian_svm():
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = np.repeat([0, 1, -1, -1], 5)
    with pytest.raises(ParameterError, match=r"loss='hinge'(.|\n)*squared_hinge, huber_hinge, logistic"):
        dssl.LapSVM(loss="hinge").fit(X, y)
