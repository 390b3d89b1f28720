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
from typing import ClassVar

import numpy as np

from ...base.digest import JsonObject
from ...base.errors import DataError, explain, require
from ...base.types import Matrix
from .arrays import ArrayReader, CsrParts
from .base import Scan
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
            scan = self._scan_of_csr(self._csr_parts(), **named)
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
                fix="save it again, for example numpy.savez(path, X=points, y=labels)" if "format" not in members else
                "save it again, by scipy.sparse.save_npz(path, X.tocsr())")
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

    def _points(self, start: int, stop: int) -> Matrix:
        return super()._points(start, stop) if "X" in self._members else self._csr_parts().block(start, stop)

    def _csr_parts(self) -> CsrParts:
        shape, data, indices, indptr = (self._array(part) for part in ("shape", "data", "indices", "indptr"))
        require(shape.shape == (2,) and shape.dtype.kind in "iu", f"{self._label('shape')} is {np.asarray(shape)!r}",
                why="a matrix has rows and columns", fix="save shape=X.shape", error=DataError)
        return CsrParts(self.name, (int(shape[0]), int(shape[1])), data, indices, indptr, self._label)
