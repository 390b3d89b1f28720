"""Soft labels: what another model says of the points, and how much it counts beside a learner's own scores.

Of classes, the learner and the other model are multiplied (a logarithmic opinion pool):

    log P(class | x) = a log P_own(class | x) + sum_k b_k log P_k(class | x) + constant

The P_k are the soft labels, and the same smoothed on a graph; their centered logarithms are divided by the root mean
square. a and b >= 0 have the highest posterior probability given the held-out labels, of which neither P_own nor P_k
knows the class. log a has a normal prior, b_k exponential and normal ones, so that b is exactly 0 unless the labels say
more: soft labels without information cost next to nothing (`tests/benchmarks/soft_labels.py`). Of quantities, a
weighted mean of both has the least squares, with a penalty on all that is not the learner.

References
----------
Genest, Zidek, "Combining probability distributions", Statistical Science 1986; Wolpert, "Stacked generalization", 1992.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, softmax

from ..base.errors import DataError, explain, require
from ..base.profiler import library
from ..storage.blocks import Rows
from .target.target import Classes, Target

SOFTENING = 1e-3  # added to each probability, so that its logarithm is finite
SUM_TOLERANCE = 1e-3  # of the probabilities of a row
RATE, DEVIATION, LEARNER_DEVIATION = 3.0, 3.0, 0.5  # of the priors of b, and of log a
MAX_WEIGHT = 20.0
PENALTY = 3.0  # of quantities: squared residuals of labels that a weight has to save
SIMILAR_NUMBERS = 1 << 20  # of a block of rows whose similarities are computed
GROUPS = 10  # of labels, for cross-fitted weights


@dataclass(frozen=True, eq=False)
class SoftLabels:
    """What another model says of all points: class probabilities (n, n_classes), or quantities (n, c).

    folds : of a model that was itself fitted to the labels, the positions of some labels and what a fit without them
    says of all points, (n, c); of any other model there are none.
    """

    values: np.ndarray
    folds: Sequence[tuple[np.ndarray, np.ndarray]] = ()

    def at_labels(self, labeled: np.ndarray) -> np.ndarray:
        """Return the values at the labeled points (l,), each by a fit without its label; NaN where there is none."""
        if not self.folds:
            return self.values[labeled]
        values = np.full((len(labeled), self.values.shape[1]), np.nan)
        for fold, held_out in self.folds:
            values[fold] = held_out[labeled[fold]]
        return values


@dataclass(frozen=True, eq=False)
class Weights:
    """How much the `learner`, and each of some others, (k,), count."""

    learner: float
    others: np.ndarray


def require_soft_labels(values: np.ndarray, n: int, names: np.ndarray | None, name: str = "soft_labels",
                        rows: np.ndarray | None = None) -> np.ndarray:
    """Return soft labels of n points as float64 (n, c), of classes with rows of sum 1.

    names (n_classes,) : the classes; None for quantities. rows (n,) : the numbers of the points in messages. Raises
    DataError: another shape, values that are not finite, or of classes rows that are no probabilities.
    """
    values = np.atleast_1d(np.asarray(values, np.float64))
    if names is None:
        values = values[:, None] if values.ndim == 1 else values
        of_classes, why, fix = "", "each point has a row", "pass one row a point"
    else:
        of_classes = f" and the {len(names)} classes {names.tolist()[:10]}"
        why = "each point has a row, with a column for each class in ascending order"
        fix = "pass one row a point, and name the classes of the columns by classes=..."
    count = values.shape[-1] if names is None else len(names)
    require(values.shape == (n, count), f"{name} has shape {values.shape} for {n} points{of_classes}", error=DataError,
            why=why, fix=fix)
    numbers = np.arange(n) if rows is None else rows
    wrong = np.flatnonzero(~np.isfinite(values).all(axis=1))
    require(len(wrong) == 0, error=DataError, what="" if not len(wrong) else
            f"{name} has {len(wrong)} rows that are not finite, first row {numbers[wrong[0]]}",
            why="each point has an opinion of the other model",
            fix="fill these rows, of classes with equal probabilities where the model says nothing")
    if names is None:
        return values
    sums = values.sum(axis=1)
    wrong = np.flatnonzero((values < 0).any(axis=1) | (np.abs(sums - 1) > SUM_TOLERANCE))
    require(len(wrong) == 0, error=DataError, what="" if not len(wrong) else
            f"{name} has {len(wrong)} rows that are no probabilities, first row {numbers[wrong[0]]}: "
            f"{values[wrong[0]][:10]}",
            why="the probabilities of the classes are >= 0 and sum to 1",
            fix="divide each row by its sum, or take the softmax of scores")
    return values / sums[:, None]


def class_similarities(X: np.ndarray, embeddings: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Return the cosines (n, n_classes) of points (n, d) less `center` (d,), and class vectors less their own mean.

    The class vectors of a language-image model lie apart from the images, which does not matter so.
    """
    A, B = X - center, embeddings - embeddings.mean(axis=0)
    tiny = np.finfo(float).tiny
    norms = np.maximum(np.linalg.norm(A, axis=1), tiny)[:, None] * np.maximum(np.linalg.norm(B, axis=1), tiny)
    cosines: np.ndarray = A @ B.T / norms
    return cosines


def similarity_probabilities(cosines: np.ndarray) -> np.ndarray:
    """Return class probabilities (n, n_classes) of the cosines with class vectors, with classes of equal mean.

    They are the softmax of the cosines less their mean over the classes, divided by the root mean square of all: a
    temperature without labels.
    """
    centered = cosines - cosines.mean(axis=1, keepdims=True)
    P = softmax(centered / (np.sqrt((centered**2).mean()) or 1.0), axis=1)
    P /= P.mean(axis=0)
    probabilities: np.ndarray = P / P.sum(axis=1, keepdims=True)
    return probabilities


def vector_probabilities(rows: Rows, vectors: np.ndarray) -> np.ndarray:
    """Return class probabilities (n, n_classes) of rows (n, d) by the class vectors (n_classes, d) in their space."""
    height = max(1, SIMILAR_NUMBERS // rows.shape[1])
    sums = sum((np.asarray(block.sum(axis=0, dtype=np.float64)).ravel() for _, block in rows.blocks(height)),
               np.zeros(rows.shape[1]))
    return similarity_probabilities(np.concatenate([
        class_similarities(block.toarray() if hasattr(block, "toarray") else block, vectors, sums / len(rows))
        for _, block in rows.blocks(height)]))


def require_embeddings(embeddings: np.ndarray, width: int, name: str = "class_embeddings") -> np.ndarray:
    """Return class vectors as float64 (n_classes, d).

    Raises DataError: they have another width, are not finite, or two of them are equal.
    """
    embeddings = as_numbers(embeddings, name)
    require(embeddings.ndim == 2 and embeddings.shape[1] == width, error=DataError,
            what=f"{name} has shape {embeddings.shape}, and X has {width} columns",
            why="each class has a vector in the space of X", fix="pass one row a class, with the columns of X")
    require(bool(np.isfinite(embeddings).all()), f"{name} is not finite", error=DataError,
            why="points are compared with the vectors", fix="replace NaN and infinite entries")
    first = np.unique(embeddings, axis=0, return_index=True)[1]
    repeated = np.setdiff1d(np.arange(len(embeddings)), first)
    require(len(repeated) == 0, error=DataError, what="" if not len(repeated) else
            f"{name}: row {repeated[0]} (counted from 0) is equal to an earlier row",
            why="points cannot be nearer to one class than to another with the same vector",
            fix="give each class a vector of its own")
    return embeddings


def as_numbers(values: object, name: str) -> np.ndarray:
    """Return what another model says as an array of float64; raise DataError where it is none."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(explain(f"{name} is of type {type(values).__name__}, expected an array of numbers: {error}",
                                why="each entry is a number", fix="pass a NumPy array; of a sparse matrix "
                                "matrix.toarray(), of a dict its values in the order of the classes")) from error


def log_odds(P: np.ndarray) -> np.ndarray:
    """Return the logarithms of probabilities (n, n_classes), less their mean over the classes."""
    logs = np.log(np.maximum(P, 0.0) + SOFTENING)
    centered: np.ndarray = logs - logs.mean(axis=1, keepdims=True)
    return centered


def pool(target: Target, weights: Weights, learned: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the pool of learned values (n, c) and those of others (k, n, c): log probabilities, or quantities."""
    values = weights.learner * learned + np.tensordot(weights.others, others, 1)
    return log_softmax(values, axis=1) if isinstance(target, Classes) else values


def pool_weights(target: Target, learned: np.ndarray, others: np.ndarray, weight: np.ndarray | None) -> Weights:
    """Return the weights by which held-out learned values (l, c) and those of others (k, l, c) predict the labels.

    Of classes both are centered log probabilities, 0 where nothing is known. weight (l,) : of the labels.
    """
    if not len(learned):
        return Weights(1.0, np.zeros(len(others)))
    w = np.ones(len(learned)) if weight is None else weight / weight.mean()
    if not isinstance(target, Classes):
        return _mean_weights(target.columns(), learned, others, w)
    rows, k = np.arange(len(learned)), len(others)

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = np.exp(parameters[0]), parameters[1:]
        logs = log_softmax(a * learned + np.tensordot(b, others, 1), axis=1)
        excess = np.exp(logs)
        excess[rows, target.coded] -= 1
        excess *= w[:, None]
        value = parameters[0]**2 / (2 * LEARNER_DEVIATION**2) + (RATE * b + b**2 / (2 * DEVIATION**2)).sum()
        gradient = np.concatenate([[a * (excess * learned).sum() + parameters[0] / LEARNER_DEVIATION**2],
                                   (excess * others).sum(axis=(1, 2)) + RATE + b / DEVIATION**2])
        return float(value - w @ logs[rows, target.coded]), gradient

    minimum = library("scipy.optimize").minimize(objective, np.zeros(1 + k), jac=True, method="L-BFGS-B",
                                               bounds=[(-4.0, 2.0), *[(0.0, MAX_WEIGHT)] * k]).x
    return Weights(float(np.exp(minimum[0])), minimum[1:])


def _mean_weights(Y: np.ndarray, learned: np.ndarray, others: np.ndarray, w: np.ndarray) -> Weights:
    """Return weights >= 0 of sum 1 that minimize the squares, plus `PENALTY` mean squares times the others' weights.

    The mean square is the least that the learner or one of the others has.
    """
    root = np.sqrt(w)[:, None]
    differences = np.stack([(root * (each - learned)).ravel() for each in (*others, Y)], axis=1)
    A, residual = differences[:, :-1], differences[:, -1]
    losses = [float(residual @ residual), *((residual[:, None] - A) ** 2).sum(axis=0)]
    unit = min(losses) / len(Y)
    # |A b - r|^2 + 2 c sum b with c = PENALTY unit / 2: a Cholesky factor turns it into least squares.
    G = A.T @ A + max(1e-9 * float(np.trace(A.T @ A)), np.finfo(float).tiny) * np.eye(A.shape[1])
    L = np.linalg.cholesky(G)
    b, _ = library("scipy.optimize").nnls(L.T, np.linalg.solve(L, A.T @ residual - PENALTY * unit / 2))
    b = b / max(1.0, b.sum())
    return Weights(1 - float(b.sum()), b)


def cross_fitted_pool(target: Target, learned: np.ndarray, others: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the pool (l, c) at the labels, each with the weights of other labels."""
    values, labels = np.array(learned), np.arange(len(learned))
    groups = [labels[first::GROUPS] for first in range(min(GROUPS, len(learned)))]
    for group in groups:
        rest = np.setdiff1d(labels, group)
        if not len(rest):
            rest = group
        weights = pool_weights(target.take(rest), learned[rest], others[:, rest],
                               None if weight is None else weight[rest])
        values[group] = pool(target, weights, learned[group], others[:, group])
    return values
