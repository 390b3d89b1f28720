"""What a pipeline file says of the frequencies and weights of classes, in the section of a model that predicts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ...base.errors import require
from ..spec import ModelSpec, Spec

if TYPE_CHECKING:
    from ...learners.class_prior import ClassPrior, ClassWeight


class ClassModelSpec(ModelSpec):
    """A model of classes, of which it is said how frequent they are, and what their labels weigh; or of quantities."""

    class_prior: Literal["labels", "equal"] | list[float] | dict[str | int | float, float] | None = Field(
        default=None, description="how frequent the classes are among the points that are predicted: labels, as they "
                                  "are; equal; or shares in the order of the classes, or by class. null is labels, or "
                                  "equal where labels.per_class draws as many of each")
    class_weight: Literal["balanced"] | dict[str | int | float, float] | None = Field(
        default=None, description="what labels weigh in the fit and in the frequencies of the classes: null, 1 each; "
                                  "balanced, the labels of each class the same in all; or a weight by class")


def class_prior(spec: Spec) -> ClassPrior:
    """Return how frequent the classes of a pipeline are: as they are told, by size or share, or as labels say.

    Of labels that were drawn so many a class frequencies mean nothing: classes are equally frequent then.

    Raises ParameterError: both sizes and shares are told, or shares of quantities.
    """
    from ...learners.class_prior import EQUAL, ClassPrior

    sizes, prior = getattr(spec.model, "class_sizes", None), getattr(spec.model, "class_prior", None)
    require(sizes is None or prior is None, "model.class_prior and model.class_sizes", fix="leave class_prior out",
            why="the sizes say how frequent the classes are")
    require(prior is None or spec.data.task == "classification", "model.class_prior, and data.task is regression",
            why="quantities have no classes", fix="leave it out")
    if sizes is not None:
        return ClassPrior.of(sizes, "class_sizes")
    if prior is None and spec.labels is not None and spec.labels.per_class is not None:
        return EQUAL
    return ClassPrior.of(prior)


def class_weight(spec: Spec) -> ClassWeight:
    """Return what the labels of each class of a pipeline weigh; raise ParameterError of weights where there are none.
    """
    from ...learners.class_prior import ClassWeight

    weight = getattr(spec.model, "class_weight", None)
    require(weight is None or spec.data.task == "classification", "model.class_weight, and data.task is regression",
            why="quantities have no classes", fix="leave it out")
    return ClassWeight.of(weight)
