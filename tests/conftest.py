"""Fixtures of all tests, how many processes run them, and what all of them do without."""

import gc
import os
import sys
import uuid
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

# Two processes with a thread each, not with as many as there are cores; they and what they start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Hundreds of processes that tests start import the package; the first one compiles it for all.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


GUARDS = ("tests/end_to_end/", "tests/faults/", "tests/runtime/", "tests/storage/", "tests/submit/test_faults.py",
          "tests/submit/test_local.py", "tests/test_packages.py")
GUARDED = {"budget", "budgets", "cancelled", "crash", "cut", "damaged", "dies", "disk", "drained", "goes", "gone",
           "holds", "interrupt", "interrupted", "killed", "lease", "lock", "locks", "lost", "memory", "room", "worker",
           "workers"}  # words of the names of tests
NOT_TESTS = pytest.StashKey[set[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in two processes, and chosen files in this one."""
    return min(2, len(os.sched_getaffinity(0))) if config.args == config.getini("testpaths") else 0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", metavar="I/N", help="run only the I-th of N parts (from 0) of the tests that guard no "
                                                    "crash, worker or memory")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow and the extended cases, and leave out the tests of other shares.

    Keeps the names of marked cases that a test of the whole suite does not have.
    """
    named: dict[str, pytest.MarkDecorator] = {}
    for item in items:
        for name, added in (("slow_cases", pytest.mark.slow), ("extended_cases", pytest.mark.extended)):
            for mark in item.iter_markers(name):
                named |= {f"{item.nodeid.partition('[')[0]}[{case}]": added for case in mark.args}
        if item.nodeid in named:
            item.add_marker(named[item.nodeid])
    if config.args == config.getini("testpaths"):
        config.stash[NOT_TESTS] = named.keys() - {item.nodeid for item in items}
    if share := config.getoption("share"):
        index, count = map(int, share.split("/"))
        of_others = {item for item in items
                     if not is_in_every_share(item.nodeid) and crc32(item.nodeid.encode()) % count != index}
        config.hook.pytest_deselected(items=list(of_others))
        items[:] = [item for item in items if item not in of_others]


def is_in_every_share(nodeid: str) -> bool:
    """Return whether a test guards what is promised of crashes, workers and memory."""
    file, _, name = nodeid.partition("[")[0].partition("::")
    return file.startswith(GUARDS) or not GUARDED.isdisjoint(name.split("_"))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Spare the garbage collector what the imports and the collection made; it lives as long as the process."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def no_power_cut():
    """Leave what is written to the system's buffers: they outlive a process that is killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(scope="session")
def dssl_data() -> Path:
    """The folder of real data sets; skips the test where there is none."""
    folder = os.environ.get("DSSL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DSSL_DATA names no folder")
    return Path(folder)


@pytest.fixture(scope="session")
def s3_server():
    """The environment of clients of an S3 server on loopback, with a bucket named "bucket"; set for this session."""
    pytest.importorskip("obstore", reason="the extra `cloud` is not installed")
    pytest.importorskip("moto", reason="moto, with flask and flask-cors, is not installed")
    from tests.objects import moto

    with moto() as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield environment


@pytest.fixture
def s3(s3_server):
    """The URL of a folder in that bucket where nothing is."""
    return f"s3://bucket/{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def cluster_client():
    """A client of two worker processes with one thread each."""
    from tests.clusters import local_cluster

    with local_cluster(2) as client:
        yield client


# A property that is slow on a busy machine is not wrong; what is too slow meets pytest's own limit. The examples are
# the same few in every run, so that a change is judged by what it changed; DSSL_FUZZ asks for others, and for more.
settings.register_profile("dssl", deadline=None, derandomize="DSSL_FUZZ" not in os.environ,
                          max_examples=100 if "DSSL_FUZZ" in os.environ else 30)
settings.load_profile("dssl")
