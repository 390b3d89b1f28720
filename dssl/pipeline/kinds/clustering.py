"""The kinds `clustering`, of a graph, and `kernel_clustering`, without one: k-means in a kernel, labels optional.

Classes, where the data set has them, are what the clusters are compared with; nothing learns from them.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ...execution.cost import Cost, cost_of
from ...learners.model import Model, stored_models
from ...learners.target.target import Classes
from ...methods.clusters import CLUSTERING, KERNEL_CLUSTERING, euclidean_cost
from ...methods.plan_inputs import PlanInputs
from ...methods.step import Context, Method, NoParams
from ...report.sections.clusters import clusters_section
from ...selection.number_of_clusters import clustering_scores
from ...storage.blocks import Rows
from ..dataset import DATASET
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES
from ..points import POINTS
from ..predict.stage import predictions_with
from ..sample import sample_with
from ..split import SPLIT, known_target
from ..stage import Kind, Stage, stages_of
from .specs import SPECS


def make_agreement(context: Context, params: NoParams) -> dict[str, Any]:
    """Compare the clusters with the classes of training points, and of test points, where they are known."""
    made = context.attributes("models")
    models, k = stored_models(context.inputs["models"].parts, made["models"]).open(), len(made["counts"])
    labels = context.rows("models", "labels").read_all()
    scored: dict[str, dict[str, Any]] = {name: {"n_clusters": k} for name in models}
    scored["model"]["inertia"] = made["inertia"]
    for name in ("train", "test"):
        target = known_target(context, name)
        if target is None or not len(target.labeled):
            continue
        assert isinstance(target, Classes)
        points = context.points(name)
        for of, model in models.items():
            clusters = labels if (of, name) == ("model", "train") else assigned(model, points, context)
            scores = clustering_scores(target.coded, clusters[target.labeled])
            scored[of] |= scores if name == "train" else {f"test_{key}": value for key, value in scores.items()}
            scored[of]["n_compared" if name == "train" else "n_test"] = len(target.labeled)
    return {"metrics": scored.pop("model"), "baselines": scored}


def assigned(model: Model, points: Rows, context: Context) -> np.ndarray:
    """Return the clusters of points (n,), -1 where the model rejects a point."""
    values, unsupported = model.values_and_unsupported(points, context.execution)
    labels = model.coding.labels(values)
    return model.coding.mask_labels(labels, unsupported) if model.rejects else labels


def _unlabeled(stage: Stage) -> Stage:
    """Return a stage that reads no labels."""
    return replace(stage, needs=tuple(name for name in stage.needs if name != "labels"))


def kind_of(method: Method) -> Kind:
    """Return the kind that runs a method of clusters."""
    def assigned_cost(f: PlanInputs, spec: Any) -> Cost:
        return method.scores_cost(f, spec.params)

    def agreement_cost(f: PlanInputs, spec: Any) -> Cost:
        """Return that of the clusters of test points by all models, and of training points by the baselines."""
        cost = assigned_cost(f, spec) if f.n_test else cost_of(0, 0, 0, 0)
        for n in filter(None, (f.n, f.n_test)):
            cost += len(spec.params.baselines) * euclidean_cost(f, n)
        values = 8 * (f.n + f.n_test) * (spec.params.kmeans.n_clusters + 4)
        return replace(cost, written=0, peak=cost.peak + values, smallest_peak=cost.smallest_peak + values)

    graph = (VERTICES, NEIGHBORS, GRAPH, _unlabeled(HEALTH)) if method.has_graph else ()
    spec = SPECS[method.name]
    sample = _unlabeled(sample_with(assigned_cost, method))
    sample = replace(sample, section=None)  # it is in that of the clusters
    return Kind.of(spec, (
        DATASET, SPLIT, POINTS, *graph, *stages_of(method, spec.spec), sample,
        _unlabeled(predictions_with(assigned_cost)),
        Stage("scores", 1, ("split", "points", "models"), lambda spec: NoParams(), make_agreement, agreement_cost,
              "lower data.points"),
    ), report_text=method.report_text, baselines=method.baselines, answer=clusters_section)


KINDS_OF_CLUSTERS = kind_of(CLUSTERING), kind_of(KERNEL_CLUSTERING)
