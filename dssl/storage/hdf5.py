"""The door to h5py: HDF5 files whose arrays are opened where their rows are read, and changed copies of files."""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import DataError, ParameterError, explain, require
from .files import draft_of

if TYPE_CHECKING:
    from h5py import Dataset as H5Dataset  # noqa: F401
    from h5py import File, Group  # noqa: F401

# What h5py raises for a damaged file. A disk that fails has an errno, but a filter that is not installed has ENOENT.
DAMAGED = (OSError, RuntimeError, ValueError, TypeError, KeyError, AttributeError)
IN_USE = ("already open for write", "already open for read")


def h5py() -> Any:
    """Return the library; raise ParameterError if it is not installed."""
    try:
        import h5py
    except ImportError as error:
        raise ParameterError(explain("HDF5 files such as .h5ad need the package h5py", why="it is an optional "
                                     "dependency", fix="pip install h5py")) from error
    return h5py


@contextmanager
def opened(path: Path, name: str) -> Iterator[Any]:
    """Open a file for reading.

    Raises DataError: another program is writing to the file, or it is damaged, or no HDF5 file, or
    its file system has no locks. OSError: the disk fails, or the file may not be read.
    """
    library = h5py()
    try:
        with library.File(path, "r") as file:
            yield file
    except DataError:
        raise
    except DAMAGED as error:
        code = error.errno if isinstance(error, OSError) else None
        if code == errno.EAGAIN or any(text in str(error) for text in IN_USE):
            raise DataError(explain(
                f"{name} is open for writing elsewhere", why="what is read of it may change meanwhile",
                fix="close it there (adata.file.close() where it is backed), or read a copy")) from error
        if code == errno.ENOLCK:
            raise DataError(explain(
                f"{name} cannot be locked", why="HDF5 locks what it reads, and this file system has no locks",
                fix="set the environment variable HDF5_USE_FILE_LOCKING=FALSE, and let nothing write to the file"
            )) from error
        if isinstance(error, OSError) and code not in (None, errno.ENOENT):
            error.filename = error.filename or str(path)
            raise
        raise DataError(explain(
            f"{name} cannot be read as HDF5: {' '.join(str(error).split())}", why="it is cut short, damaged, needs a "
            "filter that is not installed, or is of another format", fix="copy or write the file again")) from error


def text_array(texts: Iterable[str]) -> np.ndarray:
    """Return texts as an array that an attribute or an array of a file holds, also if there are none."""
    return np.array([*texts], dtype=h5py().string_dtype())


@dataclass(frozen=True)
class Hdf5Array:
    """An array in a file, which is opened where its rows are read.

    unit_bytes : the size of the chunks that are decoded to read one row. Text has the dtype object.
    """

    path: Path
    name: str
    member: str
    shape: tuple[int, ...]
    dtype: np.dtype
    unit_bytes: int

    def __getitem__(self, rows: slice) -> np.ndarray:
        with opened(self.path, self.name) as file:
            array = file[self.member]
            return np.asarray((array.asstr() if self.dtype == object else array)[rows])


@dataclass(frozen=True)
class Hdf5Tree:
    """The groups and arrays of a file by their paths; "" is the file itself. It pickles as the path of the file."""

    path: Path
    name: str

    def attributes(self, member: str) -> JsonObject:
        """Return the attributes of a group or an array."""
        with opened(self.path, self.name) as file:
            return dict((file[member] if member else file).attrs)

    def members(self, group: str) -> list[str]:
        """Return the names of what a group holds; nothing of an array, or of a path that does not exist."""
        with opened(self.path, self.name) as file:
            node = (file.get(group) if group else file)
            return list(node) if isinstance(node, h5py().Group) else []

    def array(self, member: str) -> Hdf5Array:
        """Return the array at a path, which must be one."""
        with opened(self.path, self.name) as file:
            array = file[member]
            is_text = h5py().check_string_dtype(array.dtype) is not None
            dtype = np.dtype(object) if is_text else array.dtype
            cells = array.chunks or ()
            return Hdf5Array(self.path, self.name, member, array.shape, dtype,
                             int(np.prod(cells, dtype=np.int64)) * array.dtype.itemsize if cells else 0)


@dataclass(frozen=True)
class Original:
    """A file that is read, and of which a changed copy is made then, or which that copy replaces.

    size, modified : bytes, and nanoseconds since the epoch, when it was opened.
    """

    path: Path
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> Self:
        status = path.stat()
        return cls(path, status.st_size, status.st_mtime_ns)

    @contextmanager
    def changed_copy(self, out: Path) -> Iterator["File"]:
        """Yield a copy, open for changes, which becomes `out` at the end; after an error, nothing is left."""
        with draft_of(out) as draft:
            self._require_unchanged()
            shutil.copy(self.path, draft)
            # With a file of Python, since HDF5 1.14 ends the process where its writes fail.
            with open(draft, "rb+") as raw:
                with h5py().File(raw, "r+") as file:
                    yield file
                raw.flush()
                os.fsync(raw.fileno())
            self._require_unchanged()

    def _require_unchanged(self) -> None:
        require(Original.of(self.path) == self, f"{self.path} has changed since it was opened", error=DataError,
                why="what was computed may be of other rows, and a copy would lose the changes",
                fix="let nothing write to the file meanwhile, and run again")
