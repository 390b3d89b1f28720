"""`SemiSupervisedClassifier` and `SemiSupervisedRegressor`: the first to try, with nothing to tune."""

import warnings
from typing import Any, ClassVar

import numpy as np

from ..data.scaling import KINDS, ScaledRows, Scaling, ScalingParams, fit_scaling
from ..errors import ParameterError, explain, require
from ..execution.tasks import Execution
from ..graph.graph import Graph, KNNGraph
from ..learners.measures import SQUARED, WRONG_CLASS, PointMeasure
from ..learners.on_graph.blend import Blend, fit_blend
from ..learners.on_graph.class_sizes import with_class_sizes
from ..learners.on_graph.graph_ridge import GraphRidgeParams, members_bytes
from ..learners.on_graph.many_labels import fit_from_many
from ..learners.on_graph.model import signed
from ..learners.on_graph.vertex_labels import VertexValues
from ..learners.target import Target
from ..selection.graph_gain import Gain, gain_of
from ..solvers.solve import SolverParams
from ..storage.blocks import Rows
from .base import PointEstimator, PointRegressor
from .calibrated import CalibratedClassifier
from .feature_scales import choose_scale

MOST_LABELS = 2000  # of which kernels are made
Fitted = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # held labels, their values with and without, all values


CLASS_SIZES = """    class_sizes : known sizes of the classes, counts or shares, in the order of `classes_` or by
        class in a dict; None where they are not known. From 2,000 labels on they are refused.
"""


class GraphDoesNotHelp(UserWarning):
    """Held out, labels are predicted better without the unlabeled points."""


class AutomaticEstimator(PointEstimator):
    """Learn from labeled and unlabeled points with nothing to tune, and say whether the unlabeled ones helped.

    A family of graph kernels and one of RBF kernels on the labels alone are averaged, each kernel as much as exact
    leave-one-out on the labels says: with one label a class all count about alike, with many the best few decide. From
    2,000 labels on, harmonic functions on the graph or the nearest labeled neighbors, as a held-out fifth of the labels
    says. Points that no label reaches on the graph are predicted from the labels alone.

    Parameters
    ----------
    graph : how the graph is made, a `KNNGraph`; None is the default one. A graph made before goes to `fit`.
    scale : of the features: "standardize", "unit_range", "max_abs", "unit_norm", "global_range", "none"; or "auto", by
        the columns' ranges, and with enough labels by the leave-one-out error of the nearest labeled neighbor
        (`dssl.estimators.feature_scales`).
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats) or None (objects).
    seed : of the graph's search, samples and starts.

    Attributes
    ----------
    model_ : what predicts, of scaled features. scaling_ : how these were scaled. transduction_ : ndarray (n,), what is
        predicted for the points of the fit.
    gain_ : Gain, held-out error `without` and `with_graph`, their `difference` and its `standard_error`. evidence_ :
        dict; `in_words` says what the gain means, `kernels` what each counts for.
    """

    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph}
    model_: Any
    graph: Any
    scale: Any
    scaling_: Scaling
    gain_: Gain
    seed: int
    _measure: ClassVar[PointMeasure]

    def _params(self) -> GraphRidgeParams:
        require(self.scale in ("auto", *KINDS), f"scale={self.scale!r}", why="features are compared on one scale",
                fix=f"use auto, or one of {', '.join(KINDS)}")
        return GraphRidgeParams(seed=self.seed)

    def _new_rows(self, X: Any, execution: Execution) -> Rows:
        return ScaledRows(super()._new_rows(X, execution), self.scaling_)

    def _learn(self, rows: Rows, target: Any, weight: np.ndarray | None, graph: Any, params: GraphRidgeParams,
               execution: Execution) -> None:
        kind, tried = choose_scale(rows, target, execution, self.seed) if self.scale == "auto" else (self.scale, {})
        self.scaling_ = fit_scaling(rows, None, ScalingParams(kind=kind), execution)
        scaled = execution.share_rows(ScaledRows(rows, self.scaling_))
        made = self._graph(scaled, graph, execution)
        fitted = self._from_many if _many(target, params, execution) else self._from_few
        held, held_out, alone, values = fitted(made, scaled, target, weight, params, execution)
        coding, own_weight = target.coding, None if weight is None else weight[held]
        self._transduction = coding.labels(values)
        self.gain_ = gain_of(target.take(held), coding, held_out, alone, own_weight, self._measure)
        self.evidence_ = {**made.attributes, **self.evidence_, "scale": {"kind": kind, **tried},
                          "gain": self.gain_.described(), "in_words": self.gain_.in_words()}
        self._calibrate(target.take(held), held_out, own_weight)
        if self.gain_.hurts:
            warnings.warn(explain("the unlabeled points do not help", why=self.gain_.in_words(),
                                  fix="look at the features, at graph.n_neighbors and the metric, or learn from the "
                                      "labels alone"), GraphDoesNotHelp, stacklevel=3)

    def _from_few(self, made: Graph, rows: Rows, target: Any, weight: np.ndarray | None, params: GraphRidgeParams,
                  execution: Execution) -> Fitted:
        found = fit_blend(made, rows, target, weight, params, self.group("graph"), execution)
        self.model_, self.evidence_ = found.model, found.attributes
        values = self._sized(found, made, rows, target, weight, execution)
        return np.arange(len(target.labeled)), found.held_out, found.held_out_alone, values

    def _from_many(self, made: Graph, rows: Rows, target: Any, weight: np.ndarray | None, params: GraphRidgeParams,
                   execution: Execution) -> Fitted:
        found = fit_from_many(made, rows, target, weight, self._measure, self.group("graph"),
                              SolverParams(tolerance=1e-4, seed=self.seed), self.seed, execution)
        self.model_, self.evidence_ = found.model, found.attributes
        return found.held, found.held_out, found.held_out_alone, found.values

    def _sized(self, found: Blend, made: Graph, rows: Rows, target: Any, weight: np.ndarray | None,
               execution: Execution) -> np.ndarray:
        """Return the values of a blend at the points of the fit, (n, c)."""
        return found.values(made, rows, execution)

    def _calibrate(self, target: Any, held_out: np.ndarray, weight: np.ndarray | None) -> None:
        """Keep what probabilities are made of."""


def _many(target: Target, params: GraphRidgeParams, execution: Execution) -> bool:
    """Return whether there are more labels than kernels of labeled points are made for."""
    labels = len(target.labeled)
    return labels > MOST_LABELS or members_bytes(labels, len(params.kernels)) > execution.memory_budget // 2


class SemiSupervisedClassifier(CalibratedClassifier, AutomaticEstimator):
    __doc__ = (AutomaticEstimator.__doc__ or "").replace("    unlabeled :", CLASS_SIZES + "    unlabeled :")
    regressor = "SemiSupervisedRegressor"
    _measure = WRONG_CLASS

    def __init__(self, graph: KNNGraph | None = None, *, scale: str = "auto", class_sizes: Any = None,
                 unlabeled: Any = None, seed: int = 0):
        self.graph, self.scale, self.class_sizes = graph, scale, class_sizes
        self.unlabeled, self.seed = unlabeled, seed

    def _from_many(self, made: Graph, rows: Rows, target: Any, weight: np.ndarray | None, params: GraphRidgeParams,
                   execution: Execution) -> Fitted:
        require(self.class_sizes is None, f"class_sizes with {len(target.labeled):,} labels", error=ParameterError,
                why="so many labels tell the classes apart without them", fix="leave class_sizes out, or use "
                "LaplaceLearning(class_sizes=...)")
        return super()._from_many(made, rows, target, weight, params, execution)

    def _sized(self, found: Blend, made: Graph, rows: Rows, target: Any, weight: np.ndarray | None,
               execution: Execution) -> np.ndarray:
        if self.class_sizes is None:
            return super()._sized(found, made, rows, target, weight, execution)
        at = found.values(made, rows, execution)[made.vertices.first]
        whole = VertexValues(np.hstack([-at, at]) / 2 if at.shape[1] == 1 else at, found.on_vertices.reached)
        moved = with_class_sizes(whole, self.class_sizes, made, target, weight, SolverParams(seed=self.seed), execution)
        self.model_ = found.model.on_graph_alone(signed(moved.values, target))
        self.evidence_ = {**self.evidence_, **moved.attributes}
        return self.model_.values(rows, execution)


class SemiSupervisedRegressor(PointRegressor, AutomaticEstimator):
    __doc__ = AutomaticEstimator.__doc__
    _measure = SQUARED

    def __init__(self, graph: KNNGraph | None = None, *, scale: str = "auto", unlabeled: Any = None, seed: int = 0):
        self.graph, self.scale, self.unlabeled, self.seed = graph, scale, unlabeled, seed
