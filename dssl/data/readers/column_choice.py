"""Which column of a table an option means: by name or by number, for the target and for columns to leave out."""

import difflib
from collections.abc import Collection, Sequence

from ...errors import DataError, explain, require
from .base import NO_TARGET, TARGET_NAMES


def find_column(column: str | int, names: Sequence[str], file: str, option: str, *, header: bool = True) -> int:
    """Return the number of the column that an option names.

    Parameters
    ----------
    column : a name, or a number from 0, negative from the end. names : of all columns; numbers as text without a
        `header`. file, option : for the message.

    Raises
    ------
    DataError : there is no such column; the message names those that are near. ParameterError : there are several.
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
        fix=f"name one of them, or give its number from 0 to {len(names) - 1}",
    ))


def find_target(target: str | int | None, names: Sequence[str], dropped: Collection[int], file: str, *,
                header: bool = True) -> int | None:
    """Return the number of the target's column: the one asked for, or one named y, label, ..., or the last one kept.

    Raises
    ------
    DataError, ParameterError : as `find_column`.
    """
    if target == NO_TARGET and NO_TARGET not in names:
        return None
    if target is not None:
        return find_column(target, names, file, "target", header=header)
    lower = [name.lower() for name in names]
    named = [lower.index(name) for name in TARGET_NAMES if header and name in lower]
    kept = [i for i in range(len(names)) if i not in dropped]
    return next((i for i in named if i not in dropped), kept[-1] if kept else None)
