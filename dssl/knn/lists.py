"""`Neighbors`: the neighbor lists of all rows, whatever search made them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..execution.tasks import Execution
from ..storage.blocks import ArrayRows, Parts, Rows
from ..storage.views import FirstColumns


@dataclass(frozen=True)
class Neighbors:
    """The neighbor lists of n rows.

    ids : Rows (n, k) int64, ascending by (distance, id); the distance in float64, before rounding.
    distances : Rows (n, k) float32, in the units of the data; under "cosine" sqrt(2 (1 - cos)). Given lists keep their
        dtype, and are padded with id -1 at distance infinity.
    attributes : parameters, the method used, and its recall; JSON.
    order : Rows (n,) int64, a permutation of the rows in which near rows lie together; None for other searches.
    """

    ids: Rows
    distances: Rows
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
        return len(self.ids)

    @property
    def k(self) -> int:
        """Return the number of neighbors of each row."""
        return self.ids.shape[1]

    def blocks(self, block_rows: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield (first row, ids, distances) of each block of rows."""
        for start, ids in self.ids.blocks(block_rows):
            yield start, ids, self.distances.read(start, start + len(ids))

    def first(self, k: int) -> "Neighbors":
        """Return the neighbor lists of the first k neighbors of each row."""
        return Neighbors(FirstColumns(self.ids, k), FirstColumns(self.distances, k),
                         {**self.attributes, "n_neighbors": k}, self.order)

    def shared(self, execution: Execution) -> "Neighbors":
        """Return the neighbor lists in shared storage, so that tasks need not carry them."""
        order = None if self.order is None else execution.share_rows(self.order)
        return Neighbors(execution.share_rows(self.ids), execution.share_rows(self.distances), self.attributes, order)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes, beside the attributes."""
        order = {} if self.order is None else {"order": self.order.read_all()}
        return {"ids": self.ids.read_all(), "distances": self.distances.read_all(), **order}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any] | None = None) -> "Neighbors":
        """Return the neighbor lists that `to_arrays` gave."""
        order = ArrayRows(arrays["order"]) if "order" in arrays else None
        return cls(ArrayRows(arrays["ids"]), ArrayRows(arrays["distances"]), dict(attributes or {}), order)
