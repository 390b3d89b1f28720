"""Estimators in the kernel deformed by the graph of all points: `LapSVC` and `LapKernelRidge`."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ..blocks import Rows, as_rows
from ..data.labels import encode_labels
from ..errors import DataError, require
from ..execution import current_execution
from ..graph.neighbors import NeighborParams
from ..graph.regularizer import RegularizerParams
from ..graph.weights import WeightParams
from ..kernels.base import kernel_from
from ..solvers.solve import SolverParams
from .base import KernelModel, expand
from .graph_kernel import GraphKernelParams, deform, evidence_of, graph_covariance
from .learners import LearnerParams, fit_labels, fit_values


class DeformedKernelEstimator(BaseEstimator):
    """What the estimators in a deformed kernel share: parameters, graph, kernel, prediction.

    Parameters
    ----------
    kernel : base kernel: "rbf", "laplacian", "linear", "polynomial", "cosine", or a function (X, Z) -> block.
    bandwidth : of the base kernel, in units of the features: a number, "median" or a multiple such as "0.5*median".
    C : penalty of the loss, for a kernel of unit mean diagonal.
    eta : weight of the graph against the base kernel; relative, see `dssl.models.graph_kernel.deform`.
    n_neighbors, metric, weights, symmetrize : the graph; see `NeighborParams` and `WeightParams`.
    laplacian, ridge, power : the regularizer `Q = (L + ridge I)^power`.
    n_subsample : points at which functions are measured; the labeled ones are among them.
    method : neighbor search: "exact", "descent" or "auto". tolerance : relative residual of the solves.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats) or None (objects).
    seed : of every random choice.
    """

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = "0.5*median", C: float = 10.0,
                 eta: float = 10.0, n_neighbors: int = 10, metric: str = "euclidean", weights: str = "self_tuned",
                 symmetrize: str = "maximum", laplacian: str = "normalized", ridge: float = 0.01, power: int = 2,
                 n_subsample: int = 1000, method: str = "auto", tolerance: float = 1e-6, unlabeled: Any = None,
                 seed: int = 0):
        self.kernel, self.bandwidth, self.C, self.eta = kernel, bandwidth, C, eta
        self.n_neighbors, self.metric, self.weights, self.symmetrize = n_neighbors, metric, weights, symmetrize
        self.laplacian, self.ridge, self.power = laplacian, ridge, power
        self.n_subsample, self.method, self.tolerance = n_subsample, method, tolerance
        self.unlabeled, self.seed = unlabeled, seed

    def _params(self) -> GraphKernelParams:
        return GraphKernelParams(
            neighbors=NeighborParams(n_neighbors=self.n_neighbors, method=self.method,  # type: ignore[arg-type]
                                     metric=self.metric, seed=self.seed),  # type: ignore[arg-type]
            weights=WeightParams(kind=self.weights, symmetrize=self.symmetrize),  # type: ignore[arg-type]
            regularizer=RegularizerParams(laplacian=self.laplacian, ridge=self.ridge,  # type: ignore[arg-type]
                                          power=self.power),
            solver=SolverParams(tolerance=self.tolerance, seed=self.seed),
            n_subsample=self.n_subsample, seed=self.seed)

    def _rows(self, X: Any, y: Any) -> Rows:
        """Return the points as rows that every task can read, after checking them."""
        require(y is not None, f"{type(self).__name__} requires y to be passed, but the target y is None",
                why="it learns from the points that have a label", fix="pass y with the marker of unlabeled points",
                error=DataError)
        require(0 <= self.eta < np.inf, f"eta={self.eta!r}, expected a finite number >= 0",
                why="it weighs the graph against the base kernel", fix="use 0 for the base kernel, or 1 to 1000")
        given = X if isinstance(X, Rows) else as_rows(validate_data(self, X, dtype=[np.float32, np.float64]))
        self.n_features_in_ = given.shape[1]
        return given

    def _deformed_gram(self, rows: Rows, labeled: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return the deformed kernel, the labeled points (l, d) and its Gram matrix on them (l, l)."""
        params = self._params()
        execution = current_execution()
        rows = execution.share_rows(rows)
        base = kernel_from(self.kernel, self.bandwidth if isinstance(self.kernel, str) else None, rows=rows,
                           seed=self.seed)
        covariance = graph_covariance(rows, labeled, params, execution)
        kernel = deform(base, rows.take(covariance.subsample), covariance.powers[self.power], self.eta)
        points = rows.take(labeled)
        self.evidence_ = evidence_of(covariance)
        self.subsample_ = covariance.subsample
        return kernel, points, kernel(points, points)

    def _values(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        if not isinstance(X, Rows):
            X = validate_data(self, X, dtype=[np.float32, np.float64], reset=False)
        execution = current_execution()
        return self.model_.values(execution.share_rows(as_rows(X)), execution)


class LapSVC(ClassifierMixin, DeformedKernelEstimator):
    """Support vector machine in the kernel deformed by the graph of all points; any number of classes.

    `fit(X, y)` takes all points, with y = -1 (integers), NaN (floats) or None (objects) where there is no label. It
    runs on the active Dask client if there is one, in threads of this process otherwise, with the same result.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,). model_ : KernelModel, what prediction needs and no more.
    subsample_ : ndarray, shape (s,). evidence_ : dict, what the graph and the solves say of themselves.

    References
    ----------
    Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS 2012, eq. 6.
    """

    __doc__ += DeformedKernelEstimator.__doc__ or ""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on all points X (n, d) with their labels y (n,); return self.

        Raises
        ------
        ParameterError : a parameter is out of range. DataError : y is of another length, has fewer than two classes, or
            is a quantity. ValueError : X is not finite (from scikit-learn).
        """
        learner, rows = LearnerParams(C=self.C), self._rows(X, y)
        column = getattr(y, "shape", ())[1:] == (1,)
        codes, self.classes_ = encode_labels(column_or_1d(y, warn=True) if column else y, self.unlabeled)
        require(len(codes) == len(rows), f"y has {len(codes)} labels for {len(rows)} points", error=DataError,
                why="each point has a label or the marker of none", fix="pass one entry a point")
        whole = self.classes_.dtype.kind != "f" or bool((self.classes_ == np.round(self.classes_)).all())
        require(whole, f"Unknown label type: continuous, such as {self.classes_[:3].tolist()}", error=DataError,
                why="fractions are quantities, not classes", fix="use LapKernelRidge, or make the labels integers")
        require(len(self.classes_) >= 2, f"y has {len(self.classes_)} class(es)", error=DataError,
                why="a classifier tells at least two classes apart", fix="label points of another class")
        labeled = np.flatnonzero(codes >= 0)
        kernel, points, K = self._deformed_gram(rows, labeled)
        coef, intercept, coding = fit_labels(K, codes[labeled], len(self.classes_), learner)
        self.model_: KernelModel = expand(kernel, points, coef, intercept, coding, self.classes_, {})
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return one score a class, shape (n, n_classes), or for two classes one score, shape (n,)."""
        values = self._values(X)
        return -values[:, 0] if len(self.classes_) == 2 else self.model_.scores(values)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted labels, shape (n,)."""
        values = self._values(X)
        return self.classes_[self.model_.codes(values)]


class LapKernelRidge(RegressorMixin, DeformedKernelEstimator):
    """Kernel ridge regression in the kernel deformed by the graph; the targets of unlabeled points are NaN.

    Attributes
    ----------
    model_ : KernelModel. subsample_ : ndarray, shape (s,). evidence_ : dict.
    """

    __doc__ += DeformedKernelEstimator.__doc__ or ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on all points X (n, d) with targets y (n,) or (n, c); return self. A row with a NaN is unlabeled."""
        learner, rows = LearnerParams(kind="ridge", C=self.C), self._rows(X, y)
        given = np.asarray(y)
        marked = given.dtype.kind in "iu" and bool((given == -1).any())
        require(self.unlabeled is not None or not marked, "y holds integers, and -1 is among them", error=DataError,
                why="NaN marks unknown targets here, so -1 would be fitted as a value",
                fix="pass unlabeled=-1 if it marks unknown targets, or y as floats if it is a value")
        targets = given.astype(np.float64)
        if self.unlabeled is not None:
            targets[targets == float(self.unlabeled)] = np.nan
        require(len(targets) == len(rows) and targets.ndim in (1, 2), error=DataError,
                what=f"y has shape {targets.shape} for {len(rows)} points",
                why="each point has a target or NaN", fix="pass one row a point")
        require(not np.isinf(targets).any(), f"y has {int(np.isinf(targets).sum())} infinite targets", error=DataError,
                why="no function with a finite norm takes them", fix="mark them unknown with NaN, or drop these rows")
        targets = targets.reshape(len(targets), -1)
        labeled = np.flatnonzero(~np.isnan(targets).any(axis=1))
        require(len(labeled) >= 1, "no target is a number", error=DataError,
                why="there is nothing to fit", fix="give at least one point a target")
        kernel, points, K = self._deformed_gram(rows, labeled)
        coef, intercept = fit_values(K, targets[labeled], learner)
        self.model_: KernelModel = expand(kernel, points, coef, intercept, "values", np.empty(0), {})
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted targets, shape (n,) or (n, c)."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values
