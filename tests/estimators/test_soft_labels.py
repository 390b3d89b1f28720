"""Estimators on a graph with what another model says of the points."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from dssl import (
    GraphKernelRidge,
    GraphKernelRidgeRegressor,
    GridSearch,
    LaplaceLearning,
    LaplaceLearningRegressor,
    PoissonLearning,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
)
from dssl.base.errors import DataError, ParameterError
from dssl.estimators.graph import UnreachablePoints

CENTERS = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])


@pytest.fixture(scope="module")
def blobs():
    """Three clusters, and an opinion of their classes that is right for two thirds of the points."""
    X, y = make_blobs(300, centers=CENTERS, cluster_std=0.8, random_state=0)
    rng = np.random.default_rng(0)
    said = np.where(rng.random(300) < 0.67, y, rng.integers(0, 3, 300))
    return X, y, 0.2 + 0.4 * np.eye(3)[said]


def some_labels(y, per_class):
    labels = np.full(len(y), -1)
    for code in np.unique(y):
        labels[np.flatnonzero(y == code)[:per_class]] = code
    return labels


def test_without_a_label_the_graph_corrects_the_other_model(blobs):
    X, y, P = blobs
    model = SemiSupervisedClassifier().fit(X, soft_labels=P)
    assert (P.argmax(axis=1) == y).mean() < 0.9
    assert model.score(X, y) > 0.95
    assert (model.predict(X) == model.transduction_).all()
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.evidence_["other_model"]["moved"] > 0.1
    assert "no labels to judge the other model" in model.evidence_["in_words"]
    np.testing.assert_allclose(model.predict_proba(X[:5]).sum(axis=1), 1)
    assert model.by_labels_["n"] == 0


def test_class_vectors_classify_without_a_label_by_name(blobs):
    X, y, _ = blobs
    names = np.array(["c", "a", "b"])
    model = SemiSupervisedClassifier(class_embeddings=CENTERS, classes=names).fit(X)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(X, names[y]) > 0.95
    assert model.predict(CENTERS).tolist() == names.tolist()
    assert clone(model).get_params()["classes"].tolist() == names.tolist()


def test_labels_and_soft_labels_agree_on_classes_that_some_lack(blobs):
    X, y, P = blobs
    labels = np.where(y == 2, -1, some_labels(y, 5))
    model = SemiSupervisedClassifier(classes=[0, 1, 2]).fit(X, labels, soft_labels=P)
    assert model.score(X, y) > 0.95


@pytest.mark.slow
def test_soft_labels_without_information_change_no_prediction(blobs):
    X, y, P = blobs
    labels = some_labels(y, 3)
    alone = SemiSupervisedClassifier().fit(X, labels)
    for useless in (np.full(P.shape, 1 / 3), np.random.default_rng(1).permutation(P), np.roll(P, 1, axis=1)):
        with_it = SemiSupervisedClassifier().fit(X, labels, soft_labels=useless)
        assert (with_it.transduction_ == alone.transduction_).all()


@pytest.mark.parametrize("learner", [GraphKernelRidge, LaplaceLearning, PoissonLearning])
@pytest.mark.slow_cases("GraphKernelRidge")
def test_where_neither_labels_nor_soft_labels_say_something_there_is_no_class(blobs, learner):
    X, y, P = blobs
    far = y == 2
    apart, labels = X + 100 * far[:, None], np.where(far, -1, some_labels(y, 10))
    with pytest.warns(UnreachablePoints, match="100 of 300 points"):
        without = learner().fit(apart, labels, soft_labels=np.full((300, 2), 0.5))
    with pytest.warns(UnreachablePoints):
        alone = learner().fit(apart, labels)
    assert (without.transduction_[far] == -1).all()
    assert np.isnan(without.predict_proba(apart[far][:3])).all()
    np.testing.assert_array_equal(without.transduction_, alone.transduction_)
    noise = np.random.default_rng(1).dirichlet((1, 1), 300)
    with pytest.warns(UnreachablePoints):
        assert (learner().fit(apart, labels, soft_labels=noise).transduction_[far] == -1).all()
    said = np.where(far, 0.9, P[:, 1] / (P[:, 0] + P[:, 1]))
    assert (learner().fit(apart, labels, soft_labels=np.column_stack([1 - said, said])).transduction_[far] == 1).all()


@pytest.mark.slow
def test_another_model_is_judged_by_held_out_labels():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 12))
    y = (X[:, 0] > 0).astype(int)
    known = np.where(rng.random(400) < 0.2, y, -1)
    model = SemiSupervisedClassifier(base_estimator=DecisionTreeClassifier(max_depth=1)).fit(X, known)
    evidence = model.evidence_["other_model"]
    assert evidence["weight"] > 0
    assert "by it alone" in evidence["in_words"]
    assert evidence["gain"]["with_graph"] <= evidence["gain"]["baseline"]
    assert model.score(X, y) >= SemiSupervisedClassifier().fit(X, known).score(X, y)
    assert set(model.by_labels_["scores"]) >= {"model", "base", "other"}
    assert model.report()


def test_known_class_sizes_apply_to_the_pool(blobs):
    X, y, P = blobs
    sizes = np.bincount(y)
    model = SemiSupervisedClassifier(class_sizes=sizes.tolist()).fit(X, soft_labels=P)
    assert np.abs(np.bincount(model.transduction_, minlength=3) - sizes).max() <= 3
    labeled = SemiSupervisedClassifier(class_sizes="balanced").fit(X, some_labels(y, 3), soft_labels=P)
    assert labeled.score(X, y) > 0.95


@pytest.mark.parametrize("estimator", ["boosting", "ridge", Ridge(alpha=0.1)])
@pytest.mark.extended_cases("ridge")
@pytest.mark.slow_cases("boosting")
def test_a_regressor_takes_another_regressor(estimator):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0]
    known = np.where(rng.random(200) < 0.3, y, np.nan)
    model = SemiSupervisedRegressor(base_estimator=estimator).fit(X, known)
    assert model.score(X, y) >= SemiSupervisedRegressor().fit(X, known).score(X, y) - 0.02


def test_a_regressor_takes_predictions_of_another_model():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0]
    known = np.where(rng.random(200) < 0.3, y, np.nan)
    given = SemiSupervisedRegressor().fit(X, known, soft_labels=y + 0.01 * rng.normal(size=200))
    assert given.score(X, y) > 0.99


def test_weights_of_labels_reach_the_other_model(blobs):
    X, y, P = blobs
    labels, weights = some_labels(y, 4), np.ones(len(y))
    labels[np.flatnonzero(y == 0)[:2]] = 1  # wrong, and hardly counted
    weights[np.flatnonzero(y == 0)[:2]] = 1e-3
    model = SemiSupervisedClassifier().fit(X, labels, weights, soft_labels=P)
    assert model.score(X, y) > 0.95
    with pytest.raises(ParameterError, match="takes none"):
        SemiSupervisedClassifier(base_estimator=KNeighborsClassifier(2)).fit(X, labels, weights)


def test_what_cannot_be_pooled_is_refused(blobs):
    X, y, P = blobs
    labels = some_labels(y, 2)
    with pytest.raises(ParameterError, match="soft_labels and base_estimator"):
        SemiSupervisedClassifier(base_estimator="boosting").fit(X, labels, soft_labels=P)
    with pytest.raises(DataError, match="soft_labels has 2 classes, but y has 3 different ones"):
        SemiSupervisedClassifier().fit(X, labels, soft_labels=P[:, :2])
    with pytest.raises(DataError, match="classes names"):
        SemiSupervisedClassifier(classes=[0, 1]).fit(X, labels, soft_labels=P)
    with pytest.raises(ParameterError, match="there are none"):
        SemiSupervisedClassifier(classes=[0, 1, 2]).fit(X, labels)
    with pytest.raises(ParameterError, match="base_estimator='forest'"):
        SemiSupervisedClassifier(base_estimator="forest").fit(X, labels)
    with pytest.raises(ParameterError, match="base_estimator=LinearSVC"):
        SemiSupervisedClassifier(base_estimator=LinearSVC()).fit(X, labels)
    with pytest.raises(DataError, match="X has 2 columns"):
        SemiSupervisedClassifier(class_embeddings=np.ones((3, 4))).fit(X, labels)
    with pytest.raises(DataError, match="no probabilities"):
        SemiSupervisedClassifier().fit(X, labels, soft_labels=2 * P)
    with pytest.raises(DataError, match="requires y"):
        SemiSupervisedClassifier(base_estimator="boosting").fit(X)


def test_a_table_names_its_classes(blobs):
    X, y, P = blobs
    classes, order = np.array(["ant", "bee", "cow"]), [2, 0, 1]
    table = pd.DataFrame(P[:, order], columns=classes[order])
    labels = np.where(np.arange(len(y)) % 20 == 0, classes[y], "")
    labels[labels == "cow"] = ""
    for model in (LaplaceLearning(), LaplaceLearning(classes=[*classes])):
        for known in (None, labels):
            fitted = model.fit(X, known, soft_labels=table)
            assert fitted.classes_.tolist() == [*classes]
            assert fitted.score(X, classes[y]) > 0.95
    numbers = LaplaceLearning().fit(X, some_labels(y, 3), soft_labels=table.set_axis(["2", "0", "1"], axis=1))
    assert numbers.classes_.tolist() == [0, 1, 2]
    assert numbers.score(X, y) > 0.95
    some = np.where(some_labels(y, 3) == 2, -1, some_labels(y, 3))
    for known in (some, np.where(some < 0, np.nan, some)):
        lacking = LaplaceLearning().fit(X, known, soft_labels=pd.DataFrame(P[:, order], columns=[2.0, 0.0, 1.0]))
        assert lacking.classes_.tolist() == [0, 1, 2]
        assert lacking.score(X, y) > 0.95
    with pytest.raises(DataError, match="name the same classes in both"):
        LaplaceLearning(classes=["ant", "bee"]).fit(X, soft_labels=table)
    in_order = LaplaceLearning().fit(X, some_labels(y, 3), soft_labels=pd.DataFrame(P, columns=["p", "q", "r"]))
    assert in_order.score(X, y) > 0.95
    with pytest.raises(DataError, match=r"soft_labels names \['cow', 'ant', 'bee'\], and not \['cat'\]"):
        LaplaceLearning(classes=["ant", "bee", "cat"]).fit(X, soft_labels=table)


def test_a_table_of_class_embeddings_is_matched_by_its_names(blobs):
    X, y, _ = blobs
    classes, order = np.array(["ant", "bee", "cow"]), [2, 0, 1]
    V = np.stack([X[y == code].mean(axis=0) for code in range(3)])
    names = [f"x{column}" for column in range(X.shape[1])]
    table = pd.DataFrame(V[order], index=classes[order], columns=names)[names[::-1]]
    model = LaplaceLearning(class_embeddings=table).fit(pd.DataFrame(X, columns=names))
    assert model.classes_.tolist() == [*classes]
    assert model.score(pd.DataFrame(X, columns=names), classes[y]) > 0.9


@pytest.mark.parametrize("learner", [LaplaceLearning, PoissonLearning, GraphKernelRidge])
@pytest.mark.slow_cases("GraphKernelRidge")
def test_every_learner_on_the_graph_takes_soft_labels(blobs, learner):
    X, y, P = blobs
    alone = learner().fit(X, soft_labels=P)
    assert alone.score(X, y) > 0.95
    assert "no labels to judge" in alone.evidence_["other_model"]["in_words"]
    np.testing.assert_allclose(alone.predict_proba(X[:5]).sum(axis=1), 1)
    assert alone.by_labels_["n"] == 0
    labels = some_labels(y, 3)
    both = learner().fit(X, labels, soft_labels=P)
    assert both.score(X, y) > 0.95
    assert both.by_labels_["n"] == 9
    useless = learner().fit(X, labels, soft_labels=np.roll(P, 1, axis=1))
    assert useless.evidence_["other_model"]["smoothed_weight"] == 0
    assert (useless.transduction_ == learner().fit(X, labels).transduction_).mean() > 0.99


def test_a_learner_on_the_graph_with_class_sizes_and_a_base_estimator(blobs):
    X, y, P = blobs
    sizes = np.bincount(y)
    model = GraphKernelRidge(class_sizes=sizes.tolist()).fit(X, some_labels(y, 3), soft_labels=P)
    assert np.abs(np.bincount(model.transduction_, minlength=3) - sizes).max() <= 3
    np.testing.assert_allclose(model.predict_proba(X[:5]).sum(axis=1), 1)
    based = PoissonLearning(base_estimator="logistic").fit(X, some_labels(y, 3))
    assert based.score(X, y) > 0.95
    assert "by it alone" in based.evidence_["other_model"]["in_words"] or "is not used" in based.evidence_[
        "other_model"]["in_words"]


@pytest.mark.parametrize("learner", [LaplaceLearningRegressor, GraphKernelRidgeRegressor])
@pytest.mark.slow_cases("GraphKernelRidgeRegressor")
def test_regressors_on_the_graph_take_predictions(learner):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 4))
    y = X @ [1.0, -2.0, 0.5, 0.0]
    known = np.where(rng.random(200) < 0.3, y, np.nan)
    assert learner().fit(X, known, soft_labels=y + 0.01 * rng.normal(size=200)).score(X, y) > 0.99
    assert learner(base_estimator="ridge").fit(X, known).score(X, y) > 0.95


def test_quantities_of_two_columns_or_few_labels_are_pooled():
    """Nothing of theirs is compared, but labels are held out to weigh the other model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    Y = np.column_stack([X[:, 0], X[:, 1] ** 2])
    known = np.where(np.arange(80)[:, None] < 30, Y, np.nan)
    both = LaplaceLearningRegressor().fit(X, known, soft_labels=Y)
    assert both.evidence_["other_model"]["weight"] + both.evidence_["other_model"]["smoothed_weight"] > 0
    assert np.abs(both.transduction_ - Y).mean() < np.abs(LaplaceLearningRegressor().fit(X, known).transduction_
                                                          - Y).mean()
    few = np.where(np.arange(80) < 2, Y[:, 0], np.nan)
    for kind in (LaplaceLearningRegressor, SemiSupervisedRegressor):
        assert np.isfinite(kind().fit(X, few, soft_labels=Y[:, 0]).transduction_).all()
        with pytest.raises(DataError, match="1 labeled points"):
            kind().fit(X, np.where(np.arange(80) < 1, Y[:, 0], np.nan), soft_labels=Y[:, 0])


@pytest.mark.parametrize("marker", [0, "?"])
def test_no_label_needs_no_marker(marker):
    X, true = make_blobs(90, 2, centers=3, random_state=0)
    P = np.eye(3)[true] * 0.7 + 0.1
    found = SemiSupervisedClassifier(unlabeled=marker).fit(X, soft_labels=P)
    assert (found.transduction_ == true).mean() > 0.9


def test_what_is_no_array_and_class_vectors_that_are_equal_are_refused(blobs):
    X, y, P = blobs
    labels = some_labels(y, 3)
    for soft_labels in ({0: P}, "probabilities.npy", sparse.csr_array(P)):
        with pytest.raises(DataError, match=r"soft_labels is of type .*, expected an array of numbers"):
            SemiSupervisedClassifier().fit(X, labels, soft_labels=soft_labels)
    with pytest.raises(DataError, match="class_embeddings is of type dict"):
        SemiSupervisedClassifier(class_embeddings=dict(enumerate(CENTERS))).fit(X, labels)
    with pytest.raises(DataError, match=r"row 2 \(counted from 0\) is equal to an earlier row"):
        SemiSupervisedClassifier(class_embeddings=CENTERS[[0, 1, 0]]).fit(X)


@pytest.mark.parametrize("shares", [[1 / 3, 1 / 3, 1 / 3], [0.6, 0.3, 0.1]])
def test_soft_labels_that_tell_no_points_apart_are_refused_without_labels(blobs, shares):
    X, y, _ = blobs
    P = np.tile(shares, (300, 1))
    with pytest.raises(DataError, match="the same at all points, and no two classes have a label"):
        SemiSupervisedClassifier().fit(X, soft_labels=P)
    with pytest.raises(DataError, match="the same at all points"):
        SemiSupervisedClassifier(classes=[0, 1, 2]).fit(X, np.where(np.arange(300) == np.argmax(y), y, -1),
                                                        soft_labels=P)
    assert SemiSupervisedClassifier().fit(X, some_labels(y, 2), soft_labels=P).score(X, y) > 0.9


def test_a_class_in_place_of_an_estimator_is_refused(blobs):
    X, y, _ = blobs
    with pytest.raises(ParameterError, match=r"base_estimator=Ridge is a class\n.*\n.*pass Ridge\(\)"):
        SemiSupervisedClassifier(base_estimator=Ridge).fit(X, y)


def test_embeddings_of_any_library_stand_for_labels_in_a_fit_but_not_in_a_score(blobs, tmp_path):
    """A fit without y knows the classes from rows of an HDF5 file as from an array; a score without y is refused."""
    h5py = pytest.importorskip("h5py")
    X, y, _ = blobs
    expected = SemiSupervisedClassifier(class_embeddings=CENTERS).fit(X)
    with h5py.File(tmp_path / "centers.h5", "w") as file:
        model = SemiSupervisedClassifier(class_embeddings=file.create_dataset("centers", data=CENTERS)).fit(X)
        np.testing.assert_array_equal(model.transduction_, expected.transduction_)
        assert model.score(X, y) > 0.9
        with pytest.raises(DataError, match="requires y to be passed"):
            model.score(X)


def test_a_search_knows_the_classes_of_the_embeddings(blobs):
    """A class that no label has is predicted by the refit, so the search is of as many; a strange one is refused."""
    X, y, _ = blobs
    model = GraphKernelRidge(class_embeddings=CENTERS, classes=[0, 1, 2])
    search = GridSearch(model, {"penalty": [0.1, 1.0]}, cv=2)
    with pytest.raises(DataError, match=r"y has classes that are not in `classes`: \[5\]"):
        search.fit(X, np.where(y == 2, 5, some_labels(y, 4)))
    assert not hasattr(search, "cv_results_")
    with pytest.raises(DataError, match="2 of 3 classes have labeled points"):
        search.fit(X, np.where(y == 2, -1, some_labels(y, 4)))


@pytest.mark.parametrize("marker", ["-1", np.array(-1), -1.0])
def test_a_marker_of_a_regressor_may_be_written_as_text(marker):
    y = np.arange(40.0)
    model = LaplaceLearningRegressor(unlabeled=marker).fit(y[:, None], np.where(y % 2 > 0, -1.0, y))
    np.testing.assert_allclose(model.transduction_, y, atol=3)


def test_a_marker_of_a_regressor_is_a_number():
    with pytest.raises(ParameterError, match="unlabeled="):
        SemiSupervisedRegressor(unlabeled="?").fit(np.arange(20.0)[:, None], np.arange(20.0))
