"""The transductive machine: its minimum against scikit-learn's, its objective turn by turn, its balance, its memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.svm import LinearSVC

from dssl.base.errors import BudgetError, NotConverged, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF, Linear
from dssl.learners.linear.newton import LabelFeatures, minimize
from dssl.learners.linear.transductive import (
    TEMPERATURES,
    NystromFeatures,
    Signs,
    StoredFeatures,
    TransductiveParams,
    annealing,
    expected_signs,
    feature_model,
    fit_bytes,
    fit_transductive,
    require_fit,
)
from dssl.learners.losses import ExpectedSquaredHinge, SquaredHinge
from dssl.storage.csr import as_rows
from tests.memory import traced_peak


def two_blobs(n=120, apart=3.0, random_state=0):
    """Return X (n, 2) of two long blobs with a gap, their signs (n,), and which points are labeled (n,)."""
    rng = np.random.default_rng(random_state)
    signs = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = rng.normal(size=(n, 2)) * [0.5, 3.0] + signs[:, None] * [apart / 2, 0.0]
    labeled = np.zeros(n, bool)
    labeled[rng.choice(n, 12, replace=False)] = True
    labeled[:2] = True
    return X, signs, labeled


def held(X, signs, bandwidth=1.0):
    """Return features with ones (n, k), and the space of an objective divided by the sum of the weights."""
    model, _ = feature_model(RBF(bandwidth), X[::2])
    Psi = model.values(as_rows(X), InProcess())
    total = signs.weight.sum(axis=0).max()
    return Psi, StoredFeatures(Psi, 1 / (2 * total), signs.weight.max(axis=1) / total), Signs(
        signs.known, signs.weight / total, signs.share)


def fitted(X, kernel, landmarks, signs, execution=None):
    """Return the fit of signs (n, t) to points X."""
    features = NystromFeatures.of(as_rows(X), kernel, landmarks, signs.known.shape[1], execution or InProcess())
    return fit_transductive(features, signs)


def objective(Psi, coef, values, p, signs, temperature, ridge):
    """Return what the module's docstring prints, of one column."""
    found = ridge * (coef[:-1] ** 2).sum()
    for f, y, w, q in zip(values, signs.known[:, 0], signs.weight[:, 0], p, strict=True):
        if y:
            found += w * max(0.0, 1 - y * f) ** 2
        else:
            entropy = -sum(x * np.log(x) for x in (q, 1 - q) if x > 0)
            found += w * (q * max(0.0, 1 - f) ** 2 + (1 - q) * max(0.0, 1 + f) ** 2 - temperature * entropy)
    return found


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_without_weight_of_unlabeled_points_it_is_the_squared_hinge_machine(C):
    """scikit-learn penalizes its intercept; a large scale of it makes that nearly free."""
    X, y, labeled = two_blobs(apart=1.0)
    params = TransductiveParams(C=C, unlabeled_weight=0.0)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(X))
    signs = Signs.of(np.where(labeled, y, 0.0)[:, None], weight, None, params)
    found = fitted(X, RBF(1.0), X, signs)
    model, _ = feature_model(RBF(1.0), X)
    Phi = model.values(as_rows(X), InProcess())[:, :-1]
    peer = LinearSVC(C=C, loss="squared_hinge", dual=False, tol=1e-10, intercept_scaling=100, max_iter=100_000)
    peer.fit(Phi[labeled], y[labeled], sample_weight=weight[labeled])
    assert_allclose(found.values[:, 0], peer.decision_function(Phi), atol=2e-3)
    assert found.evidence["achieved_share"][0] == pytest.approx((peer.decision_function(Phi[~labeled]) > 0).mean())
    assert found.evidence["objective"][0] == pytest.approx(
        peer.coef_[0] @ peer.coef_[0] / 2 + C * weight[labeled] @ np.maximum(
            0, 1 - y[labeled] * peer.decision_function(Phi[labeled])) ** 2, rel=1e-4)


def test_no_turn_raises_the_objective_of_its_temperature():
    X, y, labeled = two_blobs()
    columns = np.stack([np.where(labeled, y, 0.0), np.where(labeled & (np.arange(len(y)) > 30), -y, 0.0)], axis=1)
    given = Signs.of(columns, np.ones(len(X)), None, TransductiveParams())
    Psi, space, signs = held(X, given)
    before, turns = None, 0
    for now in annealing(space, signs):
        found = now.objective(space, signs)
        for column in range(2):
            one = Signs(signs.known[:, [column]], signs.weight[:, [column]], signs.share[[column]])
            assert found[column] == pytest.approx(objective(
                Psi, now.coef[:, column], now.values[:, column], now.p[:, column], one, now.temperature,
                space.ridge[0, 0]), rel=1e-9)
        assert_allclose(now.values, Psi @ now.coef, atol=1e-9)
        if before is not None and before[0] == now.temperature:
            assert (found <= before[1] + 1e-7).all()  # p has its share to 1e-9 of nu's bisection, not exactly
            turns += 1
        before = now.temperature, found
    assert turns >= 10
    assert now.temperature < TEMPERATURES[0]


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_the_end_is_the_minimum_for_its_signs_and_signs_are_decided_in_their_shares(C):
    X, y, labeled = two_blobs()
    sizes = np.array([len(X) / 2])
    given = Signs.of(np.where(labeled, y, 0.0)[:, None], np.ones(len(X)), sizes, TransductiveParams(C=C))
    Psi, space, signs = held(X, given, bandwidth=1.0 if C == 1 else 0.5)
    *_, now = annealing(space, signs)
    assert C > 1 or ((now.values[:, 0] > 0) == (y > 0)).mean() > 0.95, "the boundary lies in the gap"
    free = signs.unlabeled[:, 0]
    assert now.p[free, 0].mean() == pytest.approx(signs.share[0], abs=1e-8)
    assert np.minimum(now.p, 1 - now.p)[free].mean() < 0.01
    assert (now.values[free, 0] > 0).mean() == pytest.approx(signs.share[0], abs=2 / free.sum())
    target = np.where(signs.known == 0, 2 * now.p - 1, signs.known)
    gradient = Psi.T @ (signs.weight * ExpectedSquaredHinge().gradient(now.values, target)) + 2 * space.ridge * now.coef
    assert np.abs(gradient).max() < 1e-5


def test_a_column_that_is_no_minimum_is_an_error(monkeypatch):
    """Steps of no length, as where rounding leaves none, are an error at the end alone."""
    X, y, labeled = two_blobs()
    given = Signs.of(np.where(labeled, y, 0.0)[:, None], np.ones(len(X)), None, TransductiveParams())
    _, space, signs = held(X, given)
    monkeypatch.setattr("dssl.learners.linear.newton._line_search", lambda loss, y, *args: np.zeros(y.shape[1]))
    with pytest.raises(NotConverged, match=r"did not reach the minimum(.|\n)*lower C"):
        list(annealing(space, signs))


def test_steps_by_iterations_are_those_of_a_factor():
    X, y, labeled = two_blobs()
    signs = Signs.of(np.where(labeled, y, 0.0)[:, None], np.ones(len(X)), None, TransductiveParams())
    Psi, space, scaled = held(X, signs)
    other = LabelFeatures(Psi, np.diag(space.ridge[:, 0]))
    target = np.where(labeled, y, 0.3)[:, None]
    own, factored = (minimize(each, ExpectedSquaredHinge(), target, scaled.weight, fit_intercept=False)
                     for each in (space, other))
    assert_allclose(own.values, factored.values, atol=1e-5)


@pytest.mark.parametrize("temperature", [10.0, 1.0, 0.01])
def test_expected_signs_have_their_shares_and_the_form_of_the_closed_solution(temperature):
    rng = np.random.default_rng(0)
    values, free, share = rng.normal(size=(50, 4)), rng.random((50, 4)) < 0.8, np.array([0.5, 0.1, 0.0, 1.0])
    p = expected_signs(values, free, share, temperature)
    for column in range(4):
        assert p[free[:, column], column].mean() == pytest.approx(share[column], abs=1e-8)
    gap = np.maximum(0, 1 - values) ** 2 - np.maximum(0, 1 + values) ** 2
    open_ = free[:, 0] & (p[:, 0] > 1e-6) & (p[:, 0] < 1 - 1e-6)
    nu = temperature * np.log(p[open_, 0] / (1 - p[open_, 0])) + gap[open_, 0]
    assert_allclose(nu, nu.mean(), atol=1e-6 * temperature + 1e-8)
    assert_allclose(p[:, 0], expit((nu.mean() - gap[:, 0]) / temperature), atol=1e-4)


def test_columns_are_fitted_as_if_alone_and_twice_alike():
    X, y, labeled = two_blobs(apart=2.0)
    rng = np.random.default_rng(3)
    columns = np.stack([np.where(labeled, y, 0.0), np.where(labeled, np.where(rng.random(len(y)) < 0.2, -y, y), 0.0),
                        np.where(labeled & (np.arange(len(y)) % 5 > 0), y, 0.0)], axis=1)
    params, sizes = TransductiveParams(C=1.0), np.array([60.0, 50.0, 70.0])
    whole = Signs.of(columns, np.ones(len(X)), sizes, params)
    assert_allclose(whole.share[0], (60 - (columns[:, 0] > 0).sum()) / (columns[:, 0] == 0).sum())
    found = [fitted(X, RBF(1.0), X[:80], whole) for _ in range(2)]
    assert_array_equal(found[0].values, found[1].values)
    for column in range(3):
        alone = Signs.of(columns[:, [column]], np.ones(len(X)), sizes[[column]], params)
        single = fitted(X, RBF(1.0), X[:80], alone)
        assert_allclose(found[0].values[:, column], single.values[:, 0], atol=2e-2)
        assert found[0].evidence["objective"][column] == pytest.approx(single.evidence["objective"][0], rel=1e-4)


def test_a_weight_of_two_is_two_labels():
    X, y, labeled = two_blobs(apart=2.0)
    known, weight = np.where(labeled, y, 0.0)[:, None], np.where(np.arange(len(y)) < 2, 2.0, 1.0)
    params = TransductiveParams(C=1.0)
    weighted = fitted(X, RBF(1.0), X, Signs.of(known, weight, None, params))
    twice = np.vstack([known, known[:2]])
    copied = fitted(np.vstack([X, X[:2]]), RBF(1.0), X, Signs.of(twice, np.ones(len(twice)), None, params))
    assert_allclose(weighted.values, copied.values[:len(X)], atol=1e-4)


def test_the_scale_of_a_kernel_does_not_matter():
    X, y, labeled = two_blobs()
    signs = Signs.of(np.where(labeled, y, 0.0)[:, None], np.ones(len(X)), None, TransductiveParams())
    found = [fitted(scale * X, Linear(), scale * X, signs) for scale in (1, 100)]
    assert_allclose(found[0].values, found[1].values, atol=1e-5)


@pytest.mark.parametrize(("n", "s", "t"), [
    (3000, 100, 6), (1000, 600, 1), pytest.param(3000, 10, 30, marks=pytest.mark.slow),
    pytest.param(20_000, 100, 1, marks=pytest.mark.slow)])
@pytest.mark.extended_cases("1000-600-1", "20000-100-1", "3000-100-6")
def test_memory_is_a_formula(n, s, t):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    known = np.where(rng.random((n, 1)) < 0.05, np.sign(X[:, :1]), 0.0) * np.ones(t)
    signs = Signs.of(known, np.ones(n), None, TransductiveParams(C=0.1))
    predicted = fit_bytes(n, s, t)
    execution = InProcess(memory_budget=predicted, threads=1)
    measured = traced_peak(lambda: fitted(X, RBF(1.0), X[:s], signs, execution), predicted)
    assert 0.6 * predicted < measured <= predicted, measured / predicted
    with pytest.raises(BudgetError, match=rf"landmarks and {t} columns(.|\n)*raise memory_budget to {predicted:,}"):
        fitted(X, RBF(1.0), X[:s], signs, InProcess(memory_budget=predicted - 1, threads=1))


def test_the_landmarks_that_would_fit_do():
    execution = InProcess(memory_budget=fit_bytes(10_000, 700, 2) + 5, threads=1)
    with pytest.raises(BudgetError, match="use 700 landmarks or fewer"):
        require_fit(10_000, 1000, 2, execution)
    require_fit(10_000, 700, 2, execution)
    with pytest.raises(BudgetError, match="fit a part of the points"):
        require_fit(10_000, 1000, 2, InProcess(memory_budget=1000, threads=1))


@pytest.mark.parametrize("wrong", [{"C": 0.0}, {"C": np.inf}, {"C": True}, {"C": "1"}, {"unlabeled_weight": -1.0},
                                   {"unlabeled_weight": np.nan}, {"unlabeled_weight": None}])
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        TransductiveParams(**wrong)


def test_the_expected_hinge_of_a_sign_is_the_hinge():
    f, y = np.linspace(-3, 3, 60), np.where(np.arange(60) % 2, 1.0, -1.0)
    for name in ("value", "gradient", "curvature"):
        assert_allclose(getattr(ExpectedSquaredHinge(), name)(f, y), getattr(SquaredHinge(), name)(f, y), atol=1e-15)
