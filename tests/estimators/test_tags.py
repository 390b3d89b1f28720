"""Several labels a point: y is an indicator with -1 where a label is unknown."""

import pickle
import warnings
import weakref
import zipfile

import numpy as np
import pandas as pd
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import accuracy_score
from sklearn.multioutput import MultiOutputClassifier

from dssl import (
    GraphKernelRidge,
    GridSearch,
    KNNGraph,
    LapKernelRidge,
    LaplaceLearning,
    LapSVC,
    SemiSupervisedClassifier,
    load,
    suggest_labels,
)
from dssl.base.errors import DataError, ParameterError
from dssl.estimators import numpy_model
from dssl.estimators.automatic import GraphDoesNotHelp
from dssl.knn.index import NeighborIndex
from dssl.learners.on_graph.graph_ridge import KernelRows
from dssl.learners.tags import TagModel
from dssl.selection.graph_gain import Gain

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def tagged():
    """Return points (150, 8), their labels (150, 3), and y, of which 40 rows are known."""
    X, Y = make_multilabel_classification(150, 8, n_classes=3, n_labels=2, random_state=0)
    known = np.random.default_rng(0).permutation(150)[:40]
    y = np.full_like(Y, -1)
    y[known] = Y[known]
    return X, Y, y


@pytest.fixture(scope="module")
def fitted(tagged):
    X, _, y = tagged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SemiSupervisedClassifier(scale="none").fit(X, y)


class OfColumn(LaplaceLearning):
    """A learner whose 0, 1 and 2 say absent, present and unknown, as `MultiOutputClassifier` knows no -1."""

    def __init__(self, unlabeled=2):
        super().__init__(unlabeled=unlabeled)


@pytest.mark.slow
def test_each_label_is_predicted_as_by_a_fit_of_its_own(tagged, fitted):
    X, _, y = tagged
    graph = KNNGraph().build(X, scale="none")
    for column, tag in enumerate(fitted.estimators_):
        alone = SemiSupervisedClassifier(scale="none").fit(X, y[:, column], graph=graph)
        assert_array_equal(alone.predict(X), fitted.predict(X)[:, column])
        assert_allclose(alone.predict_proba(X)[:, 1], fitted.predict_proba(X)[:, column], rtol=1e-9)
        assert_allclose(alone.decision_function(X), fitted.decision_function(X)[:, column], rtol=1e-9)
        assert tag.gain_ == alone.gain_


def test_the_answer_is_that_of_scikit_learns_multi_output_classifier(tagged):
    X, _, y = tagged
    ours = OfColumn().fit(X, np.where(y < 0, 2, y))
    theirs = MultiOutputClassifier(OfColumn()).fit(X, np.where(y < 0, 2, y))
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert_allclose(ours.predict_proba(X), np.column_stack([P[:, 1] for P in theirs.predict_proba(X)]), rtol=1e-9)


@pytest.mark.parametrize("learner", [GraphKernelRidge(), LapSVC(n_landmarks=40)], ids=str)
def test_other_classifiers_take_several_labels(tagged, learner):
    X, _, y = tagged
    model = learner.fit(X, y)
    single = learner.estimators_[2]
    assert model.transduction_.shape == y.shape
    assert_array_equal(model.transduction_[:, 2], single.transduction_)
    assert_array_equal(model.predict(X)[:, 2], single.predict(X))
    with pytest.raises(ParameterError, match="y has several columns"):
        model.report()


def test_one_search_of_the_graph_serves_all_labels(fitted, monkeypatch, tagged):
    index = type(fitted.model_.models[0].graph.index)
    searches = []
    monkeypatch.setattr(index, "nearest", lambda self, X, k, nearest=index.nearest: searches.append(len(X))
                        or nearest(self, X, k))
    fitted.model_.block_values(tagged[0][:7].astype(np.float64))
    assert searches == [7]
    arrays, _ = fitted.model_.to_arrays()
    assert sum("index.rows" in name for name in arrays) == 1


@pytest.mark.slow
def test_kernels_on_the_graph_are_computed_once_for_labels_of_the_same_points(monkeypatch, tagged):
    X, _, y = tagged
    made, of = [], KernelRows.of
    monkeypatch.setattr(KernelRows, "of", lambda *given: made.append(1) or of(*given))
    SemiSupervisedClassifier(scale="none").fit(X, y)
    assert len(made) == 1
    different = np.where((np.arange(3) == 1) & (np.arange(150)[:, None] < 60), -1, y)
    SemiSupervisedClassifier(scale="none").fit(X, different)
    assert len(made) == 4


def test_a_stored_model_predicts_the_same(fitted, tagged):
    X = tagged[0]
    stored = TagModel.from_arrays(*fitted.model_.to_arrays())
    assert_array_equal(stored.values(X), fitted.model_.values(X))
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.predict(X))
    assert_array_equal(fitted.support(X), fitted.estimators_[0].support(X))


def test_predictions_are_written_to_an_array(fitted, tagged, tmp_path):
    X = tagged[0]
    written = fitted.predict_to(X, tmp_path / "tags.zarr")
    array = zarr.open_array(tmp_path / "tags.zarr", mode="r")
    assert_array_equal(array[:], fitted.predict(X))
    assert array.attrs["classes"] == ["0", "1", "2"]
    assert written["counts"] == {str(column): int(fitted.predict(X)[:, column].sum()) for column in range(3)}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["float", "bool", "object", "frame", "list", "marker"])
@pytest.mark.extended_cases("bool")
def test_forms_of_y_say_the_same(fitted, tagged, form):
    X, _, y = tagged
    names, marker = np.arange(3), None
    given = {"float": np.where(y < 0, np.nan, y), "list": y.tolist(), "object": np.where(y < 0, None, y == 1),
             "frame": pd.DataFrame(y, columns=["sea", "sky", "sun"]).astype("Int64").replace(-1, pd.NA),
             "marker": np.where(y < 0, 9, y)}.get(form, y)
    if form == "marker":
        marker = 9
    if form == "frame":
        names = np.array(["sea", "sky", "sun"])
    if form == "bool":  # wholly known
        X, given = X[y[:, 0] >= 0], y[y[:, 0] >= 0] == 1
        wanted = SemiSupervisedClassifier(scale="none").fit(X, given.astype(int)).predict(X)
    else:
        wanted = fitted.predict(X)
    model = SemiSupervisedClassifier(scale="none", unlabeled=marker).fit(X, given)
    assert_array_equal(model.classes_, names)
    assert_array_equal(model.predict(X), wanted)


@pytest.mark.slow
def test_a_sparse_indicator_is_wholly_known(tagged):
    X, Y, _ = tagged
    model = LaplaceLearning().fit(X, sparse.csr_array(Y))
    assert_array_equal(model.transduction_, LaplaceLearning().fit(X, Y).transduction_)


def test_columns_may_be_known_at_different_points(tagged):
    X, _, y = tagged
    y = y.copy()
    rows = np.flatnonzero(y[:, 0] >= 0)
    y[rows[:20], 0], y[rows[20:], 1] = -1, -1
    model = SemiSupervisedClassifier(scale="none").fit(X, y)
    counts = [tag["known"] for tag in model.evidence_["held_out"]["model"]["by_tag"]]
    assert counts == [20, 20, 40]
    assert model.evidence_["n_labeled"] == 40
    assert model.evidence_["held_out"]["model"]["n_whole"] == 0
    assert model.evidence_["held_out"]["model"]["ranking_loss"] is None


def test_the_score_is_the_subset_accuracy_of_wholly_labeled_points(fitted, tagged):
    X, Y, y = tagged
    whole = y[:, 0] >= 0
    assert fitted.score(X, Y) == accuracy_score(Y, fitted.predict(X))
    some = Y.copy()
    some[~whole, 1] = -1
    weight = np.arange(1.0, 151.0)
    assert_allclose(fitted.score(X, some, sample_weight=weight),
                    accuracy_score(Y[whole], fitted.predict(X)[whole], sample_weight=weight[whole]))
    with pytest.raises(DataError, match="no row without unknown"):
        fitted.score(X, np.where(np.arange(3) == 1, -1, Y))
    with pytest.raises(DataError, match="the fit was of 3 tags"):
        fitted.score(X, Y[:, :2])


def test_weights_count_in_every_label(tagged):
    X, _, y = tagged
    weight = np.where(np.arange(150) % 2, 1.0, 0.25)
    model = LaplaceLearning().fit(X, y, sample_weight=weight)
    assert_array_equal(model.transduction_[:, 1], LaplaceLearning().fit(X, y[:, 1], sample_weight=weight).transduction_)


def test_the_evidence_is_over_all_labels(fitted):
    evidence = fitted.evidence_
    losses = [tag.gain_ for tag in fitted.estimators_]
    assert fitted.gain_.metric == "Hamming loss"
    assert_allclose(fitted.gain_.with_graph, np.mean([gain.with_graph for gain in losses]))
    assert_allclose(fitted.gain_.baseline, np.mean([gain.baseline for gain in losses]))
    assert fitted.gain_.n == 40
    # Labels of one point may agree in everything: the mean of their standard errors is an upper bound.
    assert fitted.gain_.standard_error <= np.mean([gain.standard_error for gain in losses]) * np.sqrt(40 / 39) + 1e-12
    assert "Hamming loss" in evidence["in_words"]
    assert "mean average precision" in evidence["in_words"]
    assert set(evidence["tags"]) == {0, 1, 2}
    page = fitted.report()
    assert "macro F1" in page
    assert "Each tag" in page


def test_one_warning_says_of_all_labels_that_the_graph_hurts(tagged, monkeypatch):
    X, _, y = tagged
    monkeypatch.setattr(Gain, "hurts", True)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        SemiSupervisedClassifier(scale="none").fit(X, y)
    message, = [str(warning.message) for warning in raised if issubclass(warning.category, GraphDoesNotHelp)]
    assert "Hamming loss" in message


@pytest.mark.extended
def test_the_opinion_of_another_model_is_taken_for_each_label(tagged):
    X, Y, y = tagged
    model = SemiSupervisedClassifier(scale="none").fit(X, y, soft_labels=np.where(Y == 1, 0.9, 0.1))
    assert model.score(X, Y) > 0.9
    assert "other_model" in model.evidence_["tags"][0]
    with pytest.raises(DataError, match="soft_labels has shape"):
        SemiSupervisedClassifier().fit(X, y, soft_labels=np.full((150, 2), 0.5))


@pytest.mark.parametrize(("change", "message"), [
    (lambda y: np.where(y == 1, 2, y), "entries that are not 0, 1 or -1"),
    (lambda y: np.minimum(y, 0), "tags that no labeled point has: 0, 1, 2"),
    (lambda y: np.where(y == 0, -1, y), "tags that every labeled point has: 0, 1, 2"),
    (lambda y: y[:-1], "149 rows for 150 points"),
    (lambda y: pd.DataFrame(y, columns=["a", "b", "a"]), "two columns of y are named 'a'"),
    (lambda y: np.where(y < 0, "?", np.where(y == 1, "yes", "no")), "the first as .*, '(no|yes)'"),
], ids=["classes", "absent", "everywhere", "length", "twice", "text"])
def test_what_is_no_indicator_is_refused(tagged, change, message):
    X, _, y = tagged
    with pytest.raises(DataError, match=message):
        SemiSupervisedClassifier().fit(X, change(y))


@pytest.mark.parametrize(("entry", "predicted", "share", "words"), [
    (0, 0, 1 / 42, "no labeled point has: 1; it is predicted nowhere"),
    (1, 1, 41 / 42, "every labeled point has: 1; it is predicted everywhere"),
    (-1, -1, np.nan, "no point has a known entry of: 1; it is unknown everywhere")])
@pytest.mark.slow_cases(
    "0-0-0.023809523809523808-no labeled point has: 1; it is predicted nowhere",
    "1-1-0.9761904761904762-every labeled point has: 1; it is predicted everywhere")
def test_a_tag_of_one_class_is_said_and_has_no_errors_in_the_evidence(tagged, entry, predicted, share, words, tmp_path):
    X, _, y = tagged
    lacking = np.where((np.arange(3) == 1) & (y >= 0), entry, y)
    with pytest.warns(UserWarning, match=words):
        model = SemiSupervisedClassifier(scale="none").fit(X, lacking)
    others = SemiSupervisedClassifier(scale="none").fit(X, y[:, [0, 2]])
    assert model.estimators_[1] is None
    assert_array_equal(model.predict(X)[:, 1], predicted)
    assert_array_equal(model.transduction_[:, 1], predicted)
    assert_array_equal(model.predict(X)[:, [0, 2]], others.predict(X))
    assert_allclose(model.predict_proba(X)[:, 1], share)
    share_of_others = 2 / 3 if predicted >= 0 else 1  # of the known entries
    for name in ("with_graph", "baseline", "difference", "standard_error"):
        assert_allclose(getattr(model.gain_, name), share_of_others * getattr(others.gain_, name))
    assert_allclose(model.gain_.p_value, others.gain_.p_value)
    assert model.evidence_["over_tags"] == others.evidence_["over_tags"]
    assert words in model.evidence_["in_words"]
    assert list(model.evidence_["tags"]) == [0, 2]
    stored = TagModel.from_arrays(*model.model_.to_arrays())
    assert_array_equal(stored.values(X), model.model_.values(X))


def test_what_is_of_one_column_is_refused(tagged):
    X, _, y = tagged
    with pytest.raises(ParameterError, match=r"class_sizes=.* y has 3 columns"):
        SemiSupervisedClassifier(class_sizes=[0.5, 0.5]).fit(X, y)
    with pytest.raises(ParameterError, match="class_embeddings is given, and y has 3 columns"):
        SemiSupervisedClassifier(class_embeddings=np.ones((3, 8))).fit(X, y)
    with pytest.raises(DataError, match="search for each column"):
        GridSearch(LaplaceLearning(), {"graph__n_neighbors": [5, 10]}).fit(X, y)
    assert LapKernelRidge().fit(X, np.where(y < 0, np.nan, y)).predict(X).shape == (150, 3)


def test_points_to_label_are_suggested_for_one_label_or_without_a_model(fitted, tagged):
    X, _, y = tagged
    labeled = np.flatnonzero(y[:, 0] >= 0)
    assert not np.isin(suggest_labels(X, y, count=5).ids, labeled).any()
    one = suggest_labels(X, y[:, 1], count=5, model=fitted.estimators_[1], criterion="uncertainty")
    assert not np.isin(one.ids, labeled).any()
    with pytest.raises(DataError, match="a model of tags"):
        suggest_labels(X, y, count=5, model=fitted)


@pytest.mark.parametrize(("form", "marker"), [("float", -1), ("marker", 9), ("mixed", None), ("nullable", None)])
def test_a_suggestion_reads_tags_as_a_fit_does(tagged, form, marker):
    X, _, y = tagged
    some_missing = (y < 0) & (np.arange(150) % 2 == 0)[:, None]
    given = {"float": y.astype(float), "marker": np.where(y < 0, 9.0, y), "mixed": np.where(some_missing, np.nan, y),
             "nullable": pd.DataFrame(y).astype("Int64").replace(-1, pd.NA)}[form]
    suggestion = suggest_labels(X, given, count=5, unlabeled=marker)
    assert suggestion.attributes["labeled"] == 40
    assert_array_equal(suggestion.ids, suggest_labels(X, y, count=5).ids)


def test_a_suggestion_takes_several_quantities_and_refuses_text(tagged):
    X, Y, y = tagged
    quantities = np.where(y < 0, np.nan, Y + 0.5)
    assert suggest_labels(X, quantities, count=5).attributes["labeled"] == 40
    with pytest.raises(DataError, match="every point has a label"):
        suggest_labels(X, sparse.csr_array(Y), count=5)
    with pytest.raises(DataError, match="expected real numbers"):
        suggest_labels(X, np.where(y < 0, "no", "yes"), count=5)


@pytest.mark.parametrize("learner", [LaplaceLearning(), SemiSupervisedClassifier(scale="none")], ids=str)
@pytest.mark.extended_cases("LaplaceLearning()")
def test_one_index_is_alive_however_many_tags_there_are(tagged, learner, monkeypatch):
    X, _, y = tagged
    alive, of = weakref.WeakSet(), NeighborIndex.of
    counts = []

    def counted(*given):
        index = of(*given)
        alive.add(index)
        counts.append(len(alive))
        return index
    monkeypatch.setattr(NeighborIndex, "of", counted)
    model = learner.fit(X, y)
    assert len(counts) >= 3
    assert max(counts) <= 2  # that of the first tag, and that of the tag that is fitted
    assert len({id(tag.model_.on_graph.index) for tag in model.estimators_}) == 1
    assert model.model_.index_of == (0, 0, 0)


@pytest.mark.parametrize("learner", [SemiSupervisedClassifier(scale="none"), LapSVC(n_landmarks=40),
                                     GraphKernelRidge()], ids=str)
@pytest.mark.slow_cases("SemiSupervisedClassifier(scale='none')")
def test_tags_are_exported_and_saved_in_one_file(tagged, learner, tmp_path):
    X, _, y = tagged
    lacking = np.hstack([y, np.where(y[:, :1] >= 0, 0, -1)])  # the last tag has no labels but 0
    moved = X[:50] + np.random.default_rng(1).normal(0, 0.3, (50, 8))  # no two distances are equal but for rounding
    model, new = learner.fit(X, lacking), np.vstack([moved, X[:20], X[:3] + 1e6])
    exported = numpy_model.load(model.export(tmp_path / "all.dssl.zip"))
    loaded = load(model.save(tmp_path / "all.dssl", report=False))
    assert exported.classes.tolist() == [0, 1, 2, 3]
    for other in (exported, loaded):
        assert_array_equal(other.predict(new), model.predict(new))
        assert_allclose(other.predict_proba(new), model.predict_proba(new), rtol=0, atol=1e-6)
    with zipfile.ZipFile(tmp_path / "all.dssl.zip") as archive:
        shapes = [np.load(archive.open(name)).shape for name in archive.namelist() if name.endswith(".npy")]
    assert shapes.count(X.shape) <= 1  # all tags have one graph


def test_a_fit_of_one_label_after_several_forgets_them(tagged):
    X, _, y = tagged
    model = LaplaceLearning().fit(X, y)
    assert not hasattr(model.fit(X, y[:, 0]), "estimators_")
    assert model.predict(X).shape == (150,)


def test_the_comparison_of_each_label_is_computed_on_request(tagged):
    X, _, y = tagged
    model = LaplaceLearning().fit(X, y)
    assert list(model.by_labels_) == [0, 1, 2]
    assert model.by_labels_[1]["scores"] == model.estimators_[1].by_labels_["scores"]


@pytest.mark.parametrize("y", [[["a", "b"]] * 4 + [["c"]] * 4 + [None] * 4, [{"a"}] * 12,
                               [["a"]] * 6 + [["a", "b"]] * 6, pd.Series([["a"], ["a", "b"], None] * 4),
                               pd.Series([["a", "b"]] * 12)])
def test_lists_of_labels_are_refused_with_the_way_to_columns(y):
    with pytest.raises(DataError, match=r"y lists the labels of each point(.|\n)*MultiLabelBinarizer"):
        LapSVC().fit(np.arange(12.0)[:, None], y)


def test_columns_of_minus_one_and_one_alone_lack_points_without_the_tag():
    y = np.where(np.arange(24).reshape(12, 2) % 3 > 0, 1, -1)
    with pytest.raises(DataError, match="pass 0 where a point does not have a tag"):
        LapSVC().fit(np.arange(12.0)[:, None], y)
