"""A plan: per stage what is there of it, what it would take, and whether it can fit; made before anything runs."""

import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ..data.ingest import open_source
from ..data.readers.base import Scan
from ..data.readers.formats import format_of
from ..data.scaling import require_kept_zeros
from ..data.sources import find_source, fingerprint
from ..errors import BudgetError, SpecError, explain, require, sentences
from ..execution.cost import Cost
from ..execution.tasks import Execution
from ..params import digest, plain
from ..storage.artifacts import Artifact, Workspace
from .facts import Bound, Facts
from .graphs import given_file
from .kinds.registry import KINDS, all_stage_names
from .load import load_spec
from .spec import KernelPipeline, Spec
from .stage import File, Kind, Stage

DEFAULT_WORKSPACE = "dssl-work"
SELECTION = "selection"  # the stage by which graphs are compared
Status = Literal["cached", "partial", "to run"]


@dataclass(frozen=True)
class PlannedStage:
    """A stage with its parameters and artifact: "cached", "partial" (some parts are finished) or "to run", and why.

    cost : of what a run would do; None for a stage that is cached, or that has no cost function.
    estimated : names of the numbers that the cost follows from and that an earlier stage has yet to find; bound : from
    where they are taken, "least" where the stage would not fit by the most that they may be. graph : where several are
    tried, the values of the one that the stage is of.
    """

    stage: Stage
    params: Any
    artifact: Artifact
    status: Status
    why: str
    cost: Cost | None = None
    estimated: tuple[str, ...] = ()
    bound: Bound = "most"
    graph: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form; of a cached stage nothing is run, so its figures are 0."""
        cost = Cost(0, 0, 0, 0, 0) if self.status == "cached" else self.cost
        return {"name": self.stage.name, "status": self.status, "why": self.why, "address": self.artifact.address,
                "tasks": cost and cost.tasks, "read_bytes": cost and cost.read, "written_bytes": cost and cost.written,
                "peak_bytes": cost and cost.peak, "estimated": list(self.estimated),
                "bound": self.bound, **({"graph": self.graph} if self.graph else {})}


def check_stage(name: str, option: str, kind: Kind) -> str:
    """Return the name of a stage of a kind; raise SpecError with the names there are."""
    other = name in all_stage_names()
    require(name in kind.names, error=SpecError,
            what=f"{option} {name!r} is not a stage{f' of model.kind {kind.name}' if other else ''}",
            why=f"a pipeline is made of named stages{', and each kind of model has its own' if other else ''}",
            fix=f"name one of {', '.join(kind.names)}")
    return name


def find_files(spec: Spec) -> dict[str, File]:
    """Return the files from outside that a spec names, with the digest of their bytes and format.

    Raises
    ------
    DataError : there is no such file.
    """
    params, given = spec.data.ingest_params(), spec.given_graph
    source = find_source(spec.data.source, labels=params.labels, format=params.format)
    found = {"source": File(source, digest({"bytes": fingerprint(source),
                                            "format": format_of(source.path, params.format)}))}
    if spec.labels is not None and spec.labels.file is not None:
        told = find_source(spec.labels.file, format="csv")
        found["labels"] = File(told, fingerprint(told))
    if given is not None:
        file = given_file(given.kind, given.path)
        found[given.kind] = File(file, fingerprint(file))
    return found


def planned_stages(kind: Kind, spec: Spec, workspace: Workspace, files: Mapping[str, File],
                   remake: Collection[str] = (), done: Collection[str] = ()) -> list[PlannedStage]:
    """Return the stages of a spec with the addresses of their artifacts and what is there of them.

    remake : names of stages that are to be made anew, whatever is there, but for addresses that are `done`.
    """
    planned: dict[str, PlannedStage] = {}
    for stage in kind.stages:
        params = stage.params(spec)
        inputs = {name: planned[name].artifact.address for name in stage.needs}
        inputs |= {name: files[name].digest for name in stage.files if name in files}
        artifact = workspace.artifact(stage.name, stage.version, plain(params), inputs)
        waiting = [name for name in stage.needs if planned[name].status != "cached"]
        status: Status = "to run"
        if stage.name in remake and artifact.address not in done:
            why = "asked to be made anew"
        elif artifact.exists:
            status, why = "cached", "same inputs and parameters"
        elif finished := artifact.finished_parts:
            status, why = "partial", f"{finished} parts are finished"
        else:
            why = f"after {', '.join(waiting)}" if waiting else "not made yet"
        planned[stage.name] = PlannedStage(stage, params, artifact, status, why)
    return list(planned.values())


@dataclass(frozen=True)
class Plan:
    """A checked spec, its source, and what a run of it would do.

    budget : bytes one task may take. remake : stages to be made anew. until : the last stage that is run.
    facts : what the costs follow from; None where nothing is to run.
    given : the spec as it was given. values : where several graphs are tried, those of this one. tried : the plans of
    all of them, up to the selection; this one is then of the graph that was chosen, or of the first until all have one.
    """

    spec: Spec
    kind: Kind
    files: dict[str, File]
    workspace: Workspace
    budget: int
    remake: frozenset[str]
    until: str
    stages: list[PlannedStage]
    facts: Facts[Any] | None
    given: Spec
    values: dict[str, Any] = field(default_factory=dict)
    tried: tuple["Plan", ...] = ()

    def again(self, budget: int, done: Collection[str] = ()) -> "Plan":
        """Return the plan as things are now, under another budget; the source is neither hashed nor scanned again.

        done : addresses of what this run has made, and does not make anew.
        """
        tried = tuple(own.again(budget, done) for own in self.tried)
        own = self if not tried else replace(tried[chosen_graph(tried) or 0], until=self.until, tried=tried)
        stages = planned_stages(own.kind, own.spec, own.workspace, own.files, own.remake, done)
        return replace(own, budget=budget)._priced(stages)

    def _priced(self, stages: list[PlannedStage]) -> "Plan":
        """Return the plan with these stages, and the costs of those that would run."""
        cached = {item.stage.name: item.artifact for item in stages if item.status == "cached"}
        if len(cached) == len(stages):
            return replace(self, stages=stages, facts=None)
        scan = None
        if "dataset" not in cached:
            scan = self.facts.scan if self.facts and self.facts.scan else self._scan()
        facts = Facts(self.spec, self.budget, scan, {name: artifact.attributes for name, artifact in cached.items()})
        facts.require_rows()
        if facts.sparse_entries is not None and self.spec.data.scaling is not None:
            require_kept_zeros(self.spec.data.scaling.kind, facts.n_rows, facts.d)
        return replace(self, facts=facts, stages=[item if item.status == "cached" else price(item, facts)
                                                  for item in stages])

    def _scan(self) -> Scan:
        """Return what the source holds; a compressed file is unpacked meanwhile, into a folder for temporary files."""
        with tempfile.TemporaryDirectory(prefix="dssl-") as folder:
            return open_source(self.files["source"].source, self.spec.data.ingest_params(), scratch=Path(folder)).scan()

    def artifact(self, stage: str) -> Artifact:
        """Return the artifact of a stage."""
        return self.stages[self.kind.names.index(stage)].artifact

    @property
    def selected(self) -> list[PlannedStage]:
        """Return the stages up to and with `until`; before them those of all graphs that are tried, each once."""
        found: dict[str, PlannedStage] = {}
        for item in (*(item for own in self.tried for item in own.selected), *self.own_stages):
            found.setdefault(item.artifact.address, replace(item, graph=self.graph_of(item)))
        return list(found.values())

    @property
    def own_stages(self) -> list[PlannedStage]:
        """Return the stages of this graph up to and with `until`."""
        return self.stages[:self.kind.names.index(self.until) + 1]

    def graph_of(self, item: PlannedStage) -> str:
        """Return the values of the graph that a stage is of, in words; nothing of one that serves several."""
        address = item.artifact.address
        own = [plan for plan in self.tried if any(other.artifact.address == address for other in plan.stages)]
        return item.graph or (own[0].named if len(own) == 1 else "")

    @property
    def named(self) -> str:
        """Return the values of the graph in words."""
        return ", ".join(f"{name} {value}" for name, value in self.values.items())


def make_plan(spec: str | Path | dict[str, Any], *, set: Iterable[str] = (),
              workspace: str | Path = DEFAULT_WORKSPACE, memory_budget: int | None = None, fresh: bool = False,
              from_stage: str | None = None, until: str | None = None) -> Plan:
    """Return what a run would do.

    Parameters
    ----------
    fresh : make every stage anew. from_stage : this one, and all that depend on it; not with fresh. until : run no
        stage after it.

    Raises
    ------
    SpecError : the spec, or the name of a stage. DataError : there is no such source, or it cannot be used.
    """
    checked, place = load_spec(spec, tuple(set)), Workspace.at(workspace)
    kind = KINDS[checked.model.kind]
    names = kind.names
    require(not fresh or from_stage is None, f"--fresh and --from {from_stage}", error=SpecError,
            why="--fresh makes every stage anew, --from only those from one on",
            fix="leave one of them out")
    remake = frozenset(names) if fresh else frozenset()
    if from_stage is not None:
        remake |= kind.dependents(check_stage(from_stage, "--from", kind))
    last = names[-1] if until is None else check_stage(until, "--until", kind)
    begins = 0 if from_stage is None else names.index(from_stage)
    require(begins <= names.index(last), f"--from {from_stage} --until {last}", error=SpecError,
            why=f"{from_stage} comes after {last}, so nothing would be made",
            fix="name an earlier stage in --from, or a later one in --until")
    files, budget = find_files(checked), memory_budget or checked.budget
    graphs: Sequence[tuple[dict[str, Any], Spec]] = [({}, checked)]
    if isinstance(checked, KernelPipeline):
        graphs = checked.graphs()
    plans = [Plan(own, kind, files, place, budget, remake, last, [], None, checked, values) for values, own in graphs]
    if len(plans) == 1:
        return plans[0].again(budget)
    ends, first = min(last, SELECTION, key=names.index), plans[0].again(budget)
    # The facts of the first hold what the source holds, so that it is scanned once.
    return replace(first, tried=tuple(replace(own, until=ends, facts=first.facts) for own in plans)).again(budget)


def chosen_graph(tried: Sequence[Plan]) -> int | None:
    """Return the place of the plan whose selection has the best model; None where one has no selection yet."""
    if not all(own.artifact(SELECTION).exists for own in tried):
        return None
    chosen = tried[0].spec.selection  # type: ignore[attr-defined]
    return chosen.rule().place([own.artifact(SELECTION).attributes["choices"]["model"] for own in tried])


def tried_graphs(made: Plan) -> list[dict[str, Any]]:
    """Return, of each graph that was tried, its values and the row of its best model, that of the chosen one first."""
    rows = [{"graph": own.values, **own.artifact(SELECTION).attributes["choices"]["model"]} for own in made.tried]
    return sorted(rows, key=lambda row: row["graph"] != made.values)


def plan(spec: str | Path | dict[str, Any], *, set: Iterable[str] = (), workspace: str | Path = DEFAULT_WORKSPACE,
         memory_budget: int | None = None) -> list[dict[str, Any]]:
    """Return what a run would do, one mapping a stage.

    name, status ("cached", "partial", "to run"), why, address; tasks; read_bytes and written_bytes, of arrays before
    compression; peak_bytes, the predicted memory of its largest task; estimated, the names of the numbers behind
    these that an earlier stage has yet to find, taken from above where bound is "most"; "least" is from below, of a
    stage that would not fit by the most.
    """
    made = make_plan(spec, set=set, workspace=workspace, memory_budget=memory_budget)
    return [item.to_dict() for item in made.selected]


def price(item: PlannedStage, facts: Facts[Any]) -> PlannedStage:
    """Return the stage with its cost; what cannot fit has none."""
    bounds: tuple[Bound, ...] = ("most", "least") if item.stage.cost else ()
    for bound in bounds:  # the upper estimate of something may not fit where the thing itself does
        own = replace(facts, bound=bound, estimated=set())
        try:
            cost = item.stage.cost(own)  # type: ignore[misc]
            return replace(item, cost=cost, estimated=tuple(sorted(own.estimated)), bound=bound)
        except BudgetError:
            continue
    return item


def refuse_what_cannot_fit(made: Plan, execution: Execution) -> None:
    """Raise BudgetError for the first stage to run whose smallest possible task exceeds what a task may take.

    Numbers that are not known yet are taken from below, so nothing is refused that could be done.
    """
    for own in made.tried:
        refuse_what_cannot_fit(own, execution)
    if made.facts is None:
        return
    facts = replace(made.facts, budget=execution.memory_budget, bound="least", estimated=set())
    limit = min(execution.memory_budget, execution.memory_limit or execution.memory_budget)
    lower = limit < execution.memory_budget
    whose, also = ("a worker's share of its memory limit", " and the workers' memory_limit") if lower else (
        "the memory budget", "")
    have = f"{whose} is {limit:,} bytes"
    for item in made.own_stages:
        name, cost = item.stage.name, item.stage.cost
        if item.status == "cached" or cost is None:
            continue
        fix = f"{item.stage.remedy}, or raise memory_budget, in the spec or by --memory-budget{also}"
        try:
            least = cost(facts).least
        except BudgetError as error:
            what, why, remedy = sentences(str(error))
            raise BudgetError(explain(f"stage {name} cannot fit, {have}", why=f"{what}; {why}",
                                      fix=f"{remedy}; {fix}")) from error
        require(least <= limit, f"stage {name} needs at least {least:,} bytes in one task, {have}", error=BudgetError,
                why="it would fail only after the stages before it were paid for", fix=fix)
