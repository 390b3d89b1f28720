"""Which columns of a table hold several labels a point, before a spec says so."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.findings import ColumnRecord
from ...data.readers.file_rows import FileRows
from ...learners.target.coding import SEPARATORS
from ...pipeline.tags import ENTRIES, tags_in
from .first_look import Look
from .first_target import MANY_EMPTY, NAMED

NAMED_TAGS = ("tags", "topics", "labels", "keywords", "genres", "categories", "subjects")
SHOWN = 6  # tags, and columns, that a comment names
SEVERAL = 0.1  # the share of the cells with more than one tag, of a column of tags
REPEATED = 3.0  # how often each tag occurs at least, in the mean
MAX_WORDS = 3  # of a tag, where only the cells say that a column is one of tags
SAME_ROWS = 0.8  # the share of the empty cells of a column of one tag that are empty in the columns of all tags


@dataclass(frozen=True)
class FirstTags:
    """The columns of tags, as `data.tags` names them, and why.

    n_known, n_rows : the rows with tags, and all. names : of the tags, the most frequent first.
    """

    section: dict[str, Any]
    why: str
    n_known: int
    n_rows: int
    names: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        return list(self.section.get("columns") or [self.section["column"]])

    @property
    def in_words(self) -> str:
        """Return what was seen, as a comment says it."""
        more = f" and {len(self.names) - SHOWN} more" if len(self.names) > SHOWN else ""
        return (f"several labels a row: {self.why}; known in {self.n_known:,} of {self.n_rows:,} rows; "
                f"{len(self.names)} tags: {', '.join(self.names[:SHOWN])}{more}")


def find_tags(look: Look, target: str | None) -> FirstTags | None:
    """Return the columns of tags: one that is asked for, has the name of tags or lists some, or several of 0 and 1.

    target : the column that is asked for; None where none is.
    """
    rows = FileRows.of(look.reader, look.scan.n_rows) if look.is_table else None
    if rows is None:
        return None
    named = [target] if target is not None else [name for name in rows.names if name.lower() in NAMED_TAGS]
    for name in named:
        tags = _listed_in(rows, name) if name in rows.names else None
        if tags is not None:
            return tags
    if target is not None:
        return None
    return _of_columns(rows, look.records or (), look.scan.n_rows, look.scan.target) or _by_content(rows, look)


def _by_content(rows: FileRows, look: Look) -> FirstTags | None:
    """Return the column of text or lists whose cells list tags, where it is the only one.

    It is the last column, or has many empty cells, as labels have; others are features. None where another column has
    the name of a target.
    """
    if {name.lower() for name in rows.names} & {*NAMED}:
        return None
    texts = {record.name for record in look.records or () if record.kind in ("text", "category")}
    candidates = [name for name in rows.names if name in texts or name in look.unusable or name == look.scan.target]
    tagged = [tags for name in candidates if (tags := _listed_in(rows, name, max_words=MAX_WORDS)) is not None
              and (name == rows.names[-1] or tags.n_known <= (1 - MANY_EMPTY) * tags.n_rows)]
    return tagged[0] if len(tagged) == 1 else None


def _listed_in(rows: FileRows, column: str, max_words: int | None = None) -> FirstTags | None:
    """Return a column as one of tags where its cells list some, in one of the ways that `data.tags` reads.

    max_words : of each tag, None for any number.
    """
    cells = [cell for block in rows.blocks([column]) for cell in block.cells[0]]
    known = [cell for cell, is_missing in zip(cells, rows.missing(cells), strict=True) if not is_missing]
    for separator in (None, *SEPARATORS):
        try:
            tags = [tags_in(cell, separator) for cell in known]
        except (ValueError, SyntaxError):
            continue
        sizes = np.array([len(each) for each in tags])
        names, counts = np.unique([tag for each in tags for tag in each], return_counts=True)
        if not len(names) or counts.mean() < REPEATED or len(names) < 2:
            continue
        if max_words is not None and max(len(name.split()) for name in names.tolist()) > max_words:
            continue
        if max_words is not None and separator == "," and len(names) > 2 and sizes.max() < 3:
            continue  # a place or a name may have two parts
        if separator is None or ((sizes > 1).mean() >= SEVERAL and len(np.unique(sizes)) > 1 and _combine(tags)):
            section = {"column": column} | ({} if separator is None else {"separator": separator})
            share = f"{(sizes > 1).mean():.0%} of its cells list several"
            how = "its cells are lists" if separator is None else f"{share}, separated by {separator!r}"
            order = np.argsort(-counts, kind="stable")
            return FirstTags(section, how, len(known), len(cells), tuple(names[order].tolist()))
    return None


def _combine(tags: Sequence[Sequence[str]]) -> bool:
    """Return whether the parts of cells combine, as tags do and the words in the names of classes do not.

    There are more different cells than parts, and a part is beside different parts in two of them, or both of two parts
    are alone in others: not so where "Arts, Culture" is a class beside "Sports".
    """
    cells = {frozenset(each) for each in tags if each}
    partners = Counter(tag for cell in cells if len(cell) > 1 for tag in cell)
    n_parts = len(set().union(*cells))
    return len(cells) > n_parts and (n_parts == 2 or max(partners.values(), default=0) > 1)


def _of_columns(rows: FileRows, records: Sequence[ColumnRecord], n_rows: int,
                target: str | None) -> FirstTags | None:
    """Return the columns of 0 and 1 that are empty in nearly the same rows, where there are several.

    records : of the columns but the one that was read as the target.
    """
    empty = [name for name in rows.names if name == target or any(
        record.name == name and MANY_EMPTY * n_rows <= (record.missing or 0) < n_rows for record in records)]
    if len(empty) < 2:
        return None
    gaps, columns = list[np.ndarray](), list[str]()
    for name in empty:
        cells = [cell for block in rows.blocks([name]) for cell in block.cells[0]]
        missing = rows.missing(cells)
        entries = {ENTRIES.get(cell.strip().casefold()) for cell, gone in zip(cells, missing, strict=True) if not gone}
        if name == target and (entries != {0, 1} or missing.mean() < MANY_EMPTY):
            continue
        columns.append(name)
        gaps.append(missing)
        if entries != {0, 1}:
            return None
    if len(columns) < 2:
        return None
    unknown = np.all(gaps, axis=0)
    if unknown.sum() < SAME_ROWS * max(missing.sum() for missing in gaps):
        return None
    why = "columns of 0 and 1 that are empty in the same rows"
    if any((missing != unknown).any() for missing in gaps):
        why += ", and in single cells, whose tag is unknown"
    return FirstTags({"columns": columns}, why, int((~unknown).sum()), n_rows, tuple(columns))
