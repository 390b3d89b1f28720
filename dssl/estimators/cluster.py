"""`ClusterKernelSVC`: a linear model in a cluster kernel, whose rank a memory budget decides.

`ClusterKernelFeatures`: the virtual samples of that kernel, as a transformer of scikit-learn.
"""

from typing import ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from ..base.digest import JsonObject, require_random_state
from ..base.units import budget_of
from ..data.scaling.scaling import ScalingKind, scaled
from ..kernels.base import Kernel
from ..kernels.cluster import ClusterBasis
from ..kernels.cluster_params import basis_of
from ..kernels.landmarks import LandmarkParams
from ..kernels.stochastic import StochasticParams
from ..kernels.transfer import TransferParams
from ..learners.class_prior import ClassWeight
from ..learners.linear.kernel_model import SampleModel, sample_model
from ..learners.target.coding import Values
from ..methods.cluster import CLUSTER_KERNEL, ClusterKernel, ClusterKernelParams, ClusterModel, basis_in
from ..methods.step import Context
from .arguments import PointsLike, PriorLike, WeightLike, base_kernels
from .classifier import CalibratedClassifier
from .method import LinearEstimator
from .points import PointReader
from .targets import prior_of, require_unequal


class ClusterKernelSVC(CalibratedClassifier, LinearEstimator):
    """A linear model in a cluster kernel of all points, for classification.

    The eigenvalues of the normalized affinity of all points, labeled and unlabeled, go
    through a transfer function, so that points of one cluster become alike. There is no
    graph, and nothing of size n x n: the features of the kernel, its virtual samples,
    follow from landmarks, as many as the memory budget allows. There may be any number
    of classes.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result.

    Parameters
    ----------
    kernel : str or callable
        The base kernel, as in `LapSVC`. Its values must not be negative, as those
        of "rbf" and "laplacian" never are.
    bandwidth : float, str or None
        The bandwidth of the base kernel: a number in units of the features,
        "median", the median distance of two points, or a multiple of it such as
        "0.25*median"; None is "0.5*median".
    approximation : "exact", "nystrom", "stochastic", "landmarks" or StochasticParams
        How the eigenpairs are computed: "exact", of all points; "nystrom", from
        landmarks; "stochastic", by proximal steps on random Fourier features of rbf
        and laplacian kernels, extended to new points by landmarks, with the rank
        that the memory budget allows (`StochasticParams` says how many steps, and
        more); or "landmarks", of the landmarks alone, for comparison, which uses no
        other unlabeled points.
    transfer : str or TransferParams
        What becomes of an eigenvalue of the affinity: "polynomial", a random walk
        of 5 steps, "exponential", "linear", "step", "poly_step", which is that of
        the papers, or `TransferParams`.
    C : float
        The penalty of the loss against the norm; the kernel has a unit diagonal.
    loss : "squared", "squared_hinge", "huber_hinge", "logistic" or "hinge"
        The loss of the labels: all but "hinge" fit each class against the rest,
        "hinge" a model for each pair of classes, whose most probable class can
        differ from the predicted one.
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in a
        dict. Only the ratios matter.
    landmarks : int, float, "auto" or LandmarkParams
        The number of landmarks, their share of the points, or `LandmarkParams`;
        "auto" is as many as the memory budget allows, at most 2,000.
    rank : int, "auto" or None
        The rank of the kernel from landmarks. Eigenvalues that equal the last one
        within a hundredth are kept with it. "auto" is k of s landmarks with s = k
        log k, and all where all points are landmarks; None keeps all.
    degrees : "auto", "exact" or "landmarks"
        How the degrees of the affinity are computed: "exact", in O(n^2 d) time;
        "landmarks", those of the Nystrom approximation, in O(n s); "auto" is exact
        up to 100,000 points that are not all landmarks.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` holds the fitted scaling.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1
        GiB, or what the workers allow. The number of landmarks follows from what is
        given here or from 1 GiB, never from the workers.
    unlabeled : object
        The marker of points without a label, where it is not -1 (integers), NaN
        (floats), None or "" (text).
    random_state : int
        The seed of every random choice, except those of landmarks that are given as
        `LandmarkParams`.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The classes, in ascending order.
    model_ : SampleModel
        What predicts points, and no more than that needs.
    transduction_ : ndarray, shape (n,)
        The labels predicted for the points of the fit.
    basis_ : ClusterBasis
        The leading eigenpairs of the affinity.
    calibration_ : Calibration
        What makes scores probabilities.
    evidence_ : dict
        The `landmarks`, the `rank`, the `degrees`, the largest and smallest
        eigenvalue, the `contrast` of the first two in the kernel, the bytes that
        were predicted and the seconds. Of stochastic steps also whether the
        eigenvalues are `truncated`: the rank cuts them off while they are large.
    by_labels_ : dict
        The errors of the model and of its supervised baseline on held-out labels.
        It is computed when it is first asked for.
    scaling_ : Scaling
        How the features are scaled.
    n_features_in_ : int
        The number of features of the fit.
    feature_names_in_ : ndarray, shape (d,)
        The names of the features, where the columns of X have names.

    Raises
    ------
    DataError
        When `fit` is called: y has no label, or labels of one class, or is in {-1, +1}.
        Since -1 marks unlabeled points, name another marker then, such as
        `unlabeled=0`.
    ParameterError
        When `fit` is called: a parameter is out of range.

    References
    ----------
    Chapelle, Weston, Scholkopf, "Cluster kernels for semi-supervised learning", NIPS
    2002; Hou, Zhang, Zhou, "Storage fit learning with unlabeled data", IJCAI 2017,
    Algorithm 2, normalized first (`kernels/cluster.py`).

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import ClusterKernelSVC
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = ClusterKernelSVC().fit(X, y)
    >>> model.score(X, classes)
    1.0
    """

    regressor = "SemiSupervisedRegressor"
    method, without_graph = CLUSTER_KERNEL, "a cluster kernel is one of all pairs of points, without a graph"
    vectorized = ("transfer__transfer", "transfer__leading", "transfer__exponent", "C")
    groups: ClassVar[dict[str, type]] = {"transfer": TransferParams, "landmarks": LandmarkParams}
    basis_: ClusterBasis

    def __init__(self, kernel: str | Kernel = "rbf", *,
                 bandwidth: float | str | None = ClusterKernel.bandwidth,
                 approximation: str | StochasticParams = ClusterModel.approximation,
                 transfer: str | TransferParams = ClusterModel.transfer,
                 C: float = ClusterModel.C, loss: str = ClusterModel.loss,
                 class_prior: PriorLike = None, class_weight: WeightLike = None,
                 landmarks: float | str | LandmarkParams = ClusterModel.landmarks,
                 rank: int | str | None = ClusterModel.rank,
                 degrees: str = ClusterModel.degrees, scale: ScalingKind = "auto",
                 memory_budget: int | str | None = None, unlabeled: object = None,
                 random_state: int = 0):
        self.kernel, self.bandwidth, self.approximation, self.transfer = kernel, bandwidth, approximation, transfer
        self.class_prior, self.class_weight = class_prior, class_weight
        self.C, self.loss, self.landmarks, self.rank, self.degrees = C, loss, landmarks, rank, degrees
        self.scale, self.memory_budget = scale, memory_budget
        self.unlabeled, self.random_state = unlabeled, random_state

    def _params(self) -> ClusterKernelParams:
        model = self.section(ClusterModel)
        return ClusterKernelParams(
            kernels=base_kernels(self), cluster=model.basis(budget_of(self.memory_budget)),
            transfers=(model.transferred,), learners=(model.learner,), prior=prior_of(self.class_prior, None),
            weight=ClassWeight.of(self.class_weight),
            random_state=self.random_state)

    def _basis(self, context: Context, params: ClusterKernelParams) -> JsonObject:
        self.basis_ = basis_in(context, params, 0)
        return self.basis_.attributes


class ClusterKernelFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PointReader):
    """The virtual samples of a cluster kernel of all points, as a transformer.

    A linear model on these features is a model in the cluster kernel. `fit(X)` takes
    all points and no labels; `transform(X)` makes k features of any point, of unit
    length, or zero where the point is far from all points of the fit. A model of
    scikit-learn is then fitted on the features of the labeled points.

    Parameters
    ----------
    kernel : str or callable
        The base kernel, as in `LapSVC`. Its values must not be negative, as those
        of "rbf" and "laplacian" never are.
    bandwidth : float, str or None
        The bandwidth of the base kernel: a number in units of the features,
        "median", the median distance of two points, or a multiple of it such as
        "0.25*median"; None is "0.5*median".
    approximation : "exact", "nystrom", "stochastic", "landmarks" or StochasticParams
        How the eigenpairs are computed: "exact", of all points; "nystrom", from
        landmarks; "stochastic", by proximal steps on random Fourier features of rbf
        and laplacian kernels, extended to new points by landmarks, with the rank
        that the memory budget allows (`StochasticParams` says how many steps, and
        more); or "landmarks", of the landmarks alone, for comparison, which uses no
        other unlabeled points.
    transfer : str or TransferParams
        What becomes of an eigenvalue of the affinity: "polynomial", a random walk
        of 5 steps, "exponential", "linear", "step", "poly_step", which is that of
        the papers, or `TransferParams`. Without labels, leading="auto" of a
        transfer function is 9 eigenvalues.
    landmarks : int, float, "auto" or LandmarkParams
        The number of landmarks, their share of the points, or `LandmarkParams`;
        "auto" is as many as the memory budget allows, at most 2,000.
    rank : int, "auto" or None
        The rank of the kernel from landmarks. Eigenvalues that equal the last one
        within a hundredth are kept with it. "auto" is k of s landmarks with s = k
        log k, and all where all points are landmarks; None keeps all.
    degrees : "auto", "exact" or "landmarks"
        How the degrees of the affinity are computed: "exact", in O(n^2 d) time;
        "landmarks", those of the Nystrom approximation, in O(n s); "auto" is exact
        up to 100,000 points that are not all landmarks.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` holds the fitted scaling.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1
        GiB, or what the workers allow. The number of landmarks follows from what is
        given here or from 1 GiB, never from the workers.
    random_state : int
        The seed of every random choice, except those of landmarks that are given as
        `LandmarkParams`.

    Attributes
    ----------
    model_ : SampleModel
        The features as functions of a point.
    basis_ : ClusterBasis
        The leading eigenpairs of the affinity.
    evidence_ : dict
        What the eigenpairs tell of themselves, as in `ClusterKernelSVC`.
    scaling_ : Scaling
        How the features are scaled.
    n_features_in_ : int
        The number of features of the fit.
    feature_names_in_ : ndarray, shape (d,)
        The names of the features, where the columns of X have names.

    References
    ----------
    Hou, Zhang, Zhou, "Storage fit learning with unlabeled data", IJCAI 2017,
    Proposition 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import LinearSVC
    >>> from dssl import ClusterKernelFeatures
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> features = ClusterKernelFeatures().fit(X)
    >>> model = LinearSVC().fit(features.transform(X[:4]), classes[:4])
    >>> model.score(features.transform(X), classes)
    1.0
    """

    groups: ClassVar[dict[str, type]] = {"transfer": TransferParams, "landmarks": LandmarkParams}
    model_: SampleModel
    basis_: ClusterBasis

    def __init__(self, kernel: str | Kernel = "rbf", *,
                 bandwidth: float | str | None = ClusterKernel.bandwidth,
                 approximation: str | StochasticParams = ClusterModel.approximation,
                 transfer: str | TransferParams = ClusterModel.transfer,
                 landmarks: float | str | LandmarkParams = ClusterModel.landmarks,
                 rank: int | str | None = ClusterModel.rank,
                 degrees: str = ClusterModel.degrees, scale: ScalingKind = "auto",
                 memory_budget: int | str | None = None, random_state: int = 0):
        self.kernel, self.bandwidth, self.approximation, self.transfer = kernel, bandwidth, approximation, transfer
        self.landmarks, self.rank, self.degrees, self.scale = landmarks, rank, degrees, scale
        self.memory_budget, self.random_state = memory_budget, random_state

    def fit(self, X: PointsLike, y: object = None) -> Self:
        """Compute the eigenpairs of all points.

        Parameters
        ----------
        X : array-like, shape (n, d)
            All points, or any other input that an estimator reads.
        y : object
            It is not read.

        Returns
        -------
        ClusterKernelFeatures
            The transformer itself.

        Raises
        ------
        ParameterError
            A parameter is out of range.
        BudgetError
            The eigenpairs do not fit the memory budget.
        DataError
            A value is not finite, or all points are equal.
        """
        require_random_state(self.random_state)
        execution, model = self._execution(), self.section(ClusterModel)
        rows = self._points(X, execution, reset=True)
        require_unequal(rows)
        self.scaling_ = self._scaling_of(X, rows, execution)
        rows = scaled(rows, self.scaling_, execution)
        kernel, = base_kernels(self).on(rows)
        self.basis_ = basis_of(rows, kernel, model.basis(budget_of(self.memory_budget)), np.arange(0), execution)
        samples = self.basis_.samples(model.transferred, 0)
        self.model_ = sample_model(samples, np.eye(samples.width), np.zeros(samples.width), Values())
        self.evidence_ = {**self.basis_.attributes, "features": samples.width}
        return self

    def transform(self, X: PointsLike) -> np.ndarray:
        """Return the virtual samples of points.

        Parameters
        ----------
        X : array-like, shape (m, d)
            The points.

        Returns
        -------
        ndarray, shape (m, k)
            The features, float64.
        """
        return self._values(X)

    @property
    def _n_features_out(self) -> int:
        return self.model_.n_columns
