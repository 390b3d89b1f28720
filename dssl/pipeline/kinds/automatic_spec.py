"""The pipeline file of the kind `automatic`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ...base.errors import DsslError, SpecError, explain
from ...data.scaling.params import ScalingKind, ScalingParams
from ...learners.class_scoring import ClassScoring, require_decisions
from ...learners.on_graph.automatic import most_labels
from ...learners.on_graph.graph_ridge import GraphRidgeParams
from ..spec import DataSection, GraphPipeline, LabelSection
from .graph_spec import SizedModel


@dataclass(frozen=True, kw_only=True)
class AutomaticData(DataSection):
    """Where the points come from, with a scaling that the labels choose.

    Parameters
    ----------
    scale : str
        Of the features; auto chooses by the columns' ranges, and by the leave-one-out residuals of kernels on the
        labels.
    """

    scale: ScalingKind = "auto"

    @property
    def scaling(self) -> ScalingParams | None:
        return None if self.scale == "auto" else ScalingParams(kind=self.scale)


@dataclass(frozen=True, kw_only=True)
class AutomaticModel(SizedModel):
    """Graph kernels and kernels on the labels alone, averaged by leave-one-out; nothing is tuned.

    From 2,000 labels on, or where kernels of them exceed half the memory budget (1,670 at 1 GiB), harmonic functions on
    the graph, or the nearest labels; class_sizes are then refused.

    Parameters
    ----------
    loss : "squared" or "huber"
        Of a regression; in huber a target far from what the others say counts less.
    scoring : str or None
        Of classes, the metric that predicted classes are best for, and that model and baselines are compared by; null
        is accuracy.
    """

    kind: Literal["automatic"] = "automatic"
    loss: Literal["squared", "huber"] = "squared"
    scoring: ClassScoring | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_decisions(self.scoring, sized=self.class_sizes is not None)


@dataclass(frozen=True, kw_only=True)
class AutomaticPipeline(GraphPipeline):
    """A pipeline with nothing to choose but the data, the labels and, for those who want to, the graph."""

    data: AutomaticData
    labels: LabelSection = field()
    model: AutomaticModel = AutomaticModel()

    def _task_mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super()._task_mistakes()
        yield from self.model.task_mistakes(self.data.task)
        if self.model.loss != "squared" and self.data.task != "regression":
            yield "model.loss", SpecError(explain(f"loss {self.model.loss}, and data.task is {self.data.task}",
                                                  why="it is of residuals", fix="leave model.loss out"))
        if self.model.scoring is not None and self.data.task != "classification":
            yield "model.scoring", SpecError(explain("model.scoring, and data.task is regression",
                                                     why="it is a metric of classes", fix="leave it out"))

    def family(self) -> GraphRidgeParams:
        """Return the family of graph kernels."""
        return GraphRidgeParams(random_state=self.model.random_state)

    @property
    def most_labels(self) -> int:
        """Return the labels up to which kernels of labeled points are made."""
        return most_labels(self.family(), self.budget)
