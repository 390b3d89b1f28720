"""`Neighbors`: the neighbor lists of all rows, whatever search made them."""

import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..base.errors import require
from ..execution.tasks import Execution
from ..storage.blocks import ArrayRows, Parts, Rows, write_dense
from ..storage.foreign_zarr import publish_array
from ..storage.store import StoredParts
from ..storage.views import ChosenColumns

LIST_ROWS = 1 << 16  # lists in one chunk


def distance_matrix(indices: np.ndarray, distances: np.ndarray, n_columns: int) -> sp.csr_array:
    """Return lists (m, k) of numbers and distances as a sparse matrix (m, n_columns), without entries numbered -1."""
    listed = indices >= 0
    ends = np.concatenate([[0], np.cumsum(listed.sum(axis=1))])
    return sp.csr_array((distances[listed], indices[listed], ends), shape=(len(indices), n_columns))


@dataclass(frozen=True)
class Neighbors:
    """The neighbor lists of n rows.

    id_rows : Rows (n, k) int64, ascending by (distance, id); the distance in float64, before rounding.
    distance_rows : Rows (n, k) float32, in the units of the data; under "cosine" sqrt(2 (1 - cos)). Given lists keep
        their dtype, and are padded with id -1 at distance infinity.
    attributes : parameters, the method used, and its recall; JSON.
    order : Rows (n,) int64, a permutation of the rows in which near rows lie together; None for other searches.
    """

    id_rows: Rows
    distance_rows: Rows
    attributes: dict[str, Any] = field(default_factory=dict)
    order: Rows | None = None

    @classmethod
    def stored(cls, parts: Parts, attributes: dict[str, Any]) -> "Neighbors":
        """Return the neighbor lists stored in parts as shared arrays, with `order` if the attributes say `ordered`."""
        order = parts.rows("order") if attributes.get("ordered") else None
        return cls(parts.rows("ids"), parts.rows("distances"), attributes, order)

    @classmethod
    def of_shape(cls, n: int, k: int) -> "Neighbors":
        """Return lists of this shape without bytes, for what follows from shapes."""
        return cls(ArrayRows(np.broadcast_to(np.int64(0), (n, k))), ArrayRows(np.broadcast_to(np.float32(0), (n, k))))

    def __len__(self) -> int:
        return len(self.id_rows)

    @property
    def k(self) -> int:
        """Return the number of neighbors of each row."""
        return self.id_rows.shape[1]

    @property
    def indices(self) -> np.ndarray:
        """Return the neighbors of all rows as one array, (n, k)."""
        return self.id_rows.read_all()

    @property
    def distances(self) -> np.ndarray:
        """Return the distances of all neighbors as one array, (n, k)."""
        return self.distance_rows.read_all()

    def to_scipy(self, *, with_self: bool = False) -> sp.csr_array:
        """Return the distances as a sparse matrix (n, n), each row ascending by distance.

        With the row itself, stored at distance 0 and first, the matrix equals that of scikit-learn's
        `KNeighborsTransformer`.
        """
        indices, distances = self.indices, self.distances
        if with_self:
            indices = np.column_stack([np.arange(len(self)), indices])
            distances = np.column_stack([np.zeros(len(self), distances.dtype), distances])
        return distance_matrix(indices, distances, len(self))

    def to_zarr(self, folder: str | Path) -> Path:
        """Write the Zarr arrays `indices` and `distances`, (n, k), to a new folder, in blocks; return the folder.

        Raises ParameterError: the folder exists.
        """
        target = Path(folder)
        require(not target.exists(), f"{target} exists", why="nothing is overwritten", fix="name another folder")
        metric = self.attributes.get("metric")
        described = {**self.attributes, "metric": getattr(metric, "__name__", metric)}  # of a function its name
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        parts = StoredParts(draft / "parts")
        try:
            for name, rows in (("indices", self.id_rows), ("distances", self.distance_rows)):
                write_dense(rows, parts, name, LIST_ROWS)
                publish_array(parts.rows(name).path, draft / name, described)
            parts.remove()
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return target

    def blocks(self, block_rows: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (first row, ids, distances) of each block of rows."""
        for start, ids in self.id_rows.blocks(block_rows):
            yield start, ids, self.distance_rows.read(start, start + len(ids))

    def first(self, k: int) -> "Neighbors":
        """Return the neighbor lists of the first k neighbors of each row."""
        return Neighbors(ChosenColumns(self.id_rows, slice(k)), ChosenColumns(self.distance_rows, slice(k)),
                         {**self.attributes, "n_neighbors": k}, self.order)

    def shared(self, execution: Execution) -> "Neighbors":
        """Return the neighbor lists in shared storage, so that tasks need not carry them."""
        order = None if self.order is None else execution.share_rows(self.order)
        return Neighbors(execution.share_rows(self.id_rows), execution.share_rows(self.distance_rows), self.attributes,
                         order)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes, beside the attributes."""
        order = {} if self.order is None else {"order": self.order.read_all()}
        return {"ids": self.id_rows.read_all(), "distances": self.distance_rows.read_all(), **order}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any] | None = None) -> "Neighbors":
        """Return the neighbor lists that `to_arrays` gave."""
        order = ArrayRows(arrays["order"]) if "order" in arrays else None
        return cls(ArrayRows(arrays["ids"]), ArrayRows(arrays["distances"]), dict(attributes or {}), order)
