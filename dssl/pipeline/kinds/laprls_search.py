"""The selection of the kinds `laprls` and `lapsvm`: penalties, bandwidths and losses by cross-validation."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ...execution.tasks import Execution
from ...kernels.base import BaseKernels, Kernel
from ...kernels.landmarks import Landmarks
from ...learners.class_prior import ClassPrior, ClassWeight
from ...learners.laprls.closed_form import closed_form_bytes
from ...learners.laprls.params import LabelLines
from ...learners.laprls.problem import DENSE, LapRLSParams, LapRLSProblem, PreparedLapRLS
from ...learners.losses import SmoothLoss
from ...learners.target.target import Target
from ...methods.step import Context
from ...selection.by_labels import LabelFolds
from ...selection.choice import LOWEST, ChoiceRule
from ...selection.chosen import ProbablePair, folds_to_choose
from ...selection.folds import FoldParams
from ...selection.halving import ALL, Repetitions, Search, judged_by_rungs, rungs_of
from ...selection.laprls import ChosenPenalties, SearchedPenalties, choose_penalties, search_penalties, untold
from ...storage.blocks import Parts
from .laprls_spec import LapRLSPipeline


def kernels_of(spec: LapRLSPipeline) -> BaseKernels:
    """Return the base kernel with each bandwidth."""
    return BaseKernels(spec.kernel.name, spec.kernel.parameters, tuple(kernel.bandwidth for kernel in spec.kernels()),
                       spec.model.landmarks.random_state)


def blocks_in(context: Context) -> Parts:
    """Return where points and energy lie in blocks while a stage is made; a run that was killed finds them again."""
    return context.parts.within("blocks")


def landmarks_for(context: Context, number: int) -> Landmarks | None:
    """Return the landmarks for a kernel; None for the methods without."""
    described = context.attributes("landmarks")["landmarks"]
    if not described:
        return None
    index = min(number, len(described) - 1)
    attributes = {name: value for name, value in described[index].items() if name != "count"}
    return Landmarks.from_arrays(context.inputs["landmarks"].parts.read(index), attributes)


@dataclass(frozen=True)
class FitParams:
    """The problem, its losses, kernels and baselines, and the folds where there is something to choose.

    A system is numbered by its loss and its kernel: all kernels of the first loss, then those of the second.
    """

    laprls: LapRLSParams
    losses: tuple[SmoothLoss, ...]
    kernels: BaseKernels
    baselines: tuple[str, ...]
    cv: FoldParams | None
    rule: ChoiceRule
    search: Search
    prior: ClassPrior
    weight: ClassWeight

    @classmethod
    def of(cls, spec: LapRLSPipeline) -> "FitParams":
        chosen = spec.selection
        return cls(spec.laprls(), spec.losses(), kernels_of(spec), spec.baselines,
                   chosen.cv() if chosen else None, chosen.rule() if chosen else LOWEST,
                   chosen.searched() if chosen else ALL, spec.prior, spec.weight)

    @property
    def numbers(self) -> range:
        """Return the numbers of all losses and kernels."""
        return range(len(self.losses) * len(self.kernels.bandwidths))

    def kernel(self, number: int) -> int:
        """Return the number of the kernel alone."""
        return number % len(self.kernels.bandwidths)

    def named(self, number: int) -> dict[str, Any]:
        """Return what a row tells of a number: the bandwidth, and where several are tried the loss."""
        loss = self.losses[number // len(self.kernels.bandwidths)].name
        return {**({"loss_function": loss} if len(self.losses) > 1 else {}),
                "bandwidth": self.kernels.bandwidths[self.kernel(number)]}

    def number(self, row: Mapping[str, Any]) -> int:
        """Return the number of a row."""
        return next(number for number in self.numbers if self.named(number).items() <= row.items())

    def of_number(self, problem: LapRLSProblem, number: int) -> LapRLSProblem:
        """Return the problem with the loss of a number."""
        loss = self.losses[number // len(self.kernels.bandwidths)]
        return replace(problem, params=replace(problem.params, loss=loss))

    def problem(self, context: Context, target: Target) -> LapRLSProblem:
        """Return the problem of all kernels; its labels have the first folds where there is something to choose."""
        own, vertices, lists = self.laprls, context.vertex_rows(), context.neighbor_lists()
        weight = target.label_weights(self.weight)
        lines = LabelLines.of(vertices.vertex_of(target.labeled),
                              np.ones(len(target.labeled)) if weight is None else weight, target.columns(), ())
        problem = LapRLSProblem(
            vertices.distinct(context.points("train")), target, lines,
            context.inputs["graph"].parts if own.uses_graph or own.system.solver in DENSE else None, own,
            vertices.n, vertices.multiplicity, lists.order if lists else None, names=("model", *self.baselines),
            kept=blocks_in(context))
        if not (problem.has_choice or len(self.numbers) > 1):
            return problem
        return problem.with_folds(self.repetitions(target)[0])

    def repetitions(self, target: Target) -> Repetitions:
        """Return the folds of each repetition; none of one where nothing is tried, or labels cannot tell."""
        if self.laprls.chosen:
            return [folds_to_choose(target, self.laprls.system, self.kernels.random_state)]
        return self.cv.repeated(target) if self.cv else [[]]


def make_selection(context: Context, params: FitParams) -> dict[str, Any]:
    """Choose penalties, bandwidth and loss of each model by cross-validation; without a grid, take those given.

    Where Gram matrices were made, those of the kernels that were chosen are kept for the fit, so that it needs no
    other pass over the points. A run that was killed goes on after the last kernel that was done, and within the one
    that was not after the last share of its Gram matrices, which serve all losses and rungs.
    """
    target = context.target(params.prior)
    problem = params.problem(context, target)
    if params.laprls.chosen:
        params = replace(params, rule=ProbablePair.of(problem, context.execution, params.kernels.bandwidths))
    if not problem.folds:
        tables = [untold(problem)] if params.laprls.chosen else []
        return {"folds": 0, "rule": asdict(params.rule),
                "choices": _choices(choose_penalties(problem, tables, params.rule), params)}
    repetitions, kernels = params.repetitions(target), params.kernels.on(context.points("train"))
    systems = params.search.drawn([(number, system) for number in params.numbers
                                   for system in problem.allowed["model"]])
    seen = {(number, system.gamma_A) for number, system in systems}
    candidates = {"model": systems, **{name: [(number, own) for number in params.numbers for own in systems_of
                                              if (number, own.gamma_A) in seen]
                                       for name, systems_of in problem.allowed.items() if name != "model"}}
    rungs = rungs_of(repetitions, len(systems), params.search.factor)
    found: dict[int, dict[str, Any]] = {}

    def judge(rung: int, standing: Mapping[str, Sequence[Any]], folds: Repetitions) -> dict[str, list[dict[str, Any]]]:
        rows: dict[tuple[int, float, float], dict[str, Any]] = {}
        found.clear()
        for number in sorted({number for own in standing.values() for number, _ in own}):
            among = {name: [(system.gamma_A, system.gamma_I) for of, system in own if of == number]
                     for name, own in standing.items()}
            own = replace(params.of_number(problem, number), among=among)
            found[number] = _searched(context, own, kernels[params.kernel(number)], number, params, folds,
                                      None if rung + 1 == len(rungs) else rung)
            for row in found[number]["table"]["rows"]:
                rows[number, row["gamma_A"], row["gamma_I"]] = {**row, **params.named(number)}
        return {name: [rows[number, system.gamma_A, system.gamma_I] for number, system in own]
                for name, own in standing.items()}

    grid, last = judged_by_rungs(candidates, repetitions, params.search, params.rule, judge)
    for number in range(len(kernels)):
        context.parts.within(f"shares{number}").remove()
    blocks_in(context).remove()
    choices = {name: params.rule.choose(rows) for name, rows in last.items()}
    used = {name: params.number(row) for name, row in choices.items()}
    for number in params.numbers:
        if number not in used.values():
            context.parts.within(f"gram{number}").remove()
    scores = {}
    for name, row in choices.items():
        table = SearchedPenalties(**found[used[name]]["table"])
        place = next(place for place, own in enumerate(table.rows) if own.items() <= row.items())
        scores[name] = table.scores[place] or {}
    return {"folds": len(problem.folds), "repetitions": len(repetitions), "rule": asdict(params.rule),
            "search": asdict(params.search), "held_out_points": params.laprls.system.held_out_points,
            "choices": {**choices, **({"shuffled": choices["model"]} if "shuffled" in problem.names else {})},
            "grid": grid, "scores": scores,
            "evidence": [{**params.named(number), **(found[number]["evidence"] if number in found else {})}
                         for number in params.numbers],
            "kept": [found[number]["kept"] if number in used.values() else None for number in params.numbers]}


def _searched(context: Context, problem: LapRLSProblem, kernel: Kernel, number: int, params: FitParams,
              folds: Repetitions, rung: int | None) -> dict[str, Any]:
    """Return the search of one kernel and loss as `table`, `evidence`, and of what was `kept` the attributes; JSON.

    folds : of this rung; rung : its number, None of the last, which holds out all folds, and keeps Gram matrices.
    """
    own = context.parts.within(f"gram{number}" if rung is None else f"rung{rung}-{number}")
    if done := own.receipt_of(0):
        return done
    landmarks, shares = landmarks_for(context, params.kernel(number)), context.parts.within(
        f"shares{params.kernel(number)}")
    prepared = problem.prepared(kernel, context.execution, held_out=True, parts=shares, landmarks=landmarks)
    if rung is not None:
        prepared = prepared.refolded(folds[0], context.execution, landmarks)
    table = search_penalties(prepared, context.execution, params.rule, folds[1:], landmarks)
    arrays, attributes = (prepared.to_arrays(left_out=leaves_out(problem, context.execution, prepared))
                          if rung is None else None) or ({}, None)
    own.write(0, arrays)
    receipt = {"table": asdict(table), "evidence": prepared.evidence, "kept": attributes}
    own.finish(0, receipt)
    if rung is None and len(params.losses) == 1:
        shares.remove()  # now and not before: a killed run keeps those that are done
    return receipt


def leaves_out(problem: LapRLSProblem, execution: Execution, prepared: PreparedLapRLS) -> bool:
    """Return whether the fit will leave labels out, for probabilities and comparisons: where it can, and it fits."""
    m, s = len(problem.lines.row), prepared.points.shape[0]
    return bool(LabelFolds.of(problem.target).compared) and closed_form_bytes(m, s) <= execution.memory_budget


def _choices(chosen: dict[str, ChosenPenalties], params: FitParams) -> dict[str, dict[str, Any]]:
    """Return the parameters that were chosen for each model."""
    return {name: {"gamma_A": own.system.gamma_A, "gamma_I": own.system.gamma_I, **params.named(own.number)}
            for name, own in chosen.items()}
