"""`suggest_labels`: which points to label next, from a graph of all points or a fitted estimator."""


import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..base.errors import DataError, require
from ..base.units import size_of
from ..data.frames import as_pandas
from ..data.inputs import in_order, labels_of, rows_of
from ..data.scaling.scaling import ScalingParams, fit_scaling, scaled
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.knn_graph import KNNGraph, graph_of
from ..graph.vertices import find_vertices
from ..learners.tags import TagModel, is_indicator
from ..selection.suggest import Criterion, Suggestion, SuggestParams, suggest
from ..storage.blocks import Rows
from .arguments import GraphLike, LabelsLike, PointsLike
from .points import fitted_columns
from .targets import classes_of, quantities_of, tags_of


def suggest_labels(X: PointsLike, y: LabelsLike | None = None, *, count: int = 10, criterion: Criterion = "auto",
                   model: BaseEstimator | None = None, graph: GraphLike | KNNGraph | None = None,
                   params: SuggestParams | None = None, memory_budget: int | str | None = None,
                   unlabeled: object = None, random_state: int = 0) -> Suggestion:
    """Return which points to label next, and how much better each is than the others.

    Parameters
    ----------
    X : array-like, shape (n, d)
        All points, or any other input that an estimator reads.
    y : array-like, shape (n,) or (n, c), or None
        The labels that there are, with the marker of points without one as in `fit`.
        Of tags (several labels a point) a point with a known entry is labeled; of several
        quantities, a point of which all are known.
        None is no label at all, or the target of a Dataset X.
    count : int
        How many points are suggested.
    criterion : str
        By what points are compared: "variance", "v_optimality", "sigma_optimality",
        "coverage", "uncertainty" or "model_change_v_optimality"; see
        `dssl.selection.suggest`. "auto" is "model_change_v_optimality" with a `model`
        of classes, and "v_optimality" without one.
    model : estimator or None
        A fitted classifier or regressor that has seen y, or part of it. Its scaling and
        the parameters of its graph are used. Any classifier with `decision_function` or
        `predict_proba` serves.
    graph : Graph, KNNGraph, sparse matrix, Neighbors or pair of arrays, or None
        The graph of all points, what `Graph.of` takes, or how it is made. None makes
        that of the model, or the default one. "coverage" needs none.
    params : SuggestParams or None
        More parameters of the criteria; those in it then replace `count`, `criterion`
        and `random_state`.
    memory_budget : int, str or None
        The bytes that a task may take, a number or text such as "600MB"; None is 1 GiB,
        or what the workers allow.
    unlabeled : object
        The marker of points without a label, where it is not -1 (integers), NaN
        (floats), None or "" (text).
    random_state : int
        The seed of every random choice.

    Returns
    -------
    Suggestion
        The numbers of the points in `ids` (count,), the best first, one of any
        duplicates; and their `scores` (count,).

    Raises
    ------
    DataError
        Fewer points than `count` are without a label, or the graph is of other points.
    ParameterError
        The criterion is unknown, or needs a model of classes.
    NotFittedError
        The model is not fitted.
    BudgetError
        The eigenvectors of the graph do not fit the memory budget.

    References
    ----------
    Ji, Han, "A variance minimization criterion to active learning on graphs", AISTATS
    2012; Ma, Garnett, Schneider, "Sigma-optimality for active learning on Gaussian
    random fields", NeurIPS 2013; Miller, Bertozzi, "Model-change active learning in
    graph-based semi-supervised learning", 2021 (arXiv 2110.07739).

    Examples
    --------
    The first two points are in different half circles:

    >>> from sklearn.datasets import make_moons
    >>> from dssl import suggest_labels
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> suggestion = suggest_labels(X, count=2)
    >>> sorted(classes[suggestion.ids].tolist())
    [0, 1]
    """
    require(not isinstance(getattr(model, "model_", None), TagModel), error=DataError,
            what="no rows are suggested by a model of tags (several labels a point)",
            why="a criterion asks how sure the model is of one class of a point",
            fix="pass model.estimators_[0] and y[:, 0] for the first tag, or leave model out")
    params = params or SuggestParams(count=count, criterion=criterion, random_state=random_state)
    execution = current_execution(None if memory_budget is None else size_of(memory_budget))
    X = in_order(as_pandas(X), fitted_columns(model))
    rows = rows_of(X, execution, "suggest_labels")
    known = getattr(model, "scaling_", None) or getattr(graph, "scaling", None)
    params_of_scale = graph.scaling("auto") if isinstance(graph, KNNGraph) else ScalingParams()
    rows = scaled(rows, known or fit_scaling(rows, None, params_of_scale, execution,
                                             categories=getattr(X, "categories", None)), execution)
    labeled = _labeled(X if y is None and getattr(X, "y", None) is not None else y, unlabeled, len(rows))
    made = None if params.criterion == "coverage" and graph is None else _graph(rows, model, graph, execution)
    points = find_vertices(rows, execution) if made is None else made.vertices
    scores = None if model is None else _scores(model, X)
    return suggest(points, made, rows, labeled, params, execution, None if scores is None else scores[points.first])


def _labeled(y: LabelsLike | None, unlabeled: object, n: int) -> np.ndarray:
    """Return the numbers of the points that have a label."""
    if y is None:
        return np.arange(0)
    y = labels_of(y)
    if is_indicator(y):
        try:
            return tags_of(y, unlabeled, n).labeled
        except DataError:  # of quantities
            return quantities_of(y, unlabeled, n).labeled
    return classes_of(y, unlabeled, n, occurs=False).labeled


def _graph(rows: Rows, model: BaseEstimator | None, given: GraphLike | KNNGraph | None,
           execution: Execution) -> Graph:
    """Return the graph of the points: the given one, or one with the given parameters or those of the model."""
    if isinstance(given, KNNGraph):
        return given.of_scaled(rows, execution)
    params = model.group("graph") if model is not None and "graph" in getattr(model, "groups", ()) else KNNGraph()
    return graph_of(rows, params, execution, given)


def _scores(model: BaseEstimator, X: PointsLike) -> np.ndarray | None:
    """Return the scores of classes (n, c) of a fitted model; None of one that has no classes."""
    check_is_fitted(model)
    if not hasattr(model, "classes_"):
        return None
    which = next((name for name in ("decision_function", "predict_proba") if hasattr(model, name)), None)
    require(which is not None, f"{type(model).__name__} has neither decision_function nor predict_proba",
            why="a criterion asks how sure the model is", fix="leave model out, or pass another classifier")
    scores = np.asarray(getattr(model, str(which))(X), np.float64)
    return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
