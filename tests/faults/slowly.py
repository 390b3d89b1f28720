"""Preloaded by the workers of these tests: every task takes a quarter of a second more, so that a fault meets one."""

import time

from dssl.execution import on_dask

SECONDS = 0.25


def dask_setup(worker):
    run_part = on_dask.run_part

    def slowly(task, parts, index):
        time.sleep(SECONDS)
        return run_part(task, parts, index)

    on_dask.run_part = slowly
