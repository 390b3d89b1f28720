"""What a cluster description is: a few checked fields, and how an execution is started from them."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from pydantic import BaseModel, ConfigDict, Field

from ..execution.tasks import Execution
from ..execution.watchdog import PATIENCE


class Runtime(BaseModel, ABC):
    """A place to run; each kind has a field `kind` with a name of its own, and is listed in `start.Described`."""

    model_config = ConfigDict(extra="forbid")

    @abstractmethod
    def start(self, memory_budget: int) -> AbstractContextManager[tuple[Execution, str]]:
        """Give an execution and one line that says where it runs; close it afterwards.

        Raises
        ------
        ClusterError : it cannot be reached.
        """


class DaskRuntime(Runtime):
    """A place whose tasks run on Dask workers."""

    patience: float = Field(default=PATIENCE, gt=0, allow_inf_nan=False, description="seconds without a running worker "
                                                                                   "after which a run ends")
