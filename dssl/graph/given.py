"""A given graph, by its weights or by neighbor lists, checked and converted to the form of graphs made here."""

import warnings
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..base.digest import JsonObject
from ..base.errors import DataError, explain, require
from ..execution.cost import Cost, cost_of
from ..knn.lists import Neighbors
from ..storage.blocks import ArrayRows, PartWriter, Receipt
from .laplacian import check_weights
from .weights.rules import FLOOR, GIVEN

# Weights (n, n), Neighbors, or a pair of ids and distances, both (n, k).
WeightsOrLists: TypeAlias = sp.sparray | sp.spmatrix | Neighbors | Sequence[ArrayLike]
NO_NEIGHBOR = -1  # the id that pads shorter lists
SHOWN = 5
# A graph of at least `DENSE_MIN_POINTS` points that joins a larger share of all pairs is warned of.
DENSE_SHARE, DENSE_MIN_POINTS = 0.5, 50
LARGEST_DISTANCE = np.float64(1e150)  # whose square is still a float64


def checked_weights(W: sp.sparray | sp.spmatrix, n: int) -> sp.csr_array:
    """Return given weights (n, n) as float64 CSR with sorted indices, without diagonal and stored zeros."""
    require(sp.issparse(W) and W.dtype.kind in "biuf", error=DataError,
            what=f"the weights are {type(W).__name__} of {getattr(W, 'dtype', 'no dtype')}, expected a sparse matrix",
            why="a graph of n points has far fewer than n^2 edges", fix="pass scipy.sparse.csr_array(W)")
    W = sp.csr_array(W, dtype=np.float64, copy=True)
    W.sum_duplicates()
    check_weights(W, n)
    W.setdiag(0)
    W.eliminate_zeros()
    W.sort_indices()
    require(W.nnz > 0, f"the weights join none of the {n} points", error=DataError,
            why="without an edge unlabeled points carry no information", fix="pass a graph with edges off the diagonal")
    return W


def store_weights(W: sp.csr_array, out: PartWriter) -> Receipt:
    """Write checked weights (n, n) as the one part of a graph, to be read by `read_graph`; return its receipt.

    As with weights made here, none stays below 1e-10 of the median: those are raised to it, and counted.
    """
    n = W.shape[0]
    floor = FLOOR * float(np.median(W.data))
    receipt = out.write(data=np.maximum(W.data, floor), indices=W.indices.astype(np.int32 if n < 2**31 else np.int64),
                        indptr=W.indptr.astype(np.int64))
    return {**receipt, "rows": [0, n], "n": n, "nnz": int(W.nnz), "raised": int((W.data < floor).sum()), "floor": floor}


def described_weights(receipt: Receipt) -> JsonObject:
    """Return the attributes of stored weights, those that `weigh` returns; JSON."""
    return {"weights": GIVEN, "bandwidth": None, "width": None, "symmetrize": None,
            "entries": receipt["nnz"], **{name: receipt[name] for name in ("n", "nnz", "floor", "raised")}}


class GraphFull(UserWarning):
    """A graph joins most of all pairs of points."""


def warn_full(attributes: JsonObject, stacklevel: int = 4) -> None:
    """Warn with GraphFull if weights with these attributes join most of all pairs of points."""
    n, share = attributes["n"], attributes["nnz"] / max(1, attributes["n"] * (attributes["n"] - 1))
    if n >= DENSE_MIN_POINTS and share > DENSE_SHARE:
        warnings.warn(explain(
            f"the graph joins {share:.0%} of all pairs of its {n:,} points",
            why="each point is then a neighbor of most others, so the graph pulls every function to its mean",
            fix="keep the nearest 5 to 20 neighbors of each point, as KNNGraph does",
        ), GraphFull, stacklevel=stacklevel)


def checked_neighbors(lists: Neighbors | Sequence[ArrayLike], n: int | None = None) -> Neighbors:
    """Return given neighbor lists as Neighbors, ascending by (distance, id), in the dtype of their distances.

    lists : Neighbors, or (ids, distances), both (n, k). A point's own id at distance 0 is dropped;
        shorter lists are padded with id -1 at distance infinity.
    n : the required number of points, or None.
    """
    if isinstance(lists, Neighbors):
        lists = (lists.indices, lists.distances)
    require(isinstance(lists, (tuple, list)) and len(lists) == 2, f"the graph is {type(lists).__name__}",
            why="a graph is given by its weights or by neighbor lists",
            fix="pass KNNGraph(...).build(X), a scipy.sparse matrix (n, n), Neighbors, or the pair (ids, distances) of "
                "arrays (n, k)")
    ids, distances = np.asarray(lists[0]), np.asarray(lists[1])
    require(ids.ndim == 2 and ids.shape == distances.shape and ids.shape[1] >= 1, error=DataError,
            what=f"ids have shape {ids.shape} and distances {distances.shape}", why="each neighbor has a distance",
            fix="pass two arrays of shape (n, k)")
    n = len(ids) if n is None else n
    require(len(ids) == n, f"{len(ids)} neighbor lists for {n} points", error=DataError,
            why="each point has one list", fix="pass the lists of exactly these points, in their order")
    require(ids.dtype.kind in "iu" and distances.dtype.kind in "iuf", error=DataError,
            what=f"ids have dtype {ids.dtype} and distances {distances.dtype}",
            why="an id is the number of a row, a distance a real number", fix="pass integers and floats, in this order")
    bad = np.argwhere((ids < 0) | (ids >= n))
    require(len(bad) == 0, f"{len(bad)} ids are not row numbers, such as {_shown(ids, bad)}", error=DataError,
            why=f"rows are numbered from 0 to {n - 1}", fix="number the neighbors by the rows of the same points")
    distances = distances.astype(np.result_type(distances.dtype, np.float32), copy=False)
    bad = np.argwhere(~(distances < LARGEST_DISTANCE) | (distances < 0))
    require(len(bad) == 0, f"{len(bad)} distances are negative, NaN or above {LARGEST_DISTANCE:g}, such as "
            f"{_shown(distances, bad)}", error=DataError,
            why="no weight follows from them", fix="pass distances, not similarities, in a smaller unit")
    itself = ids == np.arange(n)[:, None]
    bad = np.argwhere(itself & (distances > 0))
    require(len(bad) == 0, f"{len(bad)} points are their own neighbors at a distance above 0, first {bad[:1].tolist()}",
            error=DataError, why="ids and distances do not belong together", fix="pass both from one search")
    return compacted(ids.astype(np.int64), distances, ~itself)


def given_cost(entries: int) -> Cost:
    """Return the cost of reading neighbor lists of this many entries: 12 bytes each, sorted, checked and restricted."""
    return cost_of(int(entries > 0), 16 * entries, 12 * entries, 60 * entries)


def _shown(values: np.ndarray, entries: np.ndarray) -> str:
    return ", ".join(f"{values[i, j]} in row {i}" for i, j in entries[:SHOWN])


def compacted(ids: np.ndarray, distances: np.ndarray, keep: np.ndarray) -> Neighbors:
    """Return the entries `keep` (n, k) bool of neighbor lists, ascending by (distance, id), padded with -1."""
    distances = np.where(keep, distances, np.inf).astype(distances.dtype, copy=False)
    ids = np.where(keep, ids, NO_NEIGHBOR)
    order = np.lexsort((ids, distances), axis=1)
    longest = int(keep.sum(axis=1).max(initial=0))
    require(longest > 0, f"no list of the {len(ids)} points names another of them", error=DataError,
            why="without an edge unlabeled points carry no information",
            fix="pass lists of at least one other neighbor")
    ids, distances = (np.take_along_axis(values, order, axis=1)[:, :longest] for values in (ids, distances))
    again = np.sort(ids, axis=1)
    twice = ((again[:, 1:] == again[:, :-1]) & (again[:, 1:] != NO_NEIGHBOR)).any(axis=1)
    require(not twice.any(), f"{int(twice.sum())} lists name a neighbor twice, first that of row {int(twice.argmax())}",
            error=DataError, why="its weight would count twice", fix="list each neighbor once")
    attributes = {"method": "given", "n_neighbors": longest, "n": len(ids), "entries": int((ids != NO_NEIGHBOR).sum())}
    return Neighbors(ArrayRows(ids), ArrayRows(distances), attributes)


def restricted(lists: Neighbors, rows: np.ndarray) -> Neighbors:
    """Return the neighbor lists of some rows among these rows, renumbered by their index in `rows`."""
    new_id = np.full(len(lists) + 1, NO_NEIGHBOR)  # the last entry belongs to id -1
    new_id[rows] = np.arange(len(rows))
    ids = new_id[lists.id_rows.take(rows)]
    return compacted(ids, lists.distance_rows.take(rows), ids != NO_NEIGHBOR)
