"""What each column of the source is, whether it is used, and why not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ..page import Level, Section
from ..record import RunRecord
from ..rendering import rendered
from ..text import ABSENT, at, counted, number, plain_label

MAX_ROWS = 40  # of the table; of more columns only those are shown that something is to be said of
KINDS = {"integer": "integer", "number": "number", "category": "category", "text": "text",
         "time": "date or time", None: "not read"}
OF_KIND = {"integer": "of integers", "number": "of numbers", "category": "of categories", "text": "of text",
           "time": "of dates or times", None: "not read"}
LEVELS: dict[str, Level] = {"target": "warning", "identifier": "warning", "several units": "warning",
                            "free text": "note", "codes": "note", "time stamp": "note", "constant": "note",
                            "duplicate": "note"}
FINDINGS = {"constant": ("column is constant", "columns are constant"),
            "duplicate": ("column duplicates another one", "columns duplicate another one"),
            "time stamp": ("column looks like a time stamp", "columns look like time stamps"),
            "target": ("column looks like the target", "columns look like the target"),
            "identifier": ("column looks like an identifier", "columns look like identifiers")}
WARNING = "warning: "  # what notes begin with that ask for attention


class Column(TypedDict):
    """What was found of a column of the source."""

    name: str
    kind: str | None
    min: float | None
    max: float | None
    missing: int
    levels: int | None
    used: bool
    finding: str | None
    why: str | None


def columns_section(run: RunRecord) -> Section | None:
    """Return a box of what asks for attention, a summary of the columns, and a table of them, or of the exceptions."""
    records: list[Column] = run.at("dataset", "dataset", "survey")
    if not records:
        return None
    named, wide = bool(run.at("dataset", "dataset", "feature_names")), len(records) > MAX_ROWS
    alarms = [text.removeprefix(WARNING) for text in run.result.get("notes", ()) if text.startswith(WARNING)]
    shown = [record for record in records if _is_exceptional(record, named)] if wide else records
    keys = _keys_of(run.spec)
    rows = [{**record, "name": plain_label(record["name"], 40), "kind": KINDS[record["kind"]], "range": _range(record),
                      "level": LEVELS.get(record["finding"] or ""), "why": keys.get(record["name"], record["why"])}
            for record in shown[:MAX_ROWS]]
    return Section("columns", "Columns", rendered(
        "columns.html", alarms=alarms, summary=_summary(records), rows=rows, n_more=len(shown) - MAX_ROWS))


def _keys_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the key of the spec that names a column as no feature, by column; `data.read.drop` is not among them."""
    tags, weight = at(spec, "data", "tags") or {}, at(spec, "labels", "weight")
    named = {"data.tags": [tags.get("column"), *(tags.get("columns") or ())], "labels.weight": [weight],
             "model.soft_labels": at(spec, "model", "soft_labels", "columns") or ()}
    return {column: key for key, columns in named.items() for column in columns if column is not None}


def _summary(records: Sequence[Column]) -> str:
    """Return how many columns of each type there are, how many are used, incomplete, or look like something else."""
    kinds = Counter(OF_KIND[record["kind"]] for record in records)
    used = [record for record in records if record["used"]]
    types = ", ".join(f"{number(count)} {kind}" for kind, count in kinds.most_common())
    sentences = [f"The source has {counted(len(records), 'column')} ({types}), and the model uses "
                 f"{number(len(used))} of them."]
    ends = [end for record in used for end in (record["min"], record["max"]) if end is not None]
    if ends:
        sentences.append(f"Their numbers range from {number(min(ends))} to {number(max(ends))}.")
    incomplete = sum(bool(record["missing"]) for record in used)
    sentences.append(f"{counted(incomplete, 'of them has', 'of them have')} missing values." if incomplete else
                     "None of their values is missing.")
    findings = Counter(record["finding"] for record in used if record["finding"])
    sentences += [f"{counted(findings[key], *verbs)}." for key, verbs in FINDINGS.items() if findings[key]]
    return " ".join(sentences)


def _is_exceptional(record: Column, named: bool) -> bool:
    return bool(not record["used"] or record["missing"] or (record["finding"] and (
        named or record["finding"] != "constant")))


def _range(record: Column) -> str:
    if record["min"] is None:
        return ABSENT
    if record["min"] == record["max"]:
        return number(record["min"])
    return f"{number(record['min'])} to {number(record['max'])}"
