"""Feature maps for clustering: models whose values Phi are features of a kernel `Phi Phi'`.

    base         the base kernel, by Nystrom features
    deformed     the base kernel deformed by the graph
    graph        `Q^-1` of the graph's regularizer Q by its lowest eigenpairs, normalized to unit diagonal
    cluster      the virtual samples of the cluster kernel
    multiscale   the multi-scale eigen kernel

The features of the graph are the rows of `V (values + ridge)^(-p/2)` divided by their lengths, with V the eigenvectors
of its Laplacian: spectral clustering (Ng, Jordan, Weiss, "On spectral clustering", NIPS 2001) with twice as many
eigenvectors as clusters, weighted by the regularizer.
"""

from dataclasses import dataclass, field
from numbers import Integral
from typing import Literal, get_args

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import DataError, require
from ..base.units import MEMORY_BUDGET
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.knn_graph import KNNGraph
from ..graph.regularizer import RegularizerParams
from ..graph.spectrum import SpectrumParams, graph_spectrum
from ..kernels.base import Kernel
from ..kernels.cluster_params import ClusterParams, basis_of
from ..kernels.deformed import check_eta, deform
from ..kernels.landmarks import LandmarkParams, choose_landmarks
from ..kernels.multiscale import MultiscaleParams, multiscale_map
from ..kernels.nystrom import whiten
from ..kernels.transfer import TransferParams
from ..storage.blocks import ArrayRows, Parts, Rows
from .deformed import GraphCovariance, draw_landmarks, n_landmarks_within
from .linear.kernel_model import KernelModel, ModelInKernel, expand, multiscale_model, sample_model
from .model import BlockValues
from .on_graph.model import GraphModel, index_of_vertices, vertex_model
from .target.coding import Values

FeatureMapName = Literal["base", "deformed", "graph", "cluster", "multiscale"]
GRAPH_MAPS = ("deformed", "graph")  # that take a graph
CLUSTER_COUNT_MAPS = ("cluster", "graph")  # that depend on the number of clusters
PAIRS = 2  # eigenvectors of the graph for each cluster
ETA = 1.0


@dataclass(frozen=True, kw_only=True)
class FeatureMapParams:
    """name : of the map. regularizer : of `deformed` and `graph`. eta : of `deformed`, relative, as in `LapSVC`.

    n_landmarks : of the kernel, or of the graph of `deformed`; "auto" is 1,000, more for `cluster` and `multiscale`,
        within the budget. graph : how new points are connected to the graph. budget : bytes, a parameter
        of the result and not the memory of the machine.
    """

    name: FeatureMapName = "graph"
    regularizer: RegularizerParams = field(default_factory=RegularizerParams)
    eta: float = ETA
    n_landmarks: int | Literal["auto"] = "auto"
    graph: KNNGraph = field(default_factory=KNNGraph)
    budget: int = MEMORY_BUDGET
    random_state: int = 0

    def __post_init__(self) -> None:
        require(self.name in get_args(FeatureMapName), f"feature_map={self.name!r}",
                why="points are clustered in its features", fix=f"use one of {', '.join(get_args(FeatureMapName))}")
        check_eta(self.eta)
        require(self.n_landmarks == "auto" or (isinstance(self.n_landmarks, Integral) and self.n_landmarks >= 1),
                f'n_landmarks={self.n_landmarks!r}, expected a whole number >= 1, or "auto"',
                why="it is the number of landmarks of the kernel", fix='use "auto", or 500 to 4000')
        _ = self.landmarks  # raises where one of its parameters is out of range

    @property
    def landmarks(self) -> LandmarkParams:
        return LandmarkParams(n_landmarks=self.n_landmarks, random_state=self.random_state)

    @property
    def max_graph_landmarks(self) -> int:
        """Return an upper bound of the number of landmarks of the graph of `deformed`."""
        return n_landmarks_within(self.n_landmarks, self.budget)

    @property
    def max_landmarks(self) -> int:
        """Return an upper bound of the number of landmarks of `base` and `deformed`."""
        if self.name == "deformed":
            return max(self.max_graph_landmarks, n_landmarks_within("auto", self.budget))
        return n_landmarks_within(self.n_landmarks, self.budget)


@dataclass(frozen=True, eq=False)
class Features:
    """Features of n points.

    model : its values are the features of any point. rows (n, r) : the features of the n points.
    spectrum : descending, empty where unknown; its largest gap tells the number of clusters. Logarithms of eigenvalues
    of the graph kernel over its power, or eigenvalues of the affinity of a cluster kernel.
    reachable (n,) bool : the points with features; None for all.
    """

    model: ModelInKernel | GraphModel
    rows: Rows
    spectrum: np.ndarray
    attributes: JsonObject = field(default_factory=dict)
    reachable: np.ndarray | None = None


Source = Graph | GraphCovariance | None  # the graph of `graph`, or the covariance of that of `deformed`


def kernel_features(rows: Rows, kernel: Kernel, params: FeatureMapParams, source: Source, n_clusters: int,
                    execution: Execution) -> tuple[ModelInKernel, np.ndarray, JsonObject]:
    """Return model, spectrum and attributes of the `Features` of rows (n, d) by a map other than `graph`."""
    n, unlabeled, spectrum = len(rows), np.empty(0, np.int64), np.empty(0)
    if params.name == "cluster":
        cluster_params = ClusterParams(landmarks=params.landmarks, budget=params.budget)
        basis = basis_of(rows, kernel, cluster_params, unlabeled, execution)
        samples = basis.samples(TransferParams(transfer="step", leading=n_clusters), 0)
        model = sample_model(samples, np.eye(samples.width), np.zeros(samples.width), Values())
        return model, basis.values, basis.attributes
    if params.name == "multiscale":
        multiscale_params = MultiscaleParams(n_landmarks=params.n_landmarks, random_state=params.random_state,
                                             budget=params.budget)
        features = multiscale_map(rows, multiscale_params, unlabeled, execution)
        of_map = multiscale_model(features, np.eye(features.width), np.zeros(features.width), Values())
        return of_map, spectrum, features.attributes
    if params.name == "base":
        Z = choose_landmarks(rows, kernel, min(n, params.max_landmarks), params.landmarks, execution).points
        T = whiten(kernel(Z, Z))
        described = {"landmarks": Z.shape[0], "rank": T.rank}
        return KernelModel(kernel, Z, T.T, np.zeros(T.rank), Values()), spectrum, described
    assert isinstance(source, GraphCovariance)
    at_landmarks = rows.take(source.landmarks)
    deformed = deform(kernel, at_landmarks, source.powers[params.regularizer.power], params.eta)
    landmarks = draw_landmarks(source.landmarks, n, params.max_landmarks, params.random_state)
    Z = rows.take(landmarks)
    T = whiten(deformed(Z, Z))
    return expand(deformed, Z, T.T, np.zeros(T.rank), Values()), spectrum, {
        **source.attributes, "graph_landmarks": len(source.landmarks), "landmarks": len(landmarks), "rank": T.rank}


def graph_features(rows: Rows, params: FeatureMapParams, graph: Graph, n_clusters: int,
                   execution: Execution) -> Features:
    """Return the features of rows (n, d) in the graph kernel."""
    regularizer = params.regularizer
    reachable = largest_components(graph, n_clusters)
    m = min(PAIRS * n_clusters, int(reachable.sum()))
    spectrum_params = SpectrumParams(laplacian=regularizer.laplacian, random_state=params.random_state)
    spectrum = graph_spectrum(graph.subgraph(reachable, execution), m, spectrum_params, execution)
    V = spectrum.vectors * (spectrum.values + regularizer.ridge) ** (-regularizer.power / 2)
    F = np.zeros((len(reachable), m))
    F[reachable] = V / np.linalg.norm(V, axis=1, keepdims=True)
    model = vertex_model(graph, F, reachable, Values(), params.graph,
                         index_of_vertices(graph, rows, params.graph, execution))
    vertex = graph.vertices.vertex
    return Features(model, execution.share_rows(ArrayRows(F[vertex])), -np.log(spectrum.values + regularizer.ridge), {
        **graph.attributes, "eigenpairs": m, "spectrum": spectrum.attributes,
        "unreachable": int(np.count_nonzero(~reachable[vertex]))}, None if reachable.all() else reachable[vertex])


def largest_components(graph: Graph, count: int) -> np.ndarray:
    """Return which vertices (v,) are in one of the `count` largest components, counted in points."""
    component = graph.components()
    sizes = np.bincount(component, graph.vertices.multiplicity)
    return np.isin(component, np.argsort(-sizes, kind="stable")[:count])


def make_features(rows: Rows, kernel: Kernel, params: FeatureMapParams, source: Source, n_clusters: int,
                execution: Execution, parts: Parts | None = None) -> Features:
    """Return the features of rows (n, d) for at most `n_clusters` clusters.

    kernel : the base kernel, which `graph` ignores. parts : where the features are written, scratch by default.
    """
    require(n_clusters <= len(rows), f"n_clusters={n_clusters} of {len(rows)} points", error=DataError,
            why="a cluster has a point or more", fix=f"use {len(rows)} or fewer")
    if params.name == "graph":
        assert isinstance(source, Graph)
        return graph_features(rows, params, source, n_clusters, execution)
    model, spectrum, attributes = kernel_features(rows, kernel, params, source, n_clusters, execution)
    return Features(model, model.predicted(rows, BlockValues(), execution, parts).rows("values"), spectrum, attributes)
