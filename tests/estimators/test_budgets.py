"""A memory budget chooses the landmarks, and one that is too small is refused with one that is not."""

import re

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dssl import ClusterKernelSVC, LapRLSClassifier, LapSVC, SemiSupervisedClassifier
from dssl.base.errors import BudgetError

CASES = {LapSVC: lambda fitted: fitted.evidence_["n_landmarks"],
         LapRLSClassifier: lambda fitted: fitted.evidence_["landmarks"]["count"],
         ClusterKernelSVC: lambda fitted: fitted.evidence_["landmarks"]}


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(1500, noise=0.1, random_state=0)
    known = np.full(1500, -1)
    known[:40] = y[:40]
    return X, y, known


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
@pytest.mark.extended_cases("ClusterKernelSVC", "LapSVC")
def test_a_smaller_budget_has_a_smaller_rank_and_a_larger_one_the_usual(moons, kind):
    X, y, known = moons
    ranks, errors = [], []
    for budget in ("10MB", "30MB", "400MB"):
        fitted = kind(memory_budget=budget).fit(X, known)
        ranks.append(CASES[kind](fitted))
        errors.append((fitted.transduction_ != y).mean())
    assert ranks[0] < ranks[1] < ranks[2]
    assert ranks[2] == min(1500, 2000 if kind is ClusterKernelSVC else 1000)
    assert errors[-1] < 0.02
    assert errors == sorted(errors, reverse=True) or max(errors) < 0.02


@pytest.mark.parametrize("kind", [*CASES, SemiSupervisedClassifier])
@pytest.mark.filterwarnings("ignore:40 labeled points", "ignore:harmonic functions or nearest")
@pytest.mark.extended_cases("ClusterKernelSVC", "LapSVC")
@pytest.mark.slow_cases("LapRLSClassifier")
def test_a_budget_that_is_too_small_is_refused_with_one_that_is_not(moons, kind):
    X, known = moons[0][:300], moons[2][:300]
    refused, fitted, message, budget = 0, None, "", 10_000
    while fitted is None and refused < 20:  # a refusal names what the first thing needs that does not fit
        try:
            fitted = kind(memory_budget=budget).fit(X, known)
        except BudgetError as error:
            message = str(error)
        if fitted is None:
            min_budget = int(re.findall(r"fix:.*?([\d,]{6,})", message)[0].replace(",", ""))
            refused, before, budget = refused + 1, budget, min_budget
            assert budget > before, message
    assert 0 < refused < 20
    assert fitted.transduction_.shape == (300,)
