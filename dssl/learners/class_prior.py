"""How frequent the classes are among the points that a model predicts: what users say of it, and what labels say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ..base.errors import ParameterError, explain, require

SMOOTHING = 0.5  # added to the count of each class
NUMBER_OF = {"class_sizes": "a size", "class_weight": "a weight"}  # by parameter; of others a share


def class_shares(sizes: Any, classes: np.ndarray, name: str = "class_sizes") -> np.ndarray:
    """Return shares (n_classes,) that sum to 1, of numbers as `class_numbers` takes them."""
    numbers = class_numbers(sizes, classes, name)
    return numbers / numbers.sum()


def class_numbers(sizes: Any, classes: np.ndarray, name: str) -> np.ndarray:
    """Return numbers (n_classes,), given in the order of classes or by class in a mapping.

    name : of the parameter. Raises ParameterError: not one number > 0 a class.
    """
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
    """How frequent classes are where a model predicts.

    source : "labels", as they are; "equal"; or "given", `ordered` as the classes are or `named`.
    named : pairs of a class and its share, since keys of JSON are text, and the classes 1 and "1" are not the same.
    """

    source: Literal["labels", "equal", "given"] = "labels"
    ordered: tuple[float, ...] | None = None
    named: tuple[tuple[str | int | float, float], ...] | None = None
    parameter: str = field(default="class_prior", compare=False)  # by which they are given

    @classmethod
    def of(cls, prior: Any, name: str = "class_prior") -> "ClassPrior":
        """Return the prior of a parameter: None, "labels", "equal", a sequence, or shares by class in a mapping.

        Raises ParameterError: another text, or no numbers; name : of the parameter.
        """
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
    def sizes(self) -> Any:
        """Return known sizes of the classes, as `class_shares` takes them; None where there are none."""
        return self._given if self.parameter == "class_sizes" else None

    @property
    def _given(self) -> Any:
        return self.ordered if self.named is None else dict(self.named)

    def shares(self, codes: np.ndarray, names: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return the share (n_classes,) of each class, of labels with these codes (l,) and weights (l,).

        Raises ParameterError: a given share is missing or not > 0.
        """
        if self.source == "given":
            return class_shares(self._given, names, self.parameter)
        if self.source == "equal":
            return np.full(len(names), 1 / len(names))
        return smoothed(codes, len(names), weight)

    def described(self) -> dict[str, Any]:
        """Return what `from_described` takes; JSON."""
        return {"source": self.source, "ordered": self.ordered, "named": self.named}

    @classmethod
    def from_described(cls, described: Mapping[str, Any]) -> "ClassPrior":
        """Return the prior that `described` told."""
        ordered, named = described["ordered"], described["named"]
        return cls(described["source"], None if ordered is None else tuple(ordered),
                   None if named is None else tuple((key, share) for key, share in named))


@dataclass(frozen=True)
class ClassWeight:
    """What the labels of each class weigh.

    source : "labels", 1 each; "balanced", such that the classes weigh the same; or "given", 1 of a class not named.
    """

    source: Literal["labels", "balanced", "given"] = "labels"
    named: tuple[tuple[str | int | float, float], ...] = ()

    @classmethod
    def of(cls, weight: Any) -> "ClassWeight":
        """Return the weights of a parameter: None, "balanced", or weights by class in a mapping, 1 of those not named.

        Raises ParameterError: another text, or no numbers.
        """
        require(weight is None or weight == "balanced" or isinstance(weight, Mapping), f"class_weight={weight!r}",
                why="it says what the labels of each class weigh", fix='use "balanced", or a weight by class')
        if not isinstance(weight, Mapping):
            return cls("labels" if weight is None else "balanced")
        return cls("given", ClassPrior.of(weight, "class_weight").named or ())

    def weights(self, codes: np.ndarray, names: np.ndarray, weight: np.ndarray | None) -> np.ndarray | None:
        """Return the weight (l,) of each label with these codes (l,), times its own (l,); None where all are 1.

        Raises ParameterError: a class that there is not, or a weight that is not > 0.
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
    """Return the frequencies (n_classes,) of classes among labels: of their counts plus 1/2.

    weight : (l,), of which the sums count, in units of the mean.
    """
    counts = np.bincount(codes, None if weight is None else weight / weight.mean(), minlength=n_classes) + SMOOTHING
    return counts / counts.sum()
