"""The multi-scale eigen kernel: eigenfunctions of graph Laplacians of several widths, one width an index.

For `eps_j = eps_0 q^j`, j = 0, 1, ..., M, with n landmarks x_i,

    W_j(x, z) = exp(-|x - z|^2 / (4 eps_j)),    L_j = (D_j - W_j) / n,    L_j phi_k^j = lambda_k^j phi_k^j

where M is the first j whose second eigenvalue is below a threshold. One outlier lowers it long before other points fall
apart: outliers are no landmarks (`without_outliers`). For each index k = 2, 3, ... the scale is the j > 0 that
minimizes `|lambda_k^j - lambda_k^(j-1)|` (quasi-optimality), and the kernel is

    K(x, z) = 1 + sum_k Phi_k(x) Phi_k(z) / (n lambda_k)                                                        (eq. 7)
    Phi_k(x) = sum_i W_j(x, x_i) phi_k(x_i) / (d_j(x) - n lambda_k),    d_j(x) = sum_i W_j(x, x_i)              (eq. 5)

The vectors phi_k have unit length: for one scale and all indices the sum is the pseudo-inverse of D - W on the
landmarks.

At a scale at which the graph nearly falls apart the weight 1 / (n lambda) is up to a million times larger than at
others, so K(x, x) differs by orders of magnitude between outliers and other points: by default the kernel is scaled to
unit diagonal.

The denominator of eq. 5 is `d (1 - n lambda_k / d)`, and d vanishes far from all landmarks, so it has a zero, where the
extension diverges and changes its sign. A scale is valid for an index if `1 - n lambda_k / d` is at least `MIN_FACTOR`
at all landmarks; the scale is selected among the valid ones, if there are any. Where the factor is smaller it is
replaced by `MIN_FACTOR`: the extension is then a weighted mean of the eigenvector over `MIN_FACTOR`, and continuous. At
landmarks Phi_k is phi_k itself if the scale is valid.

Cost: about `4 n^3 / 3` flops a scale for eigenvalues, and twice as many a selected scale for vectors; one matrix (n, n)
at a time. Of more points than fit the landmarks are a random subsample, which includes the labeled points.

References
----------
Mhaskar, Pereverzyev, Semenov, Semenova, "Data based construction of kernels for classification", 2018; von Luxburg,
Belkin, Bousquet, "Consistency of spectral clustering", Annals of Statistics 2008 (the condition on the denominator).
"""

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy.linalg import eigh

from ..base.digest import JsonObject, is_real, is_whole
from ..base.errors import BudgetError, DataError, explain, require
from ..base.types import Matrix, MatrixLike
from ..base.units import MEMORY_BUDGET
from ..execution.cost import Cost, cost_of, gram_seconds, largest_within
from ..execution.tasks import Execution
from ..storage.blocks import (
    Arrays,
    Parts,
    PartWriter,
    Receipt,
    Rows,
    block_rng,
    budget_beside,
    row_ranges,
    rows_that_fit,
)
from ..storage.csr import point_arrays, points_of
from .base import RBF, median_bandwidth
from .landmarks import LandmarkParams, choose_landmarks, without_outliers
from .nystrom import FeatureMap
from .points import matching_points, require_finite, squared_distances

MIN_FACTOR = 0.5  # of the denominator, relative to the degree
FIRST_SCALE = 0.5  # eps_0 by "auto", relative to the squared median distance
MAX_LANDMARKS = 2000  # by "auto": 2 s of a core a scale
MIN_PAIRS, PAIRS = 100, 8  # by "auto": an eighth of the landmarks, at least a hundred
MAX_SCALES = 1000
BATCH = 8  # scales whose eigenvalues are computed at a time
SAMPLE = 200  # points at which denominators are checked
STREAM = 21  # of the seed, for them
TIED = 1e-6  # relative tolerance of equal differences, so that degenerate eigenvalues have one scale
ROUNDING = 16 * float(np.finfo(np.float64).eps)  # error of an eigenvalue, relative to the largest


@dataclass(frozen=True, kw_only=True)
class MultiscaleParams:
    """eps_0 : the first scale, in squared units of the features; "auto" is `FIRST_SCALE` times the squared median
        distance of points.

    q : of the scales, one to the next, in (0, 1).
    threshold : the second eigenvalue below which there are no further scales; all are at most 1.
    n_eigenpairs : beside the constant one; "auto" is an eighth of the landmarks, at least `MIN_PAIRS`.
    n_landmarks : the number of landmarks before outliers are dropped; they include the labeled points as long as
        these are no more than half. "auto" is as many as fit the budget, at most `MAX_LANDMARKS`.
    outlier_share : of the landmarks that `without_outliers` drops at most, 0 to 0.5.
    unit_diagonal : whether the kernel is K(x, z) / sqrt(K(x, x) K(z, z)), or eq. 7.
    random_state : of the landmarks. budget : bytes that determine the number of landmarks.
    """

    eps_0: float | Literal["auto"] = "auto"
    q: float = 0.9
    threshold: float = 1e-6
    n_eigenpairs: int | Literal["auto"] = "auto"
    n_landmarks: int | Literal["auto"] = "auto"
    outlier_share: float = 0.05
    unit_diagonal: bool = True
    random_state: int = 0
    budget: int = MEMORY_BUDGET

    def __post_init__(self) -> None:
        require(self.eps_0 == "auto" or (is_real(self.eps_0) and 1e-100 <= float(self.eps_0) <= 1e100),
                f'eps_0={self.eps_0!r}, expected a positive number or "auto"',
                why="it is the first of the scales, in squared units of the features", fix='use "auto"')
        require(is_real(self.q) and 0 < self.q < 1, f"q={self.q!r}, expected a number between 0 and 1",
                why="each scale is q times the one before", fix="use 0.9, or 0.8 for half as many")
        require(is_real(self.threshold) and 0 < self.threshold < 1,
                f"threshold={self.threshold!r}, expected a number between 0 and 1",
                why="scales end where the second eigenvalue falls below it", fix="use 1e-6")
        require(is_real(self.outlier_share) and 0 <= self.outlier_share <= 0.5,
                f"outlier_share={self.outlier_share!r}, expected a number from 0 to 0.5",
                why="it is the share of the landmarks that may be dropped", fix="use 0.05, or 0 to drop none")
        for name, smallest in (("n_eigenpairs", 1), ("n_landmarks", 2)):
            value = getattr(self, name)
            require(value == "auto" or (is_whole(value) and value >= smallest),
                    f'{name}={value!r}, expected a whole number >= {smallest} or "auto"',
                    why="it is a number of points or eigenpairs", fix='use "auto"')
        require(isinstance(self.unit_diagonal, bool), f"unit_diagonal={self.unit_diagonal!r}, expected true or false",
                why="it says how the kernel is scaled", fix="leave it out")

    def count(self, n: int, d: int) -> int:
        """Return the number of landmarks of n points of d columns; raise BudgetError if they do not fit."""
        def budget_for(s: int) -> int:
            return budget_beside(landmark_bytes(s, d, self.pairs_of(s)))

        fit = largest_within(self.budget, n, budget_for)
        asked = 2 if self.n_landmarks == "auto" else min(int(self.n_landmarks), n)
        needed = budget_for(asked)
        require(fit >= asked, f"{asked:,} landmarks of {d:,} columns", error=BudgetError,
                why=f"a matrix of their pairs with eigenvectors takes {needed:,} bytes, the budget is {self.budget:,}",
                fix=f"use a budget of {needed:,} bytes" + (f", or n_landmarks={fit}" if fit >= 2 else ""))
        return min(fit, MAX_LANDMARKS) if self.n_landmarks == "auto" else asked

    def pairs_of(self, s: int) -> int:
        """Return the number of eigenpairs of s landmarks beside the constant one."""
        return min(max(MIN_PAIRS, s // PAIRS) if self.n_eigenpairs == "auto" else int(self.n_eigenpairs), s - 1)


@dataclass(frozen=True, eq=False)
class MultiscaleMap(FeatureMap):
    """`Phi(x) = (1, Phi_2(x) / sqrt(n lambda_2), ...)`, whose kernel is eq. 7, or the same at unit length.

    points (s, d) : the landmarks. scales (t,) : the selected eps_j, descending. scale (r,) : the number of that of each
    index. values (r,) : n lambda_k. vectors (s, r) : phi_k, of unit length. unit_diagonal : whether features have unit
    length. attributes : JSON evidence.
    """

    points: Matrix
    scales: np.ndarray
    scale: np.ndarray
    values: np.ndarray
    vectors: np.ndarray
    unit_diagonal: bool = True
    attributes: JsonObject = field(default_factory=dict)

    @property
    def width(self) -> int:
        return len(self.values) + 1

    @property
    def widest(self) -> RBF:
        """W of the largest scale, for the distance of new points to the landmarks."""
        return weights_at(float(self.scales[0]))

    @property
    def typical(self) -> float:
        """The median of K(x_i, x_i) over the landmarks."""
        return 1.0 if self.unit_diagonal else float(np.median(1 + self.vectors**2 @ (1 / self.values)))

    def __call__(self, X: MatrixLike) -> np.ndarray:
        D = squared_distances(*matching_points(X, self.points))
        features = np.ones((len(D), self.width))
        for indices, W, degrees, factor in self._by_scale(D):
            features[:, 1 + indices] = W @ self.vectors[:, indices] / (
                degrees[:, None] * np.maximum(factor, MIN_FACTOR) * np.sqrt(self.values[indices]))
        if self.unit_diagonal:
            features /= np.linalg.norm(features, axis=1, keepdims=True)
        return features

    def of_rows(self, rows: Rows, numbers: np.ndarray, budget: int) -> np.ndarray:
        """Return the features (m, r + 1) of some rows, in blocks that fit an eighth of the budget."""
        height = rows_that_fit(budget, self.row_bytes + 3 * rows.row_bytes, len(numbers), share=8)
        return np.concatenate([np.empty((0, self.width)), *(
            self(rows.take(numbers[start:stop])) for start, stop in row_ranges(len(numbers), height))])

    @property
    def row_bytes(self) -> int:
        """The bytes of a point in a computation of features, beside the point."""
        return 8 * (3 * self.points.shape[0] + 4 * self.width)

    def unsound(self, X: MatrixLike) -> float:
        """Return the share of pairs of a point and an index with a factor below `MIN_FACTOR`."""
        D = squared_distances(*matching_points(X, self.points))
        unsound = sum(int((factor < MIN_FACTOR).sum()) for *_, factor in self._by_scale(D))
        return unsound / max(len(D) * len(self.values), 1)

    def _by_scale(self, D: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield for squared distances D (b, s) and each scale its indices (i,), W (b, s), degrees (b,), and the factor
        `1 - n lambda / d` (b, i); W and degrees are relative to the largest W of a row, against underflow."""
        nearest = D.min(axis=1, keepdims=True)
        for number, eps in enumerate(self.scales):
            indices = np.flatnonzero(self.scale == number)
            W = np.subtract(nearest, D)
            W /= 4 * eps
            np.exp(W, out=W)
            degrees = W.sum(axis=1)
            with np.errstate(over="ignore"):
                factor = 1 - np.exp(nearest / (4 * eps)) * (self.values[indices] / degrees[:, None])
            yield indices, W, degrees, factor

    def arrays(self) -> dict[str, np.ndarray]:
        return {**point_arrays("points", self.points), "scales": self.scales, "scale": self.scale,
                "values": self.values, "vectors": self.vectors, "unit_diagonal": np.array([self.unit_diagonal])}

    @classmethod
    def of(cls, arrays: dict[str, np.ndarray], attributes: JsonObject | None = None) -> "MultiscaleMap":
        """Return the map of its `arrays`."""
        return cls(points_of(arrays, "points"), arrays["scales"], arrays["scale"], arrays["values"],
                   arrays["vectors"], bool(arrays["unit_diagonal"][0]), attributes or {})


def weights_at(eps: float) -> RBF:
    """Return W of a scale, `exp(-|x - z|^2 / (4 eps))`."""
    return RBF(float(np.sqrt(2 * eps)))


def laplacian_of(points: Matrix, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (D - W) / n (n, n) of points at a scale, and the degrees (n,)."""
    L = weights_at(eps)(points, points)
    degrees = L.sum(axis=1)
    L *= -1 / len(L)
    L[np.diag_indices_from(L)] += degrees / len(L)
    return L, degrees


@dataclass(frozen=True)
class EigenvaluesTask:
    """Write the `count` lowest eigenvalues `values` of a scale, and the smallest degree, `min_degree`."""

    points: Arrays
    eps: float
    count: int

    def __call__(self, out: PartWriter) -> Receipt:
        L, degrees = laplacian_of(points_of(self.points.load(), "points"), self.eps)
        values = eigh(L.T, eigvals_only=True, driver="evd", overwrite_a=True, check_finite=False)
        return out.write(values=values[:self.count], min_degree=degrees.min(keepdims=True))


@dataclass(frozen=True)
class EigenvectorsTask:
    """Write `values` (i,) and `vectors` (n, i) of some indices, ascending from 0, at a scale."""

    points: Arrays
    eps: float
    indices: tuple[int, ...]

    def __call__(self, out: PartWriter) -> Receipt:
        L, _ = laplacian_of(points_of(self.points.load(), "points"), self.eps)
        ends = self.indices[0], self.indices[-1]
        values, V = eigh(L.T, subset_by_index=ends, driver="evr", overwrite_a=True, check_finite=False)
        places = np.array(self.indices) - ends[0]
        return out.write(values=values[places], vectors=signed(V[:, places]))


def signed(V: np.ndarray) -> np.ndarray:
    """Return vectors (n, i) whose largest entry is positive."""
    return V * np.where(V[np.abs(V).argmax(axis=0), np.arange(V.shape[1])] < 0, -1.0, 1.0)


def selected_scales(values: np.ndarray, min_degrees: np.ndarray, n: int) -> tuple[np.ndarray, dict[str, int]]:
    """Return the scale j (r,) of each index by quasi-optimality, -1 if its eigenvalue is 0 at all scales, and counts.

    values : (M + 1, r + 1), the eigenvalues at each scale, first that of the constant vector. min_degrees : (M + 1,).
    The counts: `passed_over`, indices whose optimal scale is not valid; `unsound`, those without a valid scale;
    `dropped`, those without a scale.
    """
    differences = np.abs(np.diff(values[:, 1:], axis=0))
    positive = values[1:, 1:] > ROUNDING * values[1:, -1:]
    valid = positive & (n * values[1:, 1:] <= (1 - MIN_FACTOR) * min_degrees[1:, None])
    optimal = _first_smallest(np.where(positive, differences, np.inf))
    optimal_valid = _first_smallest(np.where(valid, differences, np.inf))
    has_valid = valid.any(axis=0)
    best = np.where(has_valid, optimal_valid, optimal) + 1
    has_scale = positive.any(axis=0)
    return np.where(has_scale, best, -1), {
        "passed_over": int((has_valid & (optimal_valid != optimal)).sum()),
        "unsound": int((has_scale & ~has_valid).sum()), "dropped": int((~has_scale).sum())}


def _first_smallest(differences: np.ndarray) -> np.ndarray:
    """Return the first row (r,) of each column whose entry is the smallest, up to rounding."""
    return (differences <= differences.min(axis=0) * (1 + TIED)).argmax(axis=0)


def multiscale_map(rows: Rows, params: MultiscaleParams, labeled: np.ndarray, execution: Execution,
                   parts: Parts | None = None) -> MultiscaleMap:
    """Return the features of the multi-scale kernel of all rows (n, d); labeled : the numbers of the labeled ones.

    parts : of the eigenvalues and eigenvectors of each scale, where finished ones are reused; scratch by default.
    Memory: `landmark_bytes` a task.

    Warns
    -----
    UserWarning : the second eigenvalue is below the threshold at the first scale already.
    """
    begin, (n, d) = time.perf_counter(), rows.shape
    require(n >= 2, f"{n} point, n_samples={n}", error=DataError, why="a graph has two points or more",
            fix="pass more points")
    if (s := params.count(n, d)) == n:
        points = rows.take(np.arange(n))
        require_finite(points, "the points hold")
    else:
        points = choose_landmarks(rows, weights_at(1.0), s, LandmarkParams(random_state=params.random_state), execution,
                                  labeled).points
    n_landmarks = points.shape[0]
    points = points[without_outliers(points, params.outlier_share)]
    s = points.shape[0]
    require(s >= 2, f"all landmarks of {n:,} points are equal", why="a graph has two points or more",
            fix="use more landmarks (n_landmarks)", error=DataError)
    eps_0 = float(params.eps_0) if params.eps_0 != "auto" else FIRST_SCALE * median_bandwidth(
        rows, params.random_state)**2
    pairs = params.pairs_of(s)
    shared = execution.share(**point_arrays("points", points))
    steps = parts or execution.scratch()
    scales, values, min_degrees = _eigenvalues(shared, eps_0, params, pairs, execution, steps.within("values"))
    if len(values) == 2 and values[0, 1] < params.threshold:
        warnings.warn(explain(
            f"the second eigenvalue is {values[0, 1]:.2g} at the first scale, below threshold={params.threshold:g}",
            why="some points lie far from all others for that scale, or it is too small, so that closer points are not "
                "distinguished", fix="drop points that lie far off, scale the features, or give a larger eps_0"),
            UserWarning, stacklevel=2)
    chosen, counts = selected_scales(values, min_degrees, s)
    seconds = {"values": time.perf_counter() - begin}
    used = np.unique(chosen[chosen >= 0])
    require(len(used) > 0, f"at eps_0={eps_0:g} and below no two of {s:,} landmarks are joined", error=DataError,
            why="all eigenvalues are 0, and the kernel is constant", fix='give a larger eps_0, or "auto"')
    tasks = [EigenvectorsTask(shared, float(scales[j]), tuple(int(k) + 1 for k in np.flatnonzero(chosen == j)))
             for j in used]
    place = steps.within("vectors")
    execution.map(tasks, place)
    kept = np.flatnonzero(chosen >= 0)
    vectors = np.empty((s, len(kept)))
    of_index = np.empty(len(kept))
    for number, j in enumerate(used):
        part = place.read(number)
        mine = np.searchsorted(kept, np.flatnonzero(chosen == j))
        vectors[:, mine] = part["vectors"]
        of_index[mine] = part["values"]
    if parts is None:
        steps.remove()
    features = MultiscaleMap(points, scales[used], np.searchsorted(used, chosen[kept]), s * of_index, vectors,
                             params.unit_diagonal)
    sample = np.sort(block_rng(params.random_state, STREAM).permutation(n)[:SAMPLE])
    seconds["all"] = time.perf_counter() - begin
    return replace(features, attributes={
        "landmarks": s, "outliers": n_landmarks - s, "eigenpairs": len(kept), "eps_0": eps_0, "scales": scales.tolist(),
        "second": values[:, 1].tolist(), "index": (kept + 2).tolist(), "chosen": chosen[kept].tolist(),
        "eigenvalues": of_index.tolist(), **counts, "unsound_share": features.unsound(rows.take(sample)),
        "predicted_peak_bytes": multiscale_cost(n, d, rows.row_bytes, s, pairs, 0).peak,
        "seconds": {name: round(value, 3) for name, value in seconds.items()}})


def _eigenvalues(points: Arrays, eps_0: float, params: MultiscaleParams, pairs: int, execution: Execution,
                 parts: Parts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the scales (M + 1,), their eigenvalues (M + 1, pairs + 1) and smallest degrees (M + 1,), M >= 1."""
    scales: list[float] = []
    last = None
    while last is None:
        require(len(scales) < MAX_SCALES, f"{len(scales):,} scales, and the second eigenvalue is still above "
                f"threshold={params.threshold:g}", error=DataError, why="scales shrink by q until no path joins all "
                "points", fix="use a smaller q, a larger threshold, or a smaller eps_0")
        scales = [eps_0 * params.q**j for j in range(len(scales) + BATCH)]
        execution.map([EigenvaluesTask(points, eps, pairs + 1) for eps in scales], parts)
        spectra = [parts.read(j) for j in range(len(scales))]
        last = next((j for j in range(1, len(scales)) if spectra[j]["values"][1] < params.threshold), None)
    spectra = spectra[:last + 1]
    return (np.array(scales[:last + 1]), np.stack([spectrum["values"] for spectrum in spectra]),
            np.concatenate([spectrum["min_degree"] for spectrum in spectra]))


def landmark_bytes(s: int, d: int, pairs: int) -> int:
    """Return the bytes of s landmarks of d columns: a Laplacian, its eigenvectors and the points three times each."""
    return 8 * s * (s + 3 * (pairs + 1) + 3 * d + 40)


def multiscale_cost(n: int, d: int, row_bytes: int, s: int, pairs: int, n_scales: int) -> Cost:
    """Return the cost of the map of s landmarks, with `n_scales` for eigenvalues, and at most as many for vectors."""
    tasks = 2 * n_scales
    return cost_of(tasks, tasks * s * row_bytes + SAMPLE * row_bytes, 8 * s * (d + pairs) + 8 * n_scales * pairs,
                   landmark_bytes(s, d, pairs), landmark_bytes(s, d, pairs), tasks * gram_seconds(s, s))
