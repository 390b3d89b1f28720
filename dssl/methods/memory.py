"""The workspace of an estimator's fit: what its steps make, in memory."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..execution.tasks import Execution, one_thread
from ..storage.blocks import Parts
from .step import Context, Fit, Method, Step


@dataclass(frozen=True)
class MemoryArtifact:
    """An artifact in memory."""

    parts: Parts
    attributes: dict[str, Any]


@dataclass
class MemoryWorkspace:
    """What the steps of an estimator's fit make, by the name of the step; it goes with the fit."""

    fit: Fit
    execution: Execution
    artifacts: dict[str, MemoryArtifact] = field(default_factory=dict)

    def run(self, steps: Sequence[Step], params: Any, keep: Collection[str] = ()) -> None:
        """Run steps in their order, each on what those before it have made.

        The arrays of an intermediate step are removed once the last of these steps that needs it has run; keep : the
        names of those that stay.
        """
        for place, step in enumerate(steps):
            context = self.context()
            with one_thread():
                attributes = dict(step.make(context, step.params(params)))
            self.artifacts[step.name] = MemoryArtifact(context.parts, attributes)
            needed = {name for other in steps[place + 1:] for name in other.needs}
            for earlier in steps[:place]:
                if earlier.intermediate and earlier.name in step.needs and earlier.name not in {*needed, *keep}:
                    self.artifacts[earlier.name].parts.remove()

    def tidy(self, method: Method) -> None:
        """Keep only what the last steps of a method read: no models, and no other arrays; a graph where they do."""
        for step in method.steps:
            if step.intermediate and step.name not in method.read_last:
                self.artifacts[step.name].parts.remove()
        graph = self.fit.graph if "graph" in method.read_last else None
        self.fit = Fit(self.fit.points, self.fit.target, self.fit.weight, graph, self.fit.distinct, soft=self.fit.soft)

    def context(self) -> Context:
        """Return what the next step gets."""
        return Context(dict(self.artifacts), {}, self.execution.scratch(), self.execution, fit=self.fit,
                       side=self.fit.side)
