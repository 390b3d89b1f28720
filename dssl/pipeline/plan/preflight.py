"""What the stages of a plan take, and what is refused of it: before a run, and again as soon as more is known."""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ...base.errors import BudgetError, DsslError, explain, sentences
from ...base.units import size_setting
from ...execution.cost import Cost, WorkerRoom
from ...execution.tasks import Execution
from ...methods.plan_inputs import DISTINCT, Bound, PlanInputs, guessed_by
from ...storage.artifacts import Artifact
from ...storage.blocks import STEP_BYTES, budget_beside
from ...storage.objects import ObjectPath
from ..spec import Spec
from ..stage import Stage

Status = Literal["cached", "partial", "to run"]
BOUNDS: tuple[Bound, ...] = ("upper", "lower")
STEPS_BUDGET = re.compile(r"(, or )?raise (the )?memory_budget to [\d,]+( bytes)?( or more)?(, or )?")
MIN_TRIED = 1 << 20  # bytes; of the budgets that are tried where a smaller one would do
DOUBLINGS = 24  # of the budget that are tried where a larger one would


@dataclass(frozen=True)
class Room:
    """The bytes that a task may take: its memory budget, and what a worker has for it, None where nobody says."""

    budget: int
    worker: WorkerRoom | None = None

    @classmethod
    def of(cls, execution: Execution) -> "Room":
        return cls(execution.memory_budget, execution.smallest_worker)

    def has(self, cost: Cost) -> bool:
        """Return whether the largest task of a stage fits."""
        return _needed(cost) <= self.budget and (
            self.worker is None or not cost.tasks or cost.peak <= self.worker.room)


@dataclass(frozen=True)
class PlannedStage:
    """A stage with its parameters and artifact: "cached", "partial" (some parts are finished) or "to run", and why.

    base : the address of the artifact that it grows from; empty where it does not.
    cost : of what a run would do; None for a stage that is cached, or that cannot fit.
    estimated : names of the numbers that the cost follows from and that an earlier stage has yet to find; bound : which
    bound of them was taken, "lower" where the stage would not fit by the upper ones. graph : where several are tried,
    the values of the one that the stage is of. refused : why a run would refuse it, if it would.
    """

    stage: Stage
    params: Any
    artifact: Artifact
    status: Status
    why: str
    base: str = ""
    cost: Cost | None = None
    estimated: tuple[str, ...] = ()
    bound: Bound | Literal["guess"] = "upper"
    graph: str = ""
    refused: DsslError | None = None

    def to_dict(self, workers: int = 1, rate: float = 1.0) -> dict[str, Any]:
        """Return the JSON form; of a cached stage nothing is run, so its figures are 0.

        rate : how many times its estimate the stage takes on this machine.

        name, status, why, address; tasks; requests, 0 unless the workspace is an object store; read_bytes and
        written_bytes, of arrays before compression; peak_bytes, of the largest task; core_seconds on one core,
        wall_seconds with so many workers; estimated, the names of the numbers behind these that an earlier stage has
        yet to find, of which the "upper" or the "lower" bound was taken, or a "guess"; refused, why a run would refuse
        the stage, or None.
        """
        cost = Cost(0, 0, 0, 0, 0) if self.status == "cached" else self.cost
        is_asked = self.status != "cached" and isinstance(self.artifact.root, ObjectPath)
        return {"name": self.stage.name, "status": self.status, "why": self.why, "address": self.artifact.address,
                "tasks": cost and cost.tasks, "requests": cost and cost.requests * is_asked,
                "read_bytes": cost and cost.read, "written_bytes": cost and cost.written,
                "peak_bytes": cost and cost.peak, "core_seconds": cost and round(rate * cost.core_seconds, 3),
                "wall_seconds": cost and round(rate * cost.wall_seconds(workers), 3), "estimated": list(self.estimated),
                "bound": self.bound, "refused": self.refused and str(self.refused),
                **({"graph": self.graph} if self.graph else {})}


def price(item: PlannedStage, inputs: PlanInputs, spec: Spec, room: Room | None = None,
          stages: Sequence[PlannedStage] = ()) -> PlannedStage:
    """Return the stage with its cost, and with why it is refused; what cannot fit has no cost.

    stages : all that run, which the budget that an error names is enough for.
    """
    if item.status == "cached":
        return item
    room = room or Room(inputs.budget)
    priced = replace(item, refused=refusal(item, inputs, spec, room, stages))
    cost, bound = cost_within(item, inputs, spec, room)
    if cost is None:
        return priced
    guesses = cost.guesses | guessed_by(replace(inputs, bound=bound), lambda other: _outcome(item, other, spec))
    return replace(priced, cost=cost, estimated=tuple(sorted(guesses)),
                   bound="guess" if bound == "upper" and guesses & inputs.guesses else bound)


def cost_within(item: PlannedStage, inputs: PlanInputs, spec: Spec, room: Room) -> tuple[Cost | None, Bound]:
    """Return the cost of a stage by the upper bounds, or by the lower ones where that does not fit, and by which.

    None where neither is a cost, since something cannot fit, and of a stage that exists.
    """
    cost: Cost | None = None
    which: Bound = "upper"
    for bound in BOUNDS if item.stage.cost and item.status != "cached" else ():
        outcome = _outcome(item, replace(inputs, bound=bound), spec)
        if isinstance(outcome, Cost) and outcome != cost:
            cost, which = outcome, bound
            if room.has(outcome):
                break
    return cost, which


def _outcome(item: PlannedStage, inputs: PlanInputs, spec: Spec) -> Cost | str:
    """Return the cost of a stage, or why it cannot fit."""
    assert item.stage.cost is not None
    try:
        return item.stage.cost(inputs, spec)
    except BudgetError as error:
        return str(error)


def refusal(item: PlannedStage, inputs: PlanInputs, spec: Spec, room: Room,
            stages: Sequence[PlannedStage] = ()) -> DsslError | None:
    """Return the error for a stage to run that refuses what is known, or that cannot fit, whatever is yet to be found.

    None where there is none.

    Of numbers that are not known the lower bounds are taken, but for duplicates of points: until they are counted
    there are none. It cannot fit where its largest task exceeds the budget, by which its blocks were made, or what the
    smallest worker has for it, since any task may come to any worker. stages : as of `price`.
    """
    name = item.stage.name
    if item.status == "cached":
        return None
    error = None if item.stage.refuses is None else item.stage.refuses(inputs, spec)
    if error is not None or item.stage.cost is None:
        return error
    bounded, worker = replace(inputs, budget=room.budget, bound="lower"), room.worker
    have = f"the memory budget is {size_setting(room.budget, up=False)}"
    if worker is not None and worker.room <= room.budget:
        have += f", and {worker.in_words()}"
    needed = _outcome(item, bounded, spec)

    def duplicates_hint() -> str:
        """Return what to do where the points were taken as distinct."""
        counts = DISTINCT in guessed_by(bounded, lambda other: _outcome(item, other, spec))
        return "; if many of the points are equal, have them counted first: --until vertices" if counts else ""

    def fix() -> str:
        enough, largest, min_budget = _enough([item, *stages], bounded, spec)
        other = f" (stage {largest} needs that much)" if largest not in ("", name) else ""
        if enough is not None and min_budget is not None and 2 * min_budget < enough:
            other += f", which is certainly enough; {size_setting(min_budget, up=True)} may suffice"
        fits = None if enough is None or worker is None or enough <= worker.room else worker.limit_for(enough)
        ways = [f"raise memory_budget{_to(enough)}, in the spec or by --memory-budget{other}"
                f"{f', and the memory_limit of workers{_to(fits)}' if fits else ''}", item.stage.hint]
        return ", or ".join(ways if enough is not None else reversed(ways)) + duplicates_hint()

    if isinstance(needed, str):
        what, why, hint = sentences(needed)
        others = STEPS_BUDGET.sub("", hint)  # the budget of all stages is named, not that of this step
        return BudgetError(explain(f"stage {name} cannot fit, {have}", why=f"{what}; {why}",
                                   fix=f"{others}; {fix()}" if others else fix()))
    if _needed(needed) > room.budget:
        return BudgetError(explain(
            f"stage {name} needs {size_setting(_needed(needed), up=True)} in one task, {have}",
            why="it is refused now rather than after the earlier stages have run", fix=fix()))
    if worker is None or not needed.tasks or needed.peak <= worker.room:
        return None
    smaller = _budget_that_fits(item, bounded, spec, worker.room)
    return BudgetError(explain(
        f"stage {name} takes {size_setting(needed.peak, up=True)} in one task, {worker.in_words()}",
        why="blocks are as large as the memory budget lets them be, any task may come to any worker, and a worker that "
            "is full ends its task",
        fix=(f"lower memory_budget to {size_setting(smaller, up=False)}" if smaller else item.stage.hint)
        + f", or {worker.hint(needed.peak)}{duplicates_hint()}"))


def refuse_what_cannot_fit(stages: Sequence[PlannedStage], inputs: PlanInputs | None, spec: Spec, room: Room) -> None:
    """Raise the error of the first of some stages that is refused; see `refusal`."""
    for item in stages:
        error = refusal(item, inputs, spec, room, stages) if inputs is not None else None
        if error is not None:
            raise error


def _needed(cost: Cost) -> int:
    """Return the least budget that has room for the largest task, beside what any step takes."""
    return budget_beside(max(cost.peak - STEP_BYTES, cost.smallest_peak))


def _to(size: int | None) -> str:
    return "" if size is None else f" to {size_setting(size, up=True)}"


def _enough(stages: Sequence[PlannedStage], inputs: PlanInputs, spec: Spec) -> tuple[int | None, str, int | None]:
    """Return about the least budget by which stages fit whatever is yet to be found, and a stage that needs it.

    Last, that which fits the lower bounds, which is the first one, too, where none fits the upper bounds. None where no
    budget is enough, and then no stage.
    """
    budgets: list[tuple[int, str]] = []
    for bound in BOUNDS:
        def fit(item: PlannedStage, budget: int, bound: Bound = bound) -> bool:
            return all(_fits(item, replace(inputs, budget=budget, bound=bound), of_budget, budget)
                       for of_budget in _specs_of(spec, budget))

        def fits(budget: int, fit: Callable[[PlannedStage, int], bool] = fit) -> bool:
            return all(fit(item, budget) for item in stages)

        larger = (inputs.budget << shift for shift in range(DOUBLINGS))
        upper = next((budget for budget in larger if fits(budget)), None)
        if upper is not None and upper > inputs.budget:
            tried = range(upper // 2, upper)
            enough = tried.start + bisect_left(tried, True, key=fits)
            budgets.append((enough, next((item.stage.name for item in stages if not fit(item, enough - 1)), "")))
    return (*budgets[0], budgets[-1][0]) if budgets else (None, "", None)


def _specs_of(spec: Spec, budget: int) -> list[Spec]:
    """Return the specs of another budget: set by an option, and by the spec, which chooses sizes by it."""
    return [spec] if spec.memory_budget is None else [spec, replace(spec, memory_budget=budget)]


def _fits(item: PlannedStage, inputs: PlanInputs, spec: Spec, budget: int) -> bool:
    if item.status == "cached" or item.stage.cost is None:
        return True
    cost = _outcome(item, inputs, spec)
    return isinstance(cost, Cost) and _needed(cost) <= budget


def _budget_that_fits(item: PlannedStage, inputs: PlanInputs, spec: Spec, limit: int) -> int | None:
    """Return the largest of halves of the budget by which a stage fits a limit; None if there is none."""
    budget = inputs.budget // 2
    while budget >= MIN_TRIED:
        cost = _outcome(item, replace(inputs, budget=budget), spec)
        if isinstance(cost, str):
            return None
        if cost.peak <= limit:
            return budget
        budget //= 2
    return None
