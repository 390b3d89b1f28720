"""Arrow files (Feather): what is read, against Parquet; only the record batches that rows lie in; what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError, DsslError
from dssl.data.ingest import ingest
from dssl.data.readers.formats import open_reader
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts

from .reading import dense, read_all
from .test_parquet import VECTORS, columns, dense_of

N = 1000


def write(path, arrays, batch=170, compression="uncompressed"):
    feather.write_feather(pa.table(arrays), path, compression=compression, chunksize=batch)
    return path


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
@pytest.mark.parametrize("ending", ["feather", "arrow", "ipc"])
def test_reads_what_was_written(tmp_path, compression, ending):
    arrays = columns()
    scan, block = read_all(write(tmp_path / f"t.{ending}", arrays, compression=compression), tmp_path)
    assert (scan.n_rows, scan.n_columns, scan.target, scan.feature_names) == (N, 3, "kind", ("a", "b", "c"))
    assert_array_equal(block.X, dense_of(arrays, "abc"))
    assert block.y.tolist() == arrays["kind"].tolist()


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(n=st.integers(1, 40), batch=st.integers(1, 41), data=st.data())
def test_any_rows_of_any_record_batches(tmp_path_factory, n, batch, data):
    folder, arrays = tmp_path_factory.mktemp("batches"), columns(n)
    compression = data.draw(st.sampled_from(["uncompressed", "lz4"]))
    reader = open_reader(write(folder / "t.arrow", arrays, batch, compression), scratch=folder)
    start = data.draw(st.integers(0, n - 1))
    stop = data.draw(st.integers(start + 1, n))
    block = dense(reader.narrow(start, stop).read(start, stop))
    assert_array_equal(block.X, dense_of(arrays, "abc")[start:stop])
    assert block.y.tolist() == arrays["kind"][start:stop].tolist()


def test_what_polars_and_pandas_write_is_read_as_their_parquet(tmp_path):
    frame = pd.DataFrame({"n": [1, None, 3, 4], "kind": pd.Categorical(["b", None, "a", "b"]), "e": VECTORS,
                          "y": ["u", "v", "u", None]})
    frame.to_feather(tmp_path / "pandas.feather")
    pl.from_pandas(frame).write_ipc(tmp_path / "polars.arrow", compression="zstd")
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet")
    expected = ingest(tmp_path / "t.parquet", MemoryParts(), InProcess(1), when_missing="impute", when_text="one_hot")
    for name in ("pandas.feather", "polars.arrow"):
        data = ingest(tmp_path / name, MemoryParts(), InProcess(1), when_missing="impute", when_text="one_hot")
        assert data.feature_names == expected.feature_names
        assert_array_equal(data.X.read_all(), expected.X.read_all())
        assert_array_equal(data.targets(), expected.targets())
        assert data.attributes["format"] == "arrow"


def test_a_table_of_mapped_batches_is_not_held_whole(tmp_path):
    n, d = 60_000, 8
    X = np.random.default_rng(0).normal(size=(n, d))
    path = write(tmp_path / "t.arrow", {f"f{j}": X[:, j] for j in range(d)}, n // 2)
    reader = open_reader(path, scratch=tmp_path, target="none")
    scan = reader.scan()
    assert scan.unit_bytes >= n // 2 * 8 * d
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert_array_equal(dense(reader.read(29_990, 30_100)).X, X[29_990:30_100])
        peak = pool.max_memory()
    finally:
        pa.set_memory_pool(before)
    assert peak <= 3 * 110 * scan.row_bytes


def test_other_and_shortened_files_are_named(tmp_path):
    raw = write(tmp_path / "t.arrow", columns()).read_bytes()
    for name, content in (("text", b"a,b\n1,2\n"), ("cut", raw[:len(raw) // 2]), ("head", raw[len(raw) // 2:])):
        (tmp_path / f"{name}.arrow").write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}\.arrow \([\d,]+ bytes\) cannot be read as a file of Arrow"):
            read_all(tmp_path / f"{name}.arrow", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
@pytest.mark.extended_cases("lz4")
def test_damaged_files_are_read_or_refused_but_never_crash(tmp_path, compression):
    rng, refused = np.random.default_rng(3), []
    raw = write(tmp_path / "t.arrow", columns(200), 60, compression).read_bytes()
    for _ in range(40):
        changed = bytearray(raw)
        changed[int(rng.integers(4, len(raw) - 8))] ^= int(rng.integers(1, 256))
        (tmp_path / "bad.arrow").write_bytes(changed)
        try:
            ingest(tmp_path / "bad.arrow", MemoryParts(), InProcess(1), dtype="float64")
        except DsslError as error:
            refused.append(str(error))
    assert refused
    assert all("bad.arrow" in message for message in refused)


def test_a_file_that_changes_after_its_scan_is_noticed(tmp_path):
    path = write(tmp_path / "t.arrow", columns())
    reader = open_reader(path, scratch=tmp_path)
    reader.scan()
    write(path, columns(N - 200))
    with pytest.raises(DataError, match="has 5 record batches, and had 6"):
        reader.read(0, 10)
