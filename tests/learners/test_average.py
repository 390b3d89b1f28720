"""Averages: leave-one-out values of one of kernels, and what classifiers count for in one of probabilities."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.kernels.base import RBF
from dssl.learners.average import (
    GROUPS,
    LabelColumns,
    fit_member,
    held_out_average,
    label_groups,
    leave_one_out_shares,
    shares_of,
)
from dssl.learners.linear.gram import training_means
from dssl.learners.on_graph.blend import label_probabilities, member_shares, mixture_shares
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


# What classifiers count for in an average, by the probabilities that they give to held-out labels


PRIOR = np.array([1.0, 1.0, 2.0])


def labels_of(codes):
    return Classes(np.arange(len(codes)), codes, np.arange(int(codes.max()) + 1))


def scores_of(codes, right, rng):
    """Return scores (l, 2) that are of the right sign at some labels, (l,) bool, and small noise at the others."""
    sign = np.where(right, 2.0 * codes - 1, 0.3 * rng.normal(size=len(codes)))
    return np.column_stack([-sign, sign])


def test_shares_are_those_of_em_from_the_prior_with_a_step_a_label_beyond_the_first_of_its_class():
    rng = np.random.default_rng(0)
    target, weight = labels_of(np.arange(11) % 2), np.linspace(0.5, 2, 11)
    scores = rng.normal(size=(3, 11, 2))
    P = label_probabilities(scores, target, weight, np.arange(11))
    shares = PRIOR / PRIOR.sum()
    for _ in range(9):
        responsible = shares[:, None] * P / (shares @ P)
        shares = (responsible * weight).sum(axis=1) / weight.sum()
    assert_allclose(mixture_shares(scores, target, weight, PRIOR), shares, rtol=1e-10)


def test_a_single_label_a_class_says_nothing():
    scores = np.random.default_rng(0).normal(size=(3, 4, 4))
    assert_allclose(mixture_shares(scores, labels_of(np.arange(4)), None, PRIOR), PRIOR / 4)
    labels = LabelColumns(labels_of(np.arange(4)))
    members = [fit_member(RBF(width)(*[np.eye(4)] * 2), np.eye(4), labels, 0.1, grouped=True)
               for width in (0.5, 1.0, 2.0)]
    shares, of_label = member_shares(members, labels_of(np.arange(4)), None, PRIOR)
    assert_allclose(np.column_stack([shares, of_label]), np.repeat(PRIOR[:, None] / 4, 5, axis=1))


def test_many_labels_part_classifiers_that_are_right_from_those_that_are_not():
    rng = np.random.default_rng(0)
    codes, places = rng.integers(0, 2, 100), np.arange(100)
    scores = np.array([scores_of(codes, places < right, rng) for right in (95, 60, 0)])
    shares = mixture_shares(scores, labels_of(codes), None, np.ones(3))
    assert shares[0] > 0.9
    assert shares[0] > shares[1] > shares[2]


def test_classifiers_that_are_right_at_different_labels_are_both_kept():
    """Though all labels together are far more probable by one of them."""
    rng = np.random.default_rng(0)
    codes, place = rng.integers(0, 2, 200), np.arange(200) % 10
    target, scores = labels_of(codes), np.array([scores_of(codes, right, rng) for right in (place < 6, place >= 5)])
    likelihoods = np.log(label_probabilities(scores, target, None, np.arange(200))).sum(axis=1)
    assert likelihoods[0] > likelihoods[1] + 3
    assert mixture_shares(scores, target, None, np.ones(2)).min() > 0.2


def test_what_is_wanted_of_the_average_does_not_weigh():
    target = labels_of(np.repeat([0, 1], [30, 10]))
    scores = np.random.default_rng(0).normal(size=(3, 40, 2))
    wanted = replace(target, scoring="balanced_accuracy")
    assert_allclose(mixture_shares(scores, wanted, None, PRIOR), mixture_shares(scores, target, None, PRIOR))


@pytest.mark.parametrize("kind", ["classes", "quantities"])
def test_of_noise_labels_are_predicted_by_shares_that_do_not_flatter(kind):
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(8):
        codes = rng.permutation(np.arange(30) % 2)
        target = labels_of(codes) if kind == "classes" else Quantities(np.arange(30), rng.normal(size=30))
        kernels = [RBF(width)(*[rng.normal(size=(30, 4))] * 2) for width in np.geomspace(0.3, 3, 20)]
        members = [fit_member(K, K, LabelColumns(target), 0.1, grouped=True) for K in kernels]
        shares, of_label = member_shares(members, target, None)
        truth = target.indicators() - target.indicators().mean(axis=0)
        losses.append([(held_out_average(members, own) * truth).mean()
                       for own in (np.repeat(shares[:, None], 30, axis=1), of_label)])
    flattered, nested = np.mean(losses, axis=0)
    assert flattered > 0.02
    assert nested < flattered / 3


def test_the_shares_that_predict_a_group_do_not_depend_on_its_labels():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(20, 2)), np.arange(20) % 2
    kernels = [RBF(width)(X, X) for width in (0.3, 1.0, 3.0)]
    changed = codes.copy()
    changed[GROUPS + 1] = 1 - changed[GROUPS + 1]

    def shares(codes):
        target = labels_of(codes)
        labels = LabelColumns(target)
        return member_shares([fit_member(K, K, labels, 0.1, grouped=True) for K in kernels], target, None)[1]

    of_label, of_changed = shares(codes), shares(changed)
    assert_allclose(of_label[:, 1::GROUPS], of_changed[:, 1::GROUPS], atol=0.01)
    assert np.abs(of_label - of_changed).max() > 0.02
