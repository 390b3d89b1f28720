"""Survey of the columns of a file: the number of cells, their mean, the levels of text, and `Traits`.

Block step: count, sum, levels and `Traits` of each column of a block. Combine step: over all blocks, in their order.
Finish step: the columns that are left out (`findings`), and the `Columns` that make X. The mean fills missing cells
because it needs one pass and combines over blocks. Each sum is kept in two floats, about 106 bits, so that the mean is
correctly rounded for any blocks. (A median would need the values themselves.)
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numba import njit

from ..base.errors import DataError, column_label, explain, require
from ..base.types import is_sparse
from ..execution.tasks import Execution
from ..storage.blocks import Parts, PartWriter, Receipt
from .columns import EXAMPLES, Columns, cells_of, missing_text, spellings
from .readers.base import FEWEST_ROWS, Reader, RowBlock
from .readers.cells import MAX_LEVELS, Reading
from .traits import Traits


@dataclass
class Survey:
    """The survey of some rows; arrays have shape (d,).

    present : int64, number of cells that are not missing. high, low : float64; high + low is the sum of the finite
    cells. levels : by column of text, the number of cells with each text, sorted by text, of at most `MAX_LEVELS` + 1
    texts. first_missing : by column of text, the row of its first missing cell.
    """

    n_rows: int
    present: np.ndarray
    high: np.ndarray
    low: np.ndarray
    levels: dict[int, dict[str, int]] = field(default_factory=dict)
    first_missing: dict[int, int] = field(default_factory=dict)

    def chosen(self, columns: Sequence[int]) -> "Survey":
        """Return the survey of some of the columns."""
        new_number = {j: k for k, j in enumerate(columns)}
        levels = {new_number[j]: texts for j, texts in self.levels.items() if j in new_number}
        missing = {new_number[j]: row for j, row in self.first_missing.items() if j in new_number}
        numbers = list(columns)
        return Survey(self.n_rows, self.present[numbers], self.high[numbers], self.low[numbers], levels, missing)

    @classmethod
    def of(cls, X: RowBlock, first_row: int = 0, names: Sequence[str] | None = None,
           text: Collection[int] = ()) -> "Survey":
        """Return the survey of a block: an ndarray or csr_array of float64, or a DataFrame.

        first_row : number of its first row. text : columns that are text even if all cells of the block are missing.
        """
        n, d = X.shape
        survey = cls(n, np.full(d, n), np.zeros(d), np.zeros(d))
        sums = survey.present, survey.high, survey.low
        if is_sparse(X):
            _add_entries(X.indices, np.asarray(X.data, np.float64), *sums)
        elif not isinstance(X, pd.DataFrame):
            _add_rows(np.ascontiguousarray(X, np.float64), *sums)
        else:
            for j in range(d):
                cells = cells_of(X.iloc[:, j], column_label(names, j))
                if j in text and cells.dtype != object:
                    cells = np.full(n, None, object)
                if cells.dtype != object:
                    _add_entries(np.full(n, j), cells, *sums)
                    continue
                missing = pd.isna(cells)
                survey.present[j] -= missing.sum()
                survey.levels[j] = _first_levels(Counter(cells[~missing]))
                if missing.any():
                    survey.first_missing[j] = first_row + int(np.argmax(missing))
        return survey

    def merge(self, other: "Survey") -> "Survey":
        """Return the survey of the rows of both; those of `other` come after these."""
        with np.errstate(over="ignore", invalid="ignore"):  # choose_columns refuses what is not finite
            high, error = two_sum(self.high, other.high)
            high, low = two_sum(high, error + self.low + other.low)
        levels = {j: _first_levels(Counter(self.levels.get(j, {})) + Counter(other.levels.get(j, {})))
                  for j in {*self.levels, *other.levels}}
        return Survey(self.n_rows + other.n_rows, self.present + other.present, high, low, levels,
                      {**other.first_missing, **self.first_missing})


def _first_levels(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items())[:MAX_LEVELS + 1])


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the rounded sum of numbers or arrays, and its exact rounding error (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


_two_sum = njit(nogil=True, cache=True)(two_sum)


@njit(nogil=True, cache=True)
def _add_entries(columns, values, present, high, low):
    """Add values to the sums of their columns; subtract missing ones, which are NaN, from the number of cells."""
    for k in range(len(values)):
        j = columns[k]
        value = values[k]
        if np.isnan(value):
            present[j] -= 1
        elif np.isfinite(value):
            high[j], error = _two_sum(high[j], value)
            low[j] += error


@njit(nogil=True, cache=True)
def _add_rows(X, present, high, low):
    columns = np.arange(X.shape[1])
    for i in range(X.shape[0]):
        _add_entries(columns, X[i], present, high, low)


def choose_columns(survey: Survey, names: Sequence[str] | None, source: str, *, impute: bool,
                   readings: Mapping[int, Reading] | None = None) -> Columns:
    """Return the encoding of the columns of a whole file; readings : of columns of yes and no, or with a unit."""
    d = len(survey.present)
    empty = [column_label(names, j) for j in np.flatnonzero(survey.present == 0).tolist()]
    require(not (impute and empty), f"{source}: all cells of {', '.join(empty[:EXAMPLES])} are missing",
            why="they are filled with the mean of the column", fix="leave it out (CSV: `drop:`)", error=DataError)
    levels: dict[int, tuple[str | None, ...]] = {}
    for j in sorted(survey.levels):
        texts = spellings(survey.levels[j])
        missing = survey.n_rows - int(survey.present[j])
        if len(survey.levels[j]) > MAX_LEVELS:
            raise DataError(explain(
                f"{source}: {column_label(names, j)} has more than {MAX_LEVELS:,} different texts, for example "
                f"{', '.join(map(repr, texts[:3]))}",
                why="it looks like an identifier, and a column for each text would mark every single row",
                fix="leave it out (CSV: `drop:`), or join its rare texts into one"))
        if len(texts) == int(survey.present[j]) >= FEWEST_ROWS:
            raise DataError(explain(
                f"{source}: {column_label(names, j)} is text without a repeated value, such as "
                f"{', '.join(map(repr, texts[:3]))}",
                why="it is not a category: a column for each text would mark every single row",
                fix="leave it out (CSV: `drop:`), or convert it to numbers, and dates to days"))
        if missing and not impute:
            raise missing_text(f"{source}: {column_label(names, j)}", missing, survey.first_missing[j])
        levels[j] = (*texts, None) if missing else (*texts,)
    fill = None
    if impute:
        with np.errstate(over="ignore", invalid="ignore"):
            fill = (survey.high + survey.low) / np.maximum(survey.present, 1)
        fill[list(levels)] = np.nan
        too_large = [j for j in np.flatnonzero(~np.isfinite(fill)).tolist() if j not in levels]
        label = column_label(names, too_large[0]) if too_large else ""
        require(not too_large, f"{source}: the sum of the cells of {label} exceeds float64", error=DataError,
                why="missing cells are filled with their mean", fix="rescale the column, or leave it out")
    imputed = survey.n_rows - survey.present if impute else np.zeros(d, np.int64)
    return Columns(tuple(names) if names else None, d, fill, levels, np.asarray(imputed, np.int64),
                   dict(readings or {}))


@dataclass(frozen=True)
class SurveyTask:
    """Survey the columns of one block of rows, and write the result to the block's part."""

    reader: Reader
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.reader.read(self.start, self.stop)
        scan = self.reader.scan()
        survey = Survey.of(block.X, self.start, scan.feature_names, scan.text)
        receipt = {"rows": survey.n_rows, "levels": [[j, list(counts.items())] for j, counts in survey.levels.items()],
                   "first_missing": list(survey.first_missing.items())}
        arrays = {"present": survey.present, "high": survey.high, "low": survey.low}
        traits = Traits.of(block.X, block.y, start=self.start, total=scan.n_rows, names=scan.feature_names)
        if traits is not None:
            more, receipt["traits"] = traits.to_arrays()
            arrays |= more
        out.write(**arrays)
        return receipt


def survey_file(reader: Reader, ranges: Sequence[tuple[int, int]], execution: Execution,
                parts: Parts) -> tuple[Survey, Traits | None]:
    """Return the survey and the traits of the columns of a file, from one pass over its blocks."""
    tasks = [SurveyTask(reader.narrow(start, stop), start, stop) for start, stop in ranges]
    blocks = _surveys(tasks, execution, parts)
    whole, traits = blocks[0]
    for block, more in blocks[1:]:
        whole = whole.merge(block)
        traits = None if traits is None or more is None else traits.merge(more)
    return whole, traits


def _surveys(tasks: Sequence[SurveyTask], execution: Execution, parts: Parts) -> list[tuple[Survey, Traits | None]]:
    surveys = []
    for i, receipt in enumerate(execution.map(tasks, parts)):
        arrays = parts.read(i)
        survey = Survey(receipt["rows"], arrays["present"], arrays["high"], arrays["low"],
                        {j: dict(counts) for j, counts in receipt["levels"]}, dict(receipt["first_missing"]))
        described = receipt.get("traits")
        surveys.append((survey, None if described is None else Traits.from_arrays(arrays, described)))
    return surveys
