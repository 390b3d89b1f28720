"""Folds of the labeled points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

from dssl import LapSVC
from dssl.base.errors import DataError, ParameterError
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.folds import FoldParams, LabeledKFold, held_out_folds, labeled_folds


def assert_same(actual, expected):
    """Both are the folds of repetitions, at any depth."""
    if isinstance(expected, np.ndarray):
        assert np.array_equal(actual, expected)
        return
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert_same(one, other)


def halves(n=40):
    """Return a target of n labeled points, half of each of two classes."""
    return Classes(np.arange(n), np.arange(n) % 2, np.array(["a", "b"]))


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(2, 7), st.integers(0, 2**20))
def test_folds_are_disjoint_even_and_leave_every_class_a_label(sizes, n_folds, random_state):
    codes = np.random.default_rng(random_state).permutation(np.repeat(np.arange(len(sizes)), sizes))
    if max(sizes) < 2:
        with pytest.raises(DataError, match="no class has two"):
            labeled_folds(codes, n_folds, random_state)
        return
    folds = labeled_folds(codes, n_folds, random_state)
    held_out = np.concatenate(folds)
    assert len(np.unique(held_out)) == len(held_out)
    assert set(held_out) == {i for i in range(len(codes)) if sizes[codes[i]] > 1}
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    for fold in folds:
        assert set(np.delete(codes, fold)) == set(range(len(sizes)))
    again = labeled_folds(codes, n_folds, random_state)
    assert all(np.array_equal(one, other) for one, other in zip(folds, again, strict=True))


def test_folds_depend_on_the_seed():
    codes = np.arange(40) % 2
    one, other = labeled_folds(codes, 5, 0), labeled_folds(codes, 5, 1)
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_one_fold_is_refused():
    with pytest.raises(ParameterError, match="1 folds, expected a whole number >= 2"):
        labeled_folds(np.array([0, 1]), 1, 0)
    for wrong in (2.5, "kfold"):
        with pytest.raises(ParameterError, match=f"{wrong!r} folds, expected a whole number"):
            labeled_folds(np.array([0, 1]), wrong, 0)


def test_folds_of_a_splitter_and_of_lists_are_those_they_say():
    codes = np.arange(40) % 2
    classes, values = Classes(np.arange(40), codes, np.array(["a", "b"])), Quantities(np.arange(40), codes * 0.5)
    splitter = StratifiedKFold(4, shuffle=True, random_state=1)
    expected = [held_out for _, held_out in splitter.split(codes, codes)]
    for cv in (splitter, list(splitter.split(codes, codes)), expected):
        actual, = held_out_folds(cv, classes)
        assert all(np.array_equal(one, other) for one, other in zip(actual, expected, strict=True))
    assert [len(fold) for fold in held_out_folds(KFold(8), values)[0]] == [5] * 8
    assert_same([held_out_folds(5, classes, 3)], [[labeled_folds(codes, 5, 3)]])
    assert sum(map(len, held_out_folds(3, values)[0])) == 40
    for wrong in (None, "5", True, 2.5, object()):
        with pytest.raises(ParameterError, match="folds, expected a whole number >= 2"):
            held_out_folds(wrong, classes)
    with pytest.raises(ParameterError, match=r"makes 1 fold"):
        held_out_folds([np.arange(3)], classes)
    with pytest.raises(ParameterError, match="holds out point 3 to 40 of 40"):
        held_out_folds([[3], [40]], classes)
    for wrong in ([[], [1]], [codes == 0, codes == 1], [0, 1]):
        with pytest.raises(ParameterError, match="is no list of positions"):
            held_out_folds(wrong, classes)
    with pytest.raises(DataError, match="1 labeled points, no class has two"):
        held_out_folds(2, values.take(np.arange(1)))


@given(st.integers(2, 6), st.integers(1, 4), st.integers(0, 2**20), st.booleans())
def test_a_fold_that_overlaps_begins_a_repetition(n_splits, n_repeats, random_state, stratified):
    kind = RepeatedStratifiedKFold if stratified else RepeatedKFold
    target, splitter = halves(), kind(n_splits=n_splits, n_repeats=n_repeats, random_state=random_state)
    folds = [held_out for _, held_out in splitter.split(np.zeros((40, 1)), target.coded)]
    expected = [folds[first:first + n_splits] for first in range(0, len(folds), n_splits)]
    assert_same(held_out_folds(splitter, target), expected)
    for repetition in held_out_folds(list(splitter.split(np.zeros((40, 1)), target.coded)), target):
        assert np.array_equal(np.sort(np.concatenate(repetition)), np.arange(40))


@given(st.lists(st.integers(1, 6), min_size=2, max_size=4).filter(lambda sizes: max(sizes) > 1), st.integers(1, 4))
def test_repetitions_of_a_number_of_folds_hold_out_the_same_points_in_other_folds(sizes, repetitions):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    target = Classes(np.arange(len(codes)), codes, np.arange(len(sizes)))
    actual = FoldParams(folds=3, repetitions=repetitions, random_state=7).repeated(target)
    assert_same(actual[:1], held_out_folds(3, target, 7))
    held_out = [np.sort(np.concatenate(folds)) for folds in actual]
    assert_same(held_out, [held_out[0]] * repetitions)
    if repetitions > 1:
        one, other = FoldParams(repetitions=2).repeated(halves())
        assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_leave_one_out_holds_out_each_point_alone():
    target = halves(9)
    for folds in (FoldParams(folds="leave_one_out").repeated(target), held_out_folds("leave_one_out", target),
                  held_out_folds(LeaveOneOut(), target)):
        assert len(folds) == 1
        assert sorted(fold.item() for fold in folds[0]) == list(range(9))
    alone = Classes(np.arange(3), np.array([0, 0, 1]), np.array(["a", "b"]))
    assert sorted(fold.item() for fold in held_out_folds("leave_one_out", alone)[0]) == [0, 1]
    assert FoldParams(folds="leave_one_out").count(12) == 12
    assert (FoldParams(folds=4).count(12), FoldParams(folds=40).count(12)) == (4, 12)


def test_groups_stay_together():
    target, groups = halves(), np.arange(40) // 4
    actual, = held_out_folds(GroupKFold(5), target, groups=groups)
    assert all(set(groups[fold]).isdisjoint(np.delete(groups, fold)) for fold in actual)
    as_lists = list(GroupKFold(5).split(np.zeros((40, 1)), target.coded, groups))
    assert_same(held_out_folds(as_lists, target), [actual])
    with pytest.raises(ParameterError, match="does not split 40 labeled points"):
        held_out_folds(GroupKFold(5), target)
    with pytest.raises(ParameterError, match="does not split 4 labeled points"):
        held_out_folds(KFold(5), halves(4))


@pytest.mark.parametrize("cv", [ShuffleSplit(3, test_size=0.3, random_state=0), [[0, 1], [1, 2]], [[0, 1], [0, 1]]])
def test_points_that_are_held_out_unequally_often_are_refused(cv):
    with pytest.raises(ParameterError, match="unequally often"):
        held_out_folds(cv, halves())
    with pytest.raises(ParameterError, match="twice in a fold"):
        held_out_folds([[0, 0], [1]], halves())


@pytest.mark.parametrize("cv", [
    TimeSeriesSplit(4), [(np.arange(20, 30), np.arange(20)), (np.arange(20), np.arange(20, 40))],
    [(np.arange(40), np.arange(20)), (np.arange(20), np.arange(20, 40))],
    [(np.arange(40) >= 20, np.arange(20)), (np.arange(40) < 20, np.arange(20, 40))],
])
def test_a_train_part_of_other_points_than_all_others_is_refused(cv):
    with pytest.raises(ParameterError, match=r"the train part of fold 0 of cv.* labeled points outside its test part"):
        held_out_folds(cv, halves())


@given(st.integers(2, 4), st.integers(1, 3), st.integers(0, 2**20))
def test_a_fold_of_a_whole_class_is_refused_and_named(n_classes, size, random_state):
    codes = np.random.default_rng(random_state).permutation(np.append(np.repeat(np.arange(n_classes), 4), [n_classes] *
                                                                      size))
    target = Classes(np.arange(len(codes)), codes, np.array(["a", "b", "c", "d", "e"])[:n_classes + 1])
    last, others = np.flatnonzero(codes == n_classes), np.flatnonzero(codes < n_classes)
    with pytest.raises(ParameterError, match=f"fold 1 of cv holds out all labels of class '{target.names[-1]}'"):
        held_out_folds([others[:1], last], target)
    assert len(held_out_folds([others[:1], others[1:2]], target)[0]) == 2
    assert len(held_out_folds([others[:1], last], Quantities(np.arange(len(codes)), codes * 1.0))[0]) == 2


def test_a_train_part_may_be_in_any_order():
    pairs = [(np.arange(40)[::-1][:20], np.arange(20)), (np.arange(20), np.arange(20, 40))]
    assert_same(held_out_folds(pairs, halves()), [[np.arange(20), np.arange(20, 40)]])


@pytest.mark.parametrize(("given", "message"), [
    ({"folds": 1}, "1 folds"), ({"folds": "half"}, "'half' folds"), ({"repetitions": 0}, "repetitions=0"),
    ({"folds": "leave_one_out", "repetitions": 2}, "the same points"),
])
def test_bad_folds_are_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        FoldParams(**given)


def test_all_unlabeled_points_are_in_every_training_set():
    y = np.array([-1, 0, 1, -1, 0, 1, 0, -1])
    splitter = LabeledKFold(3)
    splits = list(splitter.split(np.zeros((8, 1)), y))
    assert splitter.get_n_splits(None, y) == len(splits) == 3
    for train, test in splits:
        assert (y[test] >= 0).all()
        assert set(np.flatnonzero(y < 0)) <= set(train)
        assert set(train) | set(test) == set(range(8))
        assert not set(train) & set(test)


def test_a_search_of_scikit_learn_takes_it():
    X, moons = make_moons(160, noise=0.1, random_state=0)
    y = np.where(np.arange(160) < 24, moons, -1)
    search = GridSearchCV(LapSVC(n_landmarks=60), {"eta": [0.0, 10.0]}, cv=LabeledKFold(4)).fit(X, y)
    assert search.best_params_["eta"] in (0.0, 10.0)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert (search.predict(X[24:]) == moons[24:]).mean() > 0.8
