"""Parameter sets as values: one JSON text, one digest, on every machine."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssl.base.digest import canonical_json, digest, plain
from dssl.base.errors import ParameterError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=10)


@dataclass(frozen=True)
class Smoothing:
    ridge: float = 0.01
    power: int = 2


@dataclass(frozen=True)
class Sharpening:
    ridge: float = 0.01
    power: int = 2


@dataclass(frozen=True)
class Nested:
    inner: Smoothing
    sizes: tuple[int, ...] = (1, 2)


def test_the_text_is_sorted_and_short():
    assert canonical_json({"b": [1, 0.5, True, None], "a": "é"}) == '{"a":"\\u00e9","b":[1,0.5,true,null]}'
    assert canonical_json(Nested(Smoothing())) == (
        '{"inner":{"power":2,"ridge":0.01,"type":"Smoothing"},"sizes":[1,2],"type":"Nested"}')


def test_the_digest_is_known():
    """Artifacts on disk are addressed by it: a change here makes every workspace anew."""
    assert digest({"b": [1, 0.5, True, None], "a": "é"}) == (
        "34e959f1a4e47e1bcd9ba859ce939fecff35d03692afb0d08db49d613bdd8705")


@given(values)
def test_the_text_is_json_of_the_value(value):
    assert json.loads(canonical_json(value)) == value


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_order_of_keys_does_not_count(fields):
    assert digest(fields) == digest(dict(reversed(fields.items())))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_keep_every_digit(number):
    assert np.array(json.loads(canonical_json([number]))).tobytes() == np.array([number]).tobytes()


@pytest.mark.parametrize(("ours", "theirs"), [
    (1, 1.0), (1, True), (0, False), (0.0, -0.0), ("1", 1), (None, "null"), ([], {}), ([1], 1),
    (0.1, np.nextafter(0.1, 1)), ({"a": 1}, {"a": 1, "b": None}), ("é", "e\u0301"),
    (Smoothing(), Sharpening()), (Smoothing(), replace(Smoothing(), ridge=0.02)),
    (Smoothing(), {"ridge": 0.01, "power": 2}), (Nested(Smoothing()), Nested(Smoothing(), (2, 1))),
])
def test_values_that_differ_have_different_digests(ours, theirs):
    assert digest(ours) != digest(theirs)


@pytest.mark.parametrize(("ours", "theirs"), [
    ((1, 2), [1, 2]), (np.float64(0.1), 0.1), (np.int32(3), 3), (np.bool_(True), True), (np.str_("a"), "a"),
    (Smoothing(), Smoothing(0.01, 2)), ({"a": (np.int64(1),)}, {"a": [1]}), (np.float32(0.1), float(np.float32(0.1))),
])
def test_equal_values_have_equal_digests(ours, theirs):
    assert digest(ours) == digest(theirs)


def test_a_dataclass_is_named_by_its_type():
    assert plain(Smoothing()) == {"type": "Smoothing", "ridge": 0.01, "power": 2}


@pytest.mark.parametrize("value", [
    float("nan"), float("inf"), -float("inf"), np.float64("nan"), np.float32("inf"), {"ridge": [1.0, float("nan")]},
    {1, 2}, b"bytes", np.arange(3), 1j, object(), Smoothing, Smoothing(ridge=float("nan")), print,
])
def test_what_is_not_equal_on_every_machine_is_refused(value):
    with pytest.raises(ParameterError, match="is not a parameter") as error:
        canonical_json(value)
    assert "why:" in str(error.value)
    assert "fix:" in str(error.value)


def test_keys_that_become_equal_texts_are_refused():
    """{1: a, "1": b} has no form of its own in JSON: one of the two values would be lost."""
    with pytest.raises(ParameterError, match="also occur as text"):
        plain({1: "a", "1": "b"})
