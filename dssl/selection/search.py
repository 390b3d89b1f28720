r"""Cross-validation over power, eta, bandwidth and C in the kernel deformed by a graph.

Held-out points stay in the graph as unlabeled points. New points are not among the landmarks S of the deformation, so
held-out points must leave S: fold F is predicted in the kernel of the landmarks S \ F. This needs no further
factorization. With B = A + eta K_SS, its Cholesky factor, W = B^-1 K_Sl and the block (B^-1)_FF,

    k' (B_{S\F})^-1 k  =  k' B^-1 k  -  W_F' [(B^-1)_FF]^-1 W_F

(Schur complement). One factor serves all folds of a grid point. Each fold has a Gram matrix of its own, to which the
learner is fitted again; the base kernel has one matrix for all folds, so a closed form serves ridge regression.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, repeat
from typing import Any, Literal

import numpy as np
from scipy.linalg import cho_solve

from ..base.errors import require
from ..graph.regularizer import RegularizerParams
from ..kernels.base import Kernel
from ..kernels.deformed import Eta, absolute_eta, factor_positive, require_eta
from ..learners.class_prior import LABELS
from ..learners.deformed import ETAS, block_of_gram, eta_shares, kernel_weights, weighted_sum
from ..learners.laprls.params import HeldOutPoints
from ..learners.linear.gram import LearnerParams, held_out_of_gram
from ..learners.metrics import HINGE
from ..learners.target.coding import Coding
from ..learners.target.target import Target
from .candidates import CandidateScores
from .folds import held_out
from .held_out_scores import HeldOut


@dataclass(frozen=True, kw_only=True)
class GridParams:
    """The grid: powers of the regularizer, etas (relative, see `deform`; or "auto", see `learners/deformed.py`) and C.

    held_out_points : only "transductive": held-out points stay in the graph.

    Raises ParameterError: an empty list, a value out of range, "inductive".
    """

    power: tuple[int, ...] = (1, 2, 3)
    eta: tuple[Eta, ...] = (1.0, 10.0, 100.0)
    C: tuple[float, ...] = (10.0,)
    held_out_points: HeldOutPoints = "transductive"

    def __post_init__(self) -> None:
        for name in ("power", "eta", "C"):
            values = getattr(self, name)
            require(len(values) > 0, f"{name} has no values", why="the grid would be empty", fix="give at least one")
            require(len(set(values)) == len(values), f"{name}={list(values)} contains a value twice",
                    why="equal candidates waste work", fix="remove one of them")
        require(self.held_out_points == "transductive", f"held_out_points={self.held_out_points!r}, deformed kernels",
                why="the graph of all points is solved once for all folds of a deformed kernel",
                fix='use "transductive"; the models laprls and lapsvm have "inductive"')
        for power in self.power:
            RegularizerParams(power=power)
        for C in self.C:
            LearnerParams(C=C)
        for eta in self.eta:
            require_eta(eta)
        require(0 not in self.eta, f"eta={list(self.eta)} has a 0", why="eta 0 is the base kernel, the baseline",
                fix="remove the 0")

    @property
    def points(self) -> list[tuple[int, Eta, float]]:
        return list(product(self.power, self.eta, self.C))

    def parts(self, points: Sequence[tuple[int | None, Eta | None, float]]) -> list["GridParams"]:
        """Return grids of these combinations: this one if it contains no others, or else one for each power and eta.

        Candidates in the base kernel have neither power nor eta, and one grid.
        """
        penalties: dict[tuple[int | None, Eta | None], list[float]] = {}
        for power, eta, C in points:
            penalties.setdefault((power, eta), []).append(C)
        if len(points) == len(self.points):
            return [self]
        return [replace(self, C=tuple(values)) if power is None or eta is None else replace(
            self, power=(power,), eta=(eta,), C=tuple(values)) for (power, eta), values in penalties.items()]

    def at(self, candidate: CandidateScores) -> "GridParams":
        """Return the grid of one candidate; in the base kernel it has neither power nor eta."""
        values: dict[str, Any] = {name: (value,) for name in ("power", "eta", "C")
                  if (value := candidate.parameters[name]) is not None}
        return replace(self, **values)


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """The labeled points, the folds of each repetition, and the learner that is fitted without each fold.

    kind : "svm" or "ridge". weight : (l,) of the labeled points, 1 by default. scoring : an additional score.
    complete : whether every score is computed. random_state : of `held_out_sample`.
    """

    target: Target
    repetitions: Sequence[Sequence[np.ndarray]]
    kind: Literal["svm", "ridge"]
    weight: np.ndarray | None = None
    scoring: str | None = None
    complete: bool = False
    random_state: int = 0

    @property
    def folds(self) -> list[np.ndarray]:
        return [fold for folds in self.repetitions for fold in folds]

    def scores(self, values: Sequence[np.ndarray], coding: Coding, **parameters: object) -> CandidateScores:
        """Return the scores of held-out values (l, c) in each repetition."""
        fitted = [HeldOut(self.target, coding, each, folds, self.weight)
                  for each, folds in zip(values, self.repetitions, strict=True)]
        shifted = [each.with_prior(LABELS) for each in fitted]
        return CandidateScores.of(shifted, HINGE, self.scoring, fitted, complete=self.complete, **parameters)


def held_out_grams(K_SS: np.ndarray, K_Sl: np.ndarray, K_ll: np.ndarray, A: np.ndarray, eta: float,
                   position: np.ndarray, folds: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    r"""Yield the deformed Gram matrix (l, l) of the labeled points for each fold F, with the landmarks S \ F.

    K_SS (s, s), K_Sl (s, l), K_ll (l, l) : the base kernel. A (s, s) : Q^+ on S. eta : relative.
    position : (l,), the index in S of each labeled point, -1 where it is not in S.

    Cost: s^3 / 3 + 4 s^2 l flops once, and l^2 |F| a fold.
    """
    absolute = absolute_eta(A, eta)
    if eta == 0:
        yield from repeat(K_ll, len(folds))
        return
    factor, _ = factor_positive(A + absolute * K_SS)
    inside = np.flatnonzero(position >= 0)
    unit = np.zeros((len(A), len(inside)))
    unit[position[inside], np.arange(len(inside))] = 1
    solved = cho_solve((factor, True), np.hstack([K_Sl, unit]), check_finite=False)
    W, inverse = solved[:, :K_Sl.shape[1]], solved[:, K_Sl.shape[1]:]
    whole = K_ll - absolute * (K_Sl.T @ W)
    for fold in folds:
        member = np.isin(inside, fold)
        rows = position[inside[member]]
        K = whole
        if len(rows):
            K = whole + absolute * (W[rows].T @ np.linalg.solve(inverse[rows][:, member], W[rows]))
        yield (K + K.T) / 2


def search_deformed(base: Kernel, X_S: np.ndarray, X_l: np.ndarray, position: np.ndarray,
                    powers: Mapping[int, np.ndarray], concentration: Mapping[int, float], params: GridParams,
                    validation: CrossValidation) -> list[CandidateScores]:
    """Return the candidates (power, eta, C) of one base kernel, deformed by A (s, s) of each power of the regularizer.

    concentration : the spectral concentration of the graph by power, where it is known; eta "auto" uses it.
    """
    K_SS, K_Sl, K_ll = base(X_S, X_S), base(X_S, X_l), base(X_l, X_l)

    def grams(power: int, eta: float) -> Iterator[np.ndarray]:
        return held_out_grams(K_SS, K_Sl, K_ll, powers[power], eta, position, validation.folds)

    def means(power: int) -> Iterator[tuple[np.ndarray, float]]:
        return held_out_means(zip(*(grams(power, eta) for eta in ETAS), strict=True), validation,
                              concentration.get(power))

    return [candidate for power, eta in product(params.power, params.eta) for candidate in _search_C(
        means(power) if isinstance(eta, str) else zip(grams(power, eta), repeat(0.0)), params, validation,
        power=power, eta=eta)]


def held_out_means(grams: Iterable[Sequence[np.ndarray]], validation: CrossValidation,
                   concentration: float | None) -> Iterator[tuple[np.ndarray, float]]:
    """Yield for each fold the mean Gram matrix (l, l) of eta "auto", and the share of the unpenalized intercept.

    The labels outside the fold determine the shares of the etas; that of the base kernel is also the intercept's.
    grams : of each fold, the Gram matrices of all `ETAS`.
    """
    for fold, fold_grams in zip(validation.folds, grams, strict=True):
        training = np.setdiff1d(np.arange(len(fold_grams[0])), fold)
        weight = None if validation.weight is None else validation.weight[training]
        inner = [K[np.ix_(training, training)] for K in fold_grams]
        target = validation.target.take(training)
        shares = eta_shares(map(block_of_gram, inner), target, weight, concentration, validation.random_state)
        weights = kernel_weights([np.diagonal(K) for K in inner], shares, weight)
        yield weighted_sum(fold_grams, weights), float(shares[0])


def search_base(base: Kernel, X_l: np.ndarray, params: GridParams,
                validation: CrossValidation) -> list[CandidateScores]:
    """Return the candidates in a base kernel; for "ridge" one eigendecomposition serves all folds and C."""
    K = base(X_l, X_l)
    target = validation.target
    if validation.kind != "ridge":
        return _search_C(repeat((K, 0.0), len(validation.folds)), params, validation, power=None, eta=None)
    predictions = [held_out_of_gram(K, target, folds, params.C, validation.weight) for folds in validation.repetitions]
    return [validation.scores(values, target.coding, power=None, eta=None, C=C)
            for C, values in zip(params.C, zip(*predictions, strict=True), strict=True)]


def _search_C(grams: Iterable[tuple[np.ndarray, float]], params: GridParams, validation: CrossValidation,
              **parameters: object) -> list[CandidateScores]:
    """Return a candidate for each C. grams : of each fold, with the share of the unpenalized intercept."""
    n_repetitions = len(validation.repetitions)
    number = np.repeat(np.arange(n_repetitions), [len(folds) for folds in validation.repetitions])
    by_penalty: dict[tuple[float, int], np.ndarray] = {}
    coding = validation.target.coding
    for (K, unpenalized), fold, repetition in zip(grams, validation.folds, number.tolist(), strict=True):
        for C in params.C:
            learner = LearnerParams(kind=validation.kind, C=C, unpenalized_intercept=unpenalized)
            values, coding = held_out([K], validation.target, [fold], learner, validation.weight)
            by_penalty.setdefault((C, repetition), values)[fold] = values[fold]
    return [validation.scores([by_penalty[C, repetition] for repetition in range(n_repetitions)], coding,
                              **parameters, C=C) for C in params.C]
