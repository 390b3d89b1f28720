"""Ridge regression in a graph kernel, or the average over a family of graph kernels, which needs no tuning.

A kernel is `G = (L_norm + r I)^-p`, or `D^-1/2 G D^-1/2`, for p = 1 `(L + r D)^-1`, divided by its mean diagonal on the
labeled points. Its function `F = G (G_LL + penalty I)^-1 (Y - mean Y)` ranges from interpolation (penalty 0) to
the kernel mean (penalty infinite). All kernels share one Krylov space for each block of labeled points. `average.py`
fits and averages the functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from numbers import Integral

import numpy as np

from ...base.digest import is_real
from ...base.errors import BudgetError, DataError, require
from ...execution.tasks import Execution
from ...graph.functions import GraphFunctions, graph_functions
from ...graph.graph import Graph
from ...graph.solved_functions import FunctionParams
from ...graph.spectral_concentration import POWER, RIDGE, matrix_concentration
from ...solvers.block_tridiagonal import Functions
from ...storage.blocks import block_rng
from ..average import LabelColumns, Member, fit_member, shares_of
from ..target.target import Target
from .model import VertexValues, reachable_vertices

RIDGES, POWERS = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2), (1, 2, 3)
MIN_RIDGE_POWER = 1e-9  # lower bound of ridge^power in the default family
SAMPLE = 1000  # reachable points at which a function is centered and scaled
SAMPLE_STREAM = 11  # of the seed
CONCENTRATION_VERTICES = 32  # from which the spectral concentration of the graph is estimated
CONCENTRATION_KERNEL = RIDGE, POWER

Kernel = tuple[float, int, bool]  # ridge, power, whether it is scaled by degrees
KernelColumns = dict[FunctionParams, "KernelRows"]  # of one graph and its labeled points
LastKernelRows = dict[bytes, "KernelRows"]  # of one graph and family, those of the last set of labeled points


@dataclass(frozen=True, kw_only=True)
class GraphRidgeParams:
    """The family: every ridge with every power, plain, scaled by degrees, or both.

    ridge : None takes those of `RIDGES` with ridge^power >= `MIN_RIDGE_POWER`. by_degree : kernels scaled by degrees
        are better with one label a class (`tests/benchmarks/low_labels.py`).
    penalty : added to the diagonal of a kernel of unit mean diagonal; inf is the kernel mean.
    weighting : "loo" for shares by leave-one-out residuals, "equal" for equal shares.
    """

    ridge: tuple[float, ...] | None = None
    power: tuple[int, ...] = POWERS
    by_degree: tuple[bool, ...] = (True,)
    penalty: float = 0.1
    weighting: str = "loo"
    functions: FunctionParams = field(default_factory=FunctionParams)
    random_state: int = 0

    def __post_init__(self) -> None:
        ridges = RIDGES if self.ridge is None else self.ridge
        require(len(ridges) > 0 and all(_number(value) and 1e-9 <= value < np.inf for value in ridges),
                f"ridge={self.ridge!r}, expected numbers >= 1e-9", why="without a ridge a kernel is singular",
                fix="use 1e-5 to 0.1; the smaller, the farther a label reaches")
        require(len(self.power) > 0 and all(isinstance(value, Integral) and 1 <= value <= 8 for value in self.power),
                f"power={self.power!r}, expected whole numbers from 1 to 8", why="the kernel is a power of the inverse",
                fix="use 1, 2 and 3; larger is smoother")
        require(len(self.by_degree) > 0, "by_degree has no value", why="the family would be empty",
                fix="use (True,), or (False, True) for both")
        require(_number(self.penalty) and self.penalty > 0, f"penalty={self.penalty!r}, expected a number > 0, or inf",
                why="it weighs the labels against the norm", fix="use 0.01 to 1")
        require(self.weighting in ("loo", "equal"), f"weighting={self.weighting!r}",
                why="kernels are weighted by leave-one-out residuals, or equally", fix='use "loo" or "equal"')

    @property
    def equal_shares(self) -> bool:
        return self.weighting == "equal" or bool(np.isinf(self.penalty))

    @property
    def kernels(self) -> list[Kernel]:
        pairs = product(RIDGES if self.ridge is None else self.ridge, self.power)
        return [(ridge, power, by_degree) for ridge, power in pairs for by_degree in self.by_degree
                if self.ridge is not None or ridge**power >= 0.99 * MIN_RIDGE_POWER]


def _number(value: object) -> bool:
    return is_real(value) and value == value


@dataclass(frozen=True, eq=False)
class GraphMembers:
    """The functions of a family, one member for each kernel.

    reachable (v,) bool : the reachable vertices.
    of_label (l,), of_sample (s,) : the connected components of the labeled and of the sampled points.
    """

    kernels: list[Kernel]
    members: list[Member]
    rows: "KernelRows"
    reachable: np.ndarray
    of_label: np.ndarray
    of_sample: np.ndarray

    def average(self, shares: np.ndarray) -> VertexValues:
        """Return the average of the members with shares (m,), at all vertices, and its leave-one-out values."""
        pairs = _pairs(self.kernels)
        rows, c = self.rows, self.members[0].coef.shape[1]
        n_columns = rows.functions.values.shape[2]
        coef = np.zeros((len(pairs), n_columns, 2 * c))
        for (ridge_, power, by_degree), member, share in zip(self.kernels, self.members, shares, strict=True):
            scaled = rows.scales[by_degree][rows.of_label][:, None] * member.coef * (share / member.scale)
            block = coef[pairs.index((ridge_, power)), :, c * by_degree:c * (1 + by_degree)]
            np.add.at(block, rows.of_point, scaled)
        both = rows.functions.combined(coef)
        values = rows.scales[False][:, None] * both[:, :c] + rows.scales[True][:, None] * both[:, c:]
        values -= sum(share * member.center / member.scale for member, share in zip(self.members, shares, strict=True))
        values[~self.reachable] = 0
        held_out = np.sum([share * member.standardized for member, share in zip(self.members, shares, strict=True)],
                          axis=0)
        return VertexValues(values, self.reachable, held_out, {"functions": rows.functions.attributes, "kernels": [
            {"ridge": ridge_, "power": power, "by_degree": by_degree, "share": float(share)}
            for (ridge_, power, by_degree), share in zip(self.kernels, shares, strict=True)]})


def _pairs(kernels: Sequence[Kernel]) -> list[tuple[float, int]]:
    return list(dict.fromkeys((ridge, power) for ridge, power, _ in kernels))


def fit_graph_ridge(graph: Graph, target: Target, weight: np.ndarray | None, params: GraphRidgeParams,
                    execution: Execution, columns: KernelColumns | None = None) -> VertexValues:
    """Return the family's average on the vertices, and exact leave-one-out values of the labeled points.

    columns : a cache of kernel columns for `held_out_graph_ridge`. Raises BudgetError: the kernels' matrices of the
    labeled points do not fit. NotConverged. DataError: there is only one label.
    """
    if target.unit != 1:
        return fit_graph_ridge(graph, target.in_units(), weight, params, execution, columns).times(target.unit)
    members = graph_members(graph, target, weight, params, execution)
    if columns is not None:
        columns[params.functions] = members.rows
    m = len(members.members)
    return members.average(np.full(m, 1 / m) if params.equal_shares else shares_of(
        [member.held_out for member in members.members], target, weight))


def members_bytes(n_labeled: int, n_kernels: int) -> int:
    """Return the bytes of the kernels' matrices of labeled and sampled points."""
    return 8 * n_kernels * n_labeled * (n_labeled + SAMPLE)


def graph_members(graph: Graph, target: Target, weight: np.ndarray | None, params: GraphRidgeParams,
                  execution: Execution, *, blended: bool = False, last: LastKernelRows | None = None) -> GraphMembers:
    """Return the functions of all kernels of a family; errors as `fit_graph_ridge`.

    last : what an earlier fit has left, which serves labels of the same points.

    blended : whether to compute `Member.group_held_out` and the spectral concentration of the graph, on at least
        `CONCENTRATION_VERTICES` labeled or sampled vertices.
    """
    vertices, kernels = graph.vertices, params.kernels
    require(len(target.labeled) > 1, "one labeled point", why="kernels are weighted by held-out labels",
            fix="label a second point", error=DataError)
    reachable, component = reachable_vertices(graph, vertices.vertex[target.labeled])
    sample = sampled(reachable[vertices.vertex], params.random_state)
    n_extra = 0 if not blended else CONCENTRATION_VERTICES - len(np.unique(vertices.vertex[target.labeled]))
    extra = block_rng(params.random_state, SAMPLE_STREAM, 1).permutation(sample)[:max(n_extra, 0)]
    last = {} if last is None else last
    key = target.labeled.tobytes()
    if key not in last:
        last.clear()
        last[key] = KernelRows.of(graph, target.labeled, sample, kernels, params.functions, execution, extra, blended)
    rows = last[key]
    labels = LabelColumns(target, weight)
    members = [fit_member(*rows.blocks(kernel), labels, params.penalty, grouped=blended) for kernel in kernels]
    return GraphMembers(kernels, members, rows, reachable, component[vertices.vertex[target.labeled]],
                        component[vertices.vertex[rows.sample]])


@dataclass(frozen=True, eq=False)
class KernelRows:
    """Kernels between the labeled points and the points `sample` (s,), as columns of functions on the graph.

    scales (v,) : the factors of a kernel on both sides, plain and by degrees, which turn vertices into points.
    of_label (l,), of_row (l + s,) : the vertices of labels and of all points; of_point, place : their positions among
    columns and rows. concentration : the spectral concentration of the graph, if computed.
    """

    pairs: list[tuple[float, int]]
    functions: GraphFunctions
    scales: dict[bool, np.ndarray]
    sample: np.ndarray
    of_label: np.ndarray
    of_point: np.ndarray
    of_row: np.ndarray
    place: np.ndarray
    concentration: float | None

    @classmethod
    def of(cls, graph: Graph, labeled: np.ndarray, sample: np.ndarray, kernels: Sequence[Kernel],
           params: FunctionParams, execution: Execution, extra: Sequence[int] | np.ndarray = (),
           concentrated: bool = False) -> "KernelRows":
        """Return the kernels; raise BudgetError where their matrices do not fit, and NotConverged.

        extra : further points with columns. concentrated : whether to compute `concentration`.
        """
        needed = members_bytes(len(labeled), len(kernels))
        require(needed <= execution.memory_budget, f"{len(labeled):,} labeled points and {len(kernels)} kernels",
                error=BudgetError,
                why=f"their matrices take {needed:,} bytes, the budget is {execution.memory_budget:,}",
                fix=f"use LaplaceLearning, fewer ridges and powers, or a memory_budget of {needed:,} bytes")
        of_label, pairs = graph.vertices.vertex[labeled], _pairs(kernels)
        columns = np.union1d(of_label, graph.vertices.vertex[np.asarray(extra, np.int64)])
        of_point = np.searchsorted(columns, of_label)
        of_row = np.concatenate([of_label, graph.vertices.vertex[sample]])
        unique, place = np.unique(of_row, return_inverse=True)
        functions = graph_functions(graph, columns, unique, Functions(*zip(*pairs, strict=True)), params, execution)
        concentration = None
        if concentrated:  # from the self-similarities of the columns' vertices
            values = functions.values[pairs.index(CONCENTRATION_KERNEL)]
            diagonal = values[np.searchsorted(unique, columns), np.arange(len(columns))]
            weight = 1 / graph.vertices.multiplicity[columns]
            concentration = matrix_concentration(diagonal, columns, functions.A, *CONCENTRATION_KERNEL, weight)
        by_degree = 1 / np.sqrt(np.where(functions.degrees > 0, functions.degrees, 1.0))
        return cls(pairs, functions, {False: 1 / np.sqrt(graph.vertices.multiplicity), True: by_degree}, sample,
                   of_label, of_point, of_row, place, concentration)

    def has(self, kernels: Sequence[Kernel]) -> bool:
        return {*_pairs(kernels)} <= {*self.pairs}

    def blocks(self, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        """Return a kernel of the labeled points (l, l), and of sampled and labeled points (s, l)."""
        ridge_, power, by_degree = kernel
        s, values = self.scales[by_degree], self.functions.values[self.pairs.index((ridge_, power))]
        K = s[self.of_row][:, None] * values[self.place][:, self.of_point] * s[self.of_label]
        return K[:len(self.of_label)], K[len(self.of_label):]


def sampled(reachable: np.ndarray, random_state: int) -> np.ndarray:
    """Return the numbers of at most `SAMPLE` random points that are `reachable`, (n,) bool, ascending.

    They are the first in a random order of all points, so the sample changes little with `reachable`.
    """
    order = block_rng(random_state, SAMPLE_STREAM).permutation(len(reachable))
    return np.sort(order[reachable[order]][:SAMPLE])
