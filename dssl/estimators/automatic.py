"""`SemiSupervisedClassifier` and `SemiSupervisedRegressor`: the first to try, with nothing to tune."""

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..base.digest import JsonObject
from ..base.errors import explain, require
from ..base.units import budget_of
from ..data.dataset import Dataset
from ..data.frames import index_labels
from ..data.scaling.outliers import warn_outlier_rows
from ..data.scaling.scaling import Scaling, ScalingKind
from ..execution.tasks import Execution
from ..graph.knn_graph import KNNGraph
from ..knn.index import require_index
from ..learners.class_prior import ClassWeight
from ..learners.metrics import ClassScoring, require_decisions
from ..learners.on_graph.automatic import Loss, label_limit
from ..learners.on_graph.graph_ridge import GraphRidgeParams
from ..learners.probabilities import Calibration
from ..learners.tags import Tags
from ..learners.target.target import Classes, Target
from ..methods.automatic import AUTOMATIC, AutomaticParams
from ..methods.step import Context, HeldOutValues
from ..methods.tags import evidence_of_tags
from ..selection.graph_gain import Gain
from ..selection.scoring import with_scoring
from ..storage.blocks import Rows
from .arguments import GraphLike, Learnable, OtherModel, PointsLike, PriorLike, SizesLike, WeightLike
from .base import PointRegressor
from .feature_scales import choose_scale
from .soft_labels import SoftLabelsClassifier, SoftLabelsEstimator
from .targets import prior_of


def never_in_words(classes: list[Any]) -> str:
    """Return a sentence on classes that no point of a fit is predicted as."""
    if not classes:
        return ""
    names = ", ".join(map(str, classes[:10])) + (f" and {len(classes) - 10} more" if len(classes) > 10 else "")
    return (f". No point is predicted as {names}: label more points of such a class, say with class_prior how frequent "
            "it is, or take scoring='balanced_accuracy', which decides as if all classes were equally frequent")


class GraphDoesNotHelp(UserWarning):
    """Held out, labels are predicted better without the unlabeled points."""


class AutomaticEstimator(SoftLabelsEstimator):
    """What both share; `SemiSupervisedClassifier` describes the parameters."""

    method = AUTOMATIC
    groups: ClassVar[dict[str, type]] = {"graph": KNNGraph}
    predicts_by_lists = True
    model_: Any
    class_sizes: SizesLike = None  # of a classifier
    scoring: ClassScoring | None = None  # of a classifier
    loss: Loss = "squared"  # of a regressor
    gain_: Gain
    _held_out: HeldOutValues | None

    def _params(self) -> AutomaticParams:
        require(self.loss in get_args(Loss), f"loss={self.loss!r}", why="it says how residuals count",
                fix="use 'squared' or 'huber'")
        require_decisions(self.scoring, sized=self.class_sizes is not None)
        family = GraphRidgeParams(random_state=self.random_state)
        return AutomaticParams(
            graph=self.group("graph"), family=family, max_labels=label_limit(family, budget_of(self.memory_budget)),
            loss=self.loss, prior=prior_of(getattr(self, "class_prior", None), self.class_sizes), scoring=self.scoring,
            weight=ClassWeight.of(getattr(self, "class_weight", None)), base_estimator=self.base_estimator)

    def _comparing(self, params: AutomaticParams, compares: bool) -> AutomaticParams:
        return replace(params, compares=compares)

    def _chosen_scaling(self, X: PointsLike, rows: Rows, target: Learnable, graph: GraphLike | None,
                        execution: Execution) -> tuple[Scaling, JsonObject]:
        if graph is not None or self._scaling_params().kind != "auto":
            return super()._chosen_scaling(X, rows, target, graph, execution)
        self._warn_of_identifiers(rows)
        target = target.most_balanced() if isinstance(target, Tags) else target
        scaling, tried = choose_scale(rows, None, target, execution, self.random_state,
                                      X.categories if isinstance(X, Dataset) else None, self.group("graph").distance,
                                      self._column_names or None)
        warn_outlier_rows(scaling.attributes.get("outliers"), self._column_names or None, partial(index_labels, X))
        return scaling, tried

    def _learn(self, rows: Rows, target: Target, weight: np.ndarray | None, graph: GraphLike | None,
               params: AutomaticParams, execution: Execution) -> None:
        require_index(rows, params.graph.distance, execution.memory_budget)
        self._run(rows, target, weight, self._graph(rows, graph, execution), params, execution)
        never = target.coding.unpredicted_classes(self.transduction_)
        self.evidence_ |= {"in_words": self.evidence_["in_words"] + never_in_words(never), "never_predicted": never}
        if self.gain_.all_labeled:
            fix = "mark unlabeled points, or use a supervised model"
            if isinstance(target, Classes) and "-1" in target.names.tolist():  # NumPy makes text of -1 among texts
                fix = "'-1' is a class here: pass unlabeled='-1' if it marks unlabeled points"
            why = "there are no unlabeled points that could help"
            warnings.warn(explain("all training points are labeled", why=why, fix=fix), UserWarning, stacklevel=3)
        elif "other_model" not in self.evidence_:
            self._warn_if_it_hurts()

    def _warn_if_it_hurts(self) -> None:
        if self.gain_.hurts:
            warnings.warn(explain("the unlabeled points do not help", why=self.gain_.in_words(),
                                  fix="check the features, graph.n_neighbors and the metric, or use a supervised model"
                                  ), GraphDoesNotHelp, stacklevel=4)

    def _evidence(self, context: Context, params: AutomaticParams) -> JsonObject:
        choice = context.attributes("models")["choice"]
        self.gain_ = Gain(**choice["gain"])
        self._held_out = context.side.held_out if context.side is not None else None
        return {**context.graph().attributes, **choice}


class SemiSupervisedClassifier(SoftLabelsClassifier, AutomaticEstimator):
    """Classify with nothing to tune, and say whether the unlabeled points helped.

    The model averages kernel ridge regression in a family of graph kernels and a
    supervised family of RBF kernels, with weights by exact leave-one-out predictions of
    the labels: with one label a class the graph's kernels alone count, with equal
    weights, with many the best few have nearly all (`dssl.learners.on_graph.blend`).
    With more than 2,000 labels, or where kernels of them exceed half the memory budget
    (1,670 labels at 1 GiB), harmonic functions on the graph or the nearest labeled
    neighbors are used, by the errors on a held-out fifth of the labels. Points in
    components of the graph without labels are predicted by the supervised family.

    `fit(X, y)` takes all points, labeled and unlabeled. y is -1 (integers), NaN
    (floats), None or "" (text) where there is no label. X is an array, a sparse matrix,
    a table, a Dataset, or a Zarr or Dask array. The fit runs on the active Dask client
    if there is one, in threads of this process otherwise, with the same result.

    Of tags (several labels a point), y has a column for each: 1 where a point has it, 0
    where not, -1 or NaN where that is unknown. Each column has a fit of its own, on the
    same graph, and `evidence_` says whether the unlabeled points help over all.

    Parameters
    ----------
    graph : KNNGraph, int or None
        How the graph is made from the points; an int is its `n_neighbors`, and None
        takes the defaults. A graph that is already made is passed to `fit`.
    scale : str
        How the features are scaled: "standardize", "unit_range", "max_abs",
        "unit_norm", "global_range" or "none"; or "auto", by the ranges of the
        columns and the leave-one-out residuals of kernels on the labels, or of
        the nearest of more than 2,000 labels (`dssl.estimators.feature_scales`).
    class_sizes : list, dict, "balanced" or None
        The known sizes of the classes, in the order of `classes_` or by class in a
        dict: counts or shares, or a pair of shares (low, high) where only an interval
        is known; "balanced" says that all are equal. The classes are then the cut of
        the graph with these sizes. None where they are not known. They are refused
        where there are so many labels that no kernels are averaged.
    class_prior : "labels", "equal", list, dict or None
        How frequent the classes are among the points that are predicted: None or
        "labels", as frequent as among the labels; "equal"; or the share of each
        class, in the order of `classes_`, or by class in a dict.
    class_weight : "balanced", dict or None
        What labels weigh in the fit and in the frequencies of the classes: None, 1
        each; "balanced", the same in total for each class; or a weight by class in a
        dict. Only the ratios matter.
    scoring : str or None
        The metric for which decisions are best, by its name in scikit-learn. None
        or "accuracy", "roc_auc" and "neg_log_loss" predict the most probable class,
        which errs least; the other two look at probabilities alone.
        "balanced_accuracy" predicts the class whose probability is largest against
        its frequency; "f1" (of the second of two classes) and "f1_macro" move the
        thresholds to the best expected F1 of held-out labels
        (`dssl.learners.prior_shift`). Probabilities stay those of the class
        frequencies, so that the predicted class need not be the most probable one,
        as in the `TunedThresholdClassifierCV` of scikit-learn. `gain_` is of this
        metric; `score` is the accuracy, whatever the scoring is.
    base_estimator : str, estimator or None
        Another model, which is fitted to the labels and cross-validated on them:
        "boosting" (scikit-learn's histogram gradient boosting), "logistic", or any
        classifier with `predict_proba`. How much it counts beside the labels and the
        graph follows from held-out labels (`dssl.learners.soft_labels`), and
        `evidence_` says whether it helps. New points then have the weighted mean of
        their nearest training points; the estimator itself does not see them. The
        same is true of soft labels and class embeddings.
    class_embeddings : array-like, shape (n_classes, d), or None
        A vector for each class in the space of X, such as the embedded texts of a
        language-image model: the classes have probabilities by the cosines of points
        with these, both less their means. y may then have no label at all.
    classes : list or None
        The names of the classes in the order of the rows of class_embeddings, or of
        the columns of `fit(soft_labels=...)`; None takes the names of a DataFrame, or
        the classes of y in ascending order, or 0, 1, ... where y has no label.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1
        GiB, or what the workers allow.
    unlabeled : object
        The marker of points without a label, where it is not -1 (integers), NaN
        (floats), None or "" (text).
    random_state : int
        The seed of every random choice.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The classes, in ascending order; of tags the names of the columns of
        y, or their numbers.
    estimators_ : list of SemiSupervisedClassifier
        Of tags, the fit of each; None of a tag that no labeled point has, or all.
    model_ : Model
        What predicts points, of scaled features.
    transduction_ : ndarray, shape (n,)
        The labels predicted for the points of the fit.
    gain_ : Gain
        The held-out errors `baseline` and `with_graph`, with 95 % intervals, their
        `difference`, and the `verdict` of a paired test (`helps`, `hurts`).
    evidence_ : dict
        What is known of the fit: `in_words` says what the gain means and which
        classes no point of the fit is predicted as (`never_predicted`), `kernels`
        the weight of each, `odd_labels` which targets the others contradict,
        `duplicates` how many of up to 5,000 labeled points equal another one, and
        `other_model` what held-out labels say of another model. Of tags,
        `held_out` has the scores of the model and of its supervised baseline on
        held-out labels (`dssl.selection.tag_scores`), `over_tags` their differences, and
        `tags` the evidence of each tag, and `not_learned` says which have none.
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

    Examples
    --------
    Two labeled points of each of two interleaved half circles:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import SemiSupervisedClassifier
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 4, classes, -1)
    >>> model = SemiSupervisedClassifier().fit(X, y)
    >>> model.score(X, classes)
    1.0

    No label, but what another model says, which is right for 73 % of the points:

    >>> rng = np.random.default_rng(0)
    >>> said = np.where(rng.random(200) < 0.5, classes, rng.integers(0, 2, 200))
    >>> model = SemiSupervisedClassifier().fit(X, soft_labels=0.2 + 0.6 * np.eye(2)[said])
    >>> model.score(X, classes)
    0.96

    Two labels a point, the half circle and whether a point is in the upper half:

    >>> both = np.column_stack([classes, X[:, 1] > 0.25])
    >>> y = np.where(np.arange(200)[:, None] < 30, both, -1)
    >>> model = SemiSupervisedClassifier().fit(X, y)
    >>> model.predict(X).shape
    (200, 2)
    >>> model.score(X, both) > 0.9
    True
    """
    regressor = "SemiSupervisedRegressor"

    def __init__(self, graph: KNNGraph | int | None = None, *, scale: ScalingKind = "auto",
                 class_sizes: SizesLike = None, class_prior: PriorLike = None, class_weight: WeightLike = None,
                 scoring: ClassScoring | None = None, base_estimator: OtherModel | None = None,
                 class_embeddings: ArrayLike | None = None, classes: ArrayLike | None = None,
                 memory_budget: int | str | None = None, unlabeled: object = None, random_state: int = 0):
        self.graph, self.scale, self.class_sizes = graph, scale, class_sizes
        self.class_prior, self.class_weight, self.scoring = class_prior, class_weight, scoring
        self.base_estimator, self.class_embeddings, self.classes = base_estimator, class_embeddings, classes
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state

    def _decided(self, target: Classes) -> Classes:
        return with_scoring(super()._decided(target), self.scoring)

    def _evidence_of_tags(self, target: Tags) -> JsonObject:
        assert not isinstance(self.calibration_, Calibration)
        self.gain_, evidence = evidence_of_tags(target, [tag._held_out for tag in self._learned], self.calibration_,
                                                len(self.transduction_))
        if self.base_estimator is None and self._soft_labels is None:
            self._warn_if_it_hurts()
        never = self.model_.coding.unpredicted_classes(self.transduction_)
        absent = "".join(f". {line[0].upper()}{line[1:]}" for line in target.not_learned())
        learned = self.model_.coding.classes[target.learnable].tolist()
        return {**super()._evidence_of_tags(target), **evidence, "never_predicted": never, "in_words": evidence[
            "in_words"] + absent + never_in_words([name for name in never if name in learned])}

    def _of_all_tags(self, category: type[Warning]) -> bool:
        return issubclass(category, GraphDoesNotHelp)


class SemiSupervisedRegressor(PointRegressor, AutomaticEstimator):
    """Predict with nothing to tune, and say whether the unlabeled points helped.

    The model averages kernel ridge regression in a family of graph kernels and a
    supervised family of RBF kernels, with weights by exact leave-one-out predictions of
    the labels: with one label the graph's kernels alone count, with equal
    weights, with many the best few have nearly all (`dssl.learners.on_graph.blend`).
    With more than 2,000 labels, or where kernels of them exceed half the memory budget
    (1,670 labels at 1 GiB), harmonic functions on the graph or the nearest labeled
    neighbors are used, by the errors on a held-out fifth of the labels. Points in
    components of the graph without labels are predicted by the supervised family.

    `fit(X, y)` takes y of shape (n,) or (n, c); a row with a NaN is unlabeled.

    Parameters
    ----------
    graph : KNNGraph, int or None
        How the graph is made from the points; an int is its `n_neighbors`, and None
        takes the defaults. A graph that is already made is passed to `fit`.
    scale : str
        How the features are scaled: "standardize", "unit_range", "max_abs",
        "unit_norm", "global_range" or "none"; or "auto", by the ranges of the
        columns and the leave-one-out residuals of kernels on the labels, or of
        the nearest of more than 2,000 labels (`dssl.estimators.feature_scales`).
    loss : "squared" or "huber"
        The loss of the targets; with "huber" a target that is far from what the
        others say of it counts less.
    base_estimator : str, estimator or None
        Another model, which is fitted to the labels and cross-validated on them:
        "boosting" (scikit-learn's histogram gradient boosting), "ridge", or any
        regressor. Its weight in the mean with the labels' own predictions follows from
        held-out labels (`dssl.learners.soft_labels`), and `evidence_` says whether it
        helps. New points then have the weighted mean of their nearest training points.
        The same is true of `fit(soft_labels=...)`.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1
        GiB, or what the workers allow.
    unlabeled : object
        The marker of points without a label, where it is not -1 (integers), NaN
        (floats), None or "" (text).
    random_state : int
        The seed of every random choice.

    Attributes
    ----------
    model_ : Model
        What predicts points, of scaled features.
    transduction_ : ndarray, shape (n,) or (n, c)
        What is predicted for the points of the fit.
    gain_ : Gain
        The held-out errors `baseline` and `with_graph`, with 95 % intervals, their
        `difference`, and the `verdict` of a paired test (`helps`, `hurts`).
    evidence_ : dict
        What is known of the fit: `in_words` says what the gain means and which
        classes no point of the fit is predicted as (`never_predicted`), `kernels`
        the weight of each, `odd_labels` which targets the others contradict,
        `duplicates` how many labeled points equal another one (up to 5,000), and
        `other_model` what held-out labels say of another model.
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

    Examples
    --------
    Every tenth target of 200 points is known:

    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import SemiSupervisedRegressor
    >>> X, _ = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) % 10 == 0, X[:, 0] ** 2, np.nan)
    >>> model = SemiSupervisedRegressor().fit(X, y)
    >>> model.score(X, X[:, 0] ** 2) > 0.95
    True
    """

    def __init__(self, graph: KNNGraph | int | None = None, *, scale: ScalingKind = "auto", loss: Loss = "squared",
                 base_estimator: OtherModel | None = None, memory_budget: int | str | None = None,
                 unlabeled: object = None, random_state: int = 0):
        self.graph, self.scale, self.loss, self.base_estimator = graph, scale, loss, base_estimator
        self.memory_budget, self.unlabeled, self.random_state = memory_budget, unlabeled, random_state
