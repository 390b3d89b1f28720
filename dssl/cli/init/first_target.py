"""Which column of a table is the target, before a spec says so.

Columns that are the coordinates of one vector a row, such as an embedding, are features, and no target.
"""

import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...base.errors import DataError, explain
from ...base.yaml import yaml_of
from ...data.findings import ColumnRecord, words_of
from ...data.readers.base import NO_TARGET, TARGET_NAMES

NAMED = (*TARGET_NAMES, "labels", "classes")  # of targets, whatever they hold
NAMED_OFTEN = ("outcome", "response", "category")  # of targets, unless another column has by far the most empty cells
MANY_EMPTY, SOME_EMPTY = 0.3, 0.2  # shares of the cells of a column; the second also of what one has more
GROUP_WORDS = {"patient", "subject", "donor", "participant", "person", "household", "customer", "user", "store", "site"}
NUMBER_WORDS = {"id", "no", "nr", "number", "code", "key"}  # beside those
NO_TARGETS = "; if it is none: --target none groups the rows into clusters"
MAX_TARGETS = 100  # different texts of a target that is not named
FEW = 30  # different labels up to which whole numbers are classes
NUMBERED = re.compile(r"(.*?)\[?\d+\]?", re.DOTALL)  # e0, e_12, e[3], 7: a prefix and a number
SMALLEST_FAMILY = 20  # columns
ALIKE = 0.9  # the share of the columns of a family that are alike
FACTOR = 10.0  # between the range of a column and the median range of those that it is like
SMALLEST_RANGE = 30.0  # the median of whole numbers; codes of classes have a smaller one


def group_remarks(records: Sequence[ColumnRecord]) -> list[str]:
    """Return remarks on whole numbers that may name groups of rows, as all words of the name of their column say."""
    words = {record.name: {*words_of(record.name)} for record in records if record.are_numbers}
    return [f"{name}: its numbers may name groups of rows, and are a feature now; to test whole groups, data.test: "
            f"{{fraction: 0.2, groups: {yaml_of(name)}}}" for name, said in words.items()
            if GROUP_WORDS & said and said <= GROUP_WORDS | NUMBER_WORDS]


def named_column(names: Sequence[str], targets: Sequence[str]) -> str | None:
    """Return the column that has one of the names of targets, in their order, capitals or not; None of none."""
    lower = [name.lower() for name in names]
    return next((names[lower.index(name)] for name in targets if name in lower), None)


class AmbiguousTarget(DataError):
    """Several columns of a table may be the target; `candidates` are their names, the likeliest first."""

    def __init__(self, message: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.candidates = tuple(candidates)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.candidates)


def likely_target(records: Sequence[ColumnRecord], n_rows: int, source: str,
                  elements: Collection[str] = ()) -> tuple[str, str]:
    """Return the column of a table that is the target most likely, and why.

    It is the one with by far the most empty cells, whose rows are to be predicted, or else the last one. Identifiers,
    dates, free text, constant columns, and coordinates of a vector are none; "none" where there are only such and
    a vector. elements : the columns that are elements of lists.

    Raises AmbiguousTarget: a column with some empty cells and the last one are both plausible, or none is.
    """
    vectors = coordinates(records, elements)
    possible = [record for record in records if record.name not in vectors and _can_be_predicted(record, n_rows)]
    if vectors and not possible:
        return NO_TARGET, in_clusters(vectors.values(), records)
    last = records[-1] if records[-1] in possible and records[-1].finding != "duplicate" else None
    ordered = sorted(possible, key=lambda record: -(record.missing or 0))
    empty = [(record.missing or 0) / n_rows for record in ordered] + [0.0, 0.0]
    if empty[0] >= MANY_EMPTY and empty[0] - empty[1] >= SOME_EMPTY:
        beside = f"; the last column, {last.name}, is another choice: {_options([last])}" \
            if last is not None and last is not ordered[0] else ""
        percent = int(1000 * empty[0]) / 10  # not 100 while some have a value
        return ordered[0].name, f"{percent:g} % of its cells are empty, far more than of any other column{beside}"
    if empty[0] > 0 and empty[0] >= 2 * empty[1]:
        if last is None or last is ordered[0] or not _is_few(last):
            return ordered[0].name, "it has the most empty cells by far"
        if _is_few(ordered[0]) or empty[0] >= SOME_EMPTY:
            raise _ambiguous([ordered[0], last], records, source, f"{ordered[0].name} has the most empty cells by far, "
                             f"{ordered[0].missing:,} of {n_rows:,}, and {last.name} is the last column and has few "
                             "different values")
    few = [record for record in possible if _is_few(record)]
    if last is not None:
        others = [] if _is_few(last) else few[-2:]  # the nearest to it
        beside = f"; to predict a column of few different values instead: {_options(others)}" if others else ""
        return last.name, f"it is the last column{beside}{'' if last.missing else NO_TARGETS}"
    few_with_gaps = [record for record in few if record.missing]
    if len(few) == 1:
        return few[0].name, f"no other column has few different values{NO_TARGETS}"
    if len(few_with_gaps) == 1:
        return few_with_gaps[0].name, f"no other column has both few different values and empty cells{NO_TARGETS}"
    raise _ambiguous(few or possible, records, source, f"the last column, {records[-1].name}, is "
                     f"{_what(records[-1]) if records[-1].finding is None else records[-1].finding}, and of the others "
                     + ("several have few different values" if few else "none has few different values"))


def require_no_emptier(named: str, records: Sequence[ColumnRecord], n_rows: int, source: str) -> None:
    """Raise AmbiguousTarget if a column of a target's name is filled, and another of few values is nearly empty."""
    named_record = next((record for record in records if record.name == named), None)
    if named_record is None or named_record.missing:
        return
    emptier = [record for record in records if record is not named_record and _can_be_predicted(record, n_rows)
               and _is_few(record) and (record.missing or 0) >= MANY_EMPTY * n_rows]
    if len(emptier) == 1:
        other = emptier[0]
        raise _ambiguous([other, named_record], records, source, f"{other.name} has few different values and "
                         f"{other.missing:,} of {n_rows:,} cells are empty, as those of a target are that is to be "
                         f"predicted, and {named} has no empty cell but the name of a target")


def _ambiguous(candidates: Sequence[ColumnRecord], records: Sequence[ColumnRecord], source: str,
               why: str) -> AmbiguousTarget:
    shown = "; ".join(f"{record.name} ({_what(record)})" for record in records[:20])
    named = _options((candidates or records)[:3])
    return AmbiguousTarget(explain(f"{source}: no column is the target beyond doubt", why=why,
                                   fix=f"name it: {named}, or --target none for clusters; the columns are {shown}"),
                           [record.name for record in candidates])


def _options(records: Sequence[ColumnRecord]) -> str:
    """Return the options that name one of some columns as the target."""
    return " or ".join(f"--target {shlex.quote(record.name)}" for record in records)


def _can_be_predicted(record: ColumnRecord, n_rows: int) -> bool:
    """Return whether a column may be the target: neither constant nor empty, and no identifier, date or free text."""
    if record.finding in ("identifier", "constant", "time stamp") or record.kind in ("text", "time", None):
        return False
    if (record.missing or 0) >= n_rows:
        return False
    return record.kind != "category" or (record.levels or 0) <= MAX_TARGETS


def _is_few(record: ColumnRecord) -> bool:
    """Return whether a column has few different values, as classes do; one value where the other cells are empty."""
    if record.kind == "category":
        return (record.levels or 0) <= FEW
    return record.kind == "integer" and record.min is not None and record.max is not None \
        and record.max - record.min < FEW


def _what(record: ColumnRecord) -> str:
    """Return what a column holds, in a few words."""
    if record.kind == "category":
        return f"text, {record.levels} different"
    if record.kind in ("text", "time", None):
        return {"text": "text, all different", "time": "dates", None: "left out"}[record.kind]
    return f"{'whole numbers' if record.kind == 'integer' else 'numbers'} from {record.min:g} to {record.max:g}" \
        if record.min is not None else "empty"


# ---- coordinates of vectors


def coordinates(records: Sequence[ColumnRecord], elements: Collection[str]) -> dict[str, str]:
    """Return for each column that is the coordinate of a vector the name of the vector.

    These are the elements of lists, and families of numbered names, `SMALLEST_FAMILY` or more, that hold numbers of
    like ranges without missing cells. The first or last of a family is none if it is unlike the others.

    records : of all columns. elements : the names of those that are elements of lists.
    """
    elements = frozenset(elements)
    families = defaultdict[str, list[ColumnRecord]](list)
    for record in records:
        if record.name not in elements and record.kind in ("number", "integer") and not record.missing \
                and record.min is not None and (match := NUMBERED.fullmatch(record.name)):
            families[match[1]].append(record)
    vectors = {record.name: record.name[:record.name.rindex("[")] for record in records if record.name in elements}
    for family in families.values():
        if len(family) >= SMALLEST_FAMILY:
            vectors |= dict.fromkeys(_coordinates_of(family), f"{family[0].name} to {family[-1].name}")
    return vectors


def _coordinates_of(family: Sequence[ColumnRecord]) -> list[str]:
    """Return the columns of a family that are coordinates of one vector; none if the columns are unlike."""
    ranges = np.array([(record.max or 0) - (record.min or 0) for record in family])
    whole = np.array([record.kind == "integer" for record in family])
    varies = ranges > 0
    if not varies.any():
        return []
    median, is_whole = float(np.median(ranges[varies])), bool(np.median(whole[varies]) > 0.5)
    alike = (whole == is_whole) & (ranges <= FACTOR * median) & (ranges >= median / FACTOR)
    if alike[varies].mean() < ALIKE or (is_whole and median < SMALLEST_RANGE):
        return []
    return [record.name for j, record in enumerate(family) if alike[j] or 0 < j < len(family) - 1]


def in_clusters(vectors: Collection[str], records: Sequence[ColumnRecord]) -> str:
    """Return why rows of vectors are grouped into clusters, and how labels are brought."""
    identifier = next((record.name for record in records if record.finding == "identifier"), "row")
    return (f"no column but the coordinates of a vector ({', '.join(dict.fromkeys(vectors))}) can be the target; to "
            f"predict labels, write those that are known to a CSV file of the columns {identifier},label, name it by "
            "labels.file (labels: {given: true, file: [FILE]}), set data.test: {none: true}, and leave out data.task "
            "and model; or name a column with --target")
