"""What cells stand for: numbers however they are written, gaps, yes and no, codes, categories and free text."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError
from dssl.data.columns import Columns, spellings
from dssl.data.ingest import ingest
from dssl.data.readers.cell_text import (
    NUMBER_GAPS,
    NumberFormat,
    numbers,
    possible_formats,
    side_numbers,
    trimmed,
    truths,
)
from dssl.data.readers.cells import CellCounts, decimal_of, is_category
from dssl.data.survey import Survey, choose_columns
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts

EVERY = possible_formats(None, None, None)
BOTH = {"when_missing": "impute", "when_text": "one_hot", "dtype": "float64"}
N = 200


def counts_of(cells, missing=()):
    return CellCounts.of_text(trimmed(pa.array(cells, pa.string())), missing, EVERY)


def read(folder, **columns):
    """Return what becomes of a CSV file of these columns, with a number beside them, and labels."""
    path = folder / "t.csv"
    n = len(next(iter(columns.values())))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=n).round(3)} | columns |
                         { "label": rng.choice(["a", "b"], n)})
    frame.to_csv(path, index=False)
    return path, frame


def column(path, name, **options):
    """Return one column of X, and the record of it."""
    data = ingest(path, MemoryParts(), InProcess(1), **{**BOTH, **options})
    record = next(record for record in data.attributes["survey"] if record["name"] == name)
    names = data.feature_names
    return (data.X.read_all()[:, names.index(name)] if name in names else None), record


@pytest.mark.parametrize(("mark", "cells", "expected"), [
    (".", ["1,200.50", " $5 ", "-$3.5", "$-3.5", "\u20ac 7", "7 EUR", "USD 1,000"],
     [1200.5, 5, -3.5, -3.5, 7, 7, 1000]),
    (".", ["12.5%", "5 %", "(1,200)", "($5.00)", "\u22124", "1\u00a0200", "1'200.5", "1e5", "true", "FALSE"],
     [0.125, 0.05, -1200, -5, -4, 1200, 1200.5, 1e5, 1, 0]),
    (",", ["1.200,50", "1 200,50", "3,5", "1200", "12,5%", "-0,25", "1.234.567"],
     [1200.5, 1200.5, 3.5, 1200, 0.125, -0.25, 1234567]),
    (".", ["<5", "> 100", "\u2264 1,200.5", ">=-3", "<5%"], [5, 100, 1200.5, -3, 0.05]),
    (".", ["12,34", "1,2000.5", "12:30", "2020-01-05", "5-6", "x", "", "--", "1.2.3", "EUR"], [np.nan] * 10),
])
def test_numbers_however_they_are_written(mark, cells, expected):
    assert_array_equal(numbers(trimmed(pa.array(cells)), EVERY[mark]), expected)


@pytest.mark.parametrize(("mark", "unit", "cells", "expected"), [
    (".", "cm", ["162 cm", "70cm", "1,162.5\u00a0cm", "<5 cm", "171", "1.62 m", "162 CM", "0162 cm"],
     [162, 70, 1162.5, 5, 171, np.nan, np.nan, np.nan]),
    (",", "kg/m2", ["27,5 kg/m2", "1.027,5 kg/m2", "27,5 kg/m3"], [27.5, 1027.5, np.nan]),
    (".", "\u00b5g", ["5 \u00b5g", "5 \u03bcg"], [5, 5]), (".", "\u00b0C", ["-3 \u00b0C"], [-3]),
    (".", "sq ft", ["1,200 sq ft"], [1200]), (".", "x4", ["2x4"], [np.nan]),
    (".", "% vol", ["9.8 % vol", "12.5% vol", "9.8 %"], [9.8, 12.5, 0.098]), (".", "vol%", ["9.8 vol%"], [9.8]),
    (".", "k", ["$54.2k", "-$1,200k", "54.2k", "$12"], [54.2, -1200, 54.2, 12]),
    (".", "\u20ac/m\u00b2", ["12.5 \u20ac/m\u00b2"], [12.5]), (".", "xx", ["121xx", "12XX"], [np.nan, np.nan]),
])
def test_numbers_with_the_unit_of_their_column(mark, unit, cells, expected):
    assert_array_equal(numbers(trimmed(pa.array(cells)), EVERY[mark], unit), expected)


def test_options_say_what_numbers_may_hold():
    cells = trimmed(pa.array(["1,200", "1 200", "5%"]))
    assert_array_equal(numbers(cells, NumberFormat(".", "", True)), [np.nan, np.nan, 0.05])
    assert_array_equal(numbers(cells, NumberFormat(".", ",", False)), [1200, np.nan, np.nan])
    assert list(possible_formats(None, ",", None)) == ["."]
    assert list(possible_formats(",", None, None)) == [","]


@pytest.mark.parametrize(("cells", "kind"), [
    (["1"] * 95 + ["x"] * 5, "number"), (["1"] * 94 + ["x"] * 6, "text"), (["1"] * 9 + ["-"] * 90, "number"),
    (["yes", "No", "", "YES"], "truth"), (["ja", "Nein", ""], "truth"), (["Oui", "non"], "truth"),
    (["no", "sí", "si"], "truth"), (["j", "n"], "truth"), (["WAHR", "FALSCH"], "truth"), (["ja", "non"], "text"),
    (["y", "n", "maybe"], "text"), (["yes", "no", "unknown"], "text"),
    (["00501", "90210", "10001"], "text"), (["1"] * 99 + ["02"], "number"), ([None, ""], "number"),
    (["true", "false", "0.5"], "number"), (["1,5", "2,5"], "number"),
    (["162 cm", "70cm"], "number"), (["162 cm"] * 95 + ["1.62 m"] * 5, "number"), (["1 cm"] * 94 + ["1 m"] * 6, "text"),
    (["1 cm"] * 94 + ["1"] * 6, "text"), (["1 cm"] * 95 + ["1"] * 5, "number"), (["1"] * 95 + ["1 cm"] * 5, "number"),
    (["$54.2k", "$173.0k"], "number"), (["9.8 % vol"] * 9, "number"), (["121xx", "101xx"], "text"),
    (["1.5", "<1"], "number"), (["<18", "30", ">65"], "text"), (["012 cm"] * 9, "text"), (["5 am", "7 pm"] * 9, "text"),
    ([f"{i} {'abcdefghijklm'[i]}" for i in range(13)], "text"),
])
def test_kinds_of_columns(cells, kind):
    counts = counts_of(cells)
    assert counts.kind(decimal_of([counts], EVERY)) == kind


@pytest.mark.parametrize(("cells", "kind"), [
    (["yes", "no"], "text"), (["ja", "nein"], "text"), (["1", "2"] * 50 + ["none"], "text"),
    (["01", "02"], "text"), (["1", "2", ""], "number"),
    ([f"{i}.5" for i in range(60)] + ["n.a."], "number"), (["true", "false"], "text"),
    (["1 star", "2 star"], "text"), (["0", "1", ">1"], "text"), (["0.5 kg", "1 kg"], "number"),
    ([f"{i}.5" for i in range(60)] + ["<2"], "number"),
])
def test_a_target_stays_text_where_a_class_is(cells, kind):
    assert counts_of(cells).kind(".", is_target=True) == kind


@settings(max_examples=25, deadline=None)
@given(cells=st.lists(st.sampled_from(["1", "07", "1,200", "3,5", "$2", "x", "y", "", "NA", "-", "yes", "5%", "5 cm",
                                    "0.5m", "<5", ">7 m", "<x"]),
                      min_size=2, max_size=30), cut=st.integers(1, 29))
def test_counts_of_pieces_are_those_of_the_whole(cells, cut):
    cut = min(cut, len(cells) - 1)
    first = counts_of(cells[:cut])
    second = CellCounts.of_text(trimmed(pa.array(cells[cut:])), (), EVERY, cut)
    assert first.merge(second) == counts_of(cells)


def test_counts_of_pieces_are_those_of_the_whole_with_more_units_than_are_counted():
    cells = [f"{i} {'abcdefghijklm'[i % 13]}{'xyz'[i % 3]}" for i in range(60)] + ["<5", "7"]
    for cut in (3, 8, 11, 40):
        second = CellCounts.of_text(trimmed(pa.array(cells[cut:])), (), EVERY, cut)
        assert counts_of(cells[:cut]).merge(second) == counts_of(cells)


def test_the_decimal_mark_is_that_of_the_file():
    plain, european = counts_of(["1.5", "2.5"]), counts_of(["1,5", "2,5", "3,5"])
    either = counts_of(["1,200", "3,400"])
    assert decimal_of([either], EVERY) == "."
    assert decimal_of([either], EVERY, prefer=",") == ","
    assert decimal_of([either, plain], EVERY, prefer=",") == "."
    assert decimal_of([plain, european], EVERY) == ","
    assert decimal_of([counts_of(["1,5 kg", "<2,5 kg"])], EVERY) == ","


# ---- from a file


@pytest.mark.parametrize("gap", ["n.a.", "-", "N/A", "none", "#N/A", "?", ".", "k.A.", "n/d"])
def test_one_gap_leaves_a_column_of_numbers(tmp_path, gap):
    values = np.random.default_rng(1).normal(size=N).round(4)
    path, _ = read(tmp_path, price=[*map(str, values[:-1]), gap])
    X, record = column(path, "price")
    assert (record["kind"], record["missing"], record["finding"]) == ("number", 1, None)
    assert_array_equal(X[:-1], values[:-1])
    with pytest.raises(DataError, match=r"'price' has a missing cell in row 199 \(counted from 0\), line 201"):
        ingest(path, MemoryParts(), InProcess(1))
    assert gap.lower() in NUMBER_GAPS or gap == "?"


@pytest.mark.parametrize("written", ["{:,.2f}", "${:,.2f}", "{:.2f} EUR", "{:,.2f}%"])
def test_measurements_are_no_identifiers(tmp_path, written):
    values = (np.random.default_rng(1).normal(size=N) * 1e4).round(2)
    path, _ = read(tmp_path, amount=[written.format(value) for value in values])
    for rows in (None, 37):
        X, record = column(path, "amount", block_rows=rows)
        assert (record["kind"], record["used"], record["finding"]) == ("number", True, None)
        assert_array_equal(X, values / 100 if "%" in written else values)


def test_whole_amounts_of_money_that_all_differ_are_no_identifiers(tmp_path):
    values = 1000 + np.random.default_rng(1).permutation(N)
    path, _ = read(tmp_path, id=[f"${value:,}" for value in values], nr=values)
    assert column(path, "id")[1]["finding"] is None
    assert column(path, "nr")[1]["finding"] == "identifier"


def test_a_few_amounts_with_a_comma_among_plain_ones(tmp_path):
    values = np.random.default_rng(1).gamma(2, 300, 1700).round(2)
    path, _ = read(tmp_path, amount=[f"{value:,.2f}" for value in values])
    assert_array_equal(column(path, "amount")[0], values)


def test_other_texts_among_numbers_are_named_with_their_lines(tmp_path):
    cells = [f"{i}.5" for i in range(N)]
    cells[7], cells[150] = "see note", "ca. 5"
    path, _ = read(tmp_path, size=cells)
    message = (r"'size' holds text: 'see note' in row 7 \(counted from 0\), line 9, "
            r"'ca. 5' in row 150 \(counted from 0\), line 152 \(2 of 200 cells\)"
            r"[\s\S]*`missing: \['ca. 5', 'see note'\]`")
    for options in (BOTH, {}):
        with pytest.raises(DataError, match=message):
            ingest(path, MemoryParts(), InProcess(2), block_rows=60, **options)
    assert column(path, "size", missing=("see note", "ca. 5"))[1]["missing"] == 2


@pytest.mark.parametrize("options", [BOTH, {}])
def test_other_texts_in_a_target_of_numbers_are_named_with_their_lines(tmp_path, options):
    path = tmp_path / "points.csv"
    y = [f"{i}.5" for i in range(N)]
    y[7], y[20], y[150], y[160] = "see note", "n.a.", "ca. 5", "see note"
    pd.DataFrame({"x": np.arange(N) % 7, "size": ["red", "blue"] * (N // 2), "y": y}).to_csv(path, index=False)
    message = (r"the target 'y' holds text: 'see note' in row 7 \(counted from 0\), line 9, "
            r"'ca. 5' in row 150 \(counted from 0\), line 152 "
            r"\(3 of 200 cells\)[\s\S]*`missing: \[see note, ca. 5\]`")
    with pytest.raises(DataError, match=message):
        ingest(path, MemoryParts(), InProcess(1), block_rows=60, **options)
    data = ingest(path, MemoryParts(), InProcess(1), missing=("see note", "ca. 5"), **BOTH)
    assert np.isnan(data.y.read(0, N)).sum() == 4


@pytest.mark.parametrize("unit", ["", " cm"])
def test_text_most_cells_of_which_are_numbers_is_left_out_with_a_word_on_them(unit, tmp_path):
    cells = [f"{i}.5{unit}" if i % 10 else ["free", "tbd"][i // 10 % 2] for i in range(N)]
    record = column(read(tmp_path, price=cells)[0], "price")[1]
    assert record["finding"] == "free text"
    assert "of which 180 are numbers; if the others, such as 'free'" in record["why"]
    assert record["why"].endswith("data.read.missing: [free, tbd] makes it a column of numbers")


def test_codes_with_leading_zeros_are_categories(tmp_path):
    zips = np.random.default_rng(1).choice(["00501", "10001", "90210"], N)
    path, _ = read(tmp_path, zip=zips)
    data = ingest(path, MemoryParts(), InProcess(1), **BOTH)
    assert data.feature_names == ["x", "zip=00501", "zip=10001", "zip=90210"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_codes_beside_a_gap_are_those_without_one(tmp_path, ending):
    """Pandas writes 5411.0 where another cell of the column is missing."""
    codes = np.random.default_rng(1).choice([5411, 5812, 42, -1], N)
    _, whole = read(tmp_path, mcc=codes)
    gap = whole.assign(mcc=whole["mcc"].where(whole.index != 7))
    write = {"csv": pd.DataFrame.to_csv, "parquet": pd.DataFrame.to_parquet}[ending]
    names, options = ["mcc=-1", "mcc=42", "mcc=5411", "mcc=5812"], {**BOTH, "categories": ("mcc",)}
    actual = {}
    for name, frame in (("whole", whole), ("gap", gap)):
        write(frame, tmp_path / f"{name}.{ending}", index=False)
        actual[name] = ingest(tmp_path / f"{name}.{ending}", MemoryParts(), InProcess(1), **options)
    assert actual["whole"].feature_names == ["x", *names]
    assert actual["gap"].feature_names == ["x", *names, "mcc=(missing)"]
    columns = Columns.of(actual["whole"].attributes)
    for name, rows in (("gap", codes), ("whole", codes)):
        new = ingest(tmp_path / f"{name}.{ending}", MemoryParts(), InProcess(1), **options, columns=columns)
        expected = np.array([-1, 42, 5411, 5812]) == rows[:, None]
        if name == "gap":
            expected[7] = False
        assert_array_equal(new.X.read_all()[:, 1:], expected)
    columns = Columns.of(actual["gap"].attributes)
    new = ingest(tmp_path / f"whole.{ending}", MemoryParts(), InProcess(1), **options, columns=columns)
    assert_array_equal(new.X.read_all()[:, 1:], np.array([-1, 42, 5411, 5812, np.nan]) == codes[:, None])


def test_codes_of_other_digits_are_others_and_a_marked_code_is_missing_with_a_fraction_too(tmp_path):
    path, _ = read(tmp_path, code=np.resize(["007.0", "007", "7.0", "7", "7,0", "7.5", "9.0", "10.00"], N))
    data = ingest(path, MemoryParts(), InProcess(1), **BOTH, categories=("code",), missing="9")
    assert data.feature_names == ["x", "code=007", "code=007.0", "code=10", "code=7", "code=7,0", "code=7.5",
                                  "code=(missing)"]


@pytest.mark.parametrize(("options", "message"), [
    ({"target": "mcc"}, "names the target, column 'mcc'"),
    ({"target": "label", "drop": ("mcc",)}, "names dropped columns: column 'mcc'"),
])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_categories_are_features(tmp_path, options, message, ending):
    _, frame = read(tmp_path, mcc=np.resize([5411, 5812], N))
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    with pytest.raises(DataError, match=f"`categories` {message}[\\s\\S]*fix: leave it out of `categories`, or"):
        ingest(tmp_path / f"t.{ending}", MemoryParts(), InProcess(1), **BOTH, categories=("mcc",), **options)


def test_spellings_of_a_level_are_one(tmp_path):
    plans = np.random.default_rng(1).choice(["Basic", "basic ", "BASIC", "Pro"], N, p=[0.5, 0.1, 0.1, 0.3])
    path, _ = read(tmp_path, plan=plans)
    for rows in (None, 37):
        data = ingest(path, MemoryParts(), InProcess(1), block_rows=rows, **BOTH)
        assert data.feature_names == ["x", "plan=Basic", "plan=Pro"]
        assert_array_equal(data.X.read_all()[:, 2], plans == "Pro")
    assert spellings({"b": 2, "B": 2, "a ": 1}) == ["B", "a"]


def test_more_spellings_than_are_counted_are_no_category():
    """Only the first thousand are known of a block, so that the levels would lack the others."""
    texts = np.array([f"level {i:04}{end}" for i in range(1200) for end in "aA"], object)
    with pytest.raises(DataError, match="more than 1,000 different texts"):
        choose_columns(Survey.of(pd.DataFrame({0: texts})), ["b"], "t", impute=False)


def test_free_text_is_left_out_with_a_way_to_use_it(tmp_path):
    rng = np.random.default_rng(1)
    words = ["good", "bad", "fine", "slow", "late", "cheap", "again"]
    texts = [" ".join(rng.choice(words, 5)) for _ in range(700)]
    path, _ = read(tmp_path, comment=texts)
    data = ingest(path, MemoryParts(), InProcess(1), **BOTH)
    assert data.feature_names == ["x"]
    record = data.attributes["survey"][1]
    assert (record["kind"], record["finding"], record["used"]) == ("text", "free text", False)
    assert record["why"] == f"{len(set(texts))} different texts in 700 cells"


@pytest.mark.parametrize(("n_levels", "n_cells", "expected"), [
    (605, 700, False), (35, 700, True), (36, 700, False), (10, 25, True), (11, 25, False), (3, 4, True),
    (1000, 10**6, True), (1001, 10**6, False),
])
def test_levels_of_a_category_repeat(n_levels, n_cells, expected):
    assert is_category(n_levels, n_cells) == expected


def test_yes_and_no_are_numbers(tmp_path):
    answers = np.random.default_rng(1).choice(["Yes", "no", "NO"], N)
    path, _ = read(tmp_path, active=answers)
    assert_array_equal(column(path, "active")[0], answers == "Yes")


@pytest.mark.slow
def test_later_pieces_of_a_file_are_counted_as_the_first(tmp_path, monkeypatch):
    """Pieces after the first are parsed as numbers; what they hold besides is found nevertheless."""
    monkeypatch.setattr("dssl.data.readers.csv.PIECE_BYTES", 1 << 16)
    n = 30_000
    plain = [f"{i % 977}.25" for i in range(n)]
    late, codes = plain.copy(), [str(10_000 + i % 89) for i in range(n)]
    late[n - 5], codes[n - 9] = "odd", "00501"
    path, _ = read(tmp_path, plain=plain, late=late, code=codes)
    message = rf"column 'late' holds text: 'odd' in row {n - 5} \(counted from 0\), line {n - 3}"
    with pytest.raises(DataError, match=message):
        ingest(path, MemoryParts(), InProcess(1), **BOTH)
    data = ingest(path, MemoryParts(), InProcess(1), missing="odd", **BOTH)
    assert data.feature_names[:3] == ["x", "plain", "late"]
    assert "code=00501" in data.feature_names


def test_new_rows_are_read_as_the_first_file_was(tmp_path):
    rng = np.random.default_rng(1)
    path, _ = read(tmp_path, price=[f"{value:.2f}".replace(".", ",") for value in rng.gamma(2, 50, N)],
                   code=rng.choice(["1", "2", "x"], N), x=[i % 7 for i in range(N)])
    data = ingest(path, MemoryParts(), InProcess(1), **BOTH)
    (tmp_path / "new.csv").write_text('x,price,code\n1,"1.200",2\n2,"3,5",1\n')
    new = ingest(tmp_path / "new.csv", MemoryParts(), InProcess(1), target="none", decimal=data.attributes["decimal"],
                 columns=Columns.of(data.attributes), **BOTH)
    assert_array_equal(new.X.read_all(), [[1, 1200, 0, 1, 0], [2, 3.5, 1, 0, 0]])


# ---- units, bounds, yes and no


def heights(tmp_path, **more):
    rng = np.random.default_rng(1)
    cm = rng.integers(140, 200, N)
    return cm, read(tmp_path, height=[f"{value} cm" for value in cm], **more)[0]


def new_rows(tmp_path, data, text, **options):
    """Return X of a file of new rows, read as those of `data` were."""
    (tmp_path / "new.csv").write_text(text)
    return ingest(tmp_path / "new.csv", MemoryParts(), InProcess(1), target="none", columns=Columns.of(data.attributes),
                  **options).X.read_all()


@pytest.mark.parametrize("options", [{}, BOTH])
def test_the_unit_of_a_column_is_kept_for_new_rows(tmp_path, options):
    cm, path = heights(tmp_path)
    for rows in (None, 37):
        data = ingest(path, MemoryParts(), InProcess(1), block_rows=rows, **options)
        assert_array_equal(data.X.read_all()[:, 1], cm)
        assert data.attributes["columns"][1] | {"fill": None} == {
            "name": "height", "kind": "number", "fill": None, "unit": "cm", "imputed": 0}
    assert_array_equal(new_rows(tmp_path, data, "x,height\n1,150 cm\n2,151\n", **options)[:, 1], [150, 151])
    message = r"column 'height' holds text: '1.5 m' in row 0 \(counted from 0\), line 2, '1.7 m' in row 1 " \
           r"\(counted from 0\), line 3 \(2 of 2 cells\), expected numbers in 'cm'"
    with pytest.raises(DataError, match=message):
        new_rows(tmp_path, data, "x,height\n1,1.5 m\n2,1.7 m\n", **options)


def test_a_unit_in_new_rows_only_is_refused(tmp_path):
    path, _ = read(tmp_path, height=np.random.default_rng(1).integers(140, 200, N))
    data = ingest(path, MemoryParts(), InProcess(1), **BOTH)
    with pytest.raises(DataError, match=r"'height' holds text: '1\.5 m'"):
        new_rows(tmp_path, data, "x,height\n1,1.5 m\n2,1.7 m\n", **BOTH)


def test_a_few_cells_of_another_unit_are_named(tmp_path):
    cells = [f"{140 + i % 50} cm" for i in range(N)]
    cells[3] = "1.62 m"
    path, _ = read(tmp_path, height=cells)
    with pytest.raises(DataError, match=r"'height' holds text: '1.62 m' in row 3[^\n]*, line 5"):
        ingest(path, MemoryParts(), InProcess(1), **BOTH)
    assert column(path, "height", missing="1.62 m")[1]["missing"] == 1


def test_a_column_of_several_units_is_left_out_with_what_to_do(tmp_path):
    values = np.random.default_rng(1).integers(1400, 2000, N) / 10
    path, _ = read(tmp_path, height=[f"{v} cm" if i % 3 else f"{v / 100:.3f} m" for i, v in enumerate(values)])
    X, record = column(path, "height")
    assert X is None
    assert (record["finding"], record["used"]) == ("several units", False)
    assert record["why"] == "its numbers are in several units, 'cm' in 133 cells, 'm' in 67 cells; " \
                            "write all of them in one"


@pytest.mark.parametrize("rows", [None, 37])
def test_a_bound_is_read_as_the_number_behind_it(tmp_path, rows):
    values = np.random.default_rng(1).gamma(2, 3, N).round(2)
    X, record = column(read(tmp_path, crp=[f"{v}" if v > 2 else "<2" for v in values])[0], "crp", block_rows=rows)
    assert_array_equal(X, np.maximum(values, 2))
    assert (record["kind"], record["used"]) == ("number", True)


@pytest.mark.parametrize(("cells", "size", "numbers"), [
    (["47x17x13", "5 x 60 × 7", "", "n/a"], (3, ""), [[47, 5, np.nan, np.nan], [17, 60, np.nan, np.nan],
                                                    [13, 7, np.nan, np.nan]]),
    (["10 x 20 mm", "1.5 mm × 0.5 mm"], (2, "mm"), [[10, 1.5], [20, 0.5]]),
    (["10x20", "10x20x30"], None, None), (["10 x 20 mm", "10 x 20 cm"], None, None), (["10x20", "big"], None, None),
    (["10 mm x 2 cm"], None, None), (["0x12", "0x10"], None, None), (["1x"], None, None), (["12", "13"], None, None),
])
def test_sizes_are_as_many_numbers(cells, size, numbers):
    assert counts_of(cells).size == size
    for side in range(0 if size is None else size[0]):
        assert_array_equal(side_numbers(trimmed(pa.array(cells)), side, *size[:1], EVERY["."], size[1]), numbers[side])
    assert_array_equal(side_numbers(pa.array(["1,5x2,5"]), 0, 2, EVERY[","], ""), [1.5])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.slow_cases("csv")
def test_a_column_of_sizes_is_a_feature_a_side_in_new_files_too(tmp_path, ending):
    sides = np.random.default_rng(1).integers(5, 60, (N, 3))
    frame = pd.DataFrame({"part": [f"P{i}" for i in range(N)],
                          "dims (LxWxH)": ["x".join(map(str, item)) for item in sides],
                          "box": [f"{item[0]} x {item[1]} cm" for item in sides], "x": np.arange(N) % 7 / 2,
                          "kind": np.array(["a", "b"])[sides[:, 0] % 2]})
    frame.loc[3, "box"] = None
    write = {"csv": pd.DataFrame.to_csv, "parquet": pd.DataFrame.to_parquet}
    write[ending](frame, tmp_path / f"t.{ending}", index=False)
    data = ingest(tmp_path / f"t.{ending}", MemoryParts(), InProcess(1), **BOTH)
    names = [*(f"dims (LxWxH)[{side}]" for side in range(3)), "box[0]", "box[1]", "x"]
    assert data.feature_names == names
    X = data.X.read_all()
    assert_array_equal(X[:, :3], sides)
    assert_array_equal(np.delete(X[:, 3:5], 3, axis=0), np.delete(sides[:, :2], 3, axis=0))
    assert [record["name"] for record in data.attributes["survey"]] == ["part", *names]
    columns = Columns.of(data.attributes)
    assert columns is not None
    for other in write:  # where other cells alone would say otherwise
        write[other](frame[["kind", "box", "x", "dims (LxWxH)"]].head(2), tmp_path / f"new.{other}", index=False)
        new = ingest(tmp_path / f"new.{other}", MemoryParts(), InProcess(1), target="kind", **BOTH,
                     columns=columns)
        assert new.feature_names == names
        assert_array_equal(new.X.read_all(), X[:2])
        write[other](frame.head(2).assign(box=["3 x 4 mm", "5 x 4 cm"]).drop(columns="part"), tmp_path / f"odd.{other}",
                     index=False)
        with pytest.raises(DataError, match=r"'box\[0\]' holds text: '3 x 4 mm' in row 0.*expected numbers in 'cm'"):
            ingest(tmp_path / f"odd.{other}", MemoryParts(), InProcess(1), target="kind", **BOTH,
                   columns=columns)


def test_yes_and_no_in_another_language_is_told_as_it_is_written():
    counts = counts_of(["Ja", "nein", "NEIN", "Nej", ""])
    assert counts.written_as(counts.reading("."), ".") == "ja/nein/nej"
    assert_array_equal(truths(trimmed(pa.array(["Ja", "nein", "Oui", "vielleicht", "1"])), EVERY["."]),
                       [1, 0, 1, np.nan, 1])


def test_a_yes_and_no_column_of_new_rows_takes_its_words_and_numbers_alone(tmp_path):
    answers = np.random.default_rng(1).choice(["Yes", "no"], N)
    path, _ = read(tmp_path, active=answers, count=np.arange(N) % 5)
    data = ingest(path, MemoryParts(), InProcess(1), **BOTH)
    assert data.attributes["columns"][1]["kind"] == "truth"
    new = new_rows(tmp_path, data, "x,active,count\n1,Y,1\n2,false,1\n3,no,1\n4,1,1\n", **BOTH)
    assert_array_equal(new[:, 1], [1, 0, 0, 1])
    message = r"'active' holds text: 'maybe' in row 1 \(counted from 0\), line 3 \(1 of 3 cells\), expected yes or no"
    with pytest.raises(DataError, match=message):
        new_rows(tmp_path, data, "x,active,count\n1,yes,1\n2,maybe,1\n3,no,1\n", **BOTH)
    with pytest.raises(DataError, match="'count' holds text: 'yes'"):
        new_rows(tmp_path, data, "x,active,count\n1,yes,yes\n2,no,no\n", **BOTH)
