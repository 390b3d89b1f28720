"""A fitted function of a kernel: points, coefficients, and what its columns mean."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy import sparse

from ..errors import DataError, IntegrityError, require
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..kernels.base import Kernel, MercerKernel, kernel_from_dict
from ..kernels.gram import apply_blocks
from ..kernels.support import largest_diagonal, supported_values, values_with_support
from ..storage.blocks import Rows
from ..storage.csr import as_rows, point_arrays, points_of

Coding = Literal["one_vs_one", "one_vs_rest", "values"]
VERSION = 1
LEAST_SUPPORT = 1e-10  # below it a value is the intercept, to ten digits of the kernel


@dataclass(frozen=True, eq=False)
class KernelModel:
    """`f(x) = K(x, points) coef + intercept`, in a base kernel, so that prediction needs neither graph nor solve.

    points (m, d), an array or sparse rows, coef (m, c), intercept (c,).
    coding says what the c columns are: "one_vs_one" one a pair of classes (positive for the first), "one_vs_rest" one
    a class, "values" regression targets.
    classes (n_classes,): the labels, or empty for "values".
    """

    kernel: Kernel
    points: Any
    coef: np.ndarray
    intercept: np.ndarray
    coding: Coding
    classes: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)

    def values(self, X: Any, execution: Execution | None = None) -> np.ndarray:
        """Return f(X), shape (n, c), in blocks of rows; no more than a block of the kernel exists at a time.

        X is Rows, an array or a sparse matrix, whatever the model's points are.
        """
        rows = self._rows(X)
        if len(rows) == 0:
            return np.empty((0, len(self.intercept)))
        execution = execution or InProcess()
        return apply_blocks(self.kernel, rows, self.points, self.coef, execution).read_all() + self.intercept

    def support(self, X: Any, execution: Execution | None = None) -> np.ndarray:
        """Return the largest |K(x, z_j)| over the model's points, relative to its largest K(z_j, z_j), shape (n,).

        Where it is below `LEAST_SUPPORT` no point of the model is near: f(x) is the intercept alone, and the label
        that follows from it says nothing about x.
        """
        return self.values_with_support(X, execution)[1]

    def values_with_support(self, X: Any,
                            execution: Execution | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return f(X), shape (n, c), and `support(X)`, shape (n,), from the same blocks."""
        rows = self._rows(X)
        if len(rows) == 0:
            return np.empty((0, len(self.intercept))), np.empty(0)
        values, support = values_with_support(self.kernel, rows, self.points, self.coef, execution or InProcess())
        return values + self.intercept, support

    def block_values(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return f(X), shape (b, c), of one block of points, and which are beyond the support, (b,) bool."""
        values, largest = supported_values(self.kernel, X, self.points, self.coef)
        return values + self.intercept, largest < LEAST_SUPPORT * largest_diagonal(self.kernel, self.points)

    def _rows(self, X: Any) -> Rows:
        rows = as_rows(X)
        require(len(rows.shape) == 2 and rows.shape[1] == self.points.shape[1], error=DataError,
                what=f"X has shape {rows.shape}, the model was fitted on {self.points.shape[1]} features",
                why="a kernel compares equal features", fix="pass the features of the training data, in their order")
        return rows

    def scores(self, values: np.ndarray) -> np.ndarray:
        """Return one score a class (n, n_classes) from `values`; see `class_scores`."""
        return class_scores(values, self.coding, len(self.classes))

    def codes(self, values: np.ndarray) -> np.ndarray:
        """Return the predicted class numbers (n,) from `values`."""
        return np.argmax(self.scores(values), axis=1)

    def predict(self, X: Any, execution: Execution | None = None) -> np.ndarray:
        """Return the predicted labels (n,), or the values of regression (n,) or (n, c)."""
        return self.labels(self.values(X, execution))

    def labels(self, values: np.ndarray) -> np.ndarray:
        """Return the labels (n,) that `values` (n, c) stand for, or the values of regression (n,) or (n, c)."""
        if self.coding == "values":
            return values[:, 0] if values.shape[1] == 1 else values
        return self.classes[self.codes(values)]

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return named arrays and JSON attributes, read by `from_arrays`."""
        require(isinstance(self.kernel, MercerKernel), f"the kernel {self.kernel!r} cannot be stored",
                why="a function is code, and models hold numbers only", fix="use a kernel that has a name")
        kernel: MercerKernel = self.kernel  # type: ignore[assignment]
        return ({**point_arrays("points", self.points), "coef": self.coef, "intercept": self.intercept},
                {"type": "KernelModel", "version": VERSION, "kernel": kernel.to_dict(), "coding": self.coding,
                 "classes": self.classes.tolist(), **self.attributes})

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "KernelModel":
        """Return the model that `to_arrays` described.

        Raises
        ------
        IntegrityError : the attributes are of another noun or version.
        """
        require((attributes.get("type"), attributes.get("version")) == ("KernelModel", VERSION), error=IntegrityError,
                what=f"{attributes.get('type')} version {attributes.get('version')} is not a KernelModel",
                why=f"this dssl reads version {VERSION}", fix="fit the model again with this version")
        own = ("type", "version", "kernel", "coding", "classes")
        return cls(kernel_from_dict(attributes["kernel"]), points_of(arrays, "points"), arrays["coef"],
                   arrays["intercept"], attributes["coding"], np.array(attributes["classes"]),
                   {name: value for name, value in attributes.items() if name not in own})


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, in the order of the columns of "one_vs_one"."""
    return [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]


def class_scores(values: np.ndarray, coding: Coding, n_classes: int) -> np.ndarray:
    """Return one score a class (n, n_classes) from values (n, c); the predicted class has the largest.

    For "one_vs_one" the score is the number of pairs won, with the sum of margins, squeezed below 1/3, to part equal
    counts (as scikit-learn's SVC with break_ties).
    """
    if coding == "one_vs_rest":
        return values
    votes, margins = np.zeros((len(values), n_classes)), summed_margins(values, n_classes)
    for column, (i, j) in enumerate(class_pairs(n_classes)):
        first = values[:, column] > 0
        votes[first, i] += 1
        votes[~first, j] += 1
    return votes + margins / (3 * (np.abs(margins) + 1))


def summed_margins(values: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the sum of each class's margins over the others, (n, n_classes), from "one_vs_one" values (n, c)."""
    margins = np.zeros((len(values), n_classes))
    for column, (i, j) in enumerate(class_pairs(n_classes)):
        margins[:, i] += values[:, column]
        margins[:, j] -= values[:, column]
    return margins


def expand(kernel: Any, points: Any, coef: np.ndarray, intercept: np.ndarray, coding: Coding,
           classes: np.ndarray, attributes: dict[str, Any]) -> KernelModel:
    """Return the model `kernel(x, points) coef + intercept`, a deformed kernel rewritten in its base kernel."""
    if hasattr(kernel, "expansion"):
        kernel, points, coef = kernel.expansion(points, coef)
    points = points if sparse.issparse(points) else np.asarray(points)
    return KernelModel(kernel, points, coef, intercept, coding, classes, attributes)
