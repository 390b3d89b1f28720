"""A pipeline on sparse rows, from the data set to predictions, against the same pipeline on dense rows."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError
from dssl.execution.in_process import InProcess
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.storage.artifacts import Workspace
from dssl.storage.csr import CsrRows, as_csr, csr_arrays
from tests.knn.test_sparse_neighbors import zipf
from tests.rounding import to_rounding

N, D, BLOCK = 260, 1200, 50


@pytest.fixture(scope="module")
def text_like(tmp_path_factory):
    """A CSR npz file of 260 documents about three topics over 1,200 words, three fifths of them common to all."""
    rng = np.random.default_rng(0)
    topic = np.arange(N) % 3
    X = np.minimum(zipf(N, 300, 15, 1).toarray(), 1)
    own = np.zeros((N, D - 300), np.float32)
    for row in range(N):
        own[row, 300 * topic[row] + rng.integers(0, 60, 10)] = 2
    X = np.hstack([X, own])
    path = tmp_path_factory.mktemp("text") / "text.npz"
    np.savez(path, **csr_arrays(X), shape=X.shape, y=topic)
    return path, X


def spec_of(path, sparse=True, **data):
    read = {"sparse": True, "block_rows": BLOCK} if sparse else {"sparse": False}
    return {"name": "text",
            "data": {"source": str(path), "read": read, "test": {"count": 60}, "scale": "unit_norm", **data},
            "labels": {"per_class": 4}, "graph": {"n_neighbors": 6},
            "solver": {"method": "gauss_seidel", "block_columns": 25}, "kernel": {"bandwidth": 1.0},
            "model": {"kind": "svm", "loss": "hinge", "n_landmarks": 50},
            "baselines": ["base", "shuffled", "landmark_graph"]}


@pytest.fixture(scope="module")
def runs(text_like, tmp_path_factory):
    """The workspaces and results of the sparse and the dense run."""
    places = tmp_path_factory.mktemp("sparse"), tmp_path_factory.mktemp("dense")
    return places, tuple(run(spec_of(text_like[0], sparse), workspace=place, execution=InProcess(2))
                         for place, sparse in zip(places, (True, False), strict=True))


def points_of(place):
    manifest, = (place / "artifacts" / "points").glob("*/manifest.json")
    return json.loads(manifest.read_text())["attributes"]


@pytest.mark.slow
def test_the_sparse_run_finds_what_the_dense_one_does(runs, text_like):
    (sparse_place, dense_place), (found, wanted) = runs
    assert found.metrics == to_rounding(wanted.metrics)
    assert found.baselines == to_rounding(wanted.baselines)
    assert found.metrics["accuracy"] > 0.8
    described = points_of(sparse_place)
    assert described["train"]["shape"] == [200, D]
    assert described["test"]["shape"] == [60, D]
    assert described["test"]["first"] >= 1
    assert described["train"]["nnz"] + described["test"]["nnz"] == np.count_nonzero(text_like[1])
    assert set(points_of(dense_place)) == {"scaling", "d"}
    assert Workspace.at(sparse_place).verify() == len(found.stages)


def test_a_model_of_sparse_points_predicts_sparse_and_dense_rows(runs, text_like):
    (_, _), (found, wanted) = runs
    X = text_like[1]
    on_sparse, on_dense = open_model(found.model_path), open_model(wanted.model_path)
    assert on_sparse.model.points.nnz < on_sparse.model.points.shape[0] * D / 10
    labels = on_dense.predict(X, InProcess(1))
    for rows in (X, as_csr(X), CsrRows(as_csr(X))):
        assert_array_equal(on_sparse.predict(rows, InProcess(1)), labels)
        assert_array_equal(on_dense.predict(rows, InProcess(1)), labels)
    dataset = on_sparse.dataset_of(str(text_like[0]), InProcess(1)).X
    assert_array_equal(on_sparse.predict(dataset, InProcess(1)), labels)


@pytest.mark.parametrize("scale", ["standardize", "unit_range"])
def test_a_scaling_that_moves_zeros_is_refused_before_any_stage(scale, text_like, tmp_path):
    with pytest.raises(DataError, match=r"(?s)sparse rows.*data.scale.*unit_norm.*read: \{sparse: false\}"):
        run(spec_of(text_like[0], scale=scale), workspace=tmp_path, execution=InProcess(1))
    assert not list(tmp_path.glob("artifacts/*"))


@pytest.mark.extended
def test_the_number_of_parts_does_not_change_the_result(runs, text_like, tmp_path):
    found = run(spec_of(text_like[0]), workspace=tmp_path, execution=InProcess(2, memory_budget=14_000_000))
    assert found.metrics == to_rounding(runs[1][0].metrics)
    assert points_of(tmp_path)["train"]["block_rows"] <= points_of(runs[0][0])["train"]["block_rows"]
