"""What users pass as X and y: every kind gives the rows that the plain array has, or an error that names the place."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl import Dataset, SemiSupervisedClassifier
from dssl.base.errors import DataError
from dssl.data.floats import not_finite
from dssl.data.frames import as_pandas
from dssl.data.inputs import PieceRows, SlicedRows, header_of, labels_of, rows_of
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.storage.blocks import ArrayRows, MemoryParts
from dssl.storage.csr import CsrRows
from dssl.storage.store import StoredRows

TABLE = np.random.default_rng(0).normal(size=(23, 3)).astype(np.float32)
HERE = InProcess(2)


class Ranges:
    """A table on disk that can be read by slices only, and counts how much is read at a time."""

    def __init__(self, array):
        self.array, self.shape, self.dtype, self.max_rows = array, array.shape, array.dtype, 0

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        self.max_rows = max(self.max_rows, rows.stop - rows.start)
        return self.array[rows]


class Stream:
    """A table of an unknown library that hands its columns over as Arrow."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class Interchange:
    """A table of an unknown library that knows the interchange protocol alone."""

    def __init__(self, table):
        self.table = pa.Table.from_pandas(table, preserve_index=False)

    def __dataframe__(self, **options):
        return self.table.__dataframe__(**options)


def memory_map(folder, table=TABLE):
    np.save(folder / "X.npy", table)
    return np.load(folder / "X.npy", mmap_mode="r")


def zarr_array(folder, table=TABLE):
    array = zarr.create_array(str(folder / "X.zarr"), shape=table.shape, dtype=table.dtype, chunks=(5, 2))
    array[:] = table
    return array


def frame(table=TABLE):
    return pd.DataFrame(table, columns=["a", "b", "c"], index=np.arange(len(table))[::-1])


def unknown_chunks(table=TABLE):
    """Return a dask array that does not know how many rows its blocks have; one of them has none."""
    padded = np.concatenate([table[:4], np.full((6, table.shape[1]), -99, table.dtype), table[4:]])
    X = da.from_array(padded, chunks=(5, 2))
    return X[X[:, 0] > -99]


KINDS = {
    "array": lambda folder: TABLE,
    "list": lambda folder: TABLE.astype(float).tolist(),
    "memory map": memory_map,
    "zarr": zarr_array,
    "slices": lambda folder: Ranges(TABLE),
    "frame": lambda folder: frame(),
    "rows": lambda folder: ArrayRows(TABLE),
    "data set": lambda folder: Dataset.from_arrays(TABLE),
    "stored data set": lambda folder: Dataset.from_arrays(TABLE).save(folder / "set"),
    "dask array": lambda folder: da.from_array(TABLE, chunks=(7, 2)),
    "dask array of unknown chunks": lambda folder: unknown_chunks(),
    "dask frame": lambda folder: dd.from_pandas(frame(), npartitions=3, sort=False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_rows(kind, tmp_path):
    rows = rows_of(KINDS[kind](tmp_path), HERE)
    assert rows.shape == (23, 3)
    assert rows.dtype.kind == "f"
    assert_array_equal(rows.read_all(), TABLE)
    assert_array_equal(rows.read(4, 11), TABLE[4:11])
    ids = np.array([22, 0, 7, 7, 5])
    assert_array_equal(rows.take(ids), TABLE[ids])
    assert rows.take(np.array([], int)).shape == rows.read(3, 3).shape == (0, 3)


FRAMES = {
    "polars frame": pl.from_pandas(frame()),
    "lazy polars frame": pl.from_pandas(frame()).lazy(),
    "arrow table": pa.Table.from_pandas(frame(), preserve_index=False),
    "arrow stream": Stream(pa.Table.from_pandas(frame(), preserve_index=False)),
    "interchange": Interchange(frame()),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_every_library_have_names_and_values(kind):
    X = FRAMES[kind]
    assert_array_equal(rows_of(X, HERE).read_all(), TABLE)
    assert list(header_of(as_pandas(X)).columns) == ["a", "b", "c"]
    assert Dataset.from_arrays(X).feature_names == ["a", "b", "c"]


LISTS = {
    "arrow fixed-size list": lambda: pa.table({"a": TABLE[:, 0], "e": pa.FixedSizeListArray.from_arrays(
        pa.array(TABLE[:, 1:].ravel()), 2)}),
    "polars list": lambda: pl.DataFrame({"a": TABLE[:, 0], "e": TABLE[:, 1:].tolist()}),
    "polars array": lambda: pl.DataFrame({"a": TABLE[:, 0], "e": TABLE[:, 1:]}),
    "pandas lists": lambda: pd.DataFrame({"a": TABLE[:, 0], "e": TABLE[:, 1:].tolist()}),
    "pandas arrays": lambda: pd.DataFrame({"a": TABLE[:, 0], "e": list(TABLE[:, 1:])}),
    "pandas by arrow": lambda: pd.DataFrame({"a": TABLE[:, 0], "e": pd.Series(
        TABLE[:, 1:].tolist(), dtype=pd.ArrowDtype(pa.list_(pa.float64())))}),
}


@pytest.mark.parametrize("kind", LISTS)
def test_an_element_of_a_list_is_a_feature(kind):
    X = LISTS[kind]()
    assert_array_equal(rows_of(X, HERE).read_all(), TABLE)
    assert Dataset.from_arrays(X).feature_names == ["a", "e[0]", "e[1]"]


def test_a_classifier_learns_from_lists():
    y = np.repeat([0, 1], 20)
    embeddings = np.random.default_rng(0).normal(size=(40, 3)) + 4 * y[:, None]
    X = pa.table({"e": embeddings.tolist()})
    model = SemiSupervisedClassifier().fit(X, np.where(np.arange(40) % 4, -1, y))
    assert list(model.feature_names_in_) == ["e[0]", "e[1]", "e[2]"]
    assert_array_equal(model.predict(X), y)


def test_lists_that_are_no_features():
    with pytest.raises(DataError, match=r"lists of column 'e' have 2 elements, but 1 in row 1, counted from 0"):
        rows_of(pd.DataFrame({"e": [[1, 2], [3], [4, 5]]}), HERE)
    with pytest.raises(DataError, match=r"'e\[0\]' has a missing cell in row 1[\s\S]*'e\[1\]' has 2 missing cells"):
        rows_of(pd.DataFrame({"e": [[1, 2], None, [4, None]]}), HERE)
    for strange in ([["a", "b"]] * 3, [[[1, 2], [3, 4]]] * 3, [[1, 2], "a", [3, 4]]):
        with pytest.raises(DataError, match=r"hold no numbers: 'e' \(object\)|'e' holds text"):
            rows_of(pd.DataFrame({"e": strange}), HERE)


@pytest.mark.parametrize("matrix", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix])
def test_sparse_matrices_are_csr(matrix):
    table = np.where(TABLE > 0.5, TABLE, 0)
    rows = rows_of(matrix(table), HERE)
    assert isinstance(rows, CsrRows)
    assert_array_equal(rows.read_all().toarray(), table)


@pytest.mark.parametrize(("dtype", "read_as"), [
    ("float32", "float32"), ("float64", "float64"), ("float16", "float32"), ("int8", "float32"), ("int64", "float32"),
    ("bool", "float32"), ("uint16", "float32"), (">f8", "float64"),
])
def test_numbers_of_every_type(dtype, read_as, tmp_path):
    table = np.arange(12).reshape(6, 2).astype(dtype)
    expected = table.astype(read_as)
    given = [table, memory_map(tmp_path, table), Ranges(table), da.from_array(table, chunks=(4, 1))]
    if dtype != "float16" and dtype[0] != ">":
        given += [pd.DataFrame(table), dd.from_pandas(pd.DataFrame(table), npartitions=2)]
    for X in given:
        assert_array_equal(rows_of(X, HERE).read_all(), expected, strict=True)


def test_a_memory_map_stays_mapped(tmp_path):
    mapped = memory_map(tmp_path)
    rows = rows_of(mapped, HERE)
    assert np.shares_memory(rows.read_all(), mapped)
    with pytest.raises(DataError, match="real numbers"):
        rows_of(memory_map(tmp_path, TABLE.astype(complex)), HERE)


def test_an_array_on_disk_is_never_read_whole():
    """67 MB are looked at in ranges of 16 MB, by the check and by one that takes a few rows."""
    X = Ranges(np.zeros((1 << 18, 32), np.float64))
    rows = rows_of(X, HERE)
    rows.take(np.array([1, 200_000]))
    assert isinstance(rows, SlicedRows)
    assert X.max_rows * 32 * 8 <= 16 << 20


@given(st.data())
def test_pieces_of_any_heights_are_one_table(data):
    heights = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=6))
    n, parts = sum(heights), MemoryParts()
    table = np.arange(2.0 * n).reshape(n, 2)
    starts = np.concatenate([[0], np.cumsum(heights)])
    for index, height in enumerate(heights):
        if height:
            parts.allocate(f"piece{index:06d}", (height, 2), float, 4)
            parts.write_range(0, {f"piece{index:06d}": table[starts[index]:starts[index + 1]]})
    rows = PieceRows(parts, starts, (n, 2), np.dtype(float))
    start, stop = sorted((data.draw(st.integers(0, n)), data.draw(st.integers(0, n + 3))))
    assert_array_equal(rows.read(start, stop), table[start:stop])
    if n:
        ids = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=8)), int)
        assert_array_equal(rows.take(ids), table[ids])


def test_a_partition_is_computed_once_and_not_by_the_driver_of_a_persisted_array():
    seen = []

    def look(block):
        seen.append(block.shape)
        return block

    X = da.from_array(TABLE, chunks=(6, 3)).map_blocks(look, dtype=TABLE.dtype, meta=np.empty((0, 0), np.float32))
    assert_array_equal(rows_of(X, HERE).read_all(), TABLE)
    assert sorted(seen) == [(5, 3), (6, 3), (6, 3), (6, 3)]


# What cannot be used


def broken(table, row, column, value):
    table = table.copy()
    table[row, column] = value
    return table


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("array", "list", "data set",
                                                                         "stored data set")])
@pytest.mark.parametrize(("value", "text"), [(np.nan, "nan"), (-np.inf, "-inf")])
def test_what_is_not_finite_is_named_by_row_and_column(kind, value, text, tmp_path):
    table = broken(TABLE, 17, 1, value)
    X = {"memory map": lambda: memory_map(tmp_path, table), "zarr": lambda: zarr_array(tmp_path, table),
         "slices": lambda: Ranges(table), "frame": lambda: frame(table), "rows": lambda: ArrayRows(table),
         "dask array": lambda: da.from_array(table, chunks=(7, 2)),
         "dask array of unknown chunks": lambda: unknown_chunks(table),
         "dask frame": lambda: dd.from_pandas(frame(table), npartitions=3, sort=False)}[kind]()
    named = r" \('b'\)" if "frame" in kind else ""
    words = "column 'b' has a missing cell in row 17" if (kind, text) == ("frame", "nan") else \
        f"row 17, column 1{named} is {text}"
    with pytest.raises(DataError, match=words):
        rows_of(X, HERE)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_arrays_are_refused_by_scikit_learn(bad):
    with pytest.raises(ValueError, match="Input X contains"):
        rows_of(broken(TABLE, 3, 1, bad), HERE)
    with pytest.raises(ValueError, match="Input X contains"):
        rows_of(sparse.csr_array(broken(TABLE, 3, 1, bad)), HERE)
    with pytest.raises(ValueError, match="Complex data"):
        rows_of(TABLE.astype(complex), HERE)
    with pytest.raises(ValueError, match="Expected 2D array"):
        rows_of(TABLE[0], HERE)


def test_values_below_a_mask_are_not_data():
    with pytest.raises(DataError, match="masked array, 1 of its values hidden"):
        rows_of(np.ma.masked_array(TABLE, mask=np.arange(69).reshape(23, 3) == 4), HERE)
    assert_array_equal(rows_of(np.ma.masked_array(TABLE), HERE).read_all(), TABLE)  # nothing is hidden


def test_the_first_value_that_is_not_finite():
    assert not_finite(TABLE) == (0, None)
    assert not_finite(broken(broken(TABLE, 9, 0, np.nan), 4, 2, np.inf)) == (2, (4, 2, "inf"))
    matrix = sparse.csr_array(broken(np.where(TABLE > 0, TABLE, 0), 6, 1, np.inf))
    assert not_finite(matrix)[1] == (6, 1, "inf")
    assert not_finite(sparse.csr_array((4, 2))) == (0, None)


@pytest.mark.parametrize(("column", "text"), [
    (pd.Series(list("xyz")), "'odd' "), (pd.Series(list("xyz"), dtype="category"), "'odd' \\(category"),
    (pd.Series([1, 2, 3], dtype="category"), "'odd' \\(category"), (pd.Series([1, "a", None], dtype=object), "object"),
    (pd.to_datetime(pd.Series(["2020-01-01"] * 3)), "datetime"), (pd.Series([1j, 2, 3]), "complex"),
])
@pytest.mark.parametrize("lazy", [False, True])
def test_columns_that_are_no_numbers_are_named_with_the_ways_out(column, text, lazy):
    if lazy and text == "object":
        column = column.astype(str)
        text = "'odd'"
    X = pd.DataFrame({"even": [0.0, 1, 2], "odd": column})
    cells = not lazy and column.map(lambda cell: isinstance(cell, str)).any()
    words = "column 'odd' holds text: '[xa]' in row [01]" if cells else f"1 of 2 columns hold no numbers: .*{text}"
    with pytest.raises(DataError, match=f"{words}(.|\n)*get_dummies"):
        rows_of(dd.from_pandas(X, npartitions=2) if lazy else X, HERE)


def test_nullable_columns():
    X = pd.DataFrame({"whole": pd.array([1, 2, 3], "Int64"), "yes": pd.array([True, False, True], "boolean"),
                      "real": pd.array([0.5, 1.5, 2.5], "Float32")})
    expected = np.array([[1, 1, 0.5], [2, 0, 1.5], [3, 1, 2.5]])
    assert_array_equal(rows_of(X, HERE).read_all(), expected)
    assert_array_equal(rows_of(dd.from_pandas(X, npartitions=2), HERE).read_all(), expected)
    X.loc[1, "whole"] = pd.NA
    with pytest.raises(DataError, match="'whole' has a missing cell in row 1"):
        rows_of(X, HERE)
    with pytest.raises(DataError, match=r"row 1, column 0 \('whole'\) is nan"):
        rows_of(dd.from_pandas(X, npartitions=2), HERE)


@pytest.mark.parametrize(("X", "message"), [
    (da.zeros((4, 3, 2)), "X has 3 dimensions"), (da.zeros(4), "X has 1 dimensions"),
    (da.zeros((4, 2), dtype=complex), "real numbers"), (da.zeros((0, 2)), "hold 0 rows"),
    (da.from_array(TABLE, chunks=(9, 3)).map_blocks(sparse.csr_matrix), "blocks of X are csr_matrix"),
    (dd.from_pandas(frame(), npartitions=1).a, "X has 1 dimensions"),
])
def test_collections_that_are_no_table(X, message):
    with pytest.raises(DataError, match=message):
        rows_of(X, HERE)


def test_rows_and_arrays_on_disk_that_are_no_table():
    for shape in ((4,), (4, 2, 2)):
        with pytest.raises(DataError, match="X has shape"):
            rows_of(ArrayRows(np.zeros(shape)), HERE)
    for shape in ((4,), (4, 2, 2), (0, 2)):
        with pytest.raises(DataError, match="X has shape"):
            rows_of(Ranges(np.zeros(shape)), HERE)


# Labels and names


def test_labels_of_every_kind(tmp_path):
    y = np.arange(23) % 3 - 1
    series = pd.Series(y, index=np.arange(23)[::-1])
    np.save(tmp_path / "y.npy", y)
    stored = Dataset.from_arrays(TABLE, y).save(tmp_path / "set")
    for given_labels in (y, y.tolist(), series, da.from_array(y, chunks=4), stored, stored.y,
                         dd.from_pandas(series, npartitions=3, sort=False), np.load(tmp_path / "y.npy", mmap_mode="r"),
                         zarr.array(y)):
        assert_array_equal(np.asarray(labels_of(given_labels)), y)


def test_labels_of_a_data_set_have_their_names():
    text = np.array(["spam", None, "ham", "spam"], object)
    assert labels_of(Dataset.from_arrays(TABLE[:4], text)).tolist() == text.tolist()
    with pytest.raises(DataError, match="has no target"):
        labels_of(Dataset.from_arrays(TABLE))
    with pytest.raises(DataError, match="official split"):
        labels_of(Dataset.from_arrays(TABLE[:4], text, split=[0, 0, 1, 1]))


def test_names_are_known_before_anything_is_computed():
    assert header_of(TABLE) is None
    assert header_of(ArrayRows(TABLE)) is None
    assert header_of(Dataset.from_arrays(TABLE)) is None
    for X in (frame(), dd.from_pandas(frame(), npartitions=2), Dataset.from_arrays(frame())):
        assert list(header_of(X).columns) == ["a", "b", "c"]


@pytest.mark.parametrize("y", [[0, -1, 1], [0.5, None, 2.0], ["a", None, "b"]])
def test_labels_of_polars_are_those_of_pandas(y):
    expected = Dataset.from_arrays(TABLE[:3], pd.Series(y))
    made = Dataset.from_arrays(TABLE[:3], pl.Series(y))
    assert_array_equal(made.y.read_all(), expected.y.read_all())
    assert made.attributes == expected.attributes


# On a cluster


@pytest.mark.slow
@pytest.mark.cluster
def test_on_a_cluster_the_driver_holds_no_partition(cluster_client, tmp_path):
    """Partitions are made and written in the workers; whatever only the driver can open is copied for them."""
    import os

    def mark(block):
        np.save(tmp_path / f"{os.getpid()}-{len(block)}-{int(1e6 * block[0, 0])}.npy", block)
        return block

    execution = OnDask(cluster_client)
    X = da.from_array(TABLE, chunks=(4, 2)).rechunk({1: -1}).map_blocks(mark, dtype=np.float32,
                                                                       meta=np.empty((0, 0), np.float32))
    rows = rows_of(X, execution)
    assert_array_equal(rows.read_all(), TABLE)
    made = [int(path.name.split("-")[0]) for path in tmp_path.glob("*.npy")]
    assert len(made) == 6
    assert os.getpid() not in made
    for kind in ("zarr", "slices", "memory map", "dask frame", "dask array of unknown chunks", "rows"):
        rows = rows_of(KINDS[kind](tmp_path), execution)
        there = cluster_client.submit(lambda held: held.take(np.array([22, 0])), rows).result()
        assert_array_equal(there, TABLE[[22, 0]])
        assert_array_equal(rows.read_all(), TABLE)
    assert isinstance(rows_of(memory_map(tmp_path), execution), StoredRows)
    with cluster_client.as_current():
        persisted = da.from_array(TABLE, chunks=(5, 3)).persist()
        assert_array_equal(rows_of(persisted, execution).read_all(), TABLE)
    with pytest.raises(DataError, match="row 20, column 2 is nan"):
        rows_of(da.from_array(broken(TABLE, 20, 2, np.nan), chunks=(5, 3)), execution)


@pytest.mark.parametrize("of", [np.asarray, pd.DataFrame, lambda X: pd.DataFrame(X).astype("Int64"),
                                lambda X: pd.DataFrame(X).astype("int64[pyarrow]")])
def test_whole_numbers_beyond_float32_keep_their_digits(of):
    X = 3 * 10**10 + np.arange(20, dtype=np.int64).reshape(10, 2)
    X = X.astype(np.uint64) if of is np.asarray else X
    assert rows_of(of(X), InProcess(1)).read_all().tolist() == X.astype(np.float64).tolist()
    assert rows_of(of(X - 3 * 10**10), InProcess(1)).dtype == np.float32


def test_numbers_that_are_kept_as_objects_or_text_keep_their_digits():
    X = np.random.default_rng(0).normal(size=(6, 2))
    for numbers in (pd.DataFrame(X).astype(object), X.astype(object), X.astype(str)):
        rows = rows_of(numbers, HERE)
        assert rows.dtype == np.float64
        assert_array_equal(rows.read_all(), X)
    mixed = pd.DataFrame({"a": [1, 2.5, True], "b": [1, 2, 3]}, dtype=object)
    with pytest.raises(DataError, match=r"1 of 2 columns hold no numbers: 'a' \(object\)"):
        rows_of(mixed, HERE)
