"""Readers of folders: a data set that dssl wrote, and Zarr arrays and groups (version 2 or 3) of other programs."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from ...base.digest import JsonObject
from ...base.errors import DataError, require
from ...storage.files import read_json
from ...storage.foreign_zarr import ForeignArray, is_zarr, list_arrays
from ...storage.store import MANIFEST, StoredParts
from ..dataset import Dataset, open_stored
from .arrays import ArrayReader
from .base import NO_TARGET, Block, Reader, Scan

BOOKKEEPING = {"receipts", "unpacked", "lock.json", ".lock"}  # bookkeeping that is not part of the data


def segments_of(folder: Path) -> list[str]:
    """Return the names of the segments with appended rows, as listed in `dataset.json`."""
    manifest = read_json(folder / MANIFEST)
    return list(manifest.get("segments", [])) if isinstance(manifest, dict) else []


def all_files(folder: Path) -> list[str]:
    """Return the relative paths of all files below a folder, in sorted order."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def stored_files(folder: Path) -> dict[str, str]:
    """Return the relative paths of the files of a stored data set, by their names without the attempt.

    Files of a killed append and of abandoned attempts are not included.
    """
    segments, files = segments_of(folder), dict[str, str]()
    for name in all_files(folder):
        steps = Path(name).parts
        if BOOKKEEPING & set(steps) or (steps[0] == "segments" and steps[1] not in segments):
            continue
        parts_at = steps.index("parts") if "parts" in steps else None
        if parts_at is not None:
            part = StoredParts(folder.joinpath(*steps[:parts_at])).attempt_folder(int(steps[parts_at + 1]))
            if steps[parts_at + 2] != part.name:
                continue
            steps = (*steps[:parts_at + 2], *steps[parts_at + 3:])
        files["/".join(steps)] = name
    return files


class StoredReader(Reader):
    """Rows of a folder with a `dataset.json`, which is opened once: rows that are appended later are not seen.

    `target` may be "none", which leaves the labels out.
    """

    format: ClassVar[str] = "dssl"
    options: ClassVar[tuple[str, ...]] = ("target",)
    is_folder: ClassVar[bool] = True

    def __init__(self, path: Path, name: str, scratch: Path, *, target: str | int | None = None):
        self.path, self.name, self.target = path, name, target

    @cached_property
    def dataset(self) -> Dataset:
        """The data set; without y if `target` is "none"."""
        stored = open_stored(self.path)
        named = stored.attributes.get("target")
        require(self.target in (None, NO_TARGET, named), error=DataError, what=f"target={self.target!r}: the target of "
                f"{self.name} is {named or (NO_TARGET if stored.y is None else 'y')!r}",
                why="it was chosen when the data set was made", fix="leave it unset, or none")
        return stored if self.target != NO_TARGET else replace(stored, y=None)

    @classmethod
    def is_at(cls, folder: Path) -> bool:
        return (folder / MANIFEST).is_file()

    def attributes(self) -> JsonObject:
        known = self.dataset.attributes
        return {name: known[name] for name in ("when_missing", "columns", "survey") if name in known}

    def column_names(self) -> list[str]:
        return list(self.dataset.feature_names or ())

    def _look(self) -> Scan:
        data = self.dataset
        names, labels = data.feature_names, data.attributes.get("label_names")
        return Scan(
            n_rows=len(data), n_columns=data.X.shape[1], dtype=str(data.X.dtype), row_bytes=data.X.row_bytes,
            unit_bytes=getattr(data.X, "block_rows" if data.X.is_sparse else "chunk_rows") * data.X.row_bytes,
            has_split=data.split is not None,
            target=None if data.y is None else str(data.attributes.get("target") or "y"),
            feature_names=tuple(names) if names else None,
            label_names=tuple(labels) if labels and data.y is not None else None,
            nnz=getattr(data.X, "nnz", None) if data.X.is_sparse else None)

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        data = self.dataset
        y, split = (None if rows is None else rows.read(start, stop) for rows in (data.y, data.split))
        return Block(data.X.read(start, stop), y, split)


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
