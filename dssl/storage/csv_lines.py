"""Writes CSV files, optionally with cells that are safe to open in a spreadsheet."""

import csv
from collections.abc import Iterable, Sequence
from typing import TextIO

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes a cell that begins with one of these for a formula


class CsvLines:
    """Writes lines of cells to a file.

    safe : whether text that a spreadsheet would take for a formula is prefixed with an apostrophe.
    """

    def __init__(self, file: TextIO, safe: bool = False):
        self._writer = csv.writer(file, lineterminator="\n")
        self._safe = safe

    def write(self, cells: Sequence[object]) -> None:
        """Write one line."""
        self._writer.writerow([harmless(cell) for cell in cells] if self._safe else cells)

    def write_all(self, lines: Iterable[Sequence[object]]) -> None:
        """Write many lines."""
        self._writer.writerows(([harmless(cell) for cell in cells] for cells in lines) if self._safe else lines)


def harmless(cell: object) -> object:
    """Return a cell that a spreadsheet does not evaluate: an apostrophe precedes text that begins like a formula.

    Text that is a number, such as "-1.5", stays.
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
