"""Data sets that are folders: Zarr that others wrote, and what dssl wrote."""

import pickle
import shutil

import numpy as np
import pandas as pd
import pytest
import zarr
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError, IntegrityError, ParameterError
from dssl.data.dataset import Dataset
from dssl.data.ingest import ingest, open_dataset
from dssl.data.readers.formats import format_of, open_reader
from dssl.data.source_files import fingerprint
from dssl.data.sources import find_source
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import MemoryParts
from dssl.storage.store import StoredParts

from .reading import read_all

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of Zarr, about text
X = np.random.default_rng(0).normal(size=(53, 6))
Y = np.arange(53) % 3


def make(folder, version, X=X, **arrays):
    """Write a group of this version of Zarr."""
    group = zarr.open_group(str(folder), mode="w", zarr_format=version)
    for name, values in {"X": X, **arrays}.items():
        values = np.asarray(values)
        group.create_array(name, data=values, chunks=(10, *values.shape[1:]))
    return folder


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.extended_cases("2")
def test_a_group_with_labels_and_a_split(tmp_path, version):
    path = make(tmp_path / "g.zarr", version, y=Y, split=(Y == 2).astype(np.uint8), other=np.zeros(7))
    scan, block = read_all(path, tmp_path)
    assert (scan.n_rows, scan.n_columns, scan.target, scan.has_split) == (53, 6, "y", True)
    assert scan.unit_bytes >= 10 * 6 * 8
    assert_array_equal(block.X, X)
    assert_array_equal(block.y, Y)
    assert_array_equal(block.split, Y == 2)
    for height in (1, 9, 53):
        data = ingest(path, MemoryParts(), InProcess(2), block_rows=height, dtype="float64")
        assert_array_equal(data.X.read_all(), X)
    assert data.attributes["format"] == "zarr"
    assert read_all(path, tmp_path, target="none", split="none")[1].y is None
    with pytest.raises(DataError, match=r"no member 'label', it holds X, other, split, y"):
        read_all(path, tmp_path, target="label")
    with pytest.raises(DataError, match=r"\['other'\] has shape \(7,\)"):
        read_all(path, tmp_path, target="other")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_lone_array_of_images(tmp_path, version, order):
    images = np.arange(60, dtype=np.int16).reshape(10, 2, 3)
    zarr.create_array(str(tmp_path / "a"), data=images, chunks=(3, 1, 2), zarr_format=version,
                      **({"order": order} if version == 2 else {}))
    scan, block = read_all(tmp_path / "a", tmp_path)
    assert (scan.n_columns, scan.target) == (6, None)
    assert_array_equal(block.X, images.reshape(10, 6))
    assert_array_equal(open_dataset(tmp_path / "a").X.read(4, 9), images.reshape(10, 6)[4:9])


@pytest.mark.parametrize("labels", [np.array(["oak", "ash", "birch"])[Y], np.array([b"oak", b"ash"])[Y % 2]])
def test_labels_that_are_text(tmp_path, labels):
    data = open_dataset(make(tmp_path / "g.zarr", 2, y=labels))
    names = [name if isinstance(name, str) else name.decode() for name in labels.tolist()]
    assert data.attributes["label_names"] == sorted(set(names))
    assert [data.attributes["label_names"][code] for code in data.targets()] == names


def test_text_of_any_length(tmp_path):
    group = zarr.open_group(str(make(tmp_path / "g", 3)), mode="a")
    labels = np.array(["oak", "a long name"], object)[Y % 2]
    group.create_array("y", shape=(53,), dtype="string", chunks=(10,))[:] = labels
    assert open_dataset(tmp_path / "g").attributes["label_names"] == ["a long name", "oak"]


@pytest.mark.parametrize("version", [2, 3])
def test_a_missing_chunk_is_its_fill_value(tmp_path, version):
    array = zarr.create_array(str(tmp_path / "a"), shape=(30, 2), chunks=(10, 2), dtype="f4", fill_value=7,
                              zarr_format=version)
    array[10:20] = 1
    assert_array_equal(open_dataset(tmp_path / "a").X.read_all()[:, 0], [7] * 10 + [1] * 10 + [7] * 10)


def test_a_shard_and_a_store_without_compression(tmp_path):
    zarr.create_array(str(tmp_path / "a"), data=X, chunks=(5, 6), shards=(20, 6))
    zarr.create_array(str(tmp_path / "b"), data=X, chunks=(5, 3), compressors=None)
    for name in "ab":
        assert_array_equal(read_all(tmp_path / name, tmp_path)[1].X, X)


def chunk_of(folder):
    return next(path for path in sorted(folder.rglob("*")) if path.is_file() and path.name[0] not in ".z")


@pytest.mark.parametrize("version", [2, 3])
def test_damaged_chunks_and_metadata_are_refused(tmp_path, version):
    path = make(tmp_path / "g", version)
    chunk = chunk_of(path / "X")
    chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(DataError, match="g cannot be read as Zarr"):
        open_dataset(path)
    meta = path / "X" / ("zarr.json" if version == 3 else ".zarray")
    for text in ("{", "{}", meta.read_text().replace("float64", "flaot64").replace("<f8", "<q9")):
        meta.write_text(text)
        with pytest.raises(DataError, match=r"g cannot be read as Zarr|holds no arrays"):
            open_dataset(path)


@pytest.mark.parametrize(("arrays", "message"), [
    ({"X": np.array([["a"]])}, "expected numbers"), ({"X": np.zeros((0, 3))}, "has no rows"),
    ({"X": np.ones((3, 2)), "split": [0, 1, 2]}, r"holds \[0, 1, 2\]"),
    ({"X": np.ones((3, 2)), "y": [0, 1]}, r"\['y'\] has shape \(2,\)"), ({"X": np.ones(3) * 1j}, "complex128"),
])
def test_arrays_that_are_refused(tmp_path, arrays, message):
    group = zarr.open_group(str(tmp_path / "g"), mode="w", zarr_format=2)
    for name, values in arrays.items():
        group.create_array(name, data=np.asarray(values))
    with pytest.raises(DataError, match=message):
        open_dataset(tmp_path / "g")
    del group["X"]
    with pytest.raises(DataError, match="expected X"):
        open_dataset(tmp_path / "g")


class Payload:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_pickles_are_never_loaded(tmp_path):
    path = make(tmp_path / "g", 2, X=np.ones((10, 2)))
    meta = path / "X" / ".zarray"
    text = meta.read_text()
    meta.write_text(text.replace('"filters": null', '"filters": [{"id": "pickle", "protocol": 5}]'))
    assert meta.read_text() != text
    (path / "X" / "0.0").write_bytes(pickle.dumps(Payload(tmp_path / "ran")))
    with pytest.raises(DataError, match=r"stored with pickle|cannot be read as Zarr"):
        open_dataset(path)
    assert not (tmp_path / "ran").exists()


def test_folders_are_told_from_files(tmp_path):
    make(tmp_path / "g.zarr", 3)
    assert format_of(tmp_path / "g.zarr") == "zarr"
    assert format_of(Dataset.from_arrays(X).save(tmp_path / "d").X.path.parents[1]) == "dssl"
    (tmp_path / "p.csv").write_text("1,2\n")
    for path, format, what in ((tmp_path / "g.zarr", "csv", "is a folder"), (tmp_path / "p.csv", "zarr", "is a file")):
        with pytest.raises(DataError, match=what):
            open_reader(path, format, scratch=tmp_path)
    with pytest.raises(ParameterError, match="header=True does not apply"):
        open_reader(tmp_path / "g.zarr", scratch=tmp_path, header=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"is a folder[\s\S]*empty/\*\.csv"):
        find_source(tmp_path / "empty")


def test_the_fingerprint_of_a_folder_covers_its_names_and_bytes(tmp_path):
    path = make(tmp_path / "g", 3)
    before = fingerprint(path)
    shutil.copytree(path, tmp_path / "copy")
    assert fingerprint(tmp_path / "copy") == before
    chunk = chunk_of(path / "X")
    chunk.rename(chunk.with_name("99"))
    assert fingerprint(path) != before
    chunk.with_name("99").rename(chunk)
    raw = chunk.read_bytes()
    chunk.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    assert fingerprint(path) != before


# ---- what dssl wrote


def stored(tmp_path, **options):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    names = np.array(["oak", "ash", None], object)[Y]
    data = Dataset.from_arrays(frame, names, split=Y == 2, attributes={"target": "kind", **options})
    return data.save(tmp_path / "d")


@pytest.mark.parametrize("height", [7, None])
def test_names_labels_and_split_carry_over(tmp_path, height):
    before = stored(tmp_path)
    data = ingest(tmp_path / "d", StoredParts(tmp_path / "out"), InProcess(1), dtype="float64", block_rows=height)
    assert_array_equal(data.X.read_all(), X)
    assert_array_equal(data.targets(), before.targets())
    assert_array_equal(data.split.read_all(), Y == 2)
    assert data.feature_names == list("abcdef")
    assert (data.attributes["label_names"], data.attributes["target"]) == (["ash", "oak"], "kind")
    assert ingest(tmp_path / "d", MemoryParts(), InProcess(1), target="none").y is None
    with pytest.raises(DataError, match=r"the target of .* is 'kind'"):
        ingest(tmp_path / "d", MemoryParts(), InProcess(1), target="color")


def test_how_a_data_set_was_written_is_not_in_its_fingerprint(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(30)))
    for name in ("one", "two"):
        ingest(tmp_path / "t.csv", StoredParts(tmp_path / name), InProcess(1), block_rows=8).save(tmp_path / name)
    assert fingerprint(tmp_path / "one") == fingerprint(tmp_path / "two")
    chunk_of(tmp_path / "two" / "shared" / "X" / "c").unlink()
    assert fingerprint(tmp_path / "one") != fingerprint(tmp_path / "two")
    with pytest.raises(IntegrityError, match="is missing"):
        ingest(tmp_path / "two", MemoryParts(), InProcess(1))
