"""A real cluster of worker processes on this machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster

from dssl.runtime.description import WATCHED
from dssl.runtime.fork_server import forked_workers


@contextmanager
def local_cluster(n_workers: int) -> Iterator[Client]:
    """Yield a client of so many worker processes with one thread each.

    It is not the active client, so that other tests still run in this process: `with client.as_current():`.
    """
    with dask.config.set(WATCHED), forked_workers():
        cluster = LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None,
                               memory_limit="2GiB", silence_logs=50)
    with cluster, Client(cluster, set_as_default=False) as client:
        yield client
