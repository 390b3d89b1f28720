"""The pipelines of `model.kind: transductive`."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dssl.base.errors import ParameterError, SpecError
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.pipeline.run import run
from dssl.storage.manifests import read_manifest


@pytest.fixture(scope="module")
def moons(tmp_path_factory):
    """A spec of two moons, and their file."""
    X, y = make_moons(400, noise=0.1, random_state=0)
    path = tmp_path_factory.mktemp("points") / "moons.npz"
    np.savez(path, X=X, y=y)
    return {"name": "moons", "data": {"source": str(path), "test": {"count": 100}, "scale": "none"},
            "labels": {"per_class": 4, "random_state": 3},
            "model": {"kind": "transductive", "landmarks": {"n_landmarks": 60}}}, X, y


def test_a_run_gains_over_the_machine_of_the_labels_and_predicts_probabilities(moons, tmp_path):
    spec, X, y = moons
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert result.metrics["error"] < result.baselines["base"]["error"] - 0.1
    assert "Transductive SVM" in (result.folder / "report.html").read_text(encoding="utf-8")
    P = result.predict_proba(X)
    assert -np.log(P[np.arange(len(y)), y]).mean() < 0.4
    assert (P.argmax(axis=1) == result.predict(X).astype(int)).all()
    again = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert {stage.status for stage in again.stages} == {"cached"}


def test_class_sizes_are_those_of_the_unlabeled_points(moons, tmp_path):
    spec = {**moons[0], "model": {**moons[0]["model"], "class_sizes": [240, 60]}}
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    models = read_manifest(result.model_path / "manifest.json")["attributes"]
    assert models["evidence"]["share"] == pytest.approx([(60 - 4) / 292])
    few = {**spec, "model": {**spec["model"], "class_sizes": [299, 1]}}
    with pytest.raises(ParameterError, match="class_sizes leaves"):
        run(few, workspace=tmp_path, execution=InProcess(1))


def test_a_spec_that_makes_no_sense_is_refused(moons):
    with pytest.raises(SpecError, match="C=0"):
        load_spec({**moons[0], "model": {"kind": "transductive", "C": 0.0}})
    with pytest.raises(SpecError, match="graph"):
        load_spec({**moons[0], "graph": {"n_neighbors": 5}})
