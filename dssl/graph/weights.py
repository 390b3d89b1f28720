"""Weights of the neighbor graph: a symmetric sparse matrix, made and stored in blocks of rows.

    binary      w = 1
    heat        w = exp(-d^2 / (2 h^2)), one bandwidth h; by default the median distance to the k-th neighbor
    self_tuned  w = exp(-d_ij^2 / (width^2 s_i s_j)), s_i the distance of point i to its k-th neighbor
                (Zelnik-Manor, Perona, "Self-tuning spectral clustering", NIPS 2004, with width 1)

A weight that underflows makes the Laplacian useless to iterative solvers and infinite to multigrid, so none is
smaller than 1e-10 of the median; how many were raised to that floor is counted.
"""

import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from ..errors import DataError, IntegrityError, explain, require
from ..execution.cost import Cost, block_count, cost_of
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..storage.blocks import Parts, PartWriter, Receipt, row_ranges
from .neighbor_lists import Neighbors

KINDS = ("binary", "heat", "self_tuned")
SYMMETRIZATIONS = ("maximum", "minimum", "mean")
FLOOR = 1e-10  # of the median weight
# Of self-tuned weights: for learners on the graph, and for those with a base kernel. Half gives the former 1.5 to 3
# points at every label rate; the latter lose up to 12 by it at one label a class, and 14 on two moons at five.
WIDTH, KERNEL_WIDTH = 0.5, 1.0
FEW_RAISED = 0.02  # of all entries
LEAST_LOG = -600.0  # exp(-708) is the last normal float64
BLOCK_ROWS = 1 << 16
MEDIAN_ENTRIES = 10_000_000


@dataclass(frozen=True, kw_only=True)
class WeightParams:
    """How lists become weights.

    kind : "binary", "heat" or "self_tuned".
    bandwidth : h of "heat", in units of distance; None takes the median distance to the k-th neighbor.
    width : of "self_tuned", in units of the distances to the k-th neighbors. The smaller, the less a far neighbor
        counts beside a near one; 0.5 has a k-th neighbor count exp(-4). Other kinds do not read it.
    symmetrize : of the two directed weights of a pair, 0 where one does not list the other, take the "maximum"
        (an edge where either lists the other), the "minimum" (where both do) or the "mean".
    """

    kind: Literal["binary", "heat", "self_tuned"] = "self_tuned"
    bandwidth: float | None = None
    width: float = WIDTH
    symmetrize: Literal["maximum", "minimum", "mean"] = "maximum"

    def __post_init__(self) -> None:
        require(self.kind in KINDS, f"kind={self.kind!r}, expected one of {KINDS}",
                why="no other weight is defined", fix='use "self_tuned", which needs no bandwidth')
        require(self.symmetrize in SYMMETRIZATIONS,
                f"symmetrize={self.symmetrize!r}, expected one of {SYMMETRIZATIONS}",
                why="a Laplacian needs one weight per pair", fix='use "maximum", which isolates no point')
        distance = isinstance(self.bandwidth, Real) and 1e-100 <= float(self.bandwidth) <= 1e100
        require(self.bandwidth is None or (self.kind == "heat" and distance),
                f"bandwidth={self.bandwidth!r} with kind={self.kind!r}",
                why="only heat weights have a bandwidth, and it is a distance, 1e-100 to 1e100",
                fix="leave bandwidth out, or choose a distance between near points")
        number = isinstance(self.width, Real) and not isinstance(self.width, bool) and 1e-3 <= float(self.width) <= 1e3
        require(number, f"width={self.width!r}, expected 0.001 to 1000", why="it is a multiple of the distances to the "
                "k-th neighbors", fix=f"leave width at {WIDTH}, or try 0.35 to 1")


@dataclass(frozen=True)
class WeightRule:
    """Parameters with everything that depends on all lists filled in.

    scale : the bandwidth of "heat", the width of "self_tuned". least_log : the log of the least weight.
    """

    kind: str
    scale: float
    least_log: float

    def log_weights(self, distances: np.ndarray, scales: np.ndarray, other_scales: np.ndarray) -> np.ndarray:
        """Return the log weights of edges of these lengths between points of these scales; 0 between copies."""
        squared = distances.astype(np.float64) ** 2
        if self.kind == "binary":
            return np.zeros_like(squared)
        if self.kind == "heat":
            return -squared / (2 * self.scale**2)
        product = scales * other_scales
        # A point whose k nearest are all copies of it has no scale; it takes the other's.
        product = np.where(product > 0, product, np.maximum(scales, other_scales) ** 2)
        return -np.divide(squared, self.scale**2 * product, out=np.zeros_like(squared), where=squared > 0)

    def weights(self, distances: np.ndarray, scales: np.ndarray, other_scales: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the weights and the number of those raised to the floor."""
        logs = self.log_weights(distances, scales, other_scales)
        low = logs < self.least_log
        return np.exp(np.where(low, self.least_log, logs)), int(low.sum())


def _blocks(neighbors: Neighbors) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    return neighbors.blocks(max(1, BLOCK_ROWS * 10 // neighbors.k))


def kth_distances(neighbors: Neighbors) -> np.ndarray:
    """Return the distance of each point to its last neighbor, (n,) float64; 0 for a point without any."""
    return np.concatenate([distances[:, -1] if (ids[:, -1] >= 0).all() else np.where(ids >= 0, distances, 0).max(axis=1)
                           for _, ids, distances in _blocks(neighbors)]).astype(np.float64)


def weight_rule(neighbors: Neighbors, params: WeightParams) -> WeightRule:
    """Return the rule of these lists; reads them twice, and keeps 8 bytes a point and up to 80 MB of weights."""
    if params.kind == "binary":
        return WeightRule("binary", 1.0, -np.inf)
    scales = kth_distances(neighbors)
    positive = scales[scales > 0]
    typical = float(np.median(positive)) if len(positive) else 1.0  # copies say nothing about the scale
    bandwidth = typical if params.bandwidth is None else params.bandwidth
    rule = WeightRule(params.kind, bandwidth if params.kind == "heat" else params.width, -np.inf)
    step = max(1, -(-len(neighbors) * neighbors.k // MEDIAN_ENTRIES))
    logs = []
    for first, ids, distances in _blocks(neighbors):
        row, column = np.nonzero(ids[::step] >= 0)
        logs.append(rule.log_weights(distances[::step][row, column], scales[first:first + len(ids):step][row],
                                     scales[ids[::step][row, column]]))
    median = float(np.median(np.concatenate(logs)))
    name, near = ("width", f"{WIDTH}") if params.kind == "self_tuned" else (
        "bandwidth", f"{typical:.3g}, the median distance to the k-th neighbor")
    require(median > LEAST_LOG, f"with {name}={rule.scale:.3g} the median weight is exp({median:.4g})",
            why="half of all weights, or more, are zero in float64", fix=f"choose a {name} near {near}")
    return replace(rule, least_log=median + float(np.log(FLOOR)))


def weights_in_rows(start: int, stop: int, n: int, lists: Iterator[tuple[int, np.ndarray, np.ndarray]],
                    scales: np.ndarray, rule: WeightRule, symmetrize: str) -> tuple[sp.csr_array, int]:
    """Return rows [start, stop) of W as CSR (stop - start, n), and how many of their own list entries were raised.

    `lists` runs over the lists of all n rows: an edge is in these rows if it starts or ends there. An id of -1 ends a
    list that is shorter than others.
    """
    leaving, entering, raised = [], [], 0
    for first, ids, distances in lists:
        rows = np.repeat(np.arange(first, first + len(ids)), ids.shape[1])
        columns, lengths = ids.ravel(), distances.ravel()
        mine = (rows >= start) & (rows < stop) & (columns >= 0)
        i, j = rows[mine], columns[mine]
        values, low = rule.weights(lengths[mine], scales[i], scales[j])
        leaving.append((i, j, values))
        raised += low
        mine = (columns >= start) & (columns < stop)
        i, j = rows[mine], columns[mine]
        entering.append((j, i, rule.weights(lengths[mine], scales[i], scales[j])[0]))
    out, back = _assemble(leaving, start, stop, n), _assemble(entering, start, stop, n)
    W = sp.csr_array((out + back) * 0.5 if symmetrize == "mean" else getattr(out, symmetrize)(back))
    W.eliminate_zeros()
    W.sort_indices()
    return W, raised


def _assemble(triples: list[tuple[np.ndarray, np.ndarray, np.ndarray]], start: int, stop: int, n: int) -> sp.csr_array:
    rows, columns, values = (np.concatenate(column) for column in zip(*triples, strict=True))
    return sp.csr_array((values, (rows - start, columns)), shape=(stop - start, n))


@dataclass(frozen=True)
class WeightsTask:
    """Write rows [start, stop) of W as `data`, `indices` (columns of W) and `indptr`; reads all lists by blocks.

    Takes 8 n bytes for the scales, and about 100 bytes per edge of its rows.
    """

    neighbors: Neighbors
    rule: WeightRule
    symmetrize: str
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        n = len(self.neighbors)
        scales = kth_distances(self.neighbors) if self.rule.kind == "self_tuned" else np.zeros(n)
        W, raised = weights_in_rows(self.start, self.stop, n, _blocks(self.neighbors), scales, self.rule,
                                    self.symmetrize)
        receipt = out.write(data=W.data, indices=W.indices.astype(np.int32 if n < 2**31 else np.int64),
                            indptr=W.indptr.astype(np.int64))
        return {**receipt, "rows": [self.start, self.stop], "n": n, "nnz": int(W.nnz), "raised": raised}


def weigh(neighbors: Neighbors, params: WeightParams, execution: Execution, parts: Parts,
          block_rows: int = BLOCK_ROWS) -> dict[str, Any]:
    """Write W into `parts`, one part a block of rows, to be read by `read_graph`; return its attributes (JSON).

    The attributes: parameters, the bandwidth used, `nnz`, `entries` (of all lists), `floor` (the least weight) and
    `raised` (the list entries that were below it).
    """
    n = len(neighbors)
    rule = weight_rule(neighbors, params)
    receipts = execution.map([WeightsTask(neighbors, rule, params.symmetrize, start, stop)
                              for start, stop in row_ranges(n, block_rows)], parts)
    return {**asdict(params), "bandwidth": rule.scale if params.kind == "heat" else None,
            "width": rule.scale if params.kind == "self_tuned" else None, "n": n,
            "nnz": sum(receipt["nnz"] for receipt in receipts),
            "entries": neighbors.attributes.get("entries", n * neighbors.k),
            "floor": float(np.exp(rule.least_log)), "raised": sum(receipt["raised"] for receipt in receipts)}


def weights_cost(n: int, k: int, nnz: int, kind: str) -> Cost:
    """Return what `weigh` takes for k neighbors a row and a W of nnz entries.

    In a task the entries of a block of rows, in both directions, before and after they are joined (130 bytes each,
    measured), and the scales of all points twice; in the driver a median.
    """
    tasks, entries = block_count(n, BLOCK_ROWS), n * k
    tuned, block = kind == "self_tuned", 130 * min(n, BLOCK_ROWS) * k
    median = 0 if kind == "binary" else 24 * min(entries, MEDIAN_ENTRIES) + 24 * n
    return cost_of(tasks, (tasks * (1 + tuned) + 2 * (median > 0)) * 12 * entries, 12 * nnz + 8 * n,
                   max(block + 16 * n * tuned, median), block)


def read_graph(parts: Parts) -> sp.csr_array:
    """Return the matrix (n, n) whose rows `weigh` wrote.

    Raises
    ------
    IntegrityError : a block of rows is missing.
    """
    receipts = parts.receipts()
    pieces, stop, n = [], 0, 0
    for index in sorted(receipts):
        (start, end), n = receipts[index]["rows"], receipts[index]["n"]
        if start != stop:
            break
        part, stop = parts.read(index), end
        # Pointers as narrow as the columns: SciPy widens both to the wider.
        indptr = part["indptr"].astype(np.int32 if len(part["data"]) < 2**31 else np.int64)
        pieces.append(sp.csr_array((part["data"], part["indices"], indptr), shape=(end - start, n)))
    require(bool(pieces) and stop == n, f"the graph ends at row {stop} of {n}", error=IntegrityError,
            why="a block of rows was never written", fix="run the weights again: finished blocks are kept")
    W = sp.vstack(pieces, format="csr")
    W.has_sorted_indices = True
    return W


class WeightsRaised(UserWarning):
    """Some weights were below the floor."""


def warn_raised(attributes: dict[str, Any], stacklevel: int = 4) -> None:
    """Warn with WeightsRaised if weights with these attributes were raised to the floor.

    Of self-tuned weights a few always are, where a point far from others lists one among its near neighbors: no more
    than `FEW_RAISED` of them are told by the report alone.
    """
    if attributes["raised"] > (FEW_RAISED * attributes["entries"] if attributes["kind"] == "self_tuned" else 0):
        warnings.warn(explain(
            f"{attributes['raised']} of {attributes['entries']} weights were below {attributes['floor']:.3g}",
            why="they are zero beside the others, and were raised to 1e-10 of the median weight",
            fix={"heat": "choose a larger bandwidth, or self_tuned weights",
                 "self_tuned": "choose a larger width, or drop points far from others",
                 "given": "give weights that differ less"}.get(attributes["kind"], "drop points far from others"),
        ), WeightsRaised, stacklevel=stacklevel)


def weights(neighbors: Neighbors, kind: str = "self_tuned", *, bandwidth: float | None = None, width: float = WIDTH,
            symmetrize: str = "maximum", execution: Execution | None = None) -> sp.csr_array:
    """Return the symmetric weights W (n, n) of neighbor lists; sorted indices, float64, zero diagonal.

    Warns
    -----
    WeightsRaised : weights below 1e-10 of the median were raised to that floor; bandwidth or width is too small.

    Raises
    ------
    ParameterError : no neighbor lists, an unknown kind, or a bandwidth or width at which the median weight is zero.
    DataError : a list names a point that does not exist, or its own.
    """
    params = WeightParams(kind=kind, bandwidth=bandwidth, width=width, symmetrize=symmetrize)  # type: ignore[arg-type]
    require(isinstance(neighbors, Neighbors), f"neighbors is of type {type(neighbors).__name__}",
            why="weights are made of neighbor lists", fix="pass dssl.neighbors(X); a graph has graph.weights()")
    _check_lists(neighbors)
    execution = execution or InProcess()
    parts = execution.scratch()
    attributes = weigh(neighbors, params, execution, parts)
    warn_raised(attributes, stacklevel=3)
    return read_graph(parts)


def _check_lists(neighbors: Neighbors) -> None:
    for first, ids, _ in _blocks(neighbors):
        own = first + np.arange(len(ids))
        wrong = (ids < 0) | (ids >= len(neighbors)) | (ids == own[:, None])
        require(not wrong.any(), f"the list of point {first + int(wrong.any(axis=1).argmax())} is not valid: "
                f"{ids[wrong.any(axis=1)][:1].tolist()}", error=DataError,
                why="a neighbor is one of the other points", fix="make the lists with dssl.neighbors")
