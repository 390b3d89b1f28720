"""Columns of a table that are the coordinates of one vector a row, such as an embedding: features, and no target."""

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from ...data.findings import ColumnRecord

NUMBERED = re.compile(r"(.*?)\[?\d+\]?", re.DOTALL)  # e0, e_12, e[3], 7: a prefix and a number
SMALLEST_FAMILY = 20  # columns
ALIKE = 0.9  # the share of the columns of a family that are alike
FACTOR = 10.0  # between the range of a column and the median range of those that it is like
SMALLEST_RANGE = 30.0  # the median of whole numbers; codes of classes have a smaller one


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
