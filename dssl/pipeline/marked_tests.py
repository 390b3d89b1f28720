"""Test rows that a column of the source marks, or that are whole groups of rows, such as the visits of a patient."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.digest import JsonObject
from ..base.errors import DataError, explain, require
from ..data.ingest_params import IngestParams
from ..data.labels import DRAW_ROWS
from ..methods.data_sections import TestSplit
from ..methods.step import Context
from ..storage.artifacts import Artifact
from ..storage.blocks import Rows, RowStream
from .dataset import cells_of, table_of
from .rows_in_use import RowsInUse
from .tags import ENTRIES, SHOWN

MARKED, GROUPED = "marked", "grouped"  # parts of the stage `split`, while it reads them
WORDS = {"train": 0, "training": 0, "test": 1, "testing": 1}
MARKS = {**ENTRIES, **WORDS}
NEITHER = 2  # the mark of a cell that says neither
NO_GROUP = 0  # the number of a row without a group
OF_GROUP = 100  # bytes of a labeled row while groups are counted, each row a group of its own; measured


def marked_rows(context: Context, test: TestSplit, read: IngestParams, used: RowsInUse) -> Rows:
    """Return whether the column `test.column` marks each row of the source as a test row, (n,) uint8.

    Raises DataError: a row in use is marked as neither, all rows as the same.
    """
    column = str(test.column)

    def marks() -> Iterator[np.ndarray]:
        for _, (cells,), _ in cells_of(context, read, [column]):
            yield np.array([MARKS.get(cell.strip().casefold(), NEITHER) for cell in cells], np.uint8)

    rows = _written(context, MARKED, marks(), np.uint8)
    counts = np.zeros(NEITHER, np.int64)
    for block in used.blocks():
        of_block = rows.take(block.rows)
        _require_rows(context, read, column, block.rows[of_block == NEITHER],
                      "data.test.column says of each row whether it is trained on or tested",
                      "write train or test, or 0 or 1, in each row, and leave out rows of another part")
        counts += np.bincount(of_block, minlength=NEITHER)
    for mark, word in enumerate(("train", "test")):
        require(counts[mark] > 0, f"no row says {word} in the column {column!r}", error=DataError,
                why="rows of one part are learned from, and those of the other tell how good the model is",
                fix="name the column of the split, or set data.test: {fraction: 0.2}")
    return rows


@dataclass(frozen=True)
class TestedGroups:
    """rows (n,) uint8 : whether each row of the source is of a group that tests. described : JSON of the groups."""

    rows: Rows
    described: JsonObject


def tested_groups(context: Context, test: TestSplit, read: IngestParams, used: RowsInUse,
                  random_state: int) -> TestedGroups:
    """Draw the groups that test; where a split grows, those of its base stay what they are.

    In a random order, which follows from names and seed, groups are taken until the share `fraction` of the labeled
    rows tests; left out are groups that would be more than half too many, and the last with a class. Groups that come
    later test with the probability `fraction`.

    Raises DataError: a labeled row has no group, no group can be tested.
    """
    assert test.fraction is not None
    column = str(test.groups)
    groups = _groups(context, read, column, random_state)
    counts = [pd.DataFrame({"group": np.empty(0, np.uint64), "stratum": np.empty(0, np.int64), "n": 0})]
    for block in used.blocks():
        labeled = block.rows[block.strata >= 0]
        of_labeled = groups.take(labeled)
        _require_rows(context, read, column, labeled[of_labeled == NO_GROUP],
                      "data.test.groups says of each labeled row which group it is of; NA, NULL and NaN of a text file "
                      "are missing cells", "name its group, or give the row a group of its own")
        rows = pd.DataFrame({"group": of_labeled, "stratum": block.strata[block.strata >= 0]})
        counts.append(rows.groupby(["group", "stratum"], as_index=False).size().rename(columns={"size": "n"}))
    pairs = pd.concat(counts).groupby(["group", "stratum"], as_index=False)["n"].sum()
    if context.base is None:
        tested = drawn_groups(pairs, column, test.fraction)
    else:
        tested = _grown(context.base, groups, pairs, test.fraction)
    is_tested = (np.isin(of_rows, tested).astype(np.uint8) for _, of_rows in groups.blocks(DRAW_ROWS))
    rows_tested = _written(context, MARKED, is_tested, np.uint8)
    context.parts.within(GROUPED).remove()
    labeled_groups = pairs["group"].unique()
    return TestedGroups(rows_tested, {"column": column, "n": len(labeled_groups),
                                      "n_labeled": int(pairs["n"].sum()), "fraction": test.fraction,
                                      "n_tested": int(np.isin(labeled_groups, tested).sum())})


def drawn_groups(pairs: pd.DataFrame, column: str, fraction: float) -> np.ndarray:
    """Return the groups that test, ascending; pairs : the labeled rows `n` of each `group` and `stratum`, by group.

    Raises DataError: there is none.
    """
    group, stratum, count = (pairs[name].to_numpy() for name in ("group", "stratum", "n"))
    edges = np.append(np.flatnonzero(group[1:] != group[:-1]) + 1, len(group))
    left = np.bincount(stratum, count).astype(np.int64)
    wanted = fraction * left.sum()
    tested = list[int]()
    n_tested = 0
    first = 0
    for last in edges.tolist():
        of_group, size = stratum[first:last], int(count[first:last].sum())
        if n_tested + size / 2 <= wanted and (left[of_group] > count[first:last]).all():
            tested.append(group[first])
            left[of_group] -= count[first:last]
            n_tested += size
        if n_tested >= wanted:
            break
        first = last
    require(bool(tested), f"none of the {len(edges):,} groups of {column!r} can be tested", error=DataError,
            why=f"a group is tested as a whole; each has more than twice the share {fraction:g} of the labeled rows, "
            "or the only rows of a class", fix="raise data.test.fraction, name a column of smaller groups, or set "
            "data.test: {none: true}")
    return np.array(tested, np.uint64)


def _grown(base: Artifact, groups: Rows, pairs: pd.DataFrame, fraction: float) -> np.ndarray:
    """Return the groups that test: those that do in the base, and of new ones those whose numbers say so."""
    of_base = {name: np.empty(0, np.uint64) for name in ("train", "test")}
    for name in of_base:
        for _, rows in base.parts.rows(name).blocks(DRAW_ROWS):
            of_base[name] = np.union1d(of_base[name], groups.take(rows))
    labeled = pairs["group"].unique()
    new = labeled[~np.isin(labeled, np.union1d(of_base["train"], of_base["test"]))]
    return np.union1d(of_base["test"], new[new < np.uint64(int(fraction * 2.0**64))])


def _groups(context: Context, read: IngestParams, column: str, random_state: int) -> Rows:
    """Return a number of the group of each row of the source, (n,) uint64, at random by its name and a seed.

    Zero fractions count for nothing: a column of numbers with empty cells may be written as 12.0.
    """
    key = f"{random_state:016x}"[-16:]
    decimal = context.attributes("dataset")["dataset"].get("decimal")

    def numbers() -> Iterator[np.ndarray]:
        for _, (cells,), table in cells_of(context, read, [column]):
            names, is_missing = table.names_of_groups(cells, decimal)
            of_names = np.maximum(pd.util.hash_array(np.array(names, object), hash_key=key), NO_GROUP + 1)
            yield np.where(is_missing, np.uint64(NO_GROUP), of_names)

    return _written(context, GROUPED, numbers(), np.uint64)


def _written(context: Context, name: str, blocks: Iterator[np.ndarray], dtype: type) -> Rows:
    stream = RowStream(context.parts.within(name), name, context.attributes("dataset")["n"], dtype)
    for block in blocks:
        stream.add(block)
    stream.close()
    return context.parts.within(name).rows(name)


def _require_rows(context: Context, read: IngestParams, column: str, wrong: np.ndarray, why: str, fix: str) -> None:
    """Raise DataError, with the first of its cells, if there are `wrong` rows."""
    if not len(wrong):
        return
    with table_of(context, read) as table:
        assert table is not None
        row = int(wrong[0])
        cell, = table.cells(column, wrong[:1])
        line, = table.called([row], None)
    place = f"row {row} (counted from 0{f'; {line}' if line else ''})"
    more = f", and at least {len(wrong) - 1:,} more rows cannot be used" if len(wrong) > 1 else ""
    raise DataError(explain(f"{context.files['source'].source.name}: {place} of the column {column!r} is "
                            f"{repr(cell[:SHOWN]) if cell.strip() else 'empty'}{more}", why=why, fix=fix))
