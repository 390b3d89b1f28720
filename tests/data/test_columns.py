"""Missing cells and text as columns of X: against NumPy and pandas, and the same for any blocks."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import DataError, ParameterError
from dssl.data.append import append
from dssl.data.columns import Columns, cells_of
from dssl.data.dataset import Dataset
from dssl.data.ingest import ingest, open_dataset
from dssl.data.ingest_params import IngestParams
from dssl.data.readers.cells import MAX_LEVELS
from dssl.data.refused_cells import Cells, cells_error, cells_in
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts
from dssl.storage.store import StoredParts

BOTH = {"when_missing": "impute", "when_text": "one_hot", "dtype": "float64"}


def write(folder, frame, name="t.csv"):
    frame.to_csv(folder / name, index=False)
    return folder / name


def read(path, execution=None, **options):
    return ingest(path, MemoryParts(), execution or InProcess(1), **{**BOTH, **options})


def trees(n=60, random_state=0):
    rng = np.random.default_rng(random_state)
    frame = pd.DataFrame({
        "height": rng.normal(10, 3, n).round(4), "kind": rng.choice(["oak", "ash", "elm"], n),
        "code": rng.choice(["7", "07", "x1"], n, p=[0.6, 0.3, 0.1]), "age": rng.integers(0, 90, n).astype(float),
        "cut": rng.choice(["true", "false"], n), "label": rng.integers(0, 2, n)})
    for column, share in (("height", 0.2), ("kind", 0.1), ("age", 0.3)):
        frame.loc[rng.random(n) < share, column] = None
    return frame


NUMBERS = st.one_of(st.none(), st.floats(-1e6, 1e6).map(lambda x: round(x, 3)))
TEXTS = st.sampled_from([None, "7", "07", "7.0", "a", "B", "é", "true"])


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(rows=st.lists(st.tuples(NUMBERS, TEXTS, TEXTS), min_size=1, max_size=12), data=st.data())
def test_x_does_not_depend_on_blocks_and_is_what_pandas_makes(tmp_path_factory, rows, data):
    frame = pd.DataFrame(rows, columns=["x", "s", "t"], dtype=object).assign(y=0)
    frame.loc[len(frame)] = [1.5, "a", "B", 1]  # no column is empty, and both of text are text
    path = write(tmp_path_factory.mktemp("columns"), frame)
    whole = read(path)
    blocks = read(path, block_rows=data.draw(st.integers(1, len(frame))))
    assert_array_equal(blocks.X.read_all(), whole.X.read_all())
    assert {**blocks.attributes, "params": 0} == {**whole.attributes, "params": 0}
    x = frame["x"].astype(float)
    last = "\U0010ffff"  # comes after every level
    dummies = pd.get_dummies(frame[["s", "t"]].astype("str").where(frame[["s", "t"]].notna(), last), prefix_sep="=")
    expected = pd.concat([x.fillna(np.nanmean(x)).rename("x"), dummies.astype(float)], axis=1)
    assert whole.feature_names == [name.replace(last, "(missing)") for name in expected.columns]
    assert_allclose(whole.X.read_all(), expected.to_numpy(), rtol=1e-14, atol=1e-12)


def test_a_table_is_imputed_and_one_hot(tmp_path):
    frame = trees()
    data = ingest(write(tmp_path, frame), StoredParts(tmp_path / "out"), InProcess(2), block_rows=25, **BOTH)
    data = data.save(tmp_path / "out")
    assert data.feature_names == ["height", "kind=ash", "kind=elm", "kind=oak", "kind=(missing)", "code=07", "code=7",
                                  "code=x1", "age", "cut"]
    X = pd.DataFrame(data.X.read_all(), columns=data.feature_names)
    assert_allclose(X["height"], frame["height"].fillna(np.nanmean(frame["height"])))
    assert_allclose(X["age"], frame["age"].fillna(np.nanmean(frame["age"])))
    assert_array_equal(X["cut"], frame["cut"] == "true")
    for level in ("ash", "elm", "oak"):
        assert_array_equal(X[f"kind={level}"], frame["kind"] == level)
    assert_array_equal(X["kind=(missing)"], frame["kind"].isna())
    assert_array_equal(data.targets(), frame["label"])
    recorded = {column["name"]: column for column in data.attributes["columns"]}
    assert recorded["height"] == {"name": "height", "kind": "number", "imputed": int(frame["height"].isna().sum()),
                                  "fill": pytest.approx(np.nanmean(frame["height"]), rel=1e-15)}
    assert recorded["code"] == {"name": "code", "kind": "category", "levels": ["07", "7", "x1"], "imputed": 0}
    assert recorded["kind"]["levels"] == ["ash", "elm", "oak", None]
    assert data.attributes["imputed"] == int(frame.drop(columns="label").isna().sum().sum())
    assert data.attributes["unseen"] == {}
    assert not (tmp_path / "out" / "within").exists()
    assert_array_equal(open_dataset(tmp_path / "out").X.read_all(), data.X.read_all())


def test_frames_become_what_their_file_becomes(tmp_path):
    frame = trees()
    from_file = read(write(tmp_path, frame))
    features = frame.drop(columns="label").assign(cut=frame["cut"] == "true")
    for table in (features, features.astype({"kind": "category", "code": "category", "age": "Int64"})):
        data = Dataset.from_arrays(table, frame["label"], when_missing="impute", when_text="one_hot")
        assert_array_equal(data.X.read_all(), from_file.X.read_all())
        of_bools = [column | {"kind": "number"} if column["kind"] == "truth" else column
                    for column in from_file.attributes["columns"]]
        assert data.attributes["columns"] == of_bools
        assert data.feature_names == from_file.feature_names


def test_text_that_begins_late_makes_the_column_text(tmp_path):
    codes = ["3"] * 1500 + ["x"] + ["03"] * 300
    path = write(tmp_path, pd.DataFrame({"code": codes, "y": 0}))
    data = read(path, InProcess(2), block_rows=400)
    assert data.feature_names == ["code=03", "code=3", "code=x"]
    assert_array_equal(data.X.read_all().sum(axis=0), [300, 1500, 1])


def test_a_fill_beyond_the_numbers_of_a_cell_is_that_of_a_cell_which_is_named(tmp_path):
    cells = ["0.5", "", "1e300", *["1.5"] * 20]
    (tmp_path / "t.csv").write_text("a,label\n" + "".join(f"{cell},{i % 2}\n" for i, cell in enumerate(cells)))
    with pytest.raises(DataError, match=r"1e\+300 \(too large for float32\) in row 2 "):
        ingest(tmp_path / "t.csv", MemoryParts(), InProcess(1), when_missing="impute")


def test_arrays_are_imputed(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    X[::3, 1], X[5, 0] = np.nan, np.nan
    expected = np.where(np.isnan(X), np.nanmean(X.astype(float), axis=0), X).astype(np.float32)
    np.save(tmp_path / "t.npy", X)
    np.savez(tmp_path / "t.npz", X=X, columns=np.array(["a", "b", "c"]))
    stored = ingest(tmp_path / "t.npy", MemoryParts(), InProcess(1), when_missing="impute", block_rows=6)
    named = ingest(tmp_path / "t.npz", MemoryParts(), InProcess(1), when_missing="impute")
    made = Dataset.from_arrays(X, when_missing="impute")
    for data in (stored, named, made):
        assert data.X.dtype == np.float32
        assert_array_equal(data.X.read_all(), expected)
        assert [column["imputed"] for column in data.attributes["columns"]] == [1, 14, 0]
    assert stored.feature_names is None
    assert named.feature_names == ["a", "b", "c"]


def test_a_table_without_a_header_counts_its_columns(tmp_path):
    (tmp_path / "t.csv").write_text("1.5,red,0\n2.5,blue,1\n,red,1\n")
    data = read(tmp_path / "t.csv")
    assert data.feature_names == ["0", "1=blue", "1=red"]
    assert_array_equal(data.X.read_all(), [[1.5, 0, 1], [2.5, 1, 0], [2, 0, 1]])
    assert Columns.of(data.attributes).names is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_without_text_and_missing_cells_the_options_change_no_bit(tmp_path, dtype):
    rng = np.random.default_rng(1)
    path = write(tmp_path, pd.DataFrame(rng.normal(size=(50, 4)), columns=list("abcy")))
    plain = ingest(path, MemoryParts(), InProcess(1), dtype=dtype)
    chosen = read(path, dtype=dtype, block_rows=9)
    assert chosen.X.read_all().tobytes() == plain.X.read_all().tobytes()
    assert "columns" not in plain.attributes
    assert chosen.feature_names == plain.feature_names


@pytest.mark.parametrize(("text", "options", "message"), [
    ("a,b,y\n1,red,0\n2,blue,1\n", {"when_text": "error"}, r"'b' holds text: 'red' in row 0[\s\S]*when_text: one_hot"),
    ("a,b,y\n1,red,0\n,blue,1\n", {"when_missing": "error"},
     r"column 'a' has a missing cell in row 1[\s\S]*when_missing: impute"),
    ("a,b,y\n1,red,0\n2,,1\n3,,1\n", {"when_missing": "error"},
     r"column 'b' has 2 missing cells; the first is in row 1[\s\S]*when_missing: impute"),
    ("a,b,y\n,red,0\n,blue,1\n", {}, "all cells of column 'a' are missing"),
    ("a,b,y\n1,,0\n2, ,1\n", {}, "all cells of column 'b' are missing"),
    ("a,b,y\n1,red,0\ninf,blue,1\n", {}, "column 'a' is inf in row 1"),
    ("a,b,y\n1e308,red,0\n1e308,blue,1\n", {}, "column 'a' exceeds float64"),
    ("a,b,y\n" + "1,id0,0\n" + "".join(f"1,id{i},0\n" for i in range(MAX_LEVELS + 1)), {"keep_ids": True},
     r"'b' has more than 1,000 different texts[\s\S]*identifier"),
])
@pytest.mark.parametrize("height", [1, None])
def test_refused_with_the_column(tmp_path, text, options, message, height):
    (tmp_path / "t.csv").write_text(text)
    if len(text) > 1000 and height:
        height = 300
    with pytest.raises(DataError, match=message):
        read(tmp_path / "t.csv", block_rows=height, **options)


def test_as_many_levels_as_allowed(tmp_path):
    levels = [f"v{i}" for i in range(MAX_LEVELS)]
    path = write(tmp_path, pd.DataFrame({"a": [*levels, "v0"], "y": 0}))
    assert read(path, block_rows=300, keep_ids=True).X.shape == (MAX_LEVELS + 1, MAX_LEVELS)
    with pytest.raises(DataError, match="column 'a' is text without a repeated value, such as 'v0'"):
        Dataset.from_arrays(pd.DataFrame({"a": levels}), when_text="one_hot")


def test_a_decimal_comma_is_found_and_told(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b;y\n" + "".join(f"{i},25;{-i},5;{i % 2}\n" for i in range(30)))
    data = read(path)
    assert_array_equal(data.X.read_all()[:2], [[0.25, 0.5], [1.25, -1.5]])
    assert data.attributes["decimal"] == ","
    with pytest.raises(DataError, match=r"mark ',' in column 'a' \(0,25\), 'b' \(0,5\); that of the file is '\.'"):
        read(path, decimal=".", thousands="none", when_text="error")


def with_marks(folder, name, delimiter, mark, rows=30):
    """Write a table of numbers with three decimals, which could as well be thousands."""
    header = delimiter.join(["a", "b", "y"])
    lines = [delimiter.join([f"{i + 1}{mark}250", f"{-i - 1}{mark}500", str(i % 2)]) for i in range(rows)]
    (folder / name).write_text("\n".join([header, *lines, ""]))
    return folder / name


@pytest.mark.parametrize("names", [("a.csv", "b.csv"), ("b.csv", "a.csv")])
def test_files_with_other_decimal_marks_are_not_one_data_set(names, tmp_path):
    with_marks(tmp_path, "a.csv", ",", ".")
    with_marks(tmp_path, "b.csv", ";", ",")
    first, then = (tmp_path / name for name in names)
    message = "numbers of .* have a decimal (comma|point), those of .* a decimal (point|comma)"
    with pytest.raises(DataError, match=message):
        ingest([first, then], MemoryParts(), InProcess(1))
    ingest(first, StoredParts(tmp_path / "d"), InProcess(1)).save(tmp_path / "d")
    with pytest.raises(DataError, match=message.replace("those of .*", "those of the data set")):
        append(then, tmp_path / "d", InProcess(1))
    mark = "," if then.name == "b.csv" else "."
    assert append(then, tmp_path / "d", InProcess(1), decimal=mark).X.read_all()[30:].max() == 30.25


def test_numbers_that_no_mark_is_in_follow_those_of_other_files(tmp_path):
    with_marks(tmp_path, "a.csv", ",", ".")
    (tmp_path / "whole.csv").write_text("a;b;y\n" + "".join(f"{i};{i};{i % 2}\n" for i in range(30)))
    with_marks(tmp_path, "tabs.csv", "\t", ".")
    data = ingest([tmp_path / name for name in ("a.csv", "whole.csv", "tabs.csv")], MemoryParts(), InProcess(1))
    assert_array_equal(data.X.read_all()[[29, 59, 89]], [[30.25, -30.5], [29, 29], [30.25, -30.5]])


def test_options_that_are_unknown_or_do_not_apply(tmp_path):
    with pytest.raises(ParameterError, match="when_missing='mean'"):
        IngestParams(when_missing="mean")
    with pytest.raises(ParameterError, match="when_text='label'"):
        IngestParams(when_text="label")
    np.save(tmp_path / "t.npy", np.eye(3))
    with pytest.raises(ParameterError, match=r"when_text='one_hot' does not apply to t\.npy"):
        read(tmp_path / "t.npy")


@pytest.mark.parametrize(("column", "expected"), [
    (pd.Series([1, None, 2], dtype="Int64"), [1, np.nan, 2]), (pd.Series([True, False]), [1, 0]),
    (pd.Series([True, None], dtype=object), [1, np.nan]), (pd.Series([1, 2.5, None], dtype=object), [1, 2.5, np.nan]),
    (pd.Series(["a", None]), ["a", None]), (pd.Series(["a", 1, None], dtype=object), ["a", "1", None]),
    (pd.Series([3, 1, None]).astype("Int64").astype("category"), ["3", "1", None]),
    (pd.Series([None, None], dtype="str"), [None, None]),
])
def test_cells_of_every_type(column, expected):
    cells = cells_of(column, "column 'c'")
    is_text = any(isinstance(value, str) for value in expected) or expected == [None, None]
    assert cells.dtype == (object if is_text else np.float64)
    assert_array_equal(cells, np.array(expected, object if is_text else float))


@pytest.mark.parametrize("column", [pd.Series(pd.to_datetime(["2020-01-01"])), pd.Series([1j]), pd.Series([[1, 2]])])
def test_cells_that_are_neither_numbers_nor_text(column):
    with pytest.raises(DataError, match=r"column 'c' holds \S+ values"):
        cells_of(column, "column 'c'")


def test_frames_that_are_refused_tell_of_all_their_cells():
    frame = pd.DataFrame({"a": [1.0, None], "b": ["x", "y"]})
    with pytest.raises(DataError, match=r"X: 2 columns have cells[\s\S]*'a' has a missing cell in row 1 \(counted from "
                       r"0\)\n.*'b' holds text: 'x' in row 0 \(counted from 0\), 'y' in row 1 \(counted from 0\) \(2 "
                       r"of 2 cells\)[\s\S]*when_missing=\"impute\"[\s\S]*X\.drop\(columns=\['a', 'b'\]\)"):
        Dataset.from_arrays(frame)
    with pytest.raises(DataError, match=r"X: column 'b' holds text[\s\S]*when_text"):
        Dataset.from_arrays(frame, when_missing="impute")
    with pytest.raises(DataError, match=r"X: column 'a' has a missing cell[\s\S]*when_missing"):
        Dataset.from_arrays(frame, when_text="one_hot")
    for column in (pd.Series([1, 2, 1], dtype="category"), pd.Series(["1", "2", None], dtype=object)):
        with pytest.raises(DataError, match=r"text or categories in column 'c'[\s\S]*when_text"):
            Dataset.from_arrays(pd.DataFrame({"c": column, "d": [1.0, None, 2.0]}), when_missing="impute")
    with pytest.raises(DataError, match=r"X\.drop\(columns=\[1\]\)"):
        Dataset.from_arrays(pd.DataFrame({0: [1.0, 2.0], 1: ["x", "y"]}))
    odd = pd.DataFrame({"a": [*map(str, range(30)), "n/a"]}, dtype=object)
    with pytest.raises(DataError, match=r"if 'n/a' marks a missing cell, X\.replace\(\['n/a'\], float\('nan'\)\)"):
        Dataset.from_arrays(odd)


# ---- another file, with the choice of the first


def test_new_files_take_the_recorded_fills_and_levels(tmp_path):
    train = pd.DataFrame({"a": [1.0, 3.0, None], "b": ["x", "y", "x"], "y": [0, 1, 0]})
    columns = Columns.of(json.loads(json.dumps(read(write(tmp_path, train)).attributes)))
    new = pd.DataFrame({"b": ["y", "z", None, "x", "w", "z"], "a": [None, 10, 20, None, 30, 40]})
    path = write(tmp_path, new, "new.csv")
    for height in (1, 4, None):
        data = read(path, target="none", block_rows=height, columns=columns)
        assert data.feature_names == ["a", "b=x", "b=y"]
        assert_array_equal(data.X.read_all(), [[2, 0, 1], [10, 0, 0], [20, 0, 0], [2, 1, 0], [30, 0, 0], [40, 0, 0]])
        assert data.attributes["unseen"] == {"b": {"rows": 4, "texts": ["w", "z", None]}}
        assert data.attributes["imputed"] == 3


def test_numbers_where_levels_were_recorded_are_levels(tmp_path):
    train = pd.DataFrame({"b": ["7", "07", "x"], "y": 0})
    columns = Columns.of(read(write(tmp_path, train)).attributes)
    (tmp_path / "new.csv").write_text("b\n7\n07\n8\n")
    data = read(tmp_path / "new.csv", header=True, target="none", columns=columns)
    assert_array_equal(data.X.read_all(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_new_files_that_do_not_fit_are_refused(tmp_path):
    train = pd.DataFrame({"a": [1.0, 3.0], "b": ["x", "y"], "y": [0, 1]})
    columns = Columns.of(read(write(tmp_path, train), when_missing="error").attributes)
    for text, message in [("a,b\n1,\n", "column 'b' has a missing cell in row 0"),
                          ("a,b\n,x\n", "column 'a' has a missing cell in row 0"),
                          ("a,b\n1,x\nred,y\n", "column 'a' holds text: 'red' in row 1"),
                          ("a,b,c\n1,x,2\n", "3 columns of features, expected 2")]:
        (tmp_path / "new.csv").write_text(text)
        with pytest.raises(DataError, match=message):
            read(tmp_path / "new.csv", target="none", header=True, when_missing="error", columns=columns)
    with pytest.raises(DataError, match="levels of column 'b' are text, the block holds numbers only"):
        columns.apply(np.ones((1, 2)), np.arange(2))
    with pytest.raises(DataError, match="column 'b' holds numbers"):
        columns.apply(pd.DataFrame({"a": [1.0], "b": [2.0]}), np.arange(2))


# Text and missing cells of a table are told all at once, by column, whatever comes first and wherever it stands


LATE = 1500  # beyond the first rows, which a reader looks at before all others


@pytest.fixture(scope="module")
def table():
    """Numbers, but for gaps, a category, and two odd texts far down."""
    rng = np.random.default_rng(0)
    n = 2000
    frame = pd.DataFrame({"height": rng.normal(size=n).round(3), "gaps": rng.normal(size=n).round(3),
                          "color": rng.choice(["red", "green"], n), "odd": rng.integers(0, 9, n).astype(object),
                          "y": rng.integers(0, 2, n)})
    frame.loc[[3, LATE, LATE + 1], "gaps"] = None
    frame.loc[[LATE, LATE + 9], "odd"] = ["see", "ask"]
    frame.loc[LATE + 5, "color"] = None
    return frame


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    table.to_csv(folder / "t.csv", index=False)
    table.astype({"odd": str}).to_parquet(folder / "t.parquet", row_group_size=400)
    return folder


def refusal(path, **options):
    with pytest.raises(DataError) as error:
        ingest(path, MemoryParts(), InProcess(2), **options)
    return str(error.value)


GAPS, COLOR = "column 'gaps' has 3 missing cells; the first is in row 3", "(1,999 of 2,000 cells)"
ODD = f"column 'odd' holds text: 'see' in row {LATE}, 'ask' in row {LATE + 9} (2 of 2,000 cells)"
GONE = f"has a missing cell in row {LATE + 5}"


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("rows", [None, 130])
@pytest.mark.parametrize(("options", "message", "unnamed"), [
    ({}, [GAPS, COLOR, ODD, GONE, "3 columns"], ["height"]),
    ({"when_text": "one_hot"}, [GAPS, GONE, ODD, "3 columns"], ["'red'"]),
    ({"when_missing": "impute"}, [COLOR, ODD, "2 columns"], [" missing cell"]),
    ({"drop": ("color", "odd")}, [GAPS], ["columns have", "color"]),
])
def test_all_cells_that_are_no_numbers_are_told_at_once(files, name, rows, options, message, unnamed):
    text = refusal(files / name, block_rows=rows, **options)
    what, _, rest = text.partition("\n  why: ")
    if name == "t.csv":
        assert f", line {LATE + 2}" in what or "odd" in options.get("drop", ()), text
    what = re.sub(r" \(counted from 0\)(, line \d+)?", "", what)
    for words in message:
        assert words in what, text
    for words in unnamed:
        assert words not in what, text
    assert ("when_missing: impute" in rest) == (" missing cell" in what)
    assert ("when_text: one_hot" in rest) == ("holds text" in what)


def test_few_texts_among_numbers_may_mark_missing_cells(files):
    text = refusal(files / "t.csv")
    assert "if 'ask', 'see' marks a missing cell, `missing: ['ask', 'see']`" in text
    actual = ingest(files / "t.csv", MemoryParts(), InProcess(1), missing=("see", "ask"), when_missing="impute",
                   when_text="one_hot")
    assert [record["missing"] for record in actual.attributes["survey"]] == [0, 3, 1, 2]


def test_true_and_false_among_numbers_are_not_told_as_text(tmp_path):
    cells = ["true", "False", *["1"] * 52, *["oak"] * 6]
    pd.DataFrame({"a": cells, "x": np.arange(60) / 7, "y": [0, 1] * 30}).to_csv(tmp_path / "t.csv", index=False)
    text = refusal(tmp_path / "t.csv")
    assert "(6 of 60 cells)" in text
    assert "`missing: ['oak']`" in text


def test_new_rows_that_do_not_fit_are_told_at_once(files, table, tmp_path):
    known = ingest(files / "t.csv", MemoryParts(), InProcess(1), when_text="one_hot", drop=("gaps", "odd"),
                   when_missing="impute")
    columns = Columns.of(known.attributes | {"when_missing": "error"})
    new = table[["height", "color"]].astype(object).iloc[:50]
    new.loc[[4, 7], "height"] = [None, "tall"]
    new.loc[9, "color"] = None
    new.to_csv(tmp_path / "new.csv", index=False)
    text = re.sub(r" \(counted from 0\)(, line \d+)?", "", refusal(tmp_path / "new.csv", target="none", columns=columns,
                                                 when_text="one_hot"))
    assert "column 'height' holds text: 'tall' in row 7 (1 of 50 cells) and has a missing cell in row 4" in text
    assert "column 'color' has a missing cell in row 9" in text
    assert "'red'" not in text


def test_cells_of_blocks_are_those_of_the_whole(table):
    X = table[["gaps", "odd"]]
    whole = cells_in(X)
    parts = [cells_in(X.iloc[start:start + 300], start) for start in range(0, len(X), 300)]
    for j, cells in whole.items():
        actual = Cells()
        for part in parts:
            actual = actual.merge(part.get(j, Cells()))
        assert actual == cells
    assert (whole[0].missing, whole[0].first_missing, whole[1].texts) == (3, 3, 2)
    assert_array_equal([row for row, _ in whole[1].examples], [LATE, LATE + 9])


@pytest.mark.parametrize(("texts", "mark"), [
    (("1,5", "-2,25e3", "7"), ","), (("1.5", ".5"), "."), (("5 %",), None), (("1,234,567",), None),
    (("1,5", "2.5"), None), (("inf",), None), (("1,5", "many"), None), ((), None)])
def test_only_numbers_with_one_other_decimal_mark_are_told_so(texts, mark):
    cells = {0: Cells(len(texts), tuple(enumerate(texts)), missing=0 if texts else 3, first_missing=0)}
    message = str(cells_error(cells, 40, "new.csv", ["a"], {}, can_drop=True, is_new=True))
    assert ("another decimal mark" in message) == (mark is not None)
    assert mark is None or f"--read 'decimal=\"{mark}\"'" in message
    of_units = str(cells_error(cells, 40, "new.csv", ["a"], {}, can_drop=True, is_new=True,
                               expected={0: "numbers in 'kg'"}))
    assert "another decimal mark" not in of_units
    assert ("convert cells of another unit" in of_units) == bool(texts)
    assert ("when_missing: impute" in of_units) == (not texts)
    of_truth = str(cells_error(cells, 40, "new.csv", ["a"], {}, can_drop=True, is_new=True, expected={0: "yes or no"}))
    assert "convert cells" not in of_truth
