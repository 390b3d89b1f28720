"""The kinds that run a method in a workspace: all but those of clusters."""

from dataclasses import replace
from typing import Any

from ...execution.cost import Cost
from ...methods.plan_inputs import PlanInputs
from ...methods.step import Method
from ..dataset import DATASET
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES
from ..points import LABELS, POINTS
from ..predict.stage import predictions_with
from ..sample import sample_with
from ..scoring import scores_with, with_scored
from ..spec import KindSpec
from ..split import SPLIT
from ..stage import Kind, stages_of
from .automatic import SCALED_POINTS
from .specs import METHODS, SPECS


def kind_of(method: Method, spec: KindSpec) -> Kind:
    """Return the kind that runs a method by pipeline files of such a spec."""
    def predicted_cost(f: PlanInputs, spec: Any) -> Cost:
        cost = f.cost_of_tags(lambda of_tag: method.scores_cost(of_tag, spec.params))
        return replace(cost, tasks=cost.tasks // len(f.each_tag()))  # one predicts all tags

    def scores_cost(f: PlanInputs, spec: Any) -> Cost:
        params, cost = spec.params, predicted_cost(f, spec)
        n_models = 1 + len(params.baselines)
        if spec.data.tags is not None:  # one model after the other
            cost = replace(cost, tasks=n_models * cost.tasks, read=n_models * cost.read)
        return with_scored(cost, f, n_models, asked=getattr(params, "scoring", None) is not None)

    points = SCALED_POINTS if method.data.scaled_by_labels else POINTS
    graph = (VERTICES, NEIGHBORS, GRAPH, HEALTH) if method.has_graph else ()
    return Kind.of(spec, (
        DATASET, SPLIT, LABELS, points, *graph, *stages_of(method, spec.spec),
        sample_with(predicted_cost, method), scores_with(scores_cost, method),
        predictions_with(predicted_cost, method),
    ), report_text=method.report_text, baselines=method.baselines, takes_tags=True)


KINDS_OF_METHODS = tuple(kind_of(method, SPECS[method.name]) for method in METHODS)
