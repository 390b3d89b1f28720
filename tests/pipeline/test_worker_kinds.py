"""Workers that are not what their driver is: another version, another processor, next to no memory."""

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest

from dssl.base.errors import ClusterError
from dssl.execution.cost import WORKER_BYTES
from dssl.execution.on_dask import OnDask
from dssl.execution.worker_kinds import this_kind
from dssl.pipeline.run import run
from dssl.storage.blocks import ArrayRows
from dssl.storage.store import StoredParts

from ..clusters import local_cluster
from ..execution.test_tasks import SquareTask
from ..faults.machines import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def client():
    with local_cluster(1) as client:
        yield client


@contextmanager
def joined(client, *options, **environment):
    """Have one more worker, started by hand, while the block runs; yield its address."""
    before = set(client.nthreads())
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address, "--nthreads", "1",
         "--no-dashboard", "--no-nanny", *options], env=os.environ | environment, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: set(client.nthreads()) - before, "the worker", 60)
        yield (set(client.nthreads()) - before).pop()
    finally:
        process.terminate()
        process.wait()
        wait_until(lambda: set(client.nthreads()) == before, "the worker to leave", 60)


def test_a_worker_with_another_version_is_refused_whenever_it_joins(client, tmp_path):
    preload = tmp_path / "older.py"
    preload.write_text("import dssl\ndssl.__version__ = '0.0.9'\n")
    execution, rows = OnDask(client), ArrayRows(np.ones((50, 2)))
    parts = StoredParts(tmp_path / "parts")
    parts.allocate("squares", (50, 2), np.float64, 1)
    with joined(client, "--preload", str(preload)) as place:
        with pytest.raises(ClusterError, match=f"the worker {place} has dssl 0.0.9"):
            OnDask(client)
        with pytest.raises(ClusterError, match=f"the worker {place} has dssl 0.0.9"):
            execution.map([SquareTask(rows, start, start + 1) for start in range(50)], parts)


def test_unlike_processors_are_said_and_stored(client, small_spec, tmp_path):
    own = this_kind()["processor"]
    recorded = []
    with joined(client, OPENBLAS_CORETYPE="Nehalem" if "Haswell" in own else "Haswell"):
        execution = OnDask(client)
        made = run(small_spec, workspace=tmp_path, execution=execution, events=recorded.append)
    assert len(execution.processors) == 2
    assert any("2 kinds of processors" in note for note in made.notes)
    assert [event for event in recorded if event["event"] == "note" and "2 kinds of processors" in event["text"]]


@pytest.mark.extended
def test_a_processor_that_comes_later_is_said_and_stored(client, small_spec, tmp_path):
    """Its worker joins when the first stage has ended, and takes tasks beside the one that was there."""
    own, recorded = this_kind()["processor"], []
    with ExitStack() as stack:
        def join(event):
            recorded.append(event)
            if event["event"] == "stage" and event["status"] == "done" and len(client.nthreads()) == 1:
                stack.enter_context(joined(client, OPENBLAS_CORETYPE="Nehalem" if "Haswell" in own else "Haswell"))

        execution = OnDask(client)
        assert len(execution.processors) == 1
        made = run(small_spec, workspace=tmp_path, execution=execution, events=join)
    said = [event["text"] for event in recorded if event["event"] == "note" and
            "2 kinds of processors" in event["text"]]
    assert said == [note for note in made.notes if "kinds of processors" in note]
    assert len(said) == 1


def test_a_worker_that_is_full_before_its_first_task_is_named(client):
    with joined(client, "--memory-limit", str(WORKER_BYTES)) as place, \
            pytest.raises(ClusterError, match=rf"the worker {place} has a memory limit of \d+ MB"):
        OnDask(client)
