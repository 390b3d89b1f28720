"""What estimators learn from: labels or quantities of any input, and their weights."""

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import column_or_1d

from ..base.errors import DataError, ParameterError, explain, require
from ..base.missing import is_missing_text, missing_values
from ..base.types import MatrixLike
from ..data.inputs import labels_of
from ..graph.equal_rows import rows_differ
from ..graph.vertices import require_distinct
from ..learners.class_prior import ClassPrior
from ..learners.tags import Tags, encode_tags
from ..learners.target.encoding import encode_labels, require_no_quantities, require_within
from ..learners.target.target import Classes, Quantities
from ..storage.blocks import Rows
from .arguments import Learnable, NumbersLike, PriorLike, SizesLike


def classes_of(y: MatrixLike, unlabeled: object, n: int, *, occurs: bool = True) -> Classes:
    """Return the labels of n points; occurs : whether a marker that does not occur is refused, several warned of."""
    column = getattr(y, "shape", ())[1:] == (1,)
    codes, names = encode_labels(column_or_1d(y, warn=True) if column else y, unlabeled, occurs=occurs)
    require(len(codes) == n, f"y has {len(codes)} labels for {n} points", error=DataError,
            why="each point has a label or the marker of none", fix="pass one entry a point")
    if occurs and names.dtype.kind == "U":
        warn_of_markers(y, unlabeled)
    return Classes.of(codes, names)


def warn_of_markers(y: MatrixLike, unlabeled: object) -> None:
    """Warn where labels that are texts have several markers of none, of which one may be a class, as "NA" may."""
    values = np.asarray(y, object).ravel()
    marks = values[missing_values(values)].tolist()
    counts = Counter[str]()
    for mark, count in Counter(marks).items():
        counts[repr(mark.strip()) if isinstance(mark, str) else "None or NaN"] += count
    if isinstance(unlabeled, str) and not is_missing_text(unlabeled):
        counts[repr(unlabeled)] += int((values == unlabeled).sum())
    texts = sorted({mark.strip() for mark in set(marks) if isinstance(mark, str)} - {"", unlabeled})
    if len(counts) > 1 and texts:
        listed = ", ".join(f"{mark} ({count:,})" for mark, count in sorted(counts.items()))
        warnings.warn(explain(f"{len(counts)} different markers of points without a label among labels that are texts: "
                              f"{listed}", why="each is read as no label, and one of them may be a class",
                              fix=f"if {texts[0]!r} is a class, give it another name: y = np.where(y == {texts[0]!r}, "
                              f"{f'class {texts[0]}'!r}, y); if it is none, write one marker for all"),
                      UserWarning, stacklevel=6)


def tags_of(y: MatrixLike | None, unlabeled: object, n: int) -> Tags:
    """Return the tags of n points; raise DataError if y is of another length, or as `encode_tags` does."""
    codes, names = encode_tags(y, unlabeled)
    require(len(codes) == n, f"y has {len(codes)} rows for {n} points", error=DataError,
            why="each point has a row of entries", fix="pass one row a point")
    return Tags.of(codes, names)


def prior_of(class_prior: PriorLike, class_sizes: SizesLike) -> ClassPrior:
    """Return how frequent classes are, by shares or by sizes; raise ParameterError where both are given."""
    require(class_sizes is None or class_prior is None, "class_prior and class_sizes", fix="leave class_prior out",
            why="the sizes say how frequent the classes are")
    return ClassPrior.of(class_prior) if class_sizes is None else ClassPrior.of(class_sizes, "class_sizes")


def require_classes(names: np.ndarray, regressor: str) -> None:
    """Raise DataError if these are fewer than two classes, or quantities; `regressor` is named as the way out."""
    require_no_quantities(names, f"use {regressor}, or make the labels integers or text")
    require(len(names) >= 2, f"y has one class, {names.tolist()[0]!r}" if len(names) else "no point of y has a label",
            why="a classifier tells at least two classes apart", error=DataError,
            fix="label points of another class" if len(names) else "label points of each class, or check the marker")


def require_per_class(target: Classes, min_labels: int, what: str, fix: str) -> None:
    """Raise DataError if a class has fewer than `min_labels` labeled points."""
    lacking = target.names[np.bincount(target.coded, minlength=len(target.names)) < min_labels].tolist()
    require(not lacking, f"class {', '.join(map(repr, lacking))} has {what}", error=DataError,
            why="a learner does not know a class that it has not seen", fix=fix)


def quantities_of(y: MatrixLike, unlabeled: Any, n: int, *, warns: bool = False) -> Quantities:
    """Return the targets of n points, (l, c) of those without NaN.

    warns : whether to warn of points that have some of several targets only, as a fit does.
    """
    extension: Any = y if pd.api.types.is_extension_array_dtype(getattr(y, "dtype", None)) else None
    try:
        given = np.asarray(y) if extension is None else extension.to_numpy(np.float64, na_value=np.nan)
        targets = given
        if given.dtype.kind == "O":
            targets = np.where(missing_values(given), np.nan, given).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(explain(f"y holds what is no number: {error}", why="a target is a quantity",
                                fix="convert y to floats, with NaN where a target is unknown, or fit a classifier")
                        ) from error
    require(given.dtype.kind in "biufO", f"y holds values of type {given.dtype}, expected real numbers",
            error=DataError, why="a target is a quantity",
            fix="convert y to floats, with NaN where a target is unknown")
    whole = given.dtype.kind in "iu" if extension is None else pd.api.types.is_integer_dtype(extension.dtype)
    marked = whole and bool((given == -1).any())
    require(unlabeled is not None or not marked, "y holds integers, and -1 is among them", error=DataError,
            why="NaN marks unknown targets here, so -1 would be fitted as a value",
            fix="pass unlabeled=-1 if it marks unknown targets, or y as floats if it is a value")
    targets = targets.astype(np.float64)
    if unlabeled is not None:
        targets[targets == _number(unlabeled)] = np.nan
    require(not np.isinf(targets).any(), f"y has {int(np.isinf(targets).sum())} infinite targets", error=DataError,
            why="no function with a finite norm takes them", fix="mark them unknown with NaN, or drop these rows")
    require_within(targets)
    require(len(targets) == n and targets.ndim in (1, 2), error=DataError,
            what=f"y has shape {targets.shape} for {n} points", why="each point has a target or NaN",
            fix="pass one row a point")
    missing = np.isnan(targets.reshape(n, -1))
    some = int((missing.any(axis=1) & ~missing.all(axis=1)).sum())
    if warns and some:
        warnings.warn(explain(f"{some} of {n} points have some of their {missing.shape[1]} targets only, and count as "
                              "unlabeled", why="the targets are fitted together, to the points that have all of them",
                              fix="fit one estimator a target to use every value"), UserWarning, stacklevel=4)
    target = Quantities.of(targets.reshape(n, -1))
    require(len(target.labeled) >= 1, "no target is a number", error=DataError,
            why="there is nothing to fit or to compare with", fix="give at least one point a target")
    return target


def _number(unlabeled: Any) -> float:
    """Return a marker of unknown targets as a number; raise ParameterError if it is none."""
    try:
        return float(unlabeled)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(explain(f"unlabeled={unlabeled!r}",
                                     why="targets are numbers, and so is what marks unknown ones",
                                     fix="pass a number, or mark unknown targets with NaN")) from error


def weighed(target: Learnable, sample_weight: NumbersLike | None, n: int) -> tuple[Learnable, np.ndarray | None]:
    """Return the target without the points of weight 0, and the weights (l,) of the others; None where none are given.
    """
    if sample_weight is None:
        return target, None
    weight = np.asarray(labels_of(sample_weight), np.float64)
    require(weight.shape == (n,), f"sample_weight has shape {weight.shape} for {n} points", error=DataError,
            why="each point has one weight, and those of unlabeled points are not read", fix="pass one number a point")
    of_labeled = weight[target.labeled]
    require(bool((of_labeled != 0).any()) or not len(of_labeled), "the weight of every labeled point is zero",
            why="such points count as unlabeled, so there is nothing to fit", fix="raise a weight", error=DataError)
    wrong = target.labeled[~((of_labeled >= 0) & (of_labeled < np.inf))]
    require(len(wrong) == 0, f"{len(wrong)} weights of labeled points are not finite numbers >= 0, first "
            f"{weight[wrong[:1]].tolist()} of point {wrong[:1].tolist()}", error=DataError,
            why="a negative weight rewards errors", fix="pass weights >= 0; 0 leaves the label out")
    return target.take(np.flatnonzero(of_labeled > 0)), of_labeled[of_labeled > 0]


def require_unequal(rows: Rows) -> None:
    """Raise DataError if all rows are the same point; reads on only while they are."""
    n, first = len(rows), rows.read(0, 1)
    unequal = (rows_differ(block, first[np.zeros(block.shape[0], int)]).any() for _, block in rows.blocks(1024))
    require_distinct(n == 1 or any(unequal), f"all {n} points are equal")
