"""The kind `lapsvm`: the Laplacian support vector machine, `laprls` with another loss.

    model     least loss of the labels, with penalties on the norm and on how much the function varies along the graph
    base      the same without the graph, gamma_I = 0, with its own gamma_A, on the same landmarks
    shuffled  the model with the mean of the graph's energy over all relabelings of its vertices
"""

from dataclasses import replace
from typing import Literal

from pydantic import Field

from ...learners.smooth_losses import HuberHinge, SmoothLoss, loss_of
from .laprls import LAPRLS
from .laprls_spec import LapRLSPipeline, LapRLSSpec


class LapSVMSpec(LapRLSSpec):
    """Laplacian support vector machine on landmarks; the penalties weigh against the mean loss."""

    kind: Literal["lapsvm"]  # type: ignore[assignment]
    loss: Literal["squared_hinge", "huber_hinge", "logistic"] = "squared_hinge"
    h: float = Field(HuberHinge.h, gt=0, description="of huber_hinge: the hinge is rounded so far from its corner")
    fit_intercept: Literal[True] = True

    def minimized(self) -> SmoothLoss:
        return loss_of(self.loss, self.h)


class LapSVMPipeline(LapRLSPipeline):
    """A pipeline of the Laplacian support vector machine."""

    model: LapSVMSpec


LAPSVM = replace(LAPRLS, name="lapsvm", spec=LapSVMPipeline, tasks=("classification",), words=replace(
    LAPRLS.words, model="A support vector machine on the labels, with penalties on the norm and on how much the "
                        "function varies along the graph."))
