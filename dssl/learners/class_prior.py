"""The frequencies of the classes among the points to be predicted, and the weights of classes among the labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import ParameterError, explain, require

ROUNDED = 0.00501  # by which a given share may be rounded: two digits
MIN_SHARE = 1e-9  # of a class, so that its logarithm is finite
SMOOTHING = 0.5  # added to the count of each class
NUMBER_OF = {"class_sizes": "a size", "class_weight": "a weight"}  # by parameter; of others a share

ClassName = str | int | float
ClassNumbers = Sequence[float] | np.ndarray | Mapping[Any, float]  # in the order of the classes, or by class
Size = float | tuple[float, float]  # of a class, or an interval of its share
ClassSizes = Literal["balanced"] | Sequence[Size] | np.ndarray | Mapping[Any, Size]


@dataclass(frozen=True, eq=False)
class ClassBounds:
    """The least and the largest share of each class, (n_classes,) each, which are equal where the size is known."""

    lower: np.ndarray
    upper: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Return shares of sum 1 that lie at the same fraction of each interval, and are at least 1e-9."""
        shares = np.maximum(self._between(self.lower), MIN_SHARE)
        return shares / shares.sum()

    def nearest(self, shares: np.ndarray) -> np.ndarray:
        """Return shares of sum 1 within the bounds, moved there from some shares (n_classes,)."""
        return self._between(np.clip(shares, self.lower, self.upper))

    def _between(self, shares: np.ndarray) -> np.ndarray:
        missing = 1 - shares.sum()
        room = self.upper - shares if missing > 0 else shares - self.lower
        return shares if room.sum() <= 0 else shares + missing * room / room.sum()


def class_bounds(sizes: ClassSizes, classes: np.ndarray, name: str = "class_sizes") -> ClassBounds:
    """Return the bounds of the shares of classes.

    sizes : "balanced", or by class or in the order of classes numbers > 0, which are counts or shares; beside an
    interval (low, high), a pair of shares, all are shares. name : of the parameter. Raises ParameterError: not one
    size a class, or numbers up to 1 whose sum is not 1, or intervals that no shares of sum 1 meet.
    """
    if isinstance(sizes, str):
        shares = np.full(len(classes), 1 / len(classes))
        return ClassBounds(shares, shares)
    pairs = by_class(sizes, classes, name)
    if not any(isinstance(size, (tuple, list)) for size in pairs):
        numbers = class_numbers(pairs, classes, name)
        are_shares, total = bool((numbers <= 1).all() and (numbers < 1).any()), float(numbers.sum())
        require(not are_shares or abs(total - 1) <= ROUNDED * len(numbers), f"{name} whose shares sum to {total:.3g}",
                why="the shares of all classes sum to 1", fix="correct the shares, or give counts of points")
        return ClassBounds(numbers / numbers.sum(), numbers / numbers.sum())
    n_given = sum(size is not None for size in pairs)
    require(n_given == len(classes), f"{name} of {n_given} classes, and there are {len(classes)} classes",
            why="each class has a size", fix=f"give a size to each of the classes {classes.tolist()}")
    both = [tuple(size) if isinstance(size, (tuple, list)) else (size, size) for size in pairs]
    fit = [len(pair) == 2 and 0 <= pair[0] <= pair[1] <= 1 and pair[1] > 0 for pair in both]
    require(all(fit), f"{name}={pairs!r}",
            why="beside an interval each size is a share, or a pair of shares (low, high), between 0 and 1",
            fix="divide counts by the number of points")
    lower, upper = np.array(both, np.float64).T
    require(lower.sum() <= 1 + 1e-9 and upper.sum() >= 1 - 1e-9,
            f"{name} whose shares sum to {lower.sum():.3g} at least and {upper.sum():.3g} at most",
            why="the shares of all classes sum to 1", fix="widen the intervals")
    return ClassBounds(lower, upper)


def by_class(sizes: ClassSizes, classes: np.ndarray, name: str) -> list[Any]:
    """Return sizes in the order of classes, None for one that a mapping leaves out.

    Raises ParameterError: a mapping names another class.
    """
    if not isinstance(sizes, Mapping):
        return list(sizes)
    unknown = [key for key in sizes if key not in classes.tolist()]
    alike = {str(key) for key in unknown} & {str(key) for key in classes.tolist()}
    require(not unknown, f"{name} names {unknown}", why=f"the classes are {classes.tolist()}",
            fix="write these as they are, texts in quotes and numbers without" if alike else
            "give a number to each of these")
    return [sizes.get(key) for key in classes.tolist()]


def class_numbers(sizes: ClassNumbers, classes: np.ndarray, name: str) -> np.ndarray:
    """Return one number a class, (n_classes,); raise ParameterError unless each class has a number > 0."""
    numbers = np.array([np.nan if size is None else size for size in by_class(sizes, classes, name)], np.float64)
    require(numbers.shape == (len(classes),) and bool((numbers > 0).all()) and bool(np.isfinite(numbers).all()),
            f"{name}={np.asarray(sizes).tolist()!r} for {len(classes)} classes",
            why=f"each class has {NUMBER_OF.get(name, 'a share')}, a number > 0",
            fix=f"give one number > 0 for each of the classes {classes.tolist()}, in this order or by class")
    return numbers


@dataclass(frozen=True)
class ClassPrior:
    """The frequencies of the classes among the points to be predicted.

    source : "labels", those of the labels; "equal"; "given", either `ordered` like the classes or `named`; or "sizes",
    known sizes of all classes, given alike, or equal if they are not.
    named : pairs of a class and its share; a JSON object would not tell the class 1 from the class "1".
    """

    source: Literal["labels", "equal", "given", "sizes"] = "labels"
    ordered: tuple[Size, ...] | None = None
    named: tuple[tuple[ClassName, Size], ...] | None = None

    @classmethod
    def of(cls, prior: str | ClassSizes | None, name: str = "class_prior") -> "ClassPrior":
        """Return the prior of a parameter: None, "labels", "equal", or shares; raise ParameterError for others.

        Sizes, those of the parameter "class_sizes", are as `class_bounds` takes them.
        """
        sized = name == "class_sizes"
        if prior is None or isinstance(prior, str):
            if sized:
                require(prior == "balanced", f"{name}={prior!r}", why="it says how many points each class has",
                        fix='use "balanced", or give the size of each class')
                return cls("sizes")
            require(prior in (None, "labels", "equal"), f"{name}={prior!r}", why="it says how frequent the classes are",
                    fix='use "labels", "equal", or the share of each class')
            return cls("equal" if prior == "equal" else "labels")
        number: Callable[[Any], Size] = size_of if sized else float
        try:
            if isinstance(prior, Mapping):
                named = tuple((key, number(share)) for key, share in prior.items())
                return cls("sizes" if sized else "given", named=named)
            return cls("sizes" if sized else "given", ordered=tuple(number(share) for share in prior))
        except (TypeError, ValueError) as error:
            raise ParameterError(no_numbers(prior, name)) from error

    @property
    def sizes(self) -> ClassSizes | None:
        """Return the known sizes of the classes, if any."""
        return self._given if self.source == "sizes" else None

    @property
    def _given(self) -> ClassSizes:
        if self.named is not None:
            return dict(self.named)
        return "balanced" if self.ordered is None else self.ordered

    def shares(self, codes: np.ndarray, names: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return the share of each class, (n_classes,), where labels have codes (l,) and weights (l,).

        Raises ParameterError where a given share is missing or not > 0.
        """
        if self.source in ("given", "sizes"):
            name = "class_sizes" if self.source == "sizes" else "class_prior"
            return class_bounds(self._given, names, name).shares
        if self.source == "equal":
            return np.full(len(names), 1 / len(names))
        return smoothed(codes, len(names), weight)

    def require_room(self, codes: np.ndarray, names: np.ndarray, n: int) -> None:
        """Raise ParameterError where known sizes leave a class fewer of n points than labels, by half a point or more.

        codes (l,) : of the labels. An interval leaves a class its upper end.
        """
        if self.sizes is None:
            return
        sizes, labeled = class_bounds(self.sizes, names).upper * n, np.bincount(codes, minlength=len(names))
        few = np.flatnonzero(sizes <= labeled - 0.5)
        require(not len(few), what="" if not len(few) else
                f"class_sizes leaves {sizes[few[0]]:.1f} of {n} points to class {names[few[0]]!s}, of which "
                f"{labeled[few[0]]} are labeled", fix="correct class_sizes, or leave it out",
                why="sizes are those of all points, labeled and unlabeled, and counts are divided by their sum")

    def to_dict(self) -> JsonObject:
        return {"source": self.source, "ordered": self.ordered, "named": self.named}

    @classmethod
    def from_dict(cls, stored: JsonObject) -> "ClassPrior":
        ordered, named = stored["ordered"], stored["named"]
        return cls(stored["source"], None if ordered is None else tuple(map(size_of, ordered)),
                   None if named is None else tuple((key, size_of(size)) for key, size in named))


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
        try:
            return cls("given", tuple((key, float(number)) for key, number in weight.items()))
        except (TypeError, ValueError) as error:
            raise ParameterError(no_numbers(weight, "class_weight")) from error

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


def no_numbers(given: object, name: str) -> str:
    """Return the message about a parameter that is not numbers."""
    return explain(f"{name}={given!r}", why=f"each class has {NUMBER_OF.get(name, 'a share')}, a number > 0",
                   fix="give one number > 0 a class, in the order of the classes or by class")


def size_of(size: Size | list[float]) -> Size:
    """Return a size as a number, or an interval as a pair; raise TypeError or ValueError for others."""
    if isinstance(size, (tuple, list)):
        low, high = size
        return float(low), float(high)
    return float(size)


LABELS, EQUAL = ClassPrior(), ClassPrior("equal")


def smoothed(codes: np.ndarray, n_classes: int, weight: np.ndarray | None) -> np.ndarray:
    """Return the frequencies (n_classes,) of classes by their counts, or sums of weights of mean 1, plus 1/2."""
    counts = np.bincount(codes, None if weight is None else weight / weight.mean(), minlength=n_classes) + SMOOTHING
    return counts / counts.sum()
