"""Tables: columns of numbers or text, whose kinds follow from all their cells (`cells`)."""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from ..frames import element_name
from ..targets import number_texts, target_values, whole_numbers
from .base import PROBE_ROWS, Block, CellError, Reader, Scan, possible_keys, text_is_no_label
from .cell_text import (
    MAX_SIDES,
    NumberFormat,
    Side,
    are_gaps,
    are_missing,
    numbers,
    numbers_among,
    possible_formats,
    side_numbers,
    trimmed,
    truths,
)
from .cells import EXAMPLES, CellCounts, Cells, Reading, decimal_of, is_category
from .column_choice import Column, find_columns, refuse_no_features, refuse_other_marks, text_is_no_feature

TARGET = "target column"  # the key of the target, whatever its name in a file


@dataclass(frozen=True)
class RowTexts:
    """The text of some rows of a table.

    n : their number. lines (n,) : the lines on which they begin, from 1; None in a binary file. cells : one list for
    each of some columns.
    """

    n: int
    lines: list[int | None]
    cells: list[list[str]]


class TableReader(Reader):
    """Rows of a table. `CellCounts.kind` decides whether a text column is numbers, yes and no, or text.

    A named column in which all cells are sizes such as 10x20x5 becomes one feature per side: `name[0]`, `name[1]`, ...

    Parameters
    ----------
    target : name or number of the target column (from 0; negative from the end), or "none". By default a column named
        y, label, target or class, or else the last one.
    drop : columns to leave out, names or numbers.
    missing : one or several additional texts that mark a missing cell. A number also marks equal cells of numeric
        columns, however they are written.
    decimal : the decimal mark, "." or ",". By default the one under which more cells are numbers.
    thousands : the thousands separator, or "none". By default a comma (a point if that is not the decimal mark), a
        blank or an apostrophe.
    percent : whether a number with a percent sign is divided by 100; false makes it text.
    when_text : "error" refuses features that are text.
    categories : columns (names or numbers) that are text even if their cells are numbers, such as codes. Zero fractions
        are removed from whole numbers among them: 5411.0, as a column with missing cells is often written, is 5411.
    """

    is_table: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ("target", "drop", "missing", "decimal", "thousands", "percent", "when_text",
                                          "categories")

    _names: tuple[str, ...] = ()  # of all columns; numbers as text if the file has no names
    _has_names: bool = True
    _features: tuple[int, ...] = ()  # numbers of the columns that are features
    _columns_in_use: tuple[int, ...] = ()  # the columns from which features are read
    _sides: Mapping[int, Side] = {}  # by feature number, which is larger than all column numbers
    _target: int | None = None
    _counts: Mapping[int, CellCounts] = {}  # of the columns of text in use, by number
    _readings: Mapping[int, Reading] = {}  # of the same columns
    _codes: frozenset[int] = frozenset()  # the columns that `categories` names
    _booleans: frozenset[int] = frozenset()  # the columns whose type says that they hold yes and no
    _number_format = NumberFormat()
    _excluded: frozenset[str] = frozenset()  # names of features that are not read
    _fixed: Mapping[str | int, Reading] = {}  # the readings of columns that another file decided

    def __init__(self, *, target: Column | None, drop: Column | tuple[Column, ...],
                 missing: str | tuple[str, ...], decimal: str | None, thousands: str | None,
                 percent: bool | None, when_text: str, categories: Column | tuple[Column, ...]):
        self.target, self.drop, self.when_text = target, drop, when_text
        self.missing = (missing,) if isinstance(missing, str) else tuple(missing)
        self.decimal, self.thousands, self.percent = decimal, thousands, percent
        self.categories = (categories,) if isinstance(categories, (str, int)) else tuple(categories)

    @property
    def number_format(self) -> NumberFormat:
        self.scan()
        return self._number_format

    def fixed(self, readings: Mapping[str | int, Reading]) -> Self:
        reader = copy(self)
        reader._fixed = readings
        return reader

    @property
    def _used(self) -> list[int]:
        """The numbers of the columns that are read."""
        columns = dict.fromkeys(self._column_of(field) for field in self._features)
        return [*columns, *([] if self._target is None else [self._target])]

    def _column_of(self, field: int) -> int:
        """Return the number of the column from which a feature is read."""
        return self._sides[field].field if field in self._sides else field

    def _name_of(self, field: int) -> str:
        """Return the name of a feature; the table must have names."""
        side = self._sides.get(field)
        return self._names[field] if side is None else element_name(self._names[side.field], side.side)

    # ---- rows as text

    def n_rows(self) -> int:
        """Return the number of rows, and index them; delimited text is not parsed for this."""
        return (self._scan or self._sizes()).n_rows

    def all_names(self) -> tuple[str, ...]:
        """Return the names of all columns, or their numbers as text if there are no names; call `n_rows` first."""
        return self._names

    @abstractmethod
    def texts(self, columns: Sequence[str], start: int, stop: int) -> RowTexts:
        """Return the cells of rows [start, stop) as text, "" for null; call `n_rows` first.

        columns : of the file, by name, or by number as text if there are no names.
        """

    @abstractmethod
    def stream(self, columns: Sequence[str]) -> Iterator[RowTexts]:
        """Yield the cells of all rows in their order, in pieces."""

    # ---- the kinds of columns

    @abstractmethod
    def _arrays(self, start: int, stop: int, as_text: frozenset[int] = frozenset()) -> dict[int, pa.Array]:
        """Return rows [start, stop) of the columns in use by number, as numbers or as the text of the file.

        as_text : columns that are returned as text even if they could be parsed as numbers.
        """

    @abstractmethod
    def _sizes(self) -> Scan:
        """Return the scan without the kinds of the columns."""

    @abstractmethod
    def _count_cells(self) -> dict[int, CellCounts]:
        """Return the counts of all rows of each column of text in use."""

    def _look(self) -> Scan:
        sizes = self._sizes()
        self._columns_in_use = self._features
        self._counts = self._count_cells()
        return self._with_kinds(sizes, self._counts)

    def _label(self, field: int) -> str:
        return repr(self._names[field]) if self._has_names else f"{field} (counted from 0)"

    def _key(self, field: int) -> str | int:
        """Return the key that identifies a column in all files."""
        if field == self._target:
            return TARGET
        return self._names[field] if self._has_names else self._features.index(field)

    def source_column(self, j: int) -> str | int:
        self.scan()
        return self._names[self._column_of(self._features[j])] if self._has_names else self._features[j]

    def settle(self, readers: Sequence[Reader]) -> Self:
        """Return a reader in which the kinds of columns follow from the cells of all files together."""
        peers = [reader for reader in readers if isinstance(reader, TableReader)]
        text = {peer._key(field) for peer in peers for field in peer._counts}
        if not text:
            return self
        whole: dict[str | int, CellCounts] = {}
        for peer in peers:
            n_rows = peer.scan().n_rows
            for field in peer._used:
                if (key := peer._key(field)) in text:
                    counts = peer._counts.get(field) or CellCounts(
                        n_rows, numbers={".": n_rows, ",": n_rows}, low=-np.inf, high=np.inf)
                    whole[key] = whole[key].merge(counts) if key in whole else counts
        reader = copy(self)
        reader._scan = reader._with_kinds(
            self.scan(), {field: whole[key] for field in self._used if (key := self._key(field)) in whole},
            counts_of_file=[*whole.values()])
        return reader

    def _with_kinds(self, sizes: Scan, counts: Mapping[int, CellCounts], *,
                    counts_of_file: Sequence[CellCounts] = ()) -> Scan:
        """Decide the kinds of the columns, and return the complete scan."""
        formats = possible_formats(self.decimal, self.thousands, self.percent)
        mark = decimal_of(counts_of_file or [*counts.values()], formats, prefer=self._prefers())
        self._number_format = formats[mark]
        readings = {
            # In a typed format, plain numbers that are stored as text are codes.
            field: Reading("text") if self.is_typed and count.is_plain and not count.gaps and count.rows > count.missing
            else count.reading(mark, is_target=field == self._target) for field, count in counts.items()
        } | dict.fromkeys(self._booleans.difference(counts), Reading("truth"))
        readings |= {field: self._fixed[key] for field in counts if (key := self._key(field)) in self._fixed}
        named = find_columns([(column, "categories") for column in self.categories], self._names, self.name,
                             header=self._has_names)
        refuse_no_features(named, self._target, [field for field in named if field not in self._columns_in_use
                           and self._names[field] not in self._excluded], self._label, self.name)
        self._codes = frozenset(named)
        refuse_other_marks({field: count for field, count in counts.items() if readings[field].kind == "text"
                            and field not in (*named, self._target)}, mark, self._label, self.name)
        readings |= {field: Reading("text") for field in named if field in self._columns_in_use}
        self._readings = readings = readings | self._split({
            field: size for field in self._columns_in_use if field in counts and field not in named
            and (size := self._size_of(field, counts[field])) is not None})
        first = self._columns(0, min(sizes.n_rows, PROBE_ROWS))
        columns = {j: first[field][0] for j, field in enumerate(self._features)}
        read_as = {j: readings[field] for j, field in enumerate(self._features) if field in readings}
        text = tuple(j for j, reading in read_as.items() if reading.kind == "text")
        present = {j: [cell for cell in columns[j] if cell is not None] for j in text}
        free_text = {j for j, cells in present.items()
                     if not is_category(len({cell.casefold() for cell in cells}), len(cells))}
        keys = tuple(sorted({*possible_keys(columns), *free_text})) if self._has_names else ()
        counts_used = {j: self._counts[field] for j, field in enumerate(self._features) if field in self._counts}
        whole = {j: counts[field] for j, field in enumerate(self._features) if field in counts}
        odd = {j: cells for j, reading in read_as.items() if j in counts_used
               and (reading.kind != "text" or whole[j].is_mostly_numbers(mark))
               and (cells := counts_used[j].odd_as(reading, mark)).texts}
        odd |= {j: cells for j, field in enumerate(self._features) if (side := self._sides.get(field)) is not None
                and side.side == 0 and (cells := self._odd_sizes(side, readings[field].unit)).texts}
        bounds = {j: cells for j, reading in read_as.items() if j in counts_used and reading.kind == "number"
                  and (cells := counts_used[j].others[mark].bounds(reading.unit)).texts}
        labels, target_unit = Cells(), ""
        field = -1 if self._target is None else self._target
        if field in self._counts and readings[field].kind == "number":
            target_unit, labels = readings[field].unit, self._counts[field].odd_as(readings[field], mark)
        measures = tuple(j for j, reading in read_as.items() if reading.kind == "number"
                         and (j not in whole or whole[j].measured or reading.unit))
        written = {j: whole[j].written_as(reading, mark) for j, reading in read_as.items()
                   if reading.kind != "text" and j in whole}
        written |= {j: next(iter(counts[self._column_of(field)].others[mark].text.examples), (0, ""))[1]
                    for j, field in enumerate(self._features) if field in self._sides}
        several = {j: whole[j].several_units(mark) for j in text if j in whole}
        if self.when_text == "error":
            for j in text:
                if j not in keys:
                    raise self._text_is_no_feature(j, whole[j].odd(mark) if j in whole else Cells())
        return Scan(
            n_rows=sizes.n_rows, n_columns=len(self._features), dtype=sizes.dtype, row_bytes=sizes.row_bytes,
            unit_bytes=sizes.unit_bytes, target=sizes.target, keys=keys, text=text, measures=measures, odd=odd,
            odd_labels=labels, bounds=bounds, target_unit=target_unit,
            readings={j: reading for j, reading in read_as.items() if reading.kind == "truth" or reading.unit},
            written={j: text for j, text in written.items() if text},
            several_units={j: text for j, text in several.items() if text},
            feature_names=tuple(map(self._name_of, self._features)) if self._has_names else None)

    def _size_of(self, field: int, counts: CellCounts) -> tuple[int, str] | None:
        """Return the number of sides and the unit of a column of sizes, else None; another file may have decided it."""
        if not self._has_names:
            return None
        if not self._fixed:
            return counts.size
        names = [element_name(self._names[field], side) for side in range(MAX_SIDES)]
        known = [self._fixed[name] for name in names if name in self._fixed]
        return (len(known), known[0].unit) if known else None

    def _odd_sizes(self, side: Side, unit: str) -> Cells:
        """Return the cells of a column that are not sizes although another file decided so; reads the column if any."""
        odd, start = Cells(), 0
        if self._counts[side.field].size == (side.sides, unit):
            return odd
        for rows in copy(self).stream([self._names[side.field]]):  # a copy, since `stream` may scan the file again
            cells = trimmed(pa.array(rows.cells[0], pa.string()))
            wrong = np.isnan(side_numbers(cells, side.side, side.sides, self._number_format, unit)) & ~are_missing(
                cells, self.missing) & ~are_gaps(cells)
            examples = tuple((start + row, cells[row].as_py()) for row in np.flatnonzero(wrong).tolist())
            odd = odd.merge(Cells(int(wrong.sum()), examples))
            start += rows.n
        return odd

    def _split(self, sizes: Mapping[int, tuple[int, str]]) -> dict[int, Reading]:
        """Make a feature of each side of columns of sizes; return their readings."""
        features, sides, readings = list[int](), dict[int, Side](), dict[int, Reading]()
        for field in self._columns_in_use:
            count, unit = sizes.get(field, (0, ""))
            readings |= {field: Reading("text")} if count else {}
            for side in range(count):
                number = len(self._names) + len(sides)
                sides[number], readings[number] = Side(field, side, count), Reading("number", unit)
                features.append(number)
            features += [] if count else [field]
        self._sides = sides
        self._features = tuple(j for j in features if not self._has_names or self._name_of(j) not in self._excluded)
        return readings

    def _prefers(self) -> str:
        """Return the decimal mark to use if the cells do not decide."""
        return "."

    def _text_is_no_feature(self, j: int, odd: Cells) -> CellError:
        field = self._features[j]
        row, text = odd.examples[0] if odd.examples else (0, "")
        return text_is_no_feature(
            f"{self.name}: column {self._label(field)} holds text: {text!r} in {self.places([row])[0]}",
            self._names[field] if self._has_names else field)

    def without(self, names: Collection[str]) -> Self:
        reader = copy(self)
        reader._excluded = self._excluded | frozenset(names)
        if self._scan is not None:
            remaining = [j for j, field in enumerate(self._features) if self._name_of(field) not in names]
            reader._features = tuple(self._features[j] for j in remaining)
            reader._scan = self._scan.of_columns(remaining)
        return reader

    def narrow(self, start: int, stop: int) -> Self:
        small: Self = copy(super().narrow(start, stop))  # type: ignore[assignment]
        small._counts = {}  # large, and no longer needed once the kinds are decided
        return small

    # ---- rows

    def _columns(self, start: int, stop: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Return the values of the columns in use by number, and the rows with text instead of a number."""
        arrays = self._arrays(start, stop)
        return {field: self._values(field, arrays[self._column_of(field)])
                for field in (*self._features, *([] if self._target is None else [self._target]))}

    def _values(self, field: int, array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        none = np.empty(0, np.int64)
        reading = self._readings.get(field, Reading())
        kind = reading.kind
        if not is_text(array.type):
            values = self._without_missing(array.to_numpy(zero_copy_only=False))
            return (number_texts(values) if kind == "text" else values), none
        encoded = trimmed(array).dictionary_encode()
        unique = encoded.dictionary
        codes = encoded.indices.fill_null(len(unique)).to_numpy(zero_copy_only=False)
        is_missing = are_missing(unique, self.missing)
        if kind == "text":
            if field in self._codes:
                unique = self._number_format.without_zero_fraction(unique)
                is_missing |= are_missing(unique, self.missing)
            texts = np.array([*unique.to_pylist(), None], object)
            texts[:-1][is_missing] = None
            return texts[codes], none
        side = self._sides.get(field)
        if side is not None:
            values = side_numbers(unique, side.side, side.sides, self._number_format, reading.unit)
        else:
            values = truths(unique, self._number_format) if kind == "truth" else numbers(
                unique, self._number_format, reading.unit)
        values[is_missing] = np.nan
        odd = np.isnan(values) & ~is_missing & ~are_gaps(unique)
        values = self._without_missing(values) if kind == "number" else values
        return np.append(values, np.nan)[codes], np.flatnonzero(np.append(odd, False)[codes])

    def _without_missing(self, values: np.ndarray) -> np.ndarray:
        """Return numbers with NaN for those that mark a missing cell."""
        gone = np.isin(values, numbers_among(self.missing))
        return np.where(gone, np.nan, values) if gone.any() else values

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        self.scan()
        labels = () if self._target is None or not text_target else (self._target,)
        arrays = self._arrays(start, stop, frozenset(labels))
        X, odd = {}, {}
        for j, field in enumerate(self._features):
            array = arrays[self._column_of(field)]
            X[j], rows = self._values(field, array)
            if len(rows):
                texts = trimmed(array.take(pa.array(rows))).to_pylist()
                odd[j] = [*zip(rows.tolist(), texts, strict=True)]
        frame = pd.DataFrame({j: pd.Series(values, dtype=values.dtype) for j, values in X.items()}, copy=False)
        y = None if self._target is None else self._labels(self._target, arrays[self._target], start, text_target)
        return Block(frame, y, odd=odd)

    def _labels(self, field: int, array: pa.Array, start: int, text_target: bool) -> np.ndarray:
        """Return the target of rows from `start` on; raise DataError if it is numeric except for a few cells."""
        if text_target and is_text(array.type):
            values = np.array(trimmed(array).to_pylist(), object)
            values[are_missing(trimmed(array), self.missing)] = None
            return values
        values, odd = self._values(field, array)
        if len(odd):
            cells = [(start + row, trimmed(array)[row].as_py()) for row in odd.tolist()]
            raise text_is_no_label(self, Cells(len(odd), tuple(cells[:EXAMPLES])))
        if values.dtype == np.float64 and (is_text(array.type) or not self.is_typed):
            return whole_numbers(values)
        return target_values(values, self.name)


def is_text(type_: pa.DataType) -> bool:
    """Return whether an Arrow type holds text, possibly dictionary-encoded."""
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    return pa.types.is_string(value) or pa.types.is_large_string(value) or pa.types.is_string_view(value)
