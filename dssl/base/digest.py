"""Parameter sets as values: canonical JSON and the digest that names what they make."""

import dataclasses
import hashlib
import json
import math
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from .errors import ParameterError, explain, require

BANDWIDTH = "0.5*median"  # of a kernel, where none is named


def plain(value: Any) -> Any:
    """Return `value` as JSON types; a dataclass becomes a dict that names its type.

    Raises
    ------
    ParameterError : the value has no JSON form that is equal on every machine.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, dict):
        fields = {str(key): plain(item) for key, item in value.items()}
        require(len(fields) == len(value), f"keys {[key for key in value if str(key) in value and key != str(key)]!r} "
                "are there as text too", why="in JSON a key is text, so one of two values would be lost",
                fix="name each key once")
        return fields
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ParameterError(explain(
        f"{value!r} of type {type(value).__name__} is not a parameter",
        why="an artifact is named by its parameters, and only finite JSON values are equal on every machine",
        fix="use numbers, strings, booleans, null, lists or mappings of them",
    ))


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a parameter set: sorted keys, no spaces, shortest floats."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: Any) -> str:
    """Return the hex SHA-256 of a parameter set; equal across machines, runs and library versions."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def is_whole(value: Any) -> TypeGuard[int]:
    """Return whether a value is a whole number, of Python or NumPy; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_real(value: Any) -> TypeGuard[float]:
    """Return whether a value is a real number, of Python or NumPy; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def require_random_state(random_state: Any) -> None:
    """Raise ParameterError unless a random state is a whole number >= 0."""
    require(is_whole(random_state) and random_state >= 0,
            f"random_state={random_state!r}, expected a whole number >= 0",
            why="it begins streams of random numbers, equal on every machine and in every run",
            fix="pass a whole number, such as random_state=0; from a generator rng, rng.randint(2**31)")


def multiple_of(unit: str, text: str) -> float:
    """Return 0.5 of "0.5*median" and 1 of "median", where `unit` is "median"; NaN of what is no positive multiple."""
    factor, _, name = text.replace(" ", "").rpartition("*")
    try:
        value = float(factor) if factor else 1.0
    except ValueError:
        value = math.nan
    return value if name == unit and 0 < value < math.inf else math.nan


def require_one_of(params: Any, *names: str) -> None:
    """Raise ParameterError unless exactly one of some fields is given, that is neither None nor False."""
    given = [name for name in names if (value := getattr(params, name)) is not None and value is not False]
    require(len(given) == 1, f"set exactly one of {', '.join(names[:-1])} and {names[-1]}",
            why=f"given {'are ' + ' and '.join(given) if given else 'is none'}", fix="name one of them")


def require_at_least(params: Any, least: int, *names: str) -> None:
    """Raise ParameterError unless each of some fields is None, or a number at least so large."""
    for name in names:
        value = getattr(params, name)
        require(value is None or value >= least, f"{name}={value!r}, expected {least} or more",
                why="there is no smaller one", fix=f"give a number >= {least}, or leave it out")
