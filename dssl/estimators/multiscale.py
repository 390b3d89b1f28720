"""`MultiscaleKernelClassifier` and `MultiscaleKernelRegressor`: linear models in the multi-scale eigen kernel."""


from ..base.digest import JsonObject
from ..base.units import budget_of
from ..data.scaling.scaling import ScalingKind
from ..kernels.base import BaseKernels
from ..kernels.multiscale import MultiscaleMap
from ..learners.class_prior import ClassWeight
from ..methods.multiscale import MULTISCALE_KERNEL, MultiscaleKernelParams, MultiscaleModel, map_in
from ..methods.step import Context
from .arguments import PriorLike, WeightLike
from .base import PointRegressor
from .classifier import CalibratedClassifier
from .method import LinearEstimator
from .targets import prior_of


class MultiscaleKernelEstimator(LinearEstimator):
    """What both share; `MultiscaleKernelClassifier` describes the parameters."""

    method, without_graph = MULTISCALE_KERNEL, "the kernel is one of graphs of its own, of several scales"
    vectorized = ("C",)
    C: float
    map_: MultiscaleMap

    def __init__(self, *, eps_0: float | str = MultiscaleModel.eps_0,
                 q: float = MultiscaleModel.q, threshold: float = MultiscaleModel.threshold,
                 n_eigenpairs: int | str = MultiscaleModel.n_eigenpairs,
                 n_landmarks: int | str = MultiscaleModel.n_landmarks,
                 outlier_share: float = MultiscaleModel.outlier_share,
                 unit_diagonal: bool = MultiscaleModel.unit_diagonal,
                 C: float = MultiscaleModel.C, scale: ScalingKind = "auto",
                 memory_budget: int | str | None = None, unlabeled: object = None,
                 random_state: int = 0):
        self.eps_0, self.q, self.threshold, self.n_eigenpairs = eps_0, q, threshold, n_eigenpairs
        self.n_landmarks, self.outlier_share, self.unit_diagonal = n_landmarks, outlier_share, unit_diagonal
        self.C, self.memory_budget = C, memory_budget
        self.scale, self.unlabeled, self.random_state = scale, unlabeled, random_state

    def _params(self) -> MultiscaleKernelParams:
        model = self.section(MultiscaleModel)
        return MultiscaleKernelParams(
            kernels=BaseKernels("rbf", {}, (None,), self.random_state),
            multiscale=model.multiscale(budget_of(self.memory_budget)), learners=(model.learner,),
            prior=prior_of(model.class_prior, None), weight=ClassWeight.of(model.class_weight),
            random_state=self.random_state)

    def _basis(self, context: Context, params: MultiscaleKernelParams) -> JsonObject:
        self.map_ = map_in(context)
        return self.map_.attributes


class MultiscaleKernelClassifier(CalibratedClassifier, MultiscaleKernelEstimator):
    """A linear model in the multi-scale eigen kernel of all points, for classification.

    The graph Laplacians of all points, labeled and unlabeled, are decomposed at a
    sequence of scales. For each index, the eigenfunction at the scale where its
    eigenvalue changes least enters the kernel, so that two points are alike where paths
    of short steps join them. The kernel suits a few labels of classes that gaps divide;
    each outlying point takes an eigenfunction.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result.

    Parameters
    ----------
    eps_0 : float or "auto"
        The first scale, in squared units of the features; "auto" is half the
        squared median distance of two points.
    q : float
        The ratio of each scale to the one before, between 0 and 1.
    threshold : float
        The second eigenvalue of the graph Laplacian below which there are no
        further scales.
    n_eigenpairs : int or "auto"
        The number of eigenpairs of the kernel beside the constant; "auto" is an
        eighth of the landmarks, but at least 100, or all of fewer landmarks.
    n_landmarks : int or "auto"
        The number of points whose graph Laplacians are decomposed, drawn at random,
        with the labeled ones among them as long as these are no more than half.
        Other points have extended eigenfunctions, as new points have. "auto" is as
        many as the memory budget allows, 2,000 at most, and all points where there
        are fewer.
    outlier_share : float
        The share of the landmarks that are dropped at most, 0 to 0.5, because they
        lie apart from the others. Scales end where the other landmarks fall apart.
    unit_diagonal : bool
        Whether the kernel is scaled to unit diagonal, so that no point weighs more
        than others. False is the kernel of the paper.
    C : float
        The penalty of the loss against the norm, 1 / alpha, for a kernel whose
        diagonal, or its median, is 1. The rule of the paper is to interpolate,
        which 1e6 does.
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
        The seed of every random choice.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The classes, in ascending order.
    map_ : MultiscaleMap
        The features, whose kernel is that of the paper.
    model_ : MultiscaleModel
        What predicts points, and no more than that needs.
    transduction_ : ndarray, shape (n,)
        The labels predicted for the points of the fit.
    calibration_ : Calibration
        What makes scores probabilities.
    evidence_ : dict
        The number of `landmarks`, that of dropped `outliers`, the `eigenpairs`, the
        `scales` eps_j and the `second` eigenvalue of each; for each `index` k the
        number j of the `chosen` scale and the `eigenvalues`; the indices whose first
        choice was `passed_over` for a scale with sound denominators, those `unsound`
        at all scales, those `dropped` with an eigenvalue 0, and the `unsound_share`
        of points and indices in a sample of the points of the fit.
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
    Mhaskar, Pereverzyev, Semenov, Semenova, "Data based construction of kernels for
    classification", 2018.

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import MultiscaleKernelClassifier
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = MultiscaleKernelClassifier().fit(X, y)
    >>> model.score(X, classes)
    1.0
    """

    regressor = "MultiscaleKernelRegressor"

    def __init__(self, *, eps_0: float | str = MultiscaleModel.eps_0, q: float = MultiscaleModel.q,
                 threshold: float = MultiscaleModel.threshold, n_eigenpairs: int | str = MultiscaleModel.n_eigenpairs,
                 n_landmarks: int | str = MultiscaleModel.n_landmarks,
                 outlier_share: float = MultiscaleModel.outlier_share,
                 unit_diagonal: bool = MultiscaleModel.unit_diagonal, C: float = MultiscaleModel.C,
                 loss: str = MultiscaleModel.loss, class_prior: PriorLike = None,
                 class_weight: WeightLike = None, scale: ScalingKind = "auto",
                 memory_budget: int | str | None = None, unlabeled: object = None, random_state: int = 0):
        super().__init__(eps_0=eps_0, q=q, threshold=threshold, n_eigenpairs=n_eigenpairs, n_landmarks=n_landmarks,
                         outlier_share=outlier_share, unit_diagonal=unit_diagonal, C=C, scale=scale,
                         memory_budget=memory_budget, unlabeled=unlabeled, random_state=random_state)
        self.loss = loss
        self.class_prior, self.class_weight = class_prior, class_weight


class MultiscaleKernelRegressor(PointRegressor, MultiscaleKernelEstimator):
    """Ridge regression in the multi-scale eigen kernel of all points.

    `fit(X, y)` takes y of shape (n,) or (n, c); a row with a NaN is unlabeled. Points
    are as in `MultiscaleKernelClassifier`.

    Parameters
    ----------
    eps_0 : float or "auto"
        The first scale, in squared units of the features; "auto" is half the
        squared median distance of two points.
    q : float
        The ratio of each scale to the one before, between 0 and 1.
    threshold : float
        The second eigenvalue of the graph Laplacian below which there are no
        further scales.
    n_eigenpairs : int or "auto"
        The number of eigenpairs of the kernel beside the constant; "auto" is an
        eighth of the landmarks, but at least 100, or all of fewer landmarks.
    n_landmarks : int or "auto"
        The number of points whose graph Laplacians are decomposed, drawn at random,
        with the labeled ones among them as long as these are no more than half.
        Other points have extended eigenfunctions, as new points have. "auto" is as
        many as the memory budget allows, 2,000 at most, and all points where there
        are fewer.
    outlier_share : float
        The share of the landmarks that are dropped at most, 0 to 0.5, because they
        lie apart from the others. Scales end where the other landmarks fall apart.
    unit_diagonal : bool
        Whether the kernel is scaled to unit diagonal, so that no point weighs more
        than others. False is the kernel of the paper.
    C : float
        The penalty of the loss against the norm, 1 / alpha, for a kernel whose
        diagonal, or its median, is 1. The rule of the paper is to interpolate,
        which 1e6 does.
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
        The seed of every random choice.

    Attributes
    ----------
    map_ : MultiscaleMap
        The features, whose kernel is that of the paper.
    model_ : MultiscaleModel
        What predicts points, and no more than that needs.
    transduction_ : ndarray, shape (n,) or (n, c)
        What is predicted for the points of the fit.
    evidence_ : dict
        The number of `landmarks`, that of dropped `outliers`, the `eigenpairs`, the
        `scales` eps_j and the `second` eigenvalue of each; for each `index` k the
        number j of the `chosen` scale and the `eigenvalues`; the indices whose first
        choice was `passed_over` for a scale with sound denominators, those `unsound`
        at all scales, those `dropped` with an eigenvalue 0, and the `unsound_share`
        of points and indices in a sample of the points of the fit.
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
        When `fit` is called: y has no target.
    ParameterError
        When `fit` is called: a parameter is out of range.

    References
    ----------
    Mhaskar, Pereverzyev, Semenov, Semenova, "Data based construction of kernels for
    classification", 2018.

    Examples
    --------
    Every tenth target of 200 points is known:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import MultiscaleKernelRegressor
    >>> X, _ = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) % 10 == 0, X[:, 0] ** 2, np.nan)
    >>> model = MultiscaleKernelRegressor().fit(X, y)
    >>> model.score(X, X[:, 0] ** 2) > 0.95
    True
    """
