"""The door to ruamel.yaml: reads YAML 1.2 as plain values, and writes values as YAML.

Repeated keys and endless values are refused, and errors name the line of the mistake.
"""

import os
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from itertools import accumulate
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import ConstructorError, SafeConstructor
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.representer import SafeRepresenter
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.tag import Tag

from .errors import SpecError, explain
from .urls import is_url, require_no_secret

LARGEST_SPEC = 1 << 20  # bytes
MAX_OPEN = 200  # nested brackets; the YAML scanner takes quadratic time in them
NOT_TEXT = re.compile("(?i:y|yes|n|no|on|off)|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+")  # not text in YAML 1.1 only
MAX_VALUES, DEEPEST = 100_000, 32  # values once aliases are expanded; nesting of sections


class _StrictConstructor(SafeConstructor):
    """Constructs plain values and collects all repeated keys, where ruamel.yaml would stop at the first."""

    def __init__(self, preserve_quotes: bool | None = None, loader: YAML | None = None) -> None:
        super().__init__(preserve_quotes, loader)
        self.repeated: list[tuple[int, int, Any]] = []  # line, line of the first, key

    def construct_mapping(self, node: Node, deep: bool = False) -> dict[Any, Any]:
        first_lines: dict[Any, int] = {}
        for key_node, _ in node.value if isinstance(node, MappingNode) else ():
            key, line = self.construct_object(key_node, deep=True), key_node.start_mark.line + 1
            if not isinstance(key, (str, int, float, bool)):
                raise ConstructorError(None, None, f"the key {key!r} is not a word or a number", key_node.start_mark)
            if key in first_lines:
                self.repeated.append((line, first_lines[key], key))
            first_lines.setdefault(key, line)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


class _QuotingResolver(VersionedResolver):
    """Quotes text that YAML 1.1 would not read as text: Kubernetes reads YAML 1.1."""

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> Any:
        tag = super().resolve(kind, value, implicit)
        is_plain = kind is ScalarNode and implicit[0] and tag == self.DEFAULT_SCALAR_TAG
        return Tag(suffix="tag:yaml.org,2002:bool") if is_plain and NOT_TEXT.fullmatch(value) else tag


class _LineRepresenter(SafeRepresenter):
    """Writes each text on one line, in double quotes if it contains line breaks."""

    def represent_text(self, text: str) -> ScalarNode:
        broken = len(f"{text}.".splitlines()) > 1
        node: ScalarNode = self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if broken else None)
        return node


_LineRepresenter.add_representer(str, _LineRepresenter.represent_text)


def read_yaml(source: str | Path, *, why: str, fix: str) -> Any:
    """Return the value of a YAML file; see `read_text` and `parse_yaml`."""
    return parse_yaml(read_text(source, why=why, fix=fix), str(source))


def read_text(source: str | Path, *, why: str, fix: str) -> str:
    """Return the text of a YAML file.

    why : why the file is needed, for the error message.
    fix : what to do if the folder contains no YAML file that the message could suggest.

    Raises
    ------
    SpecError : there is no such file, or it is not UTF-8.
    """
    path = Path(source)
    if not os.path.isfile(path):  # unlike `is_file`, it accepts names that the system refuses, such as very long ones
        near = sorted(map(str, path.parent.glob("*.y*ml")))[:8] if os.path.isdir(path.parent) else []
        what = f"{source} is a folder" if os.path.isdir(path) else f"there is no file {source}"
        raise SpecError(explain(what, why=why, fix=f"name one of: {', '.join(near)}" if near else fix))
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(explain(f"{source} is not text: {error}", why=why, fix="name a YAML file in UTF-8")) from error


ANOTHER = "begins another document"


def parse_yaml(text: str, origin: str) -> Any:
    """Return the value of a YAML text; raise SpecError with the line and a fix if it is not valid."""
    return parse_with_lines(text, origin)[0]


def parse_with_lines(text: str, origin: str) -> tuple[Any, dict[tuple[str, ...], int]]:
    """Return the value of a YAML text, and the line (from 1) of every key and list item by its path.

    A value behind an alias has the line of the alias.

    Raises
    ------
    SpecError : the text is not valid YAML, or repeats keys; the message names the lines and a fix.
    """
    if len(text) > LARGEST_SPEC or _open_brackets(text) > MAX_OPEN:
        raise SpecError(explain(f"{origin} has {len(text):,} characters, or more than {MAX_OPEN} brackets are open",
                                why="a spec is a page, not a data file",
                                fix="close the brackets; put data into a file and name it as data.source"))
    reader = YAML(typ="safe", pure=True)
    reader.Constructor, reader.allow_duplicate_keys = _StrictConstructor, True
    try:
        node = reader.compose(text)
        lines = _lines_of(node)  # before the constructor changes nodes
        value = None if node is None else reader.constructor.construct_document(node)
    except (YAMLError, ValueError, RecursionError, LookupError, AttributeError) as error:
        # LookupError and AttributeError: what ruamel.yaml raises at `!!bool x`, `!!int ""` and `!!timestamp x`
        what, fix = problem_and_fix(error, text)
        if what.endswith(ANOTHER):
            raise SpecError(explain(f"{origin} holds more than one document: {what}", why="one is read",
                                    fix=fix)) from error
        raise SpecError(explain(f"{origin} is not YAML: {what}", why="nothing can be run from it", fix=fix)) from error
    if repeated := reader.constructor.repeated:
        keys = "; ".join(f"the key {key!r} is given twice, in line {first} and line {line}"
                         for line, first, key in sorted(repeated, key=lambda item: item[0]))
        raise SpecError(explain(f"{origin}: {keys}", why="only one of the values can count",
                                fix="remove one of the two, or indent it below the section that it belongs to"))
    require_plain(value, origin)
    return value, lines


def _lines_of(root: Node | None) -> dict[tuple[str, ...], int]:
    lines: dict[tuple[str, ...], int] = {}
    pending: list[tuple[tuple[str, ...], Node | None]] = [((), root)]
    visited: set[int] = set()
    while pending:
        path, node = pending.pop()
        if node is None or id(node) in visited:
            continue
        visited.add(id(node))
        parts: Iterable[tuple[str, Node, Node]] = ()
        if isinstance(node, MappingNode):
            parts = ((str(key.value), key, value) for key, value in node.value)
        elif isinstance(node, SequenceNode):
            parts = ((str(index), item, item) for index, item in enumerate(node.value))
        for name, start, part in parts:
            lines[*path, name] = start.start_mark.line + 1
            pending.append(((*path, name), part))
    return lines


NO_SPACE = re.compile(r"([A-Za-z_][\w.-]*):(?!//)([^\s:][^:]*)")  # a key, and its value right behind the colon
QUOTES = "put text with such a character into quotes"


def problem_and_fix(error: Exception, text: str) -> tuple[str, str]:
    """Return what is wrong with a text that ruamel.yaml refuses, with the line, and how to fix it."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return str(error), "correct it; indent with spaces"
    problem, context = str(getattr(error, "problem", error)), str(getattr(error, "context", None) or "")
    lines, n = text.splitlines() or [""], mark.line
    line = lines[n] if n < len(lines) else ""
    tabs = [i + 1 for i, one in enumerate(lines) if "\t" in one[:len(one) - len(one.lstrip())]]
    above = next((i for i in range(min(n, len(lines)) - 1, -1, -1) if lines[i].split("#")[0].strip()), None)
    before = lines[above] if above is not None else ""
    if problem == "but found another document":
        return f"line {n + 1} {ANOTHER}", "remove that line, or put what follows into a file of its own"
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
    is_quoting = "cannot start any token" in problem or "alias" in problem
    fix = QUOTES if is_quoting else "correct this line; indent with spaces"
    return f"{problem}, line {n + 1}, column {mark.column + 1}", fix


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _open_brackets(text: str) -> int:
    """Return the maximum nesting depth of brackets in a text."""
    steps = (1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text))
    return max(accumulate(steps, lambda depth, step: max(0, depth + step), initial=0))


def require_plain(value: object, origin: str) -> None:
    """Raise SpecError if nested values are too many, too deep or endless, or if one cannot be stored or is a secret.

    A few lines of YAML whose aliases refer to each other can expand to billions of values, or contain themselves.
    """
    pending: list[tuple[object, int]] = [(value, 0)]
    count = 0
    while pending:
        item, depth = pending.pop()
        count += 1
        if count > MAX_VALUES or depth > DEEPEST:
            raise SpecError(explain(
                f"{origin} holds more than {MAX_VALUES:,} values, or one more than {DEEPEST} sections deep",
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


def yaml_of(value: object) -> str:
    """Return a value as YAML on one line, which `parse_yaml` reads as that value."""
    return _written([value], 10**6, True, _LineRepresenter).removesuffix("\n...\n").strip()


def yaml_text(*documents: object, width: int = 1000) -> str:
    """Return each value as a YAML document with one line per key, in the order of the keys."""
    return _written(documents, width, False, SafeRepresenter)


def _written(documents: Sequence[object], width: int, flow: bool, representer: type[SafeRepresenter]) -> str:
    writer: Any = YAML(typ="safe", pure=True)  # its annotations say that its settings are always None
    stream = StringIO()
    writer.Resolver, writer.Representer = _QuotingResolver, representer
    writer.width, writer.default_flow_style, writer.sort_base_mapping_type_on_output = width, flow, False
    writer.dump_all(documents, stream)
    return stream.getvalue()
