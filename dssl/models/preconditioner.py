"""Preconditioners of Nystrom LapRLS: what stands for the labels' and the graph's Gram matrices.

    edges     labels and edges sampled without bias, `edges` s of each (8 s):
              J^ = (sum of weights / sum of the sampled) sum w_i k_i k_i',
              E^ = sum f_ij (c_i k_i - c_j k_j)(c_i k_i - c_j k_j)'
    paper-5   J^ = K_ms' K_ms,          E^ = (n/s)^2 K_ss E_ss K_ss
    paper-6   J^ = (m/s) K_ss K_ss,     E^ as in (5)
    paper     (5) for m <= n^1/2, or else (6)

On a neighbor graph landmarks are hardly ever neighbors of each other, so that E_ss is nearly its diagonal and the
paper's form stands for a graph without edges; sampled edges do not.

References
----------
Li, Liu, Yin, Wang, "Approximate manifold regularization", IJCAI 2019, equations (5) and (6).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lu_factor, lu_solve

from ..blocks import PartWriter, Receipt, block_rng, row_ranges
from ..csr import points_of
from ..errors import DataError, ParameterError, explain, require
from ..execution import Execution
from ..graph.energy import sampled_edges
from ..kernels.products import Landmarked, times_lower, typed_block
from .laprls_system import NystromSystem, System, SystemParams

LABELS, EDGES, POINTS = 11, 12, 13  # random streams


@dataclass(frozen=True)
class SampleTask:
    """Write J^ and E^ of sampled labels and edges, and `control` of sampled points, (r, r), by chunks of the sample.

    The control is `a N^ + b u^ u^'`, with N^ and u^ the sums of k k' and of k over the sample times v over its size: of
    one sample, so that it is positive semi-definite like the mean that it stands for.
    """

    problem: Landmarked
    params: SystemParams
    graph: bool
    labels: bool
    control: bool
    budget: int

    def __call__(self, out: PartWriter) -> Receipt:
        problem, arrays = self.problem, self.problem.landmarks.load()
        Z, T, lines = points_of(arrays, "Z"), arrays.get("T"), problem.labels.load()
        s = Z.shape[0]
        r, count = (s if T is None else T.shape[1]), self.params.edges * s
        J, E = np.zeros((r, r)), np.zeros((r, r))
        height = max(64, self.budget // 4 // (32 * s))

        def kernels(positions: np.ndarray) -> np.ndarray:
            return typed_block(problem.kernel, problem.rows.take(positions), Z, "float64")

        def whitened(K: np.ndarray) -> np.ndarray:
            return K if T is None else times_lower(K, T)

        if self.labels:
            m = len(lines["position"])
            chosen = np.arange(m) if m <= count else np.sort(
                block_rng(self.params.seed, LABELS).choice(m, count, replace=False))
            weight = lines["weight"][chosen]
            weight = weight * (lines["weight"].sum() / weight.sum())
            for start, stop in row_ranges(len(chosen), height):
                rows = whitened(kernels(lines["position"][chosen[start:stop]])) * np.sqrt(weight[start:stop])[:, None]
                J += rows.T @ rows
        edges = 0
        if self.graph:
            sample = sampled_edges(problem.energy.edges(), count, block_rng(self.params.seed, EDGES))
            edges = len(sample.w)
            for start, stop in row_ranges(edges, height):
                part = slice(start, stop)
                rows = kernels(sample.i[part]) * sample.ci[part, None]
                rows -= kernels(sample.j[part]) * sample.cj[part, None]
                rows = whitened(rows * np.sqrt(sample.w[part])[:, None])
                E += rows.T @ rows
        found = {"J": J, "E": E}
        if self.control:
            v = problem.energy.n
            chosen = np.arange(v) if v <= count else np.sort(
                block_rng(self.params.seed, POINTS).choice(v, count, replace=False))
            N, u = np.zeros((r, r)), np.zeros(r)
            for start, stop in row_ranges(len(chosen), height):
                rows = whitened(kernels(chosen[start:stop]))
                N += rows.T @ rows
                u += rows.sum(axis=0)
            (a, b), share = problem.energy.chance, v / len(chosen)
            found["control"] = a * share * N + b * share**2 * np.outer(u, u)
        return {**out.write(**found), "edges": edges}


@dataclass(frozen=True)
class Preconditioner:
    """`J^ + lambda_I E^ + lambda_A R`, factored once for each pair of penalties."""

    J: np.ndarray
    E: np.ndarray
    control: np.ndarray | None
    R: np.ndarray
    printed: bool  # as in the paper, which factors by LU

    def matrix(self, system: System) -> np.ndarray:
        """Return the matrix that stands for a system's."""
        P = self.J + system.lambda_A * self.R
        graph = self.control if system.control else self.E
        return P if graph is None else P + system.lambda_I * graph

    def factors(self, systems: Sequence[System]) -> "Factors":
        """Return the factors for all systems; folds share those of their penalties."""
        keys = [(system.lambda_A, system.lambda_I, system.control) for system in systems]
        made: dict[Any, Any] = {}
        for key, system in zip(keys, systems, strict=True):
            if key not in made:
                P = self.matrix(system)
                made[key] = lu_factor(P, check_finite=False) if self.printed else factor_raised(P)
        return Factors([made[key] for key in keys], self.printed)


@dataclass(frozen=True)
class Factors:
    """The factors by system."""

    of: list[Any]
    printed: bool

    def solve(self, system: int, R: np.ndarray) -> np.ndarray:
        return (lu_solve if self.printed else cho_solve)(self.of[system], R, check_finite=False)


def factor_raised(A: np.ndarray) -> Any:
    """Return the Cholesky factor of a positive semi-definite matrix, its diagonal raised as far as rounding asks.

    Raises
    ------
    ParameterError : it is not positive with 1e-6 of its largest diagonal added. DataError : it is not finite, which
        LAPACK would not tell.
    """
    require(bool(np.isfinite(A).all()), f"a system of {len(A)} landmarks holds NaN or infinite values", error=DataError,
            why="the kernel is no number at some points", fix="drop or impute points that are not finite; scale the "
            "features if the kernel overflows, in float32 from about 1e19 on")
    largest = float(np.abs(np.diagonal(A)).max(initial=0.0))
    for share in (0.0, 1e-15, 1e-13, 1e-11, 1e-9, 1e-7, 1e-6):
        try:
            return cho_factor(A + share * largest * np.eye(len(A)) if share else A, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    raise ParameterError(explain(
        f"a system of {len(A)} landmarks is not positive definite",
        why="the penalties are too small for the precision of the kernel blocks",
        fix="raise lambda_A, use whitening, or precision float64"))


def printed_sums(system: NystromSystem, which: str, execution: Execution) -> tuple[np.ndarray, np.ndarray]:
    """Return J^ and E^ of the paper's (5) or (6), in the basis of the system.

    Raises
    ------
    ParameterError : the landmarks are no points, so that there are no weights between them.
    """
    graph = system.blocks.nnz > 0
    require(not graph or system.places is not None, f"preconditioner={system.params.preconditioner!r} with landmarks "
            "that are no points", why="it needs the graph's weights between landmarks",
            fix='use "edges", or uniform landmarks')
    v, s = system.blocks.n, system.s
    weights = system.lines.weight.sum()
    if which == "paper":
        which = "paper-5" if len(system.lines.row) <= np.sqrt(v) else "paper-6"
    K = system.K_ss
    if which == "paper-5":
        parts = execution.scratch()
        execution.map([LabelsTask(system.problem)], parts)
        J = parts.read(0)["J"]
    else:
        J = weights / s * (K @ K)
    E = np.zeros_like(K)
    if graph:
        assert system.places is not None
        E = (v / s) ** 2 * (K @ (system.blocks.among(system.places) @ K))
    return _in_basis(system, J), _in_basis(system, E)


def _in_basis(system: NystromSystem, A: np.ndarray) -> np.ndarray:
    found = A if system.whitening is None else system.whitening.T.T @ A @ system.whitening.T
    return (found + found.T) / 2


@dataclass(frozen=True)
class LabelsTask:
    """Write K_ms' W K_ms of all labeled points, `J` (s, s)."""

    problem: Landmarked

    def __call__(self, out: PartWriter) -> Receipt:
        lines, Z = self.problem.labels.load(), points_of(self.problem.landmarks.load(), "Z")
        J = np.zeros((Z.shape[0], Z.shape[0]))
        for start, stop in row_ranges(len(lines["position"]), 4096):
            K = typed_block(self.problem.kernel, self.problem.rows.take(lines["position"][start:stop]), Z, "float64")
            J += (K * lines["weight"][start:stop, None]).T @ K
        return out.write(J=J)


def make_preconditioner(system: NystromSystem, systems: Sequence[System],
                        execution: Execution) -> tuple[Preconditioner, dict[str, Any]]:
    """Return the preconditioner that the parameters name, and what is known of it (JSON).

    The control of the graph is sampled whatever the name is.
    """
    which = system.params.preconditioner
    control = any(item.has_control for item in systems)
    graph = any(item.has_graph for item in systems)
    sampled, evidence = which == "edges", {"preconditioner": which}
    found: dict[str, np.ndarray] = {}
    if sampled or control:
        parts = execution.scratch()
        task = SampleTask(system.problem, system.params, sampled and graph, sampled, control, execution.memory_budget)
        receipt, = execution.map([task], parts)
        found = dict(parts.read(0))
        evidence["sampled_edges"] = receipt["edges"]
    if not sampled:
        found["J"], found["E"] = printed_sums(system, which, execution)
    printed = not sampled and system.whitening is None
    return Preconditioner(found["J"], found["E"], found.get("control"), system.penalty(), printed), evidence
