"""Graphs that a spec names as files, over all rows of the source: read, checked, and cut to the training points.

    weights    scipy.sparse.save_npz of a CSR matrix (n, n), symmetric, non-negative, finite
    neighbors  numpy.savez(ids=..., distances=...), both (n, k)

Each is read whole by one task: weights take 40 bytes an edge in each direction, neighbors 60 bytes an entry.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
import scipy.sparse as sp

from ..data.sources import Source, find_source, is_url
from ..errors import DataError, explain, require
from ..graph.given import checked_neighbors, checked_weights, restricted, store_weights
from ..storage.blocks import Arrays, PartWriter, Receipt, row_ranges

LIST_ROWS = 1 << 16  # lists in one chunk


def given_file(kind: str, path: str) -> Source:
    """Return the local file of a given graph, "weights" or "neighbors", a path or a URL.

    Raises
    ------
    DataError : there is no such file.
    """
    if is_url(path):
        return find_source(path, format="npz")
    file = Path(path).expanduser()
    require(file.is_file(), f"graph.given.{kind}: {path} is not a file", error=DataError,
            why="the graph is read from it", fix="give the path or the URL of an .npz file")
    return Source(path, file)


def _read(path: str, kind: str) -> Any:
    """Return the sparse matrix, or the pair of arrays, of a file; raise DataError if it holds none."""
    try:
        if not is_zipfile(path):
            raise BadZipFile("it is not an .npz archive")
        if kind == "weights":
            return sp.load_npz(path)
        with np.load(path, allow_pickle=False) as arrays:
            return arrays["ids"], arrays["distances"]
    except (ValueError, KeyError, OSError, BadZipFile) as error:
        made = {"weights": "scipy.sparse.save_npz(path, W)", "neighbors": "numpy.savez(path, ids=..., distances=...)"}
        raise DataError(explain(f"{path} holds no {kind}: {error}", why=f"graph.given.{kind} names a file of them",
                                fix=f"write it with {made[kind]}")) from error


@dataclass(frozen=True)
class GivenWeightsTask:
    """Write the weights among the training points as the one part of the graph."""

    path: str
    split: Arrays  # train (n,): rows of the source
    n_rows: int  # of the source

    def __call__(self, out: PartWriter) -> Receipt:
        train = self.split.load()["train"]
        W = checked_weights(_read(self.path, "weights"), self.n_rows)[train][:, train]
        require(W.nnz > 0, f"the weights of {self.path} join none of the {len(train)} training points", error=DataError,
                why="without an edge the unlabeled points say nothing", fix="use more points, or a denser graph")
        W.sort_indices()
        return store_weights(W, out)


@dataclass(frozen=True)
class GivenNeighborsTask:
    """Write the lists of the training points among themselves as the shared arrays `ids` and `distances`."""

    path: str
    split: Arrays
    n_rows: int

    def __call__(self, out: PartWriter) -> Receipt:
        lists = restricted(checked_neighbors(_read(self.path, "neighbors"), self.n_rows), self.split.load()["train"])
        arrays = lists.to_arrays()
        for name, array in arrays.items():
            out.parts.allocate(name, array.shape, array.dtype, LIST_ROWS)
        for start, stop in row_ranges(len(lists), LIST_ROWS):
            out.write_rows(start, **{name: array[start:stop] for name, array in arrays.items()})
        return {"lists": lists.attributes}
