"""A run finds what the estimator of its method finds, with labels that weigh by `model.class_weight`."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal

from dssl import (
    ClusterKernelSVC,
    GraphKernelRidge,
    LaplaceLearning,
    LapRLSClassifier,
    LapSVC,
    LapSVM,
    MultiscaleKernelClassifier,
    PoissonLearning,
    SemiSupervisedClassifier,
    TransductiveSVC,
)
from dssl.base.errors import SpecError
from dssl.cli.main import main
from dssl.execution.in_process import InProcess
from dssl.learners.class_prior import ClassWeight
from dssl.pipeline.load import load_spec
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run

WEIGHT = {0: 1.0, 1: 4.0}
METHODS = {
    "automatic": ({"kind": "automatic"}, SemiSupervisedClassifier()), "svm": ({"kind": "svm"}, LapSVC()),
    "hinge": ({"kind": "svm", "loss": "hinge"}, LapSVC(loss="hinge")), "ridge": ({"kind": "ridge"}, LapSVC()),
    "laprls": ({"kind": "laprls"}, LapRLSClassifier()), "lapsvm": ({"kind": "lapsvm"}, LapSVM()),
    "graph": ({"kind": "graph"}, GraphKernelRidge()),
    "laplace": ({"kind": "graph", "learner": "laplace"}, LaplaceLearning()),
    "poisson": ({"kind": "graph", "learner": "poisson"}, PoissonLearning()),
    "cluster": ({"kind": "cluster"}, ClusterKernelSVC()),
    "multiscale": ({"kind": "multiscale"}, MultiscaleKernelClassifier()),
    "transductive": ({"kind": "transductive"}, TransductiveSVC(probability=True))}


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """An npz file of two Gaussians, the second of a quarter of the points, a third of which have a label."""
    rng = np.random.default_rng(0)
    true = (rng.random(150) < 0.25).astype(int)
    X = rng.normal(size=(150, 3)).astype(np.float32)
    X[:, 0] += 1.5 * true
    y = np.where(np.arange(150) < 50, true, -1)
    path = tmp_path_factory.mktemp("points") / "points.npz"
    np.savez(path, X=X, y=y)
    return path, X, y


def spec_of(path, **model):
    return {"name": "weighed", "data": {"source": str(path), "test": {"none": True}}, "labels": {"given": True},
            "model": model}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A workspace in which the methods share points and graph."""
    return tmp_path_factory.mktemp("work")


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.extended_cases("transductive", "graph", "lapsvm", "laplace", "cluster", "hinge")
@pytest.mark.slow_cases("automatic", "laprls", "multiscale")
def test_a_run_finds_what_the_estimator_finds(points, workspace, name):
    path, X, y = points
    model, estimator = METHODS[name]
    weight = {} if name == "poisson" else {"class_weight": WEIGHT}
    result = run(spec_of(path, **model, **weight), workspace=workspace, execution=InProcess(1))
    own = estimator.set_params(**weight).fit(X, y)
    assert_allclose(result.predict_proba(X), own.predict_proba(X), atol=1e-6)
    assert_array_equal(result.predict(X), own.predict(X))


def test_weights_move_the_model_and_its_baseline(points, workspace):
    path, X, _ = points
    weighed, plain = (run(spec_of(path, kind="ridge", **more), workspace=workspace, execution=InProcess(1))
                      for more in ({"class_weight": WEIGHT}, {}))
    assert weighed.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.05
    assert (weighed.predict(X, model="base") == 1).sum() > (plain.predict(X, model="base") == 1).sum()


@pytest.mark.slow
def test_balanced_weights_through_the_command_line(points, tmp_path):
    path, X, _ = points
    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps(spec_of(path, kind="graph", learner="laplace")))

    def made(*more):
        found = CliRunner().invoke(main, ["run", str(spec), "--on", "in-process", "--workspace", str(tmp_path / "work"),
                                          "--json", *more])
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    plain, balanced = made(), made("--set", "model.class_weight=balanced")
    assert {stage["name"] for stage in balanced["stages"] if stage["status"] != "cached"} >= {"models", "scores"}
    assert "graph" in {stage["name"] for stage in balanced["stages"] if stage["status"] == "cached"}
    P, P_balanced = (RunResult.open(own["folder"]).predict_proba(X)[:, 1] for own in (plain, balanced))
    assert P_balanced.mean() > P.mean() + 0.05


@pytest.mark.parametrize(("given", "weight"), [
    (None, ClassWeight()), ("balanced", ClassWeight("balanced")),
    ({"a": 2.0}, ClassWeight("given", (("a", 2.0),)))])
def test_a_spec_says_what_labels_weigh(given, weight):
    model = {} if given is None else {"class_weight": given}
    spec = load_spec({"name": "a", "data": {"source": "a.csv"}, "labels": {"count": 9}, "model": model})
    assert spec.weight == weight


def test_quantities_have_no_weights_by_class():
    with pytest.raises(SpecError, match="class_weight"):
        load_spec({"name": "a", "data": {"source": "a.csv", "task": "regression"}, "labels": {"count": 9},
                   "model": {"class_weight": "balanced"}})
