"""The kinds `clustering`, of a graph, and `kernel_clustering`, without one: k-means in a kernel, labels optional.

    model       k-means in the kernel
    euclidean   k-means of the scaled features, with as many clusters; not of sparse rows

Classes, where the data set has them, are what both are compared with; nothing learns from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.profiler import process_peak
from ...execution.cost import Cost, cost_of
from ...kernels.base import Linear, kernel_from
from ...kernels.cluster_params import ClusterParams, basis_cost
from ...kernels.multiscale import MultiscaleParams, multiscale_cost
from ...learners.clustering import center_model
from ...learners.feature_maps import OF_GRAPH, PAIRS, SpaceParams
from ...learners.kmeans import KMeansParams, kmeans, kmeans_cost
from ...learners.linear.kernel_model import KernelModel
from ...learners.model import Model, predict_cost, stored_models
from ...learners.on_graph.cost import predicted_cost
from ...learners.target.coding import Values
from ...learners.target.target import Classes
from ...methods.multiscale import USUAL_SCALES
from ...methods.step import Context, NoParams
from ...report.sections.clusters import clusters_section
from ...report.words import Baseline, Words
from ...selection.number_of_clusters import NumberRule, chosen_clusters, clustering_scores, require_number
from ...solvers.eigen import eigenpairs_bytes
from ...storage.blocks import PartWriter, Rows
from ..dataset import DATASET
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES
from ..plan.facts import Facts
from ..points import POINTS
from ..predict.stage import PREDICTIONS, predictions_with
from ..sample import SAMPLE, SAMPLE_OF_GRAPH
from ..split import SPLIT, known_target
from ..stage import Kind, Stage
from .clustering_spec import ClusteringPipeline
from .specs import SPECS

PASSES = 20  # that a plan reckons with
LABEL_ROWS = 1 << 20  # in a chunk


@dataclass(frozen=True)
class ClustersParams:
    """The base kernel, the space it becomes, and how many clusters there are in it."""

    kernel: str
    bandwidth: float | str | None
    parameters: dict[str, int | float]
    space: SpaceParams
    kmeans: KMeansParams
    rule: NumberRule | None

    @classmethod
    def of(cls, spec: ClusteringPipeline) -> "ClustersParams":
        kernel, model = spec.kernel, spec.model
        return cls(kernel.name, kernel.bandwidth, kernel.parameters, spec.space(), model.kmeans(),
                   require_number(model.n_clusters, model.max_clusters))


def make_clusters(context: Context, params: ClustersParams) -> dict[str, Any]:
    """Find the clusters of the training points; write the model, `labels` (n,), and points of a picture."""
    points, execution, own = context.points("train"), context.execution, params.kmeans
    kernel = kernel_from(params.kernel, params.bandwidth, rows=points, random_state=own.random_state,
                         **params.parameters)
    graph = context.graph() if params.space.space in OF_GRAPH else None
    features = context.parts.within("features")
    found = chosen_clusters(points, kernel, params.space, graph, own, params.rule, execution, features)
    clusters = found.clusters
    models: dict[str, Model] = {"model": clusters.model}
    if not points.is_sparse:
        models["euclidean"] = euclidean(points, replace(own, n_clusters=len(clusters.counts)), context)
    context.parts.allocate("labels", clusters.labels.shape, np.int64, LABEL_ROWS)
    context.parts.write_range(0, {"labels": clusters.labels})
    described = {name: model.to_arrays() for name, model in models.items()}
    PartWriter(context.parts, 0).write(**{f"{name}.{key}": array for name, (arrays, _) in described.items()
                                          for key, array in arrays.items()})
    told = {"models": {name: {**attributes, "name": name} for name, (_, attributes) in described.items()},
            "space": params.space.space, "features": found.features.attributes, "chosen": found.chosen,
            "counts": clusters.counts.tolist(), "inertia": clusters.inertia, "kmeans": clusters.attributes,
            "clusters": "labels", "no_cluster": int(np.count_nonzero(clusters.labels < 0)),
            "peak_rss_bytes": process_peak()}
    features.remove()
    return told


def euclidean(points: Rows, params: KMeansParams, context: Context) -> Model:
    """Return the model of k-means of the points themselves."""
    centers = kmeans(points, params, context.execution).centers
    d = points.shape[1]
    return center_model(KernelModel(Linear(), np.eye(d), np.eye(d), np.zeros(d), Values()), centers)


def make_agreement(context: Context, params: NoParams) -> dict[str, Any]:
    """Compare the clusters with the classes of training points, and of test points, where they are known."""
    made = context.attributes("models")
    models, k = stored_models(context.inputs["models"].parts, made["models"]).open(), len(made["counts"])
    labels = context.rows("models", "labels").read_all()
    found: dict[str, dict[str, Any]] = {name: {"n_clusters": k} for name in models}
    found["model"]["inertia"] = made["inertia"]
    for name in ("train", "test"):
        target = known_target(context, name)
        if target is None or not len(target.labeled):
            continue
        assert isinstance(target, Classes)
        points = context.points(name)
        for own, model in models.items():
            clusters = labels if (own, name) == ("model", "train") else assigned(model, points, context)
            scores = clustering_scores(target.coded, clusters[target.labeled])
            found[own] |= scores if name == "train" else {f"test_{key}": value for key, value in scores.items()}
            found[own]["n_compared" if name == "train" else "n_test"] = len(target.labeled)
    return {"metrics": found.pop("model"), "baselines": found}


def assigned(model: Model, points: Rows, context: Context) -> np.ndarray:
    """Return the clusters of points (n,), -1 where the model abstains."""
    values, beyond = model.values_and_beyond(points, context.execution)
    labels = model.coding.labels(values)
    return model.coding.without(labels, beyond) if model.abstains else labels


def _clusters_cost(f: Facts[Any]) -> Cost:
    """Return that of the features and k-means; of a graph, of its lowest eigenpairs."""
    spec: ClusteringPipeline = f.spec
    own, space, n = spec.model.kmeans(), spec.space(), f.n
    k, s = own.n_clusters, min(n, space.carriers)
    if space.space == "graph":
        width = min(PAIRS * k, f.vertices)
        first = cost_of(1, 12 * f.nnz, 8 * f.vertices * width, eigenpairs_bytes(f.vertices, f.nnz, width)
                        + 24 * f.nnz, 24 * f.nnz)
    elif space.space == "cluster":
        params = ClusterParams(landmarks=space.landmarks, budget=space.budget)
        s = params.count(0, n, f.d)
        width, first = k, basis_cost(n, f.d, f.row_bytes, s, params.degrees_of(s, n), 1, f.budget)
    elif space.space == "multiscale":
        carriers = MultiscaleParams(n_carriers=space.n_landmarks, budget=space.budget)
        s = carriers.count(n, f.d)
        width = carriers.pairs_of(s) + 1
        first = multiscale_cost(n, f.d, f.row_bytes, s, width - 1, USUAL_SCALES)
    else:
        width, first = s, cost_of(1, n * f.row_bytes, 0, 40 * s * s, 8 * s * s)
    then = kmeans_cost(n, width, k, own.n_init, PASSES, f.budget)
    held = 8 * n * width + 8 * s * (f.d + width)
    return cost_of(first.tasks + then.tasks, first.read + then.read, first.written + then.written + held,
                   max(first.peak, then.peak), max(first.least, then.least), first.seconds + then.seconds)


def _assigned_cost(f: Facts[Any]) -> Cost:
    """Return that of the clusters of test points: of a block of them, and what tells its clusters.

    That is the index of the graph, or the points that carry the kernel and their matrices.
    """
    spec: ClusteringPipeline = f.spec
    k, space, n = spec.model.kmeans().n_clusters, spec.space(), max(f.n_test, 1)
    if space.space == "graph":
        return predicted_cost(f.distinct, f.row_bytes, f.n, n, 0, f.graph.n_neighbors, f.graph.metric, k, False,
                              f.budget)
    s = min(f.n, space.carriers)
    return predict_cost(spec.kernel.kernel(), f.dense(n, f.width), f.row_bytes, s, 1, s, 8, f.budget)


def _agreement_cost(f: Facts[Any]) -> Cost:
    """Return the same with the values of all points, which are held."""
    own, values = _assigned_cost(f), 8 * (f.n + f.n_test) * (f.spec.model.kmeans().n_clusters + 4)
    return replace(own, written=0, peak=own.peak + values, least=own.least + values)


BASELINES = (Baseline("euclidean", "k-means of the scaled features themselves, with as many clusters."),)


def _kind(name: str, graph: Sequence[Stage], model: str) -> Kind:
    words = Words(model=model, changed="kernel that merely changed", cause="changed kernel", graph="model.eta",
                  norm="model.n_clusters")
    needs = ("split", "points", *(stage.name for stage in graph if stage.name != "health"))
    sample = SAMPLE_OF_GRAPH if graph else SAMPLE  # whose picture is in the section of the clusters
    sample = replace(sample, needs=tuple(name for name in sample.needs if name != "labels"), section=None)
    return Kind.of(SPECS[name], (
        DATASET, SPLIT, POINTS, *graph,
        Stage("models", 2, needs, ClustersParams.of, make_clusters, _clusters_cost, "lower model.landmarks"),
        sample,
        replace(predictions_with(_assigned_cost), needs=tuple(name for name in PREDICTIONS.needs if name != "labels")),
        Stage("scores", 1, ("split", "points", "models"), lambda spec: NoParams(), make_agreement, _agreement_cost,
              "lower data.points"),
    ), words=words, baselines=BASELINES, answer=clusters_section)


UNLABELED_HEALTH = replace(HEALTH, needs=tuple(name for name in HEALTH.needs if name != "labels"))
CLUSTERING = _kind("clustering", (VERTICES, NEIGHBORS, GRAPH, UNLABELED_HEALTH),
                   "k-means in a kernel of the graph of all points.")
KERNEL_CLUSTERING = _kind("kernel_clustering", (), "k-means in a kernel, from landmarks.")
