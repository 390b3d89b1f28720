"""The pipeline files of the kinds `cluster` and `multiscale`."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any, ClassVar, Literal, TypedDict

from ...base.digest import require_random_state
from ...base.errors import DsslError, SpecError, explain
from ...kernels.base import BaseKernels
from ...kernels.cluster_params import Approximation, ClusterParams
from ...kernels.landmarks import LandmarkMethod, LandmarkParams
from ...kernels.multiscale import MultiscaleParams
from ...kernels.stochastic import StochasticParams
from ...kernels.transfer import Transfer, TransferParams
from ...learners.class_prior import ClassPrior, ClassWeight
from ...learners.linear.features import SampleLearner
from ...methods.cluster import ClusterKernelParams
from ...methods.multiscale import MultiscaleKernelParams
from ...methods.sections import ClassModel, Grid, KernelSection, Selection
from ...selection.choice import LOWEST, ChoiceRule
from ...selection.folds import FoldParams
from ..spec import LabelSection, Spec, baseline_mistakes, scoring_mistakes
from .class_spec import class_prior, class_weight

Loss = Literal["hinge", "squared", "squared_hinge", "logistic"]


@dataclass(frozen=True, kw_only=True)
class LinearModel(ClassModel):
    """A linear learner on features of all points.

    Parameters
    ----------
    C : float
        Penalty of the loss against the norm.
    loss : "hinge", "squared", "squared_hinge" or "logistic"
        Of classes; of regression, squared.
    random_state : int
        Of every random choice.
    """

    C: float
    loss: Loss = "squared"
    random_state: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_random_state(self.random_state)
        SampleLearner(loss=self.loss, C=self.C)  # raises where a value is out of range


@dataclass(frozen=True, kw_only=True)
class LinearGrid(Grid):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them."""

    C: tuple[float, ...] | None = None
    loss: tuple[Loss, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class LinearSelection(Selection):
    """Parameters chosen by cross-validation; held-out points stay among those that make the features."""

    grid: LinearGrid = LinearGrid()
    search: Literal["grid"] = "grid"
    held_out_points: Literal["transductive"] = "transductive"
    ways: ClassVar[tuple[str, ...]] = ("auto",)


class Shared(TypedDict):
    """The parameters that both methods have."""

    kernels: BaseKernels
    learners: tuple[SampleLearner, ...]
    cv: FoldParams | None
    rule: ChoiceRule
    prior: ClassPrior
    weight: ClassWeight
    random_state: int


@dataclass(frozen=True, kw_only=True)
class LinearPipeline(Spec):
    """A pipeline of a linear learner on features, and of the same learner in the base kernel.

    Parameters
    ----------
    kernel : KernelSection
        The base kernel.
    selection : Selection or None
        Parameters that are chosen by cross-validation; null takes those that are given.
    baselines : list of str
        Models that the report compares with.
    """

    labels: LabelSection = field()
    kernel: KernelSection = KernelSection()
    model: LinearModel
    selection: LinearSelection | None = None
    baselines: tuple[Literal["base"], ...] = ("base",)

    def kernels(self) -> tuple[KernelSection, ...]:
        """Return the base kernel with each bandwidth that is tried."""
        return (self.kernel,)

    def learners(self) -> tuple[SampleLearner, ...]:
        """Return the learners that are tried."""
        return tuple(SampleLearner(loss=loss, C=C) for loss, C in product(self.tried("loss"), self.tried("C")))

    def tried(self, name: str) -> list[Any]:
        """Return the values of a parameter of the model that are tried."""
        given = getattr(self.selection.grid, name) if self.selection else None
        return given or [getattr(self.model, name)]

    def shared(self) -> Shared:
        """Return the parameters that both methods have."""
        chosen, kernels = self.selection, BaseKernels(
            self.kernel.name, self.kernel.parameters, tuple(own.bandwidth for own in self.kernels()),
            self.model.random_state)
        return {"kernels": kernels, "learners": self.learners(), "cv": chosen.cv() if chosen else None,
                "rule": chosen.rule() if chosen else LOWEST, "prior": class_prior(self), "weight": class_weight(self),
                "random_state": self.model.random_state}

    def params(self) -> Any:
        """Return the parameters of the method."""
        return self.shared()

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from baseline_mistakes(self.baselines, ("base",))
        if self.selection is not None:
            yield from scoring_mistakes(self.selection, self.data.task)
        try:
            _ = self.params()
        except DsslError as error:
            yield "model", error


# ---- cluster


@dataclass(frozen=True, kw_only=True)
class ClusterModel(LinearModel):
    """A linear learner in a cluster kernel, from landmarks as many as the memory budget lets be.

    Parameters
    ----------
    approximation : "exact", "nystrom", "stochastic" or "subsample"
        How the eigenpairs are found.
    transfer : str
        What becomes of an eigenvalue of the affinity.
    leading : int or "auto"
        Eigenvalues of clusters, of step and poly_step; auto is one a labeled point, and 9.
    exponent : float
        Of polynomial and exponential.
    landmarks : int, float or "auto"
        Their number, or their share of the points.
    method : "uniform", "kmeans" or "leverage"
        How landmarks are chosen.
    rank : int, "auto" or None
        Of the kernel; auto is k of k log k landmarks, null all.
    degrees : "auto", "exact" or "landmarks"
        How the degrees of the affinity are found.
    n_features : int
        Random features of a step of stochastic.
    steps : int
        Of stochastic, at most.
    threshold : float
        Of stochastic, by which eigenvalues are lowered.
    tolerance : float
        Relative error at which the steps of stochastic end before.
    """

    kind: Literal["cluster"]
    approximation: Approximation = ClusterParams.approximation
    transfer: Transfer = TransferParams.transfer
    leading: int | Literal["auto"] = TransferParams.leading
    exponent: float = TransferParams.exponent
    C: float = 10.0
    landmarks: int | float | Literal["auto"] = "auto"
    method: LandmarkMethod = LandmarkParams.method
    rank: int | Literal["auto"] | None = ClusterParams.rank
    degrees: Literal["auto", "exact", "landmarks"] = ClusterParams.degrees
    n_features: int = StochasticParams.n_features
    steps: int = StochasticParams.steps
    threshold: float = StochasticParams.threshold
    tolerance: float = StochasticParams.tolerance


@dataclass(frozen=True, kw_only=True)
class ClusterKernel(KernelSection):
    """The base kernel, on the scaled features; nowhere negative."""

    bandwidth: float | str | None = "0.25*median"


@dataclass(frozen=True, kw_only=True)
class ClusterGrid(LinearGrid):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them.

    Parameters
    ----------
    bandwidth : list of float or str, or None
        Of the base kernel.
    """

    bandwidth: tuple[float | str, ...] | None = None
    transfer: tuple[Transfer, ...] | None = None
    leading: tuple[int | Literal["auto"], ...] | None = None
    exponent: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ClusterSelection(LinearSelection):
    """Parameters chosen by cross-validation; held-out points stay among those that make the kernel."""

    grid: ClusterGrid = ClusterGrid()


@dataclass(frozen=True, kw_only=True)
class ClusterPipeline(LinearPipeline):
    """A pipeline of a linear learner in a cluster kernel, without a graph."""

    kernel: ClusterKernel = ClusterKernel()
    model: ClusterModel
    selection: ClusterSelection | None = None

    def basis(self) -> ClusterParams:
        """Return how the eigenpairs are found."""
        own = self.model
        steps = StochasticParams(n_features=own.n_features, steps=own.steps, threshold=own.threshold,
                                 tolerance=own.tolerance, random_state=own.random_state)
        return ClusterParams(approximation=own.approximation, rank=own.rank, degrees=own.degrees, budget=self.budget,
                             steps=steps,
                             landmarks=LandmarkParams(n_landmarks=own.landmarks, method=own.method,
                                                      random_state=own.random_state))

    def kernels(self) -> tuple[KernelSection, ...]:
        return self.kernel.with_bandwidths(self.selection.grid.bandwidth if self.selection else None)

    def transfers(self) -> tuple[TransferParams, ...]:
        """Return the transfer functions that are tried, each once."""
        return tuple(dict.fromkeys(TransferParams(transfer=transfer, leading=leading, exponent=exponent)
                                   for transfer, leading, exponent in product(*map(self.tried, (
                                       "transfer", "leading", "exponent")))))

    def params(self) -> ClusterKernelParams:
        return ClusterKernelParams(cluster=self.basis(), transfers=self.transfers(), **self.shared())


# ---- multiscale


@dataclass(frozen=True, kw_only=True)
class MultiscaleModel(LinearModel):
    """A linear learner in the kernel of eigenfunctions of graph Laplacians of many scales.

    Parameters
    ----------
    eps_0 : float or "auto"
        The first scale, in squared units of the scaled features; auto is half the squared median distance.
    q : float
        Of the scales, one to the next.
    threshold : float
        Of the second eigenvalue, below which there are no further scales.
    n_eigenpairs : int or "auto"
        Of the kernel, beside the constant; auto is an eighth of the carriers, or 100, or all of fewer.
    n_carriers : int or "auto"
        Points whose graph Laplacians are decomposed; auto is what the memory budget lets be, 2,000 at most.
    unit_diagonal : bool
        Whether the kernel is scaled to it; false is the paper's.
    C : float
        1 / alpha, for a kernel whose diagonal, or its median, is 1.
    """

    kind: Literal["multiscale"]
    eps_0: float | Literal["auto"] = MultiscaleParams.eps_0
    q: float = MultiscaleParams.q
    threshold: float = MultiscaleParams.threshold
    n_eigenpairs: int | Literal["auto"] = MultiscaleParams.n_eigenpairs
    n_carriers: int | Literal["auto"] = MultiscaleParams.n_carriers
    unit_diagonal: bool = MultiscaleParams.unit_diagonal
    C: float = 100.0


@dataclass(frozen=True, kw_only=True)
class MultiscalePipeline(LinearPipeline):
    """A pipeline of a linear learner in a multi-scale kernel, and of the same learner in the base kernel."""

    model: MultiscaleModel

    def multiscale(self) -> MultiscaleParams:
        """Return how the kernel is made."""
        names = {own.name for own in fields(MultiscaleParams)} - {"budget"}
        return MultiscaleParams(**{name: getattr(self.model, name) for name in names}, budget=self.budget)

    def params(self) -> MultiscaleKernelParams:
        return MultiscaleKernelParams(multiscale=self.multiscale(), **self.shared())

    def _task_mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super()._task_mistakes()
        losses = self.tried("loss")
        if self.data.task == "regression" and set(losses) != {"squared"}:
            yield "model.loss", SpecError(explain(f"loss {', '.join(losses)}, and data.task is regression",
                                                  why="quantities have no classes to tell apart", fix="use squared"))
