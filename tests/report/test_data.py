"""The table of columns."""

import re

import numpy as np
import pandas as pd
import pytest

from dssl.data.findings import dataset_notes, examined, to_json
from dssl.data.survey import Survey
from dssl.data.traits import Traits
from dssl.report.page import page
from dssl.report.record import RunRecord
from dssl.report.sections.data import columns_section

from .test_page import Reader

N = 60
Y = np.arange(N) % 2
RNG = np.random.default_rng(0)


def facts_of(table, excluded=(), named=True):
    names = [str(name) for name in table.columns] if named else None
    records = examined(Traits.of(table, Y), Survey.of(table).levels, names)
    survey = [record | {"used": record["name"] not in excluded} for record in to_json(records)]
    return {"dataset": {"dataset": {"survey": survey, "format": "csv", "feature_names": names}}}


def shown(facts):
    notes = dataset_notes(facts["dataset"]["dataset"])
    return Reader(page("t", "now", [columns_section(RunRecord(facts, {"notes": notes}))])).text


@pytest.fixture(scope="module")
def small():
    return pd.DataFrame({
        "id": np.arange(N) + 1000, "height": RNG.normal(170, 10, N), "wood": ["oak", "ash", None] * (N // 3),
        "side": np.array(["<low>", "high"])[Y], "same": np.ones(N)})


@pytest.mark.parametrize(("spec", "key"), [
    ({"data": {"tags": {"column": "tags", "separator": ";"}}}, "data.tags"),
    ({"data": {"tags": {"columns": ["tags", "more"]}}}, "data.tags"), ({"labels": {"weight": "tags"}}, "labels.weight"),
    ({"model": {"soft_labels": {"columns": ["tags"]}}}, "model.soft_labels"),
    ({"data": {"tags": None}}, "data.read.drop")])
def test_a_column_that_the_spec_uses_otherwise_is_excluded_by_the_key_that_names_it(spec, key, small):
    facts = facts_of(small)
    facts["dataset"]["dataset"]["survey"].append({
        "name": "tags", "kind": None, "min": None, "max": None, "missing": None, "levels": None, "used": False,
        "finding": None, "why": "data.read.drop"})
    assert f"excluded, {key}" in re.sub(r"\s+(?=,)", "", Reader(page("t", "now", [
        columns_section(RunRecord(facts, {}, spec=spec))])).text)


def test_each_column_has_its_type_range_missing_cells_levels_and_use(small):
    text = shown(facts_of(small, excluded=["id"]))
    assert ("The source has 5 columns (2 of integers, 2 of categories, 1 of numbers), and the model uses 4 of them."
            ) in text
    assert "1 of them has missing values. 1 column is constant. 1 column looks like the target." in text
    assert "id integer 1,000 to 1,059 0 excluded , identifier: its whole numbers rise from row to row" in text
    assert "wood category – 20 2 used" in text
    assert "same integer 1 0 used note constant: it is 1 in every row" in text
    assert "side category – 0 2 used check target: it has one value for each class" in text


def test_what_asks_for_attention_stands_in_a_box_with_what_to_set(small):
    text = shown(facts_of(small))
    assert "the target in disguise? 'side': it has one value for each class." in text
    assert "data.read.drop: [side]" in text
    assert "identifiers among the features: 'id': its whole numbers rise from row to row." in text
    assert "data.read.drop: [id]" in text
    assert "among the features" not in shown(facts_of(small[["height", "wood"]]))


@pytest.mark.parametrize("named", [True, False])
def test_of_many_columns_the_exceptions_are_shown(named):
    wide = pd.DataFrame(RNG.normal(size=(N, 100)).round(3))
    wide[3], wide[7], wide.loc[4, 9] = 5.0, wide[8] * 2, None
    text = shown(facts_of(wide, named=named))
    assert "The source has 100 columns (99 of numbers, 1 of integers), and the model uses 100 of them." in text
    assert "1 of them has missing values. 1 column is constant. 1 column duplicates another one." in text
    assert ("it is 5 in every row" in text) == named  # pixels that no image reaches are only counted
    assert "on another scale" in text
    assert "9 number" in text
    assert "10 number" not in text


def test_more_exceptions_than_rows_are_counted():
    wide = pd.DataFrame({f"c{i}": np.full(N, i) for i in range(90)})
    assert "and 50 more columns like these" in shown(facts_of(wide))


@pytest.mark.parametrize("facts", [{}, {"dataset": {"dataset": {}}}, {"dataset": {"dataset": {"survey": []}}}])
def test_nothing_known_is_no_section(facts):
    assert columns_section(RunRecord(facts, {})) is None
