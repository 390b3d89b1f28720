"""Where the points come from, how many there are, which of them are labeled, how they were scaled, and their columns.

Of each column of the source: what it is, whether it is used, and why not.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, TypedDict

from ..page import Level, Section, rendered
from ..plots import MAX_CLASSES
from ..record import Attributes, RunRecord
from ..text import ABSENT, at, counted, listed, number, percent, plain_label

SCALINGS = {
    "standardize": "each column to mean 0 and standard deviation 1", "unit_range": "each column to [0, 1]",
    "max_abs": "each column by its largest absolute value", "unit_norm": "each row to length 1",
    "global_range": "one factor for all columns", "none": "features are used as they are",
}
MAX_ROWS = 40  # of the table of columns; of more columns only those are shown that something is to be said of
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


def data_section(run: RunRecord) -> Section | None:
    """Return what the stages from the source to the scaled points found; labels and test points where there are any."""
    split, scaling = run.stage("split"), run.at("points", "scaling") or {}
    classes, per_class = split.get("classes") or [], run.at("labels", "per_class") or []
    tags = split.get("tags") or []
    groups = split.get("groups")
    n_labeled, n_train = run.at("labels", "n_labeled"), split.get("n_train")
    share = f" ({percent(n_labeled / n_train, 2)} of the training points)" if n_labeled is not None and n_train else ""
    constant, names = scaling.get("constant_columns"), scaling.get("constant_column_names") or []
    source, outliers = at(run.spec, "data", "source"), run.at("points", "outlier_rows")
    digest = run.at("dataset", "dataset", "fingerprint")
    rows: list[tuple[str, object]] = [
        ("source", ", ".join(source) if isinstance(source, list) else source),
        ("SHA-256", digest),
        ("changes since the last run", "; ".join(run.growth) or None),
        ("points in the data set", _count(run.at("dataset", "n"))),
        ("features d", _count(run.at("dataset", "d"))),
        ("training points n", _count(n_train)),
        ("labeled points", None if n_labeled is None else number(n_labeled) + share),
        ("test points", _count(split.get("n_test"))),
        ("groups of rows", groups and f"{number(groups['n'])} with labels, by {groups['column']!r}; "
         f"{number(groups['n_tested'])} of them are tested"),
        ("tags", f"{number(len(tags))}: {listed(tags, MAX_CLASSES)}" if tags else None),
        ("labels with each tag", _labels_per_class(tags, run.at("labels", "with_tag") or []) if tags else None),
        ("classes", f"{number(len(classes))}: {listed(classes, MAX_CLASSES)}" if classes else None),
        ("target", _target(split.get("target"))),
        ("labels per class", _labels_per_class(classes, per_class)),
        ("frequencies of the classes", _frequencies(run) if per_class else None),
        ("scaling", _scaling(scaling)),
        ("change of the scaling by new rows", _drift(run.at("points", "drift") or {})),
        ("categories", _categories(scaling)),
        ("outlier rows", outliers and f"{outliers}. The scaling was fitted without these rows, and their values are "
         "clipped. If they encode missing values, mark them as missing"),
        ("constant columns", None if constant is None else number(constant)
         + (f" ({listed(names, 10)}), which carry no information" if names else "")),
    ]
    return Section("data", "Data", rendered("data.html", rows=rows)) if any(value for _, value in rows) else None


def _frequencies(run: RunRecord) -> str:
    """Return how frequent the classes count for the model, and why."""
    model = at(run.spec, "model") or {}
    if not any(run.at("labels", "per_class") or []):
        return "unknown, because no point is labeled"
    if model.get("class_sizes") is not None:
        return "as given in model.class_sizes"
    prior = model.get("class_prior")
    if prior is not None:
        return f"as given in model.class_prior: {prior}"
    if at(run.spec, "labels", "per_class") is not None:
        return "assumed to be equal, because the spec draws the same number of labels from each class. Set " \
               "model.class_prior if you know the frequencies"
    return "as among the labels"


def _scaling(scaling: Attributes) -> str | None:
    """Return how features were scaled, and why, where that was chosen by their ranges."""
    kind = scaling.get("numbers", scaling.get("kind"))
    if not kind:
        return None
    ranges = scaling.get("ranges")
    fitted = "" if kind == "none" else ", fitted on the training points"
    why = "" if ranges is None else (
        f"; selected because the widest column range is {number(ranges)} times the lower quartile of all ranges")
    return f"{kind}: {SCALINGS.get(kind, '')}{fitted}{why}"


def _drift(drift: Mapping[str, Mapping[str, float]]) -> str | None:
    """Return how much a scaling of all rows would differ from that of the last run, which is kept."""
    if not drift:
        return None
    change = max(each["change"] for each in drift.values())
    return (f"at most {percent(change, 2)} of the spread of a column, in its mean or its spread; the scaling of the "
            "last run is kept")


def _categories(scaling: Attributes) -> str | None:
    """Return how columns of 0 and 1 were scaled where they were apart from the numbers."""
    if "categories" not in scaling:
        return None
    return (f"{counted(scaling['categories'], 'column')} of 0 and 1. Two levels of a category are at most "
            f"{number(scaling['level_distance'])} apart, which is no more than 1.4 times the distance of near neighbors"
            " in the numbers. So a category alone does not disconnect the graph, and it spreads no more than a number")


def _count(value: object) -> str | None:
    return None if value is None else number(value)


def _target(target: Mapping[str, float] | None) -> str | None:
    if not target:
        return None
    return (f"from {number(target.get('min'))} to {number(target.get('max'))}, mean {number(target.get('mean'))}, "
            f"standard deviation {number(target.get('deviation'))}")


def _labels_per_class(classes: Sequence[object], per_class: Sequence[int]) -> str | None:
    if not per_class:
        return None
    if min(per_class) == max(per_class):
        return f"{number(per_class[0])} each"
    if len(per_class) <= MAX_CLASSES and len(classes) == len(per_class):
        return ", ".join(f"{plain_label(name, 40)}: {number(count)}"
                         for name, count in zip(classes, per_class, strict=True))
    return f"from {number(min(per_class))} to {number(max(per_class))}, median {number(median(per_class))}"


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
        "columns.html", alarms=alarms, summary=_summary(records, run.at("dataset", "dataset", "target") is not None),
        rows=rows, n_more=len(shown) - MAX_ROWS))


def _keys_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the key of the spec that names a column as no feature, by column; `data.read.drop` is not among them."""
    tags, weight = at(spec, "data", "tags") or {}, at(spec, "labels", "weight")
    named = {"data.tags": [tags.get("column"), *(tags.get("columns") or ())], "labels.weight": [weight],
             "model.soft_labels": at(spec, "model", "soft_labels", "columns") or ()}
    return {column: key for key, columns in named.items() for column in columns if column is not None}


def _summary(records: Sequence[Column], has_target: bool) -> str:
    """Return how many columns of each type there are, how many are used, incomplete, or look like something else.

    has_target : whether the source has a target, which is none of these.
    """
    kinds = Counter(OF_KIND[record["kind"]] for record in records)
    used = [record for record in records if record["used"]]
    types = ", ".join(f"{number(count)} {kind}" for kind, count in kinds.most_common())
    sentences = [f"The source has {counted(len(records), 'column')}{' beside the target' * has_target} ({types}), "
                 f"and the model uses {number(len(used))} of them."]
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
