"""What is known of the component of each vertex, in shared arrays."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...storage.blocks import Parts, Rows, row_ranges
from ..weights.build import id_type

MAX_LISTED = 10  # of the largest components


@dataclass(frozen=True)
class ComponentArrays:
    """Where what is known of each vertex goes, and how many points each stands for.

    The shared arrays `component` (v,), its number; `points` (v,), those of the component; `isolated` (v,), whether the
    component is this vertex.

    multiplicity : (v,), the points of each vertex; None for one each.
    """

    parts: Parts
    v: int
    height: int
    multiplicity: Rows | None

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return the blocks of vertices."""
        return row_ranges(self.v, self.height)

    def allocate(self) -> None:
        """Create the arrays."""
        for name, dtype in (("component", id_type(self.v)), ("points", np.int64), ("isolated", np.bool_)):
            self.parts.allocate(name, (self.v,), dtype, self.height)

    def count(self, labels: np.ndarray, count: int, blocks: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the points and the vertices (c,) of components, which are `own` of the vertices of some blocks."""
        points, vertices = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for part, start, stop in _within(labels, blocks):
            np.add.at(vertices, part, 1)
            np.add.at(points, part, 1 if self.multiplicity is None else self.multiplicity.read(start, stop))
        return points, vertices

    def write(self, labels: np.ndarray, blocks: Sequence[tuple[int, int]], points: np.ndarray, vertices: np.ndarray,
              number: np.ndarray | None = None) -> None:
        """Write what is known of the vertices of some blocks; number (c,) : of each component, its place by default."""
        for part, start, _ in _within(labels, blocks):
            self.parts.write_range(start, {"component": part if number is None else number[part],
                                           "points": points[part], "isolated": vertices[part] == 1})


def _within(array: np.ndarray, blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[np.ndarray, int, int]]:
    """Yield what of an array lies in each of some blocks that follow each other, and these."""
    begin = blocks[0][0]
    for start, stop in blocks:
        yield array[start - begin:stop - begin], start, stop


def described(points: np.ndarray, vertices: np.ndarray) -> dict[str, int | list[int]]:
    """Return how many components there are, of one vertex too, and the `points` of the largest; JSON."""
    return {"components": len(points), "isolated": int((vertices == 1).sum()),
            "largest": np.sort(points)[::-1][:MAX_LISTED].tolist()}
