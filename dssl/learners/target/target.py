"""What is learned: labeled points with their classes, or with their quantities.

Whether a target is one or the other is asked nowhere else: what follows from it is what a `Target` and its `Coding`
say.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ...base.errors import DataError, require
from ..class_prior import LABELS, ClassPrior, ClassWeight
from ..class_scoring import ClassScoring
from ..measures import ABSOLUTE, SQUARED, WRONG_CLASS, PointMeasure
from .coding import Coding, OneVsRest, Values, class_pairs, signs
from .encoding import UNLABELED, find_class, require_within

SMALLEST_UNIT = 2.0**-64  # of quantities whose squares, and their ratios, are numbers


@dataclass(frozen=True, eq=False)
class Target(ABC):
    """labeled (l,) : the numbers of the labeled points among all. coded (l,) or (l, c) : their codes or quantities."""

    labeled: np.ndarray
    coded: np.ndarray

    @property
    @abstractmethod
    def coding(self) -> Coding:
        """Return what columns of least squares say."""

    @abstractmethod
    def columns(self) -> np.ndarray:
        """Return the right-hand sides of least squares (l, c); two classes have one column."""

    def each_column(self) -> np.ndarray:
        """Return the same with a column for each class, of two too."""
        return self.columns()

    @abstractmethod
    def indicators(self) -> np.ndarray:
        """Return the columns (l, c) whose mean over points are the shares of classes; or quantities."""

    @property
    def n_strata(self) -> int:
        """Return the number of classes, of which some may have no point; 1 of quantities."""
        return 1

    def with_prior(self, prior: ClassPrior) -> "Target":
        """Return the target whose classes are so frequent where a model predicts; itself of quantities.

        Raises ParameterError: the prior lacks a class, or has one that there is not.
        """
        return self

    def label_weights(self, weight: ClassWeight, given: np.ndarray | None = None) -> np.ndarray | None:
        """Return what each label weighs (l,), by its class and by what is given (l,); None where all weigh 1.

        Raises ParameterError: a class that there is not, or a weight that is not > 0.
        """
        return given

    @property
    def unit(self) -> float:
        """Return what quantities are divided by so that their squares are numbers; 1 where they are, and of classes."""
        return 1.0

    def in_units(self) -> "Target":
        """Return the target divided by its unit."""
        return self

    def strata(self) -> np.ndarray:
        """Return the numbers (l,) by which points are dealt to folds: those of the classes, or zeros."""
        return np.zeros(len(self.coded), np.int64)

    def classes_within(self, positions: np.ndarray) -> list[Any]:
        """Return the classes whose labeled points are all at these positions, by name; of quantities none."""
        return []

    def strata_among(self, n: int) -> np.ndarray:
        """Return the strata of all n points, -1 for the unlabeled."""
        strata = np.full(n, UNLABELED, np.int64)
        strata[self.labeled] = self.strata()
        return strata

    @abstractmethod
    def measures(self, tie: PointMeasure) -> tuple[PointMeasure, PointMeasure]:
        """Return the measure that a search lowers, and the one that parts equals; of classes that is `tie`."""

    @abstractmethod
    def missed(self, values: np.ndarray, coding: Coding) -> dict[str, float]:
        """Return by name how far values (l, c) are off at the labeled points themselves."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return what is known of the labels; JSON."""

    @abstractmethod
    def require_labels(self) -> None:
        """Raise DataError unless there are two classes or more, each with a labeled point; or a quantity."""

    def take(self, positions: np.ndarray) -> Self:
        """Return the target of the labeled points at these positions."""
        return replace(self, labeled=self.labeled[positions], coded=self.coded[positions])

    @abstractmethod
    def read(self, texts: Sequence[str]) -> np.ndarray:
        """Return codes or quantities (t,) of labels that are text; raise DataError of one that is neither."""

    def with_texts(self, points: np.ndarray, texts: Sequence[str]) -> Self:
        """Return the target with the labels of more points (t,), distinct; they take the place of those it has."""
        old = np.flatnonzero(~np.isin(self.labeled, points))
        labeled = np.concatenate([self.labeled[old], points])
        coded = np.concatenate([self.coded[old], self.read(texts)])
        order = np.argsort(labeled)
        return replace(self, labeled=labeled[order], coded=coded[order])

    def among(self, rows: np.ndarray) -> Self:
        """Return the target of some of the points, each named by its place in `rows`, distinct numbers."""
        place = np.full(max(int(rows.max(initial=-1)), int(self.labeled.max(initial=-1))) + 1, -1)
        place[rows] = np.arange(len(rows))
        places = place[self.labeled]
        kept = np.flatnonzero(places >= 0)
        kept = kept[np.argsort(places[kept], kind="stable")]
        return replace(self, labeled=places[kept], coded=self.coded[kept])

    @abstractmethod
    def spread(self, n: int) -> dict[str, np.ndarray]:
        """Return the codes or quantities of n points by name, (n, ...): -1 or NaN where a point has no label."""

    @abstractmethod
    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return named arrays and JSON attributes, read by `Target.from_arrays`."""

    @staticmethod
    def from_arrays(arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "Target":
        """Return the target that `to_arrays` described, or `spread` with the attributes of `to_arrays`."""
        if attributes.get("classes") is not None:
            codes = arrays["codes"]
            names = np.array(attributes["classes"])
            prior = ClassPrior.from_described(attributes["prior"]) if "prior" in attributes else LABELS
            classes = Classes(arrays["labeled"], codes, names) if "labeled" in arrays else Classes.of(codes, names)
            return replace(classes, prior=prior)
        values = arrays["values"]
        return Quantities(arrays["labeled"], values) if "labeled" in arrays else Quantities.of(values)


@dataclass(frozen=True, eq=False)
class Classes(Target):
    """coded (l,) : int64 codes. names (n_classes,) : what the codes stand for, in ascending order.

    prior : how frequent the classes are where a model predicts. scoring : what the predicted class is best for.
    """

    names: np.ndarray
    prior: ClassPrior = LABELS
    scoring: ClassScoring = "accuracy"

    @classmethod
    def of(cls, codes: np.ndarray, names: np.ndarray) -> "Classes":
        """Return the target of all points from their codes (n,), -1 for the unlabeled; see `encode_labels`."""
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
        """Yield, for each pair of classes, the positions (p,) of both, and which of them are of the first (p,)."""
        for i, j in class_pairs(len(self.names)):
            positions = np.flatnonzero((self.coded == i) | (self.coded == j))
            yield positions, self.coded[positions] == i

    def with_prior(self, prior: ClassPrior) -> "Classes":
        """Return the same with other frequencies of the classes; raise ParameterError where they are of other classes.
        """
        prior.shares(self.coded, self.names, None)
        return replace(self, prior=prior)

    def label_weights(self, weight: ClassWeight, given: np.ndarray | None = None) -> np.ndarray | None:
        return weight.weights(self.coded, self.names, given)

    @property
    def n_strata(self) -> int:
        return len(self.names)

    def strata(self) -> np.ndarray:
        return self.coded

    def classes_within(self, positions: np.ndarray) -> list[Any]:
        return self.names[np.setdiff1d(self.coded[positions], np.delete(self.coded, positions))].tolist()

    def measures(self, tie: PointMeasure) -> tuple[PointMeasure, PointMeasure]:
        return WRONG_CLASS, tie

    def missed(self, values: np.ndarray, coding: Coding) -> dict[str, float]:
        return {"training_error": float(WRONG_CLASS.of(coding, values, self.coded).mean())}

    def described(self) -> dict[str, Any]:
        return {"per_class": np.bincount(self.coded, minlength=len(self.names)).tolist()}

    def require_labels(self) -> None:
        n_classes = len(self.names)
        present = len(np.unique(self.coded))
        require(n_classes >= 2 and present == n_classes, f"{present} of {n_classes} classes have labeled points",
                why="a classifier tells classes apart that it has seen", error=DataError,
                fix="label at least one point of each of two classes")

    def read(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([find_class(self.names, text) for text in texts], np.int64)

    def with_texts(self, points: np.ndarray, texts: Sequence[str]) -> Self:
        """Return the target with the labels of more points; texts that are no class yet become classes.

        Raises DataError: classes are numbers, and such a text is no whole number.
        """
        known = {str(name) for name in self.names.tolist()}
        new = sorted({text for text in texts if text not in known})
        if self.names.dtype.kind in "iu":
            whole = [int(text) for text in new if text.removeprefix("-").isdigit()]
            names = np.array(sorted({*self.names.tolist(), *whole}), self.names.dtype)
        elif self.names.dtype.kind in "UO" and all(isinstance(name, str) for name in self.names.tolist()):
            names = np.array(sorted({*self.names.tolist(), *new}), object if self.names.dtype == object else str)
        else:
            names = self.names
        return Target.with_texts(self.of_names(names), points, texts)

    def of_names(self, names: np.ndarray) -> Self:
        """Return the same labels as codes of other names, ascending, which these are among."""
        place = {name: code for code, name in enumerate(names.tolist())}
        codes = np.array([place[name] for name in self.names.tolist()], np.int64)
        return replace(self, coded=codes[self.coded], names=names)

    def spread(self, n: int) -> dict[str, np.ndarray]:
        return {"codes": self.strata_among(n)}

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        prior = {} if self.prior == LABELS else {"prior": self.prior.described()}
        return {"labeled": self.labeled, "codes": self.coded}, {"classes": self.names.tolist(), **prior}


@dataclass(frozen=True, eq=False)
class Quantities(Target):
    """coded (l,) or (l, c) : quantities, float64, a column a target where there are several."""

    @classmethod
    def of(cls, values: np.ndarray) -> "Quantities":
        """Return the target of all points from their quantities (n,) or (n, c); a row with a NaN is unlabeled."""
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

    def measures(self, tie: PointMeasure) -> tuple[PointMeasure, PointMeasure]:
        return SQUARED, ABSOLUTE

    def missed(self, values: np.ndarray, coding: Coding) -> dict[str, float]:
        return {"training_rmse": float(np.sqrt(((values - self.columns())**2).mean()))}

    def described(self) -> dict[str, Any]:
        known = self.coded
        if not len(known):
            return {"target": {"known": 0, "distinct": 0}}
        return {"target": {"known": len(known), "distinct": len(np.unique(known)), "min": float(known.min()),
                           "max": float(known.max()), "mean": float(known.mean()), "deviation": float(known.std())}}

    def require_labels(self) -> None:
        require(len(self.coded) > 0, "no point has a target", why="there is nothing to learn from", error=DataError,
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

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return {"labeled": self.labeled, "values": self.coded}, {"task": "regression"}


def _number(text: str) -> float:
    """Return the number that a text is; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return np.nan
