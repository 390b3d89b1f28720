"""`SemiSupervisedClassifier` and `SemiSupervisedRegressor`: nothing to tune, and an honest word on the graph."""

import pickle
import re
import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_blobs, make_friedman1, make_moons, make_swiss_roll
from sklearn.linear_model import RidgeCV
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from dssl import (
    GraphKernelRidge,
    GraphKernelRidgeRegressor,
    KNNGraph,
    LaplaceLearningRegressor,
    LapRLSClassifier,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
)
from dssl.base.errors import DataError, ParameterError
from dssl.estimators.automatic import GraphDoesNotHelp
from dssl.estimators.feature_scales import choose_scale, choosing_bytes, losses_by_nearest
from dssl.execution.in_process import InProcess
from dssl.learners.average import shares_of
from dssl.learners.model import model_type
from dssl.learners.on_graph.blend import supervised_prior
from dssl.learners.target.target import Classes, Quantities
from dssl.methods.odd_labels import OddLabels
from dssl.storage.blocks import ArrayRows
from dssl.storage.csr import as_rows
from tests.memory import traced_peak


def labeled(true, per_class, random_state=0):
    """Return y with `per_class` labels of each class, -1 elsewhere."""
    rng, y = np.random.default_rng(random_state), np.full(len(true), -1)
    for code in np.unique(true):
        y[rng.choice(np.flatnonzero(true == code), per_class, replace=False)] = code
    return y


def all_digits():
    """Return the first 800 digits (800, 64) and their classes."""
    X, true = load_digits(return_X_y=True)
    return X[:800], true[:800]


def digits(per_class=5, random_state=0):
    X, true = all_digits()
    return X, true, labeled(true, per_class, random_state)


@cache
def fitted(per_class, random_state=0):
    """Return a model of the digits, which nobody fits again; and their points, classes and labels."""
    X, true, y = digits(per_class, random_state)
    return SemiSupervisedClassifier().fit(X, y), X, true, y


@pytest.mark.slow
def test_classes_that_no_point_is_predicted_as_are_named():
    rng = np.random.default_rng(0)
    X, true = rng.normal(size=(400, 3)), np.where(rng.random(400) < 0.1, "rare", "usual")
    y = np.where(np.arange(400) < 100, true, None)
    found = SemiSupervisedClassifier().fit(X, y)
    assert set(found.transduction_) == {"usual"}
    assert found.evidence_["never_predicted"] == ["rare"]
    assert "No point is predicted as rare: label more" in found.evidence_["in_words"]
    balanced = SemiSupervisedClassifier(scoring="balanced_accuracy").fit(X, y)
    assert balanced.evidence_["never_predicted"] == []
    assert "No point" not in balanced.evidence_["in_words"]
    assert GraphKernelRidge().fit(X, y).evidence_["never_predicted"] == ["rare"]


@pytest.mark.slow
def test_from_one_label_a_class_on():
    for per_class, lower_bound in ((1, 0.75), (20, 0.96)):
        found, X, true, y = fitted(per_class)
        assert (found.transduction_ == true)[y < 0].mean() > lower_bound
        assert_array_equal(found.predict(X[:300]), found.transduction_[:300])


def test_moons_are_told_apart_by_their_shape():
    X, true = make_moons(1000, noise=0.1, random_state=0)
    found = SemiSupervisedClassifier().fit(X, labeled(true, 5))
    assert (found.transduction_ == true).mean() > 0.95


@pytest.mark.slow
def test_a_marker_that_numpy_made_text_is_named():
    X, y = make_moons(40, noise=0.1, random_state=0)
    texts = np.array(["cat", "dog", -1])[np.where(np.arange(40) < 10, y, 2)]
    with pytest.warns(UserWarning, match="'-1' is a class here: pass unlabeled='-1'"):
        SemiSupervisedClassifier().fit(X, texts)
    assert SemiSupervisedClassifier(unlabeled="-1").fit(X, texts).classes_.tolist() == ["cat", "dog"]


def test_without_unlabeled_points_nothing_is_said_of_their_help():
    X, y = make_moons(40, noise=0.1, random_state=0)
    with pytest.warns(UserWarning, match=r"all training points are labeled(.|\n)*no unlabeled points"):
        found = SemiSupervisedClassifier().fit(X, y)
    assert "all training points are labeled: there are no unlabeled points that could help" in (
        found.evidence_["in_words"])


@pytest.mark.slow
def test_where_there_are_no_clusters_the_labels_decide():
    """One direction of fifteen tells the classes apart: the graph's share falls, and no one says that it helped."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 15))
    true = (X @ rng.normal(size=15) > 0).astype(int)
    y = labeled(true, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphDoesNotHelp)
        found = SemiSupervisedClassifier().fit(X, y)
    assert found.evidence_["graph_share"] < 0.1
    assert not found.gain_.helps
    assert "too few labels" in found.evidence_["in_words"]
    assert (found.transduction_ == true)[y < 0].mean() > 0.75


@pytest.mark.slow
def test_the_more_structure_a_graph_has_the_less_the_labels_count_before_they_have_said_anything():
    few = Classes.of(np.repeat([0, 1, -1], [5, 5, 20]), np.array([0, 1]))
    priors = [supervised_prior(concentration, few) for concentration in (0.0, 1.0, 15.0, 30.0, 1e6)]
    assert_allclose(priors, 0.8 * np.array([1, 1, 1, 0.25, 0.1]))  # two of ten labels are the first of their class
    assert supervised_prior(1.0, Classes.of(np.array([0, 1, -1]), np.array([0, 1]))) == 0
    assert fitted(1)[0].evidence_["spectral_concentration"] > 20
    noise = np.random.default_rng(0).normal(size=(800, 15))
    found = SemiSupervisedClassifier().fit(noise, labeled((noise[:, 0] > 0).astype(int), 5))
    assert found.evidence_["spectral_concentration"] == pytest.approx(1, abs=0.5)


@pytest.mark.slow
def test_uneven_duplicates_do_not_look_like_clusters():
    """Most labeled points are duplicates, whose vertices are near to one another by their weight alone."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(1500, 20))
    points = noise[np.repeat(np.arange(1500), np.where(rng.random(1500) < 0.05, 30, 1))]
    labels = np.where(rng.random(len(points)) < 0.02, rng.integers(2, size=len(points)), -1)
    model = SemiSupervisedClassifier().fit(points, labels)
    assert model.evidence_["spectral_concentration"] < 3


@pytest.mark.slow
def test_the_gain_is_what_leave_one_out_says():
    found, _, true, y = fitted(10)
    gain = found.gain_
    assert gain.helps
    assert gain.n == 100
    assert gain.difference == pytest.approx(gain.with_graph - gain.baseline)
    assert 0 < gain.standard_error < 0.1
    assert found.evidence_["gain"] == gain.described()
    assert "the unlabeled points help" in found.evidence_["in_words"]
    free = y < 0
    assert abs(gain.with_graph - (found.transduction_ != true)[free].mean()) < 0.05
    assert "no label can be held out" in fitted(1)[0].evidence_["in_words"]


def test_the_only_label_of_a_class_is_not_held_out():
    X, t = make_blobs(150, 5, centers=3, cluster_std=1.5, random_state=0)
    y = np.full(150, -1)
    y[[np.flatnonzero(t == code)[0] for code in range(3)]] = range(3)
    model = SemiSupervisedClassifier().fit(X, y)
    assert (model.gain_.n, model.by_labels_["n"]) == (0, 0)
    assert model.evidence_["in_words"].startswith("no label can be held out of its class")
    y[np.flatnonzero(t == 1)[:6]] = 1
    model = SemiSupervisedClassifier().fit(X, y)
    assert (model.gain_.n, model.gain_.single_labels, model.gain_.with_graph) == (6, 2, 0.0)
    assert "the 6 held-out labels (2 more are the only ones of their classes) are" in model.evidence_["in_words"]
    assert (model.by_labels_["n"], model.by_labels_["single_labels"]) == (6, 2)
    assert np.sum(model.by_labels_["scores"]["model"]["confusion"], axis=1).tolist() == [0, 6, 0]
    assert model.by_labels_["curve"][-1]["labels"] == 7
    assert "2 more labels are the only ones of their classes" in model.report()


@pytest.mark.slow
def test_a_warning_where_the_graph_hurts(monkeypatch):
    """Clusters that have nothing to do with the classes: points along ten lines, the class is where on the line."""
    rng = np.random.default_rng(0)
    line, t = rng.integers(0, 10, 1000), rng.random(1000)
    X = np.stack([line * 0.2 + rng.normal(0, 1e-3, 1000), t], axis=1)
    shuffled = KNNGraph().build(X[rng.permutation(1000)])
    true = (t > 0.5).astype(int)
    monkeypatch.setattr("dssl.learners.on_graph.blend.supervised_prior", lambda *of: 1e-30)  # the graph alone predicts
    with pytest.warns(GraphDoesNotHelp, match="do not help"):
        SemiSupervisedClassifier(scale="none").fit(X, labeled(true, 30), graph=shuffled)


def test_probabilities_sum_to_one_and_are_calibrated():
    found, X, true, y = fitted(10)
    P = found.predict_proba(X)
    assert_allclose(P.sum(axis=1), 1)
    free = y < 0
    assert (P.argmax(axis=1) == true)[free].mean() > 0.93
    assert abs(P.max(axis=1)[free].mean() - (P.argmax(axis=1) == true)[free].mean()) < 0.1
    assert log_loss(true, fitted(1)[0].predict_proba(X)) < 1.5  # of equal probabilities 2.3


def test_the_labels_alone_are_not_certain_of_what_no_label_reaches():
    """Where only near points were seen, functions of wide kernels would be scaled by next to nothing."""
    X, true = make_moons(200, noise=0.1, random_state=0)
    far = SemiSupervisedClassifier().fit(np.vstack([X, X + 1000]), np.r_[labeled(true, 10), np.full(200, -1)])
    assert far.evidence_["unreachable"] == 200
    assert np.abs(far.decision_function(X + 1000)).max() < 10
    near, beyond = (far.predict_proba(points).max(axis=1).mean() for points in (X, X + 1000))
    assert beyond < near


def test_points_that_no_label_reaches_are_predicted_from_the_labels():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(40, 2)) + np.array([30, 0])])
    true = (X[:, 1] > 0).astype(int)
    y = np.full(100, -1)
    y[:20] = true[:20]
    found = SemiSupervisedClassifier(scale="none").fit(X, y)
    assert found.evidence_["unreachable"] == 40
    assert set(found.transduction_[60:].tolist()) <= {0, 1}
    assert_array_equal(found.predict(X), found.transduction_)


@pytest.mark.slow
def test_known_class_sizes():
    plain, X, true, y = fitted(1)
    sizes = np.bincount(true)
    found = SemiSupervisedClassifier(class_sizes=sizes).fit(X, y)
    free = y < 0
    assert (found.transduction_ == true)[free].mean() > (plain.transduction_ == true)[free].mean() - 0.01
    counts = np.bincount(found.transduction_)
    assert np.abs(counts - sizes).max() < np.abs(np.bincount(plain.transduction_) - sizes).max()
    assert_array_equal(found.predict(X), found.transduction_)


@pytest.mark.slow
@pytest.mark.parametrize(("data", "lower_bound"), [("swiss", 0.97), ("friedman", 0.75)])
@pytest.mark.extended_cases("friedman-0.75")
def test_quantities(data, lower_bound):
    X, t = make_swiss_roll(1000, noise=0.2, random_state=0) if data == "swiss" else make_friedman1(
        1000, noise=1.0, random_state=0)
    y = np.full(1000, np.nan)
    y[::6] = t[::6]
    free = np.isnan(y)
    found = SemiSupervisedRegressor().fit(X, y)
    r2 = 1 - ((found.transduction_ - t)[free] ** 2).mean() / t[free].var()
    Z = StandardScaler().fit_transform(X)
    linear = RidgeCV(np.logspace(-3, 3, 13)).fit(Z[~free], t[~free]).score(Z[free], t[free])
    assert r2 > max(lower_bound, linear)
    assert_allclose(found.predict(X), found.transduction_, rtol=1e-6, atol=1e-6)
    assert found.gain_.metric == "rmse"
    assert found.gain_.helps == (data == "swiss")


def test_one_label_of_a_quantity_is_refused():
    X = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(DataError, match="one labeled point"):
        SemiSupervisedRegressor().fit(X, np.where(np.arange(50) == 0, 1.0, np.nan))


@pytest.mark.slow
def test_a_told_budget_decides_how_many_labels_have_kernels_and_says_so():
    X, true = all_digits()
    X, true = X[:600], true[:600]
    y = labeled(true, 10)
    message = (r"predict from 100 labels, in place of the average of kernels\n  why: .* at most \d\d labeled points\n"
               r"  fix: set memory_budget to [\d,]{8,} or more")
    with pytest.warns(UserWarning, match=message) as expected:
        found = SemiSupervisedClassifier(memory_budget="20MB").fit(X, y)
    assert "chosen" in found.evidence_
    enough = re.search(r"to ([\d,]+) or more", str(expected[0].message))[1].replace(",", "")
    assert "chosen" not in SemiSupervisedClassifier(memory_budget=int(enough)).fit(X, y).evidence_
    sized = SemiSupervisedClassifier(memory_budget="20MB", class_sizes=np.bincount(true))
    with pytest.warns(UserWarning, match="from 100 labels"), pytest.raises(
            ParameterError, match=r"class_sizes with 100 labels[\s\S]*memory_budget"):
        sized.fit(X, y)


@pytest.mark.slow
def test_features_are_scaled_where_their_ranges_differ():
    plain, X, true, y = fitted(5)
    assert plain.evidence_["scale"]["kind"] not in ("standardize", "unit_range")
    X = X * np.where(np.arange(64) % 2, 1000.0, 1.0)
    found = SemiSupervisedClassifier().fit(X, y)
    assert found.evidence_["scale"]["kind"] in ("standardize", "unit_range")
    assert (found.transduction_ == true)[y < 0].mean() > 0.85
    assert_array_equal(found.predict(X[:50]), found.transduction_[:50])


def test_labels_choose_the_scale_once_they_can_tell():
    """One column says all, 19 wide ones are noise that standardizing makes as large as it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 20))
    X[:, 0] *= 100
    true = (X[:, 0] > 0).astype(np.int64)
    target = Classes(np.arange(100), true[:100], np.array([0, 1]))
    scaling, evidence = choose_scale(ArrayRows(X), None, target, InProcess(), 0)
    assert scaling.kind == "none"
    assert evidence["ranges"] > 10
    assert evidence["label_losses"]["none"] < evidence["label_losses"]["standardize"]
    one_each = target.take(np.array([np.flatnonzero(true == code)[0] for code in (0, 1)]))
    assert choose_scale(ArrayRows(X), None, one_each, InProcess(), 0)[0].kind == "standardize"


def test_thousands_of_labels_choose_the_scale_by_the_nearest_of_them():
    """Two wide columns say the class in stripes that only near labels tell, six narrow ones are noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))
    X[:, :2] *= 30
    true = ((X[:, 0] // 12 + X[:, 1] // 12) % 2).astype(np.int64)
    target = Classes(np.arange(2500), true[:2500], np.array([0, 1]))
    scaling, evidence = choose_scale(ArrayRows(X), None, target, InProcess(), 0)
    assert scaling.kind == "none"
    losses = evidence["label_losses"]
    assert losses["none"] < 0.7 * losses["standardize"]
    for kind, Z in (("none", X), ("standardize", X / X.std(axis=0))):
        nearest = KNeighborsClassifier(3).fit(Z[:2500], true[:2500]).kneighbors(return_distance=False)
        residuals = 2 * (true[:2500] - true[nearest].mean(axis=1)) ** 2
        assert losses[kind] == pytest.approx(residuals.mean(), rel=0.1)


def test_a_scaling_of_rows_that_the_metric_is_not_defined_for_is_not_chosen():
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(300, 20)))
    X[:, 0] *= 100  # all say nothing but the first, in units that standardizing would not take
    target = Classes(np.arange(100), (X[:100, 1] > 0.7).astype(np.int64), np.array([0, 1]))
    assert choose_scale(ArrayRows(X), None, target, InProcess(), 0)[0].kind in ("standardize", "unit_range")
    assert choose_scale(ArrayRows(X), None, target, InProcess(), 0, metric="hellinger")[0].kind != "standardize"


def test_residuals_by_nearest_labels_leave_out_the_label_itself():
    X, codes = np.repeat(np.arange(12.0), 2)[:, None], np.repeat(np.arange(12) % 2, 2)
    target = Classes(np.arange(24), codes, np.array([0, 1]))
    losses = losses_by_nearest(X, target, np.arange(24), InProcess(1))
    # One of the three nearest others is the equal row, which has the label; two are of a neighbor, or of both.
    np.testing.assert_allclose(losses, 2 * (2 / 3) ** 2)
    equal = losses_by_nearest(np.zeros((24, 1)), target, np.arange(24), InProcess(1))
    assert np.isfinite(equal).all()


@pytest.mark.parametrize("metric", ["manhattan", "cosine"])
def test_the_nearest_labels_are_those_of_the_metric_of_the_graph(metric):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(80, 3)), rng.integers(0, 2, 80)
    nearest = KNeighborsClassifier(3, metric=metric).fit(X, codes).kneighbors(return_distance=False)
    losses = losses_by_nearest(X, Classes(np.arange(80), codes, np.array([0, 1])), np.arange(60),
                               InProcess(1), metric)
    np.testing.assert_allclose(losses, 2 * (codes - codes[nearest].mean(axis=1))[:60] ** 2)


@pytest.mark.parametrize(("d", "as_sparse"), [(2, False), (54, False), (300, True)])
@pytest.mark.slow_cases("54-False", "300-True")
def test_a_scale_that_many_labels_choose_takes_the_memory_that_is_planned(d, as_sparse):
    rng, n = np.random.default_rng(0), 20_000
    X = rng.normal(size=(n, d)).astype(np.float32)
    X = sparse.csr_array(X * (X > 1)) if as_sparse else X
    rows, target = as_rows(X), Classes(np.arange(n), rng.integers(0, 3, n), np.arange(3))
    planned = choosing_bytes(n, rows.row_bytes, d)
    choose_scale(as_rows(X[:300]), None, target.take(np.arange(300)), InProcess(1), 0)  # compiles
    assert traced_peak(lambda: choose_scale(rows, None, target, InProcess(1), 0), planned) <= planned


def test_weights_of_other_columns_are_refused_before_a_scale_is_chosen():
    X, codes = np.random.default_rng(0).normal(size=(80, 3)) * [1, 10, 100], np.arange(80) % 2
    graph = KNNGraph(metric="minkowski", metric_params={"w": [1, 1]})
    with pytest.raises(DataError, match="metric='minkowski' of 3 columns"):
        SemiSupervisedClassifier(graph=graph).fit(X, codes)


def test_a_few_labels_choose_the_scale():
    """Thirteen narrow columns say the class, a hundred wide ones are noise: ten labels a class tell, and two."""
    X, true = load_wine(return_X_y=True)
    X = np.hstack([X, np.random.default_rng(0).normal(scale=1000, size=(len(X), 100))])
    for each in (2, 10):
        labeled = np.concatenate([np.flatnonzero(true == code)[:each] for code in range(3)])
        target = Classes(np.sort(labeled), true[np.sort(labeled)], np.arange(3))
        assert choose_scale(ArrayRows(X), None, target, InProcess(), 0)[0].kind in ("standardize", "unit_range")


def test_stored_models_predict_the_same():
    found, X, _, _ = fitted(5)
    arrays, attributes = found.model_.to_arrays()
    again = model_type(attributes).from_arrays(arrays, attributes)
    scaled = found.scaling_.transform(X[:40])
    assert_array_equal(again.values(scaled), found.model_.values(scaled))
    assert_array_equal(pickle.loads(pickle.dumps(found)).predict(X[:40]), found.predict(X[:40]))


@pytest.mark.slow
def test_sparse_text_and_pandas(tmp_path):
    X, true, y = digits(5)
    names = np.array([f"digit {code}" for code in range(10)])
    text = np.where(y < 0, None, names[y])
    found = SemiSupervisedClassifier().fit(sparse.csr_array(X), text)
    assert (found.transduction_ == names[true])[y < 0].mean() > 0.9
    assert (found.predict(sparse.csr_array(X[:50])) == found.transduction_[:50]).all()


def test_parameters_are_checked():
    X, _, y = digits()
    with pytest.raises(ParameterError, match="scale='log'"):
        SemiSupervisedClassifier(scale="log").fit(X, y)
    with pytest.raises(ParameterError, match="class_sizes"):
        SemiSupervisedClassifier(class_sizes=[1, 2]).fit(X, y)


def test_shares_are_even_without_evidence_and_go_to_the_best_with_it():
    codes = np.arange(40) % 2
    target = Classes(np.arange(40), codes, np.array([0, 1]))
    Y = target.indicators()
    good, bad = 0.9 * Y + 0.05, np.full_like(Y, 0.5)
    few = shares_of([good[:2], bad[:2]], target.take(np.arange(2)), None)
    many = shares_of([good, bad], target, None)
    assert 0.5 < few[0] < 0.8
    assert many[0] > 0.99
    assert shares_of([good, bad], target, None, np.array([0.0, 1.0])).tolist() == [0, 1]
    assert_allclose(shares_of([good, bad], target, np.full(40, 3.0)), many)
    q = Quantities(np.arange(40), 1000 * codes[:, None].astype(float))
    best, worse = 1000 * codes[:, None] + 1.0, 1000 * codes[:, None] + 2.0
    assert shares_of([best, worse], q, None)[0] > 0.99


def test_support_tells_how_far_a_point_is_from_what_was_seen(tmp_path):
    """1 at the points of the fit; at 10 times the distance of their neighbors a tenth, and less farther out."""
    X, true = make_moons(400, noise=0.05, random_state=0)
    found = SemiSupervisedClassifier(KNNGraph(n_neighbors=5)).fit(X, labeled(true, 3))
    assert_array_equal(found.support(X), 1)
    outside = np.c_[np.full(4, 0.5), [5.0, 50.0, 500.0, 5000.0]]
    support = found.support(outside)
    assert (np.diff(support) < 0).all()
    nearest = np.argmin(((X[:, None] - outside) ** 2).sum(axis=2), axis=0)
    radius = np.sort(np.linalg.norm(X[:, None] - X[nearest], axis=2), axis=0)[5]
    assert_allclose(support, radius / np.linalg.norm(outside - X[nearest], axis=1), rtol=1e-5)
    arrays, attributes = found.model_.to_arrays()
    again = model_type(attributes).from_arrays(arrays, attributes)
    assert_array_equal(again.support(ArrayRows(found.scaling_.transform(outside.astype(np.float32))), InProcess(1)),
                       found.support(outside))
    alone = found.model_.supervised.support(found.scaling_.transform(outside))
    assert (np.diff(alone) <= 0).all()
    assert alone[1:].max() < 1e-6


def curve(n=150, random_state=0):
    """Return points on a smooth surface, targets of all, and of the first 60 alone."""
    rng = np.random.default_rng(random_state)
    X = rng.uniform(-2, 2, size=(n, 2))
    true = np.sin(2 * X[:, 0]) + X[:, 1] + 0.05 * rng.normal(size=n)
    return X, true, np.where(np.arange(n) < 60, true, np.nan)


@pytest.mark.parametrize("model", [
    SemiSupervisedRegressor(), GraphKernelRidgeRegressor(), LaplaceLearningRegressor()], ids=lambda model: type(
        model).__name__)
@pytest.mark.slow_cases("SemiSupervisedRegressor", "GraphKernelRidgeRegressor")
def test_predictions_follow_the_unit_of_the_target(model):
    X, _, y = curve()
    plain = clone(model).fit(X, y)
    for unit in (1e-200, 1e149):
        scaled = clone(model).fit(X, y * unit)
        assert_allclose(scaled.predict(X[60:]), plain.predict(X[60:]) * unit, rtol=1e-6, atol=1e-9 * unit)
        assert_allclose(scaled.transduction_, plain.transduction_ * unit, rtol=1e-6, atol=1e-9 * unit)
        if isinstance(model, SemiSupervisedRegressor):
            gain = scaled.gain_
            assert_allclose([gain.with_graph, gain.baseline, gain.standard_error], unit * np.array([
                plain.gain_.with_graph, plain.gain_.baseline, plain.gain_.standard_error]), rtol=1e-6)
            assert (gain.verdict, gain.n) == (plain.gain_.verdict, plain.gain_.n)


@pytest.mark.slow
def test_a_target_that_the_others_contradict_is_named():
    X, _, y = curve()
    assert SemiSupervisedRegressor().fit(X, y).evidence_["odd_labels"] == []
    y[7] *= 100
    with pytest.warns(OddLabels, match="row 7 has"):
        found = SemiSupervisedRegressor().fit(X, y).evidence_["odd_labels"]
    assert found[0]["row"] == 7
    assert found[0]["value"] == y[7]


@pytest.mark.slow
def test_the_loss_of_huber_bears_a_target_a_hundred_times_too_large():
    X, true, y = curve()
    y[7] = 100.0
    with pytest.warns(OddLabels):
        squared = SemiSupervisedRegressor().fit(X, y)
    with pytest.warns(OddLabels):
        huber = SemiSupervisedRegressor(loss="huber").fit(X, y)
    errors = [float(np.sqrt(((own.predict(X[60:]) - true[60:]) ** 2).mean())) for own in (squared, huber)]
    assert errors[1] < min(0.5 * errors[0], 0.6)
    assert 1 <= huber.evidence_["labels_that_count_less"] < 20
    with pytest.raises(ParameterError, match="loss='absolute'"):
        SemiSupervisedRegressor(loss="absolute").fit(X, y)


@pytest.mark.parametrize("learner", [SemiSupervisedClassifier(), LapRLSClassifier(landmarks=20)])
def test_labeled_duplicates_are_counted_and_said(learner):
    """Labels of noise, each twice, which a label that is held out knows of the other one."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(100, 6)), np.full(100, -1)
    y[:20] = np.arange(20) % 2
    once = learner.fit(X, y)
    assert once.evidence_["duplicates"] == {"labeled": 20, "repeated": 0, "contradicted": 0}
    words = "40 of 40 labeled points equal another labeled point"
    assert words not in once.evidence_.get("in_words", "")
    again = np.where(np.arange(20) < 3, 1 - y[:20], y[:20])
    twice = learner.fit(np.concatenate([X, X[:20]]), np.concatenate([y, again]))
    assert twice.evidence_["duplicates"] == {"labeled": 40, "repeated": 40, "contradicted": 6}
    assert (words in twice.evidence_.get("in_words", "")) == isinstance(learner, SemiSupervisedClassifier)
