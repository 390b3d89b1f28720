"""Neighbor lists as other libraries take them: arrays, SciPy, Zarr, scikit-learn's transformers, and the command."""

import json

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier, KNeighborsTransformer
from sklearn.pipeline import make_pipeline

from dssl import Dataset, NeighborTransformer, neighbors
from dssl.base.errors import DataError, ParameterError
from dssl.cli.main import main
from dssl.graph.given import checked_neighbors

X, Y = make_blobs(300, 4, centers=4, random_state=0)
X = X.astype(np.float32)


def test_arrays_and_a_sparse_matrix_are_those_of_scikit_learn():
    lists = neighbors(X, 6)
    expected = KNeighborsTransformer(n_neighbors=6).fit_transform(X)
    assert lists.indices.shape == lists.distances.shape == (300, 6)
    found = lists.to_scipy(with_self=True)
    assert_array_equal(found.indptr, expected.indptr)
    assert_array_equal(found.indices, expected.indices)
    assert_allclose(found.data, expected.data, atol=1e-6)
    assert_array_equal(lists.to_scipy().indices.reshape(300, 6), lists.indices)
    # A row's own number is dropped, which leaves shorter lists.
    short = checked_neighbors((np.array([[1, 0], [0, 2], [1, 2]]), np.array([[1.0, 0.0], [1.0, 2.0], [2.0, 0.0]])), 3)
    assert_array_equal(short.to_scipy().toarray(), [[0, 1, 0], [1, 0, 2], [0, 2, 0]])


def failing(*arguments):
    raise OSError("the disk is full")


def test_lists_are_written_as_zarr_arrays_and_overwrite_nothing(tmp_path, monkeypatch):
    lists = neighbors(X, 6)
    folder = lists.to_zarr(tmp_path / "lists")
    assert_array_equal(zarr.open_array(folder / "indices")[:], lists.indices)
    stored = zarr.open_array(folder / "distances")
    assert_array_equal(stored[:], lists.distances)
    assert stored.attrs["metric"] == "euclidean"
    assert {path.name for path in folder.iterdir()} == {"indices", "distances"}
    with pytest.raises(ParameterError, match="nothing is overwritten"):
        lists.to_zarr(folder)
    monkeypatch.setattr("dssl.knn.lists.publish_array", failing)
    with pytest.raises(OSError, match="full"):
        lists.to_zarr(tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["lists"]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_the_transformer_is_that_of_scikit_learn(metric):
    new = X[:40] + 0.1
    ours, theirs = (kind(n_neighbors=5, metric=metric) for kind in (NeighborTransformer, KNeighborsTransformer))
    for found, expected in ((ours.fit_transform(X), theirs.fit_transform(X)),
                            (ours.transform(new), theirs.transform(new))):
        assert found.shape == expected.shape
        assert_array_equal(found.indices, expected.indices)
        assert_allclose(found.data, expected.data, atol=2e-5)
    knn = make_pipeline(NeighborTransformer(n_neighbors=8), KNeighborsClassifier(3, metric="precomputed")).fit(X, Y)
    assert_array_equal(knn.predict(new), KNeighborsClassifier(3).fit(X, Y).predict(new))
    assert_array_equal(*(DBSCAN(eps=1.0, metric="precomputed").fit(each.fit_transform(X)).labels_
                         for each in (ours, theirs)))
    assert clone(ours).get_params() == ours.get_params()
    with pytest.raises(NotFittedError):
        NeighborTransformer().transform(X)


def test_the_transformer_refuses_points_that_have_no_neighbors():
    fitted = NeighborTransformer(n_neighbors=3).fit(X)
    assert_array_equal(fitted.transform(new := X[:5].tolist()).toarray(), fitted.transform(np.array(new)).toarray())
    assert_array_equal(fitted.transform(pd.DataFrame(X[:5])).toarray(), fitted.transform(X[:5]).toarray())
    assert len(fitted.get_feature_names_out()) == len(X)
    with pytest.raises(DataError, match="have 4 columns"):
        fitted.transform(X[:, :2])
    with pytest.raises(DataError, match="NaN"):
        NeighborTransformer().fit(np.full((20, 2), np.nan))
    with pytest.raises(DataError, match="zero"):
        NeighborTransformer(metric="cosine").fit(np.zeros((20, 2)))
    with pytest.warns(UserWarning, match="lowered"):
        assert NeighborTransformer(n_neighbors=9).fit_transform(X[:5]).nnz == 25


def test_the_command_writes_the_lists_of_a_source(tmp_path):
    np.save(tmp_path / "x.npy", X)
    out = tmp_path / "lists.zarr"
    done = CliRunner().invoke(main, ["neighbors", str(tmp_path / "x.npy"), str(out), "--n-neighbors", "6", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) | {"recall": 1.0, "points": 300, "n_neighbors": 6} == json.loads(done.stdout)
    assert_array_equal(zarr.open_array(out / "indices")[:], neighbors(X, 6).indices)
    again = CliRunner().invoke(main, ["neighbors", str(tmp_path / "x.npy"), str(out)])
    assert again.exit_code == 2
    assert "nothing is overwritten" in again.stderr
    Dataset.from_arrays(X).save(tmp_path / "stored")
    arguments = [str(tmp_path / "stored"), str(tmp_path / "x.npy"), str(tmp_path / "b.zarr")]
    assert CliRunner().invoke(main, ["neighbors", *arguments]).exit_code == 2
    power = ["--metric", "minkowski", "--metric-params", '{"p": 1}', "--n-neighbors", "6"]
    assert CliRunner().invoke(main, ["neighbors", *arguments[1:], *power]).exit_code == 0
    assert_array_equal(zarr.open_array(tmp_path / "b.zarr" / "indices")[:], neighbors(X, 6, metric="manhattan").indices)
