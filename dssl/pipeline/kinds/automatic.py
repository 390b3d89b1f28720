"""The kind `automatic`: the first to try, with nothing to tune.

    model     graph kernels and kernels on the labels alone, each as much as leave-one-out says; with many labels
              harmonic functions on the graph or the nearest labels, as a held-out share says
    base      what the labels alone say, chosen alike
    nearest   the label of the nearest labeled point

The labels choose the scale of the features too, so that points follow from labels.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...base.errors import ParameterError
from ...data.scaling.params import ScalingParams
from ...data.scaling.rows import scaling_cost
from ...estimators.feature_scales import choose_scale, choosing_bytes
from ...execution.cost import Cost
from ...graph.graph import KNNGraph
from ...learners.class_prior import ClassPrior, ClassWeight
from ...learners.class_scoring import ClassScoring
from ...learners.kernel_family import KernelSum
from ...learners.nearest import fit_nearest_as_told
from ...learners.on_graph.automatic import Automatic, Loss, fit_automatic, measure_of
from ...learners.on_graph.class_sizes import known_shares, offset_to
from ...learners.on_graph.cost import automatic_cost, predicted_cost
from ...learners.on_graph.graph_ridge import GraphRidgeParams
from ...learners.probabilities import calibration_attributes
from ...learners.target.target import Classes, Target
from ...methods.step import Context
from ...report.sections.choice import choice_section
from ...report.words import Baseline, Words
from ...selection.by_labels import LabelFolds, by_labels
from ...selection.graph_gain import gain_of, held_out_loss
from ...selection.held_out_scores import HeldOut, require_scoring
from ...selection.odd_labels import odd_labels, warn_odd_labels
from ...selection.scoring import with_scoring
from ...solvers.direct import LARGEST
from ...storage.blocks import PartWriter
from ...storage.views import SelectedRows
from ..dataset import DATASET, dataset_of
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES
from ..plan.facts import Facts
from ..points import LABELS, POINTS, make_points, scale_points
from ..predict.stage import predictions_with
from ..sample import SAMPLE_OF_GRAPH
from ..scoring import SCORES, ScoreParams, make_scores_in, with_scored
from ..spec import Spec
from ..split import SPLIT
from ..stage import Kind, Stage
from .automatic_spec import AutomaticPipeline
from .graph_spec import SizeParams
from .specs import SPECS
from .transductive import transductive_scores

VALUES = 1  # the part of what the model says at the training points


@dataclass(frozen=True)
class ScaleParams:
    """How features are scaled; None chooses. random_state : of the labels that judge."""

    scaling: ScalingParams | None
    random_state: int

    @classmethod
    def of(cls, spec: AutomaticPipeline) -> "ScaleParams":
        return cls(spec.data.scaling, spec.model.random_state)


def make_scaled_points(context: Context, params: ScaleParams) -> dict[str, Any]:
    """Choose the scale of the features, and scale the training and test points; one that grows has that of the base."""
    if params.scaling is not None:
        return make_points(context, params.scaling)
    if context.base is not None:
        chosen = context.base.attributes["scale"]
        return {**scale_points(context, ScalingParams(kind=chosen["kind"]), by_labels=True), "scale": chosen}
    dataset = dataset_of(context)
    scaling, tried = choose_scale(dataset.X, context.rows("split", "train"), context.target(),
                                  context.execution, params.random_state, dataset.categories)
    made = scale_points(context, ScalingParams(kind=scaling.kind), by_labels=True)
    return {**made, "scale": {"kind": scaling.kind, **tried}}


@dataclass(frozen=True)
class FitParams:
    """How new points reach the graph, the family of its kernels, up to how many labels, and known sizes of classes.

    scoring : what the predicted class is best for, None for accuracy.
    """

    graph: KNNGraph
    family: GraphRidgeParams
    most: int
    class_sizes: SizeParams
    loss: Loss
    prior: ClassPrior
    weight: ClassWeight
    scoring: ClassScoring | None

    @classmethod
    def of(cls, spec: AutomaticPipeline) -> "FitParams":
        return cls(spec.graph.builder(), spec.family(), spec.most_labels, spec.model.sizes(), spec.model.loss,
                   spec.prior, spec.weight, spec.model.scoring)


@dataclass(frozen=True)
class AutomaticScoreParams(ScoreParams):
    """The same, and the metric that models are compared by; None for accuracy."""

    scoring: ClassScoring | None

    @classmethod
    def of(cls, spec: Spec) -> "AutomaticScoreParams":
        assert isinstance(spec, AutomaticPipeline)
        return cls(spec.prior, spec.weight, spec.model.scoring)


def make_models(context: Context, params: FitParams) -> dict[str, Any]:
    """Fit the model, and what the labels alone and the nearest of them say; write the model's values at the points."""
    target, points, graph = context.target(params.prior), context.points("train"), context.graph()
    target.require_labels()
    if isinstance(target, Classes):
        target = with_scoring(target, params.scoring)
    execution, weight = context.execution, target.label_weights(params.weight)
    found = fit_automatic(graph, points, target, weight, params.class_sizes.sizes, params.family, params.most,
                          params.graph, held_out_loss, execution, params.loss)
    base, labeled = found.alone, SelectedRows(points, target.labeled)
    shares = known_shares(params.class_sizes.sizes, target)
    nearest = fit_nearest_as_told(points, target, params.graph.metric, weight, shares, execution)
    if shares is not None:
        assert isinstance(base, KernelSum)  # class sizes with many labels are refused
        base = replace(base, offset=base.offset + offset_to(base.values(points, execution), base.coding, shares))
    arrays, described = dict[str, np.ndarray](), {}
    for name, model, values in (("model", found.model, found.values[target.labeled]),
                                ("base", base, base.values(labeled, execution)),
                                ("nearest", nearest, nearest.values(labeled, execution))):
        own, attributes = model.to_arrays()
        arrays |= {f"{name}.{key}": array for key, array in own.items()}
        described[name] = {**attributes, "name": name, "n_labeled": len(target.labeled),
                           **target.missed(values, model.coding)}
    held = target.take(found.held)
    described["model"] |= calibration_attributes(found.calibration)
    described["base"] |= calibration_attributes(found.calibration_alone)
    PartWriter(context.parts, 0).write(**arrays)
    PartWriter(context.parts, VALUES).write(values=found.values)
    of_held = None if weight is None else weight[found.held]
    gain = gain_of(held, found.model.coding, found.held_out, found.held_out_alone, of_held, measure_of(target),
                   without_class_sizes=shares is not None)
    odd = odd_labels(held, found.held_out, context.rows("split", "train").take(held.labeled))
    warn_odd_labels(odd)
    return {"models": described, "by_labels": {**_by_labels(target, weight, found), **(
                {} if shares is None else {"without_class_sizes": True})},
            "choice": {**found.attributes, "gain": gain.described(), "in_words": gain.in_words(),
                       "odd_labels": odd}}


def _by_labels(target: Target, weight: np.ndarray | None, found: Automatic) -> dict[str, Any]:
    """Return what the labels say, by the values that the model was chosen by, with a curve where there are few."""
    coding, whole = found.model.coding, LabelFolds.of(target)
    if not whole.compared:  # of one label a class, each is predicted wrong without itself, and says nothing
        return by_labels(target, whole, {})
    if found.left_out is None and whole.curve:
        whole = replace(whole, curve=[], no_curve="class sizes were told, of which labels held out know nothing"
                        if isinstance(target, Classes) else "the labels are weighed by their residuals")
    alone, held = list(np.arange(len(found.held))[:, None]), target.take(found.held)
    of_held = None if weight is None else weight[found.held]
    left_out = {name: [HeldOut(held, coding, values, alone, of_held)]
                for name, values in (("model", found.held_out), ("base", found.held_out_alone))}
    for _, folds in whole.curve:
        assert found.left_out is not None
        for name, values in zip(left_out, found.left_out(folds), strict=True):
            left_out[name].append(HeldOut(target, coding, values, folds))
    return by_labels(held, replace(whole, compared=alone), left_out)


def _values_of_training(context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Return what the model says at the training points, and at which of them it says nothing: at none."""
    values = context.inputs["models"].parts.read(VALUES)["values"]
    return values, np.zeros(len(values), bool)


def make_automatic_scores(context: Context, params: AutomaticScoreParams) -> dict[str, Any]:
    """Predict the test points with every model and compare; score the training points whose labels were not shown."""
    values, beyond = _values_of_training(context)
    return {**make_scores_in(params.scoring, context, params), **transductive_scores(
        context, lambda target, places: values[places], beyond)}


def _refused(f: Facts[AutomaticPipeline]) -> ParameterError | None:
    """Return why the metric is none of the classes of the points, as soon as a stage has found these."""
    found = next((classes for stage in ("labels", "split") if (classes := f.attributes.get(stage, {}).get("classes"))),
                 None)
    try:
        require_scoring(f.spec.model.scoring, classes=not f.is_regression, n_classes=2 if found is None else len(found))
    except ParameterError as error:
        return error
    return None


NOT_DEFINED = {"roc_auc": "they are of one class", "f1": "none is of the second class",
               "neg_log_loss": "the model has no probabilities"}


def scoring_notes(found: dict[str, Any]) -> list[str]:
    """Return a note where models are compared by accuracy since the metric that is asked for is not defined."""
    gains = {"test points": found["gain"], "labels held out": found["gain"].get("by_labels") or {}}
    return [f"model.scoring is {name}, which is not defined at the {points}, since {NOT_DEFINED[name]}: there the "
            "models are compared by accuracy"
            for points, gain in gains.items() if (name := gain.get("undefined_scoring"))]


def _points_cost(f: Facts[AutomaticPipeline]) -> Cost:
    scaling = f.spec.data.scaling
    own = scaling_cost("standardize" if scaling is None else scaling.kind, (f.n, f.n_test, f.n_rows), f.d, f.row_bytes,
                       f.width, f.x_chunk, f.budget, is_sparse=f.sparse_entries is not None)
    judging = 0 if scaling is not None else choosing_bytes(f.n_labeled, f.row_bytes, f.width)
    return replace(own, peak=max(own.peak, judging))


def _models_cost(f: Facts[AutomaticPipeline]) -> Cost:
    """Return what the path takes that so many labels have; where their number is not known, that of both."""
    family, m = f.spec.family(), f.n_labeled
    if f.vertices > LARGEST:
        f.estimated.add("solver")
    most = f.spec.most_labels
    both = {m > most, *({False} if "labeled points" in f.estimated else ())}
    return f.one_of([automatic_cost(
        f.distinct, f.row_bytes, f.nnz, m if many else min(m, most), f.graph.metric, f.n_outputs,
        None if many else family, guess=f.bound == "most", sized=f.spec.model.class_sizes is not None, budget=f.budget)
        for many in sorted(both)])


def _scores_cost(f: Facts[AutomaticPipeline]) -> Cost:
    few = f.n_labeled <= f.spec.most_labels
    cost = predicted_cost(f.distinct, f.row_bytes, f.n, f.n_test, f.n_labeled, f.graph.n_neighbors, f.graph.metric,
                          f.n_outputs, few, f.budget)
    return with_scored(cost, f, 1 + len(BASELINES), asked=f.spec.model.scoring is not None)


_FEWER = ("lower data.points and predict the others with the model, label fewer points, or use model.kind laprls, "
          "which has no task with the whole graph")
WORDS = Words(
    model="Graph kernels and kernels on the labels, averaged by leave-one-out; with many labels harmonic functions on "
          "the graph or the nearest labels, as held-out labels say.",
    changed="function that merely changed", cause="changed function", graph="graph.width", norm="graph.width",
    unreached="the labels alone")
BASELINES = (
    Baseline("base", "What the labels alone say, chosen alike: kernels on them, averaged by leave-one-out, or with "
                     "many labels the nearest three. Unlabeled points enter at most the scaling and the bandwidths.",
             of_classes="With class sizes they also shift the scores to these."),
    Baseline("nearest", "The label of the nearest labeled point. If it is as good, the graph says little.",
             of_classes="With class sizes, a prior, weights or a scoring, the distances to the nearest labeled points "
                        "of the classes are shifted to these."))
AUTOMATIC = Kind.of(SPECS["automatic"], (
    DATASET, SPLIT, LABELS,
    replace(POINTS, version=7, needs=("dataset", "split", "labels"), params=ScaleParams.of, make=make_scaled_points,
            cost=_points_cost),
    VERTICES, NEIGHBORS, GRAPH, HEALTH,
    Stage("models", 21, ("split", "points", "labels", "vertices", "neighbors", "graph"), FitParams.of, make_models,
          _models_cost, _FEWER, section=choice_section, refuses=_refused),
    SAMPLE_OF_GRAPH, predictions_with(_scores_cost, _values_of_training),
    replace(SCORES, version=5, params=AutomaticScoreParams.of, notes=scoring_notes, make=make_automatic_scores,
            needs=("split", "points", "labels", "vertices", "models"), cost=_scores_cost, remedy=_FEWER),
), words=WORDS, baselines=BASELINES)
