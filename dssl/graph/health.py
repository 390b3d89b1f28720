"""What a graph can carry: components that hold no label, hubs, copies, and how labels lie on its edges."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..execution.cost import Cost, cost_of
from .neighbor_lists import Neighbors
from .vertices import Vertices

MOST_LISTED = 100
HUB = 10  # times the median degree


@dataclass(frozen=True)
class Components:
    """Connected components of a graph whose vertices are `points`: that of each vertex (v,), and its points (c,)."""

    points: Vertices
    component: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, W: sp.csr_array, points: Vertices) -> "Components":
        """Return the components of weights W (v, v)."""
        count, component = connected_components(W, directed=False)
        return cls(points, component, np.bincount(component, points.multiplicity, minlength=count).astype(np.int64))

    def unreached(self, labeled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the points in components without a labeled one, ascending, and the components of these points.

        labeled : bool (n,), or the numbers of the labeled points.
        """
        of_point = self.component[self.points.vertex]
        reached = np.zeros(len(self.sizes), bool)
        reached[of_point[labeled]] = True
        lost = np.flatnonzero(~reached[of_point])
        return lost, of_point[lost]


def graph_health(W: sp.spmatrix | sp.sparray, labeled: np.ndarray | None = None, neighbors: Neighbors | None = None,
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
    upper, components = sp.triu(W, 1), Components.of(W, points)
    largest = np.sort(components.sizes)[::-1]
    health: dict[str, Any] = {
        "n": n, "edges": int(upper.nnz),
        "components": {"count": len(largest), "largest": largest[:10].tolist(),
                       "largest_share": float(largest[0] / n) if n else 0.0},
        **_degrees(W, points, names)}
    if vertices is not None:
        health["vertices"] = {"count": len(points), "largest_multiplicity": int(m.max()),
                              "copied_points": points.attributes["copied_points"]}
    if neighbors is not None:
        copies = sum(int(m[first:first + len(distances)][distances[:, 0] == 0].sum())
                     for first, _, distances in neighbors.blocks(1 << 16))
        health["duplicates"] = {"points": copies, "share": copies / n}
        health["recall"] = neighbors.attributes.get("recall")
    if labeled is not None:
        rows = np.arange(n)[np.asarray(labeled)]
        lost, component = components.unreached(rows)
        health["labeled"] = len(np.unique(rows))
        health["unreached"] = _listed(lost, names) | {"components": len(np.unique(component))}
        if y is not None:
            health["homophily"] = _homophily(upper, points, np.unique(rows), np.asarray(y))
    return health


def health_cost(n: int, k: int, nnz: int) -> Cost:
    """Return what describing a graph of n vertices takes: the matrix, joined from its blocks, and its upper half."""
    peak = 30 * nnz + 40 * n
    return cost_of(1, 12 * nnz + 8 * n + 12 * n * k, 0, peak, peak)


def unreached_points(W: sp.spmatrix | sp.sparray, labeled: np.ndarray,
                     vertices: Vertices | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of all points in components without a labeled point, ascending, and their components' sizes.

    Parameters as in `graph_health`; a size counts points.
    """
    components = Components.of(sp.csr_array(W), Vertices.distinct(W.shape[0]) if vertices is None else vertices)
    lost, component = components.unreached(np.asarray(labeled))
    return lost, components.sizes[component]


def _degrees(W: sp.csr_array, points: Vertices, names: np.ndarray) -> dict[str, Any]:
    """Return isolated points, the spread of degrees and of their weighted sums, and hubs."""
    degrees = np.diff(W.indptr)
    hubs = np.flatnonzero(degrees > max(HUB * np.median(degrees), 1)) if len(degrees) else np.arange(0)
    hubs = hubs[np.lexsort((hubs, -degrees[hubs]))]
    return {
        "isolated": _listed(np.flatnonzero((degrees == 0)[points.vertex]), names),
        "degree": _spread(degrees), "strength": _spread(np.asarray(W.sum(axis=1)).ravel()),
        "hubs": {"rule": f"more than {HUB} times the median degree", "count": len(hubs),
                 "largest": [{"id": int(names[points.first[hub]]), "degree": int(degrees[hub])} for hub in hubs[:10]]},
    }


def _listed(places: np.ndarray, names: np.ndarray) -> dict[str, Any]:
    return {"count": len(places), "ids": names[places[:MOST_LISTED]].tolist()}


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"min": float(values.min()), "median": float(np.median(values)), "mean": float(values.mean()),
            "max": float(values.max())}


def _homophily(upper: sp.coo_array, points: Vertices, labeled: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the share of edges (i < j) between labeled vertices that join one class, and that expected by chance.

    Of several labeled copies of a vertex the first one's class counts.
    """
    marked, of_vertex = np.zeros(len(points), bool), np.zeros(len(points), y.dtype)
    rows = labeled[::-1]  # the first copy is written last
    marked[points.vertex[rows]], of_vertex[points.vertex[rows]] = True, y[rows]
    edges = upper.tocoo()
    both = marked[edges.row] & marked[edges.col]
    same = of_vertex[edges.row[both]] == of_vertex[edges.col[both]]
    counts = np.unique(of_vertex[marked], return_counts=True)[1]
    total = int(counts.sum())
    chance = float((counts * (counts - 1)).sum() / (total * (total - 1))) if total > 1 else None
    return {"edges": len(same), "share": float(same.mean()) if len(same) else None, "by_chance": chance}
