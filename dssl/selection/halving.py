"""Successive halving: all candidates are evaluated on few folds, the better of them on more, and a few on all.

The resource is the number of folds, not of labels: a fit to half of the labels would be another problem. The folds of a
rung are spread over all folds, because folds of single points are sorted by class. Rungs share graphs, covariances of
deformed kernels, and the Gram matrices of the landmarks; each rung evaluates its folds again. Halving saves time where
folds are many and each is a refit, and none where a closed form serves all folds (`tests/benchmarks/RESULTS.md`).

References
----------
Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016; names
and numbers as in scikit-learn's `HalvingGridSearchCV` with `min_resources="exhaust"`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log
from numbers import Real
from typing import Any, Protocol, TypeVar

import numpy as np

from ..base.errors import require
from ..storage.blocks import block_rng
from .candidates import CandidateScores, SelectionRule

CANDIDATE_STREAM = 6  # of the seed
MIN_FOLDS = 2  # of a rung: a calibration is fitted to the other folds
Repetitions = Sequence[Sequence[np.ndarray]]
Candidate = TypeVar("Candidate")


@dataclass(frozen=True, eq=False)
class Rung:
    """The number of candidates that are evaluated on some folds of the labeled points."""

    n_candidates: int
    repetitions: Repetitions

    @property
    def n_resources(self) -> int:
        return sum(len(folds) for folds in self.repetitions)


def require_factor(factor: object) -> None:
    """Raise ParameterError unless the factor of halving is None, or a number > 1."""
    require(factor is None or (isinstance(factor, Real) and not isinstance(factor, bool)
                               and 1 < float(factor) < np.inf),
            f"factor={factor!r}, expected a number > 1", why="one in so many candidates goes on to the next rung",
            fix="use 3, or None to evaluate all on all folds")


def rungs_of(repetitions: Repetitions, n_candidates: int, factor: float | None) -> list[Rung]:
    """Return the rungs of a search, the last of which has all folds; one rung if the factor is None.

    Each has `factor` times the folds of the one before, at least two, and ceil(1 / factor) of its candidates, until
    fewer than `factor` are left. A rung with more folds than the first repetition has whole repetitions.
    """
    if factor is None:
        return [Rung(n_candidates, repetitions)]
    n_folds = sum(len(folds) for folds in repetitions)
    needed = 1 + floor(log(n_candidates, factor) + 1e-9)  # 3^5 are five rungs above the first, however a log is rounded
    counts = sorted({_whole(repetitions, max(MIN_FOLDS, int(n_folds / factor**number))) for number in range(needed)})
    rungs = []
    for count in counts:
        rungs.append(Rung(n_candidates, some_folds(repetitions, count)))
        n_candidates = ceil(n_candidates / factor)
    return rungs


def _whole(repetitions: Repetitions, count: int) -> int:
    """Return the most folds, at most `count`, that lie in the first repetition or are whole repetitions."""
    ends = np.cumsum([len(folds) for folds in repetitions])
    return count if count <= ends[0] else int(ends[ends <= count].max())


def some_folds(repetitions: Repetitions, count: int) -> Repetitions:
    """Return the first repetitions that have `count` folds, or `count` evenly spaced folds of the first repetition."""
    ends = np.cumsum([len(folds) for folds in repetitions])
    spaced = (np.arange(count) * len(repetitions[0]) // count).tolist()
    return [folds for folds, end in zip(repetitions, ends, strict=True) if end <= count] or [
        [repetitions[0][place] for place in spaced]]


@dataclass(frozen=True)
class Search:
    """Which combinations of parameters are tried, and on which folds.

    n_candidates : how many are drawn; None is all. factor : of successive halving, see `rungs_of`; None evaluates all
    candidates on all folds.
    """

    n_candidates: int | None = None
    factor: float | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        require_factor(self.factor)

    def drawn(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        if self.n_candidates is None:
            return list(candidates)
        drawn = block_rng(self.random_state, CANDIDATE_STREAM).permutation(len(candidates))[:self.n_candidates]
        return [candidates[index] for index in np.sort(drawn)]


ALL = Search()
# The number of a rung, and by model the candidates in it and the folds, to the scores of these candidates by model.
Evaluate = Callable[[int, Mapping[str, Sequence[Any]], Repetitions], Mapping[str, Sequence[CandidateScores]]]


@dataclass(frozen=True, eq=False)
class EvaluatedRung:
    """The candidates of each model in a rung, by their indices among all, and their scores."""

    n_resources: int
    indices: dict[str, list[int]]
    candidates: dict[str, list[CandidateScores]]


def evaluated_by_rungs(candidates: Mapping[str, Sequence[Any]], repetitions: Repetitions, search: Search,
                       rule: Callable[[], SelectionRule], evaluate: Evaluate) -> list[EvaluatedRung]:
    """Return the rungs of a search, the last of them on all folds; rule : called where a rung has to be selected from.

    Each model selects among its own candidates; the one with the most determines the rungs.
    """
    rungs = list[EvaluatedRung]()
    indices = {name: list(range(len(of_model))) for name, of_model in candidates.items()}
    for number, rung in enumerate(rungs_of(repetitions, max(map(len, candidates.values())), search.factor)):
        if number:
            assert search.factor is not None
            indices = {name: [of_model[index] for index in rule().best(rungs[-1].candidates[name], ceil(
                len(of_model) / search.factor))] for name, of_model in indices.items()}
        scored = evaluate(number, {name: [candidates[name][index] for index in of_model]
                                   for name, of_model in indices.items()}, rung.repetitions)
        rungs.append(EvaluatedRung(rung.n_resources, indices, {name: list(scored[name]) for name in indices}))
    return rungs


def json_tables(tables: Mapping[str, Sequence[CandidateScores]]) -> dict[str, list[dict[str, Any]]]:
    return {name: [candidate.to_json() for candidate in table] for name, table in tables.items()}


def tables_of(rungs: Sequence[EvaluatedRung], search: Search) -> tuple[dict[str, list[CandidateScores]],
                                                                       dict[str, list[CandidateScores]]]:
    """Return by model the last scores of each candidate, and the candidates that were evaluated on all folds."""
    tables, finalists = dict[str, list[CandidateScores]](), dict[str, list[CandidateScores]]()
    for name in rungs[0].indices:
        last_scores = dict[int, CandidateScores]()
        for rung in rungs:
            n_folds = None if search.factor is None else rung.n_resources
            last_scores |= {index: replace(candidate, n_folds=n_folds) for index, candidate in zip(
                rung.indices[name], rung.candidates[name], strict=True)}
        tables[name] = list(last_scores.values())
        finalists[name] = [last_scores[index] for index in rungs[-1].indices[name]]
    return tables, finalists


class CandidateEvaluator(Protocol):
    """Evaluates candidates of one method on the same points, labels and graph.

    It keeps systems, features and kernel columns, which candidates and folds share, from one call to the next.
    """

    def evaluate(self, candidates: Sequence[Any], folds: Repetitions) -> list[CandidateScores]:
        """Return the scores of each candidate, with its penalties as parameters, by fits without each fold.

        candidates : parameters of the method.
        """
