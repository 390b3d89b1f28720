"""The kinds that run a method in a workspace: `svm`, `ridge`, `cluster` and `multiscale`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...execution.cost import Cost
from ...methods.cluster import CLUSTER_KERNEL
from ...methods.deformed.method import DEFORMED_RIDGE, DEFORMED_SVM
from ...methods.multiscale import MULTISCALE_KERNEL
from ...methods.step import Method
from ..dataset import DATASET
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES
from ..plan.facts import Facts
from ..points import LABELS, POINTS
from ..predict.stage import predictions_with
from ..sample import SAMPLE, SAMPLE_OF_GRAPH
from ..scoring import SCORES, with_scored
from ..spec import Spec
from ..split import SPLIT
from ..stage import Kind, stages_of
from .deformed_spec import DeformedSpec
from .linear_spec import ClusterPipeline, MultiscalePipeline
from .specs import SPECS


def kind_of(method: Method, spec: type[Spec], params: Callable[[Any], Any]) -> Kind:
    """Return the kind that runs a method; params : makes the parameters of the method of such a spec."""
    def scores_cost(f: Facts[Any]) -> Cost:
        return with_scored(method.scores_cost(f, params(f.spec)), f, 1 + len(f.spec.baselines))

    graph = (VERTICES, NEIGHBORS, GRAPH, HEALTH) if method.has_graph else ()
    return Kind.of(SPECS[method.name], (
        DATASET, SPLIT, LABELS, POINTS, *graph, *stages_of(method, params, spec),
        SAMPLE_OF_GRAPH if method.has_graph else SAMPLE, predictions_with(scores_cost),
        replace(SCORES, cost=scores_cost, remedy=method.steps[-1].hint),
    ), words=method.words, baselines=method.baselines)


KINDS_OF_METHODS = tuple(kind_of(method, spec, lambda own: own.params()) for method, spec in (
    (DEFORMED_SVM, DeformedSpec), (DEFORMED_RIDGE, DeformedSpec), (CLUSTER_KERNEL, ClusterPipeline),
    (MULTISCALE_KERNEL, MultiscalePipeline)))
