"""`GridSearch`: an estimator's parameters chosen on one graph, one kernel and one system for all that share them."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..base.digest import require_random_state
from ..base.errors import DataError, ParameterError, explain, require
from ..data.scaling.scaling import scaled
from ..execution.threads import on_one_thread
from ..graph.knn_graph import graph_of
from ..learners.target.target import Classes, Target
from ..methods.evaluation import Evaluation, ResultCache, require_named
from ..methods.step import Fit
from ..selection.candidates import CandidateScores, SelectionRule, cv_results
from ..selection.folds import held_out_folds
from ..selection.halving import EvaluatedRung, Repetitions, Search, evaluated_by_rungs, require_factor
from ..selection.held_out_scores import require_scoring
from ..storage.artifacts import Workspace
from .arguments import Folds, GraphLike, LabelsLike, NumbersLike, PointsLike
from .base import require_unequal
from .candidates import Candidate, ParamGrid, candidates_of, groups_of
from .method import SearchedEstimator
from .saved import SavedEstimator
from .targets import weighed

LONGEST_WAIT = 24 * 3600.0  # seconds, for another search in the workspace


def _has(name: str) -> Any:
    return available_if(lambda search: hasattr(search.estimator, name))


class GridSearch(MetaEstimatorMixin, SavedEstimator):
    """Choose the parameters of an estimator by cross-validation on the labels.

    The best candidate is then fitted to all labels. What a parameter does not change is
    computed once: a graph serves all candidates that differ in the kernel or the
    penalties, and the Gram matrices or the covariance of a kernel serve all penalties
    and folds; the searches of scikit-learn fit anew for each. A held-out point stays in
    the graph as an unlabeled one, and unlabeled points are no class.

    Parameters
    ----------
    estimator : estimator
        One of `LapSVC`, `LapKernelRidge`, `LapSVM`, `LapRLSClassifier`,
        `LapRLSRegressor`, `TransductiveSVC`, the learners on the graph, and the
        linear models in cluster and multi-scale kernels.
    param_grid : dict or list of dict
        Lists of values by parameter, or a list of such dicts; fields of groups of
        parameters as `graph__n_neighbors`.
    cv : int, "leave_one_out", splitter or list
        A number of folds of the labels, "leave_one_out", a splitter of
        scikit-learn, repeated or not, which is given the labeled points, or lists
        of positions.
    n_candidates : int or None
        How many of all combinations are tried, drawn by the seed; None is all of
        them.
    scoring : str or None
        What is highest at the best candidate, by its name in scikit-learn: of
        classes "accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score",
        "f1" (of the second of two), "f1_macro" or "roc_auc"; of quantities
        "neg_root_mean_squared_error" or "neg_mean_absolute_error". None is the
        accuracy, or the former of the two errors. See
        `dssl.selection.held_out_scores`.
    one_standard_error : bool
        Whether, of the candidates within one standard error (over points) of the
        best score, the one of largest gamma_A, then gamma_I, or of least C, or of
        largest penalty is taken.
    factor : float or None
        The factor of successive halving, such as 3: all candidates are scored on
        few folds, the third of best score on three times as many, and so on; the
        best is one of those scored on all folds. None scores all candidates on all
        folds. See also `dssl.selection.halving`.
    refit : bool
        Whether the best candidate is fitted to all labels, on the graph of the
        search.
    workspace : str, Path or None
        A folder, by its path or ``file://`` URL, that every worker can open. Graphs and
        the scores of finished fits are kept there as a pipeline keeps its
        artifacts: under a digest of the rows, labels, weights, folds, parameters
        and the version of the code. A search that was killed, or one of a larger
        grid, makes what is not there. A fit has all penalties of a graph and
        kernel: with other penalties it is another fit. Kernels and losses must be
        those of dssl.
    random_state : int
        The seed of folds and candidates.

    Attributes
    ----------
    best_params_ : dict
        The parameters of the best candidate.
    best_score_ : float
        Its accuracy, or of quantities minus the rmse, over the points of all folds,
        whatever the scoring is.
    best_index_ : int
        Its row of `cv_results_`, as in scikit-learn.
    best_estimator_ : estimator
        The estimator fitted with the best parameters; with `refit`.
    cv_results_ : dict of ndarray
        An entry for each candidate; see `dssl.selection.candidates.cv_results`. The score
        that was asked for, as `error`, `balanced_error`, `log_loss`, `brier`, `auc`,
        `f1`, `f1_macro`, `rmse` or `mae`, its standard error and the penalties as
        numbers, also those of "auto", are there by their names. With `factor` there is
        a row for each candidate in each rung, with `iter` and `n_resources`, as in
        scikit-learn.
    n_resources_ : list of int
        The number of folds of each rung.
    n_candidates_ : list of int
        The number of candidates of each rung.
    n_graphs_ : int
        The graphs that were made; not those that the workspace had.
    n_fits_ : int
        The fits that were made, each of candidates that share all but penalties; not
        those that the workspace had.
    n_neighbor_searches_ : int
        The neighbor searches that the graphs took. Graphs that differ in `n_neighbors`,
        weights, bandwidth or `symmetrize` share one, for the most neighbors.
    evidence_ : dict
        That of the best estimator, and under `search` what was made.

    Raises
    ------
    ParameterError
        When `fit` is called: a parameter is unknown or out of range.

    Notes
    -----
    With exact searches the shared search gives the graphs that single fits make, to the
    bit. NN-descent does not: the beginning of a list of 20 is in general not the list
    that a search for 10 finds, and has a recall of its own, in the attributes of the
    graph. "auto" (above 20,000 points) takes the method for the most neighbors.
    `best_estimator_` has the graph of the search.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from dssl import GridSearch, LapSVC
    >>> X, classes = make_moons(200, noise=0.05, random_state=0)
    >>> y = np.where(np.arange(200) < 10, classes, -1)
    >>> search = GridSearch(LapSVC(), {"eta": [1.0, 100.0], "C": [1.0, 10.0]}, cv=2)
    >>> search = search.fit(X, y)
    >>> sorted(search.best_params_)
    ['C', 'eta']
    >>> search.score(X, classes)
    1.0
    """

    def __init__(self, estimator: SearchedEstimator, param_grid: ParamGrid | Sequence[ParamGrid], *, cv: Folds = 5,
                 n_candidates: int | None = None, scoring: str | None = None, one_standard_error: bool = False,
                 factor: float | None = None, refit: bool = True, workspace: str | Path | None = None,
                 random_state: int = 0):
        self.estimator, self.param_grid, self.cv = estimator, param_grid, cv
        self.scoring, self.one_standard_error, self.factor = scoring, one_standard_error, factor
        self.n_candidates, self.refit, self.workspace, self.random_state = n_candidates, refit, workspace, random_state

    @on_one_thread
    def fit(self, X: PointsLike, y: LabelsLike | None = None, sample_weight: NumbersLike | None = None,
            graph: GraphLike | None = None) -> Self:
        """Search, then fit the best candidate.

        Parameters
        ----------
        X : array-like, shape (n, d)
            All points, as in the estimator's `fit`.
        y : array-like, shape (n,) or (n, c), or None
            The labels, as in the estimator's `fit`.
        sample_weight : array-like, shape (n,), or None
            What each label weighs, as in the estimator's `fit`.
        graph : Graph or None
            A graph in place of the one made of X, as in the estimator's `fit`.

        Returns
        -------
        GridSearch
            The search itself.

        Raises
        ------
        ParameterError
            A parameter is unknown or out of range, before any graph is made; or the
            grid changes a graph that is given; or the target has no such score. The
            estimator's `fit` raises further errors.
        LockedError
            Another process has written to the workspace for a day. Until then it is
            waited for, so that the searches of `cross_val_score(..., n_jobs=2)` take
            turns.
        IntegrityError
            What is kept in the workspace is damaged.
        """
        for name in ("refit", "one_standard_error"):
            given = getattr(self, name)
            require(isinstance(given, (bool, np.bool_)), f"{name}={given!r}, expected True or False",
                    why="it is a choice of two", fix='name what is best by scoring, such as "roc_auc"')
        require_factor(self.factor)
        require_random_state(self.random_state)
        candidates = candidates_of(self.estimator, self.param_grid, self.n_candidates, self.random_state)
        require(graph is None or not any(name.split("__")[0] == "graph" for each in candidates for name in each.values),
                "a graph, and a grid that changes it", why="the graph that is given is the one of all fits",
                fix="leave graph parameters out of the grid, or the graph out of fit")
        groups = groups_of(candidates)
        place = None if self.workspace is None else Workspace.at(self.workspace)
        for candidate in candidates if place else ():
            for name, value in candidate.estimator.get_params(deep=False).items():
                if callable(value):
                    require_named(value, name)
        for params in (params for _, group in groups for params in group.candidates.values()) if place else ():
            require_named(params)
        estimator = clone(self.estimator)
        execution = estimator._execution()
        y = estimator._labels_of_fit(X, y)
        rows = estimator._points(X, execution, reset=True)
        target, weight = weighed(estimator._target(y, len(rows)), sample_weight, len(rows))
        require(isinstance(target, Target), "y has several columns", error=DataError,
                why="candidates are compared by one label a point", fix="search for each column of y by itself")
        assert isinstance(target, Target)
        estimator._check(target)
        require_scoring(self.scoring, classes=isinstance(target, Classes), n_classes=target.n_strata)
        rule = SelectionRule(scoring=self.scoring, one_standard_error=self.one_standard_error)
        require_unequal(rows)
        of_scale = {each.estimator._scaling_params().kind: each.estimator for each in candidates}
        scalings = {scale: each._scaling_of(X, rows, execution, graph) for scale, each in of_scale.items()}
        if graph is not None:
            graph = graph_of(rows, estimator.group("graph"), execution, graph)
        repetitions = held_out_folds(self.cv, target, self.random_state)
        evaluations = dict[str, Evaluation]()  # by the kind of a scaling, which tells it, since all are of these points
        for scaling in {each.kind: each for each in scalings.values()}.values():
            fit = Fit(scaled(rows, scaling, execution), target, weight)
            evaluations[scaling.kind] = Evaluation(
                fit, execution, self.scoring, [group for scale, group in groups
                                               if scalings[scale].kind == scaling.kind],
                graph, None if place is None else ResultCache.of(place, fit), again=self.factor is not None)

        def forget() -> None:
            for evaluation in evaluations.values():
                evaluation.forget()

        def evaluate(rung: int, in_rung: Mapping[str, Sequence[int]],
                     folds: Repetitions) -> dict[str, list[CandidateScores]]:
            table, numbers_of_rung, last = dict[int, CandidateScores](), {*in_rung["model"]}, None
            for scale, group in groups:
                if (scale, group.graph) != last and self.factor is None:
                    forget()
                last = scale, group.graph
                numbers = [number for number in group.candidates if number in numbers_of_rung]
                if numbers:
                    scores_of_group = evaluations[scalings[scale].kind].scores(group, numbers, folds)
                    table |= zip(numbers, scores_of_group, strict=True)
            return {"model": [table[number] for number in in_rung["model"]]}

        with nullcontext() if place is None else place.lock(wait=LONGEST_WAIT):
            rungs = evaluated_by_rungs({"model": range(len(candidates))}, repetitions, Search(factor=self.factor),
                                       lambda: rule, evaluate)
            forget()
            best = clone(self._set_results(candidates, rungs, rule).estimator)
            if self.refit and best.method.uses_graph(best._params()) and best.method.has_graph and graph is None:
                scaling = scalings[best._scaling_params().kind]
                graph = evaluations[scaling.kind].graph(best.group("graph")).of_features(scaling)
        made = evaluations.values()
        self.n_graphs_ = sum(evaluation.n_graphs for evaluation in made)
        self.n_neighbor_searches_ = sum(evaluation.n_searches for evaluation in made)
        self.n_fits_ = sum(evaluation.n_groups for evaluation in made)
        self.evidence_ = {"search": {
            "candidates": len(candidates), "folds": [len(folds) for folds in repetitions],
            "fits": self.n_fits_, "graphs": self.n_graphs_, "neighbor_searches": self.n_neighbor_searches_}}
        if self.refit:
            self.best_estimator_ = best.fit(X, y, sample_weight, graph=graph)
            self.evidence_ = {**self.best_estimator_.evidence_, **self.evidence_}
            for name in ("classes_", "n_features_in_", "feature_names_in_", "_fit_columns"):
                if hasattr(self.best_estimator_, name):
                    setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def _set_results(self, candidates: Sequence[Candidate], rungs: Sequence[EvaluatedRung],
                     rule: SelectionRule) -> Candidate:
        """Set the attributes of the search, and return the best candidate."""
        tried = [candidates[number] for rung in rungs for number in rung.indices["model"]]
        scored, finalists = [each for rung in rungs for each in rung.candidates["model"]], rungs[-1].candidates["model"]
        self.n_resources_ = [rung.n_resources for rung in rungs]
        self.n_candidates_ = [len(rung.indices["model"]) for rung in rungs]
        of_rung = [(number, rung.n_resources) for number, rung in enumerate(rungs) for _ in rung.indices["model"]]
        self.cv_results_ = cv_results(scored, [each.values for each in tried], rule,
                                      None if self.factor is None else of_rung)
        self.best_index_ = len(scored) - len(finalists) + rule.index(finalists)
        best = tried[self.best_index_]
        self.best_params_, self.best_score_ = best.values, float(
            self.cv_results_["mean_test_score"][self.best_index_])
        return best

    def predict(self, X: PointsLike) -> np.ndarray:
        """Return what the best estimator predicts.

        Parameters
        ----------
        X : array-like, shape (m, d)
            The points.

        Returns
        -------
        ndarray, shape (m,) or (m, c)
            The labels or targets.
        """
        return self._best.predict(X)

    @_has("decision_function")
    def decision_function(self, X: PointsLike) -> np.ndarray:
        """Return the scores of the best estimator.

        Parameters
        ----------
        X : array-like, shape (m, d)
            The points.

        Returns
        -------
        ndarray, shape (m,) or (m, n_classes)
            One score for two classes, or one for each class.
        """
        return self._best.decision_function(X)

    @_has("predict_proba")
    def predict_proba(self, X: PointsLike) -> np.ndarray:
        """Return the probabilities of the best estimator.

        Parameters
        ----------
        X : array-like, shape (m, d)
            The points.

        Returns
        -------
        ndarray, shape (m, n_classes)
            The probability of each class.
        """
        return self._best.predict_proba(X)

    def score(self, X: PointsLike, y: LabelsLike | None = None, sample_weight: NumbersLike | None = None) -> float:
        """Return the score of the best estimator on labeled points.

        Parameters
        ----------
        X : array-like, shape (m, d)
            The points.
        y : array-like, shape (m,) or (m, c), or None
            Their labels; unlabeled points do not count.
        sample_weight : array-like, shape (m,), or None
            What each point weighs.

        Returns
        -------
        float
            The accuracy, or R^2 of quantities.
        """
        return self._best.score(X, y, sample_weight)

    @property
    def transduction_(self) -> np.ndarray:
        """What the best estimator predicts for the points of the fit."""
        return self._best.transduction_

    @property
    def _best(self) -> SearchedEstimator:
        check_is_fitted(self, "cv_results_")
        if not self.refit:
            raise ParameterError(explain("refit=False keeps no estimator", why="there is nothing that predicts",
                                         fix="fit one with best_params_, or use refit=True"))
        return self.best_estimator_

    def __sklearn_tags__(self) -> Any:
        tags = self.estimator.__sklearn_tags__()
        if tags.classifier_tags is not None:  # candidates are compared by one label a point
            tags.classifier_tags.multi_label = tags.target_tags.multi_output = False
        return tags
