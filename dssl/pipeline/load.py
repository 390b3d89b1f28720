"""Read a pipeline file: YAML checked before any work, by the sections that its kind of model has.

The kinds are here by name (`SPECS`), without the stages of each, which `kinds` adds.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import field, make_dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ..base.errors import DsslError, SpecError, explain, require
from ..base.plugins import load_plugins
from ..base.urls import is_url, require_no_secret
from ..base.yaml import parse_with_lines, parse_yaml, read_text, require_plain
from ..methods.automatic import AUTOMATIC
from ..methods.cluster import CLUSTER_KERNEL
from ..methods.clusters import CLUSTERING, KERNEL_CLUSTERING
from ..methods.deformed.method import DEFORMED_RIDGE, DEFORMED_SVM
from ..methods.graph.method import GRAPH_LEARNER
from ..methods.laprls.method import LAPRLS, LAPSVM
from ..methods.multiscale import MULTISCALE_KERNEL
from ..methods.step import Method
from ..methods.transductive.method import TRANSDUCTIVE
from .mistakes import NEAR_KIND, Mistake, Place, all_mistakes, mistake_of_section, near_keys, repaired
from .spec import KindSpec, LabelSection, Spec
from .validation import schema_of, validated

SHAPED = "the shape that is planned for"  # what a plan for a source that need not exist gives as `data.source`
DEFAULT = "automatic"
METHODS = (AUTOMATIC, DEFORMED_SVM, DEFORMED_RIDGE, LAPRLS, LAPSVM, GRAPH_LEARNER, CLUSTER_KERNEL, MULTISCALE_KERNEL,
           TRANSDUCTIVE)
CLUSTERS = CLUSTERING, KERNEL_CLUSTERING


def load_spec(source: str | Path | dict[str, Any] | Spec, overrides: tuple[str, ...] | list[str] = (), *,
              data_source: str | None = None) -> Spec:
    """Return the checked spec of a YAML file or a mapping, with `a.b=value` overrides applied; a Spec as it is.

    data_source : what a spec without `data.source` is given; None, and such a spec is refused.

    Raises SpecError: the file cannot be read or is not YAML, keys are unknown, values are out of range. The message has
    all that is wrong, each with the path of the key, its line or override, and where an unknown key belongs.
    """
    if not isinstance(source, (str, Path, dict, Spec)):  # of nested mappings, a repr may have no end
        raise SpecError(explain(f"spec={source!r}", why="a pipeline is read from a YAML file, or is a mapping",
                                fix="pass a path or a dict"))
    if isinstance(source, Spec):
        return source
    lines: dict[Place, int] = {}
    if isinstance(source, dict):
        origin, fields = "the spec", source
    else:
        origin = str(source)
        text = read_text(source, why="the pipeline is read from it", fix="check the path")
        fields, lines = parse_with_lines(text, origin)
    if fields is None:
        raise SpecError(explain(f"{origin} is empty", why="a spec has sections: name, data, labels, graph, ...",
                                fix="copy pipelines/quickstart.yaml, or have `dssl init FILE` write a spec for your "
                                    "table"))
    if not isinstance(fields, dict):
        held = "a list" if isinstance(fields, list) else "one value"
        raise SpecError(explain(f"{origin} is no spec: it holds {held}, expected a mapping of keys to values",
                                why="a spec has sections: name, data, labels, graph, ...",
                                fix="begin with `name: mine`, a space after each colon; see pipelines/quickstart.yaml, "
                                    "or have `dssl init FILE` write a spec for your table"))
    require_plain(fields, origin)
    given = dict[Place, str]()
    fields = _overridden(fields, overrides, given)
    lines = {place: line for place, line in lines.items() if not any(place[:len(path)] == path for path in given)}
    require_plain(fields, origin)
    if data_source is not None and isinstance(data := fields.get("data", {}), dict):
        fields = {**fields, "data": {"source": data_source, **data}}
    kind, fields, of_kind = _meant_kind(fields)
    meant = repaired(fields, kind.spec, lines)
    spec, items = validated(kind.spec, meant.fields)
    mistakes = [*of_kind, *meant.mistakes, *_mistakes_in(items, kind)]
    if spec is not None:
        mistakes += _mistakes_of_use(spec, kind)
    if spec is None or mistakes:
        placed = sorted(((*_line_of(mistake.place, lines, meant.moved, given), mistake.says) for mistake in mistakes),
                        key=lambda item: item[0])
        messages = dict.fromkeys(f"  {where}{': ' if where else ''}{says}" for _, where, says in placed)
        raise SpecError(explain(f"{origin} is not a valid spec:\n" + "\n".join(messages),
                                why="a run starts only from a spec that is understood whole",
                                fix="correct these keys; `dssl schema` prints all keys with their meaning"))
    checked: Spec = spec
    return checked


def _mistakes_in(items: Sequence[Mapping[str, Any]], kind: KindSpec) -> list[Mistake]:
    """Return the errors of pydantic as mistakes in a spec of a kind."""
    return all_mistakes(items, kind.name, {name: other.spec for name, other in SPECS.items()})


def _meant_kind(fields: dict[str, Any]) -> tuple[KindSpec, dict[str, Any], list[Mistake]]:
    """Return the kind of a spec, its fields, and the mistakes in the name of the kind.

    The rest of a spec whose kind is misspelt is read as that of the kind which is meant.
    """
    kind, model = kind_spec_of(fields), fields.get("model")
    name = model.get("kind") if isinstance(model, dict) else None
    near = near_keys(name, SPECS, NEAR_KIND) if isinstance(name, str) and name not in SPECS else []
    if not near or not isinstance(model, dict):
        return kind, fields, []
    _, items = validated(kind.spec, fields)
    wrong = [mistake for mistake in _mistakes_in(items, kind) if mistake.place == ("model", "kind")]
    return SPECS[near[0]], {**fields, "model": {**model, "kind": near[0]}}, wrong


def _line_of(place: Place, lines: Mapping[Place, int], moved: Mapping[Place, Place],
             given: Mapping[Place, str]) -> tuple[int, str]:
    """Return the line of a key or of the section that it is in, and the text that says so or names the override."""
    for end in range(len(place), 0, -1):
        part = place[:end]
        if part in given:
            return 1 << 30, given[part]
        if (line := lines.get(moved.get(part, part))) is not None:
            return line, f"line {line}"
    return 0, next((text for path, text in given.items() if path[:len(place)] == place), "")


def _mistakes_of_use(spec: Spec, kind: KindSpec) -> Iterator[Mistake]:
    """Yield a task that the kind does not serve, what no stage of it reads, and what its sections ask of each other."""
    if spec.data.task not in kind.tasks:
        others = " or ".join(other.name for other in SPECS.values() if spec.data.task in other.tasks)
        yield Mistake(("model", "kind"), f"model.kind is {kind.name}, and data.task is {spec.data.task}: that kind "
                      f"serves {' and '.join(kind.tasks)}; set model.kind to {others}")
    messages = dict[str, tuple[str, DsslError]]()  # in the narrowest section that says them
    for section, error in chain(kind.mistakes(spec), spec.mistakes()):
        known = messages.get(str(error))
        if known is None or section.startswith(f"{known[0]}."):
            messages[str(error)] = section, error
    for section, error in messages.values():
        yield mistake_of_section(section, error)


def changed_settings(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec, as a mapping, without the settings that are as they are by default."""
    return load_spec(dict(fields)).to_dict(changed_only=True)


def kind_spec_of(fields: dict[str, Any]) -> KindSpec:
    """Return what a spec can say of the kind of model that a mapping names; of the default where it names none."""
    model = fields.get("model")
    name = model.get("kind", DEFAULT) if isinstance(model, dict) else DEFAULT
    if isinstance(name, str) and name not in SPECS:
        load_plugins()
    return SPECS.get(name if isinstance(name, str) else DEFAULT, SPECS[DEFAULT])


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec of any kind of model."""
    load_plugins()
    return schema_of({name: kind.spec for name, kind in SPECS.items()})


def _overridden(fields: dict[str, Any], overrides: tuple[str, ...] | list[str],
                given: dict[Place, str]) -> dict[str, Any]:
    """Return a copy of the fields with each `a.b=value` set, and note the overrides by path; values are YAML."""
    result = deepcopy(fields)
    for override in overrides:
        require(isinstance(override, str), f"an override {override!r}", why="it is a text key.key=value",
                fix="for example model.eta=100", error=SpecError)
        if is_url(override):  # before a message repeats it
            require_no_secret(override, SpecError)
        path, equals, text = override.partition("=")
        texts = path.split(".")
        if not equals or not all(texts):
            raise SpecError(explain(f"--set {override!r} is not of the form key.key=value",
                                    why="it names one value of the spec", fix="for example --set model.eta=100"))
        # A class that is a number is a number here too, as in YAML.
        keys = [int(key) if re.fullmatch("-?[0-9]+", key) else key for key in texts]
        place: dict[Any, Any] = result
        for number, key in enumerate(keys[:-1]):
            if place.get(key) is None:
                place[key] = {}
            if not isinstance(place[key], dict):
                section, inner = ".".join(texts[:number + 1]), text
                for below in reversed(keys[number + 1:]):
                    inner = f"{{{below}: {inner}}}"
                raise SpecError(explain(f"--set {override!r}: {key!r} is a value there, {place[key]!r}, not a section",
                                        why="only sections hold keys",
                                        fix=f"set {section} itself, to a value or to '{inner}'"))
            place = place[key]
        place[keys[-1]] = parse_yaml(text, f"--set {override}")
        given[tuple(map(str, keys))] = f"--set {override if len(override) <= 80 else path}"
    return result


def spec_of(method: Method) -> KindSpec:
    """Return the pipeline files of a method: its sections, beside those of every file."""
    sections: list[tuple[str, type, Any]] = [("data", method.data, field())]
    sections += [("labels", LabelSection, field())] if method.learns else []
    spec = make_dataclass(f"{method.sections.__name__.removesuffix('Sections')}Pipeline", sections,
                          bases=(method.sections, Spec), namespace={"__doc__": method.sections.__doc__}, frozen=True,
                          kw_only=True)
    return KindSpec(method.name, spec, method.tasks)


SPECS: dict[str, KindSpec] = {method.name: spec_of(method) for method in (*METHODS, *CLUSTERS)}
