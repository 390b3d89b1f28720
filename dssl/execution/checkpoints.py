"""Steps of a long computation, each recorded once it is whole: one that was killed goes on after the last of them."""

from collections.abc import Callable, Sequence

from ..base.digest import plain
from ..storage.blocks import Parts, Receipt
from .tasks import Execution, Task

Work = Callable[[Parts], Receipt]


class Steps:
    """Steps in the order in which they are called, which follows from what they return and from nothing else.

    Each writes to a place of its own within `parts`, whose receipts are the records: a step that has one is not run
    again, and what it wrote may be gone, removed with the step that read it last.
    """

    def __init__(self, parts: Parts, execution: Execution):
        self.parts, self.execution = parts, execution
        self._count = 0

    def run(self, name: str, work: Work, used: Sequence[Parts] = ()) -> tuple[Parts, Receipt]:
        """Return the place of a step and what `work(place)` returned, which is JSON.

        used : places that nothing reads after this step; they are removed.
        """
        number, self._count = self._count, self._count + 1
        place = self.parts.within(f"{number:03d}-{name}")
        receipt = self.parts.receipt_of(number)
        if receipt is None:
            receipt = self.parts.finish(number, plain(work(place)))
        elif self.execution.counter:
            self.execution.counter.begin(receipt.get("tasks", 0), receipt.get("tasks", 0))
        for parts in used:
            parts.remove()
        return place, receipt

    def map(self, name: str, tasks: Callable[[Parts], Sequence[Task]],
            summary: Callable[[list[Receipt]], Receipt] = lambda receipts: {}, used: Sequence[Parts] = ()
            ) -> tuple[Parts, Receipt]:
        """Run tasks into the place of a step; return it, and what `found` returns of their receipts."""
        def work(place: Parts) -> Receipt:
            receipts = self.execution.map(tasks(place), place)
            return {**summary(receipts), "tasks": len(receipts)}

        return self.run(name, work, used)
