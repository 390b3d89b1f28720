"""Data sets in memory and on disk."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl.base.errors import DataError, IntegrityError
from dssl.data.dataset import Dataset
from dssl.data.ingest import open_dataset


def test_round_trip_through_arrays_and_a_folder(tmp_path):
    X, y, split = np.random.default_rng(0).normal(size=(30, 3)), ["oak", "ash", None] * 10, [0] * 20 + [1] * 10
    data = Dataset.from_arrays(X, y, split=split, attributes={"source": "trees"})
    stored = data.save(tmp_path / "trees")
    arrays, attributes = data.to_arrays()
    for other in (stored, open_dataset(tmp_path / "trees"), Dataset.from_arrays(**arrays, attributes=attributes)):
        assert_array_equal(other.X.read_all(), X)
        assert other.X.dtype == np.float64
        assert_array_equal(other.targets(), [1, 0, -1] * 10)
        assert_array_equal(other.split.read_all(), split)
        assert other.attributes == {"source": "trees", "label_names": ["ash", "oak"]}
        assert other.named_targets().tolist() == y
    assert len(stored) == 30


@pytest.mark.parametrize(("y", "dtype", "values"), [
    ([1, 2, -1], np.int64, [1, 2, -1]), ([0.5, np.nan, 1], np.float64, [0.5, np.nan, 1]),
    ([True, False, True], np.int64, [1, 0, 1]), (np.array([1, None, 2], object), np.float64, [1, np.nan, 2]),
    (pd.Series(["b", "a", None]), np.int64, [1, 0, -1]), (pd.array([1, None, 3], "Int64"), np.float64, [1, np.nan, 3]),
])
def test_targets_of_every_type(y, dtype, values):
    data = Dataset.from_arrays(np.eye(3), y)
    assert data.y.dtype == dtype
    assert_array_equal(data.targets(), values)


def test_frames_sparse_matrices_and_integers():
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    data = Dataset.from_arrays(frame)
    assert data.feature_names == ["a", "b"]
    assert data.X.dtype == np.float32
    assert_array_equal(data.X.read_all(), frame)
    assert_array_equal(Dataset.from_arrays(sparse.eye_array(3, format="csr")).X.read_all(), np.eye(3))
    with pytest.raises(DataError, match=r"has no target[\s\S]*pass y"):
        data.targets()


@pytest.mark.parametrize(("name", "key"), [("X.npy", "data.read.labels"), ("X.csv", "data.read.target")])
def test_the_option_of_the_format_that_names_a_target_is_told(tmp_path, name, key):
    if name == "X.npy":
        np.save(tmp_path / name, np.ones((4, 2)))
    else:
        (tmp_path / name).write_text("a,b\n1,2\n3,4\n")
    data = open_dataset(tmp_path / name, target="none") if name == "X.csv" else open_dataset(tmp_path / name)
    with pytest.raises(DataError, match=key):
        data.targets()


@pytest.mark.parametrize(("X", "y", "message"), [
    (np.array([[1, np.nan]]), None, r"X: column 1 \(counted from 0\) is nan in row 0 \(counted from 0\)\n"),
    (np.ones(3), None, r"shape \(3,\)"), (np.ones((0, 3)), None, "neither of them 0"),
    (np.array([["a"]]), None, "expected numbers"), (np.ones((3, 1)), [1, 2], r"y has shape \(2,\)"),
    (np.ones((1, 1)), [np.inf], "infinite"),
])
def test_arrays_that_are_refused(X, y, message):
    with pytest.raises(DataError, match=message):
        Dataset.from_arrays(X, y)


def test_a_folder_is_written_once(tmp_path):
    data = Dataset.from_arrays(np.eye(3))
    data.save(tmp_path / "d")
    with pytest.raises(DataError, match="is not empty"):
        data.save(tmp_path / "d")
    open_dataset(tmp_path / "d").save(tmp_path / "copy")
    assert_array_equal(open_dataset(tmp_path / "copy").X.read_all(), np.eye(3))


def test_folders_that_are_no_data_set(tmp_path):
    with pytest.raises(DataError, match=r"has no dataset\.json"):
        open_dataset(tmp_path)
    data = Dataset.from_arrays(np.eye(3), [0, 1, 2]).save(tmp_path / "d")
    manifest = tmp_path / "d" / "dataset.json"
    good = manifest.read_text()
    manifest.write_text(good[:-5])
    with pytest.raises(IntegrityError, match="is not a JSON file"):
        open_dataset(tmp_path / "d")
    wrong = json.loads(good)
    wrong["arrays"]["X"]["shape"] = [4, 3]
    manifest.write_text(json.dumps(wrong))
    with pytest.raises(IntegrityError, match=r"expected .*\[4, 3\]"):
        open_dataset(tmp_path / "d")
    manifest.write_text("{}")
    with pytest.raises(IntegrityError, match="is not of version 1"):
        open_dataset(tmp_path / "d")
    manifest.write_text(good)
    next(path for path in (data.X.path / "c").rglob("*") if path.is_file()).unlink()
    with pytest.raises(IntegrityError, match="is missing"):
        open_dataset(tmp_path / "d").X.read_all()
