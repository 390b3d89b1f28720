"""Run: walk the table of stages, make what is missing, report what was measured beside what was predicted."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ..base.errors import ParameterError, require
from ..base.profiler import process_peak, return_freed_memory
from ..data.findings import unread_columns
from ..data.source_files import FileRecord
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..execution.worker_kinds import unlike_notes
from ..report.page import leading_and_following, page
from ..report.record import Attributes, Result, RunRecord, all_labeled, redrawn_by
from ..report.sections.answer import in_order, never_note
from ..report.sections.quality import quality_section, tags_of_run
from ..report.sections.ran import files_section, spec_section, stages_section
from ..report.sections.scores import curve_section, reliability_section
from ..report.text import at
from ..report.verdict import Verdict
from ..selection.by_labels import corrected_for_selection
from ..selection.candidates import CandidateScores
from ..selection.held_out_scores import SCORED
from ..storage.array_files import begin_anew
from ..storage.files import remove_tree, write_file, write_json
from ..storage.manifests import libraries
from ..storage.objects import ObjectPath
from .contents import note_made, remove_intermediate, with_disk_bytes
from .dataset import changed_rows, repeated_names
from .graphs import write_unreachable
from .growth import CannotGrow, LastRun
from .plan.plan import DEFAULT_WORKSPACE, SELECTION, Plan, plan, tried_graphs
from .plan.preflight import Room, refuse_what_cannot_fit
from .plan.worker_budget import budget_for, lowered_note
from .predict.stage import write_predictions
from .progress import Events, in_notebook
from .records import PATHS, RESULT, StageRun, new_run_id, write_stages
from .result import RunResult
from .stage import Kind
from .stage_runs import Estimates, run_stages
from .status import Status

Keep = Literal["all", "results"]


def run(spec: str | Path | dict[str, Any] | Plan, *, set: Iterable[str] = (),
        workspace: str | Path = DEFAULT_WORKSPACE, execution: Execution | None = None,
        memory_budget: int | None = None, fresh: bool = False, from_stage: str | None = None, until: str | None = None,
        events: Events | None = None, wait: float = 0.0, keep: Keep = "all",
        run_id: str | None = None) -> RunResult:
    """Run a pipeline and return its result.

    Parameters
    ----------
    spec : str, Path, dict or Plan
        A YAML file, a mapping, or what `plan` returned, which then holds all but the
        execution and the events.
    set : iterable of str
        Overrides of the spec, each a text "key.key=value".
    workspace : str or Path
        The folder of artifacts and runs; every worker must be able to open it.
    execution : Execution or None
        Where the tasks run; None is the active Dask client, or threads of this process.
    memory_budget : int or None
        The bytes that one task may take; None is what the spec says, or else what the
        execution has.
    fresh : bool
        Whether every artifact is made anew.
    from_stage : str or None
        This stage and all that depend on it are made anew; not with `fresh`.
    until : str or None
        The run stops after this stage. The result then has the status "stopped", and
        neither metrics nor a report.
    events : callable or None
        It is called with {"event": "run" | "stage" | "progress" | "heartbeat", ...} as
        the run goes on; see `status.Status`. Without it a notebook shows where the run
        is, and nothing does elsewhere.
    wait : float
        The seconds for which another run in the workspace is waited for; inf is as long
        as it takes.
    keep : "all" or "results"
        "results" removes the intermediate artifacts once the run is done, as
        `dssl gc --intermediate` does.
    run_id : str or None
        The name of the run's folder; None is the time and a random number.

    Returns
    -------
    RunResult
        The metrics, the baselines, what each stage took, the model and the report.

    Raises
    ------
    SpecError
        The spec is not valid; before any stage runs.
    DataError
        The source cannot be used; before any stage runs where the answer is known.
    BudgetError
        A stage cannot fit the memory; before any stage runs.
    IntegrityError
        A stored array is damaged or missing.
    LockedError
        Another run holds the workspace, or has taken it over.
    ClusterError
        The cluster is lost, or no worker runs.
    ParameterError
        An argument is none of the above.

    Examples
    --------
    Four labels of each class, and a fifth of the points to test with:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import run
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> np.savez("moons.npz", X=X, y=classes)
    >>> spec = {"name": "moons", "data": {"source": "moons.npz"},
    ...         "labels": {"per_class": 4}, "model": {"kind": "graph"}}
    >>> result = run(spec)
    >>> result.status
    'done'
    >>> result.predict(X[:4]), classes[:4]
    (array([0, 1, 1, 0]), array([0, 1, 1, 0]))
    """
    is_number = isinstance(wait, (int, float)) and not isinstance(wait, bool)
    require(is_number and wait >= 0, f"wait={wait!r}", error=ParameterError,
            why="it is how many seconds another run is waited for", fix="pass 0 or more; math.inf: as long as it takes")
    require(keep in get_args(Keep), f"keep={keep!r}", error=ParameterError, why="it says what stays in the workspace",
            fix='pass "all", or "results"')
    require(events is None or callable(events), f"events={events!r}", error=ParameterError,
            why="it is called with each event of the run", fix="pass a function of one argument, such as print")
    require(execution is None or isinstance(execution, Execution), f"execution={execution!r}", error=ParameterError,
            why="it runs tasks", fix="pass dssl.execution.in_process.InProcess(), or leave it out: the active Dask "
            "client is used, or threads of this process")
    if isinstance(spec, Plan):
        require(not (tuple(set) or fresh or from_stage or until), "a plan, and options that it was made without",
                why="a plan is of one spec and one set of stages", fix="pass the options to plan",
                error=ParameterError)
        require(spec.has_source, f"a plan for {spec.files['source'].source.name}", error=ParameterError,
                why="there are no such points to run on", fix="plan without points and columns")
        made = spec
    else:
        made = plan(spec, set=set, workspace=workspace, memory_budget=memory_budget, fresh=fresh,
                    from_stage=from_stage, until=until)
    place = made.workspace
    return_freed_memory()
    execution = execution or current_execution(memory_budget)
    before = Room.of(execution)
    execution = execution.within(budget_for(made, before))
    for one in (*made.tried, made):
        refuse_what_cannot_fit(one.own_stages, one.inputs, one.spec, Room.of(execution))
    shown = in_notebook() if events is None else nullcontext(events)
    with place.lock(wait) as lock, _held(execution, lock.check), shown as reporter:
        if isinstance(place.root, ObjectPath):
            begin_anew()
            execution.ask_workers(begin_anew)
        scratch = place.root / "scratch"  # the lock is ours: what is there was left by a run that was killed
        remove_tree(scratch)
        scratch.mkdir(parents=True, exist_ok=True)
        execution.scratch_folder = str(scratch)
        made = made.again(execution.memory_budget)
        identity = run_id or new_run_id()
        folder = place.root / "runs" / identity
        # Paths as well as addresses: a run's record is read by people. First what it needs, since gc asks every run.
        _note_stages(folder, made)
        write_json(folder / "spec.json", made.given.to_dict())
        with Status(folder, identity, made.spec.name, reporter or (lambda event: None)) as status:
            estimated = Estimates.of(made, execution.tasks_at_once)
            status.tell({"event": "run", "run": identity, "folder": str(folder), "name": made.spec.name,
                         "stages": sum(item.status != "cached" for item in made.selected),
                         "cached": sum(item.status == "cached" for item in made.selected),
                         "estimated": estimated.later(), "at_least": any(
                             item.bound == "lower" for item in made.selected if item.status != "cached")})
            if note := lowered_note(made, before, execution.memory_budget):
                status.tell({"event": "note", "stage": "dataset", "text": note})
            try:
                result = _run(made, identity, folder, execution, estimated, status.tell)
            except CannotGrow as error:
                made = made.anew(str(error))
                result = _run(made, identity, folder, execution, estimated, status.tell)
            if keep == "results" and result["status"] == "done":
                remove_intermediate(place, folder)
                _write_result(folder, with_disk_bytes(result, place, made.kind))
            status.end(result["status"])
        return RunResult.of(result, folder)


@contextmanager
def _held(execution: Execution, check: Callable[[], None]) -> Iterator[None]:
    """Have an execution ask whether the lock is still held while tasks run."""
    execution.allowed = check
    try:
        yield
    finally:
        del execution.allowed


def _run(made: Plan, identity: str, folder: Path, execution: Execution, estimated: Estimates,
         tell: Events) -> Result:
    """Make what is missing, and write the record of the run into its folder; return it, a JSON document."""
    records: dict[str, StageRun] = {}
    unlike = _tell_unlike(execution.processors, tell)
    of_growth, of_graph = made.notes_of_growth(), made.notes_of_graph()
    for stage, texts in (("dataset", of_growth), ("graph", of_graph)):
        for text in texts:
            tell({"event": "note", "stage": stage, "text": text})
    _note_stages(folder, made)
    for one in made.tried:
        run_stages(one.again(execution.memory_budget, records), made, records, execution, estimated, tell)
    if made.tried:
        made = made.again(execution.memory_budget, records)
        _note_stages(folder, made)  # of the graph that was chosen
        estimated.seconds = {}
        for item in made.selected:
            estimated.note(item, item.cost)
    run_stages(made, made, records, execution, estimated, tell)
    made.workspace.tidy(item.artifact for item in made.selected
                        if records[item.artifact.address].status != "cached")
    note_made(made.workspace, (item.artifact.folder for item in made.selected if item.artifact.exists))
    if not unlike:  # until a worker came later
        _tell_unlike(execution.processors, tell)
    if made.growth and made.artifact("dataset").exists:
        dataset = made.artifact("dataset")
        for text in filter(None, (changed_rows(made.growth, made.workspace, dataset),
                                  repeated_names(made.growth, made.files["source"].source, made.spec.read,
                                                 dataset.attributes))):
            of_growth.append(text)
            tell({"event": "note", "stage": "dataset", "text": text})
    result = _result(identity, made, list(records.values()),
                     [*unlike_notes(execution.processors), *of_growth, *of_graph])
    if result["status"] == "done" and made.growth:  # first, since the next run then needs what is intermediate
        _last_run(made, identity).write(made.workspace, made.given)
    with_disk_bytes(result, made.workspace, made.kind)
    if result["status"] == "done":
        stages = _attributes(made)
        for text in never_note(stages):
            tell({"event": "note", "stage": "predictions", "text": text})
        unread = ""
        if "gain" in result:
            unread = unread_columns(stages["dataset"]["dataset"].get("survey", ()))
            result["verdict"] = Verdict.of(result, made.kind.report_text, unread,
                                           all_labeled=all_labeled(stages),
                                           draws=redrawn_by(made.given.to_dict())).sentences
        # Not of a kind without labels, and without any label that is no news of these points.
        if "unreachable" in stages.get("health", {}) and stages["labels"].get("n_labeled") != 0:
            result["unreachable"] = write_unreachable(
                folder, made.artifact("health"), made.kind.report_text.unreachable, made.files["source"].source,
                made.spec.read, stages["dataset"], safe_csv=made.spec.predictions.safe_csv)
        if table := write_predictions(folder, {item.stage.name: item.artifact for item in made.stages},
                                      made.files["source"].source, made.spec.read,
                                      made.spec.predictions.ending, made.spec.predictions.safe_csv):
            result["predictions"] = str(table)
        if stages.get(SELECTION, {}).get("choices") and "n_labeled" in stages.get("labels", {}):
            stages[SELECTION] = _with_intervals(stages[SELECTION], stages["labels"]["n_labeled"])
        record = RunRecord(stages, result, made.given.to_dict(), libraries(), of_growth, unread, str(folder / RESULT))
        report = folder / "report.html"
        write_file(report, _page(made.kind, record).encode())
        result["report"] = str(report)
    _write_result(folder, result)
    if made.growth:
        write_stages(folder, [item.artifact.folder for item in made.selected])  # what they grew from is not needed
    return result


def _note_stages(folder: Path, made: Plan) -> None:
    """Write into a run's folder what it needs until it is done: its artifacts, and those that they grow from."""
    last = made.growth.last if made.growth and made.growth.grows else None
    before = [made.workspace.folder_of(*stage) for _, stages in (last.graphs if last else ())
              for stage in stages.items()]
    write_stages(folder, list(dict.fromkeys([*(item.artifact.folder for item in made.selected), *before])))


def _last_run(made: Plan, identity: str) -> LastRun:
    """Return what the next run of the spec goes on from."""
    growth, dataset = made.growth, made.artifact("dataset").attributes
    files = tuple(FileRecord(file.full_name, str(file.digest), record["rows"], file.version) for file, record in zip(
        made.files["source"].source.files, dataset["dataset"]["files"], strict=True))
    graphs = tuple((one.values, {item.stage.name: item.artifact.address for item in one.own_stages})
                   for one in (made, *(one for one in made.tried if one.values != made.values)))
    if growth is None or growth.last is None or not growth.goes_on:
        return LastRun(identity, files, graphs, identity, dataset["n"])
    return LastRun(identity, files, graphs, growth.last.fresh_run, growth.last.fresh_rows)


def _tell_unlike(processors: Sequence[str], tell: Events) -> list[str]:
    """Tell what is to be said of tasks that several kinds of processors run, and return it."""
    texts = unlike_notes(processors)
    for text in texts:
        tell({"event": "note", "stage": "workers", "text": text})
    return texts


def _with_intervals(selection: Attributes, n: int) -> Attributes:
    """Return a selection by n labels for the report: scores with intervals, and the score of the rule."""
    def reported(row: Attributes) -> Attributes:
        return CandidateScores.from_json(row).to_report(n)

    rows = {name: {model: reported(row) for model, row in selection[name].items()}
            for name in ("choices", "scores") if selection.get(name)}
    graphs = {"graphs": [reported(row) for row in selection["graphs"]]} if "graphs" in selection else {}
    rule = dict(selection.get("rule") or {})
    if rule.get("scoring"):
        rule["score"] = SCORED[rule["scoring"]]
    return {**selection, **rows, **graphs, "rule": rule}


def _write_result(folder: Path, result: Result) -> None:
    """Write the document of a run; in the file, paths are relative to it, so that a workspace can be moved."""
    paths = {name: os.path.relpath(at(result, name), str(folder)) for name in PATHS if name in result}
    write_json(folder / RESULT, {**result, **paths})


def _attributes(made: Plan) -> dict[str, Attributes]:
    """Return the attributes of every stage by name."""
    attributes: dict[str, Attributes] = {item.stage.name: item.artifact.attributes for item in made.stages}
    if made.tried:
        attributes[SELECTION] = {**attributes[SELECTION], "graphs": tried_graphs(made)}
    return attributes


def _result(identity: str, made: Plan, records: list[StageRun], notes: list[str]) -> Result:
    peak = max(process_peak(), *(record.peak_rss_bytes for record in records))
    result: Result = {"run": identity, "name": made.spec.name, "stages": [record.to_dict() for record in records],
                      "peak_rss_bytes": peak}
    if made.until != made.kind.names[-1]:
        return {**result, "status": "stopped", "until": made.until}
    stages = _attributes(made)
    result["status"] = "done"
    result["notes"] = notes + [text for item in made.stages if item.stage.notes for text in item.stage.notes(
        stages[item.stage.name])] + never_note(stages)
    scores = stages.get("scores") or {}
    compared = {name: scores[name] for name in ("metrics", "baselines", "gain", "transductive") if name in scores}
    result = cast(Result, {**result, **compared})
    if "selection" in stages:
        selection = stages["selection"]
        result["selection"] = selection["choices"] if "choices" in selection else {
            str(tag["tag"]): of_tag["choices"]
            for tag, of_tag in zip(stages["labels"]["of_tags"], selection["of_tags"], strict=True)}
        gain = result.get("gain") or {}
        if "by_labels" in gain:
            result["gain"] = {**gain, "by_labels": corrected_for_selection(gain["by_labels"],
                                                                  stages["selection"].get("grid") or {})}
    if made.tried:
        result["graphs"] = tried_graphs(made)
    if made.kind.model:
        result["model"] = str(made.artifact(made.kind.model).folder)
    return result


def _page(kind: Kind, record: RunRecord) -> str:
    """Return the page of a run: results before how they came about."""
    first, rest = leading_and_following(kind.stages)
    others = [kind.answer(record, kind.report_text, kind.baselines), curve_section(record), reliability_section(record),
              *(section(record) for section in (*first, files_section, *rest, stages_section, spec_section))]
    return page(record.result["name"], f"Run {record.result['run']}",
                in_order(record, kind.report_text, tags_of_run(record) or quality_section(record), others))
