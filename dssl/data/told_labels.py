"""Labels from a file beside the data: a CSV whose columns `row` and `label` name rows of the source, counted from 0.

`dssl suggest` writes such a file with empty labels. Other columns say nothing here.
"""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import DataError, explain, require
from ..missing import is_missing_text

COLUMNS = ("row", "label")


def read_told_labels(paths: Sequence[Path]) -> tuple[np.ndarray, list[str], list[str]]:
    """Return the rows (t,) that some files give a label, ascending, these labels as text, and file and line of each.

    An empty label is none.

    Raises
    ------
    DataError : a file is no CSV with these columns, or names no row; a row has two labels; no row has any.
    """
    told: dict[int, tuple[str, str]] = {}
    for path in paths:
        for line, row, label in _lines(path):
            require(row.isascii() and row.isdigit() and len(row) < 19, f"{path}, line {line}: row {row!r}",
                    error=DataError, why="a row is its number in the source, counted from 0",
                    fix="leave the column row as dssl suggest wrote it")
            known, place = told.setdefault(int(row), (label, f"{path}, line {line}"))
            require(known == label, f"{path}, line {line}: row {row} is {label!r}, and was {known!r} in {place}",
                    error=DataError, why="a point has one label", fix="correct one of the two lines, or remove it")
    require(bool(told), f"{', '.join(map(str, paths))}: no row has a label", error=DataError,
            why="it would add nothing", fix="fill in the column label, or leave labels.file out")
    rows = sorted(told)
    return np.array(rows, np.int64), [told[row][0] for row in rows], [told[row][1] for row in rows]


def _lines(path: Path) -> list[tuple[int, str, str]]:
    """Return the number of each line that has a label, counted from 1, its row and its label, as text."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(explain(f"{path} is no CSV file: {error}", why="labels are read from it",
                                fix="write it as comma-separated text in UTF-8")) from error
    header = [name.strip() for name in lines[0]] if lines else []
    require(all(header.count(name) == 1 for name in COLUMNS), f"{path} has the columns {', '.join(header) or '(none)'}",
            why=f"{' and '.join(COLUMNS)} are read from it", error=DataError,
            fix="name these columns in its first line, separated by commas, as dssl suggest does")
    row, label = (header.index(name) for name in COLUMNS)
    numbered = [(number, cells) for number, cells in enumerate(lines[1:], start=2) if any(cells)]
    short = [number for number, cells in numbered if len(cells) != len(header)]
    require(not short, f"{path}, line {short[0] if short else 0}: not as many cells as the first line has",
            error=DataError, why="a cell belongs to the column above it", fix="correct the commas of this line")
    return [(number, cells[row].strip(), cells[label].strip()) for number, cells in numbered
            if not is_missing_text(cells[label])]
