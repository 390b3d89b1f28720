"""The kinds of models by name: those of dssl, and those that are registered, by plugins for instance."""

from typing import Any, get_type_hints

from ...base.errors import ParameterError, explain, require
from ...methods.step import Method
from ..load import kind_spec_of
from ..stage import Kind, Stage
from .clustering import KINDS_OF_CLUSTERS
from .methods import KINDS_OF_METHODS
from .methods import kind_of as kind_of_method
from .specs import SPECS, spec_of

_OWN = (*KINDS_OF_METHODS, *KINDS_OF_CLUSTERS)
KINDS: dict[str, Kind] = {name: kind for name in SPECS for kind in _OWN if kind.name == name}


def register_kind(kind: Kind) -> None:
    """Make a kind of model known under its name.

    Raises
    ------
    ParameterError : there is another of that name, a stage needs one that does not come before it, or one that makes
        its parameters of other sections than the spec has.
    """
    require(KINDS.get(kind.name, kind) == kind, f"there is another kind of model named {kind.name!r}",
            why="a spec names its kind", fix="choose another name")
    seen: set[str] = set()
    for stage in kind.stages:
        missing = set(stage.needs) - seen
        if missing or stage.name in seen:
            raise ParameterError(explain(
                f"stage {stage.name} of kind {kind.name} {f'needs {sorted(missing)}' if missing else 'is there twice'}",
                why="stages run in their order", fix="list what a stage needs before it, and each stage once"))
        seen.add(stage.name)
        asked = _spec_of(stage)
        if asked is not None and not issubclass(kind.spec, asked):
            raise ParameterError(explain(
                f"stage {stage.name} of kind {kind.name} makes its parameters of a {asked.__name__}, and the spec is a "
                f"{kind.spec.__name__}", why="it would read sections that no spec of the kind has",
                fix=f"derive {kind.spec.__name__} from {asked.__name__}, or leave the stage out"))
    KINDS[kind.name] = SPECS[kind.name] = kind


def register_method(method: Method) -> None:
    """Make a method known as a kind of model under its name, with the pipeline files that its sections make.

    Raises ParameterError: there is another kind of that name.
    """
    register_kind(kind_of_method(method, spec_of(method)))


def kind_of(fields: dict[str, Any]) -> Kind:
    """Return the kind of model that a mapping names; the default where it names none, or none there is."""
    return KINDS[kind_spec_of(fields).name]


def _spec_of(stage: Stage) -> type | None:
    """Return the class of specs that a stage makes its parameters of; None where it does not say."""
    hints: dict[str, Any] = get_type_hints(getattr(stage.params, "__func__", stage.params))
    asked = next((hint for name, hint in hints.items() if name != "return"), None)
    return asked if isinstance(asked, type) else None


def all_stage_names() -> list[str]:
    """Return the names of the stages of all kinds, each once."""
    return list(dict.fromkeys(name for kind in KINDS.values() for name in kind.names))
