"""What learners whose function lives on the graph share."""

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..base.digest import BANDWIDTH, JsonObject
from ..base.errors import DataError, explain, require
from ..data.scaling.scaling import ScalingKind
from ..execution.tasks import Execution
from ..graph.knn_graph import KNNGraph
from ..kernels.base import BaseKernels
from ..learners.class_prior import ClassWeight
from ..learners.on_graph.model import GraphModel
from ..learners.probabilities import CALIBRATION
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Target
from ..methods.graph.learner import GraphLearner, GraphLearnerParams, LearnerName
from ..methods.graph.method import GRAPH_LEARNER
from ..methods.step import Context
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Rows
from .arguments import (
    GraphLike,
    LabelsLike,
    Learnable,
    NumbersLike,
    OtherModel,
    PointsLike,
    PriorLike,
    SizesLike,
    WeightLike,
)
from .base import PointRegressor
from .method import SearchedEstimator
from .soft_labels import SoftLabelsClassifier, SoftLabelsEstimator
from .targets import prior_of


class UnreachablePoints(UserWarning):
    """Some points are in parts of the graph without a label, and have no prediction."""


class GraphEstimator(SoftLabelsEstimator, SearchedEstimator):
    """What learners on the graph share.

    Points that are unreachable from any label, in components of the graph without one, are counted in `evidence_` and
    have no prediction: NaN of quantities, -1 of integer classes, or else None. A new point has the weighted mean of its
    nearest points in the graph, and a point of the fit what the fit says.
    """

    method = GRAPH_LEARNER
    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph}
    predicts_by_lists = True
    model_: GraphModel
    graph: KNNGraph | int | None
    random_state: int

    @abstractmethod
    def _learner(self) -> GraphLearner:
        """Return the learner; raise ParameterError where a parameter is out of range."""

    def _params(self) -> GraphLearnerParams:
        return GraphLearnerParams(
            learners=(self._learner(),), graph=self.group("graph"), random_state=self.random_state,
            kernels=BaseKernels("rbf", {}, (BANDWIDTH,), self.random_state),
            prior=prior_of(getattr(self, "class_prior", None), getattr(self, "class_sizes", None)),
            weight=ClassWeight.of(getattr(self, "class_weight", None)), base_estimator=self.base_estimator)

    def _comparing(self, params: GraphLearnerParams, compares: bool) -> GraphLearnerParams:
        return replace(params, compares=compares)

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: GraphLike | None,
               params: GraphLearnerParams, execution: Execution) -> None:
        self._run(rows, target, weight, self._graph(rows, graph, execution), params, execution)
        assert self._transduction is not None
        coding, unreachable = self.model_.coding, self.evidence_["unreachable"]
        if isinstance(coding, ClassCoding):
            self.evidence_["never_predicted"] = coding.unpredicted_classes(self._transduction)
        if unreachable:
            warnings.warn(explain(
                f"{unreachable} of {len(self._transduction)} points have no prediction",
                why="no label reaches their part of the graph",
                fix="label a point there, raise n_neighbors, or use an estimator with a base kernel, such as LapSVC"),
                UnreachablePoints, stacklevel=3)

    def _evidence(self, context: Context, params: GraphLearnerParams) -> JsonObject:
        attributes = context.attributes("vertex_values")
        return {**context.graph().attributes,
                **{name: value for name, value in attributes.items() if name != CALIBRATION}}


class GraphClassifier(SoftLabelsClassifier, GraphEstimator):
    """A classifier on the graph, with probabilities; scores of points without a prediction are NaN."""

    regressor = "LaplaceLearningRegressor"
    class_sizes: SizesLike

    def _values(self, X: PointsLike) -> np.ndarray:
        execution = self._execution()  # what it shares is gone when it is, so it outlives the rows
        rows = self._new_rows(X, execution)
        values, unsupported = self.model_.values_and_unsupported(rows, execution)
        values[unsupported] = np.nan
        return values


class GraphRegressor(PointRegressor, GraphEstimator):
    """A regressor on the graph."""

    def _compared(self, X: PointsLike, y: LabelsLike | None,
                  sample_weight: NumbersLike | None) -> tuple[Learnable, np.ndarray, np.ndarray | None]:
        target, predicted, weight = super()._compared(X, y, sample_weight)
        missing = int(np.isnan(predicted).reshape(len(predicted), -1).any(axis=1).sum())
        require(missing == 0, f"{missing} of {len(predicted)} points have no prediction", error=DataError,
                why="their component of the graph has no label, and R^2 needs numbers",
                fix="score the points whose prediction is a number")
        return target, predicted, weight


class OneSystemClassifier(GraphClassifier):
    """A classifier on the graph by one system of as many columns as classes."""

    learner: ClassVar[LearnerName]

    def __init__(self, graph: KNNGraph | int | None = None, *, class_sizes: SizesLike = None,
                 class_prior: PriorLike = None, class_weight: WeightLike = None,
                 base_estimator: OtherModel | None = None, class_embeddings: ArrayLike | None = None,
                 classes: ArrayLike | None = None, tol: float = 1e-5, scale: ScalingKind = "auto",
                 memory_budget: int | str | None = None, unlabeled: object = None, random_state: int = 0):
        self.class_prior, self.class_weight = class_prior, class_weight
        self.base_estimator, self.class_embeddings, self.classes = base_estimator, class_embeddings, classes
        self.graph, self.class_sizes, self.tol, self.scale = graph, class_sizes, tol, scale
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _learner(self) -> GraphLearner:
        return GraphLearner(self.learner, None, SolverParams(
            tol=self.tol, random_state=self.random_state))
