"""What a cluster description is: a few checked fields, and how an execution is started from them."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from dask.utils import parse_bytes
from pydantic import BaseModel, ConfigDict

from ..errors import SpecError, require
from ..execution.tasks import Execution


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


def parse_size(text: str) -> int:
    """Return the bytes of a size such as "500MB" or "2GiB".

    Raises
    ------
    SpecError : the text is not a size above zero.
    """
    try:
        size = parse_bytes(text) if any(character.isdigit() for character in text) else 0  # "MB" would be one
    except (ValueError, OverflowError):
        size = 0
    require(size > 0, f"{text!r} is not a size", why="it says how much memory a task may take",
            fix="write a number and a unit, such as 500MB or 2GiB", error=SpecError)
    return int(size)
