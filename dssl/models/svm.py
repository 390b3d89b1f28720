"""Estimators in the kernel deformed by the graph of all points: `LapSVC` and `LapKernelRidge`."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

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
    tolerance : relative residual of the solves.
    seed : of every random choice.
    """

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = "0.5*median", C: float = 10.0,
                 eta: float = 10.0, n_neighbors: int = 10, metric: str = "euclidean", weights: str = "self_tuned",
                 symmetrize: str = "maximum", laplacian: str = "normalized", ridge: float = 0.01, power: int = 2,
                 n_subsample: int = 1000, method: str = "auto", tolerance: float = 1e-6, seed: int = 0):
        self.kernel, self.bandwidth, self.C, self.eta = kernel, bandwidth, C, eta
        self.n_neighbors, self.metric, self.weights, self.symmetrize = n_neighbors, metric, weights, symmetrize
        self.laplacian, self.ridge, self.power = laplacian, ridge, power
        self.n_subsample, self.method, self.tolerance, self.seed = n_subsample, method, tolerance, seed

    def _params(self) -> GraphKernelParams:
        return GraphKernelParams(
            neighbors=NeighborParams(n_neighbors=self.n_neighbors, method=self.method,  # type: ignore[arg-type]
                                     metric=self.metric, seed=self.seed),  # type: ignore[arg-type]
            weights=WeightParams(kind=self.weights, symmetrize=self.symmetrize),  # type: ignore[arg-type]
            regularizer=RegularizerParams(laplacian=self.laplacian, ridge=self.ridge,  # type: ignore[arg-type]
                                          power=self.power),
            solver=SolverParams(tolerance=self.tolerance, seed=self.seed),
            n_subsample=self.n_subsample, seed=self.seed)

    def _deformed_gram(self, X: Any, labeled: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return the deformed kernel, the labeled points (l, d) and its Gram matrix on them (l, l)."""
        params = self._params()
        execution = current_execution()
        given = X if isinstance(X, Rows) else as_rows(validate_data(self, X, dtype=[np.float32, np.float64]))
        rows = execution.share_rows(given)
        self.n_features_in_ = rows.shape[1]
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
        DataError : X is not finite, y is of another length or has fewer than two classes.
        """
        codes, self.classes_ = encode_labels(y)
        require(len(codes) == len(X), f"y has {len(codes)} labels for {len(X)} points", error=DataError,
                why="each point has a label or the marker of none", fix="pass one entry a point")
        require(len(self.classes_) >= 2, f"y has {len(self.classes_)} class(es)", error=DataError,
                why="a classifier tells at least two classes apart", fix="label points of another class")
        labeled = np.flatnonzero(codes >= 0)
        kernel, points, K = self._deformed_gram(X, labeled)
        coef, intercept, coding = fit_labels(K, codes[labeled], len(self.classes_), LearnerParams(C=self.C))
        self.model_: KernelModel = expand(kernel, points, coef, intercept, coding, self.classes_, {})
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return one score a class, shape (n, n_classes), or for two classes one score, shape (n,)."""
        values = self._values(X)
        return -values[:, 0] if len(self.classes_) == 2 else self.model_.scores(values)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted labels, shape (n,)."""
        return self.classes_[self.model_.codes(self._values(X))]


class LapKernelRidge(RegressorMixin, DeformedKernelEstimator):
    """Kernel ridge regression in the kernel deformed by the graph; the targets of unlabeled points are NaN.

    Attributes
    ----------
    model_ : KernelModel. subsample_ : ndarray, shape (s,). evidence_ : dict.
    """

    __doc__ += DeformedKernelEstimator.__doc__ or ""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on all points X (n, d) with targets y (n,) or (n, c), NaN where unknown; return self."""
        targets = np.asarray(y, np.float64)
        require(len(targets) == len(X) and targets.ndim in (1, 2), f"y has shape {targets.shape} for {len(X)} points",
                why="each point has a target or NaN", fix="pass one row a point", error=DataError)
        targets = targets.reshape(len(targets), -1)
        labeled = np.flatnonzero(np.isfinite(targets).all(axis=1))
        require(len(labeled) >= 1, "no target is a number", error=DataError,
                why="there is nothing to fit", fix="give at least one point a target")
        kernel, points, K = self._deformed_gram(X, labeled)
        coef, intercept = fit_values(K, targets[labeled], LearnerParams(kind="ridge", C=self.C))
        self.model_: KernelModel = expand(kernel, points, coef, intercept, "values", np.empty(0), {})
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted targets, shape (n,) or (n, c)."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values
