"""Cross-validation of learners on the graph: rows of a search from values without each fold.

A point that is held out stays in the graph as an unlabeled one. Where no label reaches it then, it counts as wrong.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..learners.class_prior import ClassPrior
from ..learners.measures import HINGE
from ..learners.on_graph.graph_ridge import GraphRidgeParams
from ..learners.on_graph.held_out import HeldOutValues
from ..learners.on_graph.model import scored, signed
from ..learners.target.target import Target
from .held_out_scores import HeldOut, held_out_scores

VERSIONS = {"held_out_on_graph": 6}  # of the code of each step; to be raised when its output changes


def row_on_graph(target: Target, repetitions: Sequence[Sequence[np.ndarray]], found: Sequence[HeldOutValues],
                 weight: np.ndarray | None, scoring: str | None, params: Any, assumed: ClassPrior) -> dict[str, Any]:
    """Return the row of what was found in each repetition of the folds; of ridge it tells the penalty too.

    assumed : how frequent the values say that classes are.
    """
    held = [HeldOut(target, scored(target), signed(own.values, target), folds, weight, own.lost).with_prior(assumed)
            for own, folds in zip(found, repetitions, strict=True)]
    penalty = {"penalty": float(params.penalty)} if isinstance(params, GraphRidgeParams) else {}
    return {**penalty, **held_out_scores(held, HINGE, scoring)}
