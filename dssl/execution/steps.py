"""Steps whose results are found again by a run that was killed."""

from collections.abc import Callable, Sequence

from ..base.digest import plain
from ..storage.blocks import Parts, Receipt
from .tasks import Execution, Task

StepWork = Callable[[Parts], Receipt]


class Steps:
    """Numbered steps of a computation that can be resumed.

    Each step writes to its own parts within `parts`, and its receipt there records that it is complete: a complete step
    is not run again, even if a later step has removed its parts. The order of the calls may depend on nothing but the
    receipts.
    """

    def __init__(self, parts: Parts, execution: Execution):
        self.parts = parts
        self.execution = execution
        self._count = 0

    def run(self, name: str, work: StepWork, used: Sequence[Parts] = ()) -> tuple[Parts, Receipt]:
        """Return the parts of a step and the JSON receipt that `work` returned for them.

        used : parts that no later step reads; they are removed.
        """
        number = self._count
        self._count += 1
        step_parts = self.parts.within(f"{number:03d}-{name}")
        receipt = self.parts.receipt_of(number)
        if receipt is None:
            receipt = self.parts.finish(number, plain(work(step_parts)))
        elif self.execution.counter:
            self.execution.counter.begin(receipt.get("tasks", 0), receipt.get("tasks", 0))
        for parts in used:
            parts.remove()
        return step_parts, receipt

    def map(self, name: str, tasks: Callable[[Parts], Sequence[Task]],
            summary: Callable[[list[Receipt]], Receipt] = lambda receipts: {}, used: Sequence[Parts] = ()
            ) -> tuple[Parts, Receipt]:
        """Run tasks into the parts of a step; return the parts, and the `summary` of the tasks' receipts."""
        def work(step_parts: Parts) -> Receipt:
            receipts = self.execution.map(tasks(step_parts), step_parts)
            return {**summary(receipts), "tasks": len(receipts)}

        return self.run(name, work, used)
