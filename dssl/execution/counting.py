"""Tasks that are counted instead of run: a plan adds up what the tasks of a map say that they take."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from .cost import Cost, block_count
from .tasks import Task


class CountedTask(Task, Protocol):
    """A task that says what it takes, from shapes alone."""

    def cost(self) -> Cost:
        """Return what the task reads and writes, and a formula of its memory, as the cost of one task."""
        ...


Counted = TypeVar("Counted", bound=CountedTask)


@dataclass(frozen=True)
class BlockTasks(Sequence[Counted], Generic[Counted]):
    """The tasks of the blocks of n rows, each made when it is asked for: a run maps them, and a plan counts them.

    task : makes the task of the rows [start, stop). Tasks of whole blocks take the same.
    """

    task: Callable[[int, int], Counted]
    n_rows: int
    height: int

    def __len__(self) -> int:
        return block_count(self.n_rows, self.height)

    def __getitem__(self, index: Any) -> Any:
        start = range(0, self.n_rows, self.height)[index]
        return self.task(start, min(start + self.height, self.n_rows))

    def cost(self) -> Cost:
        """Return what all of them take: the first as often as there are whole blocks, and the last if it is shorter."""
        whole, rest = divmod(self.n_rows, self.height)
        cost = whole * self[0].cost() if whole else Cost(0, 0, 0, 0, 0)
        return cost + self[-1].cost() if rest else cost
