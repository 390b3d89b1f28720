"""The classes of the rows with each value of a column, which show whether it encodes the classes.

Block step: the classes of each value; a column is dropped once a value has two classes. Combine step: their union.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import gammaln

from .targets import text_of

MAX_PAIRED = 100  # a column with more values, or a target with more classes, is not checked
CHANCE = 1e-9  # the probability that a column looks like an identifier or the target without being one
ROWS_PER_CODE = 10  # labeled rows for each number that may be the code of a class
UNLABELED = "-1"  # the mark among integers; if there is only one other class, it is a class itself

Pairs = dict[Any, set[str]]  # by value of a column, None for missing cells: the classes of its rows


def class_texts(y: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the names of classes, and the labels as codes of these, -1 for no label."""
    if y.dtype == object:
        codes, names = pd.factorize(y, use_na_sentinel=True)
        return [str(name) for name in names], codes
    codes, values = pd.factorize(y, use_na_sentinel=True)
    if len(values) > MAX_PAIRED:
        return [""] * len(values), codes
    return [UNLABELED if value == -1 else str(text_of(np.array([value]))[0]) for value in values], codes


def pairs_of(cells: np.ndarray, codes: np.ndarray, names: list[str]) -> Pairs | None:
    """Return the classes of each value; None if there are more than `MAX_PAIRED` values, or one has two classes."""
    values, codes_of_cells = pd.factorize(cells, use_na_sentinel=True)[::-1]
    if len(values) > MAX_PAIRED or (values.dtype.kind == "f" and np.isinf(values).any()):
        return None
    pairs: Pairs = {}
    for cell_code, code in set(zip(codes_of_cells.tolist(), codes.tolist(), strict=True)):
        value = None if cell_code < 0 else values[cell_code]
        pairs.setdefault(value if value is None or isinstance(value, str) else float(value), set()).add(names[code])
    return pairs if all(len(classes - {UNLABELED}) < 2 for classes in pairs.values()) else None


def joined_pairs(left: Pairs, right: Pairs) -> Pairs | None:
    """Return the union of both; None under the same conditions as `pairs_of`."""
    pairs = {value: left.get(value, set()) | right.get(value, set()) for value in {*left, *right}}
    if len(pairs) > MAX_PAIRED or any(len(classes - {UNLABELED}) > 1 for classes in pairs.values()):
        return None
    return pairs


def encoding_of(pairs: Pairs, classes: Mapping[str, int], *, is_text: bool) -> str | None:
    """Return why a column whose values belong to one class each encodes the classes; None if chance explains it.

    Of the n! / (n_1! ... n_c!) ways to assign the labels to the rows, at most c^v give each of v values one class; if
    there are as many values as classes, c, at most c! do.

    classes : the number of rows of each.
    """
    sizes = dict(classes)
    if len(sizes) > 2 and UNLABELED in sizes:  # with only one other class, -1 is a class too
        del sizes[UNLABELED]
    class_of = {value: labels & sizes.keys() for value, labels in pairs.items() if labels & sizes.keys()}
    if len(sizes) < 2 or any(len(labels) > 1 for labels in class_of.values()):
        return None
    counts = np.array(list(sizes.values()), float)
    c = len(sizes)
    v = len(class_of)
    n = counts.sum()
    ways = gammaln(n + 1) - gammaln(counts + 1).sum()
    if v == c and len(set().union(*class_of.values())) == c:
        return "it has one value for each class" if gammaln(c + 1) - ways <= math.log(CHANCE) else None
    if v * math.log(c) - ways > math.log(CHANCE):
        return None
    if not is_text:
        order = [min(class_of[value]) for value in sorted(class_of, key=lambda value: (value is not None, value))]
        shares = np.unique(order, return_counts=True)[1] / v
        changes = sum(before != after for before, after in pairwise(order))
        by_chance = (v - 1) * (1 - (shares**2).sum())
        if changes <= max(c - 1, by_chance / 2) or n < ROWS_PER_CODE * v:
            return None
    return "each of its values has one class"
