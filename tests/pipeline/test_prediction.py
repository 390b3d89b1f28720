"""Prediction of files that are not laid out like the training file."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

from dssl.errors import DataError
from dssl.execution import InProcess
from dssl.pipeline.prediction import open_model
from dssl.pipeline.run import run

NAMES = list("abcde")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run, its model, and the table it was trained on; every column has another scale."""
    folder = tmp_path_factory.mktemp("prediction")
    X, y = make_blobs(300, 5, centers=3, random_state=0, cluster_std=3.0)
    table = pd.DataFrame(X * [1, 2, 3, 4, 5], columns=NAMES)
    table["kind"] = np.array(["x", "y", "z"])[y]
    table.to_csv(folder / "train.csv", index=False)
    spec = {"name": "t", "data": {"source": str(folder / "train.csv"), "read": {"target": "kind"},
                                  "test": {"count": 60}}, "labels": {"per_class": 4}}
    result = run(spec, workspace=folder / "work", execution=InProcess(2))
    return folder, open_model(result["model"]), table


def predict(trained, table, name, **options):
    folder, model, _ = trained
    table.to_csv(folder / name, index=False)
    return model.predict(model.points_of(str(folder / name), InProcess(2), **options))


@pytest.mark.parametrize("columns", [[*NAMES, "kind"], NAMES, NAMES[::-1], ["kind", *NAMES[::-1]]])
def test_columns_are_matched_by_name(trained, columns):
    table = trained[2]
    expected = predict(trained, table, "same.csv")
    assert len(set(expected)) == 3
    np.testing.assert_array_equal(predict(trained, table[columns], "other.csv"), expected)


def test_columns_that_the_model_does_not_know_are_refused_or_dropped(trained):
    table = trained[2]
    wider = table[NAMES].assign(id=np.arange(len(table)))
    with pytest.raises(DataError, match=r"does not know: id[\s\S]*drop=\[id\]"):
        predict(trained, wider, "wider.csv")
    np.testing.assert_array_equal(predict(trained, wider, "wider.csv", drop=("id",)),
                                  predict(trained, table, "same.csv"))


def test_a_missing_column_is_named(trained):
    with pytest.raises(DataError, match="no column c, e"):
        predict(trained, trained[2][["a", "b", "d"]], "narrow.csv")


def test_points_without_names_are_counted(trained, tmp_path):
    _, model, table = trained
    np.savez(tmp_path / "good.npz", X=table[NAMES].to_numpy())
    np.savez(tmp_path / "bad.npz", X=table[NAMES[:4]].to_numpy())
    good = model.predict(model.points_of(str(tmp_path / "good.npz"), InProcess(2)))
    np.testing.assert_array_equal(good, predict(trained, table, "same.csv"))
    with pytest.raises(DataError, match="4 features, the model was fitted on 5"):
        model.points_of(str(tmp_path / "bad.npz"), InProcess(2))
