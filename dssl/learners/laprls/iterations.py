"""Nystrom systems by conjugate gradients, many columns at once, on products that share each kernel block.

The preconditioner approximates the Gram matrices of the labels, J^, and of the graph, E^:

    edges     labels and edges sampled without bias, `edges` s of each (8 s):
              J^ = (sum of weights / sum of the sampled) sum w_i k_i k_i',
              E^ = sum f_ij (c_i k_i - c_j k_j)(c_i k_i - c_j k_j)'
    paper-5   J^ = K_ms' K_ms,          E^ = (n/s)^2 K_ss E_ss K_ss
    paper-6   J^ = (m/s) K_ss K_ss,     E^ as in (5)
    paper     (5) for m <= n^1/2, or else (6)

Landmarks are rarely neighbors of each other, so E_ss is nearly diagonal and the paper's form approximates a graph
without edges; sampled edges do not have this defect.

References
----------
Li, Liu, Yin, Wang, "Approximate manifold regularization", IJCAI 2019, equations (5) and (6).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import cho_solve, lu_factor, lu_solve

from ...base.digest import JsonObject
from ...base.errors import NotConverged, require
from ...execution.tasks import Execution, sums
from ...graph.energy.blocks import sampled_edges
from ...kernels.gram import kernel_block
from ...solvers.blocked_cg import blocked_cg
from ...solvers.columns import by_system, factor_raised
from ...solvers.solution import Solution
from ...solvers.solver_params import Stop
from ...storage.blocks import Arrays, PartWriter, Receipt, block_rng, row_ranges
from ...storage.csr import points_of
from .gram import gram_matrices
from .params import Functions, SystemParams
from .penalties import Penalties
from .products import BlockedProblem, SystemProductTask, clear_cache
from .system import NystromSystem

STREAMS = {"labels": 11, "edges": 12, "points": 13}  # random streams
SUM_NAMES = {"labels": "J", "edges": "E", "points": "control"}
MAX_SHARES = 8  # of a sample, each with its own sums


@dataclass(frozen=True)
class DrawTask:
    """Sample "labels", "edges" or "points"; write weights `w` and positions `i`, of edges also `j`, `ci` and `cj`.

    Positions are those of the permuted vertices. Edges read all blocks twice, one after the other.
    """

    problem: BlockedProblem
    kind: str
    count: int
    random_state: int

    def __call__(self, out: PartWriter) -> Receipt:
        problem, rng = self.problem, block_rng(self.random_state, STREAMS[self.kind])
        if self.kind == "edges":
            blocks = problem.energy
            sample = vars(sampled_edges(lambda: (blocks.edges(index) for index in range(len(blocks.ranges))),
                                        self.count, rng))
        elif self.kind == "labels":
            lines = problem.labels.load()
            ids = sample_ids(len(lines["position"]), self.count, rng)
            weight = lines["weight"][ids]
            sample = {"i": lines["position"][ids], "w": weight * (lines["weight"].sum() / weight.sum())}
        else:
            ids = sample_ids(problem.energy.n, self.count, rng)
            sample = {"i": ids, "w": np.ones(len(ids))}
        return {**out.write(**sample), "count": len(sample["w"])}


def sample_ids(n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return at most `count` random numbers below n, ascending."""
    return np.arange(n) if n <= count else np.sort(rng.choice(n, count, replace=False))


@dataclass(frozen=True)
class SampleTask:
    """Write the sums `matrix` (r, r), `sum w x x'`, and `vector` (r,), `sum w^1/2 x`, of a share of a sample."""

    problem: BlockedProblem
    sample: Arrays  # as `DrawTask` writes it
    start: int
    stop: int
    height: int

    def __call__(self, out: PartWriter) -> Receipt:
        points, features, sample = self.problem.rows, self.problem.features("float64"), self.sample.load()
        r = features.width
        matrix, vector = np.zeros((r, r)), np.zeros(r)
        for start, stop in row_ranges(self.stop - self.start, self.height):
            some = {name: array[self.start + start:self.start + stop] for name, array in sample.items()}
            rows = features.block(points.take(some["i"]))
            if "j" in some:
                rows = rows * some["ci"][:, None]
                rows -= features.block(points.take(some["j"])) * some["cj"][:, None]
            rows = features.of_block(rows * np.sqrt(some["w"])[:, None])
            matrix += rows.T @ rows
            vector += rows.sum(axis=0)
        return out.write(matrix=matrix, vector=vector)


def sample_shares(s: int, budget: int) -> int:
    """Return the number of shares of a sample, 2 to 8, whose sums fit in the budget together."""
    return int(np.clip(budget // (8 * s * s), 2, MAX_SHARES))


def sampled_sums(system: NystromSystem, sizes: Mapping[str, int],
                 execution: Execution) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return J^ and E^ of sampled "labels" and "edges", and `control` of sampled "points", (r, r); and sample sizes.

    sizes : upper bounds of the sample sizes of the requested kinds. The control is `a N^ + b u^ u^'`, with N^ and u^
    the sums of k k' and k over one sample times v over its size, so that it is positive semi-definite.
    """
    problem, budget, draws = system.problem, execution.memory_budget, execution.scratch()
    # Rows that a task evaluates at a time: the kernels of both ends of an edge, and two products.
    height = max(64, budget // 4 // (32 * system.s + 2 * problem.rows.row_bytes))
    n_shares = sample_shares(system.s, budget)
    tasks = [DrawTask(problem, kind, count, system.params.random_state) for kind, count in sizes.items()]
    counts = {kind: receipt["count"] for kind, receipt in zip(sizes, execution.map(tasks, draws), strict=True)}
    by_name = {}
    for number, (kind, count) in enumerate(counts.items()):
        shares = row_ranges(count, max(1, -(-count // n_shares))) if count else [(0, 0)]
        total = execution.reduce(sums([SampleTask(problem, draws.arrays(number), start, stop, height)
                                       for start, stop in shares]))
        if kind == "points":
            (a, b), share = system.blocks.relabeled_mean, system.blocks.n / count
            total["matrix"] = a * share * total["matrix"] + b * share**2 * np.outer(total["vector"], total["vector"])
        by_name[SUM_NAMES[kind]] = total["matrix"]
    draws.remove()
    return by_name, counts


@dataclass(frozen=True)
class Preconditioner:
    """`J^ + lambda_I E^ + lambda_A R`, factored once for each pair of penalties."""

    J: np.ndarray
    E: np.ndarray
    control: np.ndarray | None
    R: np.ndarray
    as_published: bool  # factored by LU as in the paper

    def matrix(self, system: Penalties) -> np.ndarray:
        P = self.J + system.lambda_A * self.R
        graph = self.control if system.control else self.E
        return P if graph is None else P + system.lambda_I * graph

    def inverse(self, system: Penalties, features: np.ndarray,
                weight: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the inverse as a function of columns, with exact labels of these features (m, r) and weights (m,)."""
        scaled = features[weight > 0] * np.sqrt(weight[weight > 0])[:, None]
        P = replace(self, J=scaled.T @ scaled).matrix(system)
        return partial(cho_solve, factor_raised((P + P.T) / 2), check_finite=False)

    def inverses(self, systems: Sequence[Penalties]) -> list[Callable[[np.ndarray], np.ndarray]]:
        """Return the inverse for each system as a function of columns, shared by all folds."""
        inverses: dict[Penalties, Callable[[np.ndarray], np.ndarray]] = {}
        for system in systems:
            if system.whole not in inverses:
                P = self.matrix(system.whole)  # J^ too is of all labels
                inverses[system.whole] = partial(lu_solve, lu_factor(P, check_finite=False), check_finite=False) \
                    if self.as_published else partial(cho_solve, factor_raised(P), check_finite=False)
        return [inverses[system.whole] for system in systems]


def paper_sums(system: NystromSystem, takes_labels: bool) -> dict[str, np.ndarray]:
    """Return E^ of the paper's (5) and (6), and J^ of (6) unless `takes_labels`, in the basis of the system.

    Raises ParameterError where the landmarks are not vertices of the graph.
    """
    graph, landmarks = system.blocks.nnz > 0, system.landmark_positions
    require(not graph or landmarks is not None, f"preconditioner={system.params.preconditioner!r} with landmarks "
            "that are not points of the data", why="it needs the graph's weights between landmarks",
            fix='use "edges", or uniform landmarks')
    v, s, K = system.blocks.n, system.s, system.K_ss
    if K is None:
        Z = points_of(system.problem.landmarks.load(), "Z")
        K = kernel_block(system.problem.kernel, Z, Z).astype(np.float64, copy=False)
    matrices = {} if takes_labels else {"J": _in_basis(system, system.lines.weight.sum() / s * (K @ K))}
    if graph:
        assert landmarks is not None
        matrices["E"] = _in_basis(system, (v / s) ** 2 * (K @ (system.blocks.submatrix(landmarks) @ K)))
    return matrices


def _in_basis(system: NystromSystem, A: np.ndarray) -> np.ndarray:
    product = A if system.T is None else system.T.T @ A @ system.T
    return (product + product.T) / 2


def make_preconditioner(system: NystromSystem, systems: Sequence[Penalties],
                        execution: Execution) -> tuple[Preconditioner, JsonObject]:
    """Return the preconditioner of the parameters, and evidence; the control of the graph is always sampled."""
    which, m, size = system.params.preconditioner, len(system.lines.row), system.params.edges * system.s
    if which == "paper":
        which = "paper-5" if m <= np.sqrt(system.blocks.n) else "paper-6"
    sizes: dict[str, int] = {}
    if which in ("edges", "paper-5"):  # (5) takes all labels
        sizes["labels"] = size if which == "edges" else m
    if which == "edges" and any(item.has_graph for item in systems):
        sizes["edges"] = size
    if any(item.has_control for item in systems):
        sizes["points"] = size
    sums, counts = sampled_sums(system, sizes, execution)
    if which != "edges":
        sums |= paper_sums(system, takes_labels="J" in sums)
    if "E" not in sums:
        sums["E"] = np.zeros((system.r, system.r))
    as_published = which != "edges" and system.T is None
    evidence = {"preconditioner": system.params.preconditioner, "sampled_edges": counts.get("edges", 0)}
    return Preconditioner(sums["J"], sums["E"], sums.get("control"), system.penalty(), as_published), evidence


@dataclass
class BlockedProduct:
    """The product of columns with their systems, by tasks over all blocks of points."""

    system: NystromSystem
    penalties: Sequence[Penalties]  # of each column
    ones: np.ndarray  # Phi' 1 (r,)
    execution: Execution
    curvature: np.ndarray | None = None  # replaces the weight of each label line, in the order of the blocks, by column
    passes: int = 0

    def __post_init__(self) -> None:
        a, b = self.system.blocks.relabeled_mean
        self.lambda_A, self.energy, self.points, self.rank_one = np.array([
            (each.lambda_A, each.lambda_I * each.has_graph, each.lambda_I * a * each.has_control,
             each.lambda_I * b * each.has_control) for each in self.penalties]).T
        self.held_out = np.array([each.held_out for each in self.penalties])
        self.cache_bytes = self.execution.memory_budget // 2 * self.execution.tasks_per_process

    def __call__(self, P: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the products (r, u) of P (r, u) with the systems of these columns (u,)."""
        self.passes += 1
        execution, system, inputs = self.execution, self.system, self.execution.scratch()
        weights = ({"held_out": self.held_out[columns]} if self.curvature is None
                   else {"curvature": self.curvature[:, columns]})
        inputs.write(0, {"P": system.lift(P), "energy": self.energy[columns], "points": self.points[columns],
                         **weights})
        total = system.lower(execution.reduce(sums([
            SystemProductTask(system.problem, inputs.arrays(0), first, last, self.cache_bytes, index)
            for index, (first, last) in enumerate(system.problem.runs())]))["total"])
        inputs.remove()
        total += self.lambda_A[columns] * (system.penalty() @ P if system.T is None else P)
        if self.rank_one[columns].any():
            total += self.rank_one[columns] * np.outer(self.ones, self.ones @ P)
        return total


def solve_by_products(system: NystromSystem, systems: Sequence[Penalties], execution: Execution, *,
                      preconditioned: bool, required: bool = True) -> Functions:
    """Return the functions of all systems by conjugate gradients, in groups whose preconditioners fit in memory.

    Raises NotConverged, if `required`, where a column ended above the tolerance.
    """
    params = system.params
    moments = gram_matrices(system, execution, energy=False, labels=False,
                            ones=any(item.has_control for item in systems))
    right = system.right_sides(moments["moments"].sum(axis=0), moments["moments"], systems)
    b, preconditioner, group_size, passes = np.empty_like(right), None, len(systems), 0
    evidence: JsonObject = {"preconditioner": "none"}
    if preconditioned and params.preconditioner != "none":
        preconditioner, evidence = make_preconditioner(system, systems, execution)
        group_size = factors_that_fit(system.r, execution.memory_budget)
    total: JsonObject = {"iterations": [0] * len(systems), "max_residual": 0.0, "not_converged": 0}
    try:
        for group in groups_of(systems, group_size):
            solution, group_passes = _iterate(system, [systems[index] for index in group], right[group],
                                              moments["sums"], preconditioner, execution)
            b[group] = solution.value.reshape(system.r, len(group), -1).transpose(1, 0, 2)
            passes += group_passes
            converged = convergence(solution, len(group))
            for index, iterations in zip(group, converged["iterations"], strict=True):
                total["iterations"][index] = iterations
            total["max_residual"] = max(total["max_residual"], converged["max_residual"])
            total["not_converged"] += converged["not_converged"]
    finally:
        clear_cache()
        execution.ask_workers(clear_cache)
    evidence |= {"method": "nystrom-pcg" if preconditioned else "nystrom-cg", "passes": passes, **total}
    if required:
        require_converged(evidence, params)
    return system.functions(b, systems, evidence)


def factors_that_fit(r: int, budget: int) -> int:
    """Return the number of factors (r, r) of preconditioners that fit in half the budget, at least 1."""
    return max(1, budget // 2 // (8 * r * r))


def groups_of(systems: Sequence[Penalties], size: int) -> list[list[int]]:
    """Return the numbers of the systems in groups of at most `size` pairs of penalties, in order."""
    number = {key: index // size for index, key in enumerate(dict.fromkeys(item.whole for item in systems))}
    groups: list[list[int]] = [[] for _ in range(1 + max(number.values(), default=-1))]
    for index, item in enumerate(systems):
        groups[number[item.whole]].append(index)
    return groups


def _iterate(system: NystromSystem, systems: Sequence[Penalties], right: np.ndarray, ones: np.ndarray,
             preconditioner: Preconditioner | None, execution: Execution) -> tuple[Solution, int]:
    """Return the solutions (r, p c) of right-hand sides (p, r, c), and the passes over all blocks."""
    p, r, c = right.shape
    of_column = np.repeat(np.arange(p), c)
    product = BlockedProduct(system, [item for item in systems for _ in range(c)], ones, execution)
    precondition = None
    if preconditioner is not None:
        inverses = preconditioner.inverses(systems)

        def precondition(R: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return by_system(of_column[columns], R, lambda index, mask: inverses[index](R[:, mask]))

    solution = blocked_cg(product, right.transpose(1, 0, 2).reshape(r, p * c), precondition,
                       Stop(system.params.tol, system.params.max_iter))
    return solution, product.passes


def convergence(solution: Solution, p: int) -> JsonObject:
    """Return the iterations of each of p systems, the largest residual, and the number of unconverged columns."""
    return {"iterations": solution.iterations.reshape(p, -1).max(axis=1).tolist(),
            "max_residual": float(solution.residuals.max(initial=0.0)),
            "not_converged": int((~solution.converged).sum())}


def require_converged(evidence: JsonObject, params: SystemParams) -> None:
    """Raise NotConverged where a column is above its tolerance."""
    require(not evidence["not_converged"], error=NotConverged,
            what=f"{evidence['not_converged']} columns did not converge in {params.max_iter} iterations: the "
                 f"worst relative residual is {evidence['max_residual']:.2e}, tolerance {params.tol:.0e}",
            why="the coefficients do not solve the system",
            fix='use preconditioner "edges" with whitening, solver "nystrom-direct", a larger gamma_A, or raise '
                "max_iterations" if evidence["method"].startswith("nystrom") else
                'use solver "auto", "cg", or "pcg" with more landmarks, a larger gamma_A, or raise max_iterations')
