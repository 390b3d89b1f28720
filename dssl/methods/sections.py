"""The sections of a pipeline file that say how a method works: frozen dataclasses, checked once.

Each key has its only default here or in the parameters that a section is made of. Its description stands in the
docstring, from which the JSON Schema of pipeline files takes it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, Self

import numpy as np

from ..base.digest import require_one_of, require_random_state
from ..base.errors import DsslError, ParameterError, SpecError, explain, raised, require
from ..graph.knn_graph import KNNGraph
from ..graph.regularizer import LaplacianKind, RegularizerParams
from ..graph.weights.rules import KERNEL_WIDTH, WIDTH
from ..kernels.base import BaseKernels, Kernel, has_bandwidth, kernel_from, kernel_type
from ..learners.class_prior import ClassPrior, ClassWeight, Size
from ..selection.held_out_scores import require_scoring
from .data_sections import LearningTask, OpinionSection
from .selection_sections import Selection

# ---- the graph


@dataclass(frozen=True, kw_only=True)
class GivenGraph:
    """A graph from a file, over all rows of the source in order, in place of the one made of the points.

    Parameters
    ----------
    weights : str or None
        scipy.sparse.save_npz of symmetric weights (n, n), or an .h5ad file with obsp/connectivities. The
        search then has no effect, and the weighting at most on new points; a plan names the keys without effect.
    neighbors : str or None
        npz of ids and distances, both (n, k), with or without each row's own id, in place of a search.
    """

    weights: str | None = None
    neighbors: str | None = None

    def __post_init__(self) -> None:
        require_one_of(self, "weights", "neighbors")

    @property
    def kind(self) -> Literal["weights", "neighbors"]:
        return "neighbors" if self.weights is None else "weights"

    @property
    def path(self) -> str:
        return str(self.neighbors if self.weights is None else self.weights)


@dataclass(frozen=True, kw_only=True)
class GraphSection(KNNGraph):
    """The neighbor graph of all training points, and its Laplacian.

    Parameters
    ----------
    given : GivenGraph or None
        A graph from a file; equal rows are then kept apart.
    laplacian : "normalized" or "unnormalized"
        The Laplacian of the graph.
    """

    given: GivenGraph | None = None
    laplacian: LaplacianKind = "normalized"
    replaced: ClassVar[frozenset[str]] = frozenset({"method", "recall", "symmetrize"})  # keys, by given weights

    @property
    def unused(self) -> tuple[str, ...]:
        """Return the keys that are set, and have no effect on a graph that is given, nor on new points."""
        if not self.given:
            return ()
        keys = self.replaced if self.given.kind == "weights" else {"n_neighbors", "method", "recall"}
        return tuple(f.name for f in fields(self) if f.name in keys and getattr(self, f.name) != f.default)

    def builder(self) -> KNNGraph:
        """Return how the graph is made, and new points are connected to it; keys without effect are as by default."""
        made: dict[str, Any] = {f.name: f.default if f.name in self.unused else getattr(self, f.name)
                                for f in fields(self) if f.name in KNNGraph.__dataclass_fields__}
        return KNNGraph(**made)


@dataclass(frozen=True, kw_only=True)
class KernelGraph(GraphSection):
    """The neighbor graph of models in a base kernel."""

    width: float = KERNEL_WIDTH
    replaced: ClassVar[frozenset[str]] = GraphSection.replaced | {"n_neighbors", "weights", "bandwidth", "width"}


@dataclass(frozen=True, kw_only=True)
class RegularizedGraph(KernelGraph):
    """The neighbor graph of all training points, and the regularizer Q = (L + ridge I)^power that it makes.

    Parameters
    ----------
    ridge : float
        Added to the Laplacian, > 0.
    power : int
        Of the regularizer, >= 1; larger is smoother.
    """

    ridge: float = RegularizerParams.ridge
    power: int = RegularizerParams.power

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.regularizer()  # raises where one of its parameters is out of range

    def regularizer(self) -> RegularizerParams:
        return RegularizerParams(laplacian=self.laplacian, ridge=self.ridge, power=self.power)


@dataclass(frozen=True, kw_only=True)
class ClusterGraph(RegularizedGraph):
    """The neighbor graph of all training points, and the regularizer of its kernel."""

    width: float = WIDTH
    replaced: ClassVar[frozenset[str]] = GraphSection.replaced  # others connect new points to it


# ---- the kernel


@dataclass(frozen=True, kw_only=True)
class KernelSection:
    """The base kernel, on the scaled features.

    Parameters
    ----------
    name : str
        rbf, laplacian, linear, polynomial, cosine, or one that a plugin registers.
    bandwidth : float, str or None
        A number, "median" or a multiple such as "0.5*median"; null is 0.5*median.
    parameters : dict
        Other parameters of the kernel, such as degree.
    """

    name: str = "rbf"
    bandwidth: float | str | None = None
    parameters: dict[str, int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            kernel_type(self.name)
        except ParameterError as error:
            raise SpecError(f"kernel.name: {error}") from error
        for kernel in self.tried():
            _ = kernel.kernel()  # raises where there is none of this name, or it lacks a parameter

    def tried(self) -> tuple[Self, ...]:
        """Return the base kernel with each bandwidth that is tried."""
        return (self,)

    def kernel(self) -> Kernel:
        """Return the kernel with these parameters; two points stand in for the data that give a median its value."""
        parameters: dict[str, Any] = dict(self.parameters)
        return kernel_from(self.name, self.bandwidth, rows=np.array([[0.0], [1.0]]), **parameters)

    def with_bandwidths(self, bandwidths: tuple[float | str, ...] | None) -> tuple[Self, ...]:
        """Return the kernel with each of some bandwidths; as it is tried where there are none."""
        if bandwidths is None:
            return self.tried()
        require(has_bandwidth(self.name), error=SpecError, fix="leave selection.grid.bandwidth out",
                what=f"selection.grid.bandwidth={list(bandwidths)}, and kernel.name is {self.name}",
                why="that kernel has no bandwidth")
        return tuple(kernel for each in bandwidths for kernel in replace(self, bandwidth=each).tried())


# ---- the model


@dataclass(frozen=True, kw_only=True)
class ModelSection:
    """What is fitted: its kind, and what that kind asks for.

    Parameters
    ----------
    kind : str
        The kind of model.
    """

    kind: str

    def prior(self) -> ClassPrior | None:
        """Return how frequent the classes are among the points that are predicted, None where that is not said."""
        return None

    def weight(self) -> ClassWeight:
        """Return what the labels of each class weigh."""
        return ClassWeight()

    @property
    def opinion(self) -> OpinionSection | None:
        """Return what another model says of the points or the classes; None where none is given."""
        return None


@dataclass(frozen=True, kw_only=True)
class ClassModel(ModelSection):
    """A model of classes, with their frequencies and weights; or of quantities.

    Parameters
    ----------
    class_prior : "labels", "equal", list or dict, or None
        How frequent the classes are among the points that are predicted: "labels",
        as frequent as among the labels; "equal"; or the share of each class, in the
        order of the classes, or by class. null is "labels", or "equal" where
        labels.per_class draws as many of each.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: null, 1
        each; "balanced", the same in total for each class; or a weight by class.
    """

    class_prior: Literal["labels", "equal"] | list[float] | dict[str | int | float, float] | None = None
    class_weight: Literal["balanced"] | dict[str | int | float, float] | None = None

    def __post_init__(self) -> None:
        _ = ClassPrior.of(self.class_prior), ClassWeight.of(self.class_weight)

    def prior(self) -> ClassPrior | None:
        return None if self.class_prior is None else ClassPrior.of(self.class_prior)

    def weight(self) -> ClassWeight:
        return ClassWeight.of(self.class_weight)


@dataclass(frozen=True, kw_only=True)
class SizedModel(ClassModel):
    """A model of classes whose sizes may be known.

    Parameters
    ----------
    class_sizes : list, dict, "balanced" or None
        The known sizes of the classes, in the order of the classes or by class:
        counts or shares, or a pair of shares [low, high]; null where they are not
        known.
    random_state : int
        The seed of every random choice.
    """

    class_sizes: list[Size] | dict[str | int | float, Size] | Literal["balanced"] | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_random_state(self.random_state)

    def prior(self) -> ClassPrior | None:
        if self.class_sizes is None:
            return super().prior()
        require(self.class_prior is None, "model.class_prior and model.class_sizes", fix="leave class_prior out",
                why="the sizes say how frequent the classes are")
        return ClassPrior.of(self.class_sizes, "class_sizes")

    def task_mistakes(self, task: LearningTask) -> Iterator[tuple[str, DsslError]]:
        """Yield class sizes of quantities."""
        if task == "regression" and self.class_sizes is not None:
            yield "model.class_sizes", SpecError(explain("model.class_sizes, and data.task is regression",
                                                         why="quantities have no classes", fix="leave it out"))


# ---- what a method asks of a pipeline file


class Sections:
    """The sections that a method reads of a pipeline file, beside those of every file, which derive from this class."""

    @property
    def task(self) -> LearningTask:
        """Return what is learned."""
        raise NotImplementedError

    @property
    def budget(self) -> int:
        """Return the bytes that a task may take."""
        raise NotImplementedError

    @property
    def prior(self) -> ClassPrior:
        """Return how frequent the classes are among the points that are predicted."""
        raise NotImplementedError

    @property
    def weight(self) -> ClassWeight:
        """Return what the labels of each class weigh."""
        raise NotImplementedError

    @cached_property
    def params(self) -> Any:
        """The parameters of the method."""
        raise NotImplementedError

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        """Yield what one section asks and another cannot give, with the path of a section."""
        yield from ()


@dataclass(frozen=True, kw_only=True)
class GraphSections(Sections):
    """The sections of a method whose steps make a graph of the training points.

    Parameters
    ----------
    graph : GraphSection
        How the graph is made.
    """

    graph: GraphSection = GraphSection()


@dataclass(frozen=True, kw_only=True)
class ChoiceSections(Sections):
    """The sections of a method in a base kernel, which chooses parameters, and compares with baselines.

    Parameters
    ----------
    kernel : KernelSection
        The base kernel.
    selection : Selection or None
        Parameters that are chosen by cross-validation; null takes those that are given.
    baselines : list of str
        Models that the report compares with.
    """

    kernel: KernelSection = KernelSection()
    selection: Selection | None = None
    baselines: tuple[str, ...] = ()
    always: ClassVar[tuple[str, ...]] = ()  # baselines that are never left out

    def kernels(self) -> tuple[KernelSection, ...]:
        """Return the base kernel with each bandwidth that is tried."""
        grid = self.selection.grid if self.selection else None
        return self.kernel.with_bandwidths(getattr(grid, "bandwidth", None))

    def base_kernels(self, random_state: int) -> BaseKernels:
        """Return the same as a parameter; random_state : of the median distance."""
        bandwidths = tuple(kernel.bandwidth for kernel in self.kernels())
        return BaseKernels(self.kernel.name, self.kernel.parameters, bandwidths, random_state)

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        always = self.always
        if len(set(self.baselines)) < len(self.baselines):
            yield "baselines", SpecError(explain("baselines: one is named twice", why="it would be fitted twice",
                                                 fix="name each once"))
        if not {*always} <= {*self.baselines}:
            yield "baselines", SpecError(explain(
                f"baselines: {' and '.join(always)} {'are' if len(always) > 1 else 'is'} always among them",
                why="the report compares the model with them", fix="name them too"))
        if self.selection is not None:
            yield from raised("selection", partial(require_scoring, self.selection.scoring,
                                                   classes=self.task == "classification"))


@dataclass(frozen=True, kw_only=True)
class KernelSections(ChoiceSections, GraphSections):
    """The sections of a method in a base kernel whose steps make a graph of the training points."""

    def graphs(self) -> list[tuple[dict[str, Any], Self]]:
        """Return the values of each graph that is tried, and the pipeline of that graph alone; itself of one graph."""
        chosen = self.selection
        values = chosen.grid.graph.values() if chosen else [{}]  # type: ignore[attr-defined]
        if chosen is None or not values[0]:
            return [({}, self)]
        none = type(chosen.grid.graph)()  # type: ignore[attr-defined]
        alone = replace(chosen, grid=replace(chosen.grid, graph=none))  # type: ignore[call-arg]
        return [(each, replace(self, graph=replace(self.graph, **each), selection=alone)) for each in values]

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from raised("selection.grid", self.kernels)
        try:
            tried = self.graphs()
        except DsslError as error:
            yield "selection.grid.graph", error
            return
        if not tried[0][0]:
            return
        if self.graph.given is not None:
            yield "selection.grid.graph", SpecError(explain("selection.grid.graph, and graph.given",
                                                            why="a graph that is given is the only one",
                                                            fix="leave one of them out"))
        for place, (values, of_graph) in enumerate(tried):
            if any(values == other for other, _ in tried[:place]):
                yield "selection.grid.graph", SpecError(explain(f"selection.grid.graph has {values} twice",
                                                                why="it would do work twice",
                                                                fix="name each value once"))
            yield from of_graph.mistakes()
