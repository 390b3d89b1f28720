"""Which points are labeled, trained on, tested on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError, ParameterError
from dssl.data import labels
from dssl.data.labels import dealt, official_test


def in_blocks(codes):
    return lambda: (codes[start:start + labels.DRAW_ROWS] for start in range(0, max(len(codes), 1), labels.DRAW_ROWS))


def choose_labels(codes, **options):
    return labels.choose_labels(in_blocks(codes), **options)


def split_test(codes, **options):
    is_test = np.concatenate(list(labels.split_test(in_blocks(codes), **options)))
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def sample_points(n, count, random_state):
    sizes = np.array([min(labels.DRAW_ROWS, n - start) for start in range(0, n, labels.DRAW_ROWS)])
    drawn = labels.sample_points(sizes, count, random_state)
    return np.concatenate([start + item for start, item in zip(range(0, n, labels.DRAW_ROWS), drawn, strict=True)])


@pytest.fixture(params=[None, 11], ids=["one block", "many blocks"], autouse=True)
def blocks(request, monkeypatch):
    """Draw from all points at once, and from blocks of a few."""
    if request.param:
        monkeypatch.setattr(labels, "DRAW_ROWS", request.param)
    return request.param

CODES = st.lists(st.integers(-1, 3), min_size=8, max_size=80).map(lambda y: np.array([0, 1, 2, 3, *y]))


@given(codes=CODES, random_state=st.integers(0, 50), data=st.data())
@pytest.mark.extended_cases("many blocks")
def test_chosen_labels_cover_every_class(codes, random_state, data):
    known = int((codes >= 0).sum())
    count = data.draw(st.integers(4, known))
    ids = choose_labels(codes, count=count, random_state=random_state)
    assert len(ids) == count == len(set(ids.tolist()))
    assert set(codes[ids]) == {0, 1, 2, 3}
    assert_array_equal(ids, np.sort(ids))
    assert_array_equal(ids, choose_labels(codes, count=count, random_state=random_state))
    renamed = np.append(data.draw(st.permutations(range(4))), -1)[codes]
    assert_array_equal(ids, choose_labels(renamed, count=count, random_state=random_state))
    assert set(ids) <= set(choose_labels(codes, count=min(count + 1, known), random_state=random_state))


@given(codes=CODES, random_state=st.integers(0, 50), data=st.data())
def test_as_many_of_each_class(codes, random_state, data):
    per_class = data.draw(st.integers(1, int(np.bincount(codes[codes >= 0]).min())))
    ids = choose_labels(codes, per_class=per_class, random_state=random_state)
    assert np.bincount(codes[ids]).tolist() == [per_class] * 4
    renamed = np.append(data.draw(st.permutations(range(4))), -1)[codes]
    assert_array_equal(ids, choose_labels(renamed, per_class=per_class, random_state=random_state))


@pytest.mark.extended_cases("one block")
def test_a_random_choice_that_covers_all_classes_is_not_changed(blocks):
    """Over many seeds each point is as likely as any other: so many draws of 20 from 100."""
    codes, hits, draws = np.arange(100) % 2, np.zeros(100), 500 if blocks else 3000
    for random_state in range(draws):
        hits[choose_labels(codes, count=20, random_state=random_state)] += 1
    assert np.abs(hits / draws - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / draws)


def test_choices_that_are_refused():
    codes = np.array([0, 0, 0, 1, 1, -1])
    for given_ in ({}, {"count": 2, "per_class": 1}):
        with pytest.raises(ParameterError, match="exactly one of count, per_class, fraction"):
            choose_labels(codes, random_state=0, **given_)
    with pytest.raises(DataError, match="class 1 has 2"):
        choose_labels(codes, per_class=3, random_state=0)
    with pytest.raises(DataError, match="6 labeled points asked for, from 5 points of 2 classes"):
        choose_labels(codes, count=6, random_state=0)
    with pytest.raises(DataError, match="1 labeled points asked for"):
        choose_labels(codes, count=1, random_state=0)
    with pytest.raises(DataError, match="no points of class 'eggs'"):
        choose_labels(codes, count=3, random_state=0, n_classes=3, classes=["ham", "spam", "eggs"])
    with pytest.raises(DataError, match="9 labeled points a class asked for; class 'ham' has "):
        choose_labels(codes, per_class=9, random_state=0, classes=["ham", "spam"])
    with pytest.raises(DataError, match="no points of class 2"):
        choose_labels(codes, count=3, random_state=0, n_classes=3)
    with pytest.raises(DataError, match="no points of class 0"):
        choose_labels(np.array([1, 1]), count=1, random_state=0)
    with pytest.raises(DataError, match="no point has a label"):
        choose_labels(np.array([-1, -1]), count=1, random_state=0)
    with pytest.raises(ParameterError, match=r"fraction=1\.5"):
        choose_labels(codes, fraction=1.5, random_state=0)
    assert len(choose_labels(np.arange(100) % 2, fraction=0.1, random_state=0)) == 10


@given(codes=CODES, random_state=st.integers(0, 50), data=st.data())
@pytest.mark.extended_cases("many blocks")
def test_test_points_keep_the_shares_of_the_classes(codes, random_state, data):
    sizes = np.bincount(codes[codes >= 0])
    count = data.draw(st.integers(1, int(sizes.sum()) - 4) if sizes.sum() > 4 else st.nothing())
    train, test = split_test(codes, count=count, random_state=random_state)
    assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(codes)))
    assert len(test) == count
    assert (codes[test] >= 0).all()
    assert set(codes[train]) >= {0, 1, 2, 3}
    room = sizes - 1
    if np.all(count * sizes / sizes.sum() <= room):
        assert np.abs(np.bincount(codes[test], minlength=4) - count * sizes / sizes.sum()).max() <= 1
    renamed = np.append(data.draw(st.permutations(range(4))), -1)[codes]
    assert_array_equal(test, split_test(renamed, count=count, random_state=random_state)[1])


def test_other_splits():
    train, test = split_test(np.zeros(10, int), fraction=0.3, random_state=1)
    assert (len(train), len(test)) == (7, 3)
    assert [item.tolist() for item in official_test([np.array([0, 1]), np.array([1, 0])])] == [
        [False, True], [True, False]]
    with pytest.raises(ParameterError, match="exactly one of count, fraction"):
        split_test(np.zeros(10, int), random_state=0)
    with pytest.raises(DataError, match="official split"):
        list(official_test([np.array([0, 1, 2])]))
    with pytest.raises(DataError, match="at most 1 of 3"):
        split_test(np.array([0, 0, 1]), count=2, random_state=0)


def test_sampled_points():
    drawn = sample_points(100, 10, random_state=3)
    assert len(set(drawn.tolist())) == 10
    assert_array_equal(drawn, np.sort(drawn))
    assert set(drawn) <= set(range(100))
    assert set(drawn) <= set(sample_points(100, 11, random_state=3))
    with pytest.raises(DataError, match="11 points asked for, from 10"):
        sample_points(10, 11, random_state=0)


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12).map(np.array), data=st.data())
@pytest.mark.extended_cases("many blocks")
def test_things_are_dealt_in_proportion_and_a_larger_count_takes_no_fewer(sizes, data):
    starts = np.array(data.draw(st.lists(st.floats(0, 0.99), min_size=len(sizes), max_size=len(sizes))))
    count = data.draw(st.integers(0, int(sizes.sum())))
    shares = dealt(count, sizes, starts)
    assert shares.sum() == count
    assert (shares <= sizes).all()
    given_, left = shares > 0, shares < sizes
    last, following = ((shares - 1 + starts)[given_] / sizes[given_], (shares + starts)[left] / sizes[left])
    assert last.max(initial=0) <= following.min(initial=1) + 1e-12
    if count < sizes.sum():
        assert (dealt(count + 1, sizes, starts) >= shares).all()
