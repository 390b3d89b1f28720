"""Readers of one array in a file that is memory-mapped: NumPy's .npy, and IDX, the format of MNIST.

The rows of the array are points; further axes become columns, such as the pixels of an image.
"""

import math
import re
import threading
import tokenize
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from ...base.errors import DataError, explain, require
from .arrays import ArrayReader
from .base import Scan, cut_short, no_rows

# NumPy parses the head of a file as Python, which in CPython 3.11 fails now and then where two threads do so at once
# (python/cpython#106905).
PARSING = threading.Lock()
IDX_NAME = re.compile(r"idx\d(-\w+)?$")  # train-images-idx3-ubyte
DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def map_npy(path: Path, name: str) -> np.ndarray:
    """Return the array of a .npy file, read from disk where it is used; never unpickles.

    Raise DataError if the file is not a .npy file, holds Python objects, or is cut short.
    """
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
    """Return the array of an IDX file, memory-mapped.

    Raise DataError if the magic number is not one of IDX, or the file is shorter or longer than its header says.
    """
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
