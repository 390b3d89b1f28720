"""Minima of penalized smooth losses, against SciPy's minimizer, scikit-learn and themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize

from dssl.base.errors import NotConverged
from dssl.learners.linear.newton import LabelFeatures, LabelGram, Minimum, minimize
from dssl.learners.losses import HuberHinge, Logistic, Squared, SquaredHinge

LOSSES = [Squared(), SquaredHinge(), HuberHinge(0.01), HuberHinge(0.5), Logistic()]


def problem(random_state, m=40, r=12, t=3, gamma=1e-2):
    rng = np.random.default_rng(random_state)
    Psi, root = rng.normal(size=(m, r)), rng.normal(size=(r, r))
    y = np.where(Psi[:, :t] + rng.normal(size=(m, t)) + 0.3 > 0, 1.0, -1.0)
    p = rng.uniform(0.2, 2.0, size=(m, t))
    return Psi, gamma * (root @ root.T / r + np.eye(r)), y, p / p.sum(axis=0)


def objective(loss, Psi, G, y, p, c, b):
    return float(p @ loss.value(Psi @ c + b, y) + c @ G @ c)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_minimum_is_that_of_another_minimizer(loss, fit_intercept):
    Psi, G, y, p = problem(0)
    found = minimize(LabelFeatures(Psi, G), loss, y, p, fit_intercept=fit_intercept)

    def of(z, column):
        c, b = z[:-1], z[-1] * fit_intercept
        g = p[:, column] * loss.gradient(Psi @ c + b, y[:, column])
        value = objective(loss, Psi, G, y[:, column], p[:, column], c, b)
        return value, np.append(Psi.T @ g + 2 * G @ c, g.sum() * fit_intercept)

    for column in range(y.shape[1]):
        own, own_value = np.append(found.coef[:, column], found.intercept[column]), None
        own_value, gradient = of(own, column)
        assert np.abs(gradient).max() < 1e-6
        other = scipy_minimize(of, np.zeros(len(own)), args=(column,), jac=True, method="BFGS", options={"gtol": 1e-9})
        assert own_value <= other.fun + 1e-9 * abs(other.fun)
        assert np.allclose(found.values[:, column], Psi @ own[:-1] + own[-1], atol=1e-10)
    assert (found.intercept == 0).all() == (not fit_intercept)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_labels_or_features_give_the_same_function(loss):
    Psi, G, y, p = problem(1)
    of_features = minimize(LabelFeatures(Psi, G), loss, y, p, fit_intercept=True)
    of_labels = minimize(LabelGram(Psi @ np.linalg.solve(G, Psi.T)), loss, y, p, fit_intercept=True)
    assert np.allclose(of_labels.values, of_features.values, atol=1e-6)
    assert np.allclose(np.linalg.solve(G, Psi.T @ of_labels.coef), of_features.coef, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(LOSSES), st.booleans(), st.integers(0, 2**20))
def test_a_number_of_steps_may_be_given_and_none_raises_the_objective(loss, fit_intercept, random_state):
    Psi, G, y, p = problem(random_state)
    N = Psi @ np.linalg.solve(G, Psi.T) * np.random.default_rng(random_state).uniform(1, 100)
    c, b = np.random.default_rng(random_state).normal(size=(40, 3)) / 40, np.full(3, 0.5 * fit_intercept)
    at = Minimum(c, b, N @ c + b, np.zeros(3, np.int64))
    for _ in range(4):
        after = minimize(LabelGram(N), loss, y, p, fit_intercept=fit_intercept, start=at, max_steps=1,
                         required=False)
        assert (after.steps == 1).all()
        assert np.allclose(after.values, N @ after.coef + after.intercept, rtol=1e-6, atol=1e-6)
        for column in range(3):
            before, now = (objective(loss, N, N, y[:, column], p[:, column], own.coef[:, column], own.intercept[column])
                           for own in (at, after))
            assert now <= before * (1 + 1e-11)
        assert fit_intercept or (after.intercept == 0).all()
        at = after


def test_the_squared_loss_takes_one_step():
    Psi, G, y, p = problem(2)
    found = minimize(LabelFeatures(Psi, G), Squared(), y, p, fit_intercept=False)
    assert found.steps.max() <= 2  # the second finds nothing left
    for column in range(y.shape[1]):
        exact = np.linalg.solve(Psi.T @ (p[:, [column]] * Psi) + G, Psi.T @ (p[:, column] * y[:, column]))
        assert np.allclose(found.coef[:, column], exact, rtol=1e-9)


@settings(max_examples=25)
@given(random_state=st.integers(0, 10**6), gamma=st.sampled_from([1e-6, 1e-3, 1.0, 100.0]),
       loss=st.sampled_from(LOSSES), m=st.sampled_from([1, 2, 7, 60]))
def test_no_column_can_be_improved(random_state, gamma, loss, m):
    Psi, G, y, p = problem(random_state, m=m, r=5, t=2, gamma=gamma)
    space = LabelFeatures(Psi, G)
    found = minimize(space, loss, y, p, fit_intercept=True)
    rng = np.random.default_rng(random_state + 1)
    for column in range(2):
        c, b = found.coef[:, column], found.intercept[column]
        minimum = objective(loss, Psi, G, y[:, column], p[:, column], c, b)
        for size in (1e-3, 1.0):
            other = objective(loss, Psi, G, y[:, column], p[:, column], c + size * rng.normal(size=5),
                              b + size * rng.normal())
            assert other >= minimum - 1e-9 * max(minimum, 1e-9)


def test_a_column_does_not_depend_on_those_beside_it_nor_on_points_without_weight():
    Psi, G, y, p = problem(3)
    whole = minimize(LabelFeatures(Psi, G), SquaredHinge(), y, p, fit_intercept=True)
    alone = minimize(LabelFeatures(Psi, G), SquaredHinge(), y[:, 1:2], p[:, 1:2], fit_intercept=True)
    assert np.allclose(whole.values[:, 1], alone.values[:, 0], atol=1e-9)
    kept = np.arange(len(y)) % 4 != 0
    without = minimize(LabelFeatures(Psi, G), SquaredHinge(), y, p * kept[:, None], fit_intercept=True)
    fewer = minimize(LabelFeatures(Psi[kept], G), SquaredHinge(), y[kept], p[kept], fit_intercept=True)
    assert np.allclose(without.values[kept], fewer.values, atol=1e-9)


def test_a_start_nearby_takes_fewer_steps_to_the_same_minimum():
    Psi, G, y, p = problem(4, m=200, gamma=1e-4)
    first = minimize(LabelFeatures(Psi, G), SquaredHinge(), y, p, fit_intercept=True)
    cold = minimize(LabelFeatures(Psi, 2 * G), SquaredHinge(), y, p, fit_intercept=True)
    warm = minimize(LabelFeatures(Psi, 2 * G), SquaredHinge(), y, p, fit_intercept=True, start=first)
    assert np.allclose(warm.values, cold.values, atol=1e-8)
    assert warm.steps.sum() < cold.steps.sum()


def test_labels_of_one_sign_have_the_intercept_alone():
    Psi, G, y, p = problem(5)
    found = minimize(LabelFeatures(Psi, G), SquaredHinge(), np.ones_like(y), p, fit_intercept=True)
    assert np.abs(found.coef).max() < 1e-8
    assert (found.intercept >= 1 - 1e-9).all()


def test_a_minimum_that_is_not_reached_is_told():
    Psi, G, y, p = problem(6)
    with pytest.raises(NotConverged, match="no minimum of logistic after 1 Newton steps"):
        minimize(LabelFeatures(Psi, G), Logistic(), y, p, fit_intercept=True, max_steps=1)
