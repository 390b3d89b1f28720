"""y as it is read and stored: integers, floats, or text as codes of its names.

The type of a target is that of all its rows: text in one block makes it text in all.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..base.errors import DataError, explain, require
from ..storage.blocks import Parts, Receipt
from .readers.base import Reader

MAX_NAMES = 1 << 16  # classes of a text target; a column with more is an identifier


def target_values(y: np.ndarray, name: str) -> np.ndarray:
    """Return a stored target as int64, float64, or objects: text, None where there is none."""
    if y.dtype.kind in "biu":
        require(y.dtype != np.uint64 or not len(y) or int(y.max()) < 1 << 63, f"{name} has labels of 2^63 and more",
                why="labels are stored as signed 64-bit integers", fix="number the classes from 0", error=DataError)
        return np.asarray(y, np.int64)
    if y.dtype.kind == "f":
        return np.asarray(y, np.float64)
    if y.dtype.kind in "OT" and all(label is None or isinstance(label, str) for label in y):
        return np.array(y.tolist(), object)
    if y.dtype.kind in "US":
        try:
            return (y.astype(str) if y.dtype.kind == "U" else np.char.decode(y, "utf-8")).astype(object)
        except (UnicodeDecodeError, SystemError) as error:  # SystemError: what Python calls a character beyond U+10FFFF
            raise DataError(explain(f"{name} holds labels that are not text: {error}", why="they would be read wrongly",
                                    fix="copy or download the file again, or save the labels as integers")) from error
    raise DataError(explain(f"{name} holds labels of type {y.dtype}", why="labels are integers, floats or text",
                            fix="convert the target and save the file again"))


def target_of(y: ArrayLike, n_rows: int) -> tuple[np.ndarray, list[str] | None]:
    """Return labels of one a row, in this process, as int64 or float64; text as codes of the names beside them.

    Missing labels (NaN, None, pandas.NA) are NaN among numbers and -1 among codes.
    """
    array = np.asarray(y)
    require(array.shape == (n_rows,), f"y has shape {array.shape}, X has {n_rows} rows", error=DataError,
            why="each row has one label", fix="pass y of shape (n,)")
    if array.dtype.kind not in "biuf":
        cells = pd.Series(y).astype(object).to_numpy(copy=True)  # NumPy makes the text "None" of None in a list
        kind = pd.api.types.infer_dtype(cells, skipna=True)
        missing = np.asarray(pd.isna(cells), bool)
        if kind == "string":
            cells[missing] = None
            return code_text(cells)
        require(kind in ("integer", "floating", "mixed-integer-float", "boolean", "empty"), error=DataError,
                what=f"labels are {kind}", why="classes are named by numbers, or by text",
                fix="make all labels text, or all numbers")
        array = np.array([np.nan if is_missing else value for value, is_missing in zip(cells, missing, strict=True)])
    require(array.dtype.kind != "f" or not np.isinf(array).any(), "y holds infinite values", error=DataError,
            why="no model can fit them", fix="drop these rows, or mark them unlabeled with NaN")
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64), None


def text_of(y: np.ndarray) -> np.ndarray:
    """Return labels as objects: text, None where missing; numbers as they are printed, whole ones without a point.

    Of integers, -1 marks what is missing.
    """
    if y.dtype == object:
        return y
    missing = np.isnan(y) if y.dtype.kind == "f" else y == -1
    return np.array([None if is_missing else number_text(label)
                     for label, is_missing in zip(y.tolist(), missing, strict=True)], object)


def number_texts(values: np.ndarray) -> np.ndarray:
    """Return numbers as `number_text` has them, objects (n,), None where one is NaN."""
    return np.array([None if value != value else number_text(value) for value in values.tolist()], object)


def number_text(label: float) -> str:
    """Return a number as text: as it is printed, a whole one without a point."""
    return str(int(label)) if label == label // 1 else repr(label)


def whole_numbers(y: np.ndarray) -> np.ndarray:
    """Return float64 labels read from text as int64 where every one is a whole number, else as they are."""
    if len(y) and np.all(np.abs(y) < 1 << 53) and np.array_equal(y, np.rint(y)):  # NaN compares false
        return y.astype(np.int64)
    return y


def code_text(y: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    """Return text labels as codes of their names in ascending order, -1 where missing; numbers as they are."""
    if y.dtype != object:
        return y, None
    known = np.array([label is not None for label in y], bool)
    names, inverse = np.unique(y[known].astype(str), return_inverse=True)
    codes = np.full(len(y), -1, np.int64)
    codes[known] = inverse
    return codes, names.tolist()


def recoded(codes: np.ndarray, names: Sequence[str], new_names: Sequence[str]) -> np.ndarray:
    """Return codes of `names` as codes of `new_names`, -1 as it is."""
    code_of = {name: code for code, name in enumerate(new_names)}
    return np.array([*(code_of[name] for name in names), -1], np.int64)[codes]


def named_labels(codes: np.ndarray, names: Sequence[str] | None) -> np.ndarray:
    """Return the labels that codes stand for, objects, None for -1; labels without names as they are."""
    return codes if names is None else np.array([*names, None], object)[codes]


def write_target(parts: Parts, reader: Reader, ranges: list[tuple[int, int]], receipts: list[Receipt], height: int, *,
                 as_text: bool = False) -> list[str] | None:
    """Write y in the one type that fits all blocks; return the names of its codes, or None if they are numbers.

    Text in one block makes it text in all, as `as_text` does: a block that could be read as numbers is read again as
    text. Integers that have names already stay as they are.
    """
    scan = reader.scan()
    kinds = {receipt["target"] for receipt in receipts} | ({"text"} if as_text and not scan.label_names else set())
    dtype: np.dtype = np.dtype(np.float64 if "float64" in kinds and "text" not in kinds else np.int64)
    coded = [receipt["names"] for receipt in receipts]
    again: dict[int, np.ndarray] = {}
    names: list[str] | None = None
    if "text" in kinds:
        for index, (start, stop) in enumerate(ranges):
            if receipts[index]["target"] != "text":
                text = reader.read(start, stop, text_target=True).y
                assert text is not None
                again[index], coded[index] = code_text(text_of(text))
        names = sorted({name for block in coded for name in block or []})
        require(len(names) <= MAX_NAMES, f"the target {scan.target!r} has {len(names):,} different texts, for example "
                f"{', '.join(map(repr, names[:3]))}", why="it names rows, not classes", error=DataError,
                fix="name another column with `target:`")
    parts.allocate("y", (scan.n_rows,), dtype, height)
    named = scan.label_names is not None and dtype == np.int64
    for index, (start, _) in enumerate(ranges):
        y = again[index] if index in again else parts.read(index, ("y",))["y"]
        if names is not None:
            y = recoded(y, coded[index] or [], names)
        parts.write_range(start, {"y": y.astype(dtype, copy=False)})
        named = named and int(y.min()) >= -1 and int(y.max()) < len(scan.label_names or ())
    return list(scan.label_names) if named and scan.label_names else names
