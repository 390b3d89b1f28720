"""LapRLS with a coefficient for each point, equation (3), for comparison and for a few thousand points.

    (M K + lambda_A I) alpha = J (y - mean),   M = J + lambda_I E

J is the diagonal matrix of the label weights. "direct" factors the matrix. In the inner product x'K y it is
self-adjoint and positive definite, so conjugate gradients ("cg") need one product with K an iteration. "pcg" has a
two-level preconditioner, exact on the span V = S T of the landmarks and 1 / lambda_A on the rest:

    P^-1 r = V (Phi' M Phi + lambda_A I)^-1 V'K r + (r - V V'K r) / lambda_A

With lambda_I = 0 the coefficients of unlabeled points are zero and only the labeled points are used, plain RLS.

For other losses the functions at the labeled points have the kernel `J K (gamma_A I + gamma_I E K / n^2)^-1 J'`: one
system for all folds, classes and Newton steps of a ratio of penalties. Folds are refitted from the minimum of all
labels, or approximated by the influence function (`influence.py`).

References
----------
Li, Liu, Yin, Wang, "Approximate manifold regularization", IJCAI 2019, equation (3) and Table 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_solve, lu_factor, lu_solve

from ...base.digest import JsonObject
from ...base.errors import BudgetError, NotConverged, require
from ...base.types import Matrix
from ...graph.energy.blocks import StoredGraph
from ...graph.energy.vertex_removal import energy_change
from ...graph.regularizer import LaplacianKind
from ...kernels.base import Kernel
from ...kernels.nystrom import whiten
from ...solvers.blocked_cg import blocked_cg
from ...solvers.columns import by_system, factor_raised
from ...solvers.solver_params import Stop
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges
from ..linear.gram import held_out_ridge
from ..linear.newton import FunctionSpace, LabelGram, Minimum, minimize
from ..losses import SQUARES, SmoothLoss
from .influence import influence_of_labels
from .iterations import convergence, require_converged
from .params import LabelLines, SystemParams
from .penalties import Penalties, by_pair, by_ratio, fold_norms

COLUMN_BYTES = 64 << 20  # of the values of columns that are fitted together
REFINE = {"influence": 0, "refined_influence": 1}  # Newton steps after the influence function
TwoLevel = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # R, systems, K R -> Z, K Z


def smooth_held_out(space: FunctionSpace, loss: SmoothLoss, lines: LabelLines, whole: Minimum, fit_intercept: bool,
                  refine: int | None) -> np.ndarray:
    """Return the held-out values (m, c) of the labels, NaN where a label is never held out.

    whole : the minimum of all labels, from which folds are refitted. refine : None for refits, or the number of Newton
    steps after the influence function.
    """
    (m, c), held_out = lines.target.shape, np.full(lines.target.shape, np.nan)
    if refine is not None and isinstance(space, LabelGram):
        folds = [np.flatnonzero(lines.fold == fold) for fold in range(lines.n_held_out_folds)]
        return influence_of_labels(space.N, lines.target, lines.weight, loss, whole.values, folds,
                                   intercept=fit_intercept, refine=refine)
    for first, last in row_ranges(lines.n_held_out_folds, max(1, COLUMN_BYTES // (8 * m * c))):
        y, weight = lines.columns(range(first, last))
        start = Minimum(*(np.tile(array, last - first) for array in (whole.coef, whole.intercept, whole.values,
                                                                     whole.steps)))
        values = minimize(space, loss, y, weight, fit_intercept=fit_intercept, start=start).values.reshape(m, -1, c)
        rows = np.flatnonzero((lines.fold >= first) & (lines.fold < last))
        held_out[rows] = values[rows, lines.fold[rows] - first]
    return held_out


DIRECT_RESIDUAL = 1e-6  # relative, of a factored system; above it the penalties are too far apart for float64
CHUNK_BYTES = 128 << 20  # upper bound of a chunk of the kernel that is evaluated for each product


def chunk_bytes(limit: int) -> int:
    """Return the bytes of a chunk of K within a limit."""
    return min(CHUNK_BYTES, limit // 2)


class FullKernel:
    """Products with K (n, n), which is stored if it fits in `limit` bytes, and else evaluated in chunks each time."""

    def __init__(self, kernel: Kernel, X: Matrix, limit: int):
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

    If `held_out`, write the held-out `values` (m, p / F, c) of the labeled points instead, for pairs of penalties of F
    systems each; NaN at points that are never held out. "direct" does so in closed form, by one factorization for each
    ratio of penalties, unless refits are requested.

    Memory: `8 n^2` bytes for K if they fit in half the budget, else `chunk_bytes`; `16 n^2` more for "direct", `16 n m`
    in closed form, and `8 n (s + 2 r)` for "pcg".
    """

    rows: Rows
    kernel: Kernel
    graph: Parts | None
    multiplicity: Rows | None
    laplacian: LaplacianKind
    labels: Arrays  # row, fold, weight, target
    n_held_out_folds: int
    landmarks: np.ndarray | None  # row numbers, for "pcg"
    systems: tuple[Penalties, ...]
    params: SystemParams  # of solver "direct", "pcg" or "cg"
    fit_intercept: bool
    budget: int
    loss: SmoothLoss = SQUARES
    held_out: bool = False

    @property
    def closed_form(self) -> bool:
        return self.params.solver == "direct" and self.params.held_out != "refit" and self.loss == SQUARES

    @property
    def held_out_method(self) -> str:
        if self.closed_form:
            return "closed_form"
        return self.params.held_out if self.params.held_out in REFINE else "refit"

    def __call__(self, out: PartWriter) -> Receipt:
        X, lines = self.rows.read_all(), LabelLines(**self.labels.load(), n_held_out_folds=self.n_held_out_folds)
        n, method = X.shape[0], self.params.solver
        require(method != "direct" or 24 * n * n <= self.budget, f'solver="direct" with {n:,} points',
                error=BudgetError, why=f"its matrices take {24 * n * n:,} bytes, the budget is {self.budget:,}",
                fix=f'use solver "auto", which needs only landmarks, or raise memory_budget to {24 * n * n:,} bytes')
        K = FullKernel(self.kernel, X, self.budget if method == "direct" else self.budget // 2)
        E, relabeled_mean = sp.csr_array((n, n)), (0.0, 0.0)
        if self.graph is not None:
            stored = StoredGraph(self.graph, self.laplacian, self.multiplicity)
            energy = stored.energy()
            E, relabeled_mean = energy.matrix(), energy.relabeled_mean()
            if self.held_out and self.params.inductive:
                shape = (len(lines.row), len(self.systems) // self.n_held_out_folds, lines.target.shape[1])
                values, evidence = np.full(shape, np.nan), JsonObject()
                for fold, in_fold in enumerate(lines.fold == fold for fold in range(self.n_held_out_folds)):
                    change = energy_change(energy, self.laplacian, lines.row[in_fold], stored.multiplicity())
                    of_fold = replace(lines, fold=np.where(in_fold, 0, 1), n_held_out_folds=1)
                    arrays, fold_evidence = self.of_fold(fold)._solved(K, E + change.matrix(n), relabeled_mean, of_fold)
                    values[in_fold] = arrays["values"][in_fold]
                    evidence = fold_evidence | {name: max(fold_evidence[name], evidence.get(name, 0))
                                                for name in ("max_residual", "not_converged")}
                return {**out.write(values=values), "evidence": evidence}
        arrays, evidence = self._solved(K, E, relabeled_mean, lines)
        return {**out.write(**arrays), "evidence": evidence}

    def of_fold(self, fold: int) -> "DenseTask":
        """Return the task of the systems of one fold, the only one that is held out."""
        systems = tuple(item.of_folds(fold, fold + 1)[0] for item in self.systems[fold::self.n_held_out_folds])
        return replace(self, n_held_out_folds=1, systems=systems)

    def _solved(self, K: FullKernel, E: sp.csr_array, relabeled_mean: tuple[float, float],
                lines: LabelLines) -> tuple[dict[str, np.ndarray], JsonObject]:
        """Return the arrays to write for the systems with energy E, and the evidence."""
        n, method = K.n, self.params.solver
        if self.loss != SQUARES:
            return self._newton(K, E, relabeled_mean, lines)
        if self.held_out and self.closed_form:
            pairs = self.systems[::self.n_held_out_folds]
            unlabeled = DenseSystems(K, E, relabeled_mean, np.zeros((n, len(pairs))), tuple(
                pair.whole for pair in pairs))
            values, evidence = unlabeled.held_out(lines, self.fit_intercept, self.params)
            return {"values": values}, {**evidence, "method": method}
        p, c = len(self.systems), lines.target.shape[1]
        means = lines.intercepts([item.held_out for item in self.systems], self.fit_intercept)
        B, weights = np.zeros((n, p, c)), np.zeros((n, p))
        for index, item in enumerate(self.systems):
            train = lines.fold != item.held_out
            np.add.at(weights[:, index], lines.row[train], lines.weight[train])
            np.add.at(B[:, index], lines.row[train], lines.weight[train, None] * (lines.target[train] - means[index]))
        systems = DenseSystems(K, E, relabeled_mean, weights, self.systems)
        alpha, evidence = systems.solve(B, self.params, self.landmarks)
        evidence["method"] = method
        if not self.held_out:
            return {"coef": alpha.transpose(1, 0, 2), "intercept": means}, evidence
        values = K.of_rows(lines.row, alpha.reshape(n, p * c)).reshape(-1, p, c) + means
        return {"values": lines.of_own_fold(values)}, evidence

    def _newton(self, K: FullKernel, E: sp.csr_array, relabeled_mean: tuple[float, float],
                lines: LabelLines) -> tuple[dict[str, np.ndarray], JsonObject]:
        """Return the arrays and evidence of `_solved` for another loss than the squared one."""
        n, p, c, m = K.n, len(self.systems), lines.target.shape[1], len(lines.row)
        rows, position = np.unique(lines.row, return_inverse=True)
        groups = by_pair(self.systems)
        pairs = tuple(self.systems[numbers[0]].whole for numbers in groups)
        systems = DenseSystems(K, E, relabeled_mean, np.zeros((n, len(pairs))), pairs)
        coef, intercept, values = np.zeros((p, n, c)), np.empty((p, c)), np.empty((m, len(pairs), c))
        steps, solutions, start = np.zeros(p, np.int64), [], None
        for members in by_ratio(pairs).values():
            X, N, evidence = systems.label_kernel(members[0], rows, self.params, self.landmarks)
            solutions.append(evidence)
            for index in members:
                scale = lines.weight.sum() / pairs[index].lambda_A
                space = LabelGram(scale * N[np.ix_(position, position)])
                if self.held_out:
                    start = minimize(space, self.loss, *lines.columns([-1]), fit_intercept=self.fit_intercept,
                                     start=start)
                    values[:, index] = smooth_held_out(space, self.loss, lines, start, self.fit_intercept,
                                                     REFINE.get(self.params.held_out))
                    continue
                numbers = groups[index]
                y, weight = lines.columns([self.systems[number].held_out for number in numbers])
                minimum = minimize(space, self.loss, y, weight, fit_intercept=self.fit_intercept)
                of_rows = np.zeros((len(rows), len(numbers) * c))
                np.add.at(of_rows, position, scale * minimum.coef)
                coef[numbers] = (X @ of_rows).reshape(n, -1, c).transpose(1, 0, 2)
                intercept[numbers] = minimum.intercept.reshape(-1, c)
                steps[numbers] = minimum.steps.reshape(-1, c).max(axis=1)
        evidence = {"method": self.params.solver, "loss": self.loss.name, "newton_steps": steps.tolist(),
                    "max_residual": max(item["max_residual"] for item in solutions), "not_converged": 0}
        return {"values": values} if self.held_out else {"coef": coef, "intercept": intercept}, evidence


def _require_solved(residual: float, system: Penalties) -> float:
    """Return the relative residual of a factored system; raise NotConverged if it is above the bound, or NaN."""
    require(residual <= DIRECT_RESIDUAL, f"gamma_A={system.gamma_A:g} and gamma_I={system.gamma_I:g}: their system on "
            f"all points is solved to a relative residual of {residual:.1e} only, above {DIRECT_RESIDUAL:g}",
            why="one penalty is below the rounding errors of the other, so the coefficients are meaningless",
            fix="use a larger gamma_A or a smaller gamma_I; or solver \"auto\", whose systems of landmarks allow such "
            "ratios", error=NotConverged)
    return residual


def _evidence(residuals: list[float]) -> JsonObject:
    return {"max_residual": max(residuals, default=0.0), "not_converged": 0}


@dataclass(frozen=True)
class DenseSystems:
    """Systems on all points: K, E, the mean of E over relabelings of its vertices, and label weights (n, p)."""

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
              landmarks: np.ndarray | None) -> tuple[np.ndarray, JsonObject]:
        """Return alpha (n, p, c) of right-hand sides B, and the evidence."""
        if params.solver == "direct":
            return self.direct(B)
        return self.iterate(B, landmarks if params.solver == "pcg" else None, params)

    def direct(self, B: np.ndarray) -> tuple[np.ndarray, JsonObject]:
        """Return alpha (n, p, c) of right-hand sides B by an LU factorization each; raise NotConverged."""
        alpha, residuals = np.empty_like(B), []
        for index in range(len(self.systems)):
            alpha[:, index], residual = self._factored(index, B[:, index])
            residuals.append(_require_solved(residual, self.systems[index]))
        return alpha, _evidence(residuals)

    def held_out(self, lines: LabelLines, fit_intercept: bool,
                 params: SystemParams) -> tuple[np.ndarray, JsonObject]:
        """Return the held-out values (m, p, c) of the labels for p pairs of penalties, by an LU for each ratio.

        Ridge regression in the kernel `N = K (I + rho E K)^-1` of the labeled points, rho = lambda_I / lambda_A, with
        the penalty lambda_A of each fold; see `closed_form.py`.
        """
        points, position = np.unique(lines.row, return_inverse=True)
        folds = [np.flatnonzero(lines.fold == fold) for fold in range(lines.n_held_out_folds)]
        values, residuals = np.empty((len(self.systems), *lines.target.shape)), [0.0]
        for members in by_ratio(self.systems).values():
            _, N, evidence = self.label_kernel(members[0], points, params)
            residuals.append(evidence["max_residual"])
            lambda_A = fold_norms([self.systems[index] for index in members], lines.n_held_out_folds)
            values[members] = held_out_ridge(N[np.ix_(position, position)], lines.target, folds, lambda_A,
                                             lines.weight, fit_intercept)
        return values.transpose(1, 0, 2), _evidence(residuals)

    def label_kernel(self, index: int, points: np.ndarray, params: SystemParams,
                     landmarks: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, JsonObject]:
        """Return columns `points` of `X = (I + rho E K)^-1` (n, m), K X among these (m, m), and the evidence.

        rho = lambda_I / lambda_A. Raises NotConverged.
        """
        system, X, evidence = self.systems[index], np.zeros((self.K.n, len(points)), order="F"), _evidence([])
        X[points, np.arange(len(points))] = 1
        if system.lambda_I and params.solver == "direct":
            assert self.K.K is not None
            A = self.regularized(index, self.K.K)
            with np.errstate(over="ignore"):  # the residual shows it
                A /= system.lambda_A
            A[np.diag_indices_from(A)] += 1
            X = lu_solve(lu_factor(A, check_finite=False), X, overwrite_b=True, check_finite=False)
            residual = A @ X
            residual[points, np.arange(len(points))] -= 1
            evidence = _evidence([_require_solved(float(np.linalg.norm(residual, axis=0).max()), system)])
        elif system.lambda_I:
            single = replace(self, weights=self.weights[:, [index]], systems=(system,))
            solved, evidence = single.solve(X[:, None], params, landmarks)
            require_converged(evidence | {"method": params.solver}, params)
            X = system.lambda_A * solved[:, 0]
        N = self.K.of_rows(points, X)
        return X, (N + N.T) / 2, evidence

    def _factored(self, index: int, b: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the solution (n, c) of one system, and its relative residual; memory of three matrices, with K."""
        assert self.K.K is not None
        A = self.regularized(index, self.K.K)
        A[np.diag_indices_from(A)] += self.systems[index].lambda_A
        x = lu_solve(lu_factor(A, check_finite=False), b, check_finite=False)
        norm = np.linalg.norm(b)
        return x, float(np.linalg.norm(A @ x - b) / norm) if norm else 0.0

    def iterate(self, B: np.ndarray, landmarks: np.ndarray | None,
                params: SystemParams) -> tuple[np.ndarray, JsonObject]:
        """Return alpha (n, p, c) by conjugate gradients in the inner product of K, preconditioned by landmarks."""
        n, p, c = B.shape
        of_column = np.repeat(np.arange(p), c)

        def apply(P: np.ndarray, columns: np.ndarray, KP: np.ndarray) -> np.ndarray:
            return by_system(of_column[columns], P, lambda index, mask: (
                self.regularized(index, KP[:, mask]) + self.systems[index].lambda_A * P[:, mask]))

        two_level = None if landmarks is None else self.two_level(landmarks, params)
        precondition = None if two_level is None else (lambda R, columns, KR: two_level(R, of_column[columns], KR))
        solution = blocked_cg(apply, B.reshape(n, p * c), precondition, Stop(params.tol, params.max_iter),
                           metric=self.K)
        return solution.value.reshape(n, p, c), convergence(solution, p)

    def two_level(self, landmarks: np.ndarray, params: SystemParams) -> TwoLevel:
        """Return the preconditioner on the span of the landmarks."""
        C = np.asarray(self.K.kernel(self.K.X, self.K.X[landmarks]))
        T = whiten(C[landmarks], params.cutoff or 1e-10).T
        Phi = C @ T
        distinct = {system: index for index, system in enumerate(self.systems)}
        factors = {system: factor_raised(Phi.T @ self.regularized(index, Phi) + system.lambda_A * np.eye(T.shape[1]))
                   for system, index in distinct.items()}

        def precondition(R: np.ndarray, of: np.ndarray, KR: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            lambda_A = np.array([self.systems[index].lambda_A for index in of])
            reduced = T.T @ KR[landmarks]
            coarse = by_system(of, reduced, lambda index, mask: cho_solve(
                factors[self.systems[index]], reduced[:, mask], check_finite=False)) - reduced / lambda_A
            Z, KZ = R / lambda_A, KR / lambda_A
            Z[landmarks] += T @ coarse
            return Z, KZ + Phi @ coarse

        return precondition
