"""A sample of a graph's edges that estimates its energy without bias, from blocks that are read one after the other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

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
        """Return w (c_i^2 + c_j^2), (e,), what edges are drawn by."""
        return self.w * (self.ci**2 + self.cj**2)

    def of(self, chosen: np.ndarray) -> "Edges":
        """Return some of the edges."""
        return Edges(*(array[chosen] for array in (self.i, self.j, self.w, self.ci, self.cj)))


def joined_edges(pieces: Iterable[Edges]) -> Edges:
    """Return the edges of one or more pieces, one after the other."""
    fields = zip(*((piece.i, piece.j, piece.w, piece.ci, piece.cj) for piece in pieces), strict=True)
    return Edges(*(np.concatenate(list(arrays)) for arrays in fields))


def sampled_edges(blocks: Callable[[], Iterable[Edges]], count: int, rng: np.random.Generator) -> Edges:
    """Return at most `count` edges, drawn with replacement in proportion to w (c_i^2 + c_j^2), equal draws added.

    Their weights are w / (count p), so that `sum of w (c_i f_i - c_j f_j)^2` over them estimates `f' E f` without bias.
    With no more than `count` edges in all, they are all taken, once, and it is exact.

    blocks : gives the edges of one block after the other, one or more; called twice. Holds one of them and the sample.
    """
    few: list[Edges] | None = []
    total, seen = 0.0, 0
    for edges in blocks():
        seen += len(edges.w)
        total = _cumulative(total, edges)[-1]
        few = None if few is None or seen > count else [*few, edges]
    if few is not None:
        return joined_edges(few)
    draws, at, edges_sampled = np.sort(np.minimum(rng.random(count) * total, np.nextafter(total, 0))), 0.0, []
    for edges in blocks():
        cumulative = _cumulative(at, edges)
        at, begin = cumulative[-1], np.searchsorted(draws, at, side="left")
        end = np.searchsorted(draws, at, side="left")
        drawn = np.searchsorted(cumulative[1:], draws[begin:end], side="right")
        chosen, times = np.unique(drawn, return_counts=True)
        p = np.diff(cumulative)[chosen] / total
        some = edges.of(chosen)
        edges_sampled.append(Edges(some.i, some.j, some.w * times / (count * p), some.ci, some.cj))
    return joined_edges(edges_sampled)


def _cumulative(before: float, edges: Edges) -> np.ndarray:
    """Return the sums of what edges are drawn by up to each, from what was before: the same whatever the blocks are."""
    return np.cumsum(np.concatenate([[before], edges.energies]))
