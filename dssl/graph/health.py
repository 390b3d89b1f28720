"""What a neighbor graph is worth: recall on a sample, islands, hubs, copies, and how labels lie on it."""

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..errors import DataError, require
from ..storage.blocks import Rows, as_rows, block_rng
from .inverted import Queries
from .metric import measurable
from .sparse_distance import in_tree_order, row_distances
from .vertices import Vertices

if TYPE_CHECKING:
    from .neighbors import Neighbors

SAMPLE = 500
CONFIDENCE_Z = 1.959964  # two-sided 95 %
MOST_LISTED = 100
BLOCK_BYTES = 64 << 20


def wilson_lower(hits: int, trials: int, z: float = CONFIDENCE_Z) -> float:
    """Return the lower end of Wilson's score interval of a share (Wilson, JASA 22, 1927)."""
    if trials == 0:
        return 0.0
    share = hits / trials
    middle = share + z * z / (2 * trials)
    width = z * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return float(max(0.0, (middle - width) / (1 + z * z / trials)))


def certify_recall(X: Any, neighbors: "Neighbors", sample: int = SAMPLE, seed: int = 0) -> dict[str, Any]:
    """Return the recall of neighbor lists, certified by brute force on a random sample of rows.

    A listed neighbor is true if it is no farther than the true k-th neighbor, so the order among ties does not count.
    It costs 2 sample n d flops in float64, in blocks of rows of `BLOCK_BYTES`.

    Returns
    -------
    dict : `recall`, `lower` (Wilson, 95 %, each list entry a trial), `worst_row` (least share of one row),
        `rows` (sampled), `trials`, `seed`.
    """
    rows: Rows = as_rows(X)
    n = len(rows)
    require(len(neighbors) == n, f"{len(neighbors)} lists for {n} points", error=DataError,
            why="each point has one list", fix="pass the X that the neighbors were found for")
    require(sample >= 1, f"sample={sample}, expected >= 1", why="nothing is certified without a row",
            fix="use 500, or 2000 for a bound within 0.1 %")
    metric = neighbors.attributes.get("metric", "euclidean")
    chosen = np.sort(block_rng(seed, n).choice(n, min(sample, n), replace=False))
    listed = neighbors.ids.take(chosen)
    reached, true_kth = (_sparse_distances if rows.is_sparse else _dense_distances)(rows, chosen, listed, metric)
    is_true = reached <= true_kth[:, None] * (1 + 1e-9)
    hits, trials = int(is_true.sum()), is_true.size
    return {"recall": hits / trials, "lower": wilson_lower(hits, trials),
            "worst_row": float(is_true.mean(axis=1).min()), "rows": len(chosen), "trials": trials, "seed": seed,
            "certified": "sample"}


def _dense_distances(rows: Rows, chosen: np.ndarray, listed: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances to the listed neighbors (s, k), and to the true k-th (s,), of dense rows."""
    d, k = rows.shape[1], listed.shape[1]
    queries = measurable(rows.take(chosen), metric).astype(np.float64)
    reached = np.empty(listed.shape)
    for column in range(k):
        reached[:, column] = ((queries - measurable(rows.take(listed[:, column]), metric)) ** 2).sum(axis=1)
    # The k listed rows exist, so the true k-th is no farther than the farthest of them.
    limit = reached.max(axis=1)
    center = queries.mean(axis=0)
    centered = queries - center
    norm = (centered**2).sum(axis=1)
    near: list[list[np.ndarray]] = [[] for _ in chosen]
    for first, block in rows.blocks(max(1, BLOCK_BYTES // (8 * (d + len(chosen))))):
        points = measurable(block, metric).astype(np.float64)
        shifted = points - center
        lengths = (shifted**2).sum(axis=1)
        squared = norm[:, None] + lengths - 2 * centered @ shifted.T
        slack = 1e-12 * (norm[:, None] + lengths) + 1e-9 * limit[:, None]
        for row, column in zip(*np.nonzero(squared <= limit[:, None] + slack), strict=True):
            if first + column != chosen[row]:
                near[row].append(((queries[row] - points[column]) ** 2).sum())
    return reached, np.array([np.partition(found, k - 1)[k - 1] for found in near])


def _sparse_distances(rows: Rows, chosen: np.ndarray, listed: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what `_dense_distances` does of sparse rows, by an exact search for the chosen ones."""
    k = listed.shape[1]
    found = measurable(rows.take(chosen), metric)
    queries = Queries(found, chosen, k)
    for first, block in rows.blocks(max(1, BLOCK_BYTES // (4 * rows.row_bytes))):
        queries.offer(first, measurable(block, metric))
    near = (in_tree_order(measurable(rows.take(listed[:, column]), metric)) for column in range(k))
    reached = np.stack([row_distances(queries.rows, points) for points in near], axis=1)
    return reached, queries.nearest()[0][:, -1]


def graph_health(W: sp.spmatrix | sp.sparray, labeled: np.ndarray | None = None, neighbors: "Neighbors | None" = None,
                 *, y: np.ndarray | None = None, vertices: Vertices | None = None,
                 numbers: np.ndarray | None = None) -> dict[str, Any]:
    """Return the facts that decide whether a graph can carry labels; JSON.

    Points are counted with their copies; degrees, edges and homophily are those of vertices.

    Parameters
    ----------
    W : sparse (v, v), symmetric weights of the vertices.
    labeled : bool (n,), or the numbers of the labeled points.
    neighbors : the lists that W was made of, to count copies.
    y : (n,) classes, read where `labeled`; for homophily, the share of edges between labeled points within one class.
    vertices : which points are copies; None where each of the n = v vertices is one point.
    numbers : (n,), the number by which a point is named, such as its row in a file; its place by default.
    """
    W = sp.csr_array(W)
    points = Vertices.distinct(W.shape[0]) if vertices is None else vertices
    n, m = len(points.vertex), points.multiplicity
    names = np.arange(n) if numbers is None else np.asarray(numbers)
    upper = sp.triu(W, 1)
    degrees = np.diff(W.indptr)
    strengths = np.asarray(W.sum(axis=1)).ravel()
    count, component = connected_components(W, directed=False)
    sizes = np.bincount(component, m, minlength=count).astype(np.int64)
    median = float(np.median(degrees)) if n else 0.0
    hubs = np.flatnonzero(degrees > max(10 * median, 1))
    hubs = hubs[np.lexsort((hubs, -degrees[hubs]))]
    isolated = np.flatnonzero((degrees == 0)[points.vertex])
    health: dict[str, Any] = {
        "n": n, "edges": int(upper.nnz),
        "components": {"count": int(count), "largest": np.sort(sizes)[::-1][:10].tolist(),
                       "largest_share": float(sizes.max() / n) if n else 0.0},
        "isolated": {"count": len(isolated), "ids": names[isolated[:MOST_LISTED]].tolist()},
        "degree": _spread(degrees), "strength": _spread(strengths),
        "hubs": {"rule": "more than 10 times the median degree", "count": len(hubs),
                 "largest": [{"id": int(names[points.first[hub]]), "degree": int(degrees[hub])} for hub in hubs[:10]]},
    }
    if vertices is not None:
        health["vertices"] = {"count": len(points), "largest_multiplicity": int(m.max()),
                              "copied_points": points.attributes["copied_points"]}
    if neighbors is not None:
        copies = sum(int(m[first:first + len(distances)][distances[:, 0] == 0].sum())
                     for first, _, distances in neighbors.blocks(1 << 16))
        health["duplicates"] = {"points": copies, "share": copies / n}
        health["recall"] = neighbors.attributes.get("recall")
    if labeled is not None:
        mask = np.zeros(n, bool)
        mask[np.asarray(labeled)] = True
        lost, _ = _beyond(component, sizes, mask, points)
        health["labeled"] = int(mask.sum())
        health["unreached"] = {"count": len(lost), "ids": names[lost[:MOST_LISTED]].tolist(),
                               "components": len(np.unique(component[points.vertex[lost]]))}
        if y is not None:
            classes, marked = np.asarray(y), np.zeros(len(points), bool)
            rows = np.flatnonzero(mask)[::-1]  # of several labeled copies the first one's class is written last
            marked[points.vertex[rows]] = True
            of_vertex = np.zeros(len(points), classes.dtype)
            of_vertex[points.vertex[rows]] = classes[rows]
            health["homophily"] = _homophily(upper, marked, of_vertex)
    return health


def unreached_points(W: sp.spmatrix | sp.sparray, labeled: np.ndarray,
                     vertices: Vertices | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of all points in components without a labeled point, ascending, and their components' sizes.

    Parameters as in `graph_health`; a size counts points.
    """
    points = Vertices.distinct(W.shape[0]) if vertices is None else vertices
    count, component = connected_components(sp.csr_array(W), directed=False)
    mask = np.zeros(len(points.vertex), bool)
    mask[np.asarray(labeled)] = True
    sizes = np.bincount(component, points.multiplicity, minlength=count).astype(np.int64)
    return _beyond(component, sizes, mask, points)


def _beyond(component: np.ndarray, sizes: np.ndarray, mask: np.ndarray,
            points: Vertices) -> tuple[np.ndarray, np.ndarray]:
    """Return the points whose component (v,) holds no point of the mask (n,), and the sizes of their components."""
    reached = np.zeros(len(sizes), bool)
    reached[component[points.vertex[mask]]] = True
    of_point = component[points.vertex]
    lost = np.flatnonzero(~reached[of_point])
    return lost, sizes[of_point[lost]]


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"min": float(values.min()), "median": float(np.median(values)), "mean": float(values.mean()),
            "max": float(values.max())}


def _homophily(upper: Any, mask: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the share of edges between labeled points that join one class, and the share expected by chance."""
    edges = upper.tocoo()
    both = mask[edges.row] & mask[edges.col]
    same = y[edges.row[both]] == y[edges.col[both]]
    _, counts = np.unique(y[mask], return_counts=True)
    labeled = int(counts.sum())
    chance = float((counts * (counts - 1)).sum() / (labeled * (labeled - 1))) if labeled > 1 else None
    return {"edges": len(same), "share": float(same.mean()) if len(same) else None, "by_chance": chance}
