"""The graph's functions and those of the labels alone, each as much as leave-one-out says: the automatic choice.

The members of both families, graph kernels (`graph_ridge.py`) and RBF kernels on the labels (`kernel_family.py`), are
averaged together (`learners/average.py`), each as much as leave-one-out says (`learners/mixture.py`). Where no label
reaches, the labels alone predict.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.knn_graph import KNNGraph
from ...storage.blocks import Rows
from ...storage.views import SelectedRows
from ..average import Member, held_out_average, without
from ..class_prior import EQUAL
from ..kernel_family import KernelMembers, KernelSum, label_kernels
from ..mixture import member_shares
from ..model import Model, described_model, register_model
from ..prior_shift import prior_shift
from ..target.coding import Coding
from ..target.target import Target
from .graph_ridge import GraphMembers, GraphRidgeParams, graph_members, sampled
from .model import GraphModel, graph_model, signed
from .vertex_labels import VertexValues

VERSION = 1
# What the labels alone count for against 1 of the graph, all members together and before leave-one-out: as much, and
# less where the graph has a structure (`graph/spectral_concentration.py`) beyond that of noise and of tables,
# (15 / structure)^2 down to a tenth (`tests/benchmarks/blend_prior.py`).
LEAST_PRIOR, STRUCTURED = 0.1, 15.0


@dataclass(frozen=True, eq=False)
class BlendedModel(Model):
    """The sum of a graph's function and one of the labels; where no label reaches, `alone`, that of the labels only."""

    graph: GraphModel
    kernels: KernelSum
    alone: KernelSum
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def coding(self) -> Coding:  # type: ignore[override]
        return self.graph.coding

    @property
    def n_features(self) -> int:
        return self.graph.n_features

    @property
    def n_columns(self) -> int:
        return self.graph.n_columns

    def block_values(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        values, lost = self.graph.block_values(X)
        values += self.kernels.block_values(X)[0]
        if lost.any():
            values[lost] = self.alone.block_values(X[lost])[0]
        return values, np.zeros(len(values), bool)

    def block_support(self, X: Any) -> np.ndarray:
        """Return the graph's `GraphModel.block_support`."""
        return self.graph.block_support(X)

    def moved(self, offset: np.ndarray, of_alone: np.ndarray) -> "BlendedModel":
        """Return the model whose values are larger by an offset (c,), and those of the labels alone by another."""
        return replace(self, kernels=self.kernels.moved(offset), alone=self.alone.moved(of_alone))

    def on_graph_alone(self, values: np.ndarray) -> "BlendedModel":
        """Return the model with these values (v, c) on the vertices in place of the sum of both."""
        return replace(self, graph=replace(self.graph, values_at=values), kernels=replace(
            self.kernels, coef=np.zeros_like(self.kernels.coef), offset=np.zeros_like(self.kernels.offset)))

    def row_bytes(self, rows: Rows) -> int:
        return self.graph.row_bytes(rows) + 2 * self.kernels.row_bytes(rows)

    def fixed_bytes(self, rows: Rows) -> int:
        return self.graph.fixed_bytes(rows) + self.kernels.fixed_bytes(rows)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return named arrays and JSON attributes, read by `from_arrays`."""
        arrays, described = dict[str, np.ndarray](), {}
        for name in ("graph", "kernels", "alone"):
            stored, described[name] = getattr(self, name).to_arrays()
            arrays |= {f"{name}/{key}": array for key, array in stored.items()}
        return arrays, {"type": "BlendedModel", "version": VERSION, "parts": described,
                        "coding": self.coding.name, "classes": self.coding.classes.tolist(), **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "BlendedModel":
        rest = described_model(attributes, "BlendedModel", VERSION, ("parts",))
        kinds: dict[str, type[Model]] = {"graph": GraphModel, "kernels": KernelSum, "alone": KernelSum}
        parts: dict[str, Any] = {name: kind.from_arrays({
            key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")},
            attributes["parts"][name]) for name, kind in kinds.items()}
        return cls(**parts, attributes=rest)


@dataclass(frozen=True, eq=False)
class Blend:
    """A blend of both families: its model, its values at the n points, and held-out values with and without the graph.

    held_out, held_out_alone : (l, c) of the labeled points, each without its label in the functions and in what these
    count for. reached (n,) : which points a label reaches. on_vertices :
    the graph's part. on_graph : its functions.
    """

    model: BlendedModel
    on_vertices: VertexValues
    reached: np.ndarray
    held_out: np.ndarray
    held_out_alone: np.ndarray
    on_graph: GraphMembers
    attributes: dict[str, Any] = field(default_factory=dict)

    def left_out(self, graph: Graph, rows: Rows, target: Target, weight: np.ndarray | None, params: GraphRidgeParams,
                 folds: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (l, c) of labels by fits without their folds; and by the labels alone.

        NaN of labels in no fold. The columns of the kernels are those of the fit, and so is the graph's structure.
        """
        own, everywhere = self.on_graph.rows, sampled(np.ones(len(rows), bool), params.random_state)
        component, of_point = graph.components(), graph.vertices.vertex
        home, of_sample = component[of_point[target.labeled]], component[of_point[own.sample]]
        of_graph = [(*own.blocks(kernel), params.penalty) for kernel in self.on_graph.kernels]
        of_labels = [(K, seen, penalty) for _, penalty, K, seen in label_kernels(
            rows, everywhere, target.labeled, params.random_state)]
        assert own.structure is not None
        n, m, columns = len(of_graph), len(of_labels), signed(target.indicators(), target)
        values = np.full((2, *columns.shape), np.nan)
        for held in folds:
            kept = np.setdiff1d(np.arange(len(target.labeled)), held)
            part, there = target.take(kept), np.isin(of_sample, home[kept])
            own_weight = None if weight is None else weight[kept]
            both = [*(without(K, seen[there], penalty, target, weight, kept, held) for K, seen, penalty in of_graph),
                    *(without(K, seen, penalty, target, weight, kept, held) for K, seen, penalty in of_labels)]
            members, functions = [member for _, member in both], np.array([values for values, _ in both])
            prior = np.repeat([1 / n, prior_of_labels(own.structure, part) / m], [n, m])
            by_graph = self._moved(part, own_weight, members, functions, prior)
            by_labels = self._moved(part, own_weight, members[n:], functions[n:])
            values[1, held] = by_labels
            values[0, held] = np.where(np.isin(home[held], home[kept])[:, None], by_graph, by_labels)
        return values[0], values[1]

    def _moved(self, part: Target, weight: np.ndarray | None, members: Sequence[Member], functions: np.ndarray,
               prior: np.ndarray | None = None) -> np.ndarray:
        """Return the values (q, c) of a fit to part of the labels: averaged, and moved as its leave-one-out values say.

        functions (m, q, c) : the values of its members. prior (m,) : as `member_shares` takes it.
        """
        shares, of_label = member_shares(members, part, weight, prior)
        held_out = held_out_average(members, of_label)
        shift = prior_shift(part, signed(held_out, part), self.model.coding, weight, EQUAL)
        return signed(np.tensordot(shares, functions, 1), part) + shift.columns

    def values(self, graph: Graph, rows: Rows, execution: Execution) -> np.ndarray:
        """Return the values at the points of the fit, (n, c), without a search for their neighbors."""
        values = self.model.graph.values_at[graph.vertices.vertex] + self.model.kernels.values(rows, execution)
        lost = np.flatnonzero(~self.reached)
        if len(lost):
            values[lost] = self.model.alone.values(SelectedRows(rows, lost), execution)
        return values


def prior_of_labels(structure: float, target: Target) -> float:
    """Return what the labels alone count for against 1 of the graph.

    Less by the share of labels that are the first of their class, of which leave-one-out says nothing.
    """
    whole = 1.0 if structure <= STRUCTURED else max((STRUCTURED / structure) ** 2, LEAST_PRIOR)
    return whole * (1 - target.n_strata / len(target.labeled))


def fit_blend(graph: Graph, rows: Rows, target: Target, weight: np.ndarray | None, params: GraphRidgeParams,
              knn: KNNGraph, execution: Execution) -> Blend:
    """Return the blend on a graph of rows (n, d).

    Raises BudgetError, NotConverged: as `fit_graph_ridge`; the index of the vertices does not fit.
    """
    on_graph = graph_members(graph, target, weight, params, execution, blended=True)
    structure = on_graph.rows.structure
    assert structure is not None
    # Scaled at all points, not at those alone that a label reaches, since the labels alone predict the others.
    everywhere = sampled(np.ones(len(rows), bool), params.random_state)
    kernels = KernelMembers.of(rows, everywhere, target, weight, params.random_state, grouped=True)
    n, m = len(on_graph.members), len(kernels.members)
    of_labels = prior_of_labels(structure, target)
    prior = np.concatenate([np.full(n, 1 / n), np.full(m, of_labels / m)])
    both = [*on_graph.members, *kernels.members]
    shares, of_label = member_shares(both, target, weight, prior)
    alone, alone_of_label = member_shares(kernels.members, target, weight)
    average = on_graph.weighed(shares[:n])
    columns = partial(signed, target=target)
    coding = target.coding
    model = BlendedModel(graph_model(graph, rows, average, target, knn, execution),
                         kernels.weighed(shares[n:], coding, columns), kernels.weighed(alone, coding, columns))
    held_out = held_out_average(both, of_label)
    held_out_alone = held_out_average(kernels.members, alone_of_label)
    return Blend(model, average, average.reached[graph.vertices.vertex], columns(held_out), columns(held_out_alone),
                 on_graph, {
                     **average.described(graph.vertices), "structure": structure,
                     "graph_share": float(shares[:n].sum()),
                     "kernels_of_labels": kernels.described(shares[n:])})


register_model("BlendedModel", BlendedModel)
