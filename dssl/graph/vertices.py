"""Equal rows as one vertex of the graph: each distinct row once, with the number of its copies.

Copies of a point are its nearest neighbors, so with k copies a point sees nobody else, and a neighbor graph of such
data falls into components of copies. As one vertex they see the nearest distinct points, and the regularizer of those
functions that are equal on copies stays that of the points (`Laplacian`, `covariance_at_points`).

Equal rows are found in blocks (`equal_rows.py`), and stored as `VertexRows`, of which nothing has to be held whole;
`Vertices` is the same in memory.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import DataError, require
from ..execution.tasks import Execution
from ..storage.blocks import ArrayRows, MemoryParts, Parts, Rows, RowStream
from ..storage.views import SelectedRows
from .equal_rows import find_equal_rows


@dataclass(frozen=True)
class Vertices:
    """Which rows are copies of which.

    vertex : (n,) int64, the vertex of each row.
    first : (v,) int64, the first row of each vertex, ascending.
    multiplicity : (v,) int64, the rows of each vertex; they sum to n.
    """

    vertex: np.ndarray
    first: np.ndarray
    multiplicity: np.ndarray

    @classmethod
    def distinct(cls, n_rows: int) -> "Vertices":
        """Return n vertices of one row each, whatever the rows are."""
        return cls(np.arange(n_rows), np.arange(n_rows), np.ones(n_rows, np.int64))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def joined(self) -> bool:
        """Return whether any vertex has two rows."""
        return len(self.first) < len(self.vertex)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return the vertices of some rows, each once, in the order in which they are first met."""
        vertices = self.vertex[rows]
        return vertices[np.sort(np.unique(vertices, return_index=True)[1])]

    def rows_of(self, vertices: np.ndarray, preferred: np.ndarray) -> np.ndarray:
        """Return a row of each of some vertices: its first among the `preferred` rows, or else its first of all."""
        row = self.first.copy()
        row[self.vertex[preferred[::-1]]] = preferred[::-1]  # of several the first is written last
        return row[vertices]

    def stored(self, parts: Parts | None = None) -> "VertexRows":
        """Return the same as shared arrays of parts, by default of this process."""
        if not self.joined:
            return VertexRows.of(MemoryParts(), self.attributes)
        parts = MemoryParts() if parts is None else parts
        for name, array in self.to_arrays().items():
            parts.allocate(name, array.shape, np.int64, len(array))
            parts.write_range(0, {name: array})
        return VertexRows.of(parts, self.attributes)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes."""
        return {"vertex": self.vertex, "first": self.first, "multiplicity": self.multiplicity}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Vertices":
        """Return the vertices that `to_arrays` gave."""
        return cls(arrays["vertex"], arrays["first"], arrays["multiplicity"])

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the counts; JSON."""
        return {"n": len(self.vertex), "vertices": len(self), "largest_multiplicity": int(self.multiplicity.max()),
                "copied_points": int(self.multiplicity[self.multiplicity > 1].sum())}


def covariance_at_points(A: np.ndarray, multiplicity: np.ndarray) -> np.ndarray:
    """Return `M^-1/2 A M^-1/2`: the covariance of function values at points, from that of vertices.

    A : (s, s), `(R^-p)` on some vertices, in the coordinates in which a vertex of m copies has length sqrt(m).
    multiplicity : (s,), of these vertices; where all are 1 the result is A to the bit.
    """
    scale = 1 / np.sqrt(multiplicity)
    return A * (scale[:, None] * scale[None, :])


def require_distinct(distinct: bool, what: str) -> None:
    """Raise DataError of points that are all equal."""
    require(distinct, what, error=DataError, why="nothing tells them apart, and a graph of them has no shape",
            fix="check that the features were read correctly")


@dataclass(frozen=True)
class VertexRows:
    """Which rows are copies of which, as shared arrays `vertex`, `first` and `multiplicity` of parts; see `Vertices`.

    parts : None where each row is a vertex. n : rows. v : vertices. largest, copied : see `attributes`.
    """

    parts: Parts | None
    n: int
    v: int
    largest: int = 1
    copied: int = 0

    @classmethod
    def of(cls, parts: Parts, attributes: dict[str, Any]) -> "VertexRows":
        """Return the vertices whose arrays lie in parts, and that `attributes` describes."""
        n, v = attributes["n"], attributes["vertices"]
        return cls(parts if v < n else None, n, v, attributes["largest_multiplicity"], attributes["copied_points"])

    def __len__(self) -> int:
        return self.v

    @property
    def joined(self) -> bool:
        """Return whether any vertex has two rows."""
        return self.parts is not None

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the counts; JSON."""
        return {"n": self.n, "vertices": self.v, "largest_multiplicity": self.largest, "copied_points": self.copied}

    def vertex_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the vertex of each of some rows."""
        return np.asarray(rows, np.int64) if self.parts is None else self.parts.rows("vertex").take(rows)

    def first_of(self, vertices: np.ndarray) -> np.ndarray:
        """Return the first row of each of some vertices."""
        return np.asarray(vertices, np.int64) if self.parts is None else self.parts.rows("first").take(vertices)

    @property
    def multiplicity(self) -> Rows | None:
        """Return the rows of each vertex, (v,); None for one each."""
        return None if self.parts is None else self.parts.rows("multiplicity")

    def distinct(self, rows: Rows) -> Rows:
        """Return the rows of the vertices, (v, d)."""
        return rows if self.parts is None else SelectedRows(rows, self.parts.rows("first"))

    def load(self) -> Vertices:
        """Return the vertices in memory; 24 bytes a row."""
        if self.parts is None:
            return Vertices.distinct(self.n)
        return Vertices(*(self.parts.rows(name).read_all() for name in ("vertex", "first", "multiplicity")))


def find_vertex_rows(rows: Rows, execution: Execution, parts: Parts) -> VertexRows:
    """Return the distinct rows of rows (n, d), dense or sparse, with their copies, which are written to `parts`.

    Rows are equal if all their values are. Where none are, rows are read once and nothing is written but hashes, which
    are removed at the end.

    Raises
    ------
    DataError : not two-dimensional, no rows, or values that are not finite numbers. BudgetError : not one row fits.
    """
    require(len(rows.shape) == 2 and len(rows) > 0 and rows.dtype.kind in "biuf",
            f"X has shape {rows.shape} and dtype {rows.dtype}, expected (n_points, n_features) of numbers",
            error=DataError, why="points are rows of a two-dimensional array", fix="pass a table of numbers")
    distinct = find_equal_rows(rows, execution, parts)
    if distinct is None:
        return VertexRows(None, len(rows), len(rows))
    streams = {name: RowStream(parts, name, distinct.v, np.int64) for name in ("first", "multiplicity")}
    for block in distinct.blocks():
        for name, stream in streams.items():
            stream.add(block[name])
    for stream in streams.values():
        stream.close()
    distinct.remove()
    return VertexRows(parts, len(rows), distinct.v, distinct.largest, distinct.copied)


def find_vertices(rows: Rows, execution: Execution, parts: Parts | None = None) -> Vertices:
    """Return the vertices that `find_vertex_rows` finds, in memory.

    parts : where what tasks find goes; finished blocks are kept. Scratch of the execution by default.
    """
    return find_vertex_rows(rows, execution, parts or execution.scratch()).load()


def distinct_rows(rows: Rows, vertices: Vertices, execution: Execution) -> Rows:
    """Return the rows of the vertices, (v, d): `rows` as they are where no two are equal."""
    return SelectedRows(rows, execution.share_rows(ArrayRows(vertices.first))) if vertices.joined else rows
