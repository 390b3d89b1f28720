"""Successive halving: all candidates are evaluated on few folds, the better of them on more, and a few on all.

Its resource is the number of folds. Labels are few, and the points of a fold are predicted by fits that see all
others. So a score on some folds measures the same function as one on all folds, on fewer points; half of the labels
would be another problem. The folds of a rung are spread over all folds, since folds of single points come class by
class. What candidates share is kept from rung to rung: graphs, covariances of deformed kernels, and the Gram matrices
of landmarks of all kernels. Each rung evaluates its folds anew.

It pays where folds are refits, and many. On usps with 200 labels, 500 landmarks and 75 candidates it took `LapSVM` 1.2
times the seconds of judging all on all 5 folds, 0.62 times on 10 folds, and 0.30 times on 10 folds three times; with a
closed form, as of LapRLS, it saves nothing, since all folds of a pair cost about what one does. The choice was the same
(`tests/benchmarks/RESULTS.md`).

Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization", AISTATS 2016; names
and numbers as in scikit-learn's `HalvingGridSearchCV` with `min_resources="exhaust"`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from ..base.errors import require
from ..storage.blocks import block_rng
from .choice import ChoiceRule

CANDIDATE_STREAM = 6  # of the seed
MIN_FOLDS = 2  # of a rung: a calibration is fitted to the other folds
Repetitions = Sequence[Sequence[np.ndarray]]
Candidate = TypeVar("Candidate")


@dataclass(frozen=True, eq=False)
class Rung:
    """So many candidates are evaluated on these folds of the labeled points."""

    n_candidates: int
    repetitions: Repetitions

    @property
    def n_resources(self) -> int:
        """Return the number of folds."""
        return sum(len(folds) for folds in self.repetitions)


def require_factor(factor: Any) -> None:
    """Raise ParameterError unless the factor of halving is None, or a number > 1."""
    number = isinstance(factor, Real) and not isinstance(factor, bool)
    require(factor is None or (number and 1 < float(factor) < np.inf), f"factor={factor!r}, expected a number > 1",
            why="one of so many candidates goes on to the next rung", fix="use 3, or None to evaluate all on all folds")


def rungs_of(repetitions: Repetitions, n_candidates: int, factor: float | None) -> list[Rung]:
    """Return the rungs of a search; the last has all folds, and the only one where the factor is None.

    Each has `factor` times the folds of the one before, at least two, and ceil(1 / factor) of its candidates. There are
    as many as bring the candidates below `factor`, or as there are numbers of folds. Beyond the folds of the first
    repetition a rung has whole repetitions.
    """
    if factor is None:
        return [Rung(n_candidates, repetitions)]
    most = sum(len(folds) for folds in repetitions)
    needed = 1 + floor(log(n_candidates, factor) + 1e-9)  # 3^5 are five rungs above the first, however a log is rounded
    counts = sorted({_whole(repetitions, max(MIN_FOLDS, int(most / factor**number))) for number in range(needed)})
    rungs = []
    for count in counts:
        rungs.append(Rung(n_candidates, some_folds(repetitions, count)))
        n_candidates = ceil(n_candidates / factor)
    return rungs


def _whole(repetitions: Repetitions, count: int) -> int:
    """Return the number of folds, of no more than `count`, that are of the first repetition, or whole repetitions."""
    ends = np.cumsum([len(folds) for folds in repetitions])
    return count if count <= ends[0] else int(ends[ends <= count].max())


def some_folds(repetitions: Repetitions, count: int) -> Repetitions:
    """Return the first repetitions that have `count` folds, or so many of the first, evenly spaced among its folds."""
    ends = np.cumsum([len(folds) for folds in repetitions])
    spaced = (np.arange(count) * len(repetitions[0]) // count).tolist()
    return [folds for folds, end in zip(repetitions, ends, strict=True) if end <= count] or [
        [repetitions[0][place] for place in spaced]]


@dataclass(frozen=True)
class Search:
    """Which of all combinations of parameters are tried, and on which folds.

    n_candidates : so many of them, drawn by the seed; None is all. factor : of successive halving, see `rungs_of`; None
    evaluates all on all folds.
    """

    n_candidates: int | None = None
    factor: float | None = None
    random_state: int = 0

    def __post_init__(self) -> None:
        require_factor(self.factor)

    def drawn(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return the combinations that are tried, in their order."""
        if self.n_candidates is None:
            return list(candidates)
        chosen = block_rng(self.random_state, CANDIDATE_STREAM).permutation(len(candidates))[:self.n_candidates]
        return [candidates[index] for index in np.sort(chosen)]


ALL = Search()
Evaluate = Callable[[int, Mapping[str, Sequence[Any]], Repetitions], Mapping[str, Sequence[Mapping[str, Any]]]]


@dataclass(frozen=True, eq=False)
class EvaluatedRung:
    """The candidates that stood in a rung, by their places among all, and their rows; both by the name of a model."""

    n_resources: int
    places: dict[str, list[int]]
    rows: dict[str, list[dict[str, Any]]]


def evaluated_by_rungs(candidates: Mapping[str, Sequence[Any]], repetitions: Repetitions, search: Search,
                       rule: ChoiceRule, evaluate: Evaluate) -> list[EvaluatedRung]:
    """Return the rungs of a search, the last of them on all folds.

    Names are models that choose each for itself; the one with the most candidates decides of the rungs. evaluate : the
    number of a rung, by name the candidates that stand in it, and its folds -> by name their rows.
    """
    rungs = list[EvaluatedRung]()
    standing = {name: list(range(len(places))) for name, places in candidates.items()}
    for number, rung in enumerate(rungs_of(repetitions, max(map(len, candidates.values())), search.factor)):
        if number:
            assert search.factor is not None
            standing = {name: [places[place] for place in better(rungs[-1].rows[name], rule, ceil(
                len(places) / search.factor))] for name, places in standing.items()}
        rows = evaluate(number, {name: [candidates[name][index] for index in places]
                                 for name, places in standing.items()}, rung.repetitions)
        rungs.append(EvaluatedRung(rung.n_resources, standing, {name: [dict(row) for row in rows[name]]
                                                                for name in standing}))
    return rungs


def tables_of(rungs: Sequence[EvaluatedRung],
              search: Search) -> tuple[dict[str, list[dict[str, Any]]], dict[str, list[dict[str, Any]]]]:
    """Return by name the last row of each candidate, and the rows of those that were evaluated on all folds.

    Rows of successive halving tell the folds that they were evaluated on, `n_folds`.
    """
    tables, last = dict[str, list[dict[str, Any]]](), dict[str, list[dict[str, Any]]]()
    for name in rungs[0].places:
        rows = dict[int, dict[str, Any]]()
        for rung in rungs:
            folds = {} if search.factor is None else {"n_folds": rung.n_resources}
            rows |= {index: {**row, **folds} for index, row in zip(rung.places[name], rung.rows[name], strict=True)}
        tables[name] = list(rows.values())
        last[name] = [rows[index] for index in rungs[-1].places[name]]
    return tables, last


def better(rows: Sequence[Mapping[str, Any]], rule: ChoiceRule, n: int) -> list[int]:
    """Return the places of the n rows of lowest measure, ascending; of equals the first."""
    return sorted(sorted(range(len(rows)), key=lambda place: rule.order(rows[place]))[:n])
