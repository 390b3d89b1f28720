"""The blend of graph kernels (`graph_ridge.py`) and supervised RBF kernels (`kernel_family.py`).

The functions of both families are averaged (`learners/average.py`) with shares from held-out labels. Unreachable
points, in components without labels, are predicted by the supervised family.

The shares of classifiers are those whose mixture gives the held-out labels the highest probability (stacking). P_mi is
the calibrated probability (`probabilities.py`) that classifier m gives to the class of the held-out label i. From a
prior, steps of the EM algorithm raise the likelihood of the mixture `sum_m share_m P_mi`:

    share_m  <-  share_m  mean_i (P_mi / sum_k share_k P_ki)

There are as many steps as labels beyond the first of each class, so few labels leave the prior nearly as it is.

References
----------
Yao, Vehtari, Simpson, Gelman, "Using stacking to average Bayesian predictive distributions", Bayesian Analysis 2018.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from ...base.digest import JsonObject
from ...base.types import Matrix
from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.knn_graph import KNNGraph
from ...kernels.base import median_sample
from ...knn.index import NeighborIndex
from ...storage.blocks import Rows
from ...storage.views import SelectedRows, cached_rows
from ..average import (
    LabelColumns,
    Member,
    held_out_average,
    held_out_member,
    label_groups,
    leave_one_out_shares,
    shares_of,
)
from ..class_prior import EQUAL, LABELS
from ..kernel_family import KernelMembers, KernelSum, LabelKernels
from ..model import Model, Nearest, SearchingModel, fit_attributes, register_model
from ..prior_shift import calibration_labels, prior_shift
from ..probabilities import fit_each_log_odds
from ..target.coding import Coding
from ..target.target import Classes, Target
from .cost import concurrent_bytes
from .graph_ridge import GraphMembers, GraphRidgeParams, LastKernelRows, graph_members, sampled
from .model import GraphModel, VertexIndex, VertexValues, graph_model, signed

MIN_PROBABILITY = 1e-12  # of a label
VERSION = 2
# The prior of the supervised family against 1 for the graph: 1, or for a spectral concentration above that of noise and
# of tables (15 / concentration)^2, at least a tenth (`tests/benchmarks/blend_prior.py`).
MIN_PRIOR, CONCENTRATED = 0.1, 15.0
Refit = tuple[np.ndarray, np.ndarray]  # held-out values (l, c) of the model and of its supervised baseline
KernelBlocks = tuple[np.ndarray, np.ndarray, float]  # of labels (l, l), of sampled points (s, l), and the penalty
BLENDED = {"graph": "graph", "kernels": "kernels", "supervised": "supervised"}  # models of a blend: stored names


def member_shares(members: Sequence[Member], target: Target, weight: np.ndarray | None,
                  prior: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares (m,) of functions, and nested shares (m, l) that do not depend on the label they predict.

    Those of quantities are as in `average.py`. Of classes, nested shares hold out the label's group. prior (m,) : 1 by
    default.
    """
    if target.n_strata == 1:
        return (shares_of([member.held_out for member in members], target, weight, prior),
                leave_one_out_shares(members, target, prior))
    assert isinstance(target, Classes)
    start = np.ones(len(members)) if prior is None else prior
    shares = mixture_shares(np.array([member.standardized for member in members]), target, weight, start)
    of_label = np.empty((len(members), len(target.labeled)))
    for number, group in enumerate(label_groups(len(target.labeled))):
        train = np.setdiff1d(np.arange(len(target.labeled)), group)
        values = np.array([member.group_held_out[number][train] for member in members
                           if member.group_held_out is not None])
        of_label[:, group] = mixture_shares(values, target.take(train), None if weight is None else weight[train],
                                            start)[:, None]
    return shares, of_label


def mixture_shares(scores: np.ndarray, target: Classes, weight: np.ndarray | None, prior: np.ndarray) -> np.ndarray:
    """Return the shares (m,) of classifiers from their held-out scores (m, l, n_classes), which assume equal classes.

    The only label of a class is ignored.
    """
    shares = prior / prior.sum()
    usable = calibration_labels(target, scores[0])
    if not len(usable):
        return shares
    P = label_probabilities(scores, target, weight, usable)
    w = np.ones(len(usable)) if weight is None else weight[usable]
    for _ in range(len(usable) - len(np.unique(target.coded[usable]))):
        shares = shares * (P @ (w / (shares @ P))) / w.sum()
    return shares / shares.sum()


def label_probabilities(scores: np.ndarray, target: Classes, weight: np.ndarray | None,
                        usable: np.ndarray) -> np.ndarray:
    """Return the probabilities (m, j) of the classes of the `usable` labels from held-out scores (m, l, n_classes).

    They are calibrated to the frequencies of the labels, whatever prior the target has.
    """
    codes = target.coded[usable]
    labels, even = (np.log(prior.shares(target.coded, target.names, weight)) for prior in (LABELS, EQUAL))
    present = np.isin(np.arange(len(target.names)), codes)
    slopes, intercepts = fit_each_log_odds(scores[:, usable], codes, None if weight is None else weight[usable], labels,
                                           even, present)
    logs = np.where(present, slopes[:, None, None] * scores[:, usable] + intercepts[:, None], -np.inf)
    return np.maximum(softmax(logs, axis=2)[:, np.arange(len(usable)), codes], MIN_PROBABILITY)


@dataclass(frozen=True, eq=False)
class BlendedModel(Model):
    """The sum of functions in graph kernels and in RBF kernels; at unreachable points the `supervised` model."""

    graph: GraphModel
    kernels: KernelSum
    supervised: KernelSum
    attributes: JsonObject = field(default_factory=dict)

    @property
    def coding(self) -> Coding:  # type: ignore[override]
        return self.graph.coding

    @property
    def n_features(self) -> int:
        return self.graph.n_features

    @property
    def n_columns(self) -> int:
        return self.graph.n_columns

    def block_values(self, X: Matrix, nearest: Nearest | None = None) -> tuple[np.ndarray, np.ndarray]:
        values, unreachable = self.graph.block_values(X, nearest)
        values += self.kernels.block_values(X)[0]
        if unreachable.any():
            values[unreachable] = self.supervised.block_values(X[unreachable])[0]
        return values, np.zeros(len(values), bool)

    block_values_near = block_values

    @property
    def on_graph(self) -> SearchingModel:
        return self.graph

    def with_index(self, index: NeighborIndex, scales: np.ndarray) -> "BlendedModel":
        return replace(self, graph=self.graph.with_index(index, scales))

    def block_support(self, X: Matrix) -> np.ndarray:
        return self.graph.block_support(X)

    def shifted(self, offset: np.ndarray, of_supervised: np.ndarray) -> "BlendedModel":
        """Return the model plus an offset (c,), with another offset of the supervised model."""
        return replace(self, kernels=self.kernels.shifted(offset), supervised=self.supervised.shifted(of_supervised))

    def only_on_graph(self, values: np.ndarray) -> "BlendedModel":
        """Return the model with values (v, c) on the vertices in place of the sum of both."""
        return replace(self, graph=replace(self.graph, values_at=values), kernels=replace(
            self.kernels, coef=np.zeros_like(self.kernels.coef), offset=np.zeros_like(self.kernels.offset)))

    def row_bytes(self, rows: Rows) -> int:
        return self.graph.row_bytes(rows) + 2 * self.kernels.row_bytes(rows)

    def fixed_bytes(self, rows: Rows) -> int:
        return self.graph.fixed_bytes(rows) + self.kernels.fixed_bytes(rows)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        arrays, described = dict[str, np.ndarray](), {}
        for attribute, name in BLENDED.items():
            stored, described[name] = getattr(self, attribute).to_arrays()
            arrays |= {f"{name}/{key}": array for key, array in stored.items()}
        return arrays, {"type": "BlendedModel", "version": VERSION, "parts": described,
                        "coding": self.coding.name, "classes": self.coding.classes.tolist(), **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "BlendedModel":
        rest = fit_attributes(attributes, "BlendedModel", VERSION, ("parts",))
        parts: dict[str, Any] = {attribute: (GraphModel if attribute == "graph" else KernelSum).from_arrays({
            key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")},
            attributes["parts"][name]) for attribute, name in BLENDED.items()}
        return cls(**parts, attributes=rest)


@dataclass(frozen=True, eq=False)
class Blend:
    """A fitted blend.

    held_out, held_out_supervised : (l, c), of the labels, which are held out of the functions and of their shares.
    on_vertices, on_graph : the graph's part, and its members. on_labels : the kernels of the supervised family.
    reachable (n,) bool : the reachable points.
    """

    model: BlendedModel
    on_vertices: VertexValues
    reachable: np.ndarray
    held_out: np.ndarray
    held_out_supervised: np.ndarray
    on_graph: GraphMembers
    on_labels: LabelKernels
    attributes: JsonObject = field(default_factory=dict)

    def refit_held_out(self, target: Target, weight: np.ndarray | None, params: GraphRidgeParams,
                       draws: Sequence[Sequence[np.ndarray]]) -> list[Refit]:
        """Return for each draw of folds the held-out values (l, c) of the blend and of the supervised model by refits.

        They are NaN outside the folds. The kernels and the spectral concentration are those of the fit.
        """
        kernel_rows = self.on_graph.rows
        graph_kernels = [(*kernel_rows.blocks(kernel), params.penalty) for kernel in self.on_graph.kernels]
        rbf_kernels = [(K, sample, penalty) for _, penalty, K, sample in self.on_labels]
        return [self._refit(target, weight, graph_kernels, rbf_kernels, folds) for folds in draws]

    def _refit(self, target: Target, weight: np.ndarray | None, graph_kernels: Sequence[KernelBlocks],
               rbf_kernels: Sequence[KernelBlocks], folds: Sequence[np.ndarray]) -> Refit:
        of_label, of_sample = self.on_graph.of_label, self.on_graph.of_sample
        concentration = self.on_graph.rows.concentration
        assert concentration is not None
        n, m, columns = len(graph_kernels), len(rbf_kernels), signed(target.indicators(), target)
        values = np.full((2, *columns.shape), np.nan)
        for test in folds:
            train = np.setdiff1d(np.arange(len(target.labeled)), test)
            part, usable = target.take(train), np.isin(of_sample, of_label[train])
            train_weight = None if weight is None else weight[train]
            labels = LabelColumns(part, train_weight)
            fits = [*(held_out_member(K, sample[usable], penalty, labels, train, test)
                      for K, sample, penalty in graph_kernels),
                    *(held_out_member(K, sample, penalty, labels, train, test)
                      for K, sample, penalty in rbf_kernels)]
            members, functions = [member for _, member in fits], np.array([values for values, _ in fits])
            prior = np.repeat([1 / n, supervised_prior(concentration, part) / m], [n, m])
            blended = self._average(part, train_weight, members, functions, prior)
            values[1, test] = supervised = self._average(part, train_weight, members[n:], functions[n:])
            values[0, test] = np.where(np.isin(of_label[test], of_label[train])[:, None], blended, supervised)
        return values[0], values[1]

    def _average(self, part: Target, weight: np.ndarray | None, members: Sequence[Member], functions: np.ndarray,
                 prior: np.ndarray | None = None) -> np.ndarray:
        """Return the average (q, c), with prior shift, of functions (m, q, c) fitted to some labels.

        prior (m,) : see `member_shares`.
        """
        shares, of_label = member_shares(members, part, weight, prior)
        held_out = held_out_average(members, of_label)
        shift = prior_shift(part, signed(held_out, part), self.model.coding, weight, EQUAL)
        return signed(np.tensordot(shares, functions, 1), part) + shift.columns

    def values(self, graph: Graph, rows: Rows, execution: Execution) -> np.ndarray:
        """Return the values (n, c) at the training points, without a search for neighbors."""
        values = self.model.graph.values_at[graph.vertices.vertex] + self.model.kernels.values(rows, execution)
        unreachable = np.flatnonzero(~self.reachable)
        if len(unreachable):
            values[unreachable] = self.model.supervised.values(SelectedRows(rows, unreachable), execution)
        return values


def supervised_prior(concentration: float, target: Target) -> float:
    """Return the prior of the supervised family against 1 for the graph, times the share of labels after the first of
    their class, since leave-one-out residuals say nothing of the first."""
    prior = 1.0 if concentration <= CONCENTRATED else max((CONCENTRATED / concentration) ** 2, MIN_PRIOR)
    return prior * (1 - target.n_strata / len(target.labeled))


def rows_of_blend(rows: Rows, labeled: np.ndarray, random_state: int, execution: Execution) -> Rows:
    """Return rows whose labeled and sampled ones, which a blend reads several times, are in memory."""
    n = len(rows)
    return cached_rows(rows, [labeled, sampled(np.ones(n, bool), random_state), median_sample(n, random_state)],
                       execution.concurrently)


def fit_blend(graph: Graph, rows: Rows, target: Target, weight: np.ndarray | None, params: GraphRidgeParams,
              knn: KNNGraph, index: VertexIndex, execution: Execution, last: LastKernelRows | None = None) -> Blend:
    """Return the blend on a graph of rows (n, d); last : see `graph_members`.

    The kernels of the labels are fitted while tasks compute those of the graph, where the budget holds both.

    Raises BudgetError, NotConverged: as `fit_graph_ridge`, or where the index of the vertices does not fit.
    """
    work = partial(_supervised, rows, target, weight, params.random_state)
    needed = concurrent_bytes(rows, graph.attributes["weights"]["nnz"], len(target.labeled),
                              target.indicators().shape[1], params, knn.distance)
    supervised = execution.concurrently(work) if needed <= execution.memory_budget else work
    on_graph = graph_members(graph, target, weight, params, execution, blended=True, last=last)
    concentration = on_graph.rows.concentration
    assert concentration is not None
    on_labels, kernels, supervised_shares, nested_supervised = supervised()
    n, m = len(on_graph.members), len(kernels.members)
    prior = np.concatenate([np.full(n, 1 / n), np.full(m, supervised_prior(concentration, target) / m)])
    members = [*on_graph.members, *kernels.members]
    shares, nested_shares = member_shares(members, target, weight, prior)
    average = on_graph.average(shares[:n])
    columns, coding = partial(signed, target=target), target.coding
    model = BlendedModel(graph_model(graph, average, target, knn, index()),
                         kernels.average(shares[n:], coding, columns),
                         kernels.average(supervised_shares, coding, columns))
    held_out = columns(held_out_average(members, nested_shares))
    held_out_supervised = columns(held_out_average(kernels.members, nested_supervised))
    attributes = {**average.described(graph.vertices), "spectral_concentration": concentration,
                  "graph_share": float(shares[:n].sum()), "kernels_of_labels": kernels.described(shares[n:])}
    return Blend(model, average, average.reachable[graph.vertices.vertex], held_out, held_out_supervised, on_graph,
                 on_labels, attributes)


def _supervised(rows: Rows, target: Target, weight: np.ndarray | None, random_state: int
                ) -> tuple[LabelKernels, KernelMembers, np.ndarray, np.ndarray]:
    """Return the kernels of the labeled points, their functions, and the two shares of these by `member_shares`."""
    # Scaled at all points, since the supervised model predicts the unreachable ones.
    everywhere = sampled(np.ones(len(rows), bool), random_state)
    on_labels = LabelKernels.of(rows, everywhere, target.labeled, random_state)
    kernels = KernelMembers.of(on_labels, target, weight, grouped=True)
    return on_labels, kernels, *member_shares(kernels.members, target, weight)


register_model("BlendedModel", BlendedModel)
