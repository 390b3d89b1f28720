"""Nothing relies on a list of files, which may be old: with lists that show nothing all is found, by its name."""

import os

import pytest
from numpy.testing import assert_array_equal

from dssl.execution.in_process import InProcess
from dssl.graph.weights.build import read_graph, weigh
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.storage import object_client
from dssl.storage.artifacts import Workspace
from dssl.storage.store import StoredParts
from tests.graph.test_weights import WeightParams, neighbors, points

from ..object_proxy import proxy
from .test_objects import TASKS, X, artifact_in

SPEC = {"name": "small", "data": {"source": "two_moons", "points": 200, "test": {"count": 60}},
        "labels": {"per_class": 3}, "model": {"kind": "graph"}}


@pytest.fixture
def unlisted(s3, s3_server, monkeypatch):
    """The URL of a folder in the bucket of which the server lists nothing; and the proxy that answers so."""
    with proxy(s3_server) as between:
        for name, value in between.environment.items():
            monkeypatch.setenv(name, value)
        object_client.store_of.cache_clear()
        between.ask("lists/off")
        yield s3, between
    object_client.store_of.cache_clear()


def files_of(artifact):
    """Return what a manifest lists, without layouts and attempts."""
    actual = []
    for name in artifact.manifest["files"]:
        steps = name.split("/")[1:]
        if "parts" in steps and len(steps) > steps.index("parts") + 3:
            del steps[steps.index("parts") + 2]
        actual.append("/".join(steps))
    return sorted(actual)


@pytest.mark.slow
def test_a_manifest_names_all_that_was_written(unlisted, tmp_path):
    url, _ = unlisted
    run(SPEC, workspace=url)
    run(SPEC, workspace=tmp_path)
    for there, here in zip(plan(SPEC, workspace=url).stages, plan(SPEC, workspace=tmp_path).stages, strict=True):
        assert (there.status, there.artifact.address) == ("cached", here.artifact.address)
        there.artifact.verify()
        # A part of small arrays is one object there.
        packed = {f"{name.rsplit('/', 2)[0]}/arrays.zip" if "parts/" in name and name.endswith("zarr.json") else name
                  for name in files_of(here.artifact)}
        assert files_of(there.artifact) == sorted(packed), there.stage.name


def test_an_interrupted_stage_goes_on_with_what_is_finished(unlisted):
    url, between = unlisted
    first = artifact_in(url)
    first.begin({"block": 20})
    first.parts.allocate("rows", X.shape, X.dtype, 20)
    InProcess(1).map(TASKS[:2], first.parts)
    between.counts()
    again = Workspace.at(url).artifact("points", 1, {"n": 60}, {})
    again.begin({"block": 20})
    again.parts.allocate("rows", X.shape, X.dtype, 20)
    ran = []
    InProcess(1).map([lambda out, item=task: ran.append(item) or item(out) for task in TASKS], again.parts)
    assert ran == TASKS[2:]
    again.publish({"n": 60})
    assert between.counts()[""]["list"] > 0
    artifact_in(url).verify()
    assert_array_equal(artifact_in(url).parts.rows("rows").read_all(), X)
    assert_array_equal(artifact_in(url).parts.read(2)["square"], X[40:] ** 2)


def test_a_graph_in_blocks_is_read_whole(unlisted):
    url, _ = unlisted
    lists, params = neighbors(points(300, random_state=2), 7), WeightParams(weights="binary")
    parts = StoredParts(url)
    weigh(lists, params, InProcess(2), parts, height=77)
    other = StoredParts(f"{url}/whole")
    weigh(lists, params, InProcess(1), other)
    assert (read_graph(StoredParts(url)) != read_graph(other)).nnz == 0


@pytest.mark.cluster
@pytest.mark.slow
def test_what_workers_wrote_is_named_too(unlisted, cluster_client):
    url, _ = unlisted
    environment = {name: os.environ[name] for name in os.environ if name[:4] == "AWS_"}
    cluster_client.run(os.environ.update, environment)
    cluster_client.run(object_client.store_of.cache_clear)
    with cluster_client.as_current():
        run(SPEC, workspace=f"{url}/two")
    run(SPEC, workspace=f"{url}/one")
    for two, one in zip(plan(SPEC, workspace=f"{url}/two").stages, plan(SPEC, workspace=f"{url}/one").stages,
                        strict=True):
        two.artifact.verify()
        assert files_of(two.artifact) == files_of(one.artifact), two.stage.name
    cluster_client.run(object_client.store_of.cache_clear)
