"""The influence function against differences of the functional itself, its fast path, and the formulas as printed."""

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
from dssl.learners.held_out.closed_form import held_out_ridge
from dssl.learners.held_out.influence import influence_of_labels
from dssl.learners.losses import HuberHinge, Logistic, Squared, SquaredHinge
from tests import reference
from tests.in_pairs import in_pairs
from tests.influence_on_graph import (
    FittedOnGraph,
    FullSpace,
    NystromSpace,
    graph_parts,
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

    def nystrom(self, landmarks=None):
        return NystromSpace.of(KERNEL, self.X, self.graph, self.fit.labeled, landmarks)

    def without(self, fold):
        """Return the shares of the labels without a fold."""
        kept = self.p.copy()
        kept[fold] = 0
        return kept / kept.sum()

    def minimizer(self, p, G=None):
        """Return the values at the labels (l, c), those at all points, and the intercepts, of shares p."""
        fit = self.fit
        G = fit.gamma_I / len(self.K) ** 2 * self.graph.E.toarray() if G is None else G
        found = [reference.manifold_regularization(self.K, G, fit.labeled, y, p, fit.loss, fit.gamma_A,
                                                   fit.intercept is not None) for y in fit.y.T]
        values = np.stack([g + b for g, b in found], axis=1)
        return values[fit.labeled], values, np.array([b for _, b in found])

    def derivative(self, fold, part=None):
        """Return the derivative (l, c) of the minimizer as shares, and the graph, go towards those without a fold.

        With equal parts it is eps times that of `(1 - e) P + e P_i` in e, at e = 0, Laplacians mixed linearly.
        """
        dp, n = self.without(fold) - self.p, len(self.K)
        G = self.fit.gamma_I / n**2 * self.graph.E.toarray()
        dG = np.zeros((n, n))
        if part is not None:
            dG += part.n / (n - part.n) * G
            dG[np.ix_(part.rows, part.rows)] -= (part.n / (n - part.n) * self.fit.gamma_I / part.n**2
                                                 * part.E.toarray())
        ahead, behind = (self.minimizer(self.p + e * dp, G + e * dG)[0] for e in (DIFFERENCE, -DIFFERENCE))
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

    def on_graph(self, space=None, parts=None):
        return influence_on_graph(space or self.full, self.fit, self.folds, parts)

    def parts(self):
        return graph_parts(sp.csr_array(self.W), self.kind, self.fit.labeled, self.folds)


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
    held = np.concatenate(made.folds)
    assert np.abs(expected).max() > 0.01
    assert np.abs(steps[held] - expected[held]).max() <= 1e-6 * np.abs(expected).max()


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


@in_pairs({
    "loss": LOSSES,
    "intercept, kind": [(False, "unnormalized"), (True, "normalized")],
    "unlabeled": [True, False]})
def test_influence_on_the_graph_is_the_derivative_of_the_functional(loss, intercept, kind, unlabeled):
    made = case(loss=loss, intercept=intercept, kind=kind)
    assert not isinstance(loss, HuberHinge) or off_the_corners(made)
    parts = made.parts() if unlabeled else None
    expected = np.zeros_like(made.fit.y)
    for number, fold in enumerate(made.folds):
        expected[fold] = made.derivative(fold, parts and parts[number])[fold]
    assert_is_step(made.on_graph(parts=parts), made, expected)
    assert_is_step(made.on_graph(made.nystrom(np.arange(27)), parts), made, expected)


def test_equal_parts_are_the_mixture_of_the_paper():
    """eps = -1 / (t - 1): `(1 - e) P + e P_i`, labels and Laplacians, differentiated at e = 0."""
    made = case(24, 12, 4, weighted=False, c=1)
    parts, n, t = made.parts(), 24, 4
    assert [part.n for part in parts] == [6] * 4
    G = made.fit.gamma_I / n**2 * made.graph.E.toarray()
    found = made.on_graph(parts=parts)
    for fold, part in zip(made.folds, parts, strict=True):
        p_i, G_i = np.zeros(12), np.zeros((n, n))
        p_i[fold] = t / 12
        G_i[np.ix_(part.rows, part.rows)] = made.fit.gamma_I / part.n**2 * part.E.toarray()
        ahead, behind = (made.minimizer((1 - e) * made.p + e * p_i, (1 - e) * G + e * G_i)[0]
                         for e in (DIFFERENCE, -DIFFERENCE))
        bif = (ahead - behind) / (2 * DIFFERENCE)
        step = (found - made.fit.values[made.fit.labeled])[fold]
        assert np.abs(step + bif[fold] / (t - 1)).max() <= 1e-6 * np.abs(step).max()


# Two forms, two paths


@settings(max_examples=20)
@given(st.sampled_from(LOSSES), st.booleans(), st.sampled_from(["normalized", "unnormalized"]), st.integers(2, 9),
       st.integers(0, 20))
def test_labels_alone_know_what_the_whole_graph_says(loss, intercept, kind, n_folds, random_state):
    made = case(loss=loss, intercept=intercept, kind=kind, n_folds=n_folds, random_state=random_state)
    assert_allclose(made.of_labels(), made.on_graph(), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("inductive", [True, False])
@pytest.mark.extended_cases("False-HuberHinge(h=0.5)", "False-Logistic()",
    "True-HuberHinge(h=0.5)")
def test_the_fast_path_is_the_dense_one_with_all_landmarks_and_tends_to_it(loss, inductive):
    made = case(100, 20, 5, loss, kind="normalized", gamma_I=20.0)
    parts = made.parts() if inductive else None
    dense = made.on_graph(parts=parts)
    assert_allclose(made.on_graph(made.nystrom(np.arange(100)), parts), dense, rtol=1e-8, atol=1e-8)
    order = np.random.default_rng(0).permutation(100)
    errors = [np.abs(made.on_graph(made.nystrom(order[:c]), parts) - dense).max() for c in (10, 30, 60, 90)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05 * errors[0]
    default = made.on_graph(made.nystrom(), parts)
    assert made.nystrom().Phi.shape == (100, 10)
    assert np.abs(default - dense).max() < 0.5 * np.abs(dense - made.fit.values[made.fit.labeled]).max()


def test_the_fast_path_holds_no_matrix_of_all_points():
    """Nor of all points and labels: the kernel of 600 points and 200 labels in blocks."""
    rng, seen = np.random.default_rng(0), []
    X, labeled = rng.normal(size=(600, 2)), np.arange(0, 600, 3)
    graph = whole_graph(GraphEnergy.of(sp.csr_array(reference.knn_weights(X, 5)), "normalized"))

    def kernel(A, B):
        seen.append((len(A), len(B)))
        return KERNEL(A, B)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.influence_on_graph.BLOCK_BYTES", 8 * 200 * 70)
        blocks = NystromSpace.of(kernel, X, graph, labeled)
        assert seen[0] == (600, 25)
        assert max(height for height, _ in seen[1:]) == 70
        assert_allclose(blocks.of_points(np.arange(0, 600, 2), np.ones((300, 1)))[:200, 0],
                        KERNEL(X[labeled], X[::2]).sum(axis=1), rtol=1e-12)
    assert max(height for height, _ in seen[1:]) == 70
    assert_allclose(blocks.K, NystromSpace.of(KERNEL, X, graph, labeled).K, rtol=1e-12, atol=1e-12)


def test_points_may_be_sparse():
    made = case(loss=Logistic())
    sparse = NystromSpace.of(KERNEL, sp.csr_array(made.X), made.graph, made.fit.labeled)
    assert_allclose(made.on_graph(sparse), made.on_graph(made.nystrom()), rtol=1e-8)


# The formulas as printed


def by_theorem_1(made, parts, inverse_H):
    """Return the values without each fold, `f + B / (1 - t)`, by Theorem 1 with these inverses of H, one a column."""
    fit, t = made.fit, len(made.folds)
    found = np.empty_like(fit.y)
    for column, inverse in enumerate(inverse_H):
        f = fit.values[:, column]
        mu = fit.loss.gradient(f[fit.labeled], fit.y[:, column])
        for fold, part in zip(made.folds, parts, strict=True):
            labels, rows = fit.labeled[fold], part.rows
            B = inverse @ (-made.K[:, labels] @ mu[fold] / len(fold) - 2 * fit.gamma_A * f
                           - 2 * fit.gamma_I / part.n**2 * made.K[:, rows] @ (part.E @ f[rows]))
            found[fold, column] = (f + B / (1 - t))[labels]
    return found


def dense_inverse(made, column, *, printed=False):
    """Return H^-1 of one column: of `K F` for the labels' term, or as printed, of `J K F`."""
    fit, n, m = made.fit, len(made.K), len(made.fit.labeled)
    F = np.zeros(n)
    F[fit.labeled] = fit.loss.curvature(fit.values[fit.labeled, column], fit.y[:, column])
    J = np.isin(np.arange(n), fit.labeled) if printed else np.ones(n)
    return np.linalg.inv(J[:, None] * made.K * F / m + 2 * fit.gamma_A * np.eye(n)
                         + 2 * fit.gamma_I / n**2 * made.K @ made.graph.E.toarray())


def woodbury_inverse(made, column, *, printed=()):
    """Return H^-1 of one column by Woodbury's identity with all n columns of K, some factors as the paper prints them.

    printed : "blocks", T^-1 without its block below the diagonal, and with K / (2 l) for LapRLS; "end", T instead of
    T^-1 at the end.
    """
    fit, n, m = made.fit, len(made.K), len(made.fit.labeled)
    F = fit.loss.curvature(fit.values[fit.labeled, column], fit.y[:, column])
    first = np.concatenate([fit.labeled[F > 0], np.setdiff1d(np.arange(n), fit.labeled[F > 0])])
    K, E, F = made.K[np.ix_(first, first)], made.graph.E.toarray()[np.ix_(first, first)], F[F > 0]
    a = len(F)
    T = 2 * fit.gamma_A * np.eye(n)
    T[:, :a] += K[:, :a] * F / m
    inverse_T = np.eye(n) / (2 * fit.gamma_A)
    inverse_T[:a, :a] = np.linalg.inv(T[:a, :a])
    inverse_T[a:, :a] = -T[a:, :a] @ inverse_T[:a, :a] / (2 * fit.gamma_A)
    assert_allclose(inverse_T @ T, np.eye(n), atol=1e-8)
    if "blocks" in printed:
        inverse_T[a:, :a] = 0
        if fit.loss == SQUARED:
            inverse_T[:a, :a] = np.linalg.inv(K[:a, :a] / (2 * m) + 2 * fit.gamma_A * np.eye(a))
    h, C, P = 2 * fit.gamma_I / n**2, K, K
    inner = np.linalg.inv(P + h * C.T @ E @ inverse_T @ C)
    H = inverse_T - h * inverse_T @ C @ inner @ C.T @ E @ (T if "end" in printed else inverse_T)
    back = np.argsort(first)
    return H[np.ix_(back, back)]


@pytest.mark.parametrize("loss", [SQUARED, HuberHinge(0.5)], ids=str)
def test_the_formulas_as_printed_fail_where_the_corrected_ones_agree(loss):
    """`J K F` in H, the block diagonal T^-1, and T at the end of Woodbury's identity: each alone."""
    made = case(24, 12, 4, loss, weighted=False, intercept=False, gamma_I=20.0)
    parts, at = made.parts(), made.fit.values[made.fit.labeled]
    expected = np.empty_like(at)
    for fold, part in zip(made.folds, parts, strict=True):
        expected[fold] = (at + made.derivative(fold, part))[fold]

    def error(inverse, **printed):
        found = by_theorem_1(made, parts, [inverse(made, column, **printed) for column in range(2)])
        return np.abs(found - expected).max() / np.abs(expected - at).max()

    assert error(dense_inverse) < 1e-6
    assert error(woodbury_inverse) < 1e-6
    assert error(dense_inverse, printed=True) > 0.1
    assert error(woodbury_inverse, printed=["blocks"]) > 0.1
    assert error(woodbury_inverse, printed=["end"]) > 0.1
    assert_allclose(made.on_graph(parts=parts), by_theorem_1(made, parts, [dense_inverse(made, 0), dense_inverse(
        made, 1)]), rtol=1e-9, atol=1e-9)


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
    if not refine:
        assert_array_equal(np.isnan(made.on_graph()), np.isnan(found))


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
    for one, other in ((weighted.of_labels(refine=refine), repeated.of_labels(refine=refine)),
                       (weighted.on_graph(), repeated.on_graph()),
                       (weighted.on_graph(weighted.nystrom()), repeated.on_graph(repeated.nystrom()))):
        assert_allclose(one[line], other, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("refine", [0, 1])
def test_columns_are_problems_of_their_own(loss, refine):
    made = case(loss=loss, c=3)
    for column in range(3):
        fit = replace(made.fit, y=made.fit.y[:, [column]], values=made.fit.values[:, [column]],
                      intercept=made.fit.intercept[[column]])
        alone = replace(made, fit=fit)
        assert_allclose(alone.of_labels(refine=refine)[:, 0], made.of_labels(refine=refine)[:, column], rtol=1e-10)
        assert_allclose(alone.on_graph()[:, 0], made.on_graph()[:, column], rtol=1e-10)


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
    assert np.abs(made.on_graph()).max() < 0.05
    assert np.abs(made.of_labels(refine=30) - made.refits()).max() < 1e-6


def test_what_leaves_the_graph_is_dealt_once():
    made = case(n_folds=4)
    parts = made.parts()
    rows = np.concatenate([part.rows for part in parts])
    assert_array_equal(np.sort(rows), np.arange(27))
    assert max(part.n for part in parts) - min(part.n for part in parts) <= 1
    for fold, part in zip(made.folds, parts, strict=True):
        assert np.isin(made.fit.labeled[fold], part.rows).all()
        assert_allclose(part.E.toarray(), reference.laplacian(made.W[np.ix_(part.rows, part.rows)]), atol=1e-12)
    assert any(not np.array_equal(part.rows, other.rows) for part, other in zip(parts, graph_parts(
        sp.csr_array(made.W), made.kind, made.fit.labeled, made.folds, random_state=1), strict=True))


def test_vertices_count_as_the_points_that_they_are():
    """Each point twice, its copies joined to all neighbors of both: the vertices with multiplicity 2 say the same."""
    made = case(kind="normalized", loss=Logistic())
    two = np.full(27, 2.0)
    graph = whole_graph(GraphEnergy.of(sp.csr_array(made.W), "normalized", two), two)
    copies = np.tile(np.arange(27), 2)
    doubled = whole_graph(GraphEnergy.of(sp.csr_array(made.W[np.ix_(copies, copies)]), "normalized"))
    parts = graph_parts(sp.csr_array(made.W), "normalized", made.fit.labeled, made.folds, multiplicity=two)
    double_parts = []
    for part in parts:
        rows = np.concatenate([part.rows, part.rows + 27])
        energy = GraphEnergy.of(sp.csr_array(made.W[np.ix_(copies[rows], copies[rows])]), "normalized")
        double_parts.append(replace(whole_graph(energy), rows=rows))
    assert [part.n for part in parts] == [part.n for part in double_parts]
    one = influence_on_graph(FullSpace(made.K, graph, made.fit.labeled), made.fit, made.folds, parts)
    other = influence_on_graph(FullSpace(made.K[np.ix_(copies, copies)], doubled, made.fit.labeled),
                               replace(made.fit, values=made.fit.values[copies]), made.folds, double_parts)
    assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_what_cannot_be_is_refused():
    made = case()
    with pytest.raises(ParameterError, match="fold 1 holds out all labels"):
        replace(made, folds=[np.arange(3), np.arange(12)]).of_labels()
    with pytest.raises(ParameterError, match="fold 0 holds out all labels"):
        replace(made, folds=[np.arange(12)]).on_graph()
    fit = made.fit
    with pytest.raises(DataError, match="negative eigenvalue"):
        influence_of_labels(-made.N, fit.y, fit.weight, fit.loss, fit.values[fit.labeled], made.folds, intercept=True)
    for parts in (made.parts()[:2], [made.graph] * 3):
        with pytest.raises(ParameterError, match="a part of the graph leaves with each fold"):
            made.on_graph(parts=parts)
