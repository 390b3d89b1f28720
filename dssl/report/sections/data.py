"""Where the points come from, how many there are, which of them are labeled, and how they were scaled."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, TypedDict, cast

from ..page import Section
from ..plots import MAX_CLASSES
from ..record import RunRecord
from ..rendering import rendered
from ..text import at, counted, listed, number, percent, plain_label

SCALINGS = {
    "standardize": "each column to mean 0 and standard deviation 1", "unit_range": "each column to [0, 1]",
    "max_abs": "each column by its largest absolute value", "unit_norm": "each row to length 1",
    "global_range": "one factor for all columns", "none": "features are used as they are",
}


class Scaling(TypedDict, total=False):
    """How the features were scaled."""

    kind: str
    numbers: str
    ranges: float
    categories: int
    level_distance: float
    constant_columns: int
    constant_column_names: Sequence[str]
    zero_rows: int


def data_section(run: RunRecord) -> Section | None:
    """Return what the stages from the source to the scaled points found; labels and test points where there are any."""
    split, scaling = run.stage("split"), cast(Scaling, run.at("points", "scaling") or {})
    classes, per_class = split.get("classes") or [], run.at("labels", "per_class") or []
    tags = split.get("tags") or []
    n_labeled, n_train = run.at("labels", "n_labeled"), split.get("n_train")
    share = f" ({percent(n_labeled / n_train, 2)} of the training points)" if n_labeled is not None and n_train else ""
    constant, names = scaling.get("constant_columns"), scaling.get("constant_column_names") or []
    source, outliers = at(run.spec, "data", "source"), run.at("points", "outlier_rows")
    digest = run.at("dataset", "dataset", "fingerprint")
    rows: list[tuple[str, Any]] = [
        ("source", ", ".join(source) if isinstance(source, list) else source),
        ("SHA-256", digest),
        ("changes since the last run", "; ".join(run.growth) or None),
        ("points in the data set", _count(run.at("dataset", "n"))),
        ("features d", _count(run.at("dataset", "d"))),
        ("training points n", _count(n_train)),
        ("labeled points", None if n_labeled is None else number(n_labeled) + share),
        ("test points", _count(split.get("n_test"))),
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


def _scaling(scaling: Scaling) -> str | None:
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


def _categories(scaling: Scaling) -> str | None:
    """Return how columns of 0 and 1 were scaled where they were apart from the numbers."""
    if "categories" not in scaling:
        return None
    return (f"{counted(scaling['categories'], 'column')} of 0 and 1. Two levels of a category are at most "
            f"{number(scaling['level_distance'])} apart, which is no more than twice the distance of near neighbors in "
            "the numbers. So a category alone does not disconnect the graph, and it spreads no more than a number")


def _count(value: Any) -> str | None:
    return None if value is None else number(value)


def _target(target: Mapping[str, float] | None) -> str | None:
    if not target:
        return None
    return (f"from {number(target.get('min'))} to {number(target.get('max'))}, mean {number(target.get('mean'))}, "
            f"standard deviation {number(target.get('deviation'))}")


def _labels_per_class(classes: Sequence[Any], per_class: Sequence[int]) -> str | None:
    if not per_class:
        return None
    if min(per_class) == max(per_class):
        return f"{number(per_class[0])} each"
    if len(per_class) <= MAX_CLASSES and len(classes) == len(per_class):
        return ", ".join(f"{plain_label(name, 40)}: {number(count)}"
                         for name, count in zip(classes, per_class, strict=True))
    return f"from {number(min(per_class))} to {number(max(per_class))}, median {number(median(per_class))}"
