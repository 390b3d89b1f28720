"""The pipeline file of the kind `graph`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from ...graph.regularizer_params import LaplacianKind
from ...solvers.solver_params import SolverParams
from ..spec import KernelPipeline, LabelSpec, LearningTask
from ..spec_selection import GridSpec, SelectionSpec
from .class_spec import ClassModelSpec

if TYPE_CHECKING:
    from ...learners.on_graph.graph_ridge import GraphRidgeParams

OF_RIDGE = ("ridge", "power", "by_degree", "penalty", "weighting")
LearnerName = Literal["ridge", "laplace", "poisson"]
TOLERANCE = 1e-5  # of the solves of laplace and poisson


@dataclass(frozen=True)
class SizeParams:
    """Known sizes of classes: `ordered` as the classes are, or `named`; None of both where they are not known.

    named : pairs of a class and its size, since keys of JSON are text, and the classes 1 and "1" are not the same.
    """

    ordered: tuple[float, ...] | None
    named: tuple[tuple[str | int | float, float], ...] | None

    @property
    def sizes(self) -> Any:
        """Return what `with_class_sizes` takes."""
        return self.ordered if self.named is None else dict(self.named)


class SizedModelSpec(ClassModelSpec):
    """A model of classes whose sizes may be known."""

    class_sizes: list[float] | dict[str | int | float, float] | None = Field(
        default=None, description="how many points have each class, counts or shares, where they are known: in the "
                                  "order of the classes, or by class")
    random_state: int = Field(default=0, ge=0)

    def sizes(self) -> SizeParams:
        """Return the sizes of classes."""
        own = self.class_sizes
        return SizeParams(tuple(own) if isinstance(own, list) else None,
                          tuple(own.items()) if isinstance(own, dict) else None)


class GraphModelSpec(SizedModelSpec):
    """A learner whose function lives on the vertices of the graph; new points take the mean of their neighbors."""

    kind: Literal["graph"]
    learner: LearnerName = Field(
        "ridge", description="ridge regression in graph kernels, averaged; laplace, the harmonic function of the "
                             "labels; poisson, for classes")
    ridge: list[float] | None = Field(None, min_length=1, description="of the kernels (L + ridge I)^-power of learner "
                                                                      "ridge; null is a family that needs no tuning")
    power: list[int] = Field([1, 2, 3], min_length=1, description="of learner ridge; larger is smoother")
    by_degree: list[bool] = Field([True], min_length=1, description="of learner ridge: whether degrees scale a kernel; "
                                                                    "[false, true] has both")
    penalty: float = Field(0.1, gt=0, allow_inf_nan=False,
                           description="of learner ridge, added to the diagonal of a kernel of unit mean diagonal; 1e6 "
                                       "is as good as the kernel mean")
    weighting: Literal["loo", "equal"] = Field("loo", description="of learner ridge: kernels count by their "
                                                                  "leave-one-out residuals, or alike")
    tolerance: float | None = Field(None, description="of ridge, how exact the kernels are, 0.1 by default; of the "
                                                      "others the relative residual of the solve, 1e-5 by default")

    @model_validator(mode="after")
    def _keys_are_of_the_learner(self) -> Self:
        others = [name for name in OF_RIDGE if name in self.model_fields_set and self.learner != "ridge"
                  and getattr(self, name) != type(self).model_fields[name].default]
        if others:
            raise ValueError(f"{', '.join(others)}: learner {self.learner} has no use for it, ridge has; leave it out")
        return self

    def varied(self, values: dict[str, Any]) -> GraphModelSpec:
        """Return the learner with other values; a ridge, a power or a degree alone is a family of one."""
        several = ("ridge", "power", "by_degree")
        return self.model_copy(update={name: [value] if name in several and value is not None and not isinstance(
            value, list) else value for name, value in values.items()})

    def family(self, laplacian: LaplacianKind) -> GraphRidgeParams | None:
        """Return the parameters of learner ridge; None of another."""
        from ...graph.functions import FunctionParams
        from ...learners.on_graph.graph_ridge import GraphRidgeParams

        if self.learner != "ridge":
            return None
        functions = FunctionParams(laplacian=laplacian, tolerance=FunctionParams.tolerance if self.tolerance is None
                                   else self.tolerance, random_state=self.random_state)
        return GraphRidgeParams(ridge=None if self.ridge is None else tuple(self.ridge), power=tuple(self.power),
                                by_degree=tuple(self.by_degree), penalty=self.penalty, weighting=self.weighting,
                                functions=functions, random_state=self.random_state)

    def solver(self) -> SolverParams:
        """Return the parameters of the solves of laplace and poisson, and of those that diffuse labels."""
        own = SolverParams.tolerance if self.learner == "ridge" else TOLERANCE if self.tolerance is None else \
            self.tolerance
        return SolverParams(tolerance=own, random_state=self.random_state)


def require_sizes_of_classes(task: LearningTask, model: SizedModelSpec) -> None:
    """Raise ValueError for class sizes of quantities."""
    if task == "regression" and model.class_sizes is not None:
        raise ValueError("model.class_sizes, and data.task is regression: quantities have no classes, leave it out")


class LearnerGrid(GridSpec):
    """The learner, and of learner ridge its kernels; a list within a list is a family, whose average is one value."""

    learner: list[LearnerName] | None = Field(default=None, min_length=1)
    ridge: list[float | list[float] | None] | None = Field(default=None, min_length=1)
    power: list[int | list[int]] | None = Field(default=None, min_length=1)
    by_degree: list[bool | list[bool]] | None = Field(default=None, min_length=1)
    penalty: list[float] | None = Field(default=None, min_length=1)
    weighting: list[Literal["loo", "equal"]] | None = Field(default=None, min_length=1)

    def values(self, learner: LearnerName) -> list[dict[str, Any]]:
        """Return all combinations; those of a learner that has no use for the others are one.

        learner : the one where none is named.
        """
        given = {name: value for name in type(self).model_fields
                 if name != "graph" and (value := getattr(self, name)) is not None}
        found = [dict(zip(given, values, strict=True)) for values in product(*given.values())]
        alike = [own if (name := own.get("learner", learner)) == "ridge" else {"learner": name} for own in found]
        return [own for place, own in enumerate(alike) if own not in alike[:place]]


class GraphSelection(SelectionSpec):
    """The learner and its parameters chosen by cross-validation; points that are held out stay in the graph."""

    grid: LearnerGrid = LearnerGrid()
    ways = ("auto", "closed_form")

    @model_validator(mode="after")
    def _points_stay(self) -> Self:
        if self.held_out_points != "transductive":
            raise ValueError("held_out_points: a function on the graph is known at its points alone: "
                             "transductive")
        return self


class GraphLearnerPipeline(KernelPipeline):
    """A pipeline of a learner on the graph; the kernel is that of the baseline base."""

    labels: LabelSpec
    model: GraphModelSpec
    selection: GraphSelection | None = None
    baselines: tuple[Literal["nearest", "base"], ...] = ("nearest", "base")

    @model_validator(mode="after")
    def _task_has_the_learner(self) -> Self:
        if self.data.task == "regression" and any(own.learner == "poisson" for own in self.learners()):
            raise ValueError("learner poisson tells classes apart, and data.task is regression: use ridge or "
                             "laplace")
        require_sizes_of_classes(self.data.task, self.model)
        return self

    def learners(self) -> list[GraphModelSpec]:
        """Return the learners that are tried; the one that is given, where there is nothing to choose."""
        grid = self.selection.grid.values(self.model.learner) if self.selection else [{}]
        return [self.model.varied(values) for values in grid]

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "model", lambda: [own.family(self.graph.laplacian) for own in (self.model, *self.learners())]
        yield "model", self.model.solver
