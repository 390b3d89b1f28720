"""`LaplaceLearning`, `PoissonLearning` and `GraphKernelRidge`: learners whose function lives on the graph."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from ..base.errors import DataError, explain, require
from ..execution.tasks import Execution
from ..graph.functions import FunctionParams
from ..graph.graph import Graph, KNNGraph
from ..learners.class_prior import EQUAL, LABELS, ClassPrior, class_shares
from ..learners.on_graph.class_sizes import with_class_sizes
from ..learners.on_graph.graph_ridge import GraphRidgeParams, fit_graph_ridge
from ..learners.on_graph.harmonic import fit_harmonic
from ..learners.on_graph.held_out import (
    HeldOutValues,
    Repetitions,
    held_out_graph_ridge,
    held_out_harmonic,
    held_out_poisson,
    held_out_refits,
    to_calibrate,
)
from ..learners.on_graph.model import GraphModel, graph_model, scored, signed
from ..learners.on_graph.poisson import fit_poisson
from ..learners.on_graph.vertex_labels import VertexValues
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Classes, Target
from ..selection.calibration import calibration_folds, calibration_of, shift_of
from ..selection.on_graph import VERSIONS, row_on_graph
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Rows
from .base import PointClassifier, PointRegressor, SearchedEstimator
from .calibrated import CLASS_FREQUENCIES, CalibratedClassifier

HeldOut = Sequence[HeldOutValues]  # in each repetition of the folds


class PointsBeyond(UserWarning):
    """Some points are in parts of the graph without a label, and have no prediction."""


class GraphEstimator(SearchedEstimator):
    """What learners on the graph share.

    Points that no label reaches, in components of the graph without one, are counted in `evidence_` and have no
    prediction: NaN of quantities, -1 of integer classes, or else None. A new point has the weighted mean of its nearest
    points in the graph, and a point of the fit what the fit says.
    """

    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph}
    predicts_by_lists = True
    versions = VERSIONS
    assumed: ClassVar[ClassPrior] = EQUAL  # how frequent classes are, as values say that are centered over all points
    model_: GraphModel
    graph: Any
    random_state: int

    @abstractmethod
    def _values_on(self, graph: Graph, target: Target, weight: np.ndarray | None, params: Any,
                   execution: Execution) -> VertexValues:
        """Return the function on the vertices."""

    @abstractmethod
    def _held_out(self, graph: Graph, target: Any, weight: np.ndarray | None, repetitions: Repetitions,
                  tried: Sequence[Any], execution: Execution, kept: dict[Any, Any]) -> Sequence[HeldOut]:
        """Return, of each of some parameters, the values of labeled points without their fold in each repetition."""

    def _with_prior(self, graph: Graph, found: VertexValues, target: Any, weight: np.ndarray | None, params: Any,
                    execution: Execution) -> VertexValues:
        """Return the function that knows how frequent classes are, and keep what probabilities are made of."""
        return found

    def held_out_rows(self, rows: Rows, target: Target, weight: np.ndarray | None, repetitions: Repetitions,
                      tried: Sequence[dict[str, Any]], scoring: str | None, execution: Execution,
                      kept: dict[Any, Any]) -> list[dict[str, Any]]:
        """As the base class says; with known class sizes by fits without each fold."""
        graph, each = kept["graph"], [clone(self).set_params(**values) for values in tried]
        params = [own._params() for own in each]
        if getattr(self, "class_sizes", None) is None:
            found = self._held_out(graph, target, weight, repetitions, params, execution, kept)
        else:
            found = [[held_out_refits(partial(own._values_on, graph, params=its, execution=execution), graph, target,
                                      weight, folds) for folds in repetitions]
                     for own, its in zip(each, params, strict=True)]
        assumed = self.assumed if getattr(self, "class_sizes", None) is None else getattr(target, "prior", LABELS)
        return [row_on_graph(target, repetitions, values, weight, scoring, its, assumed)
                for values, its in zip(found, params, strict=True)]

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: Any, params: Any,
               execution: Execution) -> None:
        sizes = getattr(self, "class_sizes", None)
        if sizes is not None:
            assert isinstance(target, Classes)
            class_shares(sizes, target.names)  # raises before the graph is made
        made = self._graph(rows, graph, execution)
        found = self._with_prior(made, self._values_on(made, target, weight, params, execution), target, weight, params,
                                 execution)
        self.model_ = graph_model(made, rows, found, target, self.group("graph"), execution)
        self.evidence_ = {**made.attributes, **found.described(made.vertices)}
        vertex = made.vertices.vertex
        coding, beyond = self.model_.coding, ~found.reached[vertex]
        self._transduction = coding.without(coding.labels(signed(found.values, target)[vertex]), beyond)
        if isinstance(coding, ClassCoding):
            self.evidence_["never_predicted"] = coding.never_among(self._transduction)
        if beyond.any():
            warnings.warn(explain(
                f"{int(beyond.sum())} of {len(vertex)} points have no prediction",
                why="no label reaches their part of the graph",
                fix="label a point there, raise n_neighbors, or use an estimator with a base kernel, such as LapSVC"),
                PointsBeyond, stacklevel=3)


class GraphClassifier(PointClassifier, GraphEstimator):
    """A classifier on the graph; scores of points without a prediction are NaN."""

    regressor = "LaplaceLearningRegressor"

    def _values(self, X: Any) -> np.ndarray:
        execution = self._execution()  # what it shares is gone when it is, so it outlives the rows
        rows = self._new_rows(X, execution)
        values, beyond = self.model_.values_and_beyond(rows, execution)
        values[beyond] = np.nan
        return values


class CalibratedGraphClassifier(CalibratedClassifier, GraphClassifier):
    """A classifier on the graph with probabilities."""

    class_sizes: Any

    def _with_prior(self, graph: Graph, found: VertexValues, target: Any, weight: np.ndarray | None, params: Any,
                    execution: Execution) -> VertexValues:
        def held_out() -> np.ndarray:
            return signed(self._left_out(graph, found, target, weight, params, execution), target)

        if self.class_sizes is not None:
            self.calibration_ = calibration_of(target, held_out, scored(target), weight)
            return found
        shift = shift_of(target, held_out, scored(target), signed(found.values[:0], target).shape[1], weight,
                         self.assumed)
        self.calibration_ = shift.calibration
        return found.moved(shift.columns)

    def _left_out(self, graph: Graph, found: VertexValues, target: Any, weight: np.ndarray | None, params: Any,
                  execution: Execution) -> np.ndarray:
        """Return the values (l, c) of labeled points without their own labels."""
        if self.class_sizes is not None:  # they change the values, and those of leave-one-out are without them
            folds = calibration_folds(target, self.random_state, a_fit_each=True)
            fit = partial(self._values_on, graph, params=params, execution=execution)
            return held_out_refits(fit, graph, target, weight, folds).values
        if found.held_out is not None:
            return found.held_out
        folds = calibration_folds(target, self.random_state)
        return self._held_out(graph, target, weight, [folds], [to_calibrate(params)], execution, {})[0][0].values


class GraphRegressor(PointRegressor, GraphEstimator):
    """A regressor on the graph."""

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R^2 over the labeled points of X (n, d); raise DataError where one of them has no prediction."""
        _, predicted, _ = self._compared(X, y, sample_weight)
        lost = int(np.isnan(predicted).reshape(len(predicted), -1).any(axis=1).sum())
        require(lost == 0, f"{lost} of {len(predicted)} points have no prediction", error=DataError,
                why="no label reaches their part of the graph, and R^2 is of numbers",
                fix="score the points whose prediction is a number")
        return super().score(X, y, sample_weight)


GRAPH_PARAMETERS = """graph : how the graph is made, a `KNNGraph`; None is the default one. A graph made before goes to
        `fit`.
    tolerance : of the solver: relative residual of every column.
    scale : of the features, as in `LapSVC`.
    memory_budget : bytes, or text such as "600MB", that a task may take; None is 1 GiB, or what workers allow.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats) or None (objects).
    random_state : of the graph's search and the solver's start.

    Attributes
    ----------
    model_ : GraphModel, with `values_at` the vertices. transduction_ : ndarray (n,), predictions of the points of the
        fit. evidence_ : dict: the graph, the solver, `unreached` points, and of a classifier the classes that no point
        of the fit is predicted as, `never_predicted`.
"""
CLASS_SIZES = """class_sizes : known sizes of the classes, counts or shares, in the order of `classes_` or by class in a
        dict; as many points then get each class. None where they are not known: the labels' own proportions are no
        substitute (see `dssl.learners.on_graph.class_sizes`).
""" + CLASS_FREQUENCIES + "    "


class OneSystemClassifier(CalibratedGraphClassifier):
    """A classifier on the graph by one system of as many columns as classes."""

    def __init__(self, graph: KNNGraph | None = None, *, class_sizes: Any = None, class_prior: Any = None,
                 class_weight: Any = None, tolerance: float = 1e-5, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        self.class_prior, self.class_weight = class_prior, class_weight
        self.graph, self.class_sizes, self.tolerance, self.scale = graph, class_sizes, tolerance, scale
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _params(self) -> SolverParams:
        return SolverParams(tolerance=self.tolerance, random_state=self.random_state)


class LaplaceLearning(OneSystemClassifier):
    """Harmonic functions: the shares of classes that a random walk on the graph ends at.

    Needs some labels a class: with one or two, values away from labels are nearly equal, and `PoissonLearning` or
    `GraphKernelRidge` is better.

    Parameters
    ----------
    """

    __doc__ += CLASS_SIZES + GRAPH_PARAMETERS + """
    References
    ----------
    Zhu, Ghahramani, Lafferty, "Semi-supervised learning using Gaussian fields and harmonic functions", ICML 2003; class
    sizes by class mass normalization, section 4 there.
    """
    assumed = LABELS  # a walk ends at a class the likelier, the more labels this has

    def _values_on(self, graph: Graph, target: Any, weight: np.ndarray | None, params: SolverParams,
                   execution: Execution) -> VertexValues:
        found = fit_harmonic(graph, target, weight, params, execution)
        return with_class_sizes(found, self.class_sizes, graph, target, weight, params, execution, harmonic=True)

    def _held_out(self, graph: Graph, target: Any, weight: np.ndarray | None, repetitions: Repetitions,
                  tried: Sequence[Any], execution: Execution, kept: dict[Any, Any]) -> Sequence[HeldOut]:
        return [held_out_harmonic(graph, target, weight, repetitions, tried[0], execution)] * len(tried)


class LaplaceLearningRegressor(GraphRegressor):
    """Harmonic functions of quantities: at labeled points the target, elsewhere the mean of the neighbors.

    `fit(X, y)` takes y (n,) or (n, c); a row with a NaN is unlabeled.

    Parameters
    ----------
    """

    __doc__ += GRAPH_PARAMETERS

    def __init__(self, graph: KNNGraph | None = None, *, tolerance: float = 1e-5, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        self.graph, self.tolerance, self.scale = graph, tolerance, scale
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _params(self) -> SolverParams:
        return SolverParams(tolerance=self.tolerance, random_state=self.random_state)

    def _values_on(self, graph: Graph, target: Target, weight: np.ndarray | None, params: SolverParams,
                   execution: Execution) -> VertexValues:
        return fit_harmonic(graph, target, weight, params, execution)

    def _held_out(self, graph: Graph, target: Any, weight: np.ndarray | None, repetitions: Repetitions,
                  tried: Sequence[Any], execution: Execution, kept: dict[Any, Any]) -> Sequence[HeldOut]:
        return [held_out_harmonic(graph, target, weight, repetitions, self._params(), execution)] * len(tried)


class PoissonLearning(OneSystemClassifier):
    """Poisson learning: labels as sources and sinks of a flow on the graph; for one to a few labels a class.

    Parameters
    ----------
    """

    __doc__ += CLASS_SIZES + GRAPH_PARAMETERS + """
    References
    ----------
    Calder, Cook, Thorpe, Slepcev, "Poisson learning: graph based semi-supervised learning at very low label rates",
    ICML 2020.
    """

    def _values_on(self, graph: Graph, target: Any, weight: np.ndarray | None, params: SolverParams,
                   execution: Execution) -> VertexValues:
        found = fit_poisson(graph, target, weight, params, execution)
        return with_class_sizes(found, self.class_sizes, graph, target, weight, params, execution)

    def _held_out(self, graph: Graph, target: Any, weight: np.ndarray | None, repetitions: Repetitions,
                  tried: Sequence[Any], execution: Execution, kept: dict[Any, Any]) -> Sequence[HeldOut]:
        return [held_out_poisson(graph, target, weight, repetitions, tried[0], execution)] * len(tried)


class GraphKernelRidgeBase(GraphEstimator):
    """Ridge regression in kernels of the graph, `(L_norm + ridge I)^-power`, and the average of a family of them.

    The default family needs no tuning from one label a class on; see `dssl.learners.on_graph.graph_ridge`. One ridge,
    one power and `penalty` make it a single kernel.

    Parameters
    ----------
    ridge, power : a number or several, each with each; ridge None is the family's. The smaller the ridge, the farther a
        label reaches; the larger the power, the smoother.
    by_degree : whether kernels are scaled by `D^-1/2` on both sides, or a sequence of both.
    penalty : added to the diagonal of a kernel of unit mean diagonal; toward 0 it interpolates, inf is the kernel mean.
    weighting : "loo", by exact leave-one-out residuals, or "equal".
    laplacian : "normalized" or "unnormalized".
    """

    joint = several = ("ridge", "power", "by_degree", "penalty", "weighting")

    def __init__(self, graph: KNNGraph | None = None, *, ridge: float | Sequence[float] | None = None,
                 power: int | Sequence[int] = (1, 2, 3), by_degree: bool | Sequence[bool] = True, penalty: float = 0.1,
                 weighting: str = "loo", laplacian: str = "normalized", tolerance: float = 0.1, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        self.graph, self.ridge, self.power, self.by_degree = graph, ridge, power, by_degree
        self.penalty, self.weighting, self.laplacian, self.tolerance = penalty, weighting, laplacian, tolerance
        self.scale = scale
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _params(self) -> GraphRidgeParams:
        def several(value: Any) -> tuple[Any, ...]:
            return tuple(value) if np.ndim(value) else (value,)

        return GraphRidgeParams(
            ridge=None if self.ridge is None else several(self.ridge), power=several(self.power),
            by_degree=several(self.by_degree), penalty=self.penalty, weighting=self.weighting,
            functions=FunctionParams(laplacian=self.laplacian, tolerance=self.tolerance,  # type: ignore[arg-type]
                                     random_state=self.random_state), random_state=self.random_state)

    def _values_on(self, graph: Graph, target: Target, weight: np.ndarray | None, params: GraphRidgeParams,
                   execution: Execution) -> VertexValues:
        return fit_graph_ridge(graph, target, weight, params, execution)

    def _held_out(self, graph: Graph, target: Any, weight: np.ndarray | None, repetitions: Repetitions,
                  tried: Sequence[Any], execution: Execution, kept: dict[Any, Any]) -> Sequence[HeldOut]:
        return held_out_graph_ridge(graph, target, weight, repetitions, tried, execution, kept)


RIDGE_ATTRIBUTES = GRAPH_PARAMETERS.replace(
    "of the solver: relative residual of every column", "of the kernels' columns, see `FunctionParams`")


class GraphKernelRidge(CalibratedGraphClassifier, GraphKernelRidgeBase):
    __doc__ = (GraphKernelRidgeBase.__doc__ or "") + CLASS_SIZES + RIDGE_ATTRIBUTES
    regressor = "GraphKernelRidgeRegressor"

    def __init__(self, graph: KNNGraph | None = None, *, ridge: float | Sequence[float] | None = None,
                 power: int | Sequence[int] = (1, 2, 3), by_degree: bool | Sequence[bool] = True, penalty: float = 0.1,
                 weighting: str = "loo", laplacian: str = "normalized", class_sizes: Any = None,
                 class_prior: Any = None, class_weight: Any = None, tolerance: float = 0.1, scale: str = "auto",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        super().__init__(graph, ridge=ridge, power=power, by_degree=by_degree, penalty=penalty, weighting=weighting,
                         laplacian=laplacian, tolerance=tolerance, scale=scale, memory_budget=memory_budget,
                         unlabeled=unlabeled, random_state=random_state)
        self.class_sizes = class_sizes
        self.class_prior, self.class_weight = class_prior, class_weight

    def _values_on(self, graph: Graph, target: Any, weight: np.ndarray | None, params: GraphRidgeParams,
                   execution: Execution) -> VertexValues:
        found = super()._values_on(graph, target, weight, params, execution)
        return with_class_sizes(found, self.class_sizes, graph, target, weight,
                                SolverParams(random_state=self.random_state), execution)


class GraphKernelRidgeRegressor(GraphRegressor, GraphKernelRidgeBase):
    __doc__ = (GraphKernelRidgeBase.__doc__ or "") + RIDGE_ATTRIBUTES
