"""NumPy .npz files: `X`, or the CSR parts `data`, `indices`, `indptr`, `shape`; optionally `y` and `split`.

`columns` names the features and `y_names` the integer labels, where a file has them. Other members are not read.
"""

import errno
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ...base.digest import JsonObject
from ...base.errors import DataError, explain, require
from .arrays import ArrayReader, require_numbers
from .base import Scan, cut_short, no_rows
from .compressed import CHECKED, require_space, require_usual, scratch_file, write_stream
from .npy import map_npy

CSR = ("data", "indices", "indptr", "shape")

# Errors that zipfile raises for a damaged archive, since it does not check its sizes and offsets.
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, NotImplementedError, RuntimeError, EOFError,
           OSError, ValueError, OverflowError, LookupError)


class NpzReader(ArrayReader):
    """The members of one .npz file, each unpacked once and then memory-mapped.

    `target` names the member that holds the labels, `split` the one that is 0 for training and 1 for test rows.
    """

    format: ClassVar[str] = "npz"
    endings: ClassVar[tuple[str, ...]] = (".npz",)
    options: ClassVar[tuple[str, ...]] = ("target", "split")

    def __init__(self, path: Path, name: str, scratch: Path, *, target: str | int | None = None,
                 split: str | None = None):
        self.path, self.name, self.scratch = path, name, scratch
        self.target, self.split = target, split
        self._members: dict[str, Path] = {}  # those in use, unpacked

    def _look(self) -> Scan:
        members = self._list()
        self._choose(members, self.target, self.split)
        needed = ["X"] if "X" in members else [*CSR]
        needed += [member for member in (self._y, self._split, "columns", "y_names") if member in members]
        needed = list(dict.fromkeys(needed))
        self._require_room([members[member] for member in needed])
        for member in needed:
            self._members[member] = self._unpack(members[member], member)
        named: JsonObject = {"label_names": self._names("y_names") if self._y == "y" else None}
        if "X" in members:
            scan = self._scan_of_dense(**named)
        else:
            n_rows, n_columns = self._check_csr()
            data, indices = self._array("data"), self._array("indices")
            row_bytes = max(1, (data.nbytes + indices.nbytes) // n_rows)
            scan = self._scan_of(n_rows, n_columns, row_bytes, dtype=str(data.dtype), nnz=len(data), **named)
        return replace(scan, feature_names=self._names("columns", scan.n_columns))

    @contextmanager
    def _archive(self, what: str) -> Iterator[zipfile.ZipFile]:
        """Open the archive; an error that is not of the disk says `what` cannot be done."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except DAMAGED as error:
            # EINVAL: the archive points before its start.
            if isinstance(error, DataError) or (isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)):
                raise
            raise DataError(explain(
                f"{what}: {error}", why="the file is cut short, damaged, encrypted, compressed in a way that Python "
                "cannot read, or of another format", fix="copy or download the file again, save it again with "
                "numpy.savez_compressed, or name its true format with `format:`")) from error

    def _list(self) -> dict[str, str]:
        """Return the file in the archive for each member; raise DataError if the archive has no X."""
        with self._archive(f"{self.name} ({self.path.stat().st_size:,} bytes) is not a .npz archive") as archive:
            files = archive.namelist()
        members = {file.removesuffix(".npy"): file for file in files if file.endswith(".npy")}
        require("X" in members or all(member in members for member in CSR), error=DataError,
                what=f"{self.name} holds {', '.join(sorted(members)) or 'no arrays'}, expected X, "
                     f"or the parts of a CSR matrix: {', '.join(CSR)}",
                why="the points are read from the array named X",
                fix="save it again, for example numpy.savez(path, X=points, y=labels)")
        return members

    def _require_room(self, files: list[str]) -> None:
        """Raise DataError if some files of the archive unpack to more than may be, by what it says of their sizes.

        Python reads no more of a file than that. Sizes are taken together: entries of a sparse matrix that are all 1
        are packed a thousand times smaller, but the numbers of their columns are not.
        """
        with self._archive(f"{self.name} cannot be unpacked") as archive:
            nbytes = sum(archive.getinfo(file).file_size for file in files)
        require_usual(self.name, self.path, nbytes)
        if nbytes >= CHECKED:
            self.scratch.mkdir(parents=True, exist_ok=True)
            require_space(self.scratch, nbytes, self.name)

    def _unpack(self, file: str, member: str) -> Path:
        out = scratch_file(self.path, self.scratch, f"{member.replace('/', '_')}.npy")
        with self._archive(f"{self._label(member)} cannot be unpacked") as archive, archive.open(file) as source:
            write_stream(source, out, self.path)
        return out

    def _array(self, member: str) -> np.ndarray:
        return map_npy(self._members[member], self._label(member))

    def _names(self, member: str, length: int | None = None) -> tuple[str, ...] | None:
        """Return the texts of a member; None if it does not exist, or is not a list of names."""
        if member not in self._members:
            return None
        names = self._array(member)
        fits = names.dtype.kind == "U" and names.ndim == 1 and length in (None, len(names))
        return tuple(str(name) for name in names) if fits else None

    def _check_csr(self) -> tuple[int, int]:
        """Return the shape, after checking the whole matrix; row blocks check their own pointers and column numbers."""
        shape, indptr, data, indices = (self._array(part) for part in ("shape", "indptr", "data", "indices"))
        require(shape.shape == (2,) and shape.dtype.kind in "iu", f"{self._label('shape')} is {np.asarray(shape)!r}",
                why="a matrix has rows and columns", fix="save shape=X.shape", error=DataError)
        n_rows, n_columns = (int(size) for size in shape)
        require_numbers(data, self._label("data"))
        if n_rows == 0:
            raise no_rows(self.name)
        require(n_columns > 0, f"{self.name} has shape ({n_rows}, 0): no columns", error=DataError,
                why="points without features cannot be told apart", fix="check what was saved into the file")
        require(indptr.shape == (n_rows + 1,) and indptr.dtype.kind in "iu" and int(indptr[0]) == 0, error=DataError,
                what=f"{self._label('indptr')} has {indptr.size} entries for {n_rows} rows, expected "
                     f"{n_rows + 1} integers from 0 on",
                why="row i lies between entries i and i + 1; a CSC matrix has one entry a column instead",
                fix="save the parts of X.tocsr()")
        stored = int(indptr[-1])
        if not len(data) == len(indices) == stored:
            raise cut_short(f"{self.name}: data and indices", stored * data.itemsize, len(data) * data.itemsize)
        return n_rows, n_columns

    def _points(self, start: int, stop: int) -> Any:
        if "X" in self._members:
            return super()._points(start, stop)
        indptr = np.asarray(self._array("indptr")[start:stop + 1], np.int64)
        n_columns = int(self._array("shape")[1])
        bad = np.flatnonzero(np.diff(indptr) < 0)
        require(not len(bad), f"{self._label('indptr')} falls at row {start + int(bad[0]) if len(bad) else start}",
                why="the entries of a row would overlap those of the row before", fix="save the parts of X.tocsr()",
                error=DataError)
        indices = np.asarray(self._array("indices")[indptr[0]:indptr[-1]], np.int64)
        wrong = np.flatnonzero((indices < 0) | (indices >= n_columns))
        if len(wrong):
            row = start + int(np.searchsorted(indptr - indptr[0], wrong[0], side="right")) - 1
            raise DataError(explain(
                f"{self._label('indices')} holds column {indices[wrong[0]]} in row {row}, the last is {n_columns - 1}",
                why="the matrix has no such column", fix="save shape=X.shape together with the other parts"))
        data = np.asarray(self._array("data")[indptr[0]:indptr[-1]], np.float64)
        shape = (len(indptr) - 1, n_columns)
        return sparse.csr_array((data, indices.astype(np.int32), indptr - indptr[0]), shape)
