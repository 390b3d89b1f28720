"""A base kernel that dssl does not have: one class, and one line that registers it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import dssl
from dssl.kernels.base import KERNELS, DistanceKernel
from dssl.kernels.points import squared_distances


@dataclass(frozen=True)
class InverseMultiquadric(DistanceKernel):
    """1 / sqrt(1 + |x - z|^2 / bandwidth^2)."""

    name: ClassVar[str] = "inverse_multiquadric"

    def _block(self, X, Z):
        return 1 / np.sqrt(1 + squared_distances(X, Z) / self.bandwidth**2)


def test_a_base_kernel_is_one_class(registered, pipeline, moons):
    registered(KERNELS, InverseMultiquadric)

    # estimator
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.full(60, -1)
    y[:10] = X[:10, 0] > 0
    model = dssl.LapSVC("inverse_multiquadric", eta=1.0).fit(X, y)
    assert model.score(X, (X[:, 0] > 0).astype(int)) > 0.7

    # pipeline: the file, selection of its bandwidth, plan, run, report and predictions
    commands = pipeline({**moons, "model": {"kind": "svm", "n_landmarks": 40}, "graph": {"n_neighbors": 6},
                         "kernel": {"name": "inverse_multiquadric"},
                         "selection": {"cv": 2, "grid": {"bandwidth": [0.3, 1.0], "eta": [1.0], "C": [1.0],
                                                            "power": [1]}}})
    assert {"selection", "models"} <= {*commands.plan()}
    assert commands.run()["status"] == "done"
    assert "inverse_multiquadric" in commands.page()
    assert {*commands.predicted()} == {"up", "down"}
