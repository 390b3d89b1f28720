"""Types of what estimators are given: points, labels, graphs, and the parameters that several of them have.

A parameter may have several fields: `LapSVC(graph=KNNGraph(n_neighbors=15))`.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..base.errors import ParameterError, require
from ..data.inputs import NumbersLike, PointsLike
from ..graph.given import WeightsOrLists
from ..graph.graph import Graph
from ..kernels.base import BaseKernels, Kernel
from ..learners.class_prior import ClassNumbers, ClassSizes
from ..learners.tags import Tags
from ..learners.target.target import Target
from ..methods.sections import ModelSection
from .saved import SavedEstimator

__all__ = ["Folds", "GraphLike", "LabelsLike", "Learnable", "NumbersLike", "OtherModel", "PointsLike", "PriorLike",
           "SizesLike", "WeightLike", "base_kernels"]


class Splitter(Protocol):
    """A splitter of scikit-learn."""

    def split(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None) -> Iterable[tuple[ArrayLike, ArrayLike]]: ...


LabelsLike: TypeAlias = PointsLike
"""Labels or targets, of the same kinds as points; of a Dataset its own, and sparse ones of tags alone."""

GraphLike: TypeAlias = Graph | WeightsOrLists
"""A graph, or what `Graph.of` takes."""

Learnable: TypeAlias = Target | Tags
"""What points say that is to be learned."""

Folds: TypeAlias = (int | Literal["leave_one_out"] | Splitter
                    | Iterable[ArrayLike] | Iterable[tuple[ArrayLike, ArrayLike]])
"""Folds as `dssl.selection.folds.held_out_folds` takes them."""

SizesLike: TypeAlias = ClassSizes | None
"""The sizes of classes, where they are known."""

PriorLike: TypeAlias = Literal["labels", "equal"] | ClassNumbers | None
"""How frequent classes are; None is "labels"."""

WeightLike: TypeAlias = Literal["balanced"] | Mapping[Any, float] | None
"""What the labels of each class weigh; None is 1 each."""

OtherModel: TypeAlias = str | BaseEstimator
"""Another model, by its name or as an estimator of scikit-learn."""


class InKernel(Protocol):
    """An estimator with a base kernel."""

    kernel: str | Kernel
    bandwidth: float | str | None
    random_state: int


def base_kernels(estimator: InKernel) -> BaseKernels:
    """Return the base kernel of an estimator."""
    bandwidth = estimator.bandwidth if isinstance(estimator.kernel, str) else None
    return BaseKernels(estimator.kernel, {}, (bandwidth,), estimator.random_state)


AnySection = TypeVar("AnySection", bound=ModelSection)


class GroupedParams(SavedEstimator):
    """An estimator of which some parameters are groups: frozen dataclasses, which a grid reaches by field.

    `graph__n_neighbors` is the field `n_neighbors` of the group `graph`. A group may be given as None, its default, or
    as the value of its first field. `random_state` of the estimator is that of every group that is not given whole.
    `set_params(graph__n_neighbors=3)` gives the group whole, with the seed that it had: where `random_state` is set
    after that, `graph__random_state` is to be set too.
    """

    groups: ClassVar[dict[str, type]] = {}
    defaults: ClassVar[dict[str, dict[str, float]]] = {}  # of fields of a group that is not given whole
    random_state: int

    def group(self, name: str) -> Any:
        """Return a group as its dataclass; raise ParameterError if it is none, or a field is out of range."""
        kind, given = self.groups[name], getattr(self, name)
        if isinstance(given, kind):
            return given
        require(np.isscalar(given) or given is None, f"{name} is of type {type(given).__name__}", why="it says how, "
                f"and is a {kind.__name__} or the value of its first field", fix=f"pass {name}={kind.__name__}(...)"
                + "; a graph that is made goes to fit(X, y, graph=graph)" * (name == "graph"))
        names = [field.name for field in fields(kind)]
        usual = dict(self.defaults.get(name, {}))
        if "random_state" in names:
            usual["random_state"] = self.random_state
        return kind(**usual) if given is None else kind(**{names[0]: given}, **usual)

    def section(self, cls: type[AnySection]) -> AnySection:
        """Return the section of a pipeline file that says what the parameters of the same names say.

        Raises ParameterError: a value is out of range.
        """
        names = super().get_params(deep=False)
        given = {item.name: getattr(self, item.name) for item in fields(cls) if item.name in names}
        return cls(**given | {name: self.group(name) for name in given if name in self.groups})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            Whether the fields of groups of parameters are among them, as `group__field`.

        Returns
        -------
        dict
            The parameters.
        """
        params = super().get_params(deep=deep)
        for name in self.groups if deep else ():
            with suppress(ParameterError):  # what is wrong with it is said when it is used
                params |= {f"{name}__{field.name}": getattr(self.group(name), field.name)
                          for field in fields(self.groups[name])}
        return params

    def set_params(self, **params: object) -> Self:
        """Set parameters by name, and fields of groups as `group__field`.

        Parameters
        ----------
        **params : object
            The values by name. A group is a value, so that another takes its place.

        Returns
        -------
        estimator
            The estimator itself.

        Raises
        ------
        ParameterError
            A field is out of range, or there is none of this name.
        ValueError
            There is no such parameter.
        """
        super().set_params(**{name: value for name, value in params.items() if "__" not in name})
        for name, kind in self.groups.items():
            changed = {key.removeprefix(f"{name}__"): params.pop(key) for key in list(params)
                       if key.startswith(f"{name}__")}
            known = [field.name for field in fields(kind)]
            unknown = [key for key in changed if key not in known]
            require(not unknown, f"{name} has no parameter {', '.join(unknown)}", why="it would change nothing",
                    fix=f"use {', '.join(known)}")
            if changed:
                setattr(self, name, replace(self.group(name), **changed))
        others = [name for name in params if "__" in name]
        require(not others, f"Invalid parameter {', '.join(others)}", why="it is no field of a group",
                fix=f"groups are {', '.join(self.groups)}")
        return self
