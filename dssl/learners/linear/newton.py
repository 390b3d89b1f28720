"""Penalized smooth losses in the primal, by Newton's method with a line search: many columns at once.

    min over c, b of  sum of p_i loss(y_i, f_i) + c' G c,    f = Psi c + b at the labeled points

A Newton step is a least-squares problem with the curvature as weights, `D = diag(p loss'')`:

    (Psi' D Psi + 2 G) step = -Psi' g - 2 G c,    g = p loss'

bordered by the intercept b, which is not penalized. Of all that functions are, only Psi and G are asked for, and only
through a `LabelSpace`. The squared loss takes one step.

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

DECREMENT = 1e-12  # of a column that is done: what a step would still gain, as a share of the objective and LEAST
LEAST = 1e-3  # of objectives, which are means of losses: logistic loss of one sign alone has no minimum but 0
BISECTIONS = 40
FORCING = (1e-4, 0.1)  # relative residuals of a step that is iterated: no smaller than its gain is worth
LEAST_WEIGHT = 1e-14  # of a point with curvature, as a share of the largest
STALLED = 1e-6  # the same share, above which a column that no step improves is no minimum
FLAT = 1e-12  # curvature of all points together, below which it says nothing of the intercept's step


class LabelSpace(ABC):
    """Functions by their coefficients c (k,), of which a loss sees the values Psi c (m,) and a penalty c' G c."""

    @abstractmethod
    def solve(self, D: np.ndarray, V: np.ndarray, C: np.ndarray, GC: np.ndarray, columns: np.ndarray,
              tol: float) -> np.ndarray:
        """Return the solutions (k, u, q) of `(Psi' D_j Psi + 2 G_j) X_j = Psi' V_j - 2 G_j C_j`.

        D : (m, u) >= 0. V : (m, u, q). C, GC : (k, u, q), and their products with G_j. columns : (u,), the numbers of
        these columns among all. tol : relative residual at which an iteration may stop.
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
class FeaturesOfLabels(LabelSpace):
    """Psi (m, r) and a symmetric positive definite G (r, r), both held; for more labels than features."""

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
class GramOfLabels(LabelSpace):
    """Functions `sum of c_i k(x_i, .)` over the labeled points, of a kernel whose norm is the penalty: Psi = G = N.

    N : (m, m), `Psi G^-1 Psi'` of any other space, in which the minimum is the same function; for fewer labels than
    features.
    """

    N: np.ndarray

    def solve(self, D: np.ndarray, V: np.ndarray, C: np.ndarray, GC: np.ndarray, columns: np.ndarray,
              tol: float) -> np.ndarray:
        """As above, where N cancels: `(D N + 2) x = v - 2 c`; points without curvature have x = v / 2 - c."""
        rights = V - 2 * C
        solution = rights / 2
        for column, weight in enumerate(D.T):
            curved = weight > LEAST_WEIGHT * weight.max(initial=0.0)
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
    """Coefficients (k, t) and intercepts (t,) of t columns, values (m, t) with the intercept, and the steps of each."""

    coef: np.ndarray
    intercept: np.ndarray
    values: np.ndarray
    steps: np.ndarray


def minimize(space: LabelSpace, loss: SmoothLoss, y: np.ndarray, p: np.ndarray, *, fit_intercept: bool,
             start: Minimum | None = None, max_steps: int = 100, required: bool = True) -> Minimum:
    """Return the minima of columns of targets y (m, t) with weights p (m, t) >= 0, which sum to 1 or less.

    start : where to begin, such as the minimum of other penalties; zero by default. max_steps : of a column, none of
    which raises the objective.

    Raises NotConverged: a column is no minimum after these steps, and that it is one is `required`.
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


def _descend(space: LabelSpace, loss: SmoothLoss, y: np.ndarray, p: np.ndarray, fit_intercept: bool, start: Minimum,
             max_steps: int, required: bool) -> Minimum:
    coef, intercept, steps = start.coef.copy(), start.intercept.copy(), np.zeros(y.shape[1], np.int64)
    active, tol = np.arange(y.shape[1]), FORCING[1]
    F, G = space.values(coef, active) + intercept, space.penalized(coef, active)
    while len(active):
        own_y, own_p, f, coef_a, b = y[:, active], p[:, active], F[:, active], coef[:, active], intercept[active]
        g, D, held = own_p * loss.gradient(f, own_y), own_p * loss.curvature(f, own_y), G[:, active]
        ahead, moved = _step(space, D, g, coef_a, held, f, active, fit_intercept, tol)
        df, gained = space.values(ahead, active) + moved, space.penalized(ahead, active)
        energy = dots(coef_a, held), dots(ahead, held), dots(ahead, gained)
        slope = dots(g, df) + 2 * energy[1]
        if (slope > 0).any() and tol > FORCING[0]:  # upwards: a step that was left too early
            tol = FORCING[0]
            continue
        height = (own_p * loss.value(f, own_y)).sum(axis=0) + energy[0]
        gain = -slope / (height + LEAST)
        length = _line_search(loss, own_y, own_p, f, df, energy, height, slope)
        coef[:, active] = coef_a + length * ahead
        intercept[active] = b + length * moved
        F[:, active], G[:, active] = f + length * df, held + length * gained
        steps[active] += 1
        stalled = (length == 0) | (steps[active] >= max_steps)
        require(not required or not (stalled & ~(gain <= STALLED)).any(), error=NotConverged,
                what=f"a column is no minimum of {loss.name} after {int(steps.max())} Newton steps",
                why="the loss bends within rounding of a value, or the system is singular to the precision of floats",
                fix="use squared_hinge, a larger h or a larger gamma_A")
        tol = float(np.clip(np.sqrt(max(gain.max(), 0.0)), *FORCING))
        active = active[~stalled & (gain > DECREMENT)]
    return Minimum(coef, intercept, F, steps)


def _step(space: LabelSpace, D: np.ndarray, g: np.ndarray, C: np.ndarray, GC: np.ndarray, f: np.ndarray,
          columns: np.ndarray, fit_intercept: bool, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a full step of the coefficients (k, u) and of the intercepts (u,)."""
    if not fit_intercept:
        step = space.solve(D, -g[:, :, None], C[:, :, None], GC[:, :, None], columns, tol)
        return step[:, :, 0], np.zeros(len(columns))
    nothing = np.zeros_like(C)
    step, second = np.moveaxis(space.solve(D, np.stack([-g, D], axis=2), np.stack([C, nothing], axis=2),
                                           np.stack([GC, nothing], axis=2), columns, tol), 2, 0)
    # 1'(D (Psi (step - second moved) + moved) + g) = 0; where little curvature is left, a bounded step
    curvature = D.sum(axis=0) - dots(D, space.values(second, columns))
    ahead, limit = -g.sum(axis=0) - dots(D, space.values(step, columns)), 2 + np.abs(f).max(axis=0)
    moved = np.clip(ahead / np.maximum(curvature, FLAT), -limit, limit)
    return step - second * moved, moved


def _line_search(loss: SmoothLoss, y: np.ndarray, p: np.ndarray, f: np.ndarray, df: np.ndarray,
                 energy: Sequence[np.ndarray], height: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return the length of each column's step, (u,): 1 where that lowers the objective well, or else the minimum."""
    whole = (p * loss.value(f + df, y)).sum(axis=0) + energy[0] + 2 * energy[1] + energy[2]
    length = np.ones(len(height))
    for column in np.flatnonzero(~(whole <= height + 1e-4 * slope)):
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):  # the derivative along the line is monotone
            middle = (low + high) / 2
            rise = float(p[:, column] @ (loss.gradient(f[:, column] + middle * df[:, column], y[:, column])
                                         * df[:, column]) + 2 * (energy[1][column] + middle * energy[2][column]))
            low, high = (low, middle) if rise > 0 else (middle, high)
        length[column] = low
    return length
