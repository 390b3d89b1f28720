"""What each column of a source is, what is wrong with it as a feature, and which columns are left out.

The criteria ask how likely a feature would look like this by chance (`CHANCE`), where that has a probability; names
help where the numbers alone do not decide, and never decide alone.
"""

import math
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import gammaln

from ..base.errors import column_label, explain
from .columns import spellings
from .lists import column_of
from .pairs import UNLABELED, Pairs
from .readers.base import FEWEST_ROWS, Scan
from .readers.cells import MOST_LEVELS, Cells, is_category
from .readers.formats import is_table
from .traits import Traits

Kind = Literal["number", "integer", "category", "text", "time"]
FindingKind = Literal["identifier", "free text", "codes", "several units", "time stamp", "constant", "duplicate",
                      "target"]

CHANCE = 1e-9  # of what looks like an identifier, or the target, and is neither
FEWEST_APART = 10  # rows in which a column is neither at one end of its range: fewer agree by chance
ALIKE = 1e-3  # between the directions of two columns, centered: a correlation beyond 1 - 1e-6
DETERMINED = 1e-6  # of the variance of a target that a column leaves open
ROWS_PER_CODE = 10  # of labeled rows for each number that may be the code of a class
EPOCHS = (946684800, 2208988800)  # 2000 to 2040, in seconds since 1970
UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
LONGEST_CODE, MAX_WORDS = 40, 3  # characters and words of a text that names a row
LEFT_OUT: dict[str, tuple[str, str]] = {  # findings of columns that are left out: as what, and how to learn from them
    "identifier": ("identifiers", "data.read.keep_ids: {} keeps them"),
    "free text": ("free text", "To learn from it, add embeddings of it (such as those of sentence-transformers) as "
                               "columns of numbers, or as a list column of Parquet"),
    "codes": ("codes of many values", "To learn from them, write what they tell as columns of numbers or categories"),
    "several units": ("numbers in several units", "To learn from them, write all of a column in one unit"),
    "time stamp": ("dates", "To learn from them, write them as numbers, such as days")}
ID_WORDS = {"id", "ids", "uuid", "guid", "key", "pk", "index", "idx", "row", "rowid", "nr", "serial", "unnamed"}


@dataclass(frozen=True)
class ColumnRecord:
    """What is known of a column of the source.

    name : its name, or its number as text. kind : "number", "integer" (all whole), "category" (text, see
        `is_category`), "text" (any other), or "time" (text written as dates); None where it was not read.
    min, max : of numbers. missing : cells. levels : different texts, of categories and times up to `MOST_LEVELS`.
    used : whether it is a feature. finding : what it looks like, if not like a feature. why : of the finding, or of
        being left out.
    """

    name: str
    kind: Kind | None
    min: float | None
    max: float | None
    missing: int | None
    levels: int | None
    used: bool = True
    finding: FindingKind | None = None
    why: str | None = None


def examined(traits: Traits, levels: dict[int, dict[str, int]], names: Sequence[str] | None,
             scan: Scan | None = None) -> list[ColumnRecord]:
    """Return the record of every column, all of them used.

    traits, levels : of all rows; `levels` by number of the columns of text, at most `MOST_LEVELS` + 1 of each.
    scan : of the table, which tells how its cells are written; None of other rows.
    """
    of = traits.figures
    measures, odd, several = (scan.measures, scan.odd, scan.several_units) if scan is not None else ((), {}, {})
    copies = _copies(traits)
    records = []
    for j in range(traits.d):
        n = int(of["present"][j])
        is_text = j in levels
        whole = bool(of["whole"][j]) and n > 0
        has_range = not is_text and math.isfinite(of["smallest"][j])
        low, high = (float(of[end][j]) if has_range else None for end in ("smallest", "largest"))
        key = None if j in measures else _key(traits, j, names, levels.get(j))
        kind: Kind = "integer" if whole else "number"
        texts = spellings(levels[j]) if is_text else []
        few = is_text and len(levels[j]) <= MOST_LEVELS and is_category(len(texts), n)
        units = "" if few else several.get(j, "")
        key = None if units else key
        few = few and key is None
        if is_text:
            kind = "category" if few else "text"
            if j in traits.dates:
                kind = "time"
        finding: tuple[FindingKind, str] | None = _constant(traits, j, levels) or _target(traits, j, is_text=is_text)
        finding = finding or _time(traits, j, kind) or (("identifier", key) if key else None)
        if kind == "text" and units:
            finding = "several units", f"its numbers are in several units, {units}; write all of them in one"
        if kind == "text" and finding is None:
            count = f"more than {MOST_LEVELS:,}" if len(levels[j]) > MOST_LEVELS else f"{len(texts):,}"
            mixed = _mostly_numbers(odd[j], n) if j in odd else ""
            said = f"different texts in {n:,} cells{mixed}"
            words = not mixed and _are_words(levels[j])
            finding = ("codes", f"{count} {said}, each a single word") if words else ("free text", f"{count} {said}")
        finding = finding or (_ordered(traits, j) if kind == "number" else None)
        if finding is None and j in copies:
            other, exact = copies[j]
            finding = "duplicate", (f"a copy of {column_label(names, other)}" if exact else
                                  f"{column_label(names, other)} on another scale")
        records.append(ColumnRecord(
            names[j] if names else str(j), kind, low, high, traits.n_rows - n,
            len(texts) if is_text and kind != "text" and len(levels[j]) <= MOST_LEVELS else None,
            True, *(finding or (None, None))))
    return records


def _are_words(texts: Collection[str]) -> bool:
    """Return whether texts are short and single words, such as codes of parts."""
    return all(len(text) <= LONGEST_CODE and len(text.split()) == 1 for text in texts)


def _mostly_numbers(odd: Cells, n: int) -> str:
    """Return what is to be said of a column of text most cells of which are numbers, and how it becomes numbers."""
    texts = ", ".join(text for _, text in odd.shown)
    others = "these" if odd.texts == len(odd.shown) else "each of the others"
    return (f", of which {n - odd.texts:,} are numbers; if the others, such as {odd.examples[0][1]!r}, mark missing "
            f"cells, data.read.missing: [{texts}] makes it a column of numbers, once it names {others}")


class IdentifierColumns(UserWarning):
    """Columns of a fit look like identifiers: new points have others, far from all that were seen."""


def warn_identifiers(X: np.ndarray, names: Sequence[str]) -> None:
    """Warn of columns of numbers (n, d) that look like identifiers, as a table that is read leaves them out."""
    traits = Traits.of(X)
    records = [] if traits is None else examined(traits, {}, names)
    identifiers = [record for record in records if record.finding == "identifier"]
    if identifiers:
        warnings.warn(explain(
            "; ".join(f"column {record.name!r} looks like an identifier: {record.why}" for record in identifiers),
            why="new points have others, far from those of all points of the fit, which then decide",
            fix=f"leave them out: X.drop(columns={[record.name for record in identifiers]})"),
            IdentifierColumns, stacklevel=5)


def left_out(records: Sequence[ColumnRecord], keep: bool | Collection[str]) -> set[int]:
    """Return the columns that are left out: identifiers, and text that is no category, but for those to keep.

    None is where nothing else would be left.
    """
    numbers = {j for j, record in enumerate(records)
             if (record.finding in ("identifier", "free text", "codes", "several units") or record.kind == "time")
             and keep is not True and (keep is False or record.name not in keep)}
    return numbers if len(numbers) < len(records) else set()


def to_json(records: Sequence[ColumnRecord]) -> list[dict[str, Any]]:
    """Return the records as JSON."""
    return [asdict(record) for record in records]


def with_dropped(survey: list[dict[str, Any]], names: Sequence[str], target: str | None) -> list[dict[str, Any]]:
    """Return records (JSON) in the order of the names of all columns of a source, with those that were not read."""
    known = {record["name"]: record for record in survey}
    columns = {name: column_of(name, names) for name in known}
    if len(set(names)) < len(names) or not {*columns.values()} <= set(names):
        return survey
    unread = {name: [asdict(ColumnRecord(name, None, None, None, None, None, used=False, why="data.read.drop"))]
              for name in names if name != target}
    return [record for name in names
            for record in [known[j] for j, column in columns.items() if column == name] or unread.get(name, [])]


def dataset_notes(attributes: Mapping[str, Any]) -> list[str]:
    """Return the notes on the columns of a data set with these attributes."""
    return notes(attributes.get("survey", ()), named=bool(attributes.get("feature_names")),
                 can_drop=is_table(attributes.get("format", "")))


def notes(records: Sequence[dict[str, Any]], *, named: bool = True, can_drop: bool = True) -> list[str]:
    """Return what a user should know of the columns, one line each, with what to set; the worst first.

    records : JSON. named : whether the columns have names, and those that tell nothing are worth a line. can_drop :
    whether the source is of a format whose columns can be left out.
    """
    lines = []

    def dropped(matches: Sequence[dict[str, Any]]) -> str:
        return f"with data.read.drop: {_listed(matches)}" if can_drop else "where the file is made"

    def columns(finding: str, *, used: bool = True) -> list[dict[str, Any]]:
        return [record for record in records if record["finding"] == finding and record["used"] == used]

    def reasons(matches: Sequence[dict[str, Any]]) -> str:
        shown = "; ".join(f"{record['name']!r}: {record['why']}" for record in matches[:5])
        return f"{shown}; and {len(matches) - 5} more" if len(matches) > 5 else shown

    if matches := columns("target"):
        lines.append(f"warning: the target in disguise? {reasons(matches)}. If it is not known of new points, the "
                     f"errors shown are not those of new points: leave it out {dropped(matches)}")
    for finding, (what, way) in LEFT_OUT.items():
        if matches := columns(finding, used=False):
            lines.append(f"left out, as {what}: {reasons(matches)}. {way.format(_listed(matches))}")
    if matches := columns("identifier"):
        lines.append(f"warning: identifiers among the features: {reasons(matches)}. New points have others, far "
                     f"from all that is known: leave them out {dropped(matches)}")
    if matches := columns("time stamp"):
        lines.append(f"times among the features: {reasons(matches)}. New points have later ones: unless time is what "
                     f"matters, leave them out {dropped(matches)}")
    kinds: tuple[tuple[FindingKind, str], ...] = (("constant", "the same in every row"),
                                                  ("duplicate", "copies of other columns"))
    for finding, what in kinds:
        if (matches := columns(finding)) and named:
            lines.append(f"{what}: {reasons(matches)}. They can be left out {dropped(matches)}")
    return lines


def _listed(records: Sequence[dict[str, Any]]) -> str:
    return f"[{', '.join(record['name'] for record in records)}]"


def unread_columns(records: Sequence[dict[str, Any]]) -> str:
    """Return which columns a model lacks since they were left out, and how it could learn from them; "" of none.

    records : JSON.
    """
    parts = []
    for finding, (what, way) in LEFT_OUT.items():
        if matches := [record for record in records if record["finding"] == finding and not record["used"]]:
            shown = ", ".join(repr(record["name"]) for record in matches[:5])
            more = f" and {len(matches) - 5} more" if matches[5:] else ""
            parts.append(f"{shown}{more}, as {what}. {way.format(_listed(matches))}")
    return f"The table has columns that the model did not see. Left out: {'. Left out: '.join(parts)}." if parts else ""


# ---- one kind of finding each


def _key(traits: Traits, j: int, names: Sequence[str] | None, texts: Collection[str] | None) -> str | None:
    """Return why a column looks like an identifier: it names or numbers the rows.

    Text does if no two rows have the same and all are short. Whole numbers do if they rise or fall from row to row, or
    if none comes twice though by chance some would: of n numbers out of R, s of them looked for again, all s are alone
    with a probability below exp(-s (n - 1) / 2R), the birthday problem, and any other distribution makes it less
    likely. Where that is not small enough, the name decides.
    """
    of = traits.figures
    n = int(traits.figures["present"][j])
    if n < FEWEST_ROWS:
        return None
    sampled = len(traits.sample.get(j, ()))
    if texts is not None:
        short = all(len(text) <= LONGEST_CODE and len(text.split()) <= MAX_WORDS for text in texts)
        return "no text of it comes twice" if of["unlike"][j] and sampled >= FEWEST_ROWS and short else None
    if not of["whole"][j]:
        return None
    if of["rises"][j] or of["falls"][j]:
        return f"its whole numbers {'rise' if of['rises'][j] else 'fall'} from row to row"
    if not of["unlike"][j] or of["step"][j] == 0 or max(of["at_smallest"][j], of["at_largest"][j]) > 1:
        return None
    low = of["smallest"][j]
    high = of["largest"][j]
    values = (high - low) / of["step"][j] + 1
    alone = f"none of its whole numbers, from {low:,.0f} to {high:,.0f}, comes twice"
    if values < n or sampled < FEWEST_ROWS:  # more rows than numbers: some come twice that were not sampled
        return None
    if sampled * (n - 1) / (2 * values) >= -math.log(CHANCE):
        return alone
    return f"{alone}, and it is named so" if names and has_word(names[j], ID_WORDS) else None


def has_word(name: str, words: Collection[str]) -> bool:
    """Return whether a name has one of some words, in any style of case."""
    return any(word.lower() in words for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))


def _time(traits: Traits, j: int, kind: Kind) -> tuple[FindingKind, str] | None:
    """Return whether a column is text written as dates, or whole numbers that all are times since 1970."""
    if kind == "time":
        return "time stamp", "its text is written as dates"
    of = traits.figures
    if kind == "integer" and of["present"][j] >= FEWEST_ROWS:
        for unit, factor in UNITS.items():
            if of["smallest"][j] >= EPOCHS[0] * factor and of["largest"][j] < EPOCHS[1] * factor:
                return "time stamp", f"all its numbers are {unit} since 1970 in the years 2000 to 2039"
    return None


def _ordered(traits: Traits, j: int) -> tuple[FindingKind, str] | None:
    """Return whether numbers that are not whole rise or fall from row to row."""
    of = traits.figures
    if of["present"][j] < FEWEST_ROWS or not (of["rises"][j] or of["falls"][j]):
        return None
    return "time stamp", f"its numbers {'rise' if of['rises'][j] else 'fall'} from row to row, as times do"


def _constant(traits: Traits, j: int, levels: dict[int, dict[str, int]]) -> tuple[FindingKind, str] | None:
    of = traits.figures
    n = int(traits.figures["present"][j])
    if n == 0:
        return "constant", "no row has a cell of it"
    if n < traits.n_rows:
        return None
    if j in levels:
        texts = spellings(levels[j])
        return ("constant", f"it is {texts[0]!r} in every row") if len(texts) == 1 else None
    same = of["smallest"][j] == of["largest"][j]
    return ("constant", f"it is {of['smallest'][j]:.6g} in every row") if same else None


def _copies(traits: Traits) -> dict[int, tuple[int, bool]]:
    """Return, by column, an earlier one that is the same, up to scale and offset, and whether it is equal.

    Centered columns are compared by the directions of their projections on random rows. Columns that are at one end of
    their range in all rows but a few, as rare words and pixels at the border are, agree by chance and are not looked
    at; nor those whose spread is lost in the rounding of their size.
    """
    of = traits.figures
    present = of["present"]
    apart = present - np.maximum(of["at_smallest"], of["at_largest"])
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        mean = traits.projected[0] / present
        centered = traits.projected[1:] - mean * np.broadcast_to(traits.weight, traits.projected.shape)[1:]
        length = np.sqrt((centered**2).sum(axis=0))
        size = np.maximum(np.abs(of["smallest"]), np.abs(of["largest"]))
        sound = (apart >= FEWEST_APART) & (present >= FEWEST_ROWS) & (length > 1e-9 * size * np.sqrt(present))
    chosen = np.flatnonzero(sound & np.isfinite(length))
    if len(chosen) < 2:
        return {}
    directions = (centered[:, chosen] / length[chosen]).T
    main = directions[np.arange(len(chosen)), np.abs(directions).argmax(axis=1)]
    directions *= np.sign(main)[:, None]
    tree = cKDTree(directions)
    copies = {}
    for place, near in enumerate(tree.query_ball_point(directions, ALIKE, return_sorted=True)):
        j = int(chosen[place])
        first = next((int(chosen[k]) for k in near if k < place and present[chosen[k]] == present[j]), None)
        if first is not None:
            copies[j] = first, all(of[end][j] == of[end][first] for end in ("smallest", "largest", "first", "last"))
    return copies


def _target(traits: Traits, j: int, *, is_text: bool) -> tuple[FindingKind, str] | None:
    """Return whether a column determines the target.

    Classes: each of its values goes with one class, and they are as many as classes; or more, which the order of the
    numbers does not explain: a feature that a few thresholds tell the classes by is a good feature. Quantities: it is
    the target up to scale and offset.
    """
    of = traits.figures
    reason = _classes(traits, traits.pairs[j], is_text=is_text) if j in traits.pairs else None
    if reason is not None:
        return "target", reason
    n = of["labeled"][j]
    apart = of["present"][j] - max(of["at_smallest"][j], of["at_largest"][j])
    with np.errstate(over="ignore", invalid="ignore"):
        both = of["squares"][j] * of["target_squares"][j]
        explained = of["product"][j] ** 2
    if n >= FEWEST_ROWS and apart >= FEWEST_APART and 0 < both < np.inf and both - explained <= DETERMINED * both:
        return "target", "it is the target, up to scale and offset"
    return None


def _classes(traits: Traits, pairs: Pairs, *, is_text: bool) -> str | None:
    """Return why a column whose values have one class each is a code of the classes; None where chance would do.

    Of all ways to give the labels to the rows, at most c! (of as many values as classes, c), or c^v (of v values), are
    such that each value has one class, out of n! / (n_1! ... n_c!).
    """
    sizes = dict(traits.classes or {})
    if len(sizes) > 2 and UNLABELED in sizes:  # with one other class, it is one
        del sizes[UNLABELED]
    class_of = {value: labels & sizes.keys() for value, labels in pairs.items() if labels & sizes.keys()}
    if len(sizes) < 2 or any(len(labels) > 1 for labels in class_of.values()):
        return None
    counts = np.array(list(sizes.values()), float)
    c = len(sizes)
    v = len(class_of)
    n = counts.sum()
    ways = gammaln(n + 1) - gammaln(counts + 1).sum()
    if v == c and len(set().union(*class_of.values())) == c:
        return "it has one value for each class" if gammaln(c + 1) - ways <= math.log(CHANCE) else None
    if v * math.log(c) - ways > math.log(CHANCE):
        return None
    if not is_text:
        order = [min(class_of[value]) for value in sorted(class_of, key=lambda value: (value is not None, value))]
        shares = np.unique(order, return_counts=True)[1] / v
        changes = sum(before != after for before, after in pairwise(order))
        by_chance = (v - 1) * (1 - (shares**2).sum())
        if changes <= max(c - 1, by_chance / 2) or n < ROWS_PER_CODE * v:
            return None
    return "each of its values has one class"
