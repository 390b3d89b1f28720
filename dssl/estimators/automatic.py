"""`SemiSupervisedClassifier` and `SemiSupervisedRegressor`: the first to try, with nothing to tune."""

import warnings
from dataclasses import replace
from functools import partial
from inspect import cleandoc
from typing import Any, ClassVar, get_args

import numpy as np

from ..base.errors import explain, require
from ..data.dataset import Dataset
from ..data.frames import index_labels
from ..data.scaling.outliers import warn_far_rows
from ..data.scaling.scaling import Scaling
from ..execution.size import budget_of
from ..execution.tasks import Execution
from ..graph.graph import KNNGraph
from ..knn.index import require_index
from ..learners.class_scoring import require_decisions
from ..learners.on_graph.automatic import Loss, most_labels
from ..learners.on_graph.graph_ridge import GraphRidgeParams
from ..learners.target.target import Classes
from ..methods.automatic import AUTOMATIC, AutomaticParams
from ..methods.step import Context
from ..selection.graph_gain import Gain
from ..selection.scoring import with_scoring
from ..storage.blocks import Rows
from .base import PointRegressor
from .calibrated import CLASS_FREQUENCIES, CalibratedClassifier
from .feature_scales import choose_scale
from .method import MethodEstimator
from .targets import prior_of

CLASS_SIZES = """
class_sizes : known sizes of the classes, counts or shares, in the order of `classes_` or by
    class in a dict; None where they are not known. Refused with so many labels that no kernels are averaged.
"""
SCORING = """
scoring : the metric that decisions are best for, by its name in scikit-learn. None or "accuracy", "roc_auc" and
    "neg_log_loss" predict the most probable class: it errs least, and the other two look at probabilities alone.
    "balanced_accuracy" predicts the class whose probability is largest against its frequency; "f1" (of the second of
    two classes) and "f1_macro" move the thresholds to the best expected F1 of held-out labels
    (`dssl.learners.decisions`). Probabilities stay those of the class frequencies, so that the predicted class need
    not be the most probable one, as in scikit-learn's `TunedThresholdClassifierCV`. `gain_` is of this metric. `score`
    is the accuracy, whatever the scoring is.
"""
LOSS = """
loss : "squared", or "huber", in which a target far from what the others say of it counts less.
"""


def never_in_words(classes: list[Any]) -> str:
    """Return a sentence on classes that no point of a fit is predicted as."""
    if not classes:
        return ""
    names = ", ".join(map(str, classes[:10])) + (f" and {len(classes) - 10} more" if len(classes) > 10 else "")
    return (f". No point is predicted as {names}: label more points of such a class, say with class_prior how frequent "
            "it is, or take scoring='balanced_accuracy', which decides as if all classes were equally frequent")


class GraphDoesNotHelp(UserWarning):
    """Held out, labels are predicted better without the unlabeled points."""


class AutomaticEstimator(MethodEstimator):
    """Learn from labeled and unlabeled points with nothing to tune, and say whether the unlabeled ones helped.

    A family of graph kernels and one of RBF kernels on the labels alone are averaged, each kernel as much as exact
    leave-one-out on the labels says: with one label a class all count about alike, with many the best few decide, of
    classes those whose mixture gives held-out labels the highest probability (`dssl.learners.mixture`). From 2,000
    labels on, or where kernels of them exceed half the memory budget (1,670 at 1 GiB), harmonic functions on the
    graph or the nearest labeled neighbors, as a held-out fifth of the labels says. Points that no label reaches on the
    graph are predicted from the labels alone.

    Parameters
    ----------
    graph : how the graph is made, a `KNNGraph`; None is the default one. A graph made before goes to `fit`.
    scale : of the features: "standardize", "unit_range", "max_abs", "unit_norm", "global_range", "none"; or "auto", by
        the columns' ranges and the leave-one-out residuals of kernels on the labels (`dssl.estimators.feature_scales`).
    memory_budget : bytes, or text such as "600MB", that a task may take; None is 1 GiB, or what workers allow.
    unlabeled : the label of points without one, where it is not -1 (integers), NaN (floats) or None (objects).
    random_state : of the graph's search, samples and starts.

    Attributes
    ----------
    model_ : what predicts, of scaled features. scaling_ : how these were scaled. transduction_ : ndarray (n,), what is
        predicted for the points of the fit.
    gain_ : Gain, held-out error `without` and `with_graph` with 95 % intervals, their `difference`, and the
        `verdict` of a paired test, which `helps` and `hurts` tell. evidence_ : dict; `in_words` says what the gain
        means and which classes no point of the fit is predicted as (`never_predicted`), `kernels` what each counts for,
        `odd_labels` which targets the others contradict.
    """

    method = AUTOMATIC
    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph}
    predicts_by_lists = True
    model_: Any
    graph: Any
    scale: Any
    class_sizes: Any = None  # of a classifier
    scoring: Any = None  # of a classifier
    loss: Any = "squared"  # of a regressor
    gain_: Gain
    random_state: int

    def _params(self) -> AutomaticParams:
        require(self.loss in get_args(Loss), f"loss={self.loss!r}", why="it says how residuals count",
                fix="use 'squared' or 'huber'")
        require_decisions(self.scoring, sized=self.class_sizes is not None)
        family = GraphRidgeParams(random_state=self.random_state)
        return AutomaticParams(
            graph=self.group("graph"), family=family, most=most_labels(family, budget_of(self.memory_budget)),
            loss=self.loss, prior=prior_of(getattr(self, "class_prior", None), self.class_sizes), scoring=self.scoring)

    def _comparing(self, params: AutomaticParams, compares: bool) -> AutomaticParams:
        return replace(params, compares=compares)

    def _chosen_scaling(self, X: Any, rows: Rows, target: Any, graph: Any,
                        execution: Execution) -> tuple[Scaling, dict[str, Any]]:
        if self.scale != "auto" or graph is not None:
            return super()._chosen_scaling(X, rows, target, graph, execution)
        self._warn_of_identifiers(rows)
        scaling, tried = choose_scale(rows, None, target, execution, self.random_state,
                                      X.categories if isinstance(X, Dataset) else None)
        warn_far_rows(scaling.attributes.get("outliers"), self._column_names or None, partial(index_labels, X))
        return scaling, tried

    def _learn(self, rows: Rows, target: Any, weight: np.ndarray | None, graph: Any, params: AutomaticParams,
               execution: Execution) -> None:
        require_index(rows, params.graph.metric, execution.memory_budget)
        self._run(rows, target, weight, self._graph(rows, graph, execution), params, execution)
        never = target.coding.never_among(self._transduction)
        self.evidence_ |= {"in_words": self.evidence_["in_words"] + never_in_words(never), "never_predicted": never}
        if self.gain_.hurts:
            warnings.warn(explain("the unlabeled points do not help", why=self.gain_.in_words(),
                                  fix="look at the features, at graph.n_neighbors and the metric, or learn from the "
                                      "labels alone"), GraphDoesNotHelp, stacklevel=3)

    def _told(self, context: Context, params: AutomaticParams) -> dict[str, Any]:
        choice = context.attributes("models")["choice"]
        self.gain_ = Gain(**choice["gain"])
        return {**context.graph().attributes, **choice}


def _documented(*parameters: str) -> str:
    """Return the docstring of both estimators with further parameters, whatever indentation a Python leaves in it."""
    further = "\n".join(cleandoc(text) for text in parameters)
    return cleandoc(AutomaticEstimator.__doc__ or "").replace("\nunlabeled :", f"\n{further}\nunlabeled :", 1)


class SemiSupervisedClassifier(CalibratedClassifier, AutomaticEstimator):
    __doc__ = _documented(CLASS_SIZES, CLASS_FREQUENCIES, SCORING)
    regressor = "SemiSupervisedRegressor"

    def __init__(self, graph: KNNGraph | None = None, *, scale: str = "auto", class_sizes: Any = None,
                 class_prior: Any = None, class_weight: Any = None, scoring: str | None = None,
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        self.graph, self.scale, self.class_sizes = graph, scale, class_sizes
        self.class_prior, self.class_weight, self.scoring = class_prior, class_weight, scoring
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _target(self, y: Any, n: int) -> Classes:
        return with_scoring(super()._target(y, n), self.scoring)


class SemiSupervisedRegressor(PointRegressor, AutomaticEstimator):
    __doc__ = _documented(LOSS)

    def __init__(self, graph: KNNGraph | None = None, *, scale: str = "auto", loss: str = "squared",
                 memory_budget: int | str | None = None, unlabeled: Any = None, random_state: int = 0):
        self.graph, self.scale, self.loss = graph, scale, loss
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state
