"""The steps of functions with penalties on the norm and on the energy of the graph: landmarks, selection, models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import product
from typing import Any, Literal

import numpy as np

from ...base.digest import JsonObject
from ...execution.tasks import Execution
from ...kernels.base import BaseKernels, Kernel
from ...kernels.landmarks import Landmarks
from ...learners.class_prior import LABELS, ClassPrior, ClassWeight
from ...learners.laprls.closed_form import closed_form_bytes
from ...learners.laprls.params import LabelLines, SystemParams
from ...learners.laprls.penalties import PENALTIES, Penalties
from ...learners.laprls.problem import DENSE, LapRLSParams, LapRLSProblem, PreparedLapRLS, landmarks_of
from ...learners.losses import SmoothLoss
from ...learners.metrics import HINGE, SQUARED
from ...learners.model import Model
from ...learners.probabilities import calibration_attributes
from ...learners.target.target import Classes, Target
from ...selection.by_labels import LabelFolds, ModelsMade, OfModels, by_labels, with_prior
from ...selection.candidates import LOWEST_ERROR, CandidateScores, Selected, SelectionRule
from ...selection.folds import FoldParams, GivenFolds
from ...selection.halving import ALL, Repetitions, Search, evaluated_by_rungs, json_tables, rungs_of, tables_of
from ...selection.held_out_scores import HeldOut
from ...selection.laprls import KernelSearch, MostProbable, folds_of_labels, search_penalties, without_labels
from ...storage.blocks import Parts, PartWriter
from ...storage.views import SelectedRows
from ..linear import NO_WEIGHTS
from ..step import Context

MANY_LABELS = 100_000  # above which one fold alone is held out: the labels of each fold are summed once more
TIES = {metric.name: metric for metric in (SQUARED, HINGE)}


@dataclass(frozen=True, kw_only=True)
class PenaltyParams:
    """What a model with the norm and the graph's energy as penalties follows from, beside the graph.

    A system is numbered by its loss and its kernel: all kernels of the first loss, then those of the second.

    laprls : penalties, all pairs of which are tried, landmarks, and how systems are solved. losses, kernels : those
    that are tried. cv : the folds by which penalties are chosen, None where there is no choice, or where it is
    `laprls.chosen`. rule, search : what is chosen, of which candidates. tie : by what classes of equal errors are told
    apart, the rmse or the hinge loss, whatever losses are tried. prior, weight : how frequent the classes are among the
    points that are predicted, and what their labels weigh. random_state : of folds and medians. baselines :
    with none, labels are held out to calibrate probabilities alone.
    """

    laprls: LapRLSParams
    losses: tuple[SmoothLoss, ...]
    kernels: BaseKernels
    cv: FoldParams | GivenFolds | None = None
    rule: SelectionRule = LOWEST_ERROR
    search: Search = ALL
    tie: Literal["rmse", "loss"] = "rmse"
    prior: ClassPrior = LABELS
    weight: ClassWeight = NO_WEIGHTS
    random_state: int = 0
    baselines: tuple[str, ...] = ("base",)

    @property
    def numbers(self) -> range:
        """Return the numbers of all losses and kernels."""
        return range(len(self.losses) * len(self.kernels.bandwidths))

    def bandwidth(self, number: int) -> float | str | None:
        return self.kernels.bandwidths[self.kernel(number)]

    def kernel(self, number: int) -> int:
        """Return the number of the kernel alone."""
        return number % len(self.kernels.bandwidths)

    def named(self, number: int) -> dict[str, float | str | None]:
        """Return the parameters of a number: the bandwidth, and if several are tried the loss."""
        loss = self.losses[number // len(self.kernels.bandwidths)].name
        return {**({"loss_function": loss} if len(self.losses) > 1 else {}), "bandwidth": self.bandwidth(number)}

    def number(self, parameters: Mapping[str, Any]) -> int:
        """Return the number of the loss and kernel among some parameters."""
        return next(number for number in self.numbers if self.named(number).items() <= parameters.items())

    def of_number(self, problem: LapRLSProblem, number: int) -> LapRLSProblem:
        """Return the problem with the loss of a number."""
        loss = self.losses[number // len(self.kernels.bandwidths)]
        return replace(problem, params=replace(problem.params, loss=loss))

    def problem(self, context: Context, target: Target) -> LapRLSProblem:
        """Return the problem of all kernels; its labels have the first folds where there is something to choose."""
        laprls, vertices, lists = self.laprls, context.vertex_rows(), context.neighbor_lists()
        weight = context.label_weights(target, self.weight)
        lines = LabelLines.of(vertices.vertex_of(target.labeled),
                              np.ones(len(target.labeled)) if weight is None else weight, target.columns(), ())
        has_graph = context.has_graph and (laprls.uses_graph or laprls.system.solver in DENSE)
        rows = vertices.distinct(context.points("train"))
        laprls = laprls.of_points(len(rows), float(lines.weight.sum()))
        problem = LapRLSProblem(
            rows, target, lines, context.weights() if has_graph else None, laprls, vertices.n,
            vertices.multiplicity, lists.order if lists else None, names=("model", *self.baselines),
            block_parts=None if context.fit else blocks_in(context))
        asked = isinstance(self.cv, GivenFolds)
        return problem.with_folds(self.repetitions(target)[0]) if asked or problem.has_choice or len(
            self.numbers) > 1 else problem

    def repetitions(self, target: Target) -> Repetitions:
        """Return the folds of each repetition; none of one where nothing is tried, or labels cannot tell."""
        if self.laprls.chosen:
            return [folds_of_labels(target, self.laprls.system, self.random_state)]
        return self.cv.repeated(target) if self.cv else [[]]


@dataclass(frozen=True)
class ChoiceOfLandmarks:
    """How landmarks are chosen, None where the solver takes all points; the kernels where they measure leverage."""

    landmarks: LapRLSParams
    kernels: BaseKernels | None

    @classmethod
    def of(cls, params: PenaltyParams) -> "ChoiceOfLandmarks":
        laprls = params.laprls
        bare = LapRLSParams(landmarks=laprls.landmarks, budget=laprls.budget, system=SystemParams(
            solver=laprls.system.solver if laprls.system.solver in DENSE else "auto",
            precision=laprls.system.precision))
        return cls(bare, params.kernels if laprls.landmarks.method == "leverage" else None)


def make_landmarks(context: Context, params: ChoiceOfLandmarks) -> dict[str, list[dict[str, object]]]:
    """Choose the landmarks among the distinct training points; by leverage, those of each bandwidth."""
    vertices, points = context.vertex_rows(), context.points("train")
    rows = vertices.distinct(points)
    labeled = np.unique(vertices.vertex_of(context.target().labeled))
    # The other methods do not ask a kernel.
    kernels: list[Any] = [None] if params.kernels is None else params.kernels.on(points)
    chosen = [landmarks_of(rows, kernel, params.landmarks, labeled, context.execution) for kernel in kernels]
    for index, landmarks in enumerate(chosen):
        if landmarks is not None:
            PartWriter(context.parts, index).write(**landmarks.to_arrays())
    return {"landmarks": [{"count": landmarks.points.shape[0], **landmarks.attributes}
                          for landmarks in chosen if landmarks]}


def landmarks_for(context: Context, number: int) -> Landmarks | None:
    """Return the landmarks for a kernel; None for the methods without."""
    described = context.attributes("landmarks")["landmarks"]
    if not described:
        return None
    index = min(number, len(described) - 1)
    attributes = {name: value for name, value in described[index].items() if name != "count"}
    return Landmarks.from_arrays(context.inputs["landmarks"].parts.read(index), attributes)


def blocks_in(context: Context) -> Parts:
    """Return where points and energy lie in blocks while a stage is made; a run that was killed finds them again."""
    return context.parts.within("blocks")


# ---- selection


@dataclass(frozen=True, eq=False)
class PenaltyEvaluator:
    """Evaluates penalties: all pairs and folds in a kernel are columns of one problem, in one pass over the points.

    rule : returns the rule. systems : of an estimator, the prepared systems by the number of a loss and a kernel.
    """

    context: Context
    rule: Callable[[], SelectionRule]
    systems: dict[int, PreparedLapRLS] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, params: PenaltyParams) -> "PenaltyEvaluator":
        """Return the evaluator of a search over estimators."""
        return cls(context, lambda: params.rule)

    def searched(self, problem: LapRLSProblem, number: int, params: PenaltyParams,
                 kernels: Callable[[], Sequence[Kernel]], folds: Repetitions, rung: int | None) -> KernelSearch:
        """Return the candidates of one kernel and loss.

        kernels : returns those of `params`. folds : of this rung. rung : its number, None for the last, which holds out
        all folds and keeps Gram matrices.
        """
        context, problem = self.context, params.of_number(problem, number)
        place = context.parts.within(f"gram{number}" if rung is None else f"rung{rung}-{number}")
        if context.fit is None and (done := place.receipt_of(0)):
            return KernelSearch.from_json(done)
        landmarks, shares = landmarks_for(context, params.kernel(number)), context.parts.within(
            f"shares{params.kernel(number)}")
        prepared = self.systems.get(number)
        if prepared is None:
            prepared = problem.prepared(kernels()[params.kernel(number)], context.execution, held_out=True,
                                        parts=shares, landmarks=landmarks)
        else:  # of a search before, of more penalties on fewer folds
            cached = replace(problem, block_cache=prepared.problem.block_cache)
            prepared = replace(prepared, problem=cached).with_new_folds(folds[0], context.execution, landmarks)
        if rung is not None:
            prepared = prepared.with_new_folds(folds[0], context.execution, landmarks)
        search = KernelSearch(search_penalties(prepared, context.execution, self.rule(), folds[1:], landmarks,
                                               TIES[params.tie]), prepared.evidence)
        if context.fit is not None:
            self.systems[number] = prepared
            return search
        arrays, attributes = dict[str, np.ndarray](), None
        if rung is None:
            kept = can_hold_out(problem, context.execution, prepared)
            arrays, attributes = prepared.to_arrays(held_out=kept) or ({}, None)
        search = replace(search, stored=attributes)
        place.write(0, arrays)
        place.finish(0, search.to_json())
        if rung is None and len(params.losses) == 1:
            shares.remove()  # now and not before: a killed run keeps those that are done
        return search

    def evaluate(self, candidates: Sequence[PenaltyParams], folds: Repetitions) -> list[CandidateScores]:
        """Return the scores of each candidate; of a penalty or bandwidth "auto" those of its best value."""
        lists: dict[str, Any] = {name: tuple(dict.fromkeys(
            value for params in candidates for value in getattr(params.laprls, name))) for name in PENALTIES}
        first = candidates[0]
        grid = replace(first, laprls=replace(first.laprls, **lists, chosen=False), cv=GivenFolds(folds),
                       rule=self.rule(), baselines=())
        problem = grid.problem(self.context, self.context.target(grid.prior))
        pairs = {(system.gamma_A, system.gamma_I): None for system in problem.candidates["model"]}
        problem = replace(problem, among={"model": list(pairs)})
        kernels = cache(partial(grid.kernels.on, self.context.points("train")))
        scored = {(number, each.parameters["gamma_A"], each.parameters["gamma_I"]): each for number in grid.numbers
                  for each in self.searched(problem, number, grid, kernels, folds, None).candidates}
        for number in grid.numbers:
            self.context.parts.within(f"shares{grid.kernel(number)}").remove()
        numbers = dict(zip(product(*lists.values()), problem.candidates["model"], strict=True))
        asked = [[numbers[pair] for pair in product(*(getattr(params.laprls, name) for name in PENALTIES))]
                 for params in candidates]
        return [self.rule().select([scored[number, system.gamma_A, system.gamma_I] for number in grid.numbers
                                    for system in systems]) for systems in asked]


def make_selection(context: Context, params: PenaltyParams) -> Selected:
    """Select penalties, bandwidth and loss of each model by cross-validation; without a grid, use those given.

    The Gram matrices of the selected kernels are kept, so that the fit needs no other pass over the points. A killed
    run resumes after the last finished kernel, or the last finished share of its Gram matrices.
    """
    target = context.target(params.prior)
    problem = params.problem(context, target)
    kernels: Callable[[], Sequence[Kernel]] = list
    if problem.folds:  # for a median distance all points are read
        kernels = context.execution.concurrently(partial(params.kernels.on, context.points("train")))
    rule = MostProbable.beside(problem, context.execution, params.kernels.bandwidths) if params.laprls.chosen else (
        lambda: params.rule)
    if not problem.folds:
        return {"folds": 0, "rule": asdict(rule()), "choices": {name: {
            **without_labels(problem, name, rule()), **params.named(0)} for name in problem.names}}
    repetitions = params.repetitions(target)
    systems = params.search.drawn([(number, system) for number in params.numbers
                                   for system in dict.fromkeys(problem.candidates["model"])])
    seen = {(number, system.gamma_A) for number, system in systems}
    candidates = {"model": systems, **{name: [(number, penalties) for number in params.numbers
                                              for penalties in dict.fromkeys(systems_of)
                                               if (number, penalties.gamma_A) in seen]
                                       for name, systems_of in problem.candidates.items() if name != "model"}}
    rungs = rungs_of(repetitions, len(systems), params.search.factor)
    searches: dict[int, KernelSearch] = {}
    evaluator = PenaltyEvaluator(context, rule)
    if context.fit is not None:
        context.fit.evaluator = evaluator

    def evaluate(rung: int, in_rung: Mapping[str, Sequence[Any]],
                 folds: Repetitions) -> dict[str, list[CandidateScores]]:
        scored: dict[tuple[int, float, float], CandidateScores] = {}
        searches.clear()
        for number in sorted({number for of_model in in_rung.values() for number, _ in of_model}):
            among = {name: [(system.gamma_A, system.gamma_I) for of, system in of_model if of == number]
                     for name, of_model in in_rung.items()}
            searches[number] = evaluator.searched(replace(problem, among=among), number, params, kernels, folds,
                                                  None if rung + 1 == len(rungs) else rung)
            for each in searches[number].candidates:
                named = each.with_parameters(**params.named(number))
                scored[number, each.parameters["gamma_A"], each.parameters["gamma_I"]] = named
        return {name: [scored[number, system.gamma_A, system.gamma_I] for number, system in of_model]
                for name, of_model in in_rung.items()}

    tables, finalists = tables_of(
        evaluated_by_rungs(candidates, repetitions, params.search, rule, evaluate), params.search)
    for number in range(len(params.kernels.bandwidths)):
        context.parts.within(f"shares{number}").remove()
    blocks_in(context).remove()
    selected = {name: rule().select(of_model) for name, of_model in finalists.items()}
    used = {name: params.number(candidate.parameters) for name, candidate in selected.items()}
    for number in params.numbers:
        if number not in used.values():
            context.parts.within(f"gram{number}").remove()
    choices = {name: candidate.to_json() for name, candidate in selected.items()}
    return {"folds": len(problem.folds), "repetitions": len(repetitions), "rule": asdict(rule()),
            "search": asdict(params.search), "held_out_points": params.laprls.system.held_out_points,
            "bandwidths": [getattr(kernel, "bandwidth", None) for kernel in kernels()],
            "choices": {**choices, **({"shuffled": choices["model"]} if "shuffled" in problem.names else {})},
            "grid": json_tables(tables), "scores": {name: dict(of.all_scores or {}) for name, of in selected.items()},
            "evidence": [{**params.named(number), **(searches[number].evidence if number in searches else {})}
                         for number in params.numbers],
            "kept": [searches[number].stored if number in used.values() else None for number in params.numbers]}


def can_hold_out(problem: LapRLSProblem, execution: Execution, prepared: PreparedLapRLS) -> bool:
    """Return whether the fit will leave labels out, for probabilities and comparisons: where it can, and it fits."""
    m, s = len(problem.lines.row), prepared.points.shape[0]
    return bool(LabelFolds.of(problem.target).compared) and closed_form_bytes(m, s) <= execution.memory_budget


# ---- models


def make_models(context: Context, params: PenaltyParams) -> ModelsMade:
    """Fit the model and its baselines with the parameters that were chosen."""
    target, compares = context.target(params.prior), bool(params.baselines)
    selection, problem = context.attributes("selection"), params.problem(context, target)
    systems: dict[int, dict[str, Penalties]] = {}
    for name in problem.names:
        choice = selection["choices"][name]
        system = next(system for system in problem.candidates["model" if name == "shuffled" else name]
                      if (system.gamma_A, system.gamma_I) == (choice["gamma_A"], choice["gamma_I"]))
        systems.setdefault(params.number(choice), {})[name] = replace(system, control=name == "shuffled")
    models, described, evidence = dict[str, Model](), dict[str, JsonObject](), list[dict[str, object]]()
    weight, holds_out = context.label_weights(target, params.weight), compares or isinstance(target, Classes)
    folds = LabelFolds.of(target, params.random_state, one_above=MANY_LABELS, curve=compares)
    held_out_by_model, of_model = dict[str, list[HeldOut]](), list[HeldOut]()
    for number, numbered in systems.items():
        later = folds.compared if holds_out else []
        prepared = _prepared(context, params.of_number(problem, number), number, params, later)
        fitted = prepared.fitted(numbered)
        if not evidence and not prepared.solver.cheap_leave_one_out:
            folds = LabelFolds.of(target, params.random_state, a_fit_each=True, one_above=MANY_LABELS, curve=False)
        evidence.append({**params.named(number), **fitted.evidence, "models": list(numbered)})
        for name, system in numbered.items():
            is_held_out = name in ("model", "base") and holds_out
            # A control is moved as the model is.
            fits = _held_out_values(prepared, system, folds, weight) if is_held_out else of_model
            model, calibration, moved = with_prior(fitted.models[name], target, fits, context.points("train"),
                                                   weight=weight)
            if is_held_out:
                held_out_by_model[name] = moved
            attributes: dict[str, Any] = {"name": name, "n_labeled": len(target.labeled), "parameters": {
                "gamma_A": system.gamma_A, "gamma_I": system.gamma_I, **params.named(number)}}
            if name == "model":
                of_model = fits
                attributes |= calibration_attributes(calibration)
            if compares:
                labeled = SelectedRows(context.points("train"), target.labeled)
                attributes |= target.training_metrics(model.values(labeled, context.execution), model.coding)
            described[name], models[name] = attributes, replace(model, attributes=attributes)
    ordered = {name: models[name] for name in problem.names}
    written = context.write_models(ordered)
    blocks_in(context).remove()
    held_out = {name: of_model for name, of_model in held_out_by_model.items() if of_model}
    of_labels = by_labels(target, folds, held_out)
    compared: OfModels = {"by_labels": of_labels} if compares else {}
    return {"models": {name: {**described[name], **written[name]} for name in ordered}, "evidence": evidence,
            **compared}


def _prepared(context: Context, problem: LapRLSProblem, number: int, params: PenaltyParams,
              later: Sequence[np.ndarray]) -> PreparedLapRLS:
    """Return the systems of a number: those of the selection, from the Gram matrices that it kept, or by its method.

    later : the folds that will be held out.
    """
    known = None if context.fit is None else context.fit.evaluator
    if isinstance(known, PenaltyEvaluator) and number in known.systems:
        return known.systems[number]
    selection, landmarks = context.attributes("selection"), landmarks_for(context, params.kernel(number))
    bandwidth = params.bandwidth(number)
    if selection["folds"] and isinstance(params.kernels.name, str):  # and not a kernel, which has its own
        bandwidth = selection["bandwidths"][params.kernel(number)]
    kernel = params.kernels.at(bandwidth, context.points("train"))
    kept = selection["kept"][number] if selection["folds"] else None
    if kept is not None:
        assert landmarks is not None  # Gram matrices are of landmarks
        stored = context.inputs["selection"].parts.within(f"gram{number}").read(0)
        return problem.restored(kernel, context.execution, landmarks.points, stored, kept)
    if selection["folds"]:
        system = replace(problem.params.system, solver=selection["evidence"][number]["method"])
        problem = replace(problem, params=replace(problem.params, system=system))
    shares = context.parts.within(f"shares{number}")
    prepared = problem.prepared(kernel, context.execution, held_out=False, parts=shares, landmarks=landmarks,
                                later=later)
    shares.remove()
    return prepared


def _held_out_values(prepared: PreparedLapRLS, pair: Penalties, folds: LabelFolds,
                     weight: np.ndarray | None) -> list[HeldOut]:
    """Return the values at labels held out; none where that does not fit the memory budget."""
    target, repetitions = prepared.problem.target, folds.repetitions
    if not repetitions or not prepared.solver.can_hold_out:
        return []
    return [HeldOut(target, target.coding, values, each, weight)
            for values, each in zip(prepared.held_out_pairs(pair, repetitions), repetitions, strict=True)]
