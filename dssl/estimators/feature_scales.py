"""How features are scaled where the user does not say and labels can tell: from 50 labels on.

The first candidate is "auto" (`graph/scaling.py`), which knows no labels. From 50 labels on, the error of the nearest
other labeled point judges all candidates: the best takes the place of the first if it is better by more than a doubt
that fades as labels grow, `PRIOR` times the squared standard error of the paired difference: 0.1 at a standard error of
0.05, next to nothing at 0.005.
"""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..execution.tasks import Execution
from ..graph.scaling import Scaling, fit_scalings
from ..graph.scaling_params import ScalingKind
from ..learners.target import Target
from ..storage.blocks import Rows, block_rng

DENSE: tuple[ScalingKind, ...] = ("none", "standardize", "unit_range", "unit_norm")
SPARSE: tuple[ScalingKind, ...] = ("none", "max_abs", "unit_norm")
LEAST_LABELS, MOST_JUDGED = 50, 3000
MOST_SEARCHED_BYTES = 1 << 23  # of labeled points in float64, among which the nearest are sought
PRIOR = 40.0  # a difference of 0.01 in favor of the first, known to 0.016
TILE = 512  # points whose distances to all others are held
SCALE_STREAM = 12  # of the seed


def choose_scale(rows: Rows, ids: Rows | None, target: Target, execution: Execution, seed: int,
                 categories: np.ndarray | None = None) -> tuple[Scaling, dict[str, Any]]:
    """Return the scaling of some rows (n, d), and what it was chosen by: `ranges`, and the nearest neighbors' errors.

    ids : numbers of the n rows, ascending; None for all. target : of these. categories : which columns text became,
    (d,) bool. At most `MOST_JUDGED` labeled points are judged, by their nearest among all that `MOST_SEARCHED_BYTES`
    hold in this process.
    """
    made = fit_scalings(rows, ids, ("auto", *(SPARSE if rows.is_sparse else DENSE)), execution, categories=categories)
    first = made["auto"].kind
    fitted = {**made, first: made["auto"]}
    candidates = [kind for kind in fitted if kind != "auto" or kind == first]
    evidence: dict[str, Any] = {"ranges": made["auto"].attributes["ranges"]}
    n_labels = len(target.labeled)
    if n_labels < LEAST_LABELS:
        return fitted[first], evidence
    most = max(MOST_JUDGED, MOST_SEARCHED_BYTES // (rows.row_bytes if rows.is_sparse else 8 * rows.shape[1]))
    searched = block_rng(seed, SCALE_STREAM).permutation(n_labels)[:most]
    places = target.labeled[searched]
    X, Y = rows.take(places if ids is None else ids.take(places)), target.indicators()[searched]
    unit = 1.0 if target.n_strata > 1 else max(float(Y.var(axis=0).sum()), np.finfo(float).tiny)
    errors = {kind: _nearest_errors(fitted[kind].transform(X), Y) / unit for kind in candidates
              if kind != "unit_norm" or not int(fitted[kind].attributes["zero_rows"])}
    evidence["nearest_neighbor_errors"] = {kind: float(own.mean()) for kind, own in errors.items()}
    best = min(errors, key=lambda kind: (float(errors[kind].mean()), kind != first))
    apart = errors[first] - errors[best]
    clear = float(apart.mean()) > PRIOR * float(apart.var()) / len(apart)
    return fitted[best if clear else first], evidence


def choosing_bytes(m: int, row_bytes: int, width: int) -> int:
    """Return what judging by m labeled rows of `row_bytes` bytes takes: scaled, in float64, and tiles of distances."""
    searched = min(m, max(MOST_JUDGED, MOST_SEARCHED_BYTES // (8 * width)))
    return searched * (2 * row_bytes + 24 * width + 16 * TILE) if m >= LEAST_LABELS else 0


def _nearest_errors(X: Any, Y: np.ndarray) -> np.ndarray:
    """Return half the squared difference of each of the first labels Y (l, c) from that of its nearest other point.

    Of at most `MOST_JUDGED`, shape (min(l, MOST_JUDGED),); X (l, d).
    """
    X = X.astype(np.float64)
    if not issparse(X):
        X -= X.mean(axis=0)
    lengths = np.asarray((X.multiply(X) if issparse(X) else X * X).sum(axis=1)).ravel()
    found = np.empty(min(len(Y), MOST_JUDGED))
    for start in range(0, len(found), TILE):
        stop = min(start + TILE, len(found))
        products = X[start:stop] @ X.T
        d = products.toarray() if issparse(products) else products
        d *= -2
        d += lengths
        d[np.arange(stop - start), np.arange(start, stop)] = np.inf
        found[start:stop] = ((Y[d.argmin(axis=1)] - Y[start:stop]) ** 2).sum(axis=1) / 2
        del products, d  # or the next tile would stand beside this one
    return found
