"""NumPy .npy files: a memory-mapped array, one row a point; further axes become columns."""

import math
import tokenize
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...errors import DataError, explain, require
from .base import Block, Reader, Scan, dense, no_rows, require_numbers, target_values


def map_npy(path: Path, name: str) -> np.ndarray:
    """Return the array of a .npy file, read from disk where it is used; never unpickles.

    Raises
    ------
    DataError : the file is not a .npy file, holds Python objects, or is cut short.
    """
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        found = path.stat().st_size
        objects = "Python objects" in str(error)
        raise DataError(explain(
            f"{name} ({found:,} bytes) cannot be read as .npy: {error}",
            why="Python objects are pickles, and unpickling a file runs whatever code it holds" if objects else
                "the file is cut short, or of another format",
            fix="save the array again with a numeric or text dtype" if objects else
                "copy or download the file again, or name its true format with `format:`",
        )) from error


def table_shape(array: Any, name: str) -> tuple[int, int]:
    """Return the shape (n, d) of an array of numbers as a table: one axis is one column, further axes are flattened.

    Only the description of the array is looked at: a reshape copies a memory map whose columns lie together.

    Raises
    ------
    DataError : the array is a scalar, holds no numbers, or has no rows or no columns.
    """
    require(array.ndim >= 1, f"{name} holds one number, expected an array of shape (rows, columns)", error=DataError,
            why="points are rows", fix="save an array of two dimensions")
    require_numbers(array, name)
    if array.shape[0] == 0:
        raise no_rows(name)
    require(math.prod(array.shape) > 0, f"{name} has shape {array.shape}: no columns", error=DataError,
            why="points without features cannot be told apart", fix="check what was saved into the file")
    return array.shape[0], math.prod(array.shape[1:])


def require_length(values: Any, n_rows: int, name: str) -> None:
    """Raise DataError unless there is one value a row."""
    require(values.shape == (n_rows,), f"{name} has shape {values.shape}, expected ({n_rows},)", error=DataError,
            why="every row has one value of it", fix="save as many values as X has rows, in one dimension")


class NpyReader(Reader):
    """X from one .npy file; y from a second one, if `labels` names it."""

    format: ClassVar[str] = "npy"
    options: ClassVar[tuple[str, ...]] = ("labels",)

    def __init__(self, path: Path, name: str, scratch: Path, *, labels: Path | None = None):
        self.path, self.name, self.labels = path, name, labels

    def scan(self) -> Scan:
        X = map_npy(self.path, self.name)
        n_rows, n_columns = table_shape(X, self.name)
        if self.labels is not None:
            y = map_npy(self.labels, str(self.labels))
            require_length(y, n_rows, str(self.labels))
            target_values(y[:0], str(self.labels))
        return Scan(n_rows=n_rows, n_columns=n_columns, dtype=str(X.dtype), row_bytes=n_columns * X.dtype.itemsize,
                    target=self.labels.name if self.labels else None)

    def read(self, start: int, stop: int, dtype: Any = np.float32, *, text_target: bool = False) -> Block:
        X = map_npy(self.path, self.name)[start:stop]
        y = None
        if self.labels is not None:
            y = target_values(map_npy(self.labels, str(self.labels))[start:stop], str(self.labels))
        return Block(dense(X.reshape(len(X), -1), dtype), y)
