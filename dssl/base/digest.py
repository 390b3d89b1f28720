"""Parameter sets as values: canonical JSON and the digest that names what they make."""

import dataclasses
import hashlib
import json
import math
import sys
from numbers import Integral, Real
from typing import Any, TypeGuard

from .errors import ParameterError, explain, require

BANDWIDTH = "0.5*median"  # the default bandwidth of a kernel

JsonObject = dict[str, Any]  # an object of a JSON document, whose values are JSON


def plain(value: object) -> Any:
    """Return `value` as JSON types; a dataclass becomes a dict that names its type.

    Raises
    ------
    ParameterError : the value has no JSON form that is the same on every machine.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, dict):
        fields = {str(key): plain(item) for key, item in value.items()}
        require(len(fields) == len(value), f"keys {[key for key in value if str(key) in value and key != str(key)]!r} "
                "also occur as text", why="JSON turns keys into text, so one of the two values would be lost",
                fix="use each key once")
        return fields
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    numpy = sys.modules.get("numpy")  # which takes half of the time of a help text, and no value of it is there before
    if numpy is not None and isinstance(value, numpy.generic):
        return plain(value.item())
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ParameterError(explain(
        f"{value!r} of type {type(value).__name__} is not a parameter",
        why="an artifact is named by its parameters, and only finite JSON values are the same on every machine",
        fix="use numbers, strings, booleans, null, lists or mappings of them",
    ))


def canonical_json(value: object) -> str:
    """Return the canonical JSON text of a parameter set: sorted keys, no spaces, shortest floats."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(value: object) -> str:
    """Return the hex SHA-256 of a parameter set; equal across machines, runs and library versions."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer of Python or NumPy; booleans do not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_real(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number of Python or NumPy; booleans do not count."""
    return isinstance(value, Real) and not isinstance(value, bool)


def require_random_state(random_state: object) -> None:
    """Raise ParameterError unless a random state is a whole number >= 0."""
    require(is_whole(random_state) and random_state >= 0,
            f"random_state={random_state!r}, expected a whole number >= 0",
            why="it seeds random streams that are the same on every machine and in every run",
            fix="pass a whole number, such as random_state=0; from a generator rng, rng.randint(2**31)")


def multiple_of(unit: str, text: str) -> float:
    """Return 0.5 for "0.5*median" and 1 for "median" if `unit` is "median"; NaN unless it is a positive multiple."""
    factor, _, name = text.replace(" ", "").rpartition("*")
    try:
        value = float(factor) if factor else 1.0
    except ValueError:
        value = math.nan
    return value if name == unit and 0 < value < math.inf else math.nan


def require_one_of(params: object, *names: str) -> None:
    """Raise ParameterError unless exactly one of the fields is set, that is, neither None nor False."""
    set_names = [name for name in names if (value := getattr(params, name)) is not None and value is not False]
    require(len(set_names) == 1, f"set exactly one of {', '.join(names[:-1])} and {names[-1]}",
            why=f"{' and '.join(set_names)} are set" if set_names else "none of them is set", fix="set one of them")


def require_at_least(params: object, minimum: int, *names: str) -> None:
    """Raise ParameterError unless each of the fields is None or at least `minimum`."""
    for name in names:
        value = getattr(params, name)
        require(value is None or value >= minimum, f"{name}={value!r}, expected {minimum} or more",
                why="smaller values have no meaning", fix=f"set a number >= {minimum}, or leave it out")
