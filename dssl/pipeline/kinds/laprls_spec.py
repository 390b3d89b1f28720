"""The pipeline file of the kind `laprls`."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import ClassVar, Literal, Self

from ...base.errors import DsslError, require
from ...execution.size import MEMORY_BUDGET
from ...graph.regularizer_params import LaplacianKind
from ...kernels.landmarks import LandmarkParams
from ...learners.laprls.chosen import bandwidths_of, values_of
from ...learners.laprls.params import HeldOut, HeldOutPoints, Preconditioner, Solver, SystemParams
from ...learners.laprls.penalties import CHOSEN, Penalty, require_penalties
from ...learners.laprls.problem import WITHOUT_LANDMARKS, LapRLSParams
from ...learners.losses import SQUARES, SmoothLoss
from ...methods.sections import ClassModel, KernelGraph, KernelSection
from ...methods.selection_sections import KernelGrid, KernelSelection
from ..spec import KernelPipeline, LabelSection


@dataclass(frozen=True, kw_only=True)
class LapRLSKernel(KernelSection):
    """The base kernel, on the scaled features, or one with each bandwidth that is tried.

    Parameters
    ----------
    bandwidth : float, str or None
        A number, median or a multiple such as 0.5*median; null is 0.5*median; chosen, 0.5*median or 2*median by
        leave-one-out on the labels, if the kernel has one.
    """

    bandwidth: float | str | None = CHOSEN

    def tried(self) -> tuple[Self, ...]:
        if self.bandwidth != CHOSEN:
            return (self,)
        return tuple(replace(self, bandwidth=own) for own in bandwidths_of(self.name, self.bandwidth))


@dataclass(frozen=True, kw_only=True)
class LapRLSModel(ClassModel):
    """Laplacian regularized least squares on landmarks; the penalties weigh against the mean squared residual.

    Parameters
    ----------
    gamma_A : float or str
        Of the norm, > 0; a number, auto or a multiple such as 10*auto; chosen, one of two by leave-one-out on the
        labels.
    gamma_I : float or str
        Of the graph's energy, >= 0; 0 is plain least squares; chosen, 0 or one of two by leave-one-out and the spectral
        concentration of the graph.
    solver : str
        nystrom-direct, nystrom-pcg and nystrom-cg use landmarks; direct, pcg and cg all points.
    preconditioner : str
        Of nystrom-pcg.
    whitening : float, "auto" or None
        Eigenvalues of the landmarks' kernel below this share of the largest are dropped; null drops none.
    precision : "float64" or "float32"
        Of kernel blocks.
    tolerance : float
        Residual relative to the right-hand side.
    max_iterations : int
        Of a column.
    fit_intercept : bool
        Whether the function has an unpenalized intercept.
    landmarks : LandmarkParams
        The points that functions are sums over: their number, a share of the distinct training points, sqrt, or auto.
    """

    kind: Literal["laprls"]
    gamma_A: Penalty = CHOSEN
    gamma_I: Penalty = CHOSEN
    solver: Solver = SystemParams.solver
    preconditioner: Preconditioner = SystemParams.preconditioner
    whitening: float | Literal["auto"] | None = SystemParams.whitening
    precision: Literal["float64", "float32"] = SystemParams.precision
    tolerance: float = SystemParams.tolerance
    max_iterations: int = SystemParams.max_iterations
    fit_intercept: bool = LapRLSParams.fit_intercept
    landmarks: LandmarkParams = LandmarkParams()

    def __post_init__(self) -> None:
        super().__post_init__()
        printed = self.preconditioner.startswith("paper") and self.solver in ("auto", "nystrom-pcg")
        require(not (printed and self.landmarks.method == "kmeans"),
                f"preconditioner={self.preconditioner!r} with landmarks that are centers",
                why="it needs the graph's weights between landmarks, which must be points then",
                fix='use "edges", or uniform landmarks')
        for pair in product(values_of("gamma_A", self.gamma_A), values_of("gamma_I", self.gamma_I)):
            require_penalties(*pair)  # those that the selection replaces too
        _ = self.params("normalized", None)  # raises where a value is out of range

    def system(self, laplacian: LaplacianKind, held_out: HeldOut = "auto",
               held_out_points: HeldOutPoints = "transductive") -> SystemParams:
        """Return the solver's parameters; held_out, held_out_points : how cross-validation predicts."""
        return SystemParams(solver=self.solver, laplacian=laplacian, preconditioner=self.preconditioner,
                            whitening=self.whitening, precision=self.precision, tolerance=self.tolerance,
                            max_iterations=self.max_iterations, held_out=held_out, held_out_points=held_out_points,
                            random_state=self.landmarks.random_state)

    def minimized(self) -> SmoothLoss:
        """Return the loss that is minimized."""
        return SQUARES

    def params(self, laplacian: LaplacianKind, selection: "PenaltySelection | None") -> LapRLSParams:
        """Return the parameters with the grid of the selection."""
        gamma_A, gamma_I = values_of("gamma_A", self.gamma_A), values_of("gamma_I", self.gamma_I)
        if selection:
            gamma_A = selection.grid.gamma_A or gamma_A
            gamma_I = selection.grid.gamma_I or gamma_I
        how = (selection.held_out, selection.held_out_points) if selection else ()
        return LapRLSParams(gamma_A=gamma_A, gamma_I=gamma_I, landmarks=self.landmarks,
                            system=self.system(laplacian, *how), fit_intercept=self.fit_intercept,
                            loss=self.minimized(), chosen=selection is None and CHOSEN in (self.gamma_A, self.gamma_I))


@dataclass(frozen=True, kw_only=True)
class PenaltyGrid(KernelGrid):
    """The penalties, and the bandwidth of the base kernel."""

    gamma_A: tuple[Penalty, ...] | None = None
    gamma_I: tuple[Penalty, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class PenaltySelection(KernelSelection):
    """Penalties and bandwidth chosen by cross-validation on the labels."""

    grid: PenaltyGrid = PenaltyGrid()


@dataclass(frozen=True, kw_only=True)
class LapRLSPipeline(KernelPipeline):
    """A pipeline of Laplacian regularized least squares."""

    labels: LabelSection = field()
    graph: KernelGraph = KernelGraph()
    kernel: LapRLSKernel = LapRLSKernel()
    model: LapRLSModel
    selection: PenaltySelection | None = None
    baselines: tuple[Literal["base", "shuffled"], ...] = ("base", "shuffled")
    always: ClassVar[tuple[str, ...]] = ("base", "shuffled")

    def laprls(self) -> LapRLSParams:
        """Return the parameters with the grid of the selection, and the first loss of it."""
        params = self.model.params(self.graph.laplacian, self.selection)
        chosen = params.chosen or (self.selection is None and len(self.kernels()) > 1)
        # Where it counts no landmarks the budget changes nothing, and so no address.
        counts = params.landmarks.n_landmarks == "auto" and params.system.solver not in WITHOUT_LANDMARKS
        counted = self.budget if counts else MEMORY_BUDGET
        return replace(params, loss=self.losses()[0], chosen=chosen, budget=counted)

    def losses(self) -> tuple[SmoothLoss, ...]:
        """Return the losses that are tried."""
        return (self.model.minimized(),)

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        try:
            _ = self.laprls()
        except DsslError as error:
            yield "model", error
