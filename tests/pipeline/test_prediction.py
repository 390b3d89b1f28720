"""Prediction of files that are not laid out like the training file."""

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from sklearn.datasets import make_blobs

from dssl.blocks import as_rows
from dssl.cli import main
from dssl.data.append import append
from dssl.data.ingest import ingest
from dssl.data.store import StoredParts, StoredRows
from dssl.errors import DataError
from dssl.execution import InProcess
from dssl.pipeline.prediction import ChosenColumns, open_model
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


def test_tables_of_another_format_are_matched_by_name(trained, tmp_path):
    _, model, table = trained
    expected = predict(trained, table, "same.csv")
    for name, columns in (("all", [*NAMES, "kind"]), ("turned", ["kind", *NAMES[::-1]]), ("points", NAMES[::-1])):
        table[columns].to_parquet(tmp_path / f"{name}.parquet")
        found = model.predict(model.points_of(tmp_path / f"{name}.parquet", InProcess(2)))
        np.testing.assert_array_equal(found, expected)
    table[["a", "b", "d"]].to_parquet(tmp_path / "narrow.parquet")
    with pytest.raises(DataError, match="no column c, e"):
        model.points_of(tmp_path / "narrow.parquet", InProcess(2))
    table[NAMES].set_axis(list("pqrst"), axis=1).to_parquet(tmp_path / "renamed.parquet")
    found = model.predict(model.points_of(tmp_path / "renamed.parquet", InProcess(2), target="none"))
    np.testing.assert_array_equal(found, expected)  # none of the names is known: column by column


def test_patterns_and_lists_are_read_as_one_file(trained, tmp_path):
    _, model, table = trained
    expected = predict(trained, table, "same.csv")
    table[:100].to_csv(tmp_path / "part-2.csv", index=False)
    table[100:][["kind", *NAMES[::-1]]].to_csv(tmp_path / "part-10.csv", index=False)
    for source in (str(tmp_path / "part-*.csv"), [tmp_path / "part-2.csv", tmp_path / "part-10.csv"]):
        np.testing.assert_array_equal(model.predict(model.points_of(source, InProcess(2))), expected)


def test_stored_data_sets_are_not_copied(trained, tmp_path):
    _, model, table = trained
    expected = predict(trained, table, "same.csv")
    table[["kind", *NAMES[::-1]]].to_csv(tmp_path / "turned.csv", index=False)
    for name in ("same", "turned"):
        source = trained[0] / "same.csv" if name == "same" else tmp_path / "turned.csv"
        ingest(source, StoredParts(tmp_path / name), InProcess(2), target="kind").save(tmp_path / name)
        X = model.points_of(tmp_path / name, InProcess(2))
        assert isinstance(X, StoredRows if name == "same" else ChosenColumns)
        np.testing.assert_array_equal(model.predict(X), expected)
        np.testing.assert_array_equal(X.take(np.array([250, 3])), X.read_all()[[250, 3]])
    append(tmp_path / "turned.csv", tmp_path / "same")
    found = model.predict(model.points_of(tmp_path / "same", InProcess(2)))
    np.testing.assert_array_equal(found, np.tile(expected, 2))
    table[NAMES[:4]].to_csv(tmp_path / "narrow.csv", index=False)
    ingest(tmp_path / "narrow.csv", StoredParts(tmp_path / "n"), InProcess(2), target="none").save(tmp_path / "n")
    with pytest.raises(DataError, match="no column e"):
        model.points_of(tmp_path / "n", InProcess(2))


def test_zarr_is_taken_column_by_column(trained, tmp_path):
    _, model, table = trained
    zarr.create_array(str(tmp_path / "p.zarr"), data=table[NAMES].to_numpy(), chunks=(70, 5))
    np.testing.assert_array_equal(model.predict(model.points_of(tmp_path / "p.zarr", InProcess(2))),
                                  predict(trained, table, "same.csv"))


@pytest.mark.parametrize("kind", ["parts", "stored"])
def test_a_pipeline_of_several_files_or_of_a_folder_is_that_of_the_whole(trained, tmp_path, kind):
    folder, model, table = trained
    table[:130].to_csv(tmp_path / "part-9.csv", index=False)
    table[130:].to_csv(tmp_path / "part-10.csv", index=False)
    source = [str(tmp_path / "part-*.csv")]
    read = {"target": "kind"}
    if kind == "stored":
        ingest(tmp_path / "part-9.csv", StoredParts(tmp_path / "d"), InProcess(2), target="kind").save(tmp_path / "d")
        append(tmp_path / "part-10.csv", tmp_path / "d")
        source, read = str(tmp_path / "d"), {}
    spec = {"name": "t", "data": {"source": source, "read": read, "test": {"count": 60}}, "labels": {"per_class": 4}}
    made = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    again = open_model(made["model"])
    X = as_rows(table[NAMES].to_numpy(np.float32))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    found = again.predict(again.points_of(folder / "train.csv", InProcess(2)))
    np.testing.assert_array_equal(found, predict(trained, table, "same.csv"))


def test_without_a_label_an_integer_is_minus_one(finished, points_file, tmp_path):
    """In an array of integers -1 stands for no label, as it does in the training data."""
    with np.load(points_file) as arrays:
        X = np.concatenate([arrays["X"][:20], [[1e6, 0, 0, 0]]]).astype(np.float32)
    np.save(tmp_path / "new.npy", X)
    done = CliRunner().invoke(main, ["predict", finished[1]["model"], str(tmp_path / "new.npy"),
                                     str(tmp_path / "out.npy"), "--abstain"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    labels = np.load(tmp_path / "out.npy")
    assert labels.dtype.kind == "i"
    assert labels[-1] == -1
    assert labels[:20].min() >= 0
    assert "1 of 21 points are near no point" in done.stderr
