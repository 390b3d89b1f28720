"""Steps, and where they find and leave what they make.

A step reads artifacts and writes one, alike in memory (the fit of an estimator) and in a workspace (a pipeline).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import DsslError
from ..data.scaling.scaling import Scaling
from ..data.source_files import Source
from ..execution.cost import Cost
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.vertices import VertexRows, Vertices
from ..kernels.base import Kernel
from ..knn.lists import Neighbors
from ..learners.class_prior import LABELS, ClassPrior, ClassWeight
from ..learners.model import Model, predict_cost, stored_models
from ..learners.on_graph.graph_ridge import LastKernelRows
from ..learners.soft_labels import vector_probabilities
from ..learners.target.coding import Coding
from ..learners.target.target import Classes, Target
from ..report.page import SectionOf
from ..report.record import Baseline, ReportText
from ..selection.by_labels import ModelsMade, OfModels
from ..selection.halving import CandidateEvaluator
from ..storage.artifacts import Artifact, Workspace
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows
from ..storage.views import BlockedCsrRows
from .data_sections import DataSection, LearningTask
from .plan_inputs import PlanInputs
from .sections import Sections

WEIGHT = "weight"  # beside the arrays of a target, the weights of its labels
SOFT_LABELS, VECTORS = "soft_labels", "vectors"  # beside the labels, what another model says of points or of classes


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


@dataclass(frozen=True)
class HeldOutValues:
    """Values (h, c) of a model and its supervised baseline at labeled `points` (h,), without their own labels."""

    points: np.ndarray
    coding: Coding
    model: np.ndarray
    base: np.ndarray


@dataclass
class SideResults:
    """What a fit leaves in this process beside its artifacts.

    last : for another fit on the same graph, see `graph_members`. held_out : what a method that knows it says of labels
    without themselves. models : by name; those of one tag are stored with those of all.
    """

    last: LastKernelRows | None = None
    held_out: HeldOutValues | None = None
    models: dict[str, Model] = field(default_factory=dict)


@dataclass
class Fit:
    """What the fit of an estimator begins with, and what it ends with, in memory.

    points : the scaled training points (n, d). weight : of the labels (l,), None where all weigh 1. graph : of the
    points, of a method that has one. distinct : which points are duplicates, where no graph says so. evaluator : by
    which parameters were chosen, whose systems the models follow from. fitted : what the models are in. soft :
    what another model says of the points, (n, c), if any does.
    """

    points: Rows
    target: Target
    weight: np.ndarray | None = None
    graph: Graph | None = None
    distinct: Vertices | None = None
    evaluator: CandidateEvaluator | None = None
    fitted: "FittedModels | None" = None
    soft: np.ndarray | None = None
    side: SideResults = field(default_factory=SideResults)


@dataclass(frozen=True)
class FittedModels:
    """Models by name, with the attributes of all of them; JSON."""

    models: dict[str, Model]
    attributes: OfModels


@dataclass(frozen=True)
class Context:
    """What a step gets beside its parameters. Never the spec: its address tells all that it follows from.

    inputs : the artifacts that it needs, by step. files : those from outside that its address holds the digests of.
    base : the artifact of this step that it grows from, of fewer rows; None where it does not. new : where it grows,
    the files of the source that the base did not read. fit : of an estimator, in place of the artifacts of points and
    labels; None in a pipeline. side : of the fit of an estimator, or of one of several tags.
    """

    inputs: Mapping[str, Made]
    files: Mapping[str, File]
    parts: Parts
    execution: Execution
    base: Artifact | None = None
    new: Source | None = None
    fit: Fit | None = None
    side: SideResults | None = None

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

    def rows(self, step: str, name: str) -> Rows:
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
        return self.rows("points", name)

    def target(self, prior: ClassPrior = LABELS) -> Target:
        """Return the labeled training points with their classes or quantities.

        prior : how frequent the classes are among the points that are predicted.

        Raises ParameterError: the prior lacks a class, or has one that there is not.
        """
        target = self.fit.target if self.fit else Target.from_arrays(self.arrays("labels"), self.attributes("labels"))
        return target.with_prior(prior)

    def label_weights(self, target: Target, weight: ClassWeight) -> np.ndarray | None:
        """Return what each label weighs (l,), by its class and by itself; see `Target.label_weights`."""
        return target.label_weights(weight, self.fit.weight if self.fit else self.arrays("labels").get(WEIGHT))

    def soft_labels(self) -> np.ndarray | None:
        """Return what another model says of the training points, (n, c); None where none does."""
        if self.fit is not None:
            return self.fit.soft
        opinion = self.attributes("labels").get("opinion")
        if opinion is None:
            return None
        if opinion["kind"] == SOFT_LABELS:
            return self.rows("labels", SOFT_LABELS).read_all()
        scaling = Scaling.from_arrays(self.inputs["points"].parts.within("scaling").read(0),
                                      self.attributes("points")["scaling"])
        vectors = self.inputs["labels"].parts.within(VECTORS).read(0)["vectors"]
        return vector_probabilities(self.points("train"), np.asarray(scaling.transform(vectors), np.float64))

    def shared_labels(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and attributes of which tasks make the target, by `Target.from_arrays`.

        Beside them lies `weight` (l,), where labels are given weights.
        """
        if self.fit is None:
            return self.inputs["labels"].parts.arrays(0), self.attributes("labels")
        arrays, attributes = self.fit.target.to_arrays()
        weight = {} if self.fit.weight is None else {WEIGHT: self.fit.weight}
        names = {"classes": self.fit.target.names} if isinstance(self.fit.target, Classes) else {}
        return self.execution.share(**arrays, **weight), attributes | names

    def numbers_of(self, places: np.ndarray) -> np.ndarray:
        """Return the row numbers in the source of some training points (m,); of an estimator, their places in X."""
        return places if self.fit else self.rows("split", "train").take(places)

    # ---- the graph

    @property
    def has_graph(self) -> bool:
        """Return whether there is one: the fit of an estimator may need none."""
        return self.fit is None or self.fit.graph is not None

    def vertex_rows(self) -> VertexRows:
        """Return which training points are duplicates, in a form that every task can read."""
        if self.fit:
            return self.vertices().stored(self.execution.scratch())
        return VertexRows.of(self.inputs["vertices"].parts, self.attributes("vertices"))

    def vertices(self) -> Vertices:
        """Return which training points are duplicates, in memory."""
        if self.fit and self.fit.graph is None:
            return self.fit.distinct or Vertices.distinct(len(self.fit.points))
        return self._graph.vertices if self.fit else self.vertex_rows().load()

    def multiplicity(self) -> Arrays | None:
        """Return the array `multiplicity` of the vertices; None where no points are duplicates."""
        if self.fit:
            return self._graph.shared_vertices(self.execution)
        is_one = self.attributes("vertices")["largest_multiplicity"] == 1
        return None if is_one else self.execution.share(multiplicity=self.vertices().multiplicity)

    def neighbor_lists(self) -> Neighbors | None:
        """Return the neighbor lists; None where weights are given in their place."""
        if self.fit:
            return None if self.fit.graph is None else self.fit.graph.neighbors
        attributes = self.attributes("neighbors")
        has_lists = "n_neighbors" in attributes
        return Neighbors.stored(self.inputs["neighbors"].parts, attributes) if has_lists else None

    def weights(self) -> Parts:
        """Return the weights of the graph, in blocks of rows."""
        return self._graph.stored if self.fit else self.inputs["graph"].parts

    def graph(self) -> Graph:
        """Return the graph, with the lists of its vertices where there are any."""
        if self.fit:
            return self._graph
        return Graph(self.vertices(), self.weights(), self.neighbor_lists(),
                     {"neighbors": self.attributes("neighbors"), "weights": self.attributes("graph")})

    @property
    def _graph(self) -> Graph:
        assert self.fit is not None
        assert self.fit.graph is not None
        return self.fit.graph

    # ---- models

    def fit_models(self, fit: Callable[[], FittedModels]) -> ModelsMade:
        """Return what a function tells of the models that it fits, JSON, and `models`, their attributes by name.

        In a pipeline it is one task, which writes them.
        """
        if self.fit is not None:
            fitted = fit()
            self.fit.side.models.update(fitted.models)
            self.fit.fitted = fitted
            return {"models": {name: model.attributes for name, model in fitted.models.items()}, **fitted.attributes}
        receipt, = self.execution.map([ModelsTask(fit)], self.parts)
        attributes: ModelsMade = receipt["reported"]
        if self.side is not None:
            self.side.models.update(stored_models(self.parts, attributes["models"]).open())
        return attributes

    def write_models(self, models: Mapping[str, Model]) -> dict[str, JsonObject]:
        """Write models as arrays `NAME.ARRAY` of part 0, and return their attributes by name, of which they are read.

        Those of an estimator stay as they are, since its kernel may be a function; so do those of one of several tags.
        """
        if self.side is not None:
            self.side.models.update(models)
            return {name: {} for name in models}
        arrays, described = stored_form(models)
        PartWriter(self.parts, 0).write(**arrays)
        self.parts.arrays(0).keep(arrays)
        return described


def stored_form(models: Mapping[str, Model]) -> tuple[dict[str, np.ndarray], dict[str, JsonObject]]:
    """Return models as arrays `NAME.ARRAY`, and their attributes by name, of which `stored_models` makes them."""
    arrays, described = dict[str, np.ndarray](), {}
    for name, model in models.items():
        fitted, described[name] = model.to_arrays()
        arrays |= {f"{name}.{key}": array for key, array in fitted.items()}
    return arrays, described


@dataclass(frozen=True)
class ModelsTask:
    """Fit models and write them; the receipt has `reported`, what is said of them, with their attributes by name."""

    fit: Callable[[], FittedModels]

    def __call__(self, out: PartWriter) -> Receipt:
        fitted = self.fit()
        arrays, described = stored_form(fitted.models)
        out.write(**arrays)
        return {"reported": {"models": described, **fitted.attributes}}


def cost_of_test_points(f: PlanInputs, kernel: Kernel, m: int, n_models: int, n_columns: int, predicted: int,
                        **maps: int) -> Cost:
    """Return what predicting the test points with so many models of m points takes; see `predict_cost`."""
    return predict_cost(kernel, f.dense(max(f.n_test, 1), f.width), f.row_bytes, m, n_models, n_columns, predicted,
                        f.budget, **maps)


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
    grows : whether it goes on from the artifact of the last run, where rows were added to those of that run.
    refuses : why it would refuse its parameters by what is known so far; None where it would not.
    """

    name: str
    version: int
    needs: tuple[str, ...]
    params: Callable[[Any], Any]
    make: Callable[[Context, Any], Mapping[str, Any]]
    cost: Callable[[PlanInputs, Any], Cost]
    hint: str
    intermediate: bool = False
    section: SectionOf | None = None
    leads: bool = False
    grows: bool = False
    refuses: Callable[[PlanInputs, Any], DsslError | None] | None = None


@dataclass(frozen=True)
class Method:
    """A method: the steps that its estimators and its pipelines run, and what a report says of it.

    name : `model.kind` in a spec. tasks : what it serves. steps : from the points and labels to the models, in their
    order. scores_cost : what predicting the test points takes, as the cost of a step. report_text, baselines : of the
    report. sections : those of a pipeline file that say how it works; they make its parameters. data : its section
    `data`. has_graph : whether its steps begin with a graph; uses_graph : whether some parameters ask for one.
    evaluator : what evaluates candidates, from what the steps before the choice have made of the parameters `joined`,
    which serve all of some candidates; None of a method without a choice.
    at_training : of steps that know it, what the model says at the training points (n, c), and where it says nothing,
    (n,) bool; training_needs : the steps whose artifacts it reads.
    """

    name: str
    tasks: tuple[LearningTask, ...]
    steps: tuple[Step, ...]
    scores_cost: Callable[[PlanInputs, Any], Cost]
    report_text: ReportText
    baselines: tuple[Baseline, ...]
    sections: type[Sections]
    data: type[DataSection] = DataSection
    has_graph: bool = False
    uses_graph: Callable[[Any], bool] = lambda params: True
    evaluator: Callable[[Context, Any], CandidateEvaluator] | None = None
    joined: Callable[[Sequence[Any]], Any] = lambda candidates: candidates[0]
    at_training: Callable[[Context], tuple[np.ndarray, np.ndarray]] | None = None
    training_needs: tuple[str, ...] = ()

    @property
    def learns(self) -> bool:
        return self.tasks != ("clustering",)

    @property
    def last(self) -> tuple[Step, ...]:
        """Return the steps that choose parameters and fit models: what baselines and held-out labels count in."""
        names = [step.name for step in self.steps]
        return self.steps[names.index("selection") if "selection" in names else 0:]

    @property
    def before_choice(self) -> tuple[Step, ...]:
        """Return the steps whose artifacts candidates of a search share."""
        names = [step.name for step in self.steps]
        return self.steps[:names.index("selection" if "selection" in names else "models")]

    @property
    def read_last(self) -> set[str]:
        """Return the names of the steps whose artifacts the last steps read."""
        return {name for step in self.last for name in step.needs}
