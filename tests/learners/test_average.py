"""Leave-one-out values of an average of kernels, whose shares the label that is left out has no part in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.kernels.base import RBF
from dssl.learners.average import (
    LabelColumns,
    fit_member,
    held_out_average,
    label_groups,
    leave_one_out_shares,
    shares_of,
)
from dssl.learners.linear.gram import training_means
from dssl.learners.target.target import Classes, Quantities


def problem(kind, n_labels=12):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_labels, 2))
    target = Quantities(np.arange(n_labels), X[:, 0] + rng.normal(size=n_labels)) if kind == "quantities" else Classes(
        np.arange(n_labels), np.arange(n_labels) % 3, np.arange(3))
    return [(RBF(width)(X, X), penalty) for width in (0.5, 1.0, 4.0) for penalty in (0.01, 1.0)], target


@pytest.mark.parametrize("weighted", [False, True])
def test_each_quantity_is_predicted_as_by_fits_without_it(weighted):
    kernels, target = problem("quantities")
    n_labels, prior = len(target.labeled), np.linspace(1, 2, len(kernels))
    weight = np.linspace(0.5, 2, n_labels) if weighted else None
    members = [fit_member(K, K, LabelColumns(target, weight), penalty) for K, penalty in kernels]
    shares = leave_one_out_shares(members, target, prior)
    for label in range(n_labels):
        kept = np.delete(np.arange(n_labels), label)
        part, kept_weight = target.take(kept), None if weight is None else weight[kept]
        labels = LabelColumns(part, kept_weight)
        fits = [fit_member(K[np.ix_(kept, kept)], K[:, kept], labels, penalty) for K, penalty in kernels]
        residuals = [((fit.held_out - part.indicators()) ** 2).sum(axis=1) for fit in fits]
        scale = 1.0 if weight is None else kept_weight / weight.mean()
        assert_allclose([member.losses[label] for member in members], [(scale * e).sum() for e in residuals], rtol=1e-7)
        if weight is None:
            assert_allclose(shares[:, label], shares_of([fit.held_out for fit in fits], part, None, prior), rtol=1e-6)


@pytest.mark.parametrize("n_labels", [3, 12])
@pytest.mark.parametrize("weighted", [False, True])
def test_functions_of_classes_without_a_group_are_those_of_fits_without_it(weighted, n_labels):
    kernels, target = problem("classes", n_labels)
    weight = np.linspace(0.5, 2, n_labels) if weighted else None
    for K, penalty in kernels:
        member = fit_member(K, K, LabelColumns(target, weight), penalty, grouped=True)
        for group, values in zip(label_groups(n_labels), member.group_held_out, strict=True):
            kept = np.setdiff1d(np.arange(n_labels), group)
            part, kept_weight = target.take(kept), None if weight is None else weight[kept]
            fit = fit_member(K[np.ix_(kept, kept)], K[:, kept], LabelColumns(part, kept_weight), penalty)
            means = training_means(part.indicators(), list(np.arange(len(kept))[:, None]), kept_weight)
            assert_allclose(values[kept], (fit.held_out - means - member.center) / member.scale, atol=1e-8)
            assert np.isnan(values[group]).all()


def test_no_label_weighs_the_kernels_that_predict_it():
    """Of noise many functions are tried: the shares of all labels flatter, and those without each do not."""
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(15):
        target = Quantities(np.arange(20), rng.normal(size=20))
        kernels = [RBF(width)(*[rng.normal(size=(20, 4))] * 2) for width in np.geomspace(0.3, 3, 40)]
        members = [fit_member(K, K, LabelColumns(target), 0.1) for K in kernels]
        nested = held_out_average(members, leave_one_out_shares(members, target))
        shares = shares_of([member.held_out for member in members], target, None)
        flattered = np.tensordot(shares, np.array([member.standardized for member in members]), 1)
        errors.append([((values - target.columns()) ** 2).mean() for values in (flattered, nested)])
    flattered, nested = np.sqrt(np.mean(errors, axis=0))
    assert flattered < 0.97
    assert nested > 1.0


def test_beyond_some_labels_the_residuals_of_others_are_those_of_the_whole():
    kernels, target = problem("quantities", 60)
    exact = fit_member(*[kernels[0][0]] * 2, LabelColumns(target), 1.0)
    found = fit_member(*[kernels[0][0]] * 2, LabelColumns(target), 1.0, max_leave_two_out=10)
    assert_allclose(found.losses, exact.losses, rtol=0.1)


def test_a_function_that_rounding_alone_keeps_from_being_constant_is_not_divided_by_its_deviation():
    """The graph of a column with two values has such a kernel: its functions are constant on all points."""
    target = Classes(np.arange(30), np.arange(30) % 3 // 2, np.arange(2))
    K = np.full((30, 30), 211_007.3431)
    K[:, 7:] += 1e-11
    member = fit_member(K[:, :1] + np.zeros((30, 30)), K, LabelColumns(target), 0.1)
    assert member.scale == 1
    assert np.abs(member.standardized).max() < 1
