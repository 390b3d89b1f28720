"""`GridSearch`: an estimator's parameters chosen on one graph, one kernel and one system for all that share them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..errors import ParameterError, explain, require
from ..execution.on_dask import current_execution
from ..graph.graph import Graph, graph_of
from ..learners.target import Classes
from ..selection.choice import ChoiceRule, cv_results
from ..selection.folds import held_out_folds
from ..selection.held_out_scores import require_measure
from ..storage.blocks import block_rng
from .base import KernelEstimator, require_unequal
from .targets import weighed

CANDIDATE_STREAM = 6  # of the seed


def _has(name: str) -> Any:
    return available_if(lambda search: hasattr(search.estimator, name))


class GridSearch(MetaEstimatorMixin, BaseEstimator):
    """Choose the parameters of an estimator of dssl by cross-validation on the labels, and fit it with the best.

    What a parameter does not change is computed once: a graph serves all that differ in the kernel or the penalties, a
    kernel's Gram matrices or covariance all penalties and folds. scikit-learn's searches fit anew for each. A point
    that is held out stays in the graph as an unlabeled one, and unlabeled points are no class.

    Parameters
    ----------
    estimator : `LapSVC`, `LapKernelRidge`, `LapSVM`, `LapRLSClassifier` or `LapRLSRegressor`.
    param_grid : dict of lists by parameter, or a list of such dicts; fields of groups as `graph__n_neighbors`.
    cv : a number of folds of the labels, "leave_one_out", a splitter of scikit-learn, repeated or not, which is given
        the labeled points, or lists.
    n_candidates : how many of all combinations are tried, drawn by the seed; None is all of them.
    measure : what is lowest at the best: of classes "error", "balanced_error", "log_loss", "brier", or "auc", which is
        highest; of quantities "rmse" or "mae"; None is error or rmse. See `dssl.selection.held_out_scores`.
    one_standard_error : whether the best is, of the candidates within one standard error (over points) of the lowest
        measure, the one of largest gamma_A, then gamma_I, or of least C.
    refit : whether the best is fitted to all labels, on the graph of the search. seed : of folds and candidates.

    Attributes
    ----------
    best_params_ : dict. best_score_ : accuracy, or of quantities minus the rmse, over the points of all folds, whatever
        the measure is.
    best_index_ : int, its row of `cv_results_`, as in scikit-learn. best_estimator_ : with `refit`.
    cv_results_ : dict of arrays, an entry a candidate; see `dssl.selection.choice.cv_results`. The measure, its
        standard error and the penalties as numbers, of "auto" too, are there by their names.
    n_graphs_ : int, the graphs that were made.
    """

    def __init__(self, estimator: Any, param_grid: Any, *, cv: Any = 5, n_candidates: int | None = None,
                 measure: str | None = None, one_standard_error: bool = False, refit: bool = True, seed: int = 0):
        self.estimator, self.param_grid, self.cv = estimator, param_grid, cv
        self.measure, self.one_standard_error = measure, one_standard_error
        self.n_candidates, self.refit, self.seed = n_candidates, refit, seed

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, graph: Any = None) -> Self:
        """Search, then fit the best; X, y, sample_weight and graph as in the estimator's `fit`. Return self.

        Raises
        ------
        ParameterError : a parameter is unknown or out of range, before any graph is made; or the grid changes a graph
            that is given; or the target has no such measure. Errors of the estimator's `fit`.
        """
        candidates = self._candidates()
        require(graph is None or not any(name.split("__")[0] == "graph" for each in candidates for name in each),
                "a graph, and a grid that changes it", why="the graph that is given is the one of all fits",
                fix="leave graph parameters out of the grid, or the graph out of fit")
        execution, own = current_execution(), clone(self.estimator)
        y = own._labels(X, y)
        rows = own._points(X, execution, reset=True)
        target, weight = weighed(own._target(y, len(rows)), sample_weight, len(rows))
        own._check(target)
        require_measure(self.measure, classes=isinstance(target, Classes))
        rule = ChoiceRule(measure=self.measure, one_standard_error=self.one_standard_error)
        require_unequal(rows)
        repetitions = held_out_folds(self.cv, target, self.seed)
        found: list[Mapping[str, Any]] = [{}] * len(candidates)
        made: dict[Any, Graph] = {}
        for shared in _by_graph(self.estimator, candidates, graph).values():
            kept: dict[Any, Any] = {}
            for outer, numbers in _by_fit(self.estimator, candidates, shared):
                fitted = clone(self.estimator).set_params(**outer)
                if fitted.uses_graph(candidates[number] for number in numbers) and "graph" not in kept:
                    kept["graph"] = graph_of(rows, fitted.group("graph"), execution, graph)
                    made[fitted.group("graph")] = kept["graph"]
                tried = [{name: candidates[number][name] for name in own.joint if name in candidates[number]}
                         for number in numbers]
                for number, row in zip(numbers, fitted.held_out_rows(
                        rows, target, weight, repetitions, tried, self.measure, execution, kept), strict=True):
                    found[number] = row
        self.n_graphs_ = 0 if graph is not None else len(made)
        self.cv_results_ = cv_results(found, candidates, rule)
        self.best_index_ = rule.place(found)
        self.best_params_, self.best_score_ = candidates[self.best_index_], float(
            self.cv_results_["mean_test_score"][self.best_index_])
        if self.refit:
            best = clone(self.estimator).set_params(**self.best_params_)
            kept_graph = made.get(best.group("graph")) if graph is None else graph
            self.best_estimator_ = best.fit(X, y, sample_weight, graph=kept_graph)
            for name in ("classes_", "n_features_in_", "feature_names_in_"):
                if hasattr(self.best_estimator_, name):
                    setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def _candidates(self) -> list[dict[str, Any]]:
        """Return the combinations that are tried, in the order of the grid; raise ParameterError where one is wrong."""
        require(isinstance(self.estimator, KernelEstimator), f"estimator={type(self.estimator).__name__}",
                why="what is shared between fits is known of the estimators of dssl", error=ParameterError,
                fix="pass one of them, or use scikit-learn's GridSearchCV with LabeledKFold")
        grids = [self.param_grid] if isinstance(self.param_grid, Mapping) else self.param_grid
        require(isinstance(grids, (list, tuple)) and all(isinstance(grid, Mapping) for grid in grids),
                f"param_grid={grids!r}", why="a grid is a dict of lists by parameter, or a list of such dicts",
                fix='use {"gamma_A": ["0.1*auto", "auto"]}')
        require(not any("unlabeled" in grid for grid in grids), "a grid that changes unlabeled",
                why="all candidates are compared on the same labels", fix="give the estimator its marker")
        found = [dict(zip(grid, values, strict=True)) for grid in grids
                 for values in product(*(_listed(name, grid[name]) for name in grid))]
        require(len(found) > 0, "an empty grid", why="there is nothing to choose", fix="give lists of values")
        if self.n_candidates is not None:
            whole = isinstance(self.n_candidates, Integral) and not isinstance(self.n_candidates, bool)
            require(whole and self.n_candidates >= 1, f"n_candidates={self.n_candidates!r}, expected a whole number "
                    ">= 1", why="so many of all combinations are tried", fix="use None for all, or a number")
            chosen = block_rng(self.seed, CANDIDATE_STREAM).permutation(len(found))[:self.n_candidates]
            found = [found[index] for index in np.sort(chosen)]
        for candidate in found:
            checked = clone(self.estimator).set_params(**candidate)
            checked._params()
            for name in checked.groups:
                checked.group(name)
            values = checked.get_params()
            for name in checked.joint:
                require(np.ndim(values[name]) == 0, f"{name}={values[name]!r} of a candidate",
                        why="a candidate has one value of each parameter", fix=f"list the values of {name} in the grid")
        return found

    def predict(self, X: Any) -> np.ndarray:
        """Return what the best estimator predicts, shape (n,) or (n, c)."""
        return self._best.predict(X)

    @_has("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores of the best estimator, shape (n,) or (n, n_classes)."""
        return self._best.decision_function(X)

    @_has("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the best estimator, shape (n, n_classes)."""
        return self._best.predict_proba(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the score of the best estimator on labeled points."""
        return self._best.score(X, y, sample_weight)

    @property
    def transduction_(self) -> np.ndarray:
        """What the best estimator predicts for the points of the fit."""
        return self._best.transduction_

    @property
    def _best(self) -> Any:
        check_is_fitted(self, "cv_results_")
        if not self.refit:
            raise ParameterError(explain("refit=False keeps no estimator", why="there is nothing that predicts",
                                         fix="fit one with best_params_, or use refit=True"))
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()


def _listed(name: str, values: Any) -> Sequence[Any]:
    listed = isinstance(values, (list, tuple, range)) or getattr(values, "ndim", 0) == 1
    require(listed and len(values) > 0, f"{name}={values!r} in a grid",
            why="a grid is a list of values for each parameter", fix=f"use {{{name!r}: [value, ...]}}")
    return list(values)


def _by_graph(estimator: Any, candidates: Sequence[dict[str, Any]], given: Any) -> dict[Any, list[int]]:
    """Return the numbers of the candidates of each graph; one group where a graph is given."""
    found: dict[Any, list[int]] = {}
    for number, candidate in enumerate(candidates):
        made = None if given is not None else clone(estimator).set_params(**candidate).group("graph")
        found.setdefault(made, []).append(number)
    return found


def _by_fit(estimator: Any, candidates: Sequence[dict[str, Any]],
            numbers: Sequence[int]) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Yield the parameters that some candidates share, all but the joint ones, and the candidates' numbers."""
    found: list[tuple[dict[str, Any], list[int]]] = []
    for number in numbers:
        outer = {name: value for name, value in candidates[number].items() if name not in estimator.joint}
        own = next((mine for known, mine in found if known == outer), None)
        if own is None:
            found.append((outer, own := []))
        own.append(number)
    yield from found
