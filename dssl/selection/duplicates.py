"""Labeled points that equal another labeled point: a model knows such a point when its label is held out."""

from typing import TypedDict

import numpy as np

from ..graph.equal_rows import hash_rows
from ..learners.target.target import Target
from ..storage.blocks import Rows, row_ranges

MAX_DUPLICATES = 0.05  # the share of points up to which nothing is said


class LabeledDuplicates(TypedDict):
    """How many labeled points equal another one (`repeated`), and one of another class (`contradicted`)."""

    labeled: int
    repeated: int
    contradicted: int


NONE_COUNTED: LabeledDuplicates = {"labeled": 0, "repeated": 0, "contradicted": 0}


def labeled_duplicates(points: Rows, target: Target, height: int) -> tuple[LabeledDuplicates, np.ndarray]:
    """Return what equals what among the labeled points, and their hashes (l,) uint64.

    height : of the blocks of rows that are hashed at a time.
    """
    order = np.argsort(target.labeled)
    labeled = target.labeled[order]
    keys = np.concatenate([np.empty(0, np.uint64), *(hash_rows(points.take(labeled[start:stop]))
                                                     for start, stop in row_ranges(len(labeled), height))])
    place = np.unique(keys, return_inverse=True)[1]
    classes = np.unique(np.stack([place, target.strata()[order]], axis=1), axis=0)  # one, of quantities
    return {"labeled": len(labeled), "repeated": int((np.bincount(place)[place] > 1).sum()),
            "contradicted": int((np.bincount(classes[:, 0])[place] > 1).sum())}, keys


def repeated_in_words(counts: LabeledDuplicates) -> str:
    """Return what many repeated points mean for errors at held-out labels; "" where they are few."""
    if counts["repeated"] <= MAX_DUPLICATES * counts["labeled"]:
        return ""
    return (f"{counts['repeated']:,} of {counts['labeled']:,} labeled points equal another labeled point, so that "
            "errors at other points may be higher than those at held-out labels")
