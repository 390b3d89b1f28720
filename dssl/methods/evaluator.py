"""What evaluates the candidates of a search, for the step `selection` of a method and for `GridSearch`."""

from collections.abc import Sequence
from typing import Any, Protocol

from ..selection.halving import Repetitions


class CandidateEvaluator(Protocol):
    """What evaluates candidates of one method on the same points, labels and graph.

    It keeps what candidates and folds share (systems, features, columns of kernels) from one call to the next.
    """

    def rows(self, candidates: Sequence[Any], folds: Repetitions) -> list[dict[str, Any]]:
        """Return the row of a table (`held_out_scores`) of each candidate, by fits without each fold.

        Rows tell the penalties too, as numbers, of which a `ChoiceRule` knows which are the stronger.

        candidates : the parameters of each, of the method, which differ in what one evaluation varies.
        """
