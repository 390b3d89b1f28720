"""Candidates of a search, evaluated on the same points and labels, in memory or in a workspace.

    graph       a graph of the points, from the one search of neighbors that serves it
    steps       those of the method before its choice, once for all candidates that ask for the same
    candidates  the rows of a group of candidates on some folds, by the evaluator of the method

In a workspace graphs and rows are artifacts, whose addresses follow from the digests of points and labels, so that a
search that was killed, or another one, makes only what is missing.

What the steps of one fit make in memory is a `MemoryWorkspace`.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..base.digest import digest
from ..base.errors import require
from ..execution.tasks import Execution
from ..execution.threads import one_thread
from ..graph.graph import Graph
from ..graph.knn_graph import VERSIONS, KNNGraph
from ..graph.vertices import Vertices
from ..knn.lists import Neighbors
from ..selection.candidates import CandidateScores, SelectionRule
from ..selection.halving import CandidateEvaluator, Repetitions
from ..storage.artifacts import Artifact, Workspace
from ..storage.blocks import Parts
from ..storage.csr import digest_of_arrays, digest_of_rows
from .step import Context, Fit, Method, Step


@dataclass(frozen=True)
class MadeHere:
    """What a step has made in this process, or what is of one tag in it."""

    parts: Parts
    attributes: dict[str, Any]


@dataclass
class MemoryWorkspace:
    """What the steps of an estimator's fit make, by the name of the step; it goes with the fit."""

    fit: Fit
    execution: Execution
    artifacts: dict[str, MadeHere] = field(default_factory=dict)

    def run(self, steps: Sequence[Step], params: object, keep: Collection[str] = ()) -> None:
        """Run steps in their order, each on what those before it have made.

        The arrays of an intermediate step are removed once the last of these steps that needs it has run; keep : the
        names of those that stay.
        """
        for place, step in enumerate(steps):
            context = self.context()
            with self.execution.stopping_works(), one_thread():
                attributes = dict(step.make(context, step.params(params)))
            self.artifacts[step.name] = MadeHere(context.parts, attributes)
            needed = {name for other in steps[place + 1:] for name in other.needs}
            for earlier in steps[:place]:
                if earlier.intermediate and earlier.name in step.needs and earlier.name not in {*needed, *keep}:
                    self.artifacts[earlier.name].parts.remove()

    def tidy(self, method: Method) -> None:
        """Keep only what the last steps of a method read: no models, and no other arrays; a graph where they do."""
        for step in method.steps:
            if step.intermediate and step.name not in method.read_last:
                self.artifacts[step.name].parts.remove()
        graph = self.fit.graph if "graph" in method.read_last else None
        self.fit = Fit(self.fit.points, self.fit.target, self.fit.weight, graph, self.fit.distinct, soft=self.fit.soft)

    def context(self) -> Context:
        """Return what the next step gets."""
        return Context(dict(self.artifacts), {}, self.execution.scratch(), self.execution, fit=self.fit,
                       side=self.fit.side)


@dataclass(frozen=True, eq=False)
class Group:
    """Candidates that differ in what one evaluation varies alone.

    candidates : the parameters of each, of the method, by the number of the candidate. graph : how their graph is made;
    None of a method without.
    """

    method: Method
    candidates: Mapping[int, Any]
    graph: KNNGraph | None

    def uses_graph(self, numbers: Iterable[int]) -> bool:
        """Return whether any of some candidates asks for the graph."""
        return self.graph is not None and any(self.method.uses_graph(self.candidates[number]) for number in numbers)


@dataclass(frozen=True)
class ResultCache:
    """The graphs and rows in a workspace; points, labels : digests of the points, and of labels and their weights."""

    workspace: Workspace
    points: str
    labels: str

    @classmethod
    def of(cls, workspace: Workspace, fit: Fit) -> "ResultCache":
        """Return that of searches of some points and labels; reads the points once."""
        weights = {} if fit.weight is None else {"weight": fit.weight}
        labels = digest_of_arrays({"labeled": fit.target.labeled, "coded": fit.target.coded, **weights})
        named = digest({"kind": type(fit.target).__name__, "labels": labels})
        return cls(workspace, digest_of_rows(fit.points), named)

    def graph(self, params: KNNGraph, searched_for: int | None) -> Artifact:
        """Return the artifact of a graph; searched_for : the neighbors of its search, None where lists are exact."""
        return self.workspace.artifact("knn_graph", 1, {
            "graph": params, "searched_for": searched_for, "versions": VERSIONS}, {"points": self.points})

    def scores(self, group: Group, numbers: Sequence[int], graph: str, folds: Repetitions,
               scoring: str | None) -> Artifact:
        """Return the artifact of the scores of some candidates; graph : the address of their graph."""
        method, candidates = group.method, [group.candidates[number] for number in numbers]
        names = [[digest_of_arrays({"fold": fold}) for fold in of_repetition] for of_repetition in folds]
        return self.workspace.artifact("held_out", 2, {
            "method": method.name, "versions": {step.name: step.version for step in method.steps},
            "shared": method.joined(list(group.candidates.values())), "candidates": candidates, "folds": digest(names),
            "scoring": scoring}, {"points": self.points, "labels": self.labels, "graph": graph})


@dataclass(eq=False)
class Evaluation:
    """Groups of candidates on the points and labels of a fit, and what they share.

    scoring : what rows tell beside the scores that all have. given : the graph of all, or None. cache : of a
    search with a workspace. again : whether candidates are evaluated more than once, so that evaluators are kept.
    n_graphs, n_searches, n_groups : graphs that were made, searches of neighbors, and groups that were evaluated; not
    those that were there.
    """

    fit: Fit
    execution: Execution
    scoring: str | None
    groups: Sequence[Group]
    given: Graph | None = None
    cache: ResultCache | None = None
    again: bool = False
    n_graphs: int = 0
    n_searches: int = 0
    n_groups: int = 0
    _graphs: dict[KNNGraph, Graph] = field(default_factory=dict)
    _made: dict[tuple[KNNGraph | None, bool], list[tuple[list[Any], MemoryWorkspace]]] = field(default_factory=dict)
    _evaluators: dict[tuple[Group, bool], CandidateEvaluator] = field(default_factory=dict)

    def scores(self, group: Group, numbers: Sequence[int], folds: Repetitions) -> list[CandidateScores]:
        """Return the scores of candidates of a group, by their numbers."""
        uses_graph = group.uses_graph(numbers)
        artifact = None if self.cache is None else self.cache.scores(group, numbers, self._address(group, uses_graph),
                                                                     folds, self.scoring)
        if artifact is not None and artifact.exists:
            table = artifact.attributes
            return [CandidateScores.from_json(dict(zip(table["names"], values, strict=True)))
                    for values in table["rows"]]
        scores = self._evaluator(group, uses_graph).evaluate([group.candidates[number] for number in numbers], folds)
        self.n_groups += 1
        if artifact is not None:
            rows = [candidate.to_json() for candidate in scores]
            artifact.begin({})
            artifact.publish({"names": list(rows[0]), "rows": [list(row.values()) for row in rows]})
        return scores

    def forget(self) -> None:
        """Give back what candidates share, but for graphs."""
        self._made.clear()
        self._evaluators.clear()

    def _evaluator(self, group: Group, uses_graph: bool) -> CandidateEvaluator:
        if (group, uses_graph) in self._evaluators:
            return self._evaluators[group, uses_graph]
        assert group.method.evaluator is not None
        params = group.method.joined(list(group.candidates.values()))
        context = self._workspace(group, uses_graph, params).context()
        evaluator = group.method.evaluator(context, replace(params, rule=SelectionRule(scoring=self.scoring)))
        if self.again:
            self._evaluators[group, uses_graph] = evaluator
        return evaluator

    def _workspace(self, group: Group, uses_graph: bool, params: object) -> MemoryWorkspace:
        """Return what the steps before the choice make of parameters, once for equal ones on a graph."""
        steps = group.method.before_choice
        asked = [step.params(params) for step in steps]
        known = self._made.setdefault((group.graph, uses_graph), [])
        for others, made in known:  # no dict: a base kernel may be a function, or of no hash
            if others == asked:
                return made
        fit = known[0][1].fit if known else self._fit(group.graph, uses_graph)
        made = MemoryWorkspace(fit, self.execution)
        made.run(steps, params)
        known.append((asked, made))
        return made

    def _fit(self, graph: KNNGraph | None, uses_graph: bool) -> Fit:
        """Return the points and labels with their graph, or with what says which points are duplicates."""
        if graph is None:
            return replace(self.fit)
        if uses_graph:
            return replace(self.fit, graph=self.graph(graph))
        return replace(self.fit, distinct=graph.vertices(self.fit.points, self.execution))

    # ---- graphs

    @cached_property
    def _given_address(self) -> str:
        assert self.given is not None
        return digest_of_arrays(self.given.to_arrays())

    def _address(self, group: Group, uses_graph: bool) -> str:
        """Return the address of the graph of a group; without one, that of what says which points are duplicates."""
        if group.graph is None:
            return "none"
        if not uses_graph:
            return f"none, {group.graph.duplicates}"
        if self.given is not None:
            return self._given_address
        return self.artifact(group.graph).address

    def graph(self, params: KNNGraph) -> Graph:
        """Return the graph that is given, or what the parameters make: from lists of more neighbors where these serve.

        An exact search gives the graphs that `KNNGraph.of_scaled` gives, to the bit. NN-descent is run for the largest
        `n_neighbors`, and the beginnings of its lists are in general not those of a search for fewer: they have a
        recall of their own, which is certified. "auto" chooses between the two by the largest.

        Errors and warnings are those of `KNNGraph.build`. IntegrityError : an artifact is damaged.
        """
        if self.given is not None:
            return self.given
        if params not in self._graphs:
            if self.cache is None:
                self._graphs[params] = self._graph_of(params, None)
            else:
                artifact = self.artifact(params)
                if not artifact.exists:
                    artifact.begin({"memory_budget": self.execution.memory_budget})
                    made = self._graph_of(params, artifact.parts)
                    artifact.parts.within("vertices").write(0, made.vertices.to_arrays())
                    artifact.publish(made.attributes)
                self._graphs[params] = graph_in(artifact)
        return self._graphs[params]

    def artifact(self, params: KNNGraph) -> Artifact:
        """Return the artifact of a graph, whether it is there yet or not."""
        assert self.cache is not None
        widest = self._widest(params)
        is_exact = params.searched_alike(len(self.fit.points)).method == "exact"
        return self.cache.graph(params, None if is_exact else widest.n_neighbors)

    def _widest(self, params: KNNGraph) -> KNNGraph:
        """Return, of the graphs that search alike, the first of the most neighbors."""
        n = len(self.fit.points)
        asked = [group.graph for group in self.groups if group.graph is not None and group.uses_graph(group.candidates)]
        alike = [each for each in asked if each.searched_alike(n) == params.searched_alike(n)]
        return max(alike, key=lambda each: each.n_neighbors, default=params)

    def _graph_of(self, params: KNNGraph, parts: Parts | None) -> Graph:
        """Return a graph that is made, and written to parts."""
        widest = self._widest(params)
        self.n_graphs += 1
        if params == widest:
            self.n_searches += 1
            return params.of_scaled(self.fit.points, self.execution, parts)
        return params.of_wider(self.graph(widest), self.fit.points, self.execution, parts)


def graph_in(artifact: Artifact) -> Graph:
    """Return the graph of an artifact that is complete; raise IntegrityError if it is damaged."""
    attributes, parts, lists = artifact.attributes, artifact.parts, artifact.parts.within("neighbors")
    return Graph(Vertices.from_arrays(parts.within("vertices").read(0)), parts,
                 Neighbors.stored(lists, attributes["neighbors"]), attributes)


def require_named(value: object, name: str = "a parameter") -> None:
    """Raise ParameterError if a parameter, or one of its fields, is a function, or of a class that is not of dssl."""
    if isinstance(value, (list, tuple)):
        for each in value:
            require_named(each, name)
        return
    if isinstance(value, Mapping):
        for pair in value.items():
            require_named(pair, name)
        return
    ours = dataclasses.is_dataclass(value) and type(value).__module__.startswith("dssl.")
    plain = value is None or isinstance(value, (bool, int, str)) or (
        isinstance(value, (float, np.generic)) and bool(np.isfinite(value)))
    require(plain or ours, f"{name}={value!r} in a search with a workspace",
            why="its results are kept under what made them: finite numbers, texts, values of dssl; nothing tells what "
                "a function does", fix="name a kernel or loss of dssl, or leave workspace out")
    if dataclasses.is_dataclass(value):
        for item in dataclasses.fields(value):
            require_named(getattr(value, item.name), item.name)
