"""Write into a copy of an .h5ad file: columns of `obs`, arrays of `obsm`, graphs of `obsp`; and read such a graph.

The copy gets its name when all of it is written and on the disk, so it may replace the file itself: a full disk or a
process that is killed leaves the file as it was.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import sparse

from ..base.errors import DataError, require
from ..storage.hdf5 import Hdf5Tree, Original, text_array
from .readers.anndata import CATEGORICAL, CSR
from .readers.arrays import CsrParts

if TYPE_CHECKING:
    from ..storage.hdf5 import Group, H5Dataset

ENCODED = {"encoding-type": "array", "encoding-version": "0.2.0"}
CONNECTIVITIES = "obsp/connectivities"
# What predictions of dssl are named, as in dssl_label; of another prediction they are removed.
PREDICTED = re.compile("dssl_(label|value|tags|probability|probabilities|score|rejected|role)(_.*)?", re.DOTALL)
Columns = Mapping[str, np.ndarray | pd.Categorical]


def write_cells(source: Original, out: Path, blocks: Iterable[tuple[np.ndarray, Columns]]) -> None:
    """Write a copy of an .h5ad file with further columns of `obs`, or arrays of `obsm`, in place of those so named.

    Predictions of dssl that the file has already are removed.

    blocks : numbers of rows, ascending, and the columns of these, all with the same names and types. An array (rows, c)
    becomes one of obsm. Rows that no block names have no category, NaN, or False.
    """
    with source.changed_copy(out) as file:
        obs = file["obs"]
        names = obs[str(obs.attrs["_index"])]
        n = len(names if hasattr(names, "shape") else names["values"])  # an array, or one with a mask
        arrays: dict[str, H5Dataset] = {}
        for rows, columns in blocks:
            if not arrays:
                _remove_predictions(file)
                arrays = {name: _allocated(file, name, column, n) for name, column in columns.items()}
                known = [str(name) for name in obs.attrs["column-order"]]
                added = [name for name, column in columns.items() if column.ndim == 1 and name not in known]
                obs.attrs["column-order"] = text_array([*known, *added])
            if len(rows):
                span = slice(int(rows[0]), int(rows[-1]) + 1)
                for name, column in columns.items():
                    cells = arrays[name][span]
                    cells[rows - span.start] = column.codes if isinstance(column, pd.Categorical) else column
                    arrays[name][span] = cells


def open_obsp(path: Path) -> CsrParts:
    """Return the matrix (n, n) that scanpy names connectivities, of an .h5ad file."""
    tree = Hdf5Tree(path, str(path))
    name = f"{path}['{CONNECTIVITIES}']"
    there = sorted(tree.members("obsp"))
    require(CONNECTIVITIES.partition("/")[2] in there, f"there is no {name}", error=DataError,
            why=f"obsp holds {', '.join(there) or 'nothing'}",
            fix="call scanpy.pp.neighbors, or `dssl neighbors`, and save the weights by this name")
    attributes = tree.attributes(CONNECTIVITIES)
    require(attributes.get("encoding-type") == CSR, f"{name} is stored as {attributes.get('encoding-type')}",
            why="weights are a sparse matrix by rows", error=DataError,
            fix="convert it with scipy.sparse.csr_matrix(W), and save it again")
    n_rows, n_columns = (int(size) for size in attributes["shape"])
    data, indices, indptr = (tree.array(f"{CONNECTIVITIES}/{part}") for part in ("data", "indices", "indptr"))
    parts = CsrParts(str(path), (n_rows, n_columns), data, indices, indptr,
                     lambda part: f"{path}['{CONNECTIVITIES}/{part}']")
    parts.check()
    return parts


def write_graphs(source: Original, out: Path, graphs: Mapping[str, sparse.csr_array],
                 parameters: Mapping[str, object]) -> None:
    """Write a copy of an .h5ad file with CSR matrices (n, n) in `obsp`, in place of those so named.

    parameters : of the search, for `uns["neighbors"]`, where scanpy looks up the names of the matrices.
    """
    with source.changed_copy(out) as file:
        for name, matrix in graphs.items():
            group = _new_group(_dict(file, "obsp"), name, "csr_matrix")
            group.attrs["shape"] = matrix.shape
            for part in ("data", "indices", "indptr"):
                group.create_dataset(part, data=getattr(matrix, part), chunks=True).attrs.update(ENCODED)
        neighbors = _new_group(_dict(file, "uns"), "neighbors", "dict")
        params = _new_group(neighbors, "params", "dict")
        for group, values in ((neighbors, {f"{name}_key": name for name in graphs}), (params, parameters)):
            for name, value in values.items():
                kind = "string" if isinstance(value, str) else "numeric-scalar"
                group.create_dataset(name, data=value).attrs.update({**ENCODED, "encoding-type": kind})


def _remove_predictions(file: "Group") -> None:
    obs = file["obs"]
    known = [str(name) for name in obs.attrs["column-order"]]
    obs.attrs["column-order"] = text_array(name for name in known if not PREDICTED.fullmatch(name))
    for group in (obs, _dict(file, "obsm")):
        for name in [name for name in group if PREDICTED.fullmatch(name)]:
            del group[name]


def _allocated(file: "Group", name: str, column: np.ndarray | pd.Categorical, n: int) -> "H5Dataset":
    """Return a new array for a column of `obs`, or for an array of `obsm`, without any row yet."""
    group = file["obs"] if column.ndim == 1 else _dict(file, "obsm")
    if isinstance(column, pd.Categorical):
        made = _new_group(group, name, CATEGORICAL)
        made.attrs["ordered"] = False
        categories = np.asarray(column.categories)
        stored = made.create_dataset("categories", data=text_array(categories) if _is_text(categories) else categories)
        stored.attrs.update(_encoding(categories))
        array = made.create_dataset("codes", (n,), column.codes.dtype, fillvalue=-1)
    else:
        if name in group:
            del group[name]
        empty = np.nan if column.dtype.kind == "f" else None
        dtype = text_array(()).dtype if _is_text(column) else column.dtype
        array = group.create_dataset(name, (n, *column.shape[1:]), dtype, fillvalue=empty)
    array.attrs.update(_encoding(array))
    return array


def _is_text(values: "np.ndarray | H5Dataset") -> bool:
    return values.dtype.kind not in "biuf"


def _encoding(values: "np.ndarray | H5Dataset") -> dict[str, str]:
    return {**ENCODED, "encoding-type": "string-array"} if _is_text(values) else ENCODED


def _dict(file: "Group", name: str) -> "Group":
    """Return a group of matrices, which a file need not have."""
    return file[name] if name in file else _new_group(file, name, "dict")


def _new_group(parent: "Group", name: str, encoding: str) -> "Group":
    if name in parent:
        del parent[name]
    group = parent.create_group(name)
    version = "0.2.0" if encoding == CATEGORICAL else "0.1.0"
    group.attrs.update({"encoding-type": encoding, "encoding-version": version})
    return group
