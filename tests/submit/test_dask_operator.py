"""Pools of the Dask operator: what it is given, and a real KubeCluster whose pods are processes of this machine."""

import socket
import time
from pathlib import Path

import pytest
import yaml

from dssl.base.errors import ClusterError, SpecError
from dssl.runtime.dask_operator import OperatorRuntime
from dssl.runtime.start import load_runtime

from ..faults.machines import REPOSITORY, wait_until
from .kubernetes import validated
from .operator import Operator


def described(folder, **fields):
    return OperatorRuntime(**{"image": "dssl:test", "claim": "work", "mount": folder, "workers": 3, "insecure": True,
                              "memory_limit": "1GiB", "join_timeout": 60, **fields})


@pytest.fixture
def operator(tmp_path, monkeypatch):
    made = Operator(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *how, **more: resolve(
        "127.0.0.1" if str(host).endswith("-scheduler.default") else host, *how, **more))
    yield made
    made.end()


@pytest.mark.cluster
@pytest.mark.slow
def test_workers_are_pods_that_come_and_go(operator, tmp_path):
    with described(tmp_path).start(1 << 28) as (execution, where):
        assert where == "up to 3 workers by the Dask operator"
        client = execution.client
        assert len(client.nthreads()) == 1
        futures = client.map(lambda number: time.sleep(0.3) or number, range(60))
        assert sum(client.gather(futures)) == sum(range(60))
        assert operator.max_workers == 3
        del futures
        wait_until(lambda: len(operator.workers()) == 1, "workers without a task to go")
        assert ("daskautoscalers", client.cluster.name) in operator.objects
    assert operator.objects == {}, "the cluster is taken away"
    assert operator.errors == []


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.extended
def test_a_cluster_that_nobody_starts_is_taken_away(operator, tmp_path):
    operator.works = False
    with pytest.raises(ClusterError, match="the scheduler did not start within 2 seconds"), \
            described(tmp_path, join_timeout=2).start(1 << 28):
        pass
    assert operator.objects == {}
    assert operator.errors == []


@pytest.mark.slow
def test_a_kubernetes_that_is_not_there(operator, tmp_path):
    operator.end()
    with pytest.raises(ClusterError, match="the Dask operator gives no cluster"), \
            described(tmp_path).start(1 << 28):
        pass


@pytest.mark.parametrize(("change", "message"), [
    ("insecure: true", "kind: dask-operator without insecure: true"), ("memory_limit: 4GiB", "1GiB or more"),
    ("join_timeout: 3600", "idle_timeout: 3600"), ("mount: /work", "absolute path below /")])
def test_what_no_pool_of_pods_can_be_is_refused(tmp_path, change, message):
    wrong = {"insecure": "false", "memory_limit": "100MB", "join_timeout": "7200", "mount": "/"}
    key = change.partition(":")[0]
    text = (REPOSITORY / "cluster" / "dask-operator.yaml").read_text()
    assert change in text
    (tmp_path / "pool.yaml").write_text(text.replace(change, f"{key}: {wrong[key]}"))
    with pytest.raises(SpecError, match=message):
        load_runtime(tmp_path / "pool.yaml")


def test_the_policy_admits_who_has_the_labels():
    role, binding, policy = (validated(made) for made in yaml.safe_load_all(
        (REPOSITORY / "cluster" / "manifests" / "dask-operator.yaml").read_text()))
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    made = described(Path("/work")).cluster("dssl-x", Path("/work"))
    chosen = policy["spec"]["podSelector"]
    assert chosen["matchLabels"].items() <= made["metadata"]["labels"].items()
    desk = list(yaml.safe_load_all((REPOSITORY / "cluster" / "manifests" / "desk.yaml").read_text()))[-1]
    peers = policy["spec"]["ingress"][0]["from"]
    assert peers[0]["podSelector"] == chosen
    assert peers[1]["podSelector"]["matchLabels"].items() <= desk["metadata"]["labels"].items()
