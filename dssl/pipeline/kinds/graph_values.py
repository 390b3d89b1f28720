"""The learners of the kind `graph` as values: their fits, and their values of labels that are held out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...learners.class_prior import EQUAL, ClassPrior, ClassWeight
from ...learners.class_prior import LABELS as LABELS_ALONE
from ...learners.on_graph.class_sizes import with_class_sizes
from ...learners.on_graph.graph_ridge import GraphRidgeParams, fit_graph_ridge
from ...learners.on_graph.harmonic import fit_harmonic
from ...learners.on_graph.held_out import (
    HeldOutValues,
    Repetitions,
    held_out_graph_ridge,
    held_out_harmonic,
    held_out_poisson,
    held_out_refits,
)
from ...learners.on_graph.poisson import fit_poisson
from ...learners.on_graph.vertex_labels import VertexValues
from ...learners.target.target import Classes, Target
from ...selection.choice import LOWEST, ChoiceRule
from ...selection.folds import FoldParams
from ...selection.halving import ALL, Search
from ...solvers.solver_params import SolverParams
from .graph_spec import OF_RIDGE, GraphLearnerPipeline, GraphModel, SizeParams


@dataclass(frozen=True)
class ValueParams:
    """The learner with its parameters; family : of ridge."""

    learner: str
    family: GraphRidgeParams | None
    solver: SolverParams
    class_sizes: SizeParams
    prior: ClassPrior
    weight: ClassWeight

    @classmethod
    def of(cls, spec: GraphLearnerPipeline, model: GraphModel) -> "ValueParams":
        return cls(model.learner, model.family(spec.graph.laplacian), model.solver(), model.sizes(), spec.prior,
                   spec.weight)

    @property
    def sized(self) -> bool:
        """Return whether class sizes are known."""
        return self.class_sizes.sizes is not None

    @property
    def assumed(self) -> ClassPrior:
        """Return how frequent the values say that classes are: as they are told, or as the labels, or equally."""
        return assumed_by(self.learner, self.prior if self.sized else None)

    def fit(self, graph: Graph, target: Target, weight: np.ndarray | None, execution: Execution,
            kept: dict[Any, Any] | None = None, start: np.ndarray | None = None) -> VertexValues:
        """Return the learner's function on the vertices; kept : as `fit_graph_ridge`.

        start : its values on the first vertices of before the graph grew, from which a learner of one system begins.
        Ridge in graph kernels solves none.
        Known class sizes scale harmonic functions (class mass normalization); others are moved to them, and diffuse.
        """
        if self.family is not None:
            found = fit_graph_ridge(graph, target, weight, self.family, execution, kept)
        elif self.learner == "laplace":
            found = fit_harmonic(graph, target, weight, self.solver, execution, start)
        else:
            assert isinstance(target, Classes)  # the spec refuses quantities
            found = fit_poisson(graph, target, weight, self.solver, execution, start)
        if not isinstance(target, Classes):
            return found
        return with_class_sizes(found, self.class_sizes.sizes, graph, target, weight, self.solver, execution,
                                harmonic=self.learner == "laplace")


def assumed_by(learner: str, sizes: ClassPrior | None) -> ClassPrior:
    """Return how frequent the values of a learner say that classes are; sizes : those that it was told."""
    return sizes if sizes is not None else LABELS_ALONE if learner == "laplace" else EQUAL


@dataclass(frozen=True)
class Learners:
    """The learners that are tried, and what each is called; the one that is given, where there is nothing to choose."""

    values: tuple[ValueParams, ...]
    names: tuple[dict[str, Any], ...]
    cv: FoldParams | None
    rule: ChoiceRule
    search: Search

    @classmethod
    def of(cls, spec: GraphLearnerPipeline) -> "Learners":
        chosen, tried = spec.selection, spec.learners()
        names = tuple({"learner": own.learner, **({name: getattr(own, name) for name in OF_RIDGE}
                                                  if own.learner == "ridge" else {})} for own in tried)
        return cls(tuple(ValueParams.of(spec, own) for own in tried), names, chosen.cv() if chosen else None,
                   chosen.rule() if chosen else LOWEST, chosen.searched() if chosen else ALL)


def held_out_on_graph(tried: Sequence[ValueParams], graph: Graph, target: Target, folds: Repetitions,
                      execution: Execution, kept: dict[Any, Any]) -> list[list[HeldOutValues]]:
    """Return the values of labeled points without their fold by each learner; kept : columns of kernels, for others."""
    weight = target.label_weights(tried[0].weight) if tried else None
    ridges = [own for own in tried if own.family is not None and not own.sized]
    of_ridge = iter(held_out_graph_ridge(graph, target, weight, folds, [own.family for own in ridges if own.family],
                                         execution, kept) if ridges else [])
    found = list[list[HeldOutValues]]()
    for own in tried:
        if own.sized:
            fit = partial(_refit, own, graph, execution)
            found.append([held_out_refits(fit, graph, target, weight, some) for some in folds])
        elif own.family is not None:
            found.append(next(of_ridge))
        else:
            held_out = held_out_harmonic if own.learner == "laplace" else held_out_poisson
            found.append(held_out(graph, target, weight, folds, own.solver, execution))
    return found


def _refit(params: ValueParams, graph: Graph, execution: Execution, target: Target,
           weight: np.ndarray | None) -> VertexValues:
    return params.fit(graph, target, weight, execution)
