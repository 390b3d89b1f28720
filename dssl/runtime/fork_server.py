"""The process of which the workers on this machine are copies; it imports what they run, once for all.

Linux only: on other systems a copy of a process that has loaded BLAS may hang, and each worker imports for itself. The
process stays until this one ends, with some 200 MB that it shares with its copies.
"""

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver

import dask

from ..base.signals import interrupts_not_inherited
from ..execution.threads import available_cores

PRELOADED = ["distributed", "dssl.pipeline.run"]


def start_fork_server() -> None:
    """Start the process on a machine of several cores, so that it imports while this one reads and plans.

    It gets the variables that Dask sets for its workers, such as those that limit BLAS to one thread, unless the user
    has set them: glibc and BLAS read them when they are loaded. And it imports no file of the working directory in
    place of a module of the same name.
    """
    if not sys.platform.startswith("linux") or available_cores() == 1:
        return
    import distributed  # noqa: F401  -- its settings

    multiprocessing.set_forkserver_preload(PRELOADED)
    settings = {**dask.config.get("distributed.nanny.pre-spawn-environ"), "PYTHONSAFEPATH": 1}
    variables = {name: str(value) for name, value in settings.items() if name not in os.environ}
    os.environ.update(variables)
    try:
        with interrupts_not_inherited():
            forkserver.ensure_running()
    finally:
        for name in variables:
            del os.environ[name]


@contextmanager
def forked_workers() -> Iterator[None]:
    """Start the workers of clusters as copies of that process, where this is safe."""
    if not sys.platform.startswith("linux"):
        yield
        return
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context()  # the first call names Dask's own modules, in place of all that were named before
        multiprocessing.set_forkserver_preload(PRELOADED)
        yield
