"""Prediction of files that are not laid out like the training file."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import zarr
from click.testing import CliRunner
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from dssl.base.errors import DataError, SpecError
from dssl.cli.main import main
from dssl.data.append import append
from dssl.data.ingest import ingest
from dssl.execution.in_process import InProcess
from dssl.pipeline.predict.model import ChosenColumns, open_model
from dssl.pipeline.run import run
from dssl.storage.blocks import MemoryParts
from dssl.storage.csr import as_rows
from dssl.storage.store import StoredParts, StoredRows

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
                                  "test": {"count": 60}}, "labels": {"per_class": 4}, "model": {"kind": "svm"}}
    result = run(spec, workspace=folder / "work", execution=InProcess(2))
    return folder, open_model(result.model_path), table


def predict(trained, table, name, **options):
    folder, model, _ = trained
    table.to_csv(folder / name, index=False)
    return model.predict(model.dataset_of(str(folder / name), InProcess(2), **options).X)


def test_a_run_is_named_as_in_other_commands(trained):
    folder, model, table = trained
    table.to_csv(folder / "named.csv", index=False)
    name = next(path.name for path in (folder / "work" / "runs").iterdir())
    at = ["--workspace", str(folder / "work")]
    for words in (["predict", name, str(folder / "named.csv"), str(folder / "named-out.csv")],
                  ["export", name, str(folder / "named.dssl.zip")]):
        done = CliRunner().invoke(main, [*words, *at])
        assert done.exit_code == 0, done.stderr
    assert_array_equal(pd.read_csv(folder / "named-out.csv")["label"], model.predict(table[NAMES].to_numpy()))
    done = CliRunner().invoke(main, ["export", "none", str(folder / "other.zip"), *at])
    assert done.exit_code == 1
    assert "none does not exist" in done.stderr


@pytest.mark.parametrize("columns", [[*NAMES, "kind"], NAMES, NAMES[::-1], ["kind", *NAMES[::-1]]])
@pytest.mark.slow_cases("columns0")
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


def test_an_index_of_pandas_without_a_name_is_no_column(trained):
    """`to_parquet` of some rows of a table writes one."""
    folder, model, table = trained
    some = table.sample(20, random_state=0)
    some.to_parquet(folder / "some.parquet")
    assert "__index_level_0__" in pq.read_schema(folder / "some.parquet").names
    predicted = model.predict(model.dataset_of(str(folder / "some.parquet"), InProcess(2)).X)
    assert_array_equal(predicted, predict(trained, some, "some.csv"))


def test_a_missing_column_is_named(trained):
    with pytest.raises(DataError, match=r"narrow.csv lacks the columns c, e"
                                        r"[\s\S]*fix: add them; its columns are a, b, d$"):
        predict(trained, trained[2][["a", "b", "d", "kind"]], "narrow.csv")
    renamed = trained[2].rename(columns={"c": "cc"})
    message = r"lacks the column c\n[\s\S]*or rename the column that holds it; the model does not know cc$"
    with pytest.raises(DataError, match=message):
        predict(trained, renamed, "renamed.csv")
    with pytest.raises(DataError, match=message):
        trained[1].rows_of(renamed, InProcess(1))


def test_a_new_file_with_another_decimal_mark_is_read_once_the_mark_is_named(trained):
    table = trained[2][NAMES]
    commas = table.map(lambda value: str(value).replace(".", ","))
    with pytest.raises(DataError, match=r"another decimal mark[\s\S]*--read 'decimal=\",\"'"):
        predict(trained, commas, "commas.csv")
    np.testing.assert_array_equal(predict(trained, commas, "commas.csv", decimal=","),
                                  predict(trained, table, "points.csv"))


def test_a_new_file_with_semicolons_and_decimal_commas_is_not_read_as_thousands(trained):
    table = trained[2][NAMES].round(3)
    commas = table.map(lambda value: f"{value:.3f}".replace(".", ","))
    path = trained[0] / "semicolons.csv"
    commas.to_csv(path, sep=";", index=False)
    with pytest.raises(DataError, match=r"semicolons.csv have a decimal comma, those of the data set a decimal point"):
        trained[1].rows_of(path, InProcess(1))


def test_options_of_a_new_file_count_where_its_decimal_mark_is_looked_for(trained):
    folder, model, table = trained
    (folder / "latin.txt").write_bytes((";".join(NAMES) + ";Größe\n" + "".join(
        ";".join(map(str, row)) + ";1\n" for row in table[NAMES].round(3).to_numpy())).encode("latin-1"))
    options = {"format": "csv", "encoding": "latin-1", "drop": ["Größe"]}
    data = model.dataset_of(str(folder / "latin.txt"), InProcess(1), **options)
    np.testing.assert_allclose(data.X.read_all(), table[NAMES].round(3), rtol=1e-6)


def test_columns_of_plain_numbers_are_numbers_in_a_new_file_too(trained):
    """However few words or units would do there to make them another kind of column."""
    table = trained[2][NAMES].head(40)
    bounded = table.astype({"b": str}).assign(b=[f"<{value}" for value in table["b"]])
    np.testing.assert_array_equal(predict(trained, bounded, "bounded.csv"), predict(trained, table, "plain.csv"))
    for cells, message in ((["yes", "no"] * 20, "'b' holds text: 'yes' in row 0"),
                        (["5 cm"] * 40, "'b' holds text: '5 cm' in row 0"),
                        ([*["5"] * 39, "maybe"], "'b' holds text: 'maybe' in row 39")):
        with pytest.raises(DataError, match=message):
            predict(trained, table.assign(b=cells), "odd.csv")


def test_points_without_names_are_counted(trained, tmp_path):
    _, model, table = trained
    np.savez(tmp_path / "good.npz", X=table[NAMES].to_numpy())
    np.savez(tmp_path / "bad.npz", X=table[NAMES[:4]].to_numpy())
    good = model.predict(model.dataset_of(str(tmp_path / "good.npz"), InProcess(2)).X)
    np.testing.assert_array_equal(good, predict(trained, table, "same.csv"))
    with pytest.raises(DataError, match="4 features, the model was fitted on 5"):
        model.dataset_of(str(tmp_path / "bad.npz"), InProcess(2))


@pytest.mark.slow
def test_a_table_of_another_width_is_told_before_its_cells_are_read(trained, tmp_path):
    X = trained[2][NAMES].to_numpy()
    y = np.where(np.arange(len(X)) < 40, trained[2]["kind"].map({"x": 0, "y": 1, "z": 2}), -1)
    np.savez(tmp_path / "train.npz", X=X, y=y)
    spec = {"name": "n", "data": {"source": str(tmp_path / "train.npz"), "test": {"count": 10}},
            "labels": {"given": True}, "model": {"kind": "svm"}}
    model = open_model(run(spec, workspace=tmp_path / "work", execution=InProcess(2)).model_path)
    trained[2].assign(d="text").to_csv(tmp_path / "wide.csv", index=False)
    with pytest.raises(DataError, match=r"wide.csv has 6 columns, the model needs 5"):
        model.dataset_of(str(tmp_path / "wide.csv"), InProcess(2))


def test_tables_of_another_format_are_matched_by_name(trained, tmp_path):
    _, model, table = trained
    expected = predict(trained, table, "same.csv")
    for name, columns in (("all", [*NAMES, "kind"]), ("turned", ["kind", *NAMES[::-1]]), ("points", NAMES[::-1])):
        table[columns].to_parquet(tmp_path / f"{name}.parquet")
        found = model.predict(model.dataset_of(tmp_path / f"{name}.parquet", InProcess(2)).X)
        np.testing.assert_array_equal(found, expected)
    table[["a", "b", "d"]].to_parquet(tmp_path / "narrow.parquet")
    with pytest.raises(DataError, match="lacks the columns c, e"):
        model.dataset_of(tmp_path / "narrow.parquet", InProcess(2))
    table[NAMES].set_axis(list("pqrst"), axis=1).to_parquet(tmp_path / "renamed.parquet")
    found = model.predict(model.dataset_of(tmp_path / "renamed.parquet", InProcess(2), target="none").X)
    np.testing.assert_array_equal(found, expected)  # none of the names is known: column by column


def test_patterns_and_lists_are_read_as_one_file(trained, tmp_path):
    _, model, table = trained
    expected = predict(trained, table, "same.csv")
    table[:100].to_csv(tmp_path / "part-2.csv", index=False)
    table[100:][["kind", *NAMES[::-1]]].to_csv(tmp_path / "part-10.csv", index=False)
    for source in (str(tmp_path / "part-*.csv"), [tmp_path / "part-2.csv", tmp_path / "part-10.csv"]):
        np.testing.assert_array_equal(model.predict(model.dataset_of(source, InProcess(2)).X), expected)


def test_stored_data_sets_are_not_copied(trained, tmp_path):
    _, model, table = trained
    expected = predict(trained, table, "same.csv")
    table[["kind", *NAMES[::-1]]].to_csv(tmp_path / "turned.csv", index=False)
    for name in ("same", "turned"):
        source = trained[0] / "same.csv" if name == "same" else tmp_path / "turned.csv"
        ingest(source, StoredParts(tmp_path / name), InProcess(2), target="kind").save(tmp_path / name)
        X = model.dataset_of(tmp_path / name, InProcess(2)).X
        assert isinstance(X, StoredRows if name == "same" else ChosenColumns)
        np.testing.assert_array_equal(model.predict(X), expected)
        np.testing.assert_array_equal(X.take(np.array([250, 3])), X.read_all()[[250, 3]])
    append(tmp_path / "turned.csv", tmp_path / "same")
    found = model.predict(model.dataset_of(tmp_path / "same", InProcess(2)).X)
    np.testing.assert_array_equal(found, np.tile(expected, 2))
    table[NAMES[:4]].to_csv(tmp_path / "narrow.csv", index=False)
    ingest(tmp_path / "narrow.csv", StoredParts(tmp_path / "n"), InProcess(2), target="none").save(tmp_path / "n")
    with pytest.raises(DataError, match="lacks the column e"):
        model.dataset_of(tmp_path / "n", InProcess(2))


def test_zarr_is_taken_column_by_column(trained, tmp_path):
    _, model, table = trained
    zarr.create_array(str(tmp_path / "p.zarr"), data=table[NAMES].to_numpy(), chunks=(70, 5))
    np.testing.assert_array_equal(model.predict(model.dataset_of(tmp_path / "p.zarr", InProcess(2)).X),
                                  predict(trained, table, "same.csv"))


@pytest.mark.parametrize("kind", ["parts", "stored"])
@pytest.mark.extended_cases("parts")
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
    spec = {"name": "t", "data": {"source": source, "read": read, "test": {"count": 60}}, "labels": {"per_class": 4},
            "model": {"kind": "svm"}}
    made = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    again = open_model(made.model_path)
    X = as_rows(table[NAMES].to_numpy(np.float32))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    found = again.predict(again.dataset_of(folder / "train.csv", InProcess(2)).X)
    np.testing.assert_array_equal(found, predict(trained, table, "same.csv"))


# ---- fills and levels of the training data


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder with train.csv, its run's result, and the table: numbers and text, some cells of both missing."""
    folder = tmp_path_factory.mktemp("mixed")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 240)
    table = pd.DataFrame({
        "size": rng.normal(size=240) + 2 * y, "color": np.where(y == 1, "red", rng.choice(["blue", "green"], 240)),
        "shape": rng.choice(["7", "07", "x"], 240), "kind": np.array(["no", "yes"])[y]})
    table.loc[::7, "size"] = None
    table.loc[::11, "color"] = None
    table.to_csv(folder / "train.csv", index=False)
    spec = {"name": "mixed", "labels": {"per_class": 8}, "graph": {"n_neighbors": 5},
            "model": {"kind": "svm", "n_landmarks": 40},
            "data": {"source": str(folder / "train.csv"), "test": {"count": 60},
                     "read": {"target": "kind", "when_missing": "impute", "when_text": "one_hot"}}}
    return folder, run(spec, workspace=folder / "work", execution=InProcess(2)), table


def test_new_points_take_the_training_fills_and_levels(mixed):
    folder, result, table = mixed
    model = open_model(result.model_path)
    assert [column["kind"] for column in model.dataset["columns"]] == ["number", "category", "category"]
    new = table.drop(columns="kind").head(6).assign(
        size=[None, 1, 2, 3, 4, 5], color=["red", "mauve", None, "blue", "mauve", "ocher"])
    new.iloc[:, ::-1].to_csv(folder / "new.csv", index=False)
    data = model.dataset_of(str(folder / "new.csv"), InProcess(1))
    assert data.feature_names == ["size", "color=blue", "color=green", "color=red", "color=(missing)", "shape=07",
                                  "shape=7", "shape=x"]
    X = data.X.read_all()
    assert X[0, 0] == np.float32(table["size"].mean())
    np.testing.assert_array_equal(X[:, 1:5], [[0, 0, 1, 0], [0] * 4, [0, 0, 0, 1], [1, 0, 0, 0], [0] * 4, [0] * 4])
    assert data.attributes["unseen"] == {"color": {"rows": 3, "texts": ["mauve", "ocher"]}}
    assert data.attributes["imputed"] == 2
    assert set(model.predict(data.X)) <= {"no", "yes"}


def test_the_training_file_becomes_the_training_points(mixed):
    folder, result, _ = mixed
    model = open_model(result.model_path)
    points = model.dataset_of(str(folder / "train.csv"), InProcess(1)).X
    trained_on = ingest(folder / "train.csv", MemoryParts(), InProcess(1), model.read)
    np.testing.assert_array_equal(points.read_all(), trained_on.X.read_all())
    assert set(model.predict(points)) == {"no", "yes"}


def test_arrays_hold_the_columns_of_the_levels(mixed, tmp_path):
    _, result, _ = mixed
    model = open_model(result.model_path)
    np.save(tmp_path / "wide.npy", np.ones((3, 8)))
    assert model.dataset_of(str(tmp_path / "wide.npy"), InProcess(1)).X.shape == (3, 8)
    np.save(tmp_path / "narrow.npy", np.ones((3, 3)))
    with pytest.raises(DataError, match="3 features, the model was fitted on 8"):
        model.dataset_of(str(tmp_path / "narrow.npy"), InProcess(1))


def test_the_choice_is_made_in_training_only(mixed, trained):
    folder, result, _ = mixed
    with pytest.raises(SpecError, match="when_missing cannot be set for a prediction"):
        open_model(result.model_path).dataset_of(str(folder / "train.csv"), InProcess(1), when_missing="error")
    table = trained[2][NAMES].copy()
    table.loc[3, "b"] = None
    with pytest.raises(DataError, match="column 'b' has a missing cell in row 3"):
        predict(trained, table, "missing.csv")


def test_folders_are_taken_if_their_columns_were_made_alike(mixed, tmp_path):
    folder, result, table = mixed
    model = open_model(result.model_path)
    options = {"target": "kind", "when_missing": "impute", "when_text": "one_hot"}
    table.head(30).to_csv(tmp_path / "some.csv", index=False)
    for source, name in ((folder / "train.csv", "same"), (tmp_path / "some.csv", "other")):
        ingest(source, StoredParts(tmp_path / name), InProcess(1), **options).save(tmp_path / name)
    data = model.dataset_of(str(tmp_path / "same"), InProcess(1))
    np.testing.assert_array_equal(model.predict(data.X),
                                  model.predict(model.dataset_of(str(folder / "train.csv"), InProcess(1)).X))
    assert "imputed" not in data.attributes
    with pytest.raises(DataError, match="other fills of missing cells or other levels"):
        model.dataset_of(str(tmp_path / "other"), InProcess(1))


def test_the_command_says_what_it_filled_and_what_it_did_not_know(mixed):
    folder, result, table = mixed
    table.drop(columns="kind").head(9).assign(shape=["y", "7", "07"] * 3).to_csv(folder / "odd.csv", index=False)
    arguments = ["predict", result.model_path, folder / "odd.csv", folder / "out.csv", "--json"]
    done = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["unseen"] == {"shape": {"rows": 3, "texts": ["y"]}}
    assert facts["imputed"] == int(table.head(9).isna().sum().sum()) > 0
    assert "3 rows have a text in column 'shape' that did not occur in the training data, such as 'y'" in done.stderr
    assert f"{facts['imputed']} missing cells were filled" in done.stderr


def test_svmlight_files_need_not_show_their_first_and_last_column(tmp_path):
    X, y = make_blobs(120, 4, centers=2, random_state=0)
    rows = [f"{label} " + " ".join(f"{j}:{value:.6f}" for j, value in enumerate(row))
            for label, row in zip(y, X, strict=True)]
    (tmp_path / "train.svm").write_text("\n".join(rows) + "\n")
    spec = {"name": "s", "data": {"source": str(tmp_path / "train.svm"), "test": {"count": 30}},
            "labels": {"per_class": 4}, "graph": {"n_neighbors": 5},
            "model": {"kind": "svm", "n_landmarks": 20}}
    model = open_model(run(spec, workspace=tmp_path / "work", execution=InProcess(2)).model_path)
    (tmp_path / "new.svm").write_text("0 1:2.5 2:1\n0 2:3\n")
    np.testing.assert_array_equal(model.dataset_of(str(tmp_path / "new.svm"), InProcess(1)).X.read_all(),
                                  [[0, 2.5, 1, 0], [0, 0, 3, 0]])




def test_without_a_label_an_integer_is_minus_one(finished, points_file, tmp_path):
    """In an array of integers -1 stands for no label, as it does in the training data."""
    with np.load(points_file) as arrays:
        X = np.concatenate([arrays["X"][:20], [[1e6, 0, 0, 0]]]).astype(np.float32)
    np.savez(tmp_path / "new.npz", X=X)
    done = CliRunner().invoke(main, ["predict", str(finished[1].model_path), str(tmp_path / "new.npz"),
                                     str(tmp_path / "out.npy"), "--reject"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    labels = np.load(tmp_path / "out.npy")
    assert labels.dtype.kind == "i"
    assert labels[-1] == -1
    assert labels[:20].min() >= 0
    assert "1 of 21 points are near no point" in done.stderr


@pytest.mark.slow
def test_rows_are_named_as_the_source_names_them_and_whole_numbers_stay_whole(tmp_path):
    """Beside empty cells whole numbers are read as floats."""
    X, y = make_blobs(200, 3, centers=2, random_state=0)
    table = pd.DataFrame(X, columns=list("abc")).assign(
        when=pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(200), unit="h"),  # left out by the spec
        id=1000 + np.arange(200), key=[f"k{i}" for i in range(200)],
        label=np.where(np.arange(200) < 40, y.astype(str), ""))
    table.to_csv(tmp_path / "mine.csv", index=False)
    new = table.drop(columns="label").assign(id=5000 + np.arange(200))
    new.to_csv(tmp_path / "new.csv", index=False)
    new.drop(columns="id").to_parquet(tmp_path / "keys.parquet", index=False)
    new[list("abc")].to_csv(tmp_path / "plain.csv", index=False)
    np.savez(tmp_path / "plain.npz", X=new[list("abc")].to_numpy())
    spec = {"name": "mine", "data": {"source": str(tmp_path / "mine.csv"), "test": {"count": 10}, "read": {
        "drop": ["when"]}}, "labels": {"given": True}}
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    found = {}
    for name in ("mine.csv", "new.csv", "keys.parquet", "plain.csv", "plain.npz"):
        out = tmp_path / f"out.{'parquet' if 'parquet' in name else 'csv'}"
        done = CliRunner().invoke(main, ["predict", str(result.model_path), str(tmp_path / name), str(out),
                                         "--probabilities"], catch_exceptions=False)
        assert done.exit_code == 0, done.stderr
        found[name] = pd.read_csv(out, dtype=str) if out.suffix == ".csv" else pd.read_parquet(out).astype(str)
    heads = ["label", "probability", "probability 0", "probability 1"]
    assert found["new.csv"].columns.tolist() == ["id", *heads]
    assert set(found["mine.csv"]["label"]) == {"0", "1"}
    assert found["new.csv"]["id"].tolist() == [str(own) for own in new["id"]]
    assert found["keys.parquet"].columns.tolist() == ["key", *heads]
    assert found["keys.parquet"]["key"].tolist() == new["key"].tolist()
    assert found["plain.csv"]["row"].tolist() == [str(row) for row in range(200)]
    for own in found.values():
        assert own["label"].tolist() == found["mine.csv"]["label"].tolist()


@pytest.mark.extended
def test_new_rows_need_no_column_of_categories_that_was_left_out(tmp_path):
    X, y = make_blobs(200, 3, centers=2, random_state=0)
    codes = np.random.default_rng(0).permutation(200) + 10001
    table = pd.DataFrame(X.astype(np.float32)).assign(code=codes, label=y)
    table.to_csv(tmp_path / "t.csv", index=False)
    read = {"categories": ["code"], "when_text": "one_hot", "header": True}
    spec = {"name": "t", "data": {"source": str(tmp_path / "t.csv"), "read": read, "test": {"count": 10}},
            "labels": {"per_class": 5}, "model": {"kind": "svm"}}
    model = open_model(run(spec, workspace=tmp_path / "work", execution=InProcess(1)).model_path)
    assert model.dataset["feature_names"] == ["0", "1", "2"]
    table.drop(columns=["code", "label"]).to_csv(tmp_path / "new.csv", index=False)
    expected = model.predict(model.dataset_of(str(tmp_path / "new.csv"), InProcess(1), header=True).X)
    np.testing.assert_array_equal(model.predict(model.dataset_of(str(tmp_path / "t.csv"), InProcess(1)).X), expected)
    # The columns of a table in Python may be numbers.
    np.testing.assert_array_equal(model.predict(model.rows_of(table[[2, 0, 1]], InProcess(1))), expected)
