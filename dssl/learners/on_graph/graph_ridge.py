"""Ridge regression in graph kernels: one, or the average of a family of them, which needs no tuning.

A kernel of the family is `G = (L_norm + r I)^-p`, or `D^-1/2 G D^-1/2`, which for p = 1 is `(L + r D)^-1`, divided
by its mean diagonal on the labeled points. Its function is `F = G (G_LL + penalty I)^-1 (Y - mean Y)`, from
interpolation (penalty 0) to the kernel mean (penalty infinite). All kernels share one Krylov space a labeled point, and
all are evaluated at all vertices at once.

Classes: each F is centered, divided by its standard deviation over all points, and the weighted sum of all is what
predicts. Quantities: the weighted mean of `F + mean Y`.

Shares in the average, from the exact leave-one-out residuals e_m of each kernel m (`learners/closed_form.py`): in
proportion to `exp(-sum |e_m|^2 / (2 s^2))`, with s = 1 for classes coded 0 and 1, and of quantities the root mean
squared residual of the best. With one label a class all count alike, and with many the best few decide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from numbers import Integral, Real
from typing import Any

import numpy as np

from ...errors import BudgetError, require
from ...execution.tasks import Execution
from ...graph.functions import FunctionParams, LaplacianKind, graph_functions, laplacian_of
from ...graph.graph import Graph
from ...solvers.lanczos import Functions
from ...storage.blocks import block_rng
from ..closed_form import held_out_ridge, kept_means
from ..ridge_and_svm import mean_diagonal, ridge
from ..target import Target
from .vertex_labels import VertexValues, reached_vertices

RIDGES, POWERS = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2), (1, 2, 3)
LEAST = 1e-9  # ridge^power of the default family: a kernel beyond it is its smallest eigenvalues, which p = 1 has too
SAMPLE = 1000  # reached points at which a function is centered and scaled
SAMPLE_STREAM = 11  # of the seed


@dataclass(frozen=True, kw_only=True)
class GraphRidgeParams:
    """The family: every ridge with every power, plain or scaled by degrees or both.

    ridge : None takes those of `RIDGES` whose power is `LEAST` or more. On 16 unlike sets, scaling by degrees alone was
        1.6 points above both together at one label a class, and never below by more than 0.1 (see the benchmark
        `graph_family`).
    penalty : added to the diagonal of a kernel of unit mean diagonal; inf is the kernel mean.
    weighting : "loo" has shares by leave-one-out residuals, "equal" equal ones, as kernel means have.
    functions : how columns are computed.
    """

    ridge: tuple[float, ...] | None = None
    power: tuple[int, ...] = POWERS
    by_degree: tuple[bool, ...] = (True,)
    penalty: float = 0.1
    weighting: str = "loo"
    functions: FunctionParams = field(default_factory=FunctionParams)
    seed: int = 0

    def __post_init__(self) -> None:
        ridges = RIDGES if self.ridge is None else self.ridge
        require(len(ridges) > 0 and all(_number(own) and 1e-9 <= own < np.inf for own in ridges),
                f"ridge={self.ridge!r}, expected numbers >= 1e-9", why="without a ridge a kernel is singular",
                fix="use 1e-5 to 0.1; the smaller, the farther a label reaches")
        require(len(self.power) > 0 and all(isinstance(own, Integral) and 1 <= own <= 8 for own in self.power),
                f"power={self.power!r}, expected whole numbers from 1 to 8", why="the kernel is a power of the inverse",
                fix="use 1, 2 and 3; larger is smoother")
        require(len(self.by_degree) > 0, "by_degree has no value", why="the family would be empty",
                fix="use (True,), or (False, True) for both")
        require(_number(self.penalty) and self.penalty > 0, f"penalty={self.penalty!r}, expected a number > 0, or inf",
                why="it weighs the labels against the norm", fix="use 0.01 to 1")
        require(self.weighting in ("loo", "equal"), f"weighting={self.weighting!r}",
                why="kernels count by their leave-one-out residuals, or alike", fix='use "loo" or "equal"')

    @property
    def kernels(self) -> list[tuple[float, int, bool]]:
        """Return ridge, power, and whether degrees scale, of each kernel."""
        pairs = product(RIDGES if self.ridge is None else self.ridge, self.power)
        return [(ridge, power, by_degree) for ridge, power in pairs for by_degree in self.by_degree
                if self.ridge is not None or ridge**power >= 0.99 * LEAST]


def _number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == value


@dataclass(frozen=True, eq=False)
class Member:
    """The function of a kernel: coefficients (l, c), what its values are centered at (c,) and divided by.

    held_out (l, c) : the values of labeled points without their own labels, with the mean of the others, in units of Y.
    standardized (l, c) : the same, centered and divided.
    """

    coef: np.ndarray
    center: np.ndarray
    scale: float
    held_out: np.ndarray
    standardized: np.ndarray


def fit_graph_ridge(graph: Graph, target: Target, weight: np.ndarray | None, params: GraphRidgeParams,
                    execution: Execution) -> VertexValues:
    """Return the family's average on the vertices, and exact leave-one-out values of the labeled points.

    Raises
    ------
    BudgetError : the kernels' matrices of the labeled points do not fit, l^2 numbers each. NotConverged.
    """
    Y, vertices, kernels = target.indicators(), graph.vertices, params.kernels
    m, c = Y.shape
    needed = 8 * len(kernels) * m * (m + SAMPLE)
    require(needed <= execution.memory_budget, f"{m:,} labeled points and {len(kernels)} kernels", error=BudgetError,
            why=f"their matrices take {needed:,} bytes, the budget is {execution.memory_budget:,}",
            fix="use LaplaceLearning, fewer ridges and powers, or a larger budget")
    of_label = vertices.vertex[target.labeled]
    columns, of_point = np.unique(of_label, return_inverse=True)
    reached, _ = reached_vertices(graph, columns)
    sample = _sampled(np.flatnonzero(reached[vertices.vertex]), params.seed)
    rows = np.concatenate([of_label, vertices.vertex[sample]])
    unique, place = np.unique(rows, return_inverse=True)
    pairs = list(dict.fromkeys((ridge, power) for ridge, power, _ in kernels))
    functions = Functions(*zip(*pairs, strict=True))
    found = graph_functions(graph, columns, unique, functions, params.functions, execution)
    scales = _coordinates(graph, params.functions.laplacian, execution)
    classes = target.n_strata > 1
    members = []
    for ridge_, power, by_degree in kernels:
        s = scales[by_degree]
        K = s[rows][:, None] * found.values[pairs.index((ridge_, power))][place][:, of_point] * s[of_label]
        members.append(_member(K[:m], K[m:], Y, weight, params.penalty, classes))
    alike = params.weighting == "equal" or np.isinf(params.penalty)
    shares = np.full(len(members), 1 / len(members)) if alike else shares_of(
        [own.held_out for own in members], Y, weight, classes)
    coef = np.zeros((len(functions), len(columns), 2 * c))
    for (ridge_, power, by_degree), own, share in zip(kernels, members, shares, strict=True):
        of_columns = np.zeros((len(columns), c))
        np.add.at(of_columns, of_point, scales[by_degree][of_label][:, None] * own.coef * (share / own.scale))
        coef[pairs.index((ridge_, power)), :, c * by_degree:c * (1 + by_degree)] += of_columns
    both = found.combined(coef)
    values = scales[False][:, None] * both[:, :c] + scales[True][:, None] * both[:, c:]
    values -= sum(share * own.center / own.scale for own, share in zip(members, shares, strict=True))
    values[~reached] = 0
    held_out = np.sum([share * own.standardized for own, share in zip(members, shares, strict=True)], axis=0)
    return VertexValues(values, reached, held_out, {"functions": found.attributes, "kernels": [
        {"ridge": ridge_, "power": power, "by_degree": by_degree, "share": float(share)}
        for (ridge_, power, by_degree), share in zip(kernels, shares, strict=True)]})


def _sampled(points: np.ndarray, seed: int) -> np.ndarray:
    if len(points) <= SAMPLE:
        return points
    return np.sort(block_rng(seed, SAMPLE_STREAM).choice(points, SAMPLE, replace=False))


def _coordinates(graph: Graph, kind: LaplacianKind, execution: Execution) -> dict[bool, np.ndarray]:
    """Return by what (v,) a kernel of vertices is scaled on both sides, plain and by degrees, to be one of points."""
    laplacian = laplacian_of(graph.stored, graph.copies(execution), kind)
    degrees = laplacian.degrees
    return {False: 1 / np.sqrt(graph.vertices.multiplicity), True: 1 / np.sqrt(np.where(degrees > 0, degrees, 1.0))}


def _member(K: np.ndarray, sampled: np.ndarray, Y: np.ndarray, weight: np.ndarray | None, penalty: float,
            classes: bool) -> Member:
    """Return the function of one kernel from its rows at the labeled points (l, l), and at sampled ones (s, l)."""
    K = (K + K.T) / 2  # columns are computed to a tolerance
    folds, scale = list(np.arange(len(K))[:, None]), mean_diagonal(K, weight)
    w = np.ones(len(K)) if weight is None else weight
    if np.isinf(penalty):
        mean = np.average(Y, axis=0, weights=w)
        coef, kept = w[:, None] * (Y - mean) / scale, kept_means(Y, folds, weight)
        # The sum over the other points of K_ij w_j (Y_j - their mean).
        own = np.diagonal(K) * w
        held_out = kept + (K @ (w[:, None] * Y) - own[:, None] * Y - (K @ w - own)[:, None] * kept) / scale
    else:
        coef, mean = ridge(K, Y, 1 / penalty, weight)
        held_out = held_out_ridge(K / scale, Y, folds, np.full(len(K), penalty), weight)
    if not classes:
        return Member(coef, -mean, 1.0, held_out, held_out)
    F = sampled @ coef
    center = F.mean(axis=0)
    spread = float((F - center).std()) or 1.0
    return Member(coef, center, spread, held_out, (held_out - mean - center) / spread)


def shares_of(held_out: Sequence[np.ndarray], Y: np.ndarray, weight: np.ndarray | None, classes: bool) -> np.ndarray:
    """Return the shares (m,) in an average of functions from their held-out values (l, c) of Y; they sum to 1.

    Their log is minus half the sum of squared residuals, in units of 1, or of quantities of the smallest mean of all.
    """
    w = np.ones(len(Y)) if weight is None else weight / weight.mean()
    losses = np.array([float((w * ((own - Y) ** 2).sum(axis=1)).sum()) for own in held_out])
    unit = 1.0 if classes else max(float(losses.min()) / len(Y), np.finfo(float).tiny)
    shares = np.exp(-(losses - losses.min()) / (2 * unit))
    return shares / shares.sum()
