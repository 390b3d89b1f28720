"""Files with typed columns in groups of rows: Parquet and Arrow. A task reads only the groups of its rows."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.errors import DataError, explain, require
from ..frames import element_name, refuse_ragged
from .base import PROBE_ROWS, Scan, no_rows
from .cell_text import plain_text, possible_formats, trimmed
from .cells import CellCounts
from .column_choice import Column, features_and_target, refuse_same_names
from .table import RowTexts, TableReader, is_text

BATCH_BYTES = 8 << 20  # decoded at a time
MAX_BATCH_ROWS = 1 << 16
TEXT_BYTES = 16  # assumed for one text, which has no fixed width


class Groups(ABC):
    """An open file with groups of rows."""

    schema: pa.Schema

    @abstractmethod
    def sizes(self, columns: Collection[str], file: str) -> list[tuple[int, int]]:
        """Return the rows of each group, and the memory for decoding some of its columns (bytes).

        Raises DataError: the numbers of rows contradict each other; the message names the `file`.
        """

    @abstractmethod
    def refuse_changed(self, starts: np.ndarray, file: str) -> None:
        """Raise DataError if the groups no longer start at these rows, of which the last is the number of rows."""

    @abstractmethod
    def batches(self, rows: int, columns: Sequence[str], groups: range | None = None) -> Iterator[pa.RecordBatch]:
        """Yield some columns of some groups (None: all), at most `rows` rows at a time."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class GroupedReader(TableReader):
    """Rows of one such file. Numbers, booleans, text and elements of lists are features; nulls are missing cells.

    A task decodes the columns in use of the groups that contain its rows, from the start of the group to the task's
    last row. Text may be dictionary-encoded. The options are those of `TableReader`. A list of numbers, such as an
    embedding, becomes one feature per element: `name[0]`, `name[1]`, ...
    """

    title: ClassVar[str]  # of the format, for messages
    is_typed: ClassVar[bool] = True

    def __init__(self, path: Path, name: str, scratch: Path, *, target: Column | None = None,
                 drop: Column | tuple[Column, ...] = (), missing: str | tuple[str, ...] = (),
                 decimal: str | None = None, thousands: str | None = None, percent: bool | None = None,
                 when_text: str = "error", categories: Column | tuple[Column, ...] = ()):
        super().__init__(target=target, drop=drop, missing=missing, decimal=decimal, thousands=thousands,
                         percent=percent, when_text=when_text, categories=categories)
        self.path, self.name = path, name
        self._fields: tuple[tuple[str, int], ...] = ()  # (column of the file, element of a list or -1) of each column
        self._groups = np.zeros(1, np.int64)  # first row of each group, and the number of rows
        self._batch_rows = MAX_BATCH_ROWS

    def column_names(self) -> list[str]:
        with self._file() as file:
            return [_element_name(*place) for place in self._columns_of(file)]

    def list_elements(self) -> list[str]:
        self.scan()
        return [_element_name(*place) for place in self._fields if place[1] >= 0]

    def _columns_of(self, file: Groups) -> list[tuple[str, int]]:
        """Return (column of the file, element of a list or -1) of each column.

        A list of integers that is left out by its name is one column, as it may list tags.
        """
        columns = []
        for field in file.schema:
            is_expanded = _is_list(field.type) and not (_is_integer_list(field.type) and field.name in self._drops)
            width = self._list_width(file, field.name, field.type) if is_expanded else None
            columns += [(field.name, -1)] if width is None else [(field.name, k) for k in range(width)]
        return columns

    def _list_width(self, file: Groups, name: str, type_: pa.DataType) -> int | None:
        """Return the length of the first list of a column; None if its lists do not hold numbers."""
        if not _is_number(type_.value_type):
            return None
        if pa.types.is_fixed_size_list(type_):
            return int(type_.list_size)
        for batch in file.batches(PROBE_ROWS, [name]):
            lengths = pc.list_value_length(batch.column(0)).drop_null()
            if len(lengths):
                return int(lengths[0].as_py())
        return None

    def _dropped(self, columns: Sequence[tuple[str, int]]) -> list[Column]:
        """Return the columns to drop; the name of a list column stands for all its elements."""
        elements: dict[Column, list[Column]] = {
            column: [_element_name(*place) for place in columns if place[0] == column and place[1] >= 0]
            for column in self._drops}
        return [name for column in self._drops for name in (elements[column] or [column])]

    @property
    def _drops(self) -> tuple[Column, ...]:
        return (self.drop,) if isinstance(self.drop, (str, int)) else tuple(self.drop)

    def _sizes(self) -> Scan:
        with self._file() as file:
            refuse_same_names(dict(enumerate(file.schema.names)), self.name, None)
            self._fields = tuple(self._columns_of(file))
            return self._sizes_of(file)

    def _sizes_of(self, file: Groups) -> Scan:
        schema = file.schema
        self._names = names = tuple(_element_name(*place) for place in self._fields)
        # Columns with the index of the pandas table from which the file was written
        index = {column for column in (schema.pandas_metadata or {}).get("index_columns", []) if column in names}
        features, target = features_and_target(names, self.name, target=self.target, drop=self._dropped(self._fields),
                                               never=[names.index(name) for name in index])
        self._features = tuple(j for j in features if names[j] not in self._excluded)
        self._target = target
        self._booleans = frozenset(j for j in self._features if pa.types.is_boolean(_value_type(self._type(schema, j))))
        self._require_features(schema)
        if target is not None:
            label = _value_type(self._type(schema, target))
            require(_is_number(label) or is_text(label), f"{self.name}: the target {names[target]!r} is of type "
                    f"{self._type(schema, target)}", why="labels are integers, floats or text", error=DataError,
                    fix="name another column with `target:`, or write this one as text or numbers")
        sizes = file.sizes({self._fields[field][0] for field in self._used}, self.name)
        self._groups = np.cumsum([0, *(rows for rows, _ in sizes)])
        n_rows = int(self._groups[-1])
        if n_rows == 0:
            raise no_rows(self.name)
        decoded = [_value_type(self._type(schema, field)) for field in self._used]
        width = sum(max(1, value.bit_width // 8) if _is_number(value) else TEXT_BYTES for value in decoded)
        self._batch_rows = max(1, min(MAX_BATCH_ROWS, BATCH_BYTES // width))
        stored = max(stored for _, stored in sizes)
        types = [_value_type(self._type(schema, field)) for field in self._features]
        return Scan(
            n_rows=n_rows, n_columns=len(self._features), row_bytes=width,
            unit_bytes=stored + self._batch_rows * width, target=None if target is None else names[target],
            dtype=str(np.result_type(*(type_.to_pandas_dtype() if _is_number(type_) and not pa.types.is_decimal(type_)
                                       else np.float64 for type_ in types))))

    def _type(self, schema: pa.Schema, field: int) -> pa.DataType:
        """Return the type of a column; for an element of a list, the type of the list's values."""
        name, element = self._fields[field]
        type_ = schema.field(name).type
        return type_.value_type if element >= 0 else type_

    def _count_cells(self) -> dict[int, CellCounts]:
        formats = possible_formats(self.decimal, self.thousands, self.percent)
        with self._file() as file:
            schema = file.schema
            fields = [field for field in self._used if is_text(self._type(schema, field))]
            counts, start = {field: CellCounts() for field in fields}, 0
            if not fields:
                return {}
            for batch in file.batches(self._batch_rows, [self._names[field] for field in fields]):
                for field in fields:
                    counts[field] = counts[field].merge(CellCounts.of_text(
                        trimmed(batch.column(self._names[field])), self.missing, formats, start))
                start += len(batch)
        return counts

    def unusable(self) -> dict[str | int, str]:
        with self._file() as file:
            names = [name for name in file.schema.names if name not in (self.target, *self._drops)]
            ragged = [name for name in names if _is_integer_list(file.schema.field(name).type)
                      and self._is_ragged(file, name)]
            reasons = {name: _why_no_feature(file.schema, name)[0] for name in names}
        reasons |= dict.fromkeys(ragged, "its lists differ in length, so that their elements are no columns")
        return {name: why for name, why in reasons.items() if why}

    def _is_ragged(self, file: Groups, name: str) -> bool:
        lengths = set[int]()
        for batch in file.batches(MAX_BATCH_ROWS, [name]):
            lengths.update(pc.unique(pc.list_value_length(batch.column(0)).drop_null()).to_pylist())
            if len(lengths) > 1:
                return True
        return False

    def _require_features(self, schema: pa.Schema) -> None:
        """Raise DataError, with a fix for its type, unless every column holds numbers or text."""
        names = dict.fromkeys(self._fields[j][0] for j in self._features if self._fields[j][1] < 0)
        wrong = {name: reasons for name in names if (reasons := _why_no_feature(schema, name))[0]}
        if wrong:
            described = "; ".join(f"column {name!r} is {what}" for name, (_, what, _) in wrong.items())
            ways = list(dict.fromkeys(way for _, _, way in wrong.values() if way))
            raise DataError(explain(
                f"{self.name}: {described}", why="; ".join(dict.fromkeys(why for why, _, _ in wrong.values())),
                fix=f"to leave these columns out, `drop: [{', '.join(wrong)}]`" + "".join(
                    f"; {way}" for way in ways)))

    # ---- rows

    def _arrays(self, start: int, stop: int, as_text: frozenset[int] = frozenset()) -> dict[int, pa.Array]:
        with self._explained():
            table = self._table(list(dict.fromkeys(self._fields[field][0] for field in self._used)), start, stop)
            columns = {name: table.column(name).combine_chunks() for name in table.column_names}
            arrays = {}
            lists = {name: self._elements(name, column, start) for name, column in columns.items()
                     if _is_list(column.type)}
            for field in self._used:
                name, element = self._fields[field]
                arrays[field] = pa.array(lists[name][:, element]) if element >= 0 else _decoded(columns[name])
            return arrays

    def _elements(self, name: str, column: pa.Array, start: int) -> np.ndarray:
        """Return the lists of rows from `start` on as an array (rows, width), with NaN for null lists and elements."""
        width = sum(place[0] == name for place in self._fields)
        lengths = pc.list_value_length(column).fill_null(width).to_numpy(zero_copy_only=False)
        refuse_ragged(self.name, name, lengths, width, start, f"`drop: [{name}]`")
        is_valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)
        values = _decoded(column.drop_null().flatten()).to_numpy(zero_copy_only=False).reshape(-1, width)
        if is_valid.all():
            return values
        elements = np.full((len(column), width), np.nan)
        elements[is_valid] = values
        return elements

    def _table(self, used: list[str], start: int, stop: int) -> pa.Table:
        """Return rows [start, stop) of some columns of the file, in the file's types."""
        first = int(np.searchsorted(self._groups, start, side="right")) - 1
        last = int(np.searchsorted(self._groups, stop, side="left"))
        at, pieces = int(self._groups[first]), []
        with self._file() as file:
            file.refuse_changed(self._groups, self.name)
            for batch in file.batches(self._batch_rows, used, range(first, last)):
                piece = batch.slice(max(start - at, 0), max(min(stop, at + len(batch)) - max(start, at), 0))
                # A slice keeps its whole batch in memory; a copy of what is used does not.
                pieces.append(piece.take(pa.array(np.arange(len(piece)))) if len(piece) < len(batch) else piece)
                at += len(batch)
                if at >= stop:
                    break
            table = pa.Table.from_batches(pieces).select(used)
        require(len(table) == stop - start, f"{self.name}: {len(table):,} rows from {start:,} to {stop:,}",
                why="its groups of rows hold fewer rows than before, or than its footer says", error=DataError,
                fix="copy or write the file again")
        return table

    def texts(self, columns: Sequence[str], start: int, stop: int) -> RowTexts:
        with self._explained():
            table = self._table(self._fields_of(columns), start, stop)
            return self._texts_in(columns, {name: table.column(name) for name in table.column_names}, len(table))

    def stream(self, columns: Sequence[str]) -> Iterator[RowTexts]:
        n_rows = self.n_rows()
        if not columns:
            yield RowTexts(n_rows, [None] * n_rows, [])
            return
        with self._file() as file:
            for batch in file.batches(MAX_BATCH_ROWS >> 4, self._fields_of(columns)):
                yield self._texts_in(columns, {name: batch.column(name) for name in batch.schema.names}, len(batch))

    def _fields_of(self, columns: Sequence[str]) -> list[str]:
        """Return the columns of the file that contain some columns or list elements."""
        return list(dict.fromkeys(self._fields[self._names.index(name)][0] for name in columns))

    def _texts_in(self, columns: Sequence[str], arrays: Mapping[str, pa.Array], n: int) -> RowTexts:
        whole = {name: array.to_pylist() for name, array in arrays.items()}
        fields = [self._fields[self._names.index(name)] for name in columns]
        cells = [["" if cell is None else str(cell) for cell in whole[name]] if element < 0 else
                 ["" if cell is None or cell[element] is None else str(cell[element]) for cell in whole[name]]
                 for name, element in fields]
        return RowTexts(n, [None] * n, cells)

    # ---- the file

    @abstractmethod
    def _opened(self) -> Groups:
        """Open the file."""

    @contextmanager
    def _file(self) -> Iterator[Groups]:
        with self._explained(), closing(self._opened()) as file:
            yield file

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of pyarrow into a DataError that names the file."""
        try:
            yield
        except DataError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno:  # an error of the disk, not of the format
                raise
            raise DataError(explain(
                f"{self.name} ({self.path.stat().st_size:,} bytes) cannot be read as {self.title}: {error}",
                why="the file is truncated, damaged, encrypted, or of another format",
                fix="copy or download the file again, or name its true format with `format:`")) from error


def _why_no_feature(schema: pa.Schema, name: str) -> tuple[str, str, str]:
    """Return why a column cannot be a feature, what it is, and how to convert it; empty texts if it is a feature."""
    types, type_ = pa.types, schema.field(name).type
    value = _value_type(type_)
    if name in (schema.pandas_metadata or {}).get("index_columns", []):
        return ("an index usually numbers or names the rows, and would be used as a feature",
                "the index of a pandas table", "to learn from an index, write the table again after reset_index()")
    if _is_number(value) or is_text(value) or (_is_list(type_) and _is_number(type_.value_type)):
        return "", "", ""
    why, way = next((why, way) for is_it, why, way in (
        (types.is_null, "no row has a value in it", ""),
        (types.is_temporal, "a date or a time has no unit as a distance", "write times as a number of days or seconds"),
        (types.is_nested, "a feature is one number per row", "write its numbers as columns, or as a list"),
        (lambda _: True, "features are numbers", "write values as numbers")) if is_it(value))
    return why, f"of type {type_}", way


def _value_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of the values; for a dictionary type, of its entries."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _is_number(type_: pa.DataType) -> bool:
    types = pa.types
    return any(is_it(type_) for is_it in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal))


def _is_list(type_: pa.DataType) -> bool:
    return pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)


def _is_integer_list(type_: pa.DataType) -> bool:
    return _is_list(type_) and pa.types.is_integer(type_.value_type)


def _element_name(name: str, element: int) -> str:
    return name if element < 0 else element_name(name, element)


def _decoded(column: pa.Array) -> pa.Array:
    """Return a column without dictionary encoding, with booleans and decimals as numbers of NumPy."""
    column = plain_text(column)
    column = column.cast(_value_type(column.type))
    column = column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column
    return column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
