"""Preloaded by the workers of these tests: every task takes a quarter of a second more, so that a fault meets one."""

import os
import time

from dssl.execution import on_dask

SECONDS = "SECONDS_OF_A_TASK"  # the variable that says another time


def dask_setup(worker):
    run_part, seconds = on_dask.run_part, float(os.environ.get(SECONDS, 0.25))

    def slowly(task, parts, index):
        time.sleep(seconds)
        return run_part(task, parts, index)

    on_dask.run_part = slowly
