"""Active learning: which points to label next, by a Gaussian field on the graph, the features, or the current model.

    variance                   the largest posterior variance
    v_optimality               the largest decrease of the trace of the posterior covariance
    sigma_optimality           the largest decrease of its sum
    coverage                   far from labeled points where points are many, in the features (`coverage.py`)
    uncertainty                the smallest margin of the model, times the variance; without a graph, times the squared
                               distance to the nearest labeled point
    model_change_v_optimality  the smallest margin of the model, times v_optimality

Points are selected one after the other, and each counts as labeled for the next ones, so that a batch is diverse. A
component of the graph without a label comes first if it holds at least half of the mean number of points per label;
smaller components come last.

References
----------
Ji, Han, "A variance minimization criterion to active learning on graphs", AISTATS 2012. Ma, Garnett, Schneider,
"Sigma-optimality for active learning on Gaussian random fields", NeurIPS 2013. Miller, Bertozzi, "Model-change active
learning in graph-based semi-supervised learning", 2021 (arXiv 2110.07739), whose low-rank covariance this is too.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, TypedDict, get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from ..base.digest import is_whole, require_random_state
from ..base.errors import BudgetError, DataError, require
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.regularizer import RegularizerParams
from ..graph.spectrum import SpectrumParams, graph_spectrum
from ..graph.vertices import Vertices, distinct_rows
from ..solvers.eigen import eigenpairs_bytes
from ..storage.blocks import Rows
from .coverage import Coverage, Distances

NOISE = 0.1  # variance of a label, relative to the mean variance of the field


@dataclass(eq=False)
class Field:
    """A Gaussian field on the vertices of a graph after some observations; `observe` changes it.

        C = S U (Lambda + ridge I)^-power U' S = B B'

    with the lowest eigenpairs of the Laplacian and S a scale of the vertices. Conditioned on noisy values at some
    vertices the covariance is `B P B'`, and each further one subtracts a rank-one matrix from P (k, k).

    mass (v,) : the points of a vertex. noise : of an observation. variance (v,) : the diagonal of `B P B'`.
    trace_drop (v,) : the decrease of the trace over points by observing a vertex, times the variance of the
    observation. row_sum (v,) : of `B P B'`, over points.
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
        """Condition on one more vertex, by three products with B."""
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
        """Return the decrease of the trace of the covariance of all points by observing each vertex (v,)."""
        return self.trace_drop / (self.noise + self.variance)

    def sum_decrease(self) -> np.ndarray:
        """Return the decrease of the sum of the covariance of all points by observing each vertex (v,)."""
        return self.row_sum**2 / (self.noise + self.variance)


Criterion = Literal["auto", "variance", "v_optimality", "sigma_optimality", "coverage", "uncertainty",
                    "model_change_v_optimality"]
NEEDS_GRAPH = ("variance", "v_optimality", "sigma_optimality", "model_change_v_optimality")  # need a graph
OF_MODEL = ("uncertainty", "model_change_v_optimality")  # need a model
OF_ROWS = ("coverage", "uncertainty")  # need only features
IN_WORDS = {"variance": "the rows of which the graph is least certain",
            "v_optimality": "the rows that reduce the uncertainty about all other rows the most",
            "sigma_optimality": "the rows that reduce the uncertainty about the mean of all rows the most",
            "coverage": "rows far from all labels", "uncertainty": "the rows of which the model is least certain",
            "model_change_v_optimality": "rows of which the model is uncertain, near many other rows"}
MIN_PAIRS, MAX_PAIRS, TOLERANCE = 100, 500, 1e-4  # of eigenpairs


@dataclass(frozen=True, kw_only=True)
class SuggestParams:
    """Which points are suggested.

    count : the number of points. criterion : see the head of this file; "auto" is model_change_v_optimality with a
        model and a graph, v_optimality with only a graph, uncertainty with only a model, or else coverage.
    prior : of the field, whose covariance is `(L + ridge I)^-power` on its lowest eigenvectors.
    eigenpairs : of the Laplacian; None is the number of labels, at least 100 and at most 500, or as many as fit.
    noise : the variance of a label, relative to that of the field.
    random_state : of the start of the eigenpairs, and of the draws of coverage.
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
                why="there is no such criterion",
                fix=f"choose one of {', '.join(get_args(Criterion))}")
        require(self.eigenpairs is None or (is_whole(self.eigenpairs) and self.eigenpairs >= 2),
                f"eigenpairs={self.eigenpairs!r}, expected a whole number >= 2",
                why="the first eigenvector is nearly constant, and so the same for all points", fix="use 50 to 300")
        require(0 < self.noise < np.inf, f"noise={self.noise}, expected > 0",
                why="with exact labels the conditional variance of a labeled vertex is 0 / 0", fix="use 0.01 to 1")
        require_random_state(self.random_state)

    def resolved(self, *, graph: bool, rows: bool, model: bool) -> Criterion:
        """Return the criterion for the available inputs; raise ParameterError if it needs others."""
        if self.criterion == "auto":
            if graph:
                return "model_change_v_optimality" if model else "v_optimality"
            return "uncertainty" if model else "coverage"
        possible = [name for name in get_args(Criterion)[1:] if (graph or name in OF_ROWS) and (
            rows or name != "coverage") and (model or name not in OF_MODEL)]
        missing = "a model of classes" if not model and self.criterion in OF_MODEL else "features"
        if not graph and self.criterion in NEEDS_GRAPH:
            missing = "a graph"
        require(self.criterion in possible, f"criterion={self.criterion!r} without {missing}",
                why="the criterion needs it", fix=f"choose {' or '.join(possible)}")
        return self.criterion


class HowSuggested(TypedDict, total=False):
    """By which criterion points were selected, beside how many labels, and in how many components without one."""

    criterion: Criterion
    in_words: str
    labeled: int
    components_without_label: int


@dataclass(frozen=True, eq=False)
class Suggestion:
    """ids (count,) : the numbers of points to label, the best first; of duplicates the first.

    scores (count,) : the criterion when each was selected, infinite if its component has no label.
    """

    ids: np.ndarray
    scores: np.ndarray
    attributes: HowSuggested = field(default_factory=HowSuggested)


class CriterionScores(Protocol):
    """A criterion: `scores` (v,) of all vertices, given which are allowed; `observe` adds a label."""

    def scores(self, allowed: np.ndarray) -> np.ndarray: ...

    def observe(self, vertex: int) -> None: ...


@dataclass
class FieldScores:
    """A criterion of a field, times the uncertainty of the model (v,)."""

    field: Field
    criterion: Callable[[Field], np.ndarray]
    uncertainty: np.ndarray

    def scores(self, allowed: np.ndarray) -> np.ndarray:
        return self.uncertainty * self.criterion(self.field)

    def observe(self, vertex: int) -> None:
        self.field.observe(vertex)


@dataclass
class DistanceScores:
    """Squared distances to the nearest labeled point, times the uncertainty of the model (v,)."""

    distances: Distances
    uncertainty: np.ndarray

    def scores(self, allowed: np.ndarray) -> np.ndarray:
        return self.uncertainty * self.distances.nearest

    def observe(self, vertex: int) -> None:
        self.distances.observe(vertex)


FIELD_CRITERIA: dict[str, Callable[[Field], np.ndarray]] = {
    "variance": lambda field: field.variance, "v_optimality": Field.trace_decrease,
    "sigma_optimality": Field.sum_decrease,
    "uncertainty": lambda field: field.variance, "model_change_v_optimality": Field.trace_decrease}


def uncertainty_of(scores: np.ndarray) -> np.ndarray:
    """Return 1 less the margin between the two most likely classes (n,) of scores (n, c); 1 where scores are NaN.

    The probabilities are the softmax of the scores over their standard deviation; few labels allow no calibration.
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

    points : which of them are duplicates; at most one of these is suggested. graph : of these points, if there is one.
    rows : their features (n, d), for `OF_ROWS`. labeled : the numbers of the labeled points.
    scores (v, c) : of the classes at distinct points by the current model. prior (v, k) : `prior_of` the graph.
    skipped : the numbers of points that are not suggested, such as outliers.

    Memory: `prior_bytes` for k eigenpairs, or 16 v and a block of rows.

    Raises
    ------
    DataError : fewer than `count` distinct points are unlabeled. ParameterError : an input of the criterion is missing.
    BudgetError : the eigenvectors, or a row, do not fit.
    """
    v = len(points)
    known = np.zeros(v, bool)
    known[points.vertex[labeled]] = True
    excluded = np.zeros(v, bool)
    if skipped is not None:
        excluded[points.vertex[skipped]] = True
    n_unlabeled = int((~known & ~excluded).sum())
    require(n_unlabeled > 0, "every point has a label", why="there is no point left to suggest", error=DataError,
            fix="add unlabeled points, or fit the model")
    require(params.count <= n_unlabeled, f"count={params.count}, and {n_unlabeled:,} distinct points have no label",
            error=DataError, why="a point is labeled once, together with its duplicates",
            fix=f"use count={n_unlabeled} or less")
    name = params.resolved(graph=graph is not None, rows=rows is not None, model=scores is not None)
    component = np.zeros(v, np.int64) if graph is None else graph.components()
    size = np.bincount(component, points.multiplicity)
    uncertainty = uncertainty_of(scores) if name in OF_MODEL and scores is not None else np.ones(v)
    mass = points.multiplicity.astype(np.float64)
    criterion: CriterionScores
    if name == "coverage" or graph is None:
        assert rows is not None  # checked by `resolved`
        distances = Distances(distinct_rows(rows, points, execution), np.flatnonzero(known), execution.memory_budget)
        covers = name == "coverage"
        criterion = Coverage(distances, mass, params.random_state) if covers else DistanceScores(distances, uncertainty)
    else:
        if prior is None:
            prior = prior_of(graph, int(known.sum()) + params.count, params, execution)
        field = Field.of(prior, mass, np.flatnonzero(known), params.noise)
        criterion = FieldScores(field, FIELD_CRITERIA[name], uncertainty)
    selected, gains = _greedy(criterion, known, excluded, component, size, params.count)
    return Suggestion(points.first[selected], np.array(gains), {
        "criterion": name, "in_words": IN_WORDS[name], "labeled": len(labeled), "components_without_label": int(
            len(size) - len(np.unique(component[points.vertex[labeled]])))})


def _greedy(criterion: CriterionScores, known: np.ndarray, excluded: np.ndarray, component: np.ndarray,
            size: np.ndarray, count: int) -> tuple[list[int], list[float]]:
    """Return the vertices that are selected one after the other, and the criterion of each; `known` is changed."""
    possible = np.zeros(len(size), bool)  # components with a vertex that may be selected
    possible[component[~excluded]] = True
    has_label = np.zeros(len(size), bool)
    has_label[component[known]] = True
    selected: list[int] = []
    gains: list[float] = []
    for _ in range(count):
        share = size.sum() / (2 * (known.sum() + 1))
        waiting = np.flatnonzero(~has_label & possible & (size >= share))
        if len(waiting):
            allowed = ~excluded & (component == waiting[size[waiting].argmax()])
        else:
            allowed = ~known & ~excluded & has_label[component]
            allowed = allowed if allowed.any() else ~known & ~excluded
        scores = np.where(allowed, criterion.scores(allowed), -np.inf)
        best = int(scores.argmax())
        gains.append(np.inf if len(waiting) and len(size) > 1 else float(scores[best]))
        selected.append(best)
        criterion.observe(best)
        known[best] = True
        has_label[component[best]] = True
    return selected, gains


def prior_of(graph: Graph, n_labels: int, params: SuggestParams, execution: Execution) -> np.ndarray:
    """Return B (v, k) of the prior covariance `B B'` at points; 0 on components too small for one of `n_labels` labels.

    If `eigenpairs` is None, k is lowered until it fits. Raises BudgetError if not one fits, or fewer than `eigenpairs`.
    """
    m = graph.vertices.multiplicity
    prior = params.prior
    component = graph.components()
    is_large = np.bincount(component, m) >= m.sum() / (2 * n_labels)
    kept = (is_large | ~is_large.any())[component]
    v = int(kept.sum())
    n_edges = graph.attributes["weights"]["nnz"]
    k = min(int(np.clip(n_labels, MIN_PAIRS, MAX_PAIRS)) if params.eigenpairs is None else params.eigenpairs, v)
    budget = execution.memory_budget
    while prior_bytes(len(kept), v, n_edges, k) > budget and k > 1 and params.eigenpairs is None:
        k = 3 * k // 4
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
    """Return the bytes of k eigenpairs, or then of the field: B twice and six numbers a vertex."""
    return max(eigenpairs_bytes(n_kept, nnz, k) + 24 * nnz + 16 * n_kept, 8 * n_vertices * (2 * k + 6))
