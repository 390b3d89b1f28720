"""Fixtures of all tests, and which of them may run side by side."""

import os
from pathlib import Path

import pytest
from hypothesis import settings


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in two processes, and chosen files in this one."""
    return min(2, len(os.sched_getaffinity(0))) if config.args == config.getini("testpaths") else 0


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a file in one process, so that its fixtures are made once, and all that uses the cluster in one."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        on_cluster = "cluster_client" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("cluster" if on_cluster else item.path.parent.name + item.path.stem))


@pytest.fixture(scope="session")
def dssl_data() -> Path:
    """The folder of real data sets; skips the test where there is none."""
    folder = os.environ.get("DSSL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DSSL_DATA names no folder")
    return Path(folder)


@pytest.fixture(scope="session")
def cluster_client():
    """A client of two worker processes with one thread each.

    It is not the active client, so that other tests still run in this process: `with cluster_client.as_current():`.
    """
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None,
                      memory_limit="2GiB") as cluster, Client(cluster, set_as_default=False) as client:
        yield client


# A property that is slow on a busy machine is not wrong; what is too slow meets pytest's own limit. The examples are
# the same in every run, so that a change is judged by what it changed; DSSL_FUZZ asks for others.
settings.register_profile("dssl", deadline=None, derandomize="DSSL_FUZZ" not in os.environ)
settings.load_profile("dssl")
