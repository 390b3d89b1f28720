"""YAML as plain values: no code, no key twice, nothing endless, and an error with the place of what is wrong.

PyYAML's safe loader has the first of these and the place; it takes the last of equal keys, bounds nothing, and its
errors are those of a parser.
"""

import os
import re
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml

from .errors import SpecError, explain
from .urls import is_url, require_no_secret

LARGEST_SPEC = 1 << 20  # bytes
MOST_OPEN = 200  # brackets that are open at a place; the YAML scanner takes time quadratic in them
MOST_VALUES, DEEPEST = 100_000, 32  # after aliases are replaced; of sections within sections


class _StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML that notes the keys that are given twice, of which the last one's value counts; 1e-3 is a number.

    By libyaml where PyYAML was built with it: ten times as fast on long lists.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.twice: list[tuple[int, int, Any]] = []  # line, line of the first, key

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            key, line = self.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            if not isinstance(key, (str, int, float, bool)):
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is not a word or a number",
                                                        key_node.start_mark)
            if key in seen:
                self.twice.append((line, seen[key], key))
            seen.setdefault(key, line)
        return super().construct_mapping(node, deep)


class _LineDumper(yaml.SafeDumper):
    """YAML that `_StrictLoader` reads as it was, each text on one line."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Return a text, in double quotes if it would be broken into lines."""
        broken = len(f"{text}.".splitlines()) > 1
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if broken else None)


# YAML 1.2 and JSON read 1e-3 as a number; PyYAML, of YAML 1.1, reads a text unless there are a point and a sign.
POWER = re.compile(r"[-+]?([0-9]+\.?|[0-9]*\.[0-9]+)[eE][-+]?[0-9]+$")
for _kind in (_StrictLoader, _LineDumper):
    _kind.add_implicit_resolver("tag:yaml.org,2002:float", POWER, list("-+.0123456789"))
_LineDumper.add_representer(str, _LineDumper.represent_text)


def read_yaml(source: str | Path, *, why: str, fix: str) -> Any:
    """Return the value of a YAML file; see `read_text` and `parse_yaml`."""
    return parse_yaml(read_text(source, why=why, fix=fix), str(source))


def read_text(source: str | Path, *, why: str, fix: str) -> str:
    """Return the text of a YAML file.

    why : what the file is read for. fix : what else may be named where no YAML file is near.

    Raises
    ------
    SpecError : there is no such file, or it is not UTF-8.
    """
    path = Path(source)
    if not os.path.isfile(path):  # other than `is_file`, it takes names that the system refuses, such as very long ones
        near = sorted(map(str, path.parent.glob("*.y*ml")))[:8] if os.path.isdir(path.parent) else []
        raise SpecError(explain(f"there is no file {source}", why=why,
                                fix=f"name one of: {', '.join(near)}" if near else fix))
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(explain(f"{source} is not text: {error}", why=why, fix="name a YAML file in UTF-8")) from error


def parse_yaml(text: str, origin: str) -> Any:
    """Return the value of a YAML text; raise SpecError with the line, and what to do there, if it is none."""
    if len(text) > LARGEST_SPEC or _open_brackets(text) > MOST_OPEN:
        raise SpecError(explain(f"{origin} has {len(text):,} characters, or more than {MOST_OPEN} brackets are open",
                                why="a spec is a page, not a data file",
                                fix="close the brackets; put data into a file and name it as data.source"))
    try:
        loader = _StrictLoader(text)
        value = loader.get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, AttributeError) as error:
        # LookupError and AttributeError: what PyYAML raises at `!!bool x`, `!!int ""` and `!!timestamp x`
        what, fix = what_is_wrong(_in_words_of_pyyaml(error, text), text)
        raise SpecError(explain(f"{origin} is not YAML: {what}", why="nothing can be run from it", fix=fix)) from error
    if loader.twice:
        duplicates = "; ".join(f"the key {key!r} is given twice, in line {first} and line {line}"
                         for line, first, key in sorted(loader.twice, key=lambda item: item[0]))
        raise SpecError(explain(f"{origin}: {duplicates}", why="only one of the values can count",
                                fix="leave one of the two out, or indent it below the section that it belongs to"))
    require_plain(value, origin)
    return value


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """Return the line, from 1 on, of every key of a YAML text by its path; of items of lists too.

    What stands behind an alias has the line of the alias. text : what `parse_yaml` reads.
    """
    line_of: dict[tuple[str, ...], int] = {}
    pending: list[tuple[tuple[str, ...], Any]] = [((), yaml.compose(text, _StrictLoader))]
    seen: set[int] = set()
    while pending:
        path, node = pending.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*path, str(key.value))
                line_of[inner] = key.start_mark.line + 1
                pending.append((inner, value))
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                inner = (*path, str(number))
                line_of[inner] = value.start_mark.line + 1
                pending.append((inner, value))
    return line_of


def _in_words_of_pyyaml(error: Exception, text: str) -> Exception:
    """Return how PyYAML's own parser refuses a text: libyaml names fewer places."""
    try:
        yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError as named:
        return named
    return error


NO_SPACE = re.compile(r"([A-Za-z_][\w.-]*):(?!//)([^\s:][^:]*)")  # a key, and its value right behind the colon
QUOTES = "put text with such a character into quotes"


def what_is_wrong(error: Exception, text: str) -> tuple[str, str]:
    """Return what is wrong with a text that PyYAML refuses, with the line, and what to do there."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error), "mend it; indent with spaces"
    problem, context = str(getattr(error, "problem", error)), str(getattr(error, "context", None) or "")
    lines, n = text.splitlines() or [""], mark.line
    line = lines[n] if n < len(lines) else ""
    tabs = [i + 1 for i, one in enumerate(lines) if "\t" in one[:len(one) - len(one.lstrip())]]
    above = next((i for i in range(min(n, len(lines)) - 1, -1, -1) if lines[i].split("#")[0].strip()), None)
    before = lines[above] if above is not None else ""
    if "\\t" in problem and tabs:
        named = f"line {tabs[0]} is" if len(tabs) == 1 else f"lines {', '.join(map(str, tabs))} are"
        return f"{named} indented by a tab", "YAML indents by spaces: put two spaces in place of each tab"
    if problem.startswith("mapping values") and (joined := NO_SPACE.fullmatch(before.strip())):
        return f"line {(above or 0) + 1} has no space after its colon", f"write {joined[1]}: {joined[2]}"
    if problem.startswith("mapping values") and line[:mark.column].count(":"):
        return f"line {n + 1} has a second colon, in {line.strip()!r}", "put the text with the colon into quotes"
    if problem.startswith("mapping values") and _indent(line) > _indent(before):
        return (f"line {n + 1} is indented by {_indent(line)} spaces, line {(above or 0) + 1} above it by "
                f"{_indent(before)}", "begin keys of one section in the same column")
    if problem.startswith(("expected <block end>", "expected '<document start>'")):
        columns = sorted({_indent(one) for one in lines[:n] if one.split("#")[0].strip()})
        if _indent(line) not in columns:
            return (f"line {n + 1} is indented by {_indent(line)} spaces, the sections above by "
                    f"{' or '.join(map(str, columns))}", "begin a key where those of its section begin")
    begun = getattr(error, "context_mark", None)
    if begun is not None and "flow" in context:
        bracket, end = ("[", "]") if "sequence" in context or text.count("[") > text.count("]") else ("{", "}")
        is_open = text.count(bracket) > text.count(end)
        return (f"line {begun.line + 1} opens a {bracket}, and in line {n + 1} the parser finds: {problem}",
                f"close it with {end}" if is_open else "write commas between entries, and a space after each colon")
    if begun is not None and "quoted" in context and "end of stream" in problem:
        return f"line {begun.line + 1} opens a quote that nothing closes", "close it, or leave the quote out"
    fix = QUOTES if "cannot start any token" in problem or "alias" in problem else "mend this line; indent with spaces"
    return f"{problem}, line {n + 1}, column {mark.column + 1}", fix


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _open_brackets(text: str) -> int:
    """Return how many brackets are open at most at one place of a text."""
    steps = (1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text))
    return max(accumulate(steps, lambda depth, step: max(0, depth + step), initial=0))


def require_plain(value: Any, origin: str) -> None:
    """Raise SpecError if nested values are many, deep or endless, or one cannot be written down or is a secret.

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
        elif isinstance(item, str) and is_url(item):
            require_no_secret(item, SpecError)


def yaml_of(value: Any) -> str:
    """Return a value as YAML on one line, which `parse_yaml` reads as that value."""
    text = yaml.dump(value, Dumper=_LineDumper, default_flow_style=True, width=10**6, allow_unicode=True)
    return text.removesuffix("\n...\n").strip()
