"""Labels drawn for benchmarks of classification: equally many of each class, or at random as in practice."""

import argparse

import numpy as np

from dssl.learners.target.target import Classes

DRAWS = ("even", "random")


def add_draw_option(parser: argparse.ArgumentParser, default: str = "even") -> None:
    """Add the option `--draw` to a benchmark."""
    parser.add_argument("--draw", choices=DRAWS, default=default,
                        help="equally many labels of each class, or as many in all, of points at random")


def draw_labels(y: np.ndarray, rate: float, random_state: list[int], draw: str = "even", *,
                fewest_classes: int = 2, fewest_per_class: int = 0) -> np.ndarray:
    """Return labels (n,), -1 where a point has none.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Codes 0, 1, ... of the classes.
    rate : float
        Labels a class.
    random_state : list of int
        Of the random generator.
    draw : {"even", "random"}
        "even" labels `rate` points of each class, or half of a class that has fewer than
        twice as many. "random" labels `rate` times the number of classes, of all points
        alike, so that a rare class has few labels or none.
    fewest_classes : int
        Classes that have a label; random labels are drawn again until as many have one.
    fewest_per_class : int
        Labels of each class; random labels are drawn again until each has as many.
    """
    rng = np.random.default_rng(random_state)
    n_classes = int(y.max()) + 1
    labels = np.full(len(y), -1)
    if draw == "even":
        for code in np.unique(y):
            members = np.flatnonzero(y == code)
            labels[rng.choice(members, min(round(rate), len(members) // 2), replace=False)] = code
        return labels
    while True:
        labels[:] = -1
        labeled = rng.choice(len(y), min(round(rate * n_classes), len(y) // 2), replace=False)
        labels[labeled] = y[labeled]
        counts = np.bincount(y[labeled], minlength=n_classes)
        if np.count_nonzero(counts) >= fewest_classes and counts.min() >= fewest_per_class:
            return labels


def target_of(labels: np.ndarray) -> Classes:
    """Return labels (n,) as a target of the classes that have one."""
    labeled = np.flatnonzero(labels >= 0)
    names, coded = np.unique(labels[labeled], return_inverse=True)
    return Classes(labeled, coded, names)
