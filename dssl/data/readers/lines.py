"""Index of the rows of a text file, from one pass over its bytes, so that any range of rows can be read.

The pass is a small state machine a format, compiled, at the speed of the disk. It notes the byte of a row every
`STRIDE` bytes, counts fields, and remembers the first row that cannot be right; nothing is parsed here. Own code,
since pandas, pyarrow and scikit-learn reach a row only by parsing all before it, and do not say which line is wrong.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numba import njit

from ...base.errors import DataError, explain, require
from .base import Reader, cut_short

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
        """Return (first row, its byte, text) of a stretch that holds rows [start, stop) and few others.

        Raise DataError if the file has become shorter since it was scanned.
        """
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
