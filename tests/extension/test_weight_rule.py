"""A rule of the graph's weights that dssl does not have: one class, and one line that registers it."""

import numpy as np
from numpy.testing import assert_allclose

import dssl
from dssl.graph.weights.rules import WEIGHT_RULES, WeightRule


class Cauchy(WeightRule):
    """w = 1 / (1 + d^2 / h^2)."""

    name = "cauchy"
    scale_name = "bandwidth"

    def log_weights(self, distances, scales, other_scales):
        return -np.log1p((distances.astype(np.float64) / self.scale) ** 2)


def test_a_weight_rule_is_one_class(registered, pipeline, moons):
    registered(WEIGHT_RULES, Cauchy)

    # estimator
    X = np.random.default_rng(0).normal(size=(80, 2))
    lists = dssl.neighbors(X, 5)
    W = dssl.weights(lists, "cauchy", bandwidth=0.5).tocoo()
    lengths = np.linalg.norm(X[W.row] - X[W.col], axis=1)
    assert_allclose(W.data, 1 / (1 + lengths**2 / 0.25), rtol=1e-5)
    y = np.full(80, -1)
    y[:10] = X[:10, 0] > 0
    model = dssl.LaplaceLearning(dssl.KNNGraph(n_neighbors=5, weights="cauchy")).fit(X, y)
    assert model.score(X, (X[:, 0] > 0).astype(int)) > 0.7
    assert model.predict(X + 1e-3).shape == (80,)

    # pipeline: the file, selection among rules, plan, run, report and predictions
    commands = pipeline({**moons, "model": {"kind": "graph", "learner": "poisson"}, "graph": {"n_neighbors": 6},
                         "selection": {"cv": 2, "grid": {"graph": {"weights": ["cauchy", "heat"]}}}})
    assert {"graph", "models"} <= {*commands.plan()}
    assert commands.run()["status"] == "done"
    assert "cauchy" in commands.page()
    assert {*commands.predicted()} == {"up", "down"}
