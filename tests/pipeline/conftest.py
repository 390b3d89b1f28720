"""A small pipeline, run once, whose workspace the tests copy."""

import copy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from dssl.execution.in_process import InProcess
from dssl.pipeline.plan import inputs
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run
from dssl.pipeline.stage import Kind, Stage

from ..figures import undrawn


def by_name(kind: Kind) -> dict[str, Stage]:
    return {stage.name: stage for stage in kind.stages}


@pytest.fixture(scope="package", autouse=True)
def _figures():
    with undrawn():
        yield


@pytest.fixture(autouse=True)
def _ordinary_speed(monkeypatch):
    """Plan for a machine of ordinary speed, which is that of the costs: seconds are then those of the formulas."""
    monkeypatch.setattr(inputs, "slowness", lambda folder: 1.0)


@pytest.fixture(scope="session")
def points_file(tmp_path_factory) -> Path:
    """An npz file of 260 points in three overlapping classes."""
    X, y = make_blobs(260, n_features=4, centers=3, cluster_std=3.0, random_state=0)
    path = tmp_path_factory.mktemp("points") / "points.npz"
    np.savez(path, X=X.astype(np.float32), y=y)
    return path


@pytest.fixture(scope="session")
def small_spec(points_file) -> dict[str, Any]:
    return {
        "name": "small", "data": {"source": str(points_file), "test": {"count": 60}}, "labels": {"per_class": 3},
        "model": {"kind": "svm", "n_landmarks": 40},
        "graph": {"n_neighbors": 6}, "solver": {"method": "gauss_seidel", "block_columns": 8},
        "baselines": ["base", "shuffled", "landmark_graph"],
    }


@pytest.fixture
def spec(small_spec) -> dict[str, Any]:
    """The spec of the small pipeline, to be changed by the test."""
    return copy.deepcopy(small_spec)


@pytest.fixture(scope="session")
def finished(tmp_path_factory, small_spec) -> tuple[Path, RunResult]:
    """A workspace with the small pipeline's run, and its result; nobody writes to it."""
    workspace = tmp_path_factory.mktemp("finished")
    return workspace, run(small_spec, workspace=workspace, execution=InProcess(2))


@pytest.fixture
def workspace(finished, tmp_path) -> Path:
    """A copy of the finished workspace."""
    return Path(shutil.copytree(finished[0], tmp_path / "work"))
