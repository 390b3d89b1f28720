"""Text and missing cells of a table are told all at once, by column, whatever comes first and wherever it stands."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError
from dssl.data.columns import Columns
from dssl.data.ingest import ingest
from dssl.data.refused_cells import Cells, cells_error, cells_in
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts

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
