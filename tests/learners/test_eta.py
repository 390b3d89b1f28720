"""The weight of the graph: numbers, and the mean of kernels of several, with shares by leave-one-out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dssl.base.errors import ParameterError
from dssl.kernels.base import RBF
from dssl.kernels.deformed import AUTO, KernelMean, deform, require_eta
from dssl.learners.deformed import ETAS, EVEN, block_of_gram, deform_by, eta_prior, eta_shares, held_out_sample
from dssl.learners.target.target import Classes, Quantities


def problem(random_state, s=12, m=8, n_classes=2):
    """Return S (s, 2), a covariance on it, labeled points (m, 2) and their target."""
    rng = np.random.default_rng(random_state)
    X_S, root = rng.normal(size=(s, 2)), rng.normal(size=(s, s))
    return X_S, root @ root.T + 0.1 * np.eye(s), np.concatenate([X_S[:m - 2], rng.normal(size=(2, 2))]), Classes(
        np.arange(m), np.arange(m) % n_classes, np.arange(n_classes))


def by_refits(K, Y, weight):
    """Return the values of each label by ridge regression, penalty 0.1 of the mean diagonal, of the others."""
    found = np.zeros(Y.shape)
    scale = np.average(np.diagonal(K), weights=weight)
    for i in range(len(K)):
        kept = np.delete(np.arange(len(K)), i)
        mean = np.average(Y[kept], axis=0, weights=weight[kept])
        alpha = np.linalg.solve(K[np.ix_(kept, kept)] / scale + np.diag(0.1 / weight[kept]), Y[kept] - mean)
        found[i] = K[i, kept] @ alpha / scale + mean
    return found


@given(st.integers(0, 2**20), st.booleans(), st.booleans(), st.sampled_from([None, 1.2, 1.6, 40.0]))
def test_shares_are_by_what_refits_without_each_label_get_wrong(random_state, weighted, quantities, concentration):
    X_S, A, points, target = problem(random_state)
    rng = np.random.default_rng(random_state)
    weight = rng.uniform(0.5, 2, len(points)) if weighted else None
    if quantities:
        target = Quantities(target.labeled, rng.normal(size=(len(points), 2)))
    grams = [deform(RBF(1.0), X_S, A, eta)(points, points) for eta in ETAS]
    w, Y = np.ones(len(points)) if weight is None else weight, target.indicators()
    losses = np.array([float(w / w.mean() @ ((by_refits(K, Y, w) - Y) ** 2).sum(axis=1)) for K in grams])
    unit = losses.min() / len(Y) if quantities else 1.0
    expected = eta_prior(concentration) * np.exp(-(losses - losses.min()) / (2 * unit))
    shares = eta_shares(map(block_of_gram, grams), target, weight, concentration)
    assert_allclose(shares, expected / expected.sum(), rtol=1e-6)


def test_with_one_label_a_class_the_prior_decides():
    grams = [np.eye(3) * scale for scale in (1.0, 0.2, 0.1)]
    expected = eta_prior(3.0) / eta_prior(3.0).sum()
    target = Classes(np.arange(3), np.arange(3), np.arange(3))
    assert_allclose(eta_shares(map(block_of_gram, grams), target, None, 3.0), expected)
    quantity = Quantities(np.arange(1), np.ones(1))
    assert_allclose(eta_shares([block_of_gram(K[:1, :1]) for K in grams], quantity, None, 3.0), expected)


def test_the_less_structure_the_more_the_base_kernel_counts_for():
    of_base = [eta_prior(concentration)[0] for concentration in (100.0, 3.0, EVEN, EVEN / 2, 0.1, 0.0)]
    assert of_base == sorted(of_base)
    assert of_base[2:] == pytest.approx([1, 4, 100, 100])
    assert all(eta_prior(concentration)[1:].tolist() == [0.5, 0.5] for concentration in (None, 2.0))


def many_labels(n_classes=3, m=60):
    X_S, A, _, _ = problem(3)
    points = np.random.default_rng(1).normal(size=(m, 2))
    sizes = [m - 6 * (n_classes - 1), *[6] * (n_classes - 1)]
    return X_S, A, points, Classes(np.arange(m), np.repeat(np.arange(n_classes), sizes), np.arange(n_classes))


def test_many_labels_are_sampled_with_the_frequencies_of_their_classes(monkeypatch):
    *_, target = many_labels(m=600)
    monkeypatch.setattr("dssl.learners.deformed.MAX_HELD_OUT", 100)
    monkeypatch.setattr("dssl.learners.deformed.MAX_TRAINING", 300)
    test, train = held_out_sample(target, 7)
    assert (len(test), len(train), len(np.intersect1d(test, train))) == (100, 300, 0)
    assert np.bincount(target.coded[test]).tolist() == [98, 1, 1]
    assert np.bincount(target.coded[train]).tolist() == [294, 3, 3]
    again, other = held_out_sample(target, 7), held_out_sample(target, 8)
    assert np.array_equal(test, again[0])
    assert not np.array_equal(test, other[0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("quantities", [False, True])
def test_the_shares_of_many_labels_are_by_what_a_fit_to_the_others_gets_wrong_on_a_sample(
        weighted, quantities, monkeypatch):
    monkeypatch.setattr("dssl.learners.deformed.MAX_EXACT", 50)
    X_S, A, points, target = many_labels()
    rng = np.random.default_rng(4)
    if quantities:
        target = Quantities(target.labeled, rng.normal(size=(60, 2)))
    weight = rng.uniform(0.5, 2, 60) if weighted else None
    w, Y = np.ones(60) if weight is None else weight, target.indicators()
    test, train = held_out_sample(target, 0)
    losses, grams = [], [deform(RBF(1.0), X_S, A, eta)(points, points) for eta in ETAS]
    for K in grams:
        scale = np.average(np.diagonal(K)[train], weights=w[train])
        mean = np.average(Y[train], axis=0, weights=w[train])
        alpha = np.linalg.solve(K[np.ix_(train, train)] / scale + np.diag(0.1 / w[train]), Y[train] - mean)
        residuals = K[np.ix_(test, train)] @ alpha / scale + mean - Y[test]
        losses.append(w[test] / w[test].mean() @ (residuals**2).sum(axis=1))
    unit = min(losses) / len(test) if quantities else 1.0
    expected = eta_prior(1.5) * np.exp(-(np.array(losses) - min(losses)) / (2 * unit))
    expected /= expected.sum()
    assert_allclose(eta_shares(map(block_of_gram, grams), target, weight, 1.5), expected, rtol=1e-6)
    found, K = deform_by(AUTO, RBF(1.0), X_S, A, points, target, weight, 1.5)
    assert_allclose(found.shares, expected, rtol=1e-6)
    assert_allclose(K, sum(share * each / np.average(np.diagonal(each), weights=w)
                           for share, each in zip(expected, grams, strict=True)), atol=1e-9)
    assert np.array_equal(K, K.T)


@pytest.mark.parametrize("eta", [0.0, 3.0, AUTO])
def test_the_expansion_in_the_base_kernel_is_the_function(eta):
    X_S, A, points, target = problem(0)
    found, K = deform_by(eta, RBF(1.0), X_S, A, points, target)
    new, coef = np.random.default_rng(1).normal(size=(6, 2)), np.random.default_rng(2).normal(size=(len(points), 3))
    base, centers, expanded = found.kernel.expansion(points, coef)
    assert_allclose(base(new, centers) @ expanded, found.kernel(new, points) @ coef, atol=1e-10)
    assert_allclose(found.kernel(points, points), K, atol=1e-12)
    assert_allclose(found.kernel.diagonal(points), np.diagonal(K), atol=1e-12)
    assert len(centers) == len(points) + (len(X_S) if eta else 0)
    if eta == AUTO:
        assert np.trace(K) / len(points) == pytest.approx(1), "each part counts for a mean diagonal of its share"
        assert [(row["eta"], row["share"]) for row in found.described()] == list(zip(ETAS, found.shares, strict=True))
        _, given = deform_by(eta, RBF(1.0), X_S, A, points, target, shares=np.array([1.0, 0.0, 0.0]))
        assert_allclose(given, RBF(1.0)(points, points), atol=1e-12)


@pytest.mark.parametrize("eta", [0.0, 3.0, AUTO])
def test_what_the_graph_and_what_the_base_kernel_says_sum_to_the_function_at_the_landmarks(eta):
    X_S, A, points, target = problem(0)
    found, _ = deform_by(eta, RBF(1.0), X_S, A, points, target)
    coef = np.random.default_rng(2).normal(size=(len(points), 2))
    off, values = found.at_other_points(X_S, points, coef)
    assert isinstance(off, KernelMean)
    assert_allclose(off(X_S, points) @ coef + values, found.kernel(X_S, points) @ coef, atol=1e-10)
    assert values.any() == (eta != 0)


@pytest.mark.parametrize("eta", [-1.0, 1e9, np.nan, "best", True, None])
def test_other_etas_are_refused(eta):
    with pytest.raises(ParameterError, match="eta="):
        require_eta(eta)
