"""The pipeline files of the kinds of models by name: what a file is checked by, without the stages of its kind."""

from dataclasses import field, make_dataclass
from typing import Any

from ...methods.automatic import AUTOMATIC
from ...methods.cluster import CLUSTER_KERNEL
from ...methods.clusters import CLUSTERING, KERNEL_CLUSTERING
from ...methods.deformed.method import DEFORMED_RIDGE, DEFORMED_SVM
from ...methods.graph.method import GRAPH_LEARNER
from ...methods.laprls.method import LAPRLS, LAPSVM
from ...methods.multiscale import MULTISCALE_KERNEL
from ...methods.step import Method
from ...methods.transductive.method import TRANSDUCTIVE
from ..spec import KindSpec, LabelSection, Spec

DEFAULT = "automatic"
METHODS = (AUTOMATIC, DEFORMED_SVM, DEFORMED_RIDGE, LAPRLS, LAPSVM, GRAPH_LEARNER, CLUSTER_KERNEL, MULTISCALE_KERNEL,
           TRANSDUCTIVE)
CLUSTERS = CLUSTERING, KERNEL_CLUSTERING


def spec_of(method: Method) -> KindSpec:
    """Return the pipeline files of a method: its sections, beside those of every file."""
    sections: list[tuple[str, type, Any]] = [("data", method.data, field())]
    sections += [("labels", LabelSection, field())] if method.learns else []
    spec = make_dataclass(f"{method.sections.__name__.removesuffix('Sections')}Pipeline", sections,
                          bases=(method.sections, Spec), namespace={"__doc__": method.sections.__doc__}, frozen=True,
                          kw_only=True)
    return KindSpec(method.name, spec, method.tasks)


SPECS: dict[str, KindSpec] = {method.name: spec_of(method) for method in (*METHODS, *CLUSTERS)}
