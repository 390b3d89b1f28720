"""Checks of the values of a frozen dataclass of parameters."""

from typing import Any

from .errors import require


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
