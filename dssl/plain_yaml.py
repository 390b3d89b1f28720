"""YAML as plain values: no code, no key twice, nothing endless, and an error with the place of what is wrong.

PyYAML's safe loader has the first of these and the place; it takes the last of equal keys, and bounds nothing.
"""

import os
import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml

from .errors import SpecError, explain

LARGEST_SPEC = 1 << 20  # bytes
MOST_OPEN = 200  # brackets that are open at a place; the YAML scanner takes time quadratic in them
MOST_VALUES, DEEPEST = 100_000, 32  # after aliases are replaced; of sections within sections


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML in which a key given twice is an error, not the last one's value, and 1e-3 is a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key = self.construct_object(key_node, deep=True)
            wrong = ("is not a word or a number" if not isinstance(key, (str, int, float, bool)) else
                     "is given twice" if key in seen else None)
            if wrong:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} {wrong}", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.2 and JSON read 1e-3 as a number; PyYAML, of YAML 1.1, reads a text unless there are a point and a sign.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?([0-9]+\.?|[0-9]*\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789"))


def read_yaml(source: str | Path, *, why: str, fix: str) -> Any:
    """Return the value of a YAML file.

    why : what the file is read for. fix : what else may be named where no YAML file is near.

    Raises
    ------
    SpecError : there is no such file, or it is not YAML in UTF-8.
    """
    path = Path(source)
    if not os.path.isfile(path):  # other than `is_file`, it takes names that the system refuses, such as very long ones
        near = sorted(map(str, path.parent.glob("*.y*ml")))[:8] if os.path.isdir(path.parent) else []
        raise SpecError(explain(f"there is no file {source}", why=why,
                                fix=f"name one of: {', '.join(near)}" if near else fix))
    try:
        return parse_yaml(path.read_text(encoding="utf-8"), str(source))
    except UnicodeDecodeError as error:
        raise SpecError(explain(f"{source} is not text: {error}", why=why, fix="name a YAML file in UTF-8")) from error


def parse_yaml(text: str, origin: str) -> Any:
    """Return the value of a YAML text; raise SpecError with line and column if it is none."""
    if len(text) > LARGEST_SPEC or _open_brackets(text) > MOST_OPEN:
        raise SpecError(explain(f"{origin} has {len(text):,} characters, or more than {MOST_OPEN} brackets are open",
                                why="a spec is a page, not a data file",
                                fix="close the brackets; put data into a file and name it as data.source"))
    try:
        value = yaml.load(text, _StrictLoader)
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError) as error:
        # LookupError and AttributeError: what PyYAML raises at `!!bool x`, `!!int ""` and `!!timestamp x`
        raise SpecError(explain(f"{origin} is not YAML: {error}", why="nothing can be run from it",
                                fix="mend the line that is named; indent with spaces")) from error
    require_plain(value, origin)
    return value


def _open_brackets(text: str) -> int:
    """Return how many brackets are open at most at one place of a text."""
    steps = (1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text))
    return max(accumulate(steps, lambda depth, step: max(0, depth + step), initial=0))


def require_plain(value: Any, origin: str) -> None:
    """Raise SpecError if nested values are many, deep or endless, or one cannot be written down.

    A few lines of YAML whose aliases name each other stand for billions of values, or hold themselves.
    """
    pending, seen = [(value, 0)], 0
    while pending:
        item, depth = pending.pop()
        seen += 1
        if seen > MOST_VALUES or depth > DEEPEST:
            raise SpecError(explain(
                f"{origin} holds more than {MOST_VALUES:,} values, or one more than {DEEPEST} sections deep",
                why="a spec is a page, not a data file", fix="put data into a file and name it as data.source"))
        if isinstance(item, dict):
            pending += [(part, depth + 1) for pair in item.items() for part in pair]
        elif isinstance(item, (list, tuple)):
            pending += [(part, depth + 1) for part in item]
        elif isinstance(item, int) and not -1 << 63 <= item < 1 << 63:
            raise SpecError(explain(f"{origin} holds an integer of {item.bit_length()} bits",
                                    why="integers are stored in 64 bits", fix="write a number below 2^63"))
        elif isinstance(item, str) and any(mark == "\0" or "\ud800" <= mark <= "\udfff" for mark in item):
            raise SpecError(explain(f"{origin} holds the text {item[:40]!r}",
                                    why="no file can hold or be named by the character 0 or half a surrogate pair",
                                    fix="correct the escape in quotes"))
