"""The frequencies of the classes among the points to be predicted, and the weights of classes among the labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import ParameterError, explain, require

SMOOTHING = 0.5  # added to the count of each class
NUMBER_OF = {"class_sizes": "a size", "class_weight": "a weight"}  # by parameter; of others a share

ClassName = str | int | float
ClassNumbers = Sequence[float] | np.ndarray | Mapping[Any, float]  # in the order of the classes, or by class


def class_shares(sizes: ClassNumbers, classes: np.ndarray, name: str = "class_sizes") -> np.ndarray:
    """Return the sizes divided by their sum, (n_classes,); `name` is that of the parameter, for messages."""
    numbers = class_numbers(sizes, classes, name)
    return numbers / numbers.sum()


def class_numbers(sizes: ClassNumbers, classes: np.ndarray, name: str) -> np.ndarray:
    """Return one number a class, (n_classes,); raise ParameterError unless each class has a number > 0."""
    if isinstance(sizes, Mapping):
        unknown = [key for key in sizes if key not in classes.tolist()]
        require(not unknown, f"{name} names {unknown}", why=f"the classes are {classes.tolist()}",
                fix="give a number to each of these")
        sizes = [sizes.get(key, np.nan) for key in classes.tolist()]
    numbers = np.asarray(sizes, np.float64)
    require(numbers.shape == (len(classes),) and bool((numbers > 0).all()) and bool(np.isfinite(numbers).all()),
            f"{name}={np.asarray(sizes).tolist()!r} for {len(classes)} classes",
            why=f"each class has {NUMBER_OF.get(name, 'a share')}, a number > 0",
            fix=f"give one number > 0 for each of the classes {classes.tolist()}, in this order or by class")
    return numbers


@dataclass(frozen=True)
class ClassPrior:
    """The frequencies of the classes among the points to be predicted.

    source : "labels", those of the labels; "equal"; or "given", either `ordered` like the classes or `named`.
    named : pairs of a class and its share; a JSON object would not tell the class 1 from the class "1".
    parameter : the name of the parameter that gives them.
    """

    source: Literal["labels", "equal", "given"] = "labels"
    ordered: tuple[float, ...] | None = None
    named: tuple[tuple[ClassName, float], ...] | None = None
    parameter: str = field(default="class_prior", compare=False)

    @classmethod
    def of(cls, prior: str | ClassNumbers | None, name: str = "class_prior") -> "ClassPrior":
        """Return the prior of a parameter: None, "labels", "equal", or shares; raise ParameterError for others."""
        if prior is None or isinstance(prior, str):
            require(prior in (None, "labels", "equal"), f"{name}={prior!r}", why="it says how frequent the classes are",
                    fix='use "labels", "equal", or the share of each class')
            return cls("equal" if prior == "equal" else "labels")
        try:
            if isinstance(prior, Mapping):
                return cls("given", named=tuple((key, float(share)) for key, share in prior.items()),
                           parameter=name)
            return cls("given", ordered=tuple(np.asarray(prior, np.float64).ravel().tolist()), parameter=name)
        except (TypeError, ValueError) as error:
            raise ParameterError(explain(
                f"{name}={prior!r}", why=f"each class has {NUMBER_OF.get(name, 'a share')}, a number > 0",
                fix="give one number > 0 a class, in the order of the classes or by class")) from error

    @property
    def sizes(self) -> ClassNumbers | None:
        """Return the known sizes of the classes, if any."""
        return self._given if self.parameter == "class_sizes" else None

    @property
    def _given(self) -> ClassNumbers:
        return dict(self.named) if self.named is not None else self.ordered or ()

    def shares(self, codes: np.ndarray, names: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return the share of each class, (n_classes,), where labels have codes (l,) and weights (l,).

        Raises ParameterError where a given share is missing or not > 0.
        """
        if self.source == "given":
            return class_shares(self._given, names, self.parameter)
        if self.source == "equal":
            return np.full(len(names), 1 / len(names))
        return smoothed(codes, len(names), weight)

    def to_dict(self) -> JsonObject:
        return {"source": self.source, "ordered": self.ordered, "named": self.named}

    @classmethod
    def from_dict(cls, stored: JsonObject) -> "ClassPrior":
        ordered, named = stored["ordered"], stored["named"]
        return cls(stored["source"], None if ordered is None else tuple(ordered),
                   None if named is None else tuple((key, share) for key, share in named))


@dataclass(frozen=True)
class ClassWeight:
    """The weight of the labels of each class.

    source : "labels", 1 each; "balanced", classes of equal total weight; or "given", 1 for a class not named.
    """

    source: Literal["labels", "balanced", "given"] = "labels"
    named: tuple[tuple[ClassName, float], ...] = ()

    @classmethod
    def of(cls, weight: str | Mapping[Any, float] | None) -> "ClassWeight":
        """Return the weights of a parameter: None, "balanced" or a mapping; raise ParameterError for others."""
        require(weight is None or weight == "balanced" or isinstance(weight, Mapping), f"class_weight={weight!r}",
                why="it weighs the labels of each class", fix='use "balanced", or a weight by class')
        if not isinstance(weight, Mapping):
            return cls("labels" if weight is None else "balanced")
        return cls("given", ClassPrior.of(weight, "class_weight").named or ())

    def weights(self, codes: np.ndarray, names: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Return the class weight of each label, by its code (l,), times its weight (l,); None where all are 1.

        Raises ParameterError for an unknown class, or a weight that is not > 0.
        """
        if self.source == "labels":
            return weight
        weights = np.ones(len(codes)) if weight is None else weight
        if self.source == "balanced":
            total = np.bincount(codes, weights, minlength=len(names))
            of_class = np.full(len(names), total.sum() / len(names)) / np.where(total > 0, total, 1.0)
            if np.ptp(of_class) <= 1e-12 * of_class.max():
                return weight
        else:
            given = dict(self.named)
            of_class = class_numbers({name: given.get(name, 1.0) for name in [*names.tolist(), *given]}, names,
                                     "class_weight")
        return weights * of_class[codes]


LABELS, EQUAL = ClassPrior(), ClassPrior("equal")


def smoothed(codes: np.ndarray, n_classes: int, weight: np.ndarray | None) -> np.ndarray:
    """Return the frequencies (n_classes,) of classes by their counts, or sums of weights of mean 1, plus 1/2."""
    counts = np.bincount(codes, None if weight is None else weight / weight.mean(), minlength=n_classes) + SMOOTHING
    return counts / counts.sum()
