"""The stages of a run: each is made unless it exists, and what it took is recorded beside what was estimated."""

import time
from dataclasses import dataclass, replace

from ..base.profiler import PeakMemory
from ..base.signals import heed_signals
from ..execution.cost import Cost
from ..execution.tasks import Execution, TaskCount
from ..execution.threads import one_thread
from ..methods.plan_inputs import PlanInputs
from ..methods.step import Context
from .plan.inputs import Rates, known_after
from .plan.plan import Plan
from .plan.preflight import PlannedStage, Room, cost_within, refuse_what_cannot_fit
from .progress import Events
from .records import StageRun


@dataclass
class Estimates:
    """The estimated seconds of the stages of a run that are left, by address."""

    rates: Rates
    tasks_at_once: int
    seconds: dict[str, float]

    @classmethod
    def of(cls, made: Plan, tasks_at_once: int) -> "Estimates":
        estimates = cls(made.rates, tasks_at_once, {})
        for item in made.selected:
            estimates.note(item, item.cost)
        return estimates

    def note(self, item: PlannedStage, cost: Cost | None) -> None:
        """Take over the cost of a stage to run."""
        if item.status != "cached" and cost is not None:
            self.seconds[item.artifact.address] = self.rates.of(item.stage.name) * cost.wall_seconds(
                self.tasks_at_once)

    def later(self) -> float:
        return sum(self.seconds.values())


def run_stages(made: Plan, whole: Plan, records: dict[str, StageRun], execution: Execution,
               estimated: Estimates, tell: Events) -> None:
    """Make the artifacts of a plan, one of several graphs or the whole, and add the records of addresses without."""
    known = made.inputs
    for place, item in enumerate(made.own_stages):
        heed_signals()
        if item.status != "cached" or item.artifact.address not in records:
            refuse_what_cannot_fit(made.own_stages[place:], known, made.spec, Room.of(execution))
            if known is not None:  # more is known than when the plan was made
                for other in made.own_stages[place:]:
                    estimated.note(other, cost_within(other, known, made.spec, Room(known.budget))[0])
            record = _run_stage(item, made, known, execution, estimated, tell)
            records[item.artifact.address] = replace(record, graph=whole.graph_of(item))
            known = known and known_after(known, made.spec, item.stage.name, item.artifact.attributes)


def _run_stage(item: PlannedStage, made: Plan, known: PlanInputs | None, execution: Execution, estimated: Estimates,
               tell: Events) -> StageRun:
    """Make one artifact unless it exists; return the record of it."""
    name, artifact = item.stage.name, item.artifact
    begin = time.perf_counter()
    seconds = estimated.seconds.pop(artifact.address, None)
    tell({"event": "stage", "stage": name, "status": item.status, "estimated": seconds, "later": estimated.later()})
    is_cached = item.status == "cached"
    record = StageRun(name, "cached" if is_cached else "done", artifact.address, 0.0)
    if not is_cached:
        if name in made.remake:  # now and not before: until here a run that is killed has lost nothing
            artifact.remove()
        record = _make(item, made, known, execution, tell)
    record = replace(record, seconds=round(time.perf_counter() - begin, 3), why=item.why)
    tell({"event": "stage", "stage": name, "status": record.status, "seconds": record.seconds})
    for text in item.stage.notes(artifact.attributes) if item.stage.notes else ():
        tell({"event": "note", "stage": name, "text": text})
    return record


def _make(item: PlannedStage, made: Plan, known: PlanInputs | None, execution: Execution, tell: Events) -> StageRun:
    """Make one artifact; return its peak memory (bytes), predicted and measured; its seconds are 0.

    Predicted is what the plan's formula gives for what the stages found and chose (a search, a solver), this one too.
    Measured is the most of its tasks and of its steps in this process. Threads of one process cannot be told apart:
    where several tasks ran side by side in one, there is no ratio.
    """
    name, artifact = item.stage.name, item.artifact
    artifact.begin({"memory_budget": execution.memory_budget})
    inputs = {other.stage.name: other.artifact for other in made.stages if other.stage.name in item.stage.needs}

    def progress(done: int, of: int) -> None:
        tell({"event": "progress", "stage": name, "done": done, "of": of})

    execution.largest_task_bytes, execution.largest_process_bytes = None, 0
    execution.counter = TaskCount(progress, item.cost.tasks if item.cost else 0)
    files = {name: made.files[name] for name in item.stage.files if name in made.files}
    try:
        with PeakMemory() as driver:
            base = made.workspace.artifact_in(name, item.base) if item.base else None
            new = made.growth.added if base is not None and made.growth and made.growth.grows else None
            with execution.stopping_works(), one_thread():
                attributes = item.stage.make(Context(inputs, files, artifact.parts, execution, base, new), item.params)
    finally:
        execution.counter = None  # the execution may be used again after a run that failed
    artifact.publish(attributes, execution.allowed)
    now = known and known_after(known, made.spec, name, artifact.attributes)
    cost = None if now is None else cost_within(item, now, made.spec, Room(now.budget))[0]
    peaks = (execution.largest_task_bytes, driver.bytes)
    measured = max((peak for peak in peaks if peak is not None), default=None)
    predicted = cost.peak if cost else None
    apart = execution.tasks_per_process == 1 or (cost is not None and cost.tasks <= 1)
    ratio = round(measured / predicted, 3) if measured is not None and predicted and apart else None
    return StageRun(name, "done", artifact.address, 0.0, execution.largest_process_bytes, predicted, measured, ratio,
                    None if cost is None else round(cost.wall_seconds(execution.tasks_at_once), 3))
