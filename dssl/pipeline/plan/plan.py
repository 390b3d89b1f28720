"""A plan: per stage what is there of it, what it would take, and whether it can fit; made before anything runs."""

import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...base.digest import is_whole
from ...base.errors import ParameterError, SpecError, require
from ...data.readers.base import Scan
from ...data.scaling.scaling import require_zeros_stay
from ...data.source_reader import require_identifiers, scan_source
from ...execution.cost import START_SECONDS, WorkerRoom
from ...methods.plan_inputs import Growing, PlanInputs
from ...methods.sections import KernelSections
from ...methods.step import File
from ...report.page import rendered
from ...report.text import aligned
from ...selection.candidates import CandidateScores
from ...storage.artifacts import Artifact, Workspace
from ...storage.objects import ObjectPath
from ..dataset import growing_of
from ..growth import CannotGrow, Growth, LastRun, why_unusable
from ..kinds import KINDS
from ..labels_from_files import require_label_columns, require_tested
from ..load import SHAPED, load_spec
from ..soft_labels import require_columns, require_shape
from ..spec import Spec
from ..stage import Kind
from .inputs import NOWHERE, Rates, find_files, plan_inputs, rates_of, require_rows, shaped_source, source_file
from .preflight import PlannedStage, Room, price
from .stages import check_stage, planned_stages, table_of

DEFAULT_WORKSPACE = "dssl-work"
SELECTION = "selection"  # the stage by which graphs are compared
# Figures of stages that add up.
SUMS = ("tasks", "requests", "read_bytes", "written_bytes", "core_seconds", "wall_seconds")
SMALL_ROWS = 3_000  # up to which what a plan cannot know takes seconds


@dataclass(frozen=True, repr=False)
class Plan:
    """A checked spec, its source, and what a run of it would do.

    budget : bytes one task may take; budget_is_given : whether somebody has chosen it. remake : stages to be made anew.
    until : the last stage that is run.
    inputs : what the costs follow from; None where nothing is to run. worker : one that any task may come to, None
    where nobody says. workers, rates : tasks that run at a time, and how long stages take on this machine.
    growth : how the source lies to that of the last run; None where runs of the spec do not grow.
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
    inputs: PlanInputs | None
    given: Spec
    values: dict[str, Any] = field(default_factory=dict)
    tried: tuple["Plan", ...] = ()
    worker: WorkerRoom | None = None
    workers: int = 1
    rates: Rates = field(default_factory=Rates)
    growth: Growth | None = None
    budget_is_given: bool = False

    def again(self, budget: int, done: Collection[str] = ()) -> "Plan":
        """Return the plan as things are now, under another budget; the source is neither hashed nor scanned again.

        done : addresses of what this run has made, and does not make anew.
        """
        tried = tuple(one.again(budget, done) for one in self.tried)
        fresh = [one.growth for one in tried if one.growth and not one.growth.goes_on]
        if self.growth and self.growth.goes_on and fresh:
            return self.anew(fresh[0].why_fresh)
        chosen = self if not tried else replace(tried[chosen_graph(tried) or 0], until=self.until, tried=tried)
        bases = chosen.growth.bases(chosen.workspace, chosen.values) if chosen.growth else {}
        stages = planned_stages(chosen.kind, chosen.spec, chosen.workspace, chosen.files, chosen.remake, done,
                                chosen.until, bases)
        grows = chosen.growth is not None and chosen.growth.grows
        why = next(filter(None, (why_unusable(chosen.workspace, item, grows)
                                 for item in stages[:len(chosen.own_names)])), None)
        if why:
            return chosen.anew(why)
        try:
            made = replace(chosen, budget=budget)._priced(stages)
        except CannotGrow as error:
            return chosen.anew(str(error))
        why = made.growth.too_much(made._n_rows()) if made.growth else ""
        return made.anew(why) if why else made

    def anew(self, why: str) -> "Plan":
        """Return the plan where all rows are read anew for some reason, and nothing grows."""
        assert self.growth is not None
        growth = replace(self.growth, why_fresh=why)
        files = {**self.files, "source": source_file(growth.source, self.spec)}
        fresh = [replace(one, growth=growth, files=files, inputs=None) for one in (self, *self.tried)]
        return replace(fresh[0], tried=tuple(fresh[1:])).again(self.budget)

    def _n_rows(self) -> int:
        """Return how many rows the source has, once it is scanned or read."""
        dataset = self.artifact("dataset")
        return int(dataset.attributes["n"]) if self.inputs is None or dataset.is_known else self.inputs.n_rows

    def notes_of_growth(self) -> list[str]:
        """Return what there is to say of files that are new, or gone, a line each."""
        return [] if self.growth is None else self.growth.notes(self._n_rows() if self.growth.grows else None)

    def notes_of_graph(self) -> list[str]:
        """Return which keys have no effect on a graph that is given, in a line."""
        graph = getattr(self.spec, "graph", None)
        if graph is None or not graph.unused or "landmark_graph" in getattr(self.spec, "baselines", ()):
            return []  # the graph of that baseline is made by these keys
        keys = ", ".join(f"graph.{name}" for name in graph.unused)
        return [f"{keys}: no effect, since graph.given provides the {graph.given.kind}"]

    def _priced(self, stages: list[PlannedStage]) -> "Plan":
        """Return the plan with these stages, and the costs of those that would run."""
        cached = {item.stage.name: item.artifact for item in stages if item.status == "cached"}
        if len(cached) == len(stages):
            return replace(self, stages=stages, inputs=None)
        scan, growing = None, self._growing(stages)
        if "dataset" not in cached:
            scan = growing.scan if growing else self.inputs.scan if self.inputs and self.inputs.scan else self._scan()
        inputs = plan_inputs(self.spec, self.budget, scan,
                             {name: artifact.attributes for name, artifact in cached.items()}, growing)
        require_rows(self.spec, inputs.n_rows)
        if inputs.sparse_entries is not None and self.spec.scaling is not None:
            require_zeros_stay(self.spec.scaling.kind, inputs.n_rows, inputs.d)
        room, run = Room(self.budget, self.worker), stages[:self.kind.names.index(self.until) + 1]
        return replace(self, inputs=inputs, stages=[price(item, inputs, self.spec, room, run) for item in stages])

    def _growing(self, stages: list[PlannedStage]) -> Growing | None:
        """Return what is known of what grows, where rows are added; new files are scanned unless they are stored."""
        if self.growth is None or not self.growth.grows:
            return None
        if self.inputs is not None and self.inputs.growing is not None:
            return self.inputs.growing
        bases = {item.stage.name: self.workspace.artifact_in(item.stage.name, item.base)
                 for item in stages if item.base}
        return growing_of(bases, self.growth.added, self.spec, self.budget, scans=stages[0].status != "cached")

    def _scan(self) -> Scan:
        """Return what the source holds; a compressed file is unpacked meanwhile, into a folder for temporary files."""
        with tempfile.TemporaryDirectory(prefix="dssl-") as folder:
            source = self.files["source"].source
            require_columns(self.spec, source, Path(folder))
            require_label_columns(self.spec, self.files, Path(folder))
            scan = scan_source(source, self.spec.read, Path(folder), self.budget)
            require_identifiers(self.spec.read, scan, source.name)
            require_tested(self.spec, source, scan)
            require_shape(self.spec, self.files, scan)
            return scan

    def artifact(self, stage: str) -> Artifact:
        """Return the artifact of a stage."""
        return self.stages[self.kind.names.index(stage)].artifact

    @property
    def selected(self) -> list[PlannedStage]:
        """Return the stages up to and with `until`; before them those of all graphs that are tried, each once."""
        stages: dict[str, PlannedStage] = {}
        for item in (*(item for one in self.tried for item in one.selected), *self.own_stages):
            stages.setdefault(item.artifact.address, replace(item, graph=self.graph_of(item)))
        return list(stages.values())

    @property
    def own_names(self) -> list[str]:
        """Return the names of the stages up to and with `until`."""
        return self.kind.names[:self.kind.names.index(self.until) + 1]

    @property
    def own_stages(self) -> list[PlannedStage]:
        """Return the stages of this graph up to and with `until`."""
        return self.stages[:len(self.own_names)]

    def graph_of(self, item: PlannedStage) -> str:
        """Return the values of the graph that a stage is of, in words; nothing of one that serves several."""
        address = item.artifact.address
        those = [made for made in self.tried if any(other.artifact.address == address for other in made.stages)]
        return item.graph or (those[0].named if len(those) == 1 else "")

    @property
    def has_source(self) -> bool:
        """Return whether there is a source, and not only the shape of one."""
        return self.files["source"].source.path != NOWHERE

    @property
    def refused(self) -> list[PlannedStage]:
        """Return the stages that a run would refuse, which it would do before it made anything."""
        return [item for item in self.selected if item.refused]

    def require_fits(self) -> None:
        """Raise the error of the first stage that a run would refuse."""
        for item in self.selected:
            if item.refused:
                raise item.refused

    @property
    def is_small(self) -> bool:
        """Return whether what is to run takes no longer on this machine than its workers take to start, at most.

        Up to `SMALL_ROWS` rows, lower bounds of the costs count as known.
        """
        to_run = [item for item in self.selected if item.status != "cached"]
        few = self.inputs is not None and self.inputs.n_rows <= SMALL_ROWS
        known = all(item.cost is not None and (few or item.bound != "lower") for item in to_run)
        return known and self.total()["core_seconds"] <= START_SECONDS

    def total(self) -> dict[str, Any]:
        """Return what the stages to run take together, as far as they have figures: JSON.

        tasks; requests to an object store where the workspace is one; read_bytes; written_bytes, most of which stays on
        disk, compressed; peak_bytes, of the largest task; core_seconds, wall_seconds.
        """
        rows = self.records()
        total = {name: sum(row[name] or 0 for row in rows) for name in SUMS}
        return {**total, "peak_bytes": max((row["peak_bytes"] or 0 for row in rows), default=0)}

    def records(self) -> list[dict[str, Any]]:
        """Return one mapping a stage, such as the rows of a DataFrame; see `PlannedStage.to_dict`."""
        return [item.to_dict(self.workers, self.rates.of(item.stage.name)) for item in self.selected]

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form."""
        return {"stages": self.records(), "total": self.total(), "memory_budget": self.budget,
                "task_limit": self.worker and self.worker.room, "workers": self.workers}

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Return the plan as texts: the head of a table, and its rows, the last one of the figures that add up."""
        return table_of(self.records(), self.total(), self.workers, isinstance(self.workspace.root, ObjectPath))

    def notes(self) -> list[str]:
        """Return what the signs in the table mean, and why stages are refused."""
        stages, notes = self.records(), [*self.notes_of_growth(), *self.notes_of_graph()]
        estimated = {name for stage in stages for name in stage["estimated"]}
        guesses = set[str]() if self.inputs is None else estimated & self.inputs.guesses
        if estimated - guesses:
            notes.append(f"<: an upper bound, until a stage has found it: {', '.join(sorted(estimated - guesses))}")
        if guesses:
            notes.append(f"~: a guess, which may be too low, until a stage has found it: {', '.join(sorted(guesses))}")
        lower = [stage["name"] for stage in stages if stage["bound"] == "lower"]
        if lower:
            notes.append(">: a lower bound, since the upper one does not fit the memory budget or a worker; a run "
                         f"stops before {' or '.join(lower)} if the numbers that earlier stages find are too large")
        return [*notes, *(f"refused: {item.refused}" for item in self.refused)]

    def __repr__(self) -> str:
        head, rows = self.rows()
        return "\n".join([f"{type(self).__name__} of {self.spec.name}", *aligned([head, *rows]), *self.notes()])

    def _repr_html_(self) -> str:
        head, rows = self.rows()
        return rendered("plan.html", name=self.spec.name, head=head, rows=rows, notes=self.notes())

    @property
    def named(self) -> str:
        """Return the values of the graph in words."""
        return ", ".join(f"{name} {value}" for name, value in self.values.items())


def plan(spec: str | Path | dict[str, Any] | Spec, *, set: Iterable[str] = (),
         workspace: str | Path = DEFAULT_WORKSPACE, memory_budget: int | None = None, fresh: bool = False,
         from_stage: str | None = None, until: str | None = None, points: int | None = None,
         columns: int | None = None, workers: int = 1, worker_memory: int | None = None) -> Plan:
    """Return what a run would do, as a plan that `run` takes and a notebook shows.

    Parameters
    ----------
    spec : str, Path, dict or Spec
        A YAML file or a mapping.
    set : iterable of str
        Overrides of the spec, each a text "key.key=value".
    workspace : str or Path
        The folder of artifacts and runs.
    memory_budget : int or None
        The bytes that one task may take; None is what the spec says, or else 1 GiB.
    fresh : bool
        Whether every stage is made anew.
    from_stage : str or None
        This stage and all that depend on it are made anew; not with `fresh`.
    until : str or None
        No stage after this one is run.
    points : int or None
        Plan for a dense source of so many rows, which need not exist: nothing is read,
        and the spec needs no data.source.
    columns : int or None
        The features of such a source.
    workers : int
        How many tasks run at a time.
    worker_memory : int or None
        The memory limit of a worker of one thread, in bytes.

    Returns
    -------
    Plan
        The stages with their addresses, what is there of each, and what it takes.

    Raises
    ------
    SpecError
        The spec or the name of a stage is not valid.
    ParameterError
        A number of bytes or workers is not valid.
    DataError
        There is no such source, or it cannot be used.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import plan
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> np.savez("moons.npz", X=X, y=classes)
    >>> spec = {"name": "moons", "data": {"source": "moons.npz"},
    ...         "labels": {"per_class": 4}, "model": {"kind": "graph"}}
    >>> [item.status for item in plan(spec).stages][:2]
    ['to run', 'to run']
    """
    for name, value in (("memory_budget", memory_budget), ("worker_memory", worker_memory)):
        require(value is None or (is_whole(value) and value >= 1), f"{name}={value!r}, expected a whole number of "
                "bytes", why="sizes are text in specs and commands alone", fix=f"pass bytes, such as {4 << 30} for "
                "4 GiB", error=ParameterError)
    require(not isinstance(set, str) and isinstance(set, Iterable), f"set={set!r}", error=ParameterError,
            why="overrides are several texts key.key=value", fix='pass a list, such as ["model.eta=100"]')
    require(is_whole(workers) and workers >= 1, f"workers={workers!r}, expected a whole number from 1 on",
            why="so many tasks run at a time", fix="leave it at 1, or count the workers", error=ParameterError)
    shaped = points is not None or columns is not None
    checked = load_spec(spec, tuple(set), data_source=SHAPED if shaped else None)
    place = Workspace.at(workspace)
    kind = KINDS[checked.model.kind]
    names = kind.names
    require(not fresh or from_stage is None, f"--fresh and --from {from_stage}", error=SpecError,
            why="--fresh makes every stage anew, --from only those from one on",
            fix="leave one of them out")
    remake = frozenset(names) if fresh else frozenset()
    if from_stage is not None:
        remake |= kind.dependents(check_stage(from_stage, "--from", kind))
    ends = names[-1] if until is None else check_stage(until, "--until", kind)
    begins = 0 if from_stage is None else names.index(from_stage)
    require(begins <= names.index(ends), f"--from {from_stage} --until {ends}", error=SpecError,
            why=f"{from_stage} comes after {ends}, so nothing would be made",
            fix="name an earlier stage in --from, or a later one in --until")
    budget, inputs, growth = memory_budget or checked.budget, None, None
    if shaped:
        checked, files, scan = shaped_source(checked, points, columns)
        inputs = plan_inputs(checked, budget, scan, {})
    else:
        last = LastRun.of(place, checked) if checked.data.grows and not fresh else None
        files = find_files(checked, last.files if last else ())
        if checked.data.grows:
            growth = Growth.of(last, files["source"].source)
            files["source"] = source_file(growth.source, checked)
    worker, rates = WorkerRoom(worker_memory) if worker_memory else None, rates_of(place)
    graphs: Sequence[tuple[dict[str, Any], Spec]] = [({}, checked)]
    if isinstance(checked, KernelSections):
        graphs = checked.graphs()
    given = memory_budget is not None or checked.memory_budget is not None
    plans = [Plan(of_graph, kind, files, place, budget, remake, ends, [], inputs, checked, values, (), worker, workers,
                  rates, growth, given) for values, of_graph in graphs]
    made = plans[0].again(budget)
    if len(plans) > 1:
        selected = min(ends, SELECTION, key=names.index)
        # The inputs of the first hold what the source holds, so that it is scanned once.
        tried = tuple(replace(one, until=selected, inputs=made.inputs) for one in plans)
        made = replace(made, tried=tried).again(budget)
    return made


def chosen_graph(tried: Sequence[Plan]) -> int | None:
    """Return the place of the plan whose selection has the best model; None where one has no selection yet."""
    if not all(one.artifact(SELECTION).is_known for one in tried):
        return None
    chosen = tried[0].spec.selection  # type: ignore[attr-defined]
    return chosen.rule().index([CandidateScores.from_json(one.artifact(SELECTION).attributes["choices"]["model"])
                                for one in tried])


def tried_graphs(made: Plan) -> list[dict[str, Any]]:
    """Return, of each graph that was tried, its values and the row of its best model, that of the chosen one first."""
    rows = [{"graph": one.values, **one.artifact(SELECTION).attributes["choices"]["model"]} for one in made.tried]
    return sorted(rows, key=lambda row: row["graph"] != made.values)
