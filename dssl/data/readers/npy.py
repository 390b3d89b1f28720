"""Readers of NumPy's files and of IDX, the format of MNIST, whose arrays are memory-mapped.

Of an array in a .npy or IDX file the rows are points; further axes become columns, such as the pixels of an image.

A .npz file has `X`, or the CSR parts `data`, `indices`, `indptr`, `shape`; optionally `y` and `split`. `columns` names
the features and `y_names` the integer labels, where a file has them. Other members are not read.
"""

import errno
import lzma
import math
import re
import struct
import threading
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from ...base.digest import JsonObject
from ...base.errors import DataError, explain, require
from ...base.types import Matrix
from .arrays import ArrayReader, CsrParts
from .base import Scan, cut_short, no_rows
from .compressed import CHECKED, require_space, require_usual, scratch_file, write_stream

# NumPy parses the head of a file as Python, which in CPython 3.11 fails now and then where two threads do so at once
# (python/cpython#106905).
PARSING = threading.Lock()
IDX_NAME = re.compile(r"idx\d(-\w+)?$")  # train-images-idx3-ubyte
DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def map_npy(path: Path, name: str) -> np.ndarray:
    """Return the array of a .npy file, read from disk where it is used; never unpickles."""
    try:
        with PARSING:
            return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        why, fix = ("the file is cut short, or of another format",
                    "copy or download the file again, or name its true format with `format:`")
        if "Python objects" in str(error):
            why, fix = ("Python objects are pickles, and unpickling a file runs whatever code it holds",
                        "save the array again with a numeric or text dtype")
        raise DataError(explain(f"{name} ({path.stat().st_size:,} bytes) cannot be read as .npy: {error}",
                                why=why, fix=fix)) from error


class NpyReader(ArrayReader):
    """X from one .npy file; y from a second one, if `labels` names it."""

    format: ClassVar[str] = "npy"
    endings: ClassVar[tuple[str, ...]] = (".npy",)
    options: ClassVar[tuple[str, ...]] = ("labels",)

    def __init__(self, path: Path, name: str, scratch: Path, *, labels: Path | None = None):
        self.path, self.name, self.labels = path, name, labels

    def _look(self) -> Scan:
        self._y = None if self.labels is None else self.labels.name
        return self._scan_of_dense()

    def _label(self, member: str) -> str:
        return self.name if member == "X" else str(self.labels)

    def _map(self, path: Path, name: str) -> np.ndarray:
        if path == self.labels:
            with path.open("rb") as file:
                is_npy = file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX
            require(is_npy, f"labels {path.name} is no .npy file", error=DataError,
                    why="the labels of an .npy file of points are an array with one label for each row",
                    fix="save them with np.save(\"labels.npy\", labels), -1 or an empty text where there is none")
        return map_npy(path, name)

    def _array(self, member: str) -> np.ndarray:
        path = self.path if member == "X" else self.labels
        assert path is not None
        return self._map(path, self._label(member))


def map_idx(path: Path, name: str) -> np.ndarray:
    """Return the array of an IDX file, memory-mapped."""
    with open(path, "rb") as file:
        magic = file.read(4)
        require(len(magic) == 4 and magic[:2] == b"\0\0" and magic[2] in DTYPES and magic[3] > 0, error=DataError,
                what=f"{name} begins with bytes {magic.hex(' ') or '(none)'}, expected 00 00, a type "
                     f"({', '.join(f'{code:02x}' for code in DTYPES)}) and a number of dimensions",
                why="it is not an IDX file", fix="name its true format with `format:`, or download it again")
        header = file.read(4 * magic[3])
        if len(header) < 4 * magic[3]:
            raise cut_short(name, 4 + 4 * magic[3], 4 + len(header))
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4"))
    dtype, begin, nbytes = np.dtype(DTYPES[magic[2]]), 4 + len(header), path.stat().st_size
    expected = begin + math.prod(shape) * dtype.itemsize
    if nbytes < expected:
        raise cut_short(name, expected, nbytes)
    require(nbytes == expected, f"{name} has {nbytes - expected:,} bytes more than its header says", error=DataError,
            why="the header does not match the values", fix="download the file again")
    if math.prod(shape) == 0:
        raise no_rows(name)
    return np.memmap(path, dtype, mode="r", offset=begin, shape=shape)


def labels_name(images: str) -> str | None:
    """Return the conventional file name of the labels of an images file: train-labels-idx1-ubyte, and so on."""
    name = re.sub(r"idx\d", "idx1", images.replace("images", "labels"))
    return name if "images" in images else None


def labels_beside(path: Path) -> Path | None:
    """Return the file of labels that lies beside a file of images, compressed or not."""
    name = labels_name(path.name) or ""
    plain = name.removesuffix(".gz")
    beside = (path.parent / candidate for candidate in (name, plain, plain + ".gz"))
    return next((candidate for candidate in beside if candidate.is_file()), None)


class IdxReader(NpyReader):
    """X from a file of images (or any array), y from `labels`, a file of one value a row."""

    format: ClassVar[str] = "idx"
    endings: ClassVar[tuple[str, ...]] = (".idx",)

    @classmethod
    def is_named(cls, name: str) -> bool:
        return bool(IDX_NAME.search(name)) or super().is_named(name)

    def _map(self, path: Path, name: str) -> np.ndarray:
        return map_idx(path, name)


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
