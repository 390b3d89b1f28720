"""What a pipeline file says of the frequencies of classes; what a model is told its baselines are told."""

import numpy as np
import pandas as pd
import pytest

from dssl.base.errors import ParameterError, SpecError
from dssl.execution.in_process import InProcess
from dssl.learners.class_prior import EQUAL, LABELS, ClassPrior, by_class
from dssl.learners.target.target import Classes
from dssl.pipeline.load import load_spec
from dssl.pipeline.run import run
from dssl.report.record import RunRecord
from dssl.report.sections.data import data_section
from dssl.selection.scores import constant_prediction


def spec(labels, task="classification", **model):
    return load_spec({"name": "a", "data": {"source": "a.csv", "task": task}, "labels": labels, "model": model})


@pytest.mark.parametrize(("labels", "model", "prior"), [
    ({"per_class": 3}, {}, EQUAL), ({"count": 30}, {}, LABELS), ({"fraction": 0.1}, {}, LABELS),
    ({"given": True}, {}, LABELS), ({"per_class": 3}, {"class_prior": "labels"}, LABELS),
    ({"count": 30}, {"class_prior": "equal"}, EQUAL),
    ({"count": 30}, {"class_prior": {"a": 0.9, "b": 0.1}}, ClassPrior("given", named=(("a", 0.9), ("b", 0.1)))),
    ({"per_class": 3}, {"class_sizes": [90, 10]}, ClassPrior("sizes", ordered=(90.0, 10.0)))])
def test_the_draw_of_the_labels_says_whether_their_frequencies_mean_anything(labels, model, prior):
    assert spec(labels, **model).prior == prior


def test_numbers_below_a_key_are_classes_that_are_numbers():
    given = {"name": "a", "data": {"source": "a.csv"}, "labels": {"count": 30}, "model": {"kind": "automatic"}}
    apart = load_spec(given, ("model.class_prior.0=0.9", "model.class_prior.-1=0.1"))
    assert apart.prior == load_spec(given, ("model.class_prior={0: 0.9, -1: 0.1}",)).prior
    assert apart.prior.named == ((0, 0.9), (-1, 0.1))


def test_classes_that_are_written_otherwise_are_told_how():
    with pytest.raises(ParameterError, match="texts in quotes and numbers without"):
        by_class({"0": 1.0, "1": 2.0}, np.array([0, 1]), "class_prior")
    with pytest.raises(ParameterError, match="give a number to each of these"):
        by_class({"a": 1.0}, np.array([0, 1]), "class_prior")


@pytest.mark.parametrize(("task", "model"), [
    ("regression", {"class_prior": "equal"}), ("classification", {"class_prior": "equal", "class_sizes": [1, 2]})])
def test_a_prior_beside_sizes_or_of_quantities_is_refused(task, model):
    with pytest.raises(SpecError, match="class_prior"):
        spec({"count": 30}, task, **model)


@pytest.mark.parametrize(("labels", "model", "words"), [
    ({"per_class": 5}, {}, "assumed to be equal, because the spec draws the same number of labels"),
    ({"count": 10}, {}, "as among the labels"),
    ({"per_class": 5}, {"class_prior": "labels"}, "as given in model.class_prior: labels")])
def test_the_report_says_how_frequent_classes_count(labels, model, words):
    run = RunRecord({"labels": {"per_class": [5, 5], "n_labeled": 10}}, {}, {"labels": labels, "model": model})
    assert words in str(data_section(run).html)


# What a model is told its baselines are told, so that a verdict is of the graph alone


@pytest.fixture(scope="module")
def one_in_ten(tmp_path_factory):
    """An npz file of two Gaussians, one deviation apart, the second of a tenth of the points."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 10 == 0
    X = rng.normal(size=(600, 3)) + y[:, None] / np.sqrt(3)
    path = tmp_path_factory.mktemp("one_in_ten") / "points.npz"
    np.savez(path, X=X, y=y.astype(int))
    return path


@pytest.mark.slow
def test_baselines_are_told_the_class_sizes(one_in_ten, tmp_path):
    """Without them the baseline, of five labels a class, takes nearly half of the points for the second class."""
    spec = {"name": "sized", "data": {"source": str(one_in_ten), "test": {"count": 200}}, "labels": {"per_class": 5},
            "graph": {"n_neighbors": 6}, "model": {"kind": "automatic", "class_sizes": [0.9, 0.1]}}
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    for name in ("base", "nearest"):
        predicted = np.array(result.baselines[name]["confusion"]).sum(axis=0) / 200
        assert predicted[1] < 0.2
    assert result.baselines["majority"]["predicts"] == 0
    assert result.baselines["majority"]["error"] == np.array(result.metrics["confusion"]).sum(axis=1)[1] / 200
    assert result.gain["by_labels"]["scores"]["majority"]["predicts"] == 0
    assert "both without the class sizes" in " ".join(result.verdict)
    assert result.gain["unlabeled_data"] != "helped"
    if result.metrics["error"] >= result.baselines["majority"]["error"]:
        assert "than always predicting class 0" in result.verdict[0]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "labels", "settings", "sign"), [
    ({"kind": "automatic"}, {"per_class": 10}, {"class_prior": [0.9, 0.1]}, -1),
    ({"kind": "graph", "learner": "ridge"}, {"count": 80}, {"class_weight": {1: 9.0}}, 1)])
def test_the_nearest_label_is_told_the_prior_and_the_weights(one_in_ten, tmp_path, model, labels, settings, sign):
    spec = {"name": "told", "data": {"source": str(one_in_ten), "test": {"count": 200}}, "labels": labels,
            "graph": {"n_neighbors": 6}, "model": model}
    shares = []
    for own in (spec, {**spec, "model": {**model, **settings}}):
        result = run(own, workspace=tmp_path, execution=InProcess(1))
        shares.append(np.array(result.baselines["nearest"]["confusion"]).sum(axis=0)[1] / 200)
    assert sign * (shares[1] - shares[0]) > 0.05


@pytest.mark.slow
def test_the_majority_class_by_labels_is_told_the_class_sizes(one_in_ten, tmp_path):
    """Five labels a class say nothing of which is frequent; the sizes say it, though the points are of the other."""
    spec = {"name": "sized", "data": {"source": str(one_in_ten), "test": {"none": True}}, "labels": {"per_class": 5},
            "graph": {"n_neighbors": 6}, "model": {"kind": "graph", "learner": "laplace", "class_sizes": [0.4, 0.6]}}
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert result.gain["by_labels"]["scores"]["majority"]["predicts"] == 1


def test_the_majority_class_follows_the_prior_of_the_model():
    names, true = np.array(["a", "b"]), np.array([0, 0, 0, 1])
    labels = Classes(np.arange(6), np.array([0, 0, 0, 0, 1, 1]), names)
    points = Classes(np.arange(4), true, names)
    assert constant_prediction(labels, points) == ("majority", 0)
    assert constant_prediction(labels.with_prior(ClassPrior.of([0.3, 0.7])), points) == ("majority", 1)
    assert constant_prediction(labels.with_prior(EQUAL), points) == ("majority", 0)


@pytest.mark.extended
def test_a_useless_model_is_told_which_columns_were_left_out(tmp_path):
    rng = np.random.default_rng(0)
    n = 200
    words = ["good", "bad", "late", "fine", "again", "never", "price"]
    pd.DataFrame({"x": rng.normal(size=n), "comment": [" ".join(rng.choice(words, 5)) for _ in range(n)],
                  "label": np.where(rng.random(n) < 0.1, "yes", "no")}).to_csv(tmp_path / "t.csv", index=False)
    result = run({"name": "t", "data": {"source": str(tmp_path / "t.csv"), "read": {"target": "label"},
                                        "test": {"count": 100}}, "labels": {"given": True}, "model": {"kind": "svm"}},
                 workspace=tmp_path / "work", execution=InProcess(1))
    assert result.verdict[0].startswith("The model is no better than")
    assert "Left out: 'comment', as free text. To learn from it, add embeddings" in result.verdict[1]
    assert "add embeddings of it" in result.report.read_text()
