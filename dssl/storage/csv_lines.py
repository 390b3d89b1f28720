"""Lines of delimited text, the one way in which dssl writes them."""

import csv
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet takes a cell for a formula


class CsvLines:
    """Writes lines of cells to a file.

    safe : whether text that a spreadsheet would take for a formula gets an apostrophe before it; numbers stay.
    """

    def __init__(self, file: TextIO, safe: bool = False):
        self._writer = csv.writer(file, lineterminator="\n")
        self._safe = safe

    def write(self, cells: Sequence[Any]) -> None:
        """Write one line."""
        self._writer.writerow([harmless(cell) for cell in cells] if self._safe else cells)

    def write_all(self, lines: Iterable[Sequence[Any]]) -> None:
        """Write many lines."""
        self._writer.writerows(([harmless(cell) for cell in cells] for cells in lines) if self._safe else lines)


def harmless(cell: Any) -> Any:
    """Return a cell as a spreadsheet shows it and does not compute it: text that begins a formula after an apostrophe.

    Text that is a number, such as "-1.5", computes nothing and stays.
    """
    if not isinstance(cell, str) or not cell.startswith(FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
