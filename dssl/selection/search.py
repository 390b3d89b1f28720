"""Cross-validation over power, eta, bandwidth and C in the kernel deformed by a graph.

A point that is held out stays in the graph of all points, as an unlabeled one ("transductive"): that graph is solved
before there are folds. The kernel is measured at the subsample S, and labeled points are among it. A point that is held
out must not be: new points are not, and there the function follows the base kernel, while on S it follows the graph. So
fold F is predicted in the kernel of the subsample S without F, which costs no further factorization: with B = A + eta
K_SS, one Cholesky factor, W = B^-1 K_Sl and the block (B^-1)_FF,

    k' (B without F)^-1 k  =  k' B^-1 k  -  W_F' [(B^-1)_FF]^-1 W_F

(the inverse of a submatrix by the Schur complement). One factor serves all folds, of a grid point; K_SS serves all
powers and etas, of a bandwidth; the solves of the graph serve all powers. Each fold has a Gram matrix of its own then,
to which a ridge is fitted anew: the closed form (`learners/held_out/closed_form.py`) takes one matrix for all folds, as
the base kernel has it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, repeat
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from ..base.errors import require
from ..graph.regularizer_params import RegularizerParams
from ..kernels.base import Kernel
from ..kernels.deformed import Eta, absolute_eta, factor_positive, require_eta
from ..learners.class_prior import LABELS
from ..learners.eta import ETAS, shares_of_etas, sum_of, weights_of
from ..learners.held_out.closed_form import held_out_of_gram
from ..learners.laprls.params import HeldOutPoints
from ..learners.linear.gram import LearnerParams
from ..learners.measures import HINGE
from ..learners.target.coding import Coding
from ..learners.target.target import Target
from .folds import held_out
from .held_out_scores import HeldOut, all_scores, held_out_scores


@dataclass(frozen=True, kw_only=True)
class GridParams:
    """The grid: powers of the regularizer, etas (relative, see `deform`; or "auto", see `learners/eta.py`) and C.

    held_out_points : "transductive", the only one there is: they stay in the graph, and leave the subsample.

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
            require(len(set(values)) == len(values), f"{name}={list(values)} names a value twice",
                    why="equal grid points waste work", fix="leave one out")
        require(self.held_out_points == "transductive", f"held_out_points={self.held_out_points!r}, deformed kernels",
                why="the graph of all points is solved before there are folds; without a fold's points it is another",
                fix='use "transductive"; the models laprls and lapsvm have "inductive"')
        for power in self.power:
            RegularizerParams(power=power)
        for C in self.C:
            LearnerParams(C=C)
        for eta in self.eta:
            require_eta(eta)
        require(0 not in self.eta, f"eta={list(self.eta)} has a 0", why="eta 0 is the base kernel, which is a baseline "
                "of its own", fix="leave the 0 out")

    @property
    def points(self) -> list[tuple[int, Eta, float]]:
        """Return all combinations of power, eta and C."""
        return list(product(self.power, self.eta, self.C))

    def parts(self, points: Sequence[tuple[int | None, Eta | None, float]]) -> list["GridParams"]:
        """Return grids that have these combinations: one where they are all of it, or else one a power and eta.

        Those of a base kernel have no power and eta, and one grid.
        """
        penalties: dict[tuple[int | None, Eta | None], list[float]] = {}
        for power, eta, C in points:
            penalties.setdefault((power, eta), []).append(C)
        if len(points) == len(self.points):
            return [self]
        return [replace(self, C=tuple(values)) if power is None or eta is None else replace(
            self, power=(power,), eta=(eta,), C=tuple(values)) for (power, eta), values in penalties.items()]

    def at(self, row: Mapping[str, Any]) -> "GridParams":
        """Return the grid of one row of a search; of a base kernel, which has neither power nor eta, C alone."""
        grid: dict[str, Any] = {name: (row[name],) for name in ("power", "eta") if row[name] is not None}
        return replace(self, C=(row["C"],), **grid)


@dataclass(frozen=True, eq=False)
class Held:
    """What is held out of a search: the labeled points, the folds of each repetition, the learner, what rows tell.

    kind : "svm" or "ridge". weight : (l,) of the labeled points, 1 by default. scoring : what rows tell beside the
    scores that all have. complete : rows tell every score too, as `scores`.
    """

    target: Target
    repetitions: Sequence[Sequence[np.ndarray]]
    kind: str
    weight: np.ndarray | None = None
    scoring: str | None = None
    complete: bool = False

    @property
    def folds(self) -> list[np.ndarray]:
        """Return the folds of all repetitions, one after the other."""
        return [fold for folds in self.repetitions for fold in folds]

    def row(self, values: Sequence[np.ndarray], coding: Coding, **given: Any) -> dict[str, Any]:
        """Return the row of values (l, c) in each repetition, at the parameters `given`."""
        fitted = [HeldOut(self.target, coding, each, folds, self.weight)
                  for each, folds in zip(values, self.repetitions, strict=True)]
        held = [each.with_prior(LABELS) for each in fitted]
        row = {**given, **held_out_scores(held, HINGE, self.scoring, fitted)}
        return {**row, "scores": all_scores(held)} if self.complete else row


def held_out_grams(K_SS: np.ndarray, K_Sl: np.ndarray, K_ll: np.ndarray, A: np.ndarray, eta: float,
                   position: np.ndarray, folds: Sequence[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the deformed Gram matrix (l, l) of the labeled points, a fold, measured at S without the fold.

    K_SS (s, s), K_Sl (s, l), K_ll (l, l) : the base kernel. A (s, s) : Q^+ on S. eta : relative.
    position : (l,), the place in S of each labeled point, -1 where it is not in S. folds : of all repetitions.

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
                    powers: Mapping[int, np.ndarray], structure: Mapping[int, float], params: GridParams,
                    held: Held) -> list[dict[str, Any]]:
    """Return the rows of one base kernel, deformed by `powers`: A (s, s) of each power of the regularizer.

    structure : of the graph, by power, for "auto"; of powers that are not there it is not known.

    Each has `power`, `eta`, `C`, and the measures of `held_out_scores`.
    """
    K_SS, K_Sl, K_ll = base(X_S, X_S), base(X_S, X_l), base(X_l, X_l)

    def grams(power: int, eta: float) -> Iterator[np.ndarray]:
        return held_out_grams(K_SS, K_Sl, K_ll, powers[power], eta, position, held.folds)

    def means(power: int) -> Iterator[tuple[np.ndarray, float]]:
        return held_out_means(zip(*(grams(power, eta) for eta in ETAS), strict=True), held, structure.get(power))

    return [row for power, eta in product(params.power, params.eta) for row in _search_C(
        means(power) if isinstance(eta, str) else zip(grams(power, eta), repeat(0.0)), params, held, power=power,
        eta=eta)]


def held_out_means(grams: Iterable[Sequence[np.ndarray]], held: Held,
                   structure: float | None) -> Iterator[tuple[np.ndarray, float]]:
    """Yield the mean Gram matrix (l, l) of "auto" of each fold, with the shares that the labels outside it say.

    And how free the intercept is, the share of the base kernel.

    grams : of each fold, the Gram matrices of all `ETAS`.
    """
    for fold, own in zip(held.folds, grams, strict=True):
        kept = np.setdiff1d(np.arange(len(own[0])), fold)
        target, weight = held.target.take(kept), None if held.weight is None else held.weight[kept]
        inner = [K[np.ix_(kept, kept)] for K in own]
        shares = shares_of_etas(inner, target, weight, structure)
        yield sum_of(own, weights_of(inner, shares, weight)), float(shares[0])


def search_base(base: Kernel, X_l: np.ndarray, params: GridParams, held: Held) -> list[dict[str, Any]]:
    """Return the rows of a base kernel, which has neither power nor eta.

    The kernel is the same without any fold, so that for "ridge" one eigendecomposition serves all folds and C.
    """
    K, target = base(X_l, X_l), held.target
    if held.kind != "ridge":
        return _search_C(repeat((K, 0.0), len(held.folds)), params, held, power=None, eta=None)
    found = [held_out_of_gram(K, target, folds, params.C, held.weight) for folds in held.repetitions]
    return [held.row(values, target.coding, power=None, eta=None, C=C)
            for C, values in zip(params.C, zip(*found, strict=True), strict=True)]


def _search_C(grams: Iterable[tuple[np.ndarray, float]], params: GridParams, held: Held,
              **given: Any) -> list[dict[str, Any]]:
    """Return a row for each C, with Gram matrices (l, l) of the folds of all repetitions, one at a time.

    Beside each, how free the intercept of a ridge regression in it is.
    """
    number = np.repeat(np.arange(len(held.repetitions)), [len(folds) for folds in held.repetitions])
    by_penalty: dict[tuple[float, int], np.ndarray] = {}
    coding = held.target.coding
    for (K, free), fold, repetition in zip(grams, held.folds, number.tolist(), strict=True):
        for C in params.C:
            learner = LearnerParams(kind=held.kind, C=C, free=free)  # type: ignore[arg-type]
            values, coding = held_out([K], held.target, [fold], learner, held.weight)
            by_penalty.setdefault((C, repetition), values)[fold] = values[fold]
    return [held.row([by_penalty[C, repetition] for repetition in range(len(held.repetitions))], coding, **given, C=C)
            for C in params.C]
