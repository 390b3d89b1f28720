"""Test rows that a column of the source marks, or that are whole groups of rows, such as the visits of a patient."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..base.errors import DataError, require
from ..data.labels import DRAW_ROWS
from ..methods.step import Context
from ..storage.artifacts import Artifact
from ..storage.blocks import Rows, RowStream
from .dataset import table_of
from .rows_in_use import MarkParams, RowsInUse

MARKED, GROUPED = "marked", "grouped"  # parts of the stage `split`, while it reads them
SHOWN = 60  # characters of a cell that an error shows
WORDS = {"train": 0, "training": 0, "test": 1, "testing": 1}
MARKS = {"0": 0, "0.0": 0, "false": 0, "1": 1, "1.0": 1, "true": 1, **WORDS}
WHOLE = re.compile(r"^([1-9]\d*|0)\.0+$")  # a whole number that is written with zeros
OF_GROUP = 100  # bytes of a row while groups are counted, each row a group of its own; measured


def marked_rows(context: Context, params: MarkParams) -> Rows:
    """Return whether the column marks each row of the source as a test row, (n,) uint8.

    Raises DataError: a cell says neither.
    """
    stream = RowStream(context.parts.within(MARKED), MARKED, context.attributes("dataset")["n"], np.uint8)
    for begin, cells, is_missing in _cells(context, params):
        marks = np.array([MARKS.get(cell.strip().casefold(), -1) for cell in cells], np.int8)
        wrong = np.flatnonzero((marks < 0) | is_missing).tolist()
        require(not wrong, error=DataError, what="" if not wrong else
                f"{context.files['source'].source.name}: row {begin + wrong[0]} of the column {params.column!r} is "
                f"{cells[wrong[0]][:SHOWN]!r}", why=f"{params.key} says of each row whether it is trained on or tested",
                fix="write train or test, or 0 or 1, in each row")
        stream.add(marks.astype(np.uint8))
    stream.close()
    return context.parts.within(MARKED).rows(MARKED)


@dataclass(frozen=True)
class TestedGroups:
    """tested : whether each row of the source is of a group that tests, (n,) uint8. n_groups : those with a label.

    n_tested : of the groups.
    """

    tested: Rows
    n_groups: int
    n_tested: int


def tested_groups(context: Context, params: MarkParams, used: RowsInUse, random_state: int) -> TestedGroups:
    """Draw the groups that test; where a split grows, those of its base stay what they are.

    In a random order, which follows from names and seed, groups are taken until the share `fraction` of the labeled
    rows tests; left out are groups that would be more than half too many, and the last with a class. Groups that come
    later test with the probability `fraction`.

    Raises DataError: no group can be tested.
    """
    assert params.fraction is not None
    groups = _groups(context, params, random_state)
    pairs = _counted(used, groups)
    if context.base is None:
        names = _drawn(pairs, params)
    else:
        names = np.union1d(_grown(context.base, groups, pairs, params.fraction), np.empty(0, np.uint64))
    stream = RowStream(context.parts.within(MARKED), MARKED, len(groups), np.uint8)
    for _, block in groups.blocks(DRAW_ROWS):
        stream.add(np.isin(block, names).astype(np.uint8))
    stream.close()
    context.parts.within(GROUPED).remove()
    return TestedGroups(context.parts.within(MARKED).rows(MARKED), pairs["group"].nunique(), len(names))


def _cells(context: Context, params: MarkParams) -> Iterator[tuple[int, list[str], np.ndarray]]:
    """Yield the first row, the cells of the column, and which are missing, rows after rows."""
    begin = 0
    with table_of(context, params.read) as table:
        assert table is not None  # the column is one of a table, or the source was refused
        for block in table.blocks([params.column]):
            cells, = block.cells
            yield begin, cells, table.missing(cells)
            begin += len(cells)


def _groups(context: Context, params: MarkParams, random_state: int) -> Rows:
    """Return 64 random bits of the group of each row of the source, (n,) uint64, which its name and a seed say.

    Zero fractions count for nothing: a column of numbers with empty cells may be written as 12.0.
    """
    stream = RowStream(context.parts.within(GROUPED), GROUPED, context.attributes("dataset")["n"], np.uint64)
    key = f"{random_state:016x}"[-16:]
    name = context.files["source"].source.name
    for begin, cells, is_missing in _cells(context, params):
        require(not is_missing.any(), error=DataError, what=f"{name}: row {begin + int(np.argmax(is_missing))} of the "
                f"column {params.column!r} is empty", why=f"{params.key} says of each row which group it is of",
                fix="name its group, or give the row a group of its own")
        names = np.array([WHOLE.sub(r"\1", cell.strip()) for cell in cells], object)
        stream.add(pd.util.hash_array(names, hash_key=key))
    stream.close()
    return context.parts.within(GROUPED).rows(GROUPED)


def _counted(used: RowsInUse, groups: Rows) -> pd.DataFrame:
    """Return the labeled rows in use, `n`, of each `group` and `stratum`; by group, ascending."""
    counts = [pd.DataFrame({"group": np.empty(0, np.uint64), "stratum": np.empty(0, np.int64), "n": 0})]
    for block in used.blocks():
        known = block.strata >= 0
        rows = pd.DataFrame({"group": groups.take(block.rows[known]), "stratum": block.strata[known]})
        counts.append(rows.groupby(["group", "stratum"], as_index=False).size().rename(columns={"size": "n"}))
    return pd.concat(counts).groupby(["group", "stratum"], as_index=False)["n"].sum()


def _drawn(pairs: pd.DataFrame, params: MarkParams) -> np.ndarray:
    """Return the groups that test, of `_counted`."""
    assert params.fraction is not None
    left = np.bincount(pairs["stratum"], pairs["n"]).astype(np.int64)
    wanted, n, tested = params.fraction * left.sum(), 0, []
    group, stratum, count = (pairs[name].to_numpy() for name in ("group", "stratum", "n"))
    edges = np.append(np.flatnonzero(group[1:] != group[:-1]) + 1, len(group))
    first = 0
    for last in edges.tolist():
        of_group, size = stratum[first:last], int(count[first:last].sum())
        if n + size / 2 <= wanted and (left[of_group] > count[first:last]).all():
            tested.append(group[first])
            left[of_group] -= count[first:last]
            n += size
        if n >= wanted:
            break
        first = last
    require(bool(tested), f"none of the {len(edges):,} groups of {params.column!r} can be tested", error=DataError,
            why=f"a group is tested as a whole; each has more than twice the share {params.fraction:g} of the labeled "
            "rows, or the only rows of a class", fix="raise data.test.fraction, name a column of smaller groups, or "
            "set data.test: {none: true}")
    return np.array(tested, np.uint64)


def _grown(base: Artifact, groups: Rows, pairs: pd.DataFrame, fraction: float) -> np.ndarray:
    """Return the groups that test: those that do in the base, and of new ones those whose bits say so."""
    of_base = {name: np.unique(groups.take(base.parts.rows(name).read_all())) for name in ("train", "test")}
    of_rows = pairs["group"].unique()
    new = of_rows[~np.isin(of_rows, np.concatenate([*of_base.values()]))]
    return np.union1d(of_base["test"], new[new < np.uint64(int(fraction * 2.0**64))])
