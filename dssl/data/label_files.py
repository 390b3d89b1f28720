"""Labels from separate files: CSV files whose column `label` has the label of a row of the source.

The row is given by the column of the source's identifiers if the file has it, and otherwise by the column `row`, its
number counted from 0. `dssl suggest` writes such a file with empty labels. A column of weights is read if it is named;
other columns are ignored.
"""

import csv
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import DataError, explain, require
from ..base.missing import is_missing_text
from .columns import folded, spellings

ROW = "row"
LABEL = "label"
SHOWN = 10  # lines that an error lists
ANY = "*"  # a column of identifiers that is not known yet
SUGGESTED = (ROW, "file", "line", "score", "predicted", "probability", LABEL)  # columns beside those of the source


def column_beside(name: str) -> str:
    """Return the name of a source column in a file of labels, changed if it is one of `SUGGESTED`."""
    return f"{name} of the source" if name in SUGGESTED else name


@dataclass(frozen=True)
class Identifiers:
    """The identifiers of a source. name : of their column. rows_of : returns the rows with some identifiers."""

    name: str
    rows_of: Callable[[Collection[str]], Mapping[str, Sequence[int]]]


@dataclass(frozen=True)
class LabelLine:
    """A line with a label. number : of the line, counted from 1. name : of its row, an identifier or a number.

    weight : its cell in the column of weights, None if its file has no such column, or none is read.
    """

    path: Path
    number: int
    name: str
    is_identifier: bool
    label: str
    weight: str | None = None

    @property
    def origin(self) -> str:
        """Return the file and the line number."""
        return f"{self.path}, line {self.number}"


def listed_lines(lines: Sequence[LabelLine]) -> str:
    """Return files, line numbers and names of rows of the first `SHOWN` lines, and how many others there are."""
    texts, path = [], None
    for line in lines[:SHOWN]:
        texts.append(f"{line.origin if line.path != path else f'line {line.number}'}: {line.name!r}")
        path = line.path
    return _and_more(texts, len(lines))


def _and_more(texts: Sequence[str], count: int) -> str:
    """Return the first `SHOWN` texts, and how many others there are of `count`."""
    return "; ".join(texts[:SHOWN]) + (f"; and {count - SHOWN:,} more" if count > SHOWN else "")


def read_label_files(paths: Sequence[Path], identifiers: Identifiers | None = None,
                     weight: str | None = None) -> dict[int, LabelLine]:
    """Return the line with the label of each labeled row, in ascending order of the rows.

    Empty labels are ignored. identifiers : of the source, None if it has none. weight : the column of weights, which
    files may lack. Of several lines of a row one that has a weight counts.

    Raises DataError: a file is not CSV with these columns; a line refers to no existing row; a row
    has two different labels or weights; or no row has a label.
    """
    lines = _some_lines(paths, None if identifiers is None else column_beside(identifiers.name), weight)
    identifiers_used = {line.name for line in lines if line.is_identifier}
    rows_of = identifiers.rows_of(identifiers_used) if identifiers is not None and identifiers_used else {}
    return dict(sorted(_by_row(lines, rows_of).items()))


def have_column(paths: Sequence[Path], column: str) -> bool:
    """Return whether all files of labels have a column."""
    return all(column in _header(_cells(path)) for path in paths)


def names_rows(paths: Sequence[Path], column: str) -> bool:
    """Return whether a file of labels that lacks the column `row` has a column of the source."""
    headers = [_header(_cells(path)) for path in paths]
    return any(ROW not in header and column_beside(column) in header for header in headers)


def require_naming_columns(paths: Sequence[Path], columns: Collection[str]) -> None:
    """Raise DataError if a file of labels has no column of labels, or none that names rows.

    columns : of the source; none where it is no table.
    """
    beside = {column_beside(name) for name in columns}
    for path in paths:
        header = _header(_cells(path))
        named = ROW in header or not beside.isdisjoint(header)
        require(header.count(LABEL) == 1 and named, f"{path} has the columns {', '.join(header) or '(none)'}",
                why=f"{LABEL} is read from it, and which row has that label: {ROW}, its number, or the column of the "
                "source's identifiers", error=DataError, fix="name the columns in its first line, separated by "
                "commas, as in row,label" + (", or by the name that identifiers have in the source" if beside else "")
                + _in_capitals(header))


def label_texts(paths: Sequence[Path]) -> set[str]:
    """Return the different labels of files, as they are spelled; raises as `count_label_files` does."""
    return {line.label for line in _some_lines(paths, ANY, None)}


def spelled_as(texts: Sequence[str], classes: Collection[str]) -> list[str]:
    """Return labels in the spelling of the class from which they differ only in blanks and case, if it is unique.

    New classes take their most frequent spelling.
    """
    spellings_of: dict[str, list[str]] = {}
    for name in {*classes}:
        spellings_of.setdefault(folded(name), []).append(name)
    for name in spellings(Counter(text for text in texts if folded(text) not in spellings_of)):
        spellings_of[folded(name)] = [name]
    return [text if text in classes or len(spellings_of[folded(text)]) > 1 else spellings_of[folded(text)][0]
            for text in texts]


def count_label_files(paths: Sequence[Path]) -> int:
    """Return an upper bound of the labeled rows, without knowing whether the source has identifiers.

    Raises DataError: as for `read_label_files`, as far as it can be found without the source.
    """
    lines = _some_lines(paths, ANY, None)
    numbered = [line for line in lines if not line.is_identifier]
    return len(_by_row(numbered, {})) + len(lines) - len(numbered)


def _by_row(lines: Sequence[LabelLine], known: Mapping[str, Sequence[int]]) -> dict[int, LabelLine]:
    """Return the line of each row, the first one with a weight if any has one."""
    _require_rows(lines, known)
    labels: dict[int, LabelLine] = {}
    relabeled, reweighed = list[str](), list[str]()
    for line in lines:
        row = known[line.name][0] if line.is_identifier else int(line.name)
        first = labels.setdefault(row, line)
        if first.label != line.label:
            relabeled.append(f"{line.origin}: row {line.name} is {line.label!r}, and was {first.label!r} in "
                             f"{first.origin}")
        if first.weight is not None and line.weight is not None and first.weight != line.weight:
            reweighed.append(f"{line.origin}: row {line.name} weighs {line.weight!r}, and weighed {first.weight!r} in "
                             f"{first.origin}")
        if first.weight is None and line.weight is not None:
            labels[row] = line
    for differing, why in (relabeled, "a point has one label"), (reweighed, "a label has one weight"):
        require(not differing, _and_more(differing, len(differing)), error=DataError, why=why,
                fix="correct one of the two lines of each such row, or remove it")
    return labels


def _require_rows(lines: Sequence[LabelLine], known: Mapping[str, Sequence[int]]) -> None:
    """Raise DataError if lines have no number of a row, or an identifier of no row or of several."""
    wrong = [line for line in lines if not line.is_identifier and not is_row_number(line.name)]
    require(not wrong, f"{len(wrong):,} of {len(lines):,} lines have no number of a row: {listed_lines(wrong)}",
            why="a row is its number in the source, counted from 0", error=DataError,
            fix="leave the column row as dssl suggest wrote it")
    identified = [line for line in lines if line.is_identifier]
    for of_rows, name_rows in ([0], "no row"), (range(2, sys.maxsize), "several rows"):
        wrong = [line for line in identified if len(known.get(line.name, ())) in of_rows]
        require(not wrong, f"{len(wrong):,} of {len(identified):,} identifiers name {name_rows} of the source: "
                f"{listed_lines(wrong)}", error=DataError, why="a label belongs to one row",
                fix="write identifiers exactly as in the source (spreadsheets drop leading zeros); or, if the file "
                "also has the column row, remove this one: rows are then found by number")


def is_row_number(text: str) -> bool:
    """Return whether a text is a whole number >= 0 that int64 holds."""
    return text.isascii() and text.isdigit() and len(text) < 19


def _some_lines(paths: Sequence[Path], column: str | None, weight: str | None) -> list[LabelLine]:
    """Return the labeled lines of all files; raise DataError if there are none."""
    lines = [line for path in paths for line in _lines(path, column, weight)]
    require(bool(lines), f"{', '.join(map(str, paths))}: no row has a label", error=DataError,
            why="the files would add nothing", fix="fill in the column label, or leave labels.file out")
    return lines


def _cells(path: Path) -> list[list[str]]:
    """Return the cells of a file, one list per line; semicolons separate them where they separate the name `label`."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            by_comma, by_semicolon = (_header(list(csv.reader([first.lower()], delimiter=mark))) for mark in ",;")
            return list(csv.reader(file, delimiter=";" if LABEL in by_semicolon and LABEL not in by_comma else ","))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(explain(f"{path} is no CSV file: {error}", why="labels are read from it",
                                fix="write it as comma-separated text in UTF-8")) from error


def _header(lines: list[list[str]]) -> list[str]:
    """Return the names of the columns of a file."""
    return [name.strip() for name in lines[0]] if lines else []


def _in_capitals(header: Sequence[str]) -> str:
    """Return what to write for the names of rows and labels that have capitals, for a hint."""
    return "".join(f"; write {name.lower()} for {name}" for name in header
                   if name.lower() in (ROW, LABEL) and name.lower() not in header)


def _lines(path: Path, column: str | None, weight: str | None) -> Iterator[LabelLine]:
    """Yield the labeled lines of a file. column : of the identifiers; `ANY` if it is not known yet."""
    lines = _cells(path)
    header = _header(lines)
    other_columns = [name for name in header if name != LABEL]
    if column == ANY:
        column = other_columns[0] if other_columns and ROW not in other_columns else None
    is_identifier = column is not None and column in header
    naming = column if column is not None and is_identifier else ROW
    require(all(header.count(name) == 1 for name in (naming, LABEL)),
            f"{path} has the columns {', '.join(header) or '(none)'}",
            why=f"{ROW if column is None else f'{ROW} or {column}'} and {LABEL} are read from it", error=DataError,
            fix=f"put these names into its first line, separated by commas, as dssl suggest does{_in_capitals(header)}")
    name = header.index(naming)
    label = header.index(LABEL)
    numbered = [(number, cells) for number, cells in enumerate(lines[1:], start=2) if any(cells)]
    short = [number for number, cells in numbered if len(cells) != len(header)]
    require(not short, f"{path}, line {short[0] if short else 0}: its number of cells differs from the first line",
            error=DataError, why="a cell belongs to the column above it", fix="correct the commas of this line")
    for number, cells in numbered:
        if not is_missing_text(cells[label]):
            yield LabelLine(path, number, cells[name].strip(), is_identifier, cells[label].strip(),
                            cells[header.index(weight)].strip() if weight in header else None)
