"""Cross-validation of LapRLS from Gram matrices of all labels: every fold and pair of penalties without a refit.

Without a fold, `f = Phi b + mean` is ridge regression on the labels that are kept, with penalty lambda_A, in the kernel

    N = Phi_m (R + rho E)^-1 Phi_m' = X X',    rho = lambda_I / lambda_A,    E = Phi' E Phi

which does not depend on the fold where points that are held out stay in the graph, unlabeled (`inductive.py` is of
those that leave it), and rho is gamma_I / gamma_A over n^2. So pairs of one rho share their features X (m, r), and all
folds are blocks of one inverse (`learners/held_out/closed_form.py`). Whitened, R = I, and in the eigenbasis U of E all
X are `Phi_m U (I + rho Lambda)^-1/2`; otherwise, and for few pairs, `X = Phi_m C^-1'` by a Cholesky factor C of R + rho
E.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ...base.errors import BudgetError, DataError, require
from ...execution.tasks import Execution
from ...storage.blocks import Arrays, PartWriter, Receipt
from ..held_out.closed_form import EIGEN_FLOPS, held_out_ridge_of_features, ridge_flops
from .gram import GramSystem
from .params import LabelLines, SystemParams
from .penalties import Penalties, by_ratio, norms_without
from .products import Landmarked, gram_bytes
from .system import NystromSystem


def label_feature_bytes(m: int, s: int) -> int:
    """Return the bytes of the features of m labels, and of their kernels while these are made."""
    return 16 * m * s


@dataclass(frozen=True)
class LabelFeaturesTask:
    """Write `features` (m, r) float64 of the label lines of a run of blocks, in the order of their places."""

    problem: Landmarked
    first: int  # block
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        features = self.problem.features()
        pieces = [np.empty((0, features.width))]
        for _, start, _, block in self.problem.blocks(self.first, self.last):
            if len(block["position"]):
                positions, place = np.unique(block["position"], return_inverse=True)
                Phi = features.of_block(features.block(self.problem.rows.take(start + positions)))
                pieces.append(Phi[place].astype(np.float64, copy=False))
        return out.write(features=np.concatenate(pieces))


def label_features(system: NystromSystem, execution: Execution) -> np.ndarray:
    """Return Phi_m (m, r), a row a label line, in their order.

    Raises BudgetError: it does not fit in half the budget.
    """
    m, half = len(system.lines.row), execution.memory_budget // 2
    needed = label_feature_bytes(m, system.s)
    require(needed <= half, f"{m:,} labels and {system.s} landmarks", error=BudgetError,
            why=f"the features of the labels take {needed:,} bytes, half the budget is {half:,}",
            fix=f"raise memory_budget to {2 * needed:,} bytes, or use fewer landmarks")
    parts, runs = execution.scratch(), system.problem.runs()
    execution.map([LabelFeaturesTask(system.problem, *run) for run in runs], parts)
    by_place = np.concatenate([parts.read(index)["features"] for index in range(len(runs))])
    parts.remove()
    features = np.empty_like(by_place)
    features[system.by_place] = by_place
    return features


USUAL_LAMBDAS = 2  # distinct weights that folds leave, of folds whose sizes differ by one point
REFIT_ENTRY = 1000  # flops in the time that a refit takes an entry of its matrix, beside its factor: 25 ns
LEAST_PIVOT = 1e-10  # of K_ss without whitening, as a share of the largest: below, features lose their digits


def closed_form_bytes(m: int, s: int) -> int:
    """Return the bytes of a task: features, scaled and rooted ones; m x m or s x s matrices, an inverse among them."""
    return 8 * (5 * m * s + 5 * min(m, s) ** 2)


def closed_form_flops(params: SystemParams, s: int, m: int, n_folds: int, n_pairs: int, budget: int) -> float | None:
    """Return the flops of all held-out values in closed form where they are found that way; None for refits.

    "auto" takes the closed form where it takes fewer flops than refits from the Gram matrices of each fold, or where
    these do not fit: with many more labels than landmarks and few folds, refits do. Where points that are held out
    leave the graph, each fold has a kernel of its own: all is done as often as there are folds.

    Raises BudgetError: the closed form is asked for, and does not fit.
    """
    if n_pairs == 0 or params.held_out == "refit" or params.solver in ("nystrom-pcg", "nystrom-cg"):
        return None
    needed, products = closed_form_bytes(m, s), n_pairs * (s**3 / 3 + m * s * s)
    features, k = min(EIGEN_FLOPS * s**3 + 2.0 * m * s * s, products), min(m, s)
    flops = features + n_pairs * (m * s * k + ridge_flops(k, m, n_folds, USUAL_LAMBDAS, 1))
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


def closed_form_of(system: NystromSystem, held: Sequence[Penalties], budget: int) -> float | None:
    """Return the flops of `closed_form_flops` of pairs of penalties of which folds are held out; None for refits.

    Raises ParameterError: the closed form is asked for, and the basis is not whitened and singular.
    """
    params, lines = system.params, system.lines
    flops = closed_form_flops(params, system.s, len(lines.row), lines.n_held, len(held), budget)
    if flops is None or system.T is not None or _is_regular(system.K_ss):
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
    return bool(pivots.min() ** 2 >= LEAST_PIVOT * pivots.max() ** 2)


@dataclass(frozen=True)
class ClosedFormTask:
    """Write `values` (p, m, c) at the labeled points of p pairs of penalties of one ratio, each without its fold.

    shared : of the labels `fold`, `weight`, `target` and features `Phi` (m, r), in the eigenbasis of E if there is its
    `spectrum` (r,), or else with `energy` (r, r), if any, and `penalty` (r, r), where R is not I.
    lambda_A : (p, F) of each pair and fold. Memory: `closed_form_bytes`.
    """

    shared: Arrays
    ratio: float
    lambda_A: np.ndarray
    centered: bool

    def __call__(self, out: PartWriter) -> Receipt:
        shared = self.shared.load()
        folds = [np.flatnonzero(shared["fold"] == fold) for fold in range(self.lambda_A.shape[1])]
        return out.write(values=held_out_ridge_of_features(
            features_of(shared, self.ratio), shared["target"], folds, self.lambda_A, shared["weight"], self.centered))


def features_of(shared: dict[str, np.ndarray], ratio: float) -> np.ndarray:
    """Return X (m, r) of a ratio of penalties, from the arrays of `ClosedFormTask`."""
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
    except np.linalg.LinAlgError:  # rounding of E, times a large ratio, is below -1: eigenvalues are cut off at 0
        values, vectors = np.linalg.eigh(A)
        return Phi @ vectors / np.sqrt(np.maximum(values, np.finfo(float).eps * values[-1]))


def closed_form_values(system: NystromSystem, gram: GramSystem, systems: Sequence[Penalties],
                       execution: Execution) -> Iterator[np.ndarray]:
    """Yield the values (m, 1, c) of each pair of penalties at the label lines, each by the function without its fold.

    systems : F of each pair, held folds 0 to F - 1 in order. gram : of all labels, none held out. One pass over the
    labeled points, and a task a ratio of penalties.
    """
    yield from closed_form_of_features(label_features(system, execution), system.lines, gram, systems, execution)


def closed_form_of_features(Phi: np.ndarray, lines: LabelLines, gram: GramSystem, systems: Sequence[Penalties],
                            execution: Execution) -> Iterator[np.ndarray]:
    """Yield the same from the features (m, r) of the label lines."""
    pairs = [item.whole for item in systems[::lines.n_held]]
    require(bool(np.isfinite(Phi).all()), f"the features of {len(Phi)} labels hold NaN or infinite values",
            error=DataError, why="the kernel is no number at some points", fix="drop or impute points that are not "
            "finite; scale the features if the kernel overflows")
    groups, parts = by_ratio(pairs), execution.scratch()
    shared = {control: execution.share(**_shared(gram, lines, Phi, control, sum(key[0] == control for key in groups)))
              for control in {control for control, _ in groups}}
    execution.map([
        ClosedFormTask(shared[control], ratio, norms_without([pairs[index] for index in members], lines.n_held),
                       gram.fit_intercept) for (control, ratio), members in groups.items()], parts)
    place = {index: (part, row) for part, members in enumerate(groups.values()) for row, index in enumerate(members)}
    for index in range(len(pairs)):
        part, row = place[index]
        yield parts.read(part)["values"][row][:, None]
    parts.remove()


def _shared(gram: GramSystem, lines: LabelLines, Phi: np.ndarray, control: bool,
            n_ratios: int) -> dict[str, np.ndarray]:
    """Return the arrays of `ClosedFormTask` for so many ratios, of the graph or of the control."""
    arrays = {"fold": lines.fold, "weight": lines.weight, "target": lines.target}
    R = gram.K_ss if gram.T is None else None
    return arrays | ridge_arrays(Phi, R, gram.energy(control), n_ratios)


def ridge_arrays(Phi: np.ndarray, R: np.ndarray | None, E: np.ndarray | None, n_ratios: int) -> dict[str, np.ndarray]:
    """Return what `features_of` takes for so many ratios, of features (m, r), R (None for I) and E (None for 0)."""
    m, r = Phi.shape
    if R is not None:
        return {"Phi": Phi, "penalty": R, **({} if E is None else {"energy": E})}
    if E is None:
        return {"Phi": Phi}
    if n_ratios * (r**3 / 3 + m * r * r) <= EIGEN_FLOPS * r**3 + 2.0 * m * r * r:
        return {"Phi": Phi, "energy": E}
    spectrum, U = np.linalg.eigh(E)
    return {"Phi": Phi @ U, "spectrum": np.maximum(spectrum, 0.0)}
