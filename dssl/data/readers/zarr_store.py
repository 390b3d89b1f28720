"""Reader of Zarr (version 2 or 3) in a local folder: an array X, or a group of X and optionally y and split."""

from pathlib import Path
from typing import ClassVar

from ...base.errors import DataError, require
from ...storage.foreign_zarr import ForeignArray, is_zarr, list_arrays
from .arrays import ArrayReader
from .base import Scan


class ZarrReader(ArrayReader):
    """X from a Zarr array, or from the array X of a group.

    `target` names the array of a group that holds the labels, `split` the one that is 0 for training and 1 for test
    rows. A chunk that is missing is read as its fill value, as Zarr does.
    """

    format: ClassVar[str] = "zarr"
    options: ClassVar[tuple[str, ...]] = ("target", "split")
    is_folder: ClassVar[bool] = True

    @classmethod
    def is_at(cls, folder: Path) -> bool:
        return is_zarr(folder)

    def __init__(self, path: Path, name: str, scratch: Path, *, target: str | int | None = None,
                 split: str | None = None):
        self.path, self.name, self.target, self.split = path, name, target, split
        self._arrays: dict[str, ForeignArray] = {}

    def _look(self) -> Scan:
        self._arrays = list_arrays(self.path, self.name)
        require("X" in self._arrays, f"{self.name} holds {', '.join(sorted(self._arrays)) or 'no arrays'}, expected X",
                why="the points are read from the array named X", error=DataError,
                fix="name the folder of the array itself, or give it the name X")
        self._choose(self._arrays, self.target, self.split)
        used = [self._arrays[member] for member in ("X", self._y, self._split) if member]
        return self._scan_of_dense(unit_bytes=max(array.unit_bytes for array in used))

    def _array(self, member: str) -> ForeignArray:
        return self._arrays[member]
