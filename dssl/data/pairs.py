"""Which classes go with the values of a column: pairs that say whether it is a code of the classes.

Block step: the classes of each value, given up once one has two. Combine step: their union.
"""

from typing import Any

import numpy as np
import pandas as pd

from .targets import text_of

MAX_PAIRED = 100  # values of a column, or classes of a target, beyond which neither is a code of the other
UNLABELED = "-1"  # among integers; or a class, where there is one other class

Pairs = dict[Any, set[str]]  # by value of a column, None of missing cells: the classes of its rows


def class_texts(y: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the names of classes, and the codes of labels as these, -1 where there is none."""
    if y.dtype == object:
        codes, names = pd.factorize(y, use_na_sentinel=True)
        return [str(name) for name in names], codes
    codes, values = pd.factorize(y, use_na_sentinel=True)
    if len(values) > MAX_PAIRED:
        return [""] * len(values), codes
    return [UNLABELED if value == -1 else str(text_of(np.array([value]))[0]) for value in values], codes


def pairs_of(cells: np.ndarray, codes: np.ndarray, names: list[str]) -> Pairs | None:
    """Return the classes of each value; None where there are more than `MAX_PAIRED` values or one has two classes."""
    values, places = pd.factorize(cells, use_na_sentinel=True)[::-1]
    if len(values) > MAX_PAIRED or (values.dtype.kind == "f" and np.isinf(values).any()):
        return None
    pairs: Pairs = {}
    for place, code in set(zip(places.tolist(), codes.tolist(), strict=True)):
        value = None if place < 0 else values[place]
        pairs.setdefault(value if value is None or isinstance(value, str) else float(value), set()).add(names[code])
    return pairs if all(len(classes - {UNLABELED}) < 2 for classes in pairs.values()) else None


def joined_pairs(mine: Pairs, theirs: Pairs) -> Pairs | None:
    """Return the classes of the values of both; None as in `pairs_of`."""
    pairs = {value: mine.get(value, set()) | theirs.get(value, set()) for value in {*mine, *theirs}}
    if len(pairs) > MAX_PAIRED or any(len(classes - {UNLABELED}) > 1 for classes in pairs.values()):
        return None
    return pairs
