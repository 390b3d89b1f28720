"""Curved manifolds: any range of rows is the same however it is made, and a spec can name them as its source."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.base.errors import DataError, ParameterError
from dssl.data.ingest import open_dataset
from dssl.data.readers.manifolds import BLOCK_ROWS, CurvedManifolds, ManifoldParams
from dssl.data.source_files import fingerprint
from dssl.data.sources import find_source

PARAMS = ManifoldParams(points=3 * BLOCK_ROWS + 100, columns=20, classes=3, dimension=4, seed=5)
X, Y = CurvedManifolds(PARAMS).read(0, PARAMS.points)


@given(st.integers(0, len(X)), st.integers(0, len(X)))
@settings(max_examples=10, deadline=None)
def test_a_range_is_the_same_however_it_is_made(a, b):
    start, stop = sorted((a, b))
    actual, classes = CurvedManifolds(PARAMS).read(start, stop)
    np.testing.assert_array_equal(actual, X[start:stop])
    np.testing.assert_array_equal(classes, Y[start:stop])


def test_rows_differ_by_seed():
    other = CurvedManifolds(ManifoldParams(points=100, columns=20, classes=3, dimension=4, seed=6)).read(0, 100)[0]
    assert not np.array_equal(other, X[:100])


def test_a_class_is_a_curved_manifold_of_its_dimension():
    """What the first axes leave out: of a small ball's points next to nothing, of a whole class much more."""
    made = CurvedManifolds(ManifoldParams(points=60_000, columns=20, classes=1, dimension=2, noise=0.0))
    points = made.read(0, 60_000)[0].astype(np.float64)
    near = np.argsort(((points - points[0]) ** 2).sum(axis=1))[:100]
    spreads = [np.linalg.svd(item - item.mean(axis=0), compute_uv=False)**2 for item in (points[near], points)]
    of_ball, of_all = (spread[2:].sum() / spread.sum() for spread in spreads)
    assert of_ball < 0.001 < 0.02 < of_all


def test_a_source_of_any_size_is_a_name(tmp_path, monkeypatch):
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path))
    dataset = open_dataset("manifolds:5000x20:5")
    expected = CurvedManifolds(ManifoldParams(points=5000, columns=20, seed=5)).read(0, 5000)
    np.testing.assert_array_equal(dataset.X.read_all(), expected[0])
    np.testing.assert_array_equal(dataset.targets(), expected[1])
    assert fingerprint(find_source("manifolds:5000x20:5")) != fingerprint(find_source("manifolds:5000x20"))


@pytest.mark.parametrize("text", ["{", '{"points": 10, "rows": 3}', "[]"])
def test_a_damaged_description_is_refused(tmp_path, text):
    path = tmp_path / "broken.manifolds"
    path.write_text(text)
    with pytest.raises(DataError, match="describes no manifolds"):
        open_dataset(path)


def test_sizes_are_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path))
    with pytest.raises(ParameterError, match="points=0"):
        open_dataset("manifolds:0x20")
