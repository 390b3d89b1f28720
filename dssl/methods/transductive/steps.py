"""The steps of transductive support vector machines: landmarks, selection, models.

A label that is held out, of which probabilities, errors and a choice follow, is an unlabeled point of a column of its
own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...base.digest import JsonObject
from ...base.units import MEMORY_BUDGET
from ...kernels.base import BaseKernels
from ...kernels.landmarks import LandmarkParams, Landmarks, choose_landmarks, landmark_count
from ...learners.class_prior import LABELS, ClassPrior, ClassWeight
from ...learners.linear.kernel_model import KernelModel
from ...learners.linear.transductive import (
    NystromFeatures,
    Signs,
    TransductiveParams,
    fit_transductive,
    landmarks_that_fit,
    require_fit,
)
from ...learners.metrics import HINGE
from ...learners.model import Model
from ...learners.probabilities import calibration_attributes
from ...learners.target.target import Classes
from ...selection.by_labels import LabelFolds, ModelsMade, OfModels, by_labels, with_prior
from ...selection.calibration import calibration_of
from ...selection.candidates import LOWEST_ERROR, CandidateScores, Selected, SelectionRule
from ...selection.folds import FoldParams
from ...selection.halving import ALL, Repetitions, Search, evaluated_by_rungs, json_tables, tables_of
from ...selection.held_out_scores import HeldOut
from ...storage.blocks import PartWriter
from ..linear import NO_WEIGHTS
from ..step import Context

Bandwidth = float | str | None  # of a base kernel


@dataclass(frozen=True)
class Candidate:
    """What may be chosen: the bandwidth of the kernel, and the penalties."""

    bandwidth: Bandwidth
    penalties: TransductiveParams

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Candidate":
        """Return that of a row of a search."""
        return cls(row["bandwidth"], TransductiveParams(C=row["C"], unlabeled_weight=row["unlabeled_weight"]))

    @property
    def named(self) -> dict[str, object]:
        """Return what a row of a search tells of its parameters."""
        return {**asdict(self.penalties), "bandwidth": self.bandwidth}

    @property
    def supervised(self) -> "Candidate":
        """Return the parameters of the supervised baseline."""
        return replace(self, penalties=replace(self.penalties, unlabeled_weight=0.0))


@dataclass(frozen=True, kw_only=True)
class HeldOutLabels:
    """Which labels are held out: `always`, to calibrate and to compare, or by `cv`, to choose."""

    always: bool
    cv: FoldParams | None
    random_state: int

    def folds(self, target: Classes) -> LabelFolds:
        """Return those of the models; none where nothing asks for them."""
        if not self.always:
            return LabelFolds([], [])
        return LabelFolds.of(target, self.random_state, a_fit_each=True, curve=False)

    def n_columns(self, target: Classes) -> int:
        return columns_of(target, [self.folds(target).compared, *(self.cv.repeated(target) if self.cv else [])])


def columns_of(target: Classes, repetitions: Repetitions) -> int:
    """Return the columns of a fit to all labels, and without each fold of the repetition that has the most."""
    return target.columns().shape[1] * (1 + max(map(len, repetitions)))


@dataclass(frozen=True, kw_only=True)
class TransductiveKernelParams:
    """What a transductive support vector machine follows from.

    kernels : the base kernel with each bandwidth that is tried. penalties : the penalties that are tried. landmarks,
    budget : how many landmarks, and the bytes by which they are counted. prior, weight : how frequent the classes are
    among the unlabeled points, or all if they are known sizes, and what labels weigh. probability : whether labels are
    held out to calibrate probabilities. random_state : of folds and medians. baselines : "base", or none. cv : the
    folds where there is something to choose, else None. rule, search : what is chosen, of which candidates.
    """

    kernels: BaseKernels
    penalties: tuple[TransductiveParams, ...]
    landmarks: LandmarkParams
    budget: int = MEMORY_BUDGET
    prior: ClassPrior = LABELS
    weight: ClassWeight = NO_WEIGHTS
    probability: bool = True
    random_state: int = 0
    baselines: tuple[str, ...] = ("base",)
    cv: FoldParams | None = None
    rule: SelectionRule = LOWEST_ERROR
    search: Search = ALL

    @property
    def held_out(self) -> HeldOutLabels:
        always = self.probability or bool(self.baselines)
        return HeldOutLabels(always=always, cv=self.cv, random_state=self.random_state)

    def candidates(self) -> dict[str, list[Candidate]]:
        """Return by name the candidates of the model and its baseline, of a random search those that are drawn."""
        drawn = self.search.drawn([Candidate(bandwidth, penalties) for bandwidth in self.kernels.bandwidths
                                   for penalties in self.penalties])
        supervised = list(dict.fromkeys(candidate.supervised for candidate in drawn))
        return {"model": drawn, **dict.fromkeys(self.baselines, supervised)}


# ---- landmarks


@dataclass(frozen=True, kw_only=True)
class LandmarkChoice:
    """How landmarks are chosen: by default as many as the columns of the fits leave room for.

    kernels : where leverage in them is measured, else None.
    """

    landmarks: LandmarkParams
    budget: int
    held_out: HeldOutLabels
    kernels: BaseKernels | None

    @classmethod
    def of(cls, params: TransductiveKernelParams) -> "LandmarkChoice":
        kernels = params.kernels if params.landmarks.method == "leverage" else None
        return cls(landmarks=params.landmarks, budget=params.budget, held_out=params.held_out, kernels=kernels)


def make_landmarks(context: Context, params: LandmarkChoice) -> dict[str, Any]:
    """Choose the landmarks among the training points; by leverage, those of each bandwidth."""
    rows, target = context.points("train"), context.target()
    assert isinstance(target, Classes)
    n, width = len(rows), params.held_out.n_columns(target)
    max_landmarks = landmarks_that_fit(n, n, width, params.budget, context.execution.tasks_per_process)
    count = landmark_count(params.landmarks, len(target.labeled), n, max_landmarks)
    require_fit(n, count, width, context.execution)
    # The other methods do not ask a kernel.
    kernels: list[Any] = [None] if params.kernels is None else params.kernels.on(rows)
    chosen = [choose_landmarks(rows, kernel, count, params.landmarks, context.execution, preferred=target.labeled)
              for kernel in kernels]
    for index, landmarks in enumerate(chosen):
        PartWriter(context.parts, index).write(**landmarks.to_arrays())
    return {**chosen[0].attributes, "n_landmarks": max(landmarks.points.shape[0] for landmarks in chosen)}


def features_at(context: Context, params: TransductiveKernelParams, bandwidth: Bandwidth,
                n_columns: int) -> NystromFeatures:
    """Return the features of the kernel of a bandwidth on its landmarks, for fits of so many columns."""
    by_bandwidth = params.landmarks.method == "leverage"
    part = params.kernels.bandwidths.index(bandwidth) if by_bandwidth else 0
    rows, landmarks = context.points("train"), context.inputs["landmarks"].parts.read(part)
    return NystromFeatures.of(rows, params.kernels.at(bandwidth, rows), Landmarks.from_arrays(landmarks, {}).points,
                              n_columns, context.execution)


# ---- models


def sizes_of(target: Classes, n: int, weight: np.ndarray | None) -> np.ndarray | None:
    """Return how many of n points are of each class, (n_classes,), None where the labels say it.

    Known sizes are those of all points; of other frequencies than the labels', those of the unlabeled points.

    Raises ParameterError: as `ClassPrior.require_room`.
    """
    if target.prior == LABELS:
        return None
    target.require_room(n)
    shares, labeled = target.prior.shares(target.coded, target.names, weight), np.bincount(
        target.coded, minlength=len(target.names))
    if target.prior.source == "sizes":
        free = np.maximum(shares * n - labeled, 0.0)
        return labeled + free * ((n - len(target.labeled)) / max(float(free.sum()), 1.0))
    return shares * (n - len(target.labeled)) + labeled


def known_signs(target: Classes, n: int, folds: Sequence[np.ndarray]) -> np.ndarray:
    """Return the signs (n, t) of the columns of all labels, and of those without each fold; 0 where none is known."""
    columns = target.columns()
    signs = np.zeros((n, (1 + len(folds)) * columns.shape[1]))
    signs[target.labeled] = np.tile(columns, 1 + len(folds))
    for number, fold in enumerate(folds, 1):
        signs[target.labeled[fold], number * columns.shape[1]:(number + 1) * columns.shape[1]] = 0.0
    return signs


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model of all labels, `model`; values (l, c) of the labels by models without the fold of each, else NaN."""

    model: KernelModel
    values: np.ndarray
    evidence: dict[str, Any]


def fit_model(context: Context, params: TransductiveKernelParams, penalties: TransductiveParams,
              folds: Sequence[np.ndarray], features: NystromFeatures) -> FittedModel:
    """Return the model of the penalties on features of all points, with columns for folds of the labels."""
    target, n = context.target(params.prior), len(features.Psi)
    assert isinstance(target, Classes)
    weight = context.label_weights(target, params.weight)
    sizes, columns, weights = sizes_of(target, n, weight), target.columns().shape[1], np.ones(n)
    weights[target.labeled] = 1.0 if weight is None else weight
    signs = Signs.of(known_signs(target, n, folds), weights, None if sizes is None else np.tile(
        sizes[-columns:], 1 + len(folds)), penalties)
    fitted = fit_transductive(features, signs)
    coef, intercept = target.coding.all_columns(fitted.coef[:, :columns], fitted.intercept[:columns])
    values = np.full((len(target.labeled), columns), np.nan)
    for number, fold in enumerate(folds, 1):
        values[fold] = fitted.values[target.labeled[fold], number * columns:(number + 1) * columns]
    made = features.model
    return FittedModel(KernelModel(made.kernel, made.points, coef, intercept, target.coding), values, {
        name: value[:columns] if isinstance(value, list) else value for name, value in fitted.evidence.items()})


def fit_models(context: Context, params: TransductiveKernelParams, candidates: Sequence[Candidate],
               repetitions: Repetitions) -> dict[Candidate, list[FittedModel]]:
    """Return the models of candidates, for each repetition one with columns for its folds of the labels.

    One bandwidth after the other, whose features serve all its models and are given back before the next.
    """
    models = dict[Candidate, list[FittedModel]]()
    for bandwidth in dict.fromkeys(candidate.bandwidth for candidate in candidates):
        alike = dict.fromkeys(candidate for candidate in candidates if candidate.bandwidth == bandwidth)
        models |= zip(alike, _fit_at(context, params, bandwidth, [candidate.penalties for candidate in alike],
                                     repetitions), strict=True)
    return models


def _fit_at(context: Context, params: TransductiveKernelParams, bandwidth: Bandwidth,
            penalties: Sequence[TransductiveParams], repetitions: Repetitions) -> list[list[FittedModel]]:
    target = context.target()
    assert isinstance(target, Classes)
    features = features_at(context, params, bandwidth, columns_of(target, repetitions))
    return [[fit_model(context, params, each, folds, features) for folds in repetitions] for each in penalties]


# ---- selection


def alone(candidates: Sequence[TransductiveKernelParams]) -> TransductiveKernelParams:
    """Return the parameters of the first of some candidates, of which no labels are held out but those of a search."""
    return replace(candidates[0], probability=False, baselines=())


@dataclass(frozen=True, eq=False)
class TransductiveEvaluator:
    """Evaluates transductive SVMs on the landmarks of the step; the columns of a fit hold out the folds.

    complete : whether every score is computed.
    """

    context: Context
    params: TransductiveKernelParams
    complete: bool = False

    @classmethod
    def of(cls, context: Context, params: TransductiveKernelParams) -> "TransductiveEvaluator":
        """Return the evaluator of a search."""
        return cls(context, params)

    def scores_of(self, candidates: Mapping[str, Sequence[Candidate]],
                  folds: Repetitions) -> dict[str, list[CandidateScores]]:
        """Return by name the scores of candidates of the model and its baseline; equal models are fitted once."""
        models = fit_models(self.context, self.params, [
            candidate for of_model in candidates.values() for candidate in of_model], folds)
        return {name: [self._scores(name, candidate, models[candidate], folds) for candidate in of_model]
                for name, of_model in candidates.items()}

    def _scores(self, name: str, candidate: Candidate, models: Sequence[FittedModel],
                folds: Repetitions) -> CandidateScores:
        target = self.context.target(self.params.prior)
        weight = self.context.label_weights(target, self.params.weight)
        fitted = [HeldOut(target, target.coding, model.values, of_repetition, weight)
                  for model, of_repetition in zip(models, folds, strict=True)]
        # The supervised baseline knows no frequencies but those of the labels, by which its values are shifted.
        held_out = [values.with_prior(LABELS) for values in fitted] if name == "base" else fitted
        return CandidateScores.of(held_out, HINGE, self.params.rule.scoring, fitted, complete=self.complete,
                                  C=candidate.penalties.C)

    def evaluate(self, candidates: Sequence[TransductiveKernelParams], folds: Repetitions) -> list[CandidateScores]:
        tried = [candidate for params in candidates for candidate in params.candidates()["model"]]
        return self.scores_of({"model": tried}, folds)["model"]


def make_selection(context: Context, params: TransductiveKernelParams) -> Selected:
    """Select bandwidth and penalties of the model and its baseline by cross-validation; else use those given."""
    candidates, rule = params.candidates(), asdict(params.rule)
    if params.cv is None:
        return {"folds": 0, "rule": rule, "choices": {name: given.named for name, (given,) in candidates.items()}}
    target = context.target(params.prior)
    target.require_labels()
    repetitions, evaluator = params.cv.repeated(target), TransductiveEvaluator(context, params, complete=True)

    def evaluate(rung: int, in_rung: Mapping[str, Sequence[Any]],
                 folds: Repetitions) -> dict[str, list[CandidateScores]]:
        scored = evaluator.scores_of(in_rung, folds)
        return {name: [replace(each, parameters={**candidate.named, **each.parameters})
                       for candidate, each in zip(of_model, scored[name], strict=True)]
                for name, of_model in in_rung.items()}

    rungs = evaluated_by_rungs(candidates, repetitions, params.search, lambda: params.rule, evaluate)
    tables, finalists = tables_of(rungs, params.search)
    selected = {name: params.rule.select(of_model) for name, of_model in finalists.items()}
    return {"folds": len(repetitions[0]), "repetitions": len(repetitions), "rule": rule,
            "search": asdict(params.search), "choices": {name: each.to_json() for name, each in selected.items()},
            "grid": json_tables(tables), "scores": {name: each.all_scores for name, each in selected.items()}}


# ---- models


def make_models(context: Context, params: TransductiveKernelParams) -> ModelsMade:
    """Fit the model and its baseline with the parameters that were chosen, with the labels that are held out."""
    target = context.target(params.prior)
    assert isinstance(target, Classes)
    target.require_labels()
    weight, folds = context.label_weights(target, params.weight), params.held_out.folds(target)
    choices = context.attributes("selection")["choices"]
    chosen = {name: Candidate.of(choices[name]) for name in ("model", *params.baselines)}
    fitted_models = fit_models(context, params, list(chosen.values()), [folds.compared])
    models, described = dict[str, Model](), dict[str, JsonObject]()
    held_out, evidence = dict[str, list[HeldOut]](), JsonObject()
    for name, candidate in chosen.items():
        fitted, = fitted_models[candidate]
        fits = [HeldOut(target, target.coding, fitted.values, folds.compared, weight)] if folds.compared else []
        attributes: dict[str, Any] = {"name": name, "n_labeled": len(target.labeled), "parameters": candidate.named}
        model, calibration = fitted.model, None
        if name == "model":
            evidence = fitted.evidence
            if params.probability and fits:
                calibration = calibration_of(target, partial(np.copy, fitted.values), target.coding, weight)
            attributes |= calibration_attributes(calibration)
        else:  # of the labels alone, which know no frequencies but their own
            model, _, fits = with_prior(model, target, fits, context.points("train"), weight=weight)
        models[name], described[name], held_out[name] = replace(model, attributes=attributes), attributes, fits
    written = context.write_models(models)
    of_labels = by_labels(target, folds, {name: fits for name, fits in held_out.items() if fits})
    compared: OfModels = {"by_labels": of_labels} if params.baselines else {}
    return {"models": {name: {**described[name], **written[name]} for name in models}, "evidence": evidence,
            **compared}
