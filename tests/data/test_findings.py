"""What columns look like: identifiers, times, constants, copies, the target; and what only resembles one of them."""

import json
import math
import re
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_friedman1

from dssl.data.findings import examined, excluded_columns, notes, to_json
from dssl.data.survey import Survey, choose_columns, two_sum
from dssl.data.traits import DATE, SAMPLED, Traits


def records_of(table, y=None, cuts=()):
    """Return the records of a table that is read in blocks, by name of the column; parts travel as tasks write them."""
    names = [str(name) for name in table.columns]
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(table)}), len(table)]
    traits, survey = None, None
    for start, stop in pairwise(edges):
        block, labels = table[start:stop], None if y is None else y[start:stop]
        arrays, attributes = Traits.of(block, labels, start=start, total=len(table), names=names).to_arrays()
        actual = Traits.from_arrays(arrays, json.loads(json.dumps(attributes)))
        traits = actual if traits is None else traits.merge(actual)
        counted = Survey.of(block, start, names)
        survey = counted if survey is None else survey.merge(counted)
    return {record.name: record for record in examined(traits, survey.levels, names)}


def findings_of(table, y=None):
    return {name: record.finding for name, record in records_of(table, y).items() if record.finding}


RNG = np.random.default_rng(0)
N = 600
Y = RNG.integers(0, 3, N)
BASE = pd.DataFrame({"a": RNG.normal(size=N), "b": RNG.normal(10, 3, N).round(1)})
LOOKS = {  # column -> finding
    "rising": (np.arange(1000, 1000 + N), "identifier"),
    "rising with gaps": (np.sort(RNG.choice(10**9, N, replace=False)), "identifier"),
    "falling": (np.arange(N)[::-1] * 10, "identifier"),
    "id, and copies of rows at the end": (np.r_[:N - 30, :15, :15], "identifier"),
    "shuffled": (RNG.permutation(N), "identifier"),
    "part of a shuffled one": (RNG.permutation(3 * N)[:N] + 5000, "identifier"),
    "patient_id": (RNG.choice(10**9, N, replace=False), "identifier"),
    "key of text": ([f"{i:03d}-{i * 7919 % 1000}" for i in range(N)], "identifier"),
    "epoch": (1_700_000_000 + RNG.integers(0, 10**7, N), "time stamp"),
    "milliseconds": (1_700_000_000_000 + np.arange(N), "time stamp"),
    "dates": (pd.date_range("2024-01-01", periods=N).strftime("%Y-%m-%d").astype(object), "time stamp"),
    "elapsed": (np.cumsum(RNG.random(N)), "time stamp"),
    "constant": (np.full(N, 2.5), "constant"),
    "one text": (["same"] * N, "constant"),
    "empty": (np.full(N, np.nan), "constant"),
    "copy": (BASE.a.to_numpy(), "duplicate"),
    "fahrenheit": ((BASE.b * 1.8 + 32).to_numpy(), "duplicate"),
    "negative": (-BASE.a.to_numpy(), "duplicate"),
    "coded labels": (np.array([30, 10, 20])[Y], "target"),
    "text of labels": (np.array(["x", "z", "y"], object)[Y], "target"),
    "finer than labels": (Y + 3 * RNG.integers(0, 4, N), "target"),
}
FEATURES = {  # what resembles one of them and is a feature
    "salary": RNG.choice(10**9, N, replace=False),  # no two are equal, as chance has it
    "count": RNG.poisson(4, N),
    "bit": RNG.integers(0, 2, N),
    "rounded": RNG.normal(170, 10, N).round(),
    "sorted groups": np.sort(RNG.integers(0, N // 4, N)),
    "category": RNG.choice(np.array(["u", "v", "w"], object), N),
    "nearly a copy": BASE.a + RNG.normal(0, 0.01, N),
    "nearly the labels": np.where(np.arange(N) == 7, (Y + 1) % 3, Y),
    "thresholds tell": Y * 10 + RNG.integers(0, 8, N),
    "thresholds tell but for a few": Y * 20 + RNG.integers(0, 10, N) + np.where(RNG.random(N) < 0.05, 70, 0),
    "rising twice": np.r_[:N // 2, :N // 2],  # and its name says nothing
    "rare": (np.arange(N) < 3).astype(int),
    "large counts": RNG.integers(0, 10**5, N),
    "id": RNG.integers(0, 50, N),  # a name decides nothing
    "float32": RNG.normal(size=N).astype(np.float32),
    "missing": np.where(RNG.random(N) < 0.3, np.nan, RNG.normal(size=N)),
}


@pytest.fixture(scope="module")
def table():
    columns = {name: values for name, (values, _) in LOOKS.items()} | FEATURES
    return pd.concat([BASE, pd.DataFrame(columns)], axis=1)


@pytest.fixture(scope="module")
def whole(table):
    return records_of(table, Y)


@pytest.mark.parametrize("name", LOOKS)
def test_a_column_is_found_to_be_what_it_is(whole, name):
    assert whole[name].finding == LOOKS[name][1]
    assert whole[name].why


@pytest.mark.parametrize("name", ["a", "b", *FEATURES])
def test_a_feature_is_none_of_them(whole, name):
    assert (whole[name].finding, whole[name].why, whole[name].used) == (None, None, True)


def test_a_record_tells_type_range_missing_and_levels(whole):
    def of(name):
        record = whole[name]
        return record.kind, record.min, record.max, record.missing, record.levels

    assert of("rising") == ("integer", 1000, 1000 + N - 1, 0, None)
    assert of("category") == ("category", None, None, 0, 3)
    assert of("key of text") == ("text", None, None, 0, None)
    assert of("dates") == ("time", None, None, 0, N)
    missing = FEATURES["missing"]
    assert of("missing") == ("number", np.nanmin(missing), np.nanmax(missing), np.isnan(missing).sum(), None)
    assert of("empty")[1:4] == (None, None, N)


@pytest.mark.parametrize("cuts", [[1], [97, 98, 400], range(1, N, 113)])
def test_what_is_found_does_not_depend_on_the_blocks(table, whole, cuts):
    assert records_of(table, Y, cuts) == whole


@pytest.mark.parametrize("copies", [0, 1])
def test_values_of_many_rows_are_sampled_by_value_so_that_a_copy_in_another_block_is_seen(copies):
    n = 40 * SAMPLED
    values = RNG.permutation(2 * n)[:n]
    values[n // 2:][:copies * n // 4] = values[:copies * n // 4]
    table = pd.DataFrame({"v": values, "levels": RNG.integers(0, 30, n)})
    actual = records_of(table, cuts=[n // 3, n // 2])
    assert (actual["v"].finding == "identifier") == (copies == 0)
    assert actual["levels"].finding is None
    assert actual == records_of(table)


def test_too_few_rows_tell_nothing():
    table = pd.DataFrame({"i": np.arange(12), "t": [f"text {i}" for i in range(12)], "b": np.arange(12) % 2})
    assert findings_of(table, np.arange(12) % 2) == {}


def test_quantities_are_recognized_up_to_scale_and_offset_where_they_are_known():
    rng = np.random.default_rng(1)
    y = rng.normal(100, 10, 300)
    table = pd.DataFrame({"euros": y * 1.1 - 3, "noisy": y + rng.normal(0, 0.3, 300), "x": rng.normal(size=300)})
    known = np.where(rng.random(300) < 0.5, y, np.nan)
    assert findings_of(table, known) == {"euros": "target"}
    whole = np.rint(y).astype(np.int64)
    assert findings_of(pd.DataFrame({"copy": whole, "x": table.x}), np.where(np.isnan(known), -1, whole)) == {
        "copy": "target"}


def test_labels_of_minus_one_are_no_class_unless_there_is_one_other():
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 2, 300)
    hidden = np.where(rng.random(300) < 0.6, -1, truth)
    assert findings_of(pd.DataFrame({"truth": truth, "x": rng.normal(size=300)}), hidden) == {"truth": "target"}
    assert findings_of(pd.DataFrame({"truth": truth, "x": rng.normal(size=300)}), 2 * truth - 1) == {"truth": "target"}


def test_a_handful_of_labels_proves_nothing():
    """Of 8 labels a column of 0 and 1 agrees with all in 1 of 70 draws."""
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1] + [-1] * 92)
    column = np.where(y == -1, np.random.default_rng(3).integers(0, 2, 100), y)
    assert findings_of(pd.DataFrame({"bit": column, "x": np.random.default_rng(4).normal(size=100)}), y) == {}


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_columns_of_known_sets_are_features(load):
    """In iris one class is told by a single feature; pixels of digits are small integers, some constant."""
    X, y = load(return_X_y=True, as_frame=True)
    assert {*findings_of(X, y.to_numpy()).values()} <= {"constant"}
    X, y = make_friedman1(300, random_state=0)
    assert findings_of(pd.DataFrame(X), y) == {}


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16])
def test_columns_of_embeddings_and_images_are_features(dtype):
    rng = np.random.default_rng(5)
    X = rng.normal(100, 30, (900, 40)).clip(0, 255).astype(dtype)
    X[:, :3] = 0
    X[:2, 1:3] = 9  # of pixels at the border, which few images reach
    y = rng.integers(0, 10, 900)
    actual = [record.finding for record in examined(Traits.of(X, y), {}, None)]
    assert actual == ["constant", *[None] * 39]


def test_identifiers_are_left_out_unless_they_are_to_be_kept(whole):
    records = list(whole.values())
    actual = {record.name for record in records if record.finding == "identifier" or record.kind == "time"}
    assert {records[j].name for j in excluded_columns(records, keep=False)} == actual
    assert {records[j].name for j in excluded_columns(records, keep=["shuffled", "a"])} == actual - {"shuffled"}
    assert excluded_columns(records, keep=True) == set()
    assert excluded_columns([whole["rising"], whole["shuffled"]], keep=False) == set()  # nothing else would be left


def test_notes_say_what_to_set_and_begin_with_the_worst(whole):
    records = to_json(list(whole.values()))
    lines = notes(records)
    assert lines[0].startswith("warning: the target in disguise? 'coded labels': it has one value for each class")
    assert "data.read.drop: [coded labels, text of labels, finer than labels]" in lines[0]
    assert lines[1].startswith("warning: identifiers among the features")
    out = [record | {"used": record["finding"] != "identifier"} for record in records]
    assert "data.read.keep_ids: [rising, rising with gaps, falling" in notes(out)[1]
    assert [line.split(":")[0] for line in notes(out)[2:]] == [
        "times among the features", "the same in every row", "duplicates of other columns"]
    assert len(notes(out, named=False)) == 3
    assert notes(records, can_drop=False)[1].endswith("leave them out where the file is made")
    assert notes(to_json([whole["a"]])) == []


@pytest.mark.parametrize(("text", "is_date"), [
    ("2024-01-31", True), ("2024/1/31 7:05", True), ("2024-01-31T07:05:09.25Z", True), ("31.01.2024 07:05", True),
    ("31.1.2024", True), ("1/31/2024, 7:05 PM", True), ("31-01-2024 07:05:09", True), ("31 Jan 2024", True),
    ("31-January-2024", True), ("Jan 31, 2024 7:05 am", True), ("2024-01-31 07:05:09+02:00", True),
    ("2024-01/31", False), ("1.2.34", False), ("192.168.1.2024", False), ("2024-01-31 late", False), ("31 Jane", False),
    ("7:05", False), ("2024", False), ("2024-01-31 2024-02-01", False)])
def test_texts_that_are_dates(text, is_date):
    assert (re.fullmatch(DATE, text) is not None) == is_date


# What columns hold, and its combination over blocks


# Sums of them need no more than 106 bits, but far more than 53.
EXACT = st.integers(-2**50, 2**50).flatmap(lambda k: st.sampled_from([k * 2.0**-30, k * 2.0**10]))


def surveyed(blocks):
    whole, row = None, 0
    for block in blocks:
        actual = Survey.of(block, row)
        whole, row = actual if whole is None else whole.merge(actual), row + len(block)
    return whole


@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.one_of(st.just(np.nan), EXACT), min_size=1, max_size=40),
       cuts=st.lists(st.integers(0, 40), max_size=5))
def test_the_mean_is_the_true_one_whatever_the_blocks(values, cuts):
    """math.fsum is exact; a sum in one float would cancel here."""
    X = np.array([*values, 0.5])[:, None]
    blocks = [block for block in np.split(X, sorted(min(cut, len(X)) for cut in cuts)) if len(block)]
    actual = surveyed(blocks)
    known = [x for x in X[:, 0] if not math.isnan(x)]
    assert actual.present.tolist() == [len(known)]
    fill = choose_columns(actual, None, "t", impute=True).fill
    assert fill[0] == math.fsum(known) / len(known)
    assert fill[0] == choose_columns(surveyed([X]), None, "t", impute=True).fill[0]


def test_two_sum_is_exact():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 100)) * 10.0 ** rng.integers(-20, 20, (2, 100))
    total, error = two_sum(a, b)
    for x, y, s, e in zip(a, b, total, error, strict=True):
        assert s == x + y
        assert math.fsum([x, y, -s]) == e


def test_sparse_rows_are_surveyed_as_dense_ones():
    rng = np.random.default_rng(1)
    X = sparse.random_array((50, 7), density=0.4, rng=rng, format="csr")
    X.data[::5] = np.nan
    actual, dense = Survey.of(X), Survey.of(X.toarray())
    assert_array_equal(actual.present, dense.present)
    assert_array_equal(actual.high + actual.low, dense.high + dense.low)
    columns = choose_columns(actual, None, "t", impute=True)
    assert_allclose(columns.fill, np.nanmean(X.toarray(), axis=0))
    made = columns.apply(X, np.arange(7))
    assert made.imputed == np.isnan(X.data).sum()
    assert_array_equal(made.X.toarray(), columns.apply(X.toarray(), np.arange(7)).X)
    assert np.isnan(X.data).sum() == made.imputed  # the given matrix is not changed
    turned = columns.apply(X[:, ::-1].tocsr(), np.arange(7)[::-1])
    assert_array_equal(turned.X.toarray(), made.X.toarray())


def test_the_first_missing_text_is_remembered():
    table = pd.DataFrame({"a": ["x", "y", None, None]})
    actual = surveyed([table[:1], table[1:3], table[3:]])
    assert (actual.first_missing, actual.levels, actual.present.tolist()) == ({0: 2}, {0: {"x": 1, "y": 1}}, [2])


@pytest.mark.filterwarnings("error")
def test_infinite_cells_are_not_part_of_the_mean():
    actual = surveyed([np.array([[np.inf], [1.0]]), np.array([[3.0], [np.nan]])])
    assert choose_columns(actual, None, "t", impute=True).fill.tolist() == [4 / 3]
    assert actual.present.tolist() == [3]
