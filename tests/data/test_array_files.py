"""npy, npz and IDX files, against NumPy."""

import gzip
import io
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl.base.errors import DataError, ParameterError
from dssl.data.readers.formats import FORMATS, format_of, open_reader
from dssl.data.readers.npy import map_npy
from dssl.data.sources import find_source
from tests.memory import traced_peak

from .reading import dense, read_all

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", "u1", "?", "<f2", ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_any_number_type(tmp_path, dtype, order):
    X = np.asarray(RNG.integers(0, 2 if dtype == "?" else 100, (50, 7)), dtype, order=order)
    np.save(tmp_path / "x.npy", X)
    scan, block = read_all(tmp_path / "x.npy", tmp_path)
    assert (scan.n_rows, scan.n_columns, scan.target, block.y) == (50, 7, None, None)
    assert_array_equal(block.X, X.astype(float))
    assert block.X.flags.c_contiguous
    assert_array_equal(open_reader(tmp_path / "x.npy", scratch=tmp_path).read(13, 29).X, X[13:29])


def test_npy_with_labels_images_and_gzip(tmp_path):
    X, y = RNG.integers(0, 256, (20, 4, 3), dtype=np.uint8), np.array(["cat", "dog"] * 10)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", y)
    (tmp_path / "x.npy.gz").write_bytes(gzip.compress((tmp_path / "x.npy").read_bytes()))
    for name in ("x.npy", "x.npy.gz"):
        scan, block = read_all(tmp_path / name, tmp_path, labels=tmp_path / "y.npy")
        assert (scan.n_columns, scan.target) == (12, "y.npy")
        assert_array_equal(block.X, X.reshape(20, 12))
        assert block.y.tolist() == y.tolist()


@pytest.mark.parametrize(("suffix", "order", "d"), [("npy", "C", 128), ("idx", "C", 128), ("npy", "F", 2)])
def test_a_file_is_mapped_and_never_loaded(tmp_path, suffix, order, d):
    """A file of 64 GB (1 GB) that is nearly all hole; NumPy's allocations are traced."""
    shape, path = (1 << 20, d, 64), tmp_path / f"huge.{suffix}"
    header = io.BytesIO()
    if suffix == "npy":
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": order == "F", "shape": shape})
    else:
        header.write(bytes([0, 0, 0x0E, 3]) + struct.pack(">3I", *shape))
    with open(path, "wb") as file:
        file.write(header.getvalue())
        file.truncate(len(header.getvalue()) + (d << 29))
    np.save(tmp_path / "y.npy", np.arange(1 << 20))
    options = {"labels": tmp_path / "y.npy"} if suffix == "npy" else {}

    def work():
        reader = open_reader(path, scratch=tmp_path, **options)
        return reader.scan(), dense(reader.read(1000, 1010), np.float32)

    scan, block = work()
    assert (scan.n_rows, scan.n_columns, block.X.shape, block.X.any()) == (1 << 20, 64 * d, (10, 64 * d), False)
    assert suffix == "idx" or block.y.tolist() == list(range(1000, 1010))
    upper_bound = (1 << 18) + 4 * 10 * 64 * d * 8  # the rows, as they are and as float32, and what opens the file
    assert traced_peak(work, upper_bound) < upper_bound


def test_images_whose_columns_lie_together(tmp_path):
    X = np.asfortranarray(RNG.normal(size=(20, 4, 3)))
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X=X)
    for name in ("x.npy", "x.npz"):
        scan, block = read_all(tmp_path / name, tmp_path)
        assert (scan.n_rows, scan.n_columns) == (20, 12)
        assert_array_equal(block.X, X.reshape(20, 12))
        assert_array_equal(dense(open_reader(tmp_path / name, scratch=tmp_path).read(3, 8)).X, block.X[3:8])


def test_one_axis_is_one_column(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(5.0))
    _, block = read_all(tmp_path / "x.npy", tmp_path)
    assert_array_equal(block.X, np.arange(5.0)[:, None])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_dense(tmp_path, save):
    X, y, split = RNG.normal(size=(40, 3)), np.arange(40) % 4, (np.arange(40) > 30).astype(np.uint8)
    save(tmp_path / "d.npz", X=X, y=y, split=split, columns=np.array(["a", "b", "c"]), extra=np.zeros((2, 2)))
    scan, block = read_all(tmp_path / "d.npz", tmp_path)
    assert (scan.n_rows, scan.n_columns, scan.has_split, scan.feature_names) == (40, 3, True, ("a", "b", "c"))
    assert_array_equal(block.X, X)
    assert_array_equal(block.y, y)
    assert_array_equal(block.split, split)
    part = open_reader(tmp_path / "d.npz", scratch=tmp_path).read(5, 9)
    assert_array_equal(part.X, X[5:9])
    assert_array_equal(part.split, split[5:9])


def test_npz_sparse(tmp_path):
    X = sparse.random_array((60, 9), density=0.3, rng=RNG, format="csr")
    parts = {"data": X.data, "indices": X.indices.astype(np.uint16), "indptr": X.indptr, "shape": np.array(X.shape)}
    np.savez(tmp_path / "s.npz", **parts, y=np.arange(60.0))
    scan, block = read_all(tmp_path / "s.npz", tmp_path)
    assert (scan.n_rows, scan.n_columns, scan.target) == (60, 9, "y")
    assert_array_equal(block.X, X.toarray())
    reader = open_reader(tmp_path / "s.npz", scratch=tmp_path)
    rows = [reader.read(i, min(i + 7, 60)).X for i in range(0, 60, 7)]
    assert all(sparse.issparse(block) for block in rows)
    assert_array_equal(sparse.vstack(rows).toarray(), X.toarray())
    sparse.save_npz(tmp_path / "scipy.npz", X)
    assert_array_equal(read_all(tmp_path / "scipy.npz", tmp_path)[1].X, X.toarray())


def test_npz_repeated_entries_are_summed_as_scipy_does(tmp_path):
    np.savez(tmp_path / "s.npz", data=[1.0, 2.0, 4.0], indices=[1, 1, 0], indptr=[0, 2, 3], shape=[2, 2])
    assert_array_equal(read_all(tmp_path / "s.npz", tmp_path)[1].X, [[0, 3], [4, 0]])


def test_npz_members_by_name(tmp_path):
    np.savez(tmp_path / "d.npz", X=np.eye(4), y=np.zeros(4), kind=np.array([1, 2, 3, 4]), fold=np.array([0, 1, 0, 1]))
    _, block = read_all(tmp_path / "d.npz", tmp_path, target="kind", split="fold")
    assert block.y.tolist() == [1, 2, 3, 4]
    assert block.split.tolist() == [0, 1, 0, 1]
    assert read_all(tmp_path / "d.npz", tmp_path, target="none")[1].y is None
    with pytest.raises(DataError, match=r"no member 'nope'.*X, fold, kind, y"):
        read_all(tmp_path / "d.npz", tmp_path, target="nope")


def pickled(tmp_path):
    np.savez(tmp_path / "bad.npz", X=np.array([{"a": 1}], dtype=object))


def csc(tmp_path):
    sparse.save_npz(tmp_path / "bad.npz", sparse.csc_matrix(np.ones((3, 5))))


def test_labels_beside_an_npz_file_are_refused_with_where_they_stand(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(3))
    np.save(tmp_path / "y.npy", np.arange(3))
    with pytest.raises(ParameterError, match=rf"(?s)labels={tmp_path}/y.npy does not apply to x.npz.*array y of"):
        open_reader(tmp_path / "x.npz", scratch=tmp_path, labels=tmp_path / "y.npy")


@pytest.mark.parametrize(("arrays", "message"), [
    (pickled, "unpickling a file runs whatever code"),
    (csc, "indptr.*6 entries for 3 rows"),
    ({"points": np.eye(2)}, "holds points, expected X"),
    ({"row": [0], "col": [0], "data": [1.0], "format": b"coo"}, "X.tocsr"),
    ({"X": np.eye(3), "y": np.zeros(2)}, r"\['y'\] has shape \(2,\), expected \(3,\)"),
    ({"X": np.eye(3), "y": np.zeros((3, 2))}, r"shape \(3, 2\)"),
    ({"X": np.eye(3), "y": np.zeros(3, complex)}, "labels of type complex128"),
    ({"X": np.eye(3), "split": np.array([0, 1, 2])}, r"holds \[0, 1, 2\], expected 0 and 1"),
    ({"X": np.array([["a", "b"]])}, "values of type <U1, expected numbers"),
    ({"X": np.eye(2) * 1j}, "complex128, expected numbers"),
    ({"X": np.zeros((0, 3))}, "has no rows"),
    ({"X": np.zeros((3, 0))}, "no columns"),
    ({"X": np.float64(3)}, "one number"),
    ({"data": [1.0], "indices": [0], "indptr": [0, 1, 2], "shape": [2, 2]}, "cut short"),
    ({"data": [1.0, 1.0], "indices": [0, 5], "indptr": [0, 1, 2], "shape": [2, 2]}, "holds column 5 in row 1"),
    ({"data": [1.0, 1.0], "indices": [0, 1], "indptr": [0, 2, 1, 2], "shape": [3, 2]}, "falls at row 1"),
])
def test_npz_refused(tmp_path, arrays, message):
    if callable(arrays):
        arrays(tmp_path)
    else:
        np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_all(tmp_path / "bad.npz", tmp_path)


def test_damaged_archives_are_refused(tmp_path):
    np.savez_compressed(tmp_path / "d.npz", X=RNG.normal(size=(500, 20)))
    good = (tmp_path / "d.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(good[:len(good) // 2])
    with pytest.raises(DataError, match=r"cut\.npz.*is not a \.npz archive"):
        read_all(tmp_path / "cut.npz", tmp_path)
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 0xFF
    (tmp_path / "flipped.npz").write_bytes(flipped)
    with pytest.raises(DataError, match=r"flipped\.npz"):
        read_all(tmp_path / "flipped.npz", tmp_path)


def test_npy_refused(tmp_path):
    np.save(tmp_path / "x.npy", RNG.normal(size=(50, 4)))
    raw = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(raw[:-100])
    with pytest.raises(DataError, match=r"cut\.npy"):
        read_all(tmp_path / "cut.npy", tmp_path)
    (tmp_path / "header.npy").write_bytes(raw[:20])
    with pytest.raises(DataError, match=r"header\.npy"):
        read_all(tmp_path / "header.npy", tmp_path)
    (tmp_path / "text.npy").write_text("1,2,3\n")
    with pytest.raises(DataError, match="magic string"):
        read_all(tmp_path / "text.npy", tmp_path)
    np.save(tmp_path / "short.npy", np.zeros(7))
    with pytest.raises(DataError, match=r"short\.npy has shape \(7,\), expected \(50,\)"):
        read_all(tmp_path / "x.npy", tmp_path, labels=tmp_path / "short.npy")
    with pytest.raises(DataError, match=r"labels text\.npy is no \.npy file[\s\S]*np\.save"):
        read_all(tmp_path / "x.npy", tmp_path, labels=tmp_path / "text.npy")


# ---- IDX

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx_bytes(array):
    header = bytes([0, 0, CODES[array.dtype.str[1:]], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("dtype", list(CODES))
def test_idx_of_every_type(tmp_path, dtype):
    images = RNG.integers(0, 100, (15, 4, 5)).astype(dtype)
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(idx_bytes(images))
    (tmp_path / "packed-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(images)))
    for file in (path, tmp_path / "packed-images-idx3-ubyte.gz"):
        scan, block = read_all(file, tmp_path)
        assert (scan.n_rows, scan.n_columns, scan.dtype) == (15, 20, str(np.dtype(dtype)))
        assert_array_equal(block.X, images.reshape(15, 20))
    assert_array_equal(dense(open_reader(path, scratch=tmp_path).read(3, 8)).X, images.reshape(15, 20)[3:8])


@pytest.mark.parametrize(("images", "labels"), [
    ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"),
    ("t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"),
    ("train-images-idx3-ubyte", "train-labels-idx1-ubyte.gz"),
])
def test_idx_labels_beside_the_images(tmp_path, images, labels):
    X, y = RNG.integers(0, 256, (6, 2, 2), dtype=np.uint8), np.arange(6, dtype=np.uint8)
    for name, array in ((images, X), (labels, y)):
        raw = idx_bytes(array)
        (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    source = find_source(tmp_path / images)
    assert source.labels == tmp_path / labels
    _, block = read_all(source.path, tmp_path, labels=source.labels)
    assert block.y.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(("raw", "message"), [
    (b"\x00\x00\x07\x01\x00\x00\x00\x01\x05", "begins with bytes 00 00 07 01"),
    (b"\x1f\x8b", "begins with bytes 1f 8b"),
    (idx_bytes(np.ones((4, 3), np.uint8))[:-2], r"24 bytes expected, 22 found"),
    (idx_bytes(np.ones((4, 3), np.uint8)) + b"xx", "2 bytes more"),
    (idx_bytes(np.ones((4, 3), np.uint8))[:9], "cut short: 12 bytes expected, 9 found"),
    (idx_bytes(np.ones((0, 3), np.uint8)), "has no rows"),
])
def test_idx_refused(tmp_path, raw, message):
    (tmp_path / "bad.idx").write_bytes(raw)
    with pytest.raises(DataError, match=message):
        read_all(tmp_path / "bad.idx", tmp_path)


def test_idx_labels_of_another_file_are_refused(tmp_path):
    (tmp_path / "x.idx").write_bytes(idx_bytes(np.ones((4, 3), np.uint8)))
    (tmp_path / "y.idx").write_bytes(idx_bytes(np.ones(5, np.uint8)))
    with pytest.raises(DataError, match="do not belong together"):
        read_all(tmp_path / "x.idx", tmp_path, labels=tmp_path / "y.idx")


def test_formats_by_their_endings(tmp_path):
    named = {"a.npz": "npz", "a.npy.gz": "npy", "A.CSV": "csv", "a.tsv.xz": "csv", "a.libsvm.bz2": "svmlight",
             "train-images-idx3-ubyte": "idx", "t10k-images.idx3-ubyte.gz": "idx",
             "a.parquet": "parquet", "part-0.pq": "parquet", "table.feather": "arrow", "cells.h5ad": "h5ad"}
    assert {name: format_of(tmp_path / name) for name in named} == named
    assert set(FORMATS) - {"anndata", "zarr", "dssl", "manifolds"} == set(named.values())
    with pytest.raises(DataError, match=r"table\.ods has an ending that stands for no format"):
        format_of(tmp_path / "table.ods")
    for name in ("a.h5", "b.HDF5", "c.h5.gz"):
        with pytest.raises(DataError, match=r"is HDF5 by its ending[\s\S]*numpy\.save\('\w\.npy', h5py\.File\('"):
            format_of(tmp_path / name)
    with pytest.raises(ParameterError, match="format='hdf5'"):
        format_of(tmp_path / "a.h5", "hdf5")
    with pytest.raises(DataError, match="is not a file"):
        open_reader(tmp_path / "absent.csv", scratch=tmp_path)


def test_threads_parse_heads_one_after_the_other(tmp_path, monkeypatch):
    """Two at once fail now and then in CPython 3.11."""
    np.save(tmp_path / "X.npy", np.arange(6.0).reshape(3, 2))
    real, inside, most = np.lib.format.open_memmap, [], []

    def watched(*args, **kwargs):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        try:
            return real(*args, **kwargs)
        finally:
            inside.pop()

    monkeypatch.setattr(np.lib.format, "open_memmap", watched)
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(lambda _: map_npy(tmp_path / "X.npy", "X.npy")[2, 1], range(8)))
    assert read == [5.0] * 8
    assert max(most) == 1
