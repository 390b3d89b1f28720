"""Estimators in the kernel deformed by the graph of all points: `LapSVC` and `LapKernelRidge`."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..errors import explain
from ..execution.on_dask import current_execution
from ..execution.tasks import Execution
from ..graph.regularizer import RegularizerParams
from ..kernels.base import kernel_from
from ..kernels.deformed import check_eta, check_share, deform
from ..learners.deformed import GraphKernelParams, evidence_of, graph_covariance
from ..learners.kernel_model import KernelModel, expand
from ..learners.ridge_and_svm import LearnerParams, fit_gram
from ..learners.target import Target
from ..selection.calibration import Calibration, fit_calibration, out_of_fold_margins
from ..solvers.solve import SolverParams
from ..storage.blocks import Rows
from .base import KernelEstimator, KernelRegressor, require_labeled, require_unequal


class DeformedKernelEstimator(KernelEstimator):
    """What the estimators in a deformed kernel share: parameters, graph, kernel, prediction.

    Parameters
    ----------
    kernel : base kernel: "rbf", "laplacian", "linear", "polynomial", "cosine", or a function (X, Z) -> block.
    bandwidth : of the base kernel, in units of the features: a number, "median" or a multiple such as "0.5*median".
    C : penalty of the loss, for a kernel of unit mean diagonal.
    eta : weight of the graph against the base kernel, 0 to 1e8; relative, see `dssl.models.graph_kernel.deform`. 0 is
        the base kernel.
    n_neighbors, metric, weights, symmetrize : the graph; see `NeighborParams` and `WeightParams`.
    laplacian, ridge, power : the regularizer `Q = (L + ridge I)^power`.
    n_subsample : points at which functions are measured; the labeled ones are among them. All points where there are
        fewer.
    method : neighbor search: "exact", "descent" or "auto". tolerance : relative residual of the solves.
    duplicates : "collapse" makes equal rows one vertex of the graph that counts as many, "keep" one vertex each.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats) or None (objects).
    seed : of every random choice.
    """

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = "0.5*median", C: float = 10.0,
                 eta: float = 10.0, n_neighbors: int = 10, metric: str = "euclidean", weights: str = "self_tuned",
                 symmetrize: str = "maximum", laplacian: str = "normalized", ridge: float = 0.01, power: int = 2,
                 n_subsample: int = 1000, method: str = "auto", tolerance: float = 1e-6, unlabeled: Any = None,
                 seed: int = 0, duplicates: str = "collapse"):
        self.kernel, self.bandwidth, self.C, self.eta = kernel, bandwidth, C, eta
        self.n_neighbors, self.metric, self.weights, self.symmetrize = n_neighbors, metric, weights, symmetrize
        self.laplacian, self.ridge, self.power = laplacian, ridge, power
        self.n_subsample, self.method, self.tolerance = n_subsample, method, tolerance
        self.unlabeled, self.seed = unlabeled, seed
        self.duplicates = duplicates

    def _params(self) -> GraphKernelParams:
        regularizer = RegularizerParams(laplacian=self.laplacian, ridge=self.ridge,  # type: ignore[arg-type]
                                        power=self.power)
        return GraphKernelParams(regularizer=regularizer, n_subsample=self.n_subsample, seed=self.seed,
                                 solver=SolverParams(tolerance=self.tolerance, seed=self.seed))

    def _fit(self, rows: Rows, target: Target, weight: np.ndarray | None, params: GraphKernelParams,
             learner: LearnerParams, execution: Execution, graph: Any) -> np.ndarray:
        """Set the model, the subsample and the evidence; return the deformed Gram matrix of the labeled points (l, l).
        """
        n, labeled = len(rows), target.labeled
        require_unequal(rows)
        if len(labeled) >= params.n_subsample >= 1 and n > params.n_subsample:
            warnings.warn(explain(
                f"{len(labeled)} labeled points and n_subsample={params.n_subsample}",
                why="functions are measured at labeled points alone, so the graph says little about the others",
                fix=f"raise n_subsample to {2 * len(labeled)} or more"), UserWarning, stacklevel=3)
        base = kernel_from(self.kernel, self.bandwidth if isinstance(self.kernel, str) else None, rows=rows,
                           seed=self.seed)
        covariance = graph_covariance(self._graph(rows, graph, execution), labeled, params, execution)
        kernel = deform(base, rows.take(covariance.subsample), covariance.powers[self.power], self.eta)
        points = rows.take(labeled)
        K = kernel(points, points)
        check_share(K, base, points, self.eta)
        coef, intercept, coding = fit_gram(K, target, learner, weight)
        self.model_: KernelModel = expand(kernel, points, coef, intercept, coding)
        self.evidence_ = {**evidence_of(covariance), "n_labeled": len(labeled), "n_unlabeled": n - len(labeled)}
        self.subsample_ = covariance.subsample
        return K


class LapSVC(ClassifierMixin, DeformedKernelEstimator):
    """Support vector machine in the kernel deformed by the graph of all points; any number of classes.

    `fit(X, y)` takes all points, with y = -1 (integers), NaN (floats) or None (objects) where there is no label. It
    runs on the active Dask client if there is one, in threads of this process otherwise, with the same result. X may
    be anything that `dssl.inputs` reads. `docs/estimators.md` has recipes for grids, pipelines and edge cases.

    y in {-1, +1} is an error, since -1 marks unlabeled points: name another marker, such as `unlabeled=0`. No label,
    or labels of one class, is an error. With all points labeled the graph is one of labeled points, and `evidence_`
    says 0 unlabeled. A class with one label is fitted, but not calibrated. More labels than `n_subsample` give a
    warning, and so do n <= n_neighbors, which is lowered; points that are all equal are an error.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,). model_ : KernelModel, what prediction needs and no more.
    subsample_ : ndarray, shape (s,). evidence_ : dict, what the graph and the solves say of themselves.
    calibration_ : Calibration, with `probability=True`. n_features_in_, feature_names_in_ : as in scikit-learn.

    References
    ----------
    Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS 2012, eq. 6.
    """

    __doc__ += (DeformedKernelEstimator.__doc__ or "") + """probability : whether `fit` calibrates `predict_proba`.
    """

    def __init__(self, kernel: Any = "rbf", *, bandwidth: float | str = "0.5*median", C: float = 10.0,
                 eta: float = 10.0, n_neighbors: int = 10, metric: str = "euclidean", weights: str = "self_tuned",
                 symmetrize: str = "maximum", laplacian: str = "normalized", ridge: float = 0.01, power: int = 2,
                 n_subsample: int = 1000, method: str = "auto", tolerance: float = 1e-6, unlabeled: Any = None,
                 probability: bool = False, seed: int = 0, duplicates: str = "collapse"):
        super().__init__(kernel, bandwidth=bandwidth, C=C, eta=eta, n_neighbors=n_neighbors, metric=metric,
                         weights=weights, symmetrize=symmetrize, laplacian=laplacian, ridge=ridge, power=power,
                         n_subsample=n_subsample, method=method, tolerance=tolerance, unlabeled=unlabeled, seed=seed,
                         duplicates=duplicates)
        self.probability = probability

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, graph: Any = None) -> Self:
        """Fit on all points X (n, d) with their labels y (n,); return self.

        Parameters
        ----------
        X : array-like, shape (n, d), or any input that `dssl.inputs.rows_of` reads; labeled and unlabeled points.
        y : array-like, shape (n,); None takes the target of a Dataset X.
        sample_weight : array-like, shape (n,), or None for 1. The loss of a labeled point counts C times its weight,
            finite and >= 0; with 0 the point counts as unlabeled. Weights of unlabeled points are not read: they have
            no loss, and every point counts alike in the graph.
        graph : in place of the one made of X: a `Graph`, which serves any number of fits, or what `Graph.of` takes, a
            sparse matrix (n, n) of weights, or `Neighbors`, or (ids, distances), both (n, k). n_neighbors and metric
            are then not read.

        Raises
        ------
        ParameterError : a parameter is out of range. DataError : y is of another length, has fewer than two classes, or
            is a quantity. ValueError : X is not finite (an array: from scikit-learn).
        """
        execution, params, learner = current_execution(), self._params(), LearnerParams(C=self.C)
        check_eta(self.eta)
        rows, target, weight = self._classified(X, y, sample_weight, execution, "LapKernelRidge")
        if self.probability:
            require_labeled(target, 2, "one labeled point, and probabilities are calibrated on points held out",
                            "label a second point of it, or set probability=False")
        K = self._fit(rows, target, weight, params, learner, execution, graph)
        self.calibration_: Calibration | None = None
        if self.probability:
            margins = out_of_fold_margins(K, target, learner, weight, self.seed)
            self.calibration_ = fit_calibration(margins, target.coded, weight)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return one score a class, shape (n, n_classes), or for two classes one score, shape (n,)."""
        return self.model_.coding.decision(self._values(X))

    def _calibrates(self) -> bool:
        if not self.probability:
            raise AttributeError("predict_proba is not available when probability=False: set probability=True and fit "
                                 "again, or use decision_function")
        return True

    @available_if(_calibrates)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, shape (n, n_classes), in the order of `classes_`; rows sum to 1.

        Calibrated on the labeled points, each scored by a learner that was fitted without it (`calibration.py`). As
        with scikit-learn's SVC, the most probable class can differ from `predict`, above all with fewer than five
        labels a class.

        Raises
        ------
        NotFittedError : the last `fit` was without `probability=True`.
        """
        check_is_fitted(self, "model_")
        if self.calibration_ is None:
            raise NotFittedError("fitted with probability=False, so nothing was calibrated: call fit again")
        return self.calibration_.probabilities(self.model_.coding.margins(self._values(X)))

    @available_if(_calibrates)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of `predict_proba`, shape (n, n_classes)."""
        return np.log(self.predict_proba(X))


class LapKernelRidge(KernelRegressor, DeformedKernelEstimator):
    """Kernel ridge regression in the kernel deformed by the graph; the targets of unlabeled points are NaN.

    Attributes
    ----------
    model_ : KernelModel. subsample_ : ndarray, shape (s,). evidence_ : dict.
    """

    __doc__ += DeformedKernelEstimator.__doc__ or ""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, graph: Any = None) -> Self:
        """Fit on all points X (n, d) with targets y (n,) or (n, c); return self. A row with a NaN is unlabeled.

        X, y, sample_weight and graph as in `LapSVC.fit`; a point of weight 2 counts as two equal points do.

        Raises
        ------
        ParameterError : a parameter is out of range. DataError : y is of another length, holds no number, or infinite
            ones. ValueError : X is not finite (an array: from scikit-learn).
        """
        execution, params, learner = current_execution(), self._params(), LearnerParams(kind="ridge", C=self.C)
        check_eta(self.eta)
        rows, target, weight = self._measured(X, y, sample_weight, execution)
        self._fit(rows, target, weight, params, learner, execution, graph)
        return self
