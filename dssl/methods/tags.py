"""What held-out labels say of models of tags, from the fits of single tags."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..learners.probabilities import Calibration, TagCalibration
from ..learners.target.coding import margins_of
from ..learners.target.encoding import UNLABELED
from ..learners.target.tags import Tags
from ..selection.graph_gain import Gain
from ..selection.tag_scores import MEANS, compare_tags, tag_scores
from .step import HeldOutValues

NAMES = {"f1_macro": "macro F1", "average_precision": "mean average precision"}


def calibration_of_tags(target: Tags, learned: Sequence[Calibration | None]) -> TagCalibration | None:
    """Return the calibration of all tags from that of each that is learned; None where one of these has none.

    A tag that all labels have, or none of n has, has the probability (n + 1) / (n + 2), or 1 / (n + 2): Laplace's rule.
    """
    if any(calibration is None for calibration in learned):
        return None
    n_with, n_without = target.with_and_without
    shares = np.where(np.isnan(target.constants()), np.nan, (n_with + 1) / (n_with + n_without + 2))
    tags: list[Calibration | None] = [None] * len(target.names)
    for column, calibration in zip(target.learnable.tolist(), learned, strict=True):
        tags[column] = calibration
    return TagCalibration(tuple(tags), shares)


def evidence_of_tags(target: Tags, held_out: Sequence[HeldOutValues], calibration: TagCalibration | None,
                     n: int) -> tuple[Gain, dict[str, Any]]:
    """Return the gain of models of tags over their supervised baseline, and what is known of both; JSON.

    held_out, calibration : of the learnable tags; the others are left out. n : the number of points. The probabilities
    are those of the calibration of all labels.
    """
    n_labeled, target = len(target.labeled), target.of_columns(target.learnable)
    known = replace(target, coded=np.full_like(target.coded, UNLABELED))
    scores = {name: np.full(target.coded.shape, np.nan) for name in ("model", "base")}
    for column, held in enumerate(held_out):
        at = np.searchsorted(target.labeled, held.points)
        known.coded[at, column] = target.coded[at, column]
        for name, values in scores.items():
            values[at, column] = margins_of(getattr(held, name), held.coding)[:, 1]
    some = np.flatnonzero((known.coded != UNLABELED).any(axis=1))
    known, scores = known.take(some), {name: values[some] for name, values in scores.items()}
    gain, over_tags = compare_tags(known, scores["model"], scores["base"])
    gain = replace(gain, all_labeled=n == n_labeled)
    return gain, {"gain": gain.described(), "over_tags": over_tags, "held_out": {
        "model": tag_scores(known, scores["model"], None if calibration is None else calibration.probabilities(
            scores["model"])),
        "base": tag_scores(known, scores["base"])}, "in_words": f"{gain.in_words()}; {in_words(over_tags)}"}


def in_words(over_tags: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the differences of means over tags as a sentence."""
    means = []
    for name in MEANS:
        mean = over_tags[name]
        if not mean["tags"]:
            continue
        interval = "" if mean["interval"] is None else ", 95 % interval over the tags {:.3f} to {:.3f}".format(
            *mean["interval"])
        means.append(f"{NAMES[name]} {mean['with_graph']:.3f} with the graph and {mean['without']:.3f} without it "
                     f"(difference {mean['difference']:+.3f}{interval})")
    return "; ".join(means) or "no tag has known points with it and without it"
