"""Other losses on landmarks: every method finds the minimum of the objective, and the squared loss is LapRLS."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.learners.laprls.penalties import Penalties, PenaltyScale, with_folds
from dssl.learners.laprls.smooth import smooth_solver
from dssl.learners.losses import HuberHinge, Logistic, Squared, SquaredHinge
from tests.in_pairs import in_pairs

from .systems import case

LOSSES = [SquaredHinge(), HuberHinge(0.01), Logistic()]
METHODS = ("nystrom-direct", "nystrom-pcg", "nystrom-cg")


def scaled(made, items=((0.05, 3.0), (0.3, 0.0), (0.02, 30.0))):
    scale = PenaltyScale(made.lines.training_weights, len(made.K))
    pairs = [Penalties(*item, scale=scale) for item in items]
    return [*pairs, replace(pairs[0], held_out=1), replace(pairs[-1], held_out=0), replace(pairs[0], control=True)]


def solver_of(made, loss, items, method="nystrom-direct", **params):
    system = replace(made.system, params=replace(made.system.params, **params, solver=method))
    return smooth_solver(system, loss, items, made.execution)


def gradient(made, loss, item, coef, intercept):
    """Return the objective's gradient in coefficients, whitened by the landmarks' kernel, and in the intercept."""
    lines, n = made.lines, len(made.K)
    seen = lines.fold != item.held_out
    weight = lines.weight[seen] / lines.weight[seen].sum()
    K, y, E = made.K[lines.row[seen]], lines.target[seen], made.E
    if item.control:
        trace, whole = np.trace(E), E.sum()
        b = (whole - trace) / (n * (n - 1))
        E = (trace / n - b) * np.eye(n) + b
    g = weight[:, None] * loss.gradient(K @ coef + intercept, y)
    found = K.T @ g + 2 * item.gamma_A * made.K_ss @ coef + 2 * item.gamma_I / n**2 * made.K.T @ (E @ (made.K @ coef))
    return np.linalg.solve(np.linalg.cholesky(made.K_ss), found), g.sum(axis=0)


@in_pairs({"kind": ["normalized", "unnormalized"], "method": METHODS, "loss": LOSSES, "m": [12, 45]})
@pytest.mark.extended_cases("unnormalized-nystrom-cg-loss3-12")
@pytest.mark.slow_cases("normalized-nystrom-pcg-loss1-45")
def test_every_method_finds_the_minimum(loss, method, kind, m):
    made = case(m=m, kind=kind, kernel=RBF(0.7), coded=True, c=3, tol=1e-9, max_iter=3000)
    items = scaled(made)
    found = solver_of(made, loss, items, method).solve(items)
    for index, item in enumerate(items):
        of_coef, of_intercept = gradient(made, loss, item, found.coef[index], found.intercept[index])
        assert np.abs(of_coef).max() < 1e-5, item
        assert np.abs(of_intercept).max() < 1e-5, item
    assert found.evidence["loss"] == loss.name
    assert len(found.evidence["newton_steps"]) == len(items)


@pytest.mark.parametrize("whitening", ["auto", None])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow_cases("nystrom-cg-None")
def test_the_squared_loss_is_laprls(method, whitening):
    made = case(kernel=RBF(0.7), fit_intercept=False, whitening=whitening, tol=1e-9, max_iter=3000)
    items = scaled(made)
    found = solver_of(made, Squared(), items, method).solve(items)
    expected = made.solve(items)
    for index in range(len(items)):
        assert_allclose(made.values(found, index), made.values(expected, index), atol=2e-5)


@pytest.mark.parametrize("method", METHODS)
def test_held_out_values_are_those_of_the_functions_without_the_fold(method):
    made = case(coded=True, c=2, kernel=RBF(0.7), tol=1e-9, max_iter=3000)
    pairs = [item for item in scaled(made) if item.held_out < 0 and not item.control]
    items = with_folds(pairs, made.lines.n_held_out_folds)
    solver = solver_of(made, SquaredHinge(), items, method)
    values = np.concatenate(list(solver.held_out(items)), axis=1)
    functions = solver.solve(items)
    for index, item in enumerate(items):
        own = made.lines.fold == item.held_out
        assert_allclose(values[own, index // made.lines.n_held_out_folds],
                        made.values(functions, index)[made.lines.row[own]],
                        atol=1e-5)
    assert np.isnan(values[made.lines.fold == made.lines.n_held_out_folds]).all()
    assert values.shape == (len(made.lines.row), len(pairs), 2)


def test_threads_change_no_bit():
    found = []
    for threads in (1, 2):
        made = case(coded=True, c=1, execution=InProcess(threads))
        items = with_folds(scaled(made)[:3], made.lines.n_held_out_folds)
        found.append(solver_of(made, Logistic(), items).solve(items).coef)
    assert (found[0] == found[1]).all()


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_influence_comes_near_to_refits_and_a_step_of_newton_nearer(loss):
    made = case(m=20, coded=True, c=2, kernel=RBF(0.7), n_folds=6)
    pairs = [item for item in scaled(made, ((1.0, 3.0), (0.3, 0.0))) if item.held_out < 0 and not item.control]
    items = with_folds(pairs, made.lines.n_held_out_folds)
    refits, plain, refined = (np.concatenate(list(solver.held_out(items)), axis=1) for solver in (
        solver_of(made, loss, items, held_out=how) for how in ("refit", "influence", "refined_influence")))
    held_out = ~np.isnan(refits)
    assert (np.isnan(plain) == ~held_out).all()
    assert 0 < np.abs(plain - refits)[held_out].mean() < 0.2 * np.abs(refits[held_out]).mean() + 0.02
    assert np.abs(refined - refits)[held_out].mean() < np.abs(plain - refits)[held_out].mean()


def test_more_labels_than_landmarks_are_refitted():
    made = case(m=45, coded=True, c=1)
    items = with_folds(scaled(made)[:1], made.lines.n_held_out_folds)
    with pytest.warns(UserWarning, match="45 labels, 20 features and solver nystrom-direct"):
        assert solver_of(made, SquaredHinge(), items, held_out="influence").held_out_method == "refit"
    assert solver_of(case(m=20, coded=True, c=1), SquaredHinge(), items, held_out="influence").held_out_method == \
        "influence"
