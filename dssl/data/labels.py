"""Labels as codes or quantities, and which points are labeled, trained on, tested on.

Every choice draws one random order of the points and takes them in that order, so it depends on the seed and on
which points share a class, not on what the classes are called, and a larger choice contains a smaller one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError, explain, require
from ..storage.blocks import block_rng

UNLABELED = -1
CHOOSE, SPLIT, SAMPLE = 1, 2, 3  # random streams: the labeled points say nothing about the test points


def encode_labels(y: Any, unlabeled: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the code of each label and the classes, in ascending order; unlabeled points have code -1.

    Parameters
    ----------
    y : array-like, shape (n,)
        Integers, floats, booleans, text, objects, or a pandas Series or Categorical of them.
    unlabeled : the label of points without one. Unset: -1 among integers. Missing values (NaN, None, pandas.NA)
        are unlabeled in any case; where another marker is named, -1 is a class like any other. A marker that does
        not occur is refused, unless -1 does.

    Returns
    -------
    codes : ndarray, shape (n,), int64. classes : ndarray, shape (n_classes,), so that classes[codes] is y.

    Raises
    ------
    DataError : y is not one-dimensional, mixes types, or is -1 and +1 throughout with the default marker; floats hold
        -1 beside other whole numbers, which may be a marker or a class; the marker that is named does not occur.
    """
    values = _one_dimension(y)
    require(values.dtype.kind != "c", f"labels are of type {values.dtype}", error=DataError,
            why="a class is named by a number or a text", fix="pass integers or text")
    if values.dtype.kind in "SV":
        raise DataError(explain(f"labels are of type {values.dtype}", why="bytes have no one reading as text",
                                fix="decode them: y.astype(str)"))
    hidden = np.asarray(pd.isna(values), bool)
    if unlabeled is None and values.dtype.kind in "iu":
        present = np.unique(values)
        require(present.tolist() != [-1, 1], "labels are -1 and +1 throughout", error=DataError,
                why="-1 marks unlabeled points, and here it could as well be a class",
                fix="if -1 is a class, name another marker, for example unlabeled=0 (it need not occur); "
                    "if -1 marks unlabeled points, there must be two classes besides it")
        hidden |= values == UNLABELED
    elif unlabeled is None and values.dtype.kind == "f":
        present = np.unique(values[~hidden])
        whole = bool((present == np.floor(present)).all())
        require(not (whole and -1 in present) or present.tolist() == [-1, 1], error=DataError,
                what=f"labels are whole numbers stored as floats, and -1 is among them: {present[:6].tolist()}",
                why="NaN marks unlabeled points among floats and -1 among integers, so -1 may be a marker or a class",
                fix="name the marker, unlabeled=-1; or one that does not occur if -1 is a class")
    elif unlabeled is not None:
        marked = np.fromiter((_same(value, unlabeled) for value in values), bool, len(values)) \
            if values.dtype == object else np.broadcast_to(np.asarray(values == unlabeled, bool), values.shape)
        minus_one = values.dtype.kind in "iuf" and bool((values == UNLABELED).any())
        missing = isinstance(unlabeled, float) and np.isnan(unlabeled)
        require(bool(marked.any()) or minus_one or missing or not len(values), error=DataError,
                what=f"no label is the marker of unlabeled points, {unlabeled!r}",
                why="every point would be taken as labeled", fix="correct the marker, or leave it out")
        hidden |= marked
    known = _typed(values[~hidden])
    classes, inverse = np.unique(known, return_inverse=True)
    if classes.dtype.kind == "U" or classes.dtype.kind == "T":
        classes = classes.astype(str)
    codes = np.full(len(values), UNLABELED, np.int64)
    codes[~hidden] = inverse
    return codes, classes


LARGEST_VALUE = 1e100  # of a target, so that sums of squares are finite


def encode_values(y: Any, unlabeled: float | None = None) -> np.ndarray:
    """Return a target of quantities as float64, shape (n,), NaN where a point has none.

    Parameters
    ----------
    y : array-like of numbers, shape (n,). Missing values (NaN, None, pandas.NA) are unlabeled.
    unlabeled : a number that marks unlabeled points too. No number does by itself, -1 neither.

    Raises
    ------
    DataError : y is not one-dimensional, holds text, booleans or values beyond `LARGEST_VALUE`; the marker does not
        occur.
    """
    values = _one_dimension(y)
    hidden = np.asarray(pd.isna(values), bool)
    known = _typed(values[~hidden])
    require(known.dtype.kind in "iuf", f"the target holds {known[:3].tolist()}", error=DataError,
            why="a regression predicts numbers", fix="name a column of numbers, or set data.task to classification")
    found = np.full(len(values), np.nan)
    found[~hidden] = known
    if unlabeled is not None:
        marked = found == unlabeled
        require(bool(marked.any()) or bool(np.isnan(unlabeled)) or not len(found), error=DataError,
                what=f"no target is the marker of unlabeled points, {unlabeled!r}",
                why="every point would be taken as labeled", fix="correct the marker, or leave it out")
        found[marked] = np.nan
    beyond = np.flatnonzero(np.abs(found) > LARGEST_VALUE)
    require(len(beyond) == 0, error=DataError,
            what=f"values of the target beyond {LARGEST_VALUE:g}: {len(beyond):,}; the first is "
                 f"{found[beyond[0]] if len(beyond) else 0:g} in row {beyond[:1].tolist()}, counted from 0",
            why="no model can fit them: their squares are not finite",
            fix="drop these rows, mark them unlabeled with NaN, or give the target in other units")
    return found


def describe_values(values: np.ndarray) -> dict[str, Any]:
    """Return what the quantities (n,) of a target are, those that are not NaN; JSON."""
    known = values[~np.isnan(values)]
    if not len(known):
        return {"known": 0, "distinct": 0}
    return {"known": len(known), "distinct": len(np.unique(known)), "min": float(known.min()),
            "max": float(known.max()), "mean": float(known.mean()), "deviation": float(known.std())}


def _one_dimension(y: Any) -> np.ndarray:
    values = np.asarray(y) if isinstance(y, np.ndarray) else np.asarray(_plain_array(y))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    require(values.ndim == 1, f"labels have shape {values.shape}, expected (n,)", error=DataError,
            why="each point has one label", fix="pass one column; several labels a point are not supported")
    return values


def _plain_array(y: Any) -> Any:
    """Return pandas containers as NumPy arrays, and lists that NumPy would turn into text as objects."""
    if isinstance(y, (pd.Series, pd.Index)) or pd.api.types.is_extension_array_dtype(getattr(y, "dtype", None)):
        plain = getattr(y, "dtype", None)
        return np.asarray(y) if isinstance(plain, np.dtype) else np.asarray(y, dtype=object)
    array = np.asarray(y)
    if array.dtype.kind in "US" and not all(isinstance(value, (str, bytes)) for value in y):
        return np.array(list(y), object)  # NumPy makes the text "None" of None and "1" of 1
    return array


def _same(value: Any, marker: Any) -> bool:
    return type(value) is type(marker) and bool(value == marker)


def _typed(values: np.ndarray) -> np.ndarray:
    """Return objects as an array of the one type that they have."""
    if values.dtype != object:
        return values
    kinds = {"text" if isinstance(value, str) else "boolean" if isinstance(value, (bool, np.bool_)) else
             "number" if isinstance(value, (int, float, np.number)) else type(value).__name__ for value in values}
    require(len(kinds) <= 1 and kinds <= {"text", "boolean", "number"}, error=DataError,
            what=f"labels are of {len(kinds)} kinds: {', '.join(sorted(kinds))}",
            why="classes are put in order, and these have none", fix="make all labels text, or all numbers")
    if not len(values):
        return np.empty(0, np.int64)
    return np.array(values.tolist())


def choose_labels(codes: np.ndarray, *, count: int | None = None, per_class: int | None = None,
                  fraction: float | None = None, seed: int, n_classes: int | None = None) -> np.ndarray:
    """Return the ascending numbers of the points whose labels are shown to the method.

    Parameters
    ----------
    codes : ndarray, shape (n,), -1 where the label is unknown.
    count : so many points, at random, with at least one of each class. per_class : so many of each class.
    fraction : `count` as a share of the points whose label is known. Exactly one of the three is given.
    n_classes : the number of classes, where the codes may lack one.

    Raises
    ------
    ParameterError : none or several of the three are given, or a number is out of range.
    DataError : a class has too few points; the message names it.
    """
    codes = np.asarray(codes)
    _exactly_one(count=count, per_class=per_class, fraction=fraction)
    order, groups = _random_order(codes, n_classes, seed, CHOOSE)
    if per_class is not None:
        require(per_class >= 1, f"per_class={per_class}", why="a class without labels cannot be learned", fix="use 1")
        _require_points(codes, groups, per_class)
        return np.sort(np.concatenate([group[:per_class] for group in groups]))
    if fraction is not None:
        require(0 < fraction <= 1, f"fraction={fraction}", why="it is a share of the points", fix="use 0 to 1")
        count = max(1, round(fraction * len(order)))
    assert count is not None
    classes = f"points of {len(groups)} classes" if n_classes != 1 else "points that have one"
    require(len(groups) <= count <= len(order), error=DataError,
            what=f"{count} labeled points asked for, from {len(order)} {classes}",
            why=f"{'every class needs one, and ' if n_classes != 1 else ''}no more can be shown than are known",
            fix=f"choose from {len(groups)} to {len(order)}")
    first = np.array([group[0] for group in groups])
    rest = order[~np.isin(order, first)]
    # A random sample that lacks a class gets its first point in place of the last points that were drawn.
    return np.sort(np.concatenate([first, rest[:count - len(first)]]))


def split_test(codes: np.ndarray | int, *, count: int | None = None, fraction: float | None = None,
               official: np.ndarray | None = None, seed: int, stratify: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return the ascending numbers of the training points and of the test points.

    Parameters
    ----------
    codes : ndarray, shape (n,), or n. Points of code -1 are never tested: there is nothing to compare with.
    count : so many test points. fraction : a share of the points that can be tested.
    official : ndarray, shape (n,), 0 for training and 1 for test. Exactly one of the three is given.
    stratify : keep the shares of the classes, to within one point, and a training point of each class.

    Raises
    ------
    ParameterError : none or several of the three are given, or they leave no training or no test points.
    """
    n = int(codes) if np.ndim(codes) == 0 else len(np.asarray(codes))
    codes = np.zeros(n, np.int64) if np.ndim(codes) == 0 else np.asarray(codes)
    _exactly_one(count=count, fraction=fraction, official=official)
    if official is not None:
        official = np.asarray(official)
        require(official.shape == (n,) and bool(np.isin(official, (0, 1)).all()), error=DataError,
                what=f"the official split has shape {official.shape} and values {np.unique(official)[:5].tolist()}",
                why=f"each of the {n} points is 0, training, or 1, test", fix="check the split of the data set")
        return np.flatnonzero(official == 0), np.flatnonzero(official == 1)
    order, groups = _random_order(codes, None, seed, SPLIT)
    if fraction is not None:
        require(0 < fraction < 1, f"fraction={fraction}", why="it is the share of test points", fix="use 0 to 1")
        count = max(1, round(fraction * len(order)))
    assert count is not None
    groups = groups if stratify else [order]
    most = sum(max(len(group) - 1, 0) for group in groups)
    require(1 <= count <= most, f"{count} test points asked for, at most {most} of {n} can be",
            why="every class keeps a training point, and unlabeled points cannot be tested",
            fix=f"ask for 1 to {most}" if most else "label more points")
    tested = np.concatenate([group[:size] for group, size in zip(groups, _shares(groups, count), strict=True)])
    is_test = np.zeros(n, bool)
    is_test[tested] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _shares(groups: list[np.ndarray], count: int) -> list[int]:
    """Return how many of each group make `count`, in proportion to their sizes, and fewer than all of any."""
    sizes = np.array([len(group) for group in groups])
    exact = count * sizes / sizes.sum()
    shares = np.minimum(np.floor(exact).astype(int), np.maximum(sizes - 1, 0))
    while shares.sum() < count:
        lacking = np.where(shares < sizes - 1, exact - shares, -np.inf)
        shares[int(np.argmax(lacking))] += 1
    return shares.tolist()


def sample_points(ids: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return `count` of the points with these numbers, at random, in ascending order.

    Raises
    ------
    ParameterError : there are fewer points.
    """
    ids = np.asarray(ids)
    require(1 <= count <= len(ids), f"{count} points asked for, from {len(ids)}", why="points are drawn once each",
            fix=f"ask for 1 to {len(ids)}")
    return np.sort(ids[block_rng(seed, SAMPLE).permutation(len(ids))[:count]])


def map_classes(codes: np.ndarray, classes: np.ndarray, mapping: Mapping[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and classes after classes are joined, as in {"even": [0, 2], "odd": [1, 3]}.

    Raises
    ------
    DataError : a class is unknown, mapped twice, or not mapped at all; the message lists the classes.
    """
    names = _typed(np.array(list(mapping), object))
    new_classes, new_codes = np.unique(names, return_inverse=True)
    codes_of = np.full(len(classes), UNLABELED, np.int64)
    owner: dict[int, Any] = {}
    for name, code, members in zip(mapping, new_codes, mapping.values(), strict=True):
        for member in members if isinstance(members, (list, tuple, set, np.ndarray)) else [members]:
            found = _find_class(classes, member)
            require(found not in owner, f"class {member!r} is mapped to {owner.get(found)!r} and to {name!r}",
                    why="a point has one class", fix=_known(classes), error=DataError)
            owner[found], codes_of[found] = name, code
    left = [classes[i].item() for i in range(len(classes)) if i not in owner]
    require(not left, f"no class is given for {', '.join(map(repr, left[:12]))}", error=DataError,
            why="their points would silently lose their labels",
            fix="add them to the mapping, or keep the others with keep_classes first; " + _known(classes))
    return np.where(codes < 0, UNLABELED, np.append(codes_of, UNLABELED)[codes]), new_classes


def keep_classes(codes: np.ndarray, classes: np.ndarray,
                 keep: Iterable[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (ids, codes, classes) of the points of some classes, as in 4 against 9; unlabeled points are kept too.

    Raises
    ------
    DataError : a class is unknown or named twice; the message lists the classes.
    """
    kept = [_find_class(classes, member) for member in keep]
    require(len(set(kept)) == len(kept) > 0, f"classes to keep: {[classes[i].item() for i in kept]}",
            why="each is kept once, and one at least", fix=_known(classes), error=DataError)
    kept.sort()
    new_code = np.full(len(classes) + 1, len(kept), np.int64)
    new_code[kept] = np.arange(len(kept))
    new_code[-1] = UNLABELED
    found = new_code[codes]
    ids = np.flatnonzero(found < len(kept))
    return ids, found[ids], classes[kept]


def _find_class(classes: np.ndarray, wanted: Any) -> int:
    """Return the number of the class that equals `wanted`, or else is written like it."""
    values = classes.tolist()
    for i, value in enumerate(values):
        if isinstance(value, bool) == isinstance(wanted, bool) and value == wanted:
            return i
    for i, value in enumerate(values):
        if str(wanted) in (str(value), f"{value:g}" if isinstance(value, float) else str(value)):
            return i
    raise DataError(explain(f"no class is {wanted!r}", why="it would select no points", fix=_known(classes)))


def _known(classes: np.ndarray) -> str:
    shown = ", ".join(repr(value) for value in classes.tolist()[:40])
    return f"the classes are {shown}{', ...' if len(classes) > 40 else ''}"


def _random_order(codes: np.ndarray, n_classes: int | None, seed: int,
                  stream: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the labeled points in random order, and the same by class, the class whose point comes first first."""
    require(codes.ndim == 1 and codes.dtype.kind in "iu", f"codes have shape {codes.shape} and type {codes.dtype}",
            why="codes are integers, one a point", fix="make them with encode_labels", error=DataError)
    order = block_rng(seed, stream).permutation(len(codes))
    order = order[codes[order] >= 0]
    require(len(order) > 0, "no point has a label", why="there is nothing to choose from", error=DataError,
            fix="check the target column and the marker of unlabeled points")
    present, first, inverse = np.unique(codes[order], return_index=True, return_inverse=True)
    expected = n_classes if n_classes is not None else int(present[-1]) + 1
    lacking = sorted(set(range(expected)) - set(present.tolist()))
    require(not lacking or stream != CHOOSE, f"class {lacking} (code) has no points", error=DataError,
            why="every class needs a labeled point", fix="leave the class out, or draw from points that have it")
    rank = np.empty(len(present), np.int64)
    rank[np.argsort(first)] = np.arange(len(present))
    by_class = np.argsort(rank[inverse], kind="stable")
    sizes = np.bincount(rank[inverse])
    return order, np.split(order[by_class], np.cumsum(sizes)[:-1])


def _require_points(codes: np.ndarray, groups: list[np.ndarray], least: int) -> None:
    """Raise DataError unless every group has so many points; the message gives the codes of those that have not."""
    short = {int(codes[group[0]]): len(group) for group in groups if len(group) < least}
    shown = ", ".join(f"class {code} has {size}" for code, size in sorted(short.items())[:12])
    require(not short, f"{least} labeled points a class asked for; by code, {shown}", error=DataError,
            why="a point is labeled once",
            fix=f"ask for {min(short.values(), default=0)} or fewer, or leave the class out")


def _exactly_one(**given: Any) -> None:
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ParameterError(explain(
            f"given: {', '.join(named) or 'none'}", why=f"exactly one of {', '.join(given)} says how many points",
            fix="set one of them and leave the others out",
        ))
