"""The pipeline file of the kind `laprls`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ...base.errors import require
from ...graph.regularizer_params import LaplacianKind
from ...learners.laprls.penalties import CHOSEN, Penalty, require_penalties
from ..spec import KernelGraph, KernelPipeline, KernelSpec, LabelSpec
from ..spec_section import SpecSection
from ..spec_selection import HeldOut, HeldOutPoints, KernelGrid, KernelSelection
from .class_spec import ClassModelSpec

if TYPE_CHECKING:
    from ...kernels.base import Kernel
    from ...kernels.landmarks import LandmarkParams
    from ...learners.laprls.params import SystemParams
    from ...learners.laprls.problem import LapRLSParams
    from ...learners.losses import SmoothLoss


class LandmarkSpec(SpecSection):
    """The points that functions are sums over."""

    n_landmarks: int | float | Literal["auto", "sqrt"] = Field(
        default="auto", description="a number; a share of the distinct training points; sqrt, ceil(m^1/2) of m labeled "
                                    "points and ceil((n - m)^1/2) of the others; auto, 1,000 or as many as sqrt if "
                                    "these are more, with the labeled points among them, up to half")
    method: Literal["uniform", "kmeans", "leverage"] = Field(
        default="uniform", description="uniform, kmeans (centers) or leverage (by ridge leverage scores)")
    random_state: int = Field(default=0, ge=0)

    def params(self) -> LandmarkParams:
        """Return the landmarks' parameters."""
        from ...kernels.landmarks import LandmarkParams

        return LandmarkParams(n_landmarks=self.n_landmarks, method=self.method, random_state=self.random_state)


class LapRLSKernel(KernelSpec):
    """The base kernel, on the scaled features, or one with each bandwidth that is tried."""

    bandwidth: float | str | None = Field(
        default=CHOSEN, description="a number, median or a multiple such as 0.5*median; null is 0.5*median; chosen, "
                                    "0.5*median or 2*median by leave-one-out on the labels, if the kernel has one")

    def check(self) -> Kernel:
        return tried(self)[0].check()


def tried(kernel: KernelSpec) -> tuple[KernelSpec, ...]:
    """Return a base kernel with each bandwidth that is tried."""
    from ...learners.laprls.chosen import bandwidths_of

    return tuple(KernelSpec(name=kernel.name, bandwidth=own, parameters=kernel.parameters)
                 for own in bandwidths_of(kernel.name, kernel.bandwidth))


class LapRLSSpec(ClassModelSpec):
    """Laplacian regularized least squares on landmarks; the penalties weigh against the mean squared residual."""

    kind: Literal["laprls"]
    gamma_A: Penalty = Field(CHOSEN, description="of the norm, > 0; a number, auto or a multiple such as 10*auto; "
                                                 "chosen, one of two by leave-one-out on the labels")
    gamma_I: Penalty = Field(CHOSEN, description="of the graph's energy, >= 0; 0 is plain least squares; chosen, 0 or "
                                                 "one of two by leave-one-out and the structure of the graph")
    solver: Literal["auto", "nystrom-pcg", "nystrom-cg", "nystrom-direct", "pcg", "cg", "direct"] = Field(
        "auto", description="nystrom-direct, nystrom-pcg and nystrom-cg use landmarks; direct, pcg and cg all points")
    preconditioner: Literal["edges", "paper", "paper-5", "paper-6", "none"] = "edges"
    whitening: float | Literal["auto"] | None = Field(
        "auto", description="eigenvalues of the landmarks' kernel below this share of the largest are dropped; null "
                            "drops none")
    precision: Literal["float64", "float32"] = "float64"
    tolerance: float = 1e-6
    max_iterations: int = 500
    fit_intercept: bool = True
    landmarks: LandmarkSpec = LandmarkSpec()

    def system(self, laplacian: LaplacianKind, held_out: HeldOut = "auto",
               held_out_points: HeldOutPoints = "transductive") -> SystemParams:
        """Return the solver's parameters; held_out, held_out_points : how cross-validation predicts."""
        from ...learners.laprls.params import SystemParams

        return SystemParams(solver=self.solver, laplacian=laplacian, preconditioner=self.preconditioner,
                            whitening=self.whitening, precision=self.precision, tolerance=self.tolerance,
                            max_iterations=self.max_iterations, held_out=held_out, held_out_points=held_out_points,
                            random_state=self.landmarks.random_state)

    def minimized(self) -> SmoothLoss:
        """Return the loss that is minimized."""
        from ...learners.losses import SQUARES

        return SQUARES

    def params(self, laplacian: LaplacianKind,
               selection: PenaltySelection | None) -> LapRLSParams:
        """Return the parameters with the grid of the selection."""
        from ...learners.laprls.chosen import values_of
        from ...learners.laprls.problem import LapRLSParams

        printed = self.preconditioner.startswith("paper") and self.solver in ("auto", "nystrom-pcg")
        require(not (printed and self.landmarks.method == "kmeans"),
                f"preconditioner={self.preconditioner!r} with landmarks that are centers",
                why="it needs the graph's weights between landmarks, which must be points then",
                fix='use "edges", or uniform landmarks')
        gamma_A, gamma_I = values_of("gamma_A", self.gamma_A), values_of("gamma_I", self.gamma_I)
        for pair in product(gamma_A, gamma_I):
            require_penalties(*pair)  # those that the selection replaces too
        if selection:
            gamma_A = tuple(selection.grid.gamma_A or gamma_A)
            gamma_I = tuple(selection.grid.gamma_I or gamma_I)
        how = (selection.held_out, selection.held_out_points) if selection else ()
        system = self.system(laplacian, *how)
        return LapRLSParams(gamma_A=gamma_A, gamma_I=gamma_I, landmarks=self.landmarks.params(), system=system,
                            fit_intercept=self.fit_intercept, loss=self.minimized(),
                            chosen=selection is None and CHOSEN in (self.gamma_A, self.gamma_I))


class PenaltyGrid(KernelGrid):
    """The penalties, and the bandwidth of the base kernel."""

    gamma_A: list[Penalty] | None = Field(default=None, min_length=1)
    gamma_I: list[Penalty] | None = Field(default=None, min_length=1)


class PenaltySelection(KernelSelection):
    """Penalties and bandwidth chosen by cross-validation on the labels."""

    grid: PenaltyGrid = PenaltyGrid()


class LapRLSPipeline(KernelPipeline):
    """A pipeline of Laplacian regularized least squares."""

    labels: LabelSpec
    graph: KernelGraph = KernelGraph()
    kernel: LapRLSKernel = LapRLSKernel()
    model: LapRLSSpec
    selection: PenaltySelection | None = None
    baselines: tuple[Literal["base", "shuffled"], ...] = ("base", "shuffled")
    always = ("base", "shuffled")

    def laprls(self) -> LapRLSParams:
        """Return the parameters with the grid of the selection, and the first loss of it."""
        from ...execution.size import MEMORY_BUDGET
        from ...learners.laprls.problem import WITHOUT_LANDMARKS

        found = self.model.params(self.graph.laplacian, self.selection)
        chosen = found.chosen or (self.selection is None and len(self.kernels()) > 1)
        # Where it counts no landmarks the budget changes nothing, and so no address.
        counts = found.landmarks.n_landmarks == "auto" and found.system.solver not in WITHOUT_LANDMARKS
        counted = self.budget if counts else MEMORY_BUDGET
        return replace(found, loss=self.losses()[0], chosen=chosen, budget=counted)

    def kernels(self) -> tuple[KernelSpec, ...]:
        """Return the base kernel with each bandwidth that is tried."""
        return tuple(own for kernel in super().kernels() for own in tried(kernel))

    def losses(self) -> tuple[SmoothLoss, ...]:
        """Return the losses that are tried."""
        return (self.model.minimized(),)

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "model", self.laprls
