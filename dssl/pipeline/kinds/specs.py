"""The pipeline files of the kinds of models by name: what a file is checked by, without the stages of its kind."""

from dataclasses import dataclass, field, make_dataclass
from typing import Any

from ...data.scaling.scaling import ScalingKind, ScalingParams
from ...methods.automatic import AUTOMATIC
from ...methods.cluster import CLUSTER_KERNEL
from ...methods.clusters import CLUSTERING, KERNEL_CLUSTERING
from ...methods.deformed.method import DEFORMED_RIDGE, DEFORMED_SVM
from ...methods.graph.method import GRAPH_LEARNER
from ...methods.laprls.method import LAPRLS, LAPSVM
from ...methods.multiscale import MULTISCALE_KERNEL
from ...methods.sections import LearningTask
from ...methods.step import Method
from ...methods.transductive import TRANSDUCTIVE
from ..spec import DataSection, KindSpec, LabelSection, Spec, TestSplit

DEFAULT = "automatic"
METHODS = (AUTOMATIC, DEFORMED_SVM, DEFORMED_RIDGE, LAPRLS, LAPSVM, GRAPH_LEARNER, CLUSTER_KERNEL, MULTISCALE_KERNEL,
           TRANSDUCTIVE)
CLUSTERS = CLUSTERING, KERNEL_CLUSTERING


@dataclass(frozen=True, kw_only=True)
class AutomaticData(DataSection):
    """Where the points come from, with a scaling that the labels choose.

    Parameters
    ----------
    scale : str
        Of the features; auto chooses by the columns' ranges, and by the leave-one-out residuals of kernels on the
        labels.
    """

    scale: ScalingKind = "auto"

    @property
    def scaling(self) -> ScalingParams | None:
        return None if self.scale == "auto" else ScalingParams(kind=self.scale)


@dataclass(frozen=True, kw_only=True)
class ClusteringData(DataSection):
    """Where the points come from; classes, where there are any, are what the clusters are compared with."""

    task: LearningTask = "clustering"
    test: TestSplit = TestSplit(none=True)


def spec_of(method: Method) -> KindSpec:
    """Return the pipeline files of a method: its sections, beside those of every file."""
    data = ClusteringData if method in CLUSTERS else AutomaticData if method == AUTOMATIC else DataSection
    sections: list[tuple[str, type, Any]] = [("data", data, field())]
    sections += [("labels", LabelSection, field())] if method not in CLUSTERS else []
    spec = make_dataclass(f"{method.sections.__name__.removesuffix('Sections')}Pipeline", sections,
                          bases=(method.sections, Spec), namespace={"__doc__": method.sections.__doc__}, frozen=True,
                          kw_only=True)
    return KindSpec(method.name, spec, method.tasks)


SPECS: dict[str, KindSpec] = {method.name: spec_of(method) for method in (*METHODS, *CLUSTERS)}
