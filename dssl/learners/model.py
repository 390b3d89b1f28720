"""The interface of fitted models, the task that evaluates them in blocks, and the registry that opens stored ones.

To add a kind of model, write a subclass of `Model` and register it under the `type` in its attributes:

    register_model("NearestLabel", NearestLabel)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ..base.digest import JsonObject
from ..base.errors import DataError, IntegrityError, require
from ..base.plugins import load_plugins
from ..base.types import Matrix
from ..execution.cost import Cost, block_count, cost_of, kernel_seconds
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..kernels.base import Kernel
from ..kernels.gram import BLOCK_BYTES, block_row_bytes, held_points_bytes
from ..knn.index import NeighborIndex
from ..knn.metric import sample_ids
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges, rows_that_fit
from ..storage.csr import as_rows
from .target.coding import CODINGS, Coding

Nearest = tuple[np.ndarray, np.ndarray]  # distances and ids (b, k) of the nearest vertices


@dataclass(frozen=True)
class SharedModels:
    """Models for tasks: arrays named `NAME.ARRAY`, and for each model the function that makes it from its arrays."""

    arrays: Arrays
    makers: dict[str, Callable[[dict[str, np.ndarray]], "Model"]]

    def open(self) -> dict[str, "Model"]:
        """Return all models by name."""
        arrays = self.arrays.load()
        return {name: make({key.removeprefix(f"{name}."): array for key, array in arrays.items()
                            if key.startswith(f"{name}.")}) for name, make in self.makers.items()}


class Output(ABC):
    """Arrays with a row for each point, computed from the values of models in blocks, and a receipt for each block."""

    @abstractmethod
    def arrays(self, models: Mapping[str, "Model"]) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
        """Return (shape of a row, type) of each array by name."""

    @abstractmethod
    def __call__(self, models: Mapping[str, "Model"], X: Matrix, start: int) -> tuple[dict[str, np.ndarray], Receipt]:
        """Return the rows of the arrays for a block X of points, of which `start` is the first, and the receipt."""


@dataclass(frozen=True)
class PredictTask:
    """Write an output of models on rows [start, stop)."""

    rows: Rows
    models: SharedModels
    output: Output
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays, receipt = self.output(self.models.open(), self.rows.read(self.start, self.stop), self.start)
        return {**out.write_rows(self.start, **arrays), **receipt}


def rejected_rows(unsupported: np.ndarray, outliers: Rows | None, start: int) -> np.ndarray:
    """Return which points of a block from `start` on get no prediction, from `unsupported` (b,) and `outliers` (n,)."""
    return unsupported if outliers is None else unsupported | outliers.read(start, start + len(unsupported))


def predict_blocks(rows: Rows, shared: SharedModels, output: Output, execution: Execution,
                   parts: Parts) -> list[Receipt]:
    """Fill the output's arrays in `parts` for all rows, in blocks that fit the memory budget; return the receipts.

    Raises BudgetError if the models and one row do not fit.
    """
    models, model_bytes = shared.open(), shared.arrays.nbytes
    height = min((model.block_height(rows, execution.memory_budget, model_bytes) for model in models.values()),
                 default=1) if len(rows) else 1
    for name, (shape, dtype) in output.arrays(models).items():
        parts.allocate(name, (len(rows), *shape), dtype, height)
    tasks = [PredictTask(rows, shared, output, start, stop) for start, stop in row_ranges(len(rows), height)]
    return execution.map(tasks, parts)


def block_height(each: int, n: int, budget: int, fixed_bytes: int) -> int:
    """Return how many of n rows of `each` bytes are predicted at a time beside other bytes; BudgetError if not one."""
    return min(rows_that_fit(budget, each, n, fixed_bytes=fixed_bytes), max(1, BLOCK_BYTES // each))


def predict_cost(kernel: Kernel, test: Rows, row_bytes: int, m: int, n_models: int, n_columns: int, predicted: int,
                 budget: int, beside: int = 0, maps: int = 0) -> Cost:
    """Return the cost of predicting test points with models of m points: the models, and a block of the kernel.

    test : dense rows of the right shape and dtype, which are not read. row_bytes : of a stored row. n_columns : of a
    model. predicted : bytes written a point, 8 for codes or values; one-vs-rest models also write their residuals.
    beside : bytes of a point in feature maps of its kernel block. maps : bytes of these feature maps.
    """
    n, d = test.shape
    model_bytes = n_models * m * (row_bytes + 8 * n_columns) + maps
    height = block_height(block_row_bytes(kernel, test, m) + beside, n, budget,
                          held_points_bytes(test, m) + model_bytes)
    return cost_of(block_count(n, height), n * row_bytes + model_bytes, n * (predicted + 1) * n_models,
                   min(height, n) * (8 * m + 16 * d + row_bytes + beside) + 24 * m * d + model_bytes,
                   24 * m * d + model_bytes,
                   kernel_seconds(float(n) * m * n_models, d))


class Model(ABC):
    """A fitted function of points with values (n, c).

    coding : the meaning of the c columns. attributes : of the fit. rejects : whether unsupported points, about which
    the model has no information, never get a class.
    """

    coding: Coding
    attributes: JsonObject
    rejects: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Return the number of features of a point."""

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Return c."""

    @abstractmethod
    def block_values(self, X: Matrix) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (b, c) of a block of points, and which of these are unsupported, (b,) bool."""

    @abstractmethod
    def block_support(self, X: Matrix) -> np.ndarray:
        """Return the support (b,) of a block of points, 1 near the training points and 0 far away."""

    @abstractmethod
    def row_bytes(self, rows: Rows) -> int:
        """Return the bytes for each row of a block."""

    @property
    def on_graph(self) -> "SearchingModel | None":
        """Return the part of the model that searches the nearest vertices of a graph; None where none does."""
        return None

    def with_index(self, index: NeighborIndex, scales: np.ndarray) -> "Model":
        """Return the model with an equal index, and equal scales of its vertices, in that part."""
        return self

    def block_values_near(self, X: Matrix, nearest: Nearest) -> tuple[np.ndarray, np.ndarray]:
        """Return `block_values`; nearest : what the part on a graph would find."""
        return self.block_values(X)

    def fixed_bytes(self, rows: Rows) -> int:
        """Return the bytes of a block beside its rows and the model's arrays."""
        return 0

    @abstractmethod
    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        """Return named arrays, and attributes with the `type` under which the model is registered."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "Model":
        """Return the model of `to_arrays`; raise IntegrityError for another type or version."""

    @classmethod
    def maker(cls, attributes: JsonObject) -> Callable[[dict[str, np.ndarray]], "Model"]:
        """Return what makes the model of its arrays in any process, also one that knows no other type of model."""
        return partial(cls.from_arrays, attributes=attributes)

    def checked(self, X: Rows | Matrix) -> Rows:
        """Return points as rows; raise DataError unless they have the features that the model was fitted on."""
        rows = as_rows(X)
        require(len(rows.shape) == 2 and rows.shape[1] == self.n_features, error=DataError,
                what=f"X has shape {rows.shape}, the model was fitted on {self.n_features} features",
                why="a model compares equal features", fix="pass the features of the training data, in their order")
        return rows

    def block_height(self, rows: Rows, budget: int, beside: int = 0) -> int:
        """Return the rows of a block beside `beside` other bytes; raise BudgetError if not even one fits."""
        return block_height(self.row_bytes(rows), len(rows), budget, self.fixed_bytes(rows) + beside)

    def shared(self, execution: Execution) -> SharedModels:
        """Return the model for tasks."""
        arrays, attributes = self.to_arrays()
        return SharedModels(execution.share(**{f"model.{key}": array for key, array in arrays.items()}),
                            {"model": self.maker(attributes)})

    def values(self, X: Rows | Matrix, execution: Execution | None = None) -> np.ndarray:
        """Return the values (n, c) of points, Rows, an array or a sparse matrix, in blocks of rows."""
        return self.values_and_unsupported(X, execution)[0]

    def values_and_unsupported(self, X: Rows | Matrix,
                               execution: Execution | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (n, c), and which points are unsupported, (n,) bool."""
        parts = self.predicted(X, BlockValues(), execution)
        return parts.rows("values").read_all(), parts.rows("unsupported").read_all()

    def support(self, X: Rows | Matrix, execution: Execution | None = None) -> np.ndarray:
        """Return the support (n,) of points, see `block_support` of each type of model."""
        return self.predicted(X, BlockSupport(), execution).rows("support").read_all()

    def predicted(self, X: Rows | Matrix, output: Output, execution: Execution | None = None,
                  parts: Parts | None = None) -> Parts:
        """Return the parts, scratch by default, with the arrays of an output for all points."""
        rows, execution = self.checked(X), execution or InProcess()
        parts = execution.scratch() if parts is None else parts
        predict_blocks(rows, self.shared(execution), output, execution, parts)
        return parts

    def predict(self, X: Rows | Matrix, execution: Execution | None = None) -> np.ndarray:
        """Return the predicted classes (n,), or quantities (n,) or (n, c)."""
        return self.coding.labels(self.values(X, execution))


class SearchingModel(Model):
    """A model whose values follow from the k nearest of the vertices in an index, of which scales (v,) are known."""

    index: NeighborIndex
    scales: np.ndarray
    k: int


@dataclass(frozen=True)
class BlockValues(Output):
    """The values of one model, and which points are unsupported."""

    def arrays(self, models: Mapping[str, Model]) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
        model, = models.values()
        return {"values": ((model.n_columns,), np.float64), "unsupported": ((), bool)}

    def __call__(self, models: Mapping[str, Model], X: Matrix, start: int) -> tuple[dict[str, np.ndarray], Receipt]:
        model, = models.values()
        values, unsupported = model.block_values(X)
        return {"values": values, "unsupported": unsupported}, {}


@dataclass(frozen=True)
class BlockSupport(Output):
    """The support of points in one model."""

    def arrays(self, models: Mapping[str, Model]) -> dict[str, tuple[tuple[int, ...], DTypeLike]]:
        return {"support": ((), np.float64)}

    def __call__(self, models: Mapping[str, Model], X: Matrix, start: int) -> tuple[dict[str, np.ndarray], Receipt]:
        model, = models.values()
        return {"support": model.block_support(X)}, {}


def fit_attributes(attributes: JsonObject, kind: str, version: int, private: Sequence[str] = ()) -> JsonObject:
    """Return the attributes of the fit of a stored model: all but type, version, coding and `private` ones.

    Raises IntegrityError for another type or version.
    """
    require((attributes.get("type"), attributes.get("version")) == (kind, version), error=IntegrityError,
            what=f"{attributes.get('type')} version {attributes.get('version')} is not a {kind}",
            why=f"this dssl reads version {version}", fix="fit the model again with this version")
    return {name: value for name, value in attributes.items()
            if name not in ("type", "version", "coding", "classes", *private)}


def coding_of(attributes: JsonObject) -> Coding:
    """Return the coding that attributes name, of a stored model or of predictions."""
    return CODINGS[attributes["coding"]](np.array(attributes["classes"]))


MODELS: dict[str, type[Model]] = {}


SPACED = 1000  # points whose margins give the slope of probabilities where no label is held out


def spaced_values(model: Model, rows: Rows) -> np.ndarray:
    """Return the values (s, c) of a model at `SPACED` evenly spaced rows (n, d), or at all if there are fewer."""
    return model.values(rows.take(sample_ids(len(rows), SPACED)))


def register_model(type_name: str, model: type[Model]) -> None:
    """Open stored models of this type with `model.from_arrays`."""
    MODELS[type_name] = model


def model_type(attributes: JsonObject) -> type[Model]:
    """Return the class of a stored model; raise IntegrityError if it is not registered."""
    name = attributes.get("type")
    if name not in MODELS:
        load_plugins()
    require(name in MODELS, f"no model is of type {name!r}", why=f"the types are {', '.join(sorted(MODELS))}",
            fix="install the package that registers it, or fit the model again with this version", error=IntegrityError)
    return MODELS[str(name)]


def stored_models(parts: Parts, described: dict[str, JsonObject]) -> SharedModels:
    """Return the models whose arrays are stored in part 0 as `NAME.ARRAY`; described : their attributes by name."""
    return SharedModels(parts.arrays(0), {name: model_type(attributes).maker(attributes)
                                          for name, attributes in described.items()})
