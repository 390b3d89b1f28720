"""Parameters of machines on virtual samples, chosen by cross-validation on the labeled points.

Points that are held out stay among those that make the kernel, as unlabeled ones; so one eigenproblem serves all folds,
transfer functions, penalties and losses.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..learners.class_prior import LABELS
from ..learners.linear.features import SampleLearner
from ..learners.measures import HINGE
from ..learners.target.target import Target
from .held_out_scores import HeldOut, all_scores, held_out_scores


def rows_of_samples(F: np.ndarray, target: Target, learners: Sequence[SampleLearner],
                    repetitions: Sequence[Sequence[np.ndarray]], scoring: str | None = None,
                    weight: np.ndarray | None = None, *, complete: bool = False) -> list[dict[str, Any]]:
    """Return the row of a search of each learner on the samples F (l, k) of the labeled points.

    repetitions : the folds of each. scoring : what rows tell beside the scores that all have. complete : rows
    have all `scores`.
    """
    completed = []
    for learner in learners:
        fitted = left_out_samples(F, target, learner, repetitions, weight)
        held = [values.with_prior(LABELS) for values in fitted]
        row = {"C": learner.C, **held_out_scores(held, HINGE, scoring, fitted)}
        completed.append({**row, "scores": all_scores(held)} if complete else row)
    return completed


def left_out_samples(F: np.ndarray, target: Target, learner: SampleLearner,
                     repetitions: Sequence[Sequence[np.ndarray]], weight: np.ndarray | None = None) -> list[HeldOut]:
    """Return the values of a learner on the samples F (l, k) of the labeled points, in each repetition."""
    held = []
    for folds in repetitions:
        values, coding = learner.held_out(F, target, folds, weight)
        held.append(HeldOut(target, coding, values, folds, weight))
    return held
