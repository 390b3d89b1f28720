"""Encode labels of any type as class codes or quantities; merge and select classes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...base.errors import DataError, explain, require
from ...base.missing import missing_values
from ...base.types import MatrixLike

LARGEST_WHOLE = 2.0**53  # floats represent all whole numbers up to here
UNLABELED = -1  # the code of a point without a label
MAX_CLASSES = 1000
PROBED = 1000  # cells of a column that are looked at for lists
LISTS = (list, tuple, set, frozenset)
WHOLE = re.compile(r"0|-?[1-9]\d{0,14}", re.ASCII)  # a text that is the same as a number and back
FRACTION = re.compile(r"-?\d*\.\d+", re.ASCII)
LARGEST_VALUE = 1e150  # of a target, so that sums of squares are finite


def encode_labels(y: MatrixLike, unlabeled: object = None, *, occurs: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return int64 codes (n,), -1 for unlabeled points, and ascending classes (n_classes,): y = classes[codes].

    y : array-like, shape (n,) : integers, floats, booleans, text, objects, or a pandas Series or Categorical of them.
    unlabeled : the marker of unlabeled points, by default -1 among integers; with another marker, -1 is a class.
        Missing values (NaN, None, pandas.NA, blank text, or `dssl.base.missing`) are always unlabeled.
    occurs : whether a named marker must occur, unless -1 does; False for a part of the labels.

    Raises DataError: y is not one-dimensional, mixes types, or has only -1 and +1 with the default marker; floats or
    objects hold -1 beside other whole numbers, which is ambiguous, or infinity; the named marker does not occur.
    """
    values = _one_dimension(y)
    require(values.dtype.kind not in "cSV", f"labels are of type {values.dtype}", error=DataError,
            why="a class is named by a number or a text", fix="pass integers or text; decode bytes by y.astype(str)")
    hidden = missing_values(values)
    known = _typed(values[~hidden]) if unlabeled is None else values[:0]
    if unlabeled is None and known.dtype.kind in "iu" and len(known) == len(values):
        present = np.unique(known)
        require(present.tolist() != [-1, 1], "labels are -1 and +1 throughout", error=DataError,
                why="-1 marks unlabeled points, and here it could as well be a class",
                fix="if -1 is a class, name another marker, for example unlabeled=0 (it need not occur); "
                    "if -1 marks unlabeled points, there must be two classes besides it")
        hidden, known = known == UNLABELED, known[known != UNLABELED]
    elif unlabeled is None and known.dtype.kind in "iuf":  # floats, or objects
        present = np.unique(known)
        whole = bool((present == np.floor(present)).all())
        stored = "floats" if values.dtype.kind == "f" else "objects"
        require(not (whole and -1 in present) or present.tolist() == [-1, 1], error=DataError,
                what=f"labels are whole numbers stored as {stored}, and -1 is among them: {present[:6].tolist()}",
                why=f"missing values mark unlabeled points among {stored} and -1 among integers, so -1 may be a marker "
                    "or a class",
                fix="name the marker, unlabeled=-1; or one that does not occur if -1 is a class")
    elif unlabeled is not None:
        marked = np.array([type(value) is type(unlabeled) and bool(value == unlabeled) for value in values], bool) \
            if values.dtype == object else np.broadcast_to(np.asarray(values == unlabeled, bool), values.shape)
        minus_one = values.dtype.kind in "iuf" and bool((values == UNLABELED).any())
        require_marker(not occurs or bool(marked.any()) or minus_one or not len(values), unlabeled, "label")
        hidden |= marked
        known = _typed(values[~hidden])
    classes, inverse = np.unique(known, return_inverse=True)
    require(classes.dtype.kind != "f" or bool(np.isfinite(classes).all()), "an infinite label", error=DataError,
            why="a class is named by a finite number or a text", fix="mark unlabeled points with NaN")
    if classes.dtype.kind == "U" or classes.dtype.kind == "T":
        classes = classes.astype(str)
    codes = np.full(len(values), UNLABELED, np.int64)
    codes[~hidden] = inverse
    return codes, classes


def as_whole_numbers(classes: np.ndarray) -> np.ndarray:
    """Return classes (n_classes,) that are whole floats as integers, unless -1, the marker, is among them.

    Integers become floats in a table with empty cells.
    """
    if classes.dtype.kind != "f" or UNLABELED in classes or (np.abs(classes) >= LARGEST_WHOLE).any() or (
            classes != np.round(classes)).any():
        return classes
    return classes.astype(np.int64)


def classes_of_texts(texts: Sequence[str]) -> np.ndarray:
    """Return the classes that labels given as text name, ascending: integers where all are whole numbers, else text.

    Raises DataError: they are quantities, or -1 is among whole numbers.
    """
    numbers = sorted({int(text) for text in texts}) if all(WHOLE.fullmatch(text) for text in texts) else []
    classes = np.array(numbers, np.int64) if numbers else np.unique(np.array(texts, str))
    require(UNLABELED not in numbers, f"-1 is among the labels {numbers[:6]}", error=DataError,
            why="-1 marks unlabeled points among integers, and here it could as well be a class",
            fix="leave out the rows without a label; if -1 is a class, write its name in words")
    are_quantities = not numbers and all(WHOLE.fullmatch(text) or FRACTION.fullmatch(text) for text in texts)
    require_no_quantities(classes.astype(float) if are_quantities else classes,
                          "set data.task to regression, or write names of classes")
    return classes


def require_no_quantities(classes: np.ndarray, fix: str) -> None:
    """Raise DataError if classes (n_classes,) are quantities: fractions, or more than `MAX_CLASSES`."""
    whole = classes.dtype.kind != "f" or bool((classes == np.round(classes)).all())
    # scikit-learn's checks of estimators look for the words before the colon.
    require(whole and len(classes) <= MAX_CLASSES, f"Unknown label type: continuous, {len(classes)} different values "
            f"such as {classes[:3].tolist()}", error=DataError, fix=fix,
            why=f"fractions, and more than {MAX_CLASSES:,} values, are quantities, not classes")


def encode_values(y: ArrayLike, unlabeled: float | None = None, *, occurs: bool = True,
                  first_row: int = 0) -> np.ndarray:
    """Return quantities as float64, shape (n,), NaN for unlabeled points.

    y : array-like of numbers, shape (n,). Missing values (NaN, None, pandas.NA) are unlabeled.
    unlabeled : a number that also marks unlabeled points. occurs : see `encode_labels`. first_row : the number of y[0].

    Raises DataError: y is not one-dimensional, holds text, booleans or values above `LARGEST_VALUE`; the marker does
    not occur.
    """
    values = _one_dimension(y)
    hidden = missing_values(values)
    known = _typed(values[~hidden])
    require(known.dtype.kind in "iuf", f"the target holds {known[:3].tolist()}", error=DataError,
            why="a regression predicts numbers", fix="name a column of numbers, or set data.task to classification")
    coded = np.full(len(values), np.nan)
    coded[~hidden] = known
    if unlabeled is not None:
        marked = coded == unlabeled
        require_marker(not occurs or bool(marked.any()) or not len(coded), unlabeled, "target")
        coded[marked] = np.nan
    require_within(coded, first_row)
    return coded


def require_marker(occurs: bool, unlabeled: object, name: str) -> None:
    """Raise DataError if a marker of unlabeled points, other than NaN, was named and does not occur."""
    missing = isinstance(unlabeled, float) and np.isnan(unlabeled)
    require(occurs or unlabeled is None or missing, f"no {name} is the marker of unlabeled points, {unlabeled!r}",
            why="every point would be taken as labeled", fix="correct the marker, or leave it out", error=DataError)


def require_within(targets: np.ndarray, first_row: int = 0) -> None:
    """Raise DataError if quantities (n, ...), NaN where there is none, exceed `LARGEST_VALUE`."""
    large = np.argwhere(np.abs(targets) > LARGEST_VALUE)
    require(len(large) == 0, error=DataError,
            what=f"values of the target beyond {LARGEST_VALUE:g}: {len(large):,}; the first is "
                 f"{targets[tuple(large[0])] if len(large) else 0:g} in row {(large[:1, 0] + first_row).tolist()}, "
                 "counted from 0",
            why="no model can fit them: their squares are not finite",
            fix="drop these rows, mark them unlabeled with NaN, or give the target in other units")


def map_classes(codes: np.ndarray, classes: np.ndarray, mapping: Mapping[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and classes after classes are merged, as in {"even": [0, 2], "odd": [1, 3]}.

    Raises DataError: a class is unknown, mapped twice, or not mapped at all.
    """
    names = _typed(np.array(list(mapping), object))
    new_classes, new_codes = np.unique(names, return_inverse=True)
    codes_of = np.full(len(classes), UNLABELED, np.int64)
    owner: dict[int, Any] = {}
    for name, code, members in zip(mapping, new_codes, mapping.values(), strict=True):
        for member in members if isinstance(members, (list, tuple, set, np.ndarray)) else [members]:
            known = find_class(classes, member)
            require(known not in owner, f"class {member!r} is mapped to {owner.get(known)!r} and to {name!r}",
                    why="a point has one class", fix=_known(classes), error=DataError)
            owner[known] = name
            codes_of[known] = code
    unmapped = [classes[i].item() for i in range(len(classes)) if i not in owner]
    require(not unmapped, f"no class is given for {', '.join(map(repr, unmapped[:12]))}", error=DataError,
            why="their points would silently lose their labels",
            fix="add them to the mapping, or leave their points out: data.keep lists the classes to keep; "
                + _known(classes))
    return np.where(codes < 0, UNLABELED, np.append(codes_of, UNLABELED)[codes]), new_classes


def keep_classes(codes: np.ndarray, classes: np.ndarray,
                 keep: Iterable[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (ids, codes, classes) of the points of some classes, as in 4 against 9, and of the unlabeled points.

    Raises DataError: a class is unknown or named twice.
    """
    selected = [find_class(classes, member) for member in keep]
    require(len(set(selected)) == len(selected) > 0, f"classes to keep: {[classes[i].item() for i in selected]}",
            why="each is named once, and there is at least one", fix=_known(classes), error=DataError)
    selected.sort()
    new_code = np.full(len(classes) + 1, len(selected), np.int64)
    new_code[selected] = np.arange(len(selected))
    new_code[-1] = UNLABELED
    renumbered = new_code[codes]
    ids = np.flatnonzero(renumbered < len(selected))
    return ids, renumbered[ids], classes[selected]


def find_class(classes: np.ndarray, wanted: object) -> int:
    """Return the code of the class that equals `wanted`, or else has the same text."""
    values = classes.tolist()
    for i, value in enumerate(values):
        if isinstance(value, bool) == isinstance(wanted, bool) and value == wanted:
            return i
    for i, value in enumerate(values):
        if str(wanted) in (str(value), f"{value:g}" if isinstance(value, float) else str(value)):
            return i
    raise DataError(explain(f"no class is {wanted!r}", why="it would select no points", fix=_known(classes)))


def _known(classes: np.ndarray) -> str:
    if not len(classes):
        return "the data set has no labels: name their column with data.read.target, their file with data.read.labels"
    shown = ", ".join(repr(value) for value in classes.tolist()[:40])
    return f"the classes are {shown}{', ...' if len(classes) > 40 else ''}"


def _one_dimension(y: Any) -> np.ndarray:
    """Return labels (n,) as an array, of objects where NumPy would turn them into text."""
    require_even_rows(y)
    dtype = getattr(y, "dtype", None)
    values = np.asarray(y, object if hasattr(dtype, "construct_array_type") else None)  # which types of pandas have
    if dtype is None and values.dtype.kind in "US" and not all(isinstance(value, (str, bytes)) for value in y):
        values = np.array(list(y), object)  # NumPy makes the text "None" of None and "1" of 1
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    require(values.ndim == 1, f"labels have shape {values.shape}, expected (n,)", error=DataError,
            why="each point has one label here",
            fix="pass one column; the fit of a classifier takes several labels a point, a search or folds do not")
    return values


def require_even_rows(y: object) -> None:
    """Raise DataError if y lists the labels of each point: it has lists of several lengths, or is a column of lists."""
    if getattr(getattr(y, "dtype", None), "kind", "") == "O" and getattr(y, "ndim", 1) == 1:
        cells = np.asarray(y, object)[:PROBED].tolist()
        listed = any(isinstance(labels, LISTS) for labels in cells)
    elif isinstance(y, (list, tuple)):
        lengths = {len(labels) if isinstance(labels, LISTS) else -1 for labels in y}
        listed = len(lengths) > 1 or any(isinstance(labels, (set, frozenset)) for labels in y[:1])
    else:
        return
    require(not listed, "y lists the labels of each point", error=DataError,
            why="in Python several labels a point are one column for each",
            fix="pass MultiLabelBinarizer().fit_transform(y) of scikit-learn, with -1 in the rows of unlabeled points")


def _kind_of(kind: type) -> str:
    for name, types in (("text", (str,)), ("boolean", (bool, np.bool_)), ("number", (int, float, np.number))):
        if issubclass(kind, types):
            return name
    return kind.__name__


def _typed(values: np.ndarray) -> np.ndarray:
    """Return objects as an array of their common type."""
    if values.dtype != object:
        return values
    kinds = {_kind_of(kind) for kind in set(map(type, values))}
    require(not kinds & {"list", "set", "tuple"}, "labels are lists", error=DataError,
            why="each point has one label in a column; several labels a point (tags) have a column each",
            fix="pass a column of 1 and 0 for each tag, such as pandas.Series(y).str.join('|').str.get_dummies(), and "
                "write -1 into the rows of points without labels")
    require(len(kinds) <= 1 and kinds <= {"text", "boolean", "number"}, error=DataError,
            what=f"labels are of {len(kinds)} kinds: {', '.join(sorted(kinds))}",
            why="classes are sorted, and these have no order", fix="make all labels text, or all numbers")
    if not len(values):
        return np.empty(0, np.int64)
    return np.array(values.tolist())
