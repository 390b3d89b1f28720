"""Transductive support vector machines, whose boundary avoids the unlabeled points, without a graph: `transductive`.

    landmarks   the points that functions are sums over
    models      the machine, and its supervised baseline `base`: the same machine of the labels alone

The labels that are held out, of which probabilities and errors follow, are unlabeled points of columns of their own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from ..base.errors import DsslError, require
from ..execution.cost import Cost, cost_of, gram_seconds
from ..execution.size import MEMORY_BUDGET
from ..kernels.base import BaseKernels
from ..kernels.landmarks import LandmarkParams, Landmarks, choose_landmarks, landmark_count, landmarks_cost
from ..learners.class_prior import LABELS, ClassPrior, ClassWeight
from ..learners.linear.kernel_model import KernelModel
from ..learners.linear.transductive import (
    Fitted,
    Signs,
    TransductiveParams,
    fit_bytes,
    fit_transductive,
    landmarks_that_fit,
    require_fit,
)
from ..learners.measures import HINGE
from ..learners.model import Model
from ..learners.probabilities import calibration_attributes
from ..learners.target.target import Classes
from ..report.sections.solver import transductive_section
from ..report.words import Baseline, Words
from ..selection.by_labels import LabelFolds, by_labels, with_prior
from ..selection.calibration import FOLDS, calibration_of
from ..selection.choice import LOWEST, ChoiceRule
from ..selection.halving import Repetitions
from ..selection.held_out_scores import HeldOut, held_out_scores
from ..storage.blocks import PartWriter
from .linear import NO_WEIGHTS
from .plan_inputs import PlanInputs, guessing_unless
from .sections import KernelSection, Sections, SizedModel, baseline_mistakes
from .step import Context, Method, Step, cost_of_test_points


@dataclass(frozen=True, kw_only=True)
class MachineParams:
    """What a transductive machine follows from.

    kernels : the base kernel. machine : the penalties. landmarks, budget : how many landmarks, and the bytes by which
    they are counted. prior, weight : how frequent the classes are among the unlabeled points, or all if they are known
    sizes, and what labels weigh. probability : whether labels are held out to calibrate probabilities. random_state :
    of folds and medians. baselines : "base", or none. rule : by which a search chooses.
    """

    kernels: BaseKernels
    machine: TransductiveParams
    landmarks: LandmarkParams
    budget: int = MEMORY_BUDGET
    prior: ClassPrior = LABELS
    weight: ClassWeight = NO_WEIGHTS
    probability: bool = True
    random_state: int = 0
    baselines: tuple[str, ...] = ("base",)
    rule: ChoiceRule = LOWEST

    def folds(self, target: Classes) -> LabelFolds:
        """Return the labels that are held out; none where nothing asks for them."""
        if not self.probability and not self.baselines:
            return LabelFolds([], [])
        return LabelFolds.of(target, self.random_state, a_fit_each=True, curve=False)


# ---- the sections of a pipeline file


@dataclass(frozen=True, kw_only=True)
class TransductiveModel(SizedModel):
    """A support vector machine in which the labels of unlabeled points are variables.

    Parameters
    ----------
    C : float
        The penalty of the loss, for a kernel of unit mean diagonal.
    unlabeled_weight : float
        The weight of the losses of all unlabeled points together, against those of
        the labeled ones; 0 leaves them out.
    landmarks : LandmarkParams
        The points over which functions are sums: their number, their share of the
        points, "sqrt", or "auto".
    class_sizes : list, dict or None
        The known sizes of the classes, counts or shares of all points, in the order
        of the classes or by class; null takes the shares of the labels for those of
        the unlabeled points.
    """

    kind: Literal["transductive"] = "transductive"
    C: float = TransductiveParams.C
    unlabeled_weight: float = TransductiveParams.unlabeled_weight
    landmarks: LandmarkParams = LandmarkParams()

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.machine  # raises where a value is out of range

    @property
    def machine(self) -> TransductiveParams:
        """Return the penalties."""
        return TransductiveParams(C=self.C, unlabeled_weight=self.unlabeled_weight)


@dataclass(frozen=True, kw_only=True)
class TransductiveSections(Sections):
    """The sections of a transductive support vector machine, without a graph.

    Parameters
    ----------
    kernel : KernelSection
        The base kernel.
    baselines : list of str
        Models that the report compares with.
    """

    kernel: KernelSection = KernelSection()
    model: TransductiveModel
    baselines: tuple[Literal["base"], ...] = ("base",)

    def kernels(self) -> tuple[KernelSection, ...]:
        """Return the base kernel."""
        return (self.kernel,)

    @cached_property
    def params(self) -> MachineParams:
        model, kernel = self.model, self.kernel
        return MachineParams(
            kernels=BaseKernels(kernel.name, kernel.parameters, (kernel.bandwidth,), model.random_state),
            machine=model.machine, landmarks=model.landmarks, budget=self.budget, prior=self.prior,
            weight=self.weight, random_state=model.random_state, baselines=self.baselines)

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from baseline_mistakes(self.baselines, ("base",))


# ---- landmarks


def make_landmarks(context: Context, params: MachineParams) -> dict[str, Any]:
    """Choose the landmarks among the training points, as many as the columns of the fit leave room for."""
    rows, target = context.points("train"), context.target(params.prior)
    assert isinstance(target, Classes)
    n, width = len(rows), target.columns().shape[1] * (1 + len(params.folds(target).compared))
    most = landmarks_that_fit(n, n, width, params.budget, context.execution.tasks_per_process)
    count = landmark_count(params.landmarks, len(target.labeled), n, most)
    require_fit(n, count, width, context.execution)
    kernel: Any = None  # the other methods do not ask it
    if params.landmarks.method == "leverage":
        kernel, = params.kernels.on(rows)
    chosen = choose_landmarks(rows, kernel, count, params.landmarks, context.execution, preferred=target.labeled)
    PartWriter(context.parts, 0).write(**chosen.to_arrays())
    return {**chosen.attributes, "n_landmarks": chosen.points.shape[0]}


# ---- models


def sizes_of(target: Classes, n: int, weight: np.ndarray | None) -> np.ndarray | None:
    """Return how many of n points are of each class, (n_classes,), None where the labels say it.

    Known sizes are those of all points; of other frequencies than the labels', those of the unlabeled points.

    Raises ParameterError: known sizes leave fewer points than are labeled, by half a point or more.
    """
    if target.prior == LABELS:
        return None
    shares, labeled = target.prior.shares(target.coded, target.names, weight), np.bincount(
        target.coded, minlength=len(target.names))
    if target.prior.parameter != "class_sizes":
        return shares * (n - len(target.labeled)) + labeled
    sizes = shares * n
    few = np.flatnonzero(sizes <= labeled - 0.5)
    require(not len(few), f"class_sizes leaves {sizes[few[:1]].round(1).tolist()} of {n} points to class "
            f"{target.names[few[:1]].tolist()}, of which {labeled[few[:1]].tolist()} are labeled",
            why="sizes are those of all points, labeled and unlabeled",
            fix="correct class_sizes, or leave it out to take the shares of the labels")
    return sizes


def known_signs(target: Classes, n: int, folds: Sequence[np.ndarray]) -> np.ndarray:
    """Return the signs (n, t) of the columns of all labels, and of those without each fold; 0 where none is known."""
    columns = target.columns()
    signs = np.zeros((n, (1 + len(folds)) * columns.shape[1]))
    signs[target.labeled] = np.tile(columns, 1 + len(folds))
    for number, fold in enumerate(folds, 1):
        signs[target.labeled[fold], number * columns.shape[1]:(number + 1) * columns.shape[1]] = 0.0
    return signs


@dataclass(frozen=True, eq=False)
class Machine:
    """A machine of all labels, `model`; values (l, c) of the labels by machines without the fold of each, else NaN."""

    model: KernelModel
    values: np.ndarray
    evidence: dict[str, Any]


def fit_machine(context: Context, params: MachineParams, machine: TransductiveParams, folds: Sequence[np.ndarray],
                kernel: Any) -> Machine:
    """Return the machine of the penalties on the landmarks of the step, with columns for folds of the labels."""
    rows, target = context.points("train"), context.target(params.prior)
    assert isinstance(target, Classes)
    weight, n = context.label_weights(target, params.weight), len(rows)
    landmarks = Landmarks.from_arrays(context.inputs["landmarks"].parts.read(0), {}).points
    sizes, columns, weights = sizes_of(target, n, weight), target.columns().shape[1], np.ones(n)
    weights[target.labeled] = 1.0 if weight is None else weight
    signs = Signs.of(known_signs(target, n, folds), weights, None if sizes is None else np.tile(
        sizes[-columns:], 1 + len(folds)), machine)
    fitted: Fitted = fit_transductive(rows, kernel, landmarks, signs, context.execution)
    coef, intercept = target.coding.completed(fitted.coef[:, :columns], fitted.intercept[:columns])
    values = np.full((len(target.labeled), columns), np.nan)
    for number, fold in enumerate(folds, 1):
        values[fold] = fitted.values[target.labeled[fold], number * columns:(number + 1) * columns]
    return Machine(KernelModel(kernel, landmarks, coef, intercept, target.coding), values, {
        name: value[:columns] if isinstance(value, list) else value for name, value in fitted.evidence.items()})


def alone(candidates: Sequence[MachineParams]) -> MachineParams:
    """Return the parameters of the first of some candidates, of which no labels are held out but those of a search."""
    return replace(candidates[0], probability=False, baselines=())


@dataclass(frozen=True, eq=False)
class MachineEvaluator:
    """What evaluates transductive machines on the landmarks of the step, each by columns without the folds."""

    context: Context
    scoring: str | None

    @classmethod
    def of(cls, context: Context, params: MachineParams) -> "MachineEvaluator":
        """Return that of a search."""
        return cls(context, params.rule.scoring)

    def rows(self, candidates: Sequence[MachineParams], folds: Repetitions) -> list[dict[str, Any]]:
        return [self._row(params, folds) for params in candidates]

    def _row(self, params: MachineParams, folds: Repetitions) -> dict[str, Any]:
        target, (kernel,) = self.context.target(params.prior), params.kernels.on(self.context.points("train"))
        weight = self.context.label_weights(target, params.weight)
        held = [HeldOut(target, target.coding, fit_machine(self.context, params, params.machine, of_repetition,
                                                           kernel).values, of_repetition, weight)
                for of_repetition in folds]
        return {"C": params.machine.C, **held_out_scores(held, HINGE, self.scoring)}


def make_models(context: Context, params: MachineParams) -> dict[str, Any]:
    """Fit the machine and its baseline, with the labels that are held out."""
    target = context.target(params.prior)
    assert isinstance(target, Classes)
    target.require_labels()
    weight, folds = context.label_weights(target, params.weight), params.folds(target)
    kernel, = params.kernels.on(context.points("train"))
    models, described = dict[str, Model](), dict[str, dict[str, Any]]()
    held_out, evidence = dict[str, list[HeldOut]](), dict[str, Any]()
    for name in ("model", *params.baselines):
        machine = params.machine if name == "model" else replace(params.machine, unlabeled_weight=0.0)
        fitted = fit_machine(context, params, machine, folds.compared, kernel)
        held = [HeldOut(target, target.coding, fitted.values, folds.compared, weight)] if folds.compared else []
        facts: dict[str, Any] = {"name": name, "n_labeled": len(target.labeled), "parameters": {
            "C": machine.C, "unlabeled_weight": machine.unlabeled_weight, "bandwidth": params.kernels.bandwidths[0]}}
        model, calibration = fitted.model, None
        if name == "model":
            evidence = fitted.evidence
            if params.probability and held:
                calibration = calibration_of(target, partial(np.copy, fitted.values), target.coding, weight)
            facts |= calibration_attributes(calibration)
        else:  # of the labels alone, which know no frequencies but their own
            model, _, held = with_prior(model, target, held, weight=weight)
        models[name], described[name], held_out[name] = replace(model, attributes=facts), facts, held
    written = context.write_models(models)
    compared = {"by_labels": by_labels(target, folds, {name: held for name, held in held_out.items() if held})}
    return {"models": {name: {**described[name], **written[name]} for name in models}, "evidence": evidence,
            **(compared if params.baselines else {})}


# ---- what the steps take


def _n_columns(f: PlanInputs) -> int:
    return (1 if f.n_classes == 2 else f.n_classes) * (1 + FOLDS)


def _landmarks_are_known(f: PlanInputs, params: MachineParams) -> bool:
    return "landmarks" in f.attributes or isinstance(params.landmarks.n_landmarks, int)


_guesses_landmarks = guessing_unless(_landmarks_are_known, "landmarks")


def _n_landmarks(f: PlanInputs, params: MachineParams) -> int:
    if "landmarks" in f.attributes:
        return int(f.attributes["landmarks"]["n_landmarks"])
    given = params.landmarks.n_landmarks
    if isinstance(given, int):
        return min(given, f.n)
    return landmark_count(params.landmarks, min(f.n_labeled, f.n), f.n, landmarks_that_fit(
        f.n, f.n, _n_columns(f), params.budget, 1))


@_guesses_landmarks
def _landmarks_cost(f: PlanInputs, params: MachineParams) -> Cost:
    return landmarks_cost(params.landmarks.method, f.n, f.n, _n_landmarks(f, params), f.row_bytes, f.width, 1,
                          f.budget)


@_guesses_landmarks
def _models_cost(f: PlanInputs, params: MachineParams) -> Cost:
    s, models = _n_landmarks(f, params), 1 + len(params.baselines)
    held = fit_bytes(f.n, s, _n_columns(f))
    return cost_of(models, models * f.n * f.row_bytes, models * s * (f.row_bytes + 8 * f.n_outputs), held, held,
                   models * gram_seconds(f.n, s, f.d))


@_guesses_landmarks
def _scores_cost(f: PlanInputs, params: MachineParams) -> Cost:
    return cost_of_test_points(f, params.kernels.for_costs(), _n_landmarks(f, params), 1 + len(params.baselines),
                               f.n_outputs, 16)


_FEWER = "use fewer landmarks: model.landmarks.n_landmarks; or fewer points"
WORDS = Words(
    model="A support vector machine whose boundary avoids the unlabeled points; their labels are optimized, too.",
    changed="machine that merely changed", cause="changed machine", graph="model.unlabeled_weight", norm="model.C",
    folds="Held-out points stay among the unlabeled points.")
TRANSDUCTIVE = Method(
    "transductive", ("classification",), (
        Step("landmarks", 1, ("points", "labels"), lambda params: params, make_landmarks, _landmarks_cost, _FEWER),
        Step("models", 1, ("points", "labels", "landmarks"), lambda params: params, make_models, _models_cost, _FEWER,
             section=transductive_section)),
    _scores_cost, WORDS, (Baseline(
        "base", "The supervised baseline: the same support vector machine on the same landmarks, without the unlabeled "
                "points. They influence at most the scaling, the bandwidth and the landmarks."),), TransductiveSections,
    evaluator=MachineEvaluator.of, joined=alone)
