"""Which columns of a table are features and which one is the target: by name or by number."""

import difflib
from collections.abc import Collection, Sequence

from ...errors import DataError, explain, require
from .base import NO_TARGET, TARGET_NAMES, CellError

Column = str | int


def find_column(column: Column, names: Sequence[str], file: str, option: str, *, header: bool = True) -> int:
    """Return the number of the column that an option names.

    column : a name, or a number from 0, negative from the end. names : of all columns; numbers as text without a
    `header`. Raise DataError naming near ones if there is no such column, ParameterError if there are several.
    """
    if isinstance(column, str) and header and column in names:
        require(names.count(column) == 1, f"{file} has {names.count(column)} columns named {column!r}",
                why=f"{option} could be either", fix=f"give its number instead, from 0 to {len(names) - 1}")
        return names.index(column)
    if isinstance(column, str) and not header and column.lstrip("-").isdigit():
        column = int(column)
    if isinstance(column, int) and -len(names) <= column < len(names):
        return column % len(names)
    near = difflib.get_close_matches(str(column), names, n=3, cutoff=0.4) if header else []
    shown = ", ".join(repr(name) for name in (near or names[:12]))
    raise DataError(explain(
        f"{file} has no column {column!r} ({option})",
        why=f"it has {len(names)} columns" + (f", among them {shown}" if header else ", and no header"),
        fix=f"name one of them, or give its number from 0 to {len(names) - 1}"))


def features_and_target(names: Sequence[str], file: str, *, target: Column | None, drop: Column | Collection[Column],
                        header: bool = True, never: Collection[int] = ()) -> tuple[tuple[int, ...], int | None]:
    """Return the numbers of the features, and that of the target or None.

    The target is the column asked for, or one named y, label, ..., or the last one that is not dropped.
    never : columns that are the target only where it is asked for.

    Raise DataError or ParameterError as `find_column`, or if no column is left that is a feature.
    """
    drop = (drop,) if isinstance(drop, (str, int)) else drop
    dropped = {find_column(column, names, file, "drop", header=header) for column in drop}
    chosen: int | None = None
    if target is not None and (target != NO_TARGET or NO_TARGET in names):
        chosen = find_column(target, names, file, "target", header=header)
    elif target is None:
        left = [i for i in range(len(names)) if i not in dropped and i not in never]
        lower = [name.lower() for name in names]
        named = [lower.index(name) for name in TARGET_NAMES if header and name in lower]
        chosen = next((i for i in named if i in left), left[-1] if left else None)
    features = tuple(i for i in range(len(names)) if i != chosen and i not in dropped)
    require(len(features) > 0, f"{file} has no feature columns: {len(names)} in all", error=DataError,
            why="points without features cannot be told apart",
            fix="set `target: none` if none of them is labels; of text, `delimiter:` if that separates the fields")
    return features, chosen


def text_is_no_feature(what: str, column: Column) -> CellError:
    """Return the error for a feature that is text, with the ways out; `what` says where."""
    return CellError(explain(
        what, why="features are numbers; text has no distance",
        fix=f"if it is the target, set `target: {column}`; to leave it out, `drop: [{column}]`; if it is a category, "
            "`when_text: one_hot` makes one column of 0 and 1 of each; in CSV, if it marks a missing cell, `missing:`"))
