"""Find text and missing cells in columns of numbers, and report all of them in one error.

Block step: count both for each column, and keep a few examples with their rows. Combine step: add the counts, in the
order of the blocks. Finish step: the error, with the options that help.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from ..base.errors import DataError, column_label, explain
from ..execution.tasks import Execution
from ..storage.blocks import Parts, PartWriter, Receipt
from .readers.base import CellError, Reader, RowBlock
from .readers.cell_text import TRUTH_WORDS, is_number
from .readers.cells import EXAMPLES, Cells

MAX_LISTED = 20  # columns
NO_DISTANCE = "features are numbers; text and missing cells have no distance"
YES_OR_NO = "yes or no"
ODD = 0.1  # share of the rows up to which texts among numbers may mark missing cells


def cells_in(X: RowBlock, first_row: int = 0,
             odd: Mapping[int, Sequence[tuple[int, str]]] | None = None) -> dict[int, Cells]:
    """Return the cells of a block that are not numbers, by column; none of sparse rows.

    X : ndarray, or DataFrame of numbers and text; a missing cell is None or NaN. first_row : number of its first row.
    odd : text among the numbers of a column, by column; these cells are NaN in X.
    """
    if sparse.issparse(X):
        return {}
    cells_of = {}
    for j in range(X.shape[1]):
        cells = X.iloc[:, j].to_numpy() if isinstance(X, pd.DataFrame) else X[:, j]
        missing = np.asarray(pd.isna(cells), bool)
        texts = [(i, str(cells[i])) for i in np.flatnonzero(~missing).tolist() if not _is_number(cells[i])] \
            if cells.dtype == object else list((odd or {}).get(j, ()))
        if cells.dtype != object:
            missing[[row for row, _ in texts]] = False
        if texts or missing.any():
            cells_of[j] = Cells(len(texts), _first_examples(texts, first_row), int(missing.sum()),
                             first_row + int(np.argmax(missing)) if missing.any() else -1)
    return cells_of


def _is_number(cell: object) -> bool:
    return not isinstance(cell, str) or cell.strip().lower() in TRUTH_WORDS[0] or is_number(cell)


def _first_examples(cells: Sequence[tuple[int, str]], first_row: int) -> tuple[tuple[int, str], ...]:
    """Return the first few distinct texts with their rows."""
    first: dict[str, int] = {}
    for row, text in cells:
        if len(first) == EXAMPLES:
            break
        first.setdefault(text, first_row + row)
    return tuple((row, text) for text, row in first.items())


@dataclass(frozen=True)
class CellsTask:
    """Find the cells of one block of rows that are not numbers."""

    reader: Reader
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.reader.read(self.start, self.stop)
        cells_of = cells_in(block.X, self.start, block.odd)
        return {"cells": [[j, cells.texts, [list(example) for example in cells.examples], cells.missing,
                           cells.first_missing]
                          for j, cells in cells_of.items()]}


def refused_cells(reader: Reader, ranges: Sequence[tuple[int, int]], source: str, execution: Execution, parts: Parts, *,
                  takes_text: bool, fills: bool, is_new: bool, has_keys: bool = True) -> DataError | None:
    """Return the error for all cells of a table that cannot be used; None if there are none.

    reader : one that accepts text. takes_text : whether columns of text are allowed. fills : whether missing cells are
    filled. is_new : whether other rows have decided what the columns are. has_keys : whether identifiers are left out.
    """
    tasks = [CellsTask(reader.narrow(start, stop), start, stop) for start, stop in ranges]
    whole: dict[int, Cells] = {}
    for receipt in execution.map(tasks, parts):
        for j, texts, examples, missing, first in receipt["cells"]:
            share = Cells(texts, tuple((row, text) for row, text in examples), missing, first)
            whole[j] = whole[j].merge(share) if j in whole else share
    scan = reader.scan()
    refused = {}
    for j, cells in whole.items():
        share = cells.refused(texts=not takes_text or j not in scan.text, missing=not fills)
        if share.texts or share.missing:
            refused[j] = share
    # Text without a repeated value is most likely an identifier, and left out.
    refused = {j: cells for j, cells in refused.items() if not (has_keys and not is_new and j in scan.keys)} or refused
    if not refused:
        return None
    rows = sorted({row for cells in refused.values() for row in (
        *(row for row, _ in cells.shown), *([cells.first_missing] if cells.missing else []))})
    row_names = dict(zip(rows, reader.places(rows), strict=True))
    expected = {j: YES_OR_NO if reading.kind == "truth" else f"numbers in {reading.unit!r}"
                for j, reading in scan.readings.items()}
    return cells_error(refused, scan.n_rows, source, scan.feature_names, row_names, can_drop="drop" in reader.options,
                      is_new=is_new, expected=expected)


def cells_error(refused: dict[int, Cells], n_rows: int, source: str, names: Sequence[str] | None,
               row_names: Mapping[int, str], *, can_drop: bool, is_new: bool,
               expected: Mapping[int, str] | None = None) -> CellError:
    """Return the error for cells of a source that are not numbers, by column.

    row_names : the position of rows in words. is_new : whether other rows have decided what the columns are.
    expected : by column, what its cells must be, unless it takes any numbers.
    """
    what = _described(refused, n_rows, source, names, row_names, expected or {})
    if is_new:
        mark = "" if (expected or {}).keys() & refused.keys() else _decimal_mark(refused)
        if mark:
            return CellError(explain(what, why="they are numbers with another decimal mark than in the training data",
                                     fix=f"name the mark of the new rows: --read 'decimal=\"{mark}\"'; in Python "
                                         f"decimal=\"{mark}\""))
        ways = ["correct these cells or leave the rows out"]
        if any(cells.texts and (expected or {}).get(j, YES_OR_NO) != YES_OR_NO for j, cells in refused.items()):
            ways.insert(0, "convert cells of another unit, or with commas for points, to what the training data have")
        if any(cells.missing for cells in refused.values()):
            ways.append("to accept missing cells, read the training data with `when_missing: impute`, which gives them "
                        "a value")
        return CellError(explain(what, why="the training data had no such cells in these columns, so the model cannot "
                         "use them", fix="; ".join(ways)))
    ways = []
    text = [j for j in sorted(refused) if refused[j].texts]
    if any(cells.missing for cells in refused.values()):
        ways.append("`when_missing: impute` fills missing numbers with the mean of their column, and makes missing "
                    "text a category")
    if text:
        ways.append("`when_text: one_hot` makes one column of 0 and 1 of each text")
    if odd := _odd(refused, n_rows):
        ways.append(f"if {', '.join(map(repr, odd))} marks a missing cell, `missing: {odd}`")
    if can_drop:
        called = [str(names[j] if names else j) for j in sorted(refused)]
        ways.append(f"to leave columns out, `drop: [{_some(called)}]`")
        if text:
            ways.append(f"if one is the target, `target: {names[text[-1]] if names else text[-1]}`")
    return CellError(explain(what, why=NO_DISTANCE, fix="; ".join(ways) + "; in a spec these are keys of data.read"))


def _decimal_mark(refused: Mapping[int, Cells]) -> str:
    """Return the decimal mark of texts that are all numbers with the same one, "," or "."; "" of others."""
    numbers = [re.fullmatch(r"[+-]?\d*(?:([.,])\d+)?(?:e[+-]?\d+)?", text.strip(), re.IGNORECASE)
               for cells in refused.values() for _, text in cells.examples]
    marks = {number and number[1] for number in numbers} - {None} if all(numbers) else set()
    has_missing = any(cells.missing for cells in refused.values())
    return str(marks.pop()) if len(marks) == 1 and not has_missing else ""


def refuse_frame(frame: pd.DataFrame, way: str, *, fills: bool = False, takes_text: bool = False) -> None:
    """Raise DataError if a table in this process has cells that cannot be used; the error reports all of them.

    way : what to do about them. fills : whether missing cells are filled. takes_text : whether text is encoded.
    """
    refused = {j: cells.refused(texts=not takes_text, missing=not fills) for j, cells in cells_in(frame).items()}
    refused = {j: cells for j, cells in refused.items()
               if (cells.texts or cells.missing) and frame.dtypes.iloc[j].kind not in "mM"}  # dates have another error
    if not refused:
        return
    names = [str(name) for name in frame.columns]
    ways = [way]
    if odd := _odd(refused, len(frame)):
        ways.append(f"if {', '.join(map(repr, odd))} marks a missing cell, X.replace({odd}, float('nan'))")
    ways.append(f"to leave columns out, X.drop(columns=[{_some([repr(frame.columns[j]) for j in sorted(refused)])}])")
    raise DataError(explain(_described(refused, len(frame), "X", names, {}, {}), why=NO_DISTANCE, fix="; ".join(ways)))


def _described(refused: dict[int, Cells], n_rows: int, source: str, names: Sequence[str] | None,
               row_names: Mapping[int, str], expected: Mapping[int, str]) -> str:
    """Describe the cells that are not numbers: one sentence, or a line for each column."""
    lines = []
    for j in sorted(refused)[:MAX_LISTED]:
        cells = refused[j]
        parts = []
        if cells.texts:
            shown = ", ".join(f"{text[:40]!r} in {row_names.get(row, f'row {row} (counted from 0)')}"
                              for row, text in cells.shown)
            parts.append(f"holds text: {shown} ({cells.texts:,} of {n_rows:,} cells)"
                         + (f", expected {expected[j]}" if j in expected else ""))
        if cells.missing:
            first = row_names.get(cells.first_missing, f"row {cells.first_missing} (counted from 0)")
            parts.append(f"has {cells.missing:,} missing cells; the first is in {first}"
                         if cells.missing > 1 else f"has a missing cell in {first}")
        lines.append(f"{column_label(names, j)} {' and '.join(parts)}")
    if len(refused) > MAX_LISTED:
        lines.append(f"and {len(refused) - MAX_LISTED} more columns")
    if len(lines) == 1:
        return f"{source}: {lines[0]}"
    return f"{source}: {len(refused)} columns have cells that are not numbers" + "".join(
        f"\n  {line}" for line in lines)


def _odd(refused: dict[int, Cells], n_rows: int) -> list[str]:
    """Return texts that are rare among numbers, so that they may mark missing cells."""
    return sorted({example for cells in refused.values() if 0 < cells.texts <= ODD * n_rows
                   for _, example in cells.shown})[:EXAMPLES]


def _some(called: Sequence[str]) -> str:
    return ", ".join(called[:MAX_LISTED]) + (", ..." if called[MAX_LISTED:] else "")
