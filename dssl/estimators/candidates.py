"""The candidates of a search, and which of them one evaluation serves: those that differ in vectorized
parameters alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import clone

from ..base.digest import is_whole
from ..base.errors import ParameterError, explain, require
from ..data.scaling.scaling import ScalingKind
from ..graph.knn_graph import KNNGraph
from ..methods.evaluation import Group
from ..selection.halving import Search
from .automatic import AutomaticEstimator
from .method import SearchedEstimator

Values = dict[str, Any]
ParamGrid = Mapping[str, Sequence[Any] | np.ndarray]  # the values of each parameter


@dataclass(frozen=True, eq=False)
class Candidate:
    """A combination of the parameters of a grid, `values`, and the estimator that has them."""

    values: Values
    estimator: SearchedEstimator

    @property
    def graph(self) -> KNNGraph | None:
        """Return how its graph is made; None of an estimator that has none."""
        return self.estimator.group("graph") if "graph" in self.estimator.groups else None


def candidates_of(estimator: object, param_grid: ParamGrid | Sequence[ParamGrid], n_candidates: int | None,
                  random_state: int) -> list[Candidate]:
    """Return the combinations that are tried, in the order of the grid; raise ParameterError where one is wrong."""
    if isinstance(estimator, type):
        raise ParameterError(explain(f"estimator={estimator.__name__} is a class", why="copies of an estimator are "
                                     "fitted", fix=f"pass {estimator.__name__}()"))
    name = type(estimator).__name__
    require(not isinstance(estimator, AutomaticEstimator), f"GridSearch cannot search {name}", error=ParameterError,
            why="it chooses its parameters itself", fix="fit it directly")
    require(isinstance(estimator, SearchedEstimator), f"estimator={name}",
            why="what fits share is known of ClusterKernelSVC, LapSVC, LapKernelRidge, LapSVM, LapRLS, "
                "TransductiveSVC, the estimators in a multi-scale kernel and learners on the graph",
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
    candidates = [Candidate(values, clone(estimator).set_params(**values)) for values in combinations]
    for checked in (candidate.estimator for candidate in candidates):
        checked._params()
        for name in checked.groups:
            checked.group(name)
        values = checked.get_params()
        for name in set(checked.vectorized) - set(checked.several):
            require(np.ndim(values[name]) == 0, f"{name}={values[name]!r} of a candidate",
                    why="a candidate has one value of each parameter", fix=f"list the values of {name} in the grid")
    return candidates


def _listed(name: str, values: Sequence[Any] | np.ndarray) -> Sequence[Any]:
    listed = isinstance(values, (list, tuple, range)) or getattr(values, "ndim", 0) == 1
    require(listed and len(values) > 0, f"{name}={values!r} in a grid",
            why="a grid is a list of values for each parameter", fix=f"use {{{name!r}: [value, ...]}}")
    return list(values)


def groups_of(candidates: Sequence[Candidate]) -> list[tuple[ScalingKind, Group]]:
    """Return the groups of candidates that one evaluation serves, each with its scale; those of one graph together."""
    members: list[tuple[Values, list[int]]] = []  # no dict: values of parameters need not be hashable
    for number, candidate in enumerate(candidates):
        shared = {name: value for name, value in candidate.values.items() if name not in candidate.estimator.vectorized}
        numbers = next((numbers for known, numbers in members if known == shared), None)
        if numbers is None:
            members.append((shared, numbers := []))
        numbers.append(number)
    by_graph: dict[tuple[KNNGraph | None, ScalingKind], list[tuple[ScalingKind, Group]]] = {}
    for _, numbers in members:
        first = candidates[numbers[0]]
        group = Group(first.estimator.method, {number: candidates[number].estimator._params() for number in numbers},
                      first.graph)
        scale = first.estimator._scaling_params().kind
        by_graph.setdefault((first.graph, scale), []).append((scale, group))
    return [group for groups in by_graph.values() for group in groups]
