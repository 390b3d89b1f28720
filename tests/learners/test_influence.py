"""The influence function against differences of the functional itself, and against the one on the whole graph."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import DataError, ParameterError
from dssl.graph.energy.blocks import GraphEnergy
from dssl.kernels.base import RBF
from dssl.learners.laprls.influence import influence_of_labels
from dssl.learners.linear.gram import held_out_ridge
from dssl.learners.losses import HuberHinge, Logistic, Squared, SquaredHinge
from tests import reference
from tests.benchmarks.influence_on_graph import (
    FittedOnGraph,
    FullSpace,
    influence_on_graph,
    whole_graph,
)

KERNEL = RBF(0.6)
DIFFERENCE = 1e-4  # of a central difference
SQUARED = Squared()
LOSSES = [SQUARED, HuberHinge(0.5), Logistic()]


@dataclass(frozen=True)
class Case:
    """A small problem on a graph, and its minimizer by the dense formula."""

    X: np.ndarray
    W: np.ndarray
    K: np.ndarray
    fit: FittedOnGraph
    kind: Any
    folds: list[np.ndarray]

    @property
    def graph(self):
        return whole_graph(GraphEnergy.of(sp.csr_array(self.W), self.kind))

    @property
    def full(self):
        return FullSpace(self.K, self.graph, self.fit.labeled)

    @property
    def p(self):
        return self.fit.weight / self.fit.weight.sum()

    @property
    def N(self):
        """Return the Gram matrix of the labels in the data-dependent kernel."""
        E = self.fit.gamma_I / len(self.K) ** 2 * self.graph.E.toarray()
        return np.linalg.inv(self.fit.gamma_A * np.linalg.inv(self.K) + E)[np.ix_(self.fit.labeled, self.fit.labeled)]

    def without(self, fold):
        """Return the shares of the labels without a fold."""
        kept = self.p.copy()
        kept[fold] = 0
        return kept / kept.sum()

    def minimizer(self, p):
        """Return the values at the labels (l, c), those at all points, and the intercepts, of shares p."""
        fit = self.fit
        G = fit.gamma_I / len(self.K) ** 2 * self.graph.E.toarray()
        found = [reference.manifold_regularization(self.K, G, fit.labeled, y, p, fit.loss, fit.gamma_A,
                                                   fit.intercept is not None) for y in fit.y.T]
        values = np.stack([g + b for g, b in found], axis=1)
        return values[fit.labeled], values, np.array([b for _, b in found])

    def derivative(self, fold):
        """Return the derivative (l, c) of the minimizer as shares go towards those without a fold."""
        dp = self.without(fold) - self.p
        ahead, behind = (self.minimizer(self.p + e * dp)[0] for e in (DIFFERENCE, -DIFFERENCE))
        return (ahead - behind) / (2 * DIFFERENCE)

    def refits(self):
        """Return the value of each label's point by a fit without its fold, (l, c)."""
        found = np.full(self.fit.y.shape, np.nan)
        for fold in self.folds:
            found[fold] = self.minimizer(self.without(fold))[0][fold]
        return found

    def of_labels(self, **asked):
        fit = self.fit
        return influence_of_labels(self.N, fit.y, fit.weight, fit.loss, fit.values[fit.labeled], self.folds,
                                   intercept=fit.intercept is not None, **asked)

    def on_graph(self):
        return influence_on_graph(self.full, self.fit, self.folds)


def case(n=27, m=12, n_folds=3, loss=SQUARED, *, c=2, random_state=0, weighted=True, intercept=True,
         kind="unnormalized", gamma_A=0.02, gamma_I=2.0, folds=None):
    """Return a problem of `m` labels, and its minimizer; unequal weights, so that eps differs from fold to fold."""
    rng = np.random.default_rng([random_state, n, m])
    X = rng.normal(size=(n, 2))
    K, W = KERNEL(X, X), reference.knn_weights(X, 5, 1.0)
    y = np.sin(2 * X[:m, [0]]) + rng.normal(size=(m, c)) / 2
    y = np.where(y > 0, 1.0, -1.0) if loss.of_signs else y
    weight = rng.uniform(0.5, 2, m) if weighted else np.ones(m)
    folds = np.array_split(rng.permutation(m), n_folds) if folds is None else folds
    fit = FittedOnGraph(np.arange(m) * 2, y, weight, loss, gamma_A, gamma_I, np.zeros((n, c)),
                        np.zeros(c) if intercept else None)
    made = Case(X, W, K, fit, kind, folds)
    values, b = made.minimizer(made.p)[1:]
    return replace(made, fit=replace(fit, values=values, intercept=b if intercept else None))


def off_the_corners(made):
    """Return whether no label lies at a corner of the Huberized hinge, some have curvature and some none."""
    at = made.fit.values[made.fit.labeled]
    h, short = made.fit.loss.h, np.abs(1 - made.fit.y * at)
    return np.abs(short - h).min() > 1e-3 and (short < h).any(axis=0).all() and (short > h).any(axis=0).all()


def assert_is_step(found, made, expected):
    """Assert that values without folds are the fitted ones and these steps, to 1e-6 of the largest."""
    steps = found - made.fit.values[made.fit.labeled]
    held_out = np.concatenate(made.folds)
    assert np.abs(expected).max() > 0.01
    assert np.abs(steps[held_out] - expected[held_out]).max() <= 1e-6 * np.abs(expected).max()


# The derivative


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("intercept", [True, False])
def test_influence_of_labels_is_the_derivative_of_the_functional(loss, intercept):
    made = case(loss=loss, intercept=intercept, folds=[np.array([0, 5]), np.array([1, 2, 3, 8]), np.array([4, 9, 10])])
    assert not isinstance(loss, HuberHinge) or off_the_corners(made)
    expected = np.zeros_like(made.fit.y)
    for fold in made.folds:
        expected[fold] = made.derivative(fold)[fold]
    assert_is_step(np.nan_to_num(made.of_labels()), made, expected)





@settings(max_examples=20)
@given(st.sampled_from(LOSSES), st.booleans(), st.sampled_from(["normalized", "unnormalized"]), st.integers(2, 9),
       st.integers(0, 20))
def test_labels_alone_know_what_the_whole_graph_says(loss, intercept, kind, n_folds, random_state):
    made = case(loss=loss, intercept=intercept, kind=kind, n_folds=n_folds, random_state=random_state)
    assert_allclose(made.of_labels(), made.on_graph(), rtol=1e-8, atol=1e-8)



# Newton's steps on the folds' own problems


@settings(max_examples=25)
@given(st.booleans(), st.booleans(), st.integers(2, 12), st.integers(0, 20), st.integers(-3, 1))
def test_a_refined_squared_loss_is_the_refit(intercept, weighted, n_folds, random_state, power):
    """Leave-one-out and folds of unequal sizes included, whatever the penalties."""
    made = case(intercept=intercept, weighted=weighted, n_folds=n_folds, random_state=random_state,
                gamma_A=10.0**power)
    assert_allclose(made.of_labels(refine=1), made.refits(), rtol=1e-9, atol=1e-9)


def test_a_refined_squared_loss_is_the_closed_form():
    made = case(intercept=False, folds=[np.array([0, 5]), np.array([1, 2, 3, 8]), np.array([4, 9, 10, 11, 7])])
    kept = np.array([np.delete(made.fit.weight, fold).sum() for fold in made.folds])
    exact = held_out_ridge(made.N, made.fit.y, made.folds, kept, made.fit.weight, centered=False)
    assert_allclose(made.of_labels(refine=1), exact, rtol=1e-9, atol=1e-9)


def test_a_refined_squared_loss_asks_little_of_the_values():
    made = case()
    moved = replace(made, fit=replace(made.fit, values=made.fit.values + 0.1))
    assert_allclose(moved.of_labels(refine=1), made.refits(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), HuberHinge(0.5), HuberHinge(0.01)], ids=str)
@pytest.mark.parametrize("n_folds", [3, 30])
@pytest.mark.extended_cases("30-HuberHinge(h=0.01)")
def test_refined_values_are_closer_to_refits(loss, n_folds):
    made = case(60, 30, n_folds, loss, c=1, gamma_A=0.05)
    exact = made.refits()
    error = [np.sqrt(np.mean((made.of_labels(refine=steps) - exact) ** 2)) for steps in (0, 1, 40)]
    none = np.sqrt(np.mean((made.fit.values[made.fit.labeled] - exact) ** 2))
    assert error[0] < none
    assert error[1] < (0.1 if isinstance(loss, Logistic) else 1.0) * error[0]
    assert error[2] < 1e-6


# Folds


@pytest.mark.parametrize("refine", [0, 1])
def test_what_is_never_held_out_has_no_value_and_changes_none(refine):
    made = case(loss=Logistic(), folds=[np.array([0, 1]), np.array([2]), np.array([], int)])
    found = made.of_labels(refine=refine)
    assert np.isfinite(found[:3]).all()
    assert np.isnan(found[3:]).all()
    whole = replace(made, folds=[np.array([0, 1]), np.array([2]), np.arange(3, 12)]).of_labels(refine=refine)
    assert_allclose(found[:3], whole[:3], rtol=1e-12)


@pytest.mark.parametrize("refine", [0, 1])
def test_what_is_held_out_again_gets_the_mean(refine):
    made = case(loss=Logistic())
    others = [np.arange(0, 6), np.arange(6, 12)]
    once, twice = made.of_labels(refine=refine), replace(made, folds=others).of_labels(refine=refine)
    found = replace(made, folds=[*made.folds, *others]).of_labels(refine=refine)
    assert_allclose(found, (once + twice) / 2, rtol=1e-10, atol=1e-12)


@settings(max_examples=20)
@given(st.sampled_from([*LOSSES, SquaredHinge()]), st.booleans(), st.integers(0, 1), st.integers(0, 50))
def test_a_weight_of_two_is_two_labels(loss, intercept, refine, random_state):
    """Of one point, in one fold; the unit of weights does not matter either."""
    made = case(loss=loss, intercept=intercept, random_state=random_state, weighted=False)
    rng = np.random.default_rng(random_state)
    times = rng.integers(1, 4, 12)
    weighted = replace(made, fit=replace(made.fit, weight=0.3 * times))
    values, b = weighted.minimizer(weighted.p)[1:]
    weighted = replace(weighted, fit=replace(weighted.fit, values=values, intercept=b if intercept else None))
    line = np.repeat(np.arange(12), times)
    repeated = replace(weighted, folds=[np.flatnonzero(np.isin(line, fold)) for fold in made.folds], fit=replace(
        weighted.fit, labeled=made.fit.labeled[line], y=made.fit.y[line], weight=np.ones(len(line))))
    assert_allclose(weighted.of_labels(refine=refine)[line], repeated.of_labels(refine=refine), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("refine", [0, 1])
def test_columns_are_problems_of_their_own(loss, refine):
    made = case(loss=loss, c=3)
    for column in range(3):
        fit = replace(made.fit, y=made.fit.y[:, [column]], values=made.fit.values[:, [column]],
                      intercept=made.fit.intercept[[column]])
        alone = replace(made, fit=fit)
        assert_allclose(alone.of_labels(refine=refine)[:, 0], made.of_labels(refine=refine)[:, column], rtol=1e-10)


@pytest.mark.parametrize("refine", [0, 2])
def test_labels_without_weight_are_predicted_and_say_nothing(refine):
    made = case(loss=Logistic())
    weight = np.where(np.arange(12) % 4 == 0, 0.0, made.fit.weight)
    made = replace(made, fit=replace(made.fit, weight=weight))
    values, b = made.minimizer(made.p)[1:]
    made = replace(made, fit=replace(made.fit, values=values, intercept=b))
    found = made.of_labels(refine=refine)
    changed = replace(made, fit=replace(made.fit, y=np.where(weight[:, None] == 0, -made.fit.y, made.fit.y)))
    assert np.isfinite(found).all()
    assert_array_equal(changed.of_labels(refine=refine), found)


def test_an_intercept_that_no_label_holds_stays():
    """All margins are short of a narrow corner: nothing has curvature, and the derivative in b is not determined."""
    made = case(loss=HuberHinge(0.01), gamma_A=100.0, gamma_I=0.0)
    made = replace(made, fit=replace(made.fit, intercept=np.zeros(2), values=np.zeros((27, 2))))
    assert np.abs(made.of_labels()).max() < 0.05
    assert np.abs(made.of_labels(refine=30) - made.refits()).max() < 1e-6


def test_what_cannot_be_is_refused():
    made = case()
    with pytest.raises(ParameterError, match="fold 1 holds out all labels"):
        replace(made, folds=[np.arange(3), np.arange(12)]).of_labels()
    fit = made.fit
    with pytest.raises(DataError, match="negative eigenvalue"):
        influence_of_labels(-made.N, fit.y, fit.weight, fit.loss, fit.values[fit.labeled], made.folds, intercept=True)
