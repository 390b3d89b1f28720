"""The evaluator of the candidates of a search, for the step `selection` of a method and for `GridSearch`."""

from collections.abc import Sequence
from typing import Any, Protocol

from ..selection.candidates import CandidateScores
from ..selection.halving import Repetitions


class CandidateEvaluator(Protocol):
    """Evaluates candidates of one method on the same points, labels and graph.

    It keeps systems, features and kernel columns, which candidates and folds share, from one call to the next.
    """

    def evaluate(self, candidates: Sequence[Any], folds: Repetitions) -> list[CandidateScores]:
        """Return the scores of each candidate, with its penalties as parameters, by fits without each fold.

        candidates : parameters of the method.
        """
