"""Estimators in the kernel deformed by the graph of all points: `LapSVC` and `LapKernelRidge`."""

import warnings
from typing import ClassVar

import numpy as np

from ..base.digest import BANDWIDTH, JsonObject
from ..base.errors import explain
from ..base.units import budget_of
from ..data.scaling.scaling import ScalingKind
from ..execution.tasks import Execution
from ..graph.knn_graph import KNNGraph
from ..graph.regularizer import RegularizerParams
from ..graph.weights.rules import KERNEL_WIDTH
from ..kernels.base import Kernel
from ..kernels.deformed import Eta
from ..learners.class_prior import ClassWeight
from ..learners.deformed import GraphCovariance
from ..learners.linear.kernel_model import KernelModel, expand
from ..learners.target.target import Target
from ..methods.deformed.covariance import covariance_of
from ..methods.deformed.method import DEFORMED_RIDGE, DEFORMED_SVM
from ..methods.deformed.models import DeformedModels, Expansion
from ..methods.deformed.sections import DeformedKernelParams, DeformedModel, RidgeModel, SvmModel
from ..methods.step import Context
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Rows
from .arguments import GraphLike, PointsLike, PriorLike, WeightLike, base_kernels
from .base import PointRegressor
from .classifier import CalibratedClassifier
from .method import SearchedEstimator
from .targets import prior_of


class DeformedKernelEstimator(SearchedEstimator):
    """What estimators in a deformed kernel share; `LapSVC` describes the parameters."""

    method, vectorized = DEFORMED_SVM, ("regularizer__power", "eta", "C")
    sections: ClassVar[type[DeformedModel]] = RidgeModel
    kept_steps = ("system",)
    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph, "regularizer": RegularizerParams}
    defaults: ClassVar[dict[str, dict[str, float]]] = {"graph": {"width": KERNEL_WIDTH}}
    model_: KernelModel
    eta: Eta
    C: float

    def __init__(self, kernel: str | Kernel = "rbf", *, bandwidth: float | str = BANDWIDTH,
                 C: float = DeformedModel.C, eta: Eta = DeformedModel.eta,
                 graph: KNNGraph | int | None = None, regularizer: RegularizerParams | None = None,
                 n_landmarks: int | str = DeformedModel.n_landmarks,
                 tol: float = SolverParams.tol, scale: ScalingKind = "auto",
                 memory_budget: int | str | None = None, unlabeled: object = None,
                 random_state: int = 0):
        self.kernel, self.bandwidth, self.C, self.eta, self.scale = kernel, bandwidth, C, eta, scale
        self.graph, self.regularizer, self.n_landmarks, self.tol = graph, regularizer, n_landmarks, tol
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _params(self) -> DeformedKernelParams:
        model = self.section(self.sections)
        return DeformedKernelParams(
            kernels=base_kernels(self), learner=model.learner,
            regularizer=self.group("regularizer"), n_landmarks=model.size(budget_of(self.memory_budget)), C=model.C,
            eta=model.eta, solver=SolverParams(tol=self.tol, random_state=self.random_state),
            random_state=self.random_state, prior=prior_of(model.class_prior, None),
            weight=ClassWeight.of(model.class_weight))

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: GraphLike | None,
               params: DeformedKernelParams, execution: Execution) -> None:
        if len(target.labeled) >= params.n_landmarks and len(rows) > params.n_landmarks:
            warnings.warn(explain(
                f"{len(target.labeled)} labeled points and n_landmarks={params.n_landmarks}",
                why="functions are measured at labeled points alone, so the graph says little about the others",
                fix=f"raise n_landmarks to {2 * len(target.labeled)} or more" + (
                    ", or memory_budget" if self.n_landmarks == "auto" else "")), UserWarning, stacklevel=3)
        self._run(rows, target, weight, self._graph(rows, graph, execution), params, execution)

    def _evidence(self, context: Context, params: DeformedKernelParams) -> JsonObject:
        covariance = covariance_of(context, params)
        self.landmarks_ = covariance.landmarks
        assert context.fit is not None
        assert isinstance(context.fit.fitted, DeformedModels)
        self._on_graph = self._at_other_points(context, context.fit.fitted.function, covariance,
                                               params.regularizer.power)
        model = context.attributes("models")["models"]["model"]
        return {**covariance.attributes, "n_landmarks": len(self.landmarks_), "eta": model["eta"],
                "spectral_concentration": covariance.concentration[params.regularizer.power]}

    def _at_other_points(self, context: Context, function: Expansion, covariance: GraphCovariance,
                         power: int) -> tuple[KernelModel, np.ndarray, np.ndarray] | None:
        """Return what predicts the points of the fit that are no landmarks; None where all are.

        A model at these points, the values of least energy at the vertices, and the vertex of each point.
        """
        model = self.model_
        off, values = function.deformation.at_other_points(
            context.points("train").take(covariance.landmarks), function.points, function.coef)
        if len(covariance.vertices) <= len(covariance.landmarks) or not values.any():
            return None
        return (expand(off, function.points, function.coef, model.intercept, model.coding),
                covariance.minimum_energy(values, power, context.execution), covariance.vertices.vertex)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in super().__getstate__().items() if name != "_on_graph"}

    def _transduced(self, X: PointsLike) -> np.ndarray:
        if self._on_graph is None:
            return super()._transduced(X)
        off, values, vertex = self._on_graph
        self._on_graph = None
        execution = self._execution()
        return off.coding.labels(off.values(self._new_rows(X, execution), execution) + values[vertex])


class LapSVC(CalibratedClassifier, DeformedKernelEstimator):
    """Support vector machine in the kernel deformed by the graph of all points.

    The squared loss fits a least-squares support vector machine for each class against
    the rest, the hinge loss a support vector machine for each pair of classes. There
    may be any number of classes.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result.

    With all points labeled the graph is one of labeled points, and `evidence_` says
    that 0 are unlabeled. A class with one label is fitted, but not calibrated. There is
    a warning if there are more labels than `n_landmarks`, and if there are no more
    points than n_neighbors, which is then lowered.

    Parameters
    ----------
    kernel : str or callable
        The base kernel: "rbf", "laplacian", "linear", "polynomial", "cosine", or a
        function that returns the block of its values between the rows X and Z.
    bandwidth : float or str
        The bandwidth of the base kernel: a number in units of the features,
        "median", the median distance of two points, or a multiple of it such as
        "0.5*median".
    C : float
        The penalty of the loss, for a kernel of unit mean diagonal.
    eta : float or "auto"
        The weight of the graph against the base kernel, 0 to 1e8; 0 is the base
        kernel alone. "auto" is the mean of the kernels of 0, 10 and 100, weighted
        by their leave-one-out residuals on the labels, of more than 3,000 labels
        by those of a sample, and by the spectral concentration of the graph.
    loss : "squared" or "hinge"
        The loss of the labels: "squared" fits each class against the rest, "hinge"
        a model for each pair of classes. Where labels are few, the intercept of
        "hinge" predicts too few points of the class whose labels are the more
        isolated.
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in a
        dict. Only the ratios matter.
    graph : KNNGraph, int or None
        How the graph is made from the points; an int is its `n_neighbors`, and None
        takes the defaults. A graph that is already made is passed to `fit`.
    regularizer : RegularizerParams or None
        The regularizer of the graph; None is that of the normalized Laplacian with
        ridge 0.01 and power 2.
    n_landmarks : int or "auto"
        The number of landmarks, at which functions are measured: the labeled points,
        as many as fit, and a random draw of the others; all points where there are
        fewer. At the other points of the fit functions follow the graph, and at new
        points the base kernel. "auto" is 1,000, or what a memory budget below 192
        MB allows.
    tol : float
        The relative residual at which a solve ends.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` holds the fitted scaling.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1
        GiB, or what the workers allow.
    unlabeled : object
        The marker of points without a label, where it is not -1 (integers), NaN
        (floats), None or "" (text).
    random_state : int
        The seed of every random choice, except those of a graph that is given.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The classes, in ascending order.
    model_ : KernelModel
        What predicts points, and no more than that needs.
    transduction_ : ndarray, shape (n,)
        The labels predicted for the points of the fit. Where `n_landmarks` are
        fewer they follow the graph, as those of `predict` cannot.
    landmarks_ : ndarray, shape (s,)
        The numbers of the landmarks, at which functions are measured.
    evidence_ : dict
        What the graph and the solves tell of themselves; `eta` is the weight of
        each eta.
    calibration_ : Calibration
        What makes scores probabilities.
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
        When `fit` is called: y has no label, or labels of one class, or is in {-1, +1};
        or all points are equal. Since -1 marks unlabeled points, name another marker
        then, such as `unlabeled=0`.
    ParameterError
        When `fit` is called: a parameter is out of range.

    References
    ----------
    Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS
    2012, eq. 6; Suykens, Vandewalle, "Least squares support vector machine
    classifiers", Neural Processing Letters 1999.

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import LapSVC
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = LapSVC().fit(X, y)
    >>> model.score(X, classes)
    1.0
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    sections, regressor = SvmModel, "LapKernelRidge"

    def __init__(self, kernel: str | Kernel = "rbf", *, bandwidth: float | str = BANDWIDTH, C: float = DeformedModel.C,
                 eta: Eta = DeformedModel.eta, loss: str = SvmModel.loss, class_prior: PriorLike = None,
                 class_weight: WeightLike = None, graph: KNNGraph | int | None = None,
                 regularizer: RegularizerParams | None = None, n_landmarks: int | str = DeformedModel.n_landmarks,
                 tol: float = SolverParams.tol, scale: ScalingKind = "auto", memory_budget: int | str | None = None,
                 unlabeled: object = None, random_state: int = 0):
        super().__init__(kernel, bandwidth=bandwidth, C=C, eta=eta, graph=graph, regularizer=regularizer,
                         n_landmarks=n_landmarks, tol=tol, scale=scale, memory_budget=memory_budget,
                         unlabeled=unlabeled, random_state=random_state)
        self.loss = loss
        self.class_prior, self.class_weight = class_prior, class_weight


class LapKernelRidge(PointRegressor, DeformedKernelEstimator):
    """Kernel ridge regression in the kernel deformed by the graph of all points.

    `fit(X, y)` takes y of shape (n,) or (n, c); a row with a NaN is unlabeled. Points,
    weights and graph are as in `LapSVC`.

    Parameters
    ----------
    kernel : str or callable
        The base kernel: "rbf", "laplacian", "linear", "polynomial", "cosine", or a
        function that returns the block of its values between the rows X and Z.
    bandwidth : float or str
        The bandwidth of the base kernel: a number in units of the features,
        "median", the median distance of two points, or a multiple of it such as
        "0.5*median".
    C : float
        The penalty of the loss, for a kernel of unit mean diagonal.
    eta : float or "auto"
        The weight of the graph against the base kernel, 0 to 1e8; 0 is the base
        kernel alone. "auto" is the mean of the kernels of 0, 10 and 100, weighted
        by their leave-one-out residuals on the labels, of more than 3,000 labels
        by those of a sample, and by the spectral concentration of the graph.
    graph : KNNGraph, int or None
        How the graph is made from the points; an int is its `n_neighbors`, and None
        takes the defaults. A graph that is already made is passed to `fit`.
    regularizer : RegularizerParams or None
        The regularizer of the graph; None is that of the normalized Laplacian with
        ridge 0.01 and power 2.
    n_landmarks : int or "auto"
        The number of landmarks, at which functions are measured: the labeled points,
        as many as fit, and a random draw of the others; all points where there are
        fewer. At the other points of the fit functions follow the graph, and at new
        points the base kernel. "auto" is 1,000, or what a memory budget below 192
        MB allows.
    tol : float
        The relative residual at which a solve ends.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` holds the fitted scaling.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1
        GiB, or what the workers allow.
    unlabeled : object
        The marker of points without a label, where it is not -1 (integers), NaN
        (floats), None or "" (text).
    random_state : int
        The seed of every random choice, except those of a graph that is given.

    Attributes
    ----------
    model_ : KernelModel
        What predicts points, and no more than that needs.
    transduction_ : ndarray, shape (n,) or (n, c)
        What is predicted for the points of the fit. Where `n_landmarks` are fewer
        it follows the graph, as what `predict` returns cannot.
    landmarks_ : ndarray, shape (s,)
        The numbers of the landmarks, at which functions are measured.
    evidence_ : dict
        What the graph and the solves tell of themselves; `eta` is the weight of
        each eta.
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
    Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS
    2012, eq. 6.

    Examples
    --------
    Every tenth target of 200 points is known:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import LapKernelRidge
    >>> X, _ = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) % 10 == 0, X[:, 0] ** 2, np.nan)
    >>> model = LapKernelRidge().fit(X, y)
    >>> model.score(X, X[:, 0] ** 2) > 0.95
    True
    """

    method = DEFORMED_RIDGE
