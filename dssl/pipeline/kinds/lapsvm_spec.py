"""The pipeline file of the kind `lapsvm`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...base.errors import DsslError, SpecError, explain
from ...learners.laprls.penalties import Penalty
from ...learners.losses import HuberHinge, SmoothLoss, loss_of
from .laprls_spec import LapRLSKernel, LapRLSModel, LapRLSPipeline, PenaltyGrid, PenaltySelection

LossName = Literal["squared_hinge", "huber_hinge", "logistic"]


@dataclass(frozen=True, kw_only=True)
class LapSVMModel(LapRLSModel):
    """Laplacian support vector machine on landmarks; the penalties weigh against the mean loss.

    Parameters
    ----------
    gamma_A : float or str
        Of the norm, > 0; a number, auto or a multiple such as 10*auto.
    gamma_I : float or str
        Of the graph's energy, >= 0; 0 is no graph.
    loss : "squared_hinge", "huber_hinge" or "logistic"
        The loss that is minimized.
    h : float
        Of huber_hinge: the hinge is rounded so far from its corner.
    """

    kind: Literal["lapsvm"]  # type: ignore[assignment]
    gamma_A: Penalty = "auto"
    gamma_I: Penalty = "auto"
    loss: LossName = "squared_hinge"
    h: float = HuberHinge.h
    fit_intercept: Literal[True] = True

    def minimized(self) -> SmoothLoss:
        return loss_of(self.loss, self.h)


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


@dataclass(frozen=True, kw_only=True)
class LapSVMSelection(PenaltySelection):
    """Loss, penalties and bandwidth chosen by cross-validation on the labels."""

    grid: LossGrid = LossGrid()


@dataclass(frozen=True, kw_only=True)
class LapSVMPipeline(LapRLSPipeline):
    """A pipeline of the Laplacian support vector machine."""

    kernel: LapSVMKernel = LapSVMKernel()
    model: LapSVMModel
    selection: LapSVMSelection | None = None

    def _loss_names(self) -> tuple[LossName, ...]:
        return (self.selection.grid.loss if self.selection else None) or (self.model.loss,)

    def losses(self) -> tuple[SmoothLoss, ...]:
        return tuple(loss_of(name, self.model.h) for name in self._loss_names())

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        tried = self._loss_names()
        if self.model.h != HuberHinge.h and "huber_hinge" not in tried:
            yield "model.h", SpecError(explain(f"model.h is of huber_hinge, and the loss is {' or '.join(tried)}",
                                               why="no other loss reads it", fix="leave it out"))
        if len(set(tried)) < len(tried):
            yield "selection.grid.loss", SpecError(explain("selection.grid.loss names a loss twice",
                                                           why="it would do work twice", fix="name each once"))
