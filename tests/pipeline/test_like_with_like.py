"""What a model is told its baselines are told, so that a verdict is of the graph alone."""

import numpy as np
import pandas as pd
import pytest

from dssl.execution.in_process import InProcess
from dssl.learners.class_prior import EQUAL, ClassPrior
from dssl.learners.target.target import Classes
from dssl.pipeline.run import run
from dssl.selection.scores import constant_prediction


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
