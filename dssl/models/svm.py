"""Estimators in the kernel deformed by the graph of all points: `LapSVC` and `LapKernelRidge`."""

import warnings
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ..blocks import Rows
from ..data.labels import encode_labels
from ..errors import DataError, explain, require
from ..execution import Execution, current_execution
from ..graph.neighbors import NeighborParams
from ..graph.regularizer import RegularizerParams
from ..graph.weights import WeightParams
from ..inputs import header_of, labels_of, rows_of
from ..kernels.base import kernel_from
from ..solvers.solve import SolverParams
from .base import KernelModel, expand
from .calibration import Calibration, fit_calibration, mean_margins, out_of_fold_scores
from .graph_kernel import GraphKernelParams, check_eta, check_share, deform, evidence_of, graph_covariance
from .learners import LearnerParams, fit_labels, fit_values


class DeformedKernelEstimator(BaseEstimator):
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
        return GraphKernelParams(
            neighbors=NeighborParams(n_neighbors=self.n_neighbors, method=self.method,  # type: ignore[arg-type]
                                     metric=self.metric, seed=self.seed),  # type: ignore[arg-type]
            weights=WeightParams(kind=self.weights, symmetrize=self.symmetrize),  # type: ignore[arg-type]
            regularizer=RegularizerParams(laplacian=self.laplacian, ridge=self.ridge,  # type: ignore[arg-type]
                                          power=self.power),
            solver=SolverParams(tolerance=self.tolerance, seed=self.seed),
            n_subsample=self.n_subsample, seed=self.seed, duplicates=self.duplicates)  # type: ignore[arg-type]

    def _labels(self, X: Any, y: Any) -> Any:
        """Return y in this process, or the target of X where X is a Dataset and y is None; checks eta first."""
        check_eta(self.eta)
        y = X if y is None and getattr(X, "y", None) is not None and hasattr(X, "targets") else y
        require(y is not None, f"{type(self).__name__} requires y to be passed, but the target y is None",
                why="it learns from the points that have a label", fix="pass y with the marker of unlabeled points",
                error=DataError)
        return labels_of(y)

    def _points(self, X: Any, execution: Execution, *, reset: bool) -> Rows:
        """Return the points as rows that every task can read, after checking them; sets or compares the columns."""
        header = header_of(X)
        if header is not None:  # names are compared before anything is computed
            validate_data(self, header, reset=reset, skip_check_array=True)
        rows = rows_of(X, execution, type(self).__name__)
        if header is None:
            validate_data(self, np.empty((0, *rows.shape[1:])), reset=reset, skip_check_array=True)
        return execution.share_rows(rows)

    def _deformed_gram(self, rows: Rows, labeled: np.ndarray, params: GraphKernelParams,
                       execution: Execution, graph: Any = None) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return the deformed kernel, the labeled points (l, d) and its Gram matrix on them (l, l)."""
        n = len(rows)
        require(n == 1 or not _all_equal(rows), f"all {n} points are equal", error=DataError,
                why="nothing tells them apart, and a graph of them has no shape",
                fix="check that the features were read correctly")
        if len(labeled) >= params.n_subsample >= 1 and n > params.n_subsample:
            warnings.warn(explain(
                f"{len(labeled)} labeled points and n_subsample={params.n_subsample}",
                why="functions are measured at labeled points alone, so the graph says little about the others",
                fix=f"raise n_subsample to {2 * len(labeled)} or more"), UserWarning, stacklevel=3)
        base = kernel_from(self.kernel, self.bandwidth if isinstance(self.kernel, str) else None, rows=rows,
                           seed=self.seed)
        covariance = graph_covariance(rows, labeled, params, execution, graph)
        kernel = deform(base, rows.take(covariance.subsample), covariance.powers[self.power], self.eta)
        points = rows.take(labeled)
        K = kernel(points, points)
        check_share(K, base, points, self.eta)
        self.evidence_ = {**evidence_of(covariance), "n_labeled": len(labeled), "n_unlabeled": n - len(labeled)}
        self.subsample_ = covariance.subsample
        return kernel, points, K

    def _values(self, X: Any) -> np.ndarray:
        execution = current_execution()  # what it shares is gone when it is, so it outlives the rows
        rows = self._new_rows(X, execution)
        return self.model_.values(rows, execution)

    def _new_rows(self, X: Any, execution: Execution) -> Rows:
        check_is_fitted(self, "model_")
        return self._points(X, execution, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def support(self, X: Any) -> np.ndarray:
        """Return how near each point is to those of the model, shape (n,): its largest kernel value with one of them,
        relative to the largest of these with themselves. Below 1e-10 a prediction says nothing about the point.
        """
        execution = current_execution()
        rows = self._new_rows(X, execution)
        return self.model_.support(rows, execution)


class LapSVC(ClassifierMixin, DeformedKernelEstimator):
    """Support vector machine in the kernel deformed by the graph of all points; any number of classes.

    `fit(X, y)` takes all points, with y = -1 (integers), NaN (floats) or None (objects) where there is no label. It
    runs on the active Dask client if there is one, in threads of this process otherwise, with the same result. X may
    be anything that `dssl.inputs` reads. `docs/estimators.md` has recipes for grids, pipelines and edge cases.

    y in {-1, +1} is an error, since -1 marks unlabeled points: name another marker, such as `unlabeled=0`. No label,
    or labels of one class, is an error. With all points labeled the graph is one of labeled points, and `evidence_`
    says 0 unlabeled. A class with one label is fitted, but not calibrated. More labels than `n_subsample` give a
    warning, n <= n_neighbors and points that are all equal an error.

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
        graph : in place of the one made of X: a sparse matrix (n, n) of weights, or `Neighbors`, or (ids, distances),
            both (n, k); see `graph_covariance`. n_neighbors and metric are then not read.

        Raises
        ------
        ParameterError : a parameter is out of range. DataError : y is of another length, has fewer than two classes, or
            is a quantity. ValueError : X is not finite (an array: from scikit-learn).
        """
        execution, params, learner = current_execution(), self._params(), LearnerParams(C=self.C)
        y = self._labels(X, y)
        rows = self._points(X, execution, reset=True)
        column = getattr(y, "shape", ())[1:] == (1,)
        codes, self.classes_ = encode_labels(column_or_1d(y, warn=True) if column else y, self.unlabeled)
        require(len(codes) == len(rows), f"y has {len(codes)} labels for {len(rows)} points", error=DataError,
                why="each point has a label or the marker of none", fix="pass one entry a point")
        whole = self.classes_.dtype.kind != "f" or bool((self.classes_ == np.round(self.classes_)).all())
        require(whole, f"Unknown label type: continuous, such as {self.classes_[:3].tolist()}", error=DataError,
                why="fractions are quantities, not classes", fix="use LapKernelRidge, or make the labels integers")
        require(len(self.classes_) >= 2, f"y has {len(self.classes_)} class(es)", error=DataError,
                why="a classifier tells at least two classes apart", fix="label points of another class")
        labeled, weight = weighed(np.flatnonzero(codes >= 0), sample_weight, len(rows))
        codes, n_classes = codes[labeled], len(self.classes_)
        sizes = np.bincount(codes, minlength=n_classes)
        for few, what, fix in ((1, "no labeled point of weight > 0", "mark its points unlabeled, or raise a weight"),
                               (2 if self.probability else 1, "one labeled point, and probabilities are calibrated on "
                                "points held out", "label a second point of it, or set probability=False")):
            lacking = self.classes_[sizes < few].tolist()
            require(not lacking, f"class {', '.join(map(repr, lacking))} has {what}", error=DataError,
                    why="a machine does not know a class that it has not seen", fix=fix)
        kernel, points, K = self._deformed_gram(rows, labeled, params, execution, graph)
        coef, intercept, coding = fit_labels(K, codes, n_classes, learner, weight)
        self.model_: KernelModel = expand(kernel, points, coef, intercept, coding, self.classes_, {})
        self.calibration_: Calibration | None = None
        if self.probability:
            scores = out_of_fold_scores(K, codes, n_classes, learner, weight, self.seed)
            self.calibration_ = fit_calibration(scores, codes, weight)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Return one score a class, shape (n, n_classes), or for two classes one score, shape (n,)."""
        values = self._values(X)
        return -values[:, 0] if len(self.classes_) == 2 else self.model_.scores(values)

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted labels, shape (n,)."""
        values = self._values(X)
        return self.classes_[self.model_.codes(values)]

    def _calibrates(self) -> bool:
        if not self.probability:
            raise AttributeError("predict_proba is not available when probability=False: set probability=True and fit "
                                 "again, or use decision_function")
        return True

    @available_if(_calibrates)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, shape (n, n_classes), in the order of `classes_`; rows sum to 1.

        Calibrated on the labeled points, each scored by a machine that was trained without it (`calibration.py`). As
        with scikit-learn's SVC, the most probable class can differ from `predict`, above all with fewer than five
        labels a class.

        Raises
        ------
        NotFittedError : the last `fit` was without `probability=True`.
        """
        check_is_fitted(self, "model_")
        if self.calibration_ is None:
            raise NotFittedError("fitted with probability=False, so nothing was calibrated: call fit again")
        scores = mean_margins(self._values(X), self.model_.coding, len(self.classes_))
        return self.calibration_.probabilities(scores)

    @available_if(_calibrates)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of `predict_proba`, shape (n, n_classes)."""
        return np.log(self.predict_proba(X))


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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, graph: Any = None) -> Self:
        """Fit on all points X (n, d) with targets y (n,) or (n, c); return self. A row with a NaN is unlabeled.

        X, y, sample_weight and graph as in `LapSVC.fit`; a point of weight 2 counts as two equal points do.

        Raises
        ------
        ParameterError : a parameter is out of range. DataError : y is of another length, holds no number, or infinite
            ones. ValueError : X is not finite (an array: from scikit-learn).
        """
        execution, params, learner = current_execution(), self._params(), LearnerParams(kind="ridge", C=self.C)
        y = self._labels(X, y)
        rows = self._points(X, execution, reset=True)
        targets = self._targets(y)
        require(len(targets) == len(rows) and targets.ndim in (1, 2), error=DataError,
                what=f"y has shape {targets.shape} for {len(rows)} points",
                why="each point has a target or NaN", fix="pass one row a point")
        targets = targets.reshape(len(targets), -1)
        labeled = np.flatnonzero(~np.isnan(targets).any(axis=1))
        require(len(labeled) >= 1, "no target is a number", error=DataError,
                why="there is nothing to fit", fix="give at least one point a target")
        labeled, weight = weighed(labeled, sample_weight, len(rows))
        kernel, points, K = self._deformed_gram(rows, labeled, params, execution, graph)
        coef, intercept = fit_values(K, targets[labeled], learner, weight)
        self.model_: KernelModel = expand(kernel, points, coef, intercept, "values", np.empty(0), {})
        return self

    def _targets(self, y: Any) -> np.ndarray:
        """Return y as float64 with NaN where a target is unknown."""
        nullable = pd.api.types.is_extension_array_dtype(getattr(y, "dtype", None))
        given = y.to_numpy(np.float64, na_value=np.nan) if nullable else np.asarray(y)
        whole = pd.api.types.is_integer_dtype(y.dtype) if nullable else given.dtype.kind in "iu"
        marked = whole and bool((given == -1).any())
        require(self.unlabeled is not None or not marked, "y holds integers, and -1 is among them", error=DataError,
                why="NaN marks unknown targets here, so -1 would be fitted as a value",
                fix="pass unlabeled=-1 if it marks unknown targets, or y as floats if it is a value")
        targets = given.astype(np.float64)
        if self.unlabeled is not None:
            targets[targets == float(self.unlabeled)] = np.nan
        require(not np.isinf(targets).any(), f"y has {int(np.isinf(targets).sum())} infinite targets", error=DataError,
                why="no function with a finite norm takes them", fix="mark them unknown with NaN, or drop these rows")
        return targets

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted targets, shape (n,) or (n, c)."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values


def weighed(labeled: np.ndarray, sample_weight: Any, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the labeled points whose weight is not 0, and their weights (l,); None where no weights are given.

    Raises
    ------
    DataError : not one weight a point, or one of a labeled point that is negative or not finite; the message names it.
    """
    if sample_weight is None:
        return labeled, None
    weight = np.asarray(labels_of(sample_weight), np.float64)
    require(weight.shape == (n,), f"sample_weight has shape {weight.shape} for {n} points", error=DataError,
            why="each point has one weight, and those of unlabeled points are not read", fix="pass one number a point")
    of_labeled = weight[labeled]
    require(bool((of_labeled != 0).any()) or not len(labeled), "the weight of every labeled point is zero",
            why="such points count as unlabeled, so there is nothing to fit", fix="raise a weight", error=DataError)
    wrong = labeled[~((of_labeled >= 0) & (of_labeled < np.inf))]
    require(len(wrong) == 0, f"{len(wrong)} weights of labeled points are not finite numbers >= 0, first "
            f"{weight[wrong[:1]].tolist()} of point {wrong[:1].tolist()}", error=DataError,
            why="a negative weight rewards errors", fix="pass weights >= 0; 0 leaves the label out")
    return labeled[of_labeled > 0], of_labeled[of_labeled > 0]


def _all_equal(rows: Rows) -> bool:
    """Return whether all rows are the same point; reads on only while they are."""
    lowest = highest = None
    for _, block in rows.blocks(1024):
        low, high = (np.asarray(found.todense() if hasattr(found, "todense") else found)
                     for found in (block.min(axis=0), block.max(axis=0)))
        lowest = low if lowest is None else np.minimum(lowest, low)
        highest = high if highest is None else np.maximum(highest, high)
        if not np.array_equal(lowest, highest):
            return False
    return True
