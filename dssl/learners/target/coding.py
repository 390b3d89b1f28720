"""What the columns of a function's values say, and what is predicted from them: classes, or quantities.

    OneVsOne    a column a pair of classes, positive for the first
    OneVsRest   a column a class, +1 for it and -1 for the others
    Scores      a column a class, of any scale
    Values      the quantities themselves
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True, eq=False)
class Coding(ABC):
    """classes (n_classes,) : the labels, or empty where quantities are predicted."""

    name: ClassVar[str]
    written_as: ClassVar[str] = "label"  # the head of a column of predictions
    classes: np.ndarray = field(default_factory=lambda: np.empty(0))

    @abstractmethod
    def labels(self, values: np.ndarray) -> np.ndarray:
        """Return the predicted classes (n,), or quantities (n,) or (n, c), from values (n, c)."""

    @abstractmethod
    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        """Return what scores are made of, (n,) each, from values (n, c); `true` (n,) are codes or quantities."""

    @abstractmethod
    def residuals(self, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        """Return the differences (n, c) of values from the columns that least squares would have them be."""

    def completed(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coef (s, c) and intercept (c,) with all columns, of those that least squares were solved for."""
        return coef, intercept

    def never_among(self, labels: np.ndarray) -> list[Any]:
        """Return the classes that are none of the predicted labels (n,); none where quantities are predicted."""
        return self.classes[~np.isin(self.classes, labels)].tolist()

    def without(self, labels: np.ndarray, beyond: np.ndarray) -> np.ndarray:
        """Return labels (n,), or quantities, of which those of some points (n,) bool are none.

        NaN among floats, -1 among integers, and None where -1 is a class or classes are no numbers.
        """
        if not beyond.any():
            return labels
        if labels.dtype.kind != "f" and not self.has_room:
            labels = labels.astype(object)
        kept = labels.copy()
        kept[beyond] = {"O": None, "f": np.nan}.get(kept.dtype.kind, -1)
        return kept

    # Predictions in arrays and files

    def entries(self, values: np.ndarray) -> np.ndarray:
        """Return predictions as the numbers that an array holds: classes that are no numbers are their codes."""
        return self.labels(values)

    @property
    def _are_numbers(self) -> bool:
        return self.classes.dtype.kind in "iufb"

    @property
    def entry_type(self) -> np.dtype:
        return self.classes.dtype if self._are_numbers and self.classes.dtype.kind != "b" else np.dtype(np.int64)

    @property
    def absent(self) -> float | int:
        """Return the entry of a point without a prediction: NaN among floats, -1 among integers."""
        return np.nan if self.entry_type.kind == "f" else -1

    @property
    def has_room(self) -> bool:
        """Return whether an array of labels can hold a point without one."""
        return self.classes.dtype.kind == "i" and -1 not in self.classes

    @property
    def entry_names(self) -> list[str]:
        """Return what entries are codes of, nothing where they are what they say."""
        return [] if self._are_numbers else [str(name) for name in self.classes]

    @abstractmethod
    def summary(self, entries: np.ndarray) -> dict[str, Any]:
        """Return what some predictions are (JSON), for `total`."""

    @abstractmethod
    def total(self, summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return what all predictions are: `counts` by class, or `values` with min, mean and max."""


class Values(Coding):
    """The columns are quantities."""

    name = "values"
    written_as = "value"
    has_room = True

    def labels(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if values.shape[1] == 1 else values

    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        return {"values": values[:, 0]}

    def residuals(self, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        return values - true.reshape(values.shape)

    def summary(self, entries: np.ndarray) -> dict[str, Any]:
        if not entries.size:
            return {}
        return {"sum": float(entries.sum()), "min": float(entries.min()), "max": float(entries.max()),
                "count": int(entries.size)}

    def total(self, summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        some = [part for part in summaries if part]
        if not some:
            return {"values": dict.fromkeys(("min", "mean", "max"))}
        return {"values": {"min": min(part["min"] for part in some), "max": max(part["max"] for part in some),
                           "mean": sum(part["sum"] for part in some) / sum(part["count"] for part in some)}}


class ClassCoding(Coding):
    """The columns tell classes apart."""

    @abstractmethod
    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return one score a class (n, n_classes) from values (n, c); the predicted class has the largest."""

    @abstractmethod
    def decision(self, values: np.ndarray) -> np.ndarray:
        """Return one score a class (n, n_classes), or for two classes one score (n,), positive for the second."""

    @abstractmethod
    def margins(self, values: np.ndarray) -> np.ndarray:
        """Return the mean margin of each class over the others, (n, n_classes).

        They say how far a point lies from the boundaries, which a number of pairs won does not.
        """

    @abstractmethod
    def least_margins(self, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the smallest margin (n,) of the true class against another."""

    @abstractmethod
    def moved_by(self, offset: np.ndarray, n_columns: int) -> np.ndarray:
        """Return what is added to columns, (n_columns,), for margins to grow by an offset (n_classes,) of sum 0."""

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers of the predicted classes, (n,)."""
        return np.argmax(self.scores(values), axis=1)

    def labels(self, values: np.ndarray) -> np.ndarray:
        return self.classes[self.codes(values)]

    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        return {"codes": self.codes(values)}

    def residuals(self, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        return values - signs(true, len(self.classes))[:, -values.shape[1]:]

    def entries(self, values: np.ndarray) -> np.ndarray:
        return self.labels(values).astype(self.entry_type, copy=False) if self._are_numbers else self.codes(values)

    def summary(self, entries: np.ndarray) -> dict[str, Any]:
        codes = np.searchsorted(self.classes, entries) if self._are_numbers else entries
        return {"counts": np.bincount(codes, minlength=len(self.classes)).tolist()}

    def total(self, summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        counts = np.sum([part["counts"] for part in summaries], axis=0) if summaries else []
        return {"counts": {str(name): int(count) for name, count in zip(self.classes, counts, strict=False) if count}}


class OneVsOne(ClassCoding):
    """A column a pair of classes (`class_pairs`), positive for the first."""

    name = "one_vs_one"

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return the number of pairs won, with the sum of margins, squeezed below 1/3, to part equal counts.

        As scikit-learn's SVC with break_ties.
        """
        lead, margins = self._summed(np.where(values > 0, 1.0, -1.0)), self._summed(values)  # pairs won less those lost
        return (lead + len(self.classes) - 1) / 2 + margins / (3 * (np.abs(margins) + 1))

    def decision(self, values: np.ndarray) -> np.ndarray:
        return -values[:, 0] if len(self.classes) == 2 else self.scores(values)

    def margins(self, values: np.ndarray) -> np.ndarray:
        return self._summed(values) / len(self.classes)

    def least_margins(self, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        margins = np.full((len(codes), len(self.classes)), np.inf)
        for column, (i, j) in enumerate(class_pairs(len(self.classes))):
            first = codes == i
            second = codes == j
            margins[first, j] = values[first, column]
            margins[second, i] = -values[second, column]
        return margins.min(axis=1)

    def moved_by(self, offset: np.ndarray, n_columns: int) -> np.ndarray:
        return np.array([offset[i] - offset[j] for i, j in class_pairs(len(self.classes))])

    def _summed(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of each class's margins over the others, (n, n_classes)."""
        margins = np.zeros((len(values), len(self.classes)))
        for column, (i, j) in enumerate(class_pairs(len(self.classes))):
            margins[:, i] += values[:, column]
            margins[:, j] -= values[:, column]
        return margins


class OneVsRest(ClassCoding):
    """A column a class, which least squares would have be +1 for it and -1 for the others.

    Of two classes the columns are each other's negative, and one column alone is that of the second.
    """

    name = "one_vs_rest"

    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        """Return codes, and the mean squared difference of the values from the codes +1 and -1 of the classes."""
        columns = values[:, -1:] if len(self.classes) == 2 else values
        return {"codes": self.codes(values), "code_errors": (self.residuals(columns, true)**2).mean(axis=1)}

    def completed(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.scores(coef), self.scores(intercept[None])[0]

    def scores(self, values: np.ndarray) -> np.ndarray:
        return np.hstack([-values, values]) if values.shape[1] == 1 != len(self.classes) else values

    margins = scores

    def decision(self, values: np.ndarray) -> np.ndarray:
        return values[:, -1] if len(self.classes) == 2 else values

    def least_margins(self, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        scores = self.scores(values)
        margins = (np.take_along_axis(scores, codes[:, None], axis=1) - scores) / 2
        margins[np.arange(len(codes)), codes] = np.inf
        return margins.min(axis=1)

    def moved_by(self, offset: np.ndarray, n_columns: int) -> np.ndarray:
        return offset[-n_columns:]


class Scores(OneVsRest):
    """A column a class, whose largest is predicted; of two classes one column, positive for the second.

    There may be one class alone, of which every point is. The columns have a scale of their own, so that their
    differences from +1 and -1 say nothing.
    """

    name = "scores"

    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        return {"codes": self.codes(values)}


CODINGS: dict[str, type[Coding]] = {coding.name: coding for coding in (OneVsOne, OneVsRest, Scores, Values)}


def signs(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return +1 for the class of each code (n,) and -1 for the others, (n, n_classes)."""
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, in the order of the columns of `OneVsOne`."""
    return list(combinations(range(n_classes), 2))


def margins_of(values: np.ndarray, coding: Coding) -> np.ndarray:
    """Return the mean margin of each class over the others, (n, n_classes), from values (n, c) of classes."""
    assert isinstance(coding, ClassCoding)
    return coding.margins(values)
