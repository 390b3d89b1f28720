"""Closed-form cross-validation of LapRLS: held-out values of all folds and penalties from one set of Gram matrices.

`f = Phi b + mean` is ridge regression on the training labels with penalty lambda_A in the kernel

    N = Phi_m (R + rho E)^-1 Phi_m' = X X',    rho = lambda_I / lambda_A,    E = Phi' E Phi

N does not depend on the fold if held-out points stay in the graph, unlabeled (else see `inductive.py`). Pairs of
penalties with the same rho share the features X (m, r), and one inverse serves all folds (`linear/gram.py`).
Whitened, R = I, and in the eigenbasis U of E all X are `Phi_m U (I + rho Lambda)^-1/2`; otherwise, and for few pairs,
`X = Phi_m C^-1'` with the Cholesky factor C of R + rho E.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ...base.errors import BudgetError, DataError, require
from ...execution.tasks import Execution
from ...storage.blocks import Arrays, PartWriter, Receipt
from ..linear.gram import EIGEN_FLOPS, held_out_ridge_of_features, ridge_flops
from .gram import GramSystem
from .params import LabelLines, SystemParams
from .penalties import Penalties, by_ratio, fold_norms
from .products import BlockedProblem, gram_bytes
from .system import NystromSystem


def label_feature_bytes(m: int, s: int) -> int:
    """Return the bytes of the features of m labels and of their kernel with s landmarks."""
    return 16 * m * s


@dataclass(frozen=True)
class LabelFeaturesTask:
    """Write `features` (m, r) float64 of the label lines of a run of blocks, in the order of their positions."""

    problem: BlockedProblem
    first: int  # block
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        features = self.problem.features()
        pieces = [np.empty((0, features.width))]
        for _, start, _, block in self.problem.blocks(self.first, self.last):
            if len(block["position"]):
                positions, inverse = np.unique(block["position"], return_inverse=True)
                Phi = features.of_block(features.block(self.problem.rows.take(start + positions)))
                pieces.append(Phi[inverse].astype(np.float64, copy=False))
        return out.write(features=np.concatenate(pieces))


def label_features(system: NystromSystem, execution: Execution) -> np.ndarray:
    """Return Phi_m (m, r), a row for each label line; raise BudgetError if it does not fit in half the budget."""
    m, half = len(system.lines.row), execution.memory_budget // 2
    needed = label_feature_bytes(m, system.s)
    require(needed <= half, f"{m:,} labels and {system.s} landmarks", error=BudgetError,
            why=f"the features of the labels take {needed:,} bytes, half the budget is {half:,}",
            fix=f"raise memory_budget to {2 * needed:,} bytes, or use fewer landmarks")
    parts, runs = execution.scratch(), system.problem.runs()
    execution.map([LabelFeaturesTask(system.problem, *run) for run in runs], parts)
    permuted = np.concatenate([parts.read(index)["features"] for index in range(len(runs))])
    parts.remove()
    features = np.empty_like(permuted)
    features[system.permutation] = permuted
    return features


USUAL_LAMBDAS = 2  # distinct lambda_A of folds whose sizes differ by one point
REFIT_ENTRY = 1000  # flops in the 25 ns that a refit takes for an entry of its matrix, beside the factor
MIN_PIVOT_RATIO = 1e-10  # of K_ss without whitening: below, features lose their digits


def closed_form_bytes(m: int, s: int) -> int:
    """Return the bytes of a task: five arrays of features, and five matrices m x m or s x s."""
    return 8 * (5 * m * s + 5 * min(m, s) ** 2)


def closed_form_flops(params: SystemParams, s: int, m: int, n_folds: int, n_pairs: int, budget: int) -> float | None:
    """Return the flops of all held-out values in closed form; None where folds are refitted.

    "auto" takes the closed form where it needs fewer flops than refits, or where the Gram matrices of all folds do not
    fit. If held-out points leave the graph, each fold has a kernel of its own. Raises BudgetError where the closed form
    is requested and does not fit.
    """
    if n_pairs == 0 or params.held_out == "refit" or params.solver in ("nystrom-pcg", "nystrom-cg"):
        return None
    needed, products = closed_form_bytes(m, s), n_pairs * (s**3 / 3 + m * s * s)
    features, k = min(EIGEN_FLOPS * s**3 + 2.0 * m * s * s, products), min(m, s)
    flops = features + n_pairs * (m * s * k + ridge_flops(k, m, n_folds, USUAL_LAMBDAS))
    if params.inductive:
        flops = n_folds * (features + n_pairs * (m * s * k + k**3 / 3 + REFIT_ENTRY * k * k))
    if params.held_out == "closed_form":
        require(needed <= budget, f"held_out=\"closed_form\" with {m:,} labels and {s:,} landmarks", error=BudgetError,
                why=f"it takes {needed:,} bytes, the budget is {budget:,}", fix='use "auto" or "refit"')
        return flops
    refits = n_pairs * n_folds * (s**3 / 3 + REFIT_ENTRY * s * s)
    sums = gram_bytes(s, 1 if params.inductive else n_folds + 1, points=True)
    fewer = flops <= refits or sums > budget
    return flops if needed <= budget and fewer else None


def closed_form_of(system: NystromSystem, held_out: Sequence[Penalties], budget: int) -> float | None:
    """Return `closed_form_flops` of the pairs `held_out`, whose folds are held out.

    Raises ParameterError where the closed form is requested and the basis is singular and not whitened.
    """
    params, lines = system.params, system.lines
    flops = closed_form_flops(params, system.s, len(lines.row), lines.n_held_out_folds, len(held_out), budget)
    if flops is None or system.T is not None or _is_regular(system.penalty()):
        return flops
    require(params.held_out != "closed_form", 'held_out="closed_form" without whitening',
            why=f"the kernel of the {system.s} landmarks is singular to the precision of floats",
            fix='use whitening "auto", or held_out "refit"')
    return None


def _is_regular(K: np.ndarray) -> bool:
    try:
        pivots = np.diagonal(np.linalg.cholesky(K))
    except np.linalg.LinAlgError:
        return False
    return bool(pivots.min() ** 2 >= MIN_PIVOT_RATIO * pivots.max() ** 2)


@dataclass(frozen=True)
class ClosedFormTask:
    """Write the held-out `values` (p, m, c) of the labeled points for p pairs of penalties of one ratio.

    shared : `weight`, `target` and features `Phi` (m, r) of the labels, and the arrays of `ridge_arrays`. folds :
    `fold` of each label. lambda_A : (p, F) of each pair and fold. Memory: `closed_form_bytes`.
    """

    shared: Arrays
    folds: Arrays
    ratio: float
    lambda_A: np.ndarray
    centered: bool

    def __call__(self, out: PartWriter) -> Receipt:
        shared, fold_of = self.shared.load(), self.folds.load()["fold"]
        X = ridge_features(shared, self.ratio)
        folds = [np.flatnonzero(fold_of == fold) for fold in range(self.lambda_A.shape[1])]
        return out.write(values=held_out_ridge_of_features(X, shared["target"], folds, self.lambda_A, shared["weight"],
                                                           self.centered))


def ridge_features(shared: dict[str, np.ndarray], ratio: float) -> np.ndarray:
    """Return X (m, r) for a ratio of penalties, from the arrays of `ridge_arrays`."""
    Phi = shared["Phi"]
    if "spectrum" in shared:
        return Phi / np.sqrt(1 + ratio * shared["spectrum"])
    if ratio == 0 and "penalty" not in shared:
        return Phi
    A = shared["penalty"].copy() if "penalty" in shared else np.eye(Phi.shape[1])
    if ratio:
        A += ratio * shared["energy"]
    try:
        return solve_triangular(cholesky(A, lower=True, check_finite=False), Phi.T, lower=True, check_finite=False).T
    except np.linalg.LinAlgError:  # rounding of E times a large ratio is below -1: clip the eigenvalues at 0
        values, vectors = np.linalg.eigh(A)
        return Phi @ vectors / np.sqrt(np.maximum(values, np.finfo(float).eps * values[-1]))


def closed_form_of_features(Phi: np.ndarray, gram: GramSystem,
                            repetitions: Sequence[tuple[LabelLines, Sequence[Penalties]]],
                            execution: Execution) -> Iterator[np.ndarray]:
    """Yield the held-out values (m, 1, c) of the label lines for each pair of penalties, repetition by repetition.

    Phi : the features (m, r) of the label lines. gram : of all labels. repetitions : the same labels with other folds,
    and the systems of each pair, one for each fold 0 to F - 1. One map, with a task for each ratio of penalties.
    """
    require(bool(np.isfinite(Phi).all()), f"the features of {len(Phi)} labels hold NaN or infinite values",
            error=DataError, why="the kernel is not finite at some points", fix="drop or impute points that are not "
            "finite; scale the features if the kernel overflows")
    pairs = [[item.whole for item in systems[::lines.n_held_out_folds]] for lines, systems in repetitions]
    groups = [by_ratio(of_one) for of_one in pairs]
    ratios = {key for of_one in groups for key in of_one}
    shared = {control: execution.share(**_shared(gram, repetitions[0][0], Phi, control,
                                                 sum(key[0] == control for key in ratios)))
              for control in {control for control, _ in ratios}}
    tasks: list[ClosedFormTask] = []
    location: dict[tuple[int, int], tuple[int, int]] = {}  # part and row of a repetition and a pair
    for number, (lines, _) in enumerate(repetitions):
        folds = execution.share(fold=lines.fold)
        for (control, ratio), members in groups[number].items():
            location.update({(number, index): (len(tasks), row) for row, index in enumerate(members)})
            lambda_A = fold_norms([pairs[number][index] for index in members], lines.n_held_out_folds)
            tasks.append(ClosedFormTask(shared[control], folds, ratio, lambda_A, gram.fit_intercept))
    parts = execution.scratch()
    execution.map(tasks, parts)
    for number, of_one in enumerate(pairs):
        for index in range(len(of_one)):
            part, row = location[number, index]
            yield parts.read(part)["values"][row][:, None]
    parts.remove()


def _shared(gram: GramSystem, lines: LabelLines, Phi: np.ndarray, control: bool,
            n_ratios: int) -> dict[str, np.ndarray]:
    """Return the arrays of `ClosedFormTask` for `n_ratios` ratios, of the graph or of the control."""
    R = gram.penalty() if gram.T is None else None
    return {"weight": lines.weight, "target": lines.target} | ridge_arrays(Phi, R, gram.energy(control), n_ratios)


def ridge_arrays(Phi: np.ndarray, R: np.ndarray | None, E: np.ndarray | None, n_ratios: int) -> dict[str, np.ndarray]:
    """Return the arrays of `ridge_features` from features (m, r), R (None for I) and E (None for 0).

    `Phi` (m, r), in the eigenbasis of E with its `spectrum` (r,) if there are many ratios, or else with `energy` (r, r)
    and, where R is not I, `penalty` (r, r).
    """
    m, r = Phi.shape
    if R is not None:
        return {"Phi": Phi, "penalty": R, **({} if E is None else {"energy": E})}
    if E is None:
        return {"Phi": Phi}
    if n_ratios * (r**3 / 3 + m * r * r) <= EIGEN_FLOPS * r**3 + 2.0 * m * r * r:
        return {"Phi": Phi, "energy": E}
    spectrum, U = np.linalg.eigh(E)
    return {"Phi": Phi @ U, "spectrum": np.maximum(spectrum, 0.0)}
