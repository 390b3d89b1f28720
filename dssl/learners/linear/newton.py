"""Newton's method with a line search for penalized smooth losses, many columns at once.

    min over c, b of  sum of p_i loss(y_i, f_i) + c' G c,    f = Psi c + b at the labeled points

A Newton step is a least-squares problem with the curvature as weights, `D = diag(p loss'')`:

    (Psi' D Psi + 2 G) step = -Psi' g - 2 G c,    g = p loss'

bordered by the unpenalized intercept b. A `FunctionSpace` gives the products with Psi and G, and solves the systems.
The squared loss takes one step.

References
----------
Melacci and Belkin, "Laplacian support vector machines trained in the primal", JMLR 2011; Chapelle, "Training a support
vector machine in the primal", Neural Computation 2007.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve

from ...base.errors import NotConverged, require
from ...solvers.blocked_cg import dots
from ...solvers.columns import factor_raised
from ..losses import SmoothLoss

DECREMENT = 1e-12  # stop a column whose next step would gain less than this share of objective + OBJECTIVE_FLOOR
OBJECTIVE_FLOOR = 1e-3  # logistic loss of one sign only has infimum 0
BISECTIONS = 40
FORCING = (1e-4, 0.1)  # bounds of the relative residual of an iterative step
MIN_WEIGHT = 1e-14  # of a point with curvature, as a share of the largest
STALL_TOLERANCE = 1e-6  # a column that no step improves is a minimum if its decrement is below this
FLAT = 1e-12  # total curvature below which the step of the intercept is bounded instead


class FunctionSpace(ABC):
    """Functions with coefficients c (k,), values Psi c (m,) at the labeled points, and penalty c' G c."""

    @abstractmethod
    def solve(self, D: np.ndarray, V: np.ndarray, C: np.ndarray, GC: np.ndarray, columns: np.ndarray,
              tol: float) -> np.ndarray:
        """Return the solutions (k, u, q) of `(Psi' D_j Psi + 2 G_j) X_j = Psi' V_j - 2 G_j C_j`.

        D : (m, u) >= 0. V : (m, u, q). C, GC : (k, u, q), GC_j = G_j C_j. columns : (u,), the numbers of these columns.
        tol : relative residual of an iterative solve.
        """

    @abstractmethod
    def values(self, C: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return Psi C, (m, u), of coefficients (k, u)."""

    @abstractmethod
    def penalized(self, C: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return G_j c_j, (k, u)."""

    @property
    @abstractmethod
    def n_coefficients(self) -> int:
        """Return k."""


@dataclass(frozen=True, eq=False)
class LabelFeatures(FunctionSpace):
    """Explicit features Psi (m, r) and a symmetric positive definite G (r, r); for more labels than features."""

    Psi: np.ndarray
    G: np.ndarray

    def solve(self, D: np.ndarray, V: np.ndarray, C: np.ndarray, GC: np.ndarray, columns: np.ndarray,
              tol: float) -> np.ndarray:
        solution = np.empty((self.Psi.shape[1], *V.shape[1:]))
        for column, weight in enumerate(D.T):
            curved = np.flatnonzero(weight)
            scaled = self.Psi[curved] * np.sqrt(weight[curved])[:, None]
            right = self.Psi.T @ V[:, column] - 2 * GC[:, column]
            solution[:, column] = cho_solve(factor_raised(scaled.T @ scaled + 2 * self.G), right, check_finite=False)
        return solution

    def values(self, C: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.Psi @ C

    def penalized(self, C: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.G @ C

    @property
    def n_coefficients(self) -> int:
        return self.Psi.shape[1]


@dataclass(frozen=True, eq=False)
class LabelGram(FunctionSpace):
    """Functions `sum of c_i k(x_i, .)` over the labeled points in the kernel of the penalty: Psi = G = N (m, m).

    N is `Psi G^-1 Psi'` of another space with the same minimum; for fewer labels than features.
    """

    N: np.ndarray

    def solve(self, D: np.ndarray, V: np.ndarray, C: np.ndarray, GC: np.ndarray, columns: np.ndarray,
              tol: float) -> np.ndarray:
        """Solve `(D N + 2) x = v - 2 c`, where N has canceled; points without curvature have x = v / 2 - c."""
        rights = V - 2 * C
        solution = rights / 2
        for column, weight in enumerate(D.T):
            curved = weight > MIN_WEIGHT * weight.max(initial=0.0)
            root = np.sqrt(weight[curved])[:, None]
            A = root * self.N[np.ix_(curved, curved)] * root.T
            A[np.diag_indices_from(A)] += 2
            right = rights[curved, column] / root - root * (self.N[np.ix_(curved, ~curved)] @ solution[~curved, column])
            solution[curved, column] = root * cho_solve(factor_raised(A), right, check_finite=False)
        return solution

    def values(self, C: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.N @ C

    penalized = values

    @property
    def n_coefficients(self) -> int:
        return len(self.N)


@dataclass(frozen=True, eq=False)
class Minimum:
    """Coefficients (k, t), intercepts (t,), values (m, t) and numbers of steps (t,) of t columns."""

    coef: np.ndarray
    intercept: np.ndarray
    values: np.ndarray
    steps: np.ndarray


def minimize(space: FunctionSpace, loss: SmoothLoss, y: np.ndarray, p: np.ndarray, *, fit_intercept: bool,
             start: Minimum | None = None, max_steps: int = 100, required: bool = True) -> Minimum:
    """Return the minima of columns of targets y (m, t) with weights p (m, t) >= 0 of sum 1 or less.

    start : the initial functions, such as the minimum for other penalties; zero by default. Each of at most `max_steps`
    steps of a column lowers the objective. Raises NotConverged, if `required`, where a column is not at its minimum.
    """
    m, t = y.shape
    minimum = start or Minimum(np.zeros((space.n_coefficients, t)), np.zeros(t), np.zeros((m, t)),
                               np.zeros(t, np.int64))
    path = loss.steps if start is None else (loss,)
    steps = np.zeros(t, np.int64)
    for stop in path:
        minimum = _descend(space, stop, y, p, fit_intercept, minimum, max_steps, required)
        steps += minimum.steps
    return Minimum(minimum.coef, minimum.intercept, minimum.values, steps)


def _descend(space: FunctionSpace, loss: SmoothLoss, y: np.ndarray, p: np.ndarray, fit_intercept: bool, start: Minimum,
             max_steps: int, required: bool) -> Minimum:
    coef, intercept, steps = start.coef.copy(), start.intercept.copy(), np.zeros(y.shape[1], np.int64)
    active, tol = np.arange(y.shape[1]), FORCING[1]
    F, G = space.values(coef, active) + intercept, space.penalized(coef, active)
    while len(active):
        y_a, p_a, f, coef_a, b = y[:, active], p[:, active], F[:, active], coef[:, active], intercept[active]
        g, D, G_a = p_a * loss.gradient(f, y_a), p_a * loss.curvature(f, y_a), G[:, active]
        step, b_step = _step(space, D, g, coef_a, G_a, f, active, fit_intercept, tol)
        df, G_step = space.values(step, active) + b_step, space.penalized(step, active)
        energy = dots(coef_a, G_a), dots(step, G_a), dots(step, G_step)
        slope = dots(g, df) + 2 * energy[1]
        if (slope > 0).any() and tol > FORCING[0]:  # the inexact step is no descent direction
            tol = FORCING[0]
            continue
        objective = (p_a * loss.value(f, y_a)).sum(axis=0) + energy[0]
        gain = -slope / (objective + OBJECTIVE_FLOOR)
        length = _line_search(loss, y_a, p_a, f, df, energy, objective, slope)
        coef[:, active] = coef_a + length * step
        intercept[active] = b + length * b_step
        F[:, active], G[:, active] = f + length * df, G_a + length * G_step
        steps[active] += 1
        stalled = (length == 0) | (steps[active] >= max_steps)
        require(not required or not (stalled & ~(gain <= STALL_TOLERANCE)).any(), error=NotConverged,
                what=f"a column is no minimum of {loss.name} after {int(steps.max())} Newton steps",
                why="the loss bends within rounding of a value, or the system is singular to the precision of floats",
                fix="use squared_hinge, a larger h or a larger gamma_A")
        tol = float(np.clip(np.sqrt(max(gain.max(), 0.0)), *FORCING))
        active = active[~stalled & (gain > DECREMENT)]
    return Minimum(coef, intercept, F, steps)


def _step(space: FunctionSpace, D: np.ndarray, g: np.ndarray, C: np.ndarray, GC: np.ndarray, f: np.ndarray,
          columns: np.ndarray, fit_intercept: bool, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a full Newton step of the coefficients (k, u) and of the intercepts (u,)."""
    if not fit_intercept:
        step = space.solve(D, -g[:, :, None], C[:, :, None], GC[:, :, None], columns, tol)
        return step[:, :, 0], np.zeros(len(columns))
    zero = np.zeros_like(C)
    step, second = np.moveaxis(space.solve(D, np.stack([-g, D], axis=2), np.stack([C, zero], axis=2),
                                           np.stack([GC, zero], axis=2), columns, tol), 2, 0)
    # 1'(D (Psi (step - second b_step) + b_step) + g) = 0; where little curvature is left, a bounded step
    curvature = D.sum(axis=0) - dots(D, space.values(second, columns))
    right, limit = -g.sum(axis=0) - dots(D, space.values(step, columns)), 2 + np.abs(f).max(axis=0)
    b_step = np.clip(right / np.maximum(curvature, FLAT), -limit, limit)
    return step - second * b_step, b_step


def _line_search(loss: SmoothLoss, y: np.ndarray, p: np.ndarray, f: np.ndarray, df: np.ndarray,
                 energy: Sequence[np.ndarray], objective: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return the length of each column's step, (u,): 1 if that satisfies Armijo's condition, or else the minimum."""
    full = (p * loss.value(f + df, y)).sum(axis=0) + energy[0] + 2 * energy[1] + energy[2]
    length = np.ones(len(objective))
    for column in np.flatnonzero(~(full <= objective + 1e-4 * slope)):
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):  # the derivative along the line is monotone
            middle = (low + high) / 2
            rise = float(p[:, column] @ (loss.gradient(f[:, column] + middle * df[:, column], y[:, column])
                                         * df[:, column]) + 2 * (energy[1][column] + middle * energy[2][column]))
            low, high = (low, middle) if rise > 0 else (middle, high)
        length[column] = low
    return length
