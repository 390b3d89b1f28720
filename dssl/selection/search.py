"""Cross-validation over power, eta, bandwidth and C in the kernel deformed by a graph.

The kernel is measured at the subsample S, and labeled points are among it. A point that is held out must not be: new
points are not, and there the function follows the base kernel, while on S it follows the graph. So fold F is predicted
in the kernel of the subsample S without F, which costs no further factorization: with B = A + eta K_SS, one Cholesky
factor, W = B^-1 K_Sl and the block (B^-1)_FF,

    k' (B without F)^-1 k  =  k' B^-1 k  -  W_F' [(B^-1)_FF]^-1 W_F

(the inverse of a submatrix by the Schur complement). One factor serves all folds, of a grid point; K_SS serves all
powers and etas, of a bandwidth; the solves of the graph serve all powers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.linalg import cho_solve

from ..errors import require
from ..kernels.base import Kernel
from ..kernels.deformed import factor_positive
from ..learners.deformed import absolute_eta, check_eta
from ..learners.kernel_model import Coding, class_pairs, class_scores
from ..learners.ridge_and_svm import LearnerParams, fit_labels, fit_values


@dataclass(frozen=True, kw_only=True)
class GridParams:
    """The grid: powers of the regularizer, etas (relative, see `deform`), C, and the number of folds.

    Raises
    ------
    ParameterError : an empty list, a value out of range, fewer than two folds.
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
        require(all(isinstance(p, (int, np.integer)) and 1 <= p <= 64 for p in self.power),
                f"power={list(self.power)}", why="Q = R^p is formed by p solves of R", fix="use 1, 2 and 3")
        for eta in self.eta:
            check_eta(eta)
        require(min(self.eta) > 0, f"eta={list(self.eta)} has a 0", why="eta 0 is the base kernel, which is a baseline "
                "of its own", fix="leave the 0 out")
        require(all(0 < C < np.inf for C in self.C), f"C={list(self.C)}", why="it weighs the labels",
                fix="use 1 to 100")
        require(self.folds >= 2, f"folds={self.folds}", why="a fold is held out of the others", fix="use 5 or 10")


@dataclass(frozen=True)
class GridPoint:
    """One row of the search: parameters, and how it did on the points that were held out.

    error : share of held-out points that are wrong. loss : mean hinge loss of their margins, which parts equal errors.
    Of quantities: root of the mean squared error of held-out points, and mean absolute error.
    """

    power: int | None  # None for the base kernel, as is eta
    eta: float | None
    C: float
    error: float
    loss: float


def held_out_loss(values: np.ndarray, codes: np.ndarray, coding: Coding, n_classes: int) -> np.ndarray:
    """Return the hinge loss (m,) of the smallest margin of the true class against another, from values (m, c)."""
    margins = np.full((len(codes), n_classes), np.inf)
    if coding == "one_vs_one":
        for column, (i, j) in enumerate(class_pairs(n_classes)):
            first, second = codes == i, codes == j
            margins[first, j] = values[first, column]
            margins[second, i] = -values[second, column]
    else:
        margins = (np.take_along_axis(values, codes[:, None], axis=1) - values) / 2
        margins[np.arange(len(codes)), codes] = np.inf
    return np.maximum(0.0, 1.0 - margins.min(axis=1))


def cross_validate(grams: Sequence[np.ndarray], codes: np.ndarray, folds: Sequence[np.ndarray],
                   learner: LearnerParams) -> tuple[float, float]:
    """Return (error, loss) of a learner on the points held out, with one Gram matrix (l, l) a fold.

    codes : (l,), classes; or quantities, which are floats.
    """
    if codes.dtype.kind == "f":
        return _cross_validate_values(grams, codes, folds, learner)
    n_classes = int(codes.max()) + 1
    wrong, loss, count = 0, 0.0, 0
    for K, fold in zip(grams, folds, strict=True):
        kept = np.setdiff1d(np.arange(len(codes)), fold)
        coef, intercept, coding = fit_labels(K[np.ix_(kept, kept)], codes[kept], n_classes, learner)
        values = K[np.ix_(fold, kept)] @ coef + intercept
        wrong += int((class_scores(values, coding, n_classes).argmax(axis=1) != codes[fold]).sum())
        loss += float(held_out_loss(values, codes[fold], coding, n_classes).sum())
        count += len(fold)
    return wrong / count, loss / count


def _cross_validate_values(grams: Sequence[np.ndarray], targets: np.ndarray, folds: Sequence[np.ndarray],
                           learner: LearnerParams) -> tuple[float, float]:
    """Return the root mean squared and the mean absolute error of ridge regression on the points held out."""
    errors = []
    for K, fold in zip(grams, folds, strict=True):
        kept = np.setdiff1d(np.arange(len(targets)), fold)
        coef, intercept = fit_values(K[np.ix_(kept, kept)], targets[kept, None], learner)
        errors.append((K[np.ix_(fold, kept)] @ coef + intercept)[:, 0] - targets[fold])
    found = np.concatenate(errors)
    return float(np.sqrt((found**2).mean())), float(np.abs(found).mean())


def held_out_grams(K_SS: np.ndarray, K_Sl: np.ndarray, K_ll: np.ndarray, A: np.ndarray, eta: float,
                   position: np.ndarray, folds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the deformed Gram matrix (l, l) of the labeled points, a fold, measured at S without the fold.

    Parameters
    ----------
    K_SS (s, s), K_Sl (s, l), K_ll (l, l) : the base kernel. A (s, s) : Q^+ on S. eta : relative.
    position : (l,), the place in S of each labeled point, -1 where it is not in S.

    Cost: s^3 / 3 + 4 s^2 l flops once, and l^2 |F| a fold.
    """
    absolute = absolute_eta(A, eta)
    factor = factor_positive(A + absolute * K_SS)
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


def search_deformed(base: Kernel, X_S: np.ndarray, X_l: np.ndarray, codes: np.ndarray, position: np.ndarray,
                    powers: Mapping[int, np.ndarray], kind: str, params: GridParams,
                    folds: Sequence[np.ndarray]) -> list[GridPoint]:
    """Return the grid points of one base kernel, deformed by `powers`: A (s, s) of each power of the regularizer."""
    K_SS, K_Sl, K_ll = base(X_S, X_S), base(X_S, X_l), base(X_l, X_l)
    found = []
    for power, eta in product(params.power, params.eta):
        grams = held_out_grams(K_SS, K_Sl, K_ll, powers[power], eta, position, folds)
        for C in params.C:
            error, loss = cross_validate(grams, codes, folds, LearnerParams(kind=kind, C=C))  # type: ignore[arg-type]
            found.append(GridPoint(power, eta, C, error, loss))
    return found


def search_base(base: Kernel, X_l: np.ndarray, codes: np.ndarray, kind: str, params: GridParams,
                folds: Sequence[np.ndarray]) -> list[GridPoint]:
    """Return the grid points of a base kernel, which has neither power nor eta."""
    K = base(X_l, X_l)
    found = []
    for C in params.C:
        error, loss = cross_validate([K] * len(folds), codes, folds,
                                     LearnerParams(kind=kind, C=C))  # type: ignore[arg-type]
        found.append(GridPoint(None, None, C, error, loss))
    return found
