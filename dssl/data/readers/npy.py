"""Reader of NumPy's .npy files: a memory-mapped array whose rows are points; further axes become columns."""

import threading
import tokenize
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.lib.format import MAGIC_PREFIX

from ...base.errors import DataError, explain, require
from .arrays import ArrayReader
from .base import Scan

# NumPy parses the head of a file as Python, which in CPython 3.11 fails now and then where two threads do so at once
# (python/cpython#106905).
PARSING = threading.Lock()


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
