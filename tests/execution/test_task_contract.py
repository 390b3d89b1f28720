"""What holds for every task: its parts do not depend on where it runs, finished ones stay, its description is small."""

import hashlib
import importlib
import inspect
import os
import pkgutil
import threading
import typing
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from unittest.mock import patch

import numpy as np
import pytest
from distributed.protocol import pickle
from numpy.testing import assert_equal
from scipy import sparse

import dssl
from dssl.base.errors import IntegrityError
from dssl.execution import in_process
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.execution.tasks import Execution
from dssl.storage.blocks import PartWriter, Receipt

from ..figures import unrendered
from .task_examples import EXAMPLES

pytestmark = [pytest.mark.slow]  # some forty pipelines
LARGEST_TASK = 4000  # bytes of a description that goes to a worker
MAX_ROWS = 3200  # of an example
# Of a receipt: where, when and how the part was made (`ingest` digests the times of the files).
OF_THE_PLACE = {"task_peak_bytes", "seconds", "peak_rss_bytes", "process", "ingest"}


@pytest.fixture(scope="module", autouse=True)
def _figures():
    with unrendered():
        yield


def is_task(actual):
    """Return whether something is called with the writer of a part and returns a receipt."""
    call = actual.__call__ if inspect.isclass(actual) else actual
    if getattr(actual, "_is_protocol", False) or not inspect.isfunction(call):  # a form of tasks, and none itself
        return False
    try:
        hints = typing.get_type_hints(call)
    except NameError:  # a type that is imported for the checker only
        return False
    return hints.get("return") == Receipt and PartWriter in hints.values()


def tasks_of_the_package():
    """Return the names of all tasks that the modules of the package define."""
    actual = set()
    for info in pkgutil.walk_packages(dssl.__path__, "dssl."):
        module = importlib.import_module(info.name)
        actual |= {f"{info.name}.{name}" for name, value in vars(module).items()
                  if getattr(value, "__module__", None) == info.name and inspect.isclass(value) and is_task(value)}
    return actual


def name_of(task):
    return f"{type(task).__module__}.{type(task).__qualname__}"


def digest(array):
    dense = array.toarray() if sparse.issparse(array) else np.asarray(array)
    return dense.dtype.str, dense.shape, hashlib.sha256(np.ascontiguousarray(dense).tobytes()).hexdigest()


def contents(tasks, parts, receipts):
    """Return what the parts of some tasks hold, and the shared arrays that they say they filled."""
    one = []
    for index, receipt in enumerate(receipts):
        try:
            arrays = dict(parts.read(index))
        except (KeyError, IntegrityError, FileNotFoundError):  # it filled shared arrays or buckets only
            arrays = {}
        for bucket in range(receipt.get("buckets", 0)):
            arrays |= {f"{bucket}/{name}": array for name, array in parts.read_bucket(index, bucket).items()}
        one.append(({name: digest(array) for name, array in arrays.items()},
                    {key: value for key, value in receipt.items() if key not in OF_THE_PLACE}))
    shared = {name for receipt in receipts for name in receipt.get("arrays", ())}
    return [name_of(task) for task in tasks], one, {name: digest(parts.rows(name).read_all()) for name in shared}


class Refused:
    """A task that must not run."""

    def __call__(self, out):
        raise AssertionError("a finished part was made again")


@contextmanager
def watched(log, names):
    """Append to `log` what every map of the driver leaves, and add the tasks that run in this process to `names`.

    Each map is repeated, which must run nothing. What a task itself maps, within, is its own affair.
    """
    real_map, real_run, thread = Execution.map, in_process.run_part, threading.local()

    def run_part(task, parts, index):
        names.add(name_of(task))
        outer, thread.inside = getattr(thread, "inside", False), True
        try:
            return real_run(task, parts, index)
        finally:
            thread.inside = outer

    def mapped(self, tasks, parts, follow=lambda done: []):
        receipts = real_map(self, tasks, parts, follow)
        if getattr(thread, "inside", False):
            return receipts
        assert real_map(self, [Refused()] * len(tasks), parts) == receipts
        if isinstance(self, OnDask):
            for task in tasks:
                assert len(pickle.dumps(task)) <= LARGEST_TASK, task
        log.append(contents(tasks, parts, receipts))
        return receipts

    with patch.object(Execution, "map", mapped), patch.object(in_process, "run_part", run_part):
        yield


def shown(item, execution):
    """Return what an example finds, what its maps left, and the tasks that ran in this process."""
    log: list[typing.Any] = []
    names: set[str] = set()
    client = execution.client.as_current() if isinstance(execution, OnDask) else nullcontext()
    folder = Path(gettempdir()) / f"dssl-example-{os.getpid()}"  # the same for each, since receipts name files
    folder.mkdir()
    try:
        with watched(log, names), client:
            actual = item.show(execution, folder)
    finally:
        rmtree(folder)
    return {name: digest(value) if hasattr(value, "dtype") else value for name, value in actual.items()}, log, names


@cache
def shown_here(item):
    """Return what an example finds in the threads of this process, once for all tests."""
    return shown(item, InProcess(2, item.memory_budget))


@pytest.mark.cluster
@pytest.mark.parametrize("item", EXAMPLES, ids=lambda item: item.name)
@pytest.mark.extended_cases("deformed_kernel", "deformed_kernel_of_a_table",
    "deformed_kernel_on_a_given_graph", "deformed_kernel_on_given_neighbors", "equal_rows",
    "laplace_on_the_graph_of_stored_words", "laprls_by_default",
    "laprls_of_stored_points_kmeans_nystrom-pcg", "laprls_of_stored_points_leverage_pcg",
    "laprls_of_stored_points_uniform_direct", "laprls_of_stored_words_kmeans_nystrom-direct",
    "laprls_of_stored_words_leverage_nystrom-pcg",
    "lapsvm_of_stored_points_uniform_nystrom-direct", "lapsvm_of_stored_words_uniform_nystrom-pcg",
    "resistances", "ridge_on_the_graph_of_stored_points", "spectrum", "stochastic_affinity")
def test_two_processes_give_the_bits_of_threads(item, cluster_client):
    here, maps, _ = shown_here(item)
    there, maps_there, _ = shown(item, OnDask(cluster_client, item.memory_budget))
    assert [names for names, *_ in maps_there] == [names for names, *_ in maps]
    for mine, theirs in zip(maps, maps_there, strict=True):
        assert_equal(theirs, mine)
    assert_equal(there, here)


def test_every_task_is_shown_by_an_example():
    missing = tasks_of_the_package()
    for item in EXAMPLES:
        missing -= shown_here(item)[2] if missing else set()
    assert not missing, f"no example in tests/execution/task_examples.py shows {', '.join(sorted(missing))}"
