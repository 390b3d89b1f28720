"""AnnData, the format of single-cell data, in an HDF5 file (.h5ad) or a folder of Zarr.

Read by its documented layout, https://anndata.readthedocs.io/en/stable/fileformat-prose.html: each group and array has
the attribute `encoding-type`. The package anndata is not needed, whose backed mode reads dense matrices alone by rows
and which allows fewer versions of pandas than dssl.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ...base.errors import DataError, DsslError, explain, require
from ...base.types import Matrix
from ...storage.foreign_zarr import ZarrTree, is_zarr
from ...storage.hdf5 import Hdf5Tree
from .arrays import ArrayReader, CsrParts, OnDisk, table_shape
from .base import NO_TARGET, TARGET_NAMES, Block, Scan

MATRICES = ("layers", "obsm")  # the groups whose members can be the points, beside X
SHOWN = 20  # names in a message
DATAFRAME, CATEGORICAL, CSR, CSC = "dataframe", "categorical", "csr_matrix", "csc_matrix"
NULLABLE = ("nullable-integer", "nullable-boolean", "nullable-string-array")
SAVE_AGAIN = "read it with a newer anndata, `adata = anndata.read_h5ad(path)`, and save it, `adata.write(path)`"

Tree = Hdf5Tree | ZarrTree


@dataclass(frozen=True)
class ObsColumn:
    """A column of `obs`, decoded when its rows are read: numbers, NaN where missing, or text, None where missing.

    values : the cells, or the codes of `categories`. mask : which cells are missing.
    """

    values: OnDisk
    mask: OnDisk | None = None
    categories: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def is_text(self) -> bool:
        """Whether its cells are text."""
        return (self.values if self.categories is None else self.categories).dtype.kind not in "biuf"

    def __getitem__(self, rows: slice) -> np.ndarray:
        cells = np.asarray(self.values[rows])
        missing = np.zeros(len(cells), bool) if self.mask is None else np.asarray(self.mask[rows], bool)
        if self.categories is not None:
            missing = cells < 0
            cells = self.categories[np.where(missing, 0, cells)] if len(self.categories) else np.full(len(cells), None)
        if cells.dtype.kind not in "biuf":
            cells = cells.astype(object)
            cells[missing | (cells == "")] = None
        elif missing.any():
            cells = np.where(missing, np.nan, cells.astype(np.float64))
        return cells


class AnnDataReader(ArrayReader):
    """The cells of an AnnData object: a matrix of it, and columns of `obs`.

    Parameters
    ----------
    matrix : the points: "X" (the default), or "layers/NAME" or "obsm/NAME", dense or CSR.
    target : the column of `obs` with the labels, or "none". By default a column named y, label, target or class.
    split : the column of `obs` that is 0 for training and 1 for test cells.
    """

    options: ClassVar[tuple[str, ...]] = ("target", "split", "matrix")

    def __init__(self, path: Path, name: str, scratch: Path, *, target: str | int | None = None,
                 split: str | None = None, matrix: str = "X"):
        self.path, self.name = path, name
        self.target, self.split, self.matrix = target, split, matrix
        self._columns: dict[str, ObsColumn] = {}  # those in use
        self._points_on_disk: OnDisk | CsrParts

    @property
    @abstractmethod
    def _tree(self) -> Tree:
        """Return the groups and arrays of the file."""

    def _look(self) -> Scan:
        with _as_damage(self.name):
            return self._scan_of_file()

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        with _as_damage(self.name):
            return super().read(start, stop, text_target=text_target)

    def _scan_of_file(self) -> Scan:
        tree = self._tree
        _require_anndata(tree)
        columns = [str(name) for name in tree.attributes("obs")["column-order"]]
        target = self.target
        if target is None:
            target = next((name for name in TARGET_NAMES if name in columns), NO_TARGET)
        self._choose(columns, target, self.split or NO_TARGET)
        self._columns = {column: self._column(f"obs/{column}") for column in (self._y, self._split) if column}
        require(self._split is None or not self._columns[self._split].is_text, error=DataError,
                what=f"{self._label(str(self._split))} is text", why="0 marks training cells and 1 test cells",
                fix=f"adata.obs[{self._split!r}] = (adata.obs[{self._split!r}] == \"test\").astype(int), and save it")
        kind = self._matrix_kind()
        names = self.column_names()
        if kind == CSR:
            shape = tuple(int(size) for size in tree.attributes(self.matrix)["shape"])
            data, indices, indptr = (tree.array(f"{self.matrix}/{part}") for part in ("data", "indices", "indptr"))
            csr = CsrParts(self.name, (shape[0], shape[1]), data, indices, indptr, self._part_label)
            self._points_on_disk = csr
            scan = self._scan_of_csr(csr, unit_bytes=data.unit_bytes)
        else:
            self._points_on_disk = X = tree.array(self.matrix)
            n_rows, n_columns = table_shape(X, f"{self.name}[{self.matrix!r}]")
            scan = self._scan_of(n_rows, n_columns, n_columns * X.dtype.itemsize, unit_bytes=X.unit_bytes,
                                 dtype=str(X.dtype.newbyteorder("=")))
        n_cells = self._index("obs").shape[0]
        require(n_cells == scan.n_rows, f"{self.name} has {n_cells:,} cells in obs, and {scan.n_rows:,} rows in "
                f"{self.matrix}", why="every row is a cell", fix="copy or save the file again", error=DataError)
        return replace(scan, feature_names=tuple(names) if len(names) == scan.n_columns else None)

    def _choose(self, members: Collection[str], target: str | int | None = None, split: str | None = None) -> None:
        for column in (target, split):
            shown = ", ".join(sorted(members)[:SHOWN]) or "no columns"
            require(column == NO_TARGET or column in members, f"{self.name} has no column {column!r} in obs, it has "
                    f"{shown}", why="the option names one of them", fix="name one that is there", error=DataError)
        super()._choose(members, target, split)

    def advice(self) -> str:
        arrays = [f"obsm/{name}" for name in self._tree.members("obsm")
                  if self._tree.attributes(f"obsm/{name}").get("encoding-type") == "array"]
        embeddings = sorted(arrays, key=lambda name: name != "obsm/X_pca")
        if self.matrix != "X" or not embeddings:
            return ""
        return (f"the points are X; the file has {', '.join(embeddings[:SHOWN])} too, and distances in an embedding "
                f"say more of types than those of counts: --read matrix={embeddings[0]}")

    def _matrix_kind(self) -> str:
        """Return how the points are encoded: "array" or `CSR`; raise DataError if they cannot be read by rows."""
        tree = self._tree
        group, _, member = self.matrix.partition("/")
        there = (self.matrix == "X" and "X" in tree.members("")) or (
            group in MATRICES and member in tree.members(group))
        kind = tree.attributes(self.matrix).get("encoding-type", "array") if there else ""
        if not there or kind == "null":
            known = [f"{group}/{name}" for group in MATRICES for name in tree.members(group)]
            raise DataError(explain(
                f"{self.name} has no matrix {self.matrix!r}",
                why="the points are read from X, layers/NAME or obsm/NAME",
                fix=f"set `matrix` to one that is there: {', '.join(known[:SHOWN]) or 'there is only X'}"))
        name = f"{self.name}[{self.matrix!r}]"
        require(kind != CSC, f"{name} is stored by columns (CSC)", error=DataError,
                why="a block of cells is read by rows", fix="convert it with .tocsr(), and save it again")
        require(kind in ("array", CSR), f"{name} is stored as {kind}", error=DataError,
                why="points are rows of an array or of a CSR matrix", fix="store it as an array, for example "
                "adata.obsm[NAME].to_numpy()")
        return str(kind)

    def _part_label(self, part: str) -> str:
        return f"{self.name}[{f'{self.matrix}/{part}'!r}]"

    def _label(self, member: str) -> str:
        return f"{self.name}['obs/{member}']"

    def _array(self, member: str) -> Any:
        return self._columns[member]

    def _points(self, start: int, stop: int) -> Matrix:
        on_disk = self._points_on_disk
        if isinstance(on_disk, CsrParts):
            return on_disk.block(start, stop)
        X = on_disk[start:stop]
        return X.reshape(len(X), -1)

    def _column(self, member: str) -> ObsColumn:
        """Return a column of a table; raise DataError if its encoding is not known."""
        tree = self._tree
        kind = tree.attributes(member).get("encoding-type", "array")
        if kind == CATEGORICAL:
            return ObsColumn(tree.array(f"{member}/codes"), categories=self._column(f"{member}/categories")[:])
        if kind in NULLABLE:
            return ObsColumn(tree.array(f"{member}/values"), tree.array(f"{member}/mask"))
        require(kind in ("array", "string-array"), f"{self.name}[{member!r}] is stored as {kind}", error=DataError,
                why="labels are numbers, text or categories", fix="name another column")
        return ObsColumn(tree.array(member))

    def column_names(self) -> list[str]:
        """Return the names of the variables; [] of an embedding, whose columns have none."""
        if self.matrix.startswith("obsm/"):
            return []
        return [str(name) for name in self._index("var")[:]]

    def _index(self, table: str) -> ObsColumn:
        return self._column(f"{table}/{self._tree.attributes(table)['_index']}")

    def narrow(self, start: int, stop: int) -> Self:
        reader = copy(self)
        reader._scan = replace(self.scan(), feature_names=None)  # tens of thousands of genes
        return reader


class H5adReader(AnnDataReader):
    """The cells of an .h5ad file, see `AnnDataReader`."""

    format: ClassVar[str] = "h5ad"
    endings: ClassVar[tuple[str, ...]] = (".h5ad",)

    @property
    def _tree(self) -> Hdf5Tree:
        return Hdf5Tree(self.path, self.name)


class AnnDataZarrReader(AnnDataReader):
    """The cells of an AnnData object in a folder of Zarr, see `AnnDataReader`."""

    format: ClassVar[str] = "anndata"
    is_folder: ClassVar[bool] = True

    @classmethod
    def is_at(cls, folder: Path) -> bool:
        return is_zarr(folder) and {"obs", "var"} <= {path.name for path in folder.iterdir()}

    @property
    def _tree(self) -> ZarrTree:
        return ZarrTree(self.path, self.name)


@contextmanager
def _as_damage(name: str) -> Iterator[None]:
    """Turn the errors of a layout that lacks a group or an attribute, or of codes without a category, into DataError.
    """
    try:
        yield
    except DsslError:
        raise
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        raise DataError(explain(f"{name} is damaged: {type(error).__name__}: {error}", why="a part of its tables or "
                                "matrices is missing, or does not fit the others", fix="copy or save the file again"
                                )) from error


def _require_anndata(tree: Tree) -> None:
    """Raise DataError unless a file has the layout that anndata 0.8 and later write."""
    members = tree.members("")
    require({"obs", "var"} <= set(members), f"{tree.name} holds {', '.join(sorted(members)[:SHOWN]) or 'nothing'}",
            why="an AnnData object has obs and var", error=DataError, fix="save it with `adata.write(path)`; "
            "an array of another HDF5 or Zarr file as .npy, numpy.save(path, file['NAME'][:])")
    require(tree.attributes("").get("encoding-type") == "anndata"
            and tree.attributes("obs").get("encoding-type") == DATAFRAME, error=DataError,
            what=f"{tree.name} was written by anndata before version 0.8",
            why="its tables are stored in an older layout", fix=SAVE_AGAIN)
