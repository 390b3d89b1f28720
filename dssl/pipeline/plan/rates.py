"""Seconds of stages on this machine: the estimates of their costs, times what earlier runs took beside these.

What is chosen, and what is stored, follows from the costs alone, which are equal everywhere.
"""

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ...base.errors import IntegrityError
from ...data.sources import cache_folder
from ...execution.speed import slowness
from ...storage.artifacts import Workspace
from ...storage.files import read_json

RUNS = 20  # the newest that are learned from
PRIOR_SECONDS = 2.0  # for which the machine's speed counts as much as what a stage took


@dataclass(frozen=True)
class Rates:
    """How many times its estimate a stage takes: as a rule, and by the name of those that earlier runs have made."""

    rule: float = 1.0
    stages: dict[str, float] = field(default_factory=dict)

    def of(self, stage: str) -> float:
        return self.stages.get(stage, self.rule)


def rates_of(workspace: Workspace) -> Rates:
    """Return the rates of this machine, and of the stages that the newest runs of a workspace made."""
    rule = slowness(cache_folder())
    took, estimated = defaultdict[str, float](float), defaultdict[str, float](float)
    for path in sorted(workspace.root.glob("runs/*/result.json"))[-RUNS:]:
        for name, seconds, estimate in _measured(path):
            took[name] += seconds
            estimated[name] += estimate
    return Rates(rule, {name: (took[name] + rule * PRIOR_SECONDS) / (estimated[name] + PRIOR_SECONDS) for name in took})


def _measured(path: Path) -> list[tuple[str, float, float]]:
    """Return name, seconds and estimated seconds of the stages that a run has made; nothing of a damaged record."""
    with suppress(OSError, IntegrityError, KeyError, TypeError):
        return [(stage["name"], stage["seconds"], stage["estimated_seconds"]) for stage in read_json(path)["stages"]
                if stage.get("estimated_seconds")]
    return []
