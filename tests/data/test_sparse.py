"""Sparse data sets: the numbers of the dense ones, from any file, in any blocks, stored and in memory."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl.base.errors import DataError, IntegrityError
from dssl.data.dataset import MANIFEST, Dataset, keeps_sparse
from dssl.data.floats import not_finite
from dssl.data.ingest import ingest, open_dataset
from dssl.data.ingest_params import IngestParams
from dssl.data.readers.base import Scan
from dssl.data.readers.formats import open_reader
from dssl.data.source_reader import block_height, task_bytes
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts, arrays_within
from dssl.storage.csr import CsrRows
from dssl.storage.store import StoredParts
from dssl.storage.views import BlockedCsrRows


def documents(n=90, d=1500, density=0.01, random_state=0):
    """Rows with a few entries each, one row of none, and integers as labels."""
    rng = np.random.default_rng(random_state)
    X = sparse.random_array((n, d), density=density, rng=rng, format="lil")
    X[3] = 0
    X[-1, -1] = 1.5
    X = sparse.csr_array(X)
    X.data = X.data.round(3)
    return X, rng.integers(0, 3, n)


def write(folder, X, y):
    rows = zip(y, np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]), strict=True)
    (folder / "t.svm").write_text("".join(
        f"{label} {' '.join(f'{j + 1}:{value}' for j, value in zip(columns, values, strict=True))}\n"
        for label, columns, values in rows))
    np.savez(folder / "t.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    return [folder / "t.svm", folder / "t.npz"]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(n=st.integers(4, 30), d=st.integers(1, 40), density=st.floats(0.05, 1), height=st.integers(1, 30),
       dtype=st.sampled_from(["float32", "float64"]))
def test_sparse_ingest_equals_dense_ingest(tmp_path_factory, n, d, density, height, dtype):
    X, y = documents(n, d, density, random_state=n)
    for path in write(tmp_path_factory.mktemp("sparse"), X, y):
        dense = ingest(path, MemoryParts(), InProcess(1), sparse=False, dtype=dtype)
        data = ingest(path, MemoryParts(), InProcess(1), sparse=True, block_rows=height, dtype=dtype)
        assert isinstance(data.X, BlockedCsrRows)
        actual = data.X.read_all()
        assert (actual.dtype, actual.indices.dtype) == (dense.X.dtype, np.int32)
        assert actual.has_sorted_indices
        assert_array_equal(actual.toarray(), dense.X.read_all())
        assert_array_equal(data.targets(), y)
        assert data.X.nnz == actual.nnz


def test_files_are_sparse_where_that_pays(tmp_path):
    X, y = documents()
    for path in write(tmp_path, X, y):
        data = open_dataset(path)
        assert data.X.is_sparse
        assert data.attributes["sparse"]
        assert_array_equal(data.X.read_all().toarray(), X.toarray().astype(np.float32))
        assert not open_dataset(path, sparse=False).X.is_sparse
    narrow, y = documents(d=999)
    for path in write(tmp_path, narrow, y):
        assert not open_dataset(path).X.is_sparse
        assert open_dataset(path, sparse=True).X.is_sparse


@pytest.mark.parametrize(("asked", "nnz", "shape", "kept"), [
    (None, 100, (1, 1000), True), (None, 101, (1, 1000), False), (None, 0, (1, 999), False),
    (None, None, (1, 5000), False), (True, None, (1, 2), True), (False, 0, (1, 5000), False),
])
def test_the_rule(asked, nnz, shape, kept):
    assert keeps_sparse(asked, nnz, shape) == kept


def test_scans_count_the_entries(tmp_path):
    X, y = documents()
    for path in write(tmp_path, X, y):
        assert open_reader(path, scratch=tmp_path).scan().nnz == X.nnz
    (tmp_path / "c.svm").write_text("# 1:2 3:4\n1 qid:3 1:2 5:0 # 7:7\n0\n")
    assert open_reader(tmp_path / "c.svm", scratch=tmp_path).scan().nnz == 2


def test_a_dense_file_can_be_stored_sparse(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,red,0\n0,blue,1\n2,red,1\n")
    data = ingest(tmp_path / "t.csv", StoredParts(tmp_path / "out"), InProcess(1), sparse=True, when_text="one_hot",
                  block_rows=2)
    assert_array_equal(data.X.read_all().toarray(), [[1, 0, 1], [0, 1, 0], [2, 0, 1]])
    assert data.feature_names == ["a", "b=blue", "b=red"]
    assert_array_equal(data.targets(), [0, 1, 1])


def test_missing_entries_are_imputed(tmp_path):
    X, y = documents()
    for path in write(tmp_path, X, y):
        assert ingest(path, MemoryParts(), InProcess(1), when_missing="impute").attributes["imputed"] == 0
    X.data[::9] = np.nan
    dense = X.toarray()
    expected = np.where(np.isnan(dense), np.nanmean(dense, axis=0), dense).astype(np.float32)
    for path in write(tmp_path, X, y):
        data = ingest(path, MemoryParts(), InProcess(1), when_missing="impute", block_rows=20)
        assert data.X.is_sparse
        assert_array_equal(data.X.read_all().toarray(), expected)
        unlike = ingest(path, MemoryParts(), InProcess(1), when_missing="impute", sparse=False)
        assert_array_equal(unlike.X.read_all(), expected)


@pytest.mark.parametrize("height", [4, None])
def test_stored_entries_that_are_not_finite_are_located(tmp_path, height):
    X, y = documents()
    row, column = int(np.searchsorted(X.indptr, 40, side="right")) - 1, int(X.indices[40])
    X.data[40], X.data[60] = np.nan, 1e300  # beyond float32
    for path in write(tmp_path, X, y):
        with pytest.raises(DataError, match=rf"column {column} \(counted from 0\) is nan in row {row} .* 2 values"):
            ingest(path, MemoryParts(), InProcess(1), block_rows=height)
    with pytest.raises(DataError, match=rf"column {column} \(counted from 0\) is nan in row {row} "):
        Dataset.from_arrays(X)
    assert not_finite(documents()[0]) == (0, None)


def test_folders_of_sparse_data_sets(tmp_path):
    X, y = documents()
    path = write(tmp_path, X, y)[1]
    data = ingest(path, StoredParts(tmp_path / "d"), InProcess(2), block_rows=40, dtype="float64").save(tmp_path / "d")
    described = json.loads((tmp_path / "d" / MANIFEST).read_text())["arrays"]["X"]
    assert described == {"shape": [90, 1500], "dtype": "<f8", "block_rows": 40, "nnz": X.nnz, "first": 0}
    copy = open_dataset(tmp_path / "d").save(tmp_path / "copy")
    arrays, attributes = copy.to_arrays()
    again = Dataset.from_arrays(**arrays, attributes=attributes)
    assert isinstance(again.X, CsrRows)
    from_memory = again.save(tmp_path / "again")
    for other in (data, copy, again, from_memory):
        assert_array_equal(other.X.read_all().toarray(), X.toarray())
        assert_array_equal(other.X.read(20, 60).toarray(), X.toarray()[20:60])
        assert_array_equal(other.targets(), y)
        assert other.attributes == data.attributes
    with pytest.raises(DataError, match="is not empty"):
        copy.save(tmp_path / "again")
    shutil.rmtree(tmp_path / "d" / "parts" / "000002")
    with pytest.raises(IntegrityError, match="has 2 parts, expected 3 blocks"):
        open_dataset(tmp_path / "d")
    next(path for path in (tmp_path / "copy" / "parts" / "000000").glob("*/data/c/**/*") if path.is_file()).unlink()
    with pytest.raises(IntegrityError, match="is missing"):
        open_dataset(tmp_path / "copy").X.read_all()


def test_matrices_stay_sparse_by_the_same_rule():
    X, y = documents()
    data = Dataset.from_arrays(X.tocsc(), y)
    assert isinstance(data.X, CsrRows)
    assert_array_equal(data.X.read_all().toarray(), X.toarray())
    narrow = X[:, :50]
    assert not Dataset.from_arrays(narrow).X.is_sparse
    assert Dataset.from_arrays(narrow, sparse=True).X.is_sparse
    assert not Dataset.from_arrays(X, sparse=False).X.is_sparse
    assert Dataset.from_arrays(narrow.toarray(), sparse=True).X.is_sparse
    kept = Dataset.from_arrays(narrow, sparse=True)
    arrays, attributes = kept.to_arrays()
    assert Dataset.from_arrays(**arrays, attributes=attributes).X.is_sparse
    integers = sparse.csr_array(np.eye(1200, dtype=np.int64))
    assert Dataset.from_arrays(integers).X.dtype == np.float32


def test_blocks_follow_the_entries_that_rows_have():
    scan = Scan(n_rows=10**6, n_columns=50_000, dtype="float64", target=None, row_bytes=600, nnz=50 * 10**6)
    sparse_rows = block_height(scan, IngestParams(), 1 << 30)
    assert sparse_rows == (32 << 20) // (50 * 8 + 8)
    assert sparse_rows > 400 * block_height(scan, IngestParams(sparse=False), 1 << 30)
    small, each = block_height(scan, IngestParams(), 1 << 20), task_bytes(scan, IngestParams())
    assert small * each <= arrays_within(1 << 20) < (small + 1) * each


def test_a_cut_off_sparse_ingest_goes_on(tmp_path):
    X, y = documents()
    path = write(tmp_path, X, y)[0]
    ingest(path, StoredParts(tmp_path / "out"), InProcess(1), block_rows=50)
    (tmp_path / "out" / "receipts" / "000001.json").unlink()
    shutil.rmtree(tmp_path / "out" / "parts" / "000001")
    again = ingest(path, StoredParts(tmp_path / "out"), InProcess(1), block_rows=50)
    assert_array_equal(again.X.read_all().toarray(), X.toarray().astype(np.float32))
