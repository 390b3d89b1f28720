"""The memory budget of a run that was given none: what its workers have room for, where the default is too much."""

from collections.abc import Sequence
from dataclasses import replace

from ...base.units import size_setting
from ...execution.cost import WorkerRoom
from ...methods.plan_inputs import PlanInputs
from ..spec import Spec
from .plan import Plan
from .preflight import PlannedStage, Room, refusal


def plan_on(made: Plan, worker: WorkerRoom) -> Plan:
    """Return a plan on workers the smallest of which this is, under a budget that fits it if none was given."""
    tried = tuple(replace(one, worker=worker) for one in made.tried)
    return replace(made, worker=worker, tried=tried).again(budget_for(made, Room(made.budget, worker)))


def budget_for(made: Plan, room: Room) -> int:
    """Return the budget of a run of a plan: that which it was given, or else what `budget_that_fits`."""
    if made.budget_is_given:
        return made.budget
    return min(budget_that_fits(one.own_stages, one.inputs, one.spec, room) for one in (*made.tried, made))


def budget_that_fits(stages: Sequence[PlannedStage], inputs: PlanInputs | None, spec: Spec, room: Room) -> int:
    """Return the budget of a run that was given none: that of the room, or if some stage would be refused by it, what
    its worker has for a task.

    The first is one for all machines, so that their blocks and bits are equal; no task that fits the second is too
    large for the worker. A step of the driver may need more than that, and is then given as much as lets all stages
    fit; where nothing does, the error is that of the second.
    """
    smaller = 0 if room.worker is None else room.worker.room
    if inputs is None or not 0 < smaller < room.budget:
        return room.budget

    def fits(budget: int) -> bool:
        return not any(refusal(item, inputs, spec, replace(room, budget=budget), stages) for item in stages)

    if fits(room.budget):
        return room.budget
    halves = (room.budget >> shift for shift in range(1, (room.budget // smaller).bit_length()))
    return next((budget for budget in (smaller, *halves) if fits(budget)), smaller)


def lowered_note(made: Plan, room: Room, budget: int) -> str:
    """Return what to tell of a budget that was lowered since none was given; nothing of another."""
    if made.budget_is_given or budget >= room.budget or room.worker is None:
        return ""
    return (f"the memory budget of this run is {size_setting(budget, up=False)}: {room.worker.in_words('a task')}; a "
            "larger memory_limit of workers makes room for a larger budget")
