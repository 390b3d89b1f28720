"""LapRLS on all points, the form of equation (3), for comparison and for a few thousand points.

    (M K + lambda_A I) alpha = J (y - mean),   M = J + lambda_I E

J is the diagonal of the labels' weights at their points. "direct" factors that matrix. In the inner product x'K y it is
self-adjoint and positive definite, so that conjugate gradients need one product with K an iteration, "cg". "pcg" is
preconditioned on the span of the landmarks, V = S T, exactly, and by 1 / lambda_A on the rest:

    P^-1 r = V (Phi' M Phi + lambda_A I)^-1 V'K r + (r - V V'K r) / lambda_A

With lambda_I = 0 the coefficients of unlabeled points are zero: the points are then the labeled ones alone, plain RLS.

Other losses see the labeled points alone, where the functions are those of the kernel `J K (gamma_A I + gamma_I E K /
n^2)^-1 J'`: one such system for all folds, classes, Newton steps and norms of a ratio of penalties. Folds are fitted
from the minimum of all labels on, or left out by the influence function, which that kernel gives too: it is exact to
first order, and takes nothing of the size of n (`learners/held_out/influence.py`).

References
----------
Li, Liu, Yin, Wang, "Approximate manifold regularization", IJCAI 2019, equation (3) and Table 1.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_solve, lu_factor, lu_solve

from ...base.errors import BudgetError, NotConverged, require
from ...graph.energy.blocks import StoredGraph
from ...graph.energy.vertex_removal import energy_change
from ...graph.regularizer_params import LaplacianKind
from ...kernels.base import Kernel
from ...kernels.nystrom import whiten
from ...solvers.blocked_cg import blocked_cg
from ...solvers.columns import by_system, factor_raised
from ...solvers.solver_params import Stop
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges
from ..held_out.closed_form import held_out_ridge
from ..held_out.influence import influence_of_labels
from ..linear.newton import GramOfLabels, LabelSpace, Minimum, minimize
from ..losses import SQUARES, SmoothLoss
from .iterations import convergence, require_converged
from .params import LabelLines, SystemParams
from .penalties import Penalties, by_pair, by_ratio, norms_without

COLUMN_BYTES = 64 << 20  # of the values of columns that are fitted side by side
REFINE = {"influence": 0, "refined_influence": 1}  # steps of Newton's method after the influence function


def without_folds(space: LabelSpace, loss: SmoothLoss, lines: LabelLines, whole: Minimum, fit_intercept: bool,
                  refine: int | None) -> np.ndarray:
    """Return the value (m, c) of each label by the function without its fold, NaN where it is never held out.

    whole : the minimum of all labels. refine : None where each fold is fitted, from there on; or else the steps that
    follow on the influence function.
    """
    (m, c), held_out = lines.target.shape, np.full(lines.target.shape, np.nan)
    if refine is not None and isinstance(space, GramOfLabels):
        held = [np.flatnonzero(lines.fold == fold) for fold in range(lines.n_held)]
        return influence_of_labels(space.N, lines.target, lines.weight, loss, whole.values, held,
                                   intercept=fit_intercept, refine=refine)
    for first, last in row_ranges(lines.n_held, max(1, COLUMN_BYTES // (8 * m * c))):
        y, weight = lines.columns(range(first, last))
        start = Minimum(*(np.tile(array, last - first) for array in (whole.coef, whole.intercept, whole.values,
                                                                     whole.steps)))
        values = minimize(space, loss, y, weight, fit_intercept=fit_intercept, start=start).values.reshape(m, -1, c)
        places = np.flatnonzero((lines.fold >= first) & (lines.fold < last))
        held_out[places] = values[places, lines.fold[places] - first]
    return held_out


DIRECT_RESIDUAL = 1e-6  # relative, of a factored system; above it the penalties are too far apart for float64
CHUNK_BYTES = 128 << 20  # of the kernel at most, where it is evaluated anew for each product


def chunk_bytes(limit: int) -> int:
    """Return the bytes of K that are evaluated at a time, where `limit` may be held."""
    return min(CHUNK_BYTES, limit // 2)


class FullKernel:
    """Products with K (n, n) of all points: kept where `limit` bytes allow, or evaluated again a chunk at a time."""

    def __init__(self, kernel: Kernel, X: Any, limit: int):
        self.kernel, self.X, self.n = kernel, X, X.shape[0]
        self.K = np.asarray(kernel(X, X), np.float64) if 8 * self.n**2 <= limit else None
        self.height = max(1, chunk_bytes(limit) // (8 * self.n))

    def __call__(self, P: np.ndarray) -> np.ndarray:
        """Return K P, (n, t)."""
        return self.K @ P if self.K is not None else self.of_rows(np.arange(self.n), P)

    def of_rows(self, rows: np.ndarray, P: np.ndarray) -> np.ndarray:
        """Return these rows of K P, (m, t)."""
        return np.concatenate([
            (np.asarray(self.kernel(self.X[some], self.X)) if self.K is None else self.K[some]) @ P
            for some in (rows[start:stop] for start, stop in row_ranges(len(rows), self.height))])


@dataclass(frozen=True)
class DenseTask:
    """Solve systems on all points; write `coef` (p, n, c) and `intercept` (p, c).

    If `held_out`, write instead `values` (m, p / F, c) of pairs of penalties, F systems each, at the labeled points,
    each by the one of its fold; NaN at points that are never held out. "direct" does so in closed form,
    by a factorization a ratio of penalties, unless refits are asked for.

    Memory: `8 n^2` bytes for K where they fit in half the budget, or else `chunk_bytes` of it at a time; `16 n^2` more
    for "direct", `16 n m` with them in closed form, and `8 n (s + 2 r)` for "pcg".
    """

    rows: Rows
    kernel: Kernel
    graph: Parts | None
    copies: Rows | None
    laplacian: LaplacianKind
    labels: Arrays  # row, fold, weight, target
    n_held: int
    landmarks: np.ndarray | None  # rows, of "pcg"
    systems: tuple[Penalties, ...]
    params: SystemParams  # of solver "direct", "pcg" or "cg"
    fit_intercept: bool
    budget: int
    loss: SmoothLoss = SQUARES
    held_out: bool = False

    @property
    def closed_form(self) -> bool:
        """Return whether held-out values are found without a system a fold."""
        return self.params.solver == "direct" and self.params.held_out != "refit" and self.loss == SQUARES

    @property
    def held_out_method(self) -> str:
        """Return how held-out values are found."""
        if self.closed_form:
            return "closed_form"
        return self.params.held_out if self.params.held_out in REFINE else "refit"

    def __call__(self, out: PartWriter) -> Receipt:
        X, lines = self.rows.read_all(), LabelLines(**self.labels.load(), n_held=self.n_held)
        n, method = X.shape[0], self.params.solver
        require(method != "direct" or 24 * n * n <= self.budget, f'solver="direct" with {n:,} points',
                error=BudgetError, why=f"its matrices take {24 * n * n:,} bytes, the budget is {self.budget:,}",
                fix=f'use solver "auto", which needs landmarks only, or raise memory_budget to {24 * n * n:,} bytes')
        K = FullKernel(self.kernel, X, self.budget if method == "direct" else self.budget // 2)
        E, relabeled_mean = sp.csr_array((n, n)), (0.0, 0.0)
        if self.graph is not None:
            stored = StoredGraph(self.graph, self.laplacian, self.copies)
            energy = stored.energy()
            E, relabeled_mean = energy.matrix(), energy.relabeled_mean()
            if self.held_out and self.params.inductive:
                shape = (len(lines.row), len(self.systems) // self.n_held, lines.target.shape[1])
                values, evidence = np.full(shape, np.nan), dict[str, Any]()
                for fold, held in enumerate(lines.fold == fold for fold in range(self.n_held)):
                    change = energy_change(energy, self.laplacian, lines.row[held], stored.multiplicity())
                    coef, lines_of_fold = self.without_others(fold)._solved(
                        K, E + change.matrix(n), relabeled_mean, replace(lines, fold=np.where(held, 0, 1), n_held=1))
                    values[held] = coef["values"][held]
                    evidence = lines_of_fold | {name: max(lines_of_fold[name], evidence.get(name, 0))
                                      for name in ("max_residual", "not_converged")}
                return {**out.write(values=values), "evidence": evidence}
        arrays, evidence = self._solved(K, E, relabeled_mean, lines)
        return {**out.write(**arrays), "evidence": evidence}

    def without_others(self, fold: int) -> "DenseTask":
        """Return the task of the systems of one fold, the only one that is held out: of its own graph."""
        return replace(self, n_held=1, systems=tuple(item.alone for item in self.systems[fold::self.n_held]))

    def _solved(self, K: FullKernel, E: sp.csr_array, relabeled_mean: tuple[float, float],
                lines: LabelLines) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what is written, of the systems in the graph of energy E, and the evidence."""
        n, method = K.n, self.params.solver
        if self.loss != SQUARES:
            return self._newton(K, E, relabeled_mean, lines)
        if self.held_out and self.closed_form:
            pairs = self.systems[::self.n_held]
            unlabeled = DenseSystems(K, E, relabeled_mean, np.zeros((n, len(pairs))), tuple(
                pair.whole for pair in pairs))
            values, evidence = unlabeled.held_out(lines, self.fit_intercept, self.params)
            return {"values": values}, {**evidence, "method": method}
        p, c = len(self.systems), lines.target.shape[1]
        means = lines.intercepts([item.held for item in self.systems], self.fit_intercept)
        B, weights = np.zeros((n, p, c)), np.zeros((n, p))
        for index, item in enumerate(self.systems):
            seen = lines.fold != item.held
            np.add.at(weights[:, index], lines.row[seen], lines.weight[seen])
            np.add.at(B[:, index], lines.row[seen], lines.weight[seen, None] * (lines.target[seen] - means[index]))
        systems = DenseSystems(K, E, relabeled_mean, weights, self.systems)
        alpha, evidence = systems.solve(B, self.params, self.landmarks)
        evidence["method"] = method
        if not self.held_out:
            return {"coef": alpha.transpose(1, 0, 2), "intercept": means}, evidence
        values = K.of_rows(lines.row, alpha.reshape(n, p * c)).reshape(-1, p, c) + means
        return {"values": lines.of_own_fold(values)}, evidence

    def _newton(self, K: FullKernel, E: sp.csr_array, relabeled_mean: tuple[float, float],
                lines: LabelLines) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return what `_solved` does, of another loss than the squared one."""
        n, p, c, m = K.n, len(self.systems), lines.target.shape[1], len(lines.row)
        rows, place = np.unique(lines.row, return_inverse=True)
        groups = by_pair(self.systems)
        pairs = tuple(self.systems[numbers[0]].whole for numbers in groups)
        systems = DenseSystems(K, E, relabeled_mean, np.zeros((n, len(pairs))), pairs)
        coef, intercept, values = np.zeros((p, n, c)), np.empty((p, c)), np.empty((m, len(pairs), c))
        steps, solutions, start = np.zeros(p, np.int64), [], None
        for members in by_ratio(pairs).values():
            X, N, evidence = systems.smoothed(members[0], rows, self.params, self.landmarks)
            solutions.append(evidence)
            for index in members:
                scale = lines.weight.sum() / pairs[index].lambda_A
                space = GramOfLabels(scale * N[np.ix_(place, place)])
                if self.held_out:
                    start = minimize(space, self.loss, *lines.columns([-1]), fit_intercept=self.fit_intercept,
                                     start=start)
                    values[:, index] = without_folds(space, self.loss, lines, start, self.fit_intercept,
                                                     REFINE.get(self.params.held_out))
                    continue
                numbers = groups[index]
                y, weight = lines.columns([self.systems[number].held for number in numbers])
                least = minimize(space, self.loss, y, weight, fit_intercept=self.fit_intercept)
                of_rows = np.zeros((len(rows), len(numbers) * c))
                np.add.at(of_rows, place, scale * least.coef)
                coef[numbers] = (X @ of_rows).reshape(n, -1, c).transpose(1, 0, 2)
                intercept[numbers] = least.intercept.reshape(-1, c)
                steps[numbers] = least.steps.reshape(-1, c).max(axis=1)
        evidence = {"method": self.params.solver, "loss": self.loss.name, "newton_steps": steps.tolist(),
                    "max_residual": max(item["max_residual"] for item in solutions), "not_converged": 0}
        return {"values": values} if self.held_out else {"coef": coef, "intercept": intercept}, evidence


def _require_solved(residual: float, system: Penalties) -> float:
    """Return the relative residual of a factored system; raise NotConverged if it is above the bound, or no number."""
    require(residual <= DIRECT_RESIDUAL, f"gamma_A={system.gamma_A:g} and gamma_I={system.gamma_I:g}: their system on "
            f"all points is solved to a relative residual of {residual:.1e} only, above {DIRECT_RESIDUAL:g}",
            why="one penalty is below the rounding errors of the other: coefficients that do not solve the system are "
                "no estimate of anything", fix="bring the penalties nearer to each other, by a larger gamma_A or a "
            'smaller gamma_I; or use solver "auto", whose systems of landmarks bear such ratios', error=NotConverged)
    return residual


def _evidence(residuals: list[float]) -> dict[str, Any]:
    return {"max_residual": max(residuals, default=0.0), "not_converged": 0}


@dataclass(frozen=True)
class DenseSystems:
    """Systems on all points: K, E or the mean of its relabelings, and the weights of labels (n, p)."""

    K: FullKernel
    E: sp.csr_array
    relabeled_mean: tuple[float, float]
    weights: np.ndarray
    systems: tuple[Penalties, ...]

    def regularized(self, index: int, F: np.ndarray) -> np.ndarray:
        """Return M F of one system, (n, ...)."""
        system, product = self.systems[index], self.weights[:, index][:, None] * F
        if system.gamma_I == 0:
            return product
        if system.control:
            energy = self.relabeled_mean[0] * F
            energy += self.relabeled_mean[1] * F.sum(axis=0)
        else:
            energy = self.E @ F
        energy *= system.lambda_I
        product += energy
        return product

    def solve(self, B: np.ndarray, params: SystemParams,
              landmarks: np.ndarray | None) -> tuple[np.ndarray, dict[str, Any]]:
        """Return alpha (n, p, c) of right-hand sides B by the method of the parameters, and the evidence (JSON)."""
        if params.solver == "direct":
            return self.direct(B)
        return self.iterate(B, landmarks if params.solver == "pcg" else None, params)

    def direct(self, B: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """Return alpha (n, p, c) of right-hand sides B by an LU factorization each.

        Raises NotConverged: rounding errors leave a relative residual above `DIRECT_RESIDUAL`.
        """
        alpha, residuals = np.empty_like(B), []
        for index in range(len(self.systems)):
            alpha[:, index], residual = self._factored(index, B[:, index])
            residuals.append(_require_solved(residual, self.systems[index]))
        return alpha, _evidence(residuals)

    def held_out(self, lines: LabelLines, fit_intercept: bool,
                 params: SystemParams) -> tuple[np.ndarray, dict[str, Any]]:
        """Return the values (m, p, c) at the labels of p pairs, none held out, each without its fold; by an LU a ratio.

        The kernel of a ratio is `N = K (I + rho E K)^-1` among the labeled points, rho = lambda_I / lambda_A, and the
        penalty of a fold its lambda_A; see `closed_form.py`.
        """
        points, place = np.unique(lines.row, return_inverse=True)
        folds = [np.flatnonzero(lines.fold == fold) for fold in range(lines.n_held)]
        values, residuals = np.empty((len(self.systems), *lines.target.shape)), [0.0]
        for members in by_ratio(self.systems).values():
            _, N, evidence = self.smoothed(members[0], points, params)
            residuals.append(evidence["max_residual"])
            lambda_A = norms_without([self.systems[index] for index in members], lines.n_held)
            values[members] = held_out_ridge(N[np.ix_(place, place)], lines.target, folds, lambda_A, lines.weight,
                                             fit_intercept)
        return values.transpose(1, 0, 2), _evidence(residuals)

    def smoothed(self, index: int, points: np.ndarray, params: SystemParams,
                 landmarks: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Return `X = (I + rho E K)^-1` at some of the points (n, m), K X among these (m, m), and the evidence (JSON).

        rho = lambda_I / lambda_A; no label has a weight in it.

        Raises NotConverged: a residual is above the bound of the method.
        """
        system, X, evidence = self.systems[index], np.zeros((self.K.n, len(points)), order="F"), _evidence([])
        X[points, np.arange(len(points))] = 1
        if system.lambda_I and params.solver == "direct":
            assert self.K.K is not None
            A = self.regularized(index, self.K.K)
            with np.errstate(over="ignore"):  # the residual tells
                A /= system.lambda_A
            A[np.diag_indices_from(A)] += 1
            X = lu_solve(lu_factor(A, check_finite=False), X, overwrite_b=True, check_finite=False)
            left = A @ X
            left[points, np.arange(len(points))] -= 1
            evidence = _evidence([_require_solved(float(np.linalg.norm(left, axis=0).max()), system)])
        elif system.lambda_I:
            alone = replace(self, weights=self.weights[:, [index]], systems=(system,))
            solved, evidence = alone.solve(X[:, None], params, landmarks)
            require_converged(evidence | {"method": params.solver}, params)
            X = system.lambda_A * solved[:, 0]
        N = self.K.of_rows(points, X)
        return X, (N + N.T) / 2, evidence

    def _factored(self, index: int, b: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the solution (n, c) of one system, and its relative residual; three matrices at a time, with K."""
        assert self.K.K is not None
        A = self.regularized(index, self.K.K)
        A[np.diag_indices_from(A)] += self.systems[index].lambda_A
        x = lu_solve(lu_factor(A, check_finite=False), b, check_finite=False)
        norm = np.linalg.norm(b)
        return x, float(np.linalg.norm(A @ x - b) / norm) if norm else 0.0

    def iterate(self, B: np.ndarray, landmarks: np.ndarray | None,
                params: SystemParams) -> tuple[np.ndarray, dict[str, Any]]:
        """Return alpha (n, p, c) by conjugate gradients in the inner product of K, preconditioned by landmarks."""
        n, p, c = B.shape
        of_column = np.repeat(np.arange(p), c)

        def apply(P: np.ndarray, columns: np.ndarray, KP: np.ndarray) -> np.ndarray:
            return by_system(of_column[columns], P, lambda index, mine: (
                self.regularized(index, KP[:, mine]) + self.systems[index].lambda_A * P[:, mine]))

        two_level = None if landmarks is None else self.two_level(landmarks, params)
        precondition = None if two_level is None else (lambda R, columns, KR: two_level(R, of_column[columns], KR))
        solution = blocked_cg(apply, B.reshape(n, p * c), precondition, Stop(params.tol, params.max_iter),
                           metric=self.K)
        return solution.value.reshape(n, p, c), convergence(solution, p)

    def two_level(self, landmarks: np.ndarray, params: SystemParams) -> Any:
        """Return the preconditioner on the span of the landmarks: (R, systems (u,), K R) -> (Z, K Z)."""
        C = np.asarray(self.K.kernel(self.K.X, self.K.X[landmarks]))
        T = whiten(C[landmarks], params.cutoff or 1e-10).T
        Phi = C @ T
        distinct = {system: index for index, system in enumerate(self.systems)}
        factors = {system: factor_raised(Phi.T @ self.regularized(index, Phi) + system.lambda_A * np.eye(T.shape[1]))
                   for system, index in distinct.items()}

        def precondition(R: np.ndarray, of: np.ndarray, KR: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            lambda_A = np.array([self.systems[index].lambda_A for index in of])
            reduced = T.T @ KR[landmarks]
            coarse = by_system(of, reduced, lambda index, mine: cho_solve(
                factors[self.systems[index]], reduced[:, mine], check_finite=False)) - reduced / lambda_A
            Z, KZ = R / lambda_A, KR / lambda_A
            Z[landmarks] += T @ coarse
            return Z, KZ + Phi @ coarse

        return precondition
