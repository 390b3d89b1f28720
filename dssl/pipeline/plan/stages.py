"""The stages of a plan: the address of each artifact, what is there of it, why a stage runs again, and the table."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...base.digest import plain
from ...base.errors import IntegrityError, SpecError, require
from ...base.units import size_text, time_text
from ...methods.step import File
from ...storage.artifacts import Artifact, Workspace
from ...storage.manifests import PUBLISHED, Manifest, read_manifest
from ...storage.objects import ObjectPath
from ..kinds import all_stage_names
from ..spec import Spec
from ..stage import Kind
from .preflight import PlannedStage, Status

N_COMPARED = 20  # the newest artifacts of the stage
MAX_CHANGES = 3  # with more of them, the other artifact is not an earlier one of the same work
SIGNS = {"upper": "< ", "lower": "> ", "guess": "~ "}  # before a figure that is not known yet


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


def changes_in_words(artifact: Artifact, files: Mapping[str, str]) -> str:
    """Return what differs from the most similar artifact of the stage, such as "power: 2 -> 3"; "" if none is similar.

    files : the names of the files among its inputs, by input. An earlier artifact knows only the digests of its own.

    Only a folder is searched: in an object store each manifest would take a request.
    """
    if isinstance(artifact.root, ObjectPath):
        return ""
    every = (_changes(artifact, earlier, files) for earlier in _newest(artifact.folder.parent))
    changes = min(every, key=len, default=[])
    return ", ".join(changes) if len(changes) <= MAX_CHANGES else ""


def _newest(folder: Path) -> Iterator[Manifest]:
    """Yield the manifests of the newest artifacts in the folder of a stage.

    One that another process removes meanwhile, or that is damaged, is left out: no run reads it, and `dssl verify`
    reports it.
    """
    times = dict[Path, int]()
    for path in folder.glob(f"*/{PUBLISHED}"):
        with suppress(FileNotFoundError):
            times[path] = path.stat().st_mtime_ns
    for path in sorted(times, key=lambda path: times[path], reverse=True)[:N_COMPARED]:
        with suppress(FileNotFoundError, IntegrityError):
            yield read_manifest(path)


def _changes(artifact: Artifact, earlier: Manifest, files: Mapping[str, str]) -> list[str]:
    """Return a phrase for each version, parameter or input that differs."""
    before, after = dict(_leaves(earlier["params"])), dict(_leaves(artifact.params))
    names = [name for name in before | after if before.get(name) != after.get(name)]
    inputs = [name for name in earlier["inputs"] | artifact.inputs
              if earlier["inputs"].get(name) != artifact.inputs.get(name)]
    versions = [earlier["version"], artifact.version]
    return [*([f"version of the stage: {versions[0]} -> {versions[1]}"] if versions[0] != versions[1] else []),
            *(f"{name}: {_text(before.get(name))} -> {_text(after.get(name))}" for name in names),
            *(f"the contents of {files[name]} are new" if name in files else f"another {name}" for name in inputs)]


def _leaves(params: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted name and the value of each parameter."""
    if isinstance(params, Mapping) and params:
        for key, value in params.items():
            yield from _leaves(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, params


def _text(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 20 else f"{text[:17]}..."


def table_of(stages: Sequence[Mapping[str, Any]], total: Mapping[str, Any], workers: int,
             in_store: bool) -> tuple[list[str], list[list[str]]]:
    """Return the head of the table and its rows, the last one of the figures that add up.

    stages, total : as `Plan.records` and `Plan.total` return them. in_store : whether requests are counted.
    """
    is_parallel = workers > 1
    rows = [_row_of(stage, is_parallel, in_store) for stage in stages]
    if total["tasks"]:
        sizes = [size_text(total[name]) for name in ("read_bytes", "written_bytes", "peak_bytes")]
        rows.append(["in all", "", "", str(total["tasks"]), *[_count_text(total["requests"])] * in_store, *sizes,
                     time_text(total["core_seconds"]), *[time_text(total["wall_seconds"])] * is_parallel, ""])
    head = ["stage", "status", "why", "tasks", *["requests"] * in_store, "read", "written", "peak memory", "one core",
            *[f"{workers} workers"] * is_parallel, "address"]
    return head, rows


def _row_of(stage: Mapping[str, Any], is_parallel: bool, in_store: bool) -> list[str]:
    sizes = [stage[name] for name in ("read_bytes", "written_bytes", "peak_bytes")]
    seconds = [stage["core_seconds"], *[stage["wall_seconds"]] * is_parallel]
    if stage["status"] == "cached":
        figures = [""] * (len(sizes) + len(seconds))
    else:
        sign = SIGNS[stage["bound"]] if stage["estimated"] else ""
        figures = ["?" if size is None else f"{sign * bool(size)}{size_text(size)}" for size in sizes]
        figures += ["?" if time is None else time_text(time) for time in seconds]
    name = f"{stage['name']} ({stage['graph']})" if "graph" in stage else stage["name"]
    return [name, stage["status"], "refused" if stage["refused"] else stage["why"], str(stage["tasks"] or ""),
            *[_count_text(stage["requests"])] * in_store, *figures, stage["address"][:12]]


def _count_text(count: int | None) -> str:
    if count is None:
        return "?"
    return f"{count:,}" if count else ""
