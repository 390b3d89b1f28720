"""Run and plan: walk the table of stages, make what is missing, report what was measured."""

import json
import resource
import shutil
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..data.sources import Source
from ..data.store import write_json
from ..execution import Execution, current_execution
from ..report.page import write_report
from .artifacts import LIBRARIES, Artifact, Workspace
from .islands import write_unreached
from .spec import Spec, load_spec
from .stages import STAGES, Context, Stage, source_of

DEFAULT_WORKSPACE = "dssl-work"
Events = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class PlannedStage:
    """A stage with its artifact: "cached", "partial" (some parts are finished) or "to run", and why."""

    stage: Stage
    artifact: Artifact
    status: str
    why: str


def planned_stages(spec: Spec, workspace: Workspace, source_digest: str) -> list[PlannedStage]:
    """Return the stages of a spec with the addresses of their artifacts and what is there of them."""
    planned: dict[str, PlannedStage] = {}
    for stage in STAGES:
        inputs = {name: planned[name].artifact.address for name in stage.needs}
        if not stage.needs:
            inputs = {"source": source_digest}
        artifact = workspace.artifact(stage.name, stage.version, stage.params(spec), inputs)
        waiting = [name for name in stage.needs if planned[name].status != "cached"]
        if artifact.exists:
            status, why = "cached", "same inputs and parameters"
        elif finished := artifact.finished_parts:
            status, why = "partial", f"{finished} parts are finished"
        else:
            status, why = "to run", f"after {', '.join(waiting)}" if waiting else "not made yet"
        planned[stage.name] = PlannedStage(stage, artifact, status, why)
    return list(planned.values())


def plan(spec: str | Path | dict[str, Any], *, set: Iterable[str] = (),
         workspace: str | Path = DEFAULT_WORKSPACE) -> list[dict[str, Any]]:
    """Return what a run would do: per stage its name, "cached", "partial" or "to run", why, and its address."""
    checked = load_spec(spec, tuple(set))
    _, source_digest = source_of(checked)
    return [{"name": item.stage.name, "status": item.status, "why": item.why, "address": item.artifact.address}
            for item in planned_stages(checked, Workspace.at(workspace), source_digest)]


def run(spec: str | Path | dict[str, Any], *, set: Iterable[str] = (), workspace: str | Path = DEFAULT_WORKSPACE,
        execution: Execution | None = None, memory_budget: int | None = None, fresh: bool = False,
        events: Events | None = None) -> dict[str, Any]:
    """Run a pipeline and return its result: metrics, baselines, what each stage took, and the report's path.

    Parameters
    ----------
    spec : a YAML file or a mapping. set : overrides "key.key=value".
    workspace : folder of artifacts and runs; every worker must be able to open it.
    execution : where tasks run; the active Dask client by default, or threads of this process.
    memory_budget : bytes one task may take. fresh : make every artifact anew.
    events : called with {"event": "stage" | "progress", ...} as the run goes on.

    Raises
    ------
    SpecError, DataError : before any stage runs where the answer is known. IntegrityError : a stored array is
        damaged or missing. LockedError : another run holds the workspace.
    """
    checked = load_spec(spec, tuple(set))
    source, source_digest = source_of(checked)
    place = Workspace.at(workspace)
    tell = events or (lambda event: None)
    with place.lock():
        execution = execution or current_execution(memory_budget)
        scratch = place.root / "scratch"  # the lock is ours: what is there was left by a run that was killed
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        execution.scratch_folder = str(scratch)
        items = planned_stages(checked, place, source_digest)
        if fresh:
            for item in items:
                item.artifact.remove()
            items = planned_stages(checked, place, source_digest)
        identity = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:6]}"
        folder = place.root / "runs" / identity
        # Paths as well as addresses: a run's record is read by people.
        write_json(folder / "spec.json", checked.model_dump())
        records = [_run_stage(item, items, checked, source, execution, tell) for item in items]
        result = _result(identity, checked, items, records)
        result["unreached"] = write_unreached(folder, next(i.artifact for i in items if i.stage.name == "health"))
        libraries = {name: version(name) for name in LIBRARIES}
        facts = {**_facts(items), "spec": checked.model_dump(), "libraries": libraries}
        result["report"] = str(write_report(folder / "report.html", result, facts))
        write_json(folder / "result.json", result)
        return result


def _run_stage(item: PlannedStage, items: list[PlannedStage], spec: Spec, source: Source, execution: Execution,
               tell: Events) -> dict[str, Any]:
    """Make one artifact unless it exists; return the record of it."""
    name, artifact = item.stage.name, item.artifact
    begin = time.perf_counter()
    tell({"event": "stage", "stage": name, "status": item.status})
    peak = 0
    if not artifact.exists:
        artifact.begin({"memory_budget": execution.memory_budget})
        inputs = {other.stage.name: other.artifact for other in items if other.stage.name in item.stage.needs}

        def progress(done: int, of: int) -> None:
            tell({"event": "progress", "stage": name, "done": done, "of": of})

        attributes = item.stage.run(Context(spec, source, inputs, artifact.parts, execution, progress))
        receipts = [json.loads(path.read_text()) for path in artifact.folder.glob("**/receipts/*.json")]
        peak = max((receipt["peak_rss_bytes"] for receipt in receipts), default=0)
        artifact.publish(attributes)
    status = "cached" if item.status == "cached" else "done"
    seconds = round(time.perf_counter() - begin, 3)
    tell({"event": "stage", "stage": name, "status": status, "seconds": seconds})
    return {"name": name, "status": status, "seconds": seconds, "address": artifact.address, "peak_rss_bytes": peak}


def _facts(items: list[PlannedStage]) -> dict[str, Any]:
    """Return the attributes of every stage by name."""
    return {item.stage.name: item.artifact.attributes for item in items}


def _result(identity: str, spec: Spec, items: list[PlannedStage], records: list[dict[str, Any]]) -> dict[str, Any]:
    facts = _facts(items)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "run": identity, "name": spec.name, "status": "done", "metrics": facts["scores"]["metrics"],
        "baselines": facts["scores"]["baselines"], "gain": facts["scores"]["gain"],
        "selection": facts["selection"]["choices"],
        "stages": records, "peak_rss_bytes": max(own, *(record["peak_rss_bytes"] for record in records)),
        "model": str(next(item.artifact.folder for item in items if item.stage.name == "models")),
    }
