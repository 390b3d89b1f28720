"""The kind `multiscale`: a machine in the kernel of eigenfunctions of graph Laplacians of many scales.

    model   the machine on the kernel's features
    base    the same machine in the base kernel, with its own penalty
"""

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...execution.cost import STEP_BYTES, Cost, cost_of
from ...kernels.base import Kernel
from ...kernels.gram import BLOCK_BYTES
from ...kernels.multiscale import MultiscaleMap, MultiscaleParams, multiscale_cost, multiscale_map
from ...learners.class_prior import ClassPrior, ClassWeight
from ...learners.coding import ClassCoding
from ...learners.kernel_model import KernelModel
from ...learners.model import Model, predict_cost
from ...learners.multiscale import multiscale_model, scaled_features
from ...learners.probabilities import calibration_attributes
from ...learners.target import Target
from ...learners.virtual_samples import SampleLearner
from ...report.sections.multiscale import multiscale_section, regions_section
from ...report.sections.selection import selection_section
from ...report.words import Baseline, Words
from ...selection.by_labels import LabelFolds, by_labels, with_prior
from ...selection.choice import LOWEST, ChoiceRule
from ...selection.cluster import left_out_samples, rows_of_samples
from ...selection.folds import FoldParams
from ...selection.held_out_scores import HeldOut
from ...storage.blocks import PartWriter, Rows
from ..dataset import DATASET
from ..facts import Facts
from ..points import LABELS, POINTS, label_weights, labeled_target
from ..predictions import predictions_with
from ..sample import SAMPLE
from ..scoring import SCORES, with_scored
from ..split import SPLIT
from ..stage import Context, Kind, Stage
from .class_spec import class_prior, class_weight
from .cluster import base_map
from .laprls_search import KernelsParams
from .multiscale_spec import MultiscalePipeline
from .specs import SPECS

USUAL_SCALES = 50  # that a plan counts on before they are known; 25 to 60 of data sets so far
GRID, DRAWN = 80, 600  # places a side, and points, of a drawing of what is predicted in the plane


@dataclass(frozen=True)
class BasisParams:
    """How the kernel is made."""

    multiscale: MultiscaleParams

    @classmethod
    def of(cls, spec: MultiscalePipeline) -> "BasisParams":
        return cls(spec.multiscale())


def make_basis(context: Context, params: BasisParams) -> dict[str, Any]:
    """Find the eigenfunctions; a killed run goes on after the scales that were done."""
    scales = context.parts.within("scales")
    found = multiscale_map(context.points("train"), params.multiscale, context.arrays("labels")["labeled"],
                           context.execution, scales)
    PartWriter(context.parts, 0).write(**found.arrays())
    scales.remove()
    return {"basis": found.attributes}


@dataclass(frozen=True)
class FitParams:
    """The base kernel, the machines that are tried, and the folds where there are several."""

    kernels: KernelsParams
    learners: tuple[SampleLearner, ...]
    cv: FoldParams | None
    rule: ChoiceRule
    prior: ClassPrior
    weight: ClassWeight

    @classmethod
    def of(cls, spec: MultiscalePipeline) -> "FitParams":
        kernel, chosen = spec.kernel, spec.selection
        return cls(KernelsParams(kernel.name, kernel.parameters, (kernel.bandwidth,), spec.model.seed),
                   spec.learners(), chosen.cv() if chosen else None, chosen.rule() if chosen else LOWEST,
                   class_prior(spec), class_weight(spec))


def named(learner: SampleLearner) -> dict[str, Any]:
    """Return what a row tells of a machine."""
    return {"loss_function": learner.loss, "C": learner.C}


def map_in(context: Context) -> MultiscaleMap:
    """Return the features of the kernel."""
    return MultiscaleMap.of(context.arrays("basis"), context.attributes("basis")["basis"])


def base_kernel(context: Context, params: FitParams) -> Kernel:
    return params.kernels.on(context.points("train"))[0]


def make_selection(context: Context, params: FitParams) -> dict[str, Any]:
    """Choose the machine by cross-validation, of the model and of the base."""
    target, points = labeled_target(context, params.prior), context.points("train")
    budget = context.execution.memory_budget
    target.require_labels()
    told = {"rule": asdict(params.rule)}
    if params.cv is None:
        chosen = named(params.learners[0])
        return {**told, "folds": 0, "choices": {"model": chosen, "base": chosen}}
    repetitions, features, X_l = params.cv.repeated(target), map_in(context), points.take(target.labeled)
    for learner in params.learners:
        learner.require_fits(len(target.labeled), features.width, budget)
    of = {"model": scaled_features(features, points, target.labeled, budget),
          "base": base_map(base_kernel(context, params), X_l)(X_l)}
    rows = {name: [{**named(learner), **row} for learner, row in zip(params.learners, rows_of_samples(
        F, target, params.learners, repetitions, params.rule.scoring,
        label_weights(target, params.weight), complete=True), strict=True)]
        for name, F in of.items()}
    choices = {name: dict(params.rule.choose(own)) for name, own in rows.items()}
    scores = {name: row.pop("scores") for name, row in choices.items()}
    for row in (row for own in rows.values() for row in own):
        row.pop("scores", None)
    return {**told, "folds": len(repetitions[0]), "repetitions": len(repetitions), "choices": choices, "grid": rows,
            "scores": scores}


def make_models(context: Context, params: FitParams) -> dict[str, Any]:
    """Fit the model and the base with the parameters that were chosen."""
    target, points = labeled_target(context, params.prior), context.points("train")
    choices = context.attributes("selection")["choices"]
    X_l, budget = points.take(target.labeled), context.execution.memory_budget
    weight = label_weights(target, params.weight)
    features, base = map_in(context), base_map(base_kernel(context, params), X_l)
    of = {"model": scaled_features(features, points, target.labeled, budget), "base": base(X_l)}
    arrays, models, described = dict[str, np.ndarray](), dict[str, Model](), dict[str, Any]()
    folds, left_out = LabelFolds.of(target, a_fit_each=any(
        own["loss_function"] != "squared" for own in choices.values())), dict[str, list[HeldOut]]()
    for name, F in of.items():
        learner = SampleLearner(loss=choices[name]["loss_function"], C=choices[name]["C"])
        learner.require_fits(len(target.labeled), F.shape[1], budget)
        b, intercept, coding = learner.fit(F, target, weight)
        models[name] = multiscale_model(features, b, intercept, coding) if name == "model" else KernelModel(
            base.kernel, X_l, base.T @ b, intercept, coding)
        models[name], calibration, left_out[name] = with_prior(
            models[name], target, left_out_samples(F, target, learner, folds.repetitions, weight))
        probable = calibration_attributes(calibration) if name == "model" else {}
        own, attributes = models[name].to_arrays()
        described[name] = {**attributes, "name": name, "n_labeled": len(target.labeled), "parameters": named(learner),
                           **target.missed(F @ b + intercept, coding), **probable}
        arrays |= {f"{name}.{key}": array for key, array in own.items()}
    PartWriter(context.parts, 0).write(**arrays)
    return {"models": described, "by_labels": by_labels(target, folds, left_out),
            **regions_of(models["model"], points, target)}


def regions_of(model: Model, points: Rows, target: Target) -> dict[str, Any]:
    """Return what is predicted of points in the plane and around them; JSON, empty where there are not two columns.

    corners : the least and largest of each column. grid : rows from below of predictions, codes or quantities. points,
    predicted : of some training points; labeled, known : of the labeled ones.
    """
    if points.shape[1] != 2:
        return {}
    some = np.unique(np.linspace(0, len(points) - 1, DRAWN).astype(int))
    drawn, labeled = dense_of(points.take(some)), dense_of(points.take(target.labeled[:DRAWN]))
    both = np.concatenate([drawn, labeled])
    margin = 0.15 * np.ptp(both, axis=0).max()
    low, high = both.min(axis=0) - margin, both.max(axis=0) + margin
    across, up = (np.linspace(low[i], high[i], GRID) for i in (0, 1))
    places = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)

    def predicted(X: np.ndarray) -> np.ndarray:
        labels = model.predict(X)
        if isinstance(model.coding, ClassCoding):
            return np.searchsorted(model.coding.classes, labels)
        return labels.reshape(len(X), -1)[:, 0].round(6)

    return {"regions": {
        "corners": [low.tolist(), high.tolist()], "grid": predicted(places).reshape(GRID, GRID).tolist(),
        "points": drawn.tolist(), "predicted": predicted(drawn).tolist(), "labeled": labeled.tolist(),
        "known": target.coded[:DRAWN].reshape(len(labeled), -1)[:, 0].tolist(),
        "classes": [str(name) for name in model.coding.classes] if isinstance(model.coding, ClassCoding) else []}}


def dense_of(X: Any) -> np.ndarray:
    """Return points as an array of float64, which they may be no longer."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float64)


def _carriers(f: Facts[MultiscalePipeline]) -> tuple[int, int]:
    """Return the carriers and eigenpairs: those that were found, or that the budget lets be."""
    if "basis" in f.attributes:
        own = f.attributes["basis"]["basis"]
        return own["carriers"], own["eigenpairs"]
    s = f.spec.multiscale().count(f.n, f.d)
    return s, f.spec.multiscale().pairs_of(s)


def _basis_cost(f: Facts[MultiscalePipeline]) -> Cost:
    scales = len(f.attributes["basis"]["basis"]["scales"]) if "basis" in f.attributes else USUAL_SCALES
    return multiscale_cost(f.n, f.d, f.row_bytes, *_carriers(f), scales)


def _learner_bytes(f: Facts[MultiscalePipeline]) -> int:
    (s, k), m = _carriers(f), f.n_labeled
    map_bytes = 8 * s * (k + f.d)
    return map_bytes + max(8 * 3 * m * (k + 1) + own.bytes(m, max(k + 1, m)) for own in f.spec.learners()) + min(
        f.budget // 8, m * 8 * (3 * s + 4 * k))


def _selection_cost(f: Facts[MultiscalePipeline]) -> Cost:
    return cost_of(0, f.n_labeled * f.row_bytes, 0, _learner_bytes(f) if f.spec.selection else 0, 0)


def _models_cost(f: Facts[MultiscalePipeline]) -> Cost:
    (s, k), regions = _carriers(f), 0
    if f.d == 2:
        regions = min(GRID**2 * 8 * (4 * s + 4 * k), BLOCK_BYTES)
    written = 8 * (s * (f.d + k) + f.n_labeled * (f.d + f.n_outputs))
    return cost_of(1, f.n_labeled * f.row_bytes, written, _learner_bytes(f) + written + regions, 0)


def _scores_cost(f: Facts[MultiscalePipeline]) -> Cost:
    """Return that of models of carriers, and what their distances become: weights of a scale, and features.

    Blocks are as high as `MultiscaleModel.row_bytes` lets them be.
    """
    (s, k), n_models = _carriers(f), len(f.spec.baselines) + 1
    m = max(s, f.n_labeled)
    found = predict_cost(f.spec.kernels()[0].check(), f.dense(max(f.n_test, 1), f.width), f.row_bytes, m, n_models,
                         f.n_outputs, 8, f.budget)
    each = 8 * m + 16 * f.width + f.row_bytes + 8 * (3 * s + 4 * k)
    block = each * min(f.n_test, max(1, BLOCK_BYTES // each))
    return with_scored(replace(found, peak=STEP_BYTES + found.least + block + 16 * s * k), f, n_models)


_FEWER = "lower model.carriers, or label fewer points"
WORDS = Words(
    model="A machine in a kernel of eigenfunctions of graph Laplacians, each of the scale at which its eigenvalue is "
          "most stable: points are alike that short steps join.",
    changed="kernel that merely changed", cause="changed kernel", graph="model.threshold", norm="model.C",
    folds="Points that are held out stay among those that make the kernel.")
BASELINES = (Baseline(
    "base", "The same machine and labels in the base kernel, with its own C: unlabeled points enter at most the "
            "scaling and the bandwidth."),)
MULTISCALE = Kind.of(SPECS["multiscale"], (
    DATASET, SPLIT, LABELS, POINTS,
    Stage("basis", 1, ("points", "labels"), BasisParams.of, make_basis, _basis_cost, _FEWER,
          intermediate=True, section=multiscale_section),
    Stage("selection", 3, ("points", "labels", "basis"), FitParams.of, make_selection, _selection_cost, _FEWER,
          section=partial(selection_section, words=WORDS), leads=True),
    Stage("models", 5, ("points", "labels", "basis", "selection"), FitParams.of, make_models, _models_cost, _FEWER,
          section=regions_section, leads=True),
    SAMPLE, predictions_with(_scores_cost),
    Stage("scores", SCORES.version, SCORES.needs, SCORES.params, SCORES.make, _scores_cost, _FEWER,
          section=SCORES.section, leads=True),
), words=WORDS, baselines=BASELINES)
