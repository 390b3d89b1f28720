"""Steps, and where they find and leave what they make.

A step reads artifacts and writes one. It knows neither whether these lie in memory (the fit of an estimator) nor in a
workspace (a pipeline), nor whether Python or YAML asked for it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..data.source_files import Source
from ..execution.cost import Cost
from ..execution.tasks import Execution
from ..learners.class_prior import LABELS, ClassPrior, ClassWeight
from ..learners.model import Model
from ..learners.target import Target
from ..report.page import Section
from ..report.words import Baseline, Words
from ..storage.artifacts import Artifact, Workspace
from ..storage.blocks import ArrayRows, Parts, PartWriter, Rows
from ..storage.pieces import BlockedCsrRows


@dataclass(frozen=True)
class NoParams:
    """The parameters of a step that has none."""


@dataclass(frozen=True)
class File:
    """A file from outside that a step reads, and the digest of its bytes."""

    source: Source
    digest: str


class Made(Protocol):
    """What a step has made: the parts of an artifact, and its JSON attributes."""

    @property
    def parts(self) -> Parts: ...

    @property
    def attributes(self) -> dict[str, Any]: ...


@dataclass
class Fit:
    """What the fit of an estimator begins with, and the models that it ends with, in memory.

    points : the scaled training points (n, d). weight : of the labels (l,), None where all weigh 1.
    """

    points: Rows
    target: Target
    weight: np.ndarray | None = None
    models: dict[str, Model] = field(default_factory=dict)


@dataclass(frozen=True)
class Context:
    """What a step gets beside its parameters. Never the spec: its address tells all that it follows from.

    inputs : the artifacts that it needs, by step. files : those from outside that its address holds the digests of.
    base : the artifact of this step that it grows from, of fewer rows; None where it does not. new : where it grows,
    the files of the source that the base did not read. fit : of an estimator, in place of the artifacts of points and
    labels; None in a pipeline.
    """

    inputs: Mapping[str, Made]
    files: Mapping[str, File]
    parts: Parts
    execution: Execution
    base: Artifact | None = None
    new: Source | None = None
    fit: Fit | None = None

    def of_base(self, step: str) -> Artifact:
        """Return the artifact of another step that the base was made of."""
        assert self.base is not None
        return Workspace(self.base.root).artifact_in(step, self.base.inputs[step])

    def arrays(self, step: str) -> dict[str, np.ndarray]:
        """Return the arrays of part 0 of an input."""
        return self.inputs[step].parts.read(0)

    def attributes(self, step: str) -> dict[str, Any]:
        """Return the attributes of an input."""
        return self.inputs[step].attributes

    def rows(self, step: str, name: str) -> Any:
        """Return a shared array of an input, to be read by ranges of rows."""
        return self.inputs[step].parts.rows(name)

    def points(self, name: str) -> Rows:
        """Return the scaled rows of "train" or "test": a shared array, or sparse rows in parts."""
        if self.fit is not None:
            assert name == "train"
            return self.fit.points
        described = self.attributes("points").get(name)
        if described:
            return BlockedCsrRows.of(self.inputs["points"].parts, described)
        rows: Rows = self.rows("points", name)
        return rows

    def target(self, prior: ClassPrior = LABELS) -> Target:
        """Return the labeled training points with their classes or quantities.

        prior : how frequent the classes are among the points that are predicted.

        Raises ParameterError: the prior lacks a class, or has one that there is not.
        """
        target = self.fit.target if self.fit else Target.from_arrays(self.arrays("labels"), self.attributes("labels"))
        return target.with_prior(prior)

    def label_weights(self, target: Target, weight: ClassWeight) -> np.ndarray | None:
        """Return what each label weighs (l,), by its class and by itself; see `Target.label_weights`."""
        return target.label_weights(weight, self.fit.weight if self.fit else None)

    def write_models(self, models: Mapping[str, Model]) -> dict[str, dict[str, Any]]:
        """Write models as arrays `NAME.ARRAY` of part 0, and return their attributes by name, of which they are read.

        The models of an estimator stay as they are: its kernel may be a function, which cannot be stored.
        """
        if self.fit is not None:
            self.fit.models.update(models)
            return {name: {} for name in models}
        arrays, described = dict[str, np.ndarray](), {}
        for name, model in models.items():
            own, described[name] = model.to_arrays()
            arrays |= {f"{name}.{key}": array for key, array in own.items()}
        PartWriter(self.parts, 0).write(**arrays)
        return described


class PlanInputs(Protocol):
    """The numbers that costs are functions of, known or bounded; see `pipeline.facts.Facts`."""

    budget: int
    attributes: dict[str, dict[str, Any]]  # of finished steps

    @property
    def n(self) -> int: ...

    @property
    def d(self) -> int: ...

    @property
    def n_labeled(self) -> int: ...

    @property
    def n_test(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    @property
    def row_bytes(self) -> int: ...

    @property
    def width(self) -> int: ...

    def dense(self, n: int, d: int) -> ArrayRows: ...


SectionOf = Callable[[dict[str, Any], dict[str, Any]], Section | None]


@dataclass(frozen=True)
class Step:
    """A step of a method.

    version : raised when its output changes. needs : the steps whose artifacts it reads.
    params : makes its frozen dataclass of the parameters of the method: what its address digests, and all that `make`
        gets of them.
    make : writes its parts, and returns JSON attributes.
    cost : what it takes, of the numbers of a plan and the parameters of the method. hint : what to lower where it
        cannot fit.
    intermediate : whether later steps alone read its arrays, so that `dssl gc --intermediate` removes them.
    section : what the report says of it; leads : whether that stands before the sections of earlier steps.
    """

    name: str
    version: int
    needs: tuple[str, ...]
    params: Callable[[Any], Any]
    make: Callable[[Context, Any], dict[str, Any]]
    cost: Callable[[Any, Any], Cost]
    hint: str
    intermediate: bool = False
    section: SectionOf | None = None
    leads: bool = False


@dataclass(frozen=True)
class Method:
    """A method: the steps that its estimators and its pipelines run, and what a report says of it.

    name : `model.kind` in a spec. tasks : what it serves. steps : from the points and labels to the models, in their
    order. scores_cost : what predicting the test points takes, as the cost of a step. words, baselines : of the report.
    """

    name: str
    tasks: tuple[str, ...]
    steps: tuple[Step, ...]
    scores_cost: Callable[[Any, Any], Cost]
    words: Words
    baselines: tuple[Baseline, ...]


@dataclass(frozen=True)
class Held:
    """An artifact in memory."""

    parts: Parts
    attributes: dict[str, Any]


@dataclass
class MemoryWorkspace:
    """What the steps of an estimator's fit make, by the name of the step; it goes with the fit."""

    fit: Fit
    execution: Execution
    artifacts: dict[str, Held] = field(default_factory=dict)

    def run(self, steps: Iterable[Step], params: Any) -> None:
        """Run steps in their order, each on what those before it have made."""
        for step in steps:
            context = self.context()
            self.artifacts[step.name] = Held(context.parts, step.make(context, step.params(params)))

    def context(self) -> Context:
        """Return what the next step gets."""
        return Context(dict(self.artifacts), {}, self.execution.scratch(), self.execution, fit=self.fit)
