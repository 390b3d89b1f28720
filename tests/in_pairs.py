"""Few of the combinations of a test's parameters."""

from collections.abc import Iterable, Mapping
from itertools import combinations, product
from typing import Any

import pytest


def in_pairs(axes: Mapping[str, Iterable[Any]]) -> pytest.MarkDecorator:
    """Return a mark that tries so many combinations of parameters that any two values of two of them meet.

    axes : the values of each; a name of several, such as "m, s", has tuples.
    """
    values = [list(axis) for axis in axes.values()]
    rows = list(product(*(range(len(axis)) for axis in values)))
    pairs = {row: set(combinations(enumerate(row), 2)) for row in rows}
    left, chosen = set[Any]().union(*pairs.values()), []
    while left:
        row = max(rows, key=lambda row: len(pairs[row] & left))
        left -= pairs[row]
        chosen.append([value for name, axis, place in zip(axes, values, row, strict=True)
                       for value in (axis[place] if "," in name else [axis[place]])])
    return pytest.mark.parametrize(", ".join(axes), chosen)
