"""The specs of the kinds of models by name: what a pipeline file is checked by, before any kind itself is imported."""

from ..spec import KindSpec, LearningTask
from .automatic_spec import AutomaticPipeline
from .clustering_spec import GraphClusteringPipeline, KernelClusteringPipeline
from .deformed_spec import RidgePipeline, SvmPipeline
from .graph_spec import GraphLearnerPipeline
from .laprls_spec import LapRLSPipeline
from .lapsvm_spec import LapSVMPipeline
from .linear_spec import ClusterPipeline, MultiscalePipeline

BOTH: tuple[LearningTask, ...] = ("classification", "regression")
SPECS: dict[str, KindSpec] = {kind.name: kind for kind in (
    KindSpec("automatic", AutomaticPipeline, BOTH), KindSpec("svm", SvmPipeline, ("classification",)),
    KindSpec("ridge", RidgePipeline, BOTH), KindSpec("laprls", LapRLSPipeline, BOTH),
    KindSpec("lapsvm", LapSVMPipeline, ("classification",)), KindSpec("graph", GraphLearnerPipeline, BOTH),
    KindSpec("cluster", ClusterPipeline, ("classification",)), KindSpec("multiscale", MultiscalePipeline, BOTH),
    KindSpec("clustering", GraphClusteringPipeline, ("clustering",)),
    KindSpec("kernel_clustering", KernelClusteringPipeline, ("clustering",)))}
DEFAULT = "automatic"
