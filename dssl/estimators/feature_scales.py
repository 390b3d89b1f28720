"""Select the scaling of features by the columns and by the labels.

The first candidate is "auto" (`data/scaling/scaling.py`), which ignores labels. Up to `MAX_BLENDED` labels, where the
automatic choice averages kernels, the supervised family of kernels (`learners/kernel_family.py`) has sums L_m of
squared leave-one-out residuals for each scaling, and the scaling has the loss

    E = -2 s^2 log mean_m exp(-L_m / (2 s^2))

with s as in `learners/average.py`, times the share of labels after the first of their class, since leave-one-out says
nothing of the first. Another scaling replaces the first if its E / s^2 is lower by more than its `PRIOR`, or by
anything if some of the columns in one unit are narrow beside the others (`Reaches.narrow`). With these priors no
scaling was worse than the first by more than one percentage point of error on 20 diverse data sets
(`tests/benchmarks/scales.py`).

For more labels, where the model is the mean of near labels on the graph or without it, each of at most `MAX_HELD_OUT`
labels is predicted by the mean of its three nearest others by the metric of the graph. Another scaling replaces the
first if its squared residuals are lower by more than `SIGNIFICANT` standard errors of the paired difference.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..base.digest import JsonObject
from ..base.types import Matrix
from ..data.scaling.scaling import Scaling, ScalingKind, fit_scalings
from ..execution.tasks import Execution
from ..graph.equal_rows import rows_differ
from ..knn.exact.blocks import SearchedPoints
from ..knn.exact.inverted_index import SparsePoints, point_rows
from ..knn.exact.layout import layout_bytes
from ..knn.exact.pairs import PAIR_NS, pair_points
from ..knn.index import NeighborIndex
from ..knn.metric import AnyMetric, Euclidean, check_kind, metric_of, pair_metric_of, sample_ids
from ..learners.kernel_family import KERNELS, KernelMembers, LabelKernels
from ..learners.on_graph.automatic import MAX_LABELS as MAX_BLENDED
from ..learners.on_graph.automatic import N_NEAREST
from ..learners.target.target import Target
from ..storage.blocks import Rows, block_rng
from ..storage.csr import as_rows

DENSE: tuple[ScalingKind, ...] = ("none", "standardize", "unit_range")
SPARSE: tuple[ScalingKind, ...] = ("none", "max_abs", "unit_norm")
MAX_LABELS = 300  # of the supervised family
SAMPLED = 300  # points for its bandwidths
PRIOR: dict[ScalingKind, float] = {"none": 3.0, "standardize": 1.0, "unit_range": 0.5, "max_abs": 1.0, "unit_norm": 1.0}
NONE_OF_QUANTITIES = 12.0  # the same of "none" for quantities (`tests/benchmarks/quantity_scales.py`)
SCALE_STREAM = 12  # of the seed
MAX_HELD_OUT, MAX_ENTRIES = 2000, 8 << 20  # labels that are predicted by near ones, and entries of the rows of these
SEARCH_NS = 1e9  # of the nearest labels by a metric that is a formula of two rows
SIGNIFICANT = 3.0  # standard errors of a paired difference
CHUNK_BYTES = 32 << 20  # of distances in the search for the nearest labels


def choose_scale(rows: Rows, ids: Rows | None, target: Target, execution: Execution, random_state: int,
                 categories: np.ndarray | None = None, metric: AnyMetric = Euclidean.name,
                 feature_names: list[str] | None = None) -> tuple[Scaling, JsonObject]:
    """Return the scaling of rows (n, d), and the evidence: `ranges`, and `label_losses`, E for each label.

    Of more than `MAX_BLENDED` labels the losses are mean squared residuals. metric : of the graph, and of the nearest
    labels; a scaling of rows that it is not defined for is not chosen.

    ids : ascending numbers of the n rows; None for all. target : of these. categories : (d,) bool, the columns that
    encode text. feature_names : for the attributes. At most `MAX_LABELS` labels are used, or `labels_searched` of more
    than `MAX_BLENDED`, in this process.
    """
    check_kind(rows, metric)
    made = fit_scalings(rows, ids, ("auto", *(SPARSE if rows.is_sparse else DENSE)), execution,
                        feature_names=feature_names, categories=categories)
    first = made["auto"].kind
    made[first] = made["auto"]  # which has more attributes
    evidence: JsonObject = {"ranges": made["auto"].attributes["ranges"]}
    by_nearest = len(target.labeled) > MAX_BLENDED
    max_labels = labels_searched(rows.shape[1], metric) if by_nearest else MAX_LABELS
    drawn = block_rng(random_state, SCALE_STREAM).permutation(len(target.labeled))[:max_labels]
    sample = np.sort(drawn)
    labels = target.in_units().take(sample)
    n_labels = len(labels.labeled)
    usable_share = 1 - target.n_strata / max(n_labels, 1)
    if usable_share <= 0 or n_labels < 2:
        return made[first], evidence
    n = len(rows) if ids is None else len(ids)
    positions = labels.labeled if by_nearest else np.concatenate([labels.labeled, sample_ids(n, SAMPLED)])
    X = rows.take(positions if ids is None else ids.take(positions))
    held_out = np.searchsorted(sample, drawn[:MAX_HELD_OUT])
    local, losses = replace(labels, labeled=np.arange(n_labels)), dict[ScalingKind, np.ndarray]()
    for kind in (each for each in made if each != "auto" or each == first):
        Z = made[kind].transform(X)
        if metric_of(metric).undefined(Z).any():
            first = "none" if kind == first else first
        elif _separates(Z, made[kind]):
            losses[kind] = losses_by_nearest(Z, local, held_out, execution, metric) if by_nearest else \
                _losses_by_kernels(Z, local, random_state)
    if first not in losses:
        return made[first], evidence
    narrow = bool(made["auto"].attributes.get("narrow_columns"))
    best, evidence["label_losses"] = _best_by_nearest(losses, first, narrow) if by_nearest else _best_by_kernels(
        losses, first, narrow, usable_share, n_labels, of_classes=target.n_strata > 1)
    return made[best], evidence


def _separates(Z: Matrix, scaling: Scaling) -> bool:
    """Return whether scaled rows (m, d) differ, and each has a direction if rows get length 1."""
    return bool(rows_differ(Z, Z[np.zeros(Z.shape[0], int)]).any()) and not (
        scaling.kind == "unit_norm" and int(scaling.attributes["zero_rows"]))


def _losses_by_kernels(Z: Matrix, labels: Target, random_state: int) -> np.ndarray:
    """Return L_m of each kernel (m,), from scaled rows: those of the labels, then of other points."""
    n_labels = len(labels.labeled)
    kernels = LabelKernels.of(as_rows(Z), np.arange(n_labels, Z.shape[0]), labels.labeled, random_state)
    family = KernelMembers.of(kernels, labels, None)
    return np.array([float(((member.held_out - labels.indicators()) ** 2).sum()) for member in family.members])


def _best_by_kernels(losses: Mapping[ScalingKind, np.ndarray], first: ScalingKind, narrow: bool, usable_share: float,
                     n_labels: int, *, of_classes: bool) -> tuple[ScalingKind, dict[str, float]]:
    """Return the best scaling by the sums L_m of the kernels (m,) under each, and E for each label."""
    unit = 1.0 if of_classes else min(float(loss.min()) for loss in losses.values()) / n_labels
    energies = {kind: _energy(loss, max(unit, np.finfo(float).tiny)) for kind, loss in losses.items()}
    prior = PRIOR if of_classes else {**PRIOR, "none": NONE_OF_QUANTITIES}
    posterior = {kind: usable_share * energy + (0.0 if kind == first or narrow else prior[kind] * unit)
                 for kind, energy in energies.items()}
    best = min(posterior, key=lambda kind: posterior[kind])
    return (first if posterior[first] <= posterior[best] else best,
            {kind: energy / n_labels for kind, energy in energies.items()})


def labels_searched(d: int, metric: AnyMetric = Euclidean.name) -> int:
    """Return how many labels of d columns are searched for the nearest ones."""
    rule = pair_metric_of(metric)
    if rule is None:
        return max(MAX_HELD_OUT, MAX_ENTRIES // max(d, 1))
    return max(MAX_HELD_OUT, int(SEARCH_NS / (MAX_HELD_OUT * (PAIR_NS + rule.column_ns * d))))


def losses_by_nearest(Z: Matrix, labels: Target, held_out: np.ndarray, execution: Execution,
                      metric: AnyMetric = Euclidean.name) -> np.ndarray:
    """Return the squared residuals of the labels `held_out` (h,) by their three nearest others among scaled rows."""
    Y, rows = labels.indicators(), as_rows(Z)
    points: SearchedPoints
    if pair_metric_of(metric) is not None:
        points = pair_points(rows, metric, CHUNK_BYTES)
    elif rows.is_sparse:
        points = SparsePoints(rows, metric, point_rows(rows, metric, CHUNK_BYTES))
    else:
        needed = 2 * layout_bytes(len(rows), rows.shape[1], 8)  # of the stage or the fit, whatever a task may take
        points = NeighborIndex.of(rows, metric, execution.within(max(execution.memory_budget, needed))).searched
    _, nearest = points.nearest(Z[held_out], held_out, N_NEAREST)
    losses: np.ndarray = ((Y[held_out] - Y[nearest].mean(axis=1)) ** 2).sum(axis=1)
    return losses


def _best_by_nearest(losses: Mapping[ScalingKind, np.ndarray], first: ScalingKind,
                     narrow: bool) -> tuple[ScalingKind, dict[str, float]]:
    """Return the best scaling by squared residuals (h,) under each, and their means."""
    best = min(losses, key=lambda kind: float(losses[kind].mean()))
    change = losses[first] - losses[best]
    enough = 0.0 if narrow else SIGNIFICANT * float(change.std()) / np.sqrt(len(change))
    return best if float(change.mean()) > enough else first, {
        kind: float(loss.mean()) for kind, loss in losses.items()}


def _energy(losses: np.ndarray, unit: float) -> float:
    """Return E of the losses (m,) of the members of a family; unit : s^2."""
    lowest = float(losses.min())
    return lowest - 2 * unit * float(np.log(np.exp(-(losses - lowest) / (2 * unit)).mean()))


def choosing_bytes(m: int, row_bytes: int, width: int) -> int:
    """Return the bytes of the selection with m labeled rows of `row_bytes` bytes, and at most `width` entries.

    Rows, scaled rows and kernels; of many labels rows, scaled rows, and the layout that is searched as it is made.
    """
    n_labels = min(m, MAX_LABELS)
    points = n_labels + SAMPLED
    by_kernels = points * (2 * row_bytes + 24 * width) + 8 * (points**2 + len(KERNELS) * 4 * n_labels * n_labels)
    if m <= MAX_BLENDED:
        return by_kernels
    searched = min(m, labels_searched(width))
    return max(by_kernels, searched * (2 * row_bytes + 8 * width) + 2 * layout_bytes(searched, width, 8) + CHUNK_BYTES)
