"""The kind `lapsvm`: the Laplacian support vector machine, `laprls` with another loss.

    model     least loss of the labels, with penalties on the norm and on how much the function varies along the graph
    base      the same without the graph, gamma_I = 0, with its own gamma_A, on the same landmarks
    shuffled  the model with the mean of the graph's energy over all relabelings of its vertices
"""

from dataclasses import replace
from typing import Literal, Self

from pydantic import Field, model_validator

from ...learners.laprls.penalties import Penalty
from ...learners.smooth_losses import HuberHinge, SmoothLoss, loss_of
from .laprls import LAPRLS
from .laprls_spec import LapRLSKernel, LapRLSPipeline, LapRLSSpec, PenaltyGrid, PenaltySelection

LossName = Literal["squared_hinge", "huber_hinge", "logistic"]


class LapSVMSpec(LapRLSSpec):
    """Laplacian support vector machine on landmarks; the penalties weigh against the mean loss."""

    kind: Literal["lapsvm"]  # type: ignore[assignment]
    gamma_A: Penalty = Field("auto", description="of the norm, > 0; a number, auto or a multiple such as 10*auto")
    gamma_I: Penalty = Field("auto", description="of the graph's energy, >= 0; 0 is no graph")
    loss: LossName = "squared_hinge"
    h: float = Field(HuberHinge.h, gt=0, description="of huber_hinge: the hinge is rounded so far from its corner")
    fit_intercept: Literal[True] = True

    def minimized(self) -> SmoothLoss:
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
        if self.model.h != HuberHinge.h and "huber_hinge" not in tried:
            raise ValueError(f"model.h is of huber_hinge, and the loss is {' or '.join(tried)}: leave it out")
        if len(set(tried)) < len(tried):
            raise ValueError("selection.grid.loss names a loss twice")
        return self

    def _loss_names(self) -> list[LossName]:
        return (self.selection.grid.loss if self.selection else None) or [self.model.loss]

    def losses(self) -> tuple[SmoothLoss, ...]:
        return tuple(loss_of(name, self.model.h) for name in self._loss_names())


LAPSVM = replace(LAPRLS, name="lapsvm", spec=LapSVMPipeline, tasks=("classification",), words=replace(
    LAPRLS.words, model="A support vector machine on the labels, with penalties on the norm and on how much the "
                        "function varies along the graph."))
