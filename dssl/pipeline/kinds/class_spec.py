"""What a pipeline file says of the frequencies and weights of classes, in the section of a model that predicts them."""

from ...base.errors import require
from ...learners.class_prior import EQUAL, ClassPrior, ClassWeight
from ..spec import Spec


def class_prior(spec: Spec) -> ClassPrior:
    """Return how frequent the classes of a pipeline are: as they are told, by size or share, or as labels say.

    Of labels that were drawn so many a class frequencies mean nothing: classes are equally frequent then.

    Raises ParameterError: both sizes and shares are told, or shares of quantities.
    """
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
    weight = getattr(spec.model, "class_weight", None)
    require(weight is None or spec.data.task == "classification", "model.class_weight, and data.task is regression",
            why="quantities have no classes", fix="leave it out")
    return ClassWeight.of(weight)
