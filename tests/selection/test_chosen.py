"""Bandwidth and penalties that are chosen: by refits without each label, and by the graph where labels are few."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dssl import GridSearch, LapRLSClassifier, LapRLSRegressor
from dssl.base.errors import ParameterError
from dssl.estimators.lapsvm import LapSVM
from dssl.kernels.base import RBF, median_bandwidth
from dssl.learners.laprls.params import SystemParams
from dssl.learners.laprls.penalties import BANDWIDTHS, MAX_LABELS, Penalties, log_priors, log_priors_of_bandwidths
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.laprls import FOLDS, automatic_folds, folds_of_labels

N, M = 90, 9


def problem(n_classes=3, random_state=0):
    """Return points in overlapping clusters, and classes of which M points are labeled."""
    rng = np.random.default_rng(random_state)
    codes = np.arange(N) % n_classes
    X = rng.normal(size=(N, 3)) + 1.5 * np.eye(3)[codes]
    return X, np.where(np.arange(N) < M, codes, -1)


def held_out(kind, X, y, pair, bandwidth):
    """Return values (M, c) of labels by fits without each, which held-out labels of their own do not move."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dssl.methods.laprls.steps.with_prior", lambda model, *others, **more: (model, None, []))
        return fitted_without_each(kind, X, y, pair, bandwidth)


def fitted_without_each(kind, X, y, pair, bandwidth):
    values = []
    for i in range(M):
        known = y.copy()
        known[i] = np.nan if known.dtype.kind == "f" else -1
        fitted = kind(bandwidth=bandwidth, gamma_A=pair.gamma_A * M / (M - 1), gamma_I=pair.gamma_I * M / (M - 1),
                      fit_intercept=True).fit(X, known)
        values.append(np.atleast_1d(fitted.decision_function(X[i:i + 1])[0] if kind is LapRLSClassifier
                                    else fitted.predict(X[i:i + 1])[0]))
    return np.array(values)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.extended_cases("3", "0")
def test_what_is_chosen_is_the_most_probable_by_refits_without_each_label(n_classes):
    X, codes = problem(n_classes or 3)
    kind = LapRLSClassifier if n_classes else LapRLSRegressor
    y = codes if n_classes else np.where(codes >= 0, X[:, 0] + codes, np.nan)
    actual = kind().fit(X, y)
    results = actual.cv_results_
    bandwidths = [item["bandwidth"] for item in results["params"]]
    assert sorted(Counter(bandwidths).values()) == [6, 6]
    assert max(bandwidths) == pytest.approx(4 * min(bandwidths))
    assert actual.evidence_["held_out"]["method"] == "closed_form"
    pairs = [Penalties(item["gamma_A"], item["gamma_I"]) for item in results["params"]]
    target = Classes(np.arange(M), codes[:M], np.arange(n_classes)) if n_classes else Quantities(np.arange(M), y[:M])
    # The weights of labels are those of the ones that are kept, so that penalties weigh as much against them.
    values = [held_out(kind, X, y, Penalties(item.gamma_A * (M - 1) / M, item.gamma_I * (M - 1) / M), width)
              for item, width in zip(pairs, bandwidths, strict=True)]
    Y = target.columns()
    mean = np.array([np.delete(Y, i, axis=0).mean(axis=0) for i in range(M)])
    losses = []
    for item in values:
        factor = max(0, np.sum((Y - mean) * (item - mean)) / np.sum((item - mean)**2))
        losses.append(np.sum((Y - mean - factor * (item - mean))**2))
    # Two columns of 0 and 1 for one of -1 and 1, a quarter of the squares for each; the variance of quantities is free.
    likelihoods = -np.array(losses) * (2 if n_classes == 2 else 1) / 8 if n_classes else -M / 2 * np.log(losses)
    scaled = [Penalties(item.gamma_A, item.gamma_I / N**2) for item in pairs]
    concentration = actual.evidence_["spectral_concentration"]
    of_bandwidth = dict(zip(sorted(set(bandwidths)), log_priors_of_bandwidths(concentration), strict=True))
    order = np.argsort(-(likelihoods + log_priors(scaled, concentration) + [of_bandwidth[item] for item in bandwidths]))
    chosen = results["params"][int(order[0])]
    assert (actual.bandwidth_, actual.gamma_A_, actual.gamma_I_) == pytest.approx(
        (chosen["bandwidth"], chosen["gamma_A"], chosen["gamma_I"]))
    assert actual.model_.kernel.bandwidth == actual.bandwidth_
    alone = kind(**chosen).fit(X, y)
    assert_allclose(actual.predict(X), alone.predict(X), rtol=1e-6)
    assert results["rank_test_score"][order[0]] == 1
    assert np.argsort(results["rank_test_score"], kind="stable").tolist() == order.tolist()


def test_with_one_label_a_class_the_structure_decides():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(400, 20))
    apart = np.concatenate([rng.normal(size=(200, 20)), rng.normal(size=(200, 20)) + 30])
    y = np.full(400, -1)
    y[[0, 399]] = 0, 1
    without, with_graph = (LapRLSClassifier().fit(X, y) for X in (noise, apart))
    assert without.gamma_I_ == 0
    assert with_graph.gamma_I_ > 0
    assert without.evidence_["spectral_concentration"] < 5 < with_graph.evidence_["spectral_concentration"]
    assert without.cv_results_ == {}
    assert without.bandwidth_ == LapRLSClassifier(bandwidth="0.5*median").fit(noise, y).bandwidth_
    assert without.evidence_["folds"] == 0
    assert (with_graph.transduction_ == (np.arange(400) >= 200)).all()


@pytest.mark.slow
def test_labels_that_do_not_follow_the_graph_choose_against_it():
    X = np.linspace(0, 1, 400)[:, None]  # on a line, the classes in bands narrower than a neighborhood
    y = np.where(np.arange(400) % 2 == 0, np.arange(400) // 4 % 2, -1)
    actual = LapRLSClassifier(bandwidth=0.003).fit(X, y)
    assert actual.evidence_["spectral_concentration"] > 25
    assert actual.gamma_I_ == 0


def test_one_penalty_may_be_given():
    X, y = problem()
    given = LapRLSClassifier(gamma_I=0).fit(X, y)
    assert given.gamma_I_ == 0
    assert len(given.cv_results_["params"]) == 4
    assert len(LapRLSClassifier(gamma_A=0.1).fit(X, y).cv_results_["params"]) == 6
    grid = LapRLSClassifier(gamma_A=[0.1, 1.0], cv=3).fit(X, y)
    assert len(grid.cv_results_["params"]) == 12
    assert grid.evidence_["folds"] == 3


@pytest.mark.parametrize("size", [1e-200, 1e148])
def test_the_choice_does_not_depend_on_the_size_of_quantities(size):
    X, codes = problem()
    y = np.where(codes >= 0, X[:, 0] + codes, np.nan)
    one, other = (LapRLSRegressor().fit(X, item).cv_results_ for item in (y, y * size))
    assert np.unique(one["rank_test_score"]).size == 12
    assert_array_equal(one["rank_test_score"], other["rank_test_score"])
    assert_allclose(other["scaled_rmse"] / size, one["scaled_rmse"], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("penalties", [{}, {"gamma_A": "auto", "gamma_I": "auto"}])
@pytest.mark.extended_cases("penalties1")
def test_labels_choose_the_bandwidth(penalties):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 8))
    smooth, rough = X.sum(axis=1) > 0, np.floor(3 * X[:, 0]) % 2 > 0
    shown = np.arange(300) < 100
    wide = LapRLSClassifier(**penalties).fit(X, np.where(shown, smooth, -1))
    narrow = LapRLSClassifier(**penalties).fit(X[:, :1], np.where(shown, rough, -1))
    for actual, rows, factor in ((wide, X, 2), (narrow, X[:, :1], 0.5)):
        assert actual.bandwidth_ == pytest.approx(factor * median_bandwidth(rows, 0))
        assert actual.cv_results_["param_bandwidth"][actual.cv_results_["rank_test_score"] == 1] == actual.bandwidth_


@pytest.mark.slow
def test_a_bandwidth_that_is_given_and_a_kernel_without_one_are_the_only_ones():
    X, y = problem()
    half = median_bandwidth(X, 0) / 2
    for given, bandwidth in (({"bandwidth": "0.5*median"}, half), ({"bandwidth": half}, half),
                             ({"kernel": "linear"}, None), ({"kernel": RBF(3.0)}, 3.0),
                             ({"kernel": lambda X, Z: X @ Z.T}, None)):
        actual = LapRLSClassifier(**given).fit(X, y)
        assert actual.bandwidth_ == bandwidth
        assert len(actual.cv_results_["params"]) == 6
        assert "param_bandwidth" not in actual.cv_results_
    assert LapRLSClassifier(bandwidth=half, gamma_A=1.0, gamma_I=0).fit(X, y).cv_results_ == {}
    with pytest.raises(ParameterError, match="wide"):
        LapRLSClassifier(bandwidth="wide").fit(X, y)


def test_a_search_tells_of_a_chosen_bandwidth_its_best_row():
    X, y = problem()
    grid = {"bandwidth": ["chosen", *BANDWIDTHS], "gamma_A": ["auto", "10*auto"], "gamma_I": ["auto"]}
    search = GridSearch(LapRLSClassifier(), grid, cv=3, refit=False).fit(X, y)
    rmse = search.cv_results_["rmse"].reshape(3, 2)
    error = search.cv_results_["error"].reshape(3, 2)
    for column in (0, 1):
        assert (error[0, column], rmse[0, column]) == min(zip(error[1:, column], rmse[1:, column], strict=True))


def test_a_loss_that_has_no_residuals_chooses_nothing():
    X, y = problem()
    for given in ({"gamma_I": "chosen"}, {"bandwidth": "chosen"}):
        with pytest.raises(ParameterError, match="penalties or a bandwidth that are chosen"):
            LapSVM(**given).fit(X, y)


def test_labels_are_held_out_one_by_one_where_that_costs_little():
    for params in (SystemParams(), SystemParams(solver="direct")):
        assert automatic_folds(params, 50, 0).folds == "leave_one_out"
        assert automatic_folds(params, MAX_LABELS + 1, 0).folds == FOLDS
    for params in (SystemParams(solver="nystrom-pcg"), SystemParams(solver="cg"), SystemParams(held_out="refit"),
                   SystemParams(held_out_points="inductive")):
        assert automatic_folds(params, 50, 0).folds == FOLDS
    assert folds_of_labels(Classes(np.arange(3), np.arange(3), np.arange(3)), SystemParams(), 0) == []
    assert len(folds_of_labels(Quantities(np.arange(2), np.arange(2.0)), SystemParams(), 0)) == 2


def test_solvers_that_iterate_choose_by_folds():
    X, y = problem()
    actual = LapRLSClassifier(solver="nystrom-pcg").fit(X, y)
    assert actual.evidence_["folds"] == FOLDS
    assert len(actual.cv_results_["params"]) == 12
