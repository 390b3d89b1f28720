"""Identifiers are left out of tables with names as they are read, and what every column is, is recorded."""

import numpy as np
import pandas as pd
import pytest

from dssl.base.errors import DataError
from dssl.data.append import append
from dssl.data.ingest import ingest, open_dataset
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts
from dssl.storage.store import StoredParts

N = 60


def frame(start=0, n=N):
    rng = np.random.default_rng(start)
    table = pd.DataFrame({"id": 1000 + start + np.arange(n), "x": rng.normal(size=n).round(3), "z": rng.normal(size=n)})
    return table.assign(key=[f"k{start + i}" for i in range(n)], label=np.where(table.x > 0, "up", "down"))


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "points.csv"
    frame().to_csv(path, index=False)
    return path


def facts(dataset):
    return {record["name"]: (record["used"], record["finding"]) for record in dataset.attributes["survey"]}


@pytest.mark.parametrize("block_rows", [None, 7])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_keys_of_numbers_and_of_text_are_left_out(tmp_path, ending, block_rows):
    path = tmp_path / f"points.{ending}"
    getattr(frame(), f"to_{ending}")(path, index=False)
    data = open_dataset(path, block_rows=block_rows)
    assert data.feature_names == ["x", "z"]
    np.testing.assert_allclose(data.X.read_all(), frame()[["x", "z"]], rtol=1e-6)
    assert facts(data) == {"id": (False, "identifier"), "x": (True, None), "z": (True, None),
                            "key": (False, "identifier")}


def test_keys_are_kept_where_it_is_asked_for(csv):
    assert open_dataset(csv, keep_ids=("id",)).feature_names == ["id", "x", "z"]
    assert open_dataset(csv, keep_ids=True, drop=("key",)).feature_names == ["id", "x", "z"]
    with pytest.raises(DataError, match=r"column 'key' holds text[\s\S]*drop: \[key\]"):
        open_dataset(csv, keep_ids=True)
    with pytest.raises(DataError, match=r"no column 'idd' \(keep_ids\)[\s\S]*'id'"):
        open_dataset(csv, keep_ids=("idd",))


def test_columns_that_were_dropped_are_in_the_record(csv):
    data = open_dataset(csv, drop=("z",))
    assert facts(data) == {"id": (False, "identifier"), "x": (True, None), "z": (False, None),
                            "key": (False, "identifier")}
    assert [record["why"] for record in data.attributes["survey"]][2] == "data.read.drop"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_codes_of_which_one_comes_twice_late_are_no_free_text(tmp_path, ending):
    table = frame(n=1500)
    table.loc[1400, "key"] = table.key[3]
    path = tmp_path / f"points.{ending}"
    getattr(table, f"to_{ending}")(path, index=False)
    data = {record["name"]: record for record in open_dataset(path).attributes["survey"]}
    assert (data["key"]["finding"], data["key"]["used"]) == ("codes", False)
    assert data["key"]["why"].endswith("each a single word")


def test_codes_of_several_rows_each_may_name_groups(tmp_path):
    table = frame(n=1500)
    table["key"] = [f"k{number // 3}" for number in range(1500)]
    table.to_csv(tmp_path / "points.csv", index=False)
    data = {record["name"]: record for record in open_dataset(tmp_path / "points.csv").attributes["survey"]}
    assert (data["key"]["finding"], data["key"]["used"]) == ("codes", False)
    assert "500 different texts in 1,500 cells, each a single word; if they name groups of rows" in data["key"]["why"]


@pytest.mark.parametrize("n", [600, 3000])  # fewer codes than are counted, and more
def test_codes_of_hardly_two_rows_each_name_no_groups(tmp_path, n):
    codes = np.repeat(np.arange(n), np.resize([1, 2], n))[:n]
    frame(n=n).assign(key=[f"k{code}" for code in codes]).to_csv(tmp_path / "points.csv", index=False)
    data = {record["name"]: record for record in open_dataset(tmp_path / "points.csv").attributes["survey"]}
    assert data["key"]["finding"] == "codes"
    assert data["key"]["why"].endswith("each a single word")


def test_identifiers_beside_categories_and_missing_cells(tmp_path):
    table = frame().assign(color=["red", "blue", None] * (N // 3))
    table.loc[5, "id"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    data = open_dataset(tmp_path / "t.csv", when_text="one_hot", when_missing="impute", block_rows=11)
    assert data.feature_names == ["x", "z", "color=blue", "color=red", "color=(missing)"]
    by_name = {record["name"]: record for record in data.attributes["survey"]}
    assert (by_name["color"]["kind"], by_name["color"]["levels"], by_name["color"]["missing"]) == ("category", 2, 20)
    assert (by_name["id"]["used"], by_name["id"]["missing"]) == (False, 1)


def test_digits_that_float32_would_lose_do_not_matter_in_a_column_that_is_left_out(tmp_path):
    frame().assign(id=7_000_000_000_000 + np.arange(N)).to_csv(tmp_path / "t.csv", index=False)
    assert open_dataset(tmp_path / "t.csv").feature_names == ["x", "z"]


def test_columns_without_names_stay(tmp_path):
    table = frame()[["id", "x", "z"]].to_numpy()
    np.savetxt(tmp_path / "t.csv", np.column_stack([table, table[:, 1] > 0]), delimiter=",")
    np.savez(tmp_path / "t.npz", X=table, y=table[:, 1] > 0)
    for name in ("t.csv", "t.npz"):
        data = open_dataset(tmp_path / name)
        assert data.X.shape == (N, 3)
        assert facts(data)["0"] == (True, "identifier")


def test_a_table_of_nothing_but_identifiers_keeps_them(tmp_path):
    frame()[["id", "label"]].to_csv(tmp_path / "t.csv", index=False)
    assert facts(open_dataset(tmp_path / "t.csv")) == {"id": (True, "identifier")}


def test_several_files_and_appended_rows_with_and_without_the_identifier(tmp_path):
    frame().to_csv(tmp_path / "a.csv", index=False)
    frame(N)[["key", "z", "x", "label", "id"]].to_csv(tmp_path / "b.csv", index=False)
    frame(2 * N).drop(columns=["id", "key"]).to_csv(tmp_path / "c.csv", index=False)
    frame(3 * N).to_parquet(tmp_path / "d.parquet", index=False)
    folder = tmp_path / "made"
    made = ingest([tmp_path / "a.csv", tmp_path / "b.csv"], StoredParts(folder), InProcess()).save(folder)
    assert made.feature_names == ["x", "z"]
    for more in ("c.csv", "d.parquet"):
        made = append(tmp_path / more, folder)
    assert made.X.shape == (4 * N, 2)
    x = np.concatenate([frame(i * N).x for i in range(4)])
    np.testing.assert_allclose(made.X.read_all()[:, 0], x, rtol=1e-6)
    record = next(record for record in made.attributes["survey"] if record["name"] == "x")
    np.testing.assert_allclose([record["min"], record["max"]], [x.min(), x.max()])
    again = ingest(folder, MemoryParts(), InProcess())
    assert again.attributes["survey"] == made.attributes["survey"]


def test_a_reader_that_is_not_to_examine_takes_all_columns(csv):
    data = ingest(csv, MemoryParts(), InProcess(), examine=False, drop=("key",))
    assert data.feature_names == ["id", "x", "z"]
    assert "survey" not in data.attributes


def test_visits_of_which_each_patient_has_one_class_may_be_groups(tmp_path):
    table = frame(n=600)
    table["key"] = [f"k{number // 6}" for number in range(600)]
    table["label"] = np.array(["ill", "well"])[np.random.default_rng(0).integers(0, 2, 100)[np.arange(600) // 6]]
    table.to_csv(tmp_path / "points.csv", index=False)
    data = {record["name"]: record for record in open_dataset(tmp_path / "points.csv", target="label",
                                                              when_text="one_hot").attributes["survey"]}
    assert data["key"]["finding"] == "target"
    assert "tests whole groups: data.test: {fraction: 0.2, groups: key}" in data["key"]["why"]
