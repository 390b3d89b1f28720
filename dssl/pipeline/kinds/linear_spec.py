"""The pipeline files of the kinds `cluster` and `multiscale`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict

from pydantic import Field, model_validator

from ...base.digest import BANDWIDTH
from ...base.errors import DsslError, SpecError, explain, require
from ...kernels.transfer import Transfer, TransferParams
from ..spec import KernelSpec, LabelSpec, Spec
from ..spec_section import SpecSection
from ..spec_selection import SelectionSpec
from .class_spec import ClassModelSpec, class_prior, class_weight

if TYPE_CHECKING:
    from ...kernels.base import BaseKernels
    from ...kernels.cluster_params import ClusterParams
    from ...kernels.multiscale import MultiscaleParams
    from ...learners.class_prior import ClassPrior, ClassWeight
    from ...learners.linear.features import SampleLearner
    from ...methods.cluster import ClusterKernelParams
    from ...methods.multiscale import MultiscaleKernelParams
    from ...selection.choice import ChoiceRule
    from ...selection.folds import FoldParams

Loss = Literal["hinge", "squared", "squared_hinge", "logistic"]


class LinearModelSpec(ClassModelSpec):
    """A linear learner on features of all points."""

    C: float
    loss: Loss = "squared"
    random_state: int = Field(0, ge=0)


class LinearGrid(SpecSection):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them."""

    C: list[float] | None = Field(default=None, min_length=1)
    loss: list[Loss] | None = Field(default=None, min_length=1)


class LinearSelection(SelectionSpec):
    """Parameters chosen by cross-validation; points that are held out stay among those that make the features."""

    grid: LinearGrid = LinearGrid()  # type: ignore[assignment]
    search: Literal["grid"] = "grid"
    held_out_points: Literal["transductive"] = "transductive"
    ways = ("auto",)


class Shared(TypedDict):
    """The parameters that both methods have."""

    kernels: BaseKernels
    learners: tuple[SampleLearner, ...]
    cv: FoldParams | None
    rule: ChoiceRule
    prior: ClassPrior
    weight: ClassWeight
    random_state: int


class LinearPipeline(Spec):
    """A pipeline of a linear learner on features, and of the same learner in the base kernel."""

    labels: LabelSpec
    kernel: KernelSpec = KernelSpec()
    model: LinearModelSpec
    selection: LinearSelection | None = None
    baselines: tuple[Literal["base"], ...] = ("base",)

    @model_validator(mode="after")
    def _has_its_baseline(self) -> Self:
        if self.baselines != ("base",):
            raise ValueError("base is always among the baselines, once")
        return self

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the base kernel with each bandwidth that is tried."""
        return (self.kernel,)

    def learners(self) -> tuple[SampleLearner, ...]:
        """Return the learners that are tried."""
        from ...learners.linear.features import SampleLearner

        return tuple(SampleLearner(loss=loss, C=C) for loss, C in product(self.tried("loss"), self.tried("C")))

    def tried(self, name: str) -> list[Any]:
        """Return the values of a parameter of the model that are tried."""
        given = getattr(self.selection.grid, name) if self.selection else None
        return given or [getattr(self.model, name)]

    def shared(self) -> Shared:
        """Return the parameters that both methods have."""
        from ...kernels.base import BaseKernels
        from ...selection.choice import LOWEST

        chosen, kernels = self.selection, BaseKernels(
            self.kernel.name, self.kernel.parameters, tuple(own.bandwidth for own in self.kernels()),
            self.model.random_state)
        return {"kernels": kernels, "learners": self.learners(), "cv": chosen.cv() if chosen else None,
                "rule": chosen.rule() if chosen else LOWEST, "prior": class_prior(self), "weight": class_weight(self),
                "random_state": self.model.random_state}

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "kernel.name", self.kernel.require_known
        yield "kernel", lambda: [own.check() for own in self.kernels()]
        yield "model", self.learners
        if self.selection is not None:
            yield "selection", self.selection.cv
            yield "selection", partial(self.selection.require_scoring, self.data.task)


# ---- cluster


class ClusterModelSpec(LinearModelSpec):
    """A linear learner in a cluster kernel, from landmarks as many as the memory budget lets be."""

    kind: Literal["cluster"]
    approximation: Literal["exact", "nystrom", "stochastic", "subsample"] = "nystrom"
    transfer: Transfer = Field(TransferParams.transfer, description="what becomes of an eigenvalue of the affinity")
    leading: int | Literal["auto"] = Field("auto", description="eigenvalues of clusters, of step and poly_step; auto "
                                                               "is one a labeled point, and 9")
    exponent: float = Field(TransferParams.exponent, description="of polynomial and exponential")
    C: float = 10.0
    landmarks: int | float | Literal["auto"] = "auto"
    method: Literal["uniform", "kmeans", "leverage"] = "uniform"
    rank: int | Literal["auto"] | None = Field("auto", description="of the kernel; auto is k of k log k landmarks, "
                                                                   "null all")
    degrees: Literal["auto", "exact", "landmarks"] = "auto"
    n_features: int = Field(200, description="random features of a step of stochastic")
    steps: int = Field(200, description="of stochastic, at most")
    threshold: float = Field(0.001, description="of stochastic, by which eigenvalues are lowered")
    tolerance: float = Field(0.02, description="relative error at which steps end before")


class ClusterKernel(KernelSpec):
    """The base kernel, on the scaled features; nowhere negative."""

    bandwidth: float | str | None = Field(default="0.25*median", description="a number, median or a multiple; null is "
                                                                             f"{BANDWIDTH}, or of a kernel without")


class ClusterGrid(LinearGrid):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them."""

    bandwidth: list[float | str] | None = Field(default=None, min_length=1, description="of the base kernel")
    transfer: list[Transfer] | None = Field(default=None, min_length=1)
    leading: list[int | Literal["auto"]] | None = Field(default=None, min_length=1)
    exponent: list[float] | None = Field(default=None, min_length=1)


class ClusterSelection(LinearSelection):
    """Parameters chosen by cross-validation; points that are held out stay among those that make the kernel."""

    grid: ClusterGrid = ClusterGrid()


class ClusterPipeline(LinearPipeline):
    """A pipeline of a linear learner in a cluster kernel, without a graph."""

    kernel: ClusterKernel = ClusterKernel()
    model: ClusterModelSpec
    selection: ClusterSelection | None = None

    def basis(self) -> ClusterParams:
        """Return how the eigenpairs are found."""
        from ...kernels.cluster_params import ClusterParams
        from ...kernels.landmarks import LandmarkParams
        from ...kernels.stochastic import StochasticParams

        own = self.model
        steps = StochasticParams(n_features=own.n_features, steps=own.steps, threshold=own.threshold,
                                 tolerance=own.tolerance, random_state=own.random_state)
        return ClusterParams(approximation=own.approximation, rank=own.rank, degrees=own.degrees, budget=self.budget,
                             steps=steps,
                             landmarks=LandmarkParams(n_landmarks=own.landmarks, method=own.method,
                                                      random_state=own.random_state))

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the base kernel with each bandwidth that is tried."""
        from ...kernels.base import has_bandwidth

        given: Sequence[float | str | None] | None = self.selection.grid.bandwidth if self.selection else None
        require(not given or has_bandwidth(self.kernel.name), error=SpecError,
                what=f"selection.grid.bandwidth={given}, and kernel.name is {self.kernel.name}",
                why="that kernel has no bandwidth", fix="leave selection.grid.bandwidth out")
        return tuple(self.kernel.model_copy(update={"bandwidth": own}) for own in given or [self.kernel.bandwidth])

    def transfers(self) -> tuple[TransferParams, ...]:
        """Return the transfer functions that are tried, each once."""
        return tuple(dict.fromkeys(TransferParams(transfer=transfer, leading=leading, exponent=exponent)
                                   for transfer, leading, exponent in product(*map(self.tried, (
                                       "transfer", "leading", "exponent")))))

    def params(self) -> ClusterKernelParams:
        """Return the parameters of the method."""
        from ...methods.cluster import ClusterKernelParams

        return ClusterKernelParams(cluster=self.basis(), transfers=self.transfers(), **self.shared())

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "model", self.basis
        yield "model", self.transfers


# ---- multiscale


class MultiscaleModelSpec(LinearModelSpec):
    """A linear learner in the kernel of eigenfunctions of graph Laplacians of many scales."""

    kind: Literal["multiscale"]
    eps_0: float | Literal["auto"] = Field("auto", description="the first scale, in squared units of the scaled "
                                           "features; auto is half the squared median distance")
    q: float = Field(0.9, description="of the scales, one to the next")
    threshold: float = Field(1e-6, description="of the second eigenvalue, below which there are "
                                                                     "no further scales")
    n_eigenpairs: int | Literal["auto"] = Field(
        "auto", description="of the kernel, beside the constant; auto is an eighth of the carriers, or 100, or all of "
                            "fewer")
    n_carriers: int | Literal["auto"] = Field(
        "auto", description="points whose graph Laplacians are decomposed; auto is what the memory budget lets be, "
                            "2,000 at most")
    unit_diagonal: bool = Field(True, description="whether the kernel is scaled to it; false is the paper's")
    C: float = Field(100.0, description="1 / alpha, for a kernel whose diagonal, or its median, is 1")
    loss: Loss = Field("squared", description="of regression, squared")


class MultiscalePipeline(LinearPipeline):
    """A pipeline of a linear learner in a multi-scale kernel, and of the same learner in the base kernel."""

    model: MultiscaleModelSpec

    def multiscale(self) -> MultiscaleParams:
        """Return how the kernel is made."""
        from ...kernels.multiscale import MultiscaleParams

        own = self.model
        return MultiscaleParams(eps_0=own.eps_0, q=own.q, threshold=own.threshold, n_eigenpairs=own.n_eigenpairs,
                                n_carriers=own.n_carriers, unit_diagonal=own.unit_diagonal,
                                random_state=own.random_state, budget=self.budget)

    def params(self) -> MultiscaleKernelParams:
        """Return the parameters of the method."""
        from ...methods.multiscale import MultiscaleKernelParams

        return MultiscaleKernelParams(multiscale=self.multiscale(), **self.shared())

    def _task_mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super()._task_mistakes()
        losses = self.tried("loss")
        if self.data.task == "regression" and set(losses) != {"squared"}:
            yield "model.loss", SpecError(explain(f"loss {', '.join(losses)}, and data.task is regression",
                                                  why="quantities have no classes to tell apart", fix="use squared"))

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "model", self.multiscale
