"""Targets: labeled points with their classes, or with their quantities.

No other code asks which of both a target is; a `Target` and its `Coding` answer what depends on it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ...base.digest import JsonObject
from ...base.errors import DataError, require
from ..class_prior import LABELS, ClassPrior, ClassWeight
from ..metrics import ABSOLUTE, SQUARED, WRONG_CLASS, ClassScoring, PointMetric
from .coding import Coding, OneVsRest, Values, class_pairs, signs
from .encoding import UNLABELED, classes_of_texts, find_class, require_within

SMALLEST_WEIGHT = 1e-100  # of the largest, so that no weight becomes 0
SMALLEST_UNIT = 2.0**-64  # of quantities whose squares, and ratios of squares, are finite in float64


def relative_weights(weight: np.ndarray | None) -> np.ndarray | None:
    """Return weights (l,) > 0 relative to their mean, so that their unit changes neither a penalty nor a prior."""
    if weight is None or not len(weight):
        return weight
    of_largest = np.maximum(weight / weight.max(), SMALLEST_WEIGHT)  # with a finite sum; 1 where all are equal
    return np.asarray(of_largest / of_largest.mean())


@dataclass(frozen=True, eq=False)
class Target(ABC):
    """labeled (l,) : the row numbers of the labeled points. coded (l,) or (l, c) : their codes or quantities."""

    labeled: np.ndarray
    coded: np.ndarray

    @property
    @abstractmethod
    def coding(self) -> Coding:
        """Return the coding of the columns of least squares."""

    @abstractmethod
    def columns(self) -> np.ndarray:
        """Return the right-hand sides of least squares (l, c); two classes have one column."""

    def each_column(self) -> np.ndarray:
        """Return the same with a column for each class, also for two."""
        return self.columns()

    @abstractmethod
    def indicators(self) -> np.ndarray:
        """Return one-hot columns (l, n_classes), or the quantities (l, c)."""

    @property
    def n_strata(self) -> int:
        """Return the number of classes, with or without labels; 1 for quantities."""
        return 1

    def with_prior(self, prior: ClassPrior) -> "Target":
        """Return the target with another class prior, if it has classes; raise ParameterError for wrong classes."""
        return self

    def label_weights(self, weight: ClassWeight, given: np.ndarray | None = None) -> np.ndarray | None:
        """Return what each label weighs (l,), `relative_weights` of its class times the given ones; None for 1 each.

        Raises ParameterError for an unknown class or a weight that is not > 0.
        """
        return relative_weights(given)

    @property
    def unit(self) -> float:
        """Return the divisor of quantities that makes their squares finite; 1 where they are, and for classes."""
        return 1.0

    def in_units(self) -> "Target":
        """Return the target divided by its unit."""
        return self

    def strata(self) -> np.ndarray:
        """Return the strata (l,) of labeled points for folds: class codes, or zeros."""
        return np.zeros(len(self.coded), np.int64)

    def classes_within(self, positions: np.ndarray) -> list[Any]:
        """Return the names of the classes whose labeled points are all at these positions."""
        return []

    def strata_among(self, n: int) -> np.ndarray:
        """Return the strata of all n points, -1 for the unlabeled."""
        strata = np.full(n, UNLABELED, np.int64)
        strata[self.labeled] = self.strata()
        return strata

    @abstractmethod
    def metrics(self, tie: PointMetric) -> tuple[PointMetric, PointMetric]:
        """Return the metric that a search minimizes, and the one that breaks ties; for classes that is `tie`."""

    @abstractmethod
    def training_metrics(self, values: np.ndarray, coding: Coding) -> dict[str, float]:
        """Return the metrics of values (l, c) at the labeled points, by name."""

    @abstractmethod
    def described(self) -> JsonObject:
        """Return a summary of the labels."""

    @abstractmethod
    def require_labels(self) -> None:
        """Raise DataError unless there are at least two classes, each with a label, or one quantity."""

    def take(self, positions: np.ndarray) -> Self:
        """Return the target of the labeled points at these positions."""
        return replace(self, labeled=self.labeled[positions], coded=self.coded[positions])

    @abstractmethod
    def read(self, texts: Sequence[str]) -> np.ndarray:
        """Return the codes or quantities (t,) of labels given as text; raise DataError for invalid ones."""

    def with_texts(self, points: np.ndarray, texts: Sequence[str]) -> Self:
        """Return the target with new labels of distinct points (t,), which replace old ones."""
        old = np.flatnonzero(~np.isin(self.labeled, points))
        labeled = np.concatenate([self.labeled[old], points])
        coded = np.concatenate([self.coded[old], self.read(texts)])
        order = np.argsort(labeled)
        return replace(self, labeled=labeled[order], coded=coded[order])

    def among(self, rows: np.ndarray) -> Self:
        """Return the target of the points `rows`, distinct numbers, renumbered by their positions there."""
        position = np.full(max(int(rows.max(initial=-1)), int(self.labeled.max(initial=-1))) + 1, -1)
        position[rows] = np.arange(len(rows))
        positions = position[self.labeled]
        included = np.flatnonzero(positions >= 0)
        included = included[np.argsort(positions[included], kind="stable")]
        return replace(self, labeled=positions[included], coded=self.coded[included])

    @abstractmethod
    def spread(self, n: int) -> dict[str, np.ndarray]:
        """Return the named array of codes or quantities of all n points, -1 or NaN without a label."""

    @abstractmethod
    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        """Return named arrays and attributes for `Target.from_arrays`."""

    @staticmethod
    def from_arrays(arrays: dict[str, np.ndarray], attributes: JsonObject) -> "Target":
        """Return the target from the arrays of `to_arrays` or `spread`, and the attributes of `to_arrays`."""
        if attributes.get("classes") is not None:
            codes = arrays["codes"]
            names = np.array(attributes["classes"])
            prior = ClassPrior.from_dict(attributes["prior"]) if "prior" in attributes else LABELS
            classes = Classes(arrays["labeled"], codes, names) if "labeled" in arrays else Classes.of(codes, names)
            return replace(classes, prior=prior)
        values = arrays["values"]
        return Quantities(arrays["labeled"], values) if "labeled" in arrays else Quantities.of(values)


@dataclass(frozen=True, eq=False)
class Classes(Target):
    """coded (l,) : int64 codes. names (n_classes,) : the classes in ascending order.

    prior : class frequencies among the points to be predicted. scoring : the metric that decisions optimize.
    """

    names: np.ndarray
    prior: ClassPrior = LABELS
    scoring: ClassScoring = "accuracy"

    @classmethod
    def of(cls, codes: np.ndarray, names: np.ndarray) -> "Classes":
        """Return the target from the codes of all points (n,), -1 for the unlabeled; see `encode_labels`."""
        labeled = np.flatnonzero(codes >= 0)
        return cls(labeled, codes[labeled], names)

    @property
    def coding(self) -> Coding:
        return OneVsRest(self.names)

    def columns(self) -> np.ndarray:
        return self.each_column()[:, -1:] if len(self.names) == 2 else self.each_column()

    def each_column(self) -> np.ndarray:
        return signs(self.coded, len(self.names))

    def indicators(self) -> np.ndarray:
        return (self.coded[:, None] == np.arange(len(self.names))).astype(np.float64)

    def pairs(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield for each pair of classes the positions (p,) of both, and which are of the first (p,)."""
        for i, j in class_pairs(len(self.names)):
            positions = np.flatnonzero((self.coded == i) | (self.coded == j))
            yield positions, self.coded[positions] == i

    def with_prior(self, prior: ClassPrior) -> "Classes":
        prior.shares(self.coded, self.names, None)  # raises for wrong classes
        return replace(self, prior=prior)

    def require_room(self, n: int) -> None:
        """Raise ParameterError where known sizes leave a class fewer of n points than labels."""
        self.prior.require_room(self.coded, self.names, n)

    def label_weights(self, weight: ClassWeight, given: np.ndarray | None = None) -> np.ndarray | None:
        return relative_weights(weight.weights(self.coded, self.names, relative_weights(given)))

    @property
    def n_strata(self) -> int:
        return len(self.names)

    def strata(self) -> np.ndarray:
        return self.coded

    def classes_within(self, positions: np.ndarray) -> list[Any]:
        return self.names[np.setdiff1d(self.coded[positions], np.delete(self.coded, positions))].tolist()

    def metrics(self, tie: PointMetric) -> tuple[PointMetric, PointMetric]:
        return WRONG_CLASS, tie

    def training_metrics(self, values: np.ndarray, coding: Coding) -> dict[str, float]:
        return {"training_error": float(WRONG_CLASS.of(coding, values, self.coded).mean())}

    def described(self) -> JsonObject:
        return {"per_class": np.bincount(self.coded, minlength=len(self.names)).tolist()}

    def require_labels(self) -> None:
        n_classes = len(self.names)
        present = len(np.unique(self.coded))
        require(n_classes >= 2 and present == n_classes, f"{present} of {n_classes} classes have labeled points",
                why="a classifier needs labels of two classes or more", error=DataError,
                fix="label at least one point of each of two classes")

    def read(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([find_class(self.names, text) for text in texts], np.int64)

    def with_texts(self, points: np.ndarray, texts: Sequence[str]) -> Self:
        """As in the base class; new texts become new classes, which are all where there are none yet.

        Raises DataError where classes are integers and a text is none; see also `classes_of_texts`.
        """
        if not len(self.names):
            return Target.with_texts(replace(self, names=classes_of_texts(texts)), points, texts)
        known = {str(name) for name in self.names.tolist()}
        new = sorted({text for text in texts if text not in known})
        if self.names.dtype.kind in "iu":
            whole = [int(text) for text in new if text.removeprefix("-").isdecimal()]
            names = np.array(sorted({*self.names.tolist(), *whole}), self.names.dtype)
        elif self.names.dtype.kind in "UO" and all(isinstance(name, str) for name in self.names.tolist()):
            names = np.array(sorted({*self.names.tolist(), *new}), object if self.names.dtype == object else str)
        else:
            names = self.names
        return Target.with_texts(self.of_names(names), points, texts)

    def of_names(self, names: np.ndarray) -> Self:
        """Return the same labels as codes of a larger ascending list of names."""
        code_of = {name: code for code, name in enumerate(names.tolist())}
        codes = np.array([code_of[name] for name in self.names.tolist()], np.int64)
        return replace(self, coded=codes[self.coded], names=names)

    def spread(self, n: int) -> dict[str, np.ndarray]:
        return {"codes": self.strata_among(n)}

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        prior = {} if self.prior == LABELS else {"prior": self.prior.to_dict()}
        return {"labeled": self.labeled, "codes": self.coded}, {"classes": self.names.tolist(), **prior}


@dataclass(frozen=True, eq=False)
class Quantities(Target):
    """coded (l,) or (l, c) : quantities, float64."""

    @classmethod
    def of(cls, values: np.ndarray) -> "Quantities":
        """Return the target from the quantities of all points (n,) or (n, c); a row with a NaN is unlabeled."""
        labeled = np.flatnonzero(~np.isnan(values).any(axis=tuple(range(1, values.ndim))))
        return cls(labeled, values[labeled])

    @property
    def coding(self) -> Coding:
        return Values()

    def columns(self) -> np.ndarray:
        return self.coded[:, None] if self.coded.ndim == 1 else self.coded

    def indicators(self) -> np.ndarray:
        return self.columns()

    @property
    def unit(self) -> float:
        largest = float(np.abs(self.coded).max(initial=0))
        return 1.0 if largest == 0 or SMALLEST_UNIT <= largest <= 1 / SMALLEST_UNIT else float(2 ** np.floor(
            np.log2(largest)))

    def in_units(self) -> "Quantities":
        return self if self.unit == 1 else replace(self, coded=self.coded / self.unit)

    def metrics(self, tie: PointMetric) -> tuple[PointMetric, PointMetric]:
        return SQUARED, ABSOLUTE

    def training_metrics(self, values: np.ndarray, coding: Coding) -> dict[str, float]:
        return {"training_rmse": float(np.sqrt(((values - self.columns())**2).mean()))}

    def described(self) -> JsonObject:
        y = self.coded
        if not len(y):
            return {"target": {"known": 0, "distinct": 0}}
        return {"target": {"known": len(y), "distinct": len(np.unique(y)), "min": float(y.min()),
                           "max": float(y.max()), "mean": float(y.mean()), "deviation": float(y.std())}}

    def require_labels(self) -> None:
        require(len(self.coded) > 0, "no point has a target", why="a regression needs labels", error=DataError,
                fix="give at least one point a target")

    def read(self, texts: Sequence[str]) -> np.ndarray:
        numbers = np.array([_number(text) for text in texts])
        wrong = [text for text, value in zip(texts, numbers, strict=True) if not np.isfinite(value)]
        require(not wrong, f"labels such as {wrong[:3]}", why="a regression predicts numbers", error=DataError,
                fix="write numbers with a decimal point")
        require_within(numbers)
        return numbers

    def spread(self, n: int) -> dict[str, np.ndarray]:
        values = np.full((n, *self.coded.shape[1:]), np.nan)
        values[self.labeled] = self.coded
        return {"values": values}

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        return {"labeled": self.labeled, "values": self.coded}, {"task": "regression"}


def _number(text: str) -> float:
    """Return the number that a text is; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan
