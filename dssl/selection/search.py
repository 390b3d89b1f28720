"""Cross-validation over power, eta, bandwidth and C in the kernel deformed by a graph.

The kernel is measured at the subsample S, and labeled points are among it. A point that is held out must not be: new
points are not, and there the function follows the base kernel, while on S it follows the graph. So fold F is predicted
in the kernel of the subsample S without F, which costs no further factorization: with B = A + eta K_SS, one Cholesky
factor, W = B^-1 K_Sl and the block (B^-1)_FF,

    k' (B without F)^-1 k  =  k' B^-1 k  -  W_F' [(B^-1)_FF]^-1 W_F

(the inverse of a submatrix by the Schur complement). One factor serves all folds, of a grid point; K_SS serves all
powers and etas, of a bandwidth; the solves of the graph serve all powers. Each fold has a Gram matrix of its own then,
to which a ridge is fitted anew: the closed form (`learners/closed_form.py`) takes one matrix for all folds, as the base
kernel has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from ..errors import require
from ..graph.regularizer import RegularizerParams
from ..kernels.base import Kernel
from ..kernels.deformed import absolute_eta, check_eta, factor_positive
from ..learners.closed_form import held_out_of_gram
from ..learners.measures import HINGE
from ..learners.ridge_and_svm import LearnerParams
from ..learners.target import Target
from .folds import held_out, require_folds
from .scores import held_out_scores


@dataclass(frozen=True, kw_only=True)
class GridParams:
    """The grid: powers of the regularizer, etas (relative, see `deform`), C, and the number of folds.

    Raises ParameterError: an empty list, a value out of range, fewer than two folds.
    """

    power: tuple[int, ...] = (1, 2, 3)
    eta: tuple[float, ...] = (1.0, 10.0, 100.0)
    C: tuple[float, ...] = (10.0,)
    folds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("power", "eta", "C"):
            values = getattr(self, name)
            require(len(values) > 0, f"{name} has no values", why="the grid would be empty", fix="give at least one")
            require(len(set(values)) == len(values), f"{name}={list(values)} names a value twice",
                    why="equal grid points waste work", fix="leave one out")
        for power in self.power:
            RegularizerParams(power=power)
        for C in self.C:
            LearnerParams(C=C)
        for eta in self.eta:
            check_eta(eta)
        require(min(self.eta) > 0, f"eta={list(self.eta)} has a 0", why="eta 0 is the base kernel, which is a baseline "
                "of its own", fix="leave the 0 out")
        require_folds(self.folds)


MEASURES = ("error", "rmse", "loss", "mae")  # of a row, those that there are in this order


def choose(rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the row of a search of lowest error or rmse, then of the lowest second measure, then the first."""
    return min(rows, key=_measures)


def _measures(row: Mapping[str, Any]) -> list[float]:
    return [row[name] for name in MEASURES if name in row]


def cv_results(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Return the rows of a search as scikit-learn has them in `cv_results_`: arrays with an entry a row.

    `params` and `param_<name>` of the parameters `names`; `split<i>_test_score`, the accuracy in a fold, or of
    quantities minus the rmse; `mean_test_score`, the same over the points of all folds, and `std_test_score` over the
    folds; `rank_test_score`, 1 for the row that `choose` returns and its equals.
    """
    if not rows:
        return {}
    best, measured = (1.0 if "error" in rows[0] else 0.0), [_measures(row) for row in rows]
    folds = best - np.array([row["fold_errors"] for row in rows])
    return {
        "params": [{name: row[name] for name in names if name in row} for row in rows],
        **{f"param_{name}": _masked([row.get(name) for row in rows], [name not in row for row in rows])
           for name in names},
        **{f"split{fold}_test_score": folds[:, fold] for fold in range(folds.shape[1])},
        "mean_test_score": best - np.array([first for first, *_ in measured]), "std_test_score": folds.std(axis=1),
        "rank_test_score": np.array([1 + sum(other < own for other in measured) for own in measured], np.int32)}


def _masked(values: list[Any], mask: list[bool]) -> np.ma.MaskedArray:
    """Return a masked array of one dimension, of objects where values are no numbers or texts of one kind."""
    if all(isinstance(value, (int, float)) for value in values) or all(isinstance(value, str) for value in values):
        return np.ma.array(values)
    array = np.empty(len(values), object)
    array[:] = values
    return np.ma.array(array, mask=mask)


def held_out_grams(K_SS: np.ndarray, K_Sl: np.ndarray, K_ll: np.ndarray, A: np.ndarray, eta: float,
                   position: np.ndarray, folds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the deformed Gram matrix (l, l) of the labeled points, a fold, measured at S without the fold.

    K_SS (s, s), K_Sl (s, l), K_ll (l, l) : the base kernel. A (s, s) : Q^+ on S. eta : relative.
    position : (l,), the place in S of each labeled point, -1 where it is not in S.

    Cost: s^3 / 3 + 4 s^2 l flops once, and l^2 |F| a fold.
    """
    absolute = absolute_eta(A, eta)
    factor, _ = factor_positive(A + absolute * K_SS)
    inside = np.flatnonzero(position >= 0)
    unit = np.zeros((len(A), len(inside)))
    unit[position[inside], np.arange(len(inside))] = 1
    solved = cho_solve((factor, True), np.hstack([K_Sl, unit]), check_finite=False)
    W, inverse = solved[:, :K_Sl.shape[1]], solved[:, K_Sl.shape[1]:]
    whole = K_ll - absolute * (K_Sl.T @ W)
    grams = []
    for fold in folds:
        member = np.isin(inside, fold)
        rows = position[inside[member]]
        K = whole
        if len(rows):
            K = whole + absolute * (W[rows].T @ np.linalg.solve(inverse[rows][:, member], W[rows]))
        grams.append((K + K.T) / 2)
    return grams


def search_deformed(base: Kernel, X_S: np.ndarray, X_l: np.ndarray, target: Target, position: np.ndarray,
                    powers: Mapping[int, np.ndarray], kind: str, params: GridParams, folds: Sequence[np.ndarray],
                    weight: np.ndarray | None = None) -> list[dict[str, Any]]:
    """Return the rows of one base kernel, deformed by `powers`: A (s, s) of each power of the regularizer.

    Each has `power`, `eta`, `C`, and the measures of `held_out_scores`.
    """
    K_SS, K_Sl, K_ll = base(X_S, X_S), base(X_S, X_l), base(X_l, X_l)
    return [row for power, eta in product(params.power, params.eta) for row in _search_C(
        held_out_grams(K_SS, K_Sl, K_ll, powers[power], eta, position, folds), target, kind, params, folds,
        weight, power=power, eta=eta)]


def search_base(base: Kernel, X_l: np.ndarray, target: Target, kind: str, params: GridParams,
                folds: Sequence[np.ndarray], weight: np.ndarray | None = None) -> list[dict[str, Any]]:
    """Return the rows of a base kernel, which has neither power nor eta.

    The kernel is the same without any fold, so that for "ridge" one eigendecomposition serves all folds and C.
    """
    K = base(X_l, X_l)
    if kind != "ridge":
        return _search_C([K] * len(folds), target, kind, params, folds, weight, power=None, eta=None)
    return [{"power": None, "eta": None, "C": C, **held_out_scores(target, target.coding, values, folds, HINGE, weight)}
            for C, values in zip(params.C, held_out_of_gram(K, target, folds, params.C, weight), strict=True)]


def _search_C(grams: Sequence[np.ndarray], target: Target, kind: str, params: GridParams, folds: Sequence[np.ndarray],
              weight: np.ndarray | None, **given: Any) -> list[dict[str, Any]]:
    """Return a row for each C, with Gram matrices (l, l) of the folds."""
    rows = []
    for C in params.C:
        learner = LearnerParams(kind=kind, C=C)  # type: ignore[arg-type]
        values, coding = held_out(grams, target, folds, learner, weight)
        rows.append({**given, "C": C, **held_out_scores(target, coding, values, folds, HINGE, weight)})
    return rows
