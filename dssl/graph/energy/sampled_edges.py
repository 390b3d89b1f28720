"""A sample of a graph's edges that estimates its energy without bias, from blocks that are read one after the other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Edges:
    """Edges (i, j), i < j, with their weights w and the scales c_i, c_j of their ends; all (e,)."""

    i: np.ndarray
    j: np.ndarray
    w: np.ndarray
    ci: np.ndarray
    cj: np.ndarray

    @property
    def energies(self) -> np.ndarray:
        """Return w (c_i^2 + c_j^2), (e,), to which the probabilities of edges are proportional."""
        return self.w * (self.ci**2 + self.cj**2)

    def of(self, selected: np.ndarray) -> "Edges":
        """Return some of the edges."""
        return Edges(*(array[selected] for array in (self.i, self.j, self.w, self.ci, self.cj)))


def joined_edges(pieces: Iterable[Edges]) -> Edges:
    """Return the edges of one or more pieces, one after the other."""
    fields = zip(*((piece.i, piece.j, piece.w, piece.ci, piece.cj) for piece in pieces), strict=True)
    return Edges(*(np.concatenate(list(arrays)) for arrays in fields))


def sampled_edges(blocks: Callable[[], Iterable[Edges]], count: int, rng: np.random.Generator) -> Edges:
    """Return at most `count` edges, drawn with replacement in proportion to w (c_i^2 + c_j^2), equal draws added.

    Their weights are w / (count p), so that `sum of w (c_i f_i - c_j f_j)^2` over them estimates `f' E f` without bias.
    If there are at most `count` edges, all are returned once, and the estimate is exact.

    blocks : yields the edges of one or more blocks; called twice. One block and the sample are in memory.
    """
    few: list[Edges] | None = []
    total, seen = 0.0, 0
    for edges in blocks():
        seen += len(edges.w)
        total = _cumulative(total, edges)[-1]
        few = None if few is None or seen > count else [*few, edges]
    if few is not None:
        return joined_edges(few)
    draws, cumulated, edges_sampled = np.sort(np.minimum(rng.random(count) * total, np.nextafter(total, 0))), 0.0, []
    for edges in blocks():
        cumulative = _cumulative(cumulated, edges)
        cumulated, begin = cumulative[-1], np.searchsorted(draws, cumulated, side="left")
        end = np.searchsorted(draws, cumulated, side="left")
        drawn = np.searchsorted(cumulative[1:], draws[begin:end], side="right")
        selected, times = np.unique(drawn, return_counts=True)
        p = np.diff(cumulative)[selected] / total
        drawn_edges = edges.of(selected)
        edges_sampled.append(replace(drawn_edges, w=drawn_edges.w * times / (count * p)))
    return joined_edges(edges_sampled)


def _cumulative(before: float, edges: Edges) -> np.ndarray:
    """Return the cumulated energies of edges, from the sum before them on: the same for any division into blocks."""
    return np.cumsum(np.concatenate([[before], edges.energies]))
