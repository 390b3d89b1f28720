"""Types of what estimators are given: points, labels, graphs, and the parameters that several of them have."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ..data.inputs import NumbersLike, PointsLike
from ..graph.given import WeightsOrLists
from ..graph.graph import Graph
from ..learners.class_prior import ClassNumbers, ClassSizes
from ..learners.tags import Tags
from ..learners.target.target import Target

__all__ = ["Folds", "GraphLike", "LabelsLike", "Learnable", "NumbersLike", "OtherModel", "PointsLike", "PriorLike",
           "SizesLike", "WeightLike"]


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
