"""How features are scaled where the user does not say: what the columns say, and what the labels say of each scale.

The first candidate is "auto" (`data/scaling/scaling.py`), which knows no labels. Scales are weighed as kernels are
(`learners/average.py`): with each, the family of kernels on the labels alone (`learners/kernel_family.py`) has squared
leave-one-out residuals, which sum to L_m of a member, and the scale has the loss

    E = -2 s^2 log mean_m exp(-L_m / (2 s^2))

with s as there. Another scale takes the place of the first where E / s^2 is lower by more than its `PRIOR`; where some
of the columns in one unit are narrow beside the others (`Reaches.narrow`), by anything. E counts as much as the share
of labels that are not the first of their class, of which leave-one-out says nothing. The priors are those with which
no scale was worse than the first by more than a point of error on 20 sets of unlike kinds
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
MOST_JUDGED = 300  # labels
SAMPLED = 300  # points, from which bandwidths follow
PRIOR: dict[ScalingKind, float] = {"none": 3.0, "standardize": 1.0, "unit_range": 0.5, "max_abs": 1.0, "unit_norm": 1.0}
SCALE_STREAM = 12  # of the seed


def choose_scale(rows: Rows, ids: Rows | None, target: Target, execution: Execution, random_state: int,
                 categories: np.ndarray | None = None) -> tuple[Scaling, dict[str, Any]]:
    """Return the scaling of some rows (n, d), and what it was chosen by: `ranges`, and the `label_losses` E a label.

    ids : numbers of the n rows, ascending; None for all. target : of these. categories : which columns text became,
    (d,) bool. At most `MOST_JUDGED` labels are judged, in this process.
    """
    made = fit_scalings(rows, ids, ("auto", *(SPARSE if rows.is_sparse else DENSE)), execution, categories=categories)
    first = made["auto"].kind
    fitted = {**made, first: made["auto"]}
    evidence: dict[str, Any] = {"ranges": made["auto"].attributes["ranges"]}
    drawn = np.sort(block_rng(random_state, SCALE_STREAM).permutation(len(target.labeled))[:MOST_JUDGED])
    judged = target.in_units().take(drawn)
    n_labels = len(judged.labeled)
    trusted = 1 - target.n_strata / n_labels
    if trusted <= 0 or n_labels < 2:
        return fitted[first], evidence
    n = len(rows) if ids is None else len(ids)
    places = np.concatenate([judged.labeled, np.linspace(0, n - 1, min(n, SAMPLED)).astype(np.int64)])
    X = rows.take(places if ids is None else ids.take(places))
    local, losses = replace(judged, labeled=np.arange(n_labels)), dict[ScalingKind, np.ndarray]()
    for kind in (each for each in fitted if each != "auto" or each == first):
        Z = fitted[kind].transform(X)
        if rows_differ(Z, Z[np.zeros(len(places), int)]).any() and not (
                kind == "unit_norm" and int(fitted[kind].attributes["zero_rows"])):
            family = KernelMembers.of(as_rows(Z), np.arange(n_labels, len(places)), local, None, random_state)
            losses[kind] = np.array([float(((member.held_out - local.indicators()) ** 2).sum())
                                     for member in family.members])
    if first not in losses:
        return fitted[first], evidence
    unit = 1.0 if target.n_strata > 1 else min(float(loss.min()) for loss in losses.values()) / n_labels
    energies = {kind: _energy(loss, max(unit, np.finfo(float).tiny)) for kind, loss in losses.items()}
    evidence["label_losses"] = {kind: energy / n_labels for kind, energy in energies.items()}
    narrow = bool(made["auto"].attributes.get("narrow_columns"))

    doubted = {kind: trusted * energy + (0.0 if kind == first or narrow else PRIOR[kind] * unit)
               for kind, energy in energies.items()}
    best = min(doubted, key=lambda kind: doubted[kind])
    return fitted[first if doubted[first] <= doubted[best] else best], evidence


def _energy(losses: np.ndarray, unit: float) -> float:
    """Return E of the losses (m,) of the members of a family, s^2 being the unit."""
    least = float(losses.min())
    return least - 2 * unit * float(np.log(np.exp(-(losses - least) / (2 * unit)).mean()))


def choosing_bytes(m: int, row_bytes: int, width: int) -> int:
    """Return the bytes that judging by m labeled rows of `row_bytes` bytes takes: rows, scaled, and kernels."""
    judged = min(m, MOST_JUDGED)
    points = judged + SAMPLED
    return points * (2 * row_bytes + 24 * width) + 8 * (points**2 + len(KERNELS) * 4 * judged * judged)
