"""Parquet: what is read, against pandas; only the row groups that rows lie in; what is refused."""

import datetime
import decimal
import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dssl.base.errors import BudgetError, DataError, DsslError, ParameterError
from dssl.data.ingest import ingest, open_dataset
from dssl.data.ingest_params import IngestParams
from dssl.data.readers.column_choice import refuse_same_names
from dssl.data.readers.formats import open_reader
from dssl.data.source_reader import block_height
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts

from .reading import dense, read_all

N = 1000


def columns(n=N, random_state=0):
    rng = np.random.default_rng(random_state)
    return {"a": rng.normal(size=n), "b": rng.integers(-99, 99, n).astype(np.int16), "c": rng.random(n) < 0.5,
            "kind": rng.choice(["ash", "birch", "oak, red"], n)}


def write(path, arrays, group=170, **options):
    pq.write_table(pa.table(arrays), path, row_group_size=group, **options)
    return path


def dense_of(arrays, names):
    return np.column_stack([np.asarray(arrays[name], float) for name in names])


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
def test_reads_what_was_written(tmp_path, compression):
    arrays = columns()
    path = write(tmp_path / "t.parquet", arrays, compression=compression)
    scan, block = read_all(path, tmp_path, target="kind")
    assert (scan.n_rows, scan.n_columns, scan.target, scan.feature_names) == (N, 3, "kind", ("a", "b", "c"))
    assert_array_equal(block.X, dense_of(arrays, "abc"))
    assert block.X.flags.c_contiguous
    assert block.y.tolist() == arrays["kind"].tolist()


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 40), group=st.integers(1, 41), data=st.data())
def test_any_rows_of_any_row_groups(tmp_path_factory, n, group, data):
    folder, arrays = tmp_path_factory.mktemp("groups"), columns(n)
    reader = open_reader(write(folder / "t.parquet", arrays, group), scratch=folder)
    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start + 1, n))
    block = dense(reader.narrow(start, stop).read(start, stop))
    assert_array_equal(block.X, dense_of(arrays, "abc")[start:stop])
    assert block.y.tolist() == arrays["kind"][start:stop].tolist()


@pytest.mark.slow
def test_batches_smaller_than_a_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr("dssl.data.readers.grouped.MAX_BATCH_ROWS", 7)
    arrays = columns()
    reader = open_reader(write(tmp_path / "t.parquet", arrays, 300), scratch=tmp_path)
    for start, stop in ((0, N), (293, 307), (299, 300), (6, 8), (999, 1000)):
        assert_array_equal(dense(reader.read(start, stop)).X, dense_of(arrays, "abc")[start:stop])


@pytest.mark.parametrize(("type_", "values", "expected", "dtype"), [
    (pa.int8(), [1, 0, 2], [1, 0, 2], np.int64), (pa.uint64(), [1, 0, 2], [1, 0, 2], np.int64),
    (pa.bool_(), [True, False, True], [1, 0, 1], np.int64), (pa.float32(), [0.5, 1, 2], [0.5, 1, 2], np.float64),
    (pa.int32(), [1, None, 2], [1, np.nan, 2], np.float64),
    (pa.bool_(), [True, None, False], [1, np.nan, 0], np.float64),
    (pa.large_string(), ["b", None, "a"], ["b", None, "a"], object),
    (pa.dictionary(pa.int8(), pa.string()), ["b", None, "b"], ["b", None, "b"], object),
    (pa.dictionary(pa.int8(), pa.int64()), [5, 7, 5], [5, 7, 5], np.int64),
])
def test_targets_of_every_type(tmp_path, type_, values, expected, dtype):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "label": pa.array(values, type_)}), path)
    scan, block = read_all(path, tmp_path)
    assert scan.target == "label"
    assert block.y.dtype == dtype
    assert_array_equal(block.y, np.array(expected, dtype))


@pytest.mark.parametrize("type_", [pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.bool_(),
                                   pa.dictionary(pa.int16(), pa.float64())])
def test_features_of_every_type_and_their_nulls(tmp_path, type_):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": pa.array([True, None, False] if pa.types.is_boolean(type_) else [1, None, 0],
                                           type_)}), path)
    _, block = read_all(path, tmp_path, target="none")
    assert_array_equal(block.X, [[1], [np.nan], [0]])


def test_target_and_drop_by_name_or_number(tmp_path):
    path = write(tmp_path / "t.parquet", {"id": ["u", "v"], "a": [1, 2], "Label": [0, 1], "z": [3, 4]})
    for target, drop, names, y in (("z", "id", ("a", "Label"), [3, 4]), (-1, [0], ("a", "Label"), [3, 4]),
                                   (None, ["id"], ("a", "z"), [0, 1]), ("none", ["id", "z"], ("a", "Label"), None)):
        scan, block = read_all(path, tmp_path, target=target, drop=drop)
        assert scan.feature_names == names
        assert (block.y if y is None else block.y.tolist()) == y
    with pytest.raises(DataError, match=r"no column 'lable' \(target\)[\s\S]*'Label'"):
        read_all(path, tmp_path, target="lable")
    with pytest.raises(ParameterError, match="header=True does not apply"):
        read_all(path, tmp_path, header=True)


def test_missing_values_are_located_when_they_are_ingested(tmp_path):
    for name, missing in (("null", None), ("nan", float("nan"))):
        arrays = {"a": [1.0] * 9, "b": [1.0] * 5 + [missing] + [2.0] * 3, "y": [0] * 9}
        path = write(tmp_path / f"{name}.parquet", arrays, 2)
        with pytest.raises(DataError, match="column 'b' has a missing cell in row 5"):
            ingest(path, MemoryParts(), InProcess(2), block_rows=4)


@pytest.mark.parametrize(("values", "message"), [
    (pa.array(["x", "y"]), r" 'bad' holds text: 'x' in row 0[\s\S]*`target: bad`; to leave it out, `drop: \[bad\]`"),
    (pa.array(["x", "y"]).dictionary_encode(), r"'bad' holds text: 'x'[\s\S]*when_text: one_hot"),
    (pa.array([datetime.datetime(2020, 1, 1)] * 2), r"timestamp[\s\S]*a number of days or seconds"),
    (pa.array([datetime.date(2020, 1, 1)] * 2), r"date32[\s\S]*number of days"),
    (pa.array([["x", "y"]] * 2), r"list[\s\S]*as columns, or as a list"),
    (pa.array([{"u": 1}] * 2), r"struct[\s\S]*as columns, or as a list"),
    (pa.nulls(2), r"type null[\s\S]*no row has a value"), (pa.array([b"x", b"y"]), r"type binary[\s\S]*as numbers"),
])
def test_features_that_are_refused_or_dropped(tmp_path, values, message):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "bad": values, "y": [0, 1]}), path)
    with pytest.raises(DataError, match=r"t\.parquet: .*" + message):
        read_all(path, tmp_path)
    scan, block = read_all(path, tmp_path, drop=["bad"])
    assert (scan.feature_names, block.y.tolist()) == (("a",), [0, 1])


@pytest.mark.parametrize("type_", [pa.decimal128(10, 2), pa.decimal256(50, 2)])
def test_decimals_are_numbers(type_, tmp_path):
    path, cells = tmp_path / "t.parquet", [decimal.Decimal("1.50"), None, decimal.Decimal("-3.25")]
    pq.write_table(pa.table({"a": pa.array(cells, type_), "b": pa.array([cells[::2]] * 3, pa.list_(type_)),
                             "y": pa.array(cells, type_)}), path)
    scan, block = read_all(path, tmp_path)
    assert (scan.feature_names, scan.dtype) == (("a", "b[0]", "b[1]"), "float64")
    assert_array_equal(block.X, [[1.5, 1.5, -3.25], [np.nan, 1.5, -3.25], [-3.25, 1.5, -3.25]])
    assert_array_equal(block.y, [1.5, np.nan, -3.25])


def test_text_and_numbers_as_typed_columns(tmp_path):
    path = write(tmp_path / "t.parquet", {"a": [1, None, 3], "color": ["red", None, "blue"], "y": [0, 1, 0]}, 2)
    reader = open_reader(path, scratch=tmp_path, when_text="one_hot")
    assert reader.scan().feature_names == ("a", "color")
    block = reader.read(0, 3)
    assert_array_equal(block.X[0], [1, np.nan, 3])
    assert block.X[1].tolist() == ["red", None, "blue"]
    assert block.y.tolist() == [0, 1, 0]


def test_numbers_keep_their_type_if_no_other_is_asked_for(tmp_path):
    path = write(tmp_path / "t.parquet", {"a": np.array([1, 2], np.int8), "b": np.array([3, 4], np.int16)}, 1)
    assert read_all(path, tmp_path, None, target="none")[1].X.dtype == np.int16
    path = write(tmp_path / "t.parquet", {"a": pa.array([1, None], pa.int8())})
    assert read_all(path, tmp_path, None, target="none")[1].X.dtype == np.float64


def test_targets_that_are_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "y": pa.array([datetime.date(2020, 1, 1)] * 2)}), path)
    with pytest.raises(DataError, match="the target 'y' is of type date32"):
        read_all(path, tmp_path)
    pq.write_table(pa.table({"a": [1.0], "y": pa.array([1 << 63], pa.uint64())}), path)
    with pytest.raises(DataError, match=r"labels of 2\^63"):
        read_all(path, tmp_path)


def test_the_index_of_a_pandas_table_is_no_feature(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [0, 1, 0]})
    frame.to_parquet(tmp_path / "range.parquet")
    assert read_all(tmp_path / "range.parquet", tmp_path)[0].feature_names == ("a",)
    frame.set_index(pd.Index([7, 3, 5])).to_parquet(tmp_path / "numbers.parquet")
    with pytest.raises(DataError, match=r"'__index_level_0__' is the index of a pandas table[\s\S]*drop: \[__index"):
        read_all(tmp_path / "numbers.parquet", tmp_path)
    assert read_all(tmp_path / "numbers.parquet", tmp_path, drop="__index_level_0__")[0].feature_names == ("a",)
    frame[["a"]].assign(b=frame["y"]).set_index(pd.Index([7, 3, 5])).to_parquet(tmp_path / "last.parquet")
    assert read_all(tmp_path / "last.parquet", tmp_path, drop="__index_level_0__")[0].target == "b"


def test_columns_of_one_name_are_renamed_only():
    with pytest.raises(DataError, match=r"named 'a'\n  why: .*\n  fix: rename them in the file$"):
        refuse_same_names({0: "a", 1: "a"}, "t.parquet", None)


def test_files_without_rows_or_columns(tmp_path):
    path = tmp_path / "t.parquet"
    for table, message in ((pa.table({"a": pa.array([], pa.float64()), "y": pa.array([], pa.int64())}), "has no rows"),
                           (pa.table({"y": [1, 2]}), "no feature columns: 1 in all"),
                           (pa.table({}), "no feature columns"),
                           (pa.table([[1.0], [2.0], [0]], names=["a", "a", "y"]), "several columns named 'a'")):
        pq.write_table(table, path)
        with pytest.raises(DataError, match=message):
            read_all(path, tmp_path)
    with pq.ParquetWriter(path, pa.schema([("a", pa.float64()), ("y", pa.int64())])):
        pass
    with pytest.raises(DataError, match="has no rows"):
        read_all(path, tmp_path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty: 0 bytes"):
        read_all(path, tmp_path)


def test_empty_row_groups_are_passed_over(tmp_path):
    table = pa.table({"a": np.arange(6.0), "y": np.arange(6)})
    with pq.ParquetWriter(tmp_path / "t.parquet", table.schema) as writer:
        for piece in (table.slice(0, 0), table.slice(0, 2), table.slice(0, 0), table.slice(2, 4), table.slice(0, 0)):
            writer.write_table(piece)
    reader = open_reader(tmp_path / "t.parquet", scratch=tmp_path)
    for start in range(6):
        for stop in range(start + 1, 7):
            assert_array_equal(reader.read(start, stop).y, np.arange(start, stop))


def test_compressed_equals_plain(tmp_path):
    path = write(tmp_path / "t.parquet", columns())
    (tmp_path / "t.parquet.gz").write_bytes(gzip.compress(path.read_bytes()))
    scan, block = read_all(path, tmp_path)
    packed_scan, packed = read_all(tmp_path / "t.parquet.gz", tmp_path)
    assert scan == packed_scan
    assert_array_equal(block.X, packed.X)


def test_other_and_shortened_files_are_named(tmp_path):
    path = write(tmp_path / "t.parquet", columns())
    raw = path.read_bytes()
    for name, content in (("text", b"a,b\n1,2\n"), ("cut", raw[:len(raw) // 2]), ("head", raw[len(raw) // 2:])):
        (tmp_path / f"{name}.parquet").write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}\.parquet \([\d,]+ bytes\) cannot be read as Parquet"):
            read_all(tmp_path / f"{name}.parquet", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"compression": "none", "use_dictionary": False, "write_page_checksum": True}, {}])
@pytest.mark.extended_cases("options1")
def test_damaged_files_are_read_or_refused_but_never_crash(tmp_path, options):
    arrays, rng, refused = columns(200), np.random.default_rng(3), []
    raw = write(tmp_path / "t.parquet", arrays, 60, **options).read_bytes()
    expected = dense_of(arrays, "abc")
    for _ in range(150):
        changed = bytearray(raw)
        changed[int(rng.integers(4, len(raw) - 8))] ^= int(rng.integers(1, 256))
        (tmp_path / "bad.parquet").write_bytes(changed)
        try:
            data = ingest(tmp_path / "bad.parquet", MemoryParts(), InProcess(1), dtype="float64")
        except DsslError as error:
            refused.append(str(error))
        else:
            same = data.X.shape == expected.shape and np.array_equal(data.X.read_all(), expected)
            assert same or not options or data.feature_names != ["a", "b", "c"]
    assert len(refused) >= 50
    assert all("bad.parquet" in message for message in refused)


def test_a_page_that_does_not_match_its_checksum_is_refused(tmp_path):
    path = write(tmp_path / "t.parquet", {"a": np.arange(5000.0), "y": np.arange(5000)}, 5000, compression="none",
                 use_dictionary=False, write_page_checksum=True)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 4] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_all(path, tmp_path)


def test_a_file_that_changes_after_its_scan_is_noticed(tmp_path):
    path = write(tmp_path / "t.parquet", columns())
    reader = open_reader(path, scratch=tmp_path)
    reader.scan()
    write(path, columns(N - 1))
    with pytest.raises(DataError, match="has 999 rows, and had 1,000"):
        reader.read(0, 10)


def test_memory_is_what_the_scan_says(tmp_path):
    n, d = 60_000, 8
    X = np.random.default_rng(0).normal(size=(n, d))
    path = write(tmp_path / "t.parquet", {f"f{j}": X[:, j] for j in range(d)}, n // 2, use_dictionary=False)
    reader = open_reader(path, scratch=tmp_path, target="none")
    scan = reader.scan()
    assert scan.row_bytes == 8 * d
    assert scan.unit_bytes >= n // 2 * 8 * d
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert_array_equal(dense(reader.read(29_990, 30_100)).X, X[29_990:30_100])
        peak = pool.max_memory()
    finally:
        pa.set_memory_pool(before)
    assert 0 < peak <= scan.unit_bytes + 110 * scan.row_bytes


@pytest.mark.slow
def test_blocks_leave_room_for_a_row_group(tmp_path):
    path = write(tmp_path / "t.parquet", {"a": np.arange(4e5), "b": np.arange(4e5)}, 200_000, use_dictionary=False)
    scan = open_reader(path, scratch=tmp_path, target="none").scan()
    budget = scan.unit_bytes + (1 << 20)
    height = block_height(scan, IngestParams(), budget)
    assert 0 < height < block_height(scan, IngestParams(), budget + (1 << 20))
    with pytest.raises(BudgetError, match="the largest row group or chunk"):
        block_height(scan, IngestParams(), scan.unit_bytes)
    data = ingest(path, MemoryParts(), InProcess(2, budget), target="none")
    assert_array_equal(data.X.read_all()[:, 0], np.arange(4e5, dtype=np.float32))


@pytest.mark.slow
def test_every_block_height_gives_the_same_bytes(tmp_path):
    arrays = columns(100)
    arrays["kind"] = [None, "7", "oak", "ash"] * 25
    path = write(tmp_path / "t.parquet", arrays, 33)
    whole = ingest(path, MemoryParts(), InProcess(1))
    for height in (1, 32, 33, 34, 99, 100):
        data = ingest(path, MemoryParts(), InProcess(2), block_rows=height)
        assert_array_equal(data.X.read_all(), whole.X.read_all())
        assert_array_equal(data.targets(), [-1, 0, 2, 1] * 25)
        assert data.attributes["label_names"] == ["7", "ash", "oak"]
    assert (whole.attributes["format"], whole.feature_names) == ("parquet", ["a", "b", "c"])


# ---- lists


VECTORS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], None, [7.0, None, 9.0]]


@pytest.mark.parametrize("type_", [pa.list_(pa.float32()), pa.list_(pa.float64(), 3), pa.large_list(pa.int16())])
def test_elements_of_lists_are_features(tmp_path, type_):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": [3, 1, 2, 0], "embedding": pa.array(VECTORS, type_), "y": [0, 1, 0, 1]}), path,
                   row_group_size=2)
    scan, block = read_all(path, tmp_path)
    assert scan.feature_names == ("id", "embedding[0]", "embedding[1]", "embedding[2]")
    nan = np.nan
    assert_array_equal(block.X, [[3, 1, 2, 3], [1, 4, 5, 6], [2, nan, nan, nan], [0, 7, nan, 9]])
    reader = open_reader(path, scratch=tmp_path)
    assert_array_equal(dense(reader.read(1, 4)).X, block.X[1:4])
    assert reader.column_names() == ["id", "embedding[0]", "embedding[1]", "embedding[2]", "y"]
    assert_array_equal(dense(reader.without(["id", "embedding[1]"]).read(0, 2)).X, [[1, 3], [4, 6]])
    assert read_all(path, tmp_path, drop="embedding")[0].feature_names == ("id",)
    assert read_all(path, tmp_path, drop=["id", "embedding[2]"])[0].n_columns == 2


def test_lists_of_several_lengths_are_refused_with_their_rows(tmp_path):
    path = tmp_path / "t.parquet"
    lists = [[1.0, 2.0]] * 9
    lists[4], lists[7] = [1.0], [1.0, 2.0, 3.0]
    pq.write_table(pa.table({"e": lists, "y": [0, 1, 0] * 3}), path)
    with pytest.raises(DataError, match=r"column 'e' have 2 elements, but 1 in row 4, 3 in row 7[\s\S]*drop: \[e\]"):
        ingest(path, MemoryParts(), InProcess(1))


def test_new_rows_of_text_say_yes_and_no_where_training_had_booleans(tmp_path):
    table = pd.DataFrame({"a": [0.5, 1.5, 2.5, 4.0], "owns": [True, False, False, True], "y": [0, 1, 0, 1]})
    table.to_parquet(tmp_path / "old.parquet")
    (tmp_path / "new.csv").write_text("a,owns,y\n1,yes,0\n2,False,1\n3,1,1\n", encoding="utf-8")
    old = open_dataset(tmp_path / "old.parquet", target="y")
    assert old.X.read_all()[:, 1].tolist() == [1, 0, 0, 1]
    new = ingest(tmp_path / "new.csv", MemoryParts(), InProcess(1), like=old, target="y")
    assert new.X.read_all()[:, 1].tolist() == [1, 0, 1]
    (tmp_path / "odd.csv").write_text("a,owns,y\n1,perhaps,0\n", encoding="utf-8")
    with pytest.raises(DataError, match="perhaps"):
        ingest(tmp_path / "odd.csv", MemoryParts(), InProcess(1), like=old, target="y")


def test_booleans_of_one_file_and_words_of_another_are_text(tmp_path):
    first = pd.DataFrame({"a": [0.5, 1.5, 2.5], "owns": [True, False, False], "y": [0, 1, 0]})
    first.to_parquet(tmp_path / "1.parquet")
    first.assign(owns=["yes", "no", "no"]).to_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match="column 'owns' holds text: 'yes'"):
        open_dataset(str(tmp_path / "*.parquet"), target="y")
    both = open_dataset(str(tmp_path / "*.parquet"), target="y", when_text="one_hot")
    assert both.X.read_all()[:, 1:].sum(axis=1).tolist() == [1] * 6  # one text each
