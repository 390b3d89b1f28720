"""NumPy .npz files: `X`, or the CSR parts `data`, `indices`, `indptr`, `shape`; optionally `y` and `split`.

`columns` names the features and `y_names` the integer labels, where a file has them. Other members are not read.
"""

import errno
import lzma
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ...errors import DataError, explain, require
from .base import (
    NO_TARGET,
    Block,
    Reader,
    Scan,
    cut_short,
    dense,
    no_rows,
    require_numbers,
    scratch_file,
    target_values,
    write_stream,
)
from .npy import map_npy, require_length, table_shape

CSR = ("data", "indices", "indptr", "shape")

# What zipfile raises at a damaged archive, beside what it says on purpose: sizes and offsets are taken as they are.
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, NotImplementedError, RuntimeError, EOFError,
           OSError, ValueError, OverflowError, LookupError)


def _of_the_disk(error: Exception) -> bool:
    """Return whether an error says something of the disk and not of the archive; EINVAL: it points before its start."""
    return isinstance(error, DataError) or (isinstance(error, OSError) and error.errno not in (None, errno.EINVAL))


class NpzReader(Reader):
    """The members of one .npz file, each unpacked once and then memory-mapped.

    `target` names the member that holds the labels, `split` the one that is 0 for training and 1 for test rows.
    """

    format: ClassVar[str] = "npz"
    options: ClassVar[tuple[str, ...]] = ("target", "split")

    def __init__(self, path: Path, name: str, scratch: Path, *, target: str | int | None = None,
                 split: str | None = None):
        self.path, self.name, self.scratch = path, name, scratch
        self.target, self.split = target, split
        self._y: str | None = None  # the members in use
        self._split: str | None = None
        self._members: dict[str, Path] = {}
        self._scan: Scan | None = None

    def scan(self) -> Scan:
        if self._scan is None:
            self._scan = self._unpack_and_check()
        return self._scan

    def _unpack_and_check(self) -> Scan:
        members = self._list()
        target, split = self._optional(members, self.target, "y"), self._optional(members, self.split, "split")
        is_dense = "X" in members
        needed = [*(("X",) if is_dense else CSR), *(m for m in (target, split, "columns", "y_names") if m in members)]
        for member in dict.fromkeys(needed):
            self._members[member] = self._unpack(members[member], member)
        n_rows, n_columns, dtype, row_bytes = self._check_dense() if is_dense else self._check_csr()
        nnz = None if is_dense else len(self._open("data"))
        if target:
            require_length(self._open(target), n_rows, self._label(target))
            target_values(self._open(target)[:0], self._label(target))
        if split:
            self._check_split(split, n_rows)
        self._y, self._split = target, split
        return Scan(n_rows=n_rows, n_columns=n_columns, dtype=dtype, row_bytes=row_bytes, target=target,
                    has_split=split is not None, feature_names=self._names("columns", n_columns),
                    label_names=self._names("y_names") if target == "y" else None, nnz=nnz)

    def _list(self) -> dict[str, str]:
        """Return the file in the archive of each member; refuse an archive that has no X."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                files = archive.namelist()
        except DAMAGED as error:
            if _of_the_disk(error):
                raise
            raise DataError(explain(
                f"{self.name} ({self.path.stat().st_size:,} bytes) is not a .npz archive: {error}",
                why="the file is cut short, or of another format",
                fix="copy or download the file again, or name its true format with `format:`",
            )) from error
        members = {file.removesuffix(".npy"): file for file in files if file.endswith(".npy")}
        require("X" in members or all(member in members for member in CSR), error=DataError,
                what=f"{self.name} holds {', '.join(sorted(members)) or 'no arrays'}, expected X, "
                     f"or the parts of a CSR matrix: {', '.join(CSR)}",
                why="the points are read from the array named X",
                fix="save it again, for example numpy.savez(path, X=points, y=labels)")
        return members

    def _optional(self, members: dict[str, str], wanted: str | int | None, default: str) -> str | None:
        """Return the member that was asked for, or the default one if the file has it."""
        if wanted is None:
            return default if default in members else None
        if wanted == NO_TARGET:
            return None
        require(wanted in members, f"{self.name} has no member {wanted!r}, it holds {', '.join(sorted(members))}",
                why="the option names an array of the file", fix="name one of them", error=DataError)
        return str(wanted)

    def _label(self, member: str) -> str:
        return f"{self.name}[{member!r}]"

    def _unpack(self, file: str, member: str) -> Path:
        out = scratch_file(self.path, self.scratch, f"{member.replace('/', '_')}.npy")
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(file) as source:
                write_stream(source, out, self.path)
        except DAMAGED as error:
            if _of_the_disk(error):
                raise
            raise DataError(explain(
                f"{self._label(member)} cannot be unpacked: {error}",
                why="its bytes are damaged, encrypted, or compressed in a way that Python cannot read",
                fix="copy or download the file again, or save it again with numpy.savez_compressed",
            )) from error
        return out

    def _open(self, member: str) -> np.ndarray:
        return map_npy(self._members[member], self._label(member))

    def _names(self, member: str, length: int | None = None) -> tuple[str, ...] | None:
        """Return the texts of a member, or None if it is not there or not one name each."""
        if member not in self._members:
            return None
        names = self._open(member)
        fits = names.dtype.kind == "U" and names.ndim == 1 and length in (None, len(names))
        return tuple(str(name) for name in names) if fits else None

    def _check_dense(self) -> tuple[int, int, str, int]:
        X = self._open("X")
        n_rows, n_columns = table_shape(X, self._label("X"))
        return n_rows, n_columns, str(X.dtype), n_columns * X.dtype.itemsize

    def _check_csr(self) -> tuple[int, int, str, int]:
        """Check what the whole matrix must satisfy; the row blocks check their own pointers and column numbers."""
        shape, indptr, data, indices = (self._open(part) for part in ("shape", "indptr", "data", "indices"))
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
        return n_rows, n_columns, str(data.dtype), max(1, (data.nbytes + indices.nbytes) // n_rows)

    def _check_split(self, split: str, n_rows: int) -> None:
        values = self._open(split)
        require_length(values, n_rows, self._label(split))
        found = np.unique(values)
        require(bool(np.isin(found, (0, 1)).all()), error=DataError,
                what=f"{self._label(split)} holds {found[:6].tolist()}, expected 0 and 1",
                why="0 marks training rows and 1 test rows", fix="save it as 0 and 1")

    def read(self, start: int, stop: int, dtype: Any = np.float32, *, text_target: bool = False) -> Block:
        self.scan()
        if "X" in self._members:
            values = self._open("X")[start:stop]
            return self._block(dense(values.reshape(len(values), -1), dtype), start, stop)
        return self._block(dense(self._csr_rows(start, stop).toarray(), dtype), start, stop)

    def read_sparse(self, start: int, stop: int) -> Block:
        self.scan()
        return self._block(self._csr_rows(start, stop), start, stop)

    def _block(self, X: Any, start: int, stop: int) -> Block:
        y = target_values(self._open(self._y)[start:stop], self._label(self._y)) if self._y else None
        split = np.asarray(self._open(self._split)[start:stop], np.uint8) if self._split else None
        return Block(X, y, split)

    def _csr_rows(self, start: int, stop: int) -> sparse.csr_array:
        indptr = np.asarray(self._open("indptr")[start:stop + 1], np.int64)
        n_columns = int(self._open("shape")[1])
        bad = np.flatnonzero(np.diff(indptr) < 0)
        require(not len(bad), f"{self._label('indptr')} falls at row {start + int(bad[0]) if len(bad) else start}",
                why="the entries of a row would overlap those of the row before", fix="save the parts of X.tocsr()",
                error=DataError)
        indices = np.asarray(self._open("indices")[indptr[0]:indptr[-1]], np.int64)
        wrong = np.flatnonzero((indices < 0) | (indices >= n_columns))
        if len(wrong):
            row = start + int(np.searchsorted(indptr - indptr[0], wrong[0], side="right")) - 1
            raise DataError(explain(
                f"{self._label('indices')} holds column {indices[wrong[0]]} in row {row}, the last is {n_columns - 1}",
                why="the matrix has no such column", fix="save shape=X.shape together with the other parts",
            ))
        data = dense(self._open("data")[indptr[0]:indptr[-1]], np.float64)
        shape = (len(indptr) - 1, n_columns)
        return sparse.csr_array((data, indices.astype(np.int32), indptr - indptr[0]), shape)
