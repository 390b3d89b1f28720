"""How features are scaled where the user does not say: by their ranges, and by the labels once these can tell.

Columns whose ranges lie within a factor of ten are in one unit, as embeddings and pixels are, and stay as they are;
others are standardized. With enough labels, the leave-one-out error of the nearest labeled neighbor judges all
candidates, and the best takes the place of the first where it is better by more than two standard errors of their
paired difference.
"""

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from ..data.scaling import ScalingKind, ScalingParams, fit_scaling
from ..execution.tasks import Execution
from ..learners.target import Target
from ..storage.blocks import Rows, block_rng

DENSE: tuple[ScalingKind, ...] = ("none", "standardize", "unit_range", "unit_norm")
SPARSE: tuple[ScalingKind, ...] = ("none", "max_abs", "unit_norm")
LEAST_LABELS, MOST_JUDGED = 50, 3000
ONE_UNIT = 10.0  # the largest range of a column over the median one
SCALE_STREAM = 12  # of the seed


def choose_scale(rows: Rows, target: Target, execution: Execution, seed: int) -> tuple[ScalingKind, dict[str, Any]]:
    """Return the scaling of rows (n, d), and what it was chosen by: `ranges`, and the nearest neighbors' errors.

    Of at most `MOST_JUDGED` labeled points, which are held in this process.
    """
    candidates = SPARSE if rows.is_sparse else DENSE
    first, evidence = candidates[0], dict[str, Any]()
    if not rows.is_sparse:
        factor = fit_scaling(rows, None, ScalingParams(kind="unit_range"), execution).factor
        ranges = 1 / factor[factor > 0]
        evidence["ranges"] = float(ranges.max() / np.median(ranges)) if len(ranges) else 1.0
        first = "none" if evidence["ranges"] <= ONE_UNIT else "standardize"
    labeled = np.arange(len(target.labeled))
    if len(labeled) < LEAST_LABELS:
        return first, evidence
    if len(labeled) > MOST_JUDGED:
        labeled = np.sort(block_rng(seed, SCALE_STREAM).choice(labeled, MOST_JUDGED, replace=False))
    fitted = {kind: fit_scaling(rows, None, ScalingParams(kind=kind), execution) for kind in candidates}
    X, Y = rows.take(target.labeled[labeled]), target.indicators()[labeled]
    unit = 1.0 if target.n_strata > 1 else max(float(Y.var(axis=0).sum()), np.finfo(float).tiny)
    errors = {kind: _nearest_errors(fitted[kind].transform(X), Y) / unit for kind in candidates
              if kind != "unit_norm" or not int(fitted[kind].attributes["zero_rows"])}
    evidence["nearest_neighbor_errors"] = {kind: float(own.mean()) for kind, own in errors.items()}
    best = min(errors, key=lambda kind: (float(errors[kind].mean()), kind != first))
    apart = errors[first] - errors[best]
    clear = float(apart.mean()) > 2 * float(apart.std()) / np.sqrt(len(apart))
    return (best if clear else first), evidence


def _nearest_errors(X: Any, Y: np.ndarray) -> np.ndarray:
    """Return half the squared difference (l,) of each label Y (l, c) from that of its nearest other neighbor."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X, np.float64)
    found = np.empty(len(X))
    for start in range(0, len(X), 512):
        d = cdist(X[start:start + 512], X, "sqeuclidean")
        d[np.arange(len(d)), start + np.arange(len(d))] = np.inf
        found[start:start + 512] = ((Y[d.argmin(axis=1)] - Y[start:start + 512]) ** 2).sum(axis=1) / 2
    return found
