"""`suggest_labels`: which points to label next, from a graph of all points or a fitted estimator."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..base.errors import require
from ..data.frames import as_pandas
from ..data.inputs import in_order, labels_of, rows_of
from ..data.scaling.params import ScalingParams
from ..data.scaling.rows import scaled
from ..data.scaling.scaling import fit_scaling
from ..execution.current import current_execution
from ..execution.size import size_of
from ..execution.tasks import Execution
from ..graph.graph import KNNGraph, graph_of
from ..graph.vertices import find_vertices
from ..learners.target.target import Quantities
from ..selection.suggest import Criterion, Suggestion, SuggestParams, suggest
from ..storage.blocks import Rows
from .targets import classes_of


def suggest_labels(X: Any, y: Any = None, *, count: int = 10, criterion: Criterion = "auto", model: Any = None,
                   graph: Any = None, params: SuggestParams | None = None, memory_budget: int | str | None = None,
                   unlabeled: Any = None, random_state: int = 0) -> Suggestion:
    """Return which points to label next, and by how much each is better than the others.

    Parameters
    ----------
    X : (n, d), all points, any input that an estimator takes. y : (n,) or (n, c), what is known of them, with the
        marker of none as in `fit`; None for no label at all, or the target of a Dataset X.
    count, criterion : see `dssl.selection.suggest`. "auto" is "model_change_v_optimality" with a `model` of classes and
        "v_optimality" without.
    model : a fitted classifier or regressor, whose scaling and graph parameters are used; any classifier with
        `decision_function` or `predict_proba` does. It has seen y, or part of it.
    graph : of all points, a `Graph` or what `Graph.of` takes, or a `KNNGraph` to make one; None makes that of the model
        or the default one. "coverage" needs none.
    params : more of the criteria; `count`, `criterion` and `random_state` are then those in it.
    memory_budget, unlabeled, random_state : as in the estimators.

    Returns
    -------
    Suggestion : `ids` (count,), the numbers of points, the best first, of copies one; `scores` (count,).

    Raises
    ------
    DataError : fewer points are without a label; the graph is of others. ParameterError : an unknown criterion, or one
    that needs a model of classes. NotFittedError : the model is not fitted. BudgetError : the eigenvectors of the graph
    do not fit.

    References
    ----------
    See `dssl.selection.suggest`.
    """
    params = params or SuggestParams(count=count, criterion=criterion, random_state=random_state)
    execution = current_execution(None if memory_budget is None else size_of(memory_budget))
    X = in_order(as_pandas(X), getattr(model, "feature_names_in_", ()))
    rows = rows_of(X, execution, "suggest_labels")
    known = getattr(model, "scaling_", None) or getattr(graph, "scaling", None)
    rows = scaled(rows, known or fit_scaling(rows, None, ScalingParams(), execution,
                                             categories=getattr(X, "categories", None)), execution)
    labeled = _labeled(X if y is None and getattr(X, "y", None) is not None else y, unlabeled, len(rows))
    made = None if params.criterion == "coverage" and graph is None else _graph(rows, model, graph, execution)
    points = find_vertices(rows, execution) if made is None else made.vertices
    scores = None if model is None else _scores(model, X)
    return suggest(points, made, rows, labeled, params, execution, None if scores is None else scores[points.first])


def _labeled(y: Any, unlabeled: Any, n: int) -> np.ndarray:
    """Return the numbers of the points that have a label."""
    if y is None:
        return np.arange(0)
    y = labels_of(y)
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:
        return Quantities.of(np.asarray(y, np.float64)).labeled
    return classes_of(y, unlabeled, n, occurs=False).labeled


def _graph(rows: Rows, model: Any, given: Any, execution: Execution) -> Any:
    """Return the graph of the points: the one that is given, or what it says or else the model."""
    if isinstance(given, KNNGraph):
        return given.of_scaled(rows, execution)
    params = model.group("graph") if "graph" in getattr(model, "groups", ()) else KNNGraph()
    return graph_of(rows, params, execution, given)


def _scores(model: Any, X: Any) -> np.ndarray | None:
    """Return the scores of classes (n, c) of a fitted model; None of one that has no classes."""
    check_is_fitted(model)
    if not hasattr(model, "classes_"):
        return None
    which = next((name for name in ("decision_function", "predict_proba") if hasattr(model, name)), None)
    require(which is not None, f"{type(model).__name__} has neither decision_function nor predict_proba",
            why="a criterion asks how sure the model is", fix="leave model out, or pass another classifier")
    found = np.asarray(getattr(model, str(which))(X), np.float64)
    return np.stack([-found, found], axis=1) if found.ndim == 1 else found
