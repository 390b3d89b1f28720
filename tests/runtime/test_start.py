"""Where tasks run: what a cluster description may say, and what it is refused for."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import dask
import psutil
import pytest
from distributed import LocalCluster
from distributed.comm import connect
from distributed.security import Security

from dssl.base.errors import ClusterError, ParameterError, SpecError, Terminated
from dssl.base.signals import raise_interrupted, raise_terminated
from dssl.base.units import MEMORY_BUDGET, size_of
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import ClusterSettings, OnDask
from dssl.execution.threads import available_cores
from dssl.runtime import local
from dssl.runtime.address import AddressRuntime
from dssl.runtime.local import LocalRuntime
from dssl.runtime.start import InProcessRuntime, load_runtime, open_runtime
from tests.handlers import handled

CLUSTERS = sorted((Path(__file__).parents[2] / "cluster").glob("*.yaml"))


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_the_descriptions_of_the_repository_are_valid(path):
    assert load_runtime(path).kind


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.stem)
def test_every_key_of_a_place_is_in_its_file(path):
    known = set(type(load_runtime(path)).model_fields) - ({"interface"} if path.stem == "local" else set())
    shown = set(re.findall(r"^(?:# )?(\w+):(?: |$)", path.read_text(), re.MULTILINE))
    assert known <= shown, known - shown


def test_short_forms():
    assert isinstance(load_runtime(None), LocalRuntime)
    assert load_runtime(None).workers == available_cores()
    assert isinstance(load_runtime("in-process"), InProcessRuntime)
    assert load_runtime("tls://far.example:8786") == AddressRuntime(kind="address", address="tls://far.example:8786")


@pytest.mark.parametrize(("text", "message"), [
    ("kind: slrum\n", "slrum"), ("kind: local\nworkers: 0\n", "workers"), ("kind: local\nworker: 2\n", "worker"),
    ("workers: 2\n", "kind"), ("- 1\n", "is not a cluster description"), ("kind: [local\n", "is not YAML"),
    ("kind: local\ninterface: ib0\n", "leave it out"), ("kind: local\nkind: address\n", "given twice"),
    ("kind: address\n", "address"), ("", "is not a cluster"),
    ("kind: address\naddress: tls://a:1\ntls: {ca_file: ca.pem}\n", "cert"),
    ("kind: in-process\nthreads: 0\n", "threads"), ("kind: local\nmodel: {eta: 3}\n", "model"),
])
def test_a_description_that_says_something_else(tmp_path, text, message):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=message) as error:
        load_runtime(path)
    assert str(path) in str(error.value)
    assert "pydantic" not in str(error.value)


def test_a_description_that_is_not_there(tmp_path):
    for path, said in ((tmp_path / "none.yaml", "there is no file"), (tmp_path, "is a folder")):
        with pytest.raises(SpecError, match=said):
            load_runtime(path)


@pytest.mark.parametrize("address", ["localhost:8786", "10.0.0.7:8786", "[::1]:8786"])
def test_an_address_without_a_scheme_is_shown_with_one(address):
    with pytest.raises(SpecError, match=r"lacks the scheme[\s\S]*write tls://") as error:
        load_runtime(address)
    assert f"tcp://{address}" in str(error.value)


@pytest.mark.parametrize(("text", "size"), [
    ("500MB", 500 * 10**6), ("2GiB", 2 << 30), ("1.5 kB", 1500), ("1024", 1024), ("64 MiB", 64 << 20),
])
def test_sizes(text, size):
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["", "MB", "much", "-1GB", "0", "5 parsecs", "nan"])
def test_what_is_not_a_size(text):
    with pytest.raises(ParameterError, match="is not a size"):
        size_of(text)


def test_threads_of_this_process(tmp_path):
    path = tmp_path / "threads.yaml"
    path.write_text("kind: in-process\nthreads: 3\n")
    with open_runtime(path) as (execution, where):
        assert isinstance(execution, InProcess)
        assert execution.threads == 3
        assert execution.memory_budget == MEMORY_BUDGET  # equal everywhere, so that blocks are
        assert where == "3 threads of this process"
    with open_runtime("in-process", 1 << 20) as (execution, _):
        assert execution.memory_budget == 1 << 20


@pytest.mark.parametrize("address", [
    "tcp://10.1.2.3:8786", "tcp://scheduler.example:8786", "ws://10.1.2.3:80", "tcp://127.0.0.1.evil.example:1",
    "inproc://10.1.2.3/1", "tcp://[2001:db8::1]:8786", "tcp://0.0.0.0:8786",
])
def test_an_open_scheduler_on_another_machine_is_refused(address):
    with pytest.raises(ClusterError, match="neither encrypted nor on this machine") as error, open_runtime(address):
        pass
    assert error.value.exit_code == 4


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tcp://localhost:9", "tcp://[::1]:9"])
def test_a_scheduler_that_does_not_answer(tmp_path, address):
    path = tmp_path / "gone.yaml"
    path.write_text(f"kind: address\naddress: '{address}'\ntimeout: 0.5\n")
    with pytest.raises(ClusterError, match="no scheduler answers at") as error, open_runtime(path):
        pass
    assert "fix:" in str(error.value)


@pytest.mark.cluster
def test_a_scheduler_that_is_running():
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None,
                      protocol="tcp://") as cluster, open_runtime(cluster.scheduler_address) as (execution, where):
        assert isinstance(execution, OnDask)
        assert execution.memory_budget == MEMORY_BUDGET
        assert where == f"the scheduler at {cluster.scheduler_address}"
        assert execution.client.submit(int, "7").result() == 7


@pytest.mark.cluster
def test_nobody_else_reaches_local_workers():
    """Neither without certificates nor with others: whoever does can run code as the user who started them."""
    with LocalRuntime(workers=1).start(1 << 30) as (execution, _):
        address = execution.client.scheduler.address
        assert address.startswith("tls://")
        assert all(worker.startswith("tls://") for worker in execution.client.nthreads())
        item = Security.temporary().get_connection_args("client")
        for theirs, how in ((address.replace("tls://", "tcp://"), {}), (address, item)):
            with pytest.raises(OSError):
                asyncio.run(connect(theirs, timeout=0.5, **how))


def listening(*processes):
    """Return the addresses (host, port) at which processes listen."""
    known = {process.pid for process in processes}
    return {tuple(item.laddr) for item in psutil.net_connections("tcp")
            if item.pid in known and item.status == psutil.CONN_LISTEN}


def said(port, page):
    """Return what a port of this machine says of a page by HTTP; None where it does not speak that."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/{page}", timeout=10) as answer:
            return answer.read(1000)
    except HTTPError as error:
        return error.read()
    except (OSError, HTTPException):  # it speaks TLS
        return None


@pytest.mark.cluster
def test_the_http_ports_of_local_workers_say_nothing():
    """Of scheduler, nannies and workers: most are closed, the others have no page; none is open to other machines."""
    this, nothing = psutil.Process(), {None, b'{"paths": ["/sitemap.json"]}'}  # the list of all pages
    nothing.add(b"<html><title>404: Not Found</title><body>404: Not Found</body></html>")
    before = listening(this, *this.children(recursive=True))  # of other tests
    with LocalRuntime(workers=1).start(1 << 30) as (execution, _):
        addresses = listening(this, *this.children(recursive=True)) - before
        assert {host for host, _ in addresses} == {"127.0.0.1"}
        answers = {port: {said(port, page) for page in (
            "", "info/main/workers.html", "health", "metrics", "json/counts.json", "status", "sitemap.json",
            "api/v1/get_workers", "statics/css/base.css")} for _, port in addresses}
        assert set.union(*answers.values()) == nothing, answers
        worker, = execution.client.scheduler_info()["workers"].values()
        served = {execution.client.scheduler_info()["services"]["dashboard"], worker["services"]["dashboard"]}
        assert served == {port for port, answer in answers.items() if answer != {None}}


@pytest.mark.cluster
def test_local_workers_are_set_up_as_doctor_asks():
    with LocalRuntime(workers=1).start(1 << 30) as (execution, _):
        assert execution.settings() == ClusterSettings(worker_ttl=60.0, allowed_failures=3, pauses=())
        assert execution.client.cluster.scheduler.worker_ttl == 60.0


@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="workers of other systems import for themselves")
def test_local_workers_have_imported_what_they_run_and_have_the_environment_of_their_start(monkeypatch):
    for profile in ("before", "after"):
        monkeypatch.setenv("AWS_PROFILE", profile)
        with LocalRuntime(workers=1).start(1 << 30) as (execution, _):
            (imported, seen), = execution.client.run(
                lambda: ("dssl.pipeline.run" in sys.modules, os.environ["AWS_PROFILE"])).values()
        assert imported
        assert seen == profile


@pytest.mark.slow
@pytest.mark.cluster
def test_the_dashboard_is_served_on_this_machine_where_it_is_asked_for(monkeypatch):
    with LocalRuntime(workers=1, dashboard=True).start(1 << 30) as (execution, where):
        profiles = execution.client.run(dask.config.get, "distributed.worker.profile.enabled")
        assert profiles == dict.fromkeys(execution.client.nthreads(), True)  # the dashboard shows them
        link = where.rpartition("dashboard at ")[2]
        assert link.startswith("http://127.0.0.1:")
        with urlopen(link) as answer:
            assert b"Dask" in answer.read()
    with LocalRuntime(workers=1).start(1 << 30) as (execution, where):
        assert execution.client.run(dask.config.get, "distributed.worker.profile.enabled") == dict.fromkeys(
            execution.client.nthreads(), False)
        assert "dashboard" not in where
        port = execution.client.scheduler_info()["services"]["dashboard"]
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{port}/status")
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="pip install bokeh"):
        LocalRuntime(dashboard=True)


STARTED = """
import multiprocessing.forkserver, os, signal, sys
from dssl.execution.threads import available_cores
from dssl.runtime.fork_server import start_fork_server
from dssl.runtime.start import open_runtime

def seen():
    names = ("MALLOC_TRIM_THRESHOLD_", "OMP_NUM_THREADS")
    with open(f"/proc/{os.getppid()}/environ") as file:
        server = dict(line.split("=", 1) for line in file.read().split(chr(0)) if "=" in line)
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return "dssl.pipeline.run" in sys.modules, [server.get(name) for name in names], os.getppid(), blocked

if __name__ == "__main__":
    os.environ.pop("OMP_NUM_THREADS", None)
    on_interrupt = signal.getsignal(signal.SIGINT)
    start_fork_server()
    server = multiprocessing.forkserver._forkserver._forkserver_pid
    assert (server is None) == (available_cores() == 1)
    assert "OMP_NUM_THREADS" not in os.environ
    assert signal.getsignal(signal.SIGINT) is on_interrupt
    if server is not None:
        with open_runtime(None) as (execution, _):
            assert {*map(str, execution.client.run(seen).values())} == {str((True, ["65536", "1"], server, True))}
    print("as expected")
"""


@pytest.mark.cluster
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are copies of a process on Linux alone")
def test_local_workers_are_copies_of_a_process_that_was_started_early_and_has_their_settings(tmp_path):
    script = tmp_path / "started.py"
    script.write_text(STARTED, encoding="utf-8")
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "grp.py").write_text("raise SystemExit('not the module of the library')", encoding="utf-8")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False,
                           cwd=tmp_path / "here")
    assert ended.stdout == "as expected\n", ended.stderr


@pytest.mark.parametrize(("number", "handler", "error"), [
    (signal.SIGTERM, raise_terminated, Terminated), (signal.SIGINT, raise_interrupted, KeyboardInterrupt)])
def test_an_order_to_end_waits_until_the_workers_can_be_closed(monkeypatch, number, handler, error):
    closed = []

    class Cluster(ExitStack):
        def __init__(self, **options):
            super().__init__()
            os.kill(os.getpid(), number)
            self.callback(closed.append, True)

    monkeypatch.setattr("dssl.runtime.local.LocalCluster", Cluster)
    with handled({number: handler}), pytest.raises(error), LocalRuntime(workers=1).start(1 << 30):
        pass
    assert closed == [True]
