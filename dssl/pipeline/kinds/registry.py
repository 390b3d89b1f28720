"""The kinds of models by name: those of dssl, and those that are registered, by plugins for instance."""

from ...errors import ParameterError, explain, require
from ..stage import Kind
from . import deformed, laprls, lapsvm

KINDS: dict[str, Kind] = {kind.name: kind for kind in (
    deformed.SVM, deformed.RIDGE, laprls.LAPRLS, lapsvm.LAPSVM)}
DEFAULT = "svm"


def register_kind(kind: Kind) -> None:
    """Make a kind of model known under its name.

    Raises
    ------
    ParameterError : there is another of that name, or a stage needs one that does not come before it.
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
    KINDS[kind.name] = kind


def all_stage_names() -> list[str]:
    """Return the names of the stages of all kinds, each once."""
    return list(dict.fromkeys(name for kind in KINDS.values() for name in kind.names))
