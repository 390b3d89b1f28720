"""Delimited text: what is read, against pandas, and what is refused."""

import gzip
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError, ParameterError
from dssl.data.ingest import ingest, open_dataset
from dssl.data.readers.formats import open_reader
from dssl.execution.in_process import InProcess
from dssl.learners.target.encoding import encode_labels
from dssl.storage.blocks import MemoryParts

from .reading import dense, read_all


def write(tmp_path, text, name="points.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_file_and_a_list_mark_the_same_labels_as_missing(tmp_path):
    """And a class is what is left in both."""
    labels = ["ash", "", " ", "NA", "nan", "NULL", "?", "birch", "<NA>", "N/A"]
    path = write(tmp_path, "x,label\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    read, words = encode_labels(read_all(path, tmp_path)[1].y), encode_labels(np.array(labels, object))
    assert_array_equal(read[0], words[0])
    assert read[0].tolist() == [0, *[-1] * 6, 1, -1, -1]
    assert read[1].tolist() == words[1].tolist() == ["ash", "birch"]


def random_table(n=3000, d=5, random_state=0):
    rng = np.random.default_rng(random_state)
    frame = pd.DataFrame(rng.normal(size=(n, d)) * 10.0 ** rng.integers(-5, 5, d), columns=[f"f{i}" for i in range(d)])
    frame["label"] = rng.choice(["ash", "birch", "oak, red", 'the "old" elm'], n)
    return frame


def test_reads_what_pandas_writes(tmp_path):
    frame = random_table()
    path = tmp_path / "points.csv"
    frame.to_csv(path, index=False)
    scan, block = read_all(path, tmp_path)
    assert (scan.n_rows, scan.n_columns, scan.target) == (3000, 5, "label")
    assert scan.feature_names == ("f0", "f1", "f2", "f3", "f4")
    assert_array_equal(block.X, frame.drop(columns="label").to_numpy())
    assert block.y.tolist() == frame["label"].tolist()


@pytest.mark.parametrize("ranges", [[(0, 3000)], [(0, 1), (1, 2999), (2999, 3000)], [(1500, 3000), (0, 1500)]])
def test_any_rows_can_be_read_on_their_own(tmp_path, ranges):
    path = tmp_path / "points.csv"
    random_table(d=12).to_csv(path, index=False)  # several strides long
    _, whole = read_all(path, tmp_path, np.float32)
    reader = open_reader(path, scratch=tmp_path)
    reader.scan()
    for start, stop in ranges:
        block = dense(reader.narrow(start, stop).read(start, stop), np.float32)
        assert_array_equal(block.X, whole.X[start:stop])
        assert_array_equal(block.y, whole.y[start:stop])


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_compressed_equals_plain(tmp_path, suffix):
    frame = random_table(500)
    frame.to_csv(tmp_path / "points.csv", index=False)
    frame.to_csv(tmp_path / f"packed.csv{suffix}", index=False)
    scan, plain = read_all(tmp_path / "points.csv", tmp_path)
    packed_scan, packed = read_all(tmp_path / f"packed.csv{suffix}", tmp_path)
    assert scan == packed_scan
    assert_array_equal(plain.X, packed.X)
    assert_array_equal(plain.y, packed.y)


CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr), st.integers(-999, 999).map(str),
    st.just(""), st.just("?"), st.just(" 7 "),
)
LABELS = st.text(alphabet='ab "\n,é', min_size=0, max_size=6).map(lambda text: "t" + text)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(CELLS, CELLS, LABELS), min_size=1, max_size=12), header=st.booleans(),
       newline=st.sampled_from(["\n", "\r\n"]), last=st.booleans(), blanks=st.booleans(), data=st.data())
def test_quotes_blank_lines_and_line_ends(tmp_path_factory, rows, header, newline, last, blanks, data):
    tmp_path = tmp_path_factory.mktemp("csv")
    buffer = io.StringIO()
    frame = pd.DataFrame(rows, columns=["a", "b", "kind of tree"])
    frame.to_csv(buffer, index=False, header=header, lineterminator="\r\n")
    # The line ends between records only: those within quotes are part of the cell.
    text = buffer.getvalue().replace("\r\n", newline * (2 if blanks else 1))
    path = write(tmp_path, text if last else text.removesuffix(newline))
    scan, block = read_all(path, tmp_path, header=header)
    assert scan.n_rows == len(rows)
    numbers = [[np.nan if cell in ("", "?") else float(cell) for cell in row[:2]] for row in rows]
    assert_array_equal(block.X, np.array(numbers))
    assert block.y.tolist() == [row[2].strip() for row in rows]
    start = data.draw(st.integers(0, len(rows) - 1))
    stop = data.draw(st.integers(start + 1, len(rows)))
    reader = open_reader(path, scratch=tmp_path, header=header)
    assert_array_equal(dense(reader.read(start, stop)).X, block.X[start:stop])


@pytest.mark.parametrize(("text", "n_rows", "names"), [
    ("a,b,y\n1,2,0\n", 1, ("a", "b")),
    ("1,2,0\n3,4,1\n", 2, None),
    ("5.1,3.5,setosa\n4.9,3.0,virginica\n", 2, None),
    ("0,1,species\n0.5,0.1,3\n", 1, ("0", "1")),
    ("0,1,y\n0.5,0.1,no\n", 1, ("0", "1")),
    ("1.5,2.5,y\n0.5,0.1,n\n", 2, None),
    ("label,p0,p1\n3,0,255\n", 1, ("p0", "p1")),
    ("0,1,2,name\n0.5,0.1,3,oak\n", 1, ("0", "1", "2")),
    ("0,1,2\n0.5,0.1,3\n", 1, ("0", "1")),
    ("1,2,3\n4,5,6\n", 2, None),
    ("0,1\n0.5,0.1\n", 2, None),
    ("0,1,3\n0.5,0.1,3\n", 2, None),
    ("?,1,a\n2,?,b\n", 2, None),
])
def test_header_is_found(tmp_path, text, n_rows, names):
    scan, _ = read_all(write(tmp_path, text), tmp_path)
    assert (scan.n_rows, scan.feature_names) == (n_rows, names)


@pytest.mark.parametrize(("text", "name", "options"), [
    ("1;2;0\n3;4;1\n", "p.csv", {}), ("1\t2\t0\n3\t4\t1\n", "p.tsv", {}), ("1|2|0\n3|4|1\n", "p.csv", {}),
    ("  1  2   0\n3 4 1\n\n", "p.data", {}), ("1, 2, 0\n3, 4, 1\n", "p.data", {}),
    ("1,0;2,0;0\n3,0;4,0;1\n", "p.csv", {"decimal": ","}), ("1:2:0\n3:4:1\n", "p.csv", {"delimiter": ":"}),
])
def test_delimiters(tmp_path, text, name, options):
    _, block = read_all(write(tmp_path, text, name), tmp_path, **options)
    assert_array_equal(block.X, [[1, 2], [3, 4]])
    assert block.y.tolist() == [0, 1]
    assert block.y.dtype == np.int64


@pytest.mark.parametrize(("target", "expected"), [
    (None, 2), ("b", 1), (0, 0), (-1, 3), ("c", 3),
])
def test_target_by_name_or_number(tmp_path, target, expected):
    path = write(tmp_path, "a,b,Label,c\n1,2,3,4\n5,6,7,8\n")
    scan, block = read_all(path, tmp_path, target=target)
    table = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert_array_equal(block.y, table[:, expected])
    assert_array_equal(block.X, np.delete(table, expected, axis=1))
    assert scan.target == ["a", "b", "Label", "c"][expected]


def test_no_target_and_dropped_columns(tmp_path):
    path = write(tmp_path, "id,a,b\nx1,1,2\nx2,3,4\n")
    scan, block = read_all(path, tmp_path, target="none", drop=("id",))
    assert (block.y, scan.target, scan.feature_names) == (None, None, ("a", "b"))
    assert_array_equal(block.X, [[1, 2], [3, 4]])


def test_truth_values_and_missing_cells(tmp_path):
    path = write(tmp_path, "a,b,y\nTrue,1,cat\nfalse,,dog\n,NA,\n0.5,-99,cat\n")
    _, block = read_all(path, tmp_path, missing="-99")
    assert_array_equal(block.X, [[1, 1], [0, np.nan], [np.nan, np.nan], [0.5, np.nan]])
    assert block.y.tolist() == ["cat", "dog", None, "cat"]


def test_a_missing_number_in_the_target_is_nan(tmp_path):
    _, block = read_all(write(tmp_path, "a,y\n1,0\n2,\n3,1\n"), tmp_path)
    assert_array_equal(block.y, [0, np.nan, 1])


def test_text_target_can_be_asked_for(tmp_path):
    reader = open_reader(write(tmp_path, "a,y\n1,1.0\n2,1\n"), scratch=tmp_path)
    assert reader.read(0, 2).y.tolist() == [1, 1]
    assert reader.read(0, 2, text_target=True).y.tolist() == ["1.0", "1"]


def test_byte_order_mark_and_encoding(tmp_path):
    scan, block = read_all(write(tmp_path, b"\xef\xbb\xbfa,b,y\n1,2,0\n"), tmp_path)
    assert scan.feature_names == ("a", "b")
    path = write(tmp_path, "größe,art\n1,Lärche\n".encode("latin-1"), "latin.csv")
    with pytest.raises(DataError, match=r"latin\.csv line 1 .*utf-8[\s\S]*latin-1"):
        read_all(path, tmp_path)
    scan, block = read_all(path, tmp_path, encoding="latin-1")
    assert (scan.feature_names, block.y.tolist()) == (("größe",), ["Lärche"])


def test_bad_encoding_far_into_the_file_is_located(tmp_path):
    text = b"a,art\n" + b"1,Birke\n" * 300_000 + "1,Lärche\n".encode("latin-1")
    with pytest.raises(DataError, match="line 300002"):
        read_all(write(tmp_path, text), tmp_path)


@pytest.mark.parametrize(("text", "message"), [
    ("a,b,y\n1,red,0\n2,3,1\n", r"column 'b' holds text: 'red' in row 0[\s\S]*drop: \[b\]"),
    ("1,2,0\n1,x,0\n", r"column 1 \(counted from 0\) holds text: 'x' in row 1"),
    ("a,b,y\n1,2,0\n1,2\n", r"points\.csv line 3 \(byte 12\) has 2 fields between ',', the first row has 3"),
    ("Measured in May 2024\n\na,b,y\n1,2,0\n", r"line 3 .* has 1 field between blanks, the first row has 4"
     r"[\s\S]*delete lines above the names of the columns"),
    ("a,b,y\n1,2,0,4\n", "line 2 .* has 4 fields between ',', the first row has 3"),
    ('a,b,y\n1,2,"0\n1,2,3\n', "line 2 .*opens a quote that never closes"),
    ("", "empty: 0 bytes"),
    ("\n \n", "has no rows"),
    ("a,b,y\n", "has no rows"),
    ("1\n2\n", "no feature columns"),
    ("a,b,y\r1,2,0\r", "carriage returns only"),
    ("a,b,y\n1,2\r,0\n1,2,3\n", "line 2 .*carriage return within a row"),
    (",a,y\n0,1,1\n", r"no name in the header[\s\S]*drop: \[0\]"),
    ("a,b,y\n1,2,0\n".encode("utf-16-le"), "UTF-16"),
    (b"PK\x03\x04\x00\x00", "binary file"),
])
def test_refused_with_the_place(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_all(write(tmp_path, text), tmp_path)


def test_text_far_into_the_file_is_located(tmp_path):
    text = "a,b,y\n" + "1,2,0\n" * 40_000 + "1,oops,0\n" + "1,2,0\n" * 10
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=r"'oops' in row 40000 \(counted from 0\), line 40002 \(1 of 40,011 cells\)"):
        ingest(path, MemoryParts(), InProcess(1))
    assert open_reader(path, scratch=tmp_path).read(39_990, 40_005).odd == {1: [(10, "oops")]}


def test_utf_16_with_its_mark_is_read(tmp_path):
    _, block = read_all(write(tmp_path, "a,b,y\n1,2,Lärche\n".encode("utf-16")), tmp_path)
    assert (block.X.tolist(), block.y.tolist()) == ([[1, 2]], ["Lärche"])


def test_lines_are_told_whatever_is_quoted_or_blank(tmp_path):
    text = 'a,"name\nof it",y\n\n1,"x\n\ny",0\n2,z,1\n'
    reader = open_reader(write(tmp_path, text), scratch=tmp_path, when_text="one_hot")
    reader.scan()
    assert reader.places([1, 0]) == ["row 1 (counted from 0), line 7", "row 0 (counted from 0), line 4"]


def test_blanks_before_quotes_are_no_part_of_a_cell(tmp_path):
    _, block = read_all(write(tmp_path, '1, "t, ""u", 2\n3,  "v", 4\n'), tmp_path, header=False, target=1)
    assert block.y.tolist() == ['t, "u', "v"]
    assert_array_equal(block.X, [[1, 2], [3, 4]])


def test_a_column_without_a_name_is_named_so(tmp_path):
    reader = open_reader(write(tmp_path, ",a,y\n0,1,1\n1,2,0\n"), scratch=tmp_path)
    assert reader.column_names() == ["", "a", "y"]
    assert list(reader.unusable()) == [0]


def test_columns_of_the_same_name_are_refused_unless_one_is_left(tmp_path):
    path = write(tmp_path, "a,b,a,y\n1,2,3,0\n4,5,6,1\n")
    with pytest.raises(DataError, match=r"several columns named 'a'[\s\S]*by number \(from 0\): `drop: \[2\]`"):
        read_all(path, tmp_path)
    assert read_all(path, tmp_path, drop=[2])[0].feature_names == ("a", "b")


def test_unknown_columns_and_options(tmp_path):
    path = write(tmp_path, "height,width,kind\n1,2,0\n")
    with pytest.raises(DataError, match=r"no column 'hight'[\s\S]*'height'"):
        read_all(path, tmp_path, target="hight")
    with pytest.raises(DataError, match=r"no column 'klass' \(target\) and 'hight', 9 \(drop\)[\s\S]*'height'"):
        read_all(path, tmp_path, target="klass", drop=["hight", 9])
    with pytest.raises(DataError, match="no column 7"):
        read_all(path, tmp_path, target=7)
    with pytest.raises(ParameterError, match="n_columns=3 does not apply"):
        read_all(path, tmp_path, n_columns=3)
    with pytest.raises(ParameterError, match="encoding='klingon'"):
        read_all(path, tmp_path, encoding="klingon")
    with pytest.raises(ParameterError, match="2 columns named 'a'"):
        read_all(write(tmp_path, "a,a,y\n1,2,3\n", "two.csv"), tmp_path, target="a")


def test_a_file_that_shrinks_after_its_scan_is_noticed(tmp_path):
    path = write(tmp_path, "a,y\n" + "1,2\n" * 100)
    reader = open_reader(path, scratch=tmp_path)
    reader.scan()
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="cut short"):
        reader.read(0, 100)


def test_a_damaged_gzip_is_refused(tmp_path):
    packed = gzip.compress(b"a,y\n" + b"1,2\n" * 10_000)
    with pytest.raises(DataError, match=r"cut\.csv\.gz is damaged"):
        open_reader(write(tmp_path, packed[:len(packed) // 2], "cut.csv.gz"), scratch=tmp_path / "s")
    with pytest.raises(DataError, match=r"not\.csv\.gz is damaged"):
        open_reader(write(tmp_path, b"a,y\n1,2\n", "not.csv.gz"), scratch=tmp_path / "s")
    assert list((tmp_path / "s").iterdir()) == []


def test_counting_the_cells_of_a_file_holds_a_few_megabytes_of_it(tmp_path):
    path = write(tmp_path, "a,b,c,y\n" + "0.125,3.75,-1.5,0\n" * 1_000_000)
    every = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(every)
    pa.set_memory_pool(pool)
    try:
        assert open_reader(path, scratch=tmp_path).scan().n_rows == 1_000_000
    finally:
        pa.set_memory_pool(every)
    assert 0 < pool.max_memory() < 40 << 20


def test_numbers_that_begin_with_a_zero_have_no_thousands(tmp_path):
    """0.637 beside 36,4: with a decimal comma it would be 637."""
    rows = [f"0.{number % 20 + 637};{number},4;{'pq'[number % 2]}" for number in range(40)]
    (tmp_path / "mixed.csv").write_text("a;b;y\n" + "\n".join(rows) + "\n", encoding="utf-8")
    for options in ({}, {"decimal": ","}):
        with pytest.raises(DataError, match=r"the decimal mark '\.' in column 'a' \(0\.637\); that of the file is ','"):
            open_dataset(tmp_path / "mixed.csv", target="y", **options)
    assert open_dataset(tmp_path / "mixed.csv", target="y", drop=["a"]).X.read_all()[:3, 0].tolist() == [
        pytest.approx(0.4), pytest.approx(1.4), pytest.approx(2.4)]
    named = open_dataset(tmp_path / "mixed.csv", target="y", categories=["a"], when_text="one_hot", keep_ids=["a"])
    assert "a=0.637" in named.feature_names
    (tmp_path / "whole.csv").write_text("a;b;y\n1.637;1,4;p\n2.500;2,5;q\n", encoding="utf-8")
    assert open_dataset(tmp_path / "whole.csv", target="y").X.read_all()[:, 0].tolist() == [1637, 2500]
