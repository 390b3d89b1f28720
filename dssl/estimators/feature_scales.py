"""Select the scaling of features by the columns and by the labels.

The first candidate is "auto" (`data/scaling/scaling.py`), which ignores labels. For each scaling the supervised family
of kernels (`learners/kernel_family.py`) has sums L_m of squared leave-one-out residuals, and the scaling has the loss

    E = -2 s^2 log mean_m exp(-L_m / (2 s^2))

with s as in `learners/average.py`, times the share of labels after the first of their class, since leave-one-out says
nothing of the first. Another scaling replaces the first if its E / s^2 is lower by more than its `PRIOR`, or by
anything if some of the columns in one unit are narrow beside the others (`Reaches.narrow`). With these priors no
scaling was worse than the first by more than one percentage point of error on 20 diverse data sets
(`tests/benchmarks/scales.py`).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..data.scaling.scaling import Scaling, ScalingKind, fit_scalings
from ..execution.tasks import Execution
from ..graph.equal_rows import rows_differ
from ..learners.kernel_family import KERNELS, KernelMembers
from ..learners.target.target import Target
from ..storage.blocks import Rows, block_rng
from ..storage.csr import as_rows

DENSE: tuple[ScalingKind, ...] = ("none", "standardize", "unit_range")
SPARSE: tuple[ScalingKind, ...] = ("none", "max_abs", "unit_norm")
MAX_LABELS = 300  # of the supervised family
SAMPLED = 300  # points for its bandwidths
PRIOR: dict[ScalingKind, float] = {"none": 3.0, "standardize": 1.0, "unit_range": 0.5, "max_abs": 1.0, "unit_norm": 1.0}
SCALE_STREAM = 12  # of the seed


def choose_scale(rows: Rows, ids: Rows | None, target: Target, execution: Execution, random_state: int,
                 categories: np.ndarray | None = None) -> tuple[Scaling, dict[str, Any]]:
    """Return the scaling of rows (n, d), and the evidence: `ranges`, and `label_losses`, E for each label.

    ids : ascending numbers of the n rows; None for all. target : of these. categories : (d,) bool, the columns that
    encode text. At most `MAX_LABELS` labels are used, in this process.
    """
    made = fit_scalings(rows, ids, ("auto", *(SPARSE if rows.is_sparse else DENSE)), execution, categories=categories)
    first = made["auto"].kind
    fitted = {**made, first: made["auto"]}
    evidence: dict[str, Any] = {"ranges": made["auto"].attributes["ranges"]}
    sample = np.sort(block_rng(random_state, SCALE_STREAM).permutation(len(target.labeled))[:MAX_LABELS])
    labels = target.in_units().take(sample)
    n_labels = len(labels.labeled)
    usable_share = 1 - target.n_strata / n_labels
    if usable_share <= 0 or n_labels < 2:
        return fitted[first], evidence
    n = len(rows) if ids is None else len(ids)
    positions = np.concatenate([labels.labeled, np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.int64)])
    X = rows.take(positions if ids is None else ids.take(positions))
    local, losses = replace(labels, labeled=np.arange(n_labels)), dict[ScalingKind, np.ndarray]()
    for kind in (each for each in fitted if each != "auto" or each == first):
        Z = fitted[kind].transform(X)
        if rows_differ(Z, Z[np.zeros(len(positions), int)]).any() and not (
                kind == "unit_norm" and int(fitted[kind].attributes["zero_rows"])):
            family = KernelMembers.of(as_rows(Z), np.arange(n_labels, len(positions)), local, None, random_state)
            losses[kind] = np.array([float(((member.held_out - local.indicators()) ** 2).sum())
                                     for member in family.members])
    if first not in losses:
        return fitted[first], evidence
    unit = 1.0 if target.n_strata > 1 else min(float(loss.min()) for loss in losses.values()) / n_labels
    energies = {kind: _energy(loss, max(unit, np.finfo(float).tiny)) for kind, loss in losses.items()}
    evidence["label_losses"] = {kind: energy / n_labels for kind, energy in energies.items()}
    narrow = bool(made["auto"].attributes.get("narrow_columns"))

    posterior = {kind: usable_share * energy + (0.0 if kind == first or narrow else PRIOR[kind] * unit)
                 for kind, energy in energies.items()}
    best = min(posterior, key=lambda kind: posterior[kind])
    return fitted[first if posterior[first] <= posterior[best] else best], evidence


def _energy(losses: np.ndarray, unit: float) -> float:
    """Return E of the losses (m,) of the members of a family; unit : s^2."""
    lowest = float(losses.min())
    return lowest - 2 * unit * float(np.log(np.exp(-(losses - lowest) / (2 * unit)).mean()))


def choosing_bytes(m: int, row_bytes: int, width: int) -> int:
    """Return the bytes of the selection with m labeled rows of `row_bytes` bytes: rows, scaled rows and kernels."""
    n_labels = min(m, MAX_LABELS)
    points = n_labels + SAMPLED
    return points * (2 * row_bytes + 24 * width) + 8 * (points**2 + len(KERNELS) * 4 * n_labels * n_labels)
