"""Index of the rows of a text file, from one pass over its bytes, so that any range can be read; svmlight text.

The pass is a small state machine a format, compiled, at the speed of the disk. It notes the byte of a row every
`STRIDE` bytes, counts fields, and remembers the first row that cannot be right; nothing is parsed here. Own code,
since pandas, pyarrow and scikit-learn reach a row only by parsing all before it, and do not say which line is wrong.

A line of svmlight or LIBSVM text is `label column:value column:value ...`.
"""

import io
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numba import njit
from scipy import sparse

from ...base.digest import JsonObject
from ...base.errors import DataError, explain, require
from ...base.profiler import library
from ..targets import whole_numbers
from .base import Block, Reader, Scan, cut_short, no_rows

STRIDE = 1 << 16  # bytes between two entries of the index; a block reads up to that much too many at either end
PIECE = 1 << 24  # bytes read at once
LONGEST = 1 << 24  # bytes of a row: rows are parsed whole

# Slots of the state that a pass carries from one piece of the file to the next
(MODE, FIELDS, BLANK, START, ROWS, MARK, EXPECTED_FIELDS, BAD_START, BAD_FIELDS, RETURN, LONE_RETURN, LINE, START_LINE,
 EVERY) = range(14)
TOKEN, SMALLEST, LARGEST, ENTRIES = 1, 6, 7, 8  # svmlight: digits read so far, the column numbers seen, and how many
START_FIELD, IN_FIELD, QUOTED, AFTER_QUOTE = range(4)
NEWLINE, CARRIAGE, SPACE, TAB, QUOTE, HASH, COLON, ZERO, NINE = (np.uint8(ord(c)) for c in '\n\r \t"#:09')
NOT_DIGITS, COMMENT = -1, -2


@dataclass(frozen=True)
class LineIndex:
    """Byte and line at which some rows begin; the last entry is the number of rows, with the end of the file."""

    rows: np.ndarray  # (m,), int64, ascending
    offsets: np.ndarray  # (m,), int64
    lines: np.ndarray  # (m,), int64, number of lines before

    def narrow(self, start: int, stop: int) -> "LineIndex":
        """Return the entries from the last row up to `start` to the first from `stop` on."""
        around = slice(int(np.searchsorted(self.rows, start, side="right")) - 1,
                       int(np.searchsorted(self.rows, stop, side="left")) + 1)
        return LineIndex(self.rows[around], self.offsets[around], self.lines[around])


class LineReader(Reader):
    """A text file with the index of its rows, which its scan creates; any range of rows can be read."""

    _index = LineIndex(*np.empty((3, 0), np.int64))

    def narrow(self, start: int, stop: int) -> Self:
        self.scan()
        small = copy(self)
        small._index = self._index.narrow(start, stop)
        return small

    def _stretch(self, start: int, stop: int) -> tuple[int, int, bytes]:
        """Return (first row, its byte, text) of a stretch that holds rows [start, stop) and few others."""
        around = self._index.narrow(start, stop)
        begin, end = int(around.offsets[0]), int(around.offsets[-1])
        with open(self.path, "rb") as file:
            file.seek(begin)
            raw = file.read(end - begin)
        if len(raw) < end - begin:
            raise cut_short(self.name, end, begin + len(raw))
        return int(around.rows[0]), begin, raw

    def _line_at(self, offset: int) -> str:
        """Return the name in messages of the line with a byte; lines count from 1."""
        newlines, left = 0, offset
        with open(self.path, "rb") as file:
            while left > 0 and (piece := file.read(min(left, PIECE))):
                newlines += piece.count(b"\n")
                left -= len(piece)
        return f"{self.name} line {newlines + 1} (byte {offset:,})"

    def _require_rows(self, index: LineIndex) -> LineIndex:
        """Return the index; raise DataError if a row is longer than `LONGEST`."""
        wide = np.flatnonzero(np.diff(index.offsets) > LONGEST + STRIDE)
        if len(wide):
            with open(self.path, "rb") as file:
                file.seek(first := int(index.offsets[wide[0]]))
                begin = first + file.read(2 * STRIDE).rfind(b"\n") + 1
            raise self._too_long(begin, f"{int(index.offsets[wide[0] + 1]) - begin:,}")
        return index

    def _too_long(self, begin: int, size: str) -> DataError:
        return DataError(explain(f"{self._line_at(begin)} has {size} bytes",
                                 why=f"a row may have at most {LONGEST:,}",
                                 fix="check the line: an end of line may be missing, or the file is not a table"))

    def _require_plain_text(self, first: bytes) -> None:
        """Raise DataError if the first bytes of the file show that it is not text of one byte a character."""
        require(first[:2] not in (b"\xff\xfe", b"\xfe\xff") and b"\0" not in first, error=DataError,
                what=f"{self.name} is not plain text: it holds zero bytes or begins with {first[:4]!r}",
                why="it is a binary file, or text of two bytes a character (UTF-16)",
                fix="name its true format with `format:`, or convert it: iconv -f utf-16 -t utf-8")


@njit(nogil=True, cache=True)
def _end_row(state, rows, offsets, lines, n_entries):
    """Count a row that ends, and add its start to the index every `EVERY` bytes; return the number of entries."""
    noted = state[ROWS] <= 1 or state[START] - state[MARK] >= state[EVERY]
    if noted:
        rows[n_entries], offsets[n_entries], lines[n_entries] = state[ROWS], state[START], state[START_LINE]
        state[MARK] = state[START]
    state[ROWS] += 1
    return n_entries + noted


@njit(nogil=True, cache=True)
def index_delimited(buffer, base, state, rows, offsets, lines, delimiter, blank_delimiter):
    """Follow the records of delimited text through one piece; return the number of entries of the index.

    The rules of quoting are those of the pandas parser: a quote opens a field only at its beginning, two quotes
    inside stand for one, and a line of blanks is no record.
    """
    noted = 0
    for i in range(len(buffer)):
        byte = buffer[i]
        state[LINE] += byte == NEWLINE
        if state[RETURN] == 1:
            state[RETURN] = 0
            if byte != NEWLINE and state[LONE_RETURN] < 0:
                state[LONE_RETURN] = base + i - 1
        if state[MODE] == QUOTED:
            if byte == QUOTE:
                state[MODE] = AFTER_QUOTE
            continue
        if state[MODE] == AFTER_QUOTE:
            if byte == QUOTE:
                state[MODE] = QUOTED
                continue
            state[MODE] = IN_FIELD
        if byte == NEWLINE:
            if state[BLANK] == 0:
                fields = state[FIELDS] if blank_delimiter else state[FIELDS] + 1
                if state[EXPECTED_FIELDS] == 0:
                    state[EXPECTED_FIELDS] = fields
                elif fields != state[EXPECTED_FIELDS] and state[BAD_START] < 0:
                    state[BAD_START] = state[START]
                    state[BAD_FIELDS] = fields
                noted = _end_row(state, rows, offsets, lines, noted)
            state[MODE], state[FIELDS], state[BLANK] = START_FIELD, 0, 1
            state[START], state[START_LINE] = base + i + 1, state[LINE]
        elif byte == CARRIAGE:
            state[RETURN] = 1
        elif byte == delimiter:
            state[FIELDS] += 1
            state[MODE], state[BLANK] = START_FIELD, 0
        elif byte in (SPACE, TAB):
            if blank_delimiter:
                state[MODE] = START_FIELD
        else:
            state[BLANK] = 0
            if state[MODE] == START_FIELD:
                if blank_delimiter:
                    state[FIELDS] += 1
                state[MODE] = QUOTED if byte == QUOTE else IN_FIELD
    return noted


@njit(nogil=True, cache=True)
def index_svmlight(buffer, base, state, rows, offsets, lines):
    """Follow the lines of svmlight text through one piece; find the smallest and largest column, count the entries."""
    noted = 0
    for i in range(len(buffer)):
        byte = buffer[i]
        if byte == NEWLINE:
            if state[BLANK] == 0:
                noted = _end_row(state, rows, offsets, lines, noted)
            state[LINE] += 1
            state[MODE], state[TOKEN], state[BLANK] = 0, 0, 1
            state[START], state[START_LINE] = base + i + 1, state[LINE]
        elif state[MODE] == COMMENT:
            continue
        elif byte == HASH:
            state[MODE] = COMMENT
        elif byte in (SPACE, TAB, CARRIAGE):
            state[MODE], state[TOKEN] = 0, 0
        else:
            state[BLANK] = 0
            if byte == COLON and state[MODE] > 0:
                state[SMALLEST] = min(state[SMALLEST], state[TOKEN])
                state[LARGEST] = max(state[LARGEST], state[TOKEN])
                state[ENTRIES] += 1
                state[MODE] = NOT_DIGITS
            elif byte < ZERO or byte > NINE:
                state[MODE] = NOT_DIGITS
            elif state[MODE] >= 0:
                state[MODE] = 1
                if state[TOKEN] < 1 << 50:
                    state[TOKEN] = 10 * state[TOKEN] + (byte - ZERO)
    return noted


def index_lines(path: Path, first_byte: int, begin: dict[int, int], follow: Callable[..., int],
                *options: np.uint8 | bool) -> tuple[LineIndex, np.ndarray]:
    """Return the index of a text file from `first_byte` on, and the state after the pass, which starts as `begin`."""
    state, blocks = _state({START: first_byte, EVERY: STRIDE} | begin), []
    at, last, room = first_byte, NEWLINE, 4 + PIECE // STRIDE
    with open(path, "rb") as file:
        file.seek(first_byte)
        while True:
            piece = file.read(PIECE)
            if not piece and last == NEWLINE:
                break
            buffer = np.frombuffer(piece or b"\n", np.uint8)  # the last line may lack its newline
            entries = np.empty((3, room), np.int64)
            blocks.append(entries[:, :follow(buffer, at, state, *entries, *options)])
            at, last = at + len(piece), buffer[-1]
    return LineIndex(*np.hstack([*blocks, [[state[ROWS]], [at], [state[LINE]]]])), state


def lines_of(raw: bytes, first_line: int, follow: Callable[..., int], *options: np.uint8 | bool) -> np.ndarray:
    """Return the number of lines before each row of some text, which begins after `first_line` of them."""
    state = _state({LINE: first_line, START_LINE: first_line})  # EVERY is 0: all rows are noted
    text = raw if raw.endswith(b"\n") else raw + b"\n"
    entries = np.empty((3, text.count(b"\n")), np.int64)
    return entries[2, :follow(np.frombuffer(text, np.uint8), 0, state, *entries, *options)]


def _state(begin: dict[int, int]) -> np.ndarray:
    """Return the state before a pass, with the first values of some slots."""
    state = np.zeros(EVERY + 1, np.int64)
    for slot, value in ({BLANK: 1, BAD_START: -1, LONE_RETURN: -1} | begin).items():
        state[slot] = value
    return state


MAX_COLUMNS = (1 << 31) - 1


class SvmlightReader(LineReader):
    """Rows of svmlight text. Columns count from 1, or from 0 if the file has a column 0 or `zero_based` says so."""

    format: ClassVar[str] = "svmlight"
    endings: ClassVar[tuple[str, ...]] = (".svm", ".svmlight", ".libsvm")
    options: ClassVar[tuple[str, ...]] = ("n_columns", "zero_based")

    def __init__(self, path: Path, name: str, scratch: Path, *, n_columns: int | None = None,
                 zero_based: bool | None = None):
        self.path, self.name, self.n_columns, self.zero_based = path, name, n_columns, zero_based

    def attributes(self) -> JsonObject:
        return {"zero_based": self.zero_based}

    def _look(self) -> Scan:
        with open(self.path, "rb") as file:
            self._require_plain_text(file.read(1 << 12))
        index, state = index_lines(self.path, 0, {SMALLEST: MAX_COLUMNS, LARGEST: -1}, index_svmlight)
        self._index = self._require_rows(index)
        n_rows, smallest, largest = int(state[ROWS]), int(state[SMALLEST]), int(state[LARGEST])
        if n_rows == 0:
            raise no_rows(self.name)
        self.zero_based = smallest == 0 if self.zero_based is None else self.zero_based
        require(self.zero_based or smallest > 0, f"{self.name} has a column 0, though zero_based is false",
                why="columns counted from 1 have no column 0", fix="leave zero_based unset", error=DataError)
        n_columns = largest + self.zero_based
        require(largest >= 0 or bool(self.n_columns), f"{self.name} has no column:value pairs", error=DataError,
                why="points without features cannot be told apart", fix="check the format: `label 1:0.5 7:1.25`")
        require(n_columns <= MAX_COLUMNS, f"{self.name} has column {largest}, the largest possible is {MAX_COLUMNS}",
                why="column numbers are stored in 32 bits", fix="number the columns from 1", error=DataError)
        require(self.n_columns is None or self.n_columns >= n_columns, f"{self.name} has column {largest}, though "
                f"n_columns is {self.n_columns}", why="its values would be lost", error=DataError,
                fix=f"set n_columns to {n_columns} or more")
        return Scan(n_rows=n_rows, n_columns=self.n_columns or n_columns, dtype="float64", target="the first field",
                    row_bytes=int(self._index.offsets[-1]) // n_rows + 1, nnz=int(state[ENTRIES]))

    def settle(self, readers: Sequence[Reader]) -> "SvmlightReader":
        """Return a reader that counts columns from 0 if any file does, with as many columns as the widest file."""
        peers = [reader for reader in readers if isinstance(reader, SvmlightReader)]
        zero_based = any(peer.zero_based for peer in peers)
        # A file that counts from 1 has one column more when it is counted from 0.
        widest = max(peer.scan().n_columns + (zero_based and not peer.zero_based) for peer in peers)
        settled = copy(self)
        settled._scan, settled.zero_based = replace(self.scan(), n_columns=self.n_columns or widest), zero_based
        return settled

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        self.scan()
        first, begin, raw = self._stretch(start, stop)
        try:
            values, labels = self._parse(raw)
        except (ValueError, OverflowError):
            for line in io.BytesIO(raw):
                try:
                    self._parse(line)
                except (ValueError, OverflowError) as error:
                    shown = line.strip()[:60].decode("utf-8", "replace")
                    raise DataError(explain(
                        f"{self._line_at(begin)} is not svmlight text: {shown!r}: {error}",
                        why="a line is one number, then column:value pairs with ascending columns",
                        fix="correct the line; several labels a row are not supported")) from error
                begin += len(line)
            raise
        rows = slice(start - first, stop - first)
        return Block(sparse.csr_array(values[rows]), whole_numbers(np.asarray(labels[rows], np.float64)))

    def _parse(self, raw: bytes) -> tuple[sparse.csr_array, np.ndarray]:
        n_features = self.scan().n_columns
        return library("sklearn.datasets").load_svmlight_file(
            io.BytesIO(raw), n_features=n_features, zero_based=bool(self.zero_based))
