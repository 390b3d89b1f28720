"""The points of the kind `automatic`: the labels choose the scale of the features, so that points follow from labels.
"""

from dataclasses import dataclass, replace
from typing import Any

from ...data.scaling.scaling import ScalingParams
from ...estimators.feature_scales import choose_scale, choosing_bytes
from ...execution.cost import Cost
from ...knn.metric import AnyMetric
from ...methods.plan_inputs import PlanInputs
from ...methods.step import Context
from ...methods.tags import labeled_tags
from ..dataset import dataset_of
from ..points import POINTS, make_points, points_cost, scale_points


@dataclass(frozen=True)
class ScaleParams:
    """How features are scaled; None chooses. random_state : of the labels that judge. metric : of the graph."""

    scaling: ScalingParams | None
    random_state: int
    metric: AnyMetric

    @classmethod
    def of(cls, spec: Any) -> "ScaleParams":
        return cls(spec.scaling, spec.model.random_state, spec.graph.distance)


def make_scaled_points(context: Context, params: ScaleParams) -> dict[str, Any]:
    """Choose the scale of the features, and scale the training and test points; one that grows has that of the base."""
    if params.scaling is not None:
        return make_points(context, params.scaling)
    if context.base is not None:
        chosen = context.base.attributes["scale"]
        return {**scale_points(context, ScalingParams(kind=chosen["kind"]), by_labels=True), "scale": chosen}
    dataset = dataset_of(context)
    target = labeled_tags(context).most_balanced() if "tags" in context.attributes("labels") else context.target()
    scaling, tried = choose_scale(dataset.X, context.rows("split", "train"), target, context.execution,
                                  params.random_state, dataset.categories, params.metric)
    made = scale_points(context, ScalingParams(kind=scaling.kind), by_labels=True)
    return {**made, "scale": {"kind": scaling.kind, **tried}}


def _points_cost(f: PlanInputs, spec: Any) -> Cost:
    scaling = spec.scaling
    if scaling is not None:
        return points_cost(f, scaling.kind)
    cost = points_cost(f, "standardize", 1 if f.growing else 2)
    return replace(cost, peak=max(cost.peak, choosing_bytes(f.n_labeled, f.row_bytes, f.width)))


SCALED_POINTS = replace(POINTS, version=10, needs=("dataset", "split", "labels"), params=ScaleParams.of,
                        make=make_scaled_points, cost=_points_cost)
