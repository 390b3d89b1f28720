"""Folds of the labeled points, and predictions without each; unlabeled points are in every training set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..base.errors import DataError, ParameterError, explain, require
from ..learners.linear.gram import LearnerParams, fit_gram
from ..learners.target.coding import Coding
from ..learners.target.encoding import encode_labels
from ..learners.target.target import Target
from ..storage.blocks import block_rng

FOLD_STREAM = 4  # of the seed, apart from those that choose labels and test points
LEAVE_ONE_OUT = "leave_one_out"


def labeled_folds(codes: np.ndarray, n_folds: int | str, random_state: int, repetition: int = 0) -> list[np.ndarray]:
    """Return up to `n_folds` ascending, disjoint lists of positions in `codes` (l,), the classes 0, 1, ...

    The seed and the number of the repetition determine a random order, in which each class is spread evenly over the
    folds. No fold holds a whole class: a class of one point is never held out.

    Raises ParameterError: fewer than two folds, or no whole number of them. DataError: no class has two points.
    """
    require_folds(n_folds)
    count = len(codes) if isinstance(n_folds, str) else n_folds
    order = block_rng(random_state, FOLD_STREAM, *([repetition] if repetition else [])).permutation(len(codes))
    shuffled = np.asarray(codes)[order]
    dealt = [order[shuffled == code] for code in np.unique(shuffled) if (shuffled == code).sum() > 1]
    require(len(dealt) > 0, f"{len(codes)} labeled points, no class has two", error=DataError,
            why="a point that is held out leaves its class without a label, or a regression without a point",
            fix="label two points of a class, or leave selection out: set the parameters by hand")
    # A class of fewer points than folds is never whole in one fold, because consecutive members go to different folds.
    members = np.concatenate(dealt)
    return [np.sort(members[fold::count]) for fold in range(min(count, len(members)))]


def require_folds(n_folds: object) -> None:
    """Raise ParameterError unless the number of folds is a whole number >= 2, or "leave_one_out"."""
    if isinstance(n_folds, str) and n_folds == LEAVE_ONE_OUT:
        return
    require(isinstance(n_folds, (int, np.integer)) and not isinstance(n_folds, bool) and int(n_folds) >= 2,
            f"{n_folds!r} folds, expected a whole number >= 2", why="a fold is held out of the others",
            fix=f'use 5, or 10 for few labels, or "{LEAVE_ONE_OUT}"')


@dataclass(frozen=True, kw_only=True)
class FoldParams:
    """The number of folds of the labeled points, or "leave_one_out", and of repetitions with other folds.

    Raises ParameterError: fewer than two folds, no repetition, or repetitions that are all the same.
    """

    folds: int | Literal["leave_one_out"] = 5
    repetitions: int = 1
    random_state: int = 0

    def __post_init__(self) -> None:
        require_folds(self.folds)
        require(self.repetitions >= 1, f"repetitions={self.repetitions}", why="folds are drawn at least once",
                fix="use 1, or 3 to 10 where labels are few")
        require(self.repetitions == 1 or self.folds != LEAVE_ONE_OUT,
                f"repetitions={self.repetitions} of leave_one_out", why="each would hold out the same points",
                fix="remove repetitions, or use cv: 10")

    def repeated(self, target: Target) -> list[list[np.ndarray]]:
        """Return the folds of each repetition; see `held_out_folds`."""
        return [labeled_folds(target.strata(), self.folds, self.random_state, number)
                for number in range(self.repetitions)]

    def count(self, n_labeled: int) -> int:
        """Return an upper bound of the number of folds of so many labeled points."""
        return n_labeled if isinstance(self.folds, str) else min(self.folds, max(n_labeled, 2))


@dataclass(frozen=True, eq=False)
class GivenFolds:
    """Given folds: lists of positions among the labeled points, for each repetition."""

    given: Sequence[Sequence[np.ndarray]]

    def repeated(self, target: Target) -> list[list[np.ndarray]]:
        """Return the folds of each repetition."""
        return [list(folds) for folds in self.given]


def held_out_folds(cv: Any, target: Target, random_state: int = 0,
                   groups: ArrayLike | None = None) -> list[list[np.ndarray]]:
    """Return the held-out positions among the labeled points for each repetition, in ascending and disjoint folds.

    cv : a number of stratified folds (`labeled_folds`), or "leave_one_out"; a splitter of scikit-learn, which gets the
    labeled points, their strata and `groups` (l,); or a list of its (train, test) pairs, or of lists of positions. A
    fold that holds out a point for the second time begins another repetition.

    Raises ParameterError: fewer than two folds, a fold that is no list of positions, a train part that is not the
    complement of its test part, a fold of all points of a class, or repetitions that hold out different points.
    DataError: too few labeled points.
    """
    strata = target.strata()
    if isinstance(cv, str) or not (hasattr(cv, "split") or np.iterable(cv)):
        return [labeled_folds(strata, cv, random_state)]
    positions = _positions_of(cv, strata, groups)
    for number, fold in enumerate(positions):
        missing = target.classes_within(fold)
        require(not missing, f"fold {number} of cv holds out all labels of class {', '.join(map(repr, missing))}",
                why="the fit without the fold would not know the class",
                fix=f'pass a number of folds, or "{LEAVE_ONE_OUT}": these keep a label of each class outside every '
                    "fold; or label more points of it")
    repetitions: list[list[np.ndarray]] = []
    for fold in positions:
        if not repetitions or np.isin(fold, np.concatenate(repetitions[-1])).any():
            repetitions.append([])
        repetitions[-1].append(fold)
    members = [np.sort(np.concatenate(folds)) for folds in repetitions]
    several = all(len(folds) > 1 for folds in repetitions)
    require(several and all(np.array_equal(points, members[0]) for points in members),
            f"cv={cv!r} holds labeled points out unequally often",
            why="each repetition predicts every held-out point once, by the fit without its fold",
            fix="use KFold, StratifiedKFold, GroupKFold, LeaveOneOut, or their repeated variants")
    return repetitions


def _positions_of(cv: Any, strata: np.ndarray, groups: ArrayLike | None) -> list[np.ndarray]:
    """Return the ascending positions of each fold of a splitter or list; raise ParameterError if they are invalid."""
    if hasattr(cv, "split"):
        try:
            splits = list(cv.split(np.zeros((len(strata), 1)), strata, groups))
        except ValueError as error:
            raise ParameterError(explain(
                f"cv={cv!r} does not split {len(strata)} labeled points: {error}",
                why="the splitter gets these points and their classes",
                fix="pass fewer folds, or list(cv.split(X_l, y_l, groups)) of the labeled points",
            )) from error
    else:
        splits = list(cv)
    pairs = [split if isinstance(split, tuple) and len(split) == 2 else (None, split) for split in splits]
    tests = [np.asarray(test) for _, test in pairs]
    require(len(tests) >= 2, f"cv={cv!r} makes {len(tests)} fold(s)", why="a fold is held out of the others",
            fix="pass a number of folds >= 2, or a splitter that makes several")
    require(all(fold.ndim == 1 and len(fold) and fold.dtype.kind in "iu" for fold in tests),
            f"cv={cv!r} makes a fold that is no list of positions", why="a fold is a set of labeled points",
            fix="name one labeled point or more in each, by number, not by a mask")
    folds = [np.sort(fold.astype(np.int64)) for fold in tests]
    members = np.concatenate(folds)
    require(members.min() >= 0 and members.max() < len(strata),
            f"cv={cv!r} holds out point {members.min()} to {members.max()} of {len(strata)}",
            why="positions are those among the labeled points, counted from 0",
            fix=f"use 0 to {len(strata) - 1}, or a splitter, which is given the labeled points")
    require(all((np.diff(fold) > 0).all() for fold in folds), f"cv={cv!r} names a labeled point twice in a fold",
            why="a fold holds a point out once", fix="name it once")
    for number, ((train, _), fold) in enumerate(zip(pairs, folds, strict=True)):
        others = np.setdiff1d(np.arange(len(strata)), fold)
        given = others if train is None else np.asarray(train)
        require(np.array_equal(np.sort(given), others),
                f"the train part of fold {number} of cv, {given.size} positions, is not the {len(others)} labeled "
                "points outside its test part", why="a fold is predicted by a fit to all other labels",
                fix="pass the test parts alone, [test for _, test in splits], or mark points that no fit may see as "
                    "unlabeled")
    return folds


def held_out(grams: Sequence[np.ndarray], target: Target, folds: Sequence[np.ndarray], learner: LearnerParams,
             sample_weight: np.ndarray | None = None) -> tuple[np.ndarray, Coding]:
    """Return the held-out values (l, c) of the labeled points, NaN for points in no fold, and their coding.

    grams : a Gram matrix (l, l) of the labeled points for each fold.
    """
    predicted = []
    for K, fold in zip(grams, folds, strict=True):
        training = np.setdiff1d(np.arange(len(K)), fold)
        weight = None if sample_weight is None else sample_weight[training]
        coef, intercept, coding = fit_gram(K[np.ix_(training, training)], target.take(training), learner, weight)
        predicted.append(K[np.ix_(fold, training)] @ coef + intercept)
    values = np.full((len(grams[0]), predicted[0].shape[1]), np.nan)
    values[np.concatenate(folds)] = np.concatenate(predicted)
    return values, coding


class LabeledKFold:
    """Folds of the labeled points; all unlabeled points are in every training set.

    It is a splitter for the searches of scikit-learn. A test point is in neither the
    graph nor the labels of its fold's fit, so the score is that of new points.

    Parameters
    ----------
    n_splits : int
        The number of folds, at least 2.
    unlabeled : object
        The marker of points without a label, as in the estimators.
    random_state : int
        The seed of the folds.

    Examples
    --------
    >>> import numpy as np
    >>> from dssl import LabeledKFold
    >>> X, y = np.arange(8.0).reshape(8, 1), np.array([0, 0, 1, 1, -1, -1, -1, -1])
    >>> [test.tolist() for _, test in LabeledKFold(2).split(X, y)]
    [[1, 2], [0, 3]]

    The search takes it as `cv`: ``GridSearchCV(LapSVC(), {"eta": [1, 10]},
    cv=LabeledKFold(5))``.
    """

    def __init__(self, n_splits: int = 5, *, unlabeled: object = None, random_state: int = 0):
        self.n_splits = n_splits
        self.unlabeled = unlabeled
        self.random_state = random_state

    def split(self, X: object, y: ArrayLike, groups: object = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the training and test rows of each fold.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points; they are not read.
        y : array-like, shape (n,)
            The labels, with the marker of unlabeled points.
        groups : object
            It is not read.

        Yields
        ------
        training : ndarray of int
            The rows outside the fold, unlabeled ones among them.
        test : ndarray of int
            The rows of the fold, all labeled.

        Raises
        ------
        ParameterError
            There are fewer than two folds.
        DataError
            No class has two labeled points.
        """
        codes = encode_labels(y, self.unlabeled)[0]
        labeled = np.flatnonzero(codes >= 0)
        for fold in labeled_folds(codes[labeled], self.n_splits, self.random_state):
            test = labeled[fold]
            yield np.setdiff1d(np.arange(len(codes)), test, assume_unique=True), test

    def get_n_splits(self, X: object = None, y: ArrayLike | None = None, groups: object = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X : object
            It is not read.
        y : array-like, shape (n,), or None
            The labels, with the marker of unlabeled points.
        groups : object
            It is not read.

        Returns
        -------
        int
            `n_splits`, or fewer where y has fewer labels that can be held out.
        """
        return self.n_splits if y is None else sum(1 for _ in self.split(X, y))
