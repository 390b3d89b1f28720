"""Feature spaces of all points in which they are clustered: a model whose values are features, `Phi Phi'` the kernel.

    base         the base kernel, from landmarks; exact where all points are
    deformed     the base kernel deformed by the graph, on a subsample or on all points
    graph        `Q^-1` of the graph's regularizer Q from its lowest eigenpairs, of unit diagonal
    cluster      the cluster kernel's virtual samples
    multiscale   the multi-scale eigen kernel

Those of the graph are the rows of `V (values + ridge)^(-p/2)` at unit length, V the eigenvectors of its Laplacian: what
spectral clustering takes (Ng, Jordan, Weiss, "On spectral clustering", NIPS 2001), with twice as many eigenvectors as
clusters and each as long as the regularizer says.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Literal, get_args

import numpy as np

from ..base.errors import DataError, require
from ..execution.size import MEMORY_BUDGET
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.knn_graph import KNNGraph
from ..graph.regularizer_params import RegularizerParams
from ..graph.spectrum import SpectrumParams, graph_spectrum
from ..kernels.base import Kernel
from ..kernels.cluster_params import ClusterParams, basis_of
from ..kernels.deformed import check_eta, deform
from ..kernels.landmarks import LandmarkParams, choose_landmarks
from ..kernels.multiscale import MultiscaleParams, multiscale_map
from ..kernels.nystrom import whiten
from ..kernels.transfer import TransferParams
from ..storage.blocks import ArrayRows, Parts, Rows
from .deformed import GraphCovariance, draw_subsample, subsample_size
from .linear.features import sample_model
from .linear.kernel_model import KernelModel, ModelInKernel, expand
from .linear.multiscale import multiscale_model
from .model import BlockValues
from .on_graph.model import GraphModel, vertex_model
from .target.coding import Values

SpaceName = Literal["base", "deformed", "graph", "cluster", "multiscale"]
OF_GRAPH = ("deformed", "graph")  # those that take a graph
OF_NUMBER = ("cluster", "graph")  # those whose features depend on the number of clusters
PAIRS = 2  # eigenvectors of the graph for each cluster
ETA = 1.0


@dataclass(frozen=True, kw_only=True)
class SpaceParams:
    """space : see above. regularizer : of `deformed` and `graph`. eta : of `deformed`, relative, as in `LapSVC`.

    n_landmarks : points that carry the kernel, of `deformed` those at which functions are measured; "auto" is 1,000,
        of `cluster` and `multiscale` more, as far as the budget lets them be, and all points where there are fewer.
    graph : by which new points reach the graph. budget : bytes; told, not that of the machine.
    """

    space: SpaceName = "graph"
    regularizer: RegularizerParams = field(default_factory=RegularizerParams)
    eta: float = ETA
    n_landmarks: int | Literal["auto"] = "auto"
    graph: KNNGraph = field(default_factory=KNNGraph)
    budget: int = MEMORY_BUDGET
    random_state: int = 0

    def __post_init__(self) -> None:
        require(self.space in get_args(SpaceName), f"space={self.space!r}", why="points are clustered in its features",
                fix=f"use one of {', '.join(get_args(SpaceName))}")
        check_eta(self.eta)
        require(self.n_landmarks == "auto" or (isinstance(self.n_landmarks, Integral) and self.n_landmarks >= 1),
                f'n_landmarks={self.n_landmarks!r}, expected a whole number >= 1, or "auto"',
                why="so many points carry the kernel", fix='use "auto", or 500 to 4000')
        _ = self.landmarks  # raises where one of its parameters is out of range

    @property
    def landmarks(self) -> LandmarkParams:
        return LandmarkParams(n_landmarks=self.n_landmarks, random_state=self.random_state)

    @property
    def measured(self) -> int:
        """Return the points at which functions are measured, of which there may be fewer."""
        return subsample_size(self.n_landmarks, self.budget)

    @property
    def carriers(self) -> int:
        """Return the points that carry the kernel of `base` or `deformed`, of which there may be fewer."""
        measured = self.measured
        return max(measured, subsample_size("auto", self.budget)) if self.space == "deformed" else measured


@dataclass(frozen=True, eq=False)
class Features:
    """Features of n points.

    model : its values are the features of any point. rows (n, r) : those of the points.
    spectrum : descending numbers, whose largest fall tells how many clusters there are: the logarithms of the graph
    kernel's eigenvalues, over its power, since they fall by orders of magnitude, or the eigenvalues of the affinity of
    a cluster kernel; empty where they are not known.
    reached (n,) bool : points of which the space knows something; None for all.
    """

    model: ModelInKernel | GraphModel
    rows: Rows
    spectrum: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)
    reached: np.ndarray | None = None


Source = Graph | GraphCovariance | None  # the graph of `graph`, or the covariance of that of `deformed`
Made = tuple[ModelInKernel, np.ndarray, dict[str, Any]]  # model, spectrum and attributes of `Features`


def _base(rows: Rows, kernel: Kernel, params: SpaceParams, source: Source, n_clusters: int,
          execution: Execution) -> Made:
    n = len(rows)
    Z = choose_landmarks(rows, kernel, min(n, params.carriers), params.landmarks, execution).points
    T = whiten(kernel(Z, Z))
    model = KernelModel(kernel, Z, T.T, np.zeros(T.rank), Values())
    return model, np.empty(0), {"landmarks": Z.shape[0], "rank": T.rank}


def _deformed(rows: Rows, kernel: Kernel, params: SpaceParams, source: Source, n_clusters: int,
              execution: Execution) -> Made:
    assert isinstance(source, GraphCovariance)
    covariance, n = source, len(rows)
    A = covariance.powers[params.regularizer.power]
    deformed = deform(kernel, rows.take(covariance.subsample), A, params.eta)
    carriers = draw_subsample(covariance.subsample, n, params.carriers, params.random_state)
    Z = rows.take(carriers)
    T = whiten(deformed(Z, Z))
    model = expand(deformed, Z, T.T, np.zeros(T.rank), Values())
    return model, np.empty(0), {**covariance.attributes, "n_subsample": len(covariance.subsample),
                                "landmarks": len(carriers), "rank": T.rank}


def _cluster(rows: Rows, kernel: Kernel, params: SpaceParams, source: Source, n_clusters: int,
             execution: Execution) -> Made:
    cluster_params = ClusterParams(landmarks=params.landmarks, budget=params.budget)
    basis = basis_of(rows, kernel, cluster_params, np.empty(0, np.int64), execution)
    samples = basis.samples(TransferParams(transfer="step", leading=n_clusters), 0)
    model = sample_model(samples, np.eye(samples.width), np.zeros(samples.width), Values())
    return model, basis.values, basis.attributes


def graph_features(rows: Rows, params: SpaceParams, graph: Graph, n_clusters: int, execution: Execution) -> Features:
    """Return the features of rows (n, d) in the graph kernel."""
    regularizer = params.regularizer
    kept = largest_components(graph, n_clusters)
    m = min(PAIRS * n_clusters, int(kept.sum()))
    spectrum = graph_spectrum(graph.subgraph(kept, execution), m,
                           SpectrumParams(laplacian=regularizer.laplacian, random_state=params.random_state), execution)
    V = spectrum.vectors * (spectrum.values + regularizer.ridge) ** (-regularizer.power / 2)
    F = np.zeros((len(kept), m))
    F[kept] = V / np.linalg.norm(V, axis=1, keepdims=True)
    model = vertex_model(graph, rows, F, kept, Values(), params.graph, execution)
    vertex = graph.vertices.vertex
    return Features(model, execution.share_rows(ArrayRows(F[vertex])), -np.log(spectrum.values + regularizer.ridge), {
        **graph.attributes, "eigenpairs": m, "spectrum": spectrum.attributes,
        "unreached": int(np.count_nonzero(~kept[vertex]))}, None if kept.all() else kept[vertex])


def largest_components(graph: Graph, count: int) -> np.ndarray:
    """Return which vertices (v,) are in one of the `count` largest components, counted in points."""
    component = graph.components()
    sizes = np.bincount(component, graph.vertices.multiplicity)
    return np.isin(component, np.argsort(-sizes, kind="stable")[:count])


def _multiscale(rows: Rows, kernel: Kernel, params: SpaceParams, source: Source, n_clusters: int,
                execution: Execution) -> Made:
    multiscale_params = MultiscaleParams(n_carriers=params.n_landmarks, random_state=params.random_state,
                                         budget=params.budget)
    features = multiscale_map(rows, multiscale_params, np.empty(0, np.int64), execution)
    model = multiscale_model(features, np.eye(features.width), np.zeros(features.width), Values())
    return model, np.empty(0), features.attributes


KERNELS: dict[str, Callable[[Rows, Kernel, SpaceParams, Source, int, Execution], Made]] = {
    "base": _base, "deformed": _deformed, "cluster": _cluster, "multiscale": _multiscale}


def features_of(rows: Rows, kernel: Kernel, params: SpaceParams, source: Source, n_clusters: int,
                execution: Execution, parts: Parts | None = None) -> Features:
    """Return the features of rows (n, d) for so many clusters, or so many at most.

    kernel : the base kernel, which the space `graph` does not take. source : see `Source`.
    parts : where the features of points are written; scratch of the execution by default.
    """
    require(n_clusters <= len(rows), f"n_clusters={n_clusters} of {len(rows)} points", error=DataError,
            why="a cluster has a point or more", fix=f"use {len(rows)} or fewer")
    if params.space == "graph":
        assert isinstance(source, Graph)
        return graph_features(rows, params, source, n_clusters, execution)
    model, spectrum, attributes = KERNELS[params.space](rows, kernel, params, source, n_clusters, execution)
    return Features(model, model.predicted(rows, BlockValues(), execution, parts).rows("values"), spectrum, attributes)
