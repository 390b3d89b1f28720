"""A solver that dssl does not have: one class, and one line that registers it."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import dssl
from dssl.solvers.method import SolverMethod, scaled_to_one
from dssl.solvers.solver_params import SOLVERS


@dataclass(frozen=True)
class PseudoInverse(SolverMethod):
    """The pseudo-inverse of A, dense, made once."""

    inverse: np.ndarray

    name = "pseudo_inverse"
    description = "a dense pseudo-inverse"
    iterates = False

    @classmethod
    def prepare(cls, A, n_columns, *, n_vectors=None, random_state=0):
        return cls(A, np.linalg.pinv(A.to_scipy().toarray(), hermitian=True))

    def correct(self, R, norms, needed, budget, *, precise=False):
        return self.inverse @ (R * scaled_to_one(norms)), (norms > 0).astype(np.int64)

    def to_arrays(self):
        return {"inverse": self.inverse}

    @classmethod
    def from_arrays(cls, A, arrays):
        return cls(A, arrays["inverse"])

    @classmethod
    def prepare_bytes(cls, n, nnz, n_columns):
        return 32 * n**2

    @classmethod
    def stored_bytes(cls, n, nnz, n_columns):
        return 8 * n**2


def test_a_solver_is_one_class(registered, pipeline, moons):
    before = pipeline({**moons, "model": {"kind": "svm", "n_landmarks": 40}, "graph": {"n_neighbors": 6},
                       "solver": {"method": "direct"}}).plan()
    registered(SOLVERS, PseudoInverse)

    R = sp.diags_array([np.full(30, 2.5), -np.ones(29), -np.ones(29)], offsets=[0, 1, -1]).tocsr()
    B = np.random.default_rng(0).normal(size=(30, 3))
    found = dssl.solve(R, B, method="pseudo_inverse")
    assert_allclose(R @ found.value, B, atol=1e-9)

    # pipeline: the file, plan with the bytes of the class, selection, run, report and predictions
    commands = pipeline({**moons, "model": {"kind": "svm", "n_landmarks": 40}, "graph": {"n_neighbors": 6},
                         "solver": {"method": "pseudo_inverse"},
                         "selection": {"cv": 2, "grid": {"eta": [1.0], "C": [1.0, 10.0], "power": [1]}}})
    written = {name: stage["written_bytes"] for name, stage in commands.plan().items()}
    assert written["system"] >= before["system"]["written_bytes"] + 8 * 100**2
    assert commands.run()["status"] == "done"
    assert "pseudo_inverse: a dense pseudo-inverse" in commands.page()
    assert {*commands.predicted()} == {"up", "down"}


@pytest.mark.slow
def test_the_approximate_cholesky_factor_goes_through_a_pipeline(pipeline, moons):
    """The factor is stored with the system, is read by the tasks that solve, and is in the report."""
    commands = pipeline({**moons, "model": {"kind": "svm", "n_landmarks": 40}, "graph": {"n_neighbors": 6},
                         "solver": {"method": "cholesky"},
                         "selection": {"cv": 2, "grid": {"eta": [1.0], "C": [1.0], "power": [1, 2]}}})
    assert commands.run()["status"] == "done"
    assert "cholesky: conjugate gradients preconditioned by an approximate Cholesky factor" in commands.page()
    assert {*commands.predicted()} == {"up", "down"}
