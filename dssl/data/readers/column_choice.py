"""Selects the features and the target of a table by name or number."""

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from ...base.errors import DataError, explain, require
from .base import NO_TARGET, TARGET_NAMES, CellError
from .cells import CellCounts

Column = str | int
MAX_NAMED = 20  # columns


def find_columns(requested: Sequence[tuple[Column, str]], names: Sequence[str], file: str, *,
                 header: bool = True) -> list[int]:
    """Return the numbers of the columns that options name.

    requested : pairs of a column and the option that names it; a column is a name, or a number from 0, negative from
    the end. names : of all columns; numbers as text without a `header`.
    """
    numbers = [_number_of(column, names, file, option, header=header) for column, option in requested]
    unknown = [pair for pair, number in zip(requested, numbers, strict=True) if number is None]
    if unknown:
        options = dict.fromkeys(option for _, option in unknown)
        missing = " and ".join(f"{', '.join(repr(column) for column, by in unknown if by == option)} ({option})"
                               for option in options)
        near = [name for column, _ in unknown
                for name in difflib.get_close_matches(str(column), names, n=3, cutoff=0.4)]
        shown = ", ".join(map(repr, dict.fromkeys(near or names[:12])))
        raise DataError(explain(
            f"{file} has no column {missing}",
            why=f"it has {len(names)} columns" + (f", among them {shown}" if header else ", and no header"),
            fix=f"use one of these names, or a number from 0 to {len(names) - 1}"))
    return [number for number in numbers if number is not None]


def _number_of(column: Column, names: Sequence[str], file: str, option: str, *, header: bool) -> int | None:
    """Return the number of a column, None if there is no such column."""
    if isinstance(column, str) and header and column in names:
        require(names.count(column) == 1, f"{file} has {names.count(column)} columns named {column!r}",
                why=f"{option} is ambiguous", fix=f"use its number instead, from 0 to {len(names) - 1}")
        return names.index(column)
    if isinstance(column, str) and not header and column.lstrip("-").isdigit():
        column = int(column)
    return column % len(names) if isinstance(column, int) and -len(names) <= column < len(names) else None


def features_and_target(names: Sequence[str], file: str, *, target: Column | None, drop: Column | Collection[Column],
                        header: bool = True, never: Collection[int] = ()) -> tuple[tuple[int, ...], int | None]:
    """Return the numbers of the features, and the number of the target or None.

    The target is the requested column, or one named y, label, ..., or the last column that is not dropped.
    never : columns that are the target only if it is requested.
    """
    drop = (drop,) if isinstance(drop, (str, int)) else drop
    targets = [] if target is None or (target == NO_TARGET and NO_TARGET not in names) else [(target, "target")]
    numbers = find_columns([*targets, *((column, "drop") for column in drop)], names, file, header=header)
    chosen, dropped = (numbers[0] if targets else None), set(numbers[len(targets):])
    if target is None:
        left = [i for i in range(len(names)) if i not in dropped and i not in never]
        lower = [name.lower() for name in names]
        named = [lower.index(name) for name in TARGET_NAMES if header and name in lower]
        chosen = next((i for i in named if i in left), left[-1] if left else None)
    features = tuple(i for i in range(len(names)) if i != chosen and i not in dropped)
    if header:
        used = sorted({*features, *([] if chosen is None else [chosen])})
        refuse_same_names({i: names[i] for i in used if names[i]}, file, drop)
    require(len(features) > 0, f"{file} has no feature columns: {len(names)} in all", error=DataError,
            why="points without features cannot be told apart",
            fix="set `target: none` if no column has labels; for delimited text, delete lines above the names of the "
                "columns (titles, dates), and set `delimiter:` if it is wrong")
    return features, chosen


def refuse_no_features(categories: Collection[int], target: int | None, dropped: Sequence[int],
                       label: Callable[[int], str], file: str) -> None:
    """Raise DataError if `categories` names the target or dropped columns.

    dropped : the dropped columns among the categories. label : returns the name of a column in messages.
    """
    require(target is None or target not in categories, error=DataError,
            what=f"{file}: `categories` names the target, column {'' if target is None else label(target)}",
            why="categories are features; the classes of a target are never changed",
            fix="leave it out of `categories`, or name another column with `target:`")
    require(not dropped, f"{file}: `categories` names dropped columns: column {', '.join(map(label, dropped))}",
            why="a dropped column is not read", error=DataError,
            fix="leave it out of `categories`, or out of `drop`")


def refuse_same_names(names: Mapping[int, str], file: str, drop: Collection[Column] | None = ()) -> None:
    """Raise DataError if columns have the same name; names : by their numbers in the file.

    drop : the dropped columns, to which columns can be added by number; None if the format does not allow that.
    """
    counts = Counter(names.values())
    twice = [name for name, count in counts.items() if count > 1]
    first = {name: number for number, name in reversed([*names.items()])}
    more = [number for number, name in names.items() if number != first[name]]
    shown = [*more[:MAX_NAMED], *(["..."] if more[MAX_NAMED:] else [])]
    by_number = "" if drop is None else (f", or leave all but the first of each out by number (from 0): "
                                         f"`drop: [{', '.join(map(str, [*drop, *shown]))}]`")
    require(not twice, f"{file} has several columns named {', '.join(map(repr, twice[:5]))}", error=DataError,
            why="columns are identified by their names", fix=f"rename them in the file{by_number}")


def refuse_other_marks(texts: Mapping[int, CellCounts], mark: str, label: Callable[[int], str], file: str) -> None:
    """Raise DataError if columns of text are numbers with another decimal mark than the file has.

    texts : the counts of these columns, by number. label : returns the name of a column in messages.
    """
    other = "," if mark == "." else "."
    number = re.compile(rf"[+-]?\d+\{other}\d+")
    wrong = dict[int, str]()
    for field, counts in texts.items():
        cells = counts.others[mark].text
        if 0 < cells.texts == counts.rows - counts.missing - counts.gaps and all(
                number.fullmatch(text) for _, text in cells.examples):
            wrong[field] = cells.examples[0][1]
    shown = ", ".join(f"{label(field)} ({text})" for field, text in wrong.items())
    require(not wrong, f"{file}: numbers have the decimal mark {other!r} in column {shown}; that of the file is "
            f"{mark!r}", error=DataError, why="a file has one decimal mark, and these numbers would be text",
            fix="write all numbers with one mark, and set `decimal` if it is the other; if they are names, list the "
            "column in `categories`; `drop` leaves it out")


def text_is_no_feature(what: str, column: Column) -> CellError:
    """Return the error for a feature that is text, with possible fixes; `what` names the cell."""
    return CellError(explain(
        what, why="features are numbers; text has no distance",
        fix=f"if it is the target, set `target: {column}`; to leave it out, `drop: [{column}]`; if it is a category, "
            "`when_text: one_hot` makes one column of 0 and 1 of each; in CSV, if it marks a missing cell, `missing:`"))
