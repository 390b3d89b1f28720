"""Transductive support vector machines by deterministic annealing, one-vs-rest, many columns at once.

    min over w, b, p of  |w|^2 / 2 + C sum of q_i V(y_i f_i) + C' sum of (p_j V(f_j) + (1 - p_j) V(-f_j) - T H(p_j))

    f = Phi w + b,   V(z) = max(0, 1 - z)^2,   C' = C unlabeled_weight (sum of q) / u,   mean of p_j = share

over the l labeled points i with weights q and the u unlabeled points j, whose signs are +1 with probability p_j and
entropy H(p_j). The temperature T is lowered from one at which all signs are nearly random to one at which they are
certain. At each temperature, sweeps minimize over p in closed form and over w, b by Newton's method:

    p_j = 1 / (1 + exp((V(f_j) - V(-f_j) - nu) / T)),    nu such that the p_j have the mean `share`
    w, b for the targets 2 p - 1 of `ExpectedSquaredHinge`

The features of all points are stored. A Newton step takes conjugate gradients, preconditioned by one factor for all
columns, temperatures and steps. The intercept is an unpenalized feature of ones.

References
----------
Sindhwani, Keerthi, Chapelle, "Deterministic annealing for semi-supervised kernel machines", ICML 2006; Sindhwani,
Keerthi, "Large scale semi-supervised linear SVMs", SIGIR 2006, section 4. Kernels by features: Zhang, Lan, Wang,
Moerchen, "Scaling up kernel SVM on limited resources: a low-rank linearization approach", AISTATS 2012.
"""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve
from scipy.special import entr, expit, rel_entr

from ...base.digest import JsonObject, is_real
from ...base.errors import BudgetError, NotConverged, explain, require
from ...base.types import Matrix
from ...execution.cost import gram_seconds, largest_within
from ...execution.tasks import Execution
from ...execution.threads import one_thread
from ...kernels.base import Kernel
from ...kernels.gram import BLOCK_BYTES, kernel_block
from ...kernels.nystrom import whiten
from ...solvers.blocked_cg import blocked_cg, dots
from ...solvers.columns import factor_raised
from ...solvers.solver_params import Stop
from ...storage.blocks import Rows, row_ranges
from ..losses import ExpectedSquaredHinge, SquaredHinge
from ..target.coding import Values
from .gram import require_scale
from .kernel_model import KernelModel
from .newton import FunctionSpace, Minimum, minimize

TEMPERATURES = tuple(10.0 / 2**step for step in range(21))  # in units of V
DECIDED_ENTROPY = 1e-3  # mean entropy of the signs of a column, but for one sign, at which cooling ends
SETTLED_ENTROPY = 1e-6  # mean relative entropy of the signs after and before a sweep at which a temperature ends
MAX_SWEEPS = 100  # at a temperature
SWEEP_NEWTON_STEPS = 2  # a sweep lowers the objective; only the last fit is to the minimum
ITERATIONS = 500  # of conjugate gradients, in a step
# Of a fit, measured: for each point, landmark and column some 450 iterations on few columns at a time, and for each
# point and column the losses and signs of all sweeps.
ITERATION_SECONDS, SWEEP_SECONDS = 2e-7, 5e-5
BALANCED = 1e-9  # error of the mean of p
BISECTIONS = 60
COLUMN_ARRAYS, COEFFICIENT_ARRAYS = 28, 14  # of n and of s numbers, for each column
GRAM_ROWS = 2048  # rows of features in a product
MARGIN, EXPECTED, ONE = SquaredHinge(), ExpectedSquaredHinge(), np.ones(1)


@dataclass(frozen=True, kw_only=True)
class TransductiveParams:
    """C : weight of the loss against the norm, for a kernel of unit mean diagonal.

    unlabeled_weight : the total weight of the unlabeled points relative to that of the labeled ones; 0 ignores them.
    """

    C: float = 1.0
    unlabeled_weight: float = 1.0

    def __post_init__(self) -> None:
        require(is_real(self.C) and 0 < self.C < np.inf, f"C={self.C!r}, expected a finite number > 0",
                why="it weighs the losses against smoothness", fix="use 1 to 100")
        require(is_real(self.unlabeled_weight) and 0 <= self.unlabeled_weight < np.inf,
                f"unlabeled_weight={self.unlabeled_weight!r}, expected a finite number >= 0",
                why="it weighs the losses of unlabeled points against those of labeled ones",
                fix="use 1; 0 is the supervised support vector machine")


def fit_bytes(n: int, s: int, t: int, threads: int = 1) -> int:
    """Return the bytes that a fit of t columns to n points on s landmarks takes beside the points.

    The largest of: the landmarks' kernel with its eigenvectors and LAPACK's workspace; the features with a block of the
    kernel, its products and sums for each thread; the features with the preconditioner, its factor, a block of rows,
    and the arrays of each column.
    """
    features = n * (s + 8) + (s + 1) ** 2
    blocks = 3 * threads * min(n * s, BLOCK_BYTES // 8)
    solves = 3 * (s + 1) ** 2 + GRAM_ROWS * (s + 1) + (COLUMN_ARRAYS * n + COEFFICIENT_ARRAYS * s) * t
    return 8 * max(5 * (s + 1) ** 2, features + max(blocks, solves))


def fit_seconds(n: int, s: int, t: int) -> float:
    """Return the estimated seconds of a fit of t columns on features of n points on s landmarks."""
    return gram_seconds(n, s) + n * t * (ITERATION_SECONDS * s + SWEEP_SECONDS)


def landmarks_that_fit(n: int, upper: int, t: int, budget: int, threads: int) -> int:
    """Return how many landmarks, up to `upper`, a fit of t columns to n points can have in a budget (bytes), or 0."""
    return largest_within(budget, upper, lambda s: fit_bytes(n, s, t, threads))


def require_fit(n: int, s: int, t: int, execution: Execution) -> None:
    """Raise BudgetError if a fit of t columns to n points on s landmarks does not fit."""
    threads = execution.tasks_per_process
    fitting, needed = landmarks_that_fit(n, s, t, execution.memory_budget, threads), fit_bytes(n, s, t, threads)
    require(fitting == s, f"the features of {n:,} points on {s:,} landmarks and {t} columns do not fit",
            why=f"they take {needed:,} bytes, the memory budget is {execution.memory_budget:,}", error=BudgetError,
            fix=f"raise memory_budget to {needed:,}, or " + (
                f"use {fitting:,} landmarks or fewer" if fitting else "fit a part of the points"))


def feature_model(kernel: Kernel, landmarks: Matrix) -> tuple[KernelModel, float]:
    """Return the model of r whitened Nystrom features and a column of ones, and the condition number of the landmarks.

    The features are those of the kernel divided by its mean diagonal at the landmarks.
    """
    K = kernel_block(kernel, landmarks, landmarks)
    scale = float(np.trace(K)) / len(K)
    require_scale(scale)
    white = whiten(K)
    T = np.zeros((len(K), white.rank + 1))
    np.divide(white.T, math.sqrt(scale), out=T[:, :-1])
    return KernelModel(kernel, landmarks, T, np.append(np.zeros(white.rank), 1.0), Values()), white.condition


@dataclass(frozen=True, eq=False)
class Signs:
    """The signs of n points in t columns.

    known (n, t) : -1 or +1 of a labeled point, 0 of an unlabeled one. weight (n, t) : of the loss, C q_i or C'.
    share (t,) : the share of +1 among the unlabeled points.
    """

    known: np.ndarray
    weight: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, known: np.ndarray, weight: np.ndarray, sizes: np.ndarray | None, params: TransductiveParams) -> "Signs":
        """Return the signs `known` (n, t), where weight (n,) is that of each labeled point.

        sizes (t,) : the number of all points that are +1; None takes the shares of the labels.
        """
        labeled = known != 0
        n_unlabeled = len(known) - labeled.sum(axis=0)
        total = weight @ labeled
        each = params.unlabeled_weight * total / np.maximum(n_unlabeled, 1)
        weights = params.C * np.where(labeled, weight[:, None], each)
        share = weight @ (known > 0) / total if sizes is None else (
            sizes - (known > 0).sum(axis=0)) / np.maximum(n_unlabeled, 1)
        return cls(known, weights, np.clip(share, 0.0, 1.0))

    @property
    def unlabeled(self) -> np.ndarray:
        """Return which points have a loss and no label in each column, (n, t)."""
        return (self.known == 0) & (self.weight > 0)


class StoredFeatures(FunctionSpace):
    """Functions of stored features Psi (n, k), the last unpenalized: G = diag(ridge, ..., ridge, 0).

    weight (n,) : at least half the curvature of each point in any column, so that one preconditioner
    `Psi' diag(2 weight) Psi + 2 G` serves all columns and steps.
    """

    def __init__(self, Psi: np.ndarray, ridge: float, weight: np.ndarray):
        self.Psi, self.ridge = Psi, np.append(np.full(Psi.shape[1] - 1, ridge), 0.0)[:, None]
        curved = np.diag(2 * self.ridge[:, 0])
        for start, stop in row_ranges(len(Psi), GRAM_ROWS):
            curved += Psi[start:stop].T @ (2 * weight[start:stop, None] * Psi[start:stop])
        self.factor = factor_raised(curved)

    def solve(self, D: np.ndarray, V: np.ndarray, C: np.ndarray, GC: np.ndarray, columns: np.ndarray,
              tol: float) -> np.ndarray:
        u, q = V.shape[1:]
        rights = np.tensordot(self.Psi, V, (0, 0)) - 2 * GC
        solution = blocked_cg(
            lambda P, columns: self.Psi.T @ (D[:, columns // q] * (self.Psi @ P)) + 2 * self.ridge * P,
            rights.reshape(-1, u * q), lambda R, columns: cho_solve(self.factor, R, check_finite=False),
            Stop(tol, ITERATIONS))
        return solution.value.reshape(-1, u, q)

    def values(self, C: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.Psi @ C

    def penalized(self, C: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return self.ridge * C

    @property
    def n_coefficients(self) -> int:
        return self.Psi.shape[1]


@dataclass(eq=False)
class Annealing:
    """The state of t columns: coef (k, t), values (n, t), p (n, t) of +1, Newton steps (t,), and the temperature."""

    coef: np.ndarray
    values: np.ndarray
    p: np.ndarray
    steps: np.ndarray
    temperature: float

    def improve(self, space: FunctionSpace, signs: Signs, columns: np.ndarray, *, max_steps: int,
                required: bool) -> None:
        """Minimize the objective of some columns over w and b."""
        start = Minimum(self.coef[:, columns], np.zeros(len(columns)), self.values[:, columns], self.steps[columns])
        targets = np.where(signs.known[:, columns] == 0, 2 * self.p[:, columns] - 1, signs.known[:, columns])
        minimum = minimize(space, EXPECTED, targets, signs.weight[:, columns], fit_intercept=False, start=start,
                           max_steps=max_steps, required=required)
        self.coef[:, columns], self.values[:, columns] = minimum.coef, minimum.values
        self.steps[columns] += minimum.steps

    def objective(self, space: FunctionSpace, signs: Signs) -> np.ndarray:
        """Return the objective (t,) at this temperature: losses, norm, and -T times the entropy of the signs."""
        targets = np.where(signs.known == 0, 2 * self.p - 1, signs.known)
        entropy = np.where(signs.unlabeled, entr(self.p) + entr(1 - self.p), 0.0)
        losses = EXPECTED.value(self.values, targets) - self.temperature * entropy
        return dots(signs.weight, losses) + dots(self.coef, space.penalized(self.coef, np.arange(len(self.steps))))


def expected_signs(values: np.ndarray, unlabeled: np.ndarray, share: np.ndarray, temperature: float) -> np.ndarray:
    """Return p (n, t) of all points, whose mean over the unlabeled ones (n, t) is `share` (t,)."""
    difference, count = MARGIN.value(values, ONE) - MARGIN.value(values, -ONE), unlabeled.sum(axis=0)
    with np.errstate(divide="ignore"):
        logit = temperature * (np.log(share) - np.log1p(-share))  # nu - difference, where all differences are equal
    low = np.where(unlabeled, difference, np.inf).min(axis=0) + logit
    high = np.where(unlabeled, difference, -np.inf).max(axis=0) + logit
    for _ in range(BISECTIONS):
        nu = (low + high) / 2
        p = expit((nu - difference) / temperature)
        mean = dots(p, unlabeled) / count
        if np.abs(mean - share).max() <= BALANCED:
            break
        low, high = np.where(mean < share, nu, low), np.where(mean < share, high, nu)
    return p


def annealing(space: FunctionSpace, signs: Signs) -> Iterator[Annealing]:
    """Yield the state of all columns, one object, after each sweep over the columns that still change."""
    n, t = signs.known.shape
    p = np.broadcast_to(signs.share, (n, t)).copy()
    now = Annealing(np.zeros((space.n_coefficients, t)), np.zeros((n, t)), p, np.zeros(t, np.int64), TEMPERATURES[0])
    now.improve(space, signs, np.arange(t), max_steps=MAX_SWEEPS, required=False)
    unlabeled = signs.unlabeled
    undecided = np.flatnonzero(unlabeled.any(axis=0))
    count = unlabeled.sum(axis=0)
    for temperature in TEMPERATURES:
        now.temperature, active = temperature, undecided
        for _ in range(MAX_SWEEPS):
            if not len(active):
                break
            mask, before = unlabeled[:, active], now.p[:, active]
            p = expected_signs(now.values[:, active], mask, signs.share[active], now.temperature)
            change = rel_entr(p, before) + rel_entr(1 - p, 1 - before)
            now.p[:, active] = p
            active = active[dots(mask, np.where(mask, change, 0.0)) > SETTLED_ENTROPY * count[active]]
            if len(active):
                now.improve(space, signs, active, max_steps=SWEEP_NEWTON_STEPS, required=False)
                yield now
        entropy = np.where(unlabeled, entr(now.p) + entr(1 - now.p), 0.0).sum(axis=0)
        # One sign stays undecided where the share is no whole number of points.
        undecided = undecided[entropy[undecided] > DECIDED_ENTROPY * count[undecided] + math.log(2)]
    try:
        now.improve(space, signs, np.arange(t), max_steps=MAX_SWEEPS, required=True)
    except NotConverged as error:
        raise NotConverged(explain(
            f"Newton's method did not reach the minimum for given signs in {MAX_SWEEPS} steps",
            why="C is so large that the system is singular to the precision of floats",
            fix="lower C")) from error
    yield now


@dataclass(frozen=True, eq=False)
class NystromFeatures:
    """The features and 1 of n points, Psi (n, r + 1), their model, and the condition of the landmarks' kernel."""

    Psi: np.ndarray
    model: KernelModel
    condition: float

    @classmethod
    def of(cls, rows: Rows, kernel: Kernel, landmarks: Matrix, n_columns: int,
           execution: Execution) -> "NystromFeatures":
        """Return the features of rows (n, d) on landmarks (s, d), for fits of at most `n_columns` columns.

        O(n s (s + d) + s^3) time. Memory: `fit_bytes`, with that of a fit. Raises BudgetError.
        """
        require_fit(len(rows), landmarks.shape[0], n_columns, execution)
        with one_thread():
            model, condition = feature_model(kernel, landmarks)
        return cls(model.values(rows, execution), model, condition)


@dataclass(frozen=True, eq=False)
class TransductiveFit:
    """coef (s, t) of landmarks, intercept (t,), values (n, t) at all points, and evidence."""

    coef: np.ndarray
    intercept: np.ndarray
    values: np.ndarray
    evidence: JsonObject


def fit_transductive(features: NystromFeatures, signs: Signs) -> TransductiveFit:
    """Return the functions of t columns of signs.

    Time: O(n s^2 + s^3) for the preconditioner, O(n s t) for each iteration of a Newton step; one core of the driver.
    Memory: `fit_bytes`, features included. Raises NotConverged.
    """
    Psi, total = features.Psi, float(signs.weight.sum(axis=0).max())
    with one_thread():
        space = StoredFeatures(Psi, 1 / (2 * total), signs.weight.max(axis=1) / total)
        scaled = Signs(signs.known, signs.weight / total, signs.share)
        now, = deque(annealing(space, scaled), maxlen=1)
        weighted = features.model.coef @ now.coef
    coef, values, unlabeled = now.coef, now.values, signs.known == 0
    hard = np.where(unlabeled, np.where(values > 0, 1.0, -1.0), signs.known)
    objective = dots(signs.weight, MARGIN.value(values, hard)) + dots(coef[:-1], coef[:-1]) / 2
    positive = ((values > 0) & unlabeled).sum(axis=0) / np.maximum(unlabeled.sum(axis=0), 1)
    return TransductiveFit(weighted, coef[-1], values, {
        "rank": Psi.shape[1] - 1, "condition": features.condition, "steps": now.steps.tolist(),
        "objective": objective.tolist(), "share": signs.share.tolist(), "achieved_share": positive.tolist()})
