"""The pipeline files of the kinds `clustering`, of a graph, and `kernel_clustering`, without one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ...base.errors import DsslError, SpecError, explain
from ...graph.weights.rules import WIDTH
from ..spec import WIDTH_DESCRIPTION, DataSpec, GraphPipeline, KernelSpec, LearningTask, ModelSpec, Spec, TestSplit
from .deformed_spec import RegularizedGraph

if TYPE_CHECKING:
    from ...learners.feature_maps import SpaceParams
    from ...learners.kmeans import KMeansParams

NumberRule = Literal["eigengap", "gap"]


class ClusteringData(DataSpec):
    """Where the points come from; classes, where there are any, are what the clusters are compared with."""

    task: LearningTask = "clustering"
    test: TestSplit = TestSplit(none=True)


class ClustersSpec(ModelSpec):
    """How many clusters there are, and from how many points and starts they are found."""

    n_clusters: int | NumberRule = Field(description="their number, or eigengap or gap, by which it is chosen")
    max_clusters: int = Field(default=20, ge=2, description="clusters of which a rule chooses the number")
    n_init: int = Field(default=10, ge=1, description="starts by k-means++, of which the best goes on")
    n_landmarks: int | Literal["auto"] = Field(
        "auto", description="points that carry the kernel, of deformed those at which functions are measured")
    random_state: int = Field(0, ge=0)

    def kmeans(self) -> KMeansParams:
        """Return the parameters of k-means with the largest number of clusters there may be."""
        from ...learners.kmeans import KMeansParams
        from ...selection.number_of_clusters import require_number

        rule = require_number(self.n_clusters, self.max_clusters)
        return KMeansParams(n_clusters=int(self.n_clusters) if rule is None else self.max_clusters,
                            n_init=self.n_init, random_state=self.random_state)


class GraphClustersSpec(ClustersSpec):
    """Clusters in the graph kernel, or in the base kernel deformed by the graph."""

    kind: Literal["clustering"]
    space: Literal["graph", "deformed"] = "graph"
    eta: float = Field(1.0, description="weight of the graph in deformed, relative")


class KernelClustersSpec(ClustersSpec):
    """Clusters in the base kernel, the cluster kernel or the multi-scale kernel."""

    kind: Literal["kernel_clustering"]
    space: Literal["base", "cluster", "multiscale"] = "base"


class ClusteringPipeline(Spec):
    """A pipeline of clusters, whose labels are optional."""

    data: ClusteringData
    kernel: KernelSpec = KernelSpec()
    model: ClustersSpec

    @abstractmethod
    def space(self) -> SpaceParams:
        """Return the kernel in which points are clustered."""

    def mistakes(self, skipped: Collection[str] = ()) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes(skipped)
        if self.labels is not None:
            yield "labels", SpecError(explain(f"labels: model.kind is {self.model.kind}", fix="leave it out",
                                              why="no stage of that kind would read it"))

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "kernel.name", self.kernel.require_known
        yield "kernel", self.kernel.check
        yield "model", self.model.kmeans
        yield "model", self.space


class ClusterGraph(RegularizedGraph):
    """The neighbor graph of all training points, and the regularizer of its kernel."""

    width: float = Field(default=WIDTH, description=WIDTH_DESCRIPTION)


class GraphClusteringPipeline(ClusteringPipeline, GraphPipeline):
    """A pipeline of clusters of a graph."""

    graph: ClusterGraph = ClusterGraph()
    model: GraphClustersSpec

    def space(self) -> SpaceParams:
        from ...learners.feature_maps import SpaceParams

        own = self.model
        return SpaceParams(space=own.space, regularizer=self.graph.regularizer(), eta=own.eta,
                           n_landmarks=own.n_landmarks, graph=self.graph.builder(), budget=self.budget,
                           random_state=own.random_state)


class KernelClusteringPipeline(ClusteringPipeline):
    """A pipeline of clusters in a kernel without a graph."""

    model: KernelClustersSpec

    def space(self) -> SpaceParams:
        from ...learners.feature_maps import SpaceParams

        own = self.model
        return SpaceParams(space=own.space, n_landmarks=own.n_landmarks, budget=self.budget,
                           random_state=own.random_state)
