"""`GraphKernelRidge`: an average of ridge regressions in kernels of the graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..data.scaling.scaling import ScalingKind
from ..graph.knn_graph import KNNGraph
from ..graph.solved_functions import FunctionParams
from ..learners.on_graph.graph_ridge import GraphRidgeParams
from ..methods.graph.learner import GraphLearner
from ..solvers.solver_params import SolverParams
from .arguments import OtherModel, PriorLike, SizesLike, WeightLike
from .graph import GraphClassifier, GraphEstimator, GraphRegressor


class GraphKernelRidgeBase(GraphEstimator):
    """What both share; `GraphKernelRidge` describes the parameters."""

    vectorized = several = ("ridge", "power", "by_degree", "penalty", "weighting")

    def __init__(self, graph: KNNGraph | int | None = None, *, ridge: float | Sequence[float] | None = None,
                 power: int | Sequence[int] = (1, 2, 3), by_degree: bool | Sequence[bool] = True, penalty: float = 0.1,
                 weighting: str = "loo", laplacian: str = "normalized", base_estimator: OtherModel | None = None,
                 tol: float = 0.1, scale: ScalingKind = "auto", memory_budget: int | str | None = None,
                 unlabeled: object = None, random_state: int = 0):
        self.base_estimator = base_estimator
        self.graph, self.ridge, self.power, self.by_degree = graph, ridge, power, by_degree
        self.penalty, self.weighting, self.laplacian, self.tol = penalty, weighting, laplacian, tol
        self.scale = scale
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _learner(self) -> GraphLearner:
        def several(value: Any) -> tuple[Any, ...]:
            return tuple(value) if np.ndim(value) else (value,)

        return GraphLearner("ridge", GraphRidgeParams(
            ridge=None if self.ridge is None else several(self.ridge), power=several(self.power),
            by_degree=several(self.by_degree), penalty=self.penalty, weighting=self.weighting,
            functions=FunctionParams(laplacian=self.laplacian, tol=self.tol,  # type: ignore[arg-type]
                                     random_state=self.random_state), random_state=self.random_state),
            SolverParams(random_state=self.random_state))


class GraphKernelRidge(GraphClassifier, GraphKernelRidgeBase):
    """An average of ridge regressions in kernels of the graph, for classification.

    It averages ridge regressions in the kernels of a family. The default family needs
    no tuning from one label a class on. One ridge, one power, one `by_degree` and the
    penalty make it a single kernel.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result.

    Points that are unreachable from any label, in components of the graph without one,
    are counted in `evidence_` and have no prediction: NaN of quantities, -1 of integer
    classes, or else None. A new point has the weighted mean of its nearest points in
    the graph, and a point of the fit what the fit says.

    Parameters
    ----------
    graph : KNNGraph, int or None
        How the graph is made from the points; an int is its `n_neighbors`, and None
        takes the defaults. A graph that is already made is passed to `fit`.
    ridge : float, sequence or None
        What is added to the Laplacian, a number or several, each with each power;
        None is that of the family. The smaller the ridge, the farther a label
        reaches.
    power : int or sequence
        The power of the regularizer, a number or several. The larger, the smoother.
    by_degree : bool or sequence
        Whether kernels are scaled by D^-1/2 on both sides, or a sequence of both.
    penalty : float
        What is added to the diagonal of a kernel of unit mean diagonal. Toward 0
        the kernel interpolates; inf is the kernel mean.
    weighting : "loo" or "equal"
        How the kernels are averaged: by exact leave-one-out residuals, or equally.
    laplacian : "normalized" or "unnormalized"
        Which Laplacian of the graph.
    class_sizes : list, dict, "balanced" or None
        The known sizes of the classes, in the order of `classes_` or by class in a
        dict: counts or shares, or a pair of shares (low, high) where only an interval
        is known; "balanced" says that all are equal. The classes are then the cut of
        the graph with these sizes. None where they are not known: the labels' own
        proportions are no substitute.
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in a
        dict. Only the ratios matter.
    base_estimator : str, estimator or None
        Another model, which is fitted to the labels and cross-validated on them:
        "boosting", "logistic", or any classifier with `predict_proba`; see
        `SemiSupervisedClassifier`.
    class_embeddings : array-like, shape (n_classes, d), or None
        A vector for each class in the space of X, such as the embedded texts of a
        language-image model. y may then have no label at all.
    classes : list or None
        The names of the classes in the order of the rows of class_embeddings, or of
        the columns of `fit(soft_labels=...)`; None takes the names of a DataFrame, or
        the classes of y in ascending order, or 0, 1, ... where y has no label.
    tol : float
        The tolerance of the kernels' columns, see `FunctionParams`.
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
        The seed of the graph's search and of the start of the solver.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The classes, in ascending order.
    model_ : GraphModel
        What predicts points, with its `values_at` the vertices.
    transduction_ : ndarray, shape (n,)
        The labels predicted for the points of the fit.
    evidence_ : dict
        The graph, the solver, the number of `unreachable` points, and the classes
        that no point of the fit is predicted as, `never_predicted`.
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
        When `fit` is called: y has no label, or labels of one class, or is in {-1, +1}.
        Since -1 marks unlabeled points, name another marker then, such as
        `unlabeled=0`.
    ParameterError
        When `fit` is called: a parameter is out of range.

    Notes
    -----
    A kernel of the graph is ``(L_norm + ridge I)^-power``;
    `dssl.learners.on_graph.graph_ridge` describes the family and how its members are
    averaged.

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import GraphKernelRidge
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = GraphKernelRidge().fit(X, y)
    >>> model.score(X, classes)
    1.0
    """
    regressor = "GraphKernelRidgeRegressor"

    def __init__(self, graph: KNNGraph | int | None = None, *, ridge: float | Sequence[float] | None = None,
                 power: int | Sequence[int] = (1, 2, 3), by_degree: bool | Sequence[bool] = True, penalty: float = 0.1,
                 weighting: str = "loo", laplacian: str = "normalized", class_sizes: SizesLike = None,
                 class_prior: PriorLike = None, class_weight: WeightLike = None,
                 base_estimator: OtherModel | None = None, class_embeddings: ArrayLike | None = None,
                 classes: ArrayLike | None = None, tol: float = 0.1, scale: ScalingKind = "auto",
                 memory_budget: int | str | None = None, unlabeled: object = None, random_state: int = 0):
        super().__init__(graph, ridge=ridge, power=power, by_degree=by_degree, penalty=penalty, weighting=weighting,
                         laplacian=laplacian, base_estimator=base_estimator, tol=tol, scale=scale,
                         memory_budget=memory_budget, unlabeled=unlabeled, random_state=random_state)
        self.class_sizes = class_sizes
        self.class_embeddings, self.classes = class_embeddings, classes
        self.class_prior, self.class_weight = class_prior, class_weight


class GraphKernelRidgeRegressor(GraphRegressor, GraphKernelRidgeBase):
    """An average of ridge regressions in kernels of the graph, for quantities.

    It averages ridge regressions in the kernels of a family. The default family needs
    no tuning from one label a class on. One ridge, one power, one `by_degree` and the
    penalty make it a single kernel. `fit(X, y)` takes y of shape (n,) or (n, c); a row
    with a NaN is unlabeled.

    Points that are unreachable from any label, in components of the graph without one,
    are counted in `evidence_` and have no prediction: NaN of quantities, -1 of integer
    classes, or else None. A new point has the weighted mean of its nearest points in
    the graph, and a point of the fit what the fit says.

    Parameters
    ----------
    graph : KNNGraph, int or None
        How the graph is made from the points; an int is its `n_neighbors`, and None
        takes the defaults. A graph that is already made is passed to `fit`.
    ridge : float, sequence or None
        What is added to the Laplacian, a number or several, each with each power;
        None is that of the family. The smaller the ridge, the farther a label
        reaches.
    power : int or sequence
        The power of the regularizer, a number or several. The larger, the smoother.
    by_degree : bool or sequence
        Whether kernels are scaled by D^-1/2 on both sides, or a sequence of both.
    penalty : float
        What is added to the diagonal of a kernel of unit mean diagonal. Toward 0
        the kernel interpolates; inf is the kernel mean.
    weighting : "loo" or "equal"
        How the kernels are averaged: by exact leave-one-out residuals, or equally.
    laplacian : "normalized" or "unnormalized"
        Which Laplacian of the graph.
    base_estimator : str, estimator or None
        Another model, which is fitted to the labels and cross-validated on them:
        "boosting", "ridge", or any regressor; see `SemiSupervisedRegressor`.
    tol : float
        The tolerance of the kernels' columns, see `FunctionParams`.
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
        The seed of the graph's search and of the start of the solver.

    Attributes
    ----------
    model_ : GraphModel
        What predicts points, with its `values_at` the vertices.
    transduction_ : ndarray, shape (n,) or (n, c)
        What is predicted for the points of the fit.
    evidence_ : dict
        The graph, the solver and the number of `unreachable` points.
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

    Notes
    -----
    A kernel of the graph is ``(L_norm + ridge I)^-power``;
    `dssl.learners.on_graph.graph_ridge` describes the family and how its members are
    averaged.

    Examples
    --------
    Every tenth target of 200 points is known:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import GraphKernelRidgeRegressor
    >>> X, _ = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) % 10 == 0, X[:, 0] ** 2, np.nan)
    >>> model = GraphKernelRidgeRegressor().fit(X, y)
    >>> model.score(X, X[:, 0] ** 2) > 0.95
    True
    """
