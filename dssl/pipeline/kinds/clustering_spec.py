"""The pipeline files of the kinds `clustering`, of a graph, and `kernel_clustering`, without one."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...base.digest import require_at_least, require_random_state
from ...base.errors import DsslError, SpecError, explain
from ...learners.feature_maps import ETA, SpaceParams
from ...learners.kmeans import KMeansParams
from ...methods.sections import ClusterGraph, KernelSection, LearningTask, ModelSection
from ...selection.number_of_clusters import NumberRule, require_number
from ..spec import DataSection, GraphPipeline, Spec, TestSplit


@dataclass(frozen=True, kw_only=True)
class ClusteringData(DataSection):
    """Where the points come from; classes, where there are any, are what the clusters are compared with."""

    task: LearningTask = "clustering"
    test: TestSplit = TestSplit(none=True)


@dataclass(frozen=True, kw_only=True)
class ClustersModel(ModelSection):
    """How many clusters there are, and from how many points and starts they are found.

    Parameters
    ----------
    n_clusters : int, "eigengap" or "gap"
        Their number, or the rule by which it is chosen.
    max_clusters : int
        Clusters of which a rule chooses the number.
    n_init : int
        Starts by k-means++, of which the best goes on.
    n_landmarks : int or "auto"
        Points that carry the kernel, of deformed those at which functions are measured.
    random_state : int
        Of every random choice.
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
        rule = require_number(self.n_clusters, self.max_clusters)
        return KMeansParams(n_clusters=int(self.n_clusters) if rule is None else self.max_clusters,
                            n_init=self.n_init, random_state=self.random_state)


@dataclass(frozen=True, kw_only=True)
class GraphClustersModel(ClustersModel):
    """Clusters in the graph kernel, or in the base kernel deformed by the graph.

    Parameters
    ----------
    space : "graph" or "deformed"
        The kernel.
    eta : float
        Weight of the graph in deformed, relative.
    """

    kind: Literal["clustering"]
    space: Literal["graph", "deformed"] = "graph"
    eta: float = ETA


@dataclass(frozen=True, kw_only=True)
class KernelClustersModel(ClustersModel):
    """Clusters in the base kernel, the cluster kernel or the multi-scale kernel.

    Parameters
    ----------
    space : "base", "cluster" or "multiscale"
        The kernel.
    """

    kind: Literal["kernel_clustering"]
    space: Literal["base", "cluster", "multiscale"] = "base"


@dataclass(frozen=True, kw_only=True)
class ClusteringPipeline(Spec):
    """A pipeline of clusters, whose labels are optional.

    Parameters
    ----------
    kernel : KernelSection
        The base kernel.
    """

    data: ClusteringData
    kernel: KernelSection = KernelSection()
    model: ClustersModel

    @abstractmethod
    def space(self) -> SpaceParams:
        """Return the kernel in which points are clustered."""

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        if self.labels is not None:
            yield "labels", SpecError(explain(f"labels: model.kind is {self.model.kind}", fix="leave it out",
                                              why="no stage of that kind would read it"))
        try:
            _ = self.space()
        except DsslError as error:
            yield "model", error


@dataclass(frozen=True, kw_only=True)
class GraphClusteringPipeline(ClusteringPipeline, GraphPipeline):
    """A pipeline of clusters of a graph."""

    graph: ClusterGraph = ClusterGraph()
    model: GraphClustersModel

    def space(self) -> SpaceParams:
        own = self.model
        return SpaceParams(space=own.space, regularizer=self.graph.regularizer(), eta=own.eta,
                           n_landmarks=own.n_landmarks, graph=self.graph.builder(), budget=self.budget,
                           random_state=own.random_state)


@dataclass(frozen=True, kw_only=True)
class KernelClusteringPipeline(ClusteringPipeline):
    """A pipeline of clusters in a kernel without a graph."""

    model: KernelClustersModel

    def space(self) -> SpaceParams:
        own = self.model
        return SpaceParams(space=own.space, n_landmarks=own.n_landmarks, budget=self.budget,
                           random_state=own.random_state)
