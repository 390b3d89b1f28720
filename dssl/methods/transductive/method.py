"""Transductive support vector machines, whose boundary avoids the unlabeled points, without a graph: `transductive`.

    landmarks   the points that functions are sums over
    selection   bandwidth and penalties, by cross-validation on the labels
    models      the support vector machine, and its supervised baseline `base`, the same without unlabeled points
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import ceil
from typing import ClassVar, Literal

import numpy as np

from ...base.errors import DsslError, raised, require
from ...execution.cost import Cost, cost_of, gram_seconds
from ...kernels.landmarks import LandmarkParams, landmark_count, landmarks_cost
from ...learners.linear.transductive import TransductiveParams, fit_bytes, fit_seconds, landmarks_that_fit
from ...learners.model import predict_cost
from ...learners.probabilities import FOLDS
from ...report.record import Baseline, ReportText
from ...report.sections.selection import selection_section
from ...report.sections.solver import transductive_section
from ...selection.candidates import LOWEST_ERROR
from ...selection.halving import ALL, rungs_of
from ..plan_inputs import PlanInputs, guessing_unless
from ..sections import ChoiceSections, SizedModel
from ..selection_sections import Grid, Selection
from ..step import Method, Step, cost_of_test_points
from .steps import (
    LandmarkChoice,
    TransductiveEvaluator,
    TransductiveKernelParams,
    alone,
    make_landmarks,
    make_models,
    make_selection,
)

A_FOLD = np.empty(0, np.int64)  # in place of one whose points are not known


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
    class_sizes : list, dict, "balanced" or None
        The known sizes of the classes, counts or shares of all points, in the order
        of the classes or by class; for intervals of shares [low, high], the point at
        the same fraction of each is taken. null takes the shares of the labels for
        those of the unlabeled points.
    """

    kind: Literal["transductive"] = "transductive"
    C: float = TransductiveParams.C
    unlabeled_weight: float = TransductiveParams.unlabeled_weight
    landmarks: LandmarkParams = LandmarkParams()

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.penalties  # raises where a value is out of range

    @property
    def penalties(self) -> TransductiveParams:
        return TransductiveParams(C=self.C, unlabeled_weight=self.unlabeled_weight)


@dataclass(frozen=True, kw_only=True)
class TransductiveGrid(Grid):
    """The values of each parameter that are tried, in place of the one given elsewhere; all combinations of them.

    Parameters
    ----------
    bandwidth : list of float or str, or None
        Of the base kernel.
    C : list of float or None
        Of the loss.
    unlabeled_weight : list of float or None
        Of the losses of the unlabeled points; the baseline has 0.
    """

    bandwidth: tuple[float | str, ...] | None = None
    C: tuple[float, ...] | None = None
    unlabeled_weight: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, values in (("bandwidth", self.bandwidth), ("C", self.C), ("unlabeled_weight", self.unlabeled_weight)):
            require(len(set(values or ())) == len(values or ()), f"{name}={list(values or ())} names a value twice",
                    why="it would do work twice", fix="name each value once")
        for C in self.C or ():
            TransductiveParams(C=C)  # raises where a value is out of range
        for weight in self.unlabeled_weight or ():
            TransductiveParams(unlabeled_weight=weight)


@dataclass(frozen=True, kw_only=True)
class TransductiveSelection(Selection):
    """Parameters chosen by cross-validation; held-out points stay among the unlabeled points.

    The model and the baseline choose their own; the baseline tries the same bandwidths and C.
    """

    grid: TransductiveGrid = TransductiveGrid()
    held_out_points: Literal["transductive"] = "transductive"
    ways: ClassVar[tuple[str, ...]] = ("auto", "refit")


@dataclass(frozen=True, kw_only=True)
class TransductiveSections(ChoiceSections):
    """The sections of a transductive support vector machine, without a graph."""

    model: TransductiveModel
    selection: TransductiveSelection | None = None
    baselines: tuple[Literal["base"], ...] = ("base",)
    always: ClassVar[tuple[str, ...]] = ("base",)

    def penalties(self) -> tuple[TransductiveParams, ...]:
        grid, model = self.selection.grid if self.selection else TransductiveGrid(), self.model
        return tuple(TransductiveParams(C=C, unlabeled_weight=weight) for C, weight in product(
            grid.C or (model.C,), grid.unlabeled_weight or (model.unlabeled_weight,)))

    @cached_property
    def params(self) -> TransductiveKernelParams:
        model, chosen = self.model, self.selection
        return TransductiveKernelParams(
            kernels=self.base_kernels(model.random_state), penalties=self.penalties(),
            landmarks=model.landmarks, budget=self.budget, prior=self.prior, weight=self.weight,
            random_state=model.random_state, baselines=self.baselines,
            cv=chosen.folds() if chosen else None, rule=chosen.rule() if chosen else LOWEST_ERROR,
            search=chosen.searched() if chosen else ALL)

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from raised("selection.grid", self.kernels)


# ---- what the steps take


def _n_folds(f: PlanInputs, params: TransductiveKernelParams) -> int:
    """Return the folds of a repetition by which parameters are chosen; 0 where none are."""
    return params.cv.count(f.n_labeled) if params.cv else 0


def _n_columns(f: PlanInputs, folds: int) -> int:
    """Return the columns of a fit, of all labels and without each fold."""
    return (1 if f.n_classes == 2 else f.n_classes) * (1 + folds)


def _landmarks_are_known(f: PlanInputs, params: TransductiveKernelParams) -> bool:
    return "landmarks" in f.attributes or isinstance(params.landmarks.n_landmarks, int)


def _bandwidths(params: TransductiveKernelParams) -> int:
    return len({candidate.bandwidth for candidate in params.candidates()["model"]})


def _bandwidths_are_known(f: PlanInputs, params: TransductiveKernelParams) -> bool:
    return "selection" in f.attributes or _bandwidths(params) == 1


_guesses_landmarks = guessing_unless(_landmarks_are_known, "landmarks")
_guesses_bandwidths = guessing_unless(_bandwidths_are_known, "selected bandwidths")


def _n_landmarks(f: PlanInputs, params: TransductiveKernelParams) -> int:
    if "landmarks" in f.attributes:
        return int(f.attributes["landmarks"]["n_landmarks"])
    given = params.landmarks.n_landmarks
    if isinstance(given, int):
        return min(given, f.n)
    columns = _n_columns(f, max(FOLDS, _n_folds(f, params)))
    return landmark_count(params.landmarks, min(f.n_labeled, f.n), f.n,
                          landmarks_that_fit(f.n, f.n, columns, params.budget, 1))


@_guesses_landmarks
def _landmarks_cost(f: PlanInputs, params: TransductiveKernelParams) -> Cost:
    return landmarks_cost(params.landmarks.method, f.n, f.n, _n_landmarks(f, params), f.row_bytes, f.width,
                          len(params.kernels.bandwidths), f.budget)


def _fits_cost(f: PlanInputs, params: TransductiveKernelParams, bandwidths: int, fits: int, folds: int) -> Cost:
    """Return that of so many fits with columns for folds, on the features of so many bandwidths."""
    s, columns = _n_landmarks(f, params), _n_columns(f, folds)
    blocks = predict_cost(params.kernels.for_costs(), f.dense(f.n, f.width), f.row_bytes, s, 1, s + 1, 0, f.budget)
    held = fit_bytes(f.n, s, columns)
    return cost_of(bandwidths * blocks.tasks, bandwidths * f.n * f.row_bytes, 0, held, held,
                   bandwidths * gram_seconds(f.n, s, f.d) + fits * fit_seconds(f.n, s, columns))


@_guesses_landmarks
@_guesses_bandwidths
def _selection_cost(f: PlanInputs, params: TransductiveKernelParams) -> Cost:
    """Return that of the candidates of each rung, all folds of a repetition at a time."""
    if params.cv is None:
        return cost_of(0, 0, 0, 0)
    candidates, folds, factor = params.candidates(), _n_folds(f, params), params.search.factor
    tried = len({candidate for of_model in candidates.values() for candidate in of_model})
    standing = [len(of_model) for of_model in candidates.values()]
    bandwidths, fits = 0, 0
    for number, rung in enumerate(rungs_of([[A_FOLD] * folds] * params.cv.repetitions, max(standing), factor)):
        if number:
            assert factor is not None
            standing = [ceil(count / factor) for count in standing]
        upper = min(_bandwidths(params), sum(standing))
        bandwidths += 1 if number and f.bound == "lower" else upper
        fits += min(tried, sum(standing)) * len(rung.repetitions)
    return _fits_cost(f, params, bandwidths, fits, folds)


@_guesses_landmarks
@_guesses_bandwidths
def _models_cost(f: PlanInputs, params: TransductiveKernelParams) -> Cost:
    models = 1 + len(params.baselines)
    if "selection" in f.attributes:
        bandwidths = len({choice["bandwidth"] for choice in f.attributes["selection"]["choices"].values()})
    else:
        bandwidths = min(models, _bandwidths(params)) if f.bound == "upper" else 1
    written = models * _n_landmarks(f, params) * (f.row_bytes + 8 * f.n_outputs)
    return _fits_cost(f, params, bandwidths, models, FOLDS) + cost_of(0, 0, written, 0)


@_guesses_landmarks
def _scores_cost(f: PlanInputs, params: TransductiveKernelParams) -> Cost:
    return cost_of_test_points(f, params.kernels.for_costs(), _n_landmarks(f, params), 1 + len(params.baselines),
                               f.n_outputs, 16)


_FEWER = "use fewer landmarks: model.landmarks.n_landmarks; or fewer points"
_FEWER_FOLDS = "use fewer folds: selection.cv; fewer landmarks: model.landmarks.n_landmarks; or fewer points"
REPORT_TEXT = ReportText(
    model="A support vector machine whose boundary avoids the unlabeled points; their labels are optimized, too.",
    changed="support vector machine that merely changed", cause="changed support vector machine",
    graph="model.unlabeled_weight", norm="model.C",
    unlabeled="unlabeled data", equals="The model equals the supervised baseline",
    folds="Held-out points stay among the unlabeled points.",
    penalties=("C", "unlabeled_weight"))
TRANSDUCTIVE = Method(
    "transductive", ("classification",), (
        Step("landmarks", 2, ("points", "labels"), LandmarkChoice.of, make_landmarks, _landmarks_cost, _FEWER_FOLDS),
        Step("selection", 1, ("points", "labels", "landmarks"), lambda params: params, make_selection,
             _selection_cost, _FEWER_FOLDS, section=partial(selection_section, report_text=REPORT_TEXT), leads=True),
        Step("models", 6, ("points", "labels", "landmarks", "selection"), lambda params: params, make_models,
             _models_cost, _FEWER, section=transductive_section)),
    _scores_cost, REPORT_TEXT, (Baseline(
        "base", "The supervised baseline: the same support vector machine on the same landmarks, without the unlabeled "
                "points. They influence at most the scaling, the bandwidth and the landmarks."),), TransductiveSections,
    evaluator=TransductiveEvaluator.of, joined=alone)
