"""Where tasks run if nobody says: on the active Dask client, or on the threads of this process."""

import sys

from ..base.units import MEMORY_BUDGET
from .in_process import InProcess
from .tasks import Execution


def current_execution(memory_budget: int | None = None) -> Execution:
    """Return the execution on the active Dask client, if there is one, or else on the threads of this process."""
    active = None
    if "distributed" in sys.modules:  # else there is no client, and half a second is spared
        from .on_dask import active_execution

        active = active_execution(memory_budget)
    return active or InProcess(memory_budget=memory_budget or MEMORY_BUDGET)
