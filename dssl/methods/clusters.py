"""Clusters: k-means in a kernel of all points; nothing learns from labels.

    models      the clusters

    model       k-means in the kernel, of a graph or without one
    euclidean   k-means of the scaled features, with as many clusters; not of sparse rows
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypedDict

import numpy as np

from ..base.digest import JsonObject, require_at_least, require_random_state
from ..base.errors import DsslError, raised
from ..base.profiler import process_peak
from ..execution.cost import Cost, cost_of
from ..kernels.base import BaseKernels, Linear
from ..kernels.cluster_params import ClusterParams, basis_cost
from ..kernels.multiscale import MultiscaleParams, multiscale_cost
from ..learners.feature_maps import ETA, PAIRS, FeatureMapParams, Source
from ..learners.kmeans import KMeansParams, center_model, kmeans, kmeans_cost
from ..learners.linear.kernel_model import KernelModel
from ..learners.model import Model, predict_cost
from ..learners.on_graph.cost import predicted_cost
from ..learners.target.coding import Values
from ..learners.target.target import Quantities
from ..report.record import Baseline, ReportText
from ..selection.number_of_clusters import NumberRule, number_rule, selected_clusters
from ..solvers.eigen import eigenpairs_bytes
from ..storage.blocks import Rows
from .data_sections import ClusteringData
from .deformed.covariance import CovarianceParams, covariance_of
from .deformed.method import COVARIANCE_STEPS
from .evaluation import MemoryWorkspace
from .multiscale import USUAL_SCALES
from .plan_inputs import PlanInputs
from .sections import ClusterGraph, GraphSections, KernelSection, ModelSection, Sections
from .step import Context, Fit, Method, Step

PASSES = 20  # that a plan reckons with
LABEL_ROWS = 1 << 20  # in a chunk


@dataclass(frozen=True, kw_only=True)
class ClustersModel(ModelSection):
    """How many clusters there are, and from how many points and starts they are selected.

    Parameters
    ----------
    n_clusters : int, "eigengap" or "gap"
        The number of clusters, or the rule by which it is chosen up to
        `max_clusters` (`dssl.selection.number_of_clusters`).
    max_clusters : int
        The largest number of clusters that a rule may choose.
    n_init : int
        The number of starts by k-means++, of which the best goes on.
    n_landmarks : int or "auto"
        The number of points that carry the kernel, or of "deformed" those at which
        functions are measured. "auto" is 1,000, of "cluster" and "multiscale"
        2,000, as far as the memory budget allows; all points where there are fewer.
    random_state : int
        The seed of every random choice.
    """

    n_clusters: int | NumberRule
    max_clusters: int = 20
    n_init: int = KMeansParams.n_init
    n_landmarks: int | Literal["auto"] = "auto"
    random_state: int = 0

    def __post_init__(self) -> None:
        require_at_least(self, 2, "max_clusters")
        require_random_state(self.random_state)
        _ = self.kmeans()  # raises where a value is out of range

    def kmeans(self) -> KMeansParams:
        """Return the parameters of k-means with the largest number of clusters there may be."""
        rule = number_rule(self.n_clusters, self.max_clusters)
        return KMeansParams(n_clusters=int(self.n_clusters) if rule is None else self.max_clusters,
                            n_init=self.n_init, random_state=self.random_state)


@dataclass(frozen=True, kw_only=True)
class GraphClustersModel(ClustersModel):
    """Clusters in the graph kernel, or in the base kernel deformed by the graph.

    Parameters
    ----------
    feature_map : "graph" or "deformed"
        The kernel.
    eta : float
        The weight of the graph against the base kernel, of "deformed", 0 to 1e8.
    """

    kind: Literal["clustering"] = "clustering"
    feature_map: Literal["graph", "deformed"] = "graph"
    eta: float = ETA


@dataclass(frozen=True, kw_only=True)
class KernelClustersModel(ClustersModel):
    """Clusters in the base kernel, the cluster kernel or the multi-scale kernel.

    Parameters
    ----------
    feature_map : "base", "cluster" or "multiscale"
        The kernel.
    """

    kind: Literal["kernel_clustering"] = "kernel_clustering"
    feature_map: Literal["base", "cluster", "multiscale"] = "base"


@dataclass(frozen=True, kw_only=True)
class ClusteringSections(Sections):
    """The sections of clusters, which are learned from no labels.

    Parameters
    ----------
    kernel : KernelSection
        The base kernel.
    """

    kernel: KernelSection = KernelSection()
    model: ClustersModel

    @abstractmethod
    def feature_map(self) -> FeatureMapParams:
        """Return the kernel in which points are clustered."""

    @cached_property
    def params(self) -> "ClustersParams":
        model = self.model
        kernels = BaseKernels(self.kernel.name, self.kernel.parameters, (self.kernel.bandwidth,), model.random_state)
        return ClustersParams(kernels=kernels, feature_map=self.feature_map(), kmeans=model.kmeans(),
                              rule=number_rule(model.n_clusters, model.max_clusters))

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from raised("model", self.feature_map)


@dataclass(frozen=True, kw_only=True)
class GraphClusteringSections(ClusteringSections, GraphSections):
    """The sections of clusters of a graph."""

    graph: ClusterGraph = ClusterGraph()
    model: GraphClustersModel

    def feature_map(self) -> FeatureMapParams:
        model = self.model
        return FeatureMapParams(name=model.feature_map, regularizer=self.graph.regularizer(), eta=model.eta,
                           n_landmarks=model.n_landmarks, graph=self.graph.builder(), budget=self.budget,
                           random_state=model.random_state)


@dataclass(frozen=True, kw_only=True)
class KernelClusteringSections(ClusteringSections):
    """The sections of clusters in a kernel without a graph."""

    model: KernelClustersModel

    def feature_map(self) -> FeatureMapParams:
        model = self.model
        return FeatureMapParams(name=model.feature_map, n_landmarks=model.n_landmarks, budget=self.budget,
                           random_state=model.random_state)


@dataclass(frozen=True, kw_only=True)
class ClustersParams:
    """What clusters follow from, beside the graph.

    kernels : the base kernel. feature_map : its features. kmeans, rule : how many clusters these have; of a rule, at
    most so many.
    """

    kernels: BaseKernels
    feature_map: FeatureMapParams
    kmeans: KMeansParams
    rule: NumberRule | None
    baselines: tuple[str, ...] = ("euclidean",)


class ClustersMade(TypedDict):
    """What is known of clusters and of what they were found in; `clusters` names the array of the points' clusters."""

    models: dict[str, JsonObject]
    feature_map: str
    features: Mapping[str, object]
    chosen: Mapping[str, object]
    counts: list[int]
    inertia: float
    kmeans: Mapping[str, object]
    clusters: str
    no_cluster: int
    peak_rss_bytes: int


def make_clusters(context: Context, params: ClustersParams) -> ClustersMade:
    """Find the clusters of the training points; write the model, `labels` (n,), and points of a picture."""
    points, execution, kmeans = context.points("train"), context.execution, params.kmeans
    kernel, = params.kernels.on(points)
    features = context.parts.within("features")
    source = source_of(context, params.feature_map)
    selected = selected_clusters(points, kernel, params.feature_map, source, kmeans, params.rule, execution, features)
    clusters = selected.clusters
    models: dict[str, Model] = {"model": clusters.model}
    if params.baselines and not points.is_sparse:
        models["euclidean"] = euclidean(points, replace(kmeans, n_clusters=len(clusters.counts)), context)
    context.parts.allocate("labels", clusters.labels.shape, np.int64, LABEL_ROWS)
    context.parts.write_range(0, {"labels": clusters.labels})
    described = context.write_models(models)
    attributes_of_step: ClustersMade = {
        "models": {name: {**attributes, "name": name} for name, attributes in described.items()},
        "feature_map": params.feature_map.name, "features": selected.features.attributes,
        "chosen": selected.evidence,
        "counts": clusters.counts.tolist(), "inertia": clusters.inertia, "kmeans": clusters.attributes,
        "clusters": "labels", "no_cluster": int(np.count_nonzero(clusters.labels < 0)),
        "peak_rss_bytes": process_peak()}
    features.remove()
    return attributes_of_step


def source_of(context: Context, feature_map: FeatureMapParams) -> Source:
    """Return the graph of a feature map, or its covariance; None of a map without a graph."""
    if feature_map.name == "graph":
        return context.graph()
    if feature_map.name != "deformed":
        return None
    unlabeled = Quantities(np.empty(0, np.int64), np.empty((0, 1)))
    made = MemoryWorkspace(Fit(context.points("train"), unlabeled, graph=context.graph()), context.execution)
    params = CovarianceParams(regularizer=feature_map.regularizer, n_landmarks=feature_map.max_graph_landmarks,
                              random_state=feature_map.random_state)
    made.run(COVARIANCE_STEPS, params, keep=("system",))
    return covariance_of(made.context(), params)


def euclidean(points: Rows, params: KMeansParams, context: Context) -> Model:
    """Return the model of k-means of the points themselves."""
    centers = kmeans(points, params, context.execution).centers
    d = points.shape[1]
    return center_model(KernelModel(Linear(), np.eye(d), np.eye(d), np.zeros(d), Values()), centers)


# ---- what the step takes


def _clusters_cost(f: PlanInputs, params: ClustersParams) -> Cost:
    """Return that of the features and k-means; of a graph, of its lowest eigenpairs."""
    kmeans, feature_map, n = params.kmeans, params.feature_map, f.n
    k, s = kmeans.n_clusters, min(n, feature_map.max_landmarks)
    if feature_map.name == "graph":
        width = min(PAIRS * k, f.vertices)
        first = cost_of(1, 12 * f.nnz, 8 * f.vertices * width, eigenpairs_bytes(f.vertices, f.nnz, width)
                        + 24 * f.nnz, 24 * f.nnz)
    elif feature_map.name == "cluster":
        cluster = ClusterParams(landmarks=feature_map.landmarks, budget=feature_map.budget)
        s = cluster.count(0, n, f.d)
        width, first = k, basis_cost(n, f.d, f.row_bytes, s, cluster.degrees_of(s, n), 1, f.budget)
    elif feature_map.name == "multiscale":
        multiscale = MultiscaleParams(n_landmarks=feature_map.n_landmarks, budget=feature_map.budget)
        s = multiscale.count(n, f.d)
        width = multiscale.pairs_of(s) + 1
        first = multiscale_cost(n, f.d, f.row_bytes, s, width - 1, USUAL_SCALES)
    else:
        width, first = s, cost_of(1, n * f.row_bytes, 0, 40 * s * s, 8 * s * s)
    then = kmeans_cost(n, width, k, kmeans.n_init, PASSES, f.budget)
    held = 8 * n * width + 8 * s * (f.d + width)
    cost = first + then
    return replace(cost, written=cost.written + held)


def _assigned_cost(f: PlanInputs, params: ClustersParams) -> Cost:
    """Return that of the clusters of test points: of a block of them, and what tells its clusters.

    That is the index of the graph, or the points that carry the kernel and their matrices.
    """
    k, feature_map, n = params.kmeans.n_clusters, params.feature_map, max(f.n_test, 1)
    if feature_map.name == "graph":
        return predicted_cost(f.distinct, f.row_bytes, f.n, n, 0, feature_map.graph.n_neighbors,
                              feature_map.graph.distance, k, False, f.budget)
    s = min(f.n, feature_map.max_landmarks)
    return predict_cost(params.kernels.for_costs(), f.dense(n, f.width), f.row_bytes, s, 1, s, 8, f.budget)


def euclidean_cost(f: PlanInputs, n: int) -> Cost:
    """Return that of the clusters of n points by the baseline, whose points are the axes of the features."""
    return predict_cost(Linear(), f.dense(n, f.width), f.row_bytes, f.width, 1, f.width, 8, f.budget)


def _method(name: str, sections: type[ClusteringSections], graph: tuple[str, ...], model: str) -> Method:
    report_text = ReportText(model=model, changed="kernel that merely changed", cause="changed kernel",
                             graph="model.eta", norm="model.n_clusters")
    step = Step("models", 9, ("points", *graph), lambda params: params, make_clusters, _clusters_cost,
                "lower model.n_landmarks")
    return Method(name, ("clustering",), (step,), _assigned_cost, report_text, BASELINES, sections, data=ClusteringData,
                  has_graph=bool(graph))


BASELINES = (Baseline("euclidean", "k-means on the scaled features, with the same number of clusters."),)
CLUSTERING = _method("clustering", GraphClusteringSections, ("vertices", "neighbors", "graph"),
                     "k-means in a kernel of the graph of all points.")
KERNEL_CLUSTERING = _method("kernel_clustering", KernelClusteringSections, (), "k-means in a kernel, from landmarks.")
