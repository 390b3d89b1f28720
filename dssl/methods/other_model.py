"""Another model beside a learner on a graph: soft labels that are given, or an estimator fitted to the labels.

What held-out labels say of it stands in the evidence, in words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import DataError, DsslError, ParameterError, SpecError, explain, require
from ..execution.cost import FLOP_RATE, Cost, cost_of
from ..graph.graph import Graph
from ..graph.regularizer import solve_cost
from ..learners.on_graph.automatic import metric_of
from ..learners.on_graph.model import scored, signed
from ..learners.on_graph.pooled import Pooled
from ..learners.soft_labels import SIMILAR_NUMBERS, SoftLabels, require_soft_labels
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Classes, Target
from ..selection.base_estimator import BLOCK_NUMBERS, FOLDS, BaseEstimatorName, base_estimator_of, cross_fitted
from ..selection.comparison import HELPED, HURT
from ..selection.graph_gain import Gain, gain_of
from ..storage.blocks import Rows
from .data_sections import ClassEmbeddingSection, LearningTask, OpinionSection, SoftLabelSection
from .plan_inputs import PlanInputs
from .sections import SizedModel
from .step import Context

# Of boosted trees, the slowest of the named estimators, on one core and for each class: a fit, for each label and
# column of it, and a prediction of a point. Measured.
FIT_SECONDS, ENTRY_SECONDS, PREDICT_SECONDS = 0.1, 4e-6, 6e-6
MIN_LABELS = 5  # that are held out, for a test


@dataclass(frozen=True, eq=False)
class OtherModel:
    """What says something of the points (n, d) beside the labels: `given` soft labels (n, c), or an estimator."""

    points: Rows
    given: np.ndarray | None
    estimator: object
    random_state: int

    @classmethod
    def of(cls, context: Context, target: Target, estimator: object, random_state: int) -> "OtherModel | None":
        """Return the other model of a step, None where there is none; raise DataError for invalid soft labels."""
        given = context.soft_labels()
        if given is None and estimator is None:
            return None
        points = context.points("train")
        require(isinstance(target, Classes) or can_learn(target), f"{len(target.labeled)} labeled points",
                why="predicted targets count by how well they predict labels that are held out", error=DataError,
                fix="label two points, or take the predicted targets as they are")
        if given is not None:
            names = target.names if isinstance(target, Classes) else None
            given = require_soft_labels(given, len(points), names)
            require(can_learn(target) or bool((given != given[0]).any()), error=DataError,
                    what="soft labels are the same at all points, and no two classes have a label",
                    why="nothing tells the classes apart", fix="label a point of each class, or pass soft labels that "
                                                               "differ between points")
        return cls(points, given, estimator, random_state)

    def soft_labels(self, target: Target, weight: np.ndarray | None) -> SoftLabels:
        """Return the soft labels; those of an estimator are cross-fitted on the labels of a target."""
        if self.given is not None:
            return SoftLabels(self.given)
        return cross_fitted(self.estimator, self.points, target, weight, self.random_state)


def can_learn(target: Target) -> bool:
    """Return whether a learner can be fitted: there are labels of two classes, or two quantities."""
    if isinstance(target, Classes):
        return len(np.unique(target.coded)) > 1
    return len(target.labeled) > 1


@dataclass(frozen=True, kw_only=True)
class PooledModel(SizedModel):
    """A model that is pooled with what another model says.

    Parameters
    ----------
    soft_labels : SoftLabelSection or None
        What another model says of each row of the source, which must not have seen
        the labels. Without a label it is all there is.
    class_embeddings : ClassEmbeddingSection or None
        In place of soft labels: a vector of each class in the space of the features.
    base_estimator : "boosting", "logistic", "ridge" or None
        In place of both: another model, which is fitted to the labels and
        cross-validated on them, of scikit-learn: gradient boosting, logistic
        regression of classes, or ridge regression of quantities. Held-out labels
        choose how much the other model counts.
    """

    soft_labels: SoftLabelSection | None = None
    class_embeddings: ClassEmbeddingSection | None = None
    base_estimator: BaseEstimatorName | None = None

    @property
    def opinion(self) -> OpinionSection | None:
        return self.class_embeddings if self.soft_labels is None else self.soft_labels

    def task_mistakes(self, task: LearningTask) -> Iterator[tuple[str, DsslError]]:
        """Yield a second other model, and one that does not serve the task."""
        yield from super().task_mistakes(task)
        names = [name for name in ("soft_labels", "class_embeddings", "base_estimator")
                 if getattr(self, name) is not None]
        for name in names[1:]:
            yield f"model.{name}", SpecError(explain(f"model.{name}, and model.{names[0]}",
                                                     why="one other model is pooled with the labels",
                                                     fix="leave all but one out"))
        if self.base_estimator is not None:
            try:
                _ = base_estimator_of(self.base_estimator, classes=task == "classification", random_state=0)
            except ParameterError as error:
                yield "model.base_estimator", SpecError(explain(
                    f"model.base_estimator: {self.base_estimator}, and data.task is {task}", why=str(error),
                    fix="name another, or leave it out"))
        if self.class_embeddings is not None and task == "regression":
            yield "model.class_embeddings", SpecError(explain(
                "model.class_embeddings, and data.task is regression", why="quantities have no classes",
                fix="give predicted targets in model.soft_labels, or leave it out"))
        if self.soft_labels is None:
            return
        params = self.soft_labels.params
        if task == "regression" and (params.classes is not None or len(params.columns) > 1):
            yield "model.soft_labels", SpecError(explain(
                "model.soft_labels of classes, and data.task is regression",
                why="soft labels of quantities are one column of predicted targets",
                fix="list one column, without classes"))
        if task == "classification" and params.classes is None:
            yield "model.soft_labels", SpecError(explain(
                "model.soft_labels names no classes", why="each column has the probabilities of one class",
                fix="list them in the order of the columns, such as classes: [cat, dog]"))


def other_cost(f: PlanInputs, base_estimator: object) -> Cost:
    """Return what another model takes: nothing where there is none.

    Of an estimator that is cross-fitting the slowest of the named ones. What is said of all points is held as it is, by
    vertex and smoothed, for each fit; of an estimator beside a block of rows and the rows of the labels, twice.
    """
    if base_estimator is None and f.opinion is None:
        return cost_of(0, 0, 0, 0)
    n, m, c = f.n, f.n_labeled, max(f.n_outputs, 2)
    fits = 1 if base_estimator is None else FOLDS + 1
    held = 24 * fits * n * c
    smoothing = solve_cost(f.vertices, f.nnz, c, guess=f.bound == "upper")
    smoothed = cost_of(0, fits * smoothing.read, 0, held + smoothing.peak, held + smoothing.smallest_peak,
                       fits * smoothing.seconds)
    if base_estimator is None:
        return smoothed if f.opinion == "soft_labels" else smoothed + vectors_cost(f, held)
    block = min(n * f.width, max(BLOCK_NUMBERS, f.width))
    seconds = fits * c * (FIT_SECONDS + ENTRY_SECONDS * m * f.width + PREDICT_SECONDS * n)
    return smoothed + cost_of(fits, fits * n * f.row_bytes, 0, held + 16 * block + 2 * m * f.row_bytes, held, seconds)


def vectors_cost(f: PlanInputs, held: int) -> Cost:
    """Return what the probabilities of class vectors take: two passes over the points, in blocks.

    held : bytes of what is said of all points.
    """
    block = min(f.n * f.width, max(SIMILAR_NUMBERS, f.width))
    return cost_of(0, 2 * f.n * f.row_bytes, 0, held + 20 * block, held, 2 * f.n * f.width * f.n_classes / FLOP_RATE)


def evidence_of(pooled: Pooled, graph: Graph, target: Target, weight: np.ndarray | None) -> dict[str, Any]:
    """Return what held-out labels say of the other model; JSON. Labels that the learner cannot hold out do not count.
    """
    attributes, coding = pooled.attributes, scored(target)
    if not len(pooled.positions):
        return {**attributes, **_without_labels(pooled, graph, target)}
    known = np.flatnonzero(np.isfinite(pooled.held_out_learner).all(axis=1))
    if len(known) < MIN_LABELS:
        return {**attributes, "in_words": _uncompared(attributes)}
    labels = pooled.positions[known]

    def gain(baseline: np.ndarray) -> Gain:
        return gain_of(target.take(labels), coding, pooled.held_out[known], baseline[known],
                       None if weight is None else weight[labels], metric_of(target))

    gain_over_learner, gain_over_other = gain(pooled.held_out_learner), gain(pooled.held_out_other)
    return {**attributes, "gain": gain_over_learner.described(), "gain_over_other": gain_over_other.described(),
            "in_words": _in_words(gain_over_learner, gain_over_other, attributes)}


def _without_labels(pooled: Pooled, graph: Graph, target: Target) -> JsonObject:
    """Return what is said of a pool without held-out labels: the share of points whose class smoothing changes."""
    if pooled.attributes["learner_weight"] > 0:
        return {"in_words": "the other model is not used, because too few labels can be held out to judge it"}
    coding, moved = scored(target), 0.0
    if isinstance(coding, ClassCoding):
        codes = coding.codes(signed(pooled.on_vertices.values, target))
        moved = float(np.average(codes != coding.codes(pooled.other), weights=graph.vertices.multiplicity))
    return {"moved": moved, "in_words":
            "there are no labels to judge the other model; the predictions are what it says, smoothed on the graph, "
            f"which changes the class of {100 * moved:.1f} % of the points"}


def _counts(attributes: JsonObject) -> bool:
    return bool(attributes["weight"] > 0 or attributes["smoothed_weight"] > 0)


def _uncompared(attributes: JsonObject) -> str:
    if not _counts(attributes):
        return (f"the other model is not used, because the {attributes['labels']} labels do not show that it knows the "
                "classes")
    return (f"the other model is weighted by how well it predicts the {attributes['labels']} labels, which are too few "
            "to hold some out and compare")


def _in_words(gain: Gain, of_other: Gain, attributes: JsonObject) -> str:
    unit, scale = (" %", 100.0) if gain.metric in ("error", "balanced error") else ("", 1.0)

    def shown(value: float) -> str:
        return f"{scale * value:.1f}{unit}" if unit else f"{value:.4g}"

    verdict = {HELPED: "the other model helps", HURT: "the other model does not help"}.get(
        gain.verdict, "no clear gain by the other model")
    of_graph = {HELPED: "labels and graph help it", HURT: "it is better alone"}.get(
        of_other.verdict, "no clear gain over it alone")
    if not _counts(attributes):
        return (f"on the {gain.n} held-out labels the {gain.metric} is {shown(gain.baseline)}, and "
                f"{shown(of_other.baseline)} for the other model alone, which is not used, because the labels do not "
                "show that it adds anything")
    return (f"the {gain.n} held-out labels are predicted with {gain.metric} {shown(gain.with_graph)} with the other "
            f"model, {shown(gain.baseline)} without it and {shown(of_other.baseline)} by it alone: {verdict} "
            f"(p = {gain.p_value:.2g}), and {of_graph} (p = {of_other.p_value:.2g})")
