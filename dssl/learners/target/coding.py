"""The meaning of the columns of a model's values, and the predictions from them.

    OneVsOne    a column for each pair of classes, positive for the first
    OneVsRest   a column for each class, +1 for it and -1 for the others
    Scores      a column for each class, of any scale
    Values      the quantities themselves
    TagCoding   a column for each tag (several labels a point)
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from ...base.digest import JsonObject
from .encoding import UNLABELED

SEPARATORS = (";", "|", ",")  # of tags in text


@dataclass(frozen=True, eq=False)
class Coding(ABC):
    """classes (n_classes,) : the labels; empty for quantities."""

    name: ClassVar[str]
    written_as: ClassVar[str] = "label"  # the header of a column of predictions
    classes: np.ndarray = field(default_factory=lambda: np.empty(0))

    @abstractmethod
    def labels(self, values: np.ndarray) -> np.ndarray:
        """Return the predicted classes (n,), or quantities (n,) or (n, c), from values (n, c)."""

    @abstractmethod
    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        """Return the arrays (n,) that metrics need from values (n, c); `true` (n,) are codes or quantities."""

    @abstractmethod
    def residuals(self, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        """Return the residuals (n, c) of values as least squares defines them."""

    def all_columns(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return coef (s, c) and intercept (c,) of all columns from those of `Target.columns`."""
        return coef, intercept

    def unpredicted_classes(self, labels: np.ndarray) -> list[Any]:
        """Return the classes that do not occur among the predicted labels (n,)."""
        return self.classes[~np.isin(self.classes, labels)].tolist()

    def mask_labels(self, labels: np.ndarray, rejected: np.ndarray) -> np.ndarray:
        """Return labels or quantities (n,) with a marker at rejected points (n,) bool.

        The marker is NaN among floats, -1 among integers, and None where -1 is a class or classes are not numbers.
        """
        if not rejected.any():
            return labels
        if labels.dtype.kind != "f" and not self.can_mark_missing:
            labels = labels.astype(object)
        masked = labels.copy()
        masked[rejected] = {"O": None, "f": np.nan}.get(masked.dtype.kind, -1)
        return masked

    # Predictions in arrays and files

    def entries(self, values: np.ndarray) -> np.ndarray:
        """Return predictions as numbers: classes that are not numbers become codes."""
        return self.labels(values)

    @property
    def _are_numbers(self) -> bool:
        return self.classes.dtype.kind in "iufb"

    @property
    def entry_type(self) -> np.dtype:
        return self.classes.dtype if self._are_numbers and self.classes.dtype.kind != "b" else np.dtype(np.int64)

    @property
    def missing_entry(self) -> float | int:
        """Return the entry of a point without a prediction: NaN among floats, -1 among integers."""
        return np.nan if self.entry_type.kind == "f" else -1

    @property
    def can_mark_missing(self) -> bool:
        """Return whether an array of the type of the classes can mark points without a label."""
        return self.classes.dtype.kind == "i" and -1 not in self.classes

    @property
    def entry_names(self) -> list[str]:
        """Return the names of the codes in `entries`; empty where these are the classes themselves."""
        return [] if self._are_numbers else [str(name) for name in self.classes]

    @abstractmethod
    def summary(self, entries: np.ndarray) -> JsonObject:
        """Return the summary of a block of predictions, for `total`."""

    @abstractmethod
    def total(self, summaries: Sequence[JsonObject]) -> JsonObject:
        """Return the summary of all predictions: `counts` by class, or `values` with min, mean and max."""


class Values(Coding):
    """The columns are quantities."""

    name = "values"
    written_as = "value"
    can_mark_missing = True

    def labels(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if values.shape[1] == 1 else values

    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        return {"values": values[:, 0]}

    def residuals(self, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        return values - true.reshape(values.shape)

    def summary(self, entries: np.ndarray) -> JsonObject:
        if not entries.size:
            return {}
        return {"sum": float(entries.sum()), "min": float(entries.min()), "max": float(entries.max()),
                "count": int(entries.size)}

    def total(self, summaries: Sequence[JsonObject]) -> JsonObject:
        some = [part for part in summaries if part]
        if not some:
            return {"values": dict.fromkeys(("min", "mean", "max"))}
        return {"values": {"min": min(part["min"] for part in some), "max": max(part["max"] for part in some),
                           "mean": sum(part["sum"] for part in some) / sum(part["count"] for part in some)}}


class ClassCoding(Coding):
    """A coding of classes."""

    @abstractmethod
    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return a score for each class, (n, n_classes), from values (n, c); the predicted class has the largest."""

    @abstractmethod
    def decision(self, values: np.ndarray) -> np.ndarray:
        """Return the decision function as in scikit-learn: (n, n_classes), or (n,) for two classes."""

    @abstractmethod
    def margins(self, values: np.ndarray) -> np.ndarray:
        """Return the mean margin of each class over the others, (n, n_classes)."""

    @abstractmethod
    def min_margins(self, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return the smallest margin (n,) of the true class against another."""

    @abstractmethod
    def column_shift(self, offset: np.ndarray, n_columns: int) -> np.ndarray:
        """Return the shift of columns (n_columns,) that adds an offset (n_classes,) of sum 0 to the margins."""

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return the codes of the predicted classes, (n,)."""
        return np.argmax(self.scores(values), axis=1)

    def labels(self, values: np.ndarray) -> np.ndarray:
        return self.classes[self.codes(values)]

    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        return {"codes": self.codes(values)}

    def residuals(self, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        return values - signs(true, len(self.classes))[:, -values.shape[1]:]

    def entries(self, values: np.ndarray) -> np.ndarray:
        return self.labels(values).astype(self.entry_type, copy=False) if self._are_numbers else self.codes(values)

    def summary(self, entries: np.ndarray) -> JsonObject:
        codes = np.searchsorted(self.classes, entries) if self._are_numbers else entries
        return {"counts": np.bincount(codes, minlength=len(self.classes)).tolist()}

    def total(self, summaries: Sequence[JsonObject]) -> JsonObject:
        counts = np.sum([part["counts"] for part in summaries], axis=0) if summaries else []
        return {"counts": {str(name): int(count) for name, count in zip(self.classes, counts, strict=False) if count}}


class OneVsOne(ClassCoding):
    """A column for each pair of classes (`class_pairs`), positive for the first."""

    name = "one_vs_one"

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return the number of pairs won; the sum of margins breaks ties, as in scikit-learn's SVC with break_ties."""
        lead, margins = self._summed(np.where(values > 0, 1.0, -1.0)), self._summed(values)  # pairs won less those lost
        return (lead + len(self.classes) - 1) / 2 + margins / (3 * (np.abs(margins) + 1))

    def decision(self, values: np.ndarray) -> np.ndarray:
        return -values[:, 0] if len(self.classes) == 2 else self.scores(values)

    def margins(self, values: np.ndarray) -> np.ndarray:
        return self._summed(values) / len(self.classes)

    def min_margins(self, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        margins = np.full((len(codes), len(self.classes)), np.inf)
        for column, (i, j) in enumerate(class_pairs(len(self.classes))):
            first = codes == i
            second = codes == j
            margins[first, j] = values[first, column]
            margins[second, i] = -values[second, column]
        return margins.min(axis=1)

    def column_shift(self, offset: np.ndarray, n_columns: int) -> np.ndarray:
        return np.array([offset[i] - offset[j] for i, j in class_pairs(len(self.classes))])

    def _summed(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of each class's margins over the others, (n, n_classes)."""
        margins = np.zeros((len(values), len(self.classes)))
        for column, (i, j) in enumerate(class_pairs(len(self.classes))):
            margins[:, i] += values[:, column]
            margins[:, j] -= values[:, column]
        return margins


class OneVsRest(ClassCoding):
    """A column for each class, with targets +1 for it and -1 for the others; a single column is that of the second."""

    name = "one_vs_rest"

    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        """Return codes, and the mean squared residuals from the targets +1 and -1."""
        columns = values[:, -1:] if len(self.classes) == 2 else values
        return {"codes": self.codes(values), "code_errors": (self.residuals(columns, true)**2).mean(axis=1)}

    def all_columns(self, coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.scores(coef), self.scores(intercept[None])[0]

    def scores(self, values: np.ndarray) -> np.ndarray:
        return np.hstack([-values, values]) if values.shape[1] == 1 != len(self.classes) else values

    margins = scores

    def decision(self, values: np.ndarray) -> np.ndarray:
        return values[:, -1] if len(self.classes) == 2 else values

    def min_margins(self, values: np.ndarray, codes: np.ndarray) -> np.ndarray:
        scores = self.scores(values)
        margins = (np.take_along_axis(scores, codes[:, None], axis=1) - scores) / 2
        margins[np.arange(len(codes)), codes] = np.inf
        return margins.min(axis=1)

    def column_shift(self, offset: np.ndarray, n_columns: int) -> np.ndarray:
        return offset[-n_columns:]


class Scores(OneVsRest):
    """A column for each class, of which the largest predicts; for two classes one column, positive for the second.

    There may be only one class. The columns have any scale, so there are no residuals from +1 and -1.
    """

    name = "scores"

    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        return {"codes": self.codes(values)}


class TagCoding(Coding):
    """A column for each tag, positive where a point has it, NaN where nothing is known; classes : the tags."""

    name = "tags"
    written_as = "tags"
    can_mark_missing = True
    entry_type = np.dtype(np.int64)

    def labels(self, values: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(values), UNLABELED, values > 0).astype(np.int64)

    def decision(self, values: np.ndarray) -> np.ndarray:
        """Return the decision function, (n, c)."""
        return values

    margins = decision

    def predictions(self, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
        return {"codes": self.labels(values)}

    def texts(self, codes: np.ndarray) -> np.ndarray:
        """Return the tags of points with codes (n, c) as text, joined by `separator`, or as lists where there is none.

        It is the separator alone of a point without tags, or [], and masked of one of which no tag is known.
        """
        names = np.array([str(name) for name in self.classes], object)
        mark = self.separator
        texts = np.array([json.dumps(names[row == 1].tolist(), ensure_ascii=False) if mark is None else
                          mark.join(names[row == 1]) or mark for row in codes], str)
        return np.ma.masked_array(texts, (codes == UNLABELED).all(axis=1))

    @property
    def separator(self) -> str | None:
        """Return what separates tags in text: the first of `SEPARATORS` that is in no name, None if each is in one."""
        return next((mark for mark in SEPARATORS if not any(mark in str(name) for name in self.classes)), None)

    def residuals(self, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        return values - (2 * true - 1)

    def unpredicted_classes(self, labels: np.ndarray) -> list[Any]:
        return self.classes[~(labels == 1).any(axis=0)].tolist()

    @property
    def entry_names(self) -> list[str]:
        return [str(name) for name in self.classes]

    def summary(self, entries: np.ndarray) -> JsonObject:
        return {"counts": (entries == 1).sum(axis=0).tolist()}

    def total(self, summaries: Sequence[JsonObject]) -> JsonObject:
        counts = np.sum([part["counts"] for part in summaries], axis=0) if summaries else []
        return {"counts": {str(name): int(count) for name, count in zip(self.classes, counts, strict=False)}}


CODINGS: dict[str, type[Coding]] = {coding.name: coding
                                    for coding in (OneVsOne, OneVsRest, Scores, Values, TagCoding)}


def signs(codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return +1 for the class of each code (n,) and -1 for the others, (n, n_classes)."""
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, in the order of the columns of `OneVsOne`."""
    return list(combinations(range(n_classes), 2))


def margins_of(values: np.ndarray, coding: Coding) -> np.ndarray:
    """Return the mean margin of each class over the others, (n, n_classes), from values (n, c) of classes; or of tags.
    """
    assert isinstance(coding, ClassCoding | TagCoding)
    return coding.margins(values)
