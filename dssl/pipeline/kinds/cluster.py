"""The kind `cluster`: a machine in a cluster kernel of all training points, without a graph.

    model   the machine on the kernel's virtual samples
    base    the same machine in the base kernel, with its own parameters
"""

from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from ...execution.cost import Cost, cost_of, gram_seconds
from ...kernels.base import Kernel
from ...kernels.cluster import ClusterBasis
from ...kernels.cluster_params import ClusterParams, basis_cost, basis_of
from ...kernels.features import LandmarkMap
from ...kernels.gram import BLOCK_BYTES
from ...kernels.nystrom import whiten
from ...kernels.stochastic import stochastic_bytes
from ...kernels.transfer import TransferParams
from ...learners.class_prior import ClassPrior, ClassWeight
from ...learners.kernel_model import KernelModel
from ...learners.model import Model
from ...learners.probabilities import calibration_attributes
from ...learners.target import Target
from ...learners.virtual_samples import SampleLearner, sample_model
from ...report.sections.cluster import cluster_section
from ...report.sections.selection import selection_section
from ...report.words import Baseline, Words
from ...selection.by_labels import LabelFolds, by_labels, with_prior
from ...selection.choice import LOWEST, ChoiceRule
from ...selection.cluster import left_out_samples, rows_of_samples
from ...selection.folds import FoldParams
from ...selection.held_out_scores import HeldOut
from ...storage.blocks import STEP_BYTES, PartWriter
from ..dataset import DATASET
from ..facts import Facts
from ..points import LABELS, POINTS, label_weights, labeled_target
from ..predictions import predictions_with
from ..sample import SAMPLE
from ..scoring import SCORES, scores_cost
from ..split import SPLIT
from ..stage import Context, Kind, Stage
from .class_spec import class_prior, class_weight
from .cluster_spec import ClusterPipeline
from .laprls_search import KernelsParams
from .specs import SPECS


def kernels_of(spec: ClusterPipeline) -> KernelsParams:
    """Return the base kernel with each bandwidth."""
    return KernelsParams(spec.kernel.name, spec.kernel.parameters, tuple(own.bandwidth for own in spec.kernels()),
                         spec.model.seed)


@dataclass(frozen=True)
class BasisParams:
    """The kernels, and how the eigenpairs of each are found."""

    kernels: KernelsParams
    cluster: ClusterParams

    @classmethod
    def of(cls, spec: ClusterPipeline) -> "BasisParams":
        return cls(kernels_of(spec), spec.basis())


def make_basis(context: Context, params: BasisParams) -> dict[str, Any]:
    """Find the eigenpairs of each kernel; a killed run goes on after the last that was done, or the last tile of it."""
    points, labeled = context.points("train"), context.arrays("labels")["labeled"]
    found = []
    for number, kernel in enumerate(params.kernels.on(points)):
        own, shares = context.parts.within(f"basis{number}"), context.parts.within(f"degrees{number}")
        if own.receipt_of(0) is None:
            basis = basis_of(points, kernel, params.cluster, labeled, context.execution, shares)
            own.write(0, basis.to_arrays())
            own.finish(0, {"basis": basis.attributes})
            shares.remove()
        found.append({"bandwidth": params.kernels.bandwidths[number], **own.receipt(0)["basis"]})
    return {"bases": found}


@dataclass(frozen=True)
class FitParams:
    """The kernels, transfer functions and machines that are tried, and the folds where there are several."""

    kernels: KernelsParams
    transfers: tuple[TransferParams, ...]
    learners: tuple[SampleLearner, ...]
    cv: FoldParams | None
    rule: ChoiceRule
    prior: ClassPrior
    weight: ClassWeight

    @classmethod
    def of(cls, spec: ClusterPipeline) -> "FitParams":
        chosen = spec.selection
        return cls(kernels_of(spec), spec.transfers(), spec.learners(), chosen.cv() if chosen else None,
                   chosen.rule() if chosen else LOWEST, class_prior(spec), class_weight(spec))

    def named(self, number: int, transfer: TransferParams | None, learner: SampleLearner) -> dict[str, Any]:
        """Return what a row tells of its parameters; without a transfer function it is of the base kernel."""
        return {"bandwidth": self.kernels.bandwidths[number], **(asdict(transfer) if transfer else {}),
                "loss_function": learner.loss, "C": learner.C}


def basis_in(context: Context, params: FitParams, number: int) -> ClusterBasis:
    """Return the eigenpairs of a kernel."""
    kernel = params.kernels.on(context.points("train"))[number]
    attributes = context.attributes("basis")["bases"][number]
    return ClusterBasis.from_arrays(kernel, context.inputs["basis"].parts.within(f"basis{number}").read(0), attributes)


def base_map(kernel: Kernel, X: Any) -> LandmarkMap:
    """Return features of the base kernel, whitened on labeled points, which reproduce it there."""
    bare = LandmarkMap(kernel, X)
    return LandmarkMap(kernel, X, whiten(bare(X)).T)


def make_selection(context: Context, params: FitParams) -> dict[str, Any]:
    """Choose the kernel, its transfer function and the machine by cross-validation, of the model and of the base."""
    target, points = labeled_target(context, params.prior), context.points("train")
    budget = context.execution.memory_budget
    target.require_labels()
    tried = [(number, transfer, learner) for number in range(len(params.kernels.bandwidths))
             for transfer in params.transfers for learner in params.learners]
    plain = [(number, None, learner) for number in range(len(params.kernels.bandwidths)) for learner in params.learners]
    if params.cv is None:
        return {"folds": 0, "rule": asdict(params.rule),
                "choices": {"model": params.named(*tried[0]), "base": params.named(*plain[0])}}
    repetitions, rows = params.cv.repeated(target), {"model": list[dict[str, Any]](), "base": list[dict[str, Any]]()}
    X_l, measured = points.take(target.labeled), partial(
        rows_of_samples, target=target, learners=params.learners, repetitions=repetitions,
        scoring=params.rule.scoring, weight=label_weights(target, params.weight), complete=True)
    for number, kernel in enumerate(params.kernels.on(points)):
        basis = basis_in(context, params, number)
        for transfer in params.transfers:
            samples = basis.samples(transfer, len(target.labeled))
            for learner in params.learners:
                learner.require_fits(len(target.labeled), samples.width, budget)
            found = measured(samples.of_rows(points, target.labeled, budget))
            rows["model"] += [{**params.named(number, transfer, learner), **row}
                              for learner, row in zip(params.learners, found, strict=True)]
        found = measured(base_map(kernel, X_l)(X_l))
        rows["base"] += [{**params.named(number, None, learner), **row}
                         for learner, row in zip(params.learners, found, strict=True)]
    choices = {name: dict(params.rule.choose(own)) for name, own in rows.items()}
    scores = {name: row.pop("scores") for name, row in choices.items()}
    for own in rows.values():
        for row in own:
            row.pop("scores", None)
    return {"folds": len(repetitions[0]), "repetitions": len(repetitions), "rule": asdict(params.rule),
            "choices": choices, "grid": rows, "scores": scores}


def make_models(context: Context, params: FitParams) -> dict[str, Any]:
    """Fit the model and the base with the parameters that were chosen."""
    target, choices = labeled_target(context, params.prior), context.attributes("selection")["choices"]
    arrays, described = dict[str, np.ndarray](), {}
    folds, left_out = LabelFolds.of(target, a_fit_each=any(
        own["loss_function"] != "squared" for own in choices.values())), dict[str, list[HeldOut]]()
    for name, chosen in choices.items():
        model, told, held = _fitted(context, params, target, chosen, folds)
        model, calibration, left_out[name] = with_prior(model, target, held)
        told |= calibration_attributes(calibration) if name == "model" else {}
        own, attributes = model.to_arrays()
        described[name] = {**attributes, "name": name, "n_labeled": len(target.labeled), **told}
        arrays |= {f"{name}.{key}": array for key, array in own.items()}
    PartWriter(context.parts, 0).write(**arrays)
    return {"models": described, "by_labels": by_labels(target, folds, left_out)}


def _fitted(context: Context, params: FitParams, target: Target, chosen: dict[str, Any],
            folds: LabelFolds) -> tuple[Model, dict[str, Any], list[HeldOut]]:
    """Return a model with the parameters of a row, of the base kernel where it has no transfer function; facts; and
    its values at labels held out.
    """
    points, budget = context.points("train"), context.execution.memory_budget
    weight = label_weights(target, params.weight)
    number, X_l = params.kernels.bandwidths.index(chosen["bandwidth"]), points.take(target.labeled)
    learner = SampleLearner(loss=chosen["loss_function"], C=chosen["C"])
    given = {own.name: chosen[own.name] for own in fields(TransferParams) if own.name in chosen}
    transfer = TransferParams(**given) if given else None
    model: Model
    if transfer is None:
        features = base_map(params.kernels.on(points)[number], X_l)
        F = features(X_l)
        b, intercept, coding = learner.fit(F, target, weight)
        model = KernelModel(features.kernel, X_l, features.T @ b, intercept, coding)
    else:
        samples = basis_in(context, params, number).samples(transfer, len(target.labeled))
        learner.require_fits(len(target.labeled), samples.width, budget)
        F = samples.of_rows(points, target.labeled, budget)
        b, intercept, coding = learner.fit(F, target, weight)
        model = sample_model(samples, b, intercept, coding)
    return model, {"parameters": {key: chosen[key] for key in params.named(number, transfer, learner)},
                   **target.missed(F @ b + intercept, coding)}, left_out_samples(
                       F, target, learner, folds.repetitions, weight)


def _n_landmarks(f: Facts[ClusterPipeline]) -> int:
    """Return the landmarks of a kernel: those that were found, or that the budget lets be."""
    if "basis" in f.attributes:
        return max(own["landmarks"] for own in f.attributes["basis"]["bases"])
    return f.spec.basis().count(min(f.n_labeled, f.n), f.n, f.d)


def _basis_cost(f: Facts[ClusterPipeline]) -> Cost:
    own, s, kernels = f.spec.basis(), _n_landmarks(f), len(f.spec.kernels())
    cost = basis_cost(own.points_of(s, f.n), f.d, f.row_bytes, s, own.degrees_of(s, f.n), kernels, f.budget)
    if own.approximation != "stochastic":
        return cost
    rows = f.dense(f.n, f.width)
    steps = own.steps_within(rows)
    peak = stochastic_bytes(rows, steps.n_features, steps.rank, f.budget, held=False) - STEP_BYTES
    passes = kernels * (steps.steps + 1)
    return cost_of(cost.tasks + passes, cost.read + passes * f.n * (f.row_bytes + 8 * steps.rank),
                   cost.written + passes * 4 * f.n * steps.rank, max(cost.peak, peak), cost.least,
                   cost.seconds + passes * gram_seconds(f.n, steps.rank, f.d))


def _learner_bytes(f: Facts[ClusterPipeline]) -> int:
    s, m = _n_landmarks(f), f.n_labeled
    k = f.spec.basis().rank_of(s, f.n) or s
    return max(8 * (m * k + 2 * s * k) + own.bytes(m, max(k, m)) for own in f.spec.learners())


def _selection_cost(f: Facts[ClusterPipeline]) -> Cost:
    own = _learner_bytes(f) if f.spec.selection else 0
    return cost_of(0, f.n_labeled * f.row_bytes, 0, own, own)


def _models_cost(f: Facts[ClusterPipeline]) -> Cost:
    s = _n_landmarks(f)
    written = (s + f.n_labeled) * (8 * f.d + 8 * f.n_outputs) + 8 * s * s
    held = _learner_bytes(f) + written
    return cost_of(1, f.n_labeled * f.row_bytes, written, held, held)


def _scores_cost(f: Facts[ClusterPipeline]) -> Cost:
    """Return that of a model of the landmarks, and what their kernels become: scaled, and virtual samples."""
    s = _n_landmarks(f)
    k = f.spec.basis().rank_of(s, f.n) or s
    found = scores_cost(f, max(s, f.n_labeled), f.n_outputs, 8)
    own = 8 * (s + 2 * k)
    height = min(f.n_test, max(1, BLOCK_BYTES // (8 * s + own)))
    return replace(found, peak=found.peak + height * own + 16 * s * k)


_FEWER = "lower model.landmarks, or label fewer points"
WORDS = Words(
    model="A machine in a kernel of clusters: points are alike that many paths between similar points join.",
    changed="kernel that merely changed", cause="changed kernel", graph="model.transfer", norm="model.C",
    folds="Points that are held out stay among those that make the kernel.")
BASELINES = (Baseline(
    "base", "The same machine and labels in the base kernel, with its own bandwidth and C: unlabeled points enter at "
            "most the scaling and the bandwidth."),)
CLUSTER = Kind.of(SPECS["cluster"], (
    DATASET, SPLIT, LABELS, POINTS,
    Stage("basis", 1, ("points", "labels"), BasisParams.of, make_basis, _basis_cost, _FEWER, intermediate=True,
          section=cluster_section),
    Stage("selection", 4, ("points", "labels", "basis"), FitParams.of, make_selection, _selection_cost, _FEWER,
          section=partial(selection_section, words=WORDS), leads=True),
    Stage("models", 6, ("points", "labels", "basis", "selection"), FitParams.of, make_models, _models_cost, _FEWER),
    SAMPLE, predictions_with(_scores_cost),
    Stage("scores", SCORES.version, SCORES.needs, SCORES.params, SCORES.make,
          _scores_cost, _FEWER, section=SCORES.section, leads=True),
), words=WORDS, baselines=BASELINES)
