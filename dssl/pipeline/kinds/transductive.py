"""Scores of the training points whose labels are known and were not shown."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...learners.on_graph.model import scored
from ...learners.target.target import Target
from ...methods.step import Context
from ...selection.scores import scores_of, withheld
from ..split import split_target


def transductive_scores(context: Context, values_at: Callable[[Target, np.ndarray], np.ndarray],
                        beyond: np.ndarray) -> dict[str, Any]:
    """Return the scores of the training points whose labels are known and were not shown; nothing without any.

    values_at : the target and places of points -> what the model says there, (n, c). beyond (n_train,) bool : where it
    says nothing.
    """
    known, shown = split_target(context, "train"), context.arrays("labels")["labeled"]
    hidden = known.take(np.flatnonzero(~np.isin(known.labeled, shown)))
    if not len(hidden.labeled):
        return {}
    lost = beyond[hidden.labeled]
    predicted = withheld(scored(hidden).predictions(values_at(hidden, hidden.labeled), hidden.coded), lost)
    own = {name: value for name, value in scores_of(hidden, predicted).items() if name != "confusion"}
    return {"transductive": {**own, "unsupported": int(lost.sum())}}
