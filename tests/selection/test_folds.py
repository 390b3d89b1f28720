"""Folds of the labeled points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV, KFold, RepeatedKFold, StratifiedKFold

from dssl import LapSVC
from dssl.errors import DataError, ParameterError
from dssl.learners.target import Classes, Quantities
from dssl.selection.folds import LabeledKFold, held_out_folds, labeled_folds


@given(st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(2, 7), st.integers(0, 2**20))
def test_folds_are_disjoint_even_and_leave_every_class_a_label(sizes, n_folds, seed):
    codes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    if max(sizes) < 2:
        with pytest.raises(DataError, match="no class has two"):
            labeled_folds(codes, n_folds, seed)
        return
    folds = labeled_folds(codes, n_folds, seed)
    held = np.concatenate(folds)
    assert len(np.unique(held)) == len(held)
    assert set(held) == {i for i in range(len(codes)) if sizes[codes[i]] > 1}
    assert max(map(len, folds)) - min(map(len, folds)) <= 1
    for fold in folds:
        assert set(np.delete(codes, fold)) == set(range(len(sizes)))
    again = labeled_folds(codes, n_folds, seed)
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
    expected = [held for _, held in splitter.split(codes, codes)]
    for cv in (splitter, list(splitter.split(codes, codes)), expected):
        found = held_out_folds(cv, classes)
        assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    assert [len(fold) for fold in held_out_folds(KFold(8), values)] == [5] * 8
    for one, other in zip(held_out_folds(5, classes, 3), labeled_folds(codes, 5, 3), strict=True):
        assert np.array_equal(one, other)
    assert sum(map(len, held_out_folds(3, values))) == 40
    with pytest.raises(ParameterError, match="holds a labeled point out twice"):
        held_out_folds(RepeatedKFold(n_splits=2, n_repeats=2), classes)
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
    search = GridSearchCV(LapSVC(n_subsample=60), {"eta": [0.0, 10.0]}, cv=LabeledKFold(4)).fit(X, y)
    assert search.best_params_["eta"] in (0.0, 10.0)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert (search.predict(X[24:]) == moons[24:]).mean() > 0.8
