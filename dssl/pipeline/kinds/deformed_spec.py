"""The pipeline files of the kinds `svm` and `ridge`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ...base.digest import require_random_state
from ...base.errors import DsslError, SpecError, explain
from ...base.sections import require_at_least
from ...kernels.base import BaseKernels
from ...kernels.eta import AUTO, Eta, require_eta
from ...learners.deformed import subsample_size
from ...learners.linear.gram import LOSSES, LearnerParams
from ...methods.deformed.method import DeformedKernelParams
from ...methods.deformed.models import SubsampleGraph
from ...methods.sections import ClassModel, KernelGrid, KernelSelection, RegularizedGraph, RegularizedGrid
from ...selection.choice import LOWEST
from ...selection.halving import ALL
from ...selection.search import GridParams
from ...solvers.solver_params import SolverParams
from ..spec import KernelPipeline, LabelSection
from .class_spec import class_prior, class_weight


@dataclass(frozen=True, kw_only=True)
class SolverSection(SolverParams):
    """How the columns of the subsample are solved.

    Parameters
    ----------
    form : "energy" or "restriction"
        Which columns are kept, see `solve_columns`.
    """

    form: Literal["energy", "restriction"] = "energy"

    def params(self) -> SolverParams:
        """Return the solver's parameters."""
        return SolverParams(method=self.method, tolerance=self.tolerance, max_iterations=self.max_iterations,
                            n_vectors=self.n_vectors, block_columns=self.block_columns, random_state=self.random_state)


@dataclass(frozen=True, kw_only=True)
class DeformedModel(ClassModel):
    """The learner in the deformed kernel; eta 0 is the base kernel, auto the mean of kernels of several.

    Parameters
    ----------
    C : float
        Penalty of the loss, for a kernel of unit mean diagonal.
    eta : float or "auto"
        Weight of the graph against the base kernel, 0 to 1e8.
    n_subsample : int or "auto"
        Points at which functions are measured: the labeled ones, as many as fit, and a random draw of the others; auto
        is 1000, or what a memory_budget below 192MB lets be.
    random_state : int
        Of every random choice.
    """

    kind: Literal["svm", "ridge"]
    C: float = LearnerParams.C
    eta: Eta = AUTO
    n_subsample: int | Literal["auto"] = "auto"
    random_state: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_eta(self.eta)
        require_random_state(self.random_state)
        if self.n_subsample != "auto":
            require_at_least(self, 1, "n_subsample")
        _ = self.params()  # raises where a value is out of range

    @property
    def learner(self) -> Literal["svm", "ridge"]:
        """Return which learner it is on a Gram matrix."""
        return "ridge"

    def params(self) -> LearnerParams:
        """Return the learner's parameters."""
        return LearnerParams(kind=self.learner, C=self.C)


@dataclass(frozen=True, kw_only=True)
class SvmModel(DeformedModel):
    """A support vector machine in the deformed kernel, of least squares or with the hinge loss.

    Parameters
    ----------
    loss : "squared" or "hinge"
        squared, one class against the rest; hinge, a machine for each pair of classes.
    """

    kind: Literal["svm"]
    loss: Literal["squared", "hinge"] = "squared"

    @property
    def learner(self) -> Literal["svm", "ridge"]:
        return LOSSES[self.loss]


@dataclass(frozen=True, kw_only=True)
class RidgeModel(DeformedModel):
    """Ridge regression in the deformed kernel, of quantities; of classes it is the svm of squared loss."""

    kind: Literal["ridge"]


@dataclass(frozen=True, kw_only=True)
class DeformedGrid(KernelGrid):
    """Power and eta of the deformed kernels, C of their learners, and the bandwidth of the base kernel."""

    graph: RegularizedGrid = RegularizedGrid()
    power: tuple[int, ...] | None = None
    eta: tuple[Eta, ...] | None = None
    C: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class DeformedSelection(KernelSelection):
    """Parameters chosen by cross-validation; held-out points leave the subsample, and stay in the graph.

    The model and the baselines base and subsample_graph each choose their own, the shuffled control takes the model's.
    """

    grid: DeformedGrid = DeformedGrid()
    ways: ClassVar[tuple[str, ...]] = ("auto", "refit")


@dataclass(frozen=True, kw_only=True)
class DeformedSpec(KernelPipeline):
    """A pipeline of a learner in a deformed kernel.

    Parameters
    ----------
    solver : SolverSection
        How the columns of the subsample are solved.
    """

    labels: LabelSection = field()
    graph: RegularizedGraph = RegularizedGraph()
    solver: SolverSection = SolverSection()
    model: DeformedModel
    selection: DeformedSelection | None = None
    baselines: tuple[Literal["base", "shuffled", "subsample_graph"], ...] = ("base", "shuffled")
    always: ClassVar[tuple[str, ...]] = ("base", "shuffled")

    @property
    def grid(self) -> GridParams | None:
        """Return the grid of the selection, or None where there is none."""
        chosen, model = self.selection, self.model
        if chosen is None:
            return None
        grid = chosen.grid
        return GridParams(power=grid.power or (self.graph.power,), eta=grid.eta or (model.eta,),
                          C=grid.C or (model.C,), held_out_points=chosen.held_out_points)

    @property
    def n_subsample(self) -> int:
        """Return the points of the subsample, of which there are fewer where there are not as many."""
        return subsample_size(self.model.n_subsample, self.budget)

    def params(self) -> DeformedKernelParams:
        """Return the parameters of the method."""
        chosen, random_state = self.selection, self.model.random_state
        kernels = BaseKernels(self.kernel.name, self.kernel.parameters,
                              tuple(kernel.bandwidth for kernel in self.kernels()), random_state)
        return DeformedKernelParams(
            kernels=kernels, learner=self.model.learner, regularizer=self.graph.regularizer(),
            n_subsample=self.n_subsample, C=self.model.C, eta=self.model.eta, solver=self.solver.params(),
            form=self.solver.form, random_state=random_state, grid=self.grid, cv=chosen.cv() if chosen else None,
            rule=chosen.rule() if chosen else LOWEST, search=chosen.searched() if chosen else ALL,
            baselines=self.baselines, prior=class_prior(self), weight=class_weight(self),
            subsample_graph=SubsampleGraph(self.graph.search, self.graph.weighting, self.graph.regularizer()))

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        if "subsample_graph" in self.baselines and self.model.n_subsample == 1:
            yield "baselines", SpecError(explain("baselines: subsample_graph, and model.n_subsample is 1",
                                                 why="a graph takes two points", fix="raise model.n_subsample"))
        try:
            _ = self.grid
        except DsslError as error:
            yield "selection.grid", error


@dataclass(frozen=True, kw_only=True)
class SvmPipeline(DeformedSpec):
    """A pipeline of a support vector machine in a deformed kernel."""

    model: SvmModel


@dataclass(frozen=True, kw_only=True)
class RidgePipeline(DeformedSpec):
    """A pipeline of ridge regression in a deformed kernel."""

    model: RidgeModel
