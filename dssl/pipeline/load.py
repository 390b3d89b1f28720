"""Read a pipeline file: YAML checked before any work, by the sections that its kind of model has."""

import re
from collections.abc import Sequence
from copy import deepcopy
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from ..errors import SpecError, explain, require, said
from ..plain_yaml import parse_yaml, read_yaml, require_plain
from ..plugins import load_plugins
from .kinds.registry import DEFAULT, KINDS
from .spec import KernelPipeline, Spec
from .stage import Kind

CHOICE = re.compile(r"int|float|str|(literal|list|tuple|dict)\[.*\]")  # pydantic's names of a value's types
SHOULD = "Input should be "
STAGED = ("labels", "graph", "selection")  # sections that a stage of the same name reads


def load_spec(source: str | Path | dict[str, Any], overrides: tuple[str, ...] | list[str] = (), *,
              data_source: str | None = None) -> Spec:
    """Return the checked spec of a YAML file or a mapping, with `a.b=value` overrides applied.

    data_source : what a spec without `data.source` is given; None, and such a spec is refused.

    Raises
    ------
    SpecError : the file cannot be read or is not YAML, a key is unknown, a value is out of range. The message gives
        the path of each.
    """
    require(isinstance(source, (str, Path, dict)), f"spec={source!r}", error=SpecError,
            why="a pipeline is read from a YAML file, or is a mapping", fix="pass a path or a dict")
    if isinstance(source, dict):
        origin, fields = "the spec", source
    else:
        origin = str(source)
        fields = read_yaml(source, why="the pipeline is read from it", fix="check the path")
    if not isinstance(fields, dict):
        raise SpecError(explain(f"{origin} holds {type(fields).__name__}, expected a mapping",
                                why="a spec has sections: name, data, labels, graph, ...",
                                fix="see pipelines/quickstart.yaml"))
    require_plain(fields, origin)
    fields = _overridden(fields, overrides)
    require_plain(fields, origin)
    if data_source is not None and isinstance(data := fields.get("data", {}), dict):
        fields = {**fields, "data": {"source": data_source, **data}}
    kind = kind_of(fields)
    try:
        spec = kind.spec.model_validate(fields)
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, item['loc'])) or 'spec'}: {_message(item, kind)}"
                 + (f" (given: {item['input']!r})" if item["type"] != "missing" and _short(item["input"]) else "")
                 for item in one_of_each(error.errors())]
        raise SpecError(explain(f"{origin} is not a valid spec:\n" + "\n".join(lines),
                                why="a run starts only from a spec that is understood whole",
                                fix="correct these keys; `dssl schema` prints all keys with their meaning")) from error
    require(spec.data.task in kind.tasks, f"model.kind is {kind.name}, and data.task is {spec.data.task}",
            why=f"that kind of model serves {' and '.join(kind.tasks)}", error=SpecError,
            fix="set model.kind to "
            + " or ".join(other.name for other in KINDS.values() if spec.data.task in other.tasks))
    _require_use(spec, kind)
    return spec.check()


def _require_use(spec: Spec, kind: Kind) -> None:
    """Raise SpecError for a section that no stage of the kind reads, or a baseline that it does not have."""
    unread = [name for name in STAGED if name in spec.model_fields_set - set(kind.names)
              and getattr(spec, name) is not None]
    require(not unread, f"{', '.join(unread)}: model.kind is {kind.name}, which has no stage of that name",
            why="no stage would read it", fix="leave it out", error=SpecError)
    known = [baseline.name for baseline in kind.baselines]
    unknown = [name for name in spec.baselines if name not in known] if isinstance(spec, KernelPipeline) else []
    require(not unknown, f"baselines: {', '.join(unknown)}, and model.kind is {kind.name}", error=SpecError,
            why=f"that kind has {'the baselines ' + ', '.join(known) if known else 'no baselines'}",
            fix="name only these" if known else "leave baselines out")


def changed_settings(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a spec, as a mapping, without the settings that are as they are by default."""
    spec = kind_of(fields).spec.model_validate(fields)
    return {**spec.model_dump(exclude_defaults=True), "model": {
        "kind": fields["model"]["kind"], **spec.model.model_dump(exclude_defaults=True)}}


def kind_of(fields: dict[str, Any]) -> Kind:
    """Return the kind of model that a mapping names; the default where it names none, or none there is."""
    model = fields.get("model")
    name = model.get("kind", DEFAULT) if isinstance(model, dict) else DEFAULT
    if isinstance(name, str) and name not in KINDS:
        load_plugins()
    return KINDS.get(name if isinstance(name, str) else DEFAULT, KINDS[DEFAULT])


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec of any kind of model."""
    load_plugins()
    of_any = reduce(or_, (kind.spec for kind in KINDS.values()))
    return TypeAdapter(of_any).json_schema()


def one_of_each(items: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the items of pydantic's errors, those of the choices of one value as one that names all choices."""
    found: dict[tuple[int | str, ...], dict[str, Any]] = {}
    for item in items:
        place, is_choice = item["loc"], bool(item["loc"]) and CHOICE.fullmatch(str(item["loc"][-1])) is not None
        key = place[:-1] if is_choice and item["msg"].startswith(SHOULD) else place
        if key in found and key != place:
            # The first sentence says what is expected, what follows a comma how it was read.
            expected = [own["msg"].removeprefix(SHOULD).split(", ")[0] for own in (found[key], item)]
            found[key] |= {"loc": key, "msg": SHOULD + " or ".join(expected)}
        else:
            found[key] = dict(item)
    return list(found.values())


def _message(item: Any, kind: Kind) -> str:
    """Return what pydantic says; of a kind of model the names of all, of a key that another kind has, which."""
    place = item["loc"]
    if item["type"] == "literal_error" and place == ("model", "kind"):
        names = [repr(name) for name in KINDS]
        return f"Input should be {', '.join(names[:-1])} or {names[-1]}"
    if item["type"] != "extra_forbidden":
        return said(item)
    if place[:1] == ("selection",) and has_key(kind.spec, ("selection", "grid", *place[1:])):
        return "it is a key of selection.grid: a list of values that are tried"
    theirs = [other.name for other in KINDS.values() if has_key(other.spec, place)]
    if not theirs:
        return item["msg"]
    own = section_at(kind.spec, place[:-1])
    return (f"model.kind is {kind.name}, which has no use for it, leave it out; {' and '.join(theirs)} "
            f"{'have' if len(theirs) > 1 else 'has'} it, {kind.name} has here "
            f"{', '.join(own.model_fields) if own else 'nothing'}")


def section_at(section: type[BaseModel], place: tuple[int | str, ...]) -> type[BaseModel] | None:
    """Return the section at a path of keys below another, None where there is none."""
    for key in place:
        field = section.model_fields.get(str(key))
        found = [] if field is None else [part for part in (field.annotation, *get_args(field.annotation))
                                          if isinstance(part, type) and issubclass(part, BaseModel)]
        if not found:
            return None
        section = found[0]
    return section


def has_key(section: type[BaseModel], place: tuple[int | str, ...]) -> bool:
    """Return whether a spec has a key at this path."""
    above = section_at(section, place[:-1])
    return above is not None and str(place[-1]) in above.model_fields


def _short(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool)) and len(str(value)) < 80


def _overridden(fields: dict[str, Any], overrides: tuple[str, ...] | list[str]) -> dict[str, Any]:
    """Return a copy of the fields with each `a.b=value` set; values are YAML."""
    result = deepcopy(fields)
    for override in overrides:
        require(isinstance(override, str), f"an override {override!r}", why="it is a text key.key=value",
                fix="for example model.eta=100", error=SpecError)
        path, equals, text = override.partition("=")
        keys = path.split(".")
        if not equals or not all(keys):
            raise SpecError(explain(f"--set {override!r} is not of the form key.key=value",
                                    why="it names one value of the spec", fix="for example --set model.eta=100"))
        place = result
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise SpecError(explain(f"--set {override!r}: {key!r} is a value, not a section",
                                        why="only sections hold keys", fix="name a key of a section"))
        place[keys[-1]] = parse_yaml(text, f"--set {override}")
    return result
