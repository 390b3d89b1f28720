"""Which points to label next: from the covariance of a field on the graph, from features, from the current model.

    variance                   the largest posterior variance
    v_optimality               the largest decrease of the trace of the posterior covariance
    sigma_optimality           the largest decrease of its sum
    coverage                   far from labeled points where points are many, in the features (`coverage.py`)
    uncertainty                the smallest margin of the model, times the variance; without a graph, times the squared
                               distance to the nearest labeled point
    model_change_v_optimality  the smallest margin of the model, times v_optimality

Points are chosen one after the other, and each counts as labeled for those after it, so that a batch is diverse. A
component of the graph without a label, in which the variance of an unlimited field is infinite, comes first if it holds
at least half as many points as a label has to serve then; smaller ones wait until all else is labeled.

References
----------
Ji, Han, "A variance minimization criterion to active learning on graphs", AISTATS 2012. Ma, Garnett, Schneider,
"Sigma-optimality for active learning on Gaussian random fields", NeurIPS 2013. Miller, Bertozzi, "Model-change active
learning in graph-based semi-supervised learning", 2021 (arXiv 2110.07739), whose low-rank covariance this is too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from ..base.digest import is_whole, require_random_state
from ..base.errors import BudgetError, DataError, require
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.regularizer_params import RegularizerParams
from ..graph.spectrum import SpectrumParams, graph_spectrum
from ..graph.vertices import Vertices, distinct_rows
from ..solvers.eigen import eigenpairs_bytes
from ..storage.blocks import Rows
from .coverage import Coverage, Distances

NOISE = 0.1  # variance of what a label says, where the field's mean variance is 1


@dataclass(eq=False)
class Field:
    """A Gaussian field on the vertices of a graph after some observations; `observe` changes it.

        C = S U (Lambda + ridge I)^-power U' S = B B'

    with the lowest eigenpairs of the Laplacian and S a scale of the vertices. Conditioned on noisy values at some
    vertices the covariance is `B P B'`, and each further one takes a rank-one matrix from P (k, k): nothing is n x n.

    B (v, k) : of the prior covariance `B B'`. mass (v,) : the points that a vertex stands for. P (k, k). noise : the
    variance of an observation.
    variance (v,) : the diagonal of `B P B'`. trace_drop (v,) : by how much observing a vertex lowers the trace over
    points, times the variance of that observation. row_sum (v,) : of `B P B'`, over points.
    """

    B: np.ndarray
    mass: np.ndarray
    noise: float
    P: np.ndarray
    variance: np.ndarray
    trace_drop: np.ndarray
    row_sum: np.ndarray

    @classmethod
    def of(cls, B: np.ndarray, mass: np.ndarray, observed: np.ndarray, noise: float = NOISE) -> Self:
        """Return the field of a prior `B B'`, scaled to a mean variance of 1 over points, after some observations.

        observed : distinct vertices. Memory: B once more, and 8 k^2 bytes.
        """
        B = B / np.sqrt(mass @ np.einsum("vk,vk->v", B, B) / mass.sum())
        B_o = B[observed]
        k = B.shape[1]
        P = np.eye(k)
        if len(B_o):  # I - B_o' (B_o B_o' + noise I)^-1 B_o, by the smaller system
            P = noise * cho_solve(cho_factor(B_o.T @ B_o + noise * P), P)
        G = B.T @ (mass[:, None] * B)
        PGP = P @ G @ P
        return cls(B, mass, noise, P, np.einsum("vk,vk->v", B @ P, B), np.einsum("vk,vk->v", B @ PGP, B),
                   B @ (P @ (mass @ B)))

    def observe(self, vertex: int) -> None:
        """Condition on one more vertex: a rank-one matrix less, three products with B."""
        u = self.P @ self.B[vertex]
        spread = self.noise + float(self.B[vertex] @ u)
        covariance = self.B @ u  # of all vertices with this one
        Gu = self.B.T @ (self.mass * covariance)
        self.trace_drop += covariance * (covariance * float(u @ Gu) / spread - 2 * (self.B @ (self.P @ Gu))) / spread
        self.row_sum -= covariance * float(self.mass @ covariance) / spread
        self.variance -= covariance**2 / spread
        self.P -= np.outer(u, u) / spread
        for rounded in (self.variance, self.trace_drop):
            np.maximum(rounded, 0.0, out=rounded)

    def trace_decrease(self) -> np.ndarray:
        """Return by how much observing each vertex lowers the trace of the covariance of all points (v,)."""
        return self.trace_drop / (self.noise + self.variance)

    def sum_decrease(self) -> np.ndarray:
        """Return by how much observing each vertex lowers the sum of the covariance of all points (v,)."""
        return self.row_sum**2 / (self.noise + self.variance)


Criterion = Literal["auto", "variance", "v_optimality", "sigma_optimality", "coverage", "uncertainty",
                    "model_change_v_optimality"]
OF_GRAPH = ("variance", "v_optimality", "sigma_optimality", "model_change_v_optimality")  # need one
OF_MODEL = ("uncertainty", "model_change_v_optimality")
OF_ROWS = ("coverage", "uncertainty")  # can do with features alone
IN_WORDS = {"variance": "the least certain by the graph", "v_optimality": "what tells most of the other rows",
            "sigma_optimality": "what tells most of the mean of all rows", "coverage": "rows far from all labels",
            "uncertainty": "the least certain by the model",
            "model_change_v_optimality": "uncertain to the model, and near many other rows"}
FEWEST, MOST, TOLERANCE = 100, 500, 1e-4  # of eigenpairs


@dataclass(frozen=True, kw_only=True)
class SuggestParams:
    """Which points are suggested.

    count : how many. criterion : see the head of this file; "auto" is model_change_v_optimality where the scores of a
        model and a graph are given, v_optimality with a graph alone, without one uncertainty or coverage.
    prior : of the field, whose covariance is `(L + ridge I)^-power` on its lowest eigenvectors.
    eigenpairs : of the Laplacian; None is as many as there are labels then, but 100 to 500, and fewer where the memory
        budget binds.
    noise : the variance of what a label says, relative to the field's.
    random_state : of the eigenpairs' start, and of the draws of coverage.
    """

    count: int = 10
    criterion: Criterion = "auto"
    prior: RegularizerParams = field(default_factory=lambda: RegularizerParams(ridge=1e-3, power=1))
    eigenpairs: int | None = None
    noise: float = NOISE
    random_state: int = 0

    def __post_init__(self) -> None:
        require(is_whole(self.count) and self.count >= 1, f"count={self.count!r}, expected a whole number >= 1",
                why="it is the number of points to label next",
                fix="ask for 10 to 100, and again once these are labeled")
        require(self.criterion in get_args(Criterion), f"criterion={self.criterion!r}",
                why="points are compared by one of those that are known",
                fix=f"choose one of {', '.join(get_args(Criterion))}")
        require(self.eigenpairs is None or (is_whole(self.eigenpairs) and self.eigenpairs >= 2),
                f"eigenpairs={self.eigenpairs!r}, expected a whole number >= 2",
                why="the first is nearly constant and tells no points apart", fix="use 50 to 300")
        require(0 < self.noise < np.inf, f"noise={self.noise}, expected > 0",
                why="a label that says all leaves the rest of a vertex's variance at 0 / 0", fix="use 0.01 to 1")
        require_random_state(self.random_state)

    def chosen(self, *, graph: bool, rows: bool, model: bool) -> Criterion:
        """Return the criterion, told what there is to choose by; raise ParameterError where it asks for more."""
        if self.criterion == "auto":
            if graph:
                return "model_change_v_optimality" if model else "v_optimality"
            return "uncertainty" if model else "coverage"
        possible = [name for name in get_args(Criterion)[1:] if (graph or name in OF_ROWS) and (
            rows or name != "coverage") and (model or name not in OF_MODEL)]
        lacking = "a model of classes" if not model and self.criterion in OF_MODEL else "features"
        if not graph and self.criterion in OF_GRAPH:
            lacking = "a graph"
        require(self.criterion in possible, f"criterion={self.criterion!r} without {lacking}",
                why="it is computed from that", fix=f"choose {' or '.join(possible)}")
        return self.criterion


@dataclass(frozen=True, eq=False)
class Suggestion:
    """ids (count,) : the numbers of points to label, the best first; of copies the first. scores (count,) : the
    criterion when each was chosen, infinite where its component has no label. attributes : JSON."""

    ids: np.ndarray
    scores: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)


class Chooser(Protocol):
    """A criterion: `scores` (v,) of all vertices, given which are allowed, and `observe` of the one that is taken."""

    def scores(self, allowed: np.ndarray) -> np.ndarray: ...

    def observe(self, vertex: int) -> None: ...


@dataclass
class OfField:
    """A criterion of a field, times how uncertain the model is (v,)."""

    field: Field
    measure: Callable[[Field], np.ndarray]
    uncertain: np.ndarray | float = 1.0

    def scores(self, allowed: np.ndarray) -> np.ndarray:
        return self.uncertain * self.measure(self.field)

    def observe(self, vertex: int) -> None:
        self.field.observe(vertex)


@dataclass
class OfDistances:
    """Squared distances to the nearest labeled point, times how uncertain the model is (v,)."""

    distances: Distances
    uncertain: np.ndarray

    def scores(self, allowed: np.ndarray) -> np.ndarray:
        return self.uncertain * self.distances.nearest

    def observe(self, vertex: int) -> None:
        self.distances.observe(vertex)


MEASURES: dict[str, Callable[[Field], np.ndarray]] = {
    "variance": lambda field: field.variance, "v_optimality": Field.trace_decrease,
    "sigma_optimality": Field.sum_decrease,
    "uncertainty": lambda field: field.variance, "model_change_v_optimality": Field.trace_decrease}


def uncertainty_of(scores: np.ndarray) -> np.ndarray:
    """Return 1 less the margin between the two likeliest classes (n,), of scores (n, c); 1 where there are none (NaN).

    Classes have the softmax of the scores over their standard deviation: with few labels no scores are calibrated.
    """
    known = np.isfinite(scores).all(axis=1)
    known_scores = scores[known]
    deviation = float(known_scores.std(axis=0).mean()) if len(known_scores) else 0.0
    likely = np.sort(softmax(known_scores / (deviation or 1.0), axis=1), axis=1)
    uncertainty = np.ones(len(scores))
    uncertainty[known] = 1 - (likely[:, -1] - likely[:, -2])
    return uncertainty


def suggest(points: Vertices, graph: Graph | None, rows: Rows | None, labeled: np.ndarray, params: SuggestParams,
            execution: Execution, scores: np.ndarray | None = None, prior: np.ndarray | None = None,
            skipped: np.ndarray | None = None) -> Suggestion:
    """Return which of n points to label next.

    points : which of them are copies, of which one is suggested at most. graph : of these points, None for none.
    rows : their features (n, d), for `OF_ROWS`. labeled : the numbers of those that have a label, which may be none.
    scores (v, c) : of the classes at distinct points by the current model, the larger the likelier; None for none.
    prior (v, k) : what `prior_of` returns, where several suggestions are made of one graph.
    skipped : the numbers of points that are not suggested, such as outliers; None for none.

    Memory: `prior_bytes` for k eigenpairs, or 16 v and a block of rows.

    Raises
    ------
    DataError : fewer than `count` distinct points are without a label. ParameterError : the criterion asks for what
    is not given. BudgetError : the eigenvectors, or a row, do not fit.
    """
    v = len(points)
    known = np.zeros(v, bool)
    known[points.vertex[labeled]] = True
    left_out = np.zeros(v, bool)
    if skipped is not None:
        left_out[points.vertex[skipped]] = True
    free = int((~known & ~left_out).sum())
    require(free > 0, "every point has a label", why="there is nothing left to ask for", error=DataError,
            fix="add unlabeled points, or fit the model")
    require(params.count <= free, f"count={params.count}, and {free:,} distinct points have no label", error=DataError,
            why="a point is labeled once, and copies with it", fix=f"ask for {free:,} or fewer")
    name = params.chosen(graph=graph is not None, rows=rows is not None, model=scores is not None)
    component = np.zeros(v, np.int64) if graph is None else graph.components()
    size = np.bincount(component, points.multiplicity)
    uncertain = uncertainty_of(scores) if name in OF_MODEL and scores is not None else np.ones(v)
    chooser: Chooser
    if name == "coverage" or graph is None:
        assert rows is not None  # `chosen` refused it
        distances = Distances(distinct_rows(rows, points, execution), np.flatnonzero(known), execution.memory_budget)
        chooser = Coverage(distances, points.multiplicity.astype(np.float64),
                           params.random_state) if name == "coverage" else \
            OfDistances(distances, uncertain)
    else:
        if prior is None:
            prior = prior_of(graph, int(known.sum()) + params.count, params, execution)
        field = Field.of(prior, points.multiplicity.astype(np.float64), np.flatnonzero(known), params.noise)
        chooser = OfField(field, MEASURES[name], uncertain)
    chosen, gains = _greedy(chooser, known, left_out, component, size, params.count)
    return Suggestion(points.first[chosen], np.array(gains), {
        "criterion": name, "in_words": IN_WORDS[name], "labeled": len(labeled), "components_without_label": int(
            len(size) - len(np.unique(component[points.vertex[labeled]])))})


def _greedy(chooser: Chooser, known: np.ndarray, left_out: np.ndarray, component: np.ndarray, size: np.ndarray,
            count: int) -> tuple[list[int], list[float]]:
    """Return the vertices that are chosen one after the other, and the criterion of each; `known` is changed.

    left_out (v,) bool : those that are never chosen.
    """
    possible = np.zeros(len(size), bool)  # components with a vertex that may be chosen
    possible[component[~left_out]] = True
    has_label = np.zeros(len(size), bool)
    has_label[component[known]] = True
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(count):
        share = size.sum() / (2 * (known.sum() + 1))
        waiting = np.flatnonzero(~has_label & possible & (size >= share))
        if len(waiting):
            allowed = ~left_out & (component == waiting[size[waiting].argmax()])
        else:
            allowed = ~known & ~left_out & has_label[component]
            allowed = allowed if allowed.any() else ~known & ~left_out
        scores = np.where(allowed, chooser.scores(allowed), -np.inf)
        best = int(scores.argmax())
        gains.append(np.inf if len(waiting) and len(size) > 1 else float(scores[best]))
        chosen.append(best)
        chooser.observe(best)
        known[best] = True
        has_label[component[best]] = True
    return chosen, gains


def prior_of(graph: Graph, n_labels: int, params: SuggestParams, execution: Execution) -> np.ndarray:
    """Return B (v, k) of the prior covariance `B B'` at points; 0 on components too small for one of so many labels.

    Where `eigenpairs` is None, k is lowered to what the memory budget lets be. Raises BudgetError where not one fits,
    or not as many as were asked for.
    """
    m = graph.vertices.multiplicity
    prior = params.prior
    component = graph.components()
    worth = np.bincount(component, m) >= m.sum() / (2 * n_labels)
    kept = (worth | ~worth.any())[component]
    v = int(kept.sum())
    n_edges = graph.attributes["weights"]["nnz"]
    asked = min(int(np.clip(n_labels, FEWEST, MOST)) if params.eigenpairs is None else params.eigenpairs, v)
    k = asked
    budget = execution.memory_budget
    while prior_bytes(len(kept), v, n_edges, k) > budget and k > 1 and params.eigenpairs is None:
        k = 3 * k // 4  # as many as the budget lets be
    needed = prior_bytes(len(kept), v, n_edges, k)
    require(needed <= budget, f"{k} eigenpairs of {v:,} vertices", error=BudgetError,
            why=f"they take {needed:,} bytes, the budget is {budget:,}",
            fix=f"use {'coverage' if k == 1 else 'fewer eigenpairs'}, or a memory_budget of {needed:,} bytes")
    spectrum = graph_spectrum(graph.subgraph(kept, execution), k, SpectrumParams(
        laplacian=prior.laplacian, tol=TOLERANCE, random_state=params.random_state), execution)
    B = np.zeros((len(kept), k))
    B[kept] = spectrum.vectors * (np.maximum(spectrum.values, 0.0) + prior.ridge) ** (-prior.power / 2)
    return B / np.sqrt(m)[:, None]


def prior_bytes(n_vertices: int, n_kept: int, nnz: int, k: int) -> int:
    """Return what k eigenpairs of so many vertices take, and then the field of them: B twice, and a few numbers each.
    """
    return max(eigenpairs_bytes(n_kept, nnz, k) + 24 * nnz + 16 * n_kept, 8 * n_vertices * (2 * k + 6))
