"""The pipeline file of the kind `lapsvm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from ...learners.laprls.penalties import Penalty
from .laprls_spec import LapRLSKernel, LapRLSPipeline, LapRLSSpec, PenaltyGrid, PenaltySelection

if TYPE_CHECKING:
    from ...learners.losses import SmoothLoss

HALF_WIDTH = 0.01  # of huber_hinge, the paper's
LossName = Literal["squared_hinge", "huber_hinge", "logistic"]


class LapSVMSpec(LapRLSSpec):
    """Laplacian support vector machine on landmarks; the penalties weigh against the mean loss."""

    kind: Literal["lapsvm"]  # type: ignore[assignment]
    gamma_A: Penalty = Field("auto", description="of the norm, > 0; a number, auto or a multiple such as 10*auto")
    gamma_I: Penalty = Field("auto", description="of the graph's energy, >= 0; 0 is no graph")
    loss: LossName = "squared_hinge"
    h: float = Field(HALF_WIDTH, gt=0, description="of huber_hinge: the hinge is rounded so far from its corner")
    fit_intercept: Literal[True] = True

    def minimized(self) -> SmoothLoss:
        from ...learners.losses import loss_of

        return loss_of(self.loss, self.h)


class LapSVMKernel(LapRLSKernel):
    """The base kernel, on the scaled features."""

    bandwidth: float | str | None = Field(default=None, description="a number, median or a multiple such as "
                                                                    "0.5*median; null is 0.5*median")


class LossGrid(PenaltyGrid):
    """The loss, the penalties, and the bandwidth of the base kernel."""

    loss: list[LossName] | None = Field(default=None, min_length=1)


class LapSVMSelection(PenaltySelection):
    """Loss, penalties and bandwidth chosen by cross-validation on the labels."""

    grid: LossGrid = LossGrid()


class LapSVMPipeline(LapRLSPipeline):
    """A pipeline of the Laplacian support vector machine."""

    kernel: LapSVMKernel = LapSVMKernel()
    model: LapSVMSpec
    selection: LapSVMSelection | None = None

    @model_validator(mode="after")
    def _h_is_of_a_loss(self) -> Self:
        tried = self._loss_names()
        if self.model.h != HALF_WIDTH and "huber_hinge" not in tried:
            raise ValueError(f"model.h is of huber_hinge, and the loss is {' or '.join(tried)}: leave it out")
        if len(set(tried)) < len(tried):
            raise ValueError("selection.grid.loss names a loss twice")
        return self

    def _loss_names(self) -> list[LossName]:
        return (self.selection.grid.loss if self.selection else None) or [self.model.loss]

    def losses(self) -> tuple[SmoothLoss, ...]:
        from ...learners.losses import loss_of

        return tuple(loss_of(name, self.model.h) for name in self._loss_names())
