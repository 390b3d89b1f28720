"""The pipeline files of the kinds of models by name: what a file is checked by, without the stages of its kind."""

from dataclasses import field, make_dataclass

from ...methods.cluster import CLUSTER_KERNEL
from ...methods.deformed.method import DEFORMED_RIDGE, DEFORMED_SVM
from ...methods.laprls.method import LAPRLS, LAPSVM
from ...methods.multiscale import MULTISCALE_KERNEL
from ...methods.sections import LearningTask
from ...methods.step import Method
from ..spec import KindSpec, LabelSection, Spec
from .automatic_spec import AutomaticPipeline
from .clustering_spec import GraphClusteringPipeline, KernelClusteringPipeline
from .graph_spec import GraphLearnerPipeline

DEFAULT = "automatic"
BOTH: tuple[LearningTask, ...] = ("classification", "regression")
METHODS = (DEFORMED_SVM, DEFORMED_RIDGE, LAPRLS, LAPSVM, CLUSTER_KERNEL, MULTISCALE_KERNEL)


def spec_of(method: Method) -> KindSpec:
    """Return the pipeline files of a method: its sections, beside those of every file."""
    labels = [("labels", LabelSection, field())] if method.tasks != ("clustering",) else []
    spec = make_dataclass(f"{method.sections.__name__.removesuffix('Sections')}Pipeline", labels,
                          bases=(method.sections, Spec), namespace={"__doc__": method.sections.__doc__}, frozen=True,
                          kw_only=True)
    return KindSpec(method.name, spec, method.tasks)


SPECS: dict[str, KindSpec] = {kind.name: kind for kind in (
    KindSpec("automatic", AutomaticPipeline, BOTH), *map(spec_of, METHODS[:4]),
    KindSpec("graph", GraphLearnerPipeline, BOTH), *map(spec_of, METHODS[4:]),
    KindSpec("clustering", GraphClusteringPipeline, ("clustering",)),
    KindSpec("kernel_clustering", KernelClusteringPipeline, ("clustering",)))}
