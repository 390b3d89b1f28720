"""The door to pyarrow: Parquet files, read by row groups, so that a task reads only the groups its rows lie in."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...errors import DataError, explain, require
from ..targets import target_values, text_of
from .base import PROBE_ROWS, Block, Reader, Scan, no_rows, possible_keys
from .column_choice import Column, features_and_target, text_is_no_feature

BATCH_BYTES = 8 << 20  # decoded at once
MOST_BATCH_ROWS = 1 << 16
TEXT_BYTES = 16  # of one label, roughly; text has no fixed width


def _pyarrow() -> Any:
    """Return pyarrow with its Parquet reader."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(explain("Parquet files are read with pyarrow, which is not installed", why=str(error),
                                fix='pip install pyarrow, or convert the file to npz or CSV')) from error
    return pyarrow


class ParquetReader(Reader):
    """Rows of one Parquet file: numbers and booleans are features, a null is a missing value (NaN).

    A task decodes, of the row groups its rows lie in, the columns in use from the group's beginning to its last row.
    `target`, `drop`, `when_text` are as in `CsvReader`; text may be a dictionary (category).
    """

    format: ClassVar[str] = "parquet"
    options: ClassVar[tuple[str, ...]] = ("target", "drop", "when_text")

    def __init__(self, path: Path, name: str, scratch: Path, *, target: Column | None = None,
                 drop: Column | tuple[Column, ...] = (), when_text: str = "error"):
        self.path, self.name, self.target, self.drop, self.when_text = path, name, target, drop, when_text
        self._features: list[str] = []
        self._left_out: frozenset[str] = frozenset()  # names of features that are not read
        self._groups = np.zeros(1, np.int64)  # first row of each row group, and the number of rows
        self._batch_rows = MOST_BATCH_ROWS

    def column_names(self) -> list[str]:
        with self._file() as file:
            return list(file.schema_arrow.names)

    def _look(self) -> Scan:
        with self._file() as file:  # everything is in its footer
            schema, metadata = file.schema_arrow, file.metadata
        names = list(schema.names)
        twice = [name for name, count in Counter(names).items() if count > 1]
        require(not twice, f"{self.name} has several columns named {', '.join(map(repr, twice[:5]))}", error=DataError,
                why="columns are told apart by their names", fix="rename them, and write the file again")
        # Those that held the index of the pandas table that the file was written from
        index = {column for column in (schema.pandas_metadata or {}).get("index_columns", []) if column in names}
        features, target = features_and_target(names, self.name, target=self.target, drop=self.drop,
                                               never=[names.index(name) for name in index])
        self._features = [names[i] for i in features if names[i] not in self._left_out]
        self._require_features(schema)
        used = {*self._features}
        if target is not None:
            label = _value_type(schema.field(target).type)
            require(_is_number(label) or _is_text(label), f"{self.name}: the target {names[target]!r} is of type "
                    f"{schema.field(target).type}", why="labels are integers, floats or text", error=DataError,
                    fix="name another column with `target:`, or write this one as text or numbers")
            used.add(names[target])
        if metadata.num_rows == 0:
            raise no_rows(self.name)
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        counts = [group.num_rows for group in groups]
        require(sum(counts) == metadata.num_rows and min(counts, default=0) >= 0, error=DataError,
                what=f"{self.name} says it has {metadata.num_rows:,} rows, and {sum(counts):,} in its row groups",
                why="its footer is damaged", fix="copy or download the file again")
        self._groups = np.cumsum([0, *counts])
        keys, text_keys = self._possible_keys()
        width = sum(_width(schema.field(name).type) for name in used)
        self._batch_rows = max(1, min(MOST_BATCH_ROWS, BATCH_BYTES // width))
        stored = max(_stored_bytes(group, used) for group in groups)
        return Scan(
            keys=keys, text_keys=text_keys, n_rows=metadata.num_rows, n_columns=len(self._features), row_bytes=width,
            unit_bytes=stored + self._batch_rows * width, feature_names=tuple(self._features),
            dtype=str(np.result_type(*(
                value.to_pandas_dtype() if _is_number(value := _value_type(schema.field(name).type)) else np.float64
                for name in self._features))),
            target=None if target is None else names[target])

    def _possible_keys(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the features that may be keys, and those of them that are text though text is an error.

        Raise DataError if text that is no key is an error.
        """
        with self._file() as file:
            first = next(file.iter_batches(PROBE_ROWS, columns=self._features, use_threads=False))
            columns = {j: _values(_pyarrow().chunked_array([first.column(name)]))
                       for j, name in enumerate(self._features)}
            types = [file.schema_arrow.field(name).type for name in self._features]
        keys = possible_keys(columns)
        text = [j for j, type_ in enumerate(types) if self.when_text == "error" and _is_text(_value_type(type_))]
        for j in text:
            if j not in keys:
                raise text_is_no_feature(f"{self.name}: column {self._features[j]!r} is of type {types[j]}",
                                         self._features[j])
        return keys, tuple(text)

    def without(self, names: Collection[str]) -> "ParquetReader":
        found = copy(self)
        found._left_out = self._left_out | frozenset(names)
        if self._scan is not None:
            kept = [j for j, name in enumerate(self._features) if name not in names]
            found._features, found._scan = [self._features[j] for j in kept], self._scan.of_columns(kept)
        return found

    def unusable(self) -> dict[str | int, str]:
        with self._file() as file:
            schema = file.schema_arrow
        target = self.target if isinstance(self.target, str) else None
        return {name: why for name in schema.names if name not in (target, *self._dropped())
                if (why := _why_no_feature(schema, name)[0])}

    def _dropped(self) -> list[str]:
        return [self.drop] if isinstance(self.drop, str) else [] if isinstance(self.drop, int) else \
            [column for column in self.drop if isinstance(column, str)]

    def _require_features(self, schema: Any) -> None:
        """Raise DataError, with the way out for its type, unless every column holds numbers or text."""
        wrong = {name: reasons for name in self._features if (reasons := _why_no_feature(schema, name))[0]}
        if wrong:
            told = "; ".join(f"column {name!r} is {what}" for name, (_, what, _) in wrong.items())
            ways = list(dict.fromkeys(way for _, _, way in wrong.values() if way))
            raise DataError(explain(
                f"{self.name}: {told}", why="; ".join(dict.fromkeys(why for why, _, _ in wrong.values())),
                fix=f"to leave out what is no feature, `drop: [{', '.join(wrong)}]`" + "".join(
                    f"; {way}" for way in ways)))

    # ---- rows

    def table(self, start: int, stop: int) -> Any:
        """Return rows [start, stop) of the columns in use as a pyarrow table, typed as in the file."""
        scan, pyarrow = self.scan(), _pyarrow()
        used = [*self._features, *([scan.target] if scan.target is not None else [])]
        first = int(np.searchsorted(self._groups, start, side="right")) - 1
        last = int(np.searchsorted(self._groups, stop, side="left"))
        at, pieces = int(self._groups[first]), []
        with self._file() as file:
            require(file.metadata.num_rows == scan.n_rows, f"{self.name} has {file.metadata.num_rows:,} rows, and had "
                    f"{scan.n_rows:,} when it was scanned", why="rows would be taken for others", error=DataError,
                    fix="let nothing write to the file while it is read, and run again")
            for batch in file.iter_batches(self._batch_rows, row_groups=list(range(first, last)), columns=used,
                                           use_threads=False):
                piece = batch.slice(max(start - at, 0), max(min(stop, at + len(batch)) - max(start, at), 0))
                # A slice keeps its whole batch in memory; a copy of what is used does not.
                pieces.append(piece.take(pyarrow.array(np.arange(len(piece)))) if len(piece) < len(batch) else piece)
                at += len(batch)
                if at >= stop:
                    break
            table = pyarrow.Table.from_batches(pieces).select(used)
        require(len(table) == stop - start, f"{self.name}: {len(table):,} rows from {start:,} to {stop:,}",
                why="its row groups hold fewer rows than its footer says", error=DataError,
                fix="copy or write the file again")
        return table

    def read(self, start: int, stop: int, as_text: frozenset[int] = frozenset(), *, text_target: bool = False) -> Block:
        scan, table = self.scan(), self.table(start, stop)
        with self._explained():
            columns = {j: _values(table.column(name)) for j, name in enumerate(self._features)}
            columns |= {j: text_of(columns[j]) for j in as_text}
            X = pd.DataFrame({j: pd.Series(values, dtype=values.dtype) for j, values in columns.items()}, copy=False)
            y = None if scan.target is None else target_values(_values(table.column(scan.target)), self.name)
            return Block(X, y)

    # ---- the file

    @contextmanager
    def _file(self) -> Iterator[Any]:
        with self._explained(), _pyarrow().parquet.ParquetFile(self.path, page_checksum_verification=True) as file:
            yield file

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn pyarrow's errors into one that names the file."""
        arrow = _pyarrow()
        try:
            yield
        except DataError:
            raise
        except (arrow.ArrowException, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno:  # the disk's, not the format's
                raise
            raise DataError(explain(
                f"{self.name} ({self.path.stat().st_size:,} bytes) cannot be read as Parquet: {error}",
                why="the file is cut short, damaged, encrypted, or of another format",
                fix="copy or download the file again, or name its true format with `format:`")) from error


def _why_no_feature(schema: Any, name: str) -> tuple[str, str, str]:
    """Return why a column of a schema can be no feature, what it is, and how it could be one; empty texts if it can."""
    types, type_ = _pyarrow().types, schema.field(name).type
    value = _value_type(type_)
    if name in (schema.pandas_metadata or {}).get("index_columns", []):
        return ("an index most often numbers or names the rows, and would be learned from as a feature",
                "the index of a pandas table", "to learn from an index, write the table again after reset_index()")
    if _is_number(value) or _is_text(value):
        return "", "", ""
    why, way = next((why, way) for is_it, why, way in (
        (types.is_null, "no row has a value in it", ""),
        (types.is_decimal, "decimals have no floating-point form of their own", "write decimals as double"),
        (types.is_temporal, "a date or a time has no unit as a distance", "write times as a number of days or seconds"),
        (types.is_nested, "a feature is one number a row", "write the elements of lists as one column each"),
        (lambda _: True, "features are numbers", "write values as numbers")) if is_it(value))
    return why, f"of type {type_}", way


def _value_type(type_: Any) -> Any:
    """Return the type of the values: of a dictionary, that of its entries."""
    return type_.value_type if _pyarrow().types.is_dictionary(type_) else type_


def _is_number(type_: Any) -> bool:
    types = _pyarrow().types
    return types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_)


def _is_text(type_: Any) -> bool:
    types = _pyarrow().types
    return types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)


def _width(type_: Any) -> int:
    """Return the bytes of one decoded value."""
    value = _value_type(type_)
    return max(1, value.bit_width // 8) if _is_number(value) else TEXT_BYTES


def _stored_bytes(group: Any, used: set[str]) -> int:
    """Return the bytes of the columns in use of one row group, as pages are held to decode them."""
    if len(used) == group.num_columns:  # of a damaged footer, `column` ends the process (seen with pyarrow 26)
        return group.total_byte_size
    columns = (group.column(i) for i in range(group.num_columns))
    return sum(max(column.total_uncompressed_size, column.total_compressed_size) for column in columns
               if column.path_in_schema in used)


def _values(column: Any) -> np.ndarray:
    """Return a column of numbers or booleans as it is, as floats with NaN where it has nulls; text as objects."""
    pyarrow = _pyarrow()
    column = column.cast(_value_type(column.type))
    if _is_text(column.type):
        return np.array(column.cast(pyarrow.string()).to_pylist(), object)
    if pyarrow.types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    return column.to_numpy()


@contextmanager
def parquet_writer(path: Path, like: Mapping[str, np.ndarray]) -> Iterator[Callable[[Mapping[str, np.ndarray]], None]]:
    """Yield what writes columns by name, a row group each time it is called; null where one is masked.

    like : no rows of them, of the types that all have.
    """
    pyarrow = _pyarrow()

    def table(columns: Mapping[str, np.ndarray]) -> Any:
        arrays = [pyarrow.array(np.asarray(own), mask=np.ma.getmaskarray(own)) for own in columns.values()]
        return pyarrow.table(arrays, names=list(columns))

    with pyarrow.parquet.ParquetWriter(path, table(like).schema) as writer:
        yield lambda columns: writer.write_table(table(columns))


def parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row of a file, as text, of some columns; empty where a cell is null."""
    with _pyarrow().parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(MOST_BATCH_ROWS >> 4, columns=list(columns)):
            cells = [["" if cell is None else str(cell) for cell in batch.column(name).to_pylist()]
                     for name in columns]
            yield from zip(*cells, strict=True)
