"""Which points are labeled, trained on, tested on.

Every choice draws one random order of the points and takes them in that order, so it depends on the seed and on
which points share a class, not on what the classes are called, and a larger choice contains a smaller one.
"""

from typing import Any

import numpy as np

from ..errors import DataError, require
from ..storage.blocks import block_rng

CHOOSE, SPLIT, SAMPLE = 1, 2, 3  # random streams: the labeled points say nothing about the test points


def choose_labels(codes: np.ndarray, *, count: int | None = None, per_class: int | None = None,
                  fraction: float | None = None, seed: int, n_classes: int | None = None) -> np.ndarray:
    """Return the ascending numbers of the points whose labels are shown to the method.

    codes : ndarray, shape (n,), -1 where the label is unknown.
    count : so many points, at random, with at least one of each class. per_class : so many of each class.
    fraction : `count` as a share of the points whose label is known. Exactly one of the three is given.
    n_classes : the number of classes, where the codes may lack one.

    Raises ParameterError: none or several of the three are given, or a number is out of range. DataError: a class has
    too few points; the message names it.
    """
    codes = np.asarray(codes)
    _exactly_one(count=count, per_class=per_class, fraction=fraction)
    order, groups = _random_order(codes, n_classes, seed, CHOOSE)
    if per_class is not None:
        require(per_class >= 1, f"per_class={per_class}", why="a class without labels cannot be learned", fix="use 1")
        short = {int(codes[group[0]]): len(group) for group in groups if len(group) < per_class}
        shown = ", ".join(f"class {code} has {size}" for code, size in sorted(short.items())[:12])
        require(not short, f"{per_class} labeled points a class asked for; by code, {shown}", error=DataError,
                why="a point is labeled once",
                fix=f"ask for {min(short.values(), default=0)} or fewer, or leave the class out")
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
               official: np.ndarray | None = None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ascending numbers of the training points and of the test points.

    codes : ndarray, shape (n,), or n. Points of code -1 are never tested: there is nothing to compare with.
    count : so many test points. fraction : a share of the points that can be tested.
    official : ndarray, shape (n,), 0 for training and 1 for test. Exactly one of the three is given.
    The shares of the classes are kept, to within one point, and a training point of each class.

    Raises ParameterError: none or several of the three are given. DataError: there are too few points.
    """
    codes = np.zeros(int(codes), np.int64) if np.ndim(codes) == 0 else np.asarray(codes)
    n = len(codes)
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
    most = sum(max(len(group) - 1, 0) for group in groups)
    require(1 <= count <= most, f"{count} test points asked for, at most {most} of {n} can be", error=DataError,
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

    Raises DataError: there are fewer points.
    """
    ids = np.asarray(ids)
    require(1 <= count <= len(ids), f"{count} points asked for, from {len(ids)}", why="points are drawn once each",
            fix=f"ask for 1 to {len(ids)}", error=DataError)
    return np.sort(ids[block_rng(seed, SAMPLE).permutation(len(ids))[:count]])


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


def _exactly_one(**given: Any) -> None:
    named = [name for name, value in given.items() if value is not None]
    require(len(named) == 1, f"given: {', '.join(named) or 'none'}", fix="set one of them and leave the others out",
            why=f"exactly one of {', '.join(given)} says how many points")
