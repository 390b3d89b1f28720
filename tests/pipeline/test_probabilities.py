"""`dssl predict --probabilities`: in every format; no word of what is not calibrated."""

import json

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from sklearn.datasets import make_blobs
from sklearn.metrics import log_loss

from dssl.cli.main import main
from dssl.execution.in_process import InProcess
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.storage.csr import as_rows

KINDS = {"automatic": {"kind": "automatic"}, "hinge": {"kind": "svm", "loss": "hinge"}}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a table of 300 points in three classes; its points, and the table."""
    folder = tmp_path_factory.mktemp("probabilities")
    X, y = make_blobs(300, 4, centers=3, random_state=1, cluster_std=2.5)
    table = pd.DataFrame(X.astype(np.float32), columns=list("abcd")).assign(kind=np.array(["x", "y", "z"])[y])
    table.to_csv(folder / "train.csv", index=False)
    return folder, X.astype(np.float32), table


def fitted(made, model, **sections):
    folder, _, _ = made
    spec = {"name": "p", "data": {"source": str(folder / "train.csv"), "read": {"target": "kind"},
                                  "test": {"count": 60}, "scale": "none"}, "labels": {"per_class": 5},
            "graph": {"n_neighbors": 6}, "model": model, **sections}
    return run(spec, workspace=folder / "work", execution=InProcess(2)).model_path


def predict(*arguments):
    return CliRunner().invoke(main, ["predict", *map(str, arguments), "--json"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
def test_they_sum_to_one_and_the_most_probable_class_is_the_label(made, kind, tmp_path):
    _, _, table = made
    model = fitted(made, KINDS[kind])
    table.drop(columns="kind").to_csv(tmp_path / "new.csv", index=False)
    for name in ("out.csv", "out.npy", "out.zarr", "out.parquet"):
        done = predict(model, tmp_path / "new.csv", tmp_path / name, "--probabilities")
        assert done.exit_code == 0, done.output
        assert sum(json.loads(done.stdout)["counts"].values()) == 300
    found = pd.read_csv(tmp_path / "out.csv")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), found, check_dtype=False)
    assert list(found.columns) == ["row", "label", "probability", "probability x", "probability y", "probability z"]
    assert found["row"].tolist() == list(range(300))
    P = found.iloc[:, -3:].to_numpy()
    if kind != "hinge":
        np.testing.assert_allclose(found["probability"], P.max(axis=1), rtol=1e-8)
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-8)
    agree = np.mean(np.array(["x", "y", "z"])[P.argmax(axis=1)] == found["label"])
    assert agree > 0.95 if kind == "hinge" else agree == 1  # votes of pairs, and mean margins
    assert log_loss(table["kind"], P) < 0.8
    np.testing.assert_allclose(P, np.load(tmp_path / "out.npy"), rtol=1e-8)
    P = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
    array = zarr.open_array(tmp_path / "out.zarr", mode="r")
    np.testing.assert_allclose(array[:], P, rtol=1e-12)
    assert array.attrs["classes"] == ["x", "y", "z"]


@pytest.mark.slow
def test_a_model_of_quantities_has_none(made, tmp_path):
    folder = fitted(made, {"kind": "automatic"}, labels={"count": 40}, data={
        "source": str(made[0] / "train.csv"), "task": "regression", "read": {"target": "a", "drop": ["kind"]},
        "test": {"count": 60}})
    refused = predict(folder, tmp_path / "none.csv", tmp_path / "out.csv", "--probabilities")
    assert refused.exit_code == 1
    assert "predicts quantities, not classes" in refused.output
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_one_label_a_class_has_probabilities(made, tmp_path):
    folder = fitted(made, {"kind": "automatic"}, labels={"per_class": 1})
    P = open_model(folder).predict_proba(as_rows(made[1]))
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert log_loss(made[2]["kind"], P) < 1.0  # of equal probabilities 1.1


@pytest.mark.slow
def test_a_point_without_a_label_has_none(made, tmp_path):
    """New points far away from the model, by a kernel that is zero there."""
    model = fitted(made, {"kind": "svm"}, kernel={"bandwidth": 0.5})
    far = pd.DataFrame(np.full((2, 4), 1e4), columns=list("abcd"))
    far.iloc[0] = made[2].drop(columns="kind").iloc[0]
    far.to_csv(tmp_path / "far.csv", index=False)
    for name in ("out.csv", "out.npy", "out.zarr"):
        done = predict(model, tmp_path / "far.csv", tmp_path / name, "--probabilities", "--reject")
        assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert table.iloc[1].tolist() == [1, "", "", True, "", "", ""]
    for P in (np.load(tmp_path / "out.npy"), zarr.open_array(tmp_path / "out.zarr", mode="r")[:]):
        assert np.isnan(P[1]).all()
        assert P[0].sum() == pytest.approx(1)
