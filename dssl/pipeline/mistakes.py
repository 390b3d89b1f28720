"""What is wrong with a pipeline file, all of it at once: each with the path of its key, and what was meant."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import Any

from ..base.errors import DsslError, SpecError, said, sentences
from ..base.yaml import NO_SPACE
from .spec import Spec
from .validation import UNKNOWN, key_of, section_of, types_of

Place = tuple[str, ...]
CHOICE = re.compile(r"int|float|str|(literal|list|tuple|dict)\[.*\]")  # pydantic's names of a value's types
NESTED = re.compile(r"(list|tuple|dict)\[.*\]")
SHOULD = "Input should be "
NEAR_KIND = 0.6  # how alike a misspelt kind is to the one that is meant
SEVERAL: dict[Place, str] = {  # of keys with one value, where several are meant
    ("data", "read", "target"): "it names one column of labels; for several labels a point name their columns in "
                                "data.tags: {columns: [a, b]}, or the one that lists them in data.tags: {column: tags, "
                                "separator: ';'}",
    ("data", "unlabeled"): "it is one marker of rows without a label; several texts of a table that mark empty cells "
                           "are data.read.missing: [a, b]"}
NEEDED: dict[Place, str] = {("labels",): "which labels are learned from; write labels: {given: true} for all of them"}
MAX_PLACES = 4  # where a key may belong that a message names
OTHER_KEYS = {  # that people use for a key, and that are not written almost like it
    "seed": "random_state", "count": "n_landmarks", "size": "n_landmarks", "n_subsample": "n_landmarks",
    "n_carriers": "n_landmarks", "landmarks": "n_landmarks", "starts": "n_init", "most": "max_clusters",
    "features": "n_features", "cross_validation": "held_out", "measure": "scoring", "samples": "n_candidates",
    "folds": "cv", "tolerance": "tol", "max_iterations": "max_iter"}


@dataclass(frozen=True)
class Mistake:
    """What is wrong at the path of a key, which `says` names."""

    place: Place
    says: str


def all_mistakes(items: Sequence[Mapping[str, Any]], kind: str, specs: Mapping[str, type[Spec]]) -> list[Mistake]:
    """Return the errors of pydantic as mistakes, those of the choices of one value as one that names all choices.

    kind : the kind of model whose spec was asked for. specs : the spec of each kind. Where there is no such kind, keys
    that some kind has are not mistakes.
    """
    mistakes, known = [], not any(item["loc"] == ("model", "kind") for item in items)
    for item in one_of_each(items):
        place = tuple(map(str, item["loc"]))
        if not known and item["type"] == UNKNOWN and any(has_key(spec, place) for spec in specs.values()):
            continue
        value = item["input"]
        is_short = isinstance(value, (str, int, float)) and len(str(value)) < 80
        given = f" (given: {value!r})" if item["type"] not in ("missing", "value_error", UNKNOWN) and is_short else ""
        if isinstance(error := item.get("ctx", {}).get("error"), DsslError):
            mistakes.append(mistake_of_section(".".join(map(str, item["section"])), error))
            continue
        near = near_keys(str(item["input"]), specs, NEAR_KIND) if place == ("model", "kind") else []
        meant = f"; did you mean {near[0]}?" if near else ""
        message = _message(item, place, kind, specs)
        colon = "" if item["type"] == "missing" else ":"
        mistakes.append(Mistake(place, f"{'.'.join(place) or 'spec'}{colon} {message}{given}{meant}"))
    return mistakes


def mistake_of_section(section: str, error: DsslError) -> Mistake:
    """Return what is wrong with the values of a section; a SpecError names its keys itself."""
    what, why, fix = sentences(str(error))
    path = tuple(section.split(".")) if section else ()
    place = tuple(map(str, key_of(path, error)))
    named = isinstance(error, SpecError) or not path
    before = "" if named else f"{section}." if place != path else f"{section}: "
    return Mistake(place, f"{before}{what}" + (f" ({why}; {fix})" if why else ""))


def one_of_each(items: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the items of pydantic's errors, those of the choices of one value as one that names all choices.

    Of a value with a mistake within it, such as an entry of a list, only these are returned.
    """
    merged: dict[tuple[int | str, ...], dict[str, Any]] = {}
    places = [_without_choices(item["loc"]) for item in items]
    keys = [place[:-1] if _is_choice(place, item["msg"]) else place for place, item in zip(places, items, strict=True)]
    for item, place, key in zip(items, places, keys, strict=True):
        if key != place and any(other[:len(key)] == key and len(other) > len(key) for other in keys):
            continue
        if key in merged and key != place:
            # The first sentence says what is expected, what follows a comma how it was read.
            expected = [choice["msg"].removeprefix(SHOULD).split(", ")[0] for choice in (merged[key], item)]
            merged[key] |= {"loc": key, "msg": SHOULD + " or ".join(expected)}
        else:
            merged[key] = {**item, "loc": key}
    return list(merged.values())


def _is_choice(place: tuple[int | str, ...], message: str) -> bool:
    """Return whether the last part of a path is pydantic's name of one of the types that a value may have."""
    return bool(place) and CHOICE.fullmatch(str(place[-1])) is not None and message.startswith(SHOULD)


def _without_choices(place: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return a path without pydantic's names of the types of values that have others within."""
    return tuple(part for part in place[:-1] if NESTED.fullmatch(str(part)) is None) + place[-1:]


def _message(item: Mapping[str, Any], place: Place, kind: str, specs: Mapping[str, type[Spec]]) -> str:
    """Return what pydantic says; of a kind of model the names of all, of a key that is none here where it belongs."""
    if item["type"] == "literal_error" and place == ("model", "kind"):
        names = [repr(name) for name in specs]
        empty = ", and it is empty" if item["input"] is None else ""
        return f"Input should be {', '.join(names[:-1])} or {names[-1]}{empty}"
    if item["type"] == "string_type" and isinstance(item["input"], (int, float, date)):
        given = item["input"]
        read = "a date" if isinstance(given, date) else "true or false" if isinstance(given, bool) else "a number"
        return f"YAML reads {item['input']} as {read}; if a text is meant, put it into quotes"
    if place in SEVERAL and isinstance(item["input"], (list, tuple)):
        return SEVERAL[place]
    if item["type"] == "tuple_type":
        return "expected a list, such as [a, b]"
    if item["type"] == "dict_type":
        return "expected keys and their values, such as {a: b}"
    if item["type"] == "missing":
        return "is missing" + (f" ({NEEDED[place]})" if place in NEEDED else "")
    if item["type"] == "dataclass_type":
        way = "" if place == ("data",) or place in NEEDED else "leave it out, or "
        return (f"the section is empty: {way}indent its keys below it" if item["input"] is None else
                "expected a section: keys and their values, indented below it")
    return where_it_belongs(place, kind, specs) if item["type"] == UNKNOWN else said(item)


def where_it_belongs(place: Place, kind: str, specs: Mapping[str, type[Spec]]) -> str:
    """Return, of a key that a spec does not have at this place, which keys are near, or where it belongs."""
    sections = specs[kind]
    if place[:1] == ("selection",) and has_key(sections, ("selection", "grid", *place[1:])):
        return "it is a key of selection.grid: a list of values that are tried"
    other = OTHER_KEYS.get(place[-1])
    if other is not None and has_key(sections, (*place[:-1], other)):
        return f"there is no such key here; did you mean {'.'.join((*place[:-1], other))}?"
    theirs, above = [name for name, spec in specs.items() if has_key(spec, place)], place[:-1]
    below = [path for path in _paths(sections) if path[-1] == place[-1] and path[:len(above)] == above]
    if theirs and above and below:
        return f"there is no such key here; did you mean {' or '.join('.'.join(path) for path in below)}?"
    if theirs:
        here = section_at(sections, above)
        return (f"model.kind is {kind}, which has no use for it, leave it out; {' and '.join(theirs)} "
                f"{'have' if len(theirs) > 1 else 'has'} it, {kind} has here "
                f"{', '.join(types_of(here)) if here else 'nothing'}")
    key, here_keys = place[-1], keys_at(sections, place[:-1])
    every = list(_paths(sections))
    same = [path for path in every if _plain(path[-1]) == _plain(key)]
    for paths in ([path for path in same if path[:-1] == place[:-1]],
                  [(*place[:-1], near) for near in near_keys(key, here_keys, 0.9)] if here_keys else [], same,
                  [(*place[:-1], near) for near in near_keys(key, here_keys, 0.7)],
                  [path for path in every if path[-1] in near_keys(key, {path[-1] for path in every}, 0.8)]):
        if paths:
            named = sorted(paths, key=len)[:MAX_PLACES]
            named = [path for path in named if path[:2] != ("selection", "grid")] or named
            return f"there is no such key here; did you mean {' or '.join('.'.join(path) for path in named)}?"
    others = [(name, path) for name, spec in specs.items() for path in _paths(spec) if _plain(path[-1]) == _plain(key)]
    if others:
        kinds = [name for name, path in others if path == others[0][1]]
        return (f"there is no such key here; it is {'.'.join(others[0][1])}, where model.kind is "
                f"{' or '.join(kinds)}")
    return "there is no such key; " + (f"here may be {', '.join(here_keys)}" if here_keys else "here is no section")


def _plain(key: str) -> str:
    return key.lower().replace("-", "").replace("_", "").replace(" ", "")


def near_keys(key: str, keys: Iterable[str], cutoff: float) -> list[str]:
    """Return the key that is written almost like one; none where no key is."""
    by_plain = {_plain(one): one for one in keys}
    return [by_plain[one] for one in get_close_matches(_plain(key), by_plain, 1, cutoff)]


def _paths(section: type, above: Place = ()) -> Iterator[Place]:
    """Yield the path of every key of a spec."""
    for key, annotation in types_of(section).items():
        yield (*above, key)
        inner = section_of(annotation)
        if inner is not None:
            yield from _paths(inner, (*above, key))


def keys_at(section: type, place: Place) -> list[str]:
    """Return the keys that a spec may have in the section at a path."""
    inner = section_at(section, place)
    return list(types_of(inner)) if inner else []


def section_at(section: type, place: Sequence[int | str]) -> type | None:
    """Return the section at a path of keys below another, None where there is none."""
    inner: type | None = section
    for key in place:
        inner = section_of(types_of(inner).get(str(key))) if inner is not None else None
    return inner


def has_key(section: type, place: Sequence[int | str]) -> bool:
    """Return whether a spec has a key at this path."""
    return str(place[-1]) in keys_at(section, tuple(map(str, place[:-1])))


# ---- what YAML reads otherwise than it was meant


@dataclass(frozen=True)
class Repaired:
    """A mapping as it was meant, what had to be mended for it, and where keys have moved from, by their paths."""

    fields: dict[str, Any]
    mistakes: list[Mistake]
    moved: dict[Place, Place]


def repaired(fields: dict[str, Any], spec: type, lines: Mapping[Place, int]) -> Repaired:
    """Return a mapping with keys that are not indented in their section, and a space behind each colon."""
    repair = Repaired({}, [], {})
    repair.fields.update(_repaired(fields, spec, (), lines, repair))
    return repair


def _repaired(fields: dict[str, Any], section: type, place: Place, lines: Mapping[Place, int],
              repair: Repaired) -> dict[str, Any]:
    result: dict[str, Any] = {}
    into: str | None = None  # the empty section that the keys after it belong to
    for key, value in fields.items():
        inner, path = section_at(section, (str(key),)), (*place, str(key))
        empty = keys_at(section, (into,)) if into is not None else []
        if into is not None and str(key) in empty and str(key) not in types_of(section):
            if result[into] is None:
                result[into] = {}
                moved = [(str(other), lines.get((*place, str(other)))) for other in fields if str(other) in empty
                        and str(other) not in types_of(section)]
                named = ", ".join(name + (f" (line {line})" if line else "") for name, line in moved)
                repair.mistakes.append(Mistake((*place, into), f"{'.'.join((*place, into))}: the section is empty, and "
                                              f"{named} below it {'begin' if len(moved) > 1 else 'begins'} in its "
                                              "column: indent by two spaces what belongs to the section"))
            result[into][key] = value
            repair.moved[(*place, into, str(key))] = path
            continue
        into = str(key) if value is None and inner is not None else None
        if value is None and (joined := NO_SPACE.fullmatch(str(key))) and joined[1] in types_of(section):
            repair.mistakes.append(Mistake(path, _no_space([str(key)], place)))
            key, value = joined[1], joined[2]
            repair.moved[(*place, key)] = path
        elif isinstance(value, str) and inner is not None and (pieces := _joined(value, inner)):
            repair.mistakes.append(Mistake(path, _no_space(value.split(), path)))
            value = pieces
        elif isinstance(value, dict) and inner is not None:
            value = _repaired(value, inner, path, lines, repair)
        result[key] = value
    return result


def _joined(text: str, section: type) -> dict[str, Any] | None:
    """Return the keys and values of a text such as `count:5 random_state:1`, None of any other."""
    pieces = [NO_SPACE.fullmatch(piece) for piece in text.split()]
    if not pieces or not all(piece is not None and piece[1] in types_of(section) for piece in pieces):
        return None
    return {piece[1]: piece[2] for piece in pieces if piece is not None}


def _no_space(pieces: Sequence[str], place: Place) -> str:
    """Return what is wrong with keys whose values stand right behind the colon."""
    meant = ", ".join(f"{key}: {value}" for key, _, value in (piece.partition(":") for piece in pieces))
    return f"{'.'.join(place) or 'spec'}: {' '.join(pieces)!r} has no space after the colon: write {meant}"
