"""The pipeline files of the kinds `svm` and `ridge`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ...graph.regularizer_params import RegularizerParams
from ...kernels.eta import AUTO, Eta, require_eta
from ...solvers.solver_params import SolverParams
from ..spec import KernelGraph, KernelPipeline, LabelSpec
from ..spec_section import SpecSection
from ..spec_selection import GraphGrid, KernelGrid, KernelSelection
from .class_spec import ClassModelSpec, class_prior, class_weight

if TYPE_CHECKING:
    from ...learners.linear.gram import LearnerParams
    from ...methods.deformed.method import DeformedKernelParams
    from ...selection.search import GridParams


def _known_eta(eta: Eta) -> Eta:
    require_eta(eta)
    return eta


EtaKey = Annotated[Eta, AfterValidator(_known_eta)]


class RegularizedGraph(KernelGraph):
    """The neighbor graph of all training points, and the regularizer Q = (L + ridge I)^power it makes."""

    ridge: float = 0.01
    power: int = 2

    def regularizer(self) -> RegularizerParams:
        """Return the regularizer's parameters."""
        return RegularizerParams(laplacian=self.laplacian, ridge=self.ridge, power=self.power)


class SolverSpec(SpecSection):
    """How the columns of the subsample are solved."""

    method: Literal["auto", "jacobi", "deflated", "amg", "direct"] = "auto"
    tolerance: float = 1e-6
    max_iterations: int = 3000
    block_columns: int = 64
    form: Literal["energy", "restriction"] = "energy"

    def params(self) -> SolverParams:
        """Return the solver's parameters."""
        return SolverParams(method=self.method, tolerance=self.tolerance, max_iterations=self.max_iterations,
                            block_columns=self.block_columns)


class LearnerSpec(ClassModelSpec):
    """The learner in the deformed kernel; eta 0 is the base kernel, auto the mean of kernels of several."""

    kind: Literal["svm", "ridge"]
    C: float = 10.0
    eta: EtaKey = AUTO
    n_subsample: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        default="auto", description="points at which functions are measured: the labeled ones, as many as fit, and a "
                                    "random draw of the others; auto is 1000, or what a memory_budget below 192MB "
                                    "lets be")
    random_state: int = Field(default=0, ge=0)

    @property
    def learner(self) -> Literal["svm", "ridge"]:
        """Return which learner it is on a Gram matrix."""
        return "ridge"

    def params(self) -> LearnerParams:
        """Return the learner's parameters."""
        from ...learners.linear.gram import LearnerParams

        return LearnerParams(kind=self.learner, C=self.C)


class SvmSpec(LearnerSpec):
    """A support vector machine in the deformed kernel, of least squares or with the hinge loss."""

    kind: Literal["svm"]
    loss: Literal["squared", "hinge"] = "squared"

    @property
    def learner(self) -> Literal["svm", "ridge"]:
        from ...learners.linear.gram import LOSSES

        return LOSSES[self.loss]


class RidgeSpec(LearnerSpec):
    """Ridge regression in the deformed kernel, of quantities; of classes it is the svm of squared loss."""

    kind: Literal["ridge"]


class RegularizedGrid(GraphGrid):
    """The same, and the ridge of the regularizer."""

    ridge: list[float] | None = Field(default=None, min_length=1)


class DeformedGrid(KernelGrid):
    """Power and eta of the deformed kernels, C of their learners, and the bandwidth of the base kernel."""

    graph: RegularizedGrid = RegularizedGrid()
    power: list[int] | None = Field(default=None, min_length=1)
    eta: list[EtaKey] | None = Field(default=None, min_length=1)
    C: list[float] | None = Field(default=None, min_length=1)


class DeformedSelection(KernelSelection):
    """Parameters chosen by cross-validation; points that are held out leave the subsample, and stay in the graph.

    The model and the baselines base and subsample_graph each choose their own, the shuffled control takes the model's.
    """

    grid: DeformedGrid = DeformedGrid()
    ways = ("auto", "refit")


class DeformedSpec(KernelPipeline):
    """A pipeline of a learner in a deformed kernel."""

    labels: LabelSpec
    graph: RegularizedGraph = RegularizedGraph()
    solver: SolverSpec = SolverSpec()
    model: LearnerSpec
    selection: DeformedSelection | None = None
    baselines: tuple[Literal["base", "shuffled", "subsample_graph"], ...] = ("base", "shuffled")
    always = ("base", "shuffled")

    @model_validator(mode="after")
    def _subsample_graph_has_an_edge(self) -> Self:
        if "subsample_graph" in self.baselines and self.model.n_subsample == 1:
            raise ValueError("subsample_graph takes two points: model.n_subsample is at least 2 then")
        return self

    @property
    def grid(self) -> GridParams | None:
        """Return the grid of the selection, or None where there is none."""
        from ...selection.search import GridParams

        chosen, model = self.selection, self.model
        if chosen is None:
            return None
        grid = chosen.grid
        return GridParams(power=tuple(grid.power or [self.graph.power]), eta=tuple(grid.eta or [model.eta]),
                          C=tuple(grid.C or [model.C]), held_out_points=chosen.held_out_points)

    @property
    def n_subsample(self) -> int:
        """Return the points of the subsample, of which there are fewer where there are not as many."""
        from ...learners.deformed import subsample_size

        return subsample_size(self.model.n_subsample, self.budget)

    def params(self) -> DeformedKernelParams:
        """Return the parameters of the method."""
        from ...kernels.base import BaseKernels
        from ...methods.deformed.method import DeformedKernelParams
        from ...methods.deformed.models import SubsampleGraph
        from ...selection.choice import LOWEST
        from ...selection.halving import ALL

        chosen, random_state = self.selection, self.model.random_state
        kernels = BaseKernels(self.kernel.name, self.kernel.parameters,
                              tuple(kernel.bandwidth for kernel in self.kernels()), random_state)
        return DeformedKernelParams(
            kernels=kernels, learner=self.model.learner, regularizer=self.graph.regularizer(),
            n_subsample=self.n_subsample, C=self.model.C, eta=self.model.eta, solver=self.solver.params(),
            form=self.solver.form, random_state=random_state, grid=self.grid, cv=chosen.cv() if chosen else None,
            rule=chosen.rule() if chosen else LOWEST, search=chosen.searched() if chosen else ALL,
            baselines=self.baselines, prior=class_prior(self), weight=class_weight(self),
            subsample_graph=SubsampleGraph(self.graph.neighbors(), self.graph.weighting(), self.graph.regularizer()))

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "graph", self.graph.regularizer
        yield "solver", self.solver.params
        yield "model", self.model.params
        yield "selection", lambda: self.grid


class SvmPipeline(DeformedSpec):
    """A pipeline of a support vector machine in a deformed kernel."""

    model: SvmSpec


class RidgePipeline(DeformedSpec):
    """A pipeline of ridge regression in a deformed kernel."""

    model: RidgeSpec
