"""Fitted models: what every one can do, the task that evaluates them in blocks, the registry that opens stored ones.

A model of another kind is a subclass of `Model` that is registered under the type that its attributes name:

    register_model("NearestLabel", NearestLabel)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..base.errors import DataError, IntegrityError, require
from ..base.plugins import load_plugins
from ..execution.cost import Cost, block_count, cost_of, kernel_seconds
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..kernels.base import Kernel
from ..kernels.gram import BLOCK_BYTES, block_rows
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges, rows_that_fit
from ..storage.csr import as_rows
from .target.coding import CODINGS, Coding


@dataclass(frozen=True)
class SharedModels:
    """Models where every task finds them: arrays by name, `NAME.ARRAY`, and what makes a model of its own arrays."""

    arrays: Arrays
    makers: dict[str, Callable[[dict[str, np.ndarray]], Any]]

    def open(self) -> dict[str, Any]:
        """Return all models by name."""
        arrays = self.arrays.load()
        return {name: make({key.removeprefix(f"{name}."): array for key, array in arrays.items()
                            if key.startswith(f"{name}.")}) for name, make in self.makers.items()}


class Output(ABC):
    """What is made of the values of models: shared arrays that tasks fill by rows, and receipts."""

    @abstractmethod
    def arrays(self, models: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Return (shape of a row, type) of each array by name."""

    @abstractmethod
    def __call__(self, models: Mapping[str, Any], X: Any, start: int) -> tuple[dict[str, np.ndarray], Receipt]:
        """Return the rows of the arrays for a block X of points, the first of number `start`, and what to report."""


@dataclass(frozen=True)
class PredictTask:
    """Write what an output makes of the models' values on rows [start, stop)."""

    rows: Rows
    models: SharedModels
    output: Output
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays, receipt = self.output(self.models.open(), self.rows.read(self.start, self.stop), self.start)
        return {**out.write_rows(self.start, **arrays), **receipt}


def withheld_rows(empty: np.ndarray, far: Rows | None, start: int) -> np.ndarray:
    """Return which points of a block from `start` on get no prediction: those of `empty` (b,), and of `far` (n,)."""
    return empty if far is None else empty | far.read(start, start + len(empty))


def predict_blocks(rows: Rows, shared: SharedModels, output: Output, execution: Execution,
                   parts: Parts) -> list[Receipt]:
    """Fill the output's arrays in `parts` for all rows, in blocks that fit the memory budget; return the receipts.

    Raises BudgetError if the models and one row do not fit.
    """
    models, held = shared.open(), shared.arrays.nbytes
    height = min((model.block_height(rows, execution.memory_budget, held) for model in models.values()),
                 default=1) if len(rows) else 1
    for name, (shape, dtype) in output.arrays(models).items():
        parts.allocate(name, (len(rows), *shape), dtype, height)
    tasks = [PredictTask(rows, shared, output, start, stop) for start, stop in row_ranges(len(rows), height)]
    return execution.map(tasks, parts)


def predict_cost(kernel: Kernel, test: Rows, row_bytes: int, m: int, n_models: int, n_columns: int, predicted: int,
                 budget: int) -> Cost:
    """Return what predicting test points with models of m points takes.

    A block of the kernel between test points and the points of a model, and all models; what they predict.

    test : dense rows of their shape and dtype, which are not read; in truth they have `row_bytes` each.
    n_columns : of a model. predicted : bytes that are written a point; codes or values are 8, one-vs-rest models write
        their differences from the codes too.
    """
    n, d = test.shape
    held = n_models * m * (row_bytes + 8 * n_columns)
    height = block_rows(kernel, test, m, budget, kernel_bytes=held)
    return cost_of(block_count(n, height), n * row_bytes + held, n * (predicted + 1) * n_models,
                   min(height, n) * (8 * m + 16 * d + row_bytes) + 24 * m * d + held, 24 * m * d + held,
                   kernel_seconds(float(n) * m * n_models, d))


class Model(ABC):
    """A fitted function of points, whose values (n, c) say what their `coding` says.

    coding : what the c columns mean. attributes : JSON, what is known of the fit.
    abstains : whether a point that the model says nothing about is never given a class.
    """

    coding: Coding
    attributes: dict[str, Any]
    abstains: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Return the features of a point."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Return c."""

    @abstractmethod
    def block_values(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (b, c) of a block of points, and which of these the model says nothing about, (b,) bool."""

    @abstractmethod
    def block_support(self, X: Any) -> np.ndarray:
        """Return how near the points of a block are to what the model has seen, (b,), 1 among it and 0 far away."""

    @abstractmethod
    def row_bytes(self, rows: Rows) -> int:
        """Return the bytes that a row takes while it is predicted."""

    def fixed_bytes(self, rows: Rows) -> int:
        """Return the bytes that a block takes beside its rows and the model's arrays."""
        return 0

    @abstractmethod
    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return named arrays and JSON attributes with the `type` that the model is registered by."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "Model":
        """Return the model that `to_arrays` described; raise IntegrityError if they are of another noun or version."""

    def checked(self, X: Any) -> Rows:
        """Return points as rows; raise DataError unless they have the features that the model was fitted on."""
        rows = as_rows(X)
        require(len(rows.shape) == 2 and rows.shape[1] == self.n_features, error=DataError,
                what=f"X has shape {rows.shape}, the model was fitted on {self.n_features} features",
                why="a model compares equal features", fix="pass the features of the training data, in their order")
        return rows

    def block_height(self, rows: Rows, budget: int, beside: int = 0) -> int:
        """Return how many rows are predicted at a time where `beside` bytes, such as the model's, are held.

        Raises BudgetError if not even one row fits.
        """
        each = self.row_bytes(rows)
        fit = rows_that_fit(budget, each, len(rows), fixed_bytes=self.fixed_bytes(rows) + beside)
        return min(fit, max(1, BLOCK_BYTES // each))

    def shared(self, execution: Execution) -> SharedModels:
        """Return the model as tasks find it."""
        arrays, attributes = self.to_arrays()
        return SharedModels(execution.share(**{f"model.{key}": array for key, array in arrays.items()}),
                            {"model": partial(type(self).from_arrays, attributes=attributes)})

    def values(self, X: Any, execution: Execution | None = None) -> np.ndarray:
        """Return the values (n, c) of points, Rows, an array or a sparse matrix, in blocks of rows."""
        return self.values_and_beyond(X, execution)[0]

    def values_and_beyond(self, X: Any, execution: Execution | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (n, c), and which points the model says nothing about, (n,) bool, from the same blocks."""
        parts = self.predicted(X, BlockValues(), execution)
        return parts.rows("values").read_all(), parts.rows("beyond").read_all()

    def support(self, X: Any, execution: Execution | None = None) -> np.ndarray:
        """Return how near each point is to what the model has seen, (n,); each type of model says in which measure."""
        return self.predicted(X, BlockSupport(), execution).rows("support").read_all()

    def predicted(self, X: Any, output: Output, execution: Execution | None = None,
                  parts: Parts | None = None) -> Parts:
        """Return where the arrays lie that an output makes of the values of all points: `parts`, or scratch."""
        rows, execution = self.checked(X), execution or InProcess()
        parts = execution.scratch() if parts is None else parts
        predict_blocks(rows, self.shared(execution), output, execution, parts)
        return parts

    def predict(self, X: Any, execution: Execution | None = None) -> np.ndarray:
        """Return the predicted classes (n,), or quantities (n,) or (n, c)."""
        return self.coding.labels(self.values(X, execution))


@dataclass(frozen=True)
class BlockValues(Output):
    """The values of one model, and which points are beyond what it knows."""

    def arrays(self, models: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], Any]]:
        model, = models.values()
        return {"values": ((model.n_columns,), np.float64), "beyond": ((), bool)}

    def __call__(self, models: Mapping[str, Any], X: Any, start: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        model, = models.values()
        values, beyond = model.block_values(X)
        return {"values": values, "beyond": beyond}, {}


@dataclass(frozen=True)
class BlockSupport(Output):
    """The support of points in one model."""

    def arrays(self, models: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], Any]]:
        return {"support": ((), np.float64)}

    def __call__(self, models: Mapping[str, Any], X: Any, start: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        model, = models.values()
        return {"support": model.block_support(X)}, {}


def described_model(attributes: dict[str, Any], kind: str, version: int, private: Sequence[str] = ()) -> dict[str, Any]:
    """Return what is known of the fit of a stored model: its attributes but type, version, coding and `own`.

    Raises IntegrityError if they are of another noun or version.
    """
    require((attributes.get("type"), attributes.get("version")) == (kind, version), error=IntegrityError,
            what=f"{attributes.get('type')} version {attributes.get('version')} is not a {kind}",
            why=f"this dssl reads version {version}", fix="fit the model again with this version")
    return {name: value for name, value in attributes.items()
            if name not in ("type", "version", "coding", "classes", *private)}


def coding_of(attributes: dict[str, Any]) -> Coding:
    """Return what the columns of a stored model mean."""
    return CODINGS[attributes["coding"]](np.array(attributes["classes"]))


MODELS: dict[str, type[Model]] = {}


def register_model(type_name: str, model: type[Model]) -> None:
    """Have stored models of this type be opened by `model.from_arrays`."""
    MODELS[type_name] = model


def model_type(attributes: dict[str, Any]) -> type[Model]:
    """Return the class of a stored model; raise IntegrityError if no module that is loaded, nor a plugin, has it."""
    name = attributes.get("type")
    if name not in MODELS:
        load_plugins()
    require(name in MODELS, f"no model is of type {name!r}", why=f"the types are {', '.join(sorted(MODELS))}",
            fix="install the package that registers it, or fit the model again with this version", error=IntegrityError)
    return MODELS[str(name)]


def stored_models(parts: Parts, described: dict[str, dict[str, Any]]) -> SharedModels:
    """Return the models that lie in part 0 as `NAME.ARRAY`, with their attributes by name."""
    return SharedModels(parts.arrays(0), {name: partial(model_type(attributes).from_arrays, attributes=attributes)
                                          for name, attributes in described.items()})
