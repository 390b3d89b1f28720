"""Numbers that stand for missing cells, such as -999, and the ranges of the columns without them and without outliers.

They are found before a source has a spec, by where they lie and by how often they come; infinite cells are too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ..base.errors import column_label
from ..data.readers.base import FEWEST_ROWS, Reader
from ..data.readers.cells import Cells
from ..data.scaling.moments import merged, moments_of
from ..data.scaling.outliers import Outliers, Reaches, outliers_of, sampled_positions
from ..execution.tasks import Execution, Reduction, Share
from ..storage.blocks import Arrays, PartWriter, Receipt

CODES = (-99, -999, -9999, -99999, -999999, 999, 9999, 99999, 999999)
FEWEST_CELLS, FEWEST_COLUMNS = 3, 2  # of which either is enough
DECIMALS = 0.9  # share of the other values of a column that have a fraction
TIMES = 20  # as often as the other values of a column come again, on average
FEWEST_IN_ROW = 2  # numeric cells of a row that holds nothing but codes
MAX_ROWS = 100  # that are listed
NO_LOW = float(np.finfo(np.float64).max) / 4  # the smallest of no values; a receipt holds finite numbers only


@dataclass(frozen=True)
class Extents:
    """smallest, largest (d,) : of the columns, NaN of text. outliers : as `outliers_of`; None where there is none."""

    smallest: np.ndarray
    largest: np.ndarray
    outliers: Outliers | None


@dataclass(frozen=True)
class ExtentsTask:
    """Write the rows of one range that are `sampled` (m,), or with a `Reaches` in their place their `inliers`."""

    reader: Reader
    start: int
    stop: int
    shared: Arrays

    def __call__(self, out: PartWriter) -> Receipt:
        X, arrays = numbers_in(self.reader.read(self.start, self.stop).X), self.shared.load()
        X = np.where(np.isfinite(X), X, np.nan)
        if "sampled" in arrays:
            first, last = np.searchsorted(arrays["sampled"], [self.start, self.stop])
            return out.write(sample=X[arrays["sampled"][first:last] - self.start])
        filled = np.where(np.isnan(X), arrays["median"], X)
        reaches = Reaches(arrays["median"], arrays["reach"], arrays["rare"])
        inliers, outliers = reaches.inliers(filled, np.arange(self.start, self.stop))
        return out.write(**moments_of(inliers), **outliers)


def numbers_in(X: np.ndarray | pd.DataFrame) -> np.ndarray:
    """Return the cells of a block (b, d) as float64, NaN where they are no numbers."""
    if not isinstance(X, pd.DataFrame):
        return np.asarray(X, np.float64)
    columns = [X.iloc[:, j].to_numpy(np.float64, na_value=np.nan) if pd.api.types.is_numeric_dtype(X.dtypes.iloc[j])
               else np.full(len(X), np.nan) for j in range(X.shape[1])]
    return np.array(columns).T


def extents_of(reader: Reader, ranges: Sequence[tuple[int, int]], execution: Execution) -> Extents | None:
    """Return the extents of the columns of a source, from two passes over its ranges of rows; None of sparse rows."""
    scan = reader.scan()
    if scan.nnz is not None or not scan.n_columns:
        return None

    def of(**shared: np.ndarray) -> Reduction[Share]:
        arrays = execution.share(**shared)
        return Reduction([ExtentsTask(reader.narrow(start, stop), start, stop, arrays) for start, stop in ranges],
                         joined if "sampled" in shared else merged, lambda share: share)

    sample = execution.reduce(of(sampled=sampled_positions(scan.n_rows, scan.n_columns)))["sample"]
    is_number = ~np.isnan(sample).all(axis=0)
    sample = np.where(is_number, sample, 0.0)
    reaches = Reaches.of(np.where(np.isnan(sample), np.nanmedian(sample, axis=0), sample))
    sums = execution.reduce(of(median=reaches.median, reach=reaches.reach, rare=reaches.rare))
    return Extents(np.where(is_number, sums["smallest"], np.nan), np.where(is_number, sums["largest"], np.nan),
                   outliers_of(sums) if int(sums["n_outlier_cells"]) else None)


def joined(share: Share, later: Share) -> Share:
    """Return the sampled rows of two ranges."""
    return {"sample": np.concatenate([share["sample"], later["sample"]])}


@dataclass(frozen=True)
class Sentinels:
    """Numbers of a source that are no values.

    counts : by code that stands for missing cells, the cells of each column that holds it. again : those of these codes
    that are not far from the other values of all their columns, but come again there as no other value does. doubtful :
    as counts, of codes that may stand for missing cells. rows : numbers of rows that hold nothing but codes.
    infinite : by column, its infinite cells.
    """

    counts: dict[int, dict[str, int]] = field(default_factory=dict)
    again: frozenset[int] = frozenset()
    doubtful: dict[int, dict[str, int]] = field(default_factory=dict)
    rows: tuple[int, ...] = ()
    infinite: dict[str, Cells] = field(default_factory=dict)


@dataclass(frozen=True)
class SentinelsTask:
    """Return the range of the ordinary values of each column of some rows, how often each code occurs, and where.

    The last column is the target. `others` : of columns that hold a code, how many other values they have, how many
    different ones, and how many with a fraction. `infinite` : of columns that have such cells, how many, and (row,
    text) of some.
    """

    reader: Reader
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.reader.read(self.start, self.stop)
        y = np.full(self.stop - self.start, np.nan)
        if block.y is not None and block.y.dtype != object:
            y = np.asarray(block.y, np.float64)
        cells = np.column_stack([numbers_in(block.X), y])
        is_infinite = np.isinf(cells)
        infinite = {str(j): [int(is_infinite[:, j].sum()), self._examples(cells[:, j])]
                    for j in np.flatnonzero(is_infinite.any(axis=0)).tolist()}
        cells = np.where(is_infinite, np.nan, cells)
        X, y = cells[:, :-1], cells[:, -1]
        is_code = np.isin(cells, CODES)
        ordinary = np.where(is_code, np.nan, cells)
        low = np.fmin.reduce(ordinary, axis=0, initial=NO_LOW)
        high = np.fmax.reduce(ordinary, axis=0, initial=-NO_LOW)
        others = np.zeros((cells.shape[1], 3), np.int64)
        for j in np.flatnonzero(is_code.any(axis=0)).tolist():
            values = ordinary[~np.isnan(ordinary[:, j]), j]
            others[j] = len(values), len(np.unique(values)), np.count_nonzero(values % 1)
        known = ~np.isnan(X)
        full = np.flatnonzero((known.sum(axis=1) >= FEWEST_IN_ROW) & (is_code[:, :-1] | ~known).all(axis=1))[:MAX_ROWS]
        texts = [column for _, column in block.X.select_dtypes(object).items()] \
            if isinstance(block.X, pd.DataFrame) else []
        return {"infinite": infinite, "others": others.tolist(), "low": low.tolist(), "high": high.tolist(),
                "counts": [(cells == code).sum(axis=0).tolist() for code in CODES],
                "whole": bool(not np.any(y[~np.isnan(y)] % 1)),
                "levels": [code for code in CODES if any((text == str(code)).any() for text in texts)],
                "rows": [[self.start + int(row), sorted({int(cell) for cell in X[row][known[row]]})] for row in full]}

    def _examples(self, column: np.ndarray) -> list[tuple[int, str]]:
        """Return the first cell of each sign that is infinite, with its row."""
        return [(self.start + int(np.argmax(column == value)), str(value)) for value in (np.inf, -np.inf)
                if (column == value).any()]


def _comes_again(counts: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the columns of decimals in which a code comes much more often than their other values do.

    counts (d,) : cells of the code. others (d, 3) : see `SentinelsTask`. Of k values drawn evenly n come in n / k - 1
    further cells each; `TIMES` as often, and `FEWEST_CELLS`, is no chance.
    """
    n_values, n_different, n_decimals = others.T
    more = n_values / np.maximum(n_different, 1) - 1
    return (n_values >= FEWEST_ROWS) & (n_decimals >= DECIMALS * n_values) & (counts >= FEWEST_CELLS + TIMES * more)


def find_sentinels(reader: Reader, ranges: Sequence[tuple[int, int]], execution: Execution) -> Sentinels:
    """Return the codes of missing cells and the infinite cells of a dense source, from one pass over its rows.

    A code is one of `CODES` that is farther from every other value of its column than these are from each other, in
    `FEWEST_CELLS` cells of a column or in `FEWEST_COLUMNS` columns; or a negative one below all other values of a
    column in which it comes again as no other value does (`_comes_again`). A code is none where another column has it
    among its ordinary values, since a text that is marked as missing is missing in every column; nor a positive one
    that may be a class, or a level of a column of text. Of the codes that are not marked those are doubtful that come
    again as no other value of a column does.
    """
    tasks = [SentinelsTask(reader.narrow(start, stop), start, stop) for start, stop in ranges]
    blocks = execution.map(tasks, execution.scratch())
    low = np.min([block["low"] for block in blocks], axis=0)
    high = np.max([block["high"] for block in blocks], axis=0)
    counts = np.sum([block["counts"] for block in blocks], axis=0)
    is_class = all(block["whole"] for block in blocks)
    levels = {code for block in blocks for code in block["levels"]}
    scan = reader.scan()
    names = [*(column_label(scan.feature_names, j) for j in range(scan.n_columns)), f"the target {scan.target!r}"]
    infinite: dict[int, Cells] = {}
    for block in blocks:
        for j, (count, examples) in block["infinite"].items():
            cells = Cells(count, tuple((row, text) for row, text in examples))
            infinite[int(j)] = infinite.get(int(j), Cells()).merge(cells)
    others = np.sum([block["others"] for block in blocks], axis=0)
    codes, doubtful, near = dict[int, dict[str, int]](), dict[int, dict[str, int]](), set[int]()
    for code, of_code in zip(CODES, counts, strict=True):
        holds = of_code > 0
        is_outlier = np.maximum(code - high, low - code) > high - low
        sure = holds & is_outlier & (high > low)
        again = holds & _comes_again(of_code, others)
        is_marked = sure.sum() >= FEWEST_COLUMNS or bool((of_code[sure] >= FEWEST_CELLS).any()) or bool(
            (again & (code < low)).any() and code < 0)
        ordinary = holds & ~is_outlier & (high >= low) & ~(again & is_marked)
        if code > 0 and (code in levels or (is_class and holds[-1])):
            continue
        if is_marked and not ordinary.any():
            codes[code] = {names[j]: int(of_code[j]) for j in np.flatnonzero(holds).tolist()}
            near |= {code} if (again & ~is_outlier).any() else set()
        elif again.any():
            doubtful[code] = {names[j]: int(of_code[j]) for j in np.flatnonzero(again).tolist()}
    rows = [row for block in blocks for row, values in block["rows"] if codes.keys() >= set(values)]
    return Sentinels(codes, frozenset(near), doubtful, tuple(rows[:MAX_ROWS]),
                     {names[j]: cells for j, cells in sorted(infinite.items())})
