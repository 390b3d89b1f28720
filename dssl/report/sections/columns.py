"""What each column of the source is, whether it is used, and why not."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..markup import ABSENT, Html, at, counted, joined, number, plain_label, table, tag
from ..page import Level, Section, state

MOST_ROWS = 40  # of the table; of more columns only those are shown that something is to be said of
KINDS = {"integer": "whole number", "number": "number", "category": "category", "text": "text",
         "time": "date or time", None: "not read"}
LEVELS: dict[str, Level] = {"target": "warning", "identifier": "warning", "several units": "warning",
                            "free text": "note", "codes": "note", "time stamp": "note", "constant": "note",
                            "duplicate": "note"}
WARNING = "warning: "  # what notes begin with that ask for attention


def columns_section(facts: dict[str, Any], result: dict[str, Any]) -> Section | None:
    """Return a box of what asks for attention, a summary of the columns, and a table of them, or of the exceptions."""
    records = at(facts, "dataset", "dataset", "survey")
    if not records:
        return None
    named, wide = bool(at(facts, "dataset", "dataset", "feature_names")), len(records) > MOST_ROWS
    alarms = [text.removeprefix(WARNING) for text in result.get("notes", ()) if text.startswith(WARNING)]
    shown = [record for record in records if _is_exceptional(record, named)] if wide else records
    rows = [(plain_label(record["name"], 40), KINDS[record["kind"]], _range(record), number(record["missing"]),
             _levels(record), _use(record)) for record in shown[:MOST_ROWS]]
    more = tag("p", f"and {counted(len(shown) - MOST_ROWS, 'more column')} like these", class_="sub")
    return Section("columns", "Columns", joined((
        tag("div", *(tag("p", text) for text in alarms), class_="box warning") if alarms else "",
        tag("p", _summary(records)),
        table(("column", "type", "range", "missing cells", "levels", "used"), rows, (3, 4)) if rows else "",
        more if len(shown) > MOST_ROWS else "")))


def _summary(records: Sequence[dict[str, Any]]) -> str:
    """Return how many columns of each type there are, are used, lack cells, and look like something else."""
    kinds = Counter(KINDS[record["kind"]] for record in records)
    used = [record for record in records if record["used"]]
    told = [f"{counted(len(records), 'column')} of the source, {number(len(used))} of them used: "
            + ", ".join(f"{number(count)} of type {kind}" for kind, count in kinds.most_common())]
    numbers = [record for record in used if record["min"] is not None]
    if numbers:
        told.append(f"the numbers lie from {number(min(record['min'] for record in numbers))} to "
                    f"{number(max(record['max'] for record in numbers))}")
    lacking = sum(bool(record["missing"]) for record in used)
    told.append(f"{number(lacking)} have missing cells" if lacking else "no cell of these is missing")
    looks = Counter(record["finding"] for record in used if record["finding"])
    words = {"constant": "constant", "duplicate": "a copy of another", "time stamp": "like times", "target":
             "like the target", "identifier": "like identifiers"}
    if looks:
        told.append(f"{', '.join(f'{number(looks[key])} {words[key]}' for key in words if looks[key])}")
    return "; ".join(told) + "."


def _is_exceptional(record: dict[str, Any], named: bool) -> bool:
    return bool(not record["used"] or record["missing"] or (record["finding"] and (
        named or record["finding"] != "constant")))


def _range(record: dict[str, Any]) -> str:
    if record["min"] is None:
        return ABSENT
    if record["min"] == record["max"]:
        return number(record["min"])
    return f"{number(record['min'])} to {number(record['max'])}"


def _levels(record: dict[str, Any]) -> str:
    return "" if record["levels"] is None else number(record["levels"])


def _use(record: dict[str, Any]) -> Html:
    """Return whether a column is used, and what there is to say of it."""
    if not record["used"]:
        looks = f"{record['finding']}: " if record["finding"] else ""
        return joined((tag("b", "left out"), f", {looks}{record['why']}"))
    if not record["finding"]:
        return joined(("used",))
    level = LEVELS[record["finding"]]
    return joined(("used ", state(level), f" {record['finding']}: {record['why']}"))
