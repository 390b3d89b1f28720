"""Dataclasses from mappings, by pydantic: all that is wrong with a mapping at once, and the JSON Schema of the rest."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from inspect import cleandoc
from typing import Any, ClassVar, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from ..base.errors import DsslError, SpecError, explain, said
from ..data.ingest_params import IngestParams

UNKNOWN = "unexpected_keyword_argument"  # the type of an item about a key that there is not
FORBID = {"extra": "forbid"}  # keys that a section, or one within it, does not have
Item = dict[str, Any]  # what is wrong with a value: loc, type, msg and input, as pydantic names them


@cache
def adapter_of(cls: type) -> TypeAdapter[Any]:
    """Return what makes instances of a dataclass from mappings."""
    return TypeAdapter(cls)


@cache
def types_of(cls: type) -> dict[str, Any]:
    """Return the types of the fields of a section, by name."""
    hints = get_type_hints(cls)
    return {item.name: hints[item.name] for item in fields(cls)}


def section_of(annotation: object) -> type | None:
    """Return the section that a field holds, None where it is a value."""
    return next((part for part in (annotation, *get_args(annotation)) if isinstance(part, type) and
                 is_dataclass(part)), None)


def validated(cls: type, given: Mapping[str, Any]) -> tuple[Any, list[Item]]:
    """Return the instance that a mapping says, and all that is wrong with it; None where something it needs is.

    What is refused is left out and the rest is checked again, so that all mistakes are named at once: those of keys and
    types, and those of values that a section refuses.
    """
    items = boolean_items(cls, given)
    refused = [item["loc"] for item in items]
    left = without(given, refused)
    while True:
        try:
            return adapter_of(cls).validate_python(left), items
        except ValidationError as error:
            new = [{**item, "section": item["loc"], "loc": place_of(item)} for item in of_their_kind(
                cls, left, error.errors())]
        known = {(item["loc"], item["msg"]) for item in items}
        items += [item for item in new if (item["loc"], item["msg"]) not in known
                  and not (item["type"] == "missing" and any(key[:len(item["loc"])] == item["loc"] for key in refused))
                  and not _is_of_the_rest(item, refused)]
        wrong = [item["loc"] for item in new if item["type"] != "missing" and item["loc"] not in ((), *refused)]
        if not wrong:
            return None, items
        left = without(left, wrong)
        refused += wrong


def _is_of_the_rest(item: Item, refused: Sequence[tuple[int | str, ...]]) -> bool:
    """Return whether a section is refused as a whole after a key of it was: perhaps only since that is left out."""
    place = item["loc"]
    return bool(place) and item["type"] == "value_error" and any(
        len(key) > len(place) and key[:len(place)] == place for key in refused)


def of_their_kind(cls: type, given: object, items: Sequence[Any]) -> list[Item]:
    """Return pydantic's errors without the names of sections in their paths, where a key takes a value or a section.

    Of a mapping those about values are left out, and of any other value those about the section.
    """
    kept: list[Item] = []
    for item in items:
        section: type | None = cls
        value, path, fits = given, list[int | str](), True
        for part in item["loc"]:
            if section is not None and part == section.__name__:
                fits = isinstance(value, Mapping)
                continue
            fits = fits and not (isinstance(value, Mapping) and path and section is not None
                                 and str(part) not in types_of(section) and part not in value)
            path.append(part)
            section = section_of(types_of(section).get(str(part))) if section is not None else None
            value = value.get(part) if isinstance(value, Mapping) else value
        if fits:
            kept.append({**item, "loc": tuple(path)})
    return kept


def place_of(item: Mapping[str, Any]) -> tuple[int | str, ...]:
    """Return the path of the key that an item of pydantic's errors is about; an error of a section names it first."""
    error = item.get("ctx", {}).get("error")
    return key_of(item["loc"], error) if isinstance(error, DsslError) else item["loc"]


def key_of(section: tuple[int | str, ...], error: DsslError) -> tuple[int | str, ...]:
    """Return the path of the key that an error of a section begins with, `key=`; a SpecError begins with the path."""
    named = re.match(r"([\w.]+)[=:]", str(error))
    if isinstance(error, SpecError):
        path = tuple(named[1].split(".")) if named else section
        return path if path[:len(section)] == section else section
    return (*section, named[1]) if named and named[0].endswith("=") else section


def without(given: Mapping[Any, Any], places: Iterable[tuple[int | str, ...]]) -> Mapping[Any, Any]:
    """Return a mapping without what is at some paths, or at as much of a path as there is."""
    for place in {known_part(given, place) for place in places}:
        given = _without(given, place)
    return given


def known_part(given: object, place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return as much of a path as a mapping has."""
    if place and isinstance(given, Mapping) and place[0] in given:
        return (place[0], *known_part(given[place[0]], place[1:]))
    return ()


def _without(given: Mapping[Any, Any], place: tuple[int | str, ...]) -> Mapping[Any, Any]:
    if not place or place[0] not in given:
        return given
    if len(place) > 1:
        return {**given, place[0]: _without(given[place[0]], place[1:])}
    return {key: value for key, value in given.items() if key != place[0]}


def boolean_items(cls: type, given: Mapping[str, Any], above: tuple[str, ...] = ()) -> list[Item]:
    """Return the booleans where a section means a number: pydantic would take them as 0 or 1."""
    items: list[Item] = []
    for name, annotation in types_of(cls).items():
        value, section = given.get(name), section_of(annotation)
        if section is not None and isinstance(value, Mapping):
            items += boolean_items(section, value, (*above, name))
            continue
        wrong = _first_boolean(value)
        if wrong is not None and annotation is not section and not _takes_booleans(annotation):
            items.append({"loc": (*above, name), "type": "value_error", "input": value, "msg":
                          f"Input should be no boolean; write {int(wrong)} if a number is meant, "
                          f'"{str(wrong).lower()}" if a text'})
    return items


def _takes_booleans(annotation: object) -> bool:
    """Return whether a boolean, or anything, is among the values of a type."""
    return annotation in (bool, Any) or isinstance(annotation, bool) or any(map(_takes_booleans, get_args(annotation)))


def _first_boolean(value: object) -> bool | None:
    """Return a boolean that a value is or holds, None where there is none."""
    if isinstance(value, bool):
        return value
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return next((wrong for part in parts if (wrong := _first_boolean(part)) is not None), None)


@dataclass(frozen=True, kw_only=True)
class ReadSection:
    """The options of a reader alone."""

    __pydantic_config__: ClassVar[dict[str, str]] = FORBID

    read: IngestParams


def ingest_params(options: Mapping[str, Any], where: str) -> IngestParams:
    """Return the reader's parameters of a mapping; raise SpecError with the names of those that are wrong."""
    checked, items = validated(ReadSection, {"read": options})
    if not items:
        params: IngestParams = checked.read
        return params
    names = types_of(IngestParams)
    unknown = [str(item["loc"][1]) for item in items if item["type"] == UNKNOWN]
    mistakes = "; ".join(f"{'.'.join(map(str, item['loc'][1:])) or 'options'}: "
                         f"{'no such option' if item['type'] == UNKNOWN else said(item)}" for item in items)
    near = [name for key in unknown for name in get_close_matches(key, names, 1)]
    raise SpecError(explain(f"{where}: {mistakes}" + (f"; did you mean {', '.join(near)}?" if near else ""),
                            why="the reader has other options", fix=f"the options are {', '.join(sorted(names))}"
                            if unknown else "see the options in IngestParams"))


def schema_of(specs: Mapping[str, type]) -> dict[str, Any]:
    """Return the JSON Schema of any of some specs, by the kind of model of each."""
    schemas, definitions = TypeAdapter.json_schemas(
        [(name, "validation", adapter_of(spec)) for name, spec in specs.items()], schema_generator=DescribedSchema)
    return {"anyOf": list(schemas.values()), **definitions}


class DescribedSchema(GenerateJsonSchema):
    """A JSON Schema whose keys are described as in the docstrings of the dataclasses."""

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        made: dict[str, Any] = super().dataclass_schema(schema)
        descriptions = descriptions_of(schema["cls"])
        made["description"] = (schema["cls"].__doc__ or "").split("\n\n")[0]
        for name, described in made.get("properties", {}).items():
            if name in descriptions:
                described["description"] = descriptions[name]
        return made


def descriptions_of(cls: type) -> dict[str, str]:
    """Return what the docstrings of a dataclass and of those it derives from say of each parameter, by its name."""
    described: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        names: list[str] = []
        for line in cleandoc(base.__doc__ or "").partition("Parameters\n")[2].splitlines():
            if head := re.match(r"(\w+(?:, \w+)*) : (.*)", line):
                names = head[1].split(", ")
                described |= dict.fromkeys(names, "")
            elif names and line.startswith("    "):
                described |= {name: f"{described[name]} {line.strip()}".strip() for name in names}
            elif not line.strip() and names:
                break
    return described
