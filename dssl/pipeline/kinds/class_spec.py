"""What a pipeline file says of the frequencies of classes, in the section of any model that predicts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ..spec import ModelSpec, Spec

if TYPE_CHECKING:
    from ...learners.class_prior import ClassPrior


class ClassModelSpec(ModelSpec):
    """A model of classes, of which it is said how frequent they are; or of quantities."""

    class_prior: Literal["labels", "equal"] | list[float] | dict[str | int | float, float] | None = Field(
        default=None, description="how frequent the classes are among the points that are predicted: labels, as they "
                                  "are; equal; or shares in the order of the classes, or by class. null is labels, or "
                                  "equal where labels.per_class draws as many of each")


def class_prior(spec: Spec) -> ClassPrior:
    """Return how frequent the classes of a pipeline are: as they are told, by size or share, or as labels say.

    Of labels that were drawn so many a class frequencies mean nothing: classes are equally frequent then.
    """
    from ...learners.class_prior import EQUAL, ClassPrior

    given = getattr(spec.model, "class_sizes", None) or getattr(spec.model, "class_prior", None)
    if given is None and spec.labels is not None and spec.labels.per_class is not None:
        return EQUAL
    return ClassPrior.of(given)
