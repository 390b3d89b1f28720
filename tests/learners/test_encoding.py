"""Labels as codes of classes, and as quantities; classes that are joined or left out."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from dssl.base.errors import DataError
from dssl.base.missing import is_missing_text
from dssl.learners.target.encoding import (
    MAX_CLASSES,
    encode_labels,
    encode_values,
    keep_classes,
    map_classes,
    require_no_quantities,
)
from dssl.learners.target.target import Quantities


@pytest.mark.parametrize(("y", "codes", "classes"), [
    ([3, 1, -1, 3], [1, 0, -1, 1], [1, 3]),
    (np.array([3, 1, 2], np.uint8), [2, 0, 1], [1, 2, 3]),
    ([0.5, np.nan, -1.0], [1, -1, 0], [-1.0, 0.5]),
    ([True, False, True], [1, 0, 1], [False, True]),
    (["b", "a", "b"], [1, 0, 1], ["a", "b"]),
    (np.array(["b", None, "a", np.nan], object), [1, -1, 0, -1], ["a", "b"]),
    (["b", None, "a"], [1, -1, 0], ["a", "b"]),
    (np.array(["b", "", "a"]), [1, -1, 0], ["a", "b"]),
    (np.array(["b", "", None, "a"], object), [1, -1, -1, 0], ["a", "b"]),
    (pd.Series(["b", "", pd.NA, "a"], dtype="string"), [1, -1, -1, 0], ["a", "b"]),
    (np.array([2, "", 1], object), [1, -1, 0], [1, 2]),
    (np.array(["b", " ", "NA", "nan", float("nan"), "?", "a "], object), [1, -1, -1, -1, -1, -1, 0], ["a ", "b"]),
    (np.array(["b", "null", "a"]), [1, -1, 0], ["a", "b"]),
    (np.array([2, None, -2], object), [1, -1, 0], [-2, 2]),
    (np.array([True, None], object), [0, -1], [True]),
    (pd.Series([2, pd.NA, 1], dtype="Int64"), [1, -1, 0], [1, 2]),
    (pd.Series(["b", None, "a"]), [1, -1, 0], ["a", "b"]),
    (pd.Categorical(["b", None, "a"], categories=["c", "b", "a"]), [1, -1, 0], ["a", "b"]),
    (np.array([[5], [4]]), [1, 0], [4, 5]),
    ([-1, -1], [-1, -1], []),
])
def test_types_of_labels(y, codes, classes):
    found, names = encode_labels(y)
    assert found.dtype == np.int64
    assert found.tolist() == codes
    assert names.tolist() == classes


@pytest.mark.parametrize(("y", "marker", "codes", "classes"), [
    ([-1, 1, 0], 0, [0, 1, -1], [-1, 1]),
    ([-1, 1, -1], 0, [0, 1, 0], [-1, 1]),
    (["a", "?", "b"], "?", [0, -1, 1], ["a", "b"]),
    (np.array(["a", "?", None, ""], object), "?", [0, -1, -1, -1], ["a"]),
    ([1.0, -1.0, 2.0], -1.0, [0, -1, 1], [1.0, 2.0]),
])
def test_another_marker(y, marker, codes, classes):
    found, names = encode_labels(y, unlabeled=marker)
    assert found.tolist() == codes
    assert names.tolist() == classes


def test_minus_one_and_plus_one_is_ambiguous():
    with pytest.raises(DataError, match="unlabeled=0"):
        encode_labels(np.array([-1, 1, 1, -1]))
    assert encode_labels(np.array([-1, 1, 2]))[0].tolist() == [-1, 0, 1]
    assert encode_labels(np.array([-1.0, 1.0]))[0].tolist() == [0, 1]


@pytest.mark.parametrize(("y", "message"), [
    (np.array(["a", 1], object), "2 kinds: number, text"), (np.ones((2, 2)), r"shape \(2, 2\)"),
    (np.array([b"a"]), "bytes"),
    (np.array([0.0, np.inf, np.nan]), "infinite"),
    (np.array([(1,), (2,)], object)[:, None].sum(axis=1), "expected|lists"),
])
def test_labels_that_are_refused(y, message):
    if y.dtype == object and message.startswith("expected"):
        y = np.empty(2, object)
        y[:] = [(1,), (2,)]
    with pytest.raises(DataError, match=message):
        encode_labels(y)


@given(st.lists(st.one_of(st.none(), st.text(max_size=4)), max_size=30))
def test_decoding_gives_the_labels_back(y):
    codes, classes = encode_labels(np.array(y, object))
    assert [None if code < 0 else str(classes[code]) for code in codes] == [
        None if label is None or is_missing_text(label) else label.rstrip("\0") for label in y]  # NumPy text ends there
    assert classes.tolist() == sorted(classes.tolist())


@given(st.lists(st.integers(-1, 5), min_size=1, max_size=40).filter(lambda y: set(y) != {-1, 1}))
def test_decoding_gives_the_numbers_back(y):
    codes, classes = encode_labels(np.array(y))
    assert np.where(codes < 0, -1, np.append(classes, -1)[codes]).tolist() == y


def test_fractions_and_too_many_values_are_quantities():
    for classes in (np.array([1.0, 2.0]), np.arange(MAX_CLASSES), np.array(["a", "b"]), np.array([])):
        require_no_quantities(classes, "")
    for classes in (np.array([0.5, 1.0]), np.arange(MAX_CLASSES + 1.0)):
        with pytest.raises(DataError, match=r"Unknown label type: continuous, .* different values such as"):
            require_no_quantities(classes, "")


def test_classes_are_joined():
    codes, classes = encode_labels([1, 2, 3, 4, -1])
    odd = {"odd": [1, 3], "even": ["2", 4]}
    joined, names = map_classes(codes, classes, odd)
    assert names.tolist() == ["even", "odd"]
    assert joined.tolist() == [1, 0, 1, 0, -1]
    assert map_classes(*encode_labels(["a", "b"]), {1: "a", 0: ["b"]})[0].tolist() == [1, 0]
    assert map_classes(*encode_labels([1.0, 2.0]), {"x": [1, "2"]})[0].tolist() == [0, 0]
    for mapping, message in (({"odd": [1, 3], "rest": [2, 3, 4]}, "class 3 is mapped to 'odd' and to 'rest'"),
                             ({"odd": [1, 3, 9], "even": [2, 4]}, "no class is 9[\\s\\S]*1, 2, 3, 4"),
                             ({"odd": [1, 3]}, "no class is given for 2, 4"),
                             ({"odd": [True, 3], "even": [2, 4]}, "no class is True")):
        with pytest.raises(DataError, match=message):
            map_classes(codes, classes, mapping)


def test_classes_are_kept():
    codes, classes = encode_labels(["4", "9", "7", "4", None])
    ids, kept, names = keep_classes(codes, classes, [9, 4])
    assert ids.tolist() == [0, 1, 3, 4]
    assert kept.tolist() == [0, 1, 0, -1]
    assert names.tolist() == ["4", "9"]
    with pytest.raises(DataError, match=r"no class is 5[\s\S]*'4', '7', '9'"):
        keep_classes(codes, classes, [4, 5])
    with pytest.raises(DataError, match="each is named once"):
        keep_classes(codes, classes, [4, "4"])


def test_minus_one_among_whole_floats_has_to_be_named():
    """A file's integer labels become floats where one is missing: -1 may then be a marker or a class."""
    y = np.array([0.0, 1.0, 2.0, -1.0, np.nan])
    with pytest.raises(DataError, match="unlabeled=-1"):
        encode_labels(y)
    codes, classes = encode_labels(y, unlabeled=-1)
    assert codes.tolist() == [0, 1, 2, -1, -1]
    assert classes.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("y", [[0, 1, -1, None], pd.Series([0, 1, -1, pd.NA], dtype="Int64"),
                               np.array([0, 1.0, -1, np.nan], object)], ids=["list", "nullable", "objects"])
def test_minus_one_beside_missing_values_has_to_be_named(y):
    with pytest.raises(DataError, match=r"whole numbers stored as objects, and -1 is among them: \[-1.*, 0.*, 1.*\]"):
        encode_labels(y)
    codes, classes = encode_labels(y, -1)
    assert (codes.tolist(), classes.tolist()) == ([0, 1, -1, -1], [0, 1])


@pytest.mark.parametrize("y", [pd.Series([0, 1, -1], dtype="Int64"), np.array([0, 1, -1], object)])
def test_minus_one_marks_unlabeled_points_among_objects_that_are_integers(y):
    assert encode_labels(y)[0].tolist() == [0, 1, -1]


def test_plus_and_minus_one_as_floats_are_classes():
    codes, classes = encode_labels(np.array([-1.0, 1.0, np.nan]))
    assert codes.tolist() == [0, 1, -1]
    assert classes.tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("marker", ["unknwon", 7, 7.5])
def test_a_marker_that_does_not_occur_is_refused(marker):
    y = np.array(["a", "b"], object) if isinstance(marker, str) else np.array([0, 1, 2])
    with pytest.raises(DataError, match="no label is the marker"):
        encode_labels(y, unlabeled=marker)
    assert encode_labels(np.array([-1, 1]), unlabeled=7)[1].tolist() == [-1, 1]


@pytest.mark.parametrize(("y", "unlabeled", "expected"), [
    ([1, -1, 3], None, [1, -1, 3]), ([1.5, np.nan, -1], None, [1.5, np.nan, -1]), ([1, -1, 3], -1, [1, np.nan, 3]),
    ([1, None, 2.5], None, [1, np.nan, 2.5]), (np.array([1, "", " NA", 2.5], object), None, [1, np.nan, np.nan, 2.5]),
    (np.array([[1], [2]], np.int8), None, [1, 2]),
    (pd.Series([1, pd.NA, 3], dtype="Int64"), None, [1, np.nan, 3]), ([7.0, np.nan], np.nan, [7, np.nan]),
])
def test_values_are_floats_and_nan_where_there_is_none(y, unlabeled, expected):
    found = encode_values(y, unlabeled)
    assert found.dtype == np.float64
    assert_array_equal(found, expected)


@pytest.mark.parametrize(("y", "unlabeled", "message"), [
    (["a", "b"], None, "a regression predicts numbers"), ([True, False], None, "a regression predicts numbers"),
    ([1.0, np.inf], None, r"beyond 1e\+150: 1; the first is inf in row \[1\]"), ([1e151, 1.0], None, "beyond 1e"),
    (np.ones((3, 2)), None, r"expected \(n,\)"), ([1.0, 2.0], 9, "no target is the marker"),
    ([1.0, "a"], None, "2 kinds"),
])
def test_values_that_no_model_can_fit(y, unlabeled, message):
    with pytest.raises(DataError, match=message):
        encode_values(y, unlabeled)


def test_values_are_described_without_those_that_are_missing():
    assert Quantities.of(np.array([1.0, np.nan, 3.0, 3.0])).described()["target"] == {
        "known": 3, "distinct": 2, "min": 1.0, "max": 3.0, "mean": 7 / 3, "deviation": np.std([1, 3, 3])}
    assert Quantities.of(np.array([np.nan])).described()["target"] == {"known": 0, "distinct": 0}
