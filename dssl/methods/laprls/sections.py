"""The sections of a pipeline file that say how a model with the norm and the graph as penalties is made."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import ClassVar, Literal, Self

from ...base.errors import DsslError, SpecError, explain, raised, require
from ...base.units import MEMORY_BUDGET
from ...graph.regularizer import LaplacianKind
from ...kernels.landmarks import LandmarkParams
from ...learners.laprls.params import HeldOut, HeldOutPoints, Precision, Preconditioner, Solver, SystemParams
from ...learners.laprls.penalties import CHOSEN, Penalty, bandwidth_candidates, penalty_candidates, require_penalties
from ...learners.laprls.problem import WITHOUT_LANDMARKS, LapRLSParams
from ...learners.losses import SQUARES, HuberHinge, LossName, SmoothLoss, SquaredHinge, smooth_loss
from ...selection.candidates import LOWEST_ERROR
from ...selection.halving import ALL
from ..sections import ClassModel, KernelGraph, KernelSection, KernelSections
from ..selection_sections import KernelGrid, KernelSelection
from .steps import PenaltyParams


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
        return tuple(replace(self, bandwidth=each) for each in bandwidth_candidates(self.name, self.bandwidth))


@dataclass(frozen=True, kw_only=True)
class LapRLSModel(ClassModel):
    """Laplacian regularized least squares on landmarks.

    Parameters
    ----------
    gamma_A : float or str
        The weight of the norm, > 0, against the mean squared residual of the
        labels: a number, "auto", a multiple such as "10*auto", or "chosen", which
        takes one of two by the leave-one-out residuals of the labels.
    gamma_I : float or str
        The weight of the graph's energy, >= 0, given as `gamma_A` is; 0 is
        regularized least squares without a graph. "chosen" takes 0 or one of two by
        the leave-one-out residuals of the labels and the spectral concentration of
        the graph.
    solver : str
        How the systems are solved: "auto", "nystrom-direct" (Gram matrices),
        "nystrom-pcg" or "nystrom-cg"; or "direct", "pcg" or "cg", on all points
        instead of landmarks.
    preconditioner : str
        The preconditioner of "nystrom-pcg".
    whitening : float, "auto" or None
        The share of the largest eigenvalue of the landmarks' kernel below which
        eigenvalues are dropped; null drops none.
    precision : "auto", "float64" or "float32"
        The precision of kernel blocks, whose products are added in float64 either
        way; "auto" is float32 from 10,000 distinct points on, see `SystemParams`.
    tol : float
        The residual, relative to the right-hand side, at which a column ends.
    max_iter : int
        The number of iterations of a column at most.
    fit_intercept : bool
        Whether the function has an unpenalized intercept: targets are centered at
        the mean of the labels.
    landmarks : int, float, "sqrt", "auto" or LandmarkParams
        The points over which functions are sums: their number, their share of the
        distinct points, "sqrt", "auto", or `LandmarkParams`, which says which as
        well.
    """

    kind: Literal["laprls"] = "laprls"
    gamma_A: Penalty = CHOSEN
    gamma_I: Penalty = CHOSEN
    solver: Solver = SystemParams.solver
    preconditioner: Preconditioner = SystemParams.preconditioner
    whitening: float | Literal["auto"] | None = SystemParams.whitening
    precision: Precision = SystemParams.precision
    tol: float = SystemParams.tol
    max_iter: int = SystemParams.max_iter
    fit_intercept: bool = LapRLSParams.fit_intercept
    landmarks: int | float | Literal["sqrt", "auto"] | LandmarkParams = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        printed = self.preconditioner.startswith("paper") and self.solver in ("auto", "nystrom-pcg")
        require(not (printed and self.landmark_params.method == "kmeans"),
                f"preconditioner={self.preconditioner!r} with landmarks that are centers",
                why="it needs the graph's weights between landmarks, which must be points then",
                fix='use "edges", or uniform landmarks')
        for pair in product(penalty_candidates("gamma_A", self.gamma_A), penalty_candidates("gamma_I", self.gamma_I)):
            require_penalties(*pair)  # those that the selection replaces too
        _ = self.params("normalized", None)  # raises where a value is out of range

    @property
    def landmark_params(self) -> LandmarkParams:
        given = self.landmarks
        return given if isinstance(given, LandmarkParams) else LandmarkParams(n_landmarks=given)

    def system(self, laplacian: LaplacianKind, held_out: HeldOut = "auto",
               held_out_points: HeldOutPoints = "transductive") -> SystemParams:
        """Return the solver's parameters; held_out, held_out_points : how cross-validation predicts."""
        return SystemParams(solver=self.solver, laplacian=laplacian, preconditioner=self.preconditioner,
                            whitening=self.whitening, precision=self.precision, tol=self.tol,
                            max_iter=self.max_iter, held_out=held_out, held_out_points=held_out_points,
                            random_state=self.landmark_params.random_state)

    def minimized(self) -> SmoothLoss:
        return SQUARES

    def params(self, laplacian: LaplacianKind, selection: "PenaltySelection | None") -> LapRLSParams:
        gamma_A, gamma_I = penalty_candidates("gamma_A", self.gamma_A), penalty_candidates("gamma_I", self.gamma_I)
        if selection:
            gamma_A = selection.grid.gamma_A or gamma_A
            gamma_I = selection.grid.gamma_I or gamma_I
        how = (selection.held_out, selection.held_out_points) if selection else ()
        return LapRLSParams(gamma_A=gamma_A, gamma_I=gamma_I, landmarks=self.landmark_params,
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
class LapRLSSections(KernelSections):
    """The sections of Laplacian regularized least squares."""

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
        return (self.model.minimized(),)

    @cached_property
    def params(self) -> PenaltyParams:
        chosen, random_state = self.selection, self.model.landmark_params.random_state
        return PenaltyParams(
            laprls=self.laprls(), losses=self.losses(), kernels=self.base_kernels(random_state),
            cv=chosen.folds() if chosen else None,
            rule=chosen.rule() if chosen else LOWEST_ERROR, search=chosen.searched() if chosen else ALL,
            tie="rmse" if self.losses() == (SQUARES,) else "loss", prior=self.prior, weight=self.weight,
            random_state=random_state, baselines=self.baselines)

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from raised("model", self.laprls)


# ---- lapsvm


@dataclass(frozen=True, kw_only=True)
class LapSVMModel(LapRLSModel):
    """Laplacian support vector machine on landmarks.

    Parameters
    ----------
    gamma_A : float or str
        The weight of the norm, > 0, against the mean loss of the labels: a number,
        "auto", or a multiple such as "10*auto".
    gamma_I : float or str
        The weight of the graph's energy, >= 0, given as `gamma_A` is; 0 leaves the
        graph out.
    loss : str
        The loss of the labels: "squared_hinge"; "huber_hinge", the hinge with its
        corner rounded over h to either side; "logistic", "squared", or a smooth loss
        that a plugin registers.
    h : float
        How far the corner of "huber_hinge" is rounded to either side.
    """

    kind: Literal["lapsvm"] = "lapsvm"  # type: ignore[assignment]
    gamma_A: Penalty = "auto"
    gamma_I: Penalty = "auto"
    loss: LossName = SquaredHinge.name
    h: float = HuberHinge.h
    fit_intercept: Literal[True] = True

    def minimized(self) -> SmoothLoss:
        return smooth_loss(self.loss, self.h)


@dataclass(frozen=True, kw_only=True)
class LapSVMKernel(LapRLSKernel):
    """The base kernel, on the scaled features.

    Parameters
    ----------
    bandwidth : float, str or None
        A number, median or a multiple such as 0.5*median; null is 0.5*median.
    """

    bandwidth: float | str | None = None


@dataclass(frozen=True, kw_only=True)
class LossGrid(PenaltyGrid):
    """The loss, the penalties, and the bandwidth of the base kernel."""

    loss: tuple[LossName, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.loss or ():
            smooth_loss(name)  # raises if there is none


@dataclass(frozen=True, kw_only=True)
class LapSVMSelection(PenaltySelection):
    """Loss, penalties and bandwidth chosen by cross-validation on the labels."""

    grid: LossGrid = LossGrid()


@dataclass(frozen=True, kw_only=True)
class LapSVMSections(LapRLSSections):
    """The sections of the Laplacian support vector machine."""

    kernel: LapSVMKernel = LapSVMKernel()
    model: LapSVMModel
    selection: LapSVMSelection | None = None

    def _loss_names(self) -> tuple[LossName, ...]:
        return (self.selection.grid.loss if self.selection else None) or (self.model.loss,)

    def losses(self) -> tuple[SmoothLoss, ...]:
        return tuple(smooth_loss(name, self.model.h) for name in self._loss_names())

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        tried = self._loss_names()
        if self.model.h != HuberHinge.h and "huber_hinge" not in tried:
            yield "model.h", SpecError(explain(f"model.h is of huber_hinge, and the loss is {' or '.join(tried)}",
                                               why="no other loss reads it", fix="leave it out"))
        if len(set(tried)) < len(tried):
            yield "selection.grid.loss", SpecError(explain("selection.grid.loss names a loss twice",
                                                           why="it would do work twice", fix="name each once"))
