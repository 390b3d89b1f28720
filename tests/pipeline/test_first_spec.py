"""`dssl init`: what is seen in a file, what is chosen of it, and that the spec which is written runs as it is."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
import yaml
import zarr
from click.testing import CliRunner
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, make_blobs

from dssl.base.errors import DataError, SpecError
from dssl.cli.init.first_look import Labels, Look, joined_labels, labels_in
from dssl.cli.init.first_spec import first_spec
from dssl.cli.init.first_target import NO_TARGETS, likely_target
from dssl.cli.main import main
from dssl.data.findings import ColumnRecord, dataset_notes
from dssl.data.ingest import ingest
from dssl.data.readers.csv import CsvReader
from dssl.data.sources import find_source
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.result import RunResult
from dssl.storage.blocks import MemoryParts

N = 90


def trees(random_state=0):
    """A table as people have them: an id, a date, a constant, a copy, a category, gaps, and few labels."""
    rng = np.random.default_rng(random_state)
    y = rng.integers(0, 3, N)
    frame = pd.DataFrame({
        "id": np.arange(1000, 1000 + N), "height": rng.normal(3 * y, 1).round(3),
        "width": (1e5 * rng.normal(y, 1)).round(1), "soil": rng.choice(["clay", "sand"], N),
        "seen": pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d"), "same": 1,
        "age": rng.integers(1, 80, N).astype(float), "kind": np.array(["oak", "ash", "elm"], object)[y]})
    frame["feet"] = (frame["height"] * 3.28084).round(9)
    frame.loc[rng.random(N) < 0.2, "age"] = None
    frame.loc[rng.random(N) < 0.5, "kind"] = None
    return frame


def init(*arguments):
    return CliRunner().invoke(main, ["init", *map(str, arguments)], catch_exceptions=False)


def run(path, folder):
    done = CliRunner().invoke(main, ["run", str(path), "--on", "in-process", "--workspace", str(folder), "--json"],
                              catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_far_row_is_named_and_the_ranges_are_those_of_the_others(here):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=N), "b": rng.normal(scale=500, size=N), "label": np.arange(N) % 2})
    frame.loc[40, "a"] = None
    frame.loc[41, ["a", "b"]] = -88888
    frame.insert(0, "id", np.random.default_rng(1).permutation(N) + 1000)
    frame.to_csv("t.csv", index=False)
    done = init("t.csv")
    assert f"row 41 (line 43, id {frame.loc[41, 'id']}), counted from 0, lies far from all others" in done.stdout
    assert "the widest range of a column is" in done.stdout


def test_numbers_that_a_run_refuses_are_named(here):
    draw = np.random.default_rng(0).normal(size=(80, 2)) * [1e39, 1]
    pd.DataFrame(draw, columns=["a", "b"]).assign(kind=["x", "y"] * 40).to_csv("large.csv", index=False)
    said = init("large.csv", "--target", "kind").stdout
    largest = f"{np.abs(draw[:, 0]).max():.2g}"
    assert f"a run refuses numbers too large for float32: a (up to {largest}); correct them, or leave" in said
    assert re.search(r"the widest range of a column is \d(\.\d)?e\+3\d times the narrowest", said)


def test_columns_without_names_are_called_by_their_numbers(here):
    X = np.random.default_rng(0).normal(size=(N, 4))
    X[3, 2] = np.nan
    np.save("x.npy", X)
    assert "empty cells: column 2: 1\n" in init("x.npy").stdout


def test_a_table_is_inspected_and_each_choice_has_its_reason(here):
    trees().to_csv("my trees.csv", index=False)
    done = init("my trees.csv")
    assert done.exit_code == 0, done.stderr
    text = (here / "my-trees.yaml").read_text()
    read = yaml.safe_load(text)["data"]["read"]
    assert read == {"target": "kind", "drop": ["same", "feet"], "when_missing": "impute",
                    "when_text": "one_hot"}
    for reason in ("its whole numbers rise from row to row", "its text is written as dates", "it is 1 in every row",
                   "column 'height' on another scale", "empty cells: age", "text: soil (2 different)",
                   "no other column has both few different values and empty cells",
                   "the widest range of a column is"):
        assert reason in " ".join(text.replace("#", "").split()), text
        assert reason in " ".join(done.stdout.split()), done.stdout
    assert "then: dssl run my-trees.yaml" in done.stdout
    assert max(map(len, text.splitlines())) <= 125
    spec = load_spec("my-trees.yaml")
    assert spec.model.kind == "automatic"
    assert spec.labels.given


@pytest.mark.slow
def test_an_identifier_is_left_to_the_run_so_that_predictions_name_their_rows_by_it(here):
    frame = trees()
    frame[["id", "height", "kind"]].to_csv("t.csv", index=False)
    assert init("t.csv").exit_code == 0
    assert "# keep_ids: [id]" in (here / "t.yaml").read_text()
    result = run("t.yaml", here / "work")
    frame[["id", "height"]].assign(id=range(7000, 7000 + N)).to_csv("new.csv", index=False)
    done = CliRunner().invoke(main, ["predict", result["model"], "new.csv", "out.csv"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert pd.read_csv("out.csv")["id"].tolist() == [*range(7000, 7000 + N)]


def test_an_identifier_that_is_to_be_kept_is_a_feature(here):
    trees()[["id", "height", "kind"]].to_csv("t.csv", index=False)
    assert init("t.csv", "--read", "keep_ids=[id]").exit_code == 0
    read = yaml.safe_load((here / "t.yaml").read_text())["data"]["read"]
    assert read == {"target": "kind", "keep_ids": ["id"]}


def test_texts_in_a_target_of_numbers_and_spellings_of_classes_are_named(here):
    rng = np.random.default_rng(0)
    price = [f"{value:.3f}" for value in rng.normal(size=N)]
    price[3], price[9], price[50] = "see note", "n.a.", "broken"
    pd.DataFrame({"a": rng.random(N), "price": price}).to_csv("odd.csv", index=False)
    done = init("odd.csv", "--target", "price")
    assert "'price' has 'see note' in row 3 (counted from 0), line 5" in done.stdout
    data = yaml.safe_load((here / "odd.yaml").read_text())["data"]
    assert (data["task"], data["read"]["missing"]) == ("regression", ["see note", "broken"])

    paid = np.array(["Yes", "yes ", "No", "maybe"])[np.arange(N) % 4]
    pd.DataFrame({"a": rng.random(N), "paid": paid}).to_csv("paid.csv", index=False)
    assert "data.classes: joined" in init("paid.csv").stdout
    spec = load_spec(here / "paid.yaml")
    assert spec.data.classes == {"Yes": ["Yes", "yes"], "No": ["No"], "maybe": ["maybe"]}


def test_odd_cells_cost_one_more_pass_however_many_there_are(here, monkeypatch):
    """A word may stand among the numbers of a column that becomes one once another word is missing."""
    rng = np.random.default_rng(0)
    n = 1000
    frame = pd.DataFrame({name: rng.normal(size=n).round(3) for name in ("many", "late", "codes")}).astype(str)
    frame.loc[::30, "many"] = [f"see note {i}" for i in range(34)]
    frame.loc[range(1, 46), "codes"] = [f"ca. {i}" for i in range(45)]
    frame.loc[::20, "late"] = "see note 3"
    frame.loc[::301, "late"] = "odd"
    frame.assign(label=np.array(["x", "z"])[np.arange(n) % 2]).to_csv("t.csv", index=False)
    passes, count = [], CsvReader._count_cells
    monkeypatch.setattr(CsvReader, "_count_cells", lambda self: passes.append(1) or count(self))
    with TemporaryDirectory() as scratch:
        look = Look(find_source("t.csv"), {"target": "label"}, Path(scratch), InProcess(1))
    assert len(passes) == 2
    assert look.options["missing"] == tuple(f"see note {i}" for i in range(34))
    assert look.unusable == {"codes": "45 of its cells are not numbers", "late": "4 of its cells are not numbers"}
    assert look.scan.feature_names == ("many",)
    assert init("t.csv").exit_code == 0
    data = ingest("t.csv", MemoryParts(), InProcess(1), load_spec("t.yaml").data.read)
    assert data.feature_names == ["many"]


def test_units_and_bounds_are_told_with_rows_and_a_run_reads_them_as_init_did(here):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"height": [f"{value} cm" for value in rng.integers(140, 200, N)],
                          "crp": np.where(np.arange(N) % 30 == 4, "<0.5", rng.gamma(2, 3, N).round(2).astype(str)),
                          "mass": [f"{value / 10} kg" if i % 3 else f"{value * 100} g" for i, value in
                                   enumerate(rng.integers(400, 990, N))], "label": np.arange(N) % 2})
    frame.loc[5, "height"] = "171"
    frame.to_csv("t.csv", index=False)
    said = " ".join(init("t.csv").stdout.split())
    for message in ("read as numbers: height (", " cm, and 1 without a unit, which are read as cm)",
                 "read as its bound: crp (3: '<0.5' in row 4 (counted from 0), line 6)",
                 "left out: mass: its numbers are in several units, 'kg' in 60 cells, 'g' in 30 cells"):
        assert message in said
    data = ingest("t.csv", MemoryParts(), InProcess(1), load_spec("t.yaml").data.read)
    assert data.feature_names == ["height", "crp"]
    assert "left out, as numbers in several units: 'mass'" in " ".join(dataset_notes({
        **data.attributes, "format": "csv"}))


def test_a_target_in_several_units_is_refused(here):
    """Each of its texts would be a class."""
    mass = [f"{i / 10} kg" if i % 3 else f"{i * 100} g" for i in range(1, N + 1)]
    pd.DataFrame({"a": np.random.default_rng(0).random(N), "mass": mass}).to_csv("t.csv", index=False)
    done = init("t.csv", "--target", "mass")
    assert done.exit_code == 1
    assert "target mass: its numbers are in several units, 'kg' in" in done.stderr
    assert not (here / "t.yaml").exists()


def test_one_target_of_a_regression_is_too_few(here):
    price = [1.5] + [None] * (N - 1)
    pd.DataFrame({"a": np.random.default_rng(0).random(N), "price": price}).to_csv("t.csv", index=False)
    said = init("t.csv").stdout
    assert f"1 row has one, {N - 1} do not" in said
    assert "data.test: none: one row has a target, and a run needs two" in said


def test_a_column_of_a_table_without_names_is_left_out_by_its_number_in_the_file(here):
    cells = [f"ca. {i}" if i % 30 == 9 else f"{i}.5" for i in range(1500)]
    pd.DataFrame({"y": np.arange(1500) % 2, "a": np.arange(1500) % 7, "b": cells}).to_csv("t.csv", index=False,
                                                                                       header=False)
    assert init("t.csv", "--target", "0").exit_code == 0
    assert tuple(load_spec("t.yaml").data.read.drop) == (2,)


def test_the_target_of_a_table_without_names_is_its_last_column(here):
    np.savetxt("t.csv", np.column_stack([np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2]),
               delimiter=",")
    assert "target: 2; the last column, since columns have no names; all 40 rows have one" in init("t.csv").stdout


def test_text_that_is_not_utf_8_is_read_as_windows_writes_it(here):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"Größe": [f"{value:.2f} €".replace(".", ",") for value in rng.random(N)],
                          "verkauft": np.array(["ja", "nein"])[np.arange(N) % 2]})
    frame.to_csv("haus.csv", sep=";", index=False, encoding="cp1252")
    assert "not UTF-8" in init("haus.csv").stdout
    read = yaml.safe_load((here / "haus.yaml").read_text())["data"]["read"]
    assert (read["encoding"], read["decimal"], "when_text" in read) == ("cp1252", ",", False)
    assert init("haus.csv", "--read", "encoding=utf-8", "--out", "other.yaml").exit_code == 1


def test_a_spec_that_is_there_is_not_overwritten(here):
    trees().to_csv("t.csv", index=False)
    (here / "t.yaml").write_text("mine")
    done = init("t.csv")
    assert done.exit_code == 1
    assert "t.yaml is there already" in done.stderr
    assert (here / "t.yaml").read_text() == "mine"
    assert init("t.csv", "--out", "other.yaml").exit_code == 0
    assert init("t.csv", "--out", "none/other.yaml").exit_code == 1


@pytest.mark.parametrize(("columns", "target", "why"), [
    ({"a": [0.5, 1.5], "Label": [3, 4], "b": [0, 1]}, "Label", "its name says so"),
    ({"a": [0.5, 1.5], "kind": ["x", "z", None, None, None], "b": [0, 1]}, "kind", "of its cells are empty"),
    ({"a": [0.5, 1.5], "kind": ["x", None, None, None], "b": [0, 1, None]}, "kind", "of its cells are empty"),
    ({"a": [0.5, 1.5], "price": [1.25, None], "b": [7.5, 8.5]}, "price", "of its cells are empty"),
    ({"a": [0.5, 1.5], "kind": ["x", "z", None], "b": [7.5, 8.5]}, "kind", "of its cells are empty"),
    ({"a": [0.5, 1.5], "kind": ["x", "z"], "day": ["2024-01-01", "2024-01-02"]}, "kind", "no other column has few"),
    ({"a": [0.5, 1.5], "b": [0, 1], "kind": ["x", "z"]}, "kind", "it is the last column"),
    ({"a": [0.5, 1.5], "b": [0, 1, None], "kind": ["x", "z", None]}, "kind", "it is the last column"),
])
def test_the_target_is_found(here, columns, target, why):
    rng = np.random.default_rng(0)
    rows = {name: [values[i] if name == target or not isinstance(values[0], float) else round(rng.normal(), 4)
                   for i in rng.integers(0, len(values), 60)] for name, values in columns.items()}
    if target == "price":
        rows["price"] = [None if i % 3 else round(rng.normal(), 4) for i in range(60)]
    pd.DataFrame(rows).to_csv("t.csv", index=False)
    done = init("t.csv", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["target"] == target
    assert why in " ".join(found["chosen"])
    assert found["task"] == ("regression" if target == "price" else "classification")


def column(name, kind="number", missing=0, levels=None, high=100.0, finding=None):
    low, high = (0.0, high) if kind in ("number", "integer") else (None, None)
    return ColumnRecord(name, kind, low, high, missing, levels, True, finding, finding)


@pytest.mark.parametrize(("columns", "target"), [
    ([column("a", missing=20), column("t", "category", 850, 3), column("b", missing=50)], "t"),
    ([column("a"), column("t", "category", 900, 1), column("b", "category", 0, 4)], "t"),
    ([column("a", missing=30), column("t", missing=900), column("b", "integer", high=5.0)], "t"),
    ([column("a"), column("b", "integer", high=1.0), column("t")], "t"),
    ([column("a"), column("t", "category", levels=3), column("b", "integer", finding="identifier")], "t"),
    ([column("a"), column("t", "category", 700, 3), column("b", "time", finding="time stamp")], "t"),
    ([column("a"), column("t", "category", 700, 3), column("b", "text", 20)], "t")])
def test_the_target_is_the_column_with_by_far_the_most_empty_cells_or_the_last(columns, target):
    assert likely_target(columns, 1000, "t.csv")[0] == target


def test_beside_a_quantity_in_the_last_column_those_that_may_be_classes_are_named():
    plan, balance = column("the plan", "category", levels=3), column("balance")
    name, why = likely_target([column("a"), plan, balance], 1000, "t.csv")
    assert name == "balance"
    last = f"it is the last column{NO_TARGETS}"
    assert why == last.replace(
        ";", "; to predict a column of few different values instead: --target 'the plan';", 1)
    assert likely_target([plan, column("b"), column("soil", "category", levels=4)], 1000, "t.csv")[1] == last
    assert likely_target([column("a"), balance], 1000, "t.csv")[1] == last
    with_gaps = column("soil", "category", 10, levels=4)
    assert likely_target([column("a", missing=10), with_gaps], 1000, "t.csv")[1] == "it is the last column"


@pytest.mark.parametrize(("change", "arguments", "message"), [
    (lambda frame: frame[["height", "width", "id"]], (), "and of the others none has few"),
    (lambda frame: frame[["soil", "kind", "seen"]].assign(kind=frame["soil"]), (), "several have few"),
    (lambda frame: frame[["height", "age", "soil"]], (),
     "or --target soil"),
    (lambda frame: frame, ("--target", "knid"), "has no column 'knid'"),
    (lambda frame: frame, ("--target", "seen"), "more than" if N > 1000 else "no class has two labels"),
    (lambda frame: frame.assign(kind="oak"), ("--target", "kind"), "the target has one value"),
])
def test_a_target_that_cannot_be_is_refused_with_what_to_say(here, change, arguments, message):
    change(trees()).to_csv("t.csv", index=False)
    done = init("t.csv", *arguments)
    assert done.exit_code == 1
    assert message in done.stderr
    assert not (here / "t.yaml").exists()


def test_a_target_whose_labels_are_of_one_class_so_far_is_the_target_and_its_spec_says_what_is_missing(here):
    frame = trees().assign(kind=np.where(np.arange(N) % 6, None, "oak"))
    frame[["height", "kind", "width"]].to_csv("t.csv", index=False)
    done = init("t.csv", "--json")
    assert done.exit_code == 0, done.stderr
    evidence = json.loads(done.stdout)
    assert evidence["target"] == "kind"
    assert "all labels are 'oak'" in " ".join(evidence["chosen"])


def test_a_filled_column_of_a_target_s_name_beside_one_that_is_nearly_empty_is_in_doubt(here):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"points": rng.normal(size=60).round(4), "Outcome": ["pass", "fail", *[None] * 18] * 3,
                          "Class": ["7a", "7b", "7c"] * 20})
    frame.to_csv("t.csv", index=False)
    done = init("t.csv")
    assert done.exit_code == 1
    assert "Outcome has few different values and 54 of 60 cells are empty" in done.stderr
    assert "--target Outcome or --target Class" in done.stderr
    frame.assign(Class=[*frame["Class"][:-1], None]).to_csv("t.csv", index=False)
    assert json.loads(init("t.csv", "--json").stdout)["target"] == "Class"  # which has rows to predict


def test_a_terminal_is_asked_where_two_columns_may_be_the_target(here, monkeypatch):
    trees()[["height", "age", "soil"]].to_csv("t.csv", index=False)
    monkeypatch.setattr("dssl.cli.init.command.is_terminal", lambda: True)
    done = CliRunner().invoke(main, ["init", "t.csv"], input="soil\n", catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    assert load_spec("t.yaml").data.read.target == "soil"


@pytest.mark.parametrize(("labels", "unlabeled"), [
    (["yes", "no", "unknown"], "unknown"), ([-1, 1], 0), ([-1, 0, 1], None), (["yes", "no"], None)])
def test_what_marks_rows_without_a_label(here, labels, unlabeled):
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.normal(size=60).round(4), "label": [labels[i % len(labels)] for i in range(60)]}).to_csv(
        "t.csv", index=False)
    assert init("t.csv").exit_code == 0
    assert load_spec("t.yaml").data.unlabeled == unlabeled


def test_several_labels_that_may_stand_for_none_are_named(here):
    pd.DataFrame({"a": np.arange(60.0) % 7, "label": ["yes", "no", "unknown", "-"] * 15}).to_csv("t.csv", index=False)
    done = init("t.csv", "--json")
    said = "-: 15 rows, unknown: 15 rows; if they stand for no label, add ['-', unknown] to data.read.missing"
    assert said in " ".join(json.loads(done.stdout)["chosen"])
    assert "# -: 15 rows, unknown: 15 rows" in (here / "t.yaml").read_text()
    assert load_spec("t.yaml").data.unlabeled is None
    with pytest.raises(SpecError, match=r"several texts of a table that mark empty cells are data\.read\.missing"):
        load_spec("t.yaml", ['data.unlabeled=[unknown, "-"]'])


def arrays(here, y, X=None):
    X = np.random.default_rng(0).normal(size=(len(y), 2)) if X is None else X
    np.savez(here / "a.npz", X=X, y=y)
    return init("a.npz", "--json")


def test_blank_text_of_an_array_is_no_label_for_a_first_spec_as_for_a_run(here):
    done = arrays(here, np.array(["", "", "", "cat", "dog"])[np.arange(100) % 5])
    assert done.exit_code == 0, done.stderr
    message = " ".join(json.loads(done.stdout)["chosen"])
    assert "40 rows have one, 60 do not: class cat: 20 rows, class dog: 20 rows" in message


def test_one_class_beside_minus_one_is_told_as_one_class(here):
    done = arrays(here, np.where(np.arange(100) < 30, 0, -1))
    assert done.exit_code == 0, done.stderr
    message = " ".join(json.loads(done.stdout)["chosen"])
    assert "30 rows have one, 70 do not: class 0: 30 rows" in message
    assert "all labels are 0: a classifier needs two classes" in message
    assert load_spec("a.yaml").data.unlabeled is None


def test_labels_that_are_all_minus_one_are_none(here):
    done = arrays(here, np.full(100, -1))
    assert done.exit_code == 1
    assert "no row has a label (all are -1)" in done.stderr
    assert not (here / "a.yaml").exists()


def test_columns_that_are_all_constant_are_refused(here):
    done = arrays(here, np.arange(100) % 2, np.ones((100, 3)))
    assert done.exit_code == 1
    assert "every column is constant" in done.stderr
    assert arrays(here, np.arange(100) % 2, np.c_[np.ones(100), np.arange(100)]).exit_code == 0


def test_labels_are_counted_by_blocks_and_text_in_one_is_text_in_all():
    whole, other = np.array([1, 2, -1, 2]), np.array([3, -1])
    blocks = whole, np.array([np.nan, 2.5, 1.0]), np.array(["a", None, "2"], object)
    found = joined_labels([labels_in(y) for y in blocks], None)
    assert (found.known, found.missing, found.is_text, found.low) == (7, 3, True, None)
    assert list(found.counts.items()) == [("2", 3), ("1", 2), ("2.5", 1), ("a", 1)]
    found = joined_labels([labels_in(y) for y in (whole, other)], None)
    found_text = joined_labels([labels_in(np.array(["", "cat", " ", "?", "dog", None], object))], None)
    assert (found_text.known, found_text.missing, found_text.counts) == (2, 4, {"cat": 1, "dog": 1})
    assert found == Labels(6, 0, False, True, {-1: 2, 2: 2, 1: 1, 3: 1}, -1.0, 3.0)
    assert joined_labels([labels_in(whole)], ("no", "one", "two")).counts == {"two": 2, -1: 1, "one": 1}
    found = joined_labels([labels_in(np.arange(start, start + 600)) for start in (0, 600)], None)
    assert (found.known, found.counts, found.low, found.high) == (1200, None, 0.0, 1199.0)


def test_columns_that_float32_cannot_tell_apart_are_read_in_more_digits(here):
    rng = np.random.default_rng(0)
    columns = {"a": 1e9 + rng.random(60).round(4), "b": rng.normal(size=60), "label": rng.integers(0, 2, 60)}
    pd.DataFrame(columns).to_csv("t.csv", index=False)
    assert init("t.csv").exit_code == 0
    assert load_spec("t.yaml").data.read.dtype == "float64"


def as_npz(folder, X, y):
    np.savez(folder / "s.npz", X=X, y=y)
    return "s.npz", ()


def as_npy(folder, X, y):
    np.save(folder / "s.npy", X)
    np.save(folder / "l.npy", y)
    return "s.npy", ("--read", "labels=l.npy")


def as_svmlight(folder, X, y):
    dump_svmlight_file(sparse.csr_array(X), y, str(folder / "s.svm"))
    return "s.svm", ()


def as_zarr(folder, X, y):
    group = zarr.open_group(folder / "s.zarr", mode="w")
    for name, array in (("X", X), ("y", y)):
        group.create_array(name, data=array)
    return "s.zarr", ()


def as_parquet(folder, X, y):
    pd.DataFrame(X, columns=list("abcd")).assign(label=pd.array(y, "Int64").astype(object)).assign(
        label=lambda frame: frame["label"].where(y >= 0).astype("Int64")).to_parquet(folder / "s.parquet")
    return "s.parquet", ()


def as_folder(folder, X, y):
    (folder / "s").mkdir()
    for i, rows in enumerate((slice(0, 40), slice(40, None))):
        pd.DataFrame(X[rows], columns=list("abcd")).assign(label=np.where(y < 0, None, y.astype(object))[rows]).to_csv(
            folder / "s" / f"part-{i}.csv", index=False)
    return "s", ()


FORMATS = [as_npz, as_npy, as_svmlight, as_zarr, as_parquet, as_folder]


def written(made, here):
    """Write two clouds with half of their labels in a format, and the first spec of it; return what was told."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, N)
    X, y = rng.normal(2.5 * true[:, None], 1, (N, 4)).round(4), np.where(rng.random(N) < 0.5, -1, true)
    source, arguments = made(here, X, y)
    done = init(source, *arguments)
    assert done.exit_code == 0, done.stderr
    return done.stdout, (y >= 0).sum()


@pytest.mark.parametrize("made", FORMATS)
def test_the_spec_of_every_format_is_understood(here, made):
    message, known = written(made, here)
    assert f"{known} rows have one, {N - known} do not" in message
    spec = load_spec("s.yaml")
    assert spec.data.task == "classification"
    assert spec.data.read.labels == ("l.npy" if made is as_npy else None)


def test_a_file_without_labels_is_clustered_and_the_way_to_a_file_of_labels_is_named(here):
    as_npy(here, np.random.default_rng(0).normal(size=(N, 4)), np.zeros(N))
    done = init("s.npy")
    assert "no target: rows are grouped; --read labels=FILE names a file of labels" in done.stdout
    assert load_spec("s.yaml").data.task == "clustering"


@pytest.mark.slow
@pytest.mark.parametrize("made", FORMATS)
@pytest.mark.extended_cases("as_npy", "as_svmlight", "as_folder", "as_parquet", "as_npz")
def test_the_spec_of_every_format_runs_as_it_is(here, made):
    written(made, here)
    result = run("s.yaml", here / "work")
    scores = result["metrics"] or result["gain"]["by_labels"]["scores"]["model"]  # of few labels, those held out
    assert scores["error"] <= 0.25


@pytest.mark.slow
def test_a_table_of_one_s_own_from_init_to_predictions(here):
    trees().to_csv("t.csv", index=False)
    assert init("t.csv").exit_code == 0
    result = run("t.yaml", here / "work")
    assert result["metrics"]["n_test"] >= 5


@pytest.mark.slow
def test_few_labels_are_all_learned_from_and_judge_the_run_without_test_points(here):
    frame = trees()[["height", "width", "kind"]]
    frame.loc[frame.index[30:], "kind"] = None
    frame.to_csv("t.csv", index=False)
    assert init("t.csv").exit_code == 0
    assert load_spec("t.yaml").data.test.none
    result = run("t.yaml", here / "work")
    n = int(frame["kind"].notna().sum())
    assert result["gain"]["by_labels"]["n"] == n
    assert f"cross-validation on the {n} labels" in result["verdict"][1]
    assert set(result["gain"]["by_labels"]["scores"]) == {"model", "base", "majority"}
    shown = RunResult.open(Path(result["report"]).parent)
    head, rows = shown.score_rows()
    assert head[1] == f"error on {n} held-out labels, leave-one-out (95 % interval)"
    assert [row[0] for row in rows] == ["model", "base", "majority"]
    assert all(text in shown._repr_html_() for text in (head[1], rows[2][1]))
    page = Path(result["report"]).read_text(encoding="utf-8")
    assert "Scores on held-out labels" in page
    assert all(part in page for part in rows[2][1].split(" ("))  # the share, and its interval in a line of its own
    roles = pd.read_csv(result["predictions"])["role"].value_counts().to_dict()
    assert roles == {"labeled": n, "unlabeled": N - n}


def test_points_without_labels_are_clustered(here):
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(60, 2)).round(4), columns=["a", "b"]).to_csv("t.csv", index=False)
    done = init("t.csv", "--target", "none")
    assert done.exit_code == 0, done.stderr
    assert load_spec("t.yaml").model.kind == "clustering"


@pytest.mark.slow
def test_one_label_a_class_is_learned_from_without_a_claim(tmp_path):
    X, cloud = make_blobs(150, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(kind=None)
    first = [int(np.argmax(cloud == k)) for k in range(3)]
    table.loc[first, "kind"] = ["ant", "bee", "cat"]
    table.to_csv(tmp_path / "one.csv", index=False)
    found = first_spec([str(tmp_path / "one.csv")], {}, InProcess(1), target="kind")
    assert "test: {none: true}" in found.text
    assert any("nothing judges the result" in line for line in found.messages)
    (tmp_path / "one.yaml").write_text(found.text)
    result = run(tmp_path / "one.yaml", tmp_path / "work")
    assert result["gain"]["by_labels"]["n"] == 0
    assert "none can be held out" in " ".join(result["verdict"])
    predicted = pd.read_csv(result["predictions"])["label"]
    assert (predicted == np.array(["ant", "bee", "cat"])[cloud]).mean() > 0.95


def test_a_class_called_none_is_a_class_where_a_file_has_nulls(tmp_path):
    kind = np.array(["None", "mild", "severe", None], object)[np.arange(120) % 4]
    table = pd.DataFrame({"a": np.random.default_rng(0).normal(size=120), "kind": kind})
    table.to_parquet(tmp_path / "t.parquet", index=False)
    assert "unlabeled:" not in first_spec([str(tmp_path / "t.parquet")], {}, InProcess(1), target="kind").text
    table.fillna({"kind": ""}).to_csv(tmp_path / "t.csv", index=False)
    assert "unlabeled: None" in first_spec([str(tmp_path / "t.csv")], {}, InProcess(1), target="kind").text


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_infinite_cells_are_named_as_missing_with_their_places(here, ending):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 2)), columns=["a", "y"])
    table.loc[3, "a"], table.loc[5, "a"], table.loc[7, "y"] = np.inf, -np.inf, np.inf
    getattr(table, f"to_{ending}")(f"t.{ending}", index=False)
    message = " ".join(init(f"t.{ending}", "--target", "y").stdout.split())
    assert "data.read.missing: [inf, -inf]: infinite cells: column 'a' has 'inf' in row 3 (counted from 0)" in message
    assert "the target 'y' has 'inf' in row 7 (counted from 0)" in message
    assert ("line 5;" in message) == (ending == "csv")
    data = ingest(f"t.{ending}", MemoryParts(), InProcess(1), load_spec("t.yaml").data.read)
    assert np.isnan(data.targets()).sum() == 1


def balances(low, n=200, random_state=0):
    """Two columns of different decimals from `low` to 1,400; sixteen cells of the second one are -999."""
    rng = np.random.default_rng(random_state)
    frame = pd.DataFrame({"a": rng.normal(size=n), "balance": rng.uniform(low, 1400, n).round(2),
                          "label": np.array(["x", "z"])[np.arange(n) % 2]})
    frame.loc[:15, "balance"] = -999
    return frame


def test_a_code_among_the_values_of_a_column_that_comes_again_as_none_of_them_is_asked_about(here):
    balances(-1400).to_csv("t.csv", index=False)
    message = init("t.csv").stdout
    asked = "does -999 stand for a missing cell? No other value comes so often: column 'balance' 16; if it does, add"
    assert asked in " ".join(message.split())
    assert asked in " ".join((here / "t.yaml").read_text().replace("#", "").split())
    assert load_spec("t.yaml").data.read.missing is None


def test_a_code_that_comes_again_is_missing_where_it_is_below_all_values_or_far_from_those_of_another_column(here):
    balances(-950).to_csv("edge.csv", index=False)
    far = balances(-1400)
    far.loc[3:5, "a"] = -999
    far.to_csv("far.csv", index=False)
    for name, counts in (("edge", "column 'balance' 16"), ("far", "column 'a' 3, column 'balance' 16")):
        message = init(f"{name}.csv").stdout
        assert ("data.read.missing: ['-999']: -999 is far from all other values, or comes again as none of them does: "
                + counts) in message
        assert load_spec(f"{name}.yaml").data.read.missing == ("-999",)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.extended_cases("csv")
def test_whole_numbers_that_are_codes_by_their_name_are_categories_in_the_run_and_in_new_files(here, ending):
    rng = np.random.default_rng(0)
    mcc = rng.choice([5411, 5812, 4829, 7995], N)
    frame = pd.DataFrame({"mcc": mcc, "zip_code": rng.integers(10001, 10001 + N // 3, N), "x": rng.normal(size=N),
                          "errorcode": rng.choice([404, 500, 503], N),
                          "label": (np.isin(mcc, [5411, 7995]) ^ (rng.random(N) < 0.1)) * 1})
    write = {"csv": pd.DataFrame.to_csv, "parquet": pd.DataFrame.to_parquet}
    write[ending](frame, f"t.{ending}", index=False)
    done = init(f"t.{ending}")
    assert "data.read.categories: [mcc]: whole numbers that are codes, as their names say: mcc (4 different)" in \
        done.stdout
    assert "zip_code: its whole numbers are codes by its name, and too many different ones for" in done.stdout
    result = run("t.yaml", here / "work")
    model = open_model(result["model"])
    names = [name for name in model.dataset["feature_names"] if "mcc" in name]
    assert names == ["mcc=4829", "mcc=5411", "mcc=5812", "mcc=7995"]
    for other in write:  # a new file may be of the other format
        write[other](frame.drop(columns="label"), f"new.{other}", index=False)
        X = model.dataset_of(f"new.{other}", InProcess(1)).X.read_all()
        assert_array_equal(X[:, model.dataset["feature_names"].index("mcc=5411")], mcc == 5411)
    wrong = init(f"t.{ending}", "--read", "categories=[mccc]", "--out", "other.yaml")
    assert "has no column 'mccc' (categories)" in wrong.stderr


def test_codes_that_say_the_target_again_are_dropped_and_no_categories(here):
    rng = np.random.default_rng(0)
    mcc = rng.choice([5411, 5812], N)
    pd.DataFrame({"mcc": mcc, "x": rng.normal(size=N), "errorcode": rng.choice([404, 500], N),
                  "label": np.where(mcc == 5411, "a", "b")}).to_csv("t.csv", index=False)
    init("t.csv", "--read", "categories=[mcc, errorcode]")
    read = load_spec("t.yaml").data.read
    assert (read.categories, read.drop) == (("errorcode",), ("mcc",))


@pytest.mark.parametrize("change", [
    lambda cells: cells.where((cells > -999) | (cells.index < 2), cells.index + 0.25),  # twice may be chance
    lambda cells: cells.round(),  # some whole numbers are favorites
    lambda cells: cells.where(cells == -999, (cells / 100).round() * 100 + 0.5)])  # all values come again
def test_a_number_that_may_come_again_as_others_do_is_not_asked_about(here, change):
    frame = balances(-1400)
    frame.assign(balance=change(frame["balance"])).to_csv("t.csv", index=False)
    assert "missing" not in init("t.csv").stdout


@pytest.mark.parametrize("missing", [0, 40])
def test_a_target_of_one_number_is_refused(here, missing):
    price = np.where(np.arange(N) < missing, np.nan, 3.5)
    pd.DataFrame({"a": np.random.default_rng(0).normal(size=N), "price": price}).to_csv("t.csv", index=False)
    with pytest.raises(DataError, match=rf"t\.csv: the target is 3\.5 in all {N - missing} rows that have one"):
        first_spec(["t.csv"], {}, InProcess(1), target="price")


def test_infinite_numbers_of_an_array_are_named(here):
    X = np.random.default_rng(0).normal(size=(N, 2))
    X[4, 1] = np.inf
    np.savez("t.npz", X=X, y=np.arange(N) % 2)
    assert "infinite cells, which a run refuses: column 1 (counted from 0) has 'inf' in row 4" in init("t.npz").stdout


def coded(n=N, random_state=0):
    """A table in which -999 stands for missing cells, with and without a fraction, and two classes."""
    rng = np.random.default_rng(random_state)
    frame = pd.DataFrame({"a": rng.normal(size=n).round(3), "b": rng.integers(0, 50, n),
                          "c": rng.normal(scale=900, size=n).round(2), "label": np.array(["x", "z"])[np.arange(n) % 2]})
    frame.loc[[3, 30, 31], "a"] = -999
    frame.loc[[4, 5, 31], "b"] = -999
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.extended_cases("csv")
def test_a_code_of_missing_cells_is_named_as_missing_with_columns_and_counts(here, ending):
    frame = coded().drop(columns="c")
    getattr(frame, f"to_{ending}")(f"t.{ending}", index=False)
    done = init(f"t.{ending}")
    text = " ".join((here / "t.yaml").read_text().replace("#", "").split())
    for message in ("-999 is far from all other values: column 'a' 3, column 'b' 3", "every number is -999",
                 "row 31 (counted from 0)"):
        assert message in text
        assert message in " ".join(done.stdout.split())
    read = load_spec("t.yaml").data.read
    assert (read.missing, read.when_missing) == (("-999",), "impute")
    assert "row 30 lies far" not in done.stdout
    data = ingest(f"t.{ending}", MemoryParts(), InProcess(1), read)
    assert {record["name"]: (record["min"] > -999, record["missing"]) for record in data.attributes["survey"]} == {
        "a": (True, 3), "b": (True, 3)}
    run("t.yaml", here / "work")


@pytest.mark.parametrize("change", [
    lambda frame: frame.assign(a=frame["a"].replace(-999.0, 0.5), b=frame["b"].where(frame.index != 31, 1)
                               .where(frame.index != 5, 1)),  # one cell
    lambda frame: frame.assign(c=frame["c"].where(frame.index != 8, -999).where(frame.index != 9, 4000.0)),
    lambda frame: frame.replace(-999, -998),
    lambda frame: frame.replace(-999, 999).assign(d=np.arange(N) + 950),
    lambda frame: frame.replace(-999, 999).assign(d=np.array(["k", "999", "m"])[np.arange(N) % 3]),
    lambda frame: frame.replace(-999, 999).assign(label=np.array([0, 1, 999])[np.arange(N) % 3])])
def test_a_number_that_may_be_a_value_is_not_named_as_missing(here, change):
    change(coded()).to_csv("t.csv", index=False)
    assert init("t.csv", "--target", "label").exit_code == 0
    assert load_spec("t.yaml").data.read.missing is None


def test_files_in_folders_of_a_folder_are_named_by_a_pattern(here):
    for year in (2025, 2026):
        (here / "sales" / f"year={year}").mkdir(parents=True)
        (here / "sales" / f"year={year}" / "part.csv").write_text("a,kind\n1,x\n2,y\n")
    with pytest.raises(DataError, match=r"no file in(.|\n)*'sales/\*/\*\.csv'; values in names of folders"):
        first_spec(["sales"], {}, InProcess(1))
    pd.DataFrame({"a": range(40), "kind": list("xy") * 20}).to_csv(here / "sales" / "one.csv.gz", index=False)
    assert "source: sales/*.csv.gz" in first_spec(["sales"], {}, InProcess(1)).text
    (here / "empty").mkdir()
    with pytest.raises(DataError, match=r"no file in the folder empty ends in one of .*\.csv(.|\n)*fix: name a file$"):
        first_spec(["empty"], {}, InProcess(1))


def test_a_column_of_train_and_test_is_named(here):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(90, 3)), columns=list("abc"))
    table["part"] = np.where(np.arange(90) % 3, "Train", "test")
    table["kind"] = np.where(rng.random(90) < 0.5, "low", "high")
    table.to_csv(here / "points.csv", index=False)
    result = init("points.csv", "--out", "points.yaml")
    assert "part says train and test" in result.output
    text = (here / "points.yaml").read_text()
    assert "set test: {column: part}" in " ".join(text.replace("#", " ").split())
    (here / "points.yaml").write_text(re.sub("test: {fraction.*", "test: {column: part}", text))
    assert run("points.yaml", here)["metrics"]["n_test"] == 30


@pytest.mark.parametrize("name", ["patient_age", "user rating", "storeCount", "customers"])
def test_numbers_of_other_things_are_no_groups(here, name):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.integers(20, 80, 400), "a": rng.normal(size=400)})
    table.assign(state=np.where(rng.random(400) < 0.5, "sick", "well")).to_csv(here / "t.csv", index=False)
    assert "groups:" not in init("t.csv", "--out", "t.yaml").output


@pytest.mark.parametrize("names", ["texts", "numbers"])
def test_visits_of_patients_are_said_to_be_groups_however_few_have_labels(here, names):
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(150), rng.integers(3, 7, 150))
    table = pd.DataFrame(rng.normal(size=(len(patient), 3)), columns=list("abc"))
    table.insert(0, "patient", [f"P{number:03d}" for number in patient] if names == "texts" else 4000 + patient)
    table["state"] = np.where(rng.random(150) < 0.4, "sick", "well")[patient]
    table.loc[rng.random(len(table)) < 0.8, "state"] = None
    table.to_csv(here / "visits.csv", index=False)
    assert "{fraction: 0.2, groups: patient}" in " ".join(init("visits.csv", "--out", "v.yaml").output.split())
