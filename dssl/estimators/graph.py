"""`LaplaceLearning`, `PoissonLearning` and `GraphKernelRidge`: learners whose function lives on the graph."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from ..base.digest import BANDWIDTH
from ..base.errors import DataError, explain, require
from ..execution.tasks import Execution
from ..graph.functions import FunctionParams
from ..graph.graph import KNNGraph
from ..kernels.base import BaseKernels
from ..learners.on_graph.graph_ridge import GraphRidgeParams
from ..learners.on_graph.held_out import Repetitions
from ..learners.on_graph.model import GraphModel
from ..learners.probabilities import CALIBRATION
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Target
from ..methods.graph.learner import GraphLearner, GraphLearnerParams, LearnerName, rows_on_graph
from ..methods.graph.method import GRAPH_LEARNER
from ..methods.step import Context
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Rows
from .base import PointRegressor, SearchedEstimator
from .calibrated import CalibratedClassifier
from .method import MethodEstimator
from .targets import prior_of


class PointsBeyond(UserWarning):
    """Some points are in parts of the graph without a label, and have no prediction."""


class GraphEstimator(MethodEstimator, SearchedEstimator):
    """What learners on the graph share.

    Points that no label reaches, in components of the graph without one, are counted in `evidence_` and have no
    prediction: NaN of quantities, -1 of integer classes, or else None. A new point has the weighted mean of its nearest
    points in the graph, and a point of the fit what the fit says.
    """

    method = GRAPH_LEARNER
    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph}
    predicts_by_lists = True
    model_: GraphModel
    graph: Any
    random_state: int

    @abstractmethod
    def _learner(self) -> GraphLearner:
        """Return the learner; raise ParameterError where a parameter is out of range."""

    def _params(self) -> GraphLearnerParams:
        return GraphLearnerParams(
            learners=(self._learner(),), graph=self.group("graph"), random_state=self.random_state,
            kernels=BaseKernels("rbf", {}, (BANDWIDTH,), self.random_state),
            prior=prior_of(getattr(self, "class_prior", None), getattr(self, "class_sizes", None)))

    def _comparing(self, params: GraphLearnerParams, compares: bool) -> GraphLearnerParams:
        return replace(params, compares=compares)

    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None, repetitions: Repetitions,
                      tried: Sequence[dict[str, Any]], scoring: str | None, execution: Execution,
                      kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """As the base class says; with known class sizes by fits without each fold."""
        learners = [clone(self).set_params(**values)._learner() for values in tried]
        return rows_on_graph(learners, kept["graph"], target, weight, repetitions, scoring, execution, kept)

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: GraphLearnerParams,
               execution: Execution) -> None:
        self._run(rows, target, weight, self._graph(rows, graph, execution), params, execution)
        assert self._transduction is not None
        coding, unreached = self.model_.coding, self.evidence_["unreached"]
        if isinstance(coding, ClassCoding):
            self.evidence_["never_predicted"] = coding.never_among(self._transduction)
        if unreached:
            warnings.warn(explain(
                f"{unreached} of {len(self._transduction)} points have no prediction",
                why="no label reaches their part of the graph",
                fix="label a point there, raise n_neighbors, or use an estimator with a base kernel, such as LapSVC"),
                PointsBeyond, stacklevel=3)

    def _told(self, context: Context, params: GraphLearnerParams) -> dict[str, Any]:
        attributes = context.attributes("vertex_values")
        return {**context.graph().attributes,
                **{name: value for name, value in attributes.items() if name != CALIBRATION}}


class GraphClassifier(CalibratedClassifier, GraphEstimator):
    """A classifier on the graph, with probabilities; scores of points without a prediction are NaN."""

    regressor = "LaplaceLearningRegressor"
    class_sizes: Any

    def _values(self, X: Any) -> np.ndarray:
        execution = self._execution()  # what it shares is gone when it is, so it outlives the rows
        rows = self._new_rows(X, execution)
        values, beyond = self.model_.values_and_beyond(rows, execution)
        values[beyond] = np.nan
        return values


class GraphRegressor(PointRegressor, GraphEstimator):
    """A regressor on the graph."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the coefficient of determination over labeled points.

        Parameters
        ----------
        X : array-like, shape (n, d)
            The points.
        y : array-like, shape (n,) or (n, c), or None
            Their targets, as in `fit`; unlabeled points do not count.
        sample_weight : array-like, shape (n,), or None
            What each point counts; None is 1 each.

        Returns
        -------
        float
            R^2, of several targets their mean.

        Raises
        ------
        DataError
            No point has a target, or one of them has no prediction.
        """
        _, predicted, _ = self._compared(X, y, sample_weight)
        lost = int(np.isnan(predicted).reshape(len(predicted), -1).any(axis=1).sum())
        require(lost == 0, f"{lost} of {len(predicted)} points have no prediction", error=DataError,
                why="no label reaches their part of the graph, and R^2 is of numbers",
                fix="score the points whose prediction is a number")
        return super().score(X, y, sample_weight)


class OneSystemClassifier(GraphClassifier):
    """A classifier on the graph by one system of as many columns as classes."""

    learner: ClassVar[LearnerName]

    def __init__(self, graph: KNNGraph | None = None, *, class_sizes: Any = None, class_prior: Any = None,
                 class_weight: Any = None, tol: float = 1e-5, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        self.class_prior, self.class_weight = class_prior, class_weight
        self.graph, self.class_sizes, self.tol, self.scale = graph, class_sizes, tol, scale
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _learner(self) -> GraphLearner:
        return GraphLearner(self.learner, None, SolverParams(
            tol=self.tol, random_state=self.random_state))


class LaplaceLearning(OneSystemClassifier):
    """Harmonic functions: shares of the classes at which random walks on the graph end.

    The method needs some labels of each class: with one or two, values away from labels
    are nearly equal, and `PoissonLearning` or `GraphKernelRidge` is better.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result.

    Points that no label reaches, in components of the graph without a label, are
    counted in `evidence_` and have no prediction: NaN of quantities, -1 of integer
    classes, or else None. A new point has the weighted mean of its nearest points in
    the graph, and a point of the fit what the fit says.

    Parameters
    ----------
    graph : KNNGraph or None
        How the graph is made from the points; None takes the defaults. A graph that
        is already made is passed to `fit`.
    class_sizes : list, dict or None
        The known sizes of the classes, counts or shares, in the order of `classes_`
        or by class in a dict; as many points then get each class. None where they
        are not known: the labels' own proportions are no substitute
        (`dssl.learners.on_graph.class_sizes`).
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in
        a dict.
    tol : float
        The relative residual at which the solve of a column ends.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` is what it came to.
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
        The graph, the solver, the number of `unreached` points, and the classes
        that no point of the fit is predicted as, `never_predicted`.
    calibration_ : Calibration or None
        What makes scores probabilities; None where each class has one label.
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
    Zhu, Ghahramani, Lafferty, "Semi-supervised learning using Gaussian fields and
    harmonic functions", ICML 2003; class sizes by class mass normalization, section 4
    there.

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import LaplaceLearning
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = LaplaceLearning().fit(X, y)
    >>> model.score(X, classes)
    1.0
    """

    learner = "laplace"


class LaplaceLearningRegressor(GraphRegressor):
    """Harmonic functions of quantities.

    At labeled points the function is the target, elsewhere the mean of the neighbors.
    `fit(X, y)` takes y of shape (n,) or (n, c); a row with a NaN is unlabeled.

    Points that no label reaches, in components of the graph without a label, are
    counted in `evidence_` and have no prediction: NaN of quantities, -1 of integer
    classes, or else None. A new point has the weighted mean of its nearest points in
    the graph, and a point of the fit what the fit says.

    Parameters
    ----------
    graph : KNNGraph or None
        How the graph is made from the points; None takes the defaults. A graph that
        is already made is passed to `fit`.
    tol : float
        The relative residual at which the solve of a column ends.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` is what it came to.
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
        The graph, the solver and the number of `unreached` points.
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
    Zhu, Ghahramani, Lafferty, "Semi-supervised learning using Gaussian fields and
    harmonic functions", ICML 2003.

    Examples
    --------
    Every tenth target of 200 points is known:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import LaplaceLearningRegressor
    >>> X, _ = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) % 10 == 0, X[:, 0] ** 2, np.nan)
    >>> model = LaplaceLearningRegressor().fit(X, y)
    >>> model.score(X, X[:, 0] ** 2) > 0.95
    True
    """

    def __init__(self, graph: KNNGraph | None = None, *, tol: float = 1e-5, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        self.graph, self.tol, self.scale = graph, tol, scale
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _learner(self) -> GraphLearner:
        return GraphLearner("laplace", None, SolverParams(tol=self.tol, random_state=self.random_state))


class PoissonLearning(OneSystemClassifier):
    """Poisson learning: labels are sources and sinks of a flow on the graph.

    It suits one label to a few labels of each class.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result.

    Points that no label reaches, in components of the graph without a label, are
    counted in `evidence_` and have no prediction: NaN of quantities, -1 of integer
    classes, or else None. A new point has the weighted mean of its nearest points in
    the graph, and a point of the fit what the fit says.

    Parameters
    ----------
    graph : KNNGraph or None
        How the graph is made from the points; None takes the defaults. A graph that
        is already made is passed to `fit`.
    class_sizes : list, dict or None
        The known sizes of the classes, counts or shares, in the order of `classes_`
        or by class in a dict; as many points then get each class. None where they
        are not known: the labels' own proportions are no substitute
        (`dssl.learners.on_graph.class_sizes`).
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in
        a dict.
    tol : float
        The relative residual at which the solve of a column ends.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` is what it came to.
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
        The graph, the solver, the number of `unreached` points, and the classes
        that no point of the fit is predicted as, `never_predicted`.
    calibration_ : Calibration or None
        What makes scores probabilities; None where each class has one label.
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
    Calder, Cook, Thorpe, Slepcev, "Poisson learning: graph based semi-supervised
    learning at very low label rates", ICML 2020.

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import PoissonLearning
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = PoissonLearning().fit(X, y)
    >>> model.score(X, classes)
    1.0
    """

    learner = "poisson"


class GraphKernelRidgeBase(GraphEstimator):
    """What both share; `GraphKernelRidge` describes the parameters."""

    joint = several = ("ridge", "power", "by_degree", "penalty", "weighting")

    def __init__(self, graph: KNNGraph | None = None, *, ridge: float | Sequence[float] | None = None,
                 power: int | Sequence[int] = (1, 2, 3), by_degree: bool | Sequence[bool] = True, penalty: float = 0.1,
                 weighting: str = "loo", laplacian: str = "normalized", tol: float = 0.1, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
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

    Points that no label reaches, in components of the graph without a label, are
    counted in `evidence_` and have no prediction: NaN of quantities, -1 of integer
    classes, or else None. A new point has the weighted mean of its nearest points in
    the graph, and a point of the fit what the fit says.

    Parameters
    ----------
    graph : KNNGraph or None
        How the graph is made from the points; None takes the defaults. A graph that
        is already made is passed to `fit`.
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
    class_sizes : list, dict or None
        The known sizes of the classes, counts or shares, in the order of `classes_`
        or by class in a dict; as many points then get each class. None where they
        are not known: the labels' own proportions are no substitute
        (`dssl.learners.on_graph.class_sizes`).
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in
        a dict.
    tol : float
        The tolerance of the kernels' columns, see `FunctionParams`.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` is what it came to.
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
        The graph, the solver, the number of `unreached` points, and the classes
        that no point of the fit is predicted as, `never_predicted`.
    calibration_ : Calibration or None
        What makes scores probabilities; None where each class has one label.
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

    def __init__(self, graph: KNNGraph | None = None, *, ridge: float | Sequence[float] | None = None,
                 power: int | Sequence[int] = (1, 2, 3), by_degree: bool | Sequence[bool] = True, penalty: float = 0.1,
                 weighting: str = "loo", laplacian: str = "normalized", class_sizes: Any = None,
                 class_prior: Any = None, class_weight: Any = None, tol: float = 0.1, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        super().__init__(graph, ridge=ridge, power=power, by_degree=by_degree, penalty=penalty, weighting=weighting,
                         laplacian=laplacian, tol=tol, scale=scale, memory_budget=memory_budget,
                         unlabeled=unlabeled, random_state=random_state)
        self.class_sizes = class_sizes
        self.class_prior, self.class_weight = class_prior, class_weight


class GraphKernelRidgeRegressor(GraphRegressor, GraphKernelRidgeBase):
    """An average of ridge regressions in kernels of the graph, for quantities.

    It averages ridge regressions in the kernels of a family. The default family needs
    no tuning from one label a class on. One ridge, one power, one `by_degree` and the
    penalty make it a single kernel. `fit(X, y)` takes y of shape (n,) or (n, c); a row
    with a NaN is unlabeled.

    Points that no label reaches, in components of the graph without a label, are
    counted in `evidence_` and have no prediction: NaN of quantities, -1 of integer
    classes, or else None. A new point has the weighted mean of its nearest points in
    the graph, and a point of the fit what the fit says.

    Parameters
    ----------
    graph : KNNGraph or None
        How the graph is made from the points; None takes the defaults. A graph that
        is already made is passed to `fit`.
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
    tol : float
        The tolerance of the kernels' columns, see `FunctionParams`.
    scale : str
        How the features are scaled: "auto", which standardizes columns whose ranges
        differ and leaves those of one unit, such as pixels and embeddings, as they
        are; "standardize", "unit_range", "max_abs", "unit_norm", "global_range" or
        "none". `scaling_` is what it came to.
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
        The graph, the solver and the number of `unreached` points.
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
