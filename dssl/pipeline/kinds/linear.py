"""The kinds `cluster` and `multiscale`: the methods of linear models on features, in a workspace."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...execution.cost import Cost
from ...methods.cluster import CLUSTER_KERNEL
from ...methods.multiscale import MULTISCALE_KERNEL
from ...methods.step import Method
from ..dataset import DATASET
from ..facts import Facts
from ..points import LABELS, POINTS
from ..predictions import predictions_with
from ..sample import SAMPLE
from ..scoring import SCORES, with_scored
from ..split import SPLIT
from ..stage import Kind, stages_of
from .specs import SPECS


def kind_of_method(method: Method, params: Callable[[Any], Any]) -> Kind:
    """Return the kind that runs a method, without a graph; params : makes the parameters of the method of a spec."""
    def scores_cost(f: Facts[Any]) -> Cost:
        return with_scored(method.scores_cost(f, params(f.spec)), f, 1 + len(method.baselines))

    return Kind.of(SPECS[method.name], (
        DATASET, SPLIT, LABELS, POINTS, *stages_of(method, params), SAMPLE, predictions_with(scores_cost),
        replace(SCORES, cost=scores_cost, remedy=method.steps[-1].hint),
    ), words=method.words, baselines=method.baselines)


CLUSTER = kind_of_method(CLUSTER_KERNEL, lambda spec: spec.params())
MULTISCALE = kind_of_method(MULTISCALE_KERNEL, lambda spec: spec.params())
