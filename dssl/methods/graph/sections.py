"""The sections of a pipeline file that say how a learner on the graph works."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from ...base.errors import DsslError, SpecError, explain, require
from ...graph.functions import FunctionParams
from ...graph.regularizer import LaplacianKind
from ...kernels.base import BaseKernels
from ...learners.on_graph.graph_ridge import POWERS, GraphRidgeParams
from ...selection.candidates import LOWEST_ERROR
from ...selection.halving import ALL
from ...solvers.solver_params import SolverParams
from ..other_model import PooledModel
from ..sections import KernelSections
from ..selection_sections import ModelGrid, Selection
from .learner import TOLERANCE, GraphLearner, GraphLearnerParams, LearnerName

OF_RIDGE = ("ridge", "power", "by_degree", "penalty", "weighting")


@dataclass(frozen=True, kw_only=True)
class GraphModel(PooledModel):
    """A learner whose function lives on the vertices of the graph.

    New points have the weighted mean of their nearest points in the graph.

    Parameters
    ----------
    learner : "ridge", "laplace" or "poisson"
        The learner: "ridge", an average of ridge regressions in kernels of the
        graph, which alone reads the next five parameters; "laplace", the harmonic
        function of the labels; "poisson", Poisson learning, for classes.
    ridge : list of float or None
        What is added to the Laplacian, each with each power; null is that of a
        family that needs no tuning. The smaller the ridge, the farther a label
        reaches.
    power : list of int
        The powers of the regularizer. The larger, the smoother.
    by_degree : list of bool
        Whether kernels are scaled by D^-1/2 on both sides; [false, true] has both.
    penalty : float
        What is added to the diagonal of a kernel of unit mean diagonal. Toward 0
        the kernel interpolates; 1e6 is as good as the kernel mean.
    weighting : "loo" or "equal"
        How the kernels are averaged: by exact leave-one-out residuals, or equally.
    tol : float or None
        How exact the kernels of "ridge" are, 0.1 by default; of the other learners
        the relative residual at which the solve of a column ends, 1e-5 by default.
    """

    kind: Literal["graph"] = "graph"
    learner: LearnerName = "ridge"
    ridge: tuple[float, ...] | None = None
    power: tuple[int, ...] = POWERS
    by_degree: tuple[bool, ...] = GraphRidgeParams.by_degree
    penalty: float = GraphRidgeParams.penalty
    weighting: Literal["loo", "equal"] = "loo"
    tol: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        defaults = {item.name: item.default for item in fields(self)}
        others = [name for name in OF_RIDGE if self.learner != "ridge" and getattr(self, name) != defaults[name]]
        require(not others, f"{', '.join(others)}, and learner is {self.learner}", why="only learner ridge reads it",
                fix="leave it out")
        _ = self.on_graph("normalized")  # raises where a value is out of range

    def varied(self, values: dict[str, Any]) -> "GraphModel":
        """Return the learner with other values; a ridge, a power or a degree alone is a family of one."""
        several = ("ridge", "power", "by_degree")
        changed: dict[str, Any] = {name: (value,) if name in several and value is not None and not isinstance(
            value, tuple) else value for name, value in values.items()}
        return replace(self, **changed)

    def on_graph(self, laplacian: LaplacianKind) -> GraphLearner:
        """Return the learner on a graph whose Laplacian is of a kind."""
        if self.learner != "ridge":
            tol = TOLERANCE if self.tol is None else self.tol
            return GraphLearner(self.learner, None, SolverParams(tol=tol, random_state=self.random_state))
        functions = FunctionParams(laplacian=laplacian, tol=FunctionParams.tol if self.tol is None
                                   else self.tol, random_state=self.random_state)
        family = GraphRidgeParams(ridge=self.ridge, power=self.power, by_degree=self.by_degree, penalty=self.penalty,
                                  weighting=self.weighting, functions=functions, random_state=self.random_state)
        return GraphLearner("ridge", family, SolverParams(random_state=self.random_state))


@dataclass(frozen=True, kw_only=True)
class LearnerGrid(ModelGrid):
    """The learner, and of learner ridge its kernels; a list within a list is a family, whose average is one value."""

    learner: tuple[LearnerName, ...] | None = None
    ridge: tuple[float | tuple[float, ...] | None, ...] | None = None
    power: tuple[int | tuple[int, ...], ...] | None = None
    by_degree: tuple[bool | tuple[bool, ...], ...] | None = None
    penalty: tuple[float, ...] | None = None
    weighting: tuple[Literal["loo", "equal"], ...] | None = None

    def learners(self, learner: LearnerName) -> list[dict[str, Any]]:
        """Return all combinations; those of a learner that has no use for the others are one.

        learner : the one where none is named.
        """
        alike = [values_of if (name := values_of.get("learner", learner)) == "ridge" else {"learner": name}
                 for values_of in self.values()]
        return [each for place, each in enumerate(alike) if each not in alike[:place]]


@dataclass(frozen=True, kw_only=True)
class GraphSelection(Selection):
    """The learner and its parameters chosen by cross-validation; held-out points stay in the graph."""

    grid: LearnerGrid = LearnerGrid()
    held_out_points: Literal["transductive"] = "transductive"
    ways: ClassVar[tuple[str, ...]] = ("auto", "closed_form")


@dataclass(frozen=True, kw_only=True)
class GraphLearnerSections(KernelSections):
    """The sections of a learner on the graph; the kernel is that of the baseline base."""

    model: GraphModel
    selection: GraphSelection | None = None
    baselines: tuple[Literal["nearest", "base"], ...] = ("nearest", "base")

    def learners(self) -> list[GraphModel]:
        """Return the learners that are tried; the one that is given, where there is nothing to choose."""
        grid = self.selection.grid.learners(self.model.learner) if self.selection else [{}]
        return [self.model.varied(values) for values in grid]

    @cached_property
    def params(self) -> GraphLearnerParams:
        chosen, random_state = self.selection, self.model.random_state
        return GraphLearnerParams(
            learners=tuple(each.on_graph(self.graph.laplacian) for each in self.learners()), graph=self.graph.builder(),
            kernels=BaseKernels(self.kernel.name, self.kernel.parameters, (self.kernel.bandwidth,), random_state),
            cv=chosen.folds() if chosen else None, rule=chosen.rule() if chosen else LOWEST_ERROR,
            search=chosen.searched() if chosen else ALL, baselines=self.baselines, prior=self.prior,
            weight=self.weight, random_state=random_state, base_estimator=self.model.base_estimator)

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from self.model.task_mistakes(self.task)
        try:
            learners = [each.learner for each in self.learners()]
        except DsslError as error:
            yield "selection.grid", error
            return
        if self.task == "regression" and "poisson" in learners:
            yield "model.learner", SpecError(explain("model.learner: poisson, and data.task is regression",
                                                     why="it tells classes apart", fix="use ridge or laplace"))
