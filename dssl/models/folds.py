"""Folds of the labeled points, each with a share of every class."""

import numpy as np

from ..blocks import block_rng
from ..errors import DataError, require

FOLDS = 4  # random stream, apart from those that choose labels and test points


def labeled_folds(codes: np.ndarray, n_folds: int, seed: int) -> list[np.ndarray]:
    """Return up to `n_folds` ascending, disjoint lists of positions in `codes` to hold out.

    Each class is spread evenly over the folds, in a random order that the seed gives. One point of each class is never
    held out with all others of it: a class of one point is in every training set, and is not held out at all.

    Parameters
    ----------
    codes : ndarray, shape (l,), classes 0, 1, ... of the labeled points.

    Raises
    ------
    ParameterError : fewer than two folds, or no whole number of them. DataError : no class has two points.
    """
    require_folds(n_folds)
    codes = np.asarray(codes)
    order = block_rng(seed, FOLDS).permutation(len(codes))
    folds: list[list[int]] = [[] for _ in range(n_folds)]
    place = 0
    for code in np.unique(codes):
        members = order[codes[order] == code]
        if len(members) < 2:
            continue
        for member in members:
            folds[place % n_folds].append(int(member))
            place += 1
    # A class of fewer points than folds is never whole in one fold: consecutive members go to different folds.
    held = [np.sort(np.array(fold, np.int64)) for fold in folds if fold]
    require(len(held) >= 2, f"{len(codes)} labeled points, no class has two", error=DataError,
            why="a point that is held out leaves its class without a label", fix="label two points of a class, or set "
            "the parameters by hand instead of by cross-validation")
    return held


def require_folds(n_folds: int) -> None:
    """Raise ParameterError unless there are two folds or more, a whole number of them."""
    whole = isinstance(n_folds, (int, np.integer)) and not isinstance(n_folds, bool)
    require(whole and n_folds >= 2, f"{n_folds!r} folds, expected a whole number >= 2",
            why="a fold is held out of the others", fix="use 5, or 10 for few labels")
