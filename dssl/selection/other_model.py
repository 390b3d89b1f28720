"""What held-out labels say of another model's opinion of the points, in words."""

from typing import Any

import numpy as np

from ..base.digest import JsonObject
from ..learners.metrics import PointMetric
from ..learners.target.coding import Coding
from ..learners.target.target import Target
from .comparison import HELPED, HURT
from .graph_gain import Gain, gain_of

MIN_LABELS = 5  # that are held out, for a test


def other_model_evidence(target: Target, coding: Coding, pooled: np.ndarray, learned: np.ndarray, other: np.ndarray,
                         weight: np.ndarray | None, metric: PointMetric, attributes: JsonObject) -> dict[str, Any]:
    """Return what held-out values (h, c) of the pool, of the learner and of the other model alone say; JSON.

    attributes : of the pool (`Pooled.attributes`). Labels that the learner cannot hold out are not compared.
    """
    known = np.flatnonzero(np.isfinite(learned).all(axis=1))
    if len(known) < MIN_LABELS:
        return {**attributes, "in_words": _uncompared(attributes)}
    labels, label_weight = target.take(known), None if weight is None else weight[known]

    def gain(baseline: np.ndarray) -> Gain:
        return gain_of(labels, coding, pooled[known], baseline[known], label_weight, metric)

    gain_over_learner, gain_over_other = gain(learned), gain(other)
    return {**attributes, "gain": gain_over_learner.described(), "gain_over_other": gain_over_other.described(),
            "in_words": _in_words(gain_over_learner, gain_over_other, attributes)}


def without_labels(attributes: JsonObject, moved: float) -> dict[str, Any]:
    """Return the evidence of a pool without held-out labels.

    moved : the share of points whose class smoothing changes.
    """
    if attributes["learner_weight"] > 0:
        return {**attributes, "in_words":
                "the other model is not used, because too few labels can be held out to judge it"}
    return {**attributes, "moved": moved, "in_words":
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
