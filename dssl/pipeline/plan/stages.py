"""The stages of a plan: the address of each artifact, and what is there of it."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ...base.digest import plain
from ...base.errors import SpecError, require
from ...methods.step import File
from ...storage.artifacts import Artifact, Workspace
from ..kinds import all_stage_names
from ..spec import Spec
from ..stage import Kind
from .changes import changes_in_words
from .preflight import PlannedStage, Status


def check_stage(name: str, option: str, kind: Kind) -> str:
    """Return the name of a stage of a kind; raise SpecError with the names there are."""
    other = name in all_stage_names()
    require(name in kind.names, error=SpecError,
            what=f"{option} {name!r} is not a stage{f' of model.kind {kind.name}' if other else ''}",
            why=f"a pipeline is made of named stages{', and each kind of model has its own' if other else ''}",
            fix=f"name one of {', '.join(kind.names)}")
    return name


def planned_stages(kind: Kind, spec: Spec, workspace: Workspace, files: Mapping[str, File],
                   remake: Collection[str] = (), done: Collection[str] = (), until: str | None = None,
                   bases: Mapping[str, str] = MappingProxyType({})) -> list[PlannedStage]:
    """Return the stages of a spec with the addresses of their artifacts and what is there of them.

    remake : names of stages that are to be made anew, whatever is there, but for addresses that are `done`.
    bases : by stage, the address of the artifact that it grows from.
    until : the last stage that is run, by default of all. An artifact that was removed as something intermediate counts
        as cached as long as no stage that is run reads it.
    """
    planned: dict[str, PlannedStage] = {}
    removed, made = workspace.removed(), dict[str, tuple[Any, Artifact, str]]()
    for stage in kind.stages:
        params = stage.params(spec)
        inputs = {name: made[name][1].address for name in stage.needs}
        inputs |= {name: files[name].digest for name in stage.files if name in files}
        base = bases.get(stage.name, "") if stage.grows else ""
        inputs |= {"base": base} if base else {}
        made[stage.name] = params, workspace.artifact(stage.name, stage.version, plain(params), inputs), base
    finished_parts = workspace.finished_parts([artifact for _, artifact, _ in made.values()])
    for stage, finished in zip(kind.stages, finished_parts, strict=True):
        params, artifact, base = made[stage.name]
        waiting = [name for name in stage.needs if planned[name].status != "cached"]
        status: Status = "to run"
        if stage.name in remake and artifact.address not in done:
            why = "asked to be made anew"
        elif finished is None:
            status, why = "cached", "same inputs and parameters"
        elif finished:
            status, why = "partial", f"{finished} parts are finished"
        else:
            day = removed.get(f"{stage.name}/{artifact.folder.name}")
            if day:
                why = f"removed by dssl gc on {day}"
            elif waiting:
                why = f"after {', '.join(waiting)}"
            else:
                names = {name: files[name].source.name for name in stage.files if name in files}
                why = changes_in_words(artifact, names) or "not made yet"
        planned[stage.name] = PlannedStage(stage, params, artifact, status, why, base)
    running: dict[str, PlannedStage] = {}
    for item in reversed(list(planned.values())[:kind.names.index(until or kind.names[-1]) + 1]):
        name, artifact = item.stage.name, item.artifact
        if item.status == "cached":
            continue
        read = any(name in later.stage.needs for later in running.values())
        day = removed.get(f"{name}/{artifact.folder.name}")
        if day and artifact.is_known and name not in remake and not read:
            planned[name] = replace(item, status="cached", why=f"removed by dssl gc on {day}; no stage to run reads it")
        else:
            running[name] = item
    return list(planned.values())
