"""The sections of a pipeline file that say how a model in a deformed kernel is made."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar, Literal

from ...base.digest import is_whole, require_random_state
from ...base.errors import DsslError, SpecError, explain, raised, require
from ...kernels.base import BaseKernels
from ...kernels.deformed import AUTO, Eta, require_eta
from ...learners.class_prior import LABELS, ClassPrior, ClassWeight
from ...learners.deformed import n_landmarks_within
from ...learners.linear.gram import LearnerParams
from ...learners.losses import gram_learner
from ...selection.candidates import LOWEST_ERROR, SelectionRule
from ...selection.folds import FoldParams
from ...selection.halving import ALL, Search
from ...selection.search import GridParams
from ...solvers.solver_params import SolverParams
from ..linear import NO_WEIGHTS
from ..sections import ClassModel, KernelSections, RegularizedGraph
from ..selection_sections import KernelGrid, KernelSelection, RegularizedGrid
from .covariance import CovarianceParams
from .models import LandmarkGraph


@dataclass(frozen=True, kw_only=True)
class DeformedKernelParams(CovarianceParams):
    """What a model in a deformed kernel follows from, beside the graph.

    kernels : the base kernel with each bandwidth that is tried. learner : on the Gram matrix. C, eta : of the model,
    where no `grid` is searched, as is the power of the regularizer. random_state : of the landmarks, the folds and the
    shuffled vertices.
    grid, cv, rule, search : what is tried, on which folds, and what is chosen. prior, weight : how frequent the classes
    are among the points that are predicted, and what their labels weigh. baselines : with none,
    labels are held out to calibrate probabilities alone. landmark_graph : of the baseline so named.
    """

    kernels: BaseKernels
    learner: Literal["svm", "ridge"]
    C: float = 10.0
    eta: Eta = AUTO
    grid: GridParams | None = None
    cv: FoldParams | None = None
    rule: SelectionRule = LOWEST_ERROR
    search: Search = ALL
    baselines: tuple[str, ...] = ("base",)
    landmark_graph: LandmarkGraph | None = None
    prior: ClassPrior = LABELS
    weight: ClassWeight = NO_WEIGHTS

    @property
    def powers(self) -> tuple[int, ...]:
        return tuple(sorted(self.grid.power)) if self.grid else (self.regularizer.power,)

    @property
    def has_several_etas(self) -> bool:
        """Return whether the mean of kernels of several etas is made."""
        return AUTO in (self.grid.eta if self.grid else (self.eta,))


@dataclass(frozen=True, kw_only=True)
class SolverSection(SolverParams):
    """How the columns of the landmarks are solved.

    Parameters
    ----------
    form : "energy" or "restriction"
        Which columns are kept, see `solve_columns`.
    """

    form: Literal["energy", "restriction"] = "energy"

    def params(self) -> SolverParams:
        return SolverParams(**{item.name: getattr(self, item.name) for item in fields(SolverParams)})


@dataclass(frozen=True, kw_only=True)
class DeformedModel(ClassModel):
    """The learner in the deformed kernel.

    Parameters
    ----------
    C : float
        The penalty of the loss, for a kernel of unit mean diagonal.
    eta : float or "auto"
        The weight of the graph against the base kernel, 0 to 1e8; 0 is the base
        kernel alone. "auto" is the mean of the kernels of 0, 10 and 100, weighted
        by their leave-one-out residuals on the labels, of more than 3,000 labels
        by those of a sample, and by the spectral concentration of the graph.
    n_landmarks : int or "auto"
        The number of landmarks, at which functions are measured: the labeled points,
        as many as fit, and a random draw of the others; all points where there are
        fewer. At the other points of the fit functions follow the graph, and at new
        points the base kernel. "auto" is 1,000, or what a memory budget below 192
        MB allows.
    random_state : int
        The seed of every random choice.
    """

    C: float = LearnerParams.C
    eta: Eta = AUTO
    n_landmarks: int | Literal["auto"] = "auto"
    random_state: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_eta(self.eta)
        require_random_state(self.random_state)
        require(self.n_landmarks == "auto" or (is_whole(self.n_landmarks) and self.n_landmarks >= 1),
                f'n_landmarks={self.n_landmarks!r}, expected a whole number >= 1 or "auto"',
                why="functions are measured at so many points", fix='use "auto"')
        LearnerParams(kind=self.learner, C=self.C)  # raises where a value is out of range

    @property
    def learner(self) -> Literal["svm", "ridge"]:
        """Return which learner it is on a Gram matrix."""
        return "ridge"

    def size(self, budget: int) -> int:
        """Return the number of landmarks, at most all points."""
        return n_landmarks_within(self.n_landmarks, budget)


@dataclass(frozen=True, kw_only=True)
class SvmModel(DeformedModel):
    """A support vector machine in the deformed kernel.

    Parameters
    ----------
    loss : "squared" or "hinge"
        The loss of the labels: "squared" fits each class against the rest, "hinge"
        a machine for each pair of classes. Where labels are few, the intercept of
        "hinge" predicts too few points of the class whose labels are the more
        isolated.
    """

    kind: Literal["svm"] = "svm"
    loss: Literal["squared", "hinge"] = "squared"

    @property
    def learner(self) -> Literal["svm", "ridge"]:
        return gram_learner(self.loss)


@dataclass(frozen=True, kw_only=True)
class RidgeModel(DeformedModel):
    """Ridge regression in the deformed kernel, of quantities; of classes it is the svm of squared loss."""

    kind: Literal["ridge"] = "ridge"


@dataclass(frozen=True, kw_only=True)
class DeformedGrid(KernelGrid):
    """Power and eta of the deformed kernels, C of their learners, and the bandwidth of the base kernel."""

    graph: RegularizedGrid = RegularizedGrid()
    power: tuple[int, ...] | None = None
    eta: tuple[Eta, ...] | None = None
    C: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class DeformedSelection(KernelSelection):
    """Parameters chosen by cross-validation; held-out points are removed from the landmarks, and stay in the graph.

    The model and the baselines base and landmark_graph each choose their own, the shuffled control takes the model's.
    """

    grid: DeformedGrid = DeformedGrid()
    ways: ClassVar[tuple[str, ...]] = ("auto", "refit")


@dataclass(frozen=True, kw_only=True)
class DeformedSections(KernelSections):
    """The sections of a learner in a deformed kernel.

    Parameters
    ----------
    solver : SolverSection
        How the columns of the landmarks are solved.
    """

    graph: RegularizedGraph = RegularizedGraph()
    solver: SolverSection = SolverSection()
    model: DeformedModel
    selection: DeformedSelection | None = None
    baselines: tuple[Literal["base", "shuffled", "landmark_graph"], ...] = ("base", "shuffled")
    always: ClassVar[tuple[str, ...]] = ("base", "shuffled")

    @property
    def grid(self) -> GridParams | None:
        chosen, model = self.selection, self.model
        if chosen is None:
            return None
        grid = chosen.grid
        return GridParams(power=grid.power or (self.graph.power,), eta=grid.eta or (model.eta,),
                          C=grid.C or (model.C,), held_out_points=chosen.held_out_points)

    @cached_property
    def params(self) -> DeformedKernelParams:
        chosen, model = self.selection, self.model
        return DeformedKernelParams(
            kernels=self.base_kernels(model.random_state), learner=model.learner,
            regularizer=self.graph.regularizer(), n_landmarks=model.size(self.budget),
            C=model.C, eta=model.eta, solver=self.solver.params(), form=self.solver.form,
            random_state=model.random_state, grid=self.grid, cv=chosen.folds() if chosen else None,
            rule=chosen.rule() if chosen else LOWEST_ERROR, search=chosen.searched() if chosen else ALL,
            baselines=self.baselines, prior=self.prior, weight=self.weight,
            landmark_graph=LandmarkGraph(self.graph.search, self.graph.weighting, self.graph.regularizer()))

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        if "landmark_graph" in self.baselines and self.model.n_landmarks == 1:
            yield "baselines", SpecError(explain("baselines: landmark_graph, and model.n_landmarks is 1",
                                                 why="a graph takes two points", fix="raise model.n_landmarks"))
        yield from raised("selection.grid", lambda: self.grid)


@dataclass(frozen=True, kw_only=True)
class SvmSections(DeformedSections):
    """The sections of a support vector machine in a deformed kernel."""

    model: SvmModel


@dataclass(frozen=True, kw_only=True)
class RidgeSections(DeformedSections):
    """The sections of ridge regression in a deformed kernel."""

    model: RidgeModel
