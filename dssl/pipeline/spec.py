"""The sections of a pipeline file that all kinds of models share, checked with the path of what is wrong.

What makes parameters of a section imports what they are of where it is called: keys and types are checked before the
numerical libraries are loaded, so that a mistake in a file is told at once (`tests/pipeline/test_spec.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_type_hints

from pydantic import (
    Field,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from ..base.digest import BANDWIDTH
from ..base.errors import DsslError, SpecError, explain, said
from ..data.ingest_params import IngestParams
from ..data.scaling.params import ScalingKind, ScalingParams
from ..execution.size import budget_of
from ..graph.regularizer_params import LaplacianKind
from ..graph.weights.rules import KERNEL_WIDTH, WIDTH, WeightParams
from ..knn.params import NeighborParams
from .spec_section import PredictionsSpec, SpecSection, require_no_boolean
from .spec_selection import KernelSelection, SelectionSpec

if TYPE_CHECKING:
    from ..graph.graph import KNNGraph
    from ..kernels.base import Kernel

READER_OPTIONS, READER_TYPES = TypeAdapter(IngestParams), get_type_hints(IngestParams)
NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
LearningTask = Literal["classification", "regression", "clustering"]


def read_mistakes(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what is wrong with the reader's parameters of a mapping: loc, type, msg and input, as pydantic tells."""
    found: list[dict[str, Any]] = []
    for name, value in options.items():
        if name not in READER_TYPES:
            found.append({"loc": (name,), "type": "extra_forbidden", "msg": "", "input": value})
            continue
        try:
            require_no_boolean(READER_TYPES[name], value)
        except ValueError as error:
            found.append({"loc": (name,), "type": "value_error", "msg": str(error), "input": value})
    if not found:
        try:
            READER_OPTIONS.validate_python(options)
        except ValidationError as error:
            found += [{**item, "loc": item["loc"]} for item in error.errors()]
    return found


def ingest_params(options: dict[str, Any], where: str) -> IngestParams:
    """Return the reader's parameters of a mapping; raise SpecError with the names of those that are wrong."""
    found = read_mistakes(options)
    if found:
        unknown = any(item["type"] == "extra_forbidden" for item in found)
        told = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'options'}" + (
            ": no such option" if item["type"] == "extra_forbidden" else f": {said(item)}") for item in found)
        near = [name for item in found if item["type"] == "extra_forbidden"
                for name in get_close_matches(str(item["loc"][0]), READER_TYPES, 1)]
        raise SpecError(explain(f"{where}: {told}" + (f"; did you mean {', '.join(near)}?" if near else ""),
                                why="the reader cannot be told so", fix=f"the options are "
                                f"{', '.join(sorted(READER_TYPES))}" if unknown else "see the options in IngestParams"))
    return READER_OPTIONS.validate_python(options)


class TestSplit(SpecSection):
    """Which points are kept for testing: a number, a share, the split that the data set comes with, or none."""

    one_of = ("count", "fraction", "official", "none")
    count: int | None = Field(default=None, ge=1)
    fraction: float | None = Field(default=None, gt=0, lt=1)
    official: bool = False
    none: bool = Field(default=False, description="no test points: labels held out judge the model")


class DataSpec(SpecSection):
    """Where the points come from, which of them are used, and what is to be predicted of them."""

    task: LearningTask = Field(
        "classification", description="classification reads the target as classes, regression as quantities; without a "
                                      "target (NaN, an empty cell) a point is unlabeled; clustering needs none")
    source: str | list[str] = Field(description="a name (see dssl ingest --help), a path, a pattern such as "
                                    "part-*.csv, or a URL; or a list of them")
    read: dict[str, Any] = Field(default_factory=dict, description="options of the reader; see IngestParams")
    keep: list[str | int | float] | None = Field(None, description="classes to keep, such as [4, 9]")
    classes: dict[str | int, list[str | int | float]] | None = Field(None, description="joined classes by name")
    unlabeled: str | int | float | None = Field(None, description="the marker of unlabeled points")
    rows: Literal["all", "official_train"] = Field("all", description="which rows of the source are used: all, or the "
                                                   "training rows of the split that it comes with")
    points: int | None = Field(None, ge=2, description="labeled and unlabeled points used; all but the test points")
    test: TestSplit = TestSplit(fraction=0.2)
    scale: ScalingKind = Field("auto", description="of the features; auto standardizes columns whose ranges differ and "
                               "leaves those of one unit, such as pixels and embeddings; see ScalingParams")
    random_state: int = Field(0, ge=0)
    grows: bool = Field(False, description="a run goes on from the last one of this spec: it reads files that are new "
                        "alone, and adds their rows to the graph and the model; see docs/growing.md")

    @model_validator(mode="after")
    def _rows_can_be_tested(self) -> DataSpec:
        if self.rows == "official_train" and self.test.official:
            raise ValueError("rows: official_train leaves the official test rows out; set test.count or test.fraction")
        return self

    def ingest_params(self) -> IngestParams:
        """Return the reader's parameters."""
        return ingest_params(self.read, "data.read")

    @property
    def scaling(self) -> ScalingParams | None:
        """Return how features are scaled; None where that is chosen later."""
        return ScalingParams(kind=self.scale)


class LabelSpec(SpecSection):
    """How many labels the method is shown."""

    one_of = ("count", "per_class", "fraction", "given")
    count: int | None = Field(None, ge=1)
    per_class: int | None = Field(None, ge=1)
    fraction: float | None = Field(None, gt=0, le=1)
    given: bool = Field(False, description="show every label that the training points have")
    file: str | list[str] | None = Field(None, description="CSV files with the columns row and label, such as dssl "
                                         "suggest writes: labels of training points, shown beside those")
    random_state: int = Field(0, ge=0)


class GivenGraph(SpecSection):
    """A graph from a file, over all rows of the source in order, in place of the one made of the points."""

    one_of = ("weights", "neighbors")
    weights: str | None = Field(None, description="scipy.sparse.save_npz of symmetric weights (n, n); the search and "
                                                  "the weighting are then ignored")
    neighbors: str | None = Field(None, description="npz of ids and distances, both (n, k), with or without each row's "
                                                    "own id; the search is then ignored, n_neighbors with it")

    @property
    def kind(self) -> Literal["weights", "neighbors"]:
        """Return which of the two it is."""
        return "neighbors" if self.weights is None else "weights"

    @property
    def path(self) -> str:
        """Return the file's path or URL."""
        return str(self.neighbors if self.weights is None else self.weights)


WIDTH_DESCRIPTION = "of self_tuned weights, in units of the distances to the k-th neighbors"


class GraphSpec(SpecSection):
    """The neighbor graph of all training points, and its Laplacian."""

    duplicates: Literal["collapse", "keep"] = Field(
        default="collapse", description="collapse makes equal rows one vertex that counts as many points; keep makes "
                                        "one vertex a row")
    given: GivenGraph | None = Field(default=None, description="a graph from a file; equal rows are then kept apart")
    n_neighbors: int = 10
    method: Literal["auto", "exact", "descent", "partitioned"] = Field(
        default="auto", description="exact; NN-descent in one task; or partitioned, in tasks of any number of dense "
                                    "points")
    recall: float = Field(default=0.95, description="that a partitioned search reaches, certified; NN-descent is "
                                                    "repeated, wider, where it does not")
    metric: Literal["euclidean", "cosine"] = "euclidean"
    weights: Literal["binary", "heat", "self_tuned"] = "self_tuned"
    bandwidth: float | None = None
    width: float = Field(default=WIDTH, description=WIDTH_DESCRIPTION)
    symmetrize: Literal["maximum", "minimum", "mean"] = "maximum"
    laplacian: LaplacianKind = "normalized"
    random_state: int = 0

    def neighbors(self) -> NeighborParams:
        """Return the search's parameters."""
        return NeighborParams(n_neighbors=self.n_neighbors, method=self.method, metric=self.metric,
                              random_state=self.random_state, recall=self.recall)

    def weighting(self) -> WeightParams:
        """Return the weights' parameters."""
        return WeightParams(weights=self.weights, bandwidth=self.bandwidth, width=self.width,
                            symmetrize=self.symmetrize)

    def builder(self) -> KNNGraph:
        """Return both in one, by which new points reach the graph."""
        from ..graph.graph import KNNGraph

        return KNNGraph(n_neighbors=self.n_neighbors, metric=self.metric, method=self.method, weights=self.weights,
                        bandwidth=self.bandwidth, width=self.width, symmetrize=self.symmetrize,
                        duplicates=self.duplicates, random_state=self.random_state, recall=self.recall)


class KernelGraph(GraphSpec):
    """The same, of models in a base kernel."""

    width: float = Field(default=KERNEL_WIDTH, description=WIDTH_DESCRIPTION)


class KernelSpec(SpecSection):
    """The base kernel, on the scaled features."""

    name: str = Field(default="rbf", description="rbf, laplacian, linear, polynomial, cosine, or one that a plugin "
                      "registers")
    bandwidth: float | str | None = Field(default=None, description="a number, median or a multiple; null is "
                                                                    f"{BANDWIDTH}")
    parameters: dict[str, int | float] = Field(default_factory=dict, description="other parameters, such as degree")

    def require_known(self) -> None:
        """Raise ParameterError where no kernel has this name."""
        from ..kernels.base import kernel_type

        kernel_type(self.name)

    def check(self) -> Kernel:
        """Return the kernel with these parameters; two points stand in for the data that give a median its value."""
        import numpy as np

        from ..kernels.base import kernel_from

        parameters: dict[str, Any] = dict(self.parameters)
        return kernel_from(self.name, self.bandwidth, rows=np.array([[0.0], [1.0]]), **parameters)


class ModelSpec(SpecSection):
    """What is fitted: its kind, and what that kind asks for."""

    kind: str


class Spec(SpecSection):
    """A whole pipeline: what to compute, never where. Each kind of model adds the sections that its stages read."""

    name: str = Field(pattern=NAME)
    data: DataSpec
    labels: LabelSpec | None = None
    model: ModelSpec
    predictions: PredictionsSpec = PredictionsSpec()
    memory_budget: int | str | None = Field(None, description="that a task may take, such as 600MB; null is 1GiB")

    @property
    def budget(self) -> int:
        """Return the bytes that a task may take, where nobody says otherwise."""
        return budget_of(self.memory_budget)

    @property
    def given_graph(self) -> GivenGraph | None:
        """Return the graph that is given as a file, None where there is none."""
        return None

    def _task_mistakes(self) -> Iterator[tuple[str, DsslError]]:
        """Yield each key that asks a regression for classes."""
        if self.data.task != "regression":
            return
        per_class = self.labels.per_class if self.labels else None
        for name, value in (("data.keep", self.data.keep), ("data.classes", self.data.classes),
                            ("labels.per_class", per_class)):
            if value is not None:
                yield name, SpecError(explain(f"{name}={value}, and data.task is regression",
                                              why="quantities have no classes", fix="leave it out"
                                              if name != "labels.per_class" else "set labels.count or labels.fraction"))
        if isinstance(self.data.unlabeled, str):
            yield "data.unlabeled", SpecError(explain(
                f"data.unlabeled={self.data.unlabeled!r}, and data.task is regression",
                why="a quantity is a number, so its marker is one",
                fix="name a number; empty cells and NaN are unlabeled anyway"))

    def _growth_mistakes(self) -> Iterator[tuple[str, DsslError]]:
        """Yield the key that has rows grow beside a graph of a fixed number of them."""
        if self.data.grows and self.given_graph is not None:
            yield "data.grows", SpecError(explain("data.grows, and graph.given", fix="leave one of them out",
                                                  why="a graph that is given has as many rows as when it was made"))

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield each section's name with what makes its parameters, which checks their values."""
        if self.memory_budget is not None:
            yield "memory_budget", lambda: self.budget
        yield "data.read", self.data.ingest_params
        yield "data.scale", lambda: self.data.scaling

    def mistakes(self, skipped: Collection[str] = ()) -> Iterator[tuple[str, DsslError]]:
        """Yield what no computation can use, with the path of its section; a SpecError names its keys itself.

        skipped : sections whose parameters are not made.
        """
        yield from self._task_mistakes()
        yield from self._growth_mistakes()
        for section, make in self.parameters():
            try:
                if section not in skipped:
                    make()
            except DsslError as error:
                yield section, error


@dataclass(frozen=True)
class KindSpec:
    """What a spec can say of a kind of model, known without the kind itself.

    name : `model.kind` in a spec. spec : its sections. tasks : what it serves, of `data.task`.
    """

    name: str
    spec: type[Spec]
    tasks: tuple[LearningTask, ...]

    def mistakes(self, spec: Spec) -> Iterator[tuple[str, DsslError]]:
        """Yield what a valid spec asks for and no stage of the kind has; the specs of dssl's own kinds allow none."""
        yield from ()


class GraphPipeline(Spec):
    """A pipeline whose stages make a graph of the training points."""

    graph: GraphSpec = GraphSpec()

    @property
    def given_graph(self) -> GivenGraph | None:
        return self.graph.given

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "graph", self.graph.neighbors
        yield "graph", self.graph.weighting


class KernelPipeline(GraphPipeline):
    """A pipeline of models in a kernel, with a stage that chooses their parameters, and models to compare with."""

    kernel: KernelSpec = KernelSpec()
    selection: SelectionSpec | None = None
    baselines: tuple[str, ...] = ()
    always: ClassVar[tuple[str, ...]] = ()  # baselines that are never left out

    @field_validator("baselines")
    @classmethod
    def _baselines_are_sound(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("one is named twice")
        if not {*cls.always} <= {*names}:
            raise ValueError(f"{' and '.join(cls.always)} are always among them")
        return names

    def graphs(self) -> list[tuple[dict[str, Any], Self]]:
        """Return the values of each graph that is tried, and the pipeline of that graph alone; itself of one graph."""
        chosen = self.selection
        values = chosen.grid.graph.values() if chosen else [{}]
        if chosen is None or not values[0]:
            return [({}, self)]
        alone = chosen.model_copy(update={"grid": chosen.grid.model_copy(update={
            "graph": type(chosen.grid.graph)()})})
        return [(own, self.model_copy(update={"graph": self.graph.model_copy(update=own), "selection": alone}))
                for own in values]

    def mistakes(self, skipped: Collection[str] = ()) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes(skipped)
        found = self.graphs()
        if not found[0][0]:
            return
        if self.graph.given is not None:
            yield "selection.grid.graph", SpecError(explain("selection.grid.graph, and graph.given",
                                                            why="a graph that is given is the only one",
                                                            fix="leave one of them out"))
        for place, (values, own) in enumerate(found):
            if any(values == other for other, _ in found[:place]):
                yield "selection.grid.graph", SpecError(explain(f"selection.grid.graph has {values} twice",
                                                                why="it would do work twice",
                                                                fix="name each value once"))
            yield from own.mistakes(skipped)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the base kernel with each bandwidth of the selection."""
        from ..kernels.base import has_bandwidth

        chosen = self.selection.grid.bandwidth if isinstance(self.selection, KernelSelection) else None
        if not chosen:
            return (self.kernel,)
        if not has_bandwidth(self.kernel.name):
            raise SpecError(explain(f"selection.grid.bandwidth={chosen}, and kernel.name is {self.kernel.name}",
                                    why="that kernel has no bandwidth", fix="leave selection.grid.bandwidth out"))
        return tuple(self.kernel.model_copy(update={"bandwidth": bandwidth}) for bandwidth in chosen)

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "kernel.name", self.kernel.require_known
        yield "kernel", self.kernel.check
        yield "selection", lambda: [kernel.check() for kernel in self.kernels()]
        if self.selection is not None:
            yield "selection", self.selection.cv
            yield "selection", partial(self.selection.require_scoring, self.data.task)
