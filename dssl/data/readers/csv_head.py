"""Guess from the first records of delimited text its delimiter, and whether the first one names the columns."""

import csv
import io

from .base import TARGET_NAMES
from .cell_text import is_number

DELIMITERS = "\t;|,"  # of two that occur equally often, the earlier
WHITESPACE = "whitespace"
FEWEST_COUNTED = 3  # numbers 0, 1, 2 or 1, 2, 3 that name columns; fewer may well be values


def find_delimiter(line: str, decimal: str = ".") -> str:
    """Return the delimiter that splits a line into most fields; whitespace if no other occurs."""
    counts = {mark: len(next(csv.reader([line], delimiter=mark))) - 1 for mark in DELIMITERS if mark != decimal}
    best = max(counts, key=lambda mark: counts[mark])
    if counts[best]:
        return best
    return WHITESPACE if len(line.split()) > 1 else ","


def first_records(text: str, delimiter: str) -> list[list[str]]:
    """Return the first two records that are not blank."""
    if delimiter == WHITESPACE:
        records = csv.reader((" ".join(line.split()) for line in text.splitlines()), delimiter=" ")
    else:
        records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    first_two: list[list[str]] = []
    for record in records:
        if len(record) > 1 or "".join(record).strip():
            first_two.append(record)
            if len(first_two) == 2:
                break
    return first_two


def looks_like_header(records: list[list[str]], missing: list[str]) -> bool:
    """Return whether the first record names columns.

    It does if no cell of it is a number, or if a cell is text where the next record has a number. pandas writes
    numbers that count the columns where they have no names: these are names if the record also names a target, or if
    there are several and the next record has a fraction.
    """
    first = [cell.strip() for cell in records[0]]
    numbers = [cell for cell in first if is_number(cell)]
    is_text = [cell not in missing and not is_number(cell) for cell in first]
    if any(is_text) and not numbers:
        return True
    second = records[1] if len(records) > 1 else []
    if any(text and is_number(cell) for text, cell in zip(is_text, second, strict=False)):
        return True
    if not any(numbers == [str(i + begin) for i in range(len(numbers))] for begin in (0, 1)):
        return False
    has_fraction = any(is_number(cell) and not cell.strip().lstrip("+-").isdigit() for cell in second)
    return any(cell.lower() in TARGET_NAMES for cell in first) or (len(numbers) >= FEWEST_COUNTED and has_fraction)
