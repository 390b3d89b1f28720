"""Labeled points that equal another labeled point: a model knows such a point when its label is held out."""

from typing import TypedDict

import numpy as np

from ..graph.equal_rows import hash_rows, hashed_row_bytes
from ..learners.target.target import Target
from ..storage.blocks import Rows, row_ranges

MAX_DUPLICATES = 0.05  # the share of points up to which nothing is said
MAX_HASHED = 2000  # rows at a time
KEY_BYTES = 80  # of a labeled point, measured


class LabeledDuplicates(TypedDict):
    """How many labeled points equal another one (`repeated`), and one of another class (`contradicted`)."""

    labeled: int
    repeated: int
    contradicted: int


NONE_COUNTED: LabeledDuplicates = {"labeled": 0, "repeated": 0, "contradicted": 0}


def labeled_duplicates(points: Rows, target: Target, height: int) -> tuple[LabeledDuplicates, np.ndarray]:
    """Return what equals what among the labeled points, and their hashes (l,) uint64.

    height : of the blocks of rows that are hashed at a time. Memory: `KEY_BYTES` a label, beside a block.
    """
    order = np.argsort(target.labeled)
    labeled = target.labeled[order]
    keys = np.concatenate([np.empty(0, np.uint64), *(hash_rows(points.take(labeled[start:stop]))
                                                     for start, stop in row_ranges(len(labeled), height))])
    place = np.unique(keys, return_inverse=True)[1]
    of_classes = np.unique(place * target.n_strata + target.strata()[order]) // target.n_strata  # one, of quantities
    return {"labeled": len(labeled), "repeated": int((np.bincount(place)[place] > 1).sum()),
            "contradicted": int((np.bincount(of_classes)[place] > 1).sum())}, keys


def rows_hashed(row_bytes: int, budget: int) -> int:
    """Return how many rows are hashed at a time: those that fit an eighth of the budget; 0 if none does."""
    return min(MAX_HASHED, budget // (8 * hashed_row_bytes(row_bytes)))


def repeated_in_words(counts: LabeledDuplicates) -> str:
    """Return what many repeated points mean for errors at held-out labels; "" where they are few."""
    if counts["repeated"] <= MAX_DUPLICATES * counts["labeled"]:
        return ""
    return (f"{counts['repeated']:,} of {counts['labeled']:,} labeled points equal another labeled point, so that "
            "errors at other points may be higher than those at held-out labels")
