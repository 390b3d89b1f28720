"""Known class sizes: scores become those of the cut of the graph into classes of these sizes.

Where class sizes are known they help most at the lowest label rates; guessed from the labels' proportions they
cost up to 10 points where labels were drawn evenly and the classes are not even. So nothing here guesses.
The cut is found by the alternating direction method of multipliers (ADMM):

    minimize    1/2 tr X' (L - s D) X - <X, M B>    over X >= 0 with X 1 = 1, the rows of labels fixed,
    such that   lower <= mass' X / sum(mass) <= upper

L = D - W. W holds the weights between points, divided by the square roots of the degrees of both and summed over the
points of each vertex, so that duplicates count as they do where each is a vertex. At s = 0 the problem is convex, and
its solution nearly constant; s > 0 drives the rows of X to corners, so that its cost is the weight of the edges between
classes. Each round solves (1 - s) D - W + rho M, one column a class, and projects on the sizes (`SizeProjection`).

References
----------
Holtz, Chen, Cloninger, Mishne, Saito, "CutSSL: continuous graph cuts for semi-supervised learning", NeurIPS 2024.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.special import log_softmax, softmax

from ...base.profiler import library
from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.laplacian import scaled_entries
from ...graph.regularizer import laplacian_of
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..class_prior import ClassBounds, ClassSizes, class_bounds
from ..target.coding import ClassCoding, Coding
from ..target.target import Classes, Target
from .model import VertexLabels, VertexValues

# s, what of the degrees is subtracted; rho, of the multipliers: it has to exceed 1.5 s times the largest degree, which
# is therefore counted up to MAX_DEGREE.
SUBTRACTED, RHO, MAX_DEGREE = 0.2, 0.5, 1.5
CONVEX_ROUNDS, MAX_ROUNDS = 10, 60  # rounds with s = 0, and in all
STEPS = 5  # of conjugate gradients in a round, from the solution of the last one
MOVED = 2e-4  # the share of the mass that changes its class in a round below which the rounds end
SIZES_TOL = 1e-4  # of the sizes that a projection has, as a share of the mass
MAX_STEPS, MAX_HALVINGS = 100, 20  # of Newton's methods, and how often a step is halved
TEMPERATURE = 0.05  # of the softmax, in standard deviations of the scores
LINEAR = 0.2  # of the probabilities by the scores alone, in the cost of a cut, beside degrees of 1
SIZED_LOG_ODDS = 0.5  # by which the sizes favor the class that is predicted with them
MAX_STEP = 5 / TEMPERATURE  # of a log offset: five standard deviations of the scores
SHARES_TOL, ROUNDING = 1e-3, 1e-7  # of the mean probabilities, relative to the shares and absolute
HESSIAN_SHIFT = 1e-6  # for classes that no point has


@dataclass(frozen=True, eq=False)
class Cut:
    """A cut: scores (v, c) whose largest entries are the classes, and how the rounds ended.

    moved : the share of the mass that changed its class in the last round. size_error : by how much the sizes of the
    relaxed cut miss their bounds, summed, as a share of the mass.
    """

    scores: np.ndarray
    rounds: int
    moved: float
    size_error: float


@dataclass(eq=False)
class SizeProjection:
    """The projection on rows >= 0 of sum 1 whose classes have sizes within bounds.

    The projection of Y (v, c) is that of the rows of Y + offset on the simplex. The offsets (c,) are the dual variables
    of the sizes, found from the last ones: of exact sizes by a damped Newton method, of intervals by L-BFGS-B, in
    O(v c log c) a step.

    mass (v,) : of the rows, in the distance and in the sizes. lower, upper (c,) : of the sizes, in units of mass.
    """

    mass: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    offset: np.ndarray

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """Return the projection (v, c); its sizes may miss the bounds by 1e-4 of the mass."""
        return self._exact(Y) if (self.lower == self.upper).all() else self._within(Y)

    def _dual(self, Y: np.ndarray, Z: np.ndarray, offset: np.ndarray) -> float:
        """Return the dual function without its bounds, half the squared distance less offset @ sizes."""
        difference = Z - Y
        return float(self.mass @ np.einsum("ij,ij->i", difference, difference) / 2 - offset @ (self.mass @ Z))

    def _exact(self, Y: np.ndarray) -> np.ndarray:
        """Return the projection on exact sizes.

        A step is at most as long as the largest |Y|, and halved until the dual function is larger. Where no row lies
        between two classes the Newton matrix is 0, and a multiple of the identity stands for it.
        """
        total, longest = self.mass.sum(), float(np.abs(Y).max()) or 1.0
        c = len(self.lower)
        Z = on_simplex(Y + self.offset)
        value = self._dual(Y, Z, self.offset) + self.offset @ self.lower
        for _ in range(MAX_STEPS):
            missing = self.lower - self.mass @ Z
            if np.abs(missing).sum() < SIZES_TOL * total:
                break
            active = (Z > 0).astype(np.float64)
            shared = active * (self.mass / active.sum(axis=1))[:, None]
            jacobian = np.diag(self.mass @ active) - active.T @ shared + 1e-3 * total / c * np.eye(c)
            change = np.linalg.solve(jacobian, missing)
            change *= min(1.0, longest / np.abs(change).max())
            for _ in range(MAX_HALVINGS):
                offset = self.offset + change
                Z = on_simplex(Y + offset)
                climbed = self._dual(Y, Z, offset) + offset @ self.lower
                if climbed > value:
                    break
                change /= 2
            self.offset, value = offset, climbed
        return Z

    def _within(self, Y: np.ndarray) -> np.ndarray:
        """Return the projection on intervals, whose dual variables are one >= 0 for each bound."""
        total, c = self.mass.sum(), len(self.lower)

        def descent(bounds: np.ndarray) -> tuple[float, np.ndarray]:
            raised, lowered = bounds[:c], bounds[c:]
            offset = raised - lowered
            Z = on_simplex(Y + offset)
            sizes = self.mass @ Z
            value = self._dual(Y, Z, offset) + raised @ self.lower - lowered @ self.upper
            return -value / total, -np.concatenate([self.lower - sizes, sizes - self.upper]) / total

        start = np.concatenate([np.maximum(self.offset, 0), np.maximum(-self.offset, 0)])
        best = library("scipy.optimize").minimize(
            descent, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * c),
            options={"gtol": SIZES_TOL / c, "ftol": 0.0, "maxiter": MAX_STEPS}).x
        self.offset = best[:c] - best[c:]
        return on_simplex(Y + self.offset)


def on_simplex(Y: np.ndarray) -> np.ndarray:
    """Return the projections (v, c) of rows on the simplex, by sorting."""
    ordered = -np.sort(-Y, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    count = (ordered * np.arange(1, Y.shape[1] + 1) > excess).sum(axis=1)
    threshold = excess[np.arange(len(Y)), count - 1] / count
    return np.maximum(Y - threshold[:, None], 0)


def cut_of(W: sp.csr_array, multiplicity: np.ndarray, mass: np.ndarray, scores: np.ndarray, labeled: np.ndarray,
           codes: np.ndarray, bounds: ClassBounds, linear: np.ndarray) -> Cut:
    """Return the cut of a graph from scores (v, c), in which the labeled vertices (u,) have their classes (u, c).

    W (v, v) : the weights between vertices, summed over their points. multiplicity (v,) : the points of each vertex.
    mass (v,) : what of these counts in the sizes. codes : rows of sum 1. linear (v, c) : B, for each point of a vertex.
    """
    W = normalized(W, multiplicity)
    degrees = np.asarray(W.sum(axis=1)).ravel() / multiplicity
    total, weight = mass.sum(), RHO * multiplicity
    project = SizeProjection(mass, bounds.lower * total, bounds.upper * total, np.zeros(len(bounds.lower)))
    Z = project(scores)
    Z[labeled] = codes
    project.offset = np.zeros(len(bounds.lower))
    U, X, moved = np.zeros_like(Z), Z.astype(np.float32), 1.0
    for number in range(MAX_ROUNDS):
        if number in (0, CONVEX_ROUNDS):
            subtracted = SUBTRACTED * np.minimum(degrees, MAX_DEGREE) if number else 0.0
            diagonal = (multiplicity * (degrees - subtracted + RHO)).astype(np.float32)
            A = sp.csr_array(sp.diags_array(diagonal) - W.astype(np.float32))
        right = weight[:, None] * (Z - U) + multiplicity[:, None] * linear
        X = _solved(A, diagonal, right.astype(np.float32), X)
        last, Z = Z, project(X + U)
        Z[labeled] = codes
        U += X - Z
        moved = float(mass @ np.abs(Z - last).sum(axis=1) / 2 / total)
        if moved < MOVED and number > CONVEX_ROUNDS:
            break
    sizes = mass @ Z / total
    cut = X + U + project.offset
    cut[labeled] = codes
    return Cut(cut, number + 1, moved, float(np.abs(sizes - np.clip(sizes, bounds.lower, bounds.upper)).sum()))


def normalized(W: sp.csr_array, multiplicity: np.ndarray) -> sp.csr_array:
    """Return weights divided by the square roots of the degrees of a point of both vertices; 0 degrees stay."""
    degrees = np.asarray(W.sum(axis=1)).ravel() / multiplicity
    root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    return sp.csr_array((scaled_entries(W, 1 / root), W.indices, W.indptr), shape=W.shape)


def _solved(A: sp.csr_array, diagonal: np.ndarray, B: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return X (v, c) after `STEPS` of conjugate gradients on A X = B, preconditioned by the diagonal, in float32."""
    tiny = np.finfo(np.float32).tiny
    R = B - A @ X
    scaled = R / diagonal[:, None]
    P, energy = scaled, _dots(R, scaled)
    for _ in range(STEPS):
        AP = A @ P
        length = (energy / np.maximum(_dots(P, AP), tiny)).astype(np.float32)
        X = X + length * P
        R -= length * AP
        scaled = R / diagonal[:, None]
        last, energy = energy, _dots(R, scaled)
        P = scaled + (energy / np.maximum(last, tiny)).astype(np.float32) * P
    return X


def _dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the inner products of the columns, summed in float64."""
    return np.einsum("ij,ij->j", A, B, dtype=np.float64)


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
    """Return the shares of the classes of a target (n_classes,) from sizes as in `class_bounds`; None for None."""
    return class_bounds(sizes, target.names).shares if sizes is not None and isinstance(target, Classes) else None


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
