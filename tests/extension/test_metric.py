"""A metric of the neighbor search that dssl does not have: one class, and one line that registers it."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import dssl
from dssl.base.errors import DataError, ParameterError
from dssl.knn.metric import METRICS, Metric


class SignedRoot(Metric):
    """|sqrt(x) - sqrt(z)|, in which a root has the sign of its value."""

    name = "signed_root"

    def embedded(self, rows):
        return np.sign(rows) * np.sqrt(np.abs(rows, dtype=np.float64))


@pytest.mark.parametrize("method", ["exact", "descent", "partitioned"])
@pytest.mark.slow_cases("descent", "partitioned")
def test_every_search_finds_the_neighbors_of_a_metric_that_is_one_class(registered, method):
    registered(METRICS, SignedRoot)
    X = np.random.default_rng(0).exponential(size=(400, 3))
    found = dssl.neighbors(X, 4, metric="signed_root", method=method)
    distances = np.linalg.norm(np.sqrt(X)[:, None] - np.sqrt(X), axis=2)
    nearest = np.sort(distances, axis=1)[:, 1:5]
    assert np.mean(np.isclose(found.distances, nearest, atol=1e-5)) > 0.95
    with pytest.raises(DataError, match="of sparse rows"):
        dssl.neighbors(sparse.csr_array(X), 4, metric="signed_root", method=method)


@dataclass(frozen=True)
class SignedPower(Metric):
    """The Euclidean distance of powers, in which a power has the sign of its value."""

    power: float
    name = "signed_power"

    def embedded(self, rows):
        return np.sign(rows) * np.abs(rows, dtype=np.float64) ** self.power


def test_the_parameters_of_a_metric_are_the_fields_of_its_class(registered):
    registered(METRICS, SignedRoot)
    registered(METRICS, SignedPower)
    X = np.random.default_rng(0).normal(size=(50, 3))
    by_power = dssl.neighbors(X, 4, metric="signed_power", metric_params={"power": 0.5})
    assert_allclose(by_power.distances, dssl.neighbors(X, 4, metric="signed_root").distances)
    with pytest.raises(ParameterError, match="without power"):
        dssl.KNNGraph(metric="signed_power")


def test_a_metric_is_one_class(registered, pipeline, moons):
    registered(METRICS, SignedRoot)

    # estimator
    X = np.random.default_rng(0).normal(size=(80, 2))
    y = np.full(80, -1)
    y[:10] = X[:10, 0] > 0
    model = dssl.LaplaceLearning(dssl.KNNGraph(n_neighbors=5, metric="signed_root")).fit(X, y)
    assert_allclose(model.predict(X[:10]), y[:10])

    # pipeline: the file, selection among metrics, plan, run, report and predictions
    commands = pipeline({**moons, "model": {"kind": "graph", "learner": "poisson"}, "graph": {"n_neighbors": 6},
                         "selection": {"cv": 2, "grid": {"graph": {"metric": ["signed_root", "euclidean"]}}}})
    assert {"neighbors", "models"} <= {*commands.plan()}
    assert commands.run()["status"] == "done"
    assert "signed_root" in commands.page()
    assert {*commands.predicted()} == {"up", "down"}
