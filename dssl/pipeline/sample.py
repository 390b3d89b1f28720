"""Some training points as the report shows them: their graph in the plane, the least certain, which to label next.

They are drawn from all training points, which are read once. Where the method stores its values at the training
points, these are read whole; else the drawn points are predicted, and nothing is computed of the others. So a picture
of ten million points takes one pass more than one of ten thousand.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any

import numpy as np

from ..base.errors import BudgetError
from ..base.types import Matrix
from ..data.ingest_params import IngestParams
from ..execution.cost import Cost, cost_of
from ..execution.threads import one_thread
from ..graph.equal_rows import vertices_cost
from ..graph.layout_2d import edges_of, nearest_edges, plane_coordinates
from ..graph.vertices import find_vertices
from ..graph.weights.build import read_graph
from ..kernels.points import as_points, squared_distances
from ..knn.metric import AnyMetric, Euclidean, measurable, pair_metric_of
from ..learners.model import BlockValues, SharedModels, coding_of, predict_blocks, stored_models
from ..learners.on_graph.model import GraphModel
from ..learners.probabilities import CALIBRATION, Calibration
from ..learners.target.coding import ClassCoding, Coding, margins_of
from ..methods.plan_inputs import Bounded, PlanInputs
from ..methods.sections import GraphSections
from ..methods.step import Context, Method
from ..methods.tags import ValuesAtTraining, values_at_training
from ..report.record import Attributes
from ..report.sections.sample import Picture, Sample, sample_section
from ..selection.coverage import block_height
from ..selection.coverage import row_bytes as distance_bytes
from ..selection.suggest import MAX_PAIRS, MIN_PAIRS, SuggestParams, prior_bytes
from ..storage.blocks import arrays_within, block_rng, row_ranges
from ..storage.csr import as_rows
from .spec import Spec
from .stage import Stage
from .suggested_rows import choose_rows, with_places

DRAWN = 2000  # points of the picture
ROWS_AT_ONCE = 128  # of the distances between these, for which nothing is compiled
LABELED = 400  # of them at most with a label
LINES = 8000  # of the picture, the shortest
MAX_EXAMINED = 5000  # points among which the least certain are looked for
HELD = 128 << 20  # bytes of points at most, which wide rows make fewer; and an eighth of the budget
LISTED = 10  # of them, and of those to label next
SUGGESTED = 10_000  # points of which those to label next are reported
PAIR_BYTES = 16  # of two points of the picture, measured: four distances of float32
STREAM = 41  # of the seed
PLACES = 1000  # a side of the picture


@dataclass(frozen=True)
class SampleParams:
    """metric, n_neighbors : of the graph; None of a kind without one.

    random_state : of the draw. read : of the source.
    """

    metric: AnyMetric | None
    n_neighbors: int
    random_state: int
    read: IngestParams

    @classmethod
    def of(cls, spec: Spec) -> "SampleParams":
        graph = getattr(spec, "graph", None)
        return cls(graph.distance if graph else None, graph.n_neighbors if graph else 0, spec.data.random_state,
                   spec.read)


def make_sample(context: Context, params: SampleParams, of_training: ValuesAtTraining | None = None) -> Sample:
    """Draw training points, take or compute what the model says of them, and describe them; JSON.

    of_training : see `make_predictions`.
    """
    points = context.points("train")
    if "tags" in context.attributes("split"):  # a point of the picture has one color
        return {"n": len(points)}
    labeled = context.arrays("labels")["labeled"] if "labels" in context.inputs else np.zeros(0, np.int64)
    limit, pictured = sizes(points.row_bytes, context.execution.memory_budget)
    drawn = _drawn(len(points), labeled, params.random_state)[:limit]
    rows = as_rows(points.take(drawn))
    described = context.attributes("models")["models"]["model"]
    models = stored_models(context.inputs["models"].parts, {"model": described})
    if of_training is None:
        parts = context.parts.within("predicted")
        predict_blocks(context.execution.share_rows(rows), models, BlockValues(), context.execution, parts)
        values, unsupported = parts.rows("values").read_all(), parts.rows("unsupported").read_all()
        parts.remove()
    else:
        values, unsupported = (of_points[drawn] for of_points in of_training(context))
    coding = coding_of(described)
    vertex = context.vertex_rows().vertex_of(drawn[:pictured]) if params.metric else drawn[:pictured]
    shown = np.sort(np.unique(vertex, return_index=True)[1])  # of duplicates the first
    with one_thread():  # so that places are the same whatever else runs
        picture = _picture(context, params, rows.take(shown), vertex[shown], len(points) <= pictured)
    picture["labeled"] = np.flatnonzero(np.isin(drawn[shown], labeled)).tolist()
    picture["codes"] = [_rounded(code) for code in _codes(coding, values, unsupported)[shown].tolist()]
    picture["classes"] = [str(name) for name in coding.classes] if isinstance(coding, ClassCoding) else []
    sample: Sample = {"n": len(points), "picture": picture}
    if len(labeled):
        sample.update(_uncertain(context, drawn, labeled, coding, values, unsupported, described.get(CALIBRATION)))
        sample.update(_next(context, params, models, labeled))
    return sample


def sizes(row_bytes: int, budget: int) -> tuple[int, int]:
    """Return how many points are looked at, and how many of them the picture has; a small budget makes both fewer.

    The picture's distances take half of the budget, the points the other.
    """
    half = arrays_within(budget) // 2
    limit = max(10 * LISTED, min(HELD, half // 4) // (row_bytes + 16))
    return limit, min(DRAWN, limit, max(10 * LISTED, isqrt(half // PAIR_BYTES)))


def _drawn(n: int, labeled: np.ndarray, random_state: int) -> np.ndarray:
    """Return the numbers of points that are looked at: first those of the picture, some labeled ones among them."""
    rng = block_rng(random_state, STREAM)
    few = len(labeled) <= LABELED or n <= DRAWN
    known = labeled if few else np.sort(rng.choice(labeled, LABELED, replace=False))
    some = rng.choice(n, min(n, MAX_EXAMINED + len(known)), replace=False)
    return np.concatenate([known, some[~np.isin(some, labeled)]])


def _codes(coding: Coding, values: np.ndarray, unsupported: np.ndarray) -> np.ndarray:
    """Return the classes of values by their places, -1 of none; or quantities."""
    if not isinstance(coding, ClassCoding):  # where nothing is said, what new points get
        known = values[~unsupported, 0]
        return np.where(unsupported, known.mean() if len(known) else 0.0, values[:, 0])
    return np.where(unsupported, -1, coding.codes(values))


def _picture(context: Context, params: SampleParams, points: Matrix, vertex: np.ndarray, whole: bool) -> Picture:
    """Return places in the plane of whole numbers, and the lines between neighbors, of points and their vertices; JSON.

    The lines are those of the graph where the whole is drawn, and else those of a graph that joins the drawn points
    alike.
    """
    distances = _distances(points, params.metric or Euclidean.name)
    edges = np.zeros((0, 2), np.int64)
    if params.metric is not None and whole:
        edges = np.argsort(vertex)[edges_of(read_graph(context.inputs["graph"].parts))]
    elif params.metric is not None:
        edges = nearest_edges(distances, params.n_neighbors)
    plane = points.shape[1] == 2 and isinstance(points, np.ndarray)
    places = np.asarray(points, float) if plane else plane_coordinates(distances, edges)
    low, wide = places.min(axis=0), float(np.ptp(places, axis=0).max()) or 1.0
    shortest = np.sort(np.argsort(distances[edges[:, 0], edges[:, 1]], kind="stable")[:LINES])
    return {"points": np.round(PLACES * (places - low) / wide).astype(int).tolist(),
            "edges": edges[shortest].tolist(), "whole": whole, "plane": plane, "lines": len(edges),
            "labeled": [], "codes": [], "classes": []}


def _distances(X: Matrix, metric: AnyMetric) -> np.ndarray:
    """Return the distances of all pairs of points, (s, s) float32."""
    rule, rows = pair_metric_of(metric), measurable(X, metric)
    points = as_points(rows) if rule is None else rows
    distances = np.empty((X.shape[0], X.shape[0]), np.float32)
    for start, stop in row_ranges(X.shape[0], ROWS_AT_ONCE):
        if rule is None:
            distances[start:stop] = np.sqrt(squared_distances(as_points(rows[start:stop]), points))
        else:
            distances[start:stop] = rule.between(rows[start:stop], points)
    return distances


def _uncertain(context: Context, drawn: np.ndarray, labeled: np.ndarray, coding: Coding, values: np.ndarray,
               unsupported: np.ndarray, calibration: dict[str, Any] | None) -> Sample:
    """Return the points without a label whose two likeliest classes are closest; JSON. Of quantities there are none."""
    unlabeled = np.flatnonzero(~np.isin(drawn, labeled))
    if len(unlabeled) < LISTED or not isinstance(coding, ClassCoding):
        return {}
    likely = margins_of(values, coding)
    likely = Calibration.from_dict(calibration).probabilities(likely) if calibration else likely
    likely = np.where(unsupported[:, None], np.nan, likely)
    described: Sample = {"n_examined": len(unlabeled), "calibrated": calibration is not None}
    if likely.shape[1] < 2:
        return described
    two = np.sort(likely[unlabeled], axis=1)[:, -2:]
    gap = np.where(np.isfinite(two[:, 0]), two[:, 1] - two[:, 0], np.inf)
    least_certain = unlabeled[np.argsort(gap, kind="stable")[:LISTED]]
    numbers = context.rows("split", "train").take(drawn[least_certain])
    return {**described, "least_certain": [_listed(number, coding, share) for number, share in zip(
        numbers.tolist(), likely[least_certain], strict=True)]}


def _listed(number: int, coding: ClassCoding, likely: np.ndarray) -> Attributes:
    """Return a row of a table of points: the row in the source, what is predicted, and how likely, with the second."""
    if not np.isfinite(likely).all():
        return {"row": number, "predicted": None}
    order = np.argsort(-likely, kind="stable")[:2]
    return {"row": number, "predicted": str(coding.classes[order[0]]), "score": _rounded(likely[order[0]]),
            "second": str(coding.classes[order[-1]]), "second_score": _rounded(likely[order[-1]])}


def _next(context: Context, params: SampleParams, models: SharedModels, labeled: np.ndarray) -> Sample:
    """Return the rows to label next, as `dssl suggest` chooses them where nothing else is asked for; JSON.

    Of more than `SUGGESTED` points, whose eigenvectors would take long, and of those that half of the budget is too
    small for, the command alone tells them, which has all of it.
    """
    points = context.points("train")
    if len(points) > SUGGESTED:
        return {"suggested": len(points)}
    vertices = context.vertices() if params.metric is not None else find_vertices(points, context.execution)
    if len(vertices) - len(np.unique(vertices.vertex[labeled])) < LISTED:
        return {}
    smaller = replace(context, execution=context.execution.within(arrays_within(context.execution.memory_budget) // 2))
    try:
        suggested = choose_rows(smaller, models.open()["model"], SuggestParams(count=LISTED))
    except BudgetError:  # of half of it
        return {"suggested": len(points)}
    if "source" in context.files:
        suggested = with_places(suggested, context.files["source"].source, params.read, context.attributes("dataset"))
    return {"next": suggested.records()}


def _rounded(value: float) -> float | int:
    """Return a number to five digits, so that it is the same whichever blocks it was computed in."""
    return value if isinstance(value, int) else float(f"{value:.5g}")


Predicted = Callable[[int, int], Cost]  # of predicting so many points within a budget (bytes)


def _sample_cost(f: PlanInputs, spec: Spec, predicted: Predicted, *, predicts: bool) -> Cost:
    """Return what the picture and the lists take.

    predicts : whether the drawn points are predicted; else the values of all training points are read.
    """
    limit, pictured = sizes(f.row_bytes, f.budget)
    drawn, n_examined = min(f.n, pictured), min(f.n, MAX_EXAMINED + LABELED, limit)
    held = (4 * f.row_bytes + 64) * n_examined + (0 if predicts else f.training_values_bytes)
    cost = predicted(n_examined, f.budget) if predicts else cost_of(0, f.n * (8 * f.n_values + 1), 0, 0)
    if spec.labels is not None and f.n <= SUGGESTED:
        with suppress(BudgetError):  # `_next` leaves it out then
            cost += _next_cost(f, spec, predicted)
    return replace(cost, written=0, peak=0, smallest_peak=0) + cost_of(
        0, f.n * f.row_bytes, 0, held + max(PAIR_BYTES * drawn * drawn, _next_bytes(f, spec)))


def _next_cost(f: PlanInputs, spec: Spec, predicted: Predicted) -> Cost:
    """Return the tasks that choose the points to label next: their memory is that of `_next_bytes`."""
    half, has_graph, cost = arrays_within(f.budget) // 2, isinstance(spec, GraphSections), cost_of(0, 0, 0, 0)
    fitted = f.attributes.get("models", {"models": {"model": {}}})["models"]["model"]
    if not f.is_regression and fitted.get("type") != GraphModel.__name__:  # which has its values at the vertices
        cost += predicted(f.vertices if has_graph else f.n, half)
    if not has_graph:
        points = f.points(f.n)
        return cost + predicted(LISTED, half) + vertices_cost(points, f.budget) + vertices_cost(points, half)
    if prior_bytes(f.n, f.n, f.nnz, 1) > half:  # not one eigenvector fits
        return cost
    return cost + predicted(LISTED, half) + cost_of(1, 12 * f.nnz, 0, 0)


def _next_bytes(f: PlanInputs, spec: Spec) -> int:
    """Return what choosing the points to label next takes, within half of the budget.

    The eigenvectors of the graph, or without one a block of distances to the points that have a label.
    """
    if spec.labels is None or f.n > SUGGESTED:
        return 0
    half = arrays_within(f.budget) // 2
    if isinstance(spec, GraphSections):
        return min(prior_bytes(f.n, f.n, f.nnz, min(max(MIN_PAIRS, f.n_labeled + LISTED), MAX_PAIRS, f.n)), half)
    points, m = f.dense(f.n, f.width), f.n_labeled
    return block_height(points, m, half) * distance_bytes(points, m)


SAMPLE = Stage("sample", 4, ("dataset", "split", "points", "labels", "models"), SampleParams.of, make_sample,
               files=("source",), section=sample_section, leads=True)


def sample_with(predicted: Callable[[PlanInputs, Any], Cost], method: Method) -> Stage:
    """Return the stage of a method; predicted : the cost of predicting its test points."""
    of_training = values_at_training(method)

    def make(context: Context, params: SampleParams) -> Sample:
        return make_sample(context, params, of_training)

    def cost(f: PlanInputs, spec: Spec) -> Cost:
        if spec.data.tags is not None:  # there is no picture
            return cost_of(0, 0, 0, 0)
        return _sample_cost(f, spec, lambda n, budget: predicted(
            replace(f, test_points=Bounded.known(n), budget=budget), spec), predicts=of_training is None)

    graph = ("vertices", "neighbors", "graph") if method.has_graph else ()
    return replace(SAMPLE, make=make, cost=cost,
                   needs=SAMPLE.needs_and((*graph, *method.training_needs)))
