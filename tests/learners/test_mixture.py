"""What classifiers count for in an average, by the probabilities that they give to held-out labels."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dssl.kernels.base import RBF
from dssl.learners.average import GROUPS, LabelColumns, fit_member, held_out_average
from dssl.learners.on_graph.blend import label_probabilities, member_shares, mixture_shares
from dssl.learners.target.target import Classes, Quantities

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
