"""Predictions in blocks of rows: the one task that evaluates fitted models, whatever is made of their values."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..execution.tasks import Execution, Progress
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges


@dataclass(frozen=True)
class SharedModels:
    """Models where every task finds them: arrays by name, `NAME.ARRAY`, and what makes a model of its own arrays."""

    arrays: Arrays
    makers: dict[str, Callable[[dict[str, np.ndarray]], Any]]

    def open(self, names: list[str] | None = None) -> dict[str, Any]:
        """Return all models by name, or those that are named."""
        arrays = self.arrays.load()
        return {name: self.makers[name]({key.removeprefix(f"{name}."): array for key, array in arrays.items()
                                         if key.startswith(f"{name}.")}) for name in names or self.makers}


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


def predict_blocks(rows: Rows, shared: SharedModels, output: Output, execution: Execution, parts: Parts,
                   progress: Progress | None = None) -> list[Receipt]:
    """Fill the output's arrays in `parts` for all rows, in blocks that fit the memory budget; return the receipts.

    Raises
    ------
    BudgetError : the models and one row do not fit.
    """
    models, held = shared.open(), shared.arrays.nbytes
    height = min((model.block_height(rows, execution.memory_budget, held) for model in models.values()),
                 default=1) if len(rows) else 1
    for name, (shape, dtype) in output.arrays(models).items():
        parts.allocate(name, (len(rows), *shape), dtype, height)
    tasks = [PredictTask(rows, shared, output, start, stop) for start, stop in row_ranges(len(rows), height)]
    return execution.map(tasks, parts, progress)
