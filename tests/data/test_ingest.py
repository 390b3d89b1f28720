"""From files to data sets: any blocks give the same bytes, and what cannot be used leaves no data set."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from dssl.base.errors import BudgetError, DataError, DsslError, IntegrityError, ParameterError
from dssl.data.ingest import ingest, open_dataset
from dssl.data.ingest_params import IngestParams
from dssl.data.readers.base import Scan
from dssl.data.source_reader import block_height, task_bytes
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts, arrays_within
from dssl.storage.store import StoredParts


def arrays_of(data):
    arrays, _ = data.to_arrays()
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def write_all_formats(folder, n=80):
    """The same points in every format that can hold them."""
    rng = np.random.default_rng(5)
    X = np.round(rng.normal(size=(n, 4)), 3) * (rng.random((n, 4)) < 0.6)
    X[-1] = 1.5  # the last column is never empty, so that svmlight shows it
    y = rng.integers(0, 3, n)
    rows = sparse.csr_matrix(X)
    pd.DataFrame(np.column_stack([X, y])).to_csv(folder / "t.csv", index=False, header=False)
    (folder / "t.csv.gz").write_bytes(gzip.compress((folder / "t.csv").read_bytes()))
    dump_svmlight_file(rows, y, str(folder / "t.svm"), zero_based=False)
    np.savez_compressed(folder / "dense.npz", X=X, y=y)
    np.savez(folder / "csr.npz", data=rows.data, indices=rows.indices, indptr=rows.indptr, shape=rows.shape, y=y)
    np.save(folder / "t.npy", X)
    np.save(folder / "labels.npy", y)
    return X, y


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.svm", "dense.npz", "csr.npz", "t.npy"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.extended_cases("float32-csr.npz", "float32-dense.npz", "float32-t.csv",
    "float32-t.csv.gz", "float32-t.npy", "float64-csr.npz", "float64-t.csv", "float64-t.csv.gz",
    "float64-t.svm")
def test_every_format_gives_the_same_bytes_at_any_block_height(tmp_path, name, dtype):
    X, y = write_all_formats(tmp_path)
    options = {"labels": str(tmp_path / "labels.npy")} if name == "t.npy" else {}
    for block_rows in (1, 7, 64, 79, 80, 1000, None):
        parts = StoredParts(tmp_path / f"out{block_rows}") if block_rows in (7, None) else MemoryParts()
        data = ingest(tmp_path / name, parts, InProcess(2), block_rows=block_rows, dtype=dtype, **options)
        assert_array_equal(data.X.read_all(), X.astype(dtype))
        assert data.X.dtype == dtype
        assert_array_equal(data.targets(), y)
        assert data.y.dtype == np.int64


@settings(max_examples=12, deadline=None)
@given(labels=st.lists(st.sampled_from(["7", "07", "1.5", "", "oak", "ash"]), min_size=1, max_size=10),
       height=st.integers(1, 10))
def test_the_type_of_the_target_does_not_depend_on_blocks(tmp_path_factory, labels, height):
    path = tmp_path_factory.mktemp("target") / "t.csv"
    path.write_text("a,y\n" + "".join(f"1,{label}\n" for label in labels))
    whole = ingest(path, MemoryParts(), InProcess(1), header=True)
    blocks = ingest(path, MemoryParts(), InProcess(1), header=True, block_rows=height)
    assert arrays_of(whole) == arrays_of(blocks)
    assert whole.attributes["label_names"] == blocks.attributes["label_names"]
    y, names = blocks.targets(), blocks.attributes["label_names"]
    if names is not None:
        assert {"oak", "ash", "07"} & set(labels)
        assert names == sorted(set(labels) - {""})
        assert [names[code] if code >= 0 else "" for code in y] == labels
    else:
        assert not {"oak", "ash"} & set(labels)
        assert_array_equal(y, [float(label or "nan") for label in labels])


def test_text_that_begins_late_makes_the_whole_target_text(tmp_path):
    labels = ["3"] * 1500 + ["unknown"] + ["2"] * 300
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"1,{label}\n" for label in labels))
    data = ingest(tmp_path / "t.csv", StoredParts(tmp_path / "out"), InProcess(2), block_rows=400)
    assert data.attributes["label_names"] == ["2", "3", "unknown"]
    assert [data.attributes["label_names"][code] for code in data.targets()] == labels


def test_an_identifier_is_not_a_target(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"1,id{i}\n" for i in range(70_000)))
    with pytest.raises(DataError, match="70,000 different texts"):
        ingest(tmp_path / "t.csv", MemoryParts(), InProcess(2))


def test_attributes_say_where_the_rows_come_from(tmp_path):
    (tmp_path / "t.csv").write_text("height,width,kind\n1,2,oak\n3,4,ash\n")
    data = ingest(tmp_path / "t.csv", MemoryParts(), InProcess(1))
    assert data.feature_names == ["height", "width"]
    assert data.attributes["label_names"] == ["ash", "oak"]
    assert data.attributes["source"] == str(tmp_path / "t.csv")
    assert (data.attributes["format"], data.attributes["target"]) == ("csv", "kind")
    assert len(data.attributes["fingerprint"]) == 64


@pytest.mark.parametrize("height", [2, 100])
def test_values_that_are_not_finite_are_counted_and_located(tmp_path, height):
    X = np.ones((9, 3))
    X[4, 2], X[4, 1], X[8, 0] = np.nan, np.inf, -np.inf
    np.savez(tmp_path / "t.npz", X=X, columns=np.array(["a", "b", "c"]))
    with pytest.raises(DataError) as error:
        ingest(tmp_path / "t.npz", StoredParts(tmp_path / "out"), InProcess(2), block_rows=height)
    assert "column 'b' is inf in row 4 (counted from 0), the first of 3 values that are not fin" in str(error.value)
    assert "`when_missing: impute`" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_an_infinite_cell_is_named_by_line_with_the_setting_that_makes_it_missing(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,0\n3,Infinity,1\n4,-inf,0\n5,6,1\n")
    with pytest.raises(DataError) as error:
        ingest(tmp_path / "t.csv", MemoryParts(), InProcess(1), target="y")
    for words in ("column 'b' is inf in row 1 (counted from 0), line 3, the first of 2 values that are not finite",
                 "`missing: [inf, -inf]` with `when_missing: impute`"):
        assert words in str(error.value)
    data = ingest(tmp_path / "t.csv", MemoryParts(), InProcess(1), target="y", missing=("inf", "-inf"),
                  when_missing="impute")
    assert data.X.read_all().tolist() == [[1, 2], [3, 4], [4, 4], [5, 6]]


def test_a_number_that_is_too_large_is_shown_as_it_is_written(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,0\n3,1e300,1\n")
    with pytest.raises(DataError, match=r"column 'b' is 1e\+300 \(too large for float32\) in row 1 .*, line 3\n"):
        ingest(tmp_path / "t.csv", MemoryParts(), InProcess(1), target="y")


def test_a_refusal_touches_nothing_that_was_there_before(tmp_path):
    parts = StoredParts(tmp_path / "out")
    parts.allocate("X", (2, 1), np.float32, 2)
    parts.write_range(0, {"X": np.ones((2, 1), np.float32)})  # of another stage, which has no receipt yet
    (tmp_path / "out" / "notes.txt").write_text("kept")
    np.savez(tmp_path / "t.npz", X=np.full((3, 1), np.nan))
    with pytest.raises(DataError, match="3 missing cells"):
        ingest(tmp_path / "t.npz", StoredParts(tmp_path / "new"), InProcess(1), scratch=tmp_path / "scratch")
    (tmp_path / "t.csv").write_text("a,y\n1\n")
    with pytest.raises(DataError, match="line 2"):
        ingest(tmp_path / "t.csv", parts, InProcess(1))
    assert_array_equal(parts.rows("X").read_all(), np.ones((2, 1)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "scratch", "t.csv", "t.npz"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["notes.txt", "shared"]


def test_numbers_beyond_float32_are_refused_or_kept_in_float64(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.array([[1e300], [1.0]]))
    with pytest.raises(DataError, match="dtype: float64"):
        ingest(tmp_path / "t.npz", MemoryParts(), InProcess(1))
    assert ingest(tmp_path / "t.npz", MemoryParts(), InProcess(1), dtype="float64").X.read(0, 1) == 1e300


def test_an_infinite_target_is_refused(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.ones((4, 1)), y=np.array([0, np.nan, 1, np.inf]))
    with pytest.raises(DataError, match=r"infinite in row 3 \(counted from 0\)\n"):
        ingest(tmp_path / "t.npz", MemoryParts(), InProcess(1), block_rows=2)
    (tmp_path / "t.csv").write_text("a,y\n1,0.5\n3,inf\n4,1.5\n")
    with pytest.raises(DataError, match=r"t\.csv: the target is infinite in row 1 \(counted from 0\), line 3"):
        ingest(tmp_path / "t.csv", MemoryParts(), InProcess(1), target="y")


def test_files_that_are_refused_leave_no_folder(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n1,2\n1\n"))
    with pytest.raises(DataError, match=r"t\.csv\.gz line 3"):
        ingest(tmp_path / "t.csv.gz", StoredParts(tmp_path / "out"), InProcess(1))
    assert not (tmp_path / "out").exists()


def test_unpacked_files_are_gone_afterwards_and_the_scratch_folder_stays(tmp_path):
    write_all_formats(tmp_path)
    ingest(tmp_path / "t.csv.gz", StoredParts(tmp_path / "out"), InProcess(1))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["parts", "receipts", "shared"]
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "mine").write_text("kept")
    ingest(tmp_path / "dense.npz", StoredParts(tmp_path / "two"), InProcess(1), scratch=tmp_path / "scratch")
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == ["mine"]


def damaged(raw, rng):
    """Cut a file short, or change some of its bytes, or replace a stretch by another length of them."""
    changed, kind, at = bytearray(raw), rng.integers(3), int(rng.integers(0, len(raw)))
    if kind == 0:
        return bytes(changed[:at])
    if kind == 1:
        changed[at] ^= int(rng.integers(1, 256))
    else:
        changed[at:at + int(rng.integers(1, 20))] = rng.bytes(int(rng.integers(0, 20)))
    return bytes(changed)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.svm", "dense.npz", "csr.npz", "t.npy"])
@pytest.mark.extended_cases("t.svm")
def test_damaged_files_are_read_or_refused_but_never_crash(tmp_path, name):
    write_all_formats(tmp_path)
    raw, rng, refused = (tmp_path / name).read_bytes(), np.random.default_rng(11), []
    for _ in range(60):
        (tmp_path / f"bad-{name}").write_bytes(damaged(raw, rng))
        try:
            data = ingest(tmp_path / f"bad-{name}", MemoryParts(), InProcess(1))
        except DsslError as error:
            refused.append(str(error))
        else:
            assert np.isfinite(data.X.read_all()).all()
    assert len(refused) >= 20
    assert all(f"bad-{name}" in message for message in refused)


def test_an_ingest_continues_its_own_parts_only(tmp_path):
    X, _ = write_all_formats(tmp_path)
    parts = StoredParts(tmp_path / "out")
    ingest(tmp_path / "dense.npz", parts, InProcess(1), block_rows=20)
    (tmp_path / "out" / "receipts" / "000002.json").unlink()
    stamps = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "receipts").iterdir()}
    again = ingest(tmp_path / "dense.npz", parts, InProcess(1), block_rows=20)
    assert_array_equal(again.X.read_all(), X.astype(np.float32))
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out" / "receipts").iterdir()}
    assert {name for name in after if stamps.get(name) != after[name]} == {"000002.json"}

    np.savez_compressed(tmp_path / "dense.npz", X=X + 1)  # other bytes: nothing of the old parts is kept
    changed = ingest(tmp_path / "dense.npz", parts, InProcess(1), block_rows=20)
    assert changed.y is None
    assert_array_equal(changed.X.read_all(), (X + 1).astype(np.float32))
    changed.save(tmp_path / "out")
    with pytest.raises(IntegrityError, match="parts of something else"):
        ingest(tmp_path / "t.svm", parts, InProcess(1), block_rows=20)
    assert_array_equal(open_dataset(tmp_path / "out").X.read_all(), (X + 1).astype(np.float32))


def test_blocks_follow_the_memory_budget():
    scan = Scan(n_rows=10**6, n_columns=100, dtype="float64", target=None, row_bytes=800)
    assert block_height(scan, IngestParams(), 2 << 30) == (32 << 20) // 400
    small = block_height(scan, IngestParams(), 1 << 20)
    each = task_bytes(scan, IngestParams())
    assert small * each <= arrays_within(1 << 20) < (small + 1) * each
    assert block_height(scan, IngestParams(block_rows=77), 2 << 30) == 77
    with pytest.raises(BudgetError, match="set block_rows to"):
        block_height(scan, IngestParams(block_rows=10**6), 1 << 20)
    with pytest.raises(BudgetError, match="one row needs"):
        block_height(scan, IngestParams(), 100)


def test_parameters_are_checked_when_they_are_made():
    with pytest.raises(ParameterError, match="dtype='int8'"):
        IngestParams(dtype="int8")
    with pytest.raises(ParameterError, match="block_rows=0"):
        IngestParams(block_rows=0)


@pytest.mark.slow
@pytest.mark.data
def test_real_files(dssl_data, tmp_path):
    raw = np.load(dssl_data / "mnist.npz", allow_pickle=False)
    mnist = open_dataset(dssl_data / "mnist.npz")
    assert_array_equal(mnist.X.read_all(), raw["X"])
    assert_array_equal(mnist.targets(), raw["y"])
    assert_array_equal(mnist.split.read_all(), raw["split"])

    raw = np.load(dssl_data / "a9a.npz", allow_pickle=False)
    parts = raw["data"], raw["indices"].astype(np.int32), raw["indptr"]
    adult = ingest(dssl_data / "a9a.npz", StoredParts(tmp_path / "a9a"), InProcess(2), block_rows=5000)
    assert_array_equal(adult.X.read_all(), sparse.csr_matrix(parts, shape=raw["shape"]).toarray())
    assert_array_equal(adult.targets(), raw["y"])

    raw = np.load(dssl_data / "letter.npz", allow_pickle=False)
    letter = open_dataset("letter", split="split_libsvm")
    assert_array_equal(letter.X.read_all(), raw["X"])
    assert_array_equal(letter.split.read_all(), raw["split_libsvm"])
    text = tmp_path / "letter.csv"
    pd.DataFrame(np.column_stack([raw["X"], raw["y"]])).to_csv(text, index=False, header=False)
    assert_array_equal(open_dataset(text).X.read_all(), raw["X"])


def test_an_ingest_with_another_budget_takes_up_no_part(tmp_path):
    """Its blocks are of other rows; a part that a worker of the first one writes meanwhile is noticed."""
    X = np.random.default_rng(0).normal(size=(4000, 6)).astype(np.float32)
    np.savez(tmp_path / "points.npz", X=X, y=np.arange(4000) % 3)
    parts, small = StoredParts(tmp_path / "out"), InProcess(1, memory_budget=1 << 18)
    ingest(tmp_path / "points.npz", parts, small)
    first = parts.receipts(200)
    assert len(first) > 1
    (tmp_path / "out" / "receipts" / "000001.json").unlink()
    actual = ingest(tmp_path / "points.npz", parts, InProcess(1))
    assert_array_equal(actual.X.read_all(), X)
    assert len(parts.receipts(200)) == 1
    late = StoredParts(tmp_path / "late")
    late.finish(0, first[0])
    with pytest.raises(IntegrityError, match="holds a part of another ingest"):
        ingest(tmp_path / "points.npz", LateParts(late.folder), InProcess(1))


class LateParts(StoredParts):
    """Parts in which another process finishes one as soon as they were listed."""

    def listed(self):
        return []
