"""Linear models on features of all points: the steps that the cluster kernel and the multi-scale kernel share.

    basis       the features, of all points, labeled and unlabeled; each method has its own
    selection   the features and the learner, by cross-validation on the labels
    models      the model, and its supervised baseline `base`: the same learner in the base kernel

The features follow from all points, so that labels that are held out stay among these, as unlabeled points.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from ..base.digest import JsonObject, require_random_state
from ..base.errors import DsslError, raised
from ..base.types import Matrix
from ..execution.cost import Cost
from ..kernels.base import BaseKernels, Kernel
from ..kernels.nystrom import LandmarkMap, whiten_lower
from ..learners.class_prior import LABELS, ClassPrior, ClassWeight
from ..learners.linear.features import FeatureLearner
from ..learners.linear.kernel_model import KernelModel, ModelInKernel
from ..learners.losses import LOSSES, LossName, Squared
from ..learners.metrics import HINGE
from ..learners.model import Model
from ..learners.probabilities import calibration_attributes
from ..learners.target.coding import Coding
from ..learners.target.target import Target
from ..report.record import Baseline, ReportText
from ..report.sections.selection import selection_section
from ..selection.by_labels import LabelFolds, ModelsMade, OfModels, by_labels, with_prior
from ..selection.candidates import LOWEST_ERROR, CandidateScores, Selected, SelectionRule
from ..selection.folds import FoldParams
from ..selection.halving import Repetitions, json_tables
from ..selection.held_out_scores import HeldOut
from .sections import ChoiceSections, ClassModel
from .selection_sections import Grid, Selection
from .step import Context, Step

Variant = dict[str, Any]  # the parameters of some features, by name, as a row of a search tells them
T = TypeVar("T")
P = TypeVar("P", bound="LinearParams")
MakeModel = Callable[[np.ndarray, np.ndarray, Coding], ModelInKernel]
BASE_VARIANT = ("bandwidth",)  # the names of the parameters of the baseline's features
NO_WEIGHTS = ClassWeight()
FEWER_LABELS = "or label fewer points"
BASE = Baseline(
    "base", "The supervised baseline: the same learner and labels with the base kernel, and parameters of its own. "
            "Unlabeled points influence at most the scaling and the bandwidth.")


@dataclass(frozen=True, kw_only=True)
class LinearModel(ClassModel):
    """A linear learner on features of all points.

    Parameters
    ----------
    C : float
        The penalty of the loss against the norm.
    loss : str
        The loss of the labels: "squared", "squared_hinge", "huber_hinge", "logistic"
        or a loss that a plugin registers fits each class against the rest; "hinge"
        fits a support vector machine to each pair of classes, whose most probable
        class can differ from the predicted one. Of regression, "squared".
    random_state : int
        The seed of every random choice.
    """

    C: float
    loss: LossName = Squared.name
    random_state: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_random_state(self.random_state)
        _ = self.learner  # raises where a value is out of range

    @property
    def learner(self) -> FeatureLearner:
        return FeatureLearner(loss=self.loss, C=self.C)


@dataclass(frozen=True, kw_only=True)
class LinearGrid(Grid):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them."""

    C: tuple[float, ...] | None = None
    loss: tuple[LossName, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.loss or ():
            LOSSES.named(name, "loss")  # raises if there is none


@dataclass(frozen=True, kw_only=True)
class LinearSelection(Selection):
    """Parameters chosen by cross-validation; held-out points stay among those that make the features."""

    grid: LinearGrid = LinearGrid()
    search: Literal["grid"] = "grid"
    held_out_points: Literal["transductive"] = "transductive"
    ways: ClassVar[tuple[str, ...]] = ("auto",)


@dataclass(frozen=True, kw_only=True)
class LinearSections(ChoiceSections):
    """The sections of a linear learner on features, and of the same learner in the base kernel."""

    model: LinearModel
    selection: LinearSelection | None = None
    baselines: tuple[Literal["base"], ...] = ("base",)
    always: ClassVar[tuple[str, ...]] = ("base",)

    def tried(self, name: str, value: T) -> tuple[T, ...]:
        """Return the values of a parameter that are tried: those of the grid, or else the one that is given."""
        return (getattr(self.selection.grid, name) if self.selection else None) or (value,)

    def linear_params(self, of: "type[P]", **of_features: Any) -> "P":
        """Return the parameters of a method, with those that all methods of linear learners have."""
        chosen, model = self.selection, self.model
        learners = product(self.tried("loss", model.loss), self.tried("C", model.C))
        return of(kernels=self.base_kernels(model.random_state),
                  learners=tuple(FeatureLearner(loss=loss, C=C) for loss, C in learners),
                  cv=chosen.folds() if chosen else None, rule=chosen.rule() if chosen else LOWEST_ERROR,
                  prior=self.prior, weight=self.weight, random_state=model.random_state, **of_features)

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from raised("model", lambda: self.params)


@dataclass(frozen=True, eq=False)
class Features:
    """The features F (l, k) of the labeled points; model : what is linear in them, of (b (k, c), intercept, coding).

    attributes : what is known of them; JSON.
    """

    F: np.ndarray
    model: MakeModel
    attributes: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class LinearParams(ABC):
    """What a linear model on features follows from.

    kernels : the base kernel with each bandwidth that is tried. learners : those that are tried. cv : the folds where
    there is something to choose, else None. rule : which candidate is chosen. prior, weight : how frequent the classes
    are among the points that are predicted, and what their labels weigh. random_state : of the folds that are held out.
    baselines : "base", or none: then labels are held out to calibrate probabilities alone.
    """

    kernels: BaseKernels
    learners: tuple[FeatureLearner, ...]
    cv: FoldParams | None = None
    rule: SelectionRule = LOWEST_ERROR
    prior: ClassPrior = LABELS
    weight: ClassWeight = NO_WEIGHTS
    random_state: int = 0
    baselines: tuple[str, ...] = ("base",)

    @abstractmethod
    def variants(self) -> list[Variant]:
        """Return the parameters of all features that are tried."""

    @abstractmethod
    def features(self, context: Context, variant: Variant, target: Target) -> Features:
        """Return the features of the labeled points with some parameters, from the step `basis`.

        Raises BudgetError: a fit to them does not fit.
        """

    def require_fits(self, target: Target, width: int, budget: int) -> None:
        """Raise BudgetError where a fit of a learner to so many features exceeds the budget."""
        for learner in self.learners:
            learner.require_fits(len(target.labeled), width, budget)


def base_map(kernel: Kernel, X: Matrix) -> LandmarkMap:
    """Return features of the base kernel, whitened on labeled points X (l, d), which reproduce it there."""
    bare = LandmarkMap(kernel, X)
    return LandmarkMap(kernel, X, whiten_lower(np.array(bare(X), np.float64)).T)


def base_features(context: Context, kernel: Kernel, target: Target) -> Features:
    """Return the features of the labeled points in the base kernel alone."""
    X = context.points("train").take(target.labeled)
    features = base_map(kernel, X)

    def model(b: np.ndarray, intercept: np.ndarray, coding: Coding) -> ModelInKernel:
        return KernelModel(features.kernel, X, features.T @ b, intercept, coding)

    return Features(features(X), model, {})


def _features(context: Context, params: LinearParams, name: str, variant: Variant, target: Target) -> Features:
    """Return the features of the model or of its baseline."""
    if name == "base":
        kernel = params.kernels.at(variant["bandwidth"], context.points("train"))
        return base_features(context, kernel, target)
    return params.features(context, variant, target)


@dataclass(frozen=True, eq=False)
class LinearEvaluator:
    """Evaluates linear learners on the features of the model or its baseline, which all learners and folds share."""

    context: Context
    scoring: str | None
    complete: bool = False  # whether every score is computed
    features: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, params: LinearParams) -> "LinearEvaluator":
        """Return the evaluator of a search."""
        return cls(context, params.rule.scoring)

    def scores_of(self, params: LinearParams, name: str, variant: Variant,
                  folds: Repetitions) -> list[CandidateScores]:
        """Return the scores of each learner on some features."""
        target, key = self.context.target(params.prior), f"{name} {variant}"
        if key not in self.features:
            self.features[key] = _features(self.context, params, name, variant, target).F
        weight = self.context.label_weights(target, params.weight)
        return linear_scores(self.features[key], target, params.learners, folds, self.scoring, weight,
                             complete=self.complete)

    def evaluate(self, candidates: Sequence[LinearParams], folds: Repetitions) -> list[CandidateScores]:
        return [scored for params in candidates for variant in params.variants()
                for scored in self.scores_of(params, "model", variant, folds)]


def linear_scores(F: np.ndarray, target: Target, learners: Sequence[FeatureLearner], repetitions: Repetitions,
                  scoring: str | None = None, weight: np.ndarray | None = None, *,
                  complete: bool = False) -> list[CandidateScores]:
    """Return the scores of each learner on the features F (l, k) of the labeled points."""
    scores = []
    for learner in learners:
        fitted = held_out_linear(F, target, learner, repetitions, weight)
        shifted = [values.with_prior(LABELS) for values in fitted]
        scores.append(CandidateScores.of(shifted, HINGE, scoring, fitted, complete=complete, C=learner.C))
    return scores


def held_out_linear(F: np.ndarray, target: Target, learner: FeatureLearner, repetitions: Repetitions,
                    weight: np.ndarray | None = None) -> list[HeldOut]:
    """Return the held-out values of a learner on the features F (l, k) of the labeled points in each repetition."""
    held_out = []
    for folds in repetitions:
        values, coding = learner.held_out(F, target, folds, weight)
        held_out.append(HeldOut(target, coding, values, folds, weight))
    return held_out


def make_selection(context: Context, params: LinearParams) -> Selected:
    """Select the features and the learner by cross-validation, for the model and for its baseline."""
    target = context.target(params.prior)
    target.require_labels()
    tried = {"model": params.variants(), "base": [{"bandwidth": bandwidth} for bandwidth in params.kernels.bandwidths]}
    rule = asdict(params.rule)
    if params.cv is None:
        return {"folds": 0, "rule": rule, "choices": {
            name: _parameters(variants[0], params.learners[0]) for name, variants in tried.items()}}
    repetitions, evaluator = params.cv.repeated(target), LinearEvaluator(context, params.rule.scoring, complete=True)
    tables: dict[str, list[CandidateScores]] = {name: [] for name in tried}
    for name, variant in ((name, variant) for name, variants in tried.items() for variant in variants):
        scored = evaluator.scores_of(params, name, variant, repetitions)
        tables[name] += [replace(each, parameters=_parameters(variant, learner))
                         for learner, each in zip(params.learners, scored, strict=True)]
    selected = {name: params.rule.select(table) for name, table in tables.items()}
    return {"folds": len(repetitions[0]), "repetitions": len(repetitions), "rule": rule,
            "choices": {name: each.to_json() for name, each in selected.items()}, "grid": json_tables(tables),
            "scores": {name: each.all_scores for name, each in selected.items()}}


def _parameters(variant: Variant, learner: FeatureLearner) -> dict[str, object]:
    """Return the parameters of a candidate by name."""
    return {**variant, "loss_function": learner.loss, "C": learner.C}


def fit_models(context: Context, params: LinearParams) -> tuple[dict[str, Model], ModelsMade]:
    """Fit the model and its baseline with the parameters that were chosen, and write them; return them, and JSON."""
    target, chosen_of = context.target(params.prior), context.attributes("selection")["choices"]
    weight = context.label_weights(target, params.weight)
    choices = {name: chosen_of[name] for name in ("model", *params.baselines)}
    folds = LabelFolds.of(target, params.random_state, a_fit_each=any(
        chosen["loss_function"] != Squared.name for chosen in choices.values()), curve=bool(params.baselines))
    models, attributes, held_out = dict[str, Model](), dict[str, JsonObject](), dict[str, list[HeldOut]]()
    for name, chosen in choices.items():
        variant = {key: chosen[key] for key in (params.variants()[0] if name == "model" else BASE_VARIANT)}
        learner = FeatureLearner(loss=chosen["loss_function"], C=chosen["C"])
        features = _features(context, params, name, variant, target)
        b, intercept, coding = learner.fit(features.F, target, weight)
        models[name], calibration, held_out[name] = with_prior(
            features.model(b, intercept, coding), target,
            held_out_linear(features.F, target, learner, folds.repetitions, weight), context.points("train"))
        probabilities = calibration_attributes(calibration) if name == "model" else {}
        attributes[name] = {"name": name, "n_labeled": len(target.labeled), "parameters": _parameters(variant, learner),
                      **features.attributes, **target.training_metrics(features.F @ b + intercept, coding),
                      **probabilities}
    described = context.write_models(models)
    compared: OfModels = {"by_labels": by_labels(target, folds, held_out)} if params.baselines else {}
    return models, {"models": {name: {**described[name], **each} for name, each in attributes.items()}, **compared}


def selection_step(version: int, cost: Callable[[Any, Any], Cost], hint: str, report_text: ReportText) -> Step:
    """Return the step `selection` of a method."""
    return Step("selection", version, ("points", "labels", "basis"), lambda params: params, make_selection, cost,
                f"{hint}, {FEWER_LABELS}", section=partial(selection_section, report_text=report_text), leads=True)


def models_step(version: int, cost: Callable[[Any, Any], Cost], hint: str,
                make: Callable[[Context, Any], ModelsMade], **others: Any) -> Step:
    """Return the step `models` of a method; others : further fields of it."""
    return Step("models", version, ("points", "labels", "basis", "selection"), lambda params: params, make, cost,
                f"{hint}, {FEWER_LABELS}", **others)
