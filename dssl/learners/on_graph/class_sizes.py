"""Known class sizes: the scores become those of the cut of the graph into classes of these sizes (`cut.py`).

Where class sizes are known they help most at the lowest label rates; guessed from the labels' own proportions they
cost up to 10 points where labels were drawn evenly and the classes are not even. So nothing here guesses.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax, softmax

from ...execution.tasks import Execution
from ...graph.functions import laplacian_of
from ...graph.graph import Graph
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..class_prior import ClassBounds, ClassSizes, class_bounds, class_shares
from ..target.coding import ClassCoding, Coding
from ..target.target import Classes, Target
from .cut import cut_of
from .model import VertexLabels, VertexValues

TEMPERATURE = 0.05  # of the softmax, in standard deviations of the scores
LINEAR = 0.2  # of the probabilities by the scores alone, in the cost of a cut, beside degrees of 1
SIZED_LOG_ODDS = 0.5  # by which the sizes favor the class that is predicted with them
MAX_STEPS, MAX_HALVINGS = 100, 20  # of Newton's method
MAX_STEP = 5 / TEMPERATURE  # of a log offset: five standard deviations of the scores
SHARES_TOL, ROUNDING = 1e-3, 1e-7  # of the mean probabilities, relative to the shares and absolute
HESSIAN_SHIFT = 1e-6  # for classes that no point has


def balanced(scores: np.ndarray, shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return scores (v, c) with an offset a class, such that softened predictions have these shares.

    weight (v,) : the points of a vertex, 0 of one that is unreachable. The predictions are the softmax of the
    standardized scores at temperature 0.05.
    """
    total = weight.sum()
    mean = weight @ scores / total
    deviation = float(np.sqrt((weight @ (scores - mean) ** 2).sum() / (total * scores.shape[1]))) or 1.0
    unit = deviation * TEMPERATURE
    return scores + unit * log_offsets(scores / unit, shares, weight)


def log_offsets(logs: np.ndarray, shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return what is added to log odds (v, c), (c,) of mean 0, so that mean probabilities are shares (c,).

    They minimize the convex function mean(logsumexp(logs + offset)) - shares @ offset, by Newton's method with halved
    steps. weight (v,) : as in `balanced`.
    """
    offset, w = np.zeros(logs.shape[1]), weight / weight.sum()
    P, value = _softened(logs, offset, shares, w)
    for _ in range(MAX_STEPS):
        mean = w @ P
        missing = shares - mean
        if (np.abs(missing) <= SHARES_TOL * shares + ROUNDING).all():
            break
        hessian = np.diag(mean + HESSIAN_SHIFT) - (P * w[:, None]).T @ P
        step = np.linalg.solve(hessian, missing)
        step *= min(1.0, MAX_STEP / np.abs(step).max())
        for _ in range(MAX_HALVINGS):
            trial, lower = _softened(logs, offset + step, shares, w)
            if lower <= value:
                break
            step /= 2
        else:
            break  # the function is as low as its rounding errors let it be
        offset, P, value = offset + step, trial, lower
    return offset - offset.mean()


def _softened(logs: np.ndarray, offset: np.ndarray, shares: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the probabilities (v, c) of log odds with an offset (c,), and what `log_offsets` minimizes."""
    moved = logs + offset
    top = moved.max(axis=1, keepdims=True)
    moved -= top
    np.exp(moved, out=moved)
    total = moved.sum(axis=1, keepdims=True)
    value = float(w @ (np.log(total) + top)[:, 0] - shares @ offset)
    moved /= total
    return moved, value


def predicted_shares(scores: np.ndarray, bounds: ClassBounds, weight: np.ndarray) -> np.ndarray:
    """Return the shares (c,) of the classes that scores (v, c) predict, moved into bounds; weight (v,) as above."""
    return bounds.nearest(np.bincount(scores.argmax(axis=1), weight, len(bounds.lower)) / weight.sum())


def known_shares(sizes: ClassSizes | None, target: Target) -> np.ndarray | None:
    """Return the shares of the classes of a target (n_classes,) from sizes as in `class_shares`; None for None."""
    return class_shares(sizes, target.names) if sizes is not None and isinstance(target, Classes) else None


def offset_to(values: np.ndarray, coding: Coding, shares: np.ndarray) -> np.ndarray:
    """Return what is added to the columns of values (n, c) so that predictions have these shares, as `balanced` does.

    So a baseline gets the sizes that its model gets.
    """
    assert isinstance(coding, ClassCoding)
    scores = coding.scores(values)
    offset = (balanced(scores, shares, np.ones(len(scores))) - scores)[0]
    return offset if values.shape[1] == len(shares) else (offset[1:] - offset[:1]) / 2


@dataclass(frozen=True)
class CutTask:
    """Write `values` (v, c): scores whose largest entries are the cut of the graph into classes of known sizes.

    The offsets of `balanced`, last, give as many points to each class as the cut does, which rows between two classes
    may miss.

    shared : `scores` (v, c), `reachable` (v,) bool whether a vertex counts, `lower`, `upper` (c,) the bounds of the
    shares, labels as `VertexLabels`. Memory: `cut_cost`.
    """

    graph: Parts
    vertices: Arrays | None
    shared: Arrays

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.shared.load()
        scores, bounds = arrays["scores"], ClassBounds(arrays["lower"], arrays["upper"])
        laplacian = laplacian_of(self.graph, self.vertices, "unnormalized")
        multiplicity = np.ones(len(scores)) if laplacian.multiplicity is None else laplacian.multiplicity
        counted = multiplicity * arrays["reachable"]
        deviation = float(scores[counted > 0].std()) or 1.0
        likely = balanced(scores, predicted_shares(scores, bounds, counted), counted)
        likely -= likely.mean(axis=1, keepdims=True)
        linear = LINEAR * softmax(likely / (float(likely[counted > 0].std()) or 1.0), axis=1)
        cut = cut_of(laplacian.point_weights, multiplicity, counted, scores / deviation, arrays["vertex"],
                     arrays["mean"], bounds, linear)
        values = balanced(cut.scores, predicted_shares(cut.scores, bounds, counted), counted)
        return {**out.write(values=values), "cut_rounds": cut.rounds, "moved_in_last": cut.moved,
                "size_error": cut.size_error}


def fit_class_sizes(graph: Graph, scores: VertexValues, labels: VertexLabels, bounds: ClassBounds,
                    execution: Execution) -> VertexValues:
    """Return scores that predict the cut into classes whose shares are within bounds, from some scores.

    Held-out values ignore the sizes, which say nothing of a subset of the labels.
    """
    parts = execution.scratch()
    shared = execution.share(scores=scores.values, reachable=scores.reachable, lower=bounds.lower, upper=bounds.upper,
                             **labels.to_arrays())
    receipt, = execution.map([CutTask(graph.stored, graph.shared_vertices(execution), shared)], parts)
    values = np.where(scores.reachable[:, None], parts.read(0)["values"], 0.0)
    return VertexValues(values, scores.reachable, scores.held_out, {
        **scores.attributes, "class_bounds": described_bounds(bounds),
        **{name: receipt[name] for name in ("cut_rounds", "moved_in_last", "size_error")}})


def log_probabilities(log_odds: np.ndarray, sized: np.ndarray, bounds: ClassBounds, weight: np.ndarray) -> np.ndarray:
    """Return log probabilities (v, c) that meet the sizes, and are largest at the classes that scores of them predict.

    They are those without the sizes, the calibrated log_odds (v, c), plus an offset a class that gives the classes
    their sizes. Where the sizes make another class the predicted one, it first gets the probability of the largest;
    then the log odds of the predicted classes grow by `SIZED_LOG_ODDS`. So they take no fit without a label.

    sized (v, c) : the scores that meet the sizes. weight (v,) : as in `balanced`.
    """
    offsets = log_offsets(log_odds, predicted_shares(sized, bounds, weight), weight)
    logs, predicted = log_softmax(log_odds + offsets, axis=1), sized.argmax(axis=1)
    logs[np.arange(len(logs)), predicted] = logs.max(axis=1) + SIZED_LOG_ODDS
    return log_softmax(logs, axis=1)


def described_bounds(bounds: ClassBounds) -> list[list[float]]:
    """Return the least and the largest share of each class; JSON."""
    return np.column_stack([bounds.lower, bounds.upper]).tolist()


def with_class_sizes(scores: VertexValues, log_odds: np.ndarray, sizes: ClassSizes, graph: Graph, target: Classes,
                     weight: np.ndarray | None, execution: Execution, *, harmonic: bool = False) -> VertexValues:
    """Return log probabilities (v, n_classes) whose predictions have known class sizes; see `log_probabilities`.

    log_odds (v, n_classes) : those of the scores without the sizes, calibrated. sizes : as in `class_bounds`.
    harmonic : functions that are shares of classes are scaled by their masses; others become those of a cut. Errors as
    `class_bounds`.
    """
    bounds = class_bounds(sizes, target.names)
    if harmonic:
        scaled = mass_normalized(scores, bounds.shares, graph.vertices.multiplicity)
        sized = replace(scaled, attributes={**scores.attributes, "class_bounds": described_bounds(bounds)})
    else:
        labels = VertexLabels.of(graph.vertices, target, target.indicators(), weight)
        sized = fit_class_sizes(graph, scores, labels, bounds, execution)
    logs = log_probabilities(log_odds, sized.values, bounds, graph.vertices.multiplicity * scores.reachable)
    return replace(sized, values=np.where(scores.reachable[:, None], logs, 0.0))


def mass_normalized(scores: VertexValues, shares: np.ndarray, multiplicity: np.ndarray) -> VertexValues:
    """Return scores scaled so that the mass of each class is its share (class mass normalization, Zhu et al. 2003).

    scores.values (v, c) >= 0, as harmonic functions of shares of classes are.
    """
    weight = multiplicity * scores.reachable
    mass = np.maximum(weight @ scores.values, np.finfo(float).tiny)
    return replace(scores, values=scores.values * (shares / mass * weight.sum()))
