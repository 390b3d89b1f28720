"""The nearest labeled points of each class: without a shift they say what the nearest one says."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from dssl.execution.in_process import InProcess
from dssl.learners.class_prior import ClassPrior
from dssl.learners.model import model_type
from dssl.learners.nearest import NearestByClass, fit_nearest, fit_nearest_baseline
from dssl.learners.target.target import Classes
from dssl.storage.blocks import ArrayRows

HERE = InProcess(1)


def problem(n_classes, n=80, random_state=0):
    rng = np.random.default_rng(random_state)
    labeled = np.sort(rng.permutation(n)[:24])
    return rng.normal(size=(n, 3)), Classes(labeled, rng.integers(0, n_classes, 24), np.arange(n_classes) + 5)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_scores_are_distances_to_the_nearest_point_of_each_class(n_classes):
    X, target = problem(n_classes)
    fitted = fit_nearest_baseline(ArrayRows(X), target.with_prior(ClassPrior("equal")), "euclidean", None, None, HERE)
    assert isinstance(fitted, NearestByClass)
    D = cdist(X, X[target.labeled])
    of_class = np.column_stack([D[:, target.coded == code].min(axis=1) for code in range(n_classes)])
    expected = of_class[:, :1] - of_class[:, 1:] if n_classes == 2 else -of_class
    plain = fitted.shifted(-fitted.offset)
    assert_allclose(plain.values(X), expected, atol=1e-6)
    assert_array_equal(plain.predict(X), fit_nearest(ArrayRows(X), target, "euclidean", HERE).predict(X))
    D[target.labeled, np.arange(24)] = np.inf
    own = D[target.labeled]
    without = np.column_stack([own[:, target.coded == code].min(axis=1) for code in range(n_classes)])
    assert_allclose(plain.held_out(X[target.labeled]),
                    without[:, :1] - without[:, 1:] if n_classes == 2 else -without, atol=1e-6)
    arrays, attributes = fitted.to_arrays()
    assert_array_equal(model_type(attributes).from_arrays(arrays, attributes).values(X), fitted.values(X))


def test_predictions_have_the_class_sizes_that_are_told():
    X, target = problem(2, n=400)
    for share in (0.2, 0.7):
        model = fit_nearest_baseline(ArrayRows(X), target, "euclidean", None, np.array([1 - share, share]), HERE)
        assert (model.predict(X) == 6).mean() == pytest.approx(share, abs=0.05)


def test_a_model_that_is_told_nothing_has_the_plain_baseline():
    X, target = problem(2)
    assert not isinstance(fit_nearest_baseline(ArrayRows(X), target, "euclidean", None, None, HERE), NearestByClass)
