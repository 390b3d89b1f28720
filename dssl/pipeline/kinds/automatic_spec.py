"""The pipeline file of the kind `automatic`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from ...base.errors import require
from ...data.scaling.params import ScalingKind, ScalingParams
from ...learners.class_scoring import ClassScoring, require_decisions
from ..spec import DataSpec, GraphPipeline, LabelSpec
from .graph_spec import SizedModelSpec, require_sizes_of_classes

if TYPE_CHECKING:
    from ...learners.on_graph.graph_ridge import GraphRidgeParams


class AutomaticData(DataSpec):
    """The same, with a scaling that the labels choose."""

    scale: ScalingKind = Field(
        "auto", description="of the features; auto chooses by the columns' ranges, and by the leave-one-out "
                            "residuals of kernels on the labels")

    @property
    def scaling(self) -> ScalingParams | None:
        return None if self.scale == "auto" else ScalingParams(kind=self.scale)


class AutomaticModelSpec(SizedModelSpec):
    """Graph kernels and kernels on the labels alone, averaged by leave-one-out; nothing is tuned.

    From 2,000 labels on, or where kernels of them exceed half the memory budget (1,670 at 1 GiB), harmonic functions on
    the graph, or the nearest labels; class_sizes are then refused.
    """

    kind: Literal["automatic"] = "automatic"
    loss: Literal["squared", "huber"] = Field(
        default="squared", description="of a regression; in huber a target far from what the others say counts less")
    scoring: ClassScoring | None = Field(
        default=None, description="of classes, the metric that predicted classes are best for, and that model and "
                                  "baselines are compared by; null is accuracy")


class AutomaticPipeline(GraphPipeline):
    """A pipeline with nothing to choose but the data, the labels and, for those who want to, the graph."""

    data: AutomaticData
    labels: LabelSpec
    model: AutomaticModelSpec = AutomaticModelSpec()

    @model_validator(mode="after")
    def _sizes_are_of_classes(self) -> Self:
        require_sizes_of_classes(self.data.task, self.model)
        require(self.model.loss == "squared" or self.data.task == "regression", f"loss {self.model.loss}",
                why="it is of residuals, and data.task is " + self.data.task, fix="leave model.loss out")
        require(self.model.scoring is None or self.data.task == "classification",
                "model.scoring, and data.task is regression", why="it is a metric of classes", fix="leave it out")
        require_decisions(self.model.scoring, sized=self.model.class_sizes is not None)
        return self

    def family(self) -> GraphRidgeParams:
        """Return the family of graph kernels."""
        from ...learners.on_graph.graph_ridge import GraphRidgeParams

        return GraphRidgeParams(random_state=self.model.random_state)

    @property
    def most_labels(self) -> int:
        """Return the labels up to which kernels of labeled points are made."""
        from ...learners.on_graph.automatic import most_labels

        return most_labels(self.family(), self.budget)
