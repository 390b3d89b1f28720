"""The pipeline file of the kind `cluster`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from ...errors import SpecError, require
from ...kernels.transfer import Transfer, TransferParams
from ...params import BANDWIDTH
from ..spec import KernelSpec, LabelSpec, Spec
from ..spec_section import SpecSection
from ..spec_selection import SelectionSpec
from .class_spec import ClassModelSpec

if TYPE_CHECKING:
    from ...kernels.cluster_params import ClusterParams
    from ...learners.virtual_samples import SampleLearner

Loss = Literal["hinge", "squared", "squared_hinge", "logistic"]


class ClusterModelSpec(ClassModelSpec):
    """A machine in a cluster kernel, from landmarks as many as the memory budget lets be."""

    kind: Literal["cluster"]
    approximation: Literal["exact", "nystrom", "stochastic", "subsample"] = "nystrom"
    transfer: Transfer = Field(TransferParams.transfer, description="what becomes of an eigenvalue of the affinity")
    leading: int | Literal["auto"] = Field("auto", description="eigenvalues of clusters, of step and poly_step; auto "
                                                               "is one a labeled point, and 9")
    exponent: float = Field(TransferParams.exponent, description="of polynomial and exponential")
    C: float = 10.0
    loss: Loss = "squared"
    landmarks: int | float | Literal["auto"] = "auto"
    method: Literal["uniform", "kmeans", "leverage"] = "uniform"
    rank: int | Literal["auto"] | None = Field("auto", description="of the kernel; auto is k of k log k landmarks, "
                                                                   "null all")
    degrees: Literal["auto", "exact", "landmarks"] = "auto"
    features: int = Field(200, description="random, of a step of stochastic")
    steps: int = Field(200, description="of stochastic, at most")
    threshold: float = Field(0.001, description="of stochastic, by which eigenvalues are lowered")
    tolerance: float = Field(0.02, description="relative error at which steps end before")
    seed: int = Field(0, ge=0)


class ClusterKernel(KernelSpec):
    """The base kernel, on the scaled features; nowhere negative."""

    bandwidth: float | str | None = Field(default="0.25*median", description="a number, median or a multiple; null is "
                                                                             f"{BANDWIDTH}, or of a kernel without")


class ClusterGrid(SpecSection):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them."""

    bandwidth: list[float | str] | None = Field(default=None, min_length=1, description="of the base kernel")
    transfer: list[Transfer] | None = Field(default=None, min_length=1)
    leading: list[int | Literal["auto"]] | None = Field(default=None, min_length=1)
    exponent: list[float] | None = Field(default=None, min_length=1)
    C: list[float] | None = Field(default=None, min_length=1)
    loss: list[Loss] | None = Field(default=None, min_length=1)


class ClusterSelection(SelectionSpec):
    """Parameters chosen by cross-validation; points that are held out stay among those that make the kernel."""

    grid: ClusterGrid = ClusterGrid()  # type: ignore[assignment]
    search: Literal["grid"] = "grid"
    held_out_points: Literal["transductive"] = "transductive"
    ways = ("auto",)


class ClusterPipeline(Spec):
    """A pipeline of a machine in a cluster kernel, without a graph."""

    labels: LabelSpec
    kernel: ClusterKernel = ClusterKernel()
    model: ClusterModelSpec
    selection: ClusterSelection | None = None
    baselines: tuple[Literal["base"], ...] = ("base",)

    @model_validator(mode="after")
    def _has_classes(self) -> Self:
        if self.baselines != ("base",):
            raise ValueError("base is always among the baselines, once")
        return self

    def basis(self) -> ClusterParams:
        """Return how the eigenpairs are found."""
        from ...kernels.cluster_params import ClusterParams
        from ...kernels.landmarks import LandmarkParams
        from ...kernels.stochastic import StochasticParams

        own = self.model
        steps = StochasticParams(n_features=own.features, steps=own.steps, threshold=own.threshold,
                                 tolerance=own.tolerance, seed=own.seed)
        return ClusterParams(approximation=own.approximation, rank=own.rank, degrees=own.degrees, budget=self.budget,
                             steps=steps,
                             landmarks=LandmarkParams(n_landmarks=own.landmarks, method=own.method, seed=own.seed))

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
                                   for transfer, leading, exponent in product(*map(self._tried, (
                                       "transfer", "leading", "exponent")))))

    def learners(self) -> tuple[SampleLearner, ...]:
        """Return the machines that are tried."""
        from ...learners.virtual_samples import SampleLearner

        return tuple(SampleLearner(loss=loss, C=C) for loss, C in product(self._tried("loss"), self._tried("C")))

    def _tried(self, name: str) -> list[Any]:
        given = getattr(self.selection.grid, name) if self.selection else None
        return given or [getattr(self.model, name)]

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "kernel.name", self.kernel.require_known
        yield "kernel", lambda: [own.check() for own in self.kernels()]
        yield "model", self.basis
        yield "model", lambda: (self.transfers(), self.learners())
        if self.selection is not None:
            yield "selection", self.selection.cv
            yield "selection", partial(self.selection.require_scoring, self.data.task)
