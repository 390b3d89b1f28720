"""The candidates of a search, and which of them one fit serves: those that differ in the joint parameters alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from ..base.digest import is_whole
from ..base.errors import ParameterError, require
from ..graph.graph import KNNGraph
from ..selection.halving import Search
from .base import SearchedEstimator

Candidate = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Fit:
    """Candidates of which one pass over the points gives the rows of all.

    estimator : with the parameters that they share. numbers : of the candidates. tried : the joint parameters of each.
    """

    estimator: SearchedEstimator
    numbers: Sequence[int]
    tried: Sequence[Candidate]

    @property
    def graph(self) -> KNNGraph | None:
        """Return how their graph is made; None of an estimator that has none."""
        return self.estimator.group("graph") if "graph" in self.estimator.groups else None

    @property
    def uses_graph(self) -> bool:
        """Return whether any of them asks for it."""
        return self.estimator.uses_graph(self.tried)


def candidates_of(estimator: Any, param_grid: Any, n_candidates: Any, random_state: int) -> list[Candidate]:
    """Return the combinations that are tried, in the order of the grid; raise ParameterError where one is wrong."""
    require(isinstance(estimator, SearchedEstimator), f"estimator={type(estimator).__name__}",
            why="what fits share is known of ClusterKernelSVC, LapSVC, LapKernelRidge, LapSVM, LapRLS, the "
                "estimators in a multi-scale kernel and learners on the graph",
            fix="pass one of them, or use scikit-learn's GridSearchCV with LabeledKFold", error=ParameterError)
    grids = [param_grid] if isinstance(param_grid, Mapping) else param_grid
    require(isinstance(grids, (list, tuple)) and all(isinstance(grid, Mapping) for grid in grids),
            f"param_grid={grids!r}", why="a grid is a dict of lists by parameter, or a list of such dicts",
            fix='use {"gamma_A": ["0.1*auto", "auto"]}')
    require(not any("unlabeled" in grid for grid in grids), "a grid that changes unlabeled",
            why="all candidates are compared on the same labels", fix="give the estimator its marker")
    require(not any("cv" in grid for grid in grids), "a grid that changes cv",
            why="all candidates are compared on the same folds", fix="pass cv to the search")
    combinations = [dict(zip(grid, values, strict=True)) for grid in grids
             for values in product(*(_listed(name, grid[name]) for name in grid))]
    require(len(combinations) > 0, "an empty grid", why="there is nothing to choose", fix="give lists of values")
    if n_candidates is not None:
        whole = is_whole(n_candidates)
        require(whole and n_candidates >= 1, f"n_candidates={n_candidates!r}, expected a whole number >= 1",
                why="so many of all combinations are tried", fix="use None for all, or a number")
        combinations = Search(n_candidates=int(n_candidates), random_state=random_state).drawn(combinations)
    for candidate in combinations:
        checked = clone(estimator).set_params(**candidate)
        checked._params()
        for name in checked.groups:
            checked.group(name)
        values = checked.get_params()
        for name in set(checked.joint) - set(checked.several):
            require(np.ndim(values[name]) == 0, f"{name}={values[name]!r} of a candidate",
                    why="a candidate has one value of each parameter", fix=f"list the values of {name} in the grid")
    return combinations


def _listed(name: str, values: Any) -> Sequence[Any]:
    listed = isinstance(values, (list, tuple, range)) or getattr(values, "ndim", 0) == 1
    require(listed and len(values) > 0, f"{name}={values!r} in a grid",
            why="a grid is a list of values for each parameter", fix=f"use {{{name!r}: [value, ...]}}")
    return list(values)


def fits_of(estimator: Any, candidates: Sequence[Candidate]) -> list[list[Fit]]:
    """Return the fits of some candidates, those of one graph together."""
    groups: list[tuple[Candidate, list[int]]] = []  # no dict: values of parameters need not be hashable
    for number, candidate in enumerate(candidates):
        outer = {name: value for name, value in candidate.items() if name not in estimator.joint}
        mine_known = next((mine for known, mine in groups if known == outer), None)
        if mine_known is None:
            groups.append((outer, mine_known := []))
        mine_known.append(number)
    by_graph: dict[KNNGraph | None, list[Fit]] = {}
    for outer, numbers in groups:
        tried = [{name: candidates[number][name] for name in estimator.joint if name in candidates[number]}
                 for number in numbers]
        fit = Fit(clone(estimator).set_params(**outer), numbers, tried)
        by_graph.setdefault(fit.graph, []).append(fit)
    return list(by_graph.values())
