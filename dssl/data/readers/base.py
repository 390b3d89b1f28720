"""What every reader of a file format gives: a scan of the whole file, and any rows of it read on their own."""

import bz2
import errno
import gzip
import hashlib
import lzma
import math
import os
import shutil
import uuid
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np

from ...errors import DataError, explain, require

TARGET_NAMES = ("y", "label", "target", "class")
NO_TARGET = "none"  # `target: none` says that every column is a feature
OPENERS: dict[str, Callable[[Path], Any]] = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a file holds, found without keeping its rows."""

    n_rows: int
    n_columns: int  # features, without the target
    dtype: str  # of the values in the file; text is parsed as float64
    target: str | None  # where y comes from: a member, a column, a file
    row_bytes: int  # of one row in the file, on average
    unit_bytes: int = 0  # of the largest piece of the file that is read whole for one of its rows: a row group, a chunk
    has_split: bool = False
    feature_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None  # names of the integer labels 0, 1, ...
    nnz: int | None = None  # entries that a sparse file stores; None where the file is dense


@dataclass(frozen=True)
class Block:
    """Rows [start, stop) of a file."""

    X: Any  # (rows, n_columns): ndarray from `read`, DataFrame from `columns`, csr_array from `read_sparse`
    y: np.ndarray | None = None  # (rows,), int64, float64, or object: text, None where it is missing
    split: np.ndarray | None = None  # (rows,), uint8: 0 train, 1 test


class Reader(ABC):
    """One file of one format. Pickles as its path and what its scan found, and opens the file where it reads.

    `options` names the fields of the constructor that a user may set. A format whose features may be text has the
    option `when_text` and the method `columns`; one whose scan gives `nnz` has `read_sparse`.
    """

    format: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ()
    is_folder: ClassVar[bool] = False  # whether the format is a folder of files
    path: Path  # the file that is read
    name: str  # the file that messages name: the compressed one, where `path` is unpacked from it

    @abstractmethod
    def scan(self) -> Scan:
        """Return what the file holds; the first call reads as much as it needs, later ones nothing.

        Raises
        ------
        DataError : the file is empty, cut short, or not of this format; the message names the file and the place.
        """

    @abstractmethod
    def read(self, start: int, stop: int, dtype: Any = np.float32, *, text_target: bool = False) -> Block:
        """Return rows [start, stop), whatever was read before; X is a row-major array of floats.

        With `dtype` None, X keeps the type of the values in the file (text: float64). With `text_target`, y is text
        even where every label of these rows could be read as a number.
        """

    def columns(self, start: int, stop: int, as_text: frozenset[int] = frozenset(), *,
                text_target: bool = False) -> Block:
        """Return rows [start, stop) with X as a DataFrame of typed columns, in the order of the features.

        Each column is of numbers (NaN where a cell is missing) or of text (None where it is). A column that could be
        either is text if its number is in `as_text`, else what its cells in these rows are.
        """
        raise NotImplementedError(f"{self.format} has no columns of text")

    def read_sparse(self, start: int, stop: int) -> Block:
        """Return rows [start, stop) with X as a `csr_array` of float64, as the file stores it."""
        raise NotImplementedError(f"{self.format} is not sparse")

    def column_names(self) -> list[str]:
        """Return the names of all columns, features and target alike, or [] where they have none; reads no rows."""
        return []

    def settle(self, readers: Sequence["Reader"]) -> "Reader":
        """Return this reader with what only all files of a data set show; `readers` are scanned, this one is one."""
        return self

    def narrow(self, start: int, stop: int) -> "Reader":
        """Return a reader that is as small as rows [start, stop) need, to travel with a task."""
        return self


def no_rows(name: str) -> DataError:
    """Return the error for a file without rows."""
    return DataError(explain(
        f"{name} has no rows", why="there is nothing to learn from",
        fix="check that the file was written to its end, and that its format is the one given",
    ))


def cut_short(name: str, expected: int, found: int) -> DataError:
    """Return the error for a file that ends early (bytes)."""
    return DataError(explain(
        f"{name} is cut short: {expected:,} bytes expected, {found:,} found",
        why="the rows that are missing cannot be guessed",
        fix="copy or download the file again",
    ))


def dense(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Return values as a row-major array of floats; numbers too large for the type become infinite.

    With `dtype` None they keep their type.
    """
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, dtype=dtype)


def require_numbers(array: np.ndarray, name: str) -> None:
    """Raise DataError unless an array holds real numbers or booleans."""
    require(array.dtype.kind in "biuf", f"{name} holds values of type {array.dtype}, expected numbers", error=DataError,
            why="distances and kernels are computed from real numbers",
            fix="store numbers: code categories as integers or one column each, dates as days, and save again; "
                "from CSV, `when_text: one_hot` makes the columns of categories")


def target_values(y: np.ndarray, name: str) -> np.ndarray:
    """Return a stored target as int64, float64, or objects that are text.

    Raises
    ------
    DataError : the type is none of these, or an integer does not fit 64 bits.
    """
    if y.dtype.kind in "biu":
        require(y.dtype != np.uint64 or not len(y) or int(y.max()) < 1 << 63, f"{name} has labels of 2^63 and more",
                why="labels are stored as signed 64-bit integers", fix="number the classes from 0", error=DataError)
        return np.asarray(y, np.int64)
    if y.dtype.kind == "f":
        return np.asarray(y, np.float64)
    if y.dtype.kind in "US":
        try:
            return (y.astype(str) if y.dtype.kind == "U" else np.char.decode(y, "utf-8")).astype(object)
        except (UnicodeDecodeError, SystemError) as error:  # SystemError: what Python calls a character beyond U+10FFFF
            raise DataError(explain(f"{name} holds labels that are not text: {error}", why="they would be read wrongly",
                                    fix="copy or download the file again, or save the labels as integers")) from error
    raise DataError(explain(
        f"{name} holds labels of type {y.dtype}", why="labels are integers, floats or text",
        fix="convert the target and save the file again",
    ))


def text_of(y: np.ndarray) -> np.ndarray:
    """Return labels as objects: text, None where missing; numbers as they are printed, whole ones without a point.

    Of integers, -1 marks what is missing.
    """
    if y.dtype == object:
        return y
    return np.array([_shown(label) for label in y.tolist()], object)


def _shown(label: int | float) -> str | None:
    if isinstance(label, float):
        return None if math.isnan(label) else str(int(label)) if label.is_integer() else repr(label)
    return None if label == -1 else str(label)


def whole_numbers(y: np.ndarray) -> np.ndarray:
    """Return float64 labels read from text as int64 where every one is a whole number, else as they are."""
    if len(y) and np.all(np.abs(y) < 1 << 53) and np.array_equal(y, np.rint(y)):  # NaN compares false
        return y.astype(np.int64)
    return y


def unpack(path: Path, folder: Path) -> Path:
    """Return the file that a compressed file holds, unpacked as a stream into `folder`.

    Raises
    ------
    DataError : the compressed bytes are damaged or cut short.
    """
    opener = OPENERS[path.suffix.lower()]
    out = scratch_file(path, folder, path.stem)
    with opener(path) as source:
        write_stream(source, out, path)
    return out


def scratch_file(path: Path, folder: Path, stem: str) -> Path:
    """Return the name in `folder` for something unpacked from `path`; two sources never share one."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}-{stem}"


def write_stream(source: IO[bytes], out: Path, path: Path) -> None:
    """Write a decompressing stream to `out`; a damaged stream leaves no file behind."""
    draft = out.with_name(f".{out.name}.{uuid.uuid4().hex}")
    try:
        with open(draft, "wb") as target:
            try:
                shutil.copyfileobj(source, target, 1 << 20)
            except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
                if getattr(error, "errno", None) in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EACCES):
                    raise
                raise DataError(explain(
                    f"{path} is damaged: it cannot be unpacked beyond byte {target.tell():,}",
                    why=f"its compressed bytes are cut short or changed ({error})",
                    fix="copy or download the file again",
                )) from error
        os.replace(draft, out)
    finally:
        draft.unlink(missing_ok=True)
