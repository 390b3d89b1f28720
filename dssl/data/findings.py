"""Findings about the columns of a source: what each column is, whether it can be a feature, and which are left out.

Where possible, a criterion bounds the probability (`CHANCE`) that a feature looks like this by chance. A name helps if
the numbers alone do not decide, but never decides alone.
"""

import math
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypedDict, cast

import numpy as np
from scipy.spatial import cKDTree

from ..base.errors import column_label, explain
from ..base.yaml import yaml_of
from .columns import spellings
from .frames import column_of
from .pairs import CHANCE, encoding_of
from .readers.base import FEWEST_ROWS, Scan
from .readers.cells import MAX_LEVELS, Cells, is_category
from .readers.formats import is_table
from .traits import MAX_BREAKS, Traits

Kind = Literal["number", "integer", "category", "text", "time"]
FindingKind = Literal["identifier", "free text", "codes", "several units", "time stamp", "constant", "duplicate",
                      "target"]

FEWEST_APART = 10  # rows in which a column is at neither end of its range; with fewer, columns agree by chance
MAX_DISTANCE = 1e-3  # between the directions of two centered columns: a correlation above 1 - 1e-6
DETERMINED = 1e-6  # the share of a target's variance that a column does not explain
EPOCHS = (946684800, 2208988800)  # 2000 to 2040, in seconds since 1970
ROWS_OF_GROUP = 2  # in the mean, from which codes may name groups of rows
GROUPS = ("; if they name groups of rows, such as patients, rows of the same group are among the labels and the test "
          "points, and errors are too low for new groups; this tests whole groups: data.test: ")
UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
LONGEST_CODE, MAX_WORDS = 40, 3  # characters and words of a text that identifies a row
EXCLUDED: dict[str, tuple[str, str]] = {  # by finding: the plural of what is left out, and how to learn from it
    "identifier": ("identifiers", "data.read.keep_ids: {} keeps them"),
    "free text": ("free text", "To learn from it, add embeddings of it (such as those of sentence-transformers) as "
                               "columns of numbers, or as a list column of Parquet"),
    "codes": ("codes with many values", "To learn from them, write what they mean as columns of numbers or categories"),
    "several units": ("numbers in several units", "To learn from them, write all of a column in one unit"),
    "time stamp": ("dates", "To learn from them, write them as numbers, such as days")}
ID_WORDS = {"id", "ids", "uuid", "guid", "key", "pk", "index", "idx", "row", "rowid", "nr", "serial", "unnamed"}


@dataclass(frozen=True)
class ColumnRecord:
    """The record of one column of a source.

    name : its name, or its number as text. kind : "number", "integer" (all whole), "category" (text, see
        `is_category`), "text" (any other), or "time" (text written as dates); None if it was not read.
    min, max : of numbers. missing : the number of missing cells. levels : the number of distinct texts of a category or
        time, up to `MAX_LEVELS`. used : whether it is a feature. finding : what it looks like, if not like a feature.
    why : the reason for the finding, or for leaving the column out.
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

    @property
    def are_numbers(self) -> bool:
        """Return whether the column has more than two whole numbers, and looks like nothing else."""
        return (self.kind == "integer" and self.finding is None and self.min is not None and self.max is not None
                and self.max - self.min > 1)


class SurveyRecord(TypedDict):
    """The JSON form of a `ColumnRecord`, in the attribute `survey` of a data set."""

    name: str
    kind: Kind | None
    min: float | None
    max: float | None
    missing: int | None
    levels: int | None
    used: bool
    finding: FindingKind | None
    why: str | None


def examined(traits: Traits, levels: dict[int, dict[str, int]], names: Sequence[str] | None,
             scan: Scan | None = None) -> list[ColumnRecord]:
    """Return the record of every column, all of them marked as used.

    traits, levels : of all rows; `levels` by the number of a text column, at most `MAX_LEVELS` + 1 of each.
    scan : of a table, which knows how its cells are written; None for other rows.
    """
    figures = traits.figures
    measured, odd, several = (scan.measures, scan.odd, scan.several_units) if scan is not None else ((), {}, {})
    duplicates = _duplicate_columns(traits)
    records = []
    for j in range(traits.d):
        n = int(figures["present"][j])
        is_text = j in levels
        whole = bool(figures["whole"][j]) and n > 0
        has_range = not is_text and math.isfinite(figures["smallest"][j])
        low, high = (float(figures[end][j]) if has_range else None for end in ("smallest", "largest"))
        key = None if j in measured else _key(traits, j, names, levels.get(j))
        kind: Kind = "integer" if whole else "number"
        texts = spellings(levels[j]) if is_text else []
        few = is_text and len(levels[j]) <= MAX_LEVELS and is_category(len(texts), n)
        units = "" if few else several.get(j, "")
        key = None if units else key
        few = few and key is None
        if is_text:
            kind = "category" if few else "text"
            if j in traits.dates:
                kind = "time"
        name = names[j] if names else str(j)
        finding: tuple[FindingKind, str] | None = (
            _constant(traits, j, levels) or _target(traits, j, name, len(texts), is_text=is_text)
            or _time(traits, j, kind) or (("identifier", key) if key else None))
        if kind == "text" and units:
            finding = "several units", f"its numbers are in several units, {units}; write all of them in one"
        if kind == "text" and finding is None:
            count = f"more than {MAX_LEVELS:,}" if len(levels[j]) > MAX_LEVELS else f"{len(texts):,}"
            mixed = _mostly_numbers(odd[j], n) if j in odd else ""
            said = f"different texts in {n:,} cells{mixed}"
            words = not mixed and all(len(text) <= LONGEST_CODE and len(text.split()) == 1 for text in levels[j])
            grouped = _groups(name, len(texts), n) if len(levels[j]) <= MAX_LEVELS else ""
            finding = ("codes", f"{count} {said}, each a single word{grouped}") if words else (
                "free text", f"{count} {said}")
        finding = finding or (_ordered(traits, j) if kind == "number" else None)
        if finding is None and j in duplicates:
            original, exact = duplicates[j]
            finding = "duplicate", (f"a copy of {column_label(names, original)}" if exact else
                                  f"{column_label(names, original)} on another scale")
        records.append(ColumnRecord(
            name, kind, low, high, traits.n_rows - n,
            len(texts) if is_text and kind != "text" and len(levels[j]) <= MAX_LEVELS else None,
            True, *(finding or (None, None))))
    return records


def _mostly_numbers(odd: Cells, n: int) -> str:
    """Return a note on a text column in which most cells are numbers, with the way to read it as numbers."""
    texts = ", ".join(text for _, text in odd.shown)
    rest = "" if len(odd.examples) == len(odd.shown) else ", once it names each of the others"
    return (f", of which {n - odd.texts:,} are numbers; if the others, such as {odd.examples[0][1]!r}, mark missing "
            f"cells, data.read.missing: [{texts}] makes it a column of numbers{rest}")


class IdentifierColumns(UserWarning):
    """Columns of a fit look like identifiers, whose values new points do not share."""


def warn_identifiers(X: np.ndarray, names: Sequence[str]) -> None:
    """Warn about numeric columns (n, d) that look like identifiers; a table that dssl reads would leave them out."""
    traits = Traits.of(X)
    records = [] if traits is None else examined(traits, {}, names)
    identifiers = [record for record in records if record.finding == "identifier"]
    if identifiers:
        warnings.warn(explain(
            "; ".join(f"column {record.name!r} looks like an identifier: {record.why}" for record in identifiers),
            why="new points have other identifiers, far from all of the fit, and the distance to these would dominate",
            fix=f"leave them out: X.drop(columns={[record.name for record in identifiers]})"),
            IdentifierColumns, stacklevel=5)


def excluded_columns(records: Sequence[ColumnRecord], keep: bool | Collection[str]) -> set[int]:
    """Return the columns to leave out: identifiers, and text that is not a category, except for those to keep.

    The result is empty if no other column would remain.
    """
    numbers = {j for j, record in enumerate(records)
             if (record.finding in ("identifier", "free text", "codes", "several units") or record.kind == "time")
             and keep is not True and (keep is False or record.name not in keep)}
    return numbers if len(numbers) < len(records) else set()


def to_json(records: Sequence[ColumnRecord]) -> list[SurveyRecord]:
    """Return the records as JSON."""
    return [cast(SurveyRecord, asdict(record)) for record in records]


def with_dropped(survey: list[SurveyRecord], names: Sequence[str], target: str | None) -> list[SurveyRecord]:
    """Return survey records in the order of the names of all columns of a source, including columns not read."""
    known = {record["name"]: record for record in survey}
    columns = {name: column_of(name, names) for name in known}
    if len(set(names)) < len(names) or not {*columns.values()} <= set(names):
        return survey
    unread = {name: to_json([ColumnRecord(name, None, None, None, None, None, used=False, why="data.read.drop")])
              for name in names if name != target}
    return [record for name in names
            for record in [known[j] for j, column in columns.items() if column == name] or unread.get(name, [])]


def dataset_notes(attributes: Mapping[str, Any]) -> list[str]:
    """Return the notes about the columns of a data set with these attributes."""
    return notes(attributes.get("survey", ()), named=bool(attributes.get("feature_names")),
                 can_drop=is_table(attributes.get("format", "")))


def notes(records: Sequence[SurveyRecord], *, named: bool = True, can_drop: bool = True) -> list[str]:
    """Return notes about the columns with the options to set, the most important first.

    named : whether the columns have names; only then are useless columns worth a note. can_drop : whether columns of
    the source's format can be left out.
    """
    lines = []

    def dropped(matches: Sequence[SurveyRecord]) -> str:
        return f"with data.read.drop: {_listed(matches)}" if can_drop else "where the file is made"

    def columns(finding: str, *, used: bool = True) -> list[SurveyRecord]:
        return [record for record in records if record["finding"] == finding and record["used"] == used]

    def reasons(matches: Sequence[SurveyRecord]) -> str:
        shown = "; ".join(f"{record['name']!r}: {record['why']}" for record in matches[:5])
        return f"{shown}; and {len(matches) - 5} more" if len(matches) > 5 else shown

    if matches := columns("target"):
        lines.append(f"warning: the target in disguise? {reasons(matches)}. If new points do not have it, their errors "
                     f"will be larger than those shown: leave it out {dropped(matches)}")
    for finding, (what, way) in EXCLUDED.items():
        if matches := columns(finding, used=False):
            lines.append(f"left out, as {what}: {reasons(matches)}. {way.format(_listed(matches))}")
    if matches := columns("identifier"):
        lines.append(f"warning: identifiers among the features: {reasons(matches)}. New points have other identifiers, "
                     f"far from all known ones: leave them out {dropped(matches)}")
    if matches := columns("time stamp"):
        lines.append(f"times among the features: {reasons(matches)}. New points have later times: unless time itself "
                     f"matters, leave them out {dropped(matches)}")
    kinds: tuple[tuple[FindingKind, str], ...] = (("constant", "the same in every row"),
                                                  ("duplicate", "duplicates of other columns"))
    for finding, what in kinds:
        if (matches := columns(finding)) and named:
            lines.append(f"{what}: {reasons(matches)}. They can be left out {dropped(matches)}")
    return lines


def _listed(records: Sequence[SurveyRecord]) -> str:
    return f"[{', '.join(record['name'] for record in records)}]"


def unread_columns(records: Sequence[SurveyRecord]) -> str:
    """Return which columns were left out of a model, and how it could learn from them; "" if there are none."""
    parts = []
    for finding, (what, way) in EXCLUDED.items():
        if matches := [record for record in records if record["finding"] == finding and not record["used"]]:
            shown = ", ".join(repr(record["name"]) for record in matches[:5])
            more = f" and {len(matches) - 5} more" if matches[5:] else ""
            parts.append(f"{shown}{more}, as {what}. {way.format(_listed(matches))}")
    return f"The table has columns that the model did not see. Left out: {'. Left out: '.join(parts)}." if parts else ""


# ---- one kind of finding each


def _key(traits: Traits, j: int, names: Sequence[str] | None, texts: Collection[str] | None) -> str | None:
    """Return why a column looks like an identifier, which names or numbers the rows; None if it does not.

    Text does if all texts are short and distinct. Whole numbers do in three cases. They increase or decrease from row
    to row. They do so except at up to `MAX_BREAKS` rows, such as the first duplicate of an earlier row, and the name
    says so too. Or they are distinct though by chance some would repeat: for n uniform numbers out of R, a sample of s
    has no repeated number with a probability below exp(-s (n - 1) / 2R) (the birthday problem), and any other
    distribution makes it even less likely; if that is not small enough, the name decides.
    """
    of = traits.figures
    n = int(traits.figures["present"][j])
    if n < FEWEST_ROWS:
        return None
    sampled = len(traits.sample.get(j, ()))
    if texts is not None:
        short = all(len(text) <= LONGEST_CODE and len(text.split()) <= MAX_WORDS for text in texts)
        return "no text occurs twice" if of["unlike"][j] and sampled >= FEWEST_ROWS and short else None
    if not of["whole"][j]:
        return None
    named = names is not None and has_word(names[j], ID_WORDS)
    breaks = min(of["descents"][j], of["ascents"][j])
    ordered = f"its whole numbers {'rise' if breaks == of['descents'][j] else 'fall'} from row to row"
    if breaks == 0:
        return ordered
    if named and breaks <= MAX_BREAKS:
        return f"{ordered}, except at {breaks:,.0f} of them, and its name says so"
    if not of["unlike"][j] or of["step"][j] == 0 or max(of["at_smallest"][j], of["at_largest"][j]) > 1:
        return None
    low = of["smallest"][j]
    high = of["largest"][j]
    values = (high - low) / of["step"][j] + 1
    alone = f"none of its whole numbers, from {low:,.0f} to {high:,.0f}, occurs twice"
    if values < n or sampled < FEWEST_ROWS:  # more rows than numbers: some that were not sampled occur twice
        return None
    if sampled * (n - 1) / (2 * values) >= -math.log(CHANCE):
        return alone
    return f"{alone}, and its name says so" if named else None


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case, in any style such as snake_case or CamelCase."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def has_word(name: str, words: Collection[str]) -> bool:
    return any(word in words for word in words_of(name))


def _time(traits: Traits, j: int, kind: Kind) -> tuple[FindingKind, str] | None:
    """Return the finding for text written as dates, or whole numbers that are all times since 1970."""
    if kind == "time":
        return "time stamp", "its text is written as dates"
    of = traits.figures
    if kind == "integer" and of["present"][j] >= FEWEST_ROWS:
        for unit, factor in UNITS.items():
            if of["smallest"][j] >= EPOCHS[0] * factor and of["largest"][j] < EPOCHS[1] * factor:
                return "time stamp", f"all its numbers are {unit} since 1970 in the years 2000 to 2039"
    return None


def _ordered(traits: Traits, j: int) -> tuple[FindingKind, str] | None:
    """Return the finding for fractional numbers that increase or decrease from row to row."""
    of = traits.figures
    if of["present"][j] < FEWEST_ROWS or min(of["descents"][j], of["ascents"][j]) > 0:
        return None
    return "time stamp", f"its numbers {'fall' if of['descents'][j] else 'rise'} from row to row, as times do"


def _constant(traits: Traits, j: int, levels: dict[int, dict[str, int]]) -> tuple[FindingKind, str] | None:
    of = traits.figures
    n = int(traits.figures["present"][j])
    if n == 0:
        return "constant", "it is missing in every row"
    if n < traits.n_rows:
        return None
    if j in levels:
        texts = spellings(levels[j])
        return ("constant", f"it is {texts[0]!r} in every row") if len(texts) == 1 else None
    same = of["smallest"][j] == of["largest"][j]
    return ("constant", f"it is {of['smallest'][j]:.6g} in every row") if same else None


def _duplicate_columns(traits: Traits) -> dict[int, tuple[int, bool]]:
    """Return for each duplicate column an earlier column that is equal up to scale and offset, and whether it is equal.

    Centered columns are compared by the directions of their projections on random rows. Columns that are at one end of
    their range in almost all rows, like rare words and border pixels, would agree by chance and are skipped, and so are
    columns whose spread is within the rounding of their values.
    """
    figures = traits.figures
    present = figures["present"]
    apart = present - np.maximum(figures["at_smallest"], figures["at_largest"])
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        mean = traits.projected[0] / present
        centered = traits.projected[1:] - mean * np.broadcast_to(traits.weight, traits.projected.shape)[1:]
        length = np.sqrt((centered**2).sum(axis=0))
        size = np.maximum(np.abs(figures["smallest"]), np.abs(figures["largest"]))
        sound = (apart >= FEWEST_APART) & (present >= FEWEST_ROWS) & (length > 1e-9 * size * np.sqrt(present))
    chosen = np.flatnonzero(sound & np.isfinite(length))
    if len(chosen) < 2:
        return {}
    directions = (centered[:, chosen] / length[chosen]).T
    main = directions[np.arange(len(chosen)), np.abs(directions).argmax(axis=1)]
    directions *= np.sign(main)[:, None]
    tree = cKDTree(directions)
    duplicates = {}
    for position, near in enumerate(tree.query_ball_point(directions, MAX_DISTANCE, return_sorted=True)):
        j = int(chosen[position])
        first = next((int(chosen[k]) for k in near if k < position and present[chosen[k]] == present[j]), None)
        if first is not None:
            is_equal = all(figures[end][j] == figures[end][first] for end in ("smallest", "largest", "first", "last"))
            duplicates[j] = first, is_equal
    return duplicates


def _groups(name: str, n_values: int, n: int) -> str:
    """Return what is said of n cells whose different values may name groups of rows; "" of others."""
    return f"{GROUPS}{{fraction: 0.2, groups: {yaml_of(name)}}}" if ROWS_OF_GROUP * n_values <= n else ""


def _target(traits: Traits, j: int, name: str, n_texts: int, *, is_text: bool) -> tuple[FindingKind, str] | None:
    """Return the finding for a column that determines the target; n_texts : its different texts, 0 of numbers.

    For classes, each of its values belongs to one class, and there are as many values as classes, or more that are not
    explained by the order of the numbers: a feature that separates the classes by a few thresholds is a good feature.
    For quantities, the column equals the target up to scale and offset.
    """
    of = traits.figures
    values, classes = traits.pairs.get(j, {}), traits.classes or {}
    if values and (reason := encoding_of(values, classes, is_text=is_text)) is not None:
        several = len(values) > len(classes)
        return "target", reason + (_groups(name, n_texts or len(values), of["present"][j]) if several else "")
    n = of["labeled"][j]
    apart = of["present"][j] - max(of["at_smallest"][j], of["at_largest"][j])
    with np.errstate(over="ignore", invalid="ignore"):
        both = of["squares"][j] * of["target_squares"][j]
        explained = of["product"][j] ** 2
    if n >= FEWEST_ROWS and apart >= FEWEST_APART and 0 < both < np.inf and both - explained <= DETERMINED * both:
        return "target", "it is the target, up to scale and offset"
    return None
