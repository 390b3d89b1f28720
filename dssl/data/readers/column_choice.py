"""Which columns of a table are features and which one is the target: by name or by number."""

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from ...base.errors import DataError, explain, require
from .base import NO_TARGET, TARGET_NAMES, CellError

Column = str | int
MAX_NAMED = 20  # columns


def find_columns(asked: Sequence[tuple[Column, str]], names: Sequence[str], file: str, *,
                 header: bool = True) -> list[int]:
    """Return the numbers of the columns that options name.

    asked : each a name, or a number from 0, negative from the end, and the option that names it. names : of all
    columns; numbers as text without a `header`. Raise DataError of all columns that there are not, naming near ones,
    ParameterError if a name is that of several.
    """
    numbers = [_number_of(column, names, file, option, header=header) for column, option in asked]
    lost = [pair for pair, number in zip(asked, numbers, strict=True) if number is None]
    if lost:
        options = dict.fromkeys(option for _, option in lost)
        missing = " and ".join(f"{', '.join(repr(column) for column, other in lost if other == option)} ({option})"
                               for option in options)
        near = [name for column, _ in lost for name in difflib.get_close_matches(str(column), names, n=3, cutoff=0.4)]
        shown = ", ".join(map(repr, dict.fromkeys(near or names[:12])))
        raise DataError(explain(
            f"{file} has no column {missing}",
            why=f"it has {len(names)} columns" + (f", among them {shown}" if header else ", and no header"),
            fix=f"name one of them, or give its number from 0 to {len(names) - 1}"))
    return [number for number in numbers if number is not None]


def _number_of(column: Column, names: Sequence[str], file: str, option: str, *, header: bool) -> int | None:
    """Return the number of a column, None if there is no such column."""
    if isinstance(column, str) and header and column in names:
        require(names.count(column) == 1, f"{file} has {names.count(column)} columns named {column!r}",
                why=f"{option} could be either", fix=f"give its number instead, from 0 to {len(names) - 1}")
        return names.index(column)
    if isinstance(column, str) and not header and column.lstrip("-").isdigit():
        column = int(column)
    return column % len(names) if isinstance(column, int) and -len(names) <= column < len(names) else None


def features_and_target(names: Sequence[str], file: str, *, target: Column | None, drop: Column | Collection[Column],
                        header: bool = True, never: Collection[int] = ()) -> tuple[tuple[int, ...], int | None]:
    """Return the numbers of the features, and that of the target or None.

    The target is the column asked for, or one named y, label, ..., or the last one that is not dropped.
    never : columns that are the target only where it is asked for.

    Raise DataError or ParameterError as `find_columns`, or if no column is left that is a feature.
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
            fix="set `target: none` if none of them is labels; of text, `delimiter:` if that separates the fields")
    return features, chosen


def refuse_no_features(categories: Collection[int], target: int | None, dropped: Sequence[int],
                       label: Callable[[int], str], file: str) -> None:
    """Raise DataError if `categories` names the target, or columns that are dropped.

    dropped : those among them. label : what messages call a column.
    """
    require(target is None or target not in categories, error=DataError,
            what=f"{file}: `categories` names the target, column {'' if target is None else label(target)}",
            why="categories are features; the classes of a target stay as they are written",
            fix="leave it out of `categories`, or name another column with `target:`")
    require(not dropped, f"{file}: `categories` names what is dropped: column {', '.join(map(label, dropped))}",
            why="a column that is dropped is not read", error=DataError,
            fix="leave it out of `categories`, or out of `drop`")


def refuse_same_names(names: Mapping[int, str], file: str, drop: Collection[Column] | None = ()) -> None:
    """Raise DataError if columns have the same name; names : by their numbers in the file.

    drop : columns that are left out, to which others can be added by number; None where they cannot.
    """
    counts = Counter(names.values())
    twice = [name for name, count in counts.items() if count > 1]
    first = {name: number for number, name in reversed([*names.items()])}
    more = [number for number, name in names.items() if number != first[name]]
    shown = [*more[:MAX_NAMED], *(["..."] if more[MAX_NAMED:] else [])]
    by_number = "" if drop is None else (f", or leave all but the first of each out by number (from 0): "
                                         f"`drop: [{', '.join(map(str, [*drop, *shown]))}]`")
    require(not twice, f"{file} has several columns named {', '.join(map(repr, twice[:5]))}", error=DataError,
            why="columns are told apart by their names", fix=f"rename them in the file{by_number}")


def text_is_no_feature(what: str, column: Column) -> CellError:
    """Return the error for a feature that is text, with the ways out; `what` says where."""
    return CellError(explain(
        what, why="features are numbers; text has no distance",
        fix=f"if it is the target, set `target: {column}`; to leave it out, `drop: [{column}]`; if it is a category, "
            "`when_text: one_hot` makes one column of 0 and 1 of each; in CSV, if it marks a missing cell, `missing:`"))
