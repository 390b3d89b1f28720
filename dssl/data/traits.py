"""What tells a feature from a row number, a time, a duplicate column or the label itself, in one pass by blocks.

Block step: of each column its range, whether its numbers are whole and rise, some of its values, its projections on
random rows, and what it says of the target. Combine step: over blocks in their order. What is decided of it
(`findings`) does not depend on the blocks: whether a value is sampled is a matter of the value alone, and a random row
is a function of the row's number.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pandas as pd
from scipy import sparse

from ..base.digest import JsonObject
from ..base.errors import column_label
from .columns import cells_of
from .pairs import MAX_PAIRED, Pairs, class_texts, joined_pairs, pairs_of
from .readers.base import RowBlock

SAMPLED = 1024  # values of a column that are looked for a second time, of more rows than that
PROJECTIONS = 8  # random rows that columns are compared by
CHUNK = 1 << 17  # numbers looked at together, about eight arrays of them, and no more than a sixteenth of a block
SMALL_CHUNK = 1 << 12
FIRST_ROWS, FEW_ROWS = 256, 32  # that most columns are ruled out by
LARGEST_WHOLE = 2.0**53
MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[.,]?"
DAY = (r"\d{4}([-/.])\d\d?\1\d\d?|\d\d?([-/.])\d\d?\2\d{4}"
       rf"|\d\d?\.?[- ]{MONTH}[- ]\d{{4}}|{MONTH} \d\d?,? \d{{4}}")
CLOCK = r"\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?\s*(?:[ap]\.?m\.?|z|utc|[+-]\d\d:?\d\d)?"
DATE = rf"(?i:(?:{DAY})(?:(?:t|,?\s+){CLOCK})?)"

MAX_BREAKS = 3  # rows that may break the order of an identifier
FIGURES = ("present", "smallest", "largest", "at_smallest", "at_largest", "whole", "step", "first", "last", "descents",
           "ascents", "unlike", "labeled", "mean", "squares", "product", "target_mean", "target_squares")


@dataclass
class Traits:
    """What the columns of some rows are like.

    total : rows of the whole file, which says how many of the values are sampled. n_rows : of these.
    figures : by name, float64 (d,). `present`: cells that are there. `smallest`, `largest` of the finite numbers, and
        how many cells are equal to them, `at_smallest`, `at_largest`. `whole`: 1 where all numbers are whole; `step`:
        the largest number that divides their differences, where it is `whole` and `unlike`. `first`, `last`: cells that
        are there, NaN of none. `descents`, `ascents`: how many cells are not above, or not below, the one before;
        infinite where the first rows of a block have more of these than `MAX_BREAKS`. `unlike`: 1 where none of the
        values that are sampled, of whole numbers or text, came twice, nor any number twice in a row. Of rows with a
        target that is a number: `labeled`, how many these are; `mean`, `squares`, `product`, `target_mean`,
        `target_squares`: means, and sums of squared deviations and of their product.
    projected, weight : float64 (PROJECTIONS, d), sums of `random_rows` times cells, and times 1 where a cell is there:
        one column of weights where no column lacks a cell.
    sample : by column that is `unlike` and has any, random bits of the sampled values, ascending.
    dates : columns of text all of which is written as dates.
    pairs : by column whose values have one class each, as many as `MAX_PAIRED` or fewer.
    classes : labeled rows of each class; None where there are more classes than that, or no target.
    """

    total: int
    n_rows: int
    figures: dict[str, np.ndarray]
    projected: np.ndarray
    weight: np.ndarray
    sample: dict[int, np.ndarray] = field(default_factory=dict)
    dates: set[int] = field(default_factory=set)
    pairs: dict[int, Pairs] = field(default_factory=dict)
    classes: dict[str, int] | None = None

    @classmethod
    def of(cls, X: RowBlock, y: np.ndarray | None = None, *, start: int = 0, total: int | None = None,
           names: Sequence[str] | None = None) -> "Traits | None":
        """Return what the columns of rows from `start` on are like, or None of sparse rows, whose zeros are not there.

        X : ndarray, or DataFrame of numbers and text, shape (b, d). y : int64, float64 or objects, (b,), or None.
        total : rows of the whole file; unset: these are all.
        """
        if sparse.issparse(X):
            return None
        n, d = X.shape
        total = total or start + n
        traits = cls(total, 0, _nothing(d), np.zeros((PROJECTIONS, d)), np.zeros((PROJECTIONS, 1)))
        labels = None if y is None else class_texts(y)
        numbers = y.astype(np.float64) if y is not None and y.dtype.kind in "iuf" else None
        if numbers is not None and y is not None and y.dtype.kind in "iu":
            numbers[numbers == -1] = np.nan
        text = {j: cells for j in range(d) if (cells := _text_of_column(X, j, names)) is not None}
        height = max(1, min(CHUNK, max(n * d // 16, SMALL_CHUNK)) // d)
        for begin in range(0, n, height):
            rows = slice(begin, min(begin + height, n))
            may_be_key = (traits.figures["whole"] * traits.figures["unlike"]) > 0
            traits = traits.merge(_of_numbers(cls, X, rows, text, None if numbers is None else numbers[rows],
                                            start + begin, total, may_be_key))
        for j, cells in text.items():
            traits._add_text(j, cells)
        if labels is not None:
            traits._add_pairs(X, text, *labels)
        return traits

    @property
    def d(self) -> int:
        return self.projected.shape[1]

    @np.errstate(over="ignore", invalid="ignore")
    def merge(self, other: "Traits") -> "Traits":
        """Return what both are like; the rows of `other` come after these."""
        left = self.figures
        right = other.figures
        made = {name: left[name] + right[name] for name in ("present", "labeled")}
        made["smallest"] = np.minimum(left["smallest"], right["smallest"])
        made["largest"] = np.maximum(left["largest"], right["largest"])
        for end in ("smallest", "largest"):
            made[f"at_{end}"] = sum(np.where(of[end] == made[end], of[f"at_{end}"], 0) for of in (left, right))
        before = ~np.isnan(left["last"])
        after = ~np.isnan(right["first"])
        both = before & after
        made["first"] = np.where(before, left["first"], right["first"])
        made["last"] = np.where(after, right["last"], left["last"])
        for name, sign in (("descents", 1), ("ascents", -1)):
            made[name] = left[name] + right[name] + (both & ~(sign * right["first"] > sign * left["last"]))
        made["whole"] = left["whole"] * right["whole"]
        counted = both & (made["whole"] > 0)
        apart = np.abs(np.subtract(right["first"], left["first"], out=np.zeros(self.d), where=counted))
        made["step"] = reduce(np.gcd, (part.astype(np.int64) for part in (left["step"], right["step"], apart))
                              ).astype(np.float64)
        made |= _joint_moments(left, right)
        made["unlike"] = left["unlike"] * right["unlike"] * (left["last"] != right["first"])
        sample = {j: values for of in (self, other) for j, values in of.sample.items() if made["unlike"][j]}
        for j in sample.keys() & self.sample.keys() & other.sample.keys():
            values = _distinct(np.concatenate([self.sample[j], other.sample[j]]))
            if values is None:
                made["unlike"][j] = 0
                del sample[j]
            else:
                sample[j] = values
        pairs = {}
        for j in self.pairs.keys() & other.pairs.keys():
            joined = joined_pairs(self.pairs[j], other.pairs[j])
            if joined is not None:
                pairs[j] = joined
        classes = None
        if self.n_rows == 0 or other.n_rows == 0:
            classes, pairs = (other.classes, other.pairs) if self.n_rows == 0 else (self.classes, self.pairs)
        elif self.classes is not None and other.classes is not None:
            classes = {name: self.classes.get(name, 0) + other.classes.get(name, 0)
                       for name in {*self.classes, *other.classes}}
            classes = classes if len(classes) <= MAX_PAIRED else None
        dates = self.dates & other.dates
        dates |= {j for j in self.dates - dates if right["present"][j] == 0}
        dates |= {j for j in other.dates - dates if left["present"][j] == 0}
        return Traits(self.total, self.n_rows + other.n_rows, made, self.projected + other.projected,
                      self.weight + other.weight, sample, dates, pairs if classes is not None else {}, classes)

    # ---- what tasks write

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        """Return named arrays and JSON, read by `from_arrays`."""
        columns = np.concatenate([np.full(len(values), j, np.int32) for j, values in self.sample.items()]
                                 or [np.empty(0, np.int32)])
        arrays = {"traits": np.vstack([*(self.figures[name] for name in FIGURES), self.projected]),
                  "weight": self.weight}
        if len(columns):
            arrays |= {"sample": np.concatenate(list(self.sample.values())), "sample_columns": columns}
        pairs = [[j, [[value, sorted(classes)] for value, classes in pairs.items()]]
                 for j, pairs in sorted(self.pairs.items())]
        return arrays, {"arrays": sorted(arrays), "total": self.total, "n_rows": self.n_rows, "pairs": pairs,
                        "dates": sorted(self.dates), "classes": self.classes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "Traits":
        """Return what `to_arrays` described."""
        rows = arrays["traits"]
        figures = dict(zip(FIGURES, rows, strict=False))
        columns = arrays.get("sample_columns", np.empty(0, np.int32))
        values = arrays.get("sample", np.empty(0, np.uint64))
        sample = {j: values[columns == j] for j in np.unique(columns).tolist()}
        pairs = {j: {value: set(classes) for value, classes in of_values} for j, of_values in attributes["pairs"]}
        return cls(attributes["total"], attributes["n_rows"], figures, rows[len(FIGURES):], arrays["weight"], sample,
                   set(attributes["dates"]), pairs, attributes["classes"])

    # ---- text, and the target

    def _add_text(self, j: int, cells: np.ndarray) -> None:
        """Add a column of text of these rows."""
        present = cells[~pd.isna(cells)]
        self.figures["present"][j] = len(present)
        self.figures["whole"][j] = 0
        if len(present):
            values = _sampled(pd.util.hash_array(present), self.total)
            self.figures["unlike"][j] = float(values is not None)
            if values is not None and len(values):
                self.sample[j] = values
            if bool(pd.Series(present).str.strip().str.fullmatch(DATE).all()):
                self.dates.add(j)

    def _add_pairs(self, X: np.ndarray | pd.DataFrame, text: dict[int, np.ndarray], names: list[str],
                   codes: np.ndarray) -> None:
        """Add the classes of the values of each column; codes (n,) of class names, -1 where there is no label."""
        if len(names) > MAX_PAIRED:
            return
        rows = np.flatnonzero(codes >= 0)
        self.classes = dict(zip(names, np.bincount(codes[rows], minlength=len(names)).tolist(), strict=True))
        for j in range(self.d):
            for chosen in ((rows[:FIRST_ROWS], rows) if len(rows) > FIRST_ROWS else (rows,)):
                pairs = pairs_of(text[j][chosen] if j in text else _numbers(X, chosen, j), codes[chosen], names)
                if pairs is None:
                    break
            else:
                self.pairs[j] = pairs if pairs is not None else {}


def _nothing(d: int) -> dict[str, np.ndarray]:
    """Return the figures of no rows."""
    figures = {name: np.zeros(d) for name in FIGURES}
    figures |= {name: np.ones(d) for name in ("whole", "unlike")}
    return figures | {"smallest": np.full(d, np.inf), "largest": np.full(d, -np.inf), "first": np.full(d, np.nan),
                      "last": np.full(d, np.nan)}


def _numbers(X: np.ndarray | pd.DataFrame, rows: np.ndarray | slice, j: int | slice) -> np.ndarray:
    """Return some rows of one column, or of a slice of columns, as float64."""
    if not isinstance(X, pd.DataFrame):
        return np.asarray(X[rows, j] if isinstance(j, int) else X[rows], np.float64)
    cells = X.iloc[rows, j]
    if isinstance(cells, pd.DataFrame):
        return np.column_stack([column.to_numpy(np.float64, na_value=np.nan) for _, column in cells.items()])
    return cells.to_numpy(np.float64, na_value=np.nan)


def _text_of_column(X: np.ndarray | pd.DataFrame, j: int, names: Sequence[str] | None) -> np.ndarray | None:
    """Return a column of text as objects, None where cells are missing; None of a column of numbers."""
    if not isinstance(X, pd.DataFrame) or X.dtypes.iloc[j].kind in "biuf":
        return None
    cells = cells_of(X.iloc[:, j], column_label(names, j))
    return cells if cells.dtype == object else None


@np.errstate(over="ignore", invalid="ignore")  # sums beyond float64 decide nothing
def _of_numbers(made: type[Traits], X: np.ndarray | pd.DataFrame, rows: slice, text: dict[int, np.ndarray],
                y: np.ndarray | None, start: int, total: int, may_be_key: np.ndarray) -> Traits:
    """Return the traits of a few rows, with columns of text as if they were missing, and without pairs.

    may_be_key : bool (d,), of the rows before; of other columns it does not matter any more how their numbers differ.
    """
    if isinstance(X, pd.DataFrame) and text:
        block = np.full((rows.stop - rows.start, X.shape[1]), np.nan)
        number_columns = [j for j in range(X.shape[1]) if j not in text]
        if number_columns:
            block[:, number_columns] = _numbers(X.iloc[:, number_columns], rows, slice(None))
    else:
        block = _numbers(X, rows, slice(None))
    n, d = block.shape
    figures = _nothing(d)
    finite = np.isfinite(block)
    whole_rows = bool(finite.all())
    incomplete = np.flatnonzero(~finite.all(axis=0)) if not whole_rows else np.empty(0, int)
    present = finite if whole_rows else ~np.isnan(block)
    low, high, filled = (block if whole_rows else np.where(finite, block, end) for end in (np.inf, -np.inf, 0.0))
    figures["present"] = np.full(d, float(n)) if whole_rows else present.sum(axis=0).astype(float)
    for end, extreme in (("smallest", low.min(axis=0)), ("largest", high.max(axis=0))):
        figures[end], figures[f"at_{end}"] = extreme, np.count_nonzero(block == extreme, axis=0).astype(float)
    _add_order(figures, block, present, incomplete)
    whole = _narrowed(_are_whole, block)
    figures["whole"] = np.isin(np.arange(d), whole).astype(float)
    sample: dict[int, np.ndarray] = {}
    unlike = whole[(figures["unlike"][whole] > 0) & may_be_key[whole]]
    if len(unlike):
        figures["step"][unlike] = _steps(block[:, unlike], ~present[:, unlike])
        bits = mixed((filled[:, unlike] + 0.0).view(np.uint64))
        chosen = (bits < _threshold(total)) & present[:, unlike]
        for position in np.flatnonzero(chosen.any(axis=0)).tolist():
            values = _distinct(bits[chosen[:, position], position])
            if values is not None:
                sample[int(unlike[position])] = values
            else:
                figures["unlike"][unlike[position]] = 0
    if y is not None:
        figures |= _moments(block if whole_rows else np.where(finite, block, np.nan), y)
    weights = random_rows(start, start + n)
    weight = weights.sum(axis=1, keepdims=True) if whole_rows else weights @ present.astype(np.float64)
    return made(total, n, figures, weights @ filled, weight, sample)


def _narrowed(holds: Callable[[np.ndarray], np.ndarray], block: np.ndarray) -> np.ndarray:
    """Return the columns of a block in which something holds of all cells; few rows rule most columns out."""
    columns = np.flatnonzero(holds(block[:FEW_ROWS]).all(axis=0))
    if len(block) <= FEW_ROWS or not len(columns):
        return columns
    return columns[holds(block[:, columns] if len(columns) < block.shape[1] else block).all(axis=0)]


def _are_whole(cells: np.ndarray) -> np.ndarray:
    return ((np.rint(cells) == cells) & (np.abs(cells) < LARGEST_WHOLE)) | np.isnan(cells)


def _add_order(figures: dict[str, np.ndarray], block: np.ndarray, present: np.ndarray, incomplete: np.ndarray) -> None:
    """Set the first and last cells, how often numbers do not rise or fall, and whether two in a row are equal.

    present : which cells are. incomplete : columns with cells that are missing or infinite.
    """
    figures["first"][:], figures["last"][:] = block[0], block[-1]
    for name, sign in (("descents", 1), ("ascents", -1)):
        few = sign * block[:FEW_ROWS]
        columns = np.flatnonzero((few[1:] <= few[:-1]).sum(axis=0) <= MAX_BREAKS)
        narrowed, figures[name] = sign * block[:, columns], np.full(block.shape[1], np.inf)
        figures[name][columns] = (narrowed[1:] <= narrowed[:-1]).sum(axis=0)
    figures["unlike"] = 1.0 - (block[1:] == block[:-1]).any(axis=0)
    for j in incomplete.tolist():
        cells = block[present[:, j], j]
        if len(cells):
            figures["first"][j], figures["last"][j] = cells[0], cells[-1]
        before, after = cells[:-1], cells[1:]
        figures["descents"][j], figures["ascents"][j] = (after <= before).sum(), (after >= before).sum()
        figures["unlike"][j] = (after != before).all()


def _moments(block: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Return the moments of the columns, NaN of those with gaps, and a target over the rows where that is known."""
    labeled = np.isfinite(y)
    d = block.shape[1]
    if not labeled.any():
        return {}
    if not labeled.all():
        block = block[labeled]
        y = y[labeled]
    mean = block.mean(axis=0)
    target_mean = y.mean()
    deviation = block - mean
    of_target = y - target_mean
    return {"labeled": np.full(d, float(len(y))), "mean": mean, "product": of_target @ deviation,
            "squares": np.einsum("ij,ij->j", deviation, deviation), "target_mean": np.full(d, target_mean),
            "target_squares": np.full(d, (of_target**2).sum())}


def _joint_moments(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return means and squared deviations of two sets of rows, of columns and target (Chan, Golub, LeVeque, 1979)."""
    n = left["labeled"]
    m = right["labeled"]
    share = np.divide(m, n + m, out=np.zeros_like(m), where=n + m > 0)
    shift = right["mean"] - left["mean"]
    target_shift = right["target_mean"] - left["target_mean"]
    return {"mean": left["mean"] + shift * share,
            "squares": left["squares"] + right["squares"] + shift**2 * (n * share),
            "product": left["product"] + right["product"] + shift * target_shift * (n * share),
            "target_mean": left["target_mean"] + target_shift * share,
            "target_squares": left["target_squares"] + right["target_squares"] + target_shift**2 * (n * share)}


def mixed(values: np.ndarray) -> np.ndarray:
    """Return 64 random bits of each of the uint64 values, other ones of each (splitmix64)."""
    bits = values + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits


def random_rows(start: int, stop: int) -> np.ndarray:
    """Return weights of rows [start, stop), (PROJECTIONS, stop - start): 1, and functions of their numbers in [-1, 1).
    """
    numbers = np.arange(start, stop, dtype=np.uint64) * np.uint64(PROJECTIONS)
    weights = mixed(numbers + np.arange(PROJECTIONS, dtype=np.uint64)[:, None]).astype(np.float64) * 2.0**-63 - 1
    weights[0] = 1
    return weights


def _threshold(total: int) -> np.uint64:
    """Return the random bits below which a value is sampled: about `SAMPLED` different ones of as many as rows."""
    return np.uint64(min(math.floor(SAMPLED / total * 2.0**64), 2**64 - 1) if total > SAMPLED else 2**64 - 1)


def _sampled(values: np.ndarray, total: int) -> np.ndarray | None:
    """Return the sampled ones of some values (uint64), ascending; None where one comes twice."""
    bits = mixed(values)
    return _distinct(bits[bits < _threshold(total)])


def _distinct(bits: np.ndarray) -> np.ndarray | None:
    if len(bits) > 2 * SAMPLED:  # some of them are equal: of as many values as rows fewer would be chosen
        return None
    ordered = np.sort(bits)
    return None if (ordered[1:] == ordered[:-1]).any() else ordered


def _steps(block: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return the largest number that divides the differences of whole numbers, by column; 0 where there are none."""
    first = np.argmin(missing, axis=0)
    base = block[first, np.arange(block.shape[1])]
    steps = np.zeros(block.shape[1])
    left = np.flatnonzero(~np.isnan(base))
    for rows in (slice(0, 64), slice(None)):
        apart = np.where(missing[rows][:, left], 0, np.abs(block[rows][:, left] - base[left]))
        steps[left] = np.gcd.reduce(apart.astype(np.int64), axis=0)
        left = left[steps[left] != 1]
        if not len(left):
            break
    return steps
