"""Systems of landmarks by conjugate gradients, many columns at once, on products that share each kernel block.

What preconditions them stands for the labels' and the graph's Gram matrices:

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, lu_factor, lu_solve

from ...base.errors import NotConverged, require
from ...execution.tasks import Execution, sums
from ...graph.energy.sampled_edges import sampled_edges
from ...solvers.blocked_cg import blocked_cg
from ...solvers.columns import by_system, factor_raised
from ...solvers.solve import Solution
from ...solvers.solver_params import Stop
from ...storage.blocks import Arrays, PartWriter, Receipt, block_rng, row_ranges
from .gram import gram_matrices
from .params import Functions, SystemParams
from .penalties import Penalties
from .products import Landmarked, SystemProductTask, clear_cache
from .system import NystromSystem

STREAMS = {"labels": 11, "edges": 12, "points": 13}  # random, of what is sampled
SUM_NAMES = {"labels": "J", "edges": "E", "points": "control"}
MOST_SHARES = 8  # of a sample: each has sums of its own


@dataclass(frozen=True)
class DrawTask:
    """Draw a sample of "labels", "edges" or "points": write `w` and what it weighs, `k_i`, or `c_i k_i - c_j k_j`.

    `i`, `j` are places among the ordered vertices. Of "edges" the blocks are read one after the
    other, twice.
    """

    problem: Landmarked
    kind: str
    count: int
    random_state: int

    def __call__(self, out: PartWriter) -> Receipt:
        problem, rng = self.problem, block_rng(self.random_state, STREAMS[self.kind])
        if self.kind == "edges":
            blocks = problem.energy
            edges = vars(sampled_edges(lambda: (blocks.edges(index) for index in range(len(blocks.ranges))),
                                       self.count, rng))
        elif self.kind == "labels":
            lines = problem.labels.load()
            chosen = drawn(len(lines["position"]), self.count, rng)
            weight = lines["weight"][chosen]
            edges = {"i": lines["position"][chosen], "w": weight * (lines["weight"].sum() / weight.sum())}
        else:
            chosen = drawn(problem.energy.n, self.count, rng)
            edges = {"i": chosen, "w": np.ones(len(chosen))}
        return {**out.write(**edges), "count": len(edges["w"])}


def drawn(n: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return `count` of the numbers below n, ascending; all of them where there are no more."""
    return np.arange(n) if n <= count else np.sort(rng.choice(n, count, replace=False))


@dataclass(frozen=True)
class SampleTask:
    """Write this share of a sample's `matrix` (r, r), `sum w x x'`, and `vector` (r,), `sum w^1/2 x`, by chunks."""

    problem: Landmarked
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
    """Return into how many shares a sample is dealt: as many as have sums that fit in the budget at once, 2 to 8."""
    return int(np.clip(budget // (8 * s * s), 2, MOST_SHARES))


def sampled_sums(system: NystromSystem, most_of: Mapping[str, int],
                 execution: Execution) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return J^ and E^ of sampled "labels" and "edges", and `control` of sampled "points", (r, r); and their counts.

    most_of : the kinds that are asked for, each with how many are sampled at most; all of a kind are no sample.
    The control is `a N^ + b u^ u^'`, with N^ and u^ the sums of k k' and of k over the sample times v over its size: of
    one sample, so that it is positive semi-definite like the mean that it stands for.
    """
    problem, budget, draws = system.problem, execution.memory_budget, execution.scratch()
    # Rows that a task evaluates at a time: kernels of both ends of an edge and what they turn into.
    height = max(64, budget // 4 // (32 * system.s + 2 * problem.rows.row_bytes))
    most = sample_shares(system.s, budget)
    tasks = [DrawTask(problem, kind, count, system.params.random_state) for kind, count in most_of.items()]
    counts = {kind: receipt["count"] for kind, receipt in zip(most_of, execution.map(tasks, draws), strict=True)}
    by_name = {}
    for number, (kind, count) in enumerate(counts.items()):
        shares = row_ranges(count, max(1, -(-count // most))) if count else [(0, 0)]
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
    printed: bool  # as in the paper, which factors by LU

    def matrix(self, system: Penalties) -> np.ndarray:
        """Return the matrix that stands for a system's."""
        P = self.J + system.lambda_A * self.R
        graph = self.control if system.control else self.E
        return P if graph is None else P + system.lambda_I * graph

    def inverse(self, system: Penalties, features: np.ndarray,
                weight: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the product of columns with the inverse for labels of these features (m, r) and weights (m,)."""
        scaled = features[weight > 0] * np.sqrt(weight[weight > 0])[:, None]
        P = replace(self, J=scaled.T @ scaled).matrix(system)
        return partial(cho_solve, factor_raised((P + P.T) / 2), check_finite=False)

    def inverses(self, systems: Sequence[Penalties]) -> list[Callable[[np.ndarray], np.ndarray]]:
        """Return the products of columns with the inverse, for each system; folds share those of their penalties."""
        made: dict[Penalties, Callable[[np.ndarray], np.ndarray]] = {}
        for system in systems:
            if system.whole not in made:
                P = self.matrix(system.whole)  # J^ too is of all labels
                made[system.whole] = partial(lu_solve, lu_factor(P, check_finite=False), check_finite=False) \
                    if self.printed else partial(cho_solve, factor_raised(P), check_finite=False)
        return [made[system.whole] for system in systems]


def printed_sums(system: NystromSystem, takes_labels: bool) -> dict[str, np.ndarray]:
    """Return E^ of the paper's (5) and (6), and J^ of (6) unless `takes_labels`, in the basis of the system.

    Raises ParameterError: the landmarks are no points, so that there are no weights between them.
    """
    graph = system.blocks.nnz > 0
    require(not graph or system.places is not None, f"preconditioner={system.params.preconditioner!r} with landmarks "
            "that are no points", why="it needs the graph's weights between landmarks",
            fix='use "edges", or uniform landmarks')
    v, s, K = system.blocks.n, system.s, system.K_ss
    printed = {} if takes_labels else {"J": _in_basis(system, system.lines.weight.sum() / s * (K @ K))}
    if graph:
        assert system.places is not None
        printed["E"] = _in_basis(system, (v / s) ** 2 * (K @ (system.blocks.submatrix(system.places) @ K)))
    return printed


def _in_basis(system: NystromSystem, A: np.ndarray) -> np.ndarray:
    product = A if system.T is None else system.T.T @ A @ system.T
    return (product + product.T) / 2


def make_preconditioner(system: NystromSystem, systems: Sequence[Penalties],
                        execution: Execution) -> tuple[Preconditioner, dict[str, Any]]:
    """Return the preconditioner that the parameters name, and what is known of it (JSON).

    The control of the graph is sampled whatever the name is.
    """
    which, m, most = system.params.preconditioner, len(system.lines.row), system.params.edges * system.s
    if which == "paper":
        which = "paper-5" if m <= np.sqrt(system.blocks.n) else "paper-6"
    most_of: dict[str, int] = {}
    if which in ("edges", "paper-5"):  # (5) takes all labels
        most_of["labels"] = most if which == "edges" else m
    if which == "edges" and any(item.has_graph for item in systems):
        most_of["edges"] = most
    if any(item.has_control for item in systems):
        most_of["points"] = most
    sums, counts = sampled_sums(system, most_of, execution)
    if which != "edges":
        sums |= printed_sums(system, takes_labels="J" in sums)
    if "E" not in sums:
        sums["E"] = np.zeros((system.r, system.r))
    printed = which != "edges" and system.T is None
    evidence = {"preconditioner": system.params.preconditioner, "sampled_edges": counts.get("edges", 0)}
    return Preconditioner(sums["J"], sums["E"], sums.get("control"), system.penalty(), printed), evidence


@dataclass
class BlockedProduct:
    """The product of columns with their systems, over all blocks of points, by tasks."""

    system: NystromSystem
    penalties: Sequence[Penalties]  # of each column
    ones: np.ndarray  # Phi' 1 (r,)
    execution: Execution
    curvature: np.ndarray | None = None  # of each label line in the order of the blocks and column, for its weight
    passes: int = 0

    def __post_init__(self) -> None:
        a, b = self.system.blocks.relabeled_mean
        self.lambda_A, self.energy, self.points, self.rank_one = np.array([
            (each.lambda_A, each.lambda_I * each.has_graph, each.lambda_I * a * each.has_control,
             each.lambda_I * b * each.has_control) for each in self.penalties]).T
        self.held = np.array([each.held for each in self.penalties])
        self.keep = self.execution.memory_budget // 2 * self.execution.tasks_per_process

    def __call__(self, P: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the products (r, u) of P (r, u) with the systems of these columns (u,)."""
        self.passes += 1
        execution, system, given = self.execution, self.system, self.execution.scratch()
        weights = {"held": self.held[columns]} if self.curvature is None else {"curvature": self.curvature[:, columns]}
        given.write(0, {"P": system.lift(P), "energy": self.energy[columns], "points": self.points[columns], **weights})
        total = system.lower(execution.reduce(sums([
            SystemProductTask(system.problem, given.arrays(0), first, last, self.keep, index)
            for index, (first, last) in enumerate(system.problem.runs())]))["total"])
        given.remove()
        total += self.lambda_A[columns] * (system.penalty() @ P if system.T is None else P)
        if self.rank_one[columns].any():
            total += self.rank_one[columns] * np.outer(self.ones, self.ones @ P)
        return total


def solve_by_products(system: NystromSystem, systems: Sequence[Penalties], execution: Execution, *,
                      preconditioned: bool, required: bool = True) -> Functions:
    """Return the functions of all systems by conjugate gradients: one run, or one for as many factors as fit at once.

    Raises NotConverged: a column ended above the tolerance, and that it does not is `required`.
    """
    params = system.params
    moments = gram_matrices(system, execution, energy=False, labels=False,
                            ones=any(item.has_control for item in systems))
    right = system.right_sides(moments["moments"], systems)
    b, made, most, passes = np.empty_like(right), None, len(systems), 0
    evidence: dict[str, Any] = {"preconditioner": "none"}
    if preconditioned and params.preconditioner != "none":
        made, evidence = make_preconditioner(system, systems, execution)
        most = factors_that_fit(system.r, execution.memory_budget)
    facts: dict[str, Any] = {"iterations": [0] * len(systems), "max_residual": 0.0, "not_converged": 0}
    try:
        for chosen in groups_of(systems, most):
            solution, own_passes = _iterate(system, [systems[index] for index in chosen], right[chosen],
                                            moments["sums"], made, execution)
            b[chosen] = solution.value.reshape(system.r, len(chosen), -1).transpose(1, 0, 2)
            passes += own_passes
            converged = convergence(solution, len(chosen))
            for index, iterations in zip(chosen, converged["iterations"], strict=True):
                facts["iterations"][index] = iterations
            facts["max_residual"] = max(facts["max_residual"], converged["max_residual"])
            facts["not_converged"] += converged["not_converged"]
    finally:
        clear_cache()
        execution.ask_workers(clear_cache)
    evidence |= {"method": "nystrom-pcg" if preconditioned else "nystrom-cg", "passes": passes, **facts}
    if required:
        require_converged(evidence, params)
    return system.functions(b, systems, evidence)


def factors_that_fit(r: int, budget: int) -> int:
    """Return how many factors of a preconditioner (r, r) are held at once: those that fit in half the budget, or 1."""
    return max(1, budget // 2 // (8 * r * r))


def groups_of(systems: Sequence[Penalties], most: int) -> list[list[int]]:
    """Return the numbers of the systems in groups of at most `most` penalties each, in order."""
    number = {key: index // most for index, key in enumerate(dict.fromkeys(item.whole for item in systems))}
    groups: list[list[int]] = [[] for _ in range(1 + max(number.values(), default=-1))]
    for index, item in enumerate(systems):
        groups[number[item.whole]].append(index)
    return groups


def _iterate(system: NystromSystem, systems: Sequence[Penalties], right: np.ndarray, ones: np.ndarray,
             made: Preconditioner | None, execution: Execution) -> tuple[Solution, int]:
    """Return the solutions (r, p c) of right-hand sides (p, r, c), and the passes over all blocks."""
    p, r, c = right.shape
    of_column = np.repeat(np.arange(p), c)
    product = BlockedProduct(system, [item for item in systems for _ in range(c)], ones, execution)
    precondition = None
    if made is not None:
        inverses = made.inverses(systems)

        def precondition(R: np.ndarray, columns: np.ndarray) -> np.ndarray:
            return by_system(of_column[columns], R, lambda index, mine: inverses[index](R[:, mine]))

    solution = blocked_cg(product, right.transpose(1, 0, 2).reshape(r, p * c), precondition,
                       Stop(system.params.tol, system.params.max_iter))
    return solution, product.passes


def convergence(solution: Solution, p: int) -> dict[str, Any]:
    """Return how well the columns of p systems were solved (JSON)."""
    return {"iterations": solution.iterations.reshape(p, -1).max(axis=1).tolist(),
            "max_residual": float(solution.residuals.max(initial=0.0)),
            "not_converged": int((~solution.converged).sum())}


def require_converged(evidence: dict[str, Any], params: SystemParams) -> None:
    """Raise NotConverged where a column is above its tolerance."""
    require(not evidence["not_converged"], error=NotConverged,
            what=f"{evidence['not_converged']} columns did not converge in {params.max_iter} iterations: the "
                 f"worst relative residual is {evidence['max_residual']:.2e}, tolerance {params.tol:.0e}",
            why="coefficients that do not solve the system are no estimate of anything",
            fix='use preconditioner "edges" with whitening, solver "nystrom-direct", a larger gamma_A, or raise '
                "max_iterations" if evidence["method"].startswith("nystrom") else
                'use solver "auto", "cg", or "pcg" with more landmarks, a larger gamma_A, or raise max_iterations')
