"""Duplicates as one vertex of the graph: each distinct row once, with its multiplicity.

The nearest neighbors of a point are its duplicates, so a point with k duplicates has no other neighbor, and the graph
falls into components of duplicates. As one vertex they are joined to the nearest distinct points, and the regularizer
of functions that are equal on duplicates stays that of the points (`Laplacian`, `covariance_at_points`).

Equal rows are found in blocks (`equal_rows.py`) and stored as `VertexRows`, which is never in memory as a whole;
`Vertices` is its form in memory.
"""

from dataclasses import dataclass

import numpy as np

from ..base.errors import DataError, require
from ..execution.tasks import Execution
from ..storage.blocks import ArrayRows, MemoryParts, Parts, Rows, RowStream
from ..storage.views import SelectedRows
from .equal_rows import find_equal_rows


@dataclass(frozen=True)
class Vertices:
    """The vertex of each row.

    vertex : (n,) int64, the vertex of each row.
    first : (v,) int64, the first row of each vertex, ascending.
    multiplicity : (v,) int64, the rows of each vertex; they sum to n.
    """

    vertex: np.ndarray
    first: np.ndarray
    multiplicity: np.ndarray

    @classmethod
    def distinct(cls, n_rows: int) -> "Vertices":
        """Return n vertices of one row each, even if rows are equal."""
        return cls(np.arange(n_rows), np.arange(n_rows), np.ones(n_rows, np.int64))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def joined(self) -> bool:
        """Return whether any vertex has two rows."""
        return len(self.first) < len(self.vertex)

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Return the vertices of some rows, each once, in the order of their first occurrence."""
        vertices = self.vertex[rows]
        return vertices[np.sort(np.unique(vertices, return_index=True)[1])]

    def rows_of(self, vertices: np.ndarray, preferred: np.ndarray) -> np.ndarray:
        """Return one row of each of some vertices: its first `preferred` row, or else its first row."""
        row = self.first.copy()
        row[self.vertex[preferred[::-1]]] = preferred[::-1]  # the first of several is written last
        return row[vertices]

    def stored(self, parts: Parts | None = None) -> "VertexRows":
        """Return the vertices as shared arrays of parts, by default of this process."""
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
    def attributes(self) -> dict[str, int]:
        """Return the counts; JSON."""
        return {"n": len(self.vertex), "vertices": len(self), "largest_multiplicity": int(self.multiplicity.max()),
                "copied_points": int(self.multiplicity[self.multiplicity > 1].sum())}


def covariance_at_points(A: np.ndarray, multiplicity: np.ndarray) -> np.ndarray:
    """Return `M^-1/2 A M^-1/2`: the covariance of function values at points, from that of vertices.

    A : (s, s), `(R^-p)` on some vertices, in coordinates in which a vertex of m points has length sqrt(m).
    multiplicity : (s,), of these vertices; if all are 1, the result is A to the bit.
    """
    scale = 1 / np.sqrt(multiplicity)
    return A * (scale[:, None] * scale[None, :])


def require_distinct(distinct: bool, what: str) -> None:
    """Raise DataError with the message `what` unless some points are distinct."""
    require(distinct, what, error=DataError, why="equal points cannot be distinguished, and a graph needs two vertices",
            fix="check that the features were read correctly")


@dataclass(frozen=True)
class VertexRows:
    """The vertex of each row, as shared arrays `vertex`, `first` and `multiplicity` of parts; see `Vertices`.

    parts : None if each row is a vertex.
    n, v : numbers of rows and of vertices.
    largest, duplicated : the largest multiplicity, and the number of rows that have duplicates.
    """

    parts: Parts | None
    n: int
    v: int
    largest: int = 1
    duplicated: int = 0

    @classmethod
    def of(cls, parts: Parts, attributes: dict[str, int]) -> "VertexRows":
        """Return the vertices whose arrays are in parts, as `attributes` describes them."""
        n, v = attributes["n"], attributes["vertices"]
        return cls(parts if v < n else None, n, v, attributes["largest_multiplicity"], attributes["copied_points"])

    def __len__(self) -> int:
        return self.v

    @property
    def joined(self) -> bool:
        """Return whether any vertex has two rows."""
        return self.parts is not None

    @property
    def attributes(self) -> dict[str, int]:
        """Return the counts; JSON."""
        return {"n": self.n, "vertices": self.v, "largest_multiplicity": self.largest, "copied_points": self.duplicated}

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
    """Return the vertices of rows (n, d), dense or sparse, whose arrays are written to `parts`.

    Rows are equal if all their values are. If no rows are equal, they are read once, and only hashes are written, which
    are removed at the end.
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
    return VertexRows(parts, len(rows), distinct.v, distinct.largest, distinct.duplicated)


def find_vertices(rows: Rows, execution: Execution, parts: Parts | None = None) -> Vertices:
    """Return the vertices of `find_vertex_rows` in memory.

    parts : where tasks write; finished blocks are reused. Scratch of the execution by default.
    """
    return find_vertex_rows(rows, execution, parts or execution.scratch()).load()


def distinct_rows(rows: Rows, vertices: Vertices, execution: Execution) -> Rows:
    """Return the rows of the vertices, (v, d): `rows` itself if all are distinct."""
    return SelectedRows(rows, execution.share_rows(ArrayRows(vertices.first))) if vertices.joined else rows
