"""The stages of the points: their scaled rows, and which of the training points are labeled.

The kind `automatic` has points of its own (`SCALED_POINTS`): the labels choose the scale of their features, so that
they follow from the labels.
"""

from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np

from ..base.errors import DataError, column_label, explain, require, sentences
from ..data.ingest_params import IngestParams
from ..data.labels import DRAW_ROWS, choose_labels
from ..data.scaling.moments import chunk_of, moments_cost
from ..data.scaling.outliers import SHOWN, describe_outlier_rows, warn_unlike
from ..data.scaling.scaling import ScaledRows, Scaling, ScalingKind, ScalingParams, Unscaled, fit_scaling, scaled_rows
from ..data.source_reader import PARSED_SECONDS
from ..estimators.feature_scales import choose_scale, choosing_bytes
from ..execution.cost import Cost, cost_of
from ..execution.tasks import BlockTasks
from ..knn.metric import AnyMetric
from ..learners.tags import Tags
from ..learners.target.target import Target
from ..methods.data_sections import OpinionParams
from ..methods.plan_inputs import PlanInputs
from ..methods.step import WEIGHT, Context
from ..methods.tags import labeled_tags
from ..report.record import Attributes
from ..report.sections.data import data_section
from ..storage.blocks import PartWriter, Receipt, Rows
from ..storage.csr import csr_arrays
from ..storage.views import BlockedCsrRows
from .dataset import dataset_of, rows_called
from .growth import CannotGrow
from .labels_from_files import LabelWeights, labels_notes, lines_of_file, weigh_labels, with_file
from .soft_labels import OPINION, OpinionRecord, opinion_cost, read_opinion
from .spec import Spec
from .split import training_strata
from .stage import Stage
from .tags import tag_count, write_labeled_tags

MOMENT_SECONDS, SCALED_SECONDS = 3e-8, 6e-9  # per number on one core: moments, and scaling
KNOWN = {"tags": "tags", "classes": "codes"}  # the array of what is known of rows, by what the split has; or values
DRAWN = 1  # the part of the places of labels that were drawn, without those of a file
DRAWN_SECONDS = 2.4e-7  # of a training point, on one core, in three passes over the labels; measured
MAX_DRIFT = 0.1  # of a spread, by which new rows may change it or the mean of a column before all rows are scaled anew
OF_ROWS = ("n_training_rows", "zero_rows", "outliers")  # what a scaling tells of the rows it was fitted on


@dataclass(frozen=True)
class ScaleTask:
    """Write the scaled rows of one range of chosen points, to a shared array, or sparse ones to the task's part."""

    rows: ScaledRows
    ids: Rows  # numbers of all chosen rows
    name: str
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        scaled: Any = self.rows.take(self.ids.read(self.start, self.stop))
        if not self.rows.is_sparse:
            return out.write_rows(self.start, **{self.name: scaled})
        return {**out.write(**csr_arrays(scaled)), "rows": [self.start, self.stop],
                "entries": int(scaled.nnz)}

    def cost(self) -> Cost:
        """Return a chunk, which may be incompressible, the rows that are chosen, and two copies in float64."""
        rows, height = self.rows.rows, self.stop - self.start
        width, chunk = min(rows.shape[1], -(-rows.row_bytes // rows.dtype.itemsize)), chunk_of(rows)
        wide = 0 if self.rows.kind == "none" else 16 * width
        return cost_of(1, (height + chunk) * rows.row_bytes, height * rows.row_bytes,
                       max((height + 2 * chunk) * rows.row_bytes, height * (2 * rows.row_bytes + wide)),
                       (2 * chunk + 6) * rows.row_bytes)


def scale_tasks(rows: ScaledRows, ids: Rows, name: str, height: int) -> BlockTasks[ScaleTask]:
    return BlockTasks(lambda start, stop: ScaleTask(rows, ids, name, start, stop), len(ids), height)


def points_cost(f: PlanInputs, kind: ScalingKind) -> Cost:
    """Return what fitting a scaling takes, and scaling the training and test points.

    A fit is one pass over the rows, or two where some are outliers, which a plan assumes that none are.
    """
    rows = f.rows
    scaled = ScaledRows(rows, Scaling(kind, np.empty(0), np.empty(0), {}))
    height = scaled_rows(f.n, rows.row_bytes, chunk_of(rows), f.budget)
    passes = 1 + ("outliers" in f.attributes.get("points", {}).get("scaling", ()))
    cost = passes * moments_cost(rows, f.n, f.budget) + cost_of(0, 0, 0, 0, 0, f.width * (
        MOMENT_SECONDS * passes * f.n_rows + SCALED_SECONDS * (f.n + f.n_test)))
    for n in (f.n, f.n_test):
        cost += scale_tasks(scaled, f.dense(n, 1), "", height).cost()
    return cost


def make_points(context: Context, params: ScalingParams) -> Attributes:
    """Scale the training and test points, with a warning where columns of unlike spreads stay as they are."""
    if not isinstance(params, Unscaled):
        dataset = dataset_of(context)
        warn_unlike(dataset.X, context.rows("split", "train"), params.kind, dataset.feature_names)
    return scale_points(context, scaling_of(context, params))


def scaling_of(context: Context, params: ScalingParams, *, by_labels: bool = False) -> Scaling:
    """Return the scaling of the training points; by_labels : whether labels chose the kind, under "auto"."""
    dataset = dataset_of(context)
    return fit_scaling(dataset.X, context.rows("split", "train"), params, context.execution,
                       feature_names=dataset.feature_names, categories=dataset.categories, chosen=by_labels)


def scale_points(context: Context, scaling: Scaling) -> Attributes:
    """Scale the training and test points into `train` and `test`; the scaling is fitted on the training points only.

    Where they grow, all are scaled as those of the base are, and the attribute `drift` tells how far a scaling that is
    fitted on all of them would differ.

    Raises CannotGrow: it would differ too much.
    """
    chosen, dataset = {name: context.rows("split", name) for name in ("train", "test")}, dataset_of(context)
    rows = dataset.X
    drift = {}
    if context.base is not None:
        before = Scaling.from_arrays(context.base.parts.within("scaling").read(0),
                                     context.base.attributes["scaling"])
        drift = {"drift": _drift(before, scaling, dataset.feature_names)}
        scaling = replace(before, seen=scaling.seen, attributes={
            **before.attributes, **{name: value for name, value in scaling.attributes.items() if name in OF_ROWS}})
    height = scaled_rows(len(chosen["train"]), rows.row_bytes, chunk_of(rows), context.execution.memory_budget)
    scaled, tasks = ScaledRows(rows, scaling, context.execution), {}
    for name in ("train", "test"):
        if not rows.is_sparse:
            context.parts.allocate(name, (len(chosen[name]), rows.shape[1]), rows.dtype, height)
        tasks[name] = scale_tasks(scaled, chosen[name], name, height)
    receipts = context.execution.map([*tasks["train"], *tasks["test"]], context.parts)
    PartWriter(context.parts.within("scaling"), 0).write(**scaling.to_arrays()[0])
    assert scaling.seen is not None
    PartWriter(context.parts.within("ranges"), 0).write(**scaling.seen.to_arrays())
    attributes = {"scaling": scaling.to_arrays()[1], "d": rows.shape[1], **drift}
    outliers = scaling.attributes.get("outliers")
    if outliers and outliers["n_rows"]:
        # Where rows were added, files that were read before are not opened for their names.
        called = [] if context.base else rows_called(context, outliers["rows"][:SHOWN])
        attributes["outlier_rows"] = describe_outlier_rows(outliers, dataset.feature_names, called)
    if not rows.is_sparse:
        return attributes
    first, dtype = {"train": 0, "test": len(tasks["train"])}, np.result_type(rows.dtype, np.float32)
    for name, of_part in tasks.items():
        entries = sum(receipt["entries"] for receipt in receipts[first[name]:first[name] + len(of_part)])
        attributes[name] = BlockedCsrRows(context.parts, (len(chosen[name]), rows.shape[1]), dtype, height, entries,
                                          first[name]).describe()
    return attributes


class ColumnChange(TypedDict):
    """The column that changes farthest, and how far."""

    column: int
    change: float


def _drift(before: Scaling, now: Scaling, names: list[str] | None) -> dict[str, ColumnChange]:
    """Return how far a scaling is from another of fewer rows: JSON. Raise CannotGrow beyond `MAX_DRIFT`.

    shift : the farthest that a column moves, in units of its scaled values. factor : the most by which the factor of a
    column changes, as a share of it. Each with the number of the column; none of a scaling without columns.
    """
    if now.kind != before.kind or now.cuts > before.cuts:
        what = f"are scaled as {now.kind} and not as {before.kind}" if now.kind != before.kind else \
            "have cells out of range, which the old rows do not have"
        raise CannotGrow(f"with the new rows the features {what}")
    if not len(now.factor):
        return {}
    with np.errstate(divide="ignore", invalid="ignore"):
        change = {"shift": np.abs(now.shift - before.shift) * before.factor,
                  "factor": np.where(now.factor == before.factor, 0, np.abs(now.factor / before.factor - 1))}
    drifts: dict[str, ColumnChange] = {}
    for name, values in change.items():
        j = int(np.argmax(values))
        if not values[j] <= MAX_DRIFT:
            raise CannotGrow(f"the new rows change the {'mean' if name == 'shift' else 'spread'} of "
                             f"{column_label(names, j)} by {values[j]:.0%}, more than {MAX_DRIFT:.0%}")
        drifts[name] = {"column": j, "change": float(values[j])}
    return drifts


@dataclass(frozen=True)
class LabelParams:
    """Which training points are labeled: a number, so many a class, a share, or all that have a label.

    read : how the source is read, whose identifiers a file of labels may name. weight : the column of what they weigh.
    opinion : what another model says beside them.
    """

    count: int | None
    per_class: int | None
    fraction: float | None
    given: bool
    random_state: int
    read: IngestParams
    weight: str | None
    opinion: OpinionParams | None

    @classmethod
    def of(cls, spec: Spec) -> "LabelParams":
        shown, opinion = spec.labels, spec.model.opinion
        assert shown is not None
        return cls(shown.count, shown.per_class, shown.fraction, shown.given, shown.random_state, spec.read,
                   shown.weight, None if opinion is None else opinion.params)


def _given_labels(context: Context) -> np.ndarray:
    """Return the ascending places of the training points that have a target; 16 bytes for each of them."""
    places, begin = [np.arange(0)], 0
    for strata in training_strata(context):
        places.append(begin + np.flatnonzero(strata >= 0))
        begin += len(strata)
    return np.concatenate(places)


def _require_two_classes(target: Target, source: str) -> None:
    """Raise DataError if all labels, those of the source and of files beside it, are of one class."""
    names = target.to_arrays()[1].get("classes")
    require(names is None or len(names) != 1, error=DataError, what=f"{source} has one class, {names and names[0]!r}",
            why="a classifier tells at least two classes apart",
            fix="label some rows of another class, in the source or in a file with the columns row and label that "
                "labels.file names; or check the target, data.keep and data.classes")


def _drawn_labels(context: Context, labels: LabelParams, n_strata: int) -> np.ndarray:
    """Return the places of labels that are drawn; raise DataError where there are fewer."""
    try:
        return choose_labels(lambda: training_strata(context), count=labels.count, per_class=labels.per_class,
                             fraction=labels.fraction, random_state=labels.random_state, n_classes=n_strata,
                             classes=context.attributes("split").get("classes"))
    except DataError as error:
        if labels.opinion is None and "labels" not in context.files:
            raise
        what, why, fix = sentences(str(error))
        raise DataError(explain(what, why=why, fix=f"{fix}; or set labels: {{given: true}}")) from error


def make_labels(context: Context, labels: LabelParams) -> Attributes:
    """Choose the labeled points, add those of a file; write their places among the training points.

    Where labels grow, those that were drawn stay, and new rows bring none unless all labels are shown.
    """
    split = context.attributes("split")
    known = next((known for name, known in KNOWN.items() if name in split), "values")
    n_strata = len(split.get("classes", [None]))
    if labels.given:
        places = _given_labels(context)
        require("labels" in context.files or len(places) > 0 or labels.opinion is not None,
                "no training point has a target", error=DataError, why="there is nothing to learn from",
                fix="keep fewer points for the test, or give more a target" if "y" in
                context.attributes("dataset")["arrays"] else "name the labels in data.read (target, a column; labels, "
                "a file beside an .npy file), add an array y to an .npz file, or give labels.file")
    elif context.base is not None:
        before, now = context.base.attributes.get("classes"), split.get("classes")
        if before is not None and now is not None and not set(now) <= set(before):
            new = ", ".join(map(repr, [name for name in now if name not in set(before)]))
            raise CannotGrow(f"new rows are of the class {new}, and labels are drawn of every class")
        places = context.base.parts.read(DRAWN)["places"]
    else:
        places = _drawn_labels(context, labels, n_strata)
    coded = context.rows("split", f"train_{known}").take(places)
    lines = lines_of_file(context, labels.read, labels.weight)
    arrays = {"labeled": places, known: coded}
    if known == "tags":
        PartWriter(context.parts, DRAWN).write(places=places)
        return write_labeled_tags(context, Tags.from_arrays(arrays, split), labels.weight, labels.read)
    opinion = dict[str, OpinionRecord]()
    chosen, from_file = with_file(context, Target.from_arrays(arrays, split), lines)
    if labels.opinion is not None:
        of_other = read_opinion(context, labels.opinion, labels.read)
        chosen, opinion = of_other.with_classes(chosen), of_other.write(context)
    _require_two_classes(chosen, context.files["source"].source.name)
    weights, weighed = dict[str, np.ndarray](), dict[str, LabelWeights]()
    if labels.weight is not None:
        chosen, weights[WEIGHT], weighed = weigh_labels(context, chosen, labels.weight, lines, labels.read)
    require(labels.opinion is None or "classes" in split or len(chosen.labeled) > 1, error=DataError,
            what=f"{len(chosen.labeled)} training points have a target", why="predicted targets count by how well they "
            "predict targets that are held out", fix="give two training points a target, or take the predicted targets "
            "as they are")
    arrays, attributes = chosen.to_arrays()
    PartWriter(context.parts, 0).write(**arrays, **weights)
    PartWriter(context.parts, DRAWN).write(places=places)
    return {**attributes, **chosen.described(), "n_labeled": len(chosen.labeled), **from_file, **opinion, **weighed}


def _labels_cost(f: PlanInputs, spec: Spec) -> Cost:
    """Return that of passes over the labels, in the driver: a block of them in random order, and those chosen.

    Where weights may stand in a column of the source, it is read once more: surely if not all files of labels have
    them, and otherwise at most, for labels without a line in these files.
    """
    c, m, labels = tag_count(f, spec), min(f.n_labeled, f.n), spec.labels
    held = 60 * min(f.n, DRAW_ROWS) + 3 * c * max(min(f.n, DRAW_ROWS), m)
    may_read = labels is not None and labels.weight is not None and (f.bound == "upper" or not labels.weighs_in_files)
    again = f.n_rows * f.source_row_bytes if may_read else 0
    opinion = cost_of(0, 0, 0, 0) if spec.model.opinion is None else opinion_cost(f, spec.model.opinion.params)
    return opinion + cost_of(
        0, (24 + 2 * c) * f.n + again, ((16 if labels is None or labels.weight is None else 24) + 2 * c) * m,
        held + 60 * m, (60 + c) * m, DRAWN_SECONDS * f.n + PARSED_SECONDS * again)


def points_notes(attributes: Attributes) -> list[str]:
    """Return which rows lie far from all others, if any do; and how far new rows change the scales of the features."""
    notes = [f"{attributes['outlier_rows']}; the scale is fitted without such values. If they are codes of missing "
             "cells, mark them as missing (data.read.missing)"] if "outlier_rows" in attributes else []
    changes = [drift["change"] for drift in attributes.get("drift", {}).values()]
    if changes:
        notes.append(f"the new rows change mean and spread of a feature by {max(changes):.2g} of its spread at most; "
                     f"the scaling stays as it is up to {MAX_DRIFT:.0%}")
    return notes


LABELS = Stage("labels", 12, ("dataset", "split"), LabelParams.of, make_labels, _labels_cost, "label fewer points",
               files=("source", "labels", OPINION), notes=labels_notes, grows=True)
POINTS = Stage("points", 12, ("dataset", "split"), lambda spec: spec.scaling, make_points,
               lambda f, spec: points_cost(f, spec.scaling.kind), "read fewer columns, or lower data.read.block_rows",
               files=("source",), section=data_section, notes=points_notes, grows=True)


@dataclass(frozen=True)
class ScaleParams:
    """How features are scaled; None chooses. random_state : of the labels that judge. metric : of the graph."""

    scaling: ScalingParams | None
    random_state: int
    metric: AnyMetric

    @classmethod
    def of(cls, spec: Any) -> "ScaleParams":
        return cls(spec.scaling, spec.model.random_state, spec.graph.distance)


def make_scaled_points(context: Context, params: ScaleParams) -> Attributes:
    """Choose the scale of the features, and scale the training and test points; one that grows has that of the base."""
    if params.scaling is not None:
        return make_points(context, params.scaling)
    if context.base is not None:
        chosen = context.base.attributes["scale"]
        scaling = scaling_of(context, ScalingParams(kind=chosen["kind"]), by_labels=True)
        return {**scale_points(context, scaling), "scale": chosen}
    dataset = dataset_of(context)
    target = labeled_tags(context).most_balanced() if "tags" in context.attributes("labels") else context.target()
    scaling, tried = choose_scale(dataset.X, context.rows("split", "train"), target, context.execution,
                                  params.random_state, dataset.categories, params.metric, dataset.feature_names)
    return {**scale_points(context, scaling), "scale": {"kind": scaling.kind, **tried}}


def _scaled_points_cost(f: PlanInputs, spec: Spec) -> Cost:
    scaling = spec.scaling
    if scaling is not None:
        return points_cost(f, scaling.kind)
    cost = points_cost(f, "standardize")
    return replace(cost, peak=max(cost.peak, choosing_bytes(f.n_labeled, f.row_bytes, f.width)))


SCALED_POINTS = replace(POINTS, version=14, needs=("dataset", "split", "labels"), params=ScaleParams.of,
                        make=make_scaled_points, cost=_scaled_points_cost)
